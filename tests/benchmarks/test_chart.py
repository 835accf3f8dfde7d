"""The chart of the README shows the numbers that were measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import chart


def test_the_chart_shows_what_was_measured():
    report = json.loads(chart.NUMBERS.read_text(encoding="utf-8"))
    assert chart.CHART.read_text(encoding="utf-8") == chart.drawn(report), "run python benchmarks/chart.py"
