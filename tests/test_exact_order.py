"""`exact_order=True`: values, and all that derivatives take from f, are rounded as f is written, to the last bit."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from contexts import rewritten_by_rules as optimise
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Segment, canonical, compile_tape, evaluate, needed, targets
from programs import NUMPY, numpy_values, programs

import accumulus as acc
from accumulus import Tape
from accumulus.targets.llvm.host import host

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from functions import all_examples, suite

FUNCTIONS_AT_LARGE = {function.name: function for function in (*all_examples(), *suite())}
POINTS = 2000
SINGLE = 200
EPSILON_SPLIT = 134217729.0  # 2²⁷ + 1
#: How programs are made; none of it may change a bit.
OPTIONS = [
    {},
    {"optimise": False},
    {"effort": "thorough", "time_limit": 0.2},
    {"method": "reverse"},
]


# What rewriting would spoil ------------------------------------------------------------------------------------------


def divisions(x):
    return np.array([x[0] / 3.0 * x[1], x[1] / 3.0 + x[0] * x[1] / 7.0, 1.0 / x[0] + x[1] / x[0], x[2] / x[0] * x[1]])


def constants(x):
    a = x[0] * 0.1 * 3.0
    return np.array([a + 0.2 + 0.3, (x[1] + 1e16) - 1e16, 0.7 * (x[2] * 0.3), 2.0 * x[0] + x[0], x[1] / 4.0 * 0.1])


def sums(x):
    total = 0.0
    for k in range(len(x)):
        total = total + x[k]
    return np.array([total, x[0] * x[1] + x[0] * x[2], x[2] - x[1] * x[0], -x[0] - x[1], x[0] * x[1] - x[1] * x[2]])


def products(x):
    cube = x[0] * x[0] * x[0]
    return np.array([cube * x[1], x[1] * (x[0] * x[2]), (x[0] + x[1]) * (x[0] - x[1]), 1.0 - x[0] * x[0], cube / x[0]])


def roots(x):
    r = np.sqrt(x[0] * x[0] + x[1] * x[1] + 1.0)
    return np.array([r * r, x[0] / r, x[1] / r + x[2] / r, r / (r * r), np.sqrt(r) * r])


def branches(x):
    warm = np.where(x[0] > x[1], x[0] * x[2] + x[1], x[1] * x[2] - x[0])
    return np.array([warm * x[0], np.maximum(x[0] * x[1], x[2]) + x[0] * x[2], abs(x[0] - x[1]) * x[2] - x[1]])


def polynomial(x):
    value = 0.3
    for c in (0.1, -1.7, 0.9, -0.2, 1.1):
        value = value * x[0] + c
    return np.array([value, value * x[1] + value * x[2]])


def kahan(x):
    """Sum and the compensation (W. Kahan, Further remarks on reducing truncation errors, CACM 8, 1965)."""
    total, lost = 0.0, 0.0
    for k in range(len(x)):
        term = x[k] - lost
        new = total + term
        lost = (new - total) - term
        total = new
    return np.array([total, lost, total * x[0]])


def two_sum(a, b):
    """The sum and its rounding error (D. E. Knuth, The Art of Computer Programming 2, 4.2.2, theorem B)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def split(a):
    c = EPSILON_SPLIT * a
    high = c - (c - a)
    return high, a - high


def two_product(a, b):
    """The product and its rounding error (T. J. Dekker, Numerische Mathematik 18, 1971)."""
    p = a * b
    (a1, a2), (b1, b2) = split(a), split(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def error_terms(x):
    return np.array([*two_sum(x[0], x[1]), *two_product(x[0], x[1]), *two_product(x[1], x[2] / 3.0)])


def compensated_horner(x):
    """A polynomial near its multiple root (S. Graillat, P. Langlois, N. Louvet, 2005: compensated Horner scheme)."""
    at = 1.0 + x[0] * 1e-4
    value, correction = 1.0, 0.0
    for c in (-5.0, 10.0, -10.0, 5.0, -1.0):  # (x - 1)⁵
        product, lost = two_product(value, at)
        value, rounded = two_sum(product, c)
        correction = correction * at + (lost + rounded)
    return np.array([value, correction, value + correction])


def nearest_integer(x):
    whole = (100.0 * x[0] + 6755399441055744.0) - 6755399441055744.0  # 1.5 · 2⁵²
    return np.array([whole * x[1], (100.0 * x[0] - whole) * x[2]])


FUNCTIONS = [
    *(divisions, constants, sums, products, roots, branches, polynomial, kahan, error_terms, compensated_horner),
    nearest_integer,
]
every_function = pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)


def sample(dtype="float64"):
    return np.random.default_rng(1).normal(size=(POINTS, 3)).astype(dtype)


def assert_equal(actual, expected):
    """To the last bit, zeros of either sign."""
    np.testing.assert_array_equal(actual, expected, strict=True)


@every_function
def test_values_are_those_of_numpy_to_the_last_bit(f):
    X = sample()
    expected = np.array([f(x) for x in X])
    derivative = acc.value_and_jacobian(f, exact_order=True, cache=False, method="markowitz")
    assert_equal(derivative.batch(X)[0], expected)
    assert_equal(np.array([derivative(x)[0] for x in X[:SINGLE]]), expected[:SINGLE])


