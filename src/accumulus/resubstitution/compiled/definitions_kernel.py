"""Compiled work on definitions: their rounding errors, and an acyclic choice of one definition for each value."""

from __future__ import annotations

import math
from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Axes, Floats, Integers, State
from accumulus.rewriting.compiled.running_kernel import bound_of
from accumulus.tape.tape import ADD, MULTIPLY

#: Code of a definition that copies another value.
COPY: Final = -1
#: Columns of definitions.
NODE, CODE, FIRST, SECOND, THIRD, SIGN = range(6)
WIDTH: Final = 6
ARGUMENTS: Final = slice(FIRST, THIRD + 1)

# Rounding ---------------------------------------------------------------------------------------------------------


class RoundingState(State):
    """Definitions, see `accumulus.resubstitution.values.Definition`, and their values at real points."""

    rows: Annotated[Integers, Axes(WIDTH)]  # definitions to compare, by their columns
    count: int  # their number
    points: int
    # values and bounds of each value at each point, (values · points,)
    reals: Floats
    bounds: Floats
    # magnitudes beyond the first are infinite; those below the second have errors of their own size
    largest: float
    smallest: float
    negligible: float  # error that does not count, since values underflow
    slack: float  # units of rounding that do not count as more uncertain
    rounding: float  # largest difference of equal values, for each unit of their errors
    lost: float  # relative loss beyond which two values cannot be compared
    excess: Floats  # result: largest factor by which each definition increases its value's uncertainty, (count,)


@compiled
def _excess_at(state: RoundingState, k: int, p: int, worst: float) -> float:
    """Return the factor by which a definition is more uncertain than its value at a point; 0 if at most `worst`."""
    points, code = state.points, state.rows[k, CODE]
    i, j = state.rows[k, FIRST], state.rows[k, SECOND]
    x, by_first = state.reals[abs(i) * points + p], state.bounds[abs(i) * points + p]
    y, by_second = state.reals[abs(j) * points + p], state.bounds[abs(j) * points + p]
    x, y = x if i > 0 else -x, y if j > 0 else -y
    if code == COPY:
        v, bound = x, by_first
    else:
        v = x + y if code == ADD else x * y if code == MULTIPLY else x / y
        bound = bound_of(code, x, y, v, by_first, by_second)
    v = v * state.rows[k, SIGN]
    if abs(v) > state.largest:
        v = math.inf if v > 0.0 else -math.inf
    if 0.0 < abs(v) < state.smallest:
        bound += state.smallest
    node = state.rows[k, NODE] * points + p
    before, limit = state.reals[node], state.bounds[node]
    is_finite, was_finite = abs(v) < math.inf, abs(before) < math.inf
    if before != before:  # noqa: PLR0124
        return 0.0
    if not (is_finite and was_finite):
        return 0.0 if v == before else math.inf
    if not abs(limit) < math.inf:
        return 0.0
    allowed = state.rounding * (bound + limit)
    if allowed < state.lost * max(abs(v), abs(before)) and not abs(v - before) <= allowed:
        return math.inf
    if bound != bound:  # noqa: PLR0124
        return math.inf
    certain = limit + state.slack * abs(before) + state.negligible
    return bound / certain if bound > worst * certain else 0.0


def run_rounding(state: RoundingState) -> int:
    """Compute the excess of sums, products, quotients and copies; return 0."""
    for k in range(state.count):
        worst = 0.0
        for p in range(state.points):
            worst = max(worst, _excess_at(state, k, p, worst))
            if worst == math.inf:
                break
        state.excess[k] = worst
    return 0


# Order ------------------------------------------------------------------------------------------------------------


class DefinitionsState(State):
    """Definitions, of which one is chosen for each value, so that all arguments are computed before."""

    rows: Annotated[Integers, Axes(WIDTH)]  # all definitions, by their columns
    numbers: Integers  # indices of the candidates
    count: int  # number of candidates
    is_given: Integers  # 1 for numbers and inputs, (values,)
    preferred: Integers  # preferred definition of each value, plus one; 0 for none
    chosen: Integers  # result: definition of each value, plus one; 0 for none, (values,)
    # scratch memory: a number for each candidate, each value, each candidate and argument, each candidate twice
    missing: Integers
    heads: Integers
    nexts: Annotated[Integers, Axes(3)]
    queue: Integers
    # ends of the two queues
    first_end: int = 0
    second_end: int = 0


@compiled
def _find_users(state: DefinitionsState) -> None:
    """Count the arguments that each definition waits for, and list the waiting definitions of each value in order."""
    for n in range(state.count - 1, -1, -1):
        k = state.numbers[n]
        state.missing[n] = 0
        for column in range(FIRST, THIRD + 1):
            node = abs(state.rows[k, column])
            if node != 0 and not state.is_given[node]:
                state.missing[n] += 1
                state.nexts[n, column - FIRST] = state.heads[node]
                state.heads[node] = 3 * n + column - FIRST + 1


@compiled
def _enqueue(state: DefinitionsState, n: int) -> None:
    """Enqueue a definition whose arguments are available: preferred ones in the first queue, others in the second."""
    if state.preferred[state.rows[state.numbers[n], NODE]] == state.numbers[n] + 1:
        state.queue[state.first_end] = n
        state.first_end += 1
    else:
        state.queue[state.second_end] = n
        state.second_end += 1


def run_definitions(state: DefinitionsState) -> int:
    """Choose an acyclic definition for each value that can have one, preferred ones first; return 0."""
    _find_users(state)
    first, second = 0, state.count  # the second queue lies behind the first
    state.second_end = second
    for n in range(state.count):
        if state.missing[n] == 0:
            _enqueue(state, n)
    while first < state.first_end or second < state.second_end:
        if first < state.first_end:
            n = state.queue[first]
            first += 1
        else:
            n = state.queue[second]
            second += 1
        node = state.rows[state.numbers[n], NODE]
        if state.chosen[node]:
            continue
        state.chosen[node] = state.numbers[n] + 1
        use = state.heads[node]
        while use:
            user = (use - 1) // 3
            state.missing[user] -= 1
            if state.missing[user] == 0:
                _enqueue(state, user)
            use = state.nexts[user, (use - 1) % 3]
    return 0
