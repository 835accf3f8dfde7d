"""Peers that compile symbols at run time: heyoka, SymEngine, Symbolica and ddx, in an environment of their own.

`make bench-peers` makes it. This file is also the program that runs there: it runs an example's source on the peer's
symbols, differentiates and compiles as the peer's documentation says, and prints times and results as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from functions import SUITE, Example
from peers import NotInstalled
from peers.object_arrays import ObjectNamespace, Scalar, lifted, plain
from timing import measure, one_core

BENCHMARKS = Path(__file__).resolve().parents[1]
PYTHON = BENCHMARKS.parent / "build" / "peers" / "bin" / "python"
NAMES = ("sqrt", "exp", "log", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh")
#: Points at which results are compared.
CHECKED = 20


@dataclass(frozen=True)
class Measured:
    """Seconds of a peer: until the first result, of a call at one point, and of batches by size; and results."""

    first: float
    call: float
    batches: dict[int, float]
    values: Any  # (points, outputs)
    jacobians: Any  # (points, outputs, inputs)
    transposed: bool  # True if points are on the last axis


def named(name: str) -> Example:
    """Return an example, or a function of the suite."""
    return next(each for each in (Example(name), Example(name, SUITE)) if (each.folder / f"{name}.py").exists())


def answered(module: str, *arguments: object) -> Any:
    """Return the JSON that a module prints in the environment of the peers.

    Raises:
        NotInstalled: without the environment, or if the module fails.
    """
    python = os.environ.get("PEERS_PYTHON", str(PYTHON))
    if not Path(python).exists():
        raise NotInstalled("not installed: make bench-peers")
    command = [python, "-m", module, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=BENCHMARKS)
    if run.returncode:
        raise NotInstalled((run.stderr.strip().splitlines() or ["failed"])[-1][:50])
    return json.loads(run.stdout.splitlines()[-1])


def measured(peer: str, example: Example, sizes: Sequence[int], seed: int, turns: int) -> Measured:
    """Return what a peer takes for value and Jacobian of an example.

    Raises:
        NotInstalled: without the peer, or if it fails.
    """
    answer = answered("peers.elsewhere", peer, example.name, ",".join(map(str, sizes)), seed, turns)
    batches = {int(size): seconds for size, seconds in answer["batches"].items()}
    rows = np.array(answer["rows"])
    outputs = example.outputs
    shape = (len(rows), outputs, example.inputs)
    return Measured(
        answer["first"], answer["call"], batches, rows[:, :outputs], rows[:, outputs:].reshape(shape),
        answer["transposed"],
    )  # fmt: skip


# In the environment of the peers --------------------------------------------------------------------------------------

#: A function of one point, a function of a batch, and True if points are on the last axis.
Compiled = tuple[Callable[[Any], Any], Callable[[Any], Any], bool]


def _expressions(example: Example, symbols: Sequence[Any], functions: dict[str, Callable[..., Any]]) -> list[Any]:
    """Return the example's results as a peer's expressions."""
    functions = {"absolute": lambda a: (a * a) ** 0.5} | functions
    wrapped = np.array([Scalar(each, lambda made: made) for each in symbols], dtype=object)
    namespace = ObjectNamespace({name: lifted(function) for name, function in functions.items()})
    return [plain(each) for each in example.running_on(namespace)(wrapped)]


def _short(name: str) -> str:
    return name.replace("arc", "a")


def heyoka(example: Example) -> Compiled:
    """Return heyoka's compiled value and Jacobian, in one function; points are on the last axis."""
    import heyoka as hy  # type: ignore[import-not-found]

    x = hy.make_vars(*(f"x{k}" for k in range(example.inputs)))
    functions = {name: getattr(hy, _short(name)) for name in NAMES}
    functions |= {"arctan2": hy.atan2, "erf": hy.erf}
    y = [each if isinstance(each, hy.expression) else hy.expression(float(each)) for each in
         _expressions(example, x, functions)]  # fmt: skip
    jacobian = hy.diff_tensors(y, x, diff_order=1).jacobian
    compute = hy.cfunc([*y, *np.reshape(jacobian, -1)], x)
    return compute, compute, True


