"""Comparison of derivatives with their function: values, differences, complex steps, and several programs."""
