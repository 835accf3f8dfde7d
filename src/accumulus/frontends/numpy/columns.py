"""Columns of traced values in pandas series and tables, and universal functions of tables and traced values.

A column is an extension array around one traced array. Therefore pandas' own code selects, aligns, joins and groups
rows, and arithmetic and reductions are recorded as operations on whole arrays, independently of the number of rows.

This module is imported when a recorded function first uses a table, so that pandas is loaded already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray, ExtensionDtype, no_default
from pandas.api.indexers import check_array_indexer

from accumulus.frontends.active import ACTIVE, OWN_CODE, refuse
from accumulus.frontends.kinds import array_in, is_numeric
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.operands import NO_REALS, depends, references_of

#: Reductions of pandas → NumPy functions.
_REDUCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{"sum": np.sum, "prod": np.prod, "mean": np.mean, "min": np.min, "max": np.max, "any": np.any, "all": np.all},
    **{"median": np.median, "var": np.var, "std": np.std},
}
#: Binary functions whose result is NaN if an operand is.
_SPREADING: Final = frozenset({np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder})
_ACCUMULATIONS: Final[dict[str, Callable[..., Any]]] = {
    **{"cumsum": np.cumsum, "cumprod": np.cumprod},
    **{"cummin": np.minimum.accumulate, "cummax": np.maximum.accumulate},
}


class TracedDtype(ExtensionDtype):  # type: ignore[misc]
    """Data type of traced columns: real numbers or truth values."""

    type = np.float64
    na_value = np.nan
    _is_numeric = True
    _metadata = ("boolean",)

    def __init__(self, boolean: bool = False) -> None:
        self.boolean = boolean

    @property
    def kind(self) -> str:
        """Kind of the entries, "b" or "f", as in NumPy's data types."""
        return "b" if self.boolean else "f"

    @property
    def name(self) -> str:
        """Name that pandas displays."""
        return "traced bool" if self.boolean else "traced"

    @property
    def _is_boolean(self) -> bool:
        return self.boolean

    @classmethod
    def construct_array_type(cls) -> Any:
        """Return the class of arrays with this type."""
        return TracedColumn

    @classmethod
    def construct_from_string(cls, string: str) -> TracedDtype:
        """Raise a `TypeError`, since the type cannot be written as text."""
        raise TypeError(f"no traced type is called {string!r}")

    def _get_common_dtype(self, dtypes: Sequence[Any]) -> TracedDtype | None:
        kinds = {getattr(dtype, "kind", "O") for dtype in dtypes}
        return TracedDtype(kinds == {"b"}) if kinds <= set("fiub") else None


