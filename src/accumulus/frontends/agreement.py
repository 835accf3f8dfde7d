"""Comparison of a recording with its function: both run on numbers at the given arguments and at nearby points.

A function may behave differently while it is recorded: it may catch an exception that only traced values raise, test a
type, draw a random number, or read a variable that it changed before. Therefore the function runs on numbers at
`1 + len(REACHES)` points. The recording must give the same values, to a few units in the last place or within a running
error bound (`accumulus.tape.error_bounds`).

The comparison skips

* nearby points where the function raises, where a decision differs from the recorded one, or where rounding may change
  a decision;
* the given point, if the function raises a numerical exception there, as for a singular matrix;
* single entries that are not finite. The recording may be finite where the function is not, since simplification
  assumes that a factor of a literal zero is finite.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import AccumulusError, IterationWarning, MismatchError, TraceError
from accumulus.frontends.active import recording_on, sharing_programs
from accumulus.frontends.calls import function_of
from accumulus.frontends.captured import Captured
from accumulus.frontends.kinds import Spread, as_inputs, as_numpy, as_reals, nearby_arguments, shape_of
from accumulus.frontends.location import argument_name, described
from accumulus.frontends.observed import Observed
from accumulus.frontends.recorder import Recording, holder_of, is_plain, recorder_of
from accumulus.frontends.trees import Structure, flatten
from accumulus.frontends.written_out import warn
from accumulus.tape.error_bounds import UNIT, compare
from accumulus.tape.interpreter import ON_PATH, outputs_at, run
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import MOST_UNROLLED, Program
from accumulus.tape.tape import SELECT, Tape

#: Distances of the nearby points from the given arguments, relative to the arguments. Greater distances leave the
#: function's domain or its branch more often, smaller ones show fewer dependencies that a recording has missed; each
#: costs a run of the function.
REACHES: Final = (0.01, 0.5)
#: Distance at which decisions that hold at the arguments alone are told from others, relative to the arguments. It has
#: to be above the tolerances of comparisons, as of `np.allclose`; at a greater one, other decisions fail, too.
CLOSE: Final = 1e-3
#: Tolerance, in units in the last place, for results that the function rounds to float32 or float16: a larger one
#: accepts wrong recordings, a smaller one refuses right ones.
NARROW: Final = 64.0
#: Number of points within rounding of a difference at which the function's own rounding error is estimated, and the
#: factor that multiplies the largest change there. More points take as many runs of the function; a larger factor
#: accepts wrong recordings, a smaller one refuses right ones.
NEARBY: Final = 4
MAGNIFIED: Final = 16.0
#: Rounding of a library's linear algebra, in roundings of the largest entry of a result; 9e-13. A larger number accepts
#: wrong recordings of small entries, a smaller one refuses right ones at condition numbers of 10,000.
LIBRARY: Final = 512.0
_ATTACH: Final = BY_NAME["attach"].code
#: Exceptions that functions raise for the values of numbers. Traced values raise none of them.
NUMERICAL: Final = (ArithmeticError, np.linalg.LinAlgError)

#: Why a recording has no value where its function has one.
NO_VALUE: Final = (
    " The recording is NaN there and at all other points that were tried: an intermediate value is undefined, such as "
    "the logarithm or the root of a negative number, or the solution of a singular system. The function itself "
    "returns numbers, since a routine that it calls, such as LAPACK, accepts NaN or rounds a singular matrix to a "
    "regular one. Make the first call with arguments at which all intermediate values are finite. check=False skips "
    "this comparison; derivatives are NaN there."
)

Floats = NDArray[np.float64]
#: Largest number of changed variables that a message names.
MOST_TOLD: Final = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of a function on numbers."""

    structure: Structure  # of the result
    leaves: list[tuple[str, NDArray[Any]]]  # its arrays, each with its path

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the arrays."""
        return tuple(leaf.shape for _, leaf in self.leaves)

    @property
    def is_real(self) -> bool:
        """Return True if all results are real numbers or truth values."""
        return all(leaf.dtype.kind in "fiub" for _, leaf in self.leaves)

    @property
    def entries(self) -> Floats:
        """All entries in one vector."""
        return np.concatenate([np.empty(0), *(leaf.ravel() for _, leaf in self.leaves)], dtype=np.float64)

    @property
    def rounding(self) -> Floats:
        """Return the tolerance of each entry: positive for results in float32 or float16, 0 for all others."""
        bounds = [np.zeros(leaf.size) for _, leaf in self.leaves]
        for bound, (_, leaf) in zip(bounds, self.leaves, strict=True):
            if leaf.dtype in (np.float32, np.float16):
                bound[:] = NARROW * np.finfo(leaf.dtype).eps * _greatest(leaf)
        return np.concatenate([np.empty(0), *bounds])


def run_on_copies(function: Callable[..., Any], arguments: Sequence[Any], observed: Observed | None = None) -> Outcome:
    """Run a function on copies of numeric arguments, without NumPy's floating-point warnings.

    If Python's floats raise a numerical exception or the result is complex, the function runs again with NumPy's
    floats, whose semantics the recording has.

    Args:
        function: function to run.
        arguments: its arguments, which are copied.
        observed: observer of the code that runs, or None.

    Raises:
        Exception: any exception of the function.
    """
    try:
        outcome = _run(function, arguments, observed)
        if outcome.is_real:
            return outcome
    except NUMERICAL:
        if not any(type(argument) is float for argument in arguments):
            raise
    return _run(function, as_numpy(arguments), observed)


def _run(function: Callable[..., Any], arguments: Sequence[Any], observed: Observed | None) -> Outcome:
    copies = [argument.copy() if type(argument) is np.ndarray else argument for argument in arguments]
    with np.errstate(all="ignore"), recording_on(None):
        evaluate = recorder_of(function).evaluate
        with nullcontext() if observed is None else observed:
            result = evaluate(function, copies)
        structure, leaves = flatten(result)
        return Outcome(structure, [(path, _numbers(leaf)) for path, leaf in leaves])


def _numbers(leaf: Any) -> NDArray[Any]:
    array = np.asarray(leaf)
    if array.dtype.kind != "O":
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return array


def run_nearby(
    function: Callable[..., Any], arguments: Sequence[Any], static: frozenset[int], generator: Spread
) -> Outcome:
    """Run a function on numbers, at a point near the arguments; raise what it raises."""
    names = (argument_name(function, k) for k in range(len(arguments)))
    shapes = [
        None if k in static else shape_of(argument, name)
        for k, (argument, name) in enumerate(zip(arguments, names, strict=True))
    ]
    return run_on_copies(function, nearby_arguments(as_reals(arguments, shapes), shapes, REACHES[0], generator))


def where_it_holds(recording: Recording, inputs: Floats) -> NDArray[np.bool_]:
    """Return a boolean for each point of `inputs`, of shape (points, inputs): True if all guards hold there."""
    if not recording.guards:
        return np.ones(len(inputs), bool)

    def guards_hold(points: Floats) -> NDArray[np.bool_]:
        return np.asarray(outputs_at(recording.program, points)[-len(recording.guards) :].all(axis=0))

    if not recording.program.calls:
        return guards_hold(inputs)
    holds = np.zeros(len(inputs), bool)
    for k in range(len(inputs)):
        with suppress(Exception):  # opaque functions may raise outside of their domain
            holds[k] = guards_hold(inputs[k : k + 1])[0]
    return holds


def holds_nearby(arguments: Sequence[Any], recording: Recording) -> bool:
    """Return True if all guards of a recording hold at one of two points that are near its arguments."""
    shapes, generator = recording.argument_shapes, Spread()
    point = as_reals(arguments, shapes)
    nearby = [nearby_arguments(point, shapes, CLOSE, generator) for _ in range(2)]
    return bool(where_it_holds(recording, np.stack([as_inputs(each, shapes) for each in nearby])).any())


@sharing_programs()
def verify_recording(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    recording: Recording,
    swallowed: TraceError | None = None,
    captured: Captured | None = None,
) -> bool:
    """Compare a recording with its function.

    Args:
        function: recorded function.
        arguments: arguments that it was recorded with.
        recording: its recording.
        swallowed: refusal that the function caught, which is the likely reason for a difference.
        captured: variables that the function reads, with their values before the recording; a change of one may also
            explain a difference.

    Returns:
        True if every entry of the results was compared at some point.

    Raises:
        MismatchError: if they differ, or if the function raises at the given arguments.
    """
    shapes = recording.argument_shapes
    generator = Spread()
    points = [as_reals(arguments, shapes)]
    points += [nearby_arguments(points[0], shapes, reach, generator) for reach in REACHES]
    inputs = np.stack([as_inputs(point, shapes) for point in points])
    holds = where_it_holds(recording, inputs)
    tried: list[tuple[Sequence[Any], Outcome]] = []
    if captured is not None:
        captured.renew()
    for position, at in enumerate(points):
        point: Sequence[Any] = at
        if not holds[position]:
            continue
        observed = Observed() if captured is not None and not tried and is_plain(function) else None
        try:
            try:
                outcome = run_on_copies(function, point, observed)
            except (TypeError, IndexError):
                if position or not recording.guards:
                    raise
                point = arguments  # the float of an integer argument is no index
                outcome = run_on_copies(function, point)
            if observed is not None and captured is not None and captured.observe(observed):
                outcome = run_on_copies(function, point)  # with the values that are watched
        except Exception as error:
            if isinstance(error, MismatchError):
                raise  # raised by a derivative inside of the function, about its own function
            if position == 0 and not isinstance(error, NUMERICAL):
                raise MismatchError(
                    f"{described(function)} was recorded, but raises {type(error).__name__} when it is called with "
                    f"{_written(function, point, shapes)}: {error}{_reason(swallowed, _changed_by(function, captured))}"
                ) from error
            holds[position] = False
            continue
        if not outcome.is_real or (outcome.structure, outcome.shapes) != (recording.structure, recording.result_shapes):
            raise MismatchError(
                f"{described(function)} was recorded as a function that returns {_form(recording.result_shapes)}, but "
                f"returns {_form(outcome.shapes, outcome)} for {_written(function, point, shapes)}."
                f"{_reason(swallowed, _changed_by(function, captured))}"
            )
        tried.append((point, outcome))
    if not tried:
        return False
    agreement = compare(
        recording.program,
        inputs if holds.all() else inputs[holds],
        np.stack([outcome.entries for _, outcome in tried]).T,
        np.stack([outcome.rounding for _, outcome in tried]).T,
    )
    for position in np.flatnonzero(agreement.differs.any(axis=0)).tolist():
        arguments, outcome = tried[position]
        repeats = _is_same(function, arguments, outcome)
        differs = agreement.differs[:, position]
        if repeats:
            noise = _noise(function, arguments, shapes, outcome)
            with np.errstate(invalid="ignore"):
                apart = agreement.values[:, position] - agreement.expected[:, position]
            # changes of the last bits do not show the rounding inside a library: LAPACK's error in a small eigenvalue,
            # or a small entry of a solution, is as large as in the largest one, and grows with the condition number
            hidden = _is_implicit(recording.program) | (agreement.values[:, position] == 0)
            small = UNIT * _greatest(outcome.entries) * hidden
            if recording.program.has_linear_algebra:
                small = np.maximum(small, LIBRARY * UNIT * _largest(outcome.entries, shapes=recording.result_shapes))
            if getattr(function_of(function), "is_rewritten", False):
                # entries of which only the rounding of folded constants is left, such as sums of a Fourier matrix
                small = np.maximum(small, UNIT * _largest(outcome.entries, shapes=recording.result_shapes))
            differs = differs & ~(np.abs(apart) <= agreement.allowed[:, position] + noise + small)
        if differs.any():
            entry = int(np.flatnonzero(differs)[0])
            one, other = agreement.values[entry, position], agreement.expected[entry, position]
            changed = _changed_by(function, captured, arguments)
            why = _reason(swallowed, changed, repeats, captured is not None and captured.is_shared)
            if swallowed is None and not changed and repeats and not np.isfinite(one):
                why = NO_VALUE
            raise MismatchError(
                f"The recording of {described(function)} gives {one:.17g} for f(…){recording.entry_name(entry)}, and "
                f"the function itself {other:.17g}, at {_written(function, arguments, shapes)}."
                f"{why}"
            )
    return agreement.is_complete


def _largest(entries: Floats, shapes: Sequence[tuple[int, ...]]) -> Floats:
    """Return, for each entry of the results, the largest finite magnitude in its array."""
    sizes = [math.prod(shape) for shape in shapes]
    arrays = np.split(entries, np.cumsum(sizes)[:-1])
    return np.repeat([_greatest(array) for array in arrays], sizes)


def _greatest(entries: NDArray[Any]) -> float:
    """Return the largest finite magnitude; a tolerance of NaN or infinity would decide nothing, or anything."""
    return float(np.abs(entries).max(initial=0.0, where=np.isfinite(entries)))


def _is_implicit(program: Program) -> bool:
    """Return True if the program has implicit values, such as eigenvalues, which the function gets from a library."""
    return program.uses(_ATTACH)


def _changed_by(
    function: Callable[..., Any], captured: Captured | None, arguments: Sequence[Any] | None = None
) -> list[str]:
    """Describe the variables that the function has changed since it was recorded, or changes in another call."""
    changes = [] if captured is None else [*captured.changed, *captured.changes()]
    if not changes and arguments is not None:
        before = Captured(holder_of(function))
        with suppress(Exception):
            run_on_copies(function, arguments)
        changes = before.changes()
    return changes


def _reason(
    swallowed: TraceError | None, changed: Sequence[str] = (), repeats: bool = True, is_shared: bool = False
) -> str:
    """Return the text of an error message: the likely reason for a difference, and advice."""
    if swallowed is not None:
        return (
            " While the function was recorded, it caught this error, which plain numbers do not raise, and took "
            f"another branch:\n{swallowed}"
        )
    if changed:
        again = "" if repeats else "called again, it returns other values; "
        more = f" and {len(changed) - MOST_TOLD} more" if len(changed) > MOST_TOLD else ""
        return (
            f" The likely reason: {again}it changes {', '.join(changed[:MOST_TOLD])}{more} when it runs, which "
            f"compiled code does not{', or another thread changes it' if is_shared else ''}. Pass such state as an "
            "argument, and return its new value. check=False records a single run."
        )
    if not repeats:
        return (
            " Called again, it returns other values: it draws random numbers, or changes state that accumulus does "
            "not watch (a file, an iterator, an argument). Pass such state as an argument. check=False records a "
            "single run."
        )
    return (
        " Usual reasons: an exception that it catches, a test of types (isinstance, type(x) is …), a global or an "
        "attribute that changed, an entry of np.empty that is never set, the sign of an eigenvector or of a singular "
        "vector, which LAPACK does not define (vectors * np.sign(vectors[-1]) does). check=False skips this "
        "comparison."
    )


def _is_same(function: Callable[..., Any], point: Sequence[Any], before: Outcome) -> bool:
    """Return True if the function returns the same when it is called again."""
    try:
        outcome = run_on_copies(function, point)
    except Exception:
        return False
    return outcome.shapes == before.shapes and np.array_equal(outcome.entries, before.entries, equal_nan=True)


def _noise(
    function: Callable[..., Any], point: Sequence[Any], shapes: Sequence[tuple[int, ...] | None], outcome: Outcome
) -> Floats:
    """Estimate the rounding errors of the function's results from their changes under last-bit changes of arguments."""
    generator = Spread()
    noise = np.zeros(len(outcome.entries))
    for _ in range(NEARBY):
        try:
            nearby = run_on_copies(function, nearby_arguments(point, shapes, UNIT, generator))
        except Exception:
            continue
        if nearby.is_real and nearby.shapes == outcome.shapes:
            with np.errstate(all="ignore"):
                noise = np.fmax(noise, MAGNIFIED * np.abs(nearby.entries - outcome.entries))
    return noise


