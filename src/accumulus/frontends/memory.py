"""Words of memory that stay the same as long as variables do.

A function of an installed package names hundreds of variables, and comparing each in Python takes longer than a call of
a compiled derivative. CPython keeps what a variable holds in words of the objects involved: the version of a dict,
which every change replaces by another number, whatever the key; the code of a function; the content of a closure cell;
the items of a list. A kernel compares all words of a thousand variables in about a microsecond.

Equal words prove that nothing has changed. Other words prove nothing: a dict may have got another name. The variables
are then compared in Python, and the new words are kept if all are the same. A dict that changes in most calls is
compared in Python from then on.

Where objects have another layout (`_Layout`), which is found by trial, variables are compared in Python. Dicts have no
version from Python 3.14 on.

Source: PEP 509, Add a private version to dict.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress
from operator import attrgetter
from types import CellType, FunctionType, MappingProxyType
from typing import Any, Final

import numpy as np

from accumulus.frontends.compiled.memory_kernel import MemoryState
from accumulus.frontends.variables import Comparison, Variable, comparison_of
from accumulus.native.machine import kernel_with_gil
from accumulus.native.state import NOTHING

#: Fewest variables, entries of containers included, that are compared by words, which takes half a microsecond whatever
#: their number. Comparing them in Python takes as long for 16 to 34, by their kinds.
FEWEST: Final = 24
#: Number of changes of a word that stand for no change of a variable, after which its variables are compared in Python.
#: More take longer where a dict changes in each call, fewer give up where one changes now and then.
MOST_MISSES: Final = 16
#: Maximum number of items of a list whose words are compared: each is a word, and a sample of longer lists is watched.
MOST_ITEMS: Final = 2000
_WORD: Final = 8
_HEADER: Final = object.__basicsize__


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


class _Layout:
    """Offsets of fields of CPython's objects, found by trial; None for a field that was not found.

    Attributes:
        version: offset of a dict's version.
        cell, items: offset of a closure cell's content; of a list's address of items.
        of_function: offsets of attributes of functions.
        order: offset of a class's method resolution order.
        of_instance: offset of an object's dict, which precedes the object.
    """

    def __init__(self) -> None:
        def probe(a: int = 1, *, b: int = 2) -> int:
            return a + b + ctypes.c_int.__basicsize__ * bool(cell)

        cell = object()
        kind = type("Probe", (), {"__slots__": (), "value": 1})
        self.version = self._version_of({})
        self.of_function = {
            name: _offset(probe, getattr(probe, name)) for name in ("__code__", "__defaults__", "__kwdefaults__")
        }
        self.cell = _offset((probe.__closure__ or ())[0], cell)
        self.order = _offset(kind, kind.__mro__)
        items = [cell, probe]
        self.items = next(
            (k for k in range(_HEADER + _WORD, list.__basicsize__, _WORD) if _points_at(_word(id(items) + k), items)),
            None,
        )
        self.of_instance = self._instance()

    def _version_of(self, namespace: dict[str, Any]) -> int | None:
        """Return the offset of the word that every change of a dict changes."""
        changes: list[Callable[[], object]] = [
            lambda: namespace.__setitem__("a", 1),
            lambda: namespace.__setitem__("a", 2),
            lambda: namespace.update(a=3, b=4),
            lambda: namespace.setdefault("c", 5),
            lambda: namespace.pop("b"),
            lambda: namespace.__delitem__("c"),
            lambda: namespace.__ior__({"a": 6}),
            lambda: exec("a = 7", namespace),
            lambda: exec("global a; a = 8", namespace),
            namespace.clear,
        ]
        offsets = set(range(_HEADER + _WORD, dict.__basicsize__, _WORD))
        for change in changes:
            before = {k: _word(id(namespace) + k) for k in offsets}
            change()
            offsets = {k for k in offsets if _word(id(namespace) + k) != before[k]}
        return min(offsets, default=None)

    def _instance(self) -> int | None:
        """Return the offset of the dict of an object, if its version follows assignments of attributes."""
        kind: Any = type("Probe", (), {})
        value = kind()
        value.a = 1
        held = vars(value)
        if self.version is None:
            return None

        def assign(number: object) -> None:
            value.a = number

        for k in range(64):  # often enough that the interpreter specialises the assignment
            before = _word(id(held) + self.version)
            assign(object())
            if _word(id(held) + self.version) == before or vars(value) is not held or held["a"] is not value.a:
                return None
            before = _word(id(held) + self.version)
            setattr(value, f"b{k}", k)
            delattr(value, f"b{k}")
            if _word(id(held) + self.version) == before:
                return None
        return next((k for k in range(-4 * _WORD, 0, _WORD) if _word(id(value) + k) == id(held)), None)


def _offset(owner: Any, held: object) -> int | None:
    """Return the offset of the word in an object that refers to another."""
    return next((k for k in range(_HEADER, type(owner).__basicsize__, _WORD) if _word(id(owner) + k) == id(held)), None)


def _points_at(address: int, items: Sequence[object]) -> bool:
    """Return True if the words at an address are those of a list's items; an address is a multiple of 8, and large."""
    return address > 1 << 16 and address % _WORD == 0 and _word(address) == id(items[0])


