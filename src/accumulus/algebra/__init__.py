"""Accumulations as mathematics: noncommutative expressions with references, and the relations between their factors."""
