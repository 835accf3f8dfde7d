"""Plans in the cache: the same request again takes a look-up, not a search.

A plan is stored under a hash of everything that decides it: the graph (`accumulus.search.plans.plan_keys`), the method
and every option of the search, seed and time limit among them, and the version of the code that searches. So a search
would find the plan that is loaded, and "same seed, same plan" holds with the cache and without. Where the time limit
ended the search, the plan depends on the speed of the machine; the plan of the first search is stored. The plan of an
interrupted search is not.

Each plan is JSON in a file of the cache (`accumulus.cache`). A plan that is loaded is checked and verified as a plan
file is; in the place of a damaged file a new plan is found. Where the cache cannot be written, every plan is searched.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Final

from accumulus import cache
from accumulus.errors import PlanError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import OF_PLANS, Options
from accumulus.search.plans.plan import Plan
from accumulus.search.plans.plan_files import VERSION, plan_as_data, plan_from_data
from accumulus.search.plans.plan_keys import graph_hash, search_version

__all__ = ["SWITCH", "is_enabled", "key_of", "load", "store"]

#: Environment variable that switches the cache of plans off for a process, if it is 0.
SWITCH: Final = "ACCUMULUS_CACHE_PLANS"


def is_enabled() -> bool:
    """Whether this process stores plans, and loads them."""
    return os.environ.get(SWITCH) != "0"


def key_of(graph: DifferentiationGraph, options: Options) -> str:
    """The hash under which the plan is stored."""
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


def load(key: str, graph: DifferentiationGraph) -> Plan | None:
    """The plan for `graph` that is stored under the key, verified; None if there is none, or none that is right."""
    text = cache.load("plans", key)
    if text is None:
        return None
    try:
        data = json.loads(text)
        return plan_from_data(data, graph) if isinstance(data, dict) else None
    except (PlanError, ValueError, RecursionError):
        return None


def store(key: str, plan: Plan) -> None:
    """Store a plan under the key, if that is possible."""
    cache.store("plans", key, json.dumps(plan_as_data(plan), separators=(",", ":")).encode())
