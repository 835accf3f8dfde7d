"""Cones of equal form, as classes: each becomes a few blocks, with one instance for each cone.

Forms alone are not enough. Parts of a program that look alike but belong to different places are parted by what they
take, and by who takes them, in a few rounds; so the instances of what belongs together follow each other in the same
order, and their blocks join to larger bodies (`accumulus.tape.fusion`). Each round parts the neighbourhood of
boundaries from what is inside, too, so there are not many.

Where instances take results of others of the same class, a few levels of them are classes of their own, each of which
takes results of the one before; many are a recurrence.

**Recurrences** are cones of few classes that take each other's results, again and again in the same order.

Cones whose classes depend on each other are looked at in the order of the program. Where the sequence of their classes
is periodic, one period is an instance of a recurrence. Instances that do not take each other's results are one step:
the cells of a grid that is advanced in time, or trajectories that are computed one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.state import Integers
from accumulus.repetition.compiled.cones_kernel import WIDTH
from accumulus.repetition.cones import Cones
from accumulus.tape.passes import topological

#: Part of the cones that instances have to cover.
COVERED: Final = 0.8
#: Instances, at least.
FEWEST: Final = 8
#: How many classes are asked for the period, the rarest first; and how often each may come in one.
ASKED: Final = 4
OFTEN: Final = 64
#: Comparisons of classes that finding where instances begin may take.
MOST_COMPARED: Final = 200_000_000


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Instances of the same cones, in steps."""

    cones: Integers  # of each instance, (instances, cones), in an order in which they can be computed
    steps: Integers  # where the instances of each step begin, and where those of the last end


def recurrence_of(cones: Cones, labels: Integers, chosen: Integers) -> Recurrence | None:
    """The recurrence that some cones are; None if they are no periodic sequence.

    Args:
        labels: the class of each cone.
        chosen: cones whose classes depend on each other, in the order of the program.
    """
    sequence = labels[chosen]
    period = _period(sequence)
    if period is None:
        return None
    pattern = _pattern(sequence, period)
    best: tuple[float, int, int] | None = None
    result = None
    # where an instance begins decides how many are independent, and how much each hands on
    for turn in range(period if period**2 * len(sequence) <= MOST_COMPARED else 1):
        begins = _occurrences(sequence, np.roll(pattern, -turn))
        if len(begins) < FEWEST or period * len(begins) < COVERED * len(chosen):
            continue
        found = chosen[begins[:, np.newaxis] + np.arange(period)]
        instances = np.full(cones.count, -1)
        instances[found] = np.arange(len(found))[:, np.newaxis]
        steps = cones.steps(instances)
        depth = round((int(steps.max()) + 1) / len(found), 2)
        score = depth, int(taken_elsewhere(cones, instances)[found].any(axis=0).sum()), -len(found)
        if best is None or score < best:
            offsets = np.append(0, np.cumsum(np.bincount(steps)))
            best, result = score, Recurrence(found[np.argsort(steps, kind="stable")], offsets)
    return result


def taken_elsewhere(cones: Cones, instances: Integers) -> NDArray[np.bool_]:
    """Return the cones that are outputs, or taken by other instances than their own; -1 stands for no instance."""
    leaves, offsets = cones.leaves
    users = np.repeat(instances, np.diff(offsets))
    taken = cones.cone_of[np.maximum(leaves[: offsets[-1]], -1)]
    result = np.zeros(cones.count + 1, bool)
    result[taken[(instances[taken] != users) | (users < 0)]] = True
    result[cones.cone_of[np.maximum(cones.tape.outputs, -1)]] = True
    return result[:-1]


def _period(sequence: Integers) -> int | None:
    """The shortest distance at which most of a sequence comes again."""
    counts = np.bincount(sequence)
    rarest = [label for label in np.argsort(counts, kind="stable").tolist() if counts[label] >= FEWEST]
    for label in rarest[:ASKED]:
        places = np.flatnonzero(sequence == label)
        for times in range(1, min(OFTEN, len(places) - 1) + 1):
            distances, often = np.unique(places[times:] - places[:-times], return_counts=True)
            period = int(distances[np.argmax(often)])
            if np.count_nonzero(sequence[period:] == sequence[:-period]) >= COVERED * (len(sequence) - period):
                return period
    return None


def _pattern(sequence: Integers, period: int) -> Integers:
    """One period, as it begins where it comes again for longest."""
    again = np.concatenate([[False], sequence[period:] == sequence[:-period], [False]]).astype(np.int8)
    begins, ends = (np.flatnonzero(np.diff(again) == turn) for turn in (1, -1))
    first = begins[np.argmax(ends - begins)]
    return sequence[first : first + period]


def _occurrences(sequence: Integers, pattern: Integers) -> Integers:
    """Return the places at which a pattern begins, without overlaps."""
    period = len(pattern)
    count = len(sequence) - period + 1
    alike = np.ones(max(count, 0), bool)
    for k in range(period):
        alike &= sequence[k : k + count] == pattern[k]
    found = np.flatnonzero(alike)
    if len(found) and (np.diff(found) < period).any():
        found = found[(found - found[0]) % period == 0]
    return found


#: Rounds in which classes are parted by what they take, and by who takes them.
ROUNDS: Final = 2
#: Levels of one class of which each is one of its own: where there are few, and at most, where there is no recurrence.
FEW_LEVELS: Final = 3
MOST_LEVELS: Final = 16
#: Classes that depend on each other, at most: of more, operations are no few.
MOST_MUTUAL: Final = 1_000


@dataclass(frozen=True, slots=True)
class Classes:
    """Cones as instances of classes."""

    labels: Integers  # the class of each cone
    order: Integers  # classes, each after all that it takes results of
    recurrences: dict[int, Recurrence] = field(default_factory=dict)  # by class, of those that are one

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
    """Return the classes that take results of their own, directly or by way of others, or are between such classes."""
    count = int(labels.max(initial=-1)) + 1
    found = np.ones(count, bool)
    for one, other in ((starts, to), (to, starts)):
        behind = np.ones(count, bool)
        behind[topological(count, one, other)] = False
        found &= behind
    return found
