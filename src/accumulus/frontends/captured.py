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
import sys
import threading
import weakref
from abc import ABCMeta, get_cache_token
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.util import resolve_name
from itertools import accumulate, compress
from operator import attrgetter, call, is_, itemgetter, methodcaller
from pathlib import Path
from time import perf_counter, sleep
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
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import has_ended
from accumulus.frontends.contents import (
    LARGEST,
    PLAIN,
    READ,
    buffer_of,
    has_pointers,
    is_compiled,
    is_holding,
    is_of_value,
    is_stateful,
    is_unchanging,
    look_of,
    may_change,
)
from accumulus.frontends.kinds import StandIn, is_of
from accumulus.frontends.location import (
    LIBRARIES,
    codes_in,
    dispatchers,
    imports_in,
    is_foreign,
    is_library_code,
    names_in,
    package_of,
)
from accumulus.frontends.memory import comparison_by_words, keys_of_dict
from accumulus.frontends.observed import ALL_ATTRIBUTES, HOLDING, OUTSIDE, READERS, UNCHANGING, Observed
from accumulus.frontends.variables import ABSENT, GONE, Comparison, Variable

#: Maximum number of watched variables and entries. More take time in every call, fewer miss changes of the rest.
MOST: Final = 2000
#: Maximum number of examined objects, which takes about 10 ms. Most of them hold nothing that can change. More take
#: longer to prepare, fewer miss changes of the rest.
MOST_OBJECTS: Final = 5000
#: Maximum number of entries of a namespace up to which comparing each is faster than comparing all at once; either way
#: finds the same changes.
FEW: Final = 4
#: Number of further runs that show if a function repeats a change, and number of looks between two runs, over as long
#: as a run takes. More take longer in a process with threads, fewer take changes by another thread for the function's.
RUNS: Final = 4
LOOKS: Final = 8
#: Shortest time between two runs, in seconds: a longer one delays first calls, a shorter one leaves other threads no
#: time.
SHORTEST_PAUSE: Final = 2e-3
#: Number of searches for variables that other threads interrupt after which the error is raised: more take longer
#: where containers change all the time, fewer raise where they change now and then.
MOST_INTERRUPTED: Final = 20
#: Names in code that tests if an object has an attribute.
_ASKING: Final = frozenset({"AttributeError", "getattr", "hasattr"})
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
#: Names of attributes and methods by which code reaches what it does not name.
_NAMESPACES: Final = frozenset({"__globals__", "__subclasses__", "f_globals", "f_locals"})
#: Functions that import a module whose name may be computed; names of modules in their code are watched.
_IMPORTERS: Final = frozenset({"__import__", "import_module", "modules"})
_BUILTINS: Final = frozenset(vars(builtins))
#: Iterators of mappings that yield the keys.
_ITERATING: Final = (dict.__iter__, collections.OrderedDict.__iter__, MappingProxyType.__iter__)


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
        #: True if variables differ between threads or contexts.
        self.is_by_thread = False
        #: How often other threads had run when the recording began, and True if some have run since.
        self._switches: dict[int, str] | None = {}
        self._is_shared = False
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
            self._is_same = comparison_by_words(self._variables)
        return self._is_same

    def is_current(self) -> bool:
        """Return True if no variable has changed; an equal number or small array counts as unchanged."""
        try:
            return self.is_same() or self._is_equal()
        except GONE:
            return False

    def begin(self) -> None:
        """Begin a recording, after which `changes` lists the changes from now on."""
        self._earlier, self._switches = [], switches_of_threads()
        # values were saved before
        self._is_shared = not all(each.is_unchanged() for each in self._variables)

    @property
    def is_shared(self) -> bool:
        """Return True if other threads may have changed variables since the recording began."""
        if not self._is_shared:
            self._is_shared = self._switches is None or switches_of_threads() != self._switches
        return self._is_shared

    def put_back(self) -> None:
        """Take traced values that a recording has left out of variables; these have their values before it again."""

        def is_left(value: Any) -> bool:  # values of a recording around this one stay
            if isinstance(value, StandIn):
                return has_ended(getattr(value, "tape", None))
            return type(value) is tuple and any(map(is_left, value))

        changed = [each for each in self._variables if not each.is_unchanged()]
        for each in changed:
            each.put_back(lambda value: is_left(tuple(value) if type(value) is list else value))
        # entries and attributes that were not there before; a list that was there may have got some, and stays
        held = [each.owner for each in changed]
        held += [each.saved for each in self._variables if each.label.endswith(".__dict__")] if changed else []
        for owner in {id(each): each for each in held if isinstance(each, dict)}.values():
            for key in [key for key, value in owner.items() if is_left(value)]:
                del owner[key]

    def renew(self) -> bool:
        """Save the present values if other threads may have changed some; return True if values were saved."""
        if not self.is_shared or not self.changes():
            return False
        self._earlier = self._earlier or self._variables
        self._variables = []
        self._walk()
        return True

    def observe(self, observed: Observed) -> bool:
        """Watch also the code that `observed` saw, and its names; `changes` then lists the changes made by the run.

        Returns:
            True if other threads may have changed a variable after the run read it: values were saved after the run.
        """
        is_known = (
            self._codes >= observed.codes.keys()
            and self._names | self._further >= observed.names
            and self._seen.keys() >= set(map(id, observed.existing_objects()))
        )
        if not is_known:
            self._observed = self._observed or Observed()
            self._observed.add(observed)
        is_new = not is_known or bool(self.changes())
        if is_new:  # a cache that the first run fills, later runs find
            self._earlier, self._variables = self._earlier or self._variables, []
            self._walk()
        self.unwatched += [f"{name}(), which reads state outside of Python" for name in sorted(observed.outside)]
        return is_new and self.is_shared

    def settle(self, run: Callable[[], object] | None, *, ends: bool = True) -> bool:
        """Stop watching variables that the function has changed while it was recorded, and add them to `changed`.

        Args:
            run: runs the function on numbers, each time on others; None if it may not run.
            ends: if False, the caller can record the function again.

        Returns:
            False if another thread has changed variables, and the function has to be recorded again: now, or, if this
            `ends` the attempts, in the next call, since `is_current` is False from now on.
        """
        changed = self.changes()
        if changed and self.is_shared and self._has_foreign_changes(run):
            self._walk()
            if ends:
                self._variables.append(Variable(id, self, None, "a variable that another thread changes"))
            return False
        self._earlier = []
        if not changed:
            return True
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
        return True

    def _has_foreign_changes(self, run: Callable[[], object] | None) -> bool:
        """Return True if a variable has changed that the function does not change in each run, or not it alone.

        If the function may not run, its variables are looked at for a while.
        """
        variables = [each for each in self._variables if not each.is_unchanged()]
        own = {(k, position) for k, each in enumerate(variables) for position in each.since(each.saved)}

        def moved(before: list[Any]) -> set[tuple[int, int]]:
            pairs = enumerate(zip(variables, before, strict=True))
            return {(k, position) for k, (each, value) in pairs for position in each.since(value)}

        for _ in range(RUNS if own else 0):
            before, start = [each.now() for each in variables], perf_counter()
            if run is not None:
                with suppress(Exception):
                    run()
                if not own <= moved(before):
                    return True
            pause = max(perf_counter() - start, SHORTEST_PAUSE)
            for _ in range(LOOKS):
                before = [each.now() for each in variables]
                sleep(pause / LOOKS)
                if own & moved(before):
                    return True
        return False

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
        return held if self._observed is None else [*held, ABSENT]  # another process has not observed this run

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
            if is_unchanging(before):
                return type(before) is type(now) and repr(before) == repr(now)
            if type(before) is np.ndarray and type(now) is np.ndarray and id(before) in saved_bytes:
                swapped[id(before)] = now
                forms = [(each.dtype, each.shape) for each in (before, now)]
                return forms[0] == forms[1] and bool(saved_bytes[id(before)] == now.tobytes())
            if type(before) is tuple and type(now) is tuple:
                return len(before) == len(now) and all(map(same, before, now))
            return _original(before) is _original(now)

        variables, compared = [], self._variables
        for each in compared:
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
        if self._variables is compared and len(compared) == len(variables):  # else another thread adds some
            self._variables, self._is_same = variables, None
        return True

    # Finding the variables ------------------------------------------------------------------------------------

    def _walk(self) -> None:
        """Find all variables; repeat while code that was found late names attributes that were skipped before."""
        interrupted = 0
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
            try:
                self._visit(function, "" if type(function) is tuple else _name_of(function))
                if self._observed is not None:
                    self._visit_observed(self._observed)
            except (LookupError, RuntimeError):  # another thread has changed a container meanwhile
                interrupted += 1
                if interrupted == MOST_INTERRUPTED or not has_threads():
                    raise
                continue
            if self._further <= self._names or not self._by_name:
                break
            self._names |= self._further
            self._everything = not self._names.isdisjoint(ALL_ATTRIBUTES)
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
            if visits and not is_unchanging(value):
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
        if is_unchanging(value) or isinstance(value, StandIn) or id(value) in self._seen:
            return  # traced values check themselves
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
            elif value.dtype.hasobject:
                self.unwatched.append(f"{label}, an array of objects in fields: changes within them")
            elif value.nbytes > LARGEST:
                size = f"{value.nbytes:,} bytes"
                self.unwatched.append(f"{label}, an array of {size}: changes of only some entries are seen")
            if type(value) is not np.ndarray and hasattr(value, "__dict__"):  # the mask of a masked array
                self._add_named(vars(value), sorted(vars(value)), label)
                if not is_foreign(package_of(type(value))):
                    self._visit_object(value, label)
        elif type(value) in dispatchers():
            self._visit(value.py_func, label)
        elif isinstance(value, CellType):
            self._visit_cell(value, f"{label}.cell_contents")
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
        elif isinstance(value, threading.local):
            self._visit_local(value, label)
        elif isinstance(value, contextvars.ContextVar):
            self.is_by_thread = True
            read = methodcaller("get")
            with suppress(LookupError):
                return self._add_single(read, value, label)
            self._add_single(methodcaller("get", ABSENT), value, label)
        elif isinstance(value, weakref.ref):
            self._add_single(call, value, label)
        else:
            self._visit_container(value, label)
            if type(value) in _CONTAINERS:
                return
            if package_of(type(value)) == "accumulus":  # a transformed function
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
            base: Any = next(base for base in type(value).__mro__ if is_foreign(package_of(base)))
            if len(base.keys(value)) > MOST:
                self._add_contents(len, value, label)
            else:  # classes with their own iterator, such as sparse matrices, still have keys
                has_own_iterator = type(value).__iter__ not in _ITERATING
                keys_of = keys_of_dict if base is dict else lambda held: list(base.keys(held))
                self._add_contents(keys_of if has_own_iterator else list, value, label)
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
            if not is_unchanging(item):
                self._visit(item, group.label_of(k if keys is None else keys[k]))

    def _visit_module(self, module: ModuleType, label: str) -> None:
        top = module.__name__.partition(".")[0]
        if top in OUTSIDE:
            self.unwatched.append(f"{label}, which reads state outside of Python")
        if top in LIBRARIES or top == "accumulus":
            return
        self._by_name = True
        contents = vars(module)
        named = contents.keys() & self._names
        if top in HOLDING:  # its functions are assumed constant
            named = {name for name in named if not _is_constant(contents[name])}
        elif is_foreign(top):
            named = {name for name in named if type(contents[name]) in _CONTAINERS}
        elif self._everything:
            named |= self._reached(contents)
            self._add_contents(len, contents, label)
        if contents.get("modules") is sys.modules and "modules" in named:
            named.remove("modules")
            self.unwatched.append(f"{label}.modules, whose names may be computed")
        self._add_named(contents, sorted(named), label)

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
        self.unwatched += [f"what {name} holds" for name in sorted(names & _NAMESPACES)]
        self._visit_imports(code, scope, [] if names_in(code).isdisjoint(_IMPORTERS) else missing)
        for name in missing:  # modules that the code imports
            if name in sys.modules and not is_foreign(name):
                self._visit(sys.modules[name], name)

    def _visit_imports(self, code: CodeType, scope: dict[str, Any], further: Iterable[str]) -> None:
        """Watch that the modules which code imports, and `further` ones if they exist, stay the same."""
        names = {name for name in further if name in sys.modules}
        for name in imports_in(code):
            with suppress(ImportError, TypeError):  # relative to no package
                absolute = resolve_name(name, scope.get("__package__"))
                names.update(accumulate(absolute.split("."), "{}.{}".format))
        visited = self._scopes.setdefault(id(sys.modules), set())
        names = {name for name in names - visited if not is_foreign(name)}
        visited |= names
        present = sorted(names & sys.modules.keys())
        self._add_named(sys.modules, present, "sys.modules", is_named=False, visits=False)
        for name in present:
            self._visit(sys.modules[name], name)
        self._add_absent(names.difference(present), sys.modules, "sys.modules")

    def _visit_observed(self, observed: Observed) -> None:
        """Watch all functions that ran, and the objects that were passed to them."""
        functions = self._functions(observed)
        for code, scope in observed.codes.values():
            if id(code) in self._codes:
                continue
            for function in functions.get(id(code), ()):
                self._visit(function, function.__name__)
            self._visit_code(code, scope)
        self._further |= observed.names
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

    def _visit_local(self, value: threading.local, label: str) -> None:
        """Watch attributes of an object that has others in each thread; they are read in the thread of each call."""
        self.is_by_thread = self._by_name = True
        self._visit_classes(type(value), set())
        names = None if self._everything else self._names

        def present(held: threading.local) -> set[str]:
            return set(vars(held)) if names is None else vars(held).keys() & names

        self._add_contents(present, value, label)
        for name in sorted(present(value)):
            self._add_single(attrgetter(name), value, f"{label}.{name}")

    def _visit_object(self, value: Any, label: str) -> None:
        """Watch attributes of an object, or a class, and of its classes."""
        is_class = isinstance(value, type)
        self._by_name = True
        kind: type = value if is_class else type(value)
        if is_class and type(value) is not type:
            self._visit_classes(type(value), set())
        if is_class and is_foreign(package_of(kind)):
            if package_of(kind) in OUTSIDE:
                self.unwatched.append(f"{label}, which reads state outside of Python")
        elif isinstance(value, ABCMeta):  # classes that are registered later
            self._add(Variable(call, get_cache_token, get_cache_token(), f"{label}.register", Comparison.EQUAL))
        lower = self._visit_classes(kind, _MAKING if is_class else set())
        lower |= self._missing
        if is_class:
            return
        if is_foreign(package_of(kind)):
            self._visit(getattr(value, "__wrapped__", None), label)
        users = [base for base in kind.__mro__ if not is_foreign(package_of(base))]
        attributes = None
        with suppress(AttributeError, TypeError):
            attributes = object.__getattribute__(value, "__dict__") if users else vars(value)
        if isinstance(attributes, dict):
            is_users = bool(users) or kind is SimpleNamespace
            of_library = {package_of(base) for base in kind.__mro__ if is_holding(base)}
            whole = (self._everything and is_users) or not HOLDING.isdisjoint(of_library)
            names = set(attributes) if whole else attributes.keys() & self._names
            if users and getattr(kind, "__getattribute__", None) is object.__getattribute__:
                self._add(Variable(attrgetter("__class__"), value, kind, f"{label}.__class__"))
                self._add(Variable(attrgetter("__dict__"), value, attributes, f"{label}.__dict__"))
            if is_users:
                self._add_absent(lower - names, attributes, label)
            elif not whole and not isinstance(value, BuiltinFunctionType):
                # such as coefficients of splines, and functions that a library's object wraps
                names |= {name for name, held in attributes.items() if may_change(held)}
            if whole:
                self._add_contents(len, attributes, label)
            elif of_library and not callable(value) and not is_of_value(kind):
                # methods of the library read other attributes; what these refer to is not watched
                self._add_named(attributes, sorted(attributes.keys() - names), label, visits=False)
                held = [type(attributes[name]) for name in attributes.keys() - names]
                if not {list, dict, set, collections.deque}.isdisjoint(held) and "logging" not in of_library:
                    self.unwatched.append(f"{label}, a {kind.__qualname__}: changes within it")
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
        if (attributes is None and not slots) or (is_compiled(kind) and not isinstance(value, READ)):
            self._visit_opaque(value, label, attributes)

    def _visit_classes(self, kind: type, further: Collection[str]) -> set[str]:
        """Watch attributes of a user's class and its base classes; return the names of these attributes."""
        lower = set(self._missing)
        for base in reversed(kind.__mro__):
            if is_foreign(package_of(base)):
                continue
            held = vars(base)
            names = {name for name in held if name in self._names or name in further or _is_special(name, held[name])}
            if self._everything:
                names |= self._reached(held)
            if (id(base), bool(further)) not in self._classes:
                self._classes.add((id(base), bool(further)))
                self._add(Variable(attrgetter("__mro__"), base, base.__mro__, f"{base.__name__}.__mro__"))
                self._add_absent(lower - names, held, base.__name__)
                self._add_named(held, sorted(names), base.__name__)
                if self._everything:
                    self._add_contents(len, held, base.__name__)
            lower |= names
        return lower

    def _reached(self, namespace: Mapping[str, Any]) -> set[str]:
        """Return the names of a class or module that code may compute: data, and functions that ran."""
        ran = frozenset() if self._observed is None else self._observed.codes.keys()
        names = set()
        for name, held in list(namespace.items()):
            is_wrapper = isinstance(held, staticmethod | classmethod)
            function = held.fget if isinstance(held, property) else held.__func__ if is_wrapper else held
            is_data = not callable(held) and not hasattr(type(held), "__get__") and not name.startswith("__")
            if is_data or (isinstance(function, FunctionType) and id(function.__code__) in ran):
                names.add(name)
        return names

    @property
    def _missing(self) -> frozenset[str]:
        """Names of attributes that the code may look up on objects which lack them."""
        return frozenset() if self._names.isdisjoint(_ASKING) else self._names

    def _visit_opaque(self, value: Any, label: str, attributes: object) -> None:
        """Watch the objects that a compiled object refers to, except its attributes; note if it may hold more."""
        kind = type(value)
        if kind in PLAIN or isinstance(value, type):
            return
        if isinstance(value, BuiltinFunctionType):  # a method of a container, as `table.get`
            return None if isinstance(value.__self__, type | ModuleType) else self._visit(value.__self__, label)
        if isinstance(value, attrgetter | methodcaller):
            self._further |= {name for text in value.__reduce__()[1] for name in str(text).split(".")}
        for held in gc.get_referents(value):
            if not isinstance(held, type | ModuleType) and held is not attributes:
                self._visit(held, label)
        buffer = buffer_of(value)
        if buffer is not None and buffer.nbytes > LARGEST:
            self.unwatched.append(f"{label}, a buffer of {buffer.nbytes:,} bytes: changes of only some are seen")
        if has_pointers(buffer) if buffer is not None else is_stateful(value):
            self.unwatched.append(f"{label}, a {kind.__qualname__}: changes within it")


