"""Whether two tapes compute the same: both run at random complex points, with bounds on what rounding may do.

At complex points nothing is out of its domain, and identities that hold there hold. Functions have
`accumulus.rewriting.stand_ins`. Beside each value runs a bound on its rounding error, so that what is allowed to differ
is what rounding explains, and not more; and the bounds themselves may not differ by much.

What reaches floor, ceil, sign, fmod or a comparison has to be the same to the last bit. Which comparisons hold is
chosen: at random, and then so that every branch of the tape has been taken (`accumulus.rewriting.branches`).

Values that are real up to rounding do not depend on the point. They may have become numbers, and functions of numbers
are folded, so of these it is the functions' own value that counts.

A mistake passes where the bound of an output is as large as its value, at all points: where the tape's numbers have
lost all their digits. Where an output is infinite, NaN or without a bound at all of them, points nearer to zero are
tried; one that is so there, too, has to be the very same expression.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np

from accumulus.deadline import FOREVER, Deadline
from accumulus.errors import VerificationError
from accumulus.rewriting.branches import Branches
from accumulus.rewriting.stand_ins import COMPARISONS, FUNCTIONS, JUMPS, comparison, jump, size
from accumulus.tape.live import needed, signed_zeros
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["SLACK", "UNIT", "Verification", "all_choices", "verify"]

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
#: By how many units of rounding of the running bound results may differ; first-order bounds hold to a small factor.
SLACK: Final = 16.0
#: By how much the bound may grow: over `examples/` and `benchmarks/suite/` it does by 15 at most.
FAR: Final = 1e3
UNIT: Final = 2.0**-53
SLACK_UNIT: Final = SLACK * UNIT
#: The relative step that shows how an elementary function magnifies errors.
STEP: Final = 1e-6

Function = Callable[..., Any]

_CODES: Final = {row.name: row.code for row in OPERATIONS}
_SQRT, _POWER = _CODES["sqrt"], _CODES["power"]
_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE = (_CODES[name] for name in ("add", "subtract", "multiply", "divide"))
_SUMS = (_ADD, _SUBTRACT)
_NEGATIVE, _SELECT = _CODES["negative"], _CODES["select"]


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


class _At(NamedTuple):
    """A tape at a point: its outputs, and what has to be the same for them to be computed again."""

    point: list[complex]
    oracle: int
    holds: dict[Hashable, bool]
    outputs: list[tuple[complex, float]]


class Verification:
    """What a tape computes, for others to be checked against.

    Half of the work is done when this is made, and takes about as long as the other half.

    Args:
        tape, seed, kept_outputs: as for `verify`.
        deadline: when to give up; it is looked at after each point.
        choices: for each point, which comparisons have to hold and which may not, by reference, instead of those by
            which every branch is taken once.
        reaches: how far points are from 0, in turn.

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
    ) -> None:
        self._tape, self._kept_outputs = tape, kept_outputs
        rng = random.Random(seed)
        self._runs: list[_At] = []
        for turn, chosen in enumerate(_choices(tape, rng, kept_outputs) if choices is None else choices):
            # at first on one side of the cuts of roots, then on both: what holds for positive numbers alone fails there
            self._add_run(rng, reaches[turn % len(reaches)], (1.0, -1.0) if turn else (1.0,), chosen)
            deadline.check()
        for reach in NEARER_ZERO:
            if all(map(_is_bounded, *(at.outputs for at in self._runs))):
                break
            self._add_run(rng, reach, (1.0, -1.0), {})
            deadline.check()

    def _add_run(self, rng: random.Random, reach: float, signs: Sequence[float], chosen: Mapping[int, bool]) -> None:
        point = [
            reach * complex(rng.choice(signs) * rng.uniform(-1.5, -0.5), rng.choice(signs) * rng.uniform(0.01, 0.5))
            for _ in range(self._tape.inputs)
        ]
        holds: dict[Hashable, bool] = {}
        oracle = rng.getrandbits(60)
        self._runs.append(_At(point, oracle, holds, _Run(self._tape, point, oracle, holds, chosen).outputs()))

    @property
    def points(self) -> int:
        """At how many points tapes are compared."""
        return len(self._runs)

    def runs_of(self, other: Tape) -> Iterator[tuple[list[Any], list[float]]]:
        """Values of another tape's inputs and operations, and bounds on their errors (units of rounding), by point.

        Raises:
            VerificationError: if it compares what the first tape does not, to the last bit.
        """
        for at in self._runs:
            run = _Run(other, at.point, at.oracle, at.holds, None)
            yield run.values[: len(other)], run.errors[: len(other)]

    def check(self, other: Tape) -> None:
        """Check that another tape with the same inputs has the same outputs.

        Raises:
            VerificationError: naming the first output that differs.
        """
        tape = self._tape
        if (tape.inputs, len(tape.outputs)) != (other.inputs, len(other.outputs)):
            raise VerificationError(
                f"a tape of {tape.inputs} inputs and {len(tape.outputs)} outputs became one of {other.inputs} and "
                f"{len(other.outputs)}"
            )
        unseen = set(range(len(tape.outputs)))
        for point, oracle, holds, before in self._runs:
            after = _Run(other, point, oracle, holds, None).outputs()
            for k, (one, two) in enumerate(zip(before, after, strict=True)):
                if k < self._kept_outputs and not _is_same(one[0], two[0]):
                    raise _difference(k, one[0], two[0], "though it was to be kept to the last bit")
                if _is_seen(k, one, two):
                    unseen.discard(k)
        if unseen:
            _check_same_expression(tape, other, unseen)


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


