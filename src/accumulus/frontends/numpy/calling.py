"""Calls in transformed code: user functions are transformed, and builtins are replaced for traced values.

A branch that is recorded next to the other may change only objects that can be restored. Transformed user functions log
their own changes. Lists, dicts and plain arrays are saved before a method or a library function may change them. Any
other call with possible side effects (files, clocks, random numbers, iterators, functions without source) ends the
branch.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import operator
import os
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.active import ACTIVE
from accumulus.frontends.decisions import UnmergeableError, sorting_order
from accumulus.frontends.location import PACKAGE_DIRECTORY, dispatchers, is_library_code
from accumulus.frontends.numpy.arrays import TracedArray, as_array, no_subclass
from accumulus.frontends.numpy.complex_numbers import make_complex
from accumulus.frontends.numpy.journal import RecordedAnewError, Site, is_fresh, made, note
from accumulus.frontends.numpy.merging import MISSING, begin_merge, either, mergeable, outside, truth_of
from accumulus.frontends.numpy.operands import depends, holds_complex, references_of
from accumulus.frontends.numpy.python_loops import decided_here, iterations, while_loop
from accumulus.frontends.numpy.scalars import Traced
from accumulus.frontends.numpy.table import CALLED
from accumulus.frontends.numpy.ufuncs import vectorized

# Operators and comparisons that decide --------------------------------------------------------------------------------
#
# Operands after the first are functions, which run only if Python would evaluate them.

Later = Callable[[], Any]
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


def _choose(site: Any, condition: Any, one: Later, other: Later) -> Any:
    """Return ``one() if condition else other()``."""
    if condition.__class__ is bool:
        return one() if condition else other()
    truth = truth_of(condition)
    if truth.__class__ is bool:
        return one() if truth else other()
    return either(site, truth, one, other)


def _joined(ending: bool, site: Any, first: Any, *later: Later) -> Any:
    """Return ``first and later[0]() and …``; with `ending` true, ``first or later[0]() or …``."""
    for position, other in enumerate(later):
        truth = truth_of(first)
        if truth.__class__ is not bool:
            rest = functools.partial(_joined_from, ending, site, later[position:])
            decided = _fixed_value(first, ending)
            return either(site, truth, *((decided, rest) if ending else (rest, decided)))
        if truth is ending:
            return first
        first = other()
    return first


def _joined_from(ending: bool, site: Any, later: Sequence[Later]) -> Any:
    return _joined(ending, site, later[0](), *later[1:])


def _fixed_value(value: Any, truth: bool) -> Later:
    """Return a function that returns `value`, or `truth` if the value is a traced truth value."""
    return lambda: truth if getattr(value, "boolean", False) else value


def negate(value: Any) -> Any:
    """Return ``not value``."""
    if value.__class__ is bool:
        return not value
    truth = truth_of(value)
    return not truth if truth.__class__ is bool else ~truth


def _compare(site: Any, left: Any, *parts: Any) -> Any:
    """Return a chained comparison ``left < parts[1]() <= parts[3]() …``; `parts` alternate operators and operands."""
    name, right, *further = parts
    between = right()
    result = _COMPARISONS[name](left, between)
    if not further:
        return result
    return _joined(False, site, result, lambda: _compare(site, between, *further))


def _is_truth(value: Any, expected: bool, positive: bool) -> Any:
    """Return ``value is expected`` for True or False; ``value is not expected`` if not `positive`."""
    if isinstance(value, Traced) and isinstance(value.entries, int) and value.boolean:
        return truth_of(value) if expected == positive else negate(value)
    return (value is expected) == positive


# Loops that end early -------------------------------------------------------------------------------------------------
#
# If a flag is a traced value, the loop continues, and the flag selects the changes of each further iteration: the
# recording holds wherever the loop ends. Every point then computes all iterations. Therefore a loop with many
# iterations, or one that continues for long after its end at the given point, is recorded again, with each exit
# guarded.

#: Maximum number of iterations under a traced flag, and of operations recorded after the end at the given point. More
#: record long programs in which most iterations are masked; with fewer, the end of the loop is a decision, and each
#: number of iterations another case.
MOST_TURNS: Final = 64
MOST_OPERATIONS: Final = 500


class LongLoopError(RecordedAnewError):
    """Signal that a loop is too long for all of its iterations to be computed at every point."""


class RunningLoop:
    """A loop with early exits while it runs."""

    __slots__ = ("_depth", "_ended", "_merges", "_site", "_turns")

    def __init__(self, site: Site) -> None:
        self._site = site
        self._merges = mergeable(site)
        self._depth = ACTIVE.merging
        self._turns = 0
        #: Length of the tape when the loop ended at the given point; None before.
        self._ended: int | None = None

    def leave(self) -> bool:
        """Set the flag of an exit, and return True.

        Raises:
            UnmergeableError: in a branch, if this loop is not merged.
        """
        if not self._merges and ACTIVE.merging > self._depth:
            raise UnmergeableError
        return True

    def ends(self, stop: Any) -> bool:
        """Return True if the loop ends here for all points.

        Raises:
            LongLoopError: if it continues for too long.
        """
        truth: Any = stop if stop.__class__ is bool else truth_of(stop)
        if truth.__class__ is bool:
            return bool(truth)
        self._turns += 1
        decisions = ACTIVE.decisions
        length = len(truth.tape)
        if self._ended is None and decisions is not None and decisions.tape is truth.tape:
            if decisions.values(np.array(truth.reference)):
                self._ended = length
        elif self._ended is not None and length - self._ended > MOST_OPERATIONS:
            raise LongLoopError(self._site)
        if self._turns > MOST_TURNS:
            raise LongLoopError(self._site)
        return False


# Builtins of traced values --------------------------------------------------------------------------------------------

#: Maximum number of values sorted by compare-exchange steps; more are sorted in the order at the given point. The steps
#: grow with its square; with fewer values, more orders are cases of their own.
MOST_SORTED: Final = 8


def _extreme(name: str) -> Callable[..., Any]:
    """Return a replacement of `max` or `min`; of equal values the first is returned, as in Python."""
    original = getattr(builtins, name)
    site = ("builtin", name)

    def extreme(*arguments: Any, key: Any = None, **keywords: Any) -> Any:
        items = list(arguments[0]) if len(arguments) == 1 else list(arguments)
        if key is not None or not items or not any(isinstance(item, Traced) for item in items):
            key = None if key is None else _callee(key)
            return original(items, key=key, **keywords) if items or keywords else original(*arguments, key=key)
        best, *rest = items
        for item in rest:
            better = item > best if name == "max" else item < best
            best = _choose(site, better, lambda: item, lambda: best)  # noqa: B023
        return best

    return functools.update_wrapper(extreme, original)


def _sorted(iterable: Iterable[Any], *, key: Any = None, reverse: Any = False) -> list[Any]:
    """Return sorted numbers: a few by compare-exchange steps, more in their order at the given point."""
    items = list(iterable)
    if key is not None or not depends(items) or any(np.ndim(item) for item in items):
        return sorted(items, key=None if key is None else _callee(key), reverse=bool(reverse))
    if len(items) <= MOST_SORTED:
        for last in range(len(items) - 1, 0, -1):
            for position in range(last):
                one, other = items[position : position + 2]
                swap = one < other if reverse else other < one
                items[position] = _select(swap, other, one)
                items[position + 1] = _select(swap, one, other)
        return items
    tape = next(item.tape for item in items if isinstance(item, Traced))
    numbers = references_of(tape, items)
    if not reverse:
        return [items[position] for position in sorting_order(tape, numbers)]
    # descending order is stable, too
    return [items[-1 - position] for position in sorting_order(tape, numbers[::-1])][::-1]


def _select(condition: Any, one: Any, other: Any) -> Any:
    return _choose(("builtin", "sorted"), condition, lambda: one, lambda: other)


def _folded(ending: bool, iterable: Iterable[Any]) -> Any:
    """Return `any` (`ending` True) or `all` (`ending` False); a traced truth value if it depends on the inputs."""
    not_yet: Any = not ending
    folded = not_yet
    for item in iterable:
        truth = truth_of(item)
        if truth is ending:
            return ending
        if truth is not not_yet:
            folded = truth if folded is not_yet else folded | truth if ending else folded & truth
    return folded


def _float(*arguments: Any) -> Any:
    if len(arguments) == 1 and isinstance(value := arguments[0], Traced) and depends(value):
        scalar: Any = value.item() if isinstance(value, TracedArray) else value
        return np.where(scalar, 1.0, 0.0) if scalar.boolean else scalar
    if len(arguments) == 1 and (number := _by_method(arguments[0], "__float__")) is not None:
        return _float(number)
    return float(*arguments)


def _by_method(value: Any, name: str) -> Any:
    """Return the result of a method of the user's that converts a number; None if there is none."""
    method = getattr(type(value), name, None)
    return _callee(method)(value) if isinstance(method, FunctionType) and not isinstance(value, Traced) else None


