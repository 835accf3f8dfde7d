"""Derivatives that leave the process: in files, and as libraries and packages."""
