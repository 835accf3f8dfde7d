"""Domains: what a rewritten program may need, and what it may not, in pairs of equal expressions."""

from __future__ import annotations

import numpy as np
import pytest
from contexts import within
from expressions import written
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import OPERATIONS, evaluate, with_folding
from programs import programs

from accumulus import Tape
from accumulus.rewriting.acceptance import Original
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.domains import Domains
from accumulus.rewriting.equivalence import IncomparableError, Verification
from accumulus.tape.passes import with_noted_folding

U, V, W = "less(c, d)", "less(a, c)", "less(d, b)"


def wider(before: str, after: str, seed: int = 0) -> list[int]:
    """The outputs of a program that need more than those of another; all are the same expressions."""
    one = with_folding(written(before))
    other = with_noted_folding(written(after), one)
    verification = Verification(one, seed)
    verification.check(other)
    return Domains(one, verification).wider(other)


#: The second needs nothing that the first does not need.
ACCEPTED = {
    # divisors
    "a divisor that cancels": ("a * b / b", "a"),
    "a finite sum of quotients within a function": ("atan(a + 2 / (2 / b))", "atan(2 / (2 / b) + a)"),
    "a finite sum of quotients as a divisor": ("c / (a - 1 / (1 / b))", "c / (a - b)"),
    "a divisor as before": ("a * b / (c + d)", "b * (a / (d + c))"),
    "a negative divisor": ("a / (c - d)", "-a / (d - c)"),
    "divisors together": ("a / b / c", "a / (b * c)"),
    "divisors apart": ("a / (b * c)", "a / b / c"),
    "a divisor of a divisor": ("a / (b / c)", "a * c / b"),
    "a divisor of another value of the output": ("a / b + c", "(a + c * b) / b"),
    "a reciprocal": ("a / c + b / c", "(a + b) * (1 / c)"),
    "of a divisor's square": ("1 / a", "a / (a * a)"),
    "a divisor's square": ("1 / (a * a)", "1 / a / a"),
    "a factor of a divisor": ("1 / (a * b * c)", "1 / a / b / c"),
    "a number": ("a * 2", "a / 0.5"),
    "a square and a number": ("a", "(a * (b * b + 1)) / (b * b + 1)"),
    "squares and a number": ("a", "a * (3 + b * b + c * c) / (b * b + (c * c + 3))"),
    "a square of a sum and a number": ("a", "a * ((b + c) * (b + c) + 1e-300) / ((b + c) * (b + c) + 1e-300)"),
    "a multiple of a square and a number": ("a", "a * (2 * (b * b) + 1) / (2 * (b * b) + 1)"),
    "a hyperbolic cosine": ("a", "a * cosh(b) / cosh(b)"),
    "an exponential and a number": ("a", "a * (exp(b) + 1) / (exp(b) + 1)"),
    "an absolute value and a number": ("a", "a * (abs(b) + 1e-9) / (abs(b) + 1e-9)"),
    "a root of a positive number": ("a", "a * sqrt(b * b + 1) / sqrt(b * b + 1)"),
    "a bounded value": ("a", "a * maximum(b, 1e-9) / maximum(b, 1e-9)"),
    "a bounded absolute value": ("a", "a * maximum(1e-9, abs(b)) / maximum(1e-9, abs(b))"),
    "a choice of positive numbers": ("a", f"a * select({U}, 2, 3) / select({U}, 2, 3)"),
    "an absolute value as a divisor": ("1 / b", "abs(b) / b / abs(b)"),
    # roots
    "a root's square": ("sqrt(a) * sqrt(a)", "a"),
    "a root over its value": ("sqrt(a) / a", "1 / sqrt(a)"),
    "a value over its root": ("a / sqrt(a)", "sqrt(a)"),
    "a root of squares": ("a", "a + sqrt(b * b + c * c) - sqrt(c * c + b * b)"),
    "the same root": ("sqrt(a + b) * c", "c * sqrt(b + a)"),
    "a divisor that is a root": ("a / sqrt(b)", "a * sqrt(b) / b"),
    # logarithms, powers, functions
    "a logarithm": ("log(a) * b", "b * log(a)"),
    "a divisor that has a logarithm": ("log(a) + 1", "(a * log(a) + a) / a"),
    "a root of what has a logarithm": ("log(a) * a", "log(a) * sqrt(a) * sqrt(a)"),
    "a power": ("power(a, 0.25) * a", "power(a, 1.25)"),
    "a power less one": ("power(a, 1.25)", "power(a, 0.25) * a"),
    "a divisor's divisor": ("a / ((b + d) * (1 / c))", "a * c / (b + d)"),
    "a divisor's factor": ("a / (c * b + c * d)", "a / c / (b + d)"),
    "a negative power": ("1 / (a * a)", "power(a, -2)"),
    "a half power": ("power(a, 0.5)", "sqrt(a)"),
    "a negative half power": ("power(a, -1.5)", "1 / (a * sqrt(a))"),
    "a function": ("acos(a) + b", "b + acos(a)"),
    "an odd function": ("asin(a - b)", "-asin(b - a)"),
    # branches
    "a condition in a branch": (f"select({U}, 1 / a, b)", f"select({U}, 1 / a, b)"),
    "a condition without its branch": (f"select({U}, 1 / a, b) + 1 / a", f"1 / a + select({U}, 1 / a, b)"),
    "what both branches need": (f"select({U}, b / a, c / a)", f"select({U}, b, c) / a"),
    "into branches": (f"select({U}, b, c) / a", f"select({U}, b / a, c / a)"),
    "nested branches": (
        f"select({U}, select({V}, 1 / b, d), d)",
        f"select({U}, select({V}, 1 / b, d), d)",
    ),
    "a branch within": (f"select({U}, 1 / a, b) * d", f"select({U}, d / a, b * d)"),
    "a divisor in a chosen branch": (f"c / select({U}, a, b)", f"select({U}, c / a, c / b)"),
    "chosen divisors": (f"select({U}, a / b, c / d)", f"select({U}, a, c) / select({U}, b, d)"),
    "a branch in the same branches": (
        f"select({U}, select({V}, a / b, d), d)",
        f"select({U}, select({V}, a * (1 / b), d), d)",
    ),
    # infinite values that functions hide, by the same operations
    "a quotient in an angle": ("c * atan(a / b)", "atan(a / b) * c"),
    "a reciprocal in an angle": ("atan(a / b)", "atan(a * (1 / b))"),
    "factors in an angle": ("atan(a * c / b)", "atan(a * (c / b))"),
    "divisors in an angle": ("atan(a / b / c)", "atan(a / (b * c))"),
    "finite factors in an angle": ("atan((a * c + a * d) / b)", "atan(a * (c + d) / b)"),
    "finite terms in an angle": ("atan(a + c / b + d)", "atan(d + a + c / b)"),
    "a multiple in an angle": ("atan(2 * (a + c / b))", "atan(2 * a + 2 * c / b)"),
    "an exponential of a square": ("exp(-((a / b) * (a / b)))", "exp(-(a * a / (b * b)))"),
    "a bound of a quotient": ("minimum(a / b, c)", "minimum(a * (1 / b), c)"),
    "a divisor of a divisor in a product": ("d / (b / c)", "d * c / b"),
    "a divisor that is known": ("atan(a / b) + 1 / b", "(b * atan(a / b) + 1) / b"),
    "a hidden divisor that is known": ("atan(a / b + c / b) + 1 / b", "atan((a + c) / b) + 1 / b"),
    "a difference as it was": ("exp(-(b / (a - c)))", "exp(b * (-1 / (a - c)))"),
    "a dividend the other way round": ("exp(-((a - b) / c))", "exp((b - a) / c)"),
    "an angle the other way round": ("atan((a - b) / c)", "-atan((b - a) / c)"),
    "a comparison of a quotient": ("select(less(a / b, c), c, d) + d", "d + select(less(a / b, c), c, d)"),
    "a comparison of a logarithm": ("select(less(log(a), c), c, d) * d", "d * select(less(log(a), c), c, d)"),
    "a branch that is no longer": (f"select({U}, 1 / a, 1 / b) * a * b", f"select({U}, b, a)"),
}
#: The second is undefined where the first is not.
REFUSED = {
    # divisors
    "a new divisor": ("a", "a * b / b"),
    "a new divisor in a sum": ("a + c", "(a * b + b * c) / b"),
    "a new divisor that is a square": ("a", "a * (b * b) / (b * b)"),
    "a sum of squares": ("a", "a * (b * b + c * c) / (b * b + c * c)"),
    "a difference of squares and a number": ("a", "a * (1 - b * b) / (1 - b * b)"),
    "a square less a number": ("a", "a * (b * b - 1) / (b * b - 1)"),
    "a number less an exponential": ("a", "a * (1 - exp(b)) / (1 - exp(b))"),
    "an exponential, which underflows": ("a", "a * exp(b) / exp(b)"),
    "one over an exponential": ("b", "b + 1 / exp(a) - 1 / exp(a)"),
    "an absolute value": ("a", "a * abs(b) / abs(b)"),
    "a bound of any sign": ("a", "a * maximum(b, c) / maximum(b, c)"),
    "a bound from above": ("a", "a * minimum(b, 1e-9) / minimum(b, 1e-9)"),
    "a negative bound": ("a", "a * maximum(b, -1) / maximum(b, -1)"),
    "a choice that may be zero": ("a", f"a * select({U}, 2, b) / select({U}, 2, b)"),
    "a sum of divisors": ("1 / a + 1 / b", "(a + b) / (a * b) * (a + b) / (a + b)"),
    "a sum of a divisor": ("1 / a", "(1 + a) / a / (1 + a)"),
    "one factor of another output": ("a, 1 / b", "a * b / b, 1 / b"),
    "a root as a divisor": ("sqrt(a)", "a / sqrt(a)"),
    "a cubic root": ("a", "a * cbrt(b) / cbrt(b)"),
    "a hyperbolic sine": ("a", "a * sinh(b) / sinh(b)"),
    "a sine": ("a", "a * sin(b) / sin(b)"),
    "a product of a square": ("a", "a * (b * b * c + 1) / (b * b * c + 1)"),
    "a cube and a number": ("a", "a * (b * b * b + 1) / (b * b * b + 1)"),
    # what is made of itself proves nothing
    "a value by way of another": ("1 / a", "1 / (a / b * b)"),
    "a positive value by way of another": ("log(a)", "log(a / b * b)"),
    "a root by way of another": ("sqrt(a)", "sqrt(a / b * b)"),
    "a root's square for a value": ("a + sqrt(c)", "sqrt(a) * sqrt(a) + sqrt(c)"),
    "a root's square within a root": ("sqrt(a * a + b)", "sqrt(a * a + sqrt(b) * sqrt(b))"),
    "a quotient of roots for a quotient": ("a / b + sqrt(c)", "sqrt(a) * sqrt(a) / b + sqrt(c)"),
    "a power's square for a value": ("a + sqrt(c)", "power(a, 0.5) * sqrt(a) + sqrt(c)"),
    "a divisor in both ways": ("a + 1 / c", "a / b * b + 1 / c"),
    # roots
    "a new root": ("a + sqrt(c)", "a + sqrt(c) + sqrt(b) - sqrt(b)"),
    "a root of a difference": ("a + sqrt(c)", "a + sqrt(c) + sqrt(b - d) - sqrt(b - d)"),
    "a root of the other sign": ("sqrt(a) * b", "sqrt(a) * b + sqrt(-a) - sqrt(-a)"),
    "a root that another output has": ("sqrt(a), b", "sqrt(a), b + sqrt(a) - sqrt(a)"),
    "one over a root": ("sqrt(a) * b", "a * b / sqrt(a)"),
    "a root of a factor": ("sqrt(a * b)", "sqrt(a * b) * sqrt(a) / sqrt(a)"),
    "a root of a term": ("sqrt(a + b)", "sqrt(a + b) + sqrt(a) - sqrt(a)"),
    # logarithms, powers, functions
    "a new logarithm": ("a", "a + log(b) - log(b)"),
    "a logarithm of a square": ("a", "a + log(b * b) - log(b * b)"),
    "a logarithm of a root": ("sqrt(b) * a", "sqrt(b) * a + log(b) - log(b)"),
    "a logarithm of a factor": ("log(a * b)", "log(a * b) + log(a) - log(a)"),
    "a logarithm of a divisor": ("a / b", "a / b + log(b) - log(b)"),
    "a whole power": ("a", "a + power(b, -2) - power(b, -2)"),
    "a power": ("a", "a + power(b, 1.5) - power(b, 1.5)"),
    "a power of a negative number": ("a / b", "a / b + power(b, 0.3) - power(b, 0.3)"),
    "a power of two values": ("a + b", "a + b + power(a, b) - power(a, b)"),
    "a function of another range": ("acos(a)", "acos(a) + acos(2 * a) - acos(2 * a)"),
    "a function": ("a", "a + asin(b) - asin(b)"),
    "another function": ("asin(a)", "asin(a) + atanh(a) - atanh(a)"),
    # branches
    "out of a branch": (f"select({U}, 1 / a, b)", f"select({U}, 1, b * a) / a"),
    "out of the other branch": (f"select({U}, b, 1 / a)", f"select({U}, b * a, 1) / a"),
    "into the other branch": (f"select({U}, 1 / a, b)", f"select({U}, 1 / a, b * a / a)"),
    "a branch of another condition": (
        f"select({U}, b / a, b) * 2 + select({V}, c, d)",
        f"select({U}, b / a, b) * 2 + select({V}, c * a / a, d)",
    ),
    "a branch of the negated condition": (f"select({U}, b / a, c)", f"select(logical_not({U}), c * a / a, b / a)"),
    "out of an inner branch": (f"select({U}, select({V}, 1 / b, d), d)", f"select({U}, select({V}, 1, d * b) / b, d)"),
    "out of an outer branch": (
        f"select({U}, select({V}, 1 / b, 0), 0)",
        f"select({V}, 1 / b, 0) * select({U}, 1, 0)",
    ),
    "a root out of an outer branch": (
        f"select({U}, select({V}, sqrt(b), 0), 0)",
        f"select({V}, sqrt(b), 0) * select({U}, 1, 0)",
    ),
    "into another inner branch": (
        f"select({U}, select({V}, 1 / b, d), select({V}, d, c))",
        f"select({U}, select({V}, 1 / b, d), select({V}, d * b / b, c))",
    ),
    "what one branch needs": (f"select({U}, 1 / a, 1 / b)", f"select({U}, b, a) / (a * b)"),
    "a root of a branch": (f"select({U}, sqrt(a), b)", f"select({U}, sqrt(a), b) + sqrt(a) - sqrt(a)"),
}


