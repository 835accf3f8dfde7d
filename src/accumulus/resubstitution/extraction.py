"""Choice of the definitions that make the cheapest program: by annealing in `extraction_kernel`, or exactly.

**The exact choice** is an integer program: it finds the cheapest there is, or how much cheaper it could be at most.
One variable for each definition is 1 if it is chosen, one for each value is 1 if it is computed. A computed value has
exactly one chosen definition, and roots are computed. Of a value's definitions that take another value, at most one is
chosen, and only if that other is computed. These rows still allow cycles. So in each set of values, if one is computed,
a definition that takes none of the set must be chosen for one of them (loop formulas: Lin, Zhao, "ASSAT", Artif.
Intell. 157, 2004). For two values that take each other these rows exist from the start; for larger sets, violated rows
are added until a solution violates none. Each solution is a lower bound, since missing rows only enlarge the choice.

HiGHS solves it (Huangfu, Hall, Math. Prog. Comp. 10, 2018), with the cost of the known choice as an upper limit.
Programs of 100 to 400 operations take 0.02 to 10 s. The work is estimated from the rows and limits the nodes, so that
the same program is solved, or not, in every run; the clock ends only runs that take much longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.annealing import slices, thresholds
from accumulus.deadline import LOOK, Deadline, interruptible
from accumulus.native.machine import kernel
from accumulus.native.state import Integers, zeros
from accumulus.resubstitution.compiled.definitions_kernel import ARGUMENTS, CODE, NODE
from accumulus.resubstitution.compiled.extraction_kernel import DEEPEST, THRESHOLD_COUNT, ExtractionState
from accumulus.resubstitution.values import Definition, DefinitionTable

#: Seconds of work of a move, and moves of a call of the kernel.
MOVE: Final = 2.5e-7
TOGETHER: Final = int(LOOK / 2 / MOVE)
#: Temperatures at the start and at the end, relative to the cost of an addition.
HOT: Final = 0.7
COLD: Final = 0.15


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
        definitions: DefinitionTable,
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
        self._state = state = ExtractionState(
            firsts=firsts,
            arguments=arguments,
            prices=np.array(prices, np.int64)[rows[:, CODE]],
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
        """Return values that the roots are made of by chosen definitions, without given ones."""
        if not self._roots:
            return ()
        is_made, taken = self._is_made.tolist(), self._arguments[chosen].tolist()
        return _reached(self._roots, lambda value: [a for a in taken[value] if is_made[a]])

    @property
    def best_cost(self) -> int:
        """The least cost so far."""
        return self._state.best

    def anneal(self, visits: int, deadline: Deadline, hot: float = HOT) -> None:
        """Try so many moves, or as many as there is work left for."""
        for _ in slices(self._state, self._search, visits, hot, COLD, self._unit, deadline, MOVE):
            pass

    def best(self) -> dict[int, Definition]:
        """Return the cheapest choice so far, by value, of what the roots need."""
        if not self._roots:
            return {}
        chosen = self._state.best_chosen
        numbers = self._numbers[chosen].tolist()
        return {value: self._definitions[numbers[value]] for value in self._needed(chosen)}

    def exact(self, deadline: Deadline) -> tuple[dict[int, Definition], Least | None]:
        """Return the cheapest choice so far or one that is cheaper, and what is known of all by the deadline."""
        best = self.best()
        definitions = [self._definitions[number] for number in self._numbers.tolist()]
        found, least = cheaper(definitions, self._roots, best, self._prices, deadline)
        return found or best, least

    def _search(self, visits: int) -> int:
        tried = min(visits, TOGETHER)
        self._state.visits = tried
        self._run(self._state.address)
        return tried


def _reached(roots: Iterable[int], taken: Callable[[int], Iterable[int]]) -> Iterable[int]:
    """Return roots, and all that they take, and these."""
    found: dict[int, None] = {}
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if value not in found:
            found[value] = None
            waiting += taken(value)
    return found


# The exact choice ----------------------------------------------------------------------------------------------------

#: Most definitions for the exact choice: larger problems are seldom solved in time.
MOST_DEFINITIONS: Final = 4000
#: Error allowed in bounds, which are integers, and the threshold above which a variable counts as 1.
TOLERANCE: Final = 1e-5
CHOSEN: Final = 0.5
#: Seconds of HiGHS: a fixed part, and a part for `ROWS` rows that grows with their square; a node takes a part of that.
#: Over `examples/` and `benchmarks/suite/` it takes a quarter to two times as long up to 2,000 rows, and longer beyond.
SOLVE: Final = (0.02, 0.2)
ROWS: Final = 1300.0
OF_NODE: Final = 0.2
MOST_NODES: Final = 1_000_000
_SOLVED, _TIME, _INFEASIBLE = 0, 1, 2


class Least(NamedTuple):
    """A bound on all choices of definitions."""

    values: int  # that are computed in one of them, and their `definitions`
    definitions: int
    bound: int  # what each costs, at least; changes of sign for nothing


class _Choosable(NamedTuple):
    """A definition, by the value that it makes and those that it takes and that are not given."""

    node: int
    taken: frozenset[int]
    price: int
    definition: Definition


def cheaper(
    definitions: Collection[Definition],
    roots: Iterable[int],
    known: Mapping[int, Definition],
    prices: Sequence[int],
    deadline: Deadline,
) -> tuple[dict[int, Definition] | None, Least | None]:
    """Return a choice of definitions that is cheaper than a known one, and a lower bound; None if not found in time.

    Args:
        definitions: candidate definitions, those of the known choice among them.
        roots: values that are needed; inputs need no definition.
        known: known choice of definitions, without cycles.
        prices: cost of a definition, by the code of its operation.
        deadline: end of the search.
    """
    made = {each.node for each in definitions}
    choosable: dict[int, list[_Choosable]] = {node: [] for node in sorted(made)}
    for each in sorted({*definitions, *known.values()}):
        taken = frozenset(map(abs, each.arguments)) & made
        choosable[each.node].append(_Choosable(each.node, taken, prices[each.code], each))
    roots = made.intersection(roots)
    kept = _needed({node: _undominated(each) for node, each in choosable.items()}, roots)
    if not kept or len(kept) > MOST_DEFINITIONS:
        return None, None
    found, bound = _Program(kept, roots, sum(prices[each.code] for each in known.values())).solved(deadline)
    if bound is None:
        return None, None
    chosen = None if found is None else {each.node: each.definition for each in found}
    needed = _needed(choosable, roots)
    return chosen, Least(len({each.node for each in needed}), len(needed), bound)


def _undominated(choosable: Iterable[_Choosable]) -> list[_Choosable]:
    """Return definitions of a value without those beside one that is no dearer, and takes no other values."""
    found: list[_Choosable] = []
    for each in sorted(choosable, key=lambda each: (len(each.taken), each.price)):
        if each.node not in each.taken and not any(o.price <= each.price and o.taken <= each.taken for o in found):
            found.append(each)
    return found


def _needed(choosable: Mapping[int, Sequence[_Choosable]], roots: Set[int]) -> list[_Choosable]:
    """Return definitions of values that the roots can need."""
    values = _reached(roots, lambda value: set().union(*(each.taken for each in choosable[value])))
    return [each for node in sorted(values) for each in choosable[node]]


class _Program:
    """The integer program: variables of definitions, then of values; rows of coefficients, as they are added.

    Args:
        choosable: definitions.
        roots: values that are needed.
        cost: what solutions have to be cheaper than.
    """

    def __init__(self, choosable: Sequence[_Choosable], roots: Set[int], cost: int) -> None:
        self._choosable, self._roots, self._cost = choosable, roots, cost
        self._of_value: dict[int, list[int]] = {}
        for place, each in enumerate(choosable):
            self._of_value.setdefault(each.node, []).append(place)
        self._columns = {node: len(choosable) + k for k, node in enumerate(self._of_value)}
        self._unit = math.gcd(*(each.price for each in choosable)) or 1
        self._prices = [each.price / self._unit for each in choosable]
        self._entries: list[tuple[int, int, float]] = []
        self._least: list[float] = []
        self._most: list[float] = []
        self._write()

    def solved(self, deadline: Deadline) -> tuple[list[_Choosable] | None, int | None]:
        """Return cheaper definitions, if there are any, and a lower bound; None if time ran out."""
        bound = None
        while not deadline.passed:
            work = SOLVE[0] + SOLVE[1] * (len(self._least) / ROWS) ** 2
            if work > deadline.left:
                break
            with deadline.paused():  # takes a tenth of a second
                import scipy.optimize
                import scipy.sparse  # noqa: F401
            result = self._solve(deadline.clock_left / 2, deadline.left / (OF_NODE * work))
            deadline.spend(work * (1 + OF_NODE * (result.mip_node_count or 0)))
            if result.status == _TIME:
                deadline.cut()
            if result.status == _INFEASIBLE:
                return None, self._cost
            if result.mip_dual_bound is not None and math.isfinite(result.mip_dual_bound):
                steps = math.ceil(result.mip_dual_bound - TOLERANCE)
                bound = max(bound or 0, min(steps * self._unit, self._cost))
            if result.x is None:
                break
            found = self._chosen(result.x)
            circles = self._circles(found)
            if not circles:
                return found, sum(each.price for each in found) if result.status == _SOLVED else bound
            for circle in circles:
                self._support(circle)
        return None, bound

    def _write(self) -> None:
        """Write all rows but those of larger cycles."""
        for node, places in self._of_value.items():
            self._row([*((place, 1.0) for place in places), (self._columns[node], -1.0)], 0.0, 0.0)
            for other, taking in self._taking(node).items():
                self._row([*((place, 1.0) for place in taking), (self._columns[other], -1.0)], -math.inf, 0.0)
        self._row(list(enumerate(self._prices)), -math.inf, self._cost / self._unit - 1.0)
        takes = {node: set(self._taking(node)) for node in self._of_value}
        for node, others in takes.items():
            for other in others:
                if node < other and node in takes[other]:
                    self._support({node, other})

    def _taking(self, node: int) -> dict[int, list[int]]:
        """Return definitions of a value by the values that they take."""
        found: dict[int, list[int]] = {}
        for place in self._of_value[node]:
            for other in self._choosable[place].taken:
                found.setdefault(other, []).append(place)
        return found

    def _support(self, circle: Set[int]) -> None:
        """Return rows for a set of values: a value that is computed has a definition."""
        from_others = [
            (place, 1.0)
            for node in circle
            for place in self._of_value[node]
            if circle.isdisjoint(self._choosable[place].taken)
        ]
        for node in circle:
            self._row([*from_others, (self._columns[node], -1.0)], 0.0, math.inf)

    def _row(self, coefficients: Sequence[tuple[int, float]], least: float, most: float) -> None:
        self._entries += [(len(self._least), column, number) for column, number in coefficients]
        self._least.append(least)
        self._most.append(most)

    def _solve(self, seconds: float, nodes: float) -> Any:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        count = len(self._choosable) + len(self._columns)
        rows, columns, numbers = zip(*self._entries, strict=True)
        matrix = csr_array((numbers, (rows, columns)), shape=(len(self._least), count))
        prices = np.zeros(count)
        prices[: len(self._choosable)] = self._prices
        needed = np.zeros(count)
        needed[[self._columns[root] for root in self._roots]] = 1.0
        whole = (np.arange(count) < len(self._choosable)).astype(np.int64)
        return interruptible(
            milp,
            prices,
            integrality=whole,
            bounds=Bounds(needed, np.ones(count)),
            constraints=LinearConstraint(matrix, self._least, self._most),
            options={"time_limit": seconds, "node_limit": int(min(nodes, MOST_NODES)), "mip_rel_gap": 0.0},
        )

    def _chosen(self, x: Any) -> list[_Choosable]:
        """Return definitions of a solution that the roots need."""
        chosen = {each.node: each for each, at in zip(self._choosable, x, strict=False) if at > CHOSEN}
        return [chosen[node] for node in _reached(self._roots, lambda node: chosen[node].taken)]

    def _circles(self, found: Iterable[_Choosable]) -> list[set[int]]:
        """Return values that are made of each other."""
        import networkx as nx

        edges = ((each.node, other) for each in found for other in each.taken)
        return [circle for circle in nx.strongly_connected_components(nx.DiGraph(edges)) if len(circle) > 1]
