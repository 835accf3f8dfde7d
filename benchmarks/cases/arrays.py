"""Linear algebra, complex numbers and arrays of thousands, as people write them."""

from __future__ import annotations

from typing import Any

import numpy
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.spatial

from cases import Case, Words, random

# Complex numbers ----------------------------------------------------------------------------------------------------


def thin_films(layers: int, wavelengths: int, form: str) -> Case:
    """Misfit of the reflectance of a stack of layers by their thicknesses: products of complex 2 × 2 matrices.

    F. Abelès, 1950. `form`: "loop" over layers, entries of matrices as arrays over wavelengths; "stack" of matrices.
    """
    lengths = numpy.linspace(400.0, 700.0, wavelengths)
    indices = numpy.where(numpy.arange(layers) % 2 == 0, 2.3, 1.45)
    thickness = 550.0 / (4.0 * indices) + random().normal(size=layers) * 3.0
    target = numpy.where((lengths > 500.0) & (lengths < 600.0), 1.0, 0.0)

    def misfit(np: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        top, bottom = (a + 1.5 * b) - (c + 1.5 * d), (a + 1.5 * b) + (c + 1.5 * d)
        return np.sum((np.abs(top / bottom) ** 2 - target) ** 2)

    def by_loop(words: Words) -> Any:
        np = words.np

        def f(t: Any) -> Any:
            a, b = np.ones(wavelengths, complex), np.zeros(wavelengths, complex)
            c, d = np.zeros(wavelengths, complex), np.ones(wavelengths, complex)
            for k in range(layers):
                phase = 2.0 * np.pi * indices[k] * t[k] / lengths
                cos, sin = np.cos(phase), 1j * np.sin(phase)
                a, b = a * cos + b * sin * indices[k], a * sin / indices[k] + b * cos
                c, d = c * cos + d * sin * indices[k], c * sin / indices[k] + d * cos
            return misfit(np, a, b, c, d)

        return f

    def by_scan(words: Words) -> Any:
        np = words.np

        def f(t: Any) -> Any:
            def step(state: Any, item: Any) -> Any:
                a, b, c, d = state
                n, t = item
                phase = 2.0 * np.pi * n * t / lengths
                cos, sin = np.cos(phase), 1j * np.sin(phase)
                return a * cos + b * sin * n, a * sin / n + b * cos, c * cos + d * sin * n, c * sin / n + d * cos

            one, zero = np.ones(wavelengths, complex), np.zeros(wavelengths, complex)
            return misfit(np, *words.scan(step, (one, zero, zero, one), (indices, t)))

        return f

    def matrices_of(np: Any, n: Any, t: Any) -> Any:
        phase = 2.0 * np.pi * n * t / lengths
        cos, sin = np.cos(phase) + 0j, 1j * np.sin(phase)
        return np.stack([np.stack([cos, sin / n], axis=-1), np.stack([sin * n, cos], axis=-1)], axis=-2)

    def by_stacks(words: Words) -> Any:
        np = words.np

        def f(t: Any) -> Any:
            M = np.tile(np.eye(2, dtype=complex), (wavelengths, 1, 1))
            for k in range(layers):
                M = M @ matrices_of(np, indices[k], t[k])
            return misfit(np, M[:, 0, 0], M[:, 0, 1], M[:, 1, 0], M[:, 1, 1])

        return f

    def by_scanned_stacks(words: Words) -> Any:
        np = words.np

        def f(t: Any) -> Any:
            M = np.tile(np.eye(2, dtype=complex), (wavelengths, 1, 1))
            M = words.scan(lambda M, item: M @ matrices_of(np, *item), M, (indices, t))
            return misfit(np, M[:, 0, 0], M[:, 0, 1], M[:, 1, 0], M[:, 1, 1])

        return f

    ours, peer = {"loop": (by_loop, by_scan), "stack": (by_stacks, by_scanned_stacks)}[form]
    return Case(ours, (thickness,), goal=2.0, peer=peer)


def heston(nodes: int, options: int) -> Case:
    """Squared errors of prices of options by the characteristic function of Heston's model, a loop over options.

    S. L. Heston, A closed-form solution for options with stochastic volatility, 1993; the form without jumps of the
    logarithm of Albrecher and others, The little Heston trap, 2007. Gauss–Legendre nodes on [0, 200].
    """
    u, weights = numpy.polynomial.legendre.leggauss(nodes)
    u, weights = 100.0 * (u + 1.0), 100.0 * weights
    rng = random()
    strikes, maturities = rng.uniform(80.0, 120.0, options), rng.choice([0.25, 0.5, 1.0, 2.0], options)
    prices = numpy.maximum(100.0 - strikes, 0.0) + 5.0 * numpy.sqrt(maturities)

    def characteristic(np: Any, w: Any, tau: Any, p: Any) -> Any:
        v0, kappa, theta, sigma, rho = p[0], p[1], p[2], p[3], p[4]
        b = kappa - rho * sigma * 1j * w
        d = np.sqrt(b**2 + sigma**2 * (1j * w + w**2))
        g = (b - d) / (b + d)
        e = np.exp(-d * tau)
        C = kappa * theta / sigma**2 * ((b - d) * tau - 2.0 * np.log((1.0 - g * e) / (1.0 - g)))
        D = (b - d) / sigma**2 * (1.0 - e) / (1.0 - g * e)
        return np.exp(C + D * v0 + 1j * w * np.log(100.0))

    def price(np: Any, K: Any, tau: Any, p: Any) -> Any:
        lifted = characteristic(np, u - 1j, tau, p) / characteristic(np, np.array([-1j]), tau, p)
        turn = np.exp(-1j * u * np.log(K)) / (1j * u)
        P1 = 0.5 + np.sum(weights * np.real(turn * lifted)) / np.pi
        P2 = 0.5 + np.sum(weights * np.real(turn * characteristic(np, u + 0j, tau, p))) / np.pi
        return 100.0 * P1 - K * P2

    def write(words: Words) -> Any:
        np = words.np

        def f(p: Any) -> Any:
            total = 0.0
            for K, tau, seen in zip(strikes, maturities, prices, strict=True):
                total = total + (price(np, K, tau, p) - seen) ** 2
            return total

        return f

    def write_jax(words: Words) -> Any:
        np = words.np
        return lambda p: np.sum((words.vmap(lambda K, tau: price(np, K, tau, p))(strikes, maturities) - prices) ** 2)

    return Case(write, (numpy.array([0.04, 1.5, 0.05, 0.4, -0.6]),), goal=2.0, peer=write_jax)


def deblurring(n: int) -> Case:
    """Misfit of an image and its blurred picture by fast Fourier transforms, with a smooth total variation."""
    row = numpy.exp(-(numpy.minimum(numpy.arange(n), n - numpy.arange(n)) ** 2) / 8.0)
    kernel = numpy.fft.fft2(numpy.outer(row, row) / numpy.sum(numpy.outer(row, row)))
    seen = random().random((n, n))

    def write(words: Words) -> Any:
        np = words.np

        def f(image: Any) -> Any:
            blurred = np.real(np.fft.ifft2(np.fft.fft2(image) * kernel))
            dx, dy = image - np.roll(image, 1, axis=0), image - np.roll(image, 1, axis=1)
            return np.sum((blurred - seen) ** 2) + 0.01 * np.sum(np.sqrt(dx**2 + dy**2 + 1e-4))

        return f

    return Case(write, (random(1).random((n, n)),), goal=1.0)


def power_flow(buses: int) -> Case:
    """Misfit of power at all buses of a grid by voltages and angles: a complex sparse matrix."""
    rng = random()
    ends = numpy.array([(k, (k + step) % buses) for k in range(buses) for step in (1, 7)])
    y = 1.0 / (0.01 * rng.random(len(ends)) + 1j * (0.05 + 0.1 * rng.random(len(ends))))
    i, j = ends.T
    rows, columns = numpy.concatenate([i, j, i, j]), numpy.concatenate([j, i, i, j])
    Ybus = scipy.sparse.csr_matrix((numpy.concatenate([-y, -y, y, y]), (rows, columns)), shape=(buses, buses))
    dense, demand = Ybus.toarray(), 0.1 * rng.normal(size=buses) + 0.05j * rng.normal(size=buses)

    def write(_: Words) -> Any:
        np = numpy

        def f(z: Any) -> Any:
            V = z[:buses] * np.exp(1j * z[buses:])
            S = V * np.conj(Ybus @ V) - demand
            return np.concatenate([S.real, S.imag])

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(z: Any) -> Any:
            V = z[:buses] * np.exp(1j * z[buses:])
            S = V * np.conj(dense @ V) - demand
            return np.concatenate([S.real, S.imag])

        return f

    point = numpy.concatenate([numpy.ones(buses), 0.1 * rng.normal(size=buses)])
    return Case(write, (point,), "sparse jacobian", goal=1.0, peer=write_jax)


def tight_binding(n: int, points: int) -> Case:
    """Sum of the lower bands of a chain with complex hopping, over points k: eigenvalues of Hermitian matrices."""
    ks = numpy.linspace(-numpy.pi, numpy.pi, points)
    up = numpy.eye(n, k=1)
    corner = numpy.zeros((n, n))
    corner[0, -1] = 1.0

    def hamiltonian(np: Any, p: Any, k: Any) -> Any:
        on = np.diag(p[2:]) + 0j
        hop = p[0] * up + p[1] * np.exp(-1j * k) * corner
        return on + hop + np.conj(hop).T

    def write(_: Words) -> Any:
        np = numpy

        def f(p: Any) -> Any:
            total = 0.0
            for k in ks:
                total = total + np.sum(np.linalg.eigvalsh(hamiltonian(np, p, k))[: n // 2])
            return total / points

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(p: Any) -> Any:
            def lower(k: Any) -> Any:
                return np.sum(np.linalg.eigvalsh(hamiltonian(np, p, k))[: n // 2])

            return np.mean(words.vmap(lower)(ks)) * 1.0

        return f

    point = numpy.concatenate([[-1.0, -0.7], 0.3 * random().normal(size=n)])
    return Case(write, (point,), goal=2.0, peer=write_jax)


def spectral_lines(lines: int, wavelengths: int) -> Case:
    """A spectrum of Voigt profiles with shared widths, and its misfit; `scipy.special.wofz` of complex arrays."""
    grid = numpy.linspace(0.0, 10.0, wavelengths)
    centres = numpy.linspace(0.5, 9.5, lines)
    seen = random().random(wavelengths)

    def write(words: Words) -> Any:
        np, wofz = words.np, words.special.wofz

        def f(p: Any) -> Any:
            sigma, gamma, heights = p[0], p[1], p[2:]
            z = (grid[None, :] - centres[:, None] + 1j * gamma) / (sigma * np.sqrt(2.0))
            return np.sum((heights @ np.real(wofz(z)) - seen) ** 2)

        return f

    point = numpy.concatenate([[0.1, 0.05], random(1).random(lines)])
    return Case(write, (point,), goal=1.0, jax=False)


# Linear algebra -----------------------------------------------------------------------------------------------------


def inner_newton(n: int) -> Case:
    """Validation loss of a logistic regression with a ridge, found by Newton's method, by the ridge of each weight."""
    rng = random()
    X, labels = rng.normal(size=(n, 5)), rng.integers(0, 2, n).astype(float)
    V, known = rng.normal(size=(n, 5)), rng.integers(0, 2, n).astype(float)

    def newton(np: Any, w: Any, ridge: Any) -> Any:
        p = 1.0 / (1.0 + np.exp(-X @ w))
        slope = X.T @ (p - labels) + ridge * w
        curvature = X.T @ ((p * (1.0 - p))[:, None] * X) + np.diag(ridge)
        return w - np.linalg.solve(curvature, slope)

    def loss(np: Any, w: Any) -> Any:
        return np.mean(np.log(1.0 + np.exp(V @ w)) - known * (V @ w))

    def write(_: Words) -> Any:
        np = numpy

        def f(logs: Any) -> Any:
            w = np.zeros(5)
            for _ in range(8):
                w = newton(np, w, np.exp(logs))
            return loss(np, w)

        return f

    def write_jax(words: Words) -> Any:
        np = words.np
        return lambda logs: loss(np, words.fixed_count(lambda w: newton(np, w, np.exp(logs)), np.zeros(5), 8))

    return Case(write, (numpy.array([0.1, -0.5, 0.3, 0.0, 0.2]),), goal=1.5, peer=write_jax)


def matern(n: int, d: int) -> Case:
    """Marginal likelihood of a Gaussian process with a Matérn kernel and a length for each dimension."""
    X, y = random().normal(size=(n, d)), random(1).normal(size=n)

    def write(words: Words) -> Any:
        np, solve_triangular = words.np, words.linalg.solve_triangular

        def f(p: Any) -> Any:
            Z = X / np.exp(p[:d])
            square = np.sum((Z[:, None, :] - Z[None, :, :]) ** 2, axis=2)
            r = np.sqrt(5.0 * square + 1e-12)
            K = np.exp(2.0 * p[d]) * (1.0 + r + r**2 / 3.0) * np.exp(-r) + np.exp(2.0 * p[d + 1]) * np.eye(n)
            L = np.linalg.cholesky(K)
            a = solve_triangular(L, y, lower=True)
            return 0.5 * a @ a + np.sum(np.log(np.diag(L)))

        return f

    return Case(write, (numpy.concatenate([numpy.full(d, 0.5), [0.1, -1.0]]),), goal=1.0, of_jax=(1.0, 0.0))


def band_structure(n: int, points: int) -> Case:
    """Eigenvalues of a symmetric matrix at each of some points, summed with weights."""
    rng = random()
    A, B = rng.normal(size=(n, n)), rng.normal(size=(n, n))
    A, B = A + A.T, B + B.T
    ks = numpy.linspace(0.0, numpy.pi, points)
    weights = 1.0 / (1.0 + numpy.arange(n))

    def at(np: Any, p: Any, k: Any) -> Any:
        return np.linalg.eigvalsh(np.diag(p) + A * np.cos(k) + p[0] * B * np.sin(k)) @ weights

    def write(_: Words) -> Any:
        np = numpy

        def f(p: Any) -> Any:
            total = 0.0
            for k in ks:
                total = total + at(np, p, k)
            return total

        return f

    def write_jax(words: Words) -> Any:
        np = words.np
        return lambda p: np.sum(words.vmap(lambda k: at(np, p, k))(ks))

    return Case(write, (random(1).normal(size=n),), goal=1.5, peer=write_jax)


def registration(points: int) -> Case:
    """Residuals of points and planes by a pose: `scipy.spatial.transform.Rotation` of a rotation vector."""
    rng = random()
    source, normals = rng.normal(size=(points, 3)), rng.normal(size=(points, 3))
    normals = normals / numpy.linalg.norm(normals, axis=1, keepdims=True)
    target = source + 0.01 * rng.normal(size=(points, 3))

    def write(_: Words) -> Any:
        np = numpy

        def f(pose: Any) -> Any:
            moved = scipy.spatial.transform.Rotation.from_rotvec(pose[:3]).apply(source) + pose[3:]
            return np.sum((moved - target) * normals, axis=1)

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(pose: Any) -> Any:
            moved = words.rotation.from_rotvec(pose[:3]).apply(source) + pose[3:]
            return np.sum((moved - target) * normals, axis=1)

        return f

    return Case(write, (numpy.array([0.1, -0.2, 0.3, 0.01, 0.02, -0.01]),), "jacobian", goal=1.5, peer=write_jax)


def page_rank(n: int, iterations: int) -> Case:
    """A weight of the stationary distribution of a walk on a sparse graph, by power iterations, by its links."""
    rng = random()
    rows, columns = numpy.concatenate([numpy.arange(n), rng.integers(0, n, 4 * n)]), numpy.tile(numpy.arange(n), 5)

    def write(words: Words) -> Any:
        np = words.np

        def f(links: Any) -> Any:
            total = np.bincount(columns, weights=links, minlength=n)
            shares = links / total[columns]
            x = np.full(n, 1.0 / n)
            for _ in range(iterations):
                x = 0.15 / n + 0.85 * np.bincount(rows, weights=shares * x[columns], minlength=n)
            return x @ np.cos(np.arange(n))

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(links: Any) -> Any:
            total = np.zeros(n).at[columns].add(links)
            shares = links / total[columns]

            def step(x: Any) -> Any:
                return 0.15 / n + 0.85 * np.zeros(n).at[rows].add(shares * x[columns])

            return words.fixed_count(step, np.full(n, 1.0 / n), iterations) @ np.cos(np.arange(n))

        return f

    return Case(write, (rng.random(5 * n) + 0.1,), goal=1.5, peer=write_jax)


# Data ---------------------------------------------------------------------------------------------------------------


def factorisation(users: int, items: int, ratings: int, rank: int = 8) -> Case:
    """Loss of a factorised matrix of which some entries are known, whose indices are arguments."""
    rng = random()
    u, i, seen = rng.integers(0, users, ratings), rng.integers(0, items, ratings), rng.normal(size=ratings)

    def write(words: Words) -> Any:
        np = words.np

        def f(factors: Any, u: Any, i: Any, seen: Any) -> Any:
            U, V = factors[:users], factors[users:]
            return np.sum((np.sum(U[u] * V[i], axis=1) - seen) ** 2) + 0.1 * np.sum(factors**2)

        return f

    return Case(write, (rng.normal(size=(users + items, rank)), u, i, seen), goal=1.0)


def proportional_hazards(n: int, d: int, asks: str) -> Case:
    """Cox's partial likelihood of n survival times. D. R. Cox, Regression models and life-tables, 1972."""
    rng = random()
    X, events = rng.normal(size=(n, d)), rng.random(n) < 0.7
    order = numpy.argsort(-rng.exponential(size=n))
    X, events = X[order], events[order]

    def write(words: Words) -> Any:
        np = words.np

        def f(beta: Any) -> Any:
            risk = X @ beta
            return -np.sum(events * (risk - np.log(np.cumsum(np.exp(risk)))))

        return f

    return Case(write, (0.1 * random(1).normal(size=d),), asks, goal=1.0)


def spline(knots: int, dates: int) -> Case:
    """Present values of payments by a cubic spline through rates, which are the arguments."""
    T = numpy.linspace(0.0, 30.0, knots)
    times = numpy.sort(random().uniform(0.1, 30.0, dates))

    def write(_: Words) -> Any:
        np = numpy

        def f(rates: Any) -> Any:
            return np.sum(np.exp(-scipy.interpolate.CubicSpline(T, rates)(times) * times))

        return f

    return Case(write, (0.03 + 0.001 * numpy.arange(knots),), goal=1.0, jax=False)


def collocation(n: int, asks: str) -> Case:
    """Equations of a cart with a pole by trapezoidal collocation, all states and forces in one vector.

    M. Kelly, An introduction to trajectory optimization, SIAM Review, 2017. `asks` "hessian": of a Lagrangian.
    """
    h = 2.0 / n
    weights = random().normal(size=4 * n)

    def rate(np: Any, s: Any, u: Any) -> Any:
        sin, cos = np.sin(s[1]), np.cos(s[1])
        below = 1.3 - 0.3 * cos**2
        fast = (0.15 * sin * s[3] ** 2 + u + 0.3 * 9.81 * cos * sin) / below
        turn = -(0.15 * cos * sin * s[3] ** 2 + u * cos + 1.3 * 9.81 * sin) / (0.5 * below)
        return np.array([s[2], s[3], fast, turn])

    def write(words: Words) -> Any:
        np = words.np

        def defects(z: Any) -> Any:
            states, forces = z[: 4 * (n + 1)].reshape(n + 1, 4), z[4 * (n + 1) :]
            found = []
            for k in range(n):
                middle = 0.5 * h * (rate(np, states[k], forces[k]) + rate(np, states[k + 1], forces[k + 1]))
                found.append(states[k + 1] - states[k] - middle)
            return np.concatenate(found)

        if asks != "hessian":
            return defects
        return lambda z: weights @ defects(z) + np.sum(z[4 * (n + 1) :] ** 2)

    def write_jax(words: Words) -> Any:
        np = words.np

        def defects(z: Any) -> Any:
            states, forces = z[: 4 * (n + 1)].reshape(n + 1, 4), z[4 * (n + 1) :]
            rates = words.vmap(lambda s, u: rate(np, s, u))(states, forces)
            return (states[1:] - states[:-1] - 0.5 * h * (rates[1:] + rates[:-1])).ravel()

        if asks != "hessian":
            return defects
        return lambda z: weights @ defects(z) + np.sum(z[4 * (n + 1) :] ** 2)

    kind = "sparse jacobian" if asks == "jacobian" else "sparse hessian"
    return Case(
        write,
        (0.3 * random(1).normal(size=5 * (n + 1)),),
        kind,
        goal=1.0 if asks == "jacobian" else 3.8,
        peer=write_jax,
    )


def attention(tokens: int, width: int) -> Case:
    """Loss of one head of attention with layer norms and a feed-forward layer, by all weights, in a dict.

    A. Vaswani and others, Attention is all you need, 2017.
    """
    rng = random()
    x, target = rng.normal(size=(tokens, width)), rng.normal(size=(tokens, width))
    shapes = {"query": (width, width), "key": (width, width), "value": (width, width), "out": (width, width)}
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width)}
    weights = {name: rng.normal(size=shape) / numpy.sqrt(shape[0]) for name, shape in shapes.items()}

    def write(words: Words) -> Any:
        np = words.np

        def norm(x: Any) -> Any:
            centred = x - np.mean(x, axis=-1, keepdims=True)
            return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-6)

        def f(w: Any) -> Any:
            z = norm(x)
            scores = (z @ w["query"]) @ (z @ w["key"]).T / np.sqrt(1.0 * width)
            scores = np.where(np.tri(tokens) > 0.0, scores, -1e9)
            chances = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
            chances = chances / np.sum(chances, axis=-1, keepdims=True)
            y = x + chances @ (z @ w["value"]) @ w["out"]
            h = norm(y) @ w["up"]
            y = y + (0.5 * h * (1.0 + np.tanh(0.7978845608 * (h + 0.044715 * h**3)))) @ w["down"]
            return np.mean((y - target) ** 2)

        return f

    return Case(write, (weights,), goal=1.0)
