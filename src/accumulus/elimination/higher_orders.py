"""Derivatives of values that solve equations, written so that they can be differentiated once more.

A solution is recorded as `attach(x, d)`, with the derivative of a Newton step d in which markers, `attach(…, 0)`, hold
this x and the inverse W constant (`accumulus.elimination.implicit`). That is right to first order. First derivatives
are expressions in x, W and parameters; in these x is a solution again, and W the inverse as it is computed. So each
solution that they contain is written as `attach(x, d)` once more, and each marker in them as what it marks. The
derivatives of what comes of it are exact, whatever has computed x, and so on to any order.

Where an equation contains the solution of another one, within, that depends on the solution around it, which is a
marker in the equation itself, and a solution outside: it is written in both ways.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accumulus.tape.live import lasting, needed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

__all__ = ["with_steps"]

#: Solutions that are held constant where something is written.
Held = frozenset[int]


def with_steps(tape: Tape, steps: dict[int, int], emitted: Tape, places: Sequence[int]) -> Tape | None:
    """What was emitted for a tape, on that tape, with solutions as such: to be differentiated once more.

    Args:
        steps: for each solution that is held constant, by reference, the solution: as `newton_steps` returns them.
        places: on the emitted tape, of each of these values, in their order.

    Returns:
        The tape with the outputs of the emitted one; None if a solution is no value of its own there.
    """
    if min(places) < emitted.inputs or len(set(places)) < len(places):
        return None
    writer = _Writer(tape, steps)
    solutions = {place: writer.write(x) for place, x in zip(places, steps.values(), strict=True)}
    result, values, need = writer.result, list(range(emitted.inputs)), needed(emitted)

    def reference(k: int) -> int:
        return values[k] if k >= 0 else result.constant(emitted.value_of(k))

    for k in range(emitted.inputs, len(emitted)):
        if k in solutions:
            values.append(solutions[k])
        elif need[k]:
            values.append(result.apply_code(emitted.codes[k], [reference(a) for a in emitted.arguments(k)]))
        else:
            values.append(0)
    result.outputs = [reference(k) for k in emitted.outputs]
    return result


class _Writer:
    """Writes values of a tape onto a copy of it, with what they mark in the place of markers."""

    def __init__(self, tape: Tape, steps: dict[int, int]) -> None:
        self._tape, self._steps, self.result = tape, steps, tape.copy()
        attached, kept = BY_NAME["attach"].code, lasting(tape)
        self._markers = {
            k for k in range(tape.inputs, len(tape)) if tape.codes[k] == attached and not kept[k] and tape.second[k] < 0
        }
        self._solutions = set(steps.values())
        self._uses = {x: np.frombuffer(needed(tape, [x]), bool) for x in self._solutions}
        #: Whether values depend on a marker; what does not is written as it is.
        self._marked = bytearray(len(tape))
        for k in range(tape.inputs, len(tape)):
            self._marked[k] = k in self._markers or any(a >= 0 and self._marked[a] for a in tape.arguments(k))
        self._systems: dict[int, Held] = {}
        self._around: dict[int, Held] = {}
        self._written: dict[tuple[int, Held], int] = {}

    def write(self, value: int, held: Held = frozenset()) -> int:
        """The reference of a value where some solutions are held constant."""
        written, waiting = self._written, [(value, held)]
        while waiting:
            at = waiting[-1]
            missing = [one for one in self._operands(*at) if one[0] >= 0 and one not in written]
            if at not in written and not missing:
                written[at] = self._apply(*at)
            if not missing:
                waiting.pop()
            waiting += missing
        return written[value, held]

    def _operands(self, k: int, held: Held) -> list[tuple[int, Held]]:
        """What a value is written with."""
        tape = self._tape
        if k < tape.inputs or not self._marked[k]:
            return []
        if k in self._solutions:
            return [self._computed(k, held), (tape.second[k], held | self._system(k))]
        if k in self._markers:
            is_held = self._steps[k] in held if k in self._steps else bool(held)
            if k in self._steps:
                return [self._computed(k, held) if is_held else (self._steps[k], held)]
            return [(tape.first[k], held)]
        return [(a, held) for a in tape.arguments(k)]

    def _computed(self, k: int, held: Held) -> tuple[int, Held]:
        """What has computed a solution, with those held constant whose equations it is within."""
        x = self._tape.first[k]
        if x not in self._around:
            need = needed(self._tape, [x])
            self._around[x] = frozenset(solution for marker, solution in self._steps.items() if need[marker])
        return x, held & self._around[x]

    def _apply(self, k: int, held: Held) -> int:
        """A value, whose operands are written."""
        tape, result = self._tape, self.result
        if k < tape.inputs or not self._marked[k]:
            return k
        operands = [self._written[one] if one[0] >= 0 else one[0] for one in self._operands(k, held)]
        if k not in self._markers:
            return int(result.apply_code(tape.codes[k], operands))
        is_held = self._steps[k] in held if k in self._steps else bool(held)
        return int(result.apply("attach", operands[0], result.constant(0.0))) if is_held else operands[0]

    def _system(self, solution: int) -> Held:
        """The solutions that are found together with one, and held constant in its step."""
        if solution not in self._systems:
            tape, found, seen = self._tape, {solution}, set()
            waiting = [tape.second[solution]]
            while waiting:
                k = waiting.pop()
                if k < tape.inputs or k in seen or not self._marked[k]:
                    continue
                seen.add(k)
                if k in self._steps:
                    other = self._steps[k]
                    if not self._uses[other][solution]:  # else its equation is around this one
                        found.add(other)
                elif k not in self._markers and k not in self._solutions:
                    waiting += tape.arguments(k)
            self._systems[solution] = frozenset(found)
        return self._systems[solution]
