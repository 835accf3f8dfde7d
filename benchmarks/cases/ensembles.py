"""Many initial value problems of one system, for `groups/ensembles.py` and for peers; needs NumPy alone.

Robertson, POLLU and van der Pol are stiff. Source: F. Mazzia and C. Magherini, Test Set for Initial Value Problem
Solvers, 2008; the reaction rates of POLLU are scaled by one parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-8


class Ensemble(NamedTuple):
    """Problems that differ in their parameters.

    Attributes:
        rates: function of a namespace with `sin`, the time, the state and the parameters; returns a list.
        y0: initial state of all problems.
        times: times at which states are requested.
        parameters: parameters, which are varied by up to a fifth.
    """

    rates: Callable[[Any, Any, Any, Any], list[Any]]
    y0: NDArray[np.float64]
    times: NDArray[np.float64]
    parameters: NDArray[np.float64]

    def drawn(self, count: int, seed: int) -> NDArray[np.float64]:
        """Return parameters of problems, (count, parameters)."""
        factors = np.random.default_rng(seed).uniform(0.8, 1.2, (count, len(self.parameters)))
        return np.asarray(self.parameters * factors)


def _robertson(np: Any, t: Any, y: Any, p: Any) -> list[Any]:
    a, b, c = p[0] * y[0], p[1] * y[1] * y[1], p[2] * y[1] * y[2]
    return [c - a, a - c - b, b]


def _van_der_pol(np: Any, t: Any, y: Any, p: Any) -> list[Any]:
    return [y[1], p[0] * (1.0 - y[0] * y[0]) * y[1] - y[0]]


def _pendulum(np: Any, t: Any, y: Any, p: Any) -> list[Any]:
    return [y[1], -p[0] * np.sin(y[0])]


def _kepler(np: Any, t: Any, y: Any, p: Any) -> list[Any]:
    pull = -p[0] * (y[0] * y[0] + y[1] * y[1]) ** -1.5
    return [y[2], y[3], pull * y[0], pull * y[1]]


def _lorenz(np: Any, t: Any, y: Any, p: Any) -> list[Any]:
    return [p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]


_CONSTANTS = (
    0.35, 26.6, 1.23e4, 8.6e-4, 8.2e-4, 1.5e4, 1.3e-4, 2.4e4, 1.65e4, 9e3, 0.022, 1.2e4, 1.88, 1.63e4, 4.8e6, 3.5e-4,
    0.0175, 1e8, 4.44e11, 1240.0, 2.1, 5.78, 0.0474, 1780.0, 3.12,
)  # fmt: skip
#: Educts of each reaction of POLLU; and terms of each species: reactions, from 1, with the sign of their effect.
_EDUCTS = (
    (0,), (1, 3), (4, 1), (6,), (6,), (6, 5), (8,), (8, 5), (10, 1), (10, 0), (12,), (9, 1), (13,), (0, 5), (2,), (3,),
    (3,), (15,), (15,), (16, 5), (18,), (18,), (0, 3), (18, 0), (19,),
)  # fmt: skip
_EFFECTS = (
    (-1, -10, -14, -23, -24, 2, 3, 9, 11, 12, 22, 25), (-2, -3, -9, -12, 1, 21), (-15, 1, 17, 19, 22),
    (-2, -16, -17, -23, 15), (-3, 4, 4, 6, 7, 13, 20), (-6, -8, -14, -20, 3, 18, 18), (-4, -5, -6, 13), (4, 5, 6, 7),
    (-7, -8), (-12, 7, 9), (-9, -10, 8, 11), (9,), (-11, 10), (-13, 12), (14,), (-18, -19, 16), (-20,), (20,),
    (-21, -22, -24, 23, 25), (-25, 24),
)  # fmt: skip


def _pollu(np: Any, t: Any, y: Any, p: Any) -> list[Any]:
    reactions = []
    for constant, educts in zip(_CONSTANTS, _EDUCTS, strict=True):
        rate = p[0] * constant
        for k in educts:
            rate = rate * y[k]
        reactions.append(rate)
    return [sum(reactions[k - 1] if k > 0 else -reactions[-k - 1] for k in effects) for effects in _EFFECTS]


_POLLU_START = np.zeros(20)
_POLLU_START[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007
STIFF = {
    "Robertson": Ensemble(
        _robertson,
        np.array([1.0, 0.0, 0.0]),
        np.array([0.0, *(0.4 * 10.0 ** np.arange(7))]),
        np.array([0.04, 3e7, 1e4]),
    ),
    "POLLU": Ensemble(_pollu, _POLLU_START, np.linspace(0.0, 60.0, 7), np.ones(1)),
    "van der Pol, 1,000": Ensemble(_van_der_pol, np.array([2.0, 0.0]), np.linspace(0.0, 2000.0, 6), np.array([1e3])),
}
OTHERS = {
    "van der Pol, 1": Ensemble(_van_der_pol, np.array([2.0, 0.0]), np.linspace(0.0, 20.0, 11), np.ones(1)),
    "pendulum": Ensemble(_pendulum, np.array([1.0, 0.0]), np.linspace(0.0, 20.0, 11), np.ones(1)),
    "Kepler": Ensemble(_kepler, np.array([1.0, 0.0, 0.0, 1.1]), np.linspace(0.0, 20.0, 11), np.ones(1)),
    "Lorenz": Ensemble(_lorenz, np.ones(3), np.linspace(0.0, 2.0, 11), np.array([10.0, 28.0, 8.0 / 3.0])),
}
