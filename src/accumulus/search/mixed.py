"""Simulated annealing over elimination sequences that mix vertices, edges and faces: the kernel's memory, its driver.

The kernel (`accumulus.search.compiled.mixed_kernel`) begins with a vertex order, or with the items of an earlier run.
What it finds is handed back as an edge elimination, or as the faces that it took.

Deterministic: what a run finds depends on its start, its seed and its number of moves, not on where it is cut
into slices.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from accumulus.accumulate.accumulation import Accumulation
from accumulus.accumulate.edge import EdgeElimination, Side, edges_of_vertex
from accumulus.accumulate.face import FaceElimination
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.block import Block
from accumulus.native.machine import kernel
from accumulus.search.annealing import seed_of
from accumulus.search.compiled import mixed_slots as slot
from accumulus.search.elimination import Cost, Elimination

__all__ = ["MOST_EDGES", "MixedAnnealing"]

#: Edges, at most: beyond, kept states take too much memory and time.
MOST_EDGES: Final = 600
#: Items that are no vertices: for each vertex, and besides.
_REFINEMENTS: Final = (0.25, 8)
#: Labels beyond the edges of the graph that there is room for: for each edge, and besides.
_ROOM: Final = (0.25, 32)
#: Temperatures at the start and at the end of a run, in units of what a product costs on average, at least 1.
_HOT: Final = 0.2
_COLD: Final = 0.05
#: Weight of the total that breaks ties.
_TIE: Final = 0.05
#: Products in a slice, a fraction of a millisecond; seconds for each product of a sequence that a move takes.
_SLICE: Final = 1_000
_PRODUCT: Final = 1e-7
_SEED: Final = 2004
_IDS: Final = (1 << slot.ID_BITS) - 1
_SIDES: Final[dict[int, Side]] = {slot.FRONT: "front", slot.BACK: "back"}


class MixedAnnealing:
    """Annealing of the edge or face eliminations of one graph.

    Args:
        state: the graph, nothing eliminated; at least one intermediate and at most `MOST_EDGES` edges at these.
        order: of the intermediates, to begin with.

    Attributes:
        count: items of a sequence.
    """

    def __init__(self, state: Elimination, order: Sequence[int]) -> None:
        inner = set(state.intermediates)
        self._lines = [(j, i) for j, row in enumerate(state.successors) for i in row if j in inner or i in inner]
        numbers: dict[int, int] = {}
        for line in self._lines:
            for v in line:
                numbers.setdefault(v, len(numbers))
        self._vertices = list(numbers)
        ordered = [numbers[v] for v in order if v in inner]
        assert len(self._lines) <= MOST_EDGES
        refinements = int(_REFINEMENTS[0] * len(ordered)) + _REFINEMENTS[1]
        length = self.count = len(ordered) + refinements
        words = -(-int(len(self._lines) * (1 + _ROOM[0]) + _ROOM[1]) // 64)
        labels, vertices = 64 * words, len(numbers)
        size = slot.PRESENT + words + 2 * labels * (words + 1) + 2 * vertices * words
        states = -(-length // slot.STEP)

        block = self._block = Block(slot.SLOTS)
        memory = [np.zeros((states, size), np.int64) for _ in range(2)]
        for name, states_of in zip((slot.KEPT, slot.TRIED), memory, strict=True):
            block.point(name, states_of.ctypes.data + 8 * size * np.arange(states, dtype=np.int64))
        self._memory = memory
        block.point(slot.STATE, np.zeros(size, np.int64))
        self._items = block.point(slot.ITEMS, np.zeros(length, np.int64))
        block.point(slot.TRIAL, np.zeros(length, np.int64))
        self._best_items = block.point(slot.BEST_ITEMS, np.zeros(length, np.int64))
        block.point(slot.SIZES, np.array([state.sizes[v] for v in numbers], np.int64))
        sides = [0 if v in inner else 1 if not state.predecessors[v] else 2 for v in numbers]
        block.point(slot.ENDS, np.array(sides, np.int64))
        block.point(slot.LOGARITHMS, -np.log((np.arange(slot.TABLE) + 0.5) / slot.TABLE))
        block.point(slot.TOUCHED, np.zeros(words, np.int64))
        values = block.integers
        values[[slot.VERTICES, slot.WORDS, slot.LENGTH, slot.STATE_WORDS]] = vertices, words, length, size
        values[slot.FMA] = state.objective.every_product
        values[[slot.BEST, slot.LOGGED]] = np.iinfo(np.int64).max, -1
        block.floats[slot.TIE] = _TIE
        memory[0][0] = self._initial = _initial_state(state, self._lines, numbers, words, size)
        self._run = kernel("search.mixed")
        self._products = 0
        # refinements lie evenly between the vertices
        start = [slot.NOTHING] * length
        for t, v in enumerate(ordered):
            start[t * length // len(ordered)] = slot.VERTEX | v << slot.KIND_BITS
        self._set(start)

    @property
    def faces(self) -> bool:
        """Whether single faces are searched, and not only edges."""
        return bool(self._block.integers[slot.FACES])

    @faces.setter
    def faces(self, wanted: bool) -> None:
        self._block.integers[slot.FACES] = wanted

    @property
    def least(self) -> int:
        """Cost of the best sequence so far."""
        return self.best[0][0]

    @property
    def best(self) -> tuple[Cost, tuple[int, ...]]:
        """Cost of the best sequence so far, and its items."""
        total = int(self._block.integers[slot.BEST])
        return (total >> slot.SHIFT, total & (1 << slot.SHIFT) - 1), tuple(self._best_items.tolist())

    def run(self, start: Sequence[int], visits: int, seed: Sequence[int], heat: float = 1.0) -> Iterator[int]:
        """Anneal once; yields the best cost of all runs after each slice.

        Args:
            start: items to begin with.
            visits: moves that are tried.
            heat: factor of the temperature at the start.
        """
        integers, floats = self._block.integers, self._block.floats
        self._set(start)
        scale = max(1.0, (int(integers[slot.TOTAL]) >> slot.SHIFT) / max(1, self._products))
        floats[slot.TEMPERATURE] = _HOT * heat * scale
        floats[slot.COOLING] = (_COLD / (_HOT * heat)) ** (1 / max(1, visits))
        integers[slot.RANDOM] = seed_of(*seed)
        integers[slot.MOVES] = visits
        while integers[slot.MOVES] > 0:
            integers[slot.WORK] = _SLICE
            self._run(self._block.address)
            yield self.least

    def sweeps_in(self, seconds: float) -> float:
        """Sweeps that fit into that time on a machine of today."""
        return seconds / (_PRODUCT * self.count * (self._products + 10))

    def accumulation(self, graph: DifferentiationGraph) -> Accumulation:
        """The best sequence so far, run on the graph: as an edge elimination, if no item is a face."""
        by_faces = any(_parts(item)[0] == slot.FACE for item in self.best[1])
        return self._by_faces(graph) if by_faces else self._by_edges(graph)

    def _set(self, items: Sequence[int]) -> None:
        """Begin with a list of items."""
        integers = self._block.integers
        self._items[:] = items
        integers[[slot.STARTED, slot.MOVES, slot.WORK]] = 0
        self._run(self._block.address)
        self._products = -int(integers[slot.WORK])

    def _by_edges(self, graph: DifferentiationGraph) -> Accumulation:
        elimination = EdgeElimination(graph)
        for item in self.best[1]:
            kind, v, p, s = _parts(item)
            if kind == slot.VERTEX:
                steps = edges_of_vertex(elimination, self._vertices[v])
            elif kind in _SIDES:
                ends = (v, s) if kind == slot.FRONT else (p, v)
                j, i = (self._vertices[end] for end in ends)
                steps = [(j, i, _SIDES[kind])] if i in elimination.successors[j] else []
            else:
                steps = []
            for step in steps:
                elimination.eliminate(*step)
        return elimination.finish()

    def _by_faces(self, graph: DifferentiationGraph) -> Accumulation:
        integers = self._block.integers
        self._set(self.best[1])
        log = self._block.point(slot.LOG, np.zeros((self._products, 3), np.int64))
        integers[slot.LOGGED] = 0
        self._set(self.best[1])
        taken = log[: int(integers[slot.LOGGED])].tolist()
        integers[slot.LOGGED] = -1
        elimination = FaceElimination(graph)
        vertex = {(int(graph.sources[e]), int(graph.targets[e])): e for e in elimination.vertices()}
        number = {k: vertex[line] for k, line in enumerate(self._lines)}
        resolve = elimination.resolve
        for i, j, k in taken:
            made = elimination.eliminate(resolve(number[i]), resolve(number[j]))
            if k >= 0:
                number[k] = made
        return elimination.finish()


def _parts(item: int) -> tuple[int, int, int, int]:
    """Kind of an item, then its vertices: the middle one, where it starts, where it ends."""
    item, kind = item >> slot.KIND_BITS, item & (1 << slot.KIND_BITS) - 1
    return kind, item & _IDS, item >> slot.ID_BITS & _IDS, item >> 2 * slot.ID_BITS


def _initial_state(
    state: Elimination, lines: Sequence[tuple[int, int]], numbers: dict[int, int], words: int, size: int
) -> np.ndarray:
    """The line graph, as the kernel lays it out."""
    labels, vertices = 64 * words, len(numbers)
    made = np.zeros(size, np.uint64)
    at = slot.PRESENT + words
    rows = made[at : at + 2 * labels * words].reshape(2, labels, words)
    infos, values = made[at + rows.size : at + rows.size + 2 * labels].reshape(2, labels)
    starts, ends = made[size - 2 * vertices * words :].reshape(2, vertices, words)
    rng = random.Random(_SEED)

    def put(row: np.ndarray, k: int) -> None:
        row[k >> 6] |= np.uint64(1 << (k & 63))

    slots = {line: k for k, line in enumerate(lines)}
    for (j, i), k in slots.items():
        put(made[slot.PRESENT :], k)
        put(starts[numbers[j]], k)
        put(ends[numbers[i]], k)
        infos[k] = numbers[j] | numbers[i] << slot.ID_BITS | state.successors[j][i] << 2 * slot.ID_BITS
        values[k] = rng.getrandbits(64) | 1
        for s in state.successors[i]:
            if (i, s) in slots:
                put(rows[1, k], slots[i, s])
                put(rows[0, slots[i, s]], k)
    return made.view(np.int64)
