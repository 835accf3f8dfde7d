"""The tape's optimiser as it is called: the canonical form, a search for a cheaper one, and its verification."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import islice
from typing import Final

from accumulus.annealing import rounds as until_stalled
from accumulus.context import Context
from accumulus.deadline import Deadline, OutOfTimeError
from accumulus.errors import ArgumentError, RewritingWarning, VerificationError
from accumulus.options import Options
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.equivalence import IncomparableError, Verification, with_expressions_of
from accumulus.rewriting.network import MAKE, Network
from accumulus.rewriting.scaling import with_scaled_forms, with_short_constants
from accumulus.rewriting.signs import with_fewest_signs
from accumulus.tape.operations import UNIT
from accumulus.tape.tape import Tape

#: Times that all nodes are tried in turn, at most; after how many in a row that stall it ends; and what part of the
#: cost a sweep has to win not to stall.
SWEEPS: Final = 40
STALLS: Final = 5
MINIMUM_GAIN: Final = 2e-4
#: Moves at random for each node.
MOVES: Final = 520
PREVIEW: Final = 200
#: Tapes that take more moves than these are annealed in rounds: moves for each node in the first, how many times as
#: many in each that follows, and what part of the cost a million moves have to win for another round.
MANY: Final = 4_000_000
FIRST: Final = 4
LONGER: Final = 2
WORTH: Final = 0.01
#: Temperatures at the start and at the end, as parts of what an addition costs; at the start of the rounds of a
#: thorough search in turn: some programs have to melt before they get better, others only lose by that.
HOT: Final = 0.35
HOTS: Final = (0.35, 0.6, 0.2, 0.45)
COLD: Final = 0.16
#: Chance to look into a sum or product that is used elsewhere, too.
INLINE: Final = 0.3
#: How much longer each round of a thorough search takes than the one before, and after how many without a gain it ends.
GROWTH: Final = 1.3
PATIENCE: Final = 12
#: Seconds of work to choose signs of what a round has found: at least, and for each operation.
SIGNS: Final = (1e-3, 5e-6)


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds of annealing of a tape.

    Attributes:
        moves: at random, for each operation and input, in each round.
        hots: the temperature that each round begins with, as a part of what an addition costs. Every second round
            begins with the best tape so far, the others with the tape as it was.
    """

    moves: int = MOVES
    hots: tuple[float, ...] = (HOT,)


def by_rules(
    tape: Tape,
    context: Context | None = None,
    *,
    kept_outputs: int = 0,
    rounds: Rounds | None = None,
    begin_with: Tape | None = None,
) -> Tape:
    """Return a tape with the same inputs and outputs, and never more operations.

    The rules are listed in ``docs/algebra-on-the-tape.md``, each with what it does to rounding. The result has been
    verified against the tape that it was made from.

    Args:
        tape: any tape.
        context: of the search; by default that of the default options. Effort "fast" tries each operation in turn
            until nothing is won, in near-linear time; "balanced" then anneals for a number of moves, of large tapes so
            long as that wins enough; "thorough" goes on, in longer and longer rounds, until several in a row win
            nothing. Same seed, same effort and same work that is left, same tape, unless the clock runs out first. A
            tape that is too large to be searched comes back in its canonical form.
        kept_outputs: that many of the first outputs stay as they are computed, operation by operation.
        rounds: of annealing, by default one; more follow if the effort is thorough.
        begin_with: a tape for the same in canonical form, which the first round begins with instead.

    Warns:
        RewritingWarning: if the result is not what it was made from; that would be a mistake of this package. The
            canonical form is returned then.

    Raises:
        ArgumentError: if `tape` is none, or `kept_outputs` more than the tape has.

    >>> tape = Tape(3)
    >>> tape.outputs = [tape.add(tape.multiply(0, 1), tape.multiply(0, 2))]
    >>> print(by_rules(tape))
    t3 = add(x1, x2)
    t4 = multiply(x0, t3)
    return t4
    """
    if not isinstance(tape, Tape):
        raise ArgumentError(f"tape is a {type(tape).__name__}; expected a Tape, such as trace(f, ...).tape")
    if kept_outputs not in range(len(tape.outputs) + 1):
        raise ArgumentError(f"kept_outputs is {kept_outputs!r}; the tape has {len(tape.outputs)} outputs")
    context = Context(Options()) if context is None else context
    effort = context.options.effort
    with context.paused():
        start = canonical(tape, kept_outputs)
    search = _Search(start, kept_outputs, context)
    if search.best_cost == 0 or search.left <= 0:
        return start
    try:
        # half of the work is done beforehand
        until = context.within(search.left / 2)
        verification = Verification(start, kept_outputs=kept_outputs, deadline=until)
    except OutOfTimeError:
        return start
    rounds = rounds or Rounds()
    tried = 0 if effort == "fast" else rounds.moves * search.size
    for turn, hot in enumerate(rounds.hots if tried else rounds.hots[:1]):
        wins = search.round(search.best if turn % 2 else begin_with or start, tried, hot)
        if not wins and search.may_win and tried and not turn:
            # annealing has lost more than it won; what can be had without it, can
            search.round(start, 0, hot)
    if effort == "thorough":
        moves = max(tried, MOVES * search.size)
        for turn in until_stalled(PATIENCE, lambda: search.best_cost):
            moves = int(GROWTH * moves)
            if context.passed or search.left <= 0:
                break
            search.round(start if turn % 2 else search.best, moves, HOTS[turn % len(HOTS)])
    best = tidied(search.best, start, kept_outputs)
    if best is start:
        return start
    try:
        verification.check(best)
    except IncomparableError as error:
        # what cannot be compared is computed as it was
        kept = canonical(with_expressions_of(start, best, error.outputs), kept_outputs)
        return min(start, kept, key=lambda tape: tape.operations)
    except VerificationError as error:
        warnings.warn(f"{error}; the program is used as it was before", RewritingWarning, stacklevel=2)
        return start
    return best


