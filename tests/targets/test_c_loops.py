"""C of programs over arrays: loops of every kind compute what LLVM's do, and compilers and sanitizers say nothing."""

from __future__ import annotations

import ctypes
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Program, column, evaluate, fuse
from looped import assert_same, unrolled
from sanitized import numbers_of

import accumulus as acc
from accumulus import Tape
from accumulus.errors import ArgumentError, CompileError
from accumulus.tape.program import Range
from accumulus.targets.c import c_loops, c_target
from accumulus.targets.c.c_loops import LoopSource
from accumulus.targets.c.c_target import CLoops
from accumulus.targets.kernel import Segment, Unit

WEIGHTS = np.random.default_rng(7).uniform(0.5, 1.5, (6, 9))


def maps(x, k):
    y = np.where(x > 0.5, np.sin(k * x) * x[::-1], np.exp(-x)) / np.hypot(np.roll(x, 3), 2.0)
    return y[2::3] * np.concatenate([[1.5], x[:-1], [k]])[: len(y[2::3])]


def sums(x, k):
    table = (x * x[::-1]).reshape(-1, 3)
    return np.concatenate([table.sum(axis=0), table.sum(axis=1)[::-1], [k * np.sum(x), np.sum(x[::2] * k)]])


def products(x, k):
    rows = np.sin(x[:18]).reshape(2, 9)
    square = np.tanh(k * x[:9]).reshape(3, 3)
    return np.concatenate(
        [(WEIGHTS @ rows.T).ravel(), WEIGHTS @ x[:9], (square @ square.T[::-1]).ravel(), rows[0] @ WEIGHTS.T]
    )


def recurrences(x, k):
    steps = np.cumsum(np.sin(x) * k)
    states = [x[:5]]
    for i in range(6):
        states.append(np.tanh(states[-1] * k + x[i : i + 5]))
    return np.concatenate([steps, *states[-2:]])


FUNCTIONS = [maps, sums, products, recurrences]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_loops_of_every_kind_are_those_of_llvm(function):
    x, k = np.random.default_rng(1).uniform(0.1, 1.0, 24), 1.3
    with unrolled(0):
        for sparse in ("csr", None):
            actual, expected = (
                acc.value_and_jacobian(
                    function, argnums=(0, 1), sparse=sparse, target=target, cache=False, effort="fast"
                )
                for target in ("c", "llvm")
            )
            assert_same(actual(x, k), expected(x, k))
        assert isinstance(actual.compile(x, k).tape, Program)
        X = np.stack([x, x[::-1], 0.5 * x])
        assert_same(actual.batch(X, k), expected.batch(X, k))


def program(seed, products=True):
    """A tape of one block of each kind on operands that lie anywhere, and a point for it."""
    rng = np.random.default_rng(seed)
    tape = Program(inputs=7)
    columns = [np.arange(7), tape.constant_array(rng.normal(size=3))]

    def some(*shape):
        pool = np.concatenate(columns)
        if rng.random() < 0.3:
            start = int(rng.integers(0, 3))
            return np.arange(start, start + int(np.prod(shape))).reshape(shape) % 7
        return rng.choice(pool, shape)

    def running(body, count, steps):
        body.outputs = [body.apply("tanh", body.add(body.multiply(0, 1), 2)), body.apply("cos", 0)]
        starts = np.asarray(steps)
        lag = np.repeat(np.diff(starts, prepend=starts[0])[:-1], np.diff(starts))

        def operands(results):
            last = results[0].references
            before = np.array([last[i - lag[i]] if i >= starts[1] else columns[1][0] for i in range(count)])
            return [column(before), column(some(count)), Range(int(columns[0][2]), 0, count)]

        return [each.references for each in tape.scan(body, operands, starts)]

    columns.append(tape.apply("multiply", some(5), tape.apply("sin", some(5))))
    columns.append(tape.sums(some(20), [0, 1, 12, 20]))
    columns.append(tape.sums(columns[0], [0, 7]))
    if products:
        columns.append(tape.matmul(some(2, 10), some(10, 3)).ravel())
        columns.append(tape.matmul(some(4, 9), some(9, 1)).ravel())
    columns += running(Tape(3), 6, range(7))
    columns += running(Tape(3), 20, [0, 5, 10, 15, 20])
    columns.append(tape.apply("select", tape.apply("less", some(5), some(5)), some(5), some(5)))
    tape.outputs = np.concatenate([columns[-1], *columns[-3:], some(9)])
    return tape, rng.uniform(-1.0, 1.0, 7)


