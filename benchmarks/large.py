"""Programs of thousands of operations or results, on which every stage of a preparation has to be linear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CASES", "Case"]


@dataclass(frozen=True, slots=True)
class Case:
    """A function and a point.

    Attributes:
        name: in tables.
        function: of one array.
        point: where its Jacobian is taken.
        options: of `accumulus.jacobian`.
        seconds: that compiling it for one point may take.
    """

    name: str
    function: Callable[[NDArray[np.float64]], Any]
    point: NDArray[np.float64]
    options: dict[str, Any] = field(default_factory=dict)
    seconds: float = 1.0


def _pendulum(x: NDArray[np.float64]) -> Any:
    """A pendulum with friction, 400 steps of the classical Runge-Kutta method."""

    def slope(state: list[Any]) -> list[Any]:
        angle, speed = state
        return [speed, -np.sin(angle) - 0.1 * speed]

    def moved(state: list[Any], by: float, rate: list[Any]) -> list[Any]:
        return [s + by * r for s, r in zip(state, rate, strict=True)]

    state, step = [x[0], x[1]], 0.01
    for _ in range(400):
        a = slope(state)
        b = slope(moved(state, step / 2, a))
        c = slope(moved(state, step / 2, b))
        d = slope(moved(state, step, c))
        state = [s + step / 6 * (p + 2 * q + 2 * r + t) for s, p, q, r, t in zip(state, a, b, c, d, strict=True)]
    return np.array(state)


def _layers(width: int) -> Callable[[NDArray[np.float64]], Any]:
    random = np.random.default_rng(1)
    first, second = random.normal(size=(2, width, width)) / np.sqrt(width)
    return lambda x: np.tanh(second @ np.tanh(first @ x))


def _residuals(x: NDArray[np.float64]) -> Any:
    """Those of Rosenbrock's function."""
    return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])


def _point(size: int) -> NDArray[np.float64]:
    return np.random.default_rng(size).normal(size=size)


CASES = (
    Case("RK4, 400 steps", _pendulum, np.array([0.4, 0.1])),
    Case("layers of 40", _layers(40), _point(40)),
    Case("outer of 25", lambda x: np.outer(x, x), _point(25)),
    Case("outer of 60", lambda x: np.outer(x, x), _point(60), seconds=2.0),
    Case("cumsum of 100", lambda x: np.cumsum(x**2), _point(100)),
    Case("cumsum of 300", lambda x: np.cumsum(x**2), _point(300), seconds=2.0),
    Case("Rosenbrock, 10⁴", _residuals, _point(10_000), {"sparse": "csr"}),
)
