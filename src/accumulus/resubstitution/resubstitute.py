"""Resubstitution: the cheapest selection of definitions from all programs for the same function.

It is the numerical cousin of Boolean resubstitution in logic synthesis. All values of a resubstituted program are
computed by some given program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final

import numpy as np

from accumulus.deadline import Deadline
from accumulus.resubstitution.compiled.definitions_kernel import COPY
from accumulus.resubstitution.universe import Candidates
from accumulus.resubstitution.values import PRICES, Definition, Values
from accumulus.rewriting.acceptance import Original
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.compiled.rewrite_nodes import CONSTANT
from accumulus.rewriting.rounding import WORSE
from accumulus.rewriting.signs import Definitions, with_fewest_signs, written_tape
from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME, INPUT, UNIT
from accumulus.tape.tape import Tape

#: Largest number of values for which pairs are searched: the time grows with its square; beyond it, only the
#: definitions of given programs are combined.
MOST_VALUES: Final = 4000
#: Factors by which a definition's error bound may exceed the value's, and units of rounding added to the latter. They
#: are tried in turn until the error bound of the whole program is small enough. Larger ones admit shorter programs,
#: more of which are then refused, and each attempt takes time.
TOLERANCES: Final = ((2.0, 4.0), (1.0, 1.0), (1.0, 0.0))
#: Number of programs tried for each tolerance, and by the default effort. Each excludes definitions that failed before.
#: More take time for programs that keep failing, fewer give up gains.
ATTEMPTS: Final = 8
FEW_ATTEMPTS: Final = 4
#: Seconds of work: to read an operation of a program; to find definitions of values, a fixed part, a part for each
#: value, and a part for each pair. Estimates above the true time end the search early, estimates below exceed its work.
READ: Final = 1e-5
UNIVERSE: Final = (2e-3, 8e-6, 8e-9)
#: Seconds of work to select definitions, write the program and check it, without moves: a fixed part, and a part for
#: each value. Estimates above the true time end the search early, estimates below exceed its work.
ATTEMPT: Final = (1e-3, 5e-6)
#: Fraction of the remaining work for the search in the last round. A larger one leaves no time for a second attempt if
#: the first fails, a smaller one selects less thoroughly.
OF_LAST: Final = 0.3
#: Seed of the points for sampling, relative to the seed of the search.
SAMPLED: Final = 101
#: Number of points of finite fields at which values are identified, and of programs with roots: an identity that needs
#: the sign of a root passes every other point. More take time for each value, fewer propose definitions that the
#: verification refuses.
SAMPLED_POINTS: Final = 3
OF_ROOTS: Final = 12


_SQRT: Final = BY_NAME["sqrt"].code


class Resubstitution:
    """Search for cheaper programs by resubstitution, for the outputs of one program.

    Args:
        original: the program.
        kept_outputs: number of leading outputs whose operations stay unchanged.
        seed: seed of the sampled points.
    """

    def __init__(self, original: Original, kept_outputs: int, seed: int) -> None:
        self._original, self._kept_outputs = original, kept_outputs
        self._base, self._points = original.start, original.points
        self._sampled = original.verified(
            seed + SAMPLED,
            count=OF_ROOTS if _SQRT in self._base.codes else SAMPLED_POINTS,
            has_small=True,
        )

    def cheapest(
        self,
        programs: Sequence[Tape],
        moves: int,
        deadline: Deadline,
        seed: int,
        *,
        is_last: bool = False,
    ) -> Tape:
        """Return the cheapest program found by resubstitution; one of the given ones if none is cheaper.

        Args:
            programs: programs with the same outputs; diversity helps.
            moves: number of moves of the search.
            deadline: end of the search.
            seed: seed of the search.
            is_last: if True, leave most of the work to the rules that follow.
        """
        costs = [cost(tape) for tape in programs]
        candidates = self._candidates(programs, costs, deadline, seed)
        best, lowest = programs[int(np.argmin(costs))], min(costs)
        for tolerance in TOLERANCES:
            candidates.tolerate(*tolerance)
            for _ in range(ATTEMPTS):
                chosen = self._selection(candidates, moves, deadline, seed, OF_LAST if is_last else 1.0)
                is_last = False  # if it fails, less work is left
                rewritten = self._written(candidates, chosen, lowest)
                if rewritten is None or cost(rewritten) >= lowest:
                    return best
                if not candidates.rounding.is_worse(rewritten, WORSE) and self._original.is_same(rewritten):
                    return rewritten
                if not candidates.drop_faults(chosen) or deadline.passed:
                    break
        return best

    def cheaper(
        self, program: Tape, moves: int, deadline: Deadline, seed: int, finish: Callable[[Tape], Tape]
    ) -> Tape | None:
        """Return a cheaper program, by resubstitution and then by rules; None if none is found.

        It works like `cheapest`, with only the widest tolerance and fewer attempts, and is not verified.

        Args:
            program: program with the same outputs; it need not be verified.
            moves: number of moves of the search.
            deadline: end of the search.
            seed: seed of the search.
            finish: function that rewrites a program to fewer operations by rules.
        """
        price = cost(program)
        candidates = self._candidates([program], [price], deadline, seed)
        candidates.tolerate(*TOLERANCES[0])
        found = None
        for _ in range(FEW_ATTEMPTS):
            chosen = self._selection(candidates, moves, deadline, seed)
            rewritten = self._written(candidates, chosen, price, is_last=False)
            if rewritten is None or deadline.passed:
                break
            found = rewritten
            if not candidates.rounding.is_worse(rewritten, WORSE) or not candidates.drop_faults(chosen):
                break
        finished = None if found is None else finish(found)
        return finished if finished is not None and cost(finished) < price else None

    def _candidates(
        self,
        programs: Sequence[Tape],
        costs: Sequence[int],
        deadline: Deadline,
        seed: int,
    ) -> Candidates:
        """Return the values that programs compute, and all candidates for computing them."""
        values = Values(self._base, self._sampled, self._points, self._kept_outputs)
        # the search starts from the cheapest program
        start, lowest = values.base, cost(values.base.tape)
        readings = [values.base]
        for price, tape in sorted(zip(costs, programs, strict=True), key=itemgetter(0)):
            reading = values.read(tape)
            if reading is not None and reading.outputs == values.base.outputs:
                readings.append(reading)
                if price < lowest:
                    start, lowest = reading, price
        of_programs = len(values.definitions)
        deadline.spend(READ * (len(self._base) + sum(map(len, programs))))
        deadline.spend(UNIVERSE[0] + UNIVERSE[1] * len(values) + UNIVERSE[2] * min(len(values), MOST_VALUES) ** 2)
        if len(values) <= MOST_VALUES:
            values.pair(lambda: deadline.passed)
        return Candidates(values, self._original.domains, start, readings, of_programs)

    def _selection(
        self, candidates: Candidates, moves: int, deadline: Deadline, seed: int, share: float = 1.0
    ) -> dict[int, Definition]:
        """Return the cheapest selection of definitions found, by value."""
        extraction = candidates.extraction(seed)
        deadline.spend(ATTEMPT[0] + ATTEMPT[1] * len(candidates.values))
        extraction.anneal(moves, deadline.part(share))
        return extraction.best()

    def _written(
        self, candidates: Candidates, chosen: dict[int, Definition], lowest: int, *, is_last: bool = True
    ) -> Tape | None:
        """Return a tape of the definitions; None if it costs `lowest` or more, or signs of zeros forbid it.

        Args:
            candidates: candidate definitions and their values.
            chosen: chosen definition of each value.
            lowest: cost that the tape must be below.
            is_last: if True, return the canonical form with few changes of sign; pass False if another search follows.
        """
        if sum(PRICES[each.code] for each in chosen.values()) >= lowest:
            return None
        values = candidates.values
        count = len(values)
        codes, signs = np.full(count, CONSTANT), np.ones(count, np.int64)
        arguments, numbers = np.zeros((count, 3), np.int64), np.zeros(count)
        turned = np.ones(count, np.int64)
        for value, (sign, position) in values.inputs.items():
            codes[value], arguments[value, 0], turned[value] = INPUT, position, sign
        for value, number in values.numbers.items():
            numbers[value] = number
        copies = {value: each.sign * each.arguments[0] for value, each in chosen.items() if each.code == COPY}

        def followed(taken: Iterable[int]) -> list[int]:
            """Return values with copies replaced by their sources; negative where the negative is meant."""
            return [(1 if a > 0 else -1) * copies.get(abs(a), abs(a)) for a in taken]

        for value, each in chosen.items():
            if value not in copies:
                codes[value], signs[value] = each.code, each.sign
                arguments[value, : len(each.arguments)] = [a * turned[abs(a)] for a in followed(each.arguments)]
        network = Definitions(
            codes=codes,
            signs=signs,
            arguments=arguments,
            numbers=numbers,
            outputs=np.array([turned[abs(a)] * a for a in followed(values.base.outputs)], np.int64),
            exact=np.zeros(count, bool),
        )
        meanings = np.array([a * turned[abs(a)] for a in values.base.exact], np.int64)
        tape = written_tape(network, values.base.tape, meanings)
        return tape if tape is None or not is_last else with_fewest_signs(canonical(tape, self._kept_outputs))


def cost(tape: Tape) -> int:
    """Return the cost of the operations that the outputs need; a change of sign costs as much as a sum."""
    marks = needed(tape)
    return sum(PRICES[tape.codes[r]] or UNIT for r in range(tape.inputs, len(tape)) if marks[r])
