"""Decisions of code on traced values, answered at the recorded point and kept as guards.

A recording follows one path. If the function needs the truth of a traced value, its integer or an order of values, the
answer is the one at the given arguments. The recording holds wherever all answers are the same. Each decision becomes a
*guard*: a truth value on the tape that is true where the answer is unchanged. Equal decisions share one operation of
the tape and one guard.

NumPy computes values at the point from the tape's operations, as far as decisions need them. The body of an ``acc.map``
or ``acc.scan`` runs many times, so it has no single point and takes no decisions.

Without `Decisions` (``guards="error"``) every decision is refused, see `accumulus.frontends.active`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import EndlessRecordingError
from accumulus.frontends.active import ACTIVE, in_opaque, no_decision, no_number, refuse
from accumulus.frontends.inner import InnerTape, NestedTape
from accumulus.native.state import Integers
from accumulus.tape.compiled.passes_kernel import SIGNED
from accumulus.tape.interpreter import NUMBERS, advance, resume
from accumulus.tape.live import seeing_zero_signs
from accumulus.tape.operations import BY_NAME, INPUT
from accumulus.tape.passes import extended, rows_of
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape

#: Maximum number of guards of a recording, and of decisions: a loop with more decisions may never end. Larger numbers
#: delay the error about such a loop, smaller ones refuse long loops that end.
MOST_GUARDS: Final = 20_000
MOST_QUESTIONS: Final = 1_000_000
#: Maximum number of operations of a recording that still takes decisions; an operation on a whole array counts as one.
#: More may exhaust memory in a loop that never ends, fewer refuse long recordings.
MOST_OPERATIONS: Final = 10_000_000
#: Maximum number of characters of a source line that a guard keeps.
MOST_SOURCE: Final = 120
#: Maximum number of listed numbers of an answer.
MOST_LISTED: Final = 8

References = NDArray[np.int64]


class UnmergeableError(BaseException):
    """Signal that a decision is taken in a branch that is recorded next to the other branch.

    It is not an `Exception`, so that the user's code does not catch it. The code that merges the branches does, and
    decides on the outer condition instead.
    """


@dataclass(frozen=True, slots=True)
class Guard:
    """A decision that a recording has taken.

    Attributes:
        file, line, source: position in the user's code.
        answer: text of the answer: "True", "3", "order 2 0 1".
        ways: truth of each condition, if the answer is a choice among constants by these conditions; else empty.
    """

    file: str
    line: int
    source: str
    answer: str
    ways: tuple[bool, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.source} → {self.answer}"


class Decisions:
    """The decisions of one recording.

    Args:
        tape: tape of the recording; without operations yet.
        point: values of its inputs.
        opens_indices: True if long arrays of indices may stay numbers of the program.

    Attributes:
        guards: guards by the reference of the truth value that must hold.
    """

    def __init__(self, tape: Program, point: NDArray[np.float64], opens_indices: bool = False) -> None:
        self.tape, self.opens_indices = tape, opens_indices
        self.guards: dict[int, Guard] = {}
        self._questions = 0
        #: Number of guards joined so far, and the reference of their conjunction.
        self._joined = 0, 0
        self._choices = Choices(tape, self._is_true)
        #: On straight-line code: values by reference, and the numbers of operations and constants among them. On loops:
        #: values of inputs and results, and the number of blocks that have computed them.
        self._values: dict[int, Any] = {}
        self._evaluated, self._constants = 0, 0
        self._long: NDArray[np.float64] = np.asarray(point, np.float64)
        self._blocks = 0

    def values(self, references: References) -> NDArray[np.float64]:
        """Return the values of references at the point, in the shape of `references`."""
        program, tape = self.tape, self.tape.scalars
        with np.errstate(all="ignore"):
            if tape is None:
                with in_opaque():  # a program may call functions of numbers
                    memory = resume(program, NUMBERS, self._long, self._blocks)
                self._long, self._blocks = memory.results(), len(program.blocks)
                numbers: NDArray[np.float64] = memory.parts[0][references + len(program.constants)]
                return numbers
            values, constants = self._values, tape.constants
            if not self._evaluated:
                values.update(enumerate(self._long))
                self._evaluated = len(values)
            for k in range(self._constants, len(constants)):
                values[-1 - k] = np.float64(constants[k])
            self._constants = len(constants)
            if references.size and (end := int(references.max()) + 1) > self._evaluated:
                new = range(self._evaluated, end)
                advance(tape, NUMBERS.rules(set(tape.codes[self._evaluated : end])), values, new)
                self._evaluated = end
        return np.array([values[r] for r in references.ravel().tolist()], np.float64).reshape(references.shape)

    def _is_true(self, reference: int) -> bool:
        return bool(self.values(np.array(reference)))

    def is_chosen(self, reference: int, answer: str) -> bool:
        """Return True if a number is a choice among constants; keep the conditions of the choice as a guard then.

        Args:
            reference: reference of the number.
            answer: text of the answer.

        Raises:
            EndlessRecordingError: if there are too many guards.
        """
        conditions = self._choices.conditions(reference)
        if conditions is None:
            return False
        ways = tuple(map(self._is_true, conditions))
        holds = [c if way else self.tape.logical_not(c) for c, way in zip(conditions, ways, strict=True)]
        self.keep(conjunction(self.tape, np.array([c for c in holds if c not in self.guards], np.int64)), answer, ways)
        return True

    def keep(self, holds: int, answer: str, ways: tuple[bool, ...] = ()) -> None:
        """Keep a guard.

        Args:
            holds: reference of a truth value that is true where the answer is unchanged.
            answer: text of the answer.
            ways: see `Guard`.

        Raises:
            EndlessRecordingError: if there are too many guards.
        """
        self.count()
        if holds < 0 or holds in self.guards:
            return
        position = ACTIVE.position()
        source = "" if position is None else position.source[:MOST_SOURCE]
        self.guards[holds] = Guard(
            "" if position is None else position.file, 0 if position is None else position.line, source, answer, ways
        )

    def guard_conjunction(self) -> int:
        """Return the reference of a number that is 1 where all guards so far hold, else 0."""
        count, joined = self._joined
        if count < len(self.guards):
            new = [*([joined] if count else []), *islice(self.guards, count, None)]
            joined = conjunction(self.tape, np.array(new, np.int64))
            self._joined = len(self.guards), joined
        return as_number(self.tape, joined) if self.guards else self.tape.constant(1.0)

    def count(self) -> None:
        """Count a decision.

        Raises:
            EndlessRecordingError: if there are too many decisions, guards or operations.
        """
        self._questions += 1
        written = len(self.tape) if self.tape.scalars is not None else len(self.tape.blocks)
        if self._questions <= MOST_QUESTIONS and len(self.guards) < MOST_GUARDS and written <= MOST_OPERATIONS:
            return
        raise refuse(
            f"The function has made {self._questions:,} decisions on values so far, {len(self.guards):,} of them "
            f"different, and {written:,} operations; more than {MOST_QUESTIONS:,}, {MOST_GUARDS:,} or "
            f"{MOST_OPERATIONS:,} are not recorded. Perhaps a loop does not end for these arguments: end it after a "
            "fixed number of steps.",
            EndlessRecordingError,
        )


def _around(tape: Any, references: Any) -> tuple[Any, Any]:
    """Return the tape that takes decisions for a nested tape, and the references there of these values."""
    while isinstance(tape, NestedTape):
        tape, references = tape.outer, tape.lowered(references)
    return tape, references


def point_at(tape: Any, references: References) -> NDArray[np.float64] | None:
    """Return values at the given point without a guard; None if the recording of this tape takes no decisions."""
    tape, references = _around(tape, references)
    decisions: Decisions | None = ACTIVE.decisions
    return decisions.values(references) if decisions is not None and decisions.tape is tape else None


def decisions_on(tape: Any) -> Decisions | None:
    """Return the decisions of the recording on a tape; None if decisions are refused.

    Raises:
        TraceError: in a body that is recorded once and runs many times.
        UnmergeableError: in a branch that is recorded next to the other.
    """
    decisions: Decisions | None = ACTIVE.decisions
    if decisions is None:
        return None
    if isinstance(tape, InnerTape):
        raise refuse(
            "A decision here depends on the arguments of a function that is recorded once and runs for many instances "
            "(acc.map, acc.scan, acc.implicit), which may decide differently. Write np.where(condition, a, b), "
            "np.maximum or np.minimum; conditions are joined by & and |, negated by ~. Instead of an index, pass the "
            "entries that it selects: acc.map(f, x[indices])."
        )
    if decisions.tape is not tape:
        return None
    if ACTIVE.merging:
        raise UnmergeableError
    return decisions


def truth(tape: Any, reference: int) -> bool:
    """Return True if a truth value is true at the given point, and keep the answer as a guard.

    Args:
        tape: tape of the recording.
        reference: reference of a truth value on it.

    Raises:
        TraceError: if decisions are refused.
        EndlessRecordingError: if there are too many decisions.
    """
    tape, reference = _around(tape, reference)
    if reference < 0:
        return bool(tape.value_of(reference))
    decisions = decisions_on(tape)
    if decisions is None:
        raise no_decision()
    answer = bool(decisions.values(np.array(reference)))
    if not decisions.is_chosen(reference, str(answer)):
        decisions.keep(reference if answer else tape.logical_not(reference), str(answer))
    return answer


def whole(tape: Any, reference: int, kind: str = "int") -> int:
    """Return a real number at the given point without its fraction, and keep the answer as a guard.

    Args:
        tape: tape of the recording.
        reference: reference of a real number on it.
        kind: "int" to truncate, like Python's ``int(x)``; "index" for a number that must be an integer.

    Raises:
        TraceError: if decisions are refused.
        TypeError: for an index that is not an integer.
        ValueError, OverflowError: for NaN and for infinities, like ``int(x)``.
        EndlessRecordingError: if there are too many decisions.
    """
    tape, reference = _around(tape, reference)
    decisions: Decisions | None = None
    if reference < 0:
        number = float(tape.value_of(reference))
    else:
        decisions = decisions_on(tape)
        if decisions is None:
            raise no_number(kind)
        number = float(decisions.values(np.array(reference)))
    answer = int(number)
    if kind == "index" and answer != number:
        raise TypeError(f"the number {number} cannot be an index: it is not an integer")
    if decisions is not None and not decisions.is_chosen(reference, str(answer)):
        decisions.keep(_still(tape, reference, answer, kind), str(answer))
    return answer


def _still(tape: Any, reference: int, answer: int, kind: str) -> int:
    """Return the reference of a truth value: the number still has this answer, exactly or after truncation."""
    here = tape.constant(answer)
    if kind == "index":
        return int(tape.apply("equal", reference, here))
    lower, upper = tape.constant(answer - 1), tape.constant(answer + 1)
    above = tape.apply("less_equal", here, reference) if answer > 0 else tape.apply("less", lower, reference)
    below = tape.apply("less_equal", reference, here) if answer < 0 else tape.apply("less", reference, upper)
    return int(tape.logical_and(above, below))


def _still_each(tape: Any, references: References, answers: NDArray[np.float64], kind: str) -> References:
    """Return references of truth values that are all true where each number still has its answer, see `_still`."""
    if not len(references):
        return references
    if kind == "index":
        return apply_each(tape, "equal", references, tape.constant_array(answers))
    lower, here, upper = (tape.constant_array(answers + step) for step in (-1.0, 0.0, 1.0))
    bounds = {"less_equal": (answers > 0, answers < 0), "less": (answers <= 0, answers >= 0)}
    checks = []
    for name, (below, above) in bounds.items():
        limits = (here, here) if name == "less_equal" else (lower, upper)
        checks.append(apply_each(tape, name, limits[0][below], references[below]))
        checks.append(apply_each(tape, name, references[above], limits[1][above]))
    return np.concatenate(checks)


def truths(tape: Any, references: References) -> NDArray[np.bool_]:
    """Return truth values at the given point, and keep all of them as one guard.

    Args:
        tape: tape of the recording.
        references: references of truth values on it.

    Raises:
        TraceError: if decisions are refused.
        EndlessRecordingError: if there are too many decisions.
    """
    tape, references = _around(tape, references)
    answers: NDArray[np.bool_] = np.asarray(values_at_point(tape, references) != 0)
    flat, unknown = references.ravel(), references.ravel() >= 0
    yes, no = flat[unknown & answers.ravel()], np.unique(flat[unknown & ~answers.ravel()])
    keep(tape, np.concatenate([yes, negated(tape, no)]), listed("mask", np.flatnonzero(answers)))
    return answers


def wholes(tape: Any, references: References, kind: str = "int") -> NDArray[np.int64]:
    """Return real numbers at the given point without fractions, and keep all as one guard; arguments as for `whole`.

    Raises:
        TraceError: if decisions are refused.
        TypeError: for an index that is not an integer.
        ValueError: for NaN and infinities.
        EndlessRecordingError: if there are too many decisions.
    """
    tape, references = _around(tape, references)
    numbers = values_at_point(tape, references)
    if not np.isfinite(numbers).all():
        raise ValueError(f"cannot convert {numbers[~np.isfinite(numbers)][0]} to a whole number")
    answers = np.trunc(numbers)
    if kind == "index" and (answers != numbers).any():
        raise TypeError(f"the number {numbers[answers != numbers][0]} cannot be an index: it is not an integer")
    distinct_references, first = np.unique(references, return_index=True)
    distinct = distinct_references[distinct_references >= 0], answers.ravel()[first[distinct_references >= 0]]
    keep(tape, _still_each(tape, *distinct, kind), listed("numbers", answers))
    return answers.astype(np.int64)


def in_range(tape: Any, references: References, length: int) -> None:
    """Keep as a guard that numbers are valid indices of an axis, without fixing their values.

    Raises:
        IndexError, TypeError: if they are not valid at the given point, as in NumPy.
        TraceError: if decisions are refused.
        UnmergeableError: in a branch that is recorded next to the other.
        EndlessRecordingError: if there are too many decisions.
    """
    unresolved = _distinct(references[references >= 0])
    numbers = values_at_point(tape, references)
    if (numbers != np.trunc(numbers)).any():
        raise TypeError(
            f"the number {numbers[numbers != np.trunc(numbers)][0]} cannot be an index: it is not an integer"
        )
    outside = (numbers < -length) | (numbers >= length)
    if outside.any():
        raise IndexError(f"index {int(numbers[outside][0])} is out of bounds for an axis of size {length}")

    def check(body: Any, index: int) -> int:
        above = body.apply("less_equal", body.constant(-float(length)), index)
        below = body.apply("less", index, body.constant(float(length)))
        is_whole = body.apply("equal", body.apply("floor", index), index)
        return int(body.logical_and(is_whole, body.logical_and(above, below)))

    keep(tape, tape.map(lambda body: partial(check, body), [unresolved]), f"indices of {length:,} rows")


def sorting_order(tape: Any, references: Sequence[int] | References) -> list[int]:
    """Return the stable permutation that sorts numbers at the given point, with NaN last, and keep it as one guard.

    Args:
        tape: tape of the recording.
        references: references of real numbers on it.

    Raises:
        TraceError: if decisions are refused.
        EndlessRecordingError: if there are too many decisions.
    """
    tape, entries = _around(tape, np.asarray(references, np.int64))
    numbers = values_at_point(tape, entries)
    places = np.argsort(numbers, kind="stable")
    ordered = places[~np.isnan(numbers[places])]
    # the order holds while neighbours compare in the same way, and the same numbers are NaN
    lower, upper = ordered[:-1], ordered[1:]
    strict = lower > upper
    checks = [
        apply_each(tape, "less", entries[lower[strict]], entries[upper[strict]]),
        apply_each(tape, "less_equal", entries[lower[~strict]], entries[upper[~strict]]),
    ]
    unknown = entries[places[len(ordered) :]]
    if len(unknown):
        checks += [
            apply_each(tape, "not_equal", unknown, unknown),
            apply_each(tape, "equal", entries[ordered], entries[ordered]),
        ]
    keep(tape, np.concatenate(checks), listed("order", places))
    return [int(position) for position in places]


def listed(label: str, answer: NDArray[Any]) -> str:
    """Return the text of an answer of many numbers: the first ones, and a hash of all that distinguishes answers.

    >>> listed("order", np.array([2, 0, 1]))
    'order 2 0 1'
    """
    numbers = np.ravel(answer)
    first = " ".join(str(int(number)) for number in numbers[:MOST_LISTED])
    if len(numbers) <= MOST_LISTED:
        return f"{label} {first}"
    mark = hashlib.blake2b(np.ascontiguousarray(numbers, np.int64).tobytes(), digest_size=8).hexdigest()
    return f"{label} {first} … of {len(numbers):,} ({mark})"


def values_at_point(tape: Any, references: References) -> NDArray[np.float64]:
    """Return values at the given point; the caller keeps its conclusions as a guard with `keep`.

    Raises:
        TraceError: if decisions are refused.
    """
    tape, references = _around(tape, references)
    decisions = decisions_on(tape)
    if decisions is None:
        raise no_decision()
    return decisions.values(references)


def keep(tape: Any, conditions: References, answer: str) -> None:
    """Keep as one guard that all of these truth values are true.

    Args:
        tape: tape of the recording.
        conditions: references of truth values, each true at the given point.
        answer: text of the answer.

    Raises:
        EndlessRecordingError: if there are too many decisions.
    """
    tape, conditions = _around(tape, conditions)
    decisions = decisions_on(tape)
    assert decisions is not None
    decisions.keep(conjunction(tape, conditions), answer)


def apply_each(tape: Any, name: str, left: References, right: References) -> References:
    """Return references of an operation of the table, applied to each pair of entries of two arrays of one shape."""
    results: References = tape.map(lambda body: partial(body.apply, name), [left, right]) if left.size else left
    return results


def _distinct(references: References) -> References:
    """Return each reference once, in order."""
    return references if (np.diff(references) > 0).all() else np.unique(references)


def negated(tape: Any, conditions: References) -> References:
    """Return references of the negations of truth values."""
    negations: References = tape.map(lambda body: body.logical_not, [conditions]) if conditions.size else conditions
    return negations


def conjunction(tape: Any, conditions: References) -> int:
    """Return the reference of a truth value that is true where all conditions are, by pairwise operations on arrays."""
    left = _distinct(conditions.reshape(-1))
    while len(left) > 1:
        half = len(left) // 2
        left = np.concatenate([apply_each(tape, "logical_and", left[:half], left[half : 2 * half]), left[2 * half :]])
    return int(left[0]) if len(left) else int(tape.constant(1.0))


def holds_of(tape: Tape | Program, guards: References) -> int:
    """Return the reference of a number that is 1 where all guards hold, else 0.

    Args:
        tape: tape of a recording, or a copy.
        guards: references of numbers that are 1 where each guard holds, else 0, as a recording returns them.
    """
    conditions = [condition_of(tape, reference) for reference in guards.tolist()]
    return as_number(tape, conjunction(tape, np.array(conditions, np.int64)))


def condition_of(tape: Any, reference: int) -> int:
    """Return the reference of the condition of an `as_number`; of ``number != 0`` if it is inside a loop's body."""
    if reference >= 0 and tape.operation(reference).name == "select" and (operands := tape.arguments(reference)):
        return int(operands[0])
    return int(tape.apply("not_equal", reference, tape.constant(0.0)))


