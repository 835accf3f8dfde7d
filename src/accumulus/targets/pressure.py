"""How many values a program holds at once, and what those that do not fit the registers cost.

The model is a processor with so many registers that knows what comes: where a value needs room, the one whose next
use is furthest away goes (L. A. Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems
Journal 5, 1966). It is stored unless it has been stored before, and loaded again for its next use. Constants are read
from memory by the instructions that use them and take no register. A call of a function leaves no value in registers,
and neither does the end of a function where a long program is cut.

Results and inputs of a batch in C order are exchanged between rows and registers some at a time: the inputs of one
vector come into registers together, and results wait for their neighbours. Variables × points are read and written one
by one, and read again instead of being stored.

How well it agrees with LLVM's machine code, on the sixteen derivatives in `examples/` for 32 registers: where
arithmetic needs the registers (four functions, 46 to 160 stores to the stack), it counts 0.7 to 1.4 times those stores
and 0.8 to 1.6 times the loads. In the others it misses most of 8 to 77 stores and loads: LLVM moves the shuffles of
long rows apart from each other, and then has no register for what is between them. LLVM reorders instructions inside of
a function, so a good order of operations shows only where a program is cut into several.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.schedule import Group

__all__ = ["Exchange", "Pressure", "most_alive", "pressure"]

_ARITY: Final = tuple(operation.arity for operation in OPERATIONS)
#: Later than all steps.
NEVER: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Pressure:
    """What a program needs of the registers.

    Attributes:
        registers: how many values fit.
        most_alive: values that are held at once at most.
        stores: values that are stored because others need their registers.
        loads: how often such values are loaded again.
    """

    registers: int
    most_alive: int
    stores: int
    loads: int

    @property
    def moves(self) -> int:
        """Stores and loads."""
        return self.stores + self.loads


@dataclass(frozen=True, slots=True)
class Exchange:
    """How a batch in C order comes into registers, and out of them.

    Attributes:
        lanes: points that are computed at once, and variables that are exchanged together.
        lengths: entries of a row of each result array.
    """

    lanes: int
    lengths: Sequence[int]


@dataclass(slots=True)
class _Step:
    """What one instruction, or the exchange of several values, reads and makes.

    Attributes:
        empties: whether no value is in a register afterwards, but for those that it makes.
    """

    used: tuple[int, ...]
    made: tuple[int, ...] = ()
    empties: bool = False


def pressure(
    tape: Tape,
    pieces: Iterable[Iterable[int | Group]],
    registers: int,
    exchange: Exchange | None = None,
    calls: Collection[int] = (),
    partners: Mapping[int, int] | None = None,
) -> Pressure:
    """What a program needs of the registers; time near-linear in its length.

    Args:
        tape: the program.
        pieces: operations and groups of results in the order in which they are computed and stored, a function each.
        registers: how many values fit, at least one more than an operation has arguments.
        exchange: how inputs and results are exchanged with rows in memory; without, one by one.
        calls: codes of the operations that call functions.
        partners: operations that come from one call.

    >>> tape = Tape(1)
    >>> powers = [0]
    >>> for _ in range(8):
    ...     powers.append(tape.add(tape.multiply(powers[-1], 0), tape.constant(1.0)))
    >>> tape.outputs = [tape.sum(tape.apply("sqrt", power) for power in reversed(powers))]
    >>> steps = [*range(1, len(tape)), Group(0, 0, tuple(tape.outputs))]
    >>> pressure(tape, [steps], 6)
    Pressure(registers=6, most_alive=8, stores=2, loads=2)
    """
    steps = _steps(tape, pieces, exchange, calls, partners or {})
    following = _following(steps)
    alive = most = stores = loads = 0
    held: dict[int, int] = {}  # reference in a register → its next use
    stored: set[int] = set()
    heap: list[tuple[int, int]] = []
    for step, (next_uses, first_uses) in zip(steps, following, strict=True):
        for reference in step.used:
            if reference not in held:
                loads += 1
            held[reference] = NEVER  # not to be evicted now
        stores += _evict(held, heap, registers, stored)
        for reference, use in zip(step.used, next_uses, strict=True):
            if use < NEVER:
                held[reference] = use
                heapq.heappush(heap, (-use, reference))
            else:
                del held[reference]
                alive -= 1
        if step.empties:
            for reference in held:
                if reference not in stored:
                    stored.add(reference)
                    stores += 1
            held.clear()
        for reference, use in zip(step.made, first_uses, strict=True):
            if use < NEVER:
                alive += 1
                held[reference] = use
                heapq.heappush(heap, (-use, reference))
        most = max(most, alive)
        stores += _evict(held, heap, registers, stored)
    return Pressure(registers, most, stores, loads)


def _evict(held: dict[int, int], heap: list[tuple[int, int]], registers: int, stored: set[int]) -> int:
    """Keep no more values than there are registers; how many had to be stored."""
    stores = 0
    while len(held) > registers and heap:
        use, reference = heapq.heappop(heap)
        if held.get(reference) == -use:  # else it has been used since, or is needed right now
            del held[reference]
            if reference not in stored:
                stored.add(reference)
                stores += 1
    return stores


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


def _steps(
    tape: Tape,
    pieces: Iterable[Iterable[int | Group]],
    exchange: Exchange | None,
    calls: Collection[int],
    partners: Mapping[int, int],
) -> list[_Step]:
    """The program, with what is in registers made explicit."""
    inputs, codes = tape.inputs, tape.codes
    lowest = inputs if exchange is None else 0
    found: list[_Step] = []
    waiting: dict[tuple[int, int], list[int]] = {}
    before: int | None = None
    for piece in pieces:
        if found:
            found.append(_Step((), empties=True))
            before = None
        loaded: set[int] = set()
        for step in piece:
            if isinstance(step, Group):
                used = _stored_with(step, lowest, exchange, waiting)
                call = False
            elif before is not None and partners.get(before) == step and codes[step] in calls and found:
                # from the same call as the step before
                found[-1].made += (step,)
                before = None
                continue
            else:
                # in the order of the arguments, each once
                used = tuple(dict.fromkeys(a for a in tape.arguments(step) if a >= lowest))
                call = codes[step] in calls
            if exchange is not None:
                for reference in used:
                    if reference < inputs and reference not in loaded:
                        start = reference - reference % exchange.lanes
                        together = range(start, min(start + exchange.lanes, inputs))
                        loaded.update(together)
                        found.append(_Step((), tuple(together)))
            if isinstance(step, Group):
                if used:
                    found.append(_Step(used))
            else:
                found.append(_Step(used, (step,), call))
                before = step
    return found


def _stored_with(
    group: Group, lowest: int, exchange: Exchange | None, waiting: dict[tuple[int, int], list[int]]
) -> tuple[int, ...]:
    """What is stored when this group is there: itself, or all that waited for its last entry."""
    if exchange is None:
        return tuple(dict.fromkeys(r for r in group.references if r is not None and r >= lowest))
    length, lanes = exchange.lengths[group.segment], exchange.lanes
    # vectors of all rows begin at the multiples of this; an entry waits for the last vector that holds it
    step = gcd(length, lanes)
    for entry, reference in enumerate(group.references, group.start):
        if reference is not None and reference >= 0:
            end = min(entry // step * step + lanes, length) - 1
            waiting.setdefault((group.segment, end), []).append(reference)
    ready: dict[int, None] = {}
    for entry in range(group.start, group.start + len(group.references)):
        ready.update(dict.fromkeys(waiting.pop((group.segment, entry), ())))
    return tuple(ready)


def _following(steps: Sequence[_Step]) -> list[tuple[list[int], list[int]]]:
    """For each step, when each value that it uses, and each that it makes, is used next; NEVER if not again."""
    upcoming: dict[int, int] = {}
    found: list[tuple[list[int], list[int]]] = []
    for at in range(len(steps) - 1, -1, -1):
        step = steps[at]
        first_uses = [upcoming.pop(reference, NEVER) for reference in step.made]
        next_uses = [upcoming.get(reference, NEVER) for reference in step.used]
        for reference in step.used:
            upcoming[reference] = at
        found.append((next_uses, first_uses))
    found.reverse()
    return found
