"""Comparison of derivatives with their function: by values, differences, complex steps, and with each other."""
