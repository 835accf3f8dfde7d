"""Patching of the user's modules: names of NumPy's functions refer to replacements while a function is recorded.

NumPy itself is not changed, because compiled extensions call ``numpy.empty`` and rely on the result. Instead, names of
NumPy in user code are rebound:

* globals of loaded Python modules that hold NumPy or one of its functions, under any name (``import numpy as np``,
  ``from numpy import zeros as make``), except in the standard library and the array libraries;
* closed-over variables, defaults and the bound object of the recorded function;
* imports that the function itself runs.

Everything is restored when the last recording ends, also after an error. In threads that do not record, replacements
call the originals.

Names are found by a scan of all globals of the user's modules. The result is cached while all globals hold the same
objects; for installed packages, which may be hundreds, while no global is added.

A name that is not found (``self.zeros`` of some object that the function reaches) makes plain arrays. Assigning traced
values to these raises an error with advice.

Functions compiled by Numba run as Python while a function is recorded.

Known gap: another thread cannot compile functions of the same modules by Numba at that time.
"""

from __future__ import annotations

import builtins
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from types import BuiltinMethodType, CellType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from accumulus.forks import held_in_forks
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.location import cells, dispatchers, is_foreign, is_library_code, names_in, package_of
from accumulus.frontends.numpy.calling import BUILTINS
from accumulus.frontends.numpy.journal import STATE, RecordedAnewError
from accumulus.frontends.numpy.replacements import (
    METHODS,
    REPLACEMENTS,
    bound,
    newly_loaded,
    replacement_of,
    stand_in_types,
)
from accumulus.frontends.numpy.table import PROTOCOLS
from accumulus.frontends.source.conversions import functions_like, install, is_convertible

_LOCK: Final = threading.RLock()
#: Functions that restore the originals, in the order of the replacements. Each is added before its replacement, and may
#: run twice, so that Ctrl-C at any moment leaves nothing replaced.
_restorers: list[Callable[[], None]] = []
#: Recordings in progress: the thread of each, and an object of its own.
_recordings: set[tuple[int, object]] = set()


class _Name(NamedTuple):
    """A global of a module that is replaced; the values are None if they are looked up at each recording."""

    name: str
    original: Any = None
    replacement: Any = None


class _Module:
    """A loaded module that may be the user's, with cached names of its globals that are replaced."""

    __slots__ = ("is_installed", "module", "names", "namespace", "states")

    def __init__(self, module: ModuleType) -> None:
        self.module, self.namespace = module, vars(module)
        #: True if the module belongs to an installed package.
        self.is_installed = any(folder in str(self.namespace.get("__file__")) for folder in _PACKAGES)
        #: Number of its globals, or hash of the objects that these hold, for which the names were found; and the names.
        #: The second entries are for a module in which nothing is replaced yet.
        self.states: list[int | None] = [None, None]
        self.names: list[tuple[_Name, ...]] = [(), ()]


_PACKAGES: Final = ("site-packages", "dist-packages")


def replaced(value: Any) -> Any:
    """Return the replacement of a value; the value itself if it has none."""
    original, replacement = REPLACEMENTS.get(id(value), (None, None))
    if original is value and original is not None:
        return replacement
    if type(value) in dispatchers():
        return _interpreted(value)
    if type(value) is MethodType:
        return bound(value)
    if type(value) is BuiltinMethodType or type(value) in stand_in_types():
        return replacement_of(value)
    return value


@functools.lru_cache(maxsize=256)
def _interpreted(dispatcher: Any) -> Callable[..., Any]:
    """Return a function that runs the Python source of `dispatcher` in recording threads, else compiled code."""

    @functools.wraps(dispatcher.py_func)
    def function(*arguments: Any, **keywords: Any) -> Any:
        return (dispatcher if ACTIVE.tape is None else dispatcher.py_func)(*arguments, **keywords)

    vars(function)["py_func"] = dispatcher.py_func
    return function


@contextmanager
def patched(function: object) -> Iterator[None]:
    """Replace NumPy in the user's modules and in the objects that `function` holds, within a ``with`` block."""
    recording = threading.get_ident(), object()
    try:
        with _LOCK:
            _enter(recording, function)
        yield
    finally:
        try:
            _leave(recording)
        finally:  # if Ctrl-C has ended the first call
            _leave(recording)


def _enter(recording: tuple[int, object], function: object) -> None:
    _recordings.add(recording)
    is_first = len(_recordings) == 1
    if is_first:
        _replace_import()
    _borrow()
    if is_first or ACTIVE.tape is None or _listed.is_outdated():  # otherwise all modules are patched already
        _replace_in_modules(untouched=is_first)
    for holder in list(_reachable(function)):
        if isinstance(holder, FunctionType):
            _replace_in(holder.__globals__)
            _replace_defaults(holder)
            for cell in cells(holder):
                _replace_cell(cell)
        else:
            _replace_in(vars(holder))


