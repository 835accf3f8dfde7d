"""A program as runs of equal operations, for programs that are too large for straight-line code.

A loop over a table of arguments computes what a thousand instructions would, and takes no longer to compile for a
million operations than for ten. It pays where many operations of one kind can be done one behind the other, because
none of them needs another's result: as in dense layers, in grids, in sums over many terms.

Operations come in the usual order of results, in stretches, so that values are used soon after they are made. In each
stretch they are sorted by depth, the longest chain of operations before them, and then by kind. Slots of values that
are not needed any more are used again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import Tape

__all__ = ["ARITY", "PRODUCT_MINUS", "PRODUCT_PLUS", "WITHOUT_PRODUCT", "Runs", "fuse_products", "runs", "width"]

#: Codes of products fused with the sum or difference that alone needs them: a·b + c, a·b − c, c − a·b.
PRODUCT_PLUS, PRODUCT_MINUS, WITHOUT_PRODUCT = range(len(OPERATIONS), len(OPERATIONS) + 3)
#: Number of arguments by code.
ARITY: Final = np.array([*(operation.arity for operation in OPERATIONS), 3, 3, 3])
#: Operations of a stretch.
STRETCH: Final = 4096

_ADD, _SUBTRACT, _MULTIPLY = (BY_NAME[name].code for name in ("add", "subtract", "multiply"))

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of equal operations.

    Attributes:
        kinds: code of each kind of operation, and which of its arguments are constants.
        runs: number of its kind and number of operations, of each run; (runs, 2).
        rows: of each operation the slot of its result, then its arguments: slots, or numbers of constants; (n, 4).
        slots: how many there are; the first are those of the inputs.
        slot_of: slot of each reference; −1 for operations that are not computed.
    """

    kinds: list[tuple[int, tuple[bool, bool, bool]]]
    runs: Integers
    rows: Integers
    slots: int
    slot_of: Integers

    @property
    def mean(self) -> float:
        """Operations of a run on average."""
        return len(self.rows) / max(1, len(self.runs))


