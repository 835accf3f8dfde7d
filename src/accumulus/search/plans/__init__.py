"""The plan: what it says of itself, plans in files that users save, and plans in the cache."""
