"""The choice among vertex orders where programs are what counts: the order whose tape is the cheapest.

Fewer products do not always mean fewer operations: labels coincide and share parts with the function. So the tape of
each order is emitted and counted, as far as there is time, except for orders of far more steps than the best. Where the
tape is rewritten afterwards, and the effort is thorough, a short run of the rewriter scores each order instead: it
removes many of the operations that a poor order adds, so that the order of the shortest tape need not win.
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
from accumulus.tape.operations import BY_NAME

__all__ = ["Candidate", "cheapest_program"]

#: Candidates of more steps than this, as a multiple of the fewest of any, are not counted. More are where the rewriter
#: scores them, which evens out larger differences; and where labels have conditions, of which steps say little: the sum
#: of two branches is one select.
_MORE_STEPS: Final = 1.3
_MANY_MORE_STEPS: Final = 2.5
_SELECT: Final = BY_NAME["select"].code
#: Where labels have conditions, programs of so many times the operations of the shortest are swept by the rewriter
#: before one is chosen: products of choices come to less where these are the same.
_CLOSE: Final = 1.1
#: Steps beyond which a program is too long for the rewriter to say much about it in a short run.
_SCORED: Final = 50_000
#: Seconds of work to emit a program: at least, and for each step.
_EMIT: Final = (5e-4, 2e-6)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An order that may be the best.

    Attributes:
        cost: under the objective of eliminations, and under the one that breaks ties.
        additions: of labels; None if they are not known, and counted when they are needed.
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
    """The candidate of the cheapest program among those counted before the deadline; the simplest among equals."""
    steps = [candidate.steps for candidate in candidates]
    fewest = min(steps)
    rewritten = options.counts_rewritten and options.effort == "thorough" and fewest <= _SCORED
    tape = candidates[0].found.graph.tape
    conditional = tape is not None and _SELECT in tape.codes
    limit = (_MANY_MORE_STEPS if rewritten or conditional else _MORE_STEPS) * fewest
    worth = {
        # equal counts are taken for equal orders
        (count, candidate.cost): candidate.found
        for count, candidate in zip(reversed(steps), reversed(candidates), strict=True)
        if count <= limit
    }
    # fewest steps first: there may be work left for one only
    likeliest = [worth[key] for key in sorted(worth)]
    if len(likeliest) == 1:
        return likeliest[0]

    def program_cost(found: SearchResult) -> int:
        return found.cost(options.objective)

    def rewritten_cost(found: SearchResult) -> int:
        return preview(emit(found.accumulation), options.seed, deadline)

    def swept_cost(found: SearchResult) -> int:
        return preview(emit(found.accumulation), options.seed, deadline, 0)

    counted = _counted(likeliest, rewritten_cost if rewritten else program_cost, deadline)
    least = min(cost for cost, _ in counted)
    if conditional and options.counts_rewritten and not rewritten and least <= _SCORED:
        close = [found for cost, found in counted if cost <= _CLOSE * least]
        if len(close) > 1:
            counted = _counted(close, swept_cost, deadline)
    return min(counted, key=lambda pair: pair[0])[1]


def _counted(
    candidates: Sequence[SearchResult], cost_of: Callable[[SearchResult], int], deadline: Deadline
) -> list[tuple[int, SearchResult]]:
    """The costs of the candidates that are counted before the deadline, at least one."""
    counted = []
    for candidate in candidates:
        before = deadline.left
        counted.append((cost_of(candidate), candidate))
        deadline.spend(_EMIT[0] + _EMIT[1] * len(candidate.accumulation.steps))
        # the next takes about as long, and a count that the deadline cuts short is of no use
        if deadline.passed or 2 * (before - deadline.left) > deadline.left:
            break
    return counted
