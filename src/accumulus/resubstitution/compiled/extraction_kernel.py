"""Compiled extraction: the acyclic choice of one definition for each value at which the roots cost the least.

Simulated annealing. A move gives a live value another of its definitions. Values that become live get a definition with
few dead arguments; values without uses die. A move takes about a microsecond.
"""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Axes, Floats, Integers, State
from accumulus.native.words import copy_many, random_bits, shifted_right

#: Largest number of definitions of a dead value that are considered.
LOOKS: Final = 6
#: Estimated cost of a dead argument.
DEAD: Final = 64
THRESHOLD_COUNT: Final = 1024
#: Largest number of dead values that a move revives.
DEEPEST: Final = 4


class ExtractionState(State):
    """Values, from 1 on, each with its candidate definitions and the chosen one.

    Values without definitions are inputs and numbers. A value is *live* if the roots are computed from it; each live
    value costs as much as its chosen definition.
    """

    # begin of the definitions of each value; value n ends where n + 1 begins, (values + 1,)
    firsts: Integers
    arguments: Annotated[Integers, Axes(3)]  # arguments of each definition; 0 for none
    prices: Integers  # of the definitions
    chosen: Integers  # definition of each value; 0 for a value without definitions
    uses: Integers  # number of uses of each value by live values, and as a root
    live: Integers  # the live values with definitions
    places: Integers  # position of each live value in that list
    live_count: int = 0  # their number
    marks: Integers  # marks: values that the last search visited have its number, `mark`
    mark: int = 0
    stack: Integers  # scratch memory of the search
    work: Integers  # stack of values that become live or die, four for each value
    revived: Integers  # values whose definition changes as they become live; previous ones in `before`
    before: Integers
    thresholds: Floats  # -ln of probabilities that are spread evenly, (THRESHOLD_COUNT,)
    random: Integers  # state of the generator, (1,)
    visits: int = 0  # moves to try in a call
    # and its factor for each visit
    temperature: float = 0.0
    cooling: float = 0.0
    cost: int = 0  # cost of all live values
    best: int = 0  # least cost so far; its definitions are in `best_chosen`
    best_chosen: Integers
    count: int  # number of values, 0 included


@compiled
def _pick(state: ExtractionState, count: int) -> int:
    """Return a random number below a bound."""
    return (shifted_right(random_bits(state.random), 32) * count) >> 32


@compiled
def _is_given(state: ExtractionState, n: int) -> bool:
    """Return True if a value has no definition."""
    is_undefined: bool = state.firsts[n] == state.firsts[n + 1]
    return is_undefined


@compiled
def _is_dead(state: ExtractionState, n: int) -> bool:
    """Return True if a value has definitions and no uses; False for 0, the missing argument."""
    return n != 0 and state.uses[n] == 0 and not _is_given(state, n)


@compiled
def _reaches(state: ExtractionState, start: int, goal: int) -> bool:
    """Return True if a value depends on another."""
    if start == goal:
        return True
    marks, stack, mark = state.marks, state.stack, state.mark
    if start == 0 or marks[start] == mark or _is_given(state, start):
        return False
    marks[start] = mark
    stack[0] = start
    height = 1
    while height:
        height -= 1
        definition = state.chosen[stack[height]]
        for k in range(3):
            n = state.arguments[definition, k]
            if n == goal:
                return True
            if n != 0 and marks[n] != mark and not _is_given(state, n):
                marks[n] = mark
                stack[height] = n
                height += 1
    return False


@compiled
def _is_circular(state: ExtractionState, n: int, definition: int) -> bool:
    """Return True if a definition depends on its own value."""
    state.mark += 1
    reaches = False
    for k in range(3):
        reaches = reaches or _reaches(state, state.arguments[definition, k], n)
    return reaches


@compiled
def _push_arguments(state: ExtractionState, definition: int, height: int) -> int:
    """Push the arguments of a definition onto the work stack; return its new height."""
    for k in range(3):
        state.work[height + k] = state.arguments[definition, k]
    return height + 3


