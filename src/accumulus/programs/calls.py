"""The short ways through a call: compiled code, arrays for its results, and as little else in between as there can be.

A short way takes arguments as they come. Whether they are what the code was compiled for, the code sees itself; where
they are not, the answer is NotImplemented, nothing was written, and the long way says what is wrong, or converts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accumulus.programs.results import Results
from accumulus.targets import Kernel

__all__ = ["ShortWay", "beside_constants", "many_points", "one_point", "refuse"]

#: Arguments → results, or NotImplemented.
ShortWay = Callable[..., Any]


def refuse(*arguments: Any) -> Any:
    """The short way where there is none."""
    return NotImplemented


def one_point(kernel: Kernel, results: Results, *, matrices: bool = True) -> ShortWay:
    """The short way for the numeric arguments of one point.

    Args:
        matrices: whether sparse derivatives become matrices, or stay the values of their nonzeros.
    """
    compute = kernel.point()
    if compute is None:
        return refuse
    empty, dtype, shapes, finish = np.empty, kernel.dtype, results.shapes, results.finish(matrices)
    # calls with a known number of results take half the time
    if results.is_single:
        (shape,), (convert,) = shapes, finish

        def one(*arguments: Any) -> Any:
            result = empty(shape, dtype)
            if compute(*arguments, result) is not None:
                return NotImplemented
            return result if convert is None else convert(result)

        return one
    if results.is_pair:
        (shape_1, shape_2), (convert_1, convert_2) = shapes, finish

        def pair(*arguments: Any) -> Any:
            first, second = empty(shape_1, dtype), empty(shape_2, dtype)
            if compute(*arguments, first, second) is not None:
                return NotImplemented
            return first if convert_1 is None else convert_1(first), second if convert_2 is None else convert_2(second)

        return pair

    def several(*arguments: Any) -> Any:
        arrays = [empty(shape, dtype) for shape in shapes]
        if compute(*arguments, *arrays) is not None:
            return NotImplemented
        return results.rebuild(arrays, None, matrices=matrices)

    return several


def beside_constants(quick: ShortWay, shapes: Sequence[object], arguments: Sequence[Any]) -> ShortWay:
    """The short way for all arguments, of which those without a shape have to be the very objects that these are."""
    constants = [(k, arguments[k]) for k, shape in enumerate(shapes) if shape is None]
    numeric = [k for k, shape in enumerate(shapes) if shape is not None]
    if any(isinstance(constant, np.ndarray) for _, constant in constants):
        return refuse  # its entries may have changed

    def call(*given: Any) -> Any:
        if len(given) != len(shapes):
            return NotImplemented
        for k, constant in constants:
            if given[k] is not constant:
                return NotImplemented
        return quick(*[given[k] for k in numeric])

    return call


def many_points(
    kernel: Kernel, results: Results, shared: tuple[bool, ...], transposed: bool
) -> Callable[[Sequence[Any], Any, int], Any]:
    """The short way for batches on one thread: numeric arguments, what `out` is, and how many threads there are."""
    leading, axis = shared.index(False), -1 if transposed else 0
    single, dense = results.is_single, results.is_dense
    shape = results.shapes[0] if single else ()

    def call(arguments: Sequence[Any], out: Any, threads: int) -> Any:
        points = arguments[leading] if len(arguments) == len(shared) else None
        if type(points) is not np.ndarray or not points.ndim:
            return NotImplemented
        count = points.shape[axis]
        if threads > 1 and kernel.threads_for(count, threads) > 1:
            return NotImplemented
        arrays: Sequence[Any]
        if out is None:
            arrays = kernel.allocate(count, transposed)
        elif single and type(out) is np.ndarray and out.shape == ((*shape, count) if transposed else (count, *shape)):
            arrays = (out,)
        else:
            arrays = results.check_out(out, count, transposed)
        if not kernel.attempt(arguments, arrays, shared, transposed):
            return NotImplemented
        if single and dense:
            return arrays[0].reshape((*shape, count) if transposed else (count, *shape))
        return results.rebuild(arrays, count, transposed)

    return call