class _Listed:
    """List of the loaded modules that may be the user's, updated when modules are loaded."""

    def __init__(self) -> None:
        self._count, self._last = 0, object()
        self._modules: list[_Module] = []
        self._rules: tuple[int, frozenset[type]] = (0, frozenset())

    def is_outdated(self) -> bool:
        """Return True if modules have been loaded or removed."""
        return len(sys.modules) != self._count or next(reversed(sys.modules.values())) is not self._last

    def users(self) -> list[_Module]:
        """Return the modules, without cached names if there are new replacements.

        `is_outdated` relies on newly loaded modules being last in `sys.modules`, also if they were removed before.
        """
        rules = len(REPLACEMENTS), dispatchers() | stand_in_types()
        if rules != self._rules:
            self._rules, self._count = rules, 0
            self._modules.clear()
        if self.is_outdated():
            modules = {id(each.module): each for each in self._modules}
            self._count, self._last = len(sys.modules), next(reversed(sys.modules.values()))
            self._modules = [
                modules.get(id(module)) or _Module(module)
                for name, module in list(sys.modules.items())
                if _is_users(name, module)
            ]
        return self._modules


_listed: Final = _Listed()


def _replace_in_modules(*, untouched: bool = False) -> None:
    """Replace NumPy in all modules; `untouched` is True if nothing has been replaced in them yet."""
    for module in _listed.users():
        namespace = module.namespace
        state = len(namespace) if module.is_installed else hash(tuple(map(id, list(namespace.values()))))
        if module.states[untouched] == state:
            for name, original, replacement in module.names[untouched]:
                if original is not None and namespace.get(name) is original:
                    _rebind(namespace, name, original, replacement)
                else:
                    _replace_name(namespace, name)
        elif not _is_loading(namespace):
            names = _replace_in(namespace)
            if untouched or not module.is_installed:
                module.states[untouched], module.names[untouched] = state, names


def _borrow() -> None:
    """Add replacements for SciPy modules that have been loaded, and replace methods of their classes."""
    for module, rows in newly_loaded():
        REPLACEMENTS[id(module)] = (module, _lazy_stand_in(module))
        REPLACEMENTS.update((id(row.original), row) for row in rows)
    for owner, name, replacement in METHODS:
        namespace = vars(owner)
        if namespace.get(name) is not replacement:
            _restorers.append(
                functools.partial(setattr, owner, name, namespace[name])
                if name in namespace
                else functools.partial(_remove, owner, name)
            )
            setattr(owner, name, replacement)


def _remove(owner: type, name: str) -> None:
    if name in vars(owner):
        delattr(owner, name)


def _lazy_stand_in(module: ModuleType) -> ModuleType:
    """Return a copy of `module` with replaced functions, which are looked up on access."""
    stand_in = ModuleType(module.__name__, module.__doc__)

    def attribute(name: str) -> Any:
        value = getattr(module, name)
        if isinstance(value, ModuleType) and ACTIVE.tape is not None:
            with _LOCK:
                _borrow()
            return replaced(value)
        vars(stand_in)[name] = replacement = replaced(value)  # later accesses find it without this function
        return replacement

    vars(stand_in)["__getattr__"] = attribute
    return stand_in


def _leave(recording: tuple[int, object]) -> None:
    with _LOCK:
        _recordings.discard(recording)
        while _restorers and not _recordings:
            _restorers[-1]()
            _restorers.pop()


def _forget_other_threads() -> None:
    """Undo the replacements of threads that do not exist in a forked child."""
    for recording in list(_recordings):
        if recording[0] != threading.get_ident():
            _leave(recording)


held_in_forks(_LOCK, _forget_other_threads)


def _is_users(name: str, module: object) -> bool:
    """Return True if a module is written in Python, and neither in the standard library nor in an array library."""
    if is_foreign(name) or type(module) is not ModuleType:
        return False
    return not str(vars(module).get("__file__")).endswith(tuple(EXTENSION_SUFFIXES))


def _replace_in(namespace: MutableMapping[str, Any]) -> tuple[_Name, ...]:
    """Replace the values of a namespace that have replacements; return their names."""
    kinds = dispatchers() | {MethodType} | stand_in_types()
    if len(kinds) > 1:
        kinds |= {BuiltinMethodType}
    # most names need no replacement: this test is faster than the call
    names = [name for name, held in list(namespace.items()) if id(held) in REPLACEMENTS or type(held) in kinds]
    return tuple([replaced_name for name in names if (replaced_name := _replace_name(namespace, name)) is not None])


