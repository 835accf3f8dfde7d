"""Graphs to and from NetworkX, and the attributes that they travel with.

What a graph is made of travels as attributes, the same in NetworkX and in GraphML (`accumulus.graph.graphml`):

* of the graph: `roots` and `terminals`, how many there are, for a graph that has none;
* of a vertex: `root` or `terminal`, its position among them; `size`, if it is not 1;
* of an edge: `label`, its symbol; `kind`, one of "one", "minus_one", "constant" and "variable"; `value`, of a constant
  that is known. A graph from elsewhere needs none of them.

NetworkX is imported when a graph is made for it, and never for reading one. References to a tape do not travel.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from reprlib import repr as shortened
from typing import Any

from accumulus.errors import ArgumentError, GraphError
from accumulus.graph.graph import DifferentiationGraph, Kind

__all__ = ["from_networkx", "to_networkx"]

_KINDS = {kind.name.lower(): kind for kind in Kind if kind is not Kind.ABSENT}


def to_networkx(graph: DifferentiationGraph) -> Any:
    """The graph as a ``networkx.MultiDiGraph``, its vertices by name, the number of each edge as its key."""
    import networkx

    made = networkx.MultiDiGraph(name=graph.name, roots=len(graph.roots), terminals=len(graph.terminals))
    for name, size in zip(graph.vertices, graph.sizes.tolist(), strict=True):
        made.add_node(name, **({} if size == 1 else {"size": size}))
    for what, ends in (("root", graph.roots), ("terminal", graph.terminals)):
        for position, v in enumerate(ends):
            made.nodes[graph.vertices[v]][what] = position
    for e, (j, i) in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        attributes: dict[str, str | float] = {"kind": Kind(int(graph.kinds[e])).name.lower()}
        symbol = graph.symbols[e]
        if symbol is not None:
            attributes["label"] = symbol
        if e in graph.constants:
            attributes["value"] = graph.constants[e]
        made.add_edge(graph.vertices[j], graph.vertices[i], key=e, **attributes)
    return made


def from_networkx(
    given: Any, roots: Iterable[Hashable] | None = None, terminals: Iterable[Hashable] | None = None
) -> DifferentiationGraph:
    """A graph from a ``networkx.DiGraph`` or ``MultiDiGraph`` whose edges run from the dependent vertices.

    Args:
        given: the digraph; an edge attribute `label` may be a symbol or a number. Edges are numbered by their keys
            where these are their numbers, as `to_networkx` gives them.
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
    name = given.graph.get("name", "")
    if not isinstance(name, str):
        raise GraphError(f"the name of the graph is {shortened(name)}; expected text")
    edges = [(j, i, _label(about, (j, i))) for j, i, about in given.edges(data=True)]
    if given.is_multigraph():
        keys = [key for *_, key in given.edges(keys=True)]
        if set(keys) == set(range(len(edges))):
            edges = [edge for _, edge in sorted(zip(keys, edges, strict=True), key=lambda pair: pair[0])]
    vertices = list(given.nodes(data=True))
    ends = {"root": roots, "terminal": terminals}
    for what, names in ends.items():
        marked = [(about[what], k, v) for k, (v, about) in enumerate(vertices) if what in about]
        for position, _, v in marked:
            if type(position) is not int or position < 0:
                raise GraphError(
                    f"vertex {v!r} has the {what} {shortened(position)}; expected its position, a whole number from 0"
                )
        if names is not None:
            ends[what] = list(names)
        elif marked or given.graph.get(f"{what}s") == 0:
            ends[what] = [v for *_, v in sorted(marked, key=lambda mark: mark[:2])]
    touched = {v for edge in edges for v in edge[:2]}.union(ends["root"] or (), ends["terminal"] or ())
    loose = next((v for v, _ in vertices if v not in touched), None)
    if loose is not None:
        raise GraphError(f"vertex {loose!r} has no edges; remove it, or make it a root or a terminal")
    # with sizes of all: what is declared as a vertex is not misspelt
    sizes = {v: about.get("size", 1) for v, about in vertices}
    for v, size in sizes.items():
        if type(size) is not int:
            raise GraphError(f"vertex {v!r} has the size {shortened(size)}; expected a whole number")
    return DifferentiationGraph(edges, ends["root"], ends["terminal"], sizes=sizes, name=name)


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
