"""Scalar operations within programs over arrays: every array function, in few blocks and in many, and written out."""

import ast
import builtins
from contextlib import suppress

import numpy as np
import pytest
from function_cases import CASES, program
from hypothesis import given
from hypothesis import strategies as st
from inside import Code, Program, evaluate, evaluate_with_bounds, flatten, fuse, record
from looped import assert_same, both, unrolled

import accumulus as acc
from accumulus import Tape
from accumulus.errors import CompileError
from accumulus.tape import program as sizes
from accumulus.tape import segments as segment_sizes
from accumulus.tape.moving import unroll
from accumulus.targets.kernel import Segment

SOURCES = [source for name, sources in CASES.items() if "empty_like" not in name for source in sources]
ARGUMENTS = (
    np.array([0.31, -1.2, 0.77]),
    np.array([[1.5, 0.3, -0.7], [0.2, 2.1, 0.4], [-0.6, 0.9, 1.8]]),
    np.array([[0.5, 1.1, -0.4, 2.2], [0.8, -1.6, 0.35, 0.15]]),
    0.7,
)
ENTRIES = np.concatenate([np.ravel(each) for each in ARGUMENTS])


def entries(result):
    return np.concatenate([np.empty(0), *(np.ravel(np.asarray(leaf)).astype(float) for _, leaf in flatten(result)[1])])


def unknown_names(text):
    """Names that are read in Python source and that nothing there gives a value."""
    names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    defined = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | set(dir(builtins))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            defined |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.Lambda):
            defined |= {each.arg for each in (*node.args.args, *node.args.kwonlyargs)} | {getattr(node, "name", "")}
    return {node.id for node in names} - defined


@pytest.mark.sampled(5, each="long")
@pytest.mark.parametrize("long", [2, 10**9])
@pytest.mark.parametrize("source", SOURCES)
def test_every_array_function(source, long, monkeypatch):
    monkeypatch.setattr(segment_sizes, "LONG_SEGMENT", long)
    function = program(source)

    def f(v, A, M, s):
        scalar = v[0] * s - np.sin(v[1])
        return [function(v, A, M, s), np.roll(v, 1) * scalar, np.tanh(scalar)]

    with unrolled(0):
        tape = record(f, ARGUMENTS, arrays=True, check=True).program
    expected = entries(f(*ARGUMENTS))
    assert not tape.is_straight
    np.testing.assert_allclose(evaluate(tape, ENTRIES), expected, rtol=1e-11, atol=1e-13)
    written = evaluate(unroll(tape), list(ENTRIES[:, np.newaxis]))
    np.testing.assert_allclose([float(np.ravel(each)[0]) for each in written], expected, rtol=1e-11, atol=1e-13)
    segments = [Segment(len(expected), slice(0, len(expected)), np.arange(len(expected)))]
    for language in ("jax", "numpy"):
        with suppress(CompileError):  # JAX has not all operations
            text = Code(tape, maps=fuse(tape)).source(
                segments, list(map(np.shape, ARGUMENTS)), language, dtype="float64"
            )
            assert not unknown_names(text)
    values, bounds = evaluate_with_bounds(tape, list(ENTRIES[:, np.newaxis]))
    assert not np.isfinite(bounds).any() or (abs(values[:, 0] - expected) <= bounds[:, 0] + 1e-13).all()