def _original(value: Any) -> Any:
    """Return the replacement of a value, so that a value and its stand-in compare as one object."""
    from accumulus.frontends.numpy.patching import replaced

    return replaced(value)


def _name_of(value: Any) -> str:
    """Return the name of a function or object for messages: "self" for other callables, else the type's name."""
    return str(getattr(value, "__name__", "self" if callable(value) else type(value).__name__))


def has_threads() -> bool:
    """Return True if other threads run Python code, apart from this package's, which wait for batches."""
    own = {each.ident for each in threading.enumerate() if each.name.startswith("accumulus")}
    return len(sys._current_frames().keys() - own) > 1


def switches_of_threads() -> dict[int, str] | None:
    """Return how often each other thread has begun or ceased to run; None if one is running, or this is not known.

    A thread that waits all the time, as most do in a notebook, changes no variable.
    """
    this, threads = threading.get_ident(), threading.enumerate()
    if not sys._current_frames().keys() <= {each.ident for each in threads}:
        return None
    switches: dict[int, str] = {}
    for each in threads:
        if each.ident != this and not each.name.startswith("accumulus"):
            try:
                status = Path(f"/proc/self/task/{each.native_id}/status").read_text()
            except OSError:
                return None
            if "\nState:\tR" in status or "ctxt_switches" not in status:
                return None
            switches[each.ident or 0] = status[status.index("voluntary_ctxt_switches") :]
    return switches


def is_changeable(argument: object) -> bool:
    """Return True if a constant argument is an object whose attributes may change while its identity stays.

    Arrays are compared by their contents and do not count.

    >>> is_changeable(np.ones(2)), is_changeable(2.0), is_changeable(functools.partial(max, 1.0))
    (False, False, True)
    """
    return not isinstance(argument, (*UNCHANGING, np.ndarray))


def _is_constant(value: Any) -> bool:
    """Return True if an attribute of a library's module is assumed constant."""
    return callable(value) or isinstance(value, (*UNCHANGING, ModuleType))


def _is_special(name: str, held: Any) -> bool:
    """Return True if an attribute of a class is a special method that computes something from an object."""
    if not (name.startswith("__") and name.endswith("__")) or name in _ASIDE:
        return False
    is_made = name in _COMPARING and isinstance(held, FunctionType) and held.__code__.co_filename == "<string>"
    return not is_made  # comparisons that `dataclass` generates name all fields
