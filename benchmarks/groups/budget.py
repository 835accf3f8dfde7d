"""Test of the time limit: seconds of planning and rewriting together, for hard cases.

Each case is prepared in a process of its own, without a plan kept from before, and given up after a while. A warm-up
function went through it first, so that the kernels are loaded. The graph is planned alone, as `acc.plan` does it.
"""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple

import numpy as np

import accumulus as acc
import library
from apart import NotDone, apart
from functions import Example
from groups import Settings
from hard_cases import TO_PLAN, Case
from tables import Goal, Row, Table

#: The limit that is given, and what may pass at most.
LIMIT: Final = 1.0
SECONDS: Final = 1.1
#: After which a case is given up, everything included.
PATIENCE: Final = 60.0
EFFORTS: Final = ("fast", "balanced", "thorough")


class _Seconds(NamedTuple):
    searched: float
    stages: dict[str, float]
    cost: int


def table(settings: Settings) -> Table:
    """One row a hard case and effort, then one a function under the greatest effort."""
    rows = [_row(name, effort, name) for name in TO_PLAN for effort in EFFORTS]
    rows += [_row(example.name, EFFORTS[-1], example) for example in settings.functions]
    notes = [
        f"searched: planning and rewriting, with time_limit={LIMIT:g}; the other stages have no limit.",
        f"Each case is given {PATIENCE:.0f} s for everything.",
    ]
    return Table("budget", "Planning and rewriting within the time limit (s)", rows, notes)


def _row(label: str, effort: str, subject: str | Example) -> Row:
    cells: dict[str, Any] = {"case": label, "effort": effort}
    try:
        found = _Seconds(*apart(_prepare, subject, effort, seconds=PATIENCE))
    except NotDone as why:
        return Row(cells | {"remark": str(why)}, Goal(SECONDS, float("inf"), unit=" s"))
    cells |= {stage: round(seconds, 3) for stage, seconds in found.stages.items()}
    return Row(cells | {"operations": found.cost}, Goal(SECONDS, found.searched, unit=" s"))


def _prepare(subject: str | Example, effort: str) -> tuple[float, dict[str, float], int]:
    options: dict[str, Any] = {"effort": effort, "time_limit": LIMIT, "cache": False}
    library.first_result(lambda x: np.sin(x) * x[0], np.ones(2), effort=effort)
    case = subject if isinstance(subject, Example) else TO_PLAN[subject]()
    if isinstance(case, acc.DifferentiationGraph):
        start = time.perf_counter()
        plan = acc.plan(case, **options)
        seconds = time.perf_counter() - start
        return seconds, {"plan": seconds}, plan.cost
    sparse = isinstance(case, Case) and case.sparse
    program = acc.jacobian(case.function, sparse=sparse, **options).compile(case.point)
    return program.seconds["plan"] + program.seconds["optimise"], program.seconds, program.operations
