"""Replacements of NumPy's functions, put where the user's code finds them, for the time of a recording.

NumPy itself stays as it is: compiled extensions call ``numpy.empty`` and trust what they get. What is replaced are the
names by which the user's code reaches it: the globals of loaded Python modules that hold NumPy, or one of its
functions, under whatever name (``import numpy as np``, ``from numpy import zeros as make``), apart from the standard
library and the array libraries; what the recorded function closes over, has as defaults, or is bound to; and imports
that it runs itself. All is put back when the last recording ends, however it ends, and a thread that does not record
meets replacements that call the originals.

Finding the names takes a look at every global variable of the user's modules. It is kept which names these are for as
long as all globals hold the same objects, and in installed packages, of which there may be hundreds, for as long as no
global is added.

What is not found (``self.zeros`` of some object that the function reaches) makes plain arrays, and filling those with
traced values is an error that says what to do.

Functions compiled by Numba run as Python while a function is recorded.

Known gap: another thread cannot compile functions of the same modules by Numba at that time.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.forks import held_in_forks
from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.location import cells, dispatchers, in_library, is_foreign, is_library_code, names_in
from accumulus.frontends.numpy import (  # noqa: F401  # these fill the tables
    complex_numbers,
    fourier,
    linalg,
    mathematics,
    moving,
    products,
    sequences,
    statistics,
    various,
)
from accumulus.frontends.numpy.arrays import TracedArray, as_constant
from accumulus.frontends.numpy.borrowed import METHODS, bound, newly_loaded
from accumulus.frontends.numpy.operands import (
    Operand,
    check_dtype,
    concrete,
    depends,
    entries_of,
    holds_complex,
    of_kind,
)
from accumulus.frontends.numpy.table import FUNCTIONS, PROTOCOLS, function_name, implements
from accumulus.tape.tape import Tape

# What makes arrays while a function is recorded -----------------------------------------------------------------------
#
# Replacements of `np.zeros`, `np.array` and the like make arrays of floats that accept traced items, so that a function
# which fills an array item by item works as it is. The other array functions have replacements too, for lists of traced
# values, which NumPy does not dispatch on: ``np.linalg.norm([x, y])``.
#
# A replacement does what the original does unless the running thread is recording and the caller is the user's code.
# Integers, truth values and objects stay plain arrays, as does ``np.asarray(M)`` of an array that it need not copy: to
# write into that would change an array which the function did not make.

#: What is called in place of the original: tape, original, arguments of the call.
Maker = Callable[..., Any]


def _contains_traced(value: object) -> bool:
    if isinstance(value, Operand):
        return True
    if isinstance(value, list | tuple):
        return any(_contains_traced(item) for item in value)
    return isinstance(value, np.ndarray) and value.dtype == object and any(map(_contains_traced, value.flat))


def _record(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """A registered function; lists of traced values count as arrays."""
    if original in FUNCTIONS and any(map(_contains_traced, (*arguments, *keywords.values()))):
        return PROTOCOLS["__array_function__"](tape, original, arguments, keywords)
    return original(*arguments, **keywords)


def _make(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """A function that makes new arrays: those of floats can be filled."""
    result = _record(tape, original, *arguments, **keywords)
    return result if any(result is argument for argument in arguments) else as_constant(tape, result)


def _make_empty(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """An empty array: entries that are never set are NaN."""
    result = original(*arguments, **keywords)
    if type(result) is np.ndarray and result.dtype.kind in "fc":
        result.fill(np.nan)
    return as_constant(tape, result)


def _make_full(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """An array of one value, which may be traced."""

    def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C") -> Any:
        result = np.empty(shape)
        return _convert(tape, np.asarray, np.broadcast_to(fill_value, result.shape), dtype)

    if depends(arguments) or depends(keywords):
        return full(*arguments, **keywords).copy()
    return _make(tape, original, *concrete(arguments), **concrete(keywords))


def _make_range(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """A range: its bounds, and so its length, are constants."""
    if depends(arguments) or depends(keywords):
        raise refuse(
            f"The number of entries of {function_name(original)} depends on the arguments of the function. np.linspace "
            "takes a constant number of entries between traced ends."
        )
    return _make(tape, original, *concrete(arguments), **concrete(keywords))


def _build(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """np.array: a copy, unless asked otherwise, of an array or of what is nested in lists."""
    result = _view_or_build(tape, original, *arguments, **keywords)
    if isinstance(result, TracedArray) and result is arguments[0] and keywords.get("copy", True):
        return result.copy()
    return result


def _view_or_build(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """np.asarray and its relatives: what is an array already stays what it is."""
    if not arguments or not _contains_traced(arguments[0]):
        return _make(tape, original, *arguments, **keywords)
    result = _convert(tape, original, arguments[0], arguments[1] if len(arguments) > 1 else keywords.get("dtype"))
    ndmin = 1 if original in (np.ascontiguousarray, np.asfortranarray) else keywords.get("ndmin", 0)
    added = ndmin - np.ndim(result)
    return result[(None,) * added] if added > 0 else result


def _convert(tape: Tape, original: Callable[..., Any], value: Any, dtype: Any) -> Any:
    kind = None if dtype is None else np.dtype(dtype).kind
    if (kind is None and holds_complex(value)) or (kind == "c" and depends(value) and np.dtype(dtype) == np.complex128):
        return PROTOCOLS["complex array"](tape, value, (), {})
    if kind == "O":
        return original(value, dtype=object)
    if kind not in (None, "b") and np.dtype(dtype) != np.float64:
        if depends(value):
            check_dtype(dtype, function_name(original))
        return original(concrete(value), dtype=dtype)
    entries, is_boolean = entries_of(tape, value)
    boolean = is_boolean if kind is None else kind == "b"
    if isinstance(value, TracedArray) and boolean == is_boolean:
        return value
    converted = of_kind(tape, entries, is_boolean, boolean=boolean)
    return TracedArray(tape, np.asarray(converted, np.int64), boolean=boolean)


def _build_from_iterator(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    items = list(arguments[0])
    if not _contains_traced(items):
        return _make(tape, original, items, *arguments[1:], **keywords)
    dtype = arguments[1] if len(arguments) > 1 else keywords.get("dtype")
    return _convert(tape, np.array, items, dtype)


def _enumerate(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """np.ndenumerate: pairs of index and entry."""
    array = arguments[0] if arguments else keywords["arr"]
    if not _contains_traced(array):
        return original(array)
    converted = _convert(tape, np.asarray, array, None)
    return ((index, converted[index]) for index in np.ndindex(converted.shape))


MAKERS: Final[dict[Callable[..., Any], Maker]] = {
    np.array: _build,
    **dict.fromkeys((np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray), _view_or_build),
    **dict.fromkeys((np.zeros, np.ones, np.zeros_like, np.ones_like, np.full_like, np.eye, np.identity, np.tri), _make),
    **dict.fromkeys((np.linspace, np.logspace, np.geomspace, np.diag, np.diagflat, np.copy), _make),
    **dict.fromkeys((np.tile, np.repeat, np.concatenate, np.stack, np.hstack, np.vstack, np.outer), _make),
    **dict.fromkeys((np.empty, np.empty_like), _make_empty),
    np.full: _make_full,
    np.arange: _make_range,
    np.fromiter: _build_from_iterator,
    np.ndenumerate: _enumerate,
}


# NumPy's own source --------------------------------------------------------------------------------------------------

#: Functions that are recorded by running NumPy's source on traced values, by names in `numpy`. Their programs are equal
#: under the oldest and the newest NumPy that is supported; functions that a version lacks are left out.
OWN_SOURCE: Final = (
    *("angle", "apply_over_axes", "cumulative_prod", "cumulative_sum", "diff", "kron", "outer", "polyadd"),
    *("polyint", "polysub", "trapezoid", "trapz"),
    *("fft.fftshift", "fft.ifftshift"),
    *("linalg.cross", "linalg.matrix_norm", "linalg.outer", "linalg.tensorinv", "linalg.trace"),
)


class _Names(dict[str, Any]):
    """Global variables of a module of NumPy, with functions that take traced values in place of its own."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__(__name__=names["__name__"], __builtins__=names["__builtins__"])
        self._names = names

    def __missing__(self, name: str) -> Any:
        self[name] = found = _for_traced(self._names[name])
        return found


