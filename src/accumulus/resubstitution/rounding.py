"""What definitions do to rounding: not those by which a value is much less certain than it was.

1 - c² is s², and loses all digits of it where s is small. So definitions are tried at real points, near the zeros of
intermediate values above all, with first-order bounds on errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from accumulus.native.machine import kernel
from accumulus.native.state import Integers
from accumulus.resubstitution.bounds import LOST, Reals, agree, operation, run, within
from accumulus.resubstitution.compiled.definitions_state import CODE, EXCESS, FIRST, NODE, SIGN, DefinitionsState
from accumulus.resubstitution.definitions import ADD, COPY, DIVIDE, MULTIPLY, Table
from accumulus.resubstitution.values import Reading, Values
from accumulus.rewriting.running import SLACK, UNIT
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["Rounding"]

TINY: Final = 1e-300


class Rounding:
    """What is known of errors at real points.

    Args:
        values: what programs compute.
        taken: programs that may be taken as they are, so that others may be as uncertain.
    """

    def __init__(self, values: Values, taken: Sequence[Reading]) -> None:
        self._reals, self._bounds, self._points = values.reals, values.bounds, values.points
        self._generic, self._span = values.generic, values.span
        self._outputs = values.base.outputs
        self._limits = np.zeros((len(self._outputs), len(self._points)))
        #: Outputs as the first of them has them; another may have found a way to them where that has none.
        self._before, self._uncertain = np.zeros((2, *self._limits.shape))
        for turn, reading in enumerate(taken):
            at, bounds = run(reading.tape, self._points, self._span)
            for k, output in enumerate(reading.tape.outputs):
                if output >= 0 and not turn:
                    self._before[k], self._uncertain[k] = at[output], bounds[output]
                if output >= 0:
                    self._limits[k] = np.fmax(self._limits[k], np.fmax(bounds[output], np.abs(at[output])))

    def excess(self, definitions: Table, numbers: Integers, slack: float) -> Reals:
        """How many times as uncertain definitions make their values, at worst, as these are with some roundings more.

        Infinite where a definition is not finite and the value is, or is another number.

        Args:
            numbers: of the definitions in question.
            slack: so many units of rounding.
        """
        found = np.zeros(len(numbers))
        rows = definitions.rows[numbers]
        is_plain = np.isin(rows[:, CODE], (ADD, MULTIPLY, DIVIDE, COPY))
        plain = np.flatnonzero(is_plain)
        state = DefinitionsState(
            mode=EXCESS,
            rows=rows[plain],
            numbers=np.arange(len(plain)),
            number_count=len(plain),
            points=len(self._points),
            reals=self._reals,
            bounds=self._bounds,
            generic=self._generic.astype(np.int64),
            slack=slack,
            rounding=SLACK * UNIT,
            lost=LOST,
            largest=self._span.largest,
            smallest=self._span.smallest,
            excess=np.zeros(len(plain)),
        )
        kernel("resubstitution.definitions")(state.address)
        found[plain] = state.excess
        with np.errstate(all="ignore"):
            for code in np.unique(rows[~is_plain, CODE]):
                places = np.flatnonzero(rows[:, CODE] == code)
                found[places] = self._excess(int(code), rows[places], slack)
        return found

    def _excess(self, code: int, rows: Integers, slack: float) -> Reals:
        """The same for definitions by one operation, in NumPy."""
        arguments = rows[:, FIRST : FIRST + OPERATIONS[code].arity].T
        nodes, signs = np.abs(arguments), np.sign(arguments)[..., np.newaxis]
        at, bounds = operation(code, list(signs * self._reals[nodes]), list(self._bounds[nodes]))
        at, bounds = within(self._span, at, bounds)
        at = at * rows[:, SIGN, np.newaxis]
        before, limits = self._reals[rows[:, NODE]], self._bounds[rows[:, NODE]]
        same = np.isfinite(at) & agree(at, bounds, before, limits)
        ratios = np.where(same, bounds / (limits + slack * np.abs(before) + TINY), np.inf)
        ratios = np.where(np.isfinite(before) & np.isfinite(limits), ratios, 0.0)
        # what is undefined stays so, but at single points
        ratios = np.where(~np.isfinite(before) & np.isfinite(at) & self._generic, np.inf, ratios)
        worst: Reals = np.where(np.isnan(ratios), np.inf, ratios).max(axis=1, initial=0.0)
        return worst

    def is_worse(self, tape: Tape, times: float) -> bool:
        """Whether an output of a program is another number anywhere, or more than so many times as uncertain."""
        at, bounds = run(tape, self._points, self._span)
        for k, (output, value) in enumerate(zip(tape.outputs, self._outputs, strict=True)):
            if output < 0:
                continue
            before, limit = self._before[k], self._limits[k]
            known = np.isfinite(limit) & np.isfinite(before)
            anywhere = np.isfinite(before) | np.isfinite(self._reals[abs(value)])
            if (np.isfinite(at[output]) & ~anywhere & self._generic).any():
                return True
            if not agree(at[output], bounds[output], before, self._uncertain[k]).all():
                return True
            if not (np.isfinite(at[output]) & (bounds[output] <= times * limit))[known].all():
                return True
        return False
