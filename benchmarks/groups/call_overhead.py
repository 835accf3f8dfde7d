"""Cost of a call from Python above the arithmetic, and of further arguments and results.

The arithmetic is what a point takes in a batch. That is vectorised, so it is an underestimate for a single point and
the overhead an overestimate. The function of two arguments computes the same from as many numbers, as f(y) times a
factor that is given or constant. What a sparse matrix costs is compared with SciPy's constructor, given the same
values and index arrays. A bound call is compared with one by ctypes of the same machine code, with arguments that are
converted already. Batches of two points, where arithmetic hardly counts, are compared with those of the Jacobian alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import accumulus as acc
import library
from functions import Example
from groups import Settings
from peers import NotInstalled, jax_batch
from tables import Goal, Row, Table
from timing import Timing, measure, one_core

MICROSECONDS = 3.0
TIMES = 2.0
SPARSE_MICROSECONDS = 3.0
WATCHED_MICROSECONDS = 2.0
BOUND = 1.1
BATCHES = 1.3
LONG, FEW = 1_000, 50
#: The same dict holds all of them; lists and objects add words of their own.
VARIABLES = 1_000
SMALL = ("roe_flux", "robot_arm", "human_heart_dipole")
FACTOR = 1.5


def table(settings: Settings) -> Table:
    """One row a small function, then one for each further kind of call."""
    rows, more = [], []
    with one_core():
        for example in settings.examples:
            if example.name not in SMALL:
                continue
            X = example.sample(settings.points, settings.seed)
            runs: dict[str, Callable[[], Any]] = {
                "call": functools.partial(library.one_point(example.function, example.point), example.point),
                "batch": library.contender(example, X, "dense").run,
                "NumPy": functools.partial(example.function, example.point),
            }
            with contextlib.suppress(NotInstalled):
                runs["JAX"] = _jax(example, example.point)
            median = {name: timing.median for name, timing in measure(runs, settings.turns).items()}
            overhead = 1e6 * (median["call"] - median["batch"] / settings.points)
            cells = {
                "function": example.name,
                "call µs": 1e6 * median["call"],
                "arithmetic µs": 1e6 * median["batch"] / settings.points,
                "f in NumPy µs": 1e6 * median["NumPy"],
                "JAX µs": 1e6 * median["JAX"] if "JAX" in median else "not installed",
            }
            rows.append(Row(cells, Goal(MICROSECONDS, overhead, unit=" µs more")))
            more += [*_further(example, settings), *_bound(example, settings)]
    with one_core():
        more += _batches(settings)
    return Table(
        "call", "Calls from Python: one point, and batches of two", [*rows, *more, _loops(settings), _watched(settings)]
    )


def _loops(settings: Settings) -> Row:
    """A gradient that is compiled as loops, at one point and in a batch that fits caches."""

    def waves(x: Any) -> Any:
        return np.sum(np.sin(x) * x)

    gradient, X = acc.gradient(waves), np.random.default_rng(settings.seed).uniform(size=(FEW, LONG))
    x = X[0].copy()
    if gradient.compile(x).code.maps is None or not np.array_equal(gradient.batch(X)[0], gradient(x)):
        raise AssertionError("loops have other results in a batch, or are no loops")
    out = gradient.batch(X)
    timings = measure({"call": lambda: gradient(x), "batch": lambda: gradient.batch(X, out=out)}, settings.turns)
    work = timings["batch"].median / len(X)
    cells = {"function": f"loops over {LONG:,} numbers", "call µs": 1e6 * timings["call"].median}
    cells["arithmetic µs"] = 1e6 * work
    return Row(cells, Goal(MICROSECONDS, 1e6 * (timings["call"].median - work), unit=" µs more"))


def _watched(settings: Settings) -> Row:
    """A function that reads a thousand global variables, with and without watching them."""
    scope: dict[str, Any] = {f"c{k}": 1.0 / (k + 1.0) for k in range(VARIABLES)}
    exec(f"def function(x):\n    return x * ({' + '.join(scope)})", scope)
    calls = {}
    for name, watch in (("watched", True), ("unwatched", False)):
        derivative = acc.jacobian(scope["function"], watch=watch)
        derivative(1.5)
        calls[name] = functools.partial(derivative, 1.5)
    timings = measure(calls, settings.turns)
    cells = {"function": f"{VARIABLES:,} variables watched", "call µs": 1e6 * timings["watched"].median}
    above = 1e6 * (timings["watched"].median - timings["unwatched"].median)
    return Row(cells, Goal(WATCHED_MICROSECONDS, above, unit=" µs above unwatched"))


def _further(example: Example, settings: Settings) -> list[Row]:
    """Several arguments, values too and sparse matrices against a call with one array."""
    f, x = example.function, example.point

    def scaled(y: Any) -> Any:
        return f(y) * FACTOR

    def of_two(factor: Any, y: Any) -> Any:
        return f(y) * factor

    alone, matrices = acc.jacobian(scaled), acc.jacobian(scaled, sparse="csr")
    two, both = acc.jacobian(of_two, argnums=1), acc.value_and_jacobian(scaled)
    two_and_both = acc.value_and_jacobian(of_two, argnums=1)
    matrix = matrices(x)
    parts, shape = (matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy()), matrix.shape
    timings = measure(
        {
            "f(y)": lambda: alone(x),
            "f(t, y)": lambda: two(FACTOR, x),
            "f(y), value too": lambda: both(x),
            "f(t, y), value too": lambda: two_and_both(FACTOR, x),
            "CSR": lambda: matrices(x),
            "SciPy's constructor": lambda: csr_array(parts, shape=shape),
        },
        settings.turns,
    )

    def cells(name: str) -> dict[str, Any]:
        return {"function": f"{example.name}: {name}", "call µs": 1e6 * timings[name].median}

    rows = [
        Row(cells(name), Goal(TIMES, _ratio(timings, name), unit="× f(y)"))
        for name in ("f(t, y)", "f(y), value too", "f(t, y), value too")
    ]
    above = 1e6 * (timings["CSR"].median - timings["SciPy's constructor"].median)
    return [*rows, Row(cells("CSR"), Goal(SPARSE_MICROSECONDS, above, unit=" µs above SciPy's"))]


def _bound(example: Example, settings: Settings) -> list[Row]:
    """Values and Jacobian by a bound call, and written to arrays, against a call by ctypes and a plain one."""
    derivative, x = acc.value_and_jacobian(example.function), np.array(example.point, float)
    program = derivative.compile(x)
    call = derivative.bind(x)
    fresh = derivative(x)
    if not all(np.array_equal(one, other) for one, other in zip(call(), fresh, strict=True)):
        raise AssertionError(f"{example.name}: a bound call has other results than a call")
    out = [np.empty_like(array) for array in fresh]
    arrays = (x, *out)
    native = program.native
    by_ctypes = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(arrays), *[ctypes.c_int64] * 3)(
        native.address
    )
    converted = (*(ctypes.c_void_p(array.ctypes.data) for array in arrays), *map(ctypes.c_int64, (0, 1, 1)))
    runs: dict[str, Callable[[], Any]] = {
        "bound": call,
        "ctypes": lambda: by_ctypes(*converted),
        "out=": lambda: derivative(x, out=out),
        "call": lambda: derivative(x),
    }
    timings = measure(runs, settings.turns)

    def row(name: str, other: str, reach: float) -> Row:
        cells = {"function": f"{example.name}: {name}, value too", "call µs": 1e6 * timings[name].median}
        return Row(cells, Goal(reach, timings[name].median / timings[other].median, unit=f"× {other}"))

    return [row("bound", "ctypes", BOUND), row("out=", "call", 1.0)]


def _products(x: Any, t: Any) -> Any:
    return x * x[0] * t[0] + np.roll(x, 1) * t[1]


def _vector(x: Any) -> Any:
    return _products(x, (1.5, 0.5))


def _number(x: Any) -> Any:
    return np.sum(x * x[::-1] * x)


def _tree(tree: Any) -> Any:
    return {"result": _vector(tree["x"])}


def _batches(settings: Settings) -> list[Row]:
    """Batches of two points with several results, trees and `out=` against the Jacobian of the same function."""
    X, T = np.linspace(0.1, 0.9, 12).reshape(2, 6), np.array([[1.5, 0.5], [2.0, 1.0]])
    vector, number = acc.jacobian(_vector), acc.jacobian(_number)
    #: A derivative, its arguments, and the Jacobian of the same function.
    cases: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
        "Jacobian": (vector, (X,), vector),
        "value too": (acc.value_and_jacobian(_vector), (X,), vector),
        "value, gradient, Hessian": (acc.value_gradient_hessian(_number), (X,), number),
        "argnums=(0, 1)": (acc.jacobian(_products, argnums=(0, 1)), (X, T), acc.jacobian(_products)),
        "trees": (acc.jacobian(_tree), ({"x": X},), vector),
        "trees, value too": (acc.value_and_jacobian(_tree), ({"x": X},), vector),
    }
    rows = []
    for name, (derivative, arguments, jacobian) in cases.items():
        points = [_leaves(derivative(*(_at(argument, k) for argument in arguments))) for k in range(len(X))]
        out = [np.empty((len(X), *np.shape(leaf))) for leaf in points[0]]
        runs: dict[str, Callable[[], Any]] = {
            "alone": functools.partial(jacobian.batch, *(X, T) if len(arguments) == 2 else (X,)),
            name: functools.partial(derivative.batch, *arguments),
            f"{name}, out=": functools.partial(derivative.batch, *arguments, out=out if len(out) > 1 else out[0]),
        }
        expected = [np.stack(leaves) for leaves in zip(*points, strict=True)]
        for each, run in runs.items():
            results = [_leaves(run()) for _ in range(3)][-1]  # the third call is as quick as all later ones
            if each != "alone" and not all(map(np.array_equal, results, expected)):
                raise AssertionError(f"{name}: a batch has other results than calls")
        timings = measure(runs, settings.turns)
        alone = timings.pop("alone").median
        rows += [
            Row(
                {"function": f"two points: {each}", "call µs": 1e6 * timing.median},
                Goal(BATCHES, timing.median / alone, unit="× Jacobian"),
            )
            for each, timing in timings.items()
        ]
    return rows


def _at(argument: Any, k: int) -> Any:
    return {key: x[k] for key, x in argument.items()} if isinstance(argument, dict) else argument[k]


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict | tuple):
        return [leaf for each in (tree.values() if isinstance(tree, dict) else tree) for leaf in _leaves(each)]
    return [tree]


def _ratio(timings: dict[str, Timing], name: str) -> float:
    return timings[name].median / timings["f(y)"].median


def _jax(example: Example, x: NDArray[np.float64]) -> Callable[[], Any]:
    jax = jax_batch.load()
    compiled = jax.jit(jax.jacfwd(jax_batch.function(example)))
    point = jax.device_put(x)
    return lambda: compiled(point).block_until_ready()
