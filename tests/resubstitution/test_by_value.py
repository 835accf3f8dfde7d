"""Programs by value: the same values, however they came to be known to be equal, and no more wrong than they were."""

from __future__ import annotations

import sys
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from contexts import rewritten_by_rules, within
from exact import exact_values, mp, mpf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import UNIT, Original, Points, Verification, canonical, evaluate, points_of, with_folding
from programs import RATIONAL, SMOOTH, programs, small_fraction

import accumulus as acc
from accumulus import Tape, optimise
from accumulus.deadline import FOREVER
from accumulus.errors import RewritingWarning
from accumulus.programs import rewritten
from accumulus.resubstitution.extraction import Extraction
from accumulus.resubstitution.resubstitute import Resubstitution, cost
from accumulus.resubstitution.universe import Rounding
from accumulus.resubstitution.values import PRICES, Values

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from functions import all_examples

DYADIC = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5)
WHOLE = (-3.0, -2.0, -1.0, 2.0, 3.0)
FIELD = ("add", "subtract", "multiply", "divide", "negative")
CHOICES = (
    *FIELD,
    "less",
    "less_equal",
    "equal",
    "logical_and",
    "logical_or",
    "logical_not",
    "select",
    "minimum",
    "abs",
)


def by_value(tape: Tape, seed: int = 0, moves: int = 20_000, kept_outputs: int = 0) -> Tape:
    """One round, without the rules' own search after it."""
    tape = with_folding(tape)
    original = Original(tape, within(seed=seed), None, kept_outputs)
    base = original.start
    if not base.operations:
        return base
    result = Resubstitution(original, kept_outputs, seed)
    with warnings.catch_warnings():  # where a result is a number divided by zero, say
        warnings.simplefilter("ignore", RewritingWarning)
        other = rewritten_by_rules(tape, effort="fast", kept_outputs=kept_outputs)
    return result.cheapest([base, other], moves, FOREVER, seed)


@settings(max_examples=30)
@given(
    program=st.one_of(
        programs(RATIONAL, constants=DYADIC, exponents=WHOLE, steps=15),
        programs(FIELD, constants=(1.0, 2.0), inputs=2, steps=25),
        programs(("add", "subtract", "multiply"), constants=(), exponents=(), inputs=2, steps=20),
        programs(CHOICES, constants=(1.0,), inputs=3, steps=20),
    ),
    seed=st.integers(0, 3),
    points=st.lists(st.tuples(*[st.fractions(-4, 4, max_denominator=5)] * 4), min_size=3, max_size=3),
)
def test_exactly_equal_wherever_it_was_defined(program, seed, points):
    tape = program.tape()
    result = by_value(tape, seed)
    assert cost(result) <= cost(canonical(tape))
    assume(all(map(small_fraction, result.constants)))
    for point in points:
        try:
            expected = evaluate(tape, point[: tape.inputs], RATIONAL, Fraction)
        except ZeroDivisionError:
            continue
        assert evaluate(result, point[: tape.inputs], RATIONAL, Fraction) == expected


@settings(max_examples=20)
@given(
    program=programs((*SMOOTH, *FIELD, "abs", "minimum"), constants=DYADIC, exponents=(-2.5, 0.5, 1.25, 3.0)),
    points=st.lists(st.tuples(*[st.floats(-4.0, 4.0)] * 3), min_size=3, max_size=3),
)
def test_equal_in_high_precision(program, points):
    tape = program.tape()
    result = by_value(tape)
    assume(all(value in tape.constants or -value in tape.constants or small_fraction(value) for value in used(result)))
    for point in points:
        for a, b in zip(exact_values(canonical(tape), point), exact_values(result, point), strict=True):
            if mp.isfinite(a):
                assert mp.almosteq(a, b, mpf(10) ** -20, mpf(10) ** -20), f"{a} became {b}"


def used(tape: Tape) -> list[float]:
    return [tape.value_of(a) for r in range(tape.inputs, len(tape)) for a in tape.arguments(r) if a < 0]


