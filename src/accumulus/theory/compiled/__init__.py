"""Kernels of the searches and proofs of the theory."""
