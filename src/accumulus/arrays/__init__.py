"""Derivatives of programs over arrays: elimination inside of bodies, then between arrays."""
