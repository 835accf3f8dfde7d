"""Who uses which node: nodes live while they are used, get other definitions, and are merged where they are equal."""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import logged
from accumulus.rewriting.compiled.rewrite_nodes import lookup, make, sign_of, take_out, touch
from accumulus.rewriting.compiled.rewrite_state import CONSTANT, OUTPUT, RewriteState
from accumulus.tape.operations import BY_NAME

__all__ = ["define", "hold", "pop", "push", "renew", "settle"]

INPUT: Final = BY_NAME["input"].code
ADD: Final = BY_NAME["add"].code
MULTIPLY: Final = BY_NAME["multiply"].code


@compiled
def link(state: RewriteState, place: int, m: int) -> None:
    """Enter the argument at a place among the uses of a node."""
    written, head = logged(state), state.heads[m]
    written.nexts[place] = head
    written.previous[place] = 0
    if head:
        written.previous[head] = place
    written.heads[m] = place


@compiled
def unlink(state: RewriteState, place: int, m: int) -> None:
    """Take the argument at a place out of the uses of a node."""
    before, after = state.previous[place], state.nexts[place]
    if before:
        logged(state).nexts[before] = after
    else:
        logged(state).heads[m] = after
    if after:
        logged(state).previous[after] = before


@compiled
def push(state: RewriteState, n: int) -> None:
    """Put a node on the stack."""
    state.stack[state.stacked] = n
    state.stacked += 1


@compiled
def pop(state: RewriteState) -> int:
    """Take a node from the stack."""
    state.stacked -= 1
    n: int = state.stack[state.stacked]
    return n


@compiled
def fuse(state: RewriteState, n: int) -> None:
    """Let a sum take up a product that nothing else uses, if it has one; for when arguments or their uses change."""
    found = 0
    for k in range(2):
        m = abs(state.arguments[n, k])
        if state.codes[m] == MULTIPLY and state.uses[m] == 1:
            found = 1
    was = state.fused[n]
    if found != was:
        logged(state).fused[n] = found
        state.cost += (was - found) * state.credit


@compiled
def release(state: RewriteState, n: int) -> None:
    """A node is no sum any more, or dies: it takes up nothing."""
    if state.fused[n]:
        logged(state).fused[n] = 0
        state.cost += state.credit


@compiled
def fuse_users(state: RewriteState, m: int, most: int) -> None:
    """Look again at the sums among the users of a node, so many at most, for what they take up."""
    place = state.heads[m]
    while place and most:
        user = place // 3
        if state.codes[user] == ADD and state.uses[user]:
            fuse(state, user)
        place = state.nexts[place]
        most -= 1


@compiled
def recounted(state: RewriteState, m: int) -> None:
    """Look again at the sums that use a product, when it has come to one use or to two."""
    if state.credit and state.codes[m] == MULTIPLY:
        fuse_users(state, m, 2)


@compiled
def use(state: RewriteState, m: int) -> None:
    """One use more; a node that had none goes to the stack, to be brought to life."""
    uses = state.uses[m]
    logged(state).uses[m] = uses + 1
    if uses == 0:
        push(state, m)
    else:
        recounted(state, m)


@compiled
def leave(state: RewriteState, m: int) -> None:
    """One use less; a node that has none left goes to the stack, to die."""
    uses = state.uses[m] - 1
    logged(state).uses[m] = uses
    if uses == 0:
        push(state, m)
    else:
        recounted(state, m)


@compiled
def hold(state: RewriteState, n: int) -> None:
    """One use more; the first one brings a node, and what it needs, to life."""
    base = state.stacked
    use(state, n)
    while state.stacked > base:
        p = pop(state)
        code = state.codes[p]
        state.cost += state.weights[code]
        for k in range(state.arities[code]):
            m = abs(state.arguments[p, k])
            link(state, 3 * p + k, m)
            use(state, m)
        if code == ADD and state.credit:
            fuse(state, p)