def symengine(example: Example) -> Compiled:
    """Return SymEngine's compiled value and Jacobian, by its LLVM back end where it has one."""
    import symengine as se  # type: ignore[import-not-found]

    x = se.symbols(" ".join(f"x{k}," for k in range(example.inputs)))
    functions = {name: getattr(se, _short(name)) for name in NAMES} | {"arctan2": se.atan2, "erf": se.erf}
    y = _expressions(example, x, functions)
    jacobian = se.DenseMatrix(len(y), 1, y).jacobian(se.DenseMatrix(len(x), 1, x))
    backend = "llvm" if se.have_llvm else "lambda"
    compute = se.Lambdify(x, [*y, *(jacobian[i, j] for i in range(len(y)) for j in range(len(x)))],
                          backend=backend, cse=True)  # fmt: skip
    return compute, compute, False


def symbolica(example: Example) -> Compiled:
    """Return Symbolica's joint evaluator of values and derivatives, compiled at run time."""
    from symbolica import Expression, S  # type: ignore[import-not-found]

    x = [S(f"x{k}") for k in range(example.inputs)]
    functions = {name: (lambda a, name=name: getattr(a, _short(name))()) for name in NAMES}
    functions["arctan2"] = lambda a, b: 2 * (a / ((a * a + b * b).sqrt() + b)).atan()
    functions["erf"] = lambda a: a.erf()
    y = [each + Expression.num(0) for each in _expressions(example, x, functions)]
    outputs = [*y, *(each.derivative(symbol) for each in y for symbol in x)]
    evaluator = Expression.evaluator_multiple(outputs, x, jit_compile=True)
    return (lambda point: evaluator.evaluate(point[np.newaxis])[0]), evaluator.evaluate, False


def ddx(example: Example) -> Compiled:
    """Return ddx's values and Jacobian: reverse mode, compiled at run time; points are on the last axis."""
    import ddx as library  # type: ignore[import-not-found]

    functions = {name: getattr(library, _short(name)) for name in NAMES if hasattr(library, _short(name))}
    functions |= {"arctan2": library.atan2, "erf": library.erf, "hypot": library.hypot}

    def model() -> Any:
        x = [library.var(f"x{k}") for k in range(example.inputs)]
        return tuple(_expressions(example, x, functions))

    compute = library.equation(model).jacobian
    return compute, compute, True


PEERS: dict[str, Callable[[Example], Compiled]] = {
    "heyoka": heyoka, "SymEngine": symengine, "Symbolica": symbolica, "ddx": ddx,
}  # fmt: skip


def main(peer: str, name: str, sizes: str, seed: str, turns: str) -> None:
    """Print times and results as JSON."""
    example = named(name)
    x = np.ascontiguousarray(example.point)
    begin = time.perf_counter()
    one, many, transposed = PEERS[peer](example)
    one(x)
    first = time.perf_counter() - begin

    def flat(result: Any, points: int) -> Any:
        """Return rows of values and entries, (points, …), from an array or from a pair of them."""
        parts = result if isinstance(result, tuple) else (result,)
        rows = [np.asarray(part) for part in parts]
        rows = [(part.T if part.ndim < 3 else np.moveaxis(part, -1, 0)) if transposed else part for part in rows]
        return np.concatenate([part.reshape(points, -1) for part in rows], axis=1)

    def arranged(X: Any) -> Any:
        return np.ascontiguousarray(X.T) if transposed else X

    X = example.sample(CHECKED, int(seed))
    rows = flat(many(arranged(X)), len(X))
    runs = {"call": partial(one, x)}
    for size in map(int, sizes.split(",")):
        runs[str(size)] = partial(many, arranged(example.sample(size, int(seed))))
    with one_core():
        times = {key: timing.median for key, timing in measure(runs, int(turns)).items()}
    call = times.pop("call")
    answer = {"first": first, "call": call, "batches": times, "rows": rows.tolist(), "transposed": transposed}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
