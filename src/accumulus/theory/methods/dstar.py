"""D*: factor the derivative graphs of all root–terminal pairs at their dominators and postdominators.

**Factor subgraphs.** The derivative graph of an entry (root, terminal) contains the paths between the two. If b
dominates c in it, and c has more than one parent, [b,c] is a factor subgraph: one edge ⟨b,c⟩ with the label ∂b/∂c
replaces the edges into c, and edges that no longer lead to the terminal are removed. The same is done with the edges
out of b if c postdominates b, and b has more than one child. The factor subgraph that occurs in most derivative graphs
is factored first, in all of them, and they share its edge. Finally every derivative graph is a single path, and the
common factors of the paths are multiplied (Guenter, Efficient Symbolic Differentiation for Graphics Applications, 2007;
the notes, section 1).

**Common factors** are the last step. The pair of adjacent factors that occurs in most paths is multiplied in all of
them, until each path is one factor (Guenter 2007, section 4; Larsson and Moffat's Re-Pair, 1999, replaces pairs in the
same way). The paths of one entry, from one root, or to one terminal, form a tree whose leaves are their other ends. So
pairs are counted by leaves and replaced once for each tree, not once for each path. A factor k above its child i is
replaced by their product, whose parent is the parent of k; k remains while it has other leaves below.

Time: O(visited nodes · log pairs), memory: O(nodes). A replacement visits a node and its children.

**Efficiency.**

* The dominators from a root are the same in every derivative graph with that root, and they remain dominators, since
  factoring only replaces parts of paths by an edge, or removes paths. So one tree for each root and each terminal,
  computed once, serves all n·m graphs in all steps.
* Only *immediate* dominators and postdominators matter. If [b,c] is a factor subgraph and d dominates b, then [d,c]
  occurs in no more graphs, contains [b,c], and is no factor subgraph after c has one parent.
* The derivative graphs are stored as one graph, whose edges have bit sets of their entries. One pass over the sets of
  the edges into c gives the entries in which c has more than one parent. The count of a factor subgraph is the size of
  a set.
* Counts only decrease, so the priority queue updates a count when it is popped.

**Overlapping factor subgraphs.** Factoring at a dominator removes paths in between, so another [b,c] with common
vertices may be ∂b/∂c in one entry and only a part of it in another. The forms of [b,c] in its entries are distinguished
by their values at random labels, modulo the prime 2⁶¹ − 1. Only entries with equal forms share an edge.

**One side.** With one root, dominators alone reduce the derivative graphs to paths, for all terminals at once, and the
same holds for one terminal. So in a large graph entries are distinguished on one side only, the side with fewer roots
or terminals, and subgraphs are counted over rows or over columns.

**Order.** Among equal counts, the shortest interval of the topological order comes first, so a nested subgraph comes
before the subgraphs that contain it. With ``order="inner"`` the interval comes first, and counts decide ties. ∂b/∂c is
accumulated in the form of the subgraph in its first entry, in topological order, from the side with fewer products. The
result need not be optimal; Guenter reports that it is close to code written by hand for several roots or terminals.

Time: O(factor subgraphs · (edges at their ends) · n·m/64), memory: O(edges · n·m/8) bytes; then the remaining paths are
multiplied (`Trees`).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from functools import cache, reduce
from operator import or_
from typing import Final, Literal, get_args

import numpy as np

from accumulus.context import Context
from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation, SharedSteps
from accumulus.elimination.compiled.labels_kernel import PRIME
from accumulus.errors import unknown_name
from accumulus.graph.degrees import index_domains, index_ranges
from accumulus.graph.graph import DifferentiationGraph
from accumulus.search.registry import SearchResult, register_method
from accumulus.theory.graphs.dominators import dominators, postdominators

#: Parent of a node without one.
_ABSENT = -1
Pair = tuple[int, int]


class Trees:
    """Factors as nodes of trees; the path of a leaf is the product from the root of its tree to the leaf.

    Args:
        mirrored: True if the roots of the trees are at the terminals, so that the child is the left factor.
    """

    def __init__(self, *, mirrored: bool = False) -> None:
        self.labels: list[int] = []
        self.parents: list[int] = []
        self._mirrored = mirrored
        self._weights: list[int] = []
        self._children: list[set[int]] = []
        #: For each pair the nodes that form it with their parents, and the number of leaves below all of these.
        self._nodes_of_pair: dict[Pair, set[int]] = {}
        self._counts: dict[Pair, int] = {}

    def add(self, label: int) -> int:
        """Add a node without a parent, and return it."""
        self.labels.append(label)
        self.parents.append(_ABSENT)
        return len(self.labels) - 1

    def hang(self, node: int, parent: int) -> None:
        """Set the parent of a node."""
        self.parents[node] = parent

    def multiply(self, leaves: list[int], product: Callable[[int, int], int]) -> None:
        """Multiply until every leaf is a root; its label is then the product of its path.

        Args:
            leaves: nodes without children, each of which counts once.
            product: function that returns the reference of a product.
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
            for node in self._nodes_of_pair.pop(pair):
                self._join(node, label, made)
            del self._counts[pair]
            for new in made:
                if new in self._counts:
                    heapq.heappush(queue, (-self._counts[new], new))

    def _count(self, leaves: list[int]) -> None:
        parents = self.parents
        self._children = [set() for _ in parents]
        for node, parent in enumerate(parents):
            if parent != _ABSENT:
                self._children[parent].add(node)
        waiting = list(map(len, self._children))
        self._weights = [0] * len(parents)
        for leaf in leaves:
            self._weights[leaf] = 1
        ready = list(leaves)
        for node in ready:
            parent = parents[node]
            if parent != _ABSENT:
                self._enter(node)
                self._weights[parent] += self._weights[node]
                waiting[parent] -= 1
                if waiting[parent] == 0:
                    ready.append(parent)

    def _join(self, node: int, label: int, made: set[Pair]) -> None:
        """Multiply a node by its parent, and move it to the parent's place."""
        parents, weights, children = self.parents, self._weights, self._children
        parent = parents[node]
        above = parents[parent]
        for child in children[node]:
            self._leave(child)
        if above != _ABSENT:
            pair = self._pair(parent)
            self._counts[pair] -= weights[node]
        children[parent].discard(node)
        weights[parent] -= weights[node]
        if weights[parent] == 0 and above != _ABSENT:
            self._nodes_of_pair[pair].discard(parent)
            children[above].discard(parent)
            if not self._counts[pair]:
                del self._counts[pair]
        self.labels[node], parents[node] = label, above
        if above != _ABSENT:
            children[above].add(node)
            made.add(self._enter(node))
        for child in children[node]:
            made.add(self._enter(child))

    def _pair(self, node: int) -> Pair:
        above, below = self.labels[self.parents[node]], self.labels[node]
        return (below, above) if self._mirrored else (above, below)

    def _enter(self, node: int) -> Pair:
        pair = self._pair(node)
        self._nodes_of_pair.setdefault(pair, set()).add(node)
        self._counts[pair] = self._counts.get(pair, 0) + self._weights[node]
        return pair

    def _leave(self, node: int) -> None:
        pair = self._pair(node)
        self._counts[pair] -= self._weights[node]
        self._nodes_of_pair[pair].discard(node)
        if not self._counts[pair]:
            del self._counts[pair]


