"""The tape's optimiser as it is called: a plain form, a search for a cheaper one, and the proof that it is the same."""

from __future__ import annotations

import time
import warnings
from itertools import cycle
from typing import Final

from accumulus.errors import ArgumentError, RewritingWarning, VerificationError, unknown_name
from accumulus.rewriting.costs import UNIT, TapeObjective, cost_of, search_weights
from accumulus.rewriting.network import Network
from accumulus.rewriting.plain import plain
from accumulus.rewriting.verify import verify
from accumulus.tape.tape import Tape

__all__ = ["EFFORTS", "optimise", "preview"]

EFFORTS: Final = ("fast", "balanced", "thorough")
#: Times that all nodes are tried in turn, at most; moves, of tapes that are too large for that; and after how many
#: times in a row without a gain it ends.
SWEEPS: Final = 40
SWEPT: Final = 12_000_000
RESTS: Final = 5
#: Part of the cost that is no gain, for large tapes.
TRIFLE: Final = 2e-4
#: Moves at random for each node.
MOVES: Final = 600
PREVIEW: Final = 200
#: Temperatures at the start and at the end, as parts of what an addition costs; at the start of the rounds of a
#: thorough search in turn: some programs have to melt before they get better, others only lose by that.
HOT: Final = 0.35
HOTS: Final = (0.35, 0.6, 0.2, 0.45)
COLD: Final = 0.08
#: Chance to look into a sum or product that is used elsewhere, too.
INLINE: Final = 0.3
#: How much longer each round of a thorough search takes than the one before, and after how many without a gain it ends.
GROWTH: Final = 1.3
PATIENCE: Final = 12
#: Moves that a machine of today tries in a second, at least.
SPEED: Final = 4e6


def optimise(
    tape: Tape,
    objective: TapeObjective = "operations",
    *,
    effort: str = "balanced",
    time_limit: float = 1.0,
    seed: int = 0,
    kept_outputs: int = 0,
) -> Tape:
    """A tape with the same inputs and outputs and fewer, or cheaper, operations; never one that costs more.

    The rules are listed in ``docs/algebra-on-the-tape.md``, each with what it does to rounding. The result has been
    verified against the tape that it was made from.

    Args:
        tape: any tape.
        objective: "operations", or "time" by this machine's weights, see `accumulus.tape.weights`.
        effort: "fast" tries each operation in turn until nothing is won, in near-linear time; "balanced" then anneals
            for a fixed number of moves; "thorough" goes on, in longer and longer rounds, until several in a row win
            nothing.
        time_limit: seconds for the search.
        seed: of the search. Same seed and same effort, same tape, so long as time does not run out.
        kept_outputs: that many of the first outputs stay as they are computed, operation by operation.

    Warns:
        RewritingWarning: if the result is not what it was made from; that would be a mistake of this package. The plain
            form is returned then.

    Raises:
        ArgumentError: if `tape` is none, `time_limit` negative, or `kept_outputs` more than the tape has.
        UnknownNameError: for an unknown objective or effort.

    >>> tape = Tape(3)
    >>> tape.outputs = [tape.add(tape.multiply(0, 1), tape.multiply(0, 2))]
    >>> print(optimise(tape))
    t3 = add(x1, x2)
    t4 = multiply(x0, t3)
    return t4
    """
    if not isinstance(tape, Tape):
        raise ArgumentError(f"tape is a {type(tape).__name__}; expected a Tape, such as trace(f, ...).tape")
    if effort not in EFFORTS:
        raise unknown_name("effort", effort, EFFORTS)
    if kept_outputs not in range(len(tape.outputs) + 1):
        raise ArgumentError(f"kept_outputs is {kept_outputs!r}; the tape has {len(tape.outputs)} outputs")
    if not time_limit >= 0:
        raise ArgumentError(f"time_limit is {time_limit!r}; expected a number of seconds of at least 0")
    start = plain(tape, kept_outputs)
    search = _Search(start, objective, kept_outputs, seed, time.perf_counter() + time_limit)
    if search.least == 0:
        return start
    if effort == "fast":
        search.round(start, 0, HOT)
    else:
        visits = int(min(MOVES * search.size, SPEED * time_limit))
        if not search.round(start, visits, HOT):
            # annealing has lost more than it won; what can be had without it, can
            search.round(start, 0, HOT)
        if effort == "thorough":
            search.go_on(visits)
    if search.best is start:
        return start
    try:
        verify(start, search.best, kept_outputs=kept_outputs)
    except VerificationError as error:
        warnings.warn(f"{error}; the program is used as it was before", RewritingWarning, stacklevel=2)
        return start
    return search.best


class _Search:
    """Rounds of a search, each from the tape as it was or from the best so far, and the best of all."""

    def __init__(self, start: Tape, objective: TapeObjective, kept_outputs: int, seed: int, deadline: float) -> None:
        self.best, self.least = start, cost_of(start, objective)
        self.size = start.operations + start.inputs
        self._start, self._objective, self._kept_outputs = start, objective, kept_outputs
        self._seed, self._deadline = seed, deadline
        self._weights = search_weights(objective)

    def round(self, tape: Tape, visits: int, hot: float) -> bool:
        """Rewrite a tape, annealing for so many moves; whether that is the best so far."""
        network = Network(tape, self._weights, kept_outputs=self._kept_outputs, seed=self._seed)
        _sweep(network)
        if visits:
            network.anneal(visits, UNIT * hot, UNIT * COLD, INLINE)
            _sweep(network)
        self._seed += 1
        found = plain(network.written(), self._kept_outputs)
        cost = cost_of(found, self._objective)
        if cost >= self.least:
            return False
        self.best, self.least = found, cost
        return True

    def go_on(self, visits: int) -> None:
        """Longer and longer rounds, until several in a row have won nothing, or time is up."""
        patience = PATIENCE
        for turn, hot in enumerate(cycle(HOTS)):
            left = self._deadline - time.perf_counter()
            visits = int(min(GROWTH * visits, SPEED * left))
            if patience == 0 or visits <= 0:
                break
            won = self.round(self._start if turn % 2 else self.best, visits, hot)
            patience = PATIENCE if won else patience - 1


def preview(tape: Tape, objective: TapeObjective, seed: int = 0) -> int:
    """What the optimiser makes a tape cost, about, by a short search; to compare tapes by, in a unit of its own."""
    start = plain(tape)
    network = Network(start, search_weights(objective), seed=seed)
    _sweep(network)
    network.anneal(PREVIEW * network.size, UNIT * HOT, UNIT * COLD, INLINE)
    _sweep(network)
    return network.least


def _sweep(network: Network) -> None:
    """Try all nodes in turn until that wins nothing."""
    rests = 0
    for _ in range(min(SWEEPS, max(RESTS, SWEPT // network.size))):
        before = network.cost
        network.sweep(network.size)
        rests = rests + 1 if before - network.cost <= TRIFLE * before else 0
        if rests == RESTS:
            break
