"""The optimiser as a whole: the same values, never dearer, the same every time, within what is said of rounding."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from contexts import rewritten_by_rules as optimise
from contexts import verify
from exact import exact_values, mp, mpf
from expressions import form, written
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import IN_SEARCH, UNIT, Context, emit, evaluate, needed, to_bytes
from programs import RATIONAL, SMOOTH, programs, small_fraction
from strategies import tapes
from test_rules import with_magnitude

import accumulus as acc
from accumulus import Tape
from accumulus.errors import ArgumentError, UnknownNameError
from accumulus.options import EFFORTS, Options
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.optimise import Network, Rounds, _Search, by_rules

DYADIC = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5)
WHOLE = (-3.0, -2.0, -1.0, 2.0, 3.0, 5.0)
FIELD = ("add", "subtract", "multiply", "divide", "negative")
CHOICES = (*FIELD, "less", "less_equal", "equal", "logical_and", "logical_or", "logical_not", "select", "minimum")
efforts = st.sampled_from(["fast", "balanced"])
rational_programs = st.one_of(
    programs(RATIONAL, constants=DYADIC, exponents=WHOLE, steps=15),
    programs(FIELD, constants=(1.0, 2.0), inputs=3, steps=20),
    programs(("add", "subtract", "multiply"), constants=(), exponents=(), inputs=4, steps=20),
    programs(CHOICES, constants=(1.0,), inputs=3, steps=20),
)


@settings(max_examples=75)
@given(
    program=rational_programs,
    effort=efforts,
    seed=st.integers(0, 3),
    points=st.lists(st.tuples(*[st.fractions(-4, 4, max_denominator=5)] * 4), min_size=3, max_size=3),
)
def test_exactly_equal_in_rational_arithmetic(program, effort, seed, points):
    tape = program.tape()
    result = optimise(tape, effort=effort, seed=seed)
    assume(all(map(small_fraction, result.constants)))
    for point in points:
        try:
            expected = evaluate(tape, point[: tape.inputs], RATIONAL, Fraction)
        except ZeroDivisionError:
            continue
        assert evaluate(result, point[: tape.inputs], RATIONAL, Fraction) == expected


@settings(max_examples=30)
@given(
    program=programs(
        (*SMOOTH, *FIELD, "abs", "minimum", "maximum"), constants=DYADIC, exponents=(-2.5, 0.5, 1.25, 3.0)
    ),
    effort=efforts,
    points=st.lists(st.tuples(*[st.floats(0.125, 4.0)] * 3), min_size=2, max_size=2),
)
def test_equal_in_high_precision(program, effort, points):
    tape = program.tape()
    result = optimise(tape, effort=effort)
    used = {
        value for r in range(result.inputs, len(result)) for a in result.arguments(r) if (value := number(result, a))
    }
    assume(all(value in tape.constants or -value in tape.constants or small_fraction(value) for value in used))
    for point in points:
        for a, b in zip(exact_values(tape, point), exact_values(result, point), strict=True):
            # where a rule's assumption fails, 0 · (1/0) say, the plain program has no value
            if mp.isfinite(a):
                assert mp.almosteq(a, b, mpf(10) ** -20, mpf(10) ** -20), f"{a} became {b}"


def number(tape: Tape, reference: int) -> float:
    return tape.value_of(reference) if reference < 0 else 0.0


@settings(max_examples=30)
@given(
    tape=tapes(4, 25, names=FIELD),
    effort=efforts,
    seed=st.integers(0, 1000),
)
def test_rounding_stays_within_the_condition_scaled_error(tape, effort, seed):
    """Over the field: half a unit of the sum of all terms' magnitudes for each operation, and twice that at most."""
    result, rng = optimise(tape, effort=effort, seed=seed), np.random.default_rng(seed)
    for point in rng.uniform(0.1, 2.0, (3, tape.inputs)) * rng.choice([-1.0, 1.0], (3, tape.inputs)):
        scope = [(mpf(x), abs(mpf(x))) for x in point]
        arithmetic = {name: lambda *pairs, name=name: with_magnitude(name, *pairs) for name in FIELD}
        try:
            expected = evaluate(tape, scope, arithmetic, lambda x: (mpf(x), abs(mpf(x))))
        except ZeroDivisionError:
            continue
        if not all(mp.isfinite(value) and mp.isfinite(magnitude) for value, magnitude in expected):
            continue
        got = evaluate(result, list(point))
        units = 0.5 * (tape.operations + 1)
        for (value, magnitude), x in zip(expected, got, strict=True):
            if magnitude < 1e280:
                assert abs(mpf(float(x)) - value) <= 2 * units * mpf(2) ** -52 * magnitude + mpf(10) ** -290


