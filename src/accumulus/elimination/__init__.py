"""Accumulation of Jacobians: vertex, edge, face and symmetric elimination, costs, and emission as a tape."""
