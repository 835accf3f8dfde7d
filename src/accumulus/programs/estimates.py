"""Estimates of what a derivative costs written out and as loops: by counts of its recording and one table.

The prices are in `accumulus.tape.prices`.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.programs.kinds import DerivativeKind, Seeds
from accumulus.tape.blocks import MATMUL, Block
from accumulus.tape.columns import references_in
from accumulus.tape.live import time_of
from accumulus.tape.operations import BY_NAME
from accumulus.tape.passes import USED, counts_of_sets, rows_of, spread
from accumulus.tape.prices import LOOPS, WRITTEN, Cost
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape

#: Codes of operations whose derivatives are 1 and -1, and further ones without second derivatives.
_ADDITIVE: Final = [BY_NAME[name].code for name in ("add", "subtract", "negative")]
_LINEAR: Final = [*_ADDITIVE, *(BY_NAME[name].code for name in ("select", "attach"))]
_BILINEAR: Final = [BY_NAME[name].code for name in ("multiply", "divide")]


#: Further seconds at a point of loops: for directions, weights and second derivatives; and with calls of BLAS, which
#: batches make point by point.
MORE, ALONE = 7e-7, 2e-6
#: Derivatives between the steps of a recurrence, for each of its operations, that the products count already.
WIDE: Final = 4


class Work(NamedTuple):
    """Counts of a derivative of straight-line code.

    Attributes:
        operations: operations of the function.
        time: time of these at a point, in additions, see `accumulus.tape.live.time_of`.
        products: products of the derivatives, by the better one of two sweeps through the function.
    """

    operations: int
    time: int
    products: int

    @classmethod
    def of(cls, tape: Tape, kind: DerivativeKind, inputs: NDArray[np.int64], results: int, seeds: int) -> Work:
        """Count the derivative of a tape.

        Args:
            tape: the function.
            kind: kind of the derivative.
            inputs: differentiated inputs.
            results: number of outputs that are the function's results.
            seeds: number of directions or weights, or order of a series.
        """
        products = 0
        if kind.seeds is Seeds.SERIES:
            products = tape.operations * seeds * (seeds + 3)
        elif kind.derivatives:
            products = _products(tape, kind, inputs, np.array(tape.outputs[:results], np.int64), seeds)
        return cls(tape.operations, time_of(tape), products)

    def costs(self, kind: DerivativeKind, program: Program) -> tuple[Cost, Cost]:
        """Return the cost of a straight line, of which rewriting leaves half of the products, and of loops.

        Args:
            kind: kind of the derivative.
            program: the function with loops.
        """
        operations = max(program.operations, 1)
        recurrences = [block for block in program.blocks if block.steps is not None]
        recurrent = sum(block.operations for block in recurrences) / operations
        transfers = [kind.derivatives * _transfers(block) for block in recurrences]
        more = kind.has_seeds or kind.first is not None
        alone = ALONE if any(block.code == MATMUL for block in program.blocks) else 0.0
        counted = operations + self.products
        counted += sum(block.count * each for block, each in zip(recurrences, transfers, strict=True))
        return (
            WRITTEN.cost(self.operations + self.products / 2, self.time + self.products, recurrent),
            LOOPS.cost(program.text + sum(transfers), counted, recurrent, more * MORE + alone),
        )


def _transfers(block: Block) -> int:
    """Return the number of derivatives, of what an instance of a recurrence hands on, with respect to what it takes.

    Those by which its derivatives exceed its operations: few of a step over numbers, many of one over a matrix.
    """
    body = block.body
    assert body is not None
    taken = [_own(block, references_in(operand)) for operand in block.operands]
    bits = [1 << k if slots else 0 for k, slots in enumerate(taken)]
    for reference in range(body.inputs, len(body)):
        bits.append(reduce(or_, (bits[a] for a in body.arguments(reference) if a >= 0), 0))
    handed_on = set().union(*taken)
    nonzeros = sum(bits[body.outputs[slot]].bit_count() for slot in handed_on if body.outputs[slot] >= 0)
    return max(0, nonzeros - WIDE * body.operations)


def _own(block: Block, references: NDArray[np.int64]) -> set[int]:
    """Return the results of a recurrence's instances that are among references."""
    own = references[(references >= block.start) & (references < block.start + block.size)]
    return {*np.unique((own - block.start) // block.count).tolist()}


def _products(
    tape: Tape, kind: DerivativeKind, inputs: NDArray[np.int64], outputs: NDArray[np.int64], seeds: int
) -> int:
    """Return the number of products of derivatives of a kind, without those with 1, -1, and derivatives of inputs."""
    rows, count = rows_of(tape), len(tape)
    codes, operands = rows[:, 0], rows[:, 1:]
    used = USED[codes] & (operands >= 0)
    used[: tape.inputs] = False
    results, places = np.nonzero(used)
    to, start = results.astype(np.int32), operands[results, places].astype(np.int32)
    ends = np.unique(outputs[outputs >= 0])
    below = counts_of_sets(count, inputs.tolist(), start, to)
    above = counts_of_sets(count, ends.tolist(), to[::-1], start[::-1])
    active = (below[start] > 0) & (above[to] > 0) & ~np.isin(codes[to], _ADDITIVE)
    reached = to[::-1], start[::-1]
    to, start = to[active], start[active]
    is_end = np.zeros(count, bool)
    is_end[ends] = True
    backward = int(above[to][~is_end[to]].sum())
    if kind.first is None:
        if kind.has_seeds:
            return len(to) * seeds
        return min(int(below[start][start >= tape.inputs].sum()), backward)
    # tangents of what leads to second derivatives, and of their adjoints; sums of many terms need none
    curved = ~np.isin(codes, _LINEAR) & (~np.isin(codes, _BILINEAR) | used[:, :2].all(axis=1))
    leads = spread(curved, *reached)
    tangents = np.full(len(to), seeds) if kind.has_seeds else below[start]
    return backward + 2 * int(tangents[leads[to]].sum())
