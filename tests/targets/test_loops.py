"""Programs as loops over runs of operations: the same bits as written out, whatever the runs are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import BY_NAME
from kernels import Guarded, assert_same, expected, lanes, whole
from strategies import EXACT, points, programs

import accumulus as acc
from accumulus import Tape
from accumulus.tape import prices
from accumulus.targets import Segment, compile_tape
from accumulus.targets import schedule as sorting
from accumulus.targets.kernel import Unit
from accumulus.targets.llvm import module
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.llvm_kernel import LLVMKernel
from accumulus.targets.llvm.module import Variant
from accumulus.targets.schedule import PRODUCT_MINUS, PRODUCT_PLUS, TAKEN, WITHOUT_PRODUCT, runs, width

every_dtype = pytest.mark.parametrize("dtype", ["float64", "float32"])


@pytest.fixture
def looped(monkeypatch):
    """All programs are loops."""
    monkeypatch.setattr(module, "LARGEST_STRAIGHT_LINE", -1)
    monkeypatch.setattr(module, "SHORTEST_RUN", 0)


def in_loops(*args, **options):
    """A kernel in loops, all its code compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGEST_STRAIGHT_LINE", -1)
        patch.setattr(module, "SHORTEST_RUN", 0)
        patch.setattr(sorting, "STRETCH", options.pop("stretch", 4096))
        kernel = LLVMKernel(Unit(*args), **options)
        assert "@operations" in kernel.source
        X = np.zeros((1, sum(int(np.prod(shape)) for shape in kernel.arguments)), kernel.dtype)
        kernel(X[0])
        kernel.batch(X)
        kernel.batch(X.T.copy(), transposed=True)
        for out in ([np.zeros((1, s.length), kernel.dtype)] for s in kernel.segments[:1] if len(kernel.segments) == 1):
            kernel.batch(X, out=tuple(out), zeroed=True)
    return kernel


@every_dtype
@settings(max_examples=6)
@given(data=st.data())
def test_loops_change_no_bit(dtype, data):
    drawn = data.draw(programs(names=EXACT))
    variant = Variant(lanes(dtype), dtype, contract=False)
    direct = LLVMKernel(Unit(drawn.tape, drawn.segments, dtype), variant=variant)
    kernel = in_loops(
        drawn.tape, drawn.segments, dtype, variant=variant, stretch=data.draw(st.sampled_from([1, 3, 4096]))
    )
    count = data.draw(st.sampled_from([1, 5, 2 * lanes(dtype) + 3]))
    X = data.draw(points(count, drawn.tape.inputs, dtype))
    expected = direct.batch(X)
    out = [Guarded((count, s.length), dtype, data.draw(st.integers(0, 7))) for s in drawn.segments]
    kernel.batch(X, out=tuple(guard.array for guard in out))
    for guard, result in zip(out, expected, strict=True):
        guard.check()
        assert_same(guard.array, result)
    for actual, result in zip(kernel.batch(np.ascontiguousarray(X.T), transposed=True), expected, strict=True):
        assert_same(actual.T, result)
    for actual, result in zip(kernel(X[0]), expected, strict=True):
        assert_same(actual, result[0])


@given(data=st.data())
def test_a_point_and_a_batch_agree_with_all_operations(data):
    drawn = data.draw(programs())
    kernel = in_loops(drawn.tape, drawn.segments, "float64")
    X = data.draw(points(9, drawn.tape.inputs, "float64"))
    together = kernel.batch(X)
    for k, x in enumerate(X):
        for actual, batch in zip(kernel(x), together, strict=True):
            assert_same(actual, batch[k])


def test_several_arguments_some_of_them_shared(looped):
    tape = Tape(6)
    tape.outputs = [tape.multiply(0, tape.add(1, k)) for k in range(2, 6)]
    arguments = ((), (3,), (2,))
    kernel = LLVMKernel(Unit(tape, whole(4), arguments=arguments))
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=13), rng.normal(size=(13, 3)), rng.normal(size=2)
    expected = a[:, None] * (b[:, :1] + np.column_stack([b[:, 1:], np.broadcast_to(c, (13, 2))]))
    actual = kernel.batch(a, b, c, shared=(False, False, True))[0]
    assert_same(actual, expected)
    again = kernel.batch(a, b.T.copy(), c, shared=(False, False, True), transposed=True)[0]
    assert_same(again.T, expected)
    assert_same(kernel(a[3:4].reshape(()), b[3], c)[0], expected[3])


def fma(a, b, c):
    return float(Fraction(a) * Fraction(b) + Fraction(c))


@pytest.mark.skipif(not host().fused, reason="no instruction multiplies and adds")
def test_products_that_only_a_sum_needs_are_fused(looped):
    tape = Tape(3)
    product, twice = tape.multiply(0, 1), tape.multiply(1, 2)
    tape.outputs = [
        tape.add(tape.multiply(0, 2), 1),
        tape.subtract(tape.multiply(0, 0), 2),
        tape.subtract(2, tape.multiply(2, 2)),
        tape.add(product, 2),
        product,
        tape.add(twice, tape.multiply(1, 1)),
    ]
    kernel = compile_tape(tape, whole(6))
    for a, b, c in np.random.default_rng(0).normal(size=(50, 3)).tolist():
        actual = kernel(np.array([a, b, c]))[0].tolist()
        assert actual[0] == fma(a, c, b)
        assert actual[1] == fma(a, a, -c)
        assert actual[2] == fma(-c, c, c)
        assert actual[3:5] == [a * b + c, a * b]
        assert actual[5] in (fma(b, c, b * b), fma(b, b, b * c))
    exact = compile_tape(tape, whole(6), exact=range(len(tape)))
    X = np.random.default_rng(1).normal(size=(9, 3))
    assert_same(exact.batch(X)[0], expected(tape, whole(6), X)[0])


