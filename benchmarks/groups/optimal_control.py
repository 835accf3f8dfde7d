"""Whole runs of Ipopt on an optimal-control problem: CasADi's derivatives, compiled, and ours, through one `nlpsol`.

A pole on a cart is swung up: 100 intervals, multiple shooting, a Runge-Kutta step each. CasADi's way is the quicker of
its two, the step mapped over the intervals; written out as SX, its C takes compilers minutes. Both are C that the same
compiler makes a library of, loaded by `casadi.nlpsol`, which calls the same functions in both, so that Ipopt goes the
same way.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accumulus as acc
from accumulus.errors import CompileError
from accumulus.targets.c.c_target import shared_library
from groups import Settings
from peers import NotInstalled, require
from tables import Goal, Row, Table
from timing import one_core

#: CasADi's functions take at least as many times as long; our preparation at most as long as CasADi's.
TIMES, PREPARATION = 1.5, 1.0
INTERVALS, STATES = 100, 4
STEP = 2.0 / INTERVALS
VARIABLES = INTERVALS * (STATES + 1) + STATES
OPTIONS = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"}
#: Preparations that count, each after one that does not.
PREPARED = 3
START = (0.0, 0.9 * np.pi, 0.0, 0.0)


def rates(x: Any, u: Any, sin: Any, cos: Any) -> list[Any]:
    """Rates of position, angle, and their speeds, under a force on the cart."""
    mass, cart, length, gravity = 0.1, 1.0, 0.8, 9.81
    _, angle, speed, turning = x
    s, c = sin(angle), cos(angle)
    below = cart + mass - mass * c * c
    pull = mass * length * s * turning * turning
    return [
        speed,
        turning,
        (mass * gravity * c * s - pull + u) / below,
        ((cart + mass) * gravity * s - pull * c + u * c) / (length * below),
    ]


def runge_kutta(rate: Callable[[Any], Any], x: Any) -> Any:
    """One step of fourth order."""
    one = rate(x)
    two = rate(x + STEP / 2 * one)
    three = rate(x + STEP / 2 * two)
    four = rate(x + STEP * three)
    return x + STEP / 6 * (one + 2 * two + 2 * three + four)


def _parts(z: NDArray[Any]) -> tuple[Any, Any]:
    """States at the ends of intervals, and forces."""
    rows = z[:-STATES].reshape(INTERVALS, STATES + 1)
    return np.concatenate([rows[:, :STATES], z[-STATES:].reshape(1, STATES)]), rows[:, STATES]


def cost(z: NDArray[Any]) -> Any:
    """Return the cost to minimise."""
    states, forces = _parts(z)
    return STEP * (0.1 * np.sum(forces**2) + 10.0 * np.sum(states**2))


def gaps(z: NDArray[Any]) -> Any:
    """Between the ends of intervals and the beginnings of the next ones."""
    states, forces = _parts(z)

    def step(x: NDArray[Any], u: Any) -> Any:
        return runge_kutta(lambda at: np.array(rates(at, u, np.sin, np.cos)), x)

    return np.ravel(acc.map(step, states[:-1], forces) - states[1:])


def _of_casadi(ca: Any, folder: Path) -> Any:
    x, u = ca.SX.sym("x", STATES), ca.SX.sym("u")
    after = runge_kutta(lambda at: ca.vertcat(*rates(ca.vertsplit(at), u, ca.sin, ca.cos)), x)
    step = ca.Function("step", [x, u], [after])
    z = ca.MX.sym("z", VARIABLES)
    rows = ca.reshape(z[:-STATES], STATES + 1, INTERVALS)
    states, forces = ca.horzcat(rows[:STATES, :], z[-STATES:]), rows[STATES, :]
    f = STEP * (0.1 * ca.sumsqr(forces) + 10.0 * ca.sumsqr(states))
    g = ca.vec(step.map(INTERVALS)(states[:, :-1], forces) - states[:, 1:])
    solver = ca.nlpsol("solver", "ipopt", {"x": z, "f": f, "g": g}, OPTIONS)
    solver.generate_dependencies("nlp.c", {"with_header": False})
    text = Path("nlp.c").read_text()
    Path("nlp.c").unlink()
    from accumulus.casadi import QUICKLY  # needs CasADi

    shared_library(text, folder / "casadi.so", QUICKLY)
    return ca.nlpsol("solver", "ipopt", str(folder / "casadi.so"), OPTIONS)


def table(settings: Settings) -> Table:
    """A row for the functions, one for preparation."""
    title = "Ipopt on optimal control of 100 intervals: CasADi's derivatives, compiled, and ours"
    try:
        ca = require("casadi")
        with tempfile.TemporaryDirectory() as folder, one_core():
            rows = _rows(ca, Path(folder), settings.turns)
    except (NotInstalled, CompileError) as missing:
        return Table("nlpsol", f"{title}: {str(missing).partition(':')[0]}", [])
    note = "Functions: all calls of a run together, processor time as CasADi counts it, medians. Preparation: medians."
    return Table("nlpsol", title, rows, [note])


def _rows(ca: Any, folder: Path, turns: int) -> list[Row]:
    ways = {
        "accumulus": lambda: acc.casadi.nlpsol(
            "solver", "ipopt", cost, gaps, np.zeros(VARIABLES), solver_options=OPTIONS, cache=False
        ),
        "casadi": lambda: _of_casadi(ca, folder),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    solvers = {}
    for turn in range(PREPARED + 1):
        for name, prepare in ways.items():
            begin = time.perf_counter()
            solvers[name] = prepare()
            if turn:
                seconds[name].append(time.perf_counter() - begin)
    low = np.full(VARIABLES, -np.inf)
    low[:STATES] = START
    high = np.where(np.isinf(low), np.inf, low)
    given = {"x0": np.zeros(VARIABLES), "lbx": low, "ubx": high, "lbg": 0.0, "ubg": 0.0}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    each: dict[str, dict[str, float]] = {}
    ends = {}
    for _ in range(turns):
        for name, solver in solvers.items():
            ends[name] = np.array(solver(**given)["x"])
            stats = solver.stats()
            if not stats["success"]:
                raise AssertionError(f"Ipopt ends with {stats['return_status']} by {name}")
            times = {key[11:]: value for key, value in stats.items() if key.startswith("t_proc_nlp_")}
            each[name] = {key: 1e6 * value / max(1, stats[f"n_call_nlp_{key}"]) for key, value in times.items()}
            spent[name].append(sum(times.values()))
    np.testing.assert_allclose(ends["accumulus"], ends["casadi"], rtol=1e-6, atol=1e-6)
    rows = []
    for what, found, goal, factor in (
        ("functions, ms a run", spent, TIMES, 1e3),
        ("preparation, s", seconds, PREPARATION, 1.0),
    ):
        median = {name: statistics.median(times) for name, times in found.items()}
        cells = {"what": what, **{name: factor * value for name, value in median.items()}}
        rows.append(Row(cells, Goal(goal, median["casadi"] / median["accumulus"], at_most=False, unit="×")))
    for key in each["casadi"]:
        rows.append(Row({"what": f"nlp_{key}, µs a call", **{name: each[name][key] for name in ways}}))
    return rows
