"""Functions of JAX as users have them: how they are recognised, what they take and return, what goes wrong."""

from __future__ import annotations

import functools

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from jax import lax  # noqa: E402
from jax.numpy import sin as sine  # noqa: E402
from jax_oracle import FAST, agree  # noqa: E402

import accumulus as acc  # noqa: E402
from accumulus.errors import TraceError  # noqa: E402
from accumulus.frontends.jax.tracer import is_of_jax  # noqa: E402

X = np.array([0.3, -0.7, 1.2])


def helper(x):
    return jnp.tanh(x)


def by_helper(x):
    return helper(x) * 2.0


def numpy_function(x):
    return np.sin(x) if not isinstance(x, jax.Array) else x


def local_import(x):
    from jax import numpy as inner

    return inner.cos(x)


class Model:
    """Weights and a method."""

    def __init__(self, weights):
        self.weights = weights

    def layer(self, x):
        return jnp.tanh(self.weights @ x)

    def __call__(self, x):
        return self.layer(x)


class Plain:
    def __call__(self, x):
        return np.sin(x)


MODEL = Model(np.arange(6.0).reshape(2, 3) / 5.0)


@pytest.mark.parametrize(
    "function",
    [
        *(by_helper, local_import, MODEL, MODEL.layer, jnp.sin, jnp.add, jax.nn.relu, jax.jit(lambda x: x)),
        *(jax.grad(np.sum), jax.vmap(lambda x: x), functools.partial(by_helper), functools.partial(jnp.dot, X)),
        *(
            lambda x: sine(x) + 1,
            lambda x: lax.exp(x) + 1,
            lambda x: [jnp.cos(x) for _ in range(2)],
            jax.custom_jvp(abs),
        ),
        *(lambda x: MODEL(x) + 1, lambda x: jax.lax.cond(True, abs, abs, x), jax.make_jaxpr(jnp.sin)(1.0)),
    ],
)
def test_functions_of_jax_are_recognised(function):
    assert is_of_jax(function)


@pytest.mark.parametrize(
    "function",
    [numpy_function, np.sin, Plain(), lambda x: np.sin(x) + 1, functools.partial(np.dot, X), "text", Model, len],
)
def test_others_are_not(function):
    assert not is_of_jax(function)


def test_functions_of_numpy_are_recorded_as_before_where_jax_is_there():
    np.testing.assert_allclose(acc.jacobian(numpy_function, **FAST)(X), np.diag(np.cos(X)))


def test_models_and_partial_functions():
    agree(MODEL, X)
    agree(functools.partial(lambda w, x: w * jnp.sin(x), 3.0), X)


def test_a_jaxpr_is_a_function():
    closed = jax.make_jaxpr(lambda x: jnp.sin(x) * 2)(X)
    np.testing.assert_allclose(acc.jacobian(closed, **FAST)(X), np.diag(2 * np.cos(X)))


def test_results_keep_their_structure():
    agree(lambda x: {"b": (x, jnp.sum(x)), "a": [x[0], {"c": x[::2]}], "k": jnp.ones(2)}, X, points=2)


def test_several_arguments_numbers_and_constants():
    def f(x, k, name, n):
        assert name == "cubed"
        return k * jnp.sum(x) ** n + x

    jac = acc.jacobian(f, argnums=(0, 1), static_argnums=3, **FAST)
    by_x, by_k = jac(X, 2.0, "cubed", 3)
    total = X.sum()
    np.testing.assert_allclose(by_x, np.eye(3) + 6.0 * total**2)
    np.testing.assert_allclose(by_k, np.full(3, total**3))
    np.testing.assert_allclose(
        jac.batch(np.stack([X, X]), np.array([2.0, 3.0]), "cubed", 3)[0][1], np.eye(3) + 9 * total**2
    )


