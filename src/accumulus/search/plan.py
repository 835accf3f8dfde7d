"""Plans: an accumulation, how it was found, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.emit import count
from accumulus.errors import VerificationError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.objective import Objective
from accumulus.options import Effort
from accumulus.text import printable

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """A verified accumulation of a graph's Jacobian, and how it was found.

    Attributes:
        graph: the differentiation graph.
        accumulation: the products and sums.
        method: what found it; for "auto" the method that won, "order" for an order that was given.
        objective: what was minimised.
        cost: under the objective.
        order: intermediate vertices by number, if the plan is a vertex elimination.
        lower_bound: no elimination of the plan's `scope` can cost less; None if nothing is known.
        seconds: that the search took, when the plan was found.
        seed: of the search.
        effort, time_limit: of the search; what is compiled by this plan takes them, too, unless it is told otherwise.
        cut_short: whether the clock ended the search before its work was done, so that another may find another plan.
        recalled: whether it was loaded from the cache, not searched for; see `accumulus.search.plan_cache`.
    """

    graph: DifferentiationGraph
    accumulation: Accumulation
    method: str
    objective: Objective
    cost: int
    order: tuple[int, ...] | None = None
    lower_bound: int | None = None
    seconds: float = field(default=0.0, compare=False)
    seed: int = 0
    effort: Effort = field(default="balanced", compare=False)
    time_limit: float = field(default=2.0, compare=False)
    recalled: bool = field(default=False, compare=False)
    cut_short: bool = field(default=False, compare=False)

    @cached_property
    def costs(self) -> dict[Objective, int]:
        """Cost under every objective."""
        return {
            objective: self.cost if objective == self.objective else count(self.accumulation, objective)
            for objective in Objective
        }

    @property
    def scope(self) -> str:
        """Return what `lower_bound` speaks of: "vertex", "edge" or "face" eliminations.

        Each is a part of the next, and a bound for face eliminations one for all. Methods that share and factor in ways
        that are no elimination could in principle be cheaper than the best face elimination; none is known to be.
        """
        return {"exact-vertex": "vertex", "exact-edge": "edge"}.get(self.method, "face")

    @property
    def is_optimal(self) -> bool:
        """Return whether it is proven that no elimination of the plan's `scope` is cheaper.

        >>> from accumulus import plan
        >>> graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x")])
        >>> plan(graph, "exact-vertex").is_optimal
        True
        """
        return self.lower_bound is not None and self.cost <= self.lower_bound

    @property
    def gap(self) -> float | None:
        """Part of the cost that a better elimination of the plan's `scope` might save at most: (cost − bound) / cost.

        0 if the plan is optimal, None if no lower bound is known.
        """
        if self.lower_bound is None:
            return None
        return (self.cost - self.lower_bound) / self.cost if self.cost else 0.0

    def verify(self) -> None:
        """Check against the graph that this plan computes its Jacobian, and is what it says of itself.

        What it computes is checked as `Accumulation.verify` says; its cost is counted again, unless it is that of an
        emitted program, which would take longer than the rest.

        Raises:
            VerificationError: if it does not, or is not.
        """
        self.accumulation.verify()
        if self.accumulation.graph is not self.graph:
            raise VerificationError("the plan's accumulation is for another graph than the plan; make the plan again")
        if self.order is not None and sorted(self.order) != list(self.graph.intermediates):
            raise VerificationError(f"the plan's order is {self.order!r:.60}; expected every intermediate vertex once")
        counted = self.cost if self.objective.on_tape else count(self.accumulation, self.objective)
        if counted != self.cost or (self.lower_bound is not None and self.lower_bound > self.cost):
            raise VerificationError(
                f"the plan claims to cost {self.cost} {self.objective}, and that none costs less than "
                f"{self.lower_bound}; it costs {counted}"
            )

    def __str__(self) -> str:
        name = f" of {self.graph.name}" if self.graph.name else ""
        return printable(f"plan{name} by {self.method}: {self.cost} {self.objective}")

    def _repr_html_(self) -> str:
        from accumulus.markup import facts, paragraph, stacked

        bound = "proven optimal" if self.is_optimal else f"{self.lower_bound:,}" if self.lower_bound else "not known"
        costs = ", ".join(f"{cost:,} {objective}" for objective, cost in self.costs.items())
        graph = f"{len(self.graph.vertices):,} vertices, {len(self.graph.sources):,} edges"
        pairs = [
            ("method", self.method), ("minimised", f"{self.cost:,} {self.objective}"), ("lower bound", bound),
            ("costs", costs), ("graph", graph), ("steps", f"{len(self.accumulation.steps):,}"),
        ]  # fmt: skip
        title = f"Plan of {self.graph.name}" if self.graph.name else "Plan"
        return stacked(paragraph(title, bold=True), facts(pairs))

    def __repr__(self) -> str:
        return f"<{self}>"
