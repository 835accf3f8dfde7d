"""Chains and blocks, simple and complex: the notes' definitions 3.1 to 3.3, decided for any graph.

`decompose` finds all of them as a tree: series (chains), parallels (blocks), edges, and cores, the parts of complex
blocks that no composition explains. It reduces chains and parallel edges (`accumulus.theory.graphs.series_parallel`),
then replaces what is left of each region, from the smallest to the largest (`accumulus.theory.graphs.regions`): O(edges
· log edges) time, O(edges) memory. `block` decides definition 3.1 for one pair of vertices, within the same bound.

How the definitions are read:

* A block b⟨v_i,v_j⟩ has two paths that share no vertex between v_i and v_j; two parallel edges are such paths. Its
  intermediate vertices have no edge to or from the outside, but v_i and v_j may have any others.
* Definition 3.1 wants *all* paths from v_i to v_j in the block. `decompose` also finds parts that are as closed as
  blocks but have siblings that are not (one more path from v_i to v_j, out of which another edge leads): they are as
  good to calculate with. `Decomposition.blocks` leaves them out. Telling them apart is a question of reachability,
  for which no near-linear method is known when it is asked for many pairs; see there.
* A chain is a path all of whose intermediate vertices have one incoming and one outgoing edge, once every block inside
  it has been replaced by an edge. The block between the chain's own ends is not replaced: it may hold the chain.
* Definition 3.3 wants *every* outgoing edge of v_i in a simple block. Taken in the whole graph, a block out of whose
  source another edge leads would be complex for that reason only. Here a block is looked at as a graph of its own, as
  the notes do in the sentence after definition 3.1: it is simple if it is series-parallel.
  `Decomposition.owns_source` says whether the stricter reading holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final

from accumulus.graph.derive import vertex_numbers
from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.graphs.regions import regions
from accumulus.theory.graphs.series_parallel import Part, Reduction, Shape
from accumulus.theory.graphs.traversal import reached, topological

__all__ = ["Block", "Decomposition", "Part", "Shape", "block", "block_degrees", "decompose"]

#: Pairs whose reachability is decided in one pass, as bits of one integer for each vertex.
BATCH: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class Block:
    """The block b⟨source,sink⟩ of definition 3.1: everything on the paths from its source to its sink."""

    source: int
    sink: int
    #: All vertices and edges of the block, source and sink included, ascending.
    vertices: tuple[int, ...]
    edges: tuple[int, ...]
    #: The block taken apart.
    part: Part

    @property
    def simple(self) -> bool:
        """Whether the block is series-parallel: a subexpression in parentheses stands for it."""
        return self.part.simple


@dataclass(frozen=True)
class Decomposition:
    """A graph as a tree of chains, blocks and cores; made by `decompose`."""

    graph: DifferentiationGraph
    #: What is left between the vertices that no part could swallow, by first edges. A single part if the whole graph is
    #: a chain or block from its root to its terminal.
    parts: tuple[Part, ...]
    kept: frozenset[int] = field(default_factory=frozenset)

    def walk(self) -> Iterator[Part]:
        """All parts at all depths, outer ones before those nested in them."""
        for part in self.parts:
            yield from part.walk()

    @property
    def simple(self) -> bool:
        """Whether the whole graph is one edge, simple chain or simple block: one nested expression stands for it."""
        return len(self.parts) == 1 and self.parts[0].simple

    def chains(self) -> tuple[Part, ...]:
        """Every longest chain, outer ones first; any two or more neighbouring links of one are a chain as well."""
        return tuple(part for part in self.walk() if part.is_chain)

    def blocks(self) -> tuple[Part, ...]:
        """Every block of definition 3.1, outer ones first.

        A part that is the only one between its ends in its surroundings is a block if no other path leads from its
        source to its sink. That is clear where one of the two has a single edge there; the other cases are looked up
        together, `BATCH` at a time, in O(cases · edges / 64).
        """
        incomplete = self._incomplete
        return tuple(part for part in self.walk() if part.is_block and part not in incomplete)

    def is_complete(self, part: Part) -> bool:
        """Whether a block-like part holds all paths from its source to its sink, as definition 3.1 wants."""
        return part not in self._incomplete

    def owns_source(self, part: Part) -> bool:
        """Whether every outgoing edge of the part's source is in the part, as definition 3.3 says literally."""
        inside = set(part.edges)
        return inside.issuperset(self.graph.out_edges[part.source])

    def between(self, source: int, sink: int) -> tuple[Part, ...]:
        """All parts from one vertex to another, stretches of longer chains included, in the order of their edges.

        Raises:
            GraphError: for a number that is not a vertex of the graph.

        >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")])
        >>> decompose(graph).between(1, 3)
        (Part(direct simple chain ⟨1,3⟩, 2 edges),)
        """
        vertex_numbers(self.graph, (source, sink))
        found = list(self._by_ends.get((source, sink), ()))
        for chain, first in self._links_from.get(source, ()):
            ends = {chain.children[k].sink: k + 1 for k in range(first, len(chain.children))}
            last = ends.get(sink)
            if last is not None and 1 < last - first < len(chain.children):
                found.append(_stretch(chain.children[first:last]))
        return tuple(sorted(found, key=lambda part: (part.edges, part.shape.value)))

    @cached_property
    def _by_ends(self) -> dict[tuple[int, int], list[Part]]:
        found: dict[tuple[int, int], list[Part]] = {}
        for part in self.walk():
            found.setdefault((part.source, part.sink), []).append(part)
        return found

    @cached_property
    def _links_from(self) -> dict[int, list[tuple[Part, int]]]:
        found: dict[int, list[tuple[Part, int]]] = {}
        for chain in self.chains():
            for position, link in enumerate(chain.children):
                found.setdefault(link.source, []).append((chain, position))
        return found

    @cached_property
    def _incomplete(self) -> frozenset[Part]:
        """Block-like parts with another path from source to sink around them."""
        found = {
            strand
            for part in self.walk()
            if part.shape is Shape.PARALLEL
            for strand in part.children
            if strand.is_block
        }
        found.update(_bypassed(self.parts))
        for part in self.walk():
            if part.shape is Shape.CORE:
                found.update(_bypassed(part.children))
        return frozenset(found)


