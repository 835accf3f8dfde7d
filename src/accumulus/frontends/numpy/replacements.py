"""Replacements for functions and methods while a function is recorded.

NumPy's protocols dispatch universal functions (``scipy.special.erf``), so these need no replacement. NumPy functions
that make arrays are replaced, and others for the sake of lists of traced values. *Functions* of other libraries
(``scipy.special.logsumexp``) are replaced by name where user code finds them, like functions of NumPy
(`accumulus.frontends.numpy.patching`); SciPy's own modules keep the originals. *Methods* (``PPoly.__call__``, and with
it every spline) are replaced in their class, because objects may be reached in any way and compiled code does not call
them.

No library is imported for this: a row of `accumulus.frontends.numpy.table` is resolved after the user has loaded its
module. Without traced arguments, and in threads that do not record, a replacement calls the original.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.kinds import array_in, is_quantity
from accumulus.frontends.location import in_library
from accumulus.frontends.numpy import (  # noqa: F401  # these fill the tables
    complex_functions,
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
from accumulus.frontends.numpy.operands import (
    Operand,
    concrete,
    depends,
    entries_of,
    holds_complex,
    holds_none,
    of_kind,
)
from accumulus.frontends.numpy.table import (
    BORROWED,
    CALLING,
    FUNCTIONS,
    OBJECTS,
    PROTOCOLS,
    ArrayFunction,
    check_dtype,
    function_name,
    implements,
    load_rows,
)
from accumulus.tape.tape import Tape

# Functions that make arrays during a recording ------------------------------------------------------------------------
#
# Replacements for `np.zeros`, `np.array` and similar functions make arrays of floats that accept traced entries, so
# that functions which fill an array entry by entry work unchanged. Other array functions are replaced, too, for lists
# of traced values, which NumPy does not dispatch on: ``np.linalg.norm([x, y])``.
#
# A replacement behaves like the original unless the running thread records and the caller is user code. Arrays of
# integers, truth values and objects stay plain, as does the result of ``np.asarray(M)`` without a copy: a write to it
# would change an array that the function did not make.

#: A replacement, called with the tape, the original function and the arguments of the call.
Maker = Callable[..., Any]


def _contains_traced(value: Any) -> bool:
    if isinstance(value, Operand):
        return True
    if isinstance(value, list | tuple):
        return any(_contains_traced(item) for item in value)
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(_contains_traced, value.flat))
    return isinstance(value.magnitude if is_quantity(value) else array_in(value), Operand)


def _record(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Record a registered function, for which lists of traced values count as arrays; else call the original."""
    is_traced = original in FUNCTIONS and any(map(_contains_traced, (*arguments, *keywords.values())))
    if not is_traced or _is_delegated(original, arguments):
        return original(*arguments, **keywords)
    return PROTOCOLS["__array_function__"](tape, original, tuple(map(array_in, arguments)), keywords)


def _is_delegated(function: Any, arguments: Sequence[Any]) -> bool:
    """Return True if NumPy delegates a call to its arguments: quantities, and methods of series and data arrays."""
    first = arguments[0] if arguments else None
    if array_in(first) is not first:
        scope = getattr(getattr(function, "__wrapped__", None), "__globals__", {})
        if scope.get("__name__") == "numpy._core.fromnumeric" and hasattr(first, function.__name__):
            return True
    return any(map(is_quantity, arguments))


