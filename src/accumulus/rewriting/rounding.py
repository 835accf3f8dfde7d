"""Rounding of tapes: evaluation at real points with a running bound on each value's error, and the points for it.

Compiled code (`running_kernel`) does the arithmetic at all points; Python computes the few functions of a tape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.native.machine import kernel
from accumulus.rewriting.compiled.running_kernel import BOUNDED, PLAIN, RunningState
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SELECT, SUBTRACT, Tape

#: Largest difference of results relative to the running bound; first-order bounds hold up to a small factor. A larger
#: one accepts differences that are mistakes, a smaller one refuses correct programs.
SLACK: Final = 16.0
UNIT: Final = 2.0**-53
Reals = NDArray[np.float64]


class Span(NamedTuple):
    """Range of a type's numbers with full precision: the `largest`, and the `smallest` positive one.

    Attributes:
        has_rounded_angles: True if the error of an angle is at least a unit of rounding; else none could be a sum.
    """

    largest: float
    smallest: float
    has_rounded_angles: bool = False


#: Overflow of doubles is infinite in the evaluation itself.
DOUBLE: Final = Span(math.inf, float(np.finfo(np.float64).tiny))
SINGLE: Final = Span(float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny))
SPANS: Final = {"float64": DOUBLE, "float32": SINGLE}
#: Relative step of the differences that show how an elementary function magnifies errors. A larger one leaves the
#: neighbourhood of the point, a smaller one loses the difference in rounding.
REAL_STEP: Final = 1e-7
_OF_ANGLES: Final = frozenset(BY_NAME[name].code for name in ("sin", "cos", "tan"))
#: Largest relative error bound up to which two values are compared. With a larger one, comparisons of nearly lost
#: values prove little; with a smaller one, values stay uncompared at points where they could be.
LOST: Final = 1e-3


class RealRuns:
    """Evaluations of a tape at a fixed number of real points each, in the same memory.

    Args:
        tape: tape to evaluate.
        count: number of points of an evaluation.
        span: range of the type.
        bounds: True to compute bounds on errors, too.
    """

    def __init__(self, tape: Tape, count: int, span: Span = DOUBLE, *, bounds: bool = True) -> None:
        self._tape, self._span, self._bounds = tape, span, bounds
        self._values = np.empty((len(tape) + len(tape.constants), count))
        self._errors = np.empty_like(self._values) if bounds else self._values
        self._state = RunningState(
            mode=BOUNDED if bounds else PLAIN, points=count, places=len(self._values), rows=rows_of(tape),
            end=len(tape), real=self._values.reshape(-1), errors=self._errors.reshape(-1), largest=span.largest,
            smallest=span.smallest,
        )  # fmt: skip
        self._give(slice(len(tape), None), np.array(tape.constants[::-1]).reshape(-1, 1))

    def _give(self, places: slice, numbers: Reals) -> None:
        """Set inputs or constants, rounded to the type."""
        self._values[places] = numbers
        values = self._values[places]
        self._values[places], uncertain = within(self._span, values, np.zeros_like(values))
        if self._bounds:
            self._errors[places] = uncertain

    def at(self, points: Reals) -> tuple[Reals, Reals]:
        """Return values and bounds at points, (inputs and operations, points) each; the next run overwrites them."""
        inputs, size = self._tape.inputs, len(self._tape)
        self._give(slice(inputs), points.T)
        self._state.begin = inputs
        with np.errstate(all="ignore"):
            _complete(self._state, self._compute)
        return self._values[:size], self._errors[:size]

    def _compute(self, r: int) -> None:
        code, arguments, values, span = self._tape.codes[r], self._tape.arguments(r), self._values, self._span
        at = [values[a] for a in arguments]
        if self._bounds:
            v, error = operation_with_bounds(code, at, [self._errors[a] for a in arguments], span)
            values[r], self._errors[r] = within(span, v, error)
        else:
            v = OPERATIONS[code].by_numpy(*_with_truth_values(code, at))
            values[r] = v if span.largest == math.inf else within(span, np.asarray(v, float), v)[0]


def run_at_points(tape: Tape, points: Reals, span: Span = DOUBLE) -> tuple[Reals, Reals]:
    """Return values of a tape at real points, and bounds in units of rounding, (inputs and operations, points) each.

    Values beyond the span are infinite, and values below it have errors of their size.
    """
    return RealRuns(tape, len(points), span).at(points)


def of_outputs(tape: Tape, at: Reals, bounds: Reals) -> tuple[Reals, Reals]:
    """Return values and bounds of a tape's outputs, (outputs, points) each, given those of inputs and operations."""
    numbers = np.tile(np.array(tape.constants[::-1]).reshape(-1, 1), at.shape[1])
    at, bounds = np.concatenate([at, numbers]), np.concatenate([bounds, np.zeros_like(numbers)])
    return at[tape.outputs], bounds[tape.outputs]


