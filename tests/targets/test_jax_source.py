"""JAX source: what it computes, straight and in loops, jitted, mapped and differentiated once more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import BY_NAME, OPERATIONS, Program, evaluate, fuse
from kernels import whole
from looped import unrolled
from strategies import points, programs
from test_c_loops import FUNCTIONS, program

import accumulus as acc
from accumulus import Tape
from accumulus.errors import ArgumentError, CompileError
from accumulus.targets import Segment, compile_tape, emit_source
from accumulus.targets.target import Code

jax = pytest.importorskip("jax")


def function_of(text, name="f"):
    scope = {}
    exec(compile(text, "<emitted>", "exec"), scope)
    return scope[name]


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


def test_every_operation_that_jax_has():
    X = np.array([[0.3, 0.7], [0.5, 0.25], [0.9, 0.1]])
    tape, names, refused = Tape(2), [], []
    for row in OPERATIONS[1:]:
        arguments = [0, 1, 0][: row.arity]
        if row.arguments[:1] == ("boolean",):
            arguments = [tape.apply("less", 0, 1), *([tape.apply("less", 1, 0)] if row.arity == 2 else arguments[1:])]
        elif row.arguments[:1] == ("order",):
            arguments[0] = tape.constant(2.0)
        try:
            emit_source(_of(row.name), whole(1), "jax")
        except CompileError:
            refused.append(row.name)
        else:
            names.append(row.name)
            tape.outputs.append(tape.apply(row.name, *arguments))
    actual = jax.jit(jax.vmap(function_of(emit_source(tape, whole(len(names)), "jax"))))(X)[0]
    expected = compile_tape(tape, whole(len(names)), "numpy").batch(X)[0]
    for k, name in enumerate(names):
        np.testing.assert_allclose(actual[:, k], expected[:, k], rtol=1e-9, atol=1e-12, err_msg=name)
    assert sum(not BY_NAME[name].is_scipys for name in refused) < 16
    with pytest.raises(CompileError, match="JAX has no j0"):
        emit_source(_of("j0"), whole(1), "jax")


def _of(name):
    tape = Tape(1)
    row = BY_NAME[name]
    truth = tape.apply("less", 0, 0)
    operands = {"boolean": truth, "order": tape.constant(2.0), "real": 0}
    tape.outputs = [tape.apply(name, *(operands[kind] for kind in row.arguments))]
    return tape


def test_derivatives_in_jax_pipelines():
    def f(x, k):
        return np.array([k * x[0] * x[1], np.sin(x[0]) / k])

    program = acc.value_and_jacobian(f, effort="fast", cache=False).compile(np.ones(2), 2.0)
    ours = function_of(program.source("jax", "slopes"), "slopes")
    x, k = np.array([0.5, 2.0]), 3.0
    value, slopes = jax.jit(ours)(x, k)
    np.testing.assert_allclose(value, f(x, k))
    np.testing.assert_allclose(np.reshape(slopes, (2, 2)), [[k * x[1], k * x[0]], [np.cos(x[0]) / k, 0.0]])
    second = jax.jit(jax.jacfwd(lambda x: ours(x, k)[1]))(x)
    np.testing.assert_allclose(second[2], [-np.sin(x[0]) / k, 0.0])
    assert ours(x.astype(np.float32), np.float32(k))[0].dtype == np.float32
    with pytest.raises(ArgumentError, match="not a name"):
        program.source("jax", "class")
    with pytest.raises(CompileError, match="source text only"):
        acc.jacobian(f, target="jax")(x, k)


def test_structural_zeros_constants_and_nothing():
    tape = Tape(1)
    tape.outputs = [0, tape.constant(-np.inf), tape.constant(2.5)]
    segments = (Segment(40, (0, 1), (3, 30)), Segment(2, (2,), (1,)), Segment(0, (), ()))
    actual = function_of(emit_source(tape, segments, "jax"))(np.array([1.5]))
    expected = np.zeros(40)
    expected[[3, 30]] = 1.5, -np.inf
    for one, other in zip(actual, (expected, [0.0, 2.5], []), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_loops_of_every_kind(function):
    x, k = np.random.default_rng(1).uniform(0.1, 1.0, 24), 1.3
    with unrolled(0):
        made = acc.value_and_jacobian(function, (0, 1), cache=False, effort="fast").compile(x, k)
        assert isinstance(made.tape, Program)
        result = jax.jit(function_of(made.source("jax")))(x, k)
        value, (by_x, by_k) = made(x, k)
    for one, other in zip(result, (value, by_x, by_k), strict=True):
        np.testing.assert_allclose(one, np.ravel(other), rtol=1e-9, atol=1e-11)


@settings(max_examples=3)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_programs_over_arrays(seed):
    tape, point = program(seed)
    count = len(tape.outputs)
    positions = np.random.default_rng(seed).permutation(count + 7)[:count]
    segments = [Segment(count + 7, slice(0, count), positions)]
    text = Code(tape, maps=fuse(tape)).source(segments, [(3,), (4,)], "jax", dtype="float64")
    expected = np.zeros(count + 7)
    expected[positions] = evaluate(tape, point)
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        actual = jax.jit(function_of(text))(point[:3], point[3:])[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-11)


@settings(max_examples=3)
@given(data=st.data())
def test_random_programs(data):
    drawn = data.draw(programs())
    text = emit_source(drawn.tape, drawn.segments, "numpy")
    X = data.draw(points(3, drawn.tape.inputs))
    try:
        function = function_of(emit_source(drawn.tape, drawn.segments, "jax"))
    except CompileError:
        return
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        actual = [function(x) for x in X]
    for k, x in enumerate(X):
        with np.errstate(all="ignore"):
            expected = function_of(text)(x)
        for one, other in zip(actual[k], expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