def as_number(tape: Any, condition: int) -> int:
    """Return the reference of a number that is 1 where a truth value is true, else 0."""
    return int(tape.select(condition, tape.constant(1.0), tape.constant(0.0)))


# Choices between values ----------------------------------------------------------------------------------------------
#
# Conditions that select the value of a number among constants.
#
# If code merges ``low = middle`` under a condition, `low` becomes a choice between two constants, and values computed
# from it take finitely many values. If the function then decides on such a value, or uses it as an index, the
# conditions of the choices become guards. There are fewer of them than operations that compute the value, and these
# operations then need not run. A choice by a guarded condition is a constant.

#: Maximum number of conditions of one number. With more, a guard on the number itself is as good, and takes fewer
#: comparisons; with fewer, more numbers are computed for their guards.
MOST_CONDITIONS: Final = 64

_SELECT: Final = BY_NAME["select"].code
_AND: Final = BY_NAME["logical_and"].code
_NOT: Final = BY_NAME["logical_not"].code


class Choices:
    """The conditions of numbers on a tape, each computed once.

    Args:
        tape: tape of the recording.
        is_true: function that returns True if a truth value on the tape, by its reference, is true at the given point.
    """

    def __init__(self, tape: Tape | Program, is_true: Callable[[int], bool]) -> None:
        self._tape, self._is_true = tape, is_true
        #: Conditions by reference, in the order of traversal; None for numbers that depend on inputs in other ways.
        self._conditions: dict[int, tuple[int, ...] | None] = {}

    def conditions(self, reference: int) -> tuple[int, ...] | None:
        """Return the conditions that select the value of a number; None if it is not a choice among constants."""
        memo, waiting = self._conditions, [reference]
        while waiting:
            following = self._next(waiting[-1])
            if following is None:
                waiting.pop()
            else:
                waiting.append(following)
        return () if reference < 0 else memo[reference]

    def _next(self, reference: int) -> int | None:
        """Return the reference of a number to evaluate before this one; None once this one is evaluated."""
        memo, tape = self._conditions, self._tape
        if reference < 0 or reference in memo:
            return None
        code, operands = tape.operation(reference).code, tape.arguments(reference)
        if not operands:
            code = INPUT  # nothing is known about values inside a loop
        if code == _SELECT:
            condition = operands[0]
            if condition >= 0 and condition not in memo:
                return condition
            operands = (condition, operands[1 if self._truth(condition) else 2])
        conditions: dict[int, None] = {}
        is_decided, longest = code != INPUT, 0
        for operand in operands:
            if operand < 0:
                continue
            if operand not in memo:
                return operand
            of_operand = memo[operand]
            if of_operand is None and code == _SELECT and operand == operands[0]:
                of_operand = (operand,)
            if of_operand is None:
                is_decided = False
                break
            conditions.update(dict.fromkeys(of_operand))
            longest = max(longest, len(of_operand))
        # a count of true conditions has the same value in many cases: a guard on the number itself holds in all of them
        is_decided &= code == _SELECT or len(conditions) == longest
        memo[reference] = tuple(conditions) if is_decided and len(conditions) <= MOST_CONDITIONS else None
        return None

    def _truth(self, condition: int) -> bool:
        return bool(self._tape.value_of(condition)) if condition < 0 else self._is_true(condition)