def _as_type(kind: type) -> Callable[..., Any]:
    """Return a replacement of a type of NumPy's, which converts numbers, arrays and lists of them."""

    def convert(*arguments: Any) -> Any:
        if not depends(arguments):
            return kind(*arguments)
        (value,) = arguments
        array: Any = value if isinstance(value, Traced) else as_array(ACTIVE.tape, value)
        return array.astype(kind)[()]

    return convert


def _bool(*arguments: Any) -> Any:
    return truth_of(arguments[0]) if len(arguments) == 1 else bool(*arguments)


def _complex(*arguments: Any, **keywords: Any) -> Any:
    """Return ``complex(x, y)`` for real values, or ``complex(z)``."""
    parts = dict(zip(("real", "imag"), arguments, strict=False)) | keywords
    if len(parts) == 1 and (number := _by_method(parts.get("real"), "__complex__")) is not None:
        return number if depends(number) else complex(number)
    if not depends(parts):
        return complex(*arguments, **keywords)
    tape = next(value.tape for value in parts.values() if isinstance(value, Traced))
    real, imag = parts.get("real", 0.0), parts.get("imag", 0.0)
    if holds_complex([real, imag]):
        return real + 1j * imag
    return make_complex(tape, real, imag)


def _callee(function: Any) -> Any:
    return CALLED[0](function)


