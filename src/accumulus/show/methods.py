"""Plans of several methods for the same derivatives, side by side: their costs, and the time to find them.

Forward and reverse elimination can need far more products than the chosen plan. An upper bound is known in advance:
every vertex has at most as many derivatives as there are terminals (roots). Methods whose bound exceeds `LARGEST_SWEEP`
products are left out of reports.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from accumulus.errors import TimeLimitWarning
from accumulus.graph.graph import DifferentiationGraph
from accumulus.options import COUNTED, Objective
from accumulus.search.find import plan
from accumulus.search.plan import BodyPlan, Plan
from accumulus.show.tables import amount, change, duration, table

if TYPE_CHECKING:
    from rich.table import Table


#: Methods without a search, which every report compares with the chosen one.
SWEEPS: Final = ("forward", "reverse", "markowitz")
#: Largest bound on the products of a method that a report counts; counting takes about two seconds. A larger one delays
#: reports, a smaller one leaves the method out of them.
LARGEST_SWEEP: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class MethodCosts:
    """One method's plan for a graph: its costs, and the seconds that finding it took.

    Operations are counted on the plan's tape before rewriting.
    """

    method: str
    fma: int
    multiplications: int
    operations: int
    seconds: float = 0.0
    lower_bound: int | None = None

    @classmethod
    def of(cls, plan: Plan, method: str | None = None) -> MethodCosts:
        """Return the costs of a plan, under the name `method` or the plan's own."""
        return cls(method or plan.method, **plan.costs, seconds=plan.seconds, lower_bound=plan.lower_bound)

    def cost(self, objective: str) -> int:
        """Return the cost under one objective."""
        return int(getattr(self, Objective.of(objective).counted))

    def to_dict(self) -> dict[str, Any]:
        """Return the costs as plain data."""
        return asdict(self)


def compared(graph: DifferentiationGraph, methods: Iterable[str], **options: Any) -> Iterator[MethodCosts]:
    """Plan with each method in turn; leave out methods that do not finish in their time.

    Args:
        graph: graph to plan.
        methods: names of the methods.
        options: as for `accumulus.plan`; the cache is not used, so that times include the search.
    """
    for method in methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TimeLimitWarning)
            candidate = plan(graph, method=method, **{"cache": False, **options})
        if method in ("auto", candidate.method):
            yield MethodCosts.of(candidate, method)


def small_enough(graph: DifferentiationGraph, method: str) -> bool:
    """Return True if a report counts this method, see the module's docstring."""
    ends = {"forward": len(graph.terminals), "reverse": len(graph.roots)}.get(method, 1)
    return len(graph.sources) * ends <= LARGEST_SWEEP


def comparison_table(candidates: Iterable[MethodCosts], chosen: str | None = None) -> Table:
    """Return a table with a row for each candidate; the chosen one is highlighted."""
    rows = [
        (
            candidate.method,
            amount(candidate.fma),
            amount(candidate.multiplications),
            amount(candidate.operations),
            duration(candidate.seconds) if candidate.seconds else "",
        )
        for candidate in candidates
    ]
    headings = ("method", "fma", "multiplications", "operations", "found in")
    return table(headings, rows, marked=chosen)


def distinct(candidates: Sequence[MethodCosts], objective: str, count: int) -> list[MethodCosts]:
    """Return the forward, reverse, Markowitz and automatic candidates and the best others, by cost.

    Of candidates with equal costs, the quickest is returned.

    >>> costs = [MethodCosts("forward", 9, 9, 9), MethodCosts("a", 5, 5, 5, seconds=1.0), MethodCosts("b", 5, 5, 5)]
    >>> [each.method for each in distinct(costs, "fma", 2)]
    ['b', 'forward']
    """
    ranked = sorted(candidates, key=lambda each: (each.cost(objective), each.seconds))
    best = {(each.fma, each.multiplications, each.operations): each for each in reversed(ranked)}.values()
    always = [each for each in ranked if each.method in (*SWEEPS, "auto")]
    alternatives = [each for each in ranked if each in best and each not in always]
    return [each for each in ranked if each in always or each in alternatives[: max(count - len(always), 0)]]


