"""Derivatives within functions of long arrays that are recorded: programs over arrays, written onto the one around.

What a function is differentiated by are copies of the arguments, so that it is known apart from the same values that it
uses from around it. What depends on them is a program of its own, whose further inputs are what it takes from around;
that is differentiated, and the result written back, with the arguments in the place of their copies.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import SizeError
from accumulus.frontends.recorder import Recording
from accumulus.programs.argnums import Selection
from accumulus.programs.derived import check_number
from accumulus.programs.derived_blocks import has_attached, recording_of_blocks
from accumulus.programs.expansion_blocks import expanded_in_blocks
from accumulus.programs.kinds import Kind, Seeds
from accumulus.programs.preparation import Preparation
from accumulus.tape.blocks import BlockTape
from accumulus.tape.columns import column, references_in
from accumulus.tape.moving import Moving, replayed_blocks
from accumulus.tape.operations import BY_NAME

__all__ = ["MOST_COPIES", "copied", "derived_in_blocks", "parted"]

_MULTIPLY: Final = BY_NAME["multiply"].code
#: Copies of arguments on one tape, at most: more derivatives are a loop over numbers rather than work on arrays.
MOST_COPIES: Final = 64


def copied(tape: BlockTape, references: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same values under references of their own, of which no others are."""
    if not references.size:
        return references
    tape.copies += 1
    one = column(np.full(references.size, tape.constant_apart(1.0)))
    return tape.apply_code(_MULTIPLY, [column(references.copy()), one]).references.reshape(references.shape)


def parted(
    outer: BlockTape, copies: NDArray[np.int64], outputs: NDArray[np.int64]
) -> tuple[BlockTape, NDArray[np.int64]]:
    """The program of what depends on copies, and the references around of its further inputs.

    Args:
        outer: the tape around.
        copies: references to it; the first inputs of the program.
        outputs: references to it; what the program computes.
    """
    needed = outer.reached([column(outputs)])
    depends = np.zeros(len(outer.blocks) + 1, bool)  # the last stands for inputs and constants
    depends[outer.owners(column(copies))] = True
    first = copies.min(initial=len(outer))
    chosen = []
    for position, block in enumerate(outer.blocks):
        if needed[position] and block.start >= first and not depends[position]:
            depends[position] = any(depends[outer.owners(operands)].any() for operands in block.operands)
            if depends[position]:
                chosen.append(position)
    own = np.zeros(len(outer), bool)  # what is computed on the tape that is made
    for position in chosen:
        block = outer.blocks[position]
        own[block.start : block.start + block.size] = True
    own[copies] = True
    used = [column(outputs), *(each for position in chosen for each in outer.blocks[position].operands)]
    taken = np.unique(np.concatenate([each[each >= 0] for each in map(references_in, used)]))
    taken = taken[~own[taken]]
    made = BlockTape(len(copies) + len(taken), signed_zeros=outer.signed_zeros)
    moving = Moving(outer, made, np.empty(0, np.int64), used)
    moving.place(copies, np.arange(len(copies)))
    moving.place(taken, np.arange(len(copies), made.inputs))
    for position in chosen:
        with made.located(outer.lines[position]):
            moving.copy(outer.blocks[position])
    made.outputs = moving.at(outputs)
    return made, taken


def derived_in_blocks(
    recording: Recording,
    given: NDArray[np.int64],
    around: BlockTape,
    kind: Kind,
    selection: Selection,
    preparation: Preparation,
) -> tuple[Recording, NDArray[np.int64]] | None:
    """What derivatives of a kind compute, as a recording, and references of its results on the tape around.

    None if values have derivatives of their own, or if derivatives are too many for blocks.

    Args:
        recording: with blocks, of a tape of its own.
        given: references around of all its inputs.

    Raises:
        ArgumentError: if a kind asks for one number, and it is something else.
    """
    check_number(recording, kind, preparation.name)
    tape: Any = recording.tape
    if has_attached(tape):
        return None
    if kind.seeds is Seeds.SERIES:
        expanded: Any = expanded_in_blocks(recording, selection, preparation)
        return expanded, replayed_blocks(expanded.tape, around, given)
    found: Recording | None = recording
    try:
        if kind.first is not None:
            found = recording_of_blocks(recording, kind.first, selection.whole, preparation)
        found = None if found is None else recording_of_blocks(found, kind, selection, preparation)
    except SizeError:
        found = None
    if found is None:
        return None
    made: Any = found.tape
    return found, replayed_blocks(made, around, given)
