"""CasADi's Hessians, and products with directions: SX, `hessian` or `jtimes`, then `cse` of all results together.

Functions of several results are weighted, w·f(x); their weights are further inputs.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions import Example
from peers import Contender, require
from peers.casadi_c import compiled
from peers.casadi_functions import Symbolic, tally_of


@dataclass(frozen=True)
class Second:
    """An example as CasADi expressions: arguments, w·f, its gradient and Hessian, by the first argument."""

    arguments: list[Any]
    y: Any
    gradient: Any
    H: Any

    @classmethod
    def of(cls, example: Example) -> Second:
        """Trace the example on SX symbols."""
        ca = require("casadi")
        first = Symbolic.of(example)
        arguments, y = [first.x], first.y
        if example.outputs > 1:
            w = ca.SX.sym("w", example.outputs)
            arguments, y = [first.x, w], ca.dot(w, first.y)
        H, gradient = ca.hessian(y, first.x)
        return cls(arguments, y, gradient, H)


def hessian_operations(example: Example) -> int:
    """Operations of value, gradient and Hessian."""
    ca = require("casadi")
    found = Second.of(example)
    return tally_of(ca.Function("f", found.arguments, ca.cse([found.y, found.gradient, found.H]))).operations


def product_operations(example: Example, kind: str) -> int:
    """Operations of a product with one direction: "jvp", with the values of f, or "hvp"."""
    ca = require("casadi")
    v = ca.SX.sym("v", example.inputs)
    if kind == "jvp":
        first = Symbolic.of(example)
        return tally_of(ca.Function("f", [first.x, v], ca.cse([first.y, ca.jtimes(first.y, first.x, v)]))).operations
    found = Second.of(example)
    product = ca.jtimes(found.gradient, found.arguments[0], v)
    return tally_of(ca.Function("f", [*found.arguments, v], ca.cse([product]))).operations


def contender(example: Example, X: NDArray[np.float64], w: NDArray[np.float64]) -> Contender:
    """Gradient and dense Hessian at the points X (points, inputs), in generated C."""
    ca = require("casadi")
    found = Second.of(example)
    inputs = ca.vertcat(*found.arguments)
    result = ca.vertcat(found.gradient, ca.vec(ca.densify(found.H)))
    points = np.ascontiguousarray(np.hstack([X, np.tile(w, (len(X), 1))])[:, : inputs.numel()])
    library, folder = compiled(ca.Function("hessian", [inputs], [ca.cse(result)]), inputs.numel(), result.numel())
    out = np.empty((len(X), result.numel()))
    pointer = ctypes.POINTER(ctypes.c_double)
    arguments = (points.ctypes.data_as(pointer), out.ctypes.data_as(pointer), ctypes.c_longlong(len(X)))

    def run(_folder: Any = (folder, points)) -> None:
        library.batch(*arguments)

    def dense() -> NDArray[np.float64]:
        out.fill(np.nan)
        run()
        return out[:, example.inputs :].reshape(len(X), example.inputs, example.inputs).copy()

    return Contender("CasADi C", run, dense)
