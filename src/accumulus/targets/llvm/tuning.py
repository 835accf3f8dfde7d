"""The variant that suits a program on this machine: points that a block computes at once, and the order of operations.

A block has to do arithmetic, at about two instructions a cycle, to bring points and results into another shape,
log₂(lanes) shuffles a variable, and to store results, structural zeros among them. Meanwhile it waits for the longest
chain of operations of which each needs the one before; elementary functions, square roots and divisions make long
chains.

* Where the chain takes nearly as long as the rest, two blocks at a time fill the gaps. They need twice as many
  registers: with shorter chains, that costs more than it wins. In a transposed batch, half as long a chain will do if
  all values fit the registers anyway: two blocks write two neighbouring cache lines of each variable.
* Where the chain takes a large part of that time, operations come in the order of the critical path; those of two
  blocks only if the values that are alive in that order fit the registers, or nearly.
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
from dataclasses import replace
from typing import Final

import numpy as np

from accumulus.tape.live import needed, time_of
from accumulus.tape.operations import LATENCY, OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.special_functions import SPECIAL_FUNCTIONS
from accumulus.targets.llvm.variant import LARGEST_UNCUT, PART_SIZE, Variant, results_of, sines_and_cosines
from accumulus.targets.llvm.vector_functions import VECTOR_FUNCTIONS
from accumulus.targets.parts import handed_on
from accumulus.targets.schedule import groups, most_alive, order, order_by_critical_path, order_by_registers

__all__ = ["LONGEST_ORDERED", "runs_in_one_lane", "tune", "values_in_registers"]

#: The longest chain as a part of all other work, from which on blocks are twice as wide, and from which on operations
#: come in the order of the critical path.
WIDE_FROM, CRITICAL_FROM = 0.72, 0.29
#: As a part of arithmetic and stores, from which on transposed blocks are twice as wide if registers are left.
WIDE_TRANSPOSED_FROM: Final = 0.5
#: Blocks are half as wide if shuffles take this many times as long as arithmetic, and no more than half as many zeros
#: are stored as there are variables.
NARROW_FROM, ZEROS = 1.8, 0.5
#: Longer programs, in operations, have enough to do while they wait, and too few registers for more.
LONGEST_WIDE: Final = 500
#: In programs that are cut into functions, up to so many operations, register pressure is high if this many times more
#: values are alive than fit: another order is tried then.
LONGEST_ORDERED, HIGH_PRESSURE = 10_000, 4
#: That order is taken if it hands on no more than this part of the values. It leaves some registers to what
#: instructions need beside the values that are alive.
WORTH_IT, SPARE = 0.9, 4
#: Functions that this package has code for.
OWN: Final = VECTOR_FUNCTIONS.keys() | SPECIAL_FUNCTIONS.keys()


def tune(
    tape: Tape, segments: Sequence[Segment], dtype: str, transposed: bool = False, *, single: bool = False
) -> Variant:
    """The variant that suits this machine and the program.

    Args:
        transposed: for transposed batches instead of those in C order.
        single: for one point, for which only the order of operations matters.
    """
    if single and tape.operations <= LARGEST_UNCUT:
        return Variant(1, dtype)
    machine = host()
    lanes = machine.vector_bytes // (8 if dtype == "float64" else 4)
    marks = needed(tape)
    live = [reference for reference in range(tape.inputs, len(tape)) if marks[reference]]
    if len(live) > LARGEST_UNCUT:
        few = Variant(lanes, dtype, transposed)
        return few if len(live) > LONGEST_ORDERED else _by_registers(tape, segments, few)
    chain, called = _chain(tape, live)
    moved = tape.inputs + sum(len(segment.outputs) for segment in segments)
    work = time_of(tape) / 2
    shuffles = (lanes.bit_length() - 1) * moved / 2
    stores = sum(segment.length for segment in segments)
    busy = work + shuffles + stores
    if _has_own_functions(called, dtype) and len(live) <= LONGEST_WIDE:
        results, registers = groups(tape, segments, 1), machine.registers
        wide = chain > WIDE_FROM * busy
        if transposed and not wide and chain > WIDE_TRANSPOSED_FROM * (work + moved - tape.inputs):
            wide = 2 * most_alive(tape, list(order(tape, results))) <= registers
        if wide:
            fits = most_alive(tape, list(order_by_critical_path(tape, results))) <= registers
            return Variant(2 * lanes, dtype, transposed, critical_path=fits and _is_uncut(tape, segments))
    few_zeros = stores + tape.inputs <= (1 + ZEROS) * moved
    if machine.vector_bytes == 64 and not (called or transposed) and few_zeros and shuffles > NARROW_FROM * work:
        return Variant(lanes // 2, dtype, transposed)
    critical_path = chain > CRITICAL_FROM * busy and _is_uncut(tape, segments)
    return Variant(lanes, dtype, transposed, critical_path=critical_path)


def _is_uncut(tape: Tape, segments: Sequence[Segment]) -> bool:
    """Whether results leave a short program in one function.

    Longer ones are cut in one order for a point and a batch: a product is fused with a sum of the same part only.
    """
    return len(results_of(tape, segments)) <= LARGEST_UNCUT


def values_in_registers(variant: Variant) -> int:
    """How many vectors of the variant's lanes the registers hold."""
    machine = host()
    return machine.registers // max(1, variant.lanes * variant.size // machine.vector_bytes)


def _by_registers(tape: Tape, segments: Sequence[Segment], variant: Variant) -> Variant:
    """The variant, with `order_by_registers` if too many values are alive and fewer would cross between functions."""
    registers = values_in_registers(variant)
    if most_alive(tape, list(order(tape, groups(tape, segments, 1)))) <= HIGH_PRESSURE * registers:
        return variant
    results, pairs = results_of(tape, segments), sines_and_cosines(tape)
    steps = tuple(order_by_registers(tape, results, registers - SPARE, pairs))
    usual = list(order(tape, results, pairs))
    pays = handed_on(tape, steps, PART_SIZE) <= WORTH_IT * handed_on(tape, usual, PART_SIZE)
    return replace(variant, steps=steps) if pays else variant


def runs_in_one_lane(tape: Tape, dtype: str) -> bool:
    """Whether one lane gives the same bits as many: a library's functions on vectors differ from those on numbers."""
    marks = np.frombuffer(needed(tape), np.uint8)[tape.inputs :] != 0
    codes = np.unique(np.frombuffer(tape.codes, np.uint8)[tape.inputs :][marks]).tolist()
    called = {OPERATIONS[code].llvm[1:] for code in codes if OPERATIONS[code].llvm.startswith("@")}
    return _has_own_functions(called, dtype)


def _has_own_functions(called: set[str], dtype: str) -> bool:
    """Whether the code has none but its own elementary functions, for vectors of any width."""
    return not called or (dtype == "float64" and host().fused and called <= OWN)


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
