"""The random programs of `make fuzz`: some hundred of them, always the same; and that mistakes are noticed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import checking
import numpy as np
import pytest
import scalars
import stress
from exact import mpf

SHARDS = 4
PROGRAMS = 60
FIRST = 100


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_programs(shard):
    outcomes = [checking.check(FIRST + shard * PROGRAMS + k) for k in range(PROGRAMS)]
    for outcome in outcomes:
        assert outcome.kind in ("right", "undecided"), f"{outcome.remark}\n{outcome.seed}\n{outcome.source}"
    assert Counter(outcome.kind for outcome in outcomes)["right"] > 0.7 * PROGRAMS


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sin", {"partials": (lambda x: -scalars.TABLE["cos"].value(x),)}),
        ("multiply", {"partials": (lambda x, y: x, lambda x, y: x)}),
        ("divide", {"partials": (lambda x, y: 1 / y, lambda x, y: x / y**2)}),
    ],
)
def test_mistakes_are_noticed(name, change, monkeypatch):
    monkeypatch.setitem(scalars.TABLE, name, replace(scalars.TABLE[name], **change))
    assert any(checking.check(seed).kind == "wrong" for seed in range(FIRST, FIRST + 400))


def test_the_oracle_decides_quotients_as_they_are_written():
    program = scalars.Scalars(("x",), ((1,),), ["x[0]"])
    forty_nine = 1 + scalars.CONSTANTS.index(49.0)
    first = 1 + len(program.constants)
    program.steps = [("divide", (0, forty_nine)), ("floor", (first,)), ("remainder", (0, forty_nine))]
    program.outputs = [first + 1, first + 2]
    found = scalars.truth(program, [147.0], exact_order=False, dtype="float64", samples=4, seed=0)
    assert found.values == [3, 0]
    assert found.slopes == [[0], [1]]


def test_the_oracle_knows_its_limits():
    program = scalars.Scalars(("x",), ((1,),), ["x[0]"])
    first = 1 + len(program.constants)
    program.steps = [("sin", (0,)), ("floor", (first,))]
    program.outputs = [first + 1]
    with pytest.raises(scalars.Undecided):
        scalars.truth(program, [0.0], exact_order=False, dtype="float64", samples=4, seed=0)
    (found,) = scalars.truth(program, [2.0], exact_order=False, dtype="float64", samples=4, seed=0).values
    assert found == mpf(0)


def test_differences_see_kinks():
    from arrays import along

    smooth, kinked = np.array([0.5]), np.array([0.0])
    for f, slope in ((np.abs, 1.0), (lambda v: v * v * v, 0.75)):
        best, error = along(f, [smooth], [np.ones(1)])
        assert abs(best[0] - slope) <= error[0] < 1e-6
    assert along(np.abs, [kinked], [np.ones(1)])[1][0] > 1.0


@pytest.mark.parametrize("part", ["threads", "forks"])
def test_stress(part):
    assert stress.PARTS[part](2, 0) == []
