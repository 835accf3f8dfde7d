"""Structural nonzeros of matrices of derivatives, and matrices of SciPy: values in a pattern fixed before any call."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accumulus.graph.linearize import Linearization
from accumulus.options import SparseFormat

if TYPE_CHECKING:
    from scipy.sparse import coo_array, csc_array, csr_array


#: Places that are looked at at once; they stay in the processor's cache.
PART: Final = 1 << 16


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
        """Return the positions among these places, row by row, of others, which are among them."""
        return np.searchsorted(self._places(width), others._places(width))

    def of_one_triangle(self, inputs: NDArray[np.int64], skipped: int, *, upper: bool) -> Nonzeros:
        """Return the places of a symmetric matrix, those of one triangle for both, where it has them.

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
        """Return rows from 0 behind those that are skipped, and columns counted among `inputs`; in any order."""
        place = np.zeros(int(inputs.max(initial=0)) + 1, np.int64)
        place[inputs] = np.arange(len(inputs))
        behind = self.rows >= skipped
        rows, columns = self.rows[behind].astype(np.int64) - skipped, place[self.columns[behind]]
        return Nonzeros(rows, columns, self.outputs[behind])

    def in_order(self) -> Nonzeros:
        """Return the places row by row, columns of each in order."""
        order = np.lexsort((self.columns, self.rows))
        return Nonzeros(self.rows[order], self.columns[order], self.outputs[order])

    def _places(self, width: int) -> NDArray[np.int64]:
        return self.rows.astype(np.int64) * width + self.columns


@dataclass(frozen=True, eq=False)
class SparsePattern:
    """Places of the structural nonzeros of a matrix, in the order in which their values are stored.

    All arrays are read-only: the program and all its results go by them. Matrices get copies.

    Args:
        shape: of the matrix: entries of the result × entries of the argument, both in C order.
        rows, columns: of each nonzero; row by row, for csc column by column.
        format: of the SciPy matrices that are made.

    >>> SparsePattern.ordered([1, 0, 1], [0, 2, 2], (2, 3), "csr")[0].matrix(np.array([1.0, 2.0, 3.0])).toarray()
    array([[0., 0., 1.],
           [2., 0., 3.]])
    """

    shape: tuple[int, int]
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    format: SparseFormat

    def __post_init__(self) -> None:
        for array in (self.rows, self.columns):
            array.flags.writeable = False

    @classmethod
    def ordered(
        cls, rows: ArrayLike, columns: ArrayLike, shape: tuple[int, int], fmt: SparseFormat
    ) -> tuple[SparsePattern, NDArray[np.intp] | None]:
        """Pattern of the given places, and which of them comes first, second, … in the order of the format.

        The order is None if that is the one in which they are given.
        """
        rows, columns = np.array(rows, np.int32), np.array(columns, np.int32)
        major, minor = (columns, rows) if fmt == "csc" else (rows, columns)
        if _is_increasing(major, minor):
            return cls(shape, rows, columns, fmt), None
        order = np.lexsort((minor, major))
        return cls(shape, rows[order], columns[order], fmt), order

    def __len__(self) -> int:
        """Number of structural nonzeros."""
        return len(self.rows)

    @cached_property
    def indptr(self) -> NDArray[np.int32]:
        """Return where the nonzeros of each row begin, for csc of each column; one entry more at the end."""
        major, size = (self.columns, self.shape[1]) if self.format == "csc" else (self.rows, self.shape[0])
        pointers = np.searchsorted(major, np.arange(size + 1, dtype=np.int32)).astype(np.int32)
        pointers.flags.writeable = False
        return pointers

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each nonzero, for csc its row: what belongs beside `indptr`."""
        return self.rows if self.format == "csc" else self.columns

    def matrix(self, data: NDArray[Any]) -> csr_array | csc_array | coo_array:
        """SciPy matrix with these values, which are not copied, and index arrays of its own.

        SciPy changes all three in place (``eliminate_zeros``, ``sort_indices``, ``sum_duplicates``).
        """
        # a copy of a matrix that has been checked takes a fraction of the time of the constructor, which checks again
        matrix: Any = copy.copy(self._template)
        matrix.data = data
        if self.format == "coo":
            matrix.coords = (self.rows.copy(), self.columns.copy())
        else:
            matrix.indices, matrix.indptr = self.indices.copy(), self.indptr.copy()
        return matrix  # type: ignore[no-any-return]

    @cached_property
    def _template(self) -> Any:
        from scipy.sparse import coo_array, csc_array, csr_array

        # empty: what it holds comes with each matrix, of the same dtypes
        matrix: Any = {"csr": csr_array, "csc": csc_array, "coo": coo_array}[self.format](self.shape, dtype=np.float64)
        matrix.has_canonical_format = True  # sorted, each place once
        return matrix

    def __reduce__(self) -> tuple[Any, ...]:
        return SparsePattern, (self.shape, self.rows, self.columns, self.format)


def _is_increasing(major: NDArray[np.int32], minor: NDArray[np.int32]) -> bool:
    """Return True if each place is behind the one before, row by row, say."""
    for first in range(0, len(major) - 1, PART):
        reach = slice(first, first + PART + 1)
        step = np.diff(major[reach])
        if not ((step > 0) | ((step == 0) & (np.diff(minor[reach]) > 0))).all():
            return False
    return True


@dataclass(slots=True, eq=False)  # frozen would take three times as long to make, once a batch
class SparseBatch(Sequence[Any]):
    """Sparse Jacobians at many points, one pattern and one row of values a point.

    ``len(batch)`` is the number of points, ``batch[k]`` the SciPy matrix of point k.

    Attributes:
        data: (points, nonzeros), or (nonzeros, points) if the batch was transposed; a Dask array if the points were.
        pattern: where the values belong; ``pattern.rows`` and ``pattern.columns`` have one entry a nonzero.
    """

    data: NDArray[Any]
    pattern: SparsePattern
    transposed: bool = False

    def __len__(self) -> int:
        return int(self.data.shape[1 if self.transposed else 0])

    def __getitem__(self, point: Any) -> Any:
        if isinstance(point, slice):
            chosen = self.data[:, point] if self.transposed else self.data[point]
            return SparseBatch(chosen, self.pattern, self.transposed)
        values = self.data[:, point] if self.transposed else self.data[point]
        return self.pattern.matrix(np.array(values))  # what is done to one matrix leaves the others alone

    def __iter__(self) -> Iterator[Any]:
        return (self[point] for point in range(len(self)))

    def toarray(self) -> NDArray[Any]:
        """Dense array (points, rows, columns)."""
        values = self.data.T if self.transposed else self.data
        dense = np.zeros((len(self), *self.pattern.shape), values.dtype)
        dense[:, self.pattern.rows, self.pattern.columns] = values
        return dense
