"""Cones of equal form, as classes: each becomes a few blocks, with one instance for each cone.

Forms alone are not enough. Parts of a program that look alike but belong to different places are parted by what they
take, and by who takes them, in a few rounds; so the instances of what belongs together follow each other in the same
order, and their blocks join to larger bodies (`accumulus.tape.fusion`). Each round parts the neighbourhood of
boundaries from what is inside, too, so there are not many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.native.state import Integers
from accumulus.repetition.compiled.cones_state import WIDTH
from accumulus.repetition.cones import Cones
from accumulus.tape.passes import topological

__all__ = ["Classes", "classes_of"]

#: Rounds in which classes are parted by what they take, and by who takes them.
ROUNDS: Final = 2


@dataclass(frozen=True, slots=True)
class Classes:
    """Which cones are instances of the same.

    Attributes:
        labels: the class of each cone.
        order: classes, each after all that it takes results of.
        operations: of one instance of each class.
    """

    labels: Integers
    order: Integers
    operations: Integers

    @property
    def distinct(self) -> int:
        """Operations of one instance of all classes together."""
        return int(self.operations.sum())


def classes_of(cones: Cones, most: int) -> Classes | None:
    """The classes of a program; None if they have more operations than `most`, or one instance needs another's result.

    Args:
        cones: of the program.
        most: operations of one instance of each class together.
    """
    known = np.zeros(cones.count, np.int64)
    labels = _numbered(cones.forms(known))
    operations = np.diff(cones.words[1]) // WIDTH
    if _distinct(labels, operations) > most:
        return None
    for _ in range(ROUNDS):
        finer = _numbered(cones.forms(labels), *cones.users(labels).T)
        if _distinct(finer, operations) > most:
            cones.forms(known)  # as these classes have them
            break
        known, labels = labels, finer
    starts, to = _edges(cones, labels)
    around = _on_cycles(labels, starts, to)
    if around.any():
        labels = _numbered(labels, np.where(around[labels], cones.levels(), 0))
        if _distinct(labels, operations) > most:
            return None
        starts, to = _edges(cones, labels)
    representatives = np.unique(labels, return_index=True)[1]
    if not cones.alike(representatives[labels]):
        return None  # a hash was that of two forms
    order = topological(len(representatives), to, starts)
    return Classes(labels, order, operations[representatives])


def _numbered(first: Integers, *others: Integers) -> Integers:
    """Columns of words as numbers from 0 on: equal for equal rows."""
    numbers: Integers = np.unique(first, return_inverse=True)[1].reshape(-1)
    for column in others:
        more = np.unique(column, return_inverse=True)[1].reshape(-1)
        numbers = np.unique(numbers * (int(more.max(initial=0)) + 1) + more, return_inverse=True)[1].reshape(-1)
    return numbers


def _distinct(labels: Integers, operations: Integers) -> int:
    """Operations of one cone of each class together."""
    return int(operations[np.unique(labels, return_index=True)[1]].sum())


def _edges(cones: Cones, labels: Integers) -> tuple[Integers, Integers]:
    """Pairs of classes of which the second takes a result of the first."""
    leaves, offsets = cones.leaves
    count = int(labels.max(initial=-1)) + 1
    users = np.repeat(labels, np.diff(offsets))
    taken = cones.cone_of[np.maximum(leaves[: offsets[-1]], -1)]
    inside = taken >= 0
    keys = np.unique(labels[taken[inside]] * count + users[inside])
    return keys // max(count, 1), keys % max(count, 1)


def _on_cycles(labels: Integers, starts: Integers, to: Integers) -> np.ndarray:
    """Which classes take results of their own, directly or by way of others; or are on the way between such."""
    count = int(labels.max(initial=-1)) + 1
    found = np.ones(count, bool)
    for one, other in ((starts, to), (to, starts)):
        behind = np.ones(count, bool)
        behind[topological(count, one, other)] = False
        found &= behind
    return found
