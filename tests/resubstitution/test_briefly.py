"""Resubstitution at the default effort: shorter than rules alone, equal, as accurate, and within its limits."""

from __future__ import annotations

import math
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from contexts import verify, within
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import Original, canonical, emit, evaluate, with_folding
from programs import RATIONAL, programs, small_fraction

import accumulus as acc
from accumulus import Tape, optimise
from accumulus.errors import RewritingWarning
from accumulus.resubstitution import optimise as module
from accumulus.resubstitution.optimise import BRIEF, resubstitute_once, rewrite
from accumulus.rewriting.optimise import Rounds
from accumulus.rewriting.optimise import by_rules as rules
from accumulus.rewriting.rounding import run_at_points

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from functions import all_examples, suite

DYADIC = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5)
WHOLE = (-3.0, -2.0, -1.0, 2.0, 3.0)
FIELD = ("add", "subtract", "multiply", "divide", "negative")


def emitted(name: str) -> tuple[Tape, np.ndarray]:
    """Values and derivatives of an example before they are rewritten, and its point."""
    (example,) = [each for each in (*all_examples(), *suite()) if each.name == name]
    graph = acc.trace(example.function, example.point).linearize()
    plan = acc.plan(graph, "markowitz", cache=False)
    return emit(plan.accumulation), np.asarray(example.point, float)


# Functions that differ in what makes no difference have programs of as many operations -------------------------------


def in_empty_array(f, x):
    """Entries are NaN until they are overwritten."""
    results = np.empty(len(f(x)))
    results[:] = f(x)
    return results


def after_dead_numbers(f, x):
    results = np.empty(len(f(x)))
    results[0] = x[0]
    results = results * np.sin(x[0]) + x[0]  # of NaN, but for the first
    results[:] = f(x)
    return results


def between_infinite_limits(f, x):
    return f(np.clip(np.maximum(np.minimum(x, np.inf), -np.inf), -np.inf, np.inf))


def where_finite(f, x):
    if not np.all(np.isfinite(x)):
        raise ValueError("infinite arguments")
    return f(x)


def where_near(f, x):
    assert np.all(np.abs(x) < 1e6)
    return f(x)


#: Ways to write a function, each with the operations that it adds for each argument.
WAYS = {in_empty_array: 0, after_dead_numbers: 0, between_infinite_limits: 0, where_finite: 3, where_near: 3}
#: Of the examples, those that theorems shorten have all steps of their methods.
NAMES = ("robot_arm", "nurbs_point", "black_scholes", "pendulum_chain", "reprojection", "roe_flux")
#: Largest relative number of operations, and of those by a theorem: the searches find other programs.
BY_CHANCE = 1.25


