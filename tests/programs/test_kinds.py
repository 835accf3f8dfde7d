"""Every kind of derivative, against JAX."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inside import flatten

import accumulus as acc
import accumulus.sympy
from accumulus.errors import ArgumentError, SizeError
from accumulus.programs import lowering

QUICK = {"effort": "fast", "time_limit": 0.0}


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    with jax.enable_x64(True):
        yield


def swirl(x, scale):
    return {"a": x[0] * np.sin(x[1]) * scale, "b": np.array([x[2] / x[0], np.exp(x[0] * x[1])])}


def by_jax(x, scale):
    return {"a": x[0] * jnp.sin(x[1]) * scale, "b": jnp.array([x[2] / x[0], jnp.exp(x[0] * x[1])])}


POINT = np.array([0.7, -0.4, 1.9])


def agree(ours, theirs, tolerance=1e-12):
    """Return True if two results have the same structure and numbers."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), ours, theirs)


def collatz(x):
    """A function that decides on values."""
    steps = 0
    while x > 1.0:
        x = x / 2.0
        steps += 1
    return x * steps


class TestCompiled:
    def test_results_are_those_of_the_function(self):
        agree(acc.compile(swirl, **QUICK)(POINT, 2.0), by_jax(POINT, 2.0))

    def test_batches_with_axes_and_out(self):
        compiled = acc.compile(swirl, **QUICK)
        X = np.stack([POINT, 2.0 * POINT], axis=1)
        expected = jax.vmap(by_jax, in_axes=(1, None))(X, 2.0)
        agree(compiled.batch(X, 2.0, in_axes=(1, None)), expected)
        out = {"a": np.empty(2), "b": np.empty((2, 2))}
        compiled.batch(X, 2.0, in_axes=(1, None), out=out)
        agree(out, expected)

    def test_decisions_are_cases(self):
        compiled = acc.compile(collatz, **QUICK)
        points = np.array([5.0, 3.0, 40.0, 0.5])
        assert compiled.batch(points).tolist() == [collatz(x) for x in points]
        assert len(compiled.report().cases) == 4

    def test_long_arrays_are_loops(self):
        def f(x):
            return np.roll(x, 1) * x + np.sin(x) ** 2

        compiled, x = acc.compile(f, **QUICK), np.linspace(0.0, 3.0, 30_000)
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-14)
        assert "Value of f" in str(compiled.report())

    def test_the_report_tells_of_no_plan(self):
        compiled = acc.compile(swirl, **QUICK)
        compiled(POINT, 2.0)
        page = str(compiled.report())
        assert "Value of swirl" in page
        assert "markowitz" not in page
        assert compiled.operations == sum(compiled.report().by_kind.values())

    def test_sparse_is_refused(self):
        with pytest.raises(ArgumentError, match="whose results are arrays"):
            acc.compile(swirl, sparse=True)

    def test_exact_order_is_bit_for_bit(self):
        def f(x):
            return (x[0] + x[1]) + x[2] * x[0] + x[2] * x[1]

        assert acc.compile(f, exact_order=True)(POINT) == f(POINT)


def test_value_and_gradient():
    def f(x, y):
        return np.sum(x**3) * y

    agree(
        acc.value_and_gradient(f, (0, 1), **QUICK)(POINT, 2.0),
        jax.jit(jax.value_and_grad(f, (0, 1)))(jnp.array(POINT), 2.0),
    )
    with pytest.raises(ArgumentError, match="value_and_gradient needs a function that returns one number"):
        acc.value_and_gradient(swirl)(POINT, 2.0)


def curved(library):
    return lambda x, p: library.sum(library.sin(x) * x**2) * p["k"] + x[0] * x[1] ** 3 * p["m"][0]


ARGUMENTS = (POINT, {"k": 2.0, "m": np.array([1.5, 3.0])})
DIRECTIONS = (np.array([1.0, 2.0, 3.0]), {"k": 1.0, "m": np.array([0.5, 0.1])})


