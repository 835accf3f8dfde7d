"""Expressions bottom up, without recursion: trees that programs generate are as deep as they like.

The parts of an expression are its arguments as they are written, or as SymPy writes them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, Final, TypeVar

import sympy as sp
from sympy.matrices.expressions.matexpr import MatrixElement

from accumulus.frontends.active import refuse
from accumulus.frontends.sympy.model import SYMBOLS, Places, named_row

T = TypeVar("T")

#: What SymPy works out in bounded time, where it has been put down without that: not integrals, nor limits.
UNDONE: Final = (sp.Derivative, sp.Subs, MatrixElement)
#: Terms of a sum, or factors of a product, at most.
MOST_TERMS: Final = 1_000_000
#: Digits to which constant parts are evaluated before they are rounded to a double.
DIGITS: Final = 30


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


class Nodes:
    """Parts of expressions, as `bottom_up` wants them.

    Args:
        places: what symbols stand for.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        #: Expressions that were made on the way; they live as long as their identities are used.
        self._made: list[Sequence[Any]] = []
        self._kinds: dict[type, type | None] = {}

    def parts(self, node: Any) -> Sequence[Any]:
        """Return what `node` is computed from: nothing for numbers and for arguments.

        Raises:
            TraceError: for a symbol that is no argument, and for what cannot be written out.
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
            return self._keep([part for pair in node.args for part in pair.args])
        if kind in (sp.Sum, sp.Product):
            return self._keep(self._terms(node))
        if self.places.of(node) is not None:
            return ()
        if isinstance(node, UNDONE):
            return self._keep(self._done(node))
        if hasattr(node, "_imp_") or named_row(node) is not None:
            return parts
        raise refuse(
            f"The expressions hold {node!s:.200}, which is not among the arguments: {self.places.text}. Add it to "
            "them, or put a number in its place."
        )

    def _keep(self, parts: Sequence[Any]) -> Sequence[Any]:
        self._made.append(parts)
        return parts

    def _done(self, node: Any) -> Sequence[Any]:
        """Return what it comes to, if SymPy knows."""
        done = node.doit()
        if isinstance(done, UNDONE):
            raise refuse(
                f"The expressions hold {done!s:.200}, which SymPy cannot write out. Make it one of the arguments "
                f"({self.places.text}), or put an expression in its place."
            )
        return [done]

    def _terms(self, node: Any) -> Sequence[Any]:
        """The terms of a sum, or the factors of a product, whose bounds are numbers."""
        ranges = []
        count = 1
        for name, *bounds in node.limits:
            if len(bounds) != 2 or not all(bound.is_Integer for bound in bounds):
                raise refuse(
                    f"A {type(node).__name__} over {name} runs from {' to '.join(map(str, bounds))}; expected are "
                    "whole numbers as bounds, or what SymPy's doit() makes of it."
                )
            first, last = map(int, bounds)
            count *= max(last - first + 1, 0)
            if count > MOST_TERMS:
                raise refuse(
                    f"A {type(node).__name__} over {name} has more than {MOST_TERMS:,} terms, to be written out each."
                )
            ranges.append((name, range(first, last + 1)))
        names = [name for name, _ in ranges]
        return [
            node.function.xreplace(dict(zip(names, map(sp.Integer, values), strict=True)))
            for values in product(*(values for _, values in ranges))
        ]


def _kind(kind: type) -> type | None:
    """The class that decides what the parts of its objects are; None where these are their arguments."""
    if issubclass(kind, SYMBOLS + UNDONE):
        return object
    bases: tuple[type, ...] = (sp.Piecewise, sp.Sum, sp.Product)
    return next((base for base in bases if issubclass(kind, base)), None)


def constant(node: Any) -> float | None:
    """The value of an expression without symbols, rounded once; None where SymPy gives no number.

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