def program_of(name, way=None, **options):
    (example,) = [each for each in (*all_examples(), *suite()) if each.name == name]

    def f(x):
        return example.function(x) if way is None else way(example.function, x)

    return acc.value_and_jacobian(f, cache=False, **options).compile(example.point), example


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_other_ways_to_write_a_function_are_rewritten_as_well(name, way):
    expected, _ = program_of(name)
    program, example = program_of(name, way)
    assert program.report().theorem == expected.report().theorem
    assert program.report().stages[-1][0] == expected.report().stages[-1][0]
    assert program.operations <= BY_CHANCE * expected.operations + WAYS[way] * example.inputs + 3
    if not WAYS[way] and way is not after_dead_numbers:
        assert program.operations == expected.operations
    for one, other in zip(program(example.point), expected(example.point), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_thorough_programs_do_not_mind_empty_arrays():
    limited = {"effort": "thorough", "time_limit": 0.5}
    one, other = (program_of("robot_arm", way, **limited)[0] for way in (None, in_empty_array))
    assert one.report().stages == other.report().stages


def test_infinity_stays_in_comparisons():
    """While a program is rewritten, the largest number stands for it; programs that have both keep to rules."""
    largest = np.finfo(float).max

    def f(x):
        if np.isinf(x[0]) or x[1] > -np.inf > x[2]:
            return x
        with np.errstate(invalid="ignore"):
            y = np.where(np.abs(x) < np.inf, np.sin(x) * x[::-1], 0.0)
        return np.cumsum(np.cumsum(np.cumsum(y * y) * y) * y) * y[0]

    def g(x):
        return f(x) * np.where(x[0] < largest, x[0], 1.0)

    x = np.array([0.3, -0.7, 1.1, 0.4, 0.9])
    for function, name in ((f, "rules and resubstitution"), (g, "rules")):
        jacobian = acc.value_and_jacobian(function, cache=False)
        program = jacobian.compile(x)
        assert np.inf in program.tape.constants
        assert (largest in program.tape.constants) == (function is g)
        assert program.report().stages[0][0] == name
        np.testing.assert_allclose(jacobian(x)[0], function(x), rtol=1e-12)
        infinite = np.array([0.3, np.inf, 1.1, -np.inf, 0.9])
        np.testing.assert_allclose(jacobian(infinite)[0], function(infinite), rtol=1e-12)


@pytest.mark.parametrize("name", ["robot_arm", "nurbs_point", "four_body"])
def test_the_default_gains_beyond_rules(name):
    tape, point = emitted(name)
    assert BRIEF[0] <= tape.operations <= BRIEF[1]
    by_rules = rules(tape)
    result = optimise(tape, points=point[np.newaxis])
    assert result.operations < 0.93 * by_rules.operations
    assert str(result) == str(optimise(tape, points=point[np.newaxis]))
    verify(canonical(tape), result, seed=7)
    # no output is more than four times as uncertain as it was, at points that the search has not seen
    points = point * (1 + 0.05 * np.random.default_rng(7).normal(size=(50, len(point))))
    (before, bounds), (after, uncertain) = run_at_points(canonical(tape), points), run_at_points(result, points)
    for a, b in zip(canonical(tape).outputs, result.outputs, strict=True):
        if a >= 0 and b >= 0:
            limit = np.fmax(bounds[a], np.abs(before[a]))
            assert (uncertain[b] <= 4.0 * limit).all()
            assert (np.abs(after[b] - before[a]) <= 2.0**-53 * (uncertain[b] + bounds[a])).all()


@settings(max_examples=20)
@given(
    program=st.one_of(
        programs(RATIONAL, constants=DYADIC, exponents=WHOLE, steps=15),
        programs(FIELD, constants=(1.0, 2.0), inputs=2, steps=25),
        programs((*FIELD, "less", "equal", "select", "minimum", "abs"), constants=(1.0,), inputs=3, steps=20),
    ),
    seed=st.integers(0, 3),
    points=st.lists(st.tuples(*[st.fractions(-4, 4, max_denominator=5)] * 4), min_size=3, max_size=3),
)
def test_exactly_equal_wherever_it_was_defined(program, seed, points):
    tape = with_folding(program.tape())
    with warnings.catch_warnings():  # where a result is a number divided by zero, say
        warnings.simplefilter("ignore", RewritingWarning)
        context = within(math.inf, seed=seed)
        result = resubstitute_once(tape, context, Original(tape, context, None))
    assert result.operations <= canonical(tape).operations
    assume(all(map(small_fraction, result.constants)))
    for point in points:
        try:
            expected = evaluate(tape, point[: tape.inputs], RATIONAL, Fraction)
        except ZeroDivisionError:
            continue
        assert evaluate(result, point[: tape.inputs], RATIONAL, Fraction) == expected


def test_unequal_values_are_not_merged(monkeypatch):
    tape, point = emitted("robot_arm")
    sketch, wrong = module.sketch, []

    def mistaken(tape, moves, context, **options):
        made = sketch(tape, moves, context, **options)
        if options.get("is_last", True):
            made.outputs[-1], made.outputs[-2] = made.outputs[-2], made.outputs[-1]
            wrong.append(made)
        return made

    monkeypatch.setattr(module, "sketch", mistaken)
    result = optimise(tape, points=point[np.newaxis])
    assert wrong
    verify(canonical(tape), result, seed=7)


def test_a_mistaken_start_is_verified(monkeypatch):
    tape, point = emitted("robot_arm")
    sketch = module.sketch

    def mistaken(tape, moves, context, **options):
        made = sketch(tape, moves, context, **options)
        made.outputs[-1], made.outputs[-2] = made.outputs[-2], made.outputs[-1]
        return made

    monkeypatch.setattr(module, "sketch", mistaken)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RewritingWarning)
        result = optimise(tape, points=point[np.newaxis])
    verify(canonical(tape), result, seed=7)


def test_unsuitable_programs_are_rewritten_by_rules_alone():
    tape, point = emitted("robot_arm")
    points = point[np.newaxis]
    half = Rounds(260)
    assert str(optimise(tape, rounds=half, points=points)) == str(rules(tape, rounds=half))
    assert str(optimise(tape, effort="fast", points=points)) == str(rules(tape, within(effort="fast")))
    assert str(optimise(tape, kept_outputs=3, points=points)) == str(rules(tape, kept_outputs=3))
    short, at = emitted("transistor_amplifier")
    assert short.operations < BRIEF[0]
    assert str(optimise(short, points=at[np.newaxis])) == str(rules(short))


@pytest.mark.parametrize(("name", "most"), [("nurbs_point", 0.85), ("peng_robinson", 0.9)])
def test_derivatives_are_rewritten_by_value_by_default(name, most, monkeypatch):
    (example,) = [each for each in (*all_examples(), *suite()) if each.name == name]
    program = acc.jacobian(example.function, cache=False).compile(example.point)
    monkeypatch.setattr("accumulus.resubstitution.optimise.BRIEF", (0, 0))
    by_rules = acc.jacobian(example.function, cache=False).compile(example.point)
    assert program.operations < most * by_rules.operations
    X = example.point * np.random.default_rng(0).uniform(0.8, 1.25, (30, len(example.point)))
    for a, b in zip(program.kernel.batch(X), by_rules.kernel.batch(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_where_time_is_short_rules_have_it():
    tape, _ = emitted("robot_arm")
    assert rewrite(tape, within(0.0)).operations == canonical(tape).operations
    result = rewrite(tape, within(0.05))
    verify(canonical(tape), result, seed=7)
    assert result.operations <= canonical(tape).operations


def test_the_brief_round_is_not_used_under_thorough(monkeypatch):
    """By rules until nothing is won, it would leave nothing of the work for what a thorough effort does by value."""
    efforts = []

    def noted(tape, context, **rest):
        efforts.append(context.options.effort)
        return by_rules(tape, context, **rest)

    by_rules = module.by_rules
    monkeypatch.setattr(module, "by_rules", noted)
    tape = Tape(3)
    tape.outputs = [tape.multiply(tape.add(0, 1), tape.add(1, 2)), tape.divide(tape.add(0, 1), 2)]
    optimise(tape, effort="thorough", time_limit=1.0)
    assert efforts[0] == "balanced"
    assert "thorough" in efforts
