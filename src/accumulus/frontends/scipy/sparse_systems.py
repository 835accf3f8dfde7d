"""Linear systems with sparse matrices: `spsolve`, `splu`, `spilu`, `factorized` of `scipy.sparse.linalg`.

Constant matrices are factorised once. Matrices with traced entries (`accumulus.frontends.scipy.sparse_matrices`) are
factorised at each point. Solutions are equations of the program (`Program.sparse_solve`): implicit functions whose
derivatives solve the same system or its transpose, so that the elimination is never differentiated. Small systems are
written out like dense ones.

`SuperLU` is a compiled class, so that its methods cannot be replaced. While a function is recorded, its objects, and
functions that `factorized` returned before the recording, are replaced by `Factors`.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from accumulus.errors import OpaqueError
from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.inner import InnerTape
from accumulus.frontends.numpy.arrays import TracedArray, as_array, as_constant
from accumulus.frontends.numpy.linalg import systems
from accumulus.frontends.numpy.operands import NO_REALS, depends, is_sparse
from accumulus.frontends.numpy.table import OBJECTS, borrows, by_name, refuses
from accumulus.frontends.scipy.sparse_matrices import SparseEntries, sparse_of
from accumulus.tape.program import MOST_UNROLLED_SYSTEM
from accumulus.tape.sparse_systems import SparseMatrix, SparseSystem
from accumulus.tape.systems import products
from accumulus.tape.tape import Tape

#: Maximum number of rows of a system whose products are counted, to decide if it is written out: counting takes time
#: that grows with its cube, and smaller systems are quicker written out than solved by a call.
MOST_ROWS: Final = 64
#: Systems of constant matrices by matrix, order of columns, and True if they raise; equal matrices are factorised once.
_CONSTANT_SYSTEMS: Final[WeakValueDictionary[Any, SparseSystem]] = WeakValueDictionary()


def _constant_system(matrix: Any, order: str, raises: bool) -> SparseSystem:
    """Return the system of a constant matrix."""
    stored, none = SparseMatrix.of(matrix), np.empty(0, np.int64)
    system = _CONSTANT_SYSTEMS.get((stored, order, raises))
    if system is None:
        system = SparseSystem(none, none, stored.shape[0], constant=stored, order=order, raises=raises)
        _CONSTANT_SYSTEMS[stored, order, raises] = system
    return system


class Factors:
    """A factorised matrix that replaces a `scipy.sparse.linalg.SuperLU` while a function is recorded.

    Args:
        matrix: sparse or dense matrix, constant or traced; None if only factors are known.
        original: object that it stands for.
        order: order of columns in the elimination.
        raises: True if a singular matrix raises when the program runs.
    """

    def __init__(self, matrix: Any, original: Any = None, order: str = "COLAMD", raises: bool = True) -> None:
        self._original, self._matrix, self._data = original, matrix, None
        none = np.empty(0, np.int64)
        if matrix is None:
            self._system = SparseSystem(none, none, original.shape[0], constant=original)
        elif isinstance(matrix, SparseEntries) and not matrix.is_complex:
            self._matrix = stored = matrix.summed()
            _check_square(stored.shape)
            self._data = stored.entries
            self._system = SparseSystem(stored.rows, stored.columns, stored.shape[0], order=order, raises=raises)
        else:
            _check_square(matrix.shape)
            if matrix.dtype.kind not in "fiub":
                raise refuse(NO_REALS)
            self._system = _constant_system(matrix, order, raises)

    def __getattr__(self, name: str) -> Any:
        if self._original is None or name.startswith("__"):
            raise AttributeError(f"the factors of a traced sparse matrix have no attribute {name!r}; expected solve")
        return getattr(self._original, name)

    def __call__(self, rhs: Any) -> Any:
        """Return the solutions, see `solve`."""
        return self.solve(rhs)

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Return the solutions for a vector, or for columns of a matrix; ``trans="T"`` solves the transposed system."""
        tape: Any = ACTIVE.tape
        if trans not in ("N", "T", "H"):
            raise ValueError(f"trans is {trans!r}; expected 'N', 'T' or 'H'")
        if not depends(rhs) and self._data is None and self._original is not None:
            return as_constant(tape, self._original.solve(np.asarray(rhs, float), trans))
        if is_sparse(rhs) or isinstance(rhs, SparseEntries):
            raise refuse(
                "A sparse system is solved only for dense right-hand sides, since solutions are dense. Write "
                "b.toarray()."
            )
        sides = as_array(tape, rhs)
        n = self._system.size
        if sides.ndim not in (1, 2) or len(sides) != n:
            raise ValueError(f"a system of {n} equations cannot have a right-hand side of shape {sides.shape}")
        if not sides.size:
            return sides
        with tape.unsigned_zeros():
            return self._solved(tape, sides, trans != "N")

    def _solved(self, tape: Any, sides: Any, is_transposed: bool) -> Any:
        dense = self._dense(tape)
        if dense is not None:
            return systems.solve(tape, dense.T if is_transposed else dense, sides)
        if isinstance(tape, InnerTape):
            tape.refuse_call(SparseSystem.name)
        if not tape.may_loop:
            raise refuse(str(OpaqueError.of(SparseSystem.name, "a program of operations only")), OpaqueError)
        system = self._system.T if is_transposed else self._system
        data = np.array([tape.constant(1.0)]) if self._data is None else self._data
        columns = sides.references.reshape(len(sides), -1)
        return TracedArray(tape, tape.sparse_solve(system, data, columns).reshape(sides.shape))

    def _dense(self, tape: Tape) -> Any:
        """Return the dense matrix if its system is small enough to be written out; else None."""
        if self._matrix is None or self._system.size > MOST_ROWS:
            return None
        matrix = self._matrix if isinstance(self._matrix, SparseEntries) else sparse_of(tape, self._matrix)
        pattern = np.zeros(matrix.shape, bool)
        pattern[matrix.rows, matrix.columns] = True
        return matrix.toarray() if products(pattern) <= MOST_UNROLLED_SYSTEM else None


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(f"matrix must be square (has shape {tuple(shape)})")