@settings(max_examples=30)
@given(tape=tapes(4, 30), effort=efforts, seed=st.integers(0, 100))
def test_never_dearer_idempotent_and_deterministic(tape, effort, seed):
    before = str(tape)
    once = optimise(tape, effort=effort, seed=seed, time_limit=30.0)
    assert str(tape) == before
    assert once.operations <= canonical(tape).operations
    assert (once.inputs, len(once.outputs)) == (tape.inputs, len(tape.outputs))
    assert all(needed(once)[once.inputs :])
    assert str(optimise(tape, effort=effort, seed=seed, time_limit=30.0)) == str(once)
    again = optimise(once, effort=effort, seed=seed, time_limit=30.0)
    assert again.operations <= once.operations
    verify(once, again)
    assert str(canonical(once)) == str(once)


@settings(max_examples=30)
@given(tape=tapes(4, 30), seed=st.integers(0, 100), kept_outputs=st.integers(1, 4))
def test_kept_outputs_are_untouched_to_the_last_bit(tape, seed, kept_outputs):
    kept_outputs = min(kept_outputs, len(tape.outputs))
    result = optimise(tape, seed=seed, kept_outputs=kept_outputs)
    rng = np.random.default_rng(seed)
    points = list(rng.uniform(-2.0, 2.0, (tape.inputs, 40)))
    with np.errstate(all="ignore"):
        for before, after in zip(
            evaluate(tape, points)[:kept_outputs], evaluate(result, points)[:kept_outputs], strict=True
        ):
            np.testing.assert_array_equal(before, after)


@given(program=programs(FIELD, constants=(3.0,), inputs=3, steps=14), seed=st.integers(0, 100))
def test_kept_outputs_keep_their_operations(program, seed):
    tape = program.tape()
    result = optimise(tape, seed=seed, kept_outputs=1)
    first, second = [needed(t, t.outputs[:1]) for t in (tape, result)]
    names = [
        sorted(t.operation(r).name for r in range(t.inputs, len(t)) if marks[r] and t.operation(r).name in FIELD[2:4])
        for t, marks in ((tape, first), (result, second))
    ]
    assert names[0] == names[1]


def test_kept_outputs_are_checked():
    text = "a * b + a * c, (a + b) / 3, a * d + a * (b - c), a / 3 + b / 3 + 3 / a"
    assert form(optimise(written(text), kept_outputs=4)) == form(written(text))
    partly = form(optimise(written(text), kept_outputs=2))
    assert partly[:2] == form(written(text))[:2]
    assert partly[2:] != form(written(text))[2:]
    assert optimise(written(text)).operations < optimise(written(text), kept_outputs=2).operations


@pytest.mark.parametrize("effort", EFFORTS)
def test_efforts(effort):
    text = "a*b + a*c + a*d, a*b - a*c, (b + c)*d, b*b - c*c, a/(b*c), d/(b*c), exp(a - b)*(b - a)"
    tape = written(text)
    result = optimise(tape, effort=effort, time_limit=0.5)
    verify(tape, result)
    assert result.operations < canonical(tape).operations
    if effort != "fast":
        assert result.operations <= optimise(tape, effort="fast").operations


def test_sharing_that_greedy_factoring_misses():
    """(a + b)(c + d) written out: seven operations, three when it is factored."""
    result = optimise(written("a*c + a*d + b*c + b*d"))
    assert form(result) == form(written("(a + b) * (c + d)"))


@given(tape=tapes(), seed=st.integers(0, 3))
def test_a_round_is_left_out_only_where_it_would_find_the_same(tape, seed):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_Search, "may_win", property(lambda search: True, lambda search, value: None), raising=False)
        expected = optimise(tape, seed=seed)
    assert to_bytes(optimise(tape, seed=seed)) == to_bytes(expected)


