"""Detection of changes in the variables that a function reads besides its arguments.

`Captured` watches

* the function and the functions that its code names, with their code, defaults and closure cells;
* global variables that the code names;
* attributes that the code names, of objects and classes, and attributes of the same names that may hide them;
* entries of containers, and contents of arrays and buffers.

The names come from two sources: code that is reachable from the function by name, and all code that ran while the
function ran on plain numbers (`Observed`). The second includes special methods and functions that no name leads to.

Variables are compared by identity: individually, or many entries of a container at once. Contents are compared by
value. Replacing a number, text or small array by an equal one is not a change.

Variables that the function itself changes are not watched; `changed` lists them. `unwatched` lists objects that cannot
be watched: most entries of large arrays and lists, iterators, states of extension modules, clocks and files. Functions
and constants of array libraries and of the standard library are assumed constant.
"""

from __future__ import annotations

import builtins
import collections
import contextvars
import functools
import gc
import io
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from itertools import compress
from keyword import iskeyword
from operator import attrgetter, call, is_, itemgetter, methodcaller
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.frontends.contents import LARGEST, look_of
from accumulus.frontends.kinds import StandIn, is_of
from accumulus.frontends.location import codes_in, dispatchers, is_foreign, is_library_code, names_in
from accumulus.frontends.observed import HOLDING, OUTSIDE, READERS, UNCHANGING, Observed

#: Maximum number of watched variables and entries. More take time in every call, fewer miss changes of the rest.
MOST: Final = 2000
#: Maximum number of examined objects, which takes about 10 ms. Most of them hold nothing that can change. More take
#: longer to prepare, fewer miss changes of the rest.
MOST_OBJECTS: Final = 5000
#: Maximum number of entries of a namespace up to which comparing each is faster than comparing all at once; either way
#: finds the same changes.
FEW: Final = 4
#: Maximum number of entries that are compared one by one in compiled code, in half the time of a loop. More take time
#: to compile, fewer take time in every call.
SPELLED: Final = 32
#: Maximum number of characters of a value in a message.
LONGEST_SHOWN: Final = 30
#: Names that give code access to all attributes of an object, or to attributes that it does not name.
_ALL_ATTRIBUTES: Final = frozenset({"__dict__", "asdict", "astuple", "attrgetter", "getattr", "vars"})
#: Names in code that tests if an object has an attribute.
_ASKING: Final = frozenset({"AttributeError", "getattr", "hasattr"})
#: Exceptions from reading a variable that no longer exists.
GONE: Final = (AttributeError, LookupError, ValueError, RuntimeError)
#: Special attributes that compute nothing from a value, or run only when an object is made.
_ASIDE: Final = frozenset(
    (
        *("__init__", "__new__", "__post_init__", "__init_subclass__", "__class_getitem__", "__repr__", "__str__"),
        *("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__", "__del__"),
        *("__subclasshook__", "__replace__", "__match_args__", "__annotations__", "__doc__", "__module__", "__dict__"),
        *("__weakref__", "__qualname__", "__slots__", "__hash__", "__set_name__", "__abstractmethods__"),
    )
)
_COMPARING: Final = frozenset({"__eq__", "__lt__", "__le__", "__gt__", "__ge__"})
_MAKING: Final = frozenset({"__init__", "__new__", "__post_init__"})
#: Types of containers without attributes.
_CONTAINERS: Final = frozenset((tuple, list, dict, set, frozenset, MappingProxyType))
#: Types of compiled code whose objects do not change.
_PLAIN: Final = frozenset((object, range, slice, type(...), type(NotImplemented), np.dtype))
_BUILTINS: Final = frozenset(vars(builtins))
_ABSENT: Final = object()
#: Iterators of mappings that yield the keys.
_ITERATING: Final = (dict.__iter__, collections.OrderedDict.__iter__, MappingProxyType.__iter__)


class Comparison(Enum):
    """Comparison of a saved value of a variable with its present one."""

    SAME = "the very same object"
    ENTRIES = "a container of the very same objects"
    EQUAL = "equal contents"


