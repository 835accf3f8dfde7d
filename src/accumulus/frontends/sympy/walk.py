"""Expressions bottom up, without recursion: the trees that programs generate are as deep as they like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def bottom_up(
    roots: Iterable[Any], parts: Callable[[Any], Sequence[Any]], make: Callable[[Any, list[T]], T], known: dict[int, T]
) -> list[T]:
    """Return what `make` makes of each root, from what it made of its parts; of each object once.

    Objects are told apart by identity: to compare or to hash a tree, SymPy walks through it by recursion. Equal parts
    that are different objects are made twice; a tape finds out that they are the same.

    Args:
        roots: expressions; whoever calls holds on to them and to their parts.
        parts: of an expression, what it is made from.
        make: from an expression and what was made of its parts.
        known: what was made already, by identity; it is added to.

    >>> from sympy.abc import x
    >>> bottom_up([(x + 1) ** 2], lambda node: node.args, lambda node, sizes: 1 + sum(sizes), {})
    [5]
    """
    found = []
    for root in roots:
        stack: list[tuple[Any, Sequence[Any] | None]] = [(root, None)]
        while stack:
            node, of = stack.pop()
            if of is not None:
                if id(node) not in known:
                    known[id(node)] = make(node, [known[id(part)] for part in of])
            elif id(node) not in known:
                of = parts(node)
                stack.append((node, of))
                stack.extend((part, None) for part in reversed(of) if id(part) not in known)
        found.append(known[id(root)])
    return found
