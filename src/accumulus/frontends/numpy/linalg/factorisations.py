"""Implicit functions, Cholesky's factor and QR, without decisions on values except for signs.

Values that are computed in one way and differentiated in another are implicit functions. A Cholesky factor is
differentiated as it is computed. Q and R are implicit functions of a matrix A with independent columns: with C =
dA·R⁻¹, M = Qᵀ·C and Ω the skew-symmetric matrix with M's lower triangle, dR is (M - Ω)·R and dQ is Q·(Ω - M) + C. This
does not determine the additional columns of a complete Q; these are differentiated through Householder's reflections.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.linalg.systems import is_equation
from accumulus.frontends.numpy.operands import depends, map_references, references_of
from accumulus.frontends.numpy.table import implements
from accumulus.tape.blocks import ORTHOGONAL
from accumulus.tape.tape import Tape

# Implicit functions ---------------------------------------------------------------------------------------------------


def attached(tape: Tape, value: Any, derivative: Any) -> Any:
    """Return the array `value` with the derivative of the array `derivative`; constant entries stay constant."""
    values = references_of(tape, value)
    with_derivative = map_references(
        tape, lambda body: partial(body.apply, "attach"), [values, references_of(tape, derivative)]
    )
    return TracedArray(tape, np.where(values < 0, values, with_derivative))


def fixed(tape: Tape, value: Any) -> Any:
    """Return the array `value` with derivative zero."""
    return attached(tape, value, np.zeros(np.shape(value)))


def plain(tape: Tape, value: Any) -> Any:
    """Return the array `value` without attached derivatives."""
    entries = references_of(tape, value)
    references = [
        (*tape.arguments(r), r)[0] if r >= tape.inputs and tape.operation(r).name == "attach" else r
        for r in entries.ravel().tolist()
    ]
    return TracedArray(tape, np.array(references, np.int64).reshape(entries.shape))


def array_of_zeros(tape: Tape, *shape: int) -> Any:
    """Return an array of zeros that can be filled."""
    return as_array(tape, np.zeros(shape))


def constant_matrix(tape: Tape, count: int, matrix: Any) -> Any:
    """Return a writeable stack of `count` copies of a matrix."""
    return as_array(tape, np.broadcast_to(matrix, (count, *np.shape(matrix)))).copy()


def is_structural_zero(entry: Any) -> bool:
    """Return True if a traced entry, in each matrix of a stack, is a structural zero."""
    references: Any = entry.references
    return bool((references < 0).all()) and all(entry.tape.value_of(r) == 0.0 for r in set(references.ravel().tolist()))


def matrices_of(tape: Tape, a: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    """Return a writeable copy of matrices as a stack with one axis, and the shape of the original stack.

    Raises:
        numpy.linalg.LinAlgError: for fewer than two axes.
    """
    array = as_array(tape, a)
    if array.ndim < 2:
        raise np.linalg.LinAlgError(f"{name}: {array.ndim}-dimensional array given, at least two axes are needed")
    stack = array.shape[:-2]
    return array.reshape(int(np.prod(stack)), *array.shape[-2:]).copy(), stack


def square_of(tape: Tape, a: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    """Return the results of `matrices_of` for square matrices.

    Raises:
        numpy.linalg.LinAlgError: for matrices that are not square.
    """
    matrices, stack = matrices_of(tape, a, name)
    if matrices.shape[-1] != matrices.shape[-2]:
        shape = stack + matrices.shape[1:]
        raise np.linalg.LinAlgError(f"{name}: the last two axes must be of equal length; the shape is {shape}")
    return matrices, stack


def check_constant(name: str, **options: Any) -> None:
    """Refuse options that depend on the arguments of the recorded function."""
    for option, value in options.items():
        if depends(value):
            raise refuse(f"{name}: {option} must be a constant.")


# Factorisations -------------------------------------------------------------------------------------------------------


def by_lapack(tape: Any, code: int, matrices: Any) -> list[Any]:
    """Return the factors of each matrix of a stack, as equations of the program that LAPACK computes."""
    factorisations = [tape.factorise(code, each) for each in references_of(tape, matrices)]
    return [TracedArray(tape, np.stack(factor)) for factor in zip(*factorisations, strict=True)]


@implements(np.linalg.cholesky)
def cholesky(tape: Tape, a: Any, /, *, upper: bool = False) -> Any:
    """Return the triangular factor with a positive diagonal; only one triangle of the matrix is read, as in NumPy.

    If the matrix is not positive definite, the factor is NaN from the first affected row on. NumPy raises
    `LinAlgError`, and so do calls of the program for large matrices, which LAPACK factorises (`Program.cholesky`).
    """
    with tape.unsigned_zeros():
        matrices, stack = square_of(tape, a, "cholesky")
        lower, n = matrices.mT if upper else matrices, matrices.shape[-1]
        if is_equation(tape, n * n * n // 6):
            factors = [tape.cholesky(each) for each in references_of(tape, lower)]
            factor: Any = TracedArray(tape, np.array(factors, np.int64).reshape(matrices.shape))
        else:
            factor = cholesky_factors(tape, lower)
        return (factor.mT if upper else factor).reshape(*stack, *matrices.shape[1:])


def cholesky_factors(tape: Tape, matrices: Any) -> Any:
    """Return Cholesky's factors of a stack of matrices, whose lower triangles are read, column by column."""
    n = matrices.shape[-1]
    factor = array_of_zeros(tape, *matrices.shape)
    for j in range(n):
        left = matrices[:, j:, j]
        if j:
            left = left - np.sum(factor[:, j:, :j] * factor[:, j : j + 1, :j], axis=-1)
        diagonal = np.sqrt(left[:, 0])
        factor[:, j, j] = diagonal
        if j + 1 < n:
            factor[:, j + 1 :, j] = left[:, 1:] / diagonal[:, np.newaxis]
    return factor


