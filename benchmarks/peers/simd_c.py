"""The strongest that an expert does in C with the same operations: one `omp simd` loop over structure-of-arrays.

The statements are those of accumulus' own rewritten tape, so that compilers are compared, not algebra: every variable
and every nonzero of the Jacobian is a contiguous, aligned column of the points, named by a restricted pointer of its
own. gcc vectorises the loop with the vector functions of the GNU C library; both widths of vectors that the processor
has are tried, of which the faster counts. Two favours help it to vectorise every loop: it may not join a sine and a
cosine to one call, of which there is no vector function, and choices are made by masks instead of branches.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import accumulus as acc
from accumulus.tape.tape import Tape
from functions import Example
from peers import Contender, NotInstalled

FLAGS: Final = (
    *("-O3", "-march=native", "-ffast-math", "-fopenmp-simd", "-fno-builtin-sin", "-fno-builtin-cos"),
    *("-fno-semantic-interposition", "-shared", "-fPIC"),
)
#: Name of a contender → what its compiler is told beside the flags.
WIDTHS: Final = {"simd C": (), "simd C, 512 bits": ("-mprefer-vector-width=512",)}
ALIGNMENT: Final = 64

#: C of each operation of the tape; what is not here has the name that it has in <math.h>.
STATEMENTS: Final = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "divide": "{0} / {1}",
    "negative": "-{0}",
    "power": "pow({0}, {1})",
    "abs": "fabs({0})",
    "sign": "({0} > 0.0) - ({0} < 0.0)",
    "minimum": "fmin({0}, {1})",
    "maximum": "fmax({0}, {1})",
    "less": "-(long long)({0} < {1})",
    "less_equal": "-(long long)({0} <= {1})",
    "equal": "-(long long)({0} == {1})",
    "not_equal": "-(long long)({0} != {1})",
    "logical_and": "{0} & {1}",
    "logical_or": "{0} | {1}",
    "logical_not": "~{0}",
    "select": "chosen({0}, {1}, {2})",
}

HEAD: Final = """
#include <math.h>

static inline double chosen(long long mask, double first, double second) {
  union { double number; long long bits; } a = {first}, b = {second};
  a.bits = (a.bits & mask) | (b.bits & ~mask);
  return a.number;
}

void batch(const double *restrict points, double *restrict results, long long count) {
"""


def contenders(example: Example, X: NDArray[np.float64]) -> list[Contender]:
    """Structural nonzeros at the points X (points, inputs), which are transposed first: one contender a width."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise NotInstalled("gcc not installed")
    jacobian = acc.jacobian(example.function, sparse=True)
    tape, pattern = jacobian.compile(example.point).tape, jacobian.batch(X[:1]).pattern
    source = _source(tape)
    columns = aligned((example.inputs, len(X)))
    columns[:] = X.T
    return [
        _contender(name, _library(compiler, source, more), columns, len(tape.outputs), pattern)
        for name, more in WIDTHS.items()
    ]


def aligned(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """An uninitialised array whose rows begin at cache lines if their length is a multiple of eight."""
    size = int(np.prod(shape))
    memory = np.empty(size + ALIGNMENT // 8)
    start = -memory.ctypes.data // 8 % (ALIGNMENT // 8)
    return memory[start : start + size].reshape(shape)


def _contender(
    name: str, library: tuple[Any, Any], columns: NDArray[np.float64], results: int, pattern: Any
) -> Contender:
    code, folder = library
    points = columns.shape[1]
    out = aligned((results, points))
    pointer = ctypes.POINTER(ctypes.c_double)
    arguments = (columns.ctypes.data_as(pointer), out.ctypes.data_as(pointer), ctypes.c_longlong(points))

    def run(_folder: Any = folder) -> None:
        code.batch(*arguments)

    def dense() -> NDArray[np.float64]:
        out.fill(np.nan)
        run()
        matrices = np.zeros((points, *pattern.shape))
        matrices[:, pattern.rows, pattern.columns] = out.T
        return matrices

    return Contender(name, run, dense)


def _source(tape: Tape) -> str:
    """The tape as a function of columns: inputs × points → outputs × points."""

    def spelled(reference: int) -> str:
        if reference < 0:
            return repr(tape.value_of(reference))
        return f"x{reference}[p]" if reference < tape.inputs else f"t{reference}"

    pointers = [f"const double *restrict x{k} = {_column('points', k)};" for k in range(tape.inputs)]
    pointers += [f"double *restrict y{k} = {_column('results', k)};" for k in range(len(tape.outputs))]
    body = []
    for reference in range(tape.inputs, len(tape)):
        name = tape.operation(reference).name
        arguments = [spelled(argument) for argument in tape.arguments(reference)]
        statement = STATEMENTS.get(name, f"{name}({', '.join(arguments)})").format(*arguments)
        kind = "long long" if tape.is_boolean(reference) else "double"
        body.append(f"const {kind} t{reference} = {statement};")
    body += [f"y{k}[p] = {spelled(output)};" for k, output in enumerate(tape.outputs)]
    loop = ["#pragma omp simd", "for (long long p = 0; p < count; ++p) {", *body, "}"]
    return HEAD + "\n".join([*pointers, *loop, "}", ""])


def _column(array: str, k: int) -> str:
    # columns of a multiple of eight points begin at cache lines; others are not what is measured
    return f"__builtin_assume_aligned({array} + {k} * count, {ALIGNMENT})"


def _library(compiler: str, source: str, more: tuple[str, ...]) -> tuple[Any, Any]:
    # kept by the caller: the library's file must live as long as its code
    folder = tempfile.TemporaryDirectory(prefix="simd-")
    text, binary = Path(folder.name, "batch.c"), Path(folder.name, "batch.so")
    text.write_text(source)
    vectors = ("-lmvec",) if ctypes.util.find_library("mvec") else ()
    subprocess.run([compiler, *FLAGS, *more, str(text), "-o", str(binary), *vectors, "-lm"], check=True)
    library = ctypes.CDLL(str(binary))
    library.batch.restype = None
    return library, folder