def test_functions_are_traced_in_double_precision_whatever_jax_is_configured_for():
    with jax.enable_x64(False):
        value, slope = acc.value_and_jacobian(lambda x: jnp.sin(x * 0.1) * jnp.pi, **FAST)(0.7)
    np.testing.assert_allclose([value, slope], [np.sin(0.07) * np.pi, 0.1 * np.cos(0.07) * np.pi], rtol=1e-15)


def test_branching_on_a_value_names_the_line_and_the_alternative():
    def f(x):
        if jnp.sum(x) > 0:
            return x
        return -x

    with pytest.raises(TraceError, match=r"(?s)JAX cannot trace this function.*lax.cond"):
        acc.jacobian(f, **FAST)(X)


def test_errors_of_the_function_are_unchanged():
    def f(x):
        return jnp.dot(x, jnp.ones(4))

    with pytest.raises(TypeError, match="dot"):
        acc.jacobian(f, **FAST)(X)


def test_a_recording_is_compared_with_the_function_compiled_by_jax():
    assert acc.check(lambda x: jnp.sin(x) * x, X).passed


def network(parameters, x):
    for weights, offset in parameters:
        x = jax.nn.gelu(x @ weights + offset)
    return jnp.mean(jax.nn.logsumexp(x, axis=-1))


def test_powers_of_two_round_as_those_of_jax():
    x = np.linspace(-700.0, 700.0, 15)
    result = acc.value_and_jacobian(jnp.exp2, exact_order=True)(x)[0]  # XLA's are 100 units off at the ends
    with jax.enable_x64(True):
        np.testing.assert_allclose(result, jnp.exp2(jnp.asarray(x)), rtol=1e-15)


def test_a_network_by_all_its_weights():
    generator = np.random.default_rng(3)
    shapes = [(4, 6), (6, 3)]
    flat = generator.normal(size=sum(m * n + n for m, n in shapes))
    batch = generator.normal(size=(5, 4))

    def loss(flat):
        parameters, first = [], 0
        for m, n in shapes:
            weights = flat[first : first + m * n].reshape(m, n)
            parameters.append((weights, flat[first + m * n : first + m * n + n]))
            first += m * n + n
        return network(parameters, batch)

    agree(loss, flat)


ONE = (jnp.sin, jnp.tanh, jnp.exp, jax.nn.softplus, lambda x: x**2, jnp.cumsum, jnp.sort, lambda x: x[::-1], jnp.abs)
TWO = (jnp.add, jnp.multiply, jnp.maximum, jnp.logaddexp, lambda x, y: jnp.where(x > y, x, 2.0 * y))


@settings(max_examples=4, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(ONE) - 1), st.integers(0, len(TWO) - 1), st.integers(0, 9)), min_size=4, max_size=9
    ),
    st.lists(st.floats(-2.0, 2.0), min_size=4, max_size=4, unique=True),
)
def test_compositions(steps, point):
    def f(x):
        values = [x / 2.0]
        for one, two, other in steps:
            values.append(TWO[two](jnp.tanh(ONE[one](values[-1])), values[other % len(values)]))
        return values[-1]

    agree(f, np.array(point) + np.array([0.013, 0.021, 0.034, 0.055]), rtol=1e-8)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        # XLA takes numbers below 2.2e-308 for zero
        (jnp.exp, -737.7),
        (jax.nn.silu, -737.7),
        (lambda x: 1e300 * jnp.exp(x), -737.7),
        # JAX takes the logarithm of a number near 1
        (jax.scipy.special.log_ndtr, 5.7),
        (jax.scipy.special.log_ndtr, 3.1),
        # JAX takes four terms of an asymptotic series
        (jax.scipy.special.log_ndtr, -20.1),
        (jax.scipy.special.log_ndtr, -30.0),
        # its logarithm loses three digits here
        (lambda x: jnp.stack([jnp.log1p(x), jnp.log(x)]), -0.41),
    ],
)
def test_what_jax_rounds_otherwise_is_no_mismatch(f, x):
    acc.compile(jax.jit(f), cache=False)(x)
