"""Recording of a function: run it on traced arguments and keep its operations.

One run is enough, with two exceptions. First, arctan2 is π or -π depending on the sign of a zero. A function that calls
it runs again on a tape that keeps the signs of zeros; operations that do not reach arctan2 are simplified afterwards.
The first run ends at the first such operation in a loop. If the second run is refused, because these zeros would hide
constants, a recording without them is used. Second,
simplification by zeros and ones from a table makes the steps of a long Python loop differ. If no repetition is found,
the function runs again on a tape that does not simplify by the values of constants.

The recording contains the operations of that run: global variables, files and static arguments have their values of
that time. An operation that needs the value of a traced argument raises a `TraceError`. So does a recording that
computes other values than the function on numbers (`accumulus.frontends.agreement`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import AccumulusError, ArgumentError, EndlessRecordingError, SizeError, TraceError
from accumulus.frontends import written_out
from accumulus.frontends.active import ACTIVE, LoopFactError, ZeroSignsError, ending, recording_on, swallowed
from accumulus.frontends.agreement import (
    holds_nearby,
    iteration_of,
    run_nearby,
    run_on_copies,
    tell_of_iteration,
    verify_recording,
)
from accumulus.frontends.calls import function_of, signature_of
from accumulus.frontends.captured import Captured
from accumulus.frontends.decisions import Decisions, as_number, without_decided
from accumulus.frontends.kinds import Spread, as_inputs, as_reals, is_quantity, shape_of, unit_advice
from accumulus.frontends.location import (
    argument_name,
    described,
    error_position,
    is_foreign,
    is_raised_by_user,
    name_of,
    user_entries,
    user_line,
    user_traceback,
)
from accumulus.frontends.recorder import Recorder, Recording, References, holder_of, recorder_of
from accumulus.frontends.trees import flatten
from accumulus.frontends.turns import explained
from accumulus.frontends.written_out import BusiestLine, scalar_operations, warn_written_out
from accumulus.repetition.instances import by_instance
from accumulus.repetition.recorded_loops import with_recurrences
from accumulus.repetition.roll import are_many, is_long_and_simplified, rolled
from accumulus.tape.live import settled
from accumulus.tape.passes import moved
from accumulus.tape.prices import LOOPS, WRITTEN
from accumulus.tape.program import Program
from accumulus.tape.tape import SELECT

T = TypeVar("T")
#: Minimum text of a program with loops, in operations, for which similar steps of a Python loop are searched:
#: `LONG_TEXT` always; `SHORT_TEXT` if loops have fewer than `FEW_INSTANCES` instances on average. Smaller texts and
#: more instances search, and find little; the opposite leaves long texts to compile.
LONG_TEXT: Final = 1_000
SHORT_TEXT: Final = 50
FEW_INSTANCES: Final = 8


def record(
    function: Callable[..., Any],
    arguments: Sequence[object],
    static: frozenset[int] = frozenset(),
    *,
    check: bool = False,
    arrays: bool = False,
    at_once: bool = False,
    decides: bool = False,
    captured: Captured | None = None,
    tells: bool = True,
    opens_indices: bool = False,
) -> Recording:
    """Run `function` on traced values instead of `arguments` and return its recording.

    Args:
        function: function to record, written with operators and NumPy's functions.
        arguments: example arguments. Only their shapes matter, unless the function decides on values. Numbers and
            arrays of floats or integers are traced, as reals. Truth values, text, None, functions and other objects are
            constants and passed unchanged.
        static: positions of arguments that are constants although they are numeric or contain numbers.
        check: True to compare the recording with the function, which then runs on numbers at up to three points, see
            `accumulus.frontends.agreement`.
        arrays: True to record operations on arrays as loops, and to turn repetition in long programs into loops.
        at_once: True to record operations on numbers as blocks, too.
        decides: True to answer decisions on traced values as at the given arguments, and keep them as guards; False to
            refuse them.
        captured: variables that the function reads, with their present values, if the caller watches them already.
        tells: True to warn of long programs that are written out.
        opens_indices: True to keep long arrays of indices that depend on arguments as numbers of the program, which
            then holds for other indices, too.

    Raises:
        ArgumentError: for an argument that is numeric but cannot be traced: complex numbers, lists of numbers.
        TraceError: if the function does something that cannot be recorded, does not return real numbers, or computes
            other values than its recording; an `EndlessRecordingError` if recording does not end. A refusal that the
            function catches itself is raised, too, unless the comparison covers every entry of the results and finds no
            difference.
        Exception: any exception of the function, with a note that lists its arguments.

    >>> recording = record(lambda x, k: {"force": k * x - 1.0}, [np.zeros(2), 3.0])
    >>> print(recording.tape)
    t3 = multiply(x0, x2)
    t4 = multiply(x1, x2)
    t5 = add(-1.0, t3)
    t6 = add(-1.0, t4)
    return t5, t6
    >>> recording.unflatten(["F"])
    {'force': 'F'}
    """
    if wrong := [k for k in static if not 0 <= k < len(arguments)]:
        raise ArgumentError(f"static argument {min(wrong)} does not exist: {len(arguments)} arguments were given")
    shapes = tuple(
        None if k in static else shape_of(argument, argument_name(function, k)) for k, argument in enumerate(arguments)
    )
    if check and captured is None:
        captured = Captured(holder_of(function))
    slices, count = [], 0
    for shape in shapes:
        size = 0 if shape is None else int(np.prod(shape))
        slices.append(slice(count, count + size))
        count += size
    point = as_inputs(as_reals(arguments, shapes), shapes) if decides else None
    run = ending(partial(_recorded, recorder_of(function), function, arguments, shapes, tuple(slices)))
    opened = partial(Program, count, scalar=not (arrays and at_once), loops=arrays)

    facts: dict[Any, Any] = {}

    def recorded(
        opened: Callable[[], Program], at: NDArray[np.float64] | None = point
    ) -> tuple[Recording, TraceError | None]:
        while True:
            tape = opened()
            tape.loop_facts = facts
            try:
                return run(tape, point=at, opens_indices=opens_indices)
            except LoopFactError:
                pass
            finally:
                if captured is not None:
                    captured.put_back()

    def verified(recording: Recording, refusal: TraceError | None) -> bool:
        return check and verify_recording(function, arguments, recording, refusal, captured)

    make = partial(
        _checked, function, recorded, verified, opened, arrays=arrays, at_once=at_once, check=check, tells=tells
    )
    recording = make()
    # it may remember its last arguments, and have returned what it remembers; after a run near them, it does not
    if check and recording.guards and not holds_nearby(arguments, recording):
        with suppress(Exception):
            run_nearby(function, arguments, static, Spread())
        recording = make()
    elif check and captured is not None and recording.program.uses(SELECT) and captured.changes():
        recording = make()  # the check ran it near them
    line = iteration_of(recording) if check else None
    if line is not None and point is not None:
        tell_of_iteration(name_of(function), recording, line, point, lambda at: recorded(opened, at)[0])
    return recording


def _checked(
    function: Callable[..., Any],
    recorded: Callable[[Callable[[], Program]], tuple[Recording, TraceError | None]],
    verified: Callable[[Recording, TraceError | None], bool],
    opened: Callable[..., Program],
    *,
    arrays: bool,
    at_once: bool,
    check: bool,
    tells: bool,
) -> Recording:
    """Record a function and, if wanted, compare the recording with it; see `record`.

    Args:
        function: the function.
        recorded: records it on an empty program, which a function makes.
        verified: compares a recording with it, given a refusal that it caught; True if all was compared.
        opened: makes an empty program.
        arrays: as for `record`.
        at_once: as for `record`.
        check: as for `record`.
        tells: as for `record`.
    """
    recording, refusal, opened = _with_zero_signs(recorded, opened)
    if arrays and not at_once and _has_short_blocks(recording.program):
        recording = recording.written_out()
    is_straight = recording.program.is_straight
    if is_straight and recording.tape.signed_zeros:
        recording = recording.computing(settled(recording.tape))
    if arrays and is_straight:
        loops = rolled(recording.tape)
        plain = refusal is None and not recording.guards and not recording.program.sees_zero_signs
        if loops is None and plain and is_long_and_simplified(recording.tape):
            # simplification shortens steps that read 0 or 1 from a table; unsimplified, all steps are alike
            with suppress(TraceError):
                literal, _ = recorded(partial(opened, scalar=True, loops=False, literal=True))
                loops = rolled(literal.tape)
        if loops is not None:
            recording = replace(recording, program=loops)
    is_long = tells and arrays and scalar_operations(recording.program) > written_out.LONG
    repeats_not = recording.program.is_straight and arrays and are_many(recording.tape.operations)
    with BusiestLine(repeats_not and check) as busiest:
        agrees = verified(recording, refusal)
    if refusal is not None and not agrees:
        refusal.add_note(
            f"{described(function)} caught this error while it was recorded, and went on. Plain numbers do not raise "
            "it, so the recording may differ from the function."
        )
        raise refusal.with_traceback(user_traceback(refusal.__traceback__))
    loop = busiest.busiest
    if loop is not None:
        recording = replace(
            recording, why_written=explained(lambda tape: recorded(lambda: tape), partial(opened, loops=False), *loop)
        )
    if is_long:
        warn_written_out(name_of(function), recording.program, loop, recording.why_written)
    return recording


def _has_short_blocks(program: Program) -> bool:
    """Return True if blocks of a long program are so short that it is prepared sooner in a straight line, or its loops.

    Those of loops that are not recorded as loops: their iterations are looked for among operations on numbers.
    """
    operations = program.operations
    if program.is_straight or not are_many(operations) or not program.is_writable:
        return False
    return WRITTEN.cost(operations, operations).prepare < LOOPS.cost(program.text, operations).prepare


def _with_zero_signs(
    recorded: Callable[[Callable[[], Program]], tuple[Recording, TraceError | None]], opened: Callable[..., Program]
) -> tuple[Recording, TraceError | None, Callable[..., Program]]:
    """Record a function on a program that keeps the signs of zeros, if an operation depends on them.

    Returns:
        The recording, the refusal that the function caught, and what makes an empty program for another one.
    """

    def watched() -> Program:
        program = opened()
        program.tell_zero_signs = _begin_anew
        return program

    signed: tuple[Recording, TraceError | None] | None = None
    plain: tuple[Recording, TraceError | None] | None = None
    with suppress(ZeroSignsError):
        plain = recorded(watched)
        if not plain[0].program.is_straight and plain[0].program.is_long and plain[0].program.is_mixed:
            opened, plain = partial(opened, scalar=False, loops=True), None
            plain = recorded(watched)
    if plain is not None and not (plain[0].program.sees_zero_signs or plain[0].program.folded_zero_signs):
        return *plain, opened
    with suppress(TraceError):
        signed = recorded(partial(opened, signed_zeros=True))
        if signed[1] is None:
            return *signed, opened
    if plain is None:
        plain = recorded(opened)
    return *(plain if signed is None or plain[1] is None else signed), opened


def _begin_anew() -> None:
    """Begin a recording anew, with the signs of zeros.

    Raises:
        ZeroSignsError: to do so.
    """
    if not ACTIVE.trying:
        raise ZeroSignsError


def _recorded(
    recorder: Recorder,
    function: Any,
    arguments: Sequence[object],
    shapes: tuple[tuple[int, ...] | None, ...],
    slices: tuple[slice, ...],
    tape: Program,
    *,
    point: NDArray[np.float64] | None,
    opens_indices: bool,
) -> tuple[Recording, TraceError | None]:
    """Record the function on an empty program; return the recording and the last refusal that the function caught."""
    inputs = [None if shape is None else _inputs(span, shape) for shape, span in zip(shapes, slices, strict=True)]
    refusal: TraceError | None = None
    tape.locate = user_line
    decisions = None if point is None else Decisions(tape, point, opens_indices)
    with recording_on(tape, recorder.position, decisions=decisions):
        try:
            result = recorder.run(function, tape, arguments, inputs)
            caught = None if ACTIVE.refusal is None else ACTIVE.refusal[0]
        except TraceError as error:
            refusal = error
        except RecursionError as error:
            if decisions is None:
                raise
            lines = Counter(
                (entry.tb_frame.f_code.co_filename, entry.tb_lineno) for entry in user_entries(error.__traceback__)
            )
            (file, line), _ = lines.most_common(1)[0]
            raise EndlessRecordingError(
                f"{file}, line {line}: {described(function)} calls itself deeper than Python's recursion limit while "
                f"it is recorded with {_examples(arguments, shapes)}. Check that the recursion ends for these "
                "arguments; sys.setrecursionlimit raises the limit, and a loop has none."
            ) from None
        except Exception as error:
            refusal = swallowed(error)
            if refusal is None and isinstance(error, MemoryError) and not isinstance(error, SizeError):
                raise SizeError(
                    f"memory ran out while {described(function)} was recorded with {_examples(arguments, shapes)}: "
                    f"{error}. Recorded arrays take 8 bytes an entry; expected smaller arrays"
                ) from error
            if (
                refusal is None
                and ACTIVE.refusal is not None
                and _raised_on_numbers(function, arguments, error) is None
            ):
                caught = ACTIVE.refusal[0]
                caught.add_note(f"The function caught this error, and raised {type(error).__name__}: {error}")
                raise caught.with_traceback(user_traceback(caught.__traceback__)) from error
            if refusal is None and (wrong := _misfit(function, arguments, shapes, error)) is not None:
                raise wrong from error
            if refusal is None and is_foreign(type(error).__module__) and not is_raised_by_user(error.__traceback__):
                numeric_error = _raised_on_numbers(function, arguments, error)
                if numeric_error is None:
                    source = error_position(error.__traceback__) or ""
                    raise TraceError(
                        f"{source}{type(error).__name__}: {error}. It is raised for a traced value, but not for the "
                        "number that it stands for: the function called here accepts only plain numbers, or checks "
                        "their type. Write it with operators and NumPy's functions, or make the argument static "
                        "(static_argnums)."
                    ) from error
                if not isinstance(error, type(numeric_error)):
                    raise numeric_error from None
            if refusal is None:
                error.add_note(f"{name_of(function)} was being recorded with {_examples(arguments, shapes)}.")
                if ACTIVE.refusal is not None:
                    error.add_note(f"Before, it caught this error: {ACTIVE.refusal[0]}")
                raise
        if refusal is not None:
            raise refusal.with_traceback(user_traceback(refusal.__traceback__)) from None
        structure, leaves = flatten(result)
        outputs = [outputs_of(recorder, function, tape, path, leaf) for path, leaf in leaves]  # may take decisions
    result_shapes = tuple(references.shape for references in outputs)
    guards = {} if decisions is None else decisions.guards
    straight = tape.scalars
    simpler = without_decided(straight, guards) if guards and straight is not None else None
    if simpler is not None:
        straight, to = simpler
        outputs = [moved(references, to) for references in outputs]
        places = moved(list(guards), to).tolist()
        guards = {position: guard for position, guard in zip(places, guards.values(), strict=True) if position >= 0}
    outputs += [np.array([as_number(tape if straight is None else straight, holds)]) for holds in guards]
    tape.locate = None
    # traced values that the function has stored refer to `tape`, which ends
    program = copy(tape) if straight is None else Program.of(copy(straight))
    program.folded_zero_signs |= tape.folded_zero_signs
    program.has_linear_algebra |= tape.has_linear_algebra
    program.outputs = np.concatenate([np.empty(0, np.int64), *(references.reshape(-1) for references in outputs)])
    program = with_recurrences(program)
    return Recording(program, shapes, slices, result_shapes, structure, guards=tuple(guards.values())), caught


#: Exceptions, and messages, of Python and NumPy for numbers that are used as arrays.
_OF_NUMBERS: Final = re.compile(
    r"'(numpy\.)?(float|int)(64)?' object (is not (subscriptable|iterable)|has no attribute '(?P<attribute>\w+)')|"
    r"has no len\(\)|must be an iterable, not|operand type\(s\) for @|to scalar variable|0-dimensional|0-d array|"
    r"non-iterable|of unsized object|enough dimensions \(has 0"
)
_MISUSE: Final = (TypeError, IndexError, AttributeError, ValueError)


def _misfit(
    function: Any, arguments: Sequence[object], shapes: Sequence[tuple[int, ...] | None], error: Exception
) -> AccumulusError | None:
    """Return the error for a wrong number of arguments, or for numbers where the function takes arrays.

    None if these do not explain `error`, or if the function's own code raises it.
    """
    if not isinstance(error, _MISUSE) or is_raised_by_user(error.__traceback__):
        return None
    entry = signature_of(function)
    if entry is not None:
        try:
            entry[0].bind(*arguments)
        except TypeError as unbound:
            return ArgumentError(f"the arguments do not fit {name_of(function)}{entry[0]}: {unbound}")
    numbers = [k for k, shape in enumerate(shapes) if shape == ()]
    numeric = _raised_on_numbers(function, arguments, error) if numbers else None
    used = _OF_NUMBERS.search(str(numeric)) if isinstance(numeric, _MISUSE) else None
    if used is None or not hasattr(np.ndarray, used["attribute"] or "shape"):
        return None
    values = [f"{float(np.asarray(arguments[k])):g}" for k in numbers]
    given = ", ".join(f"{argument_name(function, k)} is the number {x}" for k, x in zip(numbers, values, strict=True))
    said = f"{error_position(error.__traceback__) or ''}{type(numeric).__name__}: {str(numeric).rstrip('.')}"
    return TraceError(
        f"{said}. Here {given}. If the function takes an array, as for an index, len() or @, pass one: "
        f"np.array([{values[0]}, …])"
    )


def _raised_on_numbers(function: Any, arguments: Sequence[object], error: Exception) -> Exception | None:
    """Return the error that the function raises on numbers, or None; `error` if it says nothing about the function."""
    if isinstance(error, AccumulusError | OSError | MemoryError):
        return error
    before, ACTIVE.explained = ACTIVE.explained, (*ACTIVE.explained, function_of(function))
    try:
        run_on_copies(function, arguments)
    except Exception as raised:
        return raised
    finally:
        ACTIVE.explained = before
    return None


def of_steps(recording: Recording) -> Recording:
    """Return a recording with loops over similar operations, and over the steps of a Python loop if there is one.

    Each step of such a loop has its own operations on short arrays and numbers, which are loops of few instances.
    """
    program = recording.program
    if program.is_straight:
        return recording
    text = program.text
    is_loop = text >= LONG_TEXT or (text >= SHORT_TEXT and program.operations < FEW_INSTANCES * text)
    if not is_loop or recording.guards or program.sees_zero_signs:
        return _by_stage(recording)
    by_steps = rolled(recording.written_out().tape, short=True)
    if by_steps is None or 2 * by_steps.text > text:
        return _by_stage(recording)
    return _by_stage(replace(recording, program=by_steps))


def _by_stage(recording: Recording) -> Recording:
    """Return a recording with loops over similar operations, also over few instances."""
    return replace(recording, program=by_instance(recording.program, recording.results, short=True))


def _inputs(span: slice, shape: tuple[int, ...]) -> References:
    references = np.arange(span.start, span.stop, dtype=np.int64).reshape(shape)
    references.flags.writeable = False  # views of it are read-only, too
    return references


def outputs_of(recorder: Recorder, function: Any, tape: Any, path: str, leaf: Any) -> References:
    """Return the references of one leaf of the result.

    Raises:
        TraceError: for a leaf that is not numeric.
    """
    references = recorder.references(tape, leaf)
    if references is not None:
        return references
    if is_quantity(leaf):
        raise TraceError(
            f"{described(function)} returned a quantity{' at ' + path if path else ''}. {unit_advice(leaf)}"
        )
    description = f"an array of {leaf.dtype}" if isinstance(leaf, np.ndarray) else f"{type(leaf).__name__} {leaf!r:.60}"
    raise TraceError(
        f"{described(function)} returned {description}{' at ' + path if path else ''}; expected real numbers, arrays "
        "of them, or lists, tuples and dicts of those."
        + (" Is a return statement missing?" if leaf is None else "")
        + (" Return the real and the imaginary part, z.real and z.imag." if _is_complex(leaf) else "")
    )


def _is_complex(leaf: Any) -> bool:
    return getattr(getattr(leaf, "dtype", None), "kind", "c" if isinstance(leaf, complex) else "") == "c"


def _examples(arguments: Sequence[object], shapes: Sequence[tuple[int, ...] | None]) -> str:
    """Return a text of the arguments of a recording, for a note on the function's own error."""
    texts = [
        f"{type(argument).__name__} {argument!r}"
        if shape is None
        else f"a traced array of shape {shape}"
        if isinstance(argument, np.ndarray)
        else "a traced number"
        for argument, shape in zip(arguments, shapes, strict=True)
    ]
    return ", ".join(texts) if texts else "no arguments"
