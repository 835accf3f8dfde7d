"""Calls with structures: batches, sparse results, programs, and calls of a form that was met before."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from structure_models import SYSTEM, Kind, Spring, X, flight, jacobian, leaves_of, system_force

import accumulus as acc
from accumulus.errors import ArgumentError


def test_axes_of_points_by_prefix():
    n = 5
    generator = np.random.default_rng(1)
    stiff, rest, xs = generator.uniform(1, 2, (n, 3)), generator.uniform(0, 1, n), generator.uniform(1, 2, (3, n))

    def f(spring, x, *, shift=0.0):
        return {"force": spring.force(x) + shift}

    jac = jacobian(f, argnums=(0, 1))
    points = [jac(Spring(stiff[k], rest[k]), xs[:, k]) for k in range(n)]
    many = jac.batch(Spring(stiff, rest), xs, in_axes=(0, 1))
    by_field = jac.batch(Spring(stiff.T, rest), xs, in_axes=(Spring(1, 0), -1))
    named = jac.batch(Spring(stiff, rest), x=xs, in_axes={"spring": 0, "x": 1})
    for k, (spring, x) in enumerate(point["force"] for point in points):
        for result in (many, by_field, named):
            np.testing.assert_allclose(result["force"][0].stiffness[k], spring.stiffness, rtol=1e-14)
            np.testing.assert_allclose(result["force"][0].rest[k], spring.rest, rtol=1e-14)
            np.testing.assert_allclose(result["force"][1][k], x, rtol=1e-14)
    shared = jac.batch(Spring(2.0, 0.5), xs.T, in_axes=(None, 0))
    assert shared["force"][0].stiffness.shape == (n, 3)
    shifted = jacobian(f, argnames="shift").batch(Spring(2.0, 0.5), xs.T, shift=np.ones(n), in_axes=(None, 0))
    np.testing.assert_array_equal(shifted["force"], np.ones((n, 3)))
    with pytest.raises(ArgumentError, match=r"in_axes of argument 0 of f is \(0,\); expected one entry each for"):
        jac.batch(Spring(stiff, rest), xs, in_axes=((0,), 1))
    with pytest.raises(ArgumentError, match="expected 2 entries"):
        jac.batch(Spring(stiff, rest), xs, in_axes=(0,))


def test_sparse_results_values_of_nonzeros_and_patterns():
    def f(p):
        return {"y": p["x"][1:] * p["x"][:-1] * p["k"]}

    jac = jacobian(f, sparse="csr")
    p = {"x": np.array([1.0, 2.0, 3.0]), "k": 2.0}
    dense, matrices = jacobian(f)(p), jac(p)
    np.testing.assert_array_equal(matrices["y"]["x"].toarray(), dense["y"]["x"])
    np.testing.assert_array_equal(matrices["y"]["k"].toarray().ravel(), dense["y"]["k"])
    assert jac.pattern["y"]["x"].shape == (2, 3)
    np.testing.assert_array_equal(jac.nonzeros(p)["y"]["x"], matrices["y"]["x"].data)
    many = jac.batch({"x": np.ones((4, 3)), "k": 2.0})
    assert many["y"]["x"][3].shape == (2, 3)


def test_reports_pickles_copies_and_checks():
    derivative = jacobian(system_force)
    expected = derivative(SYSTEM, X)
    again = pickle.loads(pickle.dumps(derivative))
    for one, other in zip(leaves_of(again(SYSTEM, X)), leaves_of(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    assert derivative.operations == derivative.report().operations
    assert "1 compiled" in repr(derivative)
    assert acc.check(system_force, SYSTEM, X, points=4, effort="fast").passed
    assert acc.check(flight, 2.0, {"k1": 1.0}, keywords={"drag": 0.5}, argnames="drag", points=3, effort="fast").passed


def test_traces_of_structures():
    trace = acc.trace(system_force, SYSTEM, X)
    plan = acc.plan(trace.linearize(), effort="fast")
    system, x = trace.compile(plan)(2.0, 0.25, X, 1.0, 1.5, 2.0, X)["forces"][0]
    np.testing.assert_allclose(system.springs[0].stiffness, (X - 0.25) / 1.5)
    np.testing.assert_allclose(x, np.eye(3) * 2.0 / 1.5)


# Calls of a form that was met before -----------------------------------------------------------------------------


def test_later_calls_accept_arguments_of_the_same_kind():
    """The short way through a call looks at types, keys, constants and fields again."""

    def f(p, x, *, mode="a"):
        return p["k"] * x * (2.0 if mode == "a" else 3.0) + sum(p.values(), 0.0) * (4.0 if "m" in p else 1.0)

    jac = jacobian(f, argnums=1)
    expected = jacobian(f, argnums=0)
    for _ in range(2):
        assert jac({"k": 2.0, "l": 1.0}, 3.0) == 4.0
        assert jac({"k": 5.0, "l": 1.0}, 3.0, mode="b") == 15.0
        assert jac({"l": 7.0, "k": 1.0}, 3.0, mode="a") == 2.0
        assert jac({"k": 2, "m": np.float32(1.0)}, x=np.float64(3.0)) == 4.0
        assert jac({"k": True, "l": 1.0}, 3.0) == 2.0
        assert expected({"k": 2.0, "m": 1.0}, 3.0) == {"k": 10.0, "m": 4.0}
        np.testing.assert_array_equal(jac({"k": X, "l": 0.0}, 3.0), 2.0 * X)
        np.testing.assert_array_equal(jac({"k": X.tolist(), "l": X}, X), np.diag(2.0 * X))
    with pytest.raises(ArgumentError, match=r"\['k'\] is a set of numbers"):
        jac({"k": {1.0}, "l": 1.0}, 3.0)
    with pytest.raises(KeyError):
        jac({"l": 1.0}, 3.0)


def test_objects_that_change_between_calls():
    spring = Spring(2.0)
    jac = jacobian(lambda spring, x: spring.force(x) + getattr(spring, "more", 0.0), argnums=1)
    assert [float(jac(spring, 3.0)) for _ in range(2)] == [2.0, 2.0]
    spring.stiffness, spring.kind = 5.0, Kind.SQUARE
    assert [float(jac(spring, 3.0)) for _ in range(2)] == [20.0, 20.0]
    spring.more = 1.0
    by_spring = jacobian(lambda spring, x: spring.force(x) + getattr(spring, "more", 0.0))
    assert by_spring(spring, 3.0).more == 1.0
    spring.stiffness = [1.0, 2.0]
    assert jacobian(lambda spring: spring.stiffness[1] * 3.0)(spring).stiffness.tolist() == [0.0, 3.0]


def test_long_and_deep_structures():
    numbers = tuple(float(k) for k in range(500))
    np.testing.assert_array_equal(acc.gradient(lambda p: sum(p) * p[0])(numbers)[1:], np.zeros(499))
    tree: Any = 1.5
    for _ in range(60):
        tree = [tree, "a"]

    def inside(tree):
        return inside(tree[0]) if isinstance(tree, list) else tree

    slope = acc.gradient(lambda tree: inside(tree) ** 2)
    assert [inside(slope(tree)) for _ in range(2)] == [3.0, 3.0]


def test_results_are_written_to_arrays_of_their_structure():
    def f(p):
        return {"y": p["x"] * p["k"], "z": p["k"] ** 2}

    jac = jacobian(f)
    points = {"x": np.arange(8.0).reshape(4, 2), "k": np.arange(4.0)}
    expected = jac.batch(points, in_axes=0)
    out = {"z": {"k": np.empty(4), "x": np.empty((4, 2))}, "y": {"k": np.empty((4, 2)), "x": np.empty((4, 2, 2))}}
    jac.batch(points, in_axes=0, out=out)
    for row in ("y", "z"):
        for column in ("x", "k"):
            np.testing.assert_array_equal(out[row][column], expected[row][column])
    flat = [np.empty((4, 2, 2)), np.empty((4, 2)), np.empty((4, 2)), np.empty(4)]
    jac.batch(points, in_axes=0, out=flat)
    np.testing.assert_array_equal(flat[1], expected["y"]["k"])
    with pytest.raises(
        ArgumentError, match=r"out has arrays at \['y'\]; expected .* at \['y'\]\['x'\], \['y'\]\['k'\]"
    ):
        jac.batch(points, in_axes=0, out={"y": np.empty(4)})


def test_programs_accept_the_arguments_of_their_compilation():
    program = jacobian(flight, argnames="rates").compile(2.0, {"k1": 2.0}, drag=0.5)
    assert program(3.0, {"k1": 5.0}, drag=0.0) == {"k1": 3.0}
    np.testing.assert_array_equal(program.batch(X, {"k1": 1.0}, drag=0.0, in_axes={"x": 0, "rates": None})["k1"], X)
    assert pickle.loads(pickle.dumps(program))(3.0, {"k1": 5.0}, drag=0.0) == {"k1": 3.0}
    for _ in range(2):  # the second time, what takes the numbers out is there already
        with pytest.raises(ArgumentError, match="another structure"):
            program(3.0, {"k2": 5.0}, drag=0.0)
        with pytest.raises(ArgumentError, match="another structure"):
            program(3.0, {"k1": 5.0, "k2": 1.0}, drag=0.0)
        assert program(3.0, rates={"k1": 5.0}, drag=0.0) == {"k1": 3.0}
        assert program(drag=0.0, rates={"k1": 5.0}, x=4.0) == {"k1": 4.0}
        assert program(3, {"k1": 5}, drag=0) == {"k1": 3.0}
        with pytest.raises(ArgumentError, match="do not fit"):
            program(3.0, drag=0.0)
    assert pickle.loads(pickle.dumps(program))(3.0, {"k1": 5.0}, drag=0.0) == {"k1": 3.0}
    sparse = jacobian(lambda p: p["x"] ** 2, sparse="csr").compile({"x": X})
    for _ in range(2):
        np.testing.assert_array_equal(sparse.nonzeros({"x": 2.0 * X})["x"], 4.0 * X)


def test_programs_take_no_other_number_of_arguments():
    program = jacobian(lambda x, y: x * y).compile(X, 2.0)
    for wrong in ((X,), (X, 2.0, np.empty((len(X), len(X)))), ()):
        with pytest.raises(ArgumentError, match="takes 2 arguments"):
            program(*wrong)


def test_errors_of_batches_and_numbers_name_the_path():
    jac = jacobian(lambda p, x: p["k"] * x)
    with pytest.raises(ArgumentError, match=r"argument 0 \(p\)\['k'\] has 3, argument 1 \(x\) has 4"):
        jac.batch({"k": np.ones(3)}, np.ones((4, 2)))
    with pytest.raises(ArgumentError, match=r"argument 0 \(p\)\['k'\] of <lambda> has shape \(3,\) and no axis 1"):
        jac.batch({"k": np.ones(3)}, np.ones((3, 2)), in_axes=({"k": 1}, 0))
    finite = jacobian(lambda p: p["k"][0] * p["l"], check_finite=True)
    with pytest.raises(ArgumentError, match=r"argument 0 \(p\)\['l'\] of <lambda> is nan"):
        finite({"k": [1.0, 2.0], "l": np.nan})


def test_decisions_on_numbers_in_containers():
    def f(p, x, *, limit):
        y = x * p.gain if x > limit else x + p.gain
        return y * sum(x**k for k in range(p.more["n"]))

    @dataclass
    class Choice:
        gain: Any
        more: dict[str, Any]

    jac = jacobian(f, argnums=1, argnames="limit")
    for _ in range(2):
        for x, n in ((0.5, 2), (2.0, 2), (2.0, 3)):
            gain, powers = 3.0, sum(x**k for k in range(n))
            slope = sum(k * x ** (k - 1) for k in range(1, n))
            expected = gain * powers + x * gain * slope if x > 1.0 else powers + (x + gain) * slope
            by_x, by_limit = jac(Choice(gain, {"n": n}), x, limit=1.0)
            np.testing.assert_allclose((by_x, by_limit), (expected, 0.0))
    many = jac.batch(Choice(3.0, {"n": 2}), np.array([0.5, 2.0]), limit=1.0, in_axes=(None, 0))[0]
    np.testing.assert_allclose(many, [1.5 + 3.5, 9.0 + 6.0])


def test_whole_numbers_in_containers_are_indices():
    x = np.arange(4.0)
    pick = jacobian(lambda x, indices: x[indices[1]] * x[indices[0]])
    for _ in range(2):
        np.testing.assert_array_equal(pick(x, (1, 3)), [0.0, 3.0, 0.0, 1.0])
        np.testing.assert_array_equal(pick(x, [2, 1]), [0.0, 2.0, 1.0, 0.0])
