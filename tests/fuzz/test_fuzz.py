"""The random programs of `make fuzz`: some hundred of them, always the same; and that mistakes are noticed."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import arrays
import calls
import checking
import constructs
import driver
import forms
import kinds
import numpy as np
import pytest
import scalars
import stress
import sweep
import truths
import ways
import with_jax
from exact import mp, mpf

import accumulus as acc

SHARDS = 4
PROGRAMS = 24
OF_FORMS = 16
OF_CONSTRUCTS = 7
FIRST = 100
OF_PROGRAMS = 256  # none of whose sources XLA compiles


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_programs(shard):
    first = OF_PROGRAMS + shard
    outcomes = driver.checked_all(range(first, first + 13 * PROGRAMS, 13))  # through all kinds, most ways
    for outcome in outcomes:
        assert outcome.kind in ("right", "undecided"), f"{outcome.remark}\n{outcome.seed}\n{outcome.source}"
    right = [outcome for outcome in outcomes if outcome.kind == "right"]
    assert len(right) > 0.7 * PROGRAMS
    saw = {each for outcome in right for each in outcome.saw}
    assert {"numpy", "llvm", "c", "batch", "jacobian", "taylor", "first order", "second order"} <= saw


def test_every_kind_way_and_construct_goes_in_turn():
    turns = [checking.Turn.of(number) for number in range(1792)]
    everything = {
        (a, b, c) for a in checking.KINDS_IN_TURN for b in checking.WAYS_IN_TURN for c in [*forms.GROUPS, None]
    }
    assert {(turn.kind, turn.way, turn.construct) for turn in turns} == everything
    drawn = [scalars.random_scalars(random.Random(k), name) for name in forms.GROUPS for k in range(20)]
    results = [forms.groups_in(program) for program in drawn]
    assert all(name in results[20 * k + j] for k, name in enumerate(forms.GROUPS) for j in range(20))


@pytest.mark.parametrize(
    ("mutant", "number"),
    [
        ("the derivative of sin", 396),
        ("sums of a sweep over the graph", 300),
        ("points of a batch in the target llvm", 15),
    ],
)
def test_mutants_are_noticed(mutant, number):
    """By the first program that notices them; `--mutants` checks programs from the first on."""
    assert driver.noticed(mutant, number, 1)[1] is not None


def test_a_log_goes_on_where_it_was_stopped(tmp_path, capsys, monkeypatch):
    command = ["--no-derivatives", "--no-sweep", "--stress", "--constructs=0", "--files=0", "--jobs=1", "--log"]
    monkeypatch.setenv("ACCUMULUS_CACHE_PLANS", "0")
    monkeypatch.setattr(driver, "CHUNK", 2)
    monkeypatch.setattr(driver, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    taken = []
    check = driver.checked_all
    monkeypatch.setattr(driver, "checked_all", lambda numbers, how: taken.extend(numbers) or check(numbers, how))
    for programs in (2, 4):
        assert driver.main([*command, str(tmp_path / "log"), "--programs", str(programs)]) == 0
    assert taken == [0, 1, 2, 3]
    assert "4 programs from seed 0: " in capsys.readouterr().out
    failed = checking.Outcome(0, "wrong")
    assert driver.has_failed(([failed], 0.0))
    assert not driver.has_failed(([replace(failed, kind="right")], 0.0))


def test_processes_are_replaced():
    """CPython's own way to replace them may wait for ever, after so many tasks."""
    options = argparse.Namespace(log={}, jobs=1, refresh=2)  # after one task each, it replaces them
    assert dict(driver._done(abs, [*range(-6, 0)], options)) == {-k: k for k in range(1, 7)}


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_construct_is_there_in_every_kind_target_and_way(shard):
    cases = constructs.drawn_cases(SHARDS * OF_CONSTRUCTS, FIRST)
    outcomes = [constructs.check_case(case) for case in cases[shard::SHARDS]]
    for outcome in outcomes:
        assert outcome.kind in ("right", "undecided"), f"{outcome.remark}\n{outcome.source}"
    assert Counter(outcome.kind for outcome in outcomes)["right"] > 0.95 * OF_CONSTRUCTS


@pytest.mark.parametrize(
    "case",
    [
        constructs.Case("factorisations", "jvp", "numpy", "in loops", "file"),  # a loop over no entries
        constructs.Case("decision", "lagrangian", "llvm", "in loops", "points"),  # what holds is within a body
    ],
    ids=lambda case: case.construct,
)
def test_constructs_that_failed_once(case):
    outcome = constructs.check_case(case)
    assert outcome.kind == "right", outcome.remark


