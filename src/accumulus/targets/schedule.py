"""Order of operations, and division of long programs: into functions, or into runs of equal operations.

A *group* is `width` neighbouring entries of a result array, or fewer at the end of a row: the content of one vector
register. Results are produced group by group, in memory order, and the operations that a group needs come directly
before it, depth first. So values are used soon after they are computed: half as many are live as in the order of the
tape, and fewer have to be spilled from registers to memory.

Long programs are cut into functions of bounded length (`cut`), which pass values through memory.
`order_by_registers` reduces the number of live values in programs that compute much before the first result is
complete.

Programs that wait for chains of slow operations use the order of the critical path instead: the start of the longest
chain comes first. A processor looks some hundred instructions ahead, and so finds other work while the chain waits.

For programs that are too large for straight-line code, a loop over a table of arguments replaces a thousand
instructions, and takes no longer to compile for a million operations than for ten. It pays off if many operations of
one kind are independent, as in dense layers, grids, and sums over many terms. The operations come in the usual order of
results, in stretches, so that values are used soon after they are computed. Each stretch is sorted by depth, the
longest chain of operations before an operation, and then by kind. Slots of values that are no longer needed are reused.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.operations import BY_NAME, LATENCY, OPERATIONS
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment

#: Number of arguments by code.
ARITY: Final = tuple(operation.arity for operation in OPERATIONS)


@dataclass(frozen=True, slots=True)
class ResultGroup:
    """Neighbouring entries of one result array."""

    segment: int  # index of the result array
    start: int  # first entry
    references: tuple[int | None, ...]  # reference of each entry; None for a structural zero

    @property
    def is_zero(self) -> bool:
        """True if all entries are structural zeros."""
        return all(reference is None for reference in self.references)


def groups(tape: Tape, segments: Sequence[Segment], width: int) -> list[ResultGroup]:
    """Return all results in memory order, as groups.

    Consecutive groups that only have structural zeros are one long group, which the caller writes.
    """
    plan: list[ResultGroup] = []
    for index, segment in enumerate(segments):
        reference_at = {position: tape.outputs[output] for output, position in segment.pairs()}
        occupied = sorted({position // width for position in reference_at})
        end = 0
        for block in occupied:
            start, stop = block * width, min((block + 1) * width, segment.length)
            if start > end:
                plan.append(ResultGroup(index, end, (None,) * (start - end)))
            plan.append(ResultGroup(index, start, tuple(map(reference_at.get, range(start, stop)))))
            end = stop
        if end < segment.length:
            plan.append(ResultGroup(index, end, (None,) * (segment.length - end)))
    return plan


def order(
    tape: Tape, plan: Sequence[ResultGroup], partners: Mapping[int, int] | None = None
) -> Iterator[int | ResultGroup]:
    """Yield operations and groups: each operation once, before its first use; each group when it is complete.

    Args:
        tape: tape of the program.
        plan: groups of outputs that are stored together.
        partners: for some operations, another one with the same arguments that follows directly.
    """
    partners = {} if partners is None else partners
    inputs, first, second, third = tape.inputs, tape.first, tape.second, tape.third
    codes = tape.codes
    done = bytearray(len(tape))
    done[:inputs] = b"\1" * inputs
    for group in plan:
        for output in group.references:
            if output is None or output < 0 or done[output]:
                continue
            waiting = [output]
            while waiting:
                reference = waiting[-1]
                if done[reference]:
                    waiting.pop()
                    continue
                size = len(waiting)
                takes = ARITY[codes[reference]]
                if takes == 3:
                    argument = third[reference]
                    if argument >= 0 and not done[argument]:
                        waiting.append(argument)
                if takes >= 2:
                    argument = second[reference]
                    if argument >= 0 and not done[argument]:
                        waiting.append(argument)
                argument = first[reference]
                if argument >= 0 and not done[argument]:
                    waiting.append(argument)
                if len(waiting) == size:
                    done[reference] = 1
                    waiting.pop()
                    yield reference
                    partner = partners.get(reference)
                    if partner is not None and not done[partner]:
                        done[partner] = 1
                        yield partner
        yield group


def order_by_critical_path(
    tape: Tape, plan: Sequence[ResultGroup], partners: Mapping[int, int] | None = None
) -> Iterator[int | ResultGroup]:
    """Yield operations as `order` does, except that the start of the longest remaining chain comes first."""
    return order_by_registers(tape, plan, None, partners)


def order_by_registers(
    tape: Tape, plan: Sequence[ResultGroup], registers: int | None, partners: Mapping[int, int] | None = None
) -> Iterator[int | ResultGroup]:
    """Yield operations and groups, ordered by the number of live values, in near-linear time.

    While all live values fit the registers, the operation at the start of the longest chain comes next, as in
    `order_by_critical_path`, so that independent chains begin side by side. Otherwise the next operation is one that
    does not increase the number of live values: the last use of the most values, with the oldest argument in a tie. If
    no operation is a last use, the first in the order of `order` comes next.

    This is integrated prepass scheduling: J. R. Goodman and W.-C. Hsu, Code scheduling and register allocation in large
    basic blocks, International Conference on Supercomputing, 1988.

    Args:
        tape: tape of the program.
        plan: groups of outputs that are stored together.
        registers: number of live values from which last uses are preferred; None for no limit.
        partners: for some operations, another one with the same arguments that follows directly.
    """
    partners = {} if partners is None else partners
    inputs = tape.inputs
    # operations are numbered by the usual order
    references = [step for step in order(tape, plan, partners) if not isinstance(step, ResultGroup)]
    count = len(references)
    index_of = dict(zip(references, range(count), strict=True))
    arguments = [[index_of[a] for a in set(tape.arguments(r)) if a >= inputs] for r in references]
    users: list[list[int]] = [[] for _ in references]
    for k, places in enumerate(arguments):
        for a in places:
            users[a].append(k)
    longest_chain = [0] * count
    for k in range(count - 1, -1, -1):
        longest_chain[k] = LATENCY[tape.codes[references[k]]] + max(
            [longest_chain[user] for user in users[k]], default=0
        )

    # per operation: missing arguments, remaining uses, and values whose last use it is
    missing = [len(places) for places in arguments]
    left = [len(places) for places in users]
    stored = [{index_of[r] for r in group.references if r is not None and r >= inputs} for group in plan]
    waiting = [len(results) for results in stored]
    groups_of: dict[int, list[int]] = {}
    for index, results in enumerate(stored):
        for k in results:
            left[k] += 1
            groups_of.setdefault(k, []).append(index)
    ends = [sum([left[a] == 1 for a in places]) for places in arguments]
    done = bytearray(count)
    time = [0] * count  # step at which a value was computed
    # heaps of integers whose last digits are the operation's number, or its reference. On top are: of `critical`, the
    # longest chain; of `ending`, the most last uses, then the oldest argument; of `first`, the lowest number
    size, digits = (len(tape), references) if registers is None else (count, range(count))
    places_of: Mapping[int, int] | range = index_of if registers is None else range(count)
    critical = [digits[k] - longest_chain[k] * size for k in range(count) if not missing[k]]
    ending: list[int] = []
    first = [k for k in range(count) if not missing[k]]
    heapq.heapify(critical)
    push, pop = heapq.heappush, heapq.heappop

    def offer(k: int) -> None:
        """Push an operation whose arguments are all computed onto the heap, if it is the last use of a value."""
        if ends[k]:
            oldest = min([time[a] for a in arguments[k]])
            push(ending, ((count - ends[k]) * count + oldest) * count + k)

    def use(k: int) -> bool:
        """Count one use; return True if it was the last."""
        left[k] -= 1
        if left[k] == 1:
            for user in users[k]:
                if not done[user]:
                    ends[user] += 1
                    if not missing[user]:
                        offer(user)
        return not left[k]

    alive = at = finished = 0
    while True:
        while at < len(plan) and not waiting[at]:
            for k in stored[at]:
                alive -= use(k)
            yield plan[at]
            at += 1
        if finished == count:
            return
        if registers is None or alive < registers:
            while done[places_of[critical[0] % size]]:
                pop(critical)
            chosen = places_of[critical[0] % size]
        else:
            # drop operations that are done, or were pushed again with more last uses
            while ending and (
                done[ending[0] % count] or count - ending[0] // (count * count) != ends[ending[0] % count]
            ):
                pop(ending)
            while done[first[0]]:
                pop(first)
            chosen = ending[0] % count if ending else first[0]
        partner = partners.get(references[chosen])
        for k in (chosen,) if partner is None else (chosen, index_of[partner]):
            if done[k]:
                continue
            done[k] = 1
            time[k] = finished
            finished += 1
            yield references[k]
            alive += left[k] > 0
            for index in groups_of.get(k, ()):
                waiting[index] -= 1
            for a in arguments[k]:
                alive -= use(a)
            for user in users[k]:
                missing[user] -= 1
                if not missing[user]:
                    push(critical, digits[user] - longest_chain[user] * size)
                    offer(user)
                    push(first, user)


def most_alive(tape: Tape, steps: Sequence[int | ResultGroup]) -> int:
    """Return the largest number of live values of operations, in linear time."""
    inputs, first, second, third = tape.inputs, tape.first, tape.second, tape.third
    codes = tape.codes
    seen = bytearray(len(tape))
    alive = most = 0
    # backwards, a value becomes live at its last use
    for step in reversed(steps):
        if isinstance(step, ResultGroup):
            used: Iterable[int | None] = step.references
        else:
            if seen[step]:
                alive -= 1
            takes = ARITY[codes[step]]
            used = (first[step],) if takes == 1 else (first[step], second[step], third.get(step, -1))
        for reference in used:
            if reference is not None and reference >= inputs and not seen[reference]:
                seen[reference] = 1
                alive += 1
        most = max(most, alive)
    return most


# Long programs as several functions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a program that becomes one function.

    Attributes:
        steps: operations and groups in order.
        slots: slot in the frame of each value that is computed in one part and used in another, by reference.
    """

    steps: list[int | ResultGroup]
    slots: Mapping[int, int]


