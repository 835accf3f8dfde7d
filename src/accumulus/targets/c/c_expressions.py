"""Bodies in languages with C's expressions (C, CUDA): operations as expressions, statements, and functions.

A product that is used by one sum only is written as a fused operation; the compiler itself fuses nothing. So operations
that must be rounded separately are, and everything else is as fast as the machine allows.

Programs call functions of the C library, in vector form where it has them, and functions of their own. The latter use
the formulas that `accumulus.targets.llvm` writes as vector instructions, here as statements for one number.
`special_functions` has formulas for functions that C99 lacks.

In tiles, the program defines elementary functions itself, by the algorithms of `mathematics`. Loops over points with
these become vector instructions with any C library, and take half the time of glibc's vector functions; sine and cosine
of one angle share their common steps. Points that an algorithm does not cover are recorded in a mask, ``unfit``. The
tile is then recomputed point by point by the C library's functions. These definitions are compiled only under
``FP_FAST_FMA``, since they need fused products and sums.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from accumulus.errors import CompileError
from accumulus.tape.live import as_written
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.c.c_header import Result, function_text
from accumulus.targets.kernel import Segment
from accumulus.targets.llvm.mathematics import VECTOR_FUNCTIONS, Writer
from accumulus.targets.llvm.special_functions import OF_ORDER, OF_POSIX, SPECIAL_FUNCTIONS
from accumulus.targets.schedule import Fused, ResultGroup, Stretch, cut, fusible, groups, order

# Expressions ----------------------------------------------------------------------------------------------------------


def literal(value: float, dtype: str) -> str:
    """Return a number as a C literal of the program's type, in parentheses if it is negative."""
    with np.errstate(over="ignore"):
        number = np.dtype(dtype).type(value)
    if math.isnan(number):
        return "NAN"
    text = "INFINITY" if math.isinf(number) else _digits(str(abs(number)), dtype)
    return f"(-{text})" if math.copysign(1.0, number) < 0 else text


def _digits(text: str, dtype: str) -> str:
    if not re.search(r"[.e]", text):
        text += ".0"
    return text + ("f" if dtype == "float32" else "")


class Expressions:
    """Writer of expressions of one type.

    Args:
        tape: the program.
        mathematics: functions of the program.
        fused: fused products by their sums, see `fusible`.
    """

    def __init__(self, tape: Tape, mathematics: Mathematics, fused: Mapping[int, Fused]) -> None:
        self._tape, self._mathematics, self._fused = tape, mathematics, fused
        self._dtype = mathematics.dtype

    def value(self, reference: int) -> str:
        """Return the name of a value, or a number."""
        if reference < 0:
            return literal(self._tape.constants[-1 - reference], self._dtype)
        return f"x{reference}" if reference < self._tape.inputs else f"t{reference}"

    def operation(self, reference: int) -> str:
        """Return the expression of an operation."""
        tape = self._tape
        fused = self._fused.get(reference)
        if fused is not None:
            return self._sum_with_product(reference, fused)
        row = OPERATIONS[tape.codes[reference]]
        arguments = [self.value(argument) for argument in tape.arguments(reference)]
        if row.llvm in ("llvm.minimum", "llvm.maximum"):
            return self._extremum(reference, "<" if row.llvm == "llvm.minimum" else ">")
        if "{0}" in row.c:
            return row.c.format(*arguments, zero=literal(0.0, self._dtype), one=literal(1.0, self._dtype))
        if row.is_scipys:
            raise CompileError(
                f"only SciPy has the function {row.numpy.partition('(')[0].replace('special', 'scipy.special')}: it "
                "cannot be written in C or CUDA, or shipped; expected target='llvm' or 'numpy'"
            )
        if not row.c:
            raise CompileError(
                f"C99 has no function {row.llvm.removeprefix('@')}, by which the operation {row.name} is computed; "
                "expected one of math.h, or of targets/llvm/special_functions.py"
            )
        if row.c in OF_ORDER:
            arguments[0] = f"(int){arguments[0]}"
        return f"{self._mathematics.function(row.c)}({', '.join(arguments)})"

    def _sum_with_product(self, reference: int, fused: Fused) -> str:
        tape = self._tape
        a, b = map(self.value, tape.arguments(fused.product))
        other = self.value(tape.second[reference] if fused.first else tape.first[reference])
        if OPERATIONS[tape.codes[reference]].name == "subtract":
            if fused.first:
                other = f"-{other}"
            else:
                a = f"-{a}"
        return f"{self._mathematics.multiply_add}({a}, {b}, {other})"

    def _extremum(self, reference: int, sign: str) -> str:
        # as in NumPy, the result is NaN if either argument is
        first, second = self._tape.arguments(reference)
        a, b = self.value(first), self.value(second)
        chosen = f"{a} {sign} {b} ? {a} : {b}"
        if first < 0:
            return a if a == "NAN" else chosen
        return f"{a} != {a} ? {a} : ({chosen})"


