"""The compiled function for one point of loops: against the way through Python, for all that it takes and refuses."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

import accumulus as acc
from accumulus.targets.llvm.maps import LLVMLoops

N = 2_000


def waves(x):
    return np.sum(np.sin(x) * x)


def scaled(factor, x, shift):
    return factor * np.cumsum(np.exp(-x) * shift)


def pair(x, y):
    return np.sum(x * np.sin(y)), x[1:] * y[:-1] - x[0]


def chosen(x):
    return np.sum(np.where(x > 0.5, x**2, np.sin(x)))


X = np.random.default_rng(0).uniform(0.1, 1.0, N)
CASES = {
    "gradient": (acc.gradient, waves, (X,)),
    "value and gradient": (acc.value_and_gradient, waves, (X,)),
    "function of three": (acc.compile, scaled, (1.5, X, X[::-1].copy())),
    "gradients of two": (lambda f: acc.gradient(lambda *each: f(*each)[0], argnums=(0, 1)), pair, (X, 1.0 + X)),
    "two results": (acc.compile, pair, (X, 1.0 + X)),
    "selection": (acc.gradient, chosen, (X,)),
    "product": (lambda f: acc.compile(lambda x, v: acc.jvp(f)((x,), (v,))), waves, (X, np.cos(X))),
}


def flat(result):
    return [np.asarray(each) for each in (result if isinstance(result, tuple | list) else [result])]


@pytest.fixture
def made(monkeypatch):
    """Compiled functions for one point."""
    functions = []
    entry = LLVMLoops._entry

    def noted(self, *arguments):
        functions.append(entry(self, *arguments))
        return functions[-1]

    monkeypatch.setattr(LLVMLoops, "_entry", noted)
    return functions


def by_python(monkeypatch, kind, function, arguments):
    with monkeypatch.context() as patch:
        patch.setattr(LLVMLoops, "_entry", lambda *arguments: None)
        return flat(kind(function)(*arguments))


@pytest.mark.parametrize("case", CASES)
def test_results_have_the_bits_that_they_have_by_python(case, made, monkeypatch):
    kind, function, arguments = CASES[case]
    expected = by_python(monkeypatch, kind, function, arguments)
    derivative = kind(function)
    derivative(*arguments)
    assert any(made)
    for turn in range(3):
        moved = [a + 0.01 * turn for a in arguments]
        for one, other in zip(flat(derivative(*moved)), by_python(monkeypatch, kind, function, moved), strict=True):
            np.testing.assert_array_equal(one, other)
    out = [np.full_like(each, np.nan) for each in expected]
    derivative(*arguments, out=out if len(out) > 1 else out[0])
    bound = derivative.bind(*arguments)
    for one, two, three in zip(out, flat(bound()), expected, strict=True):
        np.testing.assert_array_equal(one, three)
        np.testing.assert_array_equal(two, three)
    again = pickle.loads(pickle.dumps(derivative.compile(*arguments)))
    for one, other in zip(flat(again(*arguments)), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.astype(np.float32).astype(float).reshape(-1)[::1],
        lambda x: np.repeat(x, 2)[::2],
        lambda x: (10 * x).astype(int),
        lambda x: x.astype(np.float32),
        list,
        np.asfortranarray,
    ],
)
def test_other_arguments_are_converted_as_before(change, monkeypatch):
    derivative = acc.gradient(waves)
    derivative(X)
    given = change(X.copy())
    (expected,) = by_python(monkeypatch, acc.gradient, waves, (np.asarray(given, float),))
    np.testing.assert_array_equal(derivative(given), expected)


def test_arrays_that_overlap_are_refused_and_nothing_is_written(made):
    gradient = acc.gradient(waves)
    gradient(X)
    both = np.concatenate([X, X])
    before = both.copy()
    for out in (both[:N], both[N - 1 : -1], both[1 : N + 1]):
        with pytest.raises(acc.errors.ArgumentError, match="overlaps"):
            gradient(both[:N], out=out)
        np.testing.assert_array_equal(both, before)
    out = np.full(2 * N, np.nan)
    gradient(X, out=out[:N])
    assert np.isnan(out[N:]).all()
    for wrong in (np.empty(N + 1), np.empty(N, np.float32), np.empty(2 * N)[::2]):
        with pytest.raises(acc.errors.ArgumentError):
            gradient(X, out=wrong)
    compiled = made[0].point
    assert compiled(X, np.empty(N - 1)) is NotImplemented
    assert compiled(X) is NotImplemented
    assert compiled(X, np.empty(N), np.empty(N)) is NotImplemented
    assert compiled(X, np.empty(N)) is None


def test_threads_take_turns_and_have_their_own_results():
    value_and_gradient = acc.value_and_gradient(waves)
    value_and_gradient(X)
    points = [X + 0.1 * k for k in range(8)]
    expected = [flat(value_and_gradient(x)) for x in points]
    wrong = []

    def work(k):
        for _ in range(400):
            for one, other in zip(flat(value_and_gradient(points[k])), expected[k], strict=True):
                if not np.array_equal(one, other):
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Batches -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", [1, 3, 70])
def test_points_of_batches_have_the_bits_that_they_have_alone(case, count, monkeypatch):
    kind, function, arguments = CASES[case]
    derivative = kind(function)
    offsets = np.linspace(0.0, 0.1, count)
    batch = [np.stack([a + offset for offset in offsets]) for a in arguments]
    alone = [flat(derivative(*(each[k] for each in batch))) for k in range(count)]
    for _ in range(3):
        made = flat(derivative.batch(*batch, in_axes=0))
        for k in range(count):
            for one, other in zip(made, alone[k], strict=True):
                np.testing.assert_array_equal(one[k], other)
    out = [np.full_like(each, np.nan) for each in made]
    for threads in (1, 2):
        derivative.batch(*batch, in_axes=0, out=out if len(out) > 1 else out[0], threads=threads)
        for one, other in zip(out, made, strict=True):
            np.testing.assert_array_equal(one, other)
    across = [np.ascontiguousarray(np.moveaxis(each, 0, -1)) for each in batch]
    for one, other in zip(flat(derivative.batch(*across, in_axes=-1, transposed=True)), made, strict=True):
        np.testing.assert_array_equal(np.moveaxis(one, -1, 0), other)


def test_arguments_that_all_points_share_and_batches_without_points():
    f = acc.compile(scaled)
    factors, shifts = np.linspace(1.0, 2.0, 5), np.stack([X + k for k in range(5)])
    for _ in range(3):
        result = f.batch(factors, X, shifts, in_axes=(0, None, 0))
        for k in range(5):
            np.testing.assert_array_equal(result[k], f(factors[k], X, shifts[k]))
        result = f.batch(1.5, X, shifts, in_axes=(None, None, 0))
        np.testing.assert_array_equal(result[3], f(1.5, X, shifts[3]))
        assert f.batch(factors[:0], X, shifts[:0], in_axes=(0, None, 0)).shape == (0, N)


def test_batches_refuse_what_does_not_fit_and_convert_the_rest():
    gradient = acc.gradient(waves)
    points = np.stack([X, X + 1.0, X + 2.0])
    expected = gradient.batch(points)
    for given in (np.repeat(points, 2, axis=1)[:, ::2], np.asfortranarray(points), points.tolist()):
        np.testing.assert_array_equal(gradient.batch(given), expected)
    single = points.astype(np.float32)
    np.testing.assert_array_equal(gradient.batch(single), gradient.batch(single.astype(float)))
    room = np.full((5, N), np.nan)
    for wrong in (np.empty((3, N + 1)), np.empty((2, N)), np.empty((3, N), np.float32), np.empty((3, 2 * N))[:, ::2]):
        with pytest.raises(acc.errors.ArgumentError):
            gradient.batch(points, out=wrong)
    gradient.batch(points, out=room[1:4])
    np.testing.assert_array_equal(room[1:4], expected)
    assert np.isnan(room[[0, 4]]).all()
    before = points.copy()
    with pytest.raises(acc.errors.ArgumentError, match="overlaps"):
        gradient.batch(points, out=points)
    np.testing.assert_array_equal(points, before)


def test_points_of_several_cases():
    def branching(x):
        return np.sum(np.sin(x)) if x[0] > 1.0 else np.sum(x * x)

    gradient = acc.gradient(branching)
    points = np.stack([X + 0.3 * k for k in range(8)])
    for _ in range(3):
        batch = gradient.batch(points)
        for k in range(8):
            expected = np.cos(points[k]) if points[k, 0] > 1.0 else 2.0 * points[k]
            np.testing.assert_allclose(batch[k], expected, rtol=1e-14)
