"""Points at which programs go wrong first: near zeros of what a function computes, and where that is largest or least.

A difference that cancels, a divisor or a radicand close to zero, the sides of a comparison that are nearly equal: each
is a zero of a value on the way to the results. Such points are found on lines between random points, and approached to
several distances. The others are those of many random points at which one of these values is at its largest or
smallest: the ends of the domain.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

import library
from functions import Example

#: Lines between random points, and random points, that are looked at.
LINES: Final = 1000
SAMPLES: Final = 5000
#: Distances from a zero, as parts of a line: their logarithms to base 10 are distributed evenly.
NEAREST: Final = -8.0
FARTHEST: Final = -2.0
#: Until two numbers of a line are neighbours.
HALVINGS: Final = 55

Matrix = NDArray[np.float64]


def difficult_points(example: Example, points: int, seed: int) -> Matrix:
    """So many points, (points, inputs), in the domain that the example's random points are from.

    Half of them are near zeros, where there are any. Results are finite at each.
    """
    rng = np.random.default_rng(seed)
    lines = example.sample(2 * LINES, seed).reshape(2, LINES, example.inputs)
    near = _near_zeros(example, lines[0], lines[1], points // 2, rng)
    ends = _ends(example, example.sample(SAMPLES, seed + 1), points - len(near))
    return np.concatenate([near, ends])


def _near_zeros(example: Example, first: Matrix, second: Matrix, count: int, rng: np.random.Generator) -> Matrix:
    """Of as many values as there are, in turn."""
    before, after = (np.sign(library.values_on_the_way(example, ends)) for ends in (first, second))
    lines, values = np.nonzero(before * after < 0.0)
    if not lines.size:
        return np.empty((0, example.inputs))
    order = _in_turn(rng.permuted(np.arange(lines.size)), values)[: 4 * count]
    lines, values = lines[order], values[order]
    start, way = first[lines], second[lines] - first[lines]
    rows = np.arange(lines.size)
    low, high = np.zeros(lines.size), np.ones(lines.size)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        found = library.values_on_the_way(example, start + middle[:, None] * way)[rows, values]
        is_before = np.sign(found) == before[lines, values]
        low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
    distances = 10.0 ** rng.uniform(NEAREST, FARTHEST, lines.size) * rng.choice([-1.0, 1.0], lines.size)
    at = np.clip(high + distances, 0.0, 1.0)
    return _defined(example, start + at[:, None] * way)[:count]


def _ends(example: Example, samples: Matrix, count: int) -> Matrix:
    """Return points at which values are largest, nearest to zero, or smallest, for all values in turn."""
    samples = _defined(example, samples)
    found = library.values_on_the_way(example, samples)
    ranks = np.stack([np.argsort(key, axis=0)[:count] for key in (-found, np.abs(found), found)])
    candidates = ranks.transpose(1, 2, 0).reshape(-1)  # the best of all values first
    _, firsts = np.unique(candidates, return_index=True)
    chosen: Matrix = samples[candidates[np.sort(firsts)[:count]]]
    return chosen


def _in_turn(order: NDArray[np.int64], kinds: NDArray[np.int64]) -> NDArray[np.int64]:
    """An order in which the first of every kind comes before the second of any."""
    by_kind = order[np.argsort(kinds[order], kind="stable")]
    sorted_kinds = kinds[by_kind]
    starts = np.searchsorted(sorted_kinds, sorted_kinds)
    turns = np.arange(order.size) - starts
    return by_kind[np.argsort(turns, kind="stable")]


def _defined(example: Example, X: Matrix) -> Matrix:
    """Those of the points at which all results are finite."""
    results = library.values_and_jacobians(example, X, optimise=False)[0]
    return X[np.isfinite(results).all(axis=(1, 2))]
