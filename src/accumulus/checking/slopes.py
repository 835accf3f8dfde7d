"""Slopes of functions of one number, to compare derivatives with: from differences, and from complex steps.

Each estimate has an error estimate. Differences are refined until they settle: a finer step replaces a coarser one
that it contradicts by more than rounding, since coarse steps alias fast oscillations. A complex step counts as far as
the function is analytic as NumPy evaluates it: its values on a circle in the complex plane have no negative powers.

Known gaps: variations on a scale near the distance of neighbouring doubles are not resolved, and are not settled.

Sources: C. J. F. Ridders, Accurate computation of F'(x) and F'(x)F''(x), Advances in Engineering Software 4, 1982; W.
Squire and G. Trapp, Using complex variables to estimate derivatives of real functions, SIAM Review 40, 1998; for
coefficients from values on a circle J. N. Lyness and C. B. Moler, Numerical differentiation of analytic functions, SIAM
Journal on Numerical Analysis 4, 1967.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: First step relative to the argument, and number of halvings. A larger step leaves the domain or meets kinks, a
#: smaller one with fewer halvings leaves less accurate estimates; each halving costs two evaluations.
FIRST: Final = 0.0625
HALVINGS: Final = 10
#: Largest step of settled differences relative to the argument; ratio of the steps, irrational so that no period of a
#: function divides them all; and smallest step relative to the argument, where its rounding is a thousandth of it.
WIDEST: Final = 0.25
RATIO: Final = 0.5 * (3.0 - 5.0**0.5)
SMALLEST: Final = 2.0**-45
#: Number of consecutive steps that must agree. More miss slopes which only few steps resolve, fewer agree by chance.
AGREEING: Final = 3
#: Factor on estimated errors above which one estimate contradicts another. A larger one keeps aliased estimates, a
#: smaller one takes rounding for variation.
CONTRADICTING: Final = 4.0
#: Rounding of a function's values relative to them, if nothing else is known.
ROUNDING: Final = 2.0**-53
#: Size of a complex step: its square is lost in any sum.
TINY: Final = 1e-150
#: Radii of circles around the argument, relative to it, tried until what complex steps miss is below `SHARP`, relative
#: to the largest slope. Larger ones reach singularities, smaller ones leave digits to rounding.
RADII: Final = (1e-6, 1e-3, 0.25)
SHARP: Final = 1e-10
#: Rounding of a coefficient, the mean of 16 rounded values, relative to them; and the factor on it up to which
#: deviations are rounding. A larger factor misses small parts that are not analytic, a smaller one leaves out analytic
#: functions of many operations.
MEAN_ROUNDING: Final = 2.0**-54
ROUNDED: Final = 256.0
#: Points on the upper half of the unit circle; values on the lower one are conjugate.
CIRCLE: Final = np.exp(0.0625j * np.pi * np.arange(1, 16, 2))[:, np.newaxis]
#: Factor on the coefficients of negative powers. The derivative of |z| or Re z differs from its complex step by twice
#: the first of them over the radius; a larger factor accepts wrong derivatives.
MIRRORED: Final = 4.0


@dataclass(frozen=True, slots=True)
class ResultSlopes:
    """Slopes of several results at one point."""

    central: Floats  # slopes from central differences; NaN where the function has no values
    error: Floats  # error estimates, from the agreement of steps of different sizes
    # left, right: slopes from one side
    left: Floats
    right: Floats
    kinks: NDArray[np.bool_]  # True where left and right do not approach each other as the step is halved
    #: True where the results do not change at all for the smallest steps, for unknown reasons: the function may be
    #: constant there, or its values rounded.
    constant: NDArray[np.bool_] | bool = False

    def expected(self, slopes: Floats) -> Floats:
        """Return what slopes are compared with: at a kink, any slope between the one-sided slopes is correct."""
        between = np.clip(slopes, np.fmin(self.left, self.right), np.fmax(self.left, self.right))
        return np.where(self.kinks, between, self.central)


def central_differences(run: Callable[[float], Floats], x: float, scale: float) -> ResultSlopes:
    """Return slopes of `run` at `x`, extrapolated from halved steps with the best agreement.

    Args:
        run: function from a number to a flat array of results.
        x: point at which slopes are computed.
        scale: size of numbers over which `run` changes little.

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
        # with jumps within larger steps, their agreement may be chance
        error = np.fmax(error, np.abs(best - before[0]))
        kinks = (gaps[-1] > 0.75 * gaps[-2]) & (gaps[-1] > 1e-6 * (np.abs(left) + np.abs(right)))
        return ResultSlopes(best, error, left, right, kinks & np.isfinite(gaps[-1]))


