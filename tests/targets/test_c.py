"""The C target: what its text says, what compilers and sanitizers say to it, and that it computes what LLVM's does."""

from __future__ import annotations

import ctypes
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import OPERATIONS
from kernels import assert_same, whole
from sanitized import numbers_of
from strategies import points, programs

import accumulus as acc
from accumulus import Tape
from accumulus.errors import ArgumentError, CompileError
from accumulus.targets import Segment, compile_tape, emit_source, languages
from accumulus.targets.c import c_source, c_target
from accumulus.targets.c.c_source import CSource
from accumulus.targets.kernel import Unit


def polynomial():
    """A tape of x·y + z and x·y − z, whose products are fused with the sums, and of a square root."""
    tape = Tape(3)
    tape.outputs = [tape.add(tape.multiply(0, 1), 2), tape.subtract(2, tape.multiply(1, 1)), tape.apply("sqrt", 0)]
    return tape


def test_special_functions_are_those_of_llvm():
    tape = Tape(1)
    rows = [row for row in OPERATIONS if row.special and not row.is_scipys]
    tape.outputs = [tape.apply(row.name, *([tape.constant(3.0)] * (row.arity - 1)), 0) for row in rows]
    X = np.array([0.03, 0.4, 0.9, 1.5, 2.5, 5.5, 9.0, 20.0, np.inf, np.nan, -0.3, -2.5, 0.0])[:, None]
    for dtype, tolerance in (("float64", 1e-13), ("float32", 1e-5)):
        actual, expected = (
            compile_tape(tape, whole(len(rows)), target, dtype).batch(X.astype(dtype))[0] for target in ("c", "llvm")
        )
        for k, row in enumerate(rows):
            np.testing.assert_allclose(
                actual[:, k], expected[:, k], rtol=tolerance, atol=tolerance / 10, err_msg=row.name
            )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_functions_on_vectors_equal_scalar_ones(dtype):
    tape = Tape(2)
    rows = [row for row in OPERATIONS if row.llvm.startswith("@") and not row.special]
    tape.outputs = [tape.apply(row.name, *(0, 1)[: row.arity]) for row in rows]
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.7, 3.0, -20.0, np.inf, -np.inf, np.nan, 1e-30, 700.0, 1e30]
    X = np.array([(x, y) for x in special for y in special], dtype)
    kernel = compile_tape(tape, whole(len(rows)), "c", dtype)
    one = np.array([kernel(x)[0] for x in X])
    many = kernel.batch(X)[0]
    assert_same(many, one, ulps=5)
    certain = (one == 0) & (X[:, :1] != 0)
    zeros = (many == 0) & ~certain
    np.testing.assert_array_equal(np.signbit(many[zeros]), np.signbit(one[zeros]))


