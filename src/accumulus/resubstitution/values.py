"""Values of programs for the same function, identified by their residues.

Programs are run at random points of finite fields (`accumulus.rewriting.equivalence`) and at real ones. Results that
agree at all points are one value with several definitions: in finite fields they agree exactly, up to sign, so values
are equal as expressions; at real points they agree up to rounding, and are defined together.

Truth values and undefined values have no residues; they are identified by their definitions. So are values that must be
rounded as written (`accumulus.tape.live.as_written`), where that matters; elsewhere they are copies of a value.

At real points, programs run with first-order bounds on the error of each value (`accumulus.rewriting.rounding`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.native.machine import kernel
from accumulus.native.state import Integers, Records, zeros
from accumulus.resubstitution.compiled.definitions_kernel import NODE, WIDTH
from accumulus.resubstitution.compiled.pairs_kernel import DIFFERENCE, FILTER_BITS, Found, ValuePairsState
from accumulus.resubstitution.compiled.reading_kernel import (
    INDEX,
    INPUT,
    NUMBER,
    OTHER,
    READ,
    Form,
    Made,
    ReadingState,
)
from accumulus.rewriting.equivalence import Run, Verification, constant_residues
from accumulus.rewriting.rounding import LOST, SLACK, UNIT, RealPoints, Reals, of_outputs, run_at_points
from accumulus.tape.folding import Folding
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
_RESIDUES: Final = ("value_real", "value_imaginary")
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
        check: values of the base at points of finite fields, the first of which has the small prime.
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
        widths: list[tuple[int, Sequence[str], type]] = [
            (1, _NUMBERS, np.float64),
            (len(points.at), _AT_REAL_POINTS, np.float64),
            (1, _INTEGERS, np.int64),
            (check.points, _RESIDUES, np.int64),
        ]
        arrays: dict[str, Any] = {name: np.zeros((1, width), dtype) for width, names, dtype in widths for name in names}
        self._state = ReadingState(
            points=check.points,
            primes=check.modulo,
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
        """Numbers of the values that have residues, after 0 for none."""
        return np.concatenate([[0], np.flatnonzero(self._state.identified[: len(self), 0])])

    def read(self, tape: Tape, *, is_base: bool = False) -> Reading | None:
        """Read a program with the same outputs; None if it compares, or must round as written, something else."""
        run = self._check.run(tape)
        size, state = len(tape), self._state
        # an operation makes at most two values, as written and as a number; and 0, 1 and 2 may be new
        self._reserve(2 * size + len(tape.constants) + 3)
        reals, bounds = run_at_points(tape, self.points.at, self.points.span)
        state.size, state.inputs, state.rows = size, tape.inputs, rows_of(tape)
        state.constants = np.array(tape.constants, float)
        state.constant_residues = self._residues(state.constants, tape.folding)
        state.fixed = _fixed(tape, self._kept_outputs).astype(np.int64)
        state.is_sampled = _can_be_sampled(run, size).astype(np.int64)
        state.real, state.imaginary = run.real.reshape(-1), run.imaginary.reshape(-1)
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
        meanings = state.meanings.tolist(), state.exact.tolist()
        outputs = state.outputs.tolist()
        return Reading(tape, *meanings, first_definitions, outputs, *of_outputs(tape, reals, bounds))

    def pair(self, stop: Callable[[], bool]) -> None:
        """Find all sums, differences, products and quotients of two values that are another.

        Args:
            stop: function that returns True to stop early.
        """
        state, sampled = self._state, self.sampled
        real, imaginary = (getattr(state, name)[sampled] for name in _RESIDUES)
        table_bits = max(8, (4 * len(sampled)).bit_length())
        limit = min(MOST, len(_CODES) * len(sampled) ** 2)  # new memory takes time, though it is not written
        pairs = ValuePairsState(
            points=state.points,
            primes=state.primes,
            reciprocals=1.0 / state.primes,
            real=real.reshape(-1),
            imaginary=imaginary.reshape(-1),
            **zeros(len(sampled), "inverse_real inverse_imaginary keys"),
            open=((state.kinds[sampled, 0] == OTHER) & (sampled > 0)).astype(np.int64),
            count=len(sampled),
            table=np.zeros(1 << table_bits, np.int64),
            table_bits=table_bits,
            filter=np.zeros((1 << FILTER_BITS) // 64, np.int64),
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
        state.constant_residues = self._residues(state.constants, None)
        state.output_count = len(NUMBERS)
        kernel("resubstitution.reading")(state.address)
        self._name(before)

    def _residues(self, constants: Reals, folding: Folding | None) -> Integers:
        """Return the residues of the magnitudes of constants at all points, (constants · points,)."""
        modulo, which = np.unique(self._check.modulo, return_inverse=True)
        return constant_residues(np.abs(constants).tolist(), folding, modulo.tolist())[:, which].reshape(-1)

    def _reserve(self, more: int) -> None:
        """Grow the arrays to hold `more` further values, and as many forms."""
        state = self._state
        if state.count + more <= self._capacity and state.form_count + more <= self._form_capacity:
            return
        self._capacity, self._form_capacity = 2 * (state.count + more), 2 * (state.form_count + more)
        for name in (*_RESIDUES, *_AT_REAL_POINTS, *_NUMBERS, *_INTEGERS):
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
    """Return True for references that have residues, none of them 0, and are not truth values."""
    real, imaginary = run.real[:size], run.imaginary[:size]
    is_there: NDArray[np.bool_] = ((real > 0) | (imaginary > 0)).all(axis=1) & (run.is_truth[:size] == 0)
    return is_there


def _fixed(tape: Tape, kept_outputs: int) -> NDArray[np.bool_]:
    """Return the operations that have to be rounded as written."""
    fixed = np.frombuffer(as_written(tape, kept_outputs), bool).copy()
    seeing = seeing_zero_signs(tape)
    if len(seeing):
        fixed |= np.frombuffer(needed(tape, seeing.tolist()), bool)
        fixed[seeing] = True
    return fixed
