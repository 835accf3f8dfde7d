"""A function and a program for its values and Jacobian, side by side in flat arrays: values first, then derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.agreement import run, where_it_holds
from accumulus.frontends.location import argument_name
from accumulus.frontends.points import as_inputs
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import flatten
from accumulus.programs.program import Program
from accumulus.tape.error_bounds import evaluate_with_bounds

__all__ = ["FlatProblem"]

Floats = NDArray[np.float64]
#: What is passed to the function, in its order.
Point = Sequence[Any]


class FlatProblem:
    """What is checked.

    Args:
        function: the user's.
        recording: what was recorded of it.
        program: compiled from that, for values and dense derivatives.
        argnums: positions of the arguments that are differentiated by.
    """

    def __init__(
        self, function: Callable[..., Any], recording: Recording, program: Program, argnums: tuple[int, ...]
    ) -> None:
        self.function = function
        self.recording = recording
        self.program = program
        sizes = [math.prod(shape) for shape in recording.result_shapes]
        self.rows = sum(sizes)
        shapes = [(k, recording.argument_shapes[k] or ()) for k in argnums]
        #: Position of the argument, and index in it, of each column of the Jacobian.
        self.columns = [(k, index) for k, shape in shapes for index in np.ndindex(*shape)]
        #: Where among the flat entries those of the Jacobian are.
        self._places = np.empty((self.rows, len(self.columns)), np.intp)
        start = row = 0
        for size in sizes:
            column = 0
            for _, shape in shapes:
                width = math.prod(shape)
                block = np.arange(start, start + size * width).reshape(size, width)
                self._places[row : row + size, column : column + width] = self.rows + block
                start, column = start + block.size, column + width
            row += size

    def inputs(self, points: Sequence[Point]) -> Floats:
        """Inputs of the recording, of shape (points, inputs)."""
        return np.stack([as_inputs(point, self.recording.argument_shapes) for point in points])

    def values(self, point: Point) -> Floats | None:
        """Values of the function; None if it has none there, or where it decides otherwise than in the recording."""
        if not where_it_holds(self.recording, self.inputs([point]))[0]:
            return None
        try:
            outcome = run(self.function, point)
        except Exception:
            return None
        fits = (outcome.structure, outcome.shapes) == (self.recording.structure, self.recording.result_shapes)
        return outcome.entries if fits and outcome.is_real else None

    def moved(self, point: Point, column: int, value: complex) -> list[Any]:
        """The point with another number in the place of a column's entry."""
        position, index = self.columns[column]
        changed = np.array(point[position], np.result_type(np.float64, type(value)))
        changed[index] = value
        return [changed[()] if k == position else argument for k, argument in enumerate(point)]

    def interpreted(self, points: Sequence[Point]) -> tuple[Floats, Floats]:
        """What the program's tape gives in NumPy, and bounds on its rounding, of shape (entries, points)."""
        columns = list(np.ascontiguousarray(self.inputs(points).T))
        values, bounds = evaluate_with_bounds(self.program.tape, columns, self.program.options.dtype)
        parts = []
        segments = self.program.kernel.segments[: -1 if self.recording.guards else None]
        for source in (values, bounds):
            for segment in segments:
                part = np.zeros((segment.length, len(points)))
                part[list(segment.positions)] = source[list(segment.outputs)]
                parts.append(part)
        middle = len(parts) // 2
        return np.concatenate(parts[:middle]), np.concatenate(parts[middle:])

    def jacobian(self, entries: Floats) -> Floats:
        """The derivatives among the entries at one point as a matrix (rows, columns)."""
        return entries[self._places]

    def name(self, entry: int) -> str:
        """How an entry of the flat arrays is written."""
        if entry < self.rows:
            return f"f(…){self.recording.entry_name(entry)}"
        row, column = (int(i) for i in np.argwhere(self._places == entry)[0])
        return self.name_of_slope(row, column)

    def name_of_slope(self, row: int, column: int) -> str:
        """How an entry of the Jacobian is written."""
        position, index = self.columns[column]
        place = f"[{', '.join(map(str, index))}]" if index else ""
        return f"derivative of f(…){self.recording.entry_name(row)} by {argument_name(self.function, position)}{place}"


def flat(result: Any) -> Floats:
    """Arrays in the result of a program side by side, sparse ones in full."""
    leaves = [leaf.toarray() if hasattr(leaf, "toarray") else leaf for _, leaf in flatten(result)[1]]
    return np.concatenate([np.empty(0), *(np.ravel(leaf) for leaf in leaves)], dtype=np.float64)
