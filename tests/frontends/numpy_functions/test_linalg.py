"""Small linear systems: random matrices that need pivoting, with zeros in them, in stacks, and singular ones."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from agreement import assert_agrees
from hypothesis import assume, given
from hypothesis import strategies as st
from inside import evaluate, linearize

import accumulus
from accumulus.frontends import record


@given(n=st.integers(1, 6), seed=st.integers(0, 10_000), zeros=st.sampled_from([0.0, 0.5]))
def test_solve_inv_and_det(n, seed, zeros):
    generator = np.random.default_rng(seed)
    A = generator.normal(size=(n, n)) * (generator.random((n, n)) >= zeros)
    assume(np.linalg.cond(A) < 1e3)
    b = generator.normal(size=n)

    def f(A, b):
        return np.linalg.solve(A, b), np.linalg.inv(A), np.linalg.det(A), np.linalg.solve(A, np.outer(b, b))

    assert_agrees(f, [A, b], rtol=1e-9)


@given(n=st.integers(1, 6), seed=st.integers(0, 10_000))
def test_matrices_that_are_partly_constant(n, seed):
    generator = np.random.default_rng(seed)
    constant = np.where(generator.random((n, n)) < 0.5, generator.integers(-2, 3, (n, n)), 0.0)
    traced = generator.random((n, n)) < 0.4
    A = generator.normal(size=(n, n))

    def matrix(A):
        M = np.array(constant)
        M[traced] = A[traced]
        return M

    assume(np.linalg.cond(matrix(A)) < 1e3)
    assert_agrees(lambda A: (np.linalg.inv(matrix(A)), np.linalg.det(matrix(A))), [A], rtol=1e-9)


def test_tiny_pivots_do_not_lose_digits():
    A = np.eye(5)[::-1] + 1e-14 * np.ones((5, 5))
    assert_agrees(lambda A: np.linalg.solve(A, np.arange(5.0)), [A])


def test_structural_zeros_cost_nothing():
    def banded(x):
        A = np.diag(x) + np.diag(x[1:] * 0.1, 1)
        return np.linalg.solve(A, x)

    assert record(banded, [np.ones(8)]).tape.operations < 50


def test_stacks():
    A = np.random.default_rng(0).normal(size=(2, 3, 4, 4))
    b = np.random.default_rng(1).normal(size=(3, 4, 2))
    assert_agrees(lambda A, b: (np.linalg.solve(A, b), np.linalg.det(A), np.linalg.inv(A)), [A, b], rtol=1e-9)
    assert_agrees(lambda A: np.linalg.solve(A, np.ones(4)), [A], rtol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_singular_matrices_give_no_numbers(n):
    recording = record(np.linalg.inv, [np.ones((n, n))])
    assert not np.any(np.isfinite(evaluate(recording.program, [0.0] * n * n)))
    assert evaluate(record(np.linalg.det, [np.ones((n, n))]).tape, [0.0] * n * n) == [0.0] or n > 3


@pytest.mark.parametrize("f", [np.linalg.inv, np.linalg.det, lambda A: np.linalg.solve(A, np.ones(2))])
def test_matrices_must_be_square(f):
    with pytest.raises(np.linalg.LinAlgError, match="equal length"):
        record(f, [np.ones((2, 3))])


def test_pivoted_elimination_is_not_differentiated():
    n = 5
    graph = linearize(record(np.linalg.solve, [np.eye(n), np.ones(n)]).tape).graph
    # a residual a row, exchanged and through the factors; differentiated, the elimination has over a thousand edges
    assert len(graph.sources) < 8 * n * n


def test_products_with_derivatives_of_solutions_form_no_inverse():
    n = 6
    A, b = np.random.default_rng(0).normal(size=(n, n)), np.ones(n)
    alone = accumulus.compile(np.linalg.solve, effort="fast", cache=False).compile(A, b).operations
    pushed = accumulus.jvp(np.linalg.solve, effort="fast", cache=False)
    value, tangent = pushed((A, b), (np.eye(n), b))
    np.testing.assert_allclose(tangent, np.linalg.solve(A, b - value), rtol=1e-10)
    # the residual, its rows exchanged and through both factors; the inverse alone takes n³
    assert pushed.operations - alone < 7 * n * n


SOLUTION = accumulus.value_and_jacobian(np.linalg.solve, argnums=(0, 1), effort="fast", time_limit=0.0)


@given(n=st.integers(4, 6), seed=st.integers(0, 10_000))
def test_derivatives_of_solutions_where_rows_are_exchanged(n, seed):
    generator = np.random.default_rng(seed)
    A = generator.normal(size=(n, n)) * 10.0 ** generator.integers(-2, 3, (n, 1))
    b = generator.normal(size=(n, 2))
    assume(np.linalg.cond(A) < 1e5)
    x, (by_matrix, by_side) = SOLUTION(A, b)
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(x, inverse @ b, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(by_side, np.einsum("ij,kl->ikjl", inverse, np.eye(2)), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(by_matrix, -np.einsum("ij,kl->iljk", inverse, x), rtol=1e-7, atol=1e-7)


def _of_entries(entries, n):
    """A matrix that is zero but for the given positions."""

    def matrix(x):
        M = np.zeros((n, n), x.dtype)
        M[tuple(np.array(entries).T)] = x
        return M

    return matrix


@st.composite
def patterns(draw):
    """Positions of entries: triangular matrices in any order of rows and columns, with a core in the middle or not."""
    n = draw(st.integers(2, 6))
    core = draw(st.integers(0, n))
    first = draw(st.integers(0, n - core))
    rows, columns = (np.array(draw(st.permutations(range(n)))) for _ in range(2))
    inside = lambda k: first <= k < first + core  # noqa: E731
    optional = st.lists(st.booleans(), min_size=n * n, max_size=n * n)
    kept = np.reshape(draw(optional), (n, n))
    places = [
        (int(rows[i]), int(columns[j]))
        for i in range(n)
        for j in range(n)
        if i == j or (inside(i) and inside(j)) or (j < i and kept[i, j])
    ]
    return n, sorted(places)


@given(patterns(), st.integers(0, 10_000), st.sampled_from(["all", "first", "second", "ones", "matrix", "reversed"]))
def test_structural_zeros(pattern, seed, sides):
    """Solutions, inverses and determinants, with derivatives by the entries."""
    n, places = pattern
    generator = np.random.default_rng(seed)
    x, matrix = generator.normal(size=len(places)), _of_entries(places, n)
    A = matrix(x)
    assume(np.linalg.cond(A) < 1e4)
    unit = np.eye(n)
    b = {"all": unit, "first": unit[0], "second": unit[:, 1], "ones": np.ones(n), "reversed": unit[::-1]}
    side = b.get(sides, generator.normal(size=(n, 2)))

    def f(x):
        sign, logarithm = np.linalg.slogdet(matrix(x))
        determinant = np.linalg.det(matrix(x))
        return np.concatenate([np.ravel(np.linalg.solve(matrix(x), side)), [sign, logarithm, determinant]])

    values, by_x = accumulus.value_and_jacobian(f, effort="fast", time_limit=0.0, cache=False)(x)
    inverse = np.linalg.inv(A)
    solution = inverse @ side
    np.testing.assert_allclose(values[:-3], np.ravel(solution), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(values[-3:], [*np.linalg.slogdet(A), np.linalg.det(A)], rtol=1e-9, atol=1e-12)
    for k, (i, j) in enumerate(places):
        change = -np.ravel(np.multiply.outer(inverse[:, i], solution[j]))
        np.testing.assert_allclose(by_x[:-3, k], change, rtol=1e-8, atol=1e-8)
        of_determinant = np.linalg.det(A) * inverse[j, i]
        np.testing.assert_allclose(by_x[-3:, k], [0.0, inverse[j, i], of_determinant], rtol=1e-8, atol=1e-8)


def test_triangular_systems_take_as_many_products_as_entries():
    n = 8
    lower = np.tril(np.ones((n, n))) + n * np.eye(n)

    def solve(lower, b):
        return np.linalg.solve(np.tril(lower)[::-1], b)

    assert record(solve, [lower, np.ones(n)]).tape.operations == n * (n - 1) + 2 * n
    by_cholesky = accumulus.value_and_gradient(
        lambda a, b: np.sum(np.linalg.solve((L := np.linalg.cholesky(a)).T, np.linalg.solve(L, b))), cache=False
    )
    # with elimination of the factor's rows 2,029
    assert by_cholesky.compile(lower @ lower.T, np.ones(n)).operations < 1100


@pytest.mark.parametrize("zero", [(0, 0), (4, 4), (2, 1)])
def test_singular_matrices_with_structural_zeros(zero):
    """Where NumPy raises an error, no result is a number; the determinant is 0, and its logarithm -inf."""
    A = np.tril(np.ones((5, 5)) + np.eye(5))
    recording = record(lambda A: np.linalg.solve(np.tril(A), np.ones(5)), [A])
    rest = record(lambda A: (np.linalg.det(np.tril(A)), *np.linalg.slogdet(np.tril(A))), [A])
    A[zero] = 0.0
    is_singular = zero[0] == zero[1]
    with np.errstate(all="ignore"):
        assert np.isfinite(evaluate(recording.tape, A.ravel())).all() == (not is_singular)
        assert (evaluate(rest.tape, A.ravel()) == [0.0, 0.0, -np.inf]) == is_singular


def test_solutions_inside_of_other_solutions_and_branches():
    B = np.random.default_rng(1).normal(size=(5, 5))
    B[0, 0] = 0.0

    def f(x):
        matrix = B + np.outer(x, np.sin(x))
        inner = np.linalg.solve(matrix, x)
        return np.where(x > 0.6, np.linalg.solve(matrix + np.diag(inner), np.cos(inner)), x**2) * inner

    assert_agrees(f, [np.linspace(0.3, 0.9, 5)], rtol=1e-9)


def _exact_determinant(rows):
    """The determinant of a matrix of fractions."""
    rows, product = [list(map(Fraction, row)) for row in rows], Fraction(1)
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != k:
            rows[k], rows[pivot], product = rows[pivot], rows[k], -product
        product *= rows[k][k]
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return product


def _along(A, V):
    """The coefficients of the polynomial det(A + t·V) of whole numbers, exactly."""
    n = len(A)
    values = [_exact_determinant((A + t * V).astype(int).tolist()) for t in range(n + 1)]
    powers = [[Fraction(t) ** k for k in range(n + 1)] for t in range(n + 1)]
    whole = _exact_determinant(powers)
    columns = [
        [[v if j == k else p for j, p in enumerate(row)] for row, v in zip(powers, values, strict=True)]
        for k in range(5)
    ]
    return np.array([float(_exact_determinant(each) / whole) for each in columns])


def _of_rank(n, rank, kind):
    """A matrix of whole numbers; in some its first columns are dependent, so that early pivots are zero."""
    generator = np.random.default_rng([n, rank])
    if kind == "diagonal":
        return np.diag([0.0] * (n - rank) + [float(k + 1) for k in range(rank)])
    result = generator.integers(-3, 4, (n, rank)) @ generator.integers(-3, 4, (rank, n))
    if kind == "first columns":
        result[:, : n - rank] = 0
    return result.astype(float)


@cache
def _derivatives_of_determinants():
    return [
        kind(np.linalg.det, effort="fast", time_limit=0.0)
        for kind in (accumulus.taylor, accumulus.gradient, accumulus.hvp)
    ]


@pytest.mark.parametrize(
    ("n", "kind"), [*((n, kind) for n in (4, 6) for kind in ("dense", "diagonal", "first columns")), (8, "dense")]
)
def test_derivatives_of_determinants_of_singular_matrices(n, kind):
    expand, gradient, product = _derivatives_of_determinants()
    for rank in range(n - 4, n + 1):
        A = _of_rank(n, rank, kind)
        for V in (np.ones((n, n)), np.random.default_rng(rank).integers(-2, 3, (n, n)).astype(float)):
            series = np.stack([V] + [np.zeros((n, n))] * 3)
            value, coefficients = expand((A,), (series,))
            expected = _along(A, V)
            close = {"rtol": 1e-10, "atol": 1e-12 * np.linalg.norm(A) ** (n - 2)}
            np.testing.assert_allclose([value, *coefficients], expected, **close)
            np.testing.assert_allclose(np.sum(gradient(A) * V), expected[1], **close)
            np.testing.assert_allclose(np.sum(product((A,), (V,))[0] * V), 2 * expected[2], **close)


@pytest.mark.parametrize("n", [9, 11])
def test_gradients_of_determinants_of_larger_singular_matrices(n):
    A = _of_rank(n, n - 1, "first columns")
    V = np.ones((n, n))
    value, gradient = accumulus.value_and_gradient(np.linalg.det, effort="fast", time_limit=0.0)(A)
    assert value == 0.0
    np.testing.assert_allclose(np.sum(gradient * V), _along(A, V)[1], rtol=1e-10)


def test_nested_derivatives_of_determinants_with_solutions():
    """Derivatives of every order of determinants agree with solutions, which are found by Newton steps."""

    def f(x):
        matrix = np.reshape(x, (4, 4)) * np.sin(x[0]) + np.eye(4)
        return np.linalg.det(matrix) * np.sum(np.linalg.solve(matrix + 3.0 * np.eye(4), x[:4]))

    x = np.random.default_rng(2).normal(size=16)
    mirrored = accumulus.hessian(f, effort="fast", time_limit=0.0)(x)
    nested = accumulus.jacobian(accumulus.gradient(f), effort="fast", time_limit=0.0)(x)
    gradient = accumulus.gradient(f, effort="fast", time_limit=0.0)
    steps = np.eye(16) * 1e-6
    differences = np.stack([(gradient(x + step) - gradient(x - step)) / 2e-6 for step in steps])
    np.testing.assert_allclose(mirrored, nested, rtol=1e-8, atol=1e-9 * np.abs(nested).max())
    np.testing.assert_allclose(nested, differences, rtol=1e-5, atol=1e-7 * np.abs(nested).max())


def test_derivatives_of_inverses_of_every_order():
    """The k-th Taylor coefficient of (A + t D)⁻¹ is (-B D)ᵏ B: by Taylor arithmetic and by nested gradients."""
    draw = np.random.default_rng(3)
    A, D, weights = draw.normal(size=(3, 4, 4))
    A += 3.0 * np.eye(4)
    B = np.linalg.inv(A)
    exact = [np.linalg.matrix_power(-B @ D, k) @ B for k in range(4)]
    options = {"effort": "fast", "time_limit": 0.0, "cache": False}
    value, found = accumulus.taylor(np.linalg.inv, **options)((A,), (np.stack([D, 0.0 * D, 0.0 * D]),))
    np.testing.assert_allclose([value, *found], exact, rtol=1e-12, atol=1e-14)

    def nested(t):
        return np.sum(weights * np.linalg.inv(A + t * D))

    for factorial, coefficient in zip((1, 2, 6), exact[1:], strict=True):
        nested = accumulus.gradient(nested, **options)
        np.testing.assert_allclose(nested(0.0), factorial * np.sum(weights * coefficient), rtol=1e-11)
