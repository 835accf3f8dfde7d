"""Optimiser of tapes by rules: the canonical form, a search for a cheaper tape, and its verification.

The search works on the tape as a network of nodes, and drives `rewrite_kernel`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.annealing import rounds as until_stalled
from accumulus.annealing import slices
from accumulus.context import Context
from accumulus.deadline import FOREVER, LOOK, Deadline
from accumulus.errors import ArgumentError, RewritingWarning, VerificationError
from accumulus.native.machine import kernel
from accumulus.native.state import Integers, Records, zeros
from accumulus.options import Options
from accumulus.rewriting.acceptance import Original
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.compiled.rewrite_nodes import (
    ANNEAL,
    BUILD,
    CONSTANT,
    FOR_LIFE,
    KEEP,
    ONE,
    OUTPUT,
    SWEEP,
    TERM_COUNT,
    TREE_SIZE,
    TWO,
    ZERO,
    GivenOperation,
    LinearTerm,
    Number,
    RewriteState,
    TreeEntry,
)
from accumulus.rewriting.equivalence import MOST_COMPARED, constant_residues, primes
from accumulus.rewriting.scaling import with_scaled_forms
from accumulus.rewriting.signs import THRESHOLDS, Definitions, with_fewest_signs, written_tape
from accumulus.tape.compiled.passes_kernel import ARITY
from accumulus.tape.folding import Folding
from accumulus.tape.live import as_written, most_comparisons, needed, seeing_zero_signs
from accumulus.tape.operations import FUSED, IN_SEARCH, OPERATIONS, UNIT
from accumulus.tape.passes import PROPERTIES, rows_of, with_folding
from accumulus.tape.tape import ADD, MULTIPLY, Tape

# Networks ------------------------------------------------------------------------------------------------------------


#: Capacity of the undo log of a move, in writes: per node, and in addition. A larger log takes memory, a smaller one
#: forbids moves that change much.
LOG_PER_NODE: Final = 8
LOG: Final = 200_000
#: Resolution of the chance to look into shared sums and products: a finer one makes no difference to the search, a
#: coarser one rounds small chances to 0.
CHANCES: Final = 1024
#: Seconds of work of a move: a factor and its power of the number of nodes, since moves spread in memory; then a part
#: per node, beyond caches. Accurate within a factor of two over `examples/` and large programs. Estimates above the
#: true time make fewer moves than fit, estimates below exceed the work.
MOVE: Final = (7.5e-9, 0.4)
FAR: Final = 1e-11
#: Seconds of work to make a network, or to write one out: a constant, and per node. Estimates above the true time end
#: the search early, estimates below exceed its work.
MAKE: Final = (5e-4, 2e-6)
#: Least number of moves in one call of the kernel: with more, Ctrl-C and the deadline wait longer on large networks;
#: with fewer, calls take more of the time.
FEWEST: Final = 256
#: Number of further searches where no output of a program may be used. More take time for programs in which most rules
#: lose digits, fewer leave these as they are.
RETRIES: Final = 1
#: Number of operations from which on a program is searched only if few comparisons reach each output, and its rewriting
#: is verified only if it wins this fraction. Verification takes a tenth of a millisecond for each operation, more with
#: comparisons, and rarely accepts what many of them reach. Larger numbers delay first results, smaller ones give up
#: operations.
LONG: Final = 5_000
GAIN: Final = 0.05


class Network:
    """Network of the operations of a tape as nodes that can be rewritten.

    Nodes do not distinguish signs of zeros. Operations that do, and all that they depend on, are never removed, so that
    `emitted` can restore them.

    Args:
        tape: tape to rewrite.
        weights: integer cost of each operation, by name; under `FUSED`, the saving if a sum is the only user of a
            product.
        kept_outputs: number of leading outputs whose operations stay unchanged.
        seed: seed of the search.
    """

    def __init__(
        self, tape: Tape, weights: Mapping[str, int] = IN_SEARCH, *, kept_outputs: int = 0, seed: int = 0
    ) -> None:
        self._tape = tape
        nodes = 2 * (tape.operations + tape.inputs + len(tape.outputs) + len(tape.constants)) + 4096
        table_bits, log = (2 * nodes - 1).bit_length(), LOG_PER_NODE * nodes + LOG

        stays = np.frombuffer(as_written(tape, kept_outputs), np.uint8).astype(np.int64)
        # their operands, too: without signs of zeros ``0 / x`` is 0, and x would be removed
        stays[np.frombuffer(needed(tape, seeing_zero_signs(tape).tolist()), bool)] = FOR_LIFE
        arrays = zeros(nodes, "codes signs uses heads frozen fused queued freed stack queue free best_codes best_signs")
        arrays |= zeros(3 * nodes, "nexts previous")
        arrays |= {name: np.zeros((nodes, 3), np.int64) for name in ("arguments", "best_arguments")}
        arrays |= {name: Records.zeros(TreeEntry, TREE_SIZE) for name in ("tree", "part", "other")}
        arrays |= {name: Records.zeros(LinearTerm, TERM_COUNT) for name in ("found", "waiting")}
        arities = PROPERTIES & ARITY
        arities[OUTPUT] = 1
        prices = np.zeros(len(PROPERTIES), np.int64)
        prices[: len(OPERATIONS)] = [weights.get(row.name, 0) for row in OPERATIONS]
        self._numbers = ExactNumbers(tape)
        self._state = RewriteState(
            mode=BUILD,
            **arrays,
            **self._numbers.fields,
            touched=np.zeros(4 * nodes, np.int64),
            node_limit=nodes,
            weights=prices,
            arities=arities,
            properties=PROPERTIES,
            credit=weights.get(FUSED, 0),
            table=np.zeros(1 << table_bits, np.int64),
            table_bits=table_bits,
            log=np.empty(2 * log, np.int64),  # long, and written before it is read
            log_limit=log,
            thresholds=THRESHOLDS,
            random=np.array([(0x9E3779B97F4A7C15 * (seed + 1) & (1 << 63) - 1) | 1]),
            program=Records(
                GivenOperation, np.column_stack([rows_of(tape, tape.inputs), stays[tape.inputs :]]).reshape(-1)
            ),
            length=tape.operations,
            inputs=tape.inputs,
            meanings=np.zeros(len(tape) + 1, np.int64),
            outputs=np.array([*tape.outputs, 0], np.int64),
            output_count=len(tape.outputs),
        )
        self._run = kernel("rewriting.rewrite")
        self._perform(BUILD)
        #: Seconds of work of a move, and number of moves in one call of the kernel.
        self._price = MOVE[0] * self.size ** MOVE[1] + FAR * self.size
        self._together = max(FEWEST, int(LOOK / 4 / self._price))

    @property
    def size(self) -> int:
        """Number of nodes in use, including some free ones."""
        return self._state.next

    @property
    def cost(self) -> int:
        """Cost of the current network, without changes of sign."""
        return self._state.cost

    @property
    def best_cost(self) -> int:
        """Cost of the best network found, without changes of sign."""
        return self._state.best

    def sweep(self, visits: int, inline: float = 0.0, deadline: Deadline = FOREVER) -> None:
        """Try one move at each of `visits` nodes in turn, and keep the moves that win.

        Args:
            visits: number of moves to try.
            inline: chance to look into a sum or product that has other users.
            deadline: end of the search; it may stop before all moves are tried.
        """
        while visits > 0 and not deadline.passed:
            tried = self._search(SWEEP, inline, visits)
            deadline.spend(self._price * tried)
            visits -= tried
        self._perform(KEEP)

    def anneal(self, visits: int, hot: float, cold: float, inline: float, deadline: Deadline = FOREVER) -> None:
        """Try moves at random nodes; at temperature T, accept one that costs c more with probability exp(-c/T).

        Args:
            visits: number of moves to try.
            hot: temperature at the start, in the unit of the weights.
            cold: temperature at the end, in the same unit.
            inline: as for `sweep`.
            deadline: end of the search; it cools faster if not all moves fit.
        """
        moves = partial(self._search, ANNEAL, inline)
        for _ in slices(self._state, moves, visits, hot, cold, 1.0, deadline, self._price):
            pass
        self._perform(KEEP)

    def emitted(self) -> Tape:
        """Return the best network found, as a tape with the same inputs and outputs.

        Return the original tape if two operations that see the signs of zeros differ in these signs alone.
        """
        state = self._state
        count, first = state.best_next, state.first_output
        codes, arguments = state.best_codes[:count], state.best_arguments[:count]
        numbers = np.zeros(count)
        constants = np.flatnonzero(codes == CONSTANT)
        numbers[constants] = self._numbers.written(arguments[constants, 0], state.numbers)
        network = Definitions(
            codes=codes,
            signs=state.best_signs[:count],
            arguments=arguments,
            numbers=numbers,
            outputs=arguments[first : first + len(self._tape.outputs), 0],
            exact=np.zeros(count, bool),
        )
        tape = written_tape(network, self._tape, state.meanings)
        return self._tape if tape is None else tape

    def _search(self, mode: int, inline: float, visits: int) -> int:
        """Try up to `visits` moves, as many as fit between two looks at the clock; return their number."""
        tried = min(visits, self._together)
        self._state.inline, self._state.visits = int(CHANCES * inline), tried
        self._perform(mode)
        return tried

    def _perform(self, mode: int) -> None:
        self._state.mode = mode
        self._run(self._state.address)


#: Number of numbers that a search can make of a tape's constants, and more for each constant. More take memory, with
#: fewer, products of constants are left to be computed.
MADE: Final = 1024
MADE_OF_EACH: Final = 8


class ExactNumbers:
    """Numbers that the constants of a network stand for, which are folded exactly.

    Args:
        tape: tape to rewrite.

    Attributes:
        fields: fields of the kernel's state.
    """

    def __init__(self, tape: Tape) -> None:
        self._folding = tape.folding or Folding(tape.constants)
        prime = primes(0)[0]
        given = {0.0: ZERO, 1.0: ONE, 2.0: TWO}
        places = np.zeros(len(tape.constants) + 1, np.int64)
        for k, constant in enumerate(tape.constants):
            # infinite numbers are not folded
            place = given.setdefault(abs(constant) if math.isfinite(constant) else constant, len(given) + 1)
            places[k] = -place if constant < 0.0 and math.isfinite(constant) else place
        self._given = list(given)
        count = len(given) + 1
        limit = count + MADE + MADE_OF_EACH * count
        numbers = Records.zeros(Number, limit)
        numbers.column("high")[1:count] = self._given
        for place, number in enumerate(self._given, 1):
            if number in self._folding.fractions:
                numbers.column("low")[place] = float(self._folding.fractions[number] - Fraction(number))
        numbers.column("residue")[1:count] = constant_residues(self._given, self._folding, (prime,))[:, 0]
        bits = (2 * limit).bit_length()
        self.fields: dict[str, Any] = {
            "given": places,
            "numbers": numbers,
            "number_count": count,
            "number_limit": limit,
            "number_table": np.zeros(1 << bits, np.int64),
            "number_bits": bits,
            "prime": prime,
            "reciprocal": 1.0 / prime,
        }

    def written(self, places: Integers, numbers: Records[Number]) -> NDArray[np.float64]:
        """Return the doubles next to numbers, given by their places; note the exact values of rounded ones."""
        fractions: dict[int, Any] = {}

        def exact(place: int) -> Any:
            if place <= len(self._given):
                return self._folding.of(self._given[place - 1])
            if place not in fractions:
                made = numbers[place]
                one, two = (sign(a) * exact(abs(a)) for a in (made.first, made.second))
                fractions[place] = abs(
                    one + two if made.code == ADD else one * two if made.code == MULTIPLY else one / two
                )
            return fractions[place]

        def sign(place: int) -> int:
            return -1 if place < 0 else 1

        return np.array(
            [
                self._given[place - 1] if place <= len(self._given) else self._folding.rounded(exact(place))
                for place in places.tolist()
            ]
        )


# Rounds of a search --------------------------------------------------------------------------------------------------


#: Largest number of sweeps over all nodes, number of stalled sweeps in a row that ends them, and the fraction of the
#: cost that a sweep has to win not to stall. More sweeps and a smaller fraction cost time for the last gains, fewer
#: sweeps and a larger fraction leave operations.
SWEEPS: Final = 40
STALLS: Final = 5
MINIMUM_GAIN: Final = 2e-4
#: Random moves per node: in a round, and in a preview. More cost preparation time in proportion, fewer leave
#: operations, and previews compare starts less reliably.
MOVES: Final = 520
PREVIEW: Final = 200
#: Tapes that take more than this number of moves are annealed in rounds: moves per node in the first, growth of each
#: round after it, and the fraction of the cost that a million moves have to win for another round. A larger number of
#: moves and a smaller fraction cost seconds on long tapes, the opposite leaves their operations.
MANY: Final = 4_000_000
FIRST: Final = 4
#: The same number of moves per node in the first round where shorter tapes are annealed in rounds, too. More take time
#: for tapes that sweeps have made as short, fewer cool too fast to win what later rounds would.
FIRST_OF_SHORT: Final = 30
LONGER: Final = 2
WORTH: Final = 0.01
#: Temperatures at the start and at the end, relative to the cost of an addition; and at the start of the rounds of a
#: thorough search, in turn: some programs have to melt before they get better, others only get worse. Hotter runs lose
#: more of the start, colder ones stay in a local minimum; a warmer end leaves gains to the sweeps, a colder one wastes
#: moves.
HOT: Final = 0.35
HOTS: Final = (0.35, 0.6, 0.2, 0.45)
COLD: Final = 0.16
#: Chance to look into a sum or product that has other users. A larger one makes moves slower and more often useless,
#: since the operand stays; a smaller one misses gains that need it.
INLINE: Final = 0.3
#: Growth of each round of a thorough search, and number of rounds without a gain after which it ends. Faster growth
#: makes fewer rounds in the same time; more patience costs time at the end, less ends before late gains.
GROWTH: Final = 1.3
PATIENCE: Final = 12
#: Seconds of work to choose signs in the result of a round: a constant, and per operation. Estimates above the true
#: time end the search early, estimates below exceed its work.
SIGNS: Final = (1e-3, 5e-6)


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds of annealing of a tape.

    Attributes:
        moves: random moves per operation and input in each round.
        hots: temperature at the start of each round, relative to the cost of an addition. Every second round begins
            with the best tape so far, the others with the original tape.
        while_winning: if True, a round ends once it wins too little, as it does on long tapes in any case.
    """

    moves: int = MOVES
    hots: tuple[float, ...] = (HOT,)
    while_winning: bool = False


