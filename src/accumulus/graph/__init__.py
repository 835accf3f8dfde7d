"""Differentiation graphs, their file formats, and the conversion of a tape to its graph."""
