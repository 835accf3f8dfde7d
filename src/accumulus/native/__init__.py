"""Kernels written in Python and run as machine code: compiled once a machine, cached, and the memory they work in."""
