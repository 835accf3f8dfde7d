"""Our C, compiled by gcc or whatever the C compiler is, against our LLVM code: kernels of the same programs in a batch.

The last row is POLLU's sparse Jacobian against the one written by hand (`hand/pollu.py`), as a C function of a point
that a loop calls: what a user writes who writes it down.
"""

from __future__ import annotations

import ctypes
from functools import partial

import numpy as np
from numpy.typing import NDArray

import accumulus as acc
from accumulus.errors import CompileError
from accumulus.rewriting.canonical import canonical
from accumulus.targets import Segment, compile_tape, emit_source
from accumulus.targets.c.c_target import Loaded
from functions import Example
from groups import Settings
from groups.ratios import mean, worst
from hand import PROGRAMS
from tables import Goal, Row, Table
from timing import measure, one_core

REACH = 1.3
REACH_BY_HAND = 1.5
LOOP = """
void loop(size_t points, const double *x, double *y) {
    for (size_t p = 0; p < points; p++) f(x + p * F_X_SIZE, y + p * F_RESULT_SIZE);
}
"""


def table(settings: Settings) -> Table:
    """One row a function, then the geometric mean and the worst, and POLLU."""
    rows, ratios = [], {}
    title = f"C against LLVM code, values and Jacobians of {settings.points:,} points, one thread (ns a point, medians)"
    with one_core():
        for example in settings.functions:
            X = example.sample(settings.points, settings.seed)
            tape, segments, exact = _program(example)
            try:
                kernels = {name: compile_tape(tape, segments, name, exact=exact) for name in ("llvm", "c")}
            except CompileError as missing:
                return Table("c", title, [Row({"function": str(missing).partition(":")[0]}, Goal(REACH, None))])
            results = {name: kernel.batch(X) for name, kernel in kernels.items()}
            for ours, other in zip(*results.values(), strict=True):
                np.testing.assert_allclose(other, ours, rtol=1e-9, atol=1e-9 * np.abs(ours).max(initial=1e-300))
            runs = {name: partial(kernel.batch, X, out=results[name]) for name, kernel in kernels.items()}
            timings = measure(runs, settings.turns)
            ratio = ratios[example.name] = timings["c"].median / timings["llvm"].median
            cells = {"function": example.name, "operations": tape.operations}
            cells |= {f"{name} ns": 1e9 / len(X) * timing.median for name, timing in timings.items()}
            cells["by minima"] = timings["c"].minimum / timings["llvm"].minimum
            rows.append(Row(cells, Goal(REACH, ratio, unit="×")))
        rows += mean(ratios, REACH) + worst(ratios, None)
        rows += [_by_hand(example, settings) for example in settings.functions if example.name == "pollu"]
    return Table("c", title, rows, ["By hand: a function of a point in C, called in a loop, the same flags."])


def _program(example: Example) -> tuple[acc.Tape, tuple[Segment, ...], frozenset[int]]:
    program = acc.value_and_jacobian(example.function).compile(example.point)
    return program.tape, program.kernel.segments, program._exact


def _by_hand(example: Example, settings: Settings) -> Row:
    """LLVM code of the sparse Jacobian against a loop over the one by hand; the other way round, how often quicker."""
    X = example.sample(settings.points, settings.seed)
    program = acc.jacobian(example.function, sparse=True).compile(example.point)
    places: list[tuple[int, int]] = []

    def entries(x: NDArray[np.float64]) -> NDArray[np.float64]:
        found = PROGRAMS[example.name].value_and_jacobian(x)[1]
        places[:] = found
        return np.array(list(found.values()))

    tape = canonical(acc.trace(entries, example.point).tape)
    count = len(tape.outputs)
    segment = Segment(count, tuple(range(count)), tuple(range(count)))
    library = Loaded(emit_source(tape, [segment], "c") + LOOP)
    mine = np.empty((len(X), count))
    arguments = (ctypes.c_size_t(len(X)), ctypes.c_void_p(X.ctypes.data), ctypes.c_void_p(mine.ctypes.data))
    loop = library.function("loop")
    loop(*arguments)
    pattern = acc.jacobian(example.function, sparse=True).batch(X)
    rows, columns = np.transpose(places)
    np.testing.assert_allclose(pattern.toarray()[:, rows, columns], mine, rtol=1e-9, atol=1e-12)
    out = program.kernel.batch(X)
    timings = measure({"llvm": lambda: program.kernel.batch(X, out=out), "c": lambda: loop(*arguments)}, settings.turns)
    cells: dict[str, object] = {"function": "pollu, sparse, by hand", "operations": tape.operations}
    cells |= {f"{name} ns": 1e9 / len(X) * timing.median for name, timing in timings.items()}
    return Row(cells, Goal(1 / REACH_BY_HAND, timings["llvm"].median / timings["c"].median, unit="×"))
