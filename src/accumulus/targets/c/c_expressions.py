"""Bodies in C, and in what has C's expressions: CUDA. Operations as expressions, and statements of these.

Products that alone go into a sum are written as one fused operation; a compiler is to fuse nothing by itself. So what
has to be rounded operation by operation is, and everything else is as quick as the machine can do it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.errors import ArgumentError, CompileError
from accumulus.tape.live import as_written
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import Tape
from accumulus.targets.c.c_header import Result
from accumulus.targets.c.c_mathematics import Mathematics, literal
from accumulus.targets.kernel import Segment, Shape
from accumulus.targets.llvm.special_functions import OF_ORDER
from accumulus.targets.schedule import WITHOUT_PRODUCT, Group, Part, fuse_products, groups, order, parts

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


def check_name(name: str, language: str = "C") -> str:
    """The name, or `ArgumentError` if no function of C can have it."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in _KEYWORDS:
        raise ArgumentError(
            f"{name!r} is not a name that a function of {language} can have; expected letters, digits and _, "
            "beginning with no digit, that are no keyword"
        )
    return name


def argument_names(arguments: Sequence[Shape]) -> list[str]:
    """A parameter's name for each argument."""
    return ["x"] if len(arguments) == 1 else [f"a{k}" for k in range(len(arguments))]


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


# Statements -----------------------------------------------------------------------------------------------------------


class Body:
    """A tape's operations and results in the order in which C has them, products fused with sums, cut into functions.

    Args:
        tape: the operations.
        inputs: array and entry of each input.
        results: the arrays that are written: their stored entries, as zeros are written by themselves.
        mathematics: of the program.
        dtype: of its numbers.
        exact: operations that are rounded by themselves, beside those that have to be in any case.
        sensitive: number of outputs, the first, that are computed operation by operation as they stand.
        longest: operations and stores of a function; by default there is one function.

    Attributes:
        parts: of the body.
        slots: numbers that parts hand on to others, at most at a time.
    """

    def __init__(
        self,
        tape: Tape,
        inputs: Sequence[tuple[str, int]],
        results: Sequence[Result],
        mathematics: Mathematics,
        dtype: str,
        *,
        exact: Collection[int] = (),
        sensitive: int = 0,
        longest: int = sys.maxsize,
    ) -> None:
        self._given = tape, inputs, results, mathematics, dtype
        stored = [Segment(len(r.outputs), tuple(r.outputs), tuple(range(len(r.outputs)))) for r in results]
        steps = list(order(tape, groups(tape, stored, 1)))
        rounded = np.flatnonzero(np.frombuffer(as_written(tape, sensitive), np.uint8)[tape.inputs :]) + tape.inputs
        self._fused = fusible(tape, steps, {*rounded.tolist(), *exact})
        found, self.slots = parts(tape, steps, longest, 1)
        self.parts = [part for part in found if part.steps]

    def statements(self, part: Part, at: Callable[[str, int], str]) -> tuple[list[str], set[str]]:
        """The statements of a part, and the arrays that they need.

        Args:
            at: where in an array, or in the frame, a row is that a value is loaded from or stored to.
        """
        return _Statements(*self._given, at).of(part, self._fused)


class _Statements:
    """Writes one part of a body: a declaration for each value, a store for each result."""

    def __init__(
        self,
        tape: Tape,
        inputs: Sequence[tuple[str, int]],
        results: Sequence[Result],
        mathematics: Mathematics,
        dtype: str,
        at: Callable[[str, int], str],
    ) -> None:
        self._tape, self._inputs, self._results, self._mathematics = tape, inputs, results, mathematics
        self._dtype, self._at = dtype, at
        self._lines: list[str] = []
        self._known: set[int] = set()
        self._used: set[str] = set()

    def of(self, part: Part, fused: Mapping[int, Fused]) -> tuple[list[str], set[str]]:
        """The statements, and the arrays that they need."""
        tape, slots = self._tape, part.slots
        here = {step for step in part.steps if not isinstance(step, Group)}
        within = {s: f for s, f in fused.items() if s in here and f.product in here}
        left_out = {f.product for f in within.values()}
        names = self._mathematics.function, self._mathematics.multiply_add
        write = Expressions(tape, self._dtype, within, *names)
        for step in part.steps:
            if isinstance(step, Group):
                (reference,) = step.references
                assert reference is not None
                self._need(reference, slots)
                result = self._results[step.segment]
                self._used.add(result.name)
                self._lines.append(f"{self._at(result.name, result.row(step.start))} = {write.value(reference)};")
            elif step not in left_out:
                arguments = tape.arguments(step)
                if step in within:
                    product = within[step].product
                    arguments = (*(a for a in arguments if a != product), *tape.arguments(product))
                for argument in arguments:
                    self._need(argument, slots)
                self._lines.append(f"const {self._kind(step)} t{step} = {write.operation(step)};")
                self._known.add(step)
                if step in slots:
                    self._keep(step, slots[step])
        return self._lines, self._used

    def _kind(self, reference: int) -> str:
        return self._mathematics.truth if self._tape.is_boolean(reference) else self._mathematics.real

    def _need(self, reference: int, slots: Mapping[int, int]) -> None:
        """Load an input, or a value of another part, when it is first needed."""
        if reference < 0 or reference in self._known:
            return
        self._known.add(reference)
        if reference < self._tape.inputs:
            array, entry = self._inputs[reference]
            name, text = f"x{reference}", self._at(array, entry)
        else:
            array, name, text = "frame", f"t{reference}", self._at("frame", slots[reference])
            if self._tape.is_boolean(reference):
                text = f"{text} != {literal(0.0, self._dtype)}"
        self._used.add(array)
        self._lines.append(f"const {self._kind(reference)} {name} = {text};")

    def _keep(self, reference: int, slot: int) -> None:
        """Store a value for another part; truth values as numbers."""
        value = f"t{reference}"
        if self._tape.is_boolean(reference):
            value = f"{value} ? {literal(1.0, self._dtype)} : {literal(0.0, self._dtype)}"
        self._used.add("frame")
        self._lines.append(f"{self._at('frame', slot)} = {value};")
