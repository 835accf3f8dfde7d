"""Products along many paths whose common factors are multiplied once, as the last step of D*.

The pair of neighbouring factors that is found in most paths is multiplied first, in all of them, until each path is
one factor (Guenter 2007, section 4; the pairs are those of Larsson and Moffat's Re-Pair, 1999). Paths of one entry, or
from one root, or to one terminal, form a tree whose leaves are their other ends. So pairs are counted by leaves and
replaced once for each tree, not once for each path: a factor k above its child i becomes their product, which hangs
where k hangs, and k stays as long as it has other leaves below.

Time O(nodes touched · log pairs), memory O(nodes). A replacement touches a node and its children.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

__all__ = ["Trees"]

_NONE = -1
Pair = tuple[int, int]


class Trees:
    """Factors as nodes of trees; the path of a leaf is the product from the root of its tree to the leaf.

    Args:
        mirrored: whether trees grow from the terminals, so that the factor of a child is the left one.
    """

    def __init__(self, *, mirrored: bool = False) -> None:
        self.labels: list[int] = []
        self.parents: list[int] = []
        self._mirrored = mirrored
        self._weights: list[int] = []
        self._children: list[set[int]] = []
        #: Nodes that make a pair with their parent, and leaves below all of them, by the pair.
        self._places: dict[Pair, set[int]] = {}
        self._counts: dict[Pair, int] = {}

    def add(self, label: int) -> int:
        """A node that hangs nowhere yet."""
        self.labels.append(label)
        self.parents.append(_NONE)
        return len(self.labels) - 1

    def hang(self, node: int, parent: int) -> None:
        """Put a node below another one."""
        self.parents[node] = parent

    def multiply(self, leaves: list[int], product: Callable[[int, int], int]) -> None:
        """Multiply until every leaf is a root; its label is then the product of its path.

        Args:
            leaves: nodes without children, each of which counts once.
            product: gives the reference of a product.
        """
        self._count(leaves)
        queue = [(-count, pair) for pair, count in self._counts.items()]
        heapq.heapify(queue)
        while queue:
            counted, pair = heapq.heappop(queue)
            count = self._counts.get(pair, 0)
            if not count:
                continue
            if count < -counted:
                heapq.heappush(queue, (-count, pair))
                continue
            made: set[Pair] = set()
            label = product(*pair)
            for node in self._places.pop(pair):
                self._join(node, label, made)
            del self._counts[pair]
            for new in made:
                if new in self._counts:
                    heapq.heappush(queue, (-self._counts[new], new))

    def _count(self, leaves: list[int]) -> None:
        parents = self.parents
        self._children = [set() for _ in parents]
        for node, parent in enumerate(parents):
            if parent != _NONE:
                self._children[parent].add(node)
        waiting = list(map(len, self._children))
        self._weights = [0] * len(parents)
        for leaf in leaves:
            self._weights[leaf] = 1
        ready = list(leaves)
        for node in ready:
            parent = parents[node]
            if parent != _NONE:
                self._enter(node)
                self._weights[parent] += self._weights[node]
                waiting[parent] -= 1
                if waiting[parent] == 0:
                    ready.append(parent)

    def _join(self, node: int, label: int, made: set[Pair]) -> None:
        """Multiply a node by its parent, whose place it takes."""
        parents, weights, children = self.parents, self._weights, self._children
        parent = parents[node]
        above = parents[parent]
        for child in children[node]:
            self._leave(child)
        if above != _NONE:
            pair = self._pair(parent)
            self._counts[pair] -= weights[node]
        children[parent].discard(node)
        weights[parent] -= weights[node]
        if weights[parent] == 0 and above != _NONE:
            self._places[pair].discard(parent)
            children[above].discard(parent)
            if not self._counts[pair]:
                del self._counts[pair]
        self.labels[node], parents[node] = label, above
        if above != _NONE:
            children[above].add(node)
            made.add(self._enter(node))
        for child in children[node]:
            made.add(self._enter(child))

    def _pair(self, node: int) -> Pair:
        above, below = self.labels[self.parents[node]], self.labels[node]
        return (below, above) if self._mirrored else (above, below)

    def _enter(self, node: int) -> Pair:
        pair = self._pair(node)
        self._places.setdefault(pair, set()).add(node)
        self._counts[pair] = self._counts.get(pair, 0) + self._weights[node]
        return pair

    def _leave(self, node: int) -> None:
        pair = self._pair(node)
        self._counts[pair] -= self._weights[node]
        self._places[pair].discard(node)
        if not self._counts[pair]:
            del self._counts[pair]
