"""Numbers that are written otherwise than as NumPy's arrays: lists of numbers, tables, arrays of other libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.errors import ArgumentError
from accumulus.frontends.kinds import StandIn
from accumulus.frontends.tables import as_array, numbers_of_table

__all__ = ["as_leaf", "as_nested_lists", "numbers_in"]

#: Types of numbers of which a list is an array.
_NUMBERS: Final = frozenset({float, int, np.float64, np.float32, np.float16, np.int64, np.int32})


def as_leaf(value: Any) -> Any:
    """A leaf of a result: an array for what holds one, everything else as it is."""
    jax = sys.modules.get("jax")
    return np.asarray(value) if jax is not None and isinstance(value, jax.Array) else as_array(value)


def numbers_in(value: Any, name: str) -> tuple[Any, Callable[[Any], Any] | None]:
    """An argument that is a leaf as a number or array, and what makes of an array what was written in its place.

    A list of plain numbers, or of lists of as many, is one array; None is returned with what is an array, or no number.

    Args:
        name: of the argument, for messages.

    Raises:
        ArgumentError: for numbers that are none to NumPy.

    >>> numbers_in([1.0, 2], "x")[0]
    array([1., 2.])
    >>> numbers_in([1.0, True], "x")
    ([1.0, True], None)
    """
    if type(value) is list and value:
        shape = _shape(value)
        if shape is not None:
            try:
                array = np.array(value)
                return array if array.dtype.kind in "fi" else array.astype(np.float64), as_nested_lists
            except OverflowError:
                raise ArgumentError(
                    f"{name} holds a whole number that is beyond the range of floating-point numbers"
                ) from None
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.Array):
        try:
            return np.asarray(value), None
        except Exception as error:
            raise ArgumentError(
                f"{name} is a {type(value).__name__} of JAX that has no values ({type(error).__name__}): compiled code "
                "runs on values; within functions of JAX there is accumulus.jax"
            ) from error
    return numbers_of_table(value) or (value, None)


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of nested lists of plain numbers; None for anything else."""
    if set(map(type, value)) <= _NUMBERS:
        return (len(value),)
    if type(value[0]) is not list or not value[0]:
        return None
    first = _shape(value[0])
    if first is None or any(type(row) is not list or not row or _shape(row) != first for row in value):
        return None
    return (len(value), *first)


def as_nested_lists(array: Any) -> Any:
    """An array as nested lists of its entries, traced or not; a number as itself.

    >>> as_nested_lists(np.eye(2))
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(array, StandIn):
        return [as_nested_lists(row) for row in array] if np.ndim(array) else array  # type: ignore[attr-defined, arg-type]
    return np.asarray(array).tolist()