@settings(max_examples=3)
@given(data=st.data())
def test_long_programs_are_functions_that_hand_on_values(data):
    program = data.draw(programs(max_operations=60))
    X = data.draw(points(19, program.tape.inputs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(c_source, "LONGEST_PART", 7)
        result = compile_tape(program.tape, program.segments, "c").batch(X)
    for one, other in zip(result, compile_tape(program.tape, program.segments, "c").batch(X), strict=True):
        assert_same(one, other, ulps=4)  # products of one part may be fused that are not of two


def test_products_are_fused_with_sums_unless_they_are_to_be_rounded():
    tape = polynomial()
    x, y = 1.0 + 2.0**-30, 1.0 - 2.0**-30
    X = np.array([[x, y, -1.0]])
    rounded = compile_tape(tape, whole(3), "c", exact=range(len(tape))).batch(X)[0]
    assert rounded[0, 0] == x * y - 1.0 == 0.0
    assert "_MADD(x0, x1, x2)" in emit_source(tape, whole(3), "c")
    assert "F_MADD(x0, x1" not in CSource(Unit(tape, whole(3), arguments=((3,),), exact=range(len(tape)))).code
    jumps = Tape(2)
    jumps.outputs = [jumps.apply("floor", jumps.add(jumps.multiply(0, 1), jumps.constant(-1.0)))]
    assert "F_MADD(" not in emit_source(jumps, whole(1), "c").split("f_part0")[1]


@pytest.mark.parametrize("processor", [("-O3", "-march=native"), ("-O2",)])
def test_structural_zeros_between_entries(processor, monkeypatch):
    """Squares of zeros are not turned over; without vectors there are no squares, and nothing that is unused."""
    monkeypatch.setattr(c_target, "FLAGS", (*processor, "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"))
    tape = Tape(5)
    tape.outputs = [tape.multiply(k, tape.apply("exp", (k + 1) % 5)) for k in range(5)]
    positions = (2, 3, 17, 30, 38)
    segments = (Segment(39, (0, 1, 2, 3, 4), positions, "few"), Segment(5, (4, 3), (4, 0), "some"))
    X = np.random.default_rng(0).normal(size=(61, 5))
    results = {target: compile_tape(tape, segments, target).batch(X) for target in ("c", "llvm")}
    for actual, expected in zip(*results.values(), strict=True):
        assert_same(actual, expected, ulps=20)
    for actual, expected in zip(
        compile_tape(tape, segments, "c").batch(X.T.copy(), transposed=True), results["c"], strict=True
    ):
        assert_same(actual.T, expected, ulps=20)


def test_the_text_lists_parameters_and_results():
    tape = polynomial()
    segments = (Segment(5, (0, 2), (1, 3), "some"), Segment(1, (1,), (0,), "double"))
    text = CSource(Unit(tape, segments, arguments=((2,), ())), "wave")
    for line in (
        "#define WAVE_A0_SIZE 2",
        "#define WAVE_SOME_SIZE 5",
        "#define WAVE_SOME_NONZEROS 2",
        "extern const int wave_some_positions[2];",
        "void wave(const double *a0, const double *a1, double *some, double *result_double);",
        "void wave_batch(size_t points, const double *a0, const double *a1, double *some, double *result_double);",
    ):
        assert line in text.header.splitlines()
    assert "#define WAVE_STACK_BYTES" in text.header
    assert "malloc" not in text.code
    assert "static double" not in text.code  # no state


def test_any_distances_between_points_and_entries():
    tape = polynomial()
    kernel = compile_tape(tape, (Segment(5, (0, 1, 2), (1, 4, 3)),), "c", arguments=((2,), ()))
    rng = np.random.default_rng(0)
    A, b = rng.uniform(0.5, 1.0, (3, 21, 4))[:, :, 1:3], np.array(0.25)  # points × entries, anywhere
    out = np.full((40, 5), 7.0)
    strides = [distance // 8 for distance in A[0].strides]
    kernel._many(21, A[0].ctypes.data, *strides, b.ctypes.data, 0, 1, out.ctypes.data, 5, 1)
    np.testing.assert_array_equal(out[:21], kernel.batch(np.ascontiguousarray(A[0]), b, shared=(False, True))[0])
    assert (out[21:] == 7.0).all()


def test_the_functions_of_the_header_compute_the_same():
    tape = polynomial()
    library = c_target.Loaded(emit_source(tape, (Segment(4, (0, 1, 2), (0, 1, 3)),), "c", name="g"))
    X = np.random.default_rng(1).uniform(0.0, 1.0, (11, 3))
    one, many = np.empty((11, 4)), np.empty((11, 4))
    for k in range(11):
        library.function("g")(ctypes.c_void_p(X[k].ctypes.data), ctypes.c_void_p(one[k].ctypes.data))
    library.function("g_batch")(ctypes.c_size_t(11), ctypes.c_void_p(X.ctypes.data), ctypes.c_void_p(many.ctypes.data))
    np.testing.assert_array_equal(many, one)
    assert (one[:, 2] == 0.0).all()


def test_arguments_that_nothing_takes_give_no_warnings():
    x, p = np.ones((9, 2)), np.linspace(-2e3, 2e3, 9)  # some of which exp does not serve in tiles
    result = acc.jacobian(lambda x, p: np.exp(p) * 3.0, 1, target="c", effort="fast", cache=False).batch(x, p)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(result, np.exp(p) * 3.0, rtol=1e-15)


def test_derivatives_by_a_compiler_that_tries_hard(monkeypatch):
    monkeypatch.setattr(c_target, "FLAGS", ("-O3", "-march=native"))

    def f(x, k):
        return np.where(x > 0.5, np.sin(k * x) * x[::-1], np.exp(-x)) / np.hypot(x, 2.0)

    X = np.random.default_rng(2).uniform(0.0, 1.0, (37, 4))
    for sparse in (False, True):
        actual, expected = (
            acc.value_and_jacobian(f, target=target, sparse=sparse, effort="fast").batch(X, 1.5)
            for target in ("c", "llvm")
        )
        for pair in zip(actual, expected, strict=True):
            one, other = (each.toarray() if hasattr(each, "toarray") else each for each in pair)
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)


def test_kernels_travel_and_are_compiled_again():
    kernel = compile_tape(polynomial(), whole(3), "c")
    again = pickle.loads(pickle.dumps(kernel))
    x = np.array([2.0, 3.0, 4.0])
    np.testing.assert_array_equal(again(x)[0], kernel(x)[0])


def test_errors_give_advice(monkeypatch):
    with pytest.raises(ArgumentError, match="keyword"):
        emit_source(polynomial(), whole(3), "c", name="double")
    with pytest.raises(ArgumentError, match="no keyword"):
        emit_source(polynomial(), whole(3), "c", name="1f")
    with monkeypatch.context() as patch:
        patch.setattr(c_target, "FLAGS", ("--no-such-flag",))
        with pytest.raises(CompileError, match="no-such-flag"):
            compile_tape(polynomial(), whole(3), "c")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: None)
    with pytest.raises(CompileError, match="apt install gcc"):
        compile_tape(polynomial(), whole(3), "c")


MAIN = """
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    enum { POINTS = 19 };
    double *x = malloc(sizeof(double) * POINTS * F_X_SIZE), *y = malloc(sizeof(double) * POINTS * F_RESULT_SIZE);
    if (!x || !y) return 1;
    for (int i = 0; i < POINTS * F_X_SIZE; i++) x[i] = 0.1 * (double)i + 0.05;
    for (int k = 0; k < POINTS; k++) f(x + k * F_X_SIZE, y + k * F_RESULT_SIZE);
    f_batch(POINTS, x, y);
    for (int i = 0; i < POINTS * F_RESULT_SIZE; i++) printf("%.17g\\n", y[i]);
    free(x);
    free(y);
    return 0;
}
"""


def test_sanitizers_find_nothing(tmp_path, monkeypatch):
    tape = Tape(3)
    value = tape.add(tape.multiply(0, 1), tape.apply("digamma", 2))
    values = [value, tape.select(tape.apply("less", 0, 1), value, tape.apply("log", 1))]
    for _ in range(20):
        values.append(tape.apply("sin", tape.multiply(values[-1], values[-2])))
    tape.outputs = values
    monkeypatch.setattr(c_source, "LONGEST_PART", 10)
    segments = (Segment(30, tuple(range(len(values))), tuple(range(5, 5 + len(values)))),)
    X = (0.1 * np.arange(19 * 3) + 0.05).reshape(19, 3)
    result = numbers_of(emit_source(tape, segments, "c") + MAIN, tmp_path).reshape(19, 30)
    np.testing.assert_allclose(result, compile_tape(tape, segments, "llvm").batch(X)[0], rtol=1e-9, atol=1e-12)


def test_entries_that_the_compiler_permutes(monkeypatch):
    """With AVX-512, gcc 12 takes entries 1, 1, 2, 4, 4, 5, 7, 7 of eight for 1, 1, 2, 2, 5, 5, 7, 7."""
    C = np.array([[2.0, -1.0, 0.0], [0.5, 3.0, 1.0], [0.0, 0.25, -2.0]])

    def f(A):
        B = 2.0 * np.tanh(A)
        return [np.sum(B, keepdims=True), (np.matvec(C, B), np.matvec(C, B))]

    monkeypatch.setattr(c_target, "FLAGS", ("-O3", "-march=native"))
    draw = np.random.default_rng(0)
    (A, one, two), total = draw.normal(size=(3, 3, 3)), draw.normal(size=(1, 1))
    found = acc.vjp(f, target="c", method="markowitz", effort="fast", cache=False)((A,), [total, (one, two)])[1][0]
    np.testing.assert_allclose(found, (total + (one + two) @ C) * 2.0 / np.cosh(A) ** 2, rtol=1e-12, atol=1e-14)


def test_programs_have_source_in_every_language():
    def f(x, k):
        return np.array([k * x[0] * x[1] + x[1], np.sin(x[0])])

    program = acc.value_and_jacobian(f, effort="fast").compile(np.ones(2), 2.0)
    for target in languages():
        assert program.source(target)
    assert "void g(const double *a0, const double *a1, double *result, double *result_1);" in program.source("c", "g")
    assert "F_MADD(" in program.source("c").split("f_part0")[1]
    exact = acc.value_and_jacobian(f, effort="fast", exact_order=True).compile(np.ones(2), 2.0)
    assert "F_MADD(" not in exact.source("c").split("f_part0")[1]