def chosen_because(chosen: MethodCosts, alternatives: Iterable[MethodCosts], objective: str) -> str:
    """Return a comparison of the chosen plan with the others, and with the lower bound if it is known.

    >>> chosen = MethodCosts("vertex", 9, 6, 30, lower_bound=25)
    >>> chosen_because(chosen, [MethodCosts("forward", 12, 8, 40), MethodCosts("reverse", 12, 8, 40)], "operations")
    'vertex with 30 operations, 25 % fewer than forward and reverse. No order needs fewer than 25.'
    """
    cost = chosen.cost(objective)
    names_by_change: dict[str, list[str]] = {}
    for other in alternatives:
        if other.method != chosen.method:
            names_by_change.setdefault(change(cost, other.cost(objective)), []).append(other.method)
    phrases = [f"{words} {_listed(names)}" for words, names in names_by_change.items()]
    sentence = ", ".join([f"{chosen.method} with {amount(cost)} {objective}", *phrases])
    if chosen.lower_bound is None:
        return f"{sentence}."
    if chosen.lower_bound >= cost:
        return f"{sentence}. Proven optimal."
    return f"{sentence}. No order needs fewer than {amount(chosen.lower_bound)}."


def compared_with_best(cost: int, lower_bound: int) -> str:
    """Return a comparison of an order's multiplications with a lower bound on those of all orders of vertices.

    >>> compared_with_best(184, 172)
    'It takes 184 multiplications, and every order of vertices takes at least 172.'
    >>> compared_with_best(151, 151)
    'It takes 151 multiplications, and no order of vertices takes fewer.'
    """
    bound = (
        "no order of vertices takes fewer"
        if lower_bound >= cost
        else f"every order of vertices takes at least {lower_bound:,}"
    )
    return f"It takes {cost:,} multiplications, and {bound}."


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Costs of a program's plans, and of other methods in their place.

    Attributes:
        chosen: costs of the program's plans, of all instances of its bodies.
        others: costs of methods for comparison.
        objective: quantity that the plans minimise.
        uncounted: methods that were left out since they may need too many products.
    """

    chosen: MethodCosts
    others: tuple[MethodCosts, ...]
    objective: Objective
    uncounted: tuple[str, ...]

    @classmethod
    def of(cls, bodies: Sequence[BodyPlan]) -> Self:
        """Return the comparison for the plans of bodies; planning the other methods takes a moment.

        >>> import accumulus as acc
        >>> plan = acc.plan(acc.graphs.lion(), "vertex", "fma", cache=False)
        >>> comparison = Comparison.of([BodyPlan(10, b"", plan, frozenset())])
        >>> comparison.chosen.fma, [each.method for each in comparison.others]
        (120, ['forward', 'reverse', 'markowitz'])
        """
        plans, chosen = counted_plans(bodies), costs_of(bodies)
        objective = plans[0][1].objective
        others, uncounted = [], []
        for method in SWEEPS:
            if method == chosen.method:
                continue
            if not all(small_enough(each.graph, method) for _, each in plans):
                uncounted.append(method)
                continue
            costs = []
            for count, each in plans:
                known = [MethodCosts.of(each)] if method == each.method else ()
                costs += [(count, of) for of in known or compared(each.graph, [method], objective=objective)]
            if len(costs) == len(plans):
                others.append(_total(method, costs))
        return cls(chosen, tuple(others), objective, tuple(uncounted))


def costs_of(bodies: Sequence[BodyPlan]) -> MethodCosts:
    """Return the costs of the plans of bodies, of all instances."""
    plans = counted_plans(bodies)
    found = {each.method for _, each in plans}
    name = found.pop() if len(found) == 1 else "this program"
    return _total(name, [(count, MethodCosts.of(each)) for count, each in plans])


def counted_plans(bodies: Sequence[BodyPlan]) -> list[tuple[int, Plan]]:
    """Return the plans of bodies, each once, with the number of its instances."""
    counts: dict[int, int] = {}
    for each in bodies:
        counts[id(each.plan)] = counts.get(id(each.plan), 0) + each.count
    return [(counts[key], each) for key, each in {id(each.plan): each.plan for each in bodies}.items()]


def _total(name: str, costs: Sequence[tuple[int, MethodCosts]]) -> MethodCosts:
    """Return the costs of all instances; the lower bound is known if that of each body is."""
    sums = [sum(count * each.cost(objective) for count, each in costs) for objective in COUNTED]
    bounds = [count * each.lower_bound for count, each in costs if each.lower_bound is not None]
    bound = sum(bounds) if len(bounds) == len(costs) else None
    counted = dict(zip(COUNTED, sums, strict=True))
    return MethodCosts(name, **counted, seconds=sum(each.seconds for _, each in costs), lower_bound=bound)
