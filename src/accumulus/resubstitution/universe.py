"""Candidates: definitions that may be selected for values.

**Conditions.** A definition may be undefined only where all outputs are that depend on its value.

**Rounding.** Definitions that make a value much less accurate are excluded: 1 - c² equals s², and loses all its digits
where s is small. So definitions are evaluated at real points, above all near zeros of intermediate values, with
first-order bounds on errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.machine import kernel
from accumulus.native.state import Integers, zeros
from accumulus.resubstitution.compiled.definitions_kernel import (
    ARGUMENTS,
    CODE,
    COPY,
    FIRST,
    NODE,
    SECOND,
    SIGN,
    DefinitionsState,
    RoundingState,
)
from accumulus.resubstitution.extraction import Extraction
from accumulus.resubstitution.values import Definition, DefinitionTable, Reading, Values
from accumulus.rewriting.domains import Domains, Following
from accumulus.rewriting.rounding import (
    LOST,
    SLACK,
    UNIT,
    WORSE,
    Limits,
    Reals,
    agree,
    operation_with_bounds,
    within,
)
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY

# Rounding ------------------------------------------------------------------------------------------------------------


class Rounding(Limits):
    """Errors of programs and definitions at real points.

    Args:
        values: values of programs.
        taken: readings of acceptable programs; others may be as uncertain.
    """

    def __init__(self, values: Values, taken: Sequence[Reading]) -> None:
        self._reals, self._bounds, self._outputs = values.reals, values.bounds, values.base.outputs
        super().__init__(values.points, [(reading.at, reading.bounds) for reading in taken])

    def excess(self, definitions: DefinitionTable, numbers: Integers, slack: float) -> Reals:
        """Return the largest factor by which each definition increases the uncertainty of its value.

        It is infinite if the definition is not finite where the value is, or if both differ.

        Args:
            definitions: table of definitions.
            numbers: rows of the definitions in question.
            slack: allowed roundings, in units of rounding.
        """
        factors = np.zeros(len(numbers))
        rows = definitions.rows[numbers]
        is_plain = np.isin(rows[:, CODE], (ADD, MULTIPLY, DIVIDE, COPY))
        plain = np.flatnonzero(is_plain)
        state = RoundingState(
            rows=rows[plain],
            count=len(plain),
            points=len(self._points),
            reals=self._reals,
            bounds=self._bounds,
            slack=slack,
            rounding=SLACK * UNIT,
            lost=LOST,
            largest=self._span.largest,
            smallest=self._span.smallest,
            negligible=self._negligible,
            excess=np.zeros(len(plain)),
        )
        kernel("resubstitution.rounding")(state.address)
        factors[plain] = state.excess
        with np.errstate(all="ignore"):
            for code in set(rows[~is_plain, CODE].tolist()):
                places = np.flatnonzero(rows[:, CODE] == code)
                factors[places] = self._excess(code, rows[places], slack)
        return factors

    def _excess(self, code: int, rows: Integers, slack: float) -> Reals:
        """Return the same for definitions by one operation, in NumPy."""
        arguments = rows[:, FIRST : FIRST + OPERATIONS[code].arity].T
        nodes, signs = np.abs(arguments), np.sign(arguments)[..., np.newaxis]
        at, bounds = operation_with_bounds(
            code, list(signs * self._reals[nodes]), list(self._bounds[nodes]), self._span
        )
        at, bounds = within(self._span, at, bounds)
        at = at * rows[:, SIGN, np.newaxis]
        before, limits = self._reals[rows[:, NODE]], self._bounds[rows[:, NODE]]
        same = np.isfinite(at) & agree(at, bounds, before, limits)
        ratios = np.where(same, bounds / (limits + slack * np.abs(before) + self._negligible), np.inf)
        ratios = np.where(np.isfinite(before) & np.isfinite(limits), ratios, 0.0)
        # defined and infinite values have to stay so
        ratios = np.where(~np.isnan(before) & ~(np.isfinite(before) & np.isfinite(at)) & (at != before), np.inf, ratios)
        worst: Reals = np.where(np.isnan(ratios), np.inf, ratios).max(axis=1, initial=0.0)
        return worst

    def faults(self, chosen: Mapping[int, Definition], exempt: Set[Definition], times: float) -> set[Definition]:
        """Return the definitions at which a program that `is_worse` loses the most accuracy, one for each point.

        Args:
            chosen: definitions of the program, by value.
            exempt: definitions that are never reported.
            times: factor beyond which the error of a program is too large.
        """
        order = _in_order(chosen, [abs(output) for output in self._outputs])
        at, bounds = self._reals.copy(), self._bounds.copy()
        with np.errstate(all="ignore"):
            for value in order:
                each = chosen[value]
                nodes = [abs(a) for a in each.arguments]
                arguments = [at[n] if a > 0 else -at[n] for n, a in zip(nodes, each.arguments, strict=True)]
                made, bound = arguments[0], bounds[nodes[0]]
                if each.code != COPY:
                    made, bound = operation_with_bounds(each.code, arguments, [bounds[n] for n in nodes], self._span)
                made, bounds[value] = within(self._span, made, bound)
                at[value] = each.sign * made
            limits = self._bounds.copy()
            for output, limit in zip(self._outputs, self._limits, strict=True):
                limits[abs(output)] = np.fmin(limits[abs(output)], limit)
            limits += self._negligible
            off = np.where(np.isfinite(at) & np.isfinite(bounds), bounds / limits, np.inf)
            off = np.where(np.isfinite(self._reals) & np.isfinite(self._bounds), off, 1.0)
        signed = np.array(self._outputs, np.int64)
        made, uncertain = np.sign(signed)[:, np.newaxis] * at[np.abs(signed)], bounds[np.abs(signed)]
        wrong = self._wrong(np.arange(len(signed)), made, uncertain, times)
        reported: set[Definition] = set()
        # points at which the same outputs are wrong have the same suspects
        ways, which = np.unique(wrong, axis=1, return_inverse=True)
        for way in np.flatnonzero(ways.any(axis=0)).tolist():
            outputs = [abs(self._outputs[k]) for k in np.flatnonzero(ways[:, way]).tolist()]
            suspects = [chosen[value] for value in _in_order(chosen, outputs) if chosen[value] not in exempt]
            if suspects:
                points = np.flatnonzero(which.reshape(-1) == way)
                growths = [_growth(each, off[:, points]) for each in suspects]
                worst = np.argmax(growths, axis=0)
                reported.update(
                    suspects[k] for k, p in zip(worst, range(len(points)), strict=True) if growths[k][p] > 0
                )
        return reported


def _growth(definition: Definition, off: Reals) -> Reals:
    """Return the growth of the relative error from a definition's operands to its value; 0 if undefined.

    Args:
        definition: definition of the value.
        off: error of each value, in multiples of its uncertainty, (values, points).
    """
    before = off[[abs(a) for a in definition.arguments]].max(axis=0, initial=1.0)
    with np.errstate(invalid="ignore"):  # infinite divided by infinite is meaningless
        growth: Reals = np.where(np.isfinite(before), off[definition.node] / before, 0.0)
    return growth


def _in_order(chosen: Mapping[int, Definition], roots: Iterable[int]) -> list[int]:
    """Return the values that roots depend on, and the roots, each after its operands."""
    ordered: list[int] = []
    seen: set[int] = set()
    waiting = [(root, False) for root in roots]
    while waiting:
        value, is_ready = waiting.pop()
        if is_ready:
            ordered.append(value)
        elif value in chosen and value not in seen:
            seen.add(value)
            waiting.append((value, True))
            waiting += ((abs(a), False) for a in chosen[value].arguments)
    return ordered


# Conditions ----------------------------------------------------------------------------------------------------------


class Conditions:
    """Test that definitions are numbers wherever an output is that depends on their values.

    Args:
        values: known values and their definitions.
        domains: conditions that the outputs of the base need.
        readings: programs that have these outputs and, together, all values.
    """

    def __init__(self, values: Values, domains: Domains, readings: Iterable[Reading]) -> None:
        self._domains, self._constants = domains, values.numbers
        self._following: dict[int, Following] = {}
        #: For each value, its number there, what it needs, and what may be needed for it: by its first program.
        needed, allowed = [0] * len(values), [0] * len(values)
        self._numbers = [-1] * len(values)
        known = {0}
        for reading in readings:
            program = domains.of_program(reading.tape)
            new = {abs(value) for value in reading.meanings} - known
            for value in new:
                allowed[value] = -1
            for value, *of in zip(map(abs, reading.meanings), *program, strict=False):
                if value in new:
                    self._numbers[value], needed[value] = of[0], of[1]
                    allowed[value] &= of[2]
            known |= new
        self._allowed, self._of_allowed = _classes(allowed)
        self._needed, self._of_needed = _classes(needed)

    def allow(self, rows: Integers) -> NDArray[np.bool_]:
        """Return True for definitions that need no more than all outputs that depend on their values."""
        of_nodes, of_arguments = self._of_allowed[rows[:, NODE]], self._of_needed[np.abs(rows[:, ARGUMENTS])]
        allowed: NDArray[np.bool_] = np.all(
            self._for_each(of_nodes[:, np.newaxis], of_arguments, self._has_needs), axis=1
        )
        divisions = np.flatnonzero(allowed & (rows[:, CODE] == DIVIDE))
        allowed[divisions] = self._for_each(of_nodes[divisions], np.abs(rows[divisions, SECOND]), self._is_nonzero)
        return allowed

    def _for_each(self, nodes: Integers, others: Integers, holds: Callable[[int, int], bool]) -> NDArray[np.bool_]:
        """Return what holds of pairs, looking at equal ones once."""
        count = 1 + int(others.max(initial=0))
        pairs, where = np.unique(nodes * count + others, return_inverse=True)
        each = np.array([holds(*divmod(pair, count)) for pair in pairs.tolist()], bool)
        of_pairs: NDArray[np.bool_] = np.reshape(each[where], others.shape)
        return of_pairs

    def _has_needs(self, node: int, argument: int) -> bool:
        """Return True if what arguments need follows, both given by their classes."""
        return self._from(node).all_of(self._needed[argument])

    def _is_nonzero(self, node: int, divisor: int) -> bool:
        """Return True if a divisor is not zero."""
        if divisor in self._constants:
            return self._constants[divisor] != 0.0
        return self._from(node).is_nonzero(self._numbers[divisor])

    def _from(self, number: int) -> Following:
        """Return what follows from what may be needed, given by its number."""
        if number not in self._following:
            self._following[number] = Following(self._domains, self._allowed[number])
        return self._following[number]


def _classes(masks: Sequence[int]) -> tuple[list[int], Integers]:
    """Return distinct numbers, and the position of each number among them."""
    positions: dict[int, int] = {}
    where = np.array([positions.setdefault(mask, len(positions)) for mask in masks], np.int64)
    return list(positions), where


# Candidates ----------------------------------------------------------------------------------------------------------

#: Further factors for definitions of given programs, if a value has no others. Smaller steps find the more accurate
#: definition first, but take more passes; without the last, a value might have no definition.
MORE: Final = (4.0, 16.0, math.inf)


class Candidates:
    """Definitions of values that may be selected.

    Args:
        values: known values and their definitions.
        domains: conditions that the outputs of the base need.
        start: reading of the cheapest program.
        readings: readings of all programs, the base first.
        of_programs: number of leading definitions that belong to programs.

    Attributes:
        rounding: errors of programs and definitions.
    """

    def __init__(
        self,
        values: Values,
        domains: Domains,
        start: Reading,
        readings: Sequence[Reading],
        of_programs: int,
    ) -> None:
        self.values, self._start, self._of_programs = values, start, of_programs
        self.rounding = Rounding(values, [values.base, start])
        rows = values.definitions.rows
        may_be = np.ones(len(rows), bool)
        may_be[of_programs:] = Conditions(values, domains, readings).allow(rows[of_programs:])
        may_be[list(values.fixed.values())] = False
        self._all = np.flatnonzero(may_be)

    def tolerate(self, factor: float, slack: float) -> None:
        """Allow definitions whose error is at most a factor times the value's, with `slack` units of rounding added."""
        self._numbers, self._factor = self._all, factor
        self._excess = self.rounding.excess(self.values.definitions, self._all, slack)

    def extraction(self, seed: int) -> Extraction:
        """Return the search among them; values without an allowed definition get less accurate ones of programs."""
        values, start, of_programs = self.values, self._start, self._of_programs
        numbers, excess, factor = self._numbers, self._excess, self._factor
        preferred = start.first_definitions | values.fixed
        roots = [*map(abs, values.base.outputs), *values.fixed]
        computed = [root for root in roots if root in values.base.first_definitions]
        rows = values.definitions.rows
        allowed = np.concatenate([numbers[excess <= factor], np.fromiter(values.fixed.values(), np.int64)])
        first = _without_circles(values, allowed, preferred)
        for more in MORE:
            if first[computed].all():
                break
            missing = (numbers < of_programs) & (excess <= more * factor) & (first[rows[numbers, NODE]] == 0)
            allowed = np.concatenate([allowed, numbers[missing]])
            first = _without_circles(values, allowed, preferred)
        # values without a definition cannot be operands
        there = (first > 0) | values.is_leaf
        there[0] = True
        allowed = allowed[there[np.abs(rows[allowed, ARGUMENTS])].all(axis=1)]
        made = np.flatnonzero(first)
        begun = dict(zip(made.tolist(), (first[made] - 1).tolist(), strict=True))
        return Extraction(len(values), values.definitions, allowed, roots, begun, seed)

    def drop_faults(self, chosen: Mapping[int, Definition]) -> bool:
        """Drop the definitions that make a selection wrong at some point; return True if there are any."""
        values, numbers = self.values, self._numbers
        definitions = values.definitions
        # the only definition of a value is never dropped
        ways = np.bincount(definitions.rows[numbers[self._excess <= self._factor], NODE], minlength=len(values))
        faults = self.rounding.faults(chosen, {each for each in chosen.values() if ways[each.node] < 2}, WORSE)
        remaining = ~np.isin(numbers, [definitions.add(fault) for fault in faults])
        self._numbers, self._excess = numbers[remaining], self._excess[remaining]
        return bool(faults)


def _without_circles(values: Values, allowed: Integers, preferred: Mapping[int, int]) -> Integers:
    """Return an acyclic choice of definitions: one for each value that can be computed from earlier ones.

    Args:
        values: values with their definitions.
        allowed: rows of the definitions.
        preferred: row of the preferred definition, by value.

    Returns:
        Number of the definition of each value, plus one; 0 for those without, (values,).
    """
    count = len(values)
    preferences = np.zeros(count, np.int64)
    preferences[np.fromiter(preferred, np.int64)] = 1 + np.fromiter(preferred.values(), np.int64)
    state = DefinitionsState(
        rows=values.definitions.rows,
        numbers=np.ascontiguousarray(allowed),
        count=len(allowed),
        is_given=values.is_leaf.astype(np.int64),
        preferred=preferences,
        missing=np.zeros(len(allowed), np.int64),
        **zeros(count, "chosen heads"),
        nexts=np.zeros((len(allowed), 3), np.int64),
        queue=np.zeros(2 * len(allowed), np.int64),
    )
    kernel("resubstitution.definitions")(state.address)
    return state.chosen
