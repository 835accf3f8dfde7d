"""How a random program is compiled and called: drawn over the public interface, and the results as plain matrices.

Drawn are the options, the way to the program (a derivative, a copy of one, a gradient, a trace with a plan of its own),
how arguments lie in memory, which of them are the same at all points of a batch, and on which axis the others have
their points; whether they are given by keyword, and results written into arrays of the caller.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from arrays import Arrays, leaves, scope
from scalars import Scalars

import accumulus as acc

METHODS: Final = tuple(acc.methods())
TARGETS: Final = ("numpy", "llvm")
#: What a program is called through; each with how often.
Route = Literal["derivative", "copy", "trace"]
ROUTES: Final[dict[Route, int]] = {"derivative": 80, "copy": 8, "trace": 12}


@dataclass(frozen=True)
class Call:
    """How a program is compiled and called.

    Attributes:
        wanted: name of the function of the library; a gradient where that is the Jacobian of one number.
        argnums: as given; `positions` as a tuple.
        options: of that function.
        points: how often the two points are repeated in the batch.
        layouts: of each argument, see `LAYOUTS`.
        axes: of each argument the axis of its points, None where it is the same at all of them; or "auto".
        keywords: whether arguments are given by keyword.
        out: whether a batch is written into given arrays, too, and `nonzeros` asked for.
    """

    wanted: str
    argnums: int | tuple[int, ...]
    options: Mapping[str, Any]
    points: int
    transposed: bool
    threads: int
    layouts: tuple[str, ...]
    axes: tuple[int | None, ...] | Literal["auto"] = "auto"
    route: Route = "derivative"
    keywords: bool = False
    out: bool = False

    @property
    def positions(self) -> tuple[int, ...]:
        """Of the arguments to differentiate by, counted from the first."""
        given = (self.argnums,) if isinstance(self.argnums, int) else self.argnums
        return tuple(k % len(self.layouts) for k in given)

    @property
    def shared(self) -> tuple[int, ...]:
        """Positions of the arguments that are the same at all points."""
        return () if self.axes == "auto" else tuple(k for k, axis in enumerate(self.axes) if axis is None)

    def __str__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        further = ["keywords" * self.keywords, "out" * self.out]
        return (
            f"acc.{self.wanted}(f, {self.argnums}{options}); {self.points} points, transposed={self.transposed}, "
            f"in_axes={self.axes}, threads={self.threads}, {', '.join(self.layouts)}; "
            + ", ".join(filter(None, [self.route, *further]))
        )


@dataclass(frozen=True)
class Results:
    """Of one point: values (outputs,) or None, and slopes (outputs, inputs) by the chosen arguments side by side."""

    values: np.ndarray[Any, Any] | None
    slopes: np.ndarray[Any, Any]


def function(program: Scalars | Arrays) -> Callable[..., Any]:
    """The function that the text defines."""
    names = dict(scope())
    exec(compile(program.source, "<random program>", "exec"), names)
    return names["f"]  # type: ignore[no-any-return]


def own(argument: Any) -> Any:
    """A copy; numbers as NumPy's, which do not raise where IEEE arithmetic gives NaN."""
    return np.copy(argument)[()]


# Drawing ---------------------------------------------------------------------------------------------------------


def random_call(program: Scalars | Arrays, rng: random.Random) -> Call:
    """Options and a way to call the program."""
    scalars = isinstance(program, Scalars)
    options: dict[str, Any] = {
        "target": rng.choice(TARGETS),
        "method": "auto" if rng.random() < 0.6 else rng.choice(METHODS),
        "effort": rng.choices(("fast", "balanced", "thorough"), (80, 17, 3))[0],
        "time_limit": rng.choice((0.0, 0.0, 0.01, 0.02)),
        "objective": rng.choices(("operations", "multiplications", "fma"), (90, 5, 5))[0],
        "sparse": rng.choice((None, None, None, "csr", "csc", "coo", True)),
        "dtype": "float32" if scalars and rng.random() < 0.1 else "float64",
        "optimise": rng.choice((None, None, True, False)),
        "exact_order": rng.random() < 0.2,
        "check_finite": False,
        "seed": rng.randrange(100),
        "cache": False,
    }
    numbers = len(program.shapes)
    argnums: int | tuple[int, ...] = rng.randrange(numbers)
    if rng.random() < 0.4:
        argnums = tuple(rng.sample(range(numbers), rng.randint(1, numbers)))
    if rng.random() < 0.2:
        argnums = argnums - numbers if isinstance(argnums, int) else tuple(k - numbers for k in argnums)
    wanted = rng.choice(("jacobian", "value_and_jacobian", "value_and_jacobian"))
    route = rng.choices(list(ROUTES), list(ROUTES.values()))[0]
    if route == "trace" and not isinstance(argnums, int) and len(argnums) == 1:
        (argnums,) = argnums  # which a program of a trace takes for the same
    plain = rng.random() < 0.5
    layouts = tuple("C" if plain else rng.choice(list(LAYOUTS)) for _ in program.shapes)
    return Call(
        wanted,
        argnums,
        options,
        rng.choice((1, 2, 5, 33)),
        rng.random() < 0.25,
        rng.choice((1, 1, 2)),
        layouts,
        _axes(program, rng) if rng.random() < 0.5 else "auto",
        route,
        keywords=route != "trace" and rng.random() < 0.1,
        out=rng.random() < 0.15,
    )


