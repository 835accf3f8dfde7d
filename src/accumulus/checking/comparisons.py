"""The comparisons of a check: programs with each other and with the function, derivatives with slopes of the function.

Function and program are compared as flat arrays, values first, followed by derivatives. Slopes of the function come
from differences and from complex steps (`accumulus.checking.slopes`).
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

from accumulus.checking.slopes import ResultSlopes, central_differences, complex_slopes, settled_differences
from accumulus.frontends.agreement import run_on_copies, where_it_holds
from accumulus.frontends.kinds import as_inputs
from accumulus.frontends.location import argument_name
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import flatten
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.show.tables import amount, counted, plain_text, table
from accumulus.tape.error_bounds import UNIT, compare, evaluate_with_bounds
from accumulus.tape.operations import OPERATIONS
from accumulus.targets.kernel import Positions

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

Floats = NDArray[np.float64]
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
#: Tolerance relative to the derivative above which differences decide nothing. A larger one calls differences a
#: comparison that accept other derivatives, a smaller one leaves derivatives of wrong signs undecided.
UNDECIDED: Final = 0.1
#: Bound on what complex steps miss, relative to the derivatives, up to which they count: a larger one counts functions
#: that are not analytic, a smaller one leaves out analytic ones at points where rounding is large.
ANALYTIC: Final = 1e-5
#: Absolute error of complex steps for derivatives that are zero: a larger one accepts small wrong derivatives, a
#: smaller one reports zeros that rounding perturbs.
NOTHING: Final = 1e-100
#: Relative bound on rounding above which a number has lost most of its digits. A larger one compares numbers that
#: differ by rounding, a smaller one leaves numbers uncompared.
LOST: Final = 1e-6
#: Distances relative to an argument over which its derivative is averaged where differences disagree with it, and the
#: factor on what averages differ by. Wider ones take a smooth derivative's curvature for oscillations, narrower ones
#: miss oscillations; a larger factor accepts wrong derivatives, a smaller one misses their largest.
NEARBY: Final = (1.7e-10, 2.9e-9, 3.1e-8, 2.3e-7, 1.9e-6, 2.1e-5, 1.3e-4, 1.1e-3)
OSCILLATING: Final = 4.0


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
        #: True if the function has jumps, as of floor, or comparisons.
        scalars = recording.program.scalars
        codes = [scalars.codes] if scalars is not None else [block.codes for block in recording.program.blocks]
        self.jumps = any(OPERATIONS[code].jumps for code in set().union(*codes))
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
    """Yield findings: the Jacobian with complex steps where the function is analytic, and with differences.

    Differences are refined where the derivative disagrees with them. They decide nothing where their error estimate
    stays as large as the derivative.
    """
    exact, rough = Finding("Jacobian, complex step"), Finding("Jacobian, differences")
    generator = np.random.default_rng(0)
    _, bounds = problem.interpreted(points)
    noise = bounds[: problem.rows] * (not problem.jumps)  # bounds near a jump include it
    narrow = np.finfo(problem.program.options.dtype).eps
    for k, point in enumerate(points):
        jacobian = problem.jacobian(flat(problem.program(*point)))
        rounding = problem.jacobian(bounds[:, k])
        largest = np.abs(jacobian).max(initial=0.0, where=np.isfinite(jacobian))
        values = problem.values(point)
        valueless = True if values is None else ~np.isfinite(values)
        chosen = np.arange(len(problem.columns))
        for column in np.sort(generator.permutation(chosen)[:COLUMNS]).tolist():
            derivatives, lost = jacobian[:, column], rounding[:, column]
            slack = lost + 64.0 * narrow * np.abs(derivatives)
            slopes = central_differences(*_along(problem, point, column))
            if not _agree(derivatives, slopes, slack).all():
                slopes = settled_differences(*_along(problem, point, column), noise[:, k])
                if not _agree(derivatives, slopes, slack).all():
                    slack = slack + _oscillations(problem, point, column, derivatives)
            allowed = _allowed(slopes, slack)

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

            expected = slopes.expected(derivatives)
            telling = np.fmax(UNDECIDED * np.fmax(np.abs(derivatives), np.abs(slopes.central)), RELATIVE * largest)
            decided = (derivatives != 0) | ~np.broadcast_to(slopes.constant, derivatives.shape)
            decided &= valueless | (derivatives == expected) | (allowed <= telling)
            rough.add(derivatives, expected, allowed, where, reason, decided)
            steps = None if values is None else _complex_steps(problem, point, column, values)
            if steps is not None:
                slope, missed = steps
                tight = 2.0 * lost + UNIT * np.abs(slope) + 64.0 * narrow * np.abs(derivatives) + NOTHING + missed
                analytic = missed <= ANALYTIC * np.fmax(np.abs(slope), largest)
                exact.add(derivatives, np.where(analytic, slope, np.nan), tight, where, reason)
    yield from (finding for finding in (exact, rough) if finding.compared or finding.undecided)


def _allowed(slopes: ResultSlopes, slack: Floats) -> Floats:
    """Return tolerances of derivatives compared with differences, `slack` included."""
    size = np.abs(slopes.central).max(initial=0.0, where=np.isfinite(slopes.central))
    allowed: Floats = ESTIMATES * slopes.error + RELATIVE * np.abs(slopes.central) + FLOOR * size + slack
    return allowed


def _agree(derivatives: Floats, slopes: ResultSlopes, slack: Floats) -> NDArray[np.bool_]:
    """Return True where derivatives are within tolerances, or cannot be compared."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(derivatives - slopes.expected(derivatives))
        return ~(apart > _allowed(slopes, slack))


