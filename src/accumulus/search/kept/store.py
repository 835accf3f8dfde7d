"""Plans that have been found, kept on disk: who asks the same again pays for looking it up.

A plan is kept under a hash of everything that decides it: the graph (`accumulus.search.kept.hashing`), the method and
every option of the search, seed and time limit among them, and the version of the code that searches. So what is
recalled is what a search would have found, and "same seed, same plan" holds with and without. Where the time limit
ended the search, and the plan depends on how fast the machine was, it is what the first search found in that time. A
search that was interrupted is not kept.

Each plan is JSON in a file of the cache (`accumulus.cache`). What is read is checked and verified as a plan file is;
what is damaged is made again. Where nothing can be written, plans are found as without.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Final

from accumulus.cache import load, store
from accumulus.errors import PlanError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import OF_PLANS, Options
from accumulus.search.kept.files import VERSION, read_found, written_found
from accumulus.search.kept.hashing import graph_hash, search_version
from accumulus.search.plan import Plan

__all__ = ["SWITCH", "is_on", "key_of", "recall", "remember"]

#: Environment variable that switches the memory off for a process, if it is 0.
SWITCH: Final = "ACCUMULUS_CACHE_PLANS"


def is_on() -> bool:
    """Whether plans are kept in this process."""
    return os.environ.get(SWITCH) != "0"


def key_of(graph: DifferentiationGraph, options: Options) -> str:
    """The hash under which the plan is kept."""
    given = {name: getattr(options, name) for name in OF_PLANS}
    given["rewritten"] = options.counts_rewritten
    # that a search is shared decides its parts; who does which does not matter
    given["executor"] = options.executor is not None
    # 1 second and 1.0 are one, as they are equal
    given["time_limit"] = float(options.time_limit)
    # numbers of NumPy are written as the numbers that they are
    given = {name: value.item() if hasattr(value, "item") else value for name, value in given.items()}
    everything = json.dumps([VERSION, search_version(), graph_hash(graph), given], sort_keys=True)
    return hashlib.blake2b(everything.encode(), digest_size=16).hexdigest()


def recall(key: str, graph: DifferentiationGraph) -> Plan | None:
    """The plan for `graph` that is kept under the key, verified; None if there is none, or none that is right."""
    text = load("plans", key)
    if text is None:
        return None
    try:
        data = json.loads(text)
        return read_found(data, graph) if isinstance(data, dict) else None
    except (PlanError, ValueError, RecursionError):
        return None


def remember(key: str, plan: Plan) -> None:
    """Keep a plan under the key, if anything can be kept."""
    store("plans", key, json.dumps(written_found(plan), separators=(",", ":")).encode())
