"""Loops over time steps, days and observations, as people write them: filters, simulations, recurrences.

NumPy's text is a loop of Python; JAX's is its scan, as its users write it.
"""

from __future__ import annotations

from typing import Any

import numpy
import scipy.sparse
import scipy.sparse.linalg

from cases import Case, Words, random


def kalman_filter(steps: int, asks: str = "gradient") -> Case:
    """Log-likelihood of two measured positions of a body in the plane, by five parameters of its noise and drag.

    R. E. Kalman, A New Approach to Linear Filtering and Prediction Problems, 1960.
    """
    dt = 0.1
    H = numpy.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    seen = numpy.cumsum(random().normal(size=(steps, 2)), axis=0) * 0.1
    start = numpy.eye(4)

    def matrices(np: Any, p: Any) -> tuple[Any, Any, Any]:
        F = np.array(
            [
                [1.0, 0.0, dt, 0.0],
                [0.0, 1.0, 0.0, dt],
                [0.0, 0.0, 1.0 - p[2] * dt, 0.0],
                [0.0, 0.0, 0.0, 1.0 - p[3] * dt],
            ]
        )
        Q = np.diag(np.array([0.25 * dt**4, 0.25 * dt**4, dt**2, dt**2])) * p[0] ** 2
        R = np.eye(2) * p[1] ** 2 + np.ones((2, 2)) * p[4] ** 2
        return F, Q, R

    def write(_: Words) -> Any:
        np = numpy

        def f(p: Any) -> Any:
            F, Q, R = matrices(np, p)
            x, P = np.zeros(4), start
            total = 0.0
            for z in seen:
                x = F @ x
                P = F @ P @ F.T + Q
                y = z - H @ x
                S = H @ P @ H.T + R
                K = np.linalg.solve(S, H @ P).T
                total = total + y @ np.linalg.solve(S, y) + np.linalg.slogdet(S)[1]
                x = x + K @ y
                P = P - K @ S @ K.T
            return 0.5 * total

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(p: Any) -> Any:
            F, Q, R = matrices(np, p)

            def step(state: Any, z: Any) -> Any:
                x, P, total = state
                x = F @ x
                P = F @ P @ F.T + Q
                y = z - H @ x
                S = H @ P @ H.T + R
                K = np.linalg.solve(S, H @ P).T
                total = total + y @ np.linalg.solve(S, y) + np.linalg.slogdet(S)[1]
                return x + K @ y, P - K @ S @ K.T, total

            return 0.5 * words.scan(step, (np.zeros(4), start, 0.0), seen)[2]

        return f

    return Case(write, (numpy.array([1.0, 0.5, 0.3, 0.2, 0.1]),), asks, goal=1.5, peer=write_jax)


def hidden_markov_model(steps: int, states: int) -> Case:
    """Log-likelihood of a hidden Markov model with normal emissions, by the forward algorithm in logarithms.

    L. R. Rabiner, A Tutorial on Hidden Markov Models, Proceedings of the IEEE, 1989.
    """
    seen = random().normal(size=steps)
    logits = random(1).normal(size=(states, states))
    means = numpy.linspace(-2.0, 2.0, states)

    def emissions(np: Any, means: Any, y: Any) -> Any:
        return -0.5 * (y - means) ** 2 - 0.5 * np.log(2.0 * np.pi)

    def write(words: Words) -> Any:
        np, logsumexp = numpy, words.special.logsumexp

        def f(logits: Any, means: Any) -> Any:
            transitions = logits - logsumexp(logits, axis=1, keepdims=True)
            alpha = -np.log(states) + emissions(np, means, seen[0])
            for t in range(1, steps):
                alpha = logsumexp(alpha[:, None] + transitions, axis=0) + emissions(np, means, seen[t])
            return -logsumexp(alpha)

        return f

    def write_jax(words: Words) -> Any:
        np, logsumexp = words.np, words.special.logsumexp

        def f(logits: Any, means: Any) -> Any:
            transitions = logits - logsumexp(logits, axis=1, keepdims=True)

            def step(alpha: Any, y: Any) -> Any:
                return logsumexp(alpha[:, None] + transitions, axis=0) + emissions(np, means, y)

            return -logsumexp(words.scan(step, -np.log(states) + emissions(np, means, seen[0]), seen[1:]))

        return f

    return Case(write, (logits, means), goal=1.5, peer=write_jax)


