"""Fusion of blocks into bodies, each of which runs for one set of instances.

A block and another block that takes its results entry by entry, in order, have the same instances and become one body.
A block that takes them in any other order, or sums them, waits until all are computed. Each block therefore has a
level: at least the level of blocks that it takes entry by entry, and at least one more than the level of all other
operands. Blocks with the same number of instances and the same level form one map. Maps run in the order of their
levels, so that none waits for a later one. Sums, recurrences, matrix operations and calls are separate maps.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import CALL, OF_MATRICES, SCAN, SUM, Block
from accumulus.tape.columns import Column, Range, are_equal, fingerprint, owners_in
from accumulus.tape.interpreter import Copy
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape

_EQUAL: Final = BY_NAME["equal"].code
_NOT_EQUAL: Final = BY_NAME["not_equal"].code
#: Codes of blocks that are separate maps.
_ALONE: Final = frozenset((SUM, SCAN, CALL, *OF_MATRICES))


@dataclass(slots=True)
class Map:
    """A body that runs for `count` instances, in steps for a recurrence; a block of sums; or a matrix operation."""

    count: int  # number of instances
    level: int  # maps run in the order of their levels
    is_sum: bool
    blocks: list[int] = field(default_factory=list)  # positions of its blocks
    # columns of operands from outside of the map, one for each input of the body
    leaves: list[Column] = field(default_factory=list)
    # one instance; its outputs are the results that are used outside, in the order of `results`
    body: Tape = field(default_factory=lambda: Tape(0))
    results: list[int] = field(default_factory=list)  # positions of the blocks whose results are used outside
    starts: list[int] = field(default_factory=list)  # reference of the first result of each output of the body
    # for a recurrence: first instance of each step, then the end of the last step; its leaves may include its own
    # results of earlier steps
    steps: NDArray[np.int64] | None = None
    # number of leading outputs that are computed operation by operation as recorded, since they reach a jump, or an
    # operation that depends on signs of zeros
    sensitive: int = 0
    #: For operations on matrices, see `Block.shape`.
    shape: tuple[int, int, int] | None = None

    @property
    def is_body(self) -> bool:
        """Return True if this is a body, neither sums nor an operation on matrices."""
        return not self.is_sum and self.shape is None

    def operands(self, tape: Program) -> Sequence[Column]:
        """Return the columns of the operands."""
        return self.leaves if self.is_body else tape.blocks[self.blocks[0]].operands

    def arrays(self, tape: Program) -> Sequence[int]:
        """Return the first reference of each array that this map computes."""
        return self.starts if self.is_body else [tape.blocks[self.results[0]].start]


def fuse(tape: Program) -> list[Map]:
    """Return the maps of a program in the order in which they run; blocks that no output needs are left out."""
    blocks = tape.blocks
    levels: list[int] = []
    used = np.zeros(len(blocks), bool)
    maps: dict[tuple[int, int, int], Map] = {}
    home: list[Map | None] = []
    taken: list[list[tuple[Column, int | None]]] = []
    #: Outputs of each recurrence's body that are used outside of it, by position of the block.
    outputs: dict[int, set[int]] = {}
    needed = tape.needed()
    for position, block in enumerate(blocks):
        if not needed[position]:
            levels.append(0)
            home.append(None)
            taken.append([])
            continue
        level = 0
        columns: list[tuple[Column, int | None]] = []
        for operands in block.operands:
            same = block_of_results(tape, block, operands)
            if same is not None:
                level = max(level, levels[same])
            else:
                sources = [source for source in tape.owners(operands) if source not in (position, -1)]
                level = max([level, *(levels[source] + 1 for source in sources)])
            columns.append((operands, same))
        levels.append(level)
        taken.append(columns)
        key = (level, block.count, position if block.code in _ALONE else -1)
        group = maps.get(key)
        if group is None:
            group = maps[key] = Map(block.count, level, block.code == SUM, steps=block.steps, shape=block.shape)
        group.blocks.append(position)
        home.append(group)
    for position, columns in enumerate(taken):
        for operands, same in columns:
            if same is None:
                for source in tape.owners(operands):
                    if source not in (position, -1):
                        used[source] = True
                        _note(blocks[source], operands, outputs, source)
            elif home[same] is not home[position]:
                used[same] = True
    for source in owners_in(tape.starts, tape.outputs):
        if source >= 0:
            used[source] = True
            _note(blocks[source], tape.outputs, outputs, source)
    ordered = [maps[key] for key in sorted(maps)]
    sensitive, signed = tape.sensitive(), tape.sees_zero_signs
    for each in ordered:
        results = [position for position in each.blocks if used[position]]
        each.results = sorted(results, key=lambda position: not sensitive[position])
        each.sensitive = int(np.count_nonzero(sensitive[results]))
        if each.steps is not None:
            _write_recurrence(tape, each, outputs.get(each.blocks[0], set()), signed)
            each.sensitive *= len(each.starts)
        elif each.is_body:
            each.starts = [blocks[position].start for position in each.results]
            _write_body(tape, each, taken, home, signed)
    return ordered


def _note(block: Block, operands: Column, outputs: dict[int, set[int]], position: int) -> None:
    """Add the outputs of a recurrence whose results are in a column to `outputs`."""
    if block.code == SCAN and block.size:
        outputs.setdefault(position, set()).update(_outputs_in(block, operands))


def block_of_results(tape: Program, block: Block, operands: Column) -> int | None:
    """Return the block whose results, in order, are this column; None if there is no such block."""
    if block.code in _ALONE or not isinstance(operands, Range) or operands.start < 0:
        return None
    sources = tape.owners(operands)
    if len(sources) != 1 or (source := sources[0]) < 0:
        return None
    return None if tape.blocks[source].code in _ALONE or operands != tape.blocks[source].results else source


def _write_body(
    tape: Program, each: Map, taken: list[list[tuple[Column, int | None]]], home: list[Map | None], signed: bool
) -> None:
    leaves: dict[Hashable, list[int]] = {}
    chosen: list[list[tuple[str, float | int]]] = []
    for position in each.blocks:
        arguments: list[tuple[str, float | int]] = []
        for operands, same in taken[position]:
            value = tape.uniform(operands)
            if same is not None and home[same] is each:
                arguments.append(("block", same))
            elif value is not None:
                arguments.append(("constant", value))
            else:
                arguments.append(("leaf", _leaf(each, leaves, operands)))
        chosen.append(arguments)
    body = each.body = Tape(len(each.leaves), signed_zeros=signed)
    values: dict[int, int] = {}
    for position, arguments in zip(each.blocks, chosen, strict=True):
        code = tape.blocks[position].code
        references = []
        for (kind, operand), expected in zip(arguments, OPERATIONS[code].arguments, strict=True):
            if kind == "block":
                references.append(values[int(operand)])
            elif kind == "constant":
                references.append(body.constant(operand))
            elif expected == "boolean":  # truth values are stored as numbers
                references.append(body.apply("not_equal", int(operand), body.constant(0.0)))
            else:
                references.append(int(operand))
        values[position] = _applied(body, code, references)
    body.outputs = [values[position] for position in each.results]


def _leaf(each: Map, by_fingerprint: dict[Hashable, list[int]], operands: Column) -> int:
    """Return the position of a column among the leaves of a map; equal columns share one."""
    alike = by_fingerprint.setdefault(fingerprint(operands), [])
    index = next((k for k in alike if are_equal(each.leaves[k], operands)), None)
    if index is None:
        index = len(each.leaves)
        alike.append(index)
        each.leaves.append(operands)
    return index


def _write_recurrence(tape: Program, each: Map, taken: set[int], signed: bool) -> None:
    """Write the part of a recurrence's body whose results other blocks, or the recurrence itself, take."""
    (position,) = each.blocks
    block = tape.blocks[position]
    recurrence = block.body
    assert recurrence is not None
    used, waiting = set(taken), set(taken)
    operations: set[int] = set()
    while waiting:
        reached = _reached(recurrence, [recurrence.outputs[k] for k in waiting])
        inputs = {k for k in reached if k < recurrence.inputs} - operations
        operations |= reached
        waiting = {k for leaf in inputs for k in _outputs_in(block, block.operands[leaf])} - used
        used |= waiting
    places: dict[Hashable, list[int]] = {}
    leaves: dict[int, int | float] = {}
    for reference in sorted(operations):
        if reference < recurrence.inputs:
            value = tape.uniform(block.operands[reference])
            leaves[reference] = _leaf(each, places, block.operands[reference]) if value is None else value
    body = each.body = Tape(len(each.leaves), signed_zeros=signed)
    values = {k: body.constant(leaf) if isinstance(leaf, float) else leaf for k, leaf in leaves.items()}
    copy = Copy(recurrence, body, values)
    for reference in sorted(operations):
        if reference >= recurrence.inputs:
            copy.record(reference)
    chosen = sorted(used)
    body.outputs = [copy[recurrence.outputs[k]] for k in chosen]
    each.starts = [block.start + k * block.count for k in chosen]