@compiled
def _change_uses(state: ExtractionState, definition: int, by: int) -> None:
    """Add `by` (1 or -1) to the uses of a definition's arguments, and of values that become live or die with them."""
    work = state.work
    height = _push_arguments(state, definition, 0)
    while height:
        height -= 1
        n = work[height]
        if n == 0 or _is_given(state, n):
            continue
        before = state.uses[n]
        state.uses[n] = before + by
        if before != 0 and before + by != 0:
            continue
        definition_of_n = state.chosen[n]
        state.cost += by * state.prices[definition_of_n]
        if by > 0:
            state.live[state.live_count] = n
            state.places[n] = state.live_count
            state.live_count += 1
        else:
            state.live_count -= 1
            last = state.live[state.live_count]
            state.live[state.places[n]] = last
            state.places[last] = state.places[n]
        height = _push_arguments(state, definition_of_n, height)


@compiled
def _redefine(state: ExtractionState, n: int, definition: int) -> None:
    """Give a live value another definition."""
    old = state.chosen[n]
    state.chosen[n] = definition
    state.cost += state.prices[definition] - state.prices[old]
    _change_uses(state, definition, 1)
    _change_uses(state, old, -1)


@compiled
def _promising(state: ExtractionState, n: int, target: int) -> int:
    """Return the definition of a dead value with the fewest dead arguments for its price; ties are broken at random."""
    first = state.firsts[n]
    count = state.firsts[n + 1] - first
    best: int = state.chosen[n]
    least = 1 << 40
    for look in range(min(count, LOOKS)):
        definition = first + (look if count <= LOOKS else _pick(state, count))
        cost = (state.prices[definition] << 4) + _pick(state, 16)
        for k in range(3):
            argument = state.arguments[definition, k]
            if argument == target:
                cost += 1 << 30
            elif _is_dead(state, argument):
                cost += DEAD << 4
        if cost < least:
            best, least = definition, cost
    return best


@compiled
def _prepare(state: ExtractionState, target: int, definition: int) -> int:
    """Choose definitions for the dead values that a definition needs; return their number n, or -n - 1 if too many."""
    work = state.work
    height = count = 0
    for k in range(3):
        if _is_dead(state, state.arguments[definition, k]):
            work[height] = state.arguments[definition, k]
            height += 1
    while height:
        height -= 1
        n = work[height]
        is_revived = False
        for k in range(count):
            is_revived = is_revived or state.revived[k] == n
        if is_revived:
            continue
        if count == DEEPEST:
            return -count - 1
        state.revived[count] = n
        state.before[count] = state.chosen[n]
        count += 1
        state.chosen[n] = _promising(state, n, target)
        for k in range(3):
            argument = state.arguments[state.chosen[n], k]
            if _is_dead(state, argument):
                work[height] = argument
                height += 1
    return count


@compiled
def _take_back(state: ExtractionState, count: int) -> None:
    """Restore the previous definitions of revived values."""
    for k in range(count):
        state.chosen[state.revived[k]] = state.before[k]


@compiled
def _move(state: ExtractionState, limit: float) -> None:
    """Try another definition for a live value; keep it if the cost increases by at most the limit."""
    n = state.live[_pick(state, state.live_count)]
    first = state.firsts[n]
    count = state.firsts[n + 1] - first
    if count < 2:
        return
    definition, old = first + _pick(state, count), state.chosen[n]
    if definition == old:
        return
    revived = _prepare(state, n, definition)
    if revived < 0:
        _take_back(state, -revived - 1)
        return
    circular = _is_circular(state, n, definition)
    for k in range(revived):
        circular = circular or _is_circular(state, state.revived[k], state.chosen[state.revived[k]])
    if circular:
        _take_back(state, revived)
        return
    before = state.cost
    _redefine(state, n, definition)
    if state.cost - before > limit:
        _redefine(state, n, old)
        _take_back(state, revived)
    elif state.cost < state.best:
        state.best = state.cost
        copy_many(state.best_chosen, state.chosen, state.count)


def run_extraction(state: ExtractionState) -> int:
    """Try `visits` moves; return 0."""
    temperature, cooling = state.temperature, state.cooling
    for _ in range(state.visits):
        if state.live_count == 0:
            break
        temperature *= cooling
        _move(state, temperature * state.thresholds[_pick(state, THRESHOLD_COUNT)])
    state.temperature = temperature
    return 0