def bucket(days: int, asks: str) -> Case:
    """Squared misfit of the runoff of a catchment: a store that rain fills, evaporation and drainage empty."""
    rng = random()
    rain = numpy.where(rng.random(days) < 0.6, 0.0, rng.gamma(2.0, 5.0, size=days))
    evaporation = 2.0 + 1.5 * numpy.sin(2.0 * numpy.pi * numpy.arange(days) / 365.0)
    temperature = 8.0 - 12.0 * numpy.cos(2.0 * numpy.pi * numpy.arange(days) / 365.0)
    runoff = rng.gamma(2.0, 1.0, size=days)

    def write(_: Words) -> Any:
        np = numpy

        def f(p: Any) -> Any:
            soil, ground, snow, misfit = 50.0, 10.0, 0.0, 0.0
            for t in range(days):
                if temperature[t] < 0.0:
                    snow = snow + rain[t]
                    water = 0.0
                else:
                    melt = np.minimum(snow, p[0] * temperature[t])
                    snow = snow - melt
                    water = rain[t] + melt
                soil = soil + water
                if soil > p[1]:
                    over = soil - p[1]
                    soil = p[1]
                else:
                    over = 0.0
                soil = soil - np.minimum(soil, p[2] * evaporation[t] * soil / p[1])
                drained = p[3] * soil
                soil = soil - drained
                ground = ground + drained
                base = p[4] * ground
                ground = ground - base
                misfit = misfit + (over + base - runoff[t]) ** 2
            return misfit / days

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(p: Any) -> Any:
            def step(state: Any, day: Any) -> Any:
                soil, ground, snow, misfit = state
                P, E, T, Q = day
                cold = T < 0.0
                melt = np.where(cold, 0.0, np.minimum(snow, p[0] * T))
                snow = np.where(cold, snow + P, snow - melt)
                soil = soil + np.where(cold, 0.0, P + melt)
                over = np.where(soil > p[1], soil - p[1], 0.0)
                soil = np.where(soil > p[1], p[1], soil)
                soil = soil - np.minimum(soil, p[2] * E * soil / p[1])
                drained = p[3] * soil
                base = p[4] * (ground + drained)
                return soil - drained, ground + drained - base, snow, misfit + (over + base - Q) ** 2

            inputs = (rain, evaporation, temperature, runoff)
            return words.scan(step, (50.0, 10.0, 0.0, 0.0), inputs)[3] / days

        return f

    point = numpy.array([3.0, 120.0, 0.8, 0.02, 0.05])
    return Case(write, (point,), asks, goal=1.5 if asks == "gradient" else 3.0, peer=write_jax)


def finite_volumes(cells: int, steps: int) -> Case:
    """Burgers' equation by finite volumes with the minmod limiter, and a misfit of its end by the initial state.

    B. van Leer, Towards the ultimate conservative difference scheme, V, Journal of Computational Physics, 1979.
    """
    dx, dt = 1.0 / cells, 0.2 / cells
    start = 1.0 + 0.5 * numpy.sin(2.0 * numpy.pi * (numpy.arange(cells) + 0.3) * dx)
    target = numpy.ones(cells)

    def after(np: Any, u: Any) -> Any:
        left, right = u - np.roll(u, 1), np.roll(u, -1) - u
        slope = np.where(left * right > 0.0, np.where(np.abs(left) < np.abs(right), left, right), 0.0)
        flux = 0.5 * (u + 0.5 * slope) ** 2
        return u - dt / dx * (flux - np.roll(flux, 1))

    def write(_: Words) -> Any:
        np = numpy

        def f(u: Any) -> Any:
            for _ in range(steps):
                u = after(np, u)
            return np.sum((u - target) ** 2)

        return f

    def write_jax(words: Words) -> Any:
        np = words.np
        return lambda u: np.sum((words.scan(lambda u, _: after(np, u), u, numpy.zeros(steps)) - target) ** 2)

    return Case(write, (start,), goal=2.0, peer=write_jax)


