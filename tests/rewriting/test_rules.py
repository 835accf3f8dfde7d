"""Each rule: proven in exact arithmetic, rounding as it is said to, winning on a program, and listed in the docs."""

from __future__ import annotations

import ast
import math
import random
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import rules
from contexts import rewritten_by_rules as optimise
from contexts import within
from exact import EXACT, mp, mpf
from expressions import form, values, written
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import IN_SEARCH
from interpreted import SOURCES
from programs import NUMPY, RATIONAL, programs
from rules import APPLIED, BY_NAME, RULES, Rule

from accumulus.rewriting.acceptance import Original
from accumulus.rewriting.canonical import LARGEST_CHAIN, canonical
from accumulus.rewriting.optimise import Network
from accumulus.tape import operations

DOCUMENT = Path(__file__).parents[2] / "docs" / "algebra-on-the-tape.md"
NAMES = [rule.name for rule in RULES]
#: Without special functions, which SciPy itself computes to more units than are measured here.
PARITY = {
    parity: [row for row in operations.OPERATIONS if row.parity == parity and not row.special]
    for parity in ("odd", "even")
}


def root(x: Fraction) -> Fraction:
    result = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
    assert result * result == x
    return result


def rational_power(x: Fraction, y: Fraction) -> Fraction:
    return x**y.numerator if y.denominator == 1 else root(x) ** (2 * y).numerator


#: Roots are of squares, and angles stand for points of the unit circle: (2t / (1 + t²), (1 - t²) / (1 + t²)).
PROOF = RATIONAL | {
    "sqrt": root,
    "power": rational_power,
    "sin": lambda t: 2 * t / (1 + t * t),
    "cos": lambda t: (1 - t * t) / (1 + t * t),
    "odd": lambda t: 2 * t / (1 + t * t),
    "even": lambda t: (1 - t * t) / (1 + t * t),
    "attach": lambda x, _: x,
}
rational_functions = programs(("add", "subtract", "multiply", "divide"), constants=(1.0, 3.0), inputs=2, steps=8)


def variables(rule: Rule) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(rule.before)) if isinstance(node, ast.Name)} & set("abcdpqu")


def takes_roots(rule: Rule) -> bool:
    return "sqrt" in rule.before or "sqrt" in rule.after or ("power" in rule.before and "p" in variables(rule))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8)
@given(
    functions=st.lists(rational_functions, min_size=4, max_size=4),
    point=st.tuples(*[st.fractions(-4, 4, max_denominator=5)] * 2),
    numbers=st.tuples(*[st.integers(1, 6)] * 2),
    condition=st.booleans(),
)
def test_proof_over_random_rational_functions(name, functions, point, numbers, condition):
    rule = BY_NAME[name]
    try:
        scope = {
            variable: function.values(point, RATIONAL, Fraction)[-1]
            for variable, function in zip("abcd", functions, strict=True)
        }
        assume(all(value.denominator < 10**60 for value in scope.values()))
        if takes_roots(rule):
            scope = {variable: value * value for variable, value in scope.items()}
        scope |= dict(zip("pq", map(Fraction, numbers), strict=True)) | {"u": condition}

        def apply(operation, *arguments):
            return PROOF[operation](*arguments)

        before = values(rule.before, scope, apply, Fraction)
        after = values(rule.after, scope, apply, Fraction)
    except ZeroDivisionError:  # what the rule assumes not to be
        assume(False)
    assert before == after


def drawn(rng: random.Random, rule: Rule) -> dict[str, float | bool]:
    """Numbers of all sizes for the variables; positive ones for roots and powers."""
    scope = {}
    for variable in "abcdpq":
        x = 10.0 ** rng.uniform(-3, 3)
        positive = takes_roots(rule) or "power" in rule.before
        scope[variable] = x if positive or rng.random() < 0.5 else -x
    if "power" in rule.before:
        scope["p"] = rng.uniform(0.05, 5.0)
    if rng.random() < 0.3:  # close numbers cancel
        scope["b"] = scope["a"] * (1 + rng.uniform(-1e-9, 1e-9))
    if "sin" in rule.before:
        scope["a"] = rng.uniform(-7.0, 7.0)
    return scope | {"u": rng.random() < 0.5}


