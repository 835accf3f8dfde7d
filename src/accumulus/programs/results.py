"""From the arrays that a kernel writes to results as users expect them, in the structure of the function's own.

A kernel has one array, a *segment*, for each leaf of the function's result (if values are wanted), then one for the
derivative of each leaf by each argument, either dense or the structural nonzeros only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.record import Recording
from accumulus.graph.linearize import Linearization
from accumulus.options import SparseFormat
from accumulus.programs.sparse import SparseBatch, SparsePattern
from accumulus.targets import Segment

__all__ = ["Nonzeros", "Results", "Wanted"]

#: What a program returns: the derivatives alone, or the values of the function, too.
Wanted = Literal["jacobian", "value_and_jacobian"]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Nonzeros:
    """Structural nonzeros of a matrix, row by row: place, and position among the accumulation's entries."""

    rows: NDArray[np.signedinteger[Any]]
    columns: NDArray[np.intp]
    outputs: NDArray[np.intp]

    @classmethod
    def of(cls, linearization: Linearization, entries: Sequence[tuple[int, int]]) -> Nonzeros:
        """Of all results by all inputs; results that are equal share the entries of a root."""
        pairs = np.array(entries, np.intp).reshape(-1, 2)
        roots = np.array(linearization.rows, np.intp)
        starts = np.searchsorted(pairs[:, 0], roots)
        counts = np.searchsorted(pairs[:, 0], roots, side="right") - starts
        # entry k of the whole is entry k - (entries of the rows above) of its row
        outputs = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        columns = np.array(linearization.columns, np.intp)[pairs[outputs, 1]]
        return cls(np.repeat(np.arange(len(roots)), counts), columns, outputs)

    def block(self, rows: range, columns: range) -> Nonzeros:
        """Those of a block, whose own rows and columns count from 0."""
        first, last = np.searchsorted(self.rows, (rows.start, rows.stop))
        chosen = slice(first, last)
        given = self.columns[chosen]
        if not len(given) or (columns.start <= int(given.min()) and int(given.max()) < columns.stop):
            own = self.rows[chosen] - rows.start if rows.start else self.rows[chosen]
            return Nonzeros(own, given - columns.start if columns.start else given, self.outputs[chosen])
        inside = (given >= columns.start) & (given < columns.stop)
        return Nonzeros(
            self.rows[chosen][inside] - rows.start,
            given[inside] - columns.start,
            self.outputs[chosen][inside],
        )


