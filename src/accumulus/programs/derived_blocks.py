"""Derivatives of recordings with blocks: of long arrays, whose gradients are programs over arrays once more.

Products with weights are gradients: w·J is that of w·f. For products with directions, J·v and those of a Hessian, the
directions are one more array, which the inputs depend on (`arrays.jacobian`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.frontends.recorder import Recording
from accumulus.programs.argnums import Selection
from accumulus.programs.kinds import Kind, Seeds
from accumulus.programs.nonzeros import Nonzeros
from accumulus.programs.preparation import Preparation
from accumulus.programs.results import Results
from accumulus.programs.seeds import entries_of_seeds, inputs_of
from accumulus.tape.blocks import BlockTape
from accumulus.tape.narrowing import narrowed
from accumulus.tape.operations import BY_NAME
from accumulus.targets.block_kernel import LongSegment, as_slice

__all__ = ["LongResults", "differentiated", "has_attached", "recording_of_blocks"]

_ATTACH: Final = BY_NAME["attach"].code


class LongResults(Results):
    """Results of so many entries that their layout is kept in arrays."""

    def _segment(self, length: int, outputs: NDArray[np.intp], places: NDArray[np.intp]) -> LongSegment:
        return LongSegment(length, outputs, places)

    def _in_order(self, outputs: NDArray[np.intp], first: int) -> LongSegment:
        found = as_slice(outputs)
        chosen = slice(found.start + first, found.stop + first) if isinstance(found, slice) else found + first
        return LongSegment(len(outputs), chosen, slice(0, len(outputs)))


@dataclass(frozen=True, slots=True)
class BlockDerivatives:
    """What a program over arrays computes, by references on its tape.

    Attributes:
        values: of the recording's results, where the kind returns them.
        guards: 1 where each holds.
        entries: structural nonzeros of the derivatives, row by row.
        nonzeros: their places, as `Results` takes them.
        products: scalar products between bodies.
    """

    tape: BlockTape
    values: NDArray[np.int64]
    guards: NDArray[np.int64]
    entries: NDArray[np.int64]
    nonzeros: Nonzeros
    products: int


def differentiated(recording: Recording, kind: Kind, selection: Selection, context: Context) -> BlockDerivatives:
    """The derivatives of a recording with blocks.

    Raises:
        SizeError: if the products between arrays are too many for memory.
    """
    from accumulus.arrays.jacobian import differentiate  # not what every process needs

    given, results = recording.tape, recording.results
    assert isinstance(given, BlockTape)
    inputs = inputs_of(recording, selection.positions)
    own, places = given.outputs, selection.places
    rows_before = sum(int(np.prod(shape)) for shape in recording.result_shapes[: kind.skipped])
    values, guards = own[:results], own[results:]
    # rows of the derivatives, and outputs before those that they are of
    rows_of, before = np.arange(rows_before, results), values[:rows_before]
    if kind.seeds is Seeds.COTANGENTS:
        before = values
        weights = entries_of_seeds(recording, selection)
        ends = [given.sums(given.apply("multiply", row, values), [0, results]) for row in weights]
        rows_of, wanted = np.arange(len(weights)), np.stack(ends).reshape(-1)
    else:
        if places is not None:
            rows_of, inputs = places.rows + rows_before, inputs[places.columns]
            before = values if kind.values else values[:0]
        wanted = values[rows_of]
    try:
        given.outputs = np.concatenate([_fixed(given, before), wanted, guards])
        directions = entries_of_seeds(recording, selection) if kind.seeds is Seeds.TANGENTS else None
        chosen = given if places is None else narrowed(given)
        found = differentiate(chosen, inputs, context, directions)
    finally:
        given.outputs = own
    made, outputs = found.tape, found.tape.outputs
    rows, columns, entries = rows_of[found.rows - len(before)], found.columns, outputs[found.values :]
    if places is not None and places.pairs is not None:
        width, place = places.size[1], np.zeros(given.inputs, np.int64)
        place[inputs] = places.columns
        keys = (rows.astype(np.int64) - rows_before) * width + place[columns]
        kept = np.isin(keys, places.pairs @ np.array([width, 1]))
        rows, columns, entries = rows[kept], columns[kept], entries[kept]
    values = outputs[: results if places is None or kind.values else 0]
    guards = outputs[found.values - len(guards) : found.values]
    if places is not None:
        made.outputs = np.concatenate([values, guards, entries])
        made = narrowed(made)
        values, guards, entries = np.split(made.outputs, np.cumsum([len(values), len(guards)]))
    nonzeros = Nonzeros(rows, columns, np.arange(len(rows), dtype=np.int32))
    return BlockDerivatives(made, values, guards, entries, nonzeros, found.products)


def _fixed(tape: BlockTape, references: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same values without derivatives."""
    if not len(references):
        return references
    return np.asarray(tape.apply("attach", references, tape.constant(0.0)), np.int64)


def has_attached(tape: BlockTape) -> bool:
    """Whether values have derivatives of their own."""
    return any(_ATTACH in block.codes for block in tape.blocks)


def recording_of_blocks(
    recording: Recording, kind: Kind, selection: Selection, preparation: Preparation
) -> Recording | None:
    """A gradient as a recording with blocks, to be differentiated; None if values have derivatives of their own."""
    given: Any = recording.tape
    if has_attached(given):
        return None
    with preparation.stage("plan"):
        found = differentiated(recording, kind, selection, preparation.context)
    tape = found.tape
    layout = LongResults(recording, found.nonzeros, selection, kind=kind, sparse=None, dtype=np.dtype(float))
    computed = np.concatenate([found.values[: len(found.values) * kind.values], found.entries])
    zero, parts = tape.constant(0.0), []
    for segment in layout.segments:
        entries = np.full(segment.length, zero, np.int64)
        entries[segment.positions] = computed[segment.outputs]
        parts.append(entries)
    tape.outputs = np.concatenate([*parts, found.guards])
    return replace(
        recording,
        tape=tape,
        result_shapes=tuple(layout.shapes),
        structure=layout.structure,
        written_out=None,
        unrolled=0,
    )
