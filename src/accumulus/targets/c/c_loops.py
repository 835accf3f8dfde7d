"""C99 source of a program over arrays: its loop nests, one after the other, for one point and for consecutive points.

Loops pass numbers to each other in a work space that the caller provides. So there is no allocation, no state, and
little stack use; several threads may call at the same time, each with its own work space.

Each nest is a function that takes only the arrays that it reads and writes; the operations of a body are written as in
scalar programs. Sums have eight partial sums, which compilers vectorise, and so have products of contiguous rows and
columns; other products of matrices are accumulated row by row. Operands that lie in a few stretches of memory are first
copied into one; tables locate all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.blocks import CHOLESKY, GATHER, LOG_DETERMINANT, MATMUL, ORTHOGONAL, SCATTER
from accumulus.tape.sparse_systems import SparseMatrix
from accumulus.targets.c.c_expressions import Mathematics, WrittenBody
from accumulus.targets.c.c_header import BYTES, COMPILED, ArrayParameter, Result, Source, framed, function_text, only_if
from accumulus.targets.c.c_places import (
    INDEX_TYPES,
    MOST_STRETCHES,
    WORK,
    ArrayPlaces,
    OperandPlace,
    affine,
    moves,
    place_at,
    stretches,
)
from accumulus.targets.c.c_tables import TableBody, follower, written_size
from accumulus.targets.kernel import Segment, Unit
from accumulus.targets.nests import Nest, Nests, Place, check_written

#: Largest number of operations and stores of a function. Bodies of a thousand operations run twice as fast in one
#: function as in several, and compile in the same time. Compile time grows with the square of the length, so longer
#: functions would compile slowly.
LOOP_PART: Final = 2000
#: Number of instances that go through the functions of a long body together. More instances take stack and leave the
#: cache, fewer make more calls for the same work.
TILE: Final = 64
#: Operands of fewer than `SHORTEST_TABLE` instances are read through tables; recurrences read an operand without a
#: table if it lies in at most `MOST_PIECES` stretches. More instances read more operands through tables, fewer write
#: out loops over few instances. More stretches make the text longer and branch more, fewer read more operands through
#: tables.
SHORTEST_TABLE, MOST_PIECES = 64, 4
#: Least number of operations of a body that is written as a table of operations, where possible. With a larger number,
#: bodies are written out that run faster but take longer to compile; with a smaller one, short bodies are interpreted.
LONG_BODY: Final = 300
#: Steps of recurrences with fewer instances than this are computed one instance after the other. A loop over few
#: instances costs more than it vectorises; a larger number leaves instances unvectorised.
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
#: The same for tables of fewer than eight entries: gcc warns that eight of them would be too many.
_SHORT_SUM: Final = """\
NAME_INLINE double name_sum_KIND(PARAMETERS, ptrdiff_t count) {
    double total = 0.0;
    for (ptrdiff_t k = 0; k < count; k++) total += TERM(k);
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
#: Gaussian elimination with partial pivoting, which returns the sign of the permutation; and back substitution.
_ELIMINATE: Final = """\
NAME_INLINE double name_eliminate(double *a, double *b, ptrdiff_t n, ptrdiff_t m) {
    double sign = 1.0;
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t pivot = k;
        for (ptrdiff_t i = k + 1; i < n; i++)
            if (fabs(a[n * i + k]) > fabs(a[n * pivot + k])) pivot = i;
        if (pivot != k) {
            sign = -sign;
            for (ptrdiff_t j = 0; j < n; j++) {
                const double entry = a[n * k + j];
                a[n * k + j] = a[n * pivot + j];
                a[n * pivot + j] = entry;
            }
            for (ptrdiff_t j = 0; j < m; j++) {
                const double entry = b[m * k + j];
                b[m * k + j] = b[m * pivot + j];
                b[m * pivot + j] = entry;
            }
        }
        if (a[n * k + k] == 0.0) continue;
        for (ptrdiff_t i = k + 1; i < n; i++) {
            const double factor = a[n * i + k] / a[n * k + k];
            for (ptrdiff_t j = k + 1; j < n; j++) a[n * i + j] -= factor * a[n * k + j];
            for (ptrdiff_t j = 0; j < m; j++) b[m * i + j] -= factor * b[m * k + j];
        }
    }
    return sign;
}

NAME_INLINE void name_substitute(const double *a, double *b, ptrdiff_t n, ptrdiff_t m) {
    for (ptrdiff_t i = n; i-- > 0;) {
        for (ptrdiff_t j = i + 1; j < n; j++)
            for (ptrdiff_t k = 0; k < m; k++) b[m * i + k] -= a[n * i + j] * b[m * j + k];
        for (ptrdiff_t k = 0; k < m; k++) b[m * i + k] /= a[n * i + i];
    }
}
"""


#: Householder reflections of an m × n matrix a, whose upper triangle becomes R and whose remaining entries become the
#: reflection vectors; and Q, to which they are applied from the last to the first. Signs are LAPACK's.
_ORTHOGONAL: Final = """\
NAME_INLINE void name_orthogonal(double *a, double *scales, double *r, double *q, ptrdiff_t m, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; j++) {
        const double first = a[n * j + j];
        double norm = 0.0;
        for (ptrdiff_t i = j + 1; i < m; i++) norm = hypot(norm, a[n * i + j]);
        scales[j] = 0.0;
        if (norm != 0.0) {
            const double last = first > 0.0 ? -hypot(first, norm) : hypot(first, norm);
            scales[j] = (last - first) / last;
            for (ptrdiff_t i = j + 1; i < m; i++) a[n * i + j] /= first - last;
            a[n * j + j] = last;
        }
        for (ptrdiff_t k = j + 1; k < n; k++) {
            double sum = a[n * j + k];
            for (ptrdiff_t i = j + 1; i < m; i++) sum += a[n * i + j] * a[n * i + k];
            a[n * j + k] -= scales[j] * sum;
            for (ptrdiff_t i = j + 1; i < m; i++) a[n * i + k] -= scales[j] * sum * a[n * i + j];
        }
    }
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t k = 0; k < n; k++) r[n * i + k] = i <= k ? a[n * i + k] : 0.0;
    for (ptrdiff_t i = 0; i < m; i++)
        for (ptrdiff_t k = 0; k < n; k++) q[n * i + k] = i == k ? 1.0 : 0.0;
    for (ptrdiff_t j = n; j-- > 0;) {
        for (ptrdiff_t k = j; k < n; k++) {
            double sum = q[n * j + k];
            for (ptrdiff_t i = j + 1; i < m; i++) sum += a[n * i + j] * q[n * i + k];
            q[n * j + k] -= scales[j] * sum;
            for (ptrdiff_t i = j + 1; i < m; i++) q[n * i + k] -= scales[j] * sum * a[n * i + j];
        }
    }
}
"""


#: Names that no result may have, besides the arguments' names.
_TAKEN: Final = (WORK, "step", "stop", "left", "total", "factor", "part", "sign", "logarithm", "pivot")


class LoopSource(Source):
    """A program over arrays as C99, with a function for each loop.

    Args:
        unit, name: as for `Source`.
        mathematics: functions of the language; C's functions if None.
        lanes: number of instances that go through the table of a long body together; 0 if all operations are written
            out.

    Attributes:
        work: number of numbers in the work space.
    """

    def __init__(self, unit: Unit, name: str = "f", mathematics: Mathematics | None = None, *, lanes: int = 0) -> None:
        super().__init__(unit, name, lambda each, segment: ArrayParameter(each, (segment.length,)), _TAKEN, WORK)
        inputs = [array.name for array in self._arguments]
        self._nests = Nests(unit)
        check_written(self._nests.every, "C or CUDA")
        columns = [column for nest in self._nests.every for column in nest.loads]
        lengths = list(zip(inputs, map(prod, unit.shapes), strict=True))
        self._places = ArrayPlaces(name, unit.tape, lengths, self._nests.kept, columns)
        self._mathematics = mathematics or Mathematics(name, "float64")
        self._inputs = frozenset(inputs)  # read-only arrays
        self._loops: list[str] = []
        self._calls: list[str] = []
        self._stack = 0  # largest number of numbers that a loop needs on the stack
        self._helpers: dict[str, str] = {}
        self._lanes, self._compact = lanes or int(unit.compact), unit.compact
        self._followers: dict[tuple[str, tuple[int, ...]], str] = {}
        for nest in self._nests.every:
            self._write(nest)
        self.operations = unit.operations
        self.work = self._places.size
        self.header, self.code = self._header(), self._code()

    # Loops ---------------------------------------------------------------------------------------------------------

    def _write(self, nest: Nest) -> None:
        read = self._places.reading
        if nest.body is None and nest.shape is not None:
            matrices, result = [read(column, single=False) for column in nest.loads], self._result(nest.stores[0])
            if nest.code == MATMUL:
                self._product(nest.shape, matrices[0], matrices[1], result)
            elif nest.code == CHOLESKY:
                self._factor(nest.shape, matrices[0], result)
            elif isinstance(nest.opaque, SparseMatrix):
                self._sparse_product(nest.opaque, nest.shape, matrices[0], result)
            elif nest.code in (GATHER, SCATTER):
                self._by_indices(nest.code, nest.shape, matrices, result)
            elif nest.code == ORTHOGONAL:
                self._orthogonal(nest.shape, matrices[0], result)
            else:
                self._system(nest.shape, matrices, result, is_logarithm=nest.code == LOG_DETERMINANT)
            return
        loads = [read(column) for column in nest.loads]
        stores = [self._result(store) for store in nest.stores]
        if nest.body is None:
            self._sums(nest, loads[0], stores[0])
        elif not nest.starts and self._copied(nest, loads[0], stores[0]):
            return
        elif nest.positions is not None:
            table = self._places.indices(nest.positions.astype("int64") + stores[0].start)
            self._scatter(nest.count, loads[0], stores[0].array, table)
        else:
            self._write_body(nest, loads, stores)

    def _copied(self, nest: Nest, source: OperandPlace, result: OperandPlace) -> bool:
        """Copy a returned result in a few stretches instead of by a long table; return True if that is possible."""
        is_table = not source.array or source.array.startswith(f"{self._name}_values")
        if is_table or nest.count < SHORTEST_TABLE or (nest.positions is None and source.places is None):
            return False
        every = np.arange(nest.count)
        places = source.start + source.step * every if source.places is None else source.places
        positions = (every if nest.positions is None else nest.positions.astype(np.int64)) + result.start
        return self._copy(source, places, result.array, positions)

    def _result(self, store: int | Place) -> OperandPlace:
        if isinstance(store, Place):
            return OperandPlace(self._results[store.segment].name, store.offset)
        return OperandPlace(WORK, self._places.work_offset(store))

    # Bodies --------------------------------------------------------------------------------------------------------

    def _write_body(self, nest: Nest, loads: Sequence[OperandPlace], stores: Sequence[OperandPlace]) -> None:
        """Write a body, or a recurrence."""
        body, count, steps = nest.body, nest.count, nest.steps
        assert body is not None
        if self._lanes and steps is None and not nest.sensitive and (self._compact or body.operations >= LONG_BODY):
            table = TableBody.of(body)
            if table is not None and not (self._compact and table.size > written_size(body)):
                self._write_table(table, count, loads, stores)
                return
        before: list[str] = []
        sources, loads = loads, [self._together(reading, nest, before) for reading in loads]
        moved = [reading.array for reading in (*sources, OperandPlace(WORK)) if before]
        results = [Result(f"r{k}", Segment(1, (k,), (0,))) for k in range(len(body.outputs))]
        written = WrittenBody(
            body,
            [(f"p{k}", 0) for k in range(body.inputs)],
            results,
            self._mathematics,
            sensitive=nest.sensitive,
            longest=LOOP_PART,
        )
        at = dict(zip([f"p{k}" for k in range(body.inputs)], loads, strict=True))
        at |= dict(zip([result.name for result in results], stores, strict=True))
        self._stack = max(self._stack, written.slots * TILE + LOOP_PART)
        texts: list[tuple[list[str], list[str]]] = []
        instances = {each for each, reading in at.items() if reading.at("i") != reading.at("j")}

        def address(array: str, row: int) -> str:
            return f"frame[{row * TILE} + k]" if array == "frame" else at[array].at("i")

        for part in written.parts:
            lines, used = written.statements(part, address)
            if not instances & used:
                lines.append("(void)i;")
            names = sorted({at[each].array for each in used if each in at} - {""})
            texts.append((lines, [*names, *(["frame"] if "frame" in used else [])]))
        description = f"{count} instances of {body.operations} operations"
        if steps is not None:
            description += f", in {len(steps) - 1} steps"
        if len(texts) == 1:
            (lines, arrays), independent = texts[0], f"{self._macro}_LANES"
            opening, first, stop = self._stepped(count, steps, narrow=True)
            if stop is None:
                independent, stop = "", str(count)
            loop = [*([independent] if independent else []), f"for (ptrdiff_t i = {first}; i < {stop}; i++) {{"]
            inner = [*loop, *(f"    {line}" for line in lines), "}"]
            self._function(description, [*arrays, *moved], [*before, *_nested(opening, inner)])
            return
        self._tiled(description, nest, texts, written.slots, moved, before)

    def _write_table(
        self, table: TableBody, count: int, loads: Sequence[OperandPlace], stores: Sequence[OperandPlace]
    ) -> None:
        """Write a long body as a table of operations."""
        lanes, places, fixed = self._lanes, self._places, len(table.constants)
        key = table.kind, table.codes
        follow = self._followers.get(key)
        if follow is None:
            follow = self._followers[key] = f"{self._name}_follow{len(self._followers)}"
            self._helpers[follow] = follower(follow, self._macro, table, lanes, self._mathematics)
        operations = places.table("operations", table.kind, table.operations.reshape(-1))
        registers = f"{WORK} + {places.reserve(table.registers * lanes)}"
        lines = [f"double *const registers = {registers};"]
        if fixed:
            constants = places.table("constants", "double", np.array(table.constants))
            lines.append(f"for (ptrdiff_t k = 0; k < {fixed * lanes}; k++) registers[k] = {constants}[k / {lanes}];")
        lines += [
            f"for (ptrdiff_t first = 0; first < {count}; first += {lanes}) {{",
            f"    const ptrdiff_t left = {count} - first, count = left < {lanes} ? left : {lanes};",
            f"    for (ptrdiff_t k = 0; k < {lanes}; k++) {{  /* lanes beyond the last instance compute it again */",
            "        const ptrdiff_t i = first + (k < count ? k : count - 1);",
            *(
                f"        registers[{lanes * (fixed + row)} + k] = {reading.at('i')};"
                for row, reading in enumerate(loads)
            ),
            "    }",
            f"    {follow}(registers, {operations}, {len(table.operations)});",
        ]
        for places_of, array, start, apart in _rows(stores, table.outputs):
            if len(places_of) == 1:
                value = f"registers[{lanes * places_of[0]} + k]"
                to = f"{array}[{place_at(start, apart, '(first + k)')}]"
                lines.append(f"    for (ptrdiff_t k = 0; k < count; k++) {to} = {value};")
                continue
            chosen = places.table("registers", table.kind, np.array(places_of))
            lines += [
                f"    for (ptrdiff_t j = 0; j < {len(places_of)}; j++)",
                "        for (ptrdiff_t k = 0; k < count; k++)",
                f"            {array}[{start} + {apart} * j + first + k] = registers[{lanes} * {chosen}[j] + k];",
            ]
        arrays = [*(each.array for each in (*loads, *stores)), WORK]
        self._function(f"{count} instances of {len(table.operations)} operations in a table", arrays, [*lines, "}"])

    def _together(self, reading: OperandPlace, nest: Nest, before: list[str]) -> OperandPlace:
        """Return an operand without its long table if it lies in a few stretches, which are first copied into one.

        Recurrences, which use their own results, read the stretches in place; those with wide steps use a table.
        """
        places = reading.places
        if places is None or len(places) < SHORTEST_TABLE:
            return reading
        if nest.steps is None:
            at = self._places.size
            lines = moves(reading.array, places, WORK, at + np.arange(len(places)))
            if lines is None:
                return reading
            before += lines
            return OperandPlace(WORK, self._places.reserve(len(places)))
        ranges = stretches([places], MOST_PIECES) if np.diff(nest.steps).max(initial=0) < WIDE else None
        if ranges is None:
            return reading
        pieces = []
        for first, stop in ranges:
            start, step = affine(places, first, stop)
            pieces.append((stop, start - step * first, step))
        return replace(reading, table=None, pieces=pieces)

    def _tiled(
        self,
        description: str,
        nest: Nest,
        texts: Sequence[tuple[list[str], list[str]]],
        slots: int,
        moved: Sequence[str],
        before: Sequence[str],
    ) -> None:
        """Write a long body as a function for each part, called for `TILE` instances at a time."""
        calls, every, count = [], set(moved), nest.count
        for number, (lines, arrays) in enumerate(texts):
            name = f"{self._name}_loop{len(self._calls)}_part{number}"
            parameters = ", ".join([*map(self._parameter, arrays), "ptrdiff_t first", "ptrdiff_t count"])
            loop = [
                f"{self._macro}_LANES",
                "for (ptrdiff_t k = 0; k < count; k++) {",
                "    const ptrdiff_t i = first + k;",
                *(f"    {line}" for line in lines),
                "}",
            ]
            self._loops.append(function_text(f"{self._macro}_APART void {name}({parameters})", loop))
            calls.append(f"{name}({', '.join([*arrays, 'first', 'count'])});")
            every.update(arrays)
        opening, first, stop = self._stepped(count, nest.steps, narrow=False)
        inner = [
            f"for (ptrdiff_t first = {first}; first < {stop or count}; first += {TILE}) {{",
            f"    const ptrdiff_t left = {stop or count} - first, count = left < {TILE} ? left : {TILE};",
            *(f"    {call}" for call in calls),
            "}",
        ]
        frame = [f"double frame[{slots * TILE}];"] if slots else []
        self._function(description, sorted(every - {"frame"}), [*frame, *before, *_nested(opening, inner)])

    def _stepped(
        self, count: int, steps: NDArray[np.int64] | None, *, narrow: bool
    ) -> tuple[list[str], str, str | None]:
        """Return the head of a loop over the steps of a recurrence, a step's first instance, and its end.

        Args:
            count: number of instances.
            steps: offsets of the instances of each step; None without steps.
            narrow: if True, a recurrence whose steps have few instances may be one loop over all instances, one after
                the other; the end is None then.
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

    def _sums(self, nest: Nest, terms: OperandPlace, result: OperandPlace) -> None:
        """Write sums over segments of a column."""
        offsets = nest.offsets
        assert offsets is not None
        count, widths = nest.count, np.diff(offsets)
        before: list[str] = []
        arrays = [terms.array, result.array]
        if (widths == widths[0]).all():
            width = int(widths[0])
            if width < 8 and terms.places is not None and self._short_sums(terms, width, count, result):
                return
            terms = self._together(terms, nest, before)
            first, length = ("s" if width == 1 else f"{width} * s"), str(width)
        else:
            table, _ = self._places.indices(offsets)
            first, length = f"{table}[s]", f"{table}[s + 1] - {table}[s]"
        value = f"{result.at('s')} = {self._sum(terms, first, length)};"
        body = [f"for (ptrdiff_t s = 0; s < {count}; s++)", f"    {value}"]
        arrays += [WORK] if before else []
        self._function(f"{count} sums of {int(offsets[-1])} terms", arrays, [*before, *body])

    def _short_sums(self, terms: OperandPlace, width: int, count: int, result: OperandPlace) -> bool:
        """Write sums of a few terms each without a table, if these lie in a few stretches; return True if so."""
        assert terms.places is not None
        columns = [terms.places[k::width] for k in range(width)]
        ranges = None if len(terms.places) < SHORTEST_TABLE else stretches(columns, MOST_STRETCHES)
        lines = []
        for first, stop in ranges or ():
            total = " + ".join(f"{terms.array}[{place_at(*affine(column, first, stop), 's')}]" for column in columns)
            to = f"{result.array}[{place_at(result.start + result.step * first, result.step, 's')}]"
            lines.append(f"for (ptrdiff_t s = 0; s < {stop - first}; s++) {to} = 0.0 + {total};")
        if lines:
            self._function(f"{count} sums of {len(terms.places)} terms", [terms.array, result.array], lines)
        return bool(lines)

    def _sum(self, terms: OperandPlace, first: str, length: str) -> str:
        """Return the expression of a sum of `length` terms, beginning with `first`."""
        if not terms.array:
            return f"{terms.at('')} * (double)({length})"
        if terms.table is not None:
            table, kind = terms.table
            suffix = INDEX_TYPES[kind]
            is_short = terms.places is not None and len(terms.places) < 8
            which = f"sum_few_{suffix}" if is_short else f"sum_{suffix}"
            self._help(which, f"const double *from, const {kind} *table", "from[table[AT]]", is_short=is_short)
            return f"{self._name}_{which}({terms.array}, {table} + {first}, {length})"
        if terms.step == 1:
            self._help("sum_next", "const double *terms", "terms[AT]")
            return f"{self._name}_sum_next({terms.array} + {terms.start} + {first}, {length})"
        self._help("sum_apart", "const double *terms, ptrdiff_t step", "terms[(AT) * step]")
        at = f"{terms.array} + {terms.start} + {terms.step} * ({first})"
        return f"{self._name}_sum_apart({at}, {terms.step}, {length})"

    def _help(self, which: str, parameters: str, term: str, *, is_short: bool = False) -> None:
        text = (_SHORT_SUM if is_short else _SUM).replace("sum_KIND", which).replace("PARAMETERS", parameters)
        for turn in ("k + j", "k"):
            text = text.replace(f"TERM({turn})", term.replace("AT", turn))
        self._helpers[which] = text.replace("NAME", self._macro).replace("name_", f"{self._name}_")

    def _product(
        self, shape: tuple[int, int, int], left: OperandPlace, right: OperandPlace, result: OperandPlace
    ) -> None:
        """Write a product of an m × k and a k × n matrix; rows of the result are consecutive."""
        m, k, n = shape
        description = f"product of {m} x {k} and {k} x {n}"
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
            self._function(description, arrays, [*opening, *loops])
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
        self._function(description, arrays, [*opening, *loops])

    def _factor(self, shape: tuple[int, int, int], matrix: OperandPlace, result: OperandPlace) -> None:
        """Write code for the Cholesky factor of a symmetric matrix, in place."""
        n = shape[0]
        to = f"{result.array} + {result.start}"
        lines = [
            f"double *const factor = {to};",
            f"for (ptrdiff_t i = 0; i < {n * n}; i++) factor[i] = {matrix.at('i')};",
            f"for (ptrdiff_t j = 0; j < {n}; j++) {{",
            f"    for (ptrdiff_t i = j; i < {n}; i++) {{",
            f"        double left = factor[{n} * i + j];",
            f"        for (ptrdiff_t k = 0; k < j; k++) left -= factor[{n} * i + k] * factor[{n} * j + k];",
            f"        factor[{n} * i + j] = i == j ? sqrt(left) : left / factor[{n + 1} * j];",
            "    }",
            f"    for (ptrdiff_t i = 0; i < j; i++) factor[{n} * i + j] = 0.0;",
            "}",
        ]
        arrays = list(dict.fromkeys([matrix.array, result.array]))
        self._function(f"factor of {n} x {n}", arrays, lines)

    def _sparse_product(
        self, matrix: SparseMatrix, shape: tuple[int, int, int], x: OperandPlace, result: OperandPlace
    ) -> None:
        """Write a product with a constant sparse matrix, whose entries are in tables."""
        m, k, n = shape
        starts, columns = (self._places.indices(each.astype(np.int64))[0] for each in (matrix.starts, matrix.columns))
        entries = self._places.numbers(matrix.entries)
        number = x.at(f"({n} * {columns}[k] + j)" if n > 1 else f"{columns}[k]")
        lines = [
            f"double *const to = {result.array} + {result.start};",
            f"for (ptrdiff_t i = 0; i < {m}; i++)",
            f"    for (ptrdiff_t j = 0; j < {n}; j++) {{",
            "        double total = 0.0;",
            f"        for (ptrdiff_t k = {starts}[i]; k < {starts}[i + 1]; k++)",
            f"            total = {self._macro}_MADD({entries}[k], {number}, total);",
            f"        to[{n} * i + j] = total;",
            "    }",
        ]
        arrays = list(dict.fromkeys([*([x.array] if x.array else []), entries, result.array]))
        self._function(f"product of a sparse {m} x {k} and {k} x {n}", arrays, lines)

    def _by_indices(
        self, code: int, shape: tuple[int, int, int], operands: Sequence[OperandPlace], result: OperandPlace
    ) -> None:
        """Write a gather or scatter of rows; indices are taken modulo the number of rows."""
        m, k, n = shape
        (matrix, indices), counts, rows = operands, *((k, m) if code == GATHER else (m, k))
        at, source = ("i", "row") if code == GATHER else ("row", "i")
        lines = [f"double *const to = {result.array} + {result.start};"]
        if code == SCATTER:
            lines.append(f"for (ptrdiff_t i = 0; i < {m * n}; i++) to[i] = 0.0;")
        lines += [
            f"for (ptrdiff_t i = 0; i < {rows}; i++) {{",
            f"    const double index = {indices.at('i')};",
            f"    ptrdiff_t row = index > -1e15 && index < 1e15 ? (ptrdiff_t)index % {counts} : 0;",
            f"    if (row < 0) row += {counts};",
            f"    for (ptrdiff_t j = 0; j < {n}; j++)",
            f"        to[{n} * {at} + j] {'=' if code == GATHER else '+='} {matrix.at(f'({n} * {source} + j)')};",
            "}",
        ]
        arrays = list(dict.fromkeys([*(each.array for each in operands if each.array), result.array]))
        self._function(f"{m} rows by indices", arrays, lines)

    def _orthogonal(self, shape: tuple[int, int, int], matrix: OperandPlace, result: OperandPlace) -> None:
        """Write code for R and Q of a matrix with at least as many rows as columns."""
        m, n, _ = shape
        self._helpers["orthogonal"] = _ORTHOGONAL.replace("NAME", self._macro).replace("name_", f"{self._name}_")
        at = self._places.reserve(m * n + n)
        to, copy = f"{result.array} + {result.start}", f"{WORK} + {at}"
        lines = [
            f"for (ptrdiff_t i = 0; i < {m * n}; i++) ({copy})[i] = {matrix.at('i')};",
            f"{self._name}_orthogonal({copy}, {copy} + {m * n}, {to}, {to} + {n * n}, {m}, {n});",
        ]
        arrays = list(dict.fromkeys([matrix.array, result.array, WORK]))
        self._function(f"R and Q of {m} x {n}", arrays, lines)

    def _system(
        self, shape: tuple[int, int, int], matrices: Sequence[OperandPlace], result: OperandPlace, is_logarithm: bool
    ) -> None:
        """Write the solution of a system; without right-hand sides the determinant, or its sign and logarithm."""
        n, _, m = shape
        self._helpers["eliminate"] = _ELIMINATE.replace("NAME", self._macro).replace("name_", f"{self._name}_")
        matrix, *sides = matrices
        at = self._places.reserve(n * n)
        lines = [f"for (ptrdiff_t i = 0; i < {n * n}; i++) {WORK}[{at} + i] = {matrix.at('i')};"]
        to = f"{result.array} + {result.start}"
        if sides:
            lines += [
                f"for (ptrdiff_t i = 0; i < {n * m}; i++) ({to})[i] = {sides[0].at('i')};",
                f"{self._name}_eliminate({WORK} + {at}, {to}, {n}, {m});",
                f"{self._name}_substitute({WORK} + {at}, {to}, {n}, {m});",
            ]
        elif not is_logarithm:
            lines += [
                f"double product = {self._name}_eliminate({WORK} + {at}, {WORK} + {at}, {n}, 0);",
                f"for (ptrdiff_t i = 0; i < {n}; i++) product *= {WORK}[{at} + {n + 1} * i];",
                f"({to})[0] = product;",
            ]
        else:
            lines += [
                f"double sign = {self._name}_eliminate({WORK} + {at}, {WORK} + {at}, {n}, 0), logarithm = 0.0;",
                f"for (ptrdiff_t i = 0; i < {n}; i++) {{",
                f"    const double pivot = {WORK}[{at} + {n + 1} * i];",
                "    sign = pivot > 0.0 ? sign : pivot < 0.0 ? -sign : 0.0;",
                "    logarithm += log(fabs(pivot));",
                "}",
                f"({to})[0] = sign;",
                f"({to})[1] = logarithm;",
            ]
        arrays = list(dict.fromkeys([*(each.array for each in matrices), result.array, WORK]))
        self._function(f"system of {n} equations" if sides else f"determinant of {n} x {n}", arrays, lines)

    def _matrix(self, reading: OperandPlace, shape: tuple[int, int], opening: list[str]) -> tuple[str, int, int]:
        """Return the beginning of a matrix, and its strides; scattered entries are gathered first."""
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

    def _copy(self, source: OperandPlace, places: NDArray[np.int64], result: str, positions: NDArray[np.int64]) -> bool:
        """Copy numbers from places to positions in a few stretches; return False if there would be too many."""
        lines = moves(source.array, places, result, positions)
        if lines is not None:
            self._function(f"{len(places)} numbers that are returned", [source.array, result], lines)
        return lines is not None

    def _scatter(self, count: int, source: OperandPlace, result: str, table: tuple[str, str]) -> None:
        """Write code that moves numbers to the positions of a table."""
        line = f"for (ptrdiff_t i = 0; i < {count}; i++) {result}[{table[0]}[i]] = {source.at('i')};"
        self._function(f"{count} numbers that are returned", [source.array, result], [line])

    # Functions -------------------------------------------------------------------------------------------------------

    def _parameter(self, array: str) -> str:
        return f"{'const ' * (array in self._inputs)}double *restrict {array}"

    def _function(self, description: str, arrays: Sequence[str], lines: Sequence[str]) -> None:
        name = f"{self._name}_loop{len(self._calls)}"
        # tables are global
        distinct, tables = [each for each in dict.fromkeys(arrays) if each], f"{self._name}_values"
        names = [each for each in distinct if not each.startswith(tables)]
        opening: list[str] = []
        for table in distinct:
            if not table.startswith(tables) or not any(f"{table}[" in line for line in lines):
                continue
            opening += hidden(table, self._macro)
            lines = [line.replace(f"{table}[", f"{table}_here[") for line in lines]
        head = f"{self._macro}_APART void {name}({', '.join(map(self._parameter, names)) or 'void'})"
        self._loops.append(f"/* {description} */\n{function_text(head, [*opening, *lines])}")
        self._calls.append(f"{name}({', '.join(names)});")

    # Public functions ------------------------------------------------------------------------------------------------

    def _header(self) -> str:
        macro, name = self._macro, self._name
        arrays, sizes = [], []
        for argument in self._arguments:
            shape = " x ".join(map(str, argument.shape)) or "1"
            arrays.append(f" *   {argument.name}: {shape} numbers, read.")
        for result in self._results:
            arrays.append(f" *   {result.name}: {result.length} numbers, written.")
        for array in self._arrays:
            sizes.append(f"#define {macro}_{array.name.upper()}_SIZE {array.length}")
        about = [
            f"/* C99; {self.operations} operations in {len(self._calls)} loops. Nothing is allocated, there is",
            " * no state, threads may call at the same time, each with its own work space.",
            " *",
            f" * {name} computes one point, {name}_batch consecutive points. After each array,",
            f" * {name}_strided takes the distance, in numbers, from one point to the next, 0 if all points share it.",
            " * Results and the work space overlap no other array.",
            " *",
            *arrays,
            f" *   {WORK}: {macro}_WORK_SIZE numbers, as {name}_work_size returns, whose initial values do not matter.",
            " *",
            *COMPILED,
            " *",
            f" * At most about {macro}_STACK_BYTES of stack are used. */",
            "",
            "#include <stddef.h>",
            "",
            *sizes,
            f"#define {macro}_WORK_SIZE {self.work}",
            f"#define {macro}_STACK_BYTES {BYTES['float64'] * max(self._stack, 64)}",
        ]
        functions = [self._declared_work_size, self._declared_point, self._declared_batch, self._declared_strided]
        return framed(macro, about, functions)

    def _body(self) -> tuple[list[str], list[str]]:
        """Return statements that fill the work space with constants, and statements that compute a point."""
        places = self._places
        constants: list[str] = []
        if len(places.constants):
            table = places.reading_of_constants()
            constants = [
                *hidden(table.array, self._macro),
                f"for (ptrdiff_t i = 0; i < {len(places.constants)}; i++) {WORK}[i] = {table.array}_here[i];",
            ]
        run = []
        for argument, first in places.staged.items():
            array = self._arguments[argument]
            run.append(f"for (ptrdiff_t i = 0; i < {array.length}; i++) {WORK}[{first} + i] = {array.name}[i];")
        for result, cleared in zip(self._results, self._nests.cleared, strict=True):
            if cleared:
                run.append(f"for (ptrdiff_t i = 0; i < {result.length}; i++) {result.name}[i] = 0.0;")
        return constants, [*run, *self._calls]

    def _code(self) -> str:
        macro, name, places = self._macro, self._name, self._places
        independent = [
            "/* iterations of the following loop do not depend on each other */",
            "#if defined(__GNUC__) && !defined(__clang__)",
            f'#define {macro}_LANES _Pragma("GCC ivdep")',
            "#else",
            f"#define {macro}_LANES",
            "#endif",
            "/* hides the entries of a table: gcc 12 miscompiles copies of some tables with AVX-512 */",
            "#ifdef __GNUC__",
            f'#define {macro}_HIDDEN(table) __asm__("" : "+r"(table))',
            "#else",
            f"#define {macro}_HIDDEN(table)",
            "#endif",
            "",
        ]
        constants, run = self._body()
        arrays = self._arrays
        unused = [f"(void){each};" for each in (*(array.name for array in arrays), WORK)]
        batches = f"{macro}_BATCHES" if self._compact else ""
        listed = ", ".join([*(array.name for array in arrays), WORK])
        at = ", ".join([*(f"{array.name} + (ptrdiff_t)k * {array.name}_point" for array in arrays), WORK])
        lengths = ", ".join([*(f"{array.name}, {array.length}" for array in arrays), WORK])
        functions = [
            (f"static void {name}_run({', '.join(self._parameters)})", [*unused, *run]),
            (self._declared_work_size, [f"return {self.work};"]),
            (self._declared_point, [*constants, f"{name}_run({listed});"]),
            (self._declared_strided, [*constants, f"for (size_t k = 0; k < points; k++) {name}_run({at});"]),
            (self._declared_batch, [f"{name}_strided(points, {lengths});"]),
        ]
        written = [function_text(*each) for each in functions]
        written[3:] = only_if(batches, written[3:])
        texts = [*self._helpers.values(), *self._loops, *written]
        parts = [*self._mathematics.prelude(), *independent, *places.tables(texts), *texts]
        return "\n".join(parts) + "\n"


def hidden(table: str, macro: str) -> list[str]:
    """Return lines that rename a table, to hide its entries from the compiler.

    With AVX-512, gcc 12.2 copies 1, 1, 1, 0, 0, 0 as 1, 1, 1, 1, 0, 0.
    """
    return [f"const double *{table}_here = {table};", f"{macro}_HIDDEN({table}_here);"]


def _rows(stores: Sequence[OperandPlace], registers: Sequence[int]) -> list[tuple[list[int], str, int, int]]:
    """Return runs of consecutive results: their registers, the array, the first place, and a distance.

    The distance is from one result to the next; for a single result, from one instance to the next.
    """
    rows: list[tuple[list[int], str, int, int]] = []
    for store, register in zip(stores, registers, strict=True):
        if rows and store.step == 1 and store.array == rows[-1][1]:
            row, array, start, apart = rows[-1]
            if len(row) == 1 and apart == 1 and store.start != start:
                rows[-1] = [*row, register], array, start, store.start - start
                continue
            if len(row) > 1 and store.start == start + len(row) * apart:
                row.append(register)
                continue
        rows.append(([register], store.array, store.start, store.step))
    return rows


def _nested(opening: Sequence[str], inner: Sequence[str]) -> list[str]:
    """Return lines inside a loop; unchanged lines if `opening` is empty."""
    return [*opening, *(f"    {line}" for line in inner), "}"] if opening else [*inner]
