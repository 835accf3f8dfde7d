"""Loops over arrays as calls of one compiled iteration: the derivatives of all kinds, batches, sources and files."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from looped import unrolled
from rolling import iterating

import accumulus as acc
from accumulus.programs import iterated, lowering
from accumulus.targets.llvm.maps import LLVMLoops

SIZE, STEPS = 7, 12
DRAW = np.random.default_rng(0)
ARGUMENTS = DRAW.normal(size=SIZE), np.array([0.3, 0.5]), DRAW.normal(size=(STEPS, SIZE))


@pytest.fixture(autouse=True)
def short():
    with unrolled(0), iterating(), jax.enable_x64(True):
        yield


def step(np, u, k, w):
    return u + 0.05 * k[0] * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1)) - k[1] * np.sin(u) ** 3 + w * np.cos(u)


def path(u, k, forces):
    energy = 0.0
    for t in range(STEPS):
        u = step(np, u, k, forces[t])
        energy = energy + np.sum(u * u) * 0.01
    return u, energy


def path_in_jax(u, k, forces):
    def body(state, w):
        u, energy = state
        u = step(jnp, u, k, w)
        return (u, energy + jnp.sum(u * u) * 0.01), None

    (u, energy), _ = jax.lax.scan(body, (u, 0.0), forces)
    return u, energy


def number(u, k, forces):
    u, energy = path(u, k, forces)
    return energy + np.sum(u[:3])


def number_in_jax(u, k, forces):
    u, energy = path_in_jax(u, k, forces)
    return energy + jnp.sum(u[:3])


def several(u, k, forces):
    u, energy = path(u, k, forces)
    return np.stack([energy, u[0] * u[1], u[2]])


def several_in_jax(u, k, forces):
    u, energy = path_in_jax(u, k, forces)
    return jnp.stack([energy, u[0] * u[1], u[2]])


ALL = 0, 1, 2
GRADIENT = jax.jit(jax.grad(number_in_jax, ALL))


def agree(actual, expected, tolerance=1e-11):
    for one, other in zip(jax.tree_util.tree_leaves(actual), jax.tree_util.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def has_calls(derivative, *arguments):
    return bool(derivative.compile(*arguments).tape.calls)


@pytest.mark.parametrize("argnums", [0, 1, 2, ALL])
def test_gradients_with_respect_to_the_state_varying_and_common_values(argnums):
    derivative = acc.gradient(number, argnums, cache=False)
    expected = GRADIENT(*ARGUMENTS)
    agree(derivative(*ARGUMENTS), expected if argnums == ALL else expected[argnums])
    assert has_calls(derivative, *ARGUMENTS)


def test_kinds():
    weights = np.array([1.0, 2.0, -1.0])
    pulled = jax.jit(lambda *x: jax.vjp(several_in_jax, *x)[1](weights))(*ARGUMENTS)
    for make, function, arguments, expected in (
        (acc.value_and_gradient, number, ARGUMENTS, jax.jit(jax.value_and_grad(number_in_jax))(*ARGUMENTS)),
        (acc.jacobian, several, ARGUMENTS, jax.jit(jax.jacrev(several_in_jax))(*ARGUMENTS)),
        (acc.compile, several, ARGUMENTS, jax.jit(several_in_jax)(*ARGUMENTS)),
        (acc.vjp, several, (ARGUMENTS, weights), (jax.jit(several_in_jax)(*ARGUMENTS), pulled)),
    ):
        derivative = make(function, cache=False)
        agree(derivative(*arguments), expected)
    assert has_calls(acc.compile(several, cache=False), *ARGUMENTS)


DIRECTIONS = tuple(np.cos(np.arange(each.size)).reshape(each.shape) for each in ARGUMENTS)


def test_products_with_directions():
    expected = jax.jit(lambda: jax.jvp(number_in_jax, ARGUMENTS, DIRECTIONS))()
    derivative = acc.jvp(number, cache=False)
    agree(derivative(ARGUMENTS, DIRECTIONS), expected)
    by_constants = jax.jit(lambda k: jax.jacfwd(path_in_jax, 1)(ARGUMENTS[0], k, ARGUMENTS[2]))
    derivative = acc.jacobian(path, 1, cache=False)
    agree(derivative(*ARGUMENTS), by_constants(ARGUMENTS[1]))
    assert has_calls(derivative, *ARGUMENTS)
    program = derivative.compile(*ARGUMENTS)
    scope = {}
    exec(program.source("numpy"), scope)
    agree([np.ravel(each) for each in scope["f"](*ARGUMENTS)], [np.ravel(each) for each in by_constants(ARGUMENTS[1])])


def curved(u):
    return jax.grad(number_in_jax)(u, *ARGUMENTS[1:])


def test_products_with_hessians(monkeypatch):
    calls = []
    again = lowering.gradient_by_loops
    monkeypatch.setattr(lowering, "gradient_by_loops", lambda *arguments: calls.append(again(*arguments)) or calls[-1])
    for argnums in (0, 1, 2):

        def f(x, argnums=argnums):
            return number(*ARGUMENTS[:argnums], x, *ARGUMENTS[argnums + 1 :])

        def slope(x, argnums=argnums):
            return jax.grad(number_in_jax, argnums)(*ARGUMENTS[:argnums], x, *ARGUMENTS[argnums + 1 :])

        at, along = (ARGUMENTS[argnums],), (DIRECTIONS[argnums],)
        expected = jax.jit(lambda at, along, slope=slope: jax.jvp(slope, at, along)[1])(at, along)
        agree(acc.hvp(f, cache=False)(at, along), expected)
    assert all(len(gradient.program.calls) >= 2 for gradient in calls)


def test_products_with_hessians_where_zeros_have_no_value(monkeypatch):
    gradients = []
    again = lowering.gradient_by_loops
    monkeypatch.setattr(lowering, "gradient_by_loops", lambda *x: gradients.append(again(*x)) or gradients[-1])

    def f(u, k):
        total = 0.0
        for _ in range(STEPS):
            u = u + 0.1 * np.log(u) * np.roll(u, 1) + k / u
            total = total + np.sum(np.sqrt(u))
        return total

    def f_in_jax(u, k):
        def body(state, _):
            u, total = state
            u = u + 0.1 * jnp.log(u) * jnp.roll(u, 1) + k / u
            return (u, total + jnp.sum(jnp.sqrt(u))), None

        return jax.lax.scan(body, (u, 0.0), None, STEPS)[0][1]

    at, along = (np.linspace(1.0, 2.0, SIZE), 0.3), (np.ones(SIZE), -0.5)
    expected = jax.jit(lambda at, along: jax.jvp(jax.grad(f_in_jax, (0, 1)), at, along)[1])(at, along)
    derivative = acc.hvp(f, cache=False)
    agree(derivative(at, along), expected, 1e-9)
    assert gradients[0] is not None
    assert "forward" in str(derivative.report())


def test_other_derivatives_are_written_out():
    derivative = acc.hessian(lambda u: number(u, *ARGUMENTS[1:]), cache=False)
    agree(derivative(ARGUMENTS[0]), jax.jit(jax.jacfwd(curved))(ARGUMENTS[0]))
    assert not has_calls(derivative, ARGUMENTS[0])


def test_batches_threads_and_further_calls():
    derivative = acc.gradient(number, ALL, cache=False)
    points = [np.stack([each, 0.9 * each, 0.8 * each, -each]) for each in ARGUMENTS]
    expected = [GRADIENT(*[each[k] for each in points]) for k in range(4)]
    for threads in (1, 2):
        agree(derivative.batch(*points, threads=threads), [np.stack([row[k] for row in expected]) for k in ALL])
    for k in (2, 0, 3):
        agree(derivative(*[each[k] for each in points]), expected[k])


def test_sources_files_and_copies_have_the_loop_written_out(tmp_path):
    derivative = acc.gradient(number, ALL, cache=False)
    program = derivative.compile(*ARGUMENTS)
    assert program.tape.calls
    expected = GRADIENT(*ARGUMENTS)
    scope = {}
    exec(program.source("numpy"), scope)
    actual = scope["f"](*ARGUMENTS)
    agree([np.ravel(each) for each in actual], [np.ravel(each) for each in expected])
    assert "void" in program.source("c")
    acc.save(derivative, tmp_path / "gradient.accumulus")
    agree(acc.load(tmp_path / "gradient.accumulus")(*ARGUMENTS), expected)
    agree(pickle.loads(pickle.dumps(program))(*ARGUMENTS), expected)


def test_products_of_matrices_in_an_iteration():
    matrix = DRAW.normal(size=(SIZE, SIZE)) / 3.0

    def network(matrix, inputs):
        state = inputs[0]
        for row in inputs:
            state = np.tanh(matrix @ state + row)
        return np.sum(state**2)

    def network_in_jax(matrix, inputs):
        state, _ = jax.lax.scan(lambda state, row: (jnp.tanh(matrix @ state + row), None), inputs[0], inputs)
        return jnp.sum(state**2)

    derivative = acc.gradient(network, (0, 1), cache=False)
    agree(derivative(matrix, ARGUMENTS[2]), jax.jit(jax.grad(network_in_jax, (0, 1)))(matrix, ARGUMENTS[2]))
    assert has_calls(derivative, matrix, ARGUMENTS[2])


def test_scans_of_long_states_and_loops_that_decide():
    def scanned(u, k):
        (u, energy), rows = acc.scan(lambda s, w: ((step(np, s[0], k, w), s[1] + s[0][0]), s[0][1]), (u, 0.0), FORCES)
        return energy + np.sum(u) + np.sum(rows)

    def until(u, k):
        while np.sum(u * u) > 1e-3:
            u = 0.7 * step(np, u, k, 0.0)
        return np.sum(u)

    for function in (scanned, until):
        derivative, (u, k, _) = acc.gradient(function, cache=False), ARGUMENTS
        direction, h = np.cos(np.arange(SIZE)), 1e-6
        difference = (function(u + h * direction, k) - function(u - h * direction, k)) / (2.0 * h)
        np.testing.assert_allclose(derivative(u, k) @ direction, difference, rtol=1e-6)


FORCES = ARGUMENTS[2]


def test_a_backward_run_that_differs_is_not_used(monkeypatch):
    monkeypatch.setattr(iterated.LoopProducts, "agrees", lambda self, arguments: False)
    derivative = acc.gradient(number, ALL, cache=False)
    agree(derivative(*ARGUMENTS), GRADIENT(*ARGUMENTS))
    assert not has_calls(derivative, *ARGUMENTS)


def test_kinks_within_the_steps_of_differences_keep_loops():
    """Differences across kinks disagree with derivatives; a run in the other direction agrees with them."""

    def path_with_kinks(np, u, k):
        for _ in range(STEPS):
            u = step(np, u, k, 0.0) + 1e-8 * np.abs(np.sin(1e7 * u))
        return np.sum(u * u)

    u, k, _ = ARGUMENTS
    derivative = acc.gradient(lambda u, k: path_with_kinks(np, u, k), (0, 1), cache=False)
    agree(derivative(u, k), jax.grad(lambda u, k: path_with_kinks(jnp, u, k), (0, 1))(u, k), 1e-6)
    assert has_calls(derivative, u, k)


@pytest.mark.parametrize("way", [iterated.Backward, iterated.Forward])
def test_wrong_products_of_an_iteration_are_noticed(monkeypatch, way):
    right = way.run

    def wrong(self, factors, memory, *values):
        memory.carries[3] += 0.1
        return right(self, factors, memory, *values)

    monkeypatch.setattr(way, "run", wrong)
    if way is iterated.Backward:
        derivative = acc.gradient(number, ALL, cache=False)
        agree(derivative(*ARGUMENTS), GRADIENT(*ARGUMENTS))
        assert not has_calls(derivative, *ARGUMENTS)
    else:
        expected = jax.jit(lambda: jax.jvp(number_in_jax, ARGUMENTS, DIRECTIONS))()
        agree(acc.jvp(number, cache=False)(ARGUMENTS, DIRECTIONS), expected)


def test_values_that_are_not_numbers_stay_so():
    def f(u):
        for _ in range(STEPS):
            u = np.sqrt(u - 0.05) * np.roll(u, 1)
        return np.sum(u)

    derivative = acc.gradient(f, cache=False)
    assert np.isfinite(derivative(np.full(SIZE, 1.2))).all()
    assert np.isnan(derivative(np.full(SIZE, 0.01))).all()


@pytest.mark.filterwarnings("error", "ignore::accumulus.errors.NaNWarning")
def test_values_that_overflow_where_products_are_compared_are_no_warnings():
    def f(u):
        for _ in range(STEPS):
            u = u * u + np.roll(u, 1)
        return np.sum(u)

    assert not np.isfinite(acc.gradient(f, cache=False)(np.full(SIZE, 3.0))).any()


def test_other_targets_have_the_blocks():
    for options in ({"target": "numpy"}, {"exact_order": True}):
        derivative = acc.gradient(number, ALL, cache=False, **options)
        agree(derivative(*ARGUMENTS), GRADIENT(*ARGUMENTS))


def test_sparse_jacobians_have_the_nonzeros_of_the_blocks():
    def apart(u):
        for _ in range(STEPS):
            u = 1.1 * np.sin(u)
        return u[:3]

    derivative = acc.jacobian(apart, sparse="csr", cache=False)
    assert derivative(ARGUMENTS[0]).nnz == 3


def test_opaque_functions_in_an_iteration():
    square = acc.custom(np.square, vjp=lambda arguments, weights: 2.0 * arguments[0] * weights)

    def f(u):
        for _ in range(STEPS):
            u = 0.3 * square(u) + 0.5 * np.roll(u, 1)
        return np.sum(u)

    derivative, u, h = acc.gradient(f, cache=False), np.linspace(0.2, 0.9, SIZE), 1e-6
    differences = [(f(u + h * e) - f(u - h * e)) / (2.0 * h) for e in np.eye(SIZE)]
    np.testing.assert_allclose(derivative(u), differences, rtol=1e-6)
    assert has_calls(derivative, u)


def test_reports_say_how_many_iterations_there_are():
    derivative = acc.gradient(number, cache=False)
    derivative(*ARGUMENTS)
    text = str(derivative.report())
    assert "iterations" in text
    assert "backward" in text


POINTS = 19  # more than two vectors of eight, and a rest


def first(u, k, forces):
    return path(u, k, forces)[0]


@pytest.mark.parametrize(
    ("kind", "function"),
    [("gradient", number), ("hessian", number), ("jacobian", several), ("jacobian", first), ("compile", several),
     ("jvp", number), ("vjp", first), ("hvp", number)],
)  # fmt: skip
@pytest.mark.parametrize("shared", [False, True])
def test_points_in_lanes_equal_single_points(kind, function, shared, monkeypatch):
    calls, together = [], LLVMLoops._together
    monkeypatch.setattr(LLVMLoops, "_is_to_be_measured", lambda loops: bool(vars(loops).update(_pays_in_lanes=True)))
    monkeypatch.setattr(LLVMLoops, "_together", lambda *given: calls.append(given) or together(*given))
    draw = np.random.default_rng(1)
    derivative = getattr(acc, kind)(function, *([1] if function is first and kind == "jacobian" else []), cache=False)
    x = [each * draw.uniform(0.9, 1.1, (POINTS, *each.shape)) for each in ARGUMENTS]
    seeds = draw.normal(size=(POINTS, SIZE)) if kind == "vjp" else [draw.normal(size=each.shape) for each in x]
    axes = (0, 0, 0)
    if shared:
        x[2], axes = ARGUMENTS[2], (0, 0, None)
    if kind in ("jvp", "vjp", "hvp"):
        many, axes = (tuple(x), seeds if kind == "vjp" else tuple(seeds)), (axes, 0)
    else:
        many = tuple(x)

    def point(tree, k, axis):
        if isinstance(tree, tuple):
            inner = axis if isinstance(axis, tuple) else (axis,) * len(tree)
            return tuple(point(each, k, one) for each, one in zip(tree, inner, strict=True))
        return tree if axis is None else tree[k]

    results = leaves(derivative.batch(*many, in_axes=axes))
    for k in range(POINTS):
        alone = leaves(derivative(*point(many, k, axes)))
        for one, other in zip(alone, results, strict=True):
            np.testing.assert_array_equal(one, other[k])
    assert calls


def leaves(tree):
    return [leaf for each in tree for leaf in leaves(each)] if isinstance(tree, tuple | list) else [np.asarray(tree)]
