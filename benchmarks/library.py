"""Everything that the benchmarks ask of accumulus, in one place."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import accumulus as acc
from accumulus.resubstitution import optimise as resubstitution
from accumulus.tape.interpreter import evaluate
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import Tape
from counting import Kind, Tally
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


def nonzeros(example: Example, X: NDArray[np.float64]) -> tuple[Callable[..., Any], NDArray[np.float64]]:
    """The batch of structural nonzeros, and an array for its values at the points X (points, inputs)."""
    batch = acc.jacobian(example.function, sparse=True).batch
    return batch, np.empty_like(batch(X).data)


def one_point(f: Callable[..., Any], x: NDArray[np.float64]) -> Callable[[NDArray[np.float64]], Any]:
    """The compiled Jacobian as users call it at one point."""
    jacobian = acc.jacobian(f)
    jacobian(x)
    return jacobian


def first_result(f: Callable[..., Any], x: NDArray[np.float64], **options: Any) -> Any:
    """From a function to its first Jacobian; without options, nothing is loaded from the cache or stored there."""
    return acc.jacobian(f, **{"cache": False, **options})(x)


#: Names of the tape's operations by kind; a fused product and sum would be two.
KINDS: dict[Kind, str] = {
    "arithmetic": "add subtract multiply abs sign floor ceil fmod minimum maximum less less_equal equal not_equal "
    "logical_and logical_or logical_not select",
    "division": "divide",
    "root": "sqrt",
    "function": "power cbrt hypot exp expm1 exp2 log log1p log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh "
    "asinh acosh atanh erf erfc " + " ".join(row.name for row in OPERATIONS if row.special),
    "sign": "negative",
}


#: Seconds for the search of an order, and for that of algebra on the tape, where the effort is thorough.
PATIENCE = 6.0


@contextmanager
def processor_clock() -> Iterator[None]:
    """Let time limits be of the processor's time, so that what else runs cuts no search short."""
    with patch("accumulus.deadline.time", SimpleNamespace(monotonic=time.process_time)):
        yield


@cache
@processor_clock()
def operations(example: Example, effort: str = "balanced") -> Tally:
    """Operations of the compiled value and Jacobian."""
    options = {} if effort == "balanced" else {"effort": effort, "time_limit": PATIENCE}
    return tally(acc.value_and_jacobian(example.function, **options).compile(example.point).tape)


def weighted(example: Example) -> Callable[..., Any]:
    """w·f(x), as a function of x and w; of functions of one result, w is 1."""
    f = example.function

    def of_weights(x: Any, w: Any) -> Any:
        return np.sum(w * f(x))

    def alone(x: Any) -> Any:
        return np.sum(f(x))

    return alone if example.outputs == 1 else of_weights


def weights(example: Example) -> NDArray[np.float64]:
    """Weights of the results, (outputs,)."""
    return np.ones(1) if example.outputs == 1 else np.linspace(0.5, 1.5, example.outputs)


def _weighted_arguments(example: Example) -> tuple[NDArray[np.float64], ...]:
    return (example.point,) if example.outputs == 1 else (example.point, weights(example))


@cache
@processor_clock()
def hessian_operations(example: Example) -> int:
    """Operations of the compiled value, gradient and Hessian of w·f."""
    hessian = acc.value_gradient_hessian(weighted(example), 0)
    return tally(hessian.compile(*_weighted_arguments(example)).tape).operations


@cache
@processor_clock()
def product_operations(example: Example, kind: str) -> int:
    """Operations of value and product of the Jacobian with a direction ("jvp"), or of the Hessian of w·f ("hvp")."""
    if kind == "jvp":
        return tally(acc.jvp(example.function).compile((example.point,), (example.point,)).tape).operations
    arguments = _weighted_arguments(example)
    tangents = (example.point, *(None for _ in arguments[1:]))
    return tally(acc.hvp(weighted(example)).compile(arguments, tangents).tape).operations


@dataclass(frozen=True)
class EdgesLeft:
    """Cost of a product with a Jacobian at a point.

    Attributes:
        edges: of the differentiation graph.
        nonzeros: of the Jacobian, structural.
        multiplications: of a product through the edges that are left.
    """

    edges: int
    nonzeros: int
    multiplications: int


def edges_left(example: Example) -> EdgesLeft:
    """The operator of the Jacobian at the example's point."""
    operator = acc.linear_operator(example.function)(example.point)
    edges = len(acc.trace(example.function, example.point).linearize().sources)
    return EdgesLeft(edges, operator.nonzeros, operator.multiplications)


def hessian_contender(example: Example, X: NDArray[np.float64], w: NDArray[np.float64]) -> Contender:
    """Gradient and Hessian of w·f at the points X (points, inputs), one thread."""
    hessian = acc.value_gradient_hessian(weighted(example), 0, threads=1)
    arguments = (X,) if example.outputs == 1 else (X, w)
    axes = (0,) if example.outputs == 1 else (0, None)
    out = tuple(np.empty_like(array) for array in hessian.batch(*arguments, in_axes=axes))

    def dense() -> NDArray[np.float64]:
        return hessian.batch(*arguments, in_axes=axes)[2]  # type: ignore[no-any-return]

    return Contender(NAME, lambda: hessian.batch(*arguments, in_axes=axes, out=out), dense)


