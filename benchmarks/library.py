"""Everything that the benchmarks ask of accumulus, in one place."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accumulus as acc
from functions import Example
from peers import Contender, Layout

NAME = "accumulus"


def contender(example: Example, X: NDArray[np.float64], layout: Layout) -> Contender:
    """Jacobians at the points X (points, inputs), one thread, written into an array that is there already."""
    jacobian = acc.jacobian(example.function, sparse=layout == "sparse")
    if layout == "sparse":
        first = jacobian.batch(X)
        out = np.empty_like(first.data)

        def dense() -> NDArray[np.float64]:
            return jacobian.batch(X).toarray()  # type: ignore[no-any-return]
    else:
        out = np.empty((len(X), example.outputs, example.inputs))

        def dense() -> NDArray[np.float64]:
            return jacobian.batch(X)  # type: ignore[no-any-return]

    return Contender(NAME, lambda: jacobian.batch(X, out=out), dense)


def one_point(f: Callable[..., Any], x: NDArray[np.float64]) -> Callable[[NDArray[np.float64]], Any]:
    """The compiled Jacobian as users call it at one point."""
    jacobian = acc.jacobian(f)
    jacobian(x)
    return jacobian


def first_result(f: Callable[..., Any], x: NDArray[np.float64]) -> Any:
    """From a function to its first Jacobian, at default effort."""
    return acc.jacobian(f)(x)


def operations(example: Example) -> int:
    """Operations of the compiled value and Jacobian; inputs, constants and stores not counted."""
    return acc.value_and_jacobian(example.function).compile(example.point).operations


@dataclass(frozen=True)
class Planned:
    """How cheap a plan was found for a graph."""

    cost: int
    lower_bound: int | None
    seconds: float


def plan_graph(path: Path, objective: str, time_limit: float) -> Planned:
    """Best plan for a graph file within a time limit in seconds."""
    graph = acc.load_graph(path)
    start = time.perf_counter()
    plan = acc.plan(graph, method="auto", objective=objective, time_limit=time_limit, effort="thorough")
    return Planned(plan.cost, getattr(plan, "lower_bound", None), time.perf_counter() - start)


@dataclass(frozen=True)
class Stages:
    """Seconds that each stage of a big program took."""

    operations: int
    trace: float
    plan: float
    emit: float
    point: float
    batch: float


def compile_stages(f: Callable[..., Any], x: NDArray[np.float64]) -> Stages:
    """Trace, plan in forward order (a search is not what is measured), compile value and Jacobian for both calls."""
    start = time.perf_counter()
    trace = acc.trace(f, x)
    traced = time.perf_counter()
    plan = acc.plan(trace.linearize(), method="forward")
    planned = time.perf_counter()
    program = trace.compile(plan, values=True)
    seconds = program.seconds
    compiled = time.perf_counter()
    program.kernel.prepare("batch")
    batch = time.perf_counter() - compiled
    return Stages(program.operations, traced - start, planned - traced, seconds["emit"], seconds["compile"], batch)
