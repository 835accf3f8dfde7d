"""Differentiation graphs, their files, and the way from a tape to its graph."""
