"""From the table's expressions to functions that write partial derivatives onto a tape.

An expression such as ``"-(v * (1 / y))"`` becomes ``t.negative(t.multiply(v, t.divide(t.constant(1), y)))``, compiled
once a process. Recorded on the tape of the function itself, a partial shares the operations of the value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from accumulus.errors import TraceError
from accumulus.tape.operations import BY_NAME, CONSTANTS, INFINITY, OPERATIONS
from accumulus.tape.removable import SERIES, removable

if TYPE_CHECKING:
    from accumulus.tape.tape import Tape

__all__ = ["check_orders", "partial"]

#: Writes one partial derivative: tape, arguments, value → reference.
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
_ARGUMENTS: Final = ("x", "y", "z")
#: Operations whose order is limited.
_LIMITED: Final = tuple(row.code for row in OPERATIONS if row.largest_order < INFINITY)
#: |x| from which on a quotient by x is divided, in derivatives.
_RADIUS: Final = 2.0


def partial(tape: Tape, reference: int, position: int) -> int | None:
    """Write ∂v/∂a for the operation v at `reference` and its argument a at `position`, onto the tape.

    Returns its reference, None where the derivative is zero wherever it exists (floor, comparisons).

    Raises:
        TraceError: if the argument has to be a constant, such as the order of a Bessel function, or if the derivative
            needs an order that is not computed.
    """
    writer = _writers(tape.codes[reference])[position]
    if writer is None:
        return None
    written = writer(tape, tape.arguments(reference), reference)
    check_orders(tape, reference)
    return written


def check_orders(tape: Tape, first: int = 0) -> None:
    """Refuse operations from a reference on that are of an order beyond what back ends compute.

    Raises:
        TraceError: if there is one.
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
        _unknown if kind == "order" else None if text is None else _compile(text)
        for kind, text in zip(row.arguments, row.partials, strict=True)
    )


def _unknown(tape: Tape, arguments: tuple[int, ...], reference: int) -> int:
    raise TraceError(
        f"The derivative of {tape.operation(reference).name} by its first argument is not known: an order has to be a "
        "constant. Write the number, or make the argument static (static_argnums)."
    )


def _compile(text: str) -> Writer:
    source = _source(ast.parse(text, mode="eval").body)
    return eval(f"lambda t, a, v: {source}", {"__name__": __name__, "over_x": _over_x})  # type: ignore[no-any-return]  # from the table


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
            return f"over_x(t, a[0], {name!r}, {', '.join(map(_source, arguments))})"
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _call(name, *arguments)
    raise AssertionError(f"not an expression of the table: {ast.unparse(node)}")


def _call(name: str, *arguments: ast.expr) -> str:
    assert len(arguments) == BY_NAME[name].arity, f"{name} takes {BY_NAME[name].arity} arguments"
    return f"t.apply({name!r}, {', '.join(map(_source, arguments))})"


def _over_x(tape: Tape, x: int, series: str, numerator: int, factor: int | None = None) -> int:
    """numerator/x, near 0 an even power series, times a factor that the numerator has."""

    def closed(near: int) -> int:
        return tape.divide(numerator, tape.select(near, tape.constant(_RADIUS), x))

    return removable(tape, x, SERIES[series], closed, _RADIUS, even=True, factor=factor)
