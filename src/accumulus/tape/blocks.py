"""Blocks of programs over arrays: equal operations on many operands, sums, recurrences, calls, matrix operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.columns import Column, Range
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.tape import Tape

#: Code of blocks that are sums over segments; the table of operations does not use it.
SUM: Final = 255
#: Code of blocks that are recurrences: bodies whose instances take results of earlier ones.
SCAN: Final = 254
#: Codes of blocks that are products of two matrices, solutions of systems of equations, the sign and logarithm of a
#: determinant, and the lower Cholesky factor of a symmetric matrix.
MATMUL: Final = 253
SOLVE: Final = 252
LOG_DETERMINANT: Final = 251
#: Code of blocks that call an opaque function.
CALL: Final = 250
CHOLESKY: Final = 249
#: Codes of blocks that are solutions of systems with sparse matrices, and products with constant sparse matrices.
SPARSE_SOLVE: Final = 248
SPARSE_PRODUCT: Final = 241
#: Codes of blocks that take rows of a matrix by computed indices, and that add rows at computed indices.
GATHER: Final = 243
SCATTER: Final = 242
#: Codes of factorisations, whose rows are in `accumulus.tape.factorisations`.
EIGENVECTORS: Final = 247
ORTHOGONAL: Final = 246
SINGULAR_VECTORS: Final = 245
DETERMINANT: Final = 244
FACTORS: Final = frozenset((EIGENVECTORS, ORTHOGONAL, SINGULAR_VECTORS, DETERMINANT))
#: Operations of factorisations, as multiples of m·n·min(m, n) for an m × n matrix.
_WORK: Final = {EIGENVECTORS: 9.0, ORTHOGONAL: 4.0, SINGULAR_VECTORS: 14.0, DETERMINANT: 2.0 / 3.0}
#: Codes of all operations on whole matrices.
OF_MATRICES: Final = FACTORS | frozenset(
    (MATMUL, SOLVE, LOG_DETERMINANT, CHOLESKY, SPARSE_SOLVE, SPARSE_PRODUCT, GATHER, SCATTER)
)
#: Largest number of times that one number may be an argument of an opaque function whose Jacobian is not formed: each
#: makes another part, and with fewer, more Jacobians are formed, or arguments copied.
MOST_REPEATS: Final = 8


class Opaque(Protocol):
    """An opaque function that programs call: it maps a flat array to a flat array.

    Attributes:
        name: name of the function, for messages.
        argument_count, result_count: number of entries of its arguments, and of its results.
    """

    name: str
    argument_count: int
    result_count: int

    def __call__(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the results as a new array; exceptions of the function pass through.

        Args:
            numbers: a condition, followed by the arguments. If the condition is 0, the function is not called and the
                results are NaN, since decisions that the user's function makes before the call would differ.
        """

    @property
    def derivative(self) -> Opaque:
        """The function that computes the Jacobian with respect to the arguments, row by row; always the same object.

        If fewer columns take less work, ``derivative_by(positions)`` returns a function for the columns of some
        arguments. If products take less work than the matrix, ``product(positions, count, is_transposed)`` returns a
        function of the arguments and `count` vectors, one after the other. It computes their products with the Jacobian
        with respect to some arguments, or with its transpose. It returns None if products do not take less work. It
        always returns the same object, too. A function whose results are off by more than rounding has the attribute
        `accuracy`, a bound relative to 1 + |result|. A function that can be written as blocks has a method
        ``replay(program, numbers)``, which writes them for references of its numbers and returns those of its results.
        A function that computes many points at once has a method ``in_lanes(numbers)``, from a column for each point to
        one of its results, and `points_together`, the number of points of a batch from which on it is called so.

        Raises:
            ArgumentError: if there is no rule for the derivative.
        """


@dataclass(frozen=True, slots=True)
class Block:
    """Equal operations on many operands."""

    code: int  # code of the operation, `SUM`, `SCAN`, `CALL`, or one of `OF_MATRICES`
    start: int  # reference of the first result; the others follow
    count: int  # number of instances
    # one column for each argument; for sums, one column with all terms; for recurrences, one for each input of the
    # body, which may contain results of earlier steps of the same block; for matrix operations, one for each matrix,
    # row by row
    operands: tuple[Column, ...]
    # for sums: position of the first term of each sum, and the end of the last; (count + 1,)
    offsets: NDArray[np.int64] | None = None
    # for recurrences: one instance; the results of each output are consecutive, output after output
    body: Tape | None = None
    # for recurrences: position of the first instance of each step, and the end of the last; instances of one step do
    # not depend on each other
    steps: NDArray[np.int64] | None = None
    # for matrix operations: (m, k, n), with operands of (m, k) and (k, n) entries; m is k for solutions and
    # determinants; (1, k, n) for calls, from k numbers, the first of which is a condition, to n numbers; for operations
    # with indices, m rows of n entries from k rows
    shape: tuple[int, int, int] | None = None
    # for calls: the function; for sparse systems: the places of the entries; for sparse products: the matrix
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
        """Rows and columns of the operands of a matrix operation; the stored entries of a sparse matrix are one row."""
        return operand_shapes(self.code, self.shape, self.opaque, len(self.operands))

    @property
    def operations(self) -> int:
        """Operations of all instances together; a sum of n terms is n - 1; for systems, only leading powers count."""
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
        if self.code == SUM:
            return len(self.operands[0]) - self.count
        return getattr(self.opaque, "operations", self.count)

    @property
    def text(self) -> int:
        """Number of operations in the program text: one instance of a recurrence; 1 for any other block."""
        return 1 if self.body is None else self.body.operations

    @property
    def codes(self) -> set[int]:
        """Codes of the table's operations in the block."""
        if self.body is not None:
            return set(self.body.codes[self.body.inputs :])
        return {self.code} - {SUM, CALL, *OF_MATRICES}


def operand_shapes(
    code: int, shape: tuple[int, int, int] | None, opaque: Opaque | SparseSystem | SparseMatrix | None, count: int
) -> list[tuple[int, int]]:
    """Return rows and columns of the first operands of a matrix operation."""
    assert shape is not None
    m, k, n = shape
    if code == SPARSE_PRODUCT:
        return [(k, n)]
    if code in (GATHER, SCATTER):
        return [(k, n), (m if code == GATHER else k, 1)]
    first = (1, opaque.entries) if isinstance(opaque, SparseSystem) else (m, k)
    return [first, (k, n)][:count]


assert len(OPERATIONS) < min(OF_MATRICES)
