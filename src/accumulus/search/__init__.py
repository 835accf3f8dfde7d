"""Search for cheap plans: methods that choose an order, their registry, and the plans that they make."""
