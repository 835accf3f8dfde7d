"""Exact search: proven optima of vertex, edge and face elimination, and lower bounds for graphs of any size."""