class _Search:
    """Rounds of a search, each from the tape as it was or from the best so far, and the best of all."""

    def __init__(self, start: Tape, kept_outputs: int, context: Context) -> None:
        self.best, self.best_cost = start, start.operations
        self.size = start.operations + start.inputs
        self._kept_outputs, self._seed, self._context = kept_outputs, context.options.seed, context
        #: Seconds of work around the moves of a round: to make a network, to write it out, to choose signs.
        self._around = 2 * (MAKE[0] + MAKE[1] * self.size) + SIGNS[0] + SIGNS[1] * self.size
        #: Whether moves have won something in the last round, before changes of sign were counted.
        self.may_win = True

    @property
    def left(self) -> float:
        """Seconds of work that are left for moves."""
        return self._context.left - self._around

    def round(self, tape: Tape, moves: int, hot: float) -> bool:
        """Rewrite a tape, annealing for so many moves; whether that is the best so far."""
        if self.left <= 0:
            return False
        network = Network(tape, kept_outputs=self._kept_outputs, seed=self._seed)
        before = network.cost
        _search(network, moves, hot, self._context.within(self.left))
        self._seed += 1
        self.may_win = network.best_cost < before
        found = with_fewest_signs(canonical(network.emitted(), self._kept_outputs))
        self._context.spend(self._around)
        if found.operations >= self.best_cost:
            return False
        self.best, self.best_cost = found, found.operations
        return True


def sketch(
    tape: Tape,
    moves: int,
    context: Context,
    *,
    hot: float = HOT,
    is_last: bool = True,
) -> Tape:
    """Return what one round of a search makes of a tape in canonical form, not verified.

    Args:
        moves: at random, for each operation and input.
        is_last: whether it becomes canonical, with few changes of sign; else it is for another search to go on with.
    """
    network = _network(tape, context)
    _search(network, moves * (tape.operations + tape.inputs), hot, context)
    found = network.emitted()
    if not is_last:
        return found
    found = canonical(found)
    context.spend(SIGNS[0] + SIGNS[1] * found.operations)
    return with_fewest_signs(found)


def tidied(tape: Tape, start: Tape, kept_outputs: int = 0) -> Tape:
    """A tape with its numbers where they save products, and short ones beside which rounding has left others.

    Args:
        tape: without dead operations. It need not be verified.
        start: what it was made from, whose numbers stay.
        kept_outputs: that many of the first outputs stay as they are computed.
    """
    return with_short_constants(with_scaled_forms(tape, kept_outputs), start.constants)


def preview(tape: Tape, context: Context, moves: int = PREVIEW) -> int:
    """Return the cost that a short search reaches, in a unit of its own, by which tapes are compared.

    Args:
        moves: at random, for each node; 0 for none but those that win.
    """
    network = _network(canonical(tape), context)
    _sweep(network, context)
    if moves:
        network.anneal(moves * network.size, UNIT * HOT, UNIT * COLD, INLINE, context)
        _sweep(network, context)
    return network.best_cost


def _network(tape: Tape, context: Context) -> Network:
    network = Network(tape, seed=context.options.seed)
    context.spend(2 * (MAKE[0] + MAKE[1] * network.size))
    return network


def _search(network: Network, moves: int, hot: float, deadline: Deadline) -> None:
    """Try all nodes in turn, then anneal, large networks in rounds, until one wins too little for its moves; again."""
    _sweep(network, deadline)
    if not moves:
        return
    if moves <= MANY:
        network.anneal(moves, UNIT * hot, UNIT * COLD, INLINE, deadline)
    else:
        tried = FIRST * network.size
        while moves > 0 and not deadline.passed:
            before = network.best_cost
            network.anneal(tried, UNIT * hot, UNIT * COLD, INLINE, deadline)
            moves -= tried
            if before - network.best_cost < WORTH * tried / 1e6 * before:
                break
            tried = min(LONGER * tried, moves)
        if network.cost != network.best_cost:  # it was left worse than it was, and sweeps take long
            return
    _sweep(network, deadline)


def _sweep(network: Network, deadline: Deadline) -> None:
    """Try all nodes in turn until that wins nothing."""
    for _ in islice(until_stalled(STALLS, lambda: network.cost, MINIMUM_GAIN), SWEEPS):
        network.sweep(network.size, deadline=deadline)
        if deadline.passed:
            break
