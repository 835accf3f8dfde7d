"""Objects that a function holds: which may change, and readers that detect changes in arrays, buffers and tables."""

from __future__ import annotations

import collections
import functools
import io
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import chain
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any, Final

import numpy as np

from accumulus.frontends.kinds import is_of, is_quantity
from accumulus.frontends.location import LIBRARIES, is_foreign, package_of
from accumulus.frontends.observed import OUTSIDE, UNCHANGING

#: Types of compiled code whose objects do not change, and locks, whose state is no value.
PLAIN: Final = frozenset((object, np.dtype, re.Match, type(threading.Lock()), type(threading.RLock())))
#: Types of compiled code whose objects are read otherwise, or hold nothing but their attributes.
READ: Final = (tuple, list, dict, set, frozenset, collections.deque, *UNCHANGING, np.ndarray, BaseException)
#: Types of compiled code whose objects change when they are read.
_STATEFUL: Final = (Iterator, io.IOBase, weakref.ProxyType, np.void)
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
    kind: type = type(value)
    if is_compiled(kind) and (buffer := buffer_of(value)) is not None:
        return _bytes if buffer.nbytes <= LARGEST else _some_bytes
    module = str(kind.__module__)
    if module.startswith("scipy.sparse") and isinstance(getattr(value, "data", None), np.ndarray):
        return functools.partial(_data_of, look_of(value.data) or _nothing)
    if is_of(value, "pandas", "Series", "DataFrame"):
        return _table if 8 * value.size <= LARGEST else None  # reading a large one costs as much as many calls
    if is_of(value, "xarray", "DataArray", "Dataset"):
        return _variables
    return _quantity if is_quantity(value) else None


@functools.lru_cache(maxsize=1024)
def is_compiled(kind: type) -> bool:
    """Return True if objects of a class hold something besides their attributes, in memory that compiled code reads.

    >>> is_compiled(bytearray), is_compiled(type("Model", (), {"__slots__": ("rate",)}))
    (True, False)
    """
    of_python = [vars(base).values() for base in kind.__mro__ if "__slots__" in vars(base)]
    pointers = sum(isinstance(held, MemberDescriptorType) for held in chain(*of_python))
    pointers += (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ > object.__basicsize__ + pointers * tuple.__itemsize__ or kind.__itemsize__ > 0


def buffer_of(value: Any) -> memoryview | None:
    """Return the memory of an object, such as a `bytearray` or a number of ctypes; None if Python cannot read it."""
    if isinstance(value, np.void):
        return None if value.dtype.hasobject else memoryview(value.tobytes())
    if package_of(type(value)) in LIBRARIES:
        return None
    try:
        return memoryview(value)
    except (TypeError, ValueError, BufferError):  # no buffer; a closed file; memory of an array that cannot be shared
        return None


def has_pointers(buffer: memoryview) -> bool:
    """Return True if memory holds addresses of other memory, by its format as in PEP 3118 (Zd is a complex number)."""
    return not set("&PzZOX").isdisjoint(re.sub(":[^:]*:|Z[fdg]", "", buffer.format))


def _bytes(value: Any) -> object:
    return value.tobytes() if isinstance(value, np.void) else memoryview(value).tobytes()


def _some_bytes(value: Any) -> object:
    """Return the length of a large buffer, and some of its words; no view remains, which would fix the length."""
    view = memoryview(value)
    words = np.frombuffer(value if view.c_contiguous else view.tobytes(), np.uint64, view.nbytes // 8)
    return view.nbytes, words[:: len(words) // SAMPLED or 1].tobytes()


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


# What may change ----------------------------------------------------------------------------------------------------


def is_unchanging(value: Any) -> bool:
    """Return True for a number, text or None; False for one of a user's class, which may have attributes."""
    return isinstance(value, UNCHANGING) and is_foreign(package_of(type(value)))


def is_of_value(kind: type) -> bool:
    """Return True if objects of a class are hashed by their value, which then does not change."""
    own: object = kind.__hash__
    return own is not None and own is not object.__hash__


def is_stateful(value: Any) -> bool:
    """Return True if a compiled object may change in memory that Python does not read."""
    kind: type = type(value)
    top = package_of(kind)
    if isinstance(value, READ):
        return False
    if isinstance(value, _STATEFUL) or (top in OUTSIDE and not is_of_value(kind)):
        return True
    if not is_foreign(top):
        return is_compiled(kind) or not any("__slots__" in vars(base) for base in kind.__mro__)
    if top in LIBRARIES or top in ("accumulus", "builtins", "functools"):
        return top == "torch" or kind.__module__.startswith("numpy.random")
    return is_compiled(kind) and not callable(value) and not hasattr(kind, "__get__") and not is_of_value(kind)


def may_change(value: Any) -> bool:
    """Return True if an attribute of a library's object is an array, a buffer, or one of the user's functions."""
    is_function = isinstance(value, FunctionType | MethodType) and not is_foreign(str(value.__module__))
    kind: type = type(value)
    return is_function or isinstance(value, np.ndarray) or (is_compiled(kind) and buffer_of(value) is not None)


@functools.lru_cache(maxsize=1024)
def is_holding(kind: type) -> bool:
    """Return True if a class of the standard library is written in Python, and reads attributes of its objects."""
    holds = any(isinstance(held, FunctionType) for held in vars(kind).values())
    return holds and package_of(kind) in sys.stdlib_module_names