def _written(function: Callable[..., Any], arguments: Sequence[Any], shapes: Sequence[tuple[int, ...] | None]) -> str:
    """Return the text of numeric arguments, with their names."""
    texts = [
        f"{argument_name(function, k)} = {np.array2string(np.asarray(argument), threshold=12, separator=', ')}"
        for k, (argument, shape) in enumerate(zip(arguments, shapes, strict=True))
        if shape is not None
    ]
    return ", ".join(texts) if texts else "no numeric arguments"


def _form(shapes: Sequence[tuple[int, ...]], outcome: Outcome | None = None) -> str:
    kinds = [""] * len(shapes) if outcome is None else [f" of {leaf.dtype}" for _, leaf in outcome.leaves]
    forms = [f"an array of shape {shape}{kind}" for shape, kind in zip(shapes, kinds, strict=True)]
    return ", ".join(forms) if forms else "nothing"


# Iterations ----------------------------------------------------------------------------------------------------------
#
# An iteration that ends by comparing, such as a bisection, follows one path of decisions and selections. The derivative
# along that path need not be that of the number that the iteration approaches: halves of an interval do not depend on
# the function.

#: Number of decisions on one line, and of selections one after the other, from which a function counts as an iteration.
#: Smaller ones tell of orders among nearly equal entries, whose slopes nearby are others; larger ones miss iterations.
TURNS: Final = 4
SELECTIONS: Final = 16
#: Distances at which slopes are compared, relative to the arguments: far beyond the steps of iterations that end at
#: tolerances of 10⁻³, and close enough for slopes that change little.
SPANS: Final = (0.05, 0.1)
#: Largest relative difference of slopes at both distances, and least of two slopes that differ, also in multiples of
#: that difference. Larger ones miss derivatives that are wrong, smaller ones tell of functions that bend.
SETTLED: Final = 0.05
APART: Final = 0.05
TIMES_APART: Final = 4.0
#: Largest relative difference of the slopes of both sides. A larger one tells of kinks, a smaller one misses iterations
#: whose steps are coarse.
BENT: Final = 0.1