def by_rules(
    tape: Tape,
    context: Context | None = None,
    *,
    kept_outputs: int = 0,
    rounds: Rounds | None = None,
    begin_with: Tape | None = None,
    original: Original | None = None,
    retries: int = RETRIES,
) -> Tape:
    """Return a tape with the same inputs and outputs, and never more operations.

    ``docs/algebra-on-the-tape.md`` lists the rules, each with its effect on rounding. The result is verified against
    the tape's canonical form.

    Args:
        tape: any tape.
        context: options and deadline of the search; default options if None. Effort "fast" tries each operation in turn
            until nothing is won, in near-linear time. "balanced" then anneals for a number of moves; on large tapes, as
            long as that wins enough. "thorough" goes on in longer and longer rounds, until several in a row win
            nothing. The same seed, effort and remaining work give the same tape, unless the clock runs out first. A
            tape that is too large to be searched is returned in canonical form.
        kept_outputs: number of leading outputs whose operations stay unchanged.
        rounds: rounds of annealing, one by default; more follow if the effort is thorough.
        begin_with: equivalent tape in canonical form that these rounds begin with, instead of the given one.
        original: original program, whose outputs the result has to keep; by default the given tape.
        retries: number of further searches, each with another seed, if no output that is found may be used.

    Warns:
        RewritingWarning: if the verification fails, which would be a mistake of this package. The canonical form is
            returned then.

    Raises:
        ArgumentError: if `tape` is not a `Tape`, or has fewer than `kept_outputs` outputs.

    >>> tape = Tape(3)
    >>> tape.outputs = [tape.add(tape.multiply(0, 1), tape.multiply(0, 2))]
    >>> print(by_rules(tape))
    t3 = add(x1, x2)
    t4 = multiply(x0, t3)
    return t4
    """
    check_tape(tape, kept_outputs)
    context = Context(Options()) if context is None else context
    effort = context.options.effort
    with context.paused():
        start = canonical(with_folding(tape), kept_outputs)
    search = _Search(start, kept_outputs, context)
    if search.best_cost == 0 or search.left <= 0:
        return start
    is_long = start.operations > LONG and effort != "thorough"
    if is_long and most_comparisons(start) > MOST_COMPARED:
        return start
    original = original or Original(start, context, None, kept_outputs)
    rounds = rounds or Rounds()
    tried = 0 if effort == "fast" else rounds.moves * search.size
    for turn, hot in enumerate(rounds.hots if tried else rounds.hots[:1]):
        wins = search.round(
            search.best if turn % 2 else begin_with or start, tried, hot, while_winning=rounds.while_winning
        )
        if not wins and search.may_win and tried and not turn:
            # changes of sign cost more than annealing won; a search without annealing may still win
            search.round(start, 0, hot)
    if effort == "thorough":
        moves = max(tried, MOVES * search.size)
        for turn in until_stalled(PATIENCE, lambda: search.best_cost):
            moves = int(GROWTH * moves)
            if context.passed or search.left <= 0:
                break
            search.round(start if turn % 2 else search.best, moves, HOTS[turn % len(HOTS)])
    best = with_scaled_forms(search.best, kept_outputs)
    if best is start or (is_long and best.operations > (1.0 - GAIN) * start.operations):
        return start
    try:
        restored = original.restored(best, start)
    except VerificationError as error:
        warnings.warn(f"{error}; the program is used as it was before", RewritingWarning, stacklevel=2)
        return start
    if restored is not None:  # another search would have to leave as many outputs as they were
        return restored if restored.operations <= start.operations else start
    if not retries:
        return start
    context = context.having(seed=context.options.seed + 1)
    return by_rules(tape, context, kept_outputs=kept_outputs, rounds=rounds, original=original, retries=retries - 1)


