"""Compiled rewriting of a program: moves change the definitions of nodes, and never their values.

A *node* is a value of the program: an input, a constant, an operation on other nodes, or an output. An *argument*
is the number of a node, negative if its negative is meant; the value of a node is its sign times the operation on its
arguments. Signs are free while the search lasts: sums absorb them, products hand them on, and what is left is settled
when the program is written down again (`accumulus.rewriting.optimise`).

A node keeps its value for life. A move gives it another definition, made of nodes that it depended on before:
terms of a sum paired anew, a common factor taken out, a product distributed, a quotient split. Nodes are interned by
their definitions, so a move that arrives at what another node computes merges both, and everything above that becomes
equal. Nodes without uses die, and stop costing; that is how moves win.

Every write is logged, and a move that is not accepted is undone. A move takes about a microsecond. No allocation, no
GIL.

Nodes are found, made, used and merged in `rewrite_nodes`. Sums and products are moved as trees.
"""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Records
from accumulus.native.words import random_bits, shifted_right, undo
from accumulus.rewriting.compiled.rewrite_nodes import (
    BUILD,
    CONSTANT,
    KEEP,
    ONE,
    SWEEP,
    TERM_COUNT,
    THRESHOLD_COUNT,
    TREE_SIZE,
    ZERO,
    LinearTerm,
    RewriteState,
    TreeEntry,
    build_nodes,
    constant_node,
    define,
    is_constant_node,
    keep_program,
    lookup,
    make_choice,
    make_node,
    make_product,
    make_quotient,
    make_sum,
    number_product,
    number_sum,
    place_of,
    pop,
    push,
    renew,
    settle,
    sign_of,
)
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, SELECT

#: Largest number of uses of a node that are searched for a pair computed elsewhere.
LOOK: Final = 24


@compiled
def pick(state: RewriteState, bound: int) -> int:
    """Return a random number below a bound."""
    return (shifted_right(random_bits(state.random), 24) & 0xFFFFFFFF) * bound >> 32


@compiled
def looked_into(state: RewriteState) -> bool:
    """Decide at random if a sum or product that is used elsewhere is opened, too."""
    return (shifted_right(random_bits(state.random), 20) & 1023) < state.inline


@compiled
def enter(entry: TreeEntry, n: int, sign: int) -> None:
    """Make an entry a leaf of a tree."""
    entry.node = n
    entry.sign = sign
    entry.left = -1
    entry.removed = 0


@compiled
def gather(state: RewriteState, tree: Records[TreeEntry], root: int, sums: bool) -> int:
    """Write the terms of a sum, or the factors of a product, as the leaves of a tree; return its number of entries.

    A term has its sign in the sum; a factor has -1 if it divides. Terms and factors that are used elsewhere are
    sometimes opened, too.
    """
    count = 1
    enter(tree[0], root, 1)
    index = 0
    while index < count and count + 2 <= TREE_SIZE:
        entry = tree[index]
        n = entry.node
        code = state.codes[n]
        if (code == ADD) if sums else (code in (MULTIPLY, DIVIDE)):
            opened = index == 0 or state.uses[n] == 1
            if not opened and state.inline:
                opened = looked_into(state)
            if opened:
                a, b = state.arguments[n, 0], state.arguments[n, 1]
                sign = entry.sign
                if sums:
                    sign *= state.signs[n]
                    enter(tree[count], abs(a), sign * sign_of(a))
                    enter(tree[count + 1], abs(b), sign * sign_of(b))
                else:
                    enter(tree[count], abs(a), sign)
                    enter(tree[count + 1], abs(b), -sign if code == DIVIDE else sign)
                entry.left = count
                entry.right = count + 1
                count += 2
        index += 1
    return count


@compiled
def rebuild(state: RewriteState, tree: Records[TreeEntry], count: int, sums: bool) -> int:
    """Return the value of the root without the removed leaves; unchanged subtrees are kept."""
    neutral = ZERO if sums else ONE
    for index in range(count - 1, -1, -1):
        entry = tree[index]
        n = entry.node
        value = n
        if entry.removed:
            value = neutral
        elif entry.left >= 0:
            left, right = tree[entry.left], tree[entry.right]
            a, b = left.value, right.value
            if a != left.node or b != right.node:
                x, y = state.arguments[n, 0], state.arguments[n, 1]
                value = make_node(state, state.codes[n], sign_of(x) * a, sign_of(y) * b, 0) * state.signs[n]
        entry.value = value
    return tree[0].value


