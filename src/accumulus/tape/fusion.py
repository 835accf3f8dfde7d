"""Blocks that belong together: bodies, each of which runs over one set of instances.

A block and one that takes its results entry by entry, in their order, have the same instances, and become one body.
What takes them in any other order, or sums them, waits until all are there. So each block has a level, that of the
latest which it takes entry by entry, one more than that of any other which it takes something from; blocks of one
length and level are one map, and maps in the order of their levels never wait for a later one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from accumulus.tape.blocks import SUM, Block, BlockTape, Column, Range, are_equal, fingerprint
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["Map", "Owners", "fuse"]


_EQUAL: Final = BY_NAME["equal"].code
_NOT_EQUAL: Final = BY_NAME["not_equal"].code


@dataclass(slots=True)
class Map:
    """A body that runs once for each of so many instances, or a block of sums.

    Attributes:
        count: of instances.
        level: after which others it comes.
        blocks: positions of the blocks that are in it.
        leaves: what instances take from outside, a column each; the inputs of the body.
        body: of one instance; its outputs are those results that are used outside, in the order of `results`.
        results: positions of the blocks whose results are used outside.
        sensitive: how many of these, the first, are to be computed operation by operation as they stand, since they
            reach a jump, or what sees the signs of zeros.
    """

    count: int
    level: int
    is_sum: bool
    blocks: list[int] = field(default_factory=list)
    leaves: list[Column] = field(default_factory=list)
    body: Tape = field(default_factory=lambda: Tape(0))
    results: list[int] = field(default_factory=list)
    sensitive: int = 0


class Owners:
    """Which block the references of a tape are results of."""

    def __init__(self, tape: BlockTape) -> None:
        self._starts = tape.starts

    def of(self, reference: int) -> int:
        """The block, -1 for inputs and constants."""
        return int(np.searchsorted(self._starts, reference, side="right")) - 1

    def of_column(self, operands: Column) -> list[int]:
        """All blocks that a column has references of."""
        if not len(operands):
            return []
        if isinstance(operands, Range):
            ends = operands.start, operands.start + operands.step * (operands.count - 1)
            low, high = self.of(min(ends)), self.of(max(ends))
            return [block for block in range(low, high + 1) if block >= 0]
        first, last = self.of(int(operands.min())), self.of(int(operands.max()))
        if first == last:
            return [first] if first >= 0 else []
        found = np.searchsorted(self._starts, operands, side="right")
        return (np.flatnonzero(np.bincount(found, minlength=1)[1:])).tolist()


def fuse(tape: BlockTape) -> list[Map]:
    """The maps of a program, in an order in which they can be computed; what no output needs is in none."""
    owners = Owners(tape)
    blocks = tape.blocks
    levels: list[int] = []
    used = np.zeros(len(blocks), bool)
    maps: dict[tuple[int, int, int], Map] = {}
    home: list[Map | None] = []
    taken: list[list[tuple[Column, int | None]]] = []
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
            same = _entry_by_entry(block, operands, blocks, owners)
            if same is not None:
                level = max(level, levels[same])
            else:
                sources = owners.of_column(operands)
                level = max([level, *(levels[source] + 1 for source in sources)])
            columns.append((operands, same))
        levels.append(level)
        taken.append(columns)
        key = (level, block.count, position if block.code == SUM else -1)
        found = maps.get(key)
        if found is None:
            found = maps[key] = Map(block.count, level, block.code == SUM)
        found.blocks.append(position)
        home.append(found)
    for position, columns in enumerate(taken):
        for operands, same in columns:
            if same is None:
                used[owners.of_column(operands)] = True
            elif home[same] is not home[position]:
                used[same] = True
    used[owners.of_column(tape.outputs)] = True
    ordered = [maps[key] for key in sorted(maps)]
    sensitive, signed = tape.sensitive(), tape.sees_zero_signs
    for each in ordered:
        results = [position for position in each.blocks if used[position]]
        each.results = sorted(results, key=lambda position: not sensitive[position])
        each.sensitive = int(np.count_nonzero(sensitive[results]))
        if not each.is_sum:
            _write_body(tape, each, taken, home, signed)
    return ordered


def _entry_by_entry(block: Block, operands: Column, blocks: list[Block], owners: Owners) -> int | None:
    """The block whose results a column is, one for each instance in their order; None if it is anything else."""
    if block.code == SUM or not isinstance(operands, Range) or operands.start < 0:
        return None
    source = owners.of(operands.start)
    if source < 0 or blocks[source].code == SUM or operands != blocks[source].results:
        return None
    return source


def _write_body(
    tape: BlockTape, each: Map, taken: list[list[tuple[Column, int | None]]], home: list[Map | None], signed: bool
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
                alike = leaves.setdefault(fingerprint(operands), [])
                place = next((k for k in alike if are_equal(each.leaves[k], operands)), None)
                if place is None:
                    place = len(each.leaves)
                    alike.append(place)
                    each.leaves.append(operands)
                arguments.append(("leaf", place))
        chosen.append(arguments)
    body = each.body = Tape(len(each.leaves), signed_zeros=signed)
    values: dict[int, int] = {}
    for position, arguments in zip(each.blocks, chosen, strict=True):
        code = tape.blocks[position].code
        references = []
        for (kind, what), wanted in zip(arguments, OPERATIONS[code].arguments, strict=True):
            if kind == "block":
                references.append(values[int(what)])
            elif kind == "constant":
                references.append(body.constant(what))
            elif wanted == "boolean":  # in memory, truth values are numbers
                references.append(body.apply("not_equal", int(what), body.constant(0.0)))
            else:
                references.append(int(what))
        values[position] = _applied(body, code, references)
    body.outputs = [values[position] for position in each.results]


def _applied(body: Tape, code: int, references: list[int]) -> int:
    """An operation; what was a truth value in one body and a number between two is a truth value again."""
    truth, zero = max(references), min(references)
    if code in (_EQUAL, _NOT_EQUAL) and body.is_boolean(truth) and zero < 0 and body.value_of(zero) == 0.0:
        return truth if code == _NOT_EQUAL else body.logical_not(truth)
    kinds = zip(references, OPERATIONS[code].arguments, strict=True)
    numbers = [_number(body, r) if wanted == "real" and body.is_boolean(r) else r for r, wanted in kinds]
    return body.apply_code(code, numbers)


def _number(body: Tape, truth: int) -> int:
    return body.select(truth, body.constant(1.0), body.constant(0.0))