class TracedColumn(NDArrayOperatorsMixin, ExtensionArray):  # type: ignore[misc]
    """A column of traced values.

    Args:
        values: array with one axis.
    """

    __array_priority__ = 1000
    _typ: ClassVar = "extension"

    def __init__(self, values: TracedArray) -> None:
        self.values = values

    # Protocol of extension arrays ----------------------------------------------------------------------------

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> TracedColumn:
        values = array_in(scalars)
        if not isinstance(values, TracedArray):
            items = [np.nan if item is pd.NA or item is None else item for item in values]
            boolean = getattr(dtype, "kind", "f") == "b"
            values = TracedArray(ACTIVE.tape, references_of(ACTIVE.tape, items, boolean), boolean=boolean)
        return cls(values.copy() if copy else values)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[TracedColumn]) -> TracedColumn:
        return cls(np.concatenate([each.values for each in to_concat]))  # type: ignore[arg-type]

    @property
    def dtype(self) -> TracedDtype:
        """Data type of the column."""
        return TracedDtype(self.values.boolean)

    @property
    def nbytes(self) -> int:
        """Size of the references in bytes."""
        return int(self.values.references.nbytes)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, item: Any) -> Any:
        return as_columns(self.values[check_array_indexer(self, item)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.values[check_array_indexer(self, key)] = numbers_of(value)

    def isna(self) -> NDArray[np.bool_]:
        """Return a mask of the entries that are constant NaN."""
        references = self.values.references
        mask = references < 0
        if mask.any():
            mask[mask] = np.isnan(self.values.tape.values_of(references[mask]))
        return mask

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> TracedColumn:
        """Return the entries at given positions; with `allow_fill`, -1 stands for a missing entry."""
        fill = int(references_of(self.values.tape, numbers_of(fill_value), self.values.boolean))
        taken = pd.api.extensions.take(self.values.references, indices, allow_fill=allow_fill, fill_value=fill)
        return TracedColumn(TracedArray(self.values.tape, taken, boolean=self.values.boolean))

    def copy(self) -> TracedColumn:
        """Return a copy that can be written to."""
        return TracedColumn(self.values.copy())

    def view(self, dtype: Any = None) -> TracedColumn:
        """Return another column that shares the entries."""
        return TracedColumn(self.values)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Return the column with another type: floats and truth values stay traced; objects are traced numbers."""
        kind = pd.api.types.pandas_dtype(dtype)
        if isinstance(kind, TracedDtype):
            kind = np.dtype(bool if kind.boolean else float)
        return as_columns(self.values.astype(kind)) if isinstance(kind, np.dtype) else super().astype(dtype, copy)

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: Any = no_default) -> Any:
        """Return the traced array; for calls by pandas itself, masks are decided and traced numbers refused."""
        if na_value is no_default:
            return self.values.astype(dtype or self.values.dtype) if copy or dtype else self.values
        if not self.values.boolean and depends(self.values):
            raise refuse(OWN_CODE.format("this"))
        return np.asarray(self.values, dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.values, object if dtype is None else dtype)

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:
        return str

    # Recorded operations -------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        if any(isinstance(each, (pd.Series, pd.DataFrame, pd.Index)) for each in inputs):
            return NotImplemented
        return as_columns(_called(ufunc, method, inputs, keywords))

    def round(self, decimals: int = 0) -> Any:
        """Return values rounded to a number of decimals."""
        return as_columns(np.round(self.values, decimals))

    def _reduce(self, name: str, *, skipna: bool = True, keepdims: bool = False, **keywords: Any) -> Any:
        if name not in _REDUCTIONS:
            raise refuse(OWN_CODE.format(f".{name}()"))
        result = _reduced(name, self.values[~self.isna()] if skipna else self.values, **keywords)
        return self._from_sequence([result]) if keepdims else result

    def _accumulate(self, name: str, *, skipna: bool = True, **keywords: Any) -> TracedColumn:
        result, some = self.values.copy(), ~self.isna() if skipna else slice(None)
        result[some] = _ACCUMULATIONS[name](result[some])
        return TracedColumn(result)

    def _groupby_op(
        self, *, how: str, has_dropped_na: bool, min_count: int, ngroups: int, ids: NDArray[np.intp], **keywords: Any
    ) -> Any:
        if how not in _REDUCTIONS:
            raise refuse(OWN_CODE.format(f".groupby(…).{how}()"))
        there = ~self.isna() & (ids >= 0)
        order = np.flatnonzero(there)[np.argsort(ids[there], kind="stable")]
        rows = self.values[order]
        ends = np.cumsum(np.bincount(ids[there], minlength=ngroups))
        groups = [rows[end - size : end] for end, size in zip(ends, np.diff(ends, prepend=0), strict=True)]
        return self._from_sequence([_reduced(how, group, min_count, **keywords) for group in groups])


def _reduced(name: str, values: Any, min_count: int = 0, **keywords: Any) -> Any:
    """Return a reduction with pandas' rules: NaN for too few entries, and ddof=1 for var and std."""
    if name in ("var", "std"):
        keywords["ddof"] = keywords.get("ddof", 1)
    needed = {"sum": min_count, "prod": min_count, "any": 0, "all": 0}.get(name, 1 + keywords.get("ddof", 0))
    ddof = {key: value for key, value in keywords.items() if key == "ddof"}
    return _REDUCTIONS[name](values, **ddof) if len(values) >= needed else np.nan


def as_columns(result: Any) -> Any:
    """Return one-dimensional traced arrays as columns; also inside of a tuple."""
    if isinstance(result, tuple):
        return tuple(map(as_columns, result))
    return TracedColumn(result) if isinstance(result, TracedArray) and result.ndim == 1 else result


def numbers_of(value: Any) -> Any:
    """Return the numbers, traced or not, in an object of pandas; NaN for missing entries.

    Raises:
        TraceError: for values that are not numeric, or missing in a type other than floats.
    """
    if value is None or value is pd.NA:
        return np.nan
    if isinstance(value, TracedColumn):
        return value.values
    if not isinstance(value, (ExtensionArray, pd.Series, pd.Index, pd.DataFrame)):
        return value
    for dtype in value.dtypes if value.ndim == 2 else [value.dtype]:
        if not (is_numeric(dtype) or dtype.kind == "b" or dtype == np.dtype(object)):
            raise refuse(
                f"Values of the pandas type {dtype} are combined with traced values. Select the columns with numbers, "
                "or convert them, with .astype(float)."
            )
        if isinstance(dtype, ExtensionDtype) and not isinstance(dtype, TracedDtype) and np.any(value.isna()):
            raise refuse(
                f"Values of the pandas type {dtype} are missing here (pandas.NA); traced values know NaN only. Write "
                ".astype(float), which makes it NaN, .fillna(…) or .dropna()."
            )
    return array_in(value)


def record_ufunc(ufunc: np.ufunc, method: str, inputs: Any, keywords: Mapping[str, Any]) -> Any:
    """Record a universal function of tables and traced values; the result has the labels of the tables.

    An array is combined with a table by position, as in pandas.
    """
    tables = [each for each in inputs if isinstance(each, (pd.Series, pd.DataFrame))]
    like = tables[0] if tables and method == "__call__" and ufunc.signature is None else None
    for other in tables[1:]:
        if other.ndim != tables[0].ndim or not all(map(pd.Index.equals, other.axes, tables[0].axes)):
            raise refuse("Tables with different labels are combined with traced values. Align them first: a.align(b).")
    result = _called(ufunc, method, inputs, keywords)
    return tuple([labelled(like, output) for output in result]) if isinstance(result, tuple) else labelled(like, result)


def _called(ufunc: np.ufunc, method: str, inputs: Any, keywords: Mapping[str, Any]) -> Any:
    """Apply a universal function to the numbers in tables; missing entries stay missing."""
    values = [numbers_of(each) for each in inputs]
    result = getattr(ufunc, method)(*values, **keywords)
    if isinstance(result, TracedArray) and not result.boolean and (ufunc.nin == 1 or ufunc in _SPREADING):
        for each, value in zip(inputs, values, strict=True):
            if isinstance(each, (pd.Series, pd.DataFrame, ExtensionArray)) and np.shape(value) == result.shape:
                missing = np.asarray(each.isna())
                if missing.any():
                    result[missing] = np.nan
    return result


def labelled(like: Any, values: Any) -> Any:
    """Return values with the labels of a series or table; without one, return them unchanged.

    Raises:
        TraceError: if the shapes differ.
    """
    if like is None:
        return values
    if getattr(values, "is_complex", False):
        raise refuse(NO_REALS)
    if np.shape(values) != like.shape:
        raise refuse(
            f"A {type(like).__name__} of shape {like.shape} and traced values make an array of shape "
            f"{np.shape(values)}, which has no labels. Write .to_numpy() for the values alone."
        )
    if like.ndim == 1:
        return pd.Series(as_column(values), like.index, name=like.name, copy=False)
    table = pd.DataFrame({k: as_column(values[:, k]) for k in range(like.shape[1])}, like.index, copy=False)
    table.columns = like.columns
    return table


def as_column(values: Any) -> Any:
    """Return a one-dimensional traced array as a column; other values unchanged."""
    return TracedColumn(values) if isinstance(values, TracedArray) else values
