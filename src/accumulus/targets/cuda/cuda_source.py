"""CUDA C of a program: a kernel in which one thread computes one point, every value in a register.

The statements are those of the C target. Points may lie anywhere; neighbouring threads read and write neighbouring
numbers where they are columns: the distance from point to point 1, that from entry to entry the number of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from accumulus.tape.live import as_written
from accumulus.tape.tape import Tape
from accumulus.targets.c.c_expressions import array_names, check_name, fusible
from accumulus.targets.c.c_header import REALS, Result
from accumulus.targets.c.c_statements import Statements
from accumulus.targets.cuda.cuda_mathematics import CudaMathematics
from accumulus.targets.kernel import Segment, Shape
from accumulus.targets.parts import Part
from accumulus.targets.schedule import groups, order

__all__ = ["source"]


def source(
    tape: Tape,
    segments: tuple[Segment, ...],
    dtype: str,
    arguments: Sequence[Shape],
    name: str = "f",
    exact: frozenset[int] = frozenset(),
) -> str:
    """A file with one kernel, for nvcc, NVRTC or CuPy's ``RawModule``.

    Raises:
        ArgumentError: if `name` is not an identifier of C.
    """
    check_name(name, "CUDA")
    real, inputs = REALS[dtype], ["x"] if len(arguments) == 1 else [f"a{k}" for k in range(len(arguments))]
    results = [Result(*pair) for pair in zip(array_names(segments, inputs), segments, strict=True)]
    for result in results:
        result.whole = True  # there are no tiles: entries are stored where they belong
    mathematics = CudaMathematics(name, dtype)
    stored = [Segment(len(r.outputs), tuple(r.outputs), tuple(range(len(r.outputs)))) for r in results]
    steps = list(order(tape, groups(tape, stored, 1)))
    marks = np.frombuffer(as_written(tape), np.uint8)[tape.inputs :]
    fused = fusible(tape, steps, {tape.inputs + int(k) for k in np.flatnonzero(marks)} | exact)
    places = [(each, k) for each, shape in zip(inputs, arguments, strict=True) for k in range(prod(shape))]
    write = Statements(tape, places, results, mathematics, dtype, lambda array, row: f"{array}[{row} * {array}_entry]")
    lines, _ = write.of(Part(steps, {}), fused)

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
        f"// {tape.operations} operations a point, one a thread: blocks and threads in x, as many as points at least.",
        "// After each array come the distances, in numbers, from one point to the next (0 if all points share it) and",
        "// from one entry to the next; quickest are 1 and the number of points. Results overlap no other array.",
        "// Compile with --fmad=false: products are fused with sums where the text says so.",
        "",
        *mathematics.prelude(),
        f'extern "C" __global__ void {name}(',
        f"        {listed}) {{",
        *(f"    {line}" for line in body),
        "}",
    ]
    return "\n".join(text) + "\n"


def _zeros(result: Result) -> list[str]:
    """Loops over the structural zeros."""
    lines, end = [], 0
    for position in (*result.positions, result.length):
        if position > end:
            store = f"{result.name}[i * {result.name}_entry] = 0;"
            lines.append(f"for (long long i = {end}; i < {position}; i++) {store}")
        end = position + 1
    return lines
