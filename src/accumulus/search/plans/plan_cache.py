"""Plans in the cache: the same request again takes a look-up, not a search.

A plan is stored under a hash of everything that decides it: the graph (`accumulus.search.plans.plan_keys`), the method
and every option of the search, seed and time limit among them, the work that is left to the search, and the version of
the code that searches. So a search would find the plan that is loaded, and "same seed, same plan" holds with the cache
and without. With the plan is stored what work it took, which counts again when it is loaded: what follows has as much
left either way. The plan of a search that was interrupted, or cut short by the clock, is not stored.

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


def key_of(graph: DifferentiationGraph, options: Options, work: float) -> str:
    """The hash under which the plan is stored.

    Args:
        work: seconds of it that are left to the search.
    """
    given = {name: getattr(options, name) for name in OF_PLANS}
    given["rewritten"] = options.counts_rewritten
    # that a search is shared decides its parts; who does which does not matter
    given["executor"] = options.executor is not None
    given["work"] = work
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
