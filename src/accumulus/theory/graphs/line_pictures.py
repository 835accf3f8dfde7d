"""Pictures of line graphs in Graphviz's language, in the style of `accumulus.graph.dot`.

The vertices of a line graph are edges: they have corners, where the vertices of a graph are round.
"""

from __future__ import annotations

from accumulus.graph.dot import digraph, typeset
from accumulus.theory.graphs.line import LineGraph

__all__ = ["line_graph_to_dot"]


def line_graph_to_dot(graph: LineGraph) -> str:
    """The line graph in Graphviz's language; edges that nothing is adjacent to any more are left out."""
    faces = (f"v{i} -> v{j};" for i, j in graph.faces)
    names = [typeset(name) for name in graph.names]
    used = [v for v in range(len(names)) if graph.predecessors[v] or graph.successors[v] or v >= graph.edges]
    return digraph("", "filled", names, used, graph.roots, graph.terminals, faces)
