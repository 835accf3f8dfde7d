"""Functions and branches of tapes that are compared at complex points, see `accumulus.rewriting.equivalence`.

Functions are given others in their place that have the same symmetries, sine and cosine points of the unit circle, and
none of them overflows: what holds for these holds because of the form of the program alone, and no part of it is out
of sight. Only the operations that identities join stand for themselves. Floor, ceil, sign and fmod are arbitrary
functions of the last bits of their arguments, and so are comparisons: what reaches them is not rewritten, and any
other choice would hide branches.

**Branches.** Comparisons are chosen so that one branch after the other is taken. A select is reached if what takes its
value is: it is an output, an argument of what is reached, or the branch that is taken of a select that is reached. Its
conditions are joined by and, or and not out of comparisons.
"""

from __future__ import annotations

import cmath
import math
import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME, OPERATIONS, Operation
from accumulus.tape.tape import Tape

__all__ = [
    "ANGLES",
    "COMPARISONS",
    "EXPONENTIALS",
    "FUNCTIONS",
    "JUMPS",
    "WITH_EXPONENTIALS",
    "WITH_LAWS",
    "Branches",
    "Function",
    "comparison",
    "jump",
    "size",
]

Function = Callable[..., Any]


def size(z: Any) -> float:
    """The magnitude; infinite where that of Python raises."""
    return math.hypot(z.real, z.imag)


def _odd(k: float) -> Function:
    return lambda z: cmath.asinh(k * z)


def _even(k: float) -> Function:
    return lambda z: cmath.asinh(k * z) ** 2


def _general(k: float) -> Function:
    def run(z: Any) -> Any:
        w = cmath.asinh(k * z)
        return w + k * (w * w + 1.0)

    return run


def _of_two(k: float) -> Function:
    return lambda y, z: (cmath.asinh(k * y) + 0.3) * (1.0 + k * cmath.asinh(z) ** 2) + cmath.asinh(k * z + 0.2)


def _commutative(k: float) -> Function:
    general = _general(k)
    return lambda y, z: general(y) + general(z) + cmath.asinh(k * y) * cmath.asinh(k * z)


def _sine(z: Any) -> Any:
    w = cmath.asinh(0.7 * z)
    return 2.0 * w / (1.0 + w * w)


def _cosine(z: Any) -> Any:
    w = cmath.asinh(0.7 * z) ** 2
    return (1.0 - w) / (1.0 + w)


#: What stands for itself, or for points of the unit circle; all others get something with their symmetries. Identities
#: that are no rules must not hold, and no argument may lead to infinity: they grow like logarithms.
_THEMSELVES: Final[dict[str, Function]] = {
    "sqrt": cmath.sqrt,
    "sin": _sine,
    "cos": _cosine,
    "power": lambda x, y: cmath.exp(y * cmath.log(x)),
    "logical_and": lambda x, y: bool(x) and bool(y),
    "logical_or": lambda x, y: bool(x) or bool(y),
    "logical_not": lambda x: not x,
    "attach": lambda x, _: x,
}


def _stand_in(row: Operation) -> Function:
    k = 0.3 + 0.017 * row.code
    if row.name in _THEMSELVES:
        return _THEMSELVES[row.name]
    if row.arity == 2:
        return _commutative(k) if row.commutative else _of_two(k)
    return {"odd": _odd, "even": _even, None: _general}[row.parity](k)


#: By the code of the operation.
FUNCTIONS: Final = {row.code: _stand_in(row) for row in OPERATIONS}
#: How much slower an exponential grows in whose place, so that none overflows: its laws hold for b^x whatever b is. No
#: number that programs have.
_SLOWER: Final = 0.0937214856130


def _exponential(z: Any) -> Any:
    return cmath.exp(_SLOWER * z)


def _logarithm(z: Any) -> Any:
    return cmath.log(z) / _SLOWER


#: In place of some of these: what the laws of exponentials and logarithms make of each other is equal, too.
EXPONENTIALS: Final[dict[int, Function]] = {
    BY_NAME[name].code: run
    for name, run in {
        "exp": _exponential,
        "expm1": lambda z: _exponential(z) - 1.0,
        "exp2": lambda z: _exponential(math.log(2.0) * z),
        "log": _logarithm,
        "log1p": lambda z: _logarithm(1.0 + z),
        "log2": lambda z: _logarithm(z) / math.log(2.0),
        "log10": lambda z: _logarithm(z) / math.log(10.0),
        "sinh": lambda z: cmath.sinh(_SLOWER * z),
        "cosh": lambda z: cmath.cosh(_SLOWER * z),
        "tanh": lambda z: cmath.tanh(_SLOWER * z),
        "asinh": lambda z: cmath.asinh(z) / _SLOWER,
        "acosh": lambda z: cmath.acosh(z) / _SLOWER,
        "atanh": lambda z: cmath.atanh(z) / _SLOWER,
    }.items()
}
WITH_EXPONENTIALS: Final = FUNCTIONS | EXPONENTIALS
#: The same for sines and cosines of sums; these angles have to go around some of the circle.
_TURNS: Final = 0.7318504926
ANGLES: Final[dict[int, Function]] = {
    BY_NAME["sin"].code: lambda z: cmath.sin(_TURNS * z),
    BY_NAME["cos"].code: lambda z: cmath.cos(_TURNS * z),
}
WITH_LAWS: Final = WITH_EXPONENTIALS | ANGLES
#: Codes of what compares two numbers, and of what else has jumps.
COMPARISONS: Final = frozenset(row.code for row in OPERATIONS if row.jumps and row.result == "boolean")
JUMPS: Final = frozenset(row.code for row in OPERATIONS if row.jumps) - COMPARISONS

