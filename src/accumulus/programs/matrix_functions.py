"""Functions of matrices and roots of polynomials that NumPy and SciPy compute in compiled programs.

Each is an opaque function of real numbers; complex numbers are passed as parts. Derivatives have any order:

* Eigenvalues of Hermitian matrices: dλ_k = v_kᴴ·dA·v_k, and v_k turns towards v_j by v_jᴴ·dA·v_k / (λ_k - λ_j). A
  vector is determined up to its phase. As in LAPACK, its first entry is real (its last one if the upper triangle is
  read), and stays so. For equal eigenvalues, derivatives of values belong to the computed vectors: their sum has the
  right derivative. Those of vectors are infinite or NaN.
* Roots z of p(z) = Σ c_k·z^k: dz = -Σ z^k·dc_k / p′(z), which is infinite or NaN for multiple roots.
* Logarithms and powers: the derivative along E is a block of the function of [[A, E], [0, A]]; blocks of blocks give
  higher derivatives.
* Square roots and solutions of Riccati equations are roots of their equations (`accumulus.programs.root_finding.Root`).

The last two commute with the map of complex matrices to real ones of twice the size, [[Re, -Im], [Im, Re]], in which
complex matrices are passed: they are *doubled*.

References:
    G. W. Stewart, J. Sun, Matrix Perturbation Theory, 1990, sections IV.2 and V.2; N. J. Higham, Functions of Matrices,
    2008, sections 3.2 and 11.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from math import prod
from typing import Any, Final
from warnings import catch_warnings, simplefilter

import numpy as np

from accumulus.errors import ConvergenceError
from accumulus.frontends.numpy.complex_functions import doubled
from accumulus.frontends.record import record
from accumulus.programs.equations import Call, Equations, Floats
from accumulus.programs.root_finding import Root

#: Entries of a unit vector up to this magnitude do not determine its phase: smaller entries are rounding errors, and a
#: larger bound passes over entries that LAPACK makes real.
SMALLEST_ENTRY: Final = 1e-8
#: Nodes and weights on (0, 1) of Gauss's quadrature of log(1 + Y) = ∫ Y·(1 + t·Y)⁻¹ dt, which is Padé's approximant of
#: degree 8.
_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(8)[k] / 2.0 + shift for k, shift in ((0, 0.5), (1, 0.0)))
#: Maximum 1-norm of Y. The approximant is exact to double precision up to it; a smaller one takes more square roots.
NEAR_ONE: Final = 0.35
#: Maximum number of square roots: a matrix of doubles that needs more is singular.
MOST_SQUARE_ROOTS: Final = 60
#: Number of equations whose programs are cached: more take memory, fewer prepare programs again.
_MOST_CACHED: Final = 64


def _complex(parts: Any, *shape: int) -> Any:
    """Return complex numbers from real parts that are followed by imaginary parts."""
    half = len(parts) // 2
    return (parts[:half] + 1j * parts[half:]).reshape(shape)


def _halved(a: Any) -> Any:
    """Return the complex matrix of a doubled one."""
    m, n = (size // 2 for size in a.shape)
    return a[:m, :n] + 1j * a[m:, :n]


# Eigenvalues and roots of polynomials ---------------------------------------------------------------------------------


class HermitianEigenvalues(Call):
    """Ascending eigenvalues of a Hermitian n × n matrix, followed by eigenvectors in columns if `has_vectors`.

    Args:
        n: number of rows. The arguments are the real parts of all entries, then the imaginary parts.
        triangle: "L" or "U", the triangle that LAPACK reads.
        has_vectors: True for eigenvalues, and real and imaginary parts of the vectors.
    """

    def __init__(self, n: int, triangle: str, has_vectors: bool) -> None:
        super().__init__()
        self._n, self._triangle, self._has_vectors = n, triangle, has_vectors
        self.name = f"the {'eigenvectors' if has_vectors else 'eigenvalues'} of a Hermitian matrix"
        self.argument_count = 2 * n * n
        self.result_count = n + 2 * n * n * has_vectors

    def computed(self, x: Floats) -> Any:
        """Return LAPACK's results; NaN for matrices with NaN."""
        if not np.isfinite(x).all():
            return np.full(self.result_count, np.nan)
        lapack: Any = np.linalg
        matrix = _complex(x, self._n, self._n)
        if not self._has_vectors:
            return lapack.eigvalsh(matrix, self._triangle)
        values, vectors = lapack.eigh(matrix, self._triangle)
        is_large = np.abs(vectors) > SMALLEST_ENTRY
        places = self._n - 1 - is_large[::-1].argmax(axis=0) if self._triangle == "U" else is_large.argmax(axis=0)
        entry = vectors[places, np.arange(self._n)]  # as `_phased` chooses
        vectors = vectors * (np.conj(entry) / np.abs(entry) * np.where(entry.real < 0.0, -1.0, 1.0))
        return np.concatenate([values, vectors.real.ravel(), vectors.imag.ravel()])

    def _phased(self, vectors: Any, rows: Any) -> Any:
        """Return, for each vector, the row's entry at the first entry of the vector that is not negligible."""
        order = range(self._n) if self._triangle == "U" else reversed(range(self._n))
        result = rows[..., 0, :]
        for k in order:
            result = np.where(abs(vectors[k]) > SMALLEST_ENTRY, rows[..., k, :], result)
        return result

    def jacobian(self, columns: tuple[int, ...], x: Any) -> Any:
        """Return derivatives of the values, and of the vectors at constant phase."""
        n = self._n
        results = hermitian_eigenvalues(n, self._triangle, True).recorded(x)
        values, vectors = results[:n], _complex(results[n:], n, n)
        of_imaginary, i, j = np.unravel_index(columns, (2, n, n))
        left, right = np.conj(vectors)[i], np.where(of_imaginary, 1j, 1.0)[:, np.newaxis] * vectors[j]
        slopes = (left * right).real.T
        if not self._has_vectors:
            return slopes
        apart = ~np.eye(n, dtype=bool)
        gaps = np.where(apart, values - values[:, np.newaxis], 1.0)
        turned = vectors @ np.where(apart, left[:, :, np.newaxis] * right[:, np.newaxis] / gaps, 0.0)
        phases = self._phased(vectors, turned).imag / self._phased(vectors, vectors).real
        rows = (turned - 1j * phases[:, np.newaxis] * vectors).reshape(len(columns), n * n).T
        return np.concatenate([slopes, rows.real, rows.imag])