# Factor subgraphs ----------------------------------------------------------------------------------------------------


Order = Literal["frequency", "inner"]
Sides = Literal["both", "roots", "terminals"]
#: Product of entries and edges up to which both sides are used by default, which takes some seconds: a larger one
#: delays plans of large graphs, a smaller one leaves out the side that is cheaper for some.
_LIMIT: Final = 12_000_000
_SEED: Final = 2007

Subgraph = tuple[int, int]


def dstar(
    graph: DifferentiationGraph,
    *,
    order: Order = "frequency",
    sides: Sides | None = None,
    deadline: Deadline = FOREVER,
) -> Accumulation:
    """Accumulate by D*.

    Args:
        graph: graph to accumulate.
        order: ``"frequency"``, the factor subgraph of most entries first, or ``"inner"``, nested ones first.
        sides: ``"both"``; ``"roots"``, dominators only; or ``"terminals"``, postdominators only. By default both for
            small graphs, and the side with fewer vertices for large ones.
        deadline: deadline of the computation.

    Raises:
        OutOfTimeError: if the deadline passes first.
        UnknownNameError: for another order or other sides.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x"), ("c", "z")])
    >>> plan = dstar(graph)
    >>> sum(plan.steps.is_product)
    4
    """
    if order not in get_args(Order):
        raise unknown_name("order", order, get_args(Order))
    roots, terminals = len(graph.roots), len(graph.terminals)
    if sides is None:
        fewer: Sides = "roots" if roots <= terminals else "terminals"
        sides = "both" if roots * terminals * len(graph.sources) <= _LIMIT else fewer
    if sides not in get_args(Sides):
        raise unknown_name("sides", sides, get_args(Sides))
    derivatives = _Derivatives(graph, sides, deadline)
    derivatives.factor(order)
    return derivatives.finish()