@given(data=st.data())
def test_runs_are_an_order(data):
    drawn = data.draw(programs())
    tape = drawn.tape
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "STRETCH", data.draw(st.sampled_from([1, 4, 4096])))
        result = runs(tape, range(tape.inputs, len(tape)), tape.outputs, fuse=data.draw(st.booleans()))
    assert len(result.rows) == result.runs[:, 1].sum()
    written = set(range(tape.inputs))
    at = 0
    for kind, length in result.runs.tolist():
        code, constant = result.kinds[kind]
        rows = result.rows[at : at + length]
        at += length
        for row in rows.tolist():
            for operand, is_constant in zip(row[1 : 1 + TAKEN[code]], constant, strict=False):
                assert operand in (range(len(tape.constants)) if is_constant else written)
        results = rows[:, 0].tolist()
        assert len(set(results)) == length
        assert max(results) < result.slots
        # in a run nothing is read that is written
        read = {p for row in rows.tolist() for p, c in zip(row[1 : 1 + TAKEN[code]], constant, strict=False) if not c}
        assert not read & set(results)
        assert not set(results) & set(range(tape.inputs))
        written.update(results)
    # outputs are not overwritten
    slots = [result.slot_of[output] for output in set(tape.outputs) if output >= tape.inputs]
    assert len(set(slots)) == len(slots)


def test_kinds_of_fused_products():
    tape = Tape(3)
    tape.outputs = [
        tape.add(tape.multiply(0, 2), 1),
        tape.subtract(tape.multiply(0, 0), 2),
        tape.subtract(2, tape.multiply(2, 2)),
        tape.add(tape.multiply(0, tape.constant(3.0)), 2),
    ]
    result = runs(tape, range(3, len(tape)), tape.outputs)
    assert [code for code, _ in result.kinds] == [PRODUCT_PLUS, PRODUCT_PLUS, PRODUCT_MINUS, WITHOUT_PRODUCT]
    assert [any(constant) for _, constant in result.kinds] == [False, True, False, False]
    assert len(runs(tape, range(3, len(tape)), tape.outputs, fuse=False).rows) == 8
    assert BY_NAME["multiply"].code not in [code for code, _ in result.kinds]


def layers(width):
    A, B = np.random.default_rng(0).normal(size=(2, width, width)) / np.sqrt(width)

    def f(x):
        return np.tanh(B @ np.tanh(A @ x))

    def jacobian(x):
        inner = np.tanh(A @ x)
        outer = np.tanh(B @ inner)
        return (1 - outer**2)[:, None] * (B @ ((1 - inner**2)[:, None] * A))

    return f, jacobian


def test_dense_layers_are_loops(monkeypatch):
    monkeypatch.setattr(prices, "POINTS", 10**9)  # else they are operations on arrays
    f, jacobian = layers(24)
    jac = acc.jacobian(f, optimise=False, time_limit=0, cache=False)
    x = np.random.default_rng(1).normal(size=24)
    kernel = jac.compile(x).kernel
    assert "@operations" in kernel.source
    assert len(kernel.source) < 1e5
    np.testing.assert_allclose(jac(x), jacobian(x), rtol=1e-12, atol=1e-14)
    X = np.random.default_rng(2).normal(size=(21, 24))
    together = jac.batch(X)
    for point, actual in zip(X, together, strict=True):
        np.testing.assert_array_equal(actual, jac(point))


def test_chains_are_straight_line():
    tape = Tape(2)
    value = tape.multiply(0, 1)
    while tape.operations < module.LARGEST_STRAIGHT_LINE + 10:
        value = tape.multiply(tape.add(value, tape.operations % 2), 0)
    tape.outputs = [value]
    assert module._runs(tape, whole(1), Variant(1)) is None


def test_nothing_at_all(looped):
    tape = Tape(0)
    tape.outputs = [tape.constant(2.5)]
    kernel = compile_tape(tape, (Segment(3, (0,), (1,)),))
    assert kernel(np.empty(0))[0].tolist() == [0.0, 2.5, 0.0]
    inputs_only = Tape(2)
    inputs_only.outputs = [1, 0]
    kernel = compile_tape(inputs_only, whole(2))
    assert kernel.batch(np.array([[1.0, 2.0]] * 9))[0].tolist() == [[2.0, 1.0]] * 9


def test_width():
    wide, narrow = Tape(200), Tape(2)
    row = list(range(200))
    for _ in range(30):
        row = [wide.multiply(a, b) for a, b in zip(row, [*row[1:], row[0]], strict=True)]
    value = narrow.add(0, 1)
    while narrow.operations < 6000:
        value = narrow.multiply(narrow.add(value, narrow.operations % 2), 0)
    assert width(wide) == pytest.approx(200, rel=0.1)
    assert width(narrow) == pytest.approx(1, rel=0.1)
