"""In which order a target computes and stores: groups of neighbouring results, each as soon as it is complete.

A *group* is `width` neighbouring entries of a result array (fewer at the end of a row): what one vector register holds
of a point's row. Results are produced group by group, in the order in which they lie in memory, and the operations
that a group needs are put directly before it, depth first. Values are then used soon after they are made: half as
many of them are in flight as in the order of the tape, and what does not fit the registers is stored and loaded again.

Long programs are cut into functions, which hand on through memory what is alive. `order_by_registers` keeps less alive
in those that compute much before the first result is complete.

Where a program waits for chains of slow operations, they come in the order of urgency instead: first what the longest
chain begins with. A processor looks some hundred instructions ahead, and so finds other work meanwhile.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.tape.weights import LATENCY
from accumulus.targets.kernel import Segment

__all__ = [
    "Group",
    "Part",
    "groups",
    "handed_on",
    "most_alive",
    "order",
    "order_by_registers",
    "order_by_urgency",
    "parts",
]


_ARITY: Final = tuple(operation.arity for operation in OPERATIONS)


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring entries of one result array.

    Attributes:
        segment: index of the result array.
        start: first entry.
        references: of the tape, one an entry; None for a structural zero.
    """

    segment: int
    start: int
    references: tuple[int | None, ...]

    @property
    def is_zero(self) -> bool:
        """Whether all entries are structural zeros."""
        return all(reference is None for reference in self.references)


