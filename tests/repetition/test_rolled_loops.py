"""Loops in Python, rolled: the same as written out."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import evaluate, fuse, record
from looped import PLAIN
from rolling import rolling

import accumulus as acc
from accumulus import Tape
from accumulus.arrays import jacobian as arrays_jacobian
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.repetition import roll

X = np.random.default_rng(1).uniform(0.2, 1.2, 24)
N = 24


def dense(derivative):
    return derivative.toarray() if scipy.sparse.issparse(derivative) else derivative


def assert_rolled_is_written_out(function, *arguments, is_rolled=True, **options):
    """Values and derivatives, rolled and as written out."""
    with rolling():
        jac = acc.value_and_jacobian(function, cache=False, **options)
        values, actual = jac(*arguments)
    assert jac.compile(*arguments).code.has_loops == is_rolled
    expected_values, expected = acc.value_and_jacobian(function, **PLAIN)(*arguments)
    np.testing.assert_allclose(values, expected_values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dense(actual).reshape(expected.shape), expected, rtol=1e-9, atol=1e-9)


def stencil(u):
    result = np.zeros(N)
    for i in range(N):
        result[i] = u[(i + 1) % N] - 2.0 * u[i] + u[i - 1] + u[i] ** 2 * (1.0 - u[i])
    return result


def torus(w):
    n = 4
    u, v = w[:12].reshape(3, n), w[12:].reshape(3, n)
    du, dv = np.zeros((3, n)), np.zeros((3, n))

    def laplacian(a, i, j):
        return a[(i - 1) % 3, j] + a[(i + 1) % 3, j] + a[i, (j - 1) % n] + a[i, (j + 1) % n] - 4.0 * a[i, j]

    for i in range(3):
        for j in range(n):
            reaction = u[i, j] ** 2 * v[i, j]
            du[i, j] = 1.0 + reaction - 4.4 * u[i, j] + 0.1 * laplacian(u, i, j)
            dv[i, j] = 3.4 * u[i, j] - reaction + 0.1 * laplacian(v, i, j)
    return np.concatenate([du.ravel(), dv.ravel()])


def with_boundaries(w):
    m, n = 4, 6
    u = [[w[n * i + j] for j in range(n)] for i in range(m)]
    rows = []
    for i in range(m):
        for j in range(n):
            total = -4.0 * u[i][j] + np.sin(u[i][j])
            total += u[i - 1][j] if i > 0 else 1.5
            total += u[i + 1][j] if i < m - 1 else u[i][j]
            total += u[i][j - 1] if j > 0 else u[i][j] ** 2
            total += u[i][j + 1] if j < n - 1 else 0.5
            rows.append(total)
    return np.array(rows)


def volumes(u):
    def flux(a, b):
        return 0.5 * (a**2 + b**2) - 0.3 * (b - a) * np.sqrt(1.0 + a**2 + b**2)

    result = np.zeros(N)
    for i in range(N):
        left = flux(u[i - 1], u[i]) if i > 0 else 0.5 * u[0]
        right = flux(u[i], u[i + 1]) if i < N - 1 else u[N - 1] ** 2
        result[i] = N * (left - right)
    return result


def pairs(x):
    x = x.reshape(8, 3)
    forces = np.zeros((8, 3))
    for i in range(8):
        for j in range(8):
            if i != j:
                d = x[j] - x[i]
                r2 = d @ d + 1e-2
                forces[i] = forces[i] + d / (r2 * np.sqrt(r2))
    return forces.ravel()


def pairs_once(x):
    masses = np.linspace(1.0, 2.0, 8)
    x = x.reshape(8, 3)
    forces = np.zeros((8, 3))
    for i in range(8):
        for j in range(i):
            d = x[j] - x[i]
            force = d / (d @ d + 1e-2) ** 1.5
            forces[i] += masses[j] * force
            forces[j] -= masses[i] * force
    return forces.ravel()


def residuals(z):
    which, columns = [0, 1, 1, 0, 1, 0, 0, 1], [0, 3, 1, 2, 2, 1, 3, 0]
    seen = np.linspace(-1.0, 1.0, 16).reshape(8, 2)
    result = []
    for k in range(8):
        camera, p = z[6 * which[k] : 6 * which[k] + 6], z[12 + 3 * columns[k] : 15 + 3 * columns[k]]
        q = p + np.cross(camera[:3], p) + camera[3:]
        result += [q[0] / (2.0 + q[2]) - seen[k, 0], q[1] / (2.0 + q[2]) - seen[k, 1]]
    return np.array(result)


def rosenbrock(x):
    total = 0.0
    for i in range(N - 1):
        total += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return total


def layers(x):
    A, B = np.random.default_rng(2).normal(size=(2, 6, 6))

    def applied(M, v):
        result = []
        for i in range(6):
            total = 0.1 * i
            for j in range(6):
                total = total + M[i, j] * v[j]
            result.append(np.tanh(total))
        return result

    return np.array(applied(B, applied(A, x[:6])))


def time_steps(u):
    u = list(u)
    for _ in range(4):
        u = [u[i] + 0.1 * (u[i - 1] - 2.0 * u[i] + u[(i + 1) % N]) + 0.01 * u[i] * (1.0 - u[i]) for i in range(N)]
    return np.array(u)


def differences_of_sums(x):
    first, second = x[0] * 0.0 + 3.0, 0.0
    for i in range(N):
        first = first - x[i] * x[i - 1] if i % 3 else first + 2.0 * x[i]
        second = second + (x[i] - first if i == 7 else np.sin(x[i]))
    return np.array([first - (second - (x[1] + (x[2] - (x[3] - 1.0)))), second, x[4] - x[5] - x[6] - x[7] - x[8]])


def jumping(x):
    total, result = 0.0, []
    for i in range(N):
        total = total + 0.1 * x[i]
    for i in range(N):
        result.append(np.floor(total / 0.1 + x[i]) * x[i - 1] + np.where(x[i] > 0.6, x[i], x[i - 1] ** 2))
    return np.array(result)


def angles(x):
    return np.array([np.arctan2(0.0 - x[i] * 0.0, -x[i]) * x[i - 1] + np.arctan2(x[i], x[i - 2]) for i in range(N)])


def returned_as_they_are(x):
    return np.array([x[0], 3.0, x[0], *(x[i] for i in range(4)), *(2.0 * x[i] for i in range(4)), 2.0 * x[1], 1.0])


def powers(x):
    return np.array([x[i] ** (2.5 + i % 3) + x[i] ** 3 + 2.0 ** x[i] for i in range(N)])


FUNCTIONS = [
    stencil, torus, with_boundaries, volumes, pairs, pairs_once, residuals, rosenbrock, layers, time_steps,
    differences_of_sums, jumping, angles, returned_as_they_are, powers,
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sparse", [None, "csr"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_loops_equal_the_written_out_program(function, sparse):
    assert_rolled_is_written_out(function, X, sparse=sparse)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_are_those_of_the_function(function):
    tape = record(function, [X]).tape
    with rolling():
        blocks = roll.rolled(tape)
    assert blocks.inputs == tape.inputs
    np.testing.assert_allclose(evaluate(blocks, X), evaluate(tape, list(X)), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("function", [jumping, angles])
def test_operations_that_lead_to_jumps_are_computed_as_recorded(function):
    tape = record(function, [X]).tape
    with rolling():
        blocks = roll.rolled(tape)
    assert np.array_equal(evaluate(blocks, X), np.array(evaluate(tape, list(X))))


# What is found --------------------------------------------------------------------------------------------------------


def bodies_of(function, x=X):
    """For each body the number of its instances, of its blocks, and whether it is a sum; in order."""
    with rolling(terms=16):
        return sorted(
            (each.count, len(each.blocks), each.is_sum) for each in fuse(roll.rolled(record(function, [x]).tape))
        )


def test_more_constants_than_values():
    x = np.array([0.3, 0.4, 0.5])
    constants = np.arange(1.5, 20.0)
    with rolling():
        values = acc.compile(lambda x: np.array([*np.sin(x * x), *constants]), cache=False)(x)
    np.testing.assert_allclose(values, [*np.sin(x * x), *constants], rtol=1e-15)


def test_equal_cells_are_one_body():
    assert [(count, is_sum) for count, _, is_sum in bodies_of(stencil)] == [(N, False)]
    assert [(count, is_sum) for count, _, is_sum in bodies_of(torus)] == [(12, False)]


def test_boundaries_have_separate_bodies():
    counts = [count for count, _, _ in bodies_of(with_boundaries)]
    assert counts == [1, 2, 4, 8]  # four corners, two short sides, two long ones, what is inside


def test_sums_are_columns_of_terms():
    result = bodies_of(rosenbrock)
    assert [(count, is_sum) for count, _, is_sum in result] == [(1, True), (N - 1, False)]


def test_steps_on_a_grid_are_a_body_each():
    assert [count for count, _, _ in bodies_of(time_steps)] == [N] * 4


def test_factors_that_differ_are_a_column():
    tape = Tape(8)
    tape.outputs = [tape.multiply(k, tape.constant(2.0 + k)) for k in range(8)]
    with rolling():
        (block,) = roll.rolled(tape).blocks
    assert block.count == 8


def test_unneeded_operations_are_removed():
    tape = Tape(8)
    for k in range(8):
        tape.apply("exp", k)
    tape.outputs = [tape.apply("sin", k) for k in range(8)]
    with rolling():
        (block,) = roll.rolled(tape).blocks
    assert block.count == 8


def test_without_repetition_programs_stay_as_they_are():
    rng = np.random.default_rng(5)

    def f(x):
        values = list(x)
        for _ in range(2_000):
            a, b = (values[-1 - k] for k in rng.integers(0, 20, 2))
            values.append([a * b, a + b, a - b, np.sin(a), np.exp(-b)][rng.integers(5)])
        return np.array(values[-20:])

    tape = record(f, [X]).tape
    with rolling(repeated=16):
        assert roll.rolled(tape) is None


def test_short_programs_stay_as_they_are():
    assert record(stencil, [X], arrays=True).program.is_straight


def test_recordings_for_traces_stay_as_they_are():
    with rolling():
        assert record(stencil, [X]).program.is_straight
        assert not record(stencil, [X], arrays=True).program.is_straight
        for options in ({"dtype": "float32"}, {"exact_order": True}):
            assert type(acc.jacobian(stencil, cache=False, **options).compile(X)) is CompiledProgram


def test_too_many_products_leave_a_program_as_it_is(monkeypatch):
    monkeypatch.setattr(arrays_jacobian, "MOST", 10)
    assert_rolled_is_written_out(layers, X, is_rolled=False)


def test_a_long_loop_is_quick_and_right():
    """Written out, its Jacobian would take minutes."""
    n = 12_000

    def f(u):
        result = np.zeros(n)
        for i in range(n):
            result[i] = u[(i + 1) % n] * u[i] - 2.0 * np.sin(u[i]) + u[i - 1] ** 2
        return result

    x = np.linspace(0.1, 0.9, n)
    jac = acc.jacobian(f, sparse=True, cache=False)
    jacobian = jac(x)
    assert jac.compile(x).code.has_loops
    assert jacobian.nnz == 3 * n
    np.testing.assert_allclose(jacobian.diagonal(), np.roll(x, -1) - 2.0 * np.cos(x), rtol=1e-12)


# Random loops ---------------------------------------------------------------------------------------------------------

BODIES = [
    lambda a, b, c: a * b + c,
    lambda a, b, c: a - b * np.sin(c),
    lambda a, b, c: (a + b) / (2.0 + c * c),
    lambda a, b, c: np.where(a > b, a, 2.0 * c) + 0.5 * b,
    lambda a, b, c: 1.5 * a - np.maximum(b, c) * a,
    lambda a, b, c: np.exp(-a * a) - (b - c),
    lambda a, b, c: a + b + c + 1.0,
    lambda a, b, c: np.floor(4.0 * a) * b - c,
]
MAPS = [
    lambda i, n: i,
    lambda i, n: (i + 1) % n,
    lambda i, n: i - 1,
    lambda i, n: n - 1 - i,
    lambda i, n: (5 * i + 2) % n,
    lambda i, n: max(i - 1, 0),
    lambda i, n: i // 2,
    lambda i, n: 3,
]
KINDS = ["map", "map", "map", "boundary", "weights", "sum", "alternating", "rows"]
stages = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from(BODIES),
    st.sampled_from(BODIES),
    st.lists(st.tuples(st.sampled_from(MAPS), st.integers(0, 9)), min_size=3, max_size=3),
)


@settings(max_examples=13, deadline=None)
@given(
    st.lists(stages, min_size=1, max_size=5), st.integers(5, 9), st.integers(0, 99), st.booleans(), st.integers(3, 9)
)
def test_any_loops(drawn, n, seed, returns_all, terms):
    generator = np.random.default_rng(seed)
    weights = generator.uniform(-1.0, 1.0, (len(drawn), n, n))

    def f(x):
        values = [x[:n], x[n:]]
        for stage, (kind, body, other, taken) in enumerate(drawn):
            given_values = [(where, values[k % len(values)]) for where, k in taken]
            made = np.zeros(n)
            for i in range(n):
                a, b, c = (array[where(i, n)] for where, array in given_values)
                if kind == "rows":
                    made[i] = sum(weights[stage, i, j] * given_values[0][1][j] for j in range(n))
                else:
                    made[i] = (other if kind == "boundary" and i in (0, n - 1) else body)(a, b, c)
                if kind == "weights":
                    made[i] = made[i] * weights[stage, i, 0] + weights[stage, i, 1]
            if kind in ("sum", "alternating"):
                total = 0.0
                for i in range(n):
                    total = total - made[i] if kind == "alternating" and i % 2 else total + made[i]
                made = [made[i] * total for i in range(n)]
            values.append(made)
        return np.array([entry for array in (values[2:] if returns_all else values[-1:]) for entry in array])

    x = generator.uniform(-1.0, 1.0, 2 * n)
    tape = record(f, [x]).tape
    with rolling(terms=terms):
        blocks = roll.rolled(tape)
        assert blocks is not None or not tape.operations
        jac = acc.jacobian(f, sparse="csr", effort="fast", cache=False)
        actual = jac(x)
    if blocks is not None:
        np.testing.assert_allclose(evaluate(blocks, x), evaluate(tape, list(x)), rtol=1e-11, atol=1e-11)
    expected = acc.jacobian(f, effort="fast", cache=False)(x)
    np.testing.assert_allclose(actual.toarray(), expected, rtol=1e-8, atol=1e-8)
