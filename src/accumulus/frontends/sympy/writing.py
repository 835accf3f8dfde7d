"""Translation of expressions to operations on a tape, bottom up: arithmetic directly, functions by tables.

There is no recursion, since generated expressions may be arbitrarily deep. The operands of an expression are its
arguments, or its expansion by SymPy.

Most functions are rows of the tape's table of operations. The others are formulas of NumPy and SciPy functions,
recorded like a Python function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import product
from typing import Any, Final, TypeVar

import numpy as np
import sympy as sp
from sympy.codegen import cfunctions
from sympy.logic.boolalg import BooleanFalse, BooleanTrue
from sympy.matrices.expressions.matexpr import MatrixElement

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.elementwise import of_special
from accumulus.frontends.numpy.scalars import as_real, as_truth, by_formula
from accumulus.frontends.sympy.model import SYMBOLS, SymbolReferences, named_row
from accumulus.tape.operations import OPERATIONS, Operation
from accumulus.tape.tape import Tape

T = TypeVar("T")

# Operands of expressions ----------------------------------------------------------------------------------------------

#: Unevaluated expressions that SymPy evaluates in bounded time, unlike integrals and limits.
UNDONE: Final = (sp.Derivative, sp.Subs, MatrixElement)
#: Maximum number of terms of a sum, or of factors of a product, each of which is written out: more take minutes and
#: gigabytes, fewer refuse sums that could be written.
MOST_TERMS: Final = 1_000_000
#: Number of digits in the evaluation of constant subexpressions, before they are rounded to a double: more take longer,
#: fewer may round twice.
DIGITS: Final = 30


def bottom_up(
    roots: Iterable[Any], parts: Callable[[Any], Sequence[Any]], make: Callable[[Any, list[T]], T], cache: dict[int, T]
) -> list[T]:
    """Return the result of `make` for each root, from the results for its operands; `make` is called once per object.

    Objects are compared by identity, because SymPy compares and hashes trees by recursion. Equal subexpressions that
    are different objects are made twice; a tape merges equal operations.

    Args:
        roots: expressions; the caller keeps them and their operands alive.
        parts: function that returns the operands of an expression.
        make: function of an expression and the results for its operands.
        cache: results by the identity of their expressions; new ones are added.

    >>> from sympy.abc import x
    >>> bottom_up([(x + 1) ** 2], lambda node: node.args, lambda node, sizes: 1 + sum(sizes), {})
    [5]
    """
    results = []
    for root in roots:
        stack: list[tuple[Any, Sequence[Any] | None]] = [(root, None)]
        while stack:
            node, of = stack.pop()
            if of is not None:
                if id(node) not in cache:
                    cache[id(node)] = make(node, [cache[id(operand)] for operand in of])
            elif id(node) not in cache:
                of = parts(node)
                stack.append((node, of))
                stack.extend((operand, None) for operand in reversed(of) if id(operand) not in cache)
        results.append(cache[id(root)])
    return results


class Nodes:
    """Operands of expressions, for `bottom_up`.

    Args:
        places: references of the symbols.
    """

    def __init__(self, places: SymbolReferences) -> None:
        self.places = places
        #: Expressions created here, kept alive since `bottom_up` uses their identities.
        self._made: list[Sequence[Any]] = []
        self._kinds: dict[type, type | None] = {}

    def parts(self, node: Any) -> Sequence[Any]:
        """Return the operands of `node`; none for numbers and for arguments of the model.

        Raises:
            TraceError: for a symbol that is not an argument, and for an expression that SymPy cannot evaluate.
        """
        parts: Sequence[Any] = node.args
        if not parts and not isinstance(node, sp.Symbol):
            return ()
        kind = self._kinds.get(type(node), type)
        if kind is type:
            kind = self._kinds[type(node)] = _kind(type(node))
        if kind is None:
            return parts
        if kind is sp.Piecewise:
            return self._hold_alive([operand for pair in node.args for operand in pair.args])
        if kind in (sp.Sum, sp.Product):
            return self._hold_alive(self._terms(node))
        if self.places.of(node) is not None:
            return ()
        if isinstance(node, UNDONE):
            return self._hold_alive(self._done(node))
        if hasattr(node, "_imp_") or named_row(node) is not None:
            return parts
        raise refuse(
            f"The expressions hold {node!s:.200}, which is not among the arguments: {self.places.text}. Add it to "
            "them, or put a number in its place."
        )

    def _hold_alive(self, parts: Sequence[Any]) -> Sequence[Any]:
        self._made.append(parts)
        return parts

    def _done(self, node: Any) -> Sequence[Any]:
        """Return the node evaluated by SymPy, in a list; refuse a node that SymPy cannot evaluate."""
        done = node.doit()
        if isinstance(done, UNDONE):
            raise refuse(
                f"The expressions hold {done!s:.200}, which SymPy cannot write out. Make it one of the arguments "
                f"({self.places.text}), or put an expression in its place."
            )
        return [done]

    def _terms(self, node: Any) -> Sequence[Any]:
        """Return the terms of a sum, or the factors of a product, whose bounds are numbers."""
        ranges = []
        count = 1
        for name, *bounds in node.limits:
            if len(bounds) != 2 or not all(bound.is_Integer for bound in bounds):
                raise refuse(
                    f"A {type(node).__name__} over {name} runs from {' to '.join(map(str, bounds))}; expected integer "
                    "bounds, or the result of SymPy's doit()."
                )
            first, last = map(int, bounds)
            count *= max(last - first + 1, 0)
            if count > MOST_TERMS:
                raise refuse(
                    f"A {type(node).__name__} over {name} has more than {MOST_TERMS:,} terms, and each is written out."
                )
            ranges.append((name, range(first, last + 1)))
        names = [name for name, _ in ranges]
        return [
            node.function.xreplace(dict(zip(names, map(sp.Integer, values), strict=True)))
            for values in product(*(values for _, values in ranges))
        ]


def _kind(kind: type) -> type | None:
    """Return the class that determines the operands of its objects; None if the operands are the arguments."""
    if issubclass(kind, SYMBOLS + UNDONE):
        return object
    bases: tuple[type, ...] = (sp.Piecewise, sp.Sum, sp.Product)
    return next((base for base in bases if issubclass(kind, base)), None)


def constant(node: Any) -> float | None:
    """Return the value of an expression without symbols, rounded once; None if SymPy finds no number.

    Raises:
        TraceError: for a complex number.

    >>> constant(sp.sqrt(2) * sp.pi)
    4.442882938158366
    """
    if not isinstance(node, sp.Expr):
        return None
    try:
        value = node.evalf(DIGITS)
        if value.is_Number and value.is_extended_real:
            return float(value)
    except (RecursionError, ValueError, TypeError, ArithmeticError):
        return None
    if value.has(sp.I):
        raise refuse(f"The expressions hold {node!s:.100}, which is a complex number; expected real ones.")
    return None


# Tables ---------------------------------------------------------------------------------------------------------------

#: Class → name in the tape's table of operations, with the same arguments; some classes of SymPy have C's names.
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


def _special(name: str) -> Callable[..., Any]:
    from accumulus.frontends.numpy.elementwise import of_special  # while something is recorded

    return of_special(name)


def _sinc(x: Any) -> Any:
    from accumulus.frontends.numpy.various import sine_by_argument  # while something is recorded

    return sine_by_argument(x)


#: Class → formula of its arguments.
FORMULAS: Final[dict[Any, Callable[..., Any]]] = {
    sp.lowergamma: lambda a, x: _special("gammainc")(a, x) * _special("gamma")(a),
    sp.uppergamma: lambda a, x: _special("gammaincc")(a, x) * _special("gamma")(a),
    sp.elliptic_e: lambda *x: _special("ellipe" if len(x) == 1 else "ellipeinc")(*x),
    sp.sec: lambda x: 1.0 / np.cos(x),
    sp.csc: lambda x: 1.0 / np.sin(x),
    sp.cot: lambda x: np.cos(x) / np.sin(x),
    sp.asec: lambda x: np.arccos(1.0 / x),
    sp.acsc: lambda x: np.arcsin(1.0 / x),
    # SymPy's branch of acot, between -π/2 and π/2, which jumps at zero
    sp.acot: lambda x: np.where(
        np.abs(x) < 1.0,
        np.where(x < 0, -0.5 * math.pi, 0.5 * math.pi) - np.arctan(x),
        np.arctan(1.0 / np.where(np.abs(x) < 1.0, 1.0, x)),
    ),
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


class ExpressionWriter(Nodes):
    """Translator of expressions to operations on a tape.

    SymPy evaluates constant subexpressions, such as ``sqrt(2)*pi/4``, which are rounded once. A product is the product
    of factors with positive exponents divided by the product of the others, as SymPy prints it.
    """

    def __init__(self, tape: Tape, places: SymbolReferences) -> None:
        super().__init__(places)
        self._tape = tape
        self._references: dict[int, int] = {}
        #: Expressions of recorded constants, by value.
        self.numbers: dict[float, Any] = {}
        self._writers: dict[type, Callable[[Any, list[int]], int]] = {
            sp.Add: self._sum,
            sp.Mul: self._product,
            sp.Pow: self._power,
        }

    def references(self, expressions: Sequence[Any]) -> list[int]:
        """Return the references of expressions, as numbers; truth values become 1 and 0."""
        written = bottom_up(expressions, self.parts, self._make, self._references)
        return [self._real(reference) for reference in written]

    def parts(self, node: Any) -> Sequence[Any]:
        """Return the operands; for a power with a constant exponent only the base, also inside of products."""
        kind = type(node)
        if kind is sp.Mul:
            return [factor.args[0] if _has_number(factor) else factor for factor in node.args]
        if _has_number(node):
            return [node.args[0]]
        if kind not in self._writers:  # before its operands are visited, which may be no expressions
            self._writers[kind] = self._writer_of(kind)
        return super().parts(node)

    def _make(self, node: Any, parts: list[int]) -> int:
        if parts and max(parts) < 0 and (value := constant(node)) is not None:
            self.numbers[value] = node
            return self._tape.constant(value)
        return self._writers[type(node)](node, parts)

    def _writer_of(self, kind: type) -> Callable[[Any, list[int]], int]:
        """Return the function that translates objects of a class.

        Raises:
            TraceError: for a class that has none.
        """
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
            f"The expressions hold {kind.__name__}, which cannot be recorded; docs/sympy.md lists what can. Rewrite "
            "it by functions in that list, expression.rewrite(…), or make it an argument."
        )

    # Leaves -----------------------------------------------------------------------------------------------------

    def _symbol(self, node: Any, parts: list[int]) -> int:
        """Return the reference of a symbol, or of another node's row, implementation, or evaluated form."""
        if not parts:
            return int(self.places.of(node))
        if (row := named_row(node)) is not None:
            return self._row(node, row, parts)
        return self._by(node._imp_, parts) if hasattr(node, "_imp_") else parts[0]

    def _row(self, node: Any, row: Operation, parts: list[int]) -> int:
        """Emit the operation that an undefined function names."""
        operands = []
        for kind, reference, argument in zip(row.arguments, parts, node.args, strict=True):
            if kind == "order":
                lowest, order = row.domain[0][0], math.nan if reference >= 0 else self._tape.value_of(reference)
                if not (order.is_integer() and lowest <= order <= row.largest_order):
                    highest = f"to {row.largest_order:g}" if row.largest_order < math.inf else "on"
                    raise refuse(
                        f"The order of {node!s:.200} is {argument!s:.100}; expected a constant whole number from "
                        f"{lowest:g} {highest}."
                    )
            operands.append(self._truth(reference) if kind == "boolean" else self._real(reference))
        return self._tape.apply(row.name, *operands)

    def _number(self, node: Any, _: list[int]) -> int:
        try:
            value = float(node)
        except TypeError:
            raise refuse(f"The expressions hold {node!s:.100}, which is not a real number.") from None
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
        for factor, operand in zip(node.args, parts, strict=True):
            if not _has_number(factor):
                above.append(self._real(operand))
            elif factor.args[1].is_negative:
                below.append(self._to_the(operand, -factor.args[1]))
            else:
                above.append(self._to_the(operand, factor.args[1]))
        above.sort(key=lambda reference: reference < 0)  # the common part of products has no coefficient
        product = self._multiplied(above)
        return self._tape.divide(product, self._multiplied(below)) if below else product

    def _factors(self, _: Any, parts: list[int]) -> int:
        return self._multiplied([self._real(operand) for operand in parts])

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
        for piece, condition in zip(parts[-2::-2], parts[::-2], strict=True):
            value = self._tape.select(self._truth(condition), self._real(piece), value)
        return value


def _has_number(factor: Any) -> bool:
    """Return True if a factor is a power with a numeric exponent."""
    return type(factor) is sp.Pow and isinstance(factor.args[1], sp.Rational | sp.Float)


_WRITERS: Final[dict[Any, str]] = {
    **dict.fromkeys((*SYMBOLS, *UNDONE), "_symbol"),
    **dict.fromkeys((sp.Number, sp.NumberSymbol, sp.core.numbers.ImaginaryUnit, type(sp.zoo)), "_number"),
    **dict.fromkeys((BooleanTrue, BooleanFalse), "_truth_value"),
    **{sp.Sum: "_sum", sp.Product: "_factors", sp.Piecewise: "_pieces"},
}
