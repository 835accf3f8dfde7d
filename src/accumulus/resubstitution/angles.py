"""Sines and cosines of sums of angles as candidates for values.

cos(a)·cos(b) - sin(a)·sin(b) is cos(a + b). In a chain of links that rotate in one plane, most values are of this kind,
and one pair of functions of the sum replaces a pair of functions of a term and four products. Such values are found
numerically: the program runs at real points, and so do the sine and cosine of the sum and difference of any two of its
angles.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.rewriting.canonical import canonical
from accumulus.tape.interpreter import Copy, outputs_at
from accumulus.tape.live import as_written, seeing_zero_signs
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import ADD, MULTIPLY, SUBTRACT, Tape

#: Number of real points, and least number of them at which two equal values have to be defined. More points take time
#: for each value, fewer propose equalities by chance, which the verification rejects.
POINTS: Final = 24
DEFINED: Final = 8
#: Relative difference up to which values are equal: a larger one proposes equalities by chance, a smaller one misses
#: those of values with cancellation.
EQUAL: Final = 1e-9
#: Largest number of angles, including sums that are found: pairs of them take time in proportion to its square, and
#: with fewer, products of sines and cosines stay. Without sums, thirty functions take 1.003 times the operations (`make
#: bench ARGS=sources`).
MOST_SUMS: Final = 32
_SINE, _COSINE = BY_NAME["sin"].code, BY_NAME["cos"].code
_FIELD: Final = frozenset((ADD, SUBTRACT, MULTIPLY))

Reals = NDArray[np.float64]


class _Angle(NamedTuple):
    """An angle: a reference of the program, or the sum or difference of two angles."""

    at: Reals  # value at all points
    last: int  # last reference that it depends on
    terms: tuple[int, int, int] | None = None  # numbers of two angles, and the sign of the second


class _Function(NamedTuple):
    """A value as plus or minus the sine or cosine of an angle, given by its number."""

    code: int
    angle: int
    sign: int


def with_sums_of_angles(tape: Tape, kept_outputs: int = 0) -> Tape | None:
    """Return the program with sines and cosines of sums in place of their formulas; None if it has none.

    It need not be shorter: other values may still need the functions of the terms.

    Args:
        tape: tape in canonical form.
        kept_outputs: number of leading outputs whose operations stay unchanged.

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
    trigonometric = np.flatnonzero((codes == _SINE) | (codes == _COSINE))
    # rewritten values may have other signs of zeros
    if not len(trigonometric) or len(seeing_zero_signs(tape)):
        return None
    # values of all references at random points
    all_of_it = tape.copy()
    all_of_it.outputs = list(range(len(tape)))
    values = outputs_at(all_of_it, np.random.default_rng(0).normal(size=(tape.inputs, POINTS)).T)
    fixed = np.frombuffer(as_written(tape, kept_outputs), bool)
    targets = np.flatnonzero(np.isin(codes, list(_FIELD)) & ~fixed)
    first = sorted({tape.first[r] for r in trigonometric.tolist() if tape.first[r] >= 0})
    angles = [_Angle(values[r], r) for r in first[:MOST_SUMS]]
    functions = _functions(angles, targets, values)
    return canonical(_with_functions(tape, angles, functions), kept_outputs) if functions else None


def _functions(angles: list[_Angle], targets: NDArray[np.int64], values: Reals) -> dict[int, _Function]:
    """Return the sines and cosines among values, by reference, and append new angles to `angles`."""
    functions: dict[int, _Function] = {}
    targets = targets[np.argsort(np.abs(values[targets, 0]))]
    sizes = np.abs(values[targets, 0])
    second = 0
    while second < len(angles):  # the list grows
        at = np.array([angle.at for angle in angles[: second + 1]])
        sums = np.concatenate([at + at[second], at[:second] - at[second]])
        expected = np.stack([np.sin(sums), np.cos(sums)], axis=1)
        # values of the right size at the first point
        near = np.abs(expected[:, :, 0])
        begins, ends = np.searchsorted(sizes, near - EQUAL), np.searchsorted(sizes, near + EQUAL, "right")
        for way in np.flatnonzero((begins < ends).any(axis=1)).tolist():
            first, sign = (way, 1) if way <= second else (way - second - 1, -1)
            last = max(angles[first].last, angles[second].last)
            known = np.array([angle.at for angle in angles])
            same, opposite = (np.flatnonzero(_are_equal(known, side * sums[way])) for side in (1, -1))
            number = int(same[0]) if len(same) else len(angles)
            if len(same):
                last = max(last, angles[number].last)
            elif len(angles) >= MOST_SUMS or len(opposite):
                continue
            new = {}
            for k, code in enumerate((_SINE, _COSINE)):
                behind = targets[begins[way, k] : ends[way, k]]
                behind = behind[behind > last]
                for turn in (1, -1):
                    for reference in behind[_are_equal(values[behind], turn * expected[way, k])].tolist():
                        if reference not in functions:
                            new[reference] = _Function(code, number, turn)
            functions |= new
            if new and number == len(angles):
                angles.append(_Angle(sums[way], last, (first, second, sign)))
        second += 1
    return functions


def _are_equal(ones: Reals, two: Reals) -> NDArray[np.bool_]:
    """Return True for each row that is equal to the points of `two`, up to rounding."""
    both = np.isfinite(ones) & np.isfinite(two)
    with np.errstate(invalid="ignore"):
        is_near = np.abs(ones - two) <= EQUAL * (1.0 + np.abs(two))
    are: NDArray[np.bool_] = (both.sum(axis=1) >= DEFINED) & (is_near | ~both).all(axis=1)
    return are


def _with_functions(tape: Tape, angles: list[_Angle], functions: dict[int, _Function]) -> Tape:
    """Return the program with these values computed as functions of sums."""
    written = Tape(tape.inputs)
    copy = Copy(tape, written, {k: k for k in range(tape.inputs)})

    def angle(number: int) -> int:
        terms = angles[number].terms
        if terms is None:
            return copy[angles[number].last]
        one, two = angle(terms[0]), angle(terms[1])
        return written.add(one, two) if terms[2] > 0 else written.subtract(one, two)

    for reference in range(tape.inputs, len(tape)):
        function = functions.get(reference)
        if function is None:
            copy.record(reference)
        else:
            made = written.apply_code(function.code, [angle(function.angle)])
            copy.values[reference] = made if function.sign > 0 else written.negative(made)
    written.outputs = [copy[output] for output in tape.outputs]
    return written
