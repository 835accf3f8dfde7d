"""Construction of syntax-tree nodes for the transformation, and queries of user code."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final, TypeVar

#: Name of an argument that marks lambdas of the transformation; user lambdas cannot have it.
MARK: Final = "@"

Node = TypeVar("Node", bound=ast.AST)


def copied_tree(value: Any) -> Any:
    """Return a copy of a syntax tree, or of a list of trees."""
    if isinstance(value, list):
        return [copied_tree(item) for item in value]
    if not isinstance(value, ast.AST) or not value._fields:  # nodes without fields are shared by Python, too
        return value
    new = value.__class__()
    vars(new).update({name: copied_tree(item) for name, item in vars(value).items()})
    return new


def chain_of(node: ast.If) -> tuple[list[ast.expr], list[list[ast.stmt]], list[ast.stmt]]:
    """Return the conditions and branches of an ``if`` and its ``elif`` clauses, and the ``else`` branch."""
    tests, bodies = [node.test], [node.body]
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
        tests.append(node.test)
        bodies.append(node.body)
    return tests, bodies, node.orelse


def assigned_in(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names that nodes assign or delete in the scope of the function."""
    names: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
                continue
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                names |= {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
                continue
            case ast.Name(ctx=ast.Store() | ast.Del()):
                names.add(node.id)
            case ast.alias():
                names.add((node.asname or node.name).partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
        waiting.extend(ast.iter_child_nodes(node))
    return names


def is_bound_to_scope(node: ast.AST) -> bool:
    """Return True if an expression cannot be moved into a lambda, since it assigns variables, yields or awaits."""
    return any(isinstance(n, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await) for n in ast.walk(node))


def is_truth(node: ast.expr) -> bool:
    """Return True if an expression is the literal True or False."""
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def variable(name: str) -> ast.Name:
    """Return a node that loads a variable."""
    return ast.Name(name, ast.Load())


def is_none(name: str) -> ast.expr:
    """Return ``name is None``."""
    return ast.Compare(variable(name), [ast.Is()], [ast.Constant(None)])


def is_bool(value: ast.expr) -> ast.expr:
    """Return ``value.__class__ is bool``."""
    return ast.Compare(ast.Attribute(value, "__class__", ast.Load()), [ast.Is()], [variable("@bool")])


def call_of(name: str, *arguments: ast.expr) -> ast.Call:
    """Return ``name(*arguments)``."""
    return ast.Call(variable(name), list(arguments), [])


def method_call(owner: str, name: str, *arguments: ast.expr) -> ast.expr:
    """Return ``owner.name(*arguments)``."""
    return ast.Call(ast.Attribute(variable(owner), name, ast.Load()), list(arguments), [])


def assigned(name: str, value: ast.expr) -> ast.stmt:
    """Return ``name = value``."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def postponed(value: ast.expr) -> ast.expr:
    """Return a lambda that evaluates an expression."""
    arguments = ast.arguments([], [], None, [], [], ast.arg(MARK), [])
    return located(ast.Lambda(arguments, value), value)


def located(new: Node, old: ast.AST) -> Node:
    """Give nodes of `new` without a position the position of `old`, and return `new`."""
    waiting: list[ast.AST] = [new]
    while waiting:
        node = waiting.pop()
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, old)
        elif node is not new and hasattr(node, "lineno"):
            continue
        waiting.extend(ast.iter_child_nodes(node))
    return new


def run_over(iterable: ast.expr) -> ast.expr:
    """Return the iterable of a loop, wrapped in ``@over`` if it may be an iterator that exists before the loop."""
    if isinstance(iterable, ast.Name | ast.Attribute | ast.Subscript):
        return located(call_of("@over", iterable), iterable)
    return iterable


def over_iterations(iterable: ast.expr, site: ast.expr) -> ast.expr:
    """Return the iterable of a ``for`` statement, wrapped in ``@iterations`` with the position of the statement."""
    return located(call_of("@iterations", site, iterable), iterable)


def constant_tuple(value: tuple[str | int, ...]) -> ast.expr:
    """Return a constant tuple."""
    node = ast.Constant(None)
    node.value = value  # type: ignore[assignment]  # the compiler accepts tuples
    return node
