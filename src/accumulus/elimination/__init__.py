"""Ways to accumulate a Jacobian, what they cost, and the way back to a tape."""
