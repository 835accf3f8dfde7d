"""Every target against the interpreter: random programs, dtypes, memory orders, batch sizes, threads."""

from __future__ import annotations

import signal
import sys
import time
import warnings
from inspect import signature
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import app, evaluate
from kernels import Guarded, assert_same, expected, lanes
from strategies import EXACT, points, programs, tapes
from typer.testing import CliRunner

import accumulus as acc
from accumulus import Tape
from accumulus.errors import ArgumentError, UnknownNameError
from accumulus.targets import Segment, check_target, compile_tape, emit_source, targets
from accumulus.targets.kernel import MINIMUM_WORK, Kernel
from accumulus.targets.target import TARGETS, Target

DTYPES = ("float64", "float32")
every_target = pytest.mark.parametrize("target", targets())
#: The random tests compile a program for each example; a few are enough where that starts a compiler.
FEW_EXAMPLES = {"c": 4}
quick_target = pytest.mark.parametrize("target", [name for name in targets() if name not in FEW_EXAMPLES])
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def sizes(dtype):
    width = lanes(dtype)
    return st.sampled_from([0, 1, width - 1, width, width + 1, 2 * width + 3, 100])


@quick_target
@every_dtype
@given(data=st.data())
def test_agrees_with_the_interpreter_to_the_last_bit_where_arithmetic_is_exact(target, dtype, data):
    # products that a target may fuse with sums are left out: they round differently
    program = data.draw(programs(names=EXACT - {"multiply"}))
    X = data.draw(points(data.draw(sizes(dtype)), program.tape.inputs, dtype))
    kernel = compile_tape(program.tape, program.segments, target, dtype)
    reference = expected(program.tape, program.segments, X)
    transposed = data.draw(st.booleans())
    given_points = np.ascontiguousarray(X.T) if transposed else X
    for actual, result in zip(kernel.batch(given_points, transposed=transposed), reference, strict=True):
        assert_same(actual.T if transposed else actual, result)


@quick_target
@every_dtype
@given(data=st.data())
def test_one_point_is_a_batch_of_one(target, dtype, data):
    program = data.draw(programs())
    X = data.draw(points(3, program.tape.inputs, dtype))
    kernel = compile_tape(program.tape, program.segments, target, dtype)
    batch = kernel.batch(X)
    for k, x in enumerate(X):
        for one, many in zip(kernel(x), batch, strict=True):
            # NumPy's own loops differ in the last bits between one and many
            assert_same(one, many[k], ulps=0 if target == "llvm" else 64)


@quick_target
@every_dtype
@given(data=st.data())
def test_writes_to_given_arrays_and_nowhere_else(target, dtype, data):
    program = data.draw(programs())
    count = data.draw(sizes(dtype))
    X = data.draw(points(count, program.tape.inputs, dtype))
    transposed = data.draw(st.booleans())
    offset = data.draw(st.integers(0, 7))
    kernel = compile_tape(program.tape, program.segments, target, dtype)
    given_points = np.ascontiguousarray(X.T) if transposed else X
    before = given_points.copy()
    shapes = [(s.length, count) if transposed else (count, s.length) for s in program.segments]
    guarded = [Guarded(shape, dtype, offset) for shape in shapes]
    out = tuple(guard.array for guard in guarded)
    returned = kernel.batch(given_points, out=out, transposed=transposed)
    assert all(a is b for a, b in zip(returned, out, strict=True))
    for guard, fresh in zip(guarded, kernel.batch(given_points, transposed=transposed), strict=True):
        guard.check()
        assert_same(guard.array, fresh)
    np.testing.assert_array_equal(given_points, before)


