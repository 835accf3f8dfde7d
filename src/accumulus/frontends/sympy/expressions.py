"""Conversion of a tape to SymPy expressions, with names for repeated subexpressions, like `sympy.cse`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions.matexpr import MatrixElement

from accumulus.errors import VerificationError
from accumulus.frontends.kinds import Spread
from accumulus.frontends.sympy.model import SYMBOLS, Model, SymbolReferences, named_row
from accumulus.frontends.sympy.writing import FORMULAS, ExpressionWriter, Nodes, bottom_up
from accumulus.tape.error_bounds import equal
from accumulus.tape.interpreter import Domain, values
from accumulus.tape.live import needed
from accumulus.tape.operations import OPERATIONS, Operation
from accumulus.tape.tape import Tape

#: A number is written as a fraction if its product with this number is an integer. A larger number writes fractions
#: that are harder to read than decimals, a smaller one writes decimals for simple fractions.
_FRACTIONS: Final = 1024.0


def sympy_expressions(
    tape: Tape, inputs: Sequence[Any], names: Iterator[Any], numbers: Mapping[float, Any]
) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Return the results of a tape as SymPy expressions.

    Args:
        tape: tape to convert.
        inputs: symbols of its inputs.
        names: symbols for intermediate results.
        numbers: value of a constant → the expression to write for it.

    Returns:
        The intermediate results, each a name and an expression of earlier ones, and the outputs.

    >>> from sympy.abc import x, y
    >>> tape = Tape(2)
    >>> tape.outputs = [tape.apply("sin", product := tape.multiply(0, 1)), tape.add(0, product)]
    >>> sympy_expressions(tape, [x, y], iter(sp.symbols("t:9")), {})
    ([(t0, x*y)], [sin(t0), t0 + x])
    """
    domain = _Expressions(tape, names, numbers)
    computed = values(tape, domain, inputs, domain.alive)
    return domain.replacements, [computed[output] for output in tape.outputs]


class _Expressions(Domain):
    """SymPy's expressions as a domain of the interpreter; expressions that are used repeatedly get a name."""

    located = frozenset(("function",))

    def __init__(self, tape: Tape, names: Iterator[Any], numbers: Mapping[float, Any]) -> None:
        self._names, self._numbers, self.alive = names, numbers, needed(tape, tape.outputs)
        alive = [k for k in range(tape.inputs, len(tape)) if self.alive[k]]
        self._used = Counter(argument for k in alive for argument in set(tape.arguments(k)))
        self._used.update(tape.outputs)
        self._outputs = frozenset(tape.outputs)
        self.replacements: list[tuple[Any, Any]] = []

    def number(self, number: float) -> Any:
        if number.is_integer():
            return sp.Integer(int(number))
        if (number * _FRACTIONS).is_integer():
            return sp.Rational(number)
        return self._numbers[number] if number in self._numbers else sp.Float(number)

    def function(self, row: Operation, tape: Tape, reference: int, *operands: Any) -> Any:
        value = _written(row.code)(*operands)
        # SymPy distributes a number over a sum, so sums that are factors get a name; this also bounds the depth of
        # trees
        if (self._used[reference] > 1 or (value.is_Add and reference not in self._outputs)) and value.args:
            self.replacements.append((next(self._names), value))
            return self.replacements[-1][0]
        return value


def verify_expressions(
    tape: Tape, inputs: Sequence[Any], replacements: Sequence[tuple[Any, Any]], outputs: Sequence[Any]
) -> None:
    """Record expressions on a new tape, and compare it with the original tape on numbers.

    Raises:
        VerificationError: if the values differ by more than rounding explains.
    """
    other = Tape(tape.inputs)
    places = SymbolReferences(Model([list(inputs)], []), [np.arange(tape.inputs)])
    writer = ExpressionWriter(other, places)
    for name, expression in replacements:
        places.add(name, writer.references([expression])[0])
    other.outputs = writer.references(outputs)
    points = Spread().uniform(0.5, 1.0, (2, tape.inputs))
    differs = ~equal(tape, other, points)
    if differs.any():
        wrong = int(np.flatnonzero(differs)[0])
        raise VerificationError(f"entry {wrong} of the expressions differs from the program that they were made from")


class _Collecting(SymbolReferences):
    """References in which every symbol stands for itself; undefined functions named like an operation do not count."""

    def __init__(self) -> None:
        super().__init__(Model([], []), [])

    def of(self, node: Any) -> Any:
        reference = super().of(node)
        is_entry = isinstance(node, SYMBOLS) and not isinstance(node, sp.Derivative | MatrixElement)
        is_entry = is_entry and named_row(node) is None
        is_derivative = isinstance(node, sp.Derivative) and isinstance(node.expr, AppliedUndef)
        is_of_matrix = isinstance(node, MatrixElement) and isinstance(node.parent, sp.MatrixSymbol)
        if reference is None and (is_entry or is_derivative or is_of_matrix) and not hasattr(node, "_imp_"):
            reference = node
            self.add(node, node)
        return reference

    @property
    def symbols(self) -> list[Any]:
        """The symbols, in order of appearance."""
        return list(self._of_symbol)


def free_symbols(entries: Sequence[Any]) -> list[Any]:
    """Return the symbols, functions of time and their derivatives in expressions, in order of appearance.

    >>> from sympy.abc import x, y, k
    >>> free_symbols([sp.Sum(x**k, (k, 1, 2)) + y, x])
    [y, x]
    """
    places = _Collecting()
    bottom_up(entries, Nodes(places).parts, lambda *_: None, {})
    return places.symbols


@cache
def _written(code: int) -> Callable[..., Any]:
    """Return an operation on expressions: the formula of the table, or a function with the operation's name.

    The function is SymPy's if this front end reads it, and an undefined function otherwise.
    """
    row = OPERATIONS[code]
    if not row.sympy:
        formula_class: Callable[..., Any] | None = next((kind for kind in FORMULAS if kind.__name__ == row.name), None)
        return formula_class or sp.Function(row.name)
    if row.sympy.isidentifier():
        return getattr(sp, row.sympy)  # type: ignore[no-any-return]
    parameters = ", ".join("xyz"[: row.arity])
    return eval(f"lambda {parameters}: {row.sympy}", dict(vars(sp)))  # type: ignore[no-any-return]