def cut(tape: Tape, steps: Iterable[int | ResultGroup], size: int, reach: int) -> tuple[list[Stretch], int]:
    """Cut a program into parts of at most `size` steps that pass values through a frame.

    Stores count like operations, since compilers take time quadratic in their number. A slot of the frame is reused
    once no later part needs its value.

    Args:
        tape: tape of the program.
        steps: operations and groups in order.
        size: largest number of steps of a part.
        reach: largest delay of a store: a result is stored before the one `reach` positions after it.

    Returns:
        The parts, and the number of slots that the frame needs.
    """
    pieces: list[list[int | ResultGroup]] = [[]]
    for step in steps:
        if len(pieces[-1]) == size:
            pieces.append([])
        pieces[-1].append(step)
    if len(pieces) == 1:
        return [Stretch(pieces[0], {})], 0

    # last part that uses each value; constants, whose references are negative, are at the end of the list
    last = [-1] * (len(tape) + len(tape.constants))
    inputs, codes, first, second, third = tape.inputs, tape.codes, tape.first, tape.second, tape.third
    waiting: dict[int, deque[int | None]] = {}
    for index, piece in enumerate(pieces):
        for step in piece:
            if isinstance(step, ResultGroup):
                # a group may be longer than the reach: waiting values are stored at its beginning
                late = waiting.setdefault(step.segment, deque(maxlen=reach - 1))
                for reference in chain(late, step.references):
                    if reference is not None and reference >= inputs:
                        last[reference] = index
                late.extend(step.references)
                continue
            takes = ARITY[codes[step]]
            last[first[step]] = index
            if takes >= 2:
                last[second[step]] = index
                if takes == 3:
                    last[third[step]] = index

    slots: dict[int, int] = {}
    free: list[int] = []
    count = 0
    ending: list[list[int]] = [[] for _ in pieces]
    for index, piece in enumerate(pieces):
        for step in piece:
            if not isinstance(step, ResultGroup) and last[step] > index:
                if free:
                    slot = free.pop()
                else:
                    slot, count = count, count + 1
                slots[step] = slot
                ending[last[step]].append(slot)
        free += ending[index]
    return [Stretch(piece, slots) for piece in pieces], count


