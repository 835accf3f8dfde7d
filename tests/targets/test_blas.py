"""Triangular systems and Cholesky's factors by NumPy's library, or by SciPy's where its functions are not found."""

from __future__ import annotations

import numpy as np
import pytest

from accumulus.targets import blas

DRAW = np.random.default_rng(0)
SIZE = 70


def laid_out(matrix, layout):
    """Return the matrix by rows or columns, with gaps between these, or with gaps between all entries."""
    rows, columns = matrix.shape
    if layout == "rows with gaps":
        memory = np.full((rows, columns + 3), np.nan)
        memory[:, :columns] = matrix
        return memory[:, :columns]
    if layout == "columns with gaps":
        return laid_out(matrix.T, "rows with gaps").T
    if layout == "gaps everywhere":
        memory = np.full((2 * rows, 3 * columns), np.nan)
        memory[::2, ::3] = matrix
        return memory[::2, ::3]
    return np.asarray(matrix, order="F" if layout == "columns" else "C")


@pytest.fixture(params=["NumPy's", "SciPy's"], autouse=True)
def library(request, monkeypatch):
    if request.param == "NumPy's":
        if not blas.blas():
            pytest.skip("NumPy's BLAS functions are not found here")
    else:
        monkeypatch.setattr(blas, "_trsm", lambda: None)
        monkeypatch.setattr(blas, "_potrf", lambda: None)


@pytest.mark.parametrize("layout", ["rows", "columns", "rows with gaps", "columns with gaps", "gaps everywhere"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("sides", [1, 5, SIZE, 100])
def test_triangular_systems(layout, lower, sides):
    matrix, right = DRAW.normal(size=(SIZE, SIZE)) + 9.0 * np.eye(SIZE), DRAW.normal(size=(SIZE, sides))
    triangle = np.tril(matrix) if lower else np.triu(matrix)
    solutions = right.copy()
    blas.solve_triangular(laid_out(triangle, layout), solutions, lower=lower)
    np.testing.assert_allclose(triangle @ solutions, right, atol=1e-12)
    np.testing.assert_allclose(solutions, np.linalg.solve(triangle, right), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("layout", ["rows", "columns", "rows with gaps", "columns with gaps", "gaps everywhere"])
def test_factors(layout):
    root = DRAW.normal(size=(SIZE, SIZE))
    matrix = root @ root.T + np.eye(SIZE)
    above = matrix + np.triu(np.ones((SIZE, SIZE)), 1)  # which is not read
    factor = np.full((SIZE, SIZE), np.nan)
    blas.cholesky(laid_out(above, layout), factor)
    np.testing.assert_array_equal(np.triu(factor, 1), 0.0)
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrix), rtol=1e-12, atol=1e-13)


def test_errors():
    singular = np.eye(SIZE)
    singular[7, 7] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="singular matrix: its diagonal is 0 in row 7"):
        blas.solve_triangular(singular, np.ones((SIZE, 1)), lower=True)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        blas.cholesky(-np.eye(SIZE), np.empty((SIZE, SIZE)))
