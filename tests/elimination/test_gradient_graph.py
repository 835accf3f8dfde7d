"""Graphs of gradients: their mirror, and Hessians by any plan of theirs against 50 digits and JAX."""

from __future__ import annotations

import numpy as np
import pytest
from exact import EXACT, exact_jacobian, mp, mpf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import evaluate
from programs import SMOOTH, programs

import accumulus as acc
from accumulus import DifferentiationGraph, Tape
from accumulus.elimination.emit import emit
from accumulus.elimination.gradient_graph import SymmetricGraph, eliminate_pairs, is_mirrored, linearize_gradient
from accumulus.elimination.implicit import fixed_solutions
from accumulus.errors import ArgumentError, GraphError
from accumulus.tape.live import unattached

STEP = mpf(10) ** -18


def exact_hessian(tape: Tape, point: list[float]) -> np.ndarray:
    """Central differences of the gradient in 50 digits."""
    first = tape.copy()
    del first.outputs[1:]
    rows = []
    for k in range(tape.inputs):
        moved = [[mpf(x) + sign * STEP * (j == k) for j, x in enumerate(point)] for sign in (1, -1)]
        above, below = (np.array(exact_jacobian(first, at)[0]) for at in moved)
        rows.append((above - below) / (2 * STEP))
    return np.array(rows)


def second_differences(tape: Tape, point: list[float]) -> np.ndarray:
    """Second central differences of the values in 50 digits."""
    step = mpf(10) ** -10

    def moved(*by: tuple[int, int]):
        at = [mpf(x) for x in point]
        for k, sign in by:
            at[k] += sign * step
        return evaluate(tape, at, EXACT, mpf)[0]

    def entry(i: int, j: int):
        same, other = (sum(sign * moved((i, sign), (j, way * sign)) * sign for sign in (1, -1)) for way in (1, -1))
        return (same - other) / (4 * step**2)

    return np.array([[entry(i, j) for j in range(tape.inputs)] for i in range(tape.inputs)])


