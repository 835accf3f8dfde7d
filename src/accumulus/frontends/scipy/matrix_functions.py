"""Functions of matrices and matrix equations of `scipy.linalg`, of real and of complex matrices.

Trigonometric and hyperbolic functions are exponentials, as in SciPy. Sylvester's and Lyapunov's equations are linear
systems of m·n equations. SciPy computes square roots, logarithms and solutions of Riccati equations when the program
runs (`accumulus.programs.matrix_functions`).

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
from accumulus.frontends.numpy.linalg.factorisations import square_of
from accumulus.frontends.numpy.linalg.systems import solve_as_equation
from accumulus.frontends.numpy.operands import concrete, depends, holds_complex
from accumulus.frontends.numpy.table import borrows, by_name, refuses
from accumulus.frontends.scipy.linear_algebra import exponential
from accumulus.tape.tape import Tape

#: Maximum number of unknowns of Sylvester's and Lyapunov's equations, which are solved as one dense system.
MOST_UNKNOWNS: Final = 1024
#: Maximum number of rows: the derivative of a larger solution solves a system of more than 1,024 equations, and that of
#: a larger power takes the powers of more than 256 matrices.
MOST_ROWS: Final = 32
MOST_ROWS_OF_POWERS: Final = 16


# Exponentials ---------------------------------------------------------------------------------------------------------


def _cosine_and_sine(a: Any) -> tuple[Any, Any]:
    if not holds_complex(a):
        turning = exponential(make_complex(a.tape, np.zeros(a.shape), a))
        return turning.real, turning.imag
    forward, back = exponential(1j * a), exponential(-1j * a)
    return 0.5 * (forward + back), -0.5j * (forward - back)


def _hyperbolic(a: Any) -> tuple[Any, Any]:
    growing, falling = exponential(a), exponential(-a)
    return 0.5 * (growing + falling), 0.5 * (growing - falling)


def _enter_pair(pair: Callable[[Any], tuple[Any, Any]], cosine: str, sine: str, tangent: str) -> None:
    """Register a cosine, a sine, and their quotient."""
    borrows("scipy.linalg", cosine)(lambda tape, A: pair(as_array(tape, A))[0])
    borrows("scipy.linalg", sine)(lambda tape, A: pair(as_array(tape, A))[1])
    borrows("scipy.linalg", tangent)(lambda tape, A: np.linalg.solve(*pair(as_array(tape, A))))


_enter_pair(_cosine_and_sine, "cosm", "sinm", "tanm")
_enter_pair(_hyperbolic, "coshm", "sinhm", "tanhm")


@borrows("scipy.linalg", "expm_frechet")
@by_name
def _expm_frechet(tape: Tape, A: Any, E: Any, method: Any = None, compute_expm: bool = True) -> Any:
    """Return the exponential and its derivative along E: blocks of the exponential of [[A, E], [0, A]]."""
    a, e = as_array(tape, A), as_array(tape, E)
    square_of(tape, a.real, "scipy.linalg.expm_frechet")
    n = len(a)
    both = exponential(np.block([[a, e], [np.zeros((n, n)), a]]))
    return (both[:n, :n], both[:n, n:]) if compute_expm else both[:n, n:]


# Other functions, and equations ---------------------------------------------------------------------------------------


def _records(name: str, count: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a recorder of real matrices, its first `count` arguments, for stacks and for complex matrices as well.

    The recorder takes `is_doubled` by name: True if the real matrices stand for complex ones of half the size.
    """

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        accepted = signature(record)
        names = list(accepted.parameters)[1 : 1 + count]

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
                    record(tape, **{each: a[k] for each, a in matrices.items()}, **named, is_doubled=is_doubled)
                    for k in np.ndindex(stack)
                ]
                result = np.stack(results).reshape((*stack, *results[0].shape))
            if not is_doubled:
                return result
            m, n = (size // 2 for size in result.shape[-2:])
            return make_complex(tape, result[..., :m, :n], result[..., m:, :n])

        options = [each for each in accepted.parameters.values() if each.name != "is_doubled"]
        vars(of_any)["__signature__"] = accepted.replace(parameters=options)
        return borrows("scipy.linalg", name)(by_name(of_any))

    return enter


def _check_size(name: str, rows: int, most: int, is_doubled: bool) -> None:
    if rows > most:
        raise refuse(
            f"scipy.linalg.{name} is recorded for at most {most} rows, {most // 2} of complex numbers, since its "
            f"derivative takes n² systems or matrices; this matrix has {rows // (1 + is_doubled)} rows. Write "
            "acc.custom with a rule for the derivative."
        )


def _programs() -> Any:
    """Return the module of a higher layer, which compiles derivatives."""
    return import_module("accumulus.programs.matrix_functions")


def _solution(name: str, matrices: list[Any], is_doubled: bool) -> Any:
    """Return the solution of a matrix equation."""
    n = len(matrices[0])
    _check_size(name, n, MOST_ROWS, is_doubled)
    root = _programs().matrix_solution(name, tuple(matrix.shape for matrix in matrices), is_doubled)
    row = np.concatenate([matrix.reshape(-1) for matrix in matrices])
    return root.recorded(row)[: n * n].reshape(n, n)


def _power(a: Any, exponent: float | None, is_doubled: bool) -> Any:
    """Return a power of a matrix, or its logarithm for None."""
    _check_size("logm" if exponent is None else "fractional_matrix_power", len(a), MOST_ROWS_OF_POWERS, is_doubled)
    return _programs().matrix_power(len(a), exponent, is_doubled).recorded(a).reshape(a.shape)


@_records("sqrtm")
def _sqrtm(tape: Tape, A: Any, is_doubled: bool) -> Any:
    """Return the principal square root."""
    return _solution("sqrtm", [A], is_doubled)


@_records("logm")
def _logm(tape: Tape, A: Any, is_doubled: bool) -> Any:
    """Return the principal logarithm."""
    return _power(A, None, is_doubled)


@_records("signm")
def _signm(tape: Tape, A: Any, is_doubled: bool) -> Any:
    """Return A·(A²)^(-1/2)."""
    return solve_as_equation(tape, _solution("sqrtm", [A @ A], is_doubled), A)


@_records("fractional_matrix_power")
def _fractional_matrix_power(tape: Tape, A: Any, t: Any, is_doubled: bool) -> Any:
    """Return whole powers as products, and others as exp(t·log A)."""
    if depends(t):
        return exponential(t * _power(A, None, is_doubled))
    exponent = float(concrete(t))
    return np.linalg.matrix_power(A, int(exponent)) if exponent.is_integer() else _power(A, exponent, is_doubled)


def _linear(tape: Tape, name: str, q: Any, *terms: tuple[Any, Any]) -> Any:
    """Return the solution x of Σ a·x·bᵀ = q, for pairs (a, b).

    Raises:
        TraceError: for too many unknowns.
    """
    if q.size > MOST_UNKNOWNS:
        raise refuse(
            f"scipy.linalg.{name} is recorded for at most {MOST_UNKNOWNS:,} unknowns, which are solved for as one "
            f"dense system; here are {q.size:,}. Write acc.custom with a rule for the derivative."
        )
    first, *rest = (np.kron(a, b) for a, b in terms)
    return solve_as_equation(tape, sum(rest, first), q.reshape(-1)).reshape(q.shape)


@_records("solve_sylvester", 3)
def _solve_sylvester(tape: Tape, a: Any, b: Any, q: Any, is_doubled: bool) -> Any:
    """Return the solution of a·x + x·b = q."""
    return _linear(tape, "solve_sylvester", q, (a, np.eye(len(b))), (np.eye(len(a)), b.T))


for _name in ("solve_continuous_lyapunov", "solve_lyapunov"):

    @_records(_name, 2)
    def _lyapunov(tape: Tape, a: Any, q: Any, is_doubled: bool) -> Any:
        """Return the solution of a·x + x·aᴴ = q."""
        return _linear(tape, "solve_continuous_lyapunov", q, (a, np.eye(len(a))), (np.eye(len(a)), a))


@_records("solve_discrete_lyapunov", 2)
def _solve_discrete_lyapunov(tape: Tape, a: Any, q: Any, is_doubled: bool, method: Any = None) -> Any:
    """Return the solution of x - a·x·aᴴ = q."""
    return _linear(tape, "solve_discrete_lyapunov", q, (np.eye(len(a)), np.eye(len(a))), (-a, a))


def _enter_riccati(name: str) -> None:
    @_records(name, 6)
    def record(
        tape: Tape, a: Any, b: Any, q: Any, r: Any, is_doubled: bool, e: Any = None, s: Any = None, balanced: Any = None
    ) -> Any:
        """Return the stabilising solution of an algebraic Riccati equation."""
        e = as_array(tape, np.eye(len(a))) if e is None else e
        s = as_array(tape, np.zeros(b.shape)) if s is None else s
        return _solution(name, [a, b, q, r, e, s], is_doubled)


_enter_riccati("solve_continuous_are")
_enter_riccati("solve_discrete_are")


refuses(
    "scipy.linalg",
    "it calls a function of the eigenvalues. Write (vectors * f(values)) @ vectors.T with np.linalg.eigh of a "
    "symmetric matrix, or sqrtm, logm, expm, cosm.",
    "funm",
)
