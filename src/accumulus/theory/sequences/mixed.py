"""Simulated annealing over elimination sequences that mix vertices, edges and faces: the kernel's memory, its driver.

The kernel (`accumulus.theory.compiled.mixed_kernel`) begins with a vertex order, or with the items of an earlier run.
What it finds is handed back as an edge elimination, or as the faces that it took.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from accumulus.annealing import Annealing, thresholds
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.edge import EdgeElimination, Side, edges_of_vertex
from accumulus.elimination.face import FaceElimination
from accumulus.elimination.vertex import Cost
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import kernel
from accumulus.native.state import Integers
from accumulus.search.elimination import Elimination
from accumulus.theory.compiled.faces_state import INNER
from accumulus.theory.compiled.mixed_state import (
    BACK,
    FACE,
    FRONT,
    ID_BITS,
    KIND_BITS,
    NOTHING,
    SHIFT,
    STEP,
    TABLE,
    VERTEX,
    MixedState,
)
from accumulus.theory.line_encoding import Lines, words

__all__ = ["MOST_EDGES", "MixedAnnealing"]

#: Edges, at most: beyond, kept states take too much memory and time.
MOST_EDGES: Final = 600
#: Items that are no vertices: for each vertex, and besides.
_REFINEMENTS: Final = (0.25, 8)
#: Labels beyond the edges of the graph that there is room for: for each edge, and besides.
_ROOM: Final = (0.25, 32)
#: Weight of the total that breaks ties.
_TIE: Final = 0.05
#: Products in a slice, a fraction of a millisecond; seconds for each product of a sequence that a move takes.
_SLICE: Final = 1_000
_PRODUCT: Final = 1e-7
_SEED: Final = 2004
_IDS: Final = (1 << ID_BITS) - 1
_SIDES: Final[dict[int, Side]] = {FRONT: "front", BACK: "back"}


class MixedAnnealing(Annealing):
    """Annealing of the edge or face eliminations of one graph. A visit tries a move; runs start from items.

    Temperatures are in units of what a product costs on average, at least 1.

    Args:
        state: the graph, nothing eliminated; at least one intermediate and at most `MOST_EDGES` edges at these.
        order: of the intermediates, to begin with.

    Attributes:
        count: items of a sequence.
    """

    HOT, COLD = 0.2, 0.05
    _state: MixedState

    def __init__(self, state: Elimination, order: Sequence[int]) -> None:
        lines = self._lines = Lines(state, state.intermediates)
        ordered = [lines.numbers[v] for v in order if v in lines.numbers and lines.kinds[lines.numbers[v]] == INNER]
        assert len(lines.edges) <= MOST_EDGES
        refinements = int(_REFINEMENTS[0] * len(ordered)) + _REFINEMENTS[1]
        length = self.count = len(ordered) + refinements
        count = -(-int(len(lines.edges) * (1 + _ROOM[0]) + _ROOM[1]) // 64)
        graph, parts = _encoded(lines, count)
        steps = -(-length // STEP)
        snapshots = np.zeros((2 * steps, graph.size), np.int64)
        snapshots[0] = graph
        self._state = MixedState(
            graph=graph,
            **parts,
            snapshots=snapshots,
            costs=np.zeros(2 * steps, np.int64),
            prints=np.zeros(2 * steps, np.int64),
            kept=np.arange(steps),
            tried=np.arange(steps, 2 * steps),
            items=np.zeros(length, np.int64),
            trial=np.zeros(length, np.int64),
            best_items=np.zeros(length, np.int64),
            touched=np.zeros(count, np.int64),
            sizes=lines.sizes,
            kinds=lines.kinds,
            logarithms=thresholds(TABLE),
            log=np.zeros((0, 3), np.int64),
            random=np.ones(1, np.int64),
            words=count,
            length=length,
            size=graph.size,
            fma=state.objective.every_product,
            best=np.iinfo(np.int64).max,
            tie=_TIE,
        )
        self._run = kernel("theory.mixed")
        self._products = 0
        # refinements lie evenly between the vertices
        start = [NOTHING] * length
        for t, v in enumerate(ordered):
            start[t * length // len(ordered)] = VERTEX | v << KIND_BITS
        self._begin(start)

    @property
    def faces(self) -> bool:
        """Whether single faces are searched, and not only edges."""
        return bool(self._state.faces)

    @faces.setter
    def faces(self, wanted: bool) -> None:
        self._state.faces = wanted

    @property
    def best_cost(self) -> int:
        """Cost of the best sequence so far."""
        return self._state.best >> SHIFT

    @property
    def best(self) -> tuple[Cost, tuple[int, ...]]:
        """Cost of the best sequence so far, and its items."""
        total = self._state.best
        return (total >> SHIFT, total & (1 << SHIFT) - 1), tuple(self._state.best_items.tolist())

    def _begin(self, start: Sequence[int]) -> float:
        state = self._state
        state.items[:] = start
        state.started = state.moves = state.work = 0
        self._run(state.address)
        self._products = -state.work
        return max(1.0, (state.total >> SHIFT) / max(1, self._products))

    def _visit(self, visits: int) -> int:
        state = self._state
        state.moves, state.work = visits, _SLICE
        self._run(state.address)
        return visits - state.moves

    def sweeps_in(self, seconds: float) -> float:
        """Sweeps that fit into that time on a machine of today."""
        return seconds / (_PRODUCT * self.count * (self._products + 10))

    def accumulation(self, graph: DifferentiationGraph) -> Accumulation:
        """The best sequence so far, run on the graph: as an edge elimination, if no item is a face."""
        by_faces = any(_parts(item)[0] == FACE for item in self.best[1])
        return self._by_faces(graph) if by_faces else self._by_edges(graph)

    def _by_edges(self, graph: DifferentiationGraph) -> Accumulation:
        elimination = EdgeElimination(graph)
        for item in self.best[1]:
            kind, v, p, s = _parts(item)
            if kind == VERTEX:
                steps = edges_of_vertex(elimination, self._lines.vertices[v])
            elif kind in _SIDES:
                ends = (v, s) if kind == FRONT else (p, v)
                j, i = (self._lines.vertices[end] for end in ends)
                steps = [(j, i, _SIDES[kind])] if i in elimination.successors[j] else []
            else:
                steps = []
            for step in steps:
                elimination.eliminate(*step)
        return elimination.finish()

    def _by_faces(self, graph: DifferentiationGraph) -> Accumulation:
        state = self._state
        self._begin(self.best[1])
        state.log, state.logged = np.zeros((self._products, 3), np.int64), 0
        self._begin(self.best[1])
        taken = state.log[: state.logged].tolist()
        state.logged = -1
        elimination = FaceElimination(graph)
        self._lines.faces(elimination, taken)
        return elimination.finish()


def _parts(item: int) -> tuple[int, int, int, int]:
    """Kind of an item, then its vertices: the middle one, where it starts, where it ends."""
    item, kind = item >> KIND_BITS, item & (1 << KIND_BITS) - 1
    return kind, item & _IDS, item >> ID_BITS & _IDS, item >> 2 * ID_BITS


def _encoded(lines: Lines, count: int) -> tuple[Integers, dict[str, Any]]:
    """The line graph in one array, with rows of so many words, and the parts of it, by their names."""
    labels, vertices, edges = 64 * count, len(lines.vertices), len(lines.edges)
    shapes: dict[str, tuple[int, ...]] = {
        "present": (count,),
        **dict.fromkeys(("above", "beneath"), (labels, count)),
        **dict.fromkeys(("starts", "ends", "levels", "values"), (labels,)),
        **dict.fromkeys(("out", "into"), (vertices, count)),
    }
    graph = np.zeros(sum(map(prod, shapes.values())), np.int64)
    pieces = np.split(graph, np.cumsum([prod(shape) for shape in shapes.values()])[:-1])
    parts = {name: piece.reshape(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
    rng = random.Random(_SEED)
    parts["present"][:] = words((1 << edges) - 1, count)
    for k in range(edges):
        parts["above"][k], parts["beneath"][k] = words(lines.above[k], count), words(lines.below[k], count)
        parts["out"][lines.starts[k]] |= words(1 << k, count)
        parts["into"][lines.ends[k]] |= words(1 << k, count)
        parts["values"].view(np.uint64)[k] = rng.getrandbits(64) | 1
    for name in ("starts", "ends", "levels"):
        parts[name][:edges] = getattr(lines, name)
    return graph, parts
