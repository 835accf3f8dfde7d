"""The functions of long arrays as users of CasADi write them: SX entry by entry, MX where products of matrices are."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from peers import require


def brusselator(ca: Any, x: np.ndarray, held: Any) -> tuple[Any, Any]:
    """Rolled by joining two parts; columns in CasADi's order are rows in NumPy's."""
    n = x.shape[1]
    w = ca.SX.sym("w", x.size)
    u, v = ca.reshape(w[: n * n], n, n), ca.reshape(w[n * n :], n, n)

    def laplacian(a: Any) -> Any:
        down, up = ca.vertcat(a[-1, :], a[:-1, :]), ca.vertcat(a[1:, :], a[0, :])
        right, left = ca.horzcat(a[:, -1], a[:, :-1]), ca.horzcat(a[:, 1:], a[:, 0])
        return down + up + right + left - 4.0 * a

    reaction = u**2 * v
    du = 1.0 + reaction - 4.4 * u + 0.1 * laplacian(u)
    return w, ca.vertcat(ca.vec(du), ca.vec(3.4 * u - reaction + 0.1 * laplacian(v)))


def reaction_diffusion(ca: Any, x: np.ndarray, held: Any) -> tuple[Any, Any]:
    """By slices."""
    u = ca.SX.sym("u", x.size)
    inner = 1e4 * (u[2:] - 2 * u[1:-1] + u[:-2]) + u[1:-1] * (1 - u[1:-1])
    return u, ca.vertcat(0.0, inner, 0.0)


def bodies(ca: Any, x: np.ndarray, held: Any) -> tuple[Any, Any]:
    """Each with all others at once."""
    n = len(x)
    z = ca.SX.sym("x", x.size)
    X = ca.reshape(z, 3, n)
    accelerations = []
    for k in range(n):
        d = X - ca.repmat(X[:, k], 1, n)
        r2 = ca.sum1(d * d) + 1e-3
        accelerations.append(ca.sum2(d / ca.repmat(r2 * ca.sqrt(r2), 3, 1)))
    return z, ca.vertcat(*accelerations)


def layers(ca: Any, x: np.ndarray, held: Any) -> tuple[Any, Any]:
    """Matrices."""
    z = ca.MX.sym("x", x.size)
    return z, ca.tanh(ca.DM(held["B"]) @ ca.tanh(ca.DM(held["A"]) @ z))


def outer(ca: Any, x: np.ndarray, held: Any) -> tuple[Any, Any]:
    """A column times a row, in NumPy's order."""
    z = ca.SX.sym("x", x.size)
    n = held["n"]
    return z, ca.vec(z[n:] @ z[:n].T)


def observations(ca: Any, x: np.ndarray, held: Any) -> tuple[Any, Any]:
    """By index lists; a column for each observation."""
    z = ca.SX.sym("z", x.size)
    cameras, points = held["cameras"], held["points"]
    camera = ca.reshape(z[: 6 * cameras], 6, cameras)[:, held["which"].tolist()]
    p = ca.reshape(z[6 * cameras :], 3, points)[:, held["what"].tolist()]
    r, t = camera[:3, :], camera[3:, :]
    turned = [r[(k + 1) % 3, :] * p[(k + 2) % 3, :] - r[(k + 2) % 3, :] * p[(k + 1) % 3, :] for k in range(3)]
    q = p + ca.vertcat(*turned) + t
    depth = 1.0 / (5.0 + q[2, :])
    seen = held["seen"].T
    return z, ca.vec(ca.vertcat(q[0, :] * depth - ca.DM(seen[:1]), q[1, :] * depth - ca.DM(seen[1:])))


def regression(ca: Any, x: np.ndarray, held: Any) -> tuple[Any, Any]:
    """Matrices."""
    w = ca.MX.sym("w", x.size)
    losses = ca.log1p(ca.exp(-ca.DM(held["y"]) * (ca.DM(held["X"]) @ w)))
    return w, ca.sum1(losses) / len(held["y"]) + 0.5 * ca.dot(w, w)


#: By the name of the function that makes the case.
WRITTEN: Final[dict[str, Callable[..., tuple[Any, Any]]]] = {
    written.__name__: written
    for written in (brusselator, reaction_diffusion, bodies, layers, outer, observations, regression)
}


def measure(make: Callable[..., Any], sizes: tuple[int, ...]) -> tuple[float, float]:
    """Seconds from the function to its first sparse Jacobian, and milliseconds of another, the quickest of several.

    Raises:
        NotInstalled: without CasADi.
        AssertionError: if it is another function than that of the case.
    """
    ca, case = require("casadi"), make(*sizes)
    point = case.x.ravel()
    start = time.perf_counter()
    x, y = WRITTEN[make.__name__](ca, case.x, inspect.getclosurevars(case.function).nonlocals)
    jacobian = ca.Function("jacobian", [x], [ca.jacobian(y, x)])
    jacobian(point)
    first = time.perf_counter() - start
    calls = []
    for _ in range(5):
        start = time.perf_counter()
        jacobian(point)
        calls.append(time.perf_counter() - start)
    values = np.asarray(ca.Function("values", [x], [y])(point)).ravel()
    np.testing.assert_allclose(values, np.ravel(case.function(case.x)), rtol=1e-9, atol=1e-9)
    return first, 1e3 * min(calls)
