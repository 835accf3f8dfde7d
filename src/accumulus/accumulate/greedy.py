"""Greedy orders for edge and face elimination, and their repair by cutting and going on at random.

Every product removes a face, so a sequence costs what there is plus what it creates. Both methods take next what
changes the number of faces by the least: an edge or face scores faces created minus faces removed, products being
among the removed. They begin from vertex elimination (forward, reverse, by lowest Markowitz degree), each of which
is an edge and a face sequence too, so `edge` is never worse than these three, `face` never worse than `edge`.

Small graphs: the best sequence is cut at a random place and finished greedily with noise added to the scores, the
noise small, middle or large at random; what is not worse is kept. Good vertex and edge sequences are hard to leave,
so other runs begin from nothing. This finds lion 11 and bat 23 (edges), lion 11 and bat 22 (faces) within some
hundreds of rounds. Larger graphs: one greedy run from a heap whose scores are renewed when popped. Beyond `work`
not even that: the vertex orders stay. All is decided by counts, never by a clock, so results are reproducible.

No optimality is claimed. Griewank and Naumann (2002) warn that greedy faces may grow exponentially; a run is given up
as soon as it costs more than the best so far.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from typing import Any, Final, Protocol

from accumulus.accumulate.accumulation import Accumulation
from accumulus.accumulate.cost import Objective, count
from accumulus.accumulate.edge import EdgeElimination, edges_of_vertices
from accumulus.accumulate.face import FaceElimination, faces_of_edges
from accumulus.accumulate.vertex import eliminate_vertices
from accumulus.graph.graph import DifferentiationGraph

__all__ = ["edge", "face"]

_NOISE: Final = (0.5, 2.0, 8.0)
#: Up to so many products, sequences are repaired; above, there is one greedy run.
_SMALL: Final = 300
#: Score evaluations that a product costs in a run from the heap, roughly.
_EVALUATIONS: Final = 16
#: Score evaluations that a step taken again costs.
_REPLAY: Final = 8
#: Independent runs of repairs: the first from the best sequence that is known, the others from nothing.
_LINEAGES: Final = 3

Step = tuple[Any, ...]


def edge(
    graph: DifferentiationGraph,
    objective: Objective = "multiplications",
    *,
    rounds: int = 1000,
    work: int = 80_000,
    seed: int = 0,
) -> Accumulation:
    """Edge elimination in a greedy order.

    Args:
        objective: by which sequences are compared.
        rounds: how often the best sequence of each of three independent runs is cut and finished anew.
        work: bound on the score evaluations of a run (about two microseconds each).
        seed: of the noise.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "x"), ("a", "z")])
    >>> len(edge(graph).steps)
    2
    """
    return _edge(graph, objective, rounds, work, seed)[0]


def face(
    graph: DifferentiationGraph,
    objective: Objective = "multiplications",
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
    best, steps = _edge(graph, objective, rounds, work, seed)
    if steps is None:
        return best
    start = (best, faces_of_edges(graph, steps))
    return _improve(graph, _Faces(), start, objective, rounds, work, seed)[0]


def _edge(
    graph: DifferentiationGraph, objective: Objective, rounds: int, work: int, seed: int
) -> tuple[Accumulation, list[Step] | None]:
    """The best edge sequence found; no sequence, but its result, where there is too much work for more."""
    orders = _vertex_orders(graph)
    fewest = min(products for products, _ in orders)
    if fewest * _EVALUATIONS > work:
        return eliminate_vertices(graph, next(order for products, order in orders if products == fewest)), None
    plans = [(eliminate_vertices(graph, order), order) for products, order in orders if products < 2 * fewest + 8]
    plan, order = min(plans, key=lambda item: count(item[0], objective))
    start = (plan, edges_of_vertices(graph, order))
    return _improve(graph, _Edges(), start, objective, rounds, work, seed)


class _Problem(Protocol):
    """What edges and faces have in common."""

    def start(self, graph: DifferentiationGraph) -> Any: ...
    def choices(self, state: Any) -> list[Step]: ...
    def is_choice(self, state: Any, step: Step) -> bool: ...
    def score(self, state: Any, step: Step) -> int: ...
    def take(self, state: Any, step: Step) -> list[Step]:
        """Eliminate, and return choices that are new or may score less."""
        ...


class _Edges:
    def start(self, graph: DifferentiationGraph) -> EdgeElimination:
        return EdgeElimination(graph)

    def choices(self, state: EdgeElimination) -> list[Step]:
        return [step for j, i in state.edges() for step in _sides(state, j, i)]

    def is_choice(self, state: EdgeElimination, step: Step) -> bool:
        return step[1] in state.successors[step[0]]

    def score(self, state: EdgeElimination, step: Step) -> int:
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
        j, i, side = step
        pairs = [(p, i) for p in state.predecessors[j]] if side == "front" else [(j, s) for s in state.successors[i]]
        state.eliminate(j, i, side)
        if side == "front":
            pairs += [(j, s) for s in state.successors[j]]
        else:
            pairs += [(p, i) for p in state.predecessors[i]]
        return [choice for pair in pairs for choice in _sides(state, *pair)]


class _Faces:
    def start(self, graph: DifferentiationGraph) -> FaceElimination:
        return FaceElimination(graph)

    def choices(self, state: FaceElimination) -> list[Step]:
        return list(state.faces())

    def is_choice(self, state: FaceElimination, step: Step) -> bool:
        return step[0] in state and step[1] in state and step[1] in state.successors[step[0]]

    def score(self, state: FaceElimination, step: Step) -> int:
        i, j = step
        above, below = state.inner_predecessors(i), state.inner_successors(j)
        change = -1 if state.find(i, j) is not None else above + below - 1
        if len(state.successors[i]) == 1:
            change -= above
        if len(state.predecessors[j]) == 1:
            change -= below
        return change

    def take(self, state: FaceElimination, step: Step) -> list[Step]:
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


def _improve(
    graph: DifferentiationGraph,
    problem: _Problem,
    best: tuple[Accumulation, list[Step]],
    objective: Objective,
    rounds: int,
    work: int,
    seed: int,
) -> tuple[Accumulation, list[Step]]:
    """The greedy sequence from the heap, and where the graph is small repairs, if they are better than `best`."""
    cost = count(best[0], objective)
    limit = 2 * sum(best[0].steps.is_product) + 8
    state = problem.start(graph)
    taken = _run_heap(problem, state, limit)
    if taken is not None:
        found = state.finish()
        if count(found, objective) < cost:
            best, cost = (found, taken), count(found, objective)
    if limit > 2 * _SMALL:
        return best
    finds = [best]
    for lineage in range(_LINEAGES):
        rng = random.Random(seed * _LINEAGES + lineage)
        finds.append(_repair(graph, problem, best if lineage == 0 else None, objective, rounds, work, rng))
    return min(finds, key=lambda find: count(find[0], objective))


def _repair(
    graph: DifferentiationGraph,
    problem: _Problem,
    best: tuple[Accumulation, list[Step]] | None,
    objective: Objective,
    rounds: int,
    work: int,
    rng: random.Random,
) -> tuple[Accumulation, list[Step]]:
    """Cut the best sequence somewhere, finish it with noise, keep it if it is not worse; begin from nothing at first
    unless `best` is given."""
    cost = 0 if best is None else count(best[0], objective)
    for _ in range(rounds):
        if best is not None and (work <= 0 or not best[1]):
            break
        state = problem.start(graph)
        taken = [] if best is None else best[1][: rng.randrange(len(best[1]))]
        work -= _REPLAY * len(taken)
        for step in taken:
            problem.take(state, step)
        noise = rng.choice(_NOISE)
        while choices := problem.choices(state):
            work -= len(choices)
            step = min(choices, key=lambda step: problem.score(state, step) + noise * rng.random())
            problem.take(state, step)
            taken.append(step)
            if best is not None and len(taken) > 2 * len(best[1]):
                break
        else:
            found = state.finish()
            if best is None or count(found, objective) <= cost:
                best, cost = (found, taken), count(found, objective)
    assert best is not None
    return best


def _run_heap(problem: _Problem, state: Any, limit: int) -> list[Step] | None:
    """Take always a choice of least score, as far as scores are known; None if that takes more than `limit` products.

    Scores are renewed when a choice is popped, and for choices next to the one just taken.
    """
    heap = [(problem.score(state, step), step) for step in problem.choices(state)]
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
