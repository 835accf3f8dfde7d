"""What suits a program on this machine: how many points a block computes at once, and in which order of operations.

A block has to do arithmetic, at about two instructions a cycle, to bring points and results into another shape,
log₂(lanes) shuffles a variable, and to store results, structural zeros among them. Meanwhile it waits for the longest
chain of operations of which each needs the one before; elementary functions, square roots and divisions make long
chains.

* Where the chain takes nearly as long as the rest, two blocks at a time fill the gaps. They need twice as many
  registers: with shorter chains, that costs more than it wins. In a transposed batch, half as long a chain will do if
  all values fit the registers anyway: two blocks write two neighbouring cache lines of each variable.
* Where it takes a good part of it, operations come in the order of urgency; those of two blocks only if the values that
  are alive in that order still fit the registers, or nearly.
* Where there is little arithmetic and much to be stored, half as wide a block writes half as many rows at a time, which
  caches like better. Transposed, a block as wide as a cache line fills one at once.
* Where a long program, one that is cut into functions, holds many more values at once than there are registers,
  operations come in an order that holds fewer, if there is one.

Each of the first three was worth 8 to 17 per cent on those of the examples that it is for (vectors of 64 bytes), in
transposed batches 4 to 25. The last was worth 12 to 70 per cent on recurrences of thousands of operations, 8 on two
Runge-Kutta steps of a ring of ten variables, 5 on a walking model; compiling took up to a fifth longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from accumulus.tape.live import needed
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.tape.weights import LATENCY, time_of
from accumulus.targets.kernel import Segment
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.vector_functions import VECTOR_FUNCTIONS
from accumulus.targets.schedule import groups, most_alive, order, order_by_urgency

__all__ = ["LONGEST", "Tuning", "runs_in_one_lane", "tune", "values_in_registers"]

#: The longest chain as a part of all other work, from which on blocks are twice as wide, and operations urgent.
WIDE_FROM: Final = 0.72
#: As a part of arithmetic and stores, from which on transposed blocks are twice as wide if registers are left.
WIDE_TRANSPOSED_FROM: Final = 0.5
URGENT_FROM: Final = 0.3
#: Blocks are half as wide if shuffles take this many times as long as arithmetic, and no more than half as many zeros
#: are stored as there are variables.
NARROW_FROM, ZEROS = 1.8, 0.5
#: Longer programs, in operations, have enough to do while they wait, and too few registers for more.
LONGEST_WIDE, LONGEST = 500, 1000
#: Up to this many operations another order is tried, if this many times more values are alive than fit the registers.
LONGEST_ORDERED, CROWDED = 10_000, 4


@dataclass(frozen=True, slots=True)
class Tuning:
    """How to compile a program.

    Attributes:
        lanes: points that a block computes at once.
        urgent: whether operations come in the order of urgency, instead of that of their results.
        crowded: whether an order that minds the registers is worth a try.
    """

    lanes: int
    urgent: bool
    crowded: bool = False


def tune(tape: Tape, segments: Sequence[Segment], dtype: str, transposed: bool = False) -> Tuning:
    """What suits this machine and the program, for batches in C order or `transposed` ones."""
    machine = host()
    lanes = machine.vector_bytes // (8 if dtype == "float64" else 4)
    marks = needed(tape)
    live = [reference for reference in range(tape.inputs, len(tape)) if marks[reference]]
    if len(live) > LONGEST:
        return Tuning(lanes, False, len(live) <= LONGEST_ORDERED and _is_crowded(tape, segments, lanes, dtype))
    chain, called = _chain(tape, live)
    moved = tape.inputs + sum(len(segment.outputs) for segment in segments)
    work = time_of(tape) / 2
    shuffles = (lanes.bit_length() - 1) * moved / 2
    stores = sum(segment.length for segment in segments)
    busy = work + shuffles + stores
    urgent = chain > URGENT_FROM * busy
    if _written_out(called, dtype) and len(live) <= LONGEST_WIDE:
        results, registers = groups(tape, segments, 1), machine.registers
        wide = chain > WIDE_FROM * busy
        if transposed and not wide and chain > WIDE_TRANSPOSED_FROM * (work + moved - tape.inputs):
            wide = 2 * most_alive(tape, list(order(tape, results))) <= registers
        if wide:
            in_turn = list(order_by_urgency(tape, results))
            return Tuning(2 * lanes, most_alive(tape, in_turn) <= registers)
    few_zeros = stores + tape.inputs <= (1 + ZEROS) * moved
    if machine.vector_bytes == 64 and not (called or transposed) and few_zeros and shuffles > NARROW_FROM * work:
        return Tuning(lanes // 2, False)
    return Tuning(lanes, urgent)


def values_in_registers(lanes: int, size: int) -> int:
    """How many vectors of so many entries, of so many bytes each, the registers hold."""
    machine = host()
    return machine.registers // max(1, lanes * size // machine.vector_bytes)


def _is_crowded(tape: Tape, segments: Sequence[Segment], lanes: int, dtype: str) -> bool:
    registers = values_in_registers(lanes, 8 if dtype == "float64" else 4)
    return most_alive(tape, list(order(tape, groups(tape, segments, 1)))) > CROWDED * registers


def runs_in_one_lane(tape: Tape, dtype: str) -> bool:
    """Whether one lane gives the bits of many: a library's functions of vectors differ from those of numbers."""
    codes = {tape.codes[reference] for reference, mark in enumerate(needed(tape)) if mark and reference >= tape.inputs}
    return _written_out({OPERATIONS[code].llvm[1:] for code in codes if OPERATIONS[code].llvm.startswith("@")}, dtype)


def _written_out(called: set[str], dtype: str) -> bool:
    """Whether the code has none but its own elementary functions, for vectors of any width."""
    return not called or (dtype == "float64" and host().fused and called <= VECTOR_FUNCTIONS.keys())


def _chain(tape: Tape, live: Sequence[int]) -> tuple[int, set[str]]:
    """Cycles of the longest chain of operations, and the elementary functions that the program calls."""
    ready: dict[int, int] = {}
    called: set[str] = set()
    for reference in live:
        row = OPERATIONS[tape.codes[reference]]
        ready[reference] = LATENCY[row.code] + max(ready.get(argument, 0) for argument in tape.arguments(reference))
        if row.llvm.startswith("@"):
            called.add(row.llvm[1:])
    return max(ready.values(), default=0), called
