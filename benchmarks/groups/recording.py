"""What it takes to record a function of NumPy on an array: most of the first result of long loops."""

from __future__ import annotations

import time
from statistics import median
from typing import Any, Final

import numpy as np

import accumulus as acc
from accumulus.frontends.record import record
from groups import Settings
from tables import Goal, Row, Table

ENTRIES: Final = 100
CALLS: Final = 200
#: Microseconds of a call in the median.
REACH: Final = 40.0
#: Functions of an array x, another y, and a matrix A.
EXPRESSIONS: Final = (
    *("x + y", "x - y", "x * y", "x / y", "x + 0.5", "2.0 * x", "-x", "x**2", "x**1.5", "x @ y", "A @ x", "x > y"),
    *("np.sin(x)", "np.exp(x)", "np.log(x)", "np.sqrt(x)", "np.tanh(x)", "np.abs(x)", "np.arctan2(x, y)"),
    *("np.maximum(x, y)", "np.minimum(x, 0.5)", "np.clip(x, 0.1, 0.9)", "np.where(x > y, x, y)", "np.hypot(x, y)"),
    *("np.sum(x)", "np.mean(x)", "np.sum(A, axis=0)", "np.max(x)", "np.prod(x)", "np.cumsum(x)", "np.dot(x, y)"),
    *("x[1:] - x[:-1]", "x[::2]", "x.reshape(10, 10)", "np.roll(x, 1)", "np.concatenate((x, y))", "np.stack((x, y))"),
    *("np.outer(x[:10], y[:10])", "A.T", "x[:, None]", "np.diff(x)", "np.linalg.norm(x)", "np.zeros(100) + x"),
    *("np.diag(x[:10])", "np.einsum('ij,j->i', A, x)", "np.cross(x[:3], y[:3])", "np.linalg.solve(A[:3, :3], x[:3])"),
)


def table(settings: Settings) -> Table:
    """One row an expression, and one for the median."""
    del settings
    point = [np.linspace(0.1, 0.9, ENTRIES), np.linspace(0.3, 0.7, ENTRIES), _matrix()]
    acc.jacobian(lambda x: np.sin(x) * x[0], cache=False)(np.ones(2))  # imports
    seconds = {expression: _seconds(expression, point) for expression in EXPRESSIONS}
    rows = [Row({"expression": each, "recorded (µs)": round(1e6 * took, 1)}) for each, took in seconds.items()]
    rows.append(Row({"expression": "median"}, Goal(REACH, round(1e6 * median(seconds.values()), 1), unit=" µs")))
    notes = [
        f"of the processor, for a call on arrays of {ENTRIES} entries that are recorded as such; medians of three."
    ]
    return Table("recording", "Recording functions of NumPy", rows, notes)


def _matrix() -> Any:
    return np.cos(np.arange(float(ENTRIES**2))).reshape(ENTRIES, ENTRIES) + 3.0 * np.eye(ENTRIES)


def _seconds(expression: str, point: list[Any]) -> float:
    """Seconds of a call, each on other arrays, beyond those of a loop that only makes these."""
    found = []
    for _ in range(3):
        took = []
        for text in (expression, "x"):
            scope: dict[str, Any] = {"np": np}
            body = f"def f(x, y, A):\n for k in range({CALLS}):\n  x = x + 1e-3 * k\n  z = {text}\n return np.sum(x)"
            exec(body, scope)
            start = time.process_time()
            record(scope["f"], point, arrays=True, at_once=True)
            took.append(time.process_time() - start)
        found.append((took[0] - took[1]) / CALLS)
    return median(found)
