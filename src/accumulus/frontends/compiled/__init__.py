"""Kernels of the front ends."""
