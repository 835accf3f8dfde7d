"""The choice of definitions by which a program is the cheapest: how `extraction_kernel` is driven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from accumulus.annealing import slices, thresholds
from accumulus.deadline import LOOK, Deadline
from accumulus.native.machine import kernel
from accumulus.native.state import Integers
from accumulus.resubstitution.compiled.definitions_state import ARGUMENTS, CODE, NODE
from accumulus.resubstitution.compiled.extraction_state import DEEPEST, THRESHOLD_COUNT, ExtractionState
from accumulus.resubstitution.definitions import Definition, Table
from accumulus.resubstitution.exact import Least, cheaper

__all__ = ["Extraction"]

#: Seconds of work of a move, and moves of a call of the kernel.
MOVE: Final = 2.5e-7
TOGETHER: Final = int(LOOK / 2 / MOVE)
#: Temperatures at the start and at the end, as parts of what an addition costs.
HOT: Final = 0.7
COLD: Final = 0.15

#: Arrays of the kernel's state with one number for each value.
_ONE_EACH: Final = ("uses", "live", "places", "marks", "stack")


class Extraction:
    """Definitions to choose from, and a choice of them.

    Args:
        count: numbers of values are below that.
        definitions: some, and the numbers of those that are `allowed` to be chosen.
        roots: values that are needed.
        start: numbers of the definitions to begin with, by value, without circles; those of all that the roots need.
        prices: what the definition costs, by the code of the operation.
        unit: what an addition costs.
    """

    def __init__(
        self,
        count: int,
        definitions: Table,
        allowed: Integers,
        roots: Iterable[int],
        start: Mapping[int, int],
        prices: Sequence[int],
        unit: int,
        seed: int = 0,
    ) -> None:
        # each only once, those of a value side by side
        rows = definitions.rows
        numbers = np.unique(np.concatenate([allowed, np.fromiter(start.values(), np.int64)]))
        numbers = numbers[np.lexsort(rows[numbers].T[::-1])]
        rows = rows[numbers]
        self._definitions, self._numbers, self._unit, self._prices = definitions, numbers, unit, prices
        self._arguments = arguments = np.abs(rows[:, ARGUMENTS])
        firsts = np.searchsorted(rows[:, NODE], np.arange(count + 1))
        places = np.zeros(1 + numbers.max(initial=0), np.int64)
        places[numbers] = np.arange(len(numbers))
        chosen = np.where(firsts[1:] > firsts[:-1], firsts[:-1], 0)
        chosen[np.fromiter(start, np.int64)] = places[np.fromiter(start.values(), np.int64)]
        arrays: dict[str, Any] = {name: np.zeros(count, np.int64) for name in _ONE_EACH}
        arrays |= {name: np.zeros(DEEPEST, np.int64) for name in ("revived", "before")}
        self._state = state = ExtractionState(
            firsts=firsts,
            arguments=arguments,
            prices=np.array(prices, np.int64)[rows[:, CODE]],
            chosen=chosen,
            **arrays,
            work=np.zeros(4 * count + 16, np.int64),
            thresholds=thresholds(THRESHOLD_COUNT),
            random=np.array([(0x9E3779B97F4A7C15 * (seed + 1) & (1 << 63) - 1) | 1]),
            best_chosen=chosen.copy(),
            count=count,
        )
        self._roots = {value for value in roots if firsts[value] < firsts[value + 1]}
        is_made = (firsts[1:] > firsts[:-1]).tolist()
        taken = arguments[chosen].tolist() if self._roots else []
        uses, waiting = [0] * count, list(self._roots)
        while waiting:
            value = waiting.pop()
            if not is_made[value]:
                continue
            uses[value] += 1
            if uses[value] == 1:
                waiting += taken[value]
        state.uses[:] = uses
        live = np.flatnonzero(state.uses)
        state.live[: len(live)], state.places[live], state.live_count = live, np.arange(len(live)), len(live)
        state.best = state.cost = int(state.prices[chosen[live]].sum())
        self._run = kernel("resubstitution.extraction")

    @property
    def best_cost(self) -> int:
        """The least cost so far."""
        return self._state.best

    def anneal(self, visits: int, deadline: Deadline, hot: float = HOT) -> None:
        """Try so many moves, or as many as there is work left for."""
        for _ in slices(self._state, self._search, visits, hot, COLD, self._unit, deadline, MOVE):
            pass

    def best(self) -> dict[int, Definition]:
        """The cheapest choice so far, by value, of what the roots need."""
        if not self._roots:
            return {}
        firsts, chosen = self._state.firsts, self._state.best_chosen
        is_made, taken = (firsts[1:] > firsts[:-1]).tolist(), self._arguments[chosen].tolist()
        numbers = self._numbers[chosen].tolist()
        found: dict[int, Definition] = {}
        waiting = list(self._roots)
        while waiting:
            value = waiting.pop()
            if value not in found and is_made[value]:
                found[value] = self._definitions[numbers[value]]
                waiting += taken[value]
        return found

    def exact(self, deadline: Deadline) -> tuple[dict[int, Definition], Least | None]:
        """The cheapest choice so far or one that is cheaper, and what is known of all by the deadline."""
        best = self.best()
        definitions = [self._definitions[number] for number in self._numbers.tolist()]
        found, least = cheaper(definitions, self._roots, best, self._prices, deadline)
        return found or best, least

    def _search(self, visits: int) -> int:
        tried = min(visits, TOGETHER)
        self._state.visits = tried
        self._run(self._state.address)
        return tried
