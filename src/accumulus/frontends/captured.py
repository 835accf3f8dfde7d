"""What a function holds besides its arguments, and whether it still holds it: what its recording depends on.

Watched are the variables that its code can reach by name: closure cells, defaults, the global variables that its code
names, attributes that its code names of objects among these and of what a method is bound to, entries of lists and
dicts; and the same of the user's functions among all of them. Their identities are compared, of small arrays, sets and
tables the contents, of large arrays some entries: some 0.1 µs and 50 ns a variable, and nothing where there is none.

What the function changes itself while it is recorded is its own affair, and not watched.

Not seen are: changes of large arrays (`LARGEST`) between the entries that are compared, and variables beyond the first
`MOST`, of which `unwatched` tells; what is reached otherwise than by name, as in a file or by ``globals()``; and what
belongs to array libraries or the standard library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.frontends.kinds import StandIn
from accumulus.frontends.location import cells, dispatchers, is_foreign, is_library_code

__all__ = ["Captured", "is_changeable"]

#: Bytes of the largest array whose contents are compared, and the most variables that are watched.
LARGEST: Final = 4096
MOST: Final = 200
#: Entries of larger arrays that are compared, spread over each axis.
SAMPLED: Final = 64
#: Characters of a value that is told.
LONGEST_SHOWN: Final = 30
#: Functions by which code reaches all attributes of an object, or some whose names are not in the code.
_ALL_ATTRIBUTES: Final = frozenset({"__dict__", "asdict", "astuple", "attrgetter", "getattr", "vars"})
#: What reading a variable raises that is no longer there.
_GONE: Final = (AttributeError, LookupError, ValueError)
_UNCHANGING: Final = (bool, int, float, complex, str, bytes, type(None), np.generic)


class Variable(NamedTuple):
    """One variable that a function can read."""

    #: How to read it, and by what; and what the user's code calls it, such as "model.gains['k']".
    read: Callable[[Any], Any]
    name: Any
    label: str
    #: What it was.
    value: Any
    #: What is in an object that can be changed in place, and how to look; None if there is nothing to see.
    contents: object
    look: Callable[[Any], object] | None
    #: What is compared where another object has taken its place; None if nothing will do.
    summary: object

    @classmethod
    def of(cls, read: Callable[[Any], Any], name: Any, label: str) -> Variable:
        """The variable as it is now."""
        value = read(name)
        look = _look_of(value)
        contents = None if look is None else look(value)
        summary: object = None
        if isinstance(value, np.ndarray) and look is np.ndarray.tobytes:
            summary = (value.dtype.str, value.shape, contents)
        elif isinstance(value, _UNCHANGING):
            summary = (type(value).__qualname__, repr(value))
        return cls(read, name, label, value, contents, look, summary)

    def is_unchanged(self) -> bool:
        """Whether it is the very same object, with the same contents."""
        now = self.read(self.name)
        return now is self.value and (self.look is None or self.look(now) == self.contents)

    def change(self) -> str:
        """Its name, with what it was and is where that is short."""
        if self.read is len:
            return f"{self.label} ({self.value} items, now {len(self.name)})"
        now = "gone"
        with suppress(*_GONE):
            now = _shown(self.read(self.name))
        before = _shown(self.value)
        return self.label if "" in (now, before) or now == before else f"{self.label} ({before}, now {now})"

    def equals(self, before: Variable) -> bool:
        """Whether it is the same, or a number, text or small array that is equal."""
        same = self.value is before.value or (self.summary is not None and self.summary == before.summary)
        return same and self.contents == before.contents


class Captured:
    """What a function holds, as it is when this is made.

    >>> k = [2.0]
    >>> captured = Captured(lambda x: k[0] * x)
    >>> captured.is_current()
    True
    >>> k[0] = 3.0
    >>> captured.is_current()
    False
    """

    __slots__ = ("_everything", "_further", "_names", "_seen", "_variables", "changed", "unwatched")

    def __init__(self, function: object) -> None:
        self._variables: list[Variable] = []
        #: Names in all code that was seen; attributes of these names are watched.
        self._names: frozenset[str] = frozenset()
        #: Whether code asks for all attributes of objects.
        self._everything = False
        #: What changes may be missed of, in words.
        self.unwatched: list[str] = []
        #: What has been left out since the function changes it itself, in words.
        self.changed: list[str] = []
        while True:  # code that was found last may name what was passed by before
            self._variables.clear()
            self.unwatched.clear()
            self._seen: dict[int, object] = {}
            self._further: set[str] = set()
            self._visit(function, "" if type(function) is tuple else _name_of(function))
            if self._further <= self._names:
                break
            self._names |= self._further
            self._everything = not self._names.isdisjoint(_ALL_ATTRIBUTES)
        self._seen = {}

    def __bool__(self) -> bool:
        """Whether there is anything to watch."""
        return bool(self._variables)

    def is_current(self) -> bool:
        """Whether the function still holds the same; an equal number or small array counts as the same."""
        try:
            for read, name, _, known, contents, look, _ in self._variables:
                now = read(name)
                if now is not known or (look is not None and look(now) != contents):
                    return self._is_equal()
        except _GONE:
            return False
        return True

    def settle(self) -> None:
        """Leave out what has changed since this was made, or was settled; `changed` says what it is."""
        self.changed += self.changes()
        self._variables = [variable for variable in self._variables if _is_unchanged(variable)]

    def changes(self) -> list[str]:
        """What has changed since this was made, or was settled: its name in the code, with what it was and is.

        >>> calls = [0]
        >>> captured = Captured(lambda x: calls[0] * x)
        >>> calls[0] += 1
        >>> captured.changes()
        ['calls[0] (0, now 1)']
        """
        found = [variable for variable in self._variables if not _is_unchanged(variable)]
        return list(dict.fromkeys(variable.change() for variable in found))

    def summary(self) -> list[object]:
        """Numbers, text and small arrays among the variables, to compare with those in another process."""
        return [variable.summary for variable in self._variables]

    def _is_equal(self) -> bool:
        """The same as `is_current`, by value; from now on, what has taken the place of equal objects is watched."""
        current = [Variable.of(variable.read, variable.name, variable.label) for variable in self._variables]
        if not all(map(Variable.equals, current, self._variables)):
            return False
        self._variables = current
        return True

    # Finding the variables ------------------------------------------------------------------------------------

    def _watch(self, read: Callable[[Any], Any], name: Any, label: str) -> None:
        """Watch a variable, and what can be reached through it."""
        value = read(name)
        if len(self._variables) < MOST:
            if not isinstance(value, ModuleType) and not _is_library_code(value):
                self._variables.append(Variable.of(read, name, label))
                if type(value) is np.ndarray and value.nbytes > LARGEST:
                    size = f"{value.nbytes:,} bytes"
                    self.unwatched.append(f"{label}, an array of {size}: of some entries changes are seen")
            self._visit(value, label)
        elif len(self._variables) == MOST:
            self._variables.append(Variable.of(read, name, label))
            self.unwatched.append(f"variables beyond {MOST}, from {label} on")

    def _watch_named(self, namespace: Mapping[str, Any], names: Iterable[str], owner: str = "") -> None:
        for name in sorted(namespace.keys() & set(names)):
            self._watch(namespace.__getitem__, name, f"{owner}.{name}" if owner else name)

    def _visit(self, value: Any, label: str) -> None:
        if isinstance(value, (*_UNCHANGING, StandIn)) or type(value) is np.ndarray or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if type(value) in dispatchers():
            self._visit(value.py_func, label)
        elif isinstance(value, FunctionType):
            self._visit_function(value, label)
        elif isinstance(value, MethodType):
            self._visit(value.__func__, label)
            self._visit(value.__self__, "self")
        elif isinstance(value, functools.partial):
            self._visit(value.func, label)
            self._visit((*value.args, *value.keywords.values()), f"{label}.args")
        elif isinstance(value, tuple):  # of which only arrays can change
            for index, item in enumerate(value):
                own = f"{label}[{index}]" if label else _name_of(item)
                if type(item) is np.ndarray:
                    self._watch(value.__getitem__, index, own)
                self._visit(item, own)
        elif isinstance(value, list | dict):
            self._variables.append(Variable.of(len, value, label))
            for key in list(value) if isinstance(value, dict) else range(len(value)):
                self._watch(value.__getitem__, key, f"{label}[{key!r:.40}]")
        elif isinstance(value, ModuleType):
            if not is_foreign(value.__name__):
                self._watch_named(vars(value), self._names, label)
        else:
            if type(value).__module__.partition(".")[0] == "accumulus":  # what was made of functions
                self._visit(getattr(value, "holder", None), label)
            self._visit_object(value, label)

    def _visit_function(self, function: FunctionType, label: str) -> None:
        if is_library_code(function.__code__, function.__globals__):
            return
        names = set(_names(function.__code__))
        self._further |= names
        filled = set(map(id, cells(function)))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if id(cell) in filled:
                self._watch(functools.partial(getattr, cell), "cell_contents", name)
        for defaults in ("__defaults__", "__kwdefaults__"):
            if getattr(function, defaults):
                self._watch(functools.partial(getattr, function), defaults, f"{function.__name__}.{defaults}")
        self._watch_named(function.__globals__, names)
        self._visit(getattr(function, "__wrapped__", None), label)

    def _visit_object(self, value: Any, label: str) -> None:
        """Attributes of an object, or a class, and of its classes."""
        if isinstance(getattr(value, "__dict__", None), dict):
            users = not is_foreign(type(value).__module__) or isinstance(value, SimpleNamespace)
            self._watch_named(vars(value), vars(value) if self._everything and users else self._names, label)
        kind = value if isinstance(value, type) else type(value)
        for base in kind.__mro__:
            if is_foreign(base.__module__):
                continue
            slots = set(_slots_of(base)) if self._everything else set()
            for name in sorted(vars(base).keys() & (self._names | slots | {"__call__"})):
                attribute, of_class = vars(base)[name], f"{base.__name__}.{name}"
                if isinstance(attribute, MemberDescriptorType):  # of __slots__
                    if kind is not value and hasattr(value, name):
                        self._watch(functools.partial(getattr, value), name, f"{label}.{name}")
                elif isinstance(attribute, FunctionType):
                    self._watch(vars(base).__getitem__, name, of_class)  # another may take its place
                elif isinstance(attribute, property):
                    self._watch(vars(base).__getitem__, name, of_class)
                    self._visit(attribute.fget, of_class)
                elif isinstance(attribute, staticmethod | classmethod | functools.cached_property):
                    self._watch(vars(base).__getitem__, name, of_class)
                    inner = attribute.func if isinstance(attribute, functools.cached_property) else attribute.__func__
                    self._visit(inner, of_class)
                elif kind is not value and not hasattr(attribute, "__get__"):  # the object may get one of its own
                    self._watch(functools.partial(getattr, value), name, f"{label}.{name}")
                else:
                    self._watch(vars(base).__getitem__, name, of_class)


def _is_unchanged(variable: Variable) -> bool:
    try:
        return variable.is_unchanged()
    except _GONE:
        return False


def _name_of(value: Any) -> str:
    """What a function, or an object that is called or given to one, is called; in its own code it is `self`."""
    return str(getattr(value, "__name__", "self" if callable(value) else type(value).__name__))


def _shown(value: Any) -> str:
    """A number, a truth value or a short text as it is written; empty for all else."""
    text = repr(value) if isinstance(value, _UNCHANGING) else ""
    return text if len(text) <= LONGEST_SHOWN else ""


def is_changeable(argument: object) -> bool:
    """Whether a constant argument is an object whose attributes may change while it stays what it is.

    Arrays are told apart by their contents.

    >>> is_changeable(np.ones(2)), is_changeable(2.0), is_changeable(functools.partial(max, 1.0))
    (False, False, True)
    """
    return not isinstance(argument, (*_UNCHANGING, np.ndarray))


def _slots_of(kind: type) -> Iterator[str]:
    return (name for name, attribute in vars(kind).items() if isinstance(attribute, MemberDescriptorType))


def _look_of(value: Any) -> Callable[[Any], object] | None:
    """What sees whether an object has been changed in place; None if it cannot be, or nothing sees it."""
    if isinstance(value, StandIn):  # of another recording: an error wherever it is used
        return None
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return None
        return np.ndarray.tobytes if value.nbytes <= LARGEST else _sampled(value)
    if isinstance(value, set):
        return frozenset
    if type(value).__module__.startswith("scipy.sparse") and isinstance(getattr(value, "data", None), np.ndarray):
        return functools.partial(_data_of, _look_of(value.data) or _nothing)
    if type(value).__module__.startswith("pandas") and hasattr(value, "iloc") and 8 * value.size <= LARGEST:
        return _table
    return None


def _sampled(array: np.ndarray[Any, Any]) -> Callable[[Any], object]:
    """What reads some entries of one array, spread over each axis: through a view, which takes no time to make."""
    each = max(2, int(SAMPLED ** (1.0 / array.ndim)))
    view = array[tuple([slice(None, None, max(1, -(-length // each))) for length in array.shape])]
    return lambda _: view.tobytes()


def _data_of(look: Callable[[Any], object], matrix: Any) -> object:
    return id(matrix.data), look(matrix.data)


def _nothing(_: Any) -> None:
    return None


def _table(frame: Any) -> object:
    """Contents of a small table or series of pandas."""
    values = frame.to_numpy()
    held = repr(values.tolist()) if values.dtype.kind == "O" else values.tobytes()
    return held, repr([axis.tolist() for axis in frame.axes])


def _is_library_code(value: Any) -> bool:
    """Whether a value is a function or class of a library, which nobody changes."""
    if not callable(value):
        return False
    value = value.__func__ if isinstance(value, staticmethod) else value
    owner = value if isinstance(value, FunctionType | BuiltinFunctionType | type) else type(value)
    return is_foreign(str(getattr(owner, "__module__", "builtins")))


def _names(code: CodeType) -> Iterator[str]:
    """Names of global variables and attributes in code, and in the functions that it defines; text may be names too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant
