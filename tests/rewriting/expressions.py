"""Expressions as the table of rules has them: run in any arithmetic, written on tapes, and read from tapes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from inside import BY_NAME, OPERATIONS

from accumulus import Tape

_BINARY = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
}
INPUTS = {"a": 0, "b": 1, "c": 2, "d": 3}


def values(text: str, scope: Mapping[str, Any], apply: Callable[..., Any], number: Callable[[float], Any]) -> list[Any]:
    """Values of an expression with commas; `apply` is called with the name of an operation and its arguments."""

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=float() | int() as constant):
                return number(constant)
            case ast.Name(id=name):
                return scope[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return apply("negative", value(operand))
            case ast.BinOp(left=left, op=operator, right=right):
                return apply(_BINARY[type(operator)], value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return apply(name, *map(value, arguments))
        raise AssertionError(ast.unparse(node))

    body = ast.parse(text, mode="eval").body
    return [value(node) for node in (body.elts if isinstance(body, ast.Tuple) else [body])]


def written(text: str) -> Tape:
    """A tape of the inputs a, b, c, d with the expressions as outputs."""
    tape = Tape(len(INPUTS))
    tape.outputs = values(text, INPUTS, tape.apply, tape.constant)
    return tape


def form(tape: Tape) -> list[str]:
    """The outputs as nested expressions, whatever the order of operations on the tape and of commuting arguments."""
    names: dict[int, str] = dict(zip(INPUTS.values(), INPUTS, strict=True)) if tape.inputs == len(INPUTS) else {}

    def name(reference: int) -> str:
        if reference < 0:
            return repr(tape.value_of(reference) + 0.0)
        if reference < tape.inputs:
            return names.get(reference, f"x{reference}")
        if reference not in names:
            row = OPERATIONS[tape.codes[reference]]
            arguments = [name(argument) for argument in tape.arguments(reference)]
            names[reference] = f"{row.name}({', '.join(sorted(arguments) if row.commutative else arguments)})"
        return names[reference]

    return [name(output) for output in tape.outputs]


assert set(_BINARY.values()) <= BY_NAME.keys()