def _make(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call a function that makes arrays; new arrays of floats can be filled."""
    result = _record(tape, original, *arguments, **keywords)
    return result if any(result is argument for argument in arguments) else as_constant(tape, result)


def _make_empty(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Return an empty array, whose entries are NaN until they are set."""
    result = _record(tape, original, *arguments, **keywords)
    if type(result) is np.ndarray and result.dtype.kind in "fc":
        result.fill(np.nan)
    return as_constant(tape, result)


def _make_full(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Return an array filled with one value, which may be traced."""

    def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C") -> Any:
        result = np.empty(shape)
        return _convert(tape, np.asarray, np.broadcast_to(fill_value, result.shape), dtype)

    if depends(arguments) or depends(keywords):
        return full(*arguments, **keywords).copy()
    return _make(tape, original, *concrete(arguments), **concrete(keywords))


def _make_range(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Return a range with constant bounds, and thus of constant length.

    Raises:
        TraceError: for traced bounds.
    """
    if depends(arguments) or depends(keywords):
        raise refuse(
            f"The number of entries of {function_name(original)} depends on the arguments of the function. np.linspace "
            "takes a constant number of entries between traced ends."
        )
    return _make(tape, original, *concrete(arguments), **concrete(keywords))


def _build(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Return the result of `np.array`, by default a copy, for arrays or nested lists."""
    result = _view_or_build(tape, original, *arguments, **keywords)
    if isinstance(result, TracedArray) and result is arguments[0] and keywords.get("copy", True):
        return result.copy()
    return result


def _view_or_build(tape: Tape, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Return the result of `np.asarray` and similar functions, which share arrays instead of copying them."""
    if not arguments or not _contains_traced(arguments[0]):
        return _make(tape, original, *arguments, **keywords)
    result = _convert(tape, original, arguments[0], arguments[1] if len(arguments) > 1 else keywords.get("dtype"))
    ndmin = 1 if original in (np.ascontiguousarray, np.asfortranarray) else keywords.get("ndmin", 0)
    added = ndmin - np.ndim(result)
    return result[(None,) * added] if added > 0 else result


def _convert(tape: Tape, original: Callable[..., Any], value: Any, dtype: Any) -> Any:
    value = array_in(value)
    kind = None if dtype is None else np.dtype(dtype).kind
    if (kind is None and holds_complex(value)) or (kind == "c" and depends(value) and np.dtype(dtype) == np.complex128):
        return PROTOCOLS["complex array"](tape, value, (), {})
    if kind == "O" or (kind is None and holds_none(value)):
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
    """Return an iterator over pairs of index and entry, like `np.ndenumerate`."""
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

#: Functions that are recorded by running NumPy's source on traced values, by names in `numpy`. The oldest and the
#: newest supported NumPy give equal programs; functions that a version lacks are left out.
OWN_SOURCE: Final = (
    *("angle", "apply_over_axes", "cumulative_prod", "cumulative_sum", "diff", "kron", "outer", "polyadd"),
    *("polyint", "polysub", "polyval", "trapezoid", "trapz"),
    *("fft.fftshift", "fft.ifftshift"),
    *("linalg.cross", "linalg.matrix_norm", "linalg.outer", "linalg.tensorinv", "linalg.trace"),
)


class _Names(dict[str, Any]):
    """Global variables of a NumPy module, in which functions accept traced values."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__(__name__=names["__name__"], __builtins__=names["__builtins__"])
        self._names = names

    def __missing__(self, name: str) -> Any:
        self[name] = replacement = _for_traced(self._names[name])
        return replacement


class _Module:
    """A NumPy module in which functions accept traced values."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _for_traced(getattr(self._module, name))


def _for_traced(value: Any) -> Any:
    """Return the replacement of a value in NumPy's source, where functions must accept traced values."""
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
    """Return the source function of a NumPy function, without dispatch, on globals that accept traced values."""
    source = getattr(function, "__wrapped__", function)
    names = _names(source.__globals__["__name__"])
    result = FunctionType(source.__code__, names, source.__name__, source.__defaults__, source.__closure__)
    result.__kwdefaults__ = source.__kwdefaults__
    return result


def _enter_source(function: Callable[..., Any]) -> None:
    def record(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
        return _source_of(function)(*arguments, **keywords)

    signature = inspect.signature(function)
    tape = inspect.Parameter("tape", inspect.Parameter.POSITIONAL_ONLY)
    vars(record)["__signature__"] = signature.replace(parameters=[tape, *signature.parameters.values()])
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
    """Replacement for `np.r_` or `np.c_`, which join the items of an index; slices are ranges."""

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
        if any(isinstance(item, str) for item in parts):
            raise refuse("np.r_ with directions in text is not recorded: write np.concatenate or np.stack.")
        arrays = [
            self.original[item] if isinstance(item, slice) else _convert(tape, np.asarray, item, float)
            for item in parts
        ]
        if self.columns:
            return np.concatenate([a.reshape(-1, 1) if a.ndim < 2 else a for a in arrays], axis=-1)
        return np.concatenate([a.reshape(1) if a.ndim == 0 else a for a in arrays])


def _stand_in(module: ModuleType, replaced: Mapping[int, tuple[Any, Any]]) -> ModuleType:
    """Return a copy of `module` with the replacements in place of the replaced functions."""
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
    for module in (np.linalg, np.fft, np):  # the last contains the others
        table[id(module)] = (module, _stand_in(module, table))
    return table


#: Original and replacement, by identity of the original: functions, `np.r_`, `np.c_`, and the modules themselves.
REPLACEMENTS: Final = _replacements()


# Functions and methods of other libraries -----------------------------------------------------------------------------

#: Types of plain numbers, which are never traced.
_NUMBERS: Final = frozenset({bool, float, int})
#: Modules whose rows are resolved.
_resolved: Final[set[str]] = set()


class BorrowedFunction(NamedTuple):
    """A function of a loaded module, and its replacement."""

    original: Callable[..., Any]
    replacement: Callable[..., Any]


class ReplacedMethod(NamedTuple):
    """A method by class and name, and its replacement during recordings."""

    owner: type
    name: str
    replacement: Any


class _StandInClass(type):
    """Type of stand-ins for library classes: calls may be recorded, and everything else is the class's own."""

    original: type
    call: Callable[..., Any]

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        return cls.call(*arguments, **keywords)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.original)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.original)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.original, name)


def stand_in_types() -> frozenset[type]:
    """Return the types whose objects are replaced during recordings, for loaded modules."""
    types = (getattr(sys.modules.get(module), name, None) for module, name in OBJECTS)
    return frozenset(each for each in types if each is not None)


def replacement_of(value: Any) -> Any:
    """Return the replacement for an object of a compiled class, or for its method; other values unchanged."""
    owner = value.__self__ if type(value) is BuiltinMethodType else value
    for (module, name), make in OBJECTS.items():
        if type(owner) is getattr(sys.modules.get(module), name, None):
            return make(owner) if owner is value else getattr(make(owner), value.__name__)
    return value


#: Type flag of immutable classes, such as compiled ones in older versions of SciPy; their methods are not replaced.
IMMUTABLE: Final = 1 << 8
#: Replaced methods of loaded classes.
METHODS: Final[list[ReplacedMethod]] = []


def newly_loaded() -> Iterator[tuple[ModuleType, list[BorrowedFunction]]]:
    """Yield modules of the table that have been loaded since the last call, each with its functions.

    Methods are appended to `METHODS`. Parent packages follow their module, without functions.
    """
    load_rows()
    for module_name in BORROWED.keys() - _resolved:
        module = sys.modules.get(module_name)
        if module is None or getattr(module.__spec__, "_initializing", False):
            continue
        _resolved.add(module_name)
        rows = []
        for name, record in BORROWED[module_name].items():
            owner, _, method = name.rpartition(".")
            if not owner:
                original = getattr(module, name, None)
                if original is not None:
                    replacement = _function(original, record)
                    if isinstance(original, type):
                        namespace = {"original": original, "call": staticmethod(replacement)}
                        namespace |= {name: getattr(original, name) for name in ("__module__", "__doc__")}
                        replacement = _StandInClass(original.__name__, (), namespace)
                    rows.append(BorrowedFunction(original, replacement))
            elif hasattr(module, owner):
                target = getattr(module, owner)
                _enter_method(target if isinstance(target, type) else type(target), method, record)
        yield module, rows
        package = module_name.rpartition(".")[0]
        while package and package not in _resolved:
            _resolved.add(package)
            yield sys.modules[package], []
            package = package.rpartition(".")[0]


def bound(method: MethodType) -> MethodType:
    """Return the replacement for a method that was bound before its class changed (``norm.pdf``), or the method."""
    now = getattr(type(method.__self__), getattr(method.__func__, "__name__", ""), None)
    if getattr(now, "__wrapped__", None) is method.__func__ and any(now is row.replacement for row in METHODS):
        return MethodType(now, method.__self__)  # type: ignore[arg-type]  # a row's replacement is a function
    return method


def _enter_method(owner: type, name: str, record: Callable[..., Any]) -> None:
    holder = next((base for base in owner.__mro__ if name in vars(base)), None)
    if holder is None or owner.__flags__ & IMMUTABLE:
        return
    original = vars(holder)[name]
    if isinstance(original, classmethod | staticmethod):
        METHODS.append(ReplacedMethod(owner, name, type(original)(_function(original.__func__, record))))
    else:
        METHODS.append(ReplacedMethod(owner, name, _function(original, record)))


def _function(original: Callable[..., Any], record: Callable[..., Any]) -> Callable[..., Any]:
    row = ArrayFunction(original, record)

    def function(*arguments: Any, **keywords: Any) -> Any:
        tape = ACTIVE.tape
        if tape is None:
            return original(*arguments, **keywords)
        if not keywords and _NUMBERS.issuperset(map(type, arguments)):
            result = original(*arguments)  # a fast path, for loops over constants that call `math`
            if type(result) in _NUMBERS:
                return result
        if depends(arguments) or depends(keywords):
            loop = ACTIVE.loop
            if loop is None or record in CALLING:
                return row(tape, arguments, keywords)
            return loop.recorded(tape, row, arguments, keywords)
        if record in CALLING and (recorded := row(tape, arguments, keywords)) is not NotImplemented:
            return recorded
        result = original(*map(concrete, arguments), **concrete(keywords))
        return result if in_library(sys._getframe(1)) else replacement_of(as_constant(tape, result))

    return functools.update_wrapper(function, original)
