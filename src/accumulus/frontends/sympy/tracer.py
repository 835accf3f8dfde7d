"""Front end for SymPy: expressions are translated to operations on a tape, without calling a function.

For the comparison, expressions are evaluated on numbers by independent means: Python's arithmetic, and SymPy's
functions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import sympy as sp
from sympy.printing.pycode import PythonCodePrinter

from accumulus.frontends.calls import as_called
from accumulus.frontends.recorder import Inputs, Recorder, References
from accumulus.frontends.sympy.model import SYMBOLS, Model, SymbolReferences, named_row
from accumulus.frontends.sympy.writing import UNDONE, ExpressionWriter, Nodes, bottom_up, constant
from accumulus.tape.tape import Tape

# Expressions on numbers -----------------------------------------------------------------------------------------------


def _evaluated(model: Model, arguments: Sequence[Any]) -> Any:
    """Return the results of a model on numbers; NaN where they are not real.

    >>> from sympy.abc import x, y
    >>> _evaluated(Model([x, y], [x * y, x / 2]), [3.0, 2.0])
    array([6. , 1.5])
    """
    nodes = Nodes(SymbolReferences(model, [np.asarray(argument, float) for argument in arguments]))
    cache: dict[int, Any] = {}

    def make(node: Any, parts: list[Any]) -> Any:
        return _value(nodes.places, node, parts)

    def of_each(entries: Sequence[Any]) -> Any:
        return np.array(bottom_up(entries, nodes.parts, make, cache), float)

    return model.map(of_each)


class _Constant(float):
    """The value of an expression without symbols, distinguished from values that depend on arguments."""


def _value(places: SymbolReferences, node: Any, parts: list[Any]) -> Any:
    if parts and (row := named_row(node)) is not None:
        return float(row.evaluate(*parts))
    if isinstance(node, _NAMED) and not (parts and hasattr(node, "_imp_")):
        return parts[0] if parts else places.of(node)
    if all(type(operand) is _Constant for operand in parts) and (value := constant(node)) is not None:
        return _Constant(value)
    try:
        computed = _PYTHONS.get(type(node))
        if computed is not None:
            return computed(*parts)
        if not parts:
            return float(node)
        if (elementary := _elementary().get(type(node).__name__)) is not None:
            return elementary(*parts)
        if (implementation := getattr(node, "_imp_", None)) is not None:
            return float(implementation(*parts))
        # operands and result are doubles: with more digits, a sine near 1e5 would be the sine of another number
        value = node.func(*map(_as_sympy, parts))
        return float(value if value.is_Number else sp.expand_func(value.rewrite(sp.erf)).evalf())
    except (ArithmeticError, TypeError, ValueError):
        return math.nan


@cache
def _elementary() -> dict[str, Callable[..., float]]:
    """Return functions of `math` by SymPy's class names, as SymPy's Python printer maps them."""
    functions = PythonCodePrinter().known_functions
    return {name: getattr(math, theirs[5:]) for name, theirs in functions.items() if str(theirs).startswith("math.")}


def _as_sympy(value: Any) -> Any:
    if isinstance(value, bool):
        return sp.true if value else sp.false
    return sp.Float(value) if not float(value).is_integer() else sp.Integer(int(value))


def _pieces(*parts: Any) -> Any:
    return next((value for value, holds in zip(parts[::2], parts[1::2], strict=True) if holds), math.nan)


def _power(base: Any, exponent: Any) -> Any:
    value = base**exponent
    return math.nan if isinstance(value, complex) else value


_NAMED: Final = SYMBOLS + UNDONE
#: Classes that Python's operators and functions evaluate.
_PYTHONS: Final[dict[Any, Callable[..., Any]]] = {
    sp.Add: lambda *terms: sum(terms),
    sp.Sum: lambda *terms: sum(terms),
    sp.Mul: lambda *factors: math.prod(factors),
    sp.Product: lambda *factors: math.prod(factors),
    sp.Pow: _power,
    sp.Max: lambda *parts: max(parts) if not any(map(math.isnan, parts)) else math.nan,
    sp.Min: lambda *parts: min(parts) if not any(map(math.isnan, parts)) else math.nan,
    sp.Piecewise: _pieces,
    sp.StrictLessThan: operator.lt,
    sp.LessThan: operator.le,
    sp.StrictGreaterThan: operator.gt,
    sp.GreaterThan: operator.ge,
    sp.Equality: operator.eq,
    sp.Unequality: operator.ne,
    sp.And: lambda *parts: all(parts),
    sp.Or: lambda *parts: any(parts),
    sp.Not: operator.not_,
    sp.Xor: lambda *parts: sum(map(bool, parts)) % 2 == 1,
    sp.Implies: lambda first, second: not first or bool(second),
    sp.Equivalent: lambda *parts: len(set(map(bool, parts))) == 1,
    sp.ITE: lambda condition, first, second: bool(first if condition else second),
    sp.logic.boolalg.BooleanTrue: lambda: True,
    sp.logic.boolalg.BooleanFalse: lambda: False,
    sp.UnevaluatedExpr: lambda x: x,
}


class _Expressions(Recorder):
    """Recorder for `sympy.Lambda` and `Model` objects."""

    def takes(self, function: object) -> bool:
        return isinstance(function, sp.Lambda | Model)

    def run(self, function: Any, tape: Tape, arguments: Sequence[Any], inputs: Inputs) -> Any:
        function, arguments, inputs = as_called(function, arguments, inputs)
        model = _model(function)
        arrays = [
            np.asarray(argument, float) if references is None else references
            for argument, references in zip(arguments, inputs, strict=True)
        ]
        writer = ExpressionWriter(tape, SymbolReferences(model, arrays))
        return model.map(lambda entries: np.array(writer.references(entries), np.int64))

    def references(self, tape: Tape, leaf: Any) -> References | None:
        return np.asarray(leaf)

    def evaluate(self, function: Any, arguments: Sequence[Any]) -> Any:
        function, arguments, _ = as_called(function, arguments)
        return _evaluated(_model(function), arguments)

    def holds(self, function: Any) -> object:
        return ()


def _model(function: Any) -> Model:
    return function if isinstance(function, Model) else Model(function.signature, function.expr)


RECORDER: Final = _Expressions()