def planets(bodies: int, steps: int) -> Case:
    """Distance between two of some bodies that attract each other, after leapfrog steps, by their initial state."""
    rng = random()
    masses = numpy.linspace(1.0, 0.1, bodies)
    start = numpy.concatenate([rng.normal(size=(bodies, 3)) * 3.0, rng.normal(size=(bodies, 3)) * 0.3]).ravel()
    dt = 0.01

    def forces(np: Any, x: Any) -> Any:
        away = x[None, :, :] - x[:, None, :]
        square = np.sum(away**2, axis=2) + 0.01
        return np.sum((masses[None, :] * square**-1.5)[:, :, None] * away, axis=1)

    def write(_: Words) -> Any:
        np = numpy

        def f(z: Any) -> Any:
            x, v = z[: 3 * bodies].reshape(bodies, 3), z[3 * bodies :].reshape(bodies, 3)
            a = forces(np, x)
            for _ in range(steps):
                v = v + 0.5 * dt * a
                x = x + dt * v
                a = forces(np, x)
                v = v + 0.5 * dt * a
            return np.sum((x[0] - x[1]) ** 2)

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def step(state: Any, _: Any) -> Any:
            x, v, a = state
            v = v + 0.5 * dt * a
            x = x + dt * v
            a = forces(np, x)
            return x, v + 0.5 * dt * a, a

        def f(z: Any) -> Any:
            x, v = z[: 3 * bodies].reshape(bodies, 3), z[3 * bodies :].reshape(bodies, 3)
            x = words.scan(step, (x, v, forces(np, x)), numpy.zeros(steps))[0]
            return np.sum((x[0] - x[1]) ** 2)

        return f

    return Case(write, (start,), goal=2.0, peer=write_jax)


def diode(steps: int) -> Case:
    """A capacitor that a source charges through a diode: implicit Euler, its root by Newton until it converges."""
    source = numpy.sin(numpy.linspace(0.0, 6.0 * numpy.pi, steps))
    dt = 0.05

    def write(_: Words) -> Any:
        np = numpy

        def f(p: Any) -> Any:
            v, energy = 0.0, 0.0
            for s in source:
                new = v
                while True:
                    current = p[0] * (np.exp((s - new) / p[1]) - 1.0)
                    residual = new - v - dt / p[2] * (current - new / p[3])
                    slope = 1.0 + dt / p[2] * (p[0] / p[1] * np.exp((s - new) / p[1]) + 1.0 / p[3])
                    change = residual / slope
                    new = new - change
                    if abs(change) < 1e-10:
                        break
                v = new
                energy = energy + v**2
            return energy * dt

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(p: Any) -> Any:
            def newton(s: Any, v: Any, new: Any) -> Any:
                current = p[0] * (np.exp((s - new) / p[1]) - 1.0)
                residual = new - v - dt / p[2] * (current - new / p[3])
                return residual / (1.0 + dt / p[2] * (p[0] / p[1] * np.exp((s - new) / p[1]) + 1.0 / p[3]))

            def step(state: Any, s: Any) -> Any:
                v, energy = state
                new = words.fixed_count(lambda new: new - newton(s, v, new), v, 30)
                return new, energy + new**2

            return words.scan(step, (0.0, 0.0), source)[1] * dt

        return f

    return Case(write, (numpy.array([1e-3, 0.1, 0.2, 5.0]),), goal=1.5, peer=write_jax)


