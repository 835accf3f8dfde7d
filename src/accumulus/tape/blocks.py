"""Blocks of programs over arrays: equal operations on many operands, sums, recurrences, calls, and work on matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.columns import Column, Range
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.tape import Tape

#: The code of blocks that are sums over segments; no row of the table has it.
SUM: Final = 255
#: The code of blocks that are recurrences: bodies whose instances take results of earlier ones.
SCAN: Final = 254
#: The codes of blocks that are products of two matrices, solutions of systems of equations, the sign and logarithm of a
#: determinant, and Cholesky's lower factor of a symmetric matrix.
MATMUL: Final = 253
SOLVE: Final = 252
LOG_DETERMINANT: Final = 251
#: The code of blocks that call an opaque function.
CALL: Final = 250
CHOLESKY: Final = 249
#: The codes of blocks that are solutions of systems with sparse matrices, and products with constant ones.
SPARSE_SOLVE: Final = 248
SPARSE_PRODUCT: Final = 241
#: The codes of blocks that take rows of a matrix by indices which are numbers of the program, and that add rows where
#: such indices say.
GATHER: Final = 243
SCATTER: Final = 242
#: The codes of factorisations, whose rows are in `accumulus.tape.factorisations`.
EIGENVECTORS: Final = 247
ORTHOGONAL: Final = 246
SINGULAR_VECTORS: Final = 245
DETERMINANT: Final = 244
FACTORS: Final = frozenset((EIGENVECTORS, ORTHOGONAL, SINGULAR_VECTORS, DETERMINANT))
#: Their operations, by those of a product of m × n and n × n entries, the smaller side being n.
_WORK: Final = {EIGENVECTORS: 9.0, ORTHOGONAL: 4.0, SINGULAR_VECTORS: 14.0, DETERMINANT: 2.0 / 3.0}
#: What works on whole matrices.
OF_MATRICES: Final = FACTORS | frozenset(
    (MATMUL, SOLVE, LOG_DETERMINANT, CHOLESKY, SPARSE_SOLVE, SPARSE_PRODUCT, GATHER, SCATTER)
)


class Opaque(Protocol):
    """An opaque function that programs call: it maps a row of numbers to a row of numbers.

    Attributes:
        name: name of the function, for messages.
        argument_count, result_count: entries of its arguments, and of its results.
    """

    name: str
    argument_count: int
    result_count: int

    def __call__(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the results as a new array; exceptions of the function pass through.

        Args:
            numbers: a condition, then the arguments. Where the condition is 0 nothing is called, and results are NaN:
                decisions that the user's function takes before the call would be others there.
        """

    @property
    def derivative(self) -> Opaque:
        """The function that computes the Jacobian by the arguments, row by row; always the same object.

        Where fewer columns take less work, ``derivative_by(positions)`` computes those of some of the arguments. Where
        products take less than the matrix, ``product(positions, count, is_transposed)`` is the function of the
        arguments and `count` vectors, one after the other, that computes their products with the Jacobian by some
        arguments, or with its transpose; or None where they do not. It is always the same object, too.

        Raises:
            ArgumentError: if there is no rule for it.
        """


@dataclass(frozen=True, slots=True)
class Block:
    """Equal operations on many operands."""

    code: int  # of the operation, `SUM`, `SCAN`, `CALL`, or one of `OF_MATRICES`
    start: int  # reference of the first result; the others follow
    count: int  # of instances
    # a column for each argument; of sums one for all terms of all of them; of recurrences one for each input of the
    # body, in which there may be results of earlier steps of the very same block; one for each matrix, row by row
    operands: tuple[Column, ...]
    # of sums, where the terms of each begin in the column, and where those of the last end; (count + 1,)
    offsets: NDArray[np.int64] | None = None
    # of recurrences, one instance; results of one of its outputs follow those of the one before
    body: Tape | None = None
    # of recurrences, where the instances of each step begin, and where those of the last end; those of one step do not
    # depend on each other
    steps: NDArray[np.int64] | None = None
    # of what works on matrices, (m, k, n): of (m, k) and (k, n) entries; of solutions and determinants m is k; of calls
    # (1, k, n), since they make a row of n numbers of one of k, the first of which is a condition; of what goes by
    # indices m rows of n entries, made of k
    shape: tuple[int, int, int] | None = None
    # of calls, what is called; of sparse systems, where the entries are; of products with a sparse matrix, that
    opaque: Opaque | SparseSystem | SparseMatrix | None = None

    @property
    def size(self) -> int:
        """Number of results."""
        return self.count if self.body is None else self.count * len(self.body.outputs)

    @property
    def results(self) -> Range:
        """References of the results."""
        return Range(self.start, 1 if self.size > 1 else 0, self.size)

    @property
    def operand_shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of the operands of an operation on matrices; stored entries of a sparse one are a row."""
        return operand_shapes(self.code, self.shape, self.opaque, len(self.operands))

    @property
    def operations(self) -> int:
        """Of all instances together; a sum of n terms is n - 1, and of systems the largest powers count."""
        if self.body is not None:
            return self.count * self.body.operations
        if self.shape is not None and self.opaque is None:
            _, k, n = self.shape
            if self.code in (GATHER, SCATTER):
                return 0 if self.code == GATHER else k * self.shape[2]
            if self.code == CHOLESKY:
                return k**3 // 3
            if self.code in FACTORS:
                return int(_WORK[self.code] * self.shape[0] * k * min(self.shape[0], k))
            return self.count * (2 * k - 1) if self.code == MATMUL else 2 * k**3 // 3 + 2 * k * k * n
        if isinstance(self.opaque, SparseMatrix) and self.shape is not None:
            return self.shape[2] * max(2 * self.opaque.nnz - self.shape[0], 0)
        if isinstance(self.opaque, SparseSystem) and self.shape is not None:
            return 2 * self.opaque.work * self.shape[2]
        return len(self.operands[0]) - self.count if self.code == SUM else self.count

    @property
    def text(self) -> int:
        """Operations as they are written: those of one instance, of all else one."""
        return 1 if self.body is None else self.body.operations

    @property
    def codes(self) -> set[int]:
        """Codes of the operations of the table that are in it."""
        if self.body is not None:
            return set(self.body.codes[self.body.inputs :])
        return {self.code} - {SUM, CALL, *OF_MATRICES}


def operand_shapes(
    code: int, shape: tuple[int, int, int] | None, opaque: Opaque | SparseSystem | SparseMatrix | None, count: int
) -> list[tuple[int, int]]:
    """Return rows and columns of the first operands of an operation on matrices."""
    assert shape is not None
    m, k, n = shape
    if code == SPARSE_PRODUCT:
        return [(k, n)]
    if code in (GATHER, SCATTER):
        return [(k, n), (m if code == GATHER else k, 1)]
    first = (1, opaque.entries) if isinstance(opaque, SparseSystem) else (m, k)
    return [first, (k, n)][:count]


assert len(OPERATIONS) < min(OF_MATRICES)