def handed_on(tape: Tape, steps: Sequence[int | ResultGroup], size: int) -> int:
    """Return the number of stores and loads of values between parts of `size` steps, in linear time."""
    places = [position for position, step in enumerate(steps) if not isinstance(step, ResultGroup)]
    operations = np.array([steps[position] for position in places], np.int64)
    part_of = np.zeros(len(tape), np.int64)
    part_of[operations] = np.array(places, np.int64) // size
    codes = np.frombuffer(tape.codes, np.uint8)[operations]
    first, second = (np.frombuffer(argument, np.intc)[operations] for argument in (tape.first, tape.second))
    referenced, other_users = [], []  # results, and third arguments
    for position, step in enumerate(steps):
        if isinstance(step, ResultGroup):
            also: Iterable[int | None] = step.references
        else:
            also = (tape.third.get(step),)
        for reference in also:
            if reference is not None:
                referenced.append(reference)
                other_users.append(position // size)
    arity = np.array(ARITY)[codes]
    arguments = np.concatenate([first[arity >= 1], second[arity >= 2], np.array(referenced, np.int64)])
    used_in = np.concatenate(
        [part_of[operations[arity >= 1]], part_of[operations[arity >= 2]], np.array(other_users, np.int64)]
    )
    computed_before = arguments >= tape.inputs
    arguments, used_in = arguments[computed_before], used_in[computed_before]
    crosses = part_of[arguments] != used_in
    arguments, used_in = arguments[crosses], used_in[crosses]
    return len(np.unique(arguments)) + len(np.unique(arguments * (len(steps) // size + 1) + used_in))


# Runs of equal operations ---------------------------------------------------------------------------------------------

#: Codes of products fused with their only user, a sum or difference: a·b + c, a·b − c, c − a·b.
PRODUCT_PLUS, PRODUCT_MINUS, WITHOUT_PRODUCT = range(len(OPERATIONS), len(OPERATIONS) + 3)
#: Number of arguments by code, fused operations included.
TAKEN: Final = np.array([*(operation.arity for operation in OPERATIONS), 3, 3, 3])
#: Number of operations of a stretch: consecutive operations that are sorted together, by depth. Longer stretches make
#: longer runs, but keep more values in memory between them; shorter ones make shorter runs.
STRETCH: Final = 4096

_ADD, _SUBTRACT, _MULTIPLY = (BY_NAME[name].code for name in ("add", "subtract", "multiply"))

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of equal operations."""

    # code of each kind of operation, and the mask of its constant arguments
    kinds: list[tuple[int, tuple[bool, bool, bool]]]
    runs: Integers  # (runs, 2), kind and number of operations of each run
    # (n, 4), slot of each operation's result, then its arguments: slots, or numbers of constants
    rows: Integers
    slots: int  # number of slots; inputs have the first ones
    slot_of: Integers  # slot of each reference; −1 for operations that are not computed

    @property
    def mean(self) -> float:
        """Mean number of operations of a run."""
        return len(self.rows) / max(1, len(self.runs))


def runs(
    tape: Tape, steps: Sequence[int], outputs: Collection[int], exact: Collection[int] = (), *, fuse: bool = True
) -> Runs:
    """Sort operations into runs.

    Args:
        tape: tape of the program.
        steps: needed operations, each after its arguments.
        outputs: references of the results.
        exact: operations that are not fused with others.
        fuse: if True, products are fused with sums.
    """
    order, required = np.array(steps, np.int64), np.array(sorted(outputs), np.int64)
    rows = rows_of(tape)
    if fuse:
        order = order[~fuse_products(rows, order, required, exact)[order]]
    depth = _depths(rows, order)
    constant = (rows[order, 1:] < 0) & (np.arange(3) < TAKEN[rows[order, 0]][:, None])
    kind = rows[order, 0] * 8 + constant @ np.array([4, 2, 1])
    turn = np.lexsort((kind, depth))
    order, depth, kind, constant = order[turn], depth[turn], kind[turn], constant[turn]

    begins = np.ones(len(order), bool)
    begins[1:] = (kind[1:] != kind[:-1]) | (depth[1:] != depth[:-1])
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(order))
    numbers = {number: k for k, number in enumerate(sorted(set(kind[starts].tolist())))}
    slot_of, slots = _slots(tape.inputs, rows, order, starts, lengths, required)
    arguments = rows[order, 1:]
    placed = np.where(constant, -1 - arguments, slot_of[np.maximum(arguments, 0)])
    placed[np.arange(3) >= TAKEN[rows[order, 0]][:, None]] = 0
    return Runs(
        [(number // 8, (bool(number & 4), bool(number & 2), bool(number & 1))) for number in numbers],
        np.stack([np.array([numbers[k] for k in kind[starts].tolist()], np.int64), lengths], axis=1),
        np.concatenate([slot_of[order][:, None], placed], axis=1),
        slots,
        slot_of,
    )


def width(tape: Tape, samples: int = 3) -> float:
    """Return an estimate of the operations that can run in parallel, from the depths of a few stretches of the tape."""
    rows = rows_of(tape)
    stretch = min(STRETCH, tape.operations)
    starts = np.linspace(tape.inputs, len(tape) - stretch, samples).astype(np.int64)
    depths = [_depths(rows, np.arange(start, start + stretch)).max(initial=1) for start in starts]
    return samples * stretch / float(sum(depths))


def fuse_products(rows: Integers, order: Integers, outputs: Integers, exact: Collection[int]) -> NDArray[np.bool_]:
    """Fuse products with sums, in place in `rows`; return the mask of products that are no longer needed."""
    count = len(rows)
    uses = np.bincount(outputs[outputs >= 0], minlength=count)
    for k in range(3):
        taken = rows[order, 1 + k][(TAKEN[rows[order, 0]] > k) & (rows[order, 1 + k] >= 0)]
        uses += np.bincount(taken, minlength=count)
    alone = (rows[:, 0] == _MULTIPLY) & (uses == 1)
    free = np.ones(count, bool)
    free[list(exact)] = False
    alone &= free

    def product(sums: Integers, argument: int) -> NDArray[np.bool_]:
        references = rows[sums, argument]
        fusible: NDArray[np.bool_] = (references >= 0) & alone[np.maximum(references, 0)]
        return fusible

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


@dataclass(frozen=True, slots=True)
class Fused:
    """A sum fused with a product: the product, and its position among the sum's arguments."""

    product: int
    first: bool


def fusible(tape: Tape, steps: Iterable[int | ResultGroup], exact: Collection[int]) -> dict[int, Fused]:
    """Return the products that may be fused, by their only user, a sum or difference."""
    rows = rows_of(tape)
    order = np.array([step for step in steps if not isinstance(step, ResultGroup)], np.int64)
    outputs = np.array(sorted(set(tape.outputs)), np.int64)
    gone = fuse_products(rows, order, outputs, exact)
    sums = order[rows[order, 0] >= len(OPERATIONS)].tolist()
    fused = {}
    for r in sums:
        a = tape.first[r]
        first = rows[r, 0] != WITHOUT_PRODUCT and a >= 0 and bool(gone[a])
        fused[r] = Fused(a if first else tape.second[r], first)
    return fused


def _depths(rows: Integers, order: Integers) -> Integers:
    """Return the depth of each operation on its longest chain; each stretch begins below the previous one."""
    depth = [0] * len(rows)
    arity, arguments = TAKEN[rows[order, 0]].tolist(), rows[order, 1:].tolist()
    base = highest = 0
    for position, (reference, takes, (a, b, c)) in enumerate(zip(order.tolist(), arity, arguments, strict=True)):
        if position % STRETCH == 0:
            base = highest
        deepest = base
        if a >= 0 and depth[a] > deepest:
            deepest = depth[a]
        if takes > 1 and b >= 0 and depth[b] > deepest:
            deepest = depth[b]
        if takes > 2 and c >= 0 and depth[c] > deepest:
            deepest = depth[c]
        depth[reference] = deepest + 1
        if deepest >= highest:
            highest = deepest + 1
    return np.array(depth, np.int64)[order]


def _slots(
    inputs: int, rows: Integers, order: Integers, starts: Integers, lengths: Integers, outputs: Integers
) -> tuple[Integers, int]:
    """Return a slot for each value, which is free again after the last run that needs it; and the number of slots."""
    run_of = np.repeat(np.arange(len(starts)), lengths)
    last = np.full(len(rows), -1)
    last[order] = run_of
    for k in range(3):
        chosen = (TAKEN[rows[order, 0]] > k) & (rows[order, 1 + k] >= 0)
        np.maximum.at(last, rows[order, 1 + k][chosen], run_of[chosen])
    last[outputs[outputs >= 0]] = len(starts)
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