class InOrder(np.ndarray):
    """Arrays whose inner products are added from left to right, each product rounded.

    NumPy leaves them to BLAS, which fuses and reorders as the processor likes: its bits are those of one machine.
    """

    def __array_function__(self, function, types, arguments, keywords):
        if function is np.dot:
            return inner_product(*arguments)
        if function is np.linalg.norm:
            return np.sqrt(inner_product(arguments[0], arguments[0]))
        return super().__array_function__(function, types, arguments, keywords)

    def __matmul__(self, other):
        return inner_product(self, other)


def inner_product(a, b):
    total = a[..., 0] * b[0]
    for k in range(1, len(b)):
        total = total + a[..., k] * b[k]
    return total


@pytest.mark.parametrize("name", ["cyclic", "gravity_field", "nurbs_point", "pollu", "quadrotor", "rusanov_flux"])
def test_rational_functions_of_many_operations(name):
    function = FUNCTIONS_AT_LARGE[name]
    X = function.sample(SINGLE, seed=3)
    derivative = acc.value_and_jacobian(function.function, exact_order=True, effort="fast", cache=False)
    assert_equal(derivative.batch(X)[0], np.array([np.asarray(function.function(x.view(InOrder))) for x in X]))


@pytest.mark.parametrize(("target", "dtype"), [("llvm", "float32"), ("numpy", "float64"), ("numpy", "float32")])
@every_function
def test_every_target_and_precision(f, target, dtype):
    X = sample(dtype)[:SINGLE]
    expected = np.array([f(x) for x in X]).astype(dtype)
    options = {"method": "markowitz", "effort": "fast", "cache": False}
    derivative = acc.value_and_jacobian(f, exact_order=True, target=target, dtype=dtype, **options)
    assert_equal(derivative.batch(X)[0], expected)
    assert_equal(derivative(X[0])[0], expected[0])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_derivatives_take_values_as_f_rounds_them(options):
    def factor(x):
        return (x[1] / 3.0 * x[2] + x[2] * 0.1) - x[1] * x[1]

    jacobian = acc.jacobian(lambda x: np.array([x[0] * factor(x)]), exact_order=True, cache=False, **options)
    X = sample()
    expected = np.array([factor(x) for x in X])
    assert_equal(jacobian.batch(X)[:, 0, 0], expected)
    assert_equal(np.array([jacobian(x)[0, 0] for x in X[:SINGLE]]), expected[:SINGLE])


@every_function
def test_jacobians_are_those_of_the_default_up_to_rounding(f):
    X = sample()
    options = {"method": "markowitz", "effort": "fast", "cache": False}
    exact = acc.jacobian(f, exact_order=True, **options).batch(X)
    scale = np.maximum(1.0, np.max(np.abs(exact), axis=(1, 2), keepdims=True))
    for jacobian in (
        acc.jacobian(f, **options).batch(X),
        acc.value_and_jacobian(f, exact_order=True, **options).batch(X)[1],
    ):
        assert np.all(np.abs(jacobian - exact) <= 1e-11 * scale)


def test_nothing_that_only_values_need_is_compiled():
    def f(x):
        return np.array([np.sin(x[0]) + np.exp(x[1]) / 3.0 + x[0] * x[1]])

    program = acc.jacobian(f, exact_order=True, cache=False).compile(np.ones(2))
    names = [program.tape.operation(r).name for r in range(program.tape.inputs, len(program.tape))]
    assert all(needed(program.tape)[program.tape.inputs :])
    assert program.operations == len(names)
    assert "sin" not in names
    np.testing.assert_allclose(program(np.ones(2)), [[np.cos(1.0) + 1.0, np.e / 3.0 + 1.0]], rtol=1e-15)


def test_operations_of_derivatives_are_rewritten():
    def f(x):
        r = np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2])
        return np.array([x[0] / r, x[1] / r, x[2] / r])

    counts = [
        acc.value_and_jacobian(f, exact_order=True, optimise=on, cache=False).compile(np.ones(3)).operations
        for on in (True, False)
    ]
    assert counts[0] < counts[1]


# Elementary functions: against f compiled alone -----------------------------------------------------------------------


def elementary(x):
    a = np.sin(x[0]) * np.cos(x[0]) + np.exp(x[1]) / 3.0
    return np.array(
        [a * np.tanh(x[2]), np.log(1.0 + x[0] * x[0]) - a, np.sin(x[0]) ** 2 + np.cos(x[0]) ** 2, x[1] ** 3]
    )


