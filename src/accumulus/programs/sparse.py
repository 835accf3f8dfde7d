"""Sparse Jacobians: the pattern is fixed when a program is compiled, the kernel writes the nonzeros in its order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import coo_array, csc_array, csr_array

__all__ = ["FORMATS", "SparseBatch", "SparseFormat", "SparsePattern"]

SparseFormat = Literal["csr", "csc", "coo"]
FORMATS: Final[tuple[SparseFormat, ...]] = get_args(SparseFormat)


@dataclass(frozen=True, slots=True, eq=False)
class SparsePattern:
    """Where the structural nonzeros of a matrix are, in the order in which their values are stored.

    Args:
        shape: of the matrix: entries of the result × entries of the argument, both in C order.
        rows, columns: of each nonzero; row by row, for csc column by column.
        format: of the SciPy matrices that are made.
    """

    shape: tuple[int, int]
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    format: SparseFormat
    indptr: NDArray[np.int32]

    @classmethod
    def of(cls, entries: Iterable[tuple[int, int]], shape: tuple[int, int], fmt: SparseFormat) -> SparsePattern:
        """Pattern of the given places (row, column), in the order in which the format stores them."""
        by_column = fmt == "csc"
        places = sorted(entries, key=lambda place: place[::-1] if by_column else place)
        rows = np.array([row for row, _ in places], np.int32)
        columns = np.array([column for _, column in places], np.int32)
        major, size = (columns, shape[1]) if by_column else (rows, shape[0])
        indptr = np.searchsorted(major, np.arange(size + 1)).astype(np.int32)
        return cls(shape, rows, columns, fmt, indptr)

    def places(self) -> list[tuple[int, int]]:
        """(row, column) of each nonzero, in order."""
        return list(zip(self.rows.tolist(), self.columns.tolist(), strict=True))

    def matrix(self, data: NDArray[Any]) -> csr_array | csc_array | coo_array:
        """SciPy matrix with these values; the data are not copied."""
        from scipy.sparse import coo_array, csc_array, csr_array

        if self.format == "coo":
            return coo_array((data, (self.rows, self.columns)), shape=self.shape)
        if self.format == "csc":
            return csc_array((data, self.rows, self.indptr), shape=self.shape)
        return csr_array((data, self.columns, self.indptr), shape=self.shape)


@dataclass(slots=True, eq=False)  # frozen would take three times as long to make, once a batch
class SparseBatch(Sequence[Any]):
    """Sparse Jacobians at many points, one pattern and one row of values a point.

    ``len(batch)`` is the number of points, ``batch[k]`` the SciPy matrix of point k.

    Attributes:
        data: (points, nonzeros), or (nonzeros, points) if the batch was transposed.
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
        return self.pattern.matrix(self.data[:, point] if self.transposed else self.data[point])

    def __iter__(self) -> Iterator[Any]:
        return (self[point] for point in range(len(self)))

    def toarray(self) -> NDArray[Any]:
        """Dense array (points, rows, columns)."""
        values = self.data.T if self.transposed else self.data
        dense = np.zeros((len(self), *self.pattern.shape), values.dtype)
        dense[:, self.pattern.rows, self.pattern.columns] = values
        return dense