class TestJvp:
    def test_as_jax_has_it(self):
        expected = jax.jit(lambda x, t: jax.jvp(by_jax, (x, 2.0), (t, 0.5)))(POINT, DIRECTIONS[0])
        pushed = acc.jvp(swirl, **QUICK)
        agree(pushed((POINT, 2.0), (DIRECTIONS[0], 0.5)), expected)
        agree(pushed(primals=(POINT, 2.0), tangents=(DIRECTIONS[0], 0.5)), expected)

    def test_none_several_and_batches(self):
        pushed = acc.jvp(swirl, **QUICK)
        expected = acc.jacobian(swirl, **QUICK)(POINT, 2.0)
        actual = pushed((POINT, 2.0), (np.eye(3), None))[1]
        agree(actual, {"a": expected["a"], "b": expected["b"].T})
        X = np.stack([POINT, 2.0 * POINT, 3.0 * POINT], axis=1)
        actual = pushed.batch((X, 2.0), (POINT, None), in_axes=((1, None), (None, None)))
        for k in range(3):
            agree(jax.tree.map(lambda a, k=k: a[k], actual), pushed((X[:, k], 2.0), (POINT, None)))
        out = [np.empty_like(leaf) for leaf in jax.tree.leaves(actual)]
        pushed.batch((X, 2.0), (POINT, None), in_axes=((1, None), (None, None)), out=out)
        agree(out, jax.tree.leaves(actual))

    def test_the_jacobian_is_not_formed(self):
        def chain(x):
            for _ in range(5):
                x = np.sin(x) * np.roll(x, 1) + np.sum(x)
            return x

        x = np.linspace(0.1, 1.0, 8)
        program = acc.jvp(chain, **QUICK).compile((x,), (x,))
        assert program.operations < acc.jacobian(chain, **QUICK).compile(x).operations / 3
        assert program.facts.linearization.graph.terminals == (0,)

    @pytest.mark.parametrize(
        ("tangents", "message"),
        [
            ((POINT[:2], None), r"has shape \(2,\), and its primal shape \(3,\)"),
            ((np.ones((0, 3)), None), "no directions"),
            ((None, None), "all tangents of jvp"),
            (POINT, "expected the same structure"),
            (({"a": POINT}, None), "expected the same structure"),
            ((np.ones((2, 3)), 1.0), "first axes of different lengths"),
        ],
    )
    def test_wrong_tangents(self, tangents, message):
        with pytest.raises(ArgumentError, match=message):
            acc.jvp(swirl, **QUICK)((POINT, 2.0), tangents)

    def test_wrong_calls(self):
        with pytest.raises(ArgumentError, match="expected a tuple of all arguments"):
            acc.jvp(np.sin)(POINT, POINT)
        with pytest.raises(ArgumentError, match="expected primals and tangents"):
            acc.jvp(np.sin)((POINT,))
        with pytest.raises(ArgumentError, match=r"primals of .* hold no numbers"):
            acc.vjp(swirl)(("a",), 1.0)
        with pytest.raises(ArgumentError, match="sparse is 'csr' for hvp"):
            acc.hvp(np.sin, sparse="csr")