class PolynomialRoots(Call):
    """Roots of a polynomial of real or complex coefficients, highest power first, as NumPy orders them.

    Args:
        degree: number of roots.
        is_complex: True if the coefficients have imaginary parts, which follow the real ones.
        ascends: True for the order of `numpy.polynomial.polynomial.polyroots`, False for that of `numpy.roots`.
    """

    name = "the roots of a polynomial"

    def __init__(self, degree: int, is_complex: bool, ascends: bool) -> None:
        super().__init__()
        self._degree, self._is_complex, self._ascends = degree, is_complex, ascends
        self.argument_count = (degree + 1) * (1 + is_complex)
        self.result_count = 2 * degree

    def computed(self, x: Floats) -> Floats:
        """Return real and imaginary parts of the roots; NaN for a leading zero, and for infinite coefficients."""
        coefficients = _complex(x, -1) if self._is_complex else x
        if not coefficients[0] or not np.isfinite(x).all():
            return np.full(self.result_count, np.nan)
        find = np.polynomial.polynomial.polyroots if self._ascends else np.roots
        roots = find(coefficients[::-1] if self._ascends else coefficients)
        return np.concatenate([roots.real, np.imag(roots)])

    def jacobian(self, columns: tuple[int, ...], x: Any) -> Any:
        """Differentiate each root with respect to the coefficients."""
        degree = self._degree
        coefficients = _complex(x, -1) if self._is_complex else x
        z = _complex(self.recorded(x), degree)
        powers = [1.0 + 0.0 * z]
        for _ in range(degree):
            powers.append(powers[-1] * z)
        slope = np.polyval(coefficients[:-1] * np.arange(degree, 0, -1), z)
        of_imaginary, which = np.divmod(np.array(columns), degree + 1)
        slopes = [-powers[degree - k] / slope * (1j if i else 1.0) for i, k in zip(of_imaginary, which, strict=True)]
        result = np.stack(slopes, axis=-1)
        return np.concatenate([result.real, result.imag])


# Logarithms and powers ------------------------------------------------------------------------------------------------


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


class MatrixPower(Call):
    """A power or the logarithm of a real n × n matrix, or its derivative of some order.

    The results are the entries of an array of shape (n², n², …), with an axis for the entries of the value and one for
    each derivative.

    Args:
        n: number of rows.
        exponent: exponent of the principal power; None for the logarithm.
        is_doubled: True if the matrix stands for a complex one of half the size.
        order: order of the derivative.
    """

    def __init__(self, n: int, exponent: float | None, is_doubled: bool, order: int = 0) -> None:
        super().__init__()
        self._n, self._exponent, self._is_doubled, self._order = n, exponent, is_doubled, order
        self.name = f"scipy.linalg.{'logm' if exponent is None else 'fractional_matrix_power'}"
        self.argument_count = n * n
        self.result_count = (n * n) ** (order + 1)

    def _of(self, matrices: Any) -> Any:
        from scipy.linalg import expm

        found = logarithms(matrices)
        return found if self._exponent is None else expm(self._exponent * found)

    def computed(self, x: Floats) -> Any:
        """Compute the function of a block matrix for each tuple of directions; NaN for infinite entries.

        Raises:
            ConvergenceError: if values are complex.
        """
        n, a = self._n, x.reshape(self._n, self._n)
        if not np.isfinite(x).all():
            return np.full(self.result_count, np.nan)
        if self._is_doubled and not self._order:
            return doubled(self._of(_halved(a)))
        count, units = (n * n) ** self._order, np.eye(n * n).reshape(-1, n, n)
        blocks = np.broadcast_to(a, (count, n, n))
        for k, along in enumerate(np.indices((n * n,) * self._order).reshape(self._order, count)):
            beside = np.kron(np.eye(2**k), units[along])
            blocks = np.block([[blocks, beside], [np.zeros(blocks.shape), blocks]])
        return _real(self.name, self._of(blocks))[:, :n, -n:].reshape(count, n * n).T

    def jacobian(self, columns: tuple[int, ...], x: Any) -> Any:
        """Return entries of the derivative of the next order."""
        following = matrix_power(self._n, self._exponent, self._is_doubled, self._order + 1).recorded(x)
        return following.reshape(self.result_count, self.argument_count)[:, list(columns)]