@settings(max_examples=13)
@given(
    program=programs(
        (*FIELD, "atan2", "sqrt", "less", "select", "floor", "sign"), constants=DYADIC, inputs=3, steps=18
    ),
    kept_outputs=st.integers(0, 2),
    seed=st.integers(0, 9),
)
def test_operations_rounded_as_written_are_equal_to_the_last_bit(program, kept_outputs, seed):
    tape = program.tape()
    kept_outputs = min(kept_outputs, len(tape.outputs))
    base, result = canonical(tape, kept_outputs), by_value(tape, seed, kept_outputs=kept_outputs)
    jumps = [r for r in range(base.inputs, len(base)) if base.operation(r).name in ("floor", "sign", "atan2")]
    rng = np.random.default_rng(seed)
    points = list(rng.choice([0.0, -0.0, 1.0, -1.0, 0.5, 3.0], (tape.inputs, 60)))
    # what jumps is an output, too
    more, base_too = result.copy(), base.copy()
    base_too.outputs = [*base.outputs[:kept_outputs], *(k for k in base.outputs if k in jumps)]
    more.outputs = [
        *result.outputs[:kept_outputs],
        *(r for k, r in zip(base.outputs, result.outputs, strict=True) if k in jumps),
    ]
    with np.errstate(all="ignore"):
        for a, b in zip(evaluate(base_too, points), evaluate(more, points), strict=True):
            np.testing.assert_array_equal(a, b)


