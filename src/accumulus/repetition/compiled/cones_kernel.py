"""Compiled passes over a tape that is cut into cones: long sums, forms, users, levels.

Each takes some tens of nanoseconds an operation.
"""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import NOTHING, Axes, Integers, State
from accumulus.native.words import bit, scattered, shifted_right, wrapped
from accumulus.tape.blocks import SUM
from accumulus.tape.operations import BY_NAME

#: Modes: take sums apart, cut deep cones, write forms, find users, levels, compare forms, steps.
SUMS, CUT, FORMS, USERS, LEVELS, COMPARE, STEPS = range(7)
#: Roles of a value: dead, an input or a part of a sum; inside a cone; root of a cone.
ABSENT, INSIDE, ROOT = range(3)
#: Words of an operation in a form: its code, and its three arguments: from 0 on operations of the form, -1 - k the leaf
#: k, from `LITERAL` on constants of the tape.
#: from `LITERAL` on constants of the tape.
WIDTH: Final = 4
LITERAL: Final = 1 << 40


class ConesState(State):
    """Operations of a tape, cut into cones."""

    mode: int = 0  # one of the modes above
    inputs: int = 0  # number of inputs of the tape
    count: int = 0  # number of references, inputs included
    codes: Integers = NOTHING  # operations by reference; `accumulus.tape.program.SUM` for sums of many terms
    # arguments by reference; for a sum of many terms, begin and end of its terms
    arguments: Annotated[Integers, Axes(3)] = NOTHING
    additive: Integers = NOTHING  # 1 for additions and subtractions that may be parts of long sums
    uses: Integers = NOTHING  # number of uses of each value
    least: int = 0  # least number of terms of a long sum
    sizes: Integers = NOTHING  # for SUMS, number of terms below each addition
    # owners, signs: for SUMS, the long sum that an addition is part of, from 1 on, and 1 if it is subtracted there
    owners: Integers = NOTHING
    signs: Integers = NOTHING
    sums: int = 0  # for SUMS, number of long sums
    term_count: int = 0  # for SUMS, total number of terms
    # term_owners, terms, term_signs, term_places: for SUMS, the long sum of each term, its reference, 1 if it is
    # subtracted, and the operation that adds it
    term_owners: Integers = NOTHING
    terms: Integers = NOTHING
    term_signs: Integers = NOTHING
    term_places: Integers = NOTHING
    roles: Integers = NOTHING  # role of each value
    deepest: int = 0  # for CUT, longest accepted path down a cone, in operations
    often: Integers = NOTHING  # for CUT, occurrences of each code on such a path; zero at first
    # by code, bits of the arguments at which constants belong to the form; from the fourth bit on, of those at which
    # special constants do
    literal: Integers = NOTHING
    special: Integers = NOTHING  # by constant, 1 if the tape simplifies operations on it
    commutative: Integers = NOTHING  # by code, 1 if the first two arguments may be exchanged
    arity: Integers = NOTHING  # by code
    # by reference, labels of leaves; at -1, counted from the end, the label of all constants
    labels: Integers = NOTHING
    hashes: Integers = NOTHING  # by reference, hash of the value inside its cone
    roots: Integers = NOTHING  # roots of all cones, in an order of computation
    root_count: int = 0  # their number
    # stamps, slots: by reference, the last cone with this leaf, from 1 on, and the leaf's number there
    stamps: Integers = NOTHING
    slots: Integers = NOTHING
    stack: Integers = NOTHING  # operations of a cone, and the words that refer to them
    words: Integers = NOTHING  # forms of all cones
    word_offsets: Integers = NOTHING  # begin of each form, and the end of the last
    leaves: Integers = NOTHING  # leaves of all cones: references
    leaf_offsets: Integers = NOTHING  # begin of each cone's leaves, and the end of the last
    forms: Integers = NOTHING  # hash of each cone's form
    marks: Annotated[Integers, Axes(2)] = NOTHING  # by reference, two words: users and positions, hashed
    levels: Integers = NOTHING  # by reference, level of each root
    representatives: Integers = NOTHING  # for COMPARE, a cone of the same class for each cone
    different: int = 0  # for COMPARE, number of cones that differ in form from their representative
    instances: Integers = NOTHING  # for STEPS, by reference, instance of a recurrence that a root is part of, or -1
    steps: Integers = NOTHING  # for STEPS, step of each instance


