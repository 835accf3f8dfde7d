"""The best of all methods: a portfolio under one time limit.

Of a graph with a mirror, which is that of a gradient, `symmetric` makes the plan.

Under "fast", and where the tape is rewritten afterwards, only `vertex` runs, which begins with the greedy orders: the
rewriter saves more operations than other methods would. Else `face` runs first: it begins with `edge`, that with
`vertex`, and none is worse than the method that it begins with. Then come the deterministic methods, those first that
are estimated to take the least time, and the cheapest plan wins; among equals the simplest.

Which methods run does not depend on the clock. A deterministic method runs if its estimate
(`accumulus.search.sweeps`) fits into

* effort "thorough": half of the work that is left;
* "balanced": the same, and, together with the methods before it, a tenth of the estimated time of the vertex search. On
  graphs whose best plan so far has at most `SMALL` products, only half of the work that is left.

So on small graphs, and under "thorough" with enough time, no single method is better. On larger ones one that is left
out may be, by a percent or a few (``docs/architecture.md`` says what was measured); where that matters, it can be asked
for by name. Without time, or iterations, the best greedy order is all.

Last, the cost of the plan is compared with a lower bound of face eliminations, and the searches of
`accumulus.theory.exact` run on graphs where they are short: briefly, or under "thorough" for all the time that is left;
not at all under "fast". So a plan's lower bound is one for face eliminations, the widest class that is searched: vertex
and edge eliminations are face eliminations. That a plan "is optimal" says that no face elimination is cheaper.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Final

from accumulus.deadline import Deadline, OutOfTimeError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.methods import METHODS, PROOFS
from accumulus.native.machine import prepare
from accumulus.options import Options
from accumulus.search.registry import Method, SearchResult, get, register
from accumulus.search.sweeps import Workload

__all__ = ["auto"]

#: Products up to which every method runs.
SMALL: Final = 100
#: Part of the time limit that is left to the deterministic methods.
_DETERMINISTIC: Final = 0.2
#: Part of the estimated time of the vertex search that all deterministic methods together may take; at least so many
#: seconds.
_SHARE: Final = 0.1
_MINIMUM: Final = 1e-3
#: Edges beyond which no estimates are made, unless the effort is thorough.
_LARGEST: Final = 200_000
#: Seconds for each product to count the operations of a plan: its tape is emitted.
_TAPE: Final = 15e-6


@register("auto")
def auto(graph: DifferentiationGraph, options: Options, deadline: Deadline) -> SearchResult:
    """Search for face eliminations, then try the deterministic methods and the proofs in the time that is left."""
    if graph.mirror is not None:
        return get("symmetric").find(graph, options, deadline)
    if options.effort == "fast" or options.counts_rewritten:
        return get("vertex").find(graph, options, deadline)
    if not options.objective.on_tape and options.searches:
        with deadline.paused():
            prepare("search.order", "theory.mixed", "theory.faces")  # side by side, where they have to be compiled
    best = get("face").find(graph, options, deadline.part(1 - _DETERMINISTIC))
    if best.interrupted or not options.searches or deadline.passed:
        return best
    included = {"face", *_included("face")}  # `face` has run all of these
    others = [get(name) for name in METHODS if name not in {"auto", *included}]
    deterministic = [method for method in others if method.seconds is not None]
    try:
        for method, seconds in _affordable(graph, options, deterministic, best):
            if 2 * seconds > deadline.left:
                continue
            try:
                found = method.find(graph, options, deadline)
            except OutOfTimeError:
                break
            deadline.spend(seconds)
            if found.cost(options.objective) < best.cost(options.objective):
                best = found
            options.tell(deadline, "plan", best.cost(options.objective))
    except KeyboardInterrupt:
        return replace(best, interrupted=True)
    if len(graph.sources) > _LARGEST or deadline.passed or not graph.wants_all:
        return best
    proven: SearchResult = import_module(PROOFS).proven(
        graph, options, deadline, best, "face", brief=options.effort != "thorough"
    )
    return proven


def _included(name: str) -> set[str]:
    """The methods that a method begins with, and those that these begin with."""
    begun = METHODS[name].starts_from
    return set(begun).union(*map(_included, begun))


def _affordable(
    graph: DifferentiationGraph, options: Options, methods: list[Method], best: SearchResult
) -> list[tuple[Method, float]]:
    """The deterministic methods that are worth their time, and the seconds that each takes, the fewest first."""
    patient = options.effort == "thorough"
    if len(graph.sources) > _LARGEST and not patient:
        return []
    work = Workload.of(graph)
    counting = _TAPE * 2 * work.fewest if options.objective.on_tape else 0.0
    estimates = [(method, method.seconds(work) + counting) for method in methods if method.seconds is not None]
    estimates.sort(key=lambda estimate: estimate[1])
    products = best.accumulation.steps.is_product.count(1)
    if patient or products <= SMALL:
        return estimates
    budget = max(_MINIMUM, _SHARE * _search_seconds(len(graph.intermediates), work))
    chosen = []
    for method, seconds in estimates:
        budget -= seconds
        if budget < 0:
            break
        chosen.append((method, seconds))
    return chosen


def _search_seconds(vertices: int, work: Workload) -> float:
    """Estimated seconds of the vertex search: annealing, whose runs are limited, and the greedy orders."""
    return min(4e-6 * vertices**2, 0.12) + 4e-6 * work.fewest
