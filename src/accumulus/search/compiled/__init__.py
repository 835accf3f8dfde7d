"""The searches' kernels: compiled once a machine, kept as object code, and the memory that they work in."""