def test_nothing_to_win_takes_one_round(monkeypatch):
    rounds = []
    once = _Search.round
    monkeypatch.setattr(_Search, "round", lambda *args, **how: rounds.append(args) or once(*args, **how))
    tape = canonical(written("sin(a) * b"))
    assert to_bytes(optimise(tape)) == to_bytes(tape)
    assert len(rounds) == 1


@pytest.mark.parametrize(
    ("function", "gain", "share"),
    [
        (lambda x: np.sum(np.log(3.2) + 0.5 * ((x - 0.3) / 1.3) ** 2) * x[0], 0.1, 1.0),  # takes all moves
        (lambda x: np.sum(np.log1p(x[:-1] ** 2 * x[1:] ** 2)) + np.sum(np.exp(-x)), 0.0, 0.3),
    ],
)
def test_programs_of_equal_parts_are_annealed_as_long_as_that_wins(function, gain, share, monkeypatch):
    graph = acc.trace(function, np.linspace(-1.0, 2.0, 150)).linearize()
    tape = emit(acc.plan(graph, "reverse", cache=False).accumulation)
    moves, anneal = [], Network.anneal
    monkeypatch.setattr(Network, "anneal", lambda self, tried, *how: moves.append(tried) or anneal(self, tried, *how))
    swept = by_rules(tape, Context(Options(effort="fast")))
    whole = by_rules(tape)
    (before,) = moves
    stopping = by_rules(tape, rounds=Rounds(while_winning=True))
    assert whole.operations <= (1.0 - gain) * swept.operations
    assert stopping.operations <= 1.01 * whole.operations
    assert sum(moves[1:]) <= share * before


@pytest.mark.parametrize("seed", range(4))
def test_a_sweep_keeps_the_best_of_the_annealing(seed):
    tape = canonical(written("a*b + a*c - (b + c)*d, a*b*c - a*b*d, (a + b)*(a - b), a*a, c / (a*b) + d / (a*b)"))
    network = Network(tape, IN_SEARCH, seed=seed)
    network.anneal(3000, UNIT * 10.0, UNIT * 10.0, 0.1)
    best = network.best_cost
    network.sweep(1)
    assert network.best_cost <= best
    assert network.best_cost <= network.cost


def outputs(*references: int, inputs: int = 2) -> Tape:
    tape = Tape(inputs)
    tape.outputs = list(references)
    return tape


TRIVIAL = {
    "nothing": outputs(inputs=0),
    "no outputs": outputs(),
    "inputs": outputs(1, 0, 0),
    "numbers": None,
    "negatives": written("-a, -b, -a, a, -3"),
    "duplicates": written("a*b, a*b, -(a*b), b*a, a"),
    "dead": None,
    "odd numbers": None,
}


def trivial(name: str) -> Tape:
    tape = TRIVIAL[name]
    if tape is not None:
        return tape
    tape = Tape(2)
    if name == "numbers":
        tape.outputs = [tape.constant(x) for x in (0.0, -0.0, 1.0, math.inf, math.nan, 5e-324)]
    elif name == "dead":
        tape.add(tape.multiply(0, 1), tape.multiply(0, 0))
        tape.outputs = [0]
    else:
        numbers = [tape.constant(x) for x in (math.inf, -math.inf, math.nan, 1e308, 5e-324, -0.0)]
        tape.outputs = [tape.apply(name, x, 0) for x in numbers for name in ("add", "multiply", "divide", "subtract")]
        tape.outputs += [tape.divide(0, x) for x in numbers]
    return tape


@pytest.mark.parametrize("name", TRIVIAL)
@pytest.mark.parametrize("effort", EFFORTS)
def test_programs_with_hardly_anything_in_them(name, effort):
    tape = trivial(name)
    result = optimise(tape, effort=effort, time_limit=0.2)
    assert (result.inputs, len(result.outputs)) == (tape.inputs, len(tape.outputs))
    assert result.operations <= canonical(tape).operations
    with np.errstate(all="ignore"):
        point = [1.5, -0.75, 2.5, 3.5][: tape.inputs]
        np.testing.assert_allclose(evaluate(result, point), evaluate(tape, point), rtol=1e-15)


