"""Derivatives of programs over arrays: eliminations inside of bodies, then between arrays."""
