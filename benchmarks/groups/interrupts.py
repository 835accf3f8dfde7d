"""Delay of Ctrl-C: the longest time in which Python runs no handler, for each stage of preparations.

A signal every few milliseconds stands for Ctrl-C at every moment: what passes between two runs of its handler in the
main thread is how late an interrupt in between is heard. Seconds of the main thread's processor leave out what other
processes do to it; those by the clock are shown, too, since a thread that keeps Python's lock makes others wait. Each
case runs in a process of its own, with nothing cached.
"""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np

import accumulus as acc
from apart import NotDone, apart, processor_seconds
from functions import all_examples, suite
from groups import Settings
from hard_cases import bodies, dense_layers, pendulum_steps
from tables import Goal, Row, Table

#: Seconds between two signals; seconds after which an interrupt has to be heard; seconds that a case may take.
TICK: Final = 0.005
HEARD: Final = 1.0
PATIENCE: Final = 100.0

#: Stage → the longest stretch by the main thread's processor, by the clock, and where the first of these ended.
_Stretches = dict[str, tuple[float, float, str]]


class _Handler:
    """Notes the longest stretches between two of its calls."""

    def __init__(self) -> None:
        self.stage, self.found = "", dict[str, tuple[float, float, str]]()
        self._last = time.thread_time(), time.perf_counter()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.thread_time(), time.perf_counter()
        worked, waited = (then - before for then, before in zip(now, self._last, strict=True))
        most, longest, where = self.found.get(self.stage, (0.0, 0.0, ""))
        if worked > most:
            most, where = worked, _place(frame)
        self.found[self.stage] = most, max(longest, waited), where
        self._last = time.thread_time(), time.perf_counter()

    def next(self, progress: acc.Progress) -> None:
        """Begin a stage."""
        if progress.stage != self.stage:
            self(0, None)
            self.stage = progress.stage


def _place(frame: FrameType | None) -> str:
    own = [each for each in traceback.extract_stack(frame) if "accumulus" in each.filename]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def _kmeans(points: int, clusters: int) -> tuple[Any, ...]:
    data = np.random.default_rng(0).normal(size=(points, 3))

    def loss(c: Any) -> Any:
        return np.sum(np.min(np.sum((data[:, None, :] - c[None, :, :]) ** 2, axis=2), axis=1))

    return loss, np.random.default_rng(1).normal(size=(clusters, 3))


def _process(size: int) -> tuple[Any, ...]:
    A = np.random.default_rng(0).normal(size=(size, size)) / size + 2.0 * np.eye(size)

    def likelihood(x: Any) -> Any:
        K = A @ A.T + x[0] * np.exp(-x[1] * np.abs(np.subtract.outer(np.arange(size), np.arange(size))))
        return x @ x + np.linalg.slogdet(K)[1] + np.ones(size) @ np.linalg.solve(K, np.ones(size))

    return likelihood, np.array([0.3, 0.7])


def _tangled(operations: int) -> tuple[Any, ...]:
    def f(x: Any) -> Any:
        generator = np.random.default_rng(0)
        values = list(x)
        for k in range(operations):
            a, b = generator.integers(max(0, len(values) - 200), len(values), 2)
            values.append(values[a] * values[b] if k % 3 else np.sin(values[a]) + values[b])
        return values[-1] + sum(values[-100:])

    return f, np.linspace(0.1, 0.2, 5)


def _of(name: str) -> tuple[Any, ...]:
    (found,) = [each for each in (*all_examples(), *suite()) if each.name == name]
    return found.function, found.point


def _case(case: Any) -> tuple[Any, ...]:
    return case.function, case.point


