"""Products of matrices in machine code: the BLAS functions that NumPy calls, chosen as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

import accumulus as acc
from accumulus.targets import blas
from accumulus.targets.llvm import products, steps

DRAW = np.random.default_rng(0)
#: Rows, terms and columns: general products, rows, columns, and both.
SHAPES = [(17, 40, 23), (1, 120, 90), (90, 120, 1), (600, 9, 1), (1, 9, 600), (1, 9000, 1)]
LAYOUTS = {
    "by rows": lambda a, b: a @ b,
    "left by columns": lambda a, b: a.T @ b,
    "right by columns": lambda a, b: a @ b.T,
    "both by columns": lambda a, b: a.T @ b.T,
    "every second row": lambda a, b: a[::2] @ b,
    "backwards": lambda a, b: np.ascontiguousarray(a[:, ::-1]) @ b,
}

pytestmark = pytest.mark.skipif(not blas.blas(), reason="NumPy's BLAS functions are not found here")


def operands(layout, shape):
    m, k, n = shape
    left, right = DRAW.normal(size=(m, k)), DRAW.normal(size=(k, n))
    if layout == "every second row":
        left = np.repeat(left, 2, axis=0)
    turned = {"left by columns": (True, False), "right by columns": (False, True), "both by columns": (True, True)}
    return tuple(
        np.ascontiguousarray(each.T) if turn else each
        for each, turn in zip((left, right), turned.get(layout, (False, False)), strict=True)
    )


@pytest.fixture
def chosen(monkeypatch):
    """Names of the functions of all products, "" for those that Python computes."""
    names, choose = [], steps.Steps._product

    def recorded(self, nest):
        step = choose(self, nest)
        names.append("" if step is None else step.function)
        return step

    monkeypatch.setattr(steps.Steps, "_product", recorded)
    return names


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_are_numpys_to_the_last_bit(layout, shape, chosen):
    f, arguments = LAYOUTS[layout], operands(layout, shape)
    result = acc.compile(f, cache=False)(*arguments)
    assert chosen
    assert "" not in chosen
    np.testing.assert_array_equal(result, f(*arguments))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_constant_operands(shape, chosen):
    left, right = operands("by rows", shape)
    np.testing.assert_array_equal(acc.compile(lambda b: left @ b, cache=False)(right), left @ right)
    np.testing.assert_array_equal(acc.compile(lambda a: a @ right, cache=False)(left), left @ right)
    assert "" not in chosen


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_derivatives_are_those_of_pythons_products(shape, chosen, monkeypatch):
    arguments, weights = operands("by rows", shape), DRAW.normal(size=(shape[0], shape[2]))

    def f(a, b):
        return np.sum(weights * (a @ b) ** 2) + np.sum(np.sin(a) @ b[:, ::-1])

    actual = acc.gradient(f, (0, 1), cache=False)(*arguments)
    names = set(chosen)
    monkeypatch.setattr(steps, "blas", dict)
    expected = acc.gradient(f, (0, 1), cache=False)(*arguments)
    assert "" not in names
    assert "" in chosen
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


def test_a_column_times_a_row_is_numpys_for_all_numbers(chosen):
    column, row = DRAW.normal(size=90), DRAW.normal(size=130)
    column[:4], row[:4] = [-0.0, 0.0, np.inf, np.nan], [0.0, -0.0, -np.inf, 1e308]
    product = acc.vjp(lambda matrix, x: matrix @ x, cache=False, check=False)
    with np.errstate(invalid="ignore", over="ignore"):
        slope = product((np.ones((90, 130)), row), column)[1][0]
        np.testing.assert_array_equal(slope, column[:, np.newaxis] @ row[np.newaxis])
    assert products.OUTER in chosen


def test_a_matrix_times_its_transpose_is_left_to_numpy(chosen):
    a = DRAW.normal(size=(40, 30))
    np.testing.assert_array_equal(acc.compile(lambda a: a @ a.T, cache=False)(a), a @ a.T)
    assert chosen == [""]


def test_batches_and_threads():
    matrix = DRAW.normal(size=(30, 30))
    f = acc.gradient(lambda x: np.sum(np.tanh(matrix @ np.tanh(matrix @ x)) ** 2), cache=False)
    points = DRAW.normal(size=(37, 30))
    expected = np.stack([f(point) for point in points])
    np.testing.assert_array_equal(f.batch(points), expected)
    np.testing.assert_array_equal(f.batch(points, threads=2), expected)
