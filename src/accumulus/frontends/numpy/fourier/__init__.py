"""Discrete Fourier transforms of constant length: `transforms` computes them, `functions` are their names in NumPy."""

from accumulus.frontends.numpy.fourier import functions  # noqa: F401  # fills the table
