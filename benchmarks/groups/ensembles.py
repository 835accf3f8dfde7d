"""Many initial value problems at once: `.batch` of a function that calls `acc.odeint`, on one thread.

Stiff problems are compared with SciPy's LSODA on compiled rates and Jacobians, one problem after the other, and their
sensitivities with LSODA on the variational equations. Others are compared with heyoka's batch integrator, which runs in
an environment of its own: `make bench-peers`. All have the same tolerances.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import accumulus as acc
from cases.ensembles import OTHERS, STIFF, TOLERANCE, Ensemble
from groups import Settings
from peers import NotInstalled, heyoka_ensembles
from tables import Goal, Row, Table
from timing import measure, once, one_core

PROBLEMS = 1_000
#: Problems that SciPy integrates, one after the other.
ALONE = 20
LSODA, HEYOKA = 0.1, 1.0
#: Largest difference between two integrators, relative to the largest of a state. LSODA's sensitivities of van der
#: Pol's problem are off by a hundredth where the state jumps.
STATES, SENSITIVITIES = 1e-4, 0.05


def table(settings: Settings) -> Table:
    """Two rows for each stiff system, one for each other."""
    rows = []
    with one_core():
        for name, ensemble in STIFF.items():
            rows += [
                _against_lsoda(name, ensemble, acc.compile, settings),
                _against_lsoda(f"{name}, sensitivities", ensemble, acc.value_and_jacobian, settings),
            ]
        rows += [_against_heyoka(name, ensemble, settings) for name, ensemble in OTHERS.items()]
    return Table("ensembles", f"{PROBLEMS:,} initial value problems of one system, microseconds a problem", rows)


def _solution(ensemble: Ensemble) -> Any:
    """Return states at all times as a function of parameters."""

    def rates(t: Any, y: Any, p: Any) -> Any:
        return np.stack(ensemble.rates(np, t, y, p))

    return lambda p: acc.odeint(rates, ensemble.y0, ensemble.times, p, rtol=TOLERANCE, atol=1e-2 * TOLERANCE)


def _against_lsoda(name: str, ensemble: Ensemble, derivative: Any, settings: Settings) -> Row:
    p = ensemble.drawn(PROBLEMS, settings.seed)
    solve = derivative(_solution(ensemble))
    first = once(lambda: solve.batch(p, threads=1))
    ours = measure({"batch": partial(solve.batch, p, threads=1)}, 3)["batch"].median / PROBLEMS
    solve(p[0])
    alone = [solve(each) for each in p[:ALONE]]
    theirs = measure({"alone": lambda: [solve(each) for each in p[:ALONE]]}, 3)["alone"].median / ALONE
    together = solve.batch(p, threads=1)
    parts = zip(*alone, strict=True) if isinstance(together, tuple) else [alone]
    for one, other in zip(together if isinstance(together, tuple) else [together], parts, strict=True):
        _check(name, np.stack(other), one[:ALONE], STATES if one.ndim == 3 else SENSITIVITIES)
    cells = {"problem": name, "first s": first, "µs": 1e6 * ours, "LSODA µs": 1e6 * theirs, "heyoka µs": "-"}
    return Row(cells, Goal(LSODA, ours / theirs, unit="× LSODA"))


def _against_heyoka(name: str, ensemble: Ensemble, settings: Settings) -> Row:
    p = ensemble.drawn(PROBLEMS, settings.seed)
    solve = acc.compile(_solution(ensemble))
    first = once(lambda: solve.batch(p, threads=1))
    ours = measure({"batch": partial(solve.batch, p, threads=1)}, settings.turns)["batch"].median / PROBLEMS
    cells: dict[str, Any] = {"problem": name, "first s": first, "µs": 1e6 * ours, "LSODA µs": "-"}
    try:
        seconds, last = heyoka_ensembles.integrated(name, PROBLEMS, settings.seed, settings.turns)
    except NotInstalled as reason:
        return Row({**cells, "heyoka µs": str(reason)})
    _check(name, last.T, solve.batch(p)[:, -1], STATES)
    theirs = seconds / PROBLEMS
    return Row({**cells, "heyoka µs": 1e6 * theirs}, Goal(HEYOKA, ours / theirs, unit="× heyoka"))


def _check(name: str, one: Any, other: Any, tolerance: float) -> None:
    axes = tuple(range(one.ndim - 1))
    if (np.abs(one - other).max(axis=axes) > tolerance * np.abs(one).max(axis=axes)).any():
        raise AssertionError(f"{name}: two integrators differ by more than {tolerance:g}")
