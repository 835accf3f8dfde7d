"""Loops that end early while they are recorded: `accumulus.frontends.source.loops` has flags in the place of exits.

Where a flag is a traced value, the loop goes on, and what each further turn changes is chosen by the flag: the
recording holds wherever the loop ends. That costs all turns at every point. So a loop of many turns, or one that goes
on for long after it has ended at the given point, is recorded anew, with each exit guarded.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from accumulus.frontends.active import ACTIVE
from accumulus.frontends.decisions import UnmergeableError
from accumulus.frontends.numpy.joining import truth_of
from accumulus.frontends.numpy.journal import RecordedAnewError, Site
from accumulus.frontends.numpy.merging import mergeable

__all__ = ["LongLoopError", "Loop"]

#: Turns of one loop under a traced flag, at most; and operations recorded after it has ended at the given point.
MOST_TURNS: Final = 64
MOST_OPERATIONS: Final = 500


class LongLoopError(RecordedAnewError):
    """A loop is too long for all of its turns to be computed at every point."""


class Loop:
    """One loop while it runs."""

    __slots__ = ("_depth", "_ended", "_merges", "_site", "_turns")

    def __init__(self, site: Site) -> None:
        self._site = site
        self._merges = mergeable(site)
        self._depth = ACTIVE.merging
        self._turns = 0
        #: Operations on the tape when the loop ended at the given point.
        self._ended: int | None = None

    def leave(self) -> bool:
        """True: the flag of an exit.

        Raises:
            UnmergeableError: in a branch, if this loop is not merged.
        """
        if not self._merges and ACTIVE.merging > self._depth:
            raise UnmergeableError
        return True

    def ends(self, stop: Any) -> bool:
        """Whether the loop ends here for all points.

        Raises:
            LongLoopError: if it goes on for too long.
        """
        truth: Any = stop if stop.__class__ is bool else truth_of(stop)
        if truth.__class__ is bool:
            return bool(truth)
        self._turns += 1
        decisions = ACTIVE.decisions
        length = len(truth.tape)
        if self._ended is None and decisions is not None and decisions.tape is truth.tape:
            if decisions.values(np.array(truth.reference)):
                self._ended = length
        elif self._ended is not None and length - self._ended > MOST_OPERATIONS:
            raise LongLoopError(self._site)
        if self._turns > MOST_TURNS:
            raise LongLoopError(self._site)
        return False
