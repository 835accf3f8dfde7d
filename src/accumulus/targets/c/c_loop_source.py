"""C99 of a program over arrays: its loops, one after the other, for a point and for points that follow each other.

Numbers between loops, and nothing else, are in a work space that the caller gives. So there is no allocation, no state,
and next to nothing on the stack; threads may call at a time, each with a work space of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from accumulus.tape.blocks import BlockTape
from accumulus.tape.fusion import Map
from accumulus.tape.tape import Tape
from accumulus.targets.c.c_expressions import array_names, check_name
from accumulus.targets.c.c_header import BYTES, FLAGS, Argument, Array, framed
from accumulus.targets.c.c_loops import CLoops, hidden
from accumulus.targets.c.c_mathematics import Mathematics
from accumulus.targets.c.c_places import WORK, Places, Reading
from accumulus.targets.kernel import LongSegment, Shape
from accumulus.targets.returned import Place, Returned

__all__ = ["LoopSource", "loop_source"]

#: Names that no result may have, beside those of the arguments.
_TAKEN: Final = (WORK, "step", "stop", "left", "total", "factor", "part")


def loop_source(
    tape: BlockTape, maps: Sequence[Map], segments: Sequence[LongSegment], arguments: Sequence[Shape], name: str
) -> str:
    """A C99 file that is complete in itself: what the header says, and the functions.

    Raises:
        ArgumentError: if `name` is not an identifier of C.
    """
    return LoopSource(tape, maps, segments, arguments, name).text


class LoopSource:
    """A program over arrays as C.

    Args:
        tape: the program.
        maps: its bodies, in their order.
        segments: its result arrays.
        arguments: shapes of the arrays that the tape's inputs are the entries of.
        name: of the function; other names begin with it.
        mathematics: of the language, if it is another than C.

    Attributes:
        header: declarations, sizes, and what has to be known.
        code: the functions, to be put behind the header or an ``#include`` of it.
        work: numbers in the work space.
    """

    def __init__(
        self,
        tape: BlockTape,
        maps: Sequence[Map],
        segments: Sequence[LongSegment],
        arguments: Sequence[Shape],
        name: str = "f",
        mathematics: Mathematics | None = None,
    ) -> None:
        self._name, self._macro = check_name(name), name.upper()
        inputs = ["x"] if len(arguments) == 1 else [f"a{k}" for k in range(len(arguments))]
        self._arguments = [Argument(*pair) for pair in zip(inputs, arguments, strict=True)]
        names = array_names(segments, (*inputs, *_TAKEN))
        self._results = [Array(each, segment.length) for each, segment in zip(names, segments, strict=True)]
        self._tape = tape
        computed = [each for each in maps if each.count and each.results]
        arrays = {start: each.count for each in computed for start in each.arrays(tape)}
        columns = [column for each in computed for column in each.operands(tape)]
        self._returned = Returned(tape, segments, arrays, columns)
        kept = {start: count for start, count in arrays.items() if start not in self._returned.places}
        columns += [copy.source for copy in self._returned.copies]
        self._places = Places(name, tape, list(zip(inputs, map(prod, arguments), strict=True)), kept, columns)
        self._mathematics = mathematics or Mathematics(name, "float64")
        self._loops = CLoops(name, self._places, inputs, self._mathematics)
        for each in computed:
            self._write(each)
        self._copy()
        self.operations = sum(
            each.count * each.body.operations if each.is_body else tape.blocks[each.blocks[0]].operations
            for each in maps
        )
        self.work = self._places.size
        self.header, self.code = self._header(), self._code()

    @property
    def text(self) -> str:
        """Header and code in one."""
        return f"{self.header}\n{self.code}"

    # Loops ---------------------------------------------------------------------------------------------------------

    def _write(self, each: Map) -> None:
        read, loops = self._places.reading, self._loops
        results = [self._result(start) for start in each.arrays(self._tape)]
        operands = each.operands(self._tape)
        if each.is_body:
            readings = [read(column) for column in operands]
            loops.body(each.body, each.count, readings, results, each.sensitive, each.steps)
            return
        block = self._tape.blocks[each.blocks[0]]
        if block.shape is not None:
            left, right = (read(column, single=False) for column in operands)
            loops.product(block.shape, left, right, results[0])
            return
        assert block.offsets is not None
        loops.sums(read(operands[0]), block.offsets, results[0])

    def _result(self, start: int) -> Reading:
        place = self._returned.places.get(start)
        if place is None:
            return Reading(WORK, self._places.place(start))
        return Reading(self._results[place.segment].name, place.offset)

    def _copy(self) -> None:
        """What is returned, and not stored there at once."""
        copying = Tape(1)
        copying.outputs = [0]
        for copy in self._returned.copies:
            count, place = len(copy.source), copy.place
            if not count:
                continue
            source = self._places.reading(copy.source)
            if copy.positions is None:
                self._loops.body(copying, count, [source], [Reading(self._name_of(place), place.offset)])
            else:
                table = self._places.indices(copy.positions.astype("int64") + place.offset)
                self._loops.scatter(count, source, self._name_of(place), table)

    def _name_of(self, place: Place) -> str:
        return self._results[place.segment].name

    # The functions that are called -----------------------------------------------------------------------------------

    @property
    def _parameters(self) -> list[str]:
        given = [f"const double *{argument.name}" for argument in self._arguments]
        return [*given, *(f"double *{result.name}" for result in self._results), f"double *{WORK}"]

    @property
    def _declarations(self) -> tuple[str, str, str, str]:
        """Of the work space, a point, points one behind the other, and points at distances."""
        listed = ", ".join(self._parameters)
        names = [array.name for array in (*self._arguments, *self._results)]
        apart = [f"{each}, ptrdiff_t {n}_point" for each, n in zip(self._parameters[:-1], names, strict=True)]
        return (
            f"size_t {self._name}_work_size(void)",
            f"void {self._name}({listed})",
            f"void {self._name}_batch(size_t points, {listed})",
            f"void {self._name}_strided({', '.join(['size_t points', *apart, self._parameters[-1]])})",
        )

    def _header(self) -> str:
        macro, name = self._macro, self._name
        arrays, sizes = [], []
        for argument in self._arguments:
            shape = " x ".join(map(str, argument.shape)) or "1"
            arrays.append(f" *   {argument.name}: {shape} numbers, given.")
        for result in self._results:
            arrays.append(f" *   {result.name}: {result.length} numbers, written.")
        for array in (*self._arguments, *self._results):
            sizes.append(f"#define {macro}_{array.name.upper()}_SIZE {array.length}")
        about = [
            f"/* C99; {self.operations} operations in {len(self._loops.calls)} loops. Nothing is allocated, there is",
            " * no state, threads may call at a time, each with a work space of its own.",
            " *",
            f" * {name} computes one point, {name}_batch points that lie one behind the other. After each array",
            f" * {name}_strided takes the distance, in numbers, from one point to the next, 0 if all points share it.",
            " * Results and the work space overlap no other array.",
            " *",
            *arrays,
            f" *   {WORK}: {macro}_WORK_SIZE numbers, as {name}_work_size returns, which need not be anything before.",
            " *",
            f" * Compile with {FLAGS}",
            " * -lm, or with what your compiler calls these. Results depend on -ffp-contract=off alone, which is",
            " * gcc's default after -std=c99: products are fused with sums where the text says so.",
            " *",
            f" * {macro}_STACK_BYTES of the stack are taken, at most, roughly. */",
            "",
            "#include <stddef.h>",
            "",
            *sizes,
            f"#define {macro}_WORK_SIZE {self.work}",
            f"#define {macro}_STACK_BYTES {BYTES['float64'] * max(self._loops.stack, 64)}",
        ]
        return framed(macro, about, self._declarations)

    def _body(self) -> tuple[list[str], list[str]]:
        """Statements that fill the work space with constants, and those that compute a point."""
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
        for result, cleared in zip(self._results, self._returned.cleared, strict=True):
            if cleared:
                run.append(f"for (ptrdiff_t i = 0; i < {result.length}; i++) {result.name}[i] = 0.0;")
        return constants, [*run, *self._loops.calls]

    def _code(self) -> str:
        macro, name, places = self._macro, self._name, self._places
        independent = [
            "/* turns of the loop behind it do not depend on each other */",
            "#if defined(__GNUC__) && !defined(__clang__)",
            f'#define {macro}_LANES _Pragma("GCC ivdep")',
            "#else",
            f"#define {macro}_LANES",
            "#endif",
            "/* hides what a table holds: gcc 12 copies some tables wrongly where it has AVX-512 */",
            "#ifdef __GNUC__",
            f'#define {macro}_HIDDEN(table) __asm__("" : "+r"(table))',
            "#else",
            f"#define {macro}_HIDDEN(table)",
            "#endif",
            "",
        ]
        constants, run = self._body()
        arrays = [*self._arguments, *self._results]
        unused = [f"(void){each};" for each in (*(array.name for array in arrays), WORK)]
        listed = ", ".join([*(array.name for array in arrays), WORK])
        at = ", ".join([*(f"{array.name} + (ptrdiff_t)k * {array.name}_point" for array in arrays), WORK])
        lengths = ", ".join([*(f"{array.name}, {array.length}" for array in arrays), WORK])
        size, point, batch, strided = self._declarations
        functions = [
            (f"static void {name}_run({', '.join(self._parameters)})", [*unused, *run]),
            (size, [f"return {self.work};"]),
            (point, [*constants, f"{name}_run({listed});"]),
            (strided, [*constants, f"for (size_t k = 0; k < points; k++) {name}_run({at});"]),
            (batch, [f"{name}_strided(points, {lengths});"]),
        ]
        texts = ["\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}\n"]) for head, lines in functions]
        loops = self._loops
        texts = [*loops.helpers, *loops.texts, *texts]
        parts = [*self._mathematics.prelude(), *independent, *places.tables(texts), *texts]
        return "\n".join(parts) + "\n"