#: Where the second output is the one that is refused.
SECOND = "a root that another output has"
#: The sign of an infinite value is that of a zero, which a difference has either way round.
OF_ZEROS = {
    "a difference the other way round": ("exp(-(b / (a - c)))", "exp(b / (c - a))"),
    "a difference in a root": ("sqrt(1 / atan(c / (a - b)))", "sqrt(-1 / atan(c / (b - a)))"),
}
#: Values that are infinite or no numbers where the first is a number for all that: a quotient of zero is infinite, and
#: functions and comparisons of that are numbers.
HIDDEN = {
    "a comparison": ("select(less(1 / a, b), c, d)", "select(less(1 / a, b), c * a, d * a) / a"),
    "a comparison of what is no number": (
        "select(less(sqrt(a), b), c, d)",
        "select(less(sqrt(a), b), c, d) + sqrt(a) - sqrt(a)",
    ),
    "a divisor": ("1 / (1 / a)", "a * a / a"),
    "a bounded function": ("b * atan(1 / a)", "(a * b) / a * atan(1 / a)"),
    "an exponential": ("b * exp(-1 / a)", "(a * b) / a * exp(-1 / a)"),
    "a hyperbolic tangent": ("b * tanh(1 / a)", "(a * b) / a * tanh(1 / a)"),
    "a bound": ("b * minimum(1 / a, c)", "(a * b) / a * minimum(1 / a, c)"),
    "another bound": ("b * maximum(-1 / a, c)", "(a * b) / a * maximum(-1 / a, c)"),
    "an angle": ("b * atan2(1 / a, c)", "(a * b) / a * atan2(1 / a, c)"),
    "a negative power": ("b * power(1 / a, -2)", "(a * b) / a * power(1 / a, -2)"),
    "a sum of infinite values": ("b * atan((1 / a) * (b + c))", "b * atan((1 / a) * b + (1 / a) * c)"),
    "a factor that vanishes": ("b * atan(1 / a)", "b * atan(c / (a * c))"),
    "a bound at the other end": (
        "maximum(-1 / (a * a), c)",
        "maximum(-1 / (a * a), c) + minimum(-1 / (a * a), b) - minimum(-1 / (a * a), b)",
    ),
    "a logarithm of zero": ("b * exp(log(a))", "(a * b) / a * exp(log(a))"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    for seed in range(3):
        assert wider(*ACCEPTED[name], seed) == []


@pytest.mark.parametrize("name", REFUSED | OF_ZEROS | HIDDEN)
def test_refused(name):
    for seed in range(3):
        assert wider(*(REFUSED | OF_ZEROS | HIDDEN)[name], seed) == [1 if name == SECOND else 0]


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_hidden_is_a_number(name):
    """At zero, or at a negative number, the first program of each pair is a number, and the second is none."""
    before, after = map(written, HIDDEN[name])
    with np.errstate(all="ignore"):
        ways = [
            (evaluate(before, point), evaluate(after, point))
            for point in ([0.0, 2.0, 3.0, 1.0], [-1.0, 2.0, 3.0, 1.0], [0.0, 2.0, -1.0, 1.0], [1.0, 2.0, 0.0, 1.0])
        ]
    assert any(np.isfinite(one).all() and not np.isfinite(other).all() for one, other in ways)


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.arity], ids=lambda row: row.name)
def test_a_program_needs_what_it_needs(row):
    """Every row of the table, in its plain and its canonical form."""
    tape = Tape(3)
    makers = {"real": lambda k: k, "boolean": lambda k: tape.apply("less", k, 2), "order": lambda k: tape.constant(2.0)}
    tape.outputs = [tape.apply_code(row.code, [makers[kind](k) for k, kind in enumerate(row.arguments)])]
    domains = Domains(tape, Verification(tape))
    assert domains.wider(tape) == domains.wider(canonical(tape)) == []


