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

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import CompileError
from accumulus.targets.c.c_expressions import Mathematics, WrittenBody
from accumulus.targets.c.c_header import REALS, Result, argument_names, array_names, check_name, function_text
from accumulus.targets.c.c_loops import LoopSource
from accumulus.targets.c.c_places import WORK
from accumulus.targets.kernel import Batch, CompiledLoops, Floats, Kernel, SourceKernel, Unit
from accumulus.targets.llvm.special_functions import SPECIAL_FUNCTIONS
from accumulus.targets.target import Target

# Functions ------------------------------------------------------------------------------------------------------------


class _Mathematics(Mathematics):
    """Functions that a kernel calls: CUDA's, and the package's functions that CUDA lacks."""

    truth = "bool"
    qualifier = "static __device__"
    widened = "{}"

    def __init__(self, name: str, dtype: str) -> None:
        super().__init__(name, dtype)
        self.multiply_add = f"fma{self._suffix}"

    def function(self, function: str) -> str:
        """Return the name of a function, and record its use if it is a special function."""
        if function in SPECIAL_FUNCTIONS:
            self._special[function] = None
            return f"{self._name}_{function}"
        return f"{function}{self._suffix}"

    def prelude(self) -> list[str]:
        """Return definitions of infinity and NaN, and special functions."""
        return [
            "#ifndef INFINITY",
            "#define INFINITY __int_as_float(0x7f800000)",
            "#endif",
            "#ifndef NAN",
            "#define NAN __int_as_float(0x7fffffff)",
            "#endif",
            "",
            *self._definitions("fma"),
        ]


# Scalar programs ------------------------------------------------------------------------------------------------------


def cuda_source(unit: Unit, name: str = "f") -> str:
    """Return a file with one kernel, for nvcc, NVRTC or CuPy's ``RawModule``.

    Raises:
        ArgumentError: if `name` is not an identifier of C.
    """
    check_name(name, "CUDA")
    dtype, real, inputs = unit.dtype, REALS[unit.dtype], argument_names(unit.shapes)
    results = [Result(*pair) for pair in zip(array_names(unit.segments, inputs), unit.segments, strict=True)]
    for result in results:
        result.whole = True  # without tiles, entries are stored directly in place
    mathematics = _Mathematics(name, dtype)
    places = [(each, k) for each, shape in zip(inputs, unit.shapes, strict=True) for k in range(prod(shape))]
    written = WrittenBody(unit.tape, places, results, mathematics, exact=unit.exact)
    lines: list[str] = []
    for part in written.parts:
        lines += written.statements(part, lambda array, row: f"{array}[{row} * {array}_entry]")[0]

    parameters, moved = ["long long points"], []
    for kind, names in (("const ", inputs), ("", [result.name for result in results])):
        for each in names:
            parameters.append(f"{kind}{real} *__restrict__ {each}, long long {each}_point, long long {each}_entry")
            moved.append(f"{each} += p * {each}_point;")
    body = [
        "const long long p = (long long)blockIdx.x * blockDim.x + threadIdx.x;",
        "if (p >= points) return;",
        *moved,
        *(line for result in results for line in _zeros(result)),
        *lines,
    ]
    listed = ",\n        ".join(parameters)
    text = [
        f"// {unit.operations} operations a point, one a thread: blocks and threads in x, as many as points at least.",
        "// After each array come the distances, in numbers, from one point to the next (0 if all points share it) and",
        "// from one entry to the next; quickest are 1 and the number of points. Results overlap no other array.",
        "// Compile with --fmad=false: products are fused with sums where the text says so.",
        "",
        *mathematics.prelude(),
        function_text(f'extern "C" __global__ void {name}(\n        {listed})', body),
    ]
    return "\n".join(text)


def _zeros(result: Result) -> list[str]:
    """Return loops that clear the structural zeros."""
    lines, end = [], 0
    for position in (*result.positions, result.length):
        if position > end:
            store = f"{result.name}[i * {result.name}_entry] = 0;"
            lines.append(f"for (long long i = {end}; i < {position}; i++) {store}")
        end = position + 1
    return lines


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


class _LoopSource(LoopSource):
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

    def _code(self) -> str:
        name, arrays = self._name, self._arrays
        parameters = ["long long points"]
        parameters += [
            f"{each}, long long {array.name}_point" for each, array in zip(self._parameters, arrays, strict=False)
        ]
        parameters.append(self._parameters[-1])
        constants, run = self._body()
        listed = ",\n        ".join(parameters)
        point = [f"{array.name} + p * {array.name}_point" for array in arrays]
        kernel = [
            "const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;",
            f"{WORK} += thread * {self.work};",
            *constants,
            "for (long long p = thread; p < points; p += (long long)gridDim.x * blockDim.x)",
            f"    {name}_run({', '.join([*point, WORK])});",
        ]
        about = [
            f"// {self.operations} operations a point in {len(self._calls)} loops; threads, in x, take points in turn.",
            "// After each array comes the distance, in numbers, from one point to the next (0 if all points share",
            f"// it); entries of a point follow each other. {WORK} has {self.work} numbers for each thread of the",
            "// launch, not only for those that have a point. Results and the work space overlap no other array.",
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


#: Number of threads in a block. Larger blocks need more registers together, and waste more threads on small batches;
#: smaller ones leave processors without enough threads while memory answers.
BLOCK: Final = 128
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
        work: number of numbers in the work space of each thread; None for kernels without one, which also take
            distances between entries.
    """

    def __init__(self, text: str, unit: Unit, work: int | None) -> None:
        self.cupy = _cupy()
        #: Number of entries of each argument, and of each result array, at one point.
        self._sizes, self._lengths = [*map(prod, unit.shapes)], unit.lengths
        self._dtype, self._work = np.dtype(unit.dtype), work
        module = self.cupy.RawModule(code=text, options=("--fmad=false",))
        self._launch = module.get_function("f")

    @property
    def takes_columns(self) -> bool:
        """True if points may be columns."""
        return self._work is None

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
        if self._work is not None:
            arguments.append(cupy.empty(max(1, blocks * BLOCK * self._work), self._dtype))
        self._launch((blocks,), (BLOCK,), tuple(arguments))
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
        self.device = OnDevice(self.source, self._unit, None)

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
        self.device = OnDevice(written.text, unit, written.work)

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
    CudaKernel, cuda_source, comment="//", loops=CudaLoops, loop_source=lambda unit, name: _LoopSource(unit, name).text
)
