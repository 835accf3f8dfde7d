"""In which order a target computes and stores: groups of neighbouring results, each as soon as it is complete.

A *group* is `width` neighbouring entries of a result array (fewer at the end of a row): what one vector register holds
of a point's row. Results are produced group by group, in the order in which they lie in memory, and the operations
that a group needs are put directly before it, depth first. Values are then used soon after they are made: half as
many are alive as in the order of the tape, and fewer have to be spilled from registers to memory.

Long programs are cut into functions (`parts`), which pass live values through memory. `order_by_registers` keeps
less alive in those that compute much before the first result is complete.

Where a program waits for chains of slow operations, they come in the order of the critical path instead: first what
the longest chain begins with. A processor looks some hundred instructions ahead, and so finds other work meanwhile.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from accumulus.tape.operations import LATENCY, OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment

__all__ = [
    "ARITY",
    "Group",
    "groups",
    "most_alive",
    "order",
    "order_by_critical_path",
    "order_by_registers",
]


#: Number of arguments by code.
ARITY: Final = tuple(operation.arity for operation in OPERATIONS)


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
            _, chosen = heapq.heappop(ready)
            for reference in (chosen, partners.get(chosen, chosen)):
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

    As long as all live values fit the registers, the operation at the start of the longest chain comes next, as in
    `order_by_critical_path`, so that independent chains begin side by side. When they do not, an operation comes next
    that leaves no more values alive than before: the one that is the last use of most values, and among several the
    one with the oldest argument. Where there is none, the first in the order of `order`.

    This is integrated prepass scheduling: J. R. Goodman and W.-C. Hsu, Code scheduling and register allocation in large
    basic blocks, International Conference on Supercomputing, 1988.

    Args:
        registers: how many values may be alive before operations that end values are preferred.
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
    critical = [k - chain[k] * count for k in range(count) if not missing[k]]
    ending: list[int] = []
    first = [k for k in range(count) if not missing[k]]
    heapq.heapify(critical)
    push, pop = heapq.heappush, heapq.heappop

    def offer(k: int) -> None:
        """Put an operation whose arguments are all there into the heap, if it is the last use of a value."""
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
            while done[critical[0] % count]:
                pop(critical)
            chosen = critical[0] % count
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
                    push(critical, user - chain[user] * count)
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
            takes = ARITY[codes[step]]
            used = (first[step],) if takes == 1 else (first[step], second[step], third.get(step, -1))
        for reference in used:
            if reference is not None and reference >= inputs and not seen[reference]:
                seen[reference] = 1
                alive += 1
        most = max(most, alive)
    return most
