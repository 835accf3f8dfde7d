"""Compiled rewriting of a program: nodes that change what they are computed from, never what they are.

A *node* is a value of the program: an input, a constant, an operation on other nodes, or an output. An *argument*
is the number of a node, negative if its negative is meant; the value of a node is its sign times the operation on its
arguments. Signs are free while the search lasts: sums absorb them, products hand them on, and what is left is settled
when the program is written down again (`accumulus.rewriting.network`).

A node keeps its value for life. A move gives it another definition, made of nodes that it depended on before:
terms of a sum paired anew, a common factor taken out, a product distributed, a quotient split. Nodes are interned by
their definitions, so a move that arrives at what another node computes merges both, and everything above that becomes
equal. Nodes without uses die, and stop costing; that is how moves win.

Every write is logged, and a move that is not accepted is undone. A move takes about a microsecond. No allocation, no
GIL.

Nodes are found, made, used and merged in `rewrite_nodes`; the moves are in `rewrite_moves`.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import undo
from accumulus.rewriting.compiled.rewrite_moves import (
    combine_terms,
    common_factor,
    distribute,
    gather,
    leaf,
    pair_factors,
    pair_terms,
    pick,
    rebuild,
    select_outside,
    select_within,
    split_quotient,
)
from accumulus.rewriting.compiled.rewrite_nodes import build, define, keep, make_sum, pop, renew, settle
from accumulus.rewriting.compiled.rewrite_state import BUILD, KEEP, SWEEP, THRESHOLD_COUNT, RewriteState
from accumulus.tape.operations import BY_NAME

__all__ = ["anneal"]

ADD: Final = BY_NAME["add"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
SELECT: Final = BY_NAME["select"].code

#: Nodes for each move that come between two bests that are kept.
SELDOM: Final = 16


@compiled
def move(state: RewriteState, n: int) -> int:
    """Another way to compute a node: a value, or 0."""
    code = state.codes[n]
    if code == SELECT:
        return select_outside(state, n)
    sums = code == ADD
    if state.choices and pick(state, 48) == 0:
        return select_within(state, n)
    kind = pick(state, 16)
    if sums and kind == 0 and pick(state, 2):
        return combine_terms(state, n)
    count = gather(state, state.tree, n, sums)
    if count == 3:  # two terms or factors make one pair: there is nothing to try but identities
        if sums and 7 <= kind < 14:
            kind = 0
        if not sums and kind < 8:
            kind = 15
    if sums:
        if kind < 7:
            return common_factor(state, count)
        if kind < 11:
            return pair_terms(state, count, True)
        if kind < 15:
            return pair_terms(state, count, False)
        i = leaf(state, state.tree, count)
        factors = gather(state, state.part, state.tree[i].node, False)
        if not distribute(state, state.part, factors):
            return 0
        sign = state.tree[i].sign
        state.tree[i].removed = 1
        rest = rebuild(state, state.tree, count, True)
        rest = make_sum(state, rest, pop(state) * sign)
        return make_sum(state, rest, pop(state) * sign)
    if kind < 6:
        return pair_factors(state, count, True)
    if kind < 12:
        return pair_factors(state, count, False)
    if kind < 14:
        return split_quotient(state, count)
    if not distribute(state, state.tree, count):
        return 0
    a = pop(state)
    return make_sum(state, a, pop(state))


def anneal(state: RewriteState) -> int:
    """Try as many moves as `visits` says; those that cost more than chance allows are undone. Returns 0.

    Under SWEEP nodes are taken in turn, from `at` on, and only moves that win are accepted. Under KEEP no move is
    tried: the program as it is becomes the best if it is. Under BUILD it is read.
    """
    if state.mode == BUILD:
        build(state)
        return 0
    if state.mode == KEEP:
        if state.cost < state.best:
            keep(state)
        return 0
    temperature, cooling = state.temperature, state.cooling
    sweep = state.mode == SWEEP
    for _ in range(state.visits):
        if state.next + 600 > state.node_limit:
            break
        state.unkept += 1
        if sweep:
            n = state.at
            state.at = n + 1 if n + 1 < state.next else 1
        else:
            n = 1 + pick(state, state.next - 1)
        temperature *= cooling
        if state.uses[n] == 0 or state.frozen[n]:
            continue
        code = state.codes[n]
        if code not in (ADD, MULTIPLY, DIVIDE, SELECT):
            continue
        state.tried += 1
        cost = state.cost
        state.target = n
        state.failed = 0
        state.stacked = 0
        v = move(state, n)
        # trees are rebuilt with the sign of the root, products gather without it
        accepted = False
        if v != 0 and abs(v) != n and not state.failed:
            state.target = 0
            state.changed += 1
            define(state, n, v)
            renew(state)
            limit = 0.0
            if not sweep:
                limit = temperature * state.thresholds[pick(state, THRESHOLD_COUNT)]
            change = state.cost - cost
            accepted = not state.failed and (change <= limit if not sweep else change < 0)
        if accepted:
            state.accepted += 1
            settle(state)
            # keeping takes time in proportion to the nodes, so not after each move of a large program
            if not sweep and state.cost < state.best and SELDOM * state.unkept >= state.next:
                keep(state)
        else:
            undo(state, 0)
            state.cost = cost
            state.touched_count = 0
            state.queue_count = 0
    state.temperature = temperature
    return 0
