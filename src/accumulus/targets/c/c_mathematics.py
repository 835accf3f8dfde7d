"""The functions that a C program calls: those of the C library, as vectors where it has them, and some of its own.

What C99 does not have is computed by the formulas of `accumulus.targets.llvm.special_functions`, written as C.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from accumulus.targets.c.c_expressions import literal
from accumulus.targets.llvm.mathematics import Writer
from accumulus.targets.llvm.special_functions import SPECIAL_FUNCTIONS

__all__ = ["CWriter", "Mathematics", "definition"]

#: Vector functions of glibc from 2.22 and from 2.35 on, by their number of arguments.
_EARLY: Final = {"sin": 1, "cos": 1, "exp": 1, "log": 1, "pow": 2}
# fmt: off
_LATE: Final = {
    "tan": 1, "asin": 1, "acos": 1, "atan": 1, "sinh": 1, "cosh": 1, "tanh": 1, "asinh": 1, "acosh": 1, "atanh": 1,
    "cbrt": 1, "erf": 1, "erfc": 1, "exp2": 1, "expm1": 1, "log2": 1, "log10": 1, "log1p": 1, "atan2": 2, "hypot": 2,
}
# fmt: on
#: Functions that POSIX has, and C99 has not.
_OF_POSIX: Final = frozenset(("j0", "j1", "y0", "y1", "jn", "yn"))


class CWriter(Writer):
    """Statements of one function of doubles; each method returns a name, or a number."""

    arguments = ("x", "y")

    def __init__(self, multiply_add: str) -> None:
        super().__init__(1, "")
        self._multiply_add = multiply_add

    def real(self, value: float) -> str:
        """A number."""
        return literal(value, "float64")

    def let(self, text: str) -> str:
        """Write one statement."""
        return self._named("double", text)

    def _named(self, kind: str, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {kind} {name} = {text};")
        return name

    def binary(self, operation: str, a: str | float, b: str | float) -> str:
        """An operation with two operands."""
        sign = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}[operation]
        return self.let(f"{self.operand(a)} {sign} {self.operand(b)}")

    def comparison(self, predicate: str, a: str | float, b: str | float) -> str:
        """A truth value."""
        sign = {"olt": "<", "ole": "<=", "ogt": ">", "oge": ">=", "oeq": "=="}[predicate]
        return self._named("int", f"{self.operand(a)} {sign} {self.operand(b)}")

    def either(self, a: str, b: str) -> str:
        """Where one or the other holds."""
        return self._named("int", f"{a} | {b}")

    def minus(self, a: str) -> str:
        """-a."""
        return self.let(f"-{a}")

    def call(self, intrinsic: str, *arguments: str | float) -> str:
        """A function that the C library has."""
        return self.let(f"{intrinsic}({', '.join(map(self.operand, arguments))})")

    def function(self, name: str, *arguments: str) -> str:
        """An elementary function of the C library."""
        return self.let(f"{name}({', '.join(arguments)})")

    def select(self, mask: str, a: str | float, b: str | float) -> str:
        """a where the mask holds, else b."""
        return self.let(f"{mask} ? {self.operand(a)} : {self.operand(b)}")

    def polynomial(self, z: str, coefficients: Sequence[float]) -> str:
        """Value at z; even and odd powers apart, so that two chains run at once."""
        square = self.multiply(z, z)
        even, odd = (self._horner(square, half) for half in (coefficients[::2], coefficients[1::2]))
        return self.let(f"{self._multiply_add}({z}, {odd}, {even})")

    def _horner(self, z: str, coefficients: Sequence[float]) -> str:
        value = self.real(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = self.let(f"{self._multiply_add}({z}, {value}, {self.real(coefficient)})")
        return value


def definition(head: str, name: str, multiply_add: str) -> str:
    """A special function of doubles; `head` is what its name and its arguments are put behind."""
    function = SPECIAL_FUNCTIONS[name]
    w = CWriter(multiply_add)
    (result,), _ = function.write(w)
    arguments = ", ".join(f"double {each}" for each in w.arguments[: function.arity])
    lines = [f"    {line}" for line in _used(w.lines, result)]
    return "\n".join([f"{head}({arguments}) {{", *lines, f"    return {result};", "}\n"])


def _used(lines: Sequence[str], result: str) -> list[str]:
    """The statements that the result needs: formulas share functions that compute more than one of them needs."""
    needed, found = {result}, []
    for line in reversed(lines):
        name, *others = re.findall(r"\bv\d+\b", line)
        if name in needed:
            needed.update(others)
            found.append(line)
    return found[::-1]


class Mathematics:
    """What a program calls, noted as it is written, and the text that has to come before it.

    Args:
        name: of the program; names begin with it.
        dtype: of its numbers.
    """

    #: The type of truth values.
    truth = "_Bool"

    def __init__(self, name: str, dtype: str) -> None:
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
        if function in _EARLY or function in _LATE:
            self._called[function] = None
            return f"{self._name}_{function}"
        if function in _OF_POSIX:
            self._called[function] = None
            return f"({self.real}){function}" if self._suffix else function
        return f"{function}{self._suffix}"

    @property
    def real(self) -> str:
        """The type of numbers."""
        return "float" if self._suffix else "double"

    def prelude(self) -> list[str]:
        """What comes before the program."""
        macro = self._macro
        posix = ["#ifndef _XOPEN_SOURCE", "#define _XOPEN_SOURCE 600  /* Bessel functions */", "#endif"]
        posix = posix if any(function in _OF_POSIX for function in self._called) else []
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
            "#ifdef __clang__",
            f'#define {macro}_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")',
            "#else",
            f'#define {macro}_INDEPENDENT _Pragma("GCC ivdep")',
            "#endif",
            "#else",
            f"#define {macro}_INDEPENDENT",
            f"#define {macro}_INLINE static inline",
            f"#define {macro}_APART static",
            "#endif",
            "",
            "/* a * b + c, rounded once where the processor can do that quickly */",
            f"#ifdef FP_FAST_FMA{self._suffix.upper()}",
            f"#define {self.multiply_add}(a, b, c) fma{self._suffix}(a, b, c)",
            "#else",
            f"#define {self.multiply_add}(a, b, c) ((a) * (b) + (c))",
            "#endif",
            "",
            *self._vectors(),
            *self._own(),
        ]

    def _vectors(self) -> list[str]:
        """The functions of the C library that loops over points call, under names of the program."""
        called = [function for function in (*_EARLY, *_LATE) if function in self._called]
        if not called:
            return []
        macro, name, real, suffix = self._macro, self._name, self.real, self._suffix
        lines = [
            "/* glibc's functions on vectors, which gcc takes in loops where it is told of them. */",
            "#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)",
            f'#define {macro}_VECTOR(f) __asm__(#f) __attribute__((simd("notinbranch"), const, nothrow))',
        ]
        for known, version in ((_EARLY, "2, 22"), (_LATE, "2, 35")):
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
