"""Seconds that compiling for one point takes where there is much to compile or to store, one process a case.

What is compiled is not searched for and not rewritten: the plan is the forward order, so that nothing else is in the
way, and there is more to compile than there would be.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import accumulus as acc
import library
from apart import NotDone, apart
from groups import Settings
from hard_cases import TO_COMPILE
from tables import Goal, Row, Table

#: After which a case is given up, everything included.
PATIENCE: Final = 120.0


def table(settings: Settings) -> Table:
    """One row a case."""
    rows = []
    for name, (_, reach) in TO_COMPILE.items():
        cells: dict[str, Any] = {"case": name}
        try:
            operations, entries, stages = apart(_compile, name, seconds=PATIENCE)
        except NotDone as why:
            rows.append(Row(cells | {"remark": str(why)}, Goal(reach, float("inf"), unit=" s")))
            continue
        cells |= {"operations": operations, "entries": entries}
        cells |= {stage: round(seconds, 3) for stage, seconds in stages.items()}
        rows.append(Row(cells, Goal(reach, stages["compile"], unit=" s")))
    notes = [f"Each case is given {PATIENCE:.0f} s for everything. Entries: numbers in the result."]
    return Table("prepare", "Compiling for one point (s)", rows, notes)


def _compile(name: str) -> tuple[int, int, dict[str, float]]:
    options: dict[str, Any] = {"method": "forward", "optimise": False, "time_limit": 0.0, "cache": False}
    library.first_result(lambda x: np.sin(x) * x[0], np.ones(2), **options)
    case = TO_COMPILE[name][0]()
    program = acc.jacobian(case.function, sparse=case.sparse, **options).compile(case.point)
    entries = sum(segment.length for segment in program.kernel.segments)
    return program.operations, entries, program.seconds
