"""A line graph in which nothing merges by itself: known sequences run in it, and every step is checked.

Unlike in `accumulus.elimination.face.FaceElimination`, on which it stands, nothing is absorbed or merged unless it is
said, so that a sequence computes exactly what it says. Vertices have numbers given by the caller, those of the graph's
edges first. The label 1 takes no product, and two vertices whose labels are equal multiply as one: eliminating both
⟨l,r⟩ and ⟨l',r⟩ for a copy l' of l takes one product.

Every operation keeps the sum over all paths from every root to every terminal, so what `finish` returns is the Jacobian
whatever the sequence was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.face import FaceElimination
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
        ones = frozenset(e for e, kind in enumerate(graph.kinds.tolist()) if kind == Kind.ONE)
        self._line = _Unmerged(graph, _Steps(len(graph.sources), ones=ones))
        #: Vertices of the line graph by the caller's numbers.
        self._vertex = {e: e for e in self._line.vertices()}
        added = len(graph.roots) + len(graph.terminals)
        self._vertex.update((-1 - k, len(graph.sources) + k) for k in range(added))

    def eliminate(self, i: int, j: int, k: int) -> None:
        """Replace face ⟨i,j⟩ by a vertex k with P_i and S_j; what is isolated then goes.

        Raises:
            OrderError: if there is no such face.
        """
        made = self._line.eliminate(self._at(i), self._at(j))
        for v in (i, j):
            if self._vertex[v] == made:  # reused for the product
                del self._vertex[v]
        self._vertex[k] = made

    def merge(self, terms: Sequence[int], k: int) -> None:
        """Replace vertices with the same P and S by a vertex k that has the sum of their labels.

        Raises:
            OrderError: if they do not have the same P and S.
        """
        line, vertices = self._line, [self._at(term) for term in terms]
        first, *others = vertices
        for v in others:
            if not line.alike(first, v):
                raise OrderError(f"{line.name(first)} and {line.name(v)} do not have the same P and S")
        label = reduce(line.steps.sum, sorted(line.labels[v] for v in vertices))
        for v in others:
            line.remove(v)
        line.labels[first] = label
        for term in terms:
            del self._vertex[term]
        self._vertex[k] = first

    def split(self, v: int, copy: int, *, predecessors: Iterable[int] = (), successors: Iterable[int] = ()) -> None:
        """Move some of v's predecessors, or some of its successors, to a copy that shares the others.

        Raises:
            OrderError: if these are not some, but not all, of them.
        """
        above, below = [self._at(p) for p in predecessors], [self._at(s) for s in successors]
        self._vertex[copy] = self._line.split(self._at(v), predecessors=above, successors=below)

    def join(self, v: int, copy: int) -> None:
        """Undo a split: v takes over the faces of a vertex with the same label, and the same P or the same S.

        Raises:
            OrderError: if they differ in more, or have faces in common.
        """
        self._line.join(self._at(v), self._at(copy))
        del self._vertex[copy]

    def finish(self) -> Accumulation:
        """The Jacobian, when every vertex runs from a root to a terminal.

        Raises:
            OrderError: if a face is left.
        """
        return self._line.finish()

    def _at(self, number: int) -> int:
        if number not in self._vertex:
            raise OrderError(f"vertex {number} is not in the line graph (any more)")
        return self._vertex[number]


@dataclass(slots=True)
class _Steps(SharedSteps):
    """Steps of which equal ones are made once, and products with 1 not at all."""

    ones: frozenset[int] = frozenset()

    def product(self, left: int, right: int) -> int:
        if left in self.ones:
            return right
        return left if right in self.ones else SharedSteps.product(self, left, right)


class _Unmerged(FaceElimination):
    """A face elimination that neither absorbs nor merges before it is finished."""

    def alike(self, v: int, w: int) -> bool:
        """Whether two vertices that are there have the same P and S."""
        return v in self and w in self and self._equal(v, w, w)

    def remove(self, v: int) -> None:
        """Take a vertex out."""
        self._remove(v)
        self._settle()

    def join(self, v: int, copy: int) -> None:
        """Put the faces of a vertex to those of another one that has the same label and the same P or S."""
        P, S = self.predecessors, self.successors
        same_p, same_s = P[v].keys() == P[copy].keys(), S[v].keys() == S[copy].keys()
        apart = S[v].keys().isdisjoint(S[copy]) if same_p else P[v].keys().isdisjoint(P[copy])
        if self.labels[v] != self.labels[copy] or same_p == same_s or not apart:
            raise OrderError(f"{self.name(v)} and {self.name(copy)} are not the two parts of a split")
        above, below = list(P[copy]), list(S[copy])
        self._remove(copy)
        for p in above if same_s else ():
            self._connect(p, v)
        for s in below if same_p else ():
            self._connect(v, s)
        self._settle()

    def finish(self) -> Accumulation:
        """The Jacobian, what runs between the same root and terminal added up."""
        for v in self.vertices():
            self._touch(v)
        super()._settle()
        return super().finish()

    def _settle(self) -> None:
        """Remove what is isolated; nothing is in the index, so nothing is found there to absorb or merge."""
        while self._queue:
            v = self._queue.popleft()
            if v in self._changed and not (self.predecessors[v] and self.successors[v]):
                self._remove(v)
            self._changed.discard(v)
