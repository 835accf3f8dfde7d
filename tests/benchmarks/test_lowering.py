"""What both forms of derivatives are estimated to cost, against what was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from accumulus.tape.prices import Cost

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from groups import lowering

STORED = json.loads((Path(lowering.__file__).parents[1] / "measured" / "lowering.json").read_text())
ROWS = [row for row in STORED["rows"] if "written s" in row]


@pytest.fixture(scope="module")
def costs():
    """Pairs of costs, measured and estimated, of each row: written out, and as loops."""
    return [
        [
            (Cost(row[f"{form} s"], 1e-6 * row[f"{form} µs"]), expected)
            for form, expected in zip(
                ("written", "loops"), lowering.estimated(row["function"], row["kind"]), strict=True
            )
        ]
        for row in ROWS
    ]


def test_nine_of_ten_estimates_are_within_a_factor_of_two(costs):
    ratios = np.array([expected.total / measured.total for pair in costs for measured, expected in pair])
    assert len(ratios) > 100
    assert np.mean((ratios >= 0.5) & (ratios <= 2.0)) >= 0.9


def test_the_form_that_is_chosen_costs_little_more_than_the_better_one(costs):
    regrets = []
    for (written, expected), (loops, expected_loops) in costs:
        chosen = loops if expected_loops.total < expected.total else written
        regrets.append(chosen.total / min(written.total, loops.total))
    assert np.mean(regrets) < 1.1
    assert np.quantile(regrets, 0.95) < 1.5
