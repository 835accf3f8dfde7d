"""Ways to accumulate one graph, side by side: what each costs under every objective, and how long it took to find.

The sweeps of forward and reverse elimination can need far more products than the plan that was chosen. How many at
most is known before: every vertex has at most as many derivatives as there are terminals (roots). Methods that would
take more than `LARGEST_SWEEP` products are left out of reports.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from accumulus.errors import TimeLimitWarning
from accumulus.graph.graph import DifferentiationGraph
from accumulus.search.find import plan
from accumulus.search.plan import Plan
from accumulus.show.tables import amount, change, duration, table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["SWEEPS", "Candidate", "chosen_because", "compare", "comparison_table", "small_enough"]

#: Methods without a search, which every report shows beside the chosen one.
SWEEPS: Final = ("forward", "reverse", "markowitz")
#: Products of forward or reverse elimination, at most, up to which a report counts them; about two seconds.
LARGEST_SWEEP: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """One method's plan for a graph: its costs, and the seconds in which it was found.

    Operations are those of the plan's tape before it is rewritten.
    """

    method: str
    fma: int
    multiplications: int
    operations: int
    seconds: float = 0.0
    lower_bound: int | None = None

    @classmethod
    def of(cls, found: Plan, method: str | None = None) -> Candidate:
        """Costs of a plan; under the name `method`, if given, instead of the plan's own."""
        return cls(method or found.method, **found.costs, seconds=found.seconds, lower_bound=found.lower_bound)

    def cost(self, objective: str) -> int:
        """The cost under one objective."""
        return int(getattr(self, objective))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def compare(graph: DifferentiationGraph, methods: Iterable[str], **options: Any) -> Iterator[Candidate]:
    """Plan with one method after the other, each under its own name; without those that do not finish in their time.

    Args:
        options: as for `accumulus.plan`; nothing is taken from the cache, so that times are those of searches.
    """
    for method in methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TimeLimitWarning)
            found = plan(graph, method=method, **{"cache": False, **options})
        if method in ("auto", found.method):
            yield Candidate.of(found, method)


def small_enough(graph: DifferentiationGraph, method: str) -> bool:
    """Whether a report can afford to count this method, see the module."""
    ends = {"forward": len(graph.terminals), "reverse": len(graph.roots)}.get(method, 1)
    return len(graph.sources) * ends <= LARGEST_SWEEP


def comparison_table(candidates: Iterable[Candidate], chosen: str | None = None) -> Table:
    """The candidates as rows; the chosen one set off."""
    rows = [
        (
            candidate.method,
            amount(candidate.fma),
            amount(candidate.multiplications),
            amount(candidate.operations),
            duration(candidate.seconds),
        )
        for candidate in candidates
    ]
    headings = ("method", "fma", "multiplications", "operations", "found in")
    return table(headings, rows, marked=chosen)


def chosen_because(chosen: Candidate, others: Iterable[Candidate], objective: str) -> str:
    """One sentence: how the chosen plan compares with the others, and with the lower bound if one is known.

    >>> chosen = Candidate("vertex", 9, 6, 30, lower_bound=25)
    >>> chosen_because(chosen, [Candidate("forward", 12, 8, 40), Candidate("reverse", 12, 8, 40)], "operations")
    'vertex with 30 operations, 25 % fewer than forward and reverse. No order needs fewer than 25.'
    """
    cost = chosen.cost(objective)
    names_by_change: dict[str, list[str]] = {}
    for other in others:
        if other.method != chosen.method:
            names_by_change.setdefault(change(cost, other.cost(objective)), []).append(other.method)
    phrases = [f"{words} {_listed(names)}" for words, names in names_by_change.items()]
    sentence = ", ".join([f"{chosen.method} with {amount(cost)} {objective}", *phrases])
    if chosen.lower_bound is None:
        return f"{sentence}."
    if chosen.lower_bound >= cost:
        return f"{sentence}. Proven optimal."
    return f"{sentence}. No order needs fewer than {amount(chosen.lower_bound)}."


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