class _Module:
    """A module of NumPy, with such functions."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _for_traced(getattr(self._module, name))


def _for_traced(value: Any) -> Any:
    """Return what the source of NumPy finds in place of `value`: functions that take traced values."""
    if isinstance(value, ModuleType) and value.__name__.startswith("numpy"):
        return _Module(value)
    if not callable(value) or isinstance(value, np.ufunc):
        return value
    maker: Maker | None = MAKERS.get(value, _record if value in FUNCTIONS else None)
    if maker is not None:
        return lambda *arguments, **keywords: maker(ACTIVE.tape, value, *arguments, **keywords)
    is_source = type(value) is FunctionType and value.__module__.startswith("numpy")
    return _source_of(value) if is_source and not hasattr(value, "__wrapped__") else value


@functools.cache
def _names(module: str) -> _Names:
    return _Names(vars(sys.modules[module]))


@functools.cache
def _source_of(function: Any) -> FunctionType:
    """Return a function of NumPy without its dispatch, which takes traced values."""
    source = getattr(function, "__wrapped__", function)
    names = _names(source.__globals__["__name__"])
    result = FunctionType(source.__code__, names, source.__name__, source.__defaults__, source.__closure__)
    result.__kwdefaults__ = source.__kwdefaults__
    return result


def _enter_source(function: Callable[..., Any]) -> None:
    def record(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
        return _source_of(function)(*arguments, **keywords)

    own = inspect.signature(function)
    tape = inspect.Parameter("tape", inspect.Parameter.POSITIONAL_ONLY)
    vars(record)["__signature__"] = own.replace(parameters=[tape, *own.parameters.values()])
    implements(function)(record)


for _module, _, _name in (name.rpartition(".") for name in OWN_SOURCE):
    if hasattr(getattr(np, _module) if _module else np, _name):
        _enter_source(getattr(getattr(np, _module) if _module else np, _name))


def _replacement(original: Callable[..., Any], maker: Maker) -> Callable[..., Any]:
    def function(*arguments: Any, **keywords: Any) -> Any:
        tape = ACTIVE.tape
        if tape is None or in_library(sys._getframe(1)):
            return original(*arguments, **keywords)
        return maker(tape, original, *arguments, **keywords)

    return functools.update_wrapper(function, original)


class _Concatenator:
    """`np.r_` or `np.c_`, which join what they are indexed with; slices are ranges."""

    def __init__(self, original: Any, columns: bool) -> None:
        self.original = original
        self.columns = columns

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        tape = ACTIVE.tape
        if tape is None or not _contains_traced(parts):
            return self.original[index]
        if any(isinstance(part, str) for part in parts):
            raise refuse("np.r_ with directions in text is not recorded: write np.concatenate or np.stack.")
        arrays = [
            self.original[part] if isinstance(part, slice) else _convert(tape, np.asarray, part, float)
            for part in parts
        ]
        if self.columns:
            return np.concatenate([a.reshape(-1, 1) if a.ndim < 2 else a for a in arrays], axis=-1)
        return np.concatenate([a.reshape(1) if a.ndim == 0 else a for a in arrays])


def _stand_in(module: ModuleType, replaced: Mapping[int, tuple[Any, Any]]) -> ModuleType:
    """A module like `module` in which the replaced functions are replaced."""
    stand_in = ModuleType(module.__name__, module.__doc__)
    for name, value in vars(module).items():
        original, replacement = replaced.get(id(value), (None, None))
        vars(stand_in)[name] = value if original is None else replacement
    return stand_in


def _replacements() -> dict[int, tuple[Any, Any]]:
    table: dict[int, tuple[Any, Any]] = {
        id(original): (original, _replacement(original, maker)) for original, maker in MAKERS.items()
    }
    for function in FUNCTIONS:
        if id(function) not in table and not isinstance(function, np.ufunc):
            table[id(function)] = (function, _replacement(function, _record))
    for original, columns in ((np.r_, False), (np.c_, True)):
        table[id(original)] = (original, _Concatenator(original, columns))
    for module in (np.linalg, np.fft, np):  # the last holds the others
        table[id(module)] = (module, _stand_in(module, table))
    return table


#: Original and replacement by the identity of the original: functions, `np.r_`, `np.c_`, and the modules themselves.
REPLACEMENTS: Final = _replacements()


_LOCK: Final = threading.RLock()
#: How to put back what was replaced.
_restorers: list[Callable[[], None]] = []
#: Recordings under way, in all threads.
_recordings = 0


class _Known(NamedTuple):
    """Names of a module that are replaced."""

    module: ModuleType
    #: How many globals it has, or which objects these hold, how much there is to be replaced, and types of functions
    #: that Numba compiles.
    state: tuple[object, int, frozenset[type]]
    #: Globals that are replaced.
    names: tuple[str, ...]


#: By the name of the module, and whether nothing is replaced in it yet.
_KNOWN: Final[dict[tuple[str, bool], _Known]] = {}
_PACKAGES: Final = ("site-packages", "dist-packages")


def replaced(value: Any) -> Any:
    """The replacement of `value` if it is NumPy, or one of the functions that have one, else `value`."""
    if type(value) in dispatchers():
        return _interpreted(value)
    if type(value) is MethodType:
        return bound(value)
    original, replacement = REPLACEMENTS.get(id(value), (None, None))
    return replacement if original is value and original is not None else value


@functools.lru_cache(maxsize=256)
def _interpreted(dispatcher: Any) -> Callable[..., Any]:
    """A function that runs the source of `dispatcher` in a thread that records, and the compiled code in others."""

    @functools.wraps(dispatcher.py_func)
    def function(*arguments: Any, **keywords: Any) -> Any:
        return (dispatcher if ACTIVE.tape is None else dispatcher.py_func)(*arguments, **keywords)

    vars(function)["py_func"] = dispatcher.py_func
    return function


@contextmanager
def patched(function: object) -> Iterator[None]:
    """Replace NumPy in the user's modules, and in what `function` holds, for the time of the block."""
    with _LOCK:
        try:
            _enter(function)
        except BaseException:
            _leave()
            raise
    try:
        yield
    finally:
        with _LOCK:
            _leave()


