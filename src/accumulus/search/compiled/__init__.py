"""The searches' kernels, and what their blocks hold."""
