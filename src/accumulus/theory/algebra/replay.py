"""A line graph in which nothing happens by itself: known sequences run in it, and every step is checked.

Unlike `accumulus.elimination.face.FaceElimination` it neither absorbs nor merges unless told to, so that a sequence
computes exactly what it says. Vertices have numbers given by the caller, those of the graph's edges first. The label 1
takes no product, and two vertices whose labels are equal multiply as one: eliminating both ⟨l,r⟩ and ⟨l',r⟩ for a
copy l' of l takes one product.

Every operation keeps the sum over all paths from every root to every terminal, so what `finish` returns is the Jacobian
whatever the sequence was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from accumulus.elimination.accumulation import Accumulation
from accumulus.errors import OrderError
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.theory.shared_steps import SharedSteps

__all__ = ["LineReplay"]


class LineReplay:
    """The line graph of `graph`, being eliminated step by step.

    Roots and terminals are numbered -1, -2, …

    >>> replay = LineReplay(DifferentiationGraph([("y", "a"), ("a", "x"), ("y", "b"), ("b", "x")]))
    >>> replay.eliminate(0, 1, 4)
    >>> replay.eliminate(2, 3, 5)
    >>> replay.merge([4, 5], 6)
    >>> list(replay.finish().steps)
    [(1, 0, 1), (1, 2, 3), (0, 4, 5)]
    """

    def __init__(self, graph: DifferentiationGraph) -> None:
        self.graph = graph
        self.steps = SharedSteps(len(graph.sources))
        #: Reference of every vertex's label.
        self.labels: dict[int, int] = {}
        self.predecessors: dict[int, set[int]] = {}
        self.successors: dict[int, set[int]] = {}
        self._ones = {e for e, kind in enumerate(graph.kinds.tolist()) if kind == Kind.ONE}
        rows = {root: -1 - row for row, root in enumerate(graph.roots)}
        columns = {terminal: -1 - len(rows) - column for column, terminal in enumerate(graph.terminals)}
        live = graph.live_edges.tolist()
        for e in graph.live_edges.nonzero()[0].tolist():
            source, target = int(graph.sources[e]), int(graph.targets[e])
            self.labels[e] = e
            above = {rows[source]} if source in rows else {f for f in graph.in_edges[source] if live[f]}
            below = {columns[target]} if target in columns else {f for f in graph.out_edges[target] if live[f]}
            self.predecessors[e], self.successors[e] = above, below

    def eliminate(self, i: int, j: int, k: int) -> None:
        """Replace face ⟨i,j⟩ by a vertex k with P_i and S_j; what is isolated then goes.

        Raises:
            OrderError: if there is no such face.
        """
        if j not in self.successors.get(i, ()) or j < 0:
            raise OrderError(f"there is no face ({i}, {j}) in the line graph")
        one, other = self.labels[i], self.labels[j]
        if one in self._ones or other in self._ones:
            self.labels[k] = other if one in self._ones else one
        else:
            self.labels[k] = self.steps.product(one, other)
        self.successors[i].remove(j)
        self.predecessors[j].remove(i)
        self._attach(k, self.predecessors[i], self.successors[j])
        for v in (i, j):
            if not self.predecessors[v] or not self.successors[v]:
                self._remove(v)

    def merge(self, terms: Sequence[int], k: int) -> None:
        """Replace vertices with the same P and S by a vertex k that has the sum of their labels.

        Raises:
            OrderError: if they do not have the same P and S.
        """
        first, *others = terms
        P, S = self.predecessors[first], self.successors[first]
        for term in others:
            if self.predecessors[term] != P or self.successors[term] != S:
                raise OrderError(f"vertices {first} and {term} of the line graph do not have the same P and S")
        self.labels[k] = reduce(self.steps.sum, sorted(self.labels[term] for term in terms))
        self._attach(k, P, S)
        for term in terms:
            self._remove(term)

    def split(self, v: int, copy: int, *, predecessors: Iterable[int] = (), successors: Iterable[int] = ()) -> None:
        """Move some of v's predecessors, or some of its successors, to a copy that shares the others."""
        above, below = set(predecessors), set(successors)
        P, S = self.predecessors[v], self.successors[v]
        if bool(above) == bool(below) or not (above < P if above else below < S):
            raise OrderError(f"cannot split vertex {v}: expected some of its predecessors or some of its successors")
        self.labels[copy] = self.labels[v]
        self._attach(copy, above or P, below or S)
        for p in above:
            P.remove(p)
            if p >= 0:
                self.successors[p].remove(v)
        for s in below:
            S.remove(s)
            if s >= 0:
                self.predecessors[s].remove(v)

    def join(self, v: int, copy: int) -> None:
        """Undo a split: v takes over the faces of a vertex with the same label, and the same P or the same S.

        Raises:
            OrderError: if they differ in more, or have faces in common.
        """
        P, S = self.predecessors[v], self.successors[v]
        above, below = self.predecessors[copy], self.successors[copy]
        if self.labels[v] != self.labels[copy] or not ((P == above) ^ (S == below)) or (P == above and S & below):
            raise OrderError(f"vertices {v} and {copy} of the line graph are not the two parts of a split")
        if S == below and P & above:
            raise OrderError(f"vertices {v} and {copy} of the line graph are not the two parts of a split")
        above, below = set(above), set(below)
        self._remove(copy)
        self._attach(v, P | above, S | below)

    def finish(self) -> Accumulation:
        """The Jacobian, when every vertex runs from a root to a terminal.

        Raises:
            OrderError: if a face is left.
        """
        rows = len(self.graph.roots)
        entries: dict[tuple[int, int], int] = {}
        for v, label in self.labels.items():
            if v not in self.predecessors:
                continue
            ends = (*self.predecessors[v], *self.successors[v])
            if len(ends) != 2 or max(ends) >= 0:
                raise OrderError(
                    f"vertex {v} of the line graph still has faces; expected a sequence that eliminates all"
                )
            key = (-1 - ends[0], -1 - rows - ends[1])
            entries[key] = self.steps.sum(entries[key], label) if key in entries else label
        return Accumulation(self.graph, self.steps, dict(sorted(entries.items())))

    def _attach(self, k: int, P: Iterable[int], S: Iterable[int]) -> None:
        self.predecessors[k], self.successors[k] = set(P), set(S)
        for p in self.predecessors[k]:
            if p >= 0:
                self.successors[p].add(k)
        for s in self.successors[k]:
            if s >= 0:
                self.predecessors[s].add(k)

    def _remove(self, v: int) -> None:
        for p in self.predecessors.pop(v):
            if p >= 0:
                self.successors[p].discard(v)
        for s in self.successors.pop(v):
            if s >= 0:
                self.predecessors[s].discard(v)
