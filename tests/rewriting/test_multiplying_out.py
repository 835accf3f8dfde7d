"""Programs multiplied out: the same values, shorter derivatives of rotations, and no more wrong than they were."""

from __future__ import annotations

from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import Context, evaluate, with_folding
from programs import RATIONAL, programs, small_fraction

import accumulus as acc
from accumulus import Tape
from accumulus.options import SWITCH, Options
from accumulus.programs import rewritten
from accumulus.resubstitution import optimise as resubstitution
from accumulus.rewriting import polynomials
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.polynomials import multiplied_out
from accumulus.rewriting.rounding import Limits, points_of

FIELD = ("add", "subtract", "multiply", "divide", "negative")
DYADIC = (1.0, -1.0, 2.0, 0.5, 3.0)


def multiplied_out_of_any_length(tape: Tape) -> Tape | None:
    with mock.patch.object(polynomials, "LENGTH", np.inf):
        return multiplied_out(tape)


def small(tape: Tape) -> bool:
    """Return True if constants are fractions that are added and multiplied without rounding."""
    return all(map(small_fraction, tape.constants))


@settings(max_examples=60)
@given(
    program=st.one_of(
        programs(RATIONAL, constants=DYADIC, exponents=(2.0, 3.0, -1.0), steps=20),
        programs(("add", "subtract", "multiply"), constants=DYADIC, exponents=(), inputs=2, steps=25),
        programs((*FIELD, "less", "select", "floor", "sign"), constants=DYADIC, exponents=(), steps=20),
    ),
    points=st.lists(st.tuples(*[st.fractions(-4, 4, max_denominator=5)] * 3), min_size=3, max_size=3),
)
def test_exactly_equal_wherever_it_was_defined(program, points):
    tape = canonical(program.tape())
    result = multiplied_out_of_any_length(tape)
    assume(result is not None and small(tape) and small(result))
    arithmetic = RATIONAL | {"floor": lambda x: Fraction(x.__floor__())}
    for point in points:
        try:
            expected = evaluate(tape, point[: tape.inputs], arithmetic, Fraction)
        except ZeroDivisionError:
            continue
        assert evaluate(result, point[: tape.inputs], arithmetic, Fraction) == expected


@settings(max_examples=20)
@given(
    program=programs((*FIELD, "sqrt", "less", "select", "floor", "sign"), constants=(*DYADIC, 0.1), steps=20),
)
def test_operations_rounded_as_written_are_equal_to_the_last_bit(program):
    base = canonical(program.tape())
    base.outputs = [k for k in base.outputs if k >= 0 and base.operation(k).name in ("floor", "sign")]
    result = multiplied_out_of_any_length(base)
    assume(result is not None)
    points = list(np.random.default_rng(0).choice([0.0, 1.0, -1.0, 0.5, 3.0, 0.3], (base.inputs, 60)))
    with np.errstate(all="ignore"):
        for a, b in zip(evaluate(base, points), evaluate(result, points), strict=True):
            np.testing.assert_array_equal(a, b)


def test_long_programs_are_not_written():
    tape = Tape(8)
    tape.outputs = [0]
    for k in range(1, 8):
        tape.outputs = [tape.multiply(tape.outputs[0], tape.add(k, k - 1))]
    assert multiplied_out(tape) is None


def test_sums_with_a_number_are_no_sums_of_terms():
    """(1 - s)·(1 - t) is exact for s and t close to 1; 1 - s - t + s·t is not."""
    tape = Tape(2)
    one = tape.constant(1.0)
    product = tape.multiply(tape.subtract(one, 0), tape.subtract(one, 1))
    tape.outputs = [tape.subtract(product, tape.multiply(0, 1)), product]
    written = multiplied_out(tape)
    s, t = 1.0 - 2.0**-30, 1.0 - 2.0**-40
    assert written is None or evaluate(written, [s, t])[1] == 2.0**-70


def compensated(terms):
    """Kahan's sum."""
    total = rest = 0.0
    for term in terms:
        corrected = term - rest
        more = total + corrected
        rest = (more - total) - corrected
        total = more
    return np.array([total, rest])


def exact_product(x):
    """Dekker's product of two numbers, and its error."""
    high = [(c := 134217729.0 * a) - (c - a) for a in x]
    low = [a - b for a, b in zip(x, high, strict=True)]
    product = x[0] * x[1]
    error = ((high[0] * high[1] - product) + high[0] * low[1] + low[0] * high[1]) + low[0] * low[1]
    return np.array([product, error])


def nothing(x):
    return np.array([x[0] - x[0], x[1]])


@pytest.mark.parametrize("function", [compensated, exact_product, nothing])
def test_expressions_that_depend_on_rounding_or_infinity_stay(function):
    assert multiplied_out(canonical(acc.trace(function, np.array([0.1, 0.3])).tape)) is None


def test_products_of_constants_are_folded_exactly():
    """Rounded ones are noted; those that are no short fractions are atoms of a monomial."""
    tape = with_folding(Tape(2))
    numbers = [tape.constant(number) for number in (0.1, 0.3, 1.0 / 3.0, 7.0)]
    scaled = [tape.multiply(a, b) for a, b in zip(numbers, (0, 1, 0, 1), strict=True)]
    tape.outputs = [
        tape.subtract(
            tape.multiply(tape.add(scaled[0], scaled[1]), tape.add(scaled[2], scaled[3])),
            tape.multiply(scaled[1], scaled[3]),
        )
    ]
    made = multiplied_out_of_any_length(tape)
    assert made is not None
    point = [Fraction(3, 7), Fraction(-5, 11)]
    before, after = (evaluate(each, point, RATIONAL, each.folding.of) for each in (tape, made))
    assert before == after
    assert made.folding.fractions