def test_threads_are_used_as_the_work_is_worth_it():
    tape = Tape(1)
    value = 0
    for _ in range(100):
        value = tape.apply("sin", value)
    tape.outputs = [value]
    long, short = (compile_tape(*program) for program in ((tape, [Segment(1, (0,), (0,))]), product()))
    assert 20 * short.point_seconds < long.point_seconds
    for kernel in (long, short):
        enough = int(4 * MINIMUM_WORK / kernel.point_seconds) + 1
        assert [kernel.threads_for(enough, threads) for threads in (1, 2, 3, 50)] == [1, 2, 3, 4]
        assert kernel.threads_for(enough // 4, 50) == 1
        assert kernel.threads_for(0, 50) == 1


@quick_target
@given(data=st.data())
def test_threads_share_a_batch(target, data):
    program = data.draw(programs(max_operations=10))
    X = data.draw(points(1000, program.tape.inputs))
    transposed = data.draw(st.booleans())
    given_points = np.ascontiguousarray(X.T) if transposed else X
    kernel = compile_tape(program.tape, program.segments, target)
    alone = kernel.batch(given_points, transposed=transposed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accumulus.targets.kernel.MINIMUM_WORK", 1e-12)
        for threads in (2, 3, 50):
            assert kernel.threads_for(1000, threads) == min(threads, 16) or not kernel.point_seconds
            for actual, result in zip(
                kernel.batch(given_points, threads=threads, transposed=transposed), alone, strict=True
            ):
                assert_same(actual, result, ulps=0 if target == "llvm" else 64)


@quick_target
@pytest.mark.parametrize("threads", [1, 3])
def test_batches_are_computed_some_points_at_a_time_and_end_with_ctrl_c(target, threads, monkeypatch):
    monkeypatch.setattr("accumulus.targets.kernel.SLICE", 1e-12)
    monkeypatch.setattr("accumulus.targets.kernel.MINIMUM_WORK", 1e-12)
    kernel = compile_tape(*product(), target)
    X = np.random.default_rng(0).normal(size=(3_000, kernel.arguments[0][0]))
    ranges = []

    def run(batch, first, last, plain=kernel.run):
        ranges.append((first, last))
        plain(batch, first, last)

    whole = kernel.batch(X)[0]
    monkeypatch.setattr(kernel, "run", run)
    out = np.zeros_like(whole)
    kernel.batch(X, out=(out,), threads=threads)
    assert_same(out, whole)
    assert sorted(first for first, _ in ranges) == list(range(0, 3_000, 64))
    assert max(last - first for first, last in ranges) <= kernel.most_points == 64

    def interrupted(batch, first, last, plain=kernel.run):
        plain(batch, first, last)
        if first == 64:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(kernel, "run", interrupted)
    ranges.clear()
    with pytest.raises(KeyboardInterrupt):
        kernel.batch(X, threads=threads)
    done = len(ranges)
    assert threads > 1 or done == 2
    time.sleep(0.01)
    assert len(ranges) == done
    assert_same(kernel.batch(X[:5])[0], whole[:5])


@quick_target
@given(data=st.data())
def test_structural_zeros_in_place_are_kept(target, data):
    program = data.draw(programs(max_operations=10))
    count = data.draw(sizes("float64"))
    X = data.draw(points(count, program.tape.inputs))
    transposed = data.draw(st.booleans())
    given_points = np.ascontiguousarray(X.T) if transposed else X
    kernel = compile_tape(program.tape, program.segments, target)
    expected = kernel.batch(given_points, transposed=transposed)
    out = tuple(np.zeros_like(array) for array in expected)
    kernel.batch(given_points, out=out, transposed=transposed, zeroed=True)
    for actual, result in zip(out, expected, strict=True):
        assert_same(actual, result)


@quick_target
@given(tape=tapes())
def test_the_same_program_gives_the_same_source(target, tape):
    segments = (Segment(len(tape.outputs), tuple(range(len(tape.outputs))), tuple(range(len(tape.outputs)))),)
    assert emit_source(tape, segments, target) == emit_source(tape.copy(), segments, target)


@pytest.mark.parametrize("target", FEW_EXAMPLES)
@pytest.mark.parametrize(
    "test",
    [
        test_agrees_with_the_interpreter_to_the_last_bit_where_arithmetic_is_exact,
        test_one_point_is_a_batch_of_one,
        test_writes_to_given_arrays_and_nowhere_else,
        test_structural_zeros_in_place_are_kept,
    ],
    ids=lambda test: test.__name__,
)
def test_targets_with_a_compiler(target, test):
    inner = test.hypothesis.inner_test

    @settings(max_examples=FEW_EXAMPLES[target])
    @given(data=st.data(), dtype=st.sampled_from(DTYPES))
    def drawn(data, dtype):
        given_too = {"dtype": dtype} if "dtype" in signature(inner).parameters else {}
        inner(target=target, data=data, **given_too)

    drawn()


def product():
    tape = Tape(2)
    tape.outputs = [tape.multiply(0, 1)]
    return tape, (Segment(1, (0,), (0,)),)


@every_target
def test_takes_any_array_like_at_one_point_and_refuses_a_wrong_shape(target):
    kernel = compile_tape(*product(), target)
    for x in (np.array([2.0, 3.0]), np.array([[2.0, 9.0], [3.0, 9.0]])[:, 0], [2, 3], np.float32([2, 3])):
        assert kernel(x)[0] == 6.0
    with pytest.raises(ArgumentError, match=r"expected \(2,\)"):
        kernel(np.zeros(3))


@every_target
def test_takes_subclasses_and_read_only_points(target):
    kernel = compile_tape(*product(), target)

    class Mine(np.ndarray):
        pass

    X = np.arange(8.0).reshape(4, 2)
    X.flags.writeable = False
    out = np.empty((4, 1)).view(Mine)
    kernel.batch(X.view(Mine), out=(out,))
    np.testing.assert_array_equal(np.asarray(out)[:, 0], X[:, 0] * X[:, 1])


@every_target
def test_refuses_wrong_arrays(target):
    kernel = compile_tape(*product(), target)
    X = np.zeros((4, 2))
    for wrong in (np.zeros((4, 3)), np.zeros(4), np.zeros((4, 2), "float32"), np.zeros((2, 4)).T, [[1.0, 2.0]]):
        with pytest.raises(ArgumentError):
            kernel.batch(wrong)
    read_only = np.zeros((4, 1))
    read_only.flags.writeable = False
    for out in (
        (np.zeros((3, 1)),),
        (np.zeros((4, 1), "float32"),),
        (np.zeros((8, 1))[::2],),
        (read_only,),
        (),
        (np.zeros((4, 1)), np.zeros((4, 1))),
    ):
        with pytest.raises(ArgumentError):
            kernel.batch(X, out=out)


@every_target
def test_refuses_arrays_that_overlap(target):
    kernel = compile_tape(*product(), target)
    memory = np.zeros(16)
    X = memory[:8].reshape(4, 2)
    for start, refused in ((0, True), (7, True), (8, False)):
        out = (memory[start : start + 4].reshape(4, 1),)
        if refused:
            with pytest.raises(ArgumentError, match="overlaps"):
                kernel.batch(X, out=out)
        else:
            kernel.batch(X, out=out)
    tape, segment = product()
    kernel = compile_tape(tape, segment * 2, target)
    with pytest.raises(ArgumentError, match="overlaps"):
        kernel.batch(X, out=(memory[8:12].reshape(4, 1), memory[11:15].reshape(4, 1)))


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="did you mean 'llvm'"):
        compile_tape(*product(), target="llmv")
    with pytest.raises(UnknownNameError, match="float32, float64"):
        compile_tape(*product(), dtype="float16")
    with pytest.raises(UnknownNameError):
        emit_source(*product(), target="fortran")
    assert check_target("numpy") == "numpy"


def test_malformed_segments_are_refused():
    tape, _ = product()
    with pytest.raises(ArgumentError, match="names output 1"):
        compile_tape(tape, (Segment(1, (1,), (0,)),))
    for arguments in ((1, (0,), ()), (1, (0, 0), (0, 0)), (1, (0,), (1,)), (1, (0,), (-1,))):
        with pytest.raises(ArgumentError):
            Segment(*arguments)


class Interpreter(Kernel):
    """A kernel as small as one can be: one point after the other."""

    def compute(self, arguments, results):
        values = evaluate(self._tape, np.concatenate([entry.ravel() for entry in arguments]))
        for row, segment in zip(results, self.segments, strict=True):
            row[:] = 0.0
            for output, position in segment.pairs():
                row[position] = float(values[output])


def listed(unit, name):
    return f"{name}:\n{unit.tape}\n"


INTERPRETED = Target(Interpreter, listed, comment="--", dtypes=("float64",))


@pytest.fixture
def another(monkeypatch):
    """The name of another target, which took one class and one row."""
    monkeypatch.setitem(sys.modules, "another_target", SimpleNamespace(TARGET=INTERPRETED))
    monkeypatch.setitem(TARGETS, "interpreted", "another_target")
    return "interpreted"


def test_another_target_is_one_class_and_one_row(another, tmp_path):
    def f(a, x):
        return a * np.sin(x) * x[0]

    x, X = np.array([0.5, 2.0, -1.0]), np.random.default_rng(0).uniform(-2.0, 2.0, (5, 3))
    actual, expected = acc.value_and_jacobian(f, 1, target=another), acc.value_and_jacobian(f, 1)
    for one, other in zip(actual(2.0, x), expected(2.0, x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
    for transposed in (False, True):
        points = X.T if transposed else X
        pairs = zip(
            actual.batch(2.0, points, transposed=transposed, threads=2),
            expected.batch(2.0, points, transposed=transposed),
            strict=True,
        )
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-16)
    assert actual.batch(2.0, X[:0])[1].shape == (0, 3, 3)
    assert "interpreted, float64" in str(actual.report())
    with pytest.raises(UnknownNameError, match="float32"):
        acc.jacobian(f, 1, target=another, dtype="float32")(2.0, x)


def test_source_of_another_target_has_the_comments_of_its_language(another, tmp_path):
    (tmp_path / "g.json").write_text('{"edges": [["y", "v"], ["v", "x"]]}')
    done = CliRunner().invoke(app, ["emit", str(tmp_path / "g.json"), "--target", another])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("-- Jacobian of the graph")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("target", targets())
def test_later_calls_take_what_the_first_one_takes(target, dtype):
    """Fast calls convert arguments, or leave that to the slow path, as a first call does: without a warning more."""

    def of_all(x, t):
        return np.sin(x) * t + x[0]

    asked = [
        (np.array([2**53 + 1, 3, -4]), 2),
        (np.array([1e300, 1.0, 2.0]), 1e300),
        (np.array([1e300, 1.0, 2.0]), np.float64(1e300)),
        (np.arange(3.0)[::-1], np.float32(0.5)),
        (np.arange(3.0, dtype=">f8"), True),
        (np.ones(3, np.longdouble), np.array(2)),
        ([1.0, 2.0, 3.0], 10**400),
        (np.ma.array([1.0, 2.0, 3.0]), 1),
        (np.ones(3) + 0j, 1.0),
        (np.array(["a", "b", "c"]), 1.0),
        (np.ones(4), 1.0),
    ]

    def outcome(derivative, x, t):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                result = derivative(x, t).tobytes()
            except Exception as error:
                result = f"{type(error).__name__}: {error}"
        return result, sorted({each.category.__name__ for each in told})

    for x, t in asked:
        derivative = acc.jacobian(of_all, target=target, dtype=dtype, cache=False, effort="fast", time_limit=0.0)
        derivative.compile(np.ones(3), 1.0)
        first = outcome(derivative, x, t)
        for _ in range(2):
            derivative(np.ones(3), 1.0)
        later = outcome(derivative, x, t)
        assert later[0] == first[0], (x, t)
        assert set(later[1]) <= set(first[1]), (x, t)
