"""The optimiser: the same numbers, in a form that does not change again, with what can be shared shared."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache

import loops
import numpy as np
import pytest
from exact import EPSILON, exact_values, mp, mpf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import BY_NAME, evaluate, linearize, needed
from programs import RATIONAL, SMOOTH, programs, small_fraction

from accumulus import Tape
from accumulus.rewriting.canonical import LARGEST_CHAIN, canonical

EXPONENTS = (
    -7.0,
    -3.0,
    -2.5,
    -2.0,
    -1.5,
    -1.0,
    -0.75,
    0.25,
    0.75,
    1.25,
    1.5,
    2.0,
    2.25,
    2.5,
    3.0,
    3.25,
    6.0,
    70.0,
    71.0,
)
WHOLE = tuple(p for p in EXPONENTS if p.is_integer() and abs(p) < 10)
DYADIC = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5)
any_program = programs(exponents=EXPONENTS)
of_powers_and_quotients = programs(
    ("divide", "power", "multiply", "sqrt", "negative"), constants=(1.0, 3.0), exponents=EXPONENTS, inputs=2, steps=8
)
without_powers = programs(set(BY_NAME) - {"input", "power"})


def power(*exponents: float) -> Tape:
    tape = Tape(1)
    tape.outputs = [tape.power(0, tape.constant(p)) for p in exponents]
    return tape


def names(tape: Tape) -> Counter[str]:
    return Counter(tape.operation(r).name for r in range(tape.inputs, len(tape)))


@given(
    program=programs(RATIONAL, constants=DYADIC, exponents=WHOLE, steps=8),
    point=st.tuples(*[st.fractions(-4, 4, max_denominator=5)] * 3),
)
def test_optimised_tapes_are_exactly_equal_in_rational_arithmetic(program, point):
    tape = canonical(program.tape())
    assume(all(map(small_fraction, tape.constants)))
    try:
        expected = evaluate(program.tape(), point, RATIONAL, Fraction)
    except ZeroDivisionError:
        assume(False)
    assert evaluate(tape, point, RATIONAL, Fraction) == expected


@given(
    program=programs((*SMOOTH, "abs", "minimum", "maximum"), constants=DYADIC, exponents=EXPONENTS),
    point=st.tuples(*[st.floats(0.125, 4.0)] * 3),
)
def test_optimised_tapes_are_equal_in_high_precision(program, point):
    tape = program.tape()
    expected, got = exact_values(tape, point), exact_values(canonical(tape), point)
    for a, b in zip(expected, got, strict=True):
        same = mp.isnan(b) if mp.isnan(a) else a == b or mp.almosteq(a, b, 1e-25, 1e-25)
        assert same, f"{a} became {b}"


@given(program=st.one_of(any_program, of_powers_and_quotients))
def test_idempotent_and_deterministic(program):
    tape = program.tape()
    before = str(tape)
    once = canonical(tape)
    assert str(once) == str(canonical(program.tape()))
    assert str(once) == str(canonical(once))
    assert str(tape) == before


@settings(max_examples=20)
@given(program=st.one_of(any_program, of_powers_and_quotients), kept_outputs=st.integers(0, 2))
def test_all_operations_at_once_as_one_after_the_other(program, kept_outputs):
    tape = program.tape()
    kept_outputs = min(kept_outputs, len(tape.outputs))
    assert str(canonical(tape, kept_outputs)) == str(loops.canonical(tape, kept_outputs))


@given(program=any_program)
def test_nothing_is_dead_and_the_shape_is_unchanged(program):
    tape = program.tape()
    result = canonical(tape)
    assert (result.inputs, len(result.outputs)) == (tape.inputs, len(tape.outputs))
    assert all(needed(result)[result.inputs :])


@given(program=without_powers)
def test_never_more_operations_but_for_chains_of_products(program):
    tape = program.tape()
    result = canonical(tape)
    assert result.operations <= tape.operations
    assert names(result)["divide"] <= names(tape)["divide"]


HALVES = [k / 2 for k in range(-140, 141)]
REALS = [1.3, -1.3, 2.7, -2.7, 1e-9, 1e3, -1e3, 1e17, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("exponent", [*HALVES, *REALS])
def test_powers_at_special_points_are_those_of_numpy(exponent):
    special = np.array([0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, -2.0])
    with np.errstate(all="ignore"):
        expected = np.power(special, exponent)
    if not exponent.is_integer() and (2 * exponent).is_integer() and abs(exponent) <= LARGEST_CHAIN:
        expected[2] = math.nan  # the documented difference: a square root of -inf
    (got,) = evaluate(canonical(power(exponent)), [special])
    np.testing.assert_allclose(np.broadcast_to(got, special.shape), expected, rtol=1e-13)


@cache
def chain_of(exponent: float) -> Tape:
    return canonical(power(exponent))


@settings(max_examples=10)
@given(x=st.floats(0.25, 4.0))
def test_rounding_of_chains(x):
    for exponent in HALVES:
        (got,) = evaluate(chain_of(exponent), [x])
        exact = mp.power(x, exponent)
        # half a unit for each product, for the reciprocal and for the root, times the power that they are raised to
        each = 0.5 if exponent >= 0 else 1.0 if exponent.is_integer() else 3.0
        units = 1 + each * min(abs(exponent), LARGEST_CHAIN)
        assert abs(mpf(float(got)) - exact) <= units * EPSILON * exact


def test_whole_and_half_powers_take_no_call_of_pow():
    tape = canonical(power(*(p for p in HALVES if abs(p) <= LARGEST_CHAIN)))
    assert set(names(tape)) == {"multiply", "divide", "sqrt"}
    assert names(tape)["sqrt"] == 1
    assert names(tape)["divide"] == 2, "1/x and 1/sqrt(x), each shared by all"


#: Exponents that occur together, and the operations that they take together.
TOGETHER = {
    (3.0, 2.0): {"multiply": 2},
    (5.0, 4.0, 3.0): {"multiply": 4},
    (-1.0, -2.0): {"divide": 1, "multiply": 1},
    (1.5, 0.5): {"sqrt": 1, "multiply": 1},
    (2.25, 1.25): {"power": 1, "multiply": 1},
    (3.25, 2.25, 1.25, 0.25): {"power": 1, "multiply": 3},
    (-0.25, -1.25, -2.25): {"power": 1, "divide": 2},
    (0.25, -0.75): {"power": 2},  # x · x^-0.75 would be NaN at 0
    (66.0, 65.0, 64.0): {"multiply": 8},
    (100.0, 99.0): {"power": 1, "multiply": 1},
    (1e17, 1e17 - 16): {"power": 2},
    (math.inf,): {"power": 1},
}


@pytest.mark.parametrize("exponents", TOGETHER)
def test_powers_share(exponents):
    assert names(canonical(power(*exponents))) == TOGETHER[exponents]


def quotients(write):
    tape = Tape(3)
    tape.outputs = write(tape, tape.constant(1.0))
    return tape


#: Outputs over the inputs 0, 1, 2 and the constant one, and how many divisions they take.
DIVISIONS = {
    "a/c": (lambda t, one: [t.divide(0, 2)], 1),
    "a/c and 1/c": (lambda t, one: [t.divide(0, 2), t.divide(one, 2)], 1),
    "a/c, b/c and -1/c": (lambda t, one: [t.divide(0, 2), t.divide(1, 2), t.divide(t.constant(-1.0), 2)], 1),
    "a/b and 1/c": (lambda t, one: [t.divide(0, 1), t.divide(one, 2)], 2),
    "a/c and c**-3": (lambda t, one: [t.divide(0, 2), t.power(2, t.constant(-3.0))], 1),
    "a/sqrt(c) and c**-1.5": (lambda t, one: [t.divide(0, t.apply("sqrt", 2)), t.power(2, t.constant(-1.5))], 1),
    "a/c**3 and 1/(c*(c*c))": (
        lambda t, one: [t.divide(0, t.power(2, t.constant(3.0))), t.divide(one, t.multiply(2, t.multiply(2, 2)))],
        1,
    ),
    "a/3": (lambda t, one: [t.divide(0, t.constant(3.0))], 0),
    "a/0": (lambda t, one: [t.divide(0, t.constant(0.0))], 1),
    "a/1e308": (lambda t, one: [t.divide(0, t.constant(1e308))], 1),
}


@pytest.mark.parametrize("case", DIVISIONS)
def test_reciprocals_are_shared(case):
    write, divisions = DIVISIONS[case]
    tape = quotients(write)
    result = canonical(tape)
    assert names(result)["divide"] == divisions
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(evaluate(result, [3.0, 5.0, 7.0]), evaluate(tape, [3.0, 5.0, 7.0]), rtol=4e-16)


def test_attachments_are_gone_after_differentiation():
    tape = Tape(2)
    attached = tape.apply("attach", tape.apply("sin", 0), 1)
    tape.outputs = [tape.multiply(attached, 1), attached]
    assert str(canonical(tape)) == "t2 = sin(x0)\nt3 = multiply(x1, t2)\nreturn t3, t2"
    linearization = linearize(tape)
    assert 0 not in linearization.graph.targets.tolist()
    assert BY_NAME["attach"].code not in linearization.tape.codes


def test_quotients_by_numbers_on_tapes_of_more_numbers_than_operations():
    tape = Tape(1)
    numbers = [tape.constant(value) for value in (2.5, 3.5, 4.5, 5.5, 7.0)]
    tape.outputs = [tape.divide(0, numbers[-1]), *numbers]
    assert evaluate(canonical(tape), [3.0]) == evaluate(tape, [3.0])