def _as_matrix(tape: Tape, a: Any) -> Any:
    """Return a matrix in a form that `Factors` accepts."""
    return a if isinstance(a, SparseEntries) or not depends(a) else sparse_of(tape, a)


@borrows("scipy.sparse.linalg", "spsolve")
@by_name
def _spsolve(tape: Tape, A: Any, b: Any, permc_spec: Any = None, use_umfpack: Any = True) -> Any:
    """Return the solutions; a single column is returned as a vector, as in SciPy."""
    solutions = Factors(_as_matrix(tape, A), order=permc_spec or "COLAMD", raises=False).solve(b)
    return solutions.ravel() if solutions.ndim == 2 and solutions.shape[1] == 1 else solutions


@borrows("scipy.sparse.linalg", "splu")
@by_name
def _splu(
    tape: Tape,
    A: Any,
    permc_spec: Any = None,
    diag_pivot_thresh: Any = None,
    relax: Any = None,
    panel_size: Any = None,
    options: Any = None,
) -> Factors:
    return Factors(_as_matrix(tape, A), order=permc_spec or "COLAMD")


@borrows("scipy.sparse.linalg", "factorized")
@by_name
def _factorized(tape: Tape, A: Any) -> Factors:
    return Factors(_as_matrix(tape, A))


@borrows("scipy.sparse.linalg", "spilu")
@by_name
def _spilu(tape: Tape, A: Any, **options: Any) -> Any:
    raise refuse(
        "scipy.sparse.linalg.spilu of a matrix whose entries depend on the arguments of the function is not recorded: "
        "which entries it drops depends on values. Write splu."
    )


refuses(
    "scipy.sparse.linalg",
    "it is an iteration. Write spsolve, splu or factorized, which are exact, or np.linalg.solve of A.toarray().",
    *("cg", "cgs", "bicg", "bicgstab", "gmres", "lgmres", "gcrotmk", "minres", "qmr", "tfqmr"),
)
refuses(
    "scipy.sparse.linalg",
    "it is an iteration. Write np.linalg.lstsq of A.toarray(), or spsolve of A.T @ A.",
    *("lsqr", "lsmr"),
)
refuses(
    "scipy.sparse.linalg",
    "it is an iteration. Write np.linalg.eigvalsh, eigh or svd of A.toarray(), which LAPACK decomposes.",
    *("eigs", "eigsh", "lobpcg", "svds"),
)
refuses("scipy.sparse.linalg", "write the function of A.toarray(), whose zeros cost nothing.", *("expm", "inv", "norm"))
OBJECTS["scipy.sparse.linalg", "SuperLU"] = lambda factors: Factors(None, factors)
