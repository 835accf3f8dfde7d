"""Iterations of a loop of Python as events, and as one body.

Every call that records operations is an event. Two iterations with equal events give a body: the events of the second
are recorded again on a tape of its own. Its inputs are the values from earlier iterations and from outside, and all
numbers that differ between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from enum import Enum, auto
from functools import partial
from math import copysign, isnan
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.frontends.active import ACTIVE, recording_on
from accumulus.frontends.inner import InnerTape, LongBodyError
from accumulus.frontends.location import user_line
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.complex_numbers import ComplexArray, ComplexScalar, make_complex
from accumulus.frontends.numpy.operands import Operand
from accumulus.frontends.numpy.scalars import TracedBoolean, TracedScalar
from accumulus.tape.columns import Range
from accumulus.tape.live import sees_zero_signs
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import LONG, Program
from accumulus.tape.segments import Lines
from accumulus.tape.tape import Tape

#: Largest number of operations of an iteration, and of one that has a loop of its own: longer bodies take longer to
#: prepare than operations on arrays, or than loops that are found in what is written out.
MOST_IN_BODY: Final = 1_000
MOST_AROUND_LOOPS: Final = 400
#: Largest number of blocks of an iteration over arrays: more are written out, fewer leave more to be written out.
MOST_BLOCKS: Final = 2_000
#: Least number of operations for each of these blocks, and of entries of a result, in the mean: fewer are loops over
#: numbers, which have too many blocks.
FEWEST_ENTRIES: Final = 4
#: Largest number of entries of an array that iterations take, and of all arrays of one: more take time to compare.
MOST_NUMBERS: Final = 1_000
MOST_ENTRIES: Final = 5_000
MOST_IN_ALL: Final = 50_000

#: Types of numbers, truth values of NumPy included, of other constants, of traced values, and of single operands.
NUMBERS: Final = frozenset((float, int, np.float64, np.float32, np.int64, np.int32, np.bool_))
_CONSTANTS: Final = frozenset((str, bytes, bool, type(None), type(Ellipsis)))
#: Kinds of arrays of numbers.
_KINDS: Final = "fiub"
_TRACED: Final = frozenset((TracedArray, TracedScalar, TracedBoolean, ComplexArray, ComplexScalar))
_SINGLE: Final = NUMBERS | {TracedScalar, TracedBoolean}
#: Types of arguments that are the same whenever they are the same object.
_FIXED: Final = (np.ufunc, np.dtype, type, type(np.sum), BuiltinFunctionType, range)

Site = tuple[Any, ...]
#: An operand of an event, by their positions.
Leaf = tuple[int, int]


class UnfitError(Exception):
    """Signal that iterations are recorded one by one."""


class _LongError(Exception):
    """Signal that a body has too many operations on numbers."""


# Arguments and results as leaves --------------------------------------------------------------------------------------


def append_leaves(tape: Program, value: Any, form: list[Any], leaves: list[Any]) -> None:
    """Append the form of a value, and its leaves: references, numbers as floats, and arrays of either.

    Raises:
        UnfitError: for a value that may change, that is too long, or that belongs to another recording.
    """
    kind = type(value)
    if kind is TracedScalar or kind is TracedBoolean or kind is TracedArray:
        if value.tape is not tape:
            raise UnfitError
        if kind is not TracedArray:
            form.append(kind)
        elif value.references.size <= MOST_ENTRIES:
            form.append((kind, value.boolean, value.references.shape))
        else:
            raise UnfitError
        leaves.append(value.entries)
    elif kind in NUMBERS:
        form.append(kind)
        try:
            leaves.append(float(value))
        except OverflowError:
            raise UnfitError from None
    elif kind in _CONSTANTS:
        form.append((kind, value))
    elif kind is np.ndarray and value.dtype.kind in _KINDS and value.size <= MOST_NUMBERS:
        form.append((kind, value.dtype, value.shape))
        leaves.append(np.array(value, np.float64))
    elif (parts := _parts(value)) is not None:
        form.append((kind, *value) if kind is dict else (kind, len(parts)))
        for part in parts:
            append_leaves(tape, part, form, leaves)
    elif isinstance(value, _FIXED) or (kind is FunctionType and str(value.__module__).startswith("numpy")):
        form.append((kind, id(value)))  # the event keeps it alive
    else:
        raise UnfitError


def _parts(value: Any) -> Sequence[Any] | None:
    """Return the parts of a container, a complex number or a slice; None for any other value."""
    kind = type(value)
    if kind is tuple or kind is list or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return [*value]
    if kind is dict:
        return list(value.values())
    if kind in (ComplexScalar, ComplexArray, complex, np.complex128):
        return value.real, value.imag
    if kind is np.ndarray and value.dtype == np.complex128:
        return value.real, value.imag
    return (value.start, value.stop, value.step) if kind is slice else None


def rebuilt(value: Any, leaves: Iterator[Any], make: Callable[[Any, Any], Any]) -> Any:
    """Return a value of the same form with other leaves, which `make` makes from the original ones and these."""
    kind = type(value)
    if kind in NUMBERS or kind in (TracedScalar, TracedBoolean, TracedArray):
        return make(value, next(leaves))
    if kind is np.ndarray and value.dtype.kind in _KINDS:
        return make(value, next(leaves))
    original = _parts(value)
    if original is None:
        return value
    parts = [rebuilt(part, leaves, make) for part in original]
    if kind is dict:
        return dict(zip(value, parts, strict=True))
    if kind is tuple or kind is list:
        return kind(parts)
    if kind is slice or isinstance(value, tuple):
        return kind(*parts)
    traced = next((part for part in parts if isinstance(part, Operand)), None)
    if kind is ComplexArray and traced is not None:
        return kind(traced.tape, *parts)
    return parts[0] + 1j * parts[1] if traced is None else make_complex(traced.tape, *parts)


def is_number(leaf: Any) -> bool:
    """Return True for a number or an array of numbers, False for references."""
    return type(leaf) is float or (type(leaf) is np.ndarray and leaf.dtype == np.float64)


def are_same_numbers(one: Any, other: Any) -> bool:
    """Return True for the same numbers, where NaN equals NaN and zeros of either sign differ."""
    if type(one) is float:
        is_same = one == other and (one != 0.0 or copysign(1.0, one) == copysign(1.0, other))
        return is_same or (isnan(one) and isnan(other))
    return bool(np.array_equal(one, other, equal_nan=True) and (np.signbit(one) == np.signbit(other)).all())


def listed_entries(leaf: Any) -> list[Any]:
    """Return the references or numbers of a leaf, in C order; none for None."""
    return [] if leaf is None else np.ravel(leaf).tolist()


def kept(leaf: Any) -> Any:
    """Return a copy of a leaf that may change: users fill arrays in place."""
    return leaf.copy() if type(leaf) is np.ndarray else leaf


def is_silent(result: Any, leaves: Sequence[Any]) -> bool:
    """Return True for the result of a call that recorded nothing and need not be an event.

    It is no traced value, or a view of an argument, which has to see changes of the argument.
    """
    if type(result) not in _TRACED:
        return True
    arrays = [result.real, result.imag] if type(result) is ComplexArray else [result]
    references = [each.references for each in arrays if type(each) is TracedArray]
    taken = [leaf for leaf in leaves if type(leaf) is np.ndarray]
    return any(np.may_share_memory(one, other) for one in references for other in taken)


def _operands(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the operands among the arguments: of a function of NumPy, a tuple and keywords, those in the tuple."""
    if len(arguments) == 3 and type(arguments[1]) is tuple and type(arguments[2]) is dict and not arguments[2]:
        return arguments[1]
    return arguments


