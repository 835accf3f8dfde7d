"""Structural nonzeros of matrices of derivatives: where they are, and which outputs of a program they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.graph.linearize import Linearization

__all__ = ["Nonzeros"]


@dataclass(frozen=True, slots=True)
class Nonzeros:
    """Structural nonzeros of a matrix, row by row: place, and position among the accumulation's entries."""

    rows: NDArray[np.signedinteger[Any]]
    columns: NDArray[np.intp]
    outputs: NDArray[np.intp]

    @classmethod
    def of(cls, linearization: Linearization, entries: Sequence[tuple[int, int]]) -> Nonzeros:
        """Of all results by all inputs; results that are equal share the entries of a root."""
        pairs = np.array(entries, np.intp).reshape(-1, 2)
        roots = np.array(linearization.rows, np.intp)
        starts = np.searchsorted(pairs[:, 0], roots)
        counts = np.searchsorted(pairs[:, 0], roots, side="right") - starts
        # entry k of the whole is entry k - (entries of the rows above) of its row
        outputs = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        columns = np.array(linearization.columns, np.intp)[pairs[outputs, 1]]
        return cls(np.repeat(np.arange(len(roots)), counts), columns, outputs)

    def block(self, rows: range, columns: range) -> Nonzeros:
        """Those of a block, whose own rows and columns count from 0."""
        first, last = np.searchsorted(self.rows, (rows.start, rows.stop))
        chosen = slice(first, last)
        given = self.columns[chosen]
        if not len(given) or (columns.start <= int(given.min()) and int(given.max()) < columns.stop):
            own = self.rows[chosen] - rows.start if rows.start else self.rows[chosen]
            return Nonzeros(own, given - columns.start if columns.start else given, self.outputs[chosen])
        inside = (given >= columns.start) & (given < columns.stop)
        return Nonzeros(
            self.rows[chosen][inside] - rows.start,
            given[inside] - columns.start,
            self.outputs[chosen][inside],
        )

    def union(self, other: Nonzeros, width: int) -> Nonzeros:
        """The places of both, row by row; of no output. `width` is the number of columns."""
        places = np.union1d(self._places(width), other._places(width))
        return Nonzeros(places // width, places % width, np.zeros(len(places), np.intp))

    def find(self, others: Nonzeros, width: int) -> NDArray[np.intp]:
        """Which of these places, row by row, are those of others, which are among them."""
        return np.searchsorted(self._places(width), others._places(width))

    def of_one_triangle(self, inputs: NDArray[np.int64], skipped: int, *, upper: bool) -> Nonzeros:
        """The same places of a symmetric matrix, those of one triangle for both, where it has them.

        Args:
            inputs: that the rows belong to, behind those that are skipped; columns are by input.
            upper: whether it is the upper triangle that is computed.
        """
        place = np.zeros(int(inputs.max(initial=0)) + 1, np.int64)
        place[inputs] = np.arange(len(inputs))
        rows, columns = self.rows.astype(np.int64) - skipped, place[self.columns]
        keys, partners = rows * len(inputs) + columns, columns * len(inputs) + rows
        order = np.argsort(keys)
        found = order[np.minimum(np.searchsorted(keys[order], partners), max(len(keys) - 1, 0))]
        taken = (keys[found] == partners) & ((rows > columns) if upper else (rows < columns))
        return Nonzeros(self.rows, self.columns, np.where(taken, self.outputs[found], self.outputs))

    def mirrored(self, inputs: NDArray[np.int64], skipped: int) -> Nonzeros:
        """The places of a symmetric matrix, of which these are on and below the diagonal; arguments as above."""
        place = np.zeros(int(inputs.max(initial=0)) + 1, np.int64)
        place[inputs] = np.arange(len(inputs))
        rows, columns = self.rows.astype(np.int64) - skipped, place[self.columns]
        below = rows > columns
        all_rows, all_columns = np.concatenate([rows, columns[below]]), np.concatenate([columns, rows[below]])
        outputs = np.concatenate([self.outputs, self.outputs[below]])
        order = np.lexsort((inputs[all_columns], all_rows))
        return Nonzeros(all_rows[order] + skipped, inputs[all_columns][order], outputs[order])

    def as_matrix(self, inputs: NDArray[np.int64], skipped: int) -> Nonzeros:
        """The same with rows from 0 behind those that are skipped, and columns counted among `inputs`; in any order."""
        place = np.zeros(int(inputs.max(initial=0)) + 1, np.int64)
        place[inputs] = np.arange(len(inputs))
        behind = self.rows >= skipped
        rows, columns = self.rows[behind].astype(np.int64) - skipped, place[self.columns[behind]]
        return Nonzeros(rows, columns, self.outputs[behind])

    def in_order(self) -> Nonzeros:
        """The same row by row, columns of each in order."""
        order = np.lexsort((self.columns, self.rows))
        return Nonzeros(self.rows[order], self.columns[order], self.outputs[order])

    def _places(self, width: int) -> NDArray[np.int64]:
        return self.rows.astype(np.int64) * width + self.columns
