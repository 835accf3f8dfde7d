"""Functions of arrays and loops of medium length, which may be written out or stay loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

DATA: Final = np.cos(np.arange(3_000.0))


def _entries(x: Any) -> Any:
    return np.sin(x) * np.exp(-x * x) + np.tanh(x)


def total(x: Any) -> Any:
    """Sum of elementary functions."""
    return np.sum(_entries(x))


def _rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def _stencil(x: Any) -> Any:
    return (np.roll(x, 1) - 2.0 * x + np.roll(x, -1)) / (1.0 + x * x) + np.sin(x)


def _pairs(x: Any) -> Any:
    apart = x[:, None] - x[None, :]
    return np.sum(np.exp(-apart * apart))


def _forces(x: Any) -> Any:
    apart = x[:, None] - x[None, :]
    return np.sum(apart / (0.1 + apart * apart) ** 1.5, axis=1)


def _likeliest(x: Any) -> Any:
    powers = np.exp(x - np.max(x))
    return -np.log(powers[0] / np.sum(powers))


def _layers(x: Any) -> Any:
    weights = DATA[: len(x) ** 2].reshape(len(x), len(x))
    return np.tanh(weights @ np.tanh(weights @ x))


def _waves(x: Any) -> Any:
    for _ in range(20):
        x = x + 0.1 * np.sin(np.roll(x, 1) * x)
    return np.sum(x)


def _walk(x: Any) -> Any:
    state, squares = 0.1, 0.0
    for k in range(len(x)):
        state = 0.9 * state + np.sin(x[k]) * state
        squares = squares + state * state
    return squares


def _garch_of(steps: int) -> Callable[[Any], Any]:
    def garch(p: Any) -> Any:
        variance, loss = p[0], 0.0
        for k in range(steps):
            variance = p[0] + p[1] * DATA[k] ** 2 + p[2] * variance
            loss = loss + np.log(variance) + DATA[k] ** 2 / variance
        return loss

    return garch


def _lorenz_of(steps: int) -> Callable[[Any], Any]:
    def lorenz(p: Any) -> Any:
        y = np.array([1.0, 0.5, 0.2])
        for _ in range(steps):
            slope = [p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]
            y = y + 0.01 * np.array(slope)
        return y

    return lorenz


class Subject(NamedTuple):
    """A function, its point, and the kinds of derivatives that are prepared."""

    function: Callable[[Any], Any]
    point: np.ndarray[Any, Any]
    kinds: tuple[str, ...]


def _subjects() -> dict[str, Subject]:
    found = {}
    of_numbers, of_arrays = ("gradient", "hvp", "hessian"), ("jacobian", "jvp", "vjp")
    for function, sizes, kinds in (
        (_entries, (100, 400, 1_000), of_arrays),
        (total, (100, 400, 1_000), of_numbers),
        (_rosenbrock, (100, 400, 1_000), of_numbers),
        (_stencil, (100, 400, 1_000), of_arrays),
        (_pairs, (12, 20, 40), of_numbers),
        (_forces, (12, 32), of_arrays),
        (_likeliest, (100, 1_000), of_numbers[:2]),
        (_layers, (16, 32), of_arrays),
        (_waves, (64, 200), of_numbers[:2]),
        (_walk, (200, 600), of_numbers[:2]),
    ):
        for size in sizes:
            found[f"{function.__name__.lstrip('_')} {size:,}"] = Subject(function, np.linspace(0.1, 0.9, size), kinds)
    for steps in (200, 600):
        found[f"garch {steps}"] = Subject(_garch_of(steps), np.array([0.1, 0.2, 0.7]), of_numbers)
    for steps in (100, 300):
        found[f"lorenz {steps}"] = Subject(_lorenz_of(steps), np.array([0.1, 0.2, 0.7]), of_arrays)
    return found


SUBJECTS: Final = _subjects()