def _real(name: str, result: Any) -> Any:
    """Return a result for a real matrix.

    Raises:
        ConvergenceError: if it is complex.
    """
    if np.iscomplexobj(result) and np.any(result.imag):
        raise ConvergenceError(
            f"{name} of this real matrix is complex, since it has a negative eigenvalue; expected a matrix without one,"
            f" or a matrix of complex numbers: {name}(A + 0j)"
        )
    return np.real(result)


# Square roots and Riccati equations -----------------------------------------------------------------------------------


def _riccati(x: Any, gain: Any, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> list[Any]:
    by_input = e.T @ x @ b + s
    return [a.T @ x @ e + e.T @ x @ a - by_input @ gain + q, r @ gain - by_input.T]


def _discrete_riccati(x: Any, gain: Any, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> list[Any]:
    by_input = a.T @ x @ b + s
    return [a.T @ x @ a - e.T @ x @ e - by_input @ gain + q, (r + b.T @ x @ b) @ gain - by_input.T]


#: Functions of `scipy.linalg` → residuals of the unknown matrix x, of the gain of a Riccati equation, and of
#: the arguments. With the gain as an unknown, nothing is divided.
RESIDUALS: Final[dict[str, Callable[..., list[Any]]]] = {
    "sqrtm": lambda x, gain, a: [x @ x - a],
    "solve_continuous_are": _riccati,
    "solve_discrete_are": _discrete_riccati,
}


def _matrices(row: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    ends = np.cumsum([0, *map(prod, shapes)])
    return [row[i:j].reshape(shape) for i, j, shape in zip(ends, ends[1:], shapes, strict=False)]


@lru_cache(maxsize=_MOST_CACHED)
def matrix_solution(name: str, shapes: tuple[tuple[int, ...], ...], is_doubled: bool) -> Root:
    """Return the function from entries of matrices to the solution of an equation, whose entries come first.

    Args:
        name: name in `scipy.linalg`.
        shapes: shapes of the arguments, all of them.
        is_doubled: True if each of them stands for a complex matrix of half the size.
    """
    n, inputs = shapes[0][0], shapes[1][1] if len(shapes) > 1 else 0

    def residual(y: Any, p: Any) -> Any:
        x, gain = _matrices(y, [(n, n), (inputs, n)])
        return np.concatenate([part.reshape(-1) for part in RESIDUALS[name](x, gain, *_matrices(p, shapes))])

    unknowns = n * n + inputs * n
    recording = record(residual, [np.zeros(unknowns), np.zeros(sum(map(prod, shapes)))])
    conditions = Equations(recording.tape, (unknowns,), name)
    return Root(partial(_found, name, shapes, is_doubled), conditions, unknowns, 0)


def _found(name: str, shapes: Sequence[tuple[int, ...]], is_doubled: bool, start: Floats, p: Floats) -> Any:
    """Return SciPy's solution for the matrices in a row.

    Raises:
        ConvergenceError: if it is complex, and the matrices are real.
    """
    import scipy.linalg

    matrices = _matrices(p, shapes)
    result = getattr(scipy.linalg, name)(*map(_halved, matrices) if is_doubled else matrices)
    x = doubled(result) if is_doubled else _real(f"scipy.linalg.{name}", result)
    if name == "sqrtm":
        return x
    a, b, _, r, e, s = matrices
    is_discrete = name == "solve_discrete_are"
    weight, from_state = (r + b.T @ x @ b, a) if is_discrete else (r, e)
    return np.concatenate([x.reshape(-1), np.linalg.solve(weight, b.T @ x @ from_state + s.T).reshape(-1)])


#: Functions, of which equal calls share one program.
hermitian_eigenvalues: Final = cache(HermitianEigenvalues)
polynomial_roots: Final = cache(PolynomialRoots)
matrix_power: Final = cache(MatrixPower)