@compiled
def leaf(state: RewriteState, tree: Records[TreeEntry], count: int) -> int:
    """Return a random leaf that was not removed, or -1."""
    start = pick(state, count)
    for t in range(count):
        index = start + t
        if index >= count:
            index -= count
        if tree[index].left < 0 and not tree[index].removed:
            return index
    return -1


@compiled
def partner(state: RewriteState, tree: Records[TreeEntry], count: int, i: int, sums: bool) -> int:
    """Return a leaf that the leaf i is paired with elsewhere, or -1."""
    x, sign = tree[i].node, tree[i].sign
    use = state.heads[x]
    for _ in range(pick(state, 4)):
        if use:
            use = state.nexts[use]
    looked = 0
    while use and looked < LOOK:
        looked += 1
        user = use // 3
        code = state.codes[user]
        if (code == ADD) if sums else (code in (MULTIPLY, DIVIDE)):
            k = use - 3 * user
            mine, other = state.arguments[user, k], state.arguments[user, 1 - k]
            y = abs(other)
            relative = -1 if code == DIVIDE or (sums and (mine < 0) != (other < 0)) else 1
            for j in range(count):
                if j != i and tree[j].left < 0 and tree[j].node == y and tree[j].sign * sign == relative:
                    return j
        use = state.nexts[use]
    return -1


@compiled
def signed_value(entry: TreeEntry) -> int:
    """Return the value that a term of a sum contributes."""
    return entry.node * entry.sign


@compiled
def multiplied(state: RewriteState, a: int, b: int) -> int:
    """Return a · b; a reciprocal that nothing else uses becomes a division."""
    for _ in range(2):
        m = abs(b)
        new = state.uses[m] == 0
        if new and state.codes[m] == DIVIDE and state.arguments[m, 0] == ONE:
            sign: int = state.signs[m]
            return make_quotient(state, a, state.arguments[m, 1]) * sign_of(b) * sign
        a, b = b, a
    return make_product(state, a, b)


@compiled
def product_of(state: RewriteState, a: int, b: int) -> int:
    """Return a · b by an identity, or 0: (x + y) · (x - y)."""
    if state.codes[a] != ADD or state.codes[b] != ADD:
        return 0
    x, y = state.arguments[a, 0], state.arguments[a, 1]
    sign: int = state.signs[a] * state.signs[b]
    # the first argument of a sum has no sign
    if state.arguments[b, 0] != x or state.arguments[b, 1] != -y:
        return 0
    y = abs(y)
    square = make_product(state, x, x)
    return sign * make_sum(state, square, -make_product(state, y, y))


@compiled
def pair_factors(state: RewriteState, count: int, guided: bool) -> int:
    """Multiply or divide two factors of a product first."""
    i = leaf(state, state.tree, count)
    state.tree[i].removed = 1
    j = partner(state, state.tree, count, i, False) if guided else leaf(state, state.tree, count)
    if j < 0:
        return 0
    state.tree[j].removed = 1
    rest = rebuild(state, state.tree, count, False)
    x, y = state.tree[i].node, state.tree[j].node
    above, below = state.tree[i].sign > 0, state.tree[j].sign < 0
    if above != below:
        pair = product_of(state, x, y) if pick(state, 2) else 0
        if pair == 0:
            pair = make_product(state, x, y)
        return multiplied(state, pair, rest) if above else make_quotient(state, rest, pair)
    if above:
        return multiplied(state, make_quotient(state, x, y), rest)
    return multiplied(state, make_quotient(state, y, x), rest)


@compiled
def split_quotient(state: RewriteState, count: int) -> int:
    """Compute the reciprocal of a divisor by itself."""
    i = leaf(state, state.tree, count)
    if state.tree[i].sign > 0:
        return 0
    state.tree[i].removed = 1
    rest = rebuild(state, state.tree, count, False)
    x = state.tree[i].node
    return make_product(state, rest, make_quotient(state, ONE, x))


