"""Random programs in every kind of derivative: held against 50 digits or differences, and written, saved, loaded.

Where `checking` draws ways to call Jacobians, this draws the kind: products with directions and weights, Hessians,
Taylor coefficients, linear operators, chosen entries, derivatives of derivatives. The truth of a program of scalars is
its run in 50 digits (`scalars`), of which first derivatives are exact, and second ones and coefficients differences
with steps of 10⁻¹²; that of one of arrays are extrapolated differences, of second order of its compiled gradient.
Then the same program in another way: in a batch, from a file, and from its source for NumPy and JAX.
"""

from __future__ import annotations

import random
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from arrays import Arrays, flat, random_arrays
from calls import Disagreement, function, own, random_call
from checking import LOOPS, Outcome, random_point
from forms import OTHERS
from looped import unrolled
from rolling import rolling
from scalars import Scalars, Undecided, random_scalars
from truths import Differences, Exact, Floats, Oracle, total
from with_jax import MISSING, Unavailable
from with_jax import hessian as hessian_by_jax

import accumulus as acc
from accumulus.errors import ArgumentError, CompileError, MismatchError, RewritingWarning

SCALARS: Final = 0.7
#: Of the options of a call, those that every kind takes.
OPTIONS: Final = ("method", "effort", "time_limit", "objective", "dtype", "optimise", "exact_order", "seed", "cache")
TARGETS: Final = {"numpy": 70, "llvm": 22, "c": 8}
WAYS: Final = {"alone": 40, "batch": 25, "file": 15, "numpy": 10, "jax": 10}
#: Times how far rounding moves a result that it may be off, times the unit in the last place of the largest beside it,
#: and from which part of the latter on a result is not told.
ALLOWED: Final = 400.0
UNITS: Final = 4000.0
LOST: Final = 1e-2
ORDER: Final = 3
LARGE: Final = 1e15
#: XLA takes minutes and gigabytes for programs of many operations.
LONG: Final = 300


# The kinds -------------------------------------------------------------------------------------------------------

#: Name of a result, what was found, and what it should be with how far it may be off.
Claims = list[tuple[str, Floats, tuple[Floats, Floats]]]


@dataclass
class Posed:
    """A derivative, what it is called with, and what its results should be."""

    derivative: Any
    arguments: tuple[Any, ...]
    claims: Callable[[Any], Claims]


@dataclass
class Drawn:
    """A program, a point, and all that a kind is posed with."""

    program: Scalars | Arrays
    point: list[Any]
    options: dict[str, Any]
    rng: random.Random
    seed: int

    @cached_property
    def f(self) -> Callable[..., Any]:
        """The function."""
        return function(self.program)

    @cached_property
    def all(self) -> tuple[int, ...]:
        """Positions of all arguments."""
        return tuple(range(len(self.program.shapes)))

    @cached_property
    def oracle(self) -> Oracle:
        """The truth at the point."""
        if isinstance(self.program, Scalars):
            return Exact(self.program, self.point, self.options["dtype"], self.seed)
        return Differences(self.program, self.point)

    def direction(self, *leading: int) -> Floats:
        """A direction in all inputs, or several."""
        draw = np.random.default_rng(self.seed)
        return draw.choice([-1.0, 0.0, 0.5, 1.0, 2.0], (*leading, self.oracle.inputs))

    def tree(self, x: Floats) -> tuple[Any, ...]:
        """Of inputs side by side, with axes in front, what has the structure of the arguments."""
        lead = x.shape[:-1]
        ends = np.cumsum([int(np.prod(shape)) for shape in self.program.shapes])
        parts = np.split(x, ends[:-1], axis=-1)
        return tuple(part.reshape(lead + shape)[()] for part, shape in zip(parts, self.program.shapes, strict=True))


def times(pair: tuple[Floats, Floats], factor: Floats) -> tuple[Floats, Floats]:
    """The product of a matrix that may be off with one that is not."""
    want, off = pair
    return want @ factor, off @ np.abs(factor)