class RecordedCall:
    """A call that was recorded: what recorded it, its arguments and results, and their leaves at the time of the call.

    Args:
        record: function that recorded the call.
        arguments: its arguments after the tape.
        form, leaves: form and leaves of the arguments before the call.
        tape: program that was recorded on.
        result: the result.

    Raises:
        UnfitError: for a result that may change.
    """

    __slots__ = (
        *("arguments", "form", "in_tuple", "kinds", "leaves", "line", "record"),
        *("result", "result_form", "result_leaves"),
    )

    def __init__(
        self, record: Callable[..., Any], arguments: Any, form: list[Any], leaves: list[Any], tape: Program, result: Any
    ) -> None:
        self.record, self.arguments, self.form, self.leaves = record, arguments, form, leaves
        self.result, self.line = result, user_line()
        self.result_form: list[Any] = []
        self.result_leaves: list[Any] = []
        append_leaves(tape, result, self.result_form, self.result_leaves)
        self.result_leaves = [*map(kept, self.result_leaves)]
        #: Types of the operands if all are single numbers, as for most calls; else None.
        operands = _operands(arguments)
        kinds, self.in_tuple = tuple(map(type, operands)), operands is not arguments
        self.kinds = kinds if _SINGLE.issuperset(kinds) else None

    def leaves_of(self, tape: Program, arguments: tuple[Any, ...]) -> list[Any] | None:
        """Return the leaves of the arguments of a call; None if these are of another form."""
        form: list[Any] = []
        leaves: list[Any] = []
        try:
            append_leaves(tape, arguments, form, leaves)
        except UnfitError:
            return None
        return leaves if form == self.form else None

    def positions_of(self, number: float) -> list[int]:
        """Return the positions of leaves that are this number and come from arrays, by their type."""
        kinds: list[type] = []

        def note(like: Any, leaf: Any) -> Any:
            kinds.append(type(like))
            return leaf

        rebuilt(self.arguments, iter(self.leaves), note)
        pairs = enumerate(zip(kinds, self.leaves, strict=True))
        return [k for k, (kind, leaf) in pairs if kind is np.float64 and are_same_numbers(leaf, number)]

    def is_like(self, other: RecordedCall) -> bool:
        """Return True if both are the same call but for the values."""
        return self.record == other.record and self.form == other.form and self.result_form == other.result_form

    def begins(self, other: RecordedCall) -> bool:
        """Return True if both are the same call but for the values, and for numbers here that are values there."""
        if self.record != other.record or self.result_form != other.result_form or len(self.form) != len(other.form):
            return False
        return all(
            one == another or ((shape := _shape(one)) is not None and shape == _shape(another, True))
            for one, another in zip(self.form, other.form, strict=True)
        )


