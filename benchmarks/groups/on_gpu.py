"""Batches on one of NVIDIA's GPUs, against JAX on the same GPU; arguments and results stay there.

Points are rows, (points, inputs) to (points, outputs, inputs), which is the default of both, or columns. JAX is the
quicker of `jit(vmap(jacfwd(f)))` and, if there are fewer outputs than inputs, `jit(vmap(jacrev(f)))`, from the same
source. Before anything is timed, results of both are compared with those of this library on the processor.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accumulus as acc
from functions import Example
from groups import Settings
from groups.ratios import mean, worst
from peers import NotInstalled, jax_batch, require
from tables import Goal, Row, Table
from timing import measure

REACH = 1.0 / 3.0
POINTS = (1_000_000, 10_000_000)
DTYPES = ("float64", "float32")
LAYOUTS = ("rows", "columns")
#: Bytes that are copied to see how quick the GPU's memory is.
COPIED = 1 << 31
#: Points at which results are compared, and the largest difference of an entry by the largest entry at its point.
COMPARED = 1000
DIFFERENCE = {"float64": 1e-9, "float32": 2e-2}


def table(settings: Settings) -> Table:
    """One row for a function, type, number of points and layout, then means and the worst."""
    title = "Jacobians on a GPU, arguments and results on the GPU (ns a point, medians)"
    try:
        cupy, jax = _load()
    except NotInstalled as missing:
        return Table("gpu", title, [Row({"function": str(missing)}, Goal(REACH, None))])
    speed = _memory_speed(cupy)
    rows, ratios = [], dict[str, dict[str, float]]()
    for example in settings.examples:
        sample = example.sample(min(POINTS), settings.seed)
        for dtype, points, layout in itertools.product(DTYPES, POINTS, LAYOUTS):
            times = _times(example, sample, (dtype, points, layout), settings, cupy, jax)
            ours = times.pop("accumulus")
            bytes_moved = example.inputs * (1 + example.outputs) * points * np.dtype(dtype).itemsize
            best = min(times, key=times.__getitem__, default="")
            cells = {"function": example.name, "type": dtype, "points": points, "layout": layout}
            cells |= {"ns": 1e9 * ours / points, "of memory": bytes_moved / ours / speed}
            cells |= {"JAX ns": 1e9 * times[best] / points if best else math.nan, "JAX by": best}
            ratio = ours / times[best] if best else None
            rows.append(Row(cells, Goal(REACH, ratio, unit="×")))
            if ratio is not None:
                ratios.setdefault(f"{dtype}, {points:,} {layout}", {})[example.name] = ratio
    for name, each in ratios.items():
        rows += mean(each, REACH, name) + worst(each, None, name)
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    notes = [
        f"{device}; JAX {jax.__version__}, CuPy {cupy.__version__}",
        f"of memory: bytes of arguments and dense results by the time, as part of the {speed / 1e9:,.0f} GB/s that a "
        "copy reads and writes",
        "no time of JAX: it needs more memory than there is",
    ]
    return Table("gpu", title, rows, notes)


def _load() -> tuple[Any, Any]:
    """Return CuPy and JAX; raise `NotInstalled` without them or without a GPU."""
    cupy = require("cupy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if not count:
        raise NotInstalled("no GPU")
    os.environ["JAX_PLATFORMS"] = "cuda,cpu"
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return cupy, jax_batch.load()


def _memory_speed(cupy: Any) -> float:
    """Return how many bytes per second a copy reads and writes."""
    one, other = (cupy.ones(COPIED // 8) for _ in range(2))

    def copy() -> None:
        cupy.copyto(one, other)
        cupy.cuda.runtime.deviceSynchronize()

    return 2 * COPIED / measure({"copy": copy}, 11, 0.02)["copy"].median


def _times(
    example: Example, sample: NDArray[np.float64], case: tuple[str, int, str], settings: Settings, cupy: Any, jax: Any
) -> dict[str, float]:
    """Return median seconds of a batch, by who computes it."""
    dtype, points, layout = case
    columns = layout == "columns"
    X = sample.astype(dtype)
    expected = acc.jacobian(example.function).batch(X[:COMPARED].astype(np.float64))
    X = np.ascontiguousarray(X.T) if columns else X
    jacobian = acc.jacobian(example.function, target="cuda", dtype=dtype)
    repeats = (1, points // len(sample)) if columns else (points // len(sample), 1)
    x = cupy.tile(cupy.asarray(X), repeats)

    def ours() -> Any:
        J = jacobian.batch(x, transposed=columns)
        cupy.cuda.runtime.deviceSynchronize()
        return J

    def check(J: Any) -> None:
        first = np.moveaxis(np.asarray(J), -1, 0) if columns else np.asarray(J)
        scale = np.abs(expected).max(axis=(1, 2), keepdims=True)
        apart = float(np.max(np.abs(first - expected) / scale))
        if not apart <= DIFFERENCE[dtype]:
            raise AssertionError(f"{example.name}, {dtype}, {layout}: Jacobians are apart by {apart:.1e}")

    some = (..., slice(COMPARED)) if columns else slice(COMPARED)
    check(cupy.asnumpy(ours()[some]))
    runs: dict[str, Callable[[], Any]] = {"accumulus": ours}
    for mode in jax_batch.MODES if example.outputs < example.inputs else jax_batch.MODES[:1]:
        function = jax_batch.function(example)
        jax.config.update("jax_enable_x64", dtype == "float64")
        axis = -1 if columns else 0
        derivative = jax.jit(jax.vmap(getattr(jax, mode)(function), in_axes=axis, out_axes=axis))
        given = jax.numpy.tile(jax.device_put(X), repeats)

        def run(derivative: Any = derivative, given: Any = given) -> Any:
            return derivative(given).block_until_ready()

        try:
            check(run()[some])
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
        else:
            runs[mode] = run
    times = {name: timing.median for name, timing in measure(runs, min(settings.turns, 11), 0.01).items()}
    cupy.get_default_memory_pool().free_all_blocks()
    return times
