"""The table of times by rules and by value: ratios of turns side by side, its goals, and what differs is not timed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from functions import suite
from groups import Settings, efforts

from accumulus.resubstitution import optimise as resubstitution

SETTINGS = Settings((), tuple(suite())[:2], points=4, turns=3)
#: Seconds of the programs by rules and by value, by function and turn: ratios 0.5, 0.5, 0.4 and 2, 2, 1.
TURNS = (((1.0, 4.0, 10.0), (0.5, 2.0, 4.0)), ((1.0, 1.0, 3.0), (2.0, 2.0, 3.0)))


def stub(monkeypatch, wrong=0.0):
    def both(example, X, *, effort, time_limit, cache=True):
        by_rules = resubstitution.MOST_OPERATIONS == 0
        assert by_rules is not cache, "what is not as ever is not kept"
        result = np.ones((len(X), 3)) + (0.0 if by_rules else wrong)
        return SimpleNamespace(results=lambda: (result,), operations=9 if by_rules else 7, run=None)

    turns = iter(TURNS)

    def measure(runs, count):
        return {
            name: SimpleNamespace(seconds=seconds, median=float(np.median(seconds)), minimum=min(seconds))
            for name, seconds in zip(("rules", "values"), next(turns), strict=True)
        }

    monkeypatch.setattr(efforts.library, "both", both)
    monkeypatch.setattr(efforts, "measure", measure)


def test_goals_are_medians_of_ratios_within_turns(monkeypatch):
    stub(monkeypatch)
    first, second, mean, worst = efforts.table(SETTINGS).rows
    assert [row.goal.reached for row in (first, second)] == [0.5, 2.0]
    assert [row.goal.met for row in (first, second, mean, worst)] == [True, False, False, False]
    assert mean.goal.reached == pytest.approx(1.0)
    assert (mean.goal.reach, worst.goal.reach, worst.goal.reached) == (0.9, 1.0, 2.0)
    assert first.cells["by rules"] == 9
    assert first.cells["by value"] == 7


def test_programs_that_differ_are_not_timed(monkeypatch):
    stub(monkeypatch, wrong=1e-6)
    with pytest.raises(AssertionError, match="differs from that by rules"):
        efforts.table(SETTINGS)


def test_rules_alone_are_rules_alone():
    from accumulus.tape.tape import Tape

    tape = Tape(2)
    sine, cosine = tape.apply("sin", 0), tape.apply("cos", 0)
    tape.outputs = [tape.multiply(1, tape.add(tape.multiply(sine, sine), tape.multiply(cosine, cosine)))]
    with efforts.library.by_rules_alone():
        assert not resubstitution.is_by_value(tape, "thorough")
    assert resubstitution.is_by_value(tape, "thorough")
