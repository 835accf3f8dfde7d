"""Runtime of a wheel of `accumulus build`: calls of its compiled function with NumPy arrays.

Each wheel contains an unchanged copy of this file, so it imports only NumPy and the standard library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np


class Function:
    """A function of a compiled library.

    Args:
        library: path of the library.
        name: name of the function in it.
        parameters: names of its arguments.
        arguments: shapes of the arguments at one point.
        results: shapes of its results at one point.
        dtype: dtype of arguments and results.
        guarded: True if an additional result marks the points at which the others are valid.
        work: number of entries in the work space of a function with loops, whose points are contiguous; None without
            loops.

    Raises:
        ImportError: if this processor lacks instructions that the library was compiled for.
    """

    def __init__(
        self,
        library: str,
        name: str,
        parameters: Sequence[str],
        arguments: Sequence[tuple[int, ...]],
        results: Sequence[tuple[int, ...]],
        dtype: str,
        guarded: bool,
        work: int | None,
    ) -> None:
        self._library = ctypes.CDLL(library)
        if not getattr(self._library, f"{name}_runs_here")():
            raise ImportError(f"{name} was compiled for a processor with instructions that this one lacks")
        self._name, self._parameters, self._arguments = name, tuple(parameters), tuple(arguments)
        self._results, self._dtype, self._guarded = (*results, *([()] if guarded else [])), np.dtype(dtype), guarded
        arrays = len(self._arguments) + len(self._results)
        self._work, more = work, [] if work is None else [ctypes.c_void_p]
        self._point = getattr(self._library, name)
        self._point.restype, self._point.argtypes = None, [ctypes.c_void_p] * arrays + more
        self._strided = getattr(self._library, f"{name}_strided")
        argument_types = [ctypes.c_void_p, ctypes.c_ssize_t, *([ctypes.c_ssize_t] if work is None else [])]
        self._strided.restype, self._strided.argtypes = None, [ctypes.c_size_t, *(argument_types * arrays), *more]

    def point(self, *values: Any) -> tuple[Any, ...]:
        """Return the results at one point, a tuple of arrays and numbers.

        Raises:
            ValueError: for an argument of another shape, or a point at which the program does not hold.
            TypeError: for an argument that is not an array of real numbers.
        """
        arguments = [self._array(k, x) for k, x in enumerate(values)]
        for k, (x, shape) in enumerate(zip(arguments, self._arguments, strict=True)):
            if x.shape != shape:
                raise ValueError(f"{self._parameters[k]} of {self._name} has shape {x.shape}; expected {shape}")
        results = [np.empty(shape, self._dtype) for shape in self._results]
        arrays = [*arguments, *results, *self._space()]
        self._point(*[array.ctypes.data for array in arrays])
        return tuple([result[()] for result in self._right(results)])

    def batch(self, *values: Any) -> tuple[Any, ...]:
        """Return the results at many points, a tuple of arrays with a leading axis of points.

        Arguments have that axis, too, or the shape of one point, if all points share them.

        Raises:
            ValueError: for an argument of another shape, or if the program does not hold at a point.
            TypeError: for an argument that is not an array of real numbers.
        """
        arguments = [self._array(k, x) for k, x in enumerate(values)]
        count: int | None = None
        for k, (x, shape) in enumerate(zip(arguments, self._arguments, strict=True)):
            if x.shape == shape:
                continue
            if x.shape[1:] != shape or not x.ndim or count not in (None, len(x)):
                points = "points" if count is None else count
                raise ValueError(
                    f"{self._parameters[k]} of {self._name} has shape {x.shape}; expected {shape}, or an axis of "
                    f"{points} in front of that"
                )
            count = len(x)
        if count is None:
            raise ValueError(f"no argument of {self._name} has an axis of points; expected at least one that has")
        results = [np.empty((count, *shape), self._dtype) for shape in self._results]
        places = []
        for array, shape in zip((*arguments, *results), (*self._arguments, *self._results), strict=True):
            distance = 0 if array.shape == shape else int(np.prod(shape, dtype=np.int64))
            places += [array.ctypes.data, distance, *([1] if self._work is None else [])]
        if count:
            space = self._space()
            self._strided(count, *places, *[array.ctypes.data for array in space])
        return tuple(self._right(results))

    def _space(self) -> list[Any]:
        """Return a new work space, if the function takes one."""
        return [] if self._work is None else [np.empty(self._work)]

    def _array(self, k: int, x: Any) -> Any:
        array = np.asarray(x)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{self._parameters[k]} of {self._name} is {array.dtype}; expected real numbers")
        return np.require(array, self._dtype, ["C", "A"])

    def _right(self, results: list[Any]) -> list[Any]:
        """Return the results; raise `ValueError` if the program does not hold."""
        if self._guarded and not np.all(results.pop() > 0):
            raise ValueError(
                f"{self._name} takes another branch at such a point than where it was recorded; it was built for one "
                "case"
            )
        return results