def of_a_library(x):
    return np.array(
        [np.log1p(x[0] * x[0]) * x[1] + np.cbrt(x[2]), np.cosh(x[1]) - abs(x[0]) ** 1.5, np.hypot(x[0], x[1])]
    )


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("f", [elementary, of_a_library], ids=lambda f: f.__name__)
def test_elementary_functions_are_those_of_f_compiled_alone(f, target):
    X = sample()
    tape = acc.trace(f, X[0]).tape
    everything = tuple(range(len(tape.outputs)))
    alone = compile_tape(tape, [Segment(len(everything), everything, everything)], target, exact=range(len(tape)))
    derivative = acc.value_and_jacobian(f, exact_order=True, cache=False, target=target)
    assert_equal(derivative.batch(X)[0], alone.batch(X)[0])
    assert_equal(np.array([derivative(x)[0] for x in X[:SINGLE]]), np.array([alone(x)[0] for x in X[:SINGLE]]))


# Any program ----------------------------------------------------------------------------------------------------------

ROUNDED = (
    *(
        "add",
        "subtract",
        "multiply",
        "divide",
        "negative",
        "sqrt",
        "abs",
        "sign",
        "minimum",
        "maximum",
        "floor",
        "fmod",
    ),
    *("less", "less_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not", "select"),
)
NUMBERS = (0.0, 1.0, -1.0, 2.0, -0.5, 3.0, 0.1, -1e16, 7.0)
COORDINATES = st.lists(st.floats(-8.0, 8.0).map(lambda x: round(x, 3)), min_size=3, max_size=3)


def finite(program, points):
    """Those of the points at which no value of the program is infinite or NaN."""
    return [x for x in points if all(np.isfinite(float(value)) for value in numpy_values(program, x))]


@given(
    program=programs(ROUNDED, constants=NUMBERS),
    points=st.lists(COORDINATES, min_size=1, max_size=5),
)
def test_random_programs_are_rounded_as_numpy_rounds_them(program, points):
    points = finite(program, points)
    if not points:
        return

    def f(x):
        return np.array(program.run(list(x), NUMPY, np.float64))

    X = np.array(points)
    with np.errstate(all="ignore"):
        expected = np.array([f(x) for x in X])
    derivative = acc.value_and_jacobian(f, exact_order=True, method="reverse", cache=False)
    assert_equal(derivative.batch(X)[0], expected)
    assert_equal(np.array([derivative(x)[0] for x in X]), expected)


@settings(max_examples=2 * settings().max_examples)
@given(
    program=programs(constants=NUMBERS, exponents=(-2.0, 3.0, 0.5, 1.7), steps=20),
    points=st.lists(COORDINATES, min_size=1, max_size=5),
    kept_outputs=st.integers(0, 2),
    rewrite=st.sampled_from([canonical, lambda tape, kept: optimise(tape, kept_outputs=kept)]),
)
def test_rewriting_keeps_the_first_outputs(program, points, kept_outputs, rewrite):
    tape = program.tape()
    kept_outputs = min(kept_outputs, len(tape.outputs))
    rewritten = rewrite(tape, kept_outputs)
    for x in points:
        inputs = [np.float64(value) for value in x]
        if all(np.isfinite(float(value)) for value in evaluate(tape, inputs)):
            assert evaluate(rewritten, inputs)[:kept_outputs] == evaluate(tape, inputs)[:kept_outputs]


# The targets ----------------------------------------------------------------------------------------------------------


def multiply_add():
    """x0 x1 + x2, twice: once by operations that may be fused, once by exact ones."""
    tape = Tape(3)
    product = tape.multiply(0, 1)
    tape.outputs = [tape.add(product, 2)]
    return tape, (Segment(1, (0,), (0,)),)


@pytest.mark.parametrize("exact", [{3, 4}, {3}, {4}], ids=str)
def test_operations_are_fused_only_if_neither_is_exact(exact):
    tape, segments = multiply_add()
    X = sample()
    apart = X[:, 0] * X[:, 1] + X[:, 2]
    kernel = compile_tape(tape, segments, exact=exact)
    assert_equal(kernel.batch(X)[0][:, 0], apart)
    assert_equal(np.array([kernel(x)[0][0] for x in X]), apart)
    transposed = kernel.batch(np.ascontiguousarray(X.T), transposed=True)[0][0]
    assert_equal(transposed, apart)


@pytest.mark.skipif(not host().fused, reason="this machine does not fuse")
def test_other_operations_are_fused():
    tape, segments = multiply_add()
    X = sample()
    assert np.any(compile_tape(tape, segments).batch(X)[0][:, 0] != X[:, 0] * X[:, 1] + X[:, 2])


def test_exact_operations_of_a_program_in_parts():
    rng = np.random.default_rng(2)
    tape = Tape(3)
    values = [0, 1, 2]
    for _ in range(1500):
        a, b, c = (values[-1 - int(k)] for k in rng.integers(0, 3, 3))
        values.append(
            tape.add(tape.multiply(tape.multiply(a, b), tape.constant(0.01)), tape.multiply(c, tape.constant(0.99)))
        )
    tape.outputs = values[-3:]
    segments = (Segment(3, (0, 1, 2), (0, 1, 2)),)
    X = sample()[:100]
    expected = compile_tape(tape, segments, "numpy").batch(X)[0]
    assert_equal(compile_tape(tape, segments, exact=range(len(tape))).batch(X)[0], expected)
    assert not host().fused or np.any(compile_tape(tape, segments).batch(X)[0] != expected)
