"""Optimiser of tapes that derivatives call: rules and, where there is time, resubstitution, in turns.

Sources: S. Kirkpatrick, C. D. Gelatt and M. P. Vecchi, Optimization by simulated annealing, Science 220, 1983; R. K.
Brayton and A. Mishchenko, ABC: an academic industrial-strength verification tool, CAV 2010. docs/algebra-on-the-tape.md
and docs/by-value.md have more.

The default effort runs rules, resubstitution and rules again, in about the time that rules alone take. Candidates are
the values of the original program and of programs that the rules find on the way. The chosen program is rewritten by
rules again, which then gain more than before. Values are sampled at few points, and the search is short; the result has
to pass the same tests as every resubstitution.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus import cache
from accumulus.cache import digest_of_parts
from accumulus.context import Context
from accumulus.errors import VerificationError
from accumulus.options import Effort, Options
from accumulus.resubstitution.angles import with_sums_of_angles
from accumulus.rewriting.acceptance import Original
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.domains import Assumed
from accumulus.rewriting.equivalence import Verification
from accumulus.rewriting.optimise import Rounds, by_rules, check_tape, sketch
from accumulus.rewriting.polynomials import multiplied_out
from accumulus.rewriting.scaling import with_scaled_forms
from accumulus.tape.columns import references_in
from accumulus.tape.interpreter import values_near
from accumulus.tape.live import with_used_constants
from accumulus.tape.moving import narrowed
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.passes import rows_of, with_folding, with_noted_folding
from accumulus.tape.tape import ADD, MULTIPLY, NEGATIVE, SUBTRACT, Tape, from_bytes, to_bytes

if TYPE_CHECKING:
    from accumulus.resubstitution.identities import Identity
    from accumulus.resubstitution.proofs import Proof
    from accumulus.rewriting.rounding import RealPoints
    from accumulus.tape.fusion import Map
    from accumulus.tape.program import Program

#: Most operations of a program for resubstitution: the time for a round grows faster than the program, so longer ones
#: see few rounds; a smaller number leaves operations that rules cannot remove.
MOST_OPERATIONS: Final = 3000
#: Moves for each operation in the first round, their growth factor per round, and the number of rounds without a gain
#: after which the search ends. More moves make fewer rounds, each with a better selection; more patience costs time at
#: the end, less ends before late gains.
MOVES: Final = 40
GROWTH: Final = 1.3
PATIENCE: Final = 16
#: Approximate seconds of work of a round for each operation. A round begins only if this much work is left; if less
#: than `LAST` rounds are left, it is the last. Larger numbers end the search early, smaller ones begin a round that is
#: cut short.
ROUND: Final = 2e-4
LAST: Final = 2.0
#: Number of rounds for which work is reserved while starting programs are made: more rounds leave out starting programs
#: under short limits, fewer leave no time to combine them.
KEPT: Final = 2.5
#: Sizes, in operations, for which the default effort runs resubstitution once. Below, its cost exceeds its gain; above,
#: it delays the first results.
BRIEF: Final = (60, 1200)
#: Largest size, in operations, of programs whose terms are multiplied out by default though they are no polynomials.
SHORT: Final = 280
#: Number that stands for ∞ in comparisons while programs are rewritten; arithmetic with it overflows.
LARGEST_NUMBER: Final = float(np.finfo(np.float64).max)
_FIELD: Final = frozenset((ADD, SUBTRACT, MULTIPLY, NEGATIVE))
_COMPARISONS: Final = [row.code for row in OPERATIONS if row.jumps and row.result == "boolean"]


def is_by_value(tape: Tape, effort: str) -> bool:
    """Return True if resubstitution runs after the rules, in many rounds."""
    return effort == "thorough" and tape.operations <= MOST_OPERATIONS


def looks_at_points(tape: Tape, effort: str) -> bool:
    """Return True if the rewritten tape may depend on the points of its domain."""
    return is_by_value(tape, effort) or (effort == "balanced" and BRIEF[0] <= tape.operations <= BRIEF[1])


def optimise(
    tape: Tape,
    *,
    effort: Effort = "balanced",
    time_limit: float = 2.0,
    seed: int = 0,
    kept_outputs: int = 0,
    rounds: Rounds | None = None,
    points: NDArray[np.float64] | None = None,
    dtype: str = "float64",
) -> Tape:
    """Return a tape with the same inputs and outputs, and never more operations.

    ``docs/algebra-on-the-tape.md`` lists the rules, each with its effect on rounding. The result is verified against
    the tape's canonical form. Under "thorough", rules and resubstitution alternate until several rounds in a row win
    nothing; under "balanced", resubstitution runs once, if the tape is neither short nor long.

    Args:
        tape: any tape.
        effort: "fast", "balanced" or "thorough"; see `accumulus.rewriting.optimise.by_rules`.
        time_limit: seconds for the search. It ends after the work that takes an idle core about half of them.
        seed: seed of the search. The same seed, effort and time limit give the same tape, unless the clock runs out
            first.
        kept_outputs: number of leading outputs whose operations stay unchanged.
        rounds: rounds of annealing, one by default; more follow if the effort is thorough.
        points: (points, inputs), real points of the domain at which effects of rounding are examined, besides random
            ones.
        dtype: type that the program is computed in; values that overflow in it, or lose all digits, are unknown.

    Warns:
        RewritingWarning: if the verification fails, which would be a mistake of this package.

    Raises:
        ArgumentError: if `tape` is not a `Tape`, `time_limit` is negative, or the tape has fewer outputs than
            `kept_outputs`.
        UnknownNameError: for an unknown effort.

    >>> tape = Tape(2)
    >>> sine, cosine = tape.apply("sin", 0), tape.apply("cos", 0)
    >>> tape.outputs = [tape.multiply(1, tape.add(tape.multiply(sine, sine), tape.multiply(cosine, cosine)))]
    >>> print(optimise(tape, effort="thorough"))
    return x1
    """
    options = Options(effort=effort, time_limit=time_limit, seed=seed, dtype=dtype)
    return rewrite(tape, Context(options), kept_outputs=kept_outputs, rounds=rounds, points=points)


def rewrite(
    tape: Tape,
    context: Context,
    *,
    kept_outputs: int = 0,
    rounds: Rounds | None = None,
    points: NDArray[np.float64] | None = None,
    alternatives: Callable[[], Iterable[Tape]] = tuple,
    notes: dict[str, Any] | None = None,
    assumed: Assumed = (),
) -> Tape:
    """Optimise a tape within a context; see `optimise`.

    Args:
        tape: tape to rewrite.
        context: options and deadline.
        kept_outputs: number of leading outputs whose operations stay unchanged.
        rounds: rounds of the search; None for the effort's default.
        points: points of the domain, (points, inputs).
        alternatives: function that yields other programs with the same outputs, whose values are candidates, if time
            permits.
        notes: dict that receives facts fit for JSON: "stages", names of stages and the operations that each left.
        assumed: what holds of each input in all calls.
    """
    notes = {} if notes is None else notes
    stages: list[tuple[str, int]] = notes.setdefault("stages", [])
    effort, seed = context.options.effort, context.options.seed
    check_tape(tape, kept_outputs)
    # values with infinite numbers have no digits to be compared by: inf // x is infinite at 0, and no number elsewhere
    tape, is_finite = _with_finite_numbers(with_folding(tape), kept_outputs)
    bounded = None if is_finite else _with_bounded_comparisons(tape)
    if bounded is not None:
        made = rewrite(
            bounded,
            context,
            kept_outputs=kept_outputs,
            rounds=rounds,
            points=points,
            alternatives=lambda: filter(None, map(_with_bounded_comparisons, alternatives())),
            notes=notes,
            assumed=assumed,
        )
        unbounded = _with_infinite_comparisons(made)
        if unbounded is not None:
            return unbounded
        stages.clear()
    original = Original(tape, context, points, kept_outputs, assumed=assumed)
    if assumed:
        tape = original.shortened

    def rewritten(effort: Effort, tape: Tape, turn: int) -> Tape:
        within = context.having(effort=effort, seed=seed + turn)
        return by_rules(tape, within, kept_outputs=kept_outputs, rounds=rounds, original=original)

    def by_default() -> Tape:
        # kept outputs are differentiated afterwards, and tapes with special rounds have little to gain
        is_usual = is_finite and not kept_outputs and rounds in (None, Rounds())
        # resubstitution must not delay the first results
        is_brief = is_usual and BRIEF[0] <= tape.operations <= BRIEF[1]
        if is_brief and context.left > ROUND * tape.operations:
            result = resubstitute_once(tape, context.having(effort="balanced"), original)
            stages.append(("rules and resubstitution", result.operations))
        else:
            result = rewritten("balanced", tape, 0)
            stages.append(("rules", result.operations))
        # terms of short programs, and of polynomials like rotations and poses, cancel when they are multiplied out
        is_short = is_usual and tape.operations < SHORT
        is_polynomial = is_usual and tape.operations <= BRIEF[1] and _FIELD.issuperset(tape.codes[tape.inputs :])
        if (is_short or is_polynomial) and context.left > ROUND * tape.operations:
            multiplied = from_polynomials(tape, result, context.having(effort="balanced"), original)
            if multiplied is not None:
                result = multiplied
                stages.append(("multiplied out, and rules", result.operations))
        return result

    if effort == "balanced":
        return by_default()
    if not is_by_value(tape, effort):
        made = rewritten(effort, tape, 0)
        stages.append(("rules", made.operations))
        return made
    with context.paused():
        from accumulus.resubstitution.resubstitute import Resubstitution, cost
    best = first = by_default()
    start = canonical(tape, kept_outputs)
    if is_finite and start.operations and context.left > ROUND * tape.operations:
        of_sums = with_sums_of_angles(start, kept_outputs)
        if of_sums is not None:
            original = Original(tape, context, points, kept_outputs, sums_of_angles=True, assumed=assumed)
        by_value = Resubstitution(original, kept_outputs, seed)
        sources, pool = [tape], [rewritten("balanced", tape, 1)]
        for other in chain((of_sums,), alternatives()):
            if context.left < KEPT * ROUND * tape.operations:
                break
            if other is not None and other.folding is None:
                other.folding = tape.folding
            if other is not None and other.operations <= MOST_OPERATIONS and original.is_same(other):
                sources.append(other)
                pool.append(rewritten("balanced", other, 1))
        # leave out the default effort's program, from which resubstitution finds no other
        programs = [rewritten("balanced", tape, 0), *pool]
        best, moves, turn, misses = min(programs, key=cost), MOVES * tape.operations, 0, 0
        while (left := context.left) > ROUND * tape.operations:
            # at the end, and once more as long as that wins something
            is_last = misses >= PATIENCE or left < LAST * ROUND * tape.operations
            before = cost(best)
            cheapest = by_value.cheapest(programs, moves, context, seed + turn, is_last=is_last)
            cheapest = cheapest if original.accepts(cheapest) else best
            again = rewritten("balanced", cheapest, turn)
            best = min(best, cheapest, again, key=cost)
            pool[turn % len(pool)] = rewritten("balanced", sources[turn % len(pool)], turn + 2)
            programs = [best, cheapest, again, *pool]
            misses = misses + 1 if cost(best) == before else 0
            moves, turn = int(GROWTH * moves), turn + 1
            if is_last and misses:
                break
        stages.append((f"resubstitution and rules, {turn} rounds", best.operations))
    best = min(best, rewritten("thorough", best, 0), first, key=cost)
    # fewer divisions may take more operations than the original has
    best = best if best.operations <= start.operations else first
    stages.append(("rules at the end", best.operations))
    return best


def _with_finite_numbers(tape: Tape, kept_outputs: int) -> tuple[Tape, bool]:
    """Return the tape without infinite numbers and NaN that no result needs, and True if it has no others.

    NumPy's empty arrays are recorded as NaN, which remains in the tape when all entries are overwritten.
    """
    if np.isfinite(tape.constants).all():
        return tape, True
    for start in (tape, canonical(tape, kept_outputs)):  # dead operations may have such numbers
        used = with_used_constants(start)
        if np.isfinite(used.constants).all():
            return used, True
    return tape, False


def _with_bounded_comparisons(tape: Tape) -> Tape | None:
    """Return the tape with the largest number in place of ∞; None if others than comparisons have infinite numbers.

    Programs that refuse infinite arguments compare them with ∞.
    """
    used = with_used_constants(tape)
    made = _with_numbers_compared(used, {math.inf: LARGEST_NUMBER, -math.inf: -LARGEST_NUMBER})
    return made if made is not None and np.isfinite(made.constants).all() else None


def _with_infinite_comparisons(tape: Tape) -> Tape | None:
    """Undo `_with_bounded_comparisons`; None if others than comparisons have the largest number now."""
    return _with_numbers_compared(tape, {LARGEST_NUMBER: math.inf, -LARGEST_NUMBER: -math.inf})


def _with_numbers_compared(tape: Tape, others: Mapping[float, float]) -> Tape | None:
    """Return the tape with other numbers in place of some; None unless comparisons alone have these.

    None, too, if the tape has any of the other numbers.
    """
    if not {*others.values()}.isdisjoint(tape.constants):
        return None
    rows = rows_of(tape, tape.inputs)
    rows = rows[~np.isin(rows[:, 0], _COMPARISONS)]
    elsewhere = np.concatenate([rows[:, 1:].reshape(-1), np.array(tape.outputs, np.int64)])
    numbers = np.array(tape.constants)[-1 - elsewhere[elsewhere < 0]]
    if not others.keys().isdisjoint(numbers.tolist()):
        return None
    made = tape.copy()
    made.constants = [others.get(number, number) for number in tape.constants]
    return made


# By a theorem --------------------------------------------------------------------------------------------------------


#: Theorems about derivatives of rotations, and strengths of waves, for reports.
ROTATIONS: Final = "left Jacobian of rotations"
WAVES: Final = "Roe's property: strengths of waves that add up to a jump"


def has_results_of(
    tape: Tape,
    other: Tape,
    context: Context,
    points: NDArray[np.float64] | None,
    gradients: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None,
) -> bool:
    """Return True if a program by a theorem has the results of another one, as accurate, and defined as widely.

    Args:
        tape: program by a theorem, with emitted derivatives if it has some.
        other: the other program.
        context: options and deadline.
        points: points of the domain, (points, inputs).
        gradients: of the last outputs, the results and inputs of derivatives, if they are some.
    """
    # theorems leave operations before comparisons as they are, but for the arguments of absolute values
    original = Original(with_folding(other), context, points, bits_matter=False, gradients=gradients)
    start = original.start
    if tape.folding is not None and start.folding is not None:
        for number, fraction in tape.folding.fractions.items():
            start.folding.note(number, fraction)
    return original.accepts(canonical(with_noted_folding(tape.copy(), start)))


# Multiplied out, by default ------------------------------------------------------------------------------------------

#: Seconds of work to multiply a program out, per operation, and to examine its rounding. Estimates above the true time
#: leave less for rules, estimates below exceed the work.
MULTIPLIED: Final = 1e-5
ROUNDED: Final = 2e-3
#: Largest relative length of a program that is tried, and moves of rules per operation in that trial. Longer programs
#: and more moves cost preparation time, shorter ones and fewer moves reject programs that rules would make short.
TRIED: Final = 1.35
DECIDED: Final = 70


def from_polynomials(tape: Tape, simplified: Tape, context: Context, original: Original) -> Tape | None:
    """Return the multiplied-out program, rewritten by rules; None if it is no shorter.

    Args:
        tape: tape to multiply out.
        simplified: the tape as rewritten by rules without multiplying out.
        context: options and deadline.
        original: original program, whose outputs the result has to keep.
    """
    start = canonical(with_folding(tape))
    context.spend(MULTIPLIED * start.operations)
    multiplied = multiplied_out(start)
    if multiplied is None or multiplied.operations > TRIED * start.operations:
        return None
    rough = sketch(multiplied, DECIDED, context, is_last=False)
    # later stages remove most changes of sign
    if rough.operations - rough.codes.count(NEGATIVE) >= simplified.operations:
        return None
    if not original.is_same(rough):
        return None
    context.spend(ROUNDED)
    made = by_rules(tape, context, begin_with=rough, original=original)
    return made if made.operations < simplified.operations else None


def shorter_by_angles(tape: Tape, context: Context, points: NDArray[np.float64] | None) -> Tape:
    """Return a tape with sines and cosines of sums of angles, if that is shorter and as accurate; else the given one.

    Args:
        tape: any tape.
        context: options and deadline.
        points: points of the domain, (points, inputs).
    """
    original = Original(with_folding(tape), context, points, sums_of_angles=True)
    made = with_sums_of_angles(original.start)
    is_shorter = made is not None and made.operations < original.start.operations
    return made if made is not None and is_shorter and original.accepts(made) else tape


# Once, by default ----------------------------------------------------------------------------------------------------


class Brief(NamedTuple):
    """Random moves for each operation. More cost preparation time in proportion, fewer leave operations."""

    before: int  # of rules before resubstitution
    selection: int  # of definitions
    after: int  # of rules after it


#: Moves for programs of fewer than `SHORT` operations, and for longer ones. Short programs take a fixed time for
#: resubstitution, and moves add little to it; in longer ones, many moves of rules before it hide common values.
OF_SHORT: Final = Brief(150, 80, 400)
OF_LONG: Final = Brief(70, 80, 200)
#: The time for pairs of values grows with the square of their number. So longer programs run resubstitution only if
#: rules leave at most this fraction of their operations, and otherwise fewer moves; and fewest if they leave nearly
#: all, as of products of matrices. A larger size or fraction delays first results, a smaller one leaves operations.
LARGE: Final = 600
LEFT: Final = 0.95
NEARLY_ALL: Final = 0.985
FEWEST: Final = 50


def resubstitute_once(tape: Tape, context: Context, original: Original) -> Tape:
    """Return a tape with the same inputs and outputs, and never more operations, verified.

    Args:
        tape: tape to rewrite.
        context: options and deadline.
        original: the same as an original program.
    """
    with context.paused():
        from accumulus.resubstitution.resubstitute import Resubstitution  # only some processes need it
    rounds, options = Rounds(), context.options
    start = original.start
    if not start.operations:
        return by_rules(tape, context, rounds=rounds, original=original)
    moves = OF_SHORT if tape.operations < SHORT else OF_LONG
    rough = sketch(start, moves.before, context, is_last=False)
    if start.operations > LARGE and rough.operations > LEFT * start.operations:
        left = FEWEST if rough.operations > NEARLY_ALL * start.operations else moves.after
        return by_rules(tape, context, rounds=replace(rounds, moves=left), begin_with=rough, original=original)

    def finish(program: Tape) -> Tape:
        return with_scaled_forms(sketch(program, moves.after, context))

    by_value = Resubstitution(original, 0, options.seed)
    candidate = by_value.cheaper(rough, moves.selection * rough.operations, context, options.seed, finish)
    faults = None
    if candidate is not None and candidate.operations < start.operations:
        with suppress(VerificationError):  # an equality by chance
            faults = original.faults(candidate)
        if faults is not None and not faults:
            return candidate
    left = rounds.moves - moves.before
    ruled = by_rules(tape, context, rounds=replace(rounds, moves=left), begin_with=rough, original=original)
    restored = None
    if candidate is not None and faults is not None:
        with suppress(VerificationError):
            restored = original.restored(candidate, ruled, faults)
    return ruled if restored is None or restored.operations >= ruled.operations else restored


# Programs over arrays ------------------------------------------------------------------------------------------------


#: Number of instances of a body at whose operands rounding is judged: more take time for each body, fewer miss
#: instances that are unlike the others.
INSTANCES: Final = 8
#: Number of operations of a program up to which it runs as it is for these operands, rather than the part of it that
#: they need; and up to which it runs at all. Larger ones run more operations for nothing, and large matrices for
#: seconds; smaller ones take time to find this part, and judge rounding at other numbers.
MOST_RUN, MOST_NARROWED = 20_000_000, 10_000_000_000


def optimise_bodies(
    maps: Sequence[Map], context: Context, program: Program | None = None, points: NDArray[np.float64] | None = None
) -> None:
    """Replace the bodies of maps by cheaper ones, most frequently run bodies first; equal bodies become one.

    Args:
        maps: the maps.
        context: options and deadline.
        program: program that they belong to.
        points: points of its domain, (points, inputs); rounding is judged at the operands of bodies at the first one.
    """
    ordered = sorted(maps, key=lambda each: each.count * each.body.operations, reverse=True)
    bodies: dict[str, list[Map]] = {}
    for each in ordered:
        if each.body.operations:
            key = digest_of_parts([to_bytes(each.body), str(each.sensitive).encode()])
            bodies.setdefault(key, []).append(each)
    with context.paused():
        operands = {}
        # functions that are called back may take long
        if program is None or program.operations > MOST_NARROWED or program.calls:
            points = None
        if program is not None and points is not None and len(points) and bodies:
            operands = _operands(program, [alike[0] for alike in bodies.values()], points[0])
    for alike in bodies.values():
        first = alike[0]
        made = rewrite(first.body, context, kept_outputs=first.sensitive, points=operands.get(id(first)))
        for each in alike:
            each.body = made


def _operands(program: Program, maps: Sequence[Map], point: NDArray[np.float64]) -> dict[int, NDArray[np.float64]]:
    """Return the operands of some instances of each map at a point, (instances, leaves), by the map's id."""
    references: list[NDArray[np.int64]] = []
    for each in maps:
        instances = np.unique(np.linspace(0, each.count - 1, INSTANCES).astype(np.int64))
        columns = [references_in(leaf)[instances] for leaf in each.leaves]
        references.append(np.array(columns, np.int64).reshape(len(columns), len(instances)).T)
    outputs = program.outputs
    try:
        program.outputs = np.concatenate([each.reshape(-1) for each in references])
        values = values_near(narrowed(program) if program.operations > MOST_RUN else program, point)
    finally:
        program.outputs = outputs
    ends = np.cumsum([each.size for each in references])[:-1]
    return {
        id(each): part.reshape(shaped.shape)
        for each, part, shaped in zip(maps, np.split(values, ends), references, strict=True)
    }