def within(span: Span, values: Reals, errors: Reals) -> tuple[Reals, Reals]:
    """Return values and bounds rounded to a type: overflow is infinite, underflow loses digits."""
    size = np.abs(values)
    if span.largest == math.inf:
        is_small = (size < span.smallest) & (size > 0.0)
        return values, np.where(is_small, errors + span.smallest, errors) if is_small.any() else errors
    values = np.where(size > span.largest, np.copysign(np.inf, values), values)
    errors = np.where((size < span.smallest) & (size > 0.0), errors + span.smallest, errors)
    return values, np.where(size > span.largest, np.inf, errors)


def agree(a: Reals, bound: Reals, b: Reals, other: Reals) -> NDArray[np.bool_]:
    """Return True where two values are equal up to rounding, or their bounds are too large to compare them."""
    with np.errstate(all="ignore"):
        allowed = SLACK * UNIT * (bound + other)
        says = np.isfinite(a) & np.isfinite(b) & (allowed < LOST * np.fmax(np.abs(a), np.abs(b)))
        same: NDArray[np.bool_] = ~says | (np.abs(a - b) <= allowed)
    return same


def _with_truth_values(code: int, at: Sequence[Reals]) -> list[Any]:
    """Return arguments as the operation expects them: truth values are stored as numbers."""
    kinds = OPERATIONS[code].arguments
    return [x != 0 if kind == "boolean" else x for x, kind in zip(at, kinds, strict=True)]


def operation_with_bounds(
    code: int, at: Sequence[Reals], errors: Sequence[Reals], span: Span = DOUBLE
) -> tuple[Reals, Reals]:
    """Return the values of an operation at all points, and first-order bounds on their errors."""
    row = OPERATIONS[code]
    arguments = _with_truth_values(code, at)
    v = np.asarray(row.by_numpy(*arguments), float)
    if code in (ADD, SUBTRACT):
        return v, errors[0] + errors[1] + np.abs(v)
    if code == MULTIPLY:
        return v, _scaled_error(np.abs(at[0]), errors[1]) + _scaled_error(np.abs(at[1]), errors[0]) + np.abs(v)
    if code == DIVIDE:
        return v, (errors[0] + np.abs(v) * errors[1]) / np.abs(at[1]) + np.abs(v)
    if code == NEGATIVE:
        return v, errors[0]
    if code == SELECT:
        return v, np.where(arguments[0], errors[1], errors[2])
    if row.jumps or row.result == "boolean":
        return v, np.zeros_like(v)
    total = 2 * np.abs(v)
    is_rounded = span.has_rounded_angles and code in _OF_ANGLES
    for k, error in enumerate(errors):
        if row.arguments[k] != "real":
            continue
        # a large angle has turned many times after a step in proportion to it
        size = np.minimum(np.abs(at[k]), 1.0) if code in _OF_ANGLES else np.abs(at[k])
        # beside 0, the error itself; and steps that rounding leaves something of
        least = UNIT * np.maximum(np.where(np.isfinite(error), error, 0.0), 8.0 * np.abs(at[k]))
        step = np.maximum(REAL_STEP * size, least) + 1e-300
        slopes = []
        for moved in (at[k] + step, at[k] - step):
            displaced = [*arguments[:k], moved, *arguments[k + 1 :]]
            slopes.append(np.abs(np.asarray(row.by_numpy(*displaced), float) - v) / step)
        slope = np.fmax(*slopes)  # at the border of a domain one of them is NaN
        total = total + _scaled_error(slope, np.maximum(error, np.abs(at[k])) if is_rounded else error)
    return v, total


def _scaled_error(size: Reals, error: Reals) -> Reals:
    """Return the product of an error and a factor; 0 if either is 0, even if the other is infinite."""
    return np.where((size == 0) | (error == 0), 0.0, size * error)


