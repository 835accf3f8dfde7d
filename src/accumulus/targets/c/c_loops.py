"""C99 of the loops of programs over arrays: bodies, recurrences, sums, products of matrices, copies.

Each is a function that takes the arrays that it reads and writes, and no others; the operations of a body are written
as those of other programs are. Sums are added in eight parts, which compilers turn into vectors, and so are products
of matrices along rows and columns; other products are added row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.live import as_written
from accumulus.targets.c.c_expressions import fusible
from accumulus.targets.c.c_header import Result
from accumulus.targets.c.c_mathematics import Mathematics
from accumulus.targets.c.c_places import INDEX_TYPES, WORK, Places, Reading
from accumulus.targets.c.c_statements import Statements
from accumulus.targets.kernel import Segment
from accumulus.targets.nests import Nest
from accumulus.targets.parts import parts
from accumulus.targets.schedule import groups, order

__all__ = ["LOOP_PART", "CLoops", "hidden"]

#: Operations and stores of a function. Bodies of a thousand are twice as quick whole as in parts, and are compiled in
#: the same time; that grows with the square of their length, though.
LOOP_PART: Final = 2000
#: Instances that go through the functions of a long body together.
TILE: Final = 64
#: Steps of recurrences with fewer instances are computed one instance after the other.
WIDE: Final = 4
_SUM: Final = """\
NAME_INLINE double name_sum_KIND(PARAMETERS, ptrdiff_t count) {
    double part[8] = {0.0};
    ptrdiff_t k = 0;
    for (; k + 8 <= count; k += 8)
        for (ptrdiff_t j = 0; j < 8; j++) part[j] += TERM(k + j);
    double total = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (; k < count; k++) total += TERM(k);
    return total;
}
"""
_DOT: Final = """\
NAME_INLINE double name_dot(const double *a, const double *b, ptrdiff_t count) {
    double part[8] = {0.0};
    ptrdiff_t k = 0;
    for (; k + 8 <= count; k += 8)
        for (ptrdiff_t j = 0; j < 8; j++) part[j] = NAME_MADD(a[k + j], b[k + j], part[j]);
    double total = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (; k < count; k++) total = NAME_MADD(a[k], b[k], total);
    return total;
}
"""


class CLoops:
    """Writes the loops of a program, each as a function.

    Args:
        name: of the program.
        places: where its numbers are.
        given: names of the arrays that are only read.
        mathematics: of the program.

    Attributes:
        texts: of the functions.
        calls: of them, in their order.
        stack: numbers that one of them needs on the stack, at most.
    """

    def __init__(self, name: str, places: Places, given: Sequence[str], mathematics: Mathematics) -> None:
        self._name, self._macro = name, name.upper()
        self._places, self._given, self._mathematics = places, frozenset(given), mathematics
        self.texts: list[str] = []
        self.calls: list[str] = []
        self.stack = 0
        self._helpers: dict[str, str] = {}

    @property
    def helpers(self) -> list[str]:
        """Functions that the loops call."""
        return list(self._helpers.values())

    # Bodies --------------------------------------------------------------------------------------------------------

    def body(self, nest: Nest, loads: Sequence[Reading], stores: Sequence[Reading]) -> None:
        """A body, or a recurrence."""
        body, count, steps = nest.body, nest.count, nest.steps
        assert body is not None
        stored = [Result(f"r{k}", Segment(1, (k,), (0,))) for k in range(len(body.outputs))]
        segments = [Segment(1, (k,), (0,)) for k in range(len(body.outputs))]
        inputs = [(f"p{k}", 0) for k in range(body.inputs)]
        at = {f"p{k}": reading for k, reading in enumerate(loads)}
        at |= {f"r{k}": reading for k, reading in enumerate(stores)}
        written = [*order(body, groups(body, segments, 1))]
        exact = {r for r, mark in enumerate(as_written(body, nest.sensitive)) if mark}
        fused = fusible(body, written, exact)
        found, slots = parts(body, written, LOOP_PART, 1)
        found = [part for part in found if part.steps]
        self.stack = max(self.stack, slots * TILE + LOOP_PART)
        texts: list[tuple[list[str], list[str]]] = []
        instances = {each for each, reading in at.items() if reading.at("i") != reading.at("j")}
        for part in found:

            def place(array: str, row: int) -> str:
                return f"frame[{row * TILE} + k]" if array == "frame" else at[array].at("i")

            write = Statements(body, inputs, stored, self._mathematics, "float64", place)
            lines, used = write.of(part, fused)
            if not instances & used:
                lines.append("(void)i;")
            names = sorted({at[each].array for each in used if each in at} - {""})
            texts.append((lines, [*names, *(["frame"] if "frame" in used else [])]))
        what = f"{count} instances of {body.operations} operations"
        if steps is not None:
            what += f", in {len(steps) - 1} steps"
        if len(texts) == 1:
            (lines, arrays), independent = texts[0], f"{self._macro}_LANES"
            opening, first, stop = self._stepped(count, steps, narrow=True)
            if stop is None:
                independent, stop = "", str(count)
            loop = [*([independent] if independent else []), f"for (ptrdiff_t i = {first}; i < {stop}; i++) {{"]
            inner = [*loop, *(f"    {line}" for line in lines), "}"]
            self._function(what, arrays, _nested(opening, inner))
            return
        self._tiled(what, count, steps, texts, slots)

    def _tiled(
        self,
        what: str,
        count: int,
        steps: NDArray[np.int64] | None,
        texts: Sequence[tuple[list[str], list[str]]],
        slots: int,
    ) -> None:
        """A long body: functions for its parts, through which a few instances go at a time."""
        calls, every = [], set[str]()
        for part, (lines, arrays) in enumerate(texts):
            function = f"{self._name}_loop{len(self.calls)}_part{part}"
            parameters = ", ".join([*map(self._parameter, arrays), "ptrdiff_t first", "ptrdiff_t count"])
            text = [
                f"{self._macro}_APART void {function}({parameters}) {{",
                f"    {self._macro}_LANES",
                "    for (ptrdiff_t k = 0; k < count; k++) {",
                "        const ptrdiff_t i = first + k;",
                *(f"        {line}" for line in lines),
                "    }",
                "}\n",
            ]
            self.texts.append("\n".join(text))
            calls.append(f"{function}({', '.join([*arrays, 'first', 'count'])});")
            every.update(arrays)
        opening, first, stop = self._stepped(count, steps, narrow=False)
        inner = [
            f"for (ptrdiff_t first = {first}; first < {stop or count}; first += {TILE}) {{",
            f"    const ptrdiff_t left = {stop or count} - first, count = left < {TILE} ? left : {TILE};",
            *(f"    {call}" for call in calls),
            "}",
        ]
        frame = [f"double frame[{slots * TILE}];"] if slots else []
        self._function(what, sorted(every - {"frame"}), [*frame, *_nested(opening, inner)])

    def _stepped(
        self, count: int, steps: NDArray[np.int64] | None, *, narrow: bool
    ) -> tuple[list[str], str, str | None]:
        """A loop over the steps of a recurrence; the first instance of each, and the one after the last.

        Args:
            narrow: whether steps of few instances may be one stretch, computed instance by instance; the last is None
                then.
        """
        if steps is None:
            return [], "0", str(count)
        widths = np.diff(steps)
        if narrow and widths.max(initial=0) < WIDE:
            return [], "0", None
        if len(widths) and (widths == widths[0]).all():
            width = int(widths[0])
            return [f"for (ptrdiff_t step = 0; step < {count}; step += {width}) {{"], "step", f"step + {width}"
        table, _ = self._places.indices(steps)
        opening = [f"for (ptrdiff_t step = 0; step < {len(steps) - 1}; step++) {{"]
        return opening, f"{table}[step]", f"{table}[step + 1]"

    # Sums, products, copies ----------------------------------------------------------------------------------------

    def sums(self, terms: Reading, offsets: NDArray[np.int64], result: Reading) -> None:
        """Sums over segments of a column."""
        count, widths = len(offsets) - 1, np.diff(offsets)
        if (widths == widths[0]).all():
            width = int(widths[0])
            first, length = ("s" if width == 1 else f"{width} * s"), str(width)
        else:
            table, _ = self._places.indices(offsets)
            first, length = f"{table}[s]", f"{table}[s + 1] - {table}[s]"
        value = f"{result.at('s')} = {self._sum(terms, first, length)};"
        body = [f"for (ptrdiff_t s = 0; s < {count}; s++)", f"    {value}"]
        self._function(f"{count} sums of {int(offsets[-1])} terms", [terms.array, result.array], body)

    def _sum(self, terms: Reading, first: str, length: str) -> str:
        """The expression of a sum of so many terms from the first on."""
        if not terms.array:
            return f"{terms.at('')} * (double)({length})"
        if terms.table is not None:
            table, kind = terms.table
            suffix = INDEX_TYPES[kind]
            self._help(f"sum_{suffix}", f"const double *from, const {kind} *table", "from[table[AT]]")
            return f"{self._name}_sum_{suffix}({terms.array}, {table} + {first}, {length})"
        if terms.step == 1:
            self._help("sum_next", "const double *terms", "terms[AT]")
            return f"{self._name}_sum_next({terms.array} + {terms.start} + {first}, {length})"
        self._help("sum_apart", "const double *terms, ptrdiff_t step", "terms[(AT) * step]")
        at = f"{terms.array} + {terms.start} + {terms.step} * ({first})"
        return f"{self._name}_sum_apart({at}, {terms.step}, {length})"

    def _help(self, which: str, parameters: str, term: str) -> None:
        text = _SUM.replace("sum_KIND", which).replace("PARAMETERS", parameters)
        for turn in ("k + j", "k"):
            text = text.replace(f"TERM({turn})", term.replace("AT", turn))
        self._helpers[which] = text.replace("NAME", self._macro).replace("name_", f"{self._name}_")

    def product(self, shape: tuple[int, int, int], left: Reading, right: Reading, result: Reading) -> None:
        """A product of an m × k matrix and a k × n one, whose rows follow each other in the result."""
        m, k, n = shape
        what = f"product of {m} x {k} and {k} x {n}"
        opening: list[str] = []
        a, down, along = self._matrix(left, (m, k), opening)
        b, deep, across = self._matrix(right, (k, n), opening)
        arrays = [left.array, right.array, result.array, *([WORK] if opening else [])]
        if along == 1 and deep == 1 and (n == 1 or across != 1):
            self._helpers["dot"] = _DOT.replace("NAME", self._macro).replace("name_", f"{self._name}_")
            to = f"{result.array}[{result.start} + {n} * i + j]"
            loops = [
                f"for (ptrdiff_t i = 0; i < {m}; i++)",
                f"    for (ptrdiff_t j = 0; j < {n}; j++)",
                f"        {to} = {self._name}_dot({a} + {down} * i, {b} + {across} * j, {k});",
            ]
            self._function(what, arrays, [*opening, *loops])
            return
        if n == 1:  # the transposed product, whose rows are long
            m, n, a, along, b, deep, across = 1, m, b, deep, a, along, down
        to = f"{result.array}[{result.start} + {n} * i + j]"
        loops = [
            f"for (ptrdiff_t i = 0; i < {m}; i++) {{",
            f"    for (ptrdiff_t j = 0; j < {n}; j++) {to} = 0.0;",
            f"    for (ptrdiff_t p = 0; p < {k}; p++) {{",
            f"        const double factor = ({a})[{down if m > 1 else 0} * i + {along} * p];",
            f"        {self._macro}_LANES",
            f"        for (ptrdiff_t j = 0; j < {n}; j++)",
            f"            {to} = {self._macro}_MADD(factor, ({b})[{deep} * p + {across} * j], {to});",
            "    }",
            "}",
        ]
        self._function(what, arrays, [*opening, *loops])

    def _matrix(self, reading: Reading, shape: tuple[int, int], opening: list[str]) -> tuple[str, int, int]:
        """Where a matrix begins, and its strides; what lies anywhere is brought together first."""
        rows, columns = shape
        if reading.places is None:
            return f"{reading.array} + {reading.start}", reading.step * columns, reading.step
        table = reading.places.reshape(shape)
        down = int(table[1, 0] - table[0, 0]) if rows > 1 else columns
        along = int(table[0, 1] - table[0, 0]) if columns > 1 else 1
        start = int(table[0, 0])
        if np.array_equal(table, start + down * np.arange(rows)[:, np.newaxis] + along * np.arange(columns)):
            return f"{reading.array} + {start}", down, along
        at = self._places.reserve(rows * columns)
        opening.append(f"for (ptrdiff_t i = 0; i < {rows * columns}; i++) {WORK}[{at} + i] = {reading.at('i')};")
        return f"{WORK} + {at}", columns, 1

    def scatter(self, count: int, source: Reading, result: str, table: tuple[str, str]) -> None:
        """Numbers that go to the places of a table."""
        line = f"for (ptrdiff_t i = 0; i < {count}; i++) {result}[{table[0]}[i]] = {source.at('i')};"
        self._function(f"{count} numbers that are returned", [source.array, result], [line])

    # Functions -------------------------------------------------------------------------------------------------------

    def _parameter(self, array: str) -> str:
        return f"{'const ' * (array in self._given)}double *restrict {array}"

    def _function(self, what: str, arrays: Sequence[str], lines: Sequence[str]) -> None:
        name = f"{self._name}_loop{len(self.calls)}"
        # tables are known everywhere
        distinct, tables = [each for each in dict.fromkeys(arrays) if each], f"{self._name}_values"
        names = [each for each in distinct if not each.startswith(tables)]
        opening: list[str] = []
        for table in distinct:
            if not table.startswith(tables) or not any(f"{table}[" in line for line in lines):
                continue
            opening += hidden(table, self._macro)
            lines = [line.replace(f"{table}[", f"{table}_here[") for line in lines]
        head = f"{self._macro}_APART void {name}({', '.join(map(self._parameter, names)) or 'void'}) {{"
        self.texts.append("\n".join([f"/* {what} */", head, *(f"    {line}" for line in [*opening, *lines]), "}\n"]))
        self.calls.append(f"{name}({', '.join(names)});")


def hidden(table: str, macro: str) -> list[str]:
    """Return lines that name a table anew, so that compilers do not see the numbers in it.

    Where it has AVX-512, gcc 12.2 copies 1, 1, 1, 0, 0, 0 as 1, 1, 1, 1, 0, 0.
    """
    return [f"const double *{table}_here = {table};", f"{macro}_HIDDEN({table}_here);"]


def _nested(opening: Sequence[str], inner: Sequence[str]) -> list[str]:
    """Lines within a loop, if there is one."""
    return [*opening, *(f"    {line}" for line in inner), "}"] if opening else [*inner]
