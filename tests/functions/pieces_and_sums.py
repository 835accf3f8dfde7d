"""The tables of splines and interpolation, distances, integration, filters and cosines."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import fft, integrate, interpolate, signal
from scipy.spatial import distance
from structured_cases import Structured, mp, mpf

Numbers = list[Any]
KNOTS = np.array([0.0, 0.5, 1.25, 2.0, 3.5])
VALUES = np.array([1.0, -0.5, 2.0, 0.25, 1.5])
U, V, W = [1.0, -0.5, 2.0], [0.3, 0.8, -1.2], [0.5, 1.5, 1.0]
UV = [*U, *V]
#: Inside pieces, beyond both ends, and at the ends, where one piece holds on both sides of the step.
AT = [[0.2, 0.7], [1.5, 2.75], [-0.5, 4.0]]


def _pieces(c: np.ndarray, x: np.ndarray) -> Any:
    """A piecewise polynomial by its numbers, the end pieces going on."""

    def exact(points: Numbers) -> Numbers:
        found = []
        for p in points:
            k = max(0, min(len(x) - 2, int(np.searchsorted(x, float(p), "right")) - 1))
            d = p - mpf(float(x[k]))
            found.append(sum(mpf(float(a)) * d ** (len(c) - 1 - j) for j, a in enumerate(c[:, k])))
        return found

    return exact


def _b_spline(s: Any) -> Any:
    """Cox and de Boor's recurrence; beyond the ends the end pieces go on."""
    t, k = [mpf(float(e)) for e in s.t], s.k

    def basis(i: int, d: int, x: Any, piece: int) -> Any:
        if d == 0:
            return mpf(int(i == piece))
        total = mpf(0)
        if t[i + d] != t[i]:
            total += (x - t[i]) / (t[i + d] - t[i]) * basis(i, d - 1, x, piece)
        if t[i + d + 1] != t[i + 1]:
            total += (t[i + d + 1] - x) / (t[i + d + 1] - t[i + 1]) * basis(i + 1, d - 1, x, piece)
        return total

    def exact(points: Numbers) -> Numbers:
        found = []
        for x in points:
            piece = max(k, min(len(t) - k - 2, int(np.searchsorted(s.t, float(x), "right")) - 1))
            found.append(sum(mpf(float(c)) * basis(i, k, x, piece) for i, c in enumerate(s.c[: len(t) - k - 1])))
        return found

    return exact


def _linear(points: Numbers) -> Numbers:
    found = []
    for x in points:
        k = max(0, min(len(KNOTS) - 2, int(np.searchsorted(KNOTS, float(x), "right")) - 1))
        a, b = mpf(float(KNOTS[k])), mpf(float(KNOTS[k + 1]))
        found.append(mpf(float(VALUES[k])) + (x - a) / (b - a) * (mpf(float(VALUES[k + 1])) - mpf(float(VALUES[k]))))
    return found


GRID = np.array([[1.0, 2.0, -0.5], [0.3, 0.9, 1.4]])


def _bilinear(x: Numbers) -> Numbers:
    """On the cell from (0, 1) to (1, 2)."""
    g = [[mpf(float(e)) for e in row] for row in GRID]
    u, v = x[0], x[1] - 1
    return [g[0][1] * (1 - u) * (1 - v) + g[1][1] * u * (1 - v) + g[0][2] * (1 - u) * v + g[1][2] * u * v]


def _step(x: Numbers) -> Numbers:
    return [mpf(0) * e + mpf(float(VALUES[int(np.argmin(np.abs(KNOTS - float(e))))])) for e in x]


def _two(function: Any) -> Any:
    return lambda x: np.reshape(function(x[:3], x[3:6]), -1)


def _pairs(function: Any) -> Any:
    return lambda x: [function(x[:3], x[3:6])]


def _minkowski(p: Any) -> Any:
    return lambda u, v: sum(abs(a - b) ** p for a, b in zip(u, v, strict=True)) ** (mpf(1) / p)


def _cosine(u: Numbers, v: Numbers) -> Any:
    dot = lambda a, b: sum(x * y for x, y in zip(a, b, strict=True))  # noqa: E731
    return 1 - dot(u, v) / mp.sqrt(dot(u, u) * dot(v, v))


def _centred(u: Numbers) -> Numbers:
    return [e - sum(u) / len(u) for e in u]


def _jensen(p: Numbers, q: Numbers) -> Any:
    p, q = [e / sum(p) for e in p], [e / sum(q) for e in q]
    m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return mp.sqrt(sum(a * mp.log(a / c) + b * mp.log(b / c) for a, b, c in zip(p, q, m, strict=True)) / 2)


