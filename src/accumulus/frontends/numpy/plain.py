"""Python's builtins of traced values: what compares by selects, what asks for a type as it is."""

from __future__ import annotations

import builtins
import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from accumulus.frontends.decisions import order
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.complex_numbers.values import make_complex
from accumulus.frontends.numpy.deciding import choose
from accumulus.frontends.numpy.joining import truth_of
from accumulus.frontends.numpy.operands import depends, holds_complex, references_of
from accumulus.frontends.numpy.scalars import Traced
from accumulus.frontends.numpy.table import CALLED

__all__ = ["BUILTINS"]

#: Numbers that are sorted by comparing and exchanging, at most; more are sorted as at the given point.
MOST_SORTED: Final = 8


def _extreme(name: str) -> Callable[..., Any]:
    """`max` or `min`: of two that compare equal, the first, as Python has it."""
    original = getattr(builtins, name)
    site = ("builtin", name)

    def extreme(*arguments: Any, key: Any = None, **keywords: Any) -> Any:
        items = list(arguments[0]) if len(arguments) == 1 else list(arguments)
        if key is not None or not items or not any(isinstance(item, Traced) for item in items):
            key = None if key is None else _callee(key)
            return original(items, key=key, **keywords) if items or keywords else original(*arguments, key=key)
        best, *others = items
        for item in others:
            better = item > best if name == "max" else item < best
            best = choose(site, better, lambda: item, lambda: best)  # noqa: B023
        return best

    return functools.update_wrapper(extreme, original)


def _sorted(iterable: Iterable[Any], *, key: Any = None, reverse: Any = False) -> list[Any]:
    """Few numbers by comparing and exchanging, more in the order that they have at the given point."""
    items = list(iterable)
    if key is not None or not depends(items) or any(np.ndim(item) for item in items):
        return sorted(items, key=None if key is None else _callee(key), reverse=bool(reverse))
    if len(items) <= MOST_SORTED:
        for last in range(len(items) - 1, 0, -1):
            for place in range(last):
                one, other = items[place : place + 2]
                swap = one < other if reverse else other < one
                items[place] = _select(swap, other, one)
                items[place + 1] = _select(swap, one, other)
        return items
    tape = next(item.tape for item in items if isinstance(item, Traced))
    numbers = references_of(tape, items)
    if not reverse:
        return [items[place] for place in order(tape, numbers)]
    # equal ones stay as they come in descending order, too
    return [items[-1 - place] for place in order(tape, numbers[::-1])][::-1]


def _select(condition: Any, one: Any, other: Any) -> Any:
    return choose(("builtin", "sorted"), condition, lambda: one, lambda: other)


def _any(iterable: Iterable[Any]) -> Any:
    """Whether one is true: a traced truth value if that depends on the inputs."""
    found: Any = False
    for item in iterable:
        truth = truth_of(item)
        if truth is True:
            return True
        if truth is not False:
            found = truth if found is False else found | truth
    return found


def _all(iterable: Iterable[Any]) -> Any:
    """Whether all are true."""
    found: Any = True
    for item in iterable:
        truth = truth_of(item)
        if truth is False:
            return False
        if truth is not True:
            found = truth if found is True else found & truth
    return found


def _float(*arguments: Any) -> Any:
    if len(arguments) == 1 and isinstance(value := arguments[0], Traced) and depends(value):
        scalar: Any = value.item() if isinstance(value, TracedArray) else value
        return np.where(scalar, 1.0, 0.0) if scalar.boolean else scalar
    return float(*arguments)


def _bool(*arguments: Any) -> Any:
    return truth_of(arguments[0]) if len(arguments) == 1 else bool(*arguments)


def _complex(*arguments: Any, **keywords: Any) -> Any:
    """``complex(x, y)`` of real values; ``complex(z)``, and what is added for the imaginary part."""
    parts = dict(zip(("real", "imag"), arguments, strict=False)) | keywords
    if not depends(parts):
        return complex(*arguments, **keywords)
    tape = next(part.tape for part in parts.values() if isinstance(part, Traced))
    real, imag = parts.get("real", 0.0), parts.get("imag", 0.0)
    if holds_complex([real, imag]):
        return real + 1j * imag
    return make_complex(tape, real, imag)


def _callee(function: Any) -> Any:
    return CALLED[0](function)


def _calling(original: Any) -> Callable[..., Any]:
    """A function whose first argument is called."""

    def function(first: Any, *arguments: Any, **keywords: Any) -> Any:
        return original(_callee(first), *arguments, **keywords)

    return functools.update_wrapper(function, original, assigned=("__name__", "__doc__"))


def _accumulate(iterable: Iterable[Any], func: Any = None, **keywords: Any) -> Any:
    return itertools.accumulate(iterable, None if func is None else _callee(func), **keywords)


#: Builtin → what takes its place in transformed code.
BUILTINS: Final[dict[Any, Callable[..., Any]]] = {
    max: _extreme("max"),
    min: _extreme("min"),
    sorted: _sorted,
    any: _any,
    all: _all,
    float: _float,
    bool: _bool,
    complex: _complex,
    **{function: _calling(function) for function in (map, filter, functools.reduce, functools.partial)},
    itertools.accumulate: _accumulate,
}
