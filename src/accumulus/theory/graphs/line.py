"""The line graph of a differentiation graph, its bicliques, the inverse transformation, and its picture.

The line graph has a vertex for each edge, and an edge ⟨i,j⟩ (a *face*) for each pair of edges such that i ends where j
starts. It also has a vertex for each root, before all edges that leave the root, and for each terminal, after all edges
that enter the terminal. Other names: dual c-graph (Naumann, Optimal Accumulation of Jacobian Matrices by Elimination
Methods on the Dual Computational Graph, 2003), line graph of the extended computational graph (Griewank and Walther,
Evaluating Derivatives, 2008, p. 204); in the notes, section 1.

Every vertex of the graph becomes a biclique between its incoming and its outgoing edges. So in a line graph the
successor sets of any two vertices are equal or disjoint, and every digraph with this property is a line graph
(Heuchenne 1964; Harary and Norman, Some Properties of Line Digraphs, 1960). Face elimination soon makes digraphs that
are not line graphs; `LineGraph.reason` then names two vertices whose successor sets overlap.

Time: linear in the size of the line graph, which has Σ_v |v⁻|·|v⁺| faces, except for the sorting of the faces. A
`LineGraph` is immutable. `accumulus.elimination.edges_and_faces.FaceElimination` numbers the vertices of its line graph
in the same way.

Pictures have the style of `accumulus.graph.pictures`, but the vertices of line graphs have sharp corners.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from accumulus.elimination.edges_and_faces import line_graph_faces
from accumulus.errors import GraphError
from accumulus.graph.graph import DifferentiationGraph, derive
from accumulus.graph.pictures import Picture, digraph, typeset
from accumulus.theory.graphs.traversal import topological_order


class LineFace(NamedTuple):
    """Edge of a line graph: two edges of the graph, the second starting where the first ends."""

    first: int
    second: int


class Biclique(NamedTuple):
    """Complete bipartite subgraph of a line graph: the incoming and the outgoing edges of a vertex of the graph."""

    predecessors: tuple[int, ...]
    successors: tuple[int, ...]


class LineGraph:
    """An immutable acyclic digraph whose vertices are edges, roots and terminals, in this order.

    `of` makes the line graph of a differentiation graph. The constructor accepts any faces, which need not form a line
    graph; see `reason`.

    Args:
        names: names of the vertices: edges, then roots, then terminals.
        faces: pairs of vertices by number.
        roots, terminals: number of roots and of terminals.

    Raises:
        GraphError: for a cycle, an unknown vertex, a repeated face, a root with predecessors or a terminal with
            successors.

    >>> line = LineGraph.of(DifferentiationGraph([("y", "a", "e1"), ("a", "x", "e2"), ("y", "a", "e3")]))
    >>> [(line.names[i], line.names[j]) for i, j in line.faces if (i, j) in line.intermediate_faces]
    [('e1', 'e2'), ('e3', 'e2')]
    >>> line.to_graph().vertices
    ('y', 'a', 'x')
    """

    def __init__(
        self, names: Sequence[Hashable], faces: Iterable[Sequence[int]], roots: int = 0, terminals: int = 0
    ) -> None:
        #: Names of all vertices, by number.
        self.names: tuple[Hashable, ...] = tuple(names)
        if not 0 <= roots + terminals <= len(self.names) or min(roots, terminals) < 0:
            raise GraphError(f"{roots} roots and {terminals} terminals among {len(self.names)} vertices")
        #: Number of vertices that represent edges; vertex e represents edge e.
        self.edges: int = len(self.names) - roots - terminals
        self.roots: range = range(self.edges, self.edges + roots)
        self.terminals: range = range(self.edges + roots, len(self.names))
        #: The differentiation graph if the line graph was made by `of`, else None.
        self.graph: DifferentiationGraph | None = None
        #: Successors and predecessors of each vertex, ascending.
        self.successors: list[list[int]] = [[] for _ in self.names]
        self.predecessors: list[list[int]] = [[] for _ in self.names]
        for face in faces:
            i, j = face
            if not (0 <= i < len(self.names) and 0 <= j < len(self.names)):
                raise GraphError(f"face {tuple(face)!r} names a vertex that is not one of the {len(self.names)}")
            self.successors[i].append(j)
            self.predecessors[j].append(i)
        self._check()

    def _check(self) -> None:
        for i, below in enumerate(self.successors):
            below.sort()
            self.predecessors[i].sort()
            twice = next((j for j, k in pairwise(below) if j == k), None)
            if twice is not None:
                raise GraphError(f"the face {self._pair(i, twice)} is given twice; expected once")
        for added, around, refusal in (
            (self.roots, self.predecessors, "root {} comes after {}; expected roots without predecessors"),
            (self.terminals, self.successors, "terminal {} comes before {}; expected terminals without successors"),
        ):
            for v in added:
                if around[v]:
                    raise GraphError(refusal.format(repr(self.names[v]), repr(self.names[around[v][0]])))
        waiting = dict(enumerate(map(len, self.predecessors)))
        if len(topological_order(waiting, self.successors.__getitem__)) < len(self.names):
            on_cycle = next(v for v, count in waiting.items() if count)
            raise GraphError(f"the faces form a cycle at or above {self.names[on_cycle]!r}; expected none")

    @classmethod
    def of(cls, graph: DifferentiationGraph) -> LineGraph:
        """Return the line graph of a graph; edges on no path of a selected entry have a vertex, but no faces.

        The name of an edge's vertex is the symbol of its label, or ⟨j,i⟩ with the names of its ends. The other vertices
        have the names of the roots and terminals.
        """
        names: list[Hashable] = [
            graph.symbols[e] or f"⟨{graph.vertices[j]},{graph.vertices[i]}⟩" for e, (j, i) in enumerate(graph.ends)
        ]
        names.extend(graph.vertices[v] for v in (*graph.roots, *graph.terminals))
        line = cls(names, line_graph_faces(graph), len(graph.roots), len(graph.terminals))
        line.graph = graph
        return line

    @property
    def faces(self) -> Iterator[LineFace]:
        """All faces, in lexicographic order."""
        return (LineFace(i, j) for i, below in enumerate(self.successors) for j in below)

    @property
    def intermediate_faces(self) -> tuple[LineFace, ...]:
        """Faces between two edges, which face elimination eliminates; in the notes Ẽ_Z."""
        return tuple(face for face in self.faces if face.first < self.edges and face.second < self.edges)

    @cached_property
    def reason(self) -> str | None:
        """Reason why this is not the line graph of a graph with these roots and terminals; None if it is.

        Vertices of edges without any faces are dead edges, which a line graph may have.
        """
        owner = [-1] * len(self.names)
        for i, below in enumerate(self.successors):
            for j in below:
                if owner[j] < 0:
                    owner[j] = i
        for i, below in enumerate(self.successors):
            if below and owner[below[0]] != i and self.successors[owner[below[0]]] != below:
                return self._overlap(owner[below[0]], i, below[0])
            for j in below:
                if owner[j] != owner[below[0]]:
                    return self._overlap(owner[j], i, j)
        for v in range(self.edges):
            if bool(self.predecessors[v]) != bool(self.successors[v]):
                missing = "predecessors" if self.successors[v] else "successors"
                return f"{self.names[v]!r} has no {missing}, and is neither a root nor a terminal"
        for root in self.roots:
            for j in self.successors[root][:1]:
                if j >= self.edges:
                    return f"no edge lies between root {self.names[root]!r} and terminal {self.names[j]!r}"
                if len(self.predecessors[j]) > 1:
                    i, k = self.predecessors[j][:2]
                    return f"root {self.names[root]!r} shares a successor: {self._pair(i, j)}, {self._pair(k, j)}"
        for terminal in self.terminals:
            for i in self.predecessors[terminal][:1]:
                if len(self.successors[i]) > 1:
                    j, k = self.successors[i][:2]
                    pairs = f"{self._pair(i, j)}, {self._pair(i, k)}"
                    return f"terminal {self.names[terminal]!r} shares a predecessor: {pairs}"
        return None

    @cached_property
    def bicliques(self) -> tuple[Biclique, ...]:
        """Bicliques of the line graph, one for each vertex of the graph on a path, ordered by their first successors.

        Every live edge is a predecessor in exactly one biclique and a successor in exactly one. Every face is in
        exactly one.

        Raises:
            GraphError: if this is not a line graph; the message is its `reason`.
        """
        if self.reason is not None:
            raise GraphError(f"not a line graph: {self.reason}")
        complete = []
        for j, above in enumerate(self.predecessors):
            if above and self.successors[above[0]][0] == j:
                complete.append(Biclique(tuple(above), tuple(self.successors[above[0]])))
        return tuple(complete)

    def to_graph(self) -> DifferentiationGraph:
        """Return the differentiation graph of this line graph, without its dead edges.

        Edges, roots and terminals keep their order, and edges keep their labels. If the line graph was made from a
        graph, vertices keep their names and sizes. Otherwise the labels are the names of the edges' vertices as
        symbols, and the intermediates are v1, v2, …

        Raises:
            GraphError: if this is not a line graph; the message is its `reason`.
        """
        starts = [-1] * len(self.names)
        ends = [-1] * len(self.names)
        for vertex, biclique in enumerate(self.bicliques):
            for i in biclique.predecessors:
                ends[i] = vertex
            for j in biclique.successors:
                starts[j] = vertex
        count = len(self.bicliques)
        roots: list[int] = []
        terminals: list[int] = []
        for renumbered, added, places in ((roots, self.roots, ends), (terminals, self.terminals, starts)):
            for v in added:
                if places[v] < 0:  # this root or terminal is on no path
                    places[v], count = count, count + 1
                renumbered.append(places[v])
        live = [e for e in range(self.edges) if starts[e] >= 0]
        edges = [(starts[e], ends[e], e) for e in live]
        if self.graph is None:
            return self._symbolic(count, roots, terminals, edges)
        numbers = [-1] * count
        for j, i, e in edges:
            numbers[j], numbers[i] = int(self.graph.sources[e]), int(self.graph.targets[e])
        for places, originals in ((roots, self.graph.roots), (terminals, self.graph.terminals)):
            for number, v in zip(places, originals, strict=True):
                numbers[number] = v
        order = sorted(range(count), key=numbers.__getitem__)
        new = {old: k for k, old in enumerate(order)}
        return derive(
            self.graph,
            [self.graph.vertices[numbers[old]] for old in order],
            [new[v] for v in roots],
            [new[v] for v in terminals],
            [(new[j], new[i], e) for j, i, e in edges],
            [int(self.graph.sizes[numbers[old]]) for old in order],
        )

    def _symbolic(
        self, count: int, roots: list[int], terminals: list[int], edges: list[tuple[int, int, int]]
    ) -> DifferentiationGraph:
        names: list[Hashable] = [None] * count
        added = [self.names[v] for v in (*self.roots, *self.terminals)]
        for vertex, name in zip((*roots, *terminals), added, strict=True):
            names[vertex] = name
        taken = set(added)
        fresh = (f"v{k}" for k in range(1, 2 * count + len(taken) + 1))
        for v in range(count):
            if names[v] is None:
                names[v] = next(name for name in fresh if name not in taken)
        labelled = [(names[j], names[i], str(self.names[e])) for j, i, e in edges]
        return DifferentiationGraph(labelled, [names[v] for v in roots], [names[v] for v in terminals])

    def _overlap(self, i: int, k: int, j: int) -> str:
        """Return a message about two vertices that share the successor j, but not all successors."""
        only = set(self.successors[i]) - set(self.successors[k])
        if not only:
            i, k = k, i
            only = set(self.successors[i]) - set(self.successors[k])
        return (
            f"{self.names[i]!r} and {self.names[k]!r} both come before {self.names[j]!r}, but only {self.names[i]!r} "
            f"before {self.names[min(only)]!r}"
        )

    def _pair(self, i: int, j: int) -> str:
        return f"⟨{self.names[i]},{self.names[j]}⟩"

    def __repr__(self) -> str:
        faces = sum(map(len, self.successors))
        return f"LineGraph({self.edges} edges, {len(self.roots)} roots, {len(self.terminals)} terminals, {faces} faces)"


# Pictures ------------------------------------------------------------------------------------------------------------


def line_graph_to_dot(graph: LineGraph) -> str:
    """Return the line graph in Graphviz's language; edges without faces are left out."""
    faces = (f"v{i} -> v{j};" for i, j in graph.faces)
    names = [typeset(name) for name in graph.names]
    used = [v for v in range(len(names)) if graph.predecessors[v] or graph.successors[v] or v >= graph.edges]
    return digraph("", "filled", names, used, graph.roots, graph.terminals, faces)


def line_graph_picture(graph: LineGraph) -> Picture:
    """Return the picture of a line graph, which can be written as SVG and TikZ.

    >>> line = LineGraph.of(DifferentiationGraph([("y", "a", "e1"), ("a", "x", "e2")]))
    >>> line_graph_picture(line).svg().count("<rect")
    4
    """
    level = [-1] * len(graph.names)
    for v in topological_order(dict(enumerate(map(len, graph.predecessors))), graph.successors.__getitem__):
        if graph.successors[v] or graph.predecessors[v] or v >= graph.edges:
            level[v] = max((level[p] + 1 for p in graph.predecessors[v]), default=0)
    for v in graph.terminals:
        level[v] = max(level)
    ends = dict.fromkeys(graph.roots, "root") | dict.fromkeys(graph.terminals, "terminal")
    edges = [(i, j, "", False) for i, j in graph.faces]
    return Picture.of("line graph", [typeset(name) for name in graph.names], level, edges, ends, corner=0.0)
