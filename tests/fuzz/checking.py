"""One random program from a seed: drawn, compiled with drawn options, called in drawn ways, held against the truth."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from arrays import Arrays, along, flat, leaves, random_arrays, scope
from exact import mp, mpf
from scalars import EXACT_POINTS, ORDINARY, Scalars, Truth, Undecided, random_scalars, truth

import accumulus as acc
from accumulus.errors import RewritingWarning

#: "undecided": the oracle cannot tell; "inaccurate": more than rounding explains, and less than a mistake would show.
Kind = Literal["right", "undecided", "inaccurate", "wrong", "crash"]

METHODS: Final = tuple(acc.methods())
SCALARS: Final = 0.7
SAMPLES: Final = 4
MORE_SAMPLES: Final = 100
#: Times how far rounding moves a result that it may be away, and from where on that is no matter of rounding.
ALLOWED: Final = 40.0
MISTAKEN: Final = 1e5
#: From this fraction of a result on, what rounding may do to it may make it infinite.
LOST: Final = 1e-3
TINY: Final = {"float64": 1e-290, "float32": 1e-36}
#: Operations whose results are those of NumPy bit for bit where the order is kept.
BIT_BY_BIT: Final = frozenset(
    (
        "add",
        "subtract",
        "multiply",
        "divide",
        "negative",
        "sqrt",
        "square",
        "reciprocal",
        "abs",
        "sign",
        "floor",
        "ceil",
    )
) | frozenset(
    (
        "trunc",
        "rint",
        "fmod",
        "remainder",
        "floor_divide",
        "minimum",
        "maximum",
        "less",
        "less_equal",
        "equal",
        "not_equal",
        "select",
    )
)


@dataclass(frozen=True)
class Outcome:
    """What came of one program."""

    seed: int
    kind: Kind
    remark: str = ""
    source: str = ""


@dataclass(frozen=True)
class Call:
    """How a program is compiled and called.

    Attributes:
        wanted: name of the function of the library.
        argnums: as given; `positions` as a tuple.
        options: of that function.
        points: how often the two points are repeated in the batch.
    """

    wanted: str
    argnums: int | tuple[int, ...]
    options: Mapping[str, Any]
    points: int
    transposed: bool
    threads: int

    @property
    def positions(self) -> tuple[int, ...]:
        """Of the arguments to differentiate by."""
        return (self.argnums,) if isinstance(self.argnums, int) else self.argnums

    def __str__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"acc.{self.wanted}(f, {self.argnums}{options}); {self.points} points, transposed={self.transposed}"


def check(seed: int) -> Outcome:
    """Draw and check the program of a seed."""
    rng = random.Random(seed)
    program: Scalars | Arrays = random_scalars(rng) if rng.random() < SCALARS else random_arrays(rng)
    call = _draw_call(program, rng)
    points = [_point(program, call.options["dtype"], rng) for _ in range(2)]
    source = f"{program.source}# {call}\n# at {points}\n"
    try:
        checker = _check_scalars if isinstance(program, Scalars) else _check_arrays
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # not that time was short, nor that a program which is infinite everywhere cannot be compared
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", ".*This is a mistake", RewritingWarning)
            kind, remark = checker(program, call, points, seed)  # type: ignore[arg-type]
    except Undecided as why:
        kind, remark = "undecided", str(why)
    except Exception as error:
        kind, remark = "crash", f"{type(error).__name__}: {error}"
    return Outcome(seed, kind, remark, source)


def function(program: Scalars | Arrays) -> Callable[..., Any]:
    """The function that the text defines."""
    names = dict(scope())
    exec(compile(program.source, "<random program>", "exec"), names)
    return names["f"]  # type: ignore[no-any-return]


def _draw_call(program: Scalars | Arrays, rng: random.Random) -> Call:
    scalars = isinstance(program, Scalars)
    options: dict[str, Any] = {
        "target": "llvm" if rng.random() < 0.1 else "numpy",
        "method": "auto" if rng.random() < 0.6 else rng.choice(METHODS),
        "effort": rng.choices(("fast", "balanced", "thorough"), (80, 17, 3))[0],
        "time_limit": rng.choice((0.0, 0.01, 0.02)),
        "objective": rng.choices(("operations", "multiplications", "fma"), (90, 5, 5))[0],
        "sparse": rng.choice((None, None, "csr", "csc", "coo")),
        "dtype": "float32" if scalars and rng.random() < 0.1 else "float64",
        "optimise": rng.choice((None, None, True, False)),
        "exact_order": rng.random() < 0.2,
        "seed": rng.randrange(100),
        "cache": False,
    }
    numbers = len(program.shapes)
    argnums: int | tuple[int, ...] = rng.randrange(numbers)
    if rng.random() < 0.4:
        argnums = tuple(rng.sample(range(numbers), rng.randint(1, numbers)))
    wanted = rng.choice(("jacobian", "value_and_jacobian", "value_and_jacobian"))
    return Call(wanted, argnums, options, rng.choice((1, 2, 5, 33)), rng.random() < 0.25, rng.choice((1, 1, 2)))


def _point(program: Scalars | Arrays, dtype: str, rng: random.Random) -> list[Any]:
    exact = rng.random() < 0.4

    def number() -> float:
        if rng.random() < (0.9 if exact else 0.1):
            return rng.choice(EXACT_POINTS) if rng.random() < 0.7 else float(rng.randint(-500, 500))
        return float(np.dtype(dtype).type(rng.uniform(-ORDINARY, ORDINARY)))

    return [
        np.array([number() for _ in range(int(np.prod(shape)))]).reshape(shape) if shape else number()
        for shape in program.shapes
    ]


@dataclass(frozen=True)
class _Results:
    """Of one point: values (outputs,) or None, and slopes (outputs, inputs) by the chosen arguments side by side."""

    values: np.ndarray[Any, Any] | None
    slopes: np.ndarray[Any, Any]


def _called(program: Scalars | Arrays, call: Call, points: Sequence[Sequence[Any]]) -> list[list[_Results]]:
    """Results of the first and of the second point: alone, then from each of their places in a batch."""
    f = function(program)
    derivative = getattr(acc, call.wanted)(f, call.argnums, **call.options)
    template = f(*map(_own, points[0]))
    found = [[_results(derivative(*point), call, template, None)[0]] for point in points]
    axis = -1 if call.transposed else 0
    batch = [
        np.stack([np.asarray(point[k], float) for point in points] * call.points, axis) for k in range(len(points[0]))
    ]
    if call.options["dtype"] == "float32":
        batch = [array.astype(np.float32) for array in batch]
    options: dict[str, Any] = {"transposed": call.transposed, "threads": call.threads}
    batched = _results(derivative.batch(*batch, **options), call, template, 2 * call.points)
    for k, result in enumerate(batched):
        found[k % 2].append(result)
    return found


def _own(argument: Any) -> Any:
    """A copy; numbers as NumPy's, which do not raise where IEEE arithmetic gives NaN."""
    return np.copy(argument)[()]