def check_tape(tape: object, kept_outputs: int) -> None:
    """Raise an `ArgumentError` unless this is a tape with as many outputs."""
    if not isinstance(tape, Tape):
        raise ArgumentError(f"tape is a {type(tape).__name__}; expected a Tape, such as trace(f, ...).tape")
    if kept_outputs not in range(len(tape.outputs) + 1):
        raise ArgumentError(f"kept_outputs is {kept_outputs!r}; the tape has {len(tape.outputs)} outputs")


class _Search:
    """Rounds of a search, each from the original tape or from the best so far; the best result is kept."""

    def __init__(self, start: Tape, kept_outputs: int, context: Context) -> None:
        self.best, self.best_cost = start, start.operations
        self.size = start.operations + start.inputs
        self._kept_outputs, self._seed, self._context = kept_outputs, context.options.seed, context
        #: Seconds of work of a round besides its moves: make a network, write it out, choose signs.
        self._around = 2 * (MAKE[0] + MAKE[1] * self.size) + SIGNS[0] + SIGNS[1] * self.size
        #: True if the moves of the last round won something, before changes of sign were counted.
        self.may_win = True

    @property
    def left(self) -> float:
        """Seconds of work left for moves."""
        return self._context.left - self._around

    def round(self, tape: Tape, moves: int, hot: float, *, while_winning: bool = False) -> bool:
        """Rewrite a tape, with a number of annealing moves; return True if the result is the best so far."""
        if self.left <= 0:
            return False
        network = Network(tape, kept_outputs=self._kept_outputs, seed=self._seed)
        before = network.cost
        _search(network, moves, hot, self._context.within(self.left), while_winning=while_winning)
        self._seed += 1
        self.may_win = network.best_cost < before
        rewritten = with_fewest_signs(canonical(network.emitted(), self._kept_outputs))
        self._context.spend(self._around)
        if rewritten.operations >= self.best_cost:
            return False
        self.best, self.best_cost = rewritten, rewritten.operations
        return True


