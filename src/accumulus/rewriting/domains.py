"""Domains of tapes: the conditions under which outputs are numbers, and a proof that rewriting does not add to them.

A quotient needs a divisor that is not zero, a square root or logarithm an argument that is not negative, and so on. An
output of a rewritten tape may only need what the original output needs, or what is always true. Conditions are about
values, which are the same in both tapes if their residues are (`accumulus.rewriting.equivalence`).

A select needs its condition, and what both branches need; what one branch needs is needed under its condition only. So
a condition in a branch of the rewritten tape must be needed by the original output without that condition, or in the
same branch.

What is always true, or follows from other conditions, is found by looking into definitions: products and quotients of
values that are not zero, sums of squares and positive numbers, exponentials, absolute values. Overflow is no condition:
it is judged at points (`accumulus.rewriting.rounding`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from accumulus.rewriting.compiled.fields import UNDEFINED
from accumulus.rewriting.equivalence import Run, Verification, rows_as_bytes
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, POWER, SELECT, SUBTRACT, Tape

#: What a condition says: that a value is not zero, not negative, or positive; or that a function is defined.
NONZERO, NONNEGATIVE, POSITIVE, DEFINED = range(4)
#: Depth to which definitions are looked into: a greater one takes time for each condition, a smaller one proves fewer.
DEPTH: Final = 8
#: Operations that are numbers for all numbers, but for overflow, besides those with rules of their own.
_TOTAL: Final = frozenset(
    BY_NAME[name].code
    for names in (
        "add subtract multiply negative select attach abs sign floor ceil minimum maximum cbrt hypot exp expm1 exp2",
        "sin cos tan atan atan2 sinh cosh tanh asinh erf erfc log_ndtr j0 j1 i0e i1e",
        "less less_equal equal not_equal logical_and logical_or logical_not",
    )
    for name in names.split()
)
_LOGARITHMS: Final = frozenset(BY_NAME[name].code for name in ("log", "log2", "log10"))
_SQRT, _ABS, _HYPOT, _MAXIMUM, _ATTACH = (BY_NAME[name].code for name in ("sqrt", "abs", "hypot", "maximum", "attach"))
#: Functions whose values are never negative; exponentials may underflow to zero.
_NONNEGATIVE: Final = frozenset(
    {_SQRT, _ABS, _HYPOT} | {BY_NAME[name].code for name in ("exp", "exp2", "cosh", "erfc")}
)
_COSH: Final = BY_NAME["cosh"].code


class Condition(NamedTuple):
    """A condition on a value, or on the arguments of a function."""

    kind: int
    code: int  # of the function; 0 for conditions on values
    arguments: tuple[int, ...]  # numbers of the values


class _Tape(NamedTuple):
    """A tape, and the numbers of its values."""

    tape: Tape
    # number of each reference, constants in reverse order at the end: of its value, and of this or its negative
    of: list[int]
    unsigned: list[int]


class Domains:
    """Conditions that the outputs of a tape need.

    Args:
        tape: the original tape.
        verification: its values at points.
    """

    def __init__(self, tape: Tape, verification: Verification) -> None:
        self._verification = verification
        self._numbers: dict[bytes, int] = {}
        #: Number of a value or its negative, whichever comes first, for each value.
        self._unsigned: dict[int, int] = {}
        #: Operations that make each value, with the conditions that they need, and the constants among values.
        self._definitions: dict[int, list[tuple[int, tuple[int, ...], int]]] = {}
        self._constants: dict[int, float] = {}
        #: Bits of conditions, and of conditions in a branch: of a condition's bit, and of the branch.
        self._bits: dict[Condition, int] = {}
        self._guarded: dict[tuple[int, int, bool], int] = {}
        self._of_bits: list[Condition | tuple[int, int, bool]] = []
        #: Values that are each other's negatives, by the first of them; and proofs from conditions, given as bits.
        self._alike: dict[int, list[int]] = {}
        self._proofs: dict[int, _Proof] = {}
        self._original = self._numbered(tape, verification.run(tape))
        needs, some = (self._needs(self._original, intersecting=each) for each in (True, False))
        self._define(self._original, some)
        self._needed = [(needs[output], some[output]) for output in tape.outputs]

    def nonnegative(self, references: Iterable[int], outputs: Iterable[int]) -> list[int]:
        """Return those values of the original tape that are not negative wherever one of some outputs is defined.

        Args:
            references: of the values.
            outputs: positions of the outputs.
        """
        needed = -1
        for k in outputs:
            needed &= self._needed[k][0]
        condition_of = {r: Condition(NONNEGATIVE, 0, (self._original.of[r],)) for r in references}
        return [r for r, condition in condition_of.items() if self._follows(condition, max(needed, 0))]

    def wider(self, tape: Tape) -> list[int]:
        """Return the outputs of another tape that may be undefined where the original ones are defined."""
        numbered = self._numbered(tape, self._verification.run(tape))
        needs = self._needs(numbered, intersecting=False)
        self._define(numbered, needs)
        implied: dict[tuple[int, int], bool] = {}

        def follows(bit: int, needed: int, some: int) -> bool:
            if some >> bit & 1 and (needed >> bit & 1 or not isinstance(self._of_bits[bit], Condition)):
                return True
            if (bit, needed) not in implied:
                condition = self._of_bits[bit]
                while not isinstance(condition, Condition):  # it may hold without the branch
                    condition = self._of_bits[condition[0]]
                implied[bit, needed] = self._follows(condition, needed)
            return implied[bit, needed]

        return [
            k
            for k, (output, (needed, some)) in enumerate(zip(tape.outputs, self._needed, strict=True))
            if not all(follows(bit, needed, some) for bit in _bits_of(needs[output] & ~needed))
        ]

    # Values --------------------------------------------------------------------------------------------------------

    def _numbered(self, tape: Tape, run: Run) -> _Tape:
        """Return the number of each value of a tape; equal values, in this and other tapes, have equal numbers."""
        modulo = self._verification.modulo
        opposite = np.where(run.real > 0, modulo - run.real, run.real), (modulo - run.imaginary) % modulo
        is_turned = np.where(run.real[:, 0] != 0, 2 * run.real[:, 0] > modulo[0], 2 * run.imaginary[:, 0] > modulo[0])
        undefined = (run.real == UNDEFINED).any(axis=1)
        turned = run._replace(
            real=np.where(is_turned[:, np.newaxis], opposite[0], run.real),
            imaginary=np.where(is_turned[:, np.newaxis], opposite[1], run.imaginary),
        )
        numbers = self._numbers

        def numbered(row: bytes, k: int) -> int:
            return numbers.setdefault(b"%d of %d" % (k, id(tape)) if undefined[k] else row, len(numbers))

        of, unsigned = ([numbered(row, k) for k, row in enumerate(rows_as_bytes(each))] for each in (run, turned))
        for value, either in zip(of, unsigned, strict=True):
            if value not in self._unsigned:
                self._unsigned[value] = either
                self._alike.setdefault(either, []).append(value)
        for k, constant in enumerate(tape.constants, 1):
            self._constants[of[-k]] = constant
        return _Tape(tape, of, unsigned)

    def _define(self, numbered: _Tape, needs: Sequence[int]) -> None:
        """Note the operations that make values, each with the conditions that it needs."""
        tape, of, _ = numbered
        self._proofs.clear()
        for r in range(tape.inputs, len(tape)):
            definition = tape.codes[r], tuple(of[a] for a in tape.arguments(r)), needs[r]
            self._definitions.setdefault(of[r], []).append(definition)

    # Conditions ----------------------------------------------------------------------------------------------------

    def _needs(self, numbered: _Tape, *, intersecting: bool) -> list[int]:
        """Return the conditions of each reference as bits, constants in reverse order at the end.

        Args:
            numbered: the tape.
            intersecting: if True, a select needs what both branches need; else what each needs, in its branch.
        """
        tape, of, unsigned = numbered
        needs = [0] * (len(tape) + len(tape.constants))
        for r in range(tape.inputs, len(tape)):
            code, arguments = tape.codes[r], tape.arguments(r)
            if code == SELECT:
                condition, one, other = arguments
                if intersecting:
                    needs[r] = needs[condition] | (needs[one] & needs[other])
                else:
                    in_one = self._in_branch(needs[one], of[condition], True)
                    needs[r] = needs[condition] | in_one | self._in_branch(needs[other], of[condition], False)
                continue
            total = 0
            for a in arguments[:1] if code == _ATTACH else arguments:
                total |= needs[a]
            if code not in _TOTAL:
                values, sizes = ([numbers[a] for a in arguments] for numbers in (of, unsigned))
                for each in _conditions(tape, r, code, values, sizes):
                    total |= 1 << self._bit(each)
            needs[r] = total
        return needs

    def _bit(self, condition: Condition) -> int:
        """Return the position of a condition's bit."""
        if condition not in self._bits:
            self._bits[condition] = len(self._of_bits)
            self._of_bits.append(condition)
        return self._bits[condition]

    def _in_branch(self, needs: int, condition: int, side: bool) -> int:
        """Return conditions as they are needed in a branch; those in an inner branch stay as they are."""
        total = 0
        for bit in _bits_of(needs):
            key = bit, condition, side
            if isinstance(self._of_bits[bit], Condition):
                if key not in self._guarded:
                    self._guarded[key] = len(self._of_bits)
                    self._of_bits.append(key)
                total |= 1 << self._guarded[key]
            else:
                total |= 1 << bit
        return total

    # Proofs --------------------------------------------------------------------------------------------------------

    def _follows(self, condition: Condition, needed: int) -> bool:
        """Return True if a condition follows from others, given as bits, or is always true."""
        known = {each for bit in _bits_of(needed) if isinstance(each := self._of_bits[bit], Condition)}
        if condition in known:
            return True
        if condition.kind == DEFINED:
            return False
        if needed not in self._proofs:
            # √a · √a is no reason for a not to be negative
            usable = {
                value: [(code, arguments) for code, arguments, needs in definitions if not needs & ~needed]
                for value, definitions in self._definitions.items()
            }
            self._proofs[needed] = _Proof(usable, self._constants, self._unsigned, self._alike, known)
        return self._proofs[needed].holds(condition.kind, condition.arguments[0], DEPTH)


