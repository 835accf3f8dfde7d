"""Forms of a tape that are scaled by a constant, so that products are saved.

Some values are only multiplied by numbers, and can be computed with one of these numbers included. A
derivative of a network's hidden unit is a product of (1 - t²) and a linear form with constant coefficients, which every
output multiplies by a weight. If the coefficients include one of the weights, the form has the same length, and the
product with that weight is saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from accumulus.tape.folding import Folding
from accumulus.tape.live import as_written, seeing_zero_signs
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.passes import rows_of, with_noted_folding
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT, Tape

#: Largest number of operations of a tape that is scaled. Python visits each operation: a larger number takes time for
#: long tapes, a smaller one leaves their multiplications by numbers.
MOST: Final = 20_000
#: Largest number of nested operations that a factor passes through: more approach Python's limit of recursion, fewer
#: leave a multiplication that numbers further below could absorb.
DEEP: Final = 100
#: Largest factor, and reciprocal of the smallest: sums stay within the range of floating point. A larger one brings
#: overflow and underflow nearer, a smaller one leaves multiplications.
LARGEST: Final = 1e6
#: A number: a fraction, or a double that is not finite.
Exact = Any
_ARITIES: Final = np.array([row.arity for row in OPERATIONS])
_SCALED: Final = np.isin(np.arange(len(OPERATIONS)), (ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE))


def with_scaled_forms(tape: Tape, kept_outputs: int = 0) -> Tape:
    """Return the tape with values scaled by a number that a user multiplies them by; itself if that saves nothing.

    Args:
        tape: tape without dead operations.
        kept_outputs: number of leading outputs whose operations stay unchanged.

    >>> tape = Tape(2)
    >>> form = tape.add(tape.multiply(tape.constant(2.0), 0), tape.multiply(tape.constant(3.0), 1))
    >>> tape.outputs = [tape.multiply(tape.constant(5.0), form), tape.multiply(tape.constant(7.0), form)]
    >>> print(with_scaled_forms(tape))
    t2 = multiply(10.0, x0)
    t3 = multiply(15.0, x1)
    t4 = add(t2, t3)
    t5 = multiply(1.4, t4)
    return t4, t5
    """
    # a negative factor would not change the sign of a sum that is zero
    if not 0 < tape.operations <= MOST or len(seeing_zero_signs(tape)):
        return tape
    candidates = _candidates(tape, kept_outputs)
    if not candidates:
        return tape
    forms = _Forms(tape, kept_outputs)
    for reference in candidates:
        forms.scale(reference)
    scaled = forms.written()
    return scaled if scaled.operations < tape.operations else tape


def _candidates(tape: Tape, kept_outputs: int) -> list[int]:
    """Return results of arithmetic whose only uses are products with numbers, and that can absorb a factor."""
    rows = rows_of(tape)
    count = len(tape)
    used = np.zeros(count, np.int64)
    arities = np.zeros(count, np.int64)
    arities[tape.inputs :] = _ARITIES[rows[tape.inputs :, 0]]
    for position in range(3):
        taken = rows[(arities > position) & (rows[:, 1 + position] >= 0), 1 + position]
        used += np.bincount(taken, minlength=count)
    used += np.bincount([output for output in tape.outputs if output >= 0], minlength=count)
    scaled = np.zeros(count, np.int64)
    is_product = rows[:, 0] == MULTIPLY
    for number, other in ((1, 2), (2, 1)):
        by_number = is_product & (rows[:, number] < 0) & (rows[:, other] >= 0)
        scaled += np.bincount(rows[by_number, other], minlength=count)
    free = ~np.frombuffer(as_written(tape, kept_outputs), bool)
    is_form = _SCALED[rows[:, 0]] & (np.arange(count) >= tape.inputs) & free
    candidates = np.flatnonzero(is_form & (used > 0) & (used == scaled)).tolist()
    if not candidates:
        return []
    may, once, taken = is_form.tolist(), (used == 1).tolist(), rows[:, :3].tolist()

    def takes(r: int, depth: int = DEEP) -> bool:
        """Return True if the numbers of an operation, or of operands without other users, can absorb a factor."""
        code, *arguments = taken[r]
        if not may[r] or not depth:
            return False
        if code in (DIVIDE, NEGATIVE):
            arguments = arguments[:1]
        which = all if code in (ADD, SUBTRACT) else any
        return which(a < 0 or (once[a] and takes(a, depth - 1)) for a in arguments)

    return [r for r in candidates if takes(r)]


class _Forms:
    """A tape with scaled constants.

    Args:
        tape, kept_outputs: as for `with_scaled_forms`.
    """

    def __init__(self, tape: Tape, kept_outputs: int) -> None:
        self._tape = tape
        self._free = ~np.frombuffer(as_written(tape, kept_outputs), bool)
        self._arguments = [list(tape.arguments(r)) if r >= tape.inputs else [] for r in range(len(tape))]
        self._folding = tape.folding or Folding(tape.constants)
        #: Exact values of constant arguments, by operation and position.
        self._numbers = {
            (r, k): self._folding.of(tape.value_of(a))
            for r, taken in enumerate(self._arguments)
            for k, a in enumerate(taken)
            if a < 0
        }
        self._users: list[list[int]] = [[] for _ in range(len(tape))]
        for r, taken in enumerate(self._arguments):
            for a in taken:
                if a >= 0:
                    self._users[a].append(r)
        self._is_output = set(tape.outputs)
        #: Operations that now equal another operation.
        self._same: dict[int, int] = {}

    def scale(self, form: int) -> None:
        """Scale a value by the number that most of its users multiply it by, if its own numbers can absorb that."""
        if form in self._same or form in self._is_output:
            return
        places: dict[int, int] = {}
        for user in self._users[form]:
            position = self._factor_position(user, form)
            if position is None:
                return
            places[user] = position
        numbers = Counter(self._numbers[user, position] for user, position in places.items())
        factor: Exact = max(numbers, key=lambda number: numbers[number], default=0.0)
        edits = self._times(form, factor, {}) if 1.0 / LARGEST <= abs(factor) <= LARGEST else None
        if edits is None:
            return
        self._numbers.update(edits)
        left = []
        for user, position in places.items():
            if self._numbers[user, position] != factor:
                self._numbers[user, position] /= factor
                left.append(user)
                continue
            self._same[user] = form
            left += self._users[user]
            if user in self._is_output:
                self._is_output.add(form)
        self._users[form] = left

    def _factor_position(self, user: int, form: int) -> int | None:
        """Return the position of the number that a user multiplies a value by; None if it does anything else."""
        if self._tape.codes[user] != MULTIPLY or not self._free[user]:
            return None
        arguments = self._arguments[user]
        return next(
            (k for k in (0, 1) if (user, k) in self._numbers and self._resolved(arguments[1 - k]) == form), None
        )

    def _resolved(self, reference: int) -> int:
        while reference in self._same:
            reference = self._same[reference]
        return reference

    def _times(
        self, r: int, factor: Exact, edits: Mapping[tuple[int, int], Exact], depth: int = DEEP
    ) -> dict[tuple[int, int], Exact] | None:
        """Return edits that multiply an operation's value by a factor, with the given edits; None if impossible."""
        code = self._tape.codes[r]
        if r < self._tape.inputs or not _SCALED[code] or not self._free[r] or not depth:
            return None
        places = range(1) if code in (DIVIDE, NEGATIVE) else range(2)
        if code in (ADD, SUBTRACT):
            scaled: dict[tuple[int, int], Exact] | None = dict(edits)
            for position in places:
                scaled = None if scaled is None else self._argument_times(r, position, factor, scaled, depth)
            return scaled
        # a number absorbs the factor, or else an argument without other users
        for position in sorted(places, key=lambda k: (r, k) not in self._numbers):
            scaled = self._argument_times(r, position, factor, edits, depth)
            if scaled is not None:
                return scaled
        return None

    def _argument_times(
        self, r: int, position: int, factor: Exact, edits: Mapping[tuple[int, int], Exact], depth: int
    ) -> dict[tuple[int, int], Exact] | None:
        if (r, position) in self._numbers:
            return {**edits, (r, position): self._numbers[r, position] * factor}
        argument = self._resolved(self._arguments[r][position])
        if argument in self._is_output or len(self._users[argument]) != 1:
            return None
        return self._times(argument, factor, edits, depth - 1)

    def written(self) -> Tape:
        """Return the scaled tape."""
        tape, written = self._tape, Tape(self._tape.inputs)
        written.folding = tape.folding
        moved = list(range(tape.inputs))
        for r in range(tape.inputs, len(tape)):
            if r in self._same:
                moved.append(moved[self._resolved(r)])
                continue
            arguments = [
                written.constant(self._folding.rounded(self._numbers[r, k])) if (r, k) in self._numbers else moved[a]
                for k, a in enumerate(self._arguments[r])
            ]
            moved.append(written.apply_code(tape.codes[r], arguments))
        written.outputs = [
            moved[output] if output >= 0 else written.constant(tape.value_of(output)) for output in tape.outputs
        ]
        return with_noted_folding(written, tape)
