"""Operations on arrays, regrouped by instances such as points, observations or tetrahedra.

Written with NumPy, lengths of n vectors are loops over 3 n products, over n sums of three, and over n roots. Each loop
goes through memory, and derivatives between arrays are sparse entries. Grouped by instances, the same program is three
loops over n products each, two over n sums and one over n roots, which `accumulus.tape.fusion` makes one body. It is
planned as any function is, and has few derivatives between its arguments and results. ``acc.map`` records this form
directly.

Every entry of an array belongs to one instance. A block that computes or sums n numbers has an instance for each.
Other entries belong to the instance that computes them, or else to the instance that uses them. The grouped program
computes the same numbers by the same operations; if grouping gains nothing the program stays unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import SUM, Block
from accumulus.tape.columns import Column, Range, column, owners_in, references_in
from accumulus.tape.fusion import block_of_results
from accumulus.tape.moving import Moving
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import LONG, Program

Integers = NDArray[np.int64]
_ADD: Final = BY_NAME["add"].code
#: Largest number of operations of one instance, and least number of instances for each of them: longer bodies take long
#: to plan and compile, shorter ones pass more values through memory.
MOST_OPERATIONS: Final = 600
REPEATED: Final = 4
#: The same limits where program text is to be short: fewer instances and longer bodies make the text longer, more
#: instances and shorter bodies leave more arrays between loops.
FEWEST: Final = 4
MOST_IN_TEXT: Final = 3_000
#: Largest growth of the text then: few instances of long bodies are more text than many short ones. A larger one trades
#: length for memory traffic, a smaller one the reverse.
LONGER: Final = 3
#: Largest number of blocks of a program: programs with more come from loops in Python, and take time here for little
#: gain; a smaller number leaves the memory traffic of programs with many arrays.
MOST_BLOCKS: Final = 2_000
#: Largest number of terms of a sum that is part of an instance: longer sums make bodies longer, shorter ones keep an
#: array of terms in memory.
MOST_TERMS: Final = 32
#: Largest number of instance counts that are tried, the most frequent first: more take preparation time, fewer may miss
#: the count that saves memory traffic.
MOST_TRIED: Final = 2
#: Least fraction of memory traffic that has to be saved. A smaller one compiles long bodies for little, a larger one
#: leaves traffic that could be saved.
SAVED: Final = 0.25
#: Largest number of rounds that propagate owners from operands to results and back: more take preparation time, fewer
#: leave blocks outside of instances.
ROUNDS: Final = 4


def by_instance(program: Program, results: int | None = None, *, short: bool = False) -> Program:
    """Return the program grouped by instances if that saves enough memory traffic; else the program itself.

    Args:
        program: program to transform.
        results: number of outputs before the guards' outputs, which are computed separately; None for all.
        short: if True, a few instances are enough, for short program text.

    >>> from accumulus.tape.fusion import fuse
    >>> program = Program(inputs=300)
    >>> x = np.arange(300)
    >>> squares = program.apply("multiply", x, x)
    >>> program.outputs = program.apply("sqrt", program.sums(squares, np.arange(0, 301, 3)))
    >>> len(fuse(program)), [each.count for each in fuse(by_instance(program))]
    (3, [100])
    """
    needed = np.flatnonzero(program.needed()).tolist()
    of_results = program.reached([column(program.outputs[:results])])
    if len(needed) > MOST_BLOCKS:
        return program
    blocks = {position: program.blocks[position] for position in needed}
    counts: dict[int, int] = {}
    for block in blocks.values():
        if _may_be_parted(block) and block.count >= (FEWEST if short else LONG):
            counts[block.count] = counts.get(block.count, 0) + 1
    for count in sorted(counts, key=lambda count: (-counts[count], count))[:MOST_TRIED]:
        if any(block.count % count == 0 and _is_wider(block, count) for block in blocks.values()):
            grouped = _Instances(program, blocks, count, short=short)
            if grouped.is_gain(of_results) and not (short and grouped.text > LONGER * program.text):
                return grouped.program()
    return program


def _may_be_parted(block: Block) -> bool:
    """Return True for elementwise operations, and for short sums of equally many terms."""
    if block.offsets is None:
        return not _takes_whole_arrays(block)
    lengths = np.diff(block.offsets)
    return bool(2 <= lengths[0] <= MOST_TERMS and (lengths == lengths[0]).all())


def _takes_whole_arrays(block: Block) -> bool:
    """Return True for recurrences, calls, and operations on matrices."""
    return block.body is not None or block.shape is not None


def _is_wider(block: Block, count: int) -> bool:
    """Return True if an instance would have more than one of the block's results or terms."""
    return _may_be_parted(block) and (block.count > count or block.code == SUM)


