"""Kernels of derivatives between arrays."""
