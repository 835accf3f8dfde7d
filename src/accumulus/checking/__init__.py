"""Derivatives held against their function: by values, differences, complex steps, and against each other."""
