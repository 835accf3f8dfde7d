"""The header of a C program: what it computes, what its functions take, and how much stack they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

from accumulus.targets.kernel import Segment, Shape

REALS: Final = {"float64": "double", "float32": "float"}
BYTES: Final = {"float64": 8, "float32": 4}
#: What users compile with.
FLAGS: Final = "-O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math"
COMPILED: Final = (
    f" * Compile with {FLAGS}",
    " * -lm, or with what your compiler calls these. Results depend on -ffp-contract=off alone, which is",
    " * gcc's default after -std=c99: products are fused with sums where the text says so.",
)
#: Numbers of a line of a table.
_LINE: Final = 20
#: Result arrays are computed with their structural zeros if at least one of so many entries is none.
SPARSE: Final = 8


class Array:
    """A parameter of the program's functions.

    Attributes:
        name: of the parameter.
        shape: at one point.
        length: entries a point.
    """

    def __init__(self, name: str, shape: Shape) -> None:
        self.name, self.shape, self.length = name, shape, prod(shape)

    @property
    def rows(self) -> int:
        """Numbers of a point in a tile."""
        return self.length


class Result(Array):
    """An array that is written.

    Attributes:
        outputs: positions in the tape's outputs of the stored entries, as they follow each other in the array.
        positions: where they are there; all other entries are structural zeros.
        whole: whether the zeros are in tiles, too.
    """

    def __init__(self, name: str, segment: Segment) -> None:
        pairs = sorted(zip(segment.positions, segment.outputs, strict=True))
        super().__init__(name, (segment.length,))
        self.positions, self.outputs = [place for place, _ in pairs], [output for _, output in pairs]
        self.whole = len(pairs) * SPARSE >= segment.length

    @property
    def is_filled(self) -> bool:
        """True if there are no structural zeros."""
        return len(self.positions) == self.length

    @property
    def rows(self) -> int:
        """Numbers of a point in a tile."""
        return self.length if self.whole else len(self.positions)

    @cached_property
    def squares(self) -> tuple[list[int], list[int]]:
        """Beginnings of groups of four entries with one that is no structural zero, and of those with none.

        Empty if it is not worth the difference: fewer than a quarter have none.
        """
        if not self.whole or self.length < 4:
            return [], []
        stored, starts = set(self.positions), [*range(0, self.length - 4, 4), self.length - 4]
        filled = [start for start in starts if not stored.isdisjoint(range(start, start + 4))]
        empty = sorted({*starts} - {*filled})
        return (filled, empty) if 4 * len(empty) >= len(starts) and filled else ([], [])

    def row(self, stored: int) -> int:
        """In which row of a tile the stored entry of that number is."""
        return self.positions[stored] if self.whole else stored


@dataclass(frozen=True)
class Declarations:
    """Names and arguments of the functions of a program.

    Args:
        name: of the program.
        dtype: of its numbers.
        arguments, results: its arrays.
        work: name of the work space that its functions take; empty if there is none.
    """

    name: str
    dtype: str
    arguments: Sequence[Array]
    results: Sequence[Array]
    work: str = ""

    @property
    def real(self) -> str:
        """The type of numbers."""
        return REALS[self.dtype]

    @property
    def parameters(self) -> list[str]:
        """The arrays, and the work space."""
        given = [f"const {self.real} *{argument.name}" for argument in self.arguments]
        given += [f"{self.real} *{result.name}" for result in self.results]
        return [*given, f"{self.real} *{self.work}"] if self.work else given

    @property
    def point(self) -> str:
        """The function of a point."""
        return f"void {self.name}({', '.join(self.parameters) or 'void'})"

    @property
    def batch(self) -> str:
        """The function of points one behind the other."""
        return f"void {self.name}_batch({', '.join(['size_t points', *self.parameters])})"

    @property
    def strided(self) -> str:
        """The function of points anywhere; where there is a work space, the entries of a point follow each other."""
        names = [array.name for array in (*self.arguments, *self.results)]
        entry = "" if self.work else ", ptrdiff_t {name}_entry"
        apart = [
            f"{array}, ptrdiff_t {name}_point{entry.format(name=name)}"
            for array, name in zip(self.parameters, names, strict=False)
        ]
        return f"void {self.name}_strided({', '.join(['size_t points', *apart, *self.parameters[len(names) :]])})"

    @property
    def work_size(self) -> str:
        """The function that returns the size of the work space."""
        return f"size_t {self.name}_work_size(void)"


@dataclass(frozen=True)
class Header(Declarations):
    """The header of a scalar program."""

    results: Sequence[Result]

    def text(self, operations: int, stack: tuple[int, int], tile: int) -> str:
        """The text of the header.

        Args:
            operations: of the program.
            stack: bytes that one point takes, at most, and those of each point of a tile.
            tile: most points of one.
        """
        macro, name = self.name.upper(), self.name
        arrays, sizes, tables = [], [], []
        for argument in self.arguments:
            shape = " x ".join(map(str, argument.shape)) or "1"
            arrays.append(f" *   {argument.name}: {shape} {'number' if argument.rows == 1 else 'numbers'}, given.")
            sizes.append(f"#define {macro}_{argument.name.upper()}_SIZE {argument.rows}")
        for result in self.results:
            n, stored = result.name, len(result.positions)
            what = f"{result.length} {'number' if result.length == 1 else 'numbers'}, written"
            sizes.append(f"#define {macro}_{n.upper()}_SIZE {result.length}")
            if not result.is_filled:
                what += f"; zero at every point but for {stored} of them"
                sizes.append(f"#define {macro}_{n.upper()}_NONZEROS {stored}")
                if stored:
                    what += f", those at {name}_{n}_positions"
                    tables.append(f"extern const int {name}_{n}_positions[{stored}]")
            arrays.append(f" *   {n}: {what}.")
        lines = [
            f"/* C99; {operations} operations. Nothing is allocated, there is no state, threads may call at a time.",
            " *",
            f" * {name} computes one point, {name}_batch points that lie one behind the other.",
            f" * {name}_strided takes them anywhere: after each array come the distances, in numbers, from one point",
            " * to the next (0 if all points share it) and from one entry to the next. Results overlap no other array.",
            *([" *", *arrays] if arrays else []),
            " *",
            *COMPILED,
            " *",
            f" * A point takes at most {macro}_STACK_BYTES of the stack, roughly,",
            f" * and a batch {macro}_BATCH_STACK_BYTES. */",
            "",
            "#include <stddef.h>",
            "",
            *sizes,
            f"#ifndef {macro}_TILE",
            "#ifdef __AVX512F__",
            f"#define {macro}_TILE {tile}  /* points that are computed side by side */",
            "#else",
            f"#define {macro}_TILE {max(1, tile // 2)}",
            "#endif",
            "#endif",
            f"#define {macro}_STACK_BYTES {stack[0]}",
            f"#define {macro}_BATCH_STACK_BYTES ({stack[1]} * {macro}_TILE)",
        ]
        return framed(macro, lines, [*tables, self.point, self.batch, self.strided])


def framed(macro: str, about: Sequence[str], declarations: Sequence[str]) -> str:
    """A header: what has to be known, and declarations of functions and tables."""
    lines = [
        f"#ifndef {macro}_H",
        f"#define {macro}_H",
        "",
        *about,
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *(line for each in declarations for line in _wrapped(f"{each};")),
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif  /* {macro}_H */",
        "",
    ]
    return "\n".join(lines)


def _wrapped(declaration: str, width: int = 120) -> list[str]:
    """A declaration on several lines, if it is long."""
    lines = [""]
    for word in declaration.split(" "):
        if len(lines[-1]) + len(word) > width:
            lines.append("   ")
        lines[-1] += f"{' ' * bool(lines[-1])}{word}"
    return lines


def function_text(head: str, lines: Iterable[str]) -> str:
    """The definition of a function with these statements."""
    return "\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}\n"])


def table_text(head: str, entries: Sequence[str]) -> str:
    """The definition of an array of numbers; `head` is its type and name."""
    lines = [f"    {', '.join(entries[k : k + _LINE])}," for k in range(0, len(entries), _LINE)]
    return "\n".join([f"{head}[{len(entries)}] = {{", *lines, "};\n"])
