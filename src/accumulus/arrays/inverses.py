"""Derivatives that are matrices without stored entries: a program computes products with them as blocks.

They are inverses, whose products are solutions of systems; constant sparse matrices; and Jacobians of opaque functions,
whose products are calls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import SizeError
from accumulus.tape.blocks import Opaque
from accumulus.tape.program import Program
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem

Integers = NDArray[np.int64]
#: Largest number of rows of an inverse that is formed: more take gigabytes, fewer refuse Jacobians that fit into
#: memory.
MOST_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Inverse:
    """The inverse of a matrix, or of its transpose, in a program that computes derivatives.

    Attributes:
        tape: the program.
        matrix: references of the matrix; for a sparse matrix, of its stored entries.
        rows: number of rows.
        system: positions of the stored entries of a sparse matrix; None for a dense one.
        is_transposed: True if it is the inverse of the transpose.
    """

    tape: Program
    matrix: Integers
    rows: int
    system: SparseSystem | None = None
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.rows, self.rows

    @property
    def work(self) -> int:
        """Number of products that the solution for one right-hand side takes."""
        return self.rows**2 if self.system is None else self.system.work

    @property
    def T(self) -> Inverse:  # noqa: N802
        """The transpose."""
        return replace(self, is_transposed=not self.is_transposed)

    @property
    def operand(self) -> Integers:
        """References of the inverted matrix; for a sparse matrix, of its stored entries."""
        return self.matrix.T if self.is_transposed and self.system is None else self.matrix

    @property
    def direct(self) -> SparseSystem | None:
        """Positions of the stored entries of the matrix `operand`; None if it is dense."""
        return self.system.T if self.is_transposed and self.system is not None else self.system

    def times(self, sides: Integers) -> Integers:
        """Return the product with a matrix of references: the solutions of a system."""
        system = self.direct
        return (
            self.tape.solve(self.operand, sides)
            if system is None
            else self.tape.sparse_solve(system, self.operand, sides)
        )

    @property
    def formed(self) -> Integers:
        """All entries: the solutions for all columns of the identity matrix.

        Raises:
            SizeError: if there are more than `MOST_ROWS` rows.
        """
        if self.rows > MOST_ROWS:
            raise SizeError(
                f"the solution of a system of {self.rows:,} equations has a dense Jacobian, of {self.rows**2:,} "
                f"entries; expected at most {MOST_ROWS:,} equations. Products with it do not form it: acc.gradient of "
                "a scalar function, acc.jvp, acc.vjp or acc.linear_operator"
            )
        inverse = replace(self, is_transposed=False).times(self.tape.constant_array(np.eye(self.rows)))
        return inverse.T if self.is_transposed else inverse


@dataclass(frozen=True, slots=True, eq=False)
class ConstantMatrix:
    """A constant sparse matrix in a program that computes derivatives.

    Attributes:
        tape: the program.
        untransposed: the matrix before transposition.
        is_transposed: True if this is the transpose of `untransposed`.
    """

    tape: Program
    untransposed: SparseMatrix
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        m, k = self.untransposed.shape
        return (k, m) if self.is_transposed else (m, k)

    @property
    def work(self) -> int:
        """Number of products that a product with a vector takes."""
        return self.untransposed.nnz

    @property
    def T(self) -> ConstantMatrix:  # noqa: N802
        """The transpose, which is formed only when needed."""
        return replace(self, is_transposed=not self.is_transposed)

    @property
    def matrix(self) -> SparseMatrix:
        """The matrix, transposed if this is."""
        return self.untransposed.T if self.is_transposed else self.untransposed

    def times(self, x: Integers) -> Integers:
        """Return the product with a matrix of references."""
        return self.tape.sparse_product(self.matrix, x)

    @property
    def formed(self) -> Integers:
        """References of all entries, zeros included."""
        return self.tape.constant_array(self.matrix.stored.toarray())


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """The Jacobian of an opaque function, or its transpose, in a program that computes derivatives.

    Attributes:
        tape: the program.
        opaque: the function, with a method `product`.
        numbers: references of a condition and of the function's arguments.
        by: positions of the arguments to differentiate with respect to, in one call.
        chosen: positions in `by` of this matrix's columns.
        calls: by the reference of a call's first result, its Jacobian and its number of vectors; None instead of the
            number if the call returns the whole Jacobian.
        is_transposed: True if it is the transpose.
    """

    tape: Program
    opaque: Opaque
    numbers: Integers
    by: Integers
    chosen: Integers
    calls: dict[int, tuple[Slopes, int | None]]
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        shape = self.opaque.result_count, len(self.chosen)
        return shape[::-1] if self.is_transposed else shape

    @property
    def work(self) -> int:
        """Number of products that a product with a vector would take if the matrix were formed."""
        return self.shape[0] * self.shape[1]

    @property
    def T(self) -> Slopes:  # noqa: N802
        """The transpose."""
        return replace(self, is_transposed=not self.is_transposed)

    def columns(self, chosen: Integers) -> Slopes:
        """Return some columns of the matrix, before any transposition."""
        return replace(self, chosen=self.chosen[chosen])

    def product(self, count: int) -> Opaque | None:
        """Return the opaque function of `count` products with vectors; None if forming the matrix is cheaper."""
        product: Opaque | None = self.opaque.product(  # type: ignore[attr-defined]  # which not all have
            tuple(self.by.tolist()), count, self.is_transposed
        )
        return product

    @property
    def has_products(self) -> bool:
        """Return True if products with single vectors, on at least one side, need no matrix."""
        return hasattr(self.opaque, "product") and not self.product(1) is self.T.product(1) is None

    def times(self, sides: Integers) -> Integers:
        """Return the product with a matrix of references, by a call."""
        count, product = sides.shape[1], self.product(sides.shape[1])
        assert product is not None
        rows = sides.T
        if not self.is_transposed:
            rows = np.full((count, len(self.by)), self.tape.constant(0.0), np.int64)
            rows[:, self.chosen] = sides.T
        products = self._called(product, np.concatenate([self.numbers, rows.reshape(-1)]), count).reshape(count, -1)
        return products[:, self.chosen].T if self.is_transposed else products.T

    @property
    def formed(self) -> Integers:
        """References of all entries, computed by one call."""
        jacobian = self._called(slopes_by(self.opaque, self.by), self.numbers, None)
        jacobian = jacobian.reshape(self.opaque.result_count, -1)
        jacobian = (jacobian if jacobian.shape[1] == len(self.by) else jacobian[:, self.by])[:, self.chosen]
        return jacobian.T if self.is_transposed else jacobian

    def _called(self, opaque: Opaque, numbers: Integers, count: int | None) -> Integers:
        results = self.tape.call(opaque, numbers)
        if results.size and hasattr(self.opaque, "product"):
            self.calls[int(results.reshape(-1)[0])] = self, count
        return results


def slopes_by(opaque: Opaque, by: Integers) -> Opaque:
    """Return the opaque function of the Jacobian's columns with respect to some arguments, or, without one, of all."""
    chosen = getattr(opaque, "derivative_by", None)
    derivative: Opaque = opaque.derivative if chosen is None else chosen(tuple(by.tolist()))
    return derivative


#: Matrices whose entries are not formed.
Unformed = Inverse | ConstantMatrix | Slopes
