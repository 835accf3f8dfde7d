"""Expressions onto a tape: sums, products and powers one by one, functions by the tables below.

Most functions are rows of the tape's table; the others are formulas of NumPy's and SciPy's functions, which are
recorded as they are in Python functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import sympy as sp
from sympy.codegen import cfunctions
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.elementwise import of_special
from accumulus.frontends.numpy.scalars import as_real, as_truth, by_formula
from accumulus.frontends.sympy.model import SYMBOLS, Places, named_row
from accumulus.frontends.sympy.nodes import UNDONE, Nodes, bottom_up, constant
from accumulus.tape.operations import OPERATIONS, Operation
from accumulus.tape.tape import Tape

#: Class → row of the tape's table, on the same arguments; SymPy has some under C's names, too.
ROWS: Final[dict[Any, str]] = {
    kind: row.name
    for row in OPERATIONS
    for kind in (
        getattr(sp, row.sympy, None),
        getattr(cfunctions, row.name, None),
        getattr(cfunctions, row.name.capitalize(), None),
    )
    if isinstance(kind, type) and kind not in (sp.Min, sp.Max, sp.And, sp.Or, sp.Not)
}


def _sinc(x: Any) -> Any:
    from accumulus.frontends.numpy.various import sine_by_argument  # while something is recorded

    return sine_by_argument(x)


#: Class → formula on what stands for its arguments.
FORMULAS: Final[dict[Any, Callable[..., Any]]] = {
    sp.sec: lambda x: 1.0 / np.cos(x),
    sp.csc: lambda x: 1.0 / np.sin(x),
    sp.cot: lambda x: np.cos(x) / np.sin(x),
    sp.asec: lambda x: np.arccos(1.0 / x),
    sp.acsc: lambda x: np.arcsin(1.0 / x),
    # SymPy's, between -π/2 and π/2: it jumps at zero
    sp.acot: lambda x: np.where(x == 0, 0.5 * math.pi, np.arctan(1.0 / np.where(x == 0, 1.0, x))),
    sp.sech: lambda x: 1.0 / np.cosh(x),
    sp.csch: lambda x: 1.0 / np.sinh(x),
    sp.coth: lambda x: 1.0 / np.tanh(x),
    sp.asech: lambda x: np.arccosh(1.0 / x),
    sp.acsch: lambda x: np.arcsinh(1.0 / x),
    sp.acoth: lambda x: np.arctanh(1.0 / x),
    sp.sinc: _sinc,
    sp.Heaviside: np.heaviside,
    sp.Mod: np.remainder,
    sp.frac: lambda x: x - np.floor(x),
    sp.re: lambda x: x,
    sp.conjugate: lambda x: x,
    sp.im: lambda x: 0.0,
    sp.erf2: lambda x, y: of_special("erf")(y) - of_special("erf")(x),
    sp.erfinv: of_special("erfinv"),
    sp.gamma: of_special("gamma"),
    sp.loggamma: of_special("gammaln"),
    sp.polygamma: lambda order, x: of_special("digamma")(x) if order == 0 else of_special("polygamma")(order, x),
    sp.beta: of_special("beta"),
    sp.besselj: of_special("jv"),
    sp.bessely: of_special("yv"),
    sp.besseli: of_special("iv"),
    sp.besselk: of_special("kv"),
    sp.Max: lambda *parts: reduce(np.maximum, parts),
    sp.Min: lambda *parts: reduce(np.minimum, parts),
    sp.StrictGreaterThan: np.greater,
    sp.GreaterThan: np.greater_equal,
    sp.And: lambda *parts: reduce(np.logical_and, parts),
    sp.Or: lambda *parts: reduce(np.logical_or, parts),
    sp.Not: np.logical_not,
    sp.Xor: lambda *parts: reduce(np.logical_xor, parts),
    sp.Implies: lambda x, y: np.logical_or(np.logical_not(x), y),
    sp.Equivalent: lambda x, *others: reduce(
        np.logical_and, (np.logical_not(np.logical_xor(x, other)) for other in others)
    ),
    sp.ITE: lambda x, y, z: np.logical_or(np.logical_and(x, y), np.logical_and(np.logical_not(x), z)),
    cfunctions.fma: lambda x, y, z: x * y + z,
    sp.UnevaluatedExpr: lambda x: x,
}


class Writer(Nodes):
    """Writes expressions onto a tape.

    Constant parts, such as ``sqrt(2)*pi/4``, are evaluated by SymPy and rounded once. A product is that of the factors
    with positive exponents, divided by that of the others, as SymPy prints it.
    """

    def __init__(self, tape: Tape, places: Places) -> None:
        super().__init__(places)
        self._tape = tape
        self._known: dict[int, int] = {}
        #: What was written as a constant, by its value.
        self.numbers: dict[float, Any] = {}
        self._writers: dict[type, Callable[[Any, list[int]], int]] = {
            sp.Add: self._sum,
            sp.Mul: self._product,
            sp.Pow: self._power,
        }

    def references(self, expressions: Sequence[Any]) -> list[int]:
        """References of expressions; truth values are 1 and 0."""
        found = bottom_up(expressions, self.parts, self._make, self._known)
        return [self._real(reference) for reference in found]

    def parts(self, node: Any) -> Sequence[Any]:
        """Of powers with a constant exponent the base alone, in products too."""
        kind = type(node)
        if kind is sp.Mul:
            return [factor.args[0] if _has_number(factor) else factor for factor in node.args]
        if _has_number(node):
            return [node.args[0]]
        if kind not in self._writers:  # before its parts are looked at, which may be no expressions
            self._writers[kind] = self._writer_of(kind)
        return super().parts(node)

    def _make(self, node: Any, parts: list[int]) -> int:
        if parts and max(parts) < 0 and (value := constant(node)) is not None:
            self.numbers[value] = node
            return self._tape.constant(value)
        return self._writers[type(node)](node, parts)

    def _writer_of(self, kind: type) -> Callable[[Any, list[int]], int]:
        """Return how objects of a class are written."""
        for base in kind.__mro__:
            if base in _WRITERS:
                return getattr(self, _WRITERS[base])  # type: ignore[no-any-return]
            if base in ROWS:
                row = ROWS[base]
                return lambda _, parts: self._tape.apply(row, *map(self._real, parts))
            if base in FORMULAS:
                formula = FORMULAS[base]
                return lambda _, parts: self._by(formula, parts)
        raise refuse(
            f"The expressions hold {kind.__name__}, which has no row among what can be recorded "
            "(docs/sympy.md). Rewrite it by functions that have one, expression.rewrite(…), or make it an argument."
        )

    # Leaves -----------------------------------------------------------------------------------------------------

    def _symbol(self, node: Any, parts: list[int]) -> int:
        """Return what stands for it; or else what its implementation or its row gives; what it comes to, if undone."""
        if not parts:
            return int(self.places.of(node))
        if (row := named_row(node)) is not None:
            return self._row(node, row, parts)
        return self._by(node._imp_, parts) if hasattr(node, "_imp_") else parts[0]

    def _row(self, node: Any, row: Operation, parts: list[int]) -> int:
        """Apply the row that an undefined function names."""
        operands = []
        for kind, part, argument in zip(row.arguments, parts, node.args, strict=True):
            if kind == "order":
                lowest, order = row.domain[0][0], math.nan if part >= 0 else self._tape.value_of(part)
                if not (order.is_integer() and lowest <= order <= row.largest_order):
                    highest = f"to {row.largest_order:g}" if row.largest_order < math.inf else "on"
                    raise refuse(
                        f"The order of {node!s:.200} is {argument!s:.100}; expected a constant whole number from "
                        f"{lowest:g} {highest}."
                    )
            operands.append(self._truth(part) if kind == "boolean" else self._real(part))
        return self._tape.apply(row.name, *operands)

    def _number(self, node: Any, _: list[int]) -> int:
        try:
            value = float(node)
        except TypeError:
            raise refuse(f"The expressions hold {node!s:.100}, which is no real number.") from None
        if math.isinf(value) and node.is_finite:
            raise refuse(f"The expressions hold {node!s:.100}, which is beyond the range of floating-point numbers.")
        self.numbers[value] = node
        return self._tape.constant(value)

    def _truth_value(self, node: Any, _: list[int]) -> int:
        return self._tape.constant(float(bool(node)))

    # Arithmetic -------------------------------------------------------------------------------------------------

    def _sum(self, _: Any, parts: list[int]) -> int:
        return self._tape.sum(map(self._real, parts))

    def _product(self, node: Any, parts: list[int]) -> int:
        above: list[int] = []
        below: list[int] = []
        for factor, part in zip(node.args, parts, strict=True):
            if not _has_number(factor):
                above.append(self._real(part))
            elif factor.args[1].is_negative:
                below.append(self._to_the(part, -factor.args[1]))
            else:
                above.append(self._to_the(part, factor.args[1]))
        above.sort(key=lambda reference: reference < 0)  # what is common to products has no coefficient
        product = self._multiplied(above)
        return self._tape.divide(product, self._multiplied(below)) if below else product

    def _factors(self, _: Any, parts: list[int]) -> int:
        return self._multiplied([self._real(part) for part in parts])

    def _multiplied(self, factors: Sequence[int]) -> int:
        return reduce(self._tape.multiply, factors) if factors else self._tape.constant(1.0)

    def _power(self, node: Any, parts: list[int]) -> int:
        if len(parts) == 2:
            if node.args[0] is sp.E:
                return self._tape.apply("exp", parts[1])
            return self._tape.power(*map(self._real, parts))
        exponent = node.args[1]
        if exponent.is_negative:
            return self._tape.divide(self._tape.constant(1.0), self._to_the(parts[0], -exponent))
        return self._to_the(parts[0], exponent)

    def _to_the(self, base: int, exponent: Any) -> int:
        return self._tape.power(self._real(base), self._tape.constant(float(exponent)))

    def _by(self, formula: Callable[..., Any], parts: list[int]) -> int:
        return by_formula(self._tape, formula, parts)

    # Conditions -------------------------------------------------------------------------------------------------

    def _truth(self, reference: int) -> int:
        return as_truth(self._tape, reference)

    def _real(self, reference: int) -> int:
        return as_real(self._tape, reference)

    def _pieces(self, _: Any, parts: list[int]) -> int:
        value = self._tape.constant(float("nan"))  # where no condition holds
        for part, condition in zip(parts[-2::-2], parts[::-2], strict=True):
            value = self._tape.select(self._truth(condition), self._real(part), value)
        return value


def _has_number(factor: Any) -> bool:
    """Return True if a factor is a power with a number as its exponent."""
    return type(factor) is sp.Pow and isinstance(factor.args[1], sp.Rational | sp.Float)


_WRITERS: Final[dict[Any, str]] = {
    **dict.fromkeys((*SYMBOLS, *UNDONE), "_symbol"),
    **dict.fromkeys((sp.Number, sp.NumberSymbol, sp.core.numbers.ImaginaryUnit, type(sp.zoo)), "_number"),
    **dict.fromkeys((BooleanTrue, BooleanFalse), "_truth_value"),
    **{sp.Sum: "_sum", sp.Product: "_factors", sp.Piecewise: "_pieces"},
}
