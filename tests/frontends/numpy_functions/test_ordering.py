"""NumPy's functions that sort, search and select: as NumPy wherever their recording holds, ties and NaN among it."""

from __future__ import annotations

import numpy as np
import pytest
from inside import outputs_at

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends.agreement import where_it_holds
from accumulus.frontends.record import record

KNOTS = np.linspace(-3.0, 3.0, 40)


def assign_by_mask(x):
    y = x.copy()
    y[y > 0] = 2 * y[y > 0]
    y.sort()
    return y


VECTORS = {
    "sort": np.sort,
    "sort few": lambda x: np.sort(x[:6]),
    "sort method": assign_by_mask,
    "argsort": lambda x: x[np.argsort(x, kind="stable")],
    "argmax": lambda x: x * np.argmax(x) + x.argmin(),
    "partition": lambda x: np.partition(x, 4),
    "argpartition": lambda x: x[np.argpartition(x, 4)],
    "lexsort": lambda x: x[np.lexsort((x, np.floor(x)))],
    "unique": lambda x: np.unique(x) ** 2,
    "unique with all": lambda x: np.concatenate([x * 1.0, *np.unique(x, True, True, True)]),
    "searchsorted": lambda x: x * np.searchsorted(KNOTS, x),
    "searchsorted from the right": lambda x: x * np.searchsorted([-1.0, 0.0, 0.0, 1.0], x, side="right"),
    "searchsorted among traced": lambda x: x * np.searchsorted(np.sort(x), 0.5),
    "digitize": lambda x: x * np.digitize(x, [-1, 0, 1]),
    "digitize downwards": lambda x: x * np.digitize(x, [1, 0, -1], right=True),
    "nonzero": lambda x: x[np.nonzero(x)],
    "flatnonzero": lambda x: x[np.flatnonzero(x > 0)],
    "argwhere": lambda x: x[np.argwhere(x > 0)[:, 0]],
    "where": lambda x: x[np.where(x > 0)],
    "count_nonzero": lambda x: x * np.count_nonzero(x > 0),
    "so many": lambda x: x[: np.count_nonzero(x > 0)],
    "compress": lambda x: np.compress(x > 0, x),
    "extract": lambda x: np.extract(x > 0, x**2),
    "mask": lambda x: x[x > 0.2],
    "bincount": lambda x: np.bincount(np.abs(x).astype(int), weights=x),
    "bincount of weights": lambda x: np.bincount([0, 1, 1, 2] * 3, weights=x),
    "interp in a long table": lambda x: np.interp(x[0], KNOTS, np.sin(KNOTS) * x[1], left=5.0, right=7.0),
    "interp at some places": lambda x: np.interp(2 * x[:3], KNOTS, np.sin(KNOTS)),
    "interp between traced knots": lambda x: np.interp(0.3, np.sort(x), x),
    "as whole numbers": lambda x: x * x.astype(int),
    "in": lambda x: x * (1 if x[0] in x[1:] else 2),
    "range": lambda x: sum((x[k] for k in range(int(abs(x[0])))), 0.0 * x[0]),
    "list index": lambda x: [1.0, 2.0, 3.0, 5.0, 7.0][int(abs(x[1]))] * x,
    "round": lambda x: x * round(x[0]),
}
MATRICES = {
    "sort columns": lambda A: np.sort(A, axis=0),
    "sort rows": lambda A: np.sort(A, axis=1),
    "sort all": lambda A: np.sort(A, axis=None),
    "argsort rows": lambda A: np.take_along_axis(A, np.argsort(A, axis=1, kind="stable"), 1),
    "argmax": lambda A: A * np.argmax(A),
    "argmax of rows": lambda A: A[np.arange(3), np.argmax(A, axis=1)],
    "argmin kept": lambda A: np.take_along_axis(A, np.argmin(A, axis=0, keepdims=True), 0),
    "mask": lambda A: A[A > 0.2],
    "mask of rows": lambda A: A[np.sum(A, axis=1) > 0],
    "count": lambda A: A * np.count_nonzero(A > 0, axis=0),
}
CASES = [(f, (12,), name) for name, f in VECTORS.items()] + [(f, (3, 10), name) for name, f in MATRICES.items()]


