"""Strands: what runs between two vertices of a simple graph, as a tree of labels, chains, blocks and references.

A strand is an edge, a chain of two strands through a vertex, a block of two strands between the same ends, or a
reference: a strand that has a name and is computed once, however often it is used. Everything else is computed
where it stands; so a strand that stands in several places without a reference costs several times, and is drawn
several times, like a subexpression that is written out again (the notes, section 4). All walks are iterative:
chains may be long.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from accumulus.elimination.accumulation import Steps
from accumulus.graph.graph import DifferentiationGraph, Kind

__all__ = ["Strand", "StrandShape", "block", "chain", "draw", "edge_strand", "evaluate", "reference"]


class StrandShape(Enum):
    """How a strand is put together."""

    EDGE = "edge"
    CHAIN = "chain"
    BLOCK = "block"
    REFERENCE = "reference"


@dataclass(slots=True, eq=False, repr=False)
class Strand:
    """A strand, not to be changed; equal only to itself. (Not frozen: that makes construction several times slower.)"""

    shape: StrandShape
    #: Parts of a chain from source to sink, of a block in the order of their making; what a reference stands for.
    parts: tuple[Strand, ...] = ()
    #: Edge of the graph, of an edge; vertex between the parts, of a chain; number from 1, of a reference.
    number: int = 0
    #: Labels that are written out.
    size: int = 1


def edge_strand(edge: int) -> Strand:
    """A strand that is an edge of the graph."""
    return Strand(StrandShape.EDGE, (), edge)


def chain(first: Strand, second: Strand, through: int) -> Strand:
    """Two strands one after the other, through a vertex."""
    return Strand(StrandShape.CHAIN, (first, second), through, first.size + second.size)


def block(first: Strand, second: Strand) -> Strand:
    """Two strands side by side."""
    return Strand(StrandShape.BLOCK, (first, second), 0, first.size + second.size)


def reference(strand: Strand, number: int) -> Strand:
    """A name for a strand, so that it is computed once."""
    return Strand(StrandShape.REFERENCE, (strand,), number)


def evaluate(strands: Iterable[Strand], steps: Steps) -> list[int]:
    """Write the steps that compute the strands, innermost first; the references of their values."""
    known: dict[int, int] = {}
    results = []
    for strand in strands:
        pending: list[tuple[Strand, bool]] = [(strand, False)]
        values: list[int] = []
        while pending:
            top, ready = pending.pop()
            if top.shape is StrandShape.EDGE:
                values.append(top.number)
            elif top.shape is StrandShape.REFERENCE and top.number in known:
                values.append(known[top.number])
            elif not ready:
                pending.append((top, True))
                pending.extend((part, False) for part in reversed(top.parts))
            elif top.shape is StrandShape.REFERENCE:
                known[top.number] = values[-1]
            else:
                right, left = values.pop(), values.pop()
                join = steps.product if top.shape is StrandShape.CHAIN else steps.sum
                values.append(join(left, right))
        results.append(values[-1])
    return results


def draw(graph: DifferentiationGraph, strands: Iterable[tuple[int, int, Strand]]) -> DifferentiationGraph:
    """The graph of which strands (source, sink, strand) are made: copies of a vertex have primes, references are edges.

    Labels are the graph's symbols, or e1, e2, … by edge where a variable has none; references are s1, s2, ….
    """
    times: dict[int, int] = {}
    taken = set(map(str, graph.vertices))
    names: dict[int, Hashable] = {}

    def copy(v: int) -> Hashable:
        times[v] = times.get(v, -1) + 1
        if times[v] == 0:
            return graph.vertices[v]
        name = f"{graph.vertices[v]}{'′' * times[v]}"
        while name in taken:
            name += "′"
        taken.add(name)
        return name

    strands = list(strands)
    ends = {*graph.roots, *graph.terminals, *(v for j, i, _ in strands for v in (j, i))}
    for v in sorted(ends):
        names[v] = copy(v)
    edges: list[tuple[Hashable, Hashable, Any]] = []
    for j, i, strand in strands:
        pending = [(names[j], names[i], strand)]
        while pending:
            source, sink, top = pending.pop()
            if top.shape is StrandShape.EDGE:
                edges.append((source, sink, _label(graph, top.number)))
            elif top.shape is StrandShape.REFERENCE:
                edges.append((source, sink, f"s{top.number}"))
            elif top.shape is StrandShape.BLOCK:
                pending.extend((source, sink, part) for part in reversed(top.parts))
            else:
                middle = copy(top.number)
                pending += [(middle, sink, top.parts[1]), (source, middle, top.parts[0])]
    roots, terminals = ([graph.vertices[v] for v in side] for side in (graph.roots, graph.terminals))
    return DifferentiationGraph(edges, roots, terminals, name=graph.name)


def _label(graph: DifferentiationGraph, edge: int) -> Any:
    kind = Kind(int(graph.kinds[edge]))
    return graph.symbols[edge] or graph.constants.get(edge, f"e{edge + 1}" if kind is Kind.VARIABLE else kind)