def _conditions(tape: Tape, r: int, code: int, values: Sequence[int], sizes: Sequence[int]) -> Iterator[Condition]:
    """Yield the conditions of an operation on its arguments, given by the numbers of their values."""
    if code == DIVIDE:
        yield Condition(NONZERO, 0, (sizes[1],))
    elif code == _SQRT:
        yield Condition(NONNEGATIVE, 0, (values[0],))
    elif code in _LOGARITHMS:
        yield Condition(POSITIVE, 0, (values[0],))
    elif code == POWER and tape.second[r] < 0:
        exponent = tape.value_of(tape.second[r])
        if exponent < 0.0:
            yield Condition(NONZERO, 0, (sizes[0],))
        if not exponent.is_integer():
            yield Condition(NONNEGATIVE, 0, (values[0],))
    else:
        yield Condition(DEFINED, code, tuple(sizes if OPERATIONS[code].parity else values))


class _Proof:
    """Proofs about the signs of values.

    Args:
        definitions: operations that make each value: code, and numbers of the arguments.
        constants: values that are constants.
        unsigned: number of each value or its negative.
        alike: values that are each other's negatives, by that number.
        known: conditions that hold.
    """

    def __init__(
        self,
        definitions: Mapping[int, Sequence[tuple[int, tuple[int, ...]]]],
        constants: Mapping[int, float],
        unsigned: Mapping[int, int],
        alike: Mapping[int, Sequence[int]],
        known: Iterable[Condition],
    ) -> None:
        self._definitions, self._constants, self._unsigned, self._both = definitions, constants, unsigned, alike
        self._proved: set[tuple[int, int]] = set()
        self._tried: dict[tuple[int, int], int] = {}
        waiting = [(each.kind, each.arguments[0]) for each in known if each.kind != DEFINED]
        while waiting:
            kind, value = waiting.pop()
            if not self._is_proved(kind, value):
                waiting += self._follow(kind, value)

    def _is_proved(self, kind: int, value: int) -> bool:
        return (kind, self._key(kind, value)) in self._proved

    def _key(self, kind: int, value: int) -> int:
        return self._unsigned.get(value, value) if kind == NONZERO else value

    def _follow(self, kind: int, value: int) -> Iterator[tuple[int, int]]:
        """Note that something holds of a value, and yield what follows of others."""
        self._proved.add((kind, self._key(kind, value)))
        if kind == POSITIVE:
            yield from ((NONZERO, value), (NONNEGATIVE, value))
        # a value that is not zero, and not negative, is positive
        if kind != POSITIVE:
            for each in self._both.get(self._unsigned.get(value, value), (value,)):
                if self._is_proved(NONZERO, each) and self._is_proved(NONNEGATIVE, each):
                    yield POSITIVE, each
        if kind == NONZERO:
            alike = self._both.get(self._unsigned.get(value, value), (value,))
            for code, arguments in (made for each in alike for made in self._definitions.get(each, ())):
                if code == MULTIPLY:
                    yield from ((NONZERO, argument) for argument in arguments)
                elif code in (DIVIDE, NEGATIVE, _SQRT, _ABS):
                    yield NONZERO, arguments[0]
                    if code == _SQRT:
                        yield NONNEGATIVE, arguments[0]
            return
        for code, arguments in self._definitions.get(value, ()):
            if code == MULTIPLY:
                for one, other in (arguments, arguments[::-1]):
                    if self._constants.get(one, 0.0) > 0.0:
                        yield kind, other

    def holds(self, kind: int, value: int, depth: int) -> bool:
        """Return True if a value is proved to be not zero, not negative, or positive."""
        key = kind, value
        if self._is_proved(kind, value):
            return True
        if value in self._constants:
            number = self._constants[value]
            return number != 0.0 if kind == NONZERO else number > 0.0 if kind == POSITIVE else number >= 0.0
        if depth <= self._tried.get(key, 0):
            return False
        self._tried[key] = depth
        alike = self._both.get(self._unsigned.get(value, value), [value]) if kind == NONZERO else [value]
        made = any(
            self._by(kind, code, arguments, depth - 1)
            for each in alike
            for code, arguments in self._definitions.get(each, ())
        )
        made = made or (kind == NONZERO and any(self.holds(POSITIVE, each, depth - 1) for each in alike))
        if made:
            self._proved.add((kind, self._key(kind, value)))
        return made

    def _by(self, kind: int, code: int, arguments: tuple[int, ...], depth: int) -> bool:
        """Return True if an operation makes a value of which something holds."""
        if depth <= 0:
            return False

        def both(each: int) -> bool:
            return all(self.holds(each, argument, depth) for argument in arguments)

        first = arguments[0]
        if code in (MULTIPLY, DIVIDE):
            if code == MULTIPLY and first == arguments[1] and kind != NONZERO:
                return kind == NONNEGATIVE or self.holds(NONZERO, first, depth)
            return both(kind)
        if code == NEGATIVE:
            return kind == NONZERO and self.holds(NONZERO, first, depth)
        if code == ADD:
            if kind == NONNEGATIVE:
                return both(NONNEGATIVE)
            one, other = arguments
            return any(
                self.holds(POSITIVE, a, depth) and self.holds(NONNEGATIVE, b, depth)
                for a, b in ((one, other), (other, one))
            )
        if code == SUBTRACT:
            return False
        if code == SELECT:
            return all(self.holds(kind, argument, depth) for argument in arguments[1:])
        if code == _MAXIMUM:
            return kind != NONZERO and any(self.holds(kind, argument, depth) for argument in arguments)
        if code in _NONNEGATIVE:
            if kind == NONNEGATIVE or code == _COSH:
                return True
            inner = POSITIVE if code == _SQRT else NONZERO
            return code in (_SQRT, _ABS) and self.holds(inner, first, depth)
        return False


def _bits_of(mask: int) -> list[int]:
    """Return the positions of the bits that are set."""
    positions = []
    while mask:
        positions.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return positions