def _enter(function: object) -> None:
    global _recordings  # noqa: PLW0603  # one count for all threads, under the lock
    _recordings += 1
    if _recordings == 1:
        _replace_import()
    _borrow()
    if _recordings == 1 or ACTIVE.tape is None or _listed.is_outdated():  # else all of them are replaced
        _replace_in_modules(untouched=_recordings == 1)
    for part in list(_parts(function)):
        if isinstance(part, FunctionType):
            _replace_in(part.__globals__)
            _replace_defaults(part)
            for cell in cells(part):
                _replace_cell(cell)
        else:
            _replace_in(vars(part))


class _Listed:
    """The loaded modules that may be the user's, listed again when others have come."""

    def __init__(self) -> None:
        self._count, self._last = 0, object()
        self._modules: list[tuple[str, ModuleType, bool]] = []

    def is_outdated(self) -> bool:
        """Return True if modules have come, or gone."""
        return len(sys.modules) != self._count or next(reversed(sys.modules.values())) is not self._last

    def users(self) -> list[tuple[str, ModuleType, bool]]:
        """Names, modules, and whether they are of installed packages.

        What is loaded comes last, also what had been dropped and is loaded again.
        """
        if self.is_outdated():
            self._count, self._last = len(sys.modules), next(reversed(sys.modules.values()))
            self._modules = [
                (name, module, any(folder in str(vars(module).get("__file__")) for folder in _PACKAGES))
                for name, module in list(sys.modules.items())
                if _is_users(name, module)
            ]
        return self._modules


