"""Structural nonzeros of matrices of derivatives, and SciPy matrices in a pattern that is known before any call."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accumulus.errors import ArgumentError
from accumulus.graph.linearize import Linearization
from accumulus.options import SparseFormat

if TYPE_CHECKING:
    from scipy.sparse import coo_array, csc_array, csr_array

    from accumulus.arrays.jacobian import Opened


#: Number of places that are checked at once; they fit into the processor's cache. Larger parts do not, smaller ones
#: make more calls of NumPy.
PART: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class OpenColumns:
    """Columns of nonzeros that depend on indices: the facts about each that hold before a call.

    Attributes:
        outputs: positions, after the derivatives, of the computed columns; -1 for columns that are known.
        groups: number of the group of columns that one index selects, in the order of their places; -1 for others.
        last: upper bound of the column; the column among the nonzeros is the lower bound.
    """

    outputs: NDArray[np.int64]
    groups: NDArray[np.int64]
    last: NDArray[np.int64]

    def chosen(self, which: Any, before: int) -> OpenColumns:
        """Return a selection of these, with columns counted from `before`."""
        return OpenColumns(self.outputs[which], self.groups[which], self.last[which] - before)


@dataclass(frozen=True, slots=True)
class Nonzeros:
    """Structural nonzeros of a matrix, row by row: places, and positions among the accumulation's entries."""

    rows: NDArray[np.signedinteger[Any]]
    columns: NDArray[np.intp]
    outputs: NDArray[np.intp]
    open: OpenColumns | None = None

    @classmethod
    def of(cls, linearization: Linearization, entries: Sequence[tuple[int, int]]) -> Nonzeros:
        """Return the nonzeros of all results by all inputs; equal results share the entries of one root."""
        pairs = np.array(entries, np.intp).reshape(-1, 2)
        roots = np.array(linearization.rows, np.intp)
        starts = np.searchsorted(pairs[:, 0], roots)
        counts = np.searchsorted(pairs[:, 0], roots, side="right") - starts
        # entry k of the matrix is entry k - (number of entries in the rows above) of its row
        outputs = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        columns = np.array(linearization.columns, np.intp)[pairs[outputs, 1]]
        return cls(np.repeat(np.arange(len(roots)), counts), columns, outputs)

    def opened(self, index_columns: Opened, inputs: int) -> tuple[Nonzeros, NDArray[np.int64]]:
        """Return these nonzeros with columns from `inputs` on opened by indices, and references of the open columns."""
        is_open = self.columns >= inputs
        at = self.columns[is_open] - inputs
        if is_open.all():
            columns, groups, ranks, last = (
                index_columns.first[at],
                index_columns.groups[at],
                index_columns.ranks[at],
                index_columns.last[at],
            )
            outputs = len(at) + np.arange(len(at))
        else:
            columns = self.columns.astype(np.int64)
            outputs, groups, ranks, last = (np.full(len(columns), -1) for _ in range(4))
            last[:] = columns
            columns[is_open], last[is_open] = index_columns.first[at], index_columns.last[at]
            groups[is_open], ranks[is_open] = index_columns.groups[at], index_columns.ranks[at]
            outputs[is_open] = len(columns) + np.arange(len(at))
        keys = self.rows, columns, groups, ranks
        order: Any = slice(None) if _is_in_order(keys) else _order(keys)
        open_columns = OpenColumns(outputs[order], groups[order], last[order])
        return Nonzeros(self.rows[order], columns[order], self.outputs[order], open_columns), index_columns.columns[at]

    def block(self, rows: range, columns: range) -> Nonzeros:
        """Return the nonzeros of a block, with rows and columns counted from its corner."""
        first, last = np.searchsorted(self.rows, (rows.start, rows.stop))
        if self.open is not None:
            span = slice(int(first), int(last))
            inside = (self.columns[span] >= columns.start) & (self.columns[span] < columns.stop)
            which = np.arange(first, last)[inside]
            down, along = self.rows[which] - rows.start, self.columns[which] - columns.start
            return Nonzeros(down, along, self.outputs[which], self.open.chosen(which, columns.start))
        chosen = slice(first, last)
        column_indices = self.columns[chosen]
        if not len(column_indices) or (
            columns.start <= int(column_indices.min()) and int(column_indices.max()) < columns.stop
        ):
            shifted_rows = self.rows[chosen] - rows.start if rows.start else self.rows[chosen]
            return Nonzeros(
                shifted_rows, column_indices - columns.start if columns.start else column_indices, self.outputs[chosen]
            )
        inside = (column_indices >= columns.start) & (column_indices < columns.stop)
        return Nonzeros(
            self.rows[chosen][inside] - rows.start, column_indices[inside] - columns.start, self.outputs[chosen][inside]
        )

    def union(self, other: Nonzeros, width: int) -> Nonzeros:
        """Return the places of both, row by row, without outputs. `width` is the number of columns."""
        places = np.concatenate([self._places(width), other._places(width)])
        places.sort(kind="stable")  # of two parts that are in order already; `np.union1d` would hash them
        places = places[np.diff(places, prepend=-1) != 0]
        return Nonzeros(places // width, places % width, np.zeros(len(places), np.intp))

    def find(self, nonzeros: Nonzeros, width: int) -> NDArray[np.intp]:
        """Return the positions of the places of `nonzeros` among these places, row by row, which contain them."""
        return np.searchsorted(self._places(width), nonzeros._places(width))

    def of_one_triangle(self, inputs: NDArray[np.int64], skipped: int, *, upper: bool) -> Nonzeros:
        """Return the nonzeros of a symmetric matrix, taking both triangles from one where possible.

        Args:
            inputs: inputs that the rows belong to, after the skipped ones; columns are input numbers.
            skipped: number of leading rows that are not part of the matrix.
            upper: if True, entries come from the upper triangle, else from the lower one.
        """
        column_of = np.zeros(int(inputs.max(initial=0)) + 1, np.int64)
        column_of[inputs] = np.arange(len(inputs))
        rows, columns = self.rows.astype(np.int64) - skipped, column_of[self.columns]
        keys, partners = rows * len(inputs) + columns, columns * len(inputs) + rows
        order = np.argsort(keys)
        partner = order[np.minimum(np.searchsorted(keys[order], partners), max(len(keys) - 1, 0))]
        taken = (keys[partner] == partners) & ((rows > columns) if upper else (rows < columns))
        return Nonzeros(self.rows, self.columns, np.where(taken, self.outputs[partner], self.outputs))

    def mirrored(self, inputs: NDArray[np.int64], skipped: int) -> Nonzeros:
        """Return all places of a symmetric matrix from those on and below the diagonal; arguments as above."""
        column_of = np.zeros(int(inputs.max(initial=0)) + 1, np.int64)
        column_of[inputs] = np.arange(len(inputs))
        rows, columns = self.rows.astype(np.int64) - skipped, column_of[self.columns]
        below = rows > columns
        all_rows, all_columns = np.concatenate([rows, columns[below]]), np.concatenate([columns, rows[below]])
        outputs = np.concatenate([self.outputs, self.outputs[below]])
        order = np.lexsort((inputs[all_columns], all_rows))
        return Nonzeros(all_rows[order] + skipped, inputs[all_columns][order], outputs[order])

    def as_matrix(self, inputs: NDArray[np.int64], skipped: int) -> Nonzeros:
        """Return the nonzeros after the skipped rows, counted from there, with columns among `inputs`; in any order."""
        column_of = np.zeros(int(inputs.max(initial=0)) + 1, np.int64)
        column_of[inputs] = np.arange(len(inputs))
        behind = self.rows >= skipped
        rows, columns = self.rows[behind].astype(np.int64) - skipped, column_of[self.columns[behind]]
        return Nonzeros(rows, columns, self.outputs[behind])

    def in_order(self) -> Nonzeros:
        """Return the places row by row, with ascending columns in each row."""
        order = np.lexsort((self.columns, self.rows))
        return Nonzeros(self.rows[order], self.columns[order], self.outputs[order])

    def _places(self, width: int) -> NDArray[np.int64]:
        return self.rows.astype(np.int64) * width + self.columns


@dataclass(frozen=True, eq=False)
class SparsePattern:
    """Places of the structural nonzeros of a matrix, in the order in which their values are stored.

    All arrays are read-only, since the program and all its results share them. Matrices receive copies.

    Args:
        shape: shape of the matrix: entries of the result × entries of the argument, both in C order.
        rows, columns: row and column of each nonzero, row by row; column by column for csc.
        format: format of the SciPy matrices.

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
        """Return the pattern of places, and the permutation from their order to the format's.

        The permutation is None if the places are already in order.
        """
        rows, columns = np.array(rows, np.int32), np.array(columns, np.int32)
        major, minor = (columns, rows) if fmt == "csc" else (rows, columns)
        if _is_increasing(major, minor):
            return cls(shape, rows, columns, fmt), None
        order = np.lexsort((minor, major))
        return cls(shape, rows[order], columns[order], fmt), order

    def __len__(self) -> int:
        """Return the number of structural nonzeros."""
        return len(self.rows)

    @cached_property
    def indptr(self) -> NDArray[np.int32]:
        """Return the start of each row's nonzeros (for csc, of each column's), and their number as the last entry."""
        major, size = (self.columns, self.shape[1]) if self.format == "csc" else (self.rows, self.shape[0])
        pointers = np.searchsorted(major, np.arange(size + 1, dtype=np.int32)).astype(np.int32)
        pointers.flags.writeable = False
        return pointers

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each nonzero, or row for csc: the index array that belongs to `indptr`."""
        return self.rows if self.format == "csc" else self.columns

    def matrix(self, data: NDArray[Any]) -> csr_array | csc_array | coo_array:
        """Return a SciPy matrix with these values, which are not copied, and its own index arrays.

        SciPy changes all three arrays in place (``eliminate_zeros``, ``sort_indices``, ``sum_duplicates``).
        """
        # copying a checked matrix takes a fraction of the time of the constructor, which checks again
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

        # empty: each matrix receives its own arrays, of the same dtypes
        matrix: Any = {"csr": csr_array, "csc": csc_array, "coo": coo_array}[self.format](self.shape, dtype=np.float64)
        matrix.has_canonical_format = True  # sorted, without duplicates
        return matrix

    def __reduce__(self) -> tuple[Any, ...]:
        return SparsePattern, (self.shape, self.rows, self.columns, self.format)