def _replace_name(namespace: MutableMapping[str, Any], name: str) -> _Name | None:
    """Replace the value of a name; return None if it has no replacement."""
    value = namespace.get(name)
    replacement = replaced(value)
    if replacement is value:
        return None
    _rebind(namespace, name, value, replacement)
    return _Name(name, value, replacement) if id(value) in REPLACEMENTS else _Name(name)


def _rebind(namespace: MutableMapping[str, Any], name: str, original: Any, replacement: Any) -> None:
    """Let a name refer to a replacement until the last recording ends."""
    _restorers.append(functools.partial(_restore, namespace, name, replacement, original))
    namespace[name] = replacement


def _restore(namespace: MutableMapping[str, Any], name: str, replacement: Any, original: Any) -> None:
    if namespace.get(name) is replacement:  # unless other code has set it since
        namespace[name] = original


def _replace_cell(cell: CellType) -> None:
    value = cell.cell_contents
    if replaced(value) is not value:
        _restorers.append(functools.partial(setattr, cell, "cell_contents", value))
        cell.cell_contents = replaced(value)


def _replace_defaults(function: FunctionType) -> None:
    defaults = function.__defaults__
    if defaults and any(replaced(value) is not value for value in defaults):
        _restorers.append(functools.partial(setattr, function, "__defaults__", defaults))
        function.__defaults__ = tuple(map(replaced, defaults))
    _replace_in(function.__kwdefaults__ or {})


class UnconvertedError(RecordedAnewError):
    """Signal a call of ``float`` or ``complex`` in code that is not transformed; it is now."""


def _convert_in_place(tape: Any, frame: FrameType, arguments: Any, keywords: Any) -> None:
    """Replace ``float`` and ``complex`` in the code of a frame, and in all functions of its file and its callers'.

    Raises:
        UnconvertedError: if the code was changed, so that the function is recorded again.
    """
    scope, site = frame.f_globals, (frame.f_code.co_filename, frame.f_lineno, "conversion")
    if ACTIVE.decisions is None or is_foreign(str(scope.get("__name__"))) or not is_convertible(frame.f_code, scope):
        return
    if site in STATE.failures:  # each recording makes a new function there
        return
    install(BUILTINS[float], BUILTINS[complex])
    with _LOCK:
        changes = list(functions_like(frame))
        for function, code in changes:
            _restorers.append(functools.partial(setattr, function, "__code__", function.__code__))
            function.__code__ = code
    if changes:
        raise UnconvertedError(site)


PROTOCOLS["conversion"] = _convert_in_place


def _replace_import() -> None:
    """Make imports in recorded functions return the replacements."""
    original = builtins.__import__

    @functools.wraps(original)
    def import_(name: str, globals: Any = None, *arguments: Any, **keywords: Any) -> Any:  # noqa: A002
        loaded = len(sys.modules)
        module = original(name, globals, *arguments, **keywords)
        scope = globals or {}
        if ACTIVE.tape is None or _is_loading(scope):  # the import of that module patches it later
            return module
        if len(sys.modules) != loaded:
            with _LOCK:
                _borrow()
                _replace_in_modules()
        return module if is_foreign(str(scope.get("__name__", ""))) else replaced(module)

    _restorers.append(functools.partial(_restore, vars(builtins), "__import__", import_, original))
    builtins.__import__ = import_


def _is_loading(namespace: Mapping[str, Any]) -> bool:
    """Return True if the module with these globals is being imported; its arrays are not part of a recording."""
    return bool(getattr(namespace.get("__spec__"), "_initializing", False))


def _reachable(function: object) -> Iterator[Any]:
    """Yield the Python functions and objects that `function` reaches: through methods, decorators, closures, names."""
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) in dispatchers():
            waiting.append(value.py_func)  # type: ignore[attr-defined]
        elif isinstance(value, functools.partial):
            waiting += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, MethodType):
            waiting += [value.__func__, value.__self__]
        elif isinstance(value, FunctionType):
            if not is_library_code(value.__code__, value.__globals__):
                yield value
                waiting.append(getattr(value, "__wrapped__", None))
                waiting += [cell.cell_contents for cell in cells(value)]
                waiting += [value.__globals__.get(name) for name in names_in(value.__code__)]
        elif not isinstance(value, type | ModuleType) and not is_foreign(package_of(type(value))):
            if isinstance(getattr(value, "__dict__", None), dict):
                yield value
                waiting += [held for held in vars(value).values() if callable(held)]
            if callable(value):
                waiting.append(type(value).__call__)
