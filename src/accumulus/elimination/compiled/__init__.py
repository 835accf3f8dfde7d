"""Kernels of vertex elimination, and of what steps make of labels."""