class TestVjp:
    def test_as_jax_has_it(self):
        weights = {"a": 2.0, "b": np.array([1.0, -1.0])}
        expected = jax.jit(lambda x, s, w: jax.vjp(by_jax, x, s)[1](w))(POINT, 2.0, weights)
        value, actual = acc.vjp(swirl, **QUICK)((POINT, 2.0), weights)
        agree(value, by_jax(POINT, 2.0))
        agree(actual, expected)
        several = jax.tree.map(lambda w: np.stack([w, 2.0 * w]), weights)
        agree(acc.vjp(swirl, **QUICK)((POINT, 2.0), several)[1][0], np.stack([expected[0], 2.0 * expected[0]]))

    def test_equal_results_and_constants(self):
        _, (by_x, by_name) = acc.vjp(lambda x, name: (x, x, 1.0), **QUICK)((3.0, "name"), (2.0, 5.0, 7.0))
        assert (by_x, by_name) == (7.0, None)

    def test_tuples_stand_for_lists(self):
        pulled, x = acc.vjp(lambda x: [x[0] * x[1], {"a": [x, x[0]]}], **QUICK), np.array([2.0, 3.0])
        _, (product,) = pulled((x,), (1.0, {"a": (x, 2.0)}))
        np.testing.assert_array_equal(product, [7.0, 5.0])

    def test_wrong_cotangents(self):
        with pytest.raises(ArgumentError, match="expected the structure of what it returns"):
            acc.vjp(swirl, **QUICK)((POINT, 2.0), (1.0, POINT))
        with pytest.raises(ArgumentError, match="and its result shape"):
            acc.vjp(swirl, **QUICK)((POINT, 2.0), {"a": 1.0, "b": POINT})


