"""Loop bodies: functions that are recorded once and emitted for all instances together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE, recording_on
from accumulus.frontends.inner import MOST_IN_BODY, InnerTape, LongBodyError
from accumulus.frontends.numpy.arrays import TracedArray, make
from accumulus.frontends.numpy.operands import references_of
from accumulus.frontends.numpy.patching import patched, replaced
from accumulus.frontends.numpy.scalars import Traced
from accumulus.frontends.trees import Structure, flatten, unflatten
from accumulus.tape.columns import Column, Range, column, references_in
from accumulus.tape.interpreter import Writing
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.program import MOST_UNROLLED
from accumulus.tape.segments import Lines
from accumulus.tape.tape import Tape

#: Shape of a leaf of one instance, and True if it consists of truth values.
Place = tuple[tuple[int, ...], bool]


@dataclass(frozen=True, slots=True)
class Body:
    """A recorded function, as one instance of a loop."""

    # its inputs are the entries of the arguments, followed by the values that it takes from the enclosing tape; its
    # outputs are the entries of the results
    tape: Tape
    taken: NDArray[np.int64]  # references that it takes from the enclosing tape
    structure: Structure  # of the result
    results: tuple[Place, ...]  # leaves of the result
    lines: Lines  # source lines of its operations


def recorded_body(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Structure, Sequence[Place]]],
    outer: Any,
    most: int = MOST_IN_BODY,
) -> Body:
    """Record a function as a loop body.

    Args:
        function: function to record.
        arguments: structure and leaves of each argument of one instance.
        outer: enclosing tape, whose values the function may use.
        most: largest number of operations on entries of long arrays.

    Raises:
        LongBodyError: if the function works on long arrays.
        ArgumentError: for results that are not real numbers, arrays of them, or containers of those.
        TraceError: if the function cannot be recorded.
        Exception: any exception of the function.
    """
    inputs = sum(int(np.prod(shape)) for _, leaves in arguments for shape, _ in leaves)
    inner = InnerTape(inputs, outer, most)
    traced, first = [], 0
    for structure, leaves in arguments:
        parts = []
        for shape, boolean in leaves:
            size = int(np.prod(shape))
            references = np.arange(first, first + size).reshape(shape)
            first += size
            if boolean:  # a body takes truth values as numbers
                zero = inner.constant(0.0)
                truths = [inner.apply("not_equal", reference, zero) for reference in references.ravel().tolist()]
                references = np.array(truths, np.int64).reshape(shape)
            references.flags.writeable = False
            parts.append(make(inner, references if shape else int(references), boolean))
        traced.append(unflatten(structure, parts))
    with recording_on(inner, ACTIVE.position, in_body=True):
        try:
            with patched(function):
                result = replaced(function)(*traced)
            if inner.is_long:
                raise LongBodyError
        finally:
            refusal = ACTIVE.refusal
    if refusal is not None:
        ACTIVE.refusal = refusal  # a caught refusal counts for the enclosing function, too
        if outer is None:
            raise refusal[0]
    structure, results = flatten(result)
    outputs: list[int] = []
    places: list[Place] = []
    for path, leaf in results:
        boolean = _is_boolean(leaf, path)
        references = references_of(inner, leaf, boolean)
        outputs += references.ravel().tolist()
        places.append((references.shape, boolean))
    inner.outputs = outputs
    if outer is not None:
        outer.folded_zero_signs |= inner.folded_zero_signs
        outer.has_linear_algebra |= inner.has_linear_algebra
    tape, taken = inner.closed()
    return Body(tape, taken, structure, tuple(places), frozenset(inner.lines))


def _is_boolean(leaf: Any, path: str) -> bool:
    """Return True if a leaf of a result consists of truth values.

    Raises:
        ArgumentError: if it consists neither of truth values nor of real numbers.
    """
    if isinstance(leaf, Traced):
        return bool(leaf.boolean)
    return as_numbers(leaf, path, "fiubO").dtype.kind == "b"


def as_numbers(leaf: Any, path: str, kinds: str = "fiubc") -> NDArray[Any]:
    """Convert a leaf of the result of one instance to an array.

    Raises:
        ArgumentError: if it is not numeric.
    """
    array = np.asarray(leaf)
    if array.dtype.kind not in kinds or leaf is None:
        description = f"{type(leaf).__name__} {leaf!r:.60}"
        raise ArgumentError(
            f"the function returned {description}{' at ' + path if path else ''} for one instance; expected real "
            "numbers, arrays of them, or lists, tuples and dicts of those"
        )
    return array


def instances(tape: Any, body: Body, columns: Sequence[Column], count: int) -> Any:
    """Return the results of a body for all instances, in the function's structure, with an additional leading axis.

    Args:
        tape: tape to record on.
        body: recorded body.
        columns: operands of all instances, one column for each of the body's own inputs.
        count: number of instances.
    """
    if not count:
        empty = [TracedArray(tape, np.empty((0, *shape), np.int64), boolean=boolean) for shape, boolean in body.results]
        return unflatten(body.structure, empty)
    operands = [*columns, *(Range(reference, 0, count) for reference in body.taken.tolist())]
    work = count * max(body.tape.operations, 1)
    if tape.in_loops(max(count, 2) if work > MOST_UNROLLED else count, work):
        with tape.located(body.lines):
            outputs = _in_blocks(tape, body.tape, operands, count)
    else:
        if isinstance(tape, InnerTape):
            tape.lines |= body.lines
        outputs = _written_out(tape, body.tape, operands, count)
    leaves, first = [], 0
    for shape, boolean in body.results:
        size = int(np.prod(shape))
        entries = np.empty((count, size), np.int64)
        for k in range(size):
            entries[:, k] = references_in(outputs[first + k])
        first += size
        leaves.append(TracedArray(tape, entries.reshape(count, *shape), boolean=boolean))
    return unflatten(body.structure, leaves)


def _written_out(tape: Tape, body: Tape, operands: Sequence[Column], count: int) -> list[Column]:
    """Write out each instance, operation by operation, and return the columns of the results."""
    write = Writing(tape.open).routine(body)
    results = np.empty((len(body.outputs), count), np.int64)
    for instance, inputs in enumerate(zip(*(references_in(each).tolist() for each in operands), strict=True)):
        results[:, instance] = write(*inputs)
    return list(map(column, results))


def _in_blocks(tape: Any, body: Tape, operands: Sequence[Column], count: int) -> list[Column]:
    """Emit a block for each operation; constants are folded, and operations that instances share are emitted once."""
    columns: list[Column | None] = list(operands)
    numbers: dict[int, Any] = {}  # values of constants, a number or one for each instance
    for k, operand in enumerate(operands):
        if (isinstance(operand, Range) and max(operand.start, operand.references[-1]) < 0) or (
            not isinstance(operand, Range) and int(operand.max()) < 0
        ):
            references = operand.start if isinstance(operand, Range) and operand.step == 0 else references_in(operand)
            numbers[k] = tape.constants[-1 - np.asarray(references)]
    uses = Counter(a for k in range(body.inputs, len(body)) for a in set(body.arguments(k)))
    uses.update(set(body.outputs))

    def value(reference: int) -> Any:
        return body.value_of(reference) if reference < 0 else numbers[reference]

    def at(reference: int) -> Column:
        if reference < 0:
            return Range(tape.constant(body.value_of(reference)), 0, count)
        cached = columns[reference]
        if cached is None:
            constants = np.asarray(tape.constant_array(np.asarray(numbers[reference], np.float64)))
            cached = column(constants) if constants.shape else Range(int(constants), 0, count)
            columns[reference] = cached
        return cached

    for reference in range(body.inputs, len(body)):
        arguments = body.arguments(reference)
        code = body.codes[reference]
        if all(a < 0 or a in numbers for a in arguments):
            columns.append(None)
            numbers[reference] = OPERATIONS[code].evaluate(*map(value, arguments))
        else:
            inputs = [at(a) for a in arguments]
            shared = all(isinstance(each, Range) and each.step == 0 for each in inputs)
            if shared:
                inputs = [Range(each.start, 0, 1) for each in inputs if isinstance(each, Range)]
            result = tape.apply_code(code, inputs)
            columns.append(Range(result.start, 0, count) if shared else result)
        for a in set(arguments):
            uses[a] -= 1
            if not uses[a]:
                numbers.pop(a, None)
    return [at(output) for output in body.outputs]
