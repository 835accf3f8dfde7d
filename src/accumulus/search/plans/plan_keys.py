"""What decides a plan, as one hash: the graph without its names, and the version of everything that searches.

Two graphs have one hash if they have the same numbered vertices and edges: the same ends of each edge, kinds and
known values of the labels, sizes, order of roots and terminals, mirror, and entries that are wanted; where the labels
come from a tape, the same tape, since the operations of a plan are counted with those of the function. Names of
vertices and of the graph do not count, and of symbols only which ones are equal. So the same function traced again has
the same hash, in every process, and whatever is said of one such graph by numbers, an order say, holds for the other as
it stands.

Not recognised: the same graph with its vertices or edges numbered in another way. Finding that out is the isomorphism
of graphs, and it would not do: searches break ties by number, so that they may find another plan for it.

Time: linear in the graph and the tape; 0.1 ms for a few hundred operations.
"""

from __future__ import annotations

from array import array
from functools import cache
from typing import Any, Final

import numpy as np

from accumulus.graph.graph import DifferentiationGraph
from accumulus.tape.bytes import digest, to_bytes
from accumulus.versions import code_version

__all__ = ["FOLDERS", "graph_hash", "search_version"]

#: Packages of this library whose code decides what is found, and others whose numbers do.
FOLDERS: Final = ("tape", "graph", "elimination", "search", "theory")
_PACKAGES: Final = ("accumulus", "llvmlite")


def graph_hash(graph: DifferentiationGraph) -> str:
    """The hash of a graph, 32 hexadecimal digits; equal ones are told apart by names only.

    >>> named = DifferentiationGraph([("y", "a"), ("a", "x", -1.0)], name="named")
    >>> graph_hash(named) == graph_hash(DifferentiationGraph([(2, 1), (1, 0, -1.0)]))
    True
    >>> graph_hash(named) == graph_hash(DifferentiationGraph([(2, 1), (1, 0, 2.0)]))
    False
    """
    known = sorted(graph.constants.items())
    parts: list[Any] = [
        array("q", [len(graph.vertices), len(graph.sources), len(known)]),
        array("q", graph.roots),
        array("q", graph.terminals),
        np.ascontiguousarray(graph.sources, "<i4"),
        np.ascontiguousarray(graph.targets, "<i4"),
        np.ascontiguousarray(graph.kinds, "u1"),
        np.ascontiguousarray(graph.sizes, "<i8"),
        array("q", [e for e, _ in known]),
        array("d", [value for _, value in known]),
        array("q", _numbered_symbols(graph.symbols)),
    ]
    if graph.tape is not None:
        parts += [array("q", graph.labels), to_bytes(graph.tape)]
    if not graph.wants_all:
        for chosen in (graph.mirror, graph.wanted):
            parts += [b"all"] if chosen is None else [b"chosen", np.ascontiguousarray(chosen, "<i8")]
    return digest(map(bytes, parts))


@cache
def search_version() -> str:
    """A hash of what searches and counts: the source files, by size and time of change, and versions of packages."""
    return digest([code_version(_PACKAGES, FOLDERS).encode()])


def _numbered_symbols(symbols: tuple[str | None, ...]) -> list[int]:
    """The place of the first equal symbol for each edge, −1 for none; empty if there are no symbols at all."""
    if symbols.count(None) == len(symbols):
        return []
    first: dict[str, int] = {}
    return [-1 if symbol is None else first.setdefault(symbol, e) for e, symbol in enumerate(symbols)]
