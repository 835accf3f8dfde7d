"""Nested derivatives: within a recorded function, a derivative is added to the enclosing tape.

The inner function is recorded on a separate tape, whose inputs are its differentiated arguments. Values that it
captures from the enclosing recording become further inputs: constants to the inner derivative, variables to the outer
ones, even if they equal an argument. Its branches on values belong to the enclosing recording.

With long arrays, the inner function is recorded on the enclosing tape, on copies of its arguments, which distinguish
them from captured equal values. The values that depend on the copies become a separate program, with captured values as
further inputs. That program is differentiated, and the result is added to the enclosing tape, with the arguments in
place of their copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE, recording_on
from accumulus.frontends.decisions import point_at
from accumulus.frontends.inner import LongBodyError, NestedTape
from accumulus.frontends.kinds import shape_of
from accumulus.frontends.location import numbered
from accumulus.frontends.numpy.arrays import make
from accumulus.frontends.numpy.operands import Operand, entries_of
from accumulus.frontends.record import outputs_of
from accumulus.frontends.recorder import Recording, recorder_of
from accumulus.frontends.trees import Structure, flatten, unflatten
from accumulus.options import Options
from accumulus.programs.derived import check_number, derived, points_around
from accumulus.programs.expansion import taylor_recording
from accumulus.programs.graphs import inputs_of
from accumulus.programs.kinds import DerivativeKind, Seeds
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection
from accumulus.tape.columns import column, references_in
from accumulus.tape.moving import Moving, replayed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import Program

_MULTIPLY: Final = BY_NAME["multiply"].code
_ATTACH: Final = BY_NAME["attach"].code
#: Maximum number of copies of arguments on one tape: beyond it, the derivative is called in a loop over numbers, and
#: recording it with arrays does not pay. With more, such loops take longer to record; with fewer, functions with
#: several calls lose their arrays.
MOST_COPIES: Final = 64
#: Number of derivatives kept for reuse: a loop requests the same derivative in every iteration. More take memory, fewer
#: record derivatives again in loops that request many.
MOST_KEPT: Final = 32
_KEPT: dict[Hashable, Recording] = {}


@dataclass(frozen=True, slots=True)
class _Taken:
    """Arguments of a function within a recording."""

    shapes: tuple[tuple[int, ...] | None, ...]  # shapes of numeric arguments; None for constants
    entries: list[NDArray[np.int64] | None]  # references on the enclosing tape, in the shapes of the arguments
    slices: tuple[slice, ...]  # entries of each argument among all entries
    examples: list[Any]  # arguments for the front end

    @classmethod
    def of(cls, outer: Any, arguments: Sequence[Any], static: frozenset[int], name: str) -> _Taken:
        """Find the arguments on the enclosing tape.

        Raises:
            ArgumentError: for an argument that is neither real nor a constant.
        """
        shapes: list[tuple[int, ...] | None] = []
        references: list[NDArray[np.int64] | None] = []
        slices: list[slice] = []
        examples: list[Any] = []
        end = 0
        for k, argument in enumerate(arguments):
            shape = None if k in static else _shape(argument, numbered(name, k))
            shapes.append(shape)
            start, argument_references = end, None
            if shape is not None:
                entries, boolean = entries_of(outer, argument)
                if boolean:
                    raise ArgumentError(f"{numbered(name, k)} is a traced boolean; expected real numbers")
                argument_references = np.asarray(entries, np.int64).reshape(shape)
                end += argument_references.size
            references.append(argument_references)
            slices.append(slice(start, end))
            is_example = isinstance(argument, Operand) and shape is not None
            examples.append(_example(shape or ()) if is_example else argument)
        return cls(tuple(shapes), references, tuple(slices), examples)

    def recorded(
        self, function: Callable[..., Any], tape: Any, inputs: Sequence[NDArray[np.int64] | None]
    ) -> tuple[NDArray[np.int64], tuple[tuple[int, ...], ...], Structure]:
        """Record the function on a tape; return the references of its results, flat, their shapes and structure.

        Args:
            function: function to record.
            tape: tape that it is recorded on.
            inputs: references on that tape of the arguments; None for constants.

        Raises:
            TraceError: for an operation that cannot be recorded.
        """
        recorder, location = recorder_of(function), ACTIVE.position
        with recording_on(tape, location, nested=True):
            try:
                result = recorder.run_nested(function, tape, self.examples, inputs)
            finally:
                refusal = ACTIVE.refusal
            structure, leaves = flatten(result)
            outputs = [outputs_of(recorder, function, tape, path, leaf) for path, leaf in leaves]
        if refusal is not None:  # a refusal that the function caught counts for the enclosing recording
            ACTIVE.refusal = refusal
        return one_by_one(outputs), tuple(references.shape for references in outputs), structure


def one_by_one(arrays: Iterable[NDArray[np.int64] | None]) -> NDArray[np.int64]:
    """Return the entries of all arrays, one array after the other."""
    parts = [each.reshape(-1) for each in arrays if each is not None]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _example(shape: tuple[int, ...]) -> Any:
    return np.zeros(shape) if shape else np.float64(0.0)


def _shape(argument: Any, name: str) -> tuple[int, ...] | None:
    if not isinstance(argument, Operand):
        return shape_of(argument, name)
    if argument.is_complex:
        raise ArgumentError(f"{name} is complex; expected its real and imaginary parts as arguments of their own")
    return np.shape(argument.entries)


def _nested(function: Callable[..., Any], taken: _Taken, outer: Any) -> tuple[Recording, NDArray[np.int64]]:
    """Return the function on a separate tape, and the enclosing references of its inputs.

    The tape has an input for each entry of the arguments, followed by one for each captured value.
    """
    outer_references = one_by_one(taken.entries)
    inner = NestedTape(outer_references.tolist(), outer)
    inputs = [
        None if each is None else np.arange(span.start, span.stop, dtype=np.int64).reshape(each.shape)
        for each, span in zip(taken.entries, taken.slices, strict=True)
    ]
    outputs, shapes, structure = taken.recorded(function, inner, inputs)
    if inner.is_long:
        raise LongBodyError
    inner.outputs = outputs.tolist()
    outer.folded_zero_signs |= inner.folded_zero_signs
    outer.has_linear_algebra |= inner.has_linear_algebra
    tape, further = inner.closed()
    return Recording(Program.of(tape), taken.shapes, taken.slices, shapes, structure), np.concatenate(
        [outer_references, further]
    )


def _nested_in_blocks(
    function: Callable[..., Any], taken: _Taken, outer: Program
) -> tuple[Recording, NDArray[np.int64]]:
    """Return a recording made on the enclosing tape, with arrays, from copies of the arguments, and its inputs."""
    copies = [None if each is None else _copied(outer, each) for each in taken.entries]
    outputs, shapes, structure = taken.recorded(function, outer, copies)
    tape, further = _parted(outer, one_by_one(copies), outputs)
    recording = Recording(tape, taken.shapes, taken.slices, shapes, structure)
    return recording, np.concatenate([one_by_one(taken.entries), further])


def _copied(tape: Program, references: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return copies of values, with new references."""
    if not references.size:
        return references
    tape.copies += 1
    one = column(np.full(references.size, tape.constant_apart(1.0)))
    return tape.apply_code(_MULTIPLY, [column(references.copy()), one]).references.reshape(references.shape)


