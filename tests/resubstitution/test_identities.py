"""Identities that programs by value rely on: what is printed holds for any numbers, and is what was found."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pytest
from contexts import rewritten_by_rules, within
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import ADD, DIVIDE, MULTIPLY, Original, canonical, evaluate, with_folding
from programs import programs

import accumulus as acc
from accumulus import Tape
from accumulus.deadline import FOREVER
from accumulus.errors import RewritingWarning, VerificationError
from accumulus.resubstitution.identities import (
    Identity,
    _formula,
    _letters,
    are_equal_expanded,
)
from accumulus.resubstitution.optimise import ByValue
from accumulus.resubstitution.proofs import are_equal_somewhere
from accumulus.resubstitution.resubstitute import Resubstitution
from accumulus.resubstitution.values import Definition

FUNCTIONS = {name: getattr(math, name) for name in ("sin", "cos", "sqrt", "exp", "tanh")}
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def in_python(text):
    powered = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda result: "**" + result[0].translate(POWERS), text)
    return powered.replace("·", "*")


def of_text(text, names):
    return eval(in_python(text), {**FUNCTIONS, **names})


def names_in(text):
    return {*re.findall(r"\b[a-z]+\d*\b", in_python(text))} - FUNCTIONS.keys()


def check(identity, seed=0):
    """Check an identity as a person would: names stand for any numbers, except defined ones."""
    rng = np.random.default_rng(seed)
    whole = " ".join([identity.original, identity.rewritten, *identity.where])
    defined = dict(each.split(" = ") for each in identity.where)
    names = {name: float(rng.uniform(0.1, 0.9)) for name in sorted(names_in(whole) - defined.keys())}
    waiting = dict(defined)
    for _ in range(len(defined) + 1):
        for name, text in list(waiting.items()):
            if not names_in(text) & waiting.keys():
                names[name] = of_text(waiting.pop(name), names)
    assert not waiting
    assert of_text(identity.original, names) == pytest.approx(of_text(identity.rewritten, names), rel=1e-9, abs=1e-12)


def rotation(q):
    """The third row of a rotation, by the other two."""
    (a, b, c), (s, t, u) = np.cos(q), np.sin(q)
    first, second = np.array([b * c, -b * u, t]), np.array([a * u + s * t * c, a * c - s * t * u, -s * b])
    return np.cross(first, second), np.array([s * u - a * t * c, s * c + a * t * u, a * b])


@pytest.mark.parametrize(
    "function",
    [
        rotation,
        lambda x: np.array([(x[0] ** 2 - x[1] ** 2) / (x[0] - x[1]) * x[2], (x[0] + x[1]) * x[2]]),
        lambda x: np.sqrt(x[0] + x[1]) ** 3 + x[2] / np.sqrt(x[0] + x[1]) * (x[0] + x[1]),
    ],
    ids=["rotation", "difference of squares", "roots"],
)  # fmt: skip
def test_printed_identities_hold_for_any_numbers(function):
    point = np.array([0.3, 0.5, 0.7])
    program = acc.value_and_jacobian(function, effort="thorough", cache=False).compile(point)
    result = program.by_value.identities
    assert result
    assert program.by_value.unexplained == 0
    for identity in result:
        assert identity.is_proved
        assert identity.times >= 1
        for seed in range(3):
            check(identity, seed)
    assert program.report().by_value.identities == tuple(result)
    assert f"{len(result)}, proved: {len(result)}" in str(program.report())


@settings(max_examples=10)
@given(
    programs(
        ("add", "subtract", "multiply", "divide", "sqrt", "sin", "cos"), constants=(2.0, 0.5), exponents=(), steps=12
    )
)
def test_identities_between_any_two_programs(program):
    """Of a program and what it is by value, as one round leaves it."""
    tape = canonical(with_folding(program.tape()))
    assume(tape.operations)
    search = Resubstitution(Original(tape, within(), None), 0, 0)
    with warnings.catch_warnings():  # where a result is a number divided by zero, say
        warnings.simplefilter("ignore", RewritingWarning)
        made = search.cheapest([tape, rewritten_by_rules(tape, effort="fast")], 1_000, FOREVER, 0)
    assume(made.operations < tape.operations)
    for identity in ByValue(tape, made).identities:
        try:
            check(identity)
        except (ValueError, ZeroDivisionError, OverflowError):  # a root of what is negative there
            continue


def test_equal_identities_are_listed_once():
    before, made = Tape(4), Tape(4)
    for tape in (before, made):
        tape.outputs = []
        for angle in range(3):
            sine, cosine = tape.apply("sin", angle), tape.apply("cos", angle)
            both = tape.add(tape.multiply(sine, sine), tape.multiply(cosine, cosine))
            tape.outputs += [sine, tape.multiply(both if tape is before else tape.constant(1.0), 3)]
    (identity,) = ByValue(before, made).identities
    assert str(identity) == "sin(x0)² + cos(x0)² = 1"
    assert identity == Identity("sin(x0)² + cos(x0)²", "1", (), 3, is_proved=True)


def test_no_branch_is_overlooked():
    """If a comparison is false, both sides are zero, whatever else they are."""
    for inputs in range(4, 12):
        tape = Tape(inputs)
        holds, zero = tape.apply("less", 0, inputs - 1), tape.constant(0.0)
        tape.outputs = [tape.select(holds, x, zero) for x in (1, 2)]
        assert not are_equal_somewhere(tape)
        tape.outputs = [tape.select(holds, x, zero) for x in (1, tape.add(tape.subtract(1, 2), 2))]
        assert are_equal_somewhere(tape)


def test_sums_and_products_are_no_news():
    before, made = Tape(3), Tape(3)
    before.outputs = [before.add(before.multiply(0, 2), before.multiply(1, 2))]
    made.outputs = [made.multiply(made.add(1, 0), 2)]
    result = ByValue(before, made)
    assert result.identities == []
    assert result.unexplained == 0
    assert result.proof.is_whole


def test_identities_of_positive_numbers_are_tested():
    """Of numbers that are known to be positive, as the search knows them; what they rely on has no identity."""
    before, made = Tape(2), Tape(2)
    before.outputs = [before.apply("sqrt", before.multiply(before.apply("exp", 0), before.multiply(1, 1)))]
    roots = [made.apply("sqrt", made.apply("exp", 0)), made.apply("sqrt", made.multiply(1, 1))]
    made.outputs = [made.multiply(*roots)]
    assert Original(before, within(), None).accepts(made)
    result = ByValue(before, made)
    assert result.tested
    assert result.proof.outputs == (False,)
    assert (result.identities, result.unexplained) == ([], 1)
    # of numbers of any sign, they are none
    before.outputs = [before.apply("sqrt", before.multiply(before.constant(4.0), 0)), before.apply("sqrt", 0)]
    root = made.apply("sqrt", 0)
    made.outputs = [made.multiply(made.constant(2.0), root), root]
    result = ByValue(before, made)
    assert result.proof.outputs == (False, True)
    with pytest.raises(VerificationError, match="output 0"):
        _ = result.tested


def test_identities_of_sums_of_angles_are_tested():
    """By the addition theorems, which programs may use; proofs do without."""
    before, made = Tape(2), Tape(2)
    (s, t), (c, d) = ([before.apply(name, k) for k in range(2)] for name in ("sin", "cos"))
    before.outputs = [before.subtract(before.multiply(c, d), before.multiply(s, t))]
    made.outputs = [made.apply("cos", made.add(0, 1))]
    result = ByValue(before, made)
    assert result.tested
    assert result.proof.outputs == (False,)
    (identity,) = result.identities
    assert not identity.is_proved
    assert str(identity) == "cos(x0)·cos(x1) - sin(x0)·sin(x1) = cos(x0 + x1)"
    check(identity)


def test_nearly_equal_values_give_no_identity():
    before, made = Tape(3), Tape(3)
    before.outputs = [before.multiply(before.constant(1.0 + 1e-9), before.multiply(0, 1)), before.multiply(0, 1)]
    made.outputs = [made.multiply(0, 1), made.multiply(0, 1)]
    result = ByValue(before, made)
    assert result.identities == []
    assert result.proof.outputs == (False, True)


# Formulas ------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(programs(("add", "multiply", "divide"), constants=(), exponents=(), inputs=3, steps=8), st.data())
def test_values_equal_after_expansion_are_equal(program, data):
    tape = canonical(program.tape())
    assume(tape.operations)
    tape.outputs = [data.draw(st.integers(0, len(tape) - 1)) for _ in range(2)]
    if are_equal_expanded(tape):
        one, two = evaluate(tape, [1.3, 0.7, 2.1])
        assert one == pytest.approx(two, rel=1e-12)


def test_products_and_sums_are_multiplied_out():
    tape = Tape(3)

    def is_equal(*outputs):
        tape.outputs = [*outputs]
        return are_equal_expanded(tape)

    first = tape.negative(tape.multiply(tape.subtract(0, 1), 2))
    one, other = tape.multiply(1, 2), tape.multiply(0, 2)
    assert is_equal(first, tape.subtract(one, other))
    assert not is_equal(first, tape.add(one, other))
    # x / (a - b) and -x / (b - a), but for the order
    third = tape.constant(0.1)
    by_one, by_other = tape.subtract(tape.multiply(third, 0), 1), tape.subtract(1, tape.multiply(third, 0))
    assert is_equal(tape.divide(2, by_one), tape.divide(tape.negative(2), by_other))
    # too long
    total = tape.add(tape.add(0, 1), 2)
    cube = tape.multiply(tape.multiply(total, total), total)
    assert not is_equal(cube, cube)


def test_formulas_have_brackets_where_they_need_them():
    from accumulus.resubstitution.identities import _Text as Text

    names = {1: "x", 2: "y", 3: "z"}

    def of(value):
        return Text(1 if value > 0 else -1, names[abs(value)], 2)

    total, quotient = Definition(4, ADD, (1, -2), 1), Definition(5, DIVIDE, (1, 2), 1)
    inner = {4: _formula(total, of), 5: _formula(quotient, of)}

    def deeper(value):
        return inner[abs(value)].times(1 if value > 0 else -1) if abs(value) in inner else of(value)

    for definition, text in [
        (Definition(6, MULTIPLY, (4, 4), -1), "-(x - y)²"),
        (Definition(6, DIVIDE, (5, 5), 1), "x/y/(x/y)"),
        (Definition(6, ADD, (3, -4), 1), "z - (x - y)"),
        (Definition(6, ADD, (-3, -4), 1), "-z - (x - y)"),
        (Definition(6, ADD, (4, -4), -1), "x - y - (x - y)"),
    ]:
        assert str(_formula(definition, deeper)) == text
    # the negative of two negatives has no sign left
    both = _formula(Definition(7, ADD, (-1, -2), 1), of)
    assert (str(both), str(both.times(-1))) == ("-x - y", "x + y")
    inner[7] = both
    assert str(_formula(Definition(8, MULTIPLY, (7, 3), 1), deeper)) == "-(x + y)·z"
    names_of_many = [name for name, _ in zip(_letters(), range(60), strict=False)]
    assert len(set(names_of_many)) == 60
    assert not {"x", "t"} & {*names_of_many}