def _axes(program: Scalars | Arrays, rng: random.Random) -> tuple[int | None, ...]:
    axes = [None if rng.random() < 0.4 else rng.randint(-len(shape) - 1, len(shape)) for shape in program.shapes]
    if all(axis is None for axis in axes):
        k = rng.randrange(len(axes))
        axes[k] = rng.randint(0, len(program.shapes[k]))
    return tuple(axes)


# How arguments lie in memory -------------------------------------------------------------------------------------


def _between(array: Any) -> Any:
    """Every other entry of an array of NaN, along all axes."""
    wide = np.full([2 * length + 1 for length in array.shape], np.nan, array.dtype)
    view = wide[(slice(1, None, 2),) * array.ndim]
    view[...] = array
    return view


def _backwards(array: Any) -> Any:
    reverse = (slice(None, None, -1),) * array.ndim
    return array[reverse].copy()[reverse]


def _unaligned(array: Any) -> Any:
    memory = np.empty(array.nbytes + 1, np.uint8)[1:]
    view = memory.view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def _read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


def _rotated(array: Any) -> Any:
    """Contiguous with the first axis as the innermost."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0)


def _whole(array: Any) -> Any:
    """As integers, where that is what the entries are."""
    whole = np.isfinite(array) & (array == np.trunc(array)) & ~np.signbit(array)
    return array.astype(np.int64) if whole.all() else array


#: The same numbers in other places.
LAYOUTS: Final[dict[str, Callable[[Any], Any]]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "rotated": _rotated,
    "between": _between,
    "backwards": _backwards,
    "unaligned": _unaligned,
    "swapped bytes": lambda array: array.astype(array.dtype.newbyteorder()),
    "read only": _read_only,
    "whole": _whole,
}


def _laid_out(argument: Any, layout: str) -> Any:
    return LAYOUTS[layout](argument) if np.ndim(argument) else argument


# Calling ---------------------------------------------------------------------------------------------------------


class Disagreement(Exception):
    """Two ways that should give the same gave different results."""


def prepared(program: Scalars | Arrays, call: Call, point: Sequence[Any]) -> Any:
    """A derivative that is compiled for arguments like a point's, or a program of a trace."""
    f = function(program)
    derivative = _prepared(f, call, f(*map(own, point)), point)
    if call.route != "trace":
        given = dict(zip(program.parameters, point, strict=True)) if call.keywords else {}
        derivative.compile(*([] if given else point), **given)
    return derivative


def called(
    program: Scalars | Arrays, call: Call, points: Sequence[Sequence[Any]], derivative: Any = None
) -> tuple[list[list[Results]], Any]:
    """Results of the first and of the second point: alone, then from each of their places in a batch; and of what.

    Raises:
        Disagreement: if arguments that lie otherwise in memory, `out` or `nonzeros` give something else.
    """
    f = function(program)
    template = f(*map(own, points[0]))
    derivative = _prepared(f, call, template, points[0]) if derivative is None else derivative
    found = []
    for point in points:
        (result,) = matrices(_at(derivative, program, call, point), call, template, None)
        laid = [_laid_out(argument, layout) for argument, layout in zip(point, call.layouts, strict=True)]
        (again,) = matrices(_at(derivative, program, call, laid), call, template, None)
        _demand_same(result, again, "arguments that lie otherwise")
        found.append([result])
        if call.out and call.options["sparse"] and call.route != "trace":
            _check_nonzeros(derivative, call, point)
    if call.route == "copy":
        derivative = copy.deepcopy(derivative)
    batch, axes = _batch(call, points)
    options: dict[str, Any] = {"transposed": call.transposed, "threads": call.threads, "in_axes": axes}
    if call.keywords:
        options |= dict(zip(program.parameters, batch, strict=True))
        batch = []
    result = derivative.batch(*batch, **options)
    batched = matrices(result, call, template, 2 * call.points)
    if call.out and not call.options["sparse"]:
        given = [np.full(array.shape, -7.0, array.dtype) for array in _arrays(result)]
        derivative.batch(*batch, **options, out=given[0] if len(given) == 1 else given)
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(given, _arrays(result), strict=True)):
            raise Disagreement("out= holds something else than is returned without")
    for k, each in enumerate(batched):
        found[k % 2].append(each)
    return found, derivative


def on_target(call: Call, target: str) -> Call:
    """The same call for another target."""
    return replace(call, options={**call.options, "target": target})


