"""Matrices that are semidefinite by their form: their systems have no exchanges of rows, and right derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import accumulus as acc
from accumulus import Tape
from accumulus.programs import graphs
from accumulus.tape import program as sizes
from accumulus.tape import systems
from accumulus.tape.definite import is_semidefinite
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


def indefinite_inside(x):
    """A negative definite block beside a positive definite one: no pivot changes its sign."""
    matrix, side = damped(x)
    return np.block([[matrix, np.zeros((4, 1))], [np.zeros((1, 4)), -np.ones((1, 1))]]), np.append(side, x[0])


#: Matrices that need no exchanges, sizes of x, and factors by which operations of value and Jacobian fall at least.
DEFINITE = {
    pendulums: (4, 0.9),
    normal_equations: (24, 0.95),
    damped: (12, 0.75),
    covariance: (7, 0.9),
    process: (5, 0.75),
    ridge: (4, 0.9),
    indefinite_inside: (12, 0.8),
}


def dominant(x):
    """Not symmetric; the diagonal of each column exceeds the sum of its other entries."""
    rates = x.reshape(4, 4) ** 2
    return np.eye(4) + np.diag(rates.sum(axis=0)) - rates, rates[0]


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


def difference(x):
    """A Gram matrix less another."""
    one, other = x[:12].reshape(3, 4), x[12:24].reshape(3, 4)
    return one.T @ one - other.T @ other + np.eye(4), x[:4]


def weighted(x):
    """A Gram matrix with weights of any sign."""
    slopes = x[:20].reshape(5, 4)
    return slopes.T @ (x[20:25, None] * slopes) + np.eye(4), x[:4]


def apart(x):
    """A kernel that is none: its differences are not of one value for each row."""
    both = np.stack([x[:4], x[4:8]])
    return np.exp(-((both[0][:, None] - both[1][None, :]) ** 2)) + np.exp(-((both[1][:, None] - both[0]) ** 2)), x[:4]


def growing(x):
    """exp(+d²) is no correlation."""
    return np.exp((x[:4, None] - x[None, :4]) ** 2) + 0.1 * np.eye(4), x[:4]


def lifted(x):
    """Cosines of differences, less a constant."""
    return np.cos(x[:4, None] - x[None, :4]) + np.eye(4) - 0.9, x[:4]


def spread(x):
    """A kernel of which the rate has any sign."""
    return np.exp(-x[4] * (x[:4, None] - x[None, :4]) ** 2) + 0.1 * np.eye(4), x[:4]


#: Matrices that are definite, or need no exchanges, near x alone, or for other reasons than their form; and x.
OTHERS = {
    dominant: np.random.default_rng(8).normal(size=16),
    difference: np.concatenate([np.random.default_rng(9).normal(size=12), np.full(12, 0.1)]),
    weighted: np.concatenate([np.random.default_rng(10).normal(size=20), np.ones(5)]),
    apart: np.array([0.1, 1.0, 2.0, 3.1, 0.2, 1.1, 2.2, 3.0]),
    growing: np.array([0.1, 0.9, 2.0, 3.1]),
    lifted: np.array([0.1, 0.2, 0.3, 0.4]),
    spread: np.array([0.1, 0.9, 2.0, 3.1, 0.5]),
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
    assert SELECT not in acc.trace(solving(system), x).tape.codes
    for point in [x, *draw.normal(size=(4, size)), np.abs(x), 3.0 * x]:
        y, by_x = by_theorem(system, point)
        condition = np.linalg.cond(system(point)[0])
        value, result = jacobian(point)
        np.testing.assert_allclose(value, y, rtol=1e-14 * condition, atol=1e-14 * condition * np.abs(y).max())
        bound = 1e-13 * condition * np.abs(by_x).max()
        np.testing.assert_allclose(result, by_x, rtol=1e-13 * condition, atol=bound)
    monkeypatch.setattr(systems, "is_semidefinite", lambda *_: False)
    assert program.operations <= factor * acc.value_and_jacobian(solving(system), cache=False).compile(x).operations


@pytest.mark.sampled(2)
@pytest.mark.parametrize("system", OTHERS)
def test_other_systems_keep_their_exchanges(system):
    x = OTHERS[system]
    jacobian = acc.value_and_jacobian(solving(system), cache=False)
    assert SELECT in acc.trace(solving(system), x).tape.codes
    # a point at which rows are exchanged, or a pivot would be 0 without
    for point in (x, np.zeros_like(x), np.round(4.0 * x)):
        if np.linalg.cond(system(point)[0]) < 1e8:
            y, by_x = by_theorem(system, point)
            value, result = jacobian(point)
            np.testing.assert_allclose(value, y, rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(result, by_x, rtol=1e-10, atol=1e-10)


@pytest.fixture
def found(monkeypatch):
    """Whether matrices were found to be definite, and on what they were recorded."""
    results = []

    def noted(tape, a):
        results.append((type(tape), is_semidefinite(tape, a)))
        return results[-1][1]

    monkeypatch.setattr(systems, "is_semidefinite", noted)
    return results


@pytest.mark.parametrize("system", [*DEFINITE, *OTHERS])
def test_forms_of_arrays_that_are_recorded_as_such(system, found, monkeypatch):
    monkeypatch.setattr(sizes, "LONG", 2)
    x = OTHERS[system] if system in OTHERS else np.random.default_rng(0).normal(size=DEFINITE[system][0])
    value, slope = acc.value_and_jacobian(solving(system), cache=False)(x)
    assert {kind for kind, _ in found} == {sizes.Program}
    # a block of an indefinite matrix that is definite takes no exchanges, either
    assert any(is_definite for _, is_definite in found) == (system in DEFINITE)
    y, by_x = by_theorem(system, x)
    condition = np.linalg.cond(system(x)[0])
    np.testing.assert_allclose(value, y, rtol=1e-12 * condition, atol=1e-12 * condition)
    np.testing.assert_allclose(slope, by_x, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(by_x).max()) * condition)


def many_slopes(x):
    """Ten parameters of forty observations."""
    slopes = np.exp(-x * np.linspace(0.0, 1.0, 40)[:, None])
    return slopes.T @ slopes + 1e-2 * np.eye(len(x)), slopes.T @ np.ones(40)


def kernel(x):
    apart = x[:, None] - x[None, :]
    return np.exp(-apart * apart) + 0.1 * np.eye(len(x)), np.sin(x)


@pytest.mark.parametrize("system", [pendulums, kernel, many_slopes])
@pytest.mark.parametrize("n", [7, 8, 10])
def test_longer_arrays_need_no_exchanges_either(system, n, found):
    x = np.random.default_rng(1).uniform(0.5, 2.5, n)
    solution = acc.compile(solving(system), cache=False)(x)
    assert all(is_definite for _, is_definite in found)
    assert found[0][0] is sizes.Program
    matrix, side = system(x)
    condition = np.linalg.cond(matrix)
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, side), rtol=1e-13 * condition, atol=1e-13 * condition)


@pytest.mark.parametrize(
    "change",
    [
        lambda gram, x: gram - 1e-3 * np.eye(8),
        lambda gram, x: gram * np.where(np.arange(64) == 8, 1.5, 1.0).reshape(8, 8),
        lambda gram, x: gram + np.outer(np.arange(8) == 0, np.arange(8) == 1) * x[0],
        lambda gram, x: -gram,
        lambda gram, x: gram + np.diag(x[:8]),
    ],
)
def test_changed_products_with_the_transposed_matrix_are_not_taken_for_definite(change, found):
    def f(x):
        slopes = x.reshape(10, 8)
        return np.linalg.solve(change(slopes.T @ slopes, x), x[:8])

    x = np.random.default_rng(2).normal(size=80)
    np.testing.assert_allclose(acc.compile(f, cache=False)(x), f(x), rtol=1e-8)
    assert found
    assert not any(is_definite for _, is_definite in found)


def test_sums_of_values_within_bodies_are_not_followed(monkeypatch):
    """Such values have no references, so that the sum has no arguments."""
    tape = sizes.Program(9)
    entries = tape.apply("add", np.arange(9), np.arange(9)[::-1])
    monkeypatch.setattr(tape, "arguments", lambda reference: ())
    assert not is_semidefinite(tape, entries.reshape(3, 3).tolist())


def test_two_matrices_are_no_product_with_the_transposed_one(found):
    def f(x):
        one, other = x[:80].reshape(10, 8), x[80:].reshape(10, 8)
        return np.linalg.solve(one.T @ other + np.eye(8), x[:8])

    x = np.random.default_rng(3).normal(size=160)
    np.testing.assert_allclose(acc.compile(f, cache=False)(x), f(x), rtol=1e-8)
    assert not any(is_definite for _, is_definite in found)


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
    monkeypatch.setattr(systems, "is_semidefinite", lambda *_: False)
    for name, (make, at) in kinds.items():
        assert counts[name] < 0.9 * make().compile(*at).operations, name
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
    for point in (x, *draw.normal(size=(3, 12))):
        by_x = acc.jacobian(lambda x: damped(x)[0].ravel(), cache=False)(point)
        np.testing.assert_allclose(gradient(point), slope(damped(point)[0]).ravel() @ by_x, rtol=1e-11, atol=1e-12)
    monkeypatch.setattr(systems, "is_semidefinite", lambda *_: False)
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
    monkeypatch.setattr(systems, "is_semidefinite", lambda *_: False)
    before = acc.hessian(energy, cache=False).compile(x), acc.hvp(energy, cache=False).compile((x,), (direction,))
    assert counts[0] < 0.8 * before[0].operations
    assert counts[1] < 0.8 * before[1].operations


def test_bodies_of_loops(monkeypatch):
    angles = np.random.default_rng(6).normal(size=(300, 4))
    results = []
    for search in (is_semidefinite, lambda *_: False):
        monkeypatch.setattr(systems, "is_semidefinite", search)
        mapped = acc.jacobian(lambda x: acc.map(solving(pendulums), x), sparse="csr", cache=False)
        results.append((mapped(angles), mapped.report().operations))
    (one, shorter), (other, before) = results
    np.testing.assert_allclose(one.toarray(), other.toarray(), rtol=1e-12, atol=1e-13)
    assert shorter < 0.75 * before


def test_constants_of_matrices():
    """Entries beside the diagonal are constants, as are the first factors, which are folded."""
    draw = np.random.default_rng(1)
    slopes, side = draw.normal(size=(20, 6)), draw.normal(size=20)

    def fitted(w):
        return np.linalg.solve(slopes.T @ slopes + np.exp(w) * np.eye(6), slopes.T @ side)

    def loss(w):
        return np.sum((slopes @ fitted(w) - side) ** 2)

    assert SELECT not in acc.trace(fitted, 0.1).tape.codes
    slope = acc.gradient(loss, cache=False)
    second = (slope(0.1 + 1e-5) - slope(0.1 - 1e-5)) / 2e-5
    np.testing.assert_allclose(acc.hessian(loss, cache=False)(0.1), second, rtol=1e-6)


def stiffness(shift):
    return 1e4 * (2.0 * np.eye(4) - np.eye(4, k=1) - np.eye(4, k=-1)) - shift * np.eye(4)


@pytest.mark.parametrize("shift", [0.0, 1.0, 5e3, 2e4, 5e4, -1e9, 3819.6601125010515])
def test_shifted_stiffness_is_not_taken_for_definite(shift):
    """At 1 it is definite, as at 288 points near it; beyond the first eigenvalue it is not."""
    logarithm = acc.value_and_jacobian(lambda shift: np.stack(np.linalg.slogdet(stiffness(shift))), cache=False)
    solution = acc.compile(lambda shift: np.linalg.solve(stiffness(shift), np.arange(4.0)), cache=False)
    for first in (1.0, shift):
        logarithm(first)
        np.testing.assert_allclose(logarithm(shift)[0], np.linalg.slogdet(stiffness(shift)), rtol=1e-9)
        solution(first)
        expected = np.linalg.solve(stiffness(shift), np.arange(4.0))
        np.testing.assert_allclose(solution(shift), expected, rtol=1e-13 * np.linalg.cond(stiffness(shift)))


def test_the_last_digit_of_a_constant_decides():
    """[[1, 1 + e], [1 + e, 1]] is semidefinite for e = 0 and for e = -2⁻⁵³, and is not for e = 2⁻⁵²."""
    for off, expected in ((1.0, True), (1.0 - 2.0**-53, True), (1.0 + 2.0**-52, False)):
        tape = Tape(0)
        matrix = [[tape.constant(1.0 if i == j else off) for j in range(2)] for i in range(2)]
        assert is_semidefinite(tape, matrix) is expected


def test_semidefinite_forms_have_no_negative_eigenvalue():
    """All matrices that are accepted, at points of many sizes."""
    draw = np.random.default_rng(11)
    for system, (size, _) in DEFINITE.items():
        for scale in (1e-8, 1e-3, 1.0, 30.0):
            matrix = system(scale * draw.normal(size=size))[0][:4, :4]
            assert np.linalg.eigvalsh(matrix).min() >= -1e-14 * np.abs(matrix).max(), system


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


def test_entries_at_the_end_of_a_long_loop_are_not_followed():
    """Each step's covariance depends on all before: following them would take time, and Python's stack."""
    tape = Tape(3)
    one, other = 0, 1
    for _ in range(5_000):
        one = tape.add(tape.divide(one, tape.add(one, 2)), tape.multiply(other, other))
        other = tape.multiply(one, other)
    assert not is_semidefinite(tape, [[one, other], [other, one]])
