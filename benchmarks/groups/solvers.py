"""Whole runs of stiff solvers, with value and Jacobian from each system in turn; all end at the same result, within
errors of the solvers.

Radau, BDF and LSODA are SciPy's; CVODE is SUNDIALS' BDF, through scikit-sundae where that is installed.

All systems are given the same right-hand side and are prepared before the clock runs. Without a system, SciPy takes
differences of the NumPy function. The ring modulator's input is held, as in `examples/`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import accumulus as acc
from functions import Example
from groups import Settings
from peers import NotInstalled, jax_batch, require, sympy_functions
from peers.casadi_functions import Symbolic
from tables import Goal, Row, Table
from timing import one_core

#: Value and Jacobian as `solve_ivp` calls them; None for differences.
Pair = tuple[Callable[..., Any], Callable[..., Any] | None]

#: Problems, until when they run, and their tolerances.
PROBLEMS = {
    Example("pollu"): (60.0, 1e-7, 1e-9),
    Example("ring_modulator"): (2e-6, 1e-6, 1e-9),
    Example("brusselator", Path(__file__).resolve().parent.parent / "solvers"): (10.0, 1e-6, 1e-8),
}
#: How often each system runs first, second, …
TURNS = 1
#: How far results may be from the exact ones, in units of what the solvers' tolerances are. Errors of steps add up: on
#: the ring modulator they come to 55 to 140 units, whoever gives the Jacobian.
APART = 300.0
#: Tolerances of the run that stands for the exact one.
EXACT = 1e-11, 1e-14
METHODS = ("Radau", "BDF", "LSODA", "CVODE")
#: Of CVODE, which takes shorter steps.
MOST_STEPS = 1_000_000


def table(settings: Settings) -> Table:
    """One row for each problem and solver."""
    methods = METHODS if find_spec("sksundae") else METHODS[:-1]
    rows = [_row(example, method, *PROBLEMS[example]) for example in PROBLEMS for method in methods]
    title = "Whole runs of solvers, milliseconds: value and Jacobian from each system"
    note = (
        "The shortest of several runs, in time of the processor, most of which is the solver's; the goal is ours over "
        "the soonest peer's. All end at the same result, within the solvers' errors."
    )
    return Table("solvers", title, rows, [note])


def _row(example: Example, method: str, end: float, rtol: float, atol: float) -> Row:
    cells: dict[str, Any] = {"problem": example.name, "solver": method, "variables": example.inputs}
    runs: dict[str, Callable[[], Any]] = {}
    for name, system in SYSTEMS.items():
        try:
            value, jacobian = system(example)
        except NotInstalled as missing:
            cells[name] = str(missing)
            continue
        run = _cvode if method == "CVODE" else partial(solve_ivp, method=method)
        runs[name] = partial(run, value, (0.0, end), example.point, jac=jacobian, rtol=rtol, atol=atol)
    results = {name: run() for name, run in runs.items()}
    exact = _exact(example, end)
    scale = APART * (atol + rtol * np.abs(exact).max())
    for name, result in results.items():
        apart = np.abs(result.y[:, -1] - exact).max()
        if not result.success or apart > scale:
            where = f"{method} with {name} on {example.name}"
            raise AssertionError(f"{where} ends elsewhere: {apart:.3g} apart, {scale:.3g} allowed")
    with one_core():
        # the order turns, too: what runs after a system that has filled the caches is slower
        orders = [[*runs][k:] + [*runs][:k] for k in range(len(runs))]
        turns = [{name: _seconds(runs[name]) for name in order} for order in TURNS * orders]
    times = {name: min(turn[name] for turn in turns) for name in runs}
    cells |= {name: 1e3 * seconds for name, seconds in times.items()}
    cells["steps"] = len(results["accumulus"].t) - 1
    best = min(seconds for name, seconds in times.items() if name != "accumulus")
    return Row(cells, Goal(1.0, times["accumulus"] / best))


@cache
def _exact(example: Example, end: float) -> NDArray[np.float64]:
    """Return the state at the end, (variables,), from differences and tight tolerances."""
    f, (rtol, atol) = example.function, EXACT
    solution = solve_ivp(lambda t, y: f(y), (0.0, end), example.point, method="Radau", rtol=rtol, atol=atol)
    return solution.y[:, -1]  # type: ignore[no-any-return]


def _seconds(run: Callable[[], Any]) -> float:
    """Of the processor: most of a run is the solver's own, and a difference of per cents is lost in what else runs."""
    start = time.thread_time()
    run()
    return time.thread_time() - start


