"""`np.vectorize`: a function of numbers is called for each entry of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.numpy.arrays import TracedArray, make
from accumulus.frontends.numpy.operands import depends, entries_of

__all__ = ["vectorized"]


def vectorized(original: np.vectorize, called: Callable[[Any], Any]) -> Callable[..., Any]:
    """What is called in place of an `np.vectorize`.

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
        tape: Any = ACTIVE.tape
        each = called(original.pyfunc)
        operands = np.broadcast_arrays(
            *(TracedArray(tape, np.asarray(r), boolean=b) for r, b in map(_entries, arguments))
        )
        shape = operands[0].shape
        results = [each(*(operand[index] for operand in operands)) for index in np.ndindex(shape)]
        if results and isinstance(results[0], tuple):
            return tuple(_gathered(tape, list(part), shape) for part in zip(*results, strict=True))
        return _gathered(tape, results, shape)

    def _entries(value: Any) -> Any:
        return entries_of(ACTIVE.tape, value)  # type: ignore[arg-type]  # while something is recorded

    return function


def _gathered(tape: Any, results: list[Any], shape: tuple[int, ...]) -> Any:
    entries, boolean = entries_of(tape, results)
    found = np.asarray(entries, np.int64).reshape(shape)
    return make(tape, found if shape else found.item(), boolean)
