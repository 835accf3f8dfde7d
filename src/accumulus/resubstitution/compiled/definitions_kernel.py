"""Compiled work on definitions: each once in a table, what rounding does to them, and a choice without circles."""

from __future__ import annotations

import math
from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import NO_FLOATS, NOTHING, Axes, Floats, Integers, State
from accumulus.native.words import definition_hash
from accumulus.rewriting.compiled.running_kernel import times
from accumulus.tape.tape import ADD, MULTIPLY

__all__ = [
    "ARGUMENTS",
    "CODE",
    "COPY",
    "ENTER",
    "EXCESS",
    "FIRST",
    "NODE",
    "ORDER",
    "SECOND",
    "SIGN",
    "WIDTH",
    "DefinitionsState",
    "perform",
]

#: The code of a definition that is another value itself.
COPY: Final = -1
#: What to do: enter definitions into the table, find how uncertain they are, choose some without circles.
ENTER, EXCESS, ORDER = range(3)
#: Columns of definitions.
NODE, CODE, FIRST, SECOND, THIRD, SIGN = range(6)
WIDTH: Final = 6
ARGUMENTS: Final = slice(FIRST, THIRD + 1)


class DefinitionsState(State):
    """Definitions of values; see `accumulus.resubstitution.values.Definition`."""

    mode: int = ENTER  # what to do
    rows: Annotated[Integers, Axes(WIDTH)] = NOTHING  # definitions, by their columns
    count: int = 0  # of them
    # for ENTER, numbers of definitions, plus one, by what they say; open addressing, 0 where there is none
    table: Integers = NOTHING
    table_bits: int = 0  # of its size
    indexed: int = 0  # so many definitions are in the table
    given: Annotated[Integers, Axes(WIDTH)] = NOTHING  # definitions to be entered, (given_count, WIDTH)
    given_count: int = 0  # how many
    # for ENTER, written: which definition each of these is. Else the definitions in question, so many.
    numbers: Integers = NOTHING
    number_count: int = 0  # how many
    points: int = 0  # for EXCESS, the number of real points
    # of each value at each point, (values · points,)
    reals: Floats = NO_FLOATS
    bounds: Floats = NO_FLOATS
    generic: Integers = NOTHING  # which points are in general position, (points,); and which `inside` of the domain
    inside: Integers = NOTHING
    outside: float = 1.0  # how many times more uncertain definitions may be elsewhere
    # what is beyond the first is infinite; what is below the second has errors of its size
    largest: float = 0.0
    smallest: float = 0.0
    slack: float = 0.0  # so many units of rounding are not more uncertain
    rounding: float = 0.0  # by how much equal values may differ for each unit of their errors
    lost: float = 0.0  # of two values that have lost more than this, as a part of themselves, nothing can be said
    # written: how many times as uncertain each definition makes its value, at worst, (number_count,)
    excess: Floats = NO_FLOATS
    is_given: Integers = NOTHING  # for ORDER, which values are numbers or inputs, (values,)
    preferred: Integers = NOTHING  # the definition that each value has rather than another, plus one; 0 for none
    chosen: Integers = NOTHING  # written: the definition of each value, plus one; 0 for what none makes, (values,)
    missing: Integers = NOTHING  # room for a number for each definition in question
    heads: Integers = NOTHING  # room for a number for each value; `nexts`, for each definition and argument
    nexts: Annotated[Integers, Axes(3)] = NOTHING
    queue: Integers = NOTHING  # room for a number for each definition, twice


# The table --------------------------------------------------------------------------------------------------------


@compiled
def _hash_of(state: DefinitionsState, k: int, given: bool) -> int:
    """Where the search for a definition begins: one of the table's, or one that is given."""
    rows = state.given if given else state.rows
    code = rows[k, CODE] * 2 + rows[k, SIGN] + (rows[k, NODE] << 12)
    return definition_hash(code, rows[k, FIRST], rows[k, SECOND], rows[k, THIRD], state.table_bits)


