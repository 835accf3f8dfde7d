"""Code as people write it: from the function to its first derivative, and a call, beside the same on JAX.

The functions are in `benchmarks/cases/`. Each case is prepared in a process of its own, nothing cached, imports done.
Where NumPy's code is a loop, JAX is given its scan.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final

import numpy
import scipy.linalg
import scipy.special

import accumulus as acc
from accumulus.native.machine import prepare
from accumulus.native.sources import subjects
from apart import NotDone, apart
from cases import Case, Words, arrays, models, time_steps
from groups import Settings
from tables import Goal, Row, Table

#: After which a case is given up, in seconds of the processor.
PATIENCE: Final = 100.0
CALLS: Final = 7
#: Entries of a matrix from which on only its nonzeros are taken.
DENSE: Final = 10**8


def _in_python(step: Callable[[Any, Any], Any], state: Any, inputs: Any) -> Any:
    for each in inputs:
        state = step(state, each)
    return state


def _while_in_python(goes_on: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    while goes_on(state):
        state = step(state)
    return state


CASES: Final[dict[str, tuple[Callable[..., Case], tuple[Any, ...]]]] = {
    "Gaussian process, 60": (models.gaussian_process, (60,)),
    "Gaussian process, 500": (models.gaussian_process, (500,)),
    "Gaussian process by Cholesky, 500": (models.by_cholesky, (500,)),
    "Gaussian process by Cholesky, 2,000": (models.by_cholesky, (2_000,)),
    "gmm, d = 10, k = 25, n = 1,000": (models.mixture, (10, 25, 1_000)),
    "gmm, d = 10, k = 25, n = 10,000": (models.mixture, (10, 25, 10_000)),
    "kmeans, k = 10, hvp": (models.kmeans, (10, "hvp")),
    "kmeans, k = 100": (models.kmeans, (100, "gradient")),
    "lstm, 4 layers, 100 characters": (models.lstm, (4, 100)),
    "llsq, n = 16,392": (models.least_squares, (16_392,)),
    "lse, n = 1.3 million": (models.log_sum_exp, (1_300_000,)),
    "logistic regression": (models.regression, ("logistic", "value and gradient")),
    "logistic regression, Hessian": (models.regression, ("logistic", "hessian")),
    "Poisson regression": (models.regression, ("Poisson", "value and gradient")),
    "GARCH": (models.garch, ("gradient",)),
    "GARCH, Hessian": (models.garch, ("hessian",)),
    "determinant by minors, 6 × 6": (models.minors, (6,)),
    "ode, 100 numbers, 100 steps": (models.chain, (100, 100)),
    "reaction and diffusion, 500 cells, 400 steps": (models.diffusion, (500, 400)),
    "particle between charges": (models.particle, ()),
    "saddle of two pairs": (models.saddle, ()),
    "fit of 10 parameters through a stiff ODE": (models.stiff_fit, (20,)),
    "hand tracking, 26 numbers, 544 points": (models.hand_tracking, (544, 544)),
    "reactions in dicts, 400 steps": (models.reactions, (400,)),
    "bundle adjustment, 4,000 observations": (models.bundle_adjustment, (4_000,)),
    "bundle adjustment, 400,000 observations": (models.bundle_adjustment, (400_000,)),
    "minibatches of 256 from 100,000": (models.minibatches, (100_000, 256)),
    "Neo-Hooke, 10,000 tetrahedra": (models.neo_hooke, (10_000,)),
    "K @ u + u², 10⁶ unknowns": (models.sparse_matrix, (1_000,)),
    "a sparse system, 10,000 cells": (models.sparse_system, (100,)),
    "eigenvalues, 200 rows": (models.eigenvalues, (200,)),
    "quadrotor NLP, 60 stages, acc.map": (models.quadrotor, (60, "map")),
    "quadrotor NLP, 60 stages, a loop": (models.quadrotor, (60, "loop")),
    "Kalman filter, 500 steps": (time_steps.kalman_filter, (500,)),
    "hidden Markov model, 1,000 steps": (time_steps.hidden_markov_model, (1_000, 10)),
    "thin films by a loop": (arrays.thin_films, (30, 200, "loop")),
    "thin films by stacks": (arrays.thin_films, (30, 200, "stack")),
    "Heston, 64 nodes, 200 options": (arrays.heston, (64, 200)),
    "bucket, 3,650 days": (time_steps.bucket, (3_650, "gradient")),
    "bucket, 3,650 days, Hessian": (time_steps.bucket, (3_650, "hessian")),
    "finite volumes, 200 cells, 100 steps": (time_steps.finite_volumes, (200, 100)),
    "planets, 5 bodies, 500 steps": (time_steps.planets, (5, 500)),
    "diode by Newton, 50 steps": (time_steps.diode, (50,)),
    "Newton inside, 200 observations": (arrays.inner_newton, (200,)),
    "implicit heat, 40 × 40, 50 steps": (time_steps.implicit_heat, (40, 50)),
    "collocation, 200 intervals": (arrays.collocation, (200, "jacobian")),
    "collocation, 200 intervals, Hessian": (arrays.collocation, (200, "hessian")),
    "Gaussian process, Matérn, n = 300, d = 8": (arrays.matern, (300, 8)),
    "factorisation, 100,000 ratings": (arrays.factorisation, (2_000, 1_000, 100_000)),
    "Asian option, 5,000 paths, 100 steps": (time_steps.asian_option, (5_000, 100)),
    "Cox, 5,000 × 10": (arrays.proportional_hazards, (5_000, 10, "value and gradient")),
    "Cox, 5,000 × 10, Hessian": (arrays.proportional_hazards, (5_000, 10, "hessian")),
    "band structure, 20 × 20, 50 points": (arrays.band_structure, (20, 50)),
    "registration of 1,000 points": (arrays.registration, (1_000,)),
    "a recurrence in an array, 1,700": (time_steps.recurrence, (1_700,)),
    "a recurrence in an array, 100,000": (time_steps.recurrence, (100_000,)),
    "power flow, 300 buses": (arrays.power_flow, (300,)),
    "tight binding, 20 × 20, 50 points": (arrays.tight_binding, (20, 50)),
    "spline through 20 rates": (arrays.spline, (20, 500)),
    "epidemic, 120 days of 10 steps": (time_steps.epidemic, (120, 10)),
    "charged particle, 1,000 steps": (time_steps.charged_particle, (1_000,)),
    "American option, 200 steps": (time_steps.american_option, (200,)),
    "soft alignment, 60 × 60": (time_steps.soft_alignment, (60,)),
    "ARMA(3, 3), 2,000 observations": (time_steps.autoregression, (2_000, 3)),
    "matrix exponentials, 200 steps": (time_steps.matrix_exponentials, (200,)),
    "deblurring, 64 × 64": (arrays.deblurring, (64,)),
    "spectral lines, 20 in 500 wavelengths": (arrays.spectral_lines, (20, 500)),
    "page rank, 1,000 pages, 30 iterations": (arrays.page_rank, (1_000, 30)),
    "attention, 64 tokens of 32": (arrays.attention, (64, 32)),
}

OURS: Final[dict[str, Callable[[Any], Any]]] = {
    "gradient": lambda f: acc.gradient(f, cache=False),
    "value and gradient": lambda f: acc.value_and_gradient(f, cache=False),
    "jacobian": lambda f: acc.jacobian(f, cache=False),
    "sparse jacobian": lambda f: acc.jacobian(f, sparse="csr", cache=False),
    "hessian": lambda f: acc.hessian(f, cache=False),
    "hvp": lambda f: acc.hvp(f, cache=False),
    "jvp": lambda f: acc.jvp(f, cache=False),
    "sparse hessian": lambda f: acc.hessian(f, sparse="csr", cache=False),
    "nlpsol": models.Solver,
}


#: Relative difference from the peer's derivative, to its largest entry, from which on ours is wrong.
WRONG: Final = 1e-6
#: What a call may take, in the peer's, at most; and in the geometric mean of all cases.
MOST_OF_PEER, MEAN_OF_PEER = 1.25, 1.0


def arguments_of(case: Case) -> tuple[Any, ...]:
    """Return the arguments of the derivative of `OURS`."""
    return tuple((each,) for each in case.arguments) if case.asks in ("hvp", "jvp") else case.arguments


def table(settings: Settings) -> Table:
    """Two rows a case, its first result and a call, and one for all calls."""
    notes = [
        "first: from the function to the first derivative, recording and its check included; imports were done.",
        "reach: of GradBench's problems 1 s, or twice JAX's; of Gaussian processes JAX's and 0.3 s; of others 1 s, or "
        "JAX's, or what the case says.",
        "error: the largest difference from JAX's derivative, by its largest entry.",
        "read: SciPy's product with the constant matrix, alone.",
        "differences: the same by differences, with the LSODA of SciPy's solve_ivp and the same tolerances.",
        "quadrotor: first is CasADi's solver with Ipopt and a Hessian; under differences is CasADi's own Hessian.",
        "call: one more, the quickest of several. JAX: jit, float64, scans for loops, vmap for equal work.",
    ]
    names = [name for name in CASES if not settings.cases or any(part in name for part in settings.cases)]
    rows = [_row(name) for name in names]
    ratios = [row.cells["call / JAX"] for row in rows if "call / JAX" in row.cells]
    if ratios:
        mean, most = math.exp(sum(map(math.log, ratios)) / len(ratios)), max(ratios)
        rows.append(Row({"case": f"geometric mean of {len(ratios)} calls"}, Goal(MEAN_OF_PEER, mean, unit=" of JAX")))
        rows.append(Row({"case": "slowest of these calls"}, Goal(MOST_OF_PEER, most, unit=" of JAX")))
    return Table("cliffs", "Code as people write it", rows, notes)


def _row(name: str) -> Row:
    make, sizes = CASES[name]
    case = make(*sizes)
    goal = case.goal
    cells: dict[str, Any] = {"case": name}
    expected = jax_call = None
    try:
        jax_first, jax_call, expected = apart(with_jax, name, seconds=PATIENCE)
        if jax_first is not None:
            factor, more = case.of_jax
            goal = round(max(goal, factor * jax_first + more), 1)
    except NotDone as why:
        jax_first = str(why)
    try:
        first, call, operations, others, found = apart(ours, name, seconds=PATIENCE)
    except NotDone as why:
        return Row(cells | {"remark": str(why), "JAX first (s)": jax_first}, Goal(goal, float("inf"), unit=" s"))
    cells |= {"first (s)": round(first, 3), "call (ms)": round(1e3 * call, 3), "JAX first (s)": jax_first}
    cells["operations"] = operations
    if others:
        cells["other indices (s)"] = ", ".join(f"{seconds:.3f}" for seconds in others)
    if jax_call is not None:
        cells |= {"JAX call (ms)": round(1e3 * jax_call, 3), "call / JAX": round(call / jax_call, 4)}
    wrong = ""
    if expected is not None:
        error = float(numpy.max(numpy.abs(found - expected)) / max(numpy.max(numpy.abs(expected)), 1e-300))
        cells["error"] = error
        wrong = "" if error <= WRONG else "wrong"
    for what, beside in (("differences", with_differences), ("read", with_read)):
        if getattr(make(*sizes), what) is not None:
            seconds = apart(beside, name, seconds=PATIENCE)
            cells |= {f"{what} (ms)": round(1e3 * seconds, 3), f"call / {what}": round(call / seconds, 3)}
    return Row(cells, Goal(goal, first, unit=" s", missed=wrong))


def ours(name: str) -> tuple[float, float, int, list[float], Any]:
    """Seconds of the first derivative, and of another; operations; seconds with other indices; the derivative."""
    make, sizes = CASES[name]
    case = make(*sizes)
    f = in_numpy(case)
    if case.asks == "nlpsol":
        acc.casadi.external(numpy.sin, numpy.ones(1))  # imports
    acc.jacobian(lambda x: numpy.sin(x) * x[0], cache=False)(numpy.ones(2))  # imports
    acc.gradient(lambda x: numpy.sum(numpy.sin(x)), cache=False)(numpy.ones(1000))
    prepare(*subjects())
    start = time.perf_counter()
    derivative, arguments = OURS[case.asks](f), arguments_of(case)
    result = derivative(*arguments)
    first = time.perf_counter() - start
    call = _quickest(lambda: derivative(*arguments))
    others = []
    for each in case.others:
        start = time.perf_counter()
        derivative(*each)
        others.append(time.perf_counter() - start)
    return first, call, derivative.operations, others, numbers(result[1] if case.asks == "jvp" else result)


def numbers(result: Any) -> Any:
    """One array of all that a derivative returns; of large sparse matrices, which no peer returns, the nonzeros."""
    if hasattr(result, "toarray"):
        result = result.toarray() if math.prod(result.shape) < DENSE else result.data
    if isinstance(result, dict):
        result = [result[key] for key in sorted(result)]
    if isinstance(result, (tuple, list)):
        return numpy.concatenate([numbers(part) for part in result])
    return numpy.ravel(numpy.asarray(result))


def in_numpy(case: Case) -> Callable[..., Any]:
    """The function in NumPy's words."""
    words = Words(numpy, scipy.special, scipy.linalg, _in_python, _while_in_python, acc.gradient)
    return case.write(words)


