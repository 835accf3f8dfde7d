"""Structure of graphs, as in the notes: paths, local Jacobians, line graphs, dominators, chains and blocks."""
