"""`np.vectorize`, `np.frompyfunc`, `numba.vectorize`: a function of numbers, called for each entry of its arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.numpy.arrays import TracedArray, make
from accumulus.frontends.numpy.operands import depends, entries_of


def vectorized(original: np.vectorize, called: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return what is called in place of an `np.vectorize`.

    Args:
        called: what to call in place of the function that it has.
    """

    def function(*arguments: Any, **keywords: Any) -> Any:
        if not depends(arguments) and not depends(keywords):
            return original(*arguments, **keywords)
        if original.signature is not None or original.excluded or keywords:
            raise refuse(
                "np.vectorize with a signature, excluded arguments or keywords is not recorded: write a loop over "
                "the entries."
            )
        return entry_by_entry(ACTIVE.tape, called(original.pyfunc), arguments)

    return function


def function_of_entries(ufunc: Any) -> Callable[..., Any] | None:
    """The function of numbers that a universal function was made of; None if there is none."""
    numba = sys.modules.get("numba.np.ufunc.dufunc")
    if numba is not None and isinstance(ufunc, numba.DUFunc):
        return ufunc.__wrapped__  # type: ignore[no-any-return]
    if (
        ufunc.signature is None and ufunc.types and all(set(kinds) <= set("O->") for kinds in ufunc.types)
    ):  # np.frompyfunc

        def each(*entries: Any) -> Any:
            boxes = [np.empty((), object) for _ in entries]
            for box, entry in zip(boxes, entries, strict=True):
                box[()] = entry
            return ufunc(*boxes)

        return each
    return None


def entry_by_entry(tape: Any, each: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """A function of numbers at each entry of its arguments, which are broadcast; an array for each of its results."""
    given = [entries_of(tape, argument) for argument in arguments]
    operands = np.broadcast_arrays(*(TracedArray(tape, np.asarray(r), boolean=b) for r, b in given))
    shape = operands[0].shape
    results = [each(*(operand[index] for operand in operands)) for index in np.ndindex(shape)]
    if results and isinstance(results[0], tuple):
        return tuple(_gathered(tape, list(part), shape) for part in zip(*results, strict=True))
    return _gathered(tape, results, shape)


def _gathered(tape: Any, results: list[Any], shape: tuple[int, ...]) -> Any:
    entries, boolean = entries_of(tape, results)
    found = np.asarray(entries, np.int64).reshape(shape)
    return make(tape, found if shape else found.item(), boolean)