@compiled
def distribute(state: RewriteState, tree: Records[TreeEntry], count: int) -> bool:
    """Multiply out a sum among the factors of a product: push two terms onto the stack; return 0 if there is none.

    Sums with a number are kept: x - 1 is often exact where its terms times a factor are not, and numbers that have
    been added to others cannot be separated again.
    """
    i = leaf(state, tree, count)
    n = tree[i].node
    if tree[i].sign < 0 or state.codes[n] != ADD:
        return False
    x, y = state.arguments[n, 0], state.arguments[n, 1]
    if is_constant_node(state, x) or is_constant_node(state, y):
        return False
    tree[i].removed = 1
    rest = rebuild(state, tree, count, False) * state.signs[n]
    push(state, multiplied(state, x, rest))
    push(state, multiplied(state, y, rest))
    return True


SIN: Final = BY_NAME["sin"].code
COS: Final = BY_NAME["cos"].code


@compiled
def square_root_in(state: RewriteState, a: int) -> int:
    """Return the node whose square the value is; 1 for the number 1, 0 for none."""
    if a == ONE:
        return ONE
    if state.codes[a] != MULTIPLY:
        return 0
    x: int = state.arguments[a, 0]
    return x if x == state.arguments[a, 1] else 0


@compiled
def sum_of(state: RewriteState, a: int, b: int) -> int:
    """Return a + b by an identity, or 0: squares of sine and cosine, and differences of squares."""
    m, n = abs(a), abs(b)
    x, y = square_root_in(state, m), square_root_in(state, n)
    if x == 0 or y == 0:
        return 0
    sign_a: int = sign_of(a) * state.signs[m]
    sign_b = sign_of(b) * state.signs[n]
    code_x, code_y = state.codes[x], state.codes[y]
    if sign_a == sign_b:
        angles = (code_x == SIN and code_y == COS) or (code_x == COS and code_y == SIN)
        same = state.arguments[x, 0] == state.arguments[y, 0]
        return sign_a * ONE if angles and same else 0
    for _ in range(2):
        if x == ONE and code_y in (SIN, COS):  # 1 - sin² is cos²
            other = lookup(state, COS if code_y == SIN else SIN, state.arguments[y, 0], 0, 0)
            if other > 0:
                return sign_a * make_product(state, other, other)
        x, y, code_x, code_y, sign_a = y, x, code_y, code_x, -sign_a
    plus = make_sum(state, x, y)
    return sign_a * make_product(state, plus, make_sum(state, x, -y))


@compiled
def pair_terms(state: RewriteState, count: int, guided: bool) -> int:
    """Add two terms of a sum first."""
    i = leaf(state, state.tree, count)
    state.tree[i].removed = 1
    j = partner(state, state.tree, count, i, True) if guided else leaf(state, state.tree, count)
    if j < 0:
        return 0
    state.tree[j].removed = 1
    rest = rebuild(state, state.tree, count, True)
    a, b = signed_value(state.tree[i]), signed_value(state.tree[j])
    pair = 0
    if pick(state, 2):
        pair = sum_of(state, a, b)
    if pair == 0:
        pair = make_sum(state, a, b)
    return make_sum(state, pair, rest)


@compiled
def lacks(state: RewriteState, n: int, x: int, side: int) -> bool:
    """Return True if a term obviously lacks a factor, or a divisor if the side is -1.

    Most terms are no products, or products of two nodes that are none; gathering their trees would take longer.
    """
    code = state.codes[n]
    if code not in (MULTIPLY, DIVIDE):
        return n != x or side < 0
    a, b = abs(state.arguments[n, 0]), abs(state.arguments[n, 1])
    if state.codes[a] in (MULTIPLY, DIVIDE) or state.codes[b] in (MULTIPLY, DIVIDE):
        return False
    return (a != x or side < 0) and (b != x or side != (-1 if code == DIVIDE else 1))


