"""Accumulations that are no search: greedy sequences, factorization, D*, local Jacobians, pages."""
