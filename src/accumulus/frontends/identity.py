"""What tells constant arguments apart: their values, of which Python's equality says too little."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from decimal import Decimal

import numpy as np

__all__ = ["identity"]


def identity(value: Hashable) -> Hashable:
    """A key that is the same for values with which every function computes the same.

    To Python 0.0 and -0.0 are equal, and so are 1, 1.0 and True, while NaN is not equal to itself. Here they are told
    apart, and NaN is itself: alone, and within tuples, frozen sets and data classes that are compared by their fields.
    Other objects are the same if they are equal.

    >>> identity((0.0, 1)) == identity((-0.0, 1)), identity((0.0, 1)) == identity((0.0, True))
    (False, False)
    """
    if isinstance(value, float | np.floating):
        return (type(value), np.float64(value).tobytes() if isinstance(value, float) else value.tobytes())
    if isinstance(value, complex | np.complexfloating):
        return (type(value), np.asarray(value).tobytes())
    if isinstance(value, Decimal):  # with its trailing zeros
        return (type(value), str(value))
    if isinstance(value, tuple):
        return (type(value), *map(identity, value))
    if isinstance(value, frozenset):
        return (type(value), frozenset(map(identity, value)))
    if is_dataclass(value) and not isinstance(value, type) and type(value).__dataclass_params__.eq:
        compared = [getattr(value, field.name) for field in fields(value) if field.compare]
        return (type(value), *map(identity, compared))
    return (type(value), value)