@dataclass(frozen=True, eq=False)
class OpenPattern:
    """Places of nonzeros in known rows and computed columns: a call returns the values, followed by those columns.

    Args:
        shape: shape of the matrix.
        rows, columns: row and column of each nonzero, row by row; columns where they are known.
        open: positions of the nonzeros whose columns a call computes.
        before: number of columns before the matrix, which is included in computed columns.
        is_ordered: True if columns ascend in each row for all indices; else duplicates are summed.
        format: format of the SciPy matrices.
    """

    shape: tuple[int, int]
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    open: NDArray[np.intp]
    before: int
    is_ordered: bool
    format: SparseFormat

    def __len__(self) -> int:
        """Return how many numbers a call computes."""
        return len(self.rows) + len(self.open)

    @classmethod
    def of(cls, nonzeros: Nonzeros, size: tuple[int, int], before: int, fmt: SparseFormat) -> OpenPattern:
        """Return the pattern of nonzeros with open columns."""
        open_columns = nonzeros.open
        assert open_columns is not None
        down, groups = np.diff(nonzeros.rows), open_columns.groups
        together = (groups[1:] == groups[:-1]) & (groups[1:] >= 0)
        ordered = bool(((down > 0) | together | (nonzeros.columns[1:] > open_columns.last[:-1])).all())
        rows, columns = np.array(nonzeros.rows, np.int32), np.array(nonzeros.columns, np.int32)
        return cls(size, rows, columns, np.flatnonzero(open_columns.outputs >= 0), before, ordered, fmt)

    def outputs(self, nonzeros: Nonzeros) -> NDArray[np.int64]:
        """Return the positions of the values, then of the open columns, among the derivatives and columns."""
        assert nonzeros.open is not None
        return np.concatenate([nonzeros.outputs.astype(np.int64), nonzeros.open.outputs[self.open]])

    def matrix(self, numbers: NDArray[Any]) -> Any:
        """Return a SciPy matrix from the numbers that a call has computed; the values are not copied."""
        from scipy.sparse import csr_array

        columns = self.columns.copy()
        vars(self)["_taken"] = taken = numbers[len(self.rows) :]
        columns[self.open] = taken - self.before
        csr: Any = csr_array(self.shape, dtype=np.float64)
        csr.data, csr.indices, csr.indptr = numbers[: len(self.rows)], columns, self._indptr.copy()
        csr.has_canonical_format = self.is_ordered
        if not self.is_ordered:
            csr.sum_duplicates()
        return csr if self.format == "csr" else csr.tocsc() if self.format == "csc" else csr.tocoo()

    @property
    def last(self) -> SparsePattern:
        """Places of the nonzeros of the last matrix.

        Raises:
            ArgumentError: if no matrix has been made.
        """
        taken = vars(self).get("_taken")
        if taken is None:
            raise ArgumentError(
                "the positions of nonzeros depend on indices among the arguments; call the derivative first"
            )
        matrix = self.matrix(np.concatenate([np.ones(len(self.rows)), taken])).tocoo()
        return SparsePattern.ordered(matrix.coords[0], matrix.coords[1], self.shape, self.format)[0]

    @cached_property
    def _indptr(self) -> NDArray[np.int32]:
        return np.searchsorted(self.rows, np.arange(self.shape[0] + 1, dtype=np.int32)).astype(np.int32)

    def toarray(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return dense matrices from the numbers at many points."""
        return np.array([self.matrix(each).toarray() for each in numbers]).reshape(-1, *self.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = ("shape", "rows", "columns", "open", "before", "is_ordered", "format")
        return OpenPattern, tuple(getattr(self, name) for name in fields)


def _order(keys: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
    """Return the order of entries by several keys, the first one first; by one number for all keys where that fits."""
    lows, highs = zip(*((int(key.min()), int(key.max())) for key in keys), strict=True)
    sizes = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
    if math.prod(sizes) >= 2**63:
        return np.lexsort(keys[::-1])
    combined = np.zeros(len(keys[0]), np.int64)
    for key, low, size in zip(keys, lows, sizes, strict=True):
        combined *= size
        combined += key
        combined -= low
    return np.argsort(combined, kind="stable")


def _is_in_order(keys: Sequence[NDArray[Any]]) -> bool:
    """Return True if places are in lexicographic order of the keys."""
    is_equal = np.ones(max(len(keys[0]) - 1, 0), bool)
    for key in keys:
        step = np.diff(key)
        if ((step < 0) & is_equal).any():
            return False
        is_equal &= step == 0
    return True


def _is_increasing(major: NDArray[np.int32], minor: NDArray[np.int32]) -> bool:
    """Return True if each place follows the previous one in lexicographic order of (major, minor)."""
    for first in range(0, len(major) - 1, PART):
        reach = slice(first, first + PART + 1)
        step = np.diff(major[reach])
        if not ((step > 0) | ((step == 0) & (np.diff(minor[reach]) > 0))).all():
            return False
    return True


@dataclass(slots=True, eq=False)  # a frozen class takes three times as long to make, in every batch
class SparseBatch(Sequence[Any]):
    """Sparse Jacobians at many points, with one pattern and one row of values for each point.

    ``len(batch)`` is the number of points, ``batch[k]`` the SciPy matrix of point k.

    Attributes:
        data: values, (points, nonzeros), or (nonzeros, points) if the batch was transposed; a Dask array for Dask
            arguments.
        pattern: places of the values; ``pattern.rows`` and ``pattern.columns`` have one entry for each nonzero.

    >>> import numpy as np, accumulus as acc
    >>> batch = acc.jacobian(lambda x: x**2, sparse="csr").batch(np.ones((1000, 3)))
    >>> len(batch), batch.data.shape, batch[0].toarray().tolist()
    (1000, (1000, 3), [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    """

    data: NDArray[Any]
    pattern: SparsePattern | OpenPattern
    transposed: bool = False

    def __len__(self) -> int:
        return int(self.data.shape[1 if self.transposed else 0])

    def __getitem__(self, point: Any) -> Any:
        if isinstance(point, slice):
            chosen = self.data[:, point] if self.transposed else self.data[point]
            return SparseBatch(chosen, self.pattern, self.transposed)
        values = self.data[:, point] if self.transposed else self.data[point]
        return self.pattern.matrix(np.array(values))  # a copy, so that changes of one matrix do not affect others

    def __iter__(self) -> Iterator[Any]:
        return (self[point] for point in range(len(self)))

    def toarray(self) -> NDArray[Any]:
        """Return a dense array (points, rows, columns)."""
        values = self.data.T if self.transposed else self.data
        if isinstance(self.pattern, OpenPattern):
            return self.pattern.toarray(values)
        dense = np.zeros((len(self), *self.pattern.shape), values.dtype)
        dense[:, self.pattern.rows, self.pattern.columns] = values
        return dense
