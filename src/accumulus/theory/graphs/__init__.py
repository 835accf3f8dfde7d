"""Structure of graphs, as in the notes: paths, levels, local Jacobians, line graphs, dominators, chains and blocks."""