def _results(result: Any, call: Call, template: Any, points: int | None) -> list[_Results]:
    value, jacobian = result if call.wanted == "value_and_jacobian" else (None, result)
    single = isinstance(call.argnums, int)
    rows = _rows(jacobian, template, single, points, call.transposed)
    if value is None:
        return [_Results(None, row) for row in rows]
    parts = [_lead(leaf, points, call.transposed) for leaf in leaves(value)]
    values = np.concatenate(parts or [np.empty((points or 1, 0))], axis=1)
    return [_Results(each, row) for each, row in zip(values, rows, strict=True)]


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


def _same_everywhere(results: Sequence[_Results]) -> str | None:
    """Points of a batch are computed alike, wherever they are in it."""
    for name in ("values", "slopes"):
        arrays = [getattr(result, name) for result in results[1:]]
        if arrays[0] is not None and any(not np.array_equal(arrays[0], other, equal_nan=True) for other in arrays[1:]):
            return f"{name} of one point differ within a batch"
    return None


def _check_scalars(program: Scalars, call: Call, points: Sequence[Sequence[Any]], seed: int) -> tuple[Kind, str]:
    dtype, exact_order = call.options["dtype"], call.options["exact_order"]
    starts = np.cumsum([0, *(int(np.prod(shape)) for shape in program.shapes)])
    columns = [column for k in call.positions for column in range(starts[k], starts[k + 1])]
    options: dict[str, Any] = {"exact_order": exact_order, "dtype": dtype, "seed": seed}
    numbers = [[float(x) for a in point for x in np.ravel(a)] for point in points]
    truths: list[Truth | None] = []
    for point in numbers:
        try:
            truths.append(truth(program, point, samples=SAMPLES, **options))
        except Undecided:
            truths.append(None)
    found = _called(program, call, points)
    decided = False
    for results, wanted, point, given in zip(found, truths, numbers, points, strict=True):
        if remark := _same_everywhere(results):
            return "wrong", remark
        if exact_order and dtype == "float64" and all(name in BIT_BY_BIT for name, _ in program.steps):
            expected = flat(function(program)(*map(_own, given)))
            if results[0].values is not None and not np.array_equal(results[0].values, expected, equal_nan=True):
                return "wrong", f"exact_order: {results[0].values} instead of {expected}"
        if wanted is None:
            continue
        for result in results[:2]:
            excess, remark, clear = _excess(result, wanted, columns, dtype)
            decided |= clear
            if excess > 1.0:
                again = truth(program, point, samples=MORE_SAMPLES, **options)
                excess, remark, _ = _excess(result, again, columns, dtype)
            if excess > 1.0:
                return ("wrong" if excess > MISTAKEN else "inaccurate"), remark
    return ("right", "") if decided else ("undecided", "at both points")


