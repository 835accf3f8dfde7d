"""Proven optima: the best vertex, edge and face elimination, and how far from it a plan can be at most.

Each method begins with what the heuristic method of its kind finds, and then proves that nothing is better, or finds
what is: by bounds that hold for every program, and by searches of its own kind. What it cannot finish in its time, or
in the iterations that it is given, stays open: the plan is the best so far, and its lower bound less than its cost.

What a lower bound is about: `exact-vertex` speaks of vertex eliminations, `exact-edge` of edge eliminations, all other
methods of face eliminations, of which vertex and edge eliminations are a part. Under "operations" nothing is proven:
what an emitted tape saves by sharing is not the elimination's own.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from accumulus.deadline import Deadline, OutOfTimeError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import prepare
from accumulus.options import Options
from accumulus.search.registry import SearchResult, register
from accumulus.search.vertex_annealing import vertex
from accumulus.theory.bounds import lower_bound
from accumulus.theory.exact.bracketings import MOST_COLUMNS
from accumulus.theory.exact.proof import LEVELS, Level, Proof
from accumulus.theory.exact.subsets import MOST as MOST_VERTICES
from accumulus.theory.sequences.edges_and_faces import edge, face

__all__ = ["BRIEF", "Patience", "proven"]


@dataclass(frozen=True, slots=True)
class Patience:
    """How much a proof may take: vertices of a part for orders, columns for brackets, moves for edges and faces."""

    vertices: int = MOST_VERTICES
    columns: int = MOST_COLUMNS
    moves: int = sys.maxsize

    @property
    def counts(self) -> tuple[int, int, int]:
        """The three numbers."""
        return self.vertices, self.columns, self.moves


#: For proofs that were not asked for: some tens of milliseconds.
BRIEF: Final = Patience(vertices=14, columns=4_000, moves=20_000)
#: Of graphs of more edges, only the flow bound is found.
_LARGEST: Final = 5_000
#: Seconds for each edge that this bound takes.
_BOUND: Final = 5e-5
#: Part of the time that the heuristic method may take.
_SHARE: Final = 0.4
#: Part of the work that is left which an integer program may take.
_BRACKETS: Final = 0.5
_BASES: Final = {"vertex": vertex, "edge": edge, "face": face}


@register("exact-vertex")
def exact_vertex(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Dynamic programming over eliminated sets, after reduction; see `accumulus.theory.exact.subsets`."""
    return _searched(graph, options, deadline, "vertex")


