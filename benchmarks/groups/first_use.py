"""Gain from the cache: the very first use on a machine, and the first result of a second process.

A cache folder of their own is empty, then holds what the first process made for all processes, then all that a process
left there which had prepared every function.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import Final

from apart import processor_seconds
from groups import Settings
from groups.first_result import process
from tables import Goal, Row, Table

PROCESSES: Final = 3
FIRST_USE_SECONDS: Final = 3.0
SECOND_MILLISECONDS: Final = 50.0


def table(settings: Settings) -> Table:
    """One row: processor seconds of a process that finds nothing, children included, less those of one that does."""
    name = settings.examples[0].name
    seconds = []
    with tempfile.TemporaryDirectory(prefix="first-use-") as folder:
        for _ in range(1 + PROCESSES):
            before = processor_seconds()
            process("accumulus", [name], ACCUMULUS_CACHE=folder)
            seconds.append(processor_seconds() - before)
    first, later = seconds[0], statistics.median(seconds[1:])
    cells = {"function": name, "empty cache s": first, "later s": later}
    rows = [Row(cells, Goal(FIRST_USE_SECONDS, first - later, unit=" s more"))]
    return Table("first-use", "The very first use on a machine (seconds of the processor, whole processes)", rows)


def second(settings: Settings) -> Table:
    """One row an example: from the end of all imports to the first Jacobian, everything cached; then the imports."""
    names = [example.name for example in settings.examples]
    rows = []
    with tempfile.TemporaryDirectory(prefix="second-") as folder:
        environment = {"ACCUMULUS_CACHE": folder, "ACCUMULUS_CACHE_PLANS": "1"}
        process("cached", names, **environment)
        for name in names:
            answers = [process("cached", [name], **environment) for _ in range(PROCESSES)]
            median = 1e3 * statistics.median(answer["seconds"][name] for answer in answers)
            processor = 1e3 * statistics.median(answer["processor"][name] for answer in answers)
            cells = {"function": name, "ms": median, "of the processor": processor}
            rows.append(Row(cells, Goal(SECOND_MILLISECONDS, median, unit=" ms")))
        imports = [process("importing", names[:1], **environment)["seconds"][names[0]] for _ in range(PROCESSES)]
        rows.append(Row({"function": "imports of accumulus", "ms": 1e3 * statistics.median(imports)}))
    notes = ["A fresh process a row, nothing warmed up but the imports."]
    return Table("second", f"First Jacobian in a second process (ms, medians of {PROCESSES} processes)", rows, notes)
