"""`acc.casadi.external`: compiled functions in CasADi, against the same written with CasADi's own operations."""

from __future__ import annotations

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError

ca = pytest.importorskip("casadi")


def rates(x, k):
    return np.array([x[0] * x[1] - k * x[2], np.sin(x[2]) + x[0] ** 2])


def rates_of_casadi(x, k):
    return ca.vertcat(x[0] * x[1] - k * x[2], ca.sin(x[2]) + x[0] ** 2)


X = np.array([0.5, 1.5, -0.3])


def test_values_jacobians_and_patterns():
    f = acc.casadi.external(rates, np.zeros(3), 1.0, name="rates")
    assert (f.name(), f.n_in(), f.n_out(), f.size_in(0), f.size_in(1), f.size_out(0)) == (
        "rates",
        2,
        1,
        (3, 1),
        (1, 1),
        (2, 1),
    )
    np.testing.assert_allclose(np.array(f(X, 2.0))[:, 0], rates(X, 2.0))
    x, k = ca.MX.sym("x", 3), ca.MX.sym("k")
    ours = ca.Function("J", [x, k], [ca.jacobian(f(x, k), x), ca.jacobian(f(x, k), k)])
    theirs = ca.Function("J", [x, k], [ca.jacobian(rates_of_casadi(x, k), x), ca.jacobian(rates_of_casadi(x, k), k)])
    for mine, other in zip(ours(X, 2.0), theirs(X, 2.0), strict=True):
        assert mine.nnz() == other.nnz()
        np.testing.assert_allclose(np.array(mine), np.array(other), rtol=1e-14)
    np.testing.assert_array_equal(np.array(ours(2 * X, 2.0)[0]), np.array(theirs(2 * X, 2.0)[0]))


def test_products_with_the_jacobian():
    f = acc.casadi.external(rates, np.zeros(3), 1.0)
    x, v, w = ca.MX.sym("x", 3), ca.MX.sym("v", 3), ca.MX.sym("w", 2)
    for product, other in (
        (ca.jtimes(f(x, 2.0), x, v), ca.jtimes(rates_of_casadi(x, 2.0), x, v)),
        (ca.jtimes(f(x, 2.0), x, w, True), ca.jtimes(rates_of_casadi(x, 2.0), x, w, True)),
    ):
        actual, expected = (ca.Function("p", [x, v, w], [p])(X, [1, 2, 3], [4, 5]) for p in (product, other))
        np.testing.assert_allclose(np.array(actual), np.array(expected), rtol=1e-14)


def test_matrices_and_several_results():
    def f(A, x):
        return {"product": A @ x, "scaled": A * x, "norm": np.sum(x**2)}

    A, x = np.arange(6.0).reshape(2, 3) + 1.0, np.array([1.0, -2.0, 3.0])
    g = acc.casadi.external(f, A, x)
    a, b = ca.MX.sym("a", 2, 3), ca.MX.sym("b", 3)
    same = [ca.mtimes(a, b), a * ca.repmat(b.T, 2, 1), ca.dot(b, b)]
    for mine, other in zip(g(a, b), same, strict=True):
        ours, theirs = (
            ca.Function("J", [a, b], [result, ca.jacobian(result, a), ca.jacobian(result, b)])(A, x)
            for result in (mine, other)
        )
        for one, two in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(np.array(one), np.array(two), rtol=1e-14)
            assert one.sparsity() == two.sparsity()


def test_a_function_of_casadi_goes_in_and_comes_back():
    x = ca.SX.sym("x", 4)
    f = ca.Function("chain", [x], [ca.sin(x[1:]) * x[:-1]])
    back = acc.casadi.external(f, np.zeros(4))
    at = np.linspace(0.1, 1.0, 4)
    assert back.name() == "chain"
    y = ca.MX.sym("y", 4)
    result = ca.Function("J", [y], [ca.jacobian(back(y), y)])(at)
    np.testing.assert_allclose(
        np.array(result), np.array(ca.Function("J", [x], [ca.jacobian(f(x), x)])(at)), rtol=1e-15
    )
    assert result.nnz() == 6


def several(x, k):
    return {"a": np.array([x[0] * x[1] - k * x[2] ** 2, np.sin(x[2] * k) + x[0] ** 2]), "b": x[0] * k}


def several_of_casadi(x, k):
    return ca.vertcat(x[0] * x[1] - k * x[2] ** 2, ca.sin(x[2] * k) + x[0] ** 2), x[0] * k


def squares(A, x):
    return A @ x * x, A * A[0, 1]


def squares_of_casadi(A, x):
    return ca.mtimes(A, x) * x, A * A[0, 1]


