"""Operations on whole matrices of references, each one block of a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from accumulus.tape.blocks import (
    CALL,
    CHOLESKY,
    GATHER,
    LOG_DETERMINANT,
    MATMUL,
    SCATTER,
    SOLVE,
    SPARSE_PRODUCT,
    SPARSE_SOLVE,
    Opaque,
)
from accumulus.tape.columns import References, in_shapes
from accumulus.tape.factorisations import FACTORISATIONS
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem


class MatrixOperations(ABC):
    """Operations on matrices, written by `of_matrices`; the base of `accumulus.tape.program.Program`."""

    @abstractmethod
    def of_matrices(
        self,
        code: int,
        shape: tuple[int, int, int],
        operands: Sequence[References],
        opaque: Opaque | SparseSystem | SparseMatrix | None = None,
    ) -> References:
        """Return the results of a matrix operation, row by row, or of a call."""

    @abstractmethod
    def constant(self, value: float) -> int:
        """Return the reference of a constant."""

    def matmul(self, left: References, right: References) -> References:
        """Return the product of matrices of references of shapes (m, k) and (k, n), none of which may be 0.

        >>> from accumulus.tape.program import Program
        >>> tape = Program(inputs=6)
        >>> tape.outputs = tape.matmul(np.arange(4).reshape(2, 2), np.arange(4, 6).reshape(2, 1)).ravel()
        >>> from accumulus.tape.interpreter import evaluate
        >>> print(evaluate(tape, np.array([1.0, 2.0, 3.0, 4.0, 10.0, 1.0])))
        [12. 34.]
        """
        (m, k), n = left.shape, right.shape[1]
        return self.of_matrices(MATMUL, (m, k, n), [left, right]).reshape(m, n)

    def solve(self, matrix: References, sides: References) -> References:
        """Return the solutions X of ``matrix @ X = sides``, for references of shapes (n, n) and (n, m), by LAPACK.

        >>> from accumulus.tape.program import Program
        >>> tape = Program(inputs=6)
        >>> tape.outputs = tape.solve(np.arange(4).reshape(2, 2), np.arange(4, 6).reshape(2, 1)).ravel()
        >>> from accumulus.tape.interpreter import evaluate
        >>> print(evaluate(tape, np.array([2.0, 0.0, 1.0, 1.0, 4.0, 5.0])))
        [2. 3.]
        """
        n, m = sides.shape
        return self.of_matrices(SOLVE, (n, n, m), [matrix, sides]).reshape(n, m)

    def log_determinant(self, matrix: References) -> tuple[int, int]:
        """Return the sign of the determinant of a matrix of shape (n, n), and the logarithm of its magnitude."""
        n = len(matrix)
        sign, logarithm = self.of_matrices(LOG_DETERMINANT, (n, n, 0), [matrix]).tolist()
        return sign, logarithm

    def cholesky(self, matrix: References) -> References:
        """Return the lower Cholesky factor of a symmetric matrix of shape (n, n), given by its lower triangle."""
        n = len(matrix)
        symmetric = np.where(np.tri(n, dtype=bool), matrix, matrix.T)
        factor = self.of_matrices(CHOLESKY, (n, n, n), [symmetric]).reshape(n, n)
        return np.where(np.tri(n, dtype=bool), factor, self.constant(0.0))

    def gather(self, matrix: References, indices: References) -> References:
        """Return the rows of a matrix of shape (m, n) at indices of shape (k,), values of the program, modulo m.

        >>> from accumulus.tape.program import Program
        >>> tape = Program(inputs=5)
        >>> tape.outputs = tape.gather(np.arange(3).reshape(3, 1), np.array([3, 4])).ravel()
        >>> from accumulus.tape.interpreter import evaluate
        >>> print(evaluate(tape, np.array([1.0, 2.0, 5.0, 2.0, 0.0])))
        [5. 1.]
        """
        (k, n), m = matrix.shape, len(indices)
        return self.of_matrices(GATHER, (m, k, n), [matrix, indices]).reshape(m, n)

    def scatter(self, terms: References, indices: References, rows: int) -> References:
        """Return the matrix of shape (rows, n) whose row i is the sum of the `terms` with index i, or 0.

        `terms` has shape (k, n), `indices` shape (k,).

        >>> from accumulus.tape.program import Program
        >>> tape = Program(inputs=4)
        >>> tape.outputs = tape.scatter(np.arange(2).reshape(2, 1), np.array([2, 3]), 3).ravel()
        >>> from accumulus.tape.interpreter import evaluate
        >>> print(evaluate(tape, np.array([1.0, 2.0, 2.0, 2.0])))
        [0. 0. 3.]
        """
        k, n = terms.shape
        return self.of_matrices(SCATTER, (rows, k, n), [terms, indices]).reshape(rows, n)

    def factorise(self, code: int, matrix: References) -> list[References]:
        """Return the parts of a factorisation, see `accumulus.tape.factorisations`."""
        row, (m, n) = FACTORISATIONS[code], matrix.shape
        factors = self.of_matrices(code, (m, n, 0), [matrix])
        return in_shapes(factors, row.shapes(m, n))

    def sparse_solve(self, system: SparseSystem, data: References, sides: References) -> References:
        """Return the solutions of a sparse system with these stored entries, for n × m right-hand sides."""
        n, m = sides.shape
        return self.of_matrices(SPARSE_SOLVE, (n, n, m), [data, sides], system).reshape(n, m)

    def sparse_product(self, matrix: SparseMatrix, x: References) -> References:
        """Return the product of a constant sparse matrix, which the program stores, and a matrix of references."""
        (m, k), n = matrix.shape, x.shape[1]
        return self.of_matrices(SPARSE_PRODUCT, (m, k, n), [x], matrix).reshape(m, n)

    def call(self, opaque: Opaque, numbers: References) -> References:
        """Return an opaque function's results for a condition and arguments; calls require loops."""
        shape = 1, 1 + opaque.argument_count, opaque.result_count
        return self.of_matrices(CALL, shape, [numbers], opaque)