def _reached(body: Tape, outputs: list[int]) -> set[int]:
    """Return the inputs and operations that outputs of a body depend on."""
    reached = {output for output in outputs if output >= 0}
    for reference in range(len(body) - 1, body.inputs - 1, -1):
        if reference in reached:
            reached.update(a for a in body.arguments(reference) if a >= 0)
    return reached


def _outputs_in(block: Block, operands: Column) -> set[int]:
    """Return the outputs of a recurrence's body whose results are in a column."""
    if isinstance(operands, Range):
        ends = operands.ends
        low, high = max(ends[0], block.start), min(ends[1], block.start + block.size - 1)
        return set(range((low - block.start) // block.count, (high - block.start) // block.count + 1))
    results = operands[(operands >= block.start) & (operands < block.start + block.size)]
    return set(np.flatnonzero(np.bincount((results - block.start) // block.count)).tolist())


def _applied(body: Tape, code: int, references: list[int]) -> int:
    """Apply an operation; a number that stores a truth value between two bodies becomes a truth value again."""
    truth, zero = max(references), min(references)
    if code in (_EQUAL, _NOT_EQUAL) and body.is_boolean(truth) and zero < 0 and body.value_of(zero) == 0.0:
        return truth if code == _NOT_EQUAL else body.logical_not(truth)
    kinds = zip(references, OPERATIONS[code].arguments, strict=True)
    numbers = [_number(body, r) if expected == "real" and body.is_boolean(r) else r for r, expected in kinds]
    return body.apply_code(code, numbers)


def _number(body: Tape, truth: int) -> int:
    return body.select(truth, body.constant(1.0), body.constant(0.0))
