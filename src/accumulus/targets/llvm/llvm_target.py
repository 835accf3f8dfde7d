"""The `llvm` target: which kernel a program gets, its source, and loops over arrays.

The modules that do it are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Kernel, Segment, Shape
from accumulus.targets.llvm.library import check_supported
from accumulus.targets.llvm.llvm_kernel import LLVMKernel
from accumulus.targets.schedule import width
from accumulus.targets.target import Target

if TYPE_CHECKING:
    from accumulus.tape.blocks import BlockTape
    from accumulus.tape.fusion import Map
    from accumulus.targets.kernel import CompiledLoops, LongSegment


#: Operations of the longest programs that are compiled at once: in straight lines, and in loops over runs of equals.
#: Compiling longer ones takes many seconds; they are tables of operations first.
LONGEST_STRAIGHT_LINE, LONGEST_LOOPS = 100_000, 1_000_000
#: Operations side by side (`accumulus.targets.schedule.width`) from which on programs are sure to be loops.
WIDTH_OF_LOOPS: Final = 64


def source(
    tape: Tape,
    segments: tuple[Segment, ...],
    dtype: str,
    arguments: tuple[Shape, ...],
    name: str,
    exact: frozenset[int] = frozenset(),
) -> str:
    """The LLVM IR that a kernel for C-ordered batches is compiled from; `name` does not occur in it."""
    from accumulus.targets.llvm.module import module, tune

    del name
    suited = tune(tape, segments, dtype)
    return str(module(tape, arguments, segments, replace(suited, exact=suited.exact | exact)).text)


def _loops(
    tape: BlockTape, maps: Sequence[Map], segments: Sequence[LongSegment], arguments: tuple[Shape, ...], cache: bool
) -> CompiledLoops:
    from accumulus.targets.llvm.lanes import BatchedLoops

    del arguments  # each is given by itself
    return BatchedLoops(tape, maps, segments, cache)


def _compile(
    tape: Tape,
    segments: tuple[Segment, ...],
    dtype: str,
    arguments: tuple[Shape, ...],
    exact: frozenset[int],
    cache: bool,
) -> Kernel:
    """Compiled code, or a table of operations where compiling would take long."""
    check_supported()
    if tape.operations > LONGEST_STRAIGHT_LINE and (tape.operations > LONGEST_LOOPS or width(tape) < WIDTH_OF_LOOPS):
        from accumulus.targets.llvm.bytecode import BytecodeKernel

        return BytecodeKernel(tape, segments, dtype, arguments, cache)
    return LLVMKernel(tape, segments, dtype, arguments, exact, cache)


def _seconds(operations: int) -> float:
    """By `make bench ARGS=estimates`: in straight lines, or in loops and tables of operations."""
    return operations * (8e-5 if operations <= LONGEST_STRAIGHT_LINE else 5e-6)


TARGET: Final = Target(_compile, source, comment=";", loops=_loops, seconds=_seconds)
