"""Derivatives within functions that are recorded: written onto their tape, as products and sums among the rest.

The function is recorded on a tape of its own, whose inputs are what it is differentiated by. What it uses from around
it are further inputs, constants to this derivative and variables to those around it, even where they are the same
values. Its decisions are those of the recording around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE, TooLongError, recording_on
from accumulus.frontends.decisions import point_at
from accumulus.frontends.inner import NestedTape, replayed
from accumulus.frontends.kinds import shape_of
from accumulus.frontends.location import numbered
from accumulus.frontends.numpy.arrays import make
from accumulus.frontends.numpy.operands import Operand, entries_of
from accumulus.frontends.record import Recording, outputs_of
from accumulus.frontends.recorder import recorder_of
from accumulus.frontends.trees import flatten, unflatten
from accumulus.options import Options
from accumulus.programs.argnums import Selection
from accumulus.programs.derived import derived, points_around
from accumulus.programs.expansion import expanded
from accumulus.programs.kinds import Kind, Seeds
from accumulus.programs.preparation import Preparation
from accumulus.tape.blocks import BlockTape

__all__ = ["written"]


@dataclass(frozen=True, slots=True)
class Nested:
    """A function, recorded within another recording.

    Attributes:
        recording: its tape has an input for each entry of its arguments, and then one for each value that it takes from
            around it.
        given: reference of each input on the tape around it.
    """

    recording: Recording
    given: tuple[int, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], arguments: Sequence[Any], static: frozenset[int], name: str) -> Nested:
        """The recording of a function of traced values or numbers.

        Raises:
            TraceError: for what cannot be recorded.
            ArgumentError: for an argument that is neither real nor a constant.
        """
        outer: Any = ACTIVE.tape
        if isinstance(outer, BlockTape):  # what is differentiated here is written out entry by entry
            raise outer.abandon()
        shapes: list[tuple[int, ...] | None] = []
        given: list[int] = []
        inputs: list[NDArray[np.int64] | None] = []
        slices: list[slice] = []
        examples: list[Any] = []
        for k, argument in enumerate(arguments):
            shape = None if k in static else _shape(argument, numbered(name, k))
            shapes.append(shape)
            start = len(given)
            if shape is not None:
                entries, boolean = entries_of(outer, argument)
                if boolean:
                    raise ArgumentError(f"{numbered(name, k)} is a truth value that is recorded; expected real numbers")
                given += np.ravel(entries).tolist()
                inputs.append(np.arange(start, len(given), dtype=np.int64).reshape(shape))
            else:
                inputs.append(None)
            slices.append(slice(start, len(given)))
            is_example = isinstance(argument, Operand) and shape is not None
            examples.append(_example(shape or ()) if is_example else argument)
        inner = NestedTape(given, outer)
        recording, refusal = _recorded(function, inner, examples, inputs, tuple(shapes), slices)
        if refusal is not None:  # what the function has caught counts for what is around it
            ACTIVE.refusal = refusal
        outer.folded_zero_signs |= inner.folded_zero_signs
        tape, taken = inner.closed()
        return cls(Recording(tape, *recording), (*given, *taken.tolist()))


def _example(shape: tuple[int, ...]) -> Any:
    return np.zeros(shape) if shape else np.float64(0.0)


def _shape(argument: Any, name: str) -> tuple[int, ...] | None:
    if not isinstance(argument, Operand):
        return shape_of(argument, name)
    if argument.is_complex:
        raise ArgumentError(f"{name} is complex; expected its real and imaginary parts as arguments of their own")
    return np.shape(argument.entries)


def _recorded(
    function: Callable[..., Any],
    inner: NestedTape,
    examples: Sequence[Any],
    inputs: Sequence[NDArray[np.int64] | None],
    shapes: tuple[tuple[int, ...] | None, ...],
    slices: Sequence[slice],
) -> tuple[tuple[Any, ...], Any]:
    """What a recording has beside its tape, and the last error of the recorder that the function has caught."""
    recorder = recorder_of(function)
    place = ACTIVE.place
    with recording_on(inner, place, nested=True):
        try:
            result = recorder.run_nested(function, inner, examples, inputs)
            if ACTIVE.too_long:
                raise TooLongError
        finally:
            refusal, unrolled, too_long = ACTIVE.refusal, ACTIVE.unrolled, ACTIVE.too_long
        structure, leaves = flatten(result)
        outputs = [outputs_of(recorder, function, inner, path, leaf) for path, leaf in leaves]
    ACTIVE.unrolled, ACTIVE.too_long = unrolled, too_long
    inner.outputs = [reference for references in outputs for reference in np.ravel(references).tolist()]
    return (shapes, tuple(slices), tuple(references.shape for references in outputs), structure), refusal


def written(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    static: frozenset[int],
    kind: Kind,
    selected: Callable[[Recording], Selection],
    name: str,
    options: Options,
) -> Any:
    """What a derivative of a kind returns, as traced values: its operations are written onto the tape around it.

    Args:
        function, arguments, static: what is recorded, as `record` has them.
        selected: what is differentiated by, given the recording.

    Raises:
        TraceError: for what cannot be recorded.
        ArgumentError: for sparse results, and as `derived`.
    """
    outer: Any = ACTIVE.tape
    if options.sparse is not None:
        raise ArgumentError(
            f"sparse is {options.sparse!r} for a derivative of {name} within a function that is recorded, which works "
            "on arrays; expected none"
        )
    with Preparation(name, options) as preparation:
        with preparation.stage("trace"):
            nested = Nested.of(function, arguments, static, name)
        found, selection = nested.recording, selected(nested.recording)
        point = point_at(outer, np.array(nested.given, np.int64))
        points = None if point is None else points_around(point)
        if kind.seeds is Seeds.SERIES:
            found = expanded(found, selection, preparation, points)
        elif kind.derivatives:
            found = derived(found, kind, selection, preparation, points)
    references = replayed(found.scalars, outer, nested.given)
    parts, first = [], 0
    for shape in found.result_shapes:
        size = int(np.prod(shape))
        entries = np.array(references[first : first + size], np.int64).reshape(shape)
        parts.append(make(outer, entries if shape else int(entries)))
        first += size
    return unflatten(found.structure, parts)
