"""Solvers of `scipy.integrate` and `scipy.optimize`, recorded as calls back to SciPy.

Recording compiles the user's equations and their derivatives, which takes modules above the front ends:
`accumulus.api.scipy_solvers` is imported by name when a recorded function first calls a solver.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any, Final

from accumulus.frontends.location import cells
from accumulus.frontends.numpy.operands import depends
from accumulus.frontends.numpy.table import BORROWED, CALLING, borrows, refuses
from accumulus.tape.tape import Tape

_RECORDED: Final = {
    "scipy.integrate": ("odeint", "quad", "solve_ivp"),
    "scipy.optimize": (
        *("bisect", "brenth", "brentq", "fixed_point", "fsolve", "least_squares", "minimize_scalar", "newton"),
        *("ridder", "root", "root_scalar", "toms748"),
    ),
}
#: Functions that are refused if anything in their arguments, or in functions among them, is traced: module, reason,
#: names.
_REFUSED: Final = (
    (
        "scipy.integrate",
        "write an integral by scipy.integrate.quad, one within the other, or acc.odeint with the integral as a state.",
        "dblquad nquad quad_vec tplquad qmc_quad tanhsinh nsum",
    ),
    (
        "scipy.integrate",
        "write acc.odeint(f, y0, t, *args), or solve the discretised equations by acc.implicit.",
        "solve_bvp",
    ),
    (
        "scipy.optimize",
        "at a minimum the gradient is zero: scipy.optimize.root of acc.gradient(f), or "
        "acc.implicit(gradient)(guess, …), are.",
        "minimize fmin fmin_powell fmin_bfgs fmin_cg fmin_ncg fmin_l_bfgs_b fmin_tnc fmin_cobyla fmin_slsqp fminbound "
        "brent golden bracket brute basinhopping differential_evolution dual_annealing shgo direct leastsq curve_fit "
        "nnls lsq_linear linprog milp isotonic_regression quadratic_assignment",
    ),
    (
        "scipy.optimize",
        "scipy.optimize.fsolve and root, and acc.implicit(residual)(guess, …), are.",
        "anderson broyden1 broyden2 diagbroyden excitingmixing linearmixing newton_krylov",
    ),
    (
        "scipy.optimize",
        "its result depends on comparisons of all values. Call it outside of the function.",
        "linear_sum_assignment",
    ),
    ("scipy.optimize", "write acc.jacobian(f)(x), which is exact.", "approx_fprime check_grad"),
)


def _recording(name: str) -> Callable[..., Any]:
    def record(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
        return import_module("accumulus.api.scipy_solvers").record_solver_call(name, tape, arguments, keywords)

    CALLING.add(record)
    return record


def _refusing(refuse: Callable[..., Any]) -> Callable[..., Any]:
    def record(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
        given = [*arguments, *keywords.values()]
        functions = [each for each in given if isinstance(each, FunctionType)]
        if depends([*given, *(cell.cell_contents for each in functions for cell in cells(each))]):
            refuse(tape)
        return NotImplemented

    CALLING.add(record)
    return record


for _module, _names in _RECORDED.items():
    for _name in _names:
        borrows(_module, _name)(_recording(_name))
for _module, _reason, _refused in _REFUSED:
    refuses(_module, _reason, *_refused.split())
    for _name in _refused.split():
        BORROWED[_module][_name] = _refusing(BORROWED[_module][_name])