def _complete(state: RunningState, compute: Callable[[int], None]) -> None:
    """Run a tape, alternating between compiled code and single operations in Python."""
    arithmetic, end = kernel("rewriting.operations"), state.end
    while (r := arithmetic(state.address)) < end:
        compute(r)
        state.begin = r + 1


# Points ---------------------------------------------------------------------------------------------------------------

#: Number of random points, around given points or around 0: more take time for each value and check, fewer miss points
#: at which a definition is less accurate.
AT_RANDOM: Final = 8
#: Values of single inputs at points far away, where functions approach limits; and the largest number of such points.
#: More points take time for each value and check, fewer miss overflow and loss of digits; values further away overflow
#: in most programs.
FAR: Final = {DOUBLE: (-300.0, -30.0, 30.0, 300.0), SINGLE: (-80.0, -30.0, 30.0, 80.0)}
MOST_FAR: Final = 16
#: Number of values whose zeros are searched, relative distances of points from a zero, and steps to find it. More zeros
#: and steps take time, fewer miss cancellation next to zeros; at smaller distances all digits are lost in any program.
ZEROS: Final = 16
NEAR: Final = (1e-3, 1e-7)
HALVINGS: Final = 4
SECANTS: Final = 9
#: Least number of points to draw from: with one, no interval between two points can have a zero.
FEWEST: Final = 2


class RealPoints(NamedTuple):
    """Real points of evaluation, and their kinds."""

    at: Reals  # (points, inputs)
    # (points,), True around the given points, if there are any, else for typical points
    inside: NDArray[np.bool_]
    # (points,), True for typical points of programs, neither far away nor close to a limit
    common: NDArray[np.bool_]
    generic: NDArray[np.bool_]  # (points,), True if a value that is undefined there is undefined all around
    span: Span = DOUBLE  # range of the type that programs are computed in


def points_of(
    tape: Tape, points: Reals | None, rng: np.random.Generator, dtype: str = "float64", assumed: Sequence[str] = ()
) -> RealPoints:
    """Return real points of evaluation, some of them in the domain, rounded to a dtype.

    Args:
        tape: tape that is evaluated.
        points: points of the domain, (points, inputs), or None.
        rng: generator of the random points.
        dtype: dtype of the program.
        assumed: what holds of each input in all calls, "positive", "nonnegative", "nonzero" or ""; empty for nothing.
            Only points where it holds are returned.
    """
    span = SPANS[dtype]
    has_sign = np.array([name in ("positive", "nonnegative") for name in assumed] or [False])
    is_nonzero = np.array([name in ("positive", "nonzero") for name in assumed] or [False])
    at_random = rng.normal(size=(AT_RANDOM, tape.inputs))
    anywhere = np.concatenate([at_random, 4.0 * at_random, np.abs(at_random) + 0.1])
    anywhere = np.where(has_sign, np.abs(anywhere), anywhere)
    whole = np.round(rng.normal(size=(AT_RANDOM, tape.inputs)))
    if points is not None and len(points) and points.shape[1:] == (tape.inputs,):
        off = rng.normal(size=(AT_RANDOM, points.shape[1]))
        around = points[rng.integers(len(points), size=AT_RANDOM)]
        sizes = np.abs(around).max(axis=1, keepdims=True, initial=0.0)
        with np.errstate(all="ignore"):  # a user's point may be infinite
            around = np.concatenate(
                [around * (1 + 0.1 * off), around + 1e-2 * sizes * off, around * 2.0 ** np.clip(off, -1, 1)]
            )
        parts = [
            (around, "inside common generic"),
            (_near_zeros(tape, around, span, rng), "inside generic"),
            (anywhere, "common generic"),
            (points[:AT_RANDOM], "inside"),
        ]
    else:
        parts = [
            (anywhere, "inside common generic"),
            (_near_zeros(tape, anywhere, span, rng), "inside generic"),
        ]
    if GUARDS.intersection(tape.codes):
        parts.append((points_of_cases(tape.inputs, points), ""))
    parts += [(_rare(tape.inputs, span, rng), "generic"), (whole, "")]
    parts.append((_of_other_scales(tape.inputs, span, rng), "generic"))
    at = np.concatenate([at for at, _ in parts]).astype(dtype).astype(float)
    kinds = ("inside", "common", "generic")
    inside, common, generic = (np.concatenate([np.full(len(at), k in names) for at, names in parts]) for k in kinds)
    if len(assumed):
        at = np.where(has_sign, np.abs(at), at)
        fits = ~((at == 0.0) & is_nonzero).any(axis=1)
        at, inside, common, generic = at[fits], inside[fits], common[fits], generic[fits]
    return RealPoints(at, inside, common, generic, span)


