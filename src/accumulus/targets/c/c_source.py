"""C99 of a program: one function for a point, and functions for points that lie anywhere in memory.

All points of a tile, a handful, are computed side by side: each value of the program is a row of numbers, one a point,
and the program is the body of a loop over them, which compilers turn into vector instructions. Points are brought into
a tile and results out of it as they lie in memory: row by row, column by column, or the same for all. For a single
point the same text is a loop of one turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from accumulus.tape.live import as_written
from accumulus.tape.tape import Tape
from accumulus.targets.c.c_expressions import Fused, array_names, check_name, fusible
from accumulus.targets.c.c_header import BYTES, Argument, Array, Functions, Result
from accumulus.targets.c.c_mathematics import Mathematics
from accumulus.targets.c.c_moving import Kind, moving
from accumulus.targets.c.c_statements import Statements
from accumulus.targets.kernel import Segment, Shape
from accumulus.targets.parts import Part, parts
from accumulus.targets.schedule import groups, order

__all__ = ["CSource", "source"]

#: Operations and stores of a function. Compilers give up vectorising loops that load and store much more.
LONGEST_PART: Final = 400
#: Points of a tile, for vectors of 64 bytes.
TILE: Final = {"float64": 8, "float32": 16}
#: Tiles are smaller where their memory would be more than so many bytes of stack.
MOST_STACK: Final = 256 << 10


def source(
    tape: Tape,
    segments: tuple[Segment, ...],
    dtype: str,
    arguments: Sequence[Shape],
    name: str = "f",
    exact: frozenset[int] = frozenset(),
) -> str:
    """A C99 file that is complete in itself: what the header says, and the functions.

    Raises:
        ArgumentError: if `name` is not an identifier of C.
    """
    return CSource(tape, segments, dtype, arguments, name, exact).text


class CSource:
    """The program as C.

    Args:
        tape: the program.
        segments: its result arrays.
        dtype: of points and results.
        arguments: shapes of the arrays that the tape's inputs are the entries of.
        name: of the function; other names begin with it.
        exact: operations that are rounded by themselves, beside those that have to be in any case.

    Attributes:
        functions: what they are called and take.
        header: declarations, sizes, and what has to be known.
        code: the functions, to be put behind the header or an ``#include`` of it.
        tile: how many points are computed side by side, at most.
    """

    def __init__(
        self,
        tape: Tape,
        segments: Sequence[Segment],
        dtype: str,
        arguments: Sequence[Shape],
        name: str = "f",
        exact: Collection[int] = (),
    ) -> None:
        self._tape, self._macro = tape, check_name(name).upper()
        inputs = ["x"] if len(arguments) == 1 else [f"a{k}" for k in range(len(arguments))]
        names = array_names(segments, inputs)
        self._results = [Result(*pair) for pair in zip(names, segments, strict=True)]
        self._arguments = [Argument(*pair) for pair in zip(inputs, arguments, strict=True)]
        self.functions = Functions(name, dtype, self._arguments, self._results)
        self._name, self._real, self._dtype = name, self.functions.real, dtype
        self._mathematics = Mathematics(name, dtype, in_tiles=True)
        self._arrays: list[Array] = [*self._arguments, *self._results]
        self._inputs = [(array.name, k) for array in self._arguments for k in range(array.rows)]

        marks = np.frombuffer(as_written(tape), np.uint8)
        rounded = {tape.inputs + int(k) for k in np.flatnonzero(marks[tape.inputs :])}.union(exact)
        # zeros are written by themselves, so here the stored entries of an array are all that it has
        stored = [Segment(len(r.outputs), tuple(r.outputs), tuple(range(len(r.outputs)))) for r in self._results]
        steps = list(order(tape, groups(tape, stored, 1)))
        fused = fusible(tape, steps, rounded)
        found, self._slots = parts(tape, steps, LONGEST_PART, 1)
        #: Text of each part, the arrays that it takes, and whether it says that there are points it does not serve.
        self._parts = [self._part(number, part, fused) for number, part in enumerate(found) if part.steps]
        self.tile, stack = TILE[dtype], self._stack()
        while self.tile > 1 and stack[1] * self.tile > MOST_STACK:
            self.tile //= 2
        self.header = self.functions.header(tape.operations, stack, self.tile)
        bodies = [*(text for text, *_ in self._parts), self._point(), *self._again(), self._strided(), self._batch()]
        before = [*self._mathematics.prelude(), *self._tables(), self._moving(), *self._squares()]
        self.code = "\n".join([*before, *bodies]) + "\n"

    @property
    def text(self) -> str:
        """Header and code in one."""
        return f"{self.header}\n{self.code}"

    def _stack(self) -> tuple[int, int]:
        """Bytes that one point takes, and those of each point of a tile; compilers keep most values of a part there."""
        size, own = BYTES[self._dtype], self._slots + LONGEST_PART
        apart = sum(result.rows for result in self._results if not result.whole)
        # twice, since a point of a tile may be computed by itself
        return size * (own + apart), size * (own + (1 + self._is_checked) * sum(each.rows for each in self._arrays))

    # The program itself ------------------------------------------------------------------------------------------

    def _part(self, number: int, part: Part, fused: Mapping[int, Fused]) -> tuple[str, list[str], bool]:
        """One part as a function of a row of points, the arrays that it takes, and whether some may be unfit for it."""
        lines, used = Statements(self._tape, self._inputs, self._results, self._mathematics, self._dtype, _at).of(
            part, fused
        )
        arrays = [array.name for array in self._arrays]
        names = [name for name in (*arrays, "frame") if name in used]
        given = {array.name for array in self._arguments}
        parameters = [f"{'const ' * (each in given)}{self._real} *restrict {each}" for each in names]
        # functions of the parts' values that not all points are fit for say so
        own = [f"{self._name}_{each}(" for each in self._mathematics.elementary]
        checked = any(call in line for call in own for line in lines)
        kind, first, last = "void", [], []
        if checked:  # compilers take a mask for each point, and no mask of all
            kind, first = "int", [f"uint64_t unfit_at[{self._macro}_TILE], any = 0;"]
            lines = ["uint64_t unfit = 0;", *lines, "unfit_at[k] = unfit;"]
            last = ["for (ptrdiff_t k = 0; k < S; k++) any |= unfit_at[k];", "return any != 0;"]
        head = f"{self._macro}_INLINE {kind} {self._name}_part{number}"
        text = [
            f"{head}({', '.join([*parameters, 'const ptrdiff_t S'])}) {{",
            *(f"    {line}" for line in first),
            "    for (ptrdiff_t k = 0; k < S; k++) {",
            *(f"        {line}" for line in lines),
            "    }",
            *(f"    {line}" for line in last),
            "}\n",
        ]
        # compiled by themselves, for a point and for a tile
        for of, size in (("point", "1"), ("tile", f"{self._macro}_TILE")):
            call = f"{self._name}_part{number}({', '.join([*names, size])});"
            kind, answer = ("int", "return ") if checked and of == "tile" else ("void", "(void)" * checked)
            text += [
                f"{self._macro}_APART {kind} {self._name}_{of}{number}({', '.join(parameters)}) {{",
                f"    {answer}{call}",
                "}\n",
            ]
        return "\n".join(text), names, checked

    def _calls(self, kind: str, stored: Mapping[str, str]) -> list[str]:
        """Calls of all parts, arrays by the names under which they are stored."""
        return [
            f"{'unfit |= ' * (checked and kind == 'tile')}"
            f"{self._name}_{kind}{number}({', '.join(stored.get(name, name) for name in names)});"
            for number, (_, names, checked) in enumerate(self._parts)
        ]

    # The functions that are called -----------------------------------------------------------------------------------

    def _point(self) -> str:
        lines, before, after, stored = [], [], [], {}
        for result in self._results:
            n = result.name
            if not result.length:
                lines.append(f"(void){n};")
            if not result.is_filled:
                before.append(f"for (ptrdiff_t i = 0; i < {result.length}; i++) {n}[i] = 0;")
            if not result.whole and result.rows:
                stored[n] = f"{n}_stored"
                lines.append(f"{self._real} {n}_stored[{result.rows}];")
                to = f"{n}[{self._name}_{n}_positions[i]]"
                after.append(f"for (ptrdiff_t i = 0; i < {result.rows}; i++) {to} = {n}_stored[i];")
        if self._slots:
            lines.append(f"{self._real} frame[{self._slots}];")
        used = {name for _, names, _ in self._parts for name in names}
        lines += [f"(void){argument.name};" for argument in self._arguments if argument.name not in used]
        return _function(self.functions.point, [*lines, *before, *self._calls("point", stored), *after])

    @property
    def _is_checked(self) -> bool:
        """Whether tiles may have points that their elementary functions do not serve."""
        return any(checked for *_, checked in self._parts)

    def _again(self) -> list[str]:
        """Computes the points of a tile one by one, if it has some that its elementary functions do not serve."""
        if not self._is_checked:
            return []
        tile = f"{self._macro}_TILE"
        arrays = [array for array in self._arrays if array.rows]
        results = {array.name for array in self._results}
        taken = results.union(*(names for _, names, _ in self._parts))
        lines = [f"{self._real} {array.name}_one[{array.rows}];" for array in arrays if array.name in taken]
        lines += [f"{self._real} frame[{self._slots}];"] * bool(self._slots)
        lines += [f"(void){array.name}_tile;" for array in arrays if array.name not in taken]
        into, back = [], []
        for array in arrays:
            if array.name not in taken:
                continue
            n, each = array.name, f"for (ptrdiff_t i = 0; i < {array.rows}; i++)"
            # results, too: structural zeros stay what they are
            into.append(f"{each} {n}_one[i] = {n}_tile[i * {tile} + k];")
            if n in results:
                back.append(f"{each} {n}_tile[i * {tile} + k] = {n}_one[i];")
        calls = self._calls("point", {array.name: f"{array.name}_one" for array in arrays})
        inside = [f"    {line}" for line in (*into, *calls, *back)]
        given = [f"{'const ' * (each.name not in results)}{self._real} *restrict {each.name}_tile" for each in arrays]
        head = f"{self._macro}_APART void {self._name}_again({', '.join(given)})"
        return [_function(head, [*lines, f"for (ptrdiff_t k = 0; k < {tile}; k++) {{", *inside, "}"])]

    def _strided(self) -> str:
        tile, name, aligned = f"{self._macro}_TILE", self._name, f"{self._macro}_ALIGNED "
        lines, inside, after, stored = [], [], [], {}
        for array in self._arrays:
            n = array.name
            if array.rows:
                stored[n] = f"{n}_tile"
                lines.append(f"{aligned}{self._real} {n}_tile[{array.rows} * {tile}];")
            if not array.length:
                lines.append(f"(void){n}; (void){n}_point; (void){n}_entry;")
        for argument in self._arguments:
            n = argument.name
            if argument.rows:
                where = f"{n}_tile, {n} + first * {n}_point, {argument.rows}, {n}_point, {n}_entry, count"
                inside += [f"if (first == 0 || {n}_point != 0)", f"    {name}_take({where});"]
        for result in self._results:
            n = result.name
            layout = f"{n}_point, {n}_entry, count"
            if result.length and not result.is_filled and result.whole:  # the tile's zeros stay what they are
                lines.append(f"for (ptrdiff_t i = 0; i < {result.rows} * {tile}; i++) {n}_tile[i] = 0;")
            if result.length and not result.whole:
                after.append(f"{name}_clear({n} + first * {n}_point, {result.length}, {layout});")
            if result.rows:
                table = "" if result.whole else f", {name}_{n}_positions"
                function = "give" if result.whole else "scatter"
                moved = f"{n} + first * {n}_point, {n}_tile, {result.rows}, {layout}{table}"
                if filled := result.squares[0]:
                    every = len(filled) + len(result.squares[1])
                    patched = (
                        f"{n} + first * {n}_point, {n}_tile, {n}_point, {name}_{n}_squares, {len(filled)}, {every}"
                    )
                    where = f"count == {tile} && {n}_entry == 1"
                    after += [
                        f"#ifdef {self._macro}_SQUARES",
                        f"if ({where}) {name}_patch({patched});",
                        "else",
                        "#endif",
                    ]
                after.append(f"{name}_{function}({moved});")
        if self._slots:
            lines.append(f"{aligned}{self._real} frame[{self._slots} * {tile}];")
        if not (inside or after):
            return _function(self.functions.strided, [*lines, "(void)points;"])
        calls = self._calls("tile", stored)
        if self._is_checked:
            tiles = ", ".join(stored.values())
            calls = ["int unfit = 0;", *calls, f"if (unfit) {name}_again({tiles});"]
        loop = [
            f"for (ptrdiff_t first = 0; first < (ptrdiff_t)points; first += {tile}) {{",
            f"    const ptrdiff_t count = (ptrdiff_t)points - first < {tile} ? (ptrdiff_t)points - first : {tile};",
            *(f"    {line}" for line in (*inside, *calls, *after)),
            "}",
        ]
        # declarations first, as C89 would have it
        return _function(
            self.functions.strided, [*sorted(lines, key=lambda line: line.startswith(("(", "for"))), *loop]
        )

    def _batch(self) -> str:
        given = [f"{array.name}, {array.length}, 1" for array in self._arrays]
        return _function(self.functions.batch, [f"{self._name}_strided({', '.join(['points', *given])});"])

    def _tables(self) -> list[str]:
        """Where the entries are that are not structural zeros."""
        lines = []
        for result in self._results:
            if result.is_filled or not result.positions:
                continue
            places = result.positions
            lines.append(f"const int {self._name}_{result.name}_positions[{len(places)}] = {{")
            lines += [f"    {', '.join(map(str, places[k : k + 20]))}," for k in range(0, len(places), 20)]
            lines.append("};\n")
        return lines

    def _squares(self) -> list[str]:
        """Where squares begin that are turned over, then those of zeros; unused where nothing is turned."""
        lines = []
        for result in self._results:
            squares = [*result.squares[0], *result.squares[1]]
            if squares:
                lines.append(f"static const int {self._name}_{result.name}_squares[{len(squares)}] = {{")
                lines += [f"    {', '.join(map(str, squares[k : k + 20]))}," for k in range(0, len(squares), 20)]
                lines.append("};\n")
        return [f"#ifdef {self._macro}_SQUARES", *lines, "#endif\n"] if lines else []

    def _moving(self) -> str:
        kinds: set[Kind] = {"take"} if any(argument.rows for argument in self._arguments) else set()
        for result in self._results:
            if result.length and not result.whole:
                kinds.add("clear")
            if result.rows:
                kinds.add("give" if result.whole else "scatter")
            if result.squares[0]:
                kinds.add("patch")
        return moving(self._name, self._real, kinds)


def _function(head: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}\n"])


def _at(array: str, row: int) -> str:
    """Where the number of the point is in that row."""
    place = "k" if not row else "S + k" if row == 1 else f"{row} * S + k"
    return f"{array}[{place}]"
