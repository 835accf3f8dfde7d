"""Functions for `acc.check`: with derivatives to get wrong, with difficult values, and from the literature.

The benchmark functions are those of M. Jamil and X.-S. Yang, A literature survey of benchmark functions for global
optimization problems, International Journal of Mathematical Modelling and Numerical Optimisation 4, 2013, of A. Gavana,
Global optimization benchmarks and AMPGO, 2013, and of their sources, which the names tell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

import accumulus as acc

Function = Callable[..., object]

# Wrong derivatives ----------------------------------------------------------------------------------------------------

#: Name, first term, sum of the other terms, and first point of a function, which is the sum of both.
SUMS: list[tuple[str, Function, Function, list[float]]] = [
    ("polynomial", lambda x: x[0] ** 3 * x[1], lambda x: x[1] ** 2 - 4.0 * x[0], [0.7, 1.9]),
    ("quadratic", lambda x: x @ x, lambda x: x[0] * x[2], [1.0, -2.0, 3.0]),
    ("exponential", lambda x: np.exp(x[0]), lambda x: np.exp(-x[1]) * x[0], [0.3, 0.8]),
    ("rational", lambda x: 1.0 / (1.0 + x[0] ** 2), lambda x: x[1] / (2.0 + x[0] ** 2), [1.2, -0.4]),
    ("elementwise", lambda x: np.sin(x), lambda x: x * x[::-1], [0.4, 1.1, 2.3]),  # noqa: PLW0108
    ("norms", lambda x: np.sqrt(1.0 + x @ x) * np.ones(2), lambda x: x[:2] ** 2, [0.6, 1.5, -0.8]),
    ("logarithm", lambda x: np.log(x[0]) * x[1], lambda x: x[1] ** 2.5, [2.0, 3.0]),
    ("oscillation", lambda x: np.sin(50.0 * x[0]), lambda x: x[0] * x[1], [0.9, 1.3]),
    ("fast oscillation", lambda x: np.sin(3000.0 * x[0]) * x[1], lambda x: x[1] ** 2, [0.9, 1.3]),
    ("chirp", lambda x: np.cos(x[0] ** 2 * 40.0), lambda x: np.tanh(x[1]), [2.7, 0.3]),
    ("large constant", lambda x: 1e9 + np.sin(x[0]), lambda x: x[0] * x[1], [1.1, 0.7]),
    ("large argument", lambda x: np.sin(x[0] * 1e-12), lambda x: x[1] ** 2, [1.3e12, 0.7]),
    ("small argument", lambda x: np.sin(x[0] * 1e12), lambda x: x[1] ** 2, [0.4e-12, 0.7]),
    ("small values", lambda x: 1e-30 * x[0] ** 2, lambda x: 1e-30 * np.exp(x[1]), [0.8, 0.2]),
    ("absolute value", lambda x: np.abs(x[0]) * x[1], lambda x: np.abs(x[1] - 0.3), [0.6, 0.9]),
    ("damped kinks", lambda x: np.abs(np.sin(3.0 * x[0])), lambda x: np.exp(-np.abs(x[1])), [0.6, -0.9]),
    ("hinge", lambda x: np.maximum(x[0], 0.2) ** 2, lambda x: np.minimum(x[1], x[0]), [0.6, 0.9]),
    ("hypotenuse", lambda x: np.hypot(x[0], x[1]), lambda x: np.arctan2(x[0], x[1]), [0.6, -0.9]),
    ("pieces", lambda x: np.where(x[0] > 0.5, x[0] ** 2, 0.25), lambda x: x[1] * x[0], [0.8, 1.1]),
    ("sawtooth", lambda x: x[0] - np.floor(x[0] * 10.0) / 10.0, lambda x: x[1] ** 2, [0.537, 1.1]),
    ("cancellation", lambda x: (1.0 - np.cos(1e-3 * x[0])) * 1e6, lambda x: x[1], [1.4, 0.6]),
    ("at zero", lambda x: np.sin(x[0]) + 1.0, lambda x: np.exp(x[1]) * x[0], [0.0, 0.0]),
]  # fmt: skip


def _one_entry(jacobian, x, first):
    wrong = jacobian.copy()
    wrong.flat[np.abs(wrong).argmax()] *= 1.001
    return wrong


#: Mistakes: Jacobian, point and first point to a wrong Jacobian.
MISTAKES = {
    "factor": lambda jacobian, x, first: jacobian * (1.0 + 1e-5),
    "sign": lambda jacobian, x, first: -jacobian,
    "zero": lambda jacobian, x, first: 0.0 * jacobian,
    "one entry": _one_entry,
    "on one side": lambda jacobian, x, first: jacobian * (1.0 + 1e-3 * (x[0] > first[0])),
}
#: Names of all mistakes; the derivative of the first term is missing in the last.
ALL_MISTAKES = [*MISTAKES, "missing term"]


@cache
def _jacobian(first: Function, rest: Function):
    return acc.jacobian(lambda x: first(x) + rest(x), time_limit=0.0, target="numpy")


def with_wrong_derivative(
    first: Function, rest: Function, point: list[float], mistake: str
) -> Callable[[np.ndarray], object]:
    """Return the sum of two functions, as an opaque function with a wrong derivative."""
    true = _jacobian(first, rest) if mistake in MISTAKES else acc.jacobian(rest, time_limit=0.0, target="numpy")
    change = MISTAKES.get(mistake, lambda jacobian, x, first: jacobian)
    opaque = acc.custom(lambda x: first(x) + rest(x), derivative=lambda x: change(np.array(true(x)), x, point))
    return lambda x: opaque(x)  # noqa: PLW0108


# Right derivatives ----------------------------------------------------------------------------------------------------


def _corana(x):
    near = np.floor(np.abs(x / 0.2) + 0.49999) * np.sign(x) * 0.2
    plateau = 0.15 * (near - 0.05 * np.sign(near)) ** 2
    return np.sum(np.where(np.abs(x - near) < 0.05, plateau, x**2) * np.array([1.0, 1000.0, 10.0, 100.0]))


def _damavandi(x):
    y = np.pi * (x - 2.0)
    return (1.0 - np.abs(np.sin(y[0]) * np.sin(y[1]) / (y[0] * y[1])) ** 5) * (
        2.0 + (x[0] - 7.0) ** 2 + 2.0 * (x[1] - 7.0) ** 2
    )


def _de_villiers_glasser(x):
    t = 0.1 * np.arange(16)
    data = 53.81 * 1.27**t * np.tanh(3.012 * t + np.sin(2.13 * t)) * np.cos(np.exp(0.507) * t)
    return np.sum((x[0] * x[1] ** t * np.tanh(x[2] * t + np.sin(x[3] * t)) * np.cos(t * np.exp(x[4])) - data) ** 2)


def _dolan(x):
    first = (x[0] + 1.7 * x[1]) * np.sin(x[0]) - 1.5 * x[2] - 0.1 * x[3] * np.cos(x[3] + x[4] - x[0])
    return np.abs(first + 0.2 * x[4] ** 2 - x[1] - 1.0)


def _gulf(x):
    i = np.arange(1.0, 100.0) / 100.0
    u = 25.0 + (-50.0 * np.log(i)) ** (2.0 / 3.0)
    return np.sum((np.exp(-(np.abs(u - x[1]) ** x[2]) / x[0]) - i) ** 2)


def _katsuura(x):
    powers = 2.0 ** np.arange(1, 33)[:, np.newaxis]
    return np.prod(np.sum(np.round(powers * x) / powers, axis=0) * np.arange(1, len(x) + 1) + 1.0)


def _pathological(x):
    wave = np.sin(np.sqrt(100.0 * x[:-1] ** 2 + x[1:] ** 2)) ** 2 - 0.5
    return np.sum(0.5 + wave / (1.0 + 0.001 * (x[:-1] - x[1:]) ** 4))


def _schaffer(wave, form):
    return lambda x: 0.5 + (wave(form(x)) ** 2 - 0.5) / (1.0 + 0.001 * (x @ x)) ** 2


def _trefethen(x):
    waves = np.exp(np.sin(50.0 * x[0])) + np.sin(60.0 * np.exp(x[1])) + np.sin(70.0 * np.sin(x[0]))
    return waves + np.sin(np.sin(80.0 * x[1])) - np.sin(10.0 * (x[0] + x[1])) + 0.25 * (x @ x)


def _weierstrass(x):
    k = np.arange(21.0)[:, np.newaxis]
    return np.sum(0.5**k * np.cos(2.0 * np.pi * 3.0**k * (x + 0.5)))


def _whitley(x):
    u = 100.0 * (x**2 - x[:, np.newaxis]) + (1.0 - x[:, np.newaxis]) ** 2
    return np.sum(u**2 / 4000.0 - np.cos(u) + 1.0)


def _difference(x):
    return x[0] ** 2 - x[1] ** 2


#: Benchmark functions that are not analytic or oscillate fast, each at the point for which that matters most.
LITERATURE: dict[str, tuple[Function, list[float]]] = {
    "Ackley 1": (
        lambda x: -20.0 * np.exp(-0.2 * np.sqrt(x @ x / 2)) - np.exp(np.sum(np.cos(2 * np.pi * x)) / 2), [0.0, 0.0]
    ),
    "Bartels and Conn": (
        lambda x: np.abs(x @ x + x[0] * x[1]) + np.abs(np.sin(x[0])) + np.abs(np.cos(x[1])), [0.0, 0.0]
    ),
    "Corana": (_corana, [0.12, 4.51, -3.56, 4.49]),
    "Csendes": (lambda x: np.sum(x**6 * (2.0 + np.sin(1.0 / x))), [0.0, 0.0]),
    "Damavandi": (_damavandi, [3.67, 4.2]),
    "De Villiers and Glasser 2": (_de_villiers_glasser, [30.2, 57.1, 10.2, 61.8, 18.8]),
    "Dolan": (_dolan, [0.0, 0.0, 0.0, 0.0, 0.0]),
    "Gulf": (_gulf, [25.6, 47.5, 7.2]),
    "Katsuura": (_katsuura, [51.2, 95.0]),
    "Mishra 3": (lambda x: np.sqrt(np.abs(np.cos(np.sqrt(np.abs(x @ x))))) + 0.01 * np.sum(x), [0.0, 0.0]),
    "Mishra 4": (lambda x: np.sqrt(np.abs(np.sin(np.sqrt(np.abs(x @ x))))) + 0.01 * np.sum(x), [1.3, -2.4]),
    "New function 1": (
        lambda x: np.abs(np.cos(np.sqrt(np.abs(x[0] ** 2 + x[1])))) ** 0.5 + 0.01 * np.sum(x), [0.0, 0.0]
    ),
    "Pathological": (_pathological, [0.0, 0.0]),
    "Pen holder": (
        lambda x: -np.exp(-1.0 / np.abs(np.cos(x[0]) * np.cos(x[1]) * np.exp(np.abs(1.0 - np.sqrt(x @ x) / np.pi)))),
        [2.6, 9.91],
    ),
    "Price 1": (lambda x: np.sum((np.abs(x) - 5.0) ** 2), [0.0, 0.0]),
    "Salomon": (lambda x: 1.0 - np.cos(2 * np.pi * np.sqrt(x @ x)) + 0.1 * np.sqrt(x @ x), [0.0, 0.0]),
    "Schaffer 1": (_schaffer(np.sin, lambda x: x @ x), [2.4, 90.1]),
    "Schaffer 2": (_schaffer(np.sin, _difference), [-47.7, -40.3]),
    "Schaffer 3": (_schaffer(np.sin, lambda x: np.cos(np.abs(_difference(x)))), [2.4, 90.1]),
    "Schaffer 4": (_schaffer(np.cos, lambda x: np.sin(np.abs(_difference(x)))), [-47.7, -40.3]),
    "Schwefel 26": (lambda x: -np.sum(x * np.sin(np.sqrt(np.abs(x)))), [0.0, 0.0]),
    "Test tube holder": (
        lambda x: -4.0 * np.abs(np.sin(x[0]) * np.cos(x[1]) * np.exp(np.abs(np.cos(x @ x / 200.0)))), [0.0, 0.0]
    ),
    "Trefethen": (_trefethen, [0.24, 9.01]),
    "Trigonometric 2": (
        lambda x: np.sum(8 * np.sin(7 * (x - 0.9) ** 2) ** 2 + 6 * np.sin(14 * (x - 0.9) ** 2) ** 2 + (x - 0.9) ** 2),
        [11.8, 450.5],
    ),
    "Weierstrass": (_weierstrass, [0.012, 0.45]),
    "Whitley": (_whitley, [2.42, 9.23]),
    "Xin-She Yang 2": (lambda x: np.sum(np.abs(x)) * np.exp(-np.sum(np.sin(x**2))), [0.0, 0.0]),
}  # fmt: skip


def _one_minus_cosine(x):
    return 1.0 - np.cos(x)


def _weierstrass(x):
    """Oscillations down to wavelengths of 1e-9, as far as CEC's benchmarks add them up."""
    powers = np.arange(20)
    return np.sum(0.5**powers * np.cos(2.0 * np.pi * 3.0**powers * (x + 0.5)))


