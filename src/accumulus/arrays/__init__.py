"""Derivatives of programs over arrays: elimination inside bodies, then between arrays."""
