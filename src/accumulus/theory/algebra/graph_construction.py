"""Graphs from expressions, and the expressions of simple graphs (the notes, section "Factorization and Conversion").

`shared_graph` takes each symbol for one edge. Where two labels are multiplied, the first ends where the second
starts; the terms of a sum start and end at the same vertices; an entry runs from its root to its terminal. Merging
what must be the same vertex (union-find) leaves the graph that the expressions were made from, if there is one:
every face of a graph stands as neighbours, directly or through parentheses, in every set that computes its
Jacobian, and no set puts labels next to each other that do not meet. That the result has exactly these path sums
is checked at the end. Near-linear time.

`split_graph` constructs what is written: a product is a chain, a sum a block, and a symbol that stands twice is an edge
that is there twice, as the notes draw factorized graphs. It is simple by construction.

`simple_accumulation` goes the other way: a vertex with one edge in and one out is a product, two parallel edges are
a sum (series-parallel reduction, linear time). If that eats up every intermediate vertex the graph is simple.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.edge import EdgeElimination
from accumulus.errors import ExpressionError
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.theory.algebra.expression import (
    Expression,
    Product,
    Reference,
    Sum,
    Symbol,
    natural,
    operands,
    postorder,
)
from accumulus.theory.algebra.matching import match
from accumulus.theory.algebra.names import fresh_names
from accumulus.theory.graphs.traversal import Classes, eliminate_series, topological

if TYPE_CHECKING:
    from accumulus.theory.algebra.sets import ExpressionSet

__all__ = ["shared_graph", "simple_accumulation", "split_graph"]

_LARGEST: Final = 10_000_000


def shared_graph(expressions: ExpressionSet) -> DifferentiationGraph:
    """The graph in which each symbol is one edge; see `ExpressionSet.to_graph`.

    A root that also starts what follows other edges, or that shares its vertex with another root, gets a vertex of
    its own with a unit edge, likewise a terminal.
    """
    same = Classes()
    ends: dict[Expression, tuple[int, int]] = {}

    def children(node: Expression) -> tuple[Expression, ...]:
        return (expressions.references[node.name],) if isinstance(node, Reference) else operands(node)

    for node in postorder(expressions.entries.values(), children):
        parts = [ends[part] for part in children(node)]
        if isinstance(node, Symbol):
            ends[node] = (same.new(), same.new())
        elif isinstance(node, Product):
            for (_, end), (start, _) in pairwise(parts):
                same.merge(end, start)
            ends[node] = (parts[0][0], parts[-1][1])
        else:
            for start, end in parts[1:]:
                same.merge(parts[0][0], start)
                same.merge(parts[0][1], end)
            ends[node] = parts[0]
    outer: list[dict[Hashable, int]] = [{}, {}]
    for key, expression in expressions.entries.items():
        for side in (0, 1):
            same.merge(outer[side].setdefault(key[side], ends[expression][side]), ends[expression][side])

    symbols = sorted((node for node in ends if isinstance(node, Symbol)), key=lambda node: natural(node.name))
    edges: list[list[Any]] = [[same.find(ends[node][0]), same.find(ends[node][1]), node.name] for node in symbols]
    _refuse_cycle(edges)
    fresh = fresh_names("v", {str(name) for side in outer for name in side})
    names: dict[int, Hashable] = {}
    for side, inner in enumerate(({target for _, target, _ in edges}, {source for source, _, _ in edges})):
        shared = [same.find(start) for start in outer[side].values()]
        for name, vertex in zip(outer[side], shared, strict=True):
            if vertex in inner or shared.count(vertex) > 1:
                unit: list[Any] = [same.new(), same.new()]
                unit[1 - side] = vertex
                names[unit[side]] = name
                edges.append([*unit, Kind.ONE])
            else:
                names[vertex] = name
    triples = []
    for source, target, label in edges:
        for vertex in (source, target):
            if vertex not in names:
                names[vertex] = next(fresh)
        triples.append((names[source], names[target], label))
    graph = DifferentiationGraph(triples, list(outer[0]), list(outer[1]))
    try:
        match(expressions, graph)
    except ExpressionError as error:
        raise ExpressionError(
            f"no graph in which each label is one edge has these path sums: with what is multiplied joined, {error}"
        ) from None
    return graph


def split_graph(expressions: ExpressionSet) -> DifferentiationGraph:
    """The graph in which every place of a symbol or reference is an edge; see `ExpressionSet.to_graph`."""
    roots = dict.fromkeys(root for root, _ in expressions.entries)
    terminals = dict.fromkeys(terminal for _, terminal in expressions.entries)
    if expressions.multiplications > _LARGEST:
        raise ExpressionError(f"more than {_LARGEST} products are written; expected fewer, to draw each")
    fresh = fresh_names("v", {str(name) for name in (*roots, *terminals)})
    edges: list[tuple[Hashable, Hashable, str]] = []
    for (root, terminal), entry in expressions.entries.items():
        stack: list[tuple[Expression, Hashable, Hashable]] = [(entry, root, terminal)]
        while stack:
            expression, source, target = stack.pop()
            if isinstance(expression, Product):
                corners = [source, *(next(fresh) for _ in expression.factors[1:]), target]
                stack += reversed(list(zip(expression.factors, corners, corners[1:], strict=False)))
            elif isinstance(expression, Sum):
                stack += ((term, source, target) for term in reversed(expression.terms))
            else:
                assert isinstance(expression, (Symbol, Reference))
                edges.append((source, target, expression.name))
    return DifferentiationGraph(edges, list(roots), list(terminals))


def simple_accumulation(graph: DifferentiationGraph) -> Accumulation:
    """The accumulation of a simple graph, from inside out; see `ExpressionSet.from_graph`."""
    elimination = EdgeElimination(graph)
    eliminate_series(elimination)
    P, S = elimination.predecessors, elimination.successors
    left = next((v for v in graph.intermediates if S[v]), None)
    if left is not None:
        raise ExpressionError(
            f"vertex {graph.vertices[left]!r} keeps {len(P[left])} edges in and {len(S[left])} out when all simple "
            "chains and blocks are one edge each: expected a simple graph. Of other graphs, take the expressions of "
            "any accumulation: ExpressionSet.from_accumulation(…)"
        )
    return elimination.finish()


def _refuse_cycle(edges: Iterable[list[Any]]) -> None:
    """Raise ExpressionError naming the labels along a cycle."""
    out: dict[int, list[tuple[int, str]]] = {}
    for source, target, label in edges:
        out.setdefault(source, []).append((target, label))
        out.setdefault(target, [])
    waiting = {v: len(below) for v, below in out.items()}
    above: dict[int, list[int]] = {v: [] for v in out}
    for v, below in out.items():
        for target, _ in below:
            above[target].append(v)
    left = set(out).difference(topological(waiting, above.__getitem__))
    if left:
        v, path = min(left), dict[int, str]()
        while v not in path:
            target, path[v] = next((target, label) for target, label in out[v] if target in left)
            v = target
        cycle = [path[u] for u in list(path)[list(path).index(v) :]]
        raise ExpressionError(f"no graph has these path sums: the labels {' → '.join([*cycle, cycle[0]])} form a cycle")
