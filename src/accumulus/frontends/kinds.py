"""Classification of arguments as traced numbers or constants, which is the same in every call.

Numbers may also be passed as lists of numbers, tables, and arrays of libraries other than NumPy.
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

#: Array types with plain arithmetic. Other subclasses compute differently, or hold more than numbers.
ARRAYS = (np.ndarray, np.memmap)
#: Largest integer that is finite in double precision.
LARGEST = int(np.finfo(np.float64).max)


class StandIn:
    """Base class of traced values, which stand for a number or an array while a function is recorded."""

    __slots__ = ()

    def as_column(self) -> Any:
        """Return the object that stands for a traced vector in a column of a pandas table."""
        raise NotImplementedError


def shape_of(argument: object, name: str) -> tuple[int, ...] | None:
    """Return the shape of a numeric argument; None for a constant.

    Args:
        argument: argument of the function.
        name: name of the argument, for messages.

    Raises:
        ArgumentError: for an argument that is numeric but cannot be traced: complex numbers, lists of numbers, masked
            arrays and other subclasses.

    >>> shape_of(np.zeros((2, 3)), "x"), shape_of(1.0, "x"), shape_of("forward", "x")
    ((2, 3), (), None)
    """
    if isinstance(argument, StandIn):
        raise ArgumentError(
            f"{name} is a traced value of another recording, with respect to which nothing can be differentiated "
            "here. Record one function that computes both."
        )
    if isinstance(argument, bool | np.bool_ | str | bytes) or argument is None:
        return None
    if isinstance(argument, np.ndarray) and type(argument) in ARRAYS:
        if argument.dtype.kind in "fiu":
            return tuple(argument.shape)
        if argument.dtype.kind == "b":
            return None
        raise ArgumentError(
            f"{name} is an array of {argument.dtype}; expected floats or integers. Convert it by .astype(float), or "
            "split complex numbers into their real and imaginary parts."
        )
    if isinstance(argument, float | int | np.floating | np.integer):
        if isinstance(argument, int) and not -LARGEST <= argument <= LARGEST:
            raise ArgumentError(
                f"{name} is an integer of {argument.bit_length()} bits; expected one in the range of floating-point "
                "numbers"
            )
        return ()
    if isinstance(argument, list | tuple | dict | set) and _holds_numbers(argument):
        raise ArgumentError(
            f"{name} is a {type(argument).__name__} of numbers; expected a number or an array. Pass np.array(…) of it "
            "to differentiate with respect to it, or make it static (static_argnums) to record it as constants."
        )
    if is_quantity(argument):
        raise ArgumentError(f"{name} is a quantity; expected a plain number or array. {unit_advice(argument)}")
    if is_of(argument, "xarray", "Dataset"):
        raise ArgumentError(
            f"{name} is a Dataset of xarray; expected its arrays. Pass dataset[name], or dict(dataset.data_vars), of "
            "which each array is an argument of its own."
        )
    if hasattr(argument, "to_numpy") and hasattr(argument, "__array__"):
        held = getattr(argument, "dtype", "objects")
        raise ArgumentError(
            f"{name} is a {type(argument).__name__} of {held}; expected a number, an array, or a series, table or "
            "data array of numbers. Pass .to_numpy(float) of it; the function itself may read dates and categories."
        )
    if isinstance(argument, numbers.Number) or hasattr(argument, "__array__"):
        raise ArgumentError(
            f"{name} is a {type(argument).__module__}.{type(argument).__name__}; expected a real number or a plain "
            "numpy.ndarray. Convert it by float(…) or np.asarray(…), or make it static (static_argnums)."
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


# Labelled arrays: tables and series of pandas, data arrays of xarray --------------------------------------------------
#
# As arguments they are converted to their numbers, and the function receives an object with the user's labels and
# traced values, in whole columns or arrays. The libraries handle labels; arithmetic returns to the recorder through
# NumPy's protocols. Computations in pandas' own code are refused where that code asks for plain numbers.


@dataclass(frozen=True, slots=True)
class Table:
    """A pandas table or series without its numbers, callable to build one from an array."""

    key: Hashable  # distinguishes its labels and constant columns from others
    example: Any = field(compare=False)  # the user's table or series
    columns: tuple[int, ...] | None = field(compare=False)  # positions of the columns with numbers; None for a series

    def __call__(self, array: Any) -> Any:
        """Return a table with these numbers; a series for one row of a table, and the number itself for one entry."""
        pandas, example = sys.modules["pandas"], self.example
        if not np.ndim(array):
            return array
        if self.columns is None:
            return pandas.Series(_column(array), example.index, name=example.name)
        names = example.columns[list(self.columns)]
        if np.ndim(array) == 1:
            if len(names) < example.shape[1]:
                raise ArgumentError(
                    "a table has columns that are not numeric; expected a table of numbers, a row for each point"
                )
            return pandas.Series(_column(array), names)
        made = {k: _column(array[:, position]) for position, k in enumerate(self.columns)}
        parts = [
            pandas.Series(made[k], example.index) if k in made else example.iloc[:, k] for k in range(example.shape[1])
        ]
        table = pandas.concat(parts, axis=1)
        table.columns = example.columns
        return table


@dataclass(frozen=True, slots=True)
class DataArray:
    """An xarray DataArray without its numbers, callable to build one from an array."""

    key: Hashable  # distinguishes its labels from others
    example: Any = field(compare=False)  # the user's DataArray

    def __call__(self, array: Any) -> Any:
        """Return a DataArray with these numbers; with fewer axes, it has the labels of a batch's first point."""
        example = self.example
        while np.ndim(array) < example.ndim:  # points of a batch
            example = example.isel({example.dims[0]: 0}, drop=True)
        return example.copy(data=array)


