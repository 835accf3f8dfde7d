"""Registry of methods: every method of accumulation under its name in the literature, with one signature.

A method takes a graph and a `Context`, and returns a `SearchResult`. A new method needs a row in the table of
`accumulus.methods`, and `register_method` in the module that the row names. Then `accumulus.plan` and the command line
offer it, and the tests run every cross-check on it.

**The best of all methods** (`auto`) is a portfolio under one time limit. For the graph of a gradient, which has a
mirror, `symmetric` makes the plan.

With effort "fast", and if the tape is rewritten afterwards, only `vertex` runs, which begins with the greedy orders:
the rewriter saves more operations than other methods would. Otherwise `face` runs first. It begins with `edge`, which
begins with `vertex`, and no method is worse than the one that it begins with. Then the deterministic methods run, in
ascending order of their estimated time. The cheapest plan wins, and the earliest among equals.

The choice of methods does not depend on the clock. A deterministic method runs if its estimate
(`accumulus.search.elimination.Workload`) fits into

* effort "thorough": half of the remaining work;
* effort "balanced": half of the remaining work, and, together with the methods before it, a tenth of the estimated time
  of the vertex search. The second limit does not apply if the best plan so far has at most `SMALL` products.

So on small graphs, and with "thorough" and enough time, no single method is better. On larger graphs an omitted method
may be better by a few percent (measured in ``docs/architecture.md``); call it by name if that matters. With a time
limit or a number of iterations of 0, the result is the best greedy order.

Finally the cost of the plan is compared with a lower bound for face eliminations, and the searches of
`accumulus.theory.exact` run on small graphs: briefly with "balanced", for all the remaining time with "thorough", and
not at all with "fast". So a plan's lower bound holds for face eliminations, the widest class of searches, which
contains vertex and edge eliminations. "Optimal" means that no face elimination is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Final

from accumulus.context import Context
from accumulus.deadline import OutOfTimeError
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.emit import count
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.graph.graph import DifferentiationGraph
from accumulus.methods import METHODS, PROOFS, check_method
from accumulus.native.machine import prepare
from accumulus.options import Options
from accumulus.search.elimination import Workload, cheapest_sweep


@dataclass(frozen=True)
class SearchResult:
    """Result of a method: a vertex elimination order, or another accumulation of the graph.

    Attributes:
        graph: the graph that was searched.
        method: name of the method that found the plan. A method that does not improve on the plan that it starts from
            keeps the name of that plan's method.
        order: intermediate vertices by number, for methods that eliminate vertices.
        lower_bound: lower bound for all vertex eliminations if the method is `exact-vertex`, for all edge eliminations
            if it is `exact-edge`, else for all face eliminations; None if no bound is known.
        interrupted: True if Ctrl-C ended the search, so that no further search may run.
        unfinished: True if the method did not finish in its time, and this is the result of a sweep instead.
        first_order: vertex order that a search for edges or faces began with.
    """

    graph: DifferentiationGraph
    method: str
    order: tuple[int, ...] | None = None
    lower_bound: int | None = None
    _accumulation: Accumulation | None = field(default=None, repr=False)
    interrupted: bool = False
    unfinished: bool = False
    first_order: tuple[int, ...] | None = None
    _costs: dict[str, int] = field(default_factory=dict, repr=False)

    @cached_property
    def accumulation(self) -> Accumulation:
        """Return the accumulation, computed on first access, without steps that only unselected entries need."""
        if self._accumulation is not None:
            return self._accumulation.selected()
        assert self.order is not None, "a method returns an order or an accumulation"
        return eliminate_vertices(self.graph, self.order)

    def cost(self, objective: str) -> int:
        """Return the cost under an objective, as `accumulus.elimination.emit.count` counts it."""
        if objective not in self._costs:
            self._costs[objective] = count(self.accumulation, objective)
        return self._costs[objective]


#: Smallest time limit in seconds of a deterministic method that is called by name. A larger one exceeds short limits by
#: more; with a smaller one, more calls under a short limit return a sweep instead of the method's result.
ANYWAY: Final = 0.1

#: Function of a method. After the deadline it returns its best result so far, or raises `OutOfTimeError`.
Finder = Callable[[DifferentiationGraph, Context], SearchResult]


@dataclass(frozen=True, slots=True)
class Method:
    """A registered method, called with a graph and a context."""

    name: str
    find: Finder
    #: Estimated seconds of a deterministic method; None if the method observes the time limit.
    seconds: Callable[[Workload], float] | None = None

    def __call__(self, graph: DifferentiationGraph, context: Context) -> SearchResult:
        """Return the method's result, or the better sweep, marked unfinished, if the method runs out of time.

        Only the clock ends a deterministic method, since its work is only estimated.
        """
        try:
            return self.find(graph, context if self.seconds is None else context.at_least(ANYWAY))
        except OutOfTimeError:
            sweep = cheapest_sweep(graph)
            return SearchResult(graph, sweep.name, sweep.order, unfinished=True)


#: Methods of the modules that have been imported.
_REGISTERED: Final[dict[str, Method]] = {}


def register_method(name: str, seconds: Callable[[Workload], float] | None = None) -> Callable[[Finder], Finder]:
    """Register a method under its name in `accumulus.methods.METHODS`.

    Args:
        name: name of the method.
        seconds: estimated time of a deterministic method, which cannot observe a time limit.
    """

    def registered(find: Finder) -> Finder:
        assert name not in _REGISTERED, f"two methods are named {name}"
        assert name in METHODS, f"{name} is not in the table of methods"
        _REGISTERED[name] = Method(name, find, seconds)
        return find

    return registered


def get(name: str) -> Method:
    """Return the method of that name; its module is imported on first use.

    Raises:
        UnknownNameError: if the method does not exist; the message lists all methods.
    """
    check_method(name)
    if name not in _REGISTERED:
        import_module(METHODS[name].module)
    return _REGISTERED[name]


#: Number of products of the best plan up to which every method runs: a larger number costs preparation time on small
#: graphs, a smaller one misses cheaper plans for them.
SMALL: Final = 100
#: Fraction of the time limit that is reserved for the deterministic methods. A larger one takes time from the search of
#: face eliminations, a smaller one leaves out methods and proofs under short limits.
_DETERMINISTIC: Final = 0.2
#: Time for all deterministic methods together: a fraction of the estimated time of the vertex search, and a minimum in
#: seconds. Larger ones slow down every preparation, smaller ones try fewer methods.
_SHARE: Final = 0.1
_MINIMUM: Final = 1e-3
#: Number of edges beyond which deterministic methods run only with effort "thorough", and proofs never. A larger number
#: costs time on large graphs, a smaller one misses cheaper plans and bounds for them.
_LARGEST: Final = 200_000
#: Seconds for each product to emit a plan's tape and count its operations. Too large an estimate leaves out methods
#: that would fit the budget, too small a one exceeds the budget.
_TAPE: Final = 15e-6


@register_method("auto")
def auto(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Search face eliminations, then run the deterministic methods and the proofs in the remaining time."""
    options = context.options
    if graph.mirror is not None:
        return get("symmetric").find(graph, context)
    if options.effort == "fast" or options.counts_rewritten:
        return get("vertex").find(graph, context)
    if not options.objective.on_tape and options.searches:
        with context.paused():
            prepare("search.order", "theory.mixed", "theory.faces")  # compiled in parallel, if they are not yet
    best = get("face").find(graph, context.part(1 - _DETERMINISTIC))
    if best.interrupted or not options.searches or context.passed:
        return best
    included = {"face", *_included("face")}  # `face` has run these methods
    rest = [get(name) for name in METHODS if name not in {"auto", *included}]
    deterministic = [method for method in rest if method.seconds is not None]
    try:
        for method, seconds in _affordable(graph, options, deterministic, best):
            if 2 * seconds > context.left:
                continue
            try:
                result = method.find(graph, context)
            except OutOfTimeError:
                break
            context.spend(seconds)
            if result.cost(options.objective) < best.cost(options.objective):
                best = result
            context.report("plan", best.cost(options.objective))
    except KeyboardInterrupt:
        return replace(best, interrupted=True)
    if len(graph.sources) > _LARGEST or context.passed or not graph.wants_all:
        return best
    proven: SearchResult = import_module(PROOFS).proven(
        graph, context, best, "face", brief=options.effort != "thorough"
    )
    return proven


def _included(name: str) -> set[str]:
    """Return the methods that a method begins with, recursively."""
    begun = METHODS[name].starts_from
    return set(begun).union(*map(_included, begun))


def _affordable(
    graph: DifferentiationGraph, options: Options, methods: list[Method], best: SearchResult
) -> list[tuple[Method, float]]:
    """Return the deterministic methods that fit the budget, with their estimated seconds, in ascending order."""
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
    # estimated seconds of the vertex search: annealing, which has a limit, and the greedy orders
    search = min(4e-6 * len(graph.intermediates) ** 2, 0.12) + 4e-6 * work.fewest
    budget = max(_MINIMUM, _SHARE * search)
    chosen = []
    for method, seconds in estimates:
        budget -= seconds
        if budget < 0:
            break
        chosen.append((method, seconds))
    return chosen