def _parted(outer: Program, copies: NDArray[np.int64], outputs: NDArray[np.int64]) -> tuple[Program, NDArray[np.int64]]:
    """Return the program of the values that depend on copies, and the enclosing references of its further inputs.

    Args:
        outer: enclosing tape.
        copies: references on it; the first inputs of the program.
        outputs: references on it; the outputs of the program.
    """
    needed = outer.reached([column(outputs)])
    depends = np.zeros(len(outer.blocks) + 1, bool)  # the last entry is for inputs and constants
    depends[outer.owners(column(copies))] = True
    first = copies.min(initial=len(outer))
    chosen = []
    for position, block in enumerate(outer.blocks):
        if needed[position] and block.start >= first and not depends[position]:
            depends[position] = any(depends[outer.owners(operands)].any() for operands in block.operands)
            if depends[position]:
                chosen.append(position)
    is_moved = np.zeros(len(outer), bool)  # True for values computed on the new tape
    for position in chosen:
        block = outer.blocks[position]
        is_moved[block.start : block.start + block.size] = True
    is_moved[copies] = True
    used = [column(outputs), *(each for position in chosen for each in outer.blocks[position].operands)]
    taken = np.unique(np.concatenate([each[each >= 0] for each in map(references_in, used)]))
    taken = taken[~is_moved[taken]]
    made = Program(len(copies) + len(taken), signed_zeros=outer.signed_zeros)
    moving = Moving(outer, made, np.empty(0, np.int64), used)
    moving.note_each(copies, np.arange(len(copies)))
    moving.note_each(taken, np.arange(len(copies), made.inputs))
    for position in chosen:
        with made.located(outer.lines[position]):
            moving.copy(outer.blocks[position])
    made.outputs = moving.at(outputs)
    return made, taken


