"""Cones of equal form, as classes: each becomes a few blocks, with one instance for each cone.

Forms alone are not enough. Parts of a program that look alike but belong to different places are parted by what they
take, and by who takes them, in a few rounds; so the instances of what belongs together follow each other in the same
order, and their blocks join to larger bodies (`accumulus.tape.fusion`). Each round parts the neighbourhood of
boundaries from what is inside, too, so there are not many.

Where instances take results of others of the same class, a few levels of them are classes of their own, each of which
takes results of the one before; many are a recurrence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.state import Integers
from accumulus.repetition.compiled.cones_state import WIDTH
from accumulus.repetition.cones import Cones
from accumulus.repetition.recurrences import Recurrence, recurrence_of
from accumulus.tape.passes import topological

__all__ = ["Classes", "classes_of"]

#: Rounds in which classes are parted by what they take, and by who takes them.
ROUNDS: Final = 2
#: Levels of one class of which each is one of its own: where there are few, and at most, where there is no recurrence.
FEW_LEVELS: Final = 3
MOST_LEVELS: Final = 16
#: Classes that depend on each other, at most: of more, operations are no few.
MOST_MUTUAL: Final = 1_000


@dataclass(frozen=True, slots=True)
class Classes:
    """Which cones are instances of the same.

    Attributes:
        labels: the class of each cone.
        order: classes, each after all that it takes results of.
        recurrences: by class, of those that are one.
    """

    labels: Integers
    order: Integers
    recurrences: dict[int, Recurrence] = field(default_factory=dict)

    def distinct(self, operations: Integers) -> int:
        """Operations of one instance of each class together, given those of each cone."""
        inside = sum(int(operations[each.cones[0]].sum()) for each in self.recurrences.values())
        return _distinct(self.labels, operations) + inside


def classes_of(cones: Cones, most: int) -> Classes | None:
    """The classes of a program; None if there are too many, or instances need each other's results in no order.

    Args:
        cones: of the program.
        most: operations of one instance of each class together.
    """
    known = np.zeros(cones.count, np.int64)
    labels = coarse = _numbered(cones.forms(known))
    operations = np.diff(cones.words[1]) // WIDTH
    if _distinct(labels, operations) > most:
        return None
    for _ in range(ROUNDS):
        finer = _numbered(cones.forms(labels), *cones.users(labels).T)
        if _distinct(finer, operations) > most:
            cones.forms(known)  # as these classes have them
            break
        known, labels = labels, finer
    blank = np.zeros(cones.count, np.int64)
    # without their neighbourhoods the first steps of a recurrence and the last are as all others
    for before, chosen, make in (
        (known, labels, partial(_by_levels, most=FEW_LEVELS)),
        (blank, coarse, _with_recurrences),
        (known, labels, _with_recurrences),
        (blank, coarse, partial(_by_levels, most=MOST_LEVELS)),
    ):
        cones.forms(before)
        found = make(cones, chosen)
        if found is not None and found.distinct(operations) <= most:
            return found
    return None


def _by_levels(cones: Cones, labels: Integers, most: int) -> Classes | None:
    """The classes, those that take their own results parted by levels; None if these are more than so many."""
    around = _on_cycles(labels, *_edges(cones, labels))[labels]
    levels = np.where(around, cones.levels(), 0)
    if len(np.unique(levels[around])) > most:
        return None
    return _ordered(cones, _numbered(labels, levels), {})


def _with_recurrences(cones: Cones, labels: Integers) -> Classes | None:
    """The classes with recurrences in the place of those that depend on each other; None if they are none."""
    starts, to = _edges(cones, labels)
    component = _components(_on_cycles(labels, starts, to), starts, to)
    if component is None:
        return None
    # what is left over of them is parted by levels
    finer = _numbered(labels, np.where(component[labels] >= 0, cones.levels(), 0))
    found: list[Recurrence] = []
    for each in np.unique(component[component >= 0]).tolist():
        recurrence = recurrence_of(cones, labels, np.flatnonzero(component[labels] == each))
        if recurrence is None:
            return None
        finer[recurrence.cones] = cones.count + len(found)
        found.append(recurrence)
    finer = _numbered(finer)
    return _ordered(cones, finer, {int(finer[each.cones[0, 0]]): each for each in found})


def _ordered(cones: Cones, labels: Integers, recurrences: dict[int, Recurrence]) -> Classes | None:
    """Classes in an order in which they can be computed, if there is one and their cones are of one form each."""
    count = int(labels.max(initial=-1)) + 1
    representatives = np.unique(labels, return_index=True)[1][labels]
    for each in recurrences.values():
        representatives[each.cones] = each.cones[:1]
    if not cones.alike(representatives):
        return None  # a hash was that of two forms
    starts, to = _edges(cones, labels)
    inside = (starts == to) & np.isin(starts, list(recurrences))
    order = topological(count, to[~inside], starts[~inside])
    return Classes(labels, order, recurrences) if len(order) == count else None


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
    count = max(int(labels.max(initial=-1)) + 1, 1)
    users = np.repeat(labels, np.diff(offsets))
    taken = cones.cone_of[np.maximum(leaves[: offsets[-1]], -1)]
    inside = taken >= 0
    keys = np.unique(labels[taken[inside]] * count + users[inside])
    return keys // count, keys % count


def _components(around: NDArray[np.bool_], starts: Integers, to: Integers) -> Integers | None:
    """For each class a number that it has in common with those that it depends on, and that depend on it.

    -1 where there are none; None if there are too many.

    Args:
        around: classes that may have some.
        starts, to: pairs of classes of which the second takes a result of the first.
    """
    chosen = np.flatnonzero(around)
    if len(chosen) > MOST_MUTUAL:
        return None
    place = np.full(len(around), -1)
    place[chosen] = np.arange(len(chosen))
    inside = around[starts] & around[to]
    reached = np.zeros((len(chosen), len(chosen)), np.float32)
    reached[place[starts[inside]], place[to[inside]]] = 1.0
    for _ in range(len(chosen).bit_length()):
        reached = np.minimum(reached + reached @ reached, 1.0)
    mutual = (reached > 0) & (reached.T > 0)
    result = np.full(len(around), -1)
    result[chosen] = np.where(mutual.any(axis=1), mutual.argmax(axis=1), -1)
    return result


def _on_cycles(labels: Integers, starts: Integers, to: Integers) -> NDArray[np.bool_]:
    """Which classes take results of their own, directly or by way of others; or are on the way between such."""
    count = int(labels.max(initial=-1)) + 1
    found = np.ones(count, bool)
    for one, other in ((starts, to), (to, starts)):
        behind = np.ones(count, bool)
        behind[topological(count, one, other)] = False
        found &= behind
    return found
