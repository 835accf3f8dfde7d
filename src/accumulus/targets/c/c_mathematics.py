"""The functions that a C program calls: those of the C library, as vectors where it has them, and some of its own.

What C99 does not have is computed by the formulas of `accumulus.targets.llvm.special_functions`, written as C.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from accumulus.tape.operations import OPERATIONS
from accumulus.targets.c.c_elementary import ELEMENTARY, definitions
from accumulus.targets.c.c_writer import CWriter
from accumulus.targets.llvm.special_functions import OF_POSIX, SPECIAL_FUNCTIONS

__all__ = ["Mathematics", "definition"]

#: Functions that glibc has for vectors, by the version of it that first has them.
_FOR_VECTORS: Final = {
    version: {row.c: row.arity for row in OPERATIONS if row.glibc == version}
    for version in sorted({row.glibc for row in OPERATIONS} - {""})
}


def definition(head: str, name: str, multiply_add: str) -> str:
    """A special function of doubles; `head` is what its name and its arguments are put behind."""
    function = SPECIAL_FUNCTIONS[name]
    w = CWriter(multiply_add)
    (result,), _ = function.write(w)
    arguments = ", ".join(f"double {each}" for each in w.arguments[: function.arity])
    lines = [f"    {line}" for line in w.needed(result)]
    return "\n".join([f"{head}({arguments}) {{", *lines, f"    return {result};", "}\n"])


class Mathematics:
    """What a program calls, noted as it is written, and the text that has to come before it.

    Args:
        name: of the program; names begin with it.
        dtype: of its numbers.
        in_tiles: whether what calls them is in loops over S points that have a mask ``unfit``.
    """

    #: The type of truth values.
    truth = "_Bool"

    def __init__(self, name: str, dtype: str, *, in_tiles: bool = False) -> None:
        self._in_tiles = in_tiles and dtype == "float64"
        self._name, self._macro, self._dtype = name, name.upper(), dtype
        self._suffix = "f" if dtype == "float32" else ""
        self.multiply_add = f"{self._macro}_MADD"
        self._called: dict[str, None] = {}
        self._special: dict[str, None] = {}

    def function(self, function: str) -> str:
        """What a function is called in the program."""
        if function in SPECIAL_FUNCTIONS:
            self._special[function] = None
            return f"{self._name}_{function}"
        if any(function in known for known in _FOR_VECTORS.values()):
            self._called[function] = None
            return f"{self._name}_{function}"
        if function in OF_POSIX:
            self._called[function] = None
            return f"({self.real}){function}" if self._suffix else function
        return f"{function}{self._suffix}"

    @property
    def elementary(self) -> list[str]:
        """Functions among those called that are the program's own in tiles."""
        return [function for function in ELEMENTARY if function in self._called] if self._in_tiles else []

    @property
    def real(self) -> str:
        """The type of numbers."""
        return "float" if self._suffix else "double"

    def prelude(self) -> list[str]:
        """What comes before the program."""
        macro = self._macro
        posix = ["#ifndef _XOPEN_SOURCE", "#define _XOPEN_SOURCE 600  /* Bessel functions */", "#endif"]
        posix = posix if any(function in OF_POSIX for function in self._called) else []
        return [
            *posix,
            "#include <math.h>",
            "",
            "#if defined(__clang__) || !defined(__GNUC__)",
            "#pragma STDC FP_CONTRACT OFF",
            "#endif",
            "",
            "#ifdef __GNUC__",
            f"#define {macro}_INLINE static inline __attribute__((always_inline, unused))",
            f"#define {macro}_APART static __attribute__((noinline))",
            f"#define {macro}_ALIGNED __attribute__((aligned(64)))  /* as whole vectors are stored quickly */",
            "#ifdef __clang__",
            f'#define {macro}_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")',
            "#else",
            f'#define {macro}_INDEPENDENT _Pragma("GCC ivdep")',
            "#endif",
            "#else",
            f"#define {macro}_INDEPENDENT",
            f"#define {macro}_INLINE static inline",
            f"#define {macro}_APART static",
            f"#define {macro}_ALIGNED",
            "#endif",
            "",
            "/* a * b + c, rounded once where the processor can do that quickly */",
            f"#ifdef FP_FAST_FMA{self._suffix.upper()}",
            f"#define {self.multiply_add}(a, b, c) fma{self._suffix}(a, b, c)",
            "#else",
            f"#define {self.multiply_add}(a, b, c) ((a) * (b) + (c))",
            "#endif",
            "",
            *self._elementary(),
            *self._vectors([function for function in self._called if function not in self.elementary]),
            *self._own(),
        ]

    def _elementary(self) -> list[str]:
        """Elementary functions of tiles: the program's own, or those of the C library."""
        if not self.elementary:
            return []
        own = definitions(self._name, f"{self._macro}_INLINE", self.elementary)
        return [
            "#include <stdint.h>",
            "",
            "#ifdef FP_FAST_FMA",
            *own,
            "#else",
            *self._vectors(self.elementary),
            "#endif",
            "",
        ]

    def _vectors(self, functions: Collection[str]) -> list[str]:
        """The functions of the C library that loops over points call, under names of the program."""
        called = [function for known in _FOR_VECTORS.values() for function in known if function in functions]
        if not called:
            return []
        macro, name, real, suffix = self._macro, self._name, self.real, self._suffix
        lines = [
            "/* glibc's functions on vectors, which gcc takes in loops where it is told of them. */",
            "#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)",
            f'#define {macro}_VECTOR(f) __asm__(#f) __attribute__((simd("notinbranch"), const, nothrow))',
        ]
        for version, known in _FOR_VECTORS.items():
            chosen = [function for function in called if function in known]
            if not chosen:
                continue
            lines.append(f"#if __GLIBC_PREREQ({version})")
            for function in chosen:
                kinds = ", ".join([real] * known[function])
                lines.append(f"extern {real} {name}_{function}({kinds}) {macro}_VECTOR({function}{suffix});")
            lines.append("#else")
            lines += [f"#define {name}_{function} {function}{suffix}" for function in chosen]
            lines.append("#endif")
        return [
            *lines,
            "#else",
            *(f"#define {name}_{function} {function}{suffix}" for function in called),
            "#endif",
            "",
        ]

    def _own(self) -> list[str]:
        """What the C library does not have."""
        lines = []
        if self._special and self._suffix:
            multiply_add = f"{self.multiply_add}_DOUBLE"
            lines += [
                "#ifdef FP_FAST_FMA",
                f"#define {multiply_add}(a, b, c) fma(a, b, c)",
                "#else",
                f"#define {multiply_add}(a, b, c) ((a) * (b) + (c))",
                "#endif",
                "",
            ]
        else:
            multiply_add = self.multiply_add
        for function in self._special:
            own = f"{self._name}_{function}"
            if not self._suffix:
                lines.append(definition(f"static inline double {own}", function, multiply_add))
                continue
            lines.append(definition(f"static inline double {own}_double", function, multiply_add))
            arguments = ("x", "y")[: SPECIAL_FUNCTIONS[function].arity]
            lines += [
                f"static inline float {own}({', '.join(f'float {each}' for each in arguments)}) {{",
                f"    return (float){own}_double({', '.join(f'(double){each}' for each in arguments)});",
                "}\n",
            ]
        return lines
