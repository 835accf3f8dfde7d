"""Graphs as bitset rows, for the compiled kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accumulus.search.elimination import Elimination

__all__ = ["BitRows"]


@dataclass(frozen=True, slots=True)
class BitRows:
    """The edges of a graph as bits.

    Attributes:
        number: bit of each vertex that has an edge; the intermediates come first, in their own order.
        rows: (intermediates, 6, words) of 64 bits: what depends on a vertex by any edge, by edges of level 2
        and 3, of
            level 3 (`accumulus.search.elimination`); then the same of what it depends on.
        sizes: of the vertices, by bit.
    """

    number: dict[int, int]
    rows: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, state: Elimination) -> BitRows:
        """Rows of the graph as it is left."""
        inner = len(state.intermediates)
        number = {v: k for k, v in enumerate(state.intermediates)}
        edges = [
            (number.setdefault(j, len(number)), number.setdefault(i, len(number)), level)
            for j, row in enumerate(state.successors)
            for i, level in row.items()
        ]
        words = max(2, -(-len(number) // 64))
        below = np.zeros((len(number), 64 * words), np.uint8)
        above = np.zeros_like(below)
        j, i, level = np.array(edges, np.int64).reshape(-1, 3).T
        below[j, i] = above[i, j] = level
        rows = np.empty((inner, 6, words), np.int64)
        for side, levels in enumerate((above, below)):
            for least in (1, 2, 3):
                bits = np.packbits(levels[:inner] >= least, axis=1, bitorder="little")
                rows[:, 3 * side + least - 1] = bits.view(np.dtype(np.int64).newbyteorder("<"))
        sizes = np.ones(64 * words, np.int64)
        for v, k in number.items():
            sizes[k] = state.sizes[v]
        return cls(number, rows, sizes)
