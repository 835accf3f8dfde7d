"""A tape as a network of nodes for the compiled search, and back: how `rewrite_kernel` is driven."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from accumulus.annealing import slices
from accumulus.deadline import FOREVER, LOOK, Deadline
from accumulus.native.machine import kernel
from accumulus.native.state import Records
from accumulus.rewriting.compiled.rewrite_nodes import (
    ANNEAL,
    BUILD,
    FOR_LIFE,
    KEEP,
    OUTPUT,
    SWEEP,
    TERM_COUNT,
    TREE_SIZE,
    GivenOperation,
    LinearTerm,
    RewriteState,
    TreeEntry,
)
from accumulus.rewriting.signs import THRESHOLDS, Definitions, written
from accumulus.tape.compiled.passes_kernel import ARITY
from accumulus.tape.live import as_written, needed, seeing_zero_signs
from accumulus.tape.operations import FUSED, IN_SEARCH, OPERATIONS
from accumulus.tape.passes import PROPERTIES, rows_of
from accumulus.tape.tape import Tape

#: Writes of a move that can be undone: for each node, and besides.
LOG_PER_NODE: Final = 8
LOG: Final = 200_000
#: Parts of a unit by which chances to look into shared sums and products are given.
CHANCES: Final = 1024
#: Seconds of work of a move: times that power of the number of nodes, by which moves spread in memory; and for each
#: node, beyond caches. Over `examples/` and large programs within a factor of two.
MOVE: Final = (1.5e-8, 0.4)
FAR: Final = 1e-11
#: Seconds of work to make a network, or to write one out: at least, and for each node.
MAKE: Final = (5e-4, 2e-6)
#: Moves of a call of the kernel, at least.
FEWEST: Final = 256


#: Arrays of the kernel's state with one number for each node.
_ONE_EACH: Final = (
    *("codes", "signs", "uses", "heads", "frozen", "fused", "queued", "freed", "stack", "queue", "free"),
    *("best_codes", "best_signs"),
)


class Network:
    """The operations of a tape as nodes that can be rewritten.

    Zeros have no sign here. Operations that see it never die, nor does what they are computed from, so that all is
    there still when the network is written.

    Args:
        weights: what each operation costs, by its name, in whole numbers; under `FUSED`, what a sum and a product that
            only it uses cost less together.
        kept_outputs: that many of the first outputs stay as they are computed.
        seed: of the search.
    """

    def __init__(
        self, tape: Tape, weights: Mapping[str, int] = IN_SEARCH, *, kept_outputs: int = 0, seed: int = 0
    ) -> None:
        self._tape = tape
        nodes = 2 * (tape.operations + tape.inputs + len(tape.outputs) + len(tape.constants)) + 4096
        table_bits, log = (2 * nodes - 1).bit_length(), LOG_PER_NODE * nodes + LOG

        arrays: dict[str, Any] = {name: np.zeros(nodes, np.int64) for name in _ONE_EACH}
        arrays |= {name: np.zeros((nodes, 3), np.int64) for name in ("arguments", "best_arguments")}
        arrays |= {name: np.zeros(3 * nodes, np.int64) for name in ("nexts", "previous")}
        arrays |= {name: Records.zeros(TreeEntry, TREE_SIZE) for name in ("tree", "part", "other")}
        arrays |= {name: Records.zeros(LinearTerm, TERM_COUNT) for name in ("found", "waiting")}
        arities = PROPERTIES & ARITY
        arities[OUTPUT] = 1
        prices = np.zeros(len(PROPERTIES), np.int64)
        prices[: len(OPERATIONS)] = [weights.get(row.name, 0) for row in OPERATIONS]
        self._state = RewriteState(
            mode=BUILD,
            **arrays,
            touched=np.zeros(4 * nodes, np.int64),
            node_limit=nodes,
            weights=prices,
            arities=arities,
            properties=PROPERTIES,
            credit=weights.get(FUSED, 0),
            table=np.zeros(1 << table_bits, np.int64),
            table_bits=table_bits,
            log=np.zeros(2 * log, np.int64),
            log_limit=log,
            thresholds=THRESHOLDS,
            random=np.array([(0x9E3779B97F4A7C15 * (seed + 1) & (1 << 63) - 1) | 1]),
            program=_program(tape, kept_outputs),
            length=tape.operations,
            inputs=tape.inputs,
            meanings=np.zeros(len(tape) + 1, np.int64),
            outputs=np.array([*tape.outputs, 0], np.int64),
            output_count=len(tape.outputs),
            numbers=np.array([*tape.constants, 0.0]),
        )
        self._run = kernel("rewriting.rewrite")
        self._perform(BUILD)
        #: Seconds of work of a move, and moves of a call of the kernel.
        self._price = MOVE[0] * self.size ** MOVE[1] + FAR * self.size
        self._together = max(FEWEST, int(LOOK / 2 / self._price))

    @property
    def size(self) -> int:
        """Numbers of nodes in use, and some that are free."""
        return self._state.next

    @property
    def cost(self) -> int:
        """Of the network as it is, without changes of sign."""
        return self._state.cost

    @property
    def best_cost(self) -> int:
        """Cost of the best that was found, without changes of sign."""
        return self._state.best

    def sweep(self, visits: int, inline: float = 0.0, deadline: Deadline = FOREVER) -> None:
        """Try one move at each of so many nodes in turn, and keep those that win.

        Args:
            visits: moves to try.
            inline: chance to look into a sum or product that is used elsewhere, too.
            deadline: when to stop, whatever is left.
        """
        while visits > 0 and not deadline.passed:
            tried = self._search(SWEEP, inline, visits)
            deadline.spend(self._price * tried)
            visits -= tried
        self._perform(KEEP)

    def anneal(self, visits: int, hot: float, cold: float, inline: float, deadline: Deadline = FOREVER) -> None:
        """Try moves at random nodes; at temperature T one that costs c more is kept with probability exp(-c/T).

        Args:
            visits: moves to try.
            hot, cold: temperature at the start and at the end, in the unit of the weights.
            inline: as for `sweep`.
            deadline: when to stop; where not all moves can be tried by then, it cools faster.
        """
        moves = partial(self._search, ANNEAL, inline)
        for _ in slices(self._state, moves, visits, hot, cold, 1.0, deadline, self._price):
            pass
        self._perform(KEEP)

    def emitted(self) -> Tape:
        """The best that was found, as a tape with the same inputs and outputs.

        That is the tape as it was where operations that see the signs of zeros differ by these alone.
        """
        state = self._state
        count, first = state.best_next, state.first_output
        arguments = state.best_arguments[:count]
        network = Definitions(
            codes=state.best_codes[:count],
            signs=state.best_signs[:count],
            arguments=arguments,
            numbers=arguments.view(np.float64)[:, 0],
            outputs=arguments[first : first + len(self._tape.outputs), 0],
            exact=np.zeros(count, bool),
        )
        found = written(network, self._tape, state.meanings)
        return self._tape if found is None else found

    def _search(self, mode: int, inline: float, visits: int) -> int:
        """Try that many moves, or as many as take as long as a search may without a look at the clock; how many."""
        tried = min(visits, self._together)
        self._state.inline, self._state.visits = int(CHANCES * inline), tried
        self._perform(mode)
        return tried

    def _perform(self, mode: int) -> None:
        self._state.mode = mode
        self._run(self._state.address)


def _program(tape: Tape, kept_outputs: int) -> Records[GivenOperation]:
    """The operations of the tape, for the kernel to read."""
    stays = np.frombuffer(as_written(tape, kept_outputs), np.uint8).astype(np.int64)
    # not only what sees the signs of zeros: without them ``0 / x`` is 0, and x would be gone
    stays[np.frombuffer(needed(tape, seeing_zero_signs(tape).tolist()), bool)] = FOR_LIFE
    return Records(GivenOperation, np.column_stack([rows_of(tape, tape.inputs), stays[tape.inputs :]]).reshape(-1))
