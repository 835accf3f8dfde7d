"""Linear systems without exchanges of rows, where these are not needed.

A program that solves a linear system exchanges rows by `select`, so that every pivot is the largest entry of its column
(`accumulus.tape.systems`). The order of rows changes only the rounding of a solution. A positive definite matrix, such
as a mass matrix or a covariance, needs no exchanges: no entry grows, and no pivot is zero (J. H. Wilkinson, *Error
analysis of direct methods of matrix inversion*, J. ACM 8, 1961). Without them, what is left of a symmetric matrix stays
symmetric, so half of the elimination is repeated, and is left out.

Properties of matrices are found numerically. A system is solved without exchanges if, at many points near the given
ones and far from them,

* its matrix is symmetric, and every pivot has the same sign; or
* none of its rows is ever exchanged.

So a matrix has to be definite by its construction, not by the choice of its entries.
`accumulus.resubstitution.optimise.has_results_of` verifies the results, and compares their rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.interpreter import Copy, outputs_at
from accumulus.tape.live import depending, needed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

#: Number of points at which matrices are examined. More take time; with fewer, a pivot that is rarely zero may stay
#: unnoticed.
POINTS: Final = 288
#: Number of points at which values are compared, near the given ones. More take time, fewer find equal values by
#: chance, which the verification refuses.
COMPARED: Final = 16
#: Relative difference up to which values are equal: a larger one finds equal values by chance, a smaller one misses
#: those of values with cancellation.
EQUAL: Final = 1e-9
#: The same for outputs, which a matrix of a bad condition may change, and the fraction of points at which they have to
#: be equal. Both only save time, since the verification refuses other results.
LOOSE: Final = 1e-6
MOST: Final = 0.9
#: Most numbers that are held at once; more take memory, fewer take time for long programs.
MOST_NUMBERS: Final = 2_000_000
_LESS, _ABS, _ATTACH = (BY_NAME[name].code for name in ("less", "abs", "attach"))

Reals = NDArray[np.float64]


def without_exchanges(tape: Tape, points: Reals | None) -> Tape | None:
    """Return the program without exchanges of rows; None if it has none, or some are needed.

    Args:
        tape: program with the derivatives of implicit functions attached.
        points: points of the domain, (points, inputs); None for points near (1, …, 1).

    >>> from accumulus.tape.systems import solutions
    >>> tape = Tape(2)
    >>> off, four = tape.apply("cos", 0), tape.constant(4.0)
    >>> matrix = [[four if row == column else off for column in range(4)] for row in range(4)]
    >>> tape.outputs = [x for row in solutions(tape, matrix, [[1]] * 4) for x in row]
    >>> made = without_exchanges(tape, None)
    >>> tape.codes.count(BY_NAME["select"].code), made.codes.count(BY_NAME["select"].code)
    (64, 0)
    """
    conditions = _exchanges(tape)
    if not conditions:
        return None
    at = _points(tape.inputs, points)
    made, place = _recorded(tape, dict.fromkeys(conditions, tape.constant(0.0)))
    pairs = [[_side(tape, made, place, side) for side in tape.arguments(condition)] for condition in conditions]
    pivots = sorted({pivot for pivot, _ in pairs if pivot >= 0})
    before, after = _values(tape, at, [*tape.outputs, *conditions]), _values(made, at, [*made.outputs, *pivots])
    count = len(tape.outputs)
    is_finite = np.isfinite(before[:count]).all(axis=0)
    before, after = before[:, is_finite], after[:, is_finite]
    if np.count_nonzero(is_finite) < COMPARED or not _agree(before[:count], after[:count]):
        return None
    values = _values(made, at[is_finite][:COMPARED], range(len(made)))
    is_definite = _is_symmetric(made, pairs, values) and _keep_signs(after[count:])
    is_exchanged = bool(before[count:].any())
    return None if is_exchanged and not is_definite else _recorded(made, _equal_values(made, values))[0]


def _exchanges(tape: Tape) -> list[int]:
    """Return the conditions |pivot| < |entry| under which values are exchanged."""
    sides: dict[int, set[tuple[int, int]]] = {}
    is_needed = needed(tape)
    for k, other in tape.third.items():
        condition = tape.first[k]
        if is_needed[k] and condition >= tape.inputs and tape.codes[condition] == _LESS:
            arguments = tape.arguments(condition)
            if all(a < 0 or tape.codes[a] == _ABS for a in arguments):
                sides.setdefault(condition, set()).add((tape.second[k], other))
    return [condition for condition, pairs in sides.items() if any(pair[::-1] in pairs for pair in pairs)]


def _points(inputs: int, points: Reals | None) -> Reals:
    """Return points near the given ones, of other orders of magnitude, and random ones, (points, inputs)."""
    draw = np.random.default_rng(0)
    given = np.ones((1, inputs)) if points is None or not len(points) else points
    off = draw.normal(size=(POINTS // 6, inputs))
    given = given[draw.integers(len(given), size=len(off))]
    near = given * (1.0 + 0.1 * off), given + 0.01 * off, given * 10.0 ** draw.uniform(-1.0, 1.0, off.shape)
    return np.concatenate([*near, off, 4.0 * off, np.abs(off) + 0.1])


def _values(tape: Tape, at: Reals, references: Sequence[int]) -> Reals:
    """Return values at points, (references, points)."""
    run = tape.copy()
    run.outputs = list(references)
    parts = np.array_split(at, 1 + len(tape) * len(at) // MOST_NUMBERS)
    with np.errstate(all="ignore"):
        return np.concatenate([outputs_at(run, part) for part in parts], axis=1)


def _agree(before: Reals, after: Reals) -> bool:
    """Return True if most outputs are equal; rounding may change them at single points."""
    return bool((np.isclose(after, before, rtol=LOOSE, atol=LOOSE).mean(axis=1) >= MOST).all())


def _recorded(tape: Tape, replaced: dict[int, int]) -> tuple[Tape, dict[int, int]]:
    """Return the tape with other values in place of some of its own, and the new reference of each operation."""
    made = Tape(tape.inputs)
    copy = Copy(tape, made, {k: k for k in range(tape.inputs)})
    for k in range(tape.inputs, len(tape)):
        if k in replaced:
            copy.values[k] = copy[replaced[k]]
        else:
            copy.record(k)
    made.outputs = [copy[output] for output in tape.outputs]
    return made, copy.values


def _side(tape: Tape, made: Tape, place: Mapping[int, int], side: int) -> int:
    """Return the reference, in the program without exchanges, of a value whose size is compared."""
    entry = side if side < 0 else tape.first[side]
    return place[entry] if entry >= 0 else made.constant(tape.value_of(entry))


def _is_symmetric(made: Tape, pairs: Sequence[Sequence[int]], values: Reals) -> bool:
    """Return True if matrices are symmetric whose pivots and entries below are compared.

    The elimination subtracts products of entries of the column and of the row of a pivot, divided by the pivot. Row and
    column are equal if it has the products of entries of the column. Zeros in the column are not compared.

    Args:
        made: program without exchanges.
        pairs: references there of a pivot and an entry below it.
        values: values of all references.
    """
    known = _Known(values)
    columns: dict[int, dict[int, Reals]] = {}

    def number(reference: int) -> Reals:
        return values[reference] if reference >= 0 else np.full(values.shape[1], made.value_of(reference))

    for pivot, entry in pairs:
        columns.setdefault(pivot, {})[entry] = number(entry)
    with np.errstate(all="ignore"):
        return all(
            known.find(one * other / number(pivot)) is not None
            for pivot, column in columns.items()
            for one, other in combinations_with_replacement([each for each in column.values() if each.any()], 2)
        )


def _keep_signs(pivots: Reals) -> bool:
    return bool((np.abs(np.sign(pivots).sum(axis=1)) == pivots.shape[1]).all())


def _equal_values(tape: Tape, values: Reals) -> dict[int, int]:
    """Return the first equal value for each other one that has no attached derivative.

    A value that depends on comparisons and is the same at all points may be another one where they have other outcomes,
    as that of a condition of the user's.
    """
    is_attached = depending(tape, [k for k in range(tape.inputs, len(tape)) if tape.codes[k] == _ATTACH])
    is_by_cases = depending(tape, [k for k in range(tape.inputs, len(tape)) if tape.is_boolean(k)])
    plain = [
        k
        for k in range(len(tape))
        if not (is_attached[k] or tape.is_boolean(k) or (is_by_cases[k] and (values[k] == values[k, 0]).all()))
    ]
    known = _Known(values[plain])
    found = {k: known.find(values[k], signed=True) for k in plain if k >= tape.inputs}
    return {k: plain[first] for k, first in found.items() if first is not None and plain[first] < k}


class _Known:
    """Values at points, to be found by their numbers.

    Args:
        values: values, (values, points); those that are not finite are never found.
    """

    def __init__(self, values: Reals) -> None:
        self._values = values
        sizes = np.abs(values[:, 0])
        self._order = np.argsort(sizes, kind="stable")
        self._sizes = sizes[self._order]

    def find(self, wanted: Reals, *, signed: bool = False) -> int | None:
        """Return the position of the first value that equals the wanted one, or its negative; None if there is none."""
        size = abs(wanted[0])
        begin, end = np.searchsorted(self._sizes, [size * (1.0 - EQUAL), size * (1.0 + EQUAL)])
        places = np.sort(self._order[begin : end + 1])
        sides = (wanted,) if signed else (wanted, -wanted)
        with np.errstate(invalid="ignore"):
            is_equal = [(np.abs(self._values[places] - each) <= EQUAL * np.abs(each)).all(axis=1) for each in sides]
        found = places[np.any(is_equal, axis=0)]
        return int(found[0]) if len(found) else None
