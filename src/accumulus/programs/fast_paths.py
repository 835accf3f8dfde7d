"""The fast paths through a call: compiled code, arrays for its results, and as little Python in between as possible.

A fast path takes arguments as they come. The compiled code checks their shapes and dtypes itself. Where it cannot take
them it returns NotImplemented and has stored nothing; the slow path then converts them or raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accumulus.programs.guarded import GuardedKernel, Points, Ran, Settle, truths
from accumulus.programs.results import Results
from accumulus.targets import Kernel
from accumulus.targets.kernel import aligned

__all__ = ["FastPath", "beside_constants", "many_points", "no_fast_path", "one_point"]

#: Arguments → results, or NotImplemented.
FastPath = Callable[..., Any]


def no_fast_path(*arguments: Any) -> Any:
    """The fast path where there is none."""
    return NotImplemented


def one_point(kernel: Kernel, results: Results, ran: Ran | None = None, *, matrices: bool = True) -> FastPath:
    """The fast path for the numeric arguments of one point.

    Args:
        ran: counts calls of a guarded program, whose last array says whether its guards hold; where they do not, its
            results are nothing.
        matrices: whether sparse derivatives become matrices, or stay the values of their nonzeros.
    """
    found = kernel.point()
    if found is None:
        return no_fast_path
    compute = found
    empty, dtype, shapes, finish = np.empty, kernel.dtype, results.shapes, results.finish(matrices)
    # calls with a known number of results take half the time
    if results.is_single:
        (shape,), (convert,) = shapes, finish
        if ran is not None:

            def guarded(*arguments: Any) -> Any:
                result, holds = empty(shape, dtype), empty((), dtype)
                if compute(*arguments, result, holds) is not None or not holds:
                    return NotImplemented
                ran.calls += 1
                return result if convert is None else convert(result)

            return guarded

        def one(*arguments: Any) -> Any:
            result = empty(shape, dtype)
            if compute(*arguments, result) is not None:
                return NotImplemented
            return result if convert is None else convert(result)

        return one
    if ran is not None:
        compute = _where_guards_hold(compute, dtype, ran)
    if results.is_pair:
        (shape_1, shape_2), (convert_1, convert_2) = shapes, finish

        def pair(*arguments: Any) -> Any:
            first, second = empty(shape_1, dtype), empty(shape_2, dtype)
            if compute(*arguments, first, second) is not None:
                return NotImplemented
            return first if convert_1 is None else convert_1(first), second if convert_2 is None else convert_2(second)

        return pair

    make = results.maker(matrices)

    def several(*arguments: Any) -> Any:
        arrays = [empty(shape, dtype) for shape in shapes]
        return make(arrays) if compute(*arguments, *arrays) is None else NotImplemented

    return several


def _where_guards_hold(compute: Callable[..., Any], dtype: Any, ran: Ran) -> Callable[..., Any]:
    """A function that takes arguments and results: NotImplemented where guards fail, and counts where they hold."""
    empty = np.empty

    def call(*arrays: Any) -> Any:
        holds = empty((), dtype)
        if compute(*arrays, holds) is not None or not holds:
            return NotImplemented
        ran.calls += 1
        return None

    return call


def beside_constants(fast: FastPath, shapes: Sequence[object], arguments: Sequence[Any]) -> FastPath:
    """The fast path for all arguments; those without a shape must be identical (``is``) to the ones given here."""
    constants = [(k, arguments[k]) for k, shape in enumerate(shapes) if shape is None]
    numeric = [k for k, shape in enumerate(shapes) if shape is not None]
    if any(isinstance(constant, np.ndarray) for _, constant in constants):
        return no_fast_path  # its entries may have changed

    def call(*given: Any) -> Any:
        if len(given) != len(shapes):
            return NotImplemented
        for k, constant in constants:
            if given[k] is not constant:
                return NotImplemented
        return fast(*[given[k] for k in numeric])

    return call


def many_points(
    kernel: Kernel,
    results: Results,
    shared: tuple[bool, ...],
    transposed: bool,
    settle: Settle | None = None,
) -> Callable[[Sequence[Any], Any, int], Any]:
    """The fast path for batches on one thread: called with numeric arguments, `out`, and the number of threads.

    Args:
        settle: of a guarded program, what is done about points where guards fail.
    """
    compute = kernel.many(shared, transposed)
    if compute is None:
        return no_fast_path
    expected, leading, axis = len(shared), shared.index(False), -1 if transposed else 0
    most = kernel.most_points  # compiled code is not interrupted
    if settle is not None:
        compute = _settled(compute, settle, shared, transposed, kernel.dtype)
        kernel = GuardedKernel(kernel, settle)

    def points_of(arguments: Sequence[Any], threads: int) -> int:
        """The number of points; -1 if the slow path has to take them."""
        points = arguments[leading] if len(arguments) == expected else None
        if type(points) is not np.ndarray or not points.ndim:
            return -1
        count: int = points.shape[axis]
        return -1 if count > most or (threads > 1 and kernel.threads_for(count, threads) > 1) else count

    def several(arguments: Sequence[Any], out: Any, threads: int) -> Any:
        count = points_of(arguments, threads)
        if count < 0:
            return NotImplemented
        arrays = kernel.allocate(count, transposed) if out is None else results.check_out(out, count, transposed)
        if compute(*arguments, *arrays) is not None:
            return NotImplemented
        return results.rebuild(arrays, count, transposed)

    if not results.is_single:
        return several
    (shape,), (convert,) = results.shapes, results.finish_batch(transposed)
    dtype, at_one_point = kernel.dtype, slice(None, -1) if transposed else slice(1, None)

    def one(arguments: Sequence[Any], out: Any, threads: int) -> Any:
        if out is None:
            count = points_of(arguments, threads)
            if count < 0:
                return NotImplemented
            out = aligned((*shape, count) if transposed else (count, *shape), dtype)
        elif threads > 1 or type(out) is not np.ndarray or len(arguments) != expected:
            return several(arguments, out, threads)
        elif out.shape[at_one_point] != shape or out.shape[axis] > most:
            return NotImplemented
        # `compute` checks that all arrays have the same number of points
        if compute(*arguments, out) is not None:
            return NotImplemented
        return out if convert is None else convert(out)

    return one


def _settled(
    compute: Callable[..., Any], settle: Settle, shared: tuple[bool, ...], transposed: bool, dtype: Any
) -> Callable[..., Any]:
    """A function that takes arguments and results of a batch, at all points of which they are right then."""
    expected, leading = len(shared), shared.index(False)

    def call(*arrays: Any) -> Any:
        points = arrays[leading]
        count = points.shape[-1 if transposed else 0]
        holds = truths(count, transposed, dtype)
        if compute(*arrays, holds) is not None:
            return NotImplemented
        X = [np.asarray(x, dtype) for x in arrays[:expected]]
        results = [
            array.reshape((-1, count) if transposed else (count, -1)) if count else array for array in arrays[expected:]
        ]
        settle(Points(X, shared, transposed, 1), results, holds.reshape(-1))
        return None

    return call