def hessian_of(accumulation, point, arithmetic=EXACT, number=mpf) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and Hessian by the emitted tape."""
    tape = emit(accumulation)
    count = len(accumulation.graph.terminals)
    values = evaluate(tape, [number(x) for x in point], arithmetic, number)
    ends = len(values) - len(accumulation.entries)
    hessian = np.full((count, count), number(0.0))
    for (row, column), value in zip(accumulation.entries, values[ends:], strict=True):
        hessian[row, column] = hessian[column, row] = value
    return np.array(values[ends - count : ends]), hessian


def close(actual, expected) -> bool:
    """To within the errors of differences."""
    scale = max(mpf(1), *map(abs, expected.ravel()))
    return all(abs(a - b) <= scale * mpf(10) ** -12 for a, b in zip(actual.ravel(), expected.ravel(), strict=True))


@given(
    programs((*SMOOTH, "select", "less"), inputs=3, steps=12),
    st.lists(st.floats(0.1, 2.0), min_size=3, max_size=3),
    st.randoms(use_true_random=False),
)
@settings(max_examples=13)
def test_hessians_are_those_of_fifty_digits(program, point, rng):
    tape = program.tape()
    del tape.outputs[1:]
    with np.errstate(all="ignore"):
        expected = exact_hessian(tape, point)
    gradient = exact_jacobian(tape, point)[0]
    assume(all(mp.isfinite(x) and abs(x) < 1e6 for x in [*expected.ravel(), *gradient]))
    graph = linearize_gradient(tape).graph
    order = list(SymmetricGraph(graph).inner)
    rng.shuffle(order)
    for accumulation in (eliminate_pairs(graph, order), acc.plan(graph, "reverse", cache=False).accumulation):
        accumulation.verify()
        actual = hessian_of(accumulation, point)
        assume(all(map(mp.isfinite, actual[1].ravel())))
        assert close(actual[0], np.array(gradient))
        assert close(actual[1], expected)


def test_hessians_are_those_of_jax():
    jax = pytest.importorskip("jax")
    x = np.array([0.3, -0.7, 1.2])
    w = np.array([0.5, 2.0])

    def f(np, x, w):
        r = np.sqrt(x[0] ** 2 + x[1] ** 2 + x[2] ** 2)
        return w[0] * np.exp(x[0] * x[1]) / r + w[1] * np.where(x[2] > 0, np.sin(x[2]) ** 3, x[1] / r) * np.abs(x[1])

    graph = linearize_gradient(acc.trace(lambda x, w: f(np, x, w), x, w).tape, range(3)).graph
    plan = acc.plan(graph, cache=False)
    with jax.enable_x64(True):
        expected = np.array(jax.jit(jax.hessian(lambda x: f(jax.numpy, x, w)))(x))
    tape = emit(plan.accumulation)
    values = evaluate(tape, [*x, *w])
    actual = np.zeros((3, 3))
    for (row, column), value in zip(plan.accumulation.entries, values[4:], strict=True):
        actual[row, column] = actual[column, row] = value
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-14)


def test_branches_that_are_off_stay_off():
    tape = acc.trace(lambda x: np.where(x[0] > 0, np.log(x[0]), x[1] ** 2), np.array([-1.0, 2.0])).tape
    graph = linearize_gradient(tape).graph
    accumulation = acc.plan(graph, cache=False).accumulation
    tape = emit(accumulation)
    with np.errstate(all="ignore"):
        values = evaluate(tape, [0.0, 2.0])
    assert values[1:3] == [0.0, 4.0]
    assert dict(zip(accumulation.entries, values[3:], strict=True)) == {(0, 0): 0.0, (1, 1): 2.0}


def test_outputs_and_rows_are_where_they_are_said_to_be():
    tape = Tape(3)
    tape.outputs = [tape.multiply(0, 2), 1]
    result = linearize_gradient(tape, [2, 1])
    assert result.rows == (-1, -1, 0, 1)
    assert result.columns == (2, 1)
    assert result.tape.outputs[:2] == tape.outputs
    assert result.tape.outputs[2:] == [0, result.tape.constant(0.0)]
    assert len(result.graph.roots) == len(result.graph.terminals) == 2
    assert not len(result.graph.sources)


def test_linear_functions_have_no_second_derivatives():
    tape = acc.trace(lambda x: x[0] + 3.0 * x[1] - x[0], np.ones(2)).tape
    plan = acc.plan(linearize_gradient(tape).graph, cache=False)
    assert not plan.accumulation.entries
    assert plan.cost == 0


def test_functions_without_second_derivatives_raise():
    tape = Tape(2)
    tape.outputs = [tape.apply("attach", tape.apply("sin", 0), 1)]
    assert not is_mirrored(tape)
    with pytest.raises(ArgumentError, match="custom first derivatives"):
        linearize_gradient(tape)
    with pytest.raises(ArgumentError, match="each once, out of 0 … 1"):
        linearize_gradient(tape, [2])
    with pytest.raises(ArgumentError, match="no output"):
        linearize_gradient(Tape(1))


def graph_with(mirror, labels=(0, 0), **options) -> DifferentiationGraph:
    """g0 by v by x0, or what is said to be its mirror."""
    return DifferentiationGraph.from_tape(Tape(2), labels, "gavx", [0], [3], [0, 2], [1, 3], mirror=mirror, **options)


def test_mirrors_are_checked():
    assert not graph_with([3, 2, 1, 0]).wants_all
    for mirror, message in (
        ([3, 1, 2, 0], "another vertex"),
        ([1, 0, 3, 2], "the root of the same position"),
        ([3, 2, 1], "expected 4 whole numbers"),
    ):
        with pytest.raises(GraphError, match=message):
            graph_with(mirror)
    with pytest.raises(GraphError, match="different labels"):
        graph_with([3, 2, 1, 0], (0, 1))
    with pytest.raises(GraphError, match="no mirror among the edges"):
        DifferentiationGraph.from_tape(Tape(1), [0], "gavx", [0], [3], [0], [1], mirror=[3, 2, 1, 0])
    with pytest.raises(GraphError, match="outside of 1 × 1"):
        graph_with([3, 2, 1, 0], selected=[(0, 1)])
    with pytest.raises(GraphError, match="pairs of positions"):
        graph_with([3, 2, 1, 0], selected=[0])


def pivoted(x):
    """Of a system that is solved with pivots, so that its solution has a derivative of its own."""
    y = np.linalg.solve(np.diag(3.0 * x) + np.sin(np.outer(x, x)) + np.arange(16.0).reshape(4, 4) / 7.0, x**2)
    return np.sum(y[1:] ** 3) * y[0]


def twice(x):
    """Of two systems, the matrix of the one the solution of the other, of which one entry is needed."""
    y = np.linalg.solve(np.diag(3.0 * x) + np.arange(16.0).reshape(4, 4) / 7.0, np.cos(x))
    return np.linalg.solve(np.outer(y, x) + 4.0 * np.eye(4), x * y)[1]


@pytest.mark.parametrize(("f", "count"), [(pivoted, 4), (twice, 8)])
def test_solutions_of_systems_have_second_derivatives(f, count):
    x = np.array([0.9, 1.3, 0.7, 1.1])
    tape = acc.trace(f, x).tape
    assert len(fixed_solutions(tape)) == count
    plan = acc.plan(linearize_gradient(tape).graph, cache=False)
    assert close(hessian_of(plan.accumulation, x.tolist())[1], second_differences(tape, x.tolist()))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.linalg.slogdet(np.diag(x) * 3.0 + np.sin(np.outer(x, x)))[1],
        lambda x: np.linalg.eigvalsh(np.diag(x) + np.outer(x, x))[1],
    ],
)
def test_derivatives_that_are_no_newton_steps_are_refused(f):
    tape = acc.trace(f, np.array([0.9, 1.3, 0.7, 1.1])).tape
    assert fixed_solutions(tape) is None


def step_of(residual) -> Tape:
    """A root of a² = x, with the step by this residual of x, the root held constant, and what that is."""
    tape = Tape(1)
    root = tape.apply("sqrt", 0)
    held = tape.apply("attach", root, tape.constant(0.0))
    weight = tape.apply("attach", tape.divide(tape.constant(0.5), root), tape.constant(0.0))
    step = tape.multiply(weight, residual(tape, held))
    tape.outputs = [tape.apply("sin", tape.apply("attach", root, step))]
    return tape


def test_newton_steps_are_recognised():
    right = step_of(lambda tape, a: tape.subtract(0, tape.multiply(a, a)))
    assert len(fixed_solutions(right)) == 1
    result = hessian_of(acc.plan(linearize_gradient(right).graph, cache=False).accumulation, [0.7])
    assert close(result[1], exact_hessian(unattached(right)[0], [0.7]))
    # of another slope, not 0, and not by what is held constant alone
    for residual in (
        lambda tape, a: tape.multiply(tape.constant(2.0), tape.subtract(0, tape.multiply(a, a))),
        lambda tape, a: tape.subtract(tape.add(0, 0), tape.multiply(a, a)),
        lambda tape, a: tape.subtract(0, tape.multiply(tape.multiply(a, a), tape.divide(0, tape.multiply(a, a)))),
    ):
        assert not is_mirrored(step_of(residual))
