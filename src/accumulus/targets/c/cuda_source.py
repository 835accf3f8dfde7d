"""CUDA C, as a dialect of the C target's printer: one kernel for a program.

A program without loops is a kernel in which each thread computes one point. Points may lie anywhere in memory. If they
are columns, neighbouring threads access neighbouring numbers: the distance between points is 1, and between entries the
number of points. If they are rows, the threads of a warp collect their results in shared memory and store whole lines
of rows together. Long programs are cut into functions, and pass values from one to the next in a thread's own memory.

A program over arrays is a kernel with its loops, one after the other, and a point for each thread. Numbers between
loops are in a work space, which the GPU interleaves, so that neighbouring threads access neighbouring numbers: either
local memory of the threads, or memory of the caller. Threads loop over the points, so there may be fewer threads.
"""

from __future__ import annotations

import re
import sys
from math import prod
from typing import Final

import numpy as np

from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.c.c_expressions import Mathematics, WrittenBody
from accumulus.targets.c.c_header import BYTES, REALS, Result, argument_names, array_names, check_name, function_text
from accumulus.targets.c.c_loops import LoopSource
from accumulus.targets.c.c_places import WORK
from accumulus.targets.kernel import Unit
from accumulus.targets.llvm.special_functions import OF_ORDER, SPECIAL_FUNCTIONS

#: Most threads of a block. Larger blocks need more registers together, and waste more threads on small batches; smaller
#: ones leave processors without enough threads while memory answers. 64 and 256 took the same time (H200).
BLOCK: Final = 128
#: Threads of a warp.
WARP: Final = 32
_INDENT: Final = ",\n        "
_HOW: Final = "// Compile with --fmad=false: products are fused with sums where the text says so."

# Functions ------------------------------------------------------------------------------------------------------------

#: Functions that are a few instructions, and those that take an integer.
_INLINE: Final = {"sqrt", "fabs", "floor", "ceil", "trunc", "rint", "round", "copysign", *OF_ORDER}
#: Number of arguments of CUDA's other functions. Long programs call them; the compiler copies their text into others.
_CALLED: Final = {row.c: row.arity for row in OPERATIONS if row.c.isidentifier() and row.c not in _INLINE}


class _Mathematics(Mathematics):
    """Functions that a kernel calls: CUDA's, and the package's functions that CUDA lacks.

    Args:
        name: name of the program, and prefix of all names.
        dtype: dtype of its numbers.
        is_long: True if functions of many instructions are called, not copied to their uses.
    """

    truth = "bool"
    widened = "{}"

    def __init__(self, name: str, dtype: str, *, is_long: bool = False) -> None:
        super().__init__(name, dtype)
        self.multiply_add = f"fma{self._suffix}"
        #: True if functions of many instructions are called.
        self.is_long = is_long
        self.qualifier = "static __device__ __noinline__" if is_long else "static __device__"
        self.sincos = f"{name}_sincos" if is_long else f"sincos{self._suffix}"

    def function(self, function: str) -> str:
        """Return the name of a function, and record its use if the program defines it."""
        if function in SPECIAL_FUNCTIONS:
            self._special[function] = None
            return f"{self._name}_{function}"
        if self.is_long and function in _CALLED:
            self._called[function] = None
            return f"{self._name}_{function}"
        return f"{function}{self._suffix}"

    def prelude(self) -> list[str]:
        """Return definitions of infinity and NaN, functions that are called, and special functions."""
        real, suffix = self.real, self._suffix
        functions = []
        for function in self._called:
            arguments = ("x", "y", "z")[: _CALLED[function]]
            head = f"{self.qualifier} {real} {self._name}_{function}({', '.join(f'{real} {x}' for x in arguments)})"
            functions.append(function_text(head, [f"return {function}{suffix}({', '.join(arguments)});"]))
        if self.is_long:
            head = f"{self.qualifier} void {self.sincos}({real} x, {real} *sine, {real} *cosine)"
            lines = [f"{real} s, c;", f"sincos{suffix}(x, &s, &c);", "*sine = s;", "*cosine = c;"]
            functions.append(function_text(head, lines))
        return [
            "#ifndef INFINITY",
            "#define INFINITY __int_as_float(0x7f800000)",
            "#endif",
            "#ifndef NAN",
            "#define NAN __int_as_float(0x7fffffff)",
            "#endif",
            "",
            *functions,
            *self._definitions("fma"),
        ]


