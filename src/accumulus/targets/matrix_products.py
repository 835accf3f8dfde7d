"""Products of matrices in programs over arrays: by NumPy's own, which is BLAS, on the numbers between loops.

Operands that lie row by row or column by column, also with more than one row's length from row to row, are taken where
they are; others are brought together first. So what a product computes is what the function itself would, to the last
bit where its operands lie alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

__all__ = ["MatrixProduct", "Places"]

Floats = NDArray[np.float64]
#: Where the entries of a matrix are among the numbers between loops, row by row: one by one, or those that begin there,
#: with a step.
Places = NDArray[np.int32] | tuple[int, int]
#: Bytes of a number.
_SIZE: Final = 8


class MatrixProduct:
    """A product of an m × k matrix and a k × n one.

    Args:
        shape: (m, k, n).
        left, right: where their entries are.
        constant: whether the entries of each are constants.
    """

    def __init__(self, shape: tuple[int, int, int], left: Places, right: Places, constant: Sequence[bool]) -> None:
        m, k, n = shape
        self._shape = m, n
        self._is_constant = all(constant)
        self._operands = _Operand(left, (m, k), constant[0]), _Operand(right, (k, n), constant[1])

    def bind(self, values: Floats, target: Callable[[Sequence[Floats]], Floats]) -> Callable[[Sequence[Floats]], None]:
        """The product of numbers in one array, as a function of the arrays that are returned.

        Args:
            target: where it goes, given those.
        """
        (left, fill_left), (right, fill_right) = (operand.bind(values) for operand in self._operands)
        if self._is_constant:
            known = np.matmul(left, right).reshape(-1)
            return lambda results: np.copyto(target(results), known)
        fills = [fill for fill in (fill_left, fill_right) if fill is not None]
        shape = self._shape

        def run(results: Sequence[Floats]) -> None:
            for fill in fills:
                fill()
            np.matmul(left, right, out=target(results).reshape(shape))

        return run


class _Operand:
    """How a matrix is found: its first entry and its strides, or a table."""

    def __init__(self, places: Places, shape: tuple[int, int], is_constant: bool) -> None:
        self._shape, self._is_constant = shape, is_constant
        if isinstance(places, tuple):
            start, step = places
            places = (start + step * np.arange(shape[0] * shape[1])).astype(np.int32)
        table = places.reshape(shape)
        self._start, self._strides = int(table[0, 0]), _strides(table)
        self._table = None if self._strides else table.astype(np.intp)

    def bind(self, values: Floats) -> tuple[Floats, Callable[[], Any] | None]:
        """The matrix, and what brings its entries together, where that has to be done again at each call."""
        if self._strides is not None:
            rows, columns = self._strides
            return as_strided(values[self._start :], self._shape, (_SIZE * rows, _SIZE * columns)), None
        matrix, table = np.empty(self._shape), self._table
        assert table is not None

        def fill(table: NDArray[np.intp] = table) -> None:
            np.take(values, table, out=matrix, mode="clip")  # "raise" would take a copy

        fill()
        return matrix, None if self._is_constant else fill


def _strides(table: NDArray[np.int32]) -> tuple[int, int] | None:
    """Distances from row to row and from column to column, if they are such as BLAS takes."""
    rows, columns = table.shape
    down = int(table[1, 0]) - int(table[0, 0]) if rows > 1 else 0
    along = int(table[0, 1]) - int(table[0, 0]) if columns > 1 else 0
    if rows == 1:
        down = max(columns * along, columns)
    if columns == 1:
        along = 1 if down != 1 else rows
    if not ((along == 1 and down >= columns) or (down == 1 and along >= rows)):
        return None
    expected = table[0, 0] + down * np.arange(rows)[:, np.newaxis] + along * np.arange(columns)
    return (down, along) if np.array_equal(table, expected) else None
