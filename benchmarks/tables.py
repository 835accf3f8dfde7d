"""Results of a group of measurements: a table whose rows have a goal and the measured number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable


@dataclass(frozen=True)
class Goal:
    """A number to reach.

    Attributes:
        reach: the number.
        reached: what was measured; None if a peer for it is missing.
        at_most: whether smaller is better.
        unit: written behind both numbers.
        missed: why the number does not count, if it does not: "not proven", say.
    """

    reach: float
    reached: float | None
    at_most: bool = True
    unit: str = ""
    missed: str = ""

    @property
    def met(self) -> bool | None:
        """Return True if the goal was reached, and None if it could not be measured."""
        if self.reached is None or math.isnan(self.reached):
            return None
        return not self.missed and (self.reached <= self.reach if self.at_most else self.reached >= self.reach)


@dataclass(frozen=True)
class Row:
    """Cells by column name, and the goal if the row has one (without, it is for information)."""

    cells: Mapping[str, Any]
    goal: Goal | None = None


@dataclass(frozen=True)
class Table:
    """One group of measurements."""

    name: str
    title: str
    rows: Sequence[Row]
    notes: Sequence[str] = field(default=())

    def show(self, console: Console) -> None:
        """Print it; a row is green if its goal is met, red if not."""
        columns = list(dict.fromkeys(column for row in self.rows for column in row.cells))
        console.print(self.title, style="bold", highlight=False)
        picture = RichTable()
        for column in columns:
            text = all(isinstance(row.cells.get(column, ""), str) for row in self.rows)
            picture.add_column(column, justify="left" if text else "right", no_wrap=text)
        for column in ("reach", "reached"):
            picture.add_column(column, justify="right", no_wrap=True)
        for row in self.rows:
            picture.add_row(*(_text(row.cells.get(column, "")) for column in columns), *_goal_texts(row.goal))
        console.print(picture)
        for note in self.notes:
            console.print(f"  {note}", style="dim", highlight=False)

    def as_json(self) -> dict[str, Any]:
        """Numbers with four digits, for pages of the documentation."""
        rows = []
        for row in self.rows:
            goal = row.goal
            described = {} if goal is None else {"reach": goal.reach, "reached": goal.reached, "met": goal.met}
            rows.append({name: _stored(value) for name, value in {**row.cells, **described}.items()})
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}


def _stored(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _goal_texts(goal: Goal | None) -> tuple[str, str]:
    if goal is None:
        return "reported", ""
    reach = f"{'≤' if goal.at_most else '≥'} {_text(goal.reach)}{goal.unit}"
    if goal.met is None or goal.reached is None:
        return reach, "not measured"
    colour = "green" if goal.met else "red"
    missed = f" {goal.missed}" if goal.missed else ""
    return reach, f"[{colour}]{_text(goal.reached)}{goal.unit} {'✓' if goal.met else '✗'}{missed}[/{colour}]"


def _text(value: Any) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return "–"
        if math.isinf(value):
            return "none"
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