def rotation(q):
    """Cosines of three angles, all nine: the third row is the product of the others."""
    (a, b, c), (s, t, u) = np.cos(q), np.sin(q)
    return np.array(
        [
            [b * c, -b * u, t],
            [a * u + s * t * c, a * c - s * t * u, -s * b],
            [s * u - a * t * c, s * c + a * t * u, a * b],
        ]
    )


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (lambda x: (x[0] * x[0] - x[1] * x[1]) / (x[0] - x[1]) * (x[0] + x[1]), 3),
        (lambda q: np.cross(rotation(q)[0], rotation(q)[1]) - rotation(q)[2], 0),
        (lambda q: np.array([np.linalg.det(rotation(q)) * q[0]]), 0),
        (lambda q: np.sum(rotation(q)[0] ** 2) * q, 0),
        (lambda x: x[0] ** 4 - x[1] ** 4 - (x[0] - x[1]) * (x[0] + x[1]) * (x[0] * x[0] + x[1] * x[1]), 0),
    ],
    ids=["difference of squares", "cross product of rows", "determinant", "length of a row", "factors"],
)
def test_planted_identities_are_detected(function, most):
    point = np.array([0.3, 0.5, 0.7])
    derivative = acc.value_and_jacobian(function, effort="thorough", cache=False)
    program = derivative.compile(point)
    assert program.operations <= most
    value, jacobian = derivative(point)
    np.testing.assert_allclose(value, function(point), atol=1e-15)
    differences = [(function(point + h) - function(point - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(np.asarray(jacobian).T, differences, atol=1e-9)


def test_near_identities_are_not_taken():
    tape = Tape(3)
    product = tape.multiply(0, 1)
    near = tape.add(tape.multiply(tape.constant(1.0 + 1e-9), product), tape.multiply(tape.constant(1e-13), 2))
    tape.outputs = [product, near, tape.multiply(2, near)]
    result = by_value(tape)
    point = [Fraction(1, 3), Fraction(2, 7), Fraction(5)]
    assert evaluate(result, point, RATIONAL, Fraction) == evaluate(tape, point, RATIONAL, Fraction)


@pytest.mark.parametrize("name", ["sqrt", "abs", "maximum", "select", "cosine"])
def test_identities_on_a_part_of_the_domain_are_not_taken(name):
    tape = Tape(2)
    if name == "sqrt":
        same = tape.apply("sqrt", tape.multiply(0, 0))
    elif name == "cosine":  # for angles near 0
        sine = tape.apply("sin", 0)
        tape.outputs = [tape.apply("cos", 0), sine]
        same = tape.apply("sqrt", tape.subtract(tape.constant(1.0), tape.multiply(sine, sine)))
    elif name == "select":
        same = tape.apply("select", tape.apply("less", 0, 1), 0, tape.multiply(0, 1))
    else:
        same = tape.apply(name, 0, *([1] if name == "maximum" else []))
    tape.outputs += [tape.multiply(same, 1), tape.multiply(0, 1), tape.add(same, 1), tape.add(0, 1)]
    for seed in range(3):
        result = by_value(tape, seed)
        for point in ([2.0, 0.5], [-2.0, 0.5], [0.5, 2.0], [-1.0, -3.0], [40.0, 1.0]):
            with np.errstate(invalid="ignore"):
                np.testing.assert_allclose(evaluate(result, point), evaluate(tape, point), rtol=1e-12)


def test_digits_are_preserved_near_cancellation():
    """1 - cos² is sin², with no digit of it for small angles; cos² is there, and no sine would be needed."""
    tape = Tape(2)
    sine, cosine = tape.apply("sin", 0), tape.apply("cos", 0)
    tape.outputs = [tape.multiply(cosine, cosine), tape.multiply(tape.multiply(sine, sine), 1)]
    result = by_value(tape)
    for angle in (1e-3, 1e-6, 1e-9):
        got = evaluate(result, [angle, 3.0])[1]
        assert got == pytest.approx(3.0 * np.sin(angle) ** 2, rel=1e-14, abs=0.0)


def test_digits_are_preserved_far_from_zero():
    """1 - 1/(1 + exp(-x)) is 1/(1 + exp(x)), with no digit of it for large x."""
    tape = Tape(2)
    one = tape.constant(1.0)
    small, large = (tape.divide(one, tape.add(one, tape.apply("exp", x))) for x in (0, tape.negative(0)))
    power = tape.apply("exp", 0)
    tape.outputs = [tape.divide(one, tape.add(one, power)), tape.divide(power, tape.add(one, power)), small, large]
    # far from zero this one is undefined
    tape.outputs.append(tape.apply("acos", 0))
    tape.outputs += [tape.multiply(r, 1) for r in (small, tape.multiply(small, large))]
    for tried in (tape, canonical(tape)):
        result = by_value(tried)
        for x in (-200.0, -40.0, 40.0, 200.0):
            with np.errstate(invalid="ignore"):
                np.testing.assert_allclose(evaluate(result, [x, 3.0]), evaluate(tape, [x, 3.0]), rtol=1e-12)


def test_digits_of_a_conjugate_are_preserved_far_from_zero():
    """1 / (√(x² + 1) + x) is √(x² + 1) - x, with no digit of it for large x, and that for less."""
    tape = Tape(1)
    one = tape.constant(1.0)
    total = tape.add(tape.apply("sqrt", tape.add(tape.multiply(0, 0), one)), 0)
    tape.outputs = [total, tape.divide(one, total)]
    result = by_value(tape)
    for x in (4.0, 300.0, 1e8):
        np.testing.assert_allclose(evaluate(result, [x]), evaluate(tape, [x]), rtol=1e-13)


def test_nothing_is_divided_by_possible_zeros():
    """1 + x + … + x⁷ is (x⁸ - 1) / (x - 1), which are there, too, but not where x is 1."""
    tape = Tape(1)
    one = tape.constant(1.0)
    square = tape.multiply(0, 0)
    fourth = tape.multiply(square, square)
    product = tape.multiply(tape.add(one, 0), tape.add(one, square))
    difference = tape.subtract(tape.multiply(fourth, fourth), one)
    tape.outputs = [square, fourth, tape.multiply(product, tape.add(one, fourth)), difference, tape.subtract(0, one)]
    result = by_value(tape)
    assert evaluate(result, [1.0]) == [1.0, 1.0, 8.0, 0.0, 0.0]


def test_the_same_every_time():
    function, point = lambda q: rotation(q)[:1] @ rotation(q[::-1]), np.array([0.3, 0.5, 0.7])
    tapes = [str(optimise(acc.trace(function, point).tape, effort="thorough", time_limit=10.0)) for _ in range(2)]
    assert tapes[0] == tapes[1]


def test_all_ways_for_comparisons_to_come_out():
    tape = Tape(2)
    less, more = tape.apply("less", 0, 1), tape.apply("less", 1, 0)
    tape.outputs = [tape.apply("select", less, 0, 1), tape.apply("select", more, 0, 1)]
    points = Points(tape, count=4, bits_matter=True)
    points.decide(tape, [less, more], np.array([[0, 1, 0, 1], [0, 0, 1, 1]]))
    run = points.run(tape)
    assert {*zip(*run.real[[less, more]].tolist(), strict=True)} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    # and of a choice, one branch or the other
    x, y = run.real[:2]
    for output, condition in zip(tape.outputs, (less, more), strict=True):
        np.testing.assert_array_equal(run.real[output], np.where(run.real[condition], x, y))


def test_any_number_of_comparisons():
    """Twelve differences of squares between selects, each a product of two numbers that are there."""
    tape, outputs = Tape(3), []
    for k in range(12):
        condition = tape.apply("less", 2, tape.constant(float(k)))
        total, difference = tape.add(0, tape.constant(k + 0.5)), tape.subtract(0, tape.constant(k + 0.5))
        x = tape.apply("select", condition, total, 1)
        y = tape.apply("select", condition, difference, 0)
        squares = tape.subtract(tape.multiply(x, x), tape.multiply(y, y))
        outputs += [tape.add(x, y), tape.subtract(x, y), squares]
    tape.outputs = outputs
    result = by_value(tape)
    assert result.operations <= tape.operations - 20
    for x in np.random.default_rng(0).uniform(-1.0, 13.0, (40, 3)):
        np.testing.assert_allclose(evaluate(result, list(x)), evaluate(tape, list(x)), rtol=1e-12, atol=1e-12)


def test_what_holds_for_some_outcomes_alone_is_not_taken():
    """Twelve nested selects that differ in their last branch: equal for all but one of 4,096 combinations."""
    tape = Tape(15)
    conditions = [tape.apply("less", k, 12) for k in range(12)]

    def nested(last):
        for condition in conditions:
            last = tape.apply("select", condition, last, 13)
        return last

    tape.outputs = [nested(13), nested(14), tape.multiply(13, 14)]
    result = by_value(tape)
    inside = [0.0] * 12 + [1.0, 2.0, 3.0]
    assert evaluate(result, inside) == [2.0, 3.0, 6.0]


# Extraction ----------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(program=programs(("add", "subtract", "multiply"), constants=(1.0,), exponents=(), inputs=2, steps=9))
def test_extraction_finds_the_cheapest_of_all_choices(program):
    tape = canonical(program.tape())
    rng = np.random.default_rng(0)
    values = Values(tape, Verification(tape, 1, count=3, has_small=True), points_of(tape, None, rng))
    values.pair(lambda: False)
    definitions = list(values.definitions)
    roots = [abs(output) for output in values.base.outputs if abs(output) in values.base.first_definitions]
    assume(roots and len(values) < 14 and len(definitions) < 60)
    every = np.arange(len(definitions))
    extraction = Extraction(len(values), values.definitions, every, roots, values.base.first_definitions)
    extraction.anneal(30_000, FOREVER)
    best = extraction.best()
    assert sum(PRICES[each.code] for each in best.values()) == cheapest(values, definitions, roots)


def test_values_of_several_programs_are_selected_together():
    """Either product by y · z costs as much as before, and both by it cost less."""

    def of(*are_short):
        tape = Tape(4)
        y, z = 1, 2
        for factor, is_short in zip((0, 3), are_short, strict=True):
            product = (
                tape.multiply(factor, tape.multiply(y, z)) if is_short else tape.multiply(tape.multiply(factor, y), z)
            )
            tape.outputs.append(product)
        return canonical(tape)

    programs = [of(False, False), of(True, False), of(False, True)]
    assert [program.operations for program in programs] == [4, 4, 4]
    search = Resubstitution(Original(programs[0], within(), None), 0, 0)
    assert search.cheapest(programs, 1000, FOREVER, 0).operations == 3


def cheapest(values: Values, definitions, roots) -> int:
    """By trying all sets of values, from the smallest: is each made of others, without circles?"""
    given_values = {*values.inputs, *values.numbers}
    of_value = {}
    for each in definitions:
        of_value.setdefault(each.node, []).append({abs(a) for a in each.arguments} - given_values)
    nodes = sorted(of_value)
    fewest = None
    for mask in range(1 << len(nodes)):
        live = {node for k, node in enumerate(nodes) if mask >> k & 1}
        if not live.issuperset(roots) or (fewest is not None and len(live) >= fewest):
            continue
        made: set[int] = set()
        while new := {n for n in live - made if any(needs <= made for needs in of_value[n])}:
            made |= new
        if made == live:
            fewest = len(live)
    return UNIT * (fewest or 0)


@pytest.mark.parametrize("example", all_examples(), ids=lambda example: example.name)
def test_selected_definitions_use_available_values(example, monkeypatch):
    """Values that only definitions make which rounding forbids are no gifts: nothing would compute them."""
    verdicts = []
    is_same = Original.is_same

    def noted(self, made):
        verdicts.append(is_same(self, made))
        return verdicts[-1]

    monkeypatch.setattr(Original, "is_same", noted)
    init, excess = Rounding.__init__, Rounding.excess

    def noting(self, values, taken):
        init(self, values, taken)
        self.own = values.base.first_definitions

    def strict(self, definitions, numbers, slack):
        result = excess(self, definitions, numbers, slack)
        result[[definitions[number].node not in self.own for number in numbers]] = np.inf
        return result

    monkeypatch.setattr(Rounding, "__init__", noting)
    monkeypatch.setattr(Rounding, "excess", strict)
    monkeypatch.setattr(Rounding, "is_worse", lambda self, tape, times: False)
    tapes: list[Tape] = []
    monkeypatch.setattr(rewritten, "rewrite", lambda tape, context, **rest: tapes.append(tape) or canonical(tape))
    acc.value_and_jacobian(example.function, cache=False).compile(example.point)
    by_value(tapes[-1])
    assert all(verdicts)


def test_laws_of_exponentials_are_not_used():
    """Of Black and Scholes' S·φ(d₁) = K·e^(-rT)·φ(d₂), one side overflows where the other does not."""
    tape = Tape(3)
    a, b, c = range(3)
    tape.outputs = [
        tape.multiply(tape.apply("exp", tape.add(a, b)), c),
        tape.multiply(tape.multiply(tape.apply("exp", a), tape.apply("exp", b)), tape.add(c, c)),
        tape.apply("exp", a),
    ]
    result = optimise(tape, effort="thorough")
    for x in ([0.3, -1.2, 0.7], [800.0, -799.0, 0.7], [-800.0, 799.0, 0.7]):
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(evaluate(result, x), evaluate(tape, x), rtol=1e-14)


@pytest.mark.parametrize("near", [1e-9, 1e-12])
def test_nearly_equal_values_are_not_merged(near):
    tape = Tape(2)
    squares = tape.add(tape.multiply(0, 0), tape.multiply(1, 1))
    other = tape.multiply(tape.add(0, 1), tape.add(0, 1))
    twice = tape.multiply(tape.constant(2 + near), tape.multiply(0, 1))
    tape.outputs = [squares, tape.subtract(other, twice)]
    result = optimise(tape, effort="thorough")
    one, two = exact_values(result, [3.0, 5.0])
    assert one == 34
    assert abs((two - 34) / (-15 * near) - 1) < 1e-3