class Results:
    """Layout of a program's results.

    Args:
        argnums: the differentiated arguments; `single` if each leaf has one derivative instead of a tuple of them.
        nonzeros: of all results by all inputs; outputs are counted from the first that is a derivative.
    """

    def __init__(
        self,
        recording: Recording,
        nonzeros: Nonzeros,
        argnums: tuple[int, ...],
        *,
        single: bool,
        wanted: Wanted,
        sparse: SparseFormat | None,
        dtype: np.dtype[Any],
    ) -> None:
        self.segments: list[Segment] = []
        #: Shape of each segment at one point, as it is stored.
        self.shapes: list[Shape] = []
        self._patterns: list[SparsePattern] = []
        self._unflatten = recording.unflatten
        self._derivatives = len(argnums)
        self._leaves = len(recording.result_shapes)
        self._single = single
        self._wanted = wanted
        self._dtype = dtype
        sizes = [math.prod(shape) for shape in recording.result_shapes]
        starts = [sum(sizes[:k]) for k in range(len(sizes))]
        leaves = list(zip(starts, sizes, recording.result_shapes, strict=True))
        if wanted == "value_and_jacobian":
            for start, size, shape in leaves:
                self._add(self._segment(size, np.arange(start, start + size), np.arange(size)), shape)

        first = sum(sizes) if wanted == "value_and_jacobian" else 0
        for start, size, shape in leaves:
            rows = range(start, start + size)
            for argument in argnums:
                columns = range(recording.tape.inputs)[recording.argument_slices[argument]]
                shape_in = recording.argument_shapes[argument]
                assert shape_in is not None
                block = nonzeros.block(rows, columns)
                self._add_derivative(block, first, (size, len(columns)), (*shape, *shape_in), sparse)

    def _segment(self, length: int, outputs: NDArray[np.intp], places: NDArray[np.intp]) -> Segment:
        return Segment(length, tuple(outputs.tolist()), tuple(places.tolist()))

    def _in_order(self, outputs: NDArray[np.intp], first: int) -> Segment:
        """An array of some outputs, counted from the first that is a derivative."""
        return self._segment(len(outputs), outputs + first, np.arange(len(outputs)))

    def _add(self, segment: Segment, shape: Shape) -> None:
        self.segments.append(segment)
        self.shapes.append(shape)

    def _add_derivative(
        self, nonzeros: Nonzeros, first: int, size: tuple[int, int], shape: Shape, fmt: SparseFormat | None
    ) -> None:
        if fmt is None:
            outputs, places = nonzeros.outputs + first, nonzeros.rows.astype(np.intp) * size[1] + nonzeros.columns
            self._add(self._segment(size[0] * size[1], outputs, places), shape)
            return
        pattern, order = SparsePattern.ordered(nonzeros.rows, nonzeros.columns, size, fmt)
        outputs = nonzeros.outputs if order is None else nonzeros.outputs[order]
        self._patterns.append(pattern)
        self._add(self._in_order(outputs, first), (len(outputs),))

    @property
    def is_single(self) -> bool:
        """Whether there is one array, which is all that is returned."""
        leaf = object()
        return len(self.segments) == 1 and self._single and self._unflatten([leaf]) is leaf

    @property
    def is_pair(self) -> bool:
        """Whether a value and a derivative are all that is returned."""
        leaf = object()
        wanted = self._wanted == "value_and_jacobian" and self._single
        return wanted and len(self.segments) == 2 and self._unflatten([leaf]) is leaf

    def finish(self, matrices: bool) -> list[Callable[[NDArray[Any]], Any] | None]:
        """By segment: what makes a result at one point of its array; None where the array is the result."""
        patterns = self._patterns if matrices else []
        dense = self.shapes[: len(self.shapes) - len(patterns)]
        return [*(itemgetter(()) if shape == () else None for shape in dense), *(each.matrix for each in patterns)]

    def finish_batch(self, transposed: bool) -> list[Callable[[NDArray[Any]], Any] | None]:
        """By segment: what makes a result at many points of its array; None where the array is the result."""
        dense = len(self.shapes) - len(self._patterns)
        return [None] * dense + [
            partial(SparseBatch, pattern=pattern, transposed=transposed) for pattern in self._patterns
        ]

    @property
    def pattern(self) -> Any:
        """The structure of the derivatives with a `SparsePattern` for each; None if they are dense."""
        return self._by_leaf(self._patterns) if self._patterns else None

    def rebuild(
        self, arrays: Sequence[NDArray[Any]], points: int | None, transposed: bool = False, *, matrices: bool = True
    ) -> Any:
        """The structure of results from one flat array for each segment; `points` is None for one point.

        Args:
            matrices: whether sparse derivatives become matrices, or stay the values of their nonzeros.
        """
        finish = self.finish(matrices) if points is None else self.finish_batch(transposed)
        results: list[Any] = []
        for array, shape, convert in zip(arrays, self._shapes_of(points, transposed), finish, strict=True):
            shaped = array.reshape(shape)
            results.append(shaped if convert is None else convert(shaped))
        derivatives = results[len(results) - self._leaves * self._derivatives :]
        jacobian = self._by_leaf(derivatives)
        if self._wanted == "jacobian":
            return jacobian
        return self._unflatten(results[: self._leaves]), jacobian

    def _by_leaf(self, derivatives: Sequence[Any]) -> Any:
        """The structure of the function's result with the derivatives of each leaf, a tuple if there are several."""
        step = self._derivatives
        by_leaf = [derivatives[k * step : (k + 1) * step] for k in range(self._leaves)]
        return self._unflatten([row[0] if self._single else tuple(row) for row in by_leaf])

    def check_out(self, out: Any, points: int, transposed: bool) -> tuple[NDArray[Any], ...]:
        """The caller's arrays, one for each segment, as (points, length) or transposed; or `ArgumentError`."""
        arrays = (out,) if isinstance(out, np.ndarray) else tuple(out)
        expected = self._shapes_of(points, transposed)
        if len(arrays) != len(expected):
            raise ArgumentError(f"out has {len(arrays)} arrays; expected {len(expected)}, of shapes {expected}")
        for array, shape in zip(arrays, expected, strict=True):
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != self._dtype:
                given = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                raise ArgumentError(f"out is {given}; expected an array of {self._dtype} {shape}")
            if not (array.flags.c_contiguous and array.flags.writeable):
                raise ArgumentError("out is read-only or not C-contiguous; expected an array as np.empty makes it")
        flat = [math.prod(shape) for shape in self.shapes]
        return tuple(
            array.reshape((size, points) if transposed else (points, size))
            for array, size in zip(arrays, flat, strict=True)
        )

    def _shapes_of(self, points: int | None, transposed: bool) -> list[Shape]:
        if points is None:
            return self.shapes
        return [(*shape, points) if transposed else (points, *shape) for shape in self.shapes]
