"""Equivalence of tapes: evaluation of both at random complex points, with bounds on rounding errors.

At complex points no operation leaves its domain, and identities that hold there hold everywhere. Functions are replaced
by others with the same symmetries, and each value has a bound on its rounding error (`accumulus.rewriting.running`).
Values may only differ within these bounds, and the bounds themselves may not grow by much.

Values that reach floor, ceil, sign, fmod or a comparison have to be equal to the last bit. Outcomes of comparisons are
chosen: first at random, then so that every branch of the tape is taken. A select is reached if it is an output, an
argument of a reached operation, or the taken branch of a reached select.

Values that are real up to rounding do not depend on the point. Rewriting may have turned them into numbers, and
functions of numbers are folded, so these functions are evaluated themselves, without stand-ins.

A mistake passes only if the bound of an output is as large as its value at all points: the tape's numbers have lost all
their digits. If an output is infinite, NaN or without a bound at all points, points nearer to zero are tried. If it is
so there, too, it has to be the very same expression; `with_expressions_of` restores it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import FOREVER, Deadline
from accumulus.errors import VerificationError
from accumulus.rewriting.running import (
    ANGLES,
    COMPARISONS,
    EXPONENTIALS,
    FUNCTIONS,
    JUMPS,
    SLACK,
    UNIT,
    WITH_LAWS,
    At,
    Function,
    Reals,
    Run,
)
from accumulus.tape.interpreter import copied, outputs_at
from accumulus.tape.live import needed, signed_zeros
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import SELECT, Tape

#: Number of points at which tapes are compared; one from `LARGE` operations on. Further points cost time in proportion;
#: with fewer, a mistake stays unseen if its terms vanish there by chance.
POINTS: Final = 2
LARGE: Final = 100_000
#: Number of random points if values have to be equal to the last bit, largest number of further points to take every
#: branch, and largest number of operations at these together. More points cost time in proportion, fewer leave branches
#: unverified.
AT_RANDOM: Final = 6
MOST: Final = 40
OPERATIONS_OF_BRANCHES: Final = 1_000_000
#: Scales of points nearer to zero, for results that overflow, as products of products do. Smaller scales compare
#: results of higher degree, but terms of the highest degree vanish beside the others there; each scale costs another
#: evaluation.
NEARER_ZERO: Final = (0.3, 0.1, 0.03)
#: Largest growth of the bound: over `examples/` and `benchmarks/suite/` it grows by 15 at most. A larger one accepts
#: programs that lose digits, a smaller one refuses correct ones.
FAR: Final = 1e3
#: Number of operations, at all points, that are evaluated together; seconds of work per point, and per operation at a
#: point. More operations take memory and react later to the deadline, fewer make more calls; estimates above the true
#: time end verification early, estimates below exceed its work.
TOGETHER: Final = 200_000
RUN: Final = (5e-4, 5e-7)


class IncomparableError(VerificationError):
    """Error for outputs that cannot be compared with the original's, and whose expressions differ from them.

    All other outputs are equal.

    Attributes:
        outputs: positions of these outputs.
    """

    def __init__(self, outputs: Sequence[int]) -> None:
        super().__init__(
            f"output {outputs[0]} of the optimised tape cannot be compared with what it was: at every point tried, "
            "that is infinite, NaN, or has no digit left after rounding"
        )
        self.outputs = tuple(outputs)


class InaccurateError(VerificationError):
    """Error for outputs that equal the original's, but whose bounds on rounding are much larger.

    Attributes:
        outputs: positions of outputs of this kind; there may be more.
    """

    def __init__(self, outputs: Sequence[int]) -> None:
        super().__init__(
            f"output {outputs[0]} of the optimised tape is less accurate than it was: its bound on rounding grows more "
            f"than {FAR:g} times"
        )
        self.outputs = tuple(outputs)


def verify_by_any(tape: Tape, other: Tape, seed: int = 0, **options: Any) -> Verification:
    """Verify two tapes, with identities of exponentials, logarithms and angles if needed; return the verification.

    Args:
        tape: original tape.
        other: rewritten tape.
        seed: seed of the points.
        options: further options of `Verification`.
    """
    try:
        verification = Verification(tape, seed, **options)
        verification.check(other)
    except VerificationError:
        if not (EXPONENTIALS | ANGLES).keys() & set(tape.codes):
            raise
        verification = Verification(tape, seed, functions=WITH_LAWS, **options)
        verification.check(other)
    return verification


class Verification:
    """Values of a tape at points, against which other tapes are checked.

    The constructor does half of the work, and takes about as long as `check`.

    Args:
        tape: original tape.
        seed: seed of the points.
        kept_outputs: number of leading outputs that must be equal to the last bit.
        deadline: end of the time for this, checked after each evaluation; the work of `check` is counted in advance.
        choices: for each point, outcomes of comparisons by reference, instead of choices that take every branch once.
        reaches: scales of the points, in turn.
        functions: stand-ins for functions, by the code of the operation.
        is_mixed: if True, outcomes of comparisons are numbers that mix both branches; see `At`.

    Raises:
        OutOfTimeError: if the deadline passes before the constructor is done.
    """

    def __init__(
        self,
        tape: Tape,
        seed: int = 0,
        *,
        kept_outputs: int = 0,
        deadline: Deadline = FOREVER,
        choices: Sequence[Mapping[int, bool]] | None = None,
        reaches: Sequence[float] = (1.0,),
        functions: Mapping[int, Function] = FUNCTIONS,
        is_mixed: bool = False,
    ) -> None:
        self._tape, self._kept_outputs, self._functions = tape, kept_outputs, functions
        rng = random.Random(seed)
        self._at: list[At] = []
        #: Outputs, and bounds on their errors, (points, outputs) each.
        self._outputs: NDArray[np.complex128] = np.zeros((0, len(tape.outputs)), complex)
        self._errors: Reals = np.zeros((0, len(tape.outputs)))
        #: Evaluation of the tape itself, if it covers all points.
        self._original_run: Run | None = None

        def run(at: Sequence[At], chosen: Sequence[Mapping[int, bool]]) -> None:
            original = Run(tape, at, chosen, functions)
            self._original_run = None if self._at else original
            self._at += at
            outputs, errors = original.outputs()
            self._outputs, self._errors = np.vstack([self._outputs, outputs]), np.vstack([self._errors, errors])
            deadline.check(len(at) * (RUN[0] + RUN[1] * len(tape)))

        def drawn(reach: float, signs: Sequence[float]) -> At:
            parts = [
                (rng.choice(signs) * rng.uniform(-1.5, -0.5), rng.choice(signs) * rng.uniform(0.01, 0.5))
                for _ in range(tape.inputs)
            ]
            return At([reach * complex(*each) for each in parts], rng.getrandbits(60), {}, is_mixed)

        waiting, chosen = [], []
        for turn, each in enumerate(_choices(tape, rng, kept_outputs) if choices is None else choices):
            # first on one side of the roots' branch cuts, then on both, where identities of positive numbers fail
            waiting.append(drawn(reaches[turn % len(reaches)], (1.0, -1.0) if turn else (1.0,)))
            chosen.append(each)
        for chunk in _chunks(tape, len(waiting)):
            run(waiting[chunk], chosen[chunk])
        for reach in NEARER_ZERO:
            if _are_bounded(self._outputs, self._errors).any(axis=0).all():
                break
            run([drawn(reach, (1.0, -1.0))], [{}])

    @property
    def points(self) -> int:
        """Number of points at which tapes are compared."""
        return len(self._at)

    def run(self, other: Tape) -> Run:
        """Evaluate another tape at all points.

        Raises:
            VerificationError: if it has a comparison that the first tape has not, to the last bit.
        """
        if other is self._tape and self._original_run is not None:
            return self._original_run
        return Run(other, self._at, None, self._functions)

    def check(self, other: Tape) -> None:
        """Check that another tape with the same inputs has the same outputs.

        Raises:
            VerificationError: if an output differs; the message names the first one.
            InaccurateError: if none differs so far, but some are much less accurate.
            IncomparableError: if none differs, but some cannot be compared.
        """
        tape = self._tape
        if (tape.inputs, len(tape.outputs)) != (other.inputs, len(other.outputs)):
            raise VerificationError(
                f"a tape of {tape.inputs} inputs and {len(tape.outputs)} outputs became one of {other.inputs} and "
                f"{len(other.outputs)}"
            )
        seen = np.zeros(len(tape.outputs), bool)
        for chunk in _chunks(other, len(self._at)):
            run = Run(other, self._at[chunk], None, self._functions)
            seen |= self._compared(chunk, *run.outputs()).any(axis=0)
        if not seen.all():
            # outputs that could not be compared at any point need equal expressions
            _, moved = _side_by_side(tape, other)
            differ = [k for k in np.flatnonzero(~seen).tolist() if moved[k] != tape.outputs[k]]
            if differ:
                raise IncomparableError(differ)

    def _compared(self, chunk: slice, b: NDArray[np.complex128], other_errors: Reals) -> NDArray[np.bool_]:
        """Return the mask of outputs that could be compared at some points; raise `VerificationError` if one differs.

        Args:
            chunk: slice of the points.
            b: outputs of the other tape, (points, outputs).
            other_errors: bounds on their errors, (points, outputs).
        """
        a, errors = self._outputs[chunk], self._errors[chunk]
        with np.errstate(all="ignore"):
            changed = ~((a == b) | (np.isnan(a) & np.isnan(b)))
            changed[:, self._kept_outputs :] = False
            seen = _are_bounded(a, errors)
            sizes, other_sizes = np.hypot(a.real, a.imag), np.hypot(b.real, b.imag)
            # skip values that are 0 in both tapes: the bound of a product of such values is too small
            informative = seen & ~((a == 0) & (b == 0))
            are_nothing = (sizes <= SLACK * UNIT * errors) & (other_sizes <= SLACK * UNIT * other_errors)
            most = FAR * (errors + np.where(are_nothing, np.maximum(sizes, 1.0), sizes))
            unbounded = informative & ~(np.isfinite(other_sizes) & (other_errors <= most))
            off = np.hypot((a - b).real, (a - b).imag)
            different = informative & (off > SLACK * UNIT * (errors + other_errors) + 1e-300)
            inaccurate = unbounded & np.isfinite(other_sizes) & (off <= SLACK * UNIT * (errors + other_errors))
        wrong = changed | unbounded | different
        if inaccurate.any() and not (wrong & ~inaccurate).any():
            raise InaccurateError(np.flatnonzero(inaccurate.any(axis=0)).tolist())
        if wrong.any():
            p, k = np.argwhere(wrong & ~inaccurate)[0].tolist()
            how = "which rounding does not explain"
            if unbounded[p, k]:
                how = "and its rounding error, which was bounded, is not any more"
            if changed[p, k]:
                how = "though it was to be kept to the last bit"
            raise VerificationError(
                f"output {k} of the optimised tape is {complex(b[p, k]):.6g} at a complex point where it was "
                f"{complex(a[p, k]):.6g}, {how}. This is a mistake of the optimiser; please report the function"
            )
        return seen


def _chunks(tape: Tape, points: int) -> Iterator[slice]:
    """Return slices of the points at which a tape is evaluated together."""
    together = max(1, TOGETHER // len(tape)) if len(tape) else max(1, points)
    return (slice(first, first + together) for first in range(0, points, together))


def _are_bounded(outputs: NDArray[np.complex128], errors: Reals) -> NDArray[np.bool_]:
    """Return the mask of finite outputs with a finite bound on their error."""
    with np.errstate(all="ignore"):
        bounded: NDArray[np.bool_] = np.isfinite(np.hypot(outputs.real, outputs.imag)) & np.isfinite(errors)
    return bounded


def with_expressions_of(tape: Tape, other: Tape, outputs: Iterable[int]) -> Tape:
    """Return the second tape with some outputs computed by the first tape's expressions."""
    both, moved = _side_by_side(tape, other)
    both.outputs = moved
    for k in outputs:
        both.outputs[k] = tape.outputs[k]
    return both


