"""Arguments that are traced, and those that are passed on as they are: alike at the first call and at every other."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from accumulus.errors import ArgumentError

__all__ = ["StandIn", "shape_of"]

#: Arrays with the arithmetic of plain ones. Other subclasses compute something else, or hold more than numbers.
ARRAYS = (np.ndarray, np.memmap)
#: The largest whole number that is a finite number in double precision.
LARGEST = int(np.finfo(np.float64).max)


class StandIn:
    """Value that a front end hands to a function for a number or an array while it records it."""

    __slots__ = ()


def shape_of(argument: object, name: str) -> tuple[int, ...] | None:
    """The shape of a numeric argument, None for one that is passed on as it is.

    Args:
        name: of the argument, for messages.

    Raises:
        ArgumentError: for an argument that is numeric but cannot be traced: complex numbers, lists of numbers, masked
            arrays and other subclasses.

    >>> shape_of(np.zeros((2, 3)), "x"), shape_of(1.0, "x"), shape_of("forward", "x")
    ((2, 3), (), None)
    """
    if isinstance(argument, StandIn):
        raise ArgumentError(
            f"{name} belongs to another recording: a function that is recorded cannot ask for derivatives by values "
            "that are traced. Record the function that computes both."
        )
    if isinstance(argument, bool | np.bool_ | str | bytes) or argument is None:
        return None
    if isinstance(argument, np.ndarray) and type(argument) in ARRAYS:
        if argument.dtype.kind in "fiu":
            return tuple(argument.shape)
        if argument.dtype.kind == "b":
            return None
        raise ArgumentError(
            f"{name} is an array of {argument.dtype}; expected is one of floats or integers. Convert it, "
            "with .astype(float), or split complex numbers into their real and imaginary parts."
        )
    if isinstance(argument, float | int | np.floating | np.integer):
        if isinstance(argument, int) and not -LARGEST <= argument <= LARGEST:
            raise ArgumentError(
                f"{name} is a whole number of {argument.bit_length()} bits; expected one in the range of "
                "floating-point numbers"
            )
        return ()
    if isinstance(argument, list | tuple | dict | set) and _holds_numbers(argument):
        raise ArgumentError(
            f"{name} is a {type(argument).__name__} of numbers; expected is a number or an array. Pass np.array(…) of "
            "it to differentiate by it, or make it static (static_argnums) to record it as constants."
        )
    if isinstance(argument, numbers.Number) or hasattr(argument, "__array__"):
        raise ArgumentError(
            f"{name} is a {type(argument).__module__}.{type(argument).__name__}; expected is a real number or a plain "
            "numpy.ndarray. Convert it, with float(…) or np.asarray(…), or make it static (static_argnums)."
        )
    return None


def _holds_numbers(container: Any) -> bool:
    items = container.values() if isinstance(container, dict) else container
    return any(
        _holds_numbers(item)
        if isinstance(item, list | tuple | dict | set)
        else isinstance(item, numbers.Number | np.ndarray) and not isinstance(item, bool)
        for item in items
    )
