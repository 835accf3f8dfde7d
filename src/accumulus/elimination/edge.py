"""Edge elimination: remove edges one by one, joining each with all edges before or all edges after it.

An edge ⟨j,i⟩ with intermediate j is *front* eliminated by c_pi += c_pj · c_ji for every predecessor p of j; with
intermediate i it is *back* eliminated by c_js += c_ji · c_is for every successor s of i. Then the edge is gone, and
with it what it leaves without a way to a root or to a terminal (Naumann, Efficient calculation of Jacobian matrices
by optimized application of the chain rule, 1999; Griewank and Walther 2008, section 9.2). Front and back are those
of the flow of data, from the terminals to the roots, as in the literature; the edges themselves run the other way.

Eliminating vertex k is back-eliminating every edge into k, or front-eliminating every edge out of k:
`edges_of_vertex`, `edges_of_vertices`. Front-eliminating ⟨j,i⟩ is eliminating all faces into it in the line graph,
back-eliminating all faces out of it: `accumulus.elimination.face.faces_of_edges`. An eliminated edge may come back as
fill-in and is then eliminated again; every elimination replaces paths by shorter ones, so it ends. An elimination
takes time linear in its products.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.errors import OrderError
from accumulus.graph.graph import DifferentiationGraph

Side = Literal["front", "back"]


class EdgeElimination:
    """A graph whose edges are being eliminated.

    Args:
        steps: what products and sums are appended to; none are there so far.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "x")])
    >>> elimination = EdgeElimination(graph)
    >>> elimination.eliminate(0, 1, "back")
    >>> elimination.finish().entries
    {(0, 0): 2}
    """

    def __init__(self, graph: DifferentiationGraph, steps: Steps | None = None) -> None:
        self.graph = graph
        self.steps = Steps(len(graph.sources)) if steps is None else steps
        #: What each vertex depends on, and the reference of each edge's label.
        self.successors: list[dict[int, int]] = [{} for _ in graph.vertices]
        #: What depends on each vertex; a dict, so that its order is that in which edges came.
        self.predecessors: list[dict[int, None]] = [{} for _ in graph.vertices]
        self.intermediate = bytearray(len(graph.vertices))
        for k in graph.intermediates:
            self.intermediate[k] = 1
        for e in graph.live_edges.nonzero()[0].tolist():
            self._add(int(graph.sources[e]), int(graph.targets[e]), e)

    def edges(self) -> list[tuple[int, int]]:
        """The edges ⟨j,i⟩ that have an intermediate end."""
        ends = self.intermediate
        return [(j, i) for j, row in enumerate(self.successors) for i in row if ends[j] or ends[i]]

    def eliminate(self, j: int, i: int, side: Side) -> None:
        """Eliminate ⟨j,i⟩.

        Args:
            side: ``"front"`` joins it with the edges into j, ``"back"`` with the edges out of i.

        Raises:
            OrderError: if there is no such edge (any more), or its end on that side is a root or a terminal.
        """
        self.check_edge(j, i, side)
        c_ji = self.successors[j].pop(i)
        del self.predecessors[i][j]
        if side == "front":
            for p in self.predecessors[j]:
                self._add(p, i, self.steps.product(self.successors[p][j], c_ji))
        else:
            for s, c_is in self.successors[i].items():
                self._add(j, s, self.steps.product(c_ji, c_is))
        self._remove_dead(j, i)

    def check_edge(self, j: int, i: int, side: Side) -> None:
        """Raise OrderError unless ⟨j,i⟩ can be eliminated from that side."""
        if side not in ("front", "back"):
            raise OrderError(f"side {side!r}: expected 'front' (joined with the edges into its source) or 'back'")
        vertices = range(len(self.successors))
        if j not in vertices or i not in vertices or i not in self.successors[j]:
            raise OrderError(f"there is no edge {self._name(j, i)} to eliminate; expected one that is there by then")
        end = j if side == "front" else i
        if not self.intermediate[end]:
            kind = "a root" if side == "front" else "a terminal"
            raise OrderError(f"edge {self._name(j, i)} cannot be {side} eliminated: {self.vertex_name(end)} is {kind}")

    def vertex_name(self, v: int) -> str:
        """For messages: the name of a vertex, or its number where there is none."""
        return str(self.graph.vertices[v]) if v in range(len(self.graph.vertices)) else f"vertex number {v}"

    def finish(self) -> Accumulation:
        """The Jacobian, when no intermediate edge is left.

        Raises:
            OrderError: naming edges that are left.
        """
        left = self.edges()
        if left:
            names = ", ".join(self._name(j, i) for j, i in left[:5])
            more = f" and {len(left) - 5} more" if len(left) > 5 else ""
            raise OrderError(f"edges {names}{more} are left; expected a sequence that eliminates every inner edge")
        column = {terminal: position for position, terminal in enumerate(self.graph.terminals)}
        entries = {
            (position, column[i]): reference
            for position, root in enumerate(self.graph.roots)
            for i, reference in sorted(self.successors[root].items(), key=lambda item: column[item[0]])
        }
        return Accumulation(self.graph, self.steps, entries)

    def _add(self, j: int, i: int, reference: int) -> None:
        row = self.successors[j]
        known = row.get(i)
        if known is None:
            row[i] = reference
            self.predecessors[i][j] = None
        else:
            row[i] = self.steps.sum(known, reference)

    def _remove_dead(self, j: int, i: int) -> None:
        above, below = [j], [i]
        while above:
            v = above.pop()
            if self.intermediate[v] and not self.successors[v]:
                for p in self.predecessors[v]:
                    del self.successors[p][v]
                    above.append(p)
                self.predecessors[v] = {}
        while below:
            v = below.pop()
            if self.intermediate[v] and not self.predecessors[v]:
                for s in self.successors[v]:
                    del self.predecessors[s][v]
                    below.append(s)
                self.successors[v] = {}

    def _name(self, j: int, i: int) -> str:
        return f"⟨{self.vertex_name(j)},{self.vertex_name(i)}⟩"


def eliminate_edges(graph: DifferentiationGraph, sequence: Iterable[tuple[int, int, Side]]) -> Accumulation:
    """Eliminate edges in the given order.

    Args:
        sequence: triples (j, i, side) of vertex numbers and ``"front"`` or ``"back"``, until every intermediate
        vertex
            is gone. An edge that comes back as fill-in is named again.

    Raises:
        OrderError: if an edge is not there, cannot be eliminated from that side, or inner edges are left.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")])
    >>> len(eliminate_edges(graph, [(1, 2, "front"), (0, 2, "back")]).steps)
    2
    """
    elimination = EdgeElimination(graph)
    for j, i, side in sequence:
        elimination.eliminate(j, i, side)
    return elimination.finish()


def edges_of_vertex(elimination: EdgeElimination, k: int, side: Side = "back") -> list[tuple[int, int, Side]]:
    """The edge eliminations that together eliminate vertex k: all edges into it from the back, or all edges out of
    it from the front. Both make the same |P_k| · |S_k| products."""
    if side == "back":
        return [(j, k, "back") for j in elimination.predecessors[k]]
    return [(k, i, "front") for i in elimination.successors[k]]


def edges_of_vertices(
    graph: DifferentiationGraph, order: Sequence[int], side: Side = "back"
) -> list[tuple[int, int, Side]]:
    """The edge sequence that is the vertex elimination in the given order."""
    elimination = EdgeElimination(graph)
    sequence = []
    for k in order:
        for step in edges_of_vertex(elimination, k, side):
            elimination.eliminate(*step)
            sequence.append(step)
    return sequence
