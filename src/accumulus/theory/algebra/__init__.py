"""Accumulations as mathematics: noncommutative expressions with references, and the relations between their factors.

What is mostly used has its name here, too; the modules say what else there is.
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
