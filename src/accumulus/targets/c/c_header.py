"""Common parts of C programs: names, arrays, declarations of functions, and the layout of headers and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from math import prod
from typing import Any, Final

from accumulus.errors import ArgumentError
from accumulus.targets.kernel import Segment, Shape, Unit

REALS: Final = {"float64": "double", "float32": "float"}
BYTES: Final = {"float64": 8, "float32": 4}
#: Options that users compile with.
FLAGS: Final = "-O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math"
COMPILED: Final = (
    f" * Compile with {FLAGS}",
    " * -lm, or with what your compiler calls these. Results depend on -ffp-contract=off alone, which is",
    " * gcc's default after -std=c99: products are fused with sums where the text says so.",
)
#: Number of entries in a line of a table.
_LINE: Final = 20
#: Tiles include the structural zeros of a result array if at least one entry in this many is stored. A larger number
#: transposes and stores more zeros with each tile, a smaller one stores more entries one by one.
SPARSE: Final = 8


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


def check_name(name: str, language: str = "C") -> str:
    """Return the name if a C function can have it; else raise `ArgumentError`."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in _KEYWORDS:
        raise ArgumentError(
            f"{name!r} is not a name that a function of {language} can have; expected letters, digits and _, "
            "beginning with no digit, that are no keyword"
        )
    return name


def argument_names(arguments: Sequence[Shape]) -> list[str]:
    """Return a parameter name for each argument."""
    return ["x"] if len(arguments) == 1 else [f"a{k}" for k in range(len(arguments))]


def array_names(segments: Iterable[Segment], taken: Collection[str]) -> list[str]:
    """Return a parameter name for each result array, derived from its segment's name."""
    names: list[str] = []
    for segment in segments:
        name = re.sub(r"[^A-Za-z0-9_]", "_", segment.name)
        # a letter with digits is a name that the program uses, and so are these
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


class ArrayParameter:
    """A parameter of the program's functions.

    Attributes:
        name: name of the parameter.
        shape: shape at one point.
        length: number of entries at one point.
    """

    def __init__(self, name: str, shape: Shape) -> None:
        self.name, self.shape, self.length = name, shape, prod(shape)

    @property
    def rows(self) -> int:
        """Number of entries of a point in a tile."""
        return self.length


class Result(ArrayParameter):
    """A result array.

    Attributes:
        outputs: positions in the tape's outputs of the stored entries, in the order of the array.
        positions: positions of these in the array; all other entries are structural zeros.
        whole: True if tiles include the zeros.
    """

    def __init__(self, name: str, segment: Segment) -> None:
        pairs = sorted((position, output) for output, position in segment.pairs())
        super().__init__(name, (segment.length,))
        self.positions, self.outputs = [position for position, _ in pairs], [output for _, output in pairs]
        self.whole = len(pairs) * SPARSE >= segment.length

    @property
    def is_filled(self) -> bool:
        """True if there are no structural zeros."""
        return len(self.positions) == self.length

    @property
    def rows(self) -> int:
        """Number of entries of a point in a tile."""
        return self.length if self.whole else len(self.positions)

    @cached_property
    def squares(self) -> tuple[list[int], list[int]]:
        """First entries of groups of four with a stored entry, and of groups without one.

        Both are empty if fewer than a quarter of the groups have none, since the distinction does not pay then.
        """
        if not self.whole or self.length < 4:
            return [], []
        stored, starts = set(self.positions), [*range(0, self.length - 4, 4), self.length - 4]
        filled = [start for start in starts if not stored.isdisjoint(range(start, start + 4))]
        empty = sorted({*starts} - {*filled})
        return (filled, empty) if 4 * len(empty) >= len(starts) and filled else ([], [])

    def row(self, stored: int) -> int:
        """Return the row of a tile for a stored entry, given its number."""
        return self.positions[stored] if self.whole else stored


