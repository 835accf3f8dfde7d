"""Equivalence of tapes: both run at random complex points, with bounds on what rounding may do.

At complex points nothing is out of its domain, and identities that hold there hold. Functions have
`accumulus.rewriting.stand_ins`. Beside each value runs a bound on its rounding error (`accumulus.rewriting.running`),
so that what is allowed to differ is what rounding explains, and not more; and the bounds themselves may not differ by
much.

What reaches floor, ceil, sign, fmod or a comparison has to be the same to the last bit. Which comparisons hold is
chosen: at random, and then so that every branch of the tape has been taken (`accumulus.rewriting.stand_ins`).

Values that are real up to rounding do not depend on the point. They may have become numbers, and functions of numbers
are folded, so of these it is the functions' own value that counts.

A mistake passes where the bound of an output is as large as its value, at all points: where the tape's numbers have
lost all their digits. Where an output is infinite, NaN or without a bound at all of them, points nearer to zero are
tried; one that is so there, too, has to be the very same expression. `with_expressions_of` makes it that.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.deadline import FOREVER, Deadline
from accumulus.errors import VerificationError
from accumulus.rewriting.running import SLACK, UNIT, Run
from accumulus.rewriting.stand_ins import (
    ANGLES,
    COMPARISONS,
    EXPONENTIALS,
    FUNCTIONS,
    JUMPS,
    WITH_LAWS,
    Branches,
    Function,
)
from accumulus.tape.live import needed, signed_zeros
from accumulus.tape.tape import Tape

__all__ = [
    "SLACK",
    "UNIT",
    "IncomparableError",
    "Verification",
    "all_choices",
    "verify",
    "verify_by_any",
    "with_expressions_of",
]

#: Points at which tapes are compared; one if they are large.
POINTS: Final = 2
LARGE: Final = 100_000
#: The same where something has to be the same to the last bit; then as many more as it takes to see every branch, at
#: most, and how many operations these may be together.
AT_RANDOM: Final = 6
MOST: Final = 40
OPERATIONS_OF_BRANCHES: Final = 1_000_000
#: How much nearer to zero points are where results grew beyond all numbers, as products of products do.
NEARER_ZERO: Final = (0.3, 0.1, 0.03)
#: By how much the bound may grow: over `examples/` and `benchmarks/suite/` it does by 15 at most.
FAR: Final = 1e3
#: Operations at points together, after which the deadline is looked at; seconds of work for a point, and for each
#: operation there.
TOGETHER: Final = 200_000
RUN: Final = (5e-4, 5e-7)


class IncomparableError(VerificationError):
    """Some outputs of a tape could not be compared with what they were, and are not written alike; no other differs.

    Attributes:
        outputs: which.
    """

    def __init__(self, outputs: Sequence[int]) -> None:
        super().__init__(
            f"output {outputs[0]} of the optimised tape cannot be compared with what it was: at every point tried, "
            "that is infinite, NaN, or has no digit left after rounding"
        )
        self.outputs = tuple(outputs)


def verify(tape: Tape, other: Tape, seed: int = 0, *, kept_outputs: int = 0) -> None:
    """Check that two tapes with the same inputs have the same outputs.

    Args:
        tape: the tape as it was, and `other` as it has become.
        seed: of the points.
        kept_outputs: that many of the first outputs have to be the same to the last bit.

    Raises:
        VerificationError: naming the first output that differs.
    """
    Verification(tape, seed, kept_outputs=kept_outputs).check(other)


def verify_by_any(tape: Tape, other: Tape, seed: int = 0, **options: Any) -> Verification:
    """`verify` by the laws of exponentials, logarithms and angles, too, where these are needed; what has verified it.

    Args:
        tape, other, seed: as for `verify`.
        options: others of `Verification`.
    """
    try:
        found = Verification(tape, seed, **options)
        found.check(other)
    except VerificationError:
        if not (EXPONENTIALS | ANGLES).keys() & set(tape.codes):
            raise
        found = Verification(tape, seed, functions=WITH_LAWS, **options)
        found.check(other)
    return found


Complexes = NDArray[np.complex128]
Reals = NDArray[np.float64]


class _At(NamedTuple):
    """A point: what has to be the same for outputs to be computed again, what they are, and bounds on their errors."""

    point: list[complex]
    oracle: int
    holds: dict[Hashable, bool]
    outputs: Complexes
    errors: Reals


class Verification:
    """Values of a tape, against which other tapes are checked.

    Half of the work is done when this is made, and takes about as long as the other half.

    Args:
        tape, seed, kept_outputs: as for `verify`.
        deadline: when to give up; it is looked at now and then, and the work of `check` is counted here, too.
        choices: for each point, which comparisons have to hold and which may not, by reference, instead of those by
            which every branch is taken once.
        reaches: how far points are from 0, in turn.
        functions: what stands in for functions there.

    Raises:
        OutOfTimeError: if the deadline passes before.
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
    ) -> None:
        self._tape, self._kept_outputs, self._functions = tape, kept_outputs, functions
        rng = random.Random(seed)
        self._runs: list[_At] = []
        #: The tape itself at all points, if it was run at all of them together.
        self._own: Run | None = None
        waiting: list[_At] = []
        chosen: list[Mapping[int, bool]] = []
        for turn, each in enumerate(_choices(tape, rng, kept_outputs) if choices is None else choices):
            # at first on one side of the cuts of roots, then on both: what holds for positive numbers alone fails there
            waiting.append(self._drawn(rng, reaches[turn % len(reaches)], (1.0, -1.0) if turn else (1.0,)))
            chosen.append(each)
        together = max(1, TOGETHER // len(tape)) if len(tape) else len(waiting)
        for k in range(0, len(waiting), together):
            self._add(waiting[k : k + together], chosen[k : k + together])
            deadline.check(len(waiting[k : k + together]) * (RUN[0] + RUN[1] * len(tape)))
        for reach in NEARER_ZERO:
            if _are_bounded(*_outputs(self._runs)).any(axis=0).all():
                break
            self._add([self._drawn(rng, reach, (1.0, -1.0))], [{}])
            deadline.check(RUN[0] + RUN[1] * len(tape))

    def _drawn(self, rng: random.Random, reach: float, signs: Sequence[float]) -> _At:
        """A point that the tape has not been run at yet."""
        point = [
            reach * complex(rng.choice(signs) * rng.uniform(-1.5, -0.5), rng.choice(signs) * rng.uniform(0.01, 0.5))
            for _ in range(self._tape.inputs)
        ]
        return _At(point, rng.getrandbits(60), {}, np.zeros(0, complex), np.zeros(0))

    def _add(self, drawn: Sequence[_At], chosen: Sequence[Mapping[int, bool]]) -> None:
        """Run the tape at points."""
        run = Run(self._tape, *_columns(drawn), chosen, self._functions)
        self._own = None if self._runs else run
        for at, outputs, errors in zip(drawn, *run.outputs(), strict=True):
            self._runs.append(at._replace(outputs=outputs, errors=errors))

    @property
    def points(self) -> int:
        """At how many points tapes are compared."""
        return len(self._runs)

    def run(self, other: Tape) -> Run:
        """Another tape at all points.

        Raises:
            VerificationError: if it compares what the first tape does not, to the last bit.
        """
        if other is self._tape and self._own is not None:
            return self._own
        return Run(other, *_columns(self._runs), None, self._functions)

    def check(self, other: Tape) -> None:
        """Check that another tape with the same inputs has the same outputs.

        Raises:
            VerificationError: naming the first output that differs.
            IncomparableError: if none does, but some could not be compared.
        """
        tape = self._tape
        if (tape.inputs, len(tape.outputs)) != (other.inputs, len(other.outputs)):
            raise VerificationError(
                f"a tape of {tape.inputs} inputs and {len(tape.outputs)} outputs became one of {other.inputs} and "
                f"{len(other.outputs)}"
            )
        unseen = set(range(len(tape.outputs)))
        together = max(1, TOGETHER // len(other)) if len(other) else len(self._runs)
        for first in range(0, len(self._runs), together):
            unseen -= self._seen(self._runs[first : first + together], other)
        if unseen:
            _check_same_expression(tape, other, unseen)

    def _seen(self, runs: Sequence[_At], other: Tape) -> set[int]:
        """The outputs of another tape that could be compared at some points; `VerificationError` if one differs."""
        run = Run(other, *_columns(runs), None, self._functions)
        seen: set[int] = set(
            np.flatnonzero(_seen(_outputs(runs), run.outputs(), self._kept_outputs).any(axis=0)).tolist()
        )
        return seen


def _outputs(runs: Sequence[_At]) -> tuple[Complexes, Reals]:
    """Outputs and bounds on their errors, (points, outputs) each."""
    return np.array([at.outputs for at in runs]), np.array([at.errors for at in runs])


def _columns(runs: Sequence[_At]) -> tuple[list[list[complex]], list[int], list[dict[Hashable, bool]]]:
    """Points, oracles and comparisons."""
    return [at.point for at in runs], [at.oracle for at in runs], [at.holds for at in runs]


def all_choices(tape: Tape, most: int) -> list[dict[int, bool]] | None:
    """Every way in which the tape's comparisons may come out together, by reference; None if there are too many.

    Args:
        most: comparisons.
    """
    live = needed(tape)
    asked = [r for r in range(tape.inputs, len(tape)) if live[r] and tape.codes[r] in COMPARISONS]
    if len(asked) > most:
        return None
    return [dict(zip(asked, way, strict=True)) for way in product((True, False), repeat=len(asked))]


def _choices(tape: Tape, rng: random.Random, kept_outputs: int) -> Iterator[Mapping[int, bool]]:
    """For each point, which comparisons of the tape have to hold and which may not; the others are left to chance."""
    if not kept_outputs and not (COMPARISONS | JUMPS).intersection(tape.codes):
        yield from [{}] * (POINTS if tape.operations < LARGE else 1)
        return
    yield from [{}] * (AT_RANDOM if tape.operations < LARGE else POINTS)
    branches = Branches(tape)
    for _ in range(min(MOST, OPERATIONS_OF_BRANCHES // max(1, tape.operations))):
        if branches.all_taken:
            return
        yield branches.choose(rng)


def _seen(before: tuple[Complexes, Reals], after: tuple[Complexes, Reals], kept: int) -> NDArray[np.bool_]:
    """Return the outputs that could be compared at each point; `VerificationError` if one differs.

    Args:
        before, after: outputs and bounds on their errors, (points, outputs) each.
        kept: that many of the first have to be the same to the last bit.
    """
    (a, errors), (b, other_errors) = before, after
    with np.errstate(all="ignore"):
        changed = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        changed[:, kept:] = False
        seen = _are_bounded(a, errors)
        sizes, other_sizes = np.hypot(a.real, a.imag), np.hypot(b.real, b.imag)
        # what is 0 whatever the point is; a product of such has a bound that is too good
        told = seen & ~((a == 0) & (b == 0))
        are_nothing = (sizes <= SLACK * UNIT * errors) & (other_sizes <= SLACK * UNIT * other_errors)
        most = FAR * (errors + np.where(are_nothing, np.maximum(sizes, 1.0), sizes))
        unbounded = told & ~(np.isfinite(other_sizes) & (other_errors <= most))
        off = np.hypot((a - b).real, (a - b).imag)
        different = told & (off > SLACK * UNIT * (errors + other_errors) + 1e-300)
    wrong = changed | unbounded | different
    if wrong.any():
        p, k = np.argwhere(wrong)[0].tolist()
        how = "which rounding does not explain"
        if unbounded[p, k]:
            how = "and its rounding error, which was bounded, is not any more"
        if changed[p, k]:
            how = "though it was to be kept to the last bit"
        raise _difference(k, complex(a[p, k]), complex(b[p, k]), how)
    return seen


def _are_bounded(outputs: Complexes, errors: Reals) -> NDArray[np.bool_]:
    """Return the outputs that are numbers with a bound on their error."""
    with np.errstate(all="ignore"):
        found: NDArray[np.bool_] = np.isfinite(np.hypot(outputs.real, outputs.imag)) & np.isfinite(errors)
    return found


def _difference(k: int, a: complex, b: complex, how: str) -> VerificationError:
    return VerificationError(
        f"output {k} of the optimised tape is {b:.6g} at a complex point where it was {a:.6g}, {how}. This is a "
        "mistake of the optimiser; please report the function"
    )


def with_expressions_of(tape: Tape, other: Tape, outputs: Iterable[int]) -> Tape:
    """Another tape for the same, in which some outputs are computed as the first tape does; both with all they need."""
    both, moved = _side_by_side(tape, other)
    both.outputs = moved
    for k in outputs:
        both.outputs[k] = tape.outputs[k]
    return both


def _check_same_expression(tape: Tape, other: Tape, outputs: set[int]) -> None:
    """Refuse outputs that could not be compared at any point, unless they are written alike."""
    _, moved = _side_by_side(tape, other)
    differ = [k for k in sorted(outputs) if moved[k] != tape.outputs[k]]
    if differ:
        raise IncomparableError(differ)


def _side_by_side(tape: Tape, other: Tape) -> tuple[Tape, list[int]]:
    """A tape with another beside it, what both have once, and where the outputs of the other are on it."""
    both = tape.copy()
    marks, signed = needed(other), signed_zeros(other)
    moved = list(range(len(other)))
    for r in range(other.inputs, len(other)):
        if marks[r]:
            new = [moved[a] if a >= 0 else both.constant(other.value_of(a)) for a in other.arguments(r)]
            both.signed_zeros = bool(signed[r])
            moved[r] = both.apply_code(other.codes[r], new)
    return both, [moved[o] if o >= 0 else both.constant(other.value_of(o)) for o in other.outputs]
