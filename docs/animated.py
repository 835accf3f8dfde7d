"""Makes the explorer pages of docs/notes-animated.md, from the graphs that the examples of docs/notes.md define.

`make docs` calls it. The pages share script and style, which lie beside them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accumulus as acc
from accumulus.elimination.emit import count
from accumulus.options import Objective
from accumulus.search.plan import Plan
from accumulus.show import explorer

Scope = dict[str, Any]


def planned(name: str, method: str) -> Callable[[Scope], Plan]:
    """A plan by a method, for fma, as the notes count."""
    return lambda scope: acc.plan(scope[name], method, "fma", cache=False)


def written(name: str) -> Callable[[Scope], Plan]:
    """A set of expressions as a plan for its own graph."""

    def plan(scope: Scope) -> Plan:
        graph = scope[name].to_graph()
        accumulation = scope[name].to_accumulation(graph)
        return Plan(graph, accumulation, "the expressions as written", Objective.FMA, count(accumulation, "fma"))

    return plan


#: By the name of the page: its plan.
PAGES: dict[str, Callable[[Scope], Plan]] = {
    "biclique": planned("star", "vertex"),
    "lion": planned("lion", "edge"),
    "bat": planned("bat", "face"),
    "fill-in": planned("shared", "face"),
    "merging": planned("merged", "reverse"),
    "complex-a": planned("a", "dstar"),
    "complex-b": planned("b", "vertex"),
    "segmentation": planned("cross", "local-jacobians"),
    "forward-factorization": planned("b", "forward-factorization"),
    "backward-factorization": planned("b", "backward-factorization"),
    "both-sides": planned("b", "both-sides-factorization"),
    "conflict": planned("conflict", "local-jacobians"),
    "line-graph": planned("b", "face"),
    "multi": planned("multi", "vertex"),
    "pages": planned("paged", "pages"),
    "six": planned("six", "reverse"),
    "circular": written("circular"),
}


def write(scope: Scope, folder: Path) -> None:
    """Write all pages, and beside them what they share."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*explorer.STYLES, *explorer.SCRIPTS):
        shutil.copy(explorer.ASSETS / name, folder)
    for name, make in PAGES.items():
        plan = make(scope)
        plan.graph.name = plan.graph.name or name.replace("-", " ")
        page = explorer.page(plan, rivals=explorer.rivals_of(plan), linked=True)
        (folder / f"{name}.html").write_text(page, encoding="utf-8", newline="\n")


def main(folder: Path) -> None:
    """Run the examples of the notes, and write the pages."""
    from figures import run

    scope, report = run(Path(__file__).parent / "notes.md")
    if report:
        sys.exit(f"an example of notes.md does not do what it says:\n{report}")
    write(scope, folder)