def _oscillations(problem: FlatProblem, point: Point, column: int, derivatives: Floats) -> Floats:
    """Return by how much derivatives differ from means over short intervals around a point, as differences compute.

    Sums of oscillations have such derivatives, as Weierstrass's function has, whose wavelengths are below the distance
    at which rounding hides differences. A smooth function's are as its means are, up to curvature.
    """
    found = np.zeros(problem.rows)
    x, scale = _place(problem, point, column)
    for share in NEARBY:
        sides = [problem.moved(point, column, x + sign * share * scale) for sign in (1.0, -1.0)]
        if where_it_holds(problem.recording, problem.inputs(sides)).all():
            above, below = (problem.jacobian(flat(problem.program(*side)))[:, column] for side in sides)
            with np.errstate(invalid="ignore"):
                found = np.fmax(found, np.abs(0.5 * (above + below) - derivatives))
    return OSCILLATING * found


def _along(problem: FlatProblem, point: Point, column: int) -> tuple[Callable[[float], Floats], float, float]:
    """Return the function of one entry of the arguments, that entry, and its scale."""

    def values(y: float) -> Floats:
        results = problem.values(problem.moved(point, column, y))
        return np.full(problem.rows, np.nan) if results is None else results

    return values, *_place(problem, point, column)


def _place(problem: FlatProblem, point: Point, column: int) -> tuple[float, float]:
    position, index = problem.columns[column]
    argument = np.asarray(point[position])
    x = float(argument[index])
    return x, abs(x) or float(np.abs(argument).max()) or 1.0


def _complex_steps(problem: FlatProblem, point: Point, column: int, values: Floats) -> tuple[Floats, Floats] | None:
    """Return slopes from complex steps, and what they may miss; None if the function does not take complex numbers."""

    def run(z: complex) -> NDArray[Any]:
        outcome = run_on_copies(problem.function, problem.moved(point, column, z))
        results = np.concatenate([leaf.ravel() for _, leaf in outcome.leaves]).astype(complex)
        return results if len(results) == problem.rows else np.full(problem.rows, np.nan, complex)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ComplexWarning)
            return complex_slopes(run, *_place(problem, point, column), values)
    except Exception:
        return None


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
    undecided: int = 0  # how many further numbers have no tolerance that tells right from wrong

    def add(
        self,
        one: Floats,
        other: Floats,
        allowed: Floats,
        where: Callable[[int], str],
        reason: Callable[[int], str] = lambda _: "",
        decided: NDArray[np.bool_] | np.bool_ = np.True_,
    ) -> None:
        """Compare two arrays; entries that are not finite on either side are left out.

        Args:
            one: flat array to compare.
            other: flat array to compare it with.
            allowed: tolerance of each entry.
            where: function that names an entry for the report.
            reason: function that explains a difference at an entry.
            decided: True where the tolerance tells right from wrong. Other entries are counted as undecided.
        """
        with np.errstate(all="ignore"):
            apart = np.abs(one - other)
            usable = np.isfinite(apart) & np.isfinite(allowed) & decided
            ratio = np.where(usable, np.where(apart > 0, apart / allowed, 0.0), -1.0)
        self.compared += int(usable.sum())
        self.undecided += int((np.isfinite(one) & ~decided).sum())
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
        """Return True if all comparisons passed; undecided derivatives neither pass nor fail."""
        return all(finding.passed for finding in self.findings)

    @property
    def undecided(self) -> int:
        """Return the number of derivatives for which differences have no settled value."""
        return sum(finding.undecided for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        findings = [{**asdict(finding), "passed": finding.passed} for finding in self.findings]
        return {**asdict(self), "findings": findings, "passed": self.passed, "undecided": self.undecided}

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        title = f"{self.name}: {'passed' if self.passed else 'FAILED'}"
        tried = f"Tried at {counted(self.points, 'point')}" + (f" in {self.cases} cases" if self.cases > 1 else "")
        tried += f", of which {amount(self.skipped)} gave no real numbers." if self.skipped else "."
        columns = ("compared", "numbers", *(["undecided"] if self.undecided else []), "failed", "worst", "of allowed")
        rows = [
            (
                finding.name,
                amount(finding.compared),
                *([amount(finding.undecided)] if self.undecided else []),
                amount(finding.failed),
                f"{finding.difference:.2g}",
                f"{finding.deviation:.2g}",
            )
            for finding in self.findings
        ]
        parts: list[RenderableType] = [Text(title, style="bold"), Text(tried), ""]
        parts += [table(columns, rows)]
        if self.undecided:
            parts += ["", Text("Undecided: differences do not settle there, or rounding hides them.")]
        for finding in self.findings:
            if finding.reason:
                parts += ["", Text(f"{finding.name}: {finding.where}\n  {finding.reason}")]
        return Group(*parts)

    def _repr_html_(self) -> str:
        from accumulus.show.tables import as_html

        return as_html(self.__rich__())

    def __str__(self) -> str:
        return plain_text(self.__rich__())
