"""Traced arrays, which the user's function receives instead of NumPy's: arrays of references to a tape.

Constants are negative references, so that constant arrays, traced arrays and arrays that are filled entry by entry are
the same type. Views, slices, fancy indexing, broadcasting assignment and ``+=`` are NumPy's own, applied to the
references.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from accumulus.errors import TraceError
from accumulus.frontends.active import ACTIVE, no_number, refuse
from accumulus.frontends.decisions import truths, wholes
from accumulus.frontends.numpy.journal import check_not_shared, note_entries
from accumulus.frontends.numpy.lookups import is_lookup, read
from accumulus.frontends.numpy.operands import (
    Entries,
    concrete,
    constants,
    depends,
    entries_of,
    holds_complex,
    is_sparse,
    map_references,
    references_of,
)
from accumulus.frontends.numpy.scalars import Traced, TracedBoolean, TracedScalar, make_scalar
from accumulus.frontends.numpy.table import PROTOCOLS, check_dtype, columns
from accumulus.frontends.numpy.texts import in_full
from accumulus.frontends.recorder import References
from accumulus.tape.tape import Tape


def make(tape: Tape, entries: Entries, boolean: bool = False) -> Any:
    """Return the traced value of an operation's result: a scalar for one reference, else an array."""
    if isinstance(entries, int):
        return make_scalar(tape, entries, boolean)
    return TracedArray(tape, entries, boolean=boolean)


def as_array(tape: Tape, value: Any) -> Any:
    """Convert an operand to an array of real or complex numbers; traced arrays are shared, not copied."""
    if holds_complex(value):
        return PROTOCOLS["complex array"](tape, value, (), {})
    return TracedArray(tape, references_of(tape, value))


