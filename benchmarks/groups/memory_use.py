"""Memory after a million calls: each kind of program in a separate process, which should not grow.

Before they are counted, a tenth as many calls let caches, pools and pages be what they will be.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import numpy as np

import accumulus as acc
from apart import NotDone, apart
from functions import all_examples
from groups import Settings
from tables import Goal, Row, Table

CALLS: Final = 1_000_000
WARM: Final = CALLS // 10
#: Bytes a call, at most: less than the smallest thing that can be forgotten, 16 bytes, in one call of 16.
LEAST: Final = 1.0
PATIENCE: Final = 300.0
_STATUS: Final = Path("/proc/self/statm")

Run = Callable[[], Any]


def table(settings: Settings) -> Table:
    """One row a kind of program."""
    rows = []
    for name in KINDS:
        cells: dict[str, Any] = {"kind": name, "calls": f"{CALLS:,}"}
        try:
            grown = apart(_grown, name, seconds=PATIENCE)
        except NotDone as why:
            rows.append(Row(cells | {"MiB": str(why)}, Goal(LEAST, None, unit=" B a call")))
            continue
        rows.append(Row(cells | {"MiB": grown / 2**20}, Goal(LEAST, max(0.0, grown / CALLS), unit=" B a call")))
    return Table("memory", "Memory of the process after a million calls, beyond that before", rows)


def _grown(name: str) -> int:
    """Bytes by which this process is larger after many calls of a kind."""
    if not _STATUS.exists():
        raise OSError("memory is measured by Linux's account of it")
    run = KINDS[name]()
    for _ in range(WARM):
        run()
    before = _resident()
    for _ in range(CALLS):
        run()
    return _resident() - before


def _resident() -> int:
    gc.collect()
    return int(_STATUS.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Kinds ---------------------------------------------------------------------------------------------------------


def _arm() -> Any:
    (example,) = (each for each in all_examples() if each.name == "robot_arm")
    return example


def _called(make: Callable[..., Any], **options: Any) -> Run:
    arm = _arm()
    return partial(make(arm.function, **options), arm.point)


def _into_an_array() -> Run:
    arm = _arm()
    return partial(
        acc.jacobian(arm.function, threads=1).batch, arm.sample(8), out=np.empty((8, arm.outputs, arm.inputs))
    )


def _batch() -> Run:
    arm = _arm()
    return partial(acc.jacobian(arm.function, threads=1).batch, arm.sample(8))


def _product() -> Run:
    arm = _arm()
    return partial(acc.jvp(arm.function), (arm.point,), (np.ones_like(arm.point),))


def _hessian() -> Run:
    return partial(acc.hessian(lambda x: np.sum(x * x) * np.exp(x[0])), np.array([0.3, 0.5, 0.7]))


def _operator() -> Run:
    arm = _arm()
    return partial(acc.linear_operator(arm.function)(arm.point).matvec, np.ones(arm.inputs))


def _decides() -> Run:
    points = [np.array([x, 0.5]) for x in (-0.7, 0.7)]
    derivative = acc.jacobian(lambda x: x[0] * x[1] if x[0] > 0.0 else np.exp(x[0]) + x[1])
    turns = cycle(points)
    return lambda: derivative(next(turns))


def _long_array() -> Run:
    return partial(acc.jacobian(lambda x: np.sin(x[1:]) * x[:-1], sparse=True), np.linspace(0.0, 1.0, 200))


def _loaded() -> Run:
    arm = _arm()
    derivative = acc.jacobian(arm.function)
    derivative(arm.point)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arm.acc"
        acc.save(derivative, path)
        return partial(acc.load(path), arm.point)


KINDS: Final[dict[str, Callable[[], Run]]] = {
    "Jacobian": partial(_called, acc.jacobian),
    "value and Jacobian": partial(_called, acc.value_and_jacobian),
    "sparse Jacobian": partial(_called, acc.jacobian, sparse="csr"),
    "batch of 8 points": _batch,
    "batch into an array": _into_an_array,
    "product with a direction": _product,
    "Hessian": _hessian,
    "linear operator": _operator,
    "function that decides": _decides,
    "sparse Jacobian by loops": _long_array,
    "loaded from a file": _loaded,
}
