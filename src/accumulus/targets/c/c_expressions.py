"""Operations of a tape as expressions of C, and of the languages that took C's expressions: CUDA.

Products that alone go into a sum are written as one fused operation; a compiler is to fuse nothing by itself. So what
has to be rounded operation by operation is, and everything else is as quick as the machine can do it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.errors import ArgumentError, CompileError
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Segment
from accumulus.targets.llvm.special_functions import OF_ORDER
from accumulus.targets.runs import WITHOUT_PRODUCT, fuse_products
from accumulus.targets.schedule import Group

__all__ = ["Expressions", "Fused", "array_names", "check_name", "fusible", "literal"]

# fmt: off
_KEYWORDS: Final = frozenset((
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile",
    "while", "bool", "class", "delete", "export", "false", "friend", "new", "operator", "private",
    "protected", "public", "template", "this", "throw", "true", "typename", "using", "virtual", "main", "asm",
    "typeof", "and", "or", "not", "xor", "try", "catch", "namespace", "mutable", "explicit",
))
# fmt: on


@dataclass(frozen=True, slots=True)
class Fused:
    """A sum that takes a product in: which of its arguments that is, and the product."""

    product: int
    first: bool


def fusible(tape: Tape, steps: Iterable[int | Group], exact: Collection[int]) -> dict[int, Fused]:
    """By sums, the products that may be fused with them, each needed there alone."""
    rows = rows_of(tape)
    order = np.array([step for step in steps if not isinstance(step, Group)], np.int64)
    wanted = np.array(sorted(set(tape.outputs)), np.int64)
    gone = fuse_products(rows, order, wanted, exact)
    sums = order[rows[order, 0] >= len(OPERATIONS)].tolist()
    found = {}
    for r in sums:
        a = tape.first[r]
        first = rows[r, 0] != WITHOUT_PRODUCT and a >= 0 and bool(gone[a])
        found[r] = Fused(a if first else tape.second[r], first)
    return found


def literal(value: float, dtype: str) -> str:
    """A number as C writes it, of the type that is computed with, in parentheses if it is negative."""
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


def check_name(name: str, language: str = "C") -> str:
    """The name, or `ArgumentError` if no function of C can have it."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in _KEYWORDS:
        raise ArgumentError(
            f"{name!r} is not a name that a function of {language} can have; expected letters, digits and _, "
            "beginning with no digit, that are no keyword"
        )
    return name


def array_names(segments: Iterable[Segment], taken: Collection[str]) -> list[str]:
    """A parameter's name for each result array: that of its segment, as far as C allows it."""
    names: list[str] = []
    for segment in segments:
        name = re.sub(r"[^A-Za-z0-9_]", "_", segment.name)
        # a letter with digits is a name of the program's own, and so are these
        if (
            name in _KEYWORDS
            or name in ("frame", "points", "first", "count", "unfit")
            or re.fullmatch(r"(\d.*)|[a-zA-Z]?\d*", name)
        ):
            name = f"result_{name}"
        while name in names or name in taken:
            name = f"{name}_{len(names)}"
        names.append(name)
    return names


class Expressions:
    """Writes expressions of one type.

    Args:
        tape: the program.
        dtype: "float64" or "float32".
        fused: as `fusible` gives it, of what is fused here.
        function: what a function of the C library, or one that it does not have, is called in the program.
        multiply_add: the function or macro that fuses a product with a sum.
    """

    def __init__(
        self,
        tape: Tape,
        dtype: str,
        fused: Mapping[int, Fused],
        function: Callable[[str], str],
        multiply_add: str,
    ) -> None:
        self._tape, self._dtype, self._fused = tape, dtype, fused
        self._function, self._multiply_add = function, multiply_add

    def value(self, reference: int) -> str:
        """Name of a value, or a number."""
        if reference < 0:
            return literal(self._tape.constants[-1 - reference], self._dtype)
        return f"x{reference}" if reference < self._tape.inputs else f"t{reference}"

    def operation(self, reference: int) -> str:
        """The expression of an operation."""
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
        if not row.c:
            raise CompileError(
                f"C99 has no function {row.llvm.removeprefix('@')}, by which the operation {row.name} is computed; "
                "expected one of math.h, or of targets/llvm/special_functions.py"
            )
        if row.c in OF_ORDER:
            arguments[0] = f"(int){arguments[0]}"
        return f"{self._function(row.c)}({', '.join(arguments)})"

    def _sum_with_product(self, reference: int, fused: Fused) -> str:
        tape = self._tape
        a, b = map(self.value, tape.arguments(fused.product))
        other = self.value(tape.second[reference] if fused.first else tape.first[reference])
        if OPERATIONS[tape.codes[reference]].name == "subtract":
            if fused.first:
                other = f"-{other}"
            else:
                a = f"-{a}"
        return f"{self._multiply_add}({a}, {b}, {other})"

    def _extremum(self, reference: int, sign: str) -> str:
        # NaN in either argument is the result, as in NumPy
        first, second = self._tape.arguments(reference)
        a, b = self.value(first), self.value(second)
        chosen = f"{a} {sign} {b} ? {a} : {b}"
        if first < 0:
            return a if a == "NAN" else chosen
        return f"{a} != {a} ? {a} : ({chosen})"