class TestSecondDerivatives:
    def test_hvp(self):
        f = curved(jnp)
        expected = jax.jit(lambda a, t: jax.jvp(jax.grad(f, (0, 1)), a, t)[1])(ARGUMENTS, DIRECTIONS)
        agree(acc.hvp(curved(np), **QUICK)(ARGUMENTS, DIRECTIONS), expected)
        by_one = acc.hvp(curved(np), **QUICK)(ARGUMENTS, (DIRECTIONS[0], None))
        assert by_one[1] is None
        agree(by_one[0], acc.hessian(curved(np), **QUICK)(*ARGUMENTS) @ DIRECTIONS[0])

    def test_of_two_graphs_the_shorter_product_with_a_hessian_is_taken(self, monkeypatch):
        def f(x, numpy=np):
            matrix = 5.0 * numpy.eye(4) + numpy.outer(x, numpy.sin(x))
            return numpy.where(x[0] > 0.0, x[1], 2.0) * numpy.sum(numpy.linalg.solve(matrix, x) ** 2)

        x, v = np.array([0.3, -1.2, 0.8, 2.1]), np.array([1.0, 0.5, -2.0, 0.3])
        expected = jax.jit(jax.hessian(lambda x: f(x, jnp)))(x) @ v
        operations = []
        for use in (lowering._with_mirror, lambda *args: None):
            monkeypatch.setattr(lowering, "_with_mirror", use)
            product = acc.hvp(f, **QUICK, cache=False)
            agree(product((x,), (v,))[0], expected, 1e-11)
            agree(product((x,), (np.stack([v, 2.0 * v]),))[0], np.stack([expected, 2.0 * expected]), 1e-11)
            operations.append(product.compile((x,), (v,)).operations)
        assert operations[0] < operations[1]

    def test_hessians(self):
        expected = jax.jit(jax.hessian(curved(jnp), (0, 1)))(*ARGUMENTS)
        agree(acc.hessian(curved(np), (0, 1), **QUICK)(*ARGUMENTS), expected)
        derivative = acc.value_gradient_hessian(curved(np), **QUICK)
        value, gradient, hessian = derivative(*ARGUMENTS)
        assert value == pytest.approx(curved(np)(*ARGUMENTS))
        agree(gradient, acc.gradient(curved(np), **QUICK)(*ARGUMENTS))
        agree(hessian, expected[0][0])
        assert "Value, gradient and Hessian of" in str(derivative.report())
        X = np.stack([POINT, 2.0 * POINT])
        for k, each in enumerate(derivative.batch(X, ARGUMENTS[1], in_axes=(0, None))[2]):
            agree(each, derivative(X[k], ARGUMENTS[1])[2])

    def test_sparse_and_one_triangle(self):
        def f(x):
            return np.sum(x[1:] ** 3 * np.sin(x[:-1]))

        x = np.linspace(0.1, 1.0, 12)
        dense, sparse = acc.hessian(f, **QUICK), acc.hessian(f, sparse="csr", **QUICK)
        agree(sparse(x).toarray(), dense(x))
        np.testing.assert_array_equal(dense(x), dense(x).T)
        assert sparse(x).nnz == 3 * 12 - 2
        # one output for both places of a pair
        assert len(dense.compile(x).tape.outputs) == 2 * 12 - 1
        full = acc.jacobian(acc.gradient(f, **QUICK), **QUICK)
        assert dense.operations <= full.compile(x).operations

    def test_lagrangian(self):
        def constraints(x, p):
            return np.array([x[0] * x[1], x[2] ** 3 * p["k"]])

        curvature = acc.hessian_of_lagrangian(curved(np), constraints, **QUICK)
        x, p = ARGUMENTS
        result = curvature(x, 2.0, np.array([1.0, 3.0]), p)
        by_g = np.zeros((3, 3))
        by_g[0, 1] = by_g[1, 0] = 1.0
        by_g[2, 2] = 18.0 * x[2] * p["k"]
        agree(result, 2.0 * acc.hessian(curved(np), **QUICK)(x, p) + by_g)
        with pytest.raises(ArgumentError, match="expected one multiplier for each constraint"):
            curvature(x, 2.0, 1.0, p)

    def test_more_than_one_number(self):
        with pytest.raises(ArgumentError, match="weight its entries, by hessian_of_lagrangian"):
            acc.hessian(np.sin)(POINT)

    def test_products_within_products(self):
        third = acc.jacobian(lambda x: acc.jvp(acc.gradient(travelling))((x,), (x,))[1], **QUICK)
        agree(third(POINT), np.diag(12.0 * POINT))
        by_primals = acc.jacobian(acc.hvp(travelling), argnames="primals", **QUICK)
        agree(by_primals((POINT,), (POINT,))[0][0], np.diag(6.0 * POINT))
        close_to_third = acc.jacobian(acc.hessian(travelling), **QUICK)(POINT)
        agree(close_to_third, 6.0 * np.eye(3)[:, :, np.newaxis] * np.eye(3))
        value, _, hessian = acc.compile(acc.value_gradient_hessian(travelling), **QUICK)(POINT)
        agree(hessian, np.diag(6.0 * POINT))
        assert value == pytest.approx(travelling(POINT))

    def test_derivatives_travel(self, tmp_path):
        x = ARGUMENTS[0]
        for derivative, arguments in (
            (acc.jvp(swirl, **QUICK), ((x, 2.0), (x, None))),
            (acc.vjp(travelling, **QUICK), ((x,), 2.0)),
            (acc.value_gradient_hessian(travelling, **QUICK), (x,)),
            (acc.hvp(travelling, **QUICK), ((x,), (x,))),
            (acc.hessian(travelling, **QUICK), (x,)),
        ):
            expected = derivative(*arguments)
            agree(pickle.loads(pickle.dumps(derivative))(*arguments), expected)
            acc.save(derivative, tmp_path / "saved")
            agree(acc.load(tmp_path / "saved")(*arguments), expected)


