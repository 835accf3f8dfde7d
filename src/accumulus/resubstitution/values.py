"""Values that programs for the same function compute, whatever they compute them by.

Programs are run at random complex points (`accumulus.rewriting.equivalence`) and at real ones. What agrees at all of
them up to rounding and to its sign is one value, with several definitions. At complex points functions have stand-ins
with their symmetries, and sine and cosine are points of the unit circle: values are equal by algebra there, not by what
functions happen to be. At real points they are equal as numbers.

What cannot be told by its value is told by how it is computed: truths, what is infinite, and what rounding has left no
digits of. What has to be rounded as it is written (`accumulus.tape.live.as_written`) is told by that, too, and always
there; elsewhere its value is one like others, and it is a copy of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import VerificationError
from accumulus.native.machine import kernel
from accumulus.native.state import Records
from accumulus.resubstitution.bounds import Reals, agree, run
from accumulus.resubstitution.compiled.pairs_state import (
    DIFFERENCE,
    KEY_BITS,
    PRODUCT,
    QUOTIENT,
    SUM,
    TRY,
    Found,
    PairsState,
)
from accumulus.resubstitution.definitions import (
    ADD,
    COPY,
    DIVIDE,
    MULTIPLY,
    NEGATIVE,
    SUBTRACT,
    Definition,
    normal,
)
from accumulus.resubstitution.points import Points
from accumulus.rewriting.compiled.rewrite_state import CONSTANT
from accumulus.rewriting.equivalence import SLACK, UNIT, Verification
from accumulus.rewriting.stand_ins import size
from accumulus.tape.live import as_written, needed, seeing_zero_signs
from accumulus.tape.operations import INPUT
from accumulus.tape.tape import Tape

__all__ = ["Reading", "Values"]

#: What a value's error may be, as a part of it, for its equals to be found.
KNOWN: Final = 1e-11
#: Pairs that the kernel tries in one call, and definitions that there is room for.
PAIRS: Final = 200_000
MOST: Final = 1_000_000
#: The form of what is rounded as it is written.
FIXED: Final = -2
#: Numbers that definitions may take whether or not a program has them.
NUMBERS: Final = (1.0, 2.0)
#: Between these, bounds are compared.
TINY, HUGE = 1e-30, 1e30
_WAYS: Final = {SUM: ADD, DIFFERENCE: ADD, PRODUCT: MULTIPLY, QUOTIENT: DIVIDE}


class Reading(NamedTuple):
    """What a program computes.

    Attributes:
        tape: the program.
        meanings: the value of each reference, negative where the negative is meant.
        exact: the same, but what has to be rounded as it is written stands for itself.
        own: definitions as the program has them first, by value.
        outputs: values.
    """

    tape: Tape
    meanings: list[int]
    exact: list[int]
    own: dict[int, Definition]
    outputs: list[int]


class _Known(NamedTuple):
    """A value at complex points, the first part of it positive, and the size of its error at each."""

    at: tuple[complex, ...]
    errors: tuple[float, ...]


class Values:
    """Values, numbered from 1 on, and definitions of them.

    Args:
        base: the program whose outputs are wanted; others only add to what is known.
        checks: complex points at which it was run.
        points: real ones.
        kept_outputs: that many of its first outputs are computed as they are.

    Attributes:
        base: what the program computes.
        definitions: all that are known, in the order in which they were found.
        numbers: values that are numbers, and what they are.
        inputs: values that are inputs, or their negatives: with the sign, the position, by value.
        fixed: definitions of what has to be rounded as it is written, by value.
        points: real points, (points, inputs); and which of them are `generic`.
    """

    def __init__(self, base: Tape, checks: Sequence[Verification], points: Points, kept_outputs: int = 0) -> None:
        self.definitions: dict[Definition, None] = {}
        self.numbers: dict[int, float] = {}
        self.inputs: dict[int, tuple[int, int]] = {}
        self.fixed: dict[int, Definition] = {}
        self.points, self.generic = points
        self._checks, self._kept_outputs = checks, kept_outputs
        self._known: list[_Known | None] = [None]
        #: Of each value, at real points, with the bound of its error, and how good that is.
        self._reals: list[Reals] = [np.full(len(points.at), np.nan)]
        self._bounds: list[Reals] = [np.full(len(points.at), np.inf)]
        self._scores: list[float] = [math.inf]
        self._by_key: dict[int, list[int]] = {}
        self._by_form: dict[tuple[object, ...], int] = {}
        self._dimension = 0
        read = self.read(base, is_base=True)
        assert read is not None
        self.base = read
        for number in NUMBERS:
            self._number(number)

    def __len__(self) -> int:
        """Numbers of values are below this; 0 is none."""
        return len(self._known)

    @property
    def reals(self) -> Reals:
        """Each value at the real points, (values, points)."""
        return np.array(self._reals)

    @property
    def bounds(self) -> Reals:
        """Bounds on their errors, in units of rounding, (values, points)."""
        return np.array(self._bounds)

    def read(self, tape: Tape, *, is_base: bool = False) -> Reading | None:
        """What a program for the same computes; None if what is rounded as written is written in another way there."""
        try:
            runs = [each for check in self._checks for each in check.runs_of(tape)]
        except VerificationError:  # it compares something else
            return None
        self._dimension = len(runs)
        fixed = _fixed(tape, self._kept_outputs)
        reals, bounds = run(tape, self.points)
        found = Reading(tape, [], [], {}, [])
        meanings, exact, own = found.meanings, found.exact, found.own
        for r in range(len(tape)):
            at, errors = tuple(values[r] for values, _ in runs), tuple(errors[r] for _, errors in runs)
            seen = reals[r], bounds[r]
            if r < tape.inputs:
                meanings.append(self._input(r, at, seen))
                exact.append(meanings[r])
                continue
            code = tape.codes[r]
            if code == NEGATIVE:
                meanings.append(-self._meaning(meanings, tape, tape.first[r]))
                exact.append(-self._meaning(exact, tape, tape.first[r]))
                continue
            arguments = [self._meaning(exact if fixed[r] else meanings, tape, a) for a in tape.arguments(r)]
            if code == SUBTRACT:
                code, arguments = ADD, [arguments[0], -arguments[1]]
            if fixed[r]:
                written = normal(0, code, arguments, 1)
                form = FIXED, written.code, written.arguments
                if form not in self._by_form:
                    if not is_base:
                        return None
                    node = self._by_form[form] = self._new(None, written.sign, seen)
                    own[node] = self.fixed[node] = written._replace(node=node, sign=1)
                exact.append(written.sign * self._by_form[form])
                code, arguments = COPY, [exact[r]]
            value = self._trivial(code, arguments)
            if value is None:
                value = self._value(code, arguments, at, errors, seen)
            node = abs(value)
            meanings.append(value)
            if not fixed[r]:
                exact.append(value)
            if not (node in self.numbers or node in self.inputs):
                definition = normal(node, code, arguments, 1 if value > 0 else -1)
                if node not in map(abs, definition.arguments):
                    self.definitions[definition] = None
                    own.setdefault(node, definition)
        for k, output in enumerate(tape.outputs):
            found.outputs.append(self._meaning(exact if k < self._kept_outputs else meanings, tape, output))
        return found

    def pair(self, stop: Callable[[], bool]) -> None:
        """Find all sums, differences, products and quotients of two values that are another.

        Args:
            stop: asked now and then whether to leave the rest.
        """
        told = np.array([0, *(value for value, known in enumerate(self._known) if known is not None)])
        nothing = _Known((0j,) * self._dimension, (0.0,) * self._dimension)
        known = [nothing, *(self._known[value] or nothing for value in told[1:])]
        at, errors = np.array([each.at for each in known]), np.array([each.errors for each in known])
        keys = np.ascontiguousarray(at[:, 0].real).view(np.int64) >> KEY_BITS
        is_open = ~np.isin(told, [0, *self.numbers, *self.inputs])
        table_bits = max(8, (4 * len(told)).bit_length())
        state = PairsState(
            points=self._dimension,
            real=np.ascontiguousarray(at.real).reshape(-1),
            imaginary=np.ascontiguousarray(at.imag).reshape(-1),
            errors=errors.reshape(-1),
            open=is_open.astype(np.int64),
            count=len(told),
            keys=np.ascontiguousarray(keys),
            table=np.zeros(1 << table_bits, np.int64),
            table_bits=table_bits,
            rounding=SLACK * UNIT,
            found=Records.zeros(Found, MOST),
            found_limit=MOST,
        )
        search = kernel("resubstitution.pairs")
        search(state.address)
        state.begin, state.mode = 1, TRY
        while state.begin < len(told) and not stop():
            state.end = min(len(told), state.begin + max(1, PAIRS // len(told)))
            search(state.address)
            state.begin = state.end
        rows = state.found.words.reshape(-1, len(Found.fields))[: state.found_count].tolist()
        values = told.tolist()
        for place, way, i, j in rows:
            arguments = [values[i], -values[j] if way == DIFFERENCE else values[j]]
            definition = normal(values[abs(place)], _WAYS[way], arguments, 1 if place > 0 else -1)
            self.definitions[definition] = None

    # Values --------------------------------------------------------------------------------------------------------

    def _meaning(self, meanings: Sequence[int], tape: Tape, reference: int) -> int:
        """The value of a reference or a constant of a tape."""
        return meanings[reference] if reference >= 0 else self._number(tape.value_of(reference))

    def _input(self, position: int, at: tuple[complex, ...], seen: tuple[Reals, Reals]) -> int:
        form = INPUT, position
        if form not in self._by_form:
            sign = 1 if at[0].real > 0 else -1
            node = self._new(_Known(tuple(sign * z for z in at), (0.0,) * len(at)), sign, seen)
            self._by_form[form] = sign * node
            self.inputs[node] = sign, position
        return self._by_form[form]

    def _number(self, number: float) -> int:
        finite = math.isfinite(number)
        form = CONSTANT, abs(number) if finite else str(number)
        if form not in self._by_form:
            magnitude = abs(number) if finite else number
            known = _Known((complex(magnitude),) * self._dimension, (0.0,) * self._dimension)
            everywhere = np.full(len(self.points), magnitude)
            node = self._new(known if number and finite else None, 1, (everywhere, np.zeros_like(everywhere)))
            self._by_form[form], self.numbers[node] = node, magnitude
        return -self._by_form[form] if finite and number < 0 else self._by_form[form]

    def _trivial(self, code: int, arguments: Sequence[int]) -> int | None:
        """What an operation makes of equal values, of 0 and of 1, wherever it is defined; None of all others."""
        if code not in (ADD, MULTIPLY, DIVIDE):
            return None
        zero, one = self._number(0.0), self._number(1.0)
        a, b = arguments
        if not all(np.isfinite(self._reals[abs(each)][self.generic]).all() for each in arguments):
            return None  # what is undefined in places stays so
        if code == ADD:
            if a == -b:
                return zero
            return b if abs(a) == zero else a if abs(b) == zero else None
        sign = 1 if (a > 0) == (b > 0) else -1
        if abs(a) == zero or (code == MULTIPLY and abs(b) == zero):
            return zero
        if abs(b) == one:
            return sign * abs(a)
        if code == MULTIPLY:
            return sign * abs(b) if abs(a) == one else None
        return sign * one if abs(a) == abs(b) else None

    def _value(
        self,
        code: int,
        arguments: list[int],
        at: tuple[Any, ...],
        errors: tuple[float, ...],
        seen: tuple[Reals, Reals],
    ) -> int:
        """The value of an operation."""
        form = (code, *arguments)
        if form in self._by_form:
            return self._by_form[form]
        # what is NaN, or has a bound that is, cannot be told
        if all(
            not isinstance(z, bool) and 0.0 < size(z) < math.inf and UNIT * error <= KNOWN * size(z)
            for z, error in zip(at, errors, strict=True)
        ):
            sign = 1 if at[0].real > 0 else -1
            known = _Known(tuple(sign * z for z in at), errors)
            node = self._found(known, sign, seen)
            if node is None:
                node = self._new(known, sign, seen)
            else:
                self._improve(node, sign, seen)
            self._by_form[form] = sign * node
        else:
            self._by_form[form] = self._new(None, 1, seen)
        return self._by_form[form]

    def _found(self, known: _Known, sign: int, seen: tuple[Reals, Reals]) -> int | None:
        """The value that is that at all points."""
        key = _key(known.at[0])
        reals, bounds = sign * seen[0], seen[1]
        for near in (key, key - 1, key + 1):
            for node in self._by_key.get(near, ()):
                other = self._known[node]
                assert other is not None
                if all(
                    size(z - w) <= SLACK * UNIT * (d + e)
                    for z, w, d, e in zip(known.at, other.at, known.errors, other.errors, strict=True)
                ) and self._are_one(reals, bounds, node):
                    return node
        return None

    def _are_one(self, reals: Reals, bounds: Reals, node: int) -> bool:
        """Whether what something is at real points is a value, and undefined where that is."""
        same_domain = np.isfinite(reals) == np.isfinite(self._reals[node])
        return bool((agree(reals, bounds, self._reals[node], self._bounds[node]) & (same_domain | ~self.generic)).all())

    def _new(self, known: _Known | None, sign: int, seen: tuple[Reals, Reals]) -> int:
        """A value that was not there before."""
        node = len(self._known)
        self._known.append(known)
        if known is not None:
            self._by_key.setdefault(_key(known.at[0]), []).append(node)
        self._reals.append(sign * seen[0])
        self._bounds.append(seen[1])
        self._scores.append(_score(seen[1]))
        return node

    def _improve(self, node: int, sign: int, seen: tuple[Reals, Reals]) -> None:
        """Take over the bounds of what computes a value with smaller errors."""
        score = _score(seen[1])
        if score < self._scores[node]:
            self._reals[node], self._bounds[node], self._scores[node] = sign * seen[0], seen[1], score


def _fixed(tape: Tape, kept_outputs: int) -> NDArray[np.bool_]:
    """Which operations have to be rounded as they are written."""
    fixed = np.frombuffer(as_written(tape, kept_outputs), bool).copy()
    seeing = seeing_zero_signs(tape)
    if len(seeing):
        fixed |= np.frombuffer(needed(tape, seeing.tolist()), bool)
        fixed[seeing] = True
    return fixed


def _key(z: complex) -> int:
    return int(np.float64(abs(z.real)).view(np.int64)) >> KEY_BITS


def _score(bounds: Reals) -> float:
    return float(np.log(np.clip(bounds, TINY, HUGE)).sum()) if len(bounds) else 0.0
