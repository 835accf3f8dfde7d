"""What reaches floor, ceil, sign, fmod or a comparison is rounded as it is written: jumps are where NumPy's are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import programs

import accumulus as acc
from accumulus.rewriting.optimise import optimise
from accumulus.rewriting.plain import plain
from accumulus.tape.evaluate import evaluate
from accumulus.tape.live import as_written
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets import Segment, compile_tape, targets

WHOLE = np.arange(1.0, 1000.0)
OPTIONS = [
    {},
    {"optimise": False},
    {"effort": "thorough", "time_limit": 0.2},
    {"dtype": "float32", "optimise": True},
    {"exact_order": True},
]

#: Functions of x and of a divisor n; all quotients are whole at x = n.
JUMPING = {
    "floor": lambda x, n: np.floor(x / n),
    "ceil": lambda x, n: np.ceil(x / n),
    "trunc": lambda x, n: np.trunc(x / n),
    "rint": lambda x, n: np.rint(x / n * 0.5),
    "sign": lambda x, n: np.sign(x / n - 1.0),
    "fmod": lambda x, n: np.fmod(x / n, 1.0),
    "remainder": lambda x, n: (x / n) % 1.0,
    "floor_divide": lambda x, n: (x / n) // 1.0,
    "where": lambda x, n: np.where(x / n >= 1.0, 1.0, -1.0) * x,
    "equal": lambda x, n: np.where(x / n == 1.0, x, -x),
    "nested": lambda x, n: np.where(np.floor(x / n) * (x / n) >= 1.0, x, -x),
    "joined": lambda x, n: np.where((x / n < 1.0) | (x > 2000.0), x, -x),
    "heaviside": lambda x, n: np.heaviside(x / n - 1.0, 0.5),
    "copysign": lambda x, n: np.copysign(x, x / n - 1.0 + 1e-300),
    "choice": lambda x, n: np.floor(np.where(x > 0.0, x / n, x)),
    "isnan": lambda x, n: np.where(np.isnan(np.sqrt(x / n - 1.0)), x, -x),
}
every_target = pytest.mark.parametrize("target", targets())
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def values(f, x, **options):
    return np.asarray(acc.value_and_jacobian(f, **options)(x)[0])


@every_target
@every_option
def test_quotients_by_numbers_jump_where_numpys_do(options, target):
    dtype = options.get("dtype", "float64")
    numbers = np.array([49.0, 98.0, 103.0, 107.0, 3.0, 7.0], dtype)

    def f(x):
        return np.array([jump(x[k], float(n)) for jump in JUMPING.values() for k, n in enumerate(numbers)])

    np.testing.assert_array_equal(values(f, numbers, target=target, **options), f(numbers))


@every_target
@every_option
def test_quotients_that_share_a_divisor_jump_where_numpys_do(options, target):
    def f(x):
        # the reciprocal of x[1] is a partial derivative, and other quotients would like to share it
        shared = [x[0] / x[1] + x[2] / x[1], 1.0 / x[1]]
        return np.array([*(jump(x[k], x[1]) for jump in JUMPING.values() for k in (0, 2)), *shared])

    dtype = options.get("dtype", "float64")
    points = np.array([(n, n, 3.0 * n) for n in (*WHOLE[::7], 49.0, 98.0, 103.0)], dtype)
    given = acc.value_and_jacobian(f, target=target, **options).batch(points)[0]
    np.testing.assert_array_equal(given[:, :-2], np.array([f(point)[:-2] for point in points]))


def test_all_whole_quotients_below_a_thousand():
    np.testing.assert_array_equal(values(lambda x: np.floor(x / WHOLE), WHOLE), 1.0)
    # numbers whose reciprocal would have been off: the case is not an empty one
    assert np.sum(WHOLE * (1.0 / WHOLE) < 1.0) == 82


@every_option
def test_remainders_of_whole_numbers(options):
    dtype = options.get("dtype", "float64")
    numbers = (3.0, 49.0, 98.0, 103.0)

    def f(x):
        return np.array([g(x, n) for n in numbers for g in (np.floor_divide, np.remainder, np.fmod)])

    points = np.concatenate([n * np.arange(-20.0, 21.0) for n in numbers]).astype(dtype)
    given = acc.value_and_jacobian(f, **options).batch(points)[0]
    np.testing.assert_array_equal(given, np.array([f(point) for point in points]))


def test_sums_and_products_keep_their_order_in_front_of_a_jump():
    def f(x):
        total = 0.1 * x[0] + 0.2 * x[0]  # multiples of one value: 0.3 x if they were added first
        return np.array(
            [
                np.where(total == 0.30000000000000004, 1.0, 0.0),
                np.floor((x[1] + 2.0**53) - 2.0**53),  # 0 with terms in another order
                np.sign(x[0] * x[2] + x[0] * x[3] - x[0] * (x[2] + x[3])),
                np.ceil(x[1] * 0.1 * 3.0 - 0.3),  # factors folded
                np.where(x[0] * x[2] + x[3] == x[4], 1.0, 0.0) * x[0],  # a product that could be fused
            ]
        )

    rng = np.random.default_rng(0)
    points = rng.uniform(0.5, 1.5, (200, 5))
    points[:, 0] = 1.0
    points[:, 1] = 1.0
    points[100:, 0] = 0.1
    points[:, 4] = points[:, 0] * points[:, 2] + points[:, 3]
    for options in (*OPTIONS[:3], OPTIONS[4]):
        for target in targets():
            given = acc.value_and_jacobian(f, target=target, **options).batch(points)[0]
            np.testing.assert_array_equal(given, np.array([f(point) for point in points]))


@every_option
def test_ties_of_quotients_are_ties(options):
    """Derivatives have jumps, too: those of a maximum, and of abs."""

    def f(x):
        return np.array([np.maximum(x[0] / 49.0, 1.0), abs(x[0] / 49.0 - 1.0), np.minimum(x[0] / x[1], x[2] / x[1])])

    jacobian = acc.jacobian(f, **options)(np.array([49.0, 3.0, 49.0], options.get("dtype", "float64")))
    np.testing.assert_allclose(jacobian[:2, 0], [0.5 / 49.0, 1.0 / 49.0], rtol=1e-6)
    np.testing.assert_allclose(jacobian[2], [0.5 / 3.0, -49.0 / 9.0, 0.5 / 3.0], rtol=1e-6)


# The set of operations -----------------------------------------------------------------------------------------------


def test_the_table_says_what_jumps():
    assert {row.name for row in OPERATIONS if row.jumps} == {
        *("floor", "ceil", "sign", "fmod", "less", "less_equal", "equal", "not_equal"),
    }


def test_what_is_written_is_what_reaches_a_jump():
    tape = Tape(2)
    quotient = tape.divide(0, 1)
    beside = tape.divide(1, 0)
    total = tape.add(0, 1)
    tape.apply("floor", total)  # needed by nothing
    product = tape.multiply(quotient, 0)
    tape.outputs = [tape.multiply(tape.apply("floor", product), beside)]
    operations = range(tape.inputs, len(tape))
    assert {r for r in operations if as_written(tape)[r]} == {quotient, product}
    assert {r for r in operations if as_written(tape, 1)[r]} == {*operations} - {total, total + 1}


exact_programs = programs(
    (
        *("add", "subtract", "multiply", "divide", "negative", "abs", "minimum", "maximum"),
        *("floor", "ceil", "sign", "fmod", "less", "less_equal", "equal", "not_equal", "select"),
    ),
    constants=(0.5, 1.0, 2.0, 3.0, 7.0, 49.0, 0.1),
    inputs=3,
    steps=14,
)


@settings(max_examples=100)
@given(exact_programs, st.lists(st.sampled_from([*range(-50, 51), 0.5, 1.5, 49.0, 98.0]), min_size=3, max_size=3))
def test_the_arguments_of_jumps_are_the_same_to_the_last_bit(program, point):
    """With the value of every jump for an output, they are NumPy's in the plain, rewritten and compiled program."""
    tape = program.tape()
    one, zero = tape.constant(1.0), tape.constant(0.0)
    jumps = [r for r in range(tape.inputs, len(tape)) if OPERATIONS[tape.codes[r]].jumps]
    tape.outputs = [tape.select(r, one, zero) if tape.is_boolean(r) else r for r in jumps] + tape.outputs
    inputs = np.array(point, float)
    expected = np.array(evaluate(tape, inputs)[: len(jumps)], float)
    for other in (plain(tape), optimise(tape, effort="fast"), optimise(tape, "time", seed=1)):
        np.testing.assert_array_equal(np.array(evaluate(other, inputs)[: len(jumps)], float), expected)
    places = tuple(range(len(tape.outputs)))
    kernel = compile_tape(other, [Segment(len(places), places, places)])
    np.testing.assert_array_equal(kernel(inputs)[0][: len(jumps)], expected)
