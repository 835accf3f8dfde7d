"""Functions of long arrays: from the function to its first sparse or dense Jacobian, and a call, beside CasADi and JAX.

Each case is prepared in a process of its own, nothing cached, imports done. Peak memory is that of the process beyond
what it had before.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import accumulus as acc
from accumulus.native.machine import prepare
from accumulus.native.sources import subjects
from apart import NotDone, apart
from groups import Settings
from peers.casadi_structure import WRITTEN, measure
from tables import Goal, Row, Table

#: After which a case is given up.
PATIENCE: Final = 100.0


class Case(NamedTuple):
    """A function of long arrays, where its Jacobian is wanted, and in how many seconds the first is to be there."""

    function: Callable[[Any], Any]
    x: np.ndarray
    sparse: bool
    goal: float
    #: Whether JAX is asked, too; a million lines would keep it for minutes.
    jax: bool = True


def brusselator(n: int) -> Case:
    """Two species on an n × n torus."""

    def f(w: Any) -> Any:
        u, v = w[0], w[1]

        def laplacian(a: Any) -> Any:
            return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4.0 * a

        reaction = u**2 * v
        return np.stack([1.0 + reaction - 4.4 * u + 0.1 * laplacian(u), 3.4 * u - reaction + 0.1 * laplacian(v)])

    return Case(f, np.random.default_rng(0).random((2, n, n)), True, {128: 1.0, 300: 1.0, 1000: 5.0}[n])


def reaction_diffusion(n: int) -> Case:
    """One species on a line, by slices."""

    def f(u: Any) -> Any:
        du = np.zeros_like(u)
        du[1:-1] = 1e4 * (u[2:] - 2 * u[1:-1] + u[:-2]) + u[1:-1] * (1 - u[1:-1])
        return du

    return Case(f, np.linspace(0.0, 1.0, n), True, {100_000: 0.5, 1_000_000: 3.0}[n])


def bodies(n: int) -> Case:
    """Accelerations of n bodies, all pairs by broadcasting."""

    def f(x: Any) -> Any:
        d = x[None, :, :] - x[:, None, :]
        r2 = np.sum(d * d, axis=-1) + 1e-3
        return np.sum(d / (r2 * np.sqrt(r2))[..., None], axis=1)

    return Case(f, np.random.default_rng(1).random((n, 3)), False, {30: 0.5, 100: 1.0}[n])


def layers(n: int) -> Case:
    """tanh(B tanh(A x))."""
    A, B = np.random.default_rng(2).normal(size=(2, n, n)) / np.sqrt(n)
    return Case(lambda x: np.tanh(B @ np.tanh(A @ x)), np.linspace(-1.0, 1.0, n), False, {128: 0.5, 512: 1.0}[n])


def network(rows: int) -> Case:
    """Loss of a network of three layers by its 98,880 weights, on so many rows of data."""
    generator = np.random.default_rng(5)
    data, wanted = generator.normal(size=(rows, 64)), generator.normal(size=(rows, 64))
    shapes = [(64, 256), (256,), (256, 256), (256,), (256, 64), (64,)]
    ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()

    def f(w: Any) -> Any:
        W1, b1, W2, b2, W3, b3 = (
            w[end - math.prod(shape) : end].reshape(shape) for shape, end in zip(shapes, ends, strict=True)
        )
        hidden = np.tanh(np.tanh(data @ W1 + b1) @ W2 + b2)
        return np.mean((hidden @ W3 + b3 - wanted) ** 2)

    return Case(f, generator.normal(size=ends[-1]) / 16.0, False, 1.0)


def outer(n: int) -> Case:
    """All products of two vectors."""
    return Case(lambda x: np.outer(x[:n], x[n:]), np.linspace(-1.0, 1.0, 2 * n), True, 0.5)


def observations(n: int) -> Case:
    """Residuals of points seen by cameras, n of them, by index arrays: a rotation vector's first order, a pinhole."""
    cameras, points = max(n // 200, 2), max(n // 20, 2)
    generator = np.random.default_rng(3)
    which, what = generator.integers(0, cameras, n), generator.integers(0, points, n)
    seen = generator.normal(size=(n, 2))

    def f(z: Any) -> Any:
        camera = z[: 6 * cameras].reshape(cameras, 6)[which]
        p = z[6 * cameras :].reshape(points, 3)[what]
        r, t = camera[:, :3], camera[:, 3:]
        q = p + np.cross(r, p) + t
        depth = 1.0 / (5.0 + q[:, 2])
        return np.stack([q[:, 0] * depth - seen[:, 0], q[:, 1] * depth - seen[:, 1]], axis=1)

    return Case(f, 0.1 * generator.normal(size=6 * cameras + 3 * points), True, {6_000: 0.5, 1_000_000: 5.0}[n])


def regression(m: int, n: int) -> Case:
    """Gradient of a logistic regression of m observations by n weights."""
    generator = np.random.default_rng(4)
    X, y = generator.normal(size=(m, n)), np.sign(generator.normal(size=m))
    return Case(lambda w: np.mean(np.log1p(np.exp(-y * (X @ w)))) + 0.5 * (w @ w), np.zeros(n), False, 0.5)


def brusselator_in_loops(n: int) -> Case:
    """Return the same by two loops over the cells."""

    def laplacian(a: Any, i: int, j: int) -> Any:
        return a[(i - 1) % n, j] + a[(i + 1) % n, j] + a[i, (j - 1) % n] + a[i, (j + 1) % n] - 4.0 * a[i, j]

    def f(w: Any) -> Any:
        u, v = w[0], w[1]
        du, dv = np.zeros((n, n)), np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                reaction = u[i, j] ** 2 * v[i, j]
                du[i, j] = 1.0 + reaction - 4.4 * u[i, j] + 0.1 * laplacian(u, i, j)
                dv[i, j] = 3.4 * u[i, j] - reaction + 0.1 * laplacian(v, i, j)
        return np.stack([du, dv])

    return Case(f, np.random.default_rng(0).random((2, n, n)), True, {128: 2.7}[n])


def volumes_in_loops(n: int) -> Case:
    """Finite volumes on a line, whose fluxes neighbours share."""

    def flux(a: Any, b: Any) -> Any:
        return 0.5 * (a**2 + b**2) - 0.3 * (b - a) * np.sqrt(1.0 + a**2 + b**2)

    def f(u: Any) -> Any:
        du = np.zeros(n)
        for i in range(n):
            left = flux(u[i - 1], u[i]) if i > 0 else 0.5 * u[0]
            right = flux(u[i], u[i + 1]) if i < n - 1 else u[n - 1] ** 2
            du[i] = n * (left - right) + u[i] * (1.0 - u[i])
        return du

    return Case(f, np.linspace(0.1, 1.0, n), True, {20_000: 2.5}[n])


def bodies_in_loops(n: int) -> Case:
    """Accelerations of n bodies, each pair once."""
    masses = np.linspace(1.0, 2.0, n)

    def f(x: Any) -> Any:
        a = np.zeros((n, 3))
        for i in range(n):
            for j in range(i):
                d = x[j] - x[i]
                force = d / (d @ d + 1e-3) ** 1.5
                a[i] += masses[j] * force
                a[j] -= masses[i] * force
        return a

    return Case(f, np.random.default_rng(1).random((n, 3)), False, {60: 1.0}[n])


def pendulum(steps: int, loss: bool = False) -> Case:
    """Runge–Kutta steps of a pendulum in a loop: its last state, or how far it is from what was measured."""
    measured = np.linspace(1.0, 0.0, steps)

    def slope(y: Any, p: Any) -> Any:
        return y[1], -p[0] * np.sin(y[0]) - p[1] * y[1]

    def f(z: Any) -> Any:
        y, p, h, total = (z[0], z[1]), (z[2], z[3]), 0.01, 0.0
        for k in range(steps):
            k1 = slope(y, p)
            k2 = slope((y[0] + h / 2 * k1[0], y[1] + h / 2 * k1[1]), p)
            k3 = slope((y[0] + h / 2 * k2[0], y[1] + h / 2 * k2[1]), p)
            k4 = slope((y[0] + h * k3[0], y[1] + h * k3[1]), p)
            y = tuple(y[i] + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) for i in range(2))
            total = total + (y[0] - measured[k]) ** 2
        return total if loss else np.array(y)

    return Case(f, np.array([1.0, 0.0, 9.81, 0.1]), False, 1.0)


