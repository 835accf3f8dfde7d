"""The Jacobian at one point as a linear operator of SciPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

__all__ = ["JacobianOperator", "Products"]

Matrix = NDArray[Any]


@dataclass(frozen=True)
class Products:
    """Products with a Jacobian at one point.

    Attributes:
        forward: (arguments, directions) → (results, directions).
        reverse: (results, weights) → (arguments, weights).
        multiplications: that one product takes in either direction, at most.
        nonzeros: of the Jacobian, structural.
    """

    forward: Callable[[Matrix], Matrix]
    reverse: Callable[[Matrix], Matrix]
    multiplications: int
    nonzeros: int


class JacobianOperator(LinearOperator):
    """A Jacobian at one point, of shape (entries of the results, entries of the arguments), which products go through.

    Whatever takes an operator of SciPy takes it: `matvec`, `rmatvec`, `matmat`, `rmatmat`, ``A @ v``, ``A.T @ w``.

    Attributes:
        value: of the function at the point, in its structure.
        multiplications: that a product with one vector takes before it is rewritten, in either direction.
        nonzeros: structural ones of the Jacobian, which a product with the matrix would take as multiplications.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], value: Any, products: Products) -> None:
        super().__init__(dtype, shape)  # type: ignore[call-arg]  # which the stubs leave out
        self.value = value
        self.multiplications, self.nonzeros = products.multiplications, products.nonzeros
        self._products = products

    def _matvec(self, x: Matrix) -> Matrix:
        return self._matmat(x.reshape(-1, 1))

    def _rmatvec(self, x: Matrix) -> Matrix:
        return self._rmatmat(x.reshape(-1, 1))

    def _matmat(self, X: Matrix) -> Matrix:
        return _real(self._products.forward, X)

    def _rmatmat(self, X: Matrix) -> Matrix:
        return _real(self._products.reverse, X)


def _real(product: Callable[[Matrix], Matrix], X: Matrix) -> Matrix:
    """A real product with what may be complex."""
    X = np.asarray(X)
    if np.iscomplexobj(X):
        parts = product(np.hstack([X.real, X.imag]))
        found: Matrix = parts[:, : X.shape[1]] + 1j * parts[:, X.shape[1] :]
        return found
    return product(X)
