"""The tape's optimiser on large tapes: seconds, memory, and what is left of the operations, from 10⁴ to 10⁶.

Each tape is made and rewritten in a process of its own, whose peak is reported with the tape as it was. The kernels are
compiled before.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final

import numpy as np

import accumulus as acc
from accumulus.tape.tape import Tape
from groups import Settings
from groups.methods import peak
from tables import Goal, Row, Table

SIZES: Final = (10_000, 100_000, 1_000_000)
#: To stay within at the largest size.
SECONDS: Final = 20.0


def mixed(operations: int) -> Tape:
    """Sums, products and sines of recent values, at random; the last 200 are returned."""
    rng = random.Random(1)
    tape = Tape(50)
    values = list(range(50))
    while tape.operations < operations:
        a, b = (values[-1 - min(len(values) - 1, int(rng.expovariate(0.02)))] for _ in range(2))
        kind = rng.random()
        if a == b:
            continue
        if kind < 0.05:
            made = tape.apply("sin", a)
        else:
            made = (tape.multiply if kind < 0.43 else tape.add if kind < 0.77 else tape.subtract)(a, b)
        if made > values[-1]:
            values.append(made)
    tape.outputs = values[-200:]
    return tape


def lorenz(operations: int) -> Tape:
    """Explicit Euler steps of the Lorenz system, as recorded."""

    def steps(x: Any) -> Any:
        for _ in range(operations // 14):
            slope = np.array([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])
            x = x + 0.01 * slope
        return x

    return acc.trace(steps, np.ones(3)).tape


TAPES: Final[dict[str, Callable[[int], Tape]]] = {"mixed": mixed, "Lorenz": lorenz}


def table(settings: Settings) -> Table:
    """One row a tape and size."""
    rows = []
    for name in TAPES:
        for size in SIZES:
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                operations, left, seconds, megabytes = pool.submit(_run, name, size, settings.seed).result()
            cells = {"tape": name, "operations": operations, "left": left, "s": seconds, "MB": round(megabytes)}
            cells["µs/operation"] = 1e6 * seconds / operations
            rows.append(Row(cells, Goal(SECONDS, seconds, unit=" s") if size == SIZES[-1] else None))
    notes = ["s: acc.optimise(tape, effort='fast'), verified; MB: peak of the whole process."]
    return Table("rewriting", "Rewriting large tapes", rows, notes)


def _run(name: str, size: int, seed: int) -> tuple[int, int, float, float]:
    acc.optimise(mixed(300), effort="fast")  # the kernels are there then
    tape = TAPES[name](size)
    start = time.perf_counter()
    left = acc.optimise(tape, effort="fast", time_limit=SECONDS, seed=seed).operations
    return tape.operations, left, time.perf_counter() - start, peak()
