"""Derivatives compiled for arguments of one shape, from packing arguments to shaping results."""