def iteration_of(recording: Recording) -> str | None:
    """Return the text of the line that has decided most often, if it is an iteration; empty if it only selects.

    Returns:
        None if no iteration is seen.
    """
    lines = Counter((guard.file, guard.line, guard.source) for guard in recording.guards)
    often = [place for place, count in lines.most_common() if count >= TURNS]
    if often:
        loops = [place for place in often if place[2].startswith("while")]
        file, line, source = (loops or often)[0]
        return f"{file}, line {line}: {source}"
    if not recording.program.is_straight and _most_in_turn(recording.program) < SELECTIONS:
        return None
    tape = _with_selections(recording)
    return "" if tape is not None and _are_in_turn(tape) else None


def _with_selections(recording: Recording) -> Tape | None:
    """Return the straight line of a program that selects values; None if it does not, or would be long."""
    program = recording.program
    if not (program.uses(SELECT) and program.is_writable) or program.operations > MOST_UNROLLED:
        return program.scalars
    return recording.written_out().tape


def _most_in_turn(program: Program) -> int:
    """Return the largest number of selections that may follow each other in a program with loops."""
    return sum(
        1 if block.body is None or block.steps is None else block.body.codes.count(SELECT) * (len(block.steps) - 1)
        for block in program.blocks
        if SELECT in block.codes
    )