def _cvode(
    value: Callable[..., Any], span: tuple[float, float], start: NDArray[np.float64], *, jac: Any, **tolerances: float
) -> Any:
    """Solve as `solve_ivp` does, by CVODE: callbacks fill arrays, and points are rows."""
    cvode = require("sksundae.cvode")
    filled = None if jac is None else lambda t, y, rates, J: np.copyto(J, jac(t, y))
    solver = cvode.CVODE(
        lambda t, y, rates: np.copyto(rates, value(t, y)), jacfn=filled, max_num_steps=MOST_STEPS, **tolerances
    )
    found = solver.solve(np.array(span), start)
    return SimpleNamespace(y=np.transpose(found.y), t=found.t, success=found.success)


def _ours(example: Example) -> Pair:
    f = example.function

    def rates(t: Any, y: Any) -> Any:
        return f(y)

    value, jacobian = acc.compile(rates), acc.jacobian(rates, 1)
    value(0.0, example.point)
    jacobian(0.0, example.point)
    return value, jacobian


def _differences(example: Example) -> Pair:
    f = example.function
    return lambda t, y: f(y), None


def _jax(example: Example) -> Pair:
    jax = jax_batch.load()
    f = jax_batch.function(example)
    value, jacobian = jax.jit(f), jax.jit(jax.jacfwd(f))
    return lambda t, y: np.asarray(value(y)), lambda t, y: np.asarray(jacobian(y))


def _casadi(example: Example) -> Pair:
    ca = require("casadi")
    symbolic = Symbolic.of(example)
    value = ca.Function("f", [symbolic.x], [ca.cse(symbolic.y)])
    jacobian = ca.Function("J", [symbolic.x], [ca.densify(ca.cse(symbolic.J.T))])  # CasADi stores columns
    return buffered(value, (example.outputs,)), buffered(jacobian, (example.outputs, example.inputs))


def buffered(function: Any, shape: tuple[int, ...]) -> Callable[..., NDArray[np.float64]]:
    """Return a function of CasADi that reads and writes arrays that stay where they are: its quickest call from Python.

    What is returned takes any number of arguments, of which the last one is the point.
    """
    argument, result = np.zeros(function.size1_in(0)), np.zeros(shape)
    buffer, trigger = function.buffer()
    buffer.set_arg(0, memoryview(argument))
    buffer.set_res(0, memoryview(result))

    def call(*arguments: Any) -> NDArray[np.float64]:
        argument[:] = arguments[-1]
        trigger()
        return result.copy()

    call.buffer = buffer  # type: ignore[attr-defined]  # which has to live as long
    return call


def _sympy(example: Example) -> Pair:
    sp = require("sympy")
    x, y = sympy_functions.traced(example)
    modules = [{"absolute": np.abs}, "numpy"]
    value = sp.lambdify([x], y, modules=modules, cse=True)
    jacobian = sp.lambdify([x], sp.Matrix(y).jacobian(x), modules=modules, cse=True)
    return lambda t, y: np.array(value(y)), lambda t, y: jacobian(y)


SYSTEMS: dict[str, Callable[[Example], Pair]] = {
    "accumulus": _ours,
    "differences": _differences,
    "JAX": _jax,
    "CasADi": _casadi,
    "SymPy": _sympy,
}
