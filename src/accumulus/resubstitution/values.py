"""Values of programs for the same function, identified by sampling.

Programs are run at random complex points (`accumulus.rewriting.equivalence`) and at real ones. Results that agree at
all points up to rounding and sign are one value with several definitions. At complex points functions are replaced by
others with the same symmetries, and sine and cosine by points of the unit circle, so that values are equal by algebra,
not by properties of the functions. At real points they are equal as numbers.

Truth values, infinite values and values without correct digits cannot be sampled; they are identified by their
definitions. So are values that must be rounded as written (`accumulus.tape.live.as_written`), where that matters;
elsewhere they are copies of a sampled value.

**Real points** of a function's domain are random, around the given points, and near zeros of the values that the
program computes. Programs run there with first-order bounds on the error of each value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import VerificationError
from accumulus.native.machine import kernel
from accumulus.native.state import Integers, Records
from accumulus.resubstitution.compiled.definitions_kernel import NODE, WIDTH
from accumulus.resubstitution.compiled.pairs_kernel import DIFFERENCE, FILTER_BITS, Found, ValuePairsState
from accumulus.resubstitution.compiled.reading_kernel import (
    INDEX,
    INPUT,
    KEY_BITS,
    NUMBER,
    OTHER,
    READ,
    Form,
    Made,
    ReadingState,
)
from accumulus.rewriting.equivalence import GUARDS, Verification, points_of_cases
from accumulus.rewriting.running import (
    DOUBLE,
    LOST,
    SINGLE,
    SLACK,
    SPANS,
    UNIT,
    RealRuns,
    Reals,
    Run,
    Span,
    run_at_points,
)
from accumulus.rewriting.scaling import with_short_constants
from accumulus.tape.live import as_written, needed, seeing_zero_signs
from accumulus.tape.operations import IN_SEARCH, OPERATIONS
from accumulus.tape.operations import UNIT as ADDITION
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, Tape

# Definitions ---------------------------------------------------------------------------------------------------------

#: Cost of an operation, by its code; a copy, whose code is -1, is free.
PRICES: Final = [*(IN_SEARCH.get(row.name, ADDITION) for row in OPERATIONS), 0]


class Definition(NamedTuple):
    """An operation that computes a value from others."""

    node: int  # the value
    code: int  # of the operation; a difference is a sum, and a definition that is another value itself is a `COPY`
    arguments: tuple[int, ...]  # values, negative where the negative is meant
    sign: int  # factor of the operation's result


def normal(node: int, code: int, arguments: Sequence[int], sign: int) -> Definition:
    """Return a definition in normal form: signs of products outside, first terms of sums positive, values sorted."""
    if code in (ADD, MULTIPLY):
        arguments = sorted(arguments, key=abs)
    if code in (MULTIPLY, DIVIDE):
        for argument in arguments:
            sign = sign if argument > 0 else -sign
        arguments = [abs(argument) for argument in arguments]
    elif code == ADD and arguments[0] < 0:
        sign, arguments = -sign, [-argument for argument in arguments]
    return Definition(node, code, tuple(arguments), sign)


class DefinitionTable:
    """Definitions without duplicates, numbered in the order in which they were found.

    Attributes:
        rows: (definitions, WIDTH), node, code, three arguments (0 if there are fewer) and sign of each.
    """

    def __init__(self) -> None:
        self.rows: Integers = np.zeros((0, WIDTH), np.int64)
        self._numbers: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Definition:
        node, code, a, b, c, sign = self.rows[number].tolist()
        return Definition(node, code, (a, b, c) if c else (a, b) if b else (a,), sign)

    def enter(self, rows: Integers) -> Integers:
        """Add rows in normal form that are new, and return the number of each."""
        numbering, before = self._numbers, len(self)
        keys = np.ascontiguousarray(rows).view(f"V{8 * WIDTH}").reshape(-1).tolist()
        numbers = np.fromiter((numbering.setdefault(key, len(numbering)) for key in keys), np.int64, len(keys))
        distinct, places = np.unique(numbers, return_index=True)
        self.rows = np.concatenate([self.rows, rows[places[distinct >= before]]])
        return numbers

    def add(self, definition: Definition) -> int:
        """Add one definition, and return its number."""
        arguments = [*definition.arguments, 0, 0][:3]
        row = [definition.node, definition.code, *arguments, definition.sign]
        return int(self.enter(np.array([row], np.int64))[0])


# Values --------------------------------------------------------------------------------------------------------------

#: Largest relative error of a value for which equal values are searched. With a larger one, rounded values are equal by
#: chance; with a smaller one, values with cancellation find no equals.
ACCURATE: Final = 1e-11
#: Number of pairs that the kernel tries in one call, and largest capacity for definitions. More pairs in a call react
#: later to the deadline, fewer make more calls; a smaller capacity loses definitions of large programs.
PAIRS: Final = 200_000
MOST: Final = 1_000_000
#: Numbers that definitions may use even if the program does not contain them. Each is paired with every value, which
#: takes time.
NUMBERS: Final = (1.0, 2.0)
#: Range to which error bounds are clipped for comparison. A wider range lets a bound of 0 or infinity at one point
#: outweigh all other points, a narrower one hides differences.
TINY, HUGE = 1e-30, 1e30
_ARITIES: Final = np.array([row.arity for row in OPERATIONS])
#: Arrays of the kernel's state that belong to values.
_AT_COMPLEX_POINTS: Final = ("value_real", "value_imaginary", "value_errors")
_AT_REAL_POINTS: Final = ("value_reals", "value_bounds")
_NUMBERS: Final = ("numbers", "value_scores")
_INTEGERS: Final = ("kinds", "identified", "signs", "positions", "value_finite")
#: Codes of definitions, by the kind of a pair: sum, difference, product, quotient.
_CODES: Final = (ADD, ADD, MULTIPLY, DIVIDE)


class Reading(NamedTuple):
    """Values of one program."""

    tape: Tape  # the program
    meanings: list[int]  # value of each reference, negative where the negative is meant
    exact: list[int]  # the same, except that operations that must be rounded as written have separate values
    first_definitions: dict[int, int]  # number of the first definition of each value in the program
    outputs: list[int]  # values of the outputs
    # at, bounds: outputs at the real points, and bounds on their errors, (outputs, points) each
    at: Reals
    bounds: Reals


class Values:
    """Values, numbered from 1 on, and their definitions.

    Args:
        base: program whose outputs are needed; further programs only add values and definitions.
        check: values of the base at complex points.
        points: real points.
        kept_outputs: number of leading outputs whose operations stay unchanged.

    Attributes:
        base: reading of the base program.
        definitions: all known definitions, also of values that must be rounded as written.
        numbers: constants, by value.
        inputs: (sign, position) of inputs and their negatives, by value.
        fixed: numbers of the definitions of values that must be rounded as written, by value.
        points: real points.
    """

    def __init__(self, base: Tape, check: Verification, points: RealPoints, kept_outputs: int = 0) -> None:
        self.definitions = DefinitionTable()
        self.numbers: dict[int, float] = {}
        self.inputs: dict[int, tuple[int, int]] = {}
        self.fixed: dict[int, int] = {}
        self.points = points
        self._check, self._kept_outputs = check, kept_outputs
        self._capacity, self._form_capacity = 0, 0
        widths = ((1, _NUMBERS), (check.points, _AT_COMPLEX_POINTS), (len(points.at), _AT_REAL_POINTS))
        arrays: dict[str, Any] = {name: np.zeros((1, width)) for width, names in widths for name in names}
        arrays |= {name: np.zeros((1, 1), np.int64) for name in _INTEGERS}
        self._state = ReadingState(
            complex_points=check.points,
            real_points=len(points.at),
            arities=_ARITIES,
            common=points.common.astype(np.int64),
            rounding=SLACK * UNIT,
            lost=LOST,
            **arrays,
        )
        # number 0 stands for no value
        self._state.value_reals[:], self._state.value_bounds[:] = math.nan, math.inf
        read = self.read(base, is_base=True)
        assert read is not None
        self.base = read
        self._read_numbers()

    def __len__(self) -> int:
        """Return the upper bound (exclusive) on the numbers of values; 0 stands for none."""
        return self._state.count

    @property
    def reals(self) -> Reals:
        """Values at the real points, (values, points)."""
        return self._state.value_reals[: len(self)]

    @property
    def bounds(self) -> Reals:
        """Bounds on the errors of `reals`, in units of rounding, (values, points)."""
        return self._state.value_bounds[: len(self)]

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Mask of values that are inputs or numbers, (values,)."""
        mask: NDArray[np.bool_] = self._state.kinds[: len(self), 0] != OTHER
        return mask

    @property
    def sampled(self) -> Integers:
        """Numbers of the values that can be sampled at complex points, after 0 for none."""
        return np.concatenate([[0], np.flatnonzero(self._state.identified[: len(self), 0])])

    def at_complex_point(self, nodes: Integers, point: int) -> tuple[Reals, Reals]:
        """Return real and imaginary parts of values at a complex point; `point` is taken modulo their number."""
        state = self._state
        column = point % state.complex_points
        return state.value_real[nodes, column], state.value_imaginary[nodes, column]

    def read(self, tape: Tape, *, is_base: bool = False) -> Reading | None:
        """Read a program with the same outputs; None if it compares, or must round as written, something else."""
        if not is_base:
            tape = with_short_constants(tape, self.base.tape.constants)
        try:
            complexes = self._check.run(tape)
        except VerificationError:  # it has a comparison that the base has not
            return None
        size, state = len(tape), self._state
        # an operation makes at most two values, as written and as a number; and 0, 1 and 2 may be new
        self._reserve(2 * size + len(tape.constants) + 3)
        reals, bounds = run_at_points(tape, self.points.at, self.points.span)
        state.size, state.inputs, state.rows = size, tape.inputs, rows_of(tape)
        state.constants = np.array(tape.constants, float)
        state.fixed = _fixed(tape, self._kept_outputs).astype(np.int64)
        state.is_sampled = _can_be_sampled(complexes, size).astype(np.int64)
        state.real, state.imaginary = complexes.real.reshape(-1), complexes.imaginary.reshape(-1)
        state.errors = complexes.errors.reshape(-1)
        state.reals, state.bounds = reals.reshape(-1), bounds.reshape(-1)
        state.scores = np.log(np.clip(bounds, TINY, HUGE)).sum(axis=1)
        state.finite = np.asarray(np.isfinite(reals)[:, self.points.generic].all(axis=1), np.int64)
        state.is_base, state.kept_outputs = int(is_base), self._kept_outputs
        state.outputs, state.output_count = np.array(tape.outputs, np.int64), len(tape.outputs)
        state.meanings, state.exact = np.zeros(size, np.int64), np.zeros(size, np.int64)
        state.made = Records.zeros(Made, 2 * size)
        before = state.count
        understood = kernel("resubstitution.reading")(state.address)
        self._name(before)
        first_definitions = self._defined()
        if not understood:
            return None
        numbers = np.broadcast_to(np.array(tape.constants[::-1]).reshape(-1, 1), (len(tape.constants), reals.shape[1]))
        at, uncertain = np.concatenate([reals, numbers]), np.concatenate([bounds, np.zeros_like(numbers)])
        meanings = state.meanings.tolist(), state.exact.tolist()
        return Reading(
            tape, *meanings, first_definitions, state.outputs.tolist(), at[tape.outputs], uncertain[tape.outputs]
        )

    def pair(self, stop: Callable[[], bool]) -> None:
        """Find all sums, differences, products and quotients of two values that are another.

        Args:
            stop: function that returns True to stop early.
        """
        state, sampled = self._state, self.sampled
        real, imaginary, errors = (getattr(state, name)[sampled] for name in _AT_COMPLEX_POINTS)
        table_bits = max(8, (4 * len(sampled)).bit_length())
        inverses = np.zeros(len(sampled))
        with np.errstate(over="ignore", divide="ignore"):  # overflow makes no quotient that is looked up
            inverses[1:] = 1.0 / (real[1:, 0] ** 2 + imaginary[1:, 0] ** 2)
        limit = min(MOST, len(_CODES) * len(sampled) ** 2)  # new memory takes time, though it is not written
        pairs = ValuePairsState(
            points=state.complex_points,
            real=real.reshape(-1),
            imaginary=imaginary.reshape(-1),
            errors=errors.reshape(-1),
            open=((state.kinds[sampled, 0] == OTHER) & (sampled > 0)).astype(np.int64),
            count=len(sampled),
            keys=real[:, 0].copy().view(np.int64) >> KEY_BITS,
            table=np.zeros(1 << table_bits, np.int64),
            table_bits=table_bits,
            filter=np.zeros((1 << FILTER_BITS) // 64, np.int64),
            inverses=inverses,
            rounding=SLACK * UNIT,
            matches=Records.zeros(Found, limit),
            match_limit=limit,
        )
        search = kernel("resubstitution.value_pairs")
        search(pairs.address)
        pairs.begin = 1
        while pairs.begin < len(sampled) and not stop():
            pairs.end = min(len(sampled), pairs.begin + max(1, PAIRS // len(sampled)))
            search(pairs.address)
            pairs.begin = pairs.end
        targets, way, i, j = pairs.matches.words.reshape(-1, len(Found.fields))[: pairs.match_count].T
        # except in quotients, the first of a pair is no larger than the second; only differences have signs
        first, second = sampled[i], np.where(way == DIFFERENCE, -1, 1) * sampled[j]
        columns = (
            sampled[np.abs(targets)],
            np.array(_CODES)[way],
            first,
            second,
            np.zeros_like(targets),
            np.sign(targets),
        )
        self.definitions.enter(np.stack(columns, axis=1))

    def _defined(self) -> dict[int, int]:
        """Enter the definitions of the tape that was read; return the number of each value's first definition."""
        state = self._state
        made = state.made.words.reshape(-1, len(Made.fields))[: state.made_count]
        numbers = self.definitions.enter(made[:, :WIDTH]).tolist()
        first_definitions: dict[int, int] = {}
        for node, number, fixed in zip(made[:, NODE].tolist(), numbers, made[:, WIDTH].tolist(), strict=True):
            first_definitions.setdefault(node, number)
            if fixed:
                self.fixed[node] = number
        return first_definitions

    def _name(self, before: int) -> None:
        """Record the inputs and numbers among the values from `before` on."""
        state = self._state
        for node in range(before, state.count):
            kind = state.kinds[node, 0]
            if kind == NUMBER:
                self.numbers[node] = float(state.numbers[node, 0])
            elif kind == INPUT:
                self.inputs[node] = int(state.signs[node, 0]), int(state.positions[node, 0])

    def _read_numbers(self) -> None:
        """Add the numbers that definitions may use even if no program contains them."""
        state, before = self._state, len(self)
        state.size = state.inputs = state.kept_outputs = 0
        state.constants, state.outputs = np.array(NUMBERS), np.arange(-1, -1 - len(NUMBERS), -1)
        state.output_count = len(NUMBERS)
        kernel("resubstitution.reading")(state.address)
        self._name(before)

    def _reserve(self, more: int) -> None:
        """Grow the arrays to hold `more` further values, and as many forms."""
        state = self._state
        if state.count + more <= self._capacity and state.form_count + more <= self._form_capacity:
            return
        self._capacity, self._form_capacity = 2 * (state.count + more), 2 * (state.form_count + more)
        for name in (*_AT_COMPLEX_POINTS, *_AT_REAL_POINTS, *_NUMBERS, *_INTEGERS):
            array = getattr(state, name)
            grown = np.zeros((self._capacity, array.shape[1]), array.dtype)
            grown[: state.count] = array[: state.count]
            setattr(state, name, grown)
        forms = Records.zeros(Form, self._form_capacity)
        used = len(Form.fields) * state.form_count
        forms.words[:used] = state.forms.words[:used]
        state.forms, state.table_bits = forms, (2 * max(self._capacity, self._form_capacity) - 1).bit_length()
        state.form_table, state.key_table = np.zeros((2, 1 << state.table_bits), np.int64)
        state.mode = INDEX
        kernel("resubstitution.reading")(state.address)
        state.mode = READ


def _can_be_sampled(run: Run, size: int) -> NDArray[np.bool_]:
    """Return True for references that can be sampled: finite, accurate, and not truth values."""
    sizes, errors = run.sizes[:size], run.errors[:size]
    with np.errstate(invalid="ignore"):
        is_accurate = (sizes > 0.0) & (sizes < math.inf) & (UNIT * errors <= ACCURATE * sizes)
    can_be_sampled: NDArray[np.bool_] = is_accurate.all(axis=1) & (np.frombuffer(run.is_truth, np.uint8)[:size] == 0)
    return can_be_sampled


def _fixed(tape: Tape, kept_outputs: int) -> NDArray[np.bool_]:
    """Return the operations that have to be rounded as written."""
    fixed = np.frombuffer(as_written(tape, kept_outputs), bool).copy()
    seeing = seeing_zero_signs(tape)
    if len(seeing):
        fixed |= np.frombuffer(needed(tape, seeing.tolist()), bool)
        fixed[seeing] = True
    return fixed


# Real points ---------------------------------------------------------------------------------------------------------

#: Number of random points, around given points or around 0: more take time for each value and check, fewer miss points
#: at which a definition is less accurate.
AT_RANDOM: Final = 12
#: Values of single inputs at points far away, where functions approach limits; and the largest number of such points.
#: More points take time for each value and check, fewer miss overflow and loss of digits; values further away overflow
#: in most programs.
FAR: Final = {DOUBLE: (-300.0, -30.0, 30.0, 300.0), SINGLE: (-80.0, -30.0, 30.0, 80.0)}
MOST_FAR: Final = 48
#: Number of values whose zeros are searched, relative distances of points from a zero, and steps to find it. More zeros
#: and steps take time, fewer miss cancellation next to zeros; at smaller distances all digits are lost in any program.
ZEROS: Final = 24
NEAR: Final = (1e-3, 1e-7)
HALVINGS: Final = 4
SECANTS: Final = 9
#: Least number of points to draw from: with one, no interval between two points can have a zero.
FEWEST: Final = 2


class RealPoints(NamedTuple):
    """Real points of evaluation, and their kinds."""

    at: Reals  # (points, inputs)
    # (points,), True in the relevant part of the domain: around the given points, if there are any
    inside: NDArray[np.bool_]
    # (points,), True for typical points of programs, neither far away nor close to a limit
    common: NDArray[np.bool_]
    generic: NDArray[np.bool_]  # (points,), True if a value that is undefined there is undefined all around
    span: Span = DOUBLE  # range of the type that programs are computed in


def points_of(
    tape: Tape, points: Reals | None, rng: np.random.Generator, dtype: str = "float64", *, few: bool = False
) -> RealPoints:
    """Return real points of evaluation, some of them in the domain, rounded to a dtype.

    Args:
        tape: tape that is evaluated.
        points: points of the domain, (points, inputs), or None.
        rng: generator of the random points.
        dtype: dtype of the program.
        few: if True, omit zeros far from the given points, and half of the points far from 0.
    """
    span = SPANS[dtype]
    at_random = rng.normal(size=(AT_RANDOM, tape.inputs))
    anywhere = np.concatenate([at_random, 4.0 * at_random, np.abs(at_random) + 0.1])
    whole = np.round(rng.normal(size=(AT_RANDOM, tape.inputs)))
    if points is not None and len(points) and points.shape[1:] == (tape.inputs,):
        off = rng.normal(size=(AT_RANDOM, points.shape[1]))
        around = points[rng.integers(len(points), size=AT_RANDOM)]
        around = np.concatenate([around * (1 + 0.1 * off), around + 1e-2 * off, around * 2.0 ** np.clip(off, -1, 1)])
        near, *elsewhere = _near_zeros(tape, [around] if few else [around, anywhere], span, rng)
        parts = [
            (around, "inside common generic"),
            (near, "inside generic"),
            (anywhere, "common generic"),
            *((zeros, "generic") for zeros in elsewhere),
            (points[:AT_RANDOM], "inside"),
        ]
    else:
        (near,) = _near_zeros(tape, [anywhere], span, rng)
        parts = [
            (anywhere, "inside common generic"),
            (near, "inside generic"),
        ]
    if GUARDS.intersection(tape.codes):
        parts.append((points_of_cases(tape.inputs, points), ""))
    parts += [(_rare(tape.inputs, span, rng, MOST_FAR // 2 if few else MOST_FAR), "generic"), (whole, "")]
    at = np.concatenate([at for at, _ in parts]).astype(dtype).astype(float)
    kinds = ("inside", "common", "generic")
    inside, common, generic = (np.concatenate([np.full(len(at), k in names) for at, names in parts]) for k in kinds)
    return RealPoints(at, inside, common, generic, span)


def _rare(inputs: int, span: Span, rng: np.random.Generator, most: int) -> Reals:
    """Return points close to 0, and at most `most` points with one input far from 0, (points, inputs)."""
    near = rng.normal(size=(AT_RANDOM, inputs))
    far = rng.permutation([(k, x) for k in range(inputs) for x in FAR[span]])[:most].reshape(-1, 2)
    single = near[rng.integers(AT_RANDOM, size=len(far))]
    single[np.arange(len(far)), far[:, 0].astype(int)] = far[:, 1]
    return np.concatenate([1e-4 * near, single])


def _near_zeros(tape: Tape, sets: Sequence[Reals], span: Span, rng: np.random.Generator) -> list[Reals]:
    """Return, for each set of points, further points near zeros of an intermediate value, but not at the zeros.

    The zeros of all sets are searched together.
    """
    finite = [points[np.isfinite(points).all(axis=1)] for points in sets]
    enough = [len(points) >= FEWEST and tape.operations > 0 for points in finite]
    if not all(enough):
        nearby = iter(_near_zeros(tape, [each for each, some in zip(finite, enough, strict=True) if some], span, rng))
        return [next(nearby) if some else points[:0] for points, some in zip(sets, enough, strict=True)]
    if not sets:
        return []
    # values that may have a zero between two points
    drawn = []
    for each in finite:
        values = rng.integers(tape.inputs, len(tape), size=4 * ZEROS)
        drawn.append((values, *(each[rng.integers(len(each), size=len(values))] for _ in range(2))))
    values, low, high = (np.concatenate(columns) for columns in zip(*drawn, strict=True))
    runs = RealRuns(tape, len(values), span, bounds=False)

    def value_at(points: Reals) -> Reals:
        results: Reals = runs.at(points)[0][values, np.arange(len(values))]
        return results

    before, after = value_at(low), value_at(high)
    crosses = (np.sign(before) * np.sign(after) < 0).reshape(len(sets), -1)
    # at most `ZEROS` per set
    crossing = np.flatnonzero(crosses & (np.cumsum(crosses, axis=1) <= ZEROS))
    counts = np.bincount(crossing // crosses.shape[1], minlength=len(sets))
    values, low, way = values[crossing], low[crossing], high[crossing] - low[crossing]
    runs = RealRuns(tape, len(values), span, bounds=False)

    zeros = _zeros(lambda t: value_at(low + t[:, np.newaxis] * way), before[crossing], after[crossing])
    near = [np.split(low + (zeros * (1 - near))[:, np.newaxis] * way, np.cumsum(counts)[:-1]) for near in NEAR]
    return [np.concatenate(parts) for parts in zip(*near, strict=True)]


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
