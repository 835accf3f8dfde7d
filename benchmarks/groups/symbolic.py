"""From SymPy's expressions to a compiled value and Jacobian: operations, and seconds until the first result."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import accumulus as acc
from groups import Settings
from peers import NotInstalled
from peers.symbolic_models import PEERS, Prepared, SymbolicModel, models
from tables import Goal, Row, Table

LINKS = range(2, 9)
#: What the walking model has to reach: operations, and seconds.
GAIT_REACH = 2_400, 2.0


def table(settings: Settings) -> Table:
    """Two rows a model: one for operations, one for seconds."""
    given = models(LINKS)
    for prepare in (_ours, _fast, *PEERS.values()):  # what is loaded and compiled once a process
        _measured(prepare, given[0])
    rows = [row for model in given for row in _rows(model)]
    notes = [
        "fast: effort='fast'. Of operations the goal is ours over the fewest; of seconds, the sooner of ours over the "
        "soonest. CasADi's function runs on its virtual machine and SymPy's is NumPy code; SymEngine compiles by LLVM, "
        "and does not tell its operations."
    ]
    return Table(
        "symbolic", "SymPy's models: operations of value and Jacobian, and seconds to the first result", rows, notes
    )


def _rows(model: SymbolicModel) -> list[Row]:
    operations: dict[str, Any] = {"model": model.name, "measure": "operations"}
    seconds: dict[str, Any] = {"model": model.name, "measure": "seconds"}
    reference = None
    for name, prepare in {"accumulus": _ours, "fast": _fast, **PEERS}.items():
        try:
            jacobian, count, taken = _measured(prepare, model)
        except NotInstalled as missing:
            operations[name] = seconds[name] = str(missing)
            continue
        except RuntimeError:  # SymEngine knows no derivative of |x|
            operations[name] = seconds[name] = "fails"
            continue
        reference = jacobian if reference is None else reference
        np.testing.assert_allclose(jacobian, reference, rtol=1e-8, atol=1e-9 * np.abs(reference).max())
        seconds[name] = taken
        operations[name] = "–" if count is None else count
    if model.name == "Gait2D":
        most, longest = GAIT_REACH
        return [Row(operations, Goal(most, operations["accumulus"])), Row(seconds, Goal(longest, seconds["accumulus"]))]
    fewest = min((operations[name] for name in PEERS if isinstance(operations[name], int)), default=float("nan"))
    soonest = min((seconds[name] for name in PEERS if isinstance(seconds[name], float)), default=float("nan"))
    return [
        Row(operations, Goal(1.0, operations["accumulus"] / fewest)),
        Row(seconds, Goal(1.0, min(seconds["accumulus"], seconds["fast"]) / soonest)),
    ]


def _measured(prepare: Callable[[SymbolicModel], Prepared], model: SymbolicModel) -> tuple[Any, int | None, float]:
    """The Jacobian at a point, operations, and seconds until it was there; SymPy's own cache emptied before."""
    import sympy as sp

    sp.core.cache.clear_cache()
    start = time.perf_counter()
    jacobian, operations = prepare(model)
    found = jacobian(*model.point)
    return found, operations, time.perf_counter() - start


def _ours(model: SymbolicModel, effort: str = "balanced") -> Prepared:
    arguments = [model.variables, model.parameters]
    f = acc.sympy.lambdify(arguments, model.expressions, wrt=model.variables, effort=effort, cache=False)
    f(*model.point)
    return lambda x, p: f(x, p)[1], f.operations


def _fast(model: SymbolicModel) -> Prepared:
    return _ours(model, "fast")