def groups(tape: Tape, segments: Sequence[Segment], width: int) -> list[Group]:
    """All results in the order in which they lie in memory; runs of structural zeros are left to the caller.

    A group of structural zeros alone is as long as the run of whole groups of zeros is.
    """
    found: list[Group] = []
    for index, segment in enumerate(segments):
        given = {
            position: tape.outputs[output] for output, position in zip(segment.outputs, segment.positions, strict=True)
        }
        occupied = sorted({position // width for position in given})
        end = 0
        for block in occupied:
            start, stop = block * width, min((block + 1) * width, segment.length)
            if start > end:
                found.append(Group(index, end, (None,) * (start - end)))
            found.append(Group(index, start, tuple(map(given.get, range(start, stop)))))
            end = stop
        if end < segment.length:
            found.append(Group(index, end, (None,) * (segment.length - end)))
    return found


def order(tape: Tape, plan: Sequence[Group], partners: Mapping[int, int] | None = None) -> Iterator[int | Group]:
    """Operations and groups, each operation once and before its first use, each group when it is complete.

    Args:
        partners: operations with the same arguments as another that are to follow it at once.
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
                takes = _ARITY[codes[reference]]
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


def order_by_urgency(
    tape: Tape, plan: Sequence[Group], partners: Mapping[int, int] | None = None
) -> Iterator[int | Group]:
    """As `order`; of the operations whose arguments are there, the one that the longest chain starts with is next."""
    partners = {} if partners is None else partners
    needed = [step for step in order(tape, plan, partners) if not isinstance(step, Group)]
    users: dict[int, list[int]] = {reference: [] for reference in needed}
    missing: dict[int, int] = {}
    for reference in needed:
        arguments = {argument for argument in tape.arguments(reference) if argument >= tape.inputs}
        missing[reference] = len(arguments)
        for argument in arguments:
            users[argument].append(reference)
    chain: dict[int, int] = {}
    for reference in reversed(needed):
        chain[reference] = LATENCY[tape.codes[reference]] + max((chain[user] for user in users[reference]), default=0)

    ready = [(-chain[reference], reference) for reference in needed if not missing[reference]]
    heapq.heapify(ready)
    pending = set(needed)
    for group in plan:
        while not pending.isdisjoint(reference for reference in group.references if reference is not None):
            _, urgent = heapq.heappop(ready)
            for reference in (urgent, partners.get(urgent, urgent)):
                if reference in pending:
                    pending.remove(reference)
                    yield reference
                    for user in users[reference]:
                        missing[user] -= 1
                        if not missing[user]:
                            heapq.heappush(ready, (-chain[user], user))
        yield group


def order_by_registers(
    tape: Tape,
    plan: Sequence[Group],
    registers: int,
    partners: Mapping[int, int] | None = None,
) -> Iterator[int | Group]:
    """As `order`, but by how many values are alive; time near-linear.

    As long as they fit the registers, what is most urgent comes next (see `order_by_urgency`), so that independent
    chains begin side by side. When they do not, it is an operation after which no more are alive than before: that
    which most values end with, and of several that with the oldest argument. Where there is none, it is the operation
    that `order` would come to first.

    This is integrated prepass scheduling: J. R. Goodman and W.-C. Hsu, Code scheduling and register allocation in large
    basic blocks, International Conference on Supercomputing, 1988.

    Args:
        registers: how many values may be alive before those that end come first.
    """
    partners = {} if partners is None else partners
    inputs = tape.inputs
    # operations by their places in the usual order
    references = [step for step in order(tape, plan, partners) if not isinstance(step, Group)]
    count = len(references)
    place = dict(zip(references, range(count), strict=True))
    arguments = [[place[a] for a in set(tape.arguments(r)) if a >= inputs] for r in references]
    users: list[list[int]] = [[] for _ in references]
    for k, places in enumerate(arguments):
        for a in places:
            users[a].append(k)
    chain = [0] * count
    for k in range(count - 1, -1, -1):
        chain[k] = LATENCY[tape.codes[references[k]]] + max([chain[user] for user in users[k]], default=0)

    # arguments that are not there yet; uses that are still to come; values that end with an operation
    missing = [len(places) for places in arguments]
    left = [len(places) for places in users]
    stored = [{place[r] for r in group.references if r is not None and r >= inputs} for group in plan]
    waiting = [len(results) for results in stored]
    groups_of: dict[int, list[int]] = {}
    for index, results in enumerate(stored):
        for k in results:
            left[k] += 1
            groups_of.setdefault(k, []).append(index)
    ends = [sum([left[a] == 1 for a in places]) for places in arguments]
    done = bytearray(count)
    time = [0] * count  # when a value was made
    # heaps of whole numbers, places in the low digits: on top the longest chain; the most ends, and of those the one
    # with the oldest argument; the first place
    urgent = [k - chain[k] * count for k in range(count) if not missing[k]]
    ending: list[int] = []
    first = [k for k in range(count) if not missing[k]]
    heapq.heapify(urgent)
    push, pop = heapq.heappush, heapq.heappop

    def offer(k: int) -> None:
        """Something can be computed now, and values may end with it."""
        if ends[k]:
            oldest = min([time[a] for a in arguments[k]])
            push(ending, ((count - ends[k]) * count + oldest) * count + k)

    def use(k: int) -> bool:
        """One use less; whether it was the last."""
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
        if alive < registers:
            while done[urgent[0] % count]:
                pop(urgent)
            chosen = urgent[0] % count
        else:
            # what has been done, or offered again since with more ends
            while ending and (
                done[ending[0] % count] or count - ending[0] // (count * count) != ends[ending[0] % count]
            ):
                pop(ending)
            while done[first[0]]:
                pop(first)
            chosen = ending[0] % count if ending else first[0]
        partner = partners.get(references[chosen])
        for k in (chosen,) if partner is None else (chosen, place[partner]):
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
                    push(urgent, user - chain[user] * count)
                    offer(user)
                    push(first, user)


def most_alive(tape: Tape, steps: Sequence[int | Group]) -> int:
    """How many operations' values are held at once at most, each from where it is made to its last use; linear."""
    inputs, first, second, third = tape.inputs, tape.first, tape.second, tape.third
    codes = tape.codes
    seen = bytearray(len(tape))
    alive = most = 0
    # backwards, a value comes to life with its last use
    for step in reversed(steps):
        if isinstance(step, Group):
            used: Iterable[int | None] = step.references
        else:
            if seen[step]:
                alive -= 1
            takes = _ARITY[codes[step]]
            used = (first[step],) if takes == 1 else (first[step], second[step], third.get(step, -1))
        for reference in used:
            if reference is not None and reference >= inputs and not seen[reference]:
                seen[reference] = 1
                alive += 1
        most = max(most, alive)
    return most


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a program that becomes one function.

    Attributes:
        steps: operations and groups in order.
        slots: where in the frame a value lies that is computed in one part and used in another, by reference.
    """

    steps: list[int | Group]
    slots: Mapping[int, int]


def parts(tape: Tape, steps: Iterable[int | Group], size: int, reach: int) -> tuple[list[Part], int]:
    """Cut a program into parts of at most `size` steps, values that cross handed on through a frame.

    Stores count as operations do: compilers take time with the square of their number. A slot of the frame is used
    again once no later part needs its value.

    Args:
        reach: a result may be stored as late as together with the one `reach` - 1 places behind it.

    Returns:
        The parts, and the number of slots that the frame needs.
    """
    pieces: list[list[int | Group]] = [[]]
    for step in steps:
        if len(pieces[-1]) == size:
            pieces.append([])
        pieces[-1].append(step)
    if len(pieces) == 1:
        return [Part(pieces[0], {})], 0

    # the last part in which each value is used, constants, whose references are negative, at the end of the list
    last = [-1] * (len(tape) + len(tape.constants))
    inputs, codes, first, second, third = tape.inputs, tape.codes, tape.first, tape.second, tape.third
    waiting: dict[int, deque[int | None]] = {}
    for index, piece in enumerate(pieces):
        for step in piece:
            if isinstance(step, Group):
                late = waiting.setdefault(step.segment, deque(maxlen=reach))
                late.extend(step.references)
                for reference in late:
                    if reference is not None and reference >= inputs:
                        last[reference] = index
                continue
            takes = _ARITY[codes[step]]
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
            if not isinstance(step, Group) and last[step] > index:
                if free:
                    slot = free.pop()
                else:
                    slot, count = count, count + 1
                slots[step] = slot
                ending[last[step]].append(slot)
        free += ending[index]
    return [Part(piece, slots) for piece in pieces], count


def handed_on(tape: Tape, steps: Sequence[int | Group], size: int) -> int:
    """How often a value is stored for another part or loaded from one, if parts are of `size` steps; linear."""
    places = [place for place, step in enumerate(steps) if not isinstance(step, Group)]
    operations = np.array([steps[place] for place in places], np.int64)
    part = np.zeros(len(tape), np.int64)
    part[operations] = np.array(places, np.int64) // size
    codes = np.frombuffer(tape.codes, np.uint8)[operations]
    first, second = (np.frombuffer(argument, np.intc)[operations] for argument in (tape.first, tape.second))
    others, other_users = [], []  # results, and third arguments
    for place, step in enumerate(steps):
        if isinstance(step, Group):
            also: Iterable[int | None] = step.references
        else:
            also = (tape.third.get(step),)
        for reference in also:
            if reference is not None:
                others.append(reference)
                other_users.append(place // size)
    arity = np.array(_ARITY)[codes]
    arguments = np.concatenate([first[arity >= 1], second[arity >= 2], np.array(others, np.int64)])
    used_in = np.concatenate(
        [part[operations[arity >= 1]], part[operations[arity >= 2]], np.array(other_users, np.int64)]
    )
    computed_before = arguments >= tape.inputs
    arguments, used_in = arguments[computed_before], used_in[computed_before]
    crosses = part[arguments] != used_in
    arguments, used_in = arguments[crosses], used_in[crosses]
    return len(np.unique(arguments)) + len(np.unique(arguments * (len(steps) // size + 1) + used_in))