def derivative_within(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    static: frozenset[int],
    kind: DerivativeKind,
    selected: Callable[[Recording], Selection],
    name: str,
    options: Options,
) -> Any:
    """Add a derivative's operations to the enclosing tape, and return its results as traced values.

    Args:
        function: function to differentiate.
        arguments: arguments of the function.
        static: positions of static arguments.
        kind: kind of the derivative.
        selected: function from the recording to the selection.
        name: name of the function, for messages.
        options: options of the derivative.

    Raises:
        TraceError: for an operation that cannot be recorded.
        ArgumentError: for sparse results, and as `derived`.
    """
    outer: Any = ACTIVE.tape
    if options.sparse is not None:
        raise ArgumentError(
            f"sparse is {options.sparse!r} for a derivative of {name} inside a function that is recorded, where "
            "derivatives are dense arrays; leave it out"
        )
    in_blocks = outer.in_loops(0) and outer.copies < MOST_COPIES
    taken = _Taken.of(outer, arguments, static, name)
    if in_blocks and not kind.derivatives and not kind.has_seeds:
        outputs, shapes, structure = taken.recorded(function, outer, taken.entries)
        return _arranged(outer, outputs, shapes, structure)
    with Preparation(name, options) as preparation:
        with preparation.stage("trace"):
            try:
                recording, sources = (_nested_in_blocks if in_blocks else _nested)(function, taken, outer)
            except LongBodyError:
                # the enclosing tape is a body, which is then too long as well; or it has loops already, or may not have
                # any
                if outer.open is outer or not outer.may_loop:
                    raise
                outer.begin_loops()
                in_blocks, (recording, sources) = True, _nested_in_blocks(function, taken, outer)
        selection = selected(recording)
        check_number(recording, kind, name)
        constants = _constants(recording, kind, selection, outer, sources)
        key = nesting_key(recording, kind, selection, options, constants)
        if key in _KEPT:
            recording = _KEPT[key]
        else:
            point = point_at(outer, sources)
            points = None if point is None else points_around(point)
            if kind.seeds is Seeds.SERIES:
                recording = taylor_recording(recording, selection, preparation, points)
            elif kind.derivatives:
                recording = derived(recording, kind, selection, preparation, points, constants)
            if key is not None and not preparation.context.cut_short:
                if len(_KEPT) >= MOST_KEPT:
                    _KEPT.clear()
                _KEPT[key] = recording
    return _arranged(outer, replayed(recording.program, outer, sources), recording.result_shapes, recording.structure)


def _constants(
    recording: Recording, kind: DerivativeKind, selection: Selection, outer: Any, sources: NDArray[np.int64]
) -> dict[int, float]:
    """Return the values of the differentiated inputs that are constants on the enclosing tape."""
    if not kind.derivatives or not recording.program.is_straight or _ATTACH in recording.tape.codes:
        return {}
    inputs = inputs_of(recording, selection.positions)
    return {k: outer.value_of(int(sources[k])) for k in inputs.tolist() if sources[k] < 0}


def nesting_key(
    recording: Recording, kind: DerivativeKind, selection: Selection, options: Options, constants: dict[int, float]
) -> Hashable:
    """Return a key of everything that determines a derivative; None if the point does, too, or a part has no hash."""
    program = recording.program
    if selection.places is not None or program.uses(_ATTACH):
        return None
    ways = program.signed_zeros, program.is_straight and recording.tape.literal
    form = recording.argument_shapes, recording.result_shapes, recording.structure
    numbers = tuple(constants), np.array([*constants.values()]).tobytes()
    key = program.content(), ways, form, kind, selection, options, numbers
    try:
        hash(key)
    except TypeError:  # an executor, or a constant in the result's structure, without a hash
        return None
    return key


def _arranged(tape: Any, references: NDArray[np.int64], shapes: Sequence[tuple[int, ...]], structure: Structure) -> Any:
    """Return references as traced values in the structure of a result."""
    parts, first = [], 0
    for shape in shapes:
        size = math.prod(shape)
        entries = references[first : first + size].reshape(shape)
        parts.append(make(tape, entries if shape else int(entries)))
        first += size
    return unflatten(structure, parts)