_listed: Final = _Listed()


def _replace_in_modules(*, untouched: bool = False) -> None:
    """Replace NumPy in all modules; `untouched` if nothing has been replaced in them yet."""
    kinds = dispatchers()
    for name, module, is_installed in _listed.users():
        namespace = vars(module)
        holds: object = len(namespace) if is_installed else hash(tuple(map(id, list(namespace.values()))))
        state = holds, len(REPLACEMENTS), kinds
        known = _KNOWN.get((name, untouched))
        if known is not None and known.module is module and known.state == state:
            for held in known.names:
                _replace_name(namespace, held)
        elif not _is_loading(namespace):
            names = _replace_in(namespace)
            if untouched or not is_installed:
                _KNOWN[name, untouched] = _Known(module, state, names)


def _borrow() -> None:
    """Take in modules of SciPy that have been loaded, and replace methods of their classes."""
    for module, rows in newly_loaded():
        REPLACEMENTS[id(module)] = (module, _lazy_stand_in(module))
        REPLACEMENTS.update((id(row.original), row) for row in rows)
    for owner, name, replacement in METHODS:
        own = vars(owner)
        if own.get(name) is not replacement:
            _restorers.append(
                functools.partial(setattr, owner, name, own[name])
                if name in own
                else functools.partial(delattr, owner, name)
            )
            setattr(owner, name, replacement)


def _lazy_stand_in(module: ModuleType) -> ModuleType:
    """A module like `module` in which functions are replaced, and which loads what it contains when it is asked for."""
    stand_in = ModuleType(module.__name__, module.__doc__)

    def attribute(name: str) -> Any:
        value = getattr(module, name)
        if isinstance(value, ModuleType) and ACTIVE.tape is not None:
            with _LOCK:
                _borrow()
            return replaced(value)
        vars(stand_in)[name] = found = replaced(value)  # which is asked for once
        return found

    vars(stand_in)["__getattr__"] = attribute
    return stand_in