def bound_hessian(example: Example, x: NDArray[np.float64], w: NDArray[np.float64]) -> Contender:
    """Gradient and Hessian of w·f at one point, bound to its arrays."""
    call = acc.value_gradient_hessian(weighted(example), 0).bind(*((x,) if example.outputs == 1 else (x, w)))
    return Contender("bound", call, lambda: call()[2][np.newaxis])


@cache
def function_operations(example: Example) -> Tally:
    """Operations of the function alone, optimised."""
    return tally(function_tape(example))


def function_tape(example: Example) -> Tape:
    """The function alone, optimised thoroughly."""
    tape = acc.trace(example.function, example.point).tape
    return resubstitution.optimise(tape, effort="thorough", time_limit=PATIENCE)


def tally(tape: Tape) -> Tally:
    """Return the number of operations of each kind on a tape."""
    kinds = {name: kind for kind, names in KINDS.items() for name in names.split()}
    return Tally.of(kinds[tape.operation(reference).name] for reference in range(tape.inputs, len(tape)))


#: Whether programs can be compiled as they were before the optimiser of tapes.
CAN_SKIP_OPTIMISER = "optimise" in inspect.signature(acc.jacobian).parameters


@dataclass(frozen=True)
class Both:
    """Value and Jacobian of a batch, written into arrays that are there already.

    Attributes:
        operations: of the compiled program.
        run: does it once; this is what is timed.
        results: does it once and returns values (points, outputs) and the entries of the Jacobians (points, entries).
    """

    operations: int
    run: Callable[[], Any]
    results: Callable[[], tuple[NDArray[np.float64], NDArray[np.float64]]]


def both(example: Example, X: NDArray[np.float64], **options: Any) -> Both:
    """Values and sparse Jacobians at the points X (points, inputs), one thread; options as `value_and_jacobian` has."""
    derivative = acc.value_and_jacobian(example.function, sparse=True, **options)
    out = (np.empty((len(X), example.outputs)), np.empty_like(derivative.batch(X)[1].data))

    def results() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        for array in out:
            array.fill(np.nan)
        derivative.batch(X, out=out)
        return out

    return Both(derivative.compile(X[0]).operations, lambda: derivative.batch(X, out=out), results)


@contextmanager
def by_rules_alone() -> Iterator[None]:
    """Within it, no program is rewritten by value, whatever the effort."""
    with patch.multiple(resubstitution, MOST_OPERATIONS=0, BRIEF=(1, 0)):
        yield


def values_and_jacobians(
    example: Example, X: NDArray[np.float64], *others: NDArray[np.float64], **options: Any
) -> list[NDArray[np.float64]]:
    """Of one program, made from the points X (points, inputs), there and at others: (points, outputs, 1 + inputs) each.

    Values come first.
    """
    program = acc.value_and_jacobian(example.function, **options)
    batches = [program.batch(points) for points in (X, *others)]
    return [np.concatenate([values[:, :, None], jacobians], axis=2) for values, jacobians in batches]


#: Operations whose result changes where their first two operands are equal.
DECISIONS = {BY_NAME[name].code for name in ["minimum", "maximum", "less", "less_equal", "equal", "not_equal"]}


def values_on_the_way(example: Example, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return all values of the plain program of value and Jacobian at the points X (points, inputs): (points, values).

    Of comparisons, by how much their sides differ.
    """
    tape = _plain_tape(example)
    # constants count down from the end
    found = [*evaluate(tape, list(X.T)), *reversed(tape.constants)]
    rows = [
        found[tape.first[k]] - found[tape.second[k]] if tape.codes[k] in DECISIONS else found[k]
        for k in range(len(tape))
    ]
    return np.stack([np.broadcast_to(row, len(X)) for row in rows], axis=1)


@cache
def _plain_tape(example: Example) -> Tape:
    """Of value and Jacobian, with all that is computed as its results."""
    tape = acc.value_and_jacobian(example.function, optimise=False).compile(example.point).tape.copy()
    tape.outputs = list(range(len(tape)))
    return tape


@dataclass(frozen=True)
class Planned:
    """Cost of the plan for a graph."""

    cost: int
    lower_bound: int | None
    seconds: float


@processor_clock()
def plan_graph(path: Path, objective: str, time_limit: float) -> Planned:
    """Best plan for a graph file within a time limit in seconds of the processor."""
    graph = acc.load_graph(path)
    start = time.process_time()
    plan = acc.plan(graph, method="auto", objective=objective, time_limit=time_limit, effort="thorough")
    return Planned(plan.cost, getattr(plan, "lower_bound", None), time.process_time() - start)


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
