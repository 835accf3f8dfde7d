"""Graphs to and from NetworkX, and the attributes that they travel with.

What a graph is made of travels as attributes, the same in NetworkX and in GraphML (`accumulus.graph.graphml`):

* of the graph: `roots` and `terminals`, how many there are, for a graph that has none;
* of a vertex: `root` or `terminal`, its position among them; `size`, if it is not 1;
* of an edge: `label`, its symbol; `kind`, one of "one", "minus_one", "constant" and "variable"; `value`, of a constant
  that is known. A graph from elsewhere needs none of them.

NetworkX is imported when a graph is handed to it, and never for reading one. References to a tape do not travel.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from importlib import import_module
from reprlib import repr as shortened
from typing import Any

from accumulus.errors import ArgumentError, GraphError
from accumulus.graph.graph import DifferentiationGraph, Kind

__all__ = [
    "edge_attributes",
    "from_networkx",
    "graph_attributes",
    "graph_from",
    "to_networkx",
    "vertex_attributes",
]

_KINDS = {kind.name.lower(): kind for kind in Kind if kind is not Kind.ABSENT}


def to_networkx(graph: DifferentiationGraph) -> Any:
    """The graph as a ``networkx.MultiDiGraph``, its vertices by name, the number of each edge as its key.

    Raises:
        ArgumentError: if NetworkX is not installed.
    """
    try:
        networkx = import_module("networkx")
    except ModuleNotFoundError:
        raise ArgumentError("to_networkx needs NetworkX; install it: pip install 'accumulus[networkx]'") from None
    made = networkx.MultiDiGraph(name=graph.name, **graph_attributes(graph))
    for name, attributes in zip(graph.vertices, vertex_attributes(graph), strict=True):
        made.add_node(name, **attributes)
    for e, (j, i) in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        made.add_edge(graph.vertices[j], graph.vertices[i], key=e, **edge_attributes(graph, e))
    return made


def from_networkx(
    given: Any, roots: Iterable[Hashable] | None = None, terminals: Iterable[Hashable] | None = None
) -> DifferentiationGraph:
    """A graph from a ``networkx.DiGraph`` or ``MultiDiGraph`` whose edges run from the dependent vertices.

    Args:
        given: the digraph; an edge attribute `label` may be a symbol or a number.
        roots, terminals: names; by default those that the vertices' attributes say, else those without incoming and
            without outgoing edges.

    Raises:
        GraphError: if the edges have no direction, there is a cycle, or an attribute is malformed.
        ArgumentError: if it is no NetworkX graph.
    """
    if not callable(getattr(given, "is_directed", None)):
        raise ArgumentError(f"from_networkx was given a {type(given).__name__}; expected a networkx.DiGraph")
    if not given.is_directed():
        raise GraphError("the edges of this NetworkX graph have no direction; expected a DiGraph or MultiDiGraph")
    return graph_from(
        list(given.nodes(data=True)),
        list(given.edges(data=True)),
        None if roots is None else list(roots),
        None if terminals is None else list(terminals),
        str(given.graph.get("name", "")),
        given.graph,
    )


def graph_attributes(graph: DifferentiationGraph) -> dict[str, int]:
    """What there is to say about a graph, as attributes."""
    return {"roots": len(graph.roots), "terminals": len(graph.terminals)}


def vertex_attributes(graph: DifferentiationGraph) -> list[dict[str, int]]:
    """What there is to say about each vertex, as attributes."""
    found: list[dict[str, int]] = [{} if size == 1 else {"size": size} for size in graph.sizes.tolist()]
    for what, ends in (("root", graph.roots), ("terminal", graph.terminals)):
        for position, v in enumerate(ends):
            found[v][what] = position
    return found


def edge_attributes(graph: DifferentiationGraph, edge: int) -> dict[str, str | float]:
    """What there is to say about an edge, as attributes."""
    attributes: dict[str, str | float] = {"kind": Kind(int(graph.kinds[edge])).name.lower()}
    symbol = graph.symbols[edge]
    if symbol is not None:
        attributes["label"] = symbol
    if edge in graph.constants:
        attributes["value"] = graph.constants[edge]
    return attributes


def graph_from(
    vertices: Sequence[tuple[Hashable, Mapping[str, Any]]],
    edges: Sequence[tuple[Hashable, Hashable, Mapping[str, Any]]],
    roots: list[Hashable] | None = None,
    terminals: list[Hashable] | None = None,
    name: str = "",
    attributes: Mapping[str, Any] | None = None,
) -> DifferentiationGraph:
    """A graph from names and attributes; the last ones are those of the graph itself.

    Raises:
        GraphError: for an attribute that is malformed, and whatever else makes it no differentiation graph.
    """
    if not isinstance(name, str):
        raise GraphError(f"the name of the graph is {shortened(name)}; expected text")
    made = [(j, i, _label(about, (j, i))) for j, i, about in edges]
    ends = {"root": roots, "terminal": terminals}
    for what, given in ends.items():
        marked = [(about[what], k, v) for k, (v, about) in enumerate(vertices) if what in about]
        for position, _, v in marked:
            if type(position) is not int or position < 0:
                raise GraphError(
                    f"vertex {v!r} has the {what} {shortened(position)}; expected its position, a whole number from 0"
                )
        if given is None and (marked or (attributes or {}).get(f"{what}s") == 0):
            ends[what] = [v for *_, v in sorted(marked, key=lambda mark: mark[:2])]
    touched = {v for edge in edges for v in edge[:2]}.union(ends["root"] or (), ends["terminal"] or ())
    loose = next((v for v, _ in vertices if v not in touched), None)
    if loose is not None:
        raise GraphError(f"vertex {loose!r} has no edges; remove it, or make it a root or a terminal")
    # with sizes of all: what is declared as a vertex is not misspelt
    sizes = {v: about.get("size", 1) for v, about in vertices}
    for v, size in sizes.items():
        if type(size) is not int:
            raise GraphError(f"vertex {v!r} has the size {size!r}; expected a whole number")
    return DifferentiationGraph(made, ends["root"], ends["terminal"], sizes=sizes, name=name)


def _label(attributes: Mapping[str, Any], edge: tuple[Hashable, Hashable]) -> Any:
    """What the constructor of a graph takes as a label."""
    kind = attributes.get("kind", "variable")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise GraphError(f"edge {edge!r} has the kind {shortened(kind)}; expected one of {', '.join(_KINDS)}")
    if "value" in attributes:
        value = attributes["value"]
        if isinstance(value, str) or value is None:
            raise GraphError(f"edge {edge!r} has the value {shortened(value)}; expected a number")
        return value
    return attributes.get("label") if kind == "variable" else _KINDS[kind]