# Statements -----------------------------------------------------------------------------------------------------------


class WrittenBody:
    """A tape's operations and results in C's order, with products fused with sums, cut into functions.

    Args:
        tape: the operations.
        inputs: array and entry of each input.
        results: arrays to write the stored entries to; zeros are written separately.
        mathematics: functions of the program.
        exact: operations that must be rounded separately, besides operations that reach a jump.
        sensitive: number of leading outputs that are computed operation by operation as recorded.
        longest: largest number of operations and stores of a function; by default there is one function.

    Attributes:
        parts: parts of the body, one for each function.
        slots: largest number of values at a time that parts pass to later ones.
    """

    def __init__(
        self,
        tape: Tape,
        inputs: Sequence[tuple[str, int]],
        results: Sequence[Result],
        mathematics: Mathematics,
        *,
        exact: Collection[int] = (),
        sensitive: int = 0,
        longest: int = sys.maxsize,
    ) -> None:
        self._tape, self._inputs, self._results, self._mathematics = tape, inputs, results, mathematics
        stored = [Segment(len(r.outputs), tuple(r.outputs), tuple(range(len(r.outputs)))) for r in results]
        steps = list(order(tape, groups(tape, stored, 1)))
        rounded = np.flatnonzero(np.frombuffer(as_written(tape, sensitive), np.uint8)[tape.inputs :]) + tape.inputs
        self._fused = fusible(tape, steps, {*rounded.tolist(), *exact})
        all_parts, self.slots = cut(tape, steps, longest, 1)
        self.parts = [part for part in all_parts if part.steps]

    def statements(
        self,
        part: Stretch,
        at: Callable[[str, int], str],
        store: Callable[[Result, int, str], Iterable[str]] | None = None,
    ) -> tuple[list[str], set[str]]:
        """Return the statements of a part, and the arrays that they need.

        Args:
            part: part of the program.
            at: function that returns the position of a row in an array, or in the frame.
            store: function that returns the statements that store an entry, given the array, the number of the entry
                among the stored ones, and the value. Entries come in the order of the array, one array after the
                other. By default the value is assigned to the position of its row.
        """
        tape, slots, mathematics = self._tape, part.slots, self._mathematics
        here = {step for step in part.steps if not isinstance(step, ResultGroup)}
        within = {s: f for s, f in self._fused.items() if s in here and f.product in here}
        left_out = {f.product for f in within.values()}
        write = Expressions(tape, mathematics, within)
        zero, one = literal(0.0, mathematics.dtype), literal(1.0, mathematics.dtype)
        angles = {
            (tape.first[step], OPERATIONS[tape.codes[step]].name): step
            for step in here
            if mathematics.sincos and OPERATIONS[tape.codes[step]].name in ("sin", "cos")
        }
        lines: list[str] = []
        declared: set[int] = set()
        used: set[str] = set()

        def declare(reference: int, text: str) -> None:
            kind = mathematics.truth if tape.is_boolean(reference) else mathematics.real
            lines.append(f"const {kind} {write.value(reference)} = {text};")
            declared.add(reference)

        def declare_both(step: int) -> bool:
            """Declare the sine and cosine of one angle by one call, if there is a function for both."""
            name = OPERATIONS[tape.codes[step]].name
            other = angles.get((tape.first[step], {"sin": "cos", "cos": "sin"}.get(name, "")))
            if other is None:
                return False
            sine, cosine = map(write.value, (step, other) if name == "sin" else (other, step))
            lines.append(f"{mathematics.real} {sine}, {cosine};")
            lines.append(f"{mathematics.sincos}({write.value(tape.first[step])}, &{sine}, &{cosine});")
            declared.update((step, other))
            return True

        def need(reference: int) -> None:
            """Load an input, or a value of another part, at its first use; truth values are stored as numbers."""
            if reference < 0 or reference in declared:
                return
            array, row = self._inputs[reference] if reference < tape.inputs else ("frame", slots[reference])
            used.add(array)
            declare(reference, f"{at(array, row)} != {zero}" if tape.is_boolean(reference) else at(array, row))

        for step in part.steps:
            if isinstance(step, ResultGroup):
                (reference,) = step.references
                assert reference is not None
                need(reference)
                result = self._results[step.segment]
                used.add(result.name)
                if store is None:
                    lines.append(f"{at(result.name, result.row(step.start))} = {write.value(reference)};")
                else:
                    lines += store(result, step.start, write.value(reference))
            elif step not in left_out:
                arguments = tape.arguments(step)
                if step in within:
                    product = within[step].product
                    arguments = (*(a for a in arguments if a != product), *tape.arguments(product))
                for argument in arguments:
                    need(argument)
                if step not in declared and not declare_both(step):
                    declare(step, write.operation(step))
                if step in slots:
                    used.add("frame")
                    value = f"t{step} ? {one} : {zero}" if tape.is_boolean(step) else f"t{step}"
                    lines.append(f"{at('frame', slots[step])} = {value};")
        return lines, used


