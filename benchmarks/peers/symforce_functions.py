"""SymForce's value and Jacobian of a function: operations, time of generating them, and its C++ in a loop over points.

The function is run on SymForce's symbols, `jacobian` differentiates, and SymForce's code generator eliminates common
subexpressions and prints C++. The lines that it prints are compiled within a loop over the points, with vectors and
matrices that lie by columns as Eigen's do, by g++ with the flags that CasADi's C has.

SymForce pins packages that the other peers need in other versions, so it runs in an environment of its own, which
`make bench-symforce` makes. This file is also the program that runs there.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counting import Kind, Tally
from functions import Example
from peers import Contender, NotInstalled
from peers.casadi_c import FLAGS

SECONDS = 60.0
BENCHMARKS = Path(__file__).resolve().parents[1]
PYTHON = BENCHMARKS.parent / "build" / "symforce" / "bin" / "python"
LOOP = """#include <cmath>
#include <algorithm>
using Scalar = double;
struct Input {{ const double *at; double operator()(int i, int j) const {{ return at[i]; }} }};
struct Output {{ double *at; int rows; double &operator()(int i, int j) const {{ return at[j * rows + i]; }} }};
extern "C" void batch(const double *points, double *results, long long count) {{
  for (long long p = 0; p < count; ++p) {{
    const Input x{{points + p * {inputs}}};
    const Output J{{results + p * {results}, {rows}}};
{lines}
  }}
}}
"""


@dataclass(frozen=True)
class Generated:
    """Code that SymForce generates for a function.

    Attributes:
        kinds: operations of value and Jacobian together.
        seconds: time to trace, differentiate and print it.
        lines: statements in C++ that compute J from x, the Jacobian alone.
    """

    kinds: Mapping[Kind, int]
    seconds: float
    lines: list[str]

    @property
    def tally(self) -> Tally:
        """The operations."""
        return Tally(self.kinds)


@cache
def generated(example: Example, seconds: float = SECONDS) -> Generated | str:
    """Return the code that SymForce generates, or the reason that it does not.

    Raises:
        NotInstalled: without SymForce.
    """
    python = os.environ.get("SYMFORCE_PYTHON", str(PYTHON))
    if not Path(python).exists():
        raise NotInstalled("symforce not installed: make bench-symforce")
    command = [python, "-m", "peers.symforce_functions", example.name, str(example.folder), str(seconds)]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=10.0 * seconds, check=False, cwd=BENCHMARKS
        )
    except subprocess.TimeoutExpired:
        return "too slow"
    if run.returncode == -signal.SIGXCPU:
        return "too slow"
    if run.returncode:
        return run.stderr.strip().splitlines()[-1][:60]
    return Generated(**json.loads(run.stdout.splitlines()[-1]))


def contender(example: Example, X: NDArray[np.float64]) -> Contender:
    """Jacobians at the points X (points, inputs), each with all its entries by columns.

    Raises:
        NotInstalled: without SymForce or g++, or if SymForce cannot generate the function.
    """
    made, compiler = generated(example), shutil.which("g++")
    if isinstance(made, str) or compiler is None:
        raise NotInstalled(made if isinstance(made, str) else "g++ not installed")
    folder = tempfile.TemporaryDirectory(prefix="symforce-")
    source, binary = Path(folder.name, "jacobian.cc"), Path(folder.name, "jacobian.so")
    results = example.outputs * example.inputs
    lines = "\n".join(f"    {line}" for line in made.lines)
    source.write_text(LOOP.format(inputs=example.inputs, results=results, rows=example.outputs, lines=lines))
    subprocess.run([compiler, *FLAGS, str(source), "-o", str(binary), "-lm"], check=True)
    library = ctypes.CDLL(str(binary))
    library.batch.restype = None
    out = np.empty((len(X), example.inputs, example.outputs))
    pointer = ctypes.POINTER(ctypes.c_double)
    arguments = (X.ctypes.data_as(pointer), out.ctypes.data_as(pointer), ctypes.c_longlong(len(X)))

    def run(_folder: Any = folder) -> None:
        library.batch(*arguments)

    def dense() -> NDArray[np.float64]:
        out.fill(np.nan)
        run()
        return out.transpose(0, 2, 1).copy()

    return Contender("SymForce C++", run, dense)


# In SymForce's environment -------------------------------------------------------------------------------------------


def main(name: str, folder: str, limit: str) -> None:
    """Print what is generated as JSON; the process is ended after as many seconds of the processor."""
    resource.setrlimit(resource.RLIMIT_CPU, (round(float(limit)), resource.RLIM_INFINITY))
    import symforce  # type: ignore[import-not-found]

    symforce.set_epsilon_to_zero()
    import symforce.symbolic as sf  # type: ignore[import-not-found]
    import sympy
    from symforce import codegen
    from symforce.codegen import codegen_util
    from symforce.values import Values  # type: ignore[import-not-found]

    from peers import sympy_functions
    from peers.object_arrays import ObjectNamespace

    def function(theirs: str) -> Any:
        return getattr(sf, theirs)

    names = {ours: theirs for ours, theirs in sympy_functions.FUNCTIONS.items() if hasattr(sf, theirs)}
    functions = {ours: function(theirs) for ours, theirs in names.items()}
    functions |= {"absolute": sf.Abs, "cbrt": lambda x: x ** (sf.S(1) / 3)}
    example = Example(name, Path(folder))
    begin = time.perf_counter()
    x = [sf.Symbol(f"x{k}") for k in range(example.inputs)]
    y = [sf.S(each) for each in example.running_on(ObjectNamespace(functions))(np.array(x, dtype=object))]
    vector, config = sf.M(x), codegen.CppConfig()
    J = sf.M(y).jacobian(vector)
    printed = codegen_util.print_code(Values(x=vector), Values(J=J), {}, config)
    seconds = time.perf_counter() - begin
    terms = codegen_util.DenseAndSparseOutputTerms(dense=[[*y, *J.to_storage()]], sparse=[])
    temporaries, results = codegen_util.perform_cse(terms, cse_optimizations=config.cse_optimizations)
    defined = {sympy.S(symbol): sympy.S(expression) for symbol, expression in temporaries}
    tally = sympy_functions.count(defined, [sympy.S(each) for each in results.dense[0]])
    lines = [f"const Scalar {symbol} = {line};" for symbol, line in printed.intermediate_terms]
    lines += [f"{entry} = {line};" for entry, line in printed.dense_terms[0].terms]
    print(json.dumps({"kinds": dict(tally.kinds), "seconds": seconds, "lines": lines}))


if __name__ == "__main__":
    main(*sys.argv[1:])
