"""Derivatives of a function of one number from its values: central differences with error estimates, complex steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Slopes", "central_differences", "complex_step"]

Floats = NDArray[np.float64]

#: The first step relative to the argument, and how many times it is halved.
FIRST: Final = 0.0625
HALVINGS: Final = 10
#: How small a complex step is: its square is lost beside anything.
TINY: Final = 1e-150


@dataclass(frozen=True, slots=True)
class Slopes:
    """Slopes of several results at one point.

    Attributes:
        central: from differences on both sides; NaN where the function is none.
        error: how far they may be off, by how well steps of different sizes agree.
        left, right: from one side.
        kinks: where left and right do not meet when the step is halved.
    """

    central: Floats
    error: Floats
    left: Floats
    right: Floats
    kinks: NDArray[np.bool_]


def central_differences(run: Callable[[float], Floats], x: float, scale: float) -> Slopes:
    """Slopes of `run` at `x`, extrapolated from steps that are halved, of which those count that agree best.

    Args:
        run: a number → results, in one array.
        x: where.
        scale: the size of numbers for which `run` changes little.

    Source:
        C. J. F. Ridders, Accurate computation of F'(x) and F'(x)F''(x), Advances in Engineering Software 4, 1982.

    >>> slopes = central_differences(lambda x: np.array([x**3]), 2.0, 2.0)
    >>> bool(abs(slopes.central[0] - 12.0) < 1e-9)
    True
    """
    middle = run(x)
    best, error = np.full(middle.shape, np.nan), np.full(middle.shape, np.inf)
    before: list[Floats] = []
    gaps: list[Floats] = []
    left = right = best
    with np.errstate(all="ignore"):
        for k in range(HALVINGS):
            step = FIRST * scale * 0.5**k
            above, below = x + step, x - step
            high, low = run(above), run(below)
            right, left = (high - middle) / (above - x), (middle - low) / (x - below)
            gaps.append(np.abs(right - left))
            row = [(high - low) / (above - below)]
            for order, coarser in enumerate(before):
                power = 4.0 ** (order + 1)
                row.append((power * row[-1] - coarser) / (power - 1.0))
                apart = np.fmax(np.abs(row[-1] - row[-2]), np.abs(row[-1] - coarser))
                # rounding of the values themselves
                apart = apart + 2.0**-50 * np.abs(middle) / step
                better = apart < error
                best, error = np.where(better, row[-1], best), np.where(better, apart, error)
            before = row
        # agreement of larger steps may be chance where there are jumps among them
        error = np.fmax(error, np.abs(best - before[0]))
        kinks = (gaps[-1] > 0.75 * gaps[-2]) & (gaps[-1] > 1e-6 * (np.abs(left) + np.abs(right)))
        return Slopes(best, error, left, right, kinks & np.isfinite(gaps[-1]))


def complex_step(run: Callable[[complex], NDArray[Any]], x: float) -> Floats:
    """Slopes of `run` at `x` from one complex step: to the last digits, where it is analytic.

    Source:
        W. Squire, G. Trapp, Using complex variables to estimate derivatives of real functions, SIAM Review 40, 1998.

    >>> complex_step(lambda x: np.array([x**3]), 2.0)
    array([12.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(run(complex(x, TINY)).imag / TINY, np.float64)