# Formulas as statements -----------------------------------------------------------------------------------------------


class CWriter(Writer):
    """Writer of the statements of one function of doubles; each method returns a name, or a number."""

    arguments = ("x", "y")

    def __init__(self, multiply_add: str) -> None:
        super().__init__(1, "")
        self._multiply_add = multiply_add

    def real(self, value: float) -> str:
        """Return a number."""
        return literal(value, "float64")

    def let(self, text: str) -> str:
        """Write a statement that defines a value, and return its name."""
        return self._named("double", text)

    def _named(self, kind: str, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {kind} {name} = {text};")
        return name

    def binary(self, operation: str, a: str | float, b: str | float) -> str:
        """Return the result of an operation with two operands."""
        sign = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}[operation]
        return self.let(f"{self.operand(a)} {sign} {self.operand(b)}")

    def comparison(self, predicate: str, a: str | float, b: str | float) -> str:
        """Return the truth value of a comparison."""
        sign = {"olt": "<", "ole": "<=", "ogt": ">", "oge": ">=", "oeq": "=="}[predicate]
        return self._named("int", f"{self.operand(a)} {sign} {self.operand(b)}")

    def either(self, a: str, b: str) -> str:
        """Return True where one or the other mask holds."""
        return self._named("int", f"{a} | {b}")

    def minus(self, a: str) -> str:
        """Return -a."""
        return self.let(f"-{a}")

    def call(self, intrinsic: str, *arguments: str | float) -> str:
        """Return the result of a function of the C library."""
        return self.let(f"{intrinsic}({', '.join(map(self.operand, arguments))})")

    def function(self, name: str, *arguments: str) -> str:
        """Return the result of an elementary function of the C library."""
        return self.let(f"{name}({', '.join(arguments)})")

    def select(self, mask: str, a: str | float, b: str | float) -> str:
        """Return a where the mask holds, else b."""
        return self.let(f"{mask} ? {self.operand(a)} : {self.operand(b)}")

    def multiply_add(self, a: str, b: str | float, c: str | float) -> str:
        """Return a · b + c, fused where that is fast."""
        return self.let(f"{self._multiply_add}({', '.join(map(self.operand, (a, b, c)))})")

    def needed(self, *results: str) -> list[str]:
        """Return the statements that results need; formulas share functions that compute several values."""
        needed, statements = set(results), []
        for line in reversed(self.lines):
            name, *operands = re.findall(r"\bv\d+\b", line)
            if name in needed:
                needed.update(operands)
                statements.append(line)
        return statements[::-1]


# Elementary functions of tiles ----------------------------------------------------------------------------------------

#: Functions of the C library, with their number of arguments; the library's fmod is faster.
ELEMENTARY: Final = {name: function.arity for name, (function, _) in VECTOR_FUNCTIONS.items() if name != "fmod"}

_BITS: Final = """\
INLINE uint64_t NAME_bits(double x) {
    union { double number; uint64_t bits; } both;
    both.number = x;
    return both.bits;
}

INLINE double NAME_number(uint64_t bits) {
    union { double number; uint64_t bits; } both;
    both.bits = bits;
    return both.number;
}
"""


#: Power of a negative number, from the power of its magnitude; the sign depends on the parity of the exponent.
_OF_NEGATIVE: Final = "negative ? (trunc(y) != y ? NAN : trunc(0.5 * y) != 0.5 * y ? -{0} : {0}) : {0}"


