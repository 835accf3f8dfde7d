"""Products of matrices that are columns of entries, at one point or at many."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["matrix_product"]


def matrix_product(left: Any, right: Any, shape: tuple[int, int, int]) -> Any:
    """Entries of the product, row by row.

    Args:
        left, right: entries of the matrices, row by row, of shape (entries,) or (entries, points).
        shape: (m, k, n), of an m × k matrix and a k × n one.

    >>> print(matrix_product(np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 1.0]), (2, 2, 1)))
    [12. 34.]
    """
    m, k, n = shape
    points = left.shape[1:]
    x, y = (np.moveaxis(part, 0, -1).reshape(*points, *size) for part, size in ((left, (m, k)), (right, (k, n))))
    return np.moveaxis(np.matmul(x, y).reshape(*points, m * n), -1, 0)
