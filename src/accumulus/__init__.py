"""Fast, verified Jacobians: pass a function; accumulus plans its derivatives and runs them as compiled code.

>>> import numpy as np
>>> import accumulus as acc
>>> jac = acc.jacobian(lambda x: np.array([x[0] * np.sin(x[1]), x[0] ** 2]))
>>> print(jac(np.array([2.0, 0.0])))
[[0. 2.]
 [4. 0.]]
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from accumulus import errors
from accumulus.methods import methods  # imported here, or the module of the same name would replace the function

if _TYPE_CHECKING:
    __version__: str

    from accumulus import casadi, jax, manifolds, sympy
    from accumulus.api.implicit_functions import ImplicitFunction, implicit
    from accumulus.api.jacobians import (
        compile,  # noqa: A004  # what it does
        gradient,
        hessian,
        hessian_of_lagrangian,
        jacobian,
        value_and_gradient,
        value_and_jacobian,
        value_gradient_hessian,
    )
    from accumulus.api.odes import odeint
    from accumulus.api.products import hvp, jvp, linear_operator, taylor, vjp
    from accumulus.api.recordings import Trace, trace
    from accumulus.checking.check import check
    from accumulus.checking.comparisons import CheckReport
    from accumulus.elimination.accumulation import Accumulation
    from accumulus.frontends.numpy.custom import CustomFunction, custom
    from accumulus.frontends.numpy.mapping import assemble, map  # noqa: A004  # as jax.lax has it
    from accumulus.frontends.numpy.scanning import scan
    from accumulus.frontends.trees import register
    from accumulus.graph import generators as graphs
    from accumulus.graph.files import load_graph, save_graph
    from accumulus.graph.graph import DifferentiationGraph, Kind
    from accumulus.programs.derivative import Derivative
    from accumulus.programs.sparse import SparseBatch
    from accumulus.progress import Progress
    from accumulus.resubstitution.optimise import optimise
    from accumulus.search.find import plan
    from accumulus.search.plan import Plan, load_plan, save_plan
    from accumulus.shipping.derivatives import load, save
    from accumulus.tape.tape import Tape
    from accumulus.theory import algebra
    from accumulus.theory.algebra.sets import ExpressionSet, expressions
    from accumulus.theory.graphs.line import LineGraph
    from accumulus.theory.research.corpus import corpus

__all__ = [
    "Accumulation",
    "CheckReport",
    "CustomFunction",
    "Derivative",
    "DifferentiationGraph",
    "ExpressionSet",
    "ImplicitFunction",
    "Kind",
    "LineGraph",
    "Plan",
    "Progress",
    "SparseBatch",
    "Tape",
    "Trace",
    "algebra",
    "assemble",
    "casadi",
    "check",
    "compile",
    "corpus",
    "custom",
    "errors",
    "expressions",
    "gradient",
    "graphs",
    "hessian",
    "hessian_of_lagrangian",
    "hvp",
    "implicit",
    "jacobian",
    "jax",
    "jvp",
    "linear_operator",
    "load",
    "load_graph",
    "load_plan",
    "manifolds",
    "map",
    "methods",
    "odeint",
    "optimise",
    "plan",
    "register",
    "save",
    "save_graph",
    "save_plan",
    "scan",
    "sympy",
    "taylor",
    "trace",
    "value_and_gradient",
    "value_and_jacobian",
    "value_gradient_hessian",
    "vjp",
]

# Modules of all public names; each is imported at the first access to the name.
_MODULES = {
    "Accumulation": "accumulus.elimination.accumulation",
    "CheckReport": "accumulus.checking.comparisons",
    "CustomFunction": "accumulus.frontends.numpy.custom",
    "Derivative": "accumulus.programs.derivative",
    "DifferentiationGraph": "accumulus.graph.graph",
    "ExpressionSet": "accumulus.theory.algebra.sets",
    "ImplicitFunction": "accumulus.api.implicit_functions",
    "Kind": "accumulus.graph.graph",
    "LineGraph": "accumulus.theory.graphs.line",
    "Plan": "accumulus.search.plan",
    "Progress": "accumulus.progress",
    "SparseBatch": "accumulus.programs.sparse",
    "Tape": "accumulus.tape.tape",
    "Trace": "accumulus.api.recordings",
    "algebra": "accumulus.theory.algebra",
    "assemble": "accumulus.frontends.numpy.mapping",
    "casadi": "accumulus.casadi",
    "check": "accumulus.checking.check",
    "compile": "accumulus.api.jacobians",
    "corpus": "accumulus.theory.research.corpus",
    "custom": "accumulus.frontends.numpy.custom",
    "expressions": "accumulus.theory.algebra.sets",
    "gradient": "accumulus.api.jacobians",
    "graphs": "accumulus.graph.generators",
    "hessian": "accumulus.api.jacobians",
    "hessian_of_lagrangian": "accumulus.api.jacobians",
    "hvp": "accumulus.api.products",
    "implicit": "accumulus.api.implicit_functions",
    "jacobian": "accumulus.api.jacobians",
    "jax": "accumulus.jax",
    "jvp": "accumulus.api.products",
    "linear_operator": "accumulus.api.products",
    "load": "accumulus.shipping.derivatives",
    "load_graph": "accumulus.graph.files",
    "load_plan": "accumulus.search.plan",
    "manifolds": "accumulus.manifolds",
    "map": "accumulus.frontends.numpy.mapping",
    "odeint": "accumulus.api.odes",
    "optimise": "accumulus.resubstitution.optimise",
    "plan": "accumulus.search.find",
    "register": "accumulus.frontends.trees",
    "save": "accumulus.shipping.derivatives",
    "save_graph": "accumulus.graph.files",
    "save_plan": "accumulus.search.plan",
    "scan": "accumulus.frontends.numpy.scanning",
    "sympy": "accumulus.sympy",
    "taylor": "accumulus.api.products",
    "trace": "accumulus.api.recordings",
    "value_and_gradient": "accumulus.api.jacobians",
    "value_and_jacobian": "accumulus.api.jacobians",
    "value_gradient_hessian": "accumulus.api.jacobians",
    "vjp": "accumulus.api.products",
}


# Names in other libraries, with the equivalent here.
_ELSEWHERE = {
    "grad": "acc.gradient(f)",
    "value_and_grad": "acc.value_and_gradient(f)",
    "jac": "acc.jacobian(f)",
    "jacfwd": "acc.jacobian(f)",
    "jacrev": "acc.jacobian(f)",
    "elementwise_grad": "acc.jvp(f)",
    "jit": "acc.compile(f)",
    "vmap": "acc.jacobian(f).batch(points), or acc.map(f, points) within a function",
    "linearize": "acc.linear_operator(f)",
    "pmap": "acc.jacobian(f, threads=4).batch(points)",
    "make_jaxpr": "acc.trace(f, *arguments).tape",
    "custom_jvp": "acc.custom(f, jvp=...)",
    "custom_vjp": "acc.custom(f, vjp=...)",
    "jtimes": "acc.jvp(f), or acc.vjp(f)",
    "make_vjp": "acc.vjp(f)",
    "make_jvp": "acc.jvp(f)",
    "make_hvp": "acc.hvp(f)",
    "hessian_vector_product": "acc.hvp(f)",
    "vector_jacobian_product": "acc.vjp(f)",
    "lambdify": "acc.sympy.lambdify(arguments, expressions)",
    "nlpsol": "acc.casadi.nlpsol(name, solver, nlp)",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # takes longer to import than everything else here

        return version("accumulus")
    if name not in _MODULES:
        hint = f". Write {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    module = _import_module(_MODULES[name])
    return getattr(module, name, module)


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, "__version__"})