def with_jax(name: str) -> tuple[float | None, float | None, Any]:
    """Return the same in JAX; None if JAX is missing, or the case has no text for it."""
    make, sizes = CASES[name]
    case = make(*sizes)
    try:
        import jax
    except ImportError:
        return None, None, None
    if not case.jax:
        return None, None, None
    jax.config.update("jax_enable_x64", True)
    jax.jit(jax.grad(lambda x: jax.numpy.sum(jax.numpy.sin(x))))(numpy.ones(1000))  # imports
    start = time.perf_counter()
    derivative = jax.jit(of_jax(case))
    result = jax.block_until_ready(derivative(*case.arguments))
    first = time.perf_counter() - start
    call = _quickest(lambda: jax.block_until_ready(derivative(*case.arguments)))
    return round(first, 3), call, numbers(result)


def with_differences(name: str) -> float:
    """Seconds of the same derivative by differences."""
    make, sizes = CASES[name]
    case = make(*sizes)
    assert case.differences is not None
    return _quickest(lambda: case.differences(*case.arguments))


def with_read(name: str) -> float:
    """Seconds in which the constants are read once."""
    make, sizes = CASES[name]
    case = make(*sizes)
    assert case.read is not None
    return _quickest(lambda: case.read(*case.arguments))


def of_jax(case: Case) -> Callable[..., Any]:
    """The derivative of the same text by JAX."""
    import jax
    import jax.scipy.spatial.transform

    def scan(step: Callable[[Any, Any], Any], state: Any, inputs: Any) -> Any:
        state = jax.tree.map(jax.numpy.asarray, state)
        return jax.lax.scan(lambda state, x: (step(state, x), None), state, inputs)[0]

    def stacked(step: Callable[[Any, Any], Any], state: Any, inputs: Any) -> Any:
        return jax.lax.scan(step, state, inputs)[1]

    def fixed_count(step: Callable[[Any], Any], state: Any, count: int) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, state: step(state), state)

    words = Words(
        jax.numpy,
        jax.scipy.special,
        jax.scipy.linalg,
        scan,
        jax.lax.while_loop,
        jax.grad,
        jax.vmap,
        fixed_count,
        stacked,
        jax.scipy.spatial.transform.Rotation,
    )
    f = (case.peer or case.write)(words)
    asked: dict[str, Callable[..., Any]] = {
        "gradient": jax.grad(f),
        "value and gradient": jax.value_and_grad(f),
        "jacobian": jax.jacobian(f),
        "sparse jacobian": jax.jacobian(f),
        "sparse hessian": jax.hessian(f),
        "hessian": jax.hessian(f),
        "hvp": lambda x, direction: jax.jvp(jax.grad(f), (x,), (direction,))[1],
        "jvp": lambda x, direction: jax.jvp(f, (x,), (direction,))[1],
    }
    return asked[case.asks]


def _quickest(run: Callable[[], Any]) -> float:
    found = []
    for _ in range(CALLS):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)