# Programs without loops -----------------------------------------------------------------------------------------------

#: Bytes of a line of memory. Parts of lines would be read before they are written.
LINE: Final = 128
#: Largest number of operations and stores of a function. A program of 19,000 operations was compiled in 12 s with this,
#: 18 s with twice as many, and 31 s (94 s by rows) as one function (NVRTC 12.9; no command measures this); shorter ones
#: pass more values through memory.
LONGEST: Final = 500
#: Number of operations up to which a program is one function nevertheless, with all values in registers, and number of
#: operations that a function of many instructions counts for there. A recurrence of 1,704 operations and 60 sines and
#: cosines took half the time as one function, one of 3,454 and 120 the same (H200; no command measures this). A larger
#: number makes longer compilations, a smaller one passes values of short programs through memory.
LONGEST_WHOLE: Final = 5000
WEIGHT: Final = 20
#: Names that no result may have.
_TAKEN: Final = ("rows", "tile", "tiles")

#: How entries are stored: in their places, or in the tile of the warp until lines of rows are complete.
_STORES: Final = """\
#ifdef {macro}_ROWS
// Entries of a point follow each other. The threads of a warp store them together, so that they write whole lines: each
// thread collects entries in its row of a tile, entry e in column e % {ring}. Rows of a tile are {pitch} numbers apart.

{functions}\
#define {macro}_STORE(array, entry, value) tile[threadIdx.x % {warp} * {pitch} + (entry) % {ring}] = value
#define {macro}_GIVE_ROWS(array, length) {name}_give_rows(array, array##_point, tile, rows, length)
#define {macro}_GIVE_LINE(array, end) {name}_give_line(array, array##_point, tile, rows, end)
#define {macro}_GIVE_LINES(array, begin, zeros, end, last) \\
    {name}_give_lines(array, array##_point, tile, rows, begin, zeros, end, last)
#else
#define {macro}_STORE(array, entry, value) array[(entry) * array##_entry] = value
#define {macro}_GIVE_ROWS(array, length)
#define {macro}_GIVE_LINE(array, end)
#define {macro}_GIVE_LINES(array, begin, zeros, end, last) \\
    for (long long e = zeros; e < end; e++) array[e * array##_entry] = 0
#endif
"""
#: The functions that store what a tile has, by the name of their macro.
_GIVE: Final = {
    "GIVE_ROWS": """\
// Store whole rows of `length` entries, which fit into the tile.
static __device__ __forceinline__ void {name}_give_rows(
        {real} *to, long long apart, const {real} *tile, int rows, int length)
{{
    __syncwarp();
    #pragma unroll 4
    for (int j = 0; j < length; j++) {{
        const int i = threadIdx.x % {warp} + j * {warp}, row = i / length, entry = i % length;
        if (row < rows) to[row * apart + entry] = tile[row * {pitch} + entry];
    }}
    __syncwarp();
}}

""",
    "GIVE_LINE": """\
// Store the lines of each row that are complete with entry `end`, but not {width} entries before.
static __device__ __forceinline__ void {name}_give_line(
        {real} *to, long long apart, const {real} *tile, int rows, int end)
{{
    __syncwarp();
    #pragma unroll 4
    for (int row = threadIdx.x % {warp} / {width}; row < rows; row += {warp} / {width}) {{
        {real} *const at = to + row * apart;
        const int behind = (int)((unsigned long long)at / sizeof({real}) % {width});
        const int e = end - {width} - behind + (int)threadIdx.x % {width};
        if (e >= 0) at[e] = tile[row * {pitch} + e % {ring}];
    }}
    __syncwarp();
}}

""",
    "GIVE_LINES": """\
// Store all lines of each row that are complete with entry `end`, or all entries if that is the last; entries from
// `zeros` on are 0. Lines that are complete with entry `begin` have been stored.
static __device__ __noinline__ void {name}_give_lines(
        {real} *to, long long apart, {real} *tile, int rows, int begin, int zeros, int end, bool last)
{{
    __syncwarp();
    for (int row = threadIdx.x % {warp} / {width}; row < rows; row += {warp} / {width}) {{
        {real} *const at = to + row * apart;
        const int behind = (int)((unsigned long long)at / sizeof({real}) % {width});
        for (int e = begin - behind + (int)threadIdx.x % {width}; e < (last ? end : end - behind); e += {width})
            if (e >= 0) at[e] = e < zeros ? tile[row * {pitch} + e % {ring}] : 0;
    }}
    __syncwarp();
    if (zeros < end && !last)  // the line that is not complete begins with zeros
        for (int e = end - {width}; e < end; e++) tile[threadIdx.x % {warp} * {pitch} + e % {ring}] = 0;
}}

""",
}