class Variable(NamedTuple):
    """A variable that a function can read, entries of a container or namespace, or contents."""

    # function that reads the variable, and the object that it reads from
    read: Callable[[Any], Any]
    owner: Any
    saved: Any  # the saved value
    label: str  # its name in the user's code, as in "model.gains"
    way: Comparison = Comparison.SAME  # how it is compared
    keys: tuple[Any, ...] | None = None  # keys of the entries, for labels
    is_named: bool = False  # True if these are attributes

    def label_of(self, key: Any) -> str:
        """Return the name of an entry in the user's code."""
        if self.is_named:
            return f"{self.label}.{key}" if self.label else str(key)
        return f"{self.label}[{key!r:.40}]"

    def now(self) -> Any:
        """Return the present value, entries as a tuple; `_ABSENT` or missing entries if it is gone."""
        with suppress(*GONE):
            content = self.read(self.owner)
            return tuple(content) if self.way is Comparison.ENTRIES else content
        if isinstance(self.owner, Mapping) and self.keys is not None:
            return tuple([self.owner.get(key, _ABSENT) for key in self.keys])
        return () if self.way is Comparison.ENTRIES else _ABSENT

    def is_unchanged(self) -> bool:
        """Return True if the present value equals the saved one under `way`."""
        now = self.now()
        if self.way is Comparison.EQUAL:
            return bool(now == self.saved)
        if self.way is Comparison.SAME:
            return now is self.saved
        return len(now) >= len(self.saved) and all(map(is_, now, self.saved))

    def changes(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each changed variable, and a text that adds its old and new value if these are short."""
        if self.is_unchanged():
            return
        now = self.now()
        if self.way is Comparison.ENTRIES:
            for k, (one, other) in enumerate(zip(self.saved, now, strict=False)):
                if one is not other:
                    label = self.label if self.keys is None else self.label_of(self.keys[k])
                    yield label, _change(label, one, other)
        elif self.read in (len, list):
            before, after = (len(x) if self.read is list else x for x in (self.saved, now))
            yield self.label, f"{self.label} ({before} items, now {after})" if before != after else self.label
        else:
            yield self.label, _change(self.label, self.saved, now)


class Captured:
    """Variables and objects that a function reads, with their values at the time of construction.

    >>> k = [2.0]
    >>> captured = Captured(lambda x: k[0] * x)
    >>> captured.is_current()
    True
    >>> k[0] = 3.0
    >>> captured.is_current()
    False

    Attributes:
        unwatched: texts that name the objects whose changes may be missed.
        changed: texts that name variables which are not watched, since the function changes them itself.
    """

    def __init__(self, function: object) -> None:
        self._function = function
        #: Names in all visited code; attributes with these names are watched.
        self._names: frozenset[str] = frozenset()
        #: True if the code may read all attributes of objects.
        self._everything = False
        self._observed: Observed | None = None
        self.unwatched: list[str] = []
        self.changed: list[str] = []
        self._variables: list[Variable] = []
        #: Variables with their values before the function ran, if `_variables` was saved after the run.
        self._earlier: list[Variable] = []
        self._is_same: Callable[[], bool] | None = None
        self._walk()

    def __bool__(self) -> bool:
        """Return True if any variable is watched."""
        return bool(self._variables)

    @property
    def is_same(self) -> Callable[[], bool]:
        """Return a function that is True if all variables are the very same; it may raise exceptions of `GONE`."""
        if self._is_same is None:
            self._is_same = _comparison(self._variables)
        return self._is_same

    def is_current(self) -> bool:
        """Return True if no variable has changed; an equal number or small array counts as unchanged."""
        try:
            return self.is_same() or self._is_equal()
        except GONE:
            return False

    def observe(self, observed: Observed) -> None:
        """Watch also the code that `observed` saw, and its names; `changes` then lists the changes made by the run."""
        is_known = self._codes >= observed.codes.keys() and self._seen.keys() >= set(
            map(id, observed.existing_objects())
        )
        if not is_known:
            self._observed = self._observed or Observed()
            self._observed.add(observed)
        if not is_known or self.changes():  # a cache that the first run fills, later runs find
            self._earlier, self._variables = self._variables, []
            self._walk()
        self.unwatched += [f"{name}(), which reads state outside of Python" for name in sorted(observed.outside)]

    def settle(self) -> None:
        """Stop watching variables that have changed since this was made or settled, and add them to `changed`."""
        changed = self.changes()
        self._earlier = []
        if not changed:
            return
        self.changed += changed
        before, self._variables = self._variables, []
        resized = {id(each.owner) for each in before if each.read in (len, list) and not each.is_unchanged()}
        for each in before:
            if each.way is not Comparison.ENTRIES or each.keys is None:
                self._variables += [each] if each.is_unchanged() else []
            elif each.is_unchanged() and id(each.owner) not in resized:
                self._variables.append(each)
            else:
                same = map(is_, each.now(), each.saved)
                left = list(compress(each.keys, same))
                self._add_named(each.owner, left, each.label, is_named=each.is_named, visits=False)
        self._is_same = None

    def changes(self) -> list[str]:
        """Return a text for each change since construction or `settle`: the name, the old and the new value.

        >>> calls = [0]
        >>> captured = Captured(lambda x: calls[0] * x)
        >>> calls[0] += 1
        >>> captured.changes()
        ['calls[0] (0, now 1)']
        """
        if not self._earlier and all(each.is_unchanged() for each in self._variables):
            return []
        texts = {name: text for each in self._earlier for name, text in each.changes()}
        prefixes = tuple([f"{name}[" for name in texts])  # entries of variables that are listed
        for each in self._variables:
            texts = {name: text for name, text in each.changes() if not name.startswith(prefixes)} | texts
        return list(texts.values())

    def summary(self) -> list[object]:
        """Return numbers, texts and small arrays among the variables, for a comparison with another process."""
        entries: list[tuple[str, Any]] = []
        for each in self._variables:
            if each.way is Comparison.ENTRIES:
                names = range(len(each.saved)) if each.keys is None else each.keys
                entries += [(each.label_of(key), value) for key, value in zip(names, each.saved, strict=False)]
            elif each.way is Comparison.SAME:
                entries.append((each.label, each.saved))
        held: list[object] = [
            (label, type(value).__qualname__, repr(value)) for label, value in entries if isinstance(value, UNCHANGING)
        ]
        held += [
            (each.label, each.owner.dtype.str, each.owner.shape, each.saved)
            for each in self._variables
            if each.way is Comparison.EQUAL and isinstance(each.owner, np.ndarray)
        ]
        return held if self._observed is None else [*held, _ABSENT]  # another process has not observed this run

    def resumes(self, held: Iterable[object]) -> bool:
        """Return True if all entries of a summary from another process hold here."""
        return set(held) <= set(self.summary())

    def _is_equal(self) -> bool:
        """Return True if all variables have equal values; if so, watch the new objects instead of the old ones."""
        swapped: dict[int, Any] = {}
        saved_bytes = {id(each.owner): each.saved for each in self._variables if each.read is np.ndarray.tobytes}

        def same(before: Any, now: Any) -> bool:
            if before is now:
                return True
            if isinstance(before, UNCHANGING):
                return type(before) is type(now) and repr(before) == repr(now)
            if type(before) is np.ndarray and type(now) is np.ndarray and id(before) in saved_bytes:
                swapped[id(before)] = now
                forms = [(each.dtype, each.shape) for each in (before, now)]
                return forms[0] == forms[1] and bool(saved_bytes[id(before)] == now.tobytes())
            if type(before) is tuple and type(now) is tuple:
                return len(before) == len(now) and all(map(same, before, now))
            return _original(before) is _original(now)

        variables = []
        for each in self._variables:
            owner = swapped.get(id(each.owner), each.owner) if each.way is Comparison.EQUAL else each.owner
            now = each.read(owner)
            if each.way is Comparison.ENTRIES:
                now = tuple(now)
                equal = len(now) >= len(each.saved) and all(map(same, each.saved, now))
            else:
                equal = now == each.saved if each.way is Comparison.EQUAL else same(each.saved, now)
            if not equal:
                return False
            variables.append(each._replace(owner=owner, saved=now))
        self._variables, self._is_same = variables, None
        return True

    # Finding the variables ------------------------------------------------------------------------------------

    def _walk(self) -> None:
        """Find all variables; repeat while code that was found late names attributes that were skipped before."""
        while True:
            self._variables.clear()
            self.unwatched.clear()
            self._seen: dict[int, object] = {}
            #: Identities of visited code; names that were looked up in each namespace; visited classes.
            self._codes: set[int] = set()
            self._scopes: dict[int, set[str]] = {}
            self._classes: set[tuple[int, bool]] = set()
            self._further: set[str] = set()
            #: True if the names of attributes in the code matter.
            self._by_name = False
            #: Number of entries that may still be watched.
            self._left = MOST
            function = self._function
            self._visit(function, "" if type(function) is tuple else _name_of(function))
            if self._observed is not None:
                self._visit_observed(self._observed)
            if self._further <= self._names or not self._by_name:
                break
            self._names |= self._further
            self._everything = not self._names.isdisjoint(_ALL_ATTRIBUTES)
        self._is_same = None

    def _add(self, variable: Variable, entries: int = 1) -> None:
        if self._left >= entries:
            self._variables.append(variable)
        elif self._left > -MOST:
            self.unwatched.append(f"variables beyond {MOST}, from {variable.label} on")
            self._left = -MOST
        self._left -= entries

    def _add_single(self, read: Callable[[Any], Any], owner: Any, label: str) -> None:
        """Watch one variable, and the objects that are reachable through it."""
        value = read(owner)
        self._add(Variable(read, owner, value, label))
        self._visit(value, label)

    def _add_named(
        self, owner: Any, names: Sequence[Any], label: str, *, is_named: bool = True, visits: bool = True
    ) -> None:
        """Watch named or numbered entries of a namespace or container, and the objects reachable through them."""
        if not names:
            return
        group = Variable(itemgetter(*names), owner, (), label, Comparison.ENTRIES, tuple(names), is_named)
        values = [owner[name] for name in names]
        if len(names) > FEW:
            self._add(group._replace(saved=tuple(values)), len(names))
        for name, value in zip(names, values, strict=True):
            text = group.label_of(name)
            if len(names) <= FEW:
                self._add(Variable(itemgetter(name), owner, value, text))
            if visits and not isinstance(value, UNCHANGING):
                self._visit(value, text)

    def _add_absent(self, names: Collection[str], namespace: Mapping[str, Any], label: str) -> None:
        """Watch that a namespace gets none of these names, which would hide other variables."""
        if names:
            hidden = f"{label}.{min(names)}" if label else min(names)
            self._add(Variable(namespace.keys().isdisjoint, frozenset(names), True, hidden))

    def _add_contents(self, read: Callable[[Any], Any], owner: Any, label: str) -> None:
        self._add(Variable(read, owner, read(owner), label, Comparison.EQUAL))

    def _visit(self, value: Any, label: str) -> None:
        """Watch the contents of an object and the objects that are reachable from it."""
        if isinstance(value, (*UNCHANGING, StandIn)) or id(value) in self._seen:  # traced values check themselves
            return
        if self._left < 0 or len(self._seen) == MOST_OBJECTS:
            if self._left >= 0:
                self._left = -MOST
                self.unwatched.append(f"objects beyond {MOST_OBJECTS:,}, from {label} on")
            return
        self._seen[id(value)] = value
        if isinstance(value, FunctionType):
            return self._visit_function(value, label)
        if isinstance(value, ModuleType):
            return self._visit_module(value, label)
        look = look_of(value)
        if look is not None:
            self._add_contents(look, value, label)
        if is_of(value, "pandas", "Series", "DataFrame") and look is None:
            size = f"{value.size:,} entries"
            self.unwatched.append(f"{label}, a {type(value).__name__} of {size}: changes are not seen")
        if isinstance(value, np.ndarray):
            if value.dtype.kind == "O":
                self._add_entries(attrgetter("flat"), value, label, value.size, None)
            elif value.nbytes > LARGEST:
                size = f"{value.nbytes:,} bytes"
                self.unwatched.append(f"{label}, an array of {size}: changes of only some entries are seen")
            if type(value) is not np.ndarray and hasattr(value, "__dict__"):  # the mask of a masked array
                self._add_named(vars(value), sorted(vars(value)), label)
        elif type(value) in dispatchers():
            self._visit(value.py_func, label)
        elif isinstance(value, MethodType):
            self._visit(value.__func__, label)
            self._visit(value.__self__, "self")
        elif isinstance(value, functools.partial):
            self._visit(value.func, label)
            self._visit((*value.args, *value.keywords.values()), f"{label}.args")
            self._visit(value.keywords, f"{label}.keywords")
        elif isinstance(value, property):
            self._visit(value.fget, label)
        elif isinstance(value, staticmethod | classmethod):
            self._visit(value.__func__, label)
        elif isinstance(value, contextvars.ContextVar):
            read = methodcaller("get")
            with suppress(LookupError):
                return self._add_single(read, value, label)
            self._add_single(methodcaller("get", _ABSENT), value, label)
        elif isinstance(value, weakref.ref):
            self._add_single(call, value, label)
        else:
            self._visit_container(value, label)
            if type(value) in _CONTAINERS:
                return
            if type(value).__module__.partition(".")[0] == "accumulus":  # a transformed function
                if getattr(value, "is_opaque", False):  # called, not recorded: its variables do not matter
                    return
                self._visit(getattr(value, "holder", None), label)
            self._visit_object(value, label)

    def _visit_container(self, value: Any, label: str) -> None:
        if isinstance(value, tuple):  # it cannot change, but its items can
            for index, item in enumerate(value):
                self._visit(item, f"{label}[{index}]" if label else _name_of(item))
        elif isinstance(value, list | collections.deque) and len(value) <= FEW:
            self._add(Variable(len, value, len(value), label))
            self._add_named(value, range(len(value)), label, is_named=False)
        elif isinstance(value, list | collections.deque):
            self._add_contents(len, value, label)
            self._add_entries(iter, value, label, len(value), range(len(value)))
        elif isinstance(value, dict | MappingProxyType):
            base: Any = next(base for base in type(value).__mro__ if is_foreign(base.__module__))
            if len(base.keys(value)) > MOST:
                self._add_contents(len, value, label)
            else:  # classes with their own iterator, such as sparse matrices, still have keys
                has_own_iterator = type(value).__iter__ not in _ITERATING
                self._add_contents((lambda held: list(base.keys(held))) if has_own_iterator else list, value, label)
            keys = tuple(base.keys(value))
            self._add_entries(base.values, value, label, len(keys), keys)
            self._visit(getattr(value, "default_factory", None), label)
        elif isinstance(value, set | frozenset):
            for item in list(value)[:MOST]:
                self._visit(item, f"{label}[…]")

    def _add_entries(
        self, read: Callable[[Any], Iterable[Any]], owner: Any, label: str, count: int, keys: Sequence[Any] | None
    ) -> None:
        """Watch all entries of a container, or a sample of a long one, and the objects that they lead to."""
        if count > self._left and count:
            self.unwatched.append(f"{label}, {count:,} entries: changes of only some of them are seen")
            if not isinstance(owner, list) or self._left <= 1:
                return
            some = slice(None, None, -(-count // (self._left // 2 + 1)))
            read, keys = itemgetter(some), range(count)[some]
        entries = tuple(read(owner))
        group = Variable(read, owner, entries, label, Comparison.ENTRIES, None if keys is None else tuple(keys))
        if entries:
            self._add(group, len(entries))
        for k, item in enumerate(entries):
            if not isinstance(item, UNCHANGING):
                self._visit(item, group.label_of(k if keys is None else keys[k]))

    def _visit_module(self, module: ModuleType, label: str) -> None:
        top = module.__name__.partition(".")[0]
        if top in OUTSIDE:
            self.unwatched.append(f"{label}, which reads state outside of Python")
        if is_foreign(module.__name__) and top not in HOLDING:
            return
        self._by_name = True
        named = vars(module).keys() & self._names
        if is_foreign(module.__name__):  # its functions are assumed constant
            named = {name for name in named if not _is_constant(vars(module)[name])}
        self._add_named(vars(module), sorted(named), label)

    def _visit_function(self, function: FunctionType, label: str) -> None:
        code, scope = function.__code__, function.__globals__
        if is_library_code(code, scope):
            self._visit(getattr(function, "__wrapped__", None), label)
            return
        self._add(Variable(attrgetter("__code__"), function, code, label or function.__name__))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._visit_cell(cell, name)
        self._visit(getattr(function, "__wrapped__", None), label)
        if is_foreign(str(scope.get("__name__"))):
            return
        for defaults in ("__defaults__", "__kwdefaults__"):
            if getattr(function, defaults):
                self._add_single(attrgetter(defaults), function, f"{function.__name__}.{defaults}")
        self._visit_code(code, scope)
        if function.__dict__:
            self._by_name = True
            self._add_named(vars(function), sorted(vars(function).keys() & self._names), label)

    def _visit_cell(self, cell: CellType, name: str) -> None:
        with suppress(ValueError):  # a variable that has no value yet
            self._add_single(attrgetter("cell_contents"), cell, name)

    def _visit_code(self, code: CodeType, scope: dict[str, Any]) -> None:
        names = set(names_in(code))
        self._codes.update(map(id, codes_in(code)))
        self._further |= names
        visited = self._scopes.setdefault(id(scope), set())
        names -= visited
        visited |= names
        self._add_named(scope, sorted([name for name in names if name in scope]), "")
        missing = [name for name in names if name not in scope]
        inner = {name for name in missing if name in vars(builtins)}
        self._add_absent(missing if "NameError" in names else inner, scope, "")
        self._add_named(vars(builtins), sorted(inner - _BUILTINS), "builtins")
        self.unwatched += [f"what {name}() reads" for name in sorted(inner & READERS)]
        for name in missing:  # modules that the code imports
            if name in sys.modules and not is_foreign(name):
                self._visit(sys.modules[name], name)

    def _visit_observed(self, observed: Observed) -> None:
        """Watch all functions that ran, and the objects that were passed to them."""
        functions = self._functions(observed)
        for code, scope in observed.codes.values():
            if id(code) in self._codes:
                continue
            for function in functions.get(id(code), ()):
                self._visit(function, function.__name__)
            self._visit_code(code, scope)
        for value in observed.existing_objects():
            self._visit(value, _name_of(value))

    def _functions(self, observed: Observed) -> dict[int, list[FunctionType]]:
        """Return the closures that ran and that no name leads to, by the id of their code."""
        functions: dict[int, list[FunctionType]] = {}
        codes = [code for key, (code, _) in observed.codes.items() if code.co_freevars and key not in self._codes]
        # one search for all codes, since it goes through all objects of the process
        for function in gc.get_referrers(*codes) if codes else ():
            if isinstance(function, FunctionType):
                functions.setdefault(id(function.__code__), []).append(function)
        return functions

    def _visit_object(self, value: Any, label: str) -> None:
        """Watch attributes of an object, or a class, and of its classes."""
        is_class = isinstance(value, type)
        self._by_name = True
        kind = value if is_class else type(value)
        if is_class and type(value) is not type:
            self._visit_classes(type(value), set())
        lower = self._visit_classes(kind, _MAKING if is_class else set())
        lower |= self._missing
        if is_class:
            return
        if is_foreign(kind.__module__):
            self._visit(getattr(value, "__wrapped__", None), label)
        users = [base for base in kind.__mro__ if not is_foreign(base.__module__)]
        attributes = None
        with suppress(AttributeError, TypeError):
            attributes = object.__getattribute__(value, "__dict__") if users else vars(value)
        if isinstance(attributes, dict):
            is_users = bool(users) or kind is SimpleNamespace
            whole = (self._everything and is_users) or any(map(_is_holding, kind.__mro__))
            names = set(attributes) if whole else attributes.keys() & self._names
            if users and kind.__getattribute__ is object.__getattribute__:
                self._add(Variable(attrgetter("__class__"), value, kind, f"{label}.__class__"))
                self._add(Variable(attrgetter("__dict__"), value, attributes, f"{label}.__dict__"))
            if is_users:
                self._add_absent(lower - names, attributes, label)
            elif not whole and not isinstance(value, BuiltinFunctionType):
                # such as coefficients of splines, and functions that a library's object wraps
                names |= {name for name, held in attributes.items() if _may_change(held)}
            if whole:
                self._add_contents(len, attributes, label)
            self._add_named(attributes, sorted(names), label)
        slots = {
            name
            for base in users
            for name, held in vars(base).items()
            if isinstance(held, MemberDescriptorType) and (self._everything or name in self._names)
        }
        for name in sorted(slots):
            with suppress(AttributeError):
                self._add_single(attrgetter(name), value, f"{label}.{name}")
        if attributes is None and not slots:
            self._visit_opaque(value, label)

    def _visit_classes(self, kind: type, further: Collection[str]) -> set[str]:
        """Watch attributes of a user's class and its base classes; return the names of these attributes."""
        lower = set(self._missing)
        for base in reversed(kind.__mro__):
            if is_foreign(base.__module__):
                continue
            held = vars(base)
            names = {name for name in held if name in self._names or name in further or _is_special(name, held[name])}
            if (id(base), bool(further)) not in self._classes:
                self._classes.add((id(base), bool(further)))
                self._add(Variable(attrgetter("__mro__"), base, base.__mro__, f"{base.__name__}.__mro__"))
                self._add_absent(lower - names, held, base.__name__)
                self._add_named(held, sorted(names), base.__name__)
            lower |= names
        return lower

    @property
    def _missing(self) -> frozenset[str]:
        """Names of attributes that the code may look up on objects which lack them."""
        return frozenset() if self._names.isdisjoint(_ASKING) else self._names

    def _visit_opaque(self, value: Any, label: str) -> None:
        """Watch the objects that a compiled object refers to; note if it may hold more."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, type):
            return
        if isinstance(value, BuiltinFunctionType):  # a method of a container, as `table.get`
            return None if isinstance(value.__self__, type | ModuleType) else self._visit(value.__self__, label)
        if isinstance(value, attrgetter | methodcaller):
            self._further |= {name for text in value.__reduce__()[1] for name in str(text).split(".")}
        for held in gc.get_referents(value):
            if not isinstance(held, type | ModuleType):
                self._visit(held, label)
        is_unknown = not is_foreign(kind.__module__) and not any("__slots__" in vars(base) for base in kind.__mro__)
        stateful = (Iterator, io.IOBase, weakref.ProxyType, np.random.Generator, np.random.RandomState)
        if is_unknown or isinstance(value, stateful) or kind.__module__.partition(".")[0] in OUTSIDE:
            self.unwatched.append(f"{label}, a {kind.__qualname__}: changes within it")


def _comparison(variables: Iterable[Variable]) -> Callable[[], bool]:
    """Return a function that returns True if all variables have their saved values, and may raise `GONE`.

    It is compiled from one expression: a loop over readers would take five times as long, in every call.
    """
    scope: dict[str, Any] = {"__name__": __name__, "all": all, "map": map, "is_": is_}
    terms = []
    for k, each in enumerate(sorted(variables, key=lambda each: each.way is not Comparison.SAME)):
        scope |= {f"read{k}": each.read, f"owner{k}": each.owner, f"saved{k}": each.saved}
        kind, now = type(each.read), f"read{k}(owner{k})"
        names: Any = each.read.__reduce__()[1] if kind in (attrgetter, itemgetter) else ()
        if kind is itemgetter and (each.way is Comparison.SAME or 1 < len(names) <= SPELLED):
            held = (each.saved,) if each.way is Comparison.SAME else each.saved
            for j, (name, value) in enumerate(zip(names, held, strict=True)):
                scope |= {f"key{k}_{j}": name, f"held{k}_{j}": value}
                terms.append(f"owner{k}[key{k}_{j}] is held{k}_{j}")
            continue
        if kind is attrgetter and len(names) == 1 and names[0].isidentifier() and not iskeyword(names[0]):
            now = f"owner{k}.{names[0]}"
        elif each.read is np.ndarray.tobytes and type(each.owner) is np.ndarray:
            now = f"owner{k}.tobytes()"
        if each.way is Comparison.SAME:
            terms.append(f"{now} is saved{k}")
        elif each.way is Comparison.EQUAL:
            terms.append(f"{now} == saved{k}")
        else:
            terms.append(f"all(map(is_, {now}, saved{k}))")
    return eval(f"lambda: {' and '.join(terms) or True}", scope)  # type: ignore[no-any-return]


def _change(label: str, before: Any, now: Any) -> str:
    """Return a variable's name, with its old and new value if these are short."""
    texts = ["gone" if value is _ABSENT else _shown(value) for value in (before, now)]
    return label if "" in texts or texts[0] == texts[1] else f"{label} ({texts[0]}, now {texts[1]})"


def _original(value: Any) -> Any:
    """Return the replacement of a value, so that a value and its stand-in compare as one object."""
    from accumulus.frontends.numpy.patching import replaced

    return replaced(value)


def _name_of(value: Any) -> str:
    """Return the name of a function or object for messages: "self" for other callables, else the type's name."""
    return str(getattr(value, "__name__", "self" if callable(value) else type(value).__name__))


def _shown(value: Any) -> str:
    """Return the text of a number, a truth value or a short string; an empty text for other values."""
    text = repr(value) if isinstance(value, UNCHANGING) else ""
    return text if len(text) <= LONGEST_SHOWN else ""


def is_changeable(argument: object) -> bool:
    """Return True if a constant argument is an object whose attributes may change while its identity stays.

    Arrays are compared by their contents and do not count.

    >>> is_changeable(np.ones(2)), is_changeable(2.0), is_changeable(functools.partial(max, 1.0))
    (False, False, True)
    """
    return not isinstance(argument, (*UNCHANGING, np.ndarray))


def _may_change(value: Any) -> bool:
    """Return True if an attribute of a library's object is an array or one of the user's functions."""
    is_function = isinstance(value, FunctionType | MethodType) and not is_foreign(str(value.__module__))
    return is_function or isinstance(value, np.ndarray)


def _is_constant(value: Any) -> bool:
    """Return True if an attribute of a library's module is assumed constant."""
    return callable(value) or isinstance(value, (*UNCHANGING, ModuleType))


@functools.lru_cache(maxsize=1024)
def _is_holding(kind: type) -> bool:
    """Return True if a class of the standard library, written in Python, keeps its objects' content in attributes."""
    holds = any(isinstance(held, FunctionType) for held in vars(kind).values())
    return holds and kind.__module__.partition(".")[0] in HOLDING


def _is_special(name: str, held: Any) -> bool:
    """Return True if an attribute of a class is a special method that computes something from an object."""
    if not (name.startswith("__") and name.endswith("__")) or name in _ASIDE:
        return False
    is_made = name in _COMPARING and isinstance(held, FunctionType) and held.__code__.co_filename == "<string>"
    return not is_made  # comparisons that `dataclass` generates name all fields
