"""Constant sparse matrices, and systems of equations with sparse matrices: places of stored entries, and factors.

The places of a system's stored entries are constant. The entries themselves are operands of a block
(`Program.sparse_solve`), or belong to a constant matrix that is factorised once. Factors are SuperLU's. The last ones
are cached, so that a system and its transpose at one point need one factorisation.
"""

from __future__ import annotations

import warnings
from functools import cached_property, partial
from typing import Any, Final
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Number of cached factorisations, of the last matrices. More take memory, and comparisons with each; fewer factorise
#: again where calls alternate between matrices.
KEPT: Final = 2


class SparseMatrix:
    """A constant matrix by rows; products with it are blocks of a program (`Program.sparse_product`).

    Products add the entries of a row in order. A place may occur twice; its entry is the sum.

    Args:
        starts: position of the first entry of each row, and the end of the last row.
        columns, entries: column and value of each entry.
        shape: shape of the matrix.
    """

    name = "a product with a sparse matrix"
    argument_count, result_count = 0, 0

    def __init__(self, starts: Any, columns: Any, entries: Any, shape: tuple[int, int]) -> None:
        self.starts: NDArray[np.int32] = np.asarray(starts, np.int32).view()
        self.columns: NDArray[np.int32] = np.asarray(columns, np.int32).view()
        self.entries: Floats = np.asarray(entries, np.float64).view()
        self.shape = shape
        for each in (self.starts, self.columns, self.entries):
            each.flags.writeable = False  # some of SciPy's methods would change the arrays in place

    @classmethod
    def of(cls, matrix: Any) -> SparseMatrix:
        """Return a copy of a sparse or dense matrix, in SciPy's order of summation; equal matrices share one object."""
        from scipy.sparse import csr_array

        stored = matrix if getattr(matrix, "format", "") == "csr" else csr_array(matrix).sorted_indices()
        built = cls(stored.indptr, stored.indices, stored.data, (int(stored.shape[0]), int(stored.shape[1])))
        for shared in list(_MATRICES):
            if shared._is_equal(built):
                return shared
        built = cls(built.starts.copy(), built.columns.copy(), built.entries.copy(), built.shape)
        _MATRICES.add(built)
        return built

    def __reduce__(self) -> Any:
        return SparseMatrix, (self.starts, self.columns, self.entries, self.shape)

    def _is_equal(self, other: SparseMatrix) -> bool:
        return (
            self.shape == other.shape
            and np.array_equal(self.entries.view(np.int64), other.entries.view(np.int64))
            and np.array_equal(self.columns, other.columns)
            and np.array_equal(self.starts, other.starts)
        )

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.entries)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Row of each entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.starts))

    @cached_property
    def is_finite(self) -> bool:
        """True if no entry is infinite or NaN."""
        return bool(np.isfinite(self.entries).all())

    @cached_property
    def stored(self) -> Any:
        """The matrix in SciPy's csr format."""
        return self._with(self.entries)

    @cached_property
    def magnitudes(self) -> Any:
        """The magnitudes of the entries, in csr format."""
        return self._with(abs(self.entries))

    def _with(self, entries: Floats) -> Any:
        from scipy.sparse import csr_array

        return csr_array((entries, self.columns, self.starts), self.shape)

    @cached_property
    def T(self) -> SparseMatrix:  # noqa: N802
        """The transpose."""
        turned = self.stored.tocsc()
        other = SparseMatrix(turned.indptr, turned.indices, turned.data, self.shape[::-1])
        vars(other)["T"] = self
        return other

    def of_rows(self, chosen: NDArray[np.bool_]) -> SparseMatrix:
        """Return the matrix of the rows that a mask selects."""
        if chosen.all():
            return self
        rows = self.stored[np.flatnonzero(chosen)]
        return SparseMatrix(rows.indptr, rows.indices, rows.data, rows.shape)


#: Matrices that programs use; equal matrices share one object.
_MATRICES: Final[WeakSet[SparseMatrix]] = WeakSet()


