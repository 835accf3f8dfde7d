"""The kernels of this package, and what they work on."""
