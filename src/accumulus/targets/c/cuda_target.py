"""The `cuda` target: CUDA C, as a dialect of the C target's printer, and kernels launched through CuPy.

A scalar program is a kernel in which each thread computes one point, with every value in a register. Points may lie
anywhere in memory. If they are columns, neighbouring threads access neighbouring numbers: the distance between points
is 1, and between entries the number of points. A program over arrays is one kernel with its loops, one after the other,
and a point for each thread. Numbers between loops are in a work space that the caller provides for each launched
thread; threads loop over the points, so there may be fewer threads than points.

CuPy is imported when the first kernel is made. It compiles the source with NVRTC, caches the code, and launches it on
its current stream, with a thread for each point, for NumPy arrays or arrays on the GPU. Calls with NumPy arrays wait
for the results, calls with arrays on the GPU do not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import CompileError
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.targets.c.c_expressions import Mathematics, WrittenBody
from accumulus.targets.c.c_header import BYTES, REALS, Result, argument_names, array_names, check_name, function_text
from accumulus.targets.c.c_loops import LoopSource
from accumulus.targets.c.c_places import WORK
from accumulus.targets.kernel import Batch, CompiledLoops, Floats, Kernel, SourceKernel, Unit
from accumulus.targets.llvm.special_functions import OF_ORDER, SPECIAL_FUNCTIONS
from accumulus.targets.target import Target

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


# Scalar programs ------------------------------------------------------------------------------------------------------


#: Most threads of a block. Larger blocks need more registers together, and waste more threads on small batches; smaller
#: ones leave processors without enough threads while memory answers. 64 and 256 took the same time (H200).
BLOCK: Final = 128
#: Threads of a warp.
WARP: Final = 32
#: Bytes of a line of memory. A warp stores whole lines of rows: parts of lines would be read before they are written.
LINE: Final = 128
#: Largest number of operations and stores of a function. A program of 19,000 operations was compiled in 11 s with this,
#: 18 s with twice as many, and 31 s (94 s by rows) as one function; shorter ones pass more values through memory.
LONGEST: Final = 500
#: Number of operations up to which a program is one function nevertheless, with all values in registers, and number of
#: operations that a function of many instructions counts for there.
LONGEST_WHOLE: Final = 2000
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


def cuda_source(unit: Unit, name: str = "f") -> str:
    """Return a file with one kernel, for nvcc, NVRTC or CuPy's ``RawModule``.

    Raises:
        ArgumentError: if `name` is not an identifier of C.
    """
    check_name(name, "CUDA")
    dtype, real, inputs = unit.dtype, REALS[unit.dtype], argument_names(unit.shapes)
    outputs = array_names(unit.segments, (*inputs, *_TAKEN))
    results = [Result(*pair) for pair in zip(outputs, unit.segments, strict=True)]
    for result in results:
        result.whole = True  # entries are stored in their places
    mathematics = _Mathematics(name, dtype, is_long=_length(unit.tape) > LONGEST_WHOLE)
    places = [(each, k) for each, shape in zip(inputs, unit.shapes, strict=True) for k in range(prod(shape))]
    written = WrittenBody(
        unit.tape,
        places,
        results,
        mathematics,
        exact=unit.exact,
        longest=LONGEST if mathematics.is_long else sys.maxsize,
    )
    macro, width = name.upper(), LINE // BYTES[dtype]
    around = {result.name: _around(result, macro, width) for result in results}

    def at(array: str, row: int) -> str:
        return f"frame[{row}]" if array == "frame" else f"{array}[{row} * {array}_entry]"

    def store(result: Result, number: int, value: str) -> list[str]:
        before, after = around[result.name][number]
        return [*before, f"{macro}_STORE({result.name}, {result.positions[number]}, {value});", *after]

    bodies = [written.statements(part, at, store)[0] for part in written.parts]
    empty = [_give(macro, width, r, 0, 0, r.length) for r in results if r.length and not r.positions]
    pointers = [*(f"const {real} *__restrict__ {each}" for each in inputs)]
    pointers += [f"{real} *__restrict__ {each}" for each in outputs]
    distances = [f"long long {each}_point, long long {each}_entry" for each in (*inputs, *outputs)]
    arrays = [", ".join(pair) for pair in zip(pointers, distances, strict=True)]
    functions, calls = [], bodies[0] if bodies else []
    if len(bodies) > 1:
        parameters = ",\n        ".join([*arrays, f"{real} *tile, int rows, {real} *frame"])
        for number, lines in enumerate(bodies):
            head = f"static __device__ __noinline__ void {name}_part{number}(\n        {parameters})"
            functions.append(function_text(head, lines))
        passed = [f"{each}, {each}_point, {each}_entry" for each in (*inputs, *outputs)]
        listed = ", ".join([*passed, "tile, rows, frame"])
        calls = [f"{real} frame[{max(1, written.slots)}];"]
        calls += [f"{name}_part{number}({listed});" for number in range(len(bodies))]

    numbers = {"name": name, "macro": macro, "real": real, "warp": WARP, "width": width}
    numbers |= {"ring": 2 * width, "pitch": 2 * width + 1}
    written_lines = {line for lines in (empty, *bodies) for line in lines}
    used = "".join(
        function.format(**numbers)
        for each, function in _GIVE.items()
        if any(line.startswith(f"{macro}_{each}(") for line in written_lines)
    )
    kernel = [
        "const long long p = (long long)blockIdx.x * blockDim.x + threadIdx.x;",
        f"#ifdef {macro}_ROWS",
        f"const long long first = p - threadIdx.x % {WARP};",
        "if (first >= points) return;",
        f"const int rows = points - first < {WARP} ? (int)(points - first) : {WARP};",
        f"__shared__ {real} tiles[{BLOCK * (2 * width + 1)}];",
        f"{real} *const tile = tiles + (threadIdx.x - threadIdx.x % {WARP}) * {2 * width + 1};",
        *(f"{each} += (p < points ? p : points - 1) * {each}_point;" for each in inputs),
        *(f"{each} += first * {each}_point;" for each in outputs),
        *(f"{each}_entry = 1;" for each in inputs),
        "#else",
        "if (p >= points) return;",
        *(f"{each} += p * {each}_point;" for each in (*inputs, *outputs)),
        *([f"{real} *const tile = 0;", "const int rows = 0;"] if functions else []),
        "#endif",
        *empty,
        *calls,
    ]
    text = [
        f"// {unit.operations} operations a point, one a thread: blocks and threads in x, as many as points at least.",
        "// After each array come the distances, in numbers, from one point to the next (0 if all points share it) and",
        "// from one entry to the next; quickest are 1 and the number of points. Results overlap no other array.",
        f"// If entries of a point follow each other in all arrays, define {macro}_ROWS, and launch blocks of",
        f"// {BLOCK} threads, or of a smaller multiple of {WARP}.",
        "// Compile with --fmad=false: products are fused with sums where the text says so.",
        "",
        *mathematics.prelude(),
        _STORES.format(functions=used, **numbers),
        *functions,
        function_text(
            f'extern "C" __global__ void {name}(\n        ' + ",\n        ".join(["long long points", *arrays]) + ")",
            kernel,
        ),
    ]
    return "\n".join(text)


def _length(tape: Tape) -> int:
    """Return the number of operations, where functions of many instructions count for several."""
    weights = [WEIGHT if row.c in _CALLED or row.c in SPECIAL_FUNCTIONS else 1 for row in OPERATIONS]
    return int(np.array(weights)[np.asarray(tape.codes[tape.inputs :], np.int64)].sum())


def _around(result: Result, macro: str, width: int) -> list[tuple[list[str], list[str]]]:
    """Return, for each stored entry, the statements before and after it: structural zeros, and the ends of tiles."""
    around: list[tuple[list[str], list[str]]] = [([], []) for _ in result.positions]
    length = result.length
    tile = length if length <= 2 * width else width
    numbers = {position: number for number, position in enumerate(result.positions)}
    stored = [*dict.fromkeys(position // tile for position in result.positions)]
    for each, following in zip(stored, [*stored[1:], -1], strict=False):
        begin, end = each * tile, min((each + 1) * tile, length)
        within = [numbers[position] for position in range(begin, end) if position in numbers]
        before, after = around[within[0]][0], around[within[-1]][1]
        before += [f"{macro}_STORE({result.name}, {p}, 0);" for p in range(begin, end) if p not in numbers]
        if each == stored[0] and begin:
            before.insert(0, _give(macro, width, result, 0, 0, begin))
        until = length if following < 0 else following * tile
        after.append(_give(macro, width, result, begin, end, end))
        if until > end:
            after.append(_give(macro, width, result, end, end, until))
    return around


def _give(macro: str, width: int, result: Result, begin: int, zeros: int, end: int) -> str:
    """Return the statement that stores the lines from one entry to another; entries from `zeros` on are 0."""
    if result.length <= 2 * width and zeros == result.length:
        return f"{macro}_GIVE_ROWS({result.name}, {end});"
    if zeros == end < result.length:
        return f"{macro}_GIVE_LINE({result.name}, {end});"
    last = str(end == result.length).lower()
    return f"{macro}_GIVE_LINES({result.name}, {begin}, {zeros}, {end}, {last});"


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


#: Most bytes of a work space that is a thread's local memory, which the GPU interleaves, so that neighbouring threads
#: access neighbours. Larger ones take memory of every thread that the GPU can run at a time, used or not.
LOCAL: Final = 4096


class _LoopSource(LoopSource):
    """A file with one kernel of a program over arrays; as `LoopSource`, except that all text is in `code`.

    Attributes:
        passed: number of numbers in the work space that callers pass for each thread; 0 if it is local memory.

    Raises:
        ArgumentError: if `name` is not an identifier of C.
    """

    def __init__(self, unit: Unit, name: str = "f") -> None:
        super().__init__(unit, check_name(name, "CUDA"), _Mathematics(name, "float64"))
        self.passed = 0 if self._is_local else self.work

    @property
    def _is_local(self) -> bool:
        return self.work * BYTES["float64"] <= LOCAL

    @property
    def text(self) -> str:
        """The whole file."""
        return self.code

    def _header(self) -> str:
        return ""

    def _code(self) -> str:
        name, arrays = self._name, self._arrays
        parameters = ["long long points"]
        parameters += [
            f"{each}, long long {array.name}_point" for each, array in zip(self._parameters, arrays, strict=False)
        ]
        constants, run = self._body()
        local = self._is_local
        parameters += [] if local else [self._parameters[-1]]
        listed = ",\n        ".join(parameters)
        point = [f"{array.name} + p * {array.name}_point" for array in arrays]
        kernel = [
            "const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;",
            f"double {WORK}[{max(1, self.work)}];" if local else f"{WORK} += thread * {self.work};",
            *constants,
            "for (long long p = thread; p < points; p += (long long)gridDim.x * blockDim.x)",
            f"    {name}_run({', '.join([*point, WORK])});",
        ]
        about = [
            f"// {self.operations} operations a point in {len(self._calls)} loops; threads, in x, take points in turn.",
            "// After each array comes the distance, in numbers, from one point to the next (0 if all points share",
            "// it); entries of a point follow each other. Results overlap no other array.",
            *(
                []
                if local
                else [
                    f"// {WORK} has {self.work} numbers for each thread of the launch, not only for those that",
                    "// have a point.",
                ]
            ),
            "// Compile with --fmad=false: products are fused with sums where the text says so.",
            "",
        ]
        functions = [
            function_text(f"static __device__ void {name}_run({', '.join(self._parameters)})", run),
            function_text(f'extern "C" __global__ void {name}(\n        {listed})', kernel),
        ]
        texts = [*self._helpers.values(), *self._loops, *functions]
        tables = [table.replace("static const", "static __device__ const", 1) for table in self._places.tables(texts)]
        words = [word.format(macro=self._macro) for word in _WORDS]
        parts = [*about, *words, "", *self._mathematics.prelude(), *tables, *texts]
        return "\n".join(parts)


# Kernels --------------------------------------------------------------------------------------------------------------


#: Largest number of threads of a launch with a work space, and the fraction 1/n of free memory for all work spaces.
#: More threads take memory, and have no cores to run on beyond some number; fewer leave cores idle.
WORKING: Final = 1 << 16
WORK_PART: Final = 4
#: The fraction 1/n of free memory for the arguments and results of one launch, if these come from NumPy arrays. A
#: larger part may leave too little for work spaces and others, a smaller one makes more launches.
MOVED_PART: Final = 2


def _cupy() -> Any:
    """Return CuPy if there is a GPU.

    Raises:
        CompileError: if CuPy cannot be imported, or there is no GPU.
    """
    advice = "CompiledProgram.source('cuda') writes the kernel anywhere; target='llvm' compiles for the processor"
    try:
        import cupy
    except ImportError as error:
        raise CompileError(
            f"target 'cuda' launches kernels through CuPy, which cannot be imported ({error}). Install the CuPy of "
            f"your version of CUDA, as by `pip install cupy-cuda12x`, on a machine with one of NVIDIA's GPUs. {advice}"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise CompileError(
            f"target 'cuda' needs one of NVIDIA's GPUs, and CUDA finds none ({error}). {advice}"
        ) from None
    if not count:
        raise CompileError(f"target 'cuda' needs one of NVIDIA's GPUs, and CUDA finds none. {advice}")
    return cupy


class OnDevice:
    """A kernel on the GPU, for arrays on the GPU.

    Args:
        text: source of the kernel.
        unit: the program.
        work: number of numbers in the work space of each thread.
        takes_columns: True if points may be columns: the kernel also takes distances between entries.
    """

    def __init__(self, text: str, unit: Unit, *, work: int = 0, takes_columns: bool = True) -> None:
        self.cupy = _cupy()
        #: Number of entries of each argument, and of each result array, at one point.
        self._sizes, self._lengths = [*map(prod, unit.shapes)], unit.lengths
        self._dtype, self._work, self.takes_columns = np.dtype(unit.dtype), work, takes_columns
        self._text, self._launches = text, dict[bool, Any]()
        self._launch(rows=self.takes_columns)

    def _launch(self, rows: bool) -> Any:
        """Return the compiled kernel, for arrays in which entries of a point follow each other or any others."""
        if rows not in self._launches:
            options = ("--fmad=false", *["-DF_ROWS"] * rows)
            self._launches[rows] = self.cupy.RawModule(code=self._text, options=options).get_function("f")
        return self._launches[rows]

    def __call__(self, X: Sequence[Any], points: int, shared: Sequence[bool], transposed: bool = False) -> list[Any]:
        """Return new arrays of results, (points, length) or (length, points) each.

        Args:
            X: arguments on the GPU, C-contiguous, as for `Kernel.batch`.
            points: number of points.
            shared: True for each argument that all points share.
            transposed: if True, points are on the last axis.
        """
        cupy = self.cupy
        results = [
            cupy.empty((length, points) if transposed else (points, length), self._dtype) for length in self._lengths
        ]
        if not points:
            return results
        threads = self._threads(points)
        blocks = -(-threads // BLOCK)
        arguments: list[Any] = [np.int64(points)]
        alike = [*shared, *[False] * len(results)]
        for array, size, same in zip([*X, *results], [*self._sizes, *self._lengths], alike, strict=True):
            point, entry = (0, 1) if same else (1, points) if transposed else (size, 1)
            arguments += [array, np.int64(point), *([np.int64(entry)] if self.takes_columns else [])]
        if self._work:
            arguments.append(cupy.empty(blocks * BLOCK * self._work, self._dtype))
        self._launch(rows=self.takes_columns and not transposed)((blocks,), (BLOCK,), tuple(arguments))
        return results

    def _threads(self, points: int) -> int:
        if not self._work:
            return points
        capacity = self._free() // WORK_PART // (self._work * self._dtype.itemsize)
        return max(1, min(points, WORKING, capacity // BLOCK * BLOCK))

    def _free(self) -> int:
        """Return the free bytes of the GPU's memory."""
        return int(self.cupy.cuda.runtime.memGetInfo()[0])

    def run(self, batch: Batch, first: int, last: int) -> None:
        """Compute a batch as `Kernel.run` does, with as many points at a time as the GPU's memory allows."""
        entries = sum(self._sizes) + sum(self._lengths)
        most = max(1, self._free() // MOVED_PART // max(1, entries * self._dtype.itemsize))
        transposed, shared = batch.transposed, batch.shared
        rows = transposed and not self.takes_columns
        for start in range(first, last, most):
            chunk = slice(start, min(start + most, last))
            arguments = [self._moved(x, chunk, same, transposed, rows) for x, same in zip(batch.X, shared, strict=True)]
            results = self(arguments, chunk.stop - start, shared, transposed and not rows)
            for array, result in zip(batch.out, results, strict=True):
                values = self.cupy.asnumpy(result)
                if transposed:
                    array[:, chunk] = values.T if rows else values
                else:
                    array[chunk] = values

    def _moved(self, x: NDArray[Any], chunk: slice, same: bool, transposed: bool, rows: bool) -> Any:
        chosen = x if same else x[..., chunk] if transposed else x[chunk]
        if rows and not same:
            chosen = np.moveaxis(chosen, -1, 0)
        return self.cupy.asarray(np.ascontiguousarray(chosen))

    def on_device(self, X: Sequence[Any], points: int, shared: Sequence[bool], transposed: bool) -> list[Any]:
        """Call the kernel with arrays on the GPU, of any layout and any real type."""
        cupy = self.cupy
        rows = transposed and not self.takes_columns
        arguments = [
            cupy.ascontiguousarray(cupy.moveaxis(x, -1, 0) if rows and not same else x, dtype=self._dtype)
            for x, same in zip((cupy.asarray(x) for x in X), shared, strict=True)
        ]
        results = self(arguments, points, shared, transposed and not rows)
        return [cupy.ascontiguousarray(result.T) for result in results] if rows else results


class CudaKernel(SourceKernel):
    """Kernel on the GPU for a program without loops; CuPy caches its code."""

    def _emit(self) -> str:
        return cuda_source(self._unit)

    def _compile(self) -> None:
        self.device = OnDevice(self.source, self._unit)

    def threads_for(self, count: int, threads: int) -> int:
        """Return 1: one thread waits for the GPU."""
        return 1

    def __call__(self, *x: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Compute the results at one point: an array (length,) for each segment, from an array for each argument."""
        out = tuple(np.empty((1, segment.length), self.dtype) for segment in self.segments)
        self.device.run(Batch(self._point(x), out, (True,) * len(x)), 0, 1)
        return tuple(array[0] for array in out)

    def run(self, batch: Batch, first: int, last: int) -> None:
        """Compute points first … last-1 of a batch."""
        self.device.run(batch, first, last)


class CudaLoops(CompiledLoops):
    """Loops over arrays on the GPU, which clear the result arrays that need it."""

    #: Threads of the CPU: one waits for the GPU.
    most_threads = 1

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        written = _LoopSource(unit)
        self.device = OnDevice(written.text, unit, work=written.passed, takes_columns=False)

    def __call__(self, arguments: Sequence[Floats], results: Sequence[Floats], threads: int = 1) -> None:
        """Compute one point, on one thread of the GPU; see `accumulus.targets.kernel.CompiledLoops`."""
        out = [result.reshape(1, -1) for result in results]
        self.device.run(Batch(arguments, out, (True,) * len(arguments)), 0, 1)

    def run(self, batch: Batch, first: int, last: int) -> int:
        """Compute points of a batch, with a thread of the GPU for each."""
        self.device.run(batch, first, last)
        return last


def device_of(kernel: Kernel) -> OnDevice:
    """Return the device program of a kernel of this target."""
    owner: Any = kernel if isinstance(kernel, CudaKernel) else vars(kernel)["_loops"]
    device: OnDevice = owner.device
    return device


TARGET: Final = Target(
    CudaKernel,
    cuda_source,
    comment="//",
    loops=CudaLoops,
    loop_source=lambda unit, name: _LoopSource(unit, name).text,
    # NVRTC 12.9, for recurrences of 864 to 65,000 operations
    seconds=lambda operations: 4e-4 * operations + 2e-8 * operations**2,
)
