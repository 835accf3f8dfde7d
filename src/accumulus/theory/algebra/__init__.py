"""Accumulations as mathematics: noncommutative expressions with references, and the relations between their factors.

This package exports the most common names.
"""

from accumulus.theory.algebra.relations import Dependencies, Face, Relation, elimination_dependencies, lemma1_violations
from accumulus.theory.algebra.sequence import elimination_sequence, least_splits
from accumulus.theory.algebra.sets import ExpressionSet

__all__ = [
    "Dependencies",
    "ExpressionSet",
    "Face",
    "Relation",
    "elimination_dependencies",
    "elimination_sequence",
    "least_splits",
    "lemma1_violations",
]
