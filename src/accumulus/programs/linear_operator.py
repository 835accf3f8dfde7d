"""The Jacobian at one point as a linear operator of SciPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from accumulus.errors import ArgumentError

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

    def matvec(self, x: Any) -> Any:
        """The product with a vector of shape (columns,) or (columns, 1).

        Raises:
            ArgumentError: for another shape, or what is no array of numbers; so do all other products.
        """
        return super().matvec(self._checked(x, 1))

    def rmatvec(self, x: Any) -> Any:
        """The product of the transposed Jacobian with a vector of shape (rows,) or (rows, 1)."""
        return self._transpose().matvec(x)

    def matmat(self, X: Any) -> Any:
        """The product with a matrix of shape (columns, k)."""
        return super().matmat(self._checked(X, 2))

    def rmatmat(self, X: Any) -> Any:
        """The product of the transposed Jacobian with a matrix of shape (rows, k)."""
        return self._transpose().matmat(X)

    def dot(self, x: Any) -> Any:
        """The product with a vector, a matrix, a number, or another operator."""
        if not isinstance(x, LinearOperator) and not np.isscalar(x):
            x = self._checked(x, 0)
        return super().dot(x)

    def _checked(self, x: Any, axes: int) -> Any:
        """A vector (1), a matrix (2) or either (0), of as many rows as there are columns."""
        rows, columns = self.shape
        try:
            array = np.asanyarray(x)
        except ValueError:  # rows of different lengths
            array = np.empty((), object)
        is_vector = array.shape in ((columns,), (columns, 1))
        is_matrix = array.ndim == 2 and array.shape[0] == columns
        fits = is_vector if axes == 1 else is_matrix if axes == 2 else is_vector or is_matrix
        if fits and array.dtype.kind in "fiubc":
            return array
        given = f"{array.dtype} of shape {array.shape}" if array.dtype.kind != "O" else type(x).__name__
        expected = f"({columns}, k)" if axes == 2 else f"({columns},) or ({columns}, {'1' if axes else 'k'})"
        others = array.ndim and array.shape[0] == rows != columns
        hint = "; a product with the transposed one, A.T, takes this many" if others else ""
        raise ArgumentError(
            f"a Jacobian as an operator of shape {self.shape} was multiplied by {given}; expected real or complex "
            f"numbers of shape {expected}{hint}"
        )

    def _transpose(self) -> JacobianOperator:
        given = self._products
        products = replace(given, forward=given.reverse, reverse=given.forward)
        return JacobianOperator((self.shape[1], self.shape[0]), self.dtype, self.value, products)

    def _adjoint(self) -> JacobianOperator:
        return self._transpose()  # it is real

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
