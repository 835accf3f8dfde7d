"""Linear systems without exchanges of rows: definite matrices alone, with right derivatives, as accurate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import accumulus as acc
from accumulus.arrays import jacobian as of_arrays
from accumulus.graph import exchanges
from accumulus.graph.exchanges import without_exchanges
from accumulus.programs import derivation, graphs
from accumulus.tape.operations import BY_NAME

SELECT = BY_NAME["select"].code


def pendulums(x):
    """Mass matrix of a chain of pendulums, and forces."""
    link = np.arange(len(x))
    hanging = len(x) - np.maximum(link[:, None], link[None, :])
    return hanging * np.cos(x[:, None] - x[None, :]), np.sin(x)


def normal_equations(x):
    slopes = x.reshape(6, 4)
    return slopes.T @ slopes, slopes.sum(axis=0)


def damped(x):
    slopes = x.reshape(3, 4)
    return slopes.T @ slopes + np.eye(4), slopes.sum(axis=0)


def covariance(x):
    """A matrix that is symmetric only up to rounding, since its products are multiplied out in another order."""
    before, step = np.diag(1.0 + x[:4] ** 2), np.eye(4) + np.diag(x[4:7], 1)
    return step @ before @ step.T + np.eye(4), x[:4]


def process(x):
    apart = x[:5, None] - x[None, :5]
    return np.exp(-(apart**2)) + 0.1 * np.eye(5), np.sin(x[:5])


SLOPES = np.random.default_rng(7).normal(size=(9, 4))


def ridge(x):
    """A matrix with constant entries beside the diagonal."""
    return SLOPES.T @ SLOPES + np.diag(np.exp(x)), SLOPES.T @ np.sin(np.arange(9.0))


def dominant(x):
    """Not symmetric; the diagonal of each column exceeds the sum of its other entries."""
    rates = x.reshape(4, 4) ** 2
    return np.eye(4) + np.diag(rates.sum(axis=0)) - rates, rates[0]


def indefinite_inside(x):
    """A negative definite block beside a positive definite one: no pivot changes its sign."""
    matrix, side = damped(x)
    return np.block([[matrix, np.zeros((4, 1))], [np.zeros((1, 4)), -np.ones((1, 1))]]), np.append(side, x[0])


#: Matrices that need no exchanges, sizes of x, and factors by which operations of value and Jacobian fall at least.
DEFINITE = {
    pendulums: (4, 0.9),
    normal_equations: (24, 0.9),
    damped: (12, 0.75),
    covariance: (7, 0.9),
    process: (5, 0.75),
    ridge: (4, 0.9),
    dominant: (16, 0.8),
    indefinite_inside: (12, 0.8),
}


def dense(x):
    return x[:16].reshape(4, 4) + 4.0 * np.eye(4), x[16:]


def symmetric(x):
    half = x[:16].reshape(4, 4)
    return half + half.T + 4.0 * np.eye(4), x[16:]


def masses(x):
    """Positive definite for positive masses x[4:]."""
    hanging, link = np.cumsum(x[:3:-1])[::-1], np.arange(4)
    return hanging[np.maximum(link[:, None], link[None, :])] * np.cos(x[:4, None] - x[None, :4]), np.sin(x[:4])


def resonance(x):
    """Stiffness minus the squared frequency x[0] times the mass: definite for low frequencies."""
    return 2.0 * np.eye(4) - np.eye(4, k=1) - np.eye(4, k=-1) - x[0] ** 2 * np.diag(1.0 + x[1:5] ** 2), np.ones(4)


def implicit_step(x):
    """Not symmetric; no row is exchanged near x, but some are far from it."""
    return np.eye(4) - 0.1 * x.reshape(4, 4), x[:4]


#: Matrices that are definite, or need no exchanges, near x alone, and x.
OTHERS = {
    dense: np.random.default_rng(1).normal(size=20) / 4.0,
    symmetric: np.random.default_rng(2).normal(size=20) / 4.0,
    masses: np.array([0.3, -0.5, 0.8, 1.1, 1.0, 2.0, 3.0, 1.5]),
    resonance: np.array([0.1, 0.5, -0.3, 0.2, 0.4]),
    implicit_step: np.random.default_rng(3).normal(size=16),
}


def solving(system):
    return lambda x: np.linalg.solve(*system(x))


def parts(system):
    return lambda x: np.concatenate([np.ravel(each) for each in system(x)])


def by_theorem(system, x):
    """Value and Jacobian of the solution y of A y = b: A dy = db - dA y, where A and b are differentiated alone."""
    matrix, side = system(x)
    by_x = acc.jacobian(parts(system), cache=False)(x)
    y = np.linalg.solve(matrix, side)
    of_matrix = by_x[: matrix.size].reshape(*matrix.shape, len(x))
    return y, np.linalg.solve(matrix, by_x[matrix.size :] - np.einsum("ijk,j->ik", of_matrix, y))


@pytest.mark.parametrize("system", DEFINITE)
def test_definite_systems_are_shorter_with_right_derivatives(system, monkeypatch):
    size, factor = DEFINITE[system]
    draw = np.random.default_rng(0)
    x = draw.normal(size=size)
    jacobian = acc.value_and_jacobian(solving(system), cache=False)
    program = jacobian.compile(x)
    assert program.report().theorem == "positive definite matrices need no exchanges of rows"
    for point in [x, *draw.normal(size=(4, size)), np.abs(x), 3.0 * x]:
        y, by_x = by_theorem(system, point)
        condition = np.linalg.cond(system(point)[0])
        value, result = jacobian(point)
        np.testing.assert_allclose(value, y, rtol=1e-14 * condition, atol=1e-14 * condition * np.abs(y).max())
        bound = 1e-13 * condition * np.abs(by_x).max()
        np.testing.assert_allclose(result, by_x, rtol=1e-13 * condition, atol=bound)
    monkeypatch.setattr(graphs, "without_exchanges", lambda *_: None)
    assert program.operations <= factor * acc.value_and_jacobian(solving(system), cache=False).compile(x).operations


@pytest.mark.parametrize("system", OTHERS)
def test_other_systems_keep_their_exchanges(system):
    x = OTHERS[system]
    jacobian = acc.value_and_jacobian(solving(system), cache=False)
    assert not jacobian.compile(x).report().theorem
    # a point at which rows are exchanged, or a pivot would be 0 without
    for point in (x, np.zeros_like(x), np.round(4.0 * x)):
        if np.linalg.cond(system(point)[0]) < 1e8:
            y, by_x = by_theorem(system, point)
            value, result = jacobian(point)
            np.testing.assert_allclose(value, y, rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(result, by_x, rtol=1e-10, atol=1e-10)


def test_all_kinds_of_first_derivatives_are_shorter(monkeypatch):
    x, f = np.array([0.3, -0.5, 0.8, 1.1]), solving(pendulums)
    kinds = {
        "value": (lambda: acc.compile(f, cache=False), (x,)),
        "gradient": (lambda: acc.gradient(lambda x: f(x).sum(), cache=False), (x,)),
        "product": (lambda: acc.jvp(f, cache=False), ((x,), (x,))),
        "transposed product": (lambda: acc.jacobian(lambda x: x @ f(x), cache=False), (x,)),
        "inverse": (lambda: acc.jacobian(lambda x: np.linalg.inv(pendulums(x)[0]), cache=False), (x,)),
    }
    counts = {name: make().compile(*at).operations for name, (make, at) in kinds.items()}
    results = {name: make()(*at) for name, (make, at) in kinds.items()}
    monkeypatch.setattr(graphs, "without_exchanges", lambda *_: None)
    for name, (make, at) in kinds.items():
        assert counts[name] < 0.8 * make().compile(*at).operations, name
        np.testing.assert_allclose(np.ravel(results[name]), np.ravel(make()(*at)), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (lambda a: np.linalg.slogdet(a)[1], lambda a: np.linalg.inv(a).T),
        (np.linalg.det, lambda a: np.linalg.det(a) * np.linalg.inv(a).T),
    ],
    ids=["logarithm", "determinant"],
)
def test_determinants_and_their_logarithms(function, slope, monkeypatch):
    """Their derivatives by the matrix are its inverse, transposed, times the determinant."""
    draw = np.random.default_rng(4)
    x = draw.normal(size=12)
    gradient = acc.gradient(lambda x: function(damped(x)[0]), cache=False)
    program = gradient.compile(x)
    assert program.report().theorem
    for point in (x, *draw.normal(size=(3, 12))):
        by_x = acc.jacobian(lambda x: damped(x)[0].ravel(), cache=False)(point)
        np.testing.assert_allclose(gradient(point), slope(damped(point)[0]).ravel() @ by_x, rtol=1e-11, atol=1e-12)
    monkeypatch.setattr(graphs, "without_exchanges", lambda *_: None)
    shorter = acc.gradient(lambda x: function(damped(x)[0]), cache=False).compile(x)
    assert program.operations < 0.8 * shorter.operations


def test_second_derivatives(monkeypatch):
    """Those of the energy b A⁻¹ b / 2, and products with them, against differences of gradients."""
    x, direction = np.array([0.3, -0.5, 0.8, 1.1]), np.array([1.0, -2.0, 0.5, 0.3])

    def energy(x):
        matrix, side = pendulums(x)
        return 0.5 * side @ np.linalg.solve(matrix, side) + np.linalg.slogdet(matrix)[1]

    hessian, product = acc.hessian(energy, cache=False), acc.hvp(energy, cache=False)
    counts = hessian.compile(x).operations, product.compile((x,), (direction,)).operations
    for point in (x, np.zeros(4), 3.0 * x):
        gradient = acc.gradient(energy, cache=False)
        steps = 1e-5 * np.eye(4)
        numeric = np.array([(gradient(point + step) - gradient(point - step)) / 2e-5 for step in steps])
        np.testing.assert_allclose(hessian(point), numeric, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(np.ravel(product((point,), (direction,))), numeric @ direction, rtol=1e-6, atol=1e-7)
    monkeypatch.setattr(graphs, "without_exchanges", lambda *_: None)
    before = acc.hessian(energy, cache=False).compile(x), acc.hvp(energy, cache=False).compile((x,), (direction,))
    assert counts[0] < 0.8 * before[0].operations
    assert counts[1] < 0.8 * before[1].operations


def test_bodies_of_loops(monkeypatch):
    angles = np.random.default_rng(6).normal(size=(300, 4))
    results = []
    for search in (of_arrays.without_exchanges, lambda *_: None):
        monkeypatch.setattr(of_arrays, "without_exchanges", search)
        mapped = acc.jacobian(lambda x: acc.map(solving(pendulums), x), sparse="csr", cache=False)
        results.append((mapped(angles), mapped.report().operations))
    (one, shorter), (other, before) = results
    np.testing.assert_allclose(one.toarray(), other.toarray(), rtol=1e-12, atol=1e-13)
    assert shorter < 0.75 * before


def test_exchanges_that_matter_stay():
    def sorted_by_size(x):
        swaps = np.abs(x[0]) < np.abs(x[1])
        return np.array([np.where(swaps, x[1], x[0]), np.where(swaps, x[0], x[1])]) ** 3

    x = np.array([2.0, 1.0])
    assert without_exchanges(acc.trace(sorted_by_size, x).tape, x[np.newaxis]) is None
    np.testing.assert_allclose(acc.jacobian(sorted_by_size, cache=False)(np.array([1.0, 2.0])), [[0, 12], [3, 0]])


def test_wrong_programs_are_refused(monkeypatch):
    """A mistake in the search for exchanges is noticed by the verification."""

    def mixed(x):
        # an exchange, and a choice that looks like one
        y = solving(pendulums)(x)
        larger = np.abs(x[0]) < np.abs(x[1])
        return y * (np.where(larger, x[0], x[1]) - 2.0 * np.where(larger, x[1], x[0]))

    agreed, check = [], derivation.has_results_of
    monkeypatch.setattr(exchanges, "_agree", lambda *_: True)
    monkeypatch.setattr(exchanges, "_is_symmetric", lambda *_: True)
    monkeypatch.setattr(exchanges, "_keep_signs", lambda _: True)
    monkeypatch.setattr(derivation, "has_results_of", lambda *args: agreed.append(check(*args)) or agreed[-1])
    x = np.array([0.3, -0.5, 0.8, 1.1])
    jacobian = acc.jacobian(mixed, cache=False)
    assert not jacobian.compile(x).report().theorem
    assert agreed == [False]


def test_constants_of_matrices():
    """Entries beside the diagonal are constants, as are the first factors, which are folded."""
    draw = np.random.default_rng(1)
    slopes, side = draw.normal(size=(20, 6)), draw.normal(size=20)

    def fitted(w):
        return np.linalg.solve(slopes.T @ slopes + np.exp(w) * np.eye(6), slopes.T @ side)

    def loss(w):
        return np.sum((slopes @ fitted(w) - side) ** 2)

    tape = acc.trace(fitted, 0.1).tape
    assert without_exchanges(tape, np.array([[0.1]])) is not None
    slope = acc.gradient(loss, cache=False)
    second = (slope(0.1 + 1e-5) - slope(0.1 - 1e-5)) / 2e-5
    np.testing.assert_allclose(acc.hessian(loss, cache=False)(0.1), second, rtol=1e-6)


def test_pivots_that_change_their_sign_are_noticed():
    """Without this test, the rounding at the few points of the verification alone would decide."""
    x = OTHERS[resonance]
    tape = acc.trace(solving(resonance), x).tape
    assert without_exchanges(tape, x[np.newaxis]) is None
    low = acc.trace(lambda x: solving(resonance)(0.1 * np.tanh(x)), x).tape
    made = without_exchanges(low, x[np.newaxis])
    assert made is not None
    assert SELECT not in made.codes


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_declared_definite_matrices_are_implicit(n):
    """`scipy.linalg.solve(…, assume_a="pos")` of any size; second derivatives, too."""
    draw = np.random.default_rng(n)

    def system(x):
        slopes = x.reshape(n + 1, n)
        return slopes.T @ slopes + np.eye(n), slopes.sum(axis=0)

    def solution(x):
        return scipy.linalg.solve(*system(x), assume_a="pos")

    x = draw.normal(size=n * (n + 1))
    y, by_x = by_theorem(system, x)
    value, result = acc.value_and_jacobian(solution, cache=False)(x)
    np.testing.assert_allclose(value, y, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(result, by_x, rtol=1e-11, atol=1e-12)
    weights = draw.normal(size=n)
    hessian = acc.hessian(lambda x: weights @ solution(x), cache=False)(x)
    gradient = acc.gradient(lambda x: weights @ solution(x), cache=False)
    steps = 1e-5 * np.eye(len(x))
    numeric = [(gradient(x + step) - gradient(x - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(hessian, numeric, rtol=1e-6, atol=1e-7)


def test_long_functions_alone_are_rewritten_once(monkeypatch):
    """Only derivatives gain from a function that is rewritten before it is differentiated."""
    rewritten = []
    monkeypatch.setattr(graphs, "LONG", 10)
    monkeypatch.setattr(graphs, "shorter_recording", lambda *args, **_: rewritten.append(args) and None)
    f = solving(pendulums)
    acc.compile(f, cache=False).compile(np.ones(4))
    assert not rewritten
    acc.jacobian(f, cache=False).compile(np.ones(4))
    assert rewritten
