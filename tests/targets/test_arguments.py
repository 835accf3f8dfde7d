"""Kernels of several arguments, each read where it lies: against the same program with its inputs in one row."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import Guarded, assert_same, expected, lanes, whole
from strategies import points, programs

from accumulus import Tape
from accumulus.errors import ArgumentError
from accumulus.targets import Segment, compile_tape, emit_source, targets

every_target = pytest.mark.parametrize("target", targets())
every_dtype = pytest.mark.parametrize("dtype", ["float64", "float32"])
#: What an argument of so many entries may look like.
SHAPES = {
    0: [(0,), (0, 3)],
    1: [(), (1,), (1, 1)],
    2: [(2,), (2, 1)],
    3: [(3,), (1, 3)],
    4: [(4,), (2, 2)],
    5: [(5,), (5, 1)],
}


@st.composite
def arguments(draw, entries):
    """Shapes of arguments that hold so many entries."""
    shapes, left = [], entries
    while left or not shapes:
        size = draw(st.integers(1 if left else 0, min(left, 5)))
        shapes.append(draw(st.sampled_from(SHAPES[size])))
        left -= size
    return shapes


def divided(X, shapes, shared, transposed):
    """Columns of X as arguments; those that are shared are of the first point."""
    actual, first = [], 0
    for shape, same in zip(shapes, shared, strict=True):
        size = int(np.prod(shape))
        block = X[:, first : first + size].reshape(len(X), *shape)
        first += size
        actual.append(np.array(block[0] if same else np.moveaxis(block, 0, -1) if transposed else block, order="C"))
    return actual


def alike(X, shapes, shared):
    """X with the entries of shared arguments as they are at the first point."""
    actual, first = X.copy(), 0
    for shape, same in zip(shapes, shared, strict=True):
        size = int(np.prod(shape))
        if same:
            actual[:, first : first + size] = X[0, first : first + size]
        first += size
    return actual


@pytest.mark.parametrize("target", ["llvm", "numpy"])  # a compiler for each example takes too long
@every_dtype
@given(data=st.data())
def test_arguments_are_read_as_if_they_were_one_row(target, dtype, data):
    program = data.draw(programs())
    width = lanes(dtype)
    count = data.draw(st.sampled_from([1, width - 1, width, width + 1, 3 * width + 2, 100]))
    X = data.draw(points(count, program.tape.inputs, dtype))
    shapes = data.draw(arguments(program.tape.inputs))
    shared = data.draw(st.lists(st.booleans(), min_size=len(shapes), max_size=len(shapes)))
    shared[data.draw(st.integers(0, len(shapes) - 1))] = False
    transposed, zeroed = data.draw(st.booleans()), data.draw(st.booleans())
    one = compile_tape(program.tape, program.segments, target, dtype)
    kernel = compile_tape(program.tape, program.segments, target, dtype, arguments=shapes)
    ulps = 0 if target == "llvm" else 64
    expected = one.batch(alike(X, shapes, shared))
    sizes = [(s.length, count) if transposed else (count, s.length) for s in program.segments]
    guards = [Guarded(size, dtype, data.draw(st.integers(0, 7))) for size in sizes]
    for guard in guards:
        guard.array[...] = 0
    out = [guard.array for guard in guards]
    given_arguments = divided(X, shapes, shared, transposed)
    before = [argument.copy() for argument in given_arguments]
    threads = data.draw(st.sampled_from([1, 2]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accumulus.targets.kernel.MINIMUM_WORK", 1e-12)
        kernel.batch(*given_arguments, shared=shared, out=out, transposed=transposed, zeroed=zeroed, threads=threads)
    for guard, result in zip(guards, expected, strict=True):
        guard.check()
        assert_same(guard.array.T if transposed else guard.array, result, ulps=ulps)
    for argument, copy in zip(given_arguments, before, strict=True):
        np.testing.assert_array_equal(argument, copy)
    for actual, result in zip(kernel(*divided(X, shapes, [True] * len(shapes), False)), expected, strict=True):
        assert_same(actual, result[0], ulps=ulps)


@given(data=st.data())
def test_emitted_source_takes_the_arguments_as_they_are(data):
    program = data.draw(programs())
    X = data.draw(points(7, program.tape.inputs))
    shapes = data.draw(arguments(program.tape.inputs))
    shared = [False, *data.draw(st.lists(st.booleans(), min_size=len(shapes) - 1, max_size=len(shapes) - 1))]
    scope: dict = {}
    exec(emit_source(program.tape, program.segments, "numpy", arguments=shapes), scope)
    with np.errstate(all="ignore"):
        results = scope["f"](*divided(X, shapes, shared, transposed=True))
    for actual, reference in zip(
        results, expected(program.tape, program.segments, alike(X, shapes, shared)), strict=True
    ):
        assert_same(actual.T, reference, ulps=64)


def weighted_sum(shapes):
    """A program that adds up all its inputs, the k-th 10^k times."""
    count = sum(int(np.prod(shape)) for shape in shapes)
    tape = Tape(count)
    total = tape.constant(0.0)
    for k in range(count):
        total = tape.add(total, tape.multiply(tape.constant(10.0**k), k))
    tape.outputs = [total]
    return tape


@every_dtype
def test_compiled_functions_take_numbers_of_all_kinds(dtype):
    shapes = [(), (2,)]
    kernel = compile_tape(weighted_sum(shapes), whole(1), dtype=dtype, arguments=shapes)
    point, x = kernel.point(), np.array([2, 3], dtype)
    out = np.empty((), dtype)
    for number in (1.0, 1, np.float64(1), np.float32(1), np.int64(1), np.array(1, dtype), np.ones(1, dtype)[0]):
        out[...] = 0
        assert point(number, x, out) is None
        assert out == 321
    for number in (-1, 2**70):
        assert point(number, x, out) is None
        assert out == np.array(number + 320.0, dtype)
    # fractions of float32 are what they are
    point(np.float32(0.1), x, out)
    assert out == np.array(np.float32(0.1), dtype) + 320.0


@every_dtype
def test_compiled_functions_compare_memory_if_none_follows_the_results(dtype):
    shapes, count = [(3,), (), (0,)], 4
    tape = Tape(count)
    tape.outputs = [tape.multiply(tape.constant(2.0), k) for k in range(count)]
    segments = [Segment(3, (0, 1, 2), (0, 1, 2)), Segment(1, (3,), (0,)), Segment(0, (), ())]
    kernel = compile_tape(tape, segments, dtype=dtype, arguments=shapes)
    point = kernel.point()
    memory = np.arange(20.0).astype(dtype)
    empty, number, x = np.empty(0, dtype), memory[10:11].reshape(()), memory[:3]
    before = memory.copy()
    for first, second, third in (
        (memory[2:5], memory[11:12], empty),  # the last entry of the argument
        (x, memory[11:12], empty),
        (memory[8:11], memory[12:13], empty),  # the number
        (memory[4:7], memory[6:7], empty),  # two results
        (memory[4:7], memory[4:5], empty),
        (memory[4:7], number, empty),
        (memory[4:7], memory[7:8], memory[5:5]),  # within another, though nothing is in it
        (memory[4:7], memory[7:8], memory[4:4]),
    ):
        assert point(x, number, np.empty(0, dtype), first, second, third, None) is NotImplemented
        np.testing.assert_array_equal(memory, before)
    same = np.empty(0, dtype)  # an array without entries, twice: the caller decides
    assert point(x, number, same, memory[4:7], memory[7:8], same, None) is NotImplemented
    for mark in (memory[15:18], np.empty(0, dtype), 1.0, True):  # no array or number stands for the mark
        assert point(x, number, empty, memory[4:7], memory[7:8], np.empty(0, dtype), mark) is NotImplemented
    assert point(x, number, empty, memory[4:7], memory[7:8], np.empty(0, dtype), None, None) is NotImplemented
    assert point(x, number, empty, memory[4:7], memory[7:8], None) is NotImplemented
    np.testing.assert_array_equal(memory, before)
    for given_number in (number, 10.0, np.float64(10.0)):  # arrays that touch, and numbers without memory
        memory[:] = before
        assert point(x, given_number, empty, memory[3:6], memory[11:12], np.empty(0, dtype), None) is None
        np.testing.assert_array_equal(memory[3:6], [0.0, 2.0, 4.0])
        assert memory[11] == 20.0
    memory[:] = before
    assert point(x, number, empty, memory[3:6], memory[6:7], np.empty(0, dtype)) is None
    np.testing.assert_array_equal(memory[:7], [0.0, 1.0, 2.0, 0.0, 2.0, 4.0, 20.0])


def test_compiled_functions_reject_arguments_without_leaving_an_error():
    shapes = [(), (2,)]
    kernel = compile_tape(weighted_sum(shapes), whole(1), arguments=shapes)
    point, x, out = kernel.point(), np.array([2.0, 3.0]), np.zeros(1)

    class Mine(np.ndarray):
        pass

    class Number(float):
        pass

    swapped, read_only = x.astype(">f8"), np.zeros(1)
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"\0" * 25, "u1")[1:17].view("f8")
    for wrong in (True, None, "1", 10**400, Number(1), 1j, np.zeros(1), np.array(1), np.zeros((1, 1)), [1.0]):
        assert point(wrong, x, out) is NotImplemented
    for wrong in (
        1.0,
        x[:1],
        x.reshape(1, 2),
        x.view(Mine),
        swapped,
        unaligned,
        np.zeros(4)[::2],
        x.astype("f4"),
        [2, 3],
    ):
        assert point(1.0, wrong, out) is NotImplemented
    for wrong in (read_only, np.zeros(2), np.zeros(1, "f4"), 1.0, None):
        assert point(1.0, x, wrong) is NotImplemented
    for wrong in ((), (1.0,), (1.0, x), (1.0, x, out, out)):
        assert point(*wrong) is NotImplemented
    assert out == 0
    assert not ctypes.pythonapi.PyErr_Occurred()


@every_target
def test_arguments_of_a_wrong_shape_are_named(target):
    kernel = compile_tape(weighted_sum([(), (2,)]), whole(1), target, arguments=[(), (2,)])
    X, t = np.ones((5, 2)), np.ones(5)
    cases = [
        ((X,), {}, "1 arguments were given"),
        ((t, X[:4]), {}, "argument 1 of the kernel has shape"),
        ((t[:, None], X), {}, "argument 0 of the kernel has shape"),
        ((t[0], X), {}, "argument 0"),
        ((t, X[0]), {"shared": (False, False)}, "argument 1"),
        ((t, X), {"shared": (True, False)}, "argument 0"),
        ((np.array(1.0), X[0]), {"shared": (True, True)}, "all arguments are shared"),
        ((t, X), {"shared": (True,)}, "marks for shared ones"),
        ((t, X), {"transposed": True}, "argument 1"),
    ]
    for given_arguments, options, message in cases:
        out = np.empty((1, 5) if "transposed" in options else (5, 1))
        for given_out in (None, (out,)):
            with pytest.raises(ArgumentError, match=message):
                kernel.batch(*given_arguments, out=given_out, **options)
    for wrong, message in (
        ((), "0 arrays to write to were given"),
        ((np.empty((4, 1)),), "an array to write to has shape"),
        ((np.empty(5),), "an array to write to has shape"),
        ((np.empty((5, 1, 1)),), "an array to write to has shape"),
        ((np.empty((5, 1), np.float32),), "an array to write to: float32 given"),
        ((np.empty((5, 2))[:, ::2],), "C-contiguous and writable"),
        (([0.0] * 5,), "an array to write to: list given"),
    ):
        with pytest.raises(ArgumentError, match=message):
            kernel.batch(t, X, out=wrong)
    with pytest.raises(ArgumentError, match="shapes"):
        kernel(np.array(1.0), np.ones(3))
    with pytest.raises(ArgumentError, match="overlaps"):
        kernel.batch(t, X, out=(t.reshape(5, 1),))


def test_arguments_have_to_hold_the_inputs():
    with pytest.raises(ArgumentError, match="3 inputs"):
        compile_tape(weighted_sum([(3,)]), (Segment(1, (0,), (0,)),), arguments=[(2,)])
