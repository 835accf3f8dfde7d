"""What the notes say of graphs: paths, levels, local Jacobians, line graphs, dominators, chains and blocks."""
