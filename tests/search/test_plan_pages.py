"""The pages on plans and on generated graphs: their tables are complete. That their examples run is tested for all."""

from __future__ import annotations

import re
from pathlib import Path

from accumulus.graph import files
from accumulus.graph.generators import generators
from accumulus.search import plan

DOCS = Path(__file__).parents[2] / "docs"


def test_every_key_of_a_file_is_described():
    text = (DOCS / "plans.md").read_text(encoding="utf-8")
    firsts = " ".join(row.split("|")[1] for row in text.splitlines() if row.startswith("| `"))
    assert sorted(re.findall(r"`(\w+)`", firsts)) == sorted([*plan._KEYS, *files.NUMBERED_KEYS])


def test_every_generator_is_described():
    text = (DOCS / "hard-graphs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE)
    assert dict(rows) == generators()
