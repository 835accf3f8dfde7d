"""Choice of the definitions that make the cheapest program, by annealing in `extraction_kernel`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from accumulus.annealing import slices, thresholds
from accumulus.deadline import LOOK, Deadline
from accumulus.native.machine import kernel
from accumulus.native.state import Integers, zeros
from accumulus.resubstitution.compiled.definitions_kernel import ARGUMENTS, CODE, NODE
from accumulus.resubstitution.compiled.extraction_kernel import DEEPEST, THRESHOLD_COUNT, ExtractionState
from accumulus.resubstitution.values import PRICES, Definition, DefinitionTable
from accumulus.tape.operations import UNIT as ADDITION

#: Seconds of work of a move, and number of moves in one call of the kernel. An estimate above the true time makes fewer
#: moves than fit, one below exceeds the work; more moves in a call react later to the deadline and Ctrl-C.
MOVE: Final = 1.5e-7
TOGETHER: Final = int(LOOK / 2 / MOVE)
#: Temperatures at the start and at the end, relative to the cost of an addition. A hotter start loses more of the
#: program's own definitions, a colder one stays in a local minimum.
HOT: Final = 0.7
COLD: Final = 0.15


class Extraction:
    """Selection of definitions, one for each value, and its search for the cheapest.

    Args:
        count: upper bound (exclusive) on the numbers of values.
        definitions: table of definitions.
        allowed: numbers of the definitions that may be selected.
        roots: values that are needed.
        start: initial selection, number of a definition by value; acyclic, with all values that the roots need.
        seed: seed of the search.
    """

    def __init__(
        self,
        count: int,
        definitions: DefinitionTable,
        allowed: Integers,
        roots: Iterable[int],
        start: Mapping[int, int],
        seed: int = 0,
    ) -> None:
        # without duplicates, definitions of a value adjacent
        rows = definitions.rows
        numbers = np.array(sorted({*allowed.tolist(), *start.values()}), np.int64)
        numbers = numbers[np.lexsort(rows[numbers].T[::-1])]
        rows = rows[numbers]
        self._definitions, self._numbers = definitions, numbers
        self._arguments = arguments = np.abs(rows[:, ARGUMENTS])
        firsts = np.searchsorted(rows[:, NODE], np.arange(count + 1))
        places = np.zeros(1 + numbers.max(initial=0), np.int64)
        places[numbers] = np.arange(len(numbers))
        chosen = np.where(firsts[1:] > firsts[:-1], firsts[:-1], 0)
        chosen[np.fromiter(start, np.int64)] = places[np.fromiter(start.values(), np.int64)]
        self._state = state = ExtractionState(
            firsts=firsts,
            arguments=arguments,
            prices=np.array(PRICES, np.int64)[rows[:, CODE]],
            chosen=chosen,
            **zeros(count, "uses live places marks stack"),
            **zeros(DEEPEST, "revived before"),
            work=np.zeros(4 * count + 16, np.int64),
            thresholds=thresholds(THRESHOLD_COUNT),
            random=np.array([(0x9E3779B97F4A7C15 * (seed + 1) & (1 << 63) - 1) | 1]),
            best_chosen=chosen.copy(),
            count=count,
        )
        self._is_made = firsts[1:] > firsts[:-1]
        self._roots = {value for value in roots if self._is_made[value]}
        live = np.array(sorted(self._needed(chosen)), np.int64)
        state.uses[:] = np.bincount(arguments[chosen[live]].reshape(-1), minlength=count)
        state.uses[np.array(list(self._roots), np.int64)] += 1
        state.uses[~self._is_made] = 0
        state.live[: len(live)], state.places[live], state.live_count = live, np.arange(len(live)), len(live)
        state.best = state.cost = int(state.prices[chosen[live]].sum())
        self._run = kernel("resubstitution.extraction")

    def _needed(self, chosen: Integers) -> Iterable[int]:
        """Return the values that the roots depend on under a selection, without inputs and numbers."""
        if not self._roots:
            return ()
        is_made, taken = self._is_made.tolist(), self._arguments[chosen].tolist()
        reachable: dict[int, None] = {}
        waiting = list(self._roots)
        while waiting:
            value = waiting.pop()
            if value not in reachable:
                reachable[value] = None
                waiting += (a for a in taken[value] if is_made[a])
        return reachable

    def anneal(self, visits: int, deadline: Deadline) -> None:
        """Try a number of moves, or as many as the remaining work allows."""
        for _ in slices(self._state, self._search, visits, HOT, COLD, ADDITION, deadline, MOVE):
            pass

    def best(self) -> dict[int, Definition]:
        """Return the definition of each value that the roots need, in the cheapest selection so far."""
        if not self._roots:
            return {}
        chosen = self._state.best_chosen
        numbers = self._numbers[chosen].tolist()
        return {value: self._definitions[numbers[value]] for value in self._needed(chosen)}

    def _search(self, visits: int) -> int:
        self._state.visits = tried = min(visits, TOGETHER)
        self._run(self._state.address)
        return tried
