"""Expressions as noncommutative polynomials: what they are equal to, whatever their parentheses and references.

`expand` multiplies out: every word is a path, its coefficient how often it is counted. The number of words is
exponential in general, so it stops at a limit. `equivalent` expands where that is cheap, and otherwise evaluates
both sides at random k×k matrices modulo a prime p near 2²⁹, with 2k greater than the degree: no nonzero polynomial of
degree below 2k vanishes on all k×k matrices (Amitsur and Levitzki 1950), so two different polynomials agree by
chance with probability about degree/p each time (Schwartz and Zippel), and three times are tried. Above degree 127,
where k stays at 64, a difference that is found is still a difference.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ExpressionError
from accumulus.theory.algebra.expression import Expression, Product, Reference, Sum, Symbol, operands, postorder

__all__ = ["Word", "degrees", "equivalent", "expand", "word_counts"]

Word = tuple[str, ...]
Definitions = Mapping[str, Expression]

#: The largest k such that k · PRIME² fits into 64 bits.
_LARGEST: Final = 64
_PRIME: Final = 2**29 - 3
_ROUNDS: Final = 3
_CHEAP: Final = 2000


def expand(expression: Expression, references: Definitions | None = None, limit: int = 100_000) -> Counter[Word]:
    """The expression multiplied out: how often it counts every word of labels.

    Raises:
        ExpressionError: if there are more than `limit` words, counted with multiplicity.

    >>> from accumulus.theory.algebra.parser import parse
    >>> sorted(expand(parse("(e1*e3 + e2*e4)*e5")))
    [('e1', 'e3', 'e5'), ('e2', 'e4', 'e5')]
    """
    known = references or {}
    words = word_counts([expression], known)[expression]
    if words > limit:
        raise ExpressionError(f"the expression stands for {words} products of labels; expected at most {limit}")
    values: dict[Expression, Counter[Word]] = {}
    for node in _nodes([expression], known):
        if isinstance(node, Symbol):
            word: Word = (node.name,)
            value = Counter({word: 1})
        elif isinstance(node, Reference):
            value = values[known[node.name]]
        elif isinstance(node, Sum):
            value = Counter()
            for term in node.terms:
                value.update(values[term])
        else:
            nothing: Word = ()
            value = Counter({nothing: 1})
            for factor in operands(node):
                longer: Counter[Word] = Counter()
                for word, times in value.items():
                    for end, more in values[factor].items():
                        longer[word + end] += times * more
                value = longer
        values[node] = value
    return values[expression]


def word_counts(expressions: Iterable[Expression], references: Definitions) -> dict[Expression, int]:
    """Number of words, with multiplicity, of every subexpression."""
    counts: dict[Expression, int] = {}
    for node in _nodes(expressions, references):
        if isinstance(node, Product):
            counts[node] = 1
            for factor in node.factors:
                counts[node] *= counts[factor]
        elif isinstance(node, Sum):
            counts[node] = sum(counts[term] for term in node.terms)
        else:
            counts[node] = counts[references[node.name]] if isinstance(node, Reference) else 1
    return counts


def degrees(expressions: Iterable[Expression], references: Definitions) -> dict[Expression, int]:
    """Number of labels in the longest word of every subexpression."""
    degree: dict[Expression, int] = {}
    for node in _nodes(expressions, references):
        if isinstance(node, Product):
            degree[node] = sum(degree[factor] for factor in node.factors)
        elif isinstance(node, Sum):
            degree[node] = max(degree[term] for term in node.terms)
        else:
            degree[node] = degree[references[node.name]] if isinstance(node, Reference) else 1
    return degree


def equivalent(
    left: Expression,
    right: Expression,
    left_references: Definitions | None = None,
    right_references: Definitions | None = None,
    seed: int = 0,
) -> bool:
    """Whether two expressions are equal as noncommutative polynomials.

    >>> from accumulus.theory.algebra.parser import parse
    >>> equivalent(parse("(a + b)*c"), parse("a*c + b*c")), equivalent(parse("a*b"), parse("b*a"))
    (True, False)
    """
    sides = [(left, left_references or {}), (right, right_references or {})]
    if all(word_counts([side], known)[side] <= _CHEAP for side, known in sides):
        return expand(*sides[0]) == expand(*sides[1])
    degree = max(degrees([side], known)[side] for side, known in sides)
    k = min(degree // 2 + 1, _LARGEST)
    for attempt in range(_ROUNDS):
        one, other = (_evaluate(side, known, k, f"{seed}/{attempt}") for side, known in sides)
        if not np.array_equal(one, other):
            return False
    return True


def _evaluate(expression: Expression, references: Definitions, k: int, seed: str) -> NDArray[np.uint64]:
    values: dict[Expression, NDArray[np.uint64]] = {}
    prime = np.uint64(_PRIME)
    nodes = list(_nodes([expression], references))
    uses = Counter(child for node in nodes for child in _children(node, references))
    for node in nodes:
        if isinstance(node, Symbol):
            # a generator for each name, so that both sides see the same matrix
            generator = np.random.default_rng(random.Random(f"{seed}/{node.name}").getrandbits(64))
            values[node] = generator.integers(_PRIME, size=(k, k), dtype=np.uint64)
        elif isinstance(node, Reference):
            values[node] = values[references[node.name]]
        else:
            value, *others = (values[operand] for operand in operands(node))
            for other in others:
                value = (value @ other if isinstance(node, Product) else value + other) % prime
            values[node] = value
        for child in _children(node, references):
            uses[child] -= 1
            if not uses[child]:
                del values[child]
    return values[expression]


def _children(node: Expression, references: Definitions) -> tuple[Expression, ...]:
    return (references[node.name],) if isinstance(node, Reference) else operands(node)


def _nodes(expressions: Iterable[Expression], references: Definitions) -> Iterable[Expression]:
    """All subexpressions, definitions of references included, operands first."""
    return postorder(expressions, lambda node: _children(node, references))