def decompose(graph: DifferentiationGraph, keep: Iterable[int] = ()) -> Decomposition:
    """Take a graph apart into chains, blocks and cores, nested in each other.

    All edges of the graph count, also those that lead to no terminal.

    Args:
        keep: intermediate vertices that must stay outside of all parts. Roots and terminals always do.

    Raises:
        GraphError: if `keep` names a number that is not a vertex of the graph.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x")])
    >>> (chain,) = decompose(graph).parts
    >>> chain, chain.children
    (Part(indirect simple chain ⟨0,4⟩, 5 edges), (Part(direct simple block ⟨0,3⟩, 4 edges), Part(edge ⟨3,4⟩, 1 edges)))
    """
    kept = frozenset(vertex_numbers(graph, keep))
    return Decomposition(graph, _reduced(graph, range(len(graph.sources)), kept), kept)


def block(graph: DifferentiationGraph, source: int, sink: int) -> Block | None:
    """The block from one vertex to another, or None if they bound none: definition 3.1, literally.

    Raises:
        GraphError: for a number that is not a vertex of the graph.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x")])
    >>> block(graph, 0, 3).simple, block(graph, 0, 4)
    (True, None)
    """
    vertex_numbers(graph, (source, sink))
    sources: list[int] = graph.sources.tolist()
    targets: list[int] = graph.targets.tolist()
    inside = reached([source], lambda v: [targets[e] for e in graph.out_edges[v]])
    inside &= reached([sink], lambda v: [sources[e] for e in graph.in_edges[v]])
    if source == sink or not inside:
        return None
    edges = sorted(e for v in inside for e in graph.out_edges[v] if targets[e] in inside)
    for v in inside - {source, sink}:
        if not inside.issuperset(sources[e] for e in graph.in_edges[v]):
            return None
        if not inside.issuperset(targets[e] for e in graph.out_edges[v]):
            return None
    (part,) = _reduced(graph, edges, frozenset())
    return Block(source, sink, tuple(sorted(inside)), tuple(edges), part) if part.is_block else None