@cache
def _layout() -> _Layout | None:
    """Return the layout of objects; None where words are not known to follow the variables."""
    is_known = sys.implementation.name == "cpython" and ctypes.sizeof(ctypes.c_void_p) == _WORD
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    return _Layout() if is_known and has_lock else None


def _addresses(variable: Variable, layout: _Layout) -> list[int]:
    """Return the addresses of the words that change with a variable, in the order to read them; empty if unknown."""
    read, owner = variable.read, variable.owner
    kind = type(owner)
    if getattr(read, "__name__", "") == "isdisjoint":  # of the names in a namespace
        owner = next(iter(gc.get_referents(getattr(read, "__self__", None))), None)
        kind = type(owner)
    if kind is MappingProxyType:
        (owner,) = gc.get_referents(owner)
        kind = type(owner)
    name = read.__reduce__()[1][0] if type(read) is attrgetter else ""
    if isinstance(owner, dict):
        return [id(owner) + layout.version] if layout.version is not None and _is_of_dict(read, kind) else []
    if kind is list and not name:
        return _of_list(owner, layout)
    if kind is FunctionType and (offset := layout.of_function.get(name)) is not None:
        return [id(owner) + offset]
    if kind is CellType and name == "cell_contents" and layout.cell is not None:
        return [id(owner) + layout.cell]
    if name == "__mro__" and layout.order is not None and _word(id(owner) + layout.order) == id(owner.__mro__):
        return [id(owner) + layout.order]
    if name == "__class__" and _word(id(owner) + _HEADER - _WORD) == id(variable.saved):
        return [id(owner) + _HEADER - _WORD]
    if name == "__dict__" and layout.of_instance is not None:
        is_there = kind.__flags__ & _HEAP and _word(id(owner) + layout.of_instance) == id(variable.saved)
        return [id(owner) + layout.of_instance] if is_there else []
    return []


def keys_of_dict(owner: dict[Any, Any]) -> list[Any]:
    """Return the keys of a dict whose class may have an iterator of its own."""
    return list(dict.keys(owner))


def _is_of_dict(read: Callable[[Any], Any], kind: type) -> bool:
    """Return True if what is read from an object of a dict's class is determined by its entries as a dict."""
    if kind is dict:
        return type(read) is not attrgetter
    if read is len:
        return kind.__len__ is dict.__len__  # type: ignore[attr-defined]
    return read in (dict.values, keys_of_dict) or (read is list and kind.__iter__ is dict.__iter__)  # type: ignore[attr-defined]


#: Flag of classes that are made by Python code; only they have a dict before the object.
_HEAP: Final = 1 << 9


