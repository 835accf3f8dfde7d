"""Estimates of what programs cost, written out and as loops: one table, from which all limits between the two follow.

A cost has two parts: seconds to prepare the program, and seconds at a point. Written out, entries share the operations
that they have in common, calls begin at once, and batches have a point in every lane; each operation is planned,
rewritten and compiled. As loops, only one instance of each is, and long arrays fill the lanes at a single point; but a
call begins later, and values between loops pass through memory.

The table was fitted to measurements of 60 functions in both forms. `make bench ARGS=lowering` measures them again, and
a test holds the estimates against what it stored.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from accumulus.progress import PATIENCE

#: Points for which a derivative is prepared, half of them in calls of their own and half in batches: preparing may take
#: as long as these save. More points write out longer programs, whose first results come later; fewer make loops of
#: shorter ones, whose calls take longer.
POINTS: Final = 200_000
#: Number of operations from which on programs are rewritten more briefly.
LONG: Final = 10_000


class Cost(NamedTuple):
    """Seconds to prepare a program, and seconds at a point: the mean of a call and of a point in a batch."""

    prepare: float
    point: float

    @property
    def total(self) -> float:
        """Seconds for all points, preparing included."""
        return self.prepare + POINTS * self.point


class Prices(NamedTuple):
    """Seconds of one form of a program.

    Attributes:
        fixed: to prepare any program.
        operation: to prepare each operation of the text, up to `LONG`.
        chained: the same for operations of recurrences.
        beyond: to prepare each further one.
        call: at a point, besides the operations.
        number: for each operation at a point.
        waiting: the same for operations of recurrences, each of which waits for the one before.
    """

    fixed: float
    operation: float
    chained: float
    beyond: float
    call: float
    number: float
    waiting: float

    def cost(self, text: float, operations: float, recurrent: float = 0.0, more: float = 0.0) -> Cost:
        """Return the cost of a program.

        Args:
            text: operations of the text.
            operations: operations at a point.
            recurrent: fraction of these in recurrences.
            more: further seconds at a point.
        """
        number = self.number + recurrent * (self.waiting - self.number)
        operation = self.operation + recurrent * (self.chained - self.operation)
        return Cost(
            self.fixed + operation * min(text, LONG) + self.beyond * max(text - LONG, 0),
            self.call + more + number * operations,
        )

    def text_within(self, seconds: float, recurrent: float = 0.0) -> int:
        """Return the largest text that is prepared within some seconds.

        >>> prices = Prices(1.0, 1e-4, 2e-4, 1e-5, 0.0, 0.0, 0.0)
        >>> [prices.text_within(seconds) for seconds in (0.5, 1.5, 2.5)], prices.text_within(2.0, recurrent=1.0)
        ([0, 5000, 60000], 5000)
        """
        left = seconds - self.fixed
        operation = self.operation + recurrent * (self.chained - self.operation)
        beyond = max(0.0, left - operation * LONG)
        return max(0, round((left - beyond) / operation + beyond / self.beyond))


WRITTEN: Final = Prices(0.05, 1e-4, 1.6e-4, 4e-5, 2.5e-7, 6.5e-11, 1.6e-10)
LOOPS: Final = Prices(0.09, 1e-3, 1e-3, 1e-3, 2.5e-6, 1.2e-10, 3.1e-10)
#: Largest numbers of operations that are written out while there is another way: of any, and of a recurrence.
MOST_WRITTEN: Final = WRITTEN.text_within(PATIENCE)
MOST_IN_RECURRENCES: Final = WRITTEN.text_within(PATIENCE, recurrent=1.0)
