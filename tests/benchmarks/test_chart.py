"""The chart of the README shows the numbers that were measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import chart


def test_the_chart_shows_the_measurements():
    report = json.loads(chart.NUMBERS.read_text(encoding="utf-8"))
    assert chart.CHART.read_text(encoding="utf-8") == chart.drawn(report), "run python benchmarks/chart.py"
    page = chart.PAGE.read_text(encoding="utf-8")
    assert chart.table(report).join(chart.MARKS) in page, "run python benchmarks/chart.py"
    symforce = chart.symforce_table(json.loads(chart.SYMFORCE.read_text(encoding="utf-8")))
    assert chart.SYMFORCE_MARK + symforce + chart.MARKS[1] in page, "run python benchmarks/chart.py"


def test_the_front_page_has_the_measured_numbers():
    (table,) = json.loads(chart.NUMBERS.read_text(encoding="utf-8"))["groups"]
    point, batch = (row for row in table["rows"] if row["function"] == "geometric mean")
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for row, systems in ((point, ("JAX", "finite differences")), (batch, ("CasADi", "JAX"))):
        ratios = " / ".join(chart.rounded(row[system] / row["accumulus"]) for system in systems)
        assert f"{ratios} times as fast" in text
    assert f"CasADi takes {chart.rounded(point['CasADi buffers'] / point['accumulus'])} times as long" in text
