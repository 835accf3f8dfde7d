"""NumPy's own BLAS and LAPACK, called at their addresses.

SciPy brings a second library with threads of its own. Where both take turns, each waits for a processor on which the
other one's idle threads still spin: a product of vectors after a triangular system took 3.5 ms instead of 0.01 on two
cores. So triangular systems and factorisations use NumPy's library, as its products do; SciPy's is used where NumPy's
functions are not found.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Values of CBLAS's enumerations.
ROW_MAJOR, COLUMN_MAJOR, AS_STORED, TRANSPOSED = 101, 102, 111, 112
_UPPER, _LOWER, _WITH_DIAGONAL, _LEFT = 121, 122, 131, 141
#: Names of functions in libraries that NumPy is built with: its own wheels, 64-bit integers, others. Integers are
#: passed with 64 bits in all cases; functions with 32-bit integers read the lower half.
_OF_BLAS: Final = ("scipy_cblas_d{}64_", "cblas_d{}64_", "cblas_d{}")
_OF_LAPACK: Final = ("scipy_d{}_64_", "d{}_64_", "d{}_")


@functools.cache
def blas() -> dict[str, int]:
    """Return addresses of NumPy's BLAS functions, by name; an empty dictionary if they cannot be used."""
    return _found(_OF_BLAS, ("gemm", "gemv", "dot"))


def _found(spellings: tuple[str, ...], functions: tuple[str, ...]) -> dict[str, int]:
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return {}
    library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    for spelling in spellings:
        names = {name: spelling.format(name) for name in functions}
        if all(hasattr(library, name) for name in names.values()):
            return {
                name: ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
                for name, symbol in names.items()
            }
    return {}


@functools.cache
def _trsm() -> Any:
    """Return BLAS's solution of triangular systems, or None."""
    address = _found(_OF_BLAS, ("trsm",)).get("trsm")
    integer, array = ctypes.c_int64, (ctypes.c_void_p, ctypes.c_int64)
    kinds: list[Any] = 5 * [ctypes.c_int] + [integer, integer, ctypes.c_double, *array, *array]
    return address and ctypes.CFUNCTYPE(None, *kinds)(address)


@functools.cache
def _potrf() -> Any:
    """Return LAPACK's factorisation of definite matrices, or None."""
    address = _found(_OF_LAPACK, ("potrf",)).get("potrf")
    integer = ctypes.POINTER(ctypes.c_int64)
    kinds: list[Any] = [ctypes.c_char_p, integer, ctypes.c_void_p, integer, integer, ctypes.c_size_t]
    return address and ctypes.CFUNCTYPE(None, *kinds)(address)


def solve_triangular(matrix: Floats, out: Floats, *, lower: bool) -> None:
    """Solve triangular systems in place.

    Args:
        matrix: triangular matrix (n, n), n > 1; the other triangle is not read.
        out: right-hand sides (n, k), in C order; on return, the solutions.
        lower: True for a lower triangle.

    Raises:
        LinAlgError: if an entry of the diagonal is 0.
    """
    diagonal = matrix.diagonal()
    if not diagonal.all():
        row = int(np.argmin(diagonal != 0.0))
        raise np.linalg.LinAlgError(f"singular matrix: its diagonal is 0 in row {row}")
    if matrix.itemsize not in matrix.strides:
        matrix = np.ascontiguousarray(matrix)
    by_columns = matrix.strides[0] == matrix.itemsize
    call = _trsm()
    if not call:
        from scipy.linalg.blas import dtrsm  # only some machines need it

        # rows are columns in Fortran order, in which A·X = B is Xᵀ·Aᵀ = Bᵀ
        if by_columns:
            solved = dtrsm(1.0, matrix, out.T, side=1, lower=lower, trans_a=1, overwrite_b=1)
        else:
            solved = dtrsm(1.0, matrix.T, out.T, side=1, lower=not lower, overwrite_b=1)
        if not np.may_share_memory(solved, out):
            out[...] = solved.T
        return
    n, k = out.shape
    triangle = _LOWER if lower != by_columns else _UPPER
    leading = matrix.strides[1 if by_columns else 0] // matrix.itemsize
    turned = TRANSPOSED if by_columns else AS_STORED
    head = ROW_MAJOR, _LEFT, triangle, turned, _WITH_DIAGONAL
    call(*head, n, k, 1.0, _address(matrix), max(leading, n), _address(out), k)


def cholesky(matrix: Floats, out: Floats) -> None:
    """Factorise a definite matrix.

    Args:
        matrix: definite matrix (n, n), of which the lower triangle is read.
        out: on return, its factor, a lower triangle (n, n) in C order, with zeros above the diagonal.

    Raises:
        LinAlgError: if the matrix is not positive definite.
    """
    call = _potrf()
    if not call:
        from scipy.linalg.lapack import dpotrf  # only some machines need it

        out[...] = matrix
        # the lower triangle is the upper one in Fortran order
        factor, failed = dpotrf(out.T, lower=0, clean=1, overwrite_a=1)
        if not np.may_share_memory(factor, out):
            out[...] = factor.T
    else:
        out[...] = np.tril(matrix)
        size, info = ctypes.c_int64(len(out)), ctypes.c_int64(0)
        call(b"U", ctypes.byref(size), _address(out), ctypes.byref(size), ctypes.byref(info), 1)
        failed = info.value
    if failed:
        raise np.linalg.LinAlgError("Matrix is not positive definite")


def _address(array: Floats) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
