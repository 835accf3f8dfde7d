"""CasADi's Jacobians of the examples: the same source run on SX symbols, then `jacobian`, then `cse`.

CasADi's `n_instructions` counts the reading of every input, the writing of every result and every constant; operations
are what remains without those three, which is how accumulus counts its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from counting import Kind, Tally
from functions import Example
from peers import require
from peers.object_arrays import ObjectNamespace, Scalar, lifted, plain

FUNCTIONS = (
    *("sqrt", "exp", "expm1", "log", "log1p", "log10", "sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "sign", "floor", "ceil", "hypot", "erf"),
)
#: CasADi's names of its scalar operations by kind; a square and a doubling are one product each
KINDS: dict[Kind | None, str] = {
    None: "input output const parameter",
    "arithmetic": "add sub mul sq twice fabs sign copysign floor ceil fmod fmin fmax lt le eq ne not and or "
    "if_else_zero",
    "division": "div inv",
    "root": "sqrt",
    "function": "exp expm1 log log1p pow constpow hypot erf sin cos tan asin acos atan atan2 sinh cosh tanh asinh "
    "acosh atanh",
    "sign": "neg",
}
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
        return self.tally(cse=cse).operations

    def tally(self, *, cse: bool) -> Tally:
        """Those operations by kind."""
        return tally_of(self._function(cse))

    def function_tally(self) -> Tally:
        """Operations of f alone, with `cse`."""
        ca = require("casadi")
        return tally_of(ca.Function("f", [self.x], [ca.cse(self.y)]))

    def instructions(self, *, cse: bool) -> int:
        """All instructions of value and Jacobian together."""
        return int(self._function(cse).n_instructions())

    def _function(self, cse: bool) -> Any:
        ca = require("casadi")
        return ca.Function("f", [self.x], ca.cse([self.y, self.J]) if cse else [self.y, self.J])


def tally_of(function: Any) -> Tally:
    """Operations of a function of SX, by kind."""
    kinds = _kinds()
    codes = (function.instruction_id(k) for k in range(function.n_instructions()))
    return Tally.of(kind for code in codes if (kind := kinds[code]) is not None)


@cache
def _kinds() -> dict[int, Kind | None]:
    """Kind of each of CasADi's scalar operations; None for those that do not count."""
    ca = require("casadi")
    named = {name: kind for kind, names in KINDS.items() for name in names.split()}
    return {getattr(ca, f"OP_{name.upper()}"): kind for name, kind in named.items()}