def _leave() -> None:
    global _recordings  # noqa: PLW0603
    _recordings -= 1
    if _recordings == 0:
        while _restorers:
            _restorers.pop()()


def _forget_others() -> None:
    """In a forked child there are no other threads that record; what they replaced is put back."""
    global _recordings  # noqa: PLW0603
    _recordings = min(_recordings, 1)
    if _recordings and ACTIVE.tape is None:
        _leave()


held_in_forks(_LOCK, _forget_others)


def _is_users(name: str, module: object) -> bool:
    """Return True if a loaded module is written in Python, and neither of the standard library nor an array library."""
    if is_foreign(name) or type(module) is not ModuleType:
        return False
    return not str(vars(module).get("__file__")).endswith(tuple(EXTENSION_SUFFIXES))


def _replace_in(namespace: MutableMapping[str, Any]) -> tuple[str, ...]:
    """Replace what there is in a namespace; its names."""
    kinds = dispatchers() | {MethodType}
    # most names stand for something else, which is told faster here
    names = [name for name, held in list(namespace.items()) if id(held) in REPLACEMENTS or type(held) in kinds]
    return tuple([name for name in names if _replace_name(namespace, name)])


def _replace_name(namespace: MutableMapping[str, Any], name: str) -> bool:
    """Replace what a name stands for; whether there was anything to replace."""
    value = namespace.get(name)
    replacement = replaced(value)
    if replacement is value:
        return False
    namespace[name] = replacement
    _restorers.append(functools.partial(_restore, namespace, name, replacement, value))
    return True


def _restore(namespace: MutableMapping[str, Any], name: str, replacement: Any, original: Any) -> None:
    if namespace.get(name) is replacement:  # unless somebody has set it since
        namespace[name] = original


def _replace_cell(cell: CellType) -> None:
    value = cell.cell_contents
    if replaced(value) is not value:
        cell.cell_contents = replaced(value)
        _restorers.append(functools.partial(setattr, cell, "cell_contents", value))


def _replace_defaults(function: FunctionType) -> None:
    defaults = function.__defaults__
    if defaults and any(replaced(value) is not value for value in defaults):
        function.__defaults__ = tuple(map(replaced, defaults))
        _restorers.append(functools.partial(setattr, function, "__defaults__", defaults))
    _replace_in(function.__kwdefaults__ or {})


def _replace_import() -> None:
    """Let imports that a recorded function runs hand out the replacements."""
    original = builtins.__import__

    @functools.wraps(original)
    def import_(name: str, globals: Any = None, *arguments: Any, **keywords: Any) -> Any:  # noqa: A002
        loaded = len(sys.modules)
        module = original(name, globals, *arguments, **keywords)
        scope = globals or {}
        if ACTIVE.tape is None or _is_loading(scope):  # what loads that module does the rest, and holds no import up
            return module
        if len(sys.modules) != loaded:
            with _LOCK:
                _borrow()
                _replace_in_modules()
        return module if is_foreign(str(scope.get("__name__", ""))) else replaced(module)

    builtins.__import__ = import_
    _restorers.append(functools.partial(_restore, vars(builtins), "__import__", import_, original))


def _is_loading(namespace: Mapping[str, Any]) -> bool:
    """Return True if the module with these globals is being imported; arrays that it makes are no part of a tape."""
    return bool(getattr(namespace.get("__spec__"), "_initializing", False))


def _parts(function: object) -> Iterator[Any]:
    """The Python functions and objects that `function` consists of or names: behind methods, decorators, closures."""
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if type(part) in dispatchers():
            waiting.append(part.py_func)  # type: ignore[attr-defined]
        elif isinstance(part, functools.partial):
            waiting += [part.func, *part.args, *part.keywords.values()]
        elif isinstance(part, MethodType):
            waiting += [part.__func__, part.__self__]
        elif isinstance(part, FunctionType):
            if not is_library_code(part.__code__, part.__globals__):
                yield part
                waiting.append(getattr(part, "__wrapped__", None))
                waiting += [cell.cell_contents for cell in cells(part)]
                waiting += [part.__globals__.get(name) for name in names_in(part.__code__)]
        elif not isinstance(part, type | ModuleType) and not is_foreign(type(part).__module__):
            if isinstance(getattr(part, "__dict__", None), dict):
                yield part
                waiting += [held for held in vars(part).values() if callable(held)]
            if callable(part):
                waiting.append(type(part).__call__)
