"""Fast paths of batches and of calls that write to the caller's arrays, against the slow paths, bit for bit."""

from __future__ import annotations

import gc
import itertools
import sys
from contextlib import suppress

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import AccumulusError, ArgumentError, CaseError
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivative import Derivative
from accumulus.programs.forms import Forms
from accumulus.targets.llvm import llvm_kernel

QUICK = {"effort": "fast", "time_limit": 0.0, "cache": False}
POINTS = 5
RNG = np.random.default_rng(3)
X, T = RNG.uniform(0.2, 1.0, (POINTS, 3)) * [[1], [-1], [1], [1], [-1]], RNG.uniform(1.0, 2.0, POINTS)


def vector(x, t):
    return np.sin(x) * t + x[0] * x[::-1]


def number(x, t):
    return np.sum(np.cos(x) * x[::-1]) * t


def tree(x, t):
    return {"a": x * t, "b": (np.exp(x[0]), [t * x[1], x])}


def branches(x, t):
    """The number of turns depends on the numbers, so there are several programs."""
    while x[0] > 0.5:
        x = x / 2
    return np.cos(x) * t, x[1]


def nothing(x, t):
    return {"none": x[:0] * t, "some": x * t}


#: Functions that return a derivative, with a function of a vector and a number.
RESULTS = {
    "one": (acc.jacobian, vector),
    "pair": (acc.value_and_jacobian, vector),
    "numbers": (acc.value_and_gradient, number),
    "three": (acc.value_gradient_hessian, number),
    "tree": (acc.jacobian, tree),
    "tree, value too": (acc.value_and_jacobian, tree),
    "branches": (acc.value_and_jacobian, branches),
    "no entries": (acc.value_and_jacobian, nothing),
    "function": (acc.compile, tree),
}


def two_arguments(f):
    return f, lambda x, t: ((x, t), {}), {"argnums": (0, 1)}, (0, None)


def one_tree(f):
    return lambda p: f(p["x"], p["t"][0]), lambda x, t: (({"x": x, "t": (t,)},), {}), {}, ({"x": 0, "t": (None,)},)


#: Ways to pass the vector and the number: function, arguments, options, and `in_axes` for a shared number.
ARGUMENTS = {
    "one": lambda f: (lambda x: f(x, 1.5), lambda x, t: ((x,), {}), {}, None),
    "two": two_arguments,
    "tree": one_tree,
    "keyword": lambda f: (f, lambda x, t: ((), {"x": x, "t": t}), {}, {"x": 0, "t": None}),
    "both": lambda f: (f, lambda x, t: ((x,), {"t": t}), {}, {"x": 0}),
}
every_way = pytest.mark.parametrize(
    ("results", "arguments"),
    [
        (results, arguments)
        for results, arguments in itertools.product(RESULTS, ARGUMENTS)
        if results != "function" or arguments in ("one", "tree")
    ],
)


def made(results, arguments, **options):
    """The derivative, and the function that passes a vector and a number."""
    kind, f = RESULTS[results]
    function, passed, more, in_axes = ARGUMENTS[arguments](f)
    if results in ("three", "function"):
        more = {}
    return kind(function, **more, **QUICK, **options), passed, in_axes


def leaves(value):
    if isinstance(value, dict | tuple | list):
        return [leaf for each in (value.values() if isinstance(value, dict) else value) for leaf in leaves(each)]
    return [np.asarray(value)]


def bits(value):
    return [(leaf.dtype, leaf.shape, leaf.tobytes()) for leaf in leaves(value)]


