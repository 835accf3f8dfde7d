"""Functions and a graph that are hard to prepare: long chains, dense layers, many results. All deterministic.

Each function is made for a size: `pendulum_steps(400)` is a function of one array and a point for it. Sources: the
pendulum of `docs/`; the classical Runge–Kutta method (W. Kutta, 1901); H. H. Rosenbrock, The Computer Journal 3 (1960).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import accumulus as acc

Function = Callable[[NDArray[np.float64]], Any]


@dataclass(frozen=True)
class Case:
    """One function, a point for it, and the format of Jacobians that a user would ask for."""

    function: Function
    point: NDArray[np.float64]
    sparse: bool = False


def pendulum_steps(steps: int) -> Case:
    """State of a damped pendulum after some Runge–Kutta steps: a 2 × 2 Jacobian at the end of a long chain."""

    def rate(y: Any) -> Any:
        return np.array([y[1], -9.81 * np.sin(y[0]) - 0.2 * y[1]])

    def after(y: Any) -> Any:
        h = 0.01
        for _ in range(steps):
            k1 = rate(y)
            k2 = rate(y + 0.5 * h * k1)
            k3 = rate(y + 0.5 * h * k2)
            k4 = rate(y + h * k3)
            y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return y

    return Case(after, np.array([0.5, 0.0]))


def dense_layers(width: int) -> Case:
    """tanh(B tanh(Ax)): a dense Jacobian by way of dense layers."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, width, width)) / np.sqrt(width)
    return Case(lambda x: np.tanh(B @ np.tanh(A @ x)), rng.normal(size=width))


def running_sum(terms: int) -> Case:
    """A loop that adds squares to a total."""

    def total(x: Any) -> Any:
        s = 0.0
        for k in range(terms):
            s = s + x[k] * x[k]
        return s

    return Case(total, np.linspace(0.0, 1.0, terms))


def bodies(count: int) -> Case:
    """Accelerations of bodies that attract each other."""
    masses = np.linspace(1.0, 2.0, count)

    def accelerations(x: Any) -> Any:
        positions = x.reshape(count, 3)
        away = positions[None, :, :] - positions[:, None, :]
        distance2 = np.sum(away * away, axis=2) + np.eye(count)
        return np.sum((masses / distance2**1.5)[:, :, None] * away, axis=1).ravel()

    return Case(accelerations, np.random.default_rng(0).normal(size=3 * count))


def cumulated_squares(count: int) -> Case:
    """Partial sums of squares: a triangle of results."""
    return Case(lambda x: np.cumsum(x * x), np.linspace(0.1, 1.0, count))


def outer_product(count: int) -> Case:
    """A vector times itself: many results that are mostly zero."""
    return Case(lambda x: np.outer(x, x), np.linspace(0.1, 1.0, count))


def rosenbrock_residuals(count: int) -> Case:
    """Residuals of the chained Rosenbrock function: a narrow band."""

    def residuals(x: Any) -> Any:
        return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])

    return Case(residuals, np.full(count, -1.2), sparse=True)


def dense_sum(inputs: int, outputs: int) -> acc.DifferentiationGraph:
    """All inputs into one sum, which all outputs are functions of: a result for every pair."""
    into = [("s", f"x{k}", f"a{k}") for k in range(inputs)]
    return acc.DifferentiationGraph([*into, *((f"y{k}", "s", f"b{k}") for k in range(outputs))], name="dense sum")


#: Whose planning and rewriting the time limit has to bound; graphs are planned alone.
TO_PLAN: Final[dict[str, Callable[[], Case | acc.DifferentiationGraph]]] = {
    "RK4, 400 steps": partial(pendulum_steps, 400),
    "layers of 40": partial(dense_layers, 40),
    "running sum of 3,000": partial(running_sum, 3_000),
    "dense sum, 1,000 + 1,000": partial(dense_sum, 1_000, 1_000),
    "30 bodies": partial(bodies, 30),
    "cumsum of 300": partial(cumulated_squares, 300),
}

#: Whose code for one point has to be there soon, and the seconds for it.
TO_COMPILE: Final[dict[str, tuple[Callable[[], Case], float]]] = {
    "RK4, 400 steps": (partial(pendulum_steps, 400), 1.0),
    "layers of 40": (partial(dense_layers, 40), 1.0),
    "outer of 25": (partial(outer_product, 25), 1.0),
    "outer of 60": (partial(outer_product, 60), 2.0),
    "cumsum of 100": (partial(cumulated_squares, 100), 1.0),
    "cumsum of 300": (partial(cumulated_squares, 300), 2.0),
    "Rosenbrock, 10,000": (partial(rosenbrock_residuals, 10_000), 1.0),
}