def _trapezoid(y: Numbers, x: Numbers) -> Numbers:
    return [(b - a) * (d + c) / 2 for (a, b), (c, d) in zip(pairwise(x), pairwise(y), strict=True)]


def _simpson(x: Numbers) -> Numbers:
    """Of three points: the integral of the parabola through them."""
    y, t = x[:3], x[3:]
    h, g = t[1] - t[0], t[2] - t[1]
    return [(h + g) / 6 * (y[0] * (2 - g / h) + y[1] * (h + g) ** 2 / (h * g) + y[2] * (2 - h / g))]


def _lfilter(x: Numbers) -> Numbers:
    b, a, given = x[:2], x[2:4], x[4:]
    found: Numbers = []
    for k, e in enumerate(given):
        total = b[0] * e + (b[1] * given[k - 1] - a[1] * found[k - 1] if k else 0)
        found.append(total / a[0])
    return found


def _convolved(a: Numbers, b: Numbers) -> Numbers:
    return [sum(a[i] * b[k - i] for i in range(len(a)) if 0 <= k - i < len(b)) for k in range(len(a) + len(b) - 1)]


def _cosines(kind: int, sines: bool) -> Any:
    """The sums of which the transforms are, by their definitions."""

    def exact(x: Numbers) -> Numbers:
        n, pi, f = len(x), mp.pi, mp.sin if sines else mp.cos
        found = []
        for k in range(n):
            if kind == 1 and not sines:
                total = x[0] + (-1) ** k * x[-1] + 2 * sum(x[j] * f(pi * k * j / (n - 1)) for j in range(1, n - 1))
            elif kind == 1:
                total = 2 * sum(x[j] * f(pi * (k + 1) * (j + 1) / (n + 1)) for j in range(n))
            elif kind == 2:
                total = 2 * sum(x[j] * f(pi * (k + sines) * (2 * j + 1) / (2 * n)) for j in range(n))
            elif kind == 3 and not sines:
                total = x[0] + 2 * sum(x[j] * f(pi * (2 * k + 1) * j / (2 * n)) for j in range(1, n))
            elif kind == 3:
                last = (-1) ** k * x[-1]
                total = last + 2 * sum(x[j] * f(pi * (2 * k + 1) * (j + 1) / (2 * n)) for j in range(n - 1))
            else:
                total = 2 * sum(x[j] * f(pi * (2 * k + 1) * (2 * j + 1) / (4 * n)) for j in range(n))
            found.append(total)
        return found

    return exact


def _inverse_of(exact: Any) -> Any:
    """Of a linear map."""

    def inverse(x: Numbers) -> Numbers:
        n = len(x)
        columns = [exact([mpf(int(i == k)) for i in range(n)]) for k in range(n)]
        matrix = mp.matrix([[columns[j][i] for j in range(n)] for i in range(n)])
        return list(mp.lu_solve(matrix, mp.matrix(x)))

    return inverse


CUBIC = interpolate.CubicSpline(KNOTS, VALUES)
B_SPLINE = interpolate.make_interp_spline(KNOTS, VALUES, k=3)
LINE = [1.0, -0.5, 2.0, 0.25, 1.5]
SECOND = [0.5, 0.2, 0.7, 0.4, 1.2, 0.9]

