"""Methods without a search: greedy sequences, factorization, D*, local Jacobians, pages."""