@cache
def result_type(name: str) -> Any:
    """Return the named tuple that a function of `numpy.linalg` returns."""
    return type(getattr(np.linalg, name)(np.eye(1)))


@implements(np.linalg.qr)
def qr(tape: Tape, a: Any, mode: str = "reduced") -> Any:
    """Return Q and R with LAPACK's signs; derivatives are not finite for linearly dependent columns."""
    if mode not in ("reduced", "complete", "r"):
        raise refuse(f"np.linalg.qr: mode={mode!r} is not recorded; 'reduced', 'complete' and 'r' are.")
    with tape.unsigned_zeros():
        matrices, stack = matrices_of(tape, a, "qr")
        m, n = matrices.shape[1:]
        width = min(m, n)
        more = mode == "complete" and m > n
        if len(matrices) and not more and is_equation(tape, m * width * width * 2 // 3):
            r, q = by_lapack(tape, ORTHOGONAL, matrices[:, :, :width])
            r = np.triu(r)
            if n > m:
                r = np.concatenate([r, q.mT @ matrices[:, :, m:]], axis=-1)
            r, q = (each.reshape(*stack, *each.shape[1:]) for each in (r, q))
            return r if mode == "r" else result_type("qr")(q, r)
        upper, reflections = householder(tape, matrices)
        complete = reflected(reflections, constant_matrix(tape, len(matrices), np.eye(m))) if more else None
        reduced = reflected(reflections, constant_matrix(tape, len(matrices), np.eye(m, width)))
        q, r = _by_rule(tape, matrices[:, :, :width], reduced, upper)
        if n > m:
            r = np.concatenate([r, q.mT @ matrices[:, :, m:]], axis=-1)
        if complete is not None:
            complete[:, :, :n] = q
            q, r = complete, np.concatenate([r, np.zeros((len(matrices), m - n, n))], axis=1)
        r = r.reshape(*stack, *r.shape[1:])
        return r if mode == "r" else result_type("qr")(q.reshape(*stack, *q.shape[1:]), r)


def householder(tape: Tape, a: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Triangularise stacked matrices by Householder reflections; return the square upper triangle and the reflections.

    Each reflection I - τ·v·vᵀ is its scale τ, of shape (stack,), and its vector v with first entry one, of shape
    (stack, m - k). If all entries below the diagonal are zero there is no reflection, as in LAPACK.
    """
    a = a.copy()
    m, n = a.shape[1:]
    width = min(m, n)
    reflections: list[tuple[Any, Any]] = []
    for k in range(min(m - 1, n)):
        first, below = a[:, k, k], a[:, k + 1 :, k]
        vector = array_of_zeros(tape, len(a), m - k)
        if is_structural_zero(below):
            reflections.append((array_of_zeros(tape, len(a)), vector))
            continue
        squares = np.sum(below * below, axis=-1)
        length = np.sqrt(first * first + squares)
        turned = np.where(first < 0.0, length, -length)
        none = squares == 0.0
        scale = np.where(none, 0.0, (turned - first) / turned)
        vector[:, 0] = 1.0
        vector[:, 1:] = below * np.where(none, 0.0, 1.0 / (first - turned))[:, np.newaxis]
        a[:, k, k] = np.where(none, first, turned)
        a[:, k + 1 :, k] = 0.0
        a[:, k:, k + 1 :] = _reflected_once(a[:, k:, k + 1 :], scale, vector)
        reflections.append((scale, vector))
    return a[:, :width, :width], reflections


def _reflected_once(a: Any, scale: Any, vector: Any) -> Any:
    along = scale[:, np.newaxis] * np.sum(vector[:, :, np.newaxis] * a, axis=1)
    return a - vector[:, :, np.newaxis] * along[:, np.newaxis]


def reflected(reflections: list[tuple[Any, Any]], columns: Any) -> Any:
    """Return Q, given by reflections, times the columns of each matrix of a stack."""
    result = columns.copy()
    for k, (scale, vector) in reversed(list(enumerate(reflections))):
        result[:, k:] = _reflected_once(result[:, k:], scale, vector)
    return result


def _by_rule(tape: Tape, a: Any, q: Any, r: Any) -> tuple[Any, Any]:
    """Return the computed Q and R with their derivatives as implicit functions."""
    fixed_q, fixed_r = fixed(tape, q), fixed(tape, r)
    scaled = a @ inverse_of_triangular(tape, fixed_r)
    along = fixed_q.mT @ scaled
    lower = np.tril(along, -1)
    skew = lower - lower.mT
    return (
        attached(tape, q, fixed_q @ (skew - along) + scaled),
        attached(tape, r, np.triu((np.triu(along) + lower.mT) @ fixed_r)),
    )


def solve_triangular(tape: Tape, a: Any, b: Any, *, lower: bool = False, unit: bool = False) -> Any:
    """Return the solutions of stacked triangular systems; the other triangle is not read."""
    n = a.shape[-1]
    result = array_of_zeros(tape, *b.shape)
    for i in range(n) if lower else reversed(range(n)):
        solved = slice(0, i) if lower else slice(i + 1, n)
        row = b[:, i]
        if solved.start < solved.stop:
            row = row - np.sum(a[:, i, solved, np.newaxis] * result[:, solved], axis=1)
        result[:, i] = row if unit else row / a[:, i, i, np.newaxis]
    return result


def inverse_of_triangular(tape: Tape, a: Any) -> Any:
    """Return the inverses of stacked upper triangular matrices."""
    return solve_triangular(tape, a, constant_matrix(tape, len(a), np.eye(a.shape[-1])))