def of_symbols(f, first, second):
    """Return the function of CasADi's symbols."""
    a, b = ca.SX.sym("a", *first), ca.SX.sym("b", *second)
    return ca.Function("symbols", [a, b], list(f(a, b)))


@pytest.mark.parametrize(
    ("ours", "theirs", "shapes"),
    [
        (several, several_of_casadi, ((3,), ())),
        (squares, squares_of_casadi, ((2, 2), (2,))),
        (of_symbols(several_of_casadi, (3,), ()), several_of_casadi, ((3,), ())),
    ],
)
def test_second_derivatives(ours, theirs, shapes):
    f = acc.casadi.external(ours, *map(np.zeros, shapes))
    x, k = (ca.MX.sym(name, *shape) for name, shape in zip("xk", shapes, strict=True))
    v = ca.MX.sym("v", x.numel())
    weights = [ca.MX.sym(f"w{j}", f.sparsity_out(j)) for j in range(f.n_out())]

    def derivatives(f):
        # between other operations, so that CasADi's chain rule is taken as well
        results = f(2.0 * x, ca.cos(k))
        value = sum(ca.dot(w, ca.sin(r) + r) for w, r in zip(weights, results, strict=True))
        slope = ca.vec(ca.gradient(value, x))
        actual = [slope, ca.hessian(value, ca.vertcat(ca.vec(x), ca.vec(k)))[0]]
        actual += [ca.jacobian(slope, each) for each in (x, k, *weights)]
        actual += [ca.jtimes(slope, x, ca.reshape(v, x.shape)), ca.jtimes(slope, x, v, True)]
        third = ca.vec(ca.jtimes(ca.dot(slope, v), x, ca.DM.ones(1), True))
        actual.append(ca.jtimes(third, x, v, True))
        return ca.Function("derivatives", [x, k, v, *weights], actual)

    one, other = derivatives(f), derivatives(theirs)
    rng = np.random.default_rng(0)
    for _ in range(3):
        point = [rng.normal(size=one.size_in(j)) for j in range(one.n_in())]
        for mine, expected in zip(one(*point), other(*point), strict=True):
            assert mine.sparsity() == expected.sparsity()
            np.testing.assert_allclose(np.array(mine), np.array(expected), rtol=1e-11, atol=1e-11)


def test_other_cases_have_derivatives_where_casadi_expects_them_or_none():
    def branch(x):
        k = int(x[0])
        return x[1] * x[2] if k < 2 else x[k - 1] ** 2

    f = acc.casadi.external(branch, np.ones(4))
    x = ca.MX.sym("x", 4)
    slope = ca.Function("J", [x], [ca.jacobian(f(x), x)])
    np.testing.assert_array_equal(np.array(slope([1, 3, 4, 5])), [[0.0, 4.0, 3.0, 0.0]])
    np.testing.assert_array_equal(np.array(slope([2, 3, 4, 5])), [[0.0, 6.0, 0.0, 0.0]])
    assert float(f([4, 3, 4, 5])) == 25.0
    with pytest.raises(RuntimeError, match="pass an example at such a point"):
        slope([4, 3, 4, 5])
    np.testing.assert_array_equal(np.array(slope([1, 2, 4, 5])), [[0.0, 4.0, 2.0, 0.0]])


def test_optimisation_by_ipopt():
    n = 8

    def objective(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    def constraints(x):
        return x[:-1] * x[1:] + np.sin(x[1:])

    f = acc.casadi.external(objective, np.zeros(n))
    g = acc.casadi.external(constraints, np.zeros(n))
    x = ca.MX.sym("x", n)
    quiet = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes", "ipopt.tol": 1e-10}
    limited = {**quiet, "ipopt.hessian_approximation": "limited-memory"}
    bounds = {"x0": np.full(n, 0.5), "lbg": 0.5, "ubg": 1.2}
    same = {
        "x": x,
        "f": ca.sum1(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
        "g": x[:-1] * x[1:] + ca.sin(x[1:]),
    }
    reference = ca.nlpsol("theirs", "ipopt", same, quiet)
    theirs = reference(**bounds)
    for options in (limited, quiet):
        solver = ca.nlpsol("ours", "ipopt", {"x": x, "f": f(x), "g": g(x)}, options)
        ours = solver(**bounds)
        assert solver.stats()["success"]
        np.testing.assert_allclose(np.array(ours["x"]), np.array(theirs["x"]), rtol=1e-6)
        np.testing.assert_allclose(float(ours["f"]), float(theirs["f"]), rtol=1e-8)
    assert solver.stats()["iter_count"] == reference.stats()["iter_count"]


def test_arrays_of_three_axes_are_refused():
    with pytest.raises(ArgumentError, match="two axes at most"):
        acc.casadi.external(lambda x: np.multiply.outer(x, x)[None], np.zeros(2))