def _excess(result: _Results, wanted: Truth, columns: Sequence[int], dtype: str) -> tuple[float, str, bool]:
    """How many times as far off as allowed the worst number is, what it is, and whether anything could be told.

    What is not finite is as far off as can be.
    """
    half = float(np.finfo(dtype).eps) / 2
    worst, remark, clear = 0.0, "", False
    for row, (value, slopes) in enumerate(zip(wanted.values, wanted.slopes, strict=True)):
        pairs = [] if result.values is None else [("value", result.values[row], value, wanted.spread[row, 0])]
        pairs += [
            (f"slope by input {j}", result.slopes[row, place], slopes[j], wanted.spread[row, 1 + j])
            for place, j in enumerate(columns)
        ]
        for name, got, want, spread in pairs:
            if not (mp.isfinite(want) and np.isfinite(spread)):
                continue
            clear |= bool(want != 0 and spread < LOST * abs(want))
            allowed = ALLOWED * (spread + half * float(abs(want))) + TINY[dtype]
            if not np.isfinite(got) and allowed > LOST * abs(want):
                continue  # a sum of which rounding leaves nothing, that something is divided by, say
            error = float(abs(mpf(float(got)) - want)) if np.isfinite(got) else np.inf
            if error / allowed > worst:
                worst = error / allowed
                remark = f"output {row}, {name}: {got!r} instead of {mp.nstr(want, 17)}, {worst:.1e} × allowed"
    return worst, remark, clear


def _check_arrays(program: Arrays, call: Call, points: Sequence[Sequence[Any]], seed: int) -> tuple[Kind, str]:
    f = function(program)
    try:
        expected = [flat(f(*map(_own, point))) for point in points]
    except (ValueError, np.linalg.LinAlgError, TypeError, IndexError) as error:
        raise Undecided(f"NumPy: {error}") from error
    found = _called(program, call, points)
    draw = np.random.default_rng(seed)
    decided = False
    for results, values, point in zip(found, expected, points, strict=True):
        if remark := _same_everywhere(results):
            return "wrong", remark
        directions = [
            draw.normal(size=np.shape(a)) if k in call.positions else 0.0 * np.asarray(a) for k, a in enumerate(point)
        ]
        slopes, error = along(f, point, directions)
        moved = [flat(f(*(a * (1 + 1e-15 * draw.normal(size=np.shape(a))) for a in point))) for _ in range(3)]
        rounding = 1e3 * np.max([np.abs(each - values) for each in moved], axis=0) + 1e-10 * (1 + np.abs(values))
        direction = np.concatenate([np.ravel(directions[k]) for k in call.positions])
        for result in results[:2]:
            checks = [("derivative", result.slopes @ direction, slopes, 100 * error + 1e-7 * (1 + np.abs(slopes)))]
            if result.values is not None:
                checks.append(("value", result.values, values, rounding))
            for name, got, want, allowed in checks:
                clear = np.isfinite(want) & np.isfinite(allowed) & np.isfinite(values)
                decided |= bool(clear.any())
                off = clear & ~(np.abs(got - want) <= allowed)
                if off.any():
                    k = int(np.argmax(off))
                    return "wrong", f"{name} {k}: {got[k]!r} instead of {want[k]!r} ± {allowed[k]:.1e}"
    return ("right", "") if decided else ("undecided", "not smooth, or not finite")
