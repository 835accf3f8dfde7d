"""Fast, verified Jacobians: hand over a function, get the cheapest known plan, and run it as compiled code.

>>> import numpy as np
>>> import accumulus as acc
>>> jac = acc.jacobian(lambda x: np.array([x[0] * np.sin(x[1]), x[0] ** 2]))
>>> print(jac(np.array([2.0, 0.0])))
[[0. 2.]
 [4. 0.]]
"""

from importlib.metadata import version as _version

from accumulus import errors
from accumulus.api import Derivative, Trace, gradient, jacobian, trace, value_and_jacobian
from accumulus.graph.files import load_graph
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.programs.sparse import SparseBatch
from accumulus.search.methods import methods
from accumulus.search.plan import Plan, plan
from accumulus.tape.tape import Tape

__all__ = [
    "Derivative",
    "DifferentiationGraph",
    "Kind",
    "Plan",
    "SparseBatch",
    "Tape",
    "Trace",
    "errors",
    "gradient",
    "jacobian",
    "load_graph",
    "methods",
    "plan",
    "trace",
    "value_and_jacobian",
]

__version__ = _version("accumulus")
