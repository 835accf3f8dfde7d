"""C99 of a scalar program: one function for a point, and functions for points that lie anywhere in memory.

The points of a tile (eight or so) are computed together: each value of the program is a row of numbers, one per point,
and the program is the body of a loop over them, which compilers turn into vector instructions. For a single point the
same text is a loop of one iteration.

Points are moved into a tile, and results out of it, in any layout: row by row, column by column, or shared by all. In a
tile the numbers of one entry, one per point, are consecutive. Between tiles and consecutive points, squares of four or
eight points and four entries are transposed in registers where x86 has instructions for that: loops that compilers
vectorise take twice as long. Elsewhere a pragma declares the iterations of the loops independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from accumulus.tape.live import as_written
from accumulus.targets.c.c_expressions import Mathematics, WrittenBody, literal
from accumulus.targets.c.c_header import BYTES, COMPILED, Result, Source, framed, function_text, only_if, table_text
from accumulus.targets.c.c_tables import TableBody, follower, written_size
from accumulus.targets.kernel import Unit
from accumulus.targets.schedule import Stretch

#: Largest number of operations and stores of a function. Compilers give up vectorising loops with many more; shorter
#: functions pass more values through memory.
LONGEST_PART: Final = 400
#: Number of points of a tile, for vectors of 64 bytes. With fewer points wide vectors stay partly empty, with more the
#: stack of a tile grows.
TILE: Final = {"float64": 8, "float32": 16}
#: Largest number of bytes of stack for a tile; tiles are made smaller to fit. More may overflow the stacks of threads,
#: less leaves long programs with tiles narrower than a vector.
MOST_STACK: Final = 256 << 10


class CSource(Source):
    """A C99 file of a scalar program.

    Attributes:
        tile: largest number of points that are computed together.
    """

    def __init__(self, unit: Unit, name: str = "f") -> None:
        super().__init__(unit, name, Result)
        dtype, self._compact = unit.dtype, unit.compact
        self._mathematics = Mathematics(name, dtype, in_tiles=not unit.compact)
        entries = [(array.name, k) for array in self._arguments for k in range(array.rows)]
        self._body = WrittenBody(
            unit.tape, entries, self._results, self._mathematics, exact=unit.exact, longest=LONGEST_PART
        )
        self._slots = self._body.slots
        #: Text of each part, its arrays, and True if it reports points that its functions do not cover.
        table = self._table(unit) if unit.compact else None
        self._parts = [self._write_function(number, part) for number, part in enumerate(self._body.parts)]
        if table is not None:
            self._slots, self._parts = 0, [table]
        self.tile, stack = TILE[dtype], self._stack()
        while self.tile > 1 and stack[1] * self.tile > MOST_STACK:
            self.tile //= 2
        self.header = self._header(unit.operations, stack, self.tile)
        if unit.compact:
            batches = only_if(f"{self._macro}_BATCHES", [self._one_by_one(), self._batch()])
            bodies = [*(text for text, *_ in self._parts), self._point(), *batches]
            before = [*self._mathematics.prelude(), *self._tables()]
        else:
            bodies = [*(text for text, *_ in self._parts), self._point(), *self._again()]
            bodies += [self._strided(), self._batch()]
            before = [*self._mathematics.prelude(), *self._tables(), self._moving(), *self._squares()]
        self.code = "\n".join([*before, *bodies]) + "\n"

    def _header(self, operations: int, stack: tuple[int, int], tile: int) -> str:
        """Return the text of the header.

        Args:
            operations: number of operations of the program.
            stack: approximate bytes of stack for one point, and for each point of a tile.
            tile: largest number of points of a tile.
        """
        macro, name = self._macro, self._name
        arrays, sizes, tables = [], [], []
        for argument in self._arguments:
            shape = " x ".join(map(str, argument.shape)) or "1"
            arrays.append(f" *   {argument.name}: {shape} {'number' if argument.rows == 1 else 'numbers'}, given.")
            sizes.append(f"#define {macro}_{argument.name.upper()}_SIZE {argument.rows}")
        for result in self._results:
            n, stored = result.name, len(result.positions)
            description = f"{result.length} {'number' if result.length == 1 else 'numbers'}, written"
            sizes.append(f"#define {macro}_{n.upper()}_SIZE {result.length}")
            if not result.is_filled:
                description += f"; zero at every point but for {stored} of them"
                sizes.append(f"#define {macro}_{n.upper()}_NONZEROS {stored}")
                if stored:
                    description += f", those at {name}_{n}_positions"
                    tables.append(f"extern const int {name}_{n}_positions[{stored}]")
            arrays.append(f" *   {n}: {description}.")
        lines = [
            f"/* C99; {operations} operations. Nothing is allocated, there is no state, threads may call in parallel.",
            " *",
            f" * {name} computes one point, {name}_batch consecutive points.",
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
        return framed(macro, lines, [*tables, self._declared_point, self._declared_batch, self._declared_strided])

    def _stack(self) -> tuple[int, int]:
        """Return the stack bytes of one point, and of each point of a tile; compilers keep most values there."""
        size, values = BYTES[self._dtype], self._slots + LONGEST_PART
        apart = sum(result.rows for result in self._results if not result.whole)
        # twice, since a point of a tile may be recomputed separately
        return size * (values + apart), size * (
            values + (1 + self._is_checked) * sum(each.rows for each in self._arrays)
        )

    # The program itself ------------------------------------------------------------------------------------------

    def _write_function(self, number: int, part: Stretch) -> tuple[str, list[str], bool]:
        """Return one part as a function of a row of points, its arrays, and True if it reports unfit points."""
        lines, used = self._body.statements(part, _of_point if self._compact else _at)
        arrays = [array.name for array in self._arrays]
        names = [name for name in (*arrays, "frame") if name in used]
        read_only = {array.name for array in self._arguments}
        parameters = [f"{'const ' * (each in read_only)}{self._real} *restrict {each}" for each in names]
        if self._compact:
            head = f"{self._macro}_APART void {self._name}_point{number}({', '.join(parameters)})"
            return function_text(head, lines), names, False
        # functions of parts report points that their elementary functions do not cover
        calls = [f"{self._name}_{each}(" for each in self._mathematics.elementary]
        checked = any(call in line for call in calls for line in lines)
        kind, first, last = "void", [], []
        if checked:  # compilers vectorise a mask for each point, but not one mask for all
            kind, first = "int", [f"uint64_t unfit_at[{self._macro}_TILE], any = 0;"]
            lines = ["uint64_t unfit = 0;", *lines, "unfit_at[k] = unfit;"]
            last = ["for (ptrdiff_t k = 0; k < S; k++) any |= unfit_at[k];", "return any != 0;"]
        head = f"{self._macro}_INLINE {kind} {self._name}_part{number}"
        loop = ["for (ptrdiff_t k = 0; k < S; k++) {", *(f"    {line}" for line in lines), "}"]
        text = [function_text(f"{head}({', '.join([*parameters, 'const ptrdiff_t S'])})", [*first, *loop, *last])]
        # compiled separately for a point and for a tile
        for of, size in (("point", "1"), ("tile", f"{self._macro}_TILE")):
            call = f"{self._name}_part{number}({', '.join([*names, size])});"
            kind, answer = ("int", "return ") if checked and of == "tile" else ("void", "(void)" * checked)
            head = f"{self._macro}_APART {kind} {self._name}_{of}{number}({', '.join(parameters)})"
            text.append(function_text(head, [f"{answer}{call}"]))
        return "\n".join(text), names, checked

    def _table(self, unit: Unit) -> tuple[str, list[str], bool] | None:
        """Return the program as a table that one function interprets; None if that is no shorter."""
        tape = unit.tape
        if self._real != "double" or unit.exact or any(as_written(tape)):
            return None
        table = TableBody.of(tape)
        if table is None or table.size >= written_size(tape):
            return None
        name, kind, registers = self._name, table.kind, dict(enumerate(table.outputs))
        texts = [
            follower(f"{name}_follow", self._macro, table, 1, self._mathematics),
            table_text(f"static const {kind} {name}_operations", list(map(str, table.operations.ravel().tolist()))),
        ]
        lines, at = [f"double registers[{table.registers}];"], len(table.constants)
        if at:
            constants = [literal(value, "float64") for value in table.constants]
            texts.append(table_text(f"static const double {name}_constants", constants))
            lines.append(f"for (ptrdiff_t i = 0; i < {at}; i++) registers[i] = {name}_constants[i];")
        for argument in self._arguments:
            if argument.rows:
                lines.append(
                    f"for (ptrdiff_t i = 0; i < {argument.rows}; i++) registers[{at} + i] = {argument.name}[i];"
                )
            at += argument.rows
        lines.append(f"{name}_follow(registers, {name}_operations, {len(table.operations)});")
        for result in self._results:
            if not result.outputs:
                continue
            n, sources = result.name, [str(registers[output]) for output in result.outputs]
            texts.append(table_text(f"static const {kind} {name}_{n}_registers", sources))
            to = "i" if result.is_filled or not result.whole else f"{name}_{n}_positions[i]"
            lines.append(
                f"for (ptrdiff_t i = 0; i < {len(sources)}; i++) {n}[{to}] = registers[{name}_{n}_registers[i]];"
            )
        names = [each.name for each in self._arrays if each.rows]
        read_only = {array.name for array in self._arguments}
        parameters = [f"{'const ' * (each in read_only)}double *restrict {each}" for each in names]
        texts.append(function_text(f"{self._macro}_APART void {name}_point0({', '.join(parameters)})", lines))
        return "\n".join(texts), names, False

    def _one_by_one(self) -> str:
        """Return the function of points anywhere that computes them one after the other."""
        lines: list[str] = []
        inside: list[str] = []
        after: list[str] = []
        arguments: list[str] = []
        results = {result.name for result in self._results}
        for array in self._arrays:
            n = array.name
            if not array.length:
                lines.append(f"(void){n}; (void){n}_point; (void){n}_entry;")
                arguments.append(n)
                continue
            lines.append(f"{self._real} {n}_one[{array.length}];")
            arguments.append(f"{n}_one")
            entry = f"{n}[(ptrdiff_t)k * {n}_point + i * {n}_entry]"
            each = f"for (ptrdiff_t i = 0; i < {array.length}; i++)"
            (after if n in results else inside).append(
                f"{each} {entry} = {n}_one[i];" if n in results else f"{each} {n}_one[i] = {entry};"
            )
        call = f"{self._name}({', '.join(arguments)});"
        loop = ["for (size_t k = 0; k < points; k++) {", *(f"    {line}" for line in (*inside, call, *after)), "}"]
        ordered = sorted(lines, key=lambda line: line.startswith("("))
        return function_text(self._declared_strided, [*ordered, *loop])

    def _calls(self, kind: str, stored: Mapping[str, str]) -> list[str]:
        """Return calls of all parts, with arrays replaced by their names in `stored`."""
        return [
            f"{'unfit |= ' * (checked and kind == 'tile')}"
            f"{self._name}_{kind}{number}({', '.join(stored.get(name, name) for name in names)});"
            for number, (_, names, checked) in enumerate(self._parts)
        ]

    # Public functions ------------------------------------------------------------------------------------------------

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
        return function_text(self._declared_point, [*lines, *before, *self._calls("point", stored), *after])

    @property
    def _is_checked(self) -> bool:
        """True if tiles may have points that their elementary functions do not cover."""
        return any(checked for *_, checked in self._parts)

    def _again(self) -> list[str]:
        """Return code that recomputes a tile point by point, if its elementary functions may not cover some points."""
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
            # results, too, so that structural zeros stay zero
            into.append(f"{each} {n}_one[i] = {n}_tile[i * {tile} + k];")
            if n in results:
                back.append(f"{each} {n}_tile[i * {tile} + k] = {n}_one[i];")
        calls = self._calls("point", {array.name: f"{array.name}_one" for array in arrays})
        inside = [f"    {line}" for line in (*into, *calls, *back)]
        parameters = [
            f"{'const ' * (each.name not in results)}{self._real} *restrict {each.name}_tile" for each in arrays
        ]
        head = f"{self._macro}_APART void {self._name}_again({', '.join(parameters)})"
        return [function_text(head, [*lines, f"for (ptrdiff_t k = 0; k < {tile}; k++) {{", *inside, "}"])]

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
            if result.length and not result.is_filled and result.whole:  # the tile's structural zeros stay zero
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
            return function_text(self._declared_strided, [*lines, "(void)points;"])
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
        # declarations first, as in C89
        return function_text(
            self._declared_strided, [*sorted(lines, key=lambda line: line.startswith(("(", "for"))), *loop]
        )

    def _batch(self) -> str:
        arguments = [f"{array.name}, {array.length}, 1" for array in self._arrays]
        return function_text(self._declared_batch, [f"{self._name}_strided({', '.join(['points', *arguments])});"])

    def _tables(self) -> list[str]:
        """Return tables of the entries that are not structural zeros."""
        lines = []
        for result in self._results:
            if result.is_filled or not result.positions:
                continue
            name = f"{self._name}_{result.name}_positions"
            lines.append(table_text(f"const int {name}", list(map(str, result.positions))))
        return lines

    def _squares(self) -> list[str]:
        """Return tables of the starts of squares: first squares to transpose, then squares of zeros."""
        lines = []
        for result in self._results:
            squares = [*result.squares[0], *result.squares[1]]
            if squares:
                name = f"{self._name}_{result.name}_squares"
                lines.append(table_text(f"static const int {name}", list(map(str, squares))))
        return [f"#ifdef {self._macro}_SQUARES", *lines, "#endif\n"] if lines else []

    def _moving(self) -> str:
        """Return functions that bring points into a tile, and results out of it."""
        kinds = {"take"} if any(argument.rows for argument in self._arguments) else set()
        for result in self._results:
            if result.length and not result.whole:
                kinds.add("clear")
            if result.rows:
                kinds.add("give" if result.whole else "scatter")
            if result.squares[0]:
                kinds.add("patch")
        squares = _SQUARE[self._real] if {"take", "give"} & kinds else ""
        text = squares + "".join(each for kind, each in _TEXTS.items() if kind in kinds)
        for word, meaning in (
            ("LAYOUT", "ptrdiff_t point, ptrdiff_t entry, ptrdiff_t count"),
            ("INLINE", f"{self._macro}_INLINE"),
            ("INDEPENDENT", f"{self._macro}_INDEPENDENT"),
            ("TILE", f"{self._macro}_TILE"),
            ("MACRO", self._macro),
            ("REAL", self._real),
            ("NAME", self._name),
        ):
            text = text.replace(word, meaning)
        return text


def _of_point(array: str, row: int) -> str:
    """Return the expression of a number of the only point."""
    return f"{array}[{row}]"


def _at(array: str, row: int) -> str:
    """Return the expression of a point's number in a row of a tile."""
    index = "k" if not row else "S + k" if row == 1 else f"{row} * S + k"
    return f"{array}[{index}]"


