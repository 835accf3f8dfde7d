"""Solvers of `scipy.integrate` and `scipy.optimize`, recorded as calls back to SciPy.

Recording compiles the user's equations and their derivatives, which takes modules above the front ends:
`accumulus.api.scipy_solvers` is imported by name when a recorded function first calls a solver.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from accumulus.frontends.numpy.table import CALLING, borrows, refuses
from accumulus.tape.tape import Tape

_RECORDED: Final = {
    "scipy.integrate": ("odeint", "quad", "solve_ivp"),
    "scipy.optimize": ("bisect", "brenth", "brentq", "fsolve", "least_squares", "ridder", "root", "toms748"),
}


def _recording(name: str) -> Callable[..., Any]:
    def record(tape: Tape, *arguments: Any, **keywords: Any) -> Any:
        return import_module("accumulus.api.scipy_solvers").record_solver_call(name, tape, arguments, keywords)

    CALLING.add(record)
    return record


for _module, _names in _RECORDED.items():
    for _name in _names:
        borrows(_module, _name)(_recording(_name))

refuses(
    "scipy.integrate",
    "write an integral by scipy.integrate.quad, one within the other, or acc.odeint with the integral as a state.",
    *("dblquad", "nquad", "quad_vec", "tplquad"),
)
refuses(
    "scipy.optimize",
    "scipy.optimize.brentq and root, and acc.implicit(residual)(guess, …), are.",
    *("newton", "root_scalar"),
)
refuses(
    "scipy.optimize",
    "at a minimum the gradient is zero: scipy.optimize.root of acc.gradient(f), or acc.implicit, are.",
    *("minimize", "minimize_scalar"),
)
