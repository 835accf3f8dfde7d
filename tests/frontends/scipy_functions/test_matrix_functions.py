"""Functions of matrices and matrix equations of `scipy.linalg`, against SciPy, differences and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as linalg
from differences import differences
from refusals import reason

import accumulus as acc
from accumulus.errors import ConvergenceError, TraceError
from accumulus.programs.matrix_functions import logarithms

GENERATOR = np.random.default_rng(5)
A = 0.6 * GENERATOR.normal(size=(2, 2))
B = GENERATOR.normal(size=(2, 2))
POSITIVE = A @ A.T + np.eye(2)
COST = np.array([[2.0, 0.3], [0.3, 1.0]])
UNIT = np.eye(2)

#: Functions of a matrix, and a point. The imaginary part of a complex argument is constant.
CASES = {
    **{name: (getattr(linalg, name), POSITIVE) for name in ("sqrtm", "logm", "cosm", "sinm", "tanm")},
    **{name: (getattr(linalg, name), POSITIVE) for name in ("coshm", "sinhm", "tanhm")},
    "signm": (linalg.signm, B),
    "power": (lambda a: linalg.fractional_matrix_power(a, 0.3), POSITIVE),
    "whole power": (lambda a: linalg.fractional_matrix_power(a, -2), POSITIVE),
    "exponent": (lambda a: linalg.fractional_matrix_power(POSITIVE, a[0, 0]), A),
    "frechet": (lambda a: linalg.expm_frechet(a, a.T @ a, compute_expm=False), A),
    "sylvester": (lambda a: linalg.solve_sylvester(a, POSITIVE, B @ a), A),
    "wide sylvester": (lambda a: linalg.solve_sylvester(a, np.eye(3), np.ones((2, 3))), POSITIVE),
    "lyapunov": (lambda a: linalg.solve_continuous_lyapunov(a, a @ a), POSITIVE),
    "discrete lyapunov": (lambda a: linalg.solve_discrete_lyapunov(a, a + UNIT), A),
    "riccati": (lambda a: linalg.solve_continuous_are(a, B, COST, POSITIVE), A),
    "riccati, one input": (lambda a: linalg.solve_continuous_are(A, a[:, :1], a @ a.T + UNIT, UNIT[:1, :1]), B),
    "generalised riccati": (
        lambda a: linalg.solve_continuous_are(a, B, COST, POSITIVE, e=UNIT + 0.1 * a, s=0.1 * a),
        A,
    ),
    "discrete riccati": (lambda a: linalg.solve_discrete_are(a, B[:, :1], COST, UNIT[:1, :1]), A),
    "generalised discrete riccati": (
        lambda a: linalg.solve_discrete_are(a, B, COST, POSITIVE, e=UNIT + 0.1 * a, s=0.1 * a),
        A,
    ),
    "complex expm": (lambda a: linalg.expm(a + 1j * B), A),
    "complex sqrtm": (lambda a: linalg.sqrtm(a + 1j * B), POSITIVE),
    "complex logm": (lambda a: linalg.logm(a + 1j * B), POSITIVE),
    "complex sinm": (lambda a: linalg.sinm(a + 1j * B), A),
    "complex sylvester": (lambda a: linalg.solve_sylvester(a + 1j * B, POSITIVE, B - 1j * a), A),
    "complex lyapunov": (lambda a: linalg.solve_continuous_lyapunov(a + 1j * B, UNIT + 1j * a), POSITIVE),
    "complex discrete lyapunov": (lambda a: linalg.solve_discrete_lyapunov(a + 0.2j * B, UNIT + 1j * a), A),
    "complex riccati": (lambda a: linalg.solve_continuous_are(a + 1j * B, B - 1j * A, COST + 0j, UNIT), A),
    "complex discrete riccati": (lambda a: linalg.solve_discrete_are(a + 1j * B, B - 1j * A, COST + 0j, UNIT), A),
    "stack": (lambda a: linalg.sqrtm(np.stack([a, a @ a])), POSITIVE),
    "stack of complex": (lambda a: linalg.sqrtm(np.stack([a, a + 1j * B])), POSITIVE),
}


def real(name):
    function, point = CASES[name]

    def flat(a):
        z = function(a)
        return np.concatenate([np.ravel(z.real), np.ravel(z.imag)]) if np.iscomplexobj(z) else np.ravel(z)

    return flat, point


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    function, point = real(name)
    expected = differences(function, point, 1e-3)
    jacobian = acc.jacobian(function, target="numpy")
    np.testing.assert_allclose(jacobian(point), expected, atol=1e-8 * (1.0 + abs(expected).max()))
    np.testing.assert_array_equal(jacobian.batch(np.stack([point, 1.01 * point]))[0], jacobian(point))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        "sqrtm",
        "logm",
        "signm",
        "power",
        "sylvester",
        "discrete lyapunov",
        "riccati",
        "discrete riccati",
        "complex logm",
    ],
)
def test_second_derivatives_in_compiled_code(name):
    function, point = real(name)

    def weighted(a):
        values = function(a)
        return values @ np.cos(np.arange(len(values)))

    expected = differences(acc.gradient(weighted), point, 1e-3)
    np.testing.assert_allclose(acc.hessian(weighted)(point), expected, atol=1e-8 * (1.0 + abs(expected).max()))


def test_closed_forms():
    by_log = acc.gradient(lambda a: np.trace(linalg.logm(a)))
    np.testing.assert_allclose(by_log(POSITIVE), np.linalg.inv(POSITIVE).T, rtol=1e-12)
    larger = np.diag([1.0, 2.0, 3.0, 4.0, 5.0]) + 0.1
    by_root = acc.gradient(lambda a: np.trace(linalg.sqrtm(a)))
    np.testing.assert_allclose(by_root(larger), 0.5 * np.linalg.inv(linalg.sqrtm(larger)).T, rtol=1e-11)
    # d tr(x)/dq of a·x + x·aᵀ = q is the solution of the adjoint equation
    gradient = acc.gradient(lambda q: np.trace(linalg.solve_continuous_lyapunov(larger, q)))
    adjoint = linalg.solve_continuous_lyapunov(larger.T, np.eye(5))
    np.testing.assert_allclose(gradient(larger), adjoint, rtol=1e-12, atol=1e-14)
    third = acc.jacobian(acc.jacobian(acc.jacobian(lambda x: linalg.logm(np.eye(2) * x)[0, 0])))
    np.testing.assert_allclose(third(2.0), 0.25, rtol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 1e8, 1e-8])
def test_logarithms_are_those_of_scipy(scale):
    for matrix in (POSITIVE, linalg.expm(3.0 * (B - B.T)), linalg.expm(np.triu(5.0 * B)), POSITIVE + 1j * B):
        expected = linalg.logm(scale * matrix)
        np.testing.assert_allclose(logarithms(scale * matrix), expected, atol=1e-13 * abs(expected).max())
    assert np.isnan(logarithms(np.diag([1.0, 0.0]))).all()


def test_roots_of_larger_systems_have_second_derivatives():
    """The conditions at a root are solved as one equation, whose derivatives need no elimination."""
    from scipy.optimize import fsolve

    def solution(p):
        return np.sum(fsolve(lambda y: y**3 + y - p * np.arange(1.0, 6.0), np.ones(5), xtol=1e-14) ** 2)

    def exact(p):
        return sum(acc.implicit(lambda y, q: y**3 + y - q, steps=30)(1.0, p * k) ** 2 for k in range(1, 6))

    np.testing.assert_allclose(acc.hessian(solution)(0.7), acc.hessian(exact)(0.7), rtol=1e-9)


def test_refusals_and_errors():
    for name in ("sqrtm", "logm"):
        with pytest.raises(ConvergenceError, match="has a negative eigenvalue"):
            acc.jacobian(getattr(linalg, name), check=False)(-POSITIVE)
    cases = {
        "funm": lambda a: linalg.funm(a, np.exp),
        "at most 32 rows": lambda a: linalg.sqrtm(np.kron(np.eye(20), a)),
        "at most 16 rows": lambda a: linalg.logm(np.kron(np.eye(10), a)),
        "at most 1,024 unknowns": lambda a: linalg.solve_sylvester(np.eye(40) * a[0, 0], np.eye(40), np.eye(40)),
        "disp.*recorded: A": lambda a: linalg.sqrtm(a, disp=False),
    }
    for words, function in cases.items():
        with pytest.raises(TraceError, match=reason(words)):
            acc.jacobian(function)(POSITIVE)
    with pytest.raises(np.linalg.LinAlgError, match="equal length"):
        acc.jacobian(lambda a: linalg.cosm(a[:1]), check=False)(POSITIVE)