def implicit_heat(n: int, steps: int) -> Case:
    """Heat in a square by implicit Euler steps with SciPy's sparse solver: a misfit by the initial temperatures."""
    line = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
    eye = scipy.sparse.identity(n)
    A = (scipy.sparse.identity(n * n) + 0.2 * (scipy.sparse.kron(eye, line) + scipy.sparse.kron(line, eye))).tocsc()
    target, start = random().random(n * n), random(1).random(n * n)

    def write(_: Words) -> Any:
        np = numpy

        def f(u: Any) -> Any:
            for _ in range(steps):
                u = scipy.sparse.linalg.spsolve(A, u + 0.01 * u * (1.0 - u))
            return np.sum((u - target) ** 2)

        return f

    def write_jax(words: Words) -> Any:
        np = words.np
        inverse = numpy.linalg.inv(A.toarray())

        def f(u: Any) -> Any:
            u = words.scan(lambda u, _: inverse @ (u + 0.01 * u * (1.0 - u)), u, numpy.zeros(steps))
            return np.sum((u - target) ** 2)

        return f

    return Case(write, (start,), goal=2.0, peer=write_jax)


def asian_option(paths: int, steps: int) -> Case:
    """Price of an option on a mean, by paths of one stock, by its start, volatility, rate and strike."""
    noise = random().normal(size=(paths, steps))
    dt = 1.0 / steps

    def write(_: Words) -> Any:
        np = numpy

        def f(p: Any) -> Any:
            spot, volatility, rate, strike = p
            S = np.full(paths, 1.0) * spot
            total = np.zeros(paths)
            for t in range(steps):
                S = S * np.exp((rate - 0.5 * volatility**2) * dt + volatility * np.sqrt(dt) * noise[:, t])
                total = total + S
            return np.exp(-rate) * np.mean(np.maximum(total / steps - strike, 0.0))

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(p: Any) -> Any:
            spot, volatility, rate, strike = p

            def step(state: Any, z: Any) -> Any:
                S, total = state
                S = S * np.exp((rate - 0.5 * volatility**2) * dt + volatility * np.sqrt(dt) * z)
                return S, total + S

            total = words.scan(step, (np.full(paths, 1.0) * spot, np.zeros(paths)), noise.T.copy())[1]
            return np.exp(-rate) * np.mean(np.maximum(total / steps - strike, 0.0))

        return f

    return Case(write, (numpy.array([100.0, 0.2, 0.03, 100.0]),), goal=2.0, peer=write_jax)


def recurrence(n: int) -> Case:
    """A filter of first order that is written into an array, and a sum over it."""

    def write(_: Words) -> Any:
        np = numpy

        def f(x: Any) -> Any:
            y = np.zeros(n)
            y[0] = x[0]
            for i in range(1, n):
                y[i] = 0.5 * y[i - 1] + x[i]
            return np.sum(y**2)

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(x: Any) -> Any:
            def step(state: Any, x: Any) -> Any:
                y, total = state
                y = 0.5 * y + x
                return y, total + y**2

            return words.scan(step, (0.0 * np.sum(x), 0.0), x)[1]

        return f

    return Case(write, (random().normal(size=n),), goal=2.0 if n > 10_000 else 1.0, peer=write_jax)


# Kinds of their own -------------------------------------------------------------------------------------------------


def epidemic(days: int, parts: int) -> Case:
    """Poisson likelihood of daily cases: a model of four compartments by Runge–Kutta steps within each day."""
    cases = random().poisson(50.0 + 30.0 * numpy.sin(numpy.arange(days) / 9.0))
    h = 1.0 / parts

    def rates(np: Any, y: Any, p: Any) -> Any:
        S, E, I, _ = y
        new, ill, well = p[0] * S * I, p[1] * E, p[2] * I
        return np.array([-new, new - ill, ill - well, ill])

    def one(np: Any, y: Any, p: Any) -> Any:
        k1 = rates(np, y, p)
        k2 = rates(np, y + 0.5 * h * k1, p)
        k3 = rates(np, y + 0.5 * h * k2, p)
        k4 = rates(np, y + h * k3, p)
        return y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    def write(_: Words) -> Any:
        np = numpy

        def f(p: Any) -> Any:
            y = np.array([1.0 - p[3], 0.0, p[3], 0.0])
            likelihood = 0.0
            for day in range(days):
                before = y[3]
                for _ in range(parts):
                    y = one(np, y, p)
                expected = p[4] * 1e4 * (y[3] - before) + 1e-9
                likelihood = likelihood + cases[day] * np.log(expected) - expected
            return -likelihood

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(p: Any) -> Any:
            def step(state: Any, n: Any) -> Any:
                y, likelihood = state
                after = words.fixed_count(lambda y: one(np, y, p), y, parts)
                expected = p[4] * 1e4 * (after[3] - y[3]) + 1e-9
                return after, likelihood + n * np.log(expected) - expected

            y = np.array([1.0 - p[3], 0.0, p[3], 0.0])
            return -words.scan(step, (y, 0.0), cases.astype(float))[1]

        return f

    return Case(write, (numpy.array([0.5, 0.2, 0.15, 1e-3, 0.4]),), goal=1.0, peer=write_jax)


