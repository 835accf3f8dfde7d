"""Types of arrays: what NumPy would round or cut off is refused, or rounded, and never recorded as if it were not."""

from __future__ import annotations

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import TraceError

POINT = np.array([0.1, 2.7, -1.3])
INTEGERS = np.array([1, 2, 3])
SINGLE = np.array([1.0, 2.0, 3.0], np.float32)


def filled(array, x):
    array[0] = x[0]
    return array


ROUNDING = {
    "astype single": lambda x: x.astype(np.float32),
    "astype half": lambda x: x.astype("float16"),
    "astype integer": lambda x: x.astype(int),
    "astype of a scalar": lambda x: x[0].astype(np.float32),
    "array": lambda x: np.array(x, np.float32),
    "array of a list": lambda x: np.array([x[0], x[1]], dtype=int),
    "asarray": lambda x: np.asarray(x, dtype="f4"),
    "full": lambda x: np.full(3, x[0], np.float32),
    "full_like integers": lambda x: np.full_like(INTEGERS, x[0]),
    "full_like single": lambda x: np.full_like(SINGLE, x[0]),
    "full_like by type": lambda x: np.full_like(x, x[0], dtype=np.float32),
    "zeros of integers, filled": lambda x: filled(np.zeros(3, int), x),
    "zeros of single, filled": lambda x: filled(np.zeros(3, np.float32), x),
    "zeros_like integers, filled": lambda x: filled(np.zeros_like(INTEGERS), x),
    "ones_like single, filled": lambda x: filled(np.ones_like(SINGLE), x),
    "empty_like integers, filled": lambda x: filled(np.empty_like(INTEGERS), x),
    "empty of single, filled": lambda x: filled(np.empty(3, "f4"), x),
    "zeros_like by type, filled": lambda x: filled(np.zeros_like(x, dtype=np.float32), x),
    "sum": lambda x: np.sum(x, dtype=np.float32),
    "sum as a truth value": lambda x: np.sum(x, dtype=bool),
    "method": lambda x: x.mean(dtype="float32"),
    "cumsum": lambda x: np.cumsum(x, dtype=np.float32),
    "universal function": lambda x: np.add(x, 1.0, dtype=np.float32),
    "its signature": lambda x: np.add(x, 1.0, signature="ff->f"),
    "two results": lambda x: np.divmod(x, 0.3, dtype=np.float32)[1],
    "reduce": lambda x: np.add.reduce(x, dtype=np.float32),
    "accumulate": lambda x: np.add.accumulate(x, dtype=np.float32),
    "concatenate": lambda x: np.concatenate([x, x], dtype=np.float32, casting="unsafe"),
    "stack": lambda x: np.stack([x, x], dtype=int, casting="unsafe"),
    "linspace": lambda x: np.linspace(x[0], x[1], 4, dtype=np.float32),
    "einsum": lambda x: np.einsum("i,i->", x, x, dtype=np.float32),
    "trace": lambda x: np.trace(np.outer(x, x), dtype=np.float32),
    "iterator": lambda x: np.fromiter((x[0], x[1]), np.float32),
}


@pytest.mark.parametrize("name", ROUNDING)
def test_conversions_that_numpy_rounds_raise(name):
    with pytest.raises(TraceError, match=r"float64|integers|number"):
        acc.trace(ROUNDING[name], POINT, guards="error")


LEFT_AS_THEY_ARE = {
    "astype": lambda x: x.astype(float) + x.astype(np.float64, copy=False),
    "as truth values": lambda x: np.where(x.astype(bool), x, 1.0),
    "of constants": lambda x: np.full_like(INTEGERS, 2.7) * x + np.full_like(SINGLE, 0.1) * x,
    "constants rounded": lambda x: np.zeros_like(x).astype(np.float32) + np.array([0.1, 0.2, 0.3]).astype("f4") * x,
    "filled with numbers": lambda x: filled(np.zeros(3, int), [2.7]) * x + filled(np.zeros(3, "f4"), [0.1]) * x,
    "full": lambda x: np.full(3, x[0]) + np.full((3,), x[1], float) + np.full_like(x, x[2]),
    "like": lambda x: np.zeros_like(x) + np.ones_like(INTEGERS) * x + np.full_like([1.5, 2.5, 3.5], x[0]),
    "types of results": lambda x: np.sum(x, dtype=float) + np.add(x, 1.0, dtype=np.float64, casting="unsafe"),
    "comparison": lambda x: np.where(np.less(x, 1.0, dtype=bool), x, 2.0 * x),
    "joined": lambda x: np.concatenate([x, INTEGERS], dtype=float),
}


@pytest.mark.parametrize("name", LEFT_AS_THEY_ARE)
def test_conversions_without_rounding_are_recorded(name):
    f = LEFT_AS_THEY_ARE[name]
    value, _ = acc.value_and_jacobian(f)(POINT)
    np.testing.assert_allclose(value, f(POINT), rtol=1e-15)


def test_contiguous_arrays_have_an_axis():
    for make in (np.ascontiguousarray, np.asfortranarray):
        for f in (lambda x, make=make: make(x), lambda x, make=make: make(x * 2.0), lambda x, make=make: make([x])):
            value, jacobian = acc.value_and_jacobian(f)(1.5)
            assert value.shape == jacobian.shape == make(f(1.5)).shape == (1,)
    assert acc.value_and_jacobian(np.asarray)(1.5)[0].shape == ()


class Vector(np.ndarray):
    """A subclass of arrays that is made from the memory of another array."""

    def __new__(cls, values):
        values = np.asarray(values, float)
        return super().__new__(cls, values.shape, float, values)

    @property
    def length(self):
        return np.sqrt(np.sum(self * self))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: Vector(x).length,
        lambda x: x.view(Vector).length,
        lambda x: np.asarray(x).view(type=Vector).length,
        lambda x: np.asmatrix(x)[0, 0],
    ],
)
def test_subclasses_of_arrays_are_refused_by_name(function):
    with pytest.raises(TraceError, match=r"(Vector|matrix) is a subclass of NumPy's arrays"):
        acc.gradient(function, cache=False)(np.array([1.0, 2.0]))


def test_subclasses_of_arrays_may_hold_constants():
    constant = np.array([3.0, 4.0])
    gradient = acc.gradient(lambda x: Vector(constant).length * x @ Vector(constant), cache=False)
    np.testing.assert_allclose(gradient(np.array([1.0, 2.0])), [15.0, 20.0])