def test_errors():
    tape = written("a * b")
    with pytest.raises(UnknownNameError, match="unknown effort 'balance'; did you mean 'balanced'"):
        optimise(tape, effort="balance")
    for count in (-1, 2):
        with pytest.raises(ArgumentError, match="kept_outputs"):
            optimise(tape, kept_outputs=count)
    for time_limit in (-1.0, math.nan):
        with pytest.raises(ArgumentError, match="expected at least 0 seconds"):
            optimise(tape, time_limit=time_limit)
    with pytest.raises(ArgumentError, match="expected a Tape"):
        optimise("a * b")


def test_no_mistake_is_reported_where_numbers_are_equal():
    """min(0, 1) is folded, but is no number that the verification knows; here every value is 0, without an error."""
    assert optimise(written("select(equal(0, a / c), 0.05, minimum(0, a / a))")).operations <= 5


@pytest.mark.parametrize("time_limit", [0.0, 1e-9, math.inf])
def test_time_limits(time_limit):
    tape = written("a * b + a * c")
    for effort in EFFORTS:
        result = optimise(tape, effort=effort, time_limit=time_limit)
        assert result.operations == 2 if time_limit > 1.0 and effort != "fast" else result.operations <= 3


INF, NAN = math.inf, math.nan
#: Expressions at points where IEEE arithmetic is out of the ordinary: what they are as written, and optimised.
SPECIAL = {
    "a - a stays": ("a - a", {"a": INF}, NAN, NAN),
    "a / a is one": ("a / a", {"a": 0.0}, NAN, 1.0),
    "a divisor cancels": ("(a * b) / b", {"a": 2.0, "b": 0.0}, NAN, 2.0),
    "a square of a root": ("sqrt(a) * sqrt(a)", {"a": -1.0}, NAN, -1.0),
    "sine and cosine": ("sin(a) * sin(a) + cos(a) * cos(a)", {"a": INF}, NAN, 1.0),
    "infinite terms": ("a * b + a * c", {"a": 1.0, "b": INF, "c": -INF}, NAN, NAN),
    "infinite factor": ("a * b + a * c", {"a": INF, "b": 1.0, "c": -1.0}, NAN, NAN),
    "zero times infinity": ("a * b + a * c", {"a": 0.0, "b": 1e308, "c": 1e308}, 0.0, NAN),
    "a branch that is not taken": ("select(less(0, a), b / a, 0) * c", {"a": 0.0, "b": 1.0, "c": 1.0}, 0.0, 0.0),
    "a factor in a branch": (
        "select(less(0, a), b * c, 0) + select(less(0, a), b * d, 0)",
        {"a": 0.0, "b": INF, "c": 1.0, "d": 1.0},
        0.0,
        0.0,
    ),
    "a factor of both branches": ("select(less(0, a), b * c, b * d)", {"b": 2.0, "d": INF}, 2.0, 2.0),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name):
    text, point, as_written, optimised = SPECIAL[name]
    values = [point.get(variable, 1.0) for variable in "abcd"]
    tape = written(text)
    for seed in range(4):
        with np.errstate(all="ignore"):
            np.testing.assert_equal(float(evaluate(tape, values)[0]), as_written)
            np.testing.assert_equal(float(evaluate(optimise(tape, seed=seed), values)[0]), optimised)


def test_branches_that_are_not_taken_stay_off():
    """Random sums of guarded terms: at a point where all conditions fail, what they guard is infinite or NaN."""
    rng = random.Random(1)
    for seed in range(30):
        condition = "less(0, a)"
        terms = [
            f"{rng.choice('bcd')} * select({condition}, {rng.choice('bcd')} / a, 0)"
            if rng.random() < 0.5
            else f"select({condition}, {rng.choice('bcd')} * (1 / a), 0)"
            for _ in range(rng.randint(2, 5))
        ]
        result = optimise(written(" + ".join(terms)), seed=seed)
        with np.errstate(all="ignore"):
            assert evaluate(result, [0.0, 1.0, 2.0, 3.0]) == [0.0]


def test_compensated_arithmetic_needs_kept_outputs():
    """By algebra the rounding error of a sum is zero: only `exact_order` keeps it."""
    text = "a + b, (a - ((a + b) - ((a + b) - a))) + (b - ((a + b) - a))"
    point = [1.0, 1e-17, 0.0, 0.0]
    tape = written(text)
    assert evaluate(tape, point)[1] == 1e-17
    assert evaluate(optimise(tape, kept_outputs=2), point)[1] == 1e-17
    assert optimise(tape).operations < canonical(tape).operations
