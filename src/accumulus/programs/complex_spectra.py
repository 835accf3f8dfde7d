"""Eigenvalues and roots that NumPy computes in compiled programs, by complex numbers, with derivatives of any order.

Each is an opaque function of real numbers, the real and imaginary parts. Its derivative is a formula in its own
results, which is recorded in turn, so that higher derivatives need no further rule.

* Hermitian matrices: dλ_k = v_kᴴ·dA·v_k, and v_k turns towards v_j by v_jᴴ·dA·v_k / (λ_k - λ_j). A vector is determined
  up to its phase. As in LAPACK, its first entry is real (its last one if the upper triangle is read), and stays so.
* Roots z of p(z) = Σ c_k·φ_k(z): dz = -Σ φ_k(z)·dc_k / p′(z).

For equal eigenvalues, derivatives of values belong to the computed vectors: their sum has the right derivative. Those
of vectors, and of multiple roots, are infinite or NaN.

Source: G. W. Stewart, J. Sun, Matrix Perturbation Theory, 1990, sections IV.2 and V.2.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from accumulus.programs.equations import Call, Floats

#: Entries of a unit vector up to this magnitude do not determine its phase: smaller entries are rounding errors, and a
#: larger bound passes over entries that LAPACK makes real.
SMALLEST_ENTRY: Final = 1e-8


def _complex(parts: Any, *shape: int) -> Any:
    """Return complex numbers from real parts that are followed by imaginary parts."""
    half = len(parts) // 2
    return (parts[:half] + 1j * parts[half:]).reshape(shape)


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

    def computed(self, x: Floats) -> Floats:
        """Return LAPACK's results; NaN for matrices with NaN."""
        n = self._n
        if not np.isfinite(x).all():
            return np.full(self.result_count, np.nan)
        matrix = _complex(x, n, n)
        lapack: Any = np.linalg
        if not self._has_vectors:
            values: Floats = lapack.eigvalsh(matrix, self._triangle)
            return values
        values, vectors = lapack.eigh(matrix, self._triangle)
        entry = self._phased(vectors, vectors)
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
        results = hermitian(n, self._triangle, True).recorded(x)
        values, vectors = results[:n], _complex(results[n:], n, n)
        of_imaginary, i, j = np.unravel_index(columns, (2, n, n))
        factors = np.where(of_imaginary, 1j, 1.0)
        left, right = np.conj(vectors)[i], factors[:, np.newaxis] * vectors[j]
        slopes = (left * right).real.T
        if not self._has_vectors:
            return slopes
        apart = ~np.eye(n, dtype=bool)
        gaps = np.where(apart, values - values[:, np.newaxis], 1.0)
        turning = np.where(apart, left[:, :, np.newaxis] * right[:, np.newaxis] / gaps, 0.0)
        turned = vectors @ turning
        phases = self._phased(vectors, turned).imag / self._phased(vectors, vectors).real
        turned = turned - 1j * phases[:, np.newaxis] * vectors
        rows = turned.reshape(len(columns), n * n).T
        return np.concatenate([slopes, rows.real, rows.imag])


@cache
def hermitian(n: int, triangle: str, has_vectors: bool) -> HermitianEigenvalues:
    """Return the function, of which equal calls share one program."""
    return HermitianEigenvalues(n, triangle, has_vectors)


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
        slope: Any = 0.0
        for k in range(degree):
            slope = slope + (degree - k) * coefficients[k] * powers[degree - k - 1]
        of_imaginary, which = np.divmod(np.array(columns), degree + 1)
        slopes = [-powers[degree - k] / slope * (1j if i else 1.0) for i, k in zip(of_imaginary, which, strict=True)]
        result = np.stack(slopes, axis=-1)
        return np.concatenate([result.real, result.imag])


@cache
def polynomial_roots(degree: int, is_complex: bool, ascends: bool) -> PolynomialRoots:
    """Return the function, of which equal calls share one program."""
    return PolynomialRoots(degree, is_complex, ascends)