def turned(pair: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    return pair[0].T, pair[1].T


def blocks(tree: Any, shapes: Sequence[tuple[int, ...]]) -> Floats:
    """The matrix of a Hessian's blocks."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    return np.block(
        [[np.reshape(b, (m, n)) for b, n in zip(row, sizes, strict=True)] for row, m in zip(tree, sizes, strict=True)]
    )


def compiled(drawn: Drawn) -> Posed:
    return Posed(
        acc.compile(drawn.f, **drawn.options),
        tuple(drawn.point),
        lambda result: [("value", flat(result), drawn.oracle.value())],
    )


def jvp(drawn: Drawn) -> Posed:
    lead = drawn.rng.choice([(), (), (2,)])
    v = drawn.direction(*lead)
    left_out = drawn.rng.choice(drawn.all) if len(drawn.all) > 1 and drawn.rng.random() < 0.3 else None
    tangents = [None if k == left_out else each for k, each in enumerate(drawn.tree(v))]
    if left_out is not None:
        v = np.concatenate(
            [
                np.reshape(np.zeros(lead + s) if t is None else t, (*lead, -1))
                for s, t in zip(drawn.program.shapes, tangents, strict=True)
            ],
            axis=-1,
        )

    def claims(result: Any) -> Claims:
        value, tangent = result
        several = np.concatenate(
            [np.reshape(leaf, (*lead, -1)) for leaf in leaves_of(tangent)] or [np.empty((*lead, 0))], axis=-1
        )
        return [
            ("value", flat(value), drawn.oracle.value()),
            ("tangent", several.T, times(drawn.oracle.jacobian(), v.T)),
        ]

    return Posed(acc.jvp(drawn.f, **drawn.options), (tuple(drawn.point), tuple(tangents)), claims)


def leaves_of(tree: Any) -> list[Floats]:
    if isinstance(tree, dict):
        return [leaf for each in tree.values() for leaf in leaves_of(each)]
    if isinstance(tree, (tuple, list)):
        return [leaf for each in tree for leaf in leaves_of(each)]
    return [np.asarray(tree, float)]


def filled(tree: Any, numbers: list[float]) -> Any:
    """The structure of a result with other numbers; tuples stand for lists, which would be arrays."""
    if isinstance(tree, dict):
        return {key: filled(each, numbers) for key, each in tree.items()}
    if isinstance(tree, (tuple, list)):
        parts = [filled(each, numbers) for each in tree]
        return _like(tree if hasattr(tree, "_make") else (), parts)
    shape = np.shape(tree)
    return np.array([numbers.pop(0) for _ in range(int(np.prod(shape)))]).reshape(shape)[()]


def _like(tree: Any, parts: list[Any]) -> Any:
    """A list, a tuple, or a named tuple of other parts."""
    return tree._make(parts) if hasattr(tree, "_make") else type(tree)(parts)


def vjp(drawn: Drawn) -> Posed:
    w = np.random.default_rng(drawn.seed).choice([-1.0, 0.0, 0.5, 2.0], drawn.oracle.outputs)
    cotangents = filled(drawn.f(*map(own, drawn.point)), w.tolist())

    def claims(result: Any) -> Claims:
        value, products = result
        return [
            ("value", flat(value), drawn.oracle.value()),
            ("product", flat(products), times(turned(drawn.oracle.jacobian()), w)),
        ]

    return Posed(acc.vjp(drawn.f, **drawn.options), (tuple(drawn.point), cotangents), claims)


def hvp(drawn: Drawn) -> Posed:
    v = drawn.direction()
    return Posed(
        acc.hvp(total(drawn.f), **drawn.options),
        (tuple(drawn.point), drawn.tree(v)),
        lambda result: [("H·v", flat(result), times(drawn.oracle.hessian(), v))],
    )


def hessian(drawn: Drawn) -> Posed:
    maker: Any = drawn.rng.choice(
        [acc.hessian, lambda f, argnums, **options: acc.jacobian(acc.gradient(f, argnums), argnums, **options)]
    )
    return Posed(
        maker(total(drawn.f), drawn.all, **drawn.options),
        tuple(drawn.point),
        lambda result: [("H", blocks(result, drawn.program.shapes), drawn.oracle.hessian())],
    )


def value_gradient_hessian(drawn: Drawn) -> Posed:
    def claims(result: Any) -> Claims:
        value, gradient, curvature = result
        all_values, slopes = drawn.oracle.value(), drawn.oracle.jacobian()
        return [
            ("value", np.ravel(value), (all_values[0].sum(keepdims=True), all_values[1].sum(keepdims=True))),
            ("gradient", flat(gradient), (slopes[0].sum(axis=0), slopes[1].sum(axis=0))),
            ("H", blocks(curvature, drawn.program.shapes), drawn.oracle.hessian()),
        ]

    return Posed(acc.value_gradient_hessian(total(drawn.f), drawn.all, **drawn.options), tuple(drawn.point), claims)


def taylor(drawn: Drawn) -> Posed:
    order = drawn.rng.randint(1, ORDER if isinstance(drawn.program, Scalars) else 2)
    series = drawn.direction(order)

    def claims(result: Any) -> Claims:
        value, coefficients = result
        parts = [np.reshape(leaf, (order, -1)) for leaf in leaves_of(coefficients)]
        found = np.concatenate(parts or [np.empty((order, 0))], axis=1)
        pair = drawn.oracle.taylor(series)
        return [("value", flat(value), drawn.oracle.value())] + [
            (f"coefficient {k + 1}", found[k], (pair[0][k], pair[1][k])) for k in range(order)
        ]

    return Posed(acc.taylor(drawn.f, **drawn.options), (tuple(drawn.point), drawn.tree(series)), claims)


def linear_operator(drawn: Drawn) -> Posed:
    def claims(operator: Any) -> Claims:
        slopes = drawn.oracle.jacobian()
        if not np.isfinite(slopes).all():
            raise Undecided("products with what is not finite")
        return [
            ("value", flat(operator.value), drawn.oracle.value()),
            ("A", operator.matmat(np.eye(drawn.oracle.inputs)), slopes),
            ("Aᵀ", operator.rmatmat(np.eye(drawn.oracle.outputs)), turned(slopes)),
        ]

    return Posed(acc.linear_operator(drawn.f, drawn.all, **drawn.options), tuple(drawn.point), claims)


def chosen(drawn: Drawn) -> Posed:
    """Rows, columns or entries of a Jacobian or a Hessian, dense or sparse."""
    second = drawn.rng.random() < 0.4
    f, maker = (total(drawn.f), acc.hessian) if second else (drawn.f, acc.jacobian)
    m, n = (drawn.oracle.inputs if second else drawn.oracle.outputs), drawn.oracle.inputs
    sparse = drawn.rng.choice([None, None, "csr", "coo"])
    draw = np.random.default_rng(drawn.seed)
    rows, columns = (draw.integers(0, k, draw.integers(1, k + 1)) if k else np.empty(0, int) for k in (m, n))
    rows, columns = draw.permutation(np.unique(rows)), draw.permutation(np.unique(columns))
    asked: dict[str, Any] = {"rows": rows, "columns": columns}
    entries = drawn.rng.random() < 0.4 and m > 0
    if entries:
        pairs = draw.choice(m * n, draw.integers(1, min(m * n, 12) + 1), replace=False)
        rows, columns = pairs // n, pairs % n
        asked = {"entries": (rows, columns)}
    elif drawn.rng.random() < 0.5:
        left_out = drawn.rng.choice(["rows", "columns"])
        del asked[left_out]
        rows, columns = (np.arange(m), columns) if left_out == "rows" else (rows, np.arange(n))

    def claims(result: Any) -> Claims:
        want, off = drawn.oracle.hessian() if second else drawn.oracle.jacobian()
        place = (rows, columns) if entries else np.ix_(rows, columns)
        found = result
        if hasattr(result, "toarray"):
            found = result.toarray()[place] if entries else result.toarray()
        return [("chosen", found, (want[place], off[place]))]

    return Posed(maker(f, drawn.all, **asked, sparse=sparse, **drawn.options), tuple(drawn.point), claims)


def gradient_of_product(drawn: Drawn) -> Posed:
    """A derivative within a function: the gradient of v·∇f, by `jvp` of it or `vjp` in it."""
    v = drawn.tree(drawn.direction())
    inner = acc.jvp(total(drawn.f)) if drawn.rng.random() < 0.5 else None
    gradient = acc.gradient(total(drawn.f), drawn.all)

    def slope(*arguments: Any) -> Any:
        if inner is not None:
            return inner(arguments, v)[1]
        return sum(np.sum(a * b) for a, b in zip(gradient(*arguments), v, strict=True))

    flat_v = flat(v)
    return Posed(
        acc.gradient(slope, drawn.all, **drawn.options),
        tuple(drawn.point),
        lambda result: [("∇(v·∇f)", flat(result), times(drawn.oracle.hessian(), flat_v))],
    )


KINDS: Final[dict[str, Callable[[Drawn], Posed]]] = {
    each.__name__: each
    for each in (
        compiled,
        jvp,
        vjp,
        hvp,
        hessian,
        value_gradient_hessian,
        taylor,
        linear_operator,
        chosen,
        gradient_of_product,
    )
}


# Other ways to the same program -----------------------------------------------------------------------------------


def in_another_way(posed: Posed, way: str, result: Any, dtype: str, demanded: bool = False) -> None:
    """Hold what a derivative returned against a batch of it, a file of it, or its source.

    Raises:
        Disagreement: if they differ.
        CompileError: if `demanded`, where a language has no source for it.
    """
    if way == "alone" or not isinstance(posed.derivative, acc.Derivative):
        return
    if way == "batch":
        together = tuple(_stacked(each, 3) for each in posed.arguments)
        parts = posed.derivative.batch(*together)
        for one, several in zip(arrays_of(result), arrays_of(parts), strict=True):
            if hasattr(one, "toarray"):
                continue
            demand_close(np.broadcast_to(one, np.shape(several)), several, "batch", dtype)
        return
    if way == "file":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "f.accumulus")
            acc.save(posed.derivative, path)
            loaded = acc.load(path)
        for one, other in zip(arrays_of(result), arrays_of(loaded(*posed.arguments)), strict=True):
            if not np.array_equal(_numbers(one), _numbers(other), equal_nan=True):
                raise Disagreement(f"file: {one} and {other}")
        return
    if way == "jax" and MISSING is not None:
        return
    program = posed.derivative.compile(*posed.arguments)
    if way == "jax" and program.operations > LONG:
        return
    try:
        text = program.source(way)
    except CompileError:  # no loops, or no such function in that language
        if demanded:
            raise
        return
    names: dict[str, Any] = {}
    exec(compile(text, "<source>", "exec"), names)
    given = [np.asarray(leaf, dtype) for leaf in leaves_of(_without_none(posed.arguments))]
    if way == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        found = jax.jit(names["f"])(*given)
    else:
        found = names["f"](*given)
    own = arrays_of(result)
    for one, other in zip(own, found[: len(own)], strict=True):  # whether guards hold comes last
        demand_close(_numbers(one), np.asarray(other), f"source for {way}", dtype)


def _without_none(tree: Any) -> Any:
    if isinstance(tree, (tuple, list)):
        return [_without_none(each) for each in tree if each is not None]
    return {k: _without_none(each) for k, each in tree.items() if each is not None} if isinstance(tree, dict) else tree


def _stacked(tree: Any, count: int) -> Any:
    if isinstance(tree, dict):
        return {key: _stacked(each, count) for key, each in tree.items()}
    if isinstance(tree, (tuple, list)):
        return _like(tree, [_stacked(each, count) for each in tree])
    return None if tree is None else np.stack([np.asarray(tree, float)] * count)


def arrays_of(tree: Any) -> list[Any]:
    """The arrays of a structure, in order."""
    if isinstance(tree, dict):
        return [array for each in tree.values() for array in arrays_of(each)]
    if isinstance(tree, (tuple, list)):
        return [array for each in tree for array in arrays_of(each)]
    return [] if tree is None else [tree]


def _numbers(array: Any) -> Floats:
    return np.ravel(array.data if hasattr(array, "toarray") else array)


def demand_close(one: Floats, other: Floats, what: str, dtype: str) -> None:
    """Equal up to what other libraries' functions, fused products and their consequences do."""
    one, other = np.ravel(one), np.ravel(other)
    if one.shape != other.shape:
        raise Disagreement(f"{what}: shapes {one.shape} and {other.shape}")
    if what.endswith("jax") and np.abs(one).max(initial=0.0) > LARGE:
        return  # XLA's functions of large arguments are others
    finite = np.isfinite(one) & np.isfinite(other)
    limit = (1e-6 if dtype == "float64" else 1e-2) * (1 + np.abs(one[finite]).max(initial=0.0))
    if np.any(np.abs(one[finite] - other[finite]) > limit) or np.any(np.isfinite(one) != np.isfinite(other)):
        raise Disagreement(f"{what}: {one} and {other}")


# One program -----------------------------------------------------------------------------------------------------


def check_kind(seed: int, thorough: bool = False) -> Outcome:
    """Draw and check the program of a seed, in one kind, target and way; `thorough`, at the default limit or above."""
    rng = random.Random(seed)
    program: Scalars | Arrays = random_scalars(rng) if rng.random() < SCALARS else random_arrays(rng)
    call = random_call(program, rng)
    options = {name: call.options[name] for name in OPTIONS}
    options["target"] = rng.choices(list(TARGETS), list(TARGETS.values()))[0]
    if isinstance(program, Arrays):
        options["dtype"] = "float64"
    if thorough:
        options |= {"effort": "thorough", "time_limit": rng.choice((1.0, 1.0, 2.0)), "optimise": None}
    point = random_point(program, options["dtype"], rng)
    kind, way = rng.choice(list(KINDS)), rng.choices(list(WAYS), list(WAYS.values()))[0]
    loops = isinstance(program, Arrays) and rng.random() < LOOPS and ((0, 1), (10**9, 2))[seed // 4 % 2]
    rolls = rng.random() < 0.25
    drawn = Drawn(program, point, options, rng, seed)
    remarks = f"{kind}, {way}{', with loops' if loops else ''}{', rolled' if rolls else ''}"
    finite, cut_short, start = True, False, time.monotonic()
    source = f"{program.source}# {remarks}, {options}\n# at {point}\n"
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RewritingWarning)
            try:
                finite = bool(np.isfinite(flat(drawn.f(*map(own, point)))).all())
            except (ValueError, np.linalg.LinAlgError, TypeError, IndexError) as error:
                raise Undecided(f"NumPy: {error}") from error
            with unrolled(*loops) if loops else nullcontext(), rolling() if rolls else nullcontext():
                posed = KINDS[kind](drawn)
                result = posed.derivative(*posed.arguments)
                cut_short = thorough and _is_cut_short(posed.derivative, time.monotonic() - start, options)
                in_another_way(posed, way, result, options["dtype"])
            outcome, remark = judged(posed.claims(result), options["dtype"])
            if outcome == "wrong" and isinstance(program, Arrays) and (by_jax := _curvature_by_jax(drawn)) is not None:
                drawn.oracle.hessian = lambda: by_jax  # type: ignore[method-assign]
                outcome, remark = judged(posed.claims(result), options["dtype"])
    except Undecided as why:
        outcome, remark = "undecided", str(why)
    except Disagreement as why:
        outcome, remark = "wrong", str(why)
    except ArgumentError as error:  # an iteration has no second derivative
        outcome, remark = ("undecided" if "derivatives of its derivatives" in str(error) else "crash"), str(error)
    except MismatchError as error:  # where NaN are, a derivative and its recording may have different ones
        outcome, remark = ("crash" if finite else "undecided"), f"{type(error).__name__}: {error}"
    except Exception as error:
        outcome, remark = "crash", f"{type(error).__name__}: {error}"
    return Outcome(seed, outcome, f"{kind}: {remark}", source, cut_short=cut_short)  # type: ignore[arg-type]


def _curvature_by_jax(drawn: Drawn) -> tuple[Floats, Floats] | None:
    """Second derivatives as JAX has them, where they are others at this very point than differences show; else None.

    So it is where a mask decides at a tie, ``where=a > 0`` with a = x² at 0: what is written there is a constant.
    """
    if MISSING is not None:
        return None
    try:
        found = hessian_by_jax(drawn.program, drawn.point)  # type: ignore[arg-type]
    except Unavailable:
        return None
    want, off = drawn.oracle.hessian()
    if not np.isfinite(found).all() or (np.abs(found - want) <= off).all():
        return None
    return found, 1e-12 * (1.0 + np.abs(found))


def _is_cut_short(derivative: Any, seconds: float, options: dict[str, Any]) -> bool:
    """Whether the clock ended a search: as the program says, or else if preparing took the limit and longer."""
    stage = getattr(getattr(derivative, "_program", None), "cut_short", None)
    return seconds >= options["time_limit"] if stage is None else bool(stage)


def check_form(seed: int) -> Outcome:
    """Draw and check the program of a seed as a function of JAX or of SymPy."""
    rng = random.Random(seed)
    program = random_scalars(rng)
    call = random_call(program, rng)
    options = {name: call.options[name] for name in OPTIONS} | {"dtype": "float64"}
    options["target"] = rng.choices(list(TARGETS), list(TARGETS.values()))[0]
    point, form = random_point(program, "float64", rng), rng.choice(list(OTHERS))
    way = rng.choices(list(WAYS), list(WAYS.values()))[0]
    source = program.source
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RewritingWarning)
            f, source = OTHERS[form](program, rng)
            given = point if form == "jax" else [float(x) for each in point for x in np.ravel(each)]
            oracle = Exact(program, point, "float64", seed)

            def claims(result: Any) -> Claims:
                value, slopes = result
                matrix = np.concatenate([np.reshape(each, (oracle.outputs, -1)) for each in slopes], axis=1)
                return [("value", flat(value), oracle.value()), ("J", matrix, oracle.jacobian())]

            posed = Posed(acc.value_and_jacobian(f, tuple(range(len(given))), **options), tuple(given), claims)
            outcome, remark = told_in(posed, way)
    except Undecided as why:
        outcome, remark = "undecided", str(why)
    except Exception as error:
        outcome, remark = "crash", f"{type(error).__name__}: {error}"
    return Outcome(seed, outcome, f"{form}: {remark}", f"{source}# {form}, {way}, {options}\n# at {point}\n")  # type: ignore[arg-type]


