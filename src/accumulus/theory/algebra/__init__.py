"""Accumulations as mathematics: noncommutative expressions with references, and the relations between their factors.

What is mostly used has its name here, too; the modules say what else there is.
"""

from accumulus.theory.algebra.dependencies import Dependencies, elimination_dependencies
from accumulus.theory.algebra.lemma import lemma1_violations
from accumulus.theory.algebra.relations import Face, Relation
from accumulus.theory.algebra.sequence import elimination_sequence
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.splits import least_splits

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
