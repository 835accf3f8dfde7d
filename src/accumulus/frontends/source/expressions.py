"""Expressions as calls: those that decide, those that call, and those that write.

A conditional expression, ``and``, ``or`` and a chained comparison become calls that are given what may not be evaluated
as functions; a call asks first what is to be called; what is written into is announced.
"""

# ruff: noqa: D102  # the name of a method is the node that it is for

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from accumulus.frontends.source.nodes import call_of, constant, is_bound_to_scope, is_truth, placed, postponed, run_over

__all__ = ["RUNTIME", "Expressions"]

#: What the transformed code calls: name → what it is for.
RUNTIME: Final = {
    "@call": "what to call in place of a function",
    "@plain": "the truth of what is no traced value, or the traced value",
    "@begin": "an `if` on a traced value is met, or goes on",
    "@choose": "a conditional expression",
    "@and": "`and` of a value and of functions of further ones",
    "@or": "`or` of the same",
    "@not": "`not`",
    "@compare": "a chained comparison",
    "@is": "`is` with True or False on the right",
    "@written": "a container that is written into",
    "@owner": "an object of which an attribute is set",
    "@new": "a list, dict or set that was just made",
    "@over": "what a loop runs over",
    "@loop": "a loop with an early exit",
    "@trying": "a context of what is in a `try` that catches errors",
    "@outside": "a global variable is set, or every exception is caught",
    "@undefined": "the value of a variable that has none",
    "@bool": "bool",
    "@locals": "locals",
    "@error": "BaseException",
}
#: Functions that decide nothing and change nothing, and are called as they are.
HARMLESS: Final = frozenset(
    (
        *("callable", "classmethod", "getattr", "hasattr", "id", "isinstance", "issubclass", "len", "property"),
        *("staticmethod", "super", "type"),
    )
)


class Expressions(ast.NodeTransformer):
    """The transformation of the expressions in one function.

    Args:
        builtin: whether a name stands for Python's builtin of that name.
        file: that it is from.
    """

    def __init__(self, builtin: Callable[[str], bool], file: str = "") -> None:
        self.builtin = builtin
        self.file = file

    def is_plain(self, test: ast.expr) -> bool:
        """Whether a condition is surely no traced value."""
        match test:
            case ast.Constant():
                return True
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.is_plain(operand)
            case ast.BoolOp(values=values):
                return all(map(self.is_plain, values))
            case ast.Compare(ops=ops, comparators=others):
                return (all(isinstance(op, ast.Is | ast.IsNot) for op in ops) and not is_truth(others[-1])) or any(
                    isinstance(o, ast.Constant) and isinstance(o.value, str) for o in [test.left, *others]
                )
            case ast.Call(func=ast.Name(id=name)):
                return name in ("callable", "hasattr", "isinstance", "issubclass") and self.builtin(name)
        return False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id in HARMLESS and self.builtin(node.func.id)):
            node.func = placed(call_of("@call", node.func), node.func)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        plain = self.is_plain(node.test) or is_bound_to_scope(node)
        self.generic_visit(node)
        return (
            node
            if plain
            else placed(
                call_of("@choose", self._site(node), node.test, postponed(node.body), postponed(node.orelse)), node
            )
        )

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        plain = self.is_plain(node) or is_bound_to_scope(node)
        self.generic_visit(node)
        if plain:
            return node
        name = "@and" if isinstance(node.op, ast.And) else "@or"
        return placed(call_of(name, self._site(node), node.values[0], *map(postponed, node.values[1:])), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        plain = not isinstance(node.op, ast.Not) or self.is_plain(node)
        self.generic_visit(node)
        return node if plain else placed(call_of("@not", node.operand), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        binds = is_bound_to_scope(node)
        self.generic_visit(node)
        if len(node.ops) == 1:
            if isinstance(node.ops[0], ast.Is | ast.IsNot) and is_truth(node.comparators[0]):
                return placed(
                    call_of("@is", node.left, node.comparators[0], ast.Constant(isinstance(node.ops[0], ast.Is))), node
                )
            return node
        if binds:
            return node
        parts: list[ast.expr] = [self._site(node), node.left]
        for op, right in zip(node.ops, node.comparators, strict=True):
            parts += [ast.Constant(type(op).__name__), postponed(right)]
        return placed(call_of("@compare", *parts), node)

    def _site(self, node: ast.expr) -> ast.expr:
        return constant((self.file, node.lineno, node.col_offset))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = placed(call_of("@written", node.value), node.value)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = placed(call_of("@owner", node.value), node.value)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.iter = run_over(node.iter)
        return node

    _fields = ("value",)
    _attributes = ("lineno", "col_offset", "end_lineno", "end_col_offset")
