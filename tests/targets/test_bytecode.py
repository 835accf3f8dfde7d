"""Tables of operations: the values of the interpreter, the same bits at a point and in a batch, and once compiled."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import assert_same, expected, whole
from strategies import EXACT, points, programs

import accumulus as acc
from accumulus import Tape
from accumulus.targets import Segment, compile_tape
from accumulus.targets.kernel import Unit
from accumulus.targets.llvm import llvm_target
from accumulus.targets.llvm.bytecode import BytecodeKernel
from accumulus.targets.llvm.llvm_kernel import LLVMKernel

every_dtype = pytest.mark.parametrize("dtype", ["float64", "float32"])


def table(tape, segments, dtype="float64", arguments=None):
    return BytecodeKernel(Unit(tape, tuple(segments), dtype, arguments or ((tape.inputs,),), cache=False))


@every_dtype
@given(data=st.data())
def test_values_are_those_of_the_tape(dtype, data):
    drawn = data.draw(programs(names=EXACT))
    X = data.draw(points(13, drawn.tape.inputs, dtype))
    kernel = table(drawn.tape, drawn.segments, dtype)
    reference = expected(drawn.tape, drawn.segments, X)
    for actual, right in zip(kernel.batch(X), reference, strict=True):
        assert_same(actual, right)
    for actual, right in zip(kernel.batch(np.ascontiguousarray(X.T), transposed=True), reference, strict=True):
        assert_same(actual.T, right)
    for actual, right in zip(kernel(X[0]), reference, strict=True):
        assert_same(actual, right[0])


@every_dtype
@given(data=st.data())
def test_every_operation_has_the_bits_of_compiled_code(dtype, data):
    drawn = data.draw(programs())
    X = data.draw(points(13, drawn.tape.inputs, dtype))
    every = frozenset(range(drawn.tape.inputs, len(drawn.tape)))
    compiled = LLVMKernel(Unit(drawn.tape, drawn.segments, dtype, exact=every))
    kernel = table(drawn.tape, drawn.segments, dtype)
    batch, first = kernel.batch(X), kernel(X[0])
    for actual, right, one in zip(batch, compiled.batch(X), first, strict=True):
        assert_same(actual, right, signs=True)
        assert_same(one, right[0], signs=True)


def chain(length):
    """A recurrence, whose operations all wait for each other."""
    tape = Tape(3)
    value = 0
    for _ in range(length):
        value = tape.add(tape.multiply(tape.apply("sin", value), 1), 2)
    tape.outputs = [value, tape.constant(2.5), 1]
    return tape


def test_once_calls_have_taken_long_the_program_is_compiled_with_the_same_bits():
    tape = chain(500)
    segments = [Segment(5, (0, 1, 2), (4, 0, 2))]
    kernel, other = table(tape, segments), table(tape, segments)
    X = np.random.default_rng(0).normal(size=(100, 3))
    before = other.batch(X)[0]
    kernel._patience = 0.0
    batch = kernel.batch(X)[0]  # compiled in the middle of it
    assert kernel._compiled is not None
    assert other._compiled is None
    assert_same(batch, before, signs=True)
    assert_same(kernel.batch(X)[0], before, signs=True)
    assert_same(np.array([kernel(x)[0] for x in X]), before, signs=True)
    assert_same(kernel.batch(X.T.copy(), transposed=True)[0].T, before, signs=True)


def test_values_share_slots_and_outputs_keep_theirs():
    tape = chain(1000)
    kernel = table(tape, [Segment(3, (0, 1, 2), (0, 1, 2))])
    assert kernel._slot_count < 3 + len(tape.constants) + 5
    x = np.array([0.3, 0.7, -0.2])
    assert kernel(x)[0][1:].tolist() == [2.5, 0.7]


def test_threads_have_separate_memory():
    tape = chain(2000)
    kernel = table(tape, whole(3))
    X = np.random.default_rng(1).normal(size=(64, 3))
    expected = [kernel(x)[0] for x in X]
    with ThreadPoolExecutor(8) as pool:
        assert all(map(np.array_equal, pool.map(lambda x: kernel(x)[0], X), expected))
    assert_same(kernel.batch(X, threads=4)[0], np.array(expected))


def test_arguments_of_several_shapes_and_shared_ones():
    tape = Tape(5)
    tape.outputs = [tape.multiply(0, 4), tape.add(1, 3), tape.subtract(2, 4)]
    kernel = table(tape, whole(3), arguments=((2, 2), ()))
    A, b = np.arange(20.0).reshape(5, 2, 2), np.array(7.0)
    result = kernel.batch(A, b, shared=(False, True))[0]
    assert result.tolist() == [[7 * a[0, 0], a[0, 1] + a[1, 1], a[1, 0] - 7] for a in A]
    transposed = kernel.batch(np.ascontiguousarray(np.moveaxis(A, 0, -1)), b, shared=(False, True), transposed=True)[0]
    assert_same(transposed.T, result)


def test_programs_without_operations_and_copies():
    tape = Tape(2)
    tape.outputs = [1, tape.constant(4.0)]
    kernel = table(tape, whole(2))
    assert kernel(np.array([1.0, 2.0]))[0].tolist() == [2.0, 4.0]
    copy = pickle.loads(pickle.dumps(table(chain(10), whole(3))))
    assert copy(np.ones(3))[0].shape == (3,)
    assert copy.batch(np.ones((0, 3)))[0].shape == (0, 3)


def test_which_programs_are_tables(monkeypatch):
    monkeypatch.setattr(llvm_target, "LONGEST_STRAIGHT_LINE", 1000)
    assert isinstance(compile_tape(chain(1000), whole(3)), BytecodeKernel)
    assert isinstance(compile_tape(chain(300), whole(3)), LLVMKernel)
    wide = Tape(200)
    layer = list(range(200))
    for _ in range(10):
        layer = [wide.apply("sin", wide.multiply(a, b)) for a, b in zip(layer, layer[1:] + layer[:1], strict=True)]
    wide.outputs = layer
    assert isinstance(compile_tape(wide, whole(200)), LLVMKernel)  # in loops over runs


def test_derivatives_from_tables(monkeypatch):
    monkeypatch.setattr(llvm_target, "LONGEST_STRAIGHT_LINE", 0)

    def step(x):
        p, v = x
        for _ in range(20):
            p, v = p + 0.1 * v, v - 0.1 * np.where(p > 0.2, np.sin(p), p**3)
        return np.array([p, v, np.maximum(p, v)])

    x = np.array([0.3, -0.8])
    J = acc.jacobian(step, cache=False)
    actual = J(x)
    h = 1e-6
    expected = np.stack([(step(x + h * e) - step(x - h * e)) / (2 * h) for e in np.eye(2)], axis=1)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    X = x + 0.01 * np.random.default_rng(0).normal(size=(50, 2))
    assert_same(J.batch(X), np.array([J(each) for each in X]))