@compiled
def _is_equal(state: DefinitionsState, known: int, k: int) -> bool:
    """Whether a definition of the table is one that is given."""
    same = True
    for column in range(WIDTH):
        same = same and state.rows[known, column] == state.given[k, column]
    return same


@compiled
def _index(state: DefinitionsState) -> None:
    """Enter into the table what is not there yet."""
    mask = (1 << state.table_bits) - 1
    for k in range(state.indexed, state.count):
        place = _hash_of(state, k, False)
        while state.table[place]:
            place = (place + 1) & mask
        state.table[place] = k + 1
    state.indexed = state.count


@compiled
def _enter(state: DefinitionsState) -> None:
    """Append the definitions that are given and not there; note which each is."""
    mask = (1 << state.table_bits) - 1
    for k in range(state.given_count):
        place = _hash_of(state, k, True)
        while state.table[place] and not _is_equal(state, state.table[place] - 1, k):
            place = (place + 1) & mask
        if not state.table[place]:
            for column in range(WIDTH):
                state.rows[state.count, column] = state.given[k, column]
            state.count += 1
            state.indexed = state.count
            state.table[place] = state.count
        state.numbers[k] = state.table[place] - 1


# Rounding ---------------------------------------------------------------------------------------------------------


@compiled
def _excess_at(state: DefinitionsState, k: int, p: int, worst: float) -> float:
    """The excess of a definition at a point, if it is more than that at others; as `operation` of bounds has it."""
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


@compiled
def _find_excess(state: DefinitionsState) -> None:
    """How uncertain sums, products, quotients and copies make their values."""
    for n in range(state.number_count):
        k, worst = state.numbers[n], 0.0
        for p in range(state.points):
            worst = max(worst, _excess_at(state, k, p, worst))
            if worst == math.inf:
                break
        state.excess[n] = worst


# Order ------------------------------------------------------------------------------------------------------------


@compiled
def _needs(state: DefinitionsState, k: int, column: int) -> int:
    """The value of an argument, where it has to be made and is not that of one before; else 0."""
    node: int = abs(state.rows[k, column])
    if node == 0 or state.is_given[node]:
        return 0
    for other in range(FIRST, column):
        if abs(state.rows[k, other]) == node:
            return 0
    return node


@compiled
def _find_users(state: DefinitionsState) -> None:
    """Count what each definition has to wait for, and list those that wait for each value, the first one first."""
    for n in range(state.number_count - 1, -1, -1):
        k = state.numbers[n]
        state.missing[n] = 0
        for column in range(FIRST, THIRD + 1):
            node = _needs(state, k, column)
            if node != 0:
                state.missing[n] += 1
                state.nexts[n, column - FIRST] = state.heads[node]
                state.heads[node] = 3 * n + column - FIRST + 1


@compiled
def _choose(state: DefinitionsState) -> None:
    """A definition for each value that some make, made of values that come before it; rather the preferred one."""
    _find_users(state)
    room = state.number_count
    # the first queue is of preferred definitions, the second, behind it, of others
    first = first_end = 0
    second = second_end = room
    for n in range(room):
        if state.missing[n] == 0:
            if state.preferred[state.rows[state.numbers[n], NODE]] == state.numbers[n] + 1:
                state.queue[first_end] = n
                first_end += 1
            else:
                state.queue[second_end] = n
                second_end += 1
    while first < first_end or second < second_end:
        if first < first_end:
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
                if state.preferred[state.rows[state.numbers[user], NODE]] == state.numbers[user] + 1:
                    state.queue[first_end] = user
                    first_end += 1
                else:
                    state.queue[second_end] = user
                    second_end += 1
            use = state.nexts[user, (use - 1) % 3]


def perform(state: DefinitionsState) -> int:
    """Do what `mode` says; returns how many definitions there are."""
    if state.mode == ENTER:
        _index(state)
        _enter(state)
    elif state.mode == EXCESS:
        _find_excess(state)
    else:
        _choose(state)
    return state.count
