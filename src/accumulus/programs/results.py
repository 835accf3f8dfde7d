"""Conversion of a kernel's arrays to results in the structure of the function's results.

A kernel has one array, a *segment*, for each leaf of the function's result if values are returned; followed by one for
the derivative of each leaf with respect to each argument, either dense or with the structural nonzeros only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.calls import FunctionSource, is_short, maker, reader, tree_expression
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import Branch, Leaf, Structure, flatten, grafted, leaf_paths, together, unflatten
from accumulus.options import SparseFormat
from accumulus.programs.graphs import inputs_of
from accumulus.programs.kinds import DerivativeKind, Seeds
from accumulus.programs.selection import SelectedEntries, Selection
from accumulus.programs.sparse import Nonzeros, OpenPattern, SparseBatch, SparsePattern
from accumulus.targets.kernel import Segment, indices

Shape = tuple[int, ...]
#: For each array, its conversion to a result; None if there is none.
Finish = Sequence[Callable[[NDArray[Any]], Any] | None]


class DerivativeBlock(NamedTuple):
    """Places of the derivatives of one result with respect to one argument; both are −1 for selected entries."""

    result: int  # position among the results
    argument: int  # position among the arguments
    shape: tuple[int, int]  # entries of the result × entries of the argument
    rows: NDArray[Any]
    columns: NDArray[Any]
    outputs: NDArray[Any]  # position of each nonzero among the outputs of the tape


class Results:
    """Layout of a program's results.

    Args:
        recording: recording of the differentiated function.
        nonzeros: nonzeros of all results by all inputs (by all directions, or of all weights); outputs are counted from
            the first derivative.
        selection: the differentiated arguments, and the structure of the derivatives of each leaf.
        kind: kind of the derivatives.
        sparse: format of sparse derivatives; None for dense ones.
        dtype: dtype of the results.
        pattern: places of the nonzeros of sparse results, if they include more than `nonzeros`.
        join: function that builds the returned value at a point from the results of all segments; by default they are
            returned in their structure.
    """

    def __init__(
        self,
        recording: Recording,
        nonzeros: Nonzeros,
        selection: Selection,
        *,
        kind: DerivativeKind,
        sparse: SparseFormat | None,
        dtype: np.dtype[Any],
        pattern: Nonzeros | None = None,
        join: Callable[[Sequence[Any]], Any] | None = None,
    ) -> None:
        self._join = join
        self.segments: list[Segment] = []
        #: Stored shape of each segment at one point.
        self.shapes: list[Shape] = []
        self._patterns: list[SparsePattern | OpenPattern] = []
        #: Structures of the derivatives, and of the whole result, with a leaf for each segment.
        self._jacobian, self.structure = _structures(recording, kind, selection)
        self.dtype = dtype
        sizes = [math.prod(shape) for shape in recording.result_shapes]
        starts = [sum(sizes[:k]) for k in range(len(sizes))]
        leaves = list(zip(starts, sizes, recording.result_shapes, strict=True))
        if kind.values:
            for start, size, shape in leaves:
                self._add(Segment(size, slice(start, start + size), slice(0, size)), shape)

        first = sum(sizes) if kind.values else 0
        if selection.places is not None:
            skipped = sum(sizes[: kind.skipped])
            self._add_selected(recording, nonzeros, selection, selection.places, skipped, first, sparse, pattern)
            return
        count, axis = selection.seed_count, () if selection.several is None else (selection.seed_count,)
        if kind.seeds is Seeds.TANGENTS:
            for start, size, shape in leaves:
                block = nonzeros.block(range(start, start + size), range(count))
                at = block.columns * size + block.rows.astype(np.intp)
                self._add(Segment(count * size, block.outputs + first, at), (*axis, *shape))
            return
        if kind.seeds is Seeds.COTANGENTS:  # the rows are the weights
            leaves = [(0, count, axis)]
        for start, size, shape in leaves[kind.skipped :]:
            rows = range(start, start + size)
            for argument in selection.positions if kind.derivatives else ():
                columns = range(recording.program.inputs)[recording.argument_slices[argument]]
                shape_in = recording.argument_shapes[argument]
                assert shape_in is not None
                block = nonzeros.block(rows, columns)
                places = None if pattern is None else pattern.block(rows, columns)
                whole = (*shape, *shape_in)
                self._add_derivative(block, places, first, (size, len(columns)), whole, sparse, columns.start)

    def _add_selected(
        self,
        recording: Recording,
        nonzeros: Nonzeros,
        selection: Selection,
        places: SelectedEntries,
        skipped: int,
        first: int,
        sparse: SparseFormat | None,
        pattern: Nonzeros | None,
    ) -> None:
        """Add the selected entries of the matrix of all results by all arguments, as one array or one matrix."""
        inputs = inputs_of(recording, selection.positions)
        arranged, fixed = places.arranged(nonzeros.as_matrix(inputs, skipped)), places.pattern
        if fixed is None and pattern is not None:
            fixed = places.arranged(pattern.as_matrix(inputs, skipped))
        self._add_derivative(arranged, fixed, first, places.matrix, places.shape, sparse)

    def _add(self, segment: Segment, shape: Shape) -> None:
        self.segments.append(segment)
        self.shapes.append(shape)

    def _add_derivative(
        self,
        nonzeros: Nonzeros,
        places_of_all: Nonzeros | None,
        first: int,
        size: tuple[int, int],
        shape: Shape,
        fmt: SparseFormat | None,
        before: int = 0,
    ) -> None:
        if nonzeros.open is not None:
            assert fmt is not None
            open_pattern = OpenPattern.of(nonzeros, size, before, fmt)
            self._patterns.append(open_pattern)
            self._add(
                Segment(len(open_pattern), open_pattern.outputs(nonzeros) + first, slice(0, len(open_pattern))),
                (len(open_pattern),),
            )
            return
        if fmt is None:
            outputs, places = nonzeros.outputs + first, nonzeros.rows.astype(np.intp) * size[1] + nonzeros.columns
            self._add(Segment(size[0] * size[1], outputs, places), shape)
            return
        if places_of_all is not None:
            pattern, order = SparsePattern.ordered(places_of_all.rows, places_of_all.columns, size, fmt)
            slot_of = np.arange(len(pattern)) if order is None else np.argsort(order)
            positions = places_of_all.find(nonzeros, size[1])
            self._patterns.append(pattern)
            self._add(Segment(len(pattern), nonzeros.outputs + first, slot_of[positions]), (len(pattern),))
            return
        pattern, order = SparsePattern.ordered(nonzeros.rows, nonzeros.columns, size, fmt)
        outputs = nonzeros.outputs if order is None else nonzeros.outputs[order]
        count = len(outputs)
        self._patterns.append(pattern)
        self._add(Segment(count, outputs + first, slice(0, count)), (count,))

    def block(self, k: int, pair: tuple[int, int], width: int) -> DerivativeBlock:
        """Return the places of the derivatives in segment `k`, in an array with `width` columns if they are dense.

        Args:
            k: number of the segment, counted from the end, −1 for the last one.
            pair: positions of the result and of the argument.
            width: number of entries of the argument.
        """
        segment = self.segments[k]
        outputs, places = indices(segment.outputs), indices(segment.positions)
        if self._patterns:
            pattern = self.fixed_patterns("a report")[k]
            return DerivativeBlock(*pair, pattern.shape, pattern.rows[places], pattern.columns[places], outputs)
        if pair[1] < 0:
            width = self.shapes[k][-1] if self.shapes[k] else 1
        rows, columns = np.divmod(places, max(width, 1))
        return DerivativeBlock(*pair, (segment.length // max(width, 1), width), rows, columns, outputs)

    @property
    def is_single(self) -> bool:
        """Return True if the result is a single array."""
        return self._join is None and isinstance(self.structure, Leaf)

    @property
    def takes_out(self) -> bool:
        """Return True if results can be written to arrays of the caller, see `check_out`."""
        return self._join is None and not self.is_open

    def finish(self, matrices: bool) -> list[Callable[[NDArray[Any]], Any] | None]:
        """Return, for each segment, the conversion of its array to a result at one point; None if there is none."""
        patterns = self._patterns if matrices else []
        dense = self.shapes[: len(self.shapes) - len(patterns)]
        return [*(itemgetter(()) if shape == () else None for shape in dense), *(each.matrix for each in patterns)]

    def finish_batch(self, transposed: bool) -> list[Callable[[NDArray[Any]], Any] | None]:
        """Return, for each segment, the conversion of its array to a result at many points; None if there is none."""
        dense = len(self.shapes) - len(self._patterns)
        return [None] * dense + [
            partial(SparseBatch, pattern=pattern, transposed=transposed) for pattern in self._patterns
        ]

    @property
    def pattern(self) -> Any:
        """The structure of the derivatives with a `SparsePattern` for each; None if they are dense."""
        if not self._patterns:
            return None
        return unflatten(self._jacobian, [p.last if isinstance(p, OpenPattern) else p for p in self._patterns])

    @property
    def is_open(self) -> bool:
        """Return True if places of nonzeros depend on indices among the arguments."""
        return any(isinstance(pattern, OpenPattern) for pattern in self._patterns)

    def fixed_patterns(self, subject: str) -> list[SparsePattern]:
        """Return the pattern of each sparse result.

        Args:
            subject: the caller, which needs fixed patterns, as the subject of the message.

        Raises:
            ArgumentError: if patterns depend on indices among the arguments.
        """
        if self.is_open:
            raise ArgumentError(
                f"{subject} needs nonzeros at fixed positions, and here they depend on indices among the arguments; "
                "make those static (static_argnums), or use a new derivative for each array of indices"
            )
        return [pattern for pattern in self._patterns if isinstance(pattern, SparsePattern)]

    def maker(self, matrices: bool) -> Callable[[Sequence[NDArray[Any]]], Any]:
        """Return a function from the arrays of the segments, in their shapes, to the result at one point."""
        return self.making(self.finish(matrices))

    def making(self, finish: Finish) -> Callable[[Sequence[NDArray[Any]]], Any]:
        """Return a function from arrays to the result in its structure, with the conversion of each array."""
        join = self._join
        if join is None:
            return maker(self.structure, finish)
        return lambda arrays: join([x if f is None else f(x) for x, f in zip(arrays, finish, strict=True)])

    def expression(self, names: Sequence[str], finish: Finish, source: FunctionSource) -> str | None:
        """Return the source of an expression that does as `making`, from arrays with names; None if it were long."""
        return tree_expression(self.structure, names, finish, source) if self._is_short else None

    @property
    def _is_short(self) -> bool:
        return self._join is None and is_short(self.structure)

    def reader(self) -> Callable[[Any], Sequence[Any] | None]:
        """Return a function that returns the leaves of `out` if it has the structure of the results, else None."""
        read = reader([self.structure], [0]) if self._is_short and _holds_arrays(self.structure) else None
        return lambda out: None if read is None else read((out,), {})

    def rebuild(
        self, arrays: Sequence[NDArray[Any]], points: int | None, transposed: bool = False, *, matrices: bool = True
    ) -> Any:
        """Return the results in their structure, built from flat arrays.

        Args:
            arrays: a flat array for each segment.
            points: number of points; None for one point without an axis of points.
            transposed: if True, points are on the last axis.
            matrices: if True, return sparse derivatives as matrices, else as values of their nonzeros.
        """
        finish = self.finish(matrices) if points is None else self.finish_batch(transposed)
        results: list[Any] = []
        for array, shape, convert in zip(arrays, self._shapes_of(points, transposed), finish, strict=True):
            shaped = array.reshape(shape)
            results.append(shaped if convert is None else convert(shaped))
        return unflatten(self.structure, results) if self._join is None else self._join(results)

    def check_out(self, out: Any, points: int | None, transposed: bool = False) -> tuple[NDArray[Any], ...]:
        """Return the caller's arrays, one for each segment; raise `ArgumentError` if they do not fit.

        Arrays of a batch are returned in shape (points, length), or (length, points) if transposed. Arrays of one point
        (`points` is None) are returned unchanged.
        """
        if self._join is not None:
            raise ArgumentError("out was given for a linear operator, which is not an array; leave it out")
        self.fixed_patterns("out=")
        arrays = self._arrays_in(out)
        expected = self._shapes_of(points, transposed)
        if len(arrays) != len(expected):
            raise ArgumentError(f"out has {len(arrays)} arrays; expected {len(expected)}, of shapes {expected}")
        for array, shape in zip(arrays, expected, strict=True):
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != self.dtype:
                description = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                raise ArgumentError(f"out is {description}; expected an array of {self.dtype} {shape}")
            if not (array.flags.c_contiguous and array.flags.writeable):
                raise ArgumentError("out is read-only or not C-contiguous; expected an array as np.empty makes it")
        if points is None:
            return tuple(arrays)
        flat = [math.prod(shape) for shape in self.shapes]
        return tuple(
            array.reshape((size, points) if transposed else (points, size))
            for array, size in zip(arrays, flat, strict=True)
        )

    def _arrays_in(self, out: Any) -> Sequence[Any]:
        """Return the arrays of `out`, which is an array, a sequence of arrays, or has the structure of the results."""
        if isinstance(out, np.ndarray):
            return (out,)
        if type(out) in (list, tuple) and all(isinstance(array, np.ndarray) for array in out):
            return tuple(out)
        names = list(leaf_paths(self.structure))
        structure, leaves = flatten(out)
        arrays = dict(leaves)
        if arrays.keys() != set(names) or not isinstance(structure, Branch):
            given = (
                f"has arrays at {', '.join(arrays)}" if isinstance(structure, Branch) else f"is {type(out).__name__}"
            )
            raise ArgumentError(
                f"out {given}; expected an array, a sequence of {len(names)} of them, or "
                f"arrays in the structure of the results, at {', '.join(names)}"
            )
        return [arrays[name] for name in names]

    def _shapes_of(self, points: int | None, transposed: bool) -> list[Shape]:
        if points is None:
            return self.shapes
        return [(*shape, points) if transposed else (points, *shape) for shape in self.shapes]


def _holds_arrays(structure: Structure) -> bool:
    """Return True if no leaf of a structure stands for another object than an array, such as a list."""
    if isinstance(structure, Branch):
        return all(map(_holds_arrays, structure.parts))
    return not isinstance(structure, Leaf) or structure.written is None


def _structures(recording: Recording, kind: DerivativeKind, selection: Selection) -> tuple[Structure, Structure]:
    """Return the structures of the derivatives and of the whole result."""
    results = recording.structure
    if kind.skipped:
        assert isinstance(results, Branch)
        values, derived = results.parts, results.parts[-1]
    else:
        values, derived = (results,), results
    if selection.places is not None:
        derivatives: Structure = Leaf()
    elif kind.seeds is Seeds.TANGENTS:
        derivatives = results
    else:
        derivatives = grafted(derived, selection.structure) if kind.seeds is Seeds.NONE else selection.structure
    parts = [*values * kind.values, *[derivatives] * kind.derivatives]
    return derivatives, together(parts) if len(parts) > 1 else parts[0]
