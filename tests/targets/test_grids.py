"""Loops over rows of equally spaced operands: what tables of all places give, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import unrolled

import accumulus as acc
from accumulus.tape.columns import Range, column, references_in
from accumulus.targets.llvm import steps
from accumulus.targets.llvm.grids import PARTS, Across, divided, grid_of, rows_of
from accumulus.targets.nests import Nest, copying

LANES = 8
DRAW = np.random.default_rng(0)


@given(st.integers(1, 30), st.integers(2, 40), st.integers(-3, 9), st.integers(0, 2**32 - 1))
def test_rows_are_found_and_nothing_else(rows, length, step, seed):
    draw = np.random.default_rng(seed)
    starts = draw.integers(200, 900, rows).astype(np.int32)
    places = (starts[:, np.newaxis] + np.int32(step) * np.arange(length, dtype=np.int32)).reshape(-1)
    found = rows_of(places, length)
    assert found.step == step
    np.testing.assert_array_equal(found.starts, starts)
    if length > 2:
        at = draw.integers(len(places))
        places[at] += 1
        assert rows_of(places, length) is None
    assert rows_of(places[:-1], length) is None or length == 1


def test_rows_with_gaps_that_are_used_again_are_copied():
    tables = np.tile(np.arange(0, 90, 3, dtype=np.int32), 12)
    different, which = rows_of(tables, 30).without_gaps()
    np.testing.assert_array_equal(different, [0])
    np.testing.assert_array_equal(which, np.zeros(12))
    assert rows_of(tables[:90], 30).without_gaps() is None
    assert rows_of(np.tile(np.arange(30, dtype=np.int32), 12), 30).without_gaps() is None


def test_operands_beside_others():
    one = rows_of(np.arange(0, 240, 8, dtype=np.int32), 30)
    assert rows_of(np.arange(3, 243, 8, dtype=np.int32), 30).beside(one) == 3
    assert one.beside(rows_of(np.arange(3, 243, 8, dtype=np.int32), 30)) is None
    assert rows_of(np.arange(3, 213, 7, dtype=np.int32), 30).beside(one) is None
    two = np.concatenate([np.arange(first, first + 120, 8, dtype=np.int32) for first in (1, 122)])
    other = np.concatenate([np.arange(first, first + 120, 8, dtype=np.int32) for first in (0, 120)])
    assert rows_of(two, 15).beside(rows_of(other, 15)) is None


def test_lengths_of_rows():
    along, down = np.tile(np.arange(40, dtype=np.int32), 20), np.repeat(np.arange(20, dtype=np.int32), 40)
    length, rows = grid_of([along, down, None], LANES, 1e-10, 6e-10, 1e-10)
    assert length == 40
    assert [each and each.step for each in rows] == [1, 0, None]
    scattered = np.arange(800, dtype=np.int32) * 7 % 801
    length, rows = grid_of([along, scattered], LANES, 1e-10, 6e-10, 1e-10)
    assert length == 40
    assert rows[1] is None
    assert grid_of([DRAW.permutation(800).astype(np.int32)], LANES, 1e-10, 6e-10, 1e-10) is None
    assert grid_of([None], LANES, 1e-10, 6e-10, 1e-10) is None
    # rows of nine instances take two vectors: not worth it where an instance takes long
    nine = np.tile(np.arange(9, dtype=np.int32), 20)
    assert grid_of([nine], LANES, 1e-10, 6e-10, 1e-10)[0] == 9
    assert grid_of([nine], LANES, 1e-8, 6e-10, 1e-10) is None


@given(st.integers(8, 40), st.integers(2, 30), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_sums_of_neighbours(width, terms, runs, seed):
    draw = np.random.default_rng(seed)
    starts = np.concatenate([1000 * run + np.arange(width) for run in range(runs)])
    starts = draw.permutation(starts).astype(np.int32)
    places = (starts[:, np.newaxis] + np.int32(width) * np.arange(terms, dtype=np.int32)).reshape(-1)
    offsets = terms * np.arange(len(starts) + 1)
    found = Across.of(places, offsets, LANES)
    assert (found.terms, found.step) == (terms, width)
    np.testing.assert_array_equal(np.unique(found.positions), np.arange(len(starts)))
    firsts = starts[found.positions.reshape(-1, LANES)]
    np.testing.assert_array_equal(firsts, found.starts[:, np.newaxis] + np.arange(LANES))
    assert Across.of(places, np.concatenate([offsets[:-1], offsets[-1:] - 1]), LANES) is None
    assert Across.of(places[: 7 * terms], offsets[:8], LANES) is None


def stretches(draw, most):
    """Return references in some stretches with a step of -1, 0 or 1."""
    parts = [
        draw.integers(50, 90) + draw.integers(-1, 2) * np.arange(draw.integers(1, 12))
        for _ in range(draw.integers(1, most))
    ]
    return np.concatenate([*parts, np.arange(20)])


@given(st.integers(0, 2**32 - 1))
def test_loops_are_divided_where_operands_are_not_consecutive(seed):
    draw = np.random.default_rng(seed)
    references = stretches(draw, 5)
    body = copying()
    nest = Nest(len(references), (column(references),), (1000,), (1000,), body=body)
    parts = divided(nest, LANES, 1.0)
    np.testing.assert_array_equal(np.concatenate([references_in(part.loads[0]) for part in parts]), references)
    assert [part.stores for part in parts] == [part.starts for part in parts]
    assert np.cumsum([0, *(part.count for part in parts)])[:-1].tolist() == [part.starts[0] - 1000 for part in parts]
    assert len(parts) <= PARTS
    if len(parts) > 1:
        assert all(isinstance(part.loads[0], Range) for part in parts)


def test_loops_with_many_stretches_or_few_instances_are_not_divided():
    scattered = Nest(100, (np.arange(100) * 7 % 101,), (1000,), (1000,), body=copying())
    assert divided(scattered, LANES, 1.0) == [scattered]
    ring = Nest(100, (np.roll(np.arange(100), 1),), (1000,), (1000,), body=copying())
    assert [part.count for part in divided(ring, LANES, 1.0)] == [1, 99]
    assert divided(ring, LANES, 1e-12) == [ring]
    short = Nest(15, (np.roll(np.arange(15), 1),), (1000,), (1000,), body=copying())
    assert divided(short, LANES, 1.0) == [short]


def test_sums_of_few_terms_are_loops_over_bodies():
    offsets = np.array([0, 2, *range(5, 59, 3), 60])
    nest = Nest(len(offsets) - 1, (Range(0, 1, 60),), (1000,), (1000,), offsets=offsets, code=5)
    parts = divided(nest, LANES, 1.0)
    assert [len(part.loads) for part in parts] == [2, 3, 4]
    assert all(part.body is not None and part.offsets is None for part in parts)
    for lengths in ([2] * 20 + [8], [2] * 20 + [0], [1, 2] * 20):
        nest = Nest(len(lengths), (Range(0, 1, sum(lengths)),), (1000,), (1000,), offsets=np.cumsum([0, *lengths]))
        assert divided(nest, LANES, 1.0) == [nest]


#: Functions of a matrix (24, 30), of a vector of 30, and of one of 24.
FUNCTIONS = {
    "along rows": lambda A, x, y: A * np.sin(x),
    "down columns": lambda A, x, y: (A - y[:, np.newaxis]) ** 2,
    "both": lambda A, x, y: np.exp(A * x[np.newaxis] - y[:, np.newaxis]),
    "outer": lambda A, x, y: np.tanh(y[:, np.newaxis] * x + 0.5 * A),
    "pairs": lambda A, x, y: np.sum((A[:, np.newaxis] - A[np.newaxis]) ** 2, axis=2),
    "distances": lambda A, x, y: np.sum((A[:, np.newaxis, :9] - A[np.newaxis, :, ::3][..., :9]) ** 2, axis=2),
    "sum over rows": lambda A, x, y: np.sum(np.sin(A * x), axis=0),
    "sum over columns": lambda A, x, y: np.sum(np.sin(A * x), axis=1),
    "transposed": lambda A, x, y: np.cos(A.T) * y - x[:, np.newaxis],
    "backwards": lambda A, x, y: A[:, ::-1] * x[::-1] - A[::-1],
    "every third": lambda A, x, y: np.sin(A[:, ::3]) * x[::3] + A[:, 1::3],
    "axes": lambda A, x, y: np.sum(A.reshape(24, 3, 10) * x.reshape(3, 10), axis=1) - A[:, :10] * y[:, np.newaxis],
    "mean and scale": lambda A, x, y: (A - np.mean(A, axis=0)) / np.sqrt(np.sum(A * A, axis=0) + 1.0),
    "softmax": lambda A, x, y: np.exp(A) / np.sum(np.exp(A), axis=1, keepdims=True),
    "selected": lambda A, x, y: np.where(A > x, A * x, y[:, np.newaxis]),
    "indexed": lambda A, x, y: A[:, np.arange(90) * 7 % 30] * np.tile(x, 3),
    "coordinates": lambda A, x, y: np.sqrt(
        A.reshape(-1, 3)[:, 0] ** 2 + A.reshape(-1, 3)[:, 2] * A.reshape(-1, 3)[:, 1]
    ),
    "columns": lambda A, x, y: np.stack([A[:, k] * A[:, (k + 3) % 30] - y for k in range(0, 30, 4)]),
    "last column": lambda A, x, y: np.sin(A[:, 29]) * y + A[:, 0],
    "ring": lambda A, x, y: np.roll(A, 1, axis=1) * np.roll(x, -1) - np.roll(y, 2)[:, np.newaxis],
    "ends": lambda A, x, y: np.concatenate([x[:1] * y[0], x[2:] - 2.0 * x[1:-1] + x[:-2], [x[-1] * A[0, 0]]]),
    "clamped": lambda A, x, y: A.reshape(-1)[np.clip(np.arange(-5, 720), 0, 700)] ** 2 * x[0],
    "sums of three": lambda A, x, y: np.sqrt(np.sum(A.reshape(-1, 3) ** 2, axis=1)) * np.sum(A.reshape(-1, 3), axis=1),
    "many columns": lambda A, x, y: np.prod([A[:, k] for k in range(29)], axis=0) * y,
    "columns of many": lambda A, x, y: (
        np.prod([np.outer(y, x).reshape(-1, 9)[:, k] for k in range(0, 9, 2)], axis=0)
        + sum(np.outer(x, y)[:24, k] for k in range(24)).repeat(4)[:80]
    ),
    "short rows": lambda A, x, y: np.sin(A[:, :9] * x[:9]) + y[:, np.newaxis],
    "long sums": lambda A, x, y: np.sum(A) * np.sum(np.outer(y, x), axis=0) + np.sum(x),
}


@pytest.mark.sampled(4, each="function")
@pytest.mark.parametrize("kind", ["compile", "jacobian", "vjp", "jvp", "hessian"])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_rows_and_tables_give_the_same(function, kind, monkeypatch):
    point = DRAW.uniform(0.2, 1.2, (24, 30)), DRAW.uniform(0.2, 1.2, 30), DRAW.uniform(0.2, 1.2, 24)
    chosen = {"compile": {}, "vjp": {}, "jvp": {}}.get(kind, {"argnums": (1, 2)})
    if kind == "hessian":

        def f(*x):
            return np.sum(function(*x) ** 2)
    else:
        f = function
    results = []
    for by_rows in (True, False):
        if not by_rows:
            monkeypatch.setattr(steps, "divided", lambda nest, *given: [nest])
            monkeypatch.setattr(steps, "grid_of", lambda *given: None)
            monkeypatch.setattr(steps.Across, "of", lambda *given: None)
        with unrolled(0):
            derivative = getattr(acc, kind)(f, **chosen, cache=False)
            given = {"vjp": (point, np.cos(function(*point))), "jvp": (point, tuple(map(np.sin, point)))}
            results.append(leaves(derivative(*given.get(kind, point))))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    if kind == "compile":
        np.testing.assert_allclose(results[0][0], function(*point), rtol=1e-13, atol=1e-13)


def leaves(tree):
    return [leaf for each in tree for leaf in leaves(each)] if isinstance(tree, tuple | list) else [np.asarray(tree)]


def test_sums_of_negative_zeros_are_positive():
    with unrolled(0):
        total = acc.compile(lambda A: np.sum(A * A[0], axis=1), cache=False)(np.full((50, 3), -0.0) * [1.0, -1.0, 1.0])
    assert not np.signbit(total).any()


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_random_slices(seed):
    draw = np.random.default_rng(seed)
    shape = tuple(draw.integers(3, 20, 2).tolist())

    def cut(n):
        first, step = int(draw.integers(0, n // 2)), int(draw.choice([1, 1, 1, 2, 3, -1]))
        return slice(first, None, step) if step > 0 else slice(None, None if first == 0 else first - 1, step)

    rows, columns = (cut(n) for n in shape)
    axis = int(draw.integers(0, 2))

    def f(A, B):
        part = A[rows, columns]
        pairs = part[:, :, np.newaxis] * np.sin(B[rows, columns])[:, np.newaxis]
        return np.sum(pairs, axis=axis) - np.sum(part, axis=axis)[..., np.newaxis]

    A, B = draw.normal(size=shape), draw.normal(size=shape)
    with unrolled(0):
        np.testing.assert_allclose(acc.compile(f, cache=False)(A, B), f(A, B), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_rows(threads, monkeypatch):
    A, x = DRAW.normal(size=(200, 90)), DRAW.normal(size=90)

    def f(A, x):
        return np.sum(np.sin(A * x - A[:, ::-1]), axis=0)

    monkeypatch.setattr(steps, "MINIMUM_WORK", 1e-30)
    monkeypatch.setattr(steps, "FEWEST_POINTS", 8)
    with unrolled(0):
        alone = acc.value_and_jacobian(f, 1, cache=False)(A, x)
        shared = acc.value_and_jacobian(f, 1, cache=False, threads=threads)(A, x)
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, other)
