"""Plans in the cache: the same request again takes a look-up, not a search.

**Keys.** What decides a plan, as one hash: the graph without its names, and the version of everything that searches.

Two graphs have one hash if they have the same numbered vertices and edges: the same ends of each edge, kinds and
known values of the labels, sizes, order of roots and terminals, mirror, and entries that are wanted; where the labels
come from a tape, the same tape, since the operations of a plan are counted with those of the function. Names of
vertices and of the graph do not count, and of symbols only which ones are equal. So the same function traced again has
the same hash, in every process, and whatever is said of one such graph by numbers, an order say, holds for the other as
it stands.

Not recognised: the same graph with its vertices or edges numbered in another way. Finding that out is the isomorphism
of graphs, and it would not do: searches break ties by number, so that they may find another plan for it.

Time: linear in the graph and the tape; 0.1 ms for a few hundred operations.

**The cache.** A plan is stored under a hash of everything that decides it: the graph (`graph_hash`), the method
and every option of the search, seed and time limit among them, the work that is left to the search, and the version of
the code that searches. So a search would find the plan that is loaded, and "same seed, same plan" holds with the cache
and without. With the plan is stored what work it took, which counts again when it is loaded: what follows has as much
left either way. The plan of a search that was interrupted, or cut short by the clock, is not stored.

Each plan is JSON in a file of the cache (`accumulus.cache`). A plan that is loaded is checked and verified as a plan
file is; in the place of a damaged file a new plan is found. Where the cache cannot be written, every plan is searched.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from array import array
from typing import Any, Final

import numpy as np

from accumulus import cache
from accumulus.context import Context
from accumulus.errors import PlanError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import OF_PLANS
from accumulus.search.plan import VERSION, Plan, plan_as_data, plan_from_data
from accumulus.tape.bytes import digest, to_bytes
from accumulus.versions import code_version

__all__ = ["FOLDERS", "SWITCH", "graph_hash", "is_enabled", "key_of", "load", "search_version", "store"]

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


@functools.cache
def search_version() -> str:
    """A hash of what searches and counts: the source files, by size and time of change, and versions of packages."""
    return digest([code_version(_PACKAGES, FOLDERS).encode()])


def _numbered_symbols(symbols: tuple[str | None, ...]) -> list[int]:
    """The place of the first equal symbol for each edge, −1 for none; empty if there are no symbols at all."""
    if symbols.count(None) == len(symbols):
        return []
    first: dict[str, int] = {}
    return [-1 if symbol is None else first.setdefault(symbol, e) for e, symbol in enumerate(symbols)]


# The cache -----------------------------------------------------------------------------------------------------------


#: Environment variable that switches the cache of plans off for a process, if it is 0.
SWITCH: Final = "ACCUMULUS_CACHE_PLANS"


def is_enabled() -> bool:
    """Return whether this process stores plans, and loads them."""
    return os.environ.get(SWITCH) != "0"


def key_of(graph: DifferentiationGraph, context: Context) -> str:
    """Return the hash under which the plan is stored that a search in this context finds."""
    options = context.options
    given = {name: getattr(options, name) for name in OF_PLANS}
    given["rewritten"] = options.counts_rewritten
    # that a search is shared decides its parts; who does which does not matter
    given["executor"] = options.executor is not None
    given["work"] = context.left
    # 1 second and 1.0 are one, as they are equal
    given["time_limit"] = float(options.time_limit)
    # numbers of NumPy are written as the numbers that they are
    given = {name: value.item() if hasattr(value, "item") else value for name, value in given.items()}
    everything = json.dumps([VERSION, search_version(), graph_hash(graph), given], sort_keys=True)
    return hashlib.blake2b(everything.encode(), digest_size=16).hexdigest()


def load(key: str, graph: DifferentiationGraph) -> tuple[Plan, int] | None:
    """The plan for `graph` that is stored under the key, verified, and the work that it took; None if there is none, or
    none that is right."""
    text = cache.load("plans", key)
    if text is None:
        return None
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or type(work := data.get("work")) is not int or work < 0:
            return None
        return plan_from_data(data, graph), work
    except (PlanError, ValueError, RecursionError):
        return None


def store(key: str, plan: Plan, work: int) -> None:
    """Store a plan, and the work that it took, under the key, if that is possible."""
    cache.store("plans", key, json.dumps(plan_as_data(plan) | {"work": work}, separators=(",", ":")).encode())
