"""What some programs for the same compute, all ways to make it, and which of these may be chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from accumulus.native.machine import kernel
from accumulus.native.state import Integers
from accumulus.resubstitution.bounds import Reals
from accumulus.resubstitution.compiled.definitions_state import ARGUMENTS, NODE, ORDER, DefinitionsState
from accumulus.resubstitution.definitions import PRICES, Definition
from accumulus.resubstitution.extraction import Extraction
from accumulus.resubstitution.rounding import Rounding
from accumulus.resubstitution.values import Reading, Values
from accumulus.tape.weights import UNIT

__all__ = ["WORSE", "Candidates", "Universe"]

#: How many times as uncertain as it was a result may be, at most.
WORSE: Final = 4.0
#: By how many times as much definitions of given programs may be, if there are no others.
MORE: Final = (4.0, 16.0, math.inf)


class Universe(NamedTuple):
    """What programs compute.

    Attributes:
        values: all of it.
        start: the cheapest of the programs.
        known: so many of the definitions, the first ones, are those of programs.
        candidates: numbers of all definitions that may be taken.
        rounding: of these.
    """

    values: Values
    start: Reading
    known: int
    candidates: Integers
    rounding: Rounding


class Candidates:
    """Definitions that may be chosen: those that leave values no more uncertain than they may be.

    Args:
        universe: of the values.
        factor: how many times as uncertain a definition may make its value as it was.
        slack: so many units of rounding besides.
    """

    def __init__(self, universe: Universe, factor: float, slack: float) -> None:
        self._universe, self._factor = universe, factor
        self._numbers = universe.candidates
        self._excess: Reals = universe.rounding.excess(universe.values.definitions, self._numbers, slack)

    def extraction(self, seed: int) -> Extraction:
        """The choice among them; where a value has none, more uncertain ones of programs are taken."""
        values, start, known, *_ = self._universe
        numbers, excess, factor = self._numbers, self._excess, self._factor
        preferred = start.own | values.fixed
        roots = [*map(abs, values.base.outputs), *values.fixed]
        wanted = [root for root in roots if root in values.base.own]
        rows = values.definitions.rows
        allowed = np.concatenate([numbers[excess <= factor], np.fromiter(values.fixed.values(), np.int64)])
        first = _without_circles(values, allowed, preferred)
        for more in MORE:
            if first[wanted].all():
                break
            missing = (numbers < known) & (excess <= more * factor) & (first[rows[numbers, NODE]] == 0)
            allowed = np.concatenate([allowed, numbers[missing]])
            first = _without_circles(values, allowed, preferred)
        # what nothing makes is not there to be used
        there = (first > 0) | values.is_given
        there[0] = True
        allowed = allowed[there[np.abs(rows[allowed, ARGUMENTS])].all(axis=1)]
        made = np.flatnonzero(first)
        begun = dict(zip(made.tolist(), (first[made] - 1).tolist(), strict=True))
        return Extraction(len(values), values.definitions, allowed, roots, begun, PRICES, UNIT, seed)

    def drop_faults(self, chosen: Mapping[int, Definition]) -> bool:
        """Leave out the definitions at which a choice of them goes wrong at some point; whether there are such."""
        values, rounding = self._universe.values, self._universe.rounding
        definitions, numbers = values.definitions, self._numbers
        # a value's last definition is no fault
        ways = np.bincount(definitions.rows[numbers[self._excess <= self._factor], NODE], minlength=len(values))
        faults = rounding.faults(chosen, {each for each in chosen.values() if ways[each.node] < 2}, WORSE)
        kept = ~np.isin(numbers, [definitions.add(fault) for fault in faults])
        self._numbers, self._excess = numbers[kept], self._excess[kept]
        return bool(faults)


def _without_circles(values: Values, allowed: Integers, preferred: Mapping[int, int]) -> Integers:
    """A definition for each value that can be computed by some, made of values that come before it; rather some.

    Args:
        allowed: numbers of the definitions.
        preferred: numbers, by value.

    Returns:
        Number of the definition of each value, plus one; 0 for those without, (values,).
    """
    count = len(values)
    wanted = np.zeros(count, np.int64)
    wanted[np.fromiter(preferred, np.int64)] = 1 + np.fromiter(preferred.values(), np.int64)
    state = DefinitionsState(
        mode=ORDER,
        rows=values.definitions.rows,
        numbers=np.ascontiguousarray(allowed),
        number_count=len(allowed),
        is_given=values.is_given.astype(np.int64),
        preferred=wanted,
        chosen=np.zeros(count, np.int64),
        missing=np.zeros(len(allowed), np.int64),
        heads=np.zeros(count, np.int64),
        nexts=np.zeros((len(allowed), 3), np.int64),
        queue=np.zeros(2 * len(allowed), np.int64),
    )
    kernel("resubstitution.definitions")(state.address)
    return state.chosen