def _calling(original: Any) -> Callable[..., Any]:
    """Wrap a function that calls its first argument, so that the argument is transformed."""

    def function(first: Any, *arguments: Any, **keywords: Any) -> Any:
        return original(_callee(first), *arguments, **keywords)

    return functools.update_wrapper(function, original, assigned=("__name__", "__doc__"))


def _accumulate(iterable: Iterable[Any], func: Any = None, **keywords: Any) -> Any:
    return itertools.accumulate(iterable, None if func is None else _callee(func), **keywords)


#: Builtin → replacement in transformed code.
BUILTINS: Final[dict[Any, Callable[..., Any]]] = {
    max: _extreme("max"),
    min: _extreme("min"),
    sorted: _sorted,
    any: functools.partial(_folded, True),
    all: functools.partial(_folded, False),
    float: _float,
    bool: _bool,
    complex: _complex,
    **{kind: _as_type(kind) for kind in (np.float64, np.bool_, np.complex128)},
    **{function: _calling(function) for function in (map, filter, functools.reduce, functools.partial)},
    itertools.accumulate: _accumulate,
}


#: Functions called in the current recordings, by identity: the function, its replacement, and True if a branch may call
#: the replacement without a check.
_KNOWN: Final[dict[int, tuple[Any, Any, bool]]] = {}
#: Maximum number of remembered functions: loops may create many. More take memory, fewer are examined again in each
#: call.
MOST_KNOWN: Final = 10_000
#: Builtins without side effects.
_HARMLESS: Final = frozenset(
    getattr(builtins, name)
    for name in (
        *("abs", "ascii", "bin", "callable", "chr", "divmod", "format", "getattr", "hasattr", "hash", "hex", "id"),
        *("isinstance", "issubclass", "len", "oct", "ord", "pow", "print", "repr", "round"),
    )
)
#: Builtins that may consume an iterator, or make a container.
_CONSUMING: Final = frozenset(
    getattr(builtins, name)
    for name in (
        *("all", "any", "dict", "enumerate", "filter", "frozenset", "iter", "list", "map", "max", "min", "reversed"),
        *("set", "sorted", "sum", "tuple", "zip"),
    )
)
#: Modules whose functions change only their arguments.
_PURE_MODULES: Final = frozenset(
    (
        *("_bisect", "_functools", "_heapq", "_operator", "accumulus", "bisect", "cmath", "collections", "copy"),
        *("decimal", "fractions", "functools", "heapq", "itertools", "math", "numbers", "numpy", "operator", "scipy"),
        *("statistics",),
    )
)
#: Folder of Python's standard library, and the folders of installed packages in it.
_STANDARD: Final = str(Path(os.__file__).parent) + os.sep
_INSTALLED: Final = (_STANDARD + "site-packages", _STANDARD + "dist-packages")
#: NumPy functions that write into an argument.
_FILLING: Final = frozenset({"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})
#: Methods of arrays with arguments that may be traced, and without effects. Others dispatch, or change the array.
_OF_ARRAYS: Final = frozenset({"choose", "compress", "dot", "searchsorted"})
#: Types with methods that have no side effects, and types with methods that change the object only.
_UNCHANGING: Final = (str, bytes, int, float, complex, tuple, frozenset, range, np.generic, types.ModuleType, type)
_CONTAINERS: Final = (list, dict, set)


def called(function: Any) -> Any:
    """Return the function to call in place of another."""
    cached = _KNOWN.get(id(function))
    if cached is None or cached[0] is not function:
        if ACTIVE.tape is None:
            return function
        cached = function, *_replacement(function)
        if len(_KNOWN) < MOST_KNOWN and type(function) is not MethodType:
            _KNOWN[id(function)] = cached
    if cached[2] or not ACTIVE.merging:
        return cached[1]
    return functools.partial(_watched, cached[0], cached[1])


def forget() -> None:
    """Forget the functions that were called."""
    _KNOWN.clear()


def _replacement(function: Any) -> tuple[Any, bool]:
    """Return the replacement of a function, and True if a branch may call it without a check."""
    kind = type(function)
    if kind in dispatchers():
        return _replacement(function.py_func)
    if kind is FunctionType:
        return _function(function)
    if kind is MethodType:
        target, pure = _replacement(function.__func__)
        if isinstance(function.__self__, Traced):
            return function, True
        return (function if target is function.__func__ else MethodType(target, function.__self__)), pure
    if kind is functools.partial:
        target, pure = _replacement(function.func)
        if target is function.func:
            return function, pure
        return functools.partial(target, *function.args, **function.keywords), pure
    if kind is functools._lru_cache_wrapper:  # traced values have no hash, so the cache is bypassed
        return _replacement(function.__wrapped__)
    if kind is BuiltinFunctionType:
        if type(function.__self__) is np.ndarray and function.__name__ in _OF_ARRAYS:
            return functools.partial(_of_array, function), True
        if isinstance(function.__self__, np.ufunc) and function.__name__ != "at":  # the index of `at` is no operand
            return functools.partial(_on_lists, function), False
        return BUILTINS.get(function, function), function in _HARMLESS
    if isinstance(function, type):
        return _class(function)
    if isinstance(function, np.ufunc):
        return functools.partial(_on_lists, function), False
    if kind is np.vectorize:
        return vectorized(function, called), True
    call = getattr(kind, "__call__", None)  # noqa: B004  # a function of Python
    if isinstance(call, FunctionType):
        target, pure = _replacement(call)
        return (function, pure) if target is call else (MethodType(target, function), pure)
    return function, False


def _of_array(method: Any, *arguments: Any, **keywords: Any) -> Any:
    """Call a method of a plain array, whose arguments may be traced."""
    if not depends(arguments) and not depends(keywords):
        return method(*arguments, **keywords)
    return getattr(as_array(ACTIVE.tape, method.__self__), method.__name__)(*arguments, **keywords)


def _subclass(cls: type, *arguments: Any, **keywords: Any) -> Any:
    """Return an object of a subclass of NumPy's arrays, which cannot have traced entries."""
    if depends(arguments) or depends(keywords):
        raise no_subclass(cls)
    return cls(*arguments, **keywords)


def _on_lists(function: Any, *arguments: Any, **keywords: Any) -> Any:
    """Call a universal function, or one of its methods; NumPy does not dispatch on lists of traced values."""
    for argument in arguments:
        if type(argument) in (list, tuple) and depends(argument):
            tape = ACTIVE.tape
            arguments = tuple(as_array(tape, each) if type(each) in (list, tuple) else each for each in arguments)
            break
    return function(*arguments, **keywords)


def _function(function: FunctionType) -> tuple[Any, bool]:
    if _is_converted(function):
        return function, True
    if hasattr(function, "py_func") and function.__code__.co_filename.startswith(PACKAGE_DIRECTORY):
        return _replacement(function.py_func)
    if function.__code__.co_filename.startswith(PACKAGE_DIRECTORY):  # replacements check their caller
        return function, function.__name__ not in _FILLING
    if is_library_code(function.__code__, function.__globals__) or _is_standard(function):
        return BUILTINS.get(function, function), False
    from accumulus.frontends.source.conversion import converted  # imported with the first function to transform

    new = converted(function, NAMES)
    return (function, False) if new is None else (new, True)


def _is_converted(function: FunctionType) -> bool:
    """Return True if a function is transformed, or is defined inside of a transformed one."""
    return any(name in NAMES for name in function.__code__.co_freevars)


def _is_standard(function: FunctionType) -> bool:
    """Return True if a function belongs to Python's standard library."""
    file = function.__code__.co_filename
    return file.startswith(_STANDARD) and not file.startswith(_INSTALLED)


def _class(cls: type) -> tuple[Any, bool]:
    """Return the replacement of a class: ``__init__`` is transformed if objects are made in no other way."""
    if cls in BUILTINS or cls in _CONSUMING:
        return BUILTINS.get(cls, cls), cls not in _CONSUMING
    if issubclass(cls, np.ndarray) and cls is not np.ndarray:
        return functools.partial(_subclass, cls), False
    initial: Any = getattr(cls, "__init__", None)
    new: Any = cls.__new__
    if type(cls) is not type or new is not object.__new__ or type(initial) is not FunctionType:
        return cls, True
    target, pure = _function(initial)
    if target is initial:
        return cls, True

    def make(*arguments: Any, **keywords: Any) -> Any:
        instance: Any = new(cls)
        attributes = getattr(instance, "__dict__", None)
        if ACTIVE.merging and attributes is not None:
            made(attributes)
        target(instance, *arguments, **keywords)
        return instance

    return make, pure


def _watched(function: Any, target: Any, *arguments: Any, **keywords: Any) -> Any:
    """Call a function in a branch, after saving the arguments that it may change; return its result.

    Raises:
        UnmergeableError: if it may have other side effects.
    """
    owner = getattr(function, "__self__", None)
    if type(owner) in _CONTAINERS or type(owner) is np.ndarray:
        note(owner)
    elif not _is_pure(function, owner):
        raise UnmergeableError
    for argument in (*arguments, *keywords.values()):
        _note_argument(argument)
    result = target(*arguments, **keywords)
    if isinstance(result, Iterator) or type(result) in _CONTAINERS:
        made(result)
    return result


def _is_pure(function: Any, owner: Any) -> bool:
    """Return True if a function that is not transformed changes only its arguments."""
    if isinstance(function, Hashable) and function in _CONSUMING:
        return True
    if isinstance(owner, types.ModuleType):
        return _package(owner.__name__) in _PURE_MODULES
    if owner is not None and not isinstance(function, MethodType):
        return isinstance(owner, _UNCHANGING)
    if isinstance(function, FunctionType | MethodType):
        if function.__code__.co_filename.startswith(PACKAGE_DIRECTORY):
            return False
        return _package(function.__module__) in _PURE_MODULES
    return isinstance(function, types.MethodDescriptorType) or _package(type(function).__module__) in _PURE_MODULES


def _package(module: str | None) -> str:
    return str(module).partition(".")[0]


def _note_argument(argument: Any) -> None:
    """Save an argument that a function which is not transformed may change.

    Raises:
        UnmergeableError: if the change cannot be undone.
    """
    if type(argument) in _CONTAINERS or type(argument) is np.ndarray:
        note(argument)
    elif isinstance(argument, Iterator) and not is_fresh(argument):
        frame = getattr(argument, "gi_frame", None)
        if frame is None or frame.f_lasti > 0:  # a generator that has not begun was most likely created in the branch
            raise UnmergeableError
    elif isinstance(argument, FunctionType) and not (
        _is_converted(argument) or is_library_code(argument.__code__, argument.__globals__)
    ):
        raise UnmergeableError


def _written(container: Any, items: bool = False) -> Any:
    """Return a container, after saving its content before a write; with `items`, save its items, too."""
    if ACTIVE.merging:
        _note_written(container)
        if items and type(container) in (list, dict):
            for item in container.values() if type(container) is dict else container:
                if type(item) in _CONTAINERS or type(item) is np.ndarray:
                    note(item)
    return container


def _note_written(container: Any) -> None:
    if type(container) in _CONTAINERS or type(container) is np.ndarray:
        note(container)
    elif not isinstance(container, (Traced, *_UNCHANGING, type(None))):
        raise UnmergeableError


def _indexed(container: Any) -> Any:
    """Return a container that accepts traced indices; NumPy's arrays accept only plain numbers."""
    return _Constants(container) if type(container) is np.ndarray and container.dtype.kind in "fiub" else container


class _Constants:
    """A plain array that accepts indices which depend on the arguments."""

    __slots__ = ("_array",)

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> Any:
        for item in index if type(index) is tuple else (index,):  # runs in every iteration, mostly on plain numbers
            if type(item) is TracedArray and not item.boolean and depends(item):
                return as_array(ACTIVE.tape, self._array)[index]
        return self._array[index]


def _owner(value: Any, items: bool = False) -> Any:
    """Return an object, after saving its attributes before one is set.

    Raises:
        UnmergeableError: if the assignment cannot be undone.
    """
    if ACTIVE.merging:
        kind = type(value)
        attributes = getattr(value, "__dict__", None)
        sets: Any = kind.__setattr__
        if type(attributes) is not dict or sets is not object.__setattr__ or isinstance(value, type):
            raise UnmergeableError
        _written(attributes, items)
    return value


def _new(container: Any) -> Any:
    """Return a new list, dict or set, after registering it as made in the branch."""
    if ACTIVE.merging:
        made(container)
    return container


def _over(iterable: Any) -> Any:
    """Return the iterable of a loop.

    Raises:
        UnmergeableError: for an iterator from outside of the branch, which cannot be rewound.
    """
    if ACTIVE.merging and isinstance(iterable, Iterator) and not is_fresh(iterable):
        raise UnmergeableError
    return iterable


@contextmanager
def _trying() -> Iterator[None]:
    """Mark the body of a ``try`` that catches errors."""
    ACTIVE.trying += 1
    try:
        yield
    finally:
        ACTIVE.trying -= 1


#: Functions that transformed code calls (`accumulus.frontends.source.syntax`).
NAMES: Final[dict[str, Callable[..., Any] | Any]] = {
    "@call": called,  # the function to call in place of another
    "@decided": decided_here,  # a condition within a `for` statement
    "@plain": truth_of,  # plain truth of a value, or the traced value
    "@begin": begin_merge,  # an `if` on a traced value begins or continues
    "@choose": _choose,  # a conditional expression
    "@and": functools.partial(_joined, False),  # `and` of a value and of functions of further operands
    "@or": functools.partial(_joined, True),  # `or` of the same
    "@not": negate,
    "@compare": _compare,  # a chained comparison
    "@is": _is_truth,  # `is` with True or False on the right
    "@written": _written,  # a container before a write
    "@indexed": _indexed,  # a container before a lookup, maybe with a traced index
    "@owner": _owner,  # an object before an attribute is set
    "@new": _new,  # a new list, dict or set
    "@over": _over,  # the iterable of a loop
    "@iterations": iterations,  # the iterable of a `for` statement
    "@while": while_loop,  # a `while` statement that begins
    "@loop": RunningLoop,  # a loop with an early exit
    "@trying": _trying,  # context of the body of a `try` that catches errors
    "@outside": outside,  # before a global variable is set, or all exceptions are caught
    "@undefined": MISSING,  # value that marks unset variables
    "@bool": bool,
    "@locals": locals,
    "@error": BaseException,
}
CALLED[0] = called
