"""The `c` target: C99 source with a header, and kernels that the machine's own compiler makes of it."""