# In the cache --------------------------------------------------------------------------------------------------------


def tape_key(
    tape: Tape,
    context: Context,
    kept_outputs: int,
    rounds: Rounds | None = None,
    points: NDArray[np.float64] | None = None,
    assumed: Assumed = (),
) -> str:
    """Return the cache key of the tape that `rewrite` makes, a hash of everything that it depends on.

    Args:
        tape: tape to rewrite.
        context: options and deadline.
        kept_outputs: number of leading outputs whose operations stay unchanged.
        rounds: rounds of the search; None for the effort's default.
        points: points where rounding is examined; None if it is not.
        assumed: what holds of each input in all calls.
    """
    options, rounds = context.options, rounds or Rounds()
    settings = [
        options.effort,
        context.left,
        int(options.seed),
        kept_outputs,
        options.dtype,
        rounds.moves,
        *rounds.hots,
        rounds.while_winning,
        *assumed,
    ]
    everything = json.dumps(settings).encode()
    return cache.key_of("tapes", to_bytes(tape), everything, b"" if points is None else points.tobytes())


def stored_tape(
    key: str,
    tape: Tape,
    context: Context,
    points: NDArray[np.float64] | None,
    kept_outputs: int,
    assumed: Assumed = (),
) -> tuple[Tape, dict[str, Any]] | None:
    """Return the tape stored under a key, and its notes; None if there is none, or it may not be used.

    A stored tape is not trusted: it is compared with the tape that it was made from, as a new one is.

    Args:
        key: the key.
        tape: tape that was rewritten.
        context: options and deadline.
        points: points at which rounding is judged.
        kept_outputs: number of leading outputs whose operations stay unchanged.
        assumed: what holds of each input in all calls.
    """
    content = cache.fetch("tapes", key)
    if content is None:
        return None
    try:
        text, _, content = content.partition(b"\n")
        stored, notes = from_bytes(content), json.loads(text)
        given = with_folding(tape)
        originals = [
            Original(given, context, points, kept_outputs, sums_of_angles=known, assumed=assumed)
            for known in (False, True)
        ]
        stored.folding = originals[0].start.folding
        _note_exact(stored, notes["exact"])
        may_be = stored.operations <= originals[0].start.operations and any(each.accepts(stored) for each in originals)
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
        return None
    return (stored, notes) if may_be and isinstance(notes, dict) else None