CASES = [
    Structured("PPoly.__call__", CUBIC, _pieces(CUBIC.c, CUBIC.x), AT),
    Structured(
        "PPoly.__call__ pchip",
        interpolate.PchipInterpolator(KNOTS, VALUES),
        _pieces(interpolate.PchipInterpolator(KNOTS, VALUES).c, KNOTS),
        AT,
    ),
    Structured(
        "PPoly.__call__ akima",
        interpolate.Akima1DInterpolator(KNOTS, VALUES),
        _pieces(interpolate.Akima1DInterpolator(KNOTS, VALUES).c, KNOTS),
        AT[:2],
    ),
    Structured("PPoly.__call__ derivative", lambda x: CUBIC(x, 1), _pieces(CUBIC.derivative().c, CUBIC.x), AT),
    Structured("BSpline.__call__", B_SPLINE, _b_spline(B_SPLINE), AT, normwise=True),
    Structured(
        "splev", lambda x: interpolate.splev(x, (B_SPLINE.t, B_SPLINE.c, 3)), _b_spline(B_SPLINE), AT, normwise=True
    ),
    Structured("interp1d.__call__", interpolate.interp1d(KNOTS, VALUES), _linear, AT[:2]),
    Structured("interp1d.__call__ nearest", interpolate.interp1d(KNOTS, VALUES, "nearest"), _step, AT[:2]),
    Structured(
        "RegularGridInterpolator.__call__",
        interpolate.RegularGridInterpolator(([0.0, 1.0], [0.0, 1.0, 2.0]), GRID),
        _bilinear,
        [[0.3, 1.6]],
    ),
    Structured("euclidean", _two(distance.euclidean), _pairs(_minkowski(2)), [UV, [1e-8, 2e-8, -1e-8, 0, 0, 0]]),
    Structured("minkowski", _two(lambda u, v: distance.minkowski(u, v, 3)), _pairs(_minkowski(3)), [UV]),
    Structured("chebyshev", _two(distance.chebyshev), _pairs(lambda u, v: abs(u[2] - v[2])), [UV]),
    Structured("cityblock", _two(distance.cityblock), _pairs(_minkowski(1)), [UV]),
    Structured(
        "sqeuclidean",
        _two(distance.sqeuclidean),
        _pairs(lambda u, v: sum((a - b) ** 2 for a, b in zip(u, v, strict=True))),
        [UV, [0.0] * 6],
    ),
    Structured(
        "canberra",
        _two(distance.canberra),
        _pairs(lambda u, v: sum(abs(a - b) / (abs(a) + abs(b)) for a, b in zip(u, v, strict=True))),
        [UV],
    ),
    Structured(
        "braycurtis",
        _two(distance.braycurtis),
        _pairs(
            lambda u, v: (
                sum(abs(a - b) for a, b in zip(u, v, strict=True)) / sum(abs(a + b) for a, b in zip(u, v, strict=True))
            )
        ),
        [UV],
    ),
    Structured("cosine", _two(distance.cosine), _pairs(_cosine), [UV]),
    Structured(
        "correlation",
        _two(distance.correlation),
        _pairs(lambda u, v: _cosine(_centred(u), _centred(v))),
        [UV],
        normwise=True,
    ),
    Structured(
        "seuclidean",
        lambda x: np.reshape(distance.seuclidean(x[:3], x[3:6], x[6:]), -1),
        lambda x: [mp.sqrt(sum((x[k] - x[3 + k]) ** 2 / x[6 + k] for k in range(3)))],
        [[*UV, *W]],
    ),
    Structured(
        "mahalanobis",
        lambda x: np.reshape(distance.mahalanobis(x[:3], x[3:6], np.diag(x[6:])), -1),
        lambda x: [mp.sqrt(sum((x[k] - x[3 + k]) ** 2 * x[6 + k] for k in range(3)))],
        [[*UV, *W]],
    ),
    Structured("jensenshannon", _two(distance.jensenshannon), _pairs(_jensen), [SECOND], normwise=True),
    Structured(
        "trapezoid",
        lambda x: np.reshape(integrate.trapezoid(x[:3], x[3:]), -1),
        lambda x: [sum(_trapezoid(x[:3], x[3:]))],
        [[*U, 0.0, 0.5, 2.0]],
    ),
    Structured(
        "cumulative_trapezoid",
        lambda x: integrate.cumulative_trapezoid(x[:3], x[3:]),
        lambda x: [_trapezoid(x[:3], x[3:])[0], sum(_trapezoid(x[:3], x[3:]))],
        [[*U, 0.0, 0.5, 2.0]],
    ),
    Structured("simpson", lambda x: np.reshape(integrate.simpson(x[:3], x=x[3:]), -1), _simpson, [[*U, 0.0, 0.5, 2.0]]),
    Structured("lfilter", lambda x: signal.lfilter(x[:2], x[2:4], x[4:]), _lfilter, [[0.5, 0.3, 1.0, -0.7, *U]]),
    *[
        Structured(name, _two(getattr(signal, name)), lambda x: _convolved(x[:3], x[3:]), [UV])
        for name in ("convolve", "fftconvolve", "oaconvolve")
    ],
    Structured("correlate", _two(signal.correlate), lambda x: _convolved(x[:3], x[3:][::-1]), [UV]),
    *[
        Structured(
            f"{name} {kind}",
            lambda x, name=name, kind=kind: getattr(fft, name)(x, kind),
            (_inverse_of if name.startswith("i") else (lambda f: f))(_cosines(kind, name.endswith("dst"))),
            [LINE],
            normwise=True,
        )
        for name in ("dct", "dst", "idct", "idst")
        for kind in (1, 2, 3, 4)
    ],
    *[
        Structured(
            f"{name}",
            lambda x, name=name: getattr(fft, name)(x),
            (_inverse_of if name.startswith("i") else (lambda f: f))(_cosines(2, name.endswith("dstn"))),
            [LINE],
            normwise=True,
        )
        for name in ("dctn", "dstn", "idctn", "idstn")
    ],
]
