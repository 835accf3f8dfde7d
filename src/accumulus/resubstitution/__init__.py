"""Resubstitution: replace a value by a cheaper expression of others that is equal for all arguments."""
