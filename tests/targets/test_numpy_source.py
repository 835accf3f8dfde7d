"""The emitted NumPy source: readable, and complete in itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Program, evaluate, fuse
from kernels import assert_same, expected, whole
from looped import unrolled
from strategies import points, programs
from test_c_loops import FUNCTIONS, program

import accumulus as acc
from accumulus import Tape
from accumulus.errors import ArgumentError
from accumulus.targets import Segment, emit_source
from accumulus.targets.target import Code


def run(text, x):
    scope = {}
    exec(text, scope)
    with np.errstate(all="ignore"):
        return scope["f"](x)


@given(data=st.data())
def test_emitted_source_runs_alone(data):
    program = data.draw(programs())
    X = data.draw(points(5, program.tape.inputs))
    text = emit_source(program.tape, program.segments, "numpy")
    results = run(text, np.ascontiguousarray(X.T))
    for actual, reference in zip(results, expected(program.tape, program.segments, X), strict=True):
        assert_same(actual.T, reference, ulps=64)


def test_a_single_point_gives_vectors():
    tape = Tape(2)
    tape.outputs = [tape.multiply(0, 1), tape.constant(2.0)]
    (result,) = run(emit_source(tape, whole(2), "numpy"), np.array([3.0, 4.0]))
    np.testing.assert_array_equal(result, [12.0, 2.0])


def test_arrays_have_the_names_of_their_segments():
    tape = Tape(1)
    tape.outputs = [0]
    names = ("values", "values", "x0", "a b", "t")
    text = emit_source(tape, [Segment(1, (0,), (0,), name) for name in names], "numpy")
    assert "return values, values_1, _x0, a_b, _t" in text
    assert len(run(text, np.array([3.0]))) == 5


def test_numbers_that_have_no_literal():
    tape = Tape(1)
    special = (np.inf, -np.inf, np.nan, -0.0)
    tape.outputs = [tape.constant(value) for value in special]
    (result,) = run(emit_source(tape, whole(4), "numpy"), np.array([3.0]))
    np.testing.assert_array_equal(result, special)


def test_a_choice_of_two_numbers_is_rounded_to_the_type():
    tape = Tape(1)
    select = tape.select(tape.apply("less", 0, tape.constant(0.0)), tape.constant(0.1), tape.constant(0.3))
    tape.outputs = [tape.add(select, 0), tape.multiply(select, select)]
    (result,) = run(emit_source(tape, whole(2), "numpy", dtype="float32"), np.array([-3.0], np.float32))
    tenth = np.float32(0.1)
    np.testing.assert_array_equal(result, np.array([tenth - 3, tenth * tenth]))


def test_the_functions_name_must_be_one():
    tape = Tape(1)
    assert "def g(x):" in emit_source(tape, (), "numpy", name="g")
    for wrong in ("1f", "f(x)", ""):
        with pytest.raises(ArgumentError, match="not a name"):
            emit_source(tape, (), "numpy", name=wrong)


@pytest.mark.parametrize("count", range(50, 80))
def test_lines_of_any_number_of_arguments_are_python(count):
    tape = Tape(count)
    tape.outputs = [tape.add(0, count - 1)]
    compile(emit_source(tape, whole(1), "numpy"), "<source>", "exec")


class TestLoops:
    @pytest.mark.parametrize("function", FUNCTIONS)
    def test_of_every_kind(self, function):
        x, k = np.random.default_rng(1).uniform(0.1, 1.0, 24), 1.3
        with unrolled(0):
            made = acc.value_and_jacobian(function, (0, 1), cache=False, effort="fast").compile(x, k)
            assert isinstance(made.tape, Program)
            value, (by_x, by_k) = made(x, k)
        scope = {}
        exec(made.source("numpy", "slopes"), scope)
        before = x.copy()
        for one, other in zip(scope["slopes"](before, k), (value, by_x, by_k), strict=True):
            np.testing.assert_allclose(one, np.ravel(other), rtol=1e-9, atol=1e-11)
        np.testing.assert_array_equal(before, x)

    @settings(max_examples=10)
    @given(seed=st.integers(0, 2**32 - 1))
    def test_random_programs_over_arrays(self, seed):
        tape, point = program(seed)
        count = len(tape.outputs)
        positions = np.random.default_rng(seed).permutation(count + 7)[:count]
        segments = [Segment(count + 7, slice(0, count), positions)]
        expected = np.zeros(count + 7)
        expected[positions] = evaluate(tape, point)
        scope = {}
        exec(Code(tape, maps=fuse(tape)).source(segments, [(3,), (4,)], "numpy", dtype="float64"), scope)
        with np.errstate(all="ignore"):
            (actual,) = scope["f"](point[:3], point[3:])
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-11)

    def test_positions_in_few_pieces_are_slices(self):
        def f(x):
            return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + x[:-1])

        made = acc.gradient(f, cache=False, effort="fast").compile(np.zeros(30_000))
        text = made.source("numpy")
        assert len(text) < 4_000
        assert "# 29,999 entries, test_numpy_source.py:" in text


def test_equal_constants_under_several_references_are_as_many_results():
    tape = Program(2)
    doubled = tape.map(lambda body: lambda value: body.add(value, value), [np.tile(np.arange(2), 40)])
    zeros = [tape.constant(0.0), tape.constant_apart(0.0), tape.constant(0.0)]
    tape.outputs = np.concatenate([zeros, doubled])
    segments = [Segment(3, slice(0, 3), slice(0, 3)), Segment(80, slice(3, 83), slice(0, 80))]
    scope = {}
    exec(Code(tape, maps=fuse(tape)).source(segments, [(2,)], "numpy", dtype="float64"), scope)
    zero, twice = scope["f"](np.ones(2))[:2]
    assert zero.tolist() == [0.0] * 3
    assert twice.tolist() == [2.0] * 80
