"""Sparse Jacobians: the pattern is fixed when a program is compiled, the kernel writes the nonzeros in its order."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accumulus.options import SparseFormat

if TYPE_CHECKING:
    from scipy.sparse import coo_array, csc_array, csr_array

__all__ = ["SparseBatch", "SparsePattern"]

#: Places that are looked at at once; they stay in the processor's cache.
PART: Final = 1 << 16


@dataclass(frozen=True, eq=False)
class SparsePattern:
    """Where the structural nonzeros of a matrix are, in the order in which their values are stored.

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
        """Where the nonzeros of each row begin, for csc of each column; one entry more at the end."""
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
    """Whether each place is behind the one before, row by row, say."""
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
