"""Words: the pieces of paths that a program of the chain rule multiplies together, and where each can be cut.

A *word* is a path between two vertices, read as the product of its labels; its *pair* are the two vertices. Every
value that a program computes and uses is a set of words of one pair (`accumulus.theory.research.minimum` proves it), so
a value is a pair and a bitset, and a product joins a value of pair (x, m) with one of pair (m, y).

Pairs of a root and a terminal are *outputs*; other pairs that are joined by a path of two or more edges are *inner*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from accumulus.errors import GraphError
from accumulus.graph.graph import DifferentiationGraph

__all__ = ["LARGEST", "Pair", "Word", "Words"]

#: Graphs with more words than this are refused: the search would not end.
LARGEST = 4_000


@dataclass(slots=True)
class Word:
    """A path of one or more edges.

    Attributes:
        pair: number of its pair.
        bit: its bit in the values of that pair.
        path: its vertices.
        cuts: for every vertex on the way, (vertex, word before it, word after it), by numbers of words.
    """

    pair: int
    bit: int
    path: tuple[int, ...]
    cuts: tuple[tuple[int, int, int], ...] = ()


@dataclass(slots=True)
class Pair:
    """Two vertices that are joined by a path.

    Attributes:
        start, end: the vertices.
        words: numbers of the words between them; the word at position k has bit 1 << k.
        longest: edges of the longest.
        edge: bits of the words of one edge, which cost nothing.
        is_output: whether it is a root and a terminal.
    """

    start: int
    end: int
    words: list[int] = field(default_factory=list)
    longest: int = 0
    edge: int = 0
    is_output: bool = False

    @property
    def products(self) -> int:
        """Bits of the words that are products."""
        return ((1 << len(self.words)) - 1) & ~self.edge


class Words:
    """All words of a graph.

    Dead edges are left out and parallel ones taken for one, whose label is their sum.

    Raises:
        GraphError: if there are more than `LARGEST` words.

    >>> words = Words(DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "b"), ("b", "x")]))
    >>> len(words.words), [len(words.pairs[p].words) for p in words.outputs]
    (8, [2])
    """

    def __init__(self, graph: DifferentiationGraph) -> None:
        self.graph = graph
        ends = zip(graph.sources.tolist(), graph.targets.tolist(), graph.live_edges.tolist(), strict=True)
        self.below: dict[int, list[int]] = {}
        for source, target in dict.fromkeys((source, target) for source, target, live in ends if live):
            self.below.setdefault(source, []).append(target)
        self.words: list[Word] = []
        self.pairs: list[Pair] = []
        self.pair_of: dict[tuple[int, int], int] = {}
        self._index: dict[tuple[int, ...], int] = {}
        for start in sorted(self.below):
            for path in self._paths((start,)):
                self._add(path)
        for word in self.words:
            path = word.path
            word.cuts = tuple(
                (path[k], self._index[path[: k + 1]], self._index[path[k:]]) for k in range(1, len(path) - 1)
            )
        roots, terminals = set(graph.roots), set(graph.terminals)
        for pair in self.pairs:
            pair.is_output = pair.start in roots and pair.end in terminals
        #: Pairs of a root and a terminal with something to multiply, and all others with.
        self.outputs = [p for p, pair in enumerate(self.pairs) if pair.is_output and pair.longest > 1]
        self.inner = [p for p, pair in enumerate(self.pairs) if not pair.is_output and pair.longest > 1]

    def joined(self, left: int, right: int) -> int:
        """Number of the word that is two words, one after the other."""
        return self._index[self.words[left].path + self.words[right].path[1:]]

    def members(self, pair: int, value: int) -> list[int]:
        """Numbers of the words in a value."""
        return [word for k, word in enumerate(self.pairs[pair].words) if value >> k & 1]

    def _paths(self, path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        for target in self.below.get(path[-1], ()):
            yield (*path, target)
            yield from self._paths((*path, target))

    def _add(self, path: tuple[int, ...]) -> None:
        if len(self.words) == LARGEST:
            raise GraphError(
                f"the graph has more than {LARGEST} path pieces; expected a small graph, such as one of 20 edges"
            )
        key = path[0], path[-1]
        if key not in self.pair_of:
            self.pair_of[key] = len(self.pairs)
            self.pairs.append(Pair(*key))
        number = self.pair_of[key]
        pair = self.pairs[number]
        bit = 1 << len(pair.words)
        self._index[path] = len(self.words)
        pair.words.append(len(self.words))
        pair.longest = max(pair.longest, len(path) - 1)
        if len(path) == 2:
            pair.edge |= bit
        self.words.append(Word(number, bit, path))