@compiled
def drop(state: RewriteState, n: int) -> None:
    """One use less; without uses a node dies, and with it what only it needed."""
    base = state.stacked
    leave(state, n)
    while state.stacked > base:
        p = pop(state)
        code = state.codes[p]
        state.cost -= state.weights[code]
        release(state, p)
        take_out(state, p)
        touch(state, p)
        for k in range(state.arities[code]):
            m = abs(state.arguments[p, k])
            unlink(state, 3 * p + k, m)
            leave(state, m)


@compiled
def merge(state: RewriteState, n: int, v: int) -> None:
    """Let all uses of a node use another value, that is as large, and the users wait to be renewed."""
    m = abs(v)
    uses = state.uses[n]
    if state.logged + 200 * uses + 2_000 > state.log_limit:
        state.failed = 1
        return
    hold(state, m)
    while True:
        place = state.heads[n]
        if place == 0:
            break
        user = place // 3
        code = state.codes[user]
        if code != OUTPUT and not state.queued[user]:
            take_out(state, user)
            logged(state).queued[user] = 1
            state.queue[state.queue_count] = user
            state.queue_count += 1
        unlink(state, place, n)
        k = place - 3 * user
        logged(state).arguments[user, k] = sign_of(state.arguments[user, k]) * v
        link(state, place, m)
        logged(state).uses[m] = state.uses[m] + 1
        if state.credit and code == ADD:
            fuse(state, user)
        if state.uses[n] > 1:
            logged(state).uses[n] = state.uses[n] - 1
    drop(state, n)
    drop(state, m)
    recounted(state, m)


@compiled
def define(state: RewriteState, n: int, v: int) -> None:
    """Let a node be computed as the value v is: by its definition if v is new, else v takes its place everywhere."""
    m, sign = abs(v), sign_of(v)
    if m == n:
        return
    code = state.codes[m]
    if state.uses[m] or code in (INPUT, CONSTANT):
        merge(state, n, v)
        return
    take_out(state, n)
    take_out(state, m)
    old = state.codes[n]
    arguments = state.arguments
    a, b, c = arguments[n, 0], arguments[n, 1], arguments[n, 2]
    for k in range(state.arities[old]):
        unlink(state, 3 * n + k, abs(arguments[n, k]))
    state.cost += state.weights[code] - state.weights[old]
    release(state, n)
    logged(state).codes[n] = code
    logged(state).signs[n] = sign * state.signs[m]
    for k in range(3):
        logged(state).arguments[n, k] = arguments[m, k]
    for k in range(state.arities[code]):
        argument = abs(arguments[m, k])
        link(state, 3 * n + k, argument)
        hold(state, argument)
    place = lookup(state, code, arguments[n, 0], arguments[n, 1], arguments[n, 2])
    if place < 0:
        logged(state).table[-place - 1] = n
    arity = state.arities[old]
    if arity > 0:
        drop(state, abs(a))
    if arity > 1:
        drop(state, abs(b))
    if arity > 2:
        drop(state, abs(c))
    if state.credit:
        if code == ADD:
            fuse(state, n)
        # what uses n may take it up now, or no longer
        fuse_users(state, n, state.uses[n])


@compiled
def renew(state: RewriteState) -> None:
    """Bring the nodes whose arguments have changed into normal form, and merge those that have become equal."""
    while state.queue_count > 0 and not state.failed:
        state.queue_count -= 1
        n = state.queue[state.queue_count]
        logged(state).queued[n] = 0
        if state.uses[n] == 0:
            continue
        a, b, c = state.arguments[n, 0], state.arguments[n, 1], state.arguments[n, 2]
        v = make(state, state.codes[n], a, b, c)
        define(state, n, v * state.signs[n])


@compiled
def settle(state: RewriteState) -> None:
    """After an accepted move: free the numbers of nodes without uses."""
    for t in range(state.touched_count):
        n = state.touched[t]
        if state.uses[n] == 0 and state.freed[n] == 0:
            take_out(state, n)
            state.freed[n] = 1
            state.free[state.free_count] = n
            state.free_count += 1
    state.touched_count = 0
    state.logged = 0