@pytest.mark.parametrize(("f", "shape"), [case[:2] for case in CASES], ids=[case[2] for case in CASES])
def test_as_numpy_where_the_recording_holds(f, shape):
    rng = np.random.default_rng(3)
    free, tied = rng.normal(size=shape), np.round(2 * rng.normal(size=shape)) / 2
    for sample in (free, tied):
        recording = record(f, [sample], decides=True, check=True)
        steps = [np.zeros(shape), 1e-9 * rng.normal(size=shape), 0.05 * rng.normal(size=shape)]
        steps += [np.round(2 * rng.normal(size=shape)) / 2 for _ in range(10)]
        points = np.stack([(sample + step).ravel() for step in steps])
        holds = where_it_holds(recording, points)
        assert holds[0]
        outputs = outputs_at(recording.program, points)[: recording.results]
        for point, values in zip(points[holds], outputs[:, holds].T, strict=True):
            expected = np.ravel(f(point.reshape(shape)))
            np.testing.assert_allclose(values, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", ["sort", "sort few", "argsort", "argmax", "searchsorted", "mask", "sort method"])
def test_nan_is_where_numpy_has_it(name):
    x = np.random.default_rng(1).normal(size=12)
    recording = record(VECTORS[name], [x], decides=True)
    x[[2, 5]] = np.nan
    with_nan = record(VECTORS[name], [x], decides=True)
    np.testing.assert_array_equal(outputs_at(with_nan.program, x[np.newaxis])[: with_nan.results, 0], VECTORS[name](x))
    assert where_it_holds(with_nan, x[np.newaxis]).all()
    if name not in ("sort few", "mask"):  # which hold everywhere, or where comparisons are false
        assert not where_it_holds(recording, x[np.newaxis]).any()


def test_derivatives_of_a_batch_that_crosses_orders():
    X = np.random.default_rng(2).normal(size=(40, 4))

    def f(x):
        y = np.sort(x)
        return y * np.array([1.0, 2.0, 3.0, 4.0]) + x[np.argmax(x)]

    expected = np.zeros((40, 4, 4))
    for k, x in enumerate(X):
        expected[k, np.arange(4), np.argsort(x)] = [1.0, 2.0, 3.0, 4.0]
        expected[k, :, np.argmax(x)] += 1.0
    jac = acc.jacobian(f)
    np.testing.assert_array_equal(jac.batch(X), expected)
    assert repr(jac) == "<jacobian(f), 4 compiled>"  # for the place of the largest; few entries are sorted by choices


@pytest.mark.parametrize("name", ["argsort", "argmax", "unique", "nonzero", "mask", "searchsorted", "where"])
def test_refused_on_demand(name):
    with pytest.raises(TraceError, match=r"depends? on the (arguments of the function|function's arguments)"):
        record(VECTORS[name], [np.arange(12.0)])


# Long arrays, sorted at every point ----------------------------------------------------------------------------------

LONG = {
    "quantile": lambda x: np.quantile(x, 0.3) ** 2,
    "quantiles": lambda x: np.quantile(x, [0.1, 0.55]) @ np.array([1.0, 2.0]),
    "median": lambda x: np.median(x.reshape(-1, 15), axis=1) @ np.arange(20.0),
    "sort": lambda x: np.sort(x) @ np.linspace(-1.0, 1.0, 300),
    "sort of rows": lambda x: np.sum(np.sort(x.reshape(25, 12), axis=1)[:, -3:] ** 2),
    "sort of columns": lambda x: np.sort(x.reshape(12, 25), axis=0)[2] @ np.sin(x[:25]),
    "partition": lambda x: np.sum(np.partition(x, 20)[:21] ** 2),
    "argsort": lambda x: x[np.argsort(x)] @ np.linspace(-1.0, 1.0, 300),
    "argsort of rows": lambda x: np.sum(
        np.take_along_axis(x.reshape(25, 12), np.argsort(x.reshape(25, 12), axis=1), 1)[:, 3] ** 3
    ),
    "argpartition": lambda x: np.sum(x[np.argpartition(x, 100)[:101]] ** 3),
    "ranks": lambda x: np.sum(np.exp(x[np.argsort(-x)[:70]])),
    "argmax": lambda x: np.sum(x.reshape(75, 4)[np.arange(75), np.argmax(x.reshape(75, 4), axis=1)] ** 2),
    "argmin": lambda x: np.sum(
        np.take_along_axis(x.reshape(75, 4), np.argmin(x.reshape(75, 4), axis=1, keepdims=True), 1) ** 3
    ),
    "distance of distributions": lambda x: np.mean(np.abs(np.sort(x) - np.sort(np.sin(3.0 * x)))),
}


@pytest.mark.parametrize("name", LONG)
def test_long_arrays_are_sorted_at_every_point(name):
    """One program for all orders, and the derivatives of the entries that NumPy takes."""
    f, draw = LONG[name], np.random.default_rng(3)
    gradient = acc.gradient(f, cache=False)
    X = draw.normal(size=(6, 300))
    for x in X[:3]:
        direction, step = draw.normal(size=300), 1e-7
        differences = (f(x + step * direction) - f(x - step * direction)) / (2.0 * step)
        np.testing.assert_allclose(gradient(x) @ direction, differences, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(gradient.batch(X), [gradient(x) for x in X], rtol=1e-12)
    assert len(gradient._compiled_programs()) == 1


def test_equal_entries_and_nan_are_ordered_as_numpys():
    draw = np.random.default_rng(0)
    entries = np.concatenate([draw.integers(0, 9, 90).astype(float), [np.nan, np.nan, -0.0, 0.0, np.inf]])
    weights = np.arange(95.0)

    def f(x):
        return x[np.argsort(x)] + weights[:95] * 0.0, np.sort(x), np.argsort(x) * 1.0 + 0.0 * x[0]

    for _ in range(3):
        draw.shuffle(entries)
        by_order, ordered, places = acc.compile(f, cache=False)(entries)
        np.testing.assert_array_equal(by_order, entries[np.argsort(entries, kind="stable")])
        np.testing.assert_array_equal(ordered, np.sort(entries))
        np.testing.assert_array_equal(places, np.argsort(entries, kind="stable") + 0.0 * entries[0])


def test_matrices_keep_their_pattern():
    """A permutation has one nonzero in each row for each order; by exchanges, it would have all."""
    jacobian = acc.jacobian(np.sort, cache=False, sparse="csr")
    x = np.random.default_rng(0).normal(size=100)
    assert jacobian(x).nnz == 100