def _of_list(owner: list[Any], layout: _Layout) -> list[int]:
    """Return the addresses of a list's length, of its address of items, and of the items."""
    if layout.items is None or len(owner) > MOST_ITEMS:
        return []
    first = _word(id(owner) + layout.items)
    return [id(owner) + _HEADER, id(owner) + layout.items, *range(first, first + _WORD * len(owner), _WORD)]


def comparison_by_words(variables: Sequence[Variable]) -> Callable[[], bool]:
    """Return a function that returns True if all variables have their saved values, and may raise `GONE`.

    Few variables are compared in Python, like those that have no words.
    """
    layout = _layout()
    if layout is None or _entries(variables) < FEWEST:
        return comparison_of(variables)
    by_words = [variable for variable in variables if _addresses(variable, layout)]
    if _entries(by_words) < FEWEST:
        return comparison_of(variables)
    chosen = set(map(id, by_words))
    return comparison_of([each for each in variables if id(each) not in chosen], _Words(by_words, layout).are_same)


def _entries(variables: Sequence[Variable]) -> int:
    """Return the number of variables, with all entries of containers."""
    return sum(len(each.saved) if each.way is Comparison.ENTRIES else 1 for each in variables)


class _Words:
    """Comparison of variables by words of memory, as long as these are the same; else in Python.

    Args:
        variables: variables that have words.
        layout: layout of objects.
    """

    def __init__(self, variables: Sequence[Variable], layout: _Layout) -> None:
        self._all, self._variables, self._layout = variables, list(variables), layout
        #: Variables that are compared in Python, since their words change too often.
        self._worn: list[Variable] = []
        #: Number of changes of each word that stood for no change of a variable, by address.
        self._misses: dict[int, int] = {}
        self._compare_worn = comparison_of(self._worn)
        self._lock = threading.Lock()
        self._table = np.zeros(1, np.int64)
        self._state = MemoryState(memory=NOTHING, table=self._table)
        self._state.place("memory", 0)
        self._have_same_words = kernel_with_gil("frontends.memory", self._state.address)

    def are_same(self) -> bool:
        """Return True if all variables have their saved values; it may raise exceptions of `GONE`."""
        if self._have_same_words():
            return not self._worn or self._compare_worn()
        if not self._lock.acquire(blocking=False):  # held in another thread, around a finaliser, or before a fork
            return all(each.is_unchanged() for each in self._all)
        try:
            return self._renewed()
        finally:
            self._lock.release()

    def _renewed(self) -> bool:
        """Compare the variables in Python, and expect the present words from now on if all are the same."""
        addresses = [_addresses(each, self._layout) for each in self._variables]
        words = {address: _word(address) for each in addresses for address in each}
        # items that another thread has moved meanwhile are read in the next call
        is_moved = any(len(each) > 2 and words[each[1]] != each[2] for each in addresses)
        # a variable that changes from here on has other words in the next call. A loop is slower than compiled code,
        # but there are few such calls
        if not all(each.is_unchanged() for each in self._variables) or (self._worn and not self._compare_worn()):
            return False
        for place, before in self._table[1:].reshape(-1, 2).tolist():
            address = _WORD * place
            if words.get(address, before) != before:
                self._misses[address] = self._misses.get(address, 0) + 1
        often = {address for address, misses in self._misses.items() if misses > MOST_MISSES}
        if often:
            is_worn = [not often.isdisjoint(each) for each in addresses]
            self._worn += compress(self._variables, is_worn)
            self._variables = [each for each, worn in zip(self._variables, is_worn, strict=True) if not worn]
            self._misses.clear()
            self._compare_worn = comparison_of(self._worn)
        if often or is_moved:
            words.clear()  # others, in the next call
        pairs = [number for address, word in words.items() for number in (address // _WORD, word)]
        self._state.table = table = np.array([len(words), *pairs], np.int64)
        self._table = table  # not before: the kernel reads the old one in other threads until here
        return True
