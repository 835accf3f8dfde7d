"""Readers that detect in-place changes of objects that a function holds: arrays, bytes, objects of libraries."""

from __future__ import annotations

import array
import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.frontends.kinds import is_of, is_quantity

#: Size in bytes of the largest array that is compared in full, and the approximate number of entries, spread over all
#: axes, that are compared of a larger one. Larger numbers take time in every call, smaller ones miss more changes.
LARGEST: Final = 4096
SAMPLED: Final = 64


def look_of(value: Any) -> Callable[[Any], object] | None:
    """Return a function of an object whose value changes when the object changes in place; None if there is none."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return None
        return np.ndarray.tobytes if value.nbytes <= LARGEST else _sampled(value)
    if isinstance(value, set):
        return frozenset
    if isinstance(value, bytearray | array.array | memoryview):
        return bytes
    module = type(value).__module__
    if module.startswith("scipy.sparse") and isinstance(getattr(value, "data", None), np.ndarray):
        return functools.partial(_data_of, look_of(value.data) or _nothing)
    if is_of(value, "pandas", "Series", "DataFrame"):
        return _table if 8 * value.size <= LARGEST else None  # reading a large one costs as much as many calls
    if is_of(value, "xarray", "DataArray", "Dataset"):
        return _variables
    return _quantity if is_quantity(value) else None


def _sampled(array: np.ndarray[Any, Any]) -> Callable[[Any], object]:
    """Return a reader of some entries of one array, spread over each axis, through a view that is made once."""
    view = array[_sampling_slices(array.shape)]
    return lambda _: view.tobytes()


def _sampling_slices(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return a slice for each axis that selects the entries of a large array to compare."""
    each = max(2, int(SAMPLED ** (1.0 / max(1, len(shape)))))
    return tuple([slice(None, None, max(1, -(-length // each))) for length in shape])


def _data_of(look: Callable[[Any], object], matrix: Any) -> object:
    return id(matrix.data), look(matrix.data)


def _nothing(_: Any) -> None:
    return None


def _contents(values: Any) -> object:
    """Return the contents of an array; a large array is sampled."""
    array = np.asarray(values)
    some = array[_sampling_slices(array.shape)] if array.nbytes > LARGEST else array
    return repr(some.tolist()) if array.dtype.kind == "O" else some.tobytes()


def _table(frame: Any) -> object:
    """Return the numbers and labels of a small table or series of pandas."""
    return _contents(frame.to_numpy()), repr([axis.tolist() for axis in frame.axes])


def _variables(value: Any) -> object:
    """Return the contents of an xarray DataArray or Dataset and of its coordinates."""
    held = value.variables if hasattr(value, "variables") else {None: value.variable, **value.coords.variables}
    return [(name, each.dims, _contents(each.data)) for name, each in held.items()]


def _quantity(value: Any) -> object:
    """Return the unit of a quantity and its contents."""
    return tuple(value.unit_items()), _contents(value.magnitude)