def test_every_row_with_a_domain_needs_something():
    """What is undefined at some numbers, infinite ones aside, is refused where it is new."""
    numbers = np.array([-30.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 30.0])
    for row in OPERATIONS:
        if not row.arity or set(row.arguments) != {"real"} or row.name == "attach":
            continue
        with np.errstate(all="ignore"):
            values = row.by_numpy(*np.meshgrid(*[numbers] * row.arity))
        tape, other = Tape(3), Tape(3)
        made = other.apply_code(row.code, list(range(row.arity)))
        if other.is_boolean(made):
            made = other.apply("select", made, 0, 1)
        tape.outputs, other.outputs = [2], [other.subtract(other.add(2, made), made)]
        verification = Verification(tape, count=4)
        try:
            verification.check(other)
        except IncomparableError:
            continue
        # what overflows alone is refused, too
        assert np.isfinite(values).all() or Domains(tape, verification).wider(other) == [0], row.name


FIELD = ("add", "subtract", "multiply", "divide", "negative")


@settings(max_examples=40)
@given(
    program=st.one_of(
        programs((*FIELD, "sqrt", "log", "abs", "less", "select"), constants=(1.0, 2.0), inputs=3, steps=14),
        programs(
            (*FIELD, "maximum", "exp", "atan", "sqrt"), constants=(1.0, 0.0), exponents=(-2.0, 1.5), inputs=3, steps=14
        ),
    ),
    seed=st.integers(0, 3),
)
def test_nothing_becomes_undefined(program, seed):
    """Programs as rules make them are numbers at all small whole numbers at which they were."""
    from contexts import rewritten_by_rules

    tape = program.tape()
    result = rewritten_by_rules(tape, seed=seed)
    points = np.array(np.meshgrid(*[[-2.0, -1.0, 0.0, 1.0, 3.0]] * tape.inputs)).reshape(tape.inputs, -1)
    with np.errstate(all="ignore"):
        before, after = (
            np.array([np.broadcast_to(x, points.shape[1]) for x in evaluate(each, list(points))], float)
            for each in (tape, result)
        )
    lost = np.isfinite(before) & ~np.isfinite(after)
    assert not lost.any(), f"{tape}\nbecame\n{result}\nat {points[:, lost.any(axis=0)][:, 0]}"


def test_programs_are_refused_for_one_output_alone():
    """The other outputs are those of the rewritten program."""
    one, other = with_folding(written("a + c, b * c + b * d")), written("a * b / b + c, b * (c + d)")
    original = Original(one, within(), None)
    made = with_noted_folding(other, original.start)
    assert original.domains.wider(made) == [0]
    restored = original.restored(made, original.start)
    assert restored is not None
    assert restored.operations < original.start.operations
    assert original.domains.wider(restored) == []
