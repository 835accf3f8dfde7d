"""Sines and cosines of sums: what a program makes of those of the terms.

cos(a)·cos(b) - sin(a)·sin(b) is cos(a + b). Where all parts of a mechanism that turn in one plane are chained, most
values are of this kind, and one pair of functions of the sum takes the place of a pair of functions of a term and of
four products. Which values these are is seen from numbers: the program is run at real points, and so are the sine and
the cosine of the sum and the difference of any two angles that it has.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.rewriting.canonical import canonical
from accumulus.tape.interpreter import evaluate
from accumulus.tape.live import as_written, seeing_zero_signs
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

__all__ = ["with_sums_of_angles"]

#: Real points, and at how many of them two values have to be defined to be called equal.
POINTS: Final = 24
DEFINED: Final = 8
#: As parts of the value.
EQUAL: Final = 1e-9
#: Angles, with those that are found, at most.
MOST: Final = 32
_SINE, _COSINE = BY_NAME["sin"].code, BY_NAME["cos"].code
_FIELD: Final = frozenset(BY_NAME[name].code for name in ("add", "subtract", "multiply"))

Reals = NDArray[np.float64]


class _Angle(NamedTuple):
    """An angle: a reference of the program, or the sum or difference of two angles.

    Attributes:
        at: its value at all points.
        last: the last reference that it is made of.
        terms: numbers of two angles, and the sign of the second.
    """

    at: Reals
    last: int
    terms: tuple[int, int, int] | None = None


class _Function(NamedTuple):
    """A value as sine or cosine of an angle, by the number of that, and its sign."""

    code: int
    angle: int
    sign: int


def with_sums_of_angles(tape: Tape, kept_outputs: int = 0) -> Tape | None:
    """The same program with sines and cosines of sums in the place of what others make of them; None if it has none.

    It need not be shorter: other values may still need the functions of the terms.

    Args:
        tape: in canonical form.
        kept_outputs: that many of the first outputs stay as they are computed.

    >>> from accumulus.rewriting.canonical import canonical
    >>> tape = Tape(2)
    >>> (s, t), (c, d) = ([tape.apply(name, x) for x in (0, 1)] for name in ("sin", "cos"))
    >>> tape.outputs = [tape.subtract(tape.multiply(c, d), tape.multiply(s, t))]
    >>> print(with_sums_of_angles(canonical(tape)))
    t2 = add(x0, x1)
    t3 = cos(t2)
    return t3
    """
    codes = np.array(tape.codes)
    own = np.flatnonzero((codes == _SINE) | (codes == _COSINE))
    # what is written anew may have other signs of zeros
    if not len(own) or len(seeing_zero_signs(tape)):
        return None
    values = _run(tape)
    fixed = np.frombuffer(as_written(tape, kept_outputs), bool)
    targets = np.flatnonzero(np.isin(codes, list(_FIELD)) & ~fixed)
    first = sorted({tape.first[r] for r in own.tolist() if tape.first[r] >= 0})
    angles = [_Angle(values[r], r) for r in first[:MOST]]
    functions = _functions(angles, targets, values)
    return canonical(_rewritten(tape, angles, functions), kept_outputs) if functions else None


def _run(tape: Tape) -> Reals:
    """Of all references, at random points."""
    all_of_it = tape.copy()
    all_of_it.outputs = list(range(len(tape)))
    points = np.random.default_rng(0).normal(size=(tape.inputs, POINTS))
    return np.array([np.broadcast_to(value, POINTS) for value in evaluate(all_of_it, list(points))], dtype=float)


def _functions(angles: list[_Angle], targets: NDArray[np.int64], values: Reals) -> dict[int, _Function]:
    """What values are functions of, by reference; the angles that these take are added to the others."""
    found: dict[int, _Function] = {}
    second = 0
    while second < len(angles):  # which are more and more
        for first in range(second + 1):
            for sign in (1, -1) if first < second else (1,):
                at = angles[first].at + sign * angles[second].at
                last = max(angles[first].last, angles[second].last)
                number = next((k for k, angle in enumerate(angles) if _is_equal(at, angle.at)), len(angles))
                if number < len(angles):
                    at, last = angles[number].at, max(last, angles[number].last)
                elif len(angles) >= MOST or any(_is_equal(at, -angle.at) for angle in angles):
                    continue
                behind = targets[targets > last]
                new = {
                    reference: _Function(code, number, way)
                    for code, wanted in ((_SINE, np.sin(at)), (_COSINE, np.cos(at)))
                    for reference, way in _matches(wanted, behind, values)
                    if reference not in found
                }
                found |= new
                if new and number == len(angles):
                    angles.append(_Angle(at, last, (first, second, sign)))
        second += 1
    return found


def _matches(wanted: Reals, targets: NDArray[np.int64], values: Reals) -> list[tuple[int, int]]:
    """References of which the value is a wanted one or its negative, and which of these."""
    near = targets[np.abs(np.abs(values[targets, 0]) - np.abs(wanted[0])) <= EQUAL]
    return [(r, way) for r in near.tolist() for way in (1, -1) if _is_equal(values[r], way * wanted)]


def _is_equal(one: Reals, two: Reals) -> bool:
    both = np.isfinite(one) & np.isfinite(two)
    return bool(both.sum() >= DEFINED and (np.abs(one - two)[both] <= EQUAL * (1.0 + np.abs(two[both]))).all())


def _rewritten(tape: Tape, angles: list[_Angle], functions: dict[int, _Function]) -> Tape:
    """The program with functions of sums in the place of what made their values."""
    written = Tape(tape.inputs)
    moved = list(range(tape.inputs))

    def place(reference: int) -> int:
        return moved[reference] if reference >= 0 else written.constant(tape.value_of(reference))

    def angle(number: int) -> int:
        terms = angles[number].terms
        if terms is None:
            return moved[angles[number].last]
        one, two = angle(terms[0]), angle(terms[1])
        return written.add(one, two) if terms[2] > 0 else written.subtract(one, two)

    for reference in range(tape.inputs, len(tape)):
        function = functions.get(reference)
        if function is None:
            made = written.apply_code(tape.codes[reference], [place(a) for a in tape.arguments(reference)])
        else:
            made = written.apply_code(function.code, [angle(function.angle)])
            made = made if function.sign > 0 else written.negative(made)
        moved.append(made)
    written.outputs = [place(output) for output in tape.outputs]
    return written
