"""Arguments that are traced, and those that are passed on as they are: alike at the first call and at every other.

Numbers may be written otherwise than as NumPy's arrays: as lists of numbers, tables, arrays of other libraries.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError

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


# Tables and series of pandas ------------------------------------------------------------------------------------------
#
# pandas calls the operators of what is in a table of Python objects, one by one: so its arithmetic, selection of rows
# and columns, and sums are recorded, without a word about pandas in the recorder. What it computes in its own code for
# numbers, such as ``mean``, is refused where that code asks for plain numbers.


@dataclass(frozen=True, slots=True)
class Table:
    """Table or series of pandas without its numbers, to be made of an array."""

    key: Hashable  # what tells it apart from others
    example: Any = field(compare=False)  # the user's own
    columns: tuple[int, ...] | None = field(compare=False)  # positions of the columns with numbers; None for a series

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


def _as_array(value: Any) -> Any:
    """A table or series of a result as an array of what is in it; everything else as it is."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, (pandas.Series, pandas.DataFrame)):
        return value
    return value.to_numpy()


# Lists of numbers, and arrays of other libraries ----------------------------------------------------------------------

#: Types of numbers of which a list is an array.
_NUMBERS: Final = frozenset({float, int, np.float64, np.float32, np.float16, np.int64, np.int32})


def as_leaf(value: Any) -> Any:
    """A leaf of a result: an array for what holds one, everything else as it is."""
    jax = sys.modules.get("jax")
    return np.asarray(value) if jax is not None and isinstance(value, jax.Array) else _as_array(value)


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


# Points --------------------------------------------------------------------------------------------------------------
#
# Arguments to try a function with: the given ones as floats, and others around them.

Shapes = Sequence[tuple[int, ...] | None]

#: Multiples of it, without their whole parts, are spread more evenly than those of any other number.
_GOLDEN: Final = (5.0**0.5 - 1.0) / 2.0


class Numbers(Protocol):
    """Source of random numbers: a `numpy.random.Generator`, or `Spread`."""

    def uniform(self, low: float, high: float, size: tuple[int, ...]) -> Any:
        """An array of numbers between two."""


class Spread:
    """Numbers that are spread evenly; `numpy.random` takes longer to import than a check of a function does."""

    def __init__(self) -> None:
        self._drawn = 0

    def uniform(self, low: float, high: float, size: tuple[int, ...]) -> NDArray[np.float64]:
        """An array of numbers between two.

        >>> Spread().uniform(-1.0, 1.0, (3,)).round(3)
        array([ 0.236, -0.528,  0.708])
        """
        first = self._drawn + 1
        self._drawn += int(np.prod(size))
        found: NDArray[np.float64] = np.arange(first, self._drawn + 1, dtype=np.float64) * _GOLDEN % 1.0
        return (low + (high - low) * found).reshape(size)


def as_reals(arguments: Sequence[Any], shapes: Shapes) -> list[Any]:
    """Numeric arguments as floats, arrays copied; others as they are. Python's numbers stay Python's.

    >>> as_reals([1, np.array([2, 3]), "linear"], [(), (2,), None])
    [1.0, array([2., 3.]), 'linear']
    """
    return [argument if shape is None else _real(argument) for argument, shape in zip(arguments, shapes, strict=True)]


def _real(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return np.array(argument, np.float64)
    return float(argument) if type(argument) in (int, float) else np.float64(argument)


def as_numpy(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments with NumPy's floats for Python's: they divide by zero, and overflow, without an exception."""
    return [np.float64(argument) if type(argument) is float else argument for argument in arguments]


def as_inputs(arguments: Sequence[Any], shapes: Shapes) -> NDArray[np.float64]:
    """All entries of the numeric arguments, side by side: the inputs of a recording.

    >>> as_inputs([1.0, "linear", np.eye(2)], [(), None, (2, 2)])
    array([1., 1., 0., 0., 1.])
    """
    parts = [np.ravel(argument) for argument, shape in zip(arguments, shapes, strict=True) if shape is not None]
    return np.concatenate(parts, dtype=np.float64) if parts else np.empty(0)


def moved(arguments: Sequence[Any], shapes: Shapes, reach: float, generator: Numbers) -> list[Any]:
    """Arguments around the given ones.

    Args:
        arguments: as `as_reals` returns them.
        shapes: of the numeric arguments; None for others.
        reach: how far each entry moves at most, relative to itself; an entry that is zero, relative to the largest of
            the argument, or to 1.
        generator: of numbers between −1 and 1.
    """
    return [
        argument if shape is None else _moved(argument, reach, generator)
        for argument, shape in zip(arguments, shapes, strict=True)
    ]


def _moved(argument: Any, reach: float, generator: Numbers) -> Any:
    x = np.where(np.isfinite(argument), argument, 1.0)
    size = np.abs(x)
    scale = np.where(size > 0, size, size.max(initial=0.0) or 1.0)
    y = x + reach * scale * generator.uniform(-1.0, 1.0, x.shape)
    return y if isinstance(argument, np.ndarray) else type(argument)(y)