class SparseSystem:
    """Square matrices with stored entries at constant places.

    Args:
        rows, columns: row and column of each stored entry, without duplicates; the values are an operand.
        size: number of rows of the matrix.
        constant: constant matrix, or SuperLU factors, instead of an operand; the operand is then one number that is
            ignored.
        order: order of columns in the elimination, as for `scipy.sparse.linalg.splu`.
        raises: if True, a singular matrix raises `RuntimeError` at a call, as in `splu`; else the solutions are NaN
            with a warning, as in `spsolve`.
    """

    name = "scipy.sparse.linalg.spsolve"
    argument_count, result_count = 0, 0

    def __init__(
        self,
        rows: NDArray[np.integer[Any]],
        columns: NDArray[np.integer[Any]],
        size: int,
        *,
        constant: Any = None,
        order: Any = "COLAMD",
        raises: bool = False,
    ) -> None:
        self.rows, self.columns, self.size, self.raises = rows, columns, size, raises
        self._constant, self._order = constant, order
        self.entries = 1 if constant is not None else len(rows)
        self.is_transposed, self.root = False, self
        #: The last factorised matrices, the latest first, with their factors.
        self._cached: tuple[tuple[Floats, Any], ...] = ()
        if constant is None:
            self._by_column = np.lexsort((rows, columns))
            self._indices = rows[self._by_column].astype(np.int32)
            self._starts = np.searchsorted(columns[self._by_column], np.arange(size + 1)).astype(np.int32)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cached": ()}  # factors cannot be pickled

    @cached_property
    def T(self) -> SparseSystem:  # noqa: N802
        """The system of the transposed matrices, with the same operand."""
        other: SparseSystem = object.__new__(type(self))
        vars(other).update(vars(self), is_transposed=not self.is_transposed)
        other.rows, other.columns = self.columns, self.rows
        vars(other)["T"] = self
        return other

    @property
    def work(self) -> int:
        """Rough number of products of a solution: factors have more entries than the matrix."""
        stored = self._constant.nnz if self._constant is not None else len(self.rows)
        return 8 * int(stored)

    def matrix(self, data: Floats) -> Any:
        """Return the matrix as a SciPy matrix; None if only factors are known."""
        from scipy.sparse import csc_array

        if self._constant is None:
            stored: Any = csc_array((data[self._by_column], self._indices, self._starts), (self.size, self.size))
        else:
            stored = self._constant.stored.copy() if isinstance(self._constant, SparseMatrix) else None
        return stored.T if self.is_transposed and stored is not None else stored

    def solve(self, data: Floats, sides: Floats, *, warns: bool = True) -> Floats:
        """Return the solutions, (n, m), for n × m right-hand sides; NaN if the matrix is singular, or not finite.

        Raises:
            RuntimeError: if the matrix is singular and the system was made with `raises`.
        """
        factors = self.root.factors(data, warns)
        if factors is None:
            return np.full(sides.shape, np.nan)
        solution: Floats = factors.solve(np.asfortranarray(sides), "T" if self.is_transposed else "N")
        return solution

    def of_inverse(self, data: Floats) -> float:
        """Return an estimate of the inverse's largest row sum of magnitudes; infinite if the matrix is singular."""
        from scipy.sparse.linalg import LinearOperator, onenormest

        try:
            factors = self.root.factors(data, False)
        except RuntimeError:
            factors = None
        if factors is None:
            return np.inf
        solve, turned = (partial(factors.solve, trans=trans) for trans in ("NT" if self.is_transposed else "TN"))
        each = LinearOperator((self.size, self.size), matvec=solve, rmatvec=turned, matmat=solve, dtype=float)
        return float(onenormest(each)) if self.size > 1 else abs(float(solve(np.ones(1))[0]))

    def factors(self, data: Floats, warns: bool = True) -> Any:
        """Return the factors of a matrix, or None if it is singular or not finite."""
        for held, cached in self._cached:
            if np.array_equal(held, data):
                return cached
        built = self._factorised(data, warns)
        self._cached = ((data.copy(), built), *self._cached[: KEPT - 1])
        return built

    def _factorised(self, data: Floats, warns: bool) -> Any:
        from scipy.sparse.linalg import MatrixRankWarning, splu

        if self._constant is not None and not isinstance(self._constant, SparseMatrix):
            return self._constant
        stored = self.matrix(data)
        if not np.isfinite(stored.data).all():
            return None
        try:
            return splu(stored.tocsc(), permc_spec=self._order)
        except RuntimeError:  # the matrix is singular
            if self.raises:
                raise
            if warns:
                warnings.warn("Matrix is exactly singular", MatrixRankWarning, stacklevel=2)
            return None