class TestDecisions:
    """A program for each case, whatever the kind."""

    POINTS = np.array([[0.5, 0.7, 1.0], [1.5, 0.7, 1.0], [2.2, 0.3, 1.0], [2.4, 0.3, 2.0]])

    @staticmethod
    def f(x):
        y, steps = x[0], 1.0
        while y > 1.0:
            y, steps = y * y / 2.5, steps + 1.0
        return y**3 * steps * x[1] + (x[1] ** 2 * x[2] if steps > 2.0 else 0.0)

    @staticmethod
    def of_case(x):
        """Return the same by JAX, for the number of steps at this point."""
        y, steps = float(x[0]), 1
        while y > 1.0:
            y, steps = y * y / 2.5, steps + 1

        def f(x):
            y = x[0]
            for _ in range(steps - 1):
                y = y * y / 2.5
            return y**3 * steps * x[1] + (x[1] ** 2 * x[2] if steps > 2 else 0.0)

        return f

    def test_every_kind(self):
        v = np.array([1.0, 2.0, 3.0])
        by_jax = [jax.jit(jax.value_and_grad(self.of_case(x)))(x) for x in self.POINTS]
        values, gradients = (np.array(array) for array in zip(*by_jax, strict=True))
        hessians = np.array([jax.jit(jax.hessian(self.of_case(x)))(x) for x in self.POINTS])
        agree(acc.hessian(self.f, **QUICK).batch(self.POINTS), hessians)
        agree(acc.hessian(self.f, sparse="csr", **QUICK).batch(self.POINTS)[3].toarray(), hessians[3])
        agree(acc.value_gradient_hessian(self.f, **QUICK).batch(self.POINTS), (values, gradients, hessians))
        axes = {"in_axes": ((0,), (None,))}
        agree(acc.hvp(self.f, **QUICK).batch((self.POINTS,), (v,), **axes)[0], hessians @ v)
        agree(acc.jvp(self.f, **QUICK).batch((self.POINTS,), (v,), **axes), (values, gradients @ v))
        back = acc.vjp(self.f, **QUICK)
        agree(back.batch((self.POINTS,), 2.0, in_axes=((0,), None)), (values, (2.0 * gradients,)))
        assert len(back.report().cases) == 4


@pytest.mark.parametrize("options", [{"dtype": "float32"}, {"exact_order": True}, {"target": "numpy"}], ids=str)
def test_options(options):
    def f(x):
        return np.sum(np.sin(x) * np.roll(x, 1) ** 2)

    expected = acc.hessian(f, **QUICK)(POINT)
    tolerance = 1e-5 if "dtype" in options else 1e-12
    x = POINT.astype(options.get("dtype", "float64"))
    agree(acc.hessian(f, **QUICK, **options)(x), expected, tolerance)
    agree(acc.hvp(f, **QUICK, **options)((x,), (x,))[0], expected @ POINT, tolerance)


def test_functions_without_derivatives():
    zeros = np.zeros((3, 3))
    agree(acc.hessian(lambda x: 3.0 * x[0], **QUICK)(POINT), zeros)
    agree(acc.hessian(lambda x: 2.0, **QUICK)(POINT), zeros)
    agree(acc.hvp(lambda x: 3.0 * x[0], **QUICK)((POINT,), (POINT,)), (np.zeros(3),))
    agree(acc.jvp(lambda x: 3.0, **QUICK)((POINT,), (POINT,)), (3.0, 0.0))
    agree(acc.vjp(lambda x: x, **QUICK)((POINT,), POINT), (POINT, (POINT,)))


def test_results_that_do_not_fit_raise_before_computing():
    with pytest.raises(SizeError, match=r"the Hessian of .* 2,000,000 × 2,000,000 entries"):
        acc.hessian(lambda x: np.sum(x**3), check=False)(np.ones(2_000_000))


LENGTH = 6000


def neighbours(x, k):
    return np.sum(k * x[1:] ** 2 * x[:-1] + np.sin(x[1:] * x[:-1]))


def rolled(x, k):
    return {"a": np.roll(x, 1) * x * k + np.sin(x) + np.cos(x), "s": np.sum(x**3)}


@pytest.fixture(scope="module")
def x():
    return np.linspace(0.1, 1.0, LENGTH)


@pytest.fixture(scope="module")
def hessian(x):
    derivative = acc.hessian(neighbours, sparse="csr", **QUICK)
    result = derivative(x, 2.0)
    assert "as operations on arrays" in str(derivative.report())
    by_hand = 4.0 * x[1:] + np.cos(x[1:] * x[:-1]) - x[1:] * x[:-1] * np.sin(x[1:] * x[:-1])
    np.testing.assert_allclose(result.diagonal(1), by_hand, rtol=1e-12)
    np.testing.assert_allclose(result.diagonal(1), result.diagonal(-1), rtol=1e-14)
    return result


