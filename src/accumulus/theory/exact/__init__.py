"""Exact searches: proven optima of vertex, edge and face elimination."""