class Source:
    """A program as self-contained C: declarations for the header, and the functions.

    Args:
        unit: the program.
        name: name of the function of a point, and prefix of all other names.
        result: function that returns a result array, given its name and its segment.
        taken: names that no result may have, besides the arguments' names.
        work: name of the parameter for the work space; empty if there is none.

    Attributes:
        header: declarations, sizes, and notes for callers.
        code: the functions, which follow the header or an ``#include`` of it.

    Raises:
        ArgumentError: if `name` is not an identifier of C.
    """

    header: str
    code: str

    def __init__(
        self,
        unit: Unit,
        name: str,
        result: Callable[[str, Segment], ArrayParameter],
        taken: Sequence[str] = (),
        work: str = "",
    ) -> None:
        self._name, self._macro, self._work = check_name(name), name.upper(), work
        self._dtype, self._real = unit.dtype, REALS[unit.dtype]
        inputs = argument_names(unit.shapes)
        self._arguments = [ArrayParameter(*pair) for pair in zip(inputs, unit.shapes, strict=True)]
        names = array_names(unit.segments, (*inputs, *taken))
        self._results: list[Any] = [result(*pair) for pair in zip(names, unit.segments, strict=True)]
        self._arrays: list[ArrayParameter] = [*self._arguments, *self._results]

    @property
    def text(self) -> str:
        """Header and code as one text."""
        return f"{self.header}\n{self.code}"

    @property
    def _parameters(self) -> list[str]:
        """Declarations of the arrays and of the work space."""
        declarations = [f"const {self._real} *{argument.name}" for argument in self._arguments]
        declarations += [f"{self._real} *{result.name}" for result in self._results]
        return [*declarations, f"{self._real} *{self._work}"] if self._work else declarations

    @property
    def _declared_point(self) -> str:
        """Declaration of the function of a point."""
        return f"void {self._name}({', '.join(self._parameters) or 'void'})"

    @property
    def _declared_batch(self) -> str:
        """Declaration of the function of consecutive points."""
        return f"void {self._name}_batch({', '.join(['size_t points', *self._parameters])})"

    @property
    def _declared_strided(self) -> str:
        """Declaration of the function of points anywhere; with a work space, entries of a point are consecutive."""
        names = [array.name for array in self._arrays]
        entry = "" if self._work else ", ptrdiff_t {name}_entry"
        apart = [
            f"{array}, ptrdiff_t {name}_point{entry.format(name=name)}"
            for array, name in zip(self._parameters, names, strict=False)
        ]
        return f"void {self._name}_strided({', '.join(['size_t points', *apart, *self._parameters[len(names) :]])})"

    @property
    def _declared_work_size(self) -> str:
        """Declaration of the function that returns the size of the work space."""
        return f"size_t {self._name}_work_size(void)"


def framed(macro: str, about: Sequence[str], declarations: Sequence[str]) -> str:
    """Return a header: notes for callers, and declarations of functions and tables."""
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
    """Return the lines of a declaration, wrapped if it is long."""
    lines = [""]
    for word in declaration.split(" "):
        if len(lines[-1]) + len(word) > width:
            lines.append("   ")
        lines[-1] += f"{' ' * bool(lines[-1])}{word}"
    return lines


def function_text(head: str, lines: Iterable[str]) -> str:
    """Return the definition of a function, given its head and its statements."""
    return "\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}\n"])


def only_if(macro: str, texts: Sequence[str]) -> list[str]:
    """Return text that is compiled only if a macro is defined; always, if the macro's name is empty."""
    return [f"#ifdef {macro}\n", *texts, "#endif\n"] if macro else [*texts]


def table_text(head: str, entries: Sequence[str]) -> str:
    """Return the definition of an array of numbers; `head` is its type and name."""
    lines = [f"    {', '.join(entries[k : k + _LINE])}," for k in range(0, len(entries), _LINE)]
    return "\n".join([f"{head}[{len(entries)}] = {{", *lines, "};\n"])