_EQUAL, _NOT_EQUAL = BY_NAME["equal"].code, BY_NAME["not_equal"].code


def _bits(z: Any) -> tuple[float | None, float | None]:
    """Return parts that are equal where two values are the same to the last bit; zeros of both signs are one."""
    # NaN is not equal to itself
    return z.real + 0.0 if math.isfinite(z.real) else None, z.imag + 0.0 if math.isfinite(z.imag) else None


def comparison(code: int, x: Any, y: Any) -> tuple[Hashable, bool]:
    """Return an identifier of a comparison that it shares with its negation, and True if it is the negation."""
    a, b = _bits(x), _bits(y)
    if code in (_EQUAL, _NOT_EQUAL):
        return (_EQUAL, *sorted((a, b), key=str)), code == _NOT_EQUAL
    return (code, a, b), False


def jump(code: int, arguments: Sequence[Any], seed: int) -> complex:
    """An arbitrary number for each value of the arguments, with the parity of the operation."""
    sign = 1.0
    if OPERATIONS[code].parity == "odd":
        (z,) = arguments
        if not z:
            return 0j
        if (z.real, z.imag) < (0.0, 0.0):
            arguments, sign = (-z,), -1.0
    mixed = hash((seed, code, *map(_bits, arguments))) * 0x9E3779B97F4A7C15
    return sign * complex(0.5 + (mixed >> 20 & 0xFFFFF) / 2.0**20, (mixed >> 40 & 0xFFFFF) / 2.0**20 - 0.5)


_SELECT: Final = BY_NAME["select"].code
_AND, _OR, _NOT = (BY_NAME[name].code for name in ("logical_and", "logical_or", "logical_not"))


class Branches:
    """Branches of a tape, and those that have been taken."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        live = needed(tape)
        self._live = [r for r in range(tape.inputs, len(tape)) if live[r]]
        self._missing = {(r, side) for r in self._live if tape.codes[r] == _SELECT for side in (True, False)}

    @property
    def all_taken(self) -> bool:
        """Return True if every branch has been taken, or cannot be."""
        return not self._missing

    def choose(self, rng: random.Random) -> dict[int, bool]:
        """Comparisons by reference, and whether they have to hold so that more branches are taken."""
        tape, missing = self._tape, self._missing
        leads = bytearray(len(tape))  # to a branch that has not been taken
        for r in self._live:
            own = tape.codes[r] == _SELECT and ((r, True) in missing or (r, False) in missing)
            leads[r] = own or any(a >= 0 and leads[a] for a in tape.arguments(r))
        reached = bytearray(len(tape))
        for output in tape.outputs:
            if output >= 0:
                reached[output] = 1
        chosen: dict[int, bool] = {}
        before = len(missing)
        for r in reversed(self._live):
            if not reached[r]:
                continue
            arguments = tape.arguments(r)
            if tape.codes[r] == _SELECT:
                condition, *sides = arguments
                wanted = [
                    (r, side) in missing or (a >= 0 and leads[a] == 1)
                    for side, a in zip((True, False), sides, strict=True)
                ]
                side = wanted[0] if wanted[0] != wanted[1] else rng.random() < 0.5
                side = self._force(condition, side, chosen)
                missing.discard((r, side))
                taken = sides[0 if side else 1]
                arguments = (condition, taken)
            for a in arguments:
                if a >= 0:
                    reached[a] = 1
        if len(missing) == before:
            missing.clear()  # what is left is out of reach
        return chosen

    def _force(self, condition: int, wanted: bool, chosen: dict[int, bool]) -> bool:
        """Choose comparisons that make a condition hold, or not, as far as they are free; what it is then."""
        tape = self._tape
        if condition < 0:
            return bool(tape.value_of(condition))
        code = tape.codes[condition]
        if code == _NOT:
            return not self._force(tape.first[condition], not wanted, chosen)
        if code in (_AND, _OR):
            both = wanted == (code == _AND)
            one = self._force(tape.first[condition], wanted, chosen)
            if not both and one == wanted:
                return wanted
            two = self._force(tape.second[condition], wanted, chosen)
            return (one and two) if code == _AND else (one or two)
        if code == _SELECT:  # a choice between truth values
            return wanted
        return chosen.setdefault(condition, wanted)
