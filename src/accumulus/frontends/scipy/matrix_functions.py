"""Functions of matrices and matrix equations of `scipy.linalg`, of real and of complex matrices.

Trigonometric and hyperbolic functions are exponentials, as in SciPy: the cosine and the sine of A are blocks of the
exponential of [[0, -A], [A, 0]]. Sylvester's and Lyapunov's equations are linear systems of m·n equations. SciPy
computes square roots, logarithms and solutions of Riccati equations when the program runs
(`accumulus.api.matrix_equations`).

All of these commute with the map of complex matrices to real ones of twice the size, [[Re, -Im], [Im, Re]]. Complex
matrices are passed in that form.

Source: N. J. Higham, Functions of Matrices, 2008, sections 3.2, 5.1 and 12.1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.complex_functions import doubled
from accumulus.frontends.numpy.complex_numbers import make_complex
from accumulus.frontends.numpy.linalg.factorisations import array_of_zeros, square_of
from accumulus.frontends.numpy.linalg.systems import solve_as_equation
from accumulus.frontends.numpy.operands import concrete, depends, holds_complex
from accumulus.frontends.numpy.table import borrows, by_name, refuses
from accumulus.frontends.scipy.linear_algebra import exponential
from accumulus.tape.tape import Tape

#: Maximum number of unknowns of Sylvester's and Lyapunov's equations, which are solved as one dense system.
MOST_UNKNOWNS: Final = 1024


def _records(name: str, count: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a recorder of real matrices, its first `count` arguments, for stacks and for complex matrices as well.

    The recorder takes `is_doubled` by name: True if the real matrices stand for complex ones of half the size.
    """

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        names = list(signature(record).parameters)[1 : 1 + count]

        @wraps(record)
        def of_any(tape: Tape, **named: Any) -> Any:
            given = {each: as_array(tape, named.pop(each)) for each in names if named.get(each) is not None}
            is_doubled = holds_complex([*given.values()])
            stack = np.broadcast_shapes(*(each.shape[:-2] for each in given.values()))
            square_of(tape, given[names[0]].real, f"scipy.linalg.{name}")
            matrices = {}
            for each, matrix in given.items():
                real = doubled(matrix + 0j) if is_doubled else matrix
                matrices[each] = np.broadcast_to(real, (*stack, *real.shape[-2:]))
            with tape.unsigned_zeros():
                results = [
                    record(
                        tape, **{each: matrix[k] for each, matrix in matrices.items()}, **named, is_doubled=is_doubled
                    )
                    for k in np.ndindex(stack)
                ]
                result = np.stack(results).reshape((*stack, *results[0].shape))
            if not is_doubled:
                return result
            m, n = (size // 2 for size in result.shape[-2:])
            return make_complex(tape, result[..., :m, :n], result[..., m:, :n])

        return borrows("scipy.linalg", name)(by_name(of_any))

    return enter


def _equations() -> Any:
    """Return the module of a higher layer, which compiles equations."""
    return import_module("accumulus.api.matrix_equations")


# Functions of matrices ------------------------------------------------------------------------------------------------


def _cosine_and_sine(a: Any, is_doubled: bool) -> tuple[Any, Any]:
    n = len(a)
    if is_doubled:  # exponentials of i·A and -i·A, which are smaller than the block matrix
        unit = np.kron([[0.0, -1.0], [1.0, 0.0]], np.eye(n // 2))
        turning, back = exponential(unit @ a), exponential(-(unit @ a))
        return 0.5 * (turning + back), 0.5 * (unit @ (back - turning))
    zero = np.zeros(a.shape)
    both = exponential(np.block([[zero, -a], [a, zero]]))
    return both[:n, :n], both[n:, :n]


def _hyperbolic(a: Any, is_doubled: bool) -> tuple[Any, Any]:
    growing, falling = exponential(a), exponential(-a)
    return 0.5 * (growing + falling), 0.5 * (growing - falling)


def _enter_pair(names: tuple[str, str, str], pair: Callable[[Any, bool], tuple[Any, Any]]) -> None:
    """Register a cosine, a sine, and their quotient."""
    for name, formula in zip(
        names, (lambda both: both[0], lambda both: both[1], lambda both: np.linalg.solve(*both)), strict=True
    ):

        @_records(name)
        def record(tape: Tape, A: Any, is_doubled: bool, formula: Callable[..., Any] = formula) -> Any:
            return formula(pair(A, is_doubled))


_enter_pair(("cosm", "sinm", "tanm"), _cosine_and_sine)
_enter_pair(("coshm", "sinhm", "tanhm"), _hyperbolic)


@borrows("scipy.linalg", "expm_frechet")
@by_name
def _expm_frechet(tape: Tape, A: Any, E: Any, method: Any = None, compute_expm: bool = True) -> Any:
    """Return the exponential and its derivative along E: blocks of the exponential of [[A, E], [0, A]]."""
    a, e = as_array(tape, A), as_array(tape, E)
    square_of(tape, a, "scipy.linalg.expm_frechet")
    n = len(a)
    both = exponential(np.block([[a, e], [np.zeros(a.shape), a]]))
    return (both[:n, :n], both[:n, n:]) if compute_expm else both[:n, n:]


@_records("sqrtm")
def _sqrtm(tape: Tape, A: Any, is_doubled: bool) -> Any:
    """Return the principal square root."""
    return _equations().solution(tape, "sqrtm", [A], is_doubled)


@_records("logm")
def _logm(tape: Tape, A: Any, is_doubled: bool) -> Any:
    """Return the principal logarithm."""
    return _equations().power(A, None, is_doubled)


@_records("signm")
def _signm(tape: Tape, A: Any, is_doubled: bool) -> Any:
    """Return A·(A²)^(-1/2)."""
    return solve_as_equation(tape, _equations().solution(tape, "sqrtm", [A @ A], is_doubled), A)


@_records("fractional_matrix_power")
def _fractional_matrix_power(tape: Tape, A: Any, t: Any, is_doubled: bool) -> Any:
    """Return whole powers as products, and others as exp(t·log A)."""
    if depends(t):
        return exponential(t * _equations().power(A, None, is_doubled))
    exponent = float(concrete(t))
    return (
        np.linalg.matrix_power(A, int(exponent))
        if exponent.is_integer()
        else _equations().power(A, exponent, is_doubled)
    )


# Matrix equations -----------------------------------------------------------------------------------------------------


def _sylvester(tape: Tape, name: str, a: Any, b: Any, q: Any) -> Any:
    """Return the solution of a·x + x·b = q."""
    m, n = q.shape
    matrix = _unknowns(tape, name, m, n)
    for j in range(n):
        matrix[:, j, :, j] += a
    for i in range(m):
        matrix[i, :, i, :] += b.T
    return _linear(tape, matrix, q)


def _unknowns(tape: Tape, name: str, m: int, n: int) -> Any:
    """Return zeros of the shape of a linear map of m × n matrices.

    Raises:
        TraceError: if the map is too large.
    """
    if m * n > MOST_UNKNOWNS:
        raise refuse(
            f"scipy.linalg.{name} is recorded for at most {MOST_UNKNOWNS:,} unknowns, which are solved for as one "
            f"dense system; here are {m} × {n}. Write acc.custom with a rule for the derivative."
        )
    return array_of_zeros(tape, m, n, m, n)


def _linear(tape: Tape, matrix: Any, q: Any) -> Any:
    return solve_as_equation(tape, matrix.reshape((q.size, q.size)), q.reshape(-1)).reshape(q.shape)


@_records("solve_sylvester", 3)
def _solve_sylvester(tape: Tape, a: Any, b: Any, q: Any, is_doubled: bool) -> Any:
    """Return the solution of a·x + x·b = q."""
    return _sylvester(tape, "solve_sylvester", a, b, q)


for _name in ("solve_continuous_lyapunov", "solve_lyapunov"):

    @_records(_name, 2)
    def _lyapunov(tape: Tape, a: Any, q: Any, is_doubled: bool) -> Any:
        """Return the solution of a·x + x·aᴴ = q."""
        return _sylvester(tape, "solve_continuous_lyapunov", a, a.T, q)


@_records("solve_discrete_lyapunov", 2)
def _solve_discrete_lyapunov(tape: Tape, a: Any, q: Any, is_doubled: bool, method: Any = None) -> Any:
    """Return the solution of x - a·x·aᴴ = q."""
    n = len(a)
    matrix = _unknowns(tape, "solve_discrete_lyapunov", n, n)
    matrix[...] = np.eye(n * n).reshape((n,) * 4) - a[:, np.newaxis, :, np.newaxis] * a[:, np.newaxis, :]
    return _linear(tape, matrix, q)


for _name in ("solve_continuous_are", "solve_discrete_are"):

    @_records(_name, 6)
    def _riccati(
        tape: Tape,
        a: Any,
        b: Any,
        q: Any,
        r: Any,
        is_doubled: bool,
        e: Any = None,
        s: Any = None,
        balanced: bool = True,
        name: str = _name,
    ) -> Any:
        """Return the stabilising solution of an algebraic Riccati equation."""
        return _equations().solution(tape, name, [a, b, q, r, e, s], is_doubled)


refuses(
    "scipy.linalg",
    "it calls a function of the eigenvalues. Write (vectors * f(values)) @ vectors.T with np.linalg.eigh of a "
    "symmetric matrix, or sqrtm, logm, expm, cosm.",
    "funm",
)