class _Side:
    """Incoming or outgoing edges of a vertex that still belong to an entry; dicts keep the order of their creation.

    One entry has one root and one terminal (of the distinguished sides), and at most one edge between two vertices. So
    the edges of a vertex from roots (to terminals) have disjoint sets of entries, and most operations need only their
    union.
    """

    __slots__ = ("inner", "outer", "union")

    def __init__(self) -> None:
        self.inner: dict[int, None] = {}
        #: Edges from (to) each root (terminal), and the union of their entries.
        self.outer: dict[int, dict[int, None]] = {}
        self.union = 0

    def edges(self, end: int | None) -> list[int]:
        """Return the edges from (to) intermediates and one root (terminal), or all edges if `end` is None."""
        outer = self.outer.values() if end is None else [self.outer.get(end, {})]
        return [*self.inner, *(e for edges in outer for e in edges)]


class _Derivatives:
    """The derivative graphs of all entries, as one graph whose edges have bit sets of entries."""

    def __init__(self, graph: DifferentiationGraph, sides: Sides, deadline: Deadline) -> None:
        self.graph, self._deadline = graph, deadline
        #: Distinguished roots and terminals; if only one side is distinguished, an entry is a row or a column.
        self.rows = graph.roots if sides != "terminals" else ()
        self.terminals = graph.terminals if sides != "roots" else ()
        self.steps = SharedSteps(len(graph.sources))
        self.columns = len(self.terminals) or 1
        self.position = [0] * len(graph.vertices)
        for position, v in enumerate(reversed(graph.topological_order)):
            self.position[v] = position
        self.sources: list[int] = []
        self.targets: list[int] = []
        self.labels: list[int] = []
        self.entries: list[int] = []
        self.into = [_Side() for _ in graph.vertices]
        self.out = [_Side() for _ in graph.vertices]
        self.is_end = bytearray(len(graph.vertices))
        for v in (*self.rows, *self.terminals):
            self.is_end[v] = 1
        rng = random.Random(_SEED)
        #: Values of all references at random labels, which distinguish forms.
        self._residues = [rng.randrange(PRIME) for _ in range(len(graph.sources))]
        self._labels: dict[tuple[int, int, int], int] = {}
        entries_of = self._entries_of_edges()
        between: dict[tuple[int, int], int] = {}
        sources, targets = graph.sources.tolist(), graph.targets.tolist()
        for e in graph.live_edges.nonzero()[0].tolist():
            deadline.check()
            j, i = sources[e], targets[e]
            if (j, i) in between:
                edge = between[j, i]
                self.labels[edge] = self._add(self.labels[edge], e)
            else:
                between[j, i] = self._edge(j, i, e, entries_of(j, i))
        #: Entries in which b dominates (postdominates) immediately, by (b, c).
        self.dominated: dict[Subgraph, int] = {}
        self.postdominated: dict[Subgraph, int] = {}
        row, column = (1 << self.columns) - 1, self._spread((1 << (len(self.rows) or 1)) - 1)
        for r, root in enumerate(self.rows):
            deadline.check()
            tree = dominators(graph, root)
            for c in range(len(graph.vertices)):
                if (b := tree.immediate(c)) != _ABSENT:
                    self.dominated[b, c] = self.dominated.get((b, c), 0) | row << r * self.columns
        for t, terminal in enumerate(self.terminals):
            deadline.check()
            tree = postdominators(graph, terminal)
            for b in range(len(graph.vertices)):
                if (c := tree.immediate(b)) != _ABSENT:
                    self.postdominated[b, c] = self.postdominated.get((b, c), 0) | column << t

    def factor(self, order: Order) -> None:
        """Factor until every derivative graph is a single path."""
        queue = []
        for b, c in {**self.dominated, **self.postdominated}:
            self._deadline.check()
            above, below = self._occurrences(b, c)
            if count := (above | below).bit_count():
                queue.append((*self._rank(order, b, c, count), b, c, count))
        heapq.heapify(queue)
        while queue:
            self._deadline.check()
            _, _, b, c, counted = heapq.heappop(queue)
            above, below = self._occurrences(b, c)
            count = (above | below).bit_count()
            if count == 0:
                continue
            if count < counted:
                heapq.heappush(queue, (*self._rank(order, b, c, count), b, c, count))
            else:
                self._replace(b, c, above, below)

    def finish(self) -> Accumulation:
        """Multiply along the remaining paths, which form trees, and return the accumulation."""
        graph, count = self.graph, len(self.graph.vertices)
        # an edge belongs to its end that is further from the root of the tree
        near, far = (self.sources, self.targets) if self.rows else (self.targets, self.sources)
        edges = {entry * count + far[e]: e for e, entries in enumerate(self.entries) for entry in _bits(entries)}
        trees = Trees(mirrored=not self.rows)
        nodes: dict[int, int] = {}
        leaves: dict[tuple[int, int], int] = {}
        for r, root in enumerate(graph.roots):
            self._deadline.check()
            for t, terminal in enumerate(graph.terminals):
                tree = ((r if self.rows else 0) * self.columns + (t if self.terminals else 0)) * count
                v, below = terminal if self.rows else root, _ABSENT
                while (e := edges.get(tree + v, _ABSENT)) != _ABSENT:
                    existing = nodes.get(tree + v)
                    node = nodes[tree + v] = trees.add(self.labels[e]) if existing is None else existing
                    if below == _ABSENT:
                        leaves[r, t] = node
                    else:
                        trees.hang(below, node)
                    if existing is not None:
                        break
                    v, below = near[e], node
        trees.multiply(list(leaves.values()), self._product)
        return Accumulation(graph, self.steps, {pair: trees.labels[leaf] for pair, leaf in leaves.items()})

    def _entries_of_edges(self) -> Callable[[int, int], int]:
        """Return a function of an edge's ends that returns the bit set of selected entries with paths through both."""
        graph, ones = self.graph, [1] * len(self.graph.vertices)
        ranges = index_ranges(graph) if self.rows else ones
        domains = index_domains(graph) if self.terminals else ones
        if graph.selected is None:
            spread = {rows: self._spread(rows) for rows in set(ranges)}
            return lambda j, i: spread[ranges[j]] * domains[i]
        # also check the side that is not distinguished: each edge of a row leads to a selected terminal of the row
        all_rows, all_terminals = index_ranges(graph), index_domains(graph)
        requested = [
            (1 << (r if self.rows else 0) * self.columns + (t if self.terminals else 0), 1 << r, 1 << t)
            for r, t in graph.selected.tolist()
        ]

        @cache
        def entries(rows: int, terminals: int) -> int:
            return reduce(or_, (entry for entry, row, terminal in requested if rows & row and terminals & terminal), 0)

        return lambda j, i: entries(all_rows[j], all_terminals[i])

    def _spread(self, rows: int) -> int:
        """Return the bit r·columns for every r in `rows`; times a bit set of columns this is the set of all pairs."""
        return sum(1 << r * self.columns for r in range(rows.bit_length()) if rows >> r & 1)

    def _rank(self, order: Order, b: int, c: int, count: int) -> tuple[int, int]:
        span = self.position[c] - self.position[b]
        return (-count, span) if order == "frequency" else (span, -count)

    def _edge(self, j: int, i: int, label: int, entries: int) -> int:
        e = len(self.labels)
        self.sources.append(j)
        self.targets.append(i)
        self.labels.append(label)
        self.entries.append(entries)
        for side, end in ((self.out[j], i), (self.into[i], j)):
            if self.is_end[end]:
                side.outer.setdefault(end, {})[e] = None
                side.union |= entries
            else:
                side.inner[e] = None
        return e

    def _occurrences(self, b: int, c: int) -> tuple[int, int]:
        """Return the entries in which [b,c] is a factor subgraph by dominance, and by postdominance."""
        above, below = self.dominated.get((b, c), 0), self.postdominated.get((b, c), 0)
        return (
            above & self._twice(self.into[c]) if above else 0,
            below & self._twice(self.out[b]) if below else 0,
        )

    def _twice(self, side: _Side) -> int:
        """Return the entries that at least two of the edges have."""
        once, twice = side.union, 0
        for e in side.inner:
            entries = self.entries[e]
            twice |= once & entries
            once |= entries
        return twice

    def _replace(self, b: int, c: int, above: int, below: int) -> None:
        into, out = self.into[c].edges(b), self.out[b].edges(c)
        made: dict[int, int] = {}
        rest = above | below
        while rest:
            self._deadline.check()
            edges, entries = self._form(b, c, rest, above)
            value = self._residue(b, c, edges)
            label = self._labels.get((b, c, value))
            if label is None:
                label = self._labels[b, c, value] = self._accumulate(b, c, edges)
            made[label] = made.get(label, 0) | entries
            rest &= ~entries
        upwards: dict[int, int] = {}
        downwards: dict[int, int] = {}
        for e in into if above else ():
            self._take(e, above, upwards, downwards)
        for e in out if below else ():
            self._take(e, below, upwards, downwards)
        for label, entries in made.items():
            self._edge(b, c, label, entries)
        while upwards or downwards:
            noted, near, far = (upwards, self.out, self.into) if upwards else (downwards, self.into, self.out)
            v, dead = noted.popitem()
            dead &= ~near[v].union
            for e in near[v].inner:
                if not dead:
                    break
                dead &= ~self.entries[e]
            if dead:
                end = b if far is self.into else c
                for e in far[v].edges(end if self.is_end[end] or not dead & far[v].union else None):
                    self._take(e, dead, upwards, downwards)

    def _take(self, e: int, entries: int, upwards: dict[int, int], downwards: dict[int, int]) -> None:
        """Remove an edge from some entries, and note the vertices that may have become dead ends, with the entries."""
        lost = self.entries[e] & entries
        if not lost:
            return
        self.entries[e] ^= lost
        j, i = self.sources[e], self.targets[e]
        for side, end in ((self.out[j], i), (self.into[i], j)):
            if self.is_end[end]:
                side.union ^= lost
                if not self.entries[e]:
                    del side.outer[end][e]
            elif not self.entries[e]:
                del side.inner[e]
        if not self.is_end[j]:
            upwards[j] = upwards.get(j, 0) | lost
        if not self.is_end[i]:
            downwards[i] = downwards.get(i, 0) | lost

    def _form(self, b: int, c: int, entries: int, above: int) -> tuple[list[int], int]:
        """Return the edges of [b,c] in the first of the entries, and the entries in which it has the same edges."""
        one = entries & -entries
        upwards = bool(one & above)
        same = entries & above if upwards else entries & ~above
        edges = []
        pending = [c if upwards else b]
        seen = {b, c}
        while pending:
            v = pending.pop()
            side = self.into[v] if upwards else self.out[v]
            if not side.union & one:
                same &= ~side.union
            for e in side.edges(b if upwards else c):
                if self.entries[e] & one:
                    same &= self.entries[e]
                    edges.append(e)
                    end = self.sources[e] if upwards else self.targets[e]
                    if end not in seen:
                        seen.add(end)
                        pending.append(end)
                elif same != one:
                    same &= ~self.entries[e]
        edges.sort(key=lambda e: (self.position[self.sources[e]], self.position[self.targets[e]]))
        return edges, same

    def _accumulate(self, b: int, c: int, edges: list[int]) -> int:
        """Return the reference of the sum over paths from b to c, from the side with fewer products."""
        sources, targets, labels = self.sources, self.targets, self.labels
        from_source = sum(sources[e] != b for e in edges) <= sum(targets[e] != c for e in edges)
        values: dict[int, int] = {}
        for e in edges if from_source else reversed(edges):
            if from_source:
                term, v = labels[e] if sources[e] == b else self._product(values[sources[e]], labels[e]), targets[e]
            else:
                term, v = labels[e] if targets[e] == c else self._product(labels[e], values[targets[e]]), sources[e]
            values[v] = term if v not in values else self._add(values[v], term)
        return values[c if from_source else b]

    def _residue(self, b: int, c: int, edges: list[int]) -> int:
        """Return the residue of the sum over paths from b to c."""
        values = {b: 1}
        for e in edges:
            i = self.targets[e]
            values[i] = (values.get(i, 0) + values[self.sources[e]] * self._residues[self.labels[e]]) % PRIME
        return values[c]

    def _add(self, left: int, right: int) -> int:
        result = self.steps.sum(left, right)
        if result == len(self._residues):
            self._residues.append((self._residues[left] + self._residues[right]) % PRIME)
        return result

    def _product(self, left: int, right: int) -> int:
        result = self.steps.product(left, right)
        if result == len(self._residues):
            self._residues.append(self._residues[left] * self._residues[right] % PRIME)
        return result


def _bits(entries: int) -> Iterator[int]:
    """Yield the positions of the bits that are set."""
    size = (entries.bit_length() + 7) // 8
    bits = np.unpackbits(np.frombuffer(entries.to_bytes(size, "little"), np.uint8), bitorder="little")
    yield from bits.nonzero()[0].tolist()


@register_method("dstar", seconds=lambda work: 7e-6 * (work.forward + work.reverse) + 4e-6 * work.edges)
def _method(graph: DifferentiationGraph, context: Context) -> SearchResult:
    return SearchResult(graph, "dstar", _accumulation=dstar(graph, deadline=context))