@compiled
def common_factor(state: RewriteState, count: int) -> int:
    """Take out a factor, or a divisor, that several terms of a sum have; return the value, or 0."""
    i = leaf(state, state.tree, count)
    factors = gather(state, state.part, state.tree[i].node, False)
    f = leaf(state, state.part, factors)
    x, side = state.part[f].node, state.part[f].sign
    if x == ONE:
        return 0
    state.part[f].removed = 1
    every = pick(state, 2)
    start = pick(state, count)
    inner = 0
    for t in range(count):
        j = start + t
        if j >= count:
            j -= count
        if j == i or state.tree[j].left >= 0:
            continue
        other = state.tree[j].node
        if lacks(state, other, x, side):
            continue
        other_factors = gather(state, state.other, other, False)
        for g in range(other_factors):
            entry = state.other[g]
            if entry.left < 0 and entry.node == x and entry.sign == side:
                entry.removed = 1
                state.tree[j].removed = 1
                if inner == 0:
                    inner = rebuild(state, state.part, factors, False) * state.tree[i].sign
                other = rebuild(state, state.other, other_factors, False) * state.tree[j].sign
                inner = make_sum(state, inner, other)
                break
        if inner != 0 and not every:
            break
    # sums that cancel are kept: they may show rounding, or be NaN where a term is infinite
    if inner == 0 or abs(inner) == ZERO:
        return 0
    state.tree[i].removed = 1
    rest = rebuild(state, state.tree, count, True)
    product = multiplied(state, x, inner) if side > 0 else make_quotient(state, inner, x)
    return make_sum(state, product, rest)


@compiled
def put(term: LinearTerm, m: int, coefficient: int) -> None:
    """Store a multiple of a node as a term."""
    term.node = m
    term.coefficient = coefficient


@compiled
def combine_terms(state: RewriteState, n: int) -> int:
    """Write a sum as a linear combination: equal terms are added up, terms with equal coefficients share it.

    Sums and multiples that are used elsewhere are sometimes opened, too.
    """
    terms, waiting = state.found, state.waiting
    put(waiting[0], n, ONE)
    left, count, merged = 1, 0, False
    while left:
        left -= 1
        m, scale = waiting[left].node, waiting[left].coefficient
        code = state.codes[m]
        opened = m == n
        if not opened and code in (ADD, MULTIPLY):
            opened = state.uses[m] == 1
            if not opened:
                opened = looked_into(state)
        if opened and left + 2 > TERM_COUNT:
            return 0
        a, b = state.arguments[m, 0], state.arguments[m, 1]
        if opened and code == ADD:
            scale *= state.signs[m]
            put(waiting[left], abs(a), scale * sign_of(a))
            put(waiting[left + 1], abs(b), scale * sign_of(b))
            left += 2
            continue
        if opened and code == MULTIPLY and is_constant_node(state, a) != is_constant_node(state, b):
            if is_constant_node(state, b):
                a, b = b, a
            scale = number_product(state, scale, place_of(state, a)) * state.signs[m]
            if scale == 0:
                return 0
            put(waiting[left], b, scale)
            left += 1
            continue
        if code == CONSTANT:
            scale = number_product(state, scale, place_of(state, m))
            m = ONE
            if scale == 0:
                return 0
        k = 0
        while k < count and terms[k].node != m:
            k += 1
        if k == count:
            if count == TERM_COUNT:
                return 0
            put(terms[k], m, scale)
            count += 1
        else:
            merged = merged or m != ONE
            scale = number_sum(state, terms[k].coefficient, scale)
            if scale in (0, ZERO):  # what cancels is left alone, see `common_factor`
                return 0
            terms[k].coefficient = scale
    if not merged:
        return 0
    total = ZERO
    for k in range(count):
        m, scale = terms[k].node, terms[k].coefficient
        if m == 0:
            continue
        if m == ONE:
            total = make_sum(state, total, constant_node(state, scale))
            continue
        inner = ZERO
        for t in range(k, count):
            other = terms[t]
            if other.node > ONE and abs(other.coefficient) == abs(scale):
                value = other.node if other.coefficient == scale else -other.node
                inner = make_sum(state, inner, value)
                other.node = 0
        scaled = make_product(state, constant_node(state, scale), inner)
        total = make_sum(state, total, scaled)
    return total


