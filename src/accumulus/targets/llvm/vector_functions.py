"""The elementary functions that a module may contain, on vectors of doubles: see `mathematics` for the algorithms.

They serve where a processor has fused multiply-add, also where there is no vector library, and always give the same
bits. Sine and cosine of one angle are one call. A lane that an algorithm is not for is computed by the C library's
scalar function, in code that is rarely reached, so that special values are the C library's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from accumulus.targets.llvm import mathematics

__all__ = ["VECTOR_FUNCTIONS", "VectorFunction", "definition", "patch"]


Algorithm = Callable[[mathematics.Writer], mathematics.Results]


@dataclass(frozen=True, slots=True)
class VectorFunction:
    """One function of the module.

    Attributes:
        name: in the module.
        arity: number of arguments, %x and %y.
        scalars: the C library's functions for its results.
        write: writes the fast path; results, and a mask of the lanes that it is not for, None if there are none.
        calls: others that it calls.
    """

    name: str
    arity: int
    scalars: tuple[str, ...]
    write: Algorithm
    calls: tuple[VectorFunction, ...] = ()

    def result_type(self, lanes: int) -> str:
        """LLVM's type of what it returns."""
        vector = f"<{lanes} x double>"
        return vector if len(self.scalars) == 1 else f"{{ {', '.join([vector] * len(self.scalars))} }}"


def _single(
    name: str, arity: int, write: Callable[[mathematics.Writer], mathematics.Results]
) -> tuple[VectorFunction, int]:
    return VectorFunction(f"accumulus_{name}", arity, (name,), write), 0


_SINCOS: Final = VectorFunction("accumulus_sincos", 1, ("sin", "cos"), mathematics.sincos)
#: Function of the C library → the vector function, and which of its results it is.
VECTOR_FUNCTIONS: Final[dict[str, tuple[VectorFunction, int]]] = {
    "sin": (_SINCOS, 0),
    "cos": (_SINCOS, 1),
    "exp": _single("exp", 1, mathematics.exp),
    "log": _single("log", 1, mathematics.log),
    "pow": _single("pow", 2, mathematics.power),
    "tanh": _single("tanh", 1, mathematics.tanh),
    "asin": _single("asin", 1, mathematics.asin),
    "acos": _single("acos", 1, mathematics.acos),
    "atan": _single("atan", 1, mathematics.atan),
    "atan2": _single("atan2", 2, mathematics.atan2),
    "fmod": _single("fmod", 2, mathematics.fmod),
}
_PATCH_NAMES: Final = {1: "accumulus_patch", 2: "accumulus_patch2"}


@cache
def definition(function: VectorFunction, lanes: int, linkage: str = "internal ") -> str:
    """LLVM IR of the function and of its constants."""
    w = mathematics.Writer(lanes, f"{function.name}_table")
    results, unfit = function.write(w)
    kind = function.result_type(lanes)
    names = ["%x", "%y"][: function.arity]
    arguments = ", ".join(f"{w.reals} {name}" for name in names)
    if unfit is not None:
        mask = w.let(f"bitcast <{lanes} x i1> {unfit} to i{lanes}")
        some = w.let(f"icmp ne i{lanes} {mask}, 0")
        w.lines.append(f"  br i1 {some}, label %rare, label %done, !prof !0\nrare:")
        wide = w.let(f"zext i{lanes} {mask} to i32")
        patched = [
            w.let(
                f"call {w.reals} @{_PATCH_NAMES[function.arity]}"
                f"({arguments}, {w.reals} {result}, i32 {wide}, ptr @{scalar})"
            )
            for result, scalar in zip(results, function.scalars, strict=True)
        ]
        w.lines.append("  br label %done\ndone:")
        results = tuple(
            w.let(f"phi {w.reals} [ {result}, %entry ], [ {fixed}, %rare ]")
            for result, fixed in zip(results, patched, strict=True)
        )
    if len(results) == 1:
        w.lines.append(f"  ret {kind} {results[0]}")
    else:
        value = "poison"
        for i, result in enumerate(results):
            value = w.let(f"insertvalue {kind} {value}, {w.reals} {result}, {i}")
        w.lines.append(f"  ret {kind} {value}")
    head = f"define {linkage}{kind} @{function.name}({arguments}) nounwind noinline {{\nentry:"
    return "\n".join([w.table_definition(), head, *w.lines, "}"])


@cache
def patch(arity: int, lanes: int) -> str:
    """LLVM IR of the function that recomputes the lanes of a mask with a scalar function."""
    vector = f"<{lanes} x double>"
    names = ["x", "y"][:arity]
    lines = [
        f"define internal {vector} @{_PATCH_NAMES[arity]}"
        f"({''.join(f'{vector} %{name}, ' for name in names)}{vector} %fast, i32 %mask, ptr %scalar) "
        "nounwind noinline cold {",
        "entry:",
        *(f"  %{name}s = alloca {vector}" for name in (*names, "result")),
        *(f"  store {vector} %{name}, ptr %{name}s" for name in names),
        f"  store {vector} %fast, ptr %results",
        "  br label %lane",
        "lane:",
        "  %k = phi i32 [ 0, %entry ], [ %after, %next ]",
        "  %shifted = lshr i32 %mask, %k",
        "  %wanted = trunc i32 %shifted to i1",
        "  br i1 %wanted, label %compute, label %next",
        "compute:",
        *(
            f"  %{name}p = getelementptr double, ptr %{name}s, i32 %k\n  %{name}k = load double, ptr %{name}p"
            for name in names
        ),
        f"  %value = call double %scalar({', '.join(f'double %{name}k' for name in names)})",
        "  %to = getelementptr double, ptr %results, i32 %k",
        "  store double %value, ptr %to",
        "  br label %next",
        "next:",
        "  %after = add i32 %k, 1",
        f"  %more = icmp ult i32 %after, {lanes}",
        "  br i1 %more, label %lane, label %end",
        "end:",
        f"  %all = load {vector}, ptr %results",
        f"  ret {vector} %all",
        "}",
    ]
    return "\n".join(lines)