@pytest.mark.sampled(2, each="function")
@pytest.mark.parametrize("long", [2, 10**9])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.linalg.solve(x[:9].reshape(3, 3) + 3.0 * np.eye(3), x[9:12]),
        lambda x: np.linalg.eigvalsh(np.outer(x[:3], x[:3]) + np.diag(x[3:6]))[1] * x[7],
        lambda x: np.linalg.det(x[:9].reshape(3, 3)) + np.linalg.norm(x) * np.max(x[[1, 2, 1]]),
        lambda x: np.where((x[0] > 0.2) & (x[1] < 0.5) | ~(x[2] < x[3]), x[4] ** 2, np.exp(x[5])),
        lambda x: np.arctan2(0.0 * x[0], -1.0 - x[1]) + np.arctan2(0.0 - x[3] * 0.0, x[2] - 2.0),
        lambda x: x[3] * acc.gradient(lambda y: np.prod(np.sin(y[:4])) + np.max(y[[0, 2, 4]]) ** 2)(x)[2],
        lambda x: acc.implicit(lambda y, p: y**3 + y - p)(0.5, x[3]) * x[4],
        lambda x: x[2] if x[0] < x[1] else x[3] * 7.0,
        # more constants than operations
        lambda x: sum(np.where(x[k] > 0.1 * k, 1.5 + 0.37 * k, -2.0 - 0.21 * k) for k in range(12)) * x[0],
        lambda x: np.floor(3.0 * x[4]) + np.sign(x[5] - 0.4) * x[6] + x[7] % 0.3,
    ],
)
def test_derivatives(function, long, monkeypatch):
    monkeypatch.setattr(segment_sizes, "LONG_SEGMENT", long)
    x = np.linspace(0.1, 0.9, 12)
    _, actual, expected = both(
        lambda x: [np.sin(np.roll(x, 1)) * x, function(x), np.sum(function(x[::-1])) * np.cos(x)], x
    )
    assert_same(actual, expected)


def test_many_of_them_are_one_block_and_its_derivatives_are_planned(monkeypatch):
    def f(x):
        total = x[0]
        for k in range(300):
            total = np.sin(total) * x[k % 6] + x[(7 * k) % 6]
        return np.cumsum(x) * total

    x = np.linspace(0.1, 0.9, 6)
    monkeypatch.setattr(segment_sizes, "LONG_SEGMENT", 200)
    with unrolled(0):
        tape = record(f, [x], arrays=True).program
    assert len(tape.blocks) < 10
    _, actual, expected = both(f, x)
    assert_same(actual, expected)


names = st.sampled_from(
    ["add", "subtract", "multiply", "divide", "sin", "negative", "less", "equal", "select", "floor"]
)


@given(st.lists(st.tuples(names, st.integers(0, 10**6), st.integers(0, 10**6), st.booleans()), max_size=40))
def test_any_mixture(steps):
    """Programs of both kinds have the same operations, one by one and written out."""
    tapes = [Program(3), Tape(3)]
    values = [[0, 1, 2, tape.constant(0.0), tape.constant(2.5)] for tape in tapes]
    truths = [[], []]
    for name, one, other, is_array in steps:
        for tape, numbers, conditions in zip(tapes, values, truths, strict=True):
            a, b = numbers[one % len(numbers)], numbers[other % len(numbers)]
            if name in ("less", "equal"):
                conditions.append(tape.apply(name, a, b))
            elif name == "select":
                if conditions:
                    numbers.append(tape.select(conditions[one % len(conditions)], a, b))
            elif name in ("sin", "negative", "floor"):
                numbers.append(tape.apply(name, a))
            elif is_array and isinstance(tape, Program):
                numbers.extend(tape.apply(name, np.array([a, b]), np.array([b, a])).tolist())
            else:
                numbers.append(tape.apply(name, a, b))
                if is_array:
                    numbers.append(tape.apply(name, b, a))
    for tape, numbers in zip(tapes, values, strict=True):
        tape.outputs = numbers if isinstance(tape, Tape) else np.array(numbers)
    x = np.array([0.7, -1.3, 2.9])
    with np.errstate(all="ignore"):
        expected = [float(np.ravel(value)[0]) for value in evaluate(tapes[1], list(x[:, np.newaxis]))]
        actual = evaluate(tapes[0], x)
        written = [float(np.ravel(value)[0]) for value in evaluate(unroll(tapes[0]), list(x[:, np.newaxis]))]
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(written, expected, rtol=1e-12, atol=1e-12)
    for reference, truth in zip(truths[0], truths[1], strict=True):
        assert tapes[0].is_boolean(reference) == tapes[1].is_boolean(truth)


def test_the_tape_of_scalars_is_closed_once_there_are_loops():
    program = Program(2, scalar=True)
    scalars = program.open
    scalars.multiply(0, 1)
    assert program.in_loops(sizes.LONG)
    for write in (lambda: scalars.add(0, 1), lambda: scalars.constant(7.0)):
        with pytest.raises(AttributeError):
            write()
    assert len(program) == 3
