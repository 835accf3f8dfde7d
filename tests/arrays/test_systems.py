"""Systems of equations and determinants: as equations of a program, and of stacks as loops, as if written out."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
import scipy.linalg
from exact import EXACT, mpf
from inside import Program, evaluate, evaluate_with_bounds, record
from looped import PLAIN, unrolled

import accumulus as acc
from accumulus.frontends.numpy.linalg import systems
from accumulus.tape.blocks import CHOLESKY, MATMUL, OF_MATRICES, SOLVE
from accumulus.tape.columns import references_in
from accumulus.tape.moving import narrowed, unroll
from accumulus.targets.nests import nests_of

N = 4
RNG = np.random.default_rng(0)
FIXED, TURNED = RNG.normal(size=(2, N, N)) + 4.0 * np.eye(N)
BESIDE = RNG.normal(size=(N, 3))
X = np.array([0.3, 0.7, 1.1])
QUICK = {"effort": "fast", "cache": False}


def matrix(x):
    return FIXED + x[0] * TURNED * np.cos(x[1] * np.arange(N)) + x[2] ** 2 * np.diag(np.arange(N))


def banded(x):
    return np.diag(2.0 + x[0] * np.arange(N)) + np.diag(x[1] * np.ones(N - 1), 1) + np.diag(x[2] * np.ones(N - 1), -1)


def symmetric(x):
    a = np.exp(-x[0] * np.subtract.outer(np.arange(N), np.arange(N)) ** 2)
    return a + x[1] * np.eye(N)


def by_a_factor(x):
    factor = scipy.linalg.cho_factor(symmetric(x), lower=True)
    white = scipy.linalg.solve_triangular(factor[0], np.cos(x[0] * np.arange(N)), lower=True, unit_diagonal=True)
    return scipy.linalg.cho_solve(factor, BESIDE * x[2]) * np.sum(np.log(np.diag(factor[0]))) + white @ white


#: By name, functions of three numbers.
FUNCTIONS = {
    "vector": lambda x: np.linalg.solve(matrix(x), np.sin(x[1] * np.arange(N))),
    "sides": lambda x: np.linalg.solve(matrix(x), BESIDE * x),
    "constant sides": lambda x: np.linalg.solve(matrix(x).T, BESIDE)[::2, 1:],
    "constant matrix": lambda x: np.linalg.solve(FIXED, np.outer(np.arange(N), x) ** 2),
    "inverse": lambda x: np.linalg.inv(matrix(x)) * x[1],
    "repeated": lambda x: np.linalg.solve(banded(x), np.linalg.solve(banded(x), np.cos(x[2] + np.arange(N)))),
    "symmetric": lambda x: np.linalg.solve(symmetric(x), symmetric(x[::-1])[0]),
    "stack": lambda x: np.linalg.solve(np.stack([matrix(x), matrix(2.0 * x)]), BESIDE * x[0]),
    "determinant": lambda x: np.stack(np.linalg.slogdet(matrix(x) * x[0])),
    "rows exchanged": lambda x: np.stack(np.linalg.slogdet(matrix(x)[::-1])) * x[1],
    "factor": lambda x: np.linalg.cholesky(symmetric(x)) * x[1],
    "factors of one triangle": lambda x: np.linalg.cholesky(
        np.stack([symmetric(x), matrix(x)]) + 9.0 * np.eye(N), upper=True
    ),
    "solutions by a factor": by_a_factor,
    "likelihood": lambda x: x @ x + np.linalg.slogdet(symmetric(x))[1] + x[0] * np.sum(np.linalg.inv(symmetric(x))[0]),
}


@pytest.fixture(params=FUNCTIONS)
def function(request):
    return FUNCTIONS[request.param]


@pytest.fixture
def as_equations(monkeypatch):
    """Decide that all systems are equations among loops, or that everything is written out."""
    with ExitStack() as stack:

        def decide(are):
            stack.close()
            stack.enter_context(unrolled(0 if are else 10**9))
            monkeypatch.setattr(systems, "MOST_UNROLLED_SYSTEM", 0 if are else 10**9)

        yield decide


def both(as_equations, compute):
    """Flat results, by equations and written out."""
    result = []
    for are in (True, False):
        as_equations(are)
        results = compute(QUICK if are else PLAIN)
        result.append(np.concatenate([np.ravel(array) for array in results]))
    return result


def has_equations(program):
    return not program.is_straight and any(block.code in OF_MATRICES - {MATMUL} for block in program.blocks)


def test_which_are_equations(as_equations, function):
    as_equations(True)
    assert has_equations(record(function, [X], arrays=True).program)
    as_equations(False)
    assert not has_equations(record(function, [X], arrays=True).program)


@pytest.mark.sampled(4, each="target")
@pytest.mark.parametrize(
    ("function", "target"),
    [(each, "llvm") for each in FUNCTIONS]
    + [(each, target) for target in ("numpy", "c") for each in ("sides", "factor", "likelihood")],
    indirect=["function"],
)
def test_every_kind_in_every_target(as_equations, function, target):
    def weighted(x):
        return np.sum(np.cos(np.arange(np.size(function(x)))) * np.ravel(function(x)))

    def compute(options):
        options = options | {"target": target}
        value, jacobian = acc.value_and_jacobian(function, **options)(X)
        pushed = acc.jvp(function, **options)((X,), (X[::-1],))
        hessian = acc.value_gradient_hessian(weighted, **options)(X)
        product = acc.hvp(weighted, **options)((X,), (X[::-1],))
        return value, jacobian, *pushed, *hessian, *product

    actual, expected = both(as_equations, compute)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.sampled(5)
def test_ways_to_call(as_equations, function, tmp_path):
    def compute(options):
        jacobian = acc.jacobian(function, **options)
        at = jacobian(X)
        acc.save(jacobian, tmp_path / "f.accumulus")
        series = acc.taylor(function, **options)((X,), (np.stack([X[::-1], X, np.zeros(3)]),))
        inner = acc.jacobian(lambda x: acc.jvp(function, **options)((x,), (x,))[1], **options)
        source = jacobian.compile(X).source("numpy")
        scope = {}
        exec(source, scope)
        named = scope["f"](X)
        return (
            at,
            acc.load(tmp_path / "f.accumulus")(X),
            jacobian.batch(np.stack([X, 1.1 * X])),
            *series,
            inner(X),
            *named,
        )

    actual, expected = both(as_equations, compute)
    np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-9)


def test_programs_are_copied_onto_programs(as_equations, function):
    as_equations(True)
    program = record(function, [X], arrays=True).program
    expected = np.ravel(function(X))
    for made in (program, narrowed(program)):
        np.testing.assert_allclose(evaluate(made, X), expected, rtol=1e-12)
    np.testing.assert_allclose(evaluate(unroll(program), list(X)), expected, rtol=1e-10)


def test_only_needed_right_hand_sides_remain():
    tape = Program(inputs=4 + 6)
    tape.outputs = tape.solve(np.arange(4).reshape(2, 2), np.arange(4, 10).reshape(2, 3))[:1, 2]
    (block,) = narrowed(tape).blocks
    assert block.shape == (2, 2, 1)


def test_bounds_hold(as_equations, function):
    """Of fifty digits, written out."""
    as_equations(True)
    program = record(function, [X], arrays=True).program
    values, bounds = evaluate_with_bounds(program, [np.array([x]) for x in X])
    as_equations(False)
    scalars = record(function, [X]).program.scalars
    exact = evaluate(scalars, [mpf(x) for x in X], EXACT, mpf)
    for value, bound, truth in zip(values[:, 0], bounds[:, 0], exact, strict=True):
        assert abs(mpf(float(value)) - truth) <= bound < 1e-9 * (1 + abs(truth))


def test_a_singular_matrix_is_numpys_error_or_no_number(as_equations):
    as_equations(True)
    f = lambda x: np.linalg.solve(np.outer(x, np.arange(N)), np.ones(N))  # noqa: E731
    jacobian = acc.compile(f, cache=False, check=False)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        jacobian(np.ones(N))
    tape = record(f, [np.ones(N)], arrays=True).program
    assert np.isnan(evaluate(tape, np.ones(N))).all()
    _, bounds = evaluate_with_bounds(tape, [np.ones(1)] * N)
    assert np.isinf(bounds).all()


def test_a_matrix_that_is_not_definite_is_numpys_error_or_no_number(as_equations):
    as_equations(True)
    f = lambda x: np.linalg.cholesky(np.outer(x, x) - 2.0 * np.eye(N))  # noqa: E731
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        acc.compile(f, cache=False, check=False)(np.ones(N))
    for target in ("numpy", "c"):
        assert np.isnan(acc.compile(f, target=target, cache=False, check=False)(np.ones(N))).any()
    tape = record(f, [np.ones(N)], arrays=True).program
    assert np.isnan(evaluate(tape, np.ones(N))[0])
    assert np.isinf(evaluate_with_bounds(tape, [np.ones(1)] * N)[1][0])


@pytest.mark.parametrize("turn", [np.asarray, np.transpose])
def test_long_triangular_systems(turn):
    n = 80
    lower = np.tril(np.random.default_rng(1).normal(size=(n, n))) + 9.0 * np.eye(n)

    def f(x):
        return np.linalg.solve(turn(lower * x[0]), x[1] * np.arange(n))

    value, jacobian = acc.value_and_jacobian(f, cache=False)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(jacobian[:, :2], np.stack([-f(X) / X[0], f(X) / X[1]], axis=1), rtol=1e-12, atol=1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        acc.compile(f, cache=False, check=False)(0.0 * X)


def test_long_factors():
    n, rng = 80, np.random.default_rng(1)
    matrix, y = np.cov(rng.normal(size=(n, 4 * n))), rng.normal(size=n)

    def likelihood(p):
        factor = np.linalg.cholesky(p[0] * matrix + p[1] * np.eye(n))
        return 0.5 * y @ scipy.linalg.cho_solve((factor, True), y) + np.sum(np.log(np.diag(factor)))

    gradient = acc.gradient(likelihood, cache=False)
    p = np.array([0.7, 0.4])
    inverse = np.linalg.inv(p[0] * matrix + p[1] * np.eye(n))
    solved = inverse @ y
    expected = [0.5 * (np.sum(inverse * by) - solved @ by @ solved) for by in (matrix, np.eye(n))]
    np.testing.assert_allclose(gradient(p), expected, rtol=1e-11)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        gradient(np.array([0.1, -1.0]))
    code = gradient.compile(p).code
    nests = [nest for nest in nests_of(code.tape, code.maps) if nest.shape == (n, n, n)]
    # products by the factor are one, and the factor with its zeros is read where it is
    assert [nest.code for nest in nests] == [CHOLESKY, MATMUL, SOLVE, SOLVE]
    for nest in nests[1:]:
        factor = references_in(nest.loads[0]).reshape(n, n)
        assert np.ptp(np.diff(factor, axis=0)) == np.ptp(np.diff(factor, axis=1)) == 0


def test_determinants_of_singular_matrices(as_equations):
    as_equations(True)
    f = lambda x: np.stack(np.linalg.slogdet(np.outer(x, np.arange(N))))  # noqa: E731
    for target in ("llvm", "numpy", "c"):
        assert acc.compile(f, target=target, cache=False, check=False)(np.ones(N)).tolist() == [0.0, -np.inf]


# Stacks of small ones ------------------------------------------------------------------------------------------------

#: By name, functions of a stack of matrices and of right-hand sides.
OF_STACKS = {
    "determinants": lambda a, b: np.linalg.det(a) + np.sum(b),
    "logarithms": lambda a, b: np.stack(np.linalg.slogdet(a)) * b[0, 0, 0],
    "solutions": np.linalg.solve,
    "solutions of one matrix": lambda a, b: np.linalg.solve(a[0], b),
    "inverses": lambda a, b: np.linalg.inv(a) * b[:, :, :1],
    "of triangular ones": lambda a, b: np.linalg.solve(np.tril(a), b) + np.linalg.det(np.triu(a))[:, None, None],
}


@pytest.mark.sampled(4, each="function")
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("function", OF_STACKS.values(), ids=OF_STACKS)
def test_stacks_are_loops(function, n):
    generator = np.random.default_rng(n)
    a, b = generator.normal(size=(3, n, n)) + 3.0 * np.eye(n), generator.normal(size=(3, n, 2))

    def f(x):
        return function(a * x[0] + x[1] * np.eye(n), b * x[2])

    with unrolled(0):
        assert not record(f, [X], arrays=True).program.is_straight
        actual = acc.value_and_jacobian(f, **QUICK)(X)
        product = acc.hvp(lambda x: np.sum(f(x) ** 2), **QUICK)((X,), (X[::-1],))
    expected = acc.value_and_jacobian(f, **PLAIN)(X)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    reference = acc.hvp(lambda x: np.sum(f(x) ** 2), **PLAIN)((X,), (X[::-1],))
    np.testing.assert_allclose(product, reference, rtol=1e-9, atol=1e-9)


def test_many_matrices_are_few_blocks():
    """Ten thousand determinants, as of elements of a mesh."""
    a = np.random.default_rng(0).normal(size=(10_000, 3, 3))
    f = lambda x: np.sum(np.linalg.det(a * x[0] + np.eye(3)) * x[1])  # noqa: E731
    gradient = acc.gradient(f, cache=False)
    step = 1e-6
    differences = [(f(X[:2] + e) - f(X[:2] - e)) / (2 * step) for e in step * np.eye(2)]
    np.testing.assert_allclose(gradient(X[:2]), differences, rtol=1e-6)
    assert len(record(f, [X[:2]], arrays=True).program.blocks) < 60


@pytest.mark.parametrize(
    "function",
    [
        lambda a: np.linalg.det(a[:0]),
        lambda a: np.linalg.slogdet(a[:0])[1],
        lambda a: np.linalg.slogdet(a[:, :0, :0])[1],
        lambda a: np.linalg.solve(a[:0], np.ones((3, 2))),
        lambda a: np.linalg.solve(a, np.ones((70, 3, 0))),
        lambda a: np.linalg.inv(a[:, :0, :0]),
    ],
)
def test_stacks_of_nothing(function):
    a = np.broadcast_to(np.eye(3), (70, 3, 3))
    result = acc.compile(lambda x: function(a * x[0]), cache=False)(np.ones(1))
    np.testing.assert_array_equal(result, function(a))
