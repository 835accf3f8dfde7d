"""A reference for whatever stands more than once in an expression set.

Values are numbered by structure (hash-consing, references looked through), so equal factors and terms, and references
with equal definitions, are one value. Then neighbouring factors that stand in several products become a value of
their own, the pair that stands in most products first, as in D* (Guenter 2007, section 4: what paths have in common).
What is used once is written where it is used. No rule increases the number of products. Nothing is distributed and no
part of a sum is looked for, so this finds what is written twice, not what could be. Time n log n in what is written.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from accumulus.theory.algebra.expression import (
    Expression,
    Product,
    Reference,
    Symbol,
    operands,
    postorder,
    product,
    total,
)
from accumulus.theory.algebra.names import fresh_names

if TYPE_CHECKING:
    from accumulus.theory.algebra.sets import Entry, ExpressionSet

__all__ = ["shared"]

Pair = tuple[int, int]


def shared(expressions: ExpressionSet) -> tuple[dict[str, Expression], dict[Entry, Expression]]:
    """References and entries of the set with everything shared; see `ExpressionSet.shared`."""
    values = _Values(expressions.references, expressions.entries)
    values.pair_up()
    return values.written(expressions.references, expressions.entries)


class _Values:
    """Numbered values: symbols, products and sums of values."""

    def __init__(self, references: Mapping[str, Expression], entries: Mapping[Entry, Expression]) -> None:
        self.symbols: dict[int, Symbol] = {}
        self.products: dict[int, list[int]] = {}
        self.sums: dict[int, list[int]] = {}
        self.numbers: dict[Expression, int] = {}
        known: dict[tuple[object, ...], int] = {}
        used: Counter[int] = Counter()

        def children(node: Expression) -> tuple[Expression, ...]:
            return (references[node.name],) if isinstance(node, Reference) else operands(node)

        for node in postorder(entries.values(), children):
            if isinstance(node, Reference):
                self.numbers[node] = self.numbers[references[node.name]]
                continue
            inner = [self.numbers[operand] for operand in operands(node)]
            key = (type(node), *(inner if isinstance(node, Product) else sorted(inner))) if inner else (node,)
            self.numbers[node] = known.setdefault(key, len(known))
            if len(known) > len(self.symbols) + len(self.products) + len(self.sums):
                used.update(inner)
                kept = self.products if isinstance(node, Product) else self.sums
                if isinstance(node, Symbol):
                    self.symbols[self.numbers[node]] = node
                else:
                    kept[self.numbers[node]] = inner
        used.update(self.numbers[entry] for entry in entries.values())
        # a product that nothing but another product uses is part of that
        parts = {number for number, factors in self.products.items() for number in factors if used[number] == 1}
        spliced = parts.intersection(self.products)
        for number, factors in self.products.items():
            self.products[number] = [
                part for factor in factors for part in (self.products[factor] if factor in spliced else [factor])
            ]
        for number in spliced:
            del self.products[number]

    def pair_up(self) -> None:
        """Make neighbouring factors that stand in several products values of their own."""
        where: dict[Pair, set[int]] = {}
        for number, factors in self.products.items():
            for pair in pairwise(factors):
                where.setdefault(pair, set()).add(number)
        heap = [(-len(places), pair) for pair, places in where.items() if len(places) > 1]
        heapq.heapify(heap)
        fresh = 1 + max([*self.symbols, *self.products, *self.sums, *self.numbers.values()])
        while heap:
            count, pair = heapq.heappop(heap)
            places = where.get(pair, set())
            if len(places) < 2:
                continue
            if len(places) != -count:
                heapq.heappush(heap, (-len(places), pair))
                continue
            # a product that is just this pair is the value that the others use
            value = next((number for number in sorted(places) if len(self.products[number]) == 2), fresh)
            if value == fresh:
                fresh += 1
            touched: set[Pair] = set()
            for number in sorted(places - {value}):
                touched |= self._replace(number, pair, value, where)
            if value not in self.products:
                self.products[value] = list(pair)
            where[pair] = {value}
            for found in touched:
                if len(where.get(found, ())) > 1:
                    heapq.heappush(heap, (-len(where[found]), found))

    def _replace(self, number: int, pair: Pair, value: int, where: dict[Pair, set[int]]) -> set[Pair]:
        """Put the value where the pair stands in a product; the pairs that are new there."""
        old = self.products[number]
        new: list[int] = []
        for factor in old:
            if new and (new[-1], factor) == pair:
                new[-1] = value
            else:
                new.append(factor)
        for gone in pairwise(old):
            where[gone].discard(number)
        self.products[number] = new
        found = set(pairwise(new))
        for there in found:
            where.setdefault(there, set()).add(number)
        return found

    def written(
        self, references: Mapping[str, Expression], entries: Mapping[Entry, Expression]
    ) -> tuple[dict[str, Expression], dict[Entry, Expression]]:
        """The values as expressions, those that are used more than once as references."""
        parts: dict[int, list[int]] = {**{number: [] for number in self.symbols}, **self.products, **self.sums}
        roots = [self.numbers[entry] for entry in entries.values()]
        order = list(postorder(roots, lambda number: parts[number]))
        uses = Counter(roots)
        for number in order:
            uses.update(parts[number])
        names: dict[int, str] = {}
        for name, definition in references.items():
            if definition in self.numbers:
                names.setdefault(self.numbers[definition], name)
        fresh = fresh_names("s", {symbol.name for symbol in self.symbols.values()}.union(references))
        values: dict[int, Expression] = {}
        found: dict[str, Expression] = {}
        for number in order:
            over = [values[part] for part in parts[number]]
            if not over:
                values[number] = self.symbols[number]
                continue
            values[number] = product(over) if number in self.products else total(over)
            if uses[number] > 1 and len(over) > 1:
                name = names.get(number) or next(fresh)
                found[name] = values[number]
                values[number] = Reference(name)
        return found, {key: values[self.numbers[entry]] for key, entry in entries.items()}
