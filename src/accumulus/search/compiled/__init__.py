"""The kernel of annealing, and its state."""