def without_decided(tape: Tape, holds: Collection[int]) -> tuple[Tape, Integers] | None:
    """Return a tape without the choices that guards have decided; None if there is none.

    Args:
        tape: recorded tape.
        holds: references of truth values that are true wherever the recording is used.

    Returns:
        The tape, without outputs, and the new reference of each old one.
    """
    truths: dict[int, bool] = {}
    waiting = list(holds)
    while waiting:
        condition = waiting.pop()
        if condition < 0 or condition in truths:
            continue
        truths[condition] = True
        if tape.codes[condition] == _AND:
            waiting += tape.arguments(condition)
        elif tape.codes[condition] == _NOT:
            truths[tape.first[condition]] = False
    rows = rows_of(tape, tape.inputs)
    chosen = np.flatnonzero((rows[:, 0] == _SELECT) & np.isin(rows[:, 1], np.fromiter(truths, np.int64)))
    if not len(chosen):
        return None
    rows[chosen, 1] = [tape.constant(float(truths[condition])) for condition in rows[chosen, 1].tolist()]
    if tape.signed_zeros:
        rows[:, 0] += SIGNED
    result, values = extended(tape.emptied(), rows)
    result.signed_zeros = tape.signed_zeros
    # operations that see the sign of a zero may have been folded where that zero became a constant
    result.folded_zero_signs = tape.folded_zero_signs or bool(len(seeing_zero_signs(tape)))
    return result, values