def test_forms_of_other_libraries():
    outcomes = [kinds.check_form(16 * (FIRST + k) + 4 + k % 2) for k in range(OF_FORMS)]
    for outcome in outcomes:
        assert outcome.kind in ("right", "undecided"), f"{outcome.remark}\n{outcome.seed}\n{outcome.source}"
    right = {outcome.remark.partition(":")[0] for outcome in outcomes if outcome.kind == "right"}
    assert right == set(forms.OTHERS)


@pytest.mark.skipif(with_jax.MISSING is not None, reason="needs JAX")
def test_ties_of_masks_have_the_curvature_of_jax(monkeypatch):
    def undone(rng):
        program = arrays.random_arrays(rng)
        return replace(
            program, preludes=(("A", "A ** 2"),), row=None, cases=("np.sum(A, where=A > 0)",), combined="return y"
        )

    at_zero = [np.ones(3), np.diag([1.0, 2.0, 0.0]), np.ones((2, 4)), 0.1]
    monkeypatch.setattr(kinds, "random_program", lambda rng, construct: undone(rng))
    monkeypatch.setattr(kinds, "random_point", lambda *_: at_zero)
    monkeypatch.setattr(kinds, "KINDS", {"hvp": kinds.hvp})
    outcomes = [kinds.check_kind(FIRST + k) for k in range(4)]
    assert {outcome.kind for outcome in outcomes} == {"right"}
    monkeypatch.setattr(kinds, "MISSING", "JAX")  # by differences alone
    assert {kinds.check_kind(FIRST + k).kind for k in range(4)} == {"undecided"}


@pytest.mark.parametrize("table", ["THROUGH", "BRANCHES", "THROUGH_JAX", "BRANCHES_JAX"])
def test_all_texts_are_drawn(table):
    texts = getattr(forms, table)
    assert sum(texts.values()) < 1
    draw = random.Random(0)
    assert {forms.drawn(texts, draw) for _ in range(20_000)} == {*texts, None}


def test_texts_leave_values_as_they_are():
    for text in forms.THROUGH:
        scope = {**arrays.scope(), "t": np.float64(1.5)}
        exec(text.format(t="t").replace("\n    ", "\n"), scope)
        assert scope["t"] == 1.5, text
    for text in forms.BRANCHES:
        for c in (True, False):
            scope = {"a": 1.5, "b": 2.5, "c": c}
            exec(text.format(t="t", a="a", b="b", c="c").replace("\n    ", "\n"), scope)
            assert scope["t"] == (1.5 if c else 2.5), text


@pytest.mark.parametrize("shard", range(SHARDS))
def test_odd_arguments(shard):
    """A hundredth of all cases."""
    for number in range(100 * shard, sweep.count(), 100 * SHARDS):
        outcome = sweep.check_case(number)
        assert outcome.kind == "right", f"{number}: {outcome.source}{outcome.remark}"


def test_mistakes_in_other_kinds_are_noticed(monkeypatch):
    wrong = replace(scalars.TABLE["multiply"], partials=(lambda x, y: x, lambda x, y: x))
    monkeypatch.setitem(scalars.TABLE, "multiply", wrong)
    # where the first programs that multiply are: few Hessians have a product that others do not hide
    for name, first in (("jvp", FIRST + 6), ("hessian", FIRST + 159)):
        monkeypatch.setattr(kinds, "KINDS", {name: getattr(kinds, name)})
        assert any(kinds.check_kind(seed).kind == "wrong" for seed in range(first, first + 400))


@pytest.mark.parametrize(
    ("name", "change", "first"),
    [
        ("sin", {"partials": (lambda x: -scalars.TABLE["cos"].value(x),)}, FIRST + 26),
        ("multiply", {"partials": (lambda x, y: x, lambda x, y: x)}, FIRST + 23),
        ("divide", {"partials": (lambda x, y: 1 / y, lambda x, y: x / y**2)}, FIRST + 12),
    ],
)
def test_mistakes_are_noticed(name, change, first, monkeypatch):
    monkeypatch.setitem(scalars.TABLE, name, replace(scalars.TABLE[name], **change))
    assert any(checking.check(seed).kind == "wrong" for seed in range(first, first + 400))


def test_the_oracle_decides_quotients_as_they_are_written():
    program = scalars.Scalars(("x",), ((1,),), ["x[0]"])
    forty_nine = 1 + scalars.CONSTANTS.index(49.0)
    first = 1 + len(program.constants)
    program.steps = [("divide", (0, forty_nine)), ("floor", (first,)), ("remainder", (0, forty_nine))]
    program.outputs = [first + 1, first + 2]
    result = scalars.truth(program, [147.0], exact_order=False, dtype="float64", samples=4, seed=0)
    assert result.values == [3, 0]
    assert result.slopes == [[0], [1]]


