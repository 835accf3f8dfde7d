"""The `c` target: C99 source with a header, and kernels compiled from it by the machine's own compiler."""
