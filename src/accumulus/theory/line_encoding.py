"""The line graph of a part of a graph, encoded for kernels: its labels are numbered, and so are the vertices around.

Roots and terminals are no vertices here: what starts at a vertex outside of the part has no predecessors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.face import FaceElimination
from accumulus.search.elimination import Elimination
from accumulus.theory.compiled.faces_state import INNER, ROOT, TERMINAL

__all__ = ["Lines", "words"]


class Lines:
    """The edges at the intermediates of an independent part, as labels 0, 1, ….

    Args:
        state: the graph, nothing eliminated.
        part: intermediates.

    Attributes:
        edges: (source, target) of each label, by vertices of the graph.
        vertices: those vertices, in the order of their numbers here.
        numbers: of the vertices.
        starts, ends, levels: of each label: the numbers of its ends, and its level (`accumulus.search.elimination`).
        above, below: predecessors and successors of each label, as bits.
        sizes, kinds: of each vertex; `INNER`, `ROOT` or `TERMINAL`.
    """

    def __init__(self, state: Elimination, part: Collection[int]) -> None:
        inner = set(part)
        self.edges: Final = [(j, i) for j, row in enumerate(state.successors) for i in row if j in inner or i in inner]
        self.vertices: Final = list(dict.fromkeys(v for edge in self.edges for v in edge))
        self.numbers: Final = {v: k for k, v in enumerate(self.vertices)}
        place = {edge: k for k, edge in enumerate(self.edges)}
        self.starts, self.ends = ([self.numbers[edge[end]] for edge in self.edges] for end in (0, 1))
        self.levels = [state.successors[j][i] for j, i in self.edges]
        self.above = [sum(1 << place[p, j] for p in state.predecessors[j]) if j in inner else 0 for j, _ in self.edges]
        self.below = [sum(1 << place[i, s] for s in state.successors[i]) if i in inner else 0 for _, i in self.edges]
        self.sizes = np.array([state.sizes[v] for v in self.vertices], np.int64)
        self.kinds = np.array(
            [INNER if v in inner else TERMINAL if state.predecessors[v] else ROOT for v in self.vertices], np.int64
        )

    def faces(self, elimination: FaceElimination, steps: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
        """Eliminate faces that a kernel has found in a face elimination of the graph in which the part is untouched.

        Args:
            steps: two labels and their product, which is −1 where it is never used again.

        Returns:
            the faces, as `accumulus.elimination.face.eliminate_faces` takes them.
        """
        graph, resolve = elimination.graph, elimination.resolve
        ends = zip(graph.sources.tolist(), graph.targets.tolist(), graph.live_edges.tolist(), strict=True)
        vertex = {(j, i): resolve(e) for e, (j, i, live) in enumerate(ends) if live}
        number = {k: vertex[edge] for k, edge in enumerate(self.edges)}
        taken = []
        for i, j, k in steps:
            face = resolve(number[i]), resolve(number[j])
            number[k] = elimination.eliminate(*face)
            taken.append(face)
        return taken


def words(bits: int, count: int) -> NDArray[np.int64]:
    """Bits in so many words of 64."""
    return np.frombuffer(bits.to_bytes(8 * count, "little"), np.dtype(np.int64).newbyteorder("<"))
