"""By what a value may be divided: only where that is zero was it infinite or undefined before."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.state import Integers
from accumulus.resubstitution.compiled.definitions_state import CODE, FIRST, NODE, SECOND
from accumulus.resubstitution.definitions import DIVIDE, MULTIPLY
from accumulus.resubstitution.values import Values
from accumulus.tape.operations import BY_NAME

__all__ = ["Divisors"]

#: How deep it is looked into what a divisor is a product, quotient or root of.
DEPTH: Final = 3
_SQRT: Final = BY_NAME["sqrt"].code
_SELECT: Final = BY_NAME["select"].code


class Divisors:
    """Which divisions are defined wherever their value was.

    Args:
        known: so many of the definitions, the first ones, are those of programs.
    """

    def __init__(self, values: Values, known: int) -> None:
        self._values = values
        rows = values.definitions.rows[:known]
        self._own: dict[int, list[tuple[int, list[int]]]] = {}
        for node, code, *arguments in rows[np.isin(rows[:, CODE], (MULTIPLY, DIVIDE, _SQRT)), : SECOND + 1].tolist():
            nodes = [abs(a) for a in arguments]
            self._own.setdefault(node, []).append((code, nodes[:1] if code == _SQRT else nodes))
        has_choices = bool((rows[:, CODE] == _SELECT).any())
        #: Divisors of the base, each a bit; and for each value those that it is computed by.
        self._bits: dict[int, int] = {}
        # the division that was there may be in a branch that is not taken
        self._divided = {} if has_choices else self._cones()
        self._is_never_zero = cache(self._looked_into)

    def allow(self, rows: Integers) -> NDArray[np.bool_]:
        """Whether each division is defined wherever its value was; other definitions are."""
        allowed = np.ones(len(rows), bool)
        everything = (1 << len(self._bits)) - 1
        divisions = np.flatnonzero(rows[:, CODE] == DIVIDE)
        nodes, divisors = rows[divisions, NODE].tolist(), np.abs(rows[divisions, SECOND]).tolist()
        allowed[divisions] = [
            self._is_never_zero(divisor, everything, DEPTH)
            and self._is_never_zero(divisor, self._divided.get(node, 0), DEPTH)
            for node, divisor in zip(nodes, divisors, strict=True)
        ]
        return allowed

    def _looked_into(self, value: int, divided: int, depth: int) -> bool:
        """Whether a value is not zero wherever none of some others is, given as bits."""
        if divided & self._bits.get(value, 0):
            return True
        if value in self._values.numbers:
            return self._values.numbers[value] != 0
        return depth > 0 and any(
            all(self._is_never_zero(node, divided, depth - 1) for node in nodes)
            for _, nodes in self._own.get(value, ())
        )

    def _cones(self) -> dict[int, int]:
        """All that is divided by to compute each value, as the base computes it."""
        found: dict[int, int] = {}
        own = self._values.base.own
        rows = self._values.definitions.rows[np.fromiter(own.values(), np.int64, len(own))]
        # of what a value is made of, all came before
        for node, code, *arguments, _ in rows.tolist():
            nodes = [abs(a) for a in arguments]
            divided = self._bits.setdefault(nodes[SECOND - FIRST], 1 << len(self._bits)) if code == DIVIDE else 0
            for n in nodes:
                divided |= found.get(n, 0)
            found[node] = divided
        return found
