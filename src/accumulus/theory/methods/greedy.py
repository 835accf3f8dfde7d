"""Greedy orders for edge and face elimination, and their repair by cutting and going on at random.

Every product removes a face, so a sequence costs what there is plus what it creates. Both methods take next what
changes the number of faces by the least: an edge or face scores faces created minus faces removed, products being
among the removed. They begin from vertex elimination (a given order, or forward, reverse, by lowest Markowitz
degree), each of which is an edge and a face sequence too, so `edge` is never worse than these, `face` never worse
than `edge`.

Small graphs: the sequence is cut at a random place and finished greedily with noise added to the scores, more or less
at random; what is not worse is kept, and sometimes what is worse by one. This finds lion 11 and bat 23 (edges) within
a hundred rounds, lion 11 and bat 22 (faces) mostly within some hundreds. Faces are searched from the vertex order,
not from the best edge sequence, which is harder to leave. Larger graphs: one greedy run from a heap whose scores are
renewed when popped. Beyond `work` not even that: the vertex orders stay. All is decided by counts, never by a clock,
so results are reproducible.

No optimality is claimed. Griewank and Naumann (2002) warn that greedy faces may grow exponentially; a run is given up
as soon as it costs more than the best so far.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Protocol

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.cost import count
from accumulus.elimination.edge import EdgeElimination, edges_of_vertices
from accumulus.elimination.face import FaceElimination, faces_of_edges
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective

__all__ = ["EdgeChoices", "FaceChoices", "Problem", "Repair", "edge", "face", "run_heap"]

_NOISE: Final = (3.0, 6.0, 12.0)
#: How often a sequence that is worse by one is gone on with.
_WORSE: Final = 0.1
#: Steps beyond those of the sequence after which a repair is given up.
_LONGER: Final = 4
#: Up to so many products, sequences are repaired; above, there is one greedy run.
_SMALL: Final = 300
#: Score evaluations that a product costs in a run from the heap, roughly.
_EVALUATIONS: Final = 16
#: Score evaluations that a step taken again costs, and one that is counted on an emitted tape.
_REPLAY: Final = 8
_COUNTED: Final = 16

Step = tuple[Any, ...]


def edge(
    graph: DifferentiationGraph,
    objective: str = Objective.MULTIPLICATIONS,
    *,
    rounds: int = 1000,
    work: int = 80_000,
    seed: int = 0,
) -> Accumulation:
    """Edge elimination in a greedy order.

    Args:
        objective: by which sequences are compared.
        rounds: how often a sequence is cut and finished anew.
        work: bound on the score evaluations (about two microseconds each).
        seed: of the noise.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "x"), ("a", "z")])
    >>> len(edge(graph).steps)
    2
    """
    start = _vertex_sequence(graph, objective, work)
    return _finished(Repair(graph, "edge", start, objective), rounds, work, seed)


def face(
    graph: DifferentiationGraph,
    objective: str = Objective.MULTIPLICATIONS,
    *,
    rounds: int = 1000,
    work: int = 80_000,
    seed: int = 0,
) -> Accumulation:
    """Face elimination in a greedy order; arguments as for `edge`.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "x"), ("a", "z")])
    >>> len(face(graph).steps)
    2
    """
    start, sequence = _vertex_sequence(graph, objective, work)
    edges = _finished(Repair(graph, "edge", (start, sequence), objective), rounds, work, seed)
    if sequence is None:
        return edges
    faces = _finished(Repair(graph, "face", (start, faces_of_edges(graph, sequence)), objective), rounds, work, seed)
    return min(edges, faces, key=lambda found: count(found, objective))


def _vertex_sequence(graph: DifferentiationGraph, objective: str, work: int) -> tuple[Accumulation, list[Step] | None]:
    """The best of three vertex orders, and its edges; None in place of these where there is too much work for more."""
    orders = _vertex_orders(graph)
    fewest = min(products for products, _ in orders)
    if fewest * _EVALUATIONS > work:
        return eliminate_vertices(graph, next(order for products, order in orders if products == fewest)), None
    plans = [(eliminate_vertices(graph, order), order) for products, order in orders if products < 2 * fewest + 8]
    plan, order = min(plans, key=lambda item: count(item[0], objective))
    return plan, list(edges_of_vertices(graph, order))


def _finished(repair: Repair, rounds: int, work: int, seed: int) -> Accumulation:
    for _ in repair.run(rounds, work, seed):
        pass
    return repair.best


class Problem(Protocol):
    """What greedy choices are made of: how to begin, what there is to choose from, what each scores."""

    def start(self, graph: DifferentiationGraph) -> Any:
        """The state with nothing eliminated; it counts its products and sums in `steps`."""

    def scores(self, state: Any) -> Iterator[tuple[Any, Step]]:
        """All choices, each after its score."""
        ...

    def is_choice(self, state: Any, step: Step) -> bool:
        """Whether a choice is still there."""
        ...

    def score(self, state: Any, step: Step) -> Any:
        """What is least is taken next."""

    def take(self, state: Any, step: Step) -> list[Step]:
        """Eliminate, and return choices that are new or may score less."""
        ...


class EdgeChoices:
    """Edges from either side, by the change of the number of faces."""

    def start(self, graph: DifferentiationGraph) -> EdgeElimination:
        """Nothing eliminated."""
        return EdgeElimination(graph)

    def scores(self, state: EdgeElimination) -> Iterator[tuple[int, Step]]:
        """All choices, each after its score."""
        for j, i in state.edges():
            for step in _sides(state, j, i):
                yield self.score(state, step), step

    def is_choice(self, state: EdgeElimination, step: Step) -> bool:
        """Whether it is there."""
        return step[1] in state.successors[step[0]]

    def score(self, state: EdgeElimination, step: Step) -> int:
        """Faces created less faces removed."""
        j, i, side = step
        P, S = state.predecessors, state.successors
        change = -len(S[i]) - len(P[j])
        if side == "front":
            change += sum(len(P[p]) + len(S[i]) for p in P[j] if i not in S[p])
            if len(S[j]) == 1:
                change -= sum(len(P[p]) for p in P[j])
        else:
            change += sum(len(P[j]) + len(S[s]) for s in S[i] if s not in S[j])
            if len(P[i]) == 1:
                change -= sum(len(S[s]) for s in S[i])
        return change

    def take(self, state: EdgeElimination, step: Step) -> list[Step]:
        """Eliminate it; returns what is around."""
        j, i, side = step
        pairs = [(p, i) for p in state.predecessors[j]] if side == "front" else [(j, s) for s in state.successors[i]]
        state.eliminate(j, i, side)
        if side == "front":
            pairs += [(j, s) for s in state.successors[j]]
        else:
            pairs += [(p, i) for p in state.predecessors[i]]
        return [choice for pair in pairs for choice in _sides(state, *pair)]


class FaceChoices:
    """Faces, by the change of their number."""

    def start(self, graph: DifferentiationGraph) -> FaceElimination:
        """Nothing eliminated."""
        return FaceElimination(graph)

    def scores(self, state: FaceElimination) -> Iterator[tuple[int, Step]]:
        """All choices, each after its score."""
        # as `score`, with what depends on one end only taken out of the inner loop
        P, S, find = state.predecessors, state.successors, state.find
        inner = state.vertices()
        below = {v: state.inner_successors(v) for v in inner}
        for i in inner:
            if not below[i]:
                continue
            above, is_only = state.inner_predecessors(i), len(S[i]) == 1
            for j in S[i]:
                change = -1 if find(i, j) is not None else above + below[j] - 1
                if is_only:
                    change -= above
                if len(P[j]) == 1:
                    change -= below[j]
                yield change, (i, j)

    def is_choice(self, state: FaceElimination, step: Step) -> bool:
        """Whether it is there."""
        return step[0] in state and step[1] in state and step[1] in state.successors[step[0]]

    def score(self, state: FaceElimination, step: Step) -> int:
        """Faces created less faces removed."""
        i, j = step
        above, below = state.inner_predecessors(i), state.inner_successors(j)
        change = -1 if state.find(i, j) is not None else above + below - 1
        if len(state.successors[i]) == 1:
            change -= above
        if len(state.predecessors[j]) == 1:
            change -= below
        return change

    def take(self, state: FaceElimination, step: Step) -> list[Step]:
        """Eliminate it; returns what is around."""
        k = state.eliminate(*step)
        found: list[Step] = []
        for v in {k: None, step[0]: None, step[1]: None}:
            if v in state:
                if state.inner_predecessors(v):
                    found += [(p, v) for p in state.predecessors[v]]
                if state.inner_successors(v):
                    found += [(v, s) for s in state.successors[v]]
        return found


def _sides(state: EdgeElimination, j: int, i: int) -> list[Step]:
    front: list[Step] = [(j, i, "front")] if state.intermediate[j] else []
    return [*front, (j, i, "back")] if state.intermediate[i] else front


class Repair:
    """A search for an edge or face sequence that is cheaper than one that is known.

    Args:
        level: what is eliminated, edges or faces.
        start: an accumulation, and the sequence that makes it; without a sequence there is nothing to search.
        objective: by which sequences are compared.

    Attributes:
        best: the cheapest accumulation so far; that of `start` until something is cheaper.
        cost: of it, under the objective.
    """

    def __init__(
        self,
        graph: DifferentiationGraph,
        level: Literal["edge", "face"],
        start: tuple[Accumulation, list[Step] | None],
        objective: str,
    ) -> None:
        self.graph = graph
        self.objective = Objective.of(objective)
        self.best, self._sequence = start
        self.cost = count(self.best, objective)
        self._problem: Problem = EdgeChoices() if level == "edge" else FaceChoices()

    def run(self, rounds: int, work: int, seed: int) -> Iterator[int]:
        """One greedy run, and repairs where the graph is small; yields the cost of the best after each.

        Args:
            rounds: how often the sequence is cut and finished anew.
            work: bound on the score evaluations.
            seed: of the noise.
        """
        if not self._sequence:
            return
        limit = 2 * sum(self.best.steps.is_product) + 8
        state = self._problem.start(self.graph)
        if run_heap(self._problem, state, limit) is not None:
            self._keep(state.finish())
        yield self.cost
        if limit <= 2 * _SMALL:
            yield from self._repairs(self._sequence, rounds, work, random.Random(seed))

    def _repairs(self, sequence: list[Step], rounds: int, work: int, rng: random.Random) -> Iterator[int]:
        problem = self._problem
        cost = self.cost
        for _ in range(rounds):
            if work <= 0:
                break
            state = problem.start(self.graph)
            taken = sequence[: rng.randrange(len(sequence))]
            work -= _REPLAY * len(taken)
            for step in taken:
                problem.take(state, step)
            noise = rng.choice(_NOISE)
            while scores := list(problem.scores(state)):
                work -= len(scores)
                _, step = min((score + noise * rng.random(), step) for score, step in scores)
                problem.take(state, step)
                taken.append(step)
                if len(taken) > len(sequence) + _LONGER:
                    break
            else:
                found = state.finish()
                now = self._keep(found)
                if self.objective.on_tape:
                    work -= _COUNTED * len(found.steps)
                if now <= cost or (now == cost + 1 and rng.random() < _WORSE):
                    sequence, cost = taken, now
            yield self.cost

    def _keep(self, found: Accumulation) -> int:
        """The cost of an accumulation, which becomes the best if it is cheaper."""
        cost = count(found, self.objective)
        if cost < self.cost:
            self.best, self.cost = found, cost
        return cost


def run_heap(problem: Problem, state: Any, limit: int, deadline: Deadline = FOREVER) -> list[Step] | None:
    """Take always a choice of least score, as far as scores are known; None if that takes more than `limit` products.

    Scores are renewed when a choice is popped, and for choices next to the one just taken.

    Raises:
        OutOfTimeError: if the deadline passes before.
    """
    heap = []
    for scored in problem.scores(state):
        deadline.check()
        heap.append(scored)
    heapq.heapify(heap)
    known = {step: score for score, step in heap}
    taken = []
    while heap:
        score, step = heapq.heappop(heap)
        if known.get(step) != score:
            continue
        if not problem.is_choice(state, step):
            del known[step]
            continue
        now = problem.score(state, step)
        if now > score:
            known[step] = now
            heapq.heappush(heap, (now, step))
            continue
        del known[step]
        taken.append(step)
        for other in problem.take(state, step):
            deadline.check()
            now = problem.score(state, other)
            if known.get(other) != now:
                known[other] = now
                heapq.heappush(heap, (now, other))
        if len(state.steps) > 2 * limit:
            return None
    return taken


def _vertex_orders(graph: DifferentiationGraph) -> list[tuple[int, list[int]]]:
    """Forward, reverse and by lowest Markowitz degree |P_k| · |S_k|, ties by number; each with its products."""
    inner = set(graph.intermediates)
    forward = [v for v in graph.topological_order if v in inner]
    orders = [forward, forward[::-1], _markowitz(graph)]
    return [(_products(graph, order), order) for order in orders]


def _neighbours(graph: DifferentiationGraph) -> tuple[list[set[int]], list[set[int]]]:
    live = graph.live_edges.nonzero()[0].tolist()
    predecessors: list[set[int]] = [set() for _ in graph.vertices]
    successors: list[set[int]] = [set() for _ in graph.vertices]
    for j, i in zip(graph.sources[live].tolist(), graph.targets[live].tolist(), strict=True):
        successors[j].add(i)
        predecessors[i].add(j)
    return predecessors, successors


def _eliminate(k: int, predecessors: list[set[int]], successors: list[set[int]]) -> None:
    for p in predecessors[k]:
        successors[p] |= successors[k]
        successors[p].discard(k)
    for s in successors[k]:
        predecessors[s] |= predecessors[k]
        predecessors[s].discard(k)


def _products(graph: DifferentiationGraph, order: Sequence[int]) -> int:
    predecessors, successors = _neighbours(graph)
    total = 0
    for k in order:
        total += len(predecessors[k]) * len(successors[k])
        _eliminate(k, predecessors, successors)
    return total


def _markowitz(graph: DifferentiationGraph) -> list[int]:
    inner = set(graph.intermediates)
    predecessors, successors = _neighbours(graph)
    heap = [(len(predecessors[k]) * len(successors[k]), k) for k in inner]
    heapq.heapify(heap)
    order = []
    while heap:
        degree, k = heapq.heappop(heap)
        if k not in inner or degree != len(predecessors[k]) * len(successors[k]):
            continue
        inner.discard(k)
        order.append(k)
        _eliminate(k, predecessors, successors)
        for v in predecessors[k] | successors[k]:
            if v in inner:
                heapq.heappush(heap, (len(predecessors[v]) * len(successors[v]), v))
    return order