SUBTRACT: Final = BY_NAME["subtract"].code
#: Constants whose values do not matter have this hash.
CONSTANT: Final = 77


@compiled
def mixed(x: int, y: int) -> int:
    """Mix two words into one."""
    return scattered(wrapped(wrapped(x * 0x2545F4914F6CDD1D) + y + 1))


# Sums of many terms ------------------------------------------------------------------------------------------------


@compiled
def is_part(state: ConesState, x: int) -> bool:
    """Return True if a term is an addition that is used once."""
    if x < state.inputs:
        return False
    return bool(state.additive[x] != 0 and state.uses[x] == 1)


@compiled
def size_of(state: ConesState, x: int) -> int:
    """Return the number of terms of an addition's argument."""
    if is_part(state, x):
        size: int = state.sizes[x]
        return size
    return 1


@compiled
def _take(state: ConesState, x: int, r: int, sign: int) -> None:
    """Make an argument of an addition part of a sum, or one of its terms."""
    owner = state.owners[r]
    if is_part(state, x):
        state.owners[x] = owner
        state.signs[x] = sign
    else:
        t = state.term_count
        state.term_owners[t] = owner
        state.terms[t] = x
        state.term_signs[t] = sign
        state.term_places[t] = r
        state.term_count = t + 1


@compiled
def find_sums(state: ConesState) -> None:
    """Find maximal trees of additions with many terms; their terms are listed last first."""
    additive, sizes, owners, arguments = state.additive, state.sizes, state.owners, state.arguments
    for r in range(state.inputs, state.count):
        if additive[r] != 0:
            sizes[r] = size_of(state, arguments[r, 0]) + size_of(state, arguments[r, 1])
    for k in range(state.count - state.inputs):
        r = state.count - 1 - k
        if additive[r] == 0:
            continue
        if owners[r] == 0:
            if sizes[r] < state.least:
                continue
            state.sums += 1
            owners[r] = state.sums
            state.signs[r] = 0
        sign = state.signs[r]
        _take(state, arguments[r, 1], r, 1 - sign if state.codes[r] == SUBTRACT else sign)
        _take(state, arguments[r, 0], r, sign)


# Deep cones --------------------------------------------------------------------------------------------------------


@compiled
def height_of(state: ConesState, x: int) -> int:
    """Return the operations on the longest path down from an argument, inside of its cone."""
    if x < 0 or state.roles[x] != INSIDE:
        return 0
    height: int = state.levels[x]
    return height


@compiled
def below(state: ConesState, r: int) -> int:
    """Return the argument with the longest path down inside the cone; -1 if there is none."""
    best, highest = 0, -1
    for k in range(state.arity[state.codes[r]]):
        x = state.arguments[r, k]
        height = height_of(state, x)
        if height > best:
            best, highest = height, x
    return highest


@compiled
def cut_deep(state: ConesState) -> None:
    """Make roots of the rarest operation that recurs on the longest path down a deep cone."""
    codes, roles, often = state.codes, state.roles, state.often
    for r in range(state.inputs, state.count):
        if roles[r] == ABSENT or codes[r] == SUM:
            continue
        height = 0
        for k in range(state.arity[codes[r]]):
            height = max(height, height_of(state, state.arguments[r, k]))
        state.levels[r] = height + 1
    for r in range(state.inputs, state.count):
        if roles[r] != ROOT or codes[r] == SUM or state.levels[r] <= state.deepest:
            continue
        x, length = below(state, r), 0
        while x >= 0:
            often[codes[x]] += 1
            length += 1
            x = below(state, x)
        chosen = -1
        for code in range(256):
            # rare operations do not recur
            if 8 * often[code] >= length and (chosen < 0 or often[code] < often[chosen]):
                chosen = code
        x = below(state, r)
        while x >= 0:
            following = below(state, x)
            often[codes[x]] = 0
            if codes[x] == chosen:
                roles[x] = ROOT
            x = following


