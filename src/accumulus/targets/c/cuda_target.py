"""The `cuda` target: kernels of CUDA C, compiled and launched through CuPy.

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
from accumulus.targets.c.cuda_source import BLOCK, CudaLoopSource, CudaSource
from accumulus.targets.kernel import Batch, SourceKernel, Unit
from accumulus.targets.target import Target

#: Most bytes of a work space in local memory, of which CUDA allows twice as many, and the fraction 1/n of free memory
#: for the local memory of all threads that the GPU can run at a time. Other work spaces are passed to the kernel.
LOCAL: Final = 1 << 18
LOCAL_PART: Final = 2
#: Largest number of threads of a launch to which work spaces are passed, and the fraction 1/n of free memory for these.
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
        self._dtype, self._text, self.takes_columns = np.dtype(unit.dtype), text, takes_columns
        #: Numbers of a work space that is passed for each thread; 0 if it is local memory.
        self._work = 0 if self._fits_locally(work * self._dtype.itemsize) else work
        self._launches = dict[str, Any]()

    def _fits_locally(self, work: int) -> bool:
        """Return True if all threads that the GPU can run at a time can have so many bytes of local memory."""
        runtime = self.cupy.cuda.runtime
        device = runtime.getDeviceProperties(runtime.getDevice())
        threads = device["multiProcessorCount"] * device["maxThreadsPerMultiProcessor"]
        return work <= LOCAL and bool(work * threads <= self._free() // LOCAL_PART)

    def _launch(self, transposed: bool) -> Any:
        """Return the kernel for a layout, compiled at its first use."""
        variant = "F_WORK" if self._work else "F_ROWS" if self.takes_columns and not transposed else ""
        if variant not in self._launches:
            options = ("--fmad=false", *([f"-D{variant}"] if variant else []))
            try:
                self._launches[variant] = self.cupy.RawModule(code=self._text, options=options).get_function("f")
            except self.cupy.cuda.compiler.CompileException as error:
                raise CompileError(
                    f"NVIDIA's compiler rejects the kernel: {error}. If it is too long, write what repeats as a "
                    "recurrence with acc.scan, or use target='llvm'"
                ) from error
        return self._launches[variant]

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
        self._launch(transposed)((blocks,), (BLOCK,), tuple(arguments))
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
    """Kernel on the GPU, a thread for each point; CuPy caches its code.

    Attributes:
        device: the same for arrays on the GPU.
    """

    #: Threads of the CPU: one waits for the GPU.
    most_threads = 1

    def _emit(self) -> str:
        if self._unit.maps is None:
            return CudaSource(self._unit).text
        written = CudaLoopSource(self._unit)
        self._work = written.work
        return written.text

    def _compile(self) -> None:
        if self._unit.maps is None:
            self.device = OnDevice(self.source, self._unit)
        else:
            self.device = OnDevice(self.source, self._unit, work=self._work, takes_columns=False)

    @property
    def most_points(self) -> int:
        """Number of points of a launch: all, since nothing is checked while the GPU runs."""
        return sys.maxsize

    def compute(self, arguments: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]) -> None:
        """Compute one point, on one thread of the GPU; see `Kernel.compute`."""
        out = [result.reshape(1, -1) for result in results]
        self.device.run(Batch(arguments, out, (True,) * len(arguments)), 0, 1)

    def run(self, batch: Batch, first: int, last: int) -> None:
        """Compute points first … last-1 of a batch."""
        self.device.run(batch, first, last)


TARGET: Final = Target(
    CudaKernel,
    lambda unit, name: (CudaSource if unit.maps is None else CudaLoopSource)(unit, name).text,
    comment="//",
    # NVRTC 12.9, for recurrences of 864 to 65,000 operations
    seconds=lambda operations: 4e-4 * operations + 2e-8 * operations**2,
)
