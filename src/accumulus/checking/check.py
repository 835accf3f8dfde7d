"""Check of a function and its derivatives: all results are compared at many points.

Points are grouped by the function's decisions, and further points are tried on both sides of borders between groups.

Sources: C. J. F. Ridders, Accurate computation of F'(x) and F'(x)F''(x), Advances in Engineering Software 4, 1982; for
complex steps W. Squire and G. Trapp, Using complex variables to estimate derivatives of real functions, SIAM Review 40,
1998.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Unpack

import numpy as np

from accumulus.api.recordings import Trace
from accumulus.checking.comparisons import CheckReport, Finding, FlatProblem, compare_programs, compare_slopes
from accumulus.errors import ArgumentError, IterationWarning, MismatchError
from accumulus.frontends.agreement import where_it_holds
from accumulus.frontends.kinds import as_inputs, as_numpy, as_reals, nearby_arguments
from accumulus.frontends.location import name_of
from accumulus.frontends.record import record
from accumulus.frontends.recorder import Recording
from accumulus.options import OF_PLANS, OptionKeywords, Options, refuse_assumptions, refuses, shows_options
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.forms import Forms, settled_function
from accumulus.programs.kinds import VALUE_AND_JACOBIAN
from accumulus.programs.lowering import Recorded, program_of
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import static_positions
from accumulus.search.find import plan

#: Relative distances of the further points from the first one, used in turn; and factors by which the last points are
#: multiples of the first. More points take time for each comparison, fewer miss branches; distant points leave the
#: function's domain.
REACHES: Final = (1e-6, 0.01, 0.1, 0.5, 1.0)
SCALES: Final = (-1.0, 0.1, 10.0)
#: Options that the check sets itself.
OWN: Final = ("check", "sparse", "target", "guards", "most_cases")


@refuses("assume")
@shows_options
def check(
    f: Callable[..., Any],
    *arguments: Any,
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    keywords: Mapping[str, Any] | None = None,
    points: int = 20,
    **options: Unpack[OptionKeywords],
) -> CheckReport:
    """Compare the recording of `f`, and its derivatives, with `f` itself at many points.

    It compares values of the recording with values of `f`; compiled values and Jacobians with the same operations in
    NumPy; batches with single points; target "numpy" with the chosen one; sparse with dense results; and Jacobians with
    differences and, if `f` takes complex numbers and is analytic as NumPy evaluates it for these, with complex steps.
    The tolerance is a running error bound for rounding, and an error estimate for differences. These are refined where
    they disagree with the derivative; derivatives for which they do not settle are undecided. If `f` decides on values,
    each case is compared at its own points, and on both sides of the borders between cases. An iteration whose
    derivative is that of its path, and not of its solution, is a failure (`accumulus.errors.IterationWarning`).

    Args:
        f: function as for `accumulus.jacobian`.
        arguments: first point, numbers and arrays of any shape. The other points are near it, and its multiples by -1,
            0.1 and 10. Arrays of integers that are used as indices are the same at all points, and not differentiated.
        argnums: positions of the arguments to differentiate with respect to; all numeric ones by default.
        argnames: names of the arguments to differentiate with respect to.
        static_argnums: positions of static arguments.
        static_argnames: names of static arguments.
        keywords: arguments by keyword.
        points: number of points near the first one.
        options: options of the checked derivative, as for `accumulus.jacobian`.

    Returns:
        The report; print it. `passed` is True if no difference exceeds its tolerance, and `undecided` is the number of
        derivatives that differences could not decide, as of very fast oscillations.

    Raises:
        TraceError: if `f` cannot be recorded. A recording that differs from `f` is a finding, not an error.
        ArgumentError: for arguments of a wrong kind, or an option out of range.

    >>> import numpy as np
    >>> check(lambda x: np.sin(x) * x, np.array([0.5, 1.0])).passed
    True
    """
    if isinstance(points, bool) or not isinstance(points, int) or points < 0:
        raise ArgumentError(f"points is {points!r}; expected a whole number of at least 0")
    chosen = Options.of(**options)
    name = name_of(f)
    refuse_assumptions(options, f"a check of {name}", "which tries points of both signs")
    forms = Forms(f, name, None, None, static_argnums, static_argnames)
    call, numbers = forms.of(arguments, keywords or {})
    function = settled_function(f if call is None else call, numbers, check=True)
    static = static_positions(forms.static_positions if call is None else (), len(numbers))

    findings: list[Finding] = []

    def recorded(point: Sequence[Any]) -> Recording:
        decides = chosen.guards == "cases"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", IterationWarning)
            recording = record(function, point, static, check=True, decides=decides, arrays=chosen.takes_arrays)
        for each in caught:
            if each.category is IterationWarning:  # differences within one path do not see it
                wrong = "slopes across paths of an iteration", 1, 1, math.inf, math.nan
                findings.append(Finding(*wrong, "at its first use in a case", str(each.message)))
            else:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        return recording

    try:
        recording = recorded(numbers)
        if recording.uses_indices:  # indices stay fixed, since others may be out of range
            static |= {k for k, x in enumerate(numbers) if isinstance(x, np.ndarray) and x.dtype.kind in "iu"}
            recording = recorded(numbers)
    except MismatchError as error:
        finding = Finding("recording, function", 1, 1, math.inf, math.nan, "at its first use", str(error))
        return CheckReport(name, (finding,), 1, 0)
    positions = Trace(f, recording, call).selection(argnums, argnames).positions
    tried = list(_points(numbers, recording.argument_shapes, points))
    cases = [(recording, tried)]
    if recording.guards:

        def record_at(point: Sequence[Any]) -> Recording:
            try:
                return recorded(point)
            except MismatchError as error:
                at = "at its first use in a further case"
                findings.append(Finding("recording, function", 1, 1, math.inf, math.nan, at, str(error)))
                raise

        cases = by_case([recording], tried, record_at)
        tried += at_borders(cases)
        cases = by_case([representative for representative, _ in cases], tried, record_at)
    compared = 0
    for case, members in cases:
        if members:
            case_findings, usable = _findings(function, case, members, positions, chosen, options)
            findings += case_findings
            compared += usable
    return CheckReport(name, merged(findings), len(tried), len(tried) - compared, len(cases))


def _findings(
    function: Callable[..., Any],
    recording: Recording,
    tried: Sequence[Sequence[Any]],
    positions: tuple[int, ...],
    chosen: Options,
    options: OptionKeywords,
) -> tuple[list[Finding], int]:
    """Return the findings at points of one case, and the number of points at which the function has values."""
    programs = _programs if recording.program.is_straight else _programs_of_loops
    dense, alternatives = programs(Trace(function, recording), tried, positions, chosen, options)
    problem = FlatProblem(function, recording, dense, positions)
    tried = [_representable(point, recording.argument_shapes, chosen.dtype) for point in tried]
    outcomes = [problem.values(point) for point in tried]
    usable = [(point, values) for point, values in zip(tried, outcomes, strict=True) if values is not None]
    if not usable:
        return [], 0
    points, values = [point for point, _ in usable], [values for _, values in usable]
    return [*compare_programs(problem, points, values, alternatives), *compare_slopes(problem, points)], len(usable)


def _programs(
    trace: Trace, tried: Sequence[Point], positions: tuple[int, ...], chosen: Options, options: OptionKeywords
) -> tuple[CompiledProgram, dict[str, CompiledProgram]]:
    """Return the program of values and dense derivatives, and programs of other kinds to compare it with."""
    planned = plan(trace.linearize(positions), **{option: getattr(chosen, option) for option in OF_PLANS})
    rest: dict[str, Any] = {option: value for option, value in options.items() if option not in (*OF_PLANS, *OWN)}
    return trace.compile(planned, chosen.target, values=True, **rest), {
        "target numpy, compiled code": trace.compile(planned, "numpy", values=True, **rest),
        "sparse, dense": trace.compile(planned, chosen.target, "csr", values=True, **rest),
    }


def _programs_of_loops(
    trace: Trace, tried: Sequence[Point], positions: tuple[int, ...], chosen: Options, options: OptionKeywords
) -> tuple[CompiledProgram, dict[str, CompiledProgram]]:
    """Return the programs of `_programs` for a recording with loops."""
    points = np.stack([as_inputs(point, trace.recording.argument_shapes) for point in tried])

    def program(target: str, sparse: Literal["csr"] | None = None) -> CompiledProgram:
        selection = trace.selection(positions)
        with Preparation(trace.name, replace(chosen, target=target, sparse=sparse)) as preparation:
            recorded = Recorded(trace.recording, VALUE_AND_JACOBIAN, selection, preparation, points)
            return program_of(recorded, "point", ())

    return program(chosen.target), {
        "target numpy, compiled code": program("numpy"),
        "sparse, dense": program(chosen.target, "csr"),
    }


def _representable(point: Sequence[Any], shapes: Sequence[tuple[int, ...] | None], dtype: str) -> Sequence[Any]:
    """Return the point rounded to the dtype of the compiled code."""
    return [
        x if shape is None else np.asarray(x).astype(dtype).astype(np.float64)[()]
        for x, shape in zip(point, shapes, strict=True)
    ]


def _points(arguments: Sequence[Any], shapes: Sequence[tuple[int, ...] | None], count: int) -> Iterator[Sequence[Any]]:
    """Yield the arguments, points near them, and their multiples."""
    generator = np.random.default_rng(0)
    reals = as_numpy(as_reals(arguments, shapes))
    yield reals
    for k in range(count):
        yield nearby_arguments(reals, shapes, REACHES[k % len(REACHES)], generator)
    for scale in SCALES:
        yield [x if shape is None else scale * x for x, shape in zip(reals, shapes, strict=True)]


# Cases ----------------------------------------------------------------------------------------------------------------


#: Maximum number of cases of one check; points of further cases are skipped. More take time to record, fewer leave
#: cases unchecked.
MOST_CASES: Final = 6
#: Maximum number of borders to locate, and number of bisections for each. More borders take time, fewer leave
#: derivatives beside them unchecked; with fewer bisections, points beside a border are farther from it.
MOST_BORDERS: Final = 4
HALVINGS: Final = 60
#: Relative distance from a border, towards a point of the case, at which derivatives are compared with differences: a
#: smaller one leaves no room for the steps of the differences, a larger one misses mistakes near the border.
BESIDE: Final = 0.02

Point = Sequence[Any]


def holds(recording: Recording, point: Point) -> bool:
    """Return True if a recording holds at a point."""
    return bool(where_it_holds(recording, as_inputs(point, recording.argument_shapes)[np.newaxis])[0])


def by_case(
    recordings: Sequence[Recording], points: Sequence[Point], again: Callable[[Point], Recording]
) -> list[tuple[Recording, list[Point]]]:
    """Return the points of each case, each with its recording.

    Args:
        recordings: recordings so far, beginning with the recording at the first point.
        points: points to partition.
        again: function that records at a point. If it raises an error, the point is added to the first case and counts
            there as one without values.
    """
    cases: list[tuple[Recording, list[Point]]] = [(recording, []) for recording in recordings]
    for point in points:
        matching = next((members for representative, members in cases if holds(representative, point)), None)
        if matching is None and len(cases) < MOST_CASES:
            try:
                cases.append((again(point), []))
            except Exception:
                matching = cases[0][1]
            else:
                matching = cases[-1][1]
        (cases[0][1] if matching is None else matching).append(point)
    return cases


def at_borders(cases: Sequence[tuple[Recording, Sequence[Point]]]) -> list[Point]:
    """Return points on both sides of borders of the first case, directly at the border and at a small distance."""
    recording, (center, *_) = cases[0]
    shapes = recording.argument_shapes
    border_points: list[Point] = []

    def between(one: Point, other: Point, share: float) -> Point:
        return [
            a if shape is None else np.float64((1.0 - share) * a + share * b) if shape == () else a + share * (b - a)
            for a, b, shape in zip(one, other, shapes, strict=True)
        ]

    for _, members in cases[1 : 1 + MOST_BORDERS]:
        inside, outside = center, members[0]
        for _ in range(HALVINGS):
            middle = between(inside, outside, 0.5)
            if holds(recording, middle):
                inside = middle
            else:
                outside = middle
        border_points += [inside, outside, between(inside, center, BESIDE), between(outside, members[0], BESIDE)]
    return border_points


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return one finding for each name, with the total counts and the largest deviation."""
    by_name: dict[str, Finding] = {}
    for each in findings:
        worst = by_name.setdefault(each.name, Finding(each.name))
        worst.compared += each.compared
        worst.failed += each.failed
        worst.undecided += each.undecided
        if each.deviation > worst.deviation:
            worst.deviation, worst.difference = each.deviation, each.difference
            worst.where, worst.reason = each.where, each.reason
    return tuple(by_name.values())
