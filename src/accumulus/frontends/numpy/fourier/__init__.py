"""Discrete Fourier transforms of constant length: `transforms` computes them, `functions` and `cosines` are their names
in NumPy and SciPy."""

from accumulus.frontends.numpy.fourier import cosines, functions  # noqa: F401  # fill the tables
