"""Both forms of a derivative, written out and as loops: what each costs, as measured and as it was estimated before.

A row is a function and a kind of derivative. Each form is prepared in a process of its own, nothing cached, imports
done; a point is the mean of a call and of a point in batches of 256, after those that compile for lanes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np

import accumulus as acc
from accumulus.frontends.record import record
from accumulus.programs import estimates
from accumulus.programs.estimates import Cost, Work
from accumulus.programs.kinds import KINDS
from apart import NotDone, apart
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
DATA: Final = np.cos(np.arange(3_000.0))


def _entries(x: Any) -> Any:
    return np.sin(x) * np.exp(-x * x) + np.tanh(x)


def _total(x: Any) -> Any:
    return np.sum(_entries(x))


def _rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def _stencil(x: Any) -> Any:
    return (np.roll(x, 1) - 2.0 * x + np.roll(x, -1)) / (1.0 + x * x) + np.sin(x)


def _pairs(x: Any) -> Any:
    apart = x[:, None] - x[None, :]
    return np.sum(np.exp(-apart * apart))


def _forces(x: Any) -> Any:
    apart = x[:, None] - x[None, :]
    return np.sum(apart / (0.1 + apart * apart) ** 1.5, axis=1)


def _likeliest(x: Any) -> Any:
    powers = np.exp(x - np.max(x))
    return -np.log(powers[0] / np.sum(powers))


def _layers(x: Any) -> Any:
    weights = DATA[: len(x) ** 2].reshape(len(x), len(x))
    return np.tanh(weights @ np.tanh(weights @ x))


def _waves(x: Any) -> Any:
    for _ in range(20):
        x = x + 0.1 * np.sin(np.roll(x, 1) * x)
    return np.sum(x)


def _walk(x: Any) -> Any:
    state, squares = 0.1, 0.0
    for k in range(len(x)):
        state = 0.9 * state + np.sin(x[k]) * state
        squares = squares + state * state
    return squares


def _garch_of(steps: int) -> Callable[[Any], Any]:
    def garch(p: Any) -> Any:
        variance, loss = p[0], 0.0
        for k in range(steps):
            variance = p[0] + p[1] * DATA[k] ** 2 + p[2] * variance
            loss = loss + np.log(variance) + DATA[k] ** 2 / variance
        return loss

    return garch


def _lorenz_of(steps: int) -> Callable[[Any], Any]:
    def lorenz(p: Any) -> Any:
        y = np.array([1.0, 0.5, 0.2])
        for _ in range(steps):
            slope = [p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]
            y = y + 0.01 * np.array(slope)
        return y

    return lorenz


class Subject(NamedTuple):
    """A function, its point, and the kinds of derivatives that are prepared."""

    function: Callable[[Any], Any]
    point: np.ndarray[Any, Any]
    kinds: tuple[str, ...]


def _subjects() -> dict[str, Subject]:
    found = {}
    of_numbers, of_arrays = ("gradient", "hvp", "hessian"), ("jacobian", "jvp", "vjp")
    for function, sizes, kinds in (
        (_entries, (100, 400, 1_000), of_arrays),
        (_total, (100, 400, 1_000), of_numbers),
        (_rosenbrock, (100, 400, 1_000), of_numbers),
        (_stencil, (100, 400, 1_000), of_arrays),
        (_pairs, (12, 20, 40), of_numbers),
        (_forces, (12, 32), of_arrays),
        (_likeliest, (100, 1_000), of_numbers[:2]),
        (_layers, (16, 32), of_arrays),
        (_waves, (64, 200), of_numbers[:2]),
        (_walk, (200, 600), of_numbers[:2]),
    ):
        for size in sizes:
            found[f"{function.__name__[1:]} {size:,}"] = Subject(function, np.linspace(0.1, 0.9, size), kinds)
    for steps in (200, 600):
        found[f"garch {steps}"] = Subject(_garch_of(steps), np.array([0.1, 0.2, 0.7]), of_numbers)
    for steps in (100, 300):
        found[f"lorenz {steps}"] = Subject(_lorenz_of(steps), np.array([0.1, 0.2, 0.7]), of_arrays)
    return found


SUBJECTS: Final = _subjects()


def estimated(name: str, kind: str) -> tuple[Cost, Cost] | None:
    """Return the costs of both forms, written out and as loops, as they are estimated before either is made.

    None for a function that is too long to be written out.
    """
    subject, of = SUBJECTS[name], KINDS[kind]
    recording = record(subject.function, [subject.point], arrays=True, decides=True, tells=False)
    if recording.loops is not None:
        return None
    loops = recording.as_loops()
    assert loops.loops is not None
    tape = recording.scalars
    work = Work.of(tape, of, np.arange(tape.inputs), recording.results, int(of.has_seeds))
    return work.costs(of, loops.loops)


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
        f"reached: cost of the chosen form by that of the better one, of preparing and {estimates.POINTS:,} points.",
    ]
    return Table("lowering", "Written out or as loops: what either costs", rows, notes)


def _measured(name: str, kind: str, form: int) -> Cost:
    """Prepare and call one form, 0 for the one that is written out and 1 for loops, and return what it took."""
    subject = SUBJECTS[name]
    x = subject.point
    for warm in (np.ones(2), np.ones(2_000)):
        acc.gradient(_total, cache=False)(warm)
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
