"""Conversion of graphs to and from NetworkX, and GraphML files.

**NetworkX.** The parts of a graph are stored as attributes, the same in NetworkX and in GraphML:

* of the graph: `roots` and `terminals`, their numbers, so that a graph without any can be read back;
* of a vertex: `root` or `terminal`, its position among them; `size`, if it is not 1;
* of an edge: `label`, its symbol; `kind`, one of "one", "minus_one", "constant" and "variable"; `value`, the value of a
  known constant.

All attributes are optional in a graph from another program. `to_networkx` imports NetworkX, `from_networkx` does not.
References to a tape are not stored.

**GraphML.** Graphs as GraphML files (Brandes, Eiglsperger, Herman, Himsolt and Marshall, GraphML Progress Report,
2001).

NetworkX reads and writes the files, with the attributes above and `integer` for a vertex whose name is a number. Node
ids are the vertices' names.

NetworkX does not validate a file, so `_check_xml` checks it first. It refuses a document type before the parser looks
at its declarations: no entity is ever expanded, and nothing outside the file is read. It also refuses elements nested
too deeply, and errors that NetworkX ignores: duplicate nodes or keys, several graphs, hyperedges, undirected edges.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from io import BytesIO
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final
from xml.parsers import expat

from accumulus.errors import ArgumentError, GraphError
from accumulus.graph.files import read_bytes
from accumulus.graph.graph import DifferentiationGraph, Kind

_KINDS = {kind.name.lower(): kind for kind in Kind if kind is not Kind.ABSENT}


def to_networkx(graph: DifferentiationGraph) -> Any:
    """Return the graph as a ``networkx.MultiDiGraph``: nodes are the vertices' names, edge keys the edge numbers."""
    import networkx

    made = networkx.MultiDiGraph(name=graph.name, roots=len(graph.roots), terminals=len(graph.terminals))
    for name, size in zip(graph.vertices, graph.sizes.tolist(), strict=True):
        made.add_node(name, **({} if size == 1 else {"size": size}))
    for role, ends in (("root", graph.roots), ("terminal", graph.terminals)):
        for position, v in enumerate(ends):
            made.nodes[graph.vertices[v]][role] = position
    for e, (j, i) in enumerate(graph.ends):
        attributes: dict[str, str | float] = {"kind": Kind(int(graph.kinds[e])).name.lower()}
        symbol = graph.symbols[e]
        if symbol is not None:
            attributes["label"] = symbol
        if e in graph.constants:
            attributes["value"] = graph.constants[e]
        made.add_edge(graph.vertices[j], graph.vertices[i], key=e, **attributes)
    return made


def from_networkx(
    networkx_graph: Any, roots: Iterable[Hashable] | None = None, terminals: Iterable[Hashable] | None = None
) -> DifferentiationGraph:
    """Return a graph from a ``networkx.DiGraph`` or ``MultiDiGraph`` whose edges run from the dependent vertices.

    Args:
        networkx_graph: digraph; an edge attribute `label` may be a symbol or a number. If the keys of a multigraph are
            0 … edges − 1, as `to_networkx` makes them, they become the edge numbers.
        roots: names of the roots. By default the vertices with the attribute `root`, or if there are none, the vertices
            without incoming edges.
        terminals: names of the terminals. By default the vertices with the attribute `terminal`, or if there are none,
            the vertices without outgoing edges.

    Raises:
        GraphError: if the edges have no direction, a vertex has no edges, there is a cycle, or an attribute is
            malformed.
        ArgumentError: if `networkx_graph` is not a NetworkX graph.
    """
    if not callable(getattr(networkx_graph, "is_directed", None)):
        raise ArgumentError(f"from_networkx was given a {type(networkx_graph).__name__}; expected a networkx.DiGraph")
    if not networkx_graph.is_directed():
        raise GraphError("the edges of this NetworkX graph have no direction; expected a DiGraph or MultiDiGraph")
    name = networkx_graph.graph.get("name", "")
    if not isinstance(name, str):
        raise GraphError(f"the name of the graph is {shortened(name)}; expected text")
    edges = [(j, i, _label(about, (j, i))) for j, i, about in networkx_graph.edges(data=True)]
    if networkx_graph.is_multigraph():
        keys = [key for *_, key in networkx_graph.edges(keys=True)]
        if set(keys) == set(range(len(edges))):
            edges = [edge for _, edge in sorted(zip(keys, edges, strict=True), key=lambda pair: pair[0])]
    vertices = list(networkx_graph.nodes(data=True))
    ends = {"root": roots, "terminal": terminals}
    for role, names in ends.items():
        marked = [(about[role], k, v) for k, (v, about) in enumerate(vertices) if role in about]
        for position, _, v in marked:
            if type(position) is not int or position < 0:
                raise GraphError(
                    f"vertex {v!r} has the {role} {shortened(position)}; expected its position, a whole number from 0"
                )
        if names is not None:
            ends[role] = list(names)
        elif marked or networkx_graph.graph.get(f"{role}s") == 0:
            ends[role] = [v for *_, v in sorted(marked, key=lambda mark: mark[:2])]
    touched = {v for edge in edges for v in edge[:2]}.union(ends["root"] or (), ends["terminal"] or ())
    loose = next((v for v, _ in vertices if v not in touched), None)
    if loose is not None:
        raise GraphError(f"vertex {loose!r} has no edges; remove it, or make it a root or a terminal")
    # sizes of all vertices: a root or terminal without an edge is then not taken for misspelt
    sizes = {v: about.get("size", 1) for v, about in vertices}
    for v, size in sizes.items():
        if type(size) is not int:
            raise GraphError(f"vertex {v!r} has the size {shortened(size)}; expected a whole number")
    return DifferentiationGraph(edges, ends["root"], ends["terminal"], sizes=sizes, name=name)