@compiled
def select_within(state: RewriteState, n: int) -> int:
    """Make an operation on choices under one condition a choice between operations; return the value, or 0."""
    code: int = state.codes[n]
    sign: int = state.signs[n]
    a, b = state.arguments[n, 0], state.arguments[n, 1]
    chosen_a, chosen_b = state.codes[abs(a)] == SELECT, state.codes[abs(b)] == SELECT
    if not chosen_a and not chosen_b:
        return 0
    condition = state.arguments[abs(a if chosen_a else b), 0]
    sign_a, sign_b = sign_of(a), sign_of(b)
    a1, a2, b1, b2 = a, a, b, b
    if chosen_a:
        sign_a *= state.signs[abs(a)]
        a1 = sign_a * state.arguments[abs(a), 1]
        a2 = sign_a * state.arguments[abs(a), 2]
    if chosen_b and state.arguments[abs(b), 0] == condition:
        sign_b *= state.signs[abs(b)]
        b1 = sign_b * state.arguments[abs(b), 1]
        b2 = sign_b * state.arguments[abs(b), 2]
    first = make_node(state, code, a1, b1, 0)
    second = make_node(state, code, a2, b2, 0)
    return make_choice(state, condition, first, second) * sign


@compiled
def select_outside(state: RewriteState, n: int) -> int:
    """Make a choice between two operations an operation on choices, common parts outside; return the value, or 0."""
    condition, a, b = state.arguments[n, 0], state.arguments[n, 1], state.arguments[n, 2]
    code = state.codes[abs(a)]
    sign: int = state.signs[n]
    sums = pick(state, 2) == 0
    first = gather(state, state.tree, abs(a), sums)
    second = gather(state, state.part, abs(b), sums)
    i = leaf(state, state.tree, first)
    x, side = state.tree[i].node, state.tree[i].sign
    if x in (ONE, ZERO):
        return 0
    if sums:
        side *= sign_of(a)
    for j in range(second):
        if state.part[j].left < 0 and state.part[j].node == x:
            other = state.part[j].sign * (sign_of(b) if sums else 1)
            if other == side:
                state.tree[i].removed = 1
                state.part[j].removed = 1
                u = rebuild(state, state.tree, first, sums) * sign_of(a)
                v = rebuild(state, state.part, second, sums) * sign_of(b)
                chosen = make_choice(state, condition, u, v) * sign
                if sums:
                    return make_sum(state, chosen, side * sign * x)
                if side > 0:
                    return multiplied(state, x, chosen)
                return make_quotient(state, chosen, x)
    if code == state.codes[abs(b)] and code in (ADD, MULTIPLY, DIVIDE):
        # nothing in common: select each argument by itself
        sign_a = sign_of(a) * state.signs[abs(a)]
        sign_b = sign_of(b) * state.signs[abs(b)]
        a1, a2 = state.arguments[abs(a), 0], state.arguments[abs(a), 1]
        b1, b2 = state.arguments[abs(b), 0], state.arguments[abs(b), 1]
        if code == ADD:
            a1, a2, b1, b2 = a1 * sign_a, a2 * sign_a, b1 * sign_b, b2 * sign_b
        else:
            a1, b1 = a1 * sign_a, b1 * sign_b
        if code != DIVIDE and pick(state, 2):
            b1, b2 = b2, b1
        left = make_choice(state, condition, a1, b1)
        right = make_choice(state, condition, a2, b2)
        return make_node(state, code, left, right, 0) * sign
    return 0


#: Moves for each node between two best programs that are stored.
SELDOM: Final = 16


@compiled
def move(state: RewriteState, n: int) -> int:
    """Find another way to compute a node; return its value, or 0."""
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
    if count == 3:  # two terms or factors make a single pair, so only identities are tried
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


def run_rewrite(state: RewriteState) -> int:
    """Try `visits` moves; undo moves whose cost exceeds a random limit. Return 0.

    Under SWEEP nodes are visited in order, from `at` on, and only improvements are accepted. Under KEEP no move is
    tried: the current program is stored if it is the best. Under BUILD the program is read.
    """
    if state.mode == BUILD:
        build_nodes(state)
        return 0
    if state.mode == KEEP:
        if state.cost < state.best:
            keep_program(state)
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
                keep_program(state)
        else:
            undo(state, 0)
            state.cost = cost
            state.touched_count = 0
            state.queue_count = 0
    state.temperature = temperature
    return 0
