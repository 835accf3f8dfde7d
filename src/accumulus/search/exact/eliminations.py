"""Proven optima: the best vertex, edge and face elimination, and how far from it a plan can be at most.

Each method begins with what the heuristic method of its kind finds, and then proves that nothing is better, or finds
what is: first by bounds that hold for every program, then by a search of its own kind. What it cannot finish in its
time, or in the iterations that it is given, stays open: the plan is the best so far, and its lower bound below its cost.

What a lower bound is about: `exact-vertex` speaks of vertex eliminations, `exact-edge` of edge eliminations, all other
methods of face eliminations, of which vertex and edge eliminations are a part. Under "operations" nothing is proven:
what an emitted tape saves by sharing is not the elimination's own.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from accumulus.graph.graph import DifferentiationGraph
from accumulus.search.exact.bracketings import MOST_COLUMNS
from accumulus.search.exact.proof import LEVELS, Level, Proof
from accumulus.search.exact.subsets import MOST as MOST_VERTICES
from accumulus.search.machine import prepare
from accumulus.search.options import Options
from accumulus.search.registry import Found, register
from accumulus.search.sequences import edge, face
from accumulus.search.vertex import vertex

__all__ = ["BRIEF", "Patience", "proven"]


@dataclass(frozen=True, slots=True)
class Patience:
    """How much a proof may take: vertices of a part for orders, columns for brackets, states for edges and faces."""

    vertices: int = MOST_VERTICES
    columns: int = MOST_COLUMNS
    nodes: int | None = None


#: For proofs that were not asked for: some tens of milliseconds.
BRIEF: Final = Patience(vertices=14, columns=4_000, nodes=1_500)
#: Of graphs whose best known plan costs more than this, only the flow bound is found.
_LARGEST: Final = 3_000
#: Part of the time that the heuristic method may take.
_SHARE: Final = 0.4
_BASES: Final = {"vertex": vertex, "edge": edge, "face": face}


@register("exact-vertex", "the best vertex elimination, proven if there is time", covers=("vertex",))
def exact_vertex(graph: DifferentiationGraph, options: Options) -> Found:
    """Dynamic programming over eliminated sets, after reduction; see `accumulus.search.exact.subsets`."""
    return _searched(graph, options, "vertex")


@register("exact-edge", "the best edge elimination, proven if there is time", covers=("edge", "exact-vertex"))
def exact_edge(graph: DifferentiationGraph, options: Options) -> Found:
    """Branch and bound over edge eliminations; see `accumulus.search.faces_kernel`."""
    return _searched(graph, options, "edge")


@register("exact-face", "the best face elimination, proven if there is time", covers=("face", "exact-edge"))
def exact_face(graph: DifferentiationGraph, options: Options) -> Found:
    """Branch and bound over face eliminations; see `accumulus.search.faces_kernel`."""
    return _searched(graph, options, "face")


def _searched(graph: DifferentiationGraph, options: Options, level: Level) -> Found:
    start = time.perf_counter()
    best = _BASES[level](graph, replace(options, time_limit=_SHARE * options.time_limit))
    if best.interrupted or options.objective == "operations" or options.time_limit == 0 or options.iterations == 0:
        return best
    left = replace(options, time_limit=options.time_limit - (time.perf_counter() - start))
    return proven(graph, left, best, level)


def proven(graph: DifferentiationGraph, options: Options, best: Found, level: Level, *, brief: bool = False) -> Found:
    """What is found, improved where a search finds something better, with a lower bound on eliminations of its level.

    Args:
        best: a plan of the graph; its order, if it has one, is where the search begins.
        level: of the eliminations that are searched, after all narrower ones.
        brief: whether to stop after some tens of milliseconds.
    """
    if options.objective == "operations":
        return best
    start = best if best.order is not None else vertex(graph, replace(options, effort="fast"))
    assert start.order is not None
    proof = Proof(graph, options.objective, start.order)
    run = _Run(proof, level, best.cost(options.objective), options.time_limit)
    rounds: tuple[Patience, ...] = (BRIEF,) if brief else (BRIEF, Patience())
    if options.iterations is not None:
        rounds = (Patience(12, min(MOST_COLUMNS, 5 * options.iterations), options.iterations),)
    interrupted = False
    if run.cost <= _LARGEST:
        try:
            with closing(run.steps(rounds)) as steps:
                for _ in steps:
                    if options.progress is not None:
                        options.progress(min(run.cost, proof.cost(level)))
                    if run.left() <= 0:
                        break
        except KeyboardInterrupt:
            interrupted = True
    if proof.cost(level) < run.cost:
        best = _best_of(proof, level)
    bound = min(proof.bound(level), best.cost(options.objective))
    return replace(best, lower_bound=bound, interrupted=best.interrupted or interrupted)


class _Run:
    """Bounds and searches, the cheapest first, until the optimum is known to cost no less than `cost`, or is found."""

    def __init__(self, proof: Proof, level: Level, cost: int, seconds: float) -> None:
        self.proof, self.level, self.cost = proof, level, cost
        self._deadline = time.perf_counter() + seconds

    def left(self) -> float:
        """Seconds until the time is over."""
        return self._deadline - time.perf_counter()

    def done(self) -> bool:
        return self.proof.bound(self.level) >= min(self.cost, self.proof.cost(self.level))

    def steps(self, rounds: Sequence[Patience]) -> Generator[None]:
        for patience in rounds:
            if self.done():
                return
            for _ in self.proof.bracket(self.left, patience.columns):
                yield
            for level in LEVELS[: LEVELS.index(self.level) + 1]:
                if self.done():
                    return
                self._prepare("subsets" if level == "vertex" else "faces")
                if level == "vertex":
                    search = self.proof.search_orders(patience.vertices)
                else:
                    nodes = patience.nodes if level == self.level else BRIEF.nodes
                    search = self.proof.search_sequences(level, nodes)
                for _ in search:
                    yield

    def _prepare(self, kernel: str) -> None:
        """Have a kernel ready; the first use on a machine compiles it, which is not the search's time."""
        start = time.perf_counter()
        prepare(kernel)
        self._deadline += time.perf_counter() - start


def _best_of(proof: Proof, level: Level) -> Found:
    """The best plan, of the narrowest level that has one of its cost."""
    cost = proof.cost(level)
    if proof.cost("vertex") == cost:
        return Found(proof.graph, "exact-vertex", proof.order())
    if proof.cost("edge") == cost:
        return Found(proof.graph, "exact-edge", _accumulation=proof.accumulation("edge"))
    return Found(proof.graph, "exact-face", _accumulation=proof.accumulation("face"))
