"""Derivatives that are matrices which are not formed, since products with them are blocks: inverses, constants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import SizeError
from accumulus.tape.program import Program
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem

Integers = NDArray[np.int64]
#: Rows of an inverse, at most, that is formed.
MOST_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Inverse:
    """The inverse of a matrix, or of its transpose, in a program that computes derivatives.

    Attributes:
        tape: the program.
        matrix: references of the matrix; of a sparse one those of its stored entries.
        system: of a sparse matrix, where these are.
        rows: of the matrix.
        is_transposed: whether it is the inverse of the transpose.
    """

    tape: Program
    matrix: Integers
    rows: int
    system: SparseSystem | None = None
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.rows

    @property
    def work(self) -> int:
        """Products that a solution for one right-hand side takes."""
        return self.rows**2 if self.system is None else self.system.work

    @property
    def T(self) -> Inverse:  # noqa: N802
        """The transpose."""
        return replace(self, is_transposed=not self.is_transposed)

    @property
    def given(self) -> Integers:
        """References of the matrix that it is the inverse of; of a sparse one of its stored entries."""
        return self.matrix.T if self.is_transposed and self.system is None else self.matrix

    @property
    def direct(self) -> SparseSystem | None:
        """Return where the stored entries of that matrix are."""
        return self.system.T if self.is_transposed and self.system is not None else self.system

    def times(self, sides: Integers) -> Integers:
        """Return the product with a matrix of references: the solutions of a system."""
        system = self.direct
        return (
            self.tape.solve(self.given, sides) if system is None else self.tape.sparse_solve(system, self.given, sides)
        )

    @property
    def formed(self) -> Integers:
        """All entries: the solutions for all columns of the unit matrix.

        Raises:
            SizeError: if they are too many.
        """
        if self.rows > MOST_ROWS:
            raise SizeError(
                f"the solution of a system of {self.rows:,} equations has a dense Jacobian, of {self.rows**2:,} "
                f"entries; expected at most {MOST_ROWS:,} equations, or products with it, which are not formed: "
                "acc.gradient of a number, acc.jvp, acc.vjp or acc.linear_operator"
            )
        found = replace(self, is_transposed=False).times(self.tape.constant_array(np.eye(self.rows)))
        return found.T if self.is_transposed else found


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A constant sparse matrix in a program that computes derivatives.

    Attributes:
        tape: the program.
        given: the matrix, or its transpose.
        is_transposed: whether that.
    """

    tape: Program
    given: SparseMatrix
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        m, k = self.given.shape
        return (k, m) if self.is_transposed else (m, k)

    @property
    def work(self) -> int:
        """Products that its product with a vector takes."""
        return self.given.nnz

    @property
    def T(self) -> Held:  # noqa: N802
        """The transpose, which is not written before it is needed."""
        return replace(self, is_transposed=not self.is_transposed)

    @property
    def matrix(self) -> SparseMatrix:
        """The matrix, which the program holds."""
        return self.given.T if self.is_transposed else self.given

    def times(self, x: Integers) -> Integers:
        """Return the product with a matrix of references."""
        return self.tape.sparse_product(self.matrix, x)

    @property
    def formed(self) -> Integers:
        """All entries, also those that are not stored."""
        return self.tape.constant_array(self.matrix.stored.toarray())


#: Matrices whose entries are not there one by one.
Unformed = Inverse | Held