def with_magnitude(operation, *pairs):
    """An operation on pairs of a value and what it would be without signs."""
    row = [value for value, _ in pairs]
    if operation == "select":
        return pairs[1] if row[0] else pairs[2]
    value = EXACT[operation](*row)
    if operation == "negative":
        return value, pairs[0][1]
    if operation in ("add", "subtract"):
        return value, pairs[0][1] + pairs[1][1]
    if operation == "multiply":
        return value, pairs[0][1] * pairs[1][1]
    if operation == "divide":
        return value, pairs[0][1] * pairs[1][1] / row[1] ** 2
    return value, abs(value)


def named(rule: Rule) -> list[tuple[str, str]]:
    """The rule's expressions; where it speaks of all odd or even functions, for each of them."""
    parity = next((parity for parity in PARITY if f"{parity}(" in rule.before), None)
    if parity is None:
        return [(rule.before, rule.after)]
    return [(rule.before.replace(parity, row.name), rule.after.replace(parity, row.name)) for row in PARITY[parity]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_equal_in_high_precision_and_rounding_as_stated(name):
    rule, rng = BY_NAME[name], random.Random(7)
    worst = 0.0
    for before, after in named(rule):
        for _ in range(300):
            scope = drawn(rng, rule)
            if rule.before != before:  # inside of the domain of every function
                scope["a"] = rng.uniform(-0.9, 0.9)
            exact = {k: (x, x) if k == "u" else (mpf(x), abs(mpf(x))) for k, x in scope.items()}
            truth = values(before, exact, with_magnitude, lambda x: (mpf(x), abs(mpf(x))))
            same = values(after, exact, with_magnitude, lambda x: (mpf(x), abs(mpf(x))))
            floats = {k: x if k == "u" else np.float64(x) for k, x in scope.items()}
            got = values(after, floats, lambda operation, *row: NUMPY[operation](*row), np.float64)
            for (value, magnitude), (other, _), number in zip(truth, same, got, strict=True):
                assert mp.almosteq(value, other, 1e-40, 1e-40 * magnitude)
                if isinstance(value, bool) or magnitude == 0:
                    continue
                error = abs(mpf(float(number)) - value) / magnitude * 2**52
                worst = max(worst, float(error))
                assert error <= rule.units + 1e-20, f"{after} at {scope}"
    assert worst >= 0.1 * rule.units, "the bound says nothing"


#: A program on which each rule wins, and what it becomes, where the rule's own expressions are not one.
WINS = {
    "numbers folded": ("(a + 3) + 5", "a + 8"),
    "factors folded": ("(a * 3) * 5", "15 * a"),
    "number as divisor": ("a / 3", "a * (1 / 3)"),
    "sign of a sum": ("exp(-a - b), a + b", "exp(-(a + b)), a + b"),
    "sign of a factor": ("c + (-a) * b", "c - a * b"),
    "sign of a quotient": ("c + a / -b", "c - a / b"),
    "number takes the sign": ("-(3 * a)", "(-3) * a"),
    "term takes the sign": ("-(a + 3)", "(-3) - a"),
    "odd function": ("c + sin(-a)", "c - sin(a)"),
    "even function": ("cos(-a)", "cos(a)"),
    "sign of a choice": ("c + select(less(c, d), -a, -b)", "c - select(less(c, d), a, b)"),
    "terms in another order": ("(a + b) + c, a + c", "(a + c) + b, a + c"),
    "multiples of one value": ("3 * a + 5 * a + b", "8 * a + b"),
    "factor that is a term": ("a + a * b, 1 + b", "a * (1 + b), 1 + b"),
    # of positive terms, which do not cancel
    "multiplied out": (
        "exp(a) * (exp(b) + exp(c)), exp(a) * exp(b), exp(a) * exp(c)",
        "exp(a) * exp(b) + exp(a) * exp(c), exp(a) * exp(b), exp(a) * exp(c)",
    ),
    "divided out": (
        "(exp(a) + exp(b)) / c, exp(a) / c, exp(b) / c",
        "exp(a) / c + exp(b) / c, exp(a) / c, exp(b) / c",
    ),
    "difference of squares": ("a * a - b * b, a + b", "(a + b) * (a - b), a + b"),
    "one less a square": ("1 - a * a, 1 + a, 1 - a", "(1 + a) * (1 - a), 1 + a, 1 - a"),
    # of which the difference of squares is a small part
    "sum by difference": (
        "(a + b) * (a - b) + exp(a * a + b * b), a * a, b * b",
        "a * a - b * b + exp(a * a + b * b), a * a, b * b",
    ),
    "factors in another order": ("(a * b) * c, a * c", "(a * c) * b, a * c"),
    "factor of a quotient": ("(a / b) * c, a * c", "(a * c) / b, a * c"),
    "quotient in a product": ("(a * b) / c, b / c", "a * (b / c), b / c"),
    "divisors together": ("(a / b) / c, b * c", "a / (b * c), b * c"),
    "divisor of a divisor": ("a / (b / c), a * c", "(a * c) / b, a * c"),
    "one reciprocal": ("a / c, b / c, 1 / c", "a * (1 / c), b * (1 / c), 1 / c"),
    "root over its value": ("sqrt(a) / a, 1 / sqrt(a)", "1 / sqrt(a), 1 / sqrt(a)"),
    "one less a sine's square": ("exp(1 - sin(a) * sin(a)), cos(a)", "exp(cos(a) * cos(a)), cos(a)"),
    "one less a cosine's square": ("exp(1 - cos(a) * cos(a)), sin(a)", "exp(sin(a) * sin(a)), sin(a)"),
    "powers one apart": ("power(a, 1.25), power(a, 0.25)", "a * power(a, 0.25), power(a, 0.25)"),
    "falling powers one apart": ("power(a, -1.25), power(a, -0.25)", "power(a, -0.25) / a, power(a, -0.25)"),
    "equal branches": ("select(less(c, d), a, a)", "a"),
    "sum of a choice": ("select(u, a, b) + c, a + c, b + c", "select(u, a + c, b + c), a + c, b + c"),
    "product of a choice": ("select(u, a, b) * c, a * c, b * c", "select(u, a * c, b * c), a * c, b * c"),
    "choice over a value": ("select(u, a, b) / c, a / c, b / c", "select(u, a / c, b / c), a / c, b / c"),
    "value over a choice": ("c / select(u, a, b), c / a, c / b", "select(u, c / a, c / b), c / a, c / b"),
    "choices of one condition": (
        "select(u, a, b) + select(u, c, d), a + c, b + d",
        "select(u, a + c, b + d), a + c, b + d",
    ),
    "products of choices": (
        "select(u, a, b) * select(u, c, d), a * c, b * d",
        "select(u, a * c, b * d), a * c, b * d",
    ),
    "factor that is a branch": ("select(u, a, a * b), select(u, 1, b)", "a * select(u, 1, b), select(u, 1, b)"),
    "sums as branches": (
        "select(u, a + b, c + d), select(u, a, c), select(u, b, d)",
        "select(u, a, c) + select(u, b, d), select(u, a, c), select(u, b, d)",
    ),
    "products as branches": (
        "select(u, a * b, c * d), select(u, a, c), select(u, b, d)",
        "select(u, a, c) * select(u, b, d), select(u, a, c), select(u, b, d)",
    ),
    "quotients as branches": (
        "select(u, a / b, c / d), select(u, a, c), select(u, b, d)",
        "select(u, a, c) / select(u, b, d), select(u, a, c), select(u, b, d)",
    ),
    "not twice": ("select(logical_not(logical_not(u)), a, b)", "select(u, a, b)"),
    "not equal": ("select(logical_not(equal(a, b)), a, b)", "select(not_equal(a, b), a, b)"),
    "both the same": (
        "select(logical_and(u, u), a, b), select(logical_or(u, u), a, b)",
        "select(u, a, b), select(u, a, b)",
    ),
    "attachment": ("attach(a * b, c)", "a * b"),
}
CONDITION = "less(exp(a), log(d))"


def win(name: str) -> tuple[str, str]:
    before, after = WINS.get(name, (BY_NAME[name].before, BY_NAME[name].after))
    return re.sub(r"\bu\b", CONDITION, before), re.sub(r"\bu\b", CONDITION, after)


class Recorder:
    """Stands in for a tape on which nothing is simplified: counts distinct operations."""

    def __init__(self, text: str) -> None:
        self.known: dict[object, None] = {}
        values(text, {name: name for name in "abcd"}, self.apply, repr)

    def apply(self, *operation: object) -> object:
        self.known.setdefault(operation)
        return operation


#: Rules that make operations cheaper, or uniform, but not fewer; so do those that spell powers out.
NOT_FEWER = {"equal terms", "number as divisor", "one reciprocal", "powers one apart", "falling powers one apart"}


@pytest.mark.parametrize("name", NAMES)
def test_wins(name):
    before, after = win(name)
    tape, expected = written(before), canonical(written(after))
    if all(piece in ("canonical.py", "tape.py") for piece, names in APPLIED.items() if name in names):
        result = canonical(tape)
    else:
        actual = [optimise(tape, effort="balanced", seed=seed, time_limit=10.0) for seed in range(6)]
        result = min(actual, key=lambda tape: tape.operations)
    assert form(result) == form(expected)
    assert result.operations == expected.operations
    if name not in NOT_FEWER and "power(" not in before:
        assert result.operations < len(Recorder(before).known)


def test_quotients_share_a_reciprocal_where_divisions_are_dear():
    tape = canonical(written("a / c, b / c, d / c"))
    network = Network(tape, IN_SEARCH | {"divide": 1000})
    network.anneal(20_000, 60.0, 5.0, 0.1)
    assert form(network.emitted()) == form(canonical(written("a * (1 / c), b * (1 / c), d * (1 / c)")))


def test_whole_and_half_powers_up_to_the_largest_chain():
    for power in (LARGEST_CHAIN, -LARGEST_CHAIN, LARGEST_CHAIN - 0.5):
        assert "power" not in str(canonical(written(f"power(a, {power})")))
    assert "power" in str(canonical(written(f"power(a, {LARGEST_CHAIN + 1})")))


#: What the optimiser must leave alone: programs whose value would be another, or less exact.
LEFT_ALONE = [
    "a - a, b",  # NaN for an infinite a
    "exp(a) * exp(b)",
    "log(a) + log(b)",
    "exp(log(a))",
    "sqrt(a) * sqrt(b)",
    "sqrt(a * a)",
    "sin(2 * a), sin(a), cos(a)",
    "cosh(a) * cosh(a) - sinh(a) * sinh(a)",
    "a * a + 2 * (a * b)",
    "power(a, 0.3) * power(a, 0.7)",
    "abs(a) * abs(a)",
    "minimum(a, b) + maximum(a, b)",
]


#: Where a value cancels, its digits are lost, and the program stays.
LOSING = [
    ("a * (b + c), a * b, a * c", "a * b + a * c, a * b, a * c"),
    ("(a + b) / c, a / c, b / c", "a / c + b / c, a / c, b / c"),
    ("(a + b) * (a - b), a * a, b * b", "a * a - b * b, a * a, b * b"),
]


@pytest.mark.parametrize(("before", "after"), LOSING)
def test_digits_are_not_given_for_operations(before, after):
    tape, lossy = canonical(written(before)), canonical(written(after))
    assert lossy.operations < tape.operations
    assert not Original(tape, within(), None).accepts(lossy)
    for seed in range(3):
        assert form(optimise(tape, seed=seed)) == form(tape)


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_left_alone(text):
    tape = written(text)
    names = sorted(tape.operation(r).name for r in range(tape.inputs, len(tape)))
    result = optimise(tape, effort="balanced", seed=0)
    operations = sorted(result.operation(r).name for r in range(result.inputs, len(result)))
    if "2 * (a * b)" in text:
        assert result.operations < tape.operations, "but common factors are taken out"
    else:
        assert operations == names


def test_every_move_of_the_kernel_is_in_the_table():
    """Functions of the kernel, but for trees and what else helps them, and `make_node`."""
    moves = SOURCES["kernel"]
    results = set(re.findall(r"^def (\w+)", moves, re.MULTILINE))
    trees = {"enter", "gather", "leaf", "looked_into", "partner", "pick", "rebuild", "signed_value"}
    helpers = {"square_root_in", "lacks", "put", "move", "run_rewrite"} | trees
    assert helpers <= results
    named = {piece for piece in APPLIED if not piece.endswith(".py")}
    assert results - helpers == named - {"make_node"}
    assert "\ndef make_node(" in SOURCES["nodes"]


def test_the_documentation_has_the_table():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert rules.table() in text, "print(rules.table()) is what belongs there"
