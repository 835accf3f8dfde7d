"""Theory of the notes: methods, bounds and exact searches; `accumulus.methods` lists the methods by name."""