@pytest.mark.parametrize("number", [1e200, 1e-200, 1.7e308])
def test_products_of_constants_may_be_out_of_range(number):
    def f(x):
        return np.array([(x[0] * number) * (x[1] * number), x[1]])

    for at in ([1.0, 1.0], [1.0 / number, 0.5 / number]):
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(acc.compile(f, cache=False)(np.array(at)), f(at), rtol=1e-14)


def test_constants_that_are_no_short_fractions_are_atoms():
    tape = Tape(2)
    third = tape.constant(1.0 / 3.0)
    tape.outputs = [tape.subtract(tape.multiply(third, tape.add(0, 1)), tape.multiply(third, 1))]
    assert str(multiplied_out(tape)) == f"t2 = multiply({1 / 3!r}, x0)\nreturn t2"


def hamilton(a, b):
    (i, j, k, r), (x, y, z, w) = a, b
    return np.array(
        [
            r * x + i * w + j * z - k * y,
            r * y - i * z + j * w + k * x,
            r * z + i * y - j * x + k * w,
            r * w - i * x - j * y - k * z,
        ]
    )


def rotated(q, p):
    x, y, z, w = q
    matrix = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(matrix) @ p


def with_tangent(q, p):
    """A rotated point and its derivative with respect to the tangent vector, at 0."""
    moved = acc.jacobian(lambda d: rotated(hamilton(q, np.array([*(0.5 * d), 1.0])), p))
    return rotated(q, p), moved(np.zeros(3))


def by_chain(q, p):
    """Return the same as the product of two Jacobians."""
    x, y, z, w = q
    value, jacobian = acc.value_and_jacobian(rotated)(q, p)
    return value, jacobian @ (0.5 * np.array([[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]]))


ROTATION = np.array([0.1, -0.4, 0.3, 0.0])
ROTATION[3] = np.sqrt(1.0 - ROTATION @ ROTATION)
POINT = np.array([1.0, -2.0, 3.0])


@pytest.mark.parametrize("function", [with_tangent, by_chain])
@pytest.mark.parametrize("target", ["llvm", "numpy"])
def test_derivatives_of_rotations(function, target):
    compiled = acc.compile(function, target=target, cache=False)
    value, tangent = compiled(ROTATION, POINT)
    # R(q) p, and by the tangent vector -R(q) [p]×
    matrix = np.stack([rotated(ROTATION, unit) for unit in np.eye(3)], axis=1)
    cross = np.stack([np.cross(POINT, unit) for unit in np.eye(3)], axis=1)
    np.testing.assert_allclose(value, matrix @ POINT, rtol=1e-14)
    np.testing.assert_allclose(tangent, -matrix @ cross, rtol=1e-13, atol=1e-14)
    assert compiled.operations <= 82


def test_expanded_terms_cancel():
    squared, expanded = Tape(2), Tape(2)
    difference = squared.subtract(0, 1)
    squared.outputs = [squared.multiply(difference, difference)]
    squares = [expanded.multiply(0, 0), expanded.multiply(1, 1)]
    twice = expanded.multiply(expanded.constant(2.0), expanded.multiply(0, 1))
    expanded.outputs = [expanded.subtract(expanded.add(*squares), twice)]
    at = points_of(squared, np.array([[1.0, 1.0 + 1e-6], [3.0, 3.0 - 1e-5]]), np.random.default_rng(0))
    assert Limits.of(squared, at).is_worse(expanded)
    assert not Limits.of(expanded, at).is_worse(squared)


def tape_of(function):
    return acc.trace(function, ROTATION, POINT).tape


def test_more_uncertain_programs_are_left_to_rules(monkeypatch):
    tape = tape_of(by_chain)
    short = resubstitution.optimise(tape)
    monkeypatch.setattr(Limits, "worse", lambda self, tape, times: list(range(len(tape.outputs))))
    left = resubstitution.optimise(tape)
    assert left.operations > short.operations


def test_rounding_is_looked_at_where_a_program_is_recalled(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path))
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(resubstitution, "BRIEF", (280, 1200))  # programs by value are recalled at the same points alone
    tape = tape_of(by_chain)

    def recalled(worse):
        looked = []
        monkeypatch.setattr(Limits, "worse", lambda self, tape, times: looked.append(tape) or worse * [0])
        result = rewritten.rewritten(tape, Context(Options()), resubstitution.Rounds(), None)
        assert looked
        return result.recalled, result.tape.operations

    turns = [recalled(worse) for worse in (False, False, True, False)]
    assert [is_recalled for is_recalled, _ in turns] == [False, True, False, True]
    operations = [operations for _, operations in turns]
    # what is refused is rewritten, and stored, again
    assert operations[0] == operations[1] < operations[2] == operations[3]


def test_squares_of_squares_are_not_multiplied_out():
    """Their terms would have 2⁶⁰ factors."""
    tape = Tape(2)
    power = 0
    for _ in range(60):
        power = tape.multiply(power, power)
    tape.outputs = [tape.add(tape.multiply(power, 1), tape.multiply(power, 0))]
    made = multiplied_out(canonical(tape))
    assert made is None or made.operations <= 2 * tape.operations
