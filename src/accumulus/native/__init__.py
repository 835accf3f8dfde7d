"""Kernels written in Python and run as machine code: compiled once a machine, kept, and the memory they work in."""