def _column(array: Any) -> Any:
    return array.as_column() if isinstance(array, StandIn) else array


def numbers_of_labelled(value: Any) -> tuple[NDArray[np.float64], Table | DataArray] | None:
    """Return the numbers in a labelled array, and a function that labels other arrays alike; None for other values."""
    if is_of(value, "xarray", "DataArray"):
        if not is_numeric(value.dtype) or not isinstance(value.data, np.ndarray):
            return None
        labels = tuple([(name, each.dims, repr(each.values.tolist())) for name, each in value.coords.items()])
        key = ("data array", value.dims, value.name, labels, repr(value.attrs))
        return value.to_numpy().astype(np.float64), DataArray(key, value)
    if not is_of(value, "pandas", "Series", "DataFrame"):
        return None
    name = value.name if value.ndim == 1 else None
    axes = tuple([_axis_key(axis) for axis in value.axes])
    if value.ndim == 1:
        if not is_numeric(value.dtype):
            return None
        return value.to_numpy(np.float64, na_value=np.nan), Table(("series", axes, name), value, None)
    columns = tuple([k for k, dtype in enumerate(value.dtypes) if is_numeric(dtype)])
    if not columns:
        return None
    rest = [k for k in range(value.shape[1]) if k not in columns]
    held = tuple([(k, repr(value.iloc[:, k].tolist())) for k in rest])
    numbers = value.iloc[:, list(columns)].to_numpy(np.float64, na_value=np.nan)
    return numbers, Table(("table", axes, held), value, columns)


def is_of(value: object, library: str, *names: str) -> bool:
    """Return True for an instance of one of these classes of a library, without importing the library."""
    module = sys.modules.get(library)
    # by type(value): an object's `__class__` may differ from its type, or raise
    return module is not None and any(getattr(module, name, None) in type(value).__mro__ for name in names)


def is_numeric(dtype: Any) -> bool:
    """Return True for a data type of real numbers, in NumPy or pandas."""
    return getattr(dtype, "kind", "O") in "fiu"


def _axis_key(axis: Any) -> Hashable:
    if isinstance(axis, sys.modules["pandas"].RangeIndex):
        return (axis.start, axis.stop, axis.step, axis.name)
    return (str(axis.dtype), tuple(map(repr, axis.tolist())), tuple(axis.names))


def array_in(value: Any) -> Any:
    """Return the array, traced or not, in a labelled array; other values unchanged."""
    if is_of(value, "xarray", "DataArray", "Variable"):
        return value.data
    if is_of(value, "pandas", "DataFrame"):
        columns = [array_in(value.iloc[:, k]) for k in range(value.shape[1])]
        traced = any(isinstance(each, StandIn) for each in columns)
        return np.stack(columns, axis=1) if traced else value.to_numpy()
    if is_of(value, "pandas", "Series", "Index") or is_of(value, "pandas.api.extensions", "ExtensionArray"):
        if getattr(value.dtype, "kind", "O") not in "fiub":
            return value.to_numpy()
        held = getattr(value, "values", value)
        held = getattr(held, "values", held)  # unwraps a traced column of a series
        if isinstance(held, StandIn):
            return held
        return value.to_numpy(np.float64, na_value=np.nan) if is_numeric(value.dtype) else value.to_numpy()
    return value


def is_quantity(value: object) -> bool:
    """Return True for a quantity of pint: a number or an array with a unit."""
    return is_of(value, "pint", "Quantity")


def unit_advice(quantity: Any) -> str:
    """Return advice on the replacement of a quantity where a plain number is needed."""
    return (
        f'A quantity has a unit, which would be lost. Write .to("{quantity.units}").magnitude, or that of another unit.'
    )


# Lists of numbers, and arrays of other libraries ----------------------------------------------------------------------

#: Types of numbers in lists that are converted to arrays.
_NUMBERS: Final = frozenset({float, int, np.float64, np.float32, np.float16, np.int64, np.int32})