def _shape(form: Any, traced: bool = False) -> Any:
    """Return the shape of numbers, or of traced ones, from their form; None for any other form."""
    if form in ((TracedScalar,) if traced else NUMBERS):
        return ()
    if type(form) is tuple and form[0] is (TracedArray if traced else np.ndarray) and len(form) == 3:
        return form[2] if not traced or not form[1] else None
    return None


class ResultPlace(NamedTuple):
    """Place of a value among the results of an iteration, all by position."""

    event: int
    leaf: int
    entry: int


class Iteration:
    """The events of an iteration that was recorded.

    Args:
        start: length of the program before it.

    Attributes:
        events: the events.
        is_fit: False if other operations were recorded, too.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.events: list[RecordedCall] = []
        self.is_fit = True

    def is_like(self, other: Iteration) -> bool:
        """Return True if both have the same events but for the values, and one at least."""
        if not self.events or len(self.events) != len(other.events):
            return False
        return all(one.is_like(another) for one, another in zip(self.events, other.events, strict=True))

    def begins(self, other: Iteration) -> bool:
        """Return True if both have the same events but for the values, and for numbers here that are values there."""
        if not self.is_fit or len(self.events) != len(other.events):
            return False
        return all(one.begins(another) for one, another in zip(self.events, other.events, strict=True))

    def places(self) -> dict[int, ResultPlace]:
        """Return the last place of each reference among the results."""
        places = {}
        for event, each in enumerate(self.events):
            for leaf, references in enumerate(each.result_leaves):
                if not is_number(references):
                    for entry, reference in enumerate(listed_entries(references)):
                        places[reference] = ResultPlace(event, leaf, entry)
        return places


def decision(tape: Any, refuted: Any) -> TracedBoolean:
    """Record a decision on numbers: a truth value that is false if `refuted` is 1, and true if it is 0."""
    if isinstance(refuted, TracedScalar):
        return TracedBoolean(tape, tape.apply("equal", refuted.reference, tape.constant(0.0)))
    tape.begin_loops()
    # a constant of its own, since equal conditions would imply each other
    apart = Range(tape.constant_apart(refuted), 0, 1)
    return TracedBoolean(tape, tape.apply_code(BY_NAME["logical_not"].code, (apart,)).start)


# Iterations as a body -------------------------------------------------------------------------------------------------


class FactsOfLoop:
    """What is known of a loop.

    Attributes:
        known: what a body did not expect: for numbers, True if they vary after they were the same for a while; for
            references, the sources of those that were thought to have others, since two results are one value.
        undecided: positions of the decisions that iterations decide in different ways.
        recordings: number of recordings that were begun anew because of new facts.
        has_loops: True if iterations have loops of many iterations.
    """

    def __init__(self) -> None:
        self.known: dict[Leaf, Any] = {}
        self.undecided: set[Site] = set()
        self.recordings, self.has_loops = 0, False


class InputKind(Enum):
    """Kinds of inputs of a body."""

    NUMBER = auto()  # numbers that vary
    REFERENCE = auto()  # references that vary
    CARRIED = auto()  # a value of the previous iteration
    COMMON = auto()  # a value from outside that is always the same


class BodyInput(NamedTuple):
    """An input of a body.

    Attributes:
        kind: its kind.
        place: place of the value in the previous iteration.
        reference: reference of the value from outside; of a carried value, in the last iteration that was recorded.
        slot: position of a carried value among the values that an iteration computes.
    """

    kind: InputKind
    place: ResultPlace | None = None
    reference: int = 0
    slot: int = 0


class _Constant(NamedTuple):
    """A constant operand."""

    value: float


class _Taken(NamedTuple):
    """An operand that is an input, by position."""

    position: int


#: Where an entry of an operand comes from; places are of the same iteration.
_Source = _Constant | ResultPlace | _Taken


class Expected:
    """What a leaf of an event is in each iteration.

    Attributes:
        first: its references in the first iteration; the numbers, if they do not vary.
        start, step: its references are ``start + k * step`` in each further iteration `k`.
        varies: mask of the entries that vary; True or False for a single one.
        has_varying: True if an entry varies.
    """

    __slots__ = ("first", "has_varying", "start", "step", "varies")

    def __init__(self, first: Any, start: Any, step: Any, varies: Any = False) -> None:
        self.first, self.start, self.step, self.varies = first, start, step, varies
        self.has_varying = bool(np.any(varies))

    def at(self, k: int) -> Any:
        """Return the references in iteration `k`."""
        return self.start + k * self.step if k else self.first


class SingleOperand(NamedTuple):
    """A single operand of an event, and what is expected of it in each iteration, see `Expected`."""

    kind: type[Any]  # of the operand
    is_traced: bool  # True for a reference, False for a number
    varies: bool
    first: Any
    start: int
    step: int


class IterationBody:
    """One iteration as a body.

    Args:
        program: program with the loop.
        before: an iteration.
        last: the next iteration, which is like it.
        facts: what is known of the loop.
        first: the iteration before them, if it is the first one and was recorded.

    Attributes:
        tape: the body.
        events: events of an iteration.
        recorded: the iterations before that the loop computes again, so that what was recorded is not needed.
        base: reference of the first value of the next iteration, in advance; values of those before precede it.
        slots: references on the tape of the values that are results of events, with their positions among those.
        operations: these references in order.
        size: number of these values.
        inputs: inputs of the tape.
        results: what the leaves of the results of each event are; None for numbers.
        expected: what the leaves of the arguments of each event are.
        single: the operands of each event with a single result and operands that are all single; None for the others.

    Raises:
        UnfitError: if iterations differ in another way than in numbers and values.
    """

    def __init__(
        self,
        program: Program,
        before: Iteration,
        last: Iteration,
        facts: FactsOfLoop,
        first: Iteration | None = None,
    ) -> None:
        self._program, self._last, self.events = program, last, last.events
        self._places_before, self._places = before.places(), last.places()
        self._most = MOST_AROUND_LOOPS if facts.has_loops else MOST_IN_BODY
        self._positions: dict[BodyInput, int] = {}
        self.inputs: list[BodyInput] = []
        sources = self._sources(before, facts.known)
        self.tape, recorded = self._on_some_tape(sources)
        self.slots: dict[int, int] = {}
        self._slot_places: list[ResultPlace] = []
        for event, leaves in enumerate(recorded):
            for leaf, references in enumerate(leaves):
                for entry, reference in enumerate(listed_entries(references)):
                    if reference >= self.tape.inputs and reference not in self.slots:
                        self.slots[reference] = len(self.slots)
                        self._slot_places.append(ResultPlace(event, leaf, entry))
        self.size, self.operations = len(self.slots), list(self.slots)
        self._occurrences: list[list[ResultPlace]] = [[] for _ in self.inputs]
        self._own: list[tuple[ResultPlace, ResultPlace]] = []
        self._fixed: list[tuple[ResultPlace, float]] = []
        self._note_places(sources)
        self.recorded = [last] if self._is_alike(last) else []
        if self.recorded and self._is_alike(before) and self._hands_on(before, last):
            self.recorded.insert(0, before)
            if first is not None and self._may_begin(first) and self._hands_on(first, before):
                self.recorded.insert(0, first)
        self.base = len(program) + len(self.recorded) * self.size
        self.inputs = [self._resolved(each, recorded) for each in self.inputs]
        self.results = [[self._in_advance(leaf) for leaf in leaves] for leaves in recorded]
        self.expected = [
            [self._expected(leaf, entries) for leaf, entries in zip(event.leaves, each, strict=True)]
            for event, each in zip(self.events, sources, strict=True)
        ]
        self.single = [
            self._single(event, operands, results)
            for event, operands, results in zip(self.events, self.expected, self.results, strict=True)
        ]

    # Where operands come from -----------------------------------------------------------------------------------------

    def _sources(self, before: Iteration, known: dict[Leaf, Any]) -> list[list[list[_Source]]]:
        """Return the source of each entry of each leaf of each event."""
        sources = []
        own: dict[int, ResultPlace] = {}
        for k, (one, other) in enumerate(zip(before.events, self.events, strict=True)):
            pairs = zip(one.leaves, other.leaves, strict=True)
            varies = other.record is decision or None
            sources.append(
                [self._of_leaf(*pair, own, varies or known.get((k, leaf))) for leaf, pair in enumerate(pairs)]
            )
            for leaf, (first, second) in enumerate(zip(one.result_leaves, other.result_leaves, strict=True)):
                if is_number(second):
                    if not self._is_same_constant(first, second):
                        raise UnfitError
                else:
                    own |= {each: ResultPlace(k, leaf, entry) for entry, each in enumerate(listed_entries(second))}
        return sources

    def _of_leaf(self, one: Any, other: Any, own: dict[int, ResultPlace], known: Any) -> list[_Source]:
        """Return the sources of the entries of a leaf, from the two iterations and what is known."""
        if is_number(one) != is_number(other):
            raise UnfitError
        pairs = [*zip(listed_entries(one), listed_entries(other), strict=True)]
        if is_number(one):
            return [
                _Constant(b) if not known and are_same_numbers(a, b) else self._input(BodyInput(InputKind.NUMBER))
                for a, b in pairs
            ]
        listed = known if isinstance(known, list) and len(known) == len(pairs) else [None] * len(pairs)
        return [
            self._of_reference(*pair, own)
            if each is None
            else each
            if isinstance(each, ResultPlace)
            else self._input(each)
            for pair, each in zip(pairs, listed, strict=True)
        ]

    def _of_reference(self, one: int, other: int, own: dict[int, ResultPlace]) -> _Source:
        if other >= self._program.inputs and other in own:
            return own[other]
        if one == other:
            return (
                _Constant(self._program.value_of(one))
                if one < 0
                else self._input(BodyInput(InputKind.COMMON, None, one))
            )
        if other >= self._program.inputs and other in self._places_before:
            return self._input(BodyInput(InputKind.CARRIED, self._places_before[other]))
        return self._input(BodyInput(InputKind.REFERENCE))

    def _input(self, made: BodyInput) -> _Taken:
        """Return an operand that is an input; those that vary are inputs of their own, in the order of the events."""
        if made.kind in (InputKind.NUMBER, InputKind.REFERENCE):
            self.inputs.append(made)
            return _Taken(len(self.inputs) - 1)
        position = self._positions.setdefault(made, len(self.inputs))
        if position == len(self.inputs):
            self.inputs.append(made)
        return _Taken(position)

    def _is_same_constant(self, one: Any, other: Any) -> bool:
        """Return True for equal constants; zeros of either sign differ if the program keeps signs."""
        is_signed = self._program.signed_zeros
        return are_same_numbers(one, other) if is_signed else bool(np.array_equal(one, other, equal_nan=True))

    def _note_places(self, sources: list[list[list[_Source]]]) -> None:
        """Note all operands that are inputs, and those that are earlier results of the same iteration."""
        for event, leaves in enumerate(sources):
            for leaf, entries in enumerate(leaves):
                for entry, source in enumerate(entries):
                    if isinstance(source, _Taken):
                        self._occurrences[source.position].append(ResultPlace(event, leaf, entry))
                    elif isinstance(source, ResultPlace):
                        self._own.append((ResultPlace(event, leaf, entry), source))
                    else:
                        self._fixed.append((ResultPlace(event, leaf, entry), source.value))

    def _may_begin(self, first: Iteration) -> bool:
        """Return True if the first iteration is like all others but for the values that it begins with."""
        if not first.begins(self._last) or not self._is_alike(first):
            return False
        for event, other in zip(first.events, self.events, strict=True):
            for one, another in zip(event.result_leaves, other.result_leaves, strict=True):
                if is_number(another) and not self._is_same_constant(one, another):
                    return False
        for place, value in self._fixed:
            given = listed_entries(first.events[place.event].leaves[place.leaf])[place.entry]
            if not isinstance(given, float):
                if given >= 0:
                    return False
                given = float(self._program.value_of(given))
            if not are_same_numbers(given, value):
                return False
        return True

    def _is_alike(self, iteration: Iteration) -> bool:
        """Return True if each input of an iteration has one value, and operands are the results that they should be."""
        arguments = [[*map(listed_entries, event.leaves)] for event in iteration.events]
        results = [[*map(listed_entries, event.result_leaves)] for event in iteration.events]
        for places in self._occurrences:
            if len({self._reference_of(arguments[event][leaf][entry]) for event, leaf, entry in places}) > 1:
                return False
        return all(
            arguments[a][b][c] == results[source.event][source.leaf][source.entry] for (a, b, c), source in self._own
        )

    def _reference_of(self, value: Any) -> int:
        """Return the reference of an entry of a leaf: of a constant, if it is a number."""
        return self._program.constant(value) if isinstance(value, float) else value

    def _hands_on(self, before: Iteration, after: Iteration) -> bool:
        """Return True if an iteration takes the values of the one before that all others take."""
        for taken, reference in zip(self.inputs, self.row_of(after), strict=True):
            if taken.place is not None:
                event, leaf, entry = taken.place
                if listed_entries(before.events[event].result_leaves[leaf])[entry] != reference:
                    return False
        return True

    def row_of(self, iteration: Iteration) -> list[int]:
        """Return the references of the inputs of an iteration that was recorded."""
        row: list[int] = []
        for (event, leaf, entry), *_ in self._occurrences:
            row.append(self._reference_of(listed_entries(iteration.events[event].leaves[leaf])[entry]))
        return row

    def computed_by(self, iteration: Iteration) -> dict[int, int]:
        """Return the slots of the values that an iteration has recorded, by their references."""
        found: dict[int, int] = {}
        for slot, (event, leaf, entry) in enumerate(self._slot_places):
            reference = listed_entries(iteration.events[event].result_leaves[leaf])[entry]
            if reference >= iteration.start:
                found.setdefault(reference, slot)
        return found

    def source_at(self, reference: int, k: int) -> ResultPlace | BodyInput:
        """Return the source of a reference that iteration `k` takes: a place in the same iteration, or an input."""
        if reference < self.base:
            place = None if k or reference < self._program.inputs else self._places.get(reference)
            return BodyInput(InputKind.REFERENCE) if place is None else BodyInput(InputKind.CARRIED, place)
        turn, slot = divmod(reference - self.base, self.size)
        if turn == k:
            return self._slot_places[slot]
        return (
            BodyInput(InputKind.CARRIED, self._slot_places[slot]) if turn == k - 1 else BodyInput(InputKind.REFERENCE)
        )

    # Recording --------------------------------------------------------------------------------------------------------

    def _on_some_tape(self, sources: list[list[list[_Source]]]) -> tuple[Any, list[list[Any]]]:
        """Return a tape with the events, and the references of the leaves of their results, None for numbers.

        It is one of operations on numbers; if these are too many, or on long arrays, one of operations on arrays.
        """
        leaves = [leaf for event in self.events for leaf in (*event.leaves, *event.result_leaves)]
        if sum(np.size(leaf) for leaf in leaves) > MOST_IN_ALL:
            raise UnfitError
        if max((np.size(leaf) for leaf in leaves if not is_number(leaf)), default=0) < LONG:
            inner = InnerTape(len(self.inputs), self._program)
            with suppress(LongBodyError, _LongError):
                return inner, self._recorded(inner, sources)
        made = [np.size(leaf) for event in self.events for leaf in event.result_leaves]
        if sum(made) < FEWEST_ENTRIES * len(made):
            raise UnfitError
        arrays: Any = Program(len(self.inputs), signed_zeros=self._program.signed_zeros)
        recorded = self._recorded(arrays, sources)
        blocks = len(arrays.blocks)
        if blocks > MOST_BLOCKS or arrays.operations < FEWEST_ENTRIES * blocks:
            raise UnfitError
        return arrays, recorded

    def finished(self) -> Any:
        """Return the tape with all values that are results of events as outputs."""
        tape: Any = self.tape.copy() if isinstance(self.tape, InnerTape) else copy(self.tape)
        if isinstance(self.tape, InnerTape):
            tape.__class__ = Tape  # of no recording
        tape.outputs = self.operations if isinstance(self.tape, InnerTape) else np.array(self.operations, np.int64)
        return tape

    def _recorded(self, tape: Any, sources: list[list[list[_Source]]]) -> list[list[Any]]:
        """Record the events on a tape; return the references of the leaves of their results, None for numbers."""
        results: list[list[Any]] = []
        truths = dict[int, int]()

        def at(source: _Source, boolean: bool) -> int:
            if isinstance(source, _Constant):
                return int(tape.constant(source.value))
            if isinstance(source, ResultPlace):
                return int(np.ravel(results[source.event][source.leaf])[source.entry])
            if boolean and source.position not in truths:  # a body takes truth values as numbers
                truths[source.position] = tape.apply("not_equal", source.position, tape.constant(0.0))
            return truths[source.position] if boolean else source.position

        def make(like: Any, pair: tuple[Any, list[_Source]]) -> Any:
            leaf, entries = pair
            if is_number(leaf) and all(isinstance(each, _Constant) for each in entries):
                return leaf.astype(like.dtype) if type(leaf) is np.ndarray else like
            boolean = like.boolean if isinstance(like, Operand) else np.asarray(like).dtype.kind == "b"
            references = np.array([at(each, boolean) for each in entries], np.int64)
            if type(leaf) is np.ndarray:
                return TracedArray(tape, references.reshape(leaf.shape), boolean=boolean)
            return (TracedBoolean if boolean else TracedScalar)(tape, int(references[0]))

        with recording_on(tape, ACTIVE.position, in_body=True):
            for event, entries in zip(self.events, sources, strict=True):
                if isinstance(tape, Program):
                    tape.locate = partial(_line_of, event)
                arguments = rebuilt(event.arguments, zip(event.leaves, entries, strict=True), make)
                result = event.record(tape, *arguments)
                form: list[Any] = []
                leaves: list[Any] = []
                append_leaves(tape, result, form, leaves)
                if isinstance(tape, InnerTape) and tape.operations > self._most:
                    raise _LongError
                if form != event.result_form or ACTIVE.refusal is not None:
                    raise UnfitError
                for leaf, before in zip(leaves, event.result_leaves, strict=True):
                    if is_number(leaf) and not self._is_same_constant(leaf, before):
                        raise UnfitError
                results.append([None if is_number(leaf) else kept(leaf) for leaf in leaves])
        self._program.folded_zero_signs |= tape.folded_zero_signs
        if self._program.tell_zero_signs is not None:
            sees = tape.sees_zero_signs if isinstance(tape, Program) else sees_zero_signs(tape)
            if sees or tape.folded_zero_signs:
                self._program.tell_zero_signs()
        self._program.has_linear_algebra |= tape.has_linear_algebra
        return results

    # References in advance --------------------------------------------------------------------------------------------

    def _resolved(self, made: BodyInput, recorded: list[list[Any]]) -> BodyInput:
        """Return an input with the slot of a carried value, and its reference in the last iteration.

        Raises:
            UnfitError: if it is carried, but not computed by iterations.
        """
        if made.place is None:
            return made
        event, leaf, entry = made.place
        slot = self.slots.get(listed_entries(recorded[event][leaf])[entry])
        if slot is None:
            raise UnfitError
        return made._replace(slot=slot, reference=listed_entries(self.events[event].result_leaves[leaf])[entry])

    def _advance(self, reference: int) -> tuple[int, int, int]:
        """Return what a value of the body is: `first`, `start` and `step` of `Expected`.

        Raises:
            UnfitError: for an input that varies.
        """
        if reference < 0:
            constant = self._program.constant(self.tape.value_of(reference))
            return constant, constant, 0
        if reference >= self.tape.inputs:
            start = self.base + self.slots[reference]
            return start, start, self.size
        taken = self.inputs[reference]
        if taken.kind is InputKind.COMMON:
            return taken.reference, taken.reference, 0
        if taken.kind is InputKind.CARRIED:
            return taken.reference, self.base - self.size + taken.slot, self.size
        raise UnfitError

    def _in_advance(self, leaf: Any) -> Expected | None:
        """Return what the references of a result are."""
        if leaf is None:
            return None
        return _table([(*self._advance(each), False) for each in listed_entries(leaf)], leaf)

    def _single(
        self, event: RecordedCall, operands: list[Expected], results: list[Expected | None]
    ) -> tuple[SingleOperand, ...] | None:
        """Return the operands of an event that has single operands and one single result; None for any other."""
        if event.kinds is None or type(event.result) not in (TracedScalar, TracedBoolean) or results[0] is None:
            return None
        return tuple(
            SingleOperand(kind, kind in _TRACED, each.has_varying, each.first, each.start, each.step)
            for kind, each in zip(event.kinds, operands, strict=True)
        )

    def _expected(self, leaf: Any, sources: list[_Source]) -> Expected:
        """Return what an operand is."""
        if is_number(leaf):
            varies = np.array([not isinstance(each, _Constant) for each in sources]).reshape(np.shape(leaf))
            return Expected(leaf, leaf, 0, varies)
        rows: list[tuple[int, int, int, bool]] = []
        for source, reference in zip(sources, listed_entries(leaf), strict=True):
            if isinstance(source, _Constant):
                rows.append((reference, reference, 0, False))
            elif isinstance(source, ResultPlace):
                made = self.results[source.event][source.leaf]
                assert made is not None
                parts = (np.ravel(each)[source.entry] for each in (made.first, made.start, made.step))
                first, start, step = map(int, parts)
                rows.append((first, start, step, False))
            elif self.inputs[source.position].kind is InputKind.REFERENCE:
                rows.append((0, 0, 0, True))
            else:
                rows.append((*self._advance(source.position), False))
        return _table(rows, leaf)


def _line_of(event: RecordedCall) -> Lines:
    return event.line


def _table(rows: list[tuple[int, int, int, bool]], leaf: Any) -> Expected:
    """Return what a leaf is, from a row for each entry."""
    if type(leaf) is int:
        return Expected(*rows[0])
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    first, start, step, varies = (each.reshape(np.shape(leaf)) for each in columns)
    return Expected(first, start, step, varies.astype(bool))
