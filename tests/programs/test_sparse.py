"""Sparse results against dense ones, their pattern, and values alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accumulus as acc
from accumulus.options import FORMATS
from accumulus.programs.sparse import SparsePattern


@st.composite
def places(draw):
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    cells = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    return shape, draw(st.lists(cells, unique=True))


@pytest.mark.parametrize("fmt", FORMATS)
@given(given_places=places())
def test_patterns_are_those_of_scipy(fmt, given_places):
    from scipy.sparse import coo_array

    shape, cells = given_places
    rows, columns = [row for row, _ in cells], [column for _, column in cells]
    pattern, order = SparsePattern.ordered(rows, columns, shape, fmt)
    values = np.arange(1.0, len(cells) + 1.0)
    matrix = pattern.matrix(values if order is None else values[order])
    expected = coo_array((values, (rows, columns)), shape=shape).asformat(fmt)
    assert matrix.shape == shape
    assert matrix.format == fmt
    np.testing.assert_array_equal(matrix.toarray(), expected.toarray())
    if fmt != "coo":
        np.testing.assert_array_equal(matrix.indptr, expected.indptr)
        np.testing.assert_array_equal(matrix.indices, expected.sorted_indices().indices)
        np.testing.assert_array_equal(pattern.indices, matrix.indices)
        assert matrix.has_sorted_indices
    assert matrix.has_canonical_format
    matrix.check_format(full_check=True) if fmt != "coo" else None
    assert len(pattern) == matrix.nnz


def f(x, y):
    return {"products": x[:, None] * y, "equal": (x[0], x[0]), "none": np.zeros(2), "single": y @ y}


@pytest.mark.parametrize("make", [acc.jacobian, acc.value_and_jacobian], ids=lambda make: make.__name__)
@pytest.mark.parametrize("fmt", FORMATS)
def test_nonzeros_have_the_positions_of_the_pattern(make, fmt):
    arguments = np.array([1.0, -2.0]), np.array([0.5, 3.0, 1.5])
    dense = make(f, argnums=(1, 0))(*arguments)
    derivative = make(f, argnums=(1, 0), sparse=fmt)
    actual = derivative.nonzeros(*arguments)
    if make is acc.value_and_jacobian:
        (value, actual), (wanted_value, dense) = actual, dense
        np.testing.assert_equal(value, wanted_value)
    pattern = derivative.pattern
    for name in ("products", "none", "single"):
        for data, positions, expected in zip(actual[name], pattern[name], dense[name], strict=True):
            matrix = np.zeros(positions.shape)
            matrix[positions.rows, positions.columns] = data
            np.testing.assert_array_equal(matrix, expected.reshape(positions.shape))
    for k in range(2):
        assert [len(data) for data in actual["equal"][k]] == [len(positions) for positions in pattern["equal"][k]]


def test_dense_results_have_no_pattern():
    derivative = acc.jacobian(lambda x: x * x)
    derivative(np.ones(2))
    with pytest.raises(acc.errors.ArgumentError, match="sparse='csr'"):
        _ = derivative.pattern
    with pytest.raises(acc.errors.ArgumentError, match="sparse='csr'"):
        derivative.nonzeros(np.ones(2))
