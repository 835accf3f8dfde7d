"""Compiled work on definitions: each once in a table, what rounding does to them, and a choice without circles.

And arithmetic of a tape at real points, with first-order bounds on the error of each value: sums, products, quotients,
changes of sign and choices; at the first operation that is none of these it hands back. About two nanoseconds an
operation and point.
"""

from __future__ import annotations

import math
from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import definition_hash
from accumulus.resubstitution.compiled.states import (
    BOUNDED,
    CODE,
    COPY,
    ENTER,
    EXCESS,
    FIRST,
    NODE,
    SECOND,
    SIGN,
    THIRD,
    WIDTH,
    BoundsState,
    DefinitionsState,
)
from accumulus.tape.operations import BY_NAME

__all__ = ["perform_bounds", "perform_definitions"]

# Values with bounds on their errors ----------------------------------------------------------------------------------

ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
NEGATIVE: Final = BY_NAME["negative"].code
SELECT: Final = BY_NAME["select"].code


@compiled
def _place(state: BoundsState, reference: int) -> int:
    """Where the values of a reference begin."""
    return (reference if reference >= 0 else reference + state.places) * state.points


@compiled
def _run_arithmetic(state: BoundsState, r: int, code: int) -> None:
    """A sum, difference, product, quotient or change of sign at all points."""
    own, first, second = _place(state, r), _place(state, state.rows[r, 1]), _place(state, state.rows[r, 2])
    values = state.values
    for p in range(state.points):
        x, y = values[first + p], values[second + p]
        if code == ADD:
            values[own + p] = x + y
        elif code == SUBTRACT:
            values[own + p] = x - y
        elif code == MULTIPLY:
            values[own + p] = x * y
        elif code == DIVIDE:
            values[own + p] = x / y
        else:
            values[own + p] = -x
        if abs(values[own + p]) > state.largest:
            values[own + p] = math.inf if values[own + p] > 0.0 else -math.inf


@compiled
def _times(size: float, error: float) -> float:
    """What a factor makes of an error: nothing of one that is unbounded, if it is 0 itself."""
    return 0.0 if size == 0.0 or error == 0.0 else size * error


@compiled
def _bound_arithmetic(state: BoundsState, r: int, code: int) -> None:
    """Bounds of one of these, once its values are there."""
    own, first, second = _place(state, r), _place(state, state.rows[r, 1]), _place(state, state.rows[r, 2])
    values, errors = state.values, state.errors
    for p in range(state.points):
        size, by_first, by_second = abs(values[own + p]), errors[first + p], errors[second + p]
        if code == MULTIPLY:
            of_first, of_second = _times(abs(values[second + p]), by_first), _times(abs(values[first + p]), by_second)
            errors[own + p] = of_second + of_first + size
        elif code == DIVIDE:
            errors[own + p] = (by_first + size * by_second) / abs(values[second + p]) + size
        elif code == NEGATIVE:
            errors[own + p] = by_first
        else:
            errors[own + p] = by_first + by_second + size
        if size > state.largest:
            errors[own + p] = math.inf
        elif 0.0 < size < state.smallest:
            errors[own + p] += state.smallest


@compiled
def _choose_value(state: BoundsState, r: int) -> None:
    """One of two values, by a third, at all points."""
    own, condition = _place(state, r), _place(state, state.rows[r, 1])
    first, second = _place(state, state.rows[r, 2]), _place(state, state.rows[r, 3])
    for p in range(state.points):
        taken = (first if state.values[condition + p] != 0.0 else second) + p
        state.values[own + p] = state.values[taken]
        if state.mode == BOUNDED:
            state.errors[own + p] = state.errors[taken]


def perform_bounds(state: BoundsState) -> int:
    """Run operations from `begin` on; returns the first that is left, `end` if there is none."""
    for r in range(state.begin, state.end):
        code = state.rows[r, 0]
        if code in (ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE):
            _run_arithmetic(state, r, code)
            if state.mode == BOUNDED:
                _bound_arithmetic(state, r, code)
        elif code == SELECT:
            _choose_value(state, r)
        else:
            return r
    return state.end


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
        bound = _times(abs(x), by_second) + _times(abs(y), by_first) + abs(v)
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


def perform_definitions(state: DefinitionsState) -> int:
    """Do what `mode` says; returns how many definitions there are."""
    if state.mode == ENTER:
        _index(state)
        _enter(state)
    elif state.mode == EXCESS:
        _find_excess(state)
    else:
        _choose(state)
    return state.count
