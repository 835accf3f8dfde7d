"""Programs that `verify` accepts or rejects: it rejects every change of one operation that changes exact values."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from contexts import rewritten_by_rules as optimise
from contexts import verify
from expressions import written
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import BY_NAME, OPERATIONS, evaluate, needed
from programs import RATIONAL, programs
from strategies import tapes

from accumulus import Tape
from accumulus.errors import VerificationError
from accumulus.rewriting import acceptance
from accumulus.rewriting import optimise as optimiser
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.equivalence import MOST_POINTS, DifferentError, IncomparableError, Verification
from accumulus.rewriting.rounding import Limits, points_of

ADD, SUBTRACT, MULTIPLY, DIVIDE = (BY_NAME[name].code for name in ("add", "subtract", "multiply", "divide"))
NEGATIVE, SELECT = BY_NAME["negative"].code, BY_NAME["select"].code


def sum_of(order, numbers=False) -> Tape:
    """A sum of many terms in some order; of numbers, too, if wanted."""
    tape = Tape(40)
    terms = [tape.multiply(k, tape.constant(1.0 + k / 7)) if numbers else k for k in order]
    tape.outputs = [tape.sum(terms)]
    return tape


def test_accepts_differences_by_rounding():
    rng = random.Random(3)
    orders = [rng.sample(range(40), 40) for _ in range(5)]
    for order in orders:
        verify(sum_of(range(40)), sum_of(order))
        verify(sum_of(range(40), True), sum_of(order, True))


EQUAL = {
    "folded numbers": ("((a + 0.1) + 0.2) * 3 / 7", "(a + (0.1 + 0.2)) * (3 / 7)"),
    "quotients": ("a / b / c", "a / (b * c)"),
    "cancelling": ("(a + 100000000) - (b + 100000000)", "a - b"),
    "cancelling more": ("((a + 10000000000) * b - 10000000000 * b) * c", "a * b * c"),
    "cancelling in squares": ("(a + b) * (a - b)", "a * a - b * b"),
    "cancelling in a function": ("exp((a + 100000) - 100000)", "exp(a)"),
    "squares of sine and cosine": ("sin(a) * sin(a) + cos(a) * cos(a)", "1"),
    "one branch": ("select(less(a, b), c * d, c + d)", "select(less(a, b), d * c, d + c)"),
    "odd and even functions": ("sinh(a - b) + atan(b - a) * cosh(b - a)", "-sinh(b - a) - atan(a - b) * cosh(a - b)"),
    "minimum": ("minimum(a, b) + maximum(c, d)", "maximum(d, c) + minimum(b, a)"),
    "powers": ("power(a, 5)", "a * a * a * a * a"),
    "tiny numbers": ("a * 1e-200 * 1e-90", "a * (1e-200 * 1e-90)"),
}
FOLDED = ("folded numbers", "tiny numbers")
DIFFERENT = {
    "sign": ("a * b + c", "a * b - c"),
    "sign of an output": ("a - b", "b - a"),
    "operands of a difference": ("exp(a - b)", "exp(b - a)"),
    "operands of a quotient": ("a / b + c", "b / a + c"),
    "number": ("a * 3 + b", "a * 3.000003 + b"),
    "added number": ("a + 0.25", "a + 0.2500003"),
    "missing term": ("a + b + c", "a + b"),
    "missing factor": ("a * b * c", "a * b"),
    "another output": ("a, b", "b, a"),
    "exchanged branches": ("select(less(a, b), c, d)", "select(less(a, b), d, c)"),
    "sine for cosine": ("sin(a)", "cos(a)"),
    "odd for even": ("sinh(a - b)", "sinh(b - a)"),
    "another function": ("asin(a) + b", "atan(a) + b"),
    "arguments of atan2": ("atan2(a, b)", "atan2(b, a)"),
    "minimum for maximum": ("minimum(a, b)", "maximum(a, b)"),
    "product for sum": ("(a + b) * c", "(a * b) * c"),
    "power": ("power(a, 0.3)", "power(a, 0.31)"),
    "identity that does not hold": ("sqrt(a * a)", "abs(a)"),
    "one of positive numbers": ("sqrt(a * a)", "a"),
    "one of positive products": ("sqrt(a) * sqrt(b)", "sqrt(a * b)"),
    "the larger one alone": ("maximum(a * b, c + 100)", "maximum(a / b, c + 100)"),
    "one of two conditions": (
        "select(less(a, b), c, d) + select(less(b, c), d, a)",
        "select(less(a, b), c + d, d + a)",
    ),
    "and for or": (
        "select(logical_and(less(a, b), less(c, d)), a, b)",
        "select(logical_or(less(a, b), less(c, d)), a, b)",
    ),
    "infinity for a number": ("a", "a * 1e999"),
    "NaN for a number": ("a", "a * (1e999 - 1e999)"),
    "a constant for NaN": ("1e999 - 1e999", "1"),
    "a number for infinity": ("1e999", "-1e999"),
    "a bound without end": ("a * b", "a * b + c * (1 / (d - d))"),
    "a divisor that rounding has made": ("a * b", "a * b * (d - (d + 1e-17)) / ((d + 1e-17) - d)"),
}
#: What reaches a jump is the same to the last bit, or the comparison another one.
JUMPING = {
    "condition": ("select(less(a, b), c, d)", "select(less(b, a), c, d)"),
    "quotient by a number": ("floor(a / 49)", "floor(a * (1 / 49))"),
    "shared reciprocal": ("select(less(a / b, 1), c, d)", "select(less(a * (1 / b), 1), c, d)"),
    "dividend": ("fmod(a / 49, b)", "fmod(a * (1 / 49), b)"),
    "divisor": ("fmod(a, b * c * d)", "fmod(a, b * (c * d))"),
    "order of a sum": ("ceil(a * b + c * d + b * d)", "ceil(a * b + (c * d + b * d))"),
    "order of a product": ("sign(a * b * c - 1)", "sign(a * (b * c) - 1)"),
    "multiplied out": ("select(equal(a * (b + c), d), a, b)", "select(equal(a * b + a * c, d), a, b)"),
}


#: Functions at arguments as they come with physical units, and numbers at the end of the range.
LARGE = {
    "an activation energy": ("exp(-7500 / a) * b", "exp(-7500 / a) * c"),
    "its argument": ("b * exp(-7500 / a)", "b * exp(-7510 / a)"),
    "a large exponential": ("exp(7500 * a) + b", "exp(7500 * a) + c"),
    "a large exponent": ("exp(7500 * a)", "exp(7500 * b)"),
    "odd functions": ("cbrt(a + 1000000) + b", "cbrt(a + 1000000) - b"),
    "their arguments": ("cbrt(a + 1000000)", "cbrt(b + 1000000)"),
    "a hyperbolic function": ("tanh(5000 * a) * b", "tanh(5000 * a) / b"),
    "even functions": ("abs(3000 * a) + b", "abs(3000 * a) + c"),
    "a logarithm": ("log(a * 1e300) + b", "log(a * 1e300) + c"),
}
OVERFLOWING = [
    "cbrt(a + 1000000)",
    "a * 1e308 * b * 1e308",
    "exp(exp(exp(a + 5)))",
    "a * 1e308 - b * 1e308",
    "a / 1e-308 * 1e-10",
]


@pytest.mark.parametrize("name", LARGE)
def test_refuses_at_large_arguments(name):
    first, second = map(written, LARGE[name])
    verify(first, first)
    with pytest.raises(VerificationError):
        verify(first, second)


@pytest.mark.parametrize("text", OVERFLOWING)
def test_overflow_raises_nothing(text):
    for seed in range(5):
        verify(written(text), written(text), seed)


#: What becomes a number, or a tie that rounding decided, only by rewriting.
DECIDED = [
    "expm1(a / a)",
    "atan2(sin(a) * sin(a) + cos(a) * cos(a), b)",
    "cosh((a * b) / b - a)",
    "select(equal((a + b) + c, a + (b + c)), a, b)",
    "select(less((a * b) * c, (a * c) * b), a, b)",
    "maximum((a + b) + c, (a + c) + b) * d",
    "select(not_equal((a * c) * d, c * (a * d)), a, b)",
]


@pytest.mark.parametrize("text", DECIDED)
def test_accepts_results_of_the_optimiser(text):
    for seed in range(10):
        optimise(written(text), seed=seed)


@pytest.mark.parametrize("name", EQUAL)
def test_accepts(name):
    first, second = map(written, EQUAL[name])
    for seed in range(5):
        verify(first, second, seed)
        if name not in FOLDED:  # a rounded number does not say what it was made of
            verify(second, first, seed)


@pytest.mark.parametrize("name", ["cancelling", "cancelling more", "cancelling in a function"])
def test_limits_are_for_bounds_that_have_grown(name):
    first, second = map(written, EQUAL[name])
    points = points_of(first, None, np.random.default_rng(0))
    assert not Limits.of(first, points).is_worse(second)
    assert Limits.of(second, points).is_worse(first)


@pytest.mark.parametrize("name", DIFFERENT)
def test_refuses(name):
    first, second = map(written, DIFFERENT[name])
    for seed in range(5):
        with pytest.raises(VerificationError, match="output 0 "):
            verify(first, second, seed)


@pytest.mark.parametrize("name", JUMPING)
def test_refuses_other_bits_in_front_of_a_jump(name):
    first, second = map(written, JUMPING[name])
    for seed in range(5):
        verify(first, first, seed)
        with pytest.raises(VerificationError, match=r"output 0 |comparison that was not there"):
            verify(first, second, seed)


def nested(depth: int, change: int | None = None) -> Tape:
    """A choice among many intervals, of which one has another value."""
    tape = Tape(2)
    value = tape.multiply(0, 1)
    for k in range(depth):
        condition = tape.apply("less", 0, tape.constant(k + 10.0))
        inner = tape.multiply(tape.constant(k + (1.001 if k == change else 1.0)), 1)
        value = tape.select(condition, inner, value)
    tape.outputs = [value]
    return tape


@pytest.mark.parametrize("change", [0, 1, 11, 22, 23])
def test_sees_every_branch(change):
    """Also those that no random point reaches: here each has one chance in millions."""
    tape, mutant = nested(24), nested(24, change)
    for seed in range(5):
        verify(tape, nested(24), seed)
        with pytest.raises(VerificationError, match="output 0 "):
            verify(tape, mutant, seed)


def test_sees_branches_under_conditions_of_several_comparisons():
    first = "select(logical_and(logical_and(less(a, 1), less(b, 2)), logical_and(less(c, 3), less(d, 4))), {}, b)"
    condition = "logical_not(logical_or(logical_or(less(a, 1), less(b, 2)), logical_or(less(c, 3), less(d, 4))))"
    for text in (first, f"select({condition}, {{}}, b)", f"select(logical_not({condition}), b, {{}})"):
        for seed in range(5):
            with pytest.raises(VerificationError, match="output 0 "):
                verify(written(text.format("a * 2")), written(text.format("a * 2.001")), seed)


def test_incomparable_outputs_must_be_the_same_expression():
    lost = "a * b / (c - c)"
    verify(written(lost), written(lost))
    with pytest.raises(VerificationError, match="cannot be compared"):
        verify(written(lost), written("b * a * (1 / (c - c))"))
    assert str(optimise(written(f"{lost} + {lost} * b"))) == str(canonical(written(f"{lost} + {lost} * b")))


def test_outcomes_that_are_too_many_to_try_are_incomparable():
    """With many points, for roots within roots, all outcomes of a comparison may be too many: that is no mistake."""
    one, other = written("1 / select(less(a, b), c, d)"), written("select(less(a, b), 1 / c, 1 / d)")
    wrong = written("select(less(a, b), 1 / c, 2 / d)")
    Verification(one, count=MOST_POINTS // 2).check(other)
    for count in (MOST_POINTS // 2, MOST_POINTS):
        with pytest.raises(DifferentError):
            Verification(one, count=count).check(wrong)
    with pytest.raises(IncomparableError):
        Verification(one, count=MOST_POINTS).check(other)


def test_only_incomparable_outputs_stay_unchanged(recwarn):
    lost = "a * b / (c - c) + a * d / (c - c)"
    tape = written(f"{lost}, sin({lost}), b * c + b * d")
    actual = optimise(tape)
    assert not recwarn.list
    assert actual.operations == canonical(tape).operations - 1
    expected = canonical(written(f"{lost}, sin({lost}), b * (c + d)"))
    assert str(canonical(actual)) == str(expected)


def test_a_difference_is_detected_beside_incomparable_outputs():
    lost = "a * b / (c - c)"
    with pytest.raises(VerificationError, match=r"output 1 .* as an expression"):
        verify(written(f"{lost}, a + b"), written("b * a * (1 / (c - c)), a - b"))


def growing(factor: float = 1.0, *, reordered: bool = False) -> Tape:
    """Return products of products, which grow beyond all numbers except near zero."""
    tape = Tape(2)
    before, value = 0, tape.add(0, 1)
    for _ in range(14):
        product = tape.multiply(value, before) if reordered else tape.multiply(before, value)
        before, value = value, tape.add(tape.multiply(product, product), 1)
    tape.outputs = [tape.multiply(value, tape.constant(factor))]
    return tape


def test_programs_of_high_degree_are_compared():
    for seed in range(5):
        verify(growing(), growing(reordered=True), seed)
        with pytest.raises(VerificationError, match="as an expression"):
            verify(growing(), growing(1.001), seed)


def test_kept_outputs_are_the_same_to_the_last_bit():
    tape, other = written("a * b * c * d, a + b"), written("a * (b * (c * d)), a + b")
    verify(tape, other)
    verify(tape, other.copy(), kept_outputs=0)
    with pytest.raises(VerificationError, match="kept to the last bit"):
        verify(tape, other, kept_outputs=1)
    verify(tape, tape, kept_outputs=2)


def test_refuses_other_shapes():
    with pytest.raises(VerificationError, match="4 inputs and 1 outputs became one of 4 "):
        verify(written("a"), written("a, b"))
    with pytest.raises(VerificationError, match="became one of 3 "):
        verify(Tape(2), Tape(3))


def mutants(tape: Tape) -> list[tuple[str, Tape]]:
    """The tape with one operation changed, in all ways and at all places that outputs depend on."""
    results = []
    marks = needed(tape)
    for r in range(tape.inputs, len(tape)):
        if not marks[r]:
            continue
        code, a, b = tape.codes[r], tape.first[r], tape.second[r]
        row = OPERATIONS[code]

        def changed(label: str, r: int = r, **fields: int) -> None:
            other = tape.copy()
            for name, value in fields.items():
                getattr(other, name)[r] = value
            results.append((f"{label} at t{r}", other))

        if row.arity == 2 and not row.commutative:
            changed("exchanged arguments", first=b, second=a)
        if code in (ADD, SUBTRACT):
            changed("sign", codes=ADD + SUBTRACT - code)
        if code in (ADD, SUBTRACT, MULTIPLY):
            changed("product for sum", codes=ADD if code == MULTIPLY else MULTIPLY)
        if code in (MULTIPLY, DIVIDE):
            changed("quotient for product", codes=MULTIPLY + DIVIDE - code)
        if code == SELECT:
            changed("exchanged branches", second=tape.third[r], third=b)
        if row.result == "real" and row.arity == 1 and code != NEGATIVE:
            changed("another function", codes=BY_NAME["sign"].code)
        for name, argument in (("first", a), ("second", b))[: row.arity]:
            if row.arguments[("first", "second").index(name)] != "real":
                continue
            if argument < 0:
                other = tape.copy()
                value = tape.value_of(argument)
                number = other.constant(value * (1 + 1e-6) if value else 1e-6)
                getattr(other, name)[r] = number
                results.append((f"number at t{r}", other))
            changed("another argument", **{name: 0 if argument else tape.inputs - 1})
    for k in range(len(tape.outputs)):
        other = tape.copy()
        other.outputs[k] = 0 if tape.outputs[k] else tape.inputs - 1
        results.append((f"output {k}", other))
    return results


rational = tapes(3, 14, names=("add", "subtract", "multiply", "divide", "negative", "less", "select", "abs"))


def exact(tape: Tape, point) -> list[Fraction] | None:
    try:
        return evaluate(tape, point, RATIONAL, Fraction)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None


def refused(tape: Tape, mutant: Tape, seed: int) -> bool:
    try:
        verify(tape, mutant, seed)
    except VerificationError:
        return True
    return False


@settings(max_examples=100)
@given(tape=rational, seed=st.integers(0, 100))
def test_changes_of_exact_values_are_rejected(tape, seed):
    assume(tape.inputs and tape.outputs)
    tape = optimise(tape, effort="fast")
    assume(all(map(math.isfinite, tape.constants)))
    rng = random.Random(seed)
    # where the points of `verify` have their real parts, so that comparisons fall the same way there
    points = [[Fraction(rng.randint(50, 150), 100) for _ in range(tape.inputs)] for _ in range(8)]
    for name, mutant in mutants(tape):
        differing = 0
        for point in points:
            before, after = exact(tape, point), exact(mutant, point)
            if before is None or after is None:
                break
            # visible beside what the numbers of the program are: 1e-6 of a summand may be far below the result
            if any(abs(x - y) > Fraction(1, 10**9) * (abs(x) + abs(y)) for x, y in zip(before, after, strict=True)):
                differing += 1
        else:
            if differing == len(points):
                assert refused(tape, mutant, seed), f"{name}:\n{tape}\nis not\n{mutant}"


@given(program=programs(("add", "subtract", "multiply", "divide", "select", "less", "sin", "exp"), steps=12))
def test_a_tape_is_equal_to_itself_and_to_its_plain_form(program):
    tape = program.tape()
    verify(tape, tape)
    verify(tape, canonical(tape))


def with_large_number(order):
    """y·z, and sin(x·z); or sin(((x + t) - t)·z) with t = 10¹⁰ y, which has lost ten digits."""
    tape = Tape(4)
    large = tape.multiply(tape.constant(1e10), 1)
    first = tape.multiply(1, 2)
    second = 0 if order == "exact" else tape.subtract(tape.add(0, large), large)
    tape.outputs = [first, tape.apply("sin", tape.multiply(second, 2))]
    return tape


def test_outputs_that_lose_digits_are_named():
    one, other = with_large_number("exact"), with_large_number("lossy")
    verify(one, other)
    points = points_of(one, None, np.random.default_rng(0))
    assert Limits.of(one, points).worse(other) == [1]
    assert Limits.of(other, points).worse(one) == []


def test_outputs_that_lose_digits_keep_their_expressions(monkeypatch, recwarn):
    """All others are rewritten, and nobody is told of a mistake."""
    start = with_large_number("exact")
    more = start.copy()
    more.outputs.append(more.add(more.multiply(0, 3), more.multiply(1, 3)))
    lossy = with_large_number("lossy")
    lossy.outputs.append(lossy.multiply(3, lossy.add(0, 1)))
    monkeypatch.setattr(optimiser, "with_scaled_forms", lambda *_: lossy)
    result = optimise(more)
    assert not recwarn.list
    verify(more, result)
    assert result.operations < canonical(more).operations
    monkeypatch.setattr(acceptance, "RESTORED", 1)
    assert optimise(more).operations == canonical(more).operations
    assert not recwarn.list
