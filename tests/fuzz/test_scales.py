"""Programs of scales: some sixty of them, always the same; and that their oracle is right, and notices mistakes."""

from __future__ import annotations

import random
from dataclasses import replace

import driver
import numpy as np
import pytest
import scale_checks
import scales
import shrinking
from checking import at_once
from duals import (
    NAMES,
    PLAINLY,
    UNARY,
    UNIT,
    At,
    Dual,
    OutOfRangeError,
    Rounding,
    exact,
    function_of,
    moved,
    mp,
    rounded,
)

import accumulus as acc

SHARDS, PROGRAMS = 4, 4
FIRST = driver.SCALES
SOURCE = """
def f(x):
    x0, x1, x2 = x
    d = x0 - 1.0
    K = np.array([[2.0 + x0, -1.0, 0.0], [-1.0, 3.0, x1], [0.5, x1, x2**2]])
    y = np.linalg.solve(K, np.array([x0, 1.0, d]))
    s, l = np.linalg.slogdet(K)
    r = np.where(d > 0.0, np.hypot(d, x1), d**2.5 if False else d / np.maximum(x1, x2))
    return np.stack([y[0], y[2], s, l, np.linalg.det(K), np.linalg.inv(K)[0, 2], r, np.arctan2(x1, d), x1**x2,
                     np.logaddexp(x0, x2), np.abs(d) * np.cbrt(d), np.cross(K[0], y)[1], y @ y, 2.0**x0])
"""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_programs_are_as_accurate_far_from_their_first_points(shard):
    outcomes = driver.checked_all(range(FIRST + shard, FIRST + shard + SHARDS * PROGRAMS, SHARDS), "scales")
    assert len(outcomes) == PROGRAMS
    for outcome in outcomes:
        assert outcome.kind not in scale_checks.FAILED, f"{outcome.remark}\n{outcome.seed}\n{outcome.source}"
    assert sum(outcome.kind in ("right", "inaccurate", "plain") for outcome in outcomes) > 0.9 * PROGRAMS


def test_every_way_and_kind_goes_in_turn_and_every_idiom_is_drawn():
    ways, kinds = scale_checks.WAYS_IN_TURN, scale_checks.KINDS_IN_TURN
    cases = [scale_checks.Case.of(FIRST + number) for number in range(len(ways) * len(kinds))]
    assert {(case.way, case.wanted) for case in cases} == {(way, kind) for way in ways for kind in kinds}
    assert {name for case in cases for name in case.program.idioms} == set(scales.IDIOMS)
    sizes = [abs(x) for case in cases for x in case.program.first]
    assert min(sizes) < 1e-150
    assert max(sizes) > 1e150


def test_programs_have_a_value_where_they_are_drawn_and_some_run_on_arrays():
    for seed in range(40):
        program = scales.random_scaled(random.Random(seed), elementwise=seed % 2 == 0)
        f, x = function_of(program.source), np.array(program.first)
        with np.errstate(all="ignore"):
            values = f(x)
            assert np.isfinite(values).all()
            if program.elementwise:
                np.testing.assert_allclose(f(np.stack([x, x], axis=1)), np.stack([values, values], axis=1), rtol=1e-9)
        assert program.elementwise or seed % 2


@pytest.mark.parametrize("name", UNARY)
def test_slopes_of_functions_are_those_of_differences(name):
    f = function_of(f"def f(x):\n    return np.stack([np.{name}(x[0])])\n", NAMES)
    for x in (0.3, -0.7, 1e-3):
        mp.prec = 400
        step, value = mp.mpf(10) ** -40, UNARY[name][0]
        slope = (value(mp.mpf(x) + step) - value(mp.mpf(x) - step)) / (2 * step)
        result = exact(f, [x])
        assert mp.isnan(slope) == mp.isnan(result[0, 1])
        assert mp.isnan(slope) or abs(result[0, 1] - slope) < 1e-30 * abs(slope)


@pytest.mark.parametrize("x", [[0.3, 0.7, 0.2], [1.4, 0.2, 3.1]])
def test_tables_are_what_numpy_and_the_plain_program_have(x):
    table = exact(function_of(SOURCE, NAMES), x).astype(float)
    f = function_of(SOURCE)
    np.testing.assert_allclose(table[:, 0], f(np.array(x)), rtol=1e-13)
    slopes = acc.jacobian(f, **PLAINLY)(np.array(x))
    np.testing.assert_allclose(table[:, 1:], slopes, rtol=1e-12, atol=1e-14)


