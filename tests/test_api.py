"""Public functions: shapes and structures of results, laziness, batches, options, and errors for bad input."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pytest
from references import complex_step

import accumulus as acc
from accumulus.errors import ArgumentError, TraceError, UnknownNameError


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def swirl(x):
    return np.array([x[0] * np.sin(x[1]), x[1] / x[0], np.exp(x[0] * x[1])])


def mixed(x, y, scale):
    return {"product": np.outer(x, y) * scale, "pair": (x @ x, [y * scale])}


POINT = np.array([0.7, -1.3])


@pytest.mark.parametrize("target", ["llvm", "numpy"])
def test_jacobian_is_the_complex_step_s(target):
    np.testing.assert_allclose(acc.jacobian(swirl, target=target)(POINT), complex_step(swirl, POINT), rtol=1e-14)


def test_value_comes_with_the_jacobian():
    value, slopes = acc.value_and_jacobian(swirl)(POINT)
    np.testing.assert_allclose(value, swirl(POINT), rtol=1e-15)
    np.testing.assert_allclose(slopes, complex_step(swirl, POINT), rtol=1e-14)


def test_gradient_has_the_shape_of_its_argument():
    x = np.linspace(0.5, 1.5, 6)
    np.testing.assert_allclose(acc.gradient(rosenbrock)(x), complex_step(rosenbrock, x), rtol=1e-13)
    matrix = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(acc.gradient(lambda a: np.sum(a * a))(matrix), 2 * matrix)


def test_numbers_in_numbers_out():
    slope = acc.jacobian(lambda x: x**3)(2.0)
    assert np.shape(slope) == ()
    assert float(slope) == 12.0
    assert float(acc.jacobian(lambda x: x**3)(2)) == 12.0


def test_structure_and_shapes_follow_jax():
    arguments = (np.ones(3), np.arange(2.0), 2.0)
    one = acc.jacobian(mixed, argnums=1)(*arguments)
    assert one["product"].shape == (3, 2, 2)
    assert one["pair"][0].shape == (2,)
    assert isinstance(one["pair"], tuple)
    assert isinstance(one["pair"][1], list)
    assert one["pair"][1][0].shape == (2, 2)
    both = acc.jacobian(mixed, argnums=(0, 2))(*arguments)
    assert [a.shape for a in both["product"]] == [(3, 2, 3), (3, 2)]
    assert [np.shape(a) for a in both["pair"][0]] == [(3,), ()]
    single = acc.jacobian(mixed, argnums=(1,))(*arguments)
    assert isinstance(single["product"], tuple)
    np.testing.assert_array_equal(single["product"][0], one["product"])
    last = acc.jacobian(mixed, argnums=-1)(*arguments)
    np.testing.assert_array_equal(last["product"], np.outer(arguments[0], arguments[1]))


@pytest.mark.parametrize("argnums", [0, 1, 2, (0, 1), (2, 0)])
def test_structures_agree_with_jax(argnums):
    jax = pytest.importorskip("jax")
    jnp = pytest.importorskip("jax.numpy")
    jax.config.update("jax_enable_x64", True)

    def twin(x, y, scale):
        return {"product": jnp.outer(x, y) * scale, "pair": (x @ x, [y * scale])}

    arguments = (np.linspace(1, 2, 3), np.arange(2.0), 2.0)
    ours = acc.jacobian(mixed, argnums=argnums)(*arguments)
    theirs = jax.jit(jax.jacobian(twin, argnums=argnums))(*arguments)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_batches_are_the_points_one_by_one():
    X = np.random.default_rng(0).uniform(0.5, 1.5, (37, 2))
    jac = acc.jacobian(swirl)
    expected = np.stack([jac(x) for x in X])
    np.testing.assert_array_equal(jac.batch(X), expected)
    np.testing.assert_array_equal(jac.batch(X, threads=3), expected)
    across = jac.batch(np.ascontiguousarray(X.T), transposed=True)
    assert across.shape == (3, 2, 37)
    np.testing.assert_array_equal(np.moveaxis(across, -1, 0), expected)
    assert jac.batch(X[:0]).shape == (0, 3, 2)
    np.testing.assert_array_equal(jac.batch(X[::2]), expected[::2])


def test_batches_of_several_arguments_and_results():
    rng = np.random.default_rng(1)
    xs, ys = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    values, slopes = acc.value_and_jacobian(mixed, argnums=(0, 1)).batch(xs, ys, 1.5)
    for k in range(5):
        value, slope = acc.value_and_jacobian(mixed, argnums=(0, 1))(xs[k], ys[k], 1.5)
        np.testing.assert_array_equal(values["product"][k], value["product"])
        np.testing.assert_array_equal(values["pair"][1][0][k], value["pair"][1][0])
        np.testing.assert_array_equal(slopes["product"][1][k], slope["product"][1])
        np.testing.assert_array_equal(slopes["pair"][0][0][k], slope["pair"][0][0])


def test_results_are_written_into_out_arrays():
    X = np.random.default_rng(0).uniform(0.5, 1.5, (10, 2))
    out = np.full((10, 3, 2), np.nan)
    jac = acc.jacobian(swirl)
    returned = jac.batch(X, out=out)
    np.testing.assert_array_equal(out, jac.batch(X))
    assert np.shares_memory(returned, out)
    values, slopes = np.empty((10, 3)), np.empty((10, 3, 2))
    acc.value_and_jacobian(swirl).batch(X, out=(values, slopes))
    np.testing.assert_array_equal(slopes, out)


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
def test_sparse_results_are_the_dense_ones(fmt):
    def chain(x):
        dy = np.zeros(5)
        dy[0] = x[0] ** 2
        for k in range(1, 4):
            dy[k] = x[k] * x[k - 1]
        dy[4] = 3.0
        return dy

    x = np.arange(1.0, 6.0)
    dense, sparse = acc.jacobian(chain), acc.jacobian(chain, sparse=fmt)
    assert sparse(x).format == fmt
    assert sparse(x).nnz == 7
    np.testing.assert_array_equal(sparse(x).toarray(), dense(x))
    X = np.stack([x, x + 1, -x])
    batch = sparse.batch(X)
    assert batch.data.shape == (3, 7)
    np.testing.assert_array_equal(batch.toarray(), dense.batch(X))
    np.testing.assert_array_equal(batch[1].toarray(), dense(x + 1))
    np.testing.assert_array_equal(batch[1:].toarray(), dense.batch(X)[1:])
    across = sparse.batch(np.ascontiguousarray(X.T), transposed=True)
    np.testing.assert_array_equal(across.toarray(), dense.batch(X))
    value, matrix = acc.value_and_jacobian(chain, sparse=fmt)(x)
    np.testing.assert_array_equal(value, chain(x))
    np.testing.assert_array_equal(matrix.toarray(), dense(x))


def test_float32_on_request():
    slopes = acc.jacobian(swirl, dtype="float32")(POINT)
    assert slopes.dtype == np.float32
    np.testing.assert_allclose(slopes, complex_step(swirl, POINT), rtol=1e-6)


def test_one_program_a_shape():
    jac = acc.jacobian(rosenbrock)
    assert jac.compile(np.ones(3)) is jac.compile(np.zeros(3))
    assert jac.compile(np.ones(3)) is not jac.compile(np.ones(4))
    assert jac(np.ones(5)).shape == (5,)
    assert jac(np.ones(3)).shape == (3,)
    assert jac.operations > 0


def test_static_arguments_select_the_program():
    def power_sum(x, n, kind):
        total = x * 0.0
        for k in range(n):
            total = total + (x**k if kind == "power" else k * x)
        return total

    jac = acc.jacobian(power_sum, static_argnums=1)
    assert float(jac(2.0, 4, "power")) == 1 + 4 + 12
    assert float(jac(2.0, 3, "power")) == 1 + 4
    assert float(jac(2.0, 4, "linear")) == 6


def test_odd_outputs():
    def odd(x):
        return np.array([x[0], 3.0, x[0] * x[1], x[0] * x[1], np.sin(x[0] * x[1]), x[0]])

    x = np.array([0.3, 0.9, 5.0])
    np.testing.assert_allclose(acc.jacobian(odd)(x), complex_step(odd, x), rtol=1e-15, atol=1e-16)
    assert acc.jacobian(lambda x: np.zeros(3))(x).tolist() == [[0.0] * 3] * 3
    assert acc.jacobian(lambda x: np.zeros(0))(x).shape == (0, 3)
    assert acc.jacobian(np.sum)(np.zeros(0)).shape == (0,)


def test_nan_and_infinity_propagate():
    slopes = acc.jacobian(swirl)(np.array([np.nan, 1.0]))
    assert np.isnan(slopes[0]).tolist() == [False, True]
    with pytest.raises(ArgumentError, match="nan at index"):
        acc.jacobian(swirl, check_finite=True)(np.array([np.nan, 1.0]))


def test_arguments_stay_as_they_were():
    x = POINT.copy()

    def greedy(x):
        x[0] = 0.0
        return x

    with pytest.raises(TraceError, match="in place"):
        acc.jacobian(greedy)(x)
    acc.jacobian(swirl).batch(x[None])
    np.testing.assert_array_equal(x, POINT)


def test_many_threads_may_call_one_function():
    jac = acc.jacobian(swirl)
    points = np.random.default_rng(3).uniform(0.5, 1.5, (200, 2))
    results: dict[int, np.ndarray] = {}

    def work(k):
        results[k] = np.stack([jac(x) for x in points])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results.values():
        np.testing.assert_array_equal(result, jac.batch(points))


def fails(x):
    raise RuntimeError("the user's own")


BAD = [
    (lambda: acc.jacobian("f"), ArgumentError, "expected a function"),
    (lambda: acc.jacobian(swirl, method="revers"), UnknownNameError, "did you mean 'reverse'"),
    (lambda: acc.jacobian(swirl, target="fortran"), UnknownNameError, "llvm"),
    (lambda: acc.jacobian(swirl, objective="flops"), UnknownNameError, "operations"),
    (lambda: acc.jacobian(swirl, effort="hard"), UnknownNameError, "balanced"),
    (lambda: acc.jacobian(swirl, dtype="float16"), UnknownNameError, "float32"),
    (lambda: acc.jacobian(swirl, sparse="bsr"), UnknownNameError, "csr"),
    (lambda: acc.jacobian(swirl, time_limit=-1), ArgumentError, "-1"),
    (lambda: acc.jacobian(swirl, time_limit=float("nan")), ArgumentError, "nan"),
    (lambda: acc.jacobian(swirl, time_limit="soon"), ArgumentError, "soon"),
    (lambda: acc.jacobian(swirl, seed=1.5), ArgumentError, "1.5"),
    (lambda: acc.jacobian(swirl, threads=0), ArgumentError, "0"),
    (lambda: acc.jacobian(swirl, argnums=1)(POINT), ArgumentError, "argnums"),
    (lambda: acc.jacobian(swirl, argnums=(0, 0))(POINT), ArgumentError, "once"),
    (lambda: acc.jacobian(swirl, argnums="x")(POINT), ArgumentError, "argnums"),
    (lambda: acc.value_and_jacobian(swirl, speed=9), UnknownNameError, "speed"),
    (lambda: acc.gradient(swirl)(POINT), ArgumentError, "use jacobian"),
    (lambda: acc.jacobian(swirl)({1.0, 2.0}), ArgumentError, r"np\.array"),
    (lambda: acc.jacobian(swirl)(POINT.astype(complex)), ArgumentError, "complex"),
    (lambda: acc.jacobian(swirl)(np.array(["a", "b"])), ArgumentError, "<U1|str"),
    (lambda: acc.jacobian(swirl).batch(1.0), ArgumentError, "axis of points"),
    (lambda: acc.jacobian(swirl).batch(np.ones((4, 2)), out=np.empty((4, 3))), ArgumentError, r"\(4, 3, 2\)"),
    (lambda: acc.jacobian(swirl).batch(np.ones((4, 2)), out=np.empty((4, 3, 2), "f4")), ArgumentError, "float64"),
    (lambda: acc.jacobian(swirl).batch(np.ones((4, 2)), out=np.empty((2, 3, 4)).T), ArgumentError, "contiguous"),
    (lambda: acc.jacobian(swirl).batch(np.ones((4, 2)), threads=0.5), ArgumentError, r"0\.5"),
    (lambda: acc.jacobian(mixed).batch(np.ones((4, 3)), np.ones((5, 2)), 1.0), ArgumentError, "points"),
    (lambda: acc.jacobian(lambda x: None)(POINT), TraceError, "None"),
    (lambda: acc.jacobian(lambda x: "y")(POINT), TraceError, "str"),
    (lambda: acc.jacobian(swirl).operations, ArgumentError, "not been compiled"),
    (lambda: acc.jacobian(swirl).report(), ArgumentError, "not been compiled"),
    (lambda: acc.jacobian(fails)(POINT), RuntimeError, "own"),
    (lambda: acc.trace(swirl, POINT).compile(acc.plan(acc.DifferentiationGraph([("y", "x")]))), ArgumentError, "graph"),
    (lambda: acc.jacobian(swirl).compile(POINT)(np.ones(3)), ArgumentError, r"\(3,\)"),
    (lambda: acc.jacobian(swirl).compile(POINT)(POINT, POINT), ArgumentError, "1 arguments"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_input_is_a_typed_error_that_names_it(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_trace_plan_compile_step_by_step(tmp_path):
    trace = acc.trace(swirl, POINT)
    graph = trace.linearize()
    acc.save_graph(graph, tmp_path / "swirl.json")
    again = acc.load_graph(tmp_path / "swirl.json")
    assert acc.plan(again, "reverse", "fma").cost == acc.plan(graph, "reverse", "fma").cost
    plan = acc.plan(graph, method="vertex", objective="multiplications", time_limit=0.2, seed=1)
    plan.verify()
    program = trace.compile(plan, target="numpy", values=True)
    value, slopes = program(POINT)
    np.testing.assert_allclose(value, swirl(POINT), rtol=1e-15)
    np.testing.assert_allclose(slopes, complex_step(swirl, POINT), rtol=1e-14)
    np.testing.assert_array_equal(trace.compile(plan, output="csr")(POINT).toarray(), acc.jacobian(swirl)(POINT))


def test_names_in_all_exist():
    for name in acc.__all__:
        assert getattr(acc, name) is not None
    assert {"forward", "reverse", "markowitz", "vertex", "auto"} <= set(acc.methods())


@dataclass(frozen=True)
class Switch:
    level: object
    note: object = field(default=None, compare=False)


def test_static_arguments_are_distinguished_by_sign_and_type():
    """0.0 and -0.0, and 1, 1.0 and True, are equal, and not the same."""

    wrappings = {
        "bare": (lambda n: n, lambda c: c),
        "tuple": (lambda n: (n, 2), lambda c: c[0]),
        "frozenset": (lambda n: frozenset({n}), lambda c: next(iter(c))),
        "dataclass": (Switch, lambda c: c.level),
        "nested": (lambda n: Switch((2, Switch(n))), lambda c: c.level[1].level),
    }

    def f(x, n):
        return x * (1.0 + np.signbit(n) + 10.0 * isinstance(n, float) + 100.0 * isinstance(n, bool))

    for wrap, unwrap in wrappings.values():
        derivative = acc.jacobian(lambda x, c, unwrap=unwrap: f(x, unwrap(c)), static_argnums=1)
        for n in (0.0, -0.0, 0, False, 1, True, 1.0, np.float64(-0.0), math.nan, -math.nan):
            assert derivative(2.0, wrap(n)) == f(1.0, n), n
    digits = acc.jacobian(lambda x, c: x * len(str(c)), static_argnums=1)
    assert [digits(2.0, Decimal(text)) for text in ("1", "1.0", "-0", "0")] == [1.0, 3.0, 2.0, 1.0]
    assert acc.jacobian(lambda x, kind: x * (kind is Switch), static_argnums=1)(2.0, Switch) == 1.0
    seen = []
    derivative = acc.jacobian(lambda x, n: (seen.append(n), x)[1], static_argnums=1, check=False)
    for _ in range(3):
        derivative(1.0, math.nan)
    assert len(seen) == 1, "NaN is itself"
    for note in (1.0, 2.0):
        derivative(1.0, Switch(math.nan, note))
    assert len(seen) == 2, "a field that is not compared tells nothing apart"


def test_static_arguments_that_cannot_be_hashed_are_named():
    derivative = acc.jacobian(lambda x, c: x, static_argnums=1)
    for argument in ({1.0}, (2, [{1.0}]), Switch(bytearray(2))):
        with pytest.raises(ArgumentError, match=r"argument 1 .* cannot be hashed"):
            derivative(1.0, argument)


@pytest.mark.parametrize("name", acc._ELSEWHERE)
def test_names_of_other_libraries_lead_to_those_of_this_one(name):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'\. Write acc\."):
        getattr(acc, name)
    with pytest.raises(AttributeError, match=r"no attribute 'gradiant'$"):
        acc.gradiant  # noqa: B018


@pytest.mark.parametrize("name", ["jvp", "vjp", "hvp", "taylor"])
def test_arguments_in_the_style_of_other_libraries_are_recognised(name):
    with pytest.raises(ArgumentError, match=rf"write acc\.{name}\(f\)\(\(x,\), "):
        getattr(acc, name)(lambda x: x, np.ones(2), np.ones(2))


@pytest.mark.parametrize("name", ["jacobian", "gradient", "hessian", "compile"])
def test_points_instead_of_positions_are_recognised(name):
    make = getattr(acc, name)
    for point in (np.ones(2), 1.5):
        with pytest.raises((ArgumentError, TypeError), match=r"argnums is .*come afterwards|positional"):
            make(lambda x: x @ x, point)


def test_names_that_are_listed_are_public():
    assert {name for name in dir(acc) if not name.startswith("__")} == set(acc.__all__)


def test_short_forms():
    x = np.ones(3)
    derivative = acc.jacobian(lambda x: np.sin(x) * x[0])
    program = derivative.compile(x)
    report = derivative.report()
    assert repr(program) == f"<jacobian of <lambda>, compiled for llvm, {program.operations} operations>"
    assert repr(acc.trace(lambda x: np.sin(x) * x[0], x)) == "<trace of <lambda>, 6 operations>"
    assert repr(report) == str(report) == "\n".join(report.splitlines())
    assert "compiled for" not in report
    assert "Jacobian" in report