#: Largest powers of ten by which points of other scales differ from 1, by the range of the type: values further away
#: overflow in products. Further powers refuse programs for numbers that nobody computes with, nearer ones miss programs
#: that overflow or lose digits at the user's scale.
SCALES: Final = {DOUBLE: 12.0, SINGLE: 4.0}
#: Offsets of clusters of inputs, relative to their distances, as powers of ten: differences of such inputs have as many
#: digits less. Larger powers leave no digits, smaller ones hide programs that multiply differences out.
OFFSETS: Final = {DOUBLE: (2.0, 10.0), SINGLE: (1.0, 4.0)}


def _of_other_scales(inputs: int, span: Span, rng: np.random.Generator) -> Reals:
    """Return points of large and small inputs, alike or not, and clusters of inputs, (points, inputs)."""
    numbers = rng.normal(size=(4 * AT_RANDOM, inputs))
    alike, apart, scaled, clusters = np.split(numbers, 4)
    powers = rng.uniform(-SCALES[span], SCALES[span], (AT_RANDOM, 1))
    offsets = 10.0 ** rng.uniform(*OFFSETS[span], (AT_RANDOM, 1))
    sizes = 10.0 ** rng.uniform(-SCALES[span] / 3, SCALES[span] / 3, (AT_RANDOM, 1))
    return np.concatenate(
        [
            alike * 10.0**powers,
            np.sign(apart) * 10.0 ** rng.uniform(-SCALES[span], SCALES[span], apart.shape),
            np.abs(scaled) * 10.0 ** rng.uniform(-SCALES[span] / 3, SCALES[span] / 3, scaled.shape),
            sizes * (rng.choice([-1.0, 1.0], (AT_RANDOM, 1)) + clusters / offsets),
        ]
    )


def _rare(inputs: int, span: Span, rng: np.random.Generator) -> Reals:
    """Return points close to 0, and points with one input far from 0, (points, inputs)."""
    near = rng.normal(size=(AT_RANDOM, inputs))
    far = rng.permutation([(k, x) for k in range(inputs) for x in FAR[span]])[:MOST_FAR].reshape(-1, 2)
    single = near[rng.integers(AT_RANDOM, size=len(far))]
    single[np.arange(len(far)), far[:, 0].astype(int)] = far[:, 1]
    return np.concatenate([1e-4 * near, single])


def _near_zeros(tape: Tape, points: Reals, span: Span, rng: np.random.Generator) -> Reals:
    """Return further points near zeros of an intermediate value, but not at the zeros."""
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) < FEWEST or not tape.operations:
        return points[:0]
    # values that may have a zero between two points
    values = rng.integers(tape.inputs, len(tape), size=4 * ZEROS)
    low, high = (points[rng.integers(len(points), size=len(values))] for _ in range(2))
    runs = RealRuns(tape, len(values), span, bounds=False)

    def value_at(points: Reals) -> Reals:
        results: Reals = runs.at(points)[0][values, np.arange(len(values))]
        return results

    before, after = value_at(low), value_at(high)
    crossing = np.flatnonzero(np.sign(before) * np.sign(after) < 0)[:ZEROS]
    values, low, way = values[crossing], low[crossing], high[crossing] - low[crossing]
    runs = RealRuns(tape, len(values), span, bounds=False)
    zeros = _zeros(lambda t: value_at(low + t[:, np.newaxis] * way), before[crossing], after[crossing])
    return np.concatenate([low + (zeros * (1 - near))[:, np.newaxis] * way for near in NEAR])


