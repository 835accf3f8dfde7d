"""Context of one preparation: its options, the remaining work and time, and its progress callback.

A user's call makes one `Context`. Planning, rewriting and compilation pass it down as their one argument besides the
graph or the tape. A stage that may take only part of the work receives a part of it (`part`, `within`); a search with
different options receives a context with those (`having`). All of these share the work account and the clock.

A context is an argument, not a context variable: the result of a search depends only on its options, its seed and the
remaining work, and every signature shows this. A variable would have to be set again in each thread and worker process,
and a nested call, as for nested derivatives, would read the outer one.

A function that depends only on the remaining work takes a `Deadline`, which a context is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from accumulus.deadline import Deadline
from accumulus.options import Effort, Options
from accumulus.progress import Progress

#: Effort of the search for an order, by the effort of the call, if the tape is rewritten afterwards. The rewriter
#: removes the operations that a brief search leaves, so the time is better spent there. This does not hold for graphs
#: of more than `SMALL` edges, which the rewriter has too little time to cover: a larger number leaves these with poor
#: orders, a smaller one takes time from the rewriter.
BEFORE_REWRITING: Final[dict[Effort, Effort]] = {"fast": "fast", "balanced": "fast", "thorough": "thorough"}
SMALL: Final = 5_000
#: Fraction of the work that planning may take if the tape is rewritten afterwards. The rewriter receives the work that
#: planning leaves: a larger fraction leaves it operations to remove, a smaller one gives it longer programs.
PLANNING: Final = 0.3


class Context(Deadline):
    """Options of a call, and the deadline of its searches.

    Args:
        options: options of the call.
        seconds: time from now until the deadline; by default the time limit of the options.
        clock: see `Deadline`.
        work: seconds of work; by default `accumulus.deadline.WORK` times `seconds`.

    >>> context = Context(Options(seed=3), work=30.0)
    >>> context.part(0.5).left, context.part(0.5).options.seed
    (15.0, 3)
    >>> fast = context.having(effort="fast")
    >>> fast.spend(6.0)
    >>> fast.options.effort, context.options.effort, context.left
    ('fast', 'balanced', 24.0)
    """

    __slots__ = ("options",)

    def __init__(
        self,
        options: Options,
        seconds: float | None = None,
        clock: Callable[[], float] | None = None,
        work: float | None = None,
    ) -> None:
        super().__init__(options.time_limit if seconds is None else seconds, clock, work)
        self.options = options

    def having(self, **changes: Any) -> Context:
        """Return this context with other options; its work and its clock are the same."""
        other = self._other(self._until, self._most, self.seconds)
        other.options = replace(self.options, **changes)
        return other

    def unless_searched(self) -> Context:
        """Return this context, or an unlimited one if its options leave no time for a search.

        The best greedy plan is found however long it takes, and its work is not counted.
        """
        return self if self.options.searches else Context(self.options, math.inf)

    def planning(self, edges: int) -> Context:
        """Return the context of the search for an order in a graph with `edges` edges.

        If the tape is rewritten afterwards, that search is brief and leaves most of the work to the rewriter.
        """
        options = self.options
        brief = options.counts_rewritten and edges <= SMALL
        share = self.part(PLANNING) if options.rewrites else self
        return share.having(effort=BEFORE_REWRITING[options.effort]) if brief else share

    def report(self, stage: str, cost: int | None = None, expected: float | None = None) -> None:
        """Report the state of the preparation to the user's progress function, if any."""
        if callable(self.options.progress):
            self.options.progress(Progress(stage, self.elapsed, cost, expected=expected))

    def _other(self, until: float, most: float, seconds: float) -> Context:
        other = super()._other(until, most, seconds)
        other.options = self.options
        return other
