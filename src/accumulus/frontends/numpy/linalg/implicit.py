"""Values that are computed in one way and differentiated in another: implicit functions, and what all of them need."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import TracedArray, as_array
from accumulus.frontends.numpy.operands import depends, map_references, references_of
from accumulus.tape.tape import Tape

__all__ = ["attached", "constant_matrix", "fixed", "is_zero", "matrices_of", "plain", "square_of", "zeros"]


def attached(tape: Tape, value: Any, derivative: Any) -> Any:
    """The array `value`, with the derivative of the array `derivative`; what is constant in it stays so."""
    values = references_of(tape, value)
    found = map_references(tape, lambda body: partial(body.apply, "attach"), [values, references_of(tape, derivative)])
    return TracedArray(tape, np.where(values < 0, values, found))


def fixed(tape: Tape, value: Any) -> Any:
    """The array `value`, with derivative zero."""
    return attached(tape, value, np.zeros(np.shape(value)))


def plain(tape: Tape, value: Any) -> Any:
    """The array `value` without attached derivatives."""
    entries = references_of(tape, value)
    found = [
        tape.arguments(r)[0] if r >= tape.inputs and tape.operation(r).name == "attach" else r
        for r in entries.ravel().tolist()
    ]
    return TracedArray(tape, np.array(found, np.int64).reshape(entries.shape))


def zeros(tape: Tape, *shape: int) -> Any:
    """An array of zeros that can be filled."""
    return as_array(tape, np.zeros(shape))


def constant_matrix(tape: Tape, count: int, matrix: Any) -> Any:
    """A stack of so many equal matrices that can be filled."""
    return as_array(tape, np.broadcast_to(matrix, (count, *np.shape(matrix)))).copy()


def is_zero(entry: Any) -> bool:
    """Whether a traced entry, in each matrix of a stack, is a structural zero."""
    references: Any = entry.references
    return bool((references < 0).all()) and all(entry.tape.value_of(r) == 0.0 for r in set(references.ravel().tolist()))


def matrices_of(tape: Tape, a: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    """Matrices, in a stack with one axis, that can be changed; and the axes that the stack has had.

    Raises:
        numpy.linalg.LinAlgError: for fewer than two axes.
    """
    array = as_array(tape, a)
    if array.ndim < 2:
        raise np.linalg.LinAlgError(f"{name}: {array.ndim}-dimensional array given, at least two axes are needed")
    stack = array.shape[:-2]
    return array.reshape(int(np.prod(stack)), *array.shape[-2:]).copy(), stack


def square_of(tape: Tape, a: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    """As `matrices_of`, for square matrices."""
    matrices, stack = matrices_of(tape, a, name)
    if matrices.shape[-1] != matrices.shape[-2]:
        shape = stack + matrices.shape[1:]
        raise np.linalg.LinAlgError(f"{name}: the last two axes must be of equal length; the shape is {shape}")
    return matrices, stack


def check_constant(name: str, **options: Any) -> None:
    """Refuse options that depend on the arguments of the recorded function."""
    for option, value in options.items():
        if depends(value):
            raise refuse(f"{name}: {option} must be a constant.")
