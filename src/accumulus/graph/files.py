"""Graph files: which form a file has is said by the end of its name.

| ends in | form | written | read |
| --- | --- | --- | --- |
| `.json` | `accumulus.graph.json_files` | yes | yes |
| `.graphml` | `accumulus.graph.graphml` | yes | yes |
| `.dot`, `.gv` | a picture for Graphviz: `accumulus.graph.dot` | yes | no |

What is read back from JSON and GraphML is an equal graph: names, order of roots and terminals, labels, known constants,
sizes. Nothing in a file is ever executed, and nothing outside of it is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from accumulus.errors import ArgumentError, GraphError
from accumulus.graph.graph import DifferentiationGraph

__all__ = ["READABLE", "load_graph", "save_graph"]

#: Module and functions for reading and writing, by the end of the name; imported when first needed.
_FORMS: Final = {
    ".json": ("json_files", "read_json", "write_json"),
    ".graphml": ("graphml", "read_graphml", "write_graphml"),
    ".dot": ("dot", None, "write_dot"),
    ".gv": ("dot", None, "write_dot"),
}

#: Ends of the names of files that `load_graph` reads.
READABLE: Final = tuple(end for end, (_, read, _) in _FORMS.items() if read)


def load_graph(path: str | PathLike[str]) -> DifferentiationGraph:
    """Read a graph from a JSON or a GraphML file.

    Args:
        path: of a file whose name ends in ``.json`` or ``.graphml``, in upper or lower case.

    Raises:
        GraphError: if the file is not of its form, or does not hold an acyclic graph; the message names the place.
        ArgumentError: if the name ends otherwise.
        OSError: if the file cannot be read.
    """
    end = _end(path)
    if end not in _FORMS:
        raise _unknown(path, READABLE)
    module, read, _ = _FORMS[end]
    if read is None:
        raise GraphError(
            f"{fspath(path)!r} is a picture in Graphviz's language, which does not hold all of a graph; expected "
            f"{_listed(READABLE)}: save the graph as one of these, too"
        )
    graph: DifferentiationGraph = _function(module, read)(path)
    return graph


def save_graph(graph: DifferentiationGraph, path: str | PathLike[str]) -> None:
    """Write a graph to a file in the form that the end of its name says.

    Args:
        path: of a file whose name ends in ``.json``, ``.graphml``, or, for a picture, ``.dot`` or ``.gv``.

    Raises:
        GraphError: if the graph has names that the form cannot hold; nothing is written then.
        ArgumentError: if the name ends otherwise.
        OSError: if the file cannot be written.
    """
    end = _end(path)
    if end not in _FORMS:
        raise _unknown(path, _FORMS)
    module, _, write = _FORMS[end]
    _function(module, write)(graph, path)


def _end(path: str | PathLike[str]) -> str:
    if not isinstance(path, str | PathLike):
        raise ArgumentError(f"path is {path!r}; expected the name of a file")
    return Path(path).suffix.lower()


def _function(module: str, name: str) -> Any:
    return getattr(import_module(f"accumulus.graph.{module}"), name)


def _unknown(path: str | PathLike[str], ends: Iterable[str]) -> ArgumentError:
    return ArgumentError(f"cannot tell the form of {fspath(path)!r}; expected a name that ends in {_listed(ends)}")


def _listed(ends: Iterable[str]) -> str:
    *most, last = ends
    return f"{', '.join(most)} or {last}"
