"""CasADi's generated C in a C loop over the points: the time to beat.

The loop is in the same file as the generated function, so that the compiler may inline it; nothing of Python is
inside. The one flag beyond -O3 -march=native -ffast-math only helps the peer: without -fno-semantic-interposition gcc
would call CasADi's little helpers (squares, signs) instead of inlining them.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions import Example
from peers import Contender, Layout, NotInstalled, require
from peers.casadi_functions import Symbolic

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fno-semantic-interposition", "-shared", "-fPIC")

LOOP = """
CASADI_SYMBOL_EXPORT void batch(const double *restrict points, double *restrict results, long long count) {{
  for (long long p = 0; p < count; ++p) {{
    const double *arg[1] = {{points + p * {inputs}}};
    double *res[1] = {{results + p * {results}}};
    casadi_f0(arg, res, 0, 0, 0);
  }}
}}
"""


def contender(example: Example, X: NDArray[np.float64], layout: Layout) -> Contender:
    """Jacobians at the points X (points, inputs).

    Args:
        layout: "sparse" writes the structural nonzeros of each point, in CasADi's order (by columns); "dense" writes
            each point's whole matrix by rows, zeros included.
    """
    symbolic = Symbolic.of(example)
    ca = require("casadi")
    J = ca.cse(symbolic.J)
    # CasADi writes by columns: the transposed matrix comes out by rows
    results = J if layout == "sparse" else ca.densify(J).T
    library, folder = compiled(ca.Function("jacobian", [symbolic.x], [results]), example.inputs, results.nnz())
    out = np.empty((len(X), results.nnz()))
    pointer = ctypes.POINTER(ctypes.c_double)
    arguments = (X.ctypes.data_as(pointer), out.ctypes.data_as(pointer), ctypes.c_longlong(len(X)))

    def run(_folder: Any = folder) -> None:
        library.batch(*arguments)

    def dense() -> NDArray[np.float64]:
        out.fill(np.nan)
        run()
        if layout == "dense":
            return out.reshape(len(X), example.outputs, example.inputs).copy()
        matrices = np.zeros((len(X), example.outputs, example.inputs))
        rows, columns = results.sparsity().get_triplet()
        matrices[:, rows, columns] = out
        return matrices

    return Contender("CasADi C", run, dense)


def compiled(function: Any, inputs: int, results: int) -> tuple[ctypes.CDLL, Any]:
    """A function of one input and one result as a library with `batch`, and the folder that keeps it there."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise NotInstalled("gcc not installed")
    generator = require("casadi").CodeGenerator("generated.c")
    generator.add(function)
    # kept by the caller: the library's file must live as long as its code
    folder = tempfile.TemporaryDirectory(prefix="casadi-")
    source, binary = Path(folder.name, "jacobian.c"), Path(folder.name, "jacobian.so")
    source.write_text(generator.dump() + LOOP.format(inputs=inputs, results=results))
    subprocess.run([compiler, *FLAGS, str(source), "-o", str(binary), "-lm"], check=True)
    library = ctypes.CDLL(str(binary))
    library.batch.restype = None
    return library, folder
