"""Matrix functions that are computed when the program runs: square roots, powers, logarithms, Riccati equations.

Square roots and solutions of Riccati equations are roots of their equations, differentiated by the implicit function
theorem (`accumulus.programs.root_finding.Root`): a linear system of n² equations for n × n matrices. Derivatives of any
order are those of the equation, which is recorded.

The equation of a logarithm would be an exponential, whose derivatives are long programs. The derivative along E is
instead a block of the logarithm of [[A, E], [0, A]], as of any function of matrices; blocks of blocks give derivatives
of any order.

Source: N. J. Higham, Functions of Matrices, 2008, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from itertools import combinations_with_replacement, permutations
from typing import Any, Final
from warnings import catch_warnings, simplefilter

import numpy as np

from accumulus.api.scipy_solvers import equations_for
from accumulus.errors import ConvergenceError
from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.custom import call_block
from accumulus.programs.equations import Call, Equations, Floats, in_row
from accumulus.programs.root_finding import Root

#: Maximum number of rows: the derivative of a larger solution solves a system of more than 1,024 equations, and that of
#: a larger power takes the powers of more than 256 matrices.
MOST_ROWS: Final = 32
MOST_ROWS_OF_POWERS: Final = 16
#: Number of equations whose programs are cached: more take memory, fewer prepare programs again.
_MOST_CACHED: Final = 64


def _riccati(x: Any, gain: Any, a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None) -> list[Any]:
    e = np.eye(len(a)) if e is None else e
    by_input = e.T @ x @ b + (0.0 if s is None else s)
    return [a.T @ x @ e + e.T @ x @ a - by_input @ gain + q, r @ gain - by_input.T]


def _discrete_riccati(x: Any, gain: Any, a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None) -> list[Any]:
    e = np.eye(len(a)) if e is None else e
    by_input = a.T @ x @ b + (0.0 if s is None else s)
    return [a.T @ x @ a - e.T @ x @ e - by_input @ gain + q, (r + b.T @ x @ b) @ gain - by_input.T]


#: Functions of `scipy.linalg` → residuals of the unknown matrix x, of the gain of a Riccati equation, and of
#: the arguments. With the gain as an unknown, nothing is divided.
RESIDUALS: Final[dict[str, Callable[..., list[Any]]]] = {
    "sqrtm": lambda x, gain, a: [x @ x - a],
    "solve_continuous_are": _riccati,
    "solve_discrete_are": _discrete_riccati,
}
#: Position and shape of each argument that is passed.
Shapes = tuple[tuple[int, tuple[int, ...]], ...]


def solution(tape: Any, name: str, matrices: Sequence[Any], is_doubled: bool) -> Any:
    """Return the solution of a matrix equation as a traced array.

    Args:
        tape: tape that is being recorded.
        name: name in `scipy.linalg`.
        matrices: arguments; None for those that are not passed.
        is_doubled: True if each of them stands for a complex matrix of half the size.

    Raises:
        TraceError: for more than 32 rows.
    """
    n = len(matrices[0])
    _check_size(name, n, MOST_ROWS, is_doubled)
    inputs = matrices[1].shape[1] if len(matrices) > 1 else 0

    def residual(y: Any) -> Any:
        x, gain = y[: n * n].reshape((n, n)), y[n * n :].reshape((inputs, n))
        return np.concatenate([part.reshape(-1) for part in RESIDUALS[name](x, gain, *matrices)])

    traced = equations_for(tape, residual, (n * n + inputs * n,), ())
    assert traced is not None, "a recorder is called for traced values only"
    equations, taken, _ = traced
    passed = [(k, matrix) for k, matrix in enumerate(matrices) if matrix is not None]
    root = _root(name, equations, tuple((k, matrix.shape) for k, matrix in passed), is_doubled)
    row = np.concatenate([in_row(tape, *(matrix for _, matrix in passed)), taken])
    return TracedArray(tape, call_block(tape, root, row)[: n * n].reshape(n, n))


def power(a: Any, exponent: float | None, is_doubled: bool) -> Any:
    """Return a power of a traced matrix, or its logarithm for None.

    Raises:
        TraceError: for more than 16 rows.
    """
    n = len(a)
    _check_size("logm" if exponent is None else "fractional_matrix_power", n, MOST_ROWS_OF_POWERS, is_doubled)
    return _power(n, exponent, is_doubled, 0).recorded(a).reshape(n, n)


def _check_size(name: str, n: int, most: int, is_doubled: bool) -> None:
    if n > most:
        raise refuse(
            f"scipy.linalg.{name} is recorded for at most {most} rows, {most // 2} of complex numbers, since its "
            f"derivative takes n² systems or matrices; this matrix has {n // (1 + is_doubled)} rows. Write acc.custom "
            "with a rule for the derivative."
        )


@lru_cache(maxsize=_MOST_CACHED)
def _root(name: str, equations: Equations, shapes: Shapes, is_doubled: bool) -> Root:
    sizes = [int(np.prod(shape)) for _, shape in shapes]
    return Root(partial(_found, name, shapes, is_doubled), equations, equations.results, sum(sizes))


def _found(name: str, shapes: Shapes, is_doubled: bool, start: Floats, p: Floats) -> Any:
    """Return SciPy's solution for the matrices in a row.

    Raises:
        ConvergenceError: if it is complex, and the matrices are real.
    """
    import scipy.linalg

    ends = np.cumsum([np.prod(shape) for _, shape in shapes])[:-1]
    matrices: list[Any] = [None] * (1 + shapes[-1][0])
    for (k, shape), part in zip(shapes, np.split(start, ends), strict=True):
        matrices[k] = part.reshape(shape)
    given = [each if each is None or not is_doubled else _halved(each) for each in matrices]
    result = getattr(scipy.linalg, name)(*given)
    x = _doubled(result) if is_doubled else _real(name, result)
    if len(matrices) == 1:
        return x
    a, b, _, r = matrices[:4]
    e, s = (matrices[k] if len(matrices) > k else None for k in (4, 5))
    from_state = a if "discrete" in name else np.eye(len(a)) if e is None else e
    by_state = b.T @ x @ from_state + (0.0 if s is None else s.T)
    gain = np.linalg.solve(r + b.T @ x @ b if "discrete" in name else r, by_state)
    return np.concatenate([x.reshape(-1), gain.reshape(-1)])


def _halved(a: Floats) -> Any:
    m, n = (size // 2 for size in a.shape)
    return a[:m, :n] + 1j * a[m:, :n]


def _doubled(a: Any) -> Floats:
    return np.block([[a.real, -a.imag], [a.imag, a.real]])


def _real(name: str, result: Any) -> Floats:
    """Return a result for a real matrix.

    Raises:
        ConvergenceError: if it is complex.
    """
    if np.iscomplexobj(result) and np.any(result.imag):
        raise ConvergenceError(
            f"scipy.linalg.{name} of this real matrix is complex, since it has a negative eigenvalue; expected a matrix"
            f" without one, or a matrix of complex numbers: {name}(A + 0j)"
        )
    real: Floats = np.real(result)
    return real


#: Nodes and weights on (0, 1) of Gauss's quadrature of log(1 + Y) = ∫ Y·(1 + t·Y)⁻¹ dt, which is Padé's approximant of
#: degree 8.
_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(8)[k] / 2.0 + shift for k, shift in ((0, 0.5), (1, 0.0)))
#: Maximum 1-norm of Y. The approximant is exact to double precision up to it; a smaller one takes more square roots.
NEAR_ONE: Final = 0.35
#: Maximum number of square roots: a matrix of doubles that needs more is singular.
MOST_SQUARE_ROOTS: Final = 60


def logarithms(matrices: Any) -> Any:
    """Return the principal logarithms of stacked matrices, by inverse scaling and squaring; NaN for singular ones.

    SciPy's `logm` takes 90 ms for a matrix of three rows, and equal values from `sqrtm` 0.1 ms.
    """
    from scipy.linalg import sqrtm

    identity, count = np.eye(matrices.shape[-1]), 0
    with np.errstate(all="ignore"), catch_warnings():
        simplefilter("ignore")
        while not np.abs(matrices - identity).sum(axis=-2).max() < NEAR_ONE:
            if count == MOST_SQUARE_ROOTS or not np.isfinite(matrices).all():
                return np.full(matrices.shape, np.nan)
            matrices, count = sqrtm(matrices), count + 1
    apart = matrices - identity
    return 2.0**count * sum(
        weight * np.linalg.solve(identity + node * apart, apart) for node, weight in zip(_NODES, _WEIGHTS, strict=True)
    )


class Power(Call):
    """A power or the logarithm of a real n × n matrix, or its derivative of some order.

    The results are the entries of an array of shape (n², n², …), with an axis for the entries of the value and one for
    each derivative.

    Args:
        n: number of rows.
        exponent: exponent of the principal power; None for the logarithm.
        is_doubled: True if the matrix stands for a complex one of half the size.
        order: order of the derivative.
    """

    def __init__(self, n: int, exponent: float | None, is_doubled: bool, order: int) -> None:
        super().__init__()
        self._n, self._exponent, self._is_doubled, self._order = n, exponent, is_doubled, order
        self._scipy_name = "logm" if exponent is None else "fractional_matrix_power"
        self.name = f"scipy.linalg.{self._scipy_name}"
        self.argument_count = n * n
        self.result_count = (n * n) ** (order + 1)

    def _of(self, matrices: Any) -> Any:
        from scipy.linalg import expm

        found = logarithms(matrices)
        return found if self._exponent is None else expm(self._exponent * found)

    def computed(self, x: Floats) -> Any:
        """Compute the function of a block matrix for each set of directions; NaN for infinite entries.

        Raises:
            ConvergenceError: if values are complex.
        """
        n, a = self._n, x.reshape(self._n, self._n)
        if not np.isfinite(x).all():
            return np.full(self.result_count, np.nan)
        if self._is_doubled and not self._order:
            return _doubled(self._of(_halved(a)))
        sets = [*combinations_with_replacement(range(n * n), self._order)]
        blocks = np.broadcast_to(a, (len(sets), n, n))
        for k in range(self._order):
            along = np.zeros((len(sets), n * n))
            along[np.arange(len(sets)), [directions[k] for directions in sets]] = 1.0
            beside = np.kron(np.eye(2**k), along.reshape(-1, n, n))
            blocks = np.block([[blocks, beside], [np.zeros(blocks.shape), blocks]])
        derivatives = _real(self._scipy_name, self._of(blocks))[:, :n, -n:].reshape(len(sets), -1)
        results: Any = np.empty((n * n,) * (self._order + 1))
        for directions, derivative in zip(sets, derivatives, strict=True):
            for axes in permutations(directions):
                results[:, *axes] = derivative
        return results

    def jacobian(self, columns: tuple[int, ...], x: Any) -> Any:
        """Return entries of the derivative of the next order."""
        following = _power(self._n, self._exponent, self._is_doubled, self._order + 1).recorded(x)
        return following.reshape(self.result_count, self.argument_count)[:, list(columns)]


@cache
def _power(n: int, exponent: float | None, is_doubled: bool, order: int) -> Power:
    return Power(n, exponent, is_doubled, order)
