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
from accumulus.tape.operations import BY_NAME, CONSTANTS, OPERATIONS

if TYPE_CHECKING:
    from accumulus.tape.tape import Tape

__all__ = ["partial"]

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


def partial(tape: Tape, reference: int, position: int) -> int | None:
    """Write ∂v/∂a for the operation v at `reference` and its argument a at `position`, onto the tape.

    Returns its reference, None where the derivative is zero wherever it exists (floor, comparisons).

    Raises:
        TraceError: if the argument has to be a constant, such as the order of a Bessel function.
    """
    writer = _writers(tape.codes[reference])[position]
    return None if writer is None else writer(tape, tape.arguments(reference), reference)


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
    return eval(f"lambda t, a, v: {source}", {"BY_NAME": BY_NAME})  # type: ignore[no-any-return]  # from the table


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
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _call(name, *arguments)
    raise AssertionError(f"not an expression of the table: {ast.unparse(node)}")


def _call(name: str, *arguments: ast.expr) -> str:
    assert len(arguments) == BY_NAME[name].arity, f"{name} takes {BY_NAME[name].arity} arguments"
    return f"t.apply({name!r}, {', '.join(map(_source, arguments))})"