class CudaSource:
    """A file with one kernel of a program without loops, for nvcc, NVRTC or CuPy's ``RawModule``.

    Args:
        unit: the program.
        name: name of the kernel, and prefix of all other names.

    Attributes:
        text: the whole file.

    Raises:
        ArgumentError: if `name` is not an identifier of C.
    """

    def __init__(self, unit: Unit, name: str = "f") -> None:
        self._name, self._macro = check_name(name, "CUDA"), name.upper()
        self._real, self._width = REALS[unit.dtype], LINE // BYTES[unit.dtype]
        self._inputs = argument_names(unit.shapes)
        outputs = array_names(unit.segments, (*self._inputs, *_TAKEN))
        self._results = [Result(*pair) for pair in zip(outputs, unit.segments, strict=True)]
        for result in self._results:
            result.whole = True  # entries are stored in their places
        self._arrays = [*self._inputs, *outputs]
        self.text = self._written(unit)

    def _written(self, unit: Unit) -> str:
        name, macro, width = self._name, self._macro, self._width
        is_long = _length(unit.tape) > LONGEST_WHOLE
        mathematics = _Mathematics(name, unit.dtype, is_long=is_long)
        shapes = zip(self._inputs, unit.shapes, strict=True)
        places = [(each, k) for each, shape in shapes for k in range(prod(shape))]
        longest = LONGEST if is_long else sys.maxsize
        written = WrittenBody(unit.tape, places, self._results, mathematics, exact=unit.exact, longest=longest)
        around = {result.name: self._around(result) for result in self._results}

        def at(array: str, row: int) -> str:
            return f"frame[{row}]" if array == "frame" else f"{array}[{row} * {array}_entry]"

        def store(result: Result, number: int, value: str) -> list[str]:
            before, after = around[result.name][number]
            return [*before, f"{macro}_STORE({result.name}, {result.positions[number]}, {value});", *after]

        bodies = [written.statements(part, at, store)[0] for part in written.parts]
        empty = [self._give(r, 0, 0, r.length) for r in self._results if r.length and not r.positions]
        is_cut = len(bodies) > 1
        functions, statements = self._parts(bodies, written.slots) if is_cut else ([], bodies[0] if bodies else [])
        numbers = {"name": name, "macro": macro, "real": self._real, "warp": WARP, "width": width}
        numbers |= {"ring": 2 * width, "pitch": 2 * width + 1}
        stores = {line.partition("(")[0] for lines in (empty, *bodies) for line in lines}
        gives = [text.format(**numbers) for kind, text in _GIVE.items() if f"{macro}_{kind}" in stores]
        about = [
            f"// {unit.operations} operations a point, one a thread: blocks and threads in x, as many as points at",
            "// least. After each array come the distances, in numbers, from one point to the next (0 if all points",
            "// share it) and from one entry to the next; quickest are 1 and the number of points. If entries of a",
            f"// point follow each other in all arrays, define {macro}_ROWS, and launch blocks of {BLOCK} threads, or",
            f"// of a smaller multiple of {WARP}. Results overlap no other array.",
            _HOW,
            "",
        ]
        parameters = _INDENT.join(["long long points", *self._pointers()])
        kernel = [*self._opening(is_cut), *empty, *statements]
        parts = [
            *about,
            *mathematics.prelude(),
            _STORES.format(functions="".join(gives), **numbers),
            *functions,
            function_text(f'extern "C" __global__ void {name}(\n        {parameters})', kernel),
        ]
        return "\n".join(parts)

    def _pointers(self) -> list[str]:
        """Return declarations of the arrays, with their distances."""
        return [
            f"{'const ' * (each in self._inputs)}{self._real} *__restrict__ {each}, "
            f"long long {each}_point, long long {each}_entry"
            for each in self._arrays
        ]

    def _opening(self, is_cut: bool) -> list[str]:
        """Return statements that move the arrays to the point of a thread, or the results to the first of a warp."""
        pitch, real = 2 * self._width + 1, self._real
        return [
            "const long long p = (long long)blockIdx.x * blockDim.x + threadIdx.x;",
            f"#ifdef {self._macro}_ROWS",
            f"const long long first = p - threadIdx.x % {WARP};",
            "if (first >= points) return;",
            f"const int rows = points - first < {WARP} ? (int)(points - first) : {WARP};",
            f"__shared__ {real} tiles[{BLOCK * pitch}];",
            f"{real} *const tile = tiles + (threadIdx.x - threadIdx.x % {WARP}) * {pitch};",
            *(f"{each} += (p < points ? p : points - 1) * {each}_point;" for each in self._inputs),
            *(f"{each} += first * {each}_point;" for each in self._arrays[len(self._inputs) :]),
            *(f"{each}_entry = 1;" for each in self._inputs),
            "#else",
            "if (p >= points) return;",
            *(f"{each} += p * {each}_point;" for each in self._arrays),
            *([f"{real} *const tile = 0;", "const int rows = 0;"] if is_cut else []),
            "#endif",
        ]

    def _parts(self, bodies: list[list[str]], slots: int) -> tuple[list[str], list[str]]:
        """Return a function for each part of a body, and the statements that call them."""
        parameters = _INDENT.join([*self._pointers(), f"{self._real} *tile, int rows, {self._real} *frame"])
        heads = [f"{self._name}_part{number}" for number in range(len(bodies))]
        functions = [
            function_text(f"static __device__ __noinline__ void {head}(\n        {parameters})", lines)
            for head, lines in zip(heads, bodies, strict=True)
        ]
        passed = ", ".join([*(f"{each}, {each}_point, {each}_entry" for each in self._arrays), "tile, rows, frame"])
        return functions, [f"{self._real} frame[{max(1, slots)}];", *(f"{head}({passed});" for head in heads)]

    def _around(self, result: Result) -> list[tuple[list[str], list[str]]]:
        """Return statements before and after each stored entry: structural zeros, and what stores complete lines."""
        around: list[tuple[list[str], list[str]]] = [([], []) for _ in result.positions]
        width, length = self._width, result.length
        tile = length if length <= 2 * width else width
        numbers = {position: number for number, position in enumerate(result.positions)}
        stored = [*dict.fromkeys(position // tile for position in result.positions)]
        for each, following in zip(stored, [*stored[1:], None], strict=False):
            begin, end = each * tile, min((each + 1) * tile, length)
            within = [numbers[position] for position in range(begin, end) if position in numbers]
            before, after = around[within[0]][0], around[within[-1]][1]
            if each == stored[0] and begin:
                before.append(self._give(result, 0, 0, begin))
            zeros = [position for position in range(begin, end) if position not in numbers]
            before += [f"{self._macro}_STORE({result.name}, {position}, 0);" for position in zeros]
            after.append(self._give(result, begin, end, end))
            until = length if following is None else following * tile
            if until > end:
                after.append(self._give(result, end, end, until))
        return around

    def _give(self, result: Result, begin: int, zeros: int, end: int) -> str:
        """Return the statement that stores the lines from one entry to another; entries from `zeros` on are 0."""
        name, macro = result.name, self._macro
        if result.length <= 2 * self._width and zeros == result.length:
            return f"{macro}_GIVE_ROWS({name}, {end});"
        if zeros == end < result.length:
            return f"{macro}_GIVE_LINE({name}, {end});"
        return f"{macro}_GIVE_LINES({name}, {begin}, {zeros}, {end}, {str(end == result.length).lower()});"


def _length(tape: Tape) -> int:
    """Return the number of operations, where functions of many instructions count for several."""
    weights = [WEIGHT if row.c in _CALLED or row.c in SPECIAL_FUNCTIONS else 1 for row in OPERATIONS]
    return int(np.array(weights)[np.asarray(tape.codes[tape.inputs :], np.int64)].sum())


# Programs over arrays -------------------------------------------------------------------------------------------------

#: Definitions of C words with other names in CUDA, or defined only by a header.
_WORDS: Final = (
    "#define restrict __restrict__",
    "#define ptrdiff_t long long",
    "#define {macro}_INLINE static __device__ __forceinline__",
    "#define {macro}_APART static __device__ __noinline__",
    "#define {macro}_LANES",
    "#define {macro}_HIDDEN(table)",
    "#define {macro}_MADD(a, b, c) fma(a, b, c)",
)
#: The type of work spaces: pointers, or what is used as one to numbers that are as far apart as there are threads.
_WORK_TYPE: Final = """
#ifdef {macro}_WORK
struct {name}_work {{
    double *number;
    long long apart;
    __device__ double &operator[](long long i) const {{ return number[i * apart]; }}
    __device__ {name}_work operator+(long long i) const {{ return {{number + i * apart, apart}}; }}
}};
#else
typedef double *{name}_work;
#endif
"""


class CudaLoopSource(LoopSource):
    """A file with one kernel of a program over arrays; as `LoopSource`, except that all text is in `code`.

    Raises:
        ArgumentError: if `name` is not an identifier of C.
    """

    def __init__(self, unit: Unit, name: str = "f") -> None:
        super().__init__(unit, check_name(name, "CUDA"), _Mathematics(name, "float64"))

    @property
    def text(self) -> str:
        """The whole file."""
        return self.code

    def _header(self) -> str:
        return ""

    def _parameter(self, array: str) -> str:
        return f"{self._name}_work {WORK}" if array == WORK else super()._parameter(array)

    def _code(self) -> str:
        name, macro, arrays = self._name, self._macro, self._arrays
        declared = self._parameters[:-1]
        distances = [f"{each}, long long {array.name}_point" for each, array in zip(declared, arrays, strict=True)]
        constants, run = self._body()
        listed = _INDENT.join(["long long points", *distances])
        point = [f"{array.name} + p * {array.name}_point" for array in arrays]
        kernel = [
            "const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;",
            f"#ifdef {macro}_WORK",
            f"const {name}_work {WORK} = {{space + thread, (long long)gridDim.x * blockDim.x}};",
            "#else",
            f"double {WORK}[{max(1, self.work)}];",
            "#endif",
            *constants,
            "for (long long p = thread; p < points; p += (long long)gridDim.x * blockDim.x)",
            f"    {name}_run({', '.join([*point, WORK])});",
        ]
        about = [
            f"// {self.operations} operations a point in {len(self._calls)} loops; threads, in x, take points in turn.",
            "// After each array comes the distance, in numbers, from one point to the next (0 if all points share",
            "// it); entries of a point follow each other. Results overlap no other array.",
            f"// A thread needs {8 * self.work} bytes of local memory. With {macro}_WORK defined it needs none, and",
            f"// the last parameter, `space`, has {self.work} numbers for each thread of the launch, those without a",
            "// point included.",
            _HOW,
            "",
        ]
        space = f"\n#ifdef {macro}_WORK\n        , double *space\n#endif\n"
        head = f'extern "C" __global__ void {name}(\n        {listed}{space})'
        run_parameters = ", ".join([*declared, f"{name}_work {WORK}"])
        functions = [
            function_text(f"static __device__ void {name}_run({run_parameters})", run),
            function_text(head, kernel),
        ]
        texts = [*map(_of_any_pointers, self._helpers.values()), *map(_of_any_pointers, self._loops), *functions]
        tables = [table.replace("static const", "static __device__ const", 1) for table in self._places.tables(texts)]
        words = [word.format(macro=macro) for word in _WORDS]
        work_type = _WORK_TYPE.format(name=name, macro=macro)
        return "\n".join([*about, *words, work_type, *self._mathematics.prelude(), *tables, *texts])


def _of_any_pointers(text: str) -> str:
    """Return functions whose pointers to numbers may be work spaces: as templates, and with `auto` for variables."""
    text = re.sub(r"(const )?double \*const (\w+) =", r"const auto \2 =", text)

    def template(match: re.Match[str]) -> str:
        head, parameters, rest = match.groups()
        pieces = parameters.split(", ")
        pointers = [k for k, piece in enumerate(pieces) if re.fullmatch(r"(const )?double \*\w+", piece)]
        if not pointers:
            return match[0]
        for number, k in enumerate(pointers):
            pieces[k] = f"const P{number} {pieces[k].rpartition('*')[2]}"
        kinds = ", ".join(f"class P{number}" for number in range(len(pointers)))
        return f"template <{kinds}>\n{head}{', '.join(pieces)}{rest}"

    return re.sub(r"^(\w+_INLINE \w+ \w+\()([^)]*)(\) \{)", template, text, flags=re.MULTILINE)
