"""The table of both efforts: ratios of turns side by side, its goals, and results that differ are not timed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from functions import suite
from groups import Settings, efforts

SETTINGS = Settings((), tuple(suite())[:2], points=4, turns=3)
#: Seconds of the default and of the thorough program, by function and turn: ratios 0.5, 0.5, 0.4 and 2, 2, 1.
TURNS = (((1.0, 4.0, 10.0), (0.5, 2.0, 4.0)), ((1.0, 1.0, 3.0), (2.0, 2.0, 3.0)))


def stub(monkeypatch, wrong=0.0):
    def both(example, X, **options):
        result = np.ones((len(X), 3)) + (wrong if options else 0.0)
        return SimpleNamespace(results=lambda: (result,), operations=7 if options else 9, run=None)

    turns = iter(TURNS)

    def measure(runs, count):
        return {
            name: SimpleNamespace(seconds=seconds, median=float(np.median(seconds)), minimum=min(seconds))
            for name, seconds in zip(("default", "thorough"), next(turns), strict=True)
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
    assert first.cells["operations"] == 9
    assert first.cells["thorough"] == 7


def test_programs_that_differ_are_not_timed(monkeypatch):
    stub(monkeypatch, wrong=1e-6)
    with pytest.raises(AssertionError, match="differs from the default"):
        efforts.table(SETTINGS)
