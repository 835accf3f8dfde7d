"""Taylor coefficients of every row of the table, and of random tapes, against differences in 50 digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact import exact_values, mp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import tapes

from accumulus import Tape
from accumulus.tape.interpreter import evaluate
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.taylor import taylor_coefficients

ORDER = 3
ROWS = [
    row
    for row in OPERATIONS
    if row.arity and not row.is_scipys and row.result == "real" and row.name not in ("attach", "fmod")
]
SMOOTH = [
    "add",
    "subtract",
    "multiply",
    "negative",
    "sin",
    "cos",
    "exp",
    "tanh",
    "atan",
    "asinh",
    "erf",
    "expm1",
    "cosh",
]


def coefficients(tape, order=ORDER):
    """The tape with coefficients of each input behind it as further inputs, and those of its outputs."""
    wide = Tape(tape.inputs * (order + 1))
    values = list(range(tape.inputs))
    for k in range(tape.inputs, len(tape)):
        arguments = [values[a] if a >= 0 else wide.constant(tape.value_of(a)) for a in tape.arguments(k)]
        values.append(wide.apply_code(tape.codes[k], arguments))
    wide.outputs = [values[k] if k >= 0 else wide.constant(tape.value_of(k)) for k in tape.outputs]
    paths = {k: [tape.inputs * j + k for j in range(1, order + 1)] for k in range(tape.inputs)}
    wide.outputs = [entry for row in taylor_coefficients(wide, paths, order) for entry in row]
    return wide


def exact_coefficients(tape, path):
    """Path: (order + 1, inputs)."""

    def along(t, output):
        return exact_values(tape, [sum(mp.mpf(x) * t**k for k, x in enumerate(column)) for column in path.T.tolist()])[
            output
        ]

    return [mp.taylor(lambda t, k=k: along(t, k), 0, ORDER)[1:] for k in range(len(tape.outputs))]


def inside(domain, argument):
    """A point within an interval."""
    low, high = domain
    if low >= 1.0:
        return low + 0.7
    return 0.35 + 0.2 * argument if high <= 1.0 else 0.6 + 0.7 * argument


def cases():
    """Every operation, and those of several numbers with one of these a constant, by its place."""
    for row in ROWS:
        yield pytest.param(row, None, id=row.name)
        real = [k for k, kind in enumerate(row.arguments) if kind == "real"]
        for k in real if len(real) > 1 else ():
            yield pytest.param(row, k, id=f"{row.name} with constant {k}")


@pytest.mark.parametrize(("row", "held"), list(cases()))
def test_coefficients_of_every_operation(row, held):
    real = [k for k, kind in enumerate(row.arguments) if kind == "real" and k != held]
    tape = Tape(len(real))
    arguments = [tape.constant(3.0 if kind == "order" else 1.0) for kind in row.arguments]
    if held is not None:
        # -1 where that is allowed, which partial derivatives lose
        arguments[held] = tape.constant(-1.0 if row.domain[held][0] < -1.0 else inside(row.domain[held], held))
    for argument, k in enumerate(real):
        arguments[k] = argument
    tape.outputs = [tape.apply(row.name, *arguments)]
    path = np.array([[inside(row.domain[k], k) for k in real]])
    path = np.concatenate([path, np.random.default_rng(row.code).uniform(-0.5, 0.5, (ORDER, len(real)))])
    actual = evaluate(coefficients(tape), path.ravel().tolist())
    with mp.workdps(25):
        (expected,) = exact_coefficients(tape, path)
    np.testing.assert_allclose(actual, np.array(expected, float), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("exponent", [2.5, -0.5, -1.0, 3.0, 7.0])
def test_powers_also_of_zero(exponent):
    tape = Tape(1)
    tape.outputs = [tape.apply("power", 0, tape.constant(exponent))]
    path = np.array([[1.3], [1.0], [0.5], [-0.2]])
    (expected,) = exact_coefficients(tape, path)
    np.testing.assert_allclose(
        evaluate(coefficients(tape), path.ravel().tolist()), np.array(expected, float), rtol=1e-12
    )
    if exponent > 0.0 and exponent == round(exponent):
        path[0] = 0.0
        actual = evaluate(coefficients(tape, 8), [0.0, 1.0, *[0.0] * 7])
        np.testing.assert_array_equal(actual, [float(k == exponent) for k in range(1, 9)])


@settings(max_examples=15, deadline=None)
@given(tape=tapes(max_inputs=3, max_operations=10, names=SMOOTH), seed=st.integers(0, 2**20))
def test_coefficients_of_random_tapes(tape, seed):
    path = np.random.default_rng(seed).uniform(-1.0, 1.0, (ORDER + 1, tape.inputs))
    with mp.workdps(50):
        expected = exact_coefficients(tape, path)
    assume(all(abs(entry) < 1e6 for row in expected for entry in row))
    actual = np.array(evaluate(coefficients(tape), path.ravel().tolist())).reshape(-1, ORDER)
    scale = max(1.0, math.sqrt(sum(float(entry) ** 2 for row in expected for entry in row)))
    np.testing.assert_allclose(actual, np.array(expected, float).reshape(-1, ORDER), rtol=1e-8, atol=1e-9 * scale)


def test_products_grow_with_the_square_of_the_order():
    counts = []
    for order in (8, 16, 32):
        tape = Tape(1)
        x = tape.apply("sin", 0)
        tape.outputs = [tape.divide(tape.apply("exp", x), tape.apply("log", tape.add(x, tape.constant(3.0))))]
        counts.append(coefficients(tape, order).operations)
    assert counts[2] < 4.4 * counts[1] < 4.4 * 4.4 * counts[0]
