"""What follows an early exit, moved into the branch that goes on.

``if c: return a`` and then ``return b`` is ``if c: return a`` ``else: return b``: after that every exit is at the end
of its branch, where it is the assignment of a result. The same is done with ``continue`` in the bodies of loops. Where
an exit is somewhere deeper, what follows is copied into both branches as long as it is short.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from accumulus.frontends.source.nodes import copied

__all__ = ["LOOPS", "SCOPES", "exits_at_end", "in_scope", "leaves", "moved_into_branches", "without_exits"]

#: Nodes with a scope of their own.
SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
#: Nodes of the syntax tree that are copied into a second branch, at most.
MOST_COPIED: Final = 120

Exit = type[ast.stmt] | tuple[type[ast.stmt], ...]


def in_scope(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The nodes, and all within them that is in the same scope; nested functions and classes without what is inside."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def leaves(block: Sequence[ast.stmt], kind: Exit) -> bool:
    """Whether a block always ends by an exit of this kind."""
    if not block:
        return False
    last = block[-1]
    return isinstance(last, kind) or (
        isinstance(last, ast.If) and leaves(last.body, kind) and leaves(last.orelse, kind)
    )


def moved_into_branches(block: list[ast.stmt], kind: Exit) -> list[ast.stmt]:
    """A block in which what follows a branch that exits is the other branch, as far as that goes."""
    for place, statement in enumerate(block):
        if not isinstance(statement, ast.If):
            continue
        if not _exits(statement, kind):
            continue
        rest = block[place + 1 :]
        then, other = statement.body, statement.orelse
        if not leaves(then, kind):
            if not leaves(other, kind) and rest:  # an exit within: what follows comes behind either
                if sum(1 for part in rest for _ in ast.walk(part)) > MOST_COPIED:
                    return block
                other = other + copied(rest)
            then = then + rest
        elif not leaves(other, kind):
            other = other + rest
        moved = ast.If(statement.test, moved_into_branches(then, kind), moved_into_branches(other, kind))
        return [*block[:place], ast.copy_location(moved, statement)]
    return block


def _exits(statement: ast.If, kind: Exit) -> bool:
    """Whether there is an exit of this kind at the end of some branch."""
    for block in (statement.body, statement.orelse):
        if block and (isinstance(block[-1], kind) or any(isinstance(s, ast.If) and _exits(s, kind) for s in block)):
            return True
    return False


def exits_at_end(block: Sequence[ast.stmt], kind: Exit) -> set[int]:
    """Identities of the exits that are at the end of a block or of a branch there."""
    if not block:
        return set()
    last = block[-1]
    if isinstance(last, ast.If):
        return exits_at_end(last.body, kind) | exits_at_end(last.orelse, kind)
    return {id(last)} if isinstance(last, kind) else set()


def without_exits(block: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a loop without a ``continue`` at the end of it or of a branch there."""
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
    """Whether there is a ``break`` or ``continue`` of a loop around these nodes."""
    for node in nodes:
        if isinstance(node, ast.Break | ast.Continue):
            return True
        if isinstance(node, SCOPES):
            continue
        inside = node.orelse if isinstance(node, LOOPS) else list(ast.iter_child_nodes(node))
        if exits_outside(inside):
            return True
    return False
