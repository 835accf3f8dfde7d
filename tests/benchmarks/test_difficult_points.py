"""Points at which programs go wrong first: in the domain, near zeros and at ends."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import library
from difficult_points import difficult_points
from functions import Example

COUNT = 60


class Box:
    """A function in the form of the benchmarks' examples, of points between -1 and 1."""

    name = "box"
    inputs = 2
    point = np.array([0.25, 0.75])

    def __init__(self, function):
        self.function = function

    def sample(self, points, seed=0):
        return np.random.default_rng(seed).uniform(-1.0, 1.0, (points, 2))


def test_half_are_near_zeros_and_half_at_ends():
    function = Box(lambda x: np.array([1.0 / (x[0] - x[1]), np.exp(x[0] + 3.0)]))
    X = difficult_points(function, COUNT, 1)
    assert X.shape == (COUNT, 2)
    assert np.abs(X).max() <= 1.0
    near, ends = X[: COUNT // 2], X[COUNT // 2 :]
    # of a line no longer than the diagonal, a hundredth
    distances = np.min(np.abs([near[:, 0], near[:, 1], near[:, 0] - near[:, 1]]), axis=0)
    assert distances.max() <= 0.02 * np.sqrt(2.0)
    assert distances.min() < 1e-6
    values = np.abs([ends[:, 0], ends[:, 1], 0.5 * (ends[:, 0] - ends[:, 1])])
    assert np.maximum(values.max(axis=0), 1.0 - values.min(axis=0)).min() > 0.95
    np.testing.assert_array_equal(X, difficult_points(function, COUNT, 1))


def test_sides_of_comparisons_are_nearly_equal():
    function = Box(lambda x: np.array([np.where(x[0] + 3.0 < x[1] + 3.0, x[0] + 3.0, 2.0 * x[1] + 8.0)]))
    near = difficult_points(function, COUNT, 1)[: COUNT // 2]
    assert np.sum(np.abs(near[:, 0] - near[:, 1]) < 1e-4) > 3


def test_where_nothing_is_zero_all_are_at_ends():
    function = Box(lambda x: np.exp(x) + 3.0)
    function.sample = lambda points, seed=0: np.random.default_rng(seed).uniform(1.0, 2.0, (points, 2))
    X = difficult_points(function, COUNT, 1)
    assert X.shape == (COUNT, 2)
    assert np.min(np.minimum(X - 1.0, 2.0 - X), axis=1).max() < 0.05


def test_results_are_finite():
    function = Box(lambda x: np.array([np.sqrt(x[0]), np.log(x[1])]))
    X = difficult_points(function, COUNT, 1)
    assert X.shape == (COUNT, 2)
    assert (X > 0.0).all()


@pytest.mark.parametrize("name", ["roe_flux", "robot_arm"])
def test_in_the_domain(name):
    example = Example(name)
    X, many = difficult_points(example, COUNT, 1), example.sample(20_000, 5)
    margin = 0.01 * np.ptp(many, axis=0)
    assert ((many.min(axis=0) - margin <= X) & (many.max(axis=0) + margin >= X)).all()
    assert np.isfinite(library.values_and_jacobians(example, X, optimise=False)[0]).all()
