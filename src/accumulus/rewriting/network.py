"""A tape as a network of nodes for the compiled search, and back: how `rewrite_kernel` is driven."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Final

import numpy as np

from accumulus.deadline import FOREVER, LOOK, Deadline
from accumulus.native.block import Block
from accumulus.native.machine import kernel
from accumulus.rewriting.compiled import rewrite_slots as slot
from accumulus.rewriting.costs import FUSED
from accumulus.rewriting.signs import Definitions, write
from accumulus.rewriting.zeros import with_signed_zeros
from accumulus.tape.live import as_written, needed, seeing_zero_signs
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["Network"]

#: Writes of a move that can be undone: for each node, and besides.
LOG_PER_NODE: Final = 8
LOG: Final = 200_000
#: Parts of a unit by which chances to look into shared sums and products are given.
CHANCES: Final = 1024
#: Moves of the first call of the kernel, and of any at least; what the time of a call is taken for at least.
FIRST: Final = 4096
FEWEST: Final = 256
SHORTEST: Final = 1e-7


class Network:
    """The operations of a tape as nodes that can be rewritten.

    Zeros have no sign here. Operations that see it never die, nor does what they are computed from, so that all is
    there still when the network is written down and `with_signed_zeros` needs it.

    Args:
        tape: the program.
        weights: what each operation costs, by its name, in whole numbers; under `FUSED`, what a sum and a product that
            only it uses cost less together.
        kept_outputs: that many of the first outputs stay as they are computed.
        seed: of the search.
    """

    def __init__(self, tape: Tape, weights: Mapping[str, int], *, kept_outputs: int = 0, seed: int = 0) -> None:
        self._tape = tape
        self._seeing = seeing_zero_signs(tape)
        length, inputs, outputs = tape.operations, tape.inputs, len(tape.outputs)
        nodes = 2 * (length + inputs + outputs + len(tape.constants)) + 4096
        block = self._block = Block(slot.SLOTS)
        for name in (slot.CODES, slot.SIGNS, slot.USES, slot.HEADS, slot.FROZEN, slot.QUEUED, slot.FREED, slot.FUSED):
            block.point(name, np.zeros(nodes, np.int64))
        for name in (slot.STACK, slot.QUEUE, slot.FREE, slot.BEST_CODES, slot.BEST_SIGNS):
            block.point(name, np.zeros(nodes, np.int64))
        for name in (slot.ARGUMENTS, slot.NEXTS, slot.PREVIOUS, slot.BEST_ARGUMENTS):
            block.point(name, np.zeros(3 * nodes, np.int64))
        block.point(slot.TOUCHED, np.zeros(4 * nodes, np.int64))
        table_bits, log = (2 * nodes - 1).bit_length(), LOG_PER_NODE * nodes + LOG
        block.point(slot.TABLE, np.zeros(1 << table_bits, np.int64))
        block.point(slot.LOG, np.zeros(2 * log, np.int64))
        block.point(slot.TREES, np.zeros(slot.TREE_COUNT * slot.TREE_SIZE * slot.FIELDS, np.int64))
        block.point(slot.TERMS, np.zeros(2 * slot.TERM_COUNT, np.int64))
        block.point(slot.COEFFICIENTS, np.zeros(2 * slot.TERM_COUNT))
        middles = (np.arange(slot.THRESHOLD_COUNT) + 0.5) / slot.THRESHOLD_COUNT
        block.point(slot.THRESHOLDS, -np.log(middles))
        self._describe_operations(weights)
        self._hand_over(tape, kept_outputs)
        values = self._values = block.integers
        values[[slot.INPUTS, slot.LENGTH, slot.OUTPUT_COUNT]] = inputs, length, outputs
        values[slot.CREDIT] = weights.get(FUSED, 0)
        values[[slot.TABLE_BITS, slot.NODE_LIMIT, slot.LOG_LIMIT]] = table_bits, nodes, log
        values[slot.RANDOM] = (0x9E3779B97F4A7C15 * (seed + 1) & (1 << 63) - 1) | 1
        self._run = kernel("rewriting.rewrite")
        # moves a second, and how many are tried in one call
        self._pace, self._together = math.inf, FIRST
        self._perform(slot.BUILD)

    @property
    def size(self) -> int:
        """Numbers of nodes in use, and some that are free."""
        return int(self._values[slot.NEXT])

    @property
    def cost(self) -> int:
        """Of the network as it is, without changes of sign."""
        return int(self._values[slot.COST])

    @property
    def least(self) -> int:
        """Cost of the best that was found, without changes of sign."""
        return int(self._values[slot.BEST])

    def sweep(self, visits: int, inline: float = 0.0, deadline: Deadline = FOREVER) -> None:
        """Try one move at each of so many nodes in turn, and keep those that win.

        Args:
            visits: moves to try.
            inline: chance to look into a sum or product that is used elsewhere, too.
            deadline: when to stop, whatever is left.
        """
        while visits > 0 and not deadline.passed:
            visits -= self._search(slot.SWEEP, visits, inline)
        self._perform(slot.KEEP)

    def anneal(self, visits: int, hot: float, cold: float, inline: float, deadline: Deadline = FOREVER) -> None:
        """Try moves at random nodes; at temperature T one that costs c more is kept with probability exp(-c/T).

        Args:
            visits: moves to try.
            hot, cold: temperature at the start and at the end, in the unit of the weights.
            inline: as for `sweep`.
            deadline: when to stop; where moves take so long that not all can be tried by then, it cools faster.
        """
        floats = self._block.floats
        floats[slot.TEMPERATURE] = hot
        floats[slot.COOLING] = (cold / hot) ** (1 / max(1, visits))
        while visits > 0 and not deadline.passed:
            possible = max(1.0, self._pace * deadline.left)
            if possible < visits:
                visits = int(possible)
                floats[slot.COOLING] = (cold / floats[slot.TEMPERATURE]) ** (1 / visits)
            visits -= self._search(slot.ANNEAL, visits, inline)
        self._perform(slot.KEEP)

    def written(self) -> Tape:
        """The best that was found, as a tape with the same inputs and outputs.

        That is the tape as it was where operations that see the signs of zeros differ by these alone.
        """
        array, count = self._block.array, int(self._values[slot.BEST_NEXT])
        rows = array(slot.BEST_ARGUMENTS)[: 3 * count]
        first = int(self._values[slot.FIRST_OUTPUT])
        arguments = rows.reshape(-1, 3)
        network = Definitions(
            codes=array(slot.BEST_CODES)[:count],
            signs=array(slot.BEST_SIGNS)[:count],
            arguments=arguments,
            numbers=rows.view(np.float64)[::3],
            outputs=arguments[first : first + len(self._tape.outputs), 0],
            exact=np.zeros(count, bool),
        )
        if not len(self._seeing):
            return write(network, self._tape)
        staying = np.frombuffer(needed(self._tape, self._seeing.tolist()), bool)[self._tape.inputs :]
        references = np.flatnonzero(staying) + self._tape.inputs
        signed = with_signed_zeros(network, self._tape, references, array(slot.MEANINGS)[references])
        return self._tape if signed is None else write(signed, self._tape)

    def _search(self, mode: int, visits: int, inline: float) -> int:
        """Try that many moves, or as many as take as long as a search may without a look at the clock; how many."""
        tried = min(visits, self._together)
        self._values[[slot.INLINE, slot.VISITS]] = int(CHANCES * inline), tried
        start = time.perf_counter()
        self._perform(mode)
        self._pace = tried / max(time.perf_counter() - start, SHORTEST)
        self._together = int(min(max(self._pace * LOOK / 2, FEWEST), 2 * self._together))
        return tried

    def _perform(self, mode: int) -> None:
        self._values[slot.MODE] = mode
        self._run(self._block.address)

    def _describe_operations(self, weights: Mapping[str, int]) -> None:
        block = self._block
        prices = block.point(slot.WEIGHTS, np.zeros(256, np.int64))
        arities = block.point(slot.ARITIES, np.zeros(256, np.int64))
        properties = block.point(slot.PROPERTIES, np.zeros(256, np.int64))
        for row in OPERATIONS:
            prices[row.code] = weights.get(row.name, 0)
            arities[row.code] = row.arity
            properties[row.code] = (
                slot.COMMUTATIVE * row.commutative
                | slot.ODD * (row.parity == "odd")
                | slot.EVEN * (row.parity == "even")
            )
        arities[slot.OUTPUT] = 1

    def _hand_over(self, tape: Tape, kept_outputs: int) -> None:
        block, inputs, length = self._block, tape.inputs, tape.operations
        program = block.point(slot.PROGRAM, np.zeros((max(1, length), slot.PROGRAM_FIELDS), np.int64))
        program[:length, 0] = np.frombuffer(tape.codes, np.uint8)[inputs:]
        program[:length, 1] = np.frombuffer(tape.first, np.int32)[inputs:]
        program[:length, 2] = np.frombuffer(tape.second, np.int32)[inputs:]
        for reference, third in tape.third.items():
            program[reference - inputs, 3] = third
        program[:length, 4] = np.frombuffer(as_written(tape, kept_outputs), np.uint8)[inputs:]
        program[self._seeing - inputs, 4] = slot.FOR_LIFE
        block.point(slot.MEANINGS, np.zeros(len(tape) + 1, np.int64))
        block.point(slot.OUTPUTS, np.array([*tape.outputs, 0], np.int64))
        block.point(slot.NUMBERS, np.array([*tape.constants, 0.0]))
