"""CUDA C of a program over arrays: its loops, one after the other, in one kernel whose threads compute a point each.

The loops are those of the C target. Numbers between them are in a work space that the caller gives, so much for each
thread that is launched; threads take the points in turns, so there may be fewer of them than points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accumulus.tape.blocks import BlockTape
from accumulus.tape.fusion import Map
from accumulus.targets.c.c_expressions import check_name
from accumulus.targets.c.c_loop_source import LoopSource
from accumulus.targets.c.c_places import WORK
from accumulus.targets.cuda.cuda_mathematics import CudaMathematics
from accumulus.targets.kernel import LongSegment, Shape

__all__ = ["CudaLoopSource", "loop_source"]

#: Words of C that CUDA has others for, or none without a header.
_WORDS: Final = (
    "#define restrict __restrict__",
    "#define ptrdiff_t long long",
    "#define {macro}_INLINE static __device__ __forceinline__",
    "#define {macro}_APART static __device__ __noinline__",
    "#define {macro}_LANES",
    "#define {macro}_HIDDEN(table)",
    "#define {macro}_MADD(a, b, c) fma(a, b, c)",
)


def loop_source(
    tape: BlockTape, maps: Sequence[Map], segments: Sequence[LongSegment], arguments: Sequence[Shape], name: str
) -> str:
    """A file with one kernel, for nvcc, NVRTC or CuPy's ``RawModule``.

    Raises:
        ArgumentError: if `name` is not an identifier of C.
    """
    return CudaLoopSource(tape, maps, segments, arguments, name).text


class CudaLoopSource(LoopSource):
    """A program over arrays as a kernel; arguments and attributes as for `LoopSource`, but that all is `code`."""

    def __init__(
        self,
        tape: BlockTape,
        maps: Sequence[Map],
        segments: Sequence[LongSegment],
        arguments: Sequence[Shape],
        name: str = "f",
    ) -> None:
        super().__init__(tape, maps, segments, arguments, check_name(name, "CUDA"), CudaMathematics(name, "float64"))

    @property
    def text(self) -> str:
        """The whole file."""
        return self.code

    def _header(self) -> str:
        return ""

    def _code(self) -> str:
        name, arrays, loops = self._name, [*self._arguments, *self._results], self._loops
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
            f"// {self.operations} operations a point in {len(loops.calls)} loops; threads, in x, take points in turn.",
            "// After each array comes the distance, in numbers, from one point to the next (0 if all points share",
            f"// it); entries of a point follow each other. {WORK} has {self.work} numbers for each thread of the",
            "// launch, not only for those that have a point. Results and the work space overlap no other array.",
            "// Compile with --fmad=false: products are fused with sums where the text says so.",
            "",
        ]
        functions = [
            "\n".join([f"{head} {{", *(f"    {line}" for line in lines), "}\n"])
            for head, lines in (
                (f"static __device__ void {name}_run({', '.join(self._parameters)})", run),
                (f'extern "C" __global__ void {name}(\n        {listed})', kernel),
            )
        ]
        texts = [*loops.helpers, *loops.texts, *functions]
        tables = [table.replace("static const", "static __device__ const", 1) for table in self._places.tables(texts)]
        words = [word.format(macro=self._macro) for word in _WORDS]
        parts = [*about, *words, "", *self._mathematics.prelude(), *tables, *texts]
        return "\n".join(parts)
