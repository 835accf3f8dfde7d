"""Optimiser by rules: the same outputs with fewer or cheaper operations."""
