"""Tables and series of pandas as arrays, and back: the user's function gets a table of traced values.

pandas calls the operators of what is in a table of Python objects, one by one: so its arithmetic, selection of rows and
columns, and sums are recorded, without a word about pandas in the recorder. What it computes in its own code for
numbers, such as ``mean``, is refused where that code asks for plain numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.kinds import StandIn

__all__ = ["as_array", "numbers_of_table"]


@dataclass(frozen=True, slots=True)
class Table:
    """What makes a table or series of an array: all of it but its numbers.

    Attributes:
        key: what tells it apart from others.
        example: the user's own.
        columns: positions of the columns with numbers; None for a series.
    """

    key: Hashable
    example: Any = field(compare=False)
    columns: tuple[int, ...] | None = field(compare=False)

    def __call__(self, array: Any) -> Any:
        """A table with these numbers; of one row of a table the series that it is, of one entry the number."""
        pandas, example = sys.modules["pandas"], self.example
        if not np.ndim(array):
            return array
        dtype = object if _is_traced(array) else array.dtype
        if self.columns is None:
            return pandas.Series(_entries(array), example.index, dtype, example.name)
        names = example.columns[list(self.columns)]
        if np.ndim(array) == 1:
            if len(names) < example.shape[1]:
                raise ArgumentError("rows of a table with columns that are no numbers cannot be points of a batch")
            return pandas.Series(_entries(array), names, dtype)
        made = {k: _entries(array[:, place]) for place, k in enumerate(self.columns)}
        parts = [
            pandas.Series(made[k], example.index, dtype) if k in made else example.iloc[:, k]
            for k in range(example.shape[1])
        ]
        table = pandas.concat(parts, axis=1)
        table.columns = example.columns
        return table


def _entries(array: Any) -> Any:
    """Entries of an array: traced ones as an array of objects."""
    if not _is_traced(array):
        return array
    entries: NDArray[Any] = np.empty(array.shape, object)
    for k in range(len(entries)):
        entries[k] = array[k]
    return entries


def _is_traced(array: Any) -> bool:
    return isinstance(array, StandIn)


def numbers_of_table(value: Any) -> tuple[NDArray[np.float64], Table] | None:
    """The numbers in a table or series, and what makes one like it of others; None for what is none with numbers."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, (pandas.Series, pandas.DataFrame)):
        return None
    name = value.name if value.ndim == 1 else None
    axes = tuple([_axis_key(axis) for axis in value.axes])
    if value.ndim == 1:
        if not _is_numeric(value.dtype):
            return None
        return value.to_numpy(np.float64, na_value=np.nan), Table(("series", axes, name), value, None)
    columns = tuple([k for k, dtype in enumerate(value.dtypes) if _is_numeric(dtype)])
    if not columns:
        return None
    others = [k for k in range(value.shape[1]) if k not in columns]
    held = tuple([(k, repr(value.iloc[:, k].tolist())) for k in others])
    numbers = value.iloc[:, list(columns)].to_numpy(np.float64, na_value=np.nan)
    return numbers, Table(("table", axes, held), value, columns)


def _is_numeric(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") in "fiu"


def _axis_key(axis: Any) -> Hashable:
    if isinstance(axis, sys.modules["pandas"].RangeIndex):
        return (axis.start, axis.stop, axis.step, axis.name)
    return (str(axis.dtype), tuple(map(repr, axis.tolist())), tuple(axis.names))


def as_array(value: Any) -> Any:
    """A table or series of a result as an array of what is in it; everything else as it is."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, (pandas.Series, pandas.DataFrame)):
        return value
    return value.to_numpy()
