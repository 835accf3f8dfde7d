"""The optimiser's kernel, and what its block holds."""
