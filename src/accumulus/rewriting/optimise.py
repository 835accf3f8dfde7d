"""The tape's optimiser as it is called: a plain form, a search for a cheaper one, and the proof that it is the same."""

from __future__ import annotations

import time
from itertools import cycle
from typing import Final

from accumulus.errors import ArgumentError, unknown_name
from accumulus.rewriting.costs import UNIT, TapeObjective, cost_of, search_weights
from accumulus.rewriting.network import Network
from accumulus.rewriting.plain import plain
from accumulus.rewriting.verify import verify
from accumulus.tape.tape import Tape

__all__ = ["EFFORTS", "optimise", "preview"]

EFFORTS: Final = ("fast", "balanced", "thorough")
#: Times that all nodes are tried in turn, at most, and after how many of them in a row without a gain that ends.
SWEEPS: Final = 40
RESTS: Final = 5
#: Part of the cost that is no gain, for large tapes.
TRIFLE: Final = 2e-4
#: Moves at random for each node.
MOVES: Final = 600
PREVIEW: Final = 200
#: Temperatures at the start and at the end, as parts of what an addition costs; at the start of the rounds of a
#: thorough search in turn: some programs have to melt before they get better, others only lose by that.
HOT: Final = 0.3
HOTS: Final = (0.3, 0.6, 0.2, 0.45)
COLD: Final = 0.1
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

    Raises:
        ArgumentError: if `tape` is none, or `kept_outputs` not a number of outputs that it has.
        UnknownNameError: for an unknown objective or effort.
        VerificationError: if the result is not the same; that would be a mistake of this package.

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
    start = plain(tape, kept_outputs)
    best, least = start, cost_of(start, objective)
    if least == 0:
        return start
    deadline = time.perf_counter() + time_limit
    network = Network(start, search_weights(objective), kept_outputs=kept_outputs, seed=seed)
    _sweep(network)
    visits = min(MOVES * network.size, int(SPEED * max(0.0, time_limit)))
    if effort != "fast" and visits > 0:
        network.anneal(visits, UNIT * HOT, UNIT * COLD, INLINE)
        _sweep(network)
    patience = PATIENCE if effort == "thorough" else 0
    for turn, hot in enumerate(cycle(HOTS)):
        found = plain(network.written(), kept_outputs)
        cost = cost_of(found, objective)
        if cost < least:
            best, least = found, cost
            patience = PATIENCE if effort == "thorough" else 0
        if patience <= 0 or time.perf_counter() > deadline:
            break
        patience -= 1
        seed += 1
        visits = min(int(GROWTH * visits), int(SPEED * max(0.0, deadline - time.perf_counter())))
        again = start if turn % 2 else best
        network = Network(again, search_weights(objective), kept_outputs=kept_outputs, seed=seed)
        network.anneal(visits, UNIT * hot, UNIT * COLD, INLINE)
        _sweep(network)
    if best is not start:
        verify(start, best)
    return best


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
    for _ in range(SWEEPS):
        before = network.cost
        network.sweep(network.size)
        rests = rests + 1 if before - network.cost <= TRIFLE * before else 0
        if rests == RESTS:
            break
