"""Faults that were found in use, each by the smallest case that showed it; their kin is tested where it belongs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError, GraphError, TraceError, VerificationError


def value(f, *arguments, **options):
    return acc.value_and_jacobian(f, **options)(*arguments)[0]


def test_a_sparse_result_shares_nothing_with_the_program():
    jac = acc.jacobian(lambda x: np.array([x[0] * x[1], x[1]]), sparse="csr")
    A = jac(np.array([0.0, 1.0]))
    A.eliminate_zeros()
    np.testing.assert_array_equal(jac(np.array([2.0, 3.0])).toarray(), [[3.0, 2.0], [0.0, 1.0]])


@pytest.mark.parametrize("options", [{}, {"optimise": False}, {"exact_order": True}, {"target": "numpy"}], ids=str)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.floor(x / 49.0),
        lambda x: x // 49,
        lambda x: x % 49,
        lambda x: np.trunc(x / 49.0),
        lambda x: np.where(x / 49 >= 1, 1.0, x),
        lambda x: np.floor(x / 49.0) + 1.0 / x,
    ],
    ids=["floor", "floor_divide", "remainder", "trunc", "where", "reciprocal"],
)
def test_quotients_are_exact_where_they_jump(f, options):
    derivative = acc.value_and_jacobian(f, **options)
    for x in (1.0, 49.0, 98.0, 343.0, 1000.0):
        assert float(derivative(x)[0]) == f(x)
        assert float(derivative.batch(np.full(3, x))[0][1]) == f(x)


@pytest.mark.parametrize(
    ("f", "x", "y", "expected"),
    [
        (np.floor_divide, 1.0, 0.1, 9.0),
        (np.remainder, 1.0, 0.1, 1.0 % 0.1),
        (np.fmod, -0.25, 0.001, -0.00099999999999999481),
        (np.fmod, 2.0, np.inf, 2.0),
        (np.remainder, -2.0, np.inf, np.inf),
        (np.floor_divide, -2.0, np.inf, -1.0),
        (np.fmod, 1e300, 0.3, np.fmod(1e300, 0.3)),
    ],
)
def test_remainders_are_those_of_the_true_quotient(f, x, y, expected):
    assert f(x, y) == expected
    for target in ("llvm", "numpy"):
        assert float(value(lambda z: f(z[0], z[1]), np.array([x, y]), target=target)) == expected
        assert float(value(lambda z: f(z, y), x, target=target)) == expected


@pytest.mark.parametrize("kind", [TypeError, Exception])
@pytest.mark.parametrize("check", [True, False])
def test_a_swallowed_error_of_the_recording_is_not_lost(kind, check):
    def f(x):
        try:
            return len({x[0]}) * x
        except kind:
            return x**3

    with pytest.raises(TraceError):
        acc.jacobian(f, check=check)(np.array([1.0, 2.0]))


def test_code_in_the_current_directory_is_not_run(tmp_path):
    (tmp_path / "tempfile.py").write_text("import os; os.write(2, b'TAKEN OVER'); raise SystemExit(3)")
    graph = Path(__file__).parent / "data" / "graphs" / "PropaneCombustion.json"
    (tmp_path / "g.json").write_text(graph.read_text())
    environment = {
        **os.environ,
        "ACCUMULUS_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(acc.__file__).parents[1]),
    }
    # the parent itself is isolated, as the console script is; what it starts has to be, too
    command = [sys.executable, "-P", "-m", "accumulus", "plan", "g.json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "TAKEN OVER" not in done.stderr
    assert done.returncode == 0, done.stderr


def test_a_plan_that_was_changed_is_not_compiled():
    trace = acc.trace(lambda x: np.array([x[0] * x[1], np.sin(x[0])]), np.ones(2))
    plan = acc.plan(trace.linearize())
    (first, a), (second, b), *rest = plan.accumulation.entries.items()
    entries = {first: b, second: a, **dict(rest)}
    with pytest.raises(VerificationError):
        trace.compile(replace(plan, accumulation=replace(plan.accumulation, entries=entries)))


def test_the_options_of_a_plan_reach_its_program():
    trace = acc.trace(lambda x: x / x[0] + np.sin(x), np.ones(3))
    plan = acc.plan(trace.linearize(), objective="fma", seed=3)
    program = trace.compile(plan, exact_order=True, check_finite=True, optimise=False)
    assert str(plan.objective) == str(program.options.objective)
    assert (program.options.seed, program.options.exact_order, program.options.check_finite) == (3, True, True)
    assert program.options.optimise is False


def test_masked_arrays_and_matrices_are_refused_at_every_call():
    jac = acc.jacobian(lambda x: x * x[0])
    masked = np.ma.masked_array(np.ones(2), [True, False])
    for _ in range(2):
        with pytest.raises(ArgumentError):
            jac(masked)
        with pytest.raises(ArgumentError):
            jac.batch(np.ma.masked_array(np.ones((3, 2)), np.eye(3, 2)))
        jac(np.ones(2))
        jac.batch(np.ones((3, 2)))
    square = acc.jacobian(lambda x: x @ x)
    square(np.eye(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix(np.eye(2))
    with pytest.raises(ArgumentError):
        square(matrix)


def test_unit_labels_between_different_sizes_are_refused():
    edges = [("v0", "v1", 1.0), ("v0", "v4"), ("v1", "v3", -1.0), ("v3", "v4", 1.0), ("v3", "v6"), ("v4", "v5")]
    with pytest.raises(GraphError):
        acc.DifferentiationGraph(edges, sizes={"v0": 3, "v1": 3, "v3": 1, "v4": 4, "v5": 2, "v6": 3})


def test_the_sign_of_a_zero_decides_an_angle():
    for options in ({}, {"exact_order": True}):
        results = [float(value(np.arctan2, y, -1.0, **options)) for y in (0.0, -0.0)]
        np.testing.assert_allclose(results, [np.pi, -np.pi])


def test_static_zeros_of_both_signs_are_two_programs():
    f = acc.jacobian(lambda x, zero: x * np.copysign(1.0, zero), static_argnums=1)
    assert [float(f(2.0, 0.0)), float(f(2.0, -0.0))] == [1.0, -1.0]


@pytest.mark.parametrize("f", [np.max, np.min, lambda x: np.linalg.norm(x, np.inf)], ids=["max", "min", "norm"])
def test_ties_share_evenly(f):
    np.testing.assert_allclose(acc.gradient(f)(np.ones(3)), np.full(3, 1 / 3))


def test_contiguous_arrays_have_at_least_one_axis():
    assert value(np.ascontiguousarray, 2.0).shape == np.ascontiguousarray(2.0).shape


def test_roundings_of_numpy_are_recorded_or_refused():
    integers = np.array([1, 2])
    for f in (lambda x: np.full_like(integers, x), lambda x: (x * np.ones(2)).astype(np.float32)):
        try:
            result = value(f, 1.7)
        except TraceError:
            continue
        np.testing.assert_array_equal(result, f(1.7))


def test_unaligned_arrays_are_read_right():
    raw = np.zeros(8 * 4 + 1, np.uint8)
    unaligned = raw[1:].view(np.float64)
    unaligned[:] = [1.0, 2.0, 3.0, 4.0]
    jac = acc.jacobian(lambda x: x * x)
    np.testing.assert_array_equal(jac(unaligned), np.diag([2.0, 4.0, 6.0, 8.0]))
    np.testing.assert_array_equal(jac.batch(unaligned.reshape(2, 2))[1], np.diag([6.0, 8.0]))


HUGE = 10**400


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: acc.jacobian(lambda x: x)(HUGE), ArgumentError),
        (lambda: acc.jacobian(lambda x: x, time_limit=HUGE), ArgumentError),
        (lambda: acc.DifferentiationGraph([("y", "x")], sizes={"x": HUGE}), GraphError),
        (lambda: acc.DifferentiationGraph([("y", "x", HUGE)]), GraphError),
    ],
    ids=["argument", "time_limit", "size", "label"],
)
def test_huge_numbers_are_typed_errors(call, error):
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("name", ["sources", "targets", "kinds", "sizes"])
def test_arrays_of_a_graph_are_read_only(name):
    graph = acc.DifferentiationGraph([("y", "a"), ("a", "x")])
    with pytest.raises(ValueError, match="read-only"):
        getattr(graph, name)[0] = 1


def product(x):
    return x * x[0]


def test_a_derivative_can_be_pickled():
    jac = acc.jacobian(product)
    expected = jac(np.ones(2))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(jac))(np.ones(2)), expected)


def test_shared_arguments_of_a_batch_are_said_to_be_shared():
    jac = acc.jacobian(lambda p, x: p[0] * x + p[1] * np.sin(x) + p[2], argnums=1)
    p, X = np.array([2.0, 3.0, 4.0]), np.random.default_rng(0).normal(size=(3, 2))
    result = jac.batch(p, X, in_axes=(None, 0))
    np.testing.assert_array_equal(result, [jac(p, x) for x in X])
    with pytest.raises(ArgumentError, match="in_axes"):
        jac.batch(p, X)  # three points, three parameters: as it stands, it could be either


class Spring:
    def __init__(self):
        self.stiffness = 2.0

    def force(self, x):
        return self.stiffness * x


def test_current_closures_and_attributes_count():
    factor = 2.0
    jac = acc.jacobian(lambda x: factor * x)
    assert float(jac(1.0)) == 2.0
    factor = 5.0
    assert float(jac(1.0)) == 5.0
    spring = Spring()
    slope = acc.jacobian(spring.force)
    assert float(slope(1.0)) == 2.0
    spring.stiffness = 7.0
    assert float(slope(1.0)) == 7.0
    np.testing.assert_array_equal(slope.batch(np.ones(3)), [7.0, 7.0, 7.0])


def test_keyword_arguments_are_bound_by_name():
    jac = acc.jacobian(lambda x, k=2.0: k * x)
    assert [float(jac(1.0, k=3.0)), float(jac(x=1.0, k=4.0)), float(jac(1.0))] == [3.0, 4.0, 2.0]