# Moving points into tiles, and results out of them --------------------------------------------------------------------

#: Transposition of rows of four numbers to columns.
_SQUARE: Final = {
    "double": """
#if defined(__AVX512F__) && TILE % 8 == 0
#include <immintrin.h>
#define MACRO_SQUARES 8

/* four entries of eight points, to four rows of the tile: what follows loads whole rows, which are stored whole */
INLINE void NAME_turn_in(double *restrict to, ptrdiff_t column, const double *restrict from, ptrdiff_t row) {
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    __m512d rows[4];
    for (int i = 0; i < 4; i++) {
        const __m512d half = _mm512_castpd256_pd512(_mm256_loadu_pd(from + i * row));
        rows[i] = _mm512_insertf64x4(half, _mm256_loadu_pd(from + (i + 4) * row), 1);
    }
    const __m512d ab = _mm512_unpacklo_pd(rows[0], rows[1]), cd = _mm512_unpacklo_pd(rows[2], rows[3]);
    const __m512d ba = _mm512_unpackhi_pd(rows[0], rows[1]), dc = _mm512_unpackhi_pd(rows[2], rows[3]);
    _mm512_storeu_pd(to, _mm512_permutex2var_pd(ab, even, cd));
    _mm512_storeu_pd(to + column, _mm512_permutex2var_pd(ba, even, dc));
    _mm512_storeu_pd(to + 2 * column, _mm512_permutex2var_pd(ab, odd, cd));
    _mm512_storeu_pd(to + 3 * column, _mm512_permutex2var_pd(ba, odd, dc));
}

INLINE void NAME_turn_out(double *restrict to, ptrdiff_t column, const double *restrict from, ptrdiff_t row) {
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const __m512d a = _mm512_loadu_pd(from), b = _mm512_loadu_pd(from + row);
    const __m512d c = _mm512_loadu_pd(from + 2 * row), d = _mm512_loadu_pd(from + 3 * row);
    const __m512d ab = _mm512_unpacklo_pd(a, b), cd = _mm512_unpacklo_pd(c, d);
    const __m512d ba = _mm512_unpackhi_pd(a, b), dc = _mm512_unpackhi_pd(c, d);
    const __m512d pairs[4] = {
        _mm512_permutex2var_pd(ab, first, cd), _mm512_permutex2var_pd(ba, first, dc),
        _mm512_permutex2var_pd(ab, last, cd), _mm512_permutex2var_pd(ba, last, dc),
    };
    for (int i = 0; i < 4; i++) {  /* points 0 and 2, 1 and 3, 4 and 6, 5 and 7 */
        double *const place = to + (i + (i & 2)) * column;
        _mm256_storeu_pd(place, _mm512_castpd512_pd256(pairs[i]));
        _mm256_storeu_pd(place + 2 * column, _mm512_extractf64x4_pd(pairs[i], 1));
    }
}
#elif defined(__AVX__) && TILE % 4 == 0
#include <immintrin.h>
#define MACRO_SQUARES 4
#define NAME_turn_in NAME_turn
#define NAME_turn_out NAME_turn

INLINE void NAME_turn(double *restrict to, ptrdiff_t column, const double *restrict from, ptrdiff_t row) {
    const __m256d a = _mm256_loadu_pd(from), b = _mm256_loadu_pd(from + row);
    const __m256d c = _mm256_loadu_pd(from + 2 * row), d = _mm256_loadu_pd(from + 3 * row);
    const __m256d ab = _mm256_unpacklo_pd(a, b), cd = _mm256_unpacklo_pd(c, d);
    const __m256d ba = _mm256_unpackhi_pd(a, b), dc = _mm256_unpackhi_pd(c, d);
    _mm256_storeu_pd(to, _mm256_permute2f128_pd(ab, cd, 0x20));
    _mm256_storeu_pd(to + column, _mm256_permute2f128_pd(ba, dc, 0x20));
    _mm256_storeu_pd(to + 2 * column, _mm256_permute2f128_pd(ab, cd, 0x31));
    _mm256_storeu_pd(to + 3 * column, _mm256_permute2f128_pd(ba, dc, 0x31));
}
#endif
""",
    "float": """
#if defined(__SSE__) && TILE % 4 == 0
#include <xmmintrin.h>
#define MACRO_SQUARES 4
#define NAME_turn_in NAME_turn
#define NAME_turn_out NAME_turn

INLINE void NAME_turn(float *restrict to, ptrdiff_t column, const float *restrict from, ptrdiff_t row) {
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + row);
    __m128 c = _mm_loadu_ps(from + 2 * row), d = _mm_loadu_ps(from + 3 * row);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + column, b);
    _mm_storeu_ps(to + 2 * column, c);
    _mm_storeu_ps(to + 3 * column, d);
}
#endif
""",
}
_TAKE: Final = """
INLINE void NAME_take(REAL *restrict to, const REAL *restrict from, ptrdiff_t entries, LAYOUT) {
    if (count == TILE && point == 1) {
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++) to[i * TILE + k] = from[i * entry + k];
#ifdef MACRO_SQUARES
    } else if (count == TILE && entry == 1 && entries >= 4) {
        for (ptrdiff_t j = 0; j < entries; j += 4) {
            const ptrdiff_t i = j + 4 < entries ? j : entries - 4;  /* the last square may overlap the one before */
            for (ptrdiff_t k = 0; k < TILE; k += MACRO_SQUARES)
                NAME_turn_in(to + i * TILE + k, TILE, from + k * point + i, point);
        }
#endif
    } else if (count == TILE && entry == 1) {
        INDEPENDENT
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++) to[i * TILE + k] = from[k * point + i];
    } else {  /* places behind the last point hold it again */
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++)
                to[i * TILE + k] = from[(k < count ? k : count - 1) * point + i * entry];
    }
}
"""
_GIVE: Final = """
INLINE void NAME_give(REAL *restrict to, const REAL *restrict from, ptrdiff_t entries, LAYOUT) {
    if (count == TILE && point == 1) {
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++) to[i * entry + k] = from[i * TILE + k];
#ifdef MACRO_SQUARES
    } else if (count == TILE && entry == 1 && entries >= 4) {
        for (ptrdiff_t j = 0; j < entries; j += 4) {
            const ptrdiff_t i = j + 4 < entries ? j : entries - 4;  /* the last square may overlap the one before */
            for (ptrdiff_t k = 0; k < TILE; k += MACRO_SQUARES)
                NAME_turn_out(to + k * point + i, point, from + i * TILE + k, TILE);
        }
#endif
    } else if (count == TILE && entry == 1) {
        INDEPENDENT
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++) to[k * point + i] = from[i * TILE + k];
    } else {
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0; i < entries; i++) to[k * point + i * entry] = from[i * TILE + k];
    }
}
"""
_PATCH: Final = """
#ifdef MACRO_SQUARES
/* as NAME_give, where many squares of four entries hold zeros alone: those behind the filled ones */
INLINE void NAME_patch(REAL *restrict to, const REAL *restrict from, ptrdiff_t point,
                       const int *restrict squares, ptrdiff_t filled, ptrdiff_t all) {
    for (ptrdiff_t j = 0; j < filled; j++)
        for (ptrdiff_t k = 0; k < TILE; k += MACRO_SQUARES)
            NAME_turn_out(to + k * point + squares[j], point, from + squares[j] * TILE + k, TILE);
    for (ptrdiff_t j = filled; j < all; j++)
        for (ptrdiff_t k = 0; k < TILE; k++)
            for (ptrdiff_t i = 0; i < 4; i++) to[k * point + squares[j] + i] = 0;
}
#endif
"""
_SCATTER: Final = """
INLINE void NAME_scatter(REAL *restrict to, const REAL *restrict from, ptrdiff_t entries, LAYOUT,
                         const int *restrict positions) {
    if (count == TILE && point == 1) {
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < TILE; k++) to[positions[i] * entry + k] = from[i * TILE + k];
    } else {
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0; i < entries; i++) to[k * point + positions[i] * entry] = from[i * TILE + k];
    }
}
"""
_CLEAR: Final = """
INLINE void NAME_clear(REAL *restrict to, ptrdiff_t entries, LAYOUT) {
    if (entry == 1 && point == entries) {
        for (ptrdiff_t i = 0; i < count * entries; i++) to[i] = 0;
    } else {
        for (ptrdiff_t i = 0; i < entries; i++)
            for (ptrdiff_t k = 0; k < count; k++) to[k * point + i * entry] = 0;
    }
}
"""
#: Functions that move points into a tile; entries out of it, consecutive ones, the same with many zeros, or to the
#: positions of a table; and zeros.
_TEXTS: Final = {"take": _TAKE, "give": _GIVE, "patch": _PATCH, "scatter": _SCATTER, "clear": _CLEAR}
