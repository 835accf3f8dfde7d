"""The tape's optimiser: the same outputs by fewer or cheaper operations."""
