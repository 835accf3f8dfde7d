"""Edge and face elimination: remove the edges of a graph, or of its line graph, individually.

**Edges.** If j is an intermediate, *front* elimination of the edge ⟨j,i⟩ does c_pi += c_pj · c_ji for every predecessor
p of j. If i is an intermediate, *back* elimination does c_js += c_ji · c_is for every successor s of i. Then the edge
is removed, and with it the vertices and edges that no longer lie on a path from a root to a terminal (Naumann,
Efficient calculation of Jacobian matrices by optimized application of the chain rule, 1999; Griewank and Walther 2008,
section 9.2). Front and back refer to the flow of data, from the terminals to the roots, as in the literature; the edges
run the other way.

To eliminate vertex k is to back-eliminate every edge into k, or to front-eliminate every edge out of k:
`edges_of_vertex`, `edges_of_vertices`. To front-eliminate ⟨j,i⟩ is to eliminate all faces into it in the line graph; to
back-eliminate it is to eliminate all faces out of it: `faces_of_edges`. An eliminated edge may return as fill-in and is
then eliminated again. Every elimination replaces paths by shorter ones, so the process ends. An elimination takes time
linear in its products.

**Faces.** The line graph has a vertex for every edge of the graph, for every root (without predecessors) and for every
terminal (without successors). Its edge ⟨i,j⟩, a *face*, is a pair of adjacent edges of a path, first i, then j. The
elimination of a face takes a single product. P_v and S_v are the predecessors and successors of v, c_v is its label.
The elimination of ⟨i,j⟩, where neither is a root or terminal, has four steps (Naumann 2003, p. 8; the notes, section
1):

1. if some k has P_k = P_i and S_k = S_j, then c_k += c_i c_j (absorption); else a vertex with P = P_i, S = S_j gets
   label c_i c_j (fill-in). If S_i = {j} the fill-in reuses i, if P_j = {i} it reuses j;
2. ⟨i,j⟩ is removed;
3. i is removed if it is isolated, else merged with the vertex that has the same P and S: their labels add up;
4. the same is done with j.

Here steps 3 and 4 run for every vertex whose P or S has changed, until nothing changes: the removal of an isolated
vertex also changes its neighbours, to which Naumann's rules do not apply these steps. Merges and removals keep the sum
over all paths and never add a product. So no two vertices ever have the same P and the same S.

The vertex k of rule 1 is looked up under a pair of Zobrist hashes (the exclusive or of one random 64-bit word for each
member of the set), which are updated whenever a member changes; the sets are then compared in full. The elimination of
⟨i,j⟩ takes O(|P_i| + |S_i| + |P_j| + |S_j|) time, plus time linear in the faces that it removes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import numpy as np

from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.errors import OrderError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.text import some_of

Side = Literal["front", "back"]


class EdgeElimination:
    """State of an edge elimination: the remaining edges and the steps so far.

    Args:
        graph: graph to eliminate; it is not changed.
        steps: empty steps to which the products and sums are appended; new ones by default.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "x")])
    >>> elimination = EdgeElimination(graph)
    >>> elimination.eliminate(0, 1, "back")
    >>> elimination.finish().entries
    {(0, 0): 2}
    """

    def __init__(self, graph: DifferentiationGraph, steps: Steps | None = None) -> None:
        self.graph = graph
        self.steps = Steps(len(graph.sources)) if steps is None else steps
        #: Successors of each vertex, with the references of the edges' labels.
        self.successors: list[dict[int, int]] = [{} for _ in graph.vertices]
        #: Predecessors of each vertex; dicts, which keep the order of insertion.
        self.predecessors: list[dict[int, None]] = [{} for _ in graph.vertices]
        self.intermediate = bytearray(len(graph.vertices))
        for k in graph.intermediates:
            self.intermediate[k] = 1
        for e in graph.live_edges.nonzero()[0].tolist():
            self._add(int(graph.sources[e]), int(graph.targets[e]), e)

    def edges(self) -> list[tuple[int, int]]:
        """Return the edges ⟨j,i⟩ with an intermediate end."""
        ends = self.intermediate
        return [(j, i) for j, row in enumerate(self.successors) for i in row if ends[j] or ends[i]]

    def eliminate(self, j: int, i: int, side: Side) -> None:
        """Eliminate ⟨j,i⟩.

        Args:
            j: source of the edge, by number.
            i: target of the edge, by number.
            side: ``"front"`` joins it with the edges into j, ``"back"`` with the edges out of i.

        Raises:
            OrderError: if the edge does not exist at this point, its end on that side is a root or a terminal, or the
                side is invalid.
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
            raise OrderError(
                f"there is no edge {self._name(j, i)} to eliminate; expected an edge that exists at this step"
            )
        end = j if side == "front" else i
        if not self.intermediate[end]:
            kind = "a root" if side == "front" else "a terminal"
            raise OrderError(f"edge {self._name(j, i)} cannot be {side} eliminated: {self.vertex_name(end)} is {kind}")

    def vertex_name(self, v: int) -> str:
        """Return the name of a vertex for messages, or its number if it has none."""
        return str(self.graph.vertices[v]) if v in range(len(self.graph.vertices)) else f"vertex number {v}"

    def finish(self) -> Accumulation:
        """Return the accumulation of the Jacobian, once no edge has an intermediate end.

        Raises:
            OrderError: if such edges remain; the message names them.
        """
        if left := self.edges():
            names = some_of(self._name(j, i) for j, i in left)
            raise OrderError(f"edges {names} are left; expected a sequence that eliminates every inner edge")
        entries = {(root, i): label for root in self.graph.roots for i, label in self.successors[root].items()}
        return Accumulation.between(self.graph, self.steps, entries)

    def _add(self, j: int, i: int, reference: int) -> None:
        row = self.successors[j]
        previous = row.get(i)
        if previous is None:
            row[i] = reference
            self.predecessors[i][j] = None
        else:
            row[i] = self.steps.sum(previous, reference)

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
        graph: graph to eliminate.
        sequence: triples (j, i, side) of vertex numbers and ``"front"`` or ``"back"``, until no edge has an
            intermediate end. An edge that returns as fill-in is named again.

    Raises:
        OrderError: if an edge does not exist, cannot be eliminated from that side, or inner edges remain.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")])
    >>> len(eliminate_edges(graph, [(1, 2, "front"), (0, 2, "back")]).steps)
    2
    """
    elimination = EdgeElimination(graph)
    for j, i, side in sequence:
        elimination.eliminate(j, i, side)
    return elimination.finish()


def edges_of_vertex(elimination: EdgeElimination, k: int, side: Side = "back") -> list[tuple[int, int, Side]]:
    """Return the edge eliminations that together eliminate vertex k.

    With side "back" these are all edges into k, with "front" all edges out of k. Both make |P_k| · |S_k| products.
    """
    if side == "back":
        return [(j, k, "back") for j in elimination.predecessors[k]]
    return [(k, i, "front") for i in elimination.successors[k]]


def edges_of_vertices(
    graph: DifferentiationGraph, order: Sequence[int], side: Side = "back"
) -> list[tuple[int, int, Side]]:
    """Return the sequence of edge eliminations that is equivalent to vertex elimination in the given order."""
    elimination = EdgeElimination(graph)
    sequence = []
    for k in order:
        for step in edges_of_vertex(elimination, k, side):
            elimination.eliminate(*step)
            sequence.append(step)
    return sequence


# Faces ---------------------------------------------------------------------------------------------------------------


#: Seed of the labels' random values, by which equal ones are found; any number does.
_SEED: Final = 2003
_NUMBERS: Final = (int, np.integer)


class FaceElimination:
    """State of a face elimination: the line graph and the steps so far.

    The first vertices are the graph's edges, in their order, then come the roots, the terminals, and the fill-ins and
    copies in the order of their creation. The constructor merges parallel edges and leaves out dead ones.

    Args:
        graph: graph to eliminate; it is not changed.
        steps: empty steps to which the products and sums are appended; new ones by default.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "x")])
    >>> elimination = FaceElimination(graph)
    >>> elimination.faces()
    [(0, 1)]
    >>> elimination.eliminate(0, 1)
    0
    >>> elimination.finish().entries
    {(0, 0): 2}
    """

    def __init__(self, graph: DifferentiationGraph, steps: Steps | None = None) -> None:
        self.graph = graph
        edges, roots, terminals = len(graph.sources), len(graph.roots), len(graph.terminals)
        self.steps = Steps(edges) if steps is None else steps
        #: P and S of every vertex; dicts, which keep the order of insertion.
        self.predecessors: list[dict[int, None]] = []
        self.successors: list[dict[int, None]] = []
        #: Reference of every vertex's label; -1 for roots, terminals, and removed vertices.
        self.labels: list[int] = []
        #: For each vertex that was merged into another one, the other one.
        self.merged: dict[int, int] = {}
        self._random = random.Random(_SEED)
        self._word: list[int] = []
        self._hash_p: list[int] = []
        self._hash_s: list[int] = []
        self._index: dict[tuple[int, int], int] = {}
        #: Vertices whose P or S has changed and that `_settle` has not processed yet; they are not in the index.
        self._changed: set[int] = set()
        self._queue: deque[int] = deque()
        self._first_root, self._first_terminal = edges, edges + roots
        self._first_new = edges + roots + terminals
        for _ in range(self._first_new):
            self._vertex(-1)
        for e in graph.live_edges.nonzero()[0].tolist():
            self.labels[e] = e
        for i, j in line_graph_faces(graph):
            self._connect(i, j)
        self._settle()

    def __contains__(self, v: int) -> bool:
        """Return True if v is an existing vertex that is neither a root nor a terminal."""
        return 0 <= v < len(self.labels) and self.labels[v] >= 0

    def vertices(self) -> list[int]:
        """Return all vertices except roots and terminals."""
        return [v for v, label in enumerate(self.labels) if label >= 0]

    def faces(self) -> list[tuple[int, int]]:
        """Return the faces that can be eliminated, in order of their numbers."""
        labels = self.labels
        return [(i, j) for i in self.vertices() for j in sorted(self.successors[i]) if labels[j] >= 0]

    def inner_predecessors(self, v: int) -> int:
        """Return the number of faces into v that can be eliminated; 0 if the predecessor is a root."""
        P = self.predecessors[v]
        return 0 if not P or self.labels[next(iter(P))] < 0 else len(P)

    def inner_successors(self, v: int) -> int:
        """Return the number of faces out of v that can be eliminated; 0 if the successor is a terminal."""
        S = self.successors[v]
        return 0 if not S or self.labels[next(iter(S))] < 0 else len(S)

    def find(self, same_predecessors: int, same_successors: int) -> int | None:
        """Return the vertex with the P of the first vertex and the S of the second; None if there is none."""
        k = self._index.get((self._hash_p[same_predecessors], self._hash_s[same_successors]))
        if k is None or not self._equal(k, same_predecessors, same_successors):
            return None
        return k

    def resolve(self, v: int) -> int:
        """Return v, or the vertex that it was merged into."""
        while v in self.merged:
            v = self.merged[v]
        return v

    def eliminate(self, i: int, j: int) -> int:
        """Eliminate the face ⟨i,j⟩ and return the vertex whose label includes the product.

        Raises:
            OrderError: if the face does not exist, or i or j is a root or a terminal.
        """
        self.check_face(i, j)
        product = self.steps.product(self.labels[i], self.labels[j])
        k = self.find(i, j)
        if k is not None:
            self.labels[k] = self.steps.sum(self.labels[k], product)
            self._disconnect(i, j)
        elif len(self.successors[i]) == 1:
            k = i
            self.labels[i] = product
            self._disconnect(i, j)
            for s in self.successors[j]:
                self._connect(i, s)
        elif len(self.predecessors[j]) == 1:
            k = j
            self.labels[j] = product
            self._disconnect(i, j)
            for p in self.predecessors[i]:
                self._connect(p, j)
        else:
            k = self._vertex(product)
            self._disconnect(i, j)
            for p in self.predecessors[i]:
                self._connect(p, k)
            for s in self.successors[j]:
                self._connect(k, s)
        self._settle()
        return self.resolve(k)

    def split(self, v: int, *, predecessors: Iterable[int] = (), successors: Iterable[int] = ()) -> int:
        """Split an interior vertex: move some of v's faces to a copy with the same label.

        The copy takes over the given predecessors and has all successors of v, or the other way round. Every path goes
        through exactly one of the two vertices, so the sum over all paths is unchanged. A vertex with the same P and S
        as either of them is merged with it (Griewank and Walther 2008, p. 205).

        Args:
            v: vertex to split.
            predecessors: predecessors to move to the copy.
            successors: successors to move to the copy.

        Returns:
            The copy, or the vertex that it was merged into.

        Raises:
            OrderError: if v is not an inner vertex, or if `predecessors` and `successors` are not exactly one nonempty
                proper subset of v's.
        """
        moved_p, moved_s = dict.fromkeys(predecessors), dict.fromkeys(successors)
        if v not in self:
            raise OrderError(f"cannot split {self.name(v)}: it is not an inner vertex of the line graph")
        P, S = self.predecessors[v], self.successors[v]
        moved, whole = (moved_p, P) if moved_p else (moved_s, S)
        if bool(moved_p) == bool(moved_s) or not moved.keys() < whole.keys():
            raise OrderError(
                f"cannot split {self.name(v)}: expected some, not all, of its predecessors or of its successors"
            )
        copy = self._vertex(self.labels[v])
        for p in moved_p or P:
            self._connect(p, copy)
        for s in moved_s or S:
            self._connect(copy, s)
        for p in moved_p:
            self._disconnect(p, v)
        for s in moved_s:
            self._disconnect(v, s)
        self._settle()
        return self.resolve(copy)

    def finish(self) -> Accumulation:
        """Return the accumulation of the Jacobian, once all faces are eliminated.

        Raises:
            OrderError: if faces remain; the message names them.
        """
        if left := self.faces():
            names = some_of(f"({self.name(i)}, {self.name(j)})" for i, j in left)
            raise OrderError(f"faces {names} are left; expected a sequence that eliminates every face")
        entries = {}
        for v in self.vertices():
            (root,), (terminal,) = self.predecessors[v], self.successors[v]
            entries[root - self._first_root, terminal - self._first_terminal] = self.labels[v]
        return Accumulation(self.graph, self.steps, dict(sorted(entries.items())))

    def check_face(self, i: int, j: int) -> None:
        """Raise OrderError unless ⟨i,j⟩ is a face that can be eliminated."""
        numbers = isinstance(i, _NUMBERS) and isinstance(j, _NUMBERS)
        if not numbers or i not in self or j not in self or j not in self.successors[i]:
            raise OrderError(
                f"there is no face ({self.name(i)}, {self.name(j)}) to eliminate; expected two vertices of the line "
                "graph, neither root nor terminal, the second a successor of the first at this step"
            )

    def name(self, v: int) -> str:
        """Return a description of the vertex for messages: edge, root, terminal, or the number of another vertex."""
        graph = self.graph
        if not isinstance(v, _NUMBERS):
            return repr(v)
        if 0 <= v < len(graph.sources):
            return f"⟨{graph.vertices[graph.sources[v]]},{graph.vertices[graph.targets[v]]}⟩"
        if self._first_root <= v < self._first_terminal:
            return f"root {graph.vertices[graph.roots[v - self._first_root]]}"
        if self._first_terminal <= v < self._first_new:
            return f"terminal {graph.vertices[graph.terminals[v - self._first_terminal]]}"
        return f"vertex number {v}"

    def _vertex(self, label: int) -> int:
        self.labels.append(label)
        self.predecessors.append({})
        self.successors.append({})
        self._word.append(self._random.getrandbits(64))
        self._hash_p.append(0)
        self._hash_s.append(0)
        return len(self.labels) - 1

    def _connect(self, i: int, j: int) -> None:
        self._touch(i)
        self._touch(j)
        self.successors[i][j] = None
        self.predecessors[j][i] = None
        self._hash_s[i] ^= self._word[j]
        self._hash_p[j] ^= self._word[i]

    def _disconnect(self, i: int, j: int) -> None:
        self._touch(i)
        self._touch(j)
        del self.successors[i][j]
        del self.predecessors[j][i]
        self._hash_s[i] ^= self._word[j]
        self._hash_p[j] ^= self._word[i]

    def _touch(self, v: int) -> None:
        if v in self._changed or self.labels[v] < 0:
            return
        self._changed.add(v)
        self._queue.append(v)
        key = (self._hash_p[v], self._hash_s[v])
        if self._index.get(key) == v:
            del self._index[key]

    def _settle(self) -> None:
        """Remove isolated vertices and merge those with equal P and S, until every vertex is in the index."""
        while self._queue:
            v = self._queue.popleft()
            if v not in self._changed:
                continue
            if not self.predecessors[v] or not self.successors[v]:
                self._remove(v)
                continue
            self._changed.discard(v)
            twin = self._index.setdefault((self._hash_p[v], self._hash_s[v]), v)
            if twin != v and self._equal(twin, v, v):
                survivor, gone = min(v, twin), max(v, twin)
                self.labels[survivor] = self.steps.sum(self.labels[survivor], self.labels[gone])
                self.merged[gone] = survivor
                self._index[self._hash_p[v], self._hash_s[v]] = survivor
                self._remove(gone)

    def _remove(self, v: int) -> None:
        for p in list(self.predecessors[v]):
            self._disconnect(p, v)
        for s in list(self.successors[v]):
            self._disconnect(v, s)
        self._changed.discard(v)
        self.labels[v] = -1

    def _equal(self, k: int, same_predecessors: int, same_successors: int) -> bool:
        return (
            self.predecessors[k].keys() == self.predecessors[same_predecessors].keys()
            and self.successors[k].keys() == self.successors[same_successors].keys()
        )


def line_graph_faces(graph: DifferentiationGraph) -> Iterator[tuple[int, int]]:
    """Yield all faces of the line graph without dead edges, numbered as by `FaceElimination`.

    >>> list(line_graph_faces(DifferentiationGraph([("y", "a"), ("a", "x")])))
    [(2, 0), (0, 1), (1, 3)]
    """
    added = {v: len(graph.sources) + k for k, v in enumerate((*graph.roots, *graph.terminals))}
    live = graph.live_edges.tolist()
    sources, targets = graph.sources.tolist(), graph.targets.tolist()
    for e in graph.live_edges.nonzero()[0].tolist():
        if sources[e] in added:
            yield added[sources[e]], e
        if targets[e] in added:
            yield e, added[targets[e]]
        else:
            yield from ((e, f) for f in graph.out_edges[targets[e]] if live[f])


def eliminate_faces(graph: DifferentiationGraph, sequence: Iterable[tuple[int, int]]) -> Accumulation:
    """Eliminate faces in the given order.

    Args:
        graph: graph to eliminate.
        sequence: pairs (i, j) of vertices of the line graph, numbered as by `FaceElimination`.

    Raises:
        OrderError: if a face does not exist at its turn, or faces remain.

    >>> graph = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")])
    >>> len(eliminate_faces(graph, [(1, 2), (0, 1)]).steps)
    2
    """
    elimination = FaceElimination(graph)
    for i, j in sequence:
        elimination.eliminate(i, j)
    return elimination.finish()


def faces_of_edges(graph: DifferentiationGraph, sequence: Iterable[tuple[int, int, Side]]) -> list[tuple[int, int]]:
    """Return the sequence of face eliminations that is equivalent to the given sequence of edge eliminations.

    Raises:
        OrderError: if an edge does not exist at its turn, or cannot be eliminated from that side.
    """
    edges, faces = EdgeElimination(graph), FaceElimination(graph)
    ends = graph.ends
    vertex = {ends[e]: e for e in faces.vertices()}
    result = []
    for j, i, side in sequence:
        edges.check_edge(j, i, side)
        if side == "front":
            pairs = [((p, i), (vertex[p, j], vertex[j, i])) for p in edges.predecessors[j]]
        else:
            pairs = [((j, s), (vertex[j, i], vertex[i, s])) for s in edges.successors[i]]
        edges.eliminate(j, i, side)
        for end, face in pairs:
            vertex[end] = faces.eliminate(*face)
            result.append(face)
    return result