#: Functions of one number: not smooth, rounded, of one side only, of fast oscillations, or at huge and tiny numbers.
#: Some are analytic for real numbers, but not as NumPy evaluates them for complex ones.
DIFFICULT: dict[str, tuple[Function, float]] = {
    "kink at the point": (lambda x: np.abs(x - 1.0) * x, 1.0),
    "kinks of several sizes": (lambda x: np.abs(x) + 1e-6 * np.abs(x - 1e-7), 0.0),
    "kink near the point": (lambda x: np.maximum(x, 1.0 + 1e-9), 1.0),
    "hinge": (lambda x: np.maximum(x, 0.0) + 2.0 * np.minimum(x, 0.0), 0.0),
    "smooth hinge": (lambda x: np.maximum(x, 0.0) ** 2, 0.0),
    "root of a kink": (lambda x: np.sqrt(np.abs(x - 0.5)), 0.5 + 1e-9),
    "step near the point": (lambda x: np.where(x > 1.0 + 1e-7, x, x + 1.0), 1.0),
    "step at the point": (lambda x: np.where(x > 1.0, x, x + 1.0), 1.0),
    "floor": (lambda x: np.floor(10.0 * x) + x, 0.3),
    "remainder": (lambda x: np.fmod(x, 0.1) * x, 0.7),
    "sign": (lambda x: np.sign(x - 0.3) * x, 0.3),
    "triangle wave": (lambda x: np.abs(np.fmod(40.0 * x, 2.0) - 1.0), 0.61),
    "arcsine of sine": (lambda x: np.arcsin(np.sin(30.0 * x)), 0.7),
    "rounded values": (lambda x: np.round(x, 3) + x, 0.4321),
    "values far from zero": (lambda x: 1e9 + 1e-3 * np.sin(x), 0.7),
    "values farther from zero": (lambda x: 1e16 + x**2, 1.7),
    "lost digits": (lambda x: (x + 1e12) - 1e12 + x**2, 1.7),
    "cancellation": (_one_minus_cosine, 1e-5),
    "cancellation of a quotient": (lambda x: _one_minus_cosine(x) / x**2, 1e-4),
    "cancellation of exponentials": (lambda x: np.exp(x) - 1.0 - x, 1e-4),
    "high powers of a difference": (lambda x: (x - 1.0) ** 6 - 6 * x + x**3, 1.0 + 1e-6),
    "expanded power": (lambda x: x**5 - 5 * x**4 + 10 * x**3 - 10 * x**2 + 5 * x - 1.0, 1.001),
    "root at its end": (np.sqrt, 0.0),
    "root near its end": (np.sqrt, 1e-14),
    "power at its end": (lambda x: x**1.5, 0.0),
    "logarithm near zero": (lambda x: np.log(x) * x, 1e-9),
    "logarithm of a magnitude": (lambda x: np.log(np.abs(x)) * x, 1e-9),
    "arccosine near its end": (np.arccos, 1.0 - 1e-10),
    "reciprocal near its pole": (lambda x: 1.0 / (x - 1.0), 1.0 + 1e-8),
    "tangent near its pole": (np.tan, 1.5707963),
    "essential singularity": (lambda x: np.exp(-1.0 / x**2), 0.05),
    "bump": (lambda x: np.where(np.abs(x) < 1.0, np.exp(-1.0 / (1.0 - np.minimum(x**2, 0.999999))), 0.0), 0.95),
    "logistic, saturated": (lambda x: 1.0 / (1.0 + np.exp(-x)), 40.0),
    "narrow peak": (lambda x: 1.0 / (1e-10 + (x - 0.5) ** 2), 0.5 + 1e-5),
    "steep step": (lambda x: np.tanh(1e7 * (x - 0.5)), 0.5 + 3e-8),
    "fast oscillation": (lambda x: np.sin(1e6 * x), 0.8),
    "very fast oscillation": (lambda x: np.sin(1e12 * x), 0.8),
    "small fast oscillation": (lambda x: x + 1e-9 * np.sin(1e9 * x), 0.8),
    "short waves beneath rounding": (lambda x: 1e5 + x**2 + 1e-6 * _weierstrass(x), 0.8),
    "short waves of a large function": (lambda x: 1e9 + x**2 + 1e-5 * _weierstrass(x), 0.8),
    "short waves on one side": (lambda x: 1e7 + x + 1e-6 * _weierstrass(np.maximum(x, 0.3)), 0.4),
    "oscillation at its essential singularity": (lambda x: x**2 * np.sin(1.0 / x), 1e-4),
    "beats": (lambda x: np.sin(1000.0 * x) * np.sin(1001.0 * x), 2.0),
    "period of the steps": (lambda x: np.sin(2.0**12 * np.pi * x) + x, 1.0),
    "iterated map": (lambda x: _iterated(x, 25), 0.3),
    "tiny argument": (lambda x: np.cos(1e12 * x) + x, 1e-12),
    "tiny argument of a large value": (lambda x: 1.0 + x, 1e-12),
    "huge argument": (lambda x: np.sin(1e-12 * x), 1e12),
    "sine of a huge argument": (np.sin, 1e12),
    "square of a huge argument": (lambda x: x * x, 1e150),
    "huge power": (lambda x: x**40, 50.0),
    "tiny values": (lambda x: 1e-300 * np.sin(x), 0.7),
    "modulus squared": (lambda x: np.abs(x) ** 2 + 1.0, 0.0),
    "modulus": (lambda x: 1.0 + np.abs(x), 1e-7),
    "real part": (lambda x: np.real(x) ** 3 + 1.0, 1e-6),
    "conjugate": (lambda x: np.conj(x) * x + 1e-9 * x, 0.4),
    "norm": (lambda x: np.linalg.norm(np.array([x, 1.0, x * x])), 0.3),
    "small part that is not analytic": (lambda x: np.exp(x) + 1e-11 * np.abs(x) ** 3, 0.3),
    "hypotenuse": (lambda x: np.hypot(x, 1e-8), 1e-8),
    "angle": (lambda x: np.arctan2(x, -1.0), 1e-9),
    "maximum of smooth functions": (lambda x: np.maximum(np.sin(x), np.cos(x)), 0.25 * np.pi),
    "piecewise linear table": (lambda x: np.interp(x, [0.0, 0.5, 2.0], [1.0, 3.0, -1.0]), 0.5),
}  # fmt: skip


def _iterated(x, times):
    for _ in range(times):
        x = 3.9 * x * (1.0 - x)
    return x