def without_repetition(n: int) -> Case:
    """A gradient through n operations that no loop shortens."""
    generator = np.random.default_rng(5)
    kinds, places, numbers = generator.integers(0, 4, n), generator.integers(0, 20, (n, 3)), generator.random(n)
    steps = list(zip(kinds.tolist(), *places.T.tolist(), numbers.tolist(), strict=True))

    def f(x: Any) -> Any:
        live, sin = list(x), np.sin
        for kind, a, b, to, number in steps:
            if kind == 0:
                live[to] = live[a] * live[b]
            elif kind == 1:
                live[to] = x[a] + number * live[b]
            elif kind == 2:
                live[to] = live[a] - live[b]
            else:
                live[to] = sin(live[a]) * number
        return sum(live)

    return Case(f, np.linspace(0.1, 1.0, 20), False, {1_000_000: 20.0}[n], jax=False)


CASES: Final[dict[str, tuple[Callable[..., Case], tuple[int, ...]]]] = {
    "Brusselator 128²": (brusselator, (128,)),
    "Brusselator 300²": (brusselator, (300,)),
    "Brusselator 1000²": (brusselator, (1000,)),
    "reaction–diffusion 10⁵": (reaction_diffusion, (100_000,)),
    "reaction–diffusion 10⁶": (reaction_diffusion, (1_000_000,)),
    "30 bodies": (bodies, (30,)),
    "100 bodies": (bodies, (100,)),
    "layers 128": (layers, (128,)),
    "layers 512": (layers, (512,)),
    "network, 10⁵ weights, 1 row": (network, (1,)),
    "network, 10⁵ weights, 100 rows": (network, (100,)),
    "outer 300": (outer, (300,)),
    "observations 6,000": (observations, (6_000,)),
    "observations 10⁶": (observations, (1_000_000,)),
    "regression 2,000 × 50": (regression, (2_000, 50)),
    "10⁶ operations without repetition": (without_repetition, (1_000_000,)),
    "Brusselator 128², loops": (brusselator_in_loops, (128,)),
    "volumes 20,000, loops": (volumes_in_loops, (20_000,)),
    "60 bodies, loops": (bodies_in_loops, (60,)),
    "pendulum 1,000 steps": (pendulum, (1_000,)),
    "pendulum 1,000 steps, loss": (pendulum, (1_000, True)),
}