class _ElementaryWriter(CWriter):
    """Writer of statements that also access the bits of numbers."""

    zero = "0.0"

    def __init__(self, name: str) -> None:
        super().__init__("fma")
        self._name = name

    def comparison(self, predicate: str, a: str | float, b: str | float) -> str:
        """Return the truth value of a comparison; predicates that begin with u hold for NaN."""
        opposite = {"ugt": "<=", "uge": "<", "ult": ">="}.get(predicate)
        if opposite is None:
            return super().comparison(predicate, a, b)
        return self._named("int", f"!({self.operand(a)} {opposite} {self.operand(b)})")

    # Masks of points that an algorithm does not cover, as integers 0 or 1, computed from bits: magnitudes have the
    # order of their bits, with NaN above all. Compilers do not vectorise loops that combine many truth values.

    def beyond(self, x: str, limit: float) -> str:
        """Return a mask of |x| > limit, NaN included."""
        return self._above(self.bits(self.call("fabs", x)), self.whole(_bits(limit)))

    def below(self, x: str, limit: float) -> str:
        """Return a mask of x < limit, for numbers that are not negative."""
        return self._above(self.whole(_bits(limit)), self.bits(x))

    def not_normal_and_positive(self, x: str) -> str:
        """Return a mask of numbers that are negative, zero, denormal, infinite or NaN."""
        above = self.integer("sub", self.bits(x), _bits(2.0**-1022))
        above_normal = self.integer("sub", self.whole(_bits(math.inf) - _bits(2.0**-1022) - 1), above)
        return self.integer("lshr", self.integer("or", above, above_normal), 63)

    def unordered(self, a: str, b: str) -> str:
        """Return a mask that holds if either number is NaN."""
        return self.either(self.beyond(a, math.inf), self.beyond(b, math.inf))

    def either(self, a: str, b: str) -> str:
        """Return a mask that holds if either mask does."""
        return self.integer("or", a, b)

    def _above(self, a: str, b: str) -> str:
        """Return a mask of a > b, for integers below 2⁶³."""
        return self.integer("lshr", self.integer("sub", b, a), 63)

    def fused(self, a: str, b: str | float, c: str | float) -> str:
        """Return a · b + c, rounded once."""
        return self.call("fma", a, b, c)

    def whole(self, value: int) -> str:
        """Return an integer literal."""
        return f"UINT64_C({value % 2**64})"

    def bits(self, a: str) -> str:
        """Return the bits of a number."""
        return self._named("uint64_t", f"{self._name}_bits({a})")

    def number(self, bits: str) -> str:
        """Return the number with these bits."""
        return self.let(f"{self._name}_number({bits})")

    def integer(self, operation: str, a: str, b: str | int) -> str:
        """Return the result of an operation on integers."""
        signs = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "shl": "<<", "lshr": ">>"}
        other = b if isinstance(b, str) else str(b) if operation in ("shl", "lshr") else self.whole(b)
        return self._named("uint64_t", f"{a} {signs[operation]} {other}")

    def negative(self, bits: str) -> str:
        """Return True if the first bit is set."""
        return self._named("int", f"({bits} >> 63) != 0")


def _bits(value: float) -> int:
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return int(bits)


def definitions(name: str, inline: str, functions: Collection[str]) -> list[str]:
    """Return C definitions of a program's elementary functions, named after the program and the C library's function.

    They are called in a loop over S points, for one point, with a variable ``unfit``.
    """
    texts = [_BITS.replace("INLINE", inline).replace("NAME", name)]
    for each in functions:
        function, which = VECTOR_FUNCTIONS[each]
        w = _ElementaryWriter(name)
        results, unfit = function.write(w)
        result = results[which]
        arguments = w.arguments[: function.arity]
        lines = [f"if (S == 1) return {each}({', '.join(arguments)});"]
        if each == "pow":  # the algorithm covers positive numbers
            lines += ["const int negative = x < 0.0;", "x = fabs(x);"]
        lines += w.needed(*([result] if unfit is None else [result, unfit]))
        lines += ["(void)unfit;"] if unfit is None else [f"*unfit |= {unfit};"]
        parameters = ", ".join([*(f"double {x}" for x in arguments), "ptrdiff_t S", "uint64_t *unfit"])
        returned = _OF_NEGATIVE.format(result) if each == "pow" else result
        head = f"{inline} double {name}_own_{each}({parameters})"
        texts.append(function_text(head, [*lines, f"return {returned};"]))
        texts.append(
            f"#define {name}_{each}({', '.join(arguments)}) {name}_own_{each}({', '.join(arguments)}, S, &unfit)\n"
        )
    return texts


# Functions that a program calls ---------------------------------------------------------------------------------------

#: Functions that glibc has in vector form, by the first version with them.
_FOR_VECTORS: Final = {
    version: {row.c: row.arity for row in OPERATIONS if row.glibc == version}
    for version in sorted({row.glibc for row in OPERATIONS} - {""})
}


