"""Comparison of recorded programs with their functions in NumPy, for all tests of the front end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from inside import evaluate, flatten

from accumulus.frontends import record


def assert_agrees(
    function: Callable[..., Any], *points: Sequence[Any], example: Sequence[Any] | None = None, rtol: float = 1e-11
) -> None:
    """Record `function` once, run the recording at every point and compare with NumPy, structure included.

    The function is recorded on `example`, by default on ones, so that nothing of the points can enter the recording.
    """
    arguments = [blank(argument) for argument in points[0]] if example is None else example
    recording = record(function, arguments)
    record(function, points[0], check=True)
    for point in points:
        inputs = [float(x) for argument in point for x in np.ravel(argument)]
        values = iter(evaluate(recording.program, inputs))
        with np.errstate(all="ignore"):
            expected = function(*(np.copy(a) if isinstance(a, np.ndarray) else a for a in point))
        structure, leaves = flatten(expected)
        assert structure == recording.structure
        assert recording.result_shapes == tuple(np.shape(leaf) for _, leaf in leaves)
        scale = 1.0 + max((abs(x) for x in inputs if np.isfinite(x)), default=0.0)
        for path, leaf in leaves:
            recorded = np.array([float(next(values)) for _ in range(np.size(leaf))]).reshape(np.shape(leaf))
            np.testing.assert_allclose(recorded, np.asarray(leaf, float), rtol, 1e-13 * scale, err_msg=path)


def blank(argument: Any) -> Any:
    """An argument of the same shape that tells nothing else."""
    return np.ones(argument.shape) if isinstance(argument, np.ndarray) else 1.0
