"""CasADi's Jacobians of the examples: the same source run on SX symbols, then `jacobian`, then `cse`.

CasADi's `n_instructions` counts the reading of every input, the writing of every result and every constant; operations
are what remains without those three, which is how accumulus counts its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from functions import Example
from peers import require
from peers.object_arrays import ObjectNamespace, Scalar, lifted, plain

FUNCTIONS = (
    *("sqrt", "exp", "expm1", "log", "log1p", "log10", "sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "sign", "floor", "ceil", "hypot"),
)
RENAMED = {"arctan2": "atan2", "absolute": "fabs", "maximum": "fmax", "minimum": "fmin"}


@dataclass(frozen=True)
class Symbolic:
    """An example as CasADi expressions: x (inputs), y (outputs), J (outputs × inputs, sparse)."""

    x: Any
    y: Any
    J: Any

    @classmethod
    def of(cls, example: Example) -> Symbolic:
        """Trace the example on SX symbols."""
        ca = require("casadi")
        functions = {name: lifted(getattr(ca, name)) for name in FUNCTIONS}
        functions |= {name: lifted(getattr(ca, theirs)) for name, theirs in RENAMED.items()}
        x = ca.SX.sym("x", example.inputs)
        symbols = np.array([Scalar(x[k], lambda sx: sx) for k in range(example.inputs)], dtype=object)
        results = example.running_on(ObjectNamespace(functions))(symbols)
        y = ca.vertcat(*map(plain, results))
        return cls(x, y, ca.jacobian(y, x))

    def operations(self, *, cse: bool) -> int:
        """Operations of value and Jacobian together: instructions that are no inputs, outputs or constants."""
        ca = require("casadi")
        function = self._function(cse)
        not_counted = (ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_CONST)
        return sum(function.instruction_id(k) not in not_counted for k in range(function.n_instructions()))

    def instructions(self, *, cse: bool) -> int:
        """All instructions of value and Jacobian together."""
        return int(self._function(cse).n_instructions())

    def _function(self, cse: bool) -> Any:
        ca = require("casadi")
        return ca.Function("f", [self.x], ca.cse([self.y, self.J]) if cse else [self.y, self.J])