def test_the_oracle_takes_the_size_of_what_is_rounded():
    """s/10 - |s/10| is 0, and not the rounding error of s/10."""
    program = scalars.Scalars(("s",), ((),), ["s"])
    ten = 1 + scalars.CONSTANTS.index(10.0)
    first = 1 + len(program.constants)
    program.steps = [("divide", (0, ten)), ("abs", (first,)), ("subtract", (first, first + 1))]
    program.outputs = [first + 2]
    result = scalars.truth(program, [2.0], exact_order=False, dtype="float64", samples=4, seed=0)
    assert result.values == [0]


def test_the_oracle_keeps_all_digits_of_an_angle_beside_a_zero():
    program = scalars.Scalars(("x",), ((1,),), ["x[0]"])
    quarter = 1 + scalars.CONSTANTS.index(-0.25)
    program.steps = [("atan2", (quarter, 0)), ("atan2", (0, quarter))]
    program.outputs = [1 + len(program.constants), 2 + len(program.constants)]
    for zero in (0.0, -0.0):
        result = scalars.truth(program, [zero], exact_order=False, dtype="float64", samples=4, seed=0)
        assert result.values == [-mp.pi / 2, -mp.pi if np.signbit(zero) else mp.pi]


def test_the_oracle_knows_its_limits():
    program = scalars.Scalars(("x",), ((1,),), ["x[0]"])
    first = 1 + len(program.constants)
    program.steps = [("sin", (0,)), ("floor", (first,))]
    program.outputs = [first + 1]
    with pytest.raises(scalars.Undecided):
        scalars.truth(program, [0.0], exact_order=False, dtype="float64", samples=4, seed=0)
    (result,) = scalars.truth(program, [2.0], exact_order=False, dtype="float64", samples=4, seed=0).values
    assert result == mpf(0)


def test_jax_notices_mistakes():
    pytest.importorskip("jax", reason="one of the oracles is JAX, which is not installed")
    program = scalars.Scalars(("x",), ((2,),), ["x[0]", "x[1]"])
    first = 2 + len(program.constants)
    program.steps = [("sin", (0,)), ("multiply", (first, 1))]
    program.outputs = [first + 1]
    program.source = scalars._written(program, random.Random(0))
    mixed = arrays.Arrays((("v", "np.sin(v) + v"),), 1, ("np.cumsum(v)", "A @ v"), "return {'z': z, 'y': (y, s)}")
    for case, point in ((program, [np.array([0.7, -1.3])]), (mixed, [np.ones(shape) * 0.3 for shape in mixed.shapes])):
        call = calls.Call("jacobian", 0, {"dtype": "float64"}, 1, False, 1, ("C",) * len(case.shapes))
        true, spread = with_jax.jacobian(case, point, 2, 0)
        assert np.all(spread < 1e-12)
        slopes = true[:, 1 : 1 + np.size(point[0])]
        right, wrong = ([[calls.Results(true[:, 0], each)]] for each in (slopes, slopes + 1e-8))
        assert checking._agrees_with_jax(case, call, [point], right, 0)
        with pytest.raises(calls.Disagreement, match="JAX: slope"):
            checking._agrees_with_jax(case, call, [point], wrong, 0)


def test_slopes_of_jax_outside_a_domain_tell_nothing():
    pytest.importorskip("jax", reason="one of the oracles is JAX, which is not installed")
    program = scalars.Scalars(("x",), ((1,),), ["x[0]"])
    program.steps, program.outputs = [("acosh", (0,))], [1 + len(program.constants)]
    program.source = scalars._written(program, random.Random(0))
    call = calls.Call("jacobian", 0, {"dtype": "float64"}, 1, False, 1, ("C",))
    for x, told in ((-1.38, False), (1.38, True)):
        point = [np.array([x])]
        true, _ = with_jax.jacobian(program, point, 2, 0)
        assert np.isfinite(true[0]).tolist() == [told, True]
        results = [[calls.Results(true[:, 0], np.where(told, true[:, 1:], np.nan))]]
        assert checking._agrees_with_jax(program, call, [point], results, 0) == told


def test_ties_that_no_difference_shows_are_checked_by_jax():
    pytest.importorskip("jax", reason="one of the oracles is JAX, which is not installed")
    program = arrays.Arrays((("A", "np.maximum(A, s)"),), None, ("np.min(A)",), "return y")
    call = calls.Call("jacobian", 1, {"dtype": "float64", "sparse": None}, 1, False, 1, ("C",) * len(program.shapes))
    point = [np.ones(shape) for shape in program.shapes]
    f = acc.jacobian(calls.function(program), 1, time_limit=0.0, cache=False)
    results = [[calls.Results(None, f(*point).reshape(1, -1))] * 2]
    with pytest.raises(scalars.Undecided, match="ties"):
        checking._check_arrays(program, call, [point], results, 0)
    assert checking._check_arrays(program, call, [point], [[calls.Results(None, np.ones((1, 9)))] * 2], 0)[0] == "wrong"


