"""The `llvm` target: choice of a program's kernel, its source, and loops over arrays.

The modules that do the work are imported when they are needed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from accumulus.targets.kernel import Kernel, Unit
from accumulus.targets.llvm.library import check_supported
from accumulus.targets.llvm.llvm_kernel import LLVMKernel
from accumulus.targets.schedule import width
from accumulus.targets.target import Target

#: Lengths, in operations, of the longest programs that are compiled directly: as straight lines, and as loops over runs
#: of equal operations. Compiling longer ones takes many seconds; they start as tables of operations, which take longer
#: for each call.
LONGEST_STRAIGHT_LINE, LONGEST_LOOPS = 100_000, 1_000_000
#: Parallel operations (`accumulus.targets.schedule.width`) from which on programs are certain to become loops. A
#: smaller number compiles long straight lines, for many seconds; a larger one interprets programs that compile quickly.
WIDTH_OF_LOOPS: Final = 64


def _source(unit: Unit, name: str) -> str:
    """Return the LLVM IR that a kernel compiles for C-ordered batches; `name` does not occur in it."""
    from accumulus.targets.llvm.module import module, tune

    del name
    suited = tune(unit.tape, unit.segments, unit.dtype)
    return str(module(unit, replace(suited, exact=suited.exact.union(unit.exact))).text)


def _compile(unit: Unit) -> Kernel:
    """Return compiled code, or a table of operations if compiling would take long."""
    check_supported()
    tape = unit.tape
    if unit.maps is not None:
        from accumulus.targets.llvm.maps import LLVMLoops

        return LLVMLoops(unit)
    if tape.operations > LONGEST_STRAIGHT_LINE and (tape.operations > LONGEST_LOOPS or width(tape) < WIDTH_OF_LOOPS):
        from accumulus.targets.llvm.bytecode import BytecodeKernel

        return BytecodeKernel(unit)
    return LLVMKernel(unit)


def _seconds(operations: int) -> float:
    """Return estimated compile times, measured by `make bench ARGS=estimates`: straight lines, or loops and tables."""
    return operations * (8e-5 if operations <= LONGEST_STRAIGHT_LINE else 5e-6)


TARGET: Final = Target(_compile, _source, comment=";", writes_loops=False, seconds=_seconds)
