"""Methods of the literature and the notes: greedy sequences, factorization, D*, local Jacobians, pages, annealing."""
