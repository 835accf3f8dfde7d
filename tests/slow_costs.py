"""Costs of vertex elimination from the definition: which paths join which vertices once a set of vertices is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from slow_sequences import simple_edges

from accumulus import DifferentiationGraph


class SlowCosts:
    """Costs of a graph with few vertices."""

    def __init__(self, graph: DifferentiationGraph, objective: str) -> None:
        self.graph, self.objective = graph, objective
        self.near: dict[int, list[tuple[int, int]]] = {}
        for (j, i), level in simple_edges(graph).items():
            self.near.setdefault(j, []).append((i, level))
        self.price = cache(self.price)  # type: ignore[method-assign]

    def of(self, order: Sequence[int]) -> int:
        return sum(self.price(k, frozenset(order[:t])) for t, k in enumerate(order))

    def least(self) -> int:
        """The best order's cost, by dynamic programming over sets."""
        everything = frozenset(self.graph.intermediates)

        @cache
        def rest(gone: frozenset[int]) -> int:
            return min((self.price(k, gone) + rest(gone | {k}) for k in everything - gone), default=0)

        return rest(frozenset())

    def price(self, k: int, gone: frozenset[int]) -> int:
        """Cost of eliminating k when `gone` are eliminated."""
        graph = self.graph
        left = [v for v in range(len(graph.vertices)) if v not in gone and v != k]
        above = {j: level for j in left if (level := self.level(j, k, gone))}
        below = {i: level for i in left if (level := self.level(k, i, gone))}
        return sum(
            int(graph.sizes[j] * graph.sizes[k] * graph.sizes[i])
            for j, a in above.items()
            for i, b in below.items()
            if self.objective == "fma" or not (a == 1 or b == 1 or a == b == 2)
        )

    def level(self, source: int, target: int, gone: frozenset[int]) -> int:
        """0: no path through `gone`, 1: a single path of units, 2: constants only, 3: otherwise."""
        paths = [max(path) for path in self.paths(source, target, gone)]
        return max(paths[0] if len(paths) == 1 else 2, *paths) if paths else 0

    def paths(self, source: int, target: int, gone: frozenset[int]) -> Iterator[list[int]]:
        for next_, level in self.near.get(source, ()):
            if next_ == target:
                yield [level]
            elif next_ in gone:
                yield from ([level, *rest] for rest in self.paths(next_, target, gone))
