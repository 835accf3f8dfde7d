"""Real points of a function's domain: at random, around those that are given, near the zeros of what it computes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.resubstitution.bounds import Reals, run
from accumulus.tape.tape import Tape

__all__ = ["Points", "points_of"]

#: Points at random, around those that are given and around none.
AT_RANDOM: Final = 12
#: Numbers that single inputs are, too, and how many such points there are at most: functions go to their limits there.
FAR: Final = (-300.0, -30.0, 30.0, 300.0)
MOST_FAR: Final = 48
#: Values whose zeros are looked for, how near to them as parts of the way, and halvings of it.
ZEROS: Final = 24
NEAR: Final = (1e-3, 1e-7)
HALVINGS: Final = 40


class Points(NamedTuple):
    """Real points.

    Attributes:
        at: them, (points, inputs).
        generic: whether what is undefined at each is so all around, (points,).
    """

    at: Reals
    generic: NDArray[np.bool_]


def points_of(tape: Tape, given: Reals | None, rng: np.random.Generator) -> Points:
    """Points at which something is computed, and of which some are in the domain."""
    around = _around(tape.inputs, given, rng)
    whole = np.round(rng.normal(size=(AT_RANDOM, tape.inputs)))
    if given is not None and given.shape[1:] == (tape.inputs,):
        whole = np.concatenate([whole, given[:AT_RANDOM]])
    generic = np.concatenate([around, _near_zeros(tape, around, rng)])
    at = np.concatenate([generic, whole])
    return Points(at, np.arange(len(at)) < len(generic))


def _around(inputs: int, given: Reals | None, rng: np.random.Generator) -> Reals:
    """Points of a function's domain, (points, inputs): those that are given, others around them, and at random."""
    near = rng.normal(size=(AT_RANDOM, inputs))
    far = rng.permutation([(k, x) for k in range(inputs) for x in FAR])[:MOST_FAR].reshape(-1, 2)
    single = near[rng.integers(AT_RANDOM, size=len(far))]
    single[np.arange(len(far)), far[:, 0].astype(int)] = far[:, 1]
    found = [near, 4.0 * near, np.abs(near) + 0.1, 1e-4 * near, single]
    if given is not None and len(given) and given.shape[1] == inputs:
        around = given[rng.integers(len(given), size=AT_RANDOM)]
        found += [around * (1 + 0.1 * near), around + 1e-2 * near]
    return np.concatenate(found)


def _near_zeros(tape: Tape, points: Reals, rng: np.random.Generator) -> Reals:
    """Points near which an intermediate value is zero, but not at them, (points, inputs)."""
    finite = points[np.isfinite(points).all(axis=1)]
    if len(finite) < 2 or not tape.operations:
        return points[:0]
    values = rng.integers(tape.inputs, len(tape), size=4 * ZEROS)
    low, high = (finite[rng.integers(len(finite), size=len(values))] for _ in range(2))
    lanes = np.arange(len(values))

    def at(x: Reals) -> Reals:
        found: Reals = run(tape, x, bounds=False)[0][values, lanes]
        return found

    before = at(low)
    crossing = np.flatnonzero(np.sign(before) * np.sign(at(high)) < 0)[:ZEROS]
    values, low, high, before = values[crossing], low[crossing], high[crossing], before[crossing]
    lanes = np.arange(len(values))
    way = high - low
    inner, outer = np.zeros(len(values)), np.ones(len(values))
    for _ in range(HALVINGS):
        middle = 0.5 * (inner + outer)
        same = np.sign(at(low + middle[:, np.newaxis] * way)) == np.sign(before)
        inner, outer = np.where(same, middle, inner), np.where(same, outer, middle)
    return np.concatenate([low + (inner * (1 - near))[:, np.newaxis] * way for near in NEAR])
