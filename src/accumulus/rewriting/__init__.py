"""Optimiser by rules: the same outputs by fewer or cheaper operations."""
