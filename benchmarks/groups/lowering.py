"""Both forms of a derivative, written out and as loops: what each costs, as measured and as it was estimated before.

A row is a function and a kind of derivative. Each form is prepared in a process of its own, nothing cached, imports
done; a point is the mean of a call and of a point in batches of 256, after those that compile for lanes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import numpy as np

import accumulus as acc
from accumulus.frontends.record import record
from accumulus.programs.estimates import Work
from accumulus.programs.kinds import KINDS
from accumulus.programs.lowering import is_quick
from accumulus.tape.prices import POINTS, Cost
from apart import NotDone, apart
from cases.medium import SUBJECTS, total
from groups import Settings
from tables import Goal, Row, Table

#: Largest cost of the chosen form, for each second of the better one.
REACH: Final = 1.5
#: An estimate is near if it is wrong by this factor at most.
NEAR: Final = 2.0
PATIENCE, REPEATED = 60.0, 0.25
BATCH: Final = 256
#: Number of arguments from which on matrices are sparse.
DENSE: Final = 100


def estimated(name: str, kind: str) -> tuple[Cost, Cost] | None:
    """Return the costs of both forms, written out and as loops, as they are estimated before either is made.

    None for a function that is too long to be written out.
    """
    subject, of = SUBJECTS[name], KINDS[kind]
    recording = record(subject.function, [subject.point], arrays=True, decides=True, tells=False)
    if not is_quick(recording.program):
        return None
    tape = recording.written_out().tape
    work = Work.of(tape, of, np.arange(tape.inputs), recording.results, int(of.has_seeds))
    return work.costs(of, recording.program)


def table(settings: Settings) -> Table:
    """One row a function and a kind, and one for the estimates."""
    del settings
    rows, near = [], []
    for name, subject in SUBJECTS.items():
        for kind in subject.kinds:
            expected = estimated(name, kind)
            if expected is None:
                continue
            try:
                measured = [apart(_measured, name, kind, form, seconds=PATIENCE) for form in (0, 1)]
            except NotDone as why:
                rows.append(Row({"function": name, "kind": kind, "remark": str(why)}))
                continue
            near += [1 / NEAR <= e.total / m.total <= NEAR for e, m in zip(expected, measured, strict=True)]
            chosen = measured[expected[0].total > expected[1].total]
            cells: dict[str, Any] = {"function": name, "kind": kind}
            for form, one, other in zip(("written", "loops"), measured, expected, strict=True):
                cells |= {
                    f"{form} s": round(one.prepare, 3),
                    f"{form} expected s": round(other.prepare, 3),
                    f"{form} µs": round(1e6 * one.point, 2),
                    f"{form} expected µs": round(1e6 * other.point, 2),
                }
            rows.append(Row(cells, Goal(REACH, round(chosen.total / min(each.total for each in measured), 2))))
    share = sum(near) / max(1, len(near))
    rows.append(Row({"function": f"estimates within a factor of {NEAR:g}"}, Goal(0.9, round(share, 3), at_most=False)))
    notes = [
        f"reached: cost of the chosen form by that of the better one, of preparing and {POINTS:,} points.",
    ]
    return Table("lowering", "Written out or as loops: what either costs", rows, notes)


def _measured(name: str, kind: str, form: int) -> Cost:
    """Prepare and call one form, 0 for the one that is written out and 1 for loops, and return what it took."""
    subject = SUBJECTS[name]
    x = subject.point
    for warm in (np.ones(2), np.ones(2_000)):
        acc.gradient(total, cache=False)(warm)
    costs = Cost(float(form), 0.0), Cost(float(not form), 0.0)
    Work.costs = lambda *_: costs  # type: ignore[method-assign]
    options = {"sparse": "csr"} if kind in ("jacobian", "hessian") and len(x) >= DENSE else {}
    derivative = getattr(acc, kind)(subject.function, cache=False, **options)
    seeds = np.ones_like(x) if kind in ("jvp", "hvp") else np.ones_like(subject.function(x))
    arguments: tuple[Any, ...] = ((x,), (seeds,) if kind != "vjp" else seeds) if KINDS[kind].has_seeds else (x,)

    def call() -> None:
        derivative(*arguments)

    many = [np.repeat(each[np.newaxis], BATCH, axis=0) for each in (x, seeds)]
    batched: tuple[Any, ...] = (
        ((many[0],), (many[1],) if kind != "vjp" else many[1]) if len(arguments) > 1 else (many[0],)
    )

    def batch() -> None:
        derivative.batch(*batched)

    start = time.process_time()
    call()
    first = time.process_time() - start
    return Cost(first, (_seconds(call) + _seconds(batch) / BATCH) / 2)


def _seconds(run: Callable[[], None]) -> float:
    """Median seconds of a run, after as many as have compiled for lanes."""
    end = time.perf_counter() + REPEATED
    while time.perf_counter() < end:
        run()
    took = []
    for _ in range(9):
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return median(took)
