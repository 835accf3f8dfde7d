"""Results belong to the caller: a change of one result shows neither in another nor in the program."""

from __future__ import annotations

import numpy as np
import pytest

import accumulus as acc

X = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, -1.0], [0.5, 0.25, 2.0]])


def neighbours(x):
    return np.array([x[0] * x[1], x[1] - x[2], np.sin(x[2]) * x[0], 3.0])


def several(x, k):
    return {"a": k * x[:2], "b": (x[0] * x[2], x)}


def arrays_in(result):
    """Every array that can be reached from a result."""
    if isinstance(result, dict):
        return [array for child in result.values() for array in arrays_in(child)]
    if isinstance(result, (tuple, list)):
        return [array for child in result for array in arrays_in(child)]
    if isinstance(result, acc.SparseBatch):
        return [result.data]
    if hasattr(result, "toarray"):
        return [result.data, *result.coords] if result.format == "coo" else [result.data, result.indices, result.indptr]
    return [result] if isinstance(result, np.ndarray) else []


def spoil(result):
    for array in arrays_in(result):
        array.fill(7)


OPTIONS = [{"sparse": fmt, "target": target} for fmt in (None, "csr", "csc", "coo") for target in ("llvm", "numpy")]


@pytest.mark.parametrize("make", [acc.jacobian, acc.value_and_jacobian], ids=lambda make: make.__name__)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_nothing_done_to_a_result_shows_in_the_next(make, options):
    derivative = make(several, argnums=(0, 1), **options)
    reference = [array.copy() for array in arrays_in(derivative(X[0], 2.0))]
    wanted_batch = [array.copy() for array in arrays_in(derivative.batch(X, 2.0))]
    spoil(derivative(X[0], 2.0))
    spoil(derivative.batch(X, 2.0))
    for actual, expected in (
        (derivative(X[0], 2.0), reference),
        (derivative.batch(X, 2.0), wanted_batch),
    ):
        for array, copied in zip(arrays_in(actual), expected, strict=True):
            np.testing.assert_array_equal(array, copied)


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
def test_scipy_may_write_into_a_matrix(fmt):
    derivative = acc.jacobian(neighbours, sparse=fmt)
    dense = acc.jacobian(neighbours)
    batch = derivative.batch(X)
    for make in (lambda k: derivative(X[k]), lambda k: batch[k]):
        for k in (0, 1, 0, 2):
            matrix = make(k)
            np.testing.assert_array_equal(matrix.toarray(), dense(X[k]))
            matrix.eliminate_zeros()
            matrix.sum_duplicates()
            matrix.data *= -1.0
            matrix.resize((2, 2))
    np.testing.assert_array_equal(batch.toarray(), dense.batch(X))


def test_matrices_share_nothing_with_each_other_or_the_pattern():
    derivative = acc.jacobian(neighbours, sparse="csr")
    one, other = derivative(X[0]), derivative(X[0])
    pattern = derivative.pattern
    for a in arrays_in(one):
        for b in (*arrays_in(other), pattern.rows, pattern.columns, pattern.indptr):
            assert not np.shares_memory(a, b)


@pytest.mark.parametrize("name", ["rows", "columns", "indptr", "indices"])
def test_the_pattern_is_read_only(name):
    derivative = acc.jacobian(neighbours, sparse="csr")
    derivative(X[0])
    with pytest.raises(ValueError, match="read-only"):
        getattr(derivative.pattern, name)[0] = 1


def test_out_arrays_are_returned():
    derivative = acc.jacobian(neighbours)
    out = np.empty((3, 4, 3))
    assert np.shares_memory(derivative.batch(X, out=out), out)