class _Instances:
    """Assignment of the results of each block to a given number of instances."""

    def __init__(self, program: Program, blocks: dict[int, Block], count: int, *, short: bool = False) -> None:
        self._program, self._blocks, self._count, self._short = program, blocks, count, short
        #: Instance of each reference, -1 if none.
        self._owners = np.full(len(program), -1, np.int32)
        #: Blocks whose results are split by instance.
        self._parted: set[int] = set()
        whole: set[int] = set()
        for block in blocks.values():
            if _takes_whole_arrays(block):
                whole.update(source for operands in block.operands for source in program.owners(operands))
        self._open = [
            position
            for position, block in blocks.items()
            if block.count % count == 0 and _may_be_parted(block) and (block.count == count or position not in whole)
        ]
        for position, block in blocks.items():
            if block.count == count and not _takes_whole_arrays(block):
                self._owners[block.start : block.start + count] = np.arange(count)
                if position in self._open:
                    self._parted.add(position)
        for _ in range(ROUNDS):
            if not (self._backward() | self._forward()):
                break

    @property
    def text(self) -> int:
        """Number of operations in the text of the grouped program."""
        parted = sum(self._blocks[position].operations // self._count for position in self._parted)
        return parted + sum(block.text for k, block in self._blocks.items() if k not in self._parted)

    def is_gain(self, of_results: NDArray[np.bool_]) -> bool:
        """Return True if bodies are short, and enough memory traffic of the marked blocks is saved."""
        operations = sum(self._blocks[position].operations // self._count for position in self._parted)
        if operations > (MOST_IN_TEXT if self._short else min(MOST_OPERATIONS, self._count // REPEATED)):
            return False
        before, saved = self._traffic(of_results)
        return saved > (0 if self._short else SAVED * before)

    def _reads(self, block: Block) -> Iterator[tuple[Column, Integers]]:
        """Yield each column that a block takes, with the position of the result that each entry is an operand of."""
        places = np.arange(block.count)
        if block.offsets is not None:
            places = np.repeat(places, np.diff(block.offsets))
        for operands in block.operands:
            yield operands, places

    def _forward(self) -> bool:
        """Propagate owners from operands to results; return True if any is new."""
        is_new = False
        for position in self._open:
            block = self._blocks[position]
            if position in self._parted:
                continue
            owners = np.full(block.count, -1, np.int32)
            for operands, places in self._reads(block):
                if isinstance(operands, Range) and operands.is_uniform:
                    continue
                references = references_in(operands)
                operand_owners = self._owners[np.maximum(references, 0)]
                operand_owners[references < 0] = -1
                is_owned = operand_owners >= 0
                if is_owned.any():
                    owners[places[is_owned & (owners[places] < 0)]] = operand_owners[is_owned & (owners[places] < 0)]
            is_new |= self._settle(position, owners)
        return is_new

    def _backward(self) -> bool:
        """Propagate owners from results to operands; return True if any is new."""
        is_new = False
        user_owners = np.full(len(self._owners), -1, np.int32)
        shared: set[int] = set()
        for position in reversed(self._open):
            block = self._blocks[position]
            if position not in self._parted:
                owners = user_owners[block.start : block.start + block.count]
                if position in shared or not self._settle(position, owners):
                    continue
                is_new = True
            block_owners = self._owners[block.start : block.start + block.count]
            for operands, places in self._reads(block):
                sources = [k for k in self._program.owners(operands) if k >= 0 and k not in self._parted]
                if not sources:
                    continue
                references = references_in(operands)
                taken = references >= self._program.inputs
                references, owners = references[taken], block_owners[places[taken]]
                before = user_owners[references]
                user_owners[references] = owners
                differs = (user_owners[references] != owners) | ((before >= 0) & (before != owners))
                if differs.any():
                    shared.update(owners_in(self._program.starts, references[differs]))
        return is_new

    def _settle(self, position: int, owners: NDArray[np.int32]) -> bool:
        """Split a block by owners if all instances have equally many results; return True if so."""
        block = self._blocks[position]
        if self._short and len(owners) and owners.min() < 0 <= owners.max():
            owners = self._filled(owners)
        if len(owners) == 0 or owners.min() < 0:
            return False
        if (np.bincount(owners, minlength=self._count) * self._count != block.count).any():
            return False
        self._owners[block.start : block.start + block.count] = owners
        self._parted.add(position)
        return True

    def _filled(self, owners: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return owners with the unknown ones filled in, if the known ones follow a regular pattern."""
        places, is_known = np.arange(len(owners), dtype=np.int32), owners >= 0
        for pattern in (places % self._count, places // (len(owners) // self._count)):
            if (pattern == owners)[is_known].all():
                return pattern
        return owners

    def _traffic(self, counted: NDArray[np.bool_]) -> tuple[int, int]:
        """Return the number of entries that marked blocks read through memory, and how many grouping saves."""
        before = saved = 0
        for position, block in self._blocks.items():
            for operands, places in self._reads(block) if counted[position] and not _takes_whole_arrays(block) else ():
                if isinstance(operands, Range) and operands.is_uniform:
                    continue
                is_one = block_of_results(self._program, block, operands) is not None
                before += 0 if is_one else len(operands)
                if position not in self._parted:
                    continue
                sources = self._program.owners(operands)
                if self._parted.isdisjoint(sources):
                    continue
                references = references_in(operands)
                instances = self._owners[block.start : block.start + block.count][places]
                inside = np.count_nonzero(self._owners[np.maximum(references, 0)] == instances)
                saved += int(inside) - (len(operands) if is_one else 0)
        return before, saved

    def program(self) -> Program:
        """Return the grouped program."""
        original = self._program
        made = Program(original.inputs, signed_zeros=original.signed_zeros)
        used = [column(original.outputs), *(each for block in self._blocks.values() for each in block.operands)]
        moving = Moving(original, made, np.arange(original.inputs), used)
        for position, block in self._blocks.items():
            with made.located(original.lines[position]):
                if position in self._parted:
                    self._write(block, moving)
                else:
                    moving.copy(block)
        made.outputs = moving.at(original.outputs)
        return made

    def _write(self, block: Block, moving: Moving) -> None:
        """Write a block as one block for each result of an instance."""
        owners = self._owners[block.start : block.start + block.count]
        parts = np.argsort(owners, kind="stable").reshape(self._count, -1).T
        made = moving.made
        results: Column
        for entries in parts:
            if block.offsets is None:
                results = made.apply_code(
                    block.code, [moving.column_at(_part(each, entries)) for each in block.operands]
                )
            else:
                begins, terms = block.offsets[:-1][entries], range(int(block.offsets[1]))
                results, *rest = [moving.column_at(_part(block.operands[0], begins + k)) for k in terms]
                for other in rest:
                    results = made.apply_code(_ADD, [results, other])
            moving.note_each(block.start + entries, references_in(results))


def _part(operands: Column, places: Integers) -> Column:
    """Return the entries of a column at these positions."""
    if not isinstance(operands, Range):
        return column(operands[places])
    if operands.is_uniform:
        return Range(operands.start, 0, len(places))
    return column(operands.start + operands.step * places)
