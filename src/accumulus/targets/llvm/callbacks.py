"""Functions of C's signatures around a program's ``run``, for libraries that take the address of a function.

Each calls ``run`` at one point, with room for its results on the stack, and returns one number of these: NaN, or an
error where the signature has one, if it was called with another number of inputs, or where guards fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from accumulus.targets.kernel import Shape
from accumulus.targets.llvm.library import Code, Library

__all__ = ["CALLBACKS", "Callback", "callback"]


@dataclass(frozen=True, slots=True)
class Callback:
    """A signature that a library asks for.

    Attributes:
        signature: as SciPy writes it.
        head: of the function in LLVM's words; the inputs are `x`, how many there are is `n`.
        count: the type of `n`.
        found: what is done with the number `value`.
        failed: what is done where there is none.
    """

    signature: str
    head: str
    count: str
    found: tuple[str, ...]
    failed: str


#: By who takes it.
CALLBACKS: Final = {
    "quad": Callback(
        "double (int, double *, void *)",
        "double @callback(i32 %n, ptr %x, ptr %user)",
        "i32",
        ("ret double %value",),
        "ret double 0x7FF8000000000000",
    ),
    "ndimage": Callback(
        "int (double *, intptr_t, double *, void *)",
        "i32 @callback(ptr %x, i64 %n, ptr %result, ptr %user)",
        "i64",
        ("store double %value, ptr %result", "ret i32 1"),
        "ret i32 0",
    ),
}


def callback(
    kind: Callback, run: int, arguments: Sequence[Shape], lengths: Sequence[int], entry: int, *, guarded: bool
) -> Library:
    """The function ``callback`` for a program; it needs the code at `run` as long as it is called.

    Args:
        kind: the signature.
        run: the address of the program's function for batches in C order.
        arguments: shapes of the program's arguments at one point.
        lengths: entries of each of its result arrays.
        entry: of the results, one behind the other, the one that is returned.
        guarded: whether the last of these arrays says where guards hold.
    """
    from accumulus.targets.llvm.host import compile_ir
    from accumulus.targets.llvm.module import in_module

    starts = [sum(lengths[:k]) for k in range(len(lengths))]
    first = [sum(map(prod, arguments[:k])) for k in range(len(arguments))]
    names = [*(f"ptr %x{k}" for k in range(len(arguments))), *(f"ptr %o{k}" for k in range(len(lengths)))]
    lines = [
        f"define {kind.head} {{",
        f"%results = alloca [{max(sum(lengths), 1)} x double], align 64",
        f"%right = icmp eq {kind.count} %n, {sum(map(prod, arguments))}",
        "br i1 %right, label %compute, label %failed",
        "compute:",
        *(f"%x{k} = getelementptr double, ptr %x, i64 {start}" for k, start in enumerate(first)),
        *(f"%o{k} = getelementptr double, ptr %results, i64 {start}" for k, start in enumerate(starts)),
        f"%run = inttoptr i64 {run} to ptr",
        f"%status = call i32 %run({', '.join(names)}, i64 0, i64 1, i64 1)",
        "%done = icmp eq i32 %status, 0",
        "br i1 %done, label %computed, label %failed",
        "computed:",
        *(
            (
                f"%guards = load double, ptr %o{len(lengths) - 1}",
                "%hold = fcmp ogt double %guards, 0.0",
                "br i1 %hold, label %found, label %failed",
            )
            if guarded
            else ("br label %found",)
        ),
        "found:",
        f"%value.at = getelementptr double, ptr %results, i64 {entry}",
        "%value = load double, ptr %value.at",
        *kind.found,
        "failed:",
        kind.failed,
        "}",
    ]
    return Library(Code(((compile_ir(in_module(lines)), ()),), (), {}), ("callback",), {})