def as_leaf(value: Any) -> Any:
    """Return a leaf of a result: the array inside of JAX, pandas and xarray objects; other values unchanged."""
    jax = sys.modules.get("jax")
    return np.asarray(value) if jax is not None and isinstance(value, jax.Array) else array_in(value)


def numbers_in(value: Any, name: str) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return a leaf as a number or array, and a function that converts an array back to the leaf's form.

    A list of plain numbers, or of lists of equal length, becomes one array. The function is None for arrays and for
    leaves that are not numeric.

    Args:
        value: argument that is a leaf.
        name: name of the argument, for messages.

    Raises:
        ArgumentError: for integers beyond the range of floating-point numbers, and for JAX arrays without values.

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
                raise ArgumentError(f"{name} holds an integer beyond the range of floating-point numbers") from None
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.Array):
        try:
            return np.asarray(value), None
        except Exception as error:
            raise ArgumentError(
                f"{name} is a {type(value).__name__} of JAX without values ({type(error).__name__}): compiled code "
                "needs values. Inside functions of JAX, use accumulus.jax"
            ) from error
    return numbers_of_labelled(value) or (value, None)


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of nested lists of plain numbers; None for anything else."""
    if set(map(type, value)) <= _NUMBERS:
        return (len(value),)
    if type(value[0]) is not list or not value[0]:
        return None
    first = _shape(value[0])
    if first is None or any(type(row) is not list or not row or _shape(row) != first for row in value):
        return None
    return (len(value), *first)


def as_nested_lists(array: Any) -> Any:
    """Return an array as nested lists of its entries, traced or not; a number as itself.

    >>> as_nested_lists(np.eye(2))
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(array, StandIn):
        return [as_nested_lists(row) for row in array] if np.ndim(array) else array  # type: ignore[attr-defined, arg-type]
    return np.asarray(array).tolist()


# Points --------------------------------------------------------------------------------------------------------------
#
# Points at which a function is evaluated for a comparison: the given arguments as floats, and points near them.

Shapes = Sequence[tuple[int, ...] | None]

#: Golden ratio less one; the fractional parts of its multiples are spread most evenly.
_GOLDEN: Final = (5.0**0.5 - 1.0) / 2.0


class Numbers(Protocol):
    """Source of random numbers: a `numpy.random.Generator`, or `Spread`."""

    def uniform(self, low: float, high: float, size: tuple[int, ...]) -> Any:
        """Return an array of numbers between two."""


class Spread:
    """Generator of evenly spread numbers; importing `numpy.random` would take longer than the check of a function."""

    def __init__(self) -> None:
        self._drawn = 0

    def uniform(self, low: float, high: float, size: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an array of numbers between two.

        >>> Spread().uniform(-1.0, 1.0, (3,)).round(3)
        array([ 0.236, -0.528,  0.708])
        """
        first = self._drawn + 1
        self._drawn += int(np.prod(size))
        numbers: NDArray[np.float64] = np.arange(first, self._drawn + 1, dtype=np.float64) * _GOLDEN
        numbers -= np.floor(numbers)
        return (low + (high - low) * numbers).reshape(size)


def as_reals(arguments: Sequence[Any], shapes: Shapes) -> list[Any]:
    """Return numeric arguments as floats, with arrays copied, and other arguments unchanged.

    Python's numbers become Python floats, NumPy's become `numpy.float64`.

    >>> as_reals([1, np.array([2, 3]), "linear"], [(), (2,), None])
    [1.0, array([2., 3.]), 'linear']
    """
    return [argument if shape is None else _real(argument) for argument, shape in zip(arguments, shapes, strict=True)]


def _real(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return np.array(argument, np.float64)
    return float(argument) if type(argument) in (int, float) else np.float64(argument)


def as_numpy(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments with NumPy's floats instead of Python's, which raise on overflow and on division by zero."""
    return [np.float64(argument) if type(argument) is float else argument for argument in arguments]


def as_inputs(arguments: Sequence[Any], shapes: Shapes) -> NDArray[np.float64]:
    """Return all entries of the numeric arguments in one vector: the inputs of a recording.

    >>> as_inputs([1.0, "linear", np.eye(2)], [(), None, (2, 2)])
    array([1., 1., 0., 0., 1.])
    """
    parts = [np.ravel(argument) for argument, shape in zip(arguments, shapes, strict=True) if shape is not None]
    return np.concatenate(parts, dtype=np.float64) if parts else np.empty(0)


def nearby_arguments(arguments: Sequence[Any], shapes: Shapes, reach: float, generator: Numbers) -> list[Any]:
    """Return arguments near the given ones.

    Args:
        arguments: arguments, as `as_reals` returns them.
        shapes: shapes of the numeric arguments; None for others.
        reach: largest change of an entry, relative to the entry; for an entry that is zero, relative to the largest
            entry of the argument, or to 1.
        generator: source of numbers between −1 and 1.
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
