"""Models that SymPy has made, and other systems' ways from there to a function of value and Jacobian."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peers import NotInstalled, require
from peers.casadi_functions import tally_of
from peers.sympy_functions import Program, count, forward

#: Equations of motion of a walking model, beside the repository where they are there.
GAIT = Path(__file__).resolve().parents[2].parent / "shared" / "reference" / "gait2d"


@dataclass(frozen=True)
class SymbolicModel:
    """Expressions of variables, which they are differentiated by, and of parameters; all are plain symbols."""

    name: str
    expressions: list[Any]
    variables: list[Any]
    parameters: list[Any]

    @property
    def point(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values between ½ and 1."""
        random = np.random.default_rng(0)
        return random.uniform(0.5, 1.0, len(self.variables)), random.uniform(0.5, 1.0, len(self.parameters))


def pendulum(links: int) -> SymbolicModel:
    """SymPy's pendulum of some links on a cart: mass matrix and forces."""
    sp = require("sympy")
    from sympy.core.function import AppliedUndef
    from sympy.physics.mechanics.models import n_link_pendulum_on_cart

    kane = n_link_pendulum_on_cart(links)
    states = [*kane.q, *kane.u]
    names = {state: sp.Symbol(f"y{k}") for k, state in enumerate(states)}
    given = [*kane.mass_matrix_full, *kane.forcing_full]
    forces = set().union(*(expression.atoms(AppliedUndef) for expression in given)) - set(states)
    names |= {force: sp.Symbol(f"F{k}") for k, force in enumerate(sorted(forces, key=str))}
    expressions = [expression.xreplace(names) for expression in given]
    variables = [names[state] for state in states]
    free = set().union(*(expression.free_symbols for expression in expressions))
    return SymbolicModel(f"pendulum, {links} links", expressions, variables, sorted(free - set(variables), key=str))


def gait() -> SymbolicModel:
    """The walking model.

    Raises:
        NotInstalled: if its files are not there.
    """
    sp = require("sympy")
    if not GAIT.is_dir():
        raise NotInstalled("gait2d not there")
    given = sp.sympify((GAIT / "dis_eom.txt").read_text())
    names = {symbol: sp.Symbol(symbol.name, real=True) for symbol in given.free_symbols}  # |x| has a derivative then
    equations = given.xreplace(names)
    variables = [names[symbol] for symbol in sp.sympify((GAIT / "partials.txt").read_text())]
    others = sorted(equations.free_symbols - set(variables), key=str)
    return SymbolicModel("Gait2D", list(equations), variables, others)


#: A function of variables and parameters that gives the Jacobian, and what it takes to compute with the value.
Prepared = tuple[Callable[[Any, Any], NDArray[np.float64]], int | None]


def by_sympy(model: SymbolicModel) -> Prepared:
    """The chain rule through `cse`, `cse` again, and `lambdify`: NumPy code."""
    sp = require("sympy")
    program = forward(model.variables, model.expressions)
    values = len(model.expressions)
    f = sp.lambdify(
        [model.variables, model.parameters], program.results, cse=lambda _: (_ordered(program), program.results)
    )
    shape = values, len(model.variables)
    operations = count(program.definitions, program.results).operations
    return lambda x, p: np.array(f(x, p)[values:], float).reshape(shape), operations


def _ordered(program: Program) -> list[tuple[Any, Any]]:
    """The definitions that the results need, each after those that it needs."""
    found: dict[Any, Any] = {}
    waiting = [symbol for result in reversed(program.results) for symbol in result.free_symbols]
    while waiting:
        symbol = waiting[-1]
        needs = [] if symbol not in program.definitions else program.definitions[symbol].free_symbols - found.keys()
        needs = [need for need in needs if need in program.definitions]
        if symbol in found or symbol not in program.definitions or not needs:
            waiting.pop()
            if symbol in program.definitions:
                found.setdefault(symbol, program.definitions[symbol])
        else:
            waiting += needs
    return list(found.items())


def by_symengine(model: SymbolicModel) -> Prepared:
    """SymEngine: its `jacobian`, and `Lambdify` by LLVM, with `cse`."""
    se = require("symengine")
    values = se.DenseMatrix(len(model.expressions), 1, [se.sympify(e) for e in model.expressions])
    variables = [se.sympify(symbol) for symbol in model.variables]
    derivatives = values.jacobian(se.DenseMatrix(len(variables), 1, variables))
    arguments = [*variables, *(se.sympify(symbol) for symbol in model.parameters)]
    f = se.Lambdify(arguments, [*values, *derivatives], cse=True, backend="llvm")
    count, shape = len(model.expressions), (len(model.expressions), len(variables))
    return lambda x, p: np.asarray(f(np.concatenate([x, p])))[count:].reshape(shape), None


def by_casadi(model: SymbolicModel) -> Prepared:
    """CasADi: the expressions as SX, `jacobian`, `cse`; a function of its virtual machine."""
    ca, sp = require("casadi"), require("sympy")
    names = ("sin", "cos", "tan", "exp", "log", "sqrt")
    modules = [{**{name: getattr(ca, name) for name in names}, "Abs": ca.fabs}]
    write = sp.lambdify([model.variables, model.parameters], model.expressions, modules=modules, cse=True)
    x, p = ca.SX.sym("x", len(model.variables)), ca.SX.sym("p", len(model.parameters))
    y = ca.vertcat(*write(ca.vertsplit(x), ca.vertsplit(p)))
    f = ca.Function("f", [x, p], ca.cse([y, ca.jacobian(y, x)]))
    return lambda at, of: np.array(f(at, of)[1]), tally_of(f).operations


PEERS: dict[str, Callable[[SymbolicModel], Prepared]] = {
    "SymPy": by_sympy,
    "SymEngine": by_symengine,
    "CasADi": by_casadi,
}


def models(links: Sequence[int]) -> list[SymbolicModel]:
    """Those that are there."""
    found = [pendulum(n) for n in links]
    try:
        return [*found, gait()]
    except NotInstalled:
        return found