# Forms -------------------------------------------------------------------------------------------------------------


@compiled
def is_literal(state: ConesState, code: int, k: int, x: int) -> bool:
    """Return True if a constant as argument `k` belongs to the form."""
    bits = state.literal[code] >> k
    return bool(bits & 1 != 0 or (bits >> 3 & 1 != 0 and state.special[-1 - x] != 0))


@compiled
def _hash_of(state: ConesState, code: int, k: int, x: int) -> int:
    """Return the hash of an argument of an operation."""
    if x < 0:
        return mixed(x, 3) if is_literal(state, code, k, x) else CONSTANT
    if state.roles[x] == INSIDE:
        below: int = state.hashes[x]
        return below
    return mixed(state.labels[x], 5)


@compiled
def _exchanged(state: ConesState, r: int) -> bool:
    """Return True if the second argument of a commutative operation is taken first."""
    code, arguments = state.codes[r], state.arguments
    if state.commutative[code] == 0:
        return False
    first, second = _hash_of(state, code, 0, arguments[r, 0]), _hash_of(state, code, 1, arguments[r, 1])
    return bool(second < first)


@compiled
def argument(state: ConesState, r: int, k: int, turned: bool) -> int:
    """Return argument `k` of an operation, with the first two exchanged if `turned`."""
    x: int = state.arguments[r, 1 - k if turned and k < 2 else k]
    return x


@compiled
def find_hashes(state: ConesState) -> None:
    """Compute the hashes of values inside of cones, bottom up."""
    for r in range(state.inputs, state.count):
        if state.roles[r] != INSIDE:
            continue
        code, turned, x = state.codes[r], _exchanged(state, r), 0
        x = mixed(code, 9)
        for k in range(state.arity[code]):
            x = mixed(x, _hash_of(state, code, k, argument(state, r, k, turned)))
        state.hashes[r] = x


@compiled
def _leaf(state: ConesState, cone: int, x: int, count: int) -> int:
    """Return the number of a leaf in its cone, which has `count` leaves so far; constants are not shared."""
    begin = state.leaf_offsets[cone]
    if x >= 0:
        if state.stamps[x] == cone + 1:
            slot: int = state.slots[x]
            return slot
        state.stamps[x] = cone + 1
        state.slots[x] = count
    state.leaves[begin + count] = x
    return count


@compiled
def write_form(state: ConesState, cone: int) -> int:
    """Write the words and leaves of a cone; return a hash of its words and of the labels of its leaves."""
    words, stack, begin = state.words, state.stack, state.word_offsets[cone]
    at, leaves, depth, form = 0, 0, 1, 11
    stack[0] = state.roots[cone]
    stack[1] = -1
    while depth > 0:
        depth -= 1
        r, patch = stack[2 * depth], stack[2 * depth + 1]
        if patch >= 0:
            words[patch] = at
        code = state.codes[r]
        turned, first = _exchanged(state, r), begin + WIDTH * at
        words[first] = code
        form = mixed(form, code)
        pushed = 0
        for k in range(3):
            word = first + 1 + k
            words[word] = 0
            if k >= state.arity[code]:
                continue
            x = argument(state, r, k, turned)
            if x >= 0 and state.roles[x] == INSIDE:
                # the first argument comes to lie on top
                for j in range(pushed):
                    other = depth + pushed - j
                    stack[2 * other] = stack[2 * other - 2]
                    stack[2 * other + 1] = stack[2 * other - 1]
                stack[2 * depth] = x
                stack[2 * depth + 1] = word
                pushed += 1
                form = mixed(form, 1)
            elif x < 0 and is_literal(state, code, k, x):
                words[word] = LITERAL - 1 - x
                form = mixed(form, words[word])
            else:
                slot = _leaf(state, cone, x, leaves)
                words[word] = -1 - slot
                form = mixed(form, words[word])
                if slot == leaves:
                    leaves += 1
                    form = mixed(form, CONSTANT if x < 0 else state.labels[x])
        depth += pushed
        at += 1
    state.word_offsets[cone + 1] = begin + WIDTH * at
    state.leaf_offsets[cone + 1] = state.leaf_offsets[cone] + leaves
    return form


