"""Theory of the notes: algebra of expressions, search methods, lower bounds and exact searches."""