def function_definition(head: str, name: str, multiply_add: str) -> str:
    """Return the definition of a special function of doubles; `head` precedes its arguments."""
    function = SPECIAL_FUNCTIONS[name]
    w = CWriter(multiply_add)
    (result,), _ = function.write(w)
    arguments = ", ".join(f"double {each}" for each in w.arguments[: function.arity])
    return function_text(f"{head}({arguments})", [*w.needed(result), f"return {result};"])


class Mathematics:
    """Functions that a program calls, recorded while it is written, with their declarations and definitions.

    Args:
        name: name of the program, and prefix of all names.
        dtype: dtype of its numbers.
        in_tiles: True if calls are in loops over S points with a mask ``unfit``.
    """

    #: Type of truth values.
    truth = "_Bool"
    #: Qualifiers of special functions, and conversion of a single-precision argument for a function of doubles.
    qualifier = "static inline"
    widened = "(double){}"
    #: Function that computes the sine and the cosine of an angle; empty if there is none.
    sincos = ""

    def __init__(self, name: str, dtype: str, *, in_tiles: bool = False) -> None:
        self._in_tiles = in_tiles and dtype == "float64"
        self._name, self._macro, self.dtype = name, name.upper(), dtype
        self._suffix = "f" if dtype == "float32" else ""
        self.multiply_add = f"{self._macro}_MADD"
        self._called: dict[str, None] = {}
        self._special: dict[str, None] = {}

    def function(self, function: str) -> str:
        """Return the name of a function in the program, and record its use."""
        if function in SPECIAL_FUNCTIONS:
            self._special[function] = None
            return f"{self._name}_{function}"
        if any(function in arities for arities in _FOR_VECTORS.values()):
            self._called[function] = None
            return f"{self._name}_{function}"
        if function in OF_POSIX:
            self._called[function] = None
            return f"({self.real}){function}" if self._suffix else function
        return f"{function}{self._suffix}"

    @property
    def elementary(self) -> list[str]:
        """Called functions that the program defines itself in tiles."""
        return [function for function in ELEMENTARY if function in self._called] if self._in_tiles else []

    @property
    def real(self) -> str:
        """Type of numbers."""
        return "float" if self._suffix else "double"

    def prelude(self) -> list[str]:
        """Return the text before the program."""
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
            "/* gcc takes some permutations of eight doubles for others, where it forms vectors of operations */",
            "#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)",
            '#pragma GCC optimize("no-tree-slp-vectorize")',
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
            *self._missing_functions(),
        ]

    def _elementary(self) -> list[str]:
        """Return elementary functions for tiles: definitions of the program, or functions of the C library."""
        if not self.elementary:
            return []
        inlined = definitions(self._name, f"{self._macro}_INLINE", self.elementary)
        return [
            "#include <stdint.h>",
            "",
            "#ifdef FP_FAST_FMA",
            *inlined,
            "#else",
            *self._vectors(self.elementary),
            "#endif",
            "",
        ]

    def _vectors(self, functions: Collection[str]) -> list[str]:
        """Return declarations of the C library's functions that loops over points call, under names of the program."""
        called = [function for arities in _FOR_VECTORS.values() for function in arities if function in functions]
        if not called:
            return []
        macro, name, real, suffix = self._macro, self._name, self.real, self._suffix
        lines = [
            "/* glibc's functions on vectors, which gcc takes in loops where it is told of them. */",
            "#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)",
            f'#define {macro}_VECTOR(f) __asm__(#f) __attribute__((simd("notinbranch"), const, nothrow))',
        ]
        for version, arities in _FOR_VECTORS.items():
            chosen = [function for function in called if function in arities]
            if not chosen:
                continue
            lines.append(f"#if __GLIBC_PREREQ({version})")
            for function in chosen:
                kinds = ", ".join([real] * arities[function])
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

    def _missing_functions(self) -> list[str]:
        """Return definitions of functions that the C library does not have."""
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
        return lines + self._definitions(multiply_add)

    def _definitions(self, multiply_add: str) -> list[str]:
        """Return definitions of special functions; in single precision they call functions of doubles."""
        lines = []
        for name in self._special:
            symbol = f"{self._name}_{name}"
            wide = f"{symbol}_double" if self._suffix else symbol
            lines.append(function_definition(f"{self.qualifier} double {wide}", name, multiply_add))
            if self._suffix:
                parameters = ("x", "y")[: SPECIAL_FUNCTIONS[name].arity]
                head = f"{self.qualifier} float {symbol}({', '.join(f'float {each}' for each in parameters)})"
                call = f"{wide}({', '.join(map(self.widened.format, parameters))})"
                lines.append(function_text(head, [f"return (float){call};"]))
        return lines