def _are_in_turn(tape: Tape) -> bool:
    """Return True if conditions of selections depend on other selections, in chains of `SELECTIONS`."""
    if tape.codes.count(SELECT) < SELECTIONS:
        return False
    before = [0] * (len(tape) + len(tape.constants))
    for r in range(tape.inputs, len(tape)):
        arguments = tape.arguments(r)
        before[r] = max(map(before.__getitem__, arguments))
        if tape.codes[r] == SELECT:
            before[r] = max(before[r], before[arguments[0]] + 1)
    return max(before) >= SELECTIONS


def tell_of_iteration(
    name: str, recording: Recording, line: str, point: Floats, record_at: Callable[[Floats], Recording]
) -> None:
    """Warn if a result's slope along the path that was recorded is far from its own.

    Nothing is said if slopes cannot be told, or iterations at the points around end after other numbers of turns.

    Args:
        name: name of the function.
        recording: the recording.
        line: text of the line of the iteration, or an empty text.
        point: values of its inputs.
        record_at: records the function with the decisions at another point.

    Warns:
        IterationWarning: if they are.
    """
    size = np.abs(point)
    direction = np.where(size > 0, size, size.max(initial=0.0) or 1.0) * Spread().uniform(0.5, 1.0, point.shape)
    around = [point + side * span * direction for span in SPANS for side in (1.0, -1.0)]
    points = np.stack([point, *around])
    holds = where_it_holds(recording, points)
    tape = _with_selections(recording)
    values = []
    with suppress(AccumulusError, ArithmeticError, ValueError, np.linalg.LinAlgError), np.errstate(all="ignore"):
        for at, is_same in zip(points, holds.tolist(), strict=True):
            at_point = recording if is_same else record_at(at)
            if len(at_point.guards) != len(recording.guards) or at_point.results != recording.results:
                return
            values.append(outputs_at(at_point.program, at[np.newaxis])[: recording.results, 0])
        path = outputs_at(recording.program, points) if tape is None else run(tape, ON_PATH, list(points.T))
        along = np.stack([np.broadcast_to(each, len(points)) for each in path[: recording.results]]).T
        slopes = [
            (each[1 + 2 * k] - each[2 + 2 * k]) / (2.0 * span)
            for each in (values, along)
            for k, span in enumerate(SPANS)
        ]
        largest = np.abs(slopes).max(axis=0)
        changes = np.maximum(np.abs(slopes[1] - slopes[0]), np.abs(slopes[3] - slopes[2]))
        # at a kink the slopes of both sides differ, and that of the path is one of them
        sides = np.abs(values[1] - 2.0 * values[0] + values[2]) / SPANS[0]
        is_told = (changes <= SETTLED * largest) & (sides <= BENT * largest)
        apart = np.where(is_told & np.isfinite(largest), np.abs(slopes[1] - slopes[3]), 0.0)
        apart = np.where(apart > np.maximum(APART * largest, TIMES_APART * changes), apart, 0.0)
        entry = int(np.argmax(apart)) if apart.size else 0
        if apart.size and apart[entry]:
            warn(
                f"the derivative of {name} is that of the path that its iteration takes, not of what this approaches: "
                f"along one direction, f(…){recording.entry_name(entry)} changes by {slopes[1][entry]:.3g}, and along "
                f"the path by {slopes[3][entry]:.3g}{f' ({line})' if line else ''}. acc.implicit(residual) "
                "differentiates the solution instead",
                IterationWarning,
            )