def _label(attributes: Mapping[str, Any], edge: tuple[Hashable, Hashable]) -> Any:
    """Return the label of an edge for the constructor of `DifferentiationGraph`."""
    kind = attributes.get("kind", "variable")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise GraphError(f"edge {edge!r} has the kind {shortened(kind)}; expected one of {', '.join(_KINDS)}")
    if "value" in attributes:
        value = attributes["value"]
        if isinstance(value, str) or value is None:
            raise GraphError(f"edge {edge!r} has the value {shortened(value)}; expected a number")
        return value
    return attributes.get("label") if kind == "variable" else _KINDS[kind]


# GraphML -------------------------------------------------------------------------------------------------------------


#: Deepest nesting of elements; files of graph editors stay below twenty. Deeper files could exhaust the stack.
_DEEPEST: Final = 100
#: Numbers as text. Other spellings that Python accepts (1_000, non-ASCII digits) are refused.
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,4000}")
_REAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(INF|inf)|NaN|nan")
_WHOLE_NAME: Final = re.compile(r"0|-?[1-9][0-9]{0,4000}")
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(graph: DifferentiationGraph, path: str | PathLike[str]) -> None:
    """Write a graph to a GraphML file that `read_graphml` reads back as an equal graph.

    Raises:
        GraphError: if two vertices have the same name as text, or a name or symbol cannot be written in XML.
        OSError: if the file cannot be written.
    """
    import networkx

    names = list(map(str, graph.vertices))
    for text, times in Counter(names).items():
        if times > 1:
            raise GraphError(
                f"{times} vertices are called {text!r} as text; rename all but one before writing the graph"
            )
    for text in (graph.name, *names, *filter(None, graph.symbols)):
        if _NOT_XML.search(text):
            raise GraphError(f"{text!r} holds a character that XML cannot; rename it before writing the graph")
    made = to_networkx(graph)
    for vertex in graph.vertices:
        if isinstance(vertex, int) and not isinstance(vertex, bool):
            made.nodes[vertex]["integer"] = True
    written = BytesIO()
    networkx.write_graphml_xml(made, written)
    # an XML parser reads an unescaped carriage return as a line feed
    Path(path).write_bytes(written.getvalue().replace(b"\r", b"&#13;") + b"\n")


def read_graphml(path: str | PathLike[str]) -> DifferentiationGraph:
    """Read a graph from a GraphML file; edges run from the dependent vertices to their dependencies.

    Raises:
        GraphError: if the file is not GraphML, has a document type, more than one graph, nested graphs, hyperedges or
            edges without direction, or does not hold an acyclic graph.
        OSError: if the file cannot be read.
    """
    content = read_bytes(path, GraphError)
    try:
        _check_xml(content)
        return from_networkx(_read(content))
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two: unknown or invalid encoding
        raise GraphError(f"{path} is not an XML file: {error}") from None