def like(value, change):
    """The same structure with changed leaves."""
    if isinstance(value, dict):
        return {key: like(each, change) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(like(each, change) for each in value)
    return change(value)


def fresh(value):
    return like(value, lambda leaf: np.full_like(leaf, -7.0))


@pytest.fixture
def slow(monkeypatch):
    """The names of the slow paths that are taken."""
    taken = []
    for owner, name in (
        (Derivative, "_batch"),
        (Derivative, "_form_of"),
        (Derivative, "_call"),
        (Derivative, "_written"),
        (CompiledProgram, "batch_along"),
        (CompiledProgram, "into"),
        (CompiledProgram, "at"),
        (Forms, "of"),
    ):
        plain = getattr(owner, name)

        def counted(*arguments, name=name, plain=plain, **options):
            taken.append(name)
            return plain(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)
    return taken


def batches(arguments, x, t, transposed):
    return (np.ascontiguousarray(np.moveaxis(x, 0, -1)), t) if transposed else (x, t)


@every_way
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("transposed", [False, True])
def test_batches_are_those_of_the_slow_path(results, arguments, dtype, transposed, slow):
    derivative, passed, _ = made(results, arguments, dtype=dtype)
    x, t = batches(arguments, X.astype(dtype), T.astype(dtype), transposed)
    positional, keywords = passed(x, t)
    options = {"transposed": transposed}
    expected = derivative.batch(*positional, **keywords, **options)
    for _ in range(3):  # until there is a fast path, and every program has been first
        assert bits(derivative.batch(*positional, **keywords, **options)) == bits(expected)
    slow.clear()
    assert bits(derivative.batch(*positional, **keywords, **options)) == bits(expected)
    assert bits(derivative.batch(*positional, **keywords, **options, threads=2)) == bits(expected)
    some = passed(x[..., :2] if transposed else x[:2], t[:2])
    if not transposed:
        actual = derivative.batch(*some[0], **some[1], **options)
        assert bits(actual) == bits(like(expected, lambda leaf: leaf[:2]))
    out = fresh(expected)
    returned = derivative.batch(*positional, **keywords, **options, out=out)
    assert bits(out) == bits(returned) == bits(expected)
    assert all(one is other for one, other in zip(leaves(returned), leaves(out), strict=True))
    flat = leaves(fresh(expected))
    for sequence in (flat, tuple(flat)) if len(flat) > 1 else (flat[0], flat):
        derivative.batch(*positional, **keywords, **options, out=sequence)
        assert bits(flat) == bits(expected)
    assert not slow
    none = passed(x[..., :0] if transposed else x[:0], t[:0])
    actual = derivative.batch(*none[0], **none[1], **options)
    empty = like(expected, lambda leaf: leaf[..., :0] if transposed else leaf[:0])
    assert [leaf.shape for leaf in leaves(actual)] == [leaf.shape for leaf in leaves(empty)]


@every_way
def test_what_all_points_share(results, arguments, slow):
    derivative, passed, in_axes = made(results, arguments)
    if in_axes is None:
        pytest.skip("there is one argument")
    positional, keywords = passed(X, np.float64(1.5))
    expected = derivative.batch(*passed(X, np.full(POINTS, 1.5))[0], **passed(X, np.full(POINTS, 1.5))[1])
    for _ in range(3):
        derivative.batch(*positional, **keywords, in_axes=in_axes)
    slow.clear()
    assert bits(derivative.batch(*positional, **keywords, in_axes=in_axes)) == bits(expected)
    out = fresh(expected)
    derivative.batch(*positional, **keywords, in_axes=in_axes, out=out)
    assert bits(out) == bits(expected)
    assert not slow
    alone = derivative.batch(*passed(X[:1], np.float64(2.5))[0], **passed(X[:1], np.float64(2.5))[1], in_axes=in_axes)
    one = derivative(*passed(X[0], 2.5)[0], **passed(X[0], 2.5)[1])
    assert bits(like(alone, lambda leaf: leaf[0])) == bits(one)


@every_way
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_point_is_written_as_it_is_returned(results, arguments, dtype, slow):
    derivative, passed, _ = made(results, arguments, dtype=dtype)
    points = [passed(x, t) for x, t in zip(X.astype(dtype), T.astype(dtype), strict=True)]
    expected = [derivative(*positional, **keywords) for positional, keywords in points]
    program = derivative.compile(*points[0][0], **points[0][1])
    out = like(expected[0], lambda leaf: np.full(np.shape(leaf), -7.0, dtype))
    for positional, keywords in points[:3]:
        derivative(*positional, **keywords, out=out)
    program(*points[0][0], **points[0][1], out=out)
    slow.clear()
    flat = leaves(fresh(out))
    for (positional, keywords), right in zip(points, expected, strict=True):
        returned = derivative(*positional, **keywords, out=out)
        assert bits(out) == bits(returned) == bits(right)
        for sequence in (flat, tuple(flat)) if len(flat) > 1 else (flat[0], flat):
            derivative(*positional, **keywords, out=sequence)
            assert bits(flat) == bits(right)
    assert bits(program(*points[0][0], **points[0][1], out=out)) == bits(expected[0])
    assert not slow


@every_way
def test_programs_and_files_have_the_same_paths(results, arguments, slow, tmp_path):
    derivative, passed, _ = made(results, arguments)
    positional, keywords = passed(X, T)
    expected = derivative.batch(*positional, **keywords)
    acc.save(derivative, tmp_path / "saved")
    ways = [acc.load(tmp_path / "saved")]
    if results != "branches":  # a program holds for one case
        ways.append(derivative.compile(*passed(X[0], T[0])[0], **passed(X[0], T[0])[1]))
    for way in ways:
        for _ in range(4):
            way.batch(*positional, **keywords)
        slow.clear()
        assert bits(way.batch(*positional, **keywords)) == bits(expected)
        out = fresh(expected)
        way.batch(*positional, **keywords, out=out)
        assert bits(out) == bits(expected)
        assert not slow


@every_way
def test_calls_leave_nothing_behind(results, arguments):
    """Compiled code counts references itself: of results, of refused arrays, and where the called code raises."""
    derivative, passed, _ = made(results, arguments)
    (one, named), (many, named_many) = passed(X[0], T[0]), passed(X, T)
    expected, together = derivative(*one, **named), derivative.batch(*many, **named_many)
    out = like(expected, lambda leaf: np.full(np.shape(leaf), -7.0))
    outs = fresh(together)
    wrong = [np.empty((*np.shape(leaf), 3)) for leaf in leaves(expected)]

    narrow, narrow_many = passed(X[0].astype("f"), T[0]), passed(X.astype("f"), T)  # which compiled code refuses

    def everything():
        derivative(*one, **named)
        derivative(*narrow[0], **narrow[1])
        derivative.batch(*narrow_many[0], **narrow_many[1])
        derivative(*one, **named, out=out)
        derivative.batch(*many, **named_many)
        derivative.batch(*many, **named_many, out=outs)
        with suppress(ArgumentError):
            derivative(*one, **named, out=wrong)
        with suppress(ArgumentError):
            derivative.batch(*many, **named_many, out=wrong)

    kept = []
    for _ in range(8):  # caches fill in some of them, but a lost reference is one in each call
        gc.collect()
        before, none = sys.getallocatedblocks(), sys.getrefcount(None)
        for _ in range(50):
            everything()
        gc.collect()
        kept.append((sys.getallocatedblocks() - before, abs(sys.getrefcount(None) - none)))
    blocks, references = zip(*kept, strict=True)
    assert min(blocks) < 25
    assert min(references) < 25


def wrong_outputs(out):
    """Arrays in the structure of `out`, one of which cannot be written to."""
    for k, leaf in enumerate(out):
        read_only = leaf.copy()
        read_only.flags.writeable = False
        other = np.float32 if leaf.dtype == np.float64 else np.float64
        for wrong in (
            leaf.astype(other),
            np.empty((*leaf.shape, 1)),
            leaf[:-1] if leaf.ndim else np.empty(1),
            np.empty((*leaf.shape, 2), leaf.dtype)[..., 0] if leaf.ndim else 1.0,
            np.empty(leaf.shape, leaf.dtype.newbyteorder()),
            read_only,
            leaf.tolist(),
            None,
        ):
            yield [*out[:k], wrong, *out[k + 1 :]]
    yield out[:-1]
    yield [*out, out[-1].copy()]
    yield "out"


@pytest.mark.parametrize("results", ["one", "pair", "three", "tree", "branches"])
@pytest.mark.parametrize("arguments", ["one", "two", "tree", "keyword"])
def test_what_is_refused_is_not_written(results, arguments):
    derivative, passed, _ = made(results, arguments)
    positional, keywords = passed(X[0], T[0])
    right = [np.array(leaf) for leaf in leaves(derivative(*positional, **keywords))]
    rows = leaves(derivative.batch(*passed(X, T)[0], **passed(X, T)[1]))
    for _ in range(3):
        derivative(*positional, **keywords, out=fresh(right))
        derivative.batch(*passed(X, T)[0], **passed(X, T)[1], out=fresh(rows))
    before = bits((X, T))
    for call, given, expected in ((derivative, passed(X[0], T[0]), right), (derivative.batch, passed(X, T), rows)):
        out = fresh(expected)
        for wrong in wrong_outputs(out):
            with pytest.raises(ArgumentError, match="out"):
                call(*given[0], **given[1], out=wrong)
            assert (np.concatenate([leaf.ravel() for leaf in out]) == -7.0).all()
        call(*given[0], **given[1], out=out)
        assert bits(out) == bits(expected)
    assert bits((X, T)) == before


@pytest.mark.parametrize("arguments", ["one", "two", "tree", "keyword"])
@pytest.mark.parametrize("many", [False, True])
def test_overlaps_are_refused_and_not_written(arguments, many):
    derivative, passed, _ = made("pair", arguments)
    points = POINTS if many else 1
    memory = np.full(64 * points, 0.5)
    x = memory[: 3 * points].reshape((points, 3) if many else 3)
    t = np.full(points, 1.25) if many else 1.25
    call = derivative.batch if many else derivative
    positional, keywords = passed(x, t)
    expected = leaves(call(*positional, **keywords))
    for _ in range(3):
        call(*positional, **keywords, out=fresh([np.array(leaf) for leaf in expected]))
    shapes, last = [leaf.shape for leaf in expected], 3 * points

    def placed(*starts):
        sizes = [int(np.prod(shape)) for shape in shapes]
        return [
            memory[start : start + size].reshape(shape)
            for start, size, shape in zip(starts, sizes, shapes, strict=True)
        ]

    before, step = memory.copy(), 10 * points
    apart = [4 * points + k * step for k in range(len(shapes))]
    for k in range(len(shapes)):
        for start in (0, 1, last - 1):  # the argument
            with pytest.raises(ArgumentError, match="overlaps"):
                call(*positional, **keywords, out=placed(*apart[:k], start, *apart[k + 1 :]))
        for start in (apart[k - 1], apart[k - 1] + 1):  # another result
            with pytest.raises(ArgumentError, match="overlaps"):
                call(*positional, **keywords, out=placed(*apart[:k], start, *apart[k + 1 :]))
    np.testing.assert_array_equal(memory, before)
    call(*positional, **keywords, out=placed(last, *apart[1:]))  # they touch
    assert bits(placed(last, *apart[1:])) == bits(expected)
    np.testing.assert_array_equal(x, 0.5)


def test_arrays_without_entries_at_one_point():
    derivative = acc.jacobian(lambda x, y: {"a": x * 2.0, "b": y[:0]}, argnums=(0, 1), **QUICK)
    x, y = np.ones(2), np.zeros(3)
    expected = derivative(x, y)
    out = fresh(expected)
    for _ in range(2):
        derivative(x, y, out=out)
    assert bits(out) == bits(expected)
    flat = leaves(fresh(expected))
    twice = [*flat[:2], flat[2], flat[2].reshape(flat[3].shape) if flat[2].size == flat[3].size else flat[3]]
    for one in (flat, twice):
        derivative(x, y, out=one)
        assert bits(one) == bits(expected)
    same = [*flat[:3], flat[2]]
    if same[3].shape == flat[3].shape:
        with pytest.raises(ArgumentError, match="overlaps"):
            derivative(x, y, out=same)


class Own(np.ndarray):
    """A subclass of arrays."""


@pytest.mark.parametrize("results", ["one", "pair", "three", "tree"])
@pytest.mark.parametrize("arguments", ["one", "two", "tree"])
def test_other_arrays_take_the_slow_path(results, arguments, slow):
    derivative, passed, _ = made(results, arguments)
    expected = derivative.batch(*passed(X, T)[0])
    point = derivative(*passed(X[0], T[0])[0])
    for _ in range(2):
        derivative.batch(*passed(X, T)[0])
        derivative(*passed(X[0], T[0])[0], out=like(point, lambda leaf: np.empty(np.shape(leaf))))
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    for x in (strided, np.asfortranarray(X), X.astype(X.dtype.newbyteorder()), X[::-1].copy()[::-1]):
        slow.clear()
        assert bits(derivative.batch(*passed(x, T)[0])) == bits(expected)
        assert slow
        out = fresh(expected)
        derivative.batch(*passed(x, T)[0], out=out)
        assert bits(out) == bits(expected)
    with pytest.raises(ArgumentError, match="Own"):
        derivative.batch(*passed(X.view(Own), T)[0])
    for x in (strided[0], X[0].astype(X.dtype.newbyteorder())):
        out = like(point, lambda leaf: np.empty(np.shape(leaf)))
        derivative(*passed(x, T[0])[0], out=out)
        assert bits(out) == bits(point)
    own = like(expected, lambda leaf: np.full_like(leaf, -7.0).view(Own))
    derivative.batch(*passed(X, T)[0], out=own)
    assert bits(own) == bits(expected)


def test_wrong_arguments_raise_what_they_did():
    both = acc.value_and_jacobian(vector, argnums=(0, 1), **QUICK)
    inside = acc.value_and_jacobian(lambda p: vector(p["x"], p["t"]), **QUICK)
    for call in (
        both.batch,
        lambda x, t, **options: inside.batch({"x": x, "t": t}, **options),
    ):
        for _ in range(3):
            expected = call(X, T)
        for wrong, options, message in (
            ((X[:3], T), {}, "different numbers of points"),
            ((X.astype(object), T), {}, "object"),
            ((X, T), {"threads": 0}, "threads"),
            ((X, T), {"in_axes": "all"}, "in_axes"),
            ((X, T), {"in_axes": (0, 0, 0)}, "in_axes"),
        ):
            with pytest.raises(AccumulusError, match=message):
                call(*wrong, **options)
        assert bits(call(X, T)) == bits(expected)
    with pytest.raises(ArgumentError):
        both.batch(X, T, X)
    assert bits(both.batch(X, T)) == bits(expected)


def test_variables_that_change_are_seen():
    scale = [2.0]
    for derivative in (
        acc.value_and_jacobian(lambda x: x * scale[0], **QUICK),
        acc.value_and_jacobian(lambda p: p["x"] * scale[0], **QUICK),
    ):
        inside = derivative.__wrapped__.__code__.co_varnames == ("p",)
        given, one = ({"x": X}, {"x": X[0]}) if inside else (X, X[0])
        out, rows = [np.empty(3), np.empty((3, 3))], [np.empty((POINTS, 3)), np.empty((POINTS, 3, 3))]
        for factor in (2.0, 2.0, 2.0, 3.0, 3.0, 2.0):
            scale[0] = factor
            derivative(one, out=out)
            derivative.batch(given, out=rows)
            np.testing.assert_array_equal(out[1], factor * np.eye(3))
            np.testing.assert_array_equal(leaves(derivative(one))[1], factor * np.eye(3))
            np.testing.assert_array_equal(rows[1][0], factor * np.eye(3))
            np.testing.assert_array_equal(leaves(derivative.batch(given))[1][-1], factor * np.eye(3))


def test_many_results_are_in_a_list():
    f = lambda x: [x * float(k) for k in range(1, 211)]  # noqa: E731
    derivative = acc.compile(f, **QUICK)
    x = np.array([1.0, 2.0])
    expected, rows = derivative(x), derivative.batch(np.stack([x, x]))
    out, many = fresh(expected), fresh(rows)
    for _ in range(3):
        assert bits(derivative(x, out=out)) == bits(expected) == bits(out)
        assert bits(derivative.batch(np.stack([x, x]), out=many)) == bits(rows) == bits(many)
        assert bits(derivative.batch(np.stack([x, x]))) == bits(rows)
    with pytest.raises(ArgumentError, match="out"):
        derivative(x, out=[*out[:-1], np.empty(3)])
    with pytest.raises(ArgumentError, match="overlaps"):
        derivative(x, out=[*out[:-1], out[0]])


@pytest.mark.parametrize("results", ["one", "pair", "branches"])
def test_results_that_are_not_aligned(results, monkeypatch):
    """Code for their alignment is compiled once enough entries were stored."""
    derivative, *_ = made(results, "one")
    x = np.tile(np.concatenate([X, X[:, :1]], axis=1), (80, 1))  # rows of results are whole vectors
    expected = leaves(derivative.batch(x))
    for shift in range(8):
        out = [np.empty(leaf.size + 8)[shift : shift + leaf.size].reshape(leaf.shape) for leaf in expected]
        for _ in range(3):
            derivative.batch(x, out=out)
            assert bits(out) == bits(expected)
        monkeypatch.setattr(llvm_kernel, "ENTRIES_BEFORE_REALIGNMENT", 1)
    kernels = [program.kernel for cases in derivative._programs.values() for program in cases.programs]
    assert any(code.realigned for kernel in kernels for code in kernel._batches.values())


def test_a_program_of_one_case_refuses_the_others():
    program = acc.value_and_jacobian(lambda x: branches(x, 1.5), **QUICK).compile(X[0])
    out = leaves(fresh(program(X[0])))
    for _ in range(3):
        program(X[0], out=out)
    with pytest.raises(CaseError):
        program(X[2], out=out)


@pytest.mark.parametrize("target", ["llvm", "numpy", "c"])
def test_loops_refuse_what_straight_lines_do(target):
    """A loop's code does not check its arrays, so Python does."""
    slope = acc.value_and_gradient(lambda x: np.sum(np.sin(x[1:]) * x[:-1]), target=target, **QUICK)
    x = np.linspace(0.0, 1.0, 3_000)
    value, gradient = slope(x)
    out = [np.empty(()), np.empty(3_000)]
    for _ in range(2):
        slope(x, out=out)
    assert bits(out) == bits([value, gradient])
    read_only = np.full(3_000, -7.0)
    read_only.flags.writeable = False
    strided, narrow = np.full(6_000, -7.0), np.full(3_000, -7.0, np.float32)
    for wrong in (narrow, strided[::2], read_only, x, x[::-1], np.full(2_999, -7.0), np.full((3_000, 1), -7.0)):
        with pytest.raises(ArgumentError, match="out"):
            slope(x, out=[out[0], wrong])
        slope(x, out=out)
    assert (narrow == -7.0).all()
    assert (strided == -7.0).all()
    assert (read_only == -7.0).all()
    np.testing.assert_array_equal(x, np.linspace(0.0, 1.0, 3_000))