@compiled
def write_sum(state: ConesState, cone: int, r: int) -> int:
    """Write the form of a long sum: a set of labels of terms, without their number and order."""
    begin, at = state.word_offsets[cone], state.leaf_offsets[cone]
    low, high = 0, 0
    for t in range(state.arguments[r, 0], state.arguments[r, 1]):
        x = state.terms[t]
        state.leaves[at] = x
        at += 1
        key = mixed(CONSTANT if x < 0 else state.labels[x], 13)
        low |= bit(key & 63)
        high |= bit(shifted_right(key, 6) & 63)
    state.words[begin] = SUM
    for k in range(1, WIDTH):
        state.words[begin + k] = 0
    state.word_offsets[cone + 1] = begin + WIDTH
    state.leaf_offsets[cone + 1] = at
    return mixed(mixed(SUM, low), high)


@compiled
def write_forms(state: ConesState) -> None:
    """Write the words, leaves and hash of each cone."""
    find_hashes(state)
    for x in range(state.count):
        state.stamps[x] = 0
    state.word_offsets[0] = 0
    state.leaf_offsets[0] = 0
    for cone in range(state.root_count):
        r = state.roots[cone]
        state.forms[cone] = write_sum(state, cone, r) if state.codes[r] == SUM else write_form(state, cone)


# Cones and their users -----------------------------------------------------------------------------------------------


@compiled
def _find_users(state: ConesState) -> None:
    """Mark each leaf by the set of labels of cones that use it, with its position there."""
    offsets, marks = state.leaf_offsets, state.marks
    for cone in range(state.root_count):
        r = state.roots[cone]
        slots, label = 0 if state.codes[r] == SUM else 1, state.labels[r]
        for t in range(offsets[cone], offsets[cone + 1]):
            x = state.leaves[t]
            if x >= 0:
                key = mixed(label, slots * (t - offsets[cone]))
                marks[x, 0] |= bit(key & 63)
                marks[x, 1] |= bit(shifted_right(key, 6) & 63)


@compiled
def find_levels(state: ConesState) -> None:
    """Compute levels: 0 for inputs, else one more than the highest level among the operands of the cone."""
    offsets, levels = state.leaf_offsets, state.levels
    for cone in range(state.root_count):
        level = 0
        for t in range(offsets[cone], offsets[cone + 1]):
            x = state.leaves[t]
            if x >= 0:
                level = max(level, levels[x])
        levels[state.roots[cone]] = level + 1


@compiled
def _compare(state: ConesState) -> None:
    """Count cones that differ in form from their representative."""
    offsets, words = state.word_offsets, state.words
    for cone in range(state.root_count):
        other = state.representatives[cone]
        begin, its, length = offsets[cone], offsets[other], offsets[cone + 1] - offsets[cone]
        if offsets[other + 1] - its != length:
            state.different += 1
            continue
        for k in range(length):
            if words[begin + k] != words[its + k]:
                state.different += 1
                break


@compiled
def find_steps(state: ConesState) -> None:
    """Compute the step of each instance: the longest path of results back to the first instance."""
    offsets, instances, steps = state.leaf_offsets, state.instances, state.steps
    for cone in range(state.root_count):
        instance = instances[state.roots[cone]]
        if instance < 0:
            continue
        for t in range(offsets[cone], offsets[cone + 1]):
            x = state.leaves[t]
            if x >= 0:
                other = instances[x]
                if other >= 0 and other != instance:
                    steps[instance] = max(steps[instance], steps[other] + 1)


def run_cones(state: ConesState) -> int:
    """Run `mode`; return 0."""
    if state.mode == SUMS:
        find_sums(state)
    elif state.mode == CUT:
        cut_deep(state)
    elif state.mode == FORMS:
        write_forms(state)
    elif state.mode == USERS:
        _find_users(state)
    elif state.mode == LEVELS:
        find_levels(state)
    elif state.mode == STEPS:
        find_steps(state)
    else:
        _compare(state)
    return 0
