"""Vertex elimination: remove intermediate vertices one by one, joining what depended on each to what it depended on.

Eliminating k replaces each pair of edges ⟨j,k⟩, ⟨k,i⟩ by c_ji += c_jk · c_ki, |P_k|·|S_k| products at a time
(Griewank and Reese 1991). When all intermediates are gone the edges that remain are the Jacobian. The order
decides the cost; the graph after a set of vertices is gone does not depend on their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.errors import OrderError
from accumulus.graph.graph import DifferentiationGraph

__all__ = ["check_order", "eliminate_vertices"]


def eliminate_vertices(graph: DifferentiationGraph, order: Sequence[int]) -> Accumulation:
    """Eliminate the intermediates of `graph` in the given order.

    Args:
        order: every intermediate vertex once, by number.

    Raises:
        OrderError: if the order leaves a vertex out, names one twice, or one that is not an intermediate.

    Time and memory are linear in the edges and the steps.
    """
    check_order(graph, order)
    steps = Steps(len(graph.sources))
    successors: list[dict[int, int]] = [{} for _ in graph.vertices]
    predecessors: list[set[int]] = [set() for _ in graph.vertices]
    for e in graph.live_edges.nonzero()[0].tolist():
        j, i = int(graph.sources[e]), int(graph.targets[e])
        known = successors[j].get(i)
        successors[j][i] = e if known is None else steps.sum(known, e)
        predecessors[i].add(j)

    for k in order:
        # sorted, so that a plan does not depend on how a set happens to be laid out
        for j in sorted(predecessors[k]):
            row = successors[j]
            c_jk = row.pop(k)
            for i, c_ki in successors[k].items():
                product = steps.product(c_jk, c_ki)
                known = row.get(i)
                if known is None:
                    row[i] = product
                    predecessors[i].add(j)
                else:
                    row[i] = steps.sum(known, product)
        for i in successors[k]:
            predecessors[i].discard(k)
        successors[k] = {}

    column = {terminal: position for position, terminal in enumerate(graph.terminals)}
    entries = {
        (position, column[i]): reference
        for position, root in enumerate(graph.roots)
        for i, reference in sorted(successors[root].items(), key=lambda item: column[item[0]])
    }
    return Accumulation(graph, steps, entries)


def check_order(graph: DifferentiationGraph, order: Sequence[int]) -> None:
    """Raise `OrderError` unless the order names every intermediate vertex once."""
    expected = set(graph.intermediates)
    for vertex, count in Counter(order).items():
        if vertex not in expected:
            name = graph.vertices[vertex] if vertex in range(len(graph.vertices)) else vertex
            raise OrderError(f"the order names {name!r}, which is not an intermediate vertex of the graph")
        if count > 1:
            raise OrderError(f"the order names {graph.vertices[vertex]!r} {count} times; expected every vertex once")
    missing = expected.difference(order)
    if missing:
        names = ", ".join(repr(graph.vertices[v]) for v in sorted(missing)[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise OrderError(f"the order leaves out {names}{more}; expected every intermediate vertex once")