def block_degrees(graph: DifferentiationGraph) -> tuple[list[int], list[int]]:
    """In- and out-degrees of all vertices, each simple block that does not hold the vertex inside counting as one edge.

    In the notes the degrees that factorization goes by (section 4). Simple parts that are as closed as blocks, but have
    siblings that are not, count as one edge, too.

    Returns:
        In-degrees and out-degrees by vertex.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x")])
    >>> block_degrees(graph)
    ([0, 1, 1, 1, 1], [1, 1, 1, 1, 0])
    """
    decomposition = decompose(graph)
    into = [0] * len(graph.vertices)
    out = [0] * len(graph.vertices)
    widths: dict[Part, tuple[int, int]] = {}
    for part in reversed(list(decomposition.walk())):
        widths[part] = _widths(part, widths)
        if part.shape is Shape.SERIES:
            for above, below in pairwise(part.children):
                into[above.sink] += widths[above][1]
                out[below.source] += widths[below][0]
        elif part.shape is Shape.CORE:
            for member in part.children:
                if member.source != part.source:
                    out[member.source] += widths[member][0]
                if member.sink != part.sink:
                    into[member.sink] += widths[member][1]
    for part in decomposition.parts:
        out[part.source] += widths[part][0]
        into[part.sink] += widths[part][1]
    return into, out


def _reduced(graph: DifferentiationGraph, edges: Iterable[int], kept: frozenset[int]) -> tuple[Part, ...]:
    reduction = Reduction(graph, edges, kept)
    for region in regions(reduction.out, reduction.into, kept):
        reduction.collapse(region.entry, region.exit, region.seed)
    return reduction.parts()


def _widths(part: Part, widths: dict[Part, tuple[int, int]]) -> tuple[int, int]:
    """How many edges a part counts as at its source and at its sink."""
    if part.simple:
        return 1, 1
    if part.shape is Shape.SERIES:
        return widths[part.children[0]][0], widths[part.children[-1]][1]
    if part.shape is Shape.PARALLEL:
        together = int(any(strand.simple for strand in part.children))
        complex_ = [widths[strand] for strand in part.children if not strand.simple]
        return together + sum(w[0] for w in complex_), together + sum(w[1] for w in complex_)
    return (
        sum(widths[member][0] for member in part.children if member.source == part.source),
        sum(widths[member][1] for member in part.children if member.sink == part.sink),
    )


def _stretch(links: tuple[Part, ...]) -> Part:
    """Neighbouring links of a chain as a chain of their own."""
    return Part(
        Shape.SERIES,
        links[0].source,
        links[-1].sink,
        links,
        size=sum(link.size for link in links),
        simple=all(link.simple for link in links),
        direct=all(link.shape is Shape.EDGE for link in links),
    )


def _bypassed(parts: Sequence[Part]) -> list[Part]:
    """Of parts that are the edges of a graph, the block-like ones past which another path leads to their sink."""
    out: dict[int, list[Part]] = {}
    into: dict[int, list[Part]] = {}
    for part in parts:
        for v in (part.source, part.sink):
            out.setdefault(v, [])
            into.setdefault(v, [])
        out[part.source].append(part)
        into[part.sink].append(part)
    order = topological({v: len(above) for v, above in into.items()}, lambda v: [part.sink for part in out[v]])
    asked = [part for part in parts if part.is_block and len(out[part.source]) > 1 and len(into[part.sink]) > 1]
    found = []
    for start in range(0, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        bits = dict.fromkeys(order, 0)
        for k, part in enumerate(batch):
            for other in out[part.source]:
                if other is not part:
                    bits[other.sink] |= 1 << k
        for v in order:
            if bits[v]:
                for part in out[v]:
                    bits[part.sink] |= bits[v]
        found += [part for k, part in enumerate(batch) if bits[part.sink] >> k & 1]
    return found
