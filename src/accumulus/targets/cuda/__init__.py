"""The `cuda` target: source for NVIDIA's GPUs, one thread a point."""