_THOROUGH: Final = {"effort": "thorough", "time_limit": 8.0}
#: Name → what makes a function and its point, what is asked of it, and the options.
CASES: Final[dict[str, tuple[Callable[[], tuple[Any, ...]], str, dict[str, Any]]]] = {
    **{
        f"{name}, {effort}": (lambda name=name: _of(name), "jacobian", {"effort": effort, "time_limit": limit})
        for name in ("robot_arm", "roe_flux", "pollu")
        for effort, limit in (("fast", 1.0), ("balanced", 1.0), ("thorough", 8.0))
    },
    "layers of 40": (lambda: _case(dense_layers(40)), "jacobian", {}),
    "layers of 40, thorough": (lambda: _case(dense_layers(40)), "jacobian", _THOROUGH),
    "30 bodies": (lambda: _case(bodies(30)), "jacobian", {}),
    "RK4, 400 steps": (lambda: _case(pendulum_steps(400)), "jacobian", {}),
    "RK4, 40 steps, thorough": (lambda: _case(pendulum_steps(40)), "jacobian", _THOROUGH),
    "RK4, 40 steps, C": (lambda: _case(pendulum_steps(40)), "jacobian", {"target": "c"}),
    "k-means 400": (lambda: _kmeans(400, 10), "hvp", {"time_limit": 0.1}),
    "solve, slogdet 30": (lambda: _process(30), "gradient", {}),
    "solve, slogdet 60": (lambda: _process(60), "gradient", {"time_limit": 0.1}),
    "1,000 tangled, C": (lambda: _tangled(1_000), "gradient", {"target": "c", "time_limit": 0.1}),
    "10,000 tangled": (lambda: _tangled(10_000), "gradient", {}),
    "50,000 tangled": (lambda: _tangled(50_000), "gradient", {"time_limit": 0.1}),
    "200,000 tangled": (lambda: _tangled(200_000), "function", {"time_limit": 0.1}),
}


def table(settings: Settings) -> Table:
    """One row a case and stage that took longer than a few signals, the worst first."""
    rows = []
    for name in CASES:
        try:
            found = apart(measured, name, seconds=PATIENCE)
        except NotDone as why:
            rows.append(Row({"case": name, "remark": str(why)}, Goal(HEARD, float("inf"), unit=" s")))
            continue
        for stage, (worked, waited, where) in sorted(found.items()):
            if worked > 10 * TICK or waited > HEARD:
                cells = {"case": name, "stage": stage, "by the clock s": round(waited, 3), "where": where}
                rows.append(Row(cells, Goal(HEARD, round(worked, 3), unit=" s")))
    notes = [f"Stretches of more than {10 * TICK:g} s of the main thread's processor, in which Ctrl-C is not heard."]
    return Table("interrupts", "How late Ctrl-C is heard (s, at most)", rows, notes)


def measured(name: str) -> _Stretches:
    """The longest stretches of a case, by stage; "" is what comes before the first and after the last."""
    make, api, options = CASES[name]
    function, point = make()
    acc.jacobian(lambda x: np.sin(x) * x[0], cache=False, progress=lambda _: None)(np.ones(2))
    handler = _Handler()
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    asked = acc.compile if api == "function" else getattr(acc, api)
    arguments = ((point,), (np.ones_like(point),)) if api == "hvp" else (point,)
    asked(function, progress=handler.next, cache=False, **options)(*arguments)
    handler(0, None)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    return handler.found


#: Programs that are written out, and how many times what it took may be what was estimated.
WRITTEN_OUT: Final = ("RK4, 400 steps", "RK4, 40 steps, C", "k-means 400", "solve, slogdet 30", "10,000 tangled")
FACTOR: Final = 3.0


def estimates(settings: Settings) -> Table:
    """One row a program that is written out: what is expected before, and what it took, compilers included."""
    rows = []
    for name in (*WRITTEN_OUT, "1,000 tangled, C"):
        try:
            expected, took, operations = apart(_estimated, name, seconds=PATIENCE)
        except NotDone as why:
            rows.append(Row({"case": name, "remark": str(why)}, Goal(FACTOR, float("inf"))))
            continue
        ratio = max(expected / took, took / expected)
        cells = {"case": name, "operations": operations, "expected s": round(expected, 1), "took s": round(took, 1)}
        rows.append(Row(cells, Goal(FACTOR, round(ratio, 2), unit=" times")))
    return Table("estimates", "What writing out and compiling is expected to take (seconds of the processor)", rows)


def _estimated(name: str) -> tuple[float, float, int]:
    make, api, options = CASES[name]
    function, point = make()
    acc.jacobian(lambda x: np.sin(x) * x[0], cache=False)(np.ones(2))
    said: list[tuple[float, float]] = []

    def note(progress: acc.Progress) -> None:
        if progress.stage != "trace" and not said:
            said.append((progress.expected or 0.0, processor_seconds()))
        elif progress.expected is not None and said[0][0] == 0.0:
            said[0] = progress.expected, said[0][1]

    arguments = ((point,), (np.ones_like(point),)) if api == "hvp" else (point,)
    program = getattr(acc, api)(function, progress=note, cache=False, **options).compile(*arguments)
    return said[0][0] or 2.0, processor_seconds() - said[0][1], program.operations