def runs(
    tape: Tape, steps: Sequence[int], outputs: Collection[int], exact: Collection[int] = (), *, fuse: bool = True
) -> Runs:
    """Sort operations into runs.

    Args:
        steps: the operations that are needed, each after its arguments.
        outputs: references whose values are wanted in the end.
        exact: operations that are not fused with others.
        fuse: whether products are fused with sums.
    """
    order, wanted = np.array(steps, np.int64), np.array(sorted(outputs), np.int64)
    rows = rows_of(tape)
    if fuse:
        order = order[~fuse_products(rows, order, wanted, exact)[order]]
    depth = _depths(rows, order)
    constant = (rows[order, 1:] < 0) & (np.arange(3) < ARITY[rows[order, 0]][:, None])
    kind = rows[order, 0] * 8 + constant @ np.array([4, 2, 1])
    turn = np.lexsort((kind, depth))
    order, depth, kind, constant = order[turn], depth[turn], kind[turn], constant[turn]

    begins = np.ones(len(order), bool)
    begins[1:] = (kind[1:] != kind[:-1]) | (depth[1:] != depth[:-1])
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(order))
    numbers = {number: k for k, number in enumerate(sorted(set(kind[starts].tolist())))}
    slot_of, slots = _slots(tape.inputs, rows, order, starts, lengths, wanted)
    arguments = rows[order, 1:]
    placed = np.where(constant, -1 - arguments, slot_of[np.maximum(arguments, 0)])
    placed[np.arange(3) >= ARITY[rows[order, 0]][:, None]] = 0
    return Runs(
        [(number // 8, (bool(number & 4), bool(number & 2), bool(number & 1))) for number in numbers],
        np.stack([np.array([numbers[k] for k in kind[starts].tolist()], np.int64), lengths], axis=1),
        np.concatenate([slot_of[order][:, None], placed], axis=1),
        slots,
        slot_of,
    )


def width(tape: Tape, samples: int = 3) -> float:
    """How many operations could be done side by side, roughly: the mean over depths of some stretches of the tape."""
    rows = rows_of(tape)
    stretch = min(STRETCH, tape.operations)
    starts = np.linspace(tape.inputs, len(tape) - stretch, samples).astype(np.int64)
    depths = [_depths(rows, np.arange(start, start + stretch)).max(initial=1) for start in starts]
    return samples * stretch / float(sum(depths))


def fuse_products(rows: Integers, order: Integers, wanted: Integers, exact: Collection[int]) -> NDArray[np.bool_]:
    """Fuse products with sums, in the rows themselves; which operations that makes superfluous."""
    count = len(rows)
    uses = np.bincount(wanted[wanted >= 0], minlength=count)
    for k in range(3):
        taken = rows[order, 1 + k][(ARITY[rows[order, 0]] > k) & (rows[order, 1 + k] >= 0)]
        uses += np.bincount(taken, minlength=count)
    alone = (rows[:, 0] == _MULTIPLY) & (uses == 1)
    free = np.ones(count, bool)
    free[list(exact)] = False
    alone &= free

    def product(sums: Integers, argument: int) -> NDArray[np.bool_]:
        references = rows[sums, argument]
        found: NDArray[np.bool_] = (references >= 0) & alone[np.maximum(references, 0)]
        return found

    gone = np.zeros(count, bool)
    codes = rows[order, 0]
    sums = order[((codes == _ADD) | (codes == _SUBTRACT)) & free[order]]
    first = product(sums, 1)
    second = product(sums, 2) & ~first
    for chosen, argument, other in ((sums[first], 1, 2), (sums[second], 2, 1)):
        factors, rest = rows[chosen, argument], rows[chosen, other]
        adds = rows[chosen, 0] == _ADD
        minus = PRODUCT_MINUS if argument == 1 else WITHOUT_PRODUCT
        gone[factors] = True
        rows[chosen] = np.stack([np.where(adds, PRODUCT_PLUS, minus), rows[factors, 1], rows[factors, 2], rest], axis=1)
    return gone


def _depths(rows: Integers, order: Integers) -> Integers:
    """How many operations of its stretch come before each, on the longest chain; larger in later stretches."""
    depth = [0] * len(rows)
    arity, arguments = ARITY[rows[order, 0]].tolist(), rows[order, 1:].tolist()
    base = highest = 0
    for place, (reference, takes, (a, b, c)) in enumerate(zip(order.tolist(), arity, arguments, strict=True)):
        if place % STRETCH == 0:
            base = highest
        least = base
        if a >= 0 and depth[a] > least:
            least = depth[a]
        if takes > 1 and b >= 0 and depth[b] > least:
            least = depth[b]
        if takes > 2 and c >= 0 and depth[c] > least:
            least = depth[c]
        depth[reference] = least + 1
        if least >= highest:
            highest = least + 1
    return np.array(depth, np.int64)[order]


def _slots(
    inputs: int, rows: Integers, order: Integers, starts: Integers, lengths: Integers, wanted: Integers
) -> tuple[Integers, int]:
    """A slot for each value, free again after the last run that needs it; and how many there are."""
    run_of = np.repeat(np.arange(len(starts)), lengths)
    last = np.full(len(rows), -1)
    last[order] = run_of
    for k in range(3):
        chosen = (ARITY[rows[order, 0]] > k) & (rows[order, 1 + k] >= 0)
        np.maximum.at(last, rows[order, 1 + k][chosen], run_of[chosen])
    last[wanted[wanted >= 0]] = len(starts)
    ended = order[np.argsort(last[order], kind="stable")]
    ends = np.searchsorted(last[ended], np.arange(len(starts) + 1))

    slot_of = np.full(len(rows), -1)
    slot_of[:inputs] = np.arange(inputs)
    free = np.empty(len(order), np.int64)
    available, slots = 0, inputs
    for run, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        again = min(length, available)
        available -= again
        slot_of[order[start : start + again]] = free[available : available + again]
        slot_of[order[start + again : start + length]] = np.arange(slots, slots + length - again)
        slots += length - again
        released = slot_of[ended[ends[run] : ends[run + 1]]]
        free[available : available + len(released)] = released
        available += len(released)
    return slot_of, slots
