"""Ways to accumulate a Jacobian, their costs, and the way back to a tape."""
