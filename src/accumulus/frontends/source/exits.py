"""Rewriting of early exits: they are moved to the ends of branches, and exits from loops are replaced by flags."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from accumulus.frontends.source.nodes import assigned, constant_tuple, copied_tree, located, method_call, variable

# Exits at the ends of branches ----------------------------------------------------------------------------------------
#
# ``if c: return a`` followed by ``return b`` becomes ``if c: return a`` ``else: return b``. Afterwards every exit is at
# the end of its branch, where it is equivalent to the assignment of a result. The same applies to ``continue`` in the
# bodies of loops. If an exit is deeper inside of a branch, the statements that follow are copied into both branches, as
# long as they are short.

#: Nodes with a scope of their own.
SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
#: Maximum number of syntax-tree nodes that are copied into a second branch. More make converted functions longer; with
#: fewer, more exits stay as they are, and their conditions become guards.
MOST_COPIED: Final = 120

Exit = type[ast.stmt] | tuple[type[ast.stmt], ...]


def in_scope(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and their descendants in the same scope; do not enter nested functions and classes."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _always_exits(block: Sequence[ast.stmt], kind: Exit) -> bool:
    """Return True if every path through a block ends with an exit of this kind."""
    if not block:
        return False
    last = block[-1]
    return isinstance(last, kind) or (
        isinstance(last, ast.If) and _always_exits(last.body, kind) and _always_exits(last.orelse, kind)
    )


def moved_into_branches(block: list[ast.stmt], kind: Exit) -> list[ast.stmt]:
    """Return the block with the statements after an exiting branch moved into the other branch, where possible."""
    for index, statement in enumerate(block):
        if not isinstance(statement, ast.If):
            continue
        if not _has_exit(statement, kind):
            continue
        rest = block[index + 1 :]
        then, other = statement.body, statement.orelse
        if not _always_exits(then, kind):
            if not _always_exits(other, kind) and rest:  # an exit deeper inside: the rest follows both branches
                if sum(1 for each in rest for _ in ast.walk(each)) > MOST_COPIED:
                    return block
                other = other + copied_tree(rest)
            then = then + rest
        elif not _always_exits(other, kind):
            other = other + rest
        moved = ast.If(statement.test, moved_into_branches(then, kind), moved_into_branches(other, kind))
        return [*block[:index], ast.copy_location(moved, statement)]
    return block


def _has_exit(statement: ast.If, kind: Exit) -> bool:
    """Return True if a branch ends with an exit of this kind."""
    for block in (statement.body, statement.orelse):
        if block and (isinstance(block[-1], kind) or any(isinstance(s, ast.If) and _has_exit(s, kind) for s in block)):
            return True
    return False


def exits_at_end(block: Sequence[ast.stmt], kind: Exit) -> set[int]:
    """Return the identities of exits at the end of a block or of its last branches."""
    if not block:
        return set()
    last = block[-1]
    if isinstance(last, ast.If):
        return exits_at_end(last.body, kind) | exits_at_end(last.orelse, kind)
    return {id(last)} if isinstance(last, kind) else set()


def without_exits(block: list[ast.stmt]) -> list[ast.stmt]:
    """Return the body of a loop without ``continue`` at its end or at the end of its last branches."""
    if not block:
        return block
    *rest, last = block
    if isinstance(last, ast.If):
        then, other = without_exits(last.body), without_exits(last.orelse)
        last = ast.copy_location(ast.If(last.test, then, other), last)
    elif isinstance(last, ast.Continue):
        last = ast.copy_location(ast.Pass(), last)
    return [*rest, last]


def exits_outside(nodes: Sequence[ast.AST]) -> bool:
    """Return True if nodes contain a ``break`` or ``continue`` that belongs to an enclosing loop."""
    for node in nodes:
        if isinstance(node, ast.Break | ast.Continue):
            return True
        if isinstance(node, SCOPES):
            continue
        inside = node.orelse if isinstance(node, LOOPS) else list(ast.iter_child_nodes(node))
        if exits_outside(inside):
            return True
    return False


# Flags instead of exits from loops ------------------------------------------------------------------------------------
#
# ``break`` and ``return`` in a ``for`` loop would have to end it for all points at once. They set a flag instead. The
# rest of the loop becomes the other branch of a decision on that flag, so that both branches can be recorded::
#
#     for i in values:                @loop1, @stop1, @returns1 = @loop(…), False, False
#         if x < i:                   for @item1 in values:
#             return i                    if @stop1:
#         y = g(y)                            @stop1 = True
#     return y                            else:
#                                             @stop1 = False
#                                             i = @item1
#                                             if x < i:
#                                                 @stop1 = @loop1.leave()
#                                                 @value1, @returns1 = i, True
#                                             else:
#                                                 y = g(y)
#                                         if @loop1.ends(@stop1):
#                                             break
#                                     if @returns1:
#                                         return @value1
#                                     return y
#
# A flag that is a plain boolean ends the loop at once, like the exit itself. Loops are not transformed if an exit is
# not at the end of a branch after the movement above, if an exit is inside of a ``try`` or ``with``, or if they are
# ``while`` loops, whose number of iterations is unknown.

EXITS: Final = (ast.Return, ast.Break, ast.Continue)


def with_flags(block: Sequence[ast.stmt], file: str, numbers: Iterator[int] | None = None) -> list[ast.stmt]:
    """Return the statements of a function or block with flags instead of early exits from loops, where possible.

    Args:
        block: statements to transform.
        file: file of the statements.
        numbers: iterator of numbers that distinguish the flags of one function.
    """
    numbers = count(1) if numbers is None else numbers
    statements: list[ast.stmt] = []
    for statement in block:
        if not isinstance(statement, SCOPES):
            for field, value in ast.iter_fields(statement):
                if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                    setattr(statement, field, with_flags(value, file, numbers))
        statements += _flagged(statement, file, numbers) if isinstance(statement, ast.For) else [statement]
    return statements


def is_loop_method_call(function: ast.expr) -> bool:
    """Return True if the called function is a method of a `@loop` object."""
    return (
        isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and is_temporary(function.value.id)
    )


def is_temporary(name: str) -> bool:
    """Return True if a variable of the transformation is set in the same branch before it is read."""
    return name.startswith(("@loop", "@item"))


def _flagged(loop: ast.For, file: str, numbers: Iterator[int]) -> list[ast.stmt]:
    exits = list(_exits_of_loop(loop.body))
    suspends = any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in in_scope([loop]))
    if suspends or all(isinstance(n, ast.Continue) for n in exits):
        return [loop]
    body = moved_into_branches(copied_tree(loop.body), EXITS)
    if not {id(n) for n in _exits_of_loop(body)} <= exits_at_end(body, EXITS):
        return [loop]
    number = next(numbers)
    name, item, stop, returns, value = (f"@{role}{number}" for role in ("loop", "item", "stop", "returns", "value"))

    def without(block: list[ast.stmt]) -> list[ast.stmt]:
        """Return a block with assignments instead of its exits."""
        if not block:
            return block
        *rest, last = block
        match last:
            case ast.If():
                then, other = without(last.body), without(last.orelse)
                return [*rest, ast.copy_location(ast.If(last.test, then, other), last)]
            case ast.Continue():
                new: list[ast.stmt] = [ast.Pass()]
            case ast.Break():
                new = [assigned(stop, leave)]
            case ast.Return():
                returned = ast.Constant(None) if last.value is None else last.value
                new = [assigned(stop, leave), assigned(value, returned), assigned(returns, ast.Constant(True))]
            case _:
                return block
        return [*rest, *(located(statement, last) for statement in new)]

    leave = method_call(name, "leave")
    assignment = ast.Assign([loop.target], variable(item))
    inside = [located(assigned(stop, ast.Constant(False)), loop), located(assignment, loop.target), *without(body)]
    turn = ast.If(variable(stop), [assigned(stop, ast.Constant(True))], inside)
    ends = ast.If(method_call(name, "ends", variable(stop)), [ast.Break()], [])
    site = constant_tuple((file, loop.lineno, loop.col_offset))
    new: list[ast.stmt] = [
        assigned(name, ast.Call(variable("@loop"), [site], [])),
        assigned(stop, ast.Constant(False)),
        assigned(returns, ast.Constant(False)),
        ast.For(ast.Name(item, ast.Store()), loop.iter, [turn, ends], []),
    ]
    if loop.orelse:
        new.append(ast.If(variable(stop), [ast.Pass()], loop.orelse))
    if any(isinstance(n, ast.Return) for n in exits):
        new.append(ast.If(variable(returns), [ast.Return(variable(value))], []))
    return [located(statement, loop) for statement in new]


def _exits_of_loop(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the exits from a loop with this body, including ``return`` statements in inner loops."""
    waiting: list[tuple[ast.AST, bool]] = [(statement, False) for statement in block]
    while waiting:
        node, inner = waiting.pop()
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not inner):
            yield node
        if isinstance(node, SCOPES):
            continue
        if isinstance(node, LOOPS):
            waiting += [(child, True) for child in node.body]
            waiting += [(child, inner) for child in node.orelse]
        else:
            waiting += [(child, inner) for child in ast.iter_child_nodes(node)]