def charged_particle(steps: int) -> Case:
    """Where a charged particle is after Boris' steps in a magnetic bottle, by its initial state and the field.

    J. P. Boris, Relativistic plasma simulation: optimization of a hybrid code, 1970.
    """
    dt = 0.02

    def field(np: Any, x: Any, b: Any) -> Any:
        return np.array([-b * x[0] * x[2], -b * x[1] * x[2], 1.0 + b * x[2] ** 2])

    def step_of(np: Any, x: Any, v: Any, b: Any) -> Any:
        t = 0.5 * dt * field(np, x, b)
        s = 2.0 * t / (1.0 + t @ t)
        v = v + np.cross(v + np.cross(v, t), s)
        return x + dt * v, v

    def write(_: Words) -> Any:
        np = numpy

        def f(z: Any) -> Any:
            x, v = z[:3], z[3:6]
            for _ in range(steps):
                x, v = step_of(np, x, v, z[6])
            return x

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(z: Any) -> Any:
            state = (z[:3], z[3:6])
            return words.scan(lambda s, _: step_of(np, s[0], s[1], z[6]), state, numpy.zeros(steps))[0]

        return f

    return Case(write, (numpy.array([0.3, 0.0, 0.1, 0.2, 0.5, 0.3, 0.4]),), "jacobian", goal=1.0, peer=write_jax)


