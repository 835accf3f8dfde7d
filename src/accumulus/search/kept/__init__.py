"""Plans on disk: files that users save, and what is kept for the next time."""