class TestLongArrays:
    """Loops over arrays, for all kinds."""

    def test_hessian_and_gradient(self, x, hessian):
        value, gradient, actual = acc.value_gradient_hessian(neighbours, sparse="csr", **QUICK)(x, 2.0)
        assert value == pytest.approx(neighbours(x, 2.0), rel=1e-12)
        agree(gradient, acc.gradient(neighbours, **QUICK)(x, 2.0))
        assert abs(actual - hessian).max() < 1e-12

    def test_hvp(self, x, hessian):
        v = np.cos(np.arange(LENGTH))
        product = acc.hvp(neighbours, **QUICK)
        agree(product((x, 2.0), (v, None))[0], hessian @ v)
        agree(product((x, 2.0), (np.stack([v, x]), None))[0], np.stack([hessian @ v, hessian @ x]))
        assert "as operations on arrays" in str(product.report())

    def test_jvp_and_vjp(self, x):
        v = np.cos(np.arange(LENGTH))
        slope = np.cos(x) - np.sin(x)
        expected = {"a": 2.0 * (np.roll(x, 1) * v + np.roll(v, 1) * x) + slope * v, "s": np.sum(3.0 * x**2 * v)}
        pushed = acc.jvp(rolled, **QUICK)
        agree(pushed((x, 2.0), (v, None))[1], expected)
        agree(pushed((x, 2.0), (np.stack([v, 2.0 * v]), None))[1]["a"][1], 2.0 * expected["a"])
        back = acc.vjp(rolled, **QUICK)
        value, (by_x, by_k) = back((x, 2.0), {"a": v, "s": 2.0})
        agree(value, rolled(x, 2.0))
        agree(by_x, 2.0 * (np.roll(x, 1) * v + np.roll(x * v, -1)) + slope * v + 6.0 * x**2)
        assert by_k == pytest.approx(np.sum(np.roll(x, 1) * x * v), rel=1e-10)
        for derivative in (pushed, back):
            assert "as operations on arrays" in str(derivative.report())


def travelling(x):
    return np.sum(x**3)


def model_of(library):
    """Return sin(x)·Σy² written with a library whose functions are written down, not called."""
    if library == "casadi":
        ca = pytest.importorskip("casadi")
        x, y = ca.SX.sym("x"), ca.SX.sym("y", 3)
        return ca.Function("f", [x, y], [ca.sin(x) * ca.sumsqr(y)])
    sympy = pytest.importorskip("sympy")
    x, y = sympy.Symbol("x"), sympy.symbols("y:3")
    return accumulus.sympy.Model([x, y], sympy.sin(x) * sum(each**2 for each in y))


@pytest.mark.parametrize("library", ["casadi", "sympy"])
@pytest.mark.parametrize("kind", ["jvp", "vjp", "hvp", "taylor"])
def test_products_and_series_of_models_are_those_of_functions(kind, library):
    primals = (0.5, np.array([1.0, -2.0, 0.5]))
    seeds = {
        "vjp": 2.0,
        "taylor": (np.array([1.0, -0.5]), np.array([[0.1, 0.2, 0.3], [1.0, 0.0, -1.0]])),
    }.get(kind, (0.3, np.array([1.0, 2.0, -1.0])))
    expected = getattr(acc, kind)(lambda x, y: np.sin(x) * np.sum(y**2))(primals, seeds)
    derivative = getattr(acc, kind)(model_of(library))
    actual = derivative(primals, seeds)
    assert flatten(actual)[0] == flatten(expected)[0]
    for (_, one), (_, other) in zip(flatten(actual)[1], flatten(expected)[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
