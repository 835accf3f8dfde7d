"""Annealed sequences of vertices, edges and faces."""
