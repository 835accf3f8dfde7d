"""Search for cheap plans: search methods, their registry, and plans with their files and cache."""
