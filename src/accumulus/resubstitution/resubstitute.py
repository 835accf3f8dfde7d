"""A program by value: the cheapest choice of definitions among all that programs for the same function have."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

import numpy as np

from accumulus.deadline import Deadline
from accumulus.errors import VerificationError
from accumulus.resubstitution.bounds import Reals
from accumulus.resubstitution.definitions import COPY, DIVIDE, MULTIPLY, PRICES, Definition
from accumulus.resubstitution.exact import Least
from accumulus.resubstitution.extraction import Extraction
from accumulus.resubstitution.points import Points, points_of
from accumulus.resubstitution.proofs import MOST_COMPARISONS
from accumulus.resubstitution.rounding import Rounding
from accumulus.resubstitution.values import Reading, Values
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.compiled.rewrite_state import CONSTANT
from accumulus.rewriting.equivalence import Verification, all_choices
from accumulus.rewriting.signs import Definitions, emit, with_few_changes
from accumulus.rewriting.zeros import with_signed_zeros
from accumulus.tape.live import needed, seeing_zero_signs
from accumulus.tape.operations import BY_NAME, INPUT
from accumulus.tape.tape import Tape
from accumulus.tape.weights import UNIT

__all__ = ["Resubstitution", "cost"]

#: Values that pairs are looked for among, at most.
MOST_VALUES: Final = 4000
#: By how much a definition may be less certain than the value was, and by how many units of rounding besides; in turn,
#: until the program as a whole is no more than so many times as uncertain.
TOLERANCES: Final = ((2.0, 4.0), (1.0, 1.0), (1.0, 0.0))
WORSE: Final = 4.0
#: By how many times as much definitions of given programs may be, if there are no others.
MORE: Final = (4.0, 16.0, math.inf)
#: Of the time that is left to an exact choice, what the search may take before it, and then that choice itself.
ANNEALED: Final = 0.3
EXACT: Final = 0.8
#: Points of a universe: seeds of checks that are not those of the verification.
SEEDS: Final = (101, 102)
#: Points at least.
FEWEST_POINTS: Final = 8
#: How far these are from 0: sqrt(cos²) is cos for small arguments only, where stand-ins are near 1.
REACHES: Final = (1.0, 6.0, 3.0)
_SQRT: Final = BY_NAME["sqrt"].code
_SELECT: Final = BY_NAME["select"].code


class Resubstitution:
    """Programs by value for what one program computes.

    Args:
        base: that program, in canonical form.
        choices: how its comparisons may come out.
        kept_outputs: that many of the first outputs stay as they are computed.
        points: real ones.
        seed: of points.

    Attributes:
        least: of the last round that was exact, what no choice of its definitions is cheaper than.
    """

    def __init__(
        self, base: Tape, choices: Sequence[Mapping[int, bool]], kept_outputs: int, points: Points, seed: int
    ) -> None:
        self._base, self._kept_outputs, self._points = base, kept_outputs, points
        self.least: Least | None = None
        # what is found at some points is verified at others
        self._known, self._verification = (
            Verification(base, seed + other, kept_outputs=kept_outputs, choices=choices, reaches=REACHES)
            for other in SEEDS
        )

    @classmethod
    def of(cls, base: Tape, kept_outputs: int, points: Reals | None, seed: int) -> Resubstitution | None:
        """None if there is nothing to win, or there are too many ways for comparisons to come out."""
        choices = all_choices(base, MOST_COMPARISONS)
        if choices is None or not base.operations:
            return None
        choices *= -(-FEWEST_POINTS // len(choices))
        return cls(base, choices, kept_outputs, points_of(base, points, np.random.default_rng(seed)), seed)

    def cheapest(
        self, programs: Sequence[Tape], moves: int, deadline: Deadline, seed: int, *, is_exact: bool = False
    ) -> Tape:
        """The cheapest program found by value; one of those that are given if none is cheaper.

        Args:
            programs: some for the same; the more they differ, the better.
            moves: of the search.
            is_exact: whether most of the time that is left is for choices that the search has not found, and a bound.
        """
        values = Values(self._base, self._known, self._points, self._kept_outputs)
        # the cheapest program is what others have to be better than, and begin with
        start = values.base
        for tape in sorted(programs, key=cost):
            reading = values.read(tape)
            if reading is not None and reading.outputs == values.base.outputs and cost(tape) < cost(start.tape):
                start = reading
        known = set(values.definitions)
        if len(values) <= MOST_VALUES:
            values.pair(lambda: deadline.passed)
        rounding = Rounding(values, [values.base, start])
        divisors = _Divisors(values, known)
        candidates = [
            each for each in values.definitions if each.code != DIVIDE or each in known or divisors.allow(each)
        ]
        best = min(programs, key=cost)
        for factor, slack in TOLERANCES:
            excess = rounding.excess(candidates, slack)
            ranked = list(zip(candidates, excess.tolist(), strict=True))
            extraction = self._extraction(values, start, known, ranked, factor, seed)
            extraction.anneal(moves, deadline.part(ANNEALED) if is_exact else deadline)
            chosen = extraction.best()
            if is_exact:
                chosen, least = extraction.exact(deadline.part(EXACT))
                self.least = least or self.least
                is_exact = False  # choices of fewer definitions say less
            found = _written(values, chosen, self._kept_outputs)
            if found is None or cost(found) >= cost(best):
                break
            if not rounding.is_worse(found, WORSE) and self.is_same(found):
                return found
        return best

    def _extraction(
        self,
        values: Values,
        start: Reading,
        known: Set[Definition],
        ranked: Sequence[tuple[Definition, float]],
        factor: float,
        seed: int,
    ) -> Extraction:
        """The choice of definitions that are no more than so many times as uncertain as values were."""
        preferred = start.own | values.fixed
        roots = [*map(abs, values.base.outputs), *values.fixed]
        allowed = [each for each, times in ranked if times <= factor] + list(values.fixed.values())
        first = _without_circles(values, allowed, preferred)
        for more in MORE:
            if all(root in first for root in roots if root in values.base.own):
                break
            allowed += [d for d, times in ranked if d.node not in first and d in known and times <= more * factor]
            first = _without_circles(values, allowed, preferred)
        # what nothing makes is not there to be used
        there = {*first, *values.numbers, *values.inputs}
        allowed = [each for each in allowed if all(abs(a) in there for a in each.arguments)]
        return Extraction(len(values), allowed, roots, first, PRICES, UNIT, seed)

    def is_same(self, tape: Tape) -> bool:
        """Whether a program computes the same at points other than those at which values are told."""
        try:
            self._verification.check(tape)
        except VerificationError:
            return False
        return True


def _without_circles(
    values: Values, definitions: Sequence[Definition], preferred: Mapping[int, Definition]
) -> dict[int, Definition]:
    """A definition for each value that can be computed by some, made of values that come before it; rather some."""
    users: dict[int, list[int]] = {}
    missing, queues = [], (deque[int](), deque[int]())
    for place, each in enumerate(definitions):
        nodes = {abs(a) for a in each.arguments} - values.numbers.keys() - values.inputs.keys()
        missing.append(len(nodes))
        for node in nodes:
            users.setdefault(node, []).append(place)
        if not nodes:
            queues[preferred.get(each.node) != each].append(place)
    found: dict[int, Definition] = {}
    while queues[0] or queues[1]:
        each = definitions[(queues[0] or queues[1]).popleft()]
        if each.node in found:
            continue
        found[each.node] = each
        for place in users.get(each.node, ()):
            missing[place] -= 1
            if not missing[place]:
                user = definitions[place]
                queues[preferred.get(user.node) != user].append(place)
    return found


def cost(tape: Tape) -> int:
    """What the operations cost that the outputs need, in the unit of weights; a change of sign as much as a sum."""
    marks = needed(tape)
    return sum(PRICES[tape.codes[r]] or UNIT for r in range(tape.inputs, len(tape)) if marks[r])


def _written(values: Values, chosen: dict[int, Definition], kept_outputs: int) -> Tape | None:
    """Definitions as a tape; None if signs of zeros are in the way."""
    count = len(values)
    codes, signs = np.full(count, CONSTANT), np.ones(count, np.int64)
    arguments, numbers = np.zeros((count, 3), np.int64), np.zeros(count)
    turned = np.ones(count, np.int64)
    for value, (sign, position) in values.inputs.items():
        codes[value], arguments[value, 0], turned[value] = INPUT, position, sign
    for value, number in values.numbers.items():
        numbers[value] = number
    copies = {value: each.sign * each.arguments[0] for value, each in chosen.items() if each.code == COPY}
    for value, each in chosen.items():
        if value not in copies:
            codes[value], signs[value] = each.code, each.sign
            taken = _followed(each.arguments, copies)
            arguments[value, : len(taken)] = [a * turned[abs(a)] for a in taken]
    meanings = np.array([a * turned[abs(a)] for a in values.base.exact], np.int64)
    network = Definitions(
        codes=codes,
        signs=signs,
        arguments=arguments,
        numbers=numbers,
        outputs=np.array([turned[abs(a)] * a for a in _followed(values.base.outputs, copies)], np.int64),
        exact=np.zeros(count, bool),
    )
    seeing = seeing_zero_signs(values.base.tape)
    if len(seeing):
        inputs = values.base.tape.inputs
        staying = np.flatnonzero(np.frombuffer(needed(values.base.tape, seeing.tolist()), bool)[inputs:]) + inputs
        signed = with_signed_zeros(network, values.base.tape, staying, meanings[staying])
        if signed is None:
            return None
        network = signed
    found = canonical(emit(network, values.base.tape), kept_outputs)
    return min(found, with_few_changes(found), key=lambda tape: tape.operations)


def _followed(values: Iterable[int], copies: Mapping[int, int]) -> list[int]:
    """Values, or what they are copies of; negative where the negative is meant."""
    return [(1 if a > 0 else -1) * copies.get(abs(a), abs(a)) for a in values]


class _Divisors:
    """By what a value may be divided: only where that is zero was it infinite or undefined before."""

    def __init__(self, values: Values, known: Iterable[Definition]) -> None:
        self._values = values
        self._own: dict[int, list[Definition]] = {}
        for each in known:
            self._own.setdefault(each.node, []).append(each)
        self._cones: dict[int, frozenset[int]] = {}
        self._has_choices = any(each.code == _SELECT for each in known)

    def allow(self, definition: Definition) -> bool:
        """Whether a division is defined wherever its value was."""
        divisor = abs(definition.arguments[1])
        if self._has_choices:  # the division that was there may be in a branch that is not taken
            return self._is_never_zero(divisor, frozenset(), 3)
        return self._is_never_zero(divisor, self._divided(definition.node), 3)

    def _is_never_zero(self, value: int, divided: frozenset[int], depth: int) -> bool:
        """Whether a value is not zero wherever none of some others is."""
        if value in divided:
            return True
        if value in self._values.numbers:
            return self._values.numbers[value] != 0
        for each in self._own.get(value, ()) if depth else ():
            nodes = [abs(a) for a in each.arguments]
            if each.code in (MULTIPLY, DIVIDE) and all(self._is_never_zero(n, divided, depth - 1) for n in nodes):
                return True
            if each.code == _SQRT and self._is_never_zero(nodes[0], divided, depth - 1):
                return True
        return False

    def _divided(self, value: int) -> frozenset[int]:
        """All that is divided by to compute a value, as the base computes it."""
        known = self._cones.get(value)
        if known is None:
            found: set[int] = set()
            seen, waiting = {value}, [value]
            while waiting:
                each = self._values.base.own.get(waiting.pop())
                if each is None:
                    continue
                nodes = [abs(a) for a in each.arguments]
                if each.code == DIVIDE:
                    found.add(nodes[1])
                for n in nodes:
                    if n not in seen:
                        seen.add(n)
                        waiting.append(n)
            known = self._cones[value] = frozenset(found)
        return known