def _zeros(f: Callable[[Reals], Reals], before: Reals, after: Reals) -> Reals:
    """Return zeros of functions between 0 and 1, (functions,): by halving, then Illinois (Dowell, Jarratt, 1971).

    Args:
        f: function that evaluates all functions, each at its own point.
        before: values at 0, (functions,).
        after: values at 1, (functions,), of the opposite signs.
    """
    left, right, at_left, at_right = np.zeros(len(before)), np.ones(len(before)), before.copy(), after.copy()
    for turn in range(HALVINGS + SECANTS):
        t = 0.5 * (left + right)
        if turn >= HALVINGS:
            with np.errstate(all="ignore"):
                secant = (left * at_right - right * at_left) / (at_right - at_left)
            t = np.where((left < secant) & (secant < right), secant, t)
        at = f(t)
        moves_left = np.sign(at) == np.sign(before)
        # halve the value at the end that stays, so that it does not stay forever
        at_left, at_right = np.where(moves_left, at, 0.5 * at_left), np.where(moves_left, 0.5 * at_right, at)
        left, right = np.where(moves_left, t, left), np.where(moves_left, right, t)
    return t


# Defined by cases -----------------------------------------------------------------------------------------------------

#: Largest number of inputs that are zero or far alone, and of triples of inputs, such as vectors, that are zero. More
#: points take time, fewer miss points at which a case alone is defined.
ALONE: Final = 8
TRIPLES: Final = 16
#: Value of an input where exponentials overflow.
OVERFLOWING: Final = 1000.0
#: Operations by which programs keep out of what is undefined: a branch that is not taken, and bounds such as
#: max(length, 1e-9).
GUARDS: Final = frozenset(BY_NAME[name].code for name in ("select", "minimum", "maximum"))


def points_of_cases(inputs: int, points: Reals | None) -> Reals:
    """Return points at which functions are often defined by a case alone, (points, inputs): zeros, and far ones.

    Args:
        inputs: number of inputs.
        points: points of the domain, (points, inputs), or None.
    """
    is_given = points is not None and len(points) and points.shape[1:] == (inputs,)
    at = points[0] if points is not None and is_given else np.ones(inputs)
    all_of_them = np.ones((1, inputs), bool)
    single = np.eye(inputs, dtype=bool)[:ALONE]
    starts = np.arange(0, max(inputs - 2, 1), 1 if inputs <= TRIPLES else len("xyz"))[:TRIPLES]
    triples = (np.arange(inputs) >= starts[:, np.newaxis]) & (np.arange(inputs) < starts[:, np.newaxis] + len("xyz"))
    zeros = np.where(np.concatenate([all_of_them, single, triples]), 0.0, at)
    far = [np.where(np.concatenate([all_of_them, single]), side * OVERFLOWING, at) for side in (1.0, -1.0)]
    return np.concatenate([zeros, *far])


# Limits ---------------------------------------------------------------------------------------------------------------

#: Factor on the growth of bounds far from the given points, since bounds of long formulas exceed their errors. A larger
#: one accepts programs that lose digits there, a smaller one refuses theorems for their bounds alone.
ELSEWHERE: Final = 6.0
#: Largest factor for the growth of a result's error bound. A larger one accepts less accurate programs, a smaller one
#: refuses shorter programs. `make bench ARGS=rounding` measures the errors of results.
WORSE: Final = 4.0
#: Error that does not count, in units of rounding of the smallest number of full precision: near it, digits are lost to
#: underflow in any program. A larger one accepts programs that lose digits of tiny results, a smaller one refuses
#: programs where a result has underflowed to zero.
NEGLIGIBLE: Final = 2.0**24


#: Largest angle far from the given points at which rounding is judged: a larger one refuses theorems about rotations,
#: which lose digits in proportion to the angle, a smaller one accepts programs that lose digits after a few turns.
LARGEST_ANGLE: Final = 50.0