def _note_exact(tape: Tape, fractions: Iterable[tuple[str, str, str]]) -> None:
    """Note the exact values of rounded constants, given by their hexadecimal doubles, numerators and denominators.

    Raises:
        ValueError: if a double is not next to its exact value.
    """
    assert tape.folding is not None
    for double, numerator, denominator in fractions:
        number, exact = float.fromhex(double), Fraction(int(numerator, 16), int(denominator, 16))
        if not abs(exact - Fraction(number)) <= 2 * Fraction(math.ulp(number)):
            raise ValueError(double)
        tape.folding.note(number, exact)


def store_tape(key: str, tape: Tape, notes: Mapping[str, Any]) -> None:
    """Store a tape under a key, if possible, with notes that are fit for JSON."""
    exact = {} if tape.folding is None else tape.folding.fractions
    rounded = [
        (number.hex(), hex(exact[number].numerator), hex(exact[number].denominator))
        for number in sorted({abs(number) for number in tape.constants} & exact.keys())
    ]
    cache.store("tapes", key, json.dumps({**notes, "exact": rounded}).encode() + b"\n" + to_bytes(tape))


# Facts about a rewritten program -------------------------------------------------------------------------------------

#: Seed that no other check uses.
SEED: Final = 103


class ByValue:
    """Tests and proofs of a rewritten program against the original one.

    Args:
        original: tape before rewriting.
        tape: tape after rewriting.
        kept_outputs: number of leading outputs whose operations stay unchanged.
        assumed: what holds of each input in all calls. The proof of equality does not use it, the tests do.
    """

    def __init__(self, original: Tape, tape: Tape, kept_outputs: int = 0, assumed: Assumed = ()) -> None:
        self._original, self._tape, self._kept_outputs, self._assumed = original, tape, kept_outputs, assumed

    @cached_property
    def base(self) -> Tape:
        """The given tape in canonical form, with the exact values of constants as the rewritten one has them."""
        original = self._original.copy()
        original.folding = self._tape.folding
        return canonical(original, self._kept_outputs)

    @cached_property
    def proof(self) -> Proof:
        """Proof that the outputs are unchanged."""
        from accumulus.resubstitution.proofs import prove

        return prove(self.base, self._tape, kept_outputs=self._kept_outputs)

    @cached_property
    def _verified(self) -> tuple[Verification, RealPoints]:
        """Test of all outputs at points that the search did not use, and real points of the original."""
        original = self._with_angles(sums_of_angles=False)
        verification = original.verified(SEED, has_small=True)
        try:
            verification.check(self._tape)
        except VerificationError:
            # the addition theorems only help where both programs write angles alike, so they come last
            original = self._with_angles(sums_of_angles=True)
            verification = original.verified(SEED, has_small=True)
            verification.check(self._tape)
        return verification, original.points

    def _with_angles(self, *, sums_of_angles: bool) -> Original:
        """Return the original as the search compares programs with it."""
        context = Context(Options(seed=SEED))
        return Original(
            self.base, context, None, self._kept_outputs, sums_of_angles=sums_of_angles, assumed=self._assumed
        )

    @property
    def tested(self) -> int:
        """Number of points of finite fields at which all outputs are tested; the search uses other points.

        Raises:
            VerificationError: if an output is wrong.
        """
        return self._verified[0].points

    @property
    def identities(self) -> list[Identity]:
        """Identities that the program relies on, unless they follow by multiplying out short formulas."""
        return self._identities[0]

    @property
    def unexplained(self) -> int:
        """Number of values that are computed in another way without a short identity that explains it."""
        return self._identities[1]

    @cached_property
    def _identities(self) -> tuple[list[Identity], int]:
        from accumulus.resubstitution.identities import identities
        from accumulus.resubstitution.values import Values

        try:
            check, points = self._verified
        except VerificationError:  # `tested` raises it
            return [], 0
        if not self.base.operations:
            return [], 0
        values = Values(self.base, check, points, self._kept_outputs)
        made = values.read(self._tape)
        return ([], 0) if made is None else identities(values, made)