def _side_by_side(tape: Tape, other: Tape) -> tuple[Tape, list[int]]:
    """Return both tapes as one, equal operations once, and the references of the second tape's outputs on it."""
    both = tape.copy()
    return both, copied(other, both, range(other.inputs), signed=signed_zeros(other))


# Branches -------------------------------------------------------------------------------------------------------------


def all_choices(tape: Tape, most: int) -> list[dict[int, bool]] | None:
    """Return every combination of outcomes of the tape's comparisons, by reference; None if there are too many.

    Args:
        tape: tape with comparisons.
        most: largest number of comparisons.
    """
    live = needed(tape)
    comparisons = [r for r in range(tape.inputs, len(tape)) if live[r] and tape.codes[r] in COMPARISONS]
    if len(comparisons) > most:
        return None
    return [dict(zip(comparisons, way, strict=True)) for way in product((True, False), repeat=len(comparisons))]


def _choices(tape: Tape, rng: random.Random, kept_outputs: int) -> Iterator[Mapping[int, bool]]:
    """Yield for each point the outcomes of comparisons; others are random."""
    if not kept_outputs and not (COMPARISONS | JUMPS).intersection(tape.codes):
        yield from [{}] * (POINTS if tape.operations < LARGE else 1)
        return
    yield from [{}] * (AT_RANDOM if tape.operations < LARGE else POINTS)
    branches = UntakenBranches(tape)
    for _ in range(min(MOST, OPERATIONS_OF_BRANCHES // max(1, tape.operations))):
        if branches.all_taken:
            return
        yield branches.choose(rng)


_AND, _OR, _NOT = (BY_NAME[name].code for name in ("logical_and", "logical_or", "logical_not"))


class UntakenBranches:
    """Branches of a tape that have not been taken."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        live = needed(tape)
        self._live = [r for r in range(tape.inputs, len(tape)) if live[r]]
        self._missing = {(r, side) for r in self._live if tape.codes[r] == SELECT for side in (True, False)}

    @property
    def all_taken(self) -> bool:
        """Return True if every branch has been taken, or cannot be."""
        return not self._missing

    def choose(self, rng: random.Random) -> dict[int, bool]:
        """Return outcomes of comparisons, by reference, that take more branches."""
        tape, missing = self._tape, self._missing
        leads = bytearray(len(tape))  # to a branch that has not been taken
        for r in self._live:
            untaken = tape.codes[r] == SELECT and ((r, True) in missing or (r, False) in missing)
            leads[r] = untaken or any(a >= 0 and leads[a] for a in tape.arguments(r))
        reached = bytearray(len(tape))
        for output in tape.outputs:
            if output >= 0:
                reached[output] = 1
        chosen: dict[int, bool] = {}
        before = len(missing)
        for r in reversed(self._live):
            if not reached[r]:
                continue
            arguments = tape.arguments(r)
            if tape.codes[r] == SELECT:
                condition, *sides = arguments
                worthwhile = [
                    (r, side) in missing or (a >= 0 and leads[a] == 1)
                    for side, a in zip((True, False), sides, strict=True)
                ]
                side = worthwhile[0] if worthwhile[0] != worthwhile[1] else rng.random() < 0.5
                side = self._force(condition, side, chosen)
                missing.discard((r, side))
                taken = sides[0 if side else 1]
                arguments = (condition, taken)
            for a in arguments:
                if a >= 0:
                    reached[a] = 1
        if len(missing) == before:
            missing.clear()  # the remaining branches are out of reach
        return chosen

    def _force(self, condition: int, outcome: bool, chosen: dict[int, bool]) -> bool:
        """Choose free comparisons so that a condition has an outcome, if possible; return the condition's value."""
        tape = self._tape
        if condition < 0:
            return bool(tape.value_of(condition))
        code = tape.codes[condition]
        if code == _NOT:
            return not self._force(tape.first[condition], not outcome, chosen)
        if code in (_AND, _OR):
            both = outcome == (code == _AND)
            one = self._force(tape.first[condition], outcome, chosen)
            if not both and one == outcome:
                return outcome
            two = self._force(tape.second[condition], outcome, chosen)
            return (one and two) if code == _AND else (one or two)
        if code == SELECT:  # a choice between truth values
            return outcome
        return chosen.setdefault(condition, outcome)


# Defined by cases ----------------------------------------------------------------------------------------------------

#: Largest number of inputs that are zero or far alone, and of triples of inputs, such as vectors, that are zero. More
#: points take time, fewer miss points at which a case alone is defined.
SINGLE: Final = 8
TRIPLES: Final = 16
#: Value of an input where exponentials overflow.
OVERFLOWING: Final = 1000.0
#: Operations by which programs keep out of what is undefined: a branch that is not taken, and bounds such as
#: max(length, 1e-9).
GUARDS: Final = frozenset(BY_NAME[name].code for name in ("select", "minimum", "maximum"))


def points_of_cases(inputs: int, points: Reals | None) -> Reals:
    """Return points at which functions are often defined by a case alone, (points, inputs): zeros, and far ones.

    Args:
        inputs: number of inputs.
        points: points of the domain, (points, inputs), or None.
    """
    is_given = points is not None and len(points) and points.shape[1:] == (inputs,)
    at = points[0] if points is not None and is_given else np.ones(inputs)
    all_of_them = np.ones((1, inputs), bool)
    single = np.eye(inputs, dtype=bool)[:SINGLE]
    starts = np.arange(0, max(inputs - 2, 1), 1 if inputs <= TRIPLES else len("xyz"))[:TRIPLES]
    triples = (np.arange(inputs) >= starts[:, np.newaxis]) & (np.arange(inputs) < starts[:, np.newaxis] + len("xyz"))
    zeros = np.where(np.concatenate([all_of_them, single, triples]), 0.0, at)
    far = [np.where(np.concatenate([all_of_them, single]), side * OVERFLOWING, at) for side in (1.0, -1.0)]
    return np.concatenate([zeros, *far])


class Definedness:
    """Points among `points_of_cases` at which the outputs of a program with cases or bounds are finite.

    Select has the value of a branch where the other one is undefined. Rewriting may move operations out of a branch, or
    out of bounds, and verification at random points does not notice.

    Args:
        tape: the program.
        points: points of the domain, (points, inputs), or None.
    """

    def __init__(self, tape: Tape, points: Reals | None) -> None:
        self._at = points_of_cases(tape.inputs, points) if tape.inputs and GUARDS.intersection(tape.codes) else None
        self._is_defined = self._finite(tape)

    def includes(self, tape: Tape) -> bool:
        """Return True if a program with the same outputs is finite wherever this one is."""
        return self._at is None or bool((self._finite(tape) | ~self._is_defined).all())

    def _finite(self, tape: Tape) -> NDArray[np.bool_]:
        if self._at is None:
            return np.zeros(0, bool)
        with np.errstate(all="ignore"):
            finite: NDArray[np.bool_] = np.isfinite(outputs_at(tape, self._at))
        return finite
