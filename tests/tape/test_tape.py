"""The tape: what is hash-consed, what is simplified and what is not, and that all of it keeps the numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from programs import NUMPY, RATIONAL, numpy_values, programs, small_fraction

from accumulus import Tape
from accumulus.errors import ArgumentError, UnknownNameError
from accumulus.tape.columns import Range, column, references_in
from accumulus.tape.interpreter import evaluate
from accumulus.tape.moving import unroll
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import Program
from accumulus.tape.tape import from_bytes, to_bytes

FUNCTIONS = sorted(set(BY_NAME) - {"input", "power"})


class Builder:
    """A tape of two inputs with names for what the cases below write."""

    def __init__(self) -> None:
        self.tape = Tape(2)
        self.x, self.y = 0, 1

    def __call__(self, name: str, *arguments: int | float) -> int:
        return self.tape.apply(name, *(self.tape.constant(a) if isinstance(a, float) else a for a in arguments))


#: What is written, and what the tape holds then.
SIMPLIFIED = {
    "x + 0": (lambda t: t("add", t.x, 0.0), "x0"),
    "0 + x": (lambda t: t("add", 0.0, t.x), "x0"),
    "x - 0": (lambda t: t("subtract", t.x, 0.0), "x0"),
    "x * 1": (lambda t: t("multiply", t.x, 1.0), "x0"),
    "x / 1": (lambda t: t("divide", t.x, 1.0), "x0"),
    "--x": (lambda t: t("negative", t("negative", t.x)), "x0"),
    "x ** 1": (lambda t: t("power", t.x, 1.0), "x0"),
    "x ** 0": (lambda t: t("power", t.x, 0.0), "1.0"),
    "x * 0": (lambda t: t("multiply", t.x, 0.0), "0.0"),
    "0 / x": (lambda t: t("divide", 0.0, t.x), "0.0"),
    "0 - x": (lambda t: t("subtract", 0.0, t.x), "negative(x0)"),
    "x * -1": (lambda t: t("multiply", t.x, -1.0), "negative(x0)"),
    "x / -1": (lambda t: t("divide", t.x, -1.0), "negative(x0)"),
    "-1 / x": (lambda t: t("divide", -1.0, t.x), "negative(divide(1.0, x0))"),
    "x + -y": (lambda t: t("add", t.x, t("negative", t.y)), "subtract(x0, x1)"),
    "-x + y": (lambda t: t("add", t("negative", t.x), t.y), "subtract(x1, x0)"),
    "x - -y": (lambda t: t("subtract", t.x, t("negative", t.y)), "add(x0, x1)"),
    "-x - y": (lambda t: t("subtract", t("negative", t.x), t.y), "negative(add(x0, x1))"),
    "-x * y": (lambda t: t("multiply", t("negative", t.x), t.y), "negative(multiply(x0, x1))"),
    "-x * -y": (lambda t: t("multiply", t("negative", t.x), t("negative", t.y)), "multiply(x0, x1)"),
    "3 * -x": (lambda t: t("multiply", 3.0, t("negative", t.x)), "multiply(-3.0, x0)"),
    "-x / y": (lambda t: t("divide", t("negative", t.x), t.y), "negative(divide(x0, x1))"),
    "x / -y": (lambda t: t("divide", t.x, t("negative", t.y)), "negative(divide(x0, x1))"),
    "sin(-x)": (lambda t: t("sin", t("negative", t.x)), "negative(sin(x0))"),
    "cos(-x)": (lambda t: t("cos", t("negative", t.x)), "cos(x0)"),
    "sin(y - x) after x - y": (
        lambda t: (t("subtract", t.x, t.y), t("sin", t("subtract", t.y, t.x)))[1],
        "negative(sin(subtract(x0, x1)))",
    ),
    "x + x": (lambda t: t("add", t.x, t.x), "multiply(2.0, x0)"),
    "x / 8": (lambda t: t("divide", t.x, 8.0), "multiply(0.125, x0)"),
    "x ** 2": (lambda t: t("power", t.x, 2.0), "multiply(x0, x0)"),
    "x ** 0.5": (lambda t: t("power", t.x, 0.5), "sqrt(x0)"),
    "x ** -0.5": (lambda t: t("power", t.x, -0.5), "divide(1.0, sqrt(x0))"),
    "x ** -1": (lambda t: t("power", t.x, -1.0), "divide(1.0, x0)"),
    "2 * 3": (lambda t: t("multiply", 2.0, 3.0), "6.0"),
    "1 / 0": (lambda t: t("divide", 1.0, 0.0), "inf"),
    "log(0)": (lambda t: t("log", 0.0), "-inf"),
    "sqrt(-1)": (lambda t: t("sqrt", -1.0), "nan"),
    "1 < 2": (lambda t: t("less", 1.0, 2.0), "1.0"),
    "select(c, x, x)": (lambda t: t("select", t("less", t.x, t.y), t.x, t.x), "x0"),
    "select(true, x, y)": (lambda t: t("select", 1.0, t.x, t.y), "x0"),
    "select(false, x, y)": (lambda t: t("select", 0.0, t.x, t.y), "x1"),
    "min(x, inf)": (lambda t: t("minimum", t.x, math.inf), "x0"),
    "max(-inf, x)": (lambda t: t("maximum", -math.inf, t.x), "x0"),
    "not not c": (lambda t: t("logical_not", t("logical_not", t("less", t.x, t.y))), "less(x0, x1)"),
    "not x == y": (lambda t: t("logical_not", t("equal", t.x, t.y)), "not_equal(x0, x1)"),
    "c and true": (lambda t: t("logical_and", t("less", t.x, t.y), 1.0), "less(x0, x1)"),
    "c and false": (lambda t: t("logical_and", t("less", t.x, t.y), 0.0), "0.0"),
    "c or true": (lambda t: t("logical_or", 1.0, t("less", t.x, t.y)), "1.0"),
    "c or c": (lambda t: t("logical_or", t("less", t.x, t.y), t("less", t.x, t.y)), "less(x0, x1)"),
}
#: What is not the same number for infinite or NaN arguments, or rounds differently, and so stays.
KEPT = {
    "x - x": (lambda t: t("subtract", t.x, t.x), "subtract(x0, x0)"),
    "x / x": (lambda t: t("divide", t.x, t.x), "divide(x0, x0)"),
    "x + -x": (lambda t: t("add", t.x, t("negative", t.x)), "subtract(x0, x0)"),
    "x / 3": (lambda t: t("divide", t.x, 3.0), "divide(x0, 3.0)"),
    "x / 2^-1074": (lambda t: t("divide", t.x, 2.0**-1074), "divide(x0, 5e-324)"),
    "x / 0": (lambda t: t("divide", t.x, 0.0), "divide(x0, 0.0)"),
    "x / -0": (lambda t: t("divide", t.x, -0.0), "divide(x0, -0.0)"),
    "x / inf": (lambda t: t("divide", t.x, math.inf), "divide(x0, inf)"),
    "x * inf": (lambda t: t("multiply", t.x, math.inf), "multiply(inf, x0)"),
    "max(x, inf)": (lambda t: t("maximum", t.x, math.inf), "maximum(inf, x0)"),
    "min(-inf, x)": (lambda t: t("minimum", -math.inf, t.x), "minimum(-inf, x0)"),
    "x == x": (lambda t: t("equal", t.x, t.x), "equal(x0, x0)"),
    "not x < y": (lambda t: t("logical_not", t("less", t.x, t.y)), "logical_not(less(x0, x1))"),
    "(x + y) + 1": (lambda t: t("add", t("add", t.x, t.y), 1.0), "add(1.0, add(x0, x1))"),
    "2 * (3 * x)": (lambda t: t("multiply", 2.0, t("multiply", 3.0, t.x)), "multiply(2.0, multiply(3.0, x0))"),
}


def nested(tape: Tape, reference: int) -> str:
    """The reference as one expression."""
    if reference < tape.inputs:
        return tape.name(reference)
    arguments = ", ".join(nested(tape, a) for a in tape.arguments(reference))
    return f"{tape.operation(reference).name}({arguments})"


@pytest.mark.parametrize(("write", "expected"), [*SIMPLIFIED.values(), *KEPT.values()], ids=[*SIMPLIFIED, *KEPT])
def test_simplification(write, expected):
    builder = Builder()
    assert nested(builder.tape, write(builder)) == expected


def test_opposite_differences_share():
    tape = Tape(2)
    difference = tape.subtract(0, 1)
    assert tape.subtract(1, 0) == tape.negative(difference)
    assert tape.operations == 2


@given(program=programs())
def test_the_same_program_twice_is_written_once(program):
    tape = Tape(program.inputs)
    first = program.write(tape)
    size = len(tape)
    assert program.write(tape) == first
    assert len(tape) == size


@given(program=programs())
def test_arguments_come_before_their_use_and_are_of_their_kind(program):
    tape = program.tape()
    for reference in range(tape.inputs, len(tape)):
        row = tape.operation(reference)
        for kind, argument in zip(row.arguments, tape.arguments(reference), strict=True):
            assert -len(tape.constants) <= argument < reference
            assert argument < 0 or tape.is_boolean(argument) == (kind == "boolean")
        assert min(tape.arguments(reference)) >= 0 or max(tape.arguments(reference)) >= 0, "constants fold"
    assert not any(map(tape.is_boolean, tape.outputs))


@given(
    program=programs(RATIONAL),
    point=st.tuples(*[st.fractions(-4, 4, max_denominator=5)] * 3),
)
def test_simplified_programs_are_exactly_equal_in_rational_arithmetic(program, point):
    tape = program.tape()
    assume(all(map(small_fraction, tape.constants)))
    try:
        expected = program.run(point, RATIONAL, Fraction)
    except ZeroDivisionError:
        assume(False)
    assert evaluate(tape, point, RATIONAL, Fraction) == expected


@given(program=programs(FUNCTIONS), point=st.tuples(*[st.floats(-5.0, 5.0)] * 3))
def test_simplified_programs_are_bitwise_equal_in_floating_point(program, point):
    values = numpy_values(program, point)
    # the module's assumptions: nothing infinite, and no function that tells the zeros apart
    assume(np.isfinite(np.array(values, float)).all())
    assume(all(values[k] != 0 for name, arguments in program.steps if name == "atan2" for k in arguments))
    assert evaluate(program.tape(), point) == [values[k] for k in program.outputs]


@given(
    program=programs(set(NUMPY) - {"multiply", "divide", "power", "atan2"}),
    point=st.tuples(*[st.sampled_from([-math.inf, math.inf, math.nan, -1.0, 0.0, 2.0])] * 3),
)
def test_infinities_and_nan_stay_where_no_literal_zero_is_a_factor(program, point):
    values = numpy_values(program, point)
    np.testing.assert_array_equal(evaluate(program.tape(), point), [values[k] for k in program.outputs])


@given(program=programs(), more=programs())
def test_copies_are_equal_and_independent(program, more):
    tape = program.tape()
    before, text = len(tape), str(tape)
    copy = tape.copy()
    assert str(copy) == text
    copy.outputs = more.write(copy)
    assert (len(tape), str(tape)) == (before, text)
    assert more.write(tape.copy()) == copy.outputs, "the same references on every copy"


def test_text_of_a_tape():
    tape = Tape(2)
    condition = tape.apply("less", 0, 1)
    tape.outputs = [tape.select(condition, 0, tape.constant(-0.0)), 1, tape.constant(2.5)]
    assert str(tape) == "t2 = less(x0, x1)\nt3 = select(t2, x0, -0.0)\nreturn t3, x1, 2.5"


def test_constants_are_equal_only_if_they_divide_equally():
    tape = Tape(0)
    assert tape.constant(2) == tape.constant(2.0) == tape.constant(np.float64(2))
    assert tape.constant(0.0) != tape.constant(-0.0)
    assert tape.constant(math.nan) == tape.constant(-math.nan)
    assert [tape.value_of(tape.constant(x)) for x in (2.0, 0.0, math.inf)] == [2.0, 0.0, math.inf]


def test_sum_of_terms():
    tape = Tape(3)
    assert tape.value_of(tape.sum([])) == 0.0
    assert nested(tape, tape.sum([0, 1, 2])) == "add(x2, add(x0, x1))"


@pytest.mark.parametrize("arguments", [(), (0, 1), (0, 0, 0)])
def test_wrong_number_of_arguments(arguments):
    with pytest.raises(ArgumentError, match=f"sin takes 1 arguments, {len(arguments)} were given"):
        Tape(2).apply("sin", *arguments)


@pytest.mark.parametrize("name", ["sine", "input", ""])
def test_unknown_operation(name):
    with pytest.raises(UnknownNameError, match=r"unknown operation .*Known: abs, acos"):
        Tape(1).apply(name, 0)


def test_evaluate_wants_one_value_an_input():
    with pytest.raises(ArgumentError, match="2 inputs, 1 values"):
        evaluate(Tape(2), [1.0])


def test_bodies_get_truth_values_from_outside_as_numbers():
    """What a body does with a number, a tape does with a truth value that it computes: not, negative, products."""
    body = Tape(2)
    zero = body.constant(0.0)
    body.outputs = [
        *(body.apply("equal", 0, zero), body.apply("not_equal", 0, zero), body.apply("negative", 0)),
        *(body.multiply(0, 1), body.add(0, body.constant(2.0)), body.apply("equal", 0, 1)),
    ]
    program = Program(2)
    truth = program.apply("less", np.array([0]), np.array([1]))
    columns = program.scan(body, lambda _: [column(truth), Range(1, 0, 1)], np.array([0, 1]))
    program.outputs = np.concatenate([references_in(each) for each in columns])
    tape = unroll(program)
    assert from_bytes(to_bytes(tape)).outputs == tape.outputs  # which checks the types of operands
    for point in ([0.0, 3.0], [3.0, 1.0]):
        np.testing.assert_array_equal(evaluate(tape, point), evaluate(program, np.array(point)))
