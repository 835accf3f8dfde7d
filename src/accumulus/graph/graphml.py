"""Graphs as GraphML files (Brandes, Eiglsperger, Herman, Himsolt and Marshall, GraphML Progress Report, 2001).

Attributes are those of `accumulus.graph.exchange`, and `integer` for a vertex whose name is a number; files of other
programs need none of them. Node ids are the vertices' names.

A file is data and nothing else: it is parsed by expat, and one with a document type is refused before anything that it
declares is looked at, so that no entity is ever expanded and nothing outside the file is read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from accumulus.errors import GraphError
from accumulus.graph.exchange import edge_attributes, graph_attributes, graph_from, vertex_attributes
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.parsed import read_bytes

__all__ = ["read_graphml", "write_graphml"]

#: Attributes by what they belong to, with their GraphML types.
_KEYS: Final = {
    "graph": {"name": "string", "roots": "int", "terminals": "int"},
    "node": {"root": "int", "terminal": "int", "size": "int", "integer": "boolean"},
    "edge": {"label": "string", "kind": "string", "value": "double"},
}
#: What the text of an attribute may be, by its type: what Python takes besides (1_000, other digits) is refused.
_FORMS: Final = {
    "int": re.compile(r"[+-]?[0-9]{1,4000}"),
    "double": re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(INF|inf)|NaN|nan"),
    "boolean": re.compile(r"true|false|1|0", re.IGNORECASE),
}
_WORDS: Final = {"int": "number", "double": "number", "boolean": "word"}
_SAME_FORM: Final = {"long": "int", "float": "double"}
_WHOLE_NAME: Final = re.compile(r"0|-?[1-9][0-9]{0,4000}")
_ALL_KEYS: Final = frozenset(name for names in _KEYS.values() for name in names)
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(graph: DifferentiationGraph, path: str | PathLike[str]) -> None:
    """Write a graph to a GraphML file that `read_graphml` reads back as an equal graph.

    Raises:
        GraphError: if two vertices have the same name as text, or a name cannot be written in XML.
        OSError: if the file cannot be written.
    """
    for text, times in Counter(map(str, graph.vertices)).items():
        if times > 1:
            raise GraphError(
                f"{times} vertices are called {text!r} as text; rename all but one before writing the graph"
            )
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
    ]
    for owner, keys in _KEYS.items():
        for key, kind in keys.items():
            lines.append(f'  <key id="{owner}-{key}" for="{owner}" attr.name="{key}" attr.type="{kind}"/>')
    lines.append('  <graph edgedefault="directed">')
    lines += _data("graph", {"name": graph.name, **graph_attributes(graph)})
    for name, about in zip(graph.vertices, vertex_attributes(graph), strict=True):
        attributes: dict[str, Any] = dict(about)
        if isinstance(name, int) and not isinstance(name, bool):
            attributes["integer"] = "true"
        lines += _element("node", f"id={_attribute(str(name))}", attributes)
    for e, (j, i) in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        ends = f"source={_attribute(str(graph.vertices[j]))} target={_attribute(str(graph.vertices[i]))}"
        lines += _element("edge", ends, edge_attributes(graph, e))
    lines += ["  </graph>", "</graphml>", ""]
    Path(path).write_text("\n".join(lines), encoding="utf-8", newline="\n")


def read_graphml(path: str | PathLike[str]) -> DifferentiationGraph:
    """Read a graph from a GraphML file; edges run from the dependent vertices to those that they depend on.

    Raises:
        GraphError: if the file is not GraphML, has a document type, more than one graph, nested graphs, hyperedges or
            edges without direction, or does not hold an acyclic graph; the message names the line.
        OSError: if the file cannot be read.
    """
    reader = _Reader()
    try:
        reader.parser.Parse(read_bytes(path, GraphError), True)
        return reader.graph()
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two for an encoding
        raise GraphError(f"{path} is not an XML file: {error}") from None


def _element(kind: str, attributes: str, data: dict[str, Any]) -> list[str]:
    if not data:
        return [f"    <{kind} {attributes}/>"]
    return [f"    <{kind} {attributes}>", *_data(kind, data), f"    </{kind}>"]


def _data(kind: str, data: Mapping[str, object]) -> list[str]:
    return [f'      <data key="{kind}-{key}">{_text(value)}</data>' for key, value in data.items()]


def _text(value: object) -> str:
    text = repr(value) if isinstance(value, float) else str(value)
    return escape(_writable(text), {"\r": "&#13;"})


def _attribute(text: str) -> str:
    return quoteattr(_writable(text))


def _writable(text: str) -> str:
    if _NOT_XML.search(text):
        raise GraphError(f"{text!r} holds a character that XML cannot; rename it before writing the graph")
    return text


@dataclass(slots=True)
class _Item:
    """A node, an edge, or the graph, while it is read."""

    names: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


class _Reader:
    """Takes down what the parser meets."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.open: list[str] = []
        self.keys: dict[str, tuple[str, str, str]] = {}
        self.defaults: dict[tuple[str, str], Any] = {}
        self.nodes: dict[str, _Item] = {}
        self.edges: list[_Item] = []
        self.about = _Item(())
        self.item: _Item | None = None
        self.key = ""
        self.text: list[str] | None = None
        self.directed = True
        self.name: str | None = None

    def graph(self) -> DifferentiationGraph:
        if self.name is None:
            raise GraphError("it holds no graph; expected a <graph> inside of <graphml>")
        names: dict[str, Hashable] = {}
        vertices = []
        node_defaults, edge_defaults = self._defaults("node"), self._defaults("edge")
        for text, node in self.nodes.items():
            attributes = node_defaults | node.attributes
            whole = attributes.pop("integer", False)
            if whole and not _WHOLE_NAME.fullmatch(text):
                raise GraphError(f"node {shortened(text)} is said to be a whole number; expected one")
            names[text] = int(text) if whole else text
            vertices.append((names[text], attributes))
        edges = []
        for edge in self.edges:
            for end in edge.names:
                if end not in names:
                    raise GraphError(f"edge {edge.names!r} names {end!r}, which is not a node of the file")
            j, i = edge.names
            edges.append((names[j], names[i], edge_defaults | edge.attributes))
        about = self.about.attributes
        return graph_from(vertices, edges, name=about.get("name", self.name), attributes=about)

    def _defaults(self, owner: str) -> dict[str, Any]:
        return {name: value for (kind, name), value in self.defaults.items() if kind in (owner, "all")}

    def _doctype(self, *_: object) -> None:
        raise self._error("it has a document type; remove it, GraphML needs none")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]
        self.open.append(tag)
        depth = len(self.open)
        if depth == 1 and tag != "graphml":
            raise self._error(f"it starts with <{tag}>; expected <graphml>")
        if tag == "key":
            owner, name = attributes.get("for", "all"), attributes.get("attr.name", "")
            self.keys[attributes.get("id", "")] = owner, name, attributes.get("attr.type", "string")
            self.key = attributes.get("id", "")
        elif tag == "graph":
            if depth != 2 or self.name is not None:
                raise self._error("it holds more than one graph; expected one")
            self.name = attributes.get("id", "")
            self.directed = attributes.get("edgedefault", "directed") == "directed"
            self.item = self.about
        elif tag == "hyperedge":
            raise self._error("it holds a hyperedge; expected edges between two vertices")
        elif tag == "node":
            (text,) = self._required(tag, attributes, "id")
            if text in self.nodes:
                raise self._error(f"node {text!r} is there twice")
            self.item = self.nodes[text] = _Item((text,))
        elif tag == "edge":
            ends = self._required(tag, attributes, "source", "target")
            if attributes.get("directed", str(self.directed)).lower() != "true":
                raise self._error(f"edge {ends!r} has no direction; expected edges from the dependent vertices")
            self.item = _Item(ends)
            self.edges.append(self.item)
        elif tag == "data":
            (self.key,) = self._required(tag, attributes, "key")
            self.text = []
        elif tag == "default":
            self.text = []

    def _end(self, tag: str) -> None:
        tag = self.open.pop()
        if tag in ("data", "default") and self.text is not None:
            text, self.text = "".join(self.text), None
            if self.key not in self.keys:
                raise self._error(f"<{tag}> has the key {self.key!r}, which is not declared")
            owner, name, kind = self.keys[self.key]
            if name not in _KEYS.get(owner, _ALL_KEYS if owner == "all" else ()):
                return
            value = self._converted(text, kind, name)
            if tag == "default":
                self.defaults[owner, name] = value
            elif self.item is not None:
                if name in self.item.attributes:
                    raise self._error(f"{name!r} is there twice; expected once for each node, edge or graph")
                self.item.attributes[name] = value
        elif tag in ("node", "edge"):
            self.item = self.about

    def _characters(self, text: str) -> None:
        if self.text is not None:
            self.text.append(text)

    def _required(self, tag: str, attributes: dict[str, str], *names: str) -> tuple[str, ...]:
        for name in names:
            if name not in attributes:
                raise self._error(f"<{tag}> without {name!r}")
        return tuple(attributes[name] for name in names)

    def _converted(self, text: str, kind: str, name: str) -> Any:
        kind = _SAME_FORM.get(kind, kind)
        if kind not in _FORMS:
            return text
        text = text.strip()
        if _FORMS[kind].fullmatch(text):
            if kind == "int":
                return int(text)
            if kind == "boolean":
                return text.lower() in ("true", "1")
            value = float(text)
            if math.isfinite(value) or not text[-1].isdigit():
                return value
        raise self._error(f"{name!r} is {shortened(text)}; expected a {_WORDS[kind]} of type {kind}")

    def _error(self, message: str) -> GraphError:
        return GraphError(f"line {self.parser.CurrentLineNumber}: {message}")
