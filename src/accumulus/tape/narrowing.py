"""Programs over arrays with those instances of each block that their outputs need, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import Block, BlockTape
from accumulus.tape.columns import Column, Range, References, column, references_in
from accumulus.tape.moving import Moving

__all__ = ["narrowed"]


@dataclass(frozen=True, slots=True)
class _Part:
    """What is kept of a block.

    Attributes:
        operands: the columns that it takes.
        results: references of its results in the given program.
        write: appends it to another program, given these columns there as references; returns its results there. None
            of recurrences, which take their own results.
    """

    operands: list[References]
    results: References
    write: Callable[[BlockTape, list[References]], References] | None


def narrowed(tape: BlockTape) -> BlockTape:
    """The same program without the instances that no output needs; of recurrences all up to the last step needed.

    >>> tape = BlockTape(inputs=1000)
    >>> tape.outputs = tape.apply("multiply", np.arange(1000), 2)[5:7]
    >>> narrowed(tape).operations
    2
    """
    needed = np.zeros(len(tape), bool)
    needed[tape.outputs[tape.outputs >= 0]] = True
    parts: dict[int, _Part] = {}
    for position in reversed(range(len(tape.blocks))):
        block = tape.blocks[position]
        own = needed[block.start : block.start + block.size]
        if not own.any():
            continue
        part = parts[position] = _part(block, own)
        for references in part.operands:
            needed[references[references >= 0]] = True
    made = BlockTape(tape.inputs, signed_zeros=tape.signed_zeros)
    used: list[Column] = [column(tape.outputs), *(each for part in parts.values() for each in part.operands)]
    moving = Moving(tape, made, np.arange(tape.inputs), used)
    for position in sorted(parts):
        part = parts[position]
        with made.located(tape.lines[position]):
            if part.write is not None:
                moving.place(part.results, part.write(made, [moving.at(each) for each in part.operands]))
            else:
                _write_recurrence(tape.blocks[position], part, moving)
    made.outputs = moving.at(tape.outputs)
    return made


def _part(block: Block, needed: NDArray[np.bool_]) -> _Part:
    columns = [references_in(each) for each in block.operands]
    every = np.arange(block.start, block.start + block.size)
    if block.steps is not None:
        assert block.body is not None
        alive = needed.reshape(len(block.body.outputs), block.count).any(axis=0)
        end = int(block.steps[np.searchsorted(block.steps, int(np.flatnonzero(alive)[-1]), side="right")])
        results = every.reshape(-1, block.count)[:, :end].reshape(-1)
        return _Part([each[:end] for each in columns], results, None)
    if block.offsets is not None:
        lengths = np.diff(block.offsets)
        offsets = np.append(0, np.cumsum(lengths[needed]))
        return _Part(
            [columns[0][np.repeat(needed, lengths)]], every[needed], lambda made, given: made.sums(given[0], offsets)
        )
    if block.shape is not None:
        m, k, n = block.shape
        table = needed.reshape(m, n)
        down, along = table.any(axis=1), table.any(axis=0)
        rows, width = int(down.sum()), int(along.sum())
        factors = [columns[0].reshape(m, k)[down].reshape(-1), columns[1].reshape(k, n)[:, along].reshape(-1)]

        def multiplied(made: BlockTape, given: list[References]) -> References:
            return made.matmul(given[0].reshape(rows, k), given[1].reshape(k, width)).reshape(-1)

        return _Part(factors, every.reshape(m, n)[down][:, along].reshape(-1), multiplied)

    def applied(made: BlockTape, given: list[References]) -> References:
        return made.apply_code(block.code, [column(each) for each in given]).references

    return _Part([each[needed] for each in columns], every[needed], applied)


def _write_recurrence(block: Block, part: _Part, moving: Moving) -> None:
    assert block.body is not None
    assert block.steps is not None
    results = part.results.reshape(len(block.body.outputs), -1)
    steps = block.steps[block.steps <= results.shape[1]]

    def operands(found: list[Range]) -> list[Column]:
        for these, references in zip(results, found, strict=True):
            moving.place(these, references.references)
        return [column(moving.at(each)) for each in part.operands]

    operands(moving.made.scan(block.body, operands, steps))  # an equal one may have been there before
