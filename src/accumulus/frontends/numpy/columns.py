"""Columns of traced values in series and tables of pandas, and universal functions of tables and traced values.

A column is an extension array around one traced array. So pandas' own code selects, aligns, joins and groups rows, and
arithmetic and reductions are recorded as operations on whole arrays, however many rows there are.

This module is imported when a recorded function first meets a table: the user then has imported pandas.
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

#: Reductions of pandas that are functions of NumPy.
_REDUCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{"sum": np.sum, "prod": np.prod, "mean": np.mean, "min": np.min, "max": np.max, "any": np.any, "all": np.all},
    **{"median": np.median, "var": np.var, "std": np.std},
}
#: Functions of two numbers whose results are NaN if either is.
_SPREADING: Final = frozenset({np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder})
_ACCUMULATIONS: Final[dict[str, Callable[..., Any]]] = {
    **{"cumsum": np.cumsum, "cumprod": np.cumprod},
    **{"cummin": np.minimum.accumulate, "cummax": np.maximum.accumulate},
}


class TracedDtype(ExtensionDtype):  # type: ignore[misc]
    """The type of columns of traced values: real numbers or truth values."""

    type = np.float64
    na_value = np.nan
    _is_numeric = True
    _metadata = ("boolean",)

    def __init__(self, boolean: bool = False) -> None:
        self.boolean = boolean

    @property
    def kind(self) -> str:
        """Return "b" or "f", as types of NumPy have it."""
        return "b" if self.boolean else "f"

    @property
    def name(self) -> str:
        """Return the name that pandas shows."""
        return "traced bool" if self.boolean else "traced"

    @property
    def _is_boolean(self) -> bool:
        return self.boolean

    @classmethod
    def construct_array_type(cls) -> Any:
        """Return the class of its arrays."""
        return TracedColumn

    @classmethod
    def construct_from_string(cls, string: str) -> TracedDtype:
        """Raise, since the type has no name in code."""
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
        """Real or boolean."""
        return TracedDtype(self.values.boolean)

    @property
    def nbytes(self) -> int:
        """Bytes of the references."""
        return int(self.values.references.nbytes)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, item: Any) -> Any:
        return wrapped(self.values[check_array_indexer(self, item)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.values[check_array_indexer(self, key)] = numbers_of(value)

    def isna(self) -> NDArray[np.bool_]:
        """Return a mask of the entries that are constants and no number."""
        references = self.values.references
        mask = references < 0
        if mask.any():
            mask[mask] = np.isnan(self.values.tape.values_of(references[mask]))
        return mask

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> TracedColumn:
        """Return the entries at some places; -1 is a missing one if it is to be filled."""
        fill = int(references_of(self.values.tape, numbers_of(fill_value), self.values.boolean))
        taken = pd.api.extensions.take(self.values.references, indices, allow_fill=allow_fill, fill_value=fill)
        return TracedColumn(TracedArray(self.values.tape, taken, boolean=self.values.boolean))

    def copy(self) -> TracedColumn:
        """Return a copy that can be written to."""
        return TracedColumn(self.values.copy())

    def view(self, dtype: Any = None) -> TracedColumn:
        """Return another column of the same entries."""
        return TracedColumn(self.values)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Return the column as another type: floats and truth values stay traced; objects are traced numbers."""
        kind = pd.api.types.pandas_dtype(dtype)
        if isinstance(kind, TracedDtype):
            kind = np.dtype(bool if kind.boolean else float)
        return wrapped(self.values.astype(kind)) if isinstance(kind, np.dtype) else super().astype(dtype, copy)

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: Any = no_default) -> Any:
        """Return the traced array; where pandas asks for itself, masks of rows are decided and numbers refused."""
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
        return wrapped(_called(ufunc, method, inputs, keywords))

    def round(self, decimals: int = 0) -> Any:
        """Round to a number of decimals."""
        return wrapped(np.round(self.values, decimals))

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
    """Return a reduction as pandas computes it: NaN of too few entries, and var and std of a sample."""
    if name in ("var", "std"):
        keywords["ddof"] = keywords.get("ddof", 1)
    needed = {"sum": min_count, "prod": min_count, "any": 0, "all": 0}.get(name, 1 + keywords.get("ddof", 0))
    ddof = {key: value for key, value in keywords.items() if key == "ddof"}
    return _REDUCTIONS[name](values, **ddof) if len(values) >= needed else np.nan


def wrapped(result: Any) -> Any:
    """Return an array, or each of a tuple, as a column."""
    if isinstance(result, tuple):
        return tuple(map(wrapped, result))
    return TracedColumn(result) if isinstance(result, TracedArray) and result.ndim == 1 else result


def numbers_of(value: Any) -> Any:
    """Return the numbers, traced or not, of an object of pandas; NaN for missing entries."""
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


def record(ufunc: np.ufunc, method: str, inputs: Any, keywords: Mapping[str, Any]) -> Any:
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
    """Return the result of a universal function on the numbers in tables; missing entries stay missing."""
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
    """Return values with the labels of a series or table; as they are if there is none.

    Raises:
        TraceError: if their shape is another.
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
        return pd.Series(column(values), like.index, name=like.name, copy=False)
    table = pd.DataFrame({k: column(values[:, k]) for k in range(like.shape[1])}, like.index, copy=False)
    table.columns = like.columns
    return table


def column(values: Any) -> Any:
    """Return an array with one axis as a column."""
    return TracedColumn(values) if isinstance(values, TracedArray) else values
