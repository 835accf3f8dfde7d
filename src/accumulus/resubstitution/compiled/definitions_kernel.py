"""Compiled work on definitions: what rounding does to them, and a choice without circles."""

from __future__ import annotations

import math
from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Axes, Floats, Integers, State
from accumulus.rewriting.compiled.running_kernel import times
from accumulus.tape.tape import ADD, MULTIPLY

#: The code of a definition that is another value itself.
COPY: Final = -1
#: Columns of definitions.
NODE, CODE, FIRST, SECOND, THIRD, SIGN = range(6)
WIDTH: Final = 6
ARGUMENTS: Final = slice(FIRST, THIRD + 1)

# Rounding ---------------------------------------------------------------------------------------------------------


class RoundingState(State):
    """Definitions, see `accumulus.resubstitution.values.Definition`, and their values at real points."""

    rows: Annotated[Integers, Axes(WIDTH)]  # definitions in question, by their columns
    count: int  # of them
    points: int
    # of each value at each point, (values · points,)
    reals: Floats
    bounds: Floats
    # which points are in general position and which inside of the domain, (points,)
    generic: Integers
    inside: Integers
    outside: float  # how many times more uncertain definitions may be elsewhere
    # what is beyond the first is infinite; what is below the second has errors of its size
    largest: float
    smallest: float
    slack: float  # so many units of rounding are not more uncertain
    rounding: float  # by how much equal values may differ for each unit of their errors
    lost: float  # of two values that have lost more than this, as a part of themselves, nothing can be said
    excess: Floats  # written: how many times as uncertain each definition makes its value, at worst, (count,)


@compiled
def _excess_at(state: RoundingState, k: int, p: int, worst: float) -> float:
    """Return the excess of a definition at a point, if it is more than that at others, as `operation` of bounds."""
    points, code = state.points, state.rows[k, CODE]
    i, j = state.rows[k, FIRST], state.rows[k, SECOND]
    x, by_first = state.reals[abs(i) * points + p], state.bounds[abs(i) * points + p]
    y, by_second = state.reals[abs(j) * points + p], state.bounds[abs(j) * points + p]
    x, y = x if i > 0 else -x, y if j > 0 else -y
    if code == COPY:
        v, bound = x, by_first
    elif code == ADD:
        v = x + y
        bound = by_first + by_second + abs(v)
    elif code == MULTIPLY:
        v = x * y
        bound = times(abs(x), by_second) + times(abs(y), by_first) + abs(v)
    else:
        v = x / y
        bound = (by_first + abs(v) * by_second) / abs(y) + abs(v)
    v = v * state.rows[k, SIGN]
    if abs(v) > state.largest:
        v = math.inf if v > 0.0 else -math.inf
    if 0.0 < abs(v) < state.smallest:
        bound += state.smallest
    node = state.rows[k, NODE] * points + p
    before, limit = state.reals[node], state.bounds[node]
    is_finite, was_finite = abs(v) < math.inf, abs(before) < math.inf
    if before != before:  # noqa: PLR0124
        return math.inf if is_finite and state.generic[p] else 0.0  # what is undefined stays so, but at single points
    if not (is_finite and was_finite):
        return 0.0 if v == before else math.inf
    if not abs(limit) < math.inf:
        return 0.0
    allowed = state.rounding * (bound + limit)
    if allowed < state.lost * max(abs(v), abs(before)) and not abs(v - before) <= allowed:
        return math.inf
    if bound != bound:  # noqa: PLR0124
        return math.inf
    bound = bound if state.inside[p] else bound / state.outside
    certain = limit + state.slack * abs(before) + state.smallest
    return bound / certain if bound > worst * certain else 0.0


def run_rounding(state: RoundingState) -> int:
    """Find how uncertain sums, products, quotients and copies make their values; returns 0."""
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
    """Definitions from which some are chosen that are made of values which come before them."""

    rows: Annotated[Integers, Axes(WIDTH)]  # definitions, by their columns
    numbers: Integers  # of those that may be chosen
    count: int  # of these
    is_given: Integers  # which values are numbers or inputs, (values,)
    preferred: Integers  # the definition that each value has rather than another, plus one; 0 for none
    chosen: Integers  # written: the definition of each value, plus one; 0 for what none makes, (values,)
    # room: a number for each definition in question, each value, each definition and argument, each definition twice
    missing: Integers
    heads: Integers
    nexts: Annotated[Integers, Axes(3)]
    queue: Integers
    # where the two queues end
    first_end: int = 0
    second_end: int = 0


@compiled
def _find_users(state: DefinitionsState) -> None:
    """Count what each definition has to wait for, and list those that wait for each value, the first one first."""
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
    """Let a definition wait whose arguments are there: a preferred one in the first queue, others in the second."""
    if state.preferred[state.rows[state.numbers[n], NODE]] == state.numbers[n] + 1:
        state.queue[state.first_end] = n
        state.first_end += 1
    else:
        state.queue[state.second_end] = n
        state.second_end += 1


def run_definitions(state: DefinitionsState) -> int:
    """Choose a definition for each value that some make, made of values before it; rather the preferred one."""
    _find_users(state)
    first, second = 0, state.count  # the second queue is behind the first
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
