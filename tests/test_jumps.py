"""Operations that lead to floor, ceil, sign, fmod or a comparison are rounded as written, so jumps are NumPy's."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from contexts import rewritten_by_rules as optimise
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import OPERATIONS, Segment, canonical, compile_tape, evaluate, targets
from programs import programs

import accumulus as acc
from accumulus import Tape
from accumulus.tape.live import as_written, signed_zeros

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
    actual = acc.value_and_jacobian(f, target=target, **options).batch(points)[0]
    np.testing.assert_array_equal(actual[:, :-2], np.array([f(point)[:-2] for point in points]))


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
    actual = acc.value_and_jacobian(f, **options).batch(points)[0]
    np.testing.assert_array_equal(actual, np.array([f(point) for point in points]))


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
            actual = acc.value_and_jacobian(f, target=target, **options).batch(points)[0]
            np.testing.assert_array_equal(actual, np.array([f(point) for point in points]))


@every_option
def test_ties_of_quotients_are_ties(options):
    """Derivatives have jumps, too: those of a maximum, and of abs."""

    def f(x):
        return np.array([np.maximum(x[0] / 49.0, 1.0), abs(x[0] / 49.0 - 1.0), np.minimum(x[0] / x[1], x[2] / x[1])])

    jacobian = acc.jacobian(f, **options)(np.array([49.0, 3.0, 49.0], options.get("dtype", "float64")))
    np.testing.assert_allclose(jacobian[:2, 0], [0.5 / 49.0, 1.0 / 49.0], rtol=1e-6)
    np.testing.assert_allclose(jacobian[2], [0.5 / 3.0, -49.0 / 9.0, 0.5 / 3.0], rtol=1e-6)


# The signs of zeros --------------------------------------------------------------------------------------------------

ANGLES = {
    "x - x": (lambda x: np.arctan2(x[0] - x[1], -1.0), (2.0, 2.0)),
    "y - x after x - y": (lambda x: np.arctan2(x[1] - x[0], -1.0) * (x[0] - x[1] + 1.0), (2.0, 2.0)),
    "-x - y": (lambda x: np.arctan2(-x[0] - x[1], -1.0), (1.0, -1.0)),
    "0 - x": (lambda x: np.arctan2(0.0 - x[0], -1.0), (0.0, 1.0)),
    "x + 0": (lambda x: np.arctan2(x[0] + 0.0, -1.0), (-0.0, 1.0)),
    "x - 0": (lambda x: np.arctan2(x[0] - 0.0, -1.0), (-0.0, 1.0)),
    "-x": (lambda x: np.arctan2(-x[0], -1.0), (0.0, 1.0)),
    "0 * x": (lambda x: np.arctan2(0.0 * x[0], -abs(x[1])), (-3.0, 1.0)),
    "0 / x": (lambda x: np.arctan2(0.0 / x[0], -abs(x[1])), (-3.0, 1.0)),
    "sign(-x)": (lambda x: np.arctan2(np.sign(-x[0]), -1.0), (0.0, 1.0)),
    "0 * x, by a constant": (lambda x: np.arctan2(0.0 * x[0], -1.0), (-3.0, 1.0)),
    "-(x - x)": (lambda x: np.arctan2(-(x[0] - x[1]), -1.0) + (x[0] - x[1]), (2.0, 2.0)),
    "x and x + 0": (lambda x: np.arctan2(x[0], -1.0) + 2.0 * np.arctan2(x[0] + 0.0, -1.0), (-0.0, 1.0)),
    "x - y and y - x": (lambda x: np.arctan2(x[0] - x[1], -1.0) + 2.0 * np.arctan2(x[1] - x[0], -1.0), (2.0, 2.0)),
    "sums from 0": (lambda x: np.arctan2(sum([x[0], x[0] * x[1], x[0]]), -1.0) + sum([x[0], x[1]]), (-0.0, 1.0)),
    "abs": (lambda x: np.arctan2(np.abs(x[0] + 0.0), -1.0) - np.arctan2(-np.abs(x[0]), -1.0), (-0.0, 1.0)),
    "a choice": (lambda x: np.arctan2(np.where(x[1] > 0.0, -x[0], x[0] + 0.0), -1.0), (0.0, 1.0)),
    "an angle of an angle": (lambda x: np.arctan2(-np.arctan2(x[0] - x[1], 1.0), -1.0), (2.0, 2.0)),
    "x - y twice": (
        lambda x: np.array([np.arctan2(x[0], x[0]), np.arctan2(x[0], x[1] - x[0]), x[0] + x[0]]),
        (0.0, 0.0),
    ),
    "sums from 0 of abs": (
        lambda x: np.array([np.arctan2(x[0], sum([np.abs(x[1]), x[1]])), np.arctan2(x[1], -1.0), np.arctan2(*x)]),
        (0.0, -1.0),
    ),
    "second argument": (lambda x: np.arctan2(0.0, x[0] - x[1]), (2.0, 2.0)),
    "x * y - z": (lambda x: np.arctan2(x[0] * x[1] - 1.0, -1.0), (49.0, 1 / 49.0)),
    "a product with a matrix": (
        lambda x: np.arctan2(np.array([[-1.0, -1.0], [1.0, 0.0]]) @ x, -1.0).sum(),
        (1.0, -1.0),
    ),
}
ANGLE_OPTIONS = [*OPTIONS[:3], OPTIONS[4]]
#: The tape is the same for every target: each with every option would show nothing more.
ANGLE_PROGRAMS = [*(("llvm", options) for options in ANGLE_OPTIONS), *((name, {}) for name in targets()[1:])]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("target", "options"), ANGLE_PROGRAMS, ids=str)
@pytest.mark.parametrize("name", ANGLES)
def test_angles_are_on_the_side_of_numpys(name, options, target):
    f, point = ANGLES[name]
    program = acc.value_and_jacobian(f, target=target, **options)
    for x in (np.array(point), np.array(point[::-1]), -np.array(point)):
        with np.errstate(all="ignore"):
            expected = f(x)
        np.testing.assert_allclose(program(x)[0], expected, rtol=1e-14)
        np.testing.assert_allclose(program.batch(np.array([x] * 9))[0], [expected] * 9, rtol=1e-14)


FORMS = [
    *("{a} + {b}", "{a} - {b}", "{a} * {b}", "-{b}", "{b} / -2.0", "{b} / 3.0", "0.0 / (2.0 + {b} * {b})", "abs({b})"),
    *("np.sin({b})", "np.sign({b})", "np.maximum({b}, -1.0)", "np.minimum({b}, 2.0)", "np.floor({b})"),
    *("np.where({a} > 0.5, {b}, -{b})", "np.cos({a} - {b})", "np.arctan2({b}, 2.0)", "sum([{b}, {a}])"),
]


@st.composite
def zeros(draw):
    """Source of a function of three numbers, the last lines of which are angles of what the others compute."""
    names = ["x[0]", "x[1]", "x[2]"]
    lines = []
    operand = st.sampled_from(["0.0", "-0.0", "1.0", "-1.0", "2.0"])
    for k in range(draw(st.integers(1, 8))):
        a = draw(st.sampled_from(names) | operand)
        b = draw(st.sampled_from(names))
        a, b = (a, b) if draw(st.booleans()) else (b, a)
        form = draw(st.sampled_from(FORMS))
        if "{a}" not in form:
            b = names[-1] if not b.startswith(("x", "v")) else b
        lines.append(f"v{k} = {form.format(a=a, b=b)}")
        names.append(f"v{k}")
    # one argument is no constant, whatever becomes of the other
    pair = st.tuples(st.sampled_from([*names, "-1.0"]), st.sampled_from(names[:3]))
    ends = draw(st.lists(pair | pair.map(lambda ends: ends[::-1]), min_size=1, max_size=3))
    results = [*(f"np.arctan2({y}, {x})" for y, x in ends), names[-1]]
    body = "".join(f"    {line}\n" for line in lines)
    return f"def f(x):\n{body}    return np.array([{', '.join(results)}])\n"


SIGNED = st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 0.5]), min_size=3, max_size=3)


@settings(max_examples=30)
@given(
    zeros(),
    st.lists(SIGNED, min_size=3, max_size=3),
    st.sampled_from(ANGLE_OPTIONS),
    st.sampled_from(["llvm", "numpy"]),
)
def test_no_angle_is_a_whole_turn_off(source, points, options, target):
    scope = {"np": np}
    exec(source, scope)
    if "time_limit" in options:
        options = options | {"time_limit": 0.02}
    program = acc.value_and_jacobian(scope["f"], target=target, **options)
    points = np.array(points)
    expected = np.array([scope["f"](x) for x in points])
    np.testing.assert_allclose(program.batch(points)[0], expected, rtol=1e-14)
    np.testing.assert_allclose(program(points[0])[0], expected[0], rtol=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_divisors_of_a_zero_stay(seed):
    """Without signs ``0 / x`` is 0: nothing needs x then, but the sign of the zero."""

    def f(x):
        angle = np.arctan2(x[2], 2.0)
        far = x[1] * (x[2] + angle) + x[0]
        zero = 0.0 / (2.0 + far * far)
        return np.array([np.arctan2(x[0], angle), np.arctan2(zero, x[2]), zero])

    x = np.array([0.5, 0.5, 2.0])
    values, jacobian = acc.value_and_jacobian(f, seed=seed, cache=False)(x)  # a mistake of the optimiser is a warning
    np.testing.assert_allclose(values, f(x), rtol=1e-14)
    angle = np.arctan2(2.0, 2.0)
    expected = np.array([angle, 0.0, -0.5 * 2.0 / (4.0 + 4.0)]) / (0.25 + angle**2)
    np.testing.assert_allclose(jacobian[0], expected, rtol=1e-12)
    np.testing.assert_array_equal(jacobian[1:], 0.0)


def test_only_operations_that_lead_to_arctan2_keep_signs_of_zeros():
    def f(x):
        y, z = 0.0 - x[0], x[1] + 0.0
        return np.arctan2(y, np.cos(z)), y * z, x[0] - x[1]

    tape = acc.trace(f, np.ones(2)).tape
    assert str(tape) == (
        "t2 = subtract(0.0, x0)\nt3 = cos(x1)\nt4 = atan2(t2, t3)\nt5 = multiply(x1, t2)\nt6 = subtract(x0, x1)\n"
        "return t4, t5, t6"
    )
    assert signed_zeros(tape).tolist() == [False, False, True, True, True, False, False]


def test_a_simpler_form_is_taken_where_zeros_have_no_sign():
    def f(x):
        y = x[0] - x[1]
        z = x[1] - x[0] + 0.0
        return np.arctan2(y, z), np.exp(z) * y

    tape = acc.trace(f, np.ones(2)).tape
    assert str(tape) == (
        "t2 = subtract(x0, x1)\nt3 = subtract(x1, x0)\nt4 = add(0.0, t3)\nt5 = atan2(t2, t4)\nt6 = exp(t3)\n"
        "t7 = multiply(t2, t6)\nreturn t5, t7"
    )


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.arity and not row.special], ids=lambda row: row.name)
def test_the_table_classifies_signs_of_zeros(row):
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, math.inf, -math.inf]
    changes, jumps = False, False
    real = [k for k in range(row.arity) if row.arguments[k] == "real"]
    for k in real:
        for rest in itertools.product(values, repeat=row.arity - 1):
            one, other = (float(row.evaluate(*map(np.float64, [*rest[:k], zero, *rest[k:]]))) for zero in (0.0, -0.0))
            if not math.isnan(one):
                changes |= one != other or math.copysign(1.0, one) != math.copysign(1.0, other)
                jumps |= one != other and math.isfinite(one)
    # the sign of either zero is 0, but that of its result is seen to where its argument is negated
    assert row.zero_signs == ("seen" if jumps else "kept" if changes or row.name == "sign" else "lost")


@pytest.mark.parametrize(
    "row", [row for row in OPERATIONS if row.special and not row.is_scipys], ids=lambda row: row.name
)
def test_special_functions_see_no_signs_of_zeros(row):
    order = [np.float64(3.0)] * (row.arity - 1)
    one, other = (float(row.evaluate(*order, np.float64(zero))) for zero in (0.0, -0.0))
    assert abs(one) == abs(other)
    # SciPy's own lose the sign of a zero result
    assert row.zero_signs == "kept" or (
        row.zero_signs == "lost" and math.copysign(1.0, one) == math.copysign(1.0, other)
    )


def test_functions_that_need_constant_zeros_are_recorded_without_signs():
    def f(x):
        return np.arctan2(x[0], -1.0) * [1.0, 2.0][int(0.0 * x[1])]

    value, slopes = acc.value_and_jacobian(f)(np.array([-0.0, 5.0]))
    assert value == -math.pi
    np.testing.assert_array_equal(slopes, [-1.0, 0.0])


def test_structural_zeros_stay_structural_where_zeros_have_signs():
    jacobian = acc.jacobian(lambda x: np.arctan2(x[1], -1.0) + (0.0 / x[0]) * x[1] + 0.0 * x[2] * x[0])
    slopes = jacobian(np.array([np.inf, 1.0, np.inf]))
    np.testing.assert_array_equal(slopes, [0.0, -0.5, 0.0])


# The set of operations -----------------------------------------------------------------------------------------------


def test_the_table_marks_jumps():
    assert {row.name for row in OPERATIONS if row.jumps} == {
        *("floor", "ceil", "sign", "fmod", "less", "less_equal", "equal", "not_equal", "gammasgn"),
    }


def test_operations_that_lead_to_a_jump_are_unchanged():
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


@settings(max_examples=40)
@given(exact_programs, st.lists(st.sampled_from([*range(-50, 51), 0.5, 1.5, 49.0, 98.0]), min_size=3, max_size=3))
def test_the_arguments_of_jumps_are_the_same_to_the_last_bit(program, point):
    """With the value of every jump for an output, they are NumPy's in the plain, rewritten and compiled program."""
    tape = program.tape()
    one, zero = tape.constant(1.0), tape.constant(0.0)
    jumps = [r for r in range(tape.inputs, len(tape)) if OPERATIONS[tape.codes[r]].jumps]
    tape.outputs = [tape.select(r, one, zero) if tape.is_boolean(r) else r for r in jumps] + tape.outputs
    inputs = np.array(point, float)
    expected = np.array(evaluate(tape, inputs)[: len(jumps)], float)
    for other in (canonical(tape), optimise(tape, effort="fast"), optimise(tape, seed=1)):
        np.testing.assert_array_equal(np.array(evaluate(other, inputs)[: len(jumps)], float), expected)
    positions = tuple(range(len(tape.outputs)))
    kernel = compile_tape(other, [Segment(len(positions), positions, positions)])
    np.testing.assert_array_equal(kernel(inputs)[0][: len(jumps)], expected)