@register("exact-edge")
def exact_edge(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Branch and bound over edge eliminations; see `accumulus.theory.compiled.faces_kernel`."""
    return _searched(graph, options, deadline, "edge")


@register("exact-face")
def exact_face(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Branch and bound over face eliminations; see `accumulus.theory.compiled.faces_kernel`."""
    return _searched(graph, options, deadline, "face")


def _searched(graph: DifferentiationGraph, options: Options, deadline: Deadline, level: Level) -> SearchResult:
    best = _BASES[level](graph, options, deadline.part(_SHARE))
    if best.interrupted or options.objective.on_tape or not options.searches or deadline.passed:
        return best
    return proven(graph, options, deadline, best, level)


def proven(
    graph: DifferentiationGraph,
    options: Options,
    deadline: Deadline,
    best: SearchResult,
    level: Level,
    *,
    brief: bool = False,
) -> SearchResult:
    """What is found, improved where a search finds something better, with a lower bound on eliminations of its level.

    Args:
        best: a plan of the graph; its order, if it has one, is where the search begins.
        level: of the eliminations that are searched, after all narrower ones.
        brief: whether to stop after some tens of milliseconds.
    """
    if options.objective.on_tape:
        return best
    if len(graph.sources) > _LARGEST:
        if _BOUND * len(graph.sources) > deadline.seconds:
            return best
        try:
            least = lower_bound(graph, options.objective, deadline=deadline)
        except OutOfTimeError:
            return best
        return replace(best, lower_bound=None if least is None else min(least, best.cost(options.objective)))
    start = best
    if start.order is None:
        start = vertex(graph, replace(options, effort="fast", executor=None), deadline)
    assert start.order is not None
    try:
        proof = Proof(graph, options.objective, start.order, deadline)
    except OutOfTimeError:
        return best
    run = _Run(proof, level, best, options, deadline)
    patience = BRIEF if brief else Patience()
    if options.iterations is not None:
        patience = Patience(12, min(MOST_COLUMNS, 5 * options.iterations), 20 * options.iterations)
    interrupted = False
    try:
        with closing(run.steps(patience)) as steps:
            for _ in steps:
                options.tell(deadline, "plan", min(run.cost, proof.cost(level)))
                if deadline.passed:
                    break
    except OutOfTimeError:
        pass
    except KeyboardInterrupt:
        interrupted = True
    best = _best_of(proof, level) if proof.cost(level) < run.cost else run.best
    bound = min(proof.bound(level), best.cost(options.objective))
    return replace(best, lower_bound=bound, interrupted=best.interrupted or interrupted)


class _Run:
    """Bounds and searches in turn, until one of them shows that nothing is better than the best plan that is known."""

    def __init__(self, proof: Proof, level: Level, best: SearchResult, options: Options, deadline: Deadline) -> None:
        self.proof, self.level, self._options, self._deadline = proof, level, options, deadline
        self.best, self.cost = best, best.cost(options.objective)

    def done(self) -> bool:
        return self.proof.bound(self.level) >= min(self.cost, self.proof.cost(self.level))

    def steps(self, patience: Patience) -> Generator[None]:
        """Everything that there is patience for, until it is done."""
        first = Patience(*map(min, BRIEF.counts, patience.counts))
        searches = [self._searches(first), self._searches(patience)]
        brackets = [self._brackets(first, partial=False), self._brackets(patience, partial=True)]
        # sets are quickly gone through; integer programs are quicker than the other searches, but slow to begin with
        in_turn = (
            [*searches, *brackets]
            if self.level == "vertex"
            else [searches[0], *brackets, self._repairs(patience), searches[1]]
        )
        for steps in in_turn:
            if not self.done():
                yield from steps

    def _brackets(self, patience: Patience, *, partial: bool) -> Generator[None]:
        if patience == BRIEF and partial:
            return
        columns = patience.columns
        sizes = [columns // 12, columns // 3, columns] if partial else [columns]
        for size in sizes:  # large programs may not be solved in time, and then say less than small ones
            if not self.done():
                for _ in self.proof.bracket(lambda: _BRACKETS * self._deadline.left, size, partial=partial):
                    yield

    def _searches(self, patience: Patience) -> Generator[None]:
        for level in LEVELS[: LEVELS.index(self.level) + 1]:
            if self.done():
                return
            if level == "vertex":
                self._prepare("theory.subsets")
                search = self.proof.search_orders(patience.vertices)
            else:
                self._prepare("theory.faces")
                moves = patience.moves if level == self.level else min(patience.moves, BRIEF.moves)
                search = self.proof.search_sequences(level, moves)
            for _ in search:
                yield

    def _repairs(self, patience: Patience) -> Generator[None]:
        """The heuristic method of the level once more, thoroughly: it finds what a search from nothing does not."""
        if patience == Patience():
            options = replace(self._options, effort="thorough")
            found = _BASES[self.level](self.best.graph, options, self._deadline.part(_SHARE))
            cost = found.cost(options.objective)
            if cost < self.cost:
                self.best, self.cost = found, cost
            if found.interrupted:
                raise KeyboardInterrupt
            yield

    def _prepare(self, kernel: str) -> None:
        """Have a kernel ready; the first use on a machine compiles it, which is not the search's time."""
        with self._deadline.paused():
            prepare(kernel)


def _best_of(proof: Proof, level: Level) -> SearchResult:
    """The best plan, of the narrowest level that has one of its cost."""
    cost = proof.cost(level)
    if proof.cost("vertex") == cost:
        return SearchResult(proof.graph, "exact-vertex", proof.order())
    if proof.cost("edge") == cost:
        return SearchResult(proof.graph, "exact-edge", _accumulation=proof.accumulation("edge"))
    return SearchResult(proof.graph, "exact-face", _accumulation=proof.accumulation("face"))
