"""One random program from a seed: drawn, compiled and called in drawn ways (`calls`), held against the truth.

What is checked beside this goes in turn by the program's number, so that a long run sees each combination equally often
(`Turn`): the kind of derivative, the way to run it, a construct that the function contains.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from unittest import mock

import numpy as np
from arrays import Arrays, along, flat, random_arrays
from calls import TARGETS, Call, Disagreement, Results, called, function, on_target, own, prepared, random_call
from exact import mp, mpf
from forms import GROUPS, groups_in
from looped import unrolled
from matrices import small_matrices
from rolling import rolling
from scalars import EXACT_POINTS, ORDINARY, Scalars, Truth, Undecided, random_scalars, truth
from ways import in_another_way
from with_jax import MISSING, Unavailable, jacobian

from accumulus.errors import CaseError, RewritingWarning
from accumulus.targets.llvm.instructions import Instructions

#: "undecided": the oracle cannot tell; "inaccurate": more than rounding explains, and less than a mistake would show.
Kind = Literal["right", "undecided", "inaccurate", "wrong", "crash"]

SCALARS: Final = 0.7
SAMPLES: Final = 4
MORE_SAMPLES: Final = 100
#: How often short arrays are recorded as long ones are, see `accumulus.arrays`.
LOOPS: Final = 0.5
#: How often what repeats in short programs is rolled as in long ones, see `accumulus.repetition`.
ROLLED: Final = 0.25
#: How often JAX is asked, too, and times how far rounding moves a result that it may be away from JAX's.
JAX: Final = 0.02
JAX_SAMPLES: Final = 6
BY_JAX: Final = 1e4
#: Times how far rounding moves a result that it may be away, and from where on that is no matter of rounding.
ALLOWED: Final = 40.0
MISTAKEN: Final = 1e5
#: From this fraction of a result on, what rounding may do to it may make it infinite.
LOST: Final = 1e-3
TINY: Final = {"float64": 1e-290, "float32": 1e-36}
#: What the text of a program raises where it has no value: a remainder by the number 0.0 of a branch, say.
REFUSED: Final = (ValueError, np.linalg.LinAlgError, TypeError, IndexError, ArithmeticError)
#: What has no derivative where numbers are equal, even if nothing moves them apart: 0 · ∞ is NaN.
NONE_AT_TIES: Final = ("std(", "_of_symmetric(")
#: What has several slopes where numbers are equal: of these each library, and each way to write them, takes another.
TIES: Final = (
    *("max", "min", "Max", "Min", "abs", "Abs", "ptp", "sort", "median", "percentile", "quantile", "clip", "norm"),
    *("cond(", "where", "interp"),
)
#: How far points are moved to find out, and how many.
ASIDE: Final = 1e-2
TRIED_ASIDE: Final = 3
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
    """What came of one program.

    Attributes:
        saw: everything that was checked: targets, ways, kinds of derivatives, constructs, and JAX as an oracle.
        cut_short: whether the clock ended a search.
    """

    seed: int
    kind: Kind
    remark: str = ""
    source: str = ""
    saw: tuple[str, ...] = ()
    cut_short: bool = False


#: Groups of kinds of derivatives, and ways to run a program beside the targets llvm and numpy, as often as they come.
#: What is undecided tells nothing, so that those that often are come more often.
KINDS_IN_TURN: Final = (
    *("jacobian", "taylor", "second order", "first order", "jax", "sympy") * 2,
    *("jacobian", "taylor", "second order", "jacobian"),
)
WAYS_IN_TURN: Final = ("c", "jax source", "file", "numpy source", "alone", "batch") * 2 + (
    *("jax source", "file", "numpy source", "alone"),
)
#: One run of JAX's source in so many is compiled by XLA, the others run operation by operation.
COMPILED_BY_XLA: Final = 10


@dataclass(frozen=True)
class Turn:
    """What is checked of the program of a number, by turns."""

    kind: str
    way: str
    construct: str | None
    xla: bool

    @classmethod
    def of(cls, number: int) -> Turn:
        """Return the turn of a number; 1,792 in a row go through all combinations of kind, way and construct."""
        kinds, ways, constructs = KINDS_IN_TURN, WAYS_IN_TURN, [*GROUPS, None]
        rest, kind = divmod(number, len(kinds))
        rest, way = divmod(rest, len(ways))
        construct = kind + way + rest  # each beside every kind and way, and several in a few programs
        xla = number // (len(kinds) * len(ways)) % COMPILED_BY_XLA == 0
        return cls(kinds[kind], ways[way], constructs[construct % len(constructs)], xla)


#: Checks of a program: they stop once where C is to be compiled, which those of many programs do together.
Steps = Generator[None, None, Outcome]


def at_once(steps: Iterable[Steps]) -> list[Outcome]:
    """Take the checks of several programs to the place where they wait for C, and then to their ends."""
    outcomes: dict[int, Outcome] = {}
    waiting = list(enumerate(steps))
    while waiting:
        left = []
        for k, each in waiting:
            try:
                next(each)
                left.append((k, each))
            except StopIteration as end:
                outcomes[k] = end.value
        waiting = left
    return [outcomes[k] for k in sorted(outcomes)]


@contextmanager
def recorded_as(loops: Any, matrices: bool, rolls: bool) -> Iterator[None]:
    """Record short arrays as loops, keep small products of matrices, roll what repeats; warn of rewriting alone."""
    with (
        np.errstate(all="ignore"),
        warnings.catch_warnings(),
        unrolled(*loops) if loops else nullcontext(),
        small_matrices() if matrices else nullcontext(),
        rolling() if rolls else nullcontext(),
    ):
        warnings.simplefilter("ignore")  # not that time was short
        warnings.simplefilter("error", RewritingWarning)
        yield


@contextmanager
def unfused() -> Iterator[None]:
    """Let LLVM round every product before it is added."""

    def alone(self: Instructions, instruction: str) -> Callable[[int], str]:
        return self._binary(f"{instruction} {self.vectors.type}")

    with mock.patch.object(Instructions, "_arithmetic", alone):
        yield


def attempted(work: Callable[[], tuple[Kind, str]]) -> tuple[Kind, str]:
    """What comes of some checks."""
    try:
        return work()
    except (Undecided, CaseError) as why:  # a program of a trace holds for one case
        return "undecided", str(why)
    except Disagreement as why:
        return "wrong", str(why)
    except Exception as error:
        return "crash", f"{type(error).__name__}: {error}"


def check(seed: int) -> Outcome:
    """Draw and check the Jacobian of the program of a seed."""
    (outcome,) = at_once([jacobian_steps(seed)])
    return outcome


@dataclass
class _Jacobian:
    """A program, how it is called, and its truth."""

    program: Scalars | Arrays
    call: Call
    points: list[list[Any]]
    seed: int
    loops: Any
    matrices: bool
    rolls: bool
    saw: list[str] = field(default_factory=list)
    truths: list[Truth | None] | None = None

    def checked(self, turn: Turn, ask_jax: bool) -> tuple[Kind, str]:
        """Hold the results of both targets against each other and the truth, then those in another way."""
        program, call, points = self.program, self.call, self.points
        _ask_numpy(program, points)
        found, derivative = self.results(call)
        other = on_target(call, "llvm" if call.options["target"] == "numpy" else "numpy")
        others, _ = self.results(other)
        self.compare_targets(found, others)
        if ask_jax and _agrees_with_jax(program, call, points, found, self.seed):
            self.saw.append("JAX as the oracle")
        told = [self.held(call, found), self.held(other, others)]
        for kind, remark in told:
            if kind not in ("right", "undecided"):
                return kind, remark
        if turn.way in ("jax source", "numpy source", "file") and call.route != "trace":
            arguments = tuple(map(own, points[0]))
            name = turn.way.removesuffix(" source")
            if in_another_way(derivative, arguments, name, derivative(*arguments), call.options["dtype"], turn.xla):
                self.saw.append(turn.way)
        return told[0]

    def compare_targets(self, found: list[list[Results]], others: list[list[Results]]) -> None:
        """Hold the results of both targets against each other.

        Raises:
            Disagreement: if they differ, and neither the clock nor products that LLVM rounds with a sum are why.
        """
        options = self.call.options
        exact = options["time_limit"] == 0.0 and options["objective"] != "fma" and not self.rolls
        try:
            _demand_same_targets(self.program, found, others, exact)
        except Disagreement:
            if exact:
                _demand_same_targets(self.program, found, others, False)
            elif options["time_limit"] == 0.0:
                raise
            # what the clock ends is not the same twice: x / x becomes 1, also at NaN, or is left
            again = replace(self.call, options={**options, "time_limit": 0.0})
            with unfused() if exact else nullcontext():
                pair = [self.results(on_target(again, target))[0] for target in TARGETS]
            _demand_same_targets(self.program, *pair, exact)

    def in_c(self, call: Call, derivative: Any) -> tuple[Kind, str]:
        """Hold the results of C against the truth."""
        found, _ = self.results(call, derivative)
        return self.held(call, found)

    def results(self, call: Call, derivative: Any = None) -> tuple[list[list[Results]], Any]:
        found, derivative = called(self.program, call, self.points, derivative)
        for results in found:
            _demand_same_everywhere(results)
        self.saw += [call.options["target"], "batch"]
        return found, derivative

    def held(self, call: Call, found: Sequence[Sequence[Results]]) -> tuple[Kind, str]:
        if isinstance(self.program, Scalars):
            if self.truths is None:
                self.truths = _truths(self.program, call, self.points, self.seed)
            return _check_scalars(self.program, call, self.points, found, self.seed, self.truths)
        return _check_arrays(self.program, call, self.points, found, self.seed)


def jacobian_steps(seed: int) -> Steps:
    """Check the Jacobian of the program of a seed."""
    rng, turn = random.Random(seed), Turn.of(seed)
    program = random_program(rng, turn.construct)
    call = random_call(program, rng)
    points = [random_point(program, call.options["dtype"], rng) for _ in range(2)]
    for k in call.shared:
        points[1][k] = points[0][k]
    ask_jax = MISSING is None and rng.random() < JAX
    loops = isinstance(program, Arrays) and rng.random() < LOOPS and ((0, 1), (10**9, 2))[seed // 4 % 2]
    rolls = rng.random() < ROLLED
    matrices = bool(loops) and seed % 2 == 1  # small ones multiplied as such
    given = loops, matrices, rolls
    one = _Jacobian(program, call, points, seed, loops, matrices, rolls, [*groups_in(program), "jacobian"])
    if call.options["sparse"]:
        one.saw.append("sparse")
    in_c = on_target(call, "c") if turn.way == "c" else None
    waiting: list[Any] = []

    def first() -> tuple[Kind, str]:
        told = one.checked(turn, ask_jax)
        if in_c is not None:
            waiting.append(prepared(program, in_c, points[0]))
        return told

    with recorded_as(*given):
        kind, remark = attempted(first)
    if waiting and kind in ("right", "undecided"):
        yield
        with recorded_as(*given):
            again, why = attempted(lambda: one.in_c(in_c, waiting[0]))  # type: ignore[arg-type]
        if again not in ("right", "undecided"):
            kind, remark = again, f"c: {why}"
    ways = f"{' with loops' if loops else ''}{' and matrices' if matrices else ''}{' rolled' if rolls else ''}"
    source = f"{program.source}# {call}{ways}, {turn.way}\n# at {points}\n"
    return Outcome(seed, kind, remark, source, tuple(dict.fromkeys(one.saw)))


def random_program(rng: random.Random, construct: str | None = None) -> Scalars | Arrays:
    """A function of scalars or of arrays; of scalars with a construct."""
    return random_scalars(rng, construct) if rng.random() < SCALARS else random_arrays(rng)


def random_point(program: Scalars | Arrays, dtype: str, rng: random.Random) -> list[Any]:
    exact = rng.random() < 0.4

    def number() -> float:
        if rng.random() < (0.9 if exact else 0.1):
            return rng.choice(EXACT_POINTS) if rng.random() < 0.7 else float(rng.randint(-500, 500))
        return float(np.dtype(dtype).type(rng.uniform(-ORDINARY, ORDINARY)))

    return [
        np.array([number() for _ in range(int(np.prod(shape)))]).reshape(shape) if shape else number()
        for shape in program.shapes
    ]


def _ask_numpy(program: Scalars | Arrays, points: Sequence[Sequence[Any]]) -> None:
    """Refuse what NumPy does not compute."""
    try:
        for point in points:
            function(program)(*map(own, point))
    except REFUSED as error:
        raise Undecided(f"NumPy: {error}") from error


def _demand_same_everywhere(results: Sequence[Results]) -> None:
    """Points of a batch are computed alike, wherever they are in it."""
    for name in ("values", "slopes"):
        arrays = [getattr(result, name) for result in results[1:]]
        if arrays[0] is not None and any(not np.array_equal(arrays[0], other, equal_nan=True) for other in arrays[1:]):
            raise Disagreement(f"{name} of one point differ within a batch")


def _check_scalars(
    program: Scalars,
    call: Call,
    points: Sequence[Sequence[Any]],
    found: Sequence[Sequence[Results]],
    seed: int,
    truths: Sequence[Truth | None],
) -> tuple[Kind, str]:
    dtype, exact_order = call.options["dtype"], call.options["exact_order"]
    columns = _columns(program, call).tolist()
    options: dict[str, Any] = {"exact_order": exact_order, "dtype": dtype, "seed": seed}
    numbers = [[float(x) for a in point for x in np.ravel(a)] for point in points]
    decided = False
    for results, wanted, point, given in zip(found, truths, numbers, points, strict=True):
        if exact_order and dtype == "float64" and all(name in BIT_BY_BIT for name, _ in program.steps):
            expected = flat(function(program)(*map(own, given)))
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


def _truths(program: Scalars, call: Call, points: Sequence[Sequence[Any]], seed: int) -> list[Truth | None]:
    """The truth at each point; None where rounding decides it."""
    options = {name: call.options[name] for name in ("exact_order", "dtype")}
    truths: list[Truth | None] = []
    for point in points:
        try:
            numbers = [float(x) for a in point for x in np.ravel(a)]
            truths.append(truth(program, numbers, samples=SAMPLES, seed=seed, **options))
        except Undecided:
            truths.append(None)
    return truths


def _excess(result: Results, wanted: Truth, columns: Sequence[int], dtype: str) -> tuple[float, str, bool]:
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
            if not np.isfinite(got) and spread > LOST * abs(want):
                continue  # a sum of which rounding leaves nothing, that something is divided by, say
            error = float(abs(mpf(float(got)) - want)) if np.isfinite(got) else np.inf
            if error / allowed > worst:
                worst = error / allowed
                remark = f"output {row}, {name}: {got!r} instead of {mp.nstr(want, 17)}, {worst:.1e} × allowed"
    return worst, remark, clear


def _check_arrays(
    program: Arrays, call: Call, points: Sequence[Sequence[Any]], found: Sequence[Sequence[Results]], seed: int
) -> tuple[Kind, str]:
    f = function(program)
    expected = [flat(f(*map(own, point))) for point in points]
    draw = np.random.default_rng(seed)
    decided = False
    for results, values, point in zip(found, expected, points, strict=True):
        directions = [
            draw.normal(size=np.shape(a)) if k in call.positions else 0.0 * np.asarray(a) for k, a in enumerate(point)
        ]
        slopes, error = along(f, point, directions)
        moved = [flat(f(*(a * (1 + 1e-15 * draw.normal(size=np.shape(a))) for a in point))) for _ in range(3)]
        rounding = 1e3 * np.max([np.abs(each - values) for each in moved], axis=0) + 1e-9 * (1 + np.abs(values))
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
                    if name == "derivative":
                        if any(text in program.source for text in NONE_AT_TIES) and np.isnan(got[k]):
                            raise Undecided("ties, at which what is called has no derivative")
                        halves = [[np.where(draw.random(np.shape(d)) < 0.5, d, 0.0) for d in directions]]
                        halves.append([d - half for d, half in zip(directions, halves[0], strict=True)])
                        (one, unsure), (other, vague) = (along(f, point, half) for half in halves)
                        if not (np.abs(one + other - slopes) <= allowed + 100 * (unsure + vague))[k]:
                            raise Undecided("ties: slopes along two directions do not add up")
                        by_jax = _is_that_of_jax(program, call, point, result, seed)
                        if by_jax:
                            raise Undecided("ties, at which no difference shows how slopes are shared")
                        has_ties = by_jax is None and any(text in program.source for text in TIES)
                        if has_ties and _is_right_aside(program, call, point, draw):
                            raise Undecided("ties, beside which derivatives are right")
                    return "wrong", f"{name} {k}: {got[k]!r} instead of {want[k]!r} ± {allowed[k]:.1e}"
    return ("right", "") if decided else ("undecided", "not smooth, or not finite")


def _demand_same_targets(
    program: Scalars | Arrays,
    found: Sequence[Sequence[Results]],
    others: Sequence[Sequence[Results]],
    exact: bool,
) -> None:
    """Both targets give the same bits where all operations are of IEEE arithmetic; both are finite at the same places.

    LLVM may round a product and a sum at once, so that what is 0 times infinity for one is infinite for the other.
    """
    # under "fma" products and sums are rounded once, where the processor can; bodies of loops are rewritten for LLVM
    exact = exact and isinstance(program, Scalars) and all(name in BIT_BY_BIT for name, _ in program.steps)
    for one, other in zip(found, others, strict=True):
        for mine, its in zip(one, other, strict=True):
            for name in ("values", "slopes"):
                a, b = getattr(mine, name), getattr(its, name)
                if a is None:
                    continue
                if not (
                    np.array_equal(a, b, equal_nan=True) if exact else np.array_equal(np.isfinite(a), np.isfinite(b))
                ):
                    raise Disagreement(f"targets: {name} {a.tolist()} and {b.tolist()}")


def _agrees_with_jax(
    program: Scalars | Arrays,
    call: Call,
    points: Sequence[Sequence[Any]],
    found: Sequence[Sequence[Results]],
    seed: int,
) -> bool:
    """Whether there was anything to compare with JAX.

    Raises:
        Disagreement: for what differs by more than rounding explains.
    """
    columns = _columns(program, call)
    coarser = float(np.finfo(call.options["dtype"]).eps / np.finfo(float).eps)
    told = False
    for point, results in zip(points, found, strict=True):
        try:
            true, spread = jacobian(program, point, JAX_SAMPLES, seed)
        except Unavailable:
            return False
        size = 1.0 + np.max(np.abs(true), axis=1, keepdims=True, initial=0.0, where=np.isfinite(true))
        allowed = BY_JAX * coarser * (spread + size * 1e-15)
        for name, got, places in (("value", results[0].values, [0]), ("slope", results[0].slopes, 1 + columns)):
            if got is None:
                continue
            want, limit = true[:, places], allowed[:, places]
            # outside the domain of a function JAX has a finite slope for some
            clear = np.isfinite(want) & np.isfinite(true[:, [0]]) & (limit < LOST * size)
            told |= bool(clear.any())
            found = got.reshape(want.shape)
            # a half power of -∞ is that of a root: NaN
            clear &= ~(np.isnan(found) & (", -0.5)" in program.source or ", 0.5)" in program.source))
            off = clear & ~(np.abs(found - want) <= limit)
            if off.any():
                where = tuple(map(int, np.argwhere(off)[0]))
                mine = found[where]
                raise Disagreement(f"JAX: {name} {where} is {want[where]!r}, not {mine!r} ± {limit[where]:.1e}")
    return told


def _is_that_of_jax(program: Arrays, call: Call, point: Sequence[Any], result: Results, seed: int) -> bool | None:
    """Whether JAX has the same derivative, or none, at this very point, however far rounding moves it.

    None if JAX has no such function.
    """
    if MISSING is not None:
        return None
    try:
        true, _ = jacobian(program, point, 1, seed)
    except Unavailable:
        return None
    wanted = true[:, 1 + _columns(program, call)]
    return bool((np.isclose(result.slopes, wanted, rtol=1e-9, atol=1e-12) | np.isnan(wanted)).all())


def moved_aside(point: Sequence[Any], draw: np.random.Generator) -> list[Any]:
    """A point beside another, where no numbers are equal."""
    moved = [np.asarray(a) + ASIDE * (1 + np.abs(a)) * draw.normal(size=np.shape(a)) for a in point]
    return [a if a.ndim else float(a) for a in moved]


def _is_right_aside(program: Arrays, call: Call, point: Sequence[Any], draw: np.random.Generator) -> bool:
    """Whether Jacobians with the same options have the slopes that differences show, at points aside."""
    options = {**call.options, "sparse": None}
    plain = Call("jacobian", call.argnums, options, 1, False, 1, ("C",) * len(program.shapes))
    points = [moved_aside(point, draw) for _ in range(2)]
    found, _ = called(program, plain, points)
    told = False
    for (result, *_), at in zip(found, points, strict=True):
        directions = [
            draw.normal(size=np.shape(a)) if k in call.positions else 0.0 * np.asarray(a) for k, a in enumerate(at)
        ]
        slopes, error = along(function(program), at, directions)
        got = result.slopes @ np.concatenate([np.ravel(directions[k]) for k in call.positions])
        clear = np.isfinite(slopes) & np.isfinite(error)
        told |= bool(clear.any())
        if (clear & ~(np.abs(got - slopes) <= 100 * error + 1e-7 * (1 + np.abs(slopes)))).any():
            return False
    return told


def _columns(program: Scalars | Arrays, call: Call) -> np.ndarray[Any, Any]:
    """Positions of the chosen arguments' entries among those of all arguments."""
    starts = np.cumsum([0, *(int(np.prod(shape)) for shape in program.shapes)])
    return np.concatenate([np.arange(starts[k], starts[k + 1]) for k in call.positions])
