"""The choice among vertex orders where programs are what counts: the order whose tape is the cheapest.

Fewer products do not always mean fewer operations: labels coincide and share parts with the function. So the tape of
each order is emitted and counted, as far as there is time, but of those that take far more steps than the best by their
own count. Where the tape is rewritten afterwards, and the effort is thorough, orders are scored by what a short run of
the rewriter makes of them instead: algebra wins back much of what a poor order costs, and sometimes more than a good
one had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from accumulus.deadline import Deadline
from accumulus.elimination.emit import emit
from accumulus.elimination.vertex import Cost
from accumulus.options import Options
from accumulus.rewriting.optimise import preview
from accumulus.search.registry import SearchResult

__all__ = ["Candidate", "cheapest_program"]

#: Times the fewest steps of any candidate beyond which one is not counted; and beyond which it is not scored by the
#: rewriter, which wins back more.
_MORE_STEPS: Final = 1.3
_MANY_MORE_STEPS: Final = 2.5
#: Steps beyond which a program is too long for the rewriter to say much about it in a short run.
_SCORED: Final = 50_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """An order that may be the best.

    Attributes:
        cost: under the objective of eliminations, and under the one that breaks ties.
        additions: of labels, if they are known.
    """

    found: SearchResult
    cost: Cost
    additions: int | None = None

    @property
    def steps(self) -> int:
        """Products that cost, and additions."""
        if self.additions is None:
            return self.cost[0] + self.found.accumulation.steps.is_product.count(0)
        return self.cost[0] + self.additions


def cheapest_program(candidates: Sequence[Candidate], options: Options, deadline: Deadline) -> SearchResult:
    """The candidate whose program costs least, as far as there is time to know; the simplest among equals."""
    steps = [candidate.steps for candidate in candidates]
    fewest = min(steps)
    rewritten = options.counts_rewritten and options.effort == "thorough" and fewest <= _SCORED
    limit = (_MANY_MORE_STEPS if rewritten else _MORE_STEPS) * fewest
    worth = {
        # equal counts are taken for equal orders
        (count, candidate.cost): candidate.found
        for count, candidate in zip(reversed(steps), reversed(candidates), strict=True)
        if count <= limit
    }
    # the likeliest first: it may be the only one that there is time for
    likeliest = [worth[key] for key in sorted(worth)]
    if len(likeliest) == 1:
        return likeliest[0]

    def program_cost(found: SearchResult) -> int:
        return found.cost(options.objective)

    def rewritten_cost(found: SearchResult) -> int:
        return preview(emit(found.accumulation), options.seed, deadline)

    return _cheapest(likeliest, rewritten_cost if rewritten else program_cost, deadline)


def _cheapest(
    candidates: Sequence[SearchResult], cost_of: Callable[[SearchResult], int], deadline: Deadline
) -> SearchResult:
    """The least cost of those that there is time for; the first among equals."""
    best, least = candidates[0], None
    for candidate in candidates:
        before = deadline.left
        cost = cost_of(candidate)
        if least is None or cost < least:
            best, least = candidate, cost
        # another takes about as long, and one that is cut short says nothing
        if 2 * (before - deadline.left) > deadline.left:
            break
    return best
