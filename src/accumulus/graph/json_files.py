"""Graphs as JSON files.

The form is an object with ``edges``, a list of [from, to, label]; ``roots`` and ``terminals``, lists of vertex
names; and optionally ``name``, ``sizes`` and, for whatever else there is to say, ``about``. A label is "one",
"minus_one", "constant" or "variable", a number for a constant whose value is known, null, or any other text as a
symbol. Keys that are not these, or that are there twice, are refused: a misspelt "roots" must not be overlooked.
Nothing in a file is ever executed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable
from itertools import chain
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final

from accumulus.errors import GraphError
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.graph.parsed import parsed_json

__all__ = ["read_json", "write_json"]

_KINDS: Final = {kind.name.lower(): kind for kind in Kind if kind is not Kind.ABSENT}
_KEYS: Final = ("name", "about", "roots", "terminals", "edges", "sizes")


def read_json(path: str | PathLike[str]) -> DifferentiationGraph:
    """Read a graph from a JSON file.

    Raises:
        GraphError: if the file is not JSON of the form above, or not an acyclic graph.
        OSError: if the file cannot be read.
    """
    data = parsed_json(path, GraphError, infinite=True)
    if not isinstance(data, dict) or not isinstance(data.get("edges"), list):
        raise GraphError(f"{path}: expected an object with a list 'edges' of [from, to, label]")
    for key in data:
        if key not in _KEYS:
            raise GraphError(f"{path}: unknown key {shortened(key)}; expected {', '.join(_KEYS)}")
    edges = []
    for position, edge in enumerate(data["edges"]):
        if not isinstance(edge, list) or len(edge) not in (2, 3) or not all(_is_name(v) for v in edge[:2]):
            raise GraphError(
                f"{path}: edges[{position}] is {shortened(edge)}; expected [from, to] or [from, to, label]"
            )
        label = edge[2] if len(edge) == 3 else None
        edges.append((edge[0], edge[1], _KINDS.get(label, label) if isinstance(label, str) else label))
    sizes = data.get("sizes", {})
    if not isinstance(sizes, dict) or not all(type(size) is int for size in sizes.values()):
        raise GraphError(f"{path}: 'sizes' is {shortened(sizes)}; expected an object of vertex names and whole numbers")
    name = data.get("name", Path(path).stem)
    if not isinstance(name, str):
        raise GraphError(f"{path}: 'name' is {shortened(name)}; expected text")
    ends = [_names(data, key, path) for key in ("roots", "terminals")]
    vertices = set(chain(*(edge[:2] for edge in edges), *(end or () for end in ends)))
    numbers = {str(v): v for v in vertices}
    if sizes and len(numbers) < len(vertices):
        raise GraphError(f"{path}: two vertices have the same name as text; expected others beside 'sizes'")
    named_sizes = {numbers.get(v, v): size for v, size in sizes.items()}
    try:
        return DifferentiationGraph(edges, *ends, sizes=named_sizes, name=name)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None


def write_json(graph: DifferentiationGraph, path: str | PathLike[str]) -> None:
    """Write a graph to a JSON file that `read_json` reads back as an equal graph.

    Raises:
        GraphError: if two vertices have the same name as text, or a symbol is the word for a kind.
        OSError: if the file cannot be written.
    """
    names = [v if _is_name(v) else str(v) for v in graph.vertices]
    for name, times in Counter(map(str, names)).items():
        if times > 1:
            raise GraphError(
                f"{times} vertices are called {name!r} as text; rename all but one before saving the graph"
            )
    edges = []
    for e, (source, target) in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        kind = Kind(int(graph.kinds[e]))
        word: Any = kind.name.lower()
        if kind is Kind.CONSTANT and e in graph.constants:
            word = graph.constants[e]
        elif kind is Kind.VARIABLE and graph.symbols[e] is not None:
            word = graph.symbols[e]
            if word in _KINDS:
                raise GraphError(
                    f"edges[{e}] has the symbol {word!r}, which is a kind in a file; rename it before saving"
                )
        edges.append([names[source], names[target], word])
    data: dict[str, Any] = {
        "name": graph.name,
        "roots": [names[v] for v in graph.roots],
        "terminals": [names[v] for v in graph.terminals],
        "edges": edges,
    }
    touched = {*graph.sources.tolist(), *graph.targets.tolist()}
    # ends without edges are read back if they have sizes; see `DifferentiationGraph`
    alone = {v for ends in (graph.roots, graph.terminals) if touched.isdisjoint(ends) for v in ends if touched}
    sizes = {str(names[v]): size for v, size in enumerate(graph.sizes.tolist()) if size != 1 or v in alone}
    if sizes:
        data["sizes"] = dict(sorted(sizes.items()))
    Path(path).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _is_name(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _names(data: dict[str, Any], key: str, path: str | PathLike[str]) -> list[Hashable] | None:
    names = data.get(key)
    if names is not None and not (isinstance(names, list) and all(_is_name(v) for v in names)):
        raise GraphError(f"{path}: '{key}' is {shortened(names)}; expected a list of vertex names")
    return names