def settled_differences(run: Callable[[float], Floats], x: float, scale: float, noise: Floats) -> ResultSlopes:
    """Return slopes of `run` at `x` from the finest steps that rounding does not hide; errors are large if none settle.

    Args:
        run: function from a number to a flat array of results.
        x: point at which slopes are computed.
        scale: largest size of numbers over which `run` may change little.
        noise: bounds on the rounding of the results, as far as they are known. It is also measured at the doubles next
            to `x`.

    >>> def fast(x):
    ...     return np.array([np.sin(1e5 * x)])
    >>> slopes = settled_differences(fast, 2.0, 2.0, np.zeros(1))
    >>> bool(abs(slopes.central[0] / (1e5 * np.cos(2e5)) - 1.0) < 1e-5), bool(slopes.error[0] < 1.0)
    (True, True)
    """
    middle, ulp = run(x), np.spacing(abs(x))
    with np.errstate(all="ignore"):
        nearby = np.abs([run(x + k * ulp) - middle for k in (-2, -1, 1, 2)])
        noise = np.where(np.isfinite(noise), noise, 0.0) + ROUNDING * np.abs(middle)
        noise = noise + np.fmax.reduce(np.where(np.isfinite(nearby), nearby, 0.0))
        steps, central, left, right = [], [], [], []
        change = quantum = np.full(middle.shape, np.inf)
        step = WIDEST * max(scale, 1.0)
        while step > SMALLEST * (abs(x) or scale):
            above, below = x + step, x - step
            high, low = run(above), run(below)
            steps.append(step)
            central.append((high - low) / (above - below))
            left.append((middle - low) / (x - below))
            right.append((high - middle) / (above - x))
            change = np.fmax(np.abs(high - middle), np.abs(low - middle))
            quantum = np.where(change > 0, np.fmin(quantum, change), quantum)
            step *= RATIO
        constant = (change == 0) & (quantum > noise) & np.isfinite(quantum)
        noise = np.where(constant, quantum, noise)
        slope, error = _settled(central, steps, noise, 2)
        (before, left_error), (after, right_error) = (_settled(side, steps, noise, 1) for side in (left, right))
        either = left_error + right_error
        kinks = np.abs(after - before) > CONTRADICTING * either
        return ResultSlopes(slope, np.where(kinks, either, error), before, after, kinks, constant)


def _settled(differences: Sequence[Floats], steps: Sequence[float], noise: Floats, order: int) -> tuple[Floats, Floats]:
    """Return the slope that no finer step contradicts, and its error: spread over steps, and rounding.

    Args:
        differences: divided differences for each step.
        steps: sizes of the steps, each `RATIO` times the one before.
        noise: bounds on the rounding of the results.
        order: order of the leading error of the differences, which is extrapolated away.
    """
    power = RATIO**order
    finer = np.array([(fine - power * coarse) / (1.0 - power) for coarse, fine in pairwise(differences)])
    slope, error = np.full(noise.shape, np.nan), np.full(noise.shape, np.inf)
    for k in range(len(finer) - AGREEING + 1):
        window = finer[k : k + AGREEING]
        lost = noise / steps[k + 1]
        spread = window.max(axis=0) - window.min(axis=0) + lost
        value = window[0]
        contradicted = np.abs(value - slope) > CONTRADICTING * (error + lost)
        replaced = np.isfinite(spread) & (np.isnan(slope) | contradicted | (spread < error))
        slope, error = np.where(replaced, value, slope), np.where(replaced, spread, error)
    return slope, error


def complex_step(run: Callable[[complex], NDArray[Any]], x: float) -> Floats:
    """Return slopes of `run` at `x` from one complex step: accurate to rounding if it is analytic.

    >>> complex_step(lambda x: np.array([x**3]), 2.0)
    array([12.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(run(complex(x, TINY)).imag / TINY, np.float64)


def complex_slopes(
    run: Callable[[complex], NDArray[Any]], x: float, scale: float, values: Floats
) -> tuple[Floats, Floats]:
    """Return slopes of `run` at `x` from a complex step, and bounds on what they miss as far as it is not analytic.

    On a circle with few points, an analytic function has no negative powers, its first coefficient is the slope, and
    its mean is the value. A bound is the largest deviation from that, which includes rounding. Since a wide circle does
    not resolve fast oscillations, it counts only if all deviations on smaller circles are rounding.

    Args:
        run: function from a complex number to a flat array of results.
        x: point at which slopes are computed.
        scale: size of numbers over which `run` changes little.
        values: results at `x`.

    >>> slopes, missed = complex_slopes(lambda z: np.array([z**2, abs(z) ** 2]), 1.5, 1.5, np.array([2.25, 2.25]))
    >>> slopes.tolist(), (missed < 1e-9).tolist()
    ([3.0, 0.0], [True, False])
    """
    slopes, missed = complex_step(run, x), np.full(values.shape, np.inf)
    analytic = np.ones(values.shape, bool)
    wider = [share for share in RADII if share > RADII[0] * scale]
    with np.errstate(all="ignore"):
        for radius in sorted({*(share * scale for share in RADII), *wider}):
            on_circle = np.array([run(z) for z in (x + radius * CIRCLE).ravel().tolist()])
            coefficients = {m: (on_circle * CIRCLE**-m).real.mean(axis=0) for m in (-3, -2, -1, 0, 1)}
            coefficients[0] -= values
            coefficients[1] -= radius * slopes
            rounding = MEAN_ROUNDING * np.abs(on_circle).max(axis=0)
            deviation = np.maximum(np.abs(list(coefficients.values())).max(axis=0), rounding)
            smallest = np.isinf(missed)
            analytic &= deviation <= ROUNDED * rounding
            missed = np.where(smallest | analytic, np.fmin(missed, MIRRORED * deviation / radius), missed)
            if (missed <= SHARP * np.abs(slopes).max(initial=0.0)).all():
                break
    return slopes, missed
