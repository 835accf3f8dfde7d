"""The comparisons of a check: programs with each other and with the function, slopes with those of the function."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.exceptions import ComplexWarning
from numpy.typing import NDArray

from accumulus.checking.check_report import Finding
from accumulus.checking.differences import Slopes, central_differences, complex_step
from accumulus.checking.flat_problem import FlatProblem, Point, flat
from accumulus.frontends.agreement import run
from accumulus.frontends.trees import flatten
from accumulus.programs.program import Program
from accumulus.tape.error_bounds import UNIT, compare

__all__ = ["compare_programs", "compare_slopes"]

#: Columns of the Jacobian that are held against slopes at one point.
COLUMNS: Final = 16
#: How many error estimates differences may be off, and relative to themselves, and to the largest.
ESTIMATES: Final = 16.0
RELATIVE: Final = 1e-7
FLOOR: Final = 1e-9
#: What complex steps leave of derivatives that are zero.
NOTHING: Final = 1e-100
#: Relative bound on rounding beyond which a number has lost most of its digits.
LOST: Final = 1e-6

Floats = NDArray[np.float64]


def compare_programs(
    problem: FlatProblem, points: Sequence[Point], values: Sequence[Floats], others: Mapping[str, Program]
) -> Iterator[Finding]:
    """The recording with the function, the program with its tape in NumPy, batches and other programs with it.

    Args:
        points: where.
        values: of the function there.
        others: programs that return the same, each by the name of its comparison.
    """
    agreement = compare(problem.recording.tape, problem.inputs(points), np.stack(values, axis=1))
    finding = Finding("recording, function")
    for k, point in enumerate(points):
        finding.add(
            agreement.values[:, k],
            agreement.expected[:, k],
            agreement.allowed[:, k],
            partial(_entry, problem, point),
            lambda _: "The recording goes another way than the function does there.",
        )
    yield finding

    interpreted, bounds = problem.interpreted(points)
    bounds = 2.0 * bounds
    alone = np.stack([flat(problem.program(*point)) for point in points], axis=1)
    axes = tuple(None if shape is None else 0 for shape in problem.recording.argument_shapes)
    together = [
        points[0][k] if axis is None else np.stack([point[k] for point in points]) for k, axis in enumerate(axes)
    ]
    pairs = [("compiled code, its tape in NumPy", alone, interpreted)]
    if any(axis is not None for axis in axes):
        result = problem.program.batch(*together, in_axes=axes)
        pairs.append(("batch, one by one", _by_point(result, len(points)), alone))
    for name, program in others.items():
        pairs.append((name, np.stack([flat(program(*point)) for point in points], axis=1), alone))
    for name, one, other in pairs:
        finding = Finding(name)
        for k, point in enumerate(points):
            finding.add(one[:, k], other[:, k], bounds[:, k], partial(_entry, problem, point))
        yield finding


def compare_slopes(problem: FlatProblem, points: Sequence[Point]) -> Iterator[Finding]:
    """The Jacobian with complex steps where the function is analytic, and with differences."""
    exact, rough = Finding("Jacobian, complex step"), Finding("Jacobian, differences")
    generator = np.random.default_rng(0)
    _, bounds = problem.interpreted(points)
    narrow = np.finfo(problem.program.options.dtype).eps
    for k, point in enumerate(points):
        jacobian = problem.jacobian(flat(problem.program(*point)))
        rounding = problem.jacobian(bounds[:, k])
        chosen = np.arange(len(problem.columns))
        for column in np.sort(generator.permutation(chosen)[:COLUMNS]).tolist():
            slopes = _differences(problem, point, column)
            found, lost = jacobian[:, column], rounding[:, column]
            size = np.abs(slopes.central).max(initial=0.0, where=np.isfinite(slopes.central))
            allowed = ESTIMATES * slopes.error + RELATIVE * np.abs(slopes.central) + FLOOR * size + lost
            allowed += 64.0 * narrow * np.abs(found)
            # at a kink, any slope between those of its sides is one
            between = np.clip(found, np.fmin(slopes.left, slopes.right), np.fmax(slopes.left, slopes.right))
            expected = np.where(slopes.kinks, between, slopes.central)

            def where(row: int, point: Point = point, column: int = column) -> str:
                return f"{problem.name_of_slope(row, column)} at {_written(point)}"

            def reason(row: int, slopes: Slopes = slopes, found: Floats = found, lost: Floats = lost) -> str:
                if slopes.kinks[row]:
                    return f"A kink: the slopes of its sides are {slopes.left[row]:.6g} and {slopes.right[row]:.6g}."
                if lost[row] > LOST * abs(found[row]):
                    return f"Cancellation: rounding may change the derivative by {lost[row]:.2g}."
                return "The derivative is wrong there, or the function is not smooth."

            rough.add(found, expected, allowed, where, reason)
            steps = _complex_steps(problem, point, column)
            if steps is not None:
                analytic = (np.abs(steps - slopes.central) <= allowed) & ~slopes.kinks
                tight = 2.0 * lost + UNIT * np.abs(steps) + 64.0 * narrow * np.abs(found) + NOTHING
                exact.add(found, np.where(analytic, steps, np.nan), tight, where, reason)
    yield from (finding for finding in (exact, rough) if finding.compared)


def _differences(problem: FlatProblem, point: Point, column: int) -> Slopes:
    position, index = problem.columns[column]
    argument = np.abs(point[position])
    x = float(np.asarray(point[position])[index])

    def values(y: float) -> Floats:
        found = problem.values(problem.moved(point, column, y))
        return np.full(problem.rows, np.nan) if found is None else found

    return central_differences(values, x, abs(x) or float(argument.max()) or 1.0)


def _complex_steps(problem: FlatProblem, point: Point, column: int) -> Floats | None:
    """Slopes from complex steps; None where the function does not take complex numbers."""
    position, index = problem.columns[column]
    x = float(np.asarray(point[position])[index])

    def values(z: complex) -> NDArray[Any]:
        outcome = run(problem.function, problem.moved(point, column, z))
        return np.concatenate([leaf.ravel() for _, leaf in outcome.leaves]).astype(complex)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ComplexWarning)
            steps = complex_step(values, x)
    except Exception:
        return None
    return steps if len(steps) == problem.rows else None


def _by_point(result: Any, count: int) -> Floats:
    """The result of a batch, of shape (entries, points)."""
    leaves = [np.reshape(leaf, (count, -1)) for _, leaf in flatten(result)[1]]
    return np.concatenate([np.empty((count, 0)), *leaves], axis=1, dtype=np.float64).T


def _entry(problem: FlatProblem, point: Point, entry: int) -> str:
    return f"{problem.name(entry)} at {_written(point)}"


def _written(point: Point) -> str:
    return ", ".join(
        np.array2string(np.asarray(argument), threshold=8, separator=", ")
        for argument in point
        if isinstance(argument, np.ndarray | np.floating)
    )