class Limits:
    """Errors of a program's outputs at real points, as limits for other programs for the same function.

    Args:
        points: real points.
        taken: outputs at the points and bounds on their errors, (outputs, points) each, of programs that are
            acceptable; others may be as uncertain. The first one is the original.
        gradients: of the last outputs, the function's result that each is a derivative of, and the input; other than at
            the given points, an error counts beside the largest entry of a gradient, each times its input. None for no
            derivatives.
    """

    def __init__(
        self,
        points: RealPoints,
        taken: Sequence[tuple[Reals, Reals]],
        gradients: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None,
    ) -> None:
        self._points, self._inside, _, self._generic, self._span = points
        self._negligible = NEGLIGIBLE * self._span.smallest
        #: Outputs of the original, and their error bounds; another program may be defined where it is not.
        self._before, self._uncertain = taken[0]
        self._limits = np.zeros(self._before.shape)
        for at, bounds in taken:
            # a bound that is not a number, from 0 · ∞, limits nothing
            limits = np.where(np.isnan(bounds) & np.isfinite(at), math.inf, np.fmax(bounds, np.abs(at)))
            self._limits = np.fmax(self._limits, limits)
        if gradients is not None:
            self._limits = self._of_gradients(*gradients)
        with np.errstate(invalid="ignore"):
            sizes = np.where(np.isfinite(self._before), np.abs(self._before), 0.0)
            usual = sizes[:, self._generic].max(axis=1, initial=0.0, keepdims=True)
            is_unknown = (SLACK * UNIT * self._uncertain > sizes) & (usual > 0.0) & (usual < LOST * sizes)
            #: Mask of outputs that have no digits, far from the given points: none of another program is worse.
            self._is_lost = (UNIT * self._uncertain > LOST * sizes) & ~self._inside
        #: Mask of outputs that have to stay numbers, (outputs, points). Where the bound is not a number, only the limit
        #: is unknown; where a value is far larger than elsewhere, and its error larger still, as beside a pole, nothing
        #: is known.
        self._is_defined = np.isfinite(self._before) & (np.isfinite(self._limits) | np.isnan(self._uncertain))
        self._is_defined &= ~is_unknown

    def _of_gradients(self, results: NDArray[np.intp], inputs: NDArray[np.intp]) -> Reals:
        """Return limits with those of gradients' entries raised to the largest, each times its input."""
        first, limits = len(self._limits) - len(results), self._limits.copy()
        sizes = np.abs(self._points.T[inputs])
        with np.errstate(all="ignore"):
            scaled = limits[first:] * sizes
            largest = np.zeros((results.max(initial=0) + 1, scaled.shape[1]))
            np.maximum.at(largest, results, np.where(np.isfinite(scaled), scaled, 0.0))
            is_given = self._inside & ~self._generic
            raised = np.where((sizes > 0.0) & ~is_given, largest[results] / sizes, 0.0)
        limits[first:] = np.fmax(limits[first:], raised)
        return limits

    @classmethod
    def of(
        cls,
        tape: Tape,
        points: RealPoints,
        gradients: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None,
    ) -> Limits:
        """Return the errors of one program; arguments as for the class."""
        at, bounds = run_at_points(tape, points.at, points.span)
        angles = [tape.first[r] for r in range(tape.inputs, len(tape)) if tape.codes[r] in _OF_ANGLES]
        with np.errstate(invalid="ignore"):
            is_turned = ~points.inside & (np.abs(at[[r for r in angles if r >= 0]]) > LARGEST_ANGLE).any(axis=0)
        points = points._replace(generic=points.generic & ~is_turned)
        return cls(points, [of_outputs(tape, at, bounds)], gradients)

    def worse(self, tape: Tape, times: float = WORSE) -> list[int]:
        """Return the outputs of a program that have another value anywhere, or a much larger error bound.

        Bounds may be `times` as large as the limits, and `ELSEWHERE` times that far from the given points.
        """
        at, bounds = run_at_points(tape, self._points, self._span)
        places = np.array(tape.outputs, np.int64)
        computed = np.flatnonzero(places >= 0)
        wrong = self._wrong(computed, at[places[computed]], bounds[places[computed]], times)
        outputs: list[int] = computed[wrong.any(axis=1)].tolist()
        return outputs

    def is_worse(self, tape: Tape, times: float = WORSE) -> bool:
        """Return True if any output is worse."""
        return bool(self.worse(tape, times))

    def _wrong(self, k: NDArray[np.int64], at: Reals, bounds: Reals, times: float) -> NDArray[np.bool_]:
        """Return True where an output is another number or its error bound is too large, (outputs, points)."""
        before, limit = self._before[k], self._limits[k]
        with np.errstate(invalid="ignore", over="ignore"):
            is_wrong = ~agree(at, bounds, before, self._uncertain[k])
            allowed = np.where(self._inside, times, ELSEWHERE * times) * limit
            # at single points a bound may come from 0 · ∞
            off = np.where(np.isnan(bounds), np.abs(at - before) / UNIT, bounds)
            is_accurate = (off <= allowed + self._negligible) | np.isinf(limit) | ~self._generic | self._is_lost[k]
            is_accurate |= times == math.inf  # not only where the limit is above 0
            is_wrong |= self._is_defined[k] & ~(np.isfinite(at) & is_accurate)
        return is_wrong