def as_constant(tape: Tape, result: Any) -> Any:
    """Return a result that NumPy computed from constants; arrays of doubles become traced and can be filled."""
    if type(result) is np.ndarray and result.dtype == np.float64:  # narrower types would round stored values
        return TracedArray(tape, constants(tape, result))
    if type(result) is np.ndarray and result.dtype == np.complex128:
        return PROTOCOLS["complex constant"](tape, result, (), {})
    if isinstance(result, list | tuple):
        items = [as_constant(tape, item) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


def _is_sparse_matrix(value: Any) -> bool:
    """Return True for a matrix of `scipy.sparse`, whose ``*`` is the matrix product, but not for a sparse array."""
    return is_sparse(value) and type(value).__name__.endswith("_matrix")


#: Library functions that must see traced arrays as foreign objects, with their modules: SciPy then leaves products with
#: sparse matrices to them, and pandas makes a series of the objects in them.
_SEEING_OBJECTS: Final = {"_matmul_dispatch": "scipy.sparse.", "sanitize_array": "pandas.core."}


def _sees_object(caller: FrameType) -> bool:
    """Return True if the caller is a library function that must not take a traced array for one of NumPy's."""
    module = _SEEING_OBJECTS.get(caller.f_code.co_name)
    return module is not None and caller.f_globals["__name__"].startswith(module)


def method_of(name: str) -> Callable[..., Any]:
    """Return an array method that calls NumPy's function of the same name."""
    function = getattr(np, name)

    def method(self: TracedArray, *arguments: Any, **keywords: Any) -> Any:
        arguments = (arguments[0], self, *arguments[1:]) if name == "compress" else (self, *arguments)
        return self.__array_function__(function, (TracedArray,), arguments, keywords)

    method.__name__ = name
    return method


def no_subclass(kind: type) -> TraceError:
    """Return the error for an object of a subclass of NumPy's arrays that would have traced entries."""
    return refuse(
        f"{kind.__module__}.{kind.__qualname__} is a subclass of NumPy's arrays, whose objects hold plain numbers, and "
        "the values depend on the function's arguments. Call what the class computes as a function of plain arrays."
    )


class AnyArray(Traced, NDArrayOperatorsMixin):
    """Base class of arrays of real and of complex numbers."""

    __slots__ = ()
    __class__: Any = property(lambda self: np.ndarray)  # `isinstance` checks take the path for arrays
    __hash__ = Traced.__hash__

    def moved(self, move: Callable[[Any], Any]) -> Any:
        """Apply a NumPy function that moves entries, and return the resulting array."""
        raise NotImplementedError

    @property
    def T(self) -> Any:  # noqa: N802
        """The transpose, a view."""
        return self.moved(lambda entries: entries.T)

    @property
    def mT(self) -> Any:  # noqa: N802
        """The transpose of the last two axes, a view."""
        return self.moved(lambda entries: entries.mT)

    @property
    def flat(self) -> Flat:
        """The entries in C order, readable and writable."""
        return Flat(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self.flat[:] = values

    def fill(self, value: Any) -> None:
        """Set all entries to `value`."""
        self[...] = value  # type: ignore[index]

    def tolist(self) -> Any:
        """Return the entries as nested lists."""
        rows: Any = self
        return [row.tolist() if isinstance(row, AnyArray) else row for row in rows] if rows.ndim else rows.item()

    def copy(self, order: str = "C") -> Any:
        """Return a copy that can be written to."""
        return self.moved(lambda entries: entries.copy())

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memory: Any) -> Any:
        return self.copy()

    def reshape(self, *shape: Any, order: Any = "C") -> Any:
        """Return the entries in another shape."""
        return self.moved(lambda entries: entries.reshape(*shape, order=order))

    def transpose(self, *axes: Any) -> Any:
        """Return a view with the axes in another order."""
        return self.moved(lambda entries: entries.transpose(*axes))

    def flatten(self, order: Any = "C") -> Any:
        """Return a one-dimensional copy."""
        return self.moved(lambda entries: entries.flatten(order))


# methods that call NumPy's function with the array as first argument
for _name in (
    *("all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "compress", "cumprod", "cumsum"),
    *("diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ptp", "put", "ravel", "repeat", "round"),
    *("searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var"),
):
    setattr(AnyArray, _name, method_of(_name))


class TracedArray(AnyArray):
    """An array whose entries are references to a tape.

    Args:
        tape: tape of the entries.
        references: array with one reference for each entry; shared, not copied.
        boolean: True if the entries are truth values.
    """

    __slots__ = ("boolean", "references", "tape")
    # `isinstance` checks take the path for arrays, except in library functions that must see an object
    __class__: Any = property(lambda self: np.ndarray if not _sees_object(sys._getframe(1)) else TracedArray)

    def __init__(self, tape: Tape, references: References, *, boolean: bool = False) -> None:
        self.tape = tape
        self.references = references
        self.boolean = boolean

    @property
    def entries(self) -> References:
        """The references."""
        return self.references

    # Array attributes --------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the entries: float64 or bool."""
        return np.dtype(bool if self.boolean else float)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis."""
        return self.references.shape

    @shape.setter
    def shape(self, shape: tuple[int, ...]) -> None:
        self.references = self.references.reshape(shape, copy=False)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.references.ndim

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.references.size

    @property
    def real(self) -> TracedArray:
        """Itself."""
        return self

    @property
    def imag(self) -> NDArray[np.float64]:
        """Zeros, read-only."""
        return np.broadcast_to(0.0, self.shape)

    def read_flat(self, index: Any) -> Any:
        """Return entries by flat index, in C order."""
        return self._wrap(self.references.flat[self.constant_index(index)])

    def write_flat(self, index: Any, value: Any) -> None:
        """Set entries by flat index, in C order."""
        self.check_writable()
        self.references.flat[self.constant_index(index)] = self._converted(value)

    def __len__(self) -> int:
        return len(self.references)

    def __iter__(self) -> Iterator[Any]:
        for row in self.references:
            yield self._wrap(row)

    def __repr__(self) -> str:
        names = np.array([self.tape.name(r) for r in self.references.ravel().tolist()], object)
        return in_full(self, f"TracedArray({names.reshape(self.shape).tolist()})".replace("'", ""))

    __str__ = __repr__

    def __getattr__(self, name: str) -> Any:
        if name in ("device", "flags", "itemsize", "nbytes", "setflags", "strides"):
            return getattr(self.references, name)
        if not self.ndim and isinstance(ufunc := getattr(np, name, None), np.ufunc):
            return functools.partial(ufunc, self)  # NumPy calls it for items of object arrays
        if not name.startswith("_") and hasattr(np.ndarray, name):
            raise refuse(f"The method .{name} of arrays is not recorded. Use a function of NumPy, or a copy.")
        raise AttributeError(f"TracedArray has no attribute {name!r}")

    def moved(self, move: Callable[[References], References]) -> TracedArray:
        """Apply a function that moves entries to the references, and return the resulting array."""
        return self._like(move(self.references))

    def _like(self, references: References) -> TracedArray:
        return TracedArray(self.tape, references, boolean=self.boolean)

    def _wrap(self, references: Any) -> Any:
        """Return the traced array, or the traced scalar, for references that NumPy returned."""
        if isinstance(references, np.ndarray):
            return self._like(references)
        return make_scalar(self.tape, int(references), self.boolean)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if dtype is not None and np.dtype(dtype) == object:  # np.vectorize
            return self._objects()
        if depends(self):
            if dtype is None and _sees_object(sys._getframe(1)):
                is_series = sys._getframe(1).f_code.co_name == "sanitize_array"
                return self._objects() if is_series else np.fromiter([self], object).reshape(())
            if dtype is None and not self.ndim:  # an item of a list, treated like a traced scalar
                return self._objects()
            if self.boolean and ACTIVE.decisions is not None:  # a mask of a plain array
                return truths(self.tape, self.references)
            raise no_number("float")
        return np.array(concrete(self), dtype)

    def __mul__(self, other: Any) -> Any:
        return np.matmul(self, other) if _is_sparse_matrix(other) else AnyArray.__mul__(self, other)

    def __rmul__(self, other: Any) -> Any:
        return np.matmul(other, self) if _is_sparse_matrix(other) else AnyArray.__rmul__(self, other)

    def as_column(self) -> Any:
        """Return a column for a pandas table or series."""
        return columns().TracedColumn(self)

    def _objects(self) -> NDArray[Any]:
        """Return a plain array of traced scalars."""
        kind = TracedBoolean if self.boolean else TracedScalar
        items = np.empty(self.size, object)
        items[:] = [kind(self.tape, r) for r in self.references.ravel().tolist()]
        return items.reshape(self.shape)

    # Reading and writing entries ---------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            if isinstance(index, TracedArray) and self._is_mask(index):
                return PROTOCOLS["selection"](self.tape, self, index.references, {})
            if is_lookup(self.tape, index) and not self.boolean:
                return self._like(read(self.tape, self.references, self.open_index(index)))
            index = self.constant_index(index)
        return self._wrap(self.references[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, TracedArray | TracedBoolean) and depends(index) and self._is_choice(index, value):
            self._choose(index, value)
            return
        if type(index) is not int:
            index = self.constant_index(index)
        self.check_writable(index)
        self.references[index] = self._converted(value)

    def _is_mask(self, index: TracedArray) -> bool:
        """Return True if an index is a mask of the leading axes whose values need not be decided."""
        return (
            index.boolean
            and ACTIVE.decisions is not None
            and 0 < index.ndim <= self.ndim
            and index.shape == self.shape[: index.ndim]
            and depends(index)
        )

    def _is_choice(self, index: TracedArray | TracedBoolean, value: Any) -> bool:
        """Return True if an assignment under a traced condition can be a select; else the condition is decided.

        Raises:
            TraceError: if the condition would be decided, and decisions are refused.
        """
        if index.boolean and isinstance(value, TracedArray) and value.is_open:
            return bool(value.is_selection_by(index.entries) and value.everything.shape == self.shape)
        if index.boolean and np.ndim(value) == 0:
            return True
        if ACTIVE.decisions is None:
            raise self._refused_index(index)
        return False

    def _choose(self, condition: TracedArray | TracedBoolean, value: Any) -> None:
        """Assign one value, or the values of a selection, where a traced condition holds.

        Each entry is recorded as a select between the new and the old value.
        """
        self.check_writable()
        value = getattr(value, "everything", value)
        mask = references_of(self.tape, condition, boolean=True)
        mask = mask.reshape(mask.shape + (1,) * (self.ndim - mask.ndim))
        chosen = references_of(self.tape, value, self.boolean)
        self.references[...] = map_references(self.tape, lambda body: body.select, [mask, chosen, self.references])

    def constant_index(self, index: Any) -> Any:
        """Convert an index to constants; traced indices are decided, or refused if decisions are.

        Raises:
            TraceError: if the index depends on the inputs and decisions are refused.
        """
        if isinstance(index, tuple):
            return tuple(self.constant_index(item) for item in index)
        if isinstance(index, slice):
            bounds = (index.start, index.stop, index.step)
            return slice(*(b.__index__() if isinstance(b, Traced) else b for b in bounds))
        if not depends(index):
            return concrete(index)
        if ACTIVE.decisions is None:
            raise self._refused_index(index)
        tape = getattr(index, "tape", self.tape)  # maybe the tape of a body
        entries, boolean = entries_of(tape, index)
        answers = (truths if boolean else functools.partial(wholes, kind="index"))(tape, np.asarray(entries, np.int64))
        return answers if answers.ndim else answers[()]

    def open_index(self, index: Any) -> Any:
        """Convert an index to constants, except long arrays whose values stay open."""
        if isinstance(index, tuple):
            return tuple(self.open_index(item) for item in index)
        return index if is_lookup(self.tape, index) else self.constant_index(index)

    def _refused_index(self, index: Any) -> Exception:
        if getattr(index, "boolean", False):
            return refuse(
                "The selected entries, and so the shape of the result, depend on the arguments of the function. Write "
                "np.where(condition, a, b) for all entries; through a condition, only a single value can be assigned."
            )
        return refuse(
            "The index depends on the arguments of the function. Make it static (static_argnums), or a constant; a "
            "table is recorded by np.interp or np.select."
        )

    def check_writable(self, index: Any = ...) -> None:
        """Check that entries may be changed, and log the change in a branch.

        Raises:
            TraceError: for an argument of the function, and for a read-only view.
        """
        check_not_shared(self.references)
        if self.references.flags.writeable:
            if ACTIVE.merging:
                note_entries(self, index)
            return
        if self.size and 0 <= self.references.min() and self.references.max() < self.tape.inputs:
            raise refuse(
                "The function changes its argument in place, so a second call with the same array would return other "
                "results. Copy the argument first: x = x.copy()."
            )
        raise refuse("The array is a read-only view, as it is in NumPy. Copy it first.")

    def _converted(self, value: Any) -> Any:
        if value is None:
            value = np.nan  # as in NumPy's arrays of numbers
        return references_of(self.tape, value, self.boolean)

    def item(self, *index: Any) -> Any:
        """Return one entry as a scalar."""
        return make_scalar(self.tape, self.references.item(*index), self.boolean)

    def partition(self, kth: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None:
        """Partition in place."""
        self[...] = np.partition(self, kth, axis)

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        """Sort in place."""
        if ACTIVE.decisions is None:
            raise refuse("The method .sort of arrays is not recorded. Use a function of NumPy, or a copy.")
        self[...] = np.sort(self, axis)

    # Making other arrays -----------------------------------------------------------------------------------

    def astype(self, dtype: Any, **options: Any) -> Any:
        """Return a copy with another type: float64, bool, complex128, or, for constants, any type of NumPy."""
        target = np.dtype(dtype)
        if target == np.float64 or target.kind == "b":
            boolean = target.kind == "b"
            return TracedArray(self.tape, references_of(self.tape, self, boolean).copy(), boolean=boolean)
        if target.kind == "O":
            return self.__array__(object)
        if target == np.complex128:
            return self + 0j
        if depends(self) and target.kind in "iu" and ACTIVE.decisions is not None:
            return wholes(self.tape, references_of(self.tape, self)).astype(target)
        if depends(self):
            check_dtype(target, "astype")
        return concrete(self).astype(target)

    def view(self, dtype: Any = None, type: Any = None) -> TracedArray:  # noqa: A002  # NumPy's name
        """Return a view of the same kind.

        Raises:
            TraceError: for a subclass of arrays, and for a type that would read the bits of the numbers.
        """
        kind = type if dtype is None else dtype
        if isinstance(kind, builtins.type) and issubclass(kind, np.ndarray):
            if kind is not np.ndarray:
                raise no_subclass(kind)
        elif kind is not None and np.dtype(kind) != self.dtype:
            raise refuse(f".view({np.dtype(kind)}) reads the bits of numbers, which are not recorded.")
        return self._like(self.references[...])

    def conj(self) -> TracedArray:
        """Return itself."""
        return self

    conjugate = conj


class Flat:
    """Entries of an array in C order, like `ndarray.flat`."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return int(self.array.size)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array.ravel())

    def __getitem__(self, index: Any) -> Any:
        return self.array.read_flat(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array.write_flat(index, value)


def _array_of_scalar(tape: Tape, value: Any, arguments: Any, keywords: Any) -> TracedArray:
    """Return a scalar as an array of shape ()."""
    entries, boolean = entries_of(tape, value)
    return TracedArray(tape, np.array(entries, np.int64), boolean=boolean)


PROTOCOLS["array"] = _array_of_scalar