def _is_seen(k: int, before: tuple[complex, float], after: tuple[complex, float]) -> bool:
    """Whether an output could be compared; `VerificationError` if it differs."""
    (a, error), (b, other_error) = before, after
    if not _is_bounded(before):
        return False
    if not a and not b:  # 0 whatever the point is; a product of such has a bound that is too good
        return True
    if not (math.isfinite(size(b)) and other_error <= FAR * (error + size(a))):
        raise _difference(k, a, b, "and its rounding error, which was bounded, is not any more")
    if size(a - b) > SLACK * UNIT * (error + other_error) + 1e-300:
        raise _difference(k, a, b, "which rounding does not explain")
    return True


def _is_bounded(*outputs: tuple[complex, float]) -> bool:
    """Whether an output is a number that has a bound on its error, at one of the points that are given."""
    return any(math.isfinite(size(value)) and math.isfinite(error) for value, error in outputs)


def _difference(k: int, a: complex, b: complex, how: str) -> VerificationError:
    return VerificationError(
        f"output {k} of the optimised tape is {b:.6g} at a complex point where it was {a:.6g}, {how}. This is a "
        "mistake of the optimiser; please report the function"
    )


def _is_same(a: complex, b: complex) -> bool:
    return a == b or (a != a and b != b)  # noqa: PLR0124


def _check_same_expression(tape: Tape, other: Tape, outputs: set[int]) -> None:
    """Refuse outputs that could not be compared at any point, unless they are written alike."""
    both = tape.copy()
    marks, signed = needed(other), signed_zeros(other)
    moved = list(range(len(other)))
    for r in range(other.inputs, len(other)):
        if marks[r]:
            new = [moved[a] if a >= 0 else both.constant(other.value_of(a)) for a in other.arguments(r)]
            both.signed_zeros = bool(signed[r])
            moved[r] = both.apply_code(other.codes[r], new)
    for k in sorted(outputs):
        output = other.outputs[k]
        reference = moved[output] if output >= 0 else both.constant(other.value_of(output))
        if reference != tape.outputs[k]:
            raise VerificationError(
                f"output {k} of the optimised tape cannot be compared with what it was: at every point tried, that is "
                "infinite, NaN, or has no digit left after rounding"
            )