def _prepared(f: Callable[..., Any], call: Call, template: Any, point: Sequence[Any]) -> Any:
    """What is called: a derivative, or a program of a trace."""
    if call.route != "trace":
        number = not isinstance(template, (dict, tuple, list)) and not np.ndim(template)
        maker = "gradient" if number and call.wanted == "jacobian" else call.wanted
        return getattr(acc, maker)(f, call.argnums, **call.options)
    planned = {name: call.options[name] for name in ("method", "objective", "time_limit", "effort", "seed", "cache")}
    further = {name: call.options[name] for name in ("dtype", "optimise", "exact_order", "check_finite", "cache")}
    sparse = call.options["sparse"]
    recorded = acc.trace(f, *map(own, point))
    plan = acc.plan(recorded.linearize(call.argnums), **planned)
    output = "csr" if sparse is True else sparse or "dense"
    values = call.wanted == "value_and_jacobian"
    return recorded.compile(plan, call.options["target"], output, values=values, **further)


def _at(derivative: Any, program: Scalars | Arrays, call: Call, point: Sequence[Any]) -> Any:
    if call.keywords:
        return derivative(**dict(zip(program.parameters, point, strict=True)))
    return derivative(*point)


def _batch(call: Call, points: Sequence[Sequence[Any]]) -> tuple[list[Any], Any]:
    """Arguments of the batch, the first point and the second in turn; and `in_axes`."""
    batch = []
    for k, layout in enumerate(call.layouts):
        axis = (-1 if call.transposed else 0) if call.axes == "auto" else call.axes[k]
        entries = [np.asarray(point[k], float) for point in points] * call.points
        array = entries[0] if axis is None else np.stack(entries, axis)
        if call.options["dtype"] == "float32":
            array = array.astype(np.float32)
        batch.append(_laid_out(array, layout) if np.ndim(array) else array[()])
    return batch, call.axes


def _demand_same(one: Results, other: Results, what: str) -> None:
    for name in ("values", "slopes"):
        a, b = getattr(one, name), getattr(other, name)
        if a is not None and not np.array_equal(a, b, equal_nan=True):
            raise Disagreement(f"{what}: {name} {a} and {b}")


def _check_nonzeros(derivative: Any, call: Call, point: Sequence[Any]) -> None:
    """`nonzeros` are what the matrices hold."""
    _, jacobian = _parted(derivative(*point), call)
    _, nonzeros = _parted(derivative.nonzeros(*point), call)
    held = [np.asarray(getattr(block, "data", block)) for block in _arrays(jacobian)]
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(held, _arrays(nonzeros), strict=True)):
        raise Disagreement(f"nonzeros: {nonzeros} and {held}")


def _arrays(tree: Any) -> list[Any]:
    """What a structured result consists of, in order."""
    if isinstance(tree, dict):
        return [array for key in tree for array in _arrays(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [array for each in tree for array in _arrays(each)]
    return [tree]


def _parted(result: Any, call: Call) -> tuple[Any, Any]:
    return result if call.wanted == "value_and_jacobian" else (None, result)


def matrices(result: Any, call: Call, template: Any, points: int | None) -> list[Results]:
    """What a call returned, point by point; `template` is what the function itself returns."""
    value, jacobian = _parted(result, call)
    single = isinstance(call.argnums, int)
    rows = _rows(jacobian, template, single, points, call.transposed)
    if value is None:
        return [Results(None, row) for row in rows]
    parts = [_lead(leaf, points, call.transposed) for leaf in leaves(value)]
    values = np.concatenate(parts or [np.empty((points or 1, 0))], axis=1)
    return [Results(each, row) for each, row in zip(values, rows, strict=True)]


def _rows(jacobian: Any, template: Any, single: bool, points: int | None, transposed: bool) -> np.ndarray[Any, Any]:
    """(points, outputs, inputs) of a structured Jacobian; `template` is what the function itself returns."""
    if isinstance(template, dict):
        parts = [_rows(jacobian[key], template[key], single, points, transposed) for key in template]
    elif isinstance(template, (tuple, list)):
        pairs = zip(jacobian, template, strict=True)
        parts = [_rows(each, of, single, points, transposed) for each, of in pairs]
    else:
        size = np.size(template)
        blocks = []
        for block in (jacobian,) if single else jacobian:
            sparse = hasattr(block, "toarray")
            dense = block.toarray() if sparse else block
            moved = dense if sparse else _points_first(dense, points, transposed)
            blocks.append(np.reshape(moved, (points or 1, size, -1) if size else (points or 1, 0, 0)))
        if not size:
            blocks = [np.empty((points or 1, 0, 0))]
        return np.concatenate(blocks, axis=2)
    width = max((part.shape[2] for part in parts), default=0)
    kept = [part for part in parts if part.shape[1]]
    return np.concatenate(kept, axis=1) if kept else np.empty((points or 1, 0, width))


def _points_first(array: Any, points: int | None, transposed: bool) -> Any:
    return np.moveaxis(array, -1, 0) if transposed and points is not None else array


def _lead(leaf: np.ndarray[Any, Any], points: int | None, transposed: bool) -> np.ndarray[Any, Any]:
    if points is None:
        return leaf.reshape(1, -1)
    return np.reshape(_points_first(leaf, points, transposed), (points, -1))