def told_in(posed: Posed, way: str, run: Callable[[Posed, str, Any], None] | None = None) -> tuple[str, str]:
    """Call a derivative at its point and in another way; the outcome, and a remark.

    Args:
        run: holds what it returned against what it returns in that way; by default `in_another_way`.
    """
    try:
        result = posed.derivative(*posed.arguments)
        (run or (lambda posed, way, result: in_another_way(posed, way, result, "float64")))(posed, way, result)
        return judged(posed.claims(result), "float64")
    except Undecided as why:
        return "undecided", str(why)
    except Disagreement as why:
        return "wrong", str(why)


def judged(claims: Claims, dtype: str) -> tuple[str, str]:
    """Whether claims are right or wrong, or nothing is told; and which is wrong."""
    told = False
    unit = float(np.finfo(dtype).eps)
    for name, found, (want, off) in claims:
        if found.shape != want.shape:
            return "wrong", f"{name} has shape {found.shape} instead of {want.shape}"
        size = 1.0 + np.abs(want).max(initial=0.0, where=np.isfinite(want))
        allowed = ALLOWED * off + UNITS * unit * size
        clear = np.isfinite(want) & (allowed < LOST * np.maximum(1.0, np.abs(want)))
        told |= bool(clear.any())
        wrong = clear & ~(np.abs(found - want) <= allowed)
        if wrong.any():
            where = tuple(map(int, np.argwhere(wrong)[0]))
            return "wrong", f"{name} {where} is {found[where]!r} instead of {want[where]!r} ± {allowed[where]:.1e}"
    return ("right", "") if told else ("undecided", "nothing that is smooth and finite")
