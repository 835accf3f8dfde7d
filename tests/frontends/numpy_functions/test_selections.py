"""Entries chosen by a traced mask: one program for all masks where nothing asks which they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accumulus as acc


def programs(jac):
    return max(1, len(jac.report().cases))  # none are listed where nothing is decided


def differences(f, x, step=1e-6):
    slopes = []
    for k in range(len(x)):
        ahead, behind = x.copy(), x.copy()
        ahead[k] += step
        behind[k] -= step
        slopes.append((np.asarray(f(ahead)) - np.asarray(f(behind))) / (2 * step))
    return np.stack(slopes, axis=-1)


def assigned(u):
    rates = np.zeros_like(u)
    warm = u > 0
    rates[warm] = np.log(u[warm]) * 2.0
    rates[~warm] = -1.0 - u[~warm] ** 2
    return rates


def updated(u):
    v = u.copy()
    for _ in range(3):
        v[v < 0] *= -0.5
    v[v > 1] -= np.fmod(v[v > 1], 0.5)
    return v


def summed(u):
    selected = u[u > 0]
    return np.sum(selected**2) + np.prod(selected) + selected.mean()


def spread(u):
    selected = u[(u > -1) & (u < 1)]
    return np.max(selected) ** 2 + selected.min() + np.std(selected) + np.linalg.norm(selected)


def multiplied(u):
    m = u > 0
    return np.dot(u[m], np.exp(u[m])) + u[m] @ u[m]


def rows(u):
    table = np.stack([u, u**2, 1 + u], axis=1)
    m = u > 0
    table[m] *= np.array([1.0, 2.0, 3.0])
    return table, np.sum(table[m][:, 1])


def matrix(u):
    a = np.outer(u, u)
    a[a > 0.5] *= 2.0
    return a.sum(axis=0)


def copied(u):
    m = u > 0
    v = u.copy()
    before = v[m]
    v[m] = 5.0
    before += 1.0
    other = before
    other *= 2.0
    return np.sum(before) + np.sum(v)


OPEN = [assigned, updated, summed, spread, multiplied, matrix, copied]


def points(seed, count=8):
    drawn = np.random.default_rng(seed).uniform(-2, 2, (count, 6))
    drawn[:, :3] = np.random.default_rng(seed + 1).uniform([0.2, -0.9, 1.2], [0.9, -0.1, 1.9], (count, 3))
    return drawn


@pytest.mark.parametrize("f", OPEN, ids=lambda f: f.__name__)
def test_one_program_serves_every_mask(f):
    X = points(0, 40)
    jac = acc.value_and_jacobian(f)
    values, slopes = jac.batch(X)
    for x, value, slope in zip(X, values, slopes, strict=True):
        np.testing.assert_allclose(value, f(x), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(slope, differences(f, x), rtol=1e-6, atol=1e-6)
    assert programs(jac) == 1


def test_rows_of_a_table_are_selected():
    jac = acc.value_and_jacobian(rows)
    for x in points(3):
        (table, total), (slopes, slope) = jac(x)
        np.testing.assert_allclose(table, rows(x)[0])
        np.testing.assert_allclose(total, rows(x)[1])
        np.testing.assert_allclose(slopes, differences(lambda x: rows(x)[0], x), atol=1e-7)
        np.testing.assert_allclose(slope, differences(lambda x: rows(x)[1], x), atol=1e-7)
    assert programs(jac) == 1


def first_and_last(u):
    selected = u[u > 0]
    return selected[0] * 2 + len(selected) * selected[-1]


def constant_weights(u):
    m = u > 0
    return np.sum(u[m] * WEIGHTS[m])


def joined(u):
    return np.concatenate([u[u > 0] ** 2, u[u <= 0]])[:3]


WEIGHTS = np.arange(6.0)


@pytest.mark.parametrize("f", [first_and_last, constant_weights, joined])
def test_uses_of_selected_positions_are_guarded(f):
    jac = acc.value_and_jacobian(f)
    for x in points(5):
        value, slope = jac(x)
        np.testing.assert_allclose(value, f(x))
        np.testing.assert_allclose(slope, differences(f, x), atol=1e-6)
    assert programs(jac) > 1


def by_length(u):
    selected = u[u > 0]
    return np.sum(selected) if len(selected) > 3 else np.sum(selected**2)


def test_the_length_is_guarded_by_the_count_alone():
    jac = acc.jacobian(by_length)
    X = points(7, 60)
    slopes = jac.batch(X)
    np.testing.assert_allclose(slopes, [differences(by_length, x) for x in X], atol=1e-6)
    assert programs(jac) <= 6  # the masks are some thirty


def test_no_entry_at_all():
    jac = acc.value_and_jacobian(lambda u: np.sum(u[u > 9.0] ** 2) + u[0])
    value, slope = jac(np.ones(3))
    assert value == 1.0
    np.testing.assert_array_equal(slope, [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="zero-size"):
        acc.jacobian(lambda u: np.max(u[u > 9.0]))(np.ones(3))


def test_unselected_values_do_not_poison():
    f = lambda u: np.sum(np.sqrt(u[u > 0]) / u[u > 0])  # noqa: E731
    x = np.array([1.0, 0.0, -1.0, 4.0])
    value, slope = acc.value_and_jacobian(f)(x)
    assert value == 1.5
    np.testing.assert_allclose(slope, [-0.5, 0.0, 0.0, -0.0625])


STEPS = [
    lambda u, m: u[m].sum() + u,
    lambda u, m: np.where(m, u, np.sum(u[~m])),
    lambda u, m: _set(u, m, u[m] * 2.0 + 1.0),
    lambda u, m: _set(u, m, np.sin(u[m]) * u[m]),
    lambda u, m: _set(u, ~m, np.abs(u[~m]) ** 0.5),
    lambda u, m: u * (1.0 + np.dot(u[m], u[m])) / 40.0,
    lambda u, m: _set(u, m, np.clip(u[m], -0.5, 0.5)),
]


def _set(u, m, value):
    v = u.copy()
    v[m] = value
    return v


@settings(max_examples=15)
@given(
    steps=st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.floats(-1, 1)), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
)
def test_any_sequence_of_selections(steps, seed):
    def f(u):
        for kind, border in steps:
            u = STEPS[kind](u, u > border)
        return u

    X = np.random.default_rng(seed).uniform(-2, 2, (6, 4))
    jac = acc.value_and_jacobian(f, optimise=False)
    values, _ = jac.batch(X)
    np.testing.assert_allclose(values, [f(x) for x in X], rtol=1e-11, atol=1e-12)
    assert programs(jac) == 1
