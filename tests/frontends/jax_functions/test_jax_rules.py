"""Rules of JAX's functions: linear ones are JAX's at every order, others are refused by proof."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax_oracle import FAST, agree  # noqa: E402

import accumulus as acc  # noqa: E402
from accumulus.errors import ArgumentError, TraceError  # noqa: E402

X = np.array([0.4, 1.2, -0.3])
W = np.arange(9.0).reshape(3, 3) / 7.0


def by_vjp(rule, again=False):
    """The sine with a rule for its cotangents; the rule computes the sine by the function itself, or by its formula."""

    @jax.custom_vjp
    def named(x):
        return jnp.sin(x)

    named.defvjp(lambda x: (named(x) if again else jnp.sin(x), x), lambda x, g: (rule(x, g),))
    return named


def by_jvp(rule, again=True):
    """The sine with a rule for its tangents."""

    @jax.custom_jvp
    def named(x):
        return jnp.sin(x)

    named.defjvp(lambda x, t: (named(*x) if again else jnp.sin(*x), rule(*x, *t)))
    return named


DOUBLED = by_jvp(lambda x, t: 2.0 * t * x)
NONLINEAR = {
    "clip": lambda x, g: jnp.clip(g, -1e6, 1e6),
    "where": lambda x, g: jnp.where(jnp.abs(g) < 1e3, g, 0.0),
    "constant added": lambda x, g: g + 1e-30,
    "small square": lambda x, g: g * (1 + 1e-20 * g),
    "positive part": lambda x, g: jnp.where(g > 0, g, 0.0),
    "power": lambda x, g: jnp.sign(g) * jnp.abs(g) ** 1.0000001,
    "stopped": lambda x, g: lax.stop_gradient(g),
    "stopped but one": lambda x, g: g - lax.stop_gradient(g) + jnp.clip(lax.stop_gradient(g), -1e6, 1e6),
    "sign": lambda x, g: jnp.sign(g) * x,
    "rounded": lambda x, g: jnp.round(g * 1e9) / 1e9,
    "integers": lambda x, g: (g * 1e6).astype(int).astype(float),
    "norm clipped": lambda x, g: g / jnp.maximum(jnp.linalg.norm(g) / 1e6, 1.0),
    "forgotten": lambda x, g: jnp.cos(x),
    "NaN replaced": lambda x, g: jnp.nan_to_num(g),
    "sorted": lambda x, g: jnp.sort(g),
    "square": lambda x, g: g**2,
    "reciprocals": lambda x, g: 1 / (1 / g),
    "saturated": lambda x, g: jnp.tanh(g * 1e-9) * 1e9,
    "exponential": lambda x, g: jnp.log(jnp.exp(g)),
    "branch": lambda x, g: lax.cond(jnp.sum(g) < 1e9, lambda g: g, lambda g: 2 * g, g),
    "switch": lambda x, g: lax.switch(jnp.where(g[0] > 1e9, 1, 0), [lambda g: g, lambda g: 3 * g], g),
    "affine branch": lambda x, g: lax.cond(x[0] > 9.0, lambda g: g + 1.0, lambda g: g, g),
    "loop": lambda x, g: lax.while_loop(lambda s: jnp.max(jnp.abs(s)) > 1e6, lambda s: s * 0.5, g),
    "late square": lambda x, g: lax.scan(lambda c, a: (c + a * a * 1e-20, c + a), 0.0, g)[1],
    "product with itself": lambda x, g: jnp.dot(g, g) * x,
    "running product": lambda x, g: jnp.cumprod(g),
    "largest": lambda x, g: g[jnp.argmax(jnp.abs(g))] * jnp.ones(3),
    "narrow": lambda x, g: lax.reduce_precision(g, 8, 23),
    "bits": lambda x, g: lax.bitcast_convert_type(lax.bitcast_convert_type(g, jnp.int64) ^ 1, jnp.float64),
    "function with a rule": lambda x, g: jax.nn.relu(g) - jax.nn.relu(-g),
    "zero alone": lambda x, g: g * jnp.where(jnp.all(g == 0), 0.0, 1.0),
    "padding": lambda x, g: lax.pad(g[1:], 1e-30, [(1, 0, 0)]),
    "remainder": lambda x, g: jnp.mod(g, 1e9),
    "checkpoint": lambda x, g: jax.checkpoint(lambda g: g * g)(g),
}
LINEAR = {
    "product": lambda x, g: g * jnp.cosh(x),
    "negative": lambda x, g: -g,
    "differences": lambda x, g: 2 * g - g * x,
    "quotient": lambda x, g: g / (2 + x**2),
    "where": lambda x, g: jnp.where(x > 0, g, 0.0),
    "where both": lambda x, g: jnp.where(x > 0, g, 0.5 * g),
    "select": lambda x, g: jnp.select([x > 1, x > 0], [g, 2 * g], 3 * g),
    "matrix": lambda x, g: W @ g,
    "matrix of values": lambda x, g: jnp.outer(x, x) @ g,
    "einsum": lambda x, g: jnp.einsum("i,ij,j->j", g, W, x),
    "sum": lambda x, g: jnp.sum(g) * x,
    "mean": lambda x, g: g - jnp.mean(g),
    "running sum": lambda x, g: jnp.cumsum(g),
    "flipped": lambda x, g: g[::-1],
    "rolled": lambda x, g: jnp.roll(g, 1) * x,
    "taken": lambda x, g: jnp.take(g, jnp.array([2, 0, 1])),
    "set": lambda x, g: jnp.zeros(3).at[1].set(g[0] * x[1]),
    "added": lambda x, g: g.at[0].add(g[1]),
    "updated": lambda x, g: lax.dynamic_update_slice(g, g[:1] * x[:1], (1,)),
    "concatenated": lambda x, g: jnp.concatenate([g[:1] * x[:1], jnp.zeros(2)]),
    "padded": lambda x, g: jnp.pad(g, 1)[1:-1] * x,
    "differences along": lambda x, g: jnp.diff(g, prepend=0.0),
    "convolution": lambda x, g: jnp.convolve(g, jnp.array([1.0, 2.0, 3.0]), mode="same"),
    "scan": lambda x, g: lax.scan(lambda c, a: (c * 0.5 + a[0] * a[1], c + a[0]), 0.0, (g, x))[1],
    "loop": lambda x, g: lax.fori_loop(0, 3, lambda i, s: s * x + g, jnp.zeros(3)),
    "branch": lambda x, g: lax.cond(x[0] > 0, lambda g: g * x, lambda g: 2 * g, g),
    "solve": lambda x, g: jnp.linalg.solve(jnp.outer(x, x) + 2 * jnp.eye(3), g),
    "triangular": lambda x, g: jax.scipy.linalg.solve_triangular(
        jnp.tril(jnp.outer(x, x)) + 2 * jnp.eye(3), g, lower=True
    ),
    "vmap": lambda x, g: jax.vmap(lambda a, b: a * jnp.exp(b))(g, x),
    "jit": lambda x, g: jax.jit(lambda g: g * x)(g),
    "checkpoint": lambda x, g: jax.checkpoint(lambda g: g * jnp.sin(x))(g),
    "zero": lambda x, g: jnp.zeros(3),
    "kinks of values": lambda x, g: g * jnp.clip(x, -0.5, 0.5) * jnp.sort(x),
    "stopped values": lambda x, g: g * lax.stop_gradient(x) * x,
    "function with a rule": lambda x, g: g * DOUBLED(x) * jax.nn.relu(x),
}


@pytest.mark.parametrize("by", [by_vjp, by_jvp])
@pytest.mark.parametrize("name", NONLINEAR)
def test_rules_that_are_not_linear_are_refused(name, by):
    function = by(NONLINEAR[name])
    kind, of = ("jax.custom_vjp", "cotangents") if by is by_vjp else ("jax.custom_jvp", "tangents")
    with pytest.raises(TraceError, match=rf"named \({kind}\) is not shown to be linear in its {of}"):
        acc.gradient(lambda x: jnp.sum(function(x)), **FAST)(X)


def check_second_order(function, by, x):
    def f(x):
        return jnp.sum(function(x * x) * x) + function(x)[0] ** 2

    first = jax.grad if by is by_vjp else jax.jacfwd
    got = acc.value_gradient_hessian(f, **FAST)(x)
    with jax.enable_x64(True):
        expected = jax.jit(lambda x: (f(x), first(f)(x), jax.jacfwd(first(f))(x)))(jnp.asarray(x))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.sampled(4, each="name")
@pytest.mark.parametrize("by", [by_vjp, by_jvp])
@pytest.mark.parametrize("name", LINEAR)
def test_rules_that_are_linear_are_those_of_jax_at_first_and_second_order(name, by):
    function = by(LINEAR[name])
    check_second_order(function, by, X)


#: Rules for arrays of n entries whose derivatives are zero, some of them only entry by entry.
WITH_ZEROS = {
    "zero": lambda x, g, n: jnp.zeros(n),
    "masked": lambda x, g, n: g * jnp.asarray(np.arange(n) % 2.0),
    "one entry": lambda x, g, n: g @ jnp.asarray(np.diag(np.arange(n) == 1) * 1.0),
    "matrix of zeros": lambda x, g, n: jnp.zeros((n, n)) @ g,
    "half": lambda x, g, n: jnp.where(np.arange(n) > 1, g, 0.0) * jnp.cosh(x),
}


@pytest.mark.parametrize("by", [by_vjp, by_jvp, lambda rule: by_jvp(rule, again=False)])
@pytest.mark.parametrize("name", WITH_ZEROS)
@pytest.mark.parametrize("n", [3, 70])
def test_zeros_of_rules_are_those_of_one_order(name, by, n):
    function, x = by(lambda x, g: WITH_ZEROS[name](x, g, n)), np.linspace(0.1, 1.0, n)
    check_second_order(function, by, x)


def test_clipped_cotangents_of_jaxs_documentation_are_refused_and_recorded_by_jax_itself():
    @jax.custom_vjp
    def clip_gradient(x):
        return x

    clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.75, 0.75),))

    def f(x):
        return jnp.sum(3.0 * clip_gradient(x))

    with pytest.raises(
        TraceError, match=r"The rule of .*clip_gradient \(jax.custom_vjp\).*applies max to them in line"
    ):
        acc.gradient(f, **FAST)(X)
    np.testing.assert_array_equal(acc.compile(jax.grad(f), **FAST)(X), [0.75] * 3)


@jax.custom_jvp
def odd(x):
    return jnp.sin(x)


@jax.custom_jvp
def growing(x):
    return jnp.exp(x)


@jax.custom_jvp
def stair(x):
    return jnp.round(x)


@jax.custom_jvp
def half(x, y):
    return x * y


@jax.custom_jvp
def injected(x):
    return jnp.zeros_like(x)


@jax.custom_gradient
def squared(x):
    return x**2, lambda g: g * x


odd.defjvp(lambda x, t: (odd(*x), t[0] * jnp.cosh(*x)))
growing.defjvp(lambda x, t: (growing(*x), 2.0 * t[0] * growing(*x)))
stair.defjvps(lambda t, answer, x: t)
half.defjvp(lambda x, t: (half(*x), t[0] * x[1]))
injected.defjvp(lambda x, t: (jnp.zeros_like(*x), t[0] * x[0] ** 2))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def scaled(factor, x):
    return x * 1.0


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def ordered(n, x):
    return jnp.sin(n * x)


@jax.custom_vjp
def several(x, y):
    return x * y, jnp.sum(x)


@jax.custom_vjp
def symbolic(x, count):
    return x * count


scaled.defvjp(lambda factor, x: (x * 1.0, None), lambda factor, _, g: (factor * g,))
ordered.defjvp(lambda n, x, t: (ordered(n, *x), t[0] * (ordered(n - 1, *x) + n)))
several.defvjp(lambda x, y: ((x * y, jnp.sum(x)), (x, y)), lambda xy, g: (g[0] * xy[1] * 2 + g[1], None))
symbolic.defvjp(lambda x, n: (x.value * n.value, n.value), lambda n, g: (2 * g * n, None), symbolic_zeros=True)
COSH = by_vjp(lambda x, g: g * jnp.cosh(x))
TOGETHER = {
    "twice": lambda x: jnp.sum(odd(x * x) ** 2),
    "in its own rule": lambda x: jnp.sum(growing(x * x) ** 2 * odd(x)),
    "of each other": lambda x: jnp.sum(odd(growing(odd(x)))),
    "straight through": lambda x: jnp.sum(stair(x * 3) ** 3 * x),
    "one side": lambda x: jnp.sum(half(x, x[::-1] ** 2) * x),
    "constant": lambda x: jnp.sum(injected(x) * x) + jnp.sum(jnp.sin(injected(x * x))),
    "forward and reverse": lambda x: jnp.sum(COSH(odd(x) * x) * injected(COSH(x))),
    "beside the same formula": lambda x: jnp.sum(odd(x) * jnp.sin(x)),
    "stopped": lambda x: jnp.sum(odd(lax.stop_gradient(x) * x) * x),
    "largest": lambda x: jnp.max(odd(x)) ** 2,
    "solution": lambda x: jnp.sum(odd(jnp.linalg.solve(jnp.outer(x, x) + jnp.eye(3), odd(x)))),
    "library": lambda x: jax.nn.logsumexp(odd(x)) * jnp.sum(jax.nn.relu(x) * jax.nn.softplus(x)),
    "static arguments": lambda x: jnp.sum(scaled(0.5, x * x) ** 3 * ordered(2, x)),
    "several results": lambda x: jnp.sum(several(x * x, x)[0]) * several(x, jnp.sin(x))[1],
    "integers and symbolic zeros": lambda x: jnp.sum(symbolic(x * x, 3) ** 2),
    "mapped": lambda x: jnp.sum(jax.vmap(lambda a: scaled(0.5, a) ** 2 * ordered(2, a))(x)),
    "in a branch": lambda x: lax.cond(x[0] > 0, lambda x: jnp.sum(ordered(2, x)), jnp.sum, x),
    "of custom_gradient": lambda x: jnp.sum(squared(x) * odd(x)),
}


#: Functions with rules within rules.
THIRD_REFUSED = ("in its own rule", "of each other", "static arguments", "mapped", "in a branch")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TOGETHER)
def test_rules_are_differentiated_as_jax_does(name):
    f = TOGETHER[name]
    gradient = jax.grad(f)
    with jax.enable_x64(True):
        x = jnp.asarray(X)
        expected = jax.jit(lambda x: (gradient(x), jax.jacfwd(gradient)(x), jax.jacfwd(jax.jacfwd(gradient))(x)))(x)
    slope, curvature, third = map(np.asarray, expected)
    direction = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(acc.gradient(f, **FAST)(X), slope, rtol=1e-10, atol=1e-12)
    for second in (acc.hessian(f, **FAST)(X), acc.jacobian(acc.gradient(f), **FAST)(X)):
        np.testing.assert_allclose(second, curvature, rtol=1e-10, atol=1e-12)
    (product,) = acc.hvp(f, **FAST)((X,), (direction,))
    np.testing.assert_allclose(product, curvature @ direction, rtol=1e-10, atol=1e-12)
    if name not in THIRD_REFUSED:
        np.testing.assert_allclose(acc.jacobian(acc.hessian(f), **FAST)(X), third, rtol=1e-9, atol=1e-11)


def test_rules_within_rules_are_refused_where_they_are_not_recorded():
    with pytest.raises(
        ArgumentError, match=r"needs a derivative of a jax\.custom_jvp or jax\.custom_vjp inside of another"
    ):
        acc.jacobian(acc.hessian(lambda x: jnp.sum(growing(x))), **FAST)(X)
    clipping = by_vjp(lambda x, g: jnp.clip(g, -1.0, 1.0))
    outer = by_jvp(lambda x, t: t * clipping(x))
    agree(lambda x: outer(x) * x, X)
    with pytest.raises(ArgumentError, match="whose own rule is not recorded"):
        acc.hessian(lambda x: jnp.sum(outer(x)), **FAST)(X)


def test_a_reverse_rule_whose_values_are_the_functions_own_is_followed_again():
    function = by_vjp(lambda x, g: g * jnp.cosh(x), again=True)

    def f(x):
        return jnp.sum(function(x * x) ** 2)

    with jax.enable_x64(True):
        expected = jax.jit(jax.jacrev(jax.grad(f)))(jnp.asarray(X))
    np.testing.assert_allclose(acc.hessian(f, **FAST)(X), expected, rtol=1e-10, atol=1e-12)


def test_taylor_coefficients_follow_the_rules():
    (value, coefficients) = acc.taylor(lambda x: odd(x[0]) * x[1])((X[:2],), (np.array([[1.0, 2.0], [0.0, 0.0]]),))
    with jax.enable_x64(True):
        along = lambda t: odd(X[0] + t) * (X[1] + 2.0 * t)  # noqa: E731
        expected = [jax.jacfwd(along)(0.0), jax.jacfwd(jax.jacfwd(along))(0.0) / 2.0]
    np.testing.assert_allclose(value, np.sin(X[0]) * X[1], rtol=1e-12)
    np.testing.assert_allclose(coefficients, expected, rtol=1e-10)


@pytest.mark.parametrize("size", [12, 1500])
def test_rules_on_long_arrays_and_in_loops(size):
    x = np.linspace(-1.0, 1.0, size)

    def f(x):
        return jnp.sum(by_formula(x) ** 2 * x) + lax.scan(lambda c, a: (by_formula(c) * 0.5 + a, c), 1.0, x)[0]

    by_formula = by_jvp(lambda x, t: t * jnp.cosh(x), again=False)
    (product,) = acc.hvp(f, **FAST)((x,), (x + 1.0,))
    with jax.enable_x64(True):
        slope, expected = jax.jvp(jax.grad(f), (jnp.asarray(x),), (jnp.asarray(x + 1.0),))
    np.testing.assert_allclose(acc.gradient(f, **FAST)(x), slope, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(product, expected, rtol=1e-10, atol=1e-12)
