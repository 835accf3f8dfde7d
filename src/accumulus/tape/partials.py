"""Functions that record partial derivatives on a tape, made from the table's expressions.

An expression such as ``"-(v * (1 / y))"`` becomes ``t.negative(t.multiply(v, t.divide(t.constant(1), y)))``, compiled
once in each process. Recorded on the function's own tape, a partial shares the operations of the value.

Quotients that are 0/0 at a point are a polynomial around it, and the closed form elsewhere. The k-th derivative of a
quotient such as sin(x)/x loses digits like k!/xᵏ, so the closed form is accurate only from a radius of about 2 on.
Within that radius, the function is the polynomial of its power series, and derivatives are those of the polynomial. It
has as many terms as its first six derivatives need at the radius. No branch depends on x = 0.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from accumulus.errors import TraceError
from accumulus.tape.operations import BY_NAME, CONSTANTS, INFINITY, OPERATIONS
from accumulus.tape.scipy_rows import MACROS, UNKNOWN
from accumulus.tape.special_partials import betainc_slope, elliprd_slope, faddeeva_tail, gammainc_slope  # noqa: F401  # called by expressions

if TYPE_CHECKING:
    from accumulus.tape.tape import Tape
import itertools
from math import factorial

#: Records one partial derivative: tape, arguments, value → reference.
Writer = Callable[["Tape", tuple[int, ...], int], int]

_BINARY: Final[dict[type, str]] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Eq: "equal",
}
_ARGUMENTS: Final = ("x", "y", "z", "w")
#: Codes of operations with a largest supported order.
_LIMITED: Final = tuple(row.code for row in OPERATIONS if row.largest_order < INFINITY)
#: |x| from which on derivatives of a quotient by x use the closed form. A larger radius takes more terms of the series
#: at every point, a smaller one loses digits of higher derivatives to cancellation.
_RADIUS: Final = 2.0


def partial(tape: Tape, reference: int, position: int) -> int | None:
    """Record ∂v/∂a on the tape, for the operation v at `reference` and its argument a at `position`.

    Returns:
        The reference of the derivative; None if it is zero wherever it exists (floor, comparisons).

    Raises:
        TraceError: if the argument has to be a constant, such as the order of a Bessel function, or if the derivative
            needs an order that is not supported.
    """
    writer = _writers(tape.codes[reference])[position]
    if writer is None:
        return None
    written = writer(tape, tape.arguments(reference), reference)
    check_orders(tape, reference)
    return written


def check_orders(tape: Tape, first: int = 0) -> None:
    """Raise an error for operations from `first` on whose order is larger than back ends support.

    Raises:
        TraceError: for such an operation.
    """
    codes = bytes(tape.codes[first:])
    for code in _LIMITED:
        row, k = OPERATIONS[code], codes.find(code)
        while k >= 0:
            order = tape.first[first + k]
            if order < 0 and tape.value_of(order) > row.largest_order:
                raise TraceError(
                    f"The derivative needs {row.name} of order {tape.value_of(order):g}, and the highest order is "
                    f"{row.largest_order:g}: each derivative takes one more. Differentiate less often, or begin with a "
                    "lower order."
                )
            k = codes.find(code, k + 1)


@cache
def _writers(code: int) -> tuple[Writer | None, ...]:
    row = OPERATIONS[code]
    return tuple(
        functools.partial(_unknown, position)
        if kind == "order" or text == UNKNOWN
        else None
        if text is None
        else _compile(text)
        for position, (kind, text) in enumerate(zip(row.arguments, row.partials, strict=True))
    )


def _unknown(position: int, tape: Tape, arguments: tuple[int, ...], reference: int) -> int:
    row = tape.operation(reference)
    if row.arguments[position] == "order":
        raise TraceError(
            f"The derivative of {row.name} with respect to its first argument, the order, is "
            "unknown: the order has to be a constant. Write the number, or make the argument static (static_argnums)."
        )
    which = ("first", "second", "third")[position]
    raise TraceError(
        f"There is no formula for the derivative of {row.numpy.partition('(')[0].replace('special', 'scipy.special')} "
        f"with respect to its {which} argument. Differentiate with respect to others (argnums), make that argument a "
        "constant, or give a derivative by acc.custom."
    )


def _compile(text: str) -> Writer:
    source = _source(ast.parse(text, mode="eval").body)
    return eval(f"lambda t, a, v: {source}", globals())  # type: ignore[no-any-return]  # from the table


@cache
def macro(name: str) -> Writer:
    """Return the function that records a formula of `MACROS`; the value that it takes is unused."""
    return _compile(MACROS[name])


def _source(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return f"t.constant({float(value)!r})"  # type: ignore[arg-type]
        case ast.Name(id="v"):
            return "v"
        case ast.Name(id=name) if name in _ARGUMENTS:
            return f"a[{_ARGUMENTS.index(name)}]"
        case ast.Name(id=name):
            return f"t.constant({CONSTANTS[name]!r})"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _call("negative", operand)
        case ast.BinOp(left=left, op=operator, right=right):
            return _call(_BINARY[type(operator)], left, right)
        case ast.Compare(left=left, ops=[ast.GtE()], comparators=[right]):
            return _call("less_equal", right, left)
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _call(_BINARY[type(operator)], left, right)
        case ast.Call(func=ast.Name(id="over_x"), args=[ast.Constant(value=str(name)), *arguments]):
            assert name in SERIES, f"no series of {name}"
            return f"_over(t, {name!r}, a[0], {_RADIUS}, {', '.join(map(_source, arguments))})"
        case ast.Call(func=ast.Name(id="quotient"), args=[ast.Constant(value=str(name)), variable, radius, *arguments]):
            assert name in SERIES, f"no series of {name}"
            written = ", ".join(map(_source, arguments))
            return f"_over(t, {name!r}, {_source(variable)}, {float(ast.literal_eval(radius))!r}, {written})"
        case ast.Call(func=ast.Name(id="gammainc_slope"), args=arguments):
            density = "lambda shape, x: macro('gamma_density')(t, (shape, x), 0)"
            return f"gammainc_slope(t, {', '.join(map(_source, arguments))}, {density})"
        case ast.Call(func=ast.Name(id="betainc_slope"), args=[*arguments, ast.Constant(value=position)]):
            density = "lambda *arguments: macro('beta_density')(t, arguments, 0)"
            return f"betainc_slope(t, {', '.join(map(_source, arguments))}, {position!r}, {density})"
        case ast.Call(func=ast.Name(id="elliprd_slope"), args=[ast.Constant(value=position)]):
            return f"elliprd_slope(t, a, {position!r}, partial)"
        case ast.Call(
            func=ast.Name(id="faddeeva_tail"), args=[mask, x, y, ast.Constant(value=n), ast.Constant(value=part)]
        ):
            return f"faddeeva_tail(t, {', '.join(map(_source, (mask, x, y)))}, {n!r}, {part!r})"
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in MACROS:
            return f"macro({name!r})(t, ({', '.join(map(_source, arguments))},), 0)"
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _call(name, *arguments)
    raise AssertionError(f"not an expression of the table: {ast.unparse(node)}")


def _call(name: str, *arguments: ast.expr) -> str:
    assert len(arguments) == BY_NAME[name].arity, f"{name} takes {BY_NAME[name].arity} arguments"
    return f"t.apply({name!r}, {', '.join(map(_source, arguments))})"


def _over(tape: Tape, series: str, x: int, radius: float, numerator: int, factor: int | None = None) -> int:
    """Return numerator/x, for |x| < radius as an even power series, times a factor that the numerator has."""

    def closed(near: int) -> int:
        return tape.divide(numerator, tape.select(near, tape.constant(radius), x))

    return removable(tape, x, SERIES[series], closed, radius, even=True, factor=factor)


# Quotients that are 0/0 at a point -----------------------------------------------------------------------------------

#: Bound on the omitted terms relative to the first, in derivatives up to this order. A smaller bound or a higher order
#: takes more terms at every point, a larger bound or a lower order loses digits.
_RELATIVE: Final = 2.0**-56
_LAST_ORDER: Final = 6

#: Coefficients of power series in x²; for expm1(x)/x in x.
SERIES: Final[dict[str, Callable[[int], float]]] = {
    "sin(x)/x": lambda k: (-1.0) ** k / factorial(2 * k + 1),
    "expm1(x)/x": lambda k: 1.0 / factorial(k + 1),
    "atanh(x)/x": lambda k: 1.0 / (2 * k + 1),
    "j1(x)/x": lambda k: 0.5 * (-0.25) ** k / (factorial(k) * factorial(k + 1)),
    "i1(x)/x": lambda k: 0.5 * 0.25**k / (factorial(k) * factorial(k + 1)),
    "sinh(x)/x": lambda k: 1.0 / factorial(2 * k + 1),
    "(1-j0(x))/x²": lambda k: 0.25 * (-0.25) ** k / factorial(k + 1) ** 2,
    "(i0(x)-1)/x²": lambda k: 0.25 * 0.25**k / factorial(k + 1) ** 2,
    "berp(x)/x³": lambda k: -0.25 * (k + 1) * (-0.0625) ** k / factorial(2 * k + 2) ** 2,
    "beip(x)/x": lambda k: (k + 0.5) * (-0.0625) ** k / factorial(2 * k + 1) ** 2,
}


def removable(
    tape: Tape,
    x: int,
    coefficient: Callable[[int], float],
    closed: Callable[[int], int],
    radius: float,
    *,
    even: bool = False,
    factor: int | None = None,
) -> int:
    """Record a function that is a power series near 0 and a closed form elsewhere; return its reference.

    Args:
        tape: tape to record on.
        x: reference of the argument.
        coefficient: function from k to the coefficient of xᵏ, or of x²ᵏ for an even function.
        closed: function that records the closed form, given the truth value of |x| < radius; where that holds, its
            value is arbitrary.
        radius: |x| at which the closed form begins.
        even: True for a series in x².
        factor: reference of a factor of the series.
    """
    variable = tape.multiply(x, x) if even else x
    size = variable if even else tape.apply("abs", x)
    near = tape.apply("less", size, tape.constant(radius**2 if even else radius))
    inside = tape.select(near, variable, tape.constant(0.0))
    first, *rest = reversed(terms(coefficient, radius**2 if even else radius))
    total = tape.constant(first)
    for each in rest:
        total = tape.add(tape.multiply(total, inside), tape.constant(each))
    if factor is not None:
        total = tape.multiply(factor, total)
    return tape.select(near, total, closed(near))


@cache
def terms(coefficient: Callable[[int], float], variable: float) -> tuple[float, ...]:
    """Return the coefficients up to the last one that is significant at the largest value of the variable."""
    coefficients = []
    for k in itertools.count():
        coefficients.append(coefficient(k))
        if k > _LAST_ORDER and abs(coefficients[-1]) * variable**k * k**_LAST_ORDER < _RELATIVE * abs(coefficients[0]):
            return tuple(coefficients)
    raise AssertionError