@pytest.mark.parametrize("row", [0, 1])
def test_functional_texts_compute_the_same(row):
    program = arrays.Arrays((("M", "np.tanh(M) * 2"),), row, ("v",), "return y")
    draw = np.random.default_rng(0)
    point = [draw.normal(size=shape) for shape in program.shapes]
    scope = dict(arrays.scope())
    exec(program.functional, scope)
    np.testing.assert_allclose(scope["f"](*point), calls.function(program)(*point), rtol=1e-15)


@pytest.mark.parametrize("name", calls.LAYOUTS)
def test_layouts_hold_the_same_numbers(name):
    for array in (np.arange(6.0).reshape(2, 3), np.arange(3.0), np.array([[-0.0, 0.5]], np.float32)):
        laid = calls.LAYOUTS[name](array)
        assert np.array_equal(laid, array)
        assert np.array_equal(np.signbit(laid), np.signbit(array))
    flags = calls.LAYOUTS[name](np.arange(6.0).reshape(2, 3)).flags
    assert flags.c_contiguous == (name not in ("F", "rotated", "between", "backwards"))
    assert (flags.aligned, flags.writeable) == (name != "unaligned", name != "read only")


def test_all_ways_to_call_are_drawn():
    drawn = [calls.random_call(scalars.random_scalars(rng), rng) for rng in map(random.Random, range(400))]
    assert {call.route for call in drawn} == set(calls.ROUTES)
    assert {layout for call in drawn for layout in call.layouts} == set(calls.LAYOUTS)
    assert {call.options["objective"] for call in drawn} == {"operations", "multiplications", "fma"}
    axes = {axis for call in drawn if call.axes != "auto" for axis in call.axes}
    assert {None, 0, 1, 2, -1, -2, -3} <= axes
    for flag in ("keywords", "out", "transposed"):
        assert {getattr(call, flag) for call in drawn} == {True, False}


def test_jax_is_not_used_if_its_function_differs():
    pytest.importorskip("jax", reason="one of the oracles is JAX, which is not installed")
    program = arrays.Arrays((), None, ("np.linalg.eigvalsh(A)",), "return y")
    point = [np.ones(3), np.array([[1.0, 2.0, 0.0], [0.5, -1.0, 3.0], [1.0, 0.0, 2.0]]), np.ones((2, 4)), 1.0]
    with pytest.raises(with_jax.Unavailable, match="another"):
        with_jax.jacobian(program, point, 1, 0)


def test_differences_see_kinks():
    smooth, kinked = np.array([0.5]), np.array([0.0])
    assert arrays.along(lambda v: np.round(v, 2), [smooth], [np.full(1, 540.0)])[1][0] > 1.0
    for f, slope in ((np.abs, 1.0), (lambda v: v * v * v, 0.75)):
        best, error = arrays.along(f, [smooth], [np.ones(1)])
        assert abs(best[0] - slope) <= error[0] < 1e-6
    assert arrays.along(np.abs, [kinked], [np.ones(1)])[1][0] > 1.0


def test_differences_tell_beside_what_is_not_finite():
    program = arrays.Arrays((), None, ("np.log(v)",), "return y")
    point = [np.array([-1.0, 0.5, 2.0]), *(np.ones(shape) for shape in program.shapes[1:])]
    with np.errstate(all="ignore"):
        oracle = truths.Differences(program, point)
        value, slopes, taylor = oracle.value(), oracle.jacobian(), oracle.taylor(np.ones((2, oracle.inputs)))
    for want, off in (value, (slopes[0].sum(axis=1), slopes[1].sum(axis=1)), (taylor[0].T, taylor[1].T)):
        assert np.isnan(want[0]).any()
        assert np.isfinite(want[1:]).all()
        assert (off[1:] < 1e-4).all()


def test_sources_are_compared_beside_what_is_infinite():
    with pytest.raises(calls.Disagreement, match="source"):
        ways.demand_close(np.array([np.inf, 1.0]), np.array([np.inf, 2.0]), "source for numpy", "float64")
    ways.demand_close(np.array([np.inf, 1e16]), np.array([np.inf, 2e16]), "source for numpy", "float64")


@pytest.mark.parametrize("piece", ["threads", "forks"])
def test_stress(piece):
    assert stress.PARTS[piece](2, 0) == []
