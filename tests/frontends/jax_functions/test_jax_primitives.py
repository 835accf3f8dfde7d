"""Primitives of JAX, many in one function, against JAX's own derivatives."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax_oracle import FAST, agree  # noqa: E402
from scipy import special  # noqa: E402

import accumulus as acc  # noqa: E402
from accumulus.errors import TraceError  # noqa: E402

X = np.array([0.3, -0.7, 1.2])
M = np.array([[0.5, 2.0, -1.0], [1.5, -0.25, 0.75]])


def elementwise(x):
    u = 0.4 * jnp.tanh(x)
    one = [
        *(jnp.sin, jnp.cos, jnp.tan, jnp.sinh, jnp.cosh, jnp.tanh, jnp.arcsin, jnp.arccos, jnp.arctan, jnp.arcsinh),
        *(jnp.arctanh, jnp.exp, jnp.exp2, jnp.expm1, jnp.log1p, jnp.cbrt, jnp.abs, jnp.sign, jnp.floor, jnp.ceil),
        *(jnp.round, jnp.trunc, jnp.sinc, jnp.square, jnp.positive, jnp.negative, jnp.deg2rad, jnp.nan_to_num),
        *(jax.nn.relu, jax.nn.gelu, jax.nn.silu, jax.nn.softplus, jax.nn.sigmoid, jax.nn.elu, jax.nn.log_sigmoid),
        *(jax.scipy.special.erf, jax.scipy.special.erfc, lax.logistic, jax.nn.selu, jax.nn.leaky_relu),
    ]
    results = {f"{k} {getattr(f, '__name__', f)}": f(u) for k, f in enumerate(one)}
    p = 1.0 + u * u
    results |= {"sqrt": jnp.sqrt(p), "rsqrt": lax.rsqrt(p), "log": jnp.log(p), "acosh": jnp.arccosh(1.5 * p)}
    y = jnp.flip(x)
    two = [jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum, jnp.arctan2, jnp.hypot]
    two += [jnp.logaddexp, jnp.remainder, jnp.floor_divide, jnp.fmod]
    results |= {f.__name__: f(x, y) for f in two}
    results |= {
        "power": jnp.power(p, y),
        "integer": x**3 + x**-2,
        "pow": jnp.power(x, 2.0),
        "clip": jnp.clip(x, -0.5, 1),
    }
    results["clamp"] = lax.clamp(-1.0, x, 1.0)
    results["half"] = lax.round(2.5 * x + 0.01, lax.RoundingMethod.AWAY_FROM_ZERO)
    return results


def test_elementwise_functions():
    agree(elementwise, X, points=2)


def test_truth_values_and_whole_numbers():
    def f(x):
        n = (10.0 * x).astype(int)
        b = (x > 0) & ~(x > 1) | (x == 0.3) ^ (x != x[0])
        return {
            "where": jnp.where(b, jnp.log(jnp.abs(x)), x),
            "select": lax.select_n(n % 3, x, 2 * x, 3 * x),
            "whole": n // 4 + n % 4 + lax.rem(n, 4) + lax.div(n, 4) + jnp.sign(n),
            "counts": jnp.sum(b) + jnp.any(b) + 2 * jnp.all(b) + b * x,
            "power": n**2 * x,
            "finite": jnp.isfinite(x) * x + jnp.isnan(x),
            "place": jnp.argmax(x) * x + jnp.argmin(x),
        }

    agree(f, X)


def test_reductions_running_folds_and_sorting():
    def f(a):
        return {
            "sum": jnp.sum(a, 0), "prod": jnp.prod(a, 1), "max": jnp.max(a), "min": jnp.min(a, axis=0),
            "mean": jnp.mean(a), "std": jnp.std(a, axis=1), "norm": jnp.linalg.norm(a),
            "logsumexp": jax.nn.logsumexp(a, axis=1), "softmax": jax.nn.softmax(a),
            "cumsum": jnp.cumsum(a, 1), "cumprod": jnp.cumprod(a, 0), "cummax": lax.cummax(a, 1),
            "backwards": lax.cumsum(a, 1, reverse=True), "cumlogsumexp": lax.cumlogsumexp(a, 1),
            "sort": jnp.sort(a, axis=1), "median": jnp.median(a), "top": lax.top_k(a, 2)[0],
            "argsort": a[0][jnp.argsort(a[1])], "ranks": jnp.argsort(a, axis=0) * a,
        }  # fmt: skip

    agree(f, M, points=2)


def test_shapes_and_entries():
    index = jnp.array([[0, 2], [1, -1]])

    def f(a):
        x = a.ravel()
        return {
            "reshape": a.reshape(3, 2), "T": a.T, "flip": a[::-1, ::-1], "slice": a[:, ::2], "roll": jnp.roll(a, 1, 1),
            "concatenate": jnp.concatenate([a, 2 * a]), "stack": jnp.stack([a, a * a], -1), "tile": jnp.tile(a, (1, 2)),
            "pad": jnp.pad(a, 1, constant_values=2.0), "inside": lax.pad(a, 0.5, [(1, -1, 2), (-1, 0, 1)]),
            "split": jnp.split(a, 3, axis=1), "diagonal": jnp.diagonal(a), "tril": jnp.tril(a), "diag": jnp.diag(x[:2]),
            "gather": x[index], "rows": a[jnp.array([1, 1, 0])], "pairs": a[jnp.array([0, 1]), jnp.array([2, 0])],
            "take": jnp.take(a, jnp.array([5, 1]), axis=1), "clipped": jnp.take(x, jnp.array([9, -9]), mode="clip"),
            "along": jnp.take_along_axis(a, jnp.array([[2], [0]]), axis=1), "broadcast": x[:, None] + x,
            "dynamic": lax.dynamic_slice(a, (1, 7), (1, 2)),
            "updated": lax.dynamic_update_slice(a, x[:2, None], (0, 1)),
            "set": a.at[1].set(x[:3] ** 2), "add": x.at[jnp.array([0, 0, 9])].add(x[:3]), "min": x.at[:2].min(0.1),
            "mul": x.at[jnp.array([1, 3])].multiply(x[0], unique_indices=True),
            "max": a.at[:, 1].max(x[3]), "unstack": jnp.unstack(a, axis=1),
        }  # fmt: skip

    agree(f, M)


def test_numbers_of_entries_that_depend_on_the_arguments():
    def f(x):
        k = jnp.floor(2.0 * x).astype(int)
        return {
            "one": x[k[2]], "window": lax.dynamic_slice(x, (k[2],), (2,)), "several": x[k],
            "set": x.at[k[2]].set(5.0 * x[0]), "interpolated": jnp.interp(x, jnp.arange(4.0), jnp.arange(4.0) ** 2),
        }  # fmt: skip

    agree(f, X)


def test_products_of_arrays():
    def f(a):
        b = a.T @ a
        return {
            "matmul": a @ a.T, "vector": a @ a[0], "dot": jnp.vdot(a, a),
            "einsum": jnp.einsum("ij,kj,k->i", a, a, a[:, 0]),
            "batched": jnp.matmul(jnp.stack([a, a]), jnp.stack([b, b])), "outer": jnp.outer(a[0], a[1]),
            "constant": jnp.arange(6.0).reshape(2, 3) @ b, "kron": jnp.kron(a, a[0]),
            "power": jnp.linalg.matrix_power(b, 3),
        }  # fmt: skip

    agree(f, M, points=2)


def test_convolutions_and_windows():
    def f(a):
        image = jnp.outer(jnp.sin(jnp.arange(1.0, 6.0)), a.ravel()).reshape(1, 1, 5, 6)
        kernel = a[:, :2].reshape(1, 1, 2, 2) * jnp.ones((2, 1, 1, 1))
        both = jnp.concatenate([image, image**2], axis=1)
        numbers = ("NHWC", "HWIO", "NHWC")
        return {
            "same": lax.conv(image, kernel, (1, 1), "SAME"),
            "strided": lax.conv_general_dilated(image, kernel, (2, 1), [(1, 0), (0, 2)], (1, 2), (2, 1)),
            "grouped": lax.conv_general_dilated(both, kernel, (1, 1), "VALID", feature_group_count=2),
            "last": lax.conv_general_dilated(
                jnp.moveaxis(both, 1, 3), jnp.ones((2, 2, 2, 3)) * a[0], (1, 1), "VALID", dimension_numbers=numbers
            ),
            "convolve": jnp.convolve(a[0], a[1]),
            "max pool": lax.reduce_window(image[0, 0], -jnp.inf, lax.max, (2, 2), (2, 2), "SAME"),
            "sums": lax.reduce_window(image[0, 0], 0.0, lax.add, (2, 3), (1, 2), "VALID"),
        }

    agree(f, M)


def test_linear_algebra_of_small_matrices():
    def f(a):
        m = a.T @ a + jnp.diag(jnp.array([1.0, 2.0, 3.0]))
        return {
            "solve": jnp.linalg.solve(m, a[0]), "sides": jnp.linalg.solve(m, a.T), "inv": jnp.linalg.inv(m),
            "det": jnp.linalg.det(m), "slogdet": jnp.linalg.slogdet(m)[1],
            "triangular": jax.scipy.linalg.solve_triangular(m, a[0]),
            "lower": jax.scipy.linalg.solve_triangular(m, a.T, trans=1, lower=True, unit_diagonal=True),
            "stack": jnp.linalg.solve(jnp.stack([m, m + 1.0]), a[..., None]),
        }  # fmt: skip

    agree(f, M)


def test_constants_are_computed_by_jax():
    def f(x):
        noise = jax.random.normal(jax.random.key(7), (3,))
        values, vectors = jnp.linalg.eigh(jnp.eye(3) + 0.1)
        return x * noise + vectors @ x * values + jnp.sort(jnp.array([3.0, 1.0, 2.0]))

    derivative = agree(f, X)
    assert derivative.operations < 50


def test_gradients_stop_at_stop_gradient():
    agree(lambda x: x * lax.stop_gradient(jnp.sin(x)), X)


def test_a_primitive_without_a_row_is_named_with_the_line():
    def f(x):
        return lax.reduce(x, 1.0, lambda a, b: a * b + 0.1, (0,))

    with pytest.raises(
        TraceError, match=r"test_jax_primitives.py, line \d+, in .*f:\n.*lax.reduce(.|\n)*primitive reduce"
    ):
        acc.jacobian(f, **FAST)(X)


def test_narrower_floats_are_not_rounded_to():
    jac = acc.value_and_jacobian(lambda x: jnp.sin(x).astype(jnp.float32) * 2.0, **FAST)
    value, slope = jac(X)
    np.testing.assert_allclose(value, 2.0 * np.sin(X), rtol=1e-14)
    np.testing.assert_allclose(slope, np.diag(2.0 * np.cos(X)), rtol=1e-14)


def test_stopped_gradients_are_stopped_at_every_order():
    def f(x):
        return jnp.sum(x**2 * lax.stop_gradient(jnp.sin(x)) + lax.stop_gradient(x) ** 3)

    x = np.array([0.7, -1.2])
    s = np.sin(x)
    np.testing.assert_allclose(acc.hessian(f)(x), np.diag(2 * s))
    np.testing.assert_allclose(acc.jacobian(acc.gradient(f))(x), np.diag(2 * s))
    assert not acc.jacobian(acc.jacobian(acc.gradient(f)))(x).any()
    series = np.stack([np.ones(2), np.zeros(2), np.zeros(2)])
    np.testing.assert_allclose(acc.taylor(f)((x,), (series,))[1], [np.sum(2 * x * s), np.sum(s), 0.0], atol=1e-15)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jax.scipy.special.polygamma(1, x),
        lambda x: jax.scipy.special.polygamma(2, x) * x,
        lambda x: jax.scipy.special.zeta(2.5, x),
        lambda x: jax.scipy.special.zeta(jnp.array([2.5, 3.0]), x) / x,
    ],
)
def test_functions_of_an_order(f):
    x = np.array([1.5, 2.5])
    with jax.enable_x64(True):
        expected = [np.asarray(each(lambda x: jnp.sum(f(x)))(x)) for each in (jax.grad, jax.hessian)]
    for each, derivative in zip(expected, (acc.gradient, acc.hessian), strict=True):
        np.testing.assert_allclose(derivative(lambda x: jnp.sum(f(x)), **FAST)(x), each, rtol=1e-12)


@pytest.mark.parametrize(("name", "x"), [("expi", [0.5, 4.0]), ("exp1", [4.0])])
def test_exponential_integrals_of_arrays(name, x):
    function, sign = getattr(jax.scipy.special, name), 1.0 if name == "expi" else -1.0
    x = np.array(x)
    first = np.exp(sign * x) / x * sign
    second = first * (sign - 1.0 / x)
    value, gradient, hessian = acc.value_gradient_hessian(lambda x: jnp.sum(function(x)), **FAST)(x)
    np.testing.assert_allclose(value, np.sum(getattr(special, name)(x)), rtol=1e-12)
    np.testing.assert_allclose(gradient, first, rtol=1e-12)
    np.testing.assert_allclose(hessian, np.diag(second), rtol=1e-11)


def test_loops_side_by_side_go_on_as_long_as_each_condition_holds():
    def one(x):
        return lax.while_loop(lambda c: c[0] < 3.0, lambda c: (c[0] * 1.5 + 0.1, c[1] * jnp.sin(c[0])), (x, x))[1]

    def alone(x):
        factor, slope, power, growth = x, 1.0, x, 1.0
        while power < 3.0:
            slope = slope * np.sin(power) + factor * np.cos(power) * growth
            factor *= np.sin(power)
            power, growth = power * 1.5 + 0.1, growth * 1.5
        return factor, slope

    x = np.array([0.2, 1.1, 5.0])
    several = jax.vmap(one)
    values, slopes = np.array([alone(each) for each in x.tolist()]).T
    np.testing.assert_allclose(acc.compile(several, **FAST)(x), values, rtol=1e-13)
    np.testing.assert_allclose(acc.jacobian(several, **FAST)(x), np.diag(slopes), rtol=1e-13)


TIED = np.array([1.0, 1.0, 2.0, 2.0, 0.0])
PLACES = jnp.array([0, 0, 1])
TIES = {
    "at max": lambda x: x[:2].at[PLACES].max(x[2:]),
    "at max of itself": lambda x: x[:2].at[PLACES].max(x[:3]),
    "at max of a constant": lambda x: jnp.ones(2).at[PLACES].max(x[:3]),
    "at min of itself": lambda x: x[:2].at[PLACES].min(x[:3]),
    "at one place": lambda x: x.at[0].max(x[1]),
    "segments": lambda x: jax.ops.segment_max(x, jnp.array([0, 0, 1, 1, 1]), num_segments=2),
    "windows": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "SAME"),
    "small windows": lambda x: lax.reduce_window(x, jnp.inf, lax.min, (3,), (1,), "SAME"),
    "square windows": lambda x: lax.reduce_window(
        jnp.stack([x[jnp.array([1, 2, 2, 0])], x[jnp.array([2, 3, 0, 2])]]), -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"
    ),
    "repeated": lambda x: jnp.max(jnp.stack([x[0], x[0], x[1]])),
    "repeated evenly": lambda x: jnp.max(jnp.stack([x[0], x[1], x[0], x[1]])),
    "rows": lambda x: jnp.max(jnp.stack([x, x[::-1], x]), axis=0),
    "running": lambda x: lax.cummax(jnp.concatenate([x[:2], x[:2], x])),
    "running back": lambda x: lax.cummin(jnp.concatenate([x[:2], x[:2], x]), reverse=True),
    "clamped": lambda x: jnp.stack([lax.clamp(x[i], x[j], x[k]) for i in range(5) for j in range(5) for k in range(5)]),
    "clamped by constants": lambda x: lax.clamp(1.0, x, 2.0),
    "clipped": lambda x: jnp.clip(x, x[0], x[2]),
    "sorted": lambda x: jnp.sort(x) * jnp.arange(5.0),
    "top": lambda x: lax.top_k(x, 3)[0],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TIES)
def test_derivatives_at_ties_are_those_of_jax(name):
    def f(x):
        result = jnp.ravel(TIES[name](x))
        return jnp.sum(result * jnp.arange(1.0, 1.0 + len(result)) ** 2)

    agree(f, TIED)


def test_windows_with_nan_are_nan():
    largest = acc.compile(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "VALID"), check=False, **FAST)
    np.testing.assert_array_equal(largest(np.array([np.nan, 1.0, 2.0, np.nan])), [np.nan, 2.0, np.nan])
