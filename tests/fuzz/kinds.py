"""Random programs in every kind of derivative: held against 50 digits or differences, and written, saved, loaded.

Where `checking` draws ways to call Jacobians, this draws the kind: products with directions and weights, Hessians,
Taylor coefficients, linear operators, chosen entries, derivatives of derivatives. The truth of a program of scalars is
its run in 50 digits (`scalars`), of which first derivatives are exact, and second ones and coefficients differences
with steps of 10⁻¹²; that of one of arrays are extrapolated differences, of second order of its compiled gradient.
Each is prepared for both targets, and run in another way (`ways`) or in C.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final
from unittest import mock

import numpy as np
from arrays import Arrays, flat
from calls import TARGETS, Disagreement, function, own, random_call
from checking import (
    LOOPS,
    NONE_AT_TIES,
    REFUSED,
    TIES,
    TRIED_ASIDE,
    Outcome,
    Steps,
    Turn,
    at_once,
    moved_aside,
    random_point,
    random_program,
    recorded_as,
)
from forms import OTHERS, groups_in
from scalars import Scalars, Undecided, random_scalars
from truths import Differences, Exact, Floats, Once, Oracle, total
from ways import in_another_way, leaves_of, like
from with_jax import MISSING, Unavailable
from with_jax import hessian as hessian_by_jax

import accumulus as acc
from accumulus import deadline
from accumulus.errors import ArgumentError, MismatchError, TraceError

#: Of the options of a call, those that every kind takes.
OPTIONS: Final = ("method", "effort", "time_limit", "objective", "dtype", "optimise", "exact_order", "seed", "cache")
#: Times how far rounding moves a result that it may be off, times the unit in the last place of the largest beside it,
#: and from which part of the latter on a result is not told.
ALLOWED: Final = 400.0
UNITS: Final = 4000.0
LOST: Final = 1e-2
ORDER: Final = 3


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
            return Once(Exact(self.program, self.point, self.options["dtype"], self.seed))
        return Once(Differences(self.program, self.point))

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


def filled(tree: Any, numbers: list[float]) -> Any:
    """The structure of a result with other numbers; tuples stand for lists, which would be arrays."""
    if isinstance(tree, dict):
        return {key: filled(each, numbers) for key, each in tree.items()}
    if isinstance(tree, (tuple, list)):
        parts = [filled(each, numbers) for each in tree]
        return like(tree if hasattr(tree, "_make") else (), parts)
    shape = np.shape(tree)
    return np.array([numbers.pop(0) for _ in range(int(np.prod(shape)))]).reshape(shape)[()]


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


#: Kinds by the groups that go in turn.
IN_TURN: Final = {
    "taylor": ("taylor",),
    "second order": ("hvp", "hessian", "value_gradient_hessian", "gradient_of_product", "chosen"),
    "first order": ("compiled", "jvp", "vjp", "linear_operator", "chosen"),
}


# One program -----------------------------------------------------------------------------------------------------


def check_kind(seed: int, thorough: bool = False) -> Outcome:
    """Draw and check the program of a seed, in one kind and way; `thorough`, at the default limit or above."""
    (outcome,) = at_once([kind_steps(seed, thorough)])
    return outcome


def kind_steps(seed: int, thorough: bool = False) -> Steps:
    """Check a kind of derivative of the program of a seed.

    Thorough programs are prepared for one target alone, and their kind is any of them.
    """
    rng, turn = random.Random(seed), Turn.of(seed)
    program = random_program(rng, turn.construct)
    call = random_call(program, rng)
    options = {name: call.options[name] for name in OPTIONS}
    if isinstance(program, Arrays):
        options["dtype"] = "float64"
    if thorough:
        options |= {"effort": "thorough", "time_limit": rng.choice((2.0, 2.0, 3.0)), "optimise": None}
    point = random_point(program, options["dtype"], rng)
    kind = rng.choice([name for name in IN_TURN.get(turn.kind, KINDS) if name in KINDS] or list(KINDS))
    targets = [rng.choice(TARGETS)] if thorough else list(TARGETS)
    loops = isinstance(program, Arrays) and rng.random() < LOOPS and ((0, 1), (10**9, 2))[seed // 4 % 2]
    rolls = rng.random() < 0.25
    drawn = Drawn(program, point, options, rng, seed)
    saw = [*groups_in(program), turn.kind if turn.kind in IN_TURN else "any kind", *(["thorough"] * thorough)]
    finite, cut_short, waiting = True, False, []
    state, way = rng.getstate(), turn.way.removesuffix(" source")

    def posed(target: str, at: list[Any] | None = None) -> Posed:
        """The same for each target, and at another point."""
        rng.setstate(state)
        drawn.options = {**options, "target": target}
        return KINDS[kind](drawn if at is None else replace(drawn, point=at))

    def told(each: Posed, result: Any) -> tuple[str, str]:
        claims = each.claims(result)
        outcome = judged(claims, options["dtype"])
        if outcome[0] == "wrong" and any(text in program.source for text in NONE_AT_TIES):
            numbers = [(name, np.where(np.isnan(found), pair[0], found), pair) for name, found, pair in claims]
            if judged(numbers, options["dtype"])[0] != "wrong":
                raise Undecided("ties, at which what is called has no derivative")
        if outcome[0] == "wrong" and isinstance(program, Arrays) and (by_jax := _curvature_by_jax(drawn)) is not None:
            drawn.oracle.hessian = lambda: by_jax  # type: ignore[method-assign]
            outcome = judged(each.claims(result), options["dtype"])
        if outcome[0] == "wrong" and isinstance(program, Arrays):
            _leave_ties(program.source, point, lambda at: posed(drawn.options["target"], at), seed)
        return outcome

    def first() -> tuple[str, str]:
        nonlocal finite, cut_short
        try:
            finite = bool(np.isfinite(flat(drawn.f(*map(own, point)))).all())
        except REFUSED as error:
            raise Undecided(f"NumPy: {error}") from error
        outcomes = []
        for k, target in enumerate(targets):
            each, start = posed(target), time.process_time()
            result = each.derivative(*each.arguments)
            cut_short |= thorough and _is_cut_short(each.derivative, time.process_time() - start, options)
            saw.append(target)
            if k == len(targets) - 1 and way != "c":
                other = in_another_way(each.derivative, each.arguments, way, result, options["dtype"], turn.xla)
                saw.extend([turn.way] * other)
            outcomes.append(told(each, result))
        if way == "c" and not thorough:
            waiting.append(posed("c"))
            if isinstance(waiting[0].derivative, acc.Derivative):
                waiting[0].derivative.compile(*waiting[0].arguments)
        return next((outcome for outcome in outcomes if outcome[0] == "wrong"), outcomes[0])

    def attempted(work: Callable[[], tuple[str, str]]) -> tuple[str, str]:
        try:
            return work()
        except Undecided as why:
            return "undecided", str(why)
        except Disagreement as why:
            return "wrong", str(why)
        except ArgumentError as error:  # an iteration has no second derivative
            return ("undecided" if "derivatives of its derivatives" in str(error) else "crash"), str(error)
        except MismatchError as error:  # where NaN are, a derivative and its recording may have different ones
            return ("crash" if finite else "undecided"), f"{type(error).__name__}: {error}"
        except Exception as error:
            return "crash", f"{type(error).__name__}: {error}"

    # of a busy machine the clock would cut most short: it counts the seconds of this process
    clock = mock.patch.object(deadline, "time", mock.Mock(monotonic=time.process_time)) if thorough else nullcontext()
    with recorded_as(loops, False, rolls), clock:
        outcome, remark = attempted(first)
    if waiting and outcome in ("right", "undecided"):
        yield
        with recorded_as(loops, False, rolls):
            again, why = attempted(lambda: told(waiting[0], waiting[0].derivative(*waiting[0].arguments)))
        saw.append("c")
        if again not in ("right", "undecided"):
            outcome, remark = again, f"c: {why}"
    remarks = f"{kind}, {turn.way}{', with loops' if loops else ''}{', rolled' if rolls else ''}"
    source = f"{program.source}# {remarks}, {options}\n# at {point}\n"
    return Outcome(seed, outcome, f"{kind}: {remark}", source, tuple(dict.fromkeys(saw)), cut_short)  # type: ignore[arg-type]


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


def _leave_ties(text: str, point: Sequence[Any], posed: Callable[[list[Any]], Posed], seed: int) -> None:
    """Raise Undecided where a program with several slopes at ties is right at points beside this one."""
    if not any(name in text for name in TIES):
        return
    draw = np.random.default_rng(seed)
    outcomes = []
    for _ in range(TRIED_ASIDE):
        each = posed(moved_aside(point, draw))
        outcomes.append(judged(each.claims(each.derivative(*each.arguments)), "float64")[0])
    if "right" in outcomes and "wrong" not in outcomes:
        raise Undecided("ties, of whose slopes each library takes another")


def _is_cut_short(derivative: Any, seconds: float, options: dict[str, Any]) -> bool:
    """Whether the clock ended a search: as the program says, or else if preparing took the limit and longer."""
    stage = getattr(getattr(derivative, "_program", None), "cut_short", None)
    return seconds >= options["time_limit"] if stage is None else bool(stage)


def check_form(seed: int) -> Outcome:
    """Draw and check the program of a seed as a function of JAX or of SymPy."""
    (outcome,) = at_once([form_steps(seed)])
    return outcome


def form_steps(seed: int) -> Steps:
    """Check the Jacobian of the program of a seed, which is a function of JAX or of SymPy."""
    rng, turn = random.Random(seed), Turn.of(seed)
    form = turn.kind if turn.kind in OTHERS else rng.choice(list(OTHERS))
    program = random_scalars(rng)
    call = random_call(program, rng)
    options = {name: call.options[name] for name in OPTIONS} | {"dtype": "float64"}
    point = random_point(program, "float64", rng)
    source, way = program.source, turn.way.removesuffix(" source")
    saw, waiting = [f"function of {'JAX' if form == 'jax' else 'SymPy'}"], []

    def first() -> tuple[str, str]:
        nonlocal source
        try:
            f, source = OTHERS[form](program, rng)
        except RecursionError as why:  # in SymPy's Piecewise, which evaluates itself for ever
            raise Undecided(f"{form}: {why}") from why

        def posed(target: str, at: list[Any]) -> Posed:
            oracle = Once(Exact(program, at, "float64", seed))
            given = at if form == "jax" else [float(x) for each in at for x in np.ravel(each)]

            def claims(result: Any) -> Claims:
                value, slopes = result
                matrix = np.concatenate([np.reshape(each, (oracle.outputs, -1)) for each in slopes], axis=1)
                return [("value", flat(value), oracle.value()), ("J", matrix, oracle.jacobian())]

            derivative = acc.value_and_jacobian(f, tuple(range(len(given))), **options, target=target)
            return Posed(derivative, tuple(given), claims)

        def run(posed: Posed, way: str, result: Any) -> None:
            seen = in_another_way(posed.derivative, posed.arguments, way, result, "float64", turn.xla)
            saw.extend([turn.way] * seen)

        outcomes = [
            told_in(posed(target, point), ("alone", way)[k] if way != "c" else "alone", run)
            for k, target in enumerate(TARGETS)
        ]
        saw.extend(TARGETS)
        if any(outcome[0] == "wrong" for outcome in outcomes):
            if form == "jax" and "exp2" in source:
                _leave_rounded_powers(f, posed("numpy", point))
            _leave_ties(source, point, lambda at: posed("numpy", at), seed)
        if way == "c":
            waiting.append(posed("c", point))
            waiting[0].derivative.compile(*waiting[0].arguments)
        return next((outcome for outcome in outcomes if outcome[0] == "wrong"), outcomes[0])

    def attempted(work: Callable[[], tuple[str, str]]) -> tuple[str, str]:
        try:
            return work()
        except Undecided as why:
            return "undecided", str(why)
        except MismatchError as error:
            # XLA simplifies log2(exp(x)) and log2(x ** 0.5), and has numbers where these have none
            if "The recording is NaN" in str(error):
                try:
                    if not np.isfinite(Exact(program, point, "float64", seed).value()[0]).all():
                        return "undecided", str(error)
                except Undecided as why:
                    return "undecided", str(why)
            return "crash", f"{type(error).__name__}: {error}"
        except TraceError as error:  # SymPy has the root of -2 as a number
            return ("undecided" if "I, which is not a real number" in str(error) else "crash"), str(error)
        except Exception as error:
            return "crash", f"{type(error).__name__}: {error}"

    with recorded_as(False, False, False):
        outcome, remark = attempted(first)
    if waiting and outcome in ("right", "undecided"):
        yield
        with recorded_as(False, False, False):
            again, why = attempted(lambda: told_in(waiting[0], "alone"))
        saw.append("c")
        if again not in ("right", "undecided"):
            outcome, remark = again, f"c: {why}"
    source = f"{source}# {form}, {turn.way}, {options}\n# at {point}\n"
    return Outcome(seed, outcome, f"{form}: {remark}", source, tuple(dict.fromkeys(saw)))  # type: ignore[arg-type]


def _leave_rounded_powers(f: Callable[..., Any], posed: Posed) -> None:
    """Raise Undecided if values are JAX's own, whose exp2(316) is not the power of 2 that a cosine depends on."""
    found = flat(posed.derivative(*posed.arguments)[0])
    if np.allclose(found, flat(f(*posed.arguments)), rtol=1e-12, atol=1e-12, equal_nan=True):
        raise Undecided("JAX rounds powers of 2")


def told_in(posed: Posed, way: str, run: Callable[[Posed, str, Any], None] | None = None) -> tuple[str, str]:
    """Call a derivative at its point and in another way; the outcome, and a remark.

    Args:
        run: holds what it returned against what it returns in that way; by default `in_another_way`.
    """
    try:
        result = posed.derivative(*posed.arguments)
        if way != "alone":
            (run or _in_way)(posed, way, result)
        return judged(posed.claims(result), "float64")
    except Undecided as why:
        return "undecided", str(why)
    except Disagreement as why:
        return "wrong", str(why)


def _in_way(posed: Posed, way: str, result: Any) -> None:
    in_another_way(posed.derivative, posed.arguments, way, result, "float64")


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
        # beside a pole, rounding may exceed the value by far
        clear &= np.isfinite(found) | (want == 0.0) | (LOST * off <= np.abs(want))
        told |= bool(clear.any())
        wrong = clear & ~(np.abs(found - want) <= allowed)
        if wrong.any():
            where = tuple(map(int, np.argwhere(wrong)[0]))
            return "wrong", f"{name} {where} is {found[where]!r} instead of {want[where]!r} ± {allowed[where]:.1e}"
    return ("right", "") if told else ("undecided", "nothing that is smooth and finite")
