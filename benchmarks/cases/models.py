"""Statistics, simulations and solvers, as people write them: one text for NumPy and JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy
import scipy.integrate
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import scipy.special

import accumulus as acc
from cases import TWICE, Case, Words, random
from functions import all_examples

# Statistics ---------------------------------------------------------------------------------------------------------


def gaussian_process(n: int) -> Case:
    """Negative log-likelihood by two hyperparameters."""
    x, y = numpy.linspace(0.0, 5.0, n), random().normal(size=n)
    squares = numpy.subtract.outer(x, x) ** 2

    def write(words: Words) -> Any:
        np = words.np

        def f(p: Any) -> Any:
            K = p[0] ** 2 * np.exp(-squares / (2.0 * p[1] ** 2)) + 0.1 * np.eye(n)
            return 0.5 * y @ np.linalg.solve(K, y) + 0.5 * np.linalg.slogdet(K)[1]

        return f

    return Case(write, (numpy.array([1.3, 0.7]),), goal=0.3, of_jax=(1.0, 0.3))


def by_cholesky(n: int) -> Case:
    """Return the same by Cholesky's factor."""
    x, y = numpy.linspace(0.0, 5.0, n), random().normal(size=n)
    squares = numpy.subtract.outer(x, x) ** 2

    def write(words: Words) -> Any:
        np, cho_solve = words.np, words.linalg.cho_solve

        def f(p: Any) -> Any:
            K = p[0] ** 2 * np.exp(-squares / (2.0 * p[1] ** 2)) + 0.1 * np.eye(n)
            factor = np.linalg.cholesky(K)
            return 0.5 * y @ cho_solve((factor, True), y) + np.sum(np.log(np.diag(factor)))

        return f

    return Case(write, (numpy.array([1.3, 0.7]),), goal=0.3, of_jax=(1.0, 0.3))