def computed(loops, tape, segment, point):
    """Return the results of loops, and check that they write nothing else."""
    memory = np.full(segment.length + 16, 7.25)
    loops.compute([point], [memory[8:-8]])
    assert (memory[:8] == 7.25).all()
    assert (memory[-8:] == 7.25).all()
    return memory[8:-8].copy()


@settings(max_examples=5)
@given(
    seed=st.integers(0, 2**32 - 1),
    limit=st.sampled_from([2, 2000]),
    length=st.sampled_from([1, 2, 9]),
    table=st.sampled_from([2, 64]),
)
def test_random_programs(seed, limit, length, table):
    tape, point = program(seed)
    count = len(tape.outputs)
    positions = np.random.default_rng(seed).permutation(count * length)[:count]
    segment = Segment(count * length, slice(0, count), positions)
    every = fuse(tape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(c_loops, "LOOP_PART", limit)
        patch.setattr(c_loops, "SHORTEST_TABLE", table)
        loops = CLoops(Unit(tape, [segment], arguments=((7,),), maps=every))
    expected = np.zeros(segment.length)
    expected[positions] = evaluate(tape, point)
    for given_point in (point, point):  # the work space is what it was left as
        np.testing.assert_allclose(computed(loops, tape, segment, given_point), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("ones", "zeros"), [(3, 3), (2, 4), (3, 2), (3, 9), (11, 3)])
def test_tables_of_numbers_that_repeat(ones, zeros, monkeypatch):
    """With AVX-512, gcc 12.2 copies such tables wrongly if it sees their content."""
    monkeypatch.setattr(c_target, "FLAGS", ("-O3", "-march=native", "-Wall", "-Wextra", "-Wconversion", "-Werror"))
    table, length = np.repeat([1.0, 0.0], [ones, zeros]), ones + zeros
    tape = Program(1)
    tape.outputs = np.append(tape.constant_array(table), 0)
    segments = [Segment(length, slice(0, length), slice(0, length))]
    segments.append(Segment(1, slice(length, length + 1), slice(0, 1)))
    loops = CLoops(Unit(tape, segments, arguments=((1,),), maps=fuse(tape)))
    results = [np.full(length, np.nan), np.full(1, np.nan)]
    loops.compute([np.array([3.0])], results)
    np.testing.assert_array_equal(results[0], table)
    np.testing.assert_array_equal(results[1], [3.0])


def test_sums_without_terms_and_empty_arrays():
    tape = Program(inputs=3)
    total = tape.sums(np.array([tape.constant(0.1)] * 20), [0, 10, 20])
    tape.outputs = np.append(total, [0])
    segment = Segment(3, slice(0, 3), slice(0, 3))
    loops = CLoops(Unit(tape, [segment, Segment(0, slice(0, 0), slice(0, 0))], arguments=((3,), (0,)), maps=fuse(tape)))
    result = np.full(3, np.nan)
    loops.compute([np.array([4.0, 5.0, 6.0]), np.empty(0)], [result, np.empty(0)])
    np.testing.assert_allclose(result, [1.0, 1.0, 4.0], rtol=1e-15)


def test_the_text_lists_parameters_and_results():
    with unrolled(0):
        made = acc.jacobian(recurrences, cache=False, effort="fast").compile(np.ones(24), 1.0)
    text = made.source("c", name="wave")
    for line in (
        "#define WAVE_A0_SIZE 24",
        "#define WAVE_RESULT_SIZE 816",
        "size_t wave_work_size(void);",
        "void wave(const double *a0, const double *a1, double *result, double *work);",
        "void wave_batch(size_t points, const double *a0, const double *a1, double *result, double *work);",
    ):
        assert line in text.splitlines()
    assert "malloc" not in text
    for line in text.splitlines():
        assert "static double" not in line.replace("static double wave_", "")  # no state
    assert all(line.startswith("static const") for line in text.splitlines() if line.endswith("] = {"))
    with pytest.raises(ArgumentError, match="keyword"):
        made.source("c", name="double")
    with pytest.raises(CompileError, match="no source in 'llvm'; expected one of numpy, c, cuda, jax, or give"):
        made.source()


def test_the_functions_of_the_header_compute_the_same():
    tape, _ = program(3)
    count = len(tape.outputs)
    segment = Segment(count, slice(0, count), slice(0, count))
    source = LoopSource(Unit(tape, [segment], arguments=((3,), (4,)), maps=fuse(tape)), "g")
    library = c_target.Loaded(source.text)
    assert library._library.g_work_size() == source.work
    rng = np.random.default_rng(2)
    X, y, work = rng.normal(size=(5, 3)), rng.normal(size=4), np.empty(source.work)
    out, many = np.full((5, count + 2), 7.0), np.empty((5, count))

    def address(array):
        return ctypes.c_void_p(array.ctypes.data)

    distance = ctypes.c_ssize_t
    library.function("g_strided")(
        ctypes.c_size_t(5),
        *(address(X), distance(3), address(y), distance(0), address(out), distance(count + 2), address(work)),
    )
    Y = np.tile(y, (5, 1))
    library.function("g_batch")(ctypes.c_size_t(5), address(X), address(Y), address(many), address(work))
    np.testing.assert_array_equal(out[:, :count], many)
    assert (out[:, count:] == 7.0).all()
    for x, row in zip(X, many, strict=True):
        np.testing.assert_allclose(row, evaluate(tape, np.append(x, y)), rtol=1e-11, atol=1e-11)
        one = np.empty(count)
        library.function("g")(address(x.copy()), address(y), address(one), address(work))
        np.testing.assert_array_equal(one, row)


def test_compilers_that_try_hard_and_kernels_that_travel(monkeypatch):
    monkeypatch.setattr(c_target, "FLAGS", ("-O3", "-march=native", "-Wall", "-Wextra", "-Wconversion", "-Werror"))
    tape, point = program(11)
    count = len(tape.outputs)
    segment = Segment(count, slice(0, count), slice(0, count))
    loops = CLoops(Unit(tape, [segment], arguments=((7,),), maps=fuse(tape)))
    result = computed(loops, tape, segment, point)
    np.testing.assert_allclose(result, evaluate(tape, point), rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(computed(pickle.loads(pickle.dumps(loops)), tape, segment, point), result)


MAIN = """
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    enum { POINTS = 3 };
    double *x = malloc(sizeof(double) * POINTS * F_X_SIZE), *y = malloc(sizeof(double) * POINTS * F_RESULT_SIZE);
    double *work = malloc(sizeof(double) * f_work_size());
    if (!x || !y || !work) return 1;
    for (int i = 0; i < POINTS * F_X_SIZE; i++) x[i] = 0.1 * (double)i - 0.95;
    for (int k = 0; k < POINTS; k++) f(x + k * F_X_SIZE, y + k * F_RESULT_SIZE, work);
    f_batch(POINTS, x, y, work);
    for (int i = 0; i < POINTS * F_RESULT_SIZE; i++) printf("%.17g\\n", y[i]);
    free(x);
    free(y);
    free(work);
    return 0;
}
"""


def test_sanitizers_find_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(c_loops, "LOOP_PART", 3)
    tape, _ = program(5)
    count = len(tape.outputs)
    segment = Segment(count + 40, slice(0, count), np.arange(count) + 20)
    text = LoopSource(Unit(tape, [segment], arguments=((7,),), maps=fuse(tape))).text + MAIN
    X = (0.1 * np.arange(21) - 0.95).reshape(3, 7)
    result = numbers_of(text, tmp_path).reshape(3, count + 40)
    np.testing.assert_allclose(result[:, 20:-20], [evaluate(tape, x) for x in X], rtol=1e-9, atol=1e-12)
    assert not result[:, :20].any()
    assert not result[:, -20:].any()


def periodic(u):
    return np.roll(u, 1) * np.sin(u) + np.roll(u, -1)


def inner(u):
    du = np.zeros_like(u)
    du[1:-1] = u[2:] * u[:-2] - np.sin(u[1:-1])
    return du


def running(u):
    return acc.scan(lambda s, v: (0.9 * s + np.sin(s * v), s), u[0], u)[0]


@pytest.mark.parametrize("function", [periodic, inner, running])
def test_text_does_not_grow_with_the_count(function):
    lengths, sparse = [], None if function is running else "csr"
    for count in (200, 800):
        x = np.linspace(0.1, 1.0, count)
        with unrolled(0):
            made, expected = (
                acc.value_and_jacobian(function, sparse=sparse, cache=False, effort="fast", target=target)
                for target in ("c", "llvm")
            )
            assert_same(made(x), expected(x))
            lengths.append(len(made.compile(x).source("c")))
    assert lengths[1] < lengths[0] + 100
