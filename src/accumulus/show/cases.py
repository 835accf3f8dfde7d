"""The cases of a function that decides on values, for reports: what was decided, what it costs, how often it ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING

from accumulus.frontends.decisions import Guard
from accumulus.show.tables import amount, table

if TYPE_CHECKING:
    from rich.table import Table

    from accumulus.programs.program import Program

__all__ = ["CaseFacts", "Condition", "cases_table"]

#: Conditions of a case that are printed, and characters of each.
PRINTED: int = 6
WIDTH: int = 60


@dataclass(frozen=True, slots=True)
class Condition:
    """What was decided at one line.

    Attributes:
        file, line, source: the line.
        answers: in the order in which it was asked; of equal questions there is one.
    """

    file: str
    line: int
    source: str
    answers: tuple[str, ...]

    def __str__(self) -> str:
        runs = [(answer, len(list(run))) for answer, run in groupby(self.answers)]
        told = ", ".join(f"{count} times {answer}" if count > 1 else answer for answer, count in runs)
        source = self.source if len(self.source) <= WIDTH else f"{self.source[: WIDTH - 1]}…"
        return f"{PurePath(self.file).name}:{self.line} {source} → {told}"


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """One case.

    Attributes:
        conditions: under which it is; line by line, as they were first asked.
        operations: of its program.
        calls: at one point.
        points: of batches.
    """

    conditions: tuple[Condition, ...]
    operations: int
    calls: int
    points: int

    @classmethod
    def of(cls, program: Program) -> CaseFacts:
        """The case of a program."""
        by_line: dict[tuple[str, int, str], list[str]] = {}
        for guard in program.recording.guards:
            by_line.setdefault(_line(guard), []).append(guard.answer)
        conditions = tuple(Condition(*line, tuple(answers)) for line, answers in by_line.items())
        return cls(conditions, program.operations, program.ran.calls, program.ran.points)


def _line(guard: Guard) -> tuple[str, int, str]:
    return guard.file, guard.line, guard.source


def cases_table(cases: Iterable[CaseFacts]) -> Table:
    """The cases as a table, those that ran most first."""
    rows = []
    for case in sorted(cases, key=lambda case: -(case.calls + case.points)):
        printed = [str(condition) for condition in case.conditions[:PRINTED]]
        if len(case.conditions) > PRINTED:
            printed.append(f"… and {len(case.conditions) - PRINTED} more lines")
        rows.append(("\n".join(printed), amount(case.operations), amount(case.calls), amount(case.points)))
    return table(("case", "operations", "calls", "points"), rows)
