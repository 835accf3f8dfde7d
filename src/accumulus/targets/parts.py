"""Long programs cut into parts: functions of bounded length that hand on values through memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from accumulus.tape.tape import Tape
from accumulus.targets.schedule import ARITY, Group

__all__ = ["Part", "handed_on", "parts"]


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
                # a group may be longer than the reach: what waits is stored at its beginning
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
    arity = np.array(ARITY)[codes]
    arguments = np.concatenate([first[arity >= 1], second[arity >= 2], np.array(others, np.int64)])
    used_in = np.concatenate(
        [part[operations[arity >= 1]], part[operations[arity >= 2]], np.array(other_users, np.int64)]
    )
    computed_before = arguments >= tape.inputs
    arguments, used_in = arguments[computed_before], used_in[computed_before]
    crosses = part[arguments] != used_in
    arguments, used_in = arguments[crosses], used_in[crosses]
    return len(np.unique(arguments)) + len(np.unique(arguments * (len(steps) // size + 1) + used_in))