def table(settings: Settings) -> Table:
    """One row a case."""
    del settings
    notes = [
        "first: from the function to the first Jacobian, recording and its check included.",
        "call: one more Jacobian, the quickest of several; memory: of the process at most, beyond what it had before.",
        "JAX: jit(jacfwd), or jacrev of few results, dense; where that is more than 10⁷ entries there is none.",
        "CasADi: SX entry by entry, MX of matrices, and jacobian, sparse; a call of its virtual machine.",
    ]
    return Table("structure", "Functions of long arrays", [_row(name) for name in CASES], notes)


def _row(name: str) -> Row:
    goal = CASES[name][0](*CASES[name][1]).goal
    try:
        first, call, memory, nonzeros, jax = apart(_measure, name, seconds=PATIENCE)
    except NotDone as why:
        return Row({"case": name, "remark": str(why)}, Goal(goal, float("inf"), unit=" s"))
    cells = {"case": name, "first (s)": round(first, 3), "call (ms)": round(1e3 * call, 3), "memory (MB)": memory}
    cells |= {"nonzeros": nonzeros, "JAX first (s)": jax[0], "JAX call (ms)": jax[1]}
    return Row(cells | _beside_casadi(name, call), Goal(goal, first, unit=" s"))


def _beside_casadi(name: str, call: float) -> dict[str, float | str]:
    """CasADi's first result and call, and the call as so many of ours; with the same patience."""
    make, sizes = CASES[name]
    if make.__name__ not in WRITTEN:
        return {}
    try:
        first, milliseconds = apart(measure, make, sizes, seconds=PATIENCE)
    except NotDone as why:
        return {"CasADi first (s)": str(why)}
    ratio = milliseconds / (1e3 * call)
    return {
        "CasADi first (s)": round(first, 3),
        "CasADi call (ms)": round(milliseconds, 3),
        "CasADi call / ours": round(ratio, 1),
    }


def _measure(name: str) -> tuple[float, float, int, int, tuple[float | None, float | None]]:
    make, sizes = CASES[name]
    case = make(*sizes)
    acc.jacobian(lambda x: np.sin(x) * x[0], cache=False)(np.ones(2))  # imports
    prepare(*subjects())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    jac = acc.jacobian(case.function, sparse=case.sparse or None, cache=False)
    jacobian = jac(case.x)
    first = time.perf_counter() - start
    calls = []
    for _ in range(5):
        start = time.perf_counter()
        jac(case.x)
        calls.append(time.perf_counter() - start)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    nonzeros = jacobian.nnz if case.sparse else int(np.count_nonzero(jacobian))
    return first, min(calls), memory, nonzeros, _with_jax(case) if case.jax else (None, None)


def _with_jax(case: Case) -> tuple[float | None, float | None]:
    """Seconds of the first dense Jacobian, milliseconds of another; None where it is too large, or JAX is not there."""
    try:
        import jax
    except ImportError:
        return None, None
    results = np.size(case.function(case.x))
    if results * case.x.size > 10**7:
        return None, None
    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    def traced(x: Any) -> Any:
        # the same text, with JAX's functions in the place of NumPy's
        scope = {**case.function.__globals__, "np": jnp}
        cells = case.function.__closure__
        return type(case.function)(case.function.__code__, scope, "f", None, cells)(x)

    try:
        derivative = jax.jit(jax.jacfwd(traced) if results >= case.x.size else jax.jacrev(traced))
        start = time.perf_counter()
        derivative(case.x).block_until_ready()
        first = time.perf_counter() - start
        calls = []
        for _ in range(5):
            start = time.perf_counter()
            derivative(case.x).block_until_ready()
            calls.append(time.perf_counter() - start)
        return round(first, 3), round(1e3 * min(calls), 3)
    except Exception:  # what assigns to parts of arrays, JAX does not take
        return None, None
