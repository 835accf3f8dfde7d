"""The best of all methods: a portfolio under one time limit.

Every registered method that no other one covers runs on the graph, and the cheapest plan wins; among equals the
simplest. So the result is never worse than that of any single method, as long as all of them end before the
time limit.
"""

from __future__ import annotations

import time
from dataclasses import replace

from accumulus.graph.graph import DifferentiationGraph
from accumulus.search.options import Options
from accumulus.search.registry import Found, get, methods, register

__all__ = ["auto"]


@register("auto", "the best of all methods")
def auto(graph: DifferentiationGraph, options: Options) -> Found:
    """Run the methods one after the other, each in the time that is left, and return the cheapest plan."""
    start = time.perf_counter()
    others = [get(name) for name in methods() if name != "auto"]
    covered = {name for method in others for name in method.covers}
    best: Found | None = None
    for method in others:
        if method.name in covered:
            continue
        left = max(0.0, options.time_limit - (time.perf_counter() - start))
        found = method(graph, replace(options, time_limit=left))
        if best is None or found.cost(options.objective) < best.cost(options.objective):
            best = found
    assert best is not None
    return best