def mixture(d: int, k: int, n: int) -> Case:
    """GradBench's gmm: log-posterior of a mixture of Gaussians by weights, means and factors of inverse covariances."""
    generator = random()
    x = generator.normal(size=(n, d))
    below = numpy.zeros((d, d), int)
    below[numpy.tril_indices(d, -1)] = 1 + numpy.arange(d * (d - 1) // 2)

    def write(words: Words) -> Any:
        np, logsumexp = words.np, words.special.logsumexp

        def f(p: Any) -> Any:
            alphas, means, logs, lower = p[:, 0], p[:, 1 : 1 + d], p[:, 1 + d : 1 + 2 * d], p[:, 1 + 2 * d :]
            L = np.concatenate([np.zeros((k, 1)), lower], axis=1)[:, below]
            apart = x[:, None, :] - means
            scaled = np.exp(logs) * apart + np.einsum("kij,nkj->nki", L, apart)
            main = logsumexp(alphas + np.sum(logs, axis=1) - 0.5 * np.sum(scaled**2, axis=2), axis=1)
            prior = 0.5 * (np.sum(np.exp(logs) ** 2) + np.sum(lower**2)) - np.sum(logs)
            return np.sum(main) - n * logsumexp(alphas) - prior

        return f

    return Case(write, (0.3 * generator.normal(size=(k, 1 + 2 * d + d * (d - 1) // 2)),), of_jax=TWICE)


def kmeans(k: int, asks: str, n: int = 1000) -> Case:
    """GradBench's kmeans: squared distances to the next of k centres."""
    x = random().normal(size=(n, 8))

    def write(words: Words) -> Any:
        np = words.np
        return lambda c: np.sum(np.min(np.sum((x[:, None, :] - c[None, :, :]) ** 2, axis=2), axis=1))

    centres = random(1).normal(size=(k, 8))
    return Case(write, (centres,) if asks == "gradient" else (centres, numpy.ones((k, 8))), asks, of_jax=TWICE)


def lstm(layers: int, characters: int) -> Case:
    """GradBench's lstm: loss of a recurrent network over a text."""
    bits, generator = 14, random()
    text = generator.integers(0, 2, (characters, bits)).astype(float)

    def write(words: Words) -> Any:
        np = words.np

        def sigmoid(z: Any) -> Any:
            return 1.0 / (1.0 + np.exp(-z))

        def f(p: Any) -> Any:
            weights, ends = p[: 8 * layers].reshape(layers, 2, 4, bits), p[8 * layers :]

            def step(state: Any, pair: Any) -> Any:
                loss, memory = state
                x, following = pair[0] * ends[0], pair[1]
                then = []
                for layer in range(layers):
                    (w, b), (hidden, cell) = weights[layer], memory[layer]
                    forget, enter = sigmoid(x * w[0] + b[0]), sigmoid(hidden * w[1] + b[1])
                    leave, change = sigmoid(x * w[2] + b[2]), np.tanh(hidden * w[3] + b[3])
                    cell = cell * forget + enter * change
                    x = leave * np.tanh(cell)
                    then.append((x, cell))
                out = x * ends[1] + ends[2]
                return loss + np.sum(following * (out - np.log(2.0 + np.sum(np.exp(out))))), then

            begin = [(np.zeros(bits), np.zeros(bits)) for _ in range(layers)]
            pairs = numpy.stack([text[:-1], text[1:]], axis=1)
            return -words.scan(step, (0.0, begin), pairs)[0] / ((characters - 1) * bits)

        return f

    return Case(write, (0.5 * generator.normal(size=(8 * layers + 3, bits)),), of_jax=TWICE)


def least_squares(n: int) -> Case:
    """GradBench's llsq: a polynomial through a step."""
    s = numpy.linspace(-1.0, 1.0, n)
    powers, steps = s[:, None] ** numpy.arange(16), numpy.sign(s)

    def write(words: Words) -> Any:
        return lambda c: 0.5 * words.np.sum((steps - powers @ c) ** 2)

    return Case(write, (numpy.linspace(-0.5, 0.5, 16),), of_jax=TWICE)


def log_sum_exp(n: int) -> Case:
    """GradBench's lse."""
    return Case(lambda words: words.special.logsumexp, (random().normal(size=n),), of_jax=TWICE)


def regression(kind: str, asks: str, n: int = 100_000) -> Case:
    """Logistic or Poisson regression of n observations by 30 coefficients."""
    generator = random()
    X = generator.normal(size=(n, 30))
    y = generator.integers(0, 2, n) * 2.0 - 1.0 if kind == "logistic" else generator.poisson(1.5, n) * 1.0

    def write(words: Words) -> Any:
        np = words.np
        if kind == "logistic":
            return lambda w: np.sum(np.logaddexp(0.0, -y * (X @ w))) + 0.05 * w @ w
        return lambda w: np.sum(np.exp(X @ w) - y * (X @ w))

    return Case(write, (0.1 * generator.normal(size=30),), asks, 0.5)


def garch(asks: str, n: int = 2500) -> Case:
    """Likelihood of a GARCH(1, 1) model of n returns, in a loop."""
    returns = 0.01 * random().normal(size=n)

    def write(words: Words) -> Any:
        np = words.np

        def f(p: Any) -> Any:
            def step(state: Any, r: Any) -> Any:
                total, variance = state
                total = total + 0.5 * (np.log(variance) + r * r / variance)
                return total, p[0] + p[1] * r * r + p[2] * variance

            return words.scan(step, (0.0, p[0] / (1.0 - p[1] - p[2])), returns)[0]

        return f

    return Case(write, (numpy.array([1e-5, 0.08, 0.85]),), asks, 0.5 if asks == "gradient" else 1.0)


def minors(n: int) -> Case:
    """GradBench's det: a determinant by minors along the first row."""
    matrix = random().normal(size=(n, n))

    def write(words: Words) -> Any:
        del words

        def det(rows: Any, columns: tuple[int, ...]) -> Any:
            if len(columns) == 1:
                return rows[0][columns[0]]
            found, sign = 0.0, 1.0
            for k, column in enumerate(columns):
                found = found + sign * rows[0][column] * det(rows[1:], columns[:k] + columns[k + 1 :])
                sign = -sign
            return found

        return lambda x: det(x, tuple(range(n)))

    return Case(write, (matrix,), of_jax=TWICE)


# Simulation ---------------------------------------------------------------------------------------------------------


def reactions(steps: int) -> Case:
    """Runge–Kutta steps of a network of reactions, which is written in dicts and lists."""
    species = ["A", "B", "C", "D", "E", "F"]
    network = [
        ({"A": 1, "B": 1}, {"C": 1}),
        ({"C": 1}, {"A": 1, "B": 1}),
        ({"C": 1, "D": 1}, {"E": 2}),
        ({"E": 2}, {"F": 1, "A": 1}),
        ({"F": 1}, {"B": 1, "D": 1}),
    ]

    def write(words: Words) -> Any:
        np = words.np

        def rates(c: Any, k: Any) -> Any:
            change = dict.fromkeys(species, 0.0)
            for number, (consumed, made) in enumerate(network):
                speed = k[number]
                for name, order in consumed.items():
                    speed = speed * c[name] ** order
                for name, order in consumed.items():
                    change[name] = change[name] - order * speed
                for name, order in made.items():
                    change[name] = change[name] + order * speed
            return change

        def f(k: Any) -> Any:
            def moved(c: Any, slope: Any, h: float) -> Any:
                return {name: c[name] + h * slope[name] for name in species}

            def step(c: Any, _: Any) -> Any:
                k1 = rates(c, k)
                k2 = rates(moved(c, k1, 0.005), k)
                k3 = rates(moved(c, k2, 0.005), k)
                k4 = rates(moved(c, k3, 0.01), k)
                return {s: c[s] + 0.01 / 6.0 * (k1[s] + 2.0 * k2[s] + 2.0 * k3[s] + k4[s]) for s in species}

            start = {"A": 1.0, "B": 0.8, "C": 0.1, "D": 0.6, "E": 0.05, "F": 0.01}
            end = words.scan(step, start, numpy.zeros(steps))
            return np.stack([end[name] for name in species])

        return f

    return Case(write, (numpy.array([1.1, 0.4, 0.9, 0.3, 0.7]),), "jacobian")


def chain(n: int, steps: int) -> Case:
    """GradBench's ode: Runge–Kutta steps of y₀' = x₀, yᵢ' = xᵢ yᵢ₋₁, and the last of y."""

    def write(words: Words) -> Any:
        np = words.np

        def f(x: Any) -> Any:
            def slope(y: Any) -> Any:
                return x * np.concatenate([np.ones(1), y[:-1]])

            def step(y: Any, h: Any) -> Any:
                k1 = slope(y)
                k2 = slope(y + h * k1 / 2.0)
                k3 = slope(y + h * k2 / 2.0)
                k4 = slope(y + h * k3)
                return y + h * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0

            return words.scan(step, np.zeros(n), numpy.full(steps, 2.0 / steps))[-1]

        return f

    return Case(write, (random().uniform(0.5, 1.5, n),), of_jax=TWICE)


def hand_tracking(vertices: int, seen: int) -> Case:
    """GradBench's ht: a hand of 22 bones posed by 26 numbers, and its skin beside points that are seen."""
    bones, generator = 22, random()
    parents = [-1, 0, *(k - 1 if k % 4 != 2 else 0 for k in range(2, bones))]
    rest = [numpy.eye(4) for _ in range(bones)]
    for each in rest:
        each[:3, 3] = 0.3 * generator.normal(size=3)
    inverses = 0.2 * generator.normal(size=(bones, 4, 4)) + numpy.eye(4)
    inverses[:, 3] = [0.0, 0.0, 0.0, 1.0]
    skin = numpy.vstack([generator.normal(size=(3, vertices)), numpy.ones((1, vertices))])
    weights = generator.dirichlet(numpy.ones(bones), vertices)
    at, points = generator.integers(0, vertices, seen), generator.normal(size=(3, seen))

    def write(words: Words) -> Any:
        np = words.np

        def turned(angles: Any) -> Any:
            (sx, sy, sz), (cx, cy, cz) = np.sin(angles), np.cos(angles)
            about_x = np.stack([np.array([1.0, 0.0, 0.0]), np.stack([0.0 * cx, cx, -sx]), np.stack([0.0 * cx, sx, cx])])
            about_y = np.stack([np.stack([cy, 0.0 * cy, sy]), np.array([0.0, 1.0, 0.0]), np.stack([-sy, 0.0 * cy, cy])])
            about_z = np.stack([np.stack([cz, -sz, 0.0 * cz]), np.stack([sz, cz, 0.0 * cz]), np.array([0.0, 0.0, 1.0])])
            return about_z @ about_y @ about_x

        def f(theta: Any) -> Any:
            poses = []
            for bone in range(bones):
                place = rest[bone]
                if bone >= 2:
                    finger, joint = divmod(bone - 2, 4)
                    first = 6 + 4 * finger
                    bend = theta[first + 1 + joint] if joint < 3 else 0.0 * theta[first]
                    spread = theta[first] if joint == 0 else 0.0 * theta[first]
                    turn = np.concatenate([turned(np.stack([bend, 0.0 * bend, spread])), np.zeros((1, 3))])
                    place = place @ np.concatenate([turn, numpy.array([[0.0], [0.0], [0.0], [1.0]])], axis=1)
                poses.append(place if parents[bone] < 0 else poses[parents[bone]] @ place)
            moved = [(pose @ inverse)[:3] @ skin for pose, inverse in zip(poses, inverses, strict=True)]
            placed = sum(part * weights[:, bone] for bone, part in enumerate(moved))
            placed = turned(theta[:3]) @ placed + theta[3:6][:, None]
            return (placed[:, at] - points).T.ravel()

        return f

    return Case(write, (0.3 * generator.normal(size=26),), "jacobian", of_jax=TWICE)


def bundle_adjustment(observations: int) -> Case:
    """Reprojection as in SciPy's cookbook: parameters in one vector, indices as arguments."""
    cameras, points, generator = max(1, observations // 400), max(1, observations // 4), random()
    at = generator.integers(0, cameras, observations), generator.integers(0, points, observations)

    def write(words: Words) -> Any:
        np = words.np

        def f(p: Any, camera: Any, point: Any, seen: Any) -> Any:
            each = p[: 9 * cameras].reshape(cameras, 9)[camera]
            x = p[9 * cameras :].reshape(points, 3)[point]
            angle = np.sqrt(np.sum(each[:, :3] ** 2, axis=1))[:, None]
            axis = each[:, :3] / angle
            along = np.sum(x * axis, axis=1)[:, None]
            x = np.cos(angle) * x + np.sin(angle) * np.cross(axis, x) + along * (1.0 - np.cos(angle)) * axis
            x = x + each[:, 3:6]
            flat = -x[:, :2] / x[:, 2, None]
            radius = np.sum(flat**2, axis=1)
            scale = each[:, 6] * (1.0 + each[:, 7] * radius + each[:, 8] * radius**2)
            return (flat * scale[:, None] - seen).ravel()

        return f

    start = numpy.concatenate(
        [generator.normal(0.5, 0.1, 9 * cameras), generator.normal(size=3 * points) + numpy.tile([0, 0, 4.0], points)]
    )
    seen = generator.normal(size=(observations, 2))
    others = tuple((start, *(numpy.roll(each, k) for each in at), seen) for k in (1, 2))
    return Case(write, (start, *at, seen), "sparse jacobian", 3.0, jax=False, others=others)


def minibatches(n: int, size: int) -> Case:
    """Loss of some rows of data, which are another argument."""
    generator = random()
    X, y = generator.normal(size=(n, 30)), generator.integers(0, 2, n) * 2.0 - 1.0
    batches = [generator.integers(0, n, size) for _ in range(3)]

    def write(words: Words) -> Any:
        np = words.np
        data, labels = (X, y) if np is numpy else (np.asarray(X), np.asarray(y))
        return lambda w, batch: np.mean(np.logaddexp(0.0, -labels[batch] * (data[batch] @ w)))

    w = 0.1 * generator.normal(size=30)
    return Case(write, (w, batches[0]), "gradient", 0.5, others=tuple((w, batch) for batch in batches[1:]))


def neo_hooke(tetrahedra: int) -> Case:
    """Energy of an elastic body, vectorised over its tetrahedra."""
    generator, vertices = random(), tetrahedra // 5
    corners = numpy.sort(numpy.argsort(generator.random((tetrahedra, 12)), axis=1)[:, :4], axis=1)
    corners = (corners + generator.integers(0, vertices, tetrahedra)[:, None]) % vertices
    at_rest = numpy.linalg.inv(generator.normal(size=(tetrahedra, 3, 3)) + 3.0 * numpy.eye(3))

    def write(words: Words) -> Any:
        np = words.np

        def f(x: Any) -> Any:
            x = x.reshape(vertices, 3)
            edges = x[corners[:, 1:]] - x[corners[:, :1]]
            F = np.einsum("tij,tjk->tik", edges, at_rest) + 3.0 * np.eye(3)
            J = np.linalg.det(F)
            return np.sum(0.5 * (np.einsum("tij,tij->t", F, F) - 3.0) - np.log(J**2) + 0.5 * (J - 1.0) ** 2)

        return f

    return Case(write, (generator.normal(size=3 * vertices),))


def sparse_matrix(n: int) -> Case:
    """K @ u + u², K a matrix of SciPy's, of Laplace's equation on n × n points: value and derivative in a direction."""
    line = scipy.sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    K = scipy.sparse.csr_array(scipy.sparse.kronsum(line, line))
    arguments = (random().normal(size=n * n), numpy.ones(n * n))
    return Case(lambda words: lambda u: K @ u + u**2, arguments, "jvp", jax=False, read=lambda u, v: K @ u)


#: Ten of the rates of HIRES, a problem of the test set for initial value solvers (archimede.uniba.it/~testset): eight
#: species of a plant's response to light.
HIRES: Final = numpy.array([1.71, 0.43, 8.32, 8.75, 10.03, 0.035, 1.12, 1.745, 280.0, 1.81])


def diffusion(cells: int, steps: int) -> Case:
    """Explicit steps of reaction and diffusion on a ring of cells, and a misfit of its end by the initial state."""
    aim = numpy.cos(numpy.linspace(0.0, 6.0, cells))

    def write(words: Words) -> Any:
        np = words.np

        def f(u: Any) -> Any:
            def step(u: Any, h: Any) -> Any:
                return u + h * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1)) - 0.01 * u**3

            return np.sum((words.scan(step, u, numpy.full(steps, 0.07)) - aim) ** 2)

        return f

    return Case(write, (numpy.sin(numpy.linspace(0.0, 3.0, cells)),), of_jax=TWICE)


def particle() -> Case:
    """Return the point where a charged particle crosses the axis, by a control; forces are gradients of a potential."""

    def write(words: Words) -> Any:
        np = words.np

        def f(w: Any) -> Any:
            def potential(x: Any) -> Any:
                across = (x[0] - 10.0) ** 2
                return (across + (x[1] - 10.0 + w) ** 2) ** -0.5 + (across + x[1] ** 2) ** -0.5

            slope = words.gradient(potential)
            x, v = words.while_loop(
                lambda state: state[0][1] + 0.1 * state[1][1] > 0.0,
                lambda state: (state[0] + 0.1 * state[1], state[1] - 0.1 * slope(state[0])),
                (np.array([0.0, 8.0]), np.array([0.75, 0.0])),
            )
            return (x[0] - x[1] / v[1] * v[0]) ** 2

        return f

    return Case(write, (0.5, 1.0), "jvp", of_jax=TWICE)


def saddle() -> Case:
    """The largest value by two numbers, which an ascent along the gradient finds, as a function of two others."""

    def write(words: Words) -> Any:
        np = words.np

        def f(x: Any) -> Any:
            def height(y: Any) -> Any:
                return np.sum(x**2) - np.sum(y**2)

            slope = words.gradient(height)
            y = words.while_loop(
                lambda y: np.sum(slope(y) ** 2) > 1e-10, lambda y: y + 0.1 * slope(y), np.array([1.0, 1.0])
            )
            return height(y)

        return f

    return Case(write, (numpy.array([1.0, 1.0]), numpy.array([0.3, 1.0])), "jvp", of_jax=TWICE)


def stiff_fit(observations: int) -> Case:
    """Residuals of a fit of ten parameters to observations of a stiff system."""
    start, times = numpy.array([1.0, 0, 0, 0, 0, 0, 0, 0.0057]), numpy.linspace(0.0, 200.0, observations)
    tolerances = {"rtol": 1e-8, "atol": 1e-10}

    def rates(t: Any, y: Any, p: Any) -> Any:
        turnover = p[8] * y[5] * y[7] - p[9] * y[6]
        return numpy.array(
            [
                -p[0] * y[0] + p[1] * y[1] + p[2] * y[2] + 0.0007,
                p[0] * y[0] - p[3] * y[1],
                -p[4] * y[2] + p[1] * y[3] + p[5] * y[4],
                p[2] * y[1] + p[0] * y[2] - p[6] * y[3],
                -p[7] * y[4] + p[1] * y[5] + p[1] * y[6],
                -p[8] * y[5] * y[7] + 0.69 * y[3] + p[0] * y[4] - p[1] * y[5] + 0.69 * y[6],
                turnover,
                -turnover,
            ]
        )

    def by_differences(p: Any) -> Any:
        def states(p: Any) -> Any:
            ends = times[[0, -1]]
            return scipy.integrate.solve_ivp(rates, ends, start, "LSODA", times, args=(p,), **tolerances).y.T

        at, steps = states(p), 1e-5 * p
        return numpy.stack([(states(p + step) - at) / step.sum() for step in numpy.diag(steps)], axis=-1)

    def write(words: Words) -> Any:
        return lambda p: acc.odeint(rates, start, times, p, **tolerances)

    return Case(write, (HIRES,), "jacobian", jax=False, differences=by_differences)


def sparse_system(n: int) -> Case:
    """The response of a grid of n × n cells to heat sources, whose conductivities are the arguments."""
    places = numpy.arange(n * n).reshape(n, n)
    near = numpy.concatenate([places[:, :-1].ravel(), places[:-1].ravel()])
    far = numpy.concatenate([places[:, 1:].ravel(), places[1:].ravel()])
    sources, spsolve = random().normal(size=n * n), scipy.sparse.linalg.spsolve

    def f(c: Any) -> Any:
        rows, columns = numpy.concatenate([near, far, near, far]), numpy.concatenate([near, far, far, near])
        between = scipy.sparse.csc_array((numpy.concatenate([c, c, -c, -c]), (rows, columns)), shape=(n * n, n * n))
        return sources @ spsolve(between + scipy.sparse.eye_array(n * n, format="csc"), sources)

    return Case(lambda words: f, (numpy.full(len(near), 2.0),), jax=False)


def eigenvalues(n: int) -> Case:
    """A sum of eigenvalues of a symmetric matrix, each with a weight of its own."""
    weights = numpy.cos(numpy.arange(n))
    return Case(lambda words: lambda a: words.np.linalg.eigvalsh(a + a.T) @ weights, (random().normal(size=(n, n)),))


def quadrotor(stages: int, form: str) -> Case:
    """A nonlinear program: multiple shooting of a quadrotor, Runge–Kutta steps, with the Hessian of the Lagrangian."""
    rates = next(each.function for each in all_examples() if each.name == "quadrotor")
    states, step = 13 * (stages + 1), 0.05

    def after(x: Any, u: Any) -> Any:
        def rate(x: Any) -> Any:
            return rates(numpy.concatenate([x, u]))

        one = rate(x)
        two = rate(x + step / 2.0 * one)
        three = rate(x + step / 2.0 * two)
        return x + step / 6.0 * (one + 2.0 * two + 2.0 * three + rate(x + step * three))

    def cost(z: Any) -> Any:
        return numpy.sum((z[:states] - 1.0) ** 2) + 0.1 * numpy.sum((z[states:] - 1.96) ** 2)

    def gaps(z: Any) -> Any:
        x, u = z[:states].reshape(stages + 1, 13), z[states:].reshape(stages, 4)
        if form == "map":
            return numpy.ravel(acc.map(after, x[:-1], u) - x[1:])
        return numpy.concatenate([after(x[k], u[k]) - x[k + 1] for k in range(stages)])

    def with_casadi() -> Callable[..., Any]:
        """Return CasADi's Hessian: of a function of the rates, called four times, and mapped."""
        import casadi

        x, u, z = casadi.MX.sym("x", 13), casadi.MX.sym("u", 4), casadi.MX.sym("z", states + 4 * stages)
        symbols = casadi.SX.sym("x", 17)
        whole = casadi.Function("rates", [symbols], [_rates_of_casadi(casadi, symbols)])
        one = whole(casadi.vertcat(x, u))
        two = whole(casadi.vertcat(x + step / 2.0 * one, u))
        three = whole(casadi.vertcat(x + step / 2.0 * two, u))
        last = x + step / 6.0 * (one + 2.0 * two + 2.0 * three + whole(casadi.vertcat(x + step * three, u)))
        both = casadi.reshape(z[:states], 13, stages + 1), casadi.reshape(z[states:], 4, stages)
        mapped = casadi.Function("step", [x, u], [last]).map(stages)(both[0][:, :-1], both[1])
        f = casadi.sumsqr(z[:states] - 1.0) + 0.1 * casadi.sumsqr(z[states:] - 1.96)
        solver = casadi.nlpsol("s", "ipopt", {"x": z, "f": f, "g": casadi.vec(mapped - both[0][:, 1:])}, QUIET)
        return solver.get_function("nlp_hess_l")

    found: list[Callable[..., Any]] = []

    def peer(z: Any) -> Any:
        if not found:
            found.append(with_casadi())
        return found[0](z, [], 1.0, numpy.ones(13 * stages))

    start = numpy.concatenate([numpy.linspace(0.1, 1.0, states), numpy.full(4 * stages, 1.96)])
    return Case(lambda words: (cost, gaps), (start,), "nlpsol", jax=False, differences=peer)


def _rates_of_casadi(ca: Any, x: Any) -> Any:
    """The rates of `examples/quadrotor.py` in CasADi's words."""
    v, (w, a, b, c), spin, thrust = x[3:6], ca.vertsplit(x[6:10]), x[10:13], x[13:17]
    inertia = ca.DM([3.2e-3, 3.4e-3, 5.5e-3])
    lift = ca.sum1(thrust) * ca.vertcat(2 * (a * c + w * b), 2 * (b * c - w * a), 1 - 2 * (a**2 + b**2))
    acceleration = (lift - 0.05 * ca.norm_2(v) * v) / 0.8 + ca.DM([0.0, 0.0, -9.81])
    axis = x[7:10]
    turning = 0.5 * ca.vertcat(-ca.dot(axis, spin), w * spin + ca.cross(axis, spin))
    f, g, h, k = ca.vertsplit(thrust)
    torque = ca.vertcat(0.17 * (g - k), 0.17 * (h - f), 0.016 * (f - g + h - k))
    return ca.vertcat(v, acceleration, turning, (torque - ca.cross(spin, inertia * spin)) / inertia)


class Solver:
    """A solver of CasADi for an objective and constraints; called, it computes the Hessian of the Lagrangian."""

    operations = None

    def __init__(self, functions: tuple[Callable[..., Any], Callable[..., Any]]) -> None:
        self._functions, self._hessian = functions, None

    def __call__(self, z: Any) -> Any:
        """Return the Hessian with weights of one; the solver is made at the first call."""
        if self._hessian is None:
            solver = acc.casadi.nlpsol(
                "s", "ipopt", *self._functions, z, solver_options=QUIET, cache=False, effort="fast"
            )
            self._hessian = solver.get_function("nlp_hess_l")
            self._weights = numpy.ones(solver.size1_out("g"))
        return self._hessian(z, [], 1.0, self._weights)


#: Options of CasADi's solvers.
QUIET: Final = {"ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": False}
