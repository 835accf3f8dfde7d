"""Symmetric elimination: a vertex and its mirror are removed together, and of what arises twice one is computed.

In a graph with a mirror, values depend on values by a (a_ki = ∂v_k/∂v_i), adjoints on adjoints by the same labels
mirrored, and adjoints on values by a symmetric matrix h. Eliminating v_k and its adjoint leaves, for dependents j and
arguments i, m of v_k:

    a_ji += a_jk · a_ki
    h_im += a_ki · h_km + h_ki · a_km + a_ki · h_kk · a_km      for i ≤ m, and h_mi is h_im

With b_m = h_km + h_kk · a_km the last line is a_ki · b_m + h_ki · a_km: one product where h_ki is 0, so i is the one of
the two of which it is, if there is one. Products with ±1 are free, so among equals that one of which a is ±1. From the
last operation to the first, where h_ki is mostly 0, this is edge pushing (Gower and Mello 2012). Every other order
leaves the same Hessian.

What is left at last are the entries of the lower triangle.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.errors import OrderError
from accumulus.graph.graph import DifferentiationGraph, Kind, mirrored_edges

__all__ = ["SymmetricGraph", "eliminate_pairs"]


class SymmetricGraph:
    """The half of a graph with a mirror that says all: values, and how adjoints depend on them.

    Args:
        graph: with a mirror; taken without what is on no path to a wanted entry.

    Attributes:
        arguments: for each value what it depends on, with the reference of the edge.
        dependents: for each value the values that depend on it.
        crossing: h, for each value the values on which its adjoint depends, with references; symmetric.
    """

    def __init__(self, graph: DifferentiationGraph) -> None:
        assert graph.mirror is not None
        self.graph = graph
        count = len(graph.vertices)
        self.arguments: list[dict[int, int]] = [{} for _ in range(count)]
        self.dependents: list[dict[int, None]] = [{} for _ in range(count)]
        self.crossing: list[dict[int, int]] = [{} for _ in range(count)]
        mirror, is_value = graph.mirror.tolist(), self.values
        own = np.minimum(np.arange(len(graph.sources)), mirrored_edges(graph)).tolist()
        for e in graph.live_edges.nonzero()[0].tolist():
            j, i = int(graph.sources[e]), int(graph.targets[e])
            if is_value[j]:
                self.arguments[j][i] = own[e]
                self.dependents[i][j] = None
            elif is_value[i]:
                self.crossing[mirror[j]][i] = own[e]

    @cached_property
    def values(self) -> list[bool]:
        """Which vertex of each pair is the value: no value depends on an adjoint.

        That is the one of the lower number, as `linearize_gradient` numbers them; where that will not do, the one from
        which the way to a terminal is shorter.
        """
        graph = self.graph
        assert graph.mirror is not None
        first = np.arange(len(graph.vertices)) < graph.mirror
        if first[list(graph.terminals)].all() and not (first[graph.sources] & ~first[graph.targets]).any():
            return first.tolist()  # type: ignore[no-any-return]
        below = [0] * len(graph.vertices)
        sources, targets = (ends.tolist() for ends in graph.edges_in_order)
        for j, i in zip(sources, targets, strict=True):
            below[j] = max(below[j], below[i] + 1)
        ends = {v: (-1, v) for v in graph.terminals}
        key = [ends.get(v, (length, v)) for v, length in enumerate(below)]
        return [key[v] < key[m] for v, m in enumerate(graph.mirror.tolist())]

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """Values that are eliminated, each after what it depends on."""
        ends = set(self.graph.terminals)
        return tuple(v for v in self.graph.topological_order if self.values[v] and v not in ends)


def eliminate_pairs(graph: DifferentiationGraph, order: Sequence[int]) -> Accumulation:
    """Eliminate the values of a graph with a mirror in the given order, each with its adjoint.

    Args:
        order: every value of `SymmetricGraph.inner` once, by number.

    Raises:
        OrderError: if the order leaves a value out, names one twice, or one that is not there.
    """
    state = SymmetricGraph(graph)
    if sorted(order) != sorted(state.inner):
        raise OrderError(f"the order is {order!r:.60}; expected every value that is no terminal once")
    steps = Steps(len(graph.sources))
    arguments, dependents, crossing = state.arguments, state.dependents, state.crossing
    units = {*np.flatnonzero(np.isin(graph.kinds, (Kind.ONE, Kind.MINUS_ONE))).tolist()}

    def add(row: dict[int, int], column: int, reference: int) -> None:
        row[column] = steps.sum(row[column], reference) if column in row else reference

    for k in order:
        below, above, across = arguments[k], dependents[k], crossing[k]
        arguments[k], dependents[k], crossing[k] = {}, {}, {}
        own = across.pop(k, None)
        for i in below:
            del dependents[i][k]
        for m in across:
            del crossing[m][k]
        for j in above:
            a_jk = arguments[j].pop(k)
            for i, a_ki in below.items():
                filled = steps.product(a_jk, a_ki)
                if a_jk in units and a_ki in units:
                    units.add(filled)
                add(arguments[j], i, filled)
                dependents[i][j] = None

        # h_km + h_kk · a_km
        whole = {m: across[m] for m in below if m in across}
        if own is not None:
            for m, a_km in below.items():
                add(whole, m, steps.product(own, a_km))
        # of a pair the first is i, the second m: first those of which h_ki is 0, of these first where a_ki is ±1
        turn = sorted(below, key=lambda i: (i in across, below[i] not in units))
        for at, i in enumerate(turn):
            for m in turn[at:]:
                found: dict[int, int] = {}
                if i == m:
                    if i in whole:
                        twice = steps.sum(whole[i], across[i]) if i in across else whole[i]
                        add(found, i, steps.product(below[i], twice))
                else:
                    if m in whole:
                        add(found, i, steps.product(below[i], whole[m]))
                    if i in across:
                        add(found, i, steps.product(below[m], across[i]))
                if found:
                    add(crossing[i], m, found[i])
                    crossing[m][i] = crossing[i][m]
        for m, h_km in across.items():
            if m not in below:
                for i, a_ki in below.items():
                    add(crossing[m], i, steps.product(h_km, a_ki))
                    crossing[i][m] = crossing[m][i]

    entries = {
        (row, column): crossing[i][m]
        for row, i in enumerate(graph.terminals)
        for column, m in enumerate(graph.terminals[: row + 1])
        if m in crossing[i]
    }
    return Accumulation(graph, steps, entries).wanted()
