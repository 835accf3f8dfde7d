"""The comparisons of a check: programs with each other and with the function, derivatives with slopes of the function.

Function and program are compared as flat arrays, values first, followed by derivatives. Slopes of the function come
from central differences with error estimates, and from complex steps.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.exceptions import ComplexWarning
from numpy.typing import NDArray

from accumulus.frontends.agreement import run_on_copies, where_it_holds
from accumulus.frontends.kinds import as_inputs
from accumulus.frontends.location import argument_name
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import flatten
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.show.tables import amount, counted, plain_text, table
from accumulus.tape.error_bounds import UNIT, compare, evaluate_with_bounds
from accumulus.targets.kernel import Positions

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

# Slopes of functions of one number ------------------------------------------------------------------------------------


Floats = NDArray[np.float64]
#: First step relative to the argument, and number of halvings. A larger step leaves the domain or meets kinks, a
#: smaller one with fewer halvings leaves less accurate estimates; each halving costs two evaluations.
FIRST: Final = 0.0625
HALVINGS: Final = 10
#: Size of a complex step: its square is lost in any sum.
TINY: Final = 1e-150
#: Arguments of the function, in order.
Point = Sequence[Any]
#: Maximum number of Jacobian columns that are compared with slopes at one point: each costs some twenty evaluations,
#: and others stay uncompared.
COLUMNS: Final = 16
#: Tolerance of differences: in error estimates, relative to themselves, and relative to the largest. Larger ones accept
#: wrong derivatives, smaller ones report right ones.
ESTIMATES: Final = 16.0
RELATIVE: Final = 1e-7
FLOOR: Final = 1e-9
#: Absolute error of complex steps for derivatives that are zero: a larger one accepts small wrong derivatives, a
#: smaller one reports zeros that rounding perturbs.
NOTHING: Final = 1e-100
#: Relative bound on rounding above which a number has lost most of its digits. A larger one compares numbers that
#: differ by rounding, a smaller one leaves numbers uncompared.
LOST: Final = 1e-6


@dataclass(frozen=True, slots=True)
class ResultSlopes:
    """Slopes of several results at one point."""

    central: Floats  # slopes from central differences; NaN where the function has no values
    error: Floats  # error estimates, from the agreement of steps of different sizes
    # left, right: slopes from one side
    left: Floats
    right: Floats
    kinks: NDArray[np.bool_]  # True where left and right do not approach each other as the step is halved


def central_differences(run: Callable[[float], Floats], x: float, scale: float) -> ResultSlopes:
    """Return slopes of `run` at `x`, extrapolated from halved steps with the best agreement.

    Args:
        run: function from a number to a flat array of results.
        x: point at which slopes are computed.
        scale: size of numbers over which `run` changes little.

    Source:
        C. J. F. Ridders, Accurate computation of F'(x) and F'(x)F''(x), Advances in Engineering Software 4, 1982.

    >>> slopes = central_differences(lambda x: np.array([x**3]), 2.0, 2.0)
    >>> bool(abs(slopes.central[0] - 12.0) < 1e-9)
    True
    """
    middle = run(x)
    best, error = np.full(middle.shape, np.nan), np.full(middle.shape, np.inf)
    before: list[Floats] = []
    gaps: list[Floats] = []
    left = right = best
    with np.errstate(all="ignore"):
        for k in range(HALVINGS):
            step = FIRST * scale * 0.5**k
            above, below = x + step, x - step
            high, low = run(above), run(below)
            right, left = (high - middle) / (above - x), (middle - low) / (x - below)
            gaps.append(np.abs(right - left))
            row = [(high - low) / (above - below)]
            for order, coarser in enumerate(before):
                power = 4.0 ** (order + 1)
                row.append((power * row[-1] - coarser) / (power - 1.0))
                apart = np.fmax(np.abs(row[-1] - row[-2]), np.abs(row[-1] - coarser))
                # rounding of the values themselves
                apart = apart + 2.0**-50 * np.abs(middle) / step
                better = apart < error
                best, error = np.where(better, row[-1], best), np.where(better, apart, error)
            before = row
        # with jumps within larger steps, their agreement may be chance
        error = np.fmax(error, np.abs(best - before[0]))
        kinks = (gaps[-1] > 0.75 * gaps[-2]) & (gaps[-1] > 1e-6 * (np.abs(left) + np.abs(right)))
        return ResultSlopes(best, error, left, right, kinks & np.isfinite(gaps[-1]))


def complex_step(run: Callable[[complex], NDArray[Any]], x: float) -> Floats:
    """Return slopes of `run` at `x` from one complex step: accurate to rounding if it is analytic.

    Source:
        W. Squire, G. Trapp, Using complex variables to estimate derivatives of real functions, SIAM Review 40, 1998.

    >>> complex_step(lambda x: np.array([x**3]), 2.0)
    array([12.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(run(complex(x, TINY)).imag / TINY, np.float64)


# A function and a program ---------------------------------------------------------------------------------------------


class FlatProblem:
    """Function and program that are compared.

    Args:
        function: user's function.
        recording: recording of the function.
        program: program compiled from the recording, for values and dense derivatives.
        argnums: positions of the arguments to differentiate with respect to.
    """

    def __init__(
        self, function: Callable[..., Any], recording: Recording, program: CompiledProgram, argnums: tuple[int, ...]
    ) -> None:
        self.function = function
        self.recording = recording
        self.program = program
        sizes = [math.prod(shape) for shape in recording.result_shapes]
        self.rows = sum(sizes)
        shapes = [(k, recording.argument_shapes[k] or ()) for k in argnums]
        #: Position of the argument, and index in it, of each column of the Jacobian.
        self.columns = [(k, index) for k, shape in shapes for index in np.ndindex(*shape)]
        #: Positions of the Jacobian's entries among the flat entries.
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
        """Return the inputs of the recording at all points, (points, inputs)."""
        return np.stack([as_inputs(point, self.recording.argument_shapes) for point in points])

    def values(self, point: Point) -> Floats | None:
        """Return the function's values; None if it has none, or decides otherwise than in the recording."""
        if not where_it_holds(self.recording, self.inputs([point]))[0]:
            return None
        try:
            outcome = run_on_copies(self.function, point)
        except Exception:
            return None
        fits = (outcome.structure, outcome.shapes) == (self.recording.structure, self.recording.result_shapes)
        return outcome.entries if fits and outcome.is_real else None

    def moved(self, point: Point, column: int, value: complex) -> list[Any]:
        """Return the point with another number in a column's entry."""
        position, index = self.columns[column]
        changed = np.array(point[position], np.result_type(np.float64, type(value)))
        changed[index] = value
        return [changed[()] if k == position else argument for k, argument in enumerate(point)]

    def interpreted(self, points: Sequence[Point]) -> tuple[Floats, Floats]:
        """Return results of the program's operations in NumPy, and bounds on their rounding, both (entries, points)."""
        columns = list(np.ascontiguousarray(self.inputs(points).T))
        values, bounds = evaluate_with_bounds(self.program.tape, columns, self.program.options.dtype)
        parts = []
        segments = self.program.kernel.segments[: -1 if self.recording.guards else None]
        for source in (values, bounds):
            for segment in segments:
                entries = np.zeros((segment.length, len(points)))
                entries[_index(segment.positions)] = source[_index(segment.outputs)]
                parts.append(entries)
        middle = len(parts) // 2
        return np.concatenate(parts[:middle]), np.concatenate(parts[middle:])

    def jacobian(self, entries: Floats) -> Floats:
        """Return the derivatives among the entries at one point, (rows, columns)."""
        return entries[self._places]

    def name(self, entry: int) -> str:
        """Return the name of an entry of the flat arrays."""
        if entry < self.rows:
            return f"f(…){self.recording.entry_name(entry)}"
        row, column = (int(i) for i in np.argwhere(self._places == entry)[0])
        return self.name_of_slope(row, column)

    def name_of_slope(self, row: int, column: int) -> str:
        """Return the name of an entry of the Jacobian."""
        position, index = self.columns[column]
        subscript = f"[{', '.join(map(str, index))}]" if index else ""
        return (
            f"derivative of f(…){self.recording.entry_name(row)} by {argument_name(self.function, position)}{subscript}"
        )


def _index(positions: Positions | Sequence[int]) -> Positions | list[int]:
    """Return positions of a segment as an index of arrays."""
    return list(positions) if isinstance(positions, tuple) else positions  # type: ignore[return-value]


def flat(result: Any) -> Floats:
    """Return the arrays in the result of a program as one flat array, sparse ones in dense form."""
    leaves = [leaf.toarray() if hasattr(leaf, "toarray") else leaf for _, leaf in flatten(result)[1]]
    return np.concatenate([np.empty(0), *(np.ravel(leaf) for leaf in leaves)], dtype=np.float64)


# Comparisons ----------------------------------------------------------------------------------------------------------


def compare_programs(
    problem: FlatProblem, points: Sequence[Point], values: Sequence[Floats], alternatives: Mapping[str, CompiledProgram]
) -> Iterator[Finding]:
    """Yield findings: recording with function, program with its operations in NumPy, batches and other programs.

    Args:
        problem: function with its flat arguments, and its recording.
        points: points of the comparison.
        values: values of the function at the points.
        alternatives: programs with the same results, by the name of their comparison.
    """
    agreement = compare(problem.recording.program, problem.inputs(points), np.stack(values, axis=1))
    finding = Finding("recording, function")
    for k, point in enumerate(points):
        finding.add(
            agreement.values[:, k],
            agreement.expected[:, k],
            agreement.allowed[:, k],
            partial(_entry, problem, point),
            lambda _: "The recording takes another branch there than the function.",
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
    for name, program in alternatives.items():
        pairs.append((name, np.stack([flat(program(*point)) for point in points], axis=1), alone))
    for name, one, other in pairs:
        finding = Finding(name)
        for k, point in enumerate(points):
            finding.add(one[:, k], other[:, k], bounds[:, k], partial(_entry, problem, point))
        yield finding


def compare_slopes(problem: FlatProblem, points: Sequence[Point]) -> Iterator[Finding]:
    """Yield findings: the Jacobian with complex steps where the function is analytic, and with differences."""
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
            derivatives, lost = jacobian[:, column], rounding[:, column]
            size = np.abs(slopes.central).max(initial=0.0, where=np.isfinite(slopes.central))
            allowed = ESTIMATES * slopes.error + RELATIVE * np.abs(slopes.central) + FLOOR * size + lost
            allowed += 64.0 * narrow * np.abs(derivatives)
            # at a kink, any slope between the one-sided slopes is correct
            between = np.clip(derivatives, np.fmin(slopes.left, slopes.right), np.fmax(slopes.left, slopes.right))
            expected = np.where(slopes.kinks, between, slopes.central)

            def where(row: int, point: Point = point, column: int = column) -> str:
                return f"{problem.name_of_slope(row, column)} at {_written(point)}"

            def reason(
                row: int, slopes: ResultSlopes = slopes, derivatives: Floats = derivatives, lost: Floats = lost
            ) -> str:
                if slopes.kinks[row]:
                    return f"A kink: the slopes of its sides are {slopes.left[row]:.6g} and {slopes.right[row]:.6g}."
                if lost[row] > LOST * abs(derivatives[row]):
                    return f"Cancellation: rounding may change the derivative by {lost[row]:.2g}."
                return "The derivative is wrong there, or the function is not smooth."

            rough.add(derivatives, expected, allowed, where, reason)
            steps = _complex_steps(problem, point, column)
            if steps is not None:
                analytic = (np.abs(steps - slopes.central) <= allowed) & ~slopes.kinks
                tight = 2.0 * lost + UNIT * np.abs(steps) + 64.0 * narrow * np.abs(derivatives) + NOTHING
                exact.add(derivatives, np.where(analytic, steps, np.nan), tight, where, reason)
    yield from (finding for finding in (exact, rough) if finding.compared)


def _differences(problem: FlatProblem, point: Point, column: int) -> ResultSlopes:
    position, index = problem.columns[column]
    argument = np.abs(point[position])
    x = float(np.asarray(point[position])[index])

    def values(y: float) -> Floats:
        results = problem.values(problem.moved(point, column, y))
        return np.full(problem.rows, np.nan) if results is None else results

    return central_differences(values, x, abs(x) or float(argument.max()) or 1.0)


def _complex_steps(problem: FlatProblem, point: Point, column: int) -> Floats | None:
    """Return slopes from complex steps; None if the function does not take complex numbers."""
    position, index = problem.columns[column]
    x = float(np.asarray(point[position])[index])

    def values(z: complex) -> NDArray[Any]:
        outcome = run_on_copies(problem.function, problem.moved(point, column, z))
        return np.concatenate([leaf.ravel() for _, leaf in outcome.leaves]).astype(complex)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ComplexWarning)
            steps = complex_step(values, x)
    except Exception:
        return None
    return steps if len(steps) == problem.rows else None


def _by_point(result: Any, count: int) -> Floats:
    """Return the result of a batch as a flat array for each point, (entries, points)."""
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


# Reports -------------------------------------------------------------------------------------------------------------
#
# The report has one row for each comparison, with its largest deviation and where that occurs.


@dataclass(slots=True)
class Finding:
    """One comparison, with its largest deviation."""

    name: str  # names of the two compared sides
    compared: int = 0  # how many numbers are compared
    failed: int = 0  # how many of them exceed the tolerance
    deviation: float = 0.0  # largest difference, relative to its tolerance
    difference: float = 0.0  # that difference itself
    where: str = ""  # its entry and arguments, if it exceeds the tolerance
    reason: str = ""  # its likely reason

    def add(
        self,
        one: Floats,
        other: Floats,
        allowed: Floats,
        where: Callable[[int], str],
        reason: Callable[[int], str] = lambda _: "",
    ) -> None:
        """Compare two arrays; entries that are not finite on either side are left out.

        Args:
            one: flat array to compare.
            other: flat array to compare it with.
            allowed: tolerance of each entry.
            where: function that names an entry for the report.
            reason: function that explains a difference at an entry.
        """
        with np.errstate(all="ignore"):
            apart = np.abs(one - other)
            usable = np.isfinite(apart) & np.isfinite(allowed)
            ratio = np.where(usable, np.where(apart > 0, apart / allowed, 0.0), -1.0)
        self.compared += int(usable.sum())
        self.failed += int((ratio > 1.0).sum())
        worst = int(ratio.argmax()) if ratio.size else 0
        if ratio.size and ratio[worst] > self.deviation:
            self.deviation, self.difference = float(ratio[worst]), float(apart[worst])
            if ratio[worst] > 1.0:
                self.where = f"{where(worst)}: {one[worst]:.17g} and {other[worst]:.17g}"
                self.reason = reason(worst) or "No rounding explains it."

    @property
    def passed(self) -> bool:
        """Return True if no difference exceeds its tolerance."""
        return self.failed == 0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Report of `accumulus.check`. Printable.

    Attributes:
        name: name of the function.
        findings: one finding for each comparison.
        points: number of points at which the function was called.
        skipped: number of those at which it raised an error, or returned no real numbers.
        cases: number of ways in which it decides on values at these points.

    >>> import accumulus as acc
    >>> report = acc.check(lambda x: x**2, 3.0)
    >>> report.passed, report.name, report.to_dict()["points"]
    (True, '<lambda>', 24)
    """

    name: str
    findings: tuple[Finding, ...]
    points: int
    skipped: int
    cases: int = 1

    @property
    def passed(self) -> bool:
        """Return True if all comparisons passed."""
        return all(finding.passed for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        findings = [{**asdict(finding), "passed": finding.passed} for finding in self.findings]
        return {**asdict(self), "findings": findings, "passed": self.passed}

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        title = f"{self.name}: {'passed' if self.passed else 'FAILED'}"
        tried = f"Tried at {counted(self.points, 'point')}" + (f" in {self.cases} cases" if self.cases > 1 else "")
        tried += f", of which {amount(self.skipped)} gave no real numbers." if self.skipped else "."
        rows = [
            (
                finding.name,
                amount(finding.compared),
                amount(finding.failed),
                f"{finding.difference:.2g}",
                f"{finding.deviation:.2g}",
            )
            for finding in self.findings
        ]
        parts: list[RenderableType] = [Text(title, style="bold"), Text(tried), ""]
        parts += [table(("compared", "numbers", "failed", "worst", "of allowed"), rows)]
        for finding in self.findings:
            if finding.reason:
                parts += ["", Text(f"{finding.name}: {finding.where}\n  {finding.reason}")]
        return Group(*parts)

    def _repr_html_(self) -> str:
        from accumulus.show.tables import as_html

        return as_html(self.__rich__())

    def __str__(self) -> str:
        return plain_text(self.__rich__())
