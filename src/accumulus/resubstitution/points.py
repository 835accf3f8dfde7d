"""Real points of a function's domain: at random, around those that are given, near the zeros of what it computes.

Programs run there with first-order bounds on the error of each value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.rewriting.running import DOUBLE, SINGLE, SPANS, RealRuns, Reals, Span
from accumulus.tape.tape import Tape

#: Points at random, around those that are given and around none.
AT_RANDOM: Final = 12
#: Numbers that single inputs are, too, and how many such points there are at most: functions go to their limits there.
FAR: Final = {DOUBLE: (-300.0, -30.0, 30.0, 300.0), SINGLE: (-80.0, -30.0, 30.0, 80.0)}
MOST_FAR: Final = 48
#: Values whose zeros are looked for, how near to them as parts of the way, and steps to find them.
ZEROS: Final = 24
NEAR: Final = (1e-3, 1e-7)
HALVINGS: Final = 4
SECANTS: Final = 9
#: Points that are drawn from, at least.
FEWEST: Final = 2


class RealPoints(NamedTuple):
    """Real points."""

    at: Reals  # them, (points, inputs)
    # whether each is in the part of the domain that counts: around those that are given, if some are
    inside: NDArray[np.bool_]
    # whether each is one where programs are run, neither far away nor on the way to a limit, (points,)
    common: NDArray[np.bool_]
    generic: NDArray[np.bool_]  # whether what is undefined at each is so all around, (points,)
    span: Span = DOUBLE  # of the numbers that programs are computed in


def points_of(
    tape: Tape, given: Reals | None, rng: np.random.Generator, dtype: str = "float64", *, few: bool = False
) -> RealPoints:
    """Points at which something is computed, and of which some are in the domain; numbers of a type.

    Args:
        few: whether to leave out zeros far from the points that are given, and half of the points that are far from 0.
    """
    span = SPANS[dtype]
    anywhere = _anywhere(tape.inputs, rng)
    whole = np.round(rng.normal(size=(AT_RANDOM, tape.inputs)))
    if given is not None and len(given) and given.shape[1:] == (tape.inputs,):
        around = _around(given, rng)
        near, *elsewhere = _near_zeros(tape, [around] if few else [around, anywhere], span, rng)
        parts = [
            (around, "inside common generic"),
            (near, "inside generic"),
            (anywhere, "common generic"),
            *((zeros, "generic") for zeros in elsewhere),
            (given[:AT_RANDOM], "inside"),
        ]
    else:
        (near,) = _near_zeros(tape, [anywhere], span, rng)
        parts = [
            (anywhere, "inside common generic"),
            (near, "inside generic"),
        ]
    parts += [(_rare(tape.inputs, span, rng, MOST_FAR // 2 if few else MOST_FAR), "generic"), (whole, "")]
    at = np.concatenate([at for at, _ in parts]).astype(dtype).astype(float)
    kinds = ("inside", "common", "generic")
    inside, common, generic = (np.concatenate([np.full(len(at), k in names) for at, names in parts]) for k in kinds)
    return RealPoints(at, inside, common, generic, span)


def _around(given: Reals, rng: np.random.Generator) -> Reals:
    """Points around some, (points, inputs)."""
    near = rng.normal(size=(AT_RANDOM, given.shape[1]))
    around = given[rng.integers(len(given), size=AT_RANDOM)]
    return np.concatenate([around * (1 + 0.1 * near), around + 1e-2 * near, around * 2.0 ** np.clip(near, -1, 1)])


def _anywhere(inputs: int, rng: np.random.Generator) -> Reals:
    """Points at random, (points, inputs)."""
    near = rng.normal(size=(AT_RANDOM, inputs))
    return np.concatenate([near, 4.0 * near, np.abs(near) + 0.1])


def _rare(inputs: int, span: Span, rng: np.random.Generator, most: int) -> Reals:
    """Points with a number that is far from 0, so many at most, and some that are near to it, (points, inputs)."""
    near = rng.normal(size=(AT_RANDOM, inputs))
    far = rng.permutation([(k, x) for k in range(inputs) for x in FAR[span]])[:most].reshape(-1, 2)
    single = near[rng.integers(AT_RANDOM, size=len(far))]
    single[np.arange(len(far)), far[:, 0].astype(int)] = far[:, 1]
    return np.concatenate([1e-4 * near, single])


def _near_zeros(tape: Tape, sets: Sequence[Reals], span: Span, rng: np.random.Generator) -> list[Reals]:
    """For each of some sets of points, others between them near which an intermediate value is zero, but not at them.

    Those of all sets are looked for together.
    """
    finite = [points[np.isfinite(points).all(axis=1)] for points in sets]
    enough = [len(points) >= FEWEST and tape.operations > 0 for points in finite]
    if not all(enough):
        found = iter(_near_zeros(tape, [each for each, some in zip(finite, enough, strict=True) if some], span, rng))
        return [next(found) if some else points[:0] for points, some in zip(sets, enough, strict=True)]
    if not sets:
        return []
    # values that may be zero between two points each
    drawn = []
    for each in finite:
        values = rng.integers(tape.inputs, len(tape), size=4 * ZEROS)
        drawn.append((values, *(each[rng.integers(len(each), size=len(values))] for _ in range(2))))
    values, low, high = (np.concatenate(columns) for columns in zip(*drawn, strict=True))
    runs = RealRuns(tape, len(values), span, bounds=False)

    def value_at(points: Reals) -> Reals:
        found: Reals = runs.at(points)[0][values, np.arange(len(values))]
        return found

    before, after = value_at(low), value_at(high)
    crosses = (np.sign(before) * np.sign(after) < 0).reshape(len(sets), -1)
    # of each set so many
    crossing = np.flatnonzero(crosses & (np.cumsum(crosses, axis=1) <= ZEROS))
    counts = np.bincount(crossing // crosses.shape[1], minlength=len(sets))
    values, low, way = values[crossing], low[crossing], high[crossing] - low[crossing]
    runs = RealRuns(tape, len(values), span, bounds=False)

    zeros = _zeros(lambda t: value_at(low + t[:, np.newaxis] * way), before[crossing], after[crossing])
    near = [np.split(low + (zeros * (1 - near))[:, np.newaxis] * way, np.cumsum(counts)[:-1]) for near in NEAR]
    return [np.concatenate(parts) for parts in zip(*near, strict=True)]


def _zeros(f: Callable[[Reals], Reals], before: Reals, after: Reals) -> Reals:
    """Return where functions are zero between 0 and 1, (functions,): by halving, then Illinois (Dowell, Jarratt, 1971).

    Args:
        f: all functions, each at a point of its own.
        before: at 0, and `after`, at 1: of other signs.
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
        # the end that stays counts half, so that the other does not stay for ever
        at_left, at_right = np.where(moves_left, at, 0.5 * at_left), np.where(moves_left, 0.5 * at_right, at)
        left, right = np.where(moves_left, t, left), np.where(moves_left, right, t)
    return t
