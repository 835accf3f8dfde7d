"""Manifolds and derivatives in tangent spaces: against 50 digits, SciPy, and derivatives of the whole retraction."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import accumulus as acc
from accumulus.errors import ArgumentError
from accumulus.manifolds import SE2, SE3, SO2, SO3, Euclidean, Sphere, product

QUICK = {"effort": "fast", "time_limit": 0.0}
GROUPS = [SO2, SO3, SE2, SE3]
STORED = [*GROUPS, *(group.matrices for group in GROUPS)]
MANIFOLDS = [*STORED, Sphere(3), Sphere(2), product(SO3, Euclidean(3), SO2)]
#: Angles around the identity, where series end, and up to half a turn.
ANGLES = [0.0, 1e-9, 1e-4, 0.3, 0.999, 1.001, 1.999, 2.001, 3.1]
RANDOM = np.random.default_rng(7)

traced_rotations = pytest.mark.skipif(
    not hasattr(Rotation, "from_mrp") or bool(Rotation.__flags__ & (1 << 8)), reason="the class Rotation is compiled"
)


def turns(group):
    """Entries of a tangent vector that are a rotation."""
    return 1 if group in (SO2, SE2) else 3


def tangent(group, angle):
    delta = np.linspace(0.3, 1.1, group.dimension) * (-1.0) ** np.arange(group.dimension)
    delta[: turns(group)] *= angle / np.linalg.norm(delta[: turns(group)])
    return delta


def point(manifold, seed=3):
    random = np.random.default_rng(seed)
    if hasattr(manifold, "exp"):
        return manifold.exp(random.normal(size=manifold.dimension))
    x = random.normal(size=manifold.shape)
    if isinstance(manifold, Sphere):
        return x / np.linalg.norm(x)
    return np.concatenate([SO3.exp(x[:3]), x[4:7], SO2.exp(x[8:])])


def generator(group, delta):
    """The matrix of the Lie algebra, in 50 digits."""
    n = 3 if group in (SO3, SE3) else 2
    size = n + (group in (SE2, SE3))
    matrix = mp.zeros(size, size)
    omega = delta[: turns(group)]
    if n == 2:
        matrix[1, 0], matrix[0, 1] = omega[0], -omega[0]
    else:
        for k, (i, j) in enumerate([(2, 1), (0, 2), (1, 0)]):
            matrix[i, j], matrix[j, i] = omega[k], -omega[k]
    for k, v in enumerate(delta[turns(group) :]):
        matrix[k, n] = v
    return matrix


def exponential(group, delta):
    """The matrix exponential, in 50 digits: entries row by row."""
    with mp.workdps(50):
        return np.array([mp.mpf(e) for e in mp.expm(generator(group, [mp.mpf(d) for d in delta]))], object)


def differences(f, x, order):
    """Derivatives of a function of 50 digits of orders 1 or 2, by central differences."""
    with mp.workdps(50):
        h = mp.mpf(10) ** -14
        x = np.array([mp.mpf(e) for e in x], object)
        steps = [h * e for e in np.eye(len(x), dtype=int).astype(object)]
        if order == 1:
            results = [(f(x + e) - f(x - e)) / (2 * h) for e in steps]
            return np.stack(results, axis=-1).astype(float)
        rows = [
            [(f(x + a + b) - f(x + a - b) - f(x - a + b) + f(x - a - b)) / (4 * h * h) for b in steps] for a in steps
        ]
        return np.moveaxis(np.array(rows, object), -1, 0).astype(float)


class TestExponentials:
    """Exp and Log, and their derivatives of orders 1 and 2."""

    @pytest.mark.parametrize("group", GROUPS, ids=str)
    def test_against_fifty_digits(self, group):
        """At the identity derivatives are right to rounding."""

        def matrix(delta):
            return group.matrix(group.exp(delta)).ravel()

        first = acc.value_and_jacobian(matrix, **QUICK)
        second = acc.jacobian(acc.jacobian(matrix, **QUICK), **QUICK)
        for angle in (0.0, 1e-7, 0.999, 3.1):
            delta = tangent(group, angle)
            value, slope = first(delta)
            truth = exponential(group, delta).astype(float)
            np.testing.assert_allclose(value, truth, atol=6e-16)
            np.testing.assert_allclose(
                slope, differences(lambda d: exponential(group, d), delta, 1), atol=2e-15 * max(1.0, angle)
            )
        for angle in (0.0, 1e-7, 2.5):
            delta = tangent(group, angle)
            truth = differences(lambda d: exponential(group, d), delta, 2)
            np.testing.assert_allclose(second(delta), truth, atol=4e-15)

    @pytest.mark.parametrize("group", GROUPS, ids=str)
    def test_logarithms_are_inverse_to_second_order(self, group):
        def around(delta):
            return group.log(group.exp(delta))

        first = acc.value_and_jacobian(around, **QUICK)
        second = acc.jacobian(acc.jacobian(around, **QUICK), **QUICK)
        for angle in ANGLES:
            delta = tangent(group, angle)
            value, slope = first(delta)
            np.testing.assert_allclose(value, delta, atol=3e-15)
            np.testing.assert_allclose(slope, np.eye(group.dimension), atol=5e-14)
        for angle in (0.0, 1e-7, 0.999, 1.001):
            assert np.abs(second(tangent(group, angle))).max() < 5e-14

    @pytest.mark.parametrize("manifold", MANIFOLDS, ids=str)
    def test_coordinates_of_retracted_points(self, manifold):
        x = point(manifold)
        delta = RANDOM.uniform(-0.9, 0.9, (4, 5, manifold.dimension))
        y = manifold.retract(x, delta)
        assert y.shape == (4, 5, *manifold.shape)
        np.testing.assert_allclose(manifold.local_coordinates(x, y), delta, atol=3e-15)
        assert np.abs(manifold.local_coordinates(x, x[np.newaxis])).max() < 1e-15

    def test_half_a_turn(self):
        delta = np.array([[np.pi, 0.0, 0.0], [0.0, -np.pi, 0.0], [np.pi * 0.6, 0.0, np.pi * 0.8]])
        for group in (SO3, SO3.matrices):
            result = group.log(group.exp(delta))
            np.testing.assert_allclose(np.linalg.norm(result, axis=-1), np.pi, rtol=1e-15)
            np.testing.assert_allclose(group.exp(result), group.exp(delta), atol=1e-15)
        moved = np.concatenate([delta, [[1.0, 2.0, 3.0]] * 3], axis=1)
        np.testing.assert_allclose(SE3.exp(SE3.log(SE3.exp(moved))), SE3.exp(moved), atol=2e-15)

    def test_quaternions_of_either_sign_and_any_length(self):
        x, y = point(SO3), point(SO3, 4)
        expected = (Rotation.from_quat(x).inv() * Rotation.from_quat(y)).as_rotvec()
        for other in (y, -y, 3.0 * y):
            np.testing.assert_allclose(SO3.local_coordinates(x, other), expected, atol=1e-15)
        np.testing.assert_allclose(np.linalg.norm(SO3.retract(2.0 * x, [0.1, 0.2, 0.3])), 2.0)

    def test_scipy(self):
        x, p = point(SE3), np.array([0.3, -0.2, 0.7])
        rotation = Rotation.from_quat(x[:4])
        np.testing.assert_allclose(SO3.matrix(x[:4]), rotation.as_matrix(), atol=1e-15)
        np.testing.assert_allclose(SE3.apply(x, p), rotation.apply(p) + x[4:], atol=1e-15)
        np.testing.assert_allclose(SO3.log(x[:4]), rotation.as_rotvec(), atol=1e-15)
        moved = SO3.retract(rotation, [0.1, 0.2, 0.3])
        expected = rotation * Rotation.from_rotvec([0.1, 0.2, 0.3])
        np.testing.assert_allclose(moved.as_matrix(), expected.as_matrix(), atol=1e-15)
        np.testing.assert_allclose(SO3.local_coordinates(rotation, moved), [0.1, 0.2, 0.3], atol=1e-15)
        transform = pytest.importorskip("scipy", "1.16").spatial.transform.RigidTransform
        np.testing.assert_allclose(
            SE3.matrix(SE3.exp(tangent(SE3, 1.5))), transform.from_exp_coords(tangent(SE3, 1.5)).as_matrix(), atol=1e-15
        )

    @pytest.mark.parametrize("group", STORED, ids=str)
    def test_groups(self, group):
        x, y = point(group), point(group, 4)
        np.testing.assert_allclose(group.compose(x, group.inverse(x)), group.identity, atol=1e-15)
        np.testing.assert_allclose(group.matrix(group.compose(x, y)), group.matrix(x) @ group.matrix(y), atol=2e-15)
        p = np.arange(1.0, 1.0 + (2 if "2" in group.name else 3))
        np.testing.assert_allclose(group.apply(group.inverse(x), group.apply(x, p)), p, atol=2e-15)

    def test_arrays_of_jax_and_whole_numbers(self):
        with jax.enable_x64(True):
            for manifold in (SE3, SE2.matrices, Sphere(3)):
                x, delta = point(manifold), np.full(manifold.dimension, 0.2)
                y = jax.jit(manifold.retract)(jnp.array(x), jnp.array(delta))
                assert isinstance(y, jax.Array)
                np.testing.assert_allclose(y, manifold.retract(x, delta), atol=1e-15)
                np.testing.assert_allclose(jax.jit(manifold.local_coordinates)(jnp.array(x), y), delta, atol=2e-15)
        np.testing.assert_array_equal(SO3.retract([0, 0, 0, 1], [0, 0, 0]), [0.0, 0.0, 0.0, 1.0])

    def test_nan_propagates(self):
        x = point(SE3)
        x[2] = np.nan
        assert np.isnan(SE3.retract(x, np.zeros(6))).any()
        assert np.isnan(SE3.local_coordinates(x, point(SE3))).any()


def residual(manifold):
    """A function of a point that is not linear in it."""
    weights = np.linspace(0.5, 1.5, int(np.prod(manifold.shape))).reshape(manifold.shape)

    def f(x):
        return np.array([np.sum(weights * x) ** 2, np.sin(np.sum(x**3)), np.sum(x * x[::-1])])

    return f


class TestDerivatives:
    """Derivatives in tangent spaces."""

    @pytest.mark.parametrize("manifold", MANIFOLDS, ids=str)
    def test_are_those_of_the_whole_retraction(self, manifold):
        f, x, zero = residual(manifold), point(manifold), np.zeros(manifold.dimension)
        jac = acc.value_and_jacobian(f, on=manifold, **QUICK)
        value, actual = jac(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-14)
        whole = acc.jacobian(lambda delta, x: f(manifold.retract(x, delta)), **QUICK)
        np.testing.assert_allclose(actual, whole(zero, x), atol=5e-14)
        X = np.stack([x, point(manifold, 5)])
        np.testing.assert_allclose(jac.batch(X)[1], whole.batch(np.zeros((2, *zero.shape)), X), atol=5e-14)

    @pytest.mark.parametrize("manifold", [SO3, SE3, SO3.matrices, SE2, Sphere(3)], ids=str)
    def test_second_derivatives(self, manifold):
        vector, x, zero = residual(manifold), point(manifold), np.zeros(manifold.dimension)

        def f(x):
            return np.sum(vector(x) ** 2)

        def along(delta):
            return f(manifold.retract(x, delta))

        expected, v = acc.hessian(along, **QUICK)(zero), np.linspace(1.0, 2.0, manifold.dimension)
        value, gradient, actual = acc.value_gradient_hessian(f, on=manifold, **QUICK)(x)
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(gradient, acc.gradient(along, **QUICK)(zero), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(value, f(x), rtol=1e-14)
        (product_found,) = acc.hvp(f, on=manifold, **QUICK)((x,), (v,))
        np.testing.assert_allclose(product_found, expected @ v, rtol=1e-11, atol=1e-12)

    @pytest.mark.parametrize("group", STORED, ids=str)
    def test_results_in_manifolds(self, group):
        x, y = point(group), point(group, 4)

        def between(x, y):
            return group.compose(group.inverse(x), y)

        value, actual = acc.value_and_jacobian(between, argnums=(0, 1), on=group, into=group, **QUICK)(x, y)
        np.testing.assert_allclose(value, between(x, y), atol=2e-15)
        whole = acc.jacobian(
            lambda d, e: group.local_coordinates(value, between(group.retract(x, d), group.retract(y, e))),
            argnums=(0, 1),
            **QUICK,
        )
        zero = np.zeros(group.dimension)
        for one, other in zip(actual, whole(zero, zero), strict=True):
            np.testing.assert_allclose(one, other, atol=2e-14)
        np.testing.assert_allclose(actual[1], np.eye(group.dimension), atol=2e-15)

    def test_products(self):
        x, p = point(SE3), np.array([1.0, 2.0, 3.0])
        J, by_p = acc.jacobian(SE3.apply, argnums=(0, 1), on=(SE3, None), **QUICK)(x, p)
        v, w = np.linspace(-1.0, 1.0, 6), np.array([1.0, -2.0, 0.5])
        value, pushed = acc.jvp(SE3.apply, on=(SE3, None), **QUICK)((x, p), (v, None))
        np.testing.assert_allclose(pushed, J @ v, atol=1e-14)
        np.testing.assert_allclose(value, SE3.apply(x, p), atol=1e-15)
        _, (back, back_p) = acc.vjp(SE3.apply, on=(SE3, None), **QUICK)((x, p), w)
        np.testing.assert_allclose(back, w @ J, atol=1e-14)
        np.testing.assert_allclose(back_p, w @ by_p, atol=1e-14)

    def test_containers_and_names(self):
        def f(state, *, scale=1.0):
            return {"moved": scale * SE3.apply(state["pose"], state["points"][0]), "name": state["name"]}

        p = np.array([1.0, 2.0, 3.0])
        state = {"pose": point(SE3), "points": [p], "name": "left"}
        on = {"pose": SE3}
        actual = acc.jacobian(f, on=on, **QUICK)(state, scale=2.0)
        expected = 2.0 * acc.jacobian(SE3.apply, on=SE3, **QUICK)(state["pose"], p)
        np.testing.assert_allclose(actual["moved"]["pose"], expected, atol=1e-14)
        assert actual["moved"]["points"][0].shape == (3, 3)
        by_state, by_scale = acc.jacobian(f, argnames=("state", "scale"), on=(on, None), **QUICK)(state)["moved"]
        np.testing.assert_allclose(by_state["pose"], expected / 2.0, atol=1e-14)
        np.testing.assert_allclose(by_scale, SE3.apply(state["pose"], p), atol=1e-14)

    @traced_rotations
    def test_rotations_of_scipy(self):
        def between(first, second):
            return first.inv() * second

        r, s = Rotation.random(rng=1), Rotation.random(rng=2)
        value, actual = acc.value_and_jacobian(between, on=SO3, into=SO3, **QUICK)(r, s)
        assert value.approx_equal(r.inv() * s)
        np.testing.assert_allclose(actual, -(r.inv() * s).inv().as_matrix(), atol=1e-14)
        actual = acc.jacobian(between, argnums=1, on=SO3, into=SO3, **QUICK)(r, s)
        np.testing.assert_allclose(actual, np.eye(3), atol=1e-15)
        turned = acc.jacobian(lambda r, p: r.apply(p), on=SO3, **QUICK)
        p, many = np.array([1.0, 2.0, 3.0]), Rotation.random(4, rng=3)
        batch = turned.batch(many, p, in_axes=(0, None))
        for one, each in zip(batch, many, strict=True):
            np.testing.assert_allclose(one, turned(each, p), atol=1e-15)
            np.testing.assert_allclose(one, each.as_matrix() @ np.cross(np.eye(3), -p), atol=1e-14)
        by_entries = acc.jacobian(lambda q, p: Rotation.from_quat(q).apply(p), on=SO3, **QUICK)
        for q in (many[0].as_quat(), -many[0].as_quat(), 2.0 * many[0].as_quat()):
            np.testing.assert_allclose(by_entries(q, p), batch[0], atol=1e-14)
        with pytest.raises(ArgumentError, match="into=accumulus"):
            acc.jacobian(between, on=SO3, **QUICK)(r, s)

    def test_stacks_are_sparse(self):
        def chain(X):
            return SE2.local_coordinates(X[:-1], X[1:])

        X = np.stack([point(SE2, seed) for seed in range(4)])
        dense = acc.jacobian(chain, on=SE2, **QUICK)(X)
        assert dense.shape == (3, 3, 4, 3)
        sparse = acc.jacobian(chain, on=SE2, sparse="csr", **QUICK)
        result = sparse(X)
        np.testing.assert_allclose(result.toarray(), dense.reshape(9, 12), atol=1e-14)
        assert result.nnz < 9 * 6
        np.testing.assert_array_equal(sparse.nonzeros(X), result.data)
        assert (sparse.sparsity(X) != (result != 0)).nnz <= result.nnz
        by_name = acc.jacobian(lambda X, s=1.0: s * chain(X), on=SE2, sparse="csr", **QUICK)
        for scaled in (
            by_name.batch(X[np.newaxis], s=2.0),
            by_name.batch(X=X[np.newaxis], s=2.0, in_axes={"X": 0, "s": None}),
            by_name.batch(X[np.newaxis], 2.0, in_axes=(0, None)),
        ):
            np.testing.assert_allclose(scaled.data[0], 2.0 * result.data, rtol=1e-14)
        assert acc.jacobian(lambda X: np.sum(X * X, axis=1), on=SE2, **QUICK)(np.zeros((0, 4))).shape == (0, 0, 3)
        many = sparse.batch(np.stack([X, X[::-1]]))
        np.testing.assert_array_equal(many.data[0], result.data)
        long = acc.gradient(lambda X: np.sum(chain(X) ** 2), on=SE2, **QUICK)
        X = np.stack([point(SE2, seed) for seed in range(40)])
        np.testing.assert_allclose(long(X).ravel(), 2.0 * sparse(X).T @ chain(X).ravel(), atol=1e-12)
        assert long.sparsity(X).shape == (1, 120)

    def test_nested(self):
        """The derivative along two perturbations, one after the other, is no Hessian: they do not commute."""
        x, p = point(SO3), np.array([1.0, 2.0, 3.0])
        first = acc.jacobian(lambda x: SO3.apply(x, p), on=SO3, **QUICK)
        second = acc.jacobian(first, on=SO3, **QUICK)(x)
        R, e = SO3.matrix(x), np.stack([skew(v) for v in np.eye(3)])
        expected = np.einsum("ij,ljk,mkn,n->iml", R, e, e, p)
        np.testing.assert_allclose(second, expected, atol=1e-14)

    def test_decisions(self):
        def f(x):
            return SO3.apply(x, [1.0, 0.0, 0.0]) if x[3] > 0.0 else np.zeros(3)

        jac, x = acc.jacobian(f, on=SO3, **QUICK), point(SO3)
        x *= np.sign(x[3])
        assert np.abs(jac(x)).max() > 0.1
        np.testing.assert_array_equal(jac(-x), np.zeros((3, 3)))
        np.testing.assert_array_equal(jac.batch(np.stack([x, -x]))[0], jac(x))

    def test_whole_numbers_lists_and_parts(self):
        jac = acc.jacobian(SO3.apply, on=SO3, **QUICK)
        expected = np.array([[0.0, 3.0, -2.0], [-3.0, 0.0, 1.0], [2.0, -1.0, 0.0]])
        np.testing.assert_array_equal(jac(np.array([0, 0, 0, 1]), np.array([1, 2, 3])), expected)
        np.testing.assert_array_equal(jac([0.0, 0.0, 0.0, 1.0], [1.0, 2.0, 3.0]), expected)
        selected = acc.jacobian(SO3.apply, on=SO3, rows=[1], **QUICK)(
            np.array([0.0, 0.0, 0.0, 1.0]), np.arange(1.0, 4.0)
        )
        np.testing.assert_array_equal(selected, expected[1:2])

    def test_copies_and_files(self, tmp_path):
        assert all(pickle.loads(pickle.dumps(group)) is group for group in STORED)
        jac, x, p = acc.jacobian(SO3.apply, on=SO3, **QUICK), point(SO3), np.array([1.0, 2.0, 3.0])
        expected = jac(x, p)
        acc.save(jac, tmp_path / "jac.accumulus")
        np.testing.assert_array_equal(acc.load(tmp_path / "jac.accumulus")(x, p), expected)
        np.testing.assert_array_equal(jac.compile(x, p)(x, p), expected)


def skew(v):
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def test_operations():
    """A rotated point with its derivative takes less than the chain of both Jacobians, and 80, what SymForce writes."""
    x, p = point(SO3), np.array([1.0, 2.0, 3.0])

    def chain(x, p):
        value, ambient = acc.value_and_jacobian(SO3.apply)(x, p)
        a, b, c, w = x
        T = 0.5 * np.array([[w, -c, b], [c, w, -a], [-b, a, w], [-a, -b, -c]])
        return value, ambient @ T

    by_hand = acc.compile(chain)
    by_hand(x, p)
    on = acc.value_and_jacobian(SO3.apply, on=SO3)
    np.testing.assert_allclose(on(x, p)[1], by_hand(x, p)[1], atol=1e-14)
    assert on.operations <= 66 < by_hand.operations <= 80


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SO3.retract(np.zeros(3), np.zeros(3)), r"x has shape \(3,\); SO3 takes \(4,\)"),
        (lambda: SO3.retract(np.zeros(4), np.zeros(4)), r"delta has shape \(4,\)"),
        (lambda: SE3.exp(np.zeros(6, complex)), "real numbers"),
        (lambda: SE3.exp("left"), "real numbers"),
        (lambda: Sphere(1), "at least 2"),
        (lambda: Euclidean(2.5), "whole number"),
        (lambda: product(SO3.matrices), "vectors"),
        (product, "no factors"),
        (lambda: acc.jacobian(np.sin, on="SO3"), "expected one of accumulus.manifolds"),
        (lambda: acc.jacobian(np.sin, on=Sphere), "expected one of accumulus.manifolds"),
        (lambda: acc.gradient(np.sum, on=SO3, into=SO3), "returns one number"),
        (lambda: acc.linear_operator(np.sin, on=SO3), "no tangent space"),
        (lambda: acc.jacobian(SO3.apply, on=SO3, **QUICK)(np.zeros(3), np.zeros(3)), r"argument 0 .* shape \(3,\)"),
        (lambda: acc.jacobian(SO3.apply, on=(SO3, None), **QUICK)(np.zeros(4), np.zeros(3)), "not a container"),
        (
            lambda: acc.jacobian(SO3.apply, argnums=(0, 1), on=(SO3,), **QUICK)(np.zeros(4), np.zeros(3)),
            "one entry for each of the 2 arguments",
        ),
        (lambda: acc.jacobian(lambda d: d["q"], on={"x": SO3}, **QUICK)({"q": np.zeros(4)}), r"\['x'\]"),
        (lambda: acc.jacobian(lambda q: q[:3], on=SO3, into=SO3, **QUICK)(point(SO3)), r"the result .* shape \(3,\)"),
        (
            lambda: acc.jacobian(lambda r: r.as_quat(), on=Sphere(4), **QUICK)(Rotation.identity()),
            "expected accumulus.manifolds.SO3",
        ),
    ],
)
def test_bad_input_is_a_typed_error_that_names_it(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