class _Run:
    """One tape at one point.

    Args:
        oracle: by which floor, ceil, sign and fmod give arbitrary numbers.
        holds: what is known of comparisons; added to if there are choices.
        chosen: comparisons by reference, and whether they are to hold. If None, a comparison that is not known is
            refused.
    """

    def __init__(
        self,
        tape: Tape,
        point: list[complex],
        oracle: int,
        holds: dict[Hashable, bool],
        chosen: Mapping[int, bool] | None,
    ) -> None:
        self.tape = tape
        # as references have it: constants count from the end
        ends = [complex(value) for value in reversed(tape.constants)]
        self.values: list[Any] = [*point, *[None] * (len(tape) - len(point)), *ends]
        #: A bound on the error of each value, in units of rounding.
        self.errors = [0.0] * len(self.values)
        self._oracle, self._holds, self._chosen = oracle, holds, chosen
        self._fill()

    def outputs(self) -> list[tuple[complex, float]]:
        """Each output with the bound on its error."""
        values, errors = self.values, self.errors
        return [(values[k], errors[k] if k >= 0 else size(values[k])) for k in self.tape.outputs]

    def _fill(self) -> None:
        tape, values, errors = self.tape, self.values, self.errors
        inputs, third, hypot = tape.inputs, tape.third, math.hypot
        sizes = [math.nan if value is None else size(value) for value in values]
        operations = zip(tape.codes[inputs:], tape.first[inputs:], tape.second[inputs:], strict=True)
        for r, (code, a, b) in enumerate(operations, inputs):
            x, dx = values[a], errors[a]
            try:
                if code == _MULTIPLY:
                    dy, v = errors[b] if b >= 0 else UNIT, x * values[b]
                    magnitude = hypot(v.real, v.imag)
                    error = dx * sizes[b] + dy * sizes[a] + SLACK_UNIT * dx * dy + 3 * magnitude
                elif code in _SUMS:
                    v = x + values[b] if code == _ADD else x - values[b]
                    magnitude = hypot(v.real, v.imag)
                    # what a sum loses by cancelling depends on how its terms are grouped, so all of them count
                    error = dx + errors[b] + sizes[a] + sizes[b]
                else:
                    if code == _DIVIDE:
                        y, dy = values[b], errors[b]
                        if _is_lost(y, dy):
                            raise ZeroDivisionError
                        v = x / y
                        error = (dx + dy * size(v)) / sizes[b] + 3 * size(v)
                    elif code == _NEGATIVE:
                        v, error = -x, dx
                    elif code == _SELECT:
                        c = b if x else third[r]
                        v, error = values[c], errors[c]
                    elif code in COMPARISONS:
                        v, error = self._compare(r, code, x, values[b]), 0.0
                    elif code in JUMPS:
                        others = [values[b]] if OPERATIONS[code].arity == 2 else []
                        v, error = jump(code, (x, *others), self._oracle), 0.0
                    else:
                        v, error = self._function(code, x, dx, b)
                    magnitude = size(v)
            except (OverflowError, ZeroDivisionError, ValueError):
                v, error, magnitude = complex(math.nan), math.inf, math.nan
            values[r], errors[r], sizes[r] = v, error, magnitude

    def _compare(self, r: int, code: int, x: Any, y: Any) -> bool:
        key, negated = comparison(code, x, y)
        if key not in self._holds:
            if self._chosen is None:
                raise VerificationError(
                    f"{self.tape.name(r)} of the optimised tape is a comparison that was not there before, to the last "
                    "bit. This is a mistake of the optimiser; please report the function"
                )
            by_chance = bool(hash((self._oracle, key)) * 0x9E3779B97F4A7C15 >> 40 & 1)
            self._holds[key] = self._chosen.get(r, by_chance) != negated
        return self._holds[key] != negated

    def _function(self, code: int, x: Any, dx: float, b: int) -> tuple[Any, float]:
        """Value of an elementary function at x, and at the reference b if it takes two arguments, and its error."""
        run = FUNCTIONS[code]
        if OPERATIONS[code].arity == 1:
            if isinstance(x, bool):
                return run(x), 0.0
            if _is_real(x, dx):
                return _of_reals(code, (x,), (dx,))
            if _is_lost(x, dx) and (code == _SQRT or dx * UNIT > STEP):
                raise ZeroDivisionError
            v = run(x)
            return v, _slope(run, x, v) * dx + 4 * size(v)
        y, dy = self.values[b], self.errors[b]
        if isinstance(x, bool):
            return run(x, y), 0.0
        if _is_real(x, dx) and _is_real(y, dy):
            return _of_reals(code, (x, y), (dx, dy))
        if (_is_lost(x, dx) and (code == _POWER or dx * UNIT > STEP)) or (_is_lost(y, dy) and dy * UNIT > STEP):
            raise ZeroDivisionError
        v = run(x, y)
        by_x, by_y = _slope(lambda x: run(x, y), x, v), _slope(lambda y: run(x, y), y, v)
        return v, by_x * dx + by_y * dy + 4 * size(v)


def _is_real(z: Any, error: float) -> bool:
    """Whether a value is a real number up to rounding: one that does not depend on the point."""
    return bool(abs(z.imag) <= SLACK * UNIT * error)


def _is_lost(z: Any, error: float) -> bool:
    """Whether rounding has left no digit of a value, so that bounds of first order mean nothing for a divisor."""
    return 2 * SLACK * UNIT * error >= size(z)


def _slope(run: Function, z: Any, v: Any) -> float:
    return size(run(z * (1 + STEP)) - v) / (STEP * size(z)) if z else 1.0


def _of_reals(code: int, arguments: tuple[Any, ...], errors: tuple[float, ...]) -> tuple[Any, float]:
    """The table's own function of what would be numbers if they were folded."""
    run = OPERATIONS[code].evaluate
    if not all(map(math.isfinite, errors)):
        raise OverflowError
    reals = [np.float64(z.real) for z in arguments]
    v = float(run(*reals))
    error = 4 * abs(v)
    for k, dx in enumerate(errors):
        step = SLACK * UNIT * dx
        for x in (reals[k] - step, reals[k] + step):  # jumps between them count as errors, too
            other = float(run(*reals[:k], x, *reals[k + 1 :]))
            error += abs(other - v) / (SLACK * UNIT)
    return complex(v), error
