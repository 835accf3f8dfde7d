"""What decides a plan, as one hash: the graph without its names, and the version of everything that searches.

Two graphs have one hash if they have the same numbered vertices and edges: the same ends of each edge, kinds and
known values of the labels, sizes, and order of roots and terminals; where the labels come from a tape, the same tape,
since the operations of a plan are counted with those of the function. Names of vertices and of the graph do not
count, and of symbols only which ones are equal. So the same function traced again has the same hash, in every process,
and whatever is said of one such graph by numbers, an order say, holds for the other as it stands.

Not recognised: the same graph with its vertices or edges numbered in another way. Finding that out is the isomorphism
of graphs, and it would not do: searches break ties by number, so that they may find another plan for it.

Time: linear in the graph and the tape; 0.1 ms for a few hundred operations.
"""

from __future__ import annotations

import hashlib
import os
import platform
from array import array
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np

from accumulus.graph.graph import DifferentiationGraph
from accumulus.tape.tape import Tape

__all__ = ["graph_hash", "search_version"]

#: Rooms whose code decides what is found, and packages whose numbers do.
_ROOMS: Final = ("tape", "graph", "accumulate", "search")
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
        parts += [array("q", graph.labels), *_tape_parts(graph.tape)]
    return _digest(map(bytes, parts))


@cache
def search_version() -> str:
    """A hash of what searches and counts: the source files, by size and time of change, and versions of packages.

    Reading the files would take longer than all the rest of a look-up.
    """
    parts = [f"{np.__version__} {platform.machine()}"]
    for package in _PACKAGES:
        try:
            parts.append(version(package))
        except PackageNotFoundError:  # run from its sources
            parts.append("")
    root = Path(__file__).parents[2]
    for room in _ROOMS:
        for folder, _, files in sorted(os.walk(root / room)):
            for file in sorted(files):
                if file.endswith(".py"):
                    known = os.stat(os.path.join(folder, file))
                    parts.append(f"{folder.removeprefix(str(root))}/{file} {known.st_size} {known.st_mtime_ns}")
    return _digest(part.encode() for part in parts)


def _numbered_symbols(symbols: tuple[str | None, ...]) -> list[int]:
    """The place of the first equal symbol for each edge, −1 for none; empty if there are no symbols at all."""
    if symbols.count(None) == len(symbols):
        return []
    first: dict[str, int] = {}
    return [-1 if symbol is None else first.setdefault(symbol, e) for e, symbol in enumerate(symbols)]


def _tape_parts(tape: Tape) -> list[Any]:
    third = sorted(tape.third.items())
    return [
        array("q", [tape.inputs, len(tape), len(tape.constants)]),
        tape.codes,
        tape.first,
        tape.second,
        array("q", [number for pair in third for number in pair]),
        array("d", tape.constants),
        array("q", tape.outputs),
    ]


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        # lengths, so that nothing can move from one part to the next
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