def sketch(tape: Tape, moves: int, context: Context, *, is_last: bool = True) -> Tape:
    """Return a tape after one round of a search, without verification.

    Args:
        tape: tape in canonical form.
        moves: random moves for each operation and input.
        context: options and deadline.
        is_last: if True, return the canonical form with few changes of sign; pass False if another search follows.
    """
    network = _network(tape, context)
    _search(network, moves * (tape.operations + tape.inputs), HOT, context)
    rewritten = network.emitted()
    if not is_last:
        return rewritten
    rewritten = canonical(rewritten)
    context.spend(SIGNS[0] + SIGNS[1] * rewritten.operations)
    return with_fewest_signs(rewritten)


def preview(tape: Tape, context: Context, moves: int = PREVIEW) -> int:
    """Return the cost that a short search reaches, in units of the search's weights, to compare tapes.

    Args:
        tape: tape to estimate.
        context: options and deadline.
        moves: random moves for each node; 0 for a descent only.
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


def _search(network: Network, moves: int, hot: float, deadline: Deadline, *, while_winning: bool = False) -> None:
    """Sweep, then anneal (a large network in rounds, until one wins too little for its moves), then sweep again."""
    _sweep(network, deadline)
    if not moves:
        return
    if moves <= MANY and not while_winning:
        network.anneal(moves, UNIT * hot, UNIT * COLD, INLINE, deadline)
    else:
        tried = (FIRST if moves > MANY else FIRST_OF_SHORT) * network.size
        while moves > 0 and not deadline.passed:
            before = network.best_cost
            network.anneal(tried, UNIT * hot, UNIT * COLD, INLINE, deadline)
            moves -= tried
            if before - network.best_cost < WORTH * tried / 1e6 * before:
                break
            tried = min(LONGER * tried, moves)
        if network.cost != network.best_cost:  # annealing ended above its best, and sweeps take long
            return
    _sweep(network, deadline)


def _sweep(network: Network, deadline: Deadline) -> None:
    """Sweep over all nodes until sweeps stall."""
    for _ in islice(until_stalled(STALLS, lambda: network.cost, MINIMUM_GAIN), SWEEPS):
        network.sweep(network.size, deadline=deadline)
        if deadline.passed:
            break
