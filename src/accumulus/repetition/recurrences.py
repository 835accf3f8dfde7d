"""Recurrences: cones of few classes that take each other's results, again and again in the same order.

Cones whose classes depend on each other are looked at in the order of the program. Where the sequence of their classes
is periodic, one period is an instance of a recurrence. Instances that do not take each other's results are one step:
the cells of a grid that is advanced in time, or trajectories that are computed one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.state import Integers
from accumulus.repetition.cones import Cones

__all__ = ["Recurrence", "recurrence_of", "taken_elsewhere"]

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
    """Instances of the same cones, in steps.

    Attributes:
        cones: of each instance, (instances, cones), in an order in which they can be computed.
        steps: where the instances of each step begin, and where those of the last end.
    """

    cones: Integers
    steps: Integers


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
    """Which cones are outputs, or taken by others that are not part of the same instance; -1 stands for no instance."""
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
    """Where a pattern begins each time, without overlaps."""
    period = len(pattern)
    count = len(sequence) - period + 1
    alike = np.ones(max(count, 0), bool)
    for k in range(period):
        alike &= sequence[k : k + count] == pattern[k]
    found = np.flatnonzero(alike)
    if len(found) and (np.diff(found) < period).any():
        found = found[(found - found[0]) % period == 0]
    return found