def american_option(steps: int) -> Case:
    """Price of an American put on a binomial tree, whose arrays shrink from step to step.

    J. C. Cox, S. A. Ross and M. Rubinstein, Option pricing: a simplified approach, 1979.
    """

    def write(words: Words) -> Any:
        np = words.np

        def f(p: Any) -> Any:
            spot, volatility, rate, strike = p[0], p[1], p[2], p[3]
            dt = 1.0 / steps
            up = np.exp(volatility * np.sqrt(dt))
            chance = (np.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
            discount = np.exp(-rate * dt)
            value = np.maximum(strike - spot * up ** (2.0 * np.arange(steps + 1) - steps), 0.0)
            for n in range(steps - 1, -1, -1):
                exercised = strike - spot * up ** (2.0 * np.arange(n + 1) - n)
                value = np.maximum(discount * (chance * value[1:] + (1.0 - chance) * value[:-1]), exercised)
            return value[0]

        return f

    return Case(write, (numpy.array([100.0, 0.25, 0.04, 105.0]),), goal=1.0)


def soft_alignment(n: int) -> Case:
    """Soft dynamic time warping of two series: a table that is filled entry by entry.

    M. Cuturi and M. Blondel, Soft-DTW: a differentiable loss function for time-series, 2017.
    """
    y = random().normal(size=n)

    def write(_: Words) -> Any:
        np = numpy

        def f(x: Any) -> Any:
            R = np.full((n + 1, n + 1), 1e6)
            R[0, 0] = 0.0
            for i in range(1, n + 1):
                for j in range(1, n + 1):
                    a, b, c = R[i - 1, j], R[i, j - 1], R[i - 1, j - 1]
                    least = np.minimum(np.minimum(a, b), c)
                    soft = least - np.log(np.exp(least - a) + np.exp(least - b) + np.exp(least - c))
                    R[i, j] = (x[i - 1] - y[j - 1]) ** 2 + soft
            return R[n, n]

        return f

    def write_jax(words: Words) -> Any:
        np = words.np

        def f(x: Any) -> Any:
            def row(above: Any, u: Any) -> Any:
                def entry(state: Any, item: Any) -> Any:
                    a, c, v = item
                    least = np.minimum(np.minimum(a, state), c)
                    soft = least - np.log(np.exp(least - a) + np.exp(least - state) + np.exp(least - c))
                    new = (u - v) ** 2 + soft
                    return new, new

                filled = words.stacked(entry, 1e6, (above[1:], above[:-1], y))
                return np.concatenate([np.array([1e6]), filled])

            first = np.concatenate([np.zeros(1), np.full(n, 1e6)])
            return words.scan(row, first, x)[n]

        return f

    return Case(write, (random(1).normal(size=n),), goal=1.0, peer=write_jax)


def autoregression(n: int, order: int) -> Case:
    """Likelihood of an ARMA model whose last residuals are kept in a list."""
    series = random().normal(size=n)

    def write(_: Words) -> Any:
        np = numpy

        def f(p: Any) -> Any:
            phi, theta, sigma = p[:order], p[order : 2 * order], p[-1]
            residuals = [0.0] * order
            total = 0.0
            for t in range(order, n):
                expected = 0.0
                for k in range(order):
                    expected = expected + phi[k] * series[t - 1 - k] + theta[k] * residuals[k]
                residual = series[t] - expected
                residuals = [residual, *residuals[:-1]]
                total = total + residual**2 / sigma**2 + np.log(sigma**2)
            return 0.5 * total

        return f

    def write_jax(words: Words) -> Any:
        np = words.np
        past = numpy.stack([series[order - 1 - k : n - 1 - k] for k in range(order)], axis=1)

        def f(p: Any) -> Any:
            phi, theta, sigma = p[:order], p[order : 2 * order], p[-1]

            def step(state: Any, item: Any) -> Any:
                residuals, total = state
                before, now = item
                residual = now - phi @ before - theta @ residuals
                residuals = np.concatenate([residual[None], residuals[:-1]])
                return residuals, total + residual**2 / sigma**2 + np.log(sigma**2)

            return 0.5 * words.scan(step, (np.zeros(order), 0.0), (past, series[order:]))[1]

        return f

    point = numpy.concatenate([numpy.full(order, 0.2), numpy.full(order, 0.1), [1.2]])
    return Case(write, (point,), goal=1.0, peer=write_jax)


def matrix_exponentials(steps: int) -> Case:
    """A chain of three states with a rate matrix that changes: a matrix exponential in each step."""
    covariate = numpy.sin(numpy.arange(steps) / 3.0)

    def generator(np: Any, p: Any, c: Any) -> Any:
        a, b, d = np.exp(p[0] + p[1] * c), np.exp(p[2]), np.exp(p[3] - p[1] * c)
        zero = 0.0 * a
        return np.stack([np.stack([-a, a, zero]), np.stack([b, -b - d, d]), np.stack([zero, zero, zero])])

    def write(words: Words) -> Any:
        np, expm = numpy, words.linalg.expm

        def f(p: Any) -> Any:
            state = np.array([1.0, 0.0, 0.0])
            total = 0.0
            for t in range(steps):
                state = state @ expm(0.1 * generator(np, p, covariate[t]))
                total = total + np.log(state[0] + 0.5 * state[1])
            return total

        return f

    def write_jax(words: Words) -> Any:
        np, expm = words.np, words.linalg.expm

        def f(p: Any) -> Any:
            def step(state: Any, c: Any) -> Any:
                x, total = state
                x = x @ expm(0.1 * generator(np, p, c))
                return x, total + np.log(x[0] + 0.5 * x[1])

            return words.scan(step, (np.array([1.0, 0.0, 0.0]), 0.0), covariate)[1]

        return f

    return Case(write, (numpy.array([-1.0, 0.3, -0.5, -2.0]),), goal=1.5, peer=write_jax)