def test_as_many_digits_are_used_as_sums_need():
    f = function_of("def f(x):\n    return np.stack([(x[0] + x[1]) - x[0], np.sqrt(x[0]**2 + x[1]) - x[0]])\n", NAMES)
    table = exact(f, [1e100, 1e-90])
    assert float(table[0, 0]) == 1e-90
    assert float(table[1, 0]) == pytest.approx(0.5e-190)
    assert [mp.isnan(each) for each in exact(f, [1e200, 1.0])[:, 0]] == [False, True]  # the square overflows


def test_exact_operations_are_not_rounded_and_are_moved():
    exactly = function_of("def f(x):\n    return np.stack([(x[0] - x[1]) * 0.5])\n", NAMES)
    roughly = function_of("def f(x):\n    return np.stack([x[0] / x[1]])\n", NAMES)
    x = [1.5, 0.75 + 2.0**-30]
    for f, still in ((exactly, True), (roughly, False)):
        true = exact(f, x)[0, 0]
        off = [abs(float(run(f, x, seed)[0, 0] - true)) for run in (rounded, moved) for seed in range(8)]
        assert (max(off[:8]) == 0.0) == still
        assert 0.0 < max(off[8:]) < 8 * UNIT * abs(true)
    third = Rounding(0).keep(mp.mpf(1) / 3)
    assert abs(third - mp.mpf(1) / 3) < UNIT / 2


def test_the_oracle_knows_its_limits():
    at_a_kink = exact(
        function_of("def f(x):\n    return np.stack([np.abs(x[0]), np.maximum(x[0], x[1])])\n", NAMES), [0, 0]
    )
    assert [mp.isnan(each) for each in at_a_kink.flat] == [False, True, False, False, True, True]
    angle = function_of("def f(x):\n    return np.stack([np.arctan2(x[0], -1.0)])\n", NAMES)
    with pytest.raises(OutOfRangeError):
        exact(angle, [0.0])
    compared = function_of("def f(x):\n    return np.stack([np.where(np.exp(x[0]) > 1.0, 1.0, x[0])])\n", NAMES)
    with pytest.raises(OutOfRangeError):
        exact(compared, [1e6])
    assert isinstance(Dual(mp.mpf(1), {}, Rounding(0)) + np.float64(1.0), Dual)


@pytest.mark.parametrize(
    ("spoilt", "kind"),
    [
        (lambda found: found, "right"),
        (lambda found: -found, "wrong"),
        (lambda found: found * (1 + 1e-10), "less accurate"),
        (lambda found: found * (1 + 3 * UNIT), "right"),
        (lambda found: found * np.nan, "not finite"),
    ],
)
def test_mistakes_are_noticed(spoilt, kind):
    source = "def f(x):\n    x0, x1 = x\n    v0 = x0 * x1\n    return np.stack([np.exp(v0) / x1])\n"
    program = scales.Scaled(source, 2, 1, True, [0.3, 0.7], {}, ())
    case = scale_checks.Case(program, "points", "value_and_jacobian", [0.3, 0.7], {"first": [0.3, 0.7]}, 0)
    plain = case.plain()
    case.judge([spoilt(each) for each in plain], plain)
    assert case.verdict.kind == kind


def test_a_result_that_cancels_in_the_plain_program_may_be_as_far_off():
    source = "def f(x):\n    return np.stack([(x[0] * 1.1 + x[1]) - x[0] * 1.1])\n"
    at = At(function_of(source, NAMES), [1e8, 1e-3])
    table = at.true.astype(float)
    strict, _ = at.excess(table + np.array([[1e-9, 0.0, 0.0]]), table)
    assert (strict <= 1).all()
    strict, excess = at.excess(table + np.array([[1e-6, 0.0, 0.0]]), table)
    assert strict[0, 0] > excess[0, 0] > 1


def test_programs_that_fail_are_shortened(monkeypatch):
    case = next(
        case
        for case in map(scale_checks.Case.of, range(FIRST, FIRST + 100))
        if case.program.source.count("np.sqrt") > 1
    )
    monkeypatch.setattr(shrinking, "_is", lambda kind, case, number: "np.sqrt" in case.program.source)
    shorter = shrinking.shrunk(case, FIRST, "wrong")
    assert shorter.program.source.count("np.sqrt") == 1
    assert len(shorter.program.source.splitlines()) < len(case.program.source.splitlines())
    assert len(shorter.points) == 1
    monkeypatch.undo()
    (outcome,) = at_once([scale_checks.checks(replace(shorter, way="points", wanted="jacobian"), FIRST)])
    assert outcome.kind != "crash"
