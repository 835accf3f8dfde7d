"""Results by tables: the same bits in the same places as results that are written out, whatever lies between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Program, fuse
from kernels import Guarded, assert_same, lanes, whole
from strategies import points, programs

from accumulus import Tape
from accumulus.errors import SizeError
from accumulus.targets import Segment
from accumulus.targets.kernel import Unit
from accumulus.targets.llvm import tables
from accumulus.targets.llvm.llvm_kernel import LLVMKernel
from accumulus.targets.llvm.module import Variant
from accumulus.targets.nests import MOST, Nests

DTYPES = ("float64", "float32")
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def compiled(tape, segments, dtype, largest, **changes):
    """A kernel whose code stores results by tables if there are more than `largest`, all its code included."""
    variant = Variant(lanes(dtype), dtype, contract=False, **changes)
    kernel = LLVMKernel(Unit(tape, segments, dtype), variant=variant)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "LARGEST_WRITTEN_OUT", largest)
        X = np.zeros((1, tape.inputs), dtype)
        kernel(X[0])
        kernel.batch(X)
        kernel.batch(X, out=tuple(np.zeros((1, s.length), dtype) for s in segments), zeroed=True)
        kernel.batch(X.T.copy(), transposed=True)
        out = tuple(np.zeros((s.length, 1), dtype) for s in segments)
        kernel.batch(X.T.copy(), out=out, transposed=True, zeroed=True)
        assert (largest < 0) == ("@scatter" in kernel.source)
    return kernel


@every_dtype
@settings(max_examples=5)
@given(data=st.data())
def test_tables_change_no_bit(dtype, data):
    program = data.draw(programs())
    tape, segments = program.tape, program.segments
    changes = {"part_size": data.draw(st.sampled_from([0, 3])), "critical_path": data.draw(st.booleans())}
    direct = compiled(tape, segments, dtype, 10**9, **changes)
    tabled = compiled(tape, segments, dtype, -1, **changes)
    count = data.draw(st.sampled_from([1, 5, 2 * lanes(dtype) + 3]))
    X = data.draw(points(count, tape.inputs, dtype))
    expected = direct.batch(X)
    for k in (0, count - 1):
        for actual, result in zip(tabled(X[k]), direct(X[k]), strict=True):
            assert_same(actual, result)
            assert (np.signbit(actual) == np.signbit(result))[~np.isnan(result)].all()
    for zeroed in (False, True):
        for transposed in (False, True):
            shapes = [(s.length, count) if transposed else (count, s.length) for s in segments]
            out = [Guarded(shape, dtype, data.draw(st.integers(0, 7))) for shape in shapes]
            for guard in out:
                guard.array[...] = 0 if zeroed else np.nan
            given_points = np.ascontiguousarray(X.T) if transposed else X
            tabled.batch(given_points, out=tuple(g.array for g in out), transposed=transposed, zeroed=zeroed)
            for guard, result in zip(out, expected, strict=True):
                guard.check()
                assert_same(guard.array.T if transposed else guard.array, result)


@every_dtype
def test_zeros_of_either_sign_and_constants_beyond_the_range(dtype):
    tape = Tape(1)
    values = [0.0, -0.0, np.nan, np.inf, 1e300, -1.5, 1e-300]
    tape.outputs = [0, *map(tape.constant, values), tape.apply("sin", 0), 0]
    segments = (
        Segment(40, tuple(range(len(tape.outputs))), tuple(range(0, 40, 4))),
        Segment(3, (2, 0, 2), (2, 1, 0)),
        Segment(2, (), ()),
    )
    direct, tabled = (compiled(tape, segments, dtype, largest) for largest in (10**9, -1))
    X = np.linspace(-1.0, 1.0, 11).astype(dtype)[:, None]
    for actual, result in zip(tabled.batch(X), direct.batch(X), strict=True):
        assert_same(actual, result)
        assert (np.signbit(actual) == np.signbit(result))[~np.isnan(result)].all()
    for actual, result in zip(tabled.batch(X.T.copy(), transposed=True), direct.batch(X), strict=True):
        assert_same(actual.T, result)
        assert (np.signbit(actual.T) == np.signbit(result))[~np.isnan(result)].all()


def test_every_value_is_computed_once_and_stored_at_all_positions():
    tape = Tape(2)
    product = tape.multiply(0, 1)
    tape.outputs = [product, 0, product, product, tape.constant(3.0)]
    segments = (Segment(9, (0, 1, 2), (8, 3, 5)), Segment(4, (3, 4), (1, 2)))
    arrays, distinct = tables.result_sources(tape, segments)
    assert distinct == [0, product]
    assert [array.positions.tolist() for array in arrays] == [[3, 5, 8], [1]]
    assert [array.slots.tolist() for array in arrays] == [[0, 1, 1], [1]]
    assert arrays[1].constants.tolist() == [3.0]
    assert [array.zeros for array in arrays] == [6, 2]


def test_large_results_take_tables_and_runs_of_zeros_do_not_count():
    assert tables.by_tables(whole(tables.LARGEST_WRITTEN_OUT + 1))
    assert not tables.by_tables(whole(tables.LARGEST_WRITTEN_OUT))
    last = tables.LARGEST_WRITTEN_OUT * 10
    assert not tables.by_tables((Segment(last, (0, 1), (0, last - 1)),))
    every_other = tuple(range(0, tables.LARGEST_WRITTEN_OUT + 2, 2))
    assert tables.by_tables((Segment(tables.LARGEST_WRITTEN_OUT + 2, (0,) * len(every_other), every_other),))


@every_dtype
def test_the_jacobian_of_a_running_sum(dtype):
    count = 90
    tape = Tape(count)
    twice = [tape.add(k, k) for k in range(count)]
    tape.outputs = [twice[j] for i in range(count) for j in range(i + 1)]
    rows, columns = np.tril_indices(count)
    segments = (Segment(count * count, tuple(range(len(rows))), tuple((rows * count + columns).tolist())),)
    kernel = LLVMKernel(Unit(tape, segments, dtype))
    assert "@scatter" in kernel.source
    X = np.random.default_rng(0).normal(size=(21, count)).astype(dtype)
    expected = (np.tril(np.ones((count, count), dtype)) * (2 * X)[:, None, :]).reshape(21, -1)
    assert_same(kernel.batch(X)[0], expected)
    assert_same(kernel.batch(X, threads=2)[0], expected)
    assert_same(kernel(X[0])[0], expected[0])
    assert_same(kernel.batch(X.T.copy(), transposed=True)[0].T, expected)


def test_zeros_of_one_point_are_cleared_at_once():
    tape = Tape(1)
    tape.outputs = [tape.apply("sin", 0)]
    segments = (Segment(100, (0,), (37,)), Segment(1, (0,), (0,)))
    kernel = LLVMKernel(Unit(tape, segments))
    wide, one = kernel(np.array([0.5]))
    assert wide[37] == one[0] == np.sin(0.5)
    assert np.count_nonzero(wide) == 1
    assert_same(
        LLVMKernel(Unit(tape, segments), variant=replace(Variant(2), single=True))(np.ones(1))[0][:37], [0.0] * 37
    )


def test_results_with_more_entries_than_tables_of_places_have_room_for():
    """Places beyond 2³¹ were negative, and numbers were stored before the array."""
    tape = Program(inputs=100)
    tape.outputs = tape.apply("sin", np.arange(100))
    for length, fits in ((MOST, True), (MOST + 1, False)):
        unit = Unit(tape, [Segment(length, np.arange(100), length - 1 - np.arange(100))], maps=fuse(tape))
        if fits:
            assert Nests(unit).every[-1].positions.max() == length - 1
        else:
            with pytest.raises(SizeError, match="sparse=True"):
                Nests(unit)