def _check_xml(content: bytes) -> None:
    """Refuse unsafe content, and errors that NetworkX would ignore."""
    parser = expat.ParserCreate(namespace_separator=" ")
    #: Keys of the data elements of each open element.
    keys: list[set[str]] = []
    nodes: set[str] = set()
    edges: list[tuple[str, str]] = []
    graphs = 0

    def refuse(message: str) -> None:
        raise GraphError(f"line {parser.CurrentLineNumber}: {message}")

    def document_type(*_: object) -> None:
        refuse("it has a document type; remove it, GraphML needs none")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal graphs
        tag = tag.rpartition(" ")[2]
        for name in {"node": ["id"], "edge": ["source", "target"], "data": ["key"]}.get(tag, ()):
            if name not in attributes:
                refuse(f"<{tag}> without {name!r}")
        if not keys and tag != "graphml":
            refuse(f"it starts with <{tag}>; expected <graphml>")
        elif len(keys) == _DEEPEST:
            refuse(f"its elements are nested {_DEEPEST} deep; expected no more than a graph needs")
        elif tag == "graph":
            graphs += 1
            if graphs > 1 or len(keys) > 1:
                refuse("it holds more than one graph; expected one")
            if attributes.get("edgedefault") != "directed":
                refuse('its edges have no direction; expected edgedefault="directed"')
        elif tag == "hyperedge":
            refuse("it holds a hyperedge; expected edges between two vertices")
        elif tag == "node":
            if attributes["id"] in nodes:
                refuse(f"node {attributes['id']!r} is there twice")
            nodes.add(attributes["id"])
        elif tag == "edge":
            edges.append((attributes["source"], attributes["target"]))
            if attributes.get("directed", "true").lower() != "true":
                refuse(f"edge {edges[-1]!r} has no direction; expected edges from the dependent vertices")
        elif tag == "data":
            if attributes["key"] in keys[-1]:
                refuse(f"the key {attributes['key']!r} is there twice; expected once for each node, edge or graph")
            keys[-1].add(attributes["key"])
        keys.append(set())

    def end(_: str) -> None:
        keys.pop()

    parser.StartDoctypeDeclHandler, parser.StartElementHandler, parser.EndElementHandler = document_type, start, end
    parser.Parse(content, True)
    if not graphs:
        raise GraphError("it holds no graph; expected a <graph> inside of <graphml>")
    for ends in edges:
        for name in ends:
            if name not in nodes:
                raise GraphError(f"edge {ends!r} names {name!r}, which is not a node of the file")


def _read(content: bytes) -> Any:
    """Return the file as a NetworkX digraph; vertices with the attribute `integer` are integers."""
    import networkx
    from networkx.readwrite.graphml import GraphMLReader

    reader = GraphMLReader(force_multigraph=True)
    reader.python_type |= dict.fromkeys(("int", "long", "integer"), _whole)
    reader.python_type |= dict.fromkeys(("float", "double"), _real)
    content = content.replace(b"<graphml>", f'<graphml xmlns="{reader.NS_GRAPHML}">'.encode(), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ports, and attributes without types
        try:
            digraph = next(reader(string=content))
        except (networkx.NetworkXError, KeyError, AttributeError, StopIteration) as error:
            raise GraphError(f"NetworkX finds no graph in it: {error}") from None
    defaults = {kind: digraph.graph.get(f"{kind}_default", {}) for kind in ("node", "edge")}
    names: dict[str, Hashable] = {}
    for text, attributes in digraph.nodes(data=True):
        attributes.update(defaults["node"] | attributes)
        whole = attributes.pop("integer", False)
        if whole and not _WHOLE_NAME.fullmatch(text):
            raise GraphError(f"node {shortened(text)} has the type int, but is not an integer")
        names[text] = int(text) if whole else text
    for *_, attributes in digraph.edges(data=True):
        attributes.update(defaults["edge"] | attributes)
    return networkx.relabel_nodes(digraph, names)


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise GraphError(f"an attribute is {shortened(text)}; expected a number of type int")
    return int(text)


def _real(text: str) -> float:
    # Python reads a number too large for a float64 as infinity, without an error
    if _REAL.fullmatch(text.strip()) and (math.isfinite(value := float(text)) or not text.strip()[-1].isdigit()):
        return value
    raise GraphError(f"an attribute is {shortened(text)}; expected a number of type double")
