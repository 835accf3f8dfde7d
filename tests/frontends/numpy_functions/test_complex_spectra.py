"""Eigenvalues of Hermitian matrices and roots of polynomials, against NumPy, differences and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from differences import differences

import accumulus as acc
from accumulus.errors import TraceError

POINT = np.array([0.3, 0.7, -0.4])
PAULI = np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])


def hermitian(x, n):
    """A matrix that is not symmetric in either part before the conjugate is added."""
    rows, columns = np.indices((n, n))
    general = np.sin((rows + 1) * x[0] + columns * x[1]) + 1j * np.cos(rows * x[1] + columns * x[2])
    return general + np.conj(general).T + np.diag(np.arange(1.0, n + 1.0))


def two_level(x):
    return sum((x[k] * PAULI[k] for k in range(3)), np.zeros((2, 2), complex))


def flat(z):
    return np.concatenate([np.ravel(z.real), np.ravel(z.imag)])


#: Functions of a vector of three numbers.
CASES = {
    **{f"eigvalsh of {n} rows": (lambda x, n=n: np.linalg.eigvalsh(hermitian(x, n))) for n in (1, 2, 3, 5)},
    "eigvalsh, upper": lambda x: np.linalg.eigvalsh(np.triu(hermitian(x, 3)), "U"),
    "eigvalsh of a stack": lambda x: np.linalg.eigvalsh(np.stack([hermitian(x, 3), hermitian(2.0 * x, 3)])),
    **{f"vectors of {n} rows": (lambda x, n=n: flat(np.linalg.eigh(hermitian(x, n))[1])) for n in (2, 3, 4)},
    "vectors, upper": lambda x: flat(np.linalg.eigh(hermitian(x, 3), "U")[1]),
    "vectors of a block": lambda x: abs(
        np.linalg.eigh(np.block([[np.full((1, 1), x[0] + 0j), np.zeros((1, 2))], [np.zeros((2, 1)), two_level(x)]]))[1]
    ),
    "scipy, a part": lambda x: scipy.linalg.eigh(hermitian(x, 4), eigvals_only=True, subset_by_index=[1, 2]),
    "scipy, of two": lambda x: scipy.linalg.eigvalsh(hermitian(x, 3), np.diag([1.0, 2.0, 3.0]) + 0.1 * x[0] ** 2),
    "scipy, vectors of two": lambda x: abs(scipy.linalg.eigh(hermitian(x, 3), np.diag([1.0, 2.0, 3.0 + x[1]]))[1]),
    "scipy, upper vectors": lambda x: flat(scipy.linalg.eigh(hermitian(x, 2), lower=False)[1]),
    "scipy, upper": lambda x: scipy.linalg.eigvalsh(hermitian(x, 3), lower=False),
    "roots": lambda x: flat(np.roots(np.append(x, [2.0, 1.0]))),
    "real roots": lambda x: np.sort(np.roots(np.stack([1.0 + 0.0 * x[0], x[0], -2.0 + x[1], x[2] - 0.2])).real),
    "roots of complex coefficients": lambda x: flat(np.roots(np.append(x + 1j * x[::-1], 1.0))),
    "roots below leading zeros": lambda x: flat(np.roots(np.append([0.0, 0.0], x))),
    "roots, ascending": lambda x: flat(np.polynomial.polynomial.polyroots(np.append(x, [2.0, 1.0]))),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    function = CASES[name]
    expected = differences(function, POINT)
    for target in ("llvm", "numpy"):
        jacobian = acc.jacobian(function, target=target)
        np.testing.assert_allclose(jacobian(POINT), expected, atol=1e-8 * (1.0 + abs(expected).max()))
    np.testing.assert_array_equal(jacobian.batch(np.stack([POINT, 1.1 * POINT]))[0], jacobian(POINT))


@pytest.mark.parametrize("name", ["eigvalsh of 2 rows", "eigvalsh of 3 rows", "vectors of 3 rows", "roots"])
def test_second_derivatives(name):
    def weighted(x):
        values = CASES[name](x)
        return values @ np.cos(np.arange(len(values)))

    gradient, hessian = acc.gradient(weighted), acc.hessian(weighted)
    expected = differences(gradient, POINT, 1e-3)
    np.testing.assert_allclose(hessian(POINT), expected, atol=1e-6 * abs(expected).max())


def test_closed_forms():
    gap = acc.gradient(lambda x: np.linalg.eigvalsh(np.kron(np.diag([1.0, 3.0]), two_level(x)))[3])
    np.testing.assert_allclose(gap(POINT), 3.0 * POINT / np.linalg.norm(POINT), rtol=1e-13)

    def thirds(a):  # the roots of z³ = a, whose third derivatives are known
        return flat(np.roots([1.0, 0.0, 0.0, -a]))

    third = acc.jacobian(acc.jacobian(acc.jacobian(thirds)))
    expected = thirds(2.0) / 3.0 * (1.0 / 3.0 - 1.0) * (1.0 / 3.0 - 2.0) / 8.0
    np.testing.assert_allclose(third(2.0), expected, rtol=1e-12, atol=1e-14)


def test_equal_eigenvalues_have_the_derivative_of_their_sum():
    def free_energy(x):
        return np.sum(np.exp(np.linalg.eigvalsh(np.kron(np.eye(2), two_level(x)))))

    length = np.linalg.norm(POINT)
    np.testing.assert_allclose(acc.gradient(free_energy)(POINT), 4.0 * np.sinh(length) * POINT / length, rtol=1e-12)
    assert not acc.jacobian(lambda x: np.linalg.eigvalsh(two_level(x)))(np.zeros(3)).any()


@pytest.mark.parametrize("n", [3, 6])
def test_phases_are_those_of_lapack(n):
    actual = acc.compile(lambda x: flat(np.linalg.eigh(hermitian(x, n))[1]))(POINT)
    np.testing.assert_allclose(actual, flat(np.linalg.eigh(hermitian(POINT, n))[1]), rtol=0, atol=1e-14)


@pytest.mark.filterwarnings("ignore::accumulus.errors.NaNWarning")
def test_multiple_roots_and_refusals():
    assert not np.isfinite(acc.jacobian(lambda a: np.roots([1.0, -2.0, a]).real, check=False)(1.0)).any()
    assert np.isnan(acc.compile(lambda a: np.roots(np.stack([a, 2.0, 1.0])).real, check=False)(0.0)).all()
    with pytest.raises(TraceError, match="leave it out"):
        acc.jacobian(lambda a: np.roots([1.0, a, 0.0]).real)(1.0)
    with pytest.raises(TraceError, match="real numbers only"):
        acc.jacobian(lambda x: scipy.linalg.eigvalsh(two_level(x), two_level(x)))(POINT)
    with pytest.raises(ValueError, match="UPLO"):
        acc.jacobian(lambda x: np.linalg.eigvalsh(two_level(x), "M"))(POINT)
