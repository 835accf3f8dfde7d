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
"""

from __future__ import annotations

from typing import Final

from accumulus.native.memory import (
    bits_of,
    compiled,
    copy,
    float_of,
    get,
    get_float,
    put,
    put_float,
    random_bits,
    shifted_right,
    whole,
)
from accumulus.rewriting.compiled.rewrite_slots import (
    ACCEPTED,
    ARGUMENTS,
    ARITIES,
    AT,
    BEST,
    BEST_ARGUMENTS,
    BEST_CODES,
    BEST_NEXT,
    BEST_SIGNS,
    BUILD,
    CHANGED,
    CHOICES,
    CODES,
    COEFFICIENTS,
    COMMUTATIVE,
    CONSTANT,
    COOLING,
    COST,
    CREDIT,
    EVEN,
    FAILED,
    FIELDS,
    FIRST_OUTPUT,
    FOR_LIFE,
    FREE,
    FREE_COUNT,
    FREED,
    FROZEN,
    FUSED,
    HEADS,
    INLINE,
    INPUTS,
    KEEP,
    LEFT,
    LENGTH,
    LOG,
    LOG_LIMIT,
    LOGGED,
    MEANINGS,
    MODE,
    NEXT,
    NEXTS,
    NODE,
    NODE_LIMIT,
    NUMBERS,
    ODD,
    ONE,
    OUTPUT,
    OUTPUT_COUNT,
    OUTPUTS,
    PREVIOUS,
    PROGRAM,
    PROGRAM_FIELDS,
    PROPERTIES,
    QUEUE,
    QUEUED,
    QUEUED_COUNT,
    RANDOM,
    REMOVED,
    RIGHT,
    SIGN,
    SIGNS,
    STACK,
    STACKED,
    SWEEP,
    TABLE,
    TABLE_BITS,
    TARGET,
    TEMPERATURE,
    TERM_COUNT,
    TERMS,
    THRESHOLD_COUNT,
    THRESHOLDS,
    TOUCHED,
    TOUCHED_COUNT,
    TREE_SIZE,
    TREES,
    TRIED,
    TWO,
    UNKEPT,
    USES,
    VALUE,
    VISITS,
    WEIGHTS,
    ZERO,
)
from accumulus.tape.operations import BY_NAME

__all__ = ["anneal"]

INPUT: Final = BY_NAME["input"].code
ADD: Final = BY_NAME["add"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
NEGATIVE: Final = BY_NAME["negative"].code
SUBTRACT: Final = BY_NAME["subtract"].code
SQRT: Final = BY_NAME["sqrt"].code
SIN: Final = BY_NAME["sin"].code
COS: Final = BY_NAME["cos"].code
SELECT: Final = BY_NAME["select"].code

#: Nodes for each move that come between two bests that are kept.
SELDOM: Final = 16
#: Uses of a node that are looked at for a pair that is computed elsewhere.
LOOK: Final = 24


# Memory ------------------------------------------------------------------------------------------------------------


@compiled
def write(block: int, address: int, value: int) -> None:
    """Write to an address what `undo` takes back."""
    logged = get(block, LOGGED)
    log = get(block, LOG)
    put(log, 2 * logged, address)
    put(log, 2 * logged + 1, get(address, 0))
    put(address, 0, value)
    put(block, LOGGED, logged + 1)


@compiled
def set_(block: int, slot: int, index: int, value: int) -> None:
    """Write to an array of the block, logged."""
    write(block, get(block, slot) + 8 * index, value)


@compiled
def at(block: int, slot: int, index: int) -> int:
    """Read an array of the block."""
    return get(get(block, slot), index)


@compiled
def undo(block: int, logged: int) -> None:
    """Take back all that was written since the log had that length."""
    log = get(block, LOG)
    for t in range(get(block, LOGGED) - 1, logged - 1, -1):
        put(get(log, 2 * t), 0, get(log, 2 * t + 1))
    put(block, LOGGED, logged)


@compiled
def sign_of(value: int) -> int:
    """-1 or 1."""
    return -1 if value < 0 else 1


# Hash table of definitions -----------------------------------------------------------------------------------------


@compiled
def home(block: int, code: int, a: int, b: int, c: int) -> int:
    """Where the search for a definition begins."""
    x = (a * 0x9E3779B97F4A7C15) ^ (b * 0x2545F4914F6CDD1D) ^ (c * 0x632BE59BD9B4E019) ^ (code << 56)
    x ^= shifted_right(x, 29)
    return shifted_right(x * 0x2545F4914F6CDD1D, 64 - get(block, TABLE_BITS))


@compiled
def home_of(block: int, n: int) -> int:
    """Where the search for a node's definition begins."""
    arguments = get(block, ARGUMENTS) + 24 * n
    return home(block, at(block, whole(CODES), n), get(arguments, 0), get(arguments, 1), get(arguments, 2))


@compiled
def lookup(block: int, code: int, a: int, b: int, c: int) -> int:
    """The node with that definition, or minus the free place for it, less one."""
    table, mask = get(block, TABLE), (1 << get(block, TABLE_BITS)) - 1
    codes, arguments = get(block, CODES), get(block, ARGUMENTS)
    place = home(block, code, a, b, c)
    while True:
        n = get(table, place)
        if n == 0:
            return -place - 1
        row = arguments + 24 * n
        if get(codes, n) == code and get(row, 0) == a and get(row, 1) == b and get(row, 2) == c:
            return n
        place = (place + 1) & mask


@compiled
def take_out(block: int, n: int) -> None:
    """Remove a node from the table, if it is there; call before its definition changes."""
    table, mask = get(block, TABLE), (1 << get(block, TABLE_BITS)) - 1
    hole = home_of(block, n)
    while get(table, hole) != n:
        if get(table, hole) == 0:
            return
        hole = (hole + 1) & mask
    place = hole
    while True:
        place = (place + 1) & mask
        other = get(table, place)
        if other == 0:
            break
        if ((place - home_of(block, other)) & mask) >= ((place - hole) & mask):
            write(block, table + 8 * hole, other)
            hole = place
    write(block, table + 8 * hole, 0)


# Nodes -------------------------------------------------------------------------------------------------------------


@compiled
def intern(block: int, code: int, a: int, b: int, c: int) -> int:
    """Value of a definition in normal form: of the node that has it, or of a new one."""
    found = lookup(block, code, a, b, c)
    if found > 0:
        if found == get(block, TARGET):
            put(block, FAILED, 1)
        return found * at(block, whole(SIGNS), found)
    place = -found - 1
    free = get(block, FREE_COUNT)
    if free > 0:
        n = at(block, whole(FREE), free - 1)
        write(block, block + 8 * FREE_COUNT, free - 1)
        set_(block, whole(FREED), n, whole(0))
    else:
        n = get(block, NEXT)
        write(block, block + 8 * NEXT, n + 1)
    put(get(block, CODES), n, code)
    row = get(block, ARGUMENTS) + 24 * n
    put(row, 0, a)
    put(row, 1, b)
    put(row, 2, c)
    put(get(block, SIGNS), n, 1)
    put(get(block, USES), n, 0)
    put(get(block, HEADS), n, 0)
    put(get(block, FROZEN), n, 0)
    put(get(block, FUSED), n, 0)
    put(get(block, QUEUED), n, 0)
    write(block, get(block, TABLE) + 8 * place, n)
    touch(block, n)
    return n


@compiled
def touch(block: int, n: int) -> None:
    """Remember a node that may have no uses when the move is over."""
    count = get(block, TOUCHED_COUNT)
    put(get(block, TOUCHED), count, n)
    put(block, TOUCHED_COUNT, count + 1)


@compiled
def constant(block: int, value: float) -> int:
    """The value of a number."""
    if value < 0.0:
        return -intern(block, whole(CONSTANT), bits_of(-value), whole(0), whole(0))
    return intern(block, whole(CONSTANT), bits_of(value), whole(0), whole(0))


@compiled
def number(block: int, a: int) -> float:
    """The number that a constant stands for."""
    value = float_of(at(block, whole(ARGUMENTS), 3 * abs(a)))
    return -value if a < 0 else value


@compiled
def is_constant(block: int, a: int) -> bool:
    """Whether a value is a number."""
    return at(block, whole(CODES), abs(a)) == CONSTANT


@compiled
def is_finite(value: float) -> bool:
    """Whether a number is neither infinite nor NaN, nor too small to be exact."""
    return 1e-290 < abs(value) < 1e290


@compiled
def make(block: int, code: int, a: int, b: int, c: int) -> int:
    """The value of an operation: simplified, in normal form, interned."""
    sign = 1
    if code == ADD:
        if abs(a) == ZERO:
            return b
        if abs(b) == ZERO:
            return a
        if is_constant(block, a) and is_constant(block, b):
            return constant(block, number(block, a) + number(block, b))
        if a == b:  # 2a
            code, b = MULTIPLY, whole(TWO)
        else:
            if abs(a) > abs(b):
                a, b = b, a
            if a < 0:
                sign, a, b = -1, -a, -b
            return sign * intern(block, code, a, b, c)
    if code == MULTIPLY:
        if (a < 0) != (b < 0):
            sign = -1
        a, b = abs(a), abs(b)
        if a == ONE:
            return sign * b
        if b == ONE:
            return sign * a
        if ZERO in (a, b):
            return whole(ZERO)
        if is_constant(block, a) and is_constant(block, b):
            value = number(block, a) * number(block, b)
            if is_finite(value):
                return sign * constant(block, value)
        if a == b and at(block, whole(CODES), a) == SQRT and get(block, MODE) != BUILD:
            return sign * at(block, whole(ARGUMENTS), 3 * a)
        if a > b:
            a, b = b, a
        return sign * intern(block, code, a, b, c)
    if code == DIVIDE:
        if (a < 0) != (b < 0):
            sign = -1
        a, b = abs(a), abs(b)
        if b == ONE:
            return sign * a
        if a == ZERO:
            return a
        if get(block, MODE) != BUILD:
            if a == b:
                return sign * ONE
            if at(block, whole(CODES), b) == SQRT and at(block, whole(ARGUMENTS), 3 * b) == a:
                return sign * b
            if at(block, whole(CODES), a) == SQRT and at(block, whole(ARGUMENTS), 3 * a) == b:
                a, b = whole(ONE), a
        # operations that have to stay as they are come as they are
        if get(block, MODE) != BUILD and is_constant(block, b):
            value = 1.0 / number(block, b)
            if is_finite(value):
                if a == ONE:
                    return sign * constant(block, value)
                if is_constant(block, a):
                    value = number(block, a) / number(block, b)
                    if is_finite(value):
                        return sign * constant(block, value)
                else:
                    b = constant(block, value)
                    if a > b:
                        a, b = b, a
                    return sign * intern(block, whole(MULTIPLY), a, b, c)
        return sign * intern(block, code, a, b, c)
    properties = at(block, whole(PROPERTIES), code)
    if code == SELECT:
        if b == c:
            return b
        if b < 0 or (b == ZERO and c < 0):
            sign = -1
            if b != ZERO:
                b = -b
            if c != ZERO:
                c = -c
        return sign * intern(block, code, a, b, c)
    if a < 0:
        if properties & ODD:
            sign, a = -1, -a
        elif properties & EVEN:
            a = -a
    if properties & COMMUTATIVE and a > b:
        a, b = b, a
    return sign * intern(block, code, a, b, c)


@compiled
def link(block: int, place: int, m: int) -> None:
    """Enter the argument at a place among the uses of a node."""
    head = at(block, whole(HEADS), m)
    set_(block, whole(NEXTS), place, head)
    set_(block, whole(PREVIOUS), place, whole(0))
    if head:
        set_(block, whole(PREVIOUS), head, place)
    set_(block, whole(HEADS), m, place)


@compiled
def unlink(block: int, place: int, m: int) -> None:
    """Take the argument at a place out of the uses of a node."""
    before, after = at(block, whole(PREVIOUS), place), at(block, whole(NEXTS), place)
    if before:
        set_(block, whole(NEXTS), before, after)
    else:
        set_(block, whole(HEADS), m, after)
    if after:
        set_(block, whole(PREVIOUS), after, before)


@compiled
def push(block: int, n: int) -> None:
    """Put a node on the stack."""
    count = get(block, STACKED)
    put(get(block, STACK), count, n)
    put(block, STACKED, count + 1)


@compiled
def pop(block: int) -> int:
    """Take a node from the stack."""
    count = get(block, STACKED) - 1
    put(block, STACKED, count)
    return at(block, whole(STACK), count)


@compiled
def fuse(block: int, n: int) -> None:
    """Let a sum take up a product that nothing else uses, if it has one; for when arguments or their uses change."""
    found = 0
    for k in range(2):
        m = abs(at(block, whole(ARGUMENTS), 3 * n + k))
        found |= at(block, whole(CODES), m) == MULTIPLY and at(block, whole(USES), m) == 1
    was = at(block, whole(FUSED), n)
    if found != was:
        set_(block, whole(FUSED), n, whole(found))
        put(block, COST, get(block, COST) + (was - found) * get(block, CREDIT))


@compiled
def release(block: int, n: int) -> None:
    """A node is no sum any more, or dies: it takes up nothing."""
    if at(block, whole(FUSED), n):
        set_(block, whole(FUSED), n, whole(0))
        put(block, COST, get(block, COST) + get(block, CREDIT))


@compiled
def fuse_users(block: int, m: int) -> None:
    """Look again at the sums that use a product, when it has come to one use or to two."""
    if get(block, CREDIT) == 0 or at(block, whole(CODES), m) != MULTIPLY:
        return
    place = at(block, whole(HEADS), m)
    for _ in range(2):
        if place:
            user = place // 3
            if at(block, whole(CODES), user) == ADD and at(block, whole(USES), user):
                fuse(block, user)
            place = at(block, whole(NEXTS), place)


@compiled
def hold(block: int, n: int) -> None:
    """One use more; the first one brings a node, and what it needs, to life."""
    uses = at(block, whole(USES), n)
    set_(block, whole(USES), n, uses + 1)
    if uses:
        fuse_users(block, n)
        return
    base = get(block, STACKED)
    push(block, n)
    while get(block, STACKED) > base:
        p = pop(block)
        code = at(block, whole(CODES), p)
        put(block, COST, get(block, COST) + at(block, whole(WEIGHTS), code))
        for k in range(at(block, whole(ARITIES), code)):
            m = abs(at(block, whole(ARGUMENTS), 3 * p + k))
            link(block, 3 * p + k, m)
            uses = at(block, whole(USES), m)
            set_(block, whole(USES), m, uses + 1)
            if uses == 0:
                push(block, m)
            else:
                fuse_users(block, m)
        if code == ADD and get(block, CREDIT):
            fuse(block, p)


@compiled
def drop(block: int, n: int) -> None:
    """One use less; without uses a node dies, and with it what only it needed."""
    uses = at(block, whole(USES), n) - 1
    set_(block, whole(USES), n, uses)
    if uses:
        fuse_users(block, n)
        return
    base = get(block, STACKED)
    push(block, n)
    while get(block, STACKED) > base:
        p = pop(block)
        code = at(block, whole(CODES), p)
        put(block, COST, get(block, COST) - at(block, whole(WEIGHTS), code))
        release(block, p)
        take_out(block, p)
        touch(block, p)
        for k in range(at(block, whole(ARITIES), code)):
            m = abs(at(block, whole(ARGUMENTS), 3 * p + k))
            unlink(block, 3 * p + k, m)
            uses = at(block, whole(USES), m) - 1
            set_(block, whole(USES), m, uses)
            if uses == 0:
                push(block, m)
            else:
                fuse_users(block, m)


@compiled
def define(block: int, n: int, v: int) -> None:
    """Let a node be computed as the value v is: by its definition if v is new, else v takes its place everywhere."""
    m, sign = abs(v), sign_of(v)
    if m == n:
        return
    code = at(block, whole(CODES), m)
    arguments = get(block, ARGUMENTS)
    if at(block, whole(USES), m) or code in (INPUT, CONSTANT):
        merge(block, n, v)
        return
    take_out(block, n)
    take_out(block, m)
    old = at(block, whole(CODES), n)
    row, new = arguments + 24 * n, arguments + 24 * m
    a, b, c = get(row, 0), get(row, 1), get(row, 2)
    for k in range(at(block, whole(ARITIES), old)):
        unlink(block, 3 * n + k, abs(get(row, k)))
    put(block, COST, get(block, COST) + at(block, whole(WEIGHTS), code) - at(block, whole(WEIGHTS), old))
    release(block, n)
    set_(block, whole(CODES), n, code)
    set_(block, whole(SIGNS), n, sign * at(block, whole(SIGNS), m))
    for k in range(3):
        write(block, row + 8 * k, get(new, k))
    for k in range(at(block, whole(ARITIES), code)):
        argument = abs(get(new, k))
        link(block, 3 * n + k, argument)
        hold(block, argument)
    place = lookup(block, code, get(row, 0), get(row, 1), get(row, 2))
    if place < 0:
        write(block, get(block, TABLE) + 8 * (-place - 1), n)
    arity = at(block, whole(ARITIES), old)
    if arity > 0:
        drop(block, abs(a))
    if arity > 1:
        drop(block, abs(b))
    if arity > 2:
        drop(block, abs(c))
    if get(block, CREDIT):
        if code == ADD:
            fuse(block, n)
        # what uses n may take it up now, or no longer
        place = at(block, whole(HEADS), n)
        while place:
            user = place // 3
            if at(block, whole(CODES), user) == ADD and at(block, whole(USES), user):
                fuse(block, user)
            place = at(block, whole(NEXTS), place)


@compiled
def merge(block: int, n: int, v: int) -> None:
    """Let all uses of a node use another value, that is as large, and the users wait to be renewed."""
    m = abs(v)
    uses = at(block, whole(USES), n)
    if get(block, LOGGED) + 200 * uses + 2_000 > get(block, LOG_LIMIT):
        put(block, FAILED, 1)
        return
    hold(block, m)
    while True:
        place = at(block, whole(HEADS), n)
        if place == 0:
            break
        user = place // 3
        code = at(block, whole(CODES), user)
        if code != OUTPUT and not at(block, whole(QUEUED), user):
            take_out(block, user)
            set_(block, whole(QUEUED), user, whole(1))
            count = get(block, QUEUED_COUNT)
            put(get(block, QUEUE), count, user)
            put(block, QUEUED_COUNT, count + 1)
        unlink(block, place, n)
        old = at(block, whole(ARGUMENTS), place)
        set_(block, whole(ARGUMENTS), place, sign_of(old) * v)
        link(block, place, m)
        set_(block, whole(USES), m, at(block, whole(USES), m) + 1)
        if get(block, CREDIT) and code == ADD:
            fuse(block, user)
        if at(block, whole(USES), n) > 1:
            set_(block, whole(USES), n, at(block, whole(USES), n) - 1)
    drop(block, n)
    drop(block, m)
    fuse_users(block, m)


@compiled
def renew(block: int) -> None:
    """Bring the nodes whose arguments have changed into normal form, and merge those that have become equal."""
    while get(block, QUEUED_COUNT) > 0 and not get(block, FAILED):
        count = get(block, QUEUED_COUNT) - 1
        put(block, QUEUED_COUNT, count)
        n = at(block, whole(QUEUE), count)
        set_(block, whole(QUEUED), n, whole(0))
        if at(block, whole(USES), n) == 0:
            continue
        row = get(block, ARGUMENTS) + 24 * n
        v = make(block, at(block, whole(CODES), n), get(row, 0), get(row, 1), get(row, 2))
        define(block, n, v * at(block, whole(SIGNS), n))


@compiled
def settle(block: int) -> None:
    """After an accepted move: free the numbers of nodes without uses."""
    for t in range(get(block, TOUCHED_COUNT)):
        n = at(block, whole(TOUCHED), t)
        if at(block, whole(USES), n) == 0 and at(block, whole(FREED), n) == 0:
            take_out(block, n)
            put(get(block, FREED), n, 1)
            count = get(block, FREE_COUNT)
            put(get(block, FREE), count, n)
            put(block, FREE_COUNT, count + 1)
    put(block, TOUCHED_COUNT, 0)
    put(block, LOGGED, 0)


# Trees of sums and of products -------------------------------------------------------------------------------------


@compiled
def field(block: int, tree: int, entry: int, which: int) -> int:
    """A field of an entry of a tree."""
    return get(get(block, TREES) + 8 * FIELDS * (TREE_SIZE * tree + entry), which)


@compiled
def set_field(block: int, tree: int, entry: int, which: int, value: int) -> None:
    """Set a field of an entry of a tree."""
    put(get(block, TREES) + 8 * FIELDS * (TREE_SIZE * tree + entry), which, value)


@compiled
def enter(block: int, tree: int, entry: int, n: int, sign: int) -> None:
    """A new leaf of a tree."""
    set_field(block, tree, entry, whole(NODE), n)
    set_field(block, tree, entry, whole(SIGN), sign)
    set_field(block, tree, entry, whole(LEFT), whole(-1))
    set_field(block, tree, entry, whole(REMOVED), whole(0))


@compiled
def gather(block: int, tree: int, root: int, sums: bool) -> int:
    """The terms of a sum, or the factors of a product, as the leaves of a tree; the number of its entries.

    The sign of a term is that with which it counts; that of a factor is -1 if it divides. Terms and factors that are
    used elsewhere, too, are sometimes looked into.
    """
    count = 1
    enter(block, tree, whole(0), root, whole(1))
    entry = whole(0)
    while entry < count and count + 2 <= TREE_SIZE:
        n = field(block, tree, entry, whole(NODE))
        code = at(block, whole(CODES), n)
        if (code == ADD) if sums else (code in (MULTIPLY, DIVIDE)):
            opened = entry == 0 or at(block, whole(USES), n) == 1
            if not opened and get(block, INLINE):
                opened = (shifted_right(random_bits(block + RANDOM * 8), 20) & 1023) < get(block, INLINE)
            if opened:
                a, b = at(block, whole(ARGUMENTS), 3 * n), at(block, whole(ARGUMENTS), 3 * n + 1)
                sign = field(block, tree, entry, whole(SIGN))
                if sums:
                    sign *= at(block, whole(SIGNS), n)
                    enter(block, tree, count, abs(a), sign * sign_of(a))
                    enter(block, tree, count + 1, abs(b), sign * sign_of(b))
                else:
                    enter(block, tree, count, abs(a), sign)
                    enter(block, tree, count + 1, abs(b), -sign if code == DIVIDE else sign)
                set_field(block, tree, entry, whole(LEFT), count)
                set_field(block, tree, entry, whole(RIGHT), count + 1)
                count += 2
        entry += 1
    return count


@compiled
def rebuild(block: int, tree: int, count: int, sums: bool) -> int:
    """The value of the root without the leaves that were removed; what has not changed stays as it is."""
    neutral = ZERO if sums else ONE
    for entry in range(count - 1, -1, -1):
        n = field(block, tree, entry, whole(NODE))
        value = n
        left = field(block, tree, entry, whole(LEFT))
        if field(block, tree, entry, whole(REMOVED)):
            value = neutral
        elif left >= 0:
            right = field(block, tree, entry, whole(RIGHT))
            a, b = field(block, tree, left, whole(VALUE)), field(block, tree, right, whole(VALUE))
            if a != field(block, tree, left, whole(NODE)) or b != field(block, tree, right, whole(NODE)):
                x, y = at(block, whole(ARGUMENTS), 3 * n), at(block, whole(ARGUMENTS), 3 * n + 1)
                code = at(block, whole(CODES), n)
                value = make(block, code, sign_of(x) * a, sign_of(y) * b, whole(0)) * at(block, whole(SIGNS), n)
        set_field(block, tree, entry, whole(VALUE), value)
    return field(block, tree, whole(0), whole(VALUE))


@compiled
def pick(block: int, bound: int) -> int:
    """A random number below a bound."""
    return (shifted_right(random_bits(block + RANDOM * 8), 24) & 0xFFFFFFFF) * bound >> 32


@compiled
def leaf(block: int, tree: int, count: int) -> int:
    """A random leaf that was not removed, or -1."""
    start = pick(block, count)
    for t in range(count):
        entry = start + t
        if entry >= count:
            entry -= count
        if field(block, tree, entry, whole(LEFT)) < 0 and not field(block, tree, entry, whole(REMOVED)):
            return entry
    return -1


@compiled
def term(block: int, tree: int, entry: int) -> int:
    """The value that a term of a sum contributes."""
    return field(block, tree, entry, whole(NODE)) * field(block, tree, entry, whole(SIGN))


@compiled
def times(block: int, a: int, b: int) -> int:
    """a · b; a reciprocal that nothing uses becomes a division."""
    for _ in range(2):
        m = abs(b)
        new = at(block, whole(USES), m) == 0
        if new and at(block, whole(CODES), m) == DIVIDE and at(block, whole(ARGUMENTS), 3 * m) == ONE:
            d = at(block, whole(ARGUMENTS), 3 * m + 1)
            return make(block, whole(DIVIDE), a, d, whole(0)) * sign_of(b) * at(block, whole(SIGNS), m)
        a, b = b, a
    return make(block, whole(MULTIPLY), a, b, whole(0))


@compiled
def lacks(block: int, n: int, x: int, side: int) -> bool:
    """Whether a term is seen at once not to have that factor, or divisor where the side is -1.

    Most terms are no products, or products of two that are none: trees of these take longer to gather than to tell.
    """
    code = at(block, whole(CODES), n)
    if code not in (MULTIPLY, DIVIDE):
        return n != x or side < 0
    a, b = abs(at(block, whole(ARGUMENTS), 3 * n)), abs(at(block, whole(ARGUMENTS), 3 * n + 1))
    if at(block, whole(CODES), a) in (MULTIPLY, DIVIDE) or at(block, whole(CODES), b) in (MULTIPLY, DIVIDE):
        return False
    return (a != x or side < 0) and (b != x or side != (-1 if code == DIVIDE else 1))


# Moves: each returns the value that a node is to be computed as, or 0 ------------------------------------------------


@compiled
def partner(block: int, tree: int, count: int, i: int, sums: bool) -> int:
    """A leaf that the leaf i is paired with elsewhere, or -1."""
    x = field(block, tree, i, whole(NODE))
    sign = field(block, tree, i, whole(SIGN))
    place = at(block, whole(HEADS), x)
    for _ in range(pick(block, whole(4))):
        if place:
            place = at(block, whole(NEXTS), place)
    looked = 0
    while place and looked < LOOK:
        looked += 1
        user = place // 3
        code = at(block, whole(CODES), user)
        if (code == ADD) if sums else (code in (MULTIPLY, DIVIDE)):
            mine = at(block, whole(ARGUMENTS), place)
            other = at(block, whole(ARGUMENTS), 6 * user + 1 - place)  # places are 3·user and 3·user + 1
            y = abs(other)
            relative = -1 if code == DIVIDE or (sums and (mine < 0) != (other < 0)) else 1
            for j in range(count):
                if (
                    j != i
                    and field(block, tree, j, whole(LEFT)) < 0
                    and field(block, tree, j, whole(NODE)) == y
                    and field(block, tree, j, whole(SIGN)) * sign == relative
                ):
                    return j
        place = at(block, whole(NEXTS), place)
    return -1


@compiled
def square_of(block: int, a: int) -> int:
    """The node of which the value is the square, 0 if it is none; of the number 1, that."""
    if a == ONE:
        return whole(ONE)
    if at(block, whole(CODES), a) != MULTIPLY:
        return 0
    x = at(block, whole(ARGUMENTS), 3 * a)
    return x if x == at(block, whole(ARGUMENTS), 3 * a + 1) else 0


@compiled
def sum_of(block: int, a: int, b: int) -> int:
    """a + b by an identity, or 0: squares of sine and cosine, and differences of squares."""
    m, n = abs(a), abs(b)
    x, y = square_of(block, m), square_of(block, n)
    if x == 0 or y == 0:
        return 0
    sign_a = sign_of(a) * at(block, whole(SIGNS), m)
    sign_b = sign_of(b) * at(block, whole(SIGNS), n)
    code_x, code_y = at(block, whole(CODES), x), at(block, whole(CODES), y)
    if sign_a == sign_b:
        angles = (code_x == SIN and code_y == COS) or (code_x == COS and code_y == SIN)
        same = at(block, whole(ARGUMENTS), 3 * x) == at(block, whole(ARGUMENTS), 3 * y)
        return sign_a * ONE if angles and same else 0
    for _ in range(2):
        if x == ONE and code_y in (SIN, COS):  # 1 - sin² is cos²
            other = lookup(block, COS if code_y == SIN else SIN, at(block, whole(ARGUMENTS), 3 * y), whole(0), whole(0))
            if other > 0:
                return sign_a * make(block, whole(MULTIPLY), other, other, whole(0))
        x, y, code_x, code_y, sign_a = y, x, code_y, code_x, -sign_a
    plus = make(block, whole(ADD), x, y, whole(0))
    return sign_a * make(block, whole(MULTIPLY), plus, make(block, whole(ADD), x, -y, whole(0)), whole(0))


@compiled
def product_of(block: int, a: int, b: int) -> int:
    """a · b by an identity, or 0: (x + y) · (x - y)."""
    if at(block, whole(CODES), a) != ADD or at(block, whole(CODES), b) != ADD:
        return 0
    first, second = get(block, ARGUMENTS) + 24 * a, get(block, ARGUMENTS) + 24 * b
    x, y = get(first, 0), get(first, 1)
    sign = at(block, whole(SIGNS), a) * at(block, whole(SIGNS), b)
    # the first argument of a sum has no sign
    if get(second, 0) != x or get(second, 1) != -y:
        return 0
    y = abs(y)
    square = make(block, whole(MULTIPLY), x, x, whole(0))
    return sign * make(block, whole(ADD), square, -make(block, whole(MULTIPLY), y, y, whole(0)), whole(0))


@compiled
def pair_terms(block: int, count: int, guided: bool) -> int:
    """Two terms of a sum are added first."""
    i = leaf(block, whole(0), count)
    set_field(block, whole(0), i, whole(REMOVED), whole(1))
    j = partner(block, whole(0), count, i, True) if guided else leaf(block, whole(0), count)
    if j < 0:
        return 0
    set_field(block, whole(0), j, whole(REMOVED), whole(1))
    rest = rebuild(block, whole(0), count, True)
    a, b = term(block, whole(0), i), term(block, whole(0), j)
    pair = 0
    if pick(block, whole(2)):
        pair = sum_of(block, a, b)
    if pair == 0:
        pair = make(block, whole(ADD), a, b, whole(0))
    return make(block, whole(ADD), pair, rest, whole(0))


@compiled
def pair_factors(block: int, count: int, guided: bool) -> int:
    """Two factors of a product are multiplied, or divided, first."""
    i = leaf(block, whole(0), count)
    set_field(block, whole(0), i, whole(REMOVED), whole(1))
    j = partner(block, whole(0), count, i, False) if guided else leaf(block, whole(0), count)
    if j < 0:
        return 0
    set_field(block, whole(0), j, whole(REMOVED), whole(1))
    rest = rebuild(block, whole(0), count, False)
    x, y = field(block, whole(0), i, whole(NODE)), field(block, whole(0), j, whole(NODE))
    above, below = field(block, whole(0), i, whole(SIGN)) > 0, field(block, whole(0), j, whole(SIGN)) < 0
    if above != below:
        pair = product_of(block, x, y) if pick(block, whole(2)) else 0
        if pair == 0:
            pair = make(block, whole(MULTIPLY), x, y, whole(0))
        return times(block, pair, rest) if above else make(block, whole(DIVIDE), rest, pair, whole(0))
    if above:
        return times(block, make(block, whole(DIVIDE), x, y, whole(0)), rest)
    return times(block, make(block, whole(DIVIDE), y, x, whole(0)), rest)


@compiled
def split_quotient(block: int, count: int) -> int:
    """One over a divisor is computed by itself."""
    i = leaf(block, whole(0), count)
    if field(block, whole(0), i, whole(SIGN)) > 0:
        return 0
    set_field(block, whole(0), i, whole(REMOVED), whole(1))
    rest = rebuild(block, whole(0), count, False)
    x = field(block, whole(0), i, whole(NODE))
    return make(block, whole(MULTIPLY), rest, make(block, whole(DIVIDE), whole(ONE), x, whole(0)), whole(0))


@compiled
def common_factor(block: int, count: int) -> int:
    """A factor, or divisor, of several terms of a sum is taken out."""
    i = leaf(block, whole(0), count)
    factors = gather(block, whole(1), field(block, whole(0), i, whole(NODE)), False)
    f = leaf(block, whole(1), factors)
    x, side = field(block, whole(1), f, whole(NODE)), field(block, whole(1), f, whole(SIGN))
    if x == ONE:
        return 0
    set_field(block, whole(1), f, whole(REMOVED), whole(1))
    every = pick(block, whole(2))
    start = pick(block, count)
    inner = whole(0)
    for t in range(count):
        j = start + t
        if j >= count:
            j -= count
        if j == i or field(block, whole(0), j, whole(LEFT)) >= 0:
            continue
        other = field(block, whole(0), j, whole(NODE))
        if lacks(block, other, x, side):
            continue
        others = gather(block, whole(2), other, False)
        for g in range(others):
            if (
                field(block, whole(2), g, whole(LEFT)) < 0
                and field(block, whole(2), g, whole(NODE)) == x
                and field(block, whole(2), g, whole(SIGN)) == side
            ):
                set_field(block, whole(2), g, whole(REMOVED), whole(1))
                set_field(block, whole(0), j, whole(REMOVED), whole(1))
                if inner == 0:
                    inner = rebuild(block, whole(1), factors, False) * field(block, whole(0), i, whole(SIGN))
                other = rebuild(block, whole(2), others, False) * field(block, whole(0), j, whole(SIGN))
                inner = make(block, whole(ADD), inner, other, whole(0))
                break
        if inner != 0 and not every:
            break
    # what cancels is left alone: it may be there to show what rounding took, or to be NaN where a term is infinite
    if inner == 0 or abs(inner) == ZERO:
        return 0
    set_field(block, whole(0), i, whole(REMOVED), whole(1))
    rest = rebuild(block, whole(0), count, True)
    product = times(block, x, inner) if side > 0 else make(block, whole(DIVIDE), inner, x, whole(0))
    return make(block, whole(ADD), product, rest, whole(0))


@compiled
def distribute(block: int, tree: int, count: int) -> int:
    """A sum among the factors of a product is multiplied out; the value of that, in two terms on the stack, or 0.

    Sums with a number stay whole: x - 1 is often exact where its terms times a factor are not, and numbers that have
    been added to others are not told apart again.
    """
    i = leaf(block, tree, count)
    n = field(block, tree, i, whole(NODE))
    if field(block, tree, i, whole(SIGN)) < 0 or at(block, whole(CODES), n) != ADD:
        return 0
    x, y = at(block, whole(ARGUMENTS), 3 * n), at(block, whole(ARGUMENTS), 3 * n + 1)
    if is_constant(block, x) or is_constant(block, y):
        return 0
    set_field(block, tree, i, whole(REMOVED), whole(1))
    rest = rebuild(block, tree, count, False) * at(block, whole(SIGNS), n)
    push(block, times(block, x, rest))
    push(block, times(block, y, rest))
    return 1


@compiled
def combine_terms(block: int, n: int) -> int:
    """A sum as a linear combination: what counts several times is added up, terms of one coefficient have it once.

    Sums and multiples that are used elsewhere, too, are sometimes looked into. The first half of TERMS is what was
    found, the second what is still to be looked into.
    """
    terms, coefficients = get(block, TERMS), get(block, COEFFICIENTS)
    waiting, scales = terms + 8 * TERM_COUNT, coefficients + 8 * TERM_COUNT
    put(waiting, 0, n)
    put_float(scales, 0, 1.0)
    left, count, merged = 1, 0, False
    while left:
        left -= 1
        m, scale = get(waiting, left), get_float(scales, left)
        code = at(block, whole(CODES), m)
        opened = m == n
        if not opened and code in (ADD, MULTIPLY):
            opened = at(block, whole(USES), m) == 1
            if not opened:
                opened = (shifted_right(random_bits(block + RANDOM * 8), 20) & 1023) < get(block, INLINE)
        if opened and left + 2 > TERM_COUNT:
            return 0
        a, b = at(block, whole(ARGUMENTS), 3 * m), at(block, whole(ARGUMENTS), 3 * m + 1)
        if opened and code == ADD:
            scale *= at(block, whole(SIGNS), m)
            put(waiting, left, abs(a))
            put_float(scales, left, scale * sign_of(a))
            put(waiting, left + 1, abs(b))
            put_float(scales, left + 1, scale * sign_of(b))
            left += 2
            continue
        if opened and code == MULTIPLY and is_constant(block, a) != is_constant(block, b):
            if is_constant(block, b):
                a, b = b, a
            put(waiting, left, b)
            put_float(scales, left, scale * number(block, a) * at(block, whole(SIGNS), m))
            left += 1
            continue
        if code == CONSTANT:
            scale *= number(block, m)
            m = ONE
        k = 0
        while k < count and get(terms, k) != m:
            k += 1
        if k == count:
            if count == TERM_COUNT:
                return 0
            put(terms, k, m)
            put_float(coefficients, k, scale)
            count += 1
        else:
            merged = merged or m != ONE
            put_float(coefficients, k, get_float(coefficients, k) + scale)
            if get_float(coefficients, k) == 0.0:  # what cancels is left alone, see `common_factor`
                return 0
    if not merged:
        return 0
    total = whole(ZERO)
    for k in range(count):
        m, scale = get(terms, k), get_float(coefficients, k)
        if m == 0:
            continue
        if m == ONE:
            total = make(block, whole(ADD), total, constant(block, scale), whole(0))
            continue
        inner = whole(ZERO)
        for t in range(k, count):
            other = get(terms, t)
            if other > ONE and abs(get_float(coefficients, t)) == abs(scale):
                value = other if get_float(coefficients, t) == scale else -other
                inner = make(block, whole(ADD), inner, value, whole(0))
                put(terms, t, 0)
        scaled = make(block, whole(MULTIPLY), constant(block, scale), inner, whole(0))
        total = make(block, whole(ADD), total, scaled, whole(0))
    return total


@compiled
def select_within(block: int, n: int) -> int:
    """An operation on choices under one condition becomes a choice between operations."""
    code = at(block, whole(CODES), n)
    row = get(block, ARGUMENTS) + 24 * n
    a, b = get(row, 0), get(row, 1)
    chosen_a, chosen_b = at(block, whole(CODES), abs(a)) == SELECT, at(block, whole(CODES), abs(b)) == SELECT
    if not chosen_a and not chosen_b:
        return 0
    condition = at(block, whole(ARGUMENTS), 3 * abs(a if chosen_a else b))
    sign_a, sign_b = sign_of(a), sign_of(b)
    a1, a2, b1, b2 = a, a, b, b
    if chosen_a:
        sign_a *= at(block, whole(SIGNS), abs(a))
        a1 = sign_a * at(block, whole(ARGUMENTS), 3 * abs(a) + 1)
        a2 = sign_a * at(block, whole(ARGUMENTS), 3 * abs(a) + 2)
    if chosen_b and at(block, whole(ARGUMENTS), 3 * abs(b)) == condition:
        sign_b *= at(block, whole(SIGNS), abs(b))
        b1 = sign_b * at(block, whole(ARGUMENTS), 3 * abs(b) + 1)
        b2 = sign_b * at(block, whole(ARGUMENTS), 3 * abs(b) + 2)
    first = make(block, code, a1, b1, whole(0))
    second = make(block, code, a2, b2, whole(0))
    return make(block, whole(SELECT), condition, first, second) * at(block, whole(SIGNS), n)


@compiled
def select_outside(block: int, n: int) -> int:
    """A choice between two operations becomes an operation on a choice: what both have in common comes out."""
    row = get(block, ARGUMENTS) + 24 * n
    condition, a, b = get(row, 0), get(row, 1), get(row, 2)
    code = at(block, whole(CODES), abs(a))
    sign = at(block, whole(SIGNS), n)
    sums = pick(block, whole(2)) == 0
    first = gather(block, whole(0), abs(a), sums)
    second = gather(block, whole(1), abs(b), sums)
    i = leaf(block, whole(0), first)
    x, side = field(block, whole(0), i, whole(NODE)), field(block, whole(0), i, whole(SIGN))
    if x in (ONE, ZERO):
        return 0
    if sums:
        side *= sign_of(a)
    for j in range(second):
        if field(block, whole(1), j, whole(LEFT)) < 0 and field(block, whole(1), j, whole(NODE)) == x:
            other = field(block, whole(1), j, whole(SIGN)) * (sign_of(b) if sums else 1)
            if other == side:
                set_field(block, whole(0), i, whole(REMOVED), whole(1))
                set_field(block, whole(1), j, whole(REMOVED), whole(1))
                u = rebuild(block, whole(0), first, sums) * sign_of(a)
                v = rebuild(block, whole(1), second, sums) * sign_of(b)
                chosen = make(block, whole(SELECT), condition, u, v) * sign
                if sums:
                    return make(block, whole(ADD), chosen, side * sign * x, whole(0))
                if side > 0:
                    return times(block, x, chosen)
                return make(block, whole(DIVIDE), chosen, x, whole(0))
    if code == at(block, whole(CODES), abs(b)) and code in (ADD, MULTIPLY, DIVIDE):
        # nothing in common: arguments are chosen one by one
        p, q = get(block, ARGUMENTS) + 24 * abs(a), get(block, ARGUMENTS) + 24 * abs(b)
        sign_a = sign_of(a) * at(block, whole(SIGNS), abs(a))
        sign_b = sign_of(b) * at(block, whole(SIGNS), abs(b))
        a1, a2, b1, b2 = get(p, 0), get(p, 1), get(q, 0), get(q, 1)
        if code == ADD:
            a1, a2, b1, b2 = a1 * sign_a, a2 * sign_a, b1 * sign_b, b2 * sign_b
        else:
            a1, b1 = a1 * sign_a, b1 * sign_b
        if code != DIVIDE and pick(block, whole(2)):
            b1, b2 = b2, b1
        left = make(block, whole(SELECT), condition, a1, b1)
        right = make(block, whole(SELECT), condition, a2, b2)
        return make(block, code, left, right, whole(0)) * sign
    return 0


@compiled
def move(block: int, n: int) -> int:
    """Another way to compute a node: a value, or 0."""
    code = at(block, whole(CODES), n)
    if code == SELECT:
        return select_outside(block, n)
    sums = code == ADD
    if get(block, CHOICES) and pick(block, whole(48)) == 0:
        return select_within(block, n)
    kind = pick(block, whole(16))
    if sums and kind == 0 and pick(block, whole(2)):
        return combine_terms(block, n)
    count = gather(block, whole(0), n, sums)
    if count == 3:  # two terms or factors make one pair: there is nothing to try but identities
        if sums and 7 <= kind < 14:
            kind = 0
        if not sums and kind < 8:
            kind = 15
    if sums:
        if kind < 7:
            return common_factor(block, count)
        if kind < 11:
            return pair_terms(block, count, True)
        if kind < 15:
            return pair_terms(block, count, False)
        i = leaf(block, whole(0), count)
        factors = gather(block, whole(1), field(block, whole(0), i, whole(NODE)), False)
        if not distribute(block, whole(1), factors):
            return 0
        sign = field(block, whole(0), i, whole(SIGN))
        set_field(block, whole(0), i, whole(REMOVED), whole(1))
        rest = rebuild(block, whole(0), count, True)
        rest = make(block, whole(ADD), rest, pop(block) * sign, whole(0))
        return make(block, whole(ADD), rest, pop(block) * sign, whole(0))
    if kind < 6:
        return pair_factors(block, count, True)
    if kind < 12:
        return pair_factors(block, count, False)
    if kind < 14:
        return split_quotient(block, count)
    if not distribute(block, whole(0), count):
        return 0
    a = pop(block)
    return make(block, whole(ADD), a, pop(block), whole(0))


@compiled
def meaning(block: int, reference: int) -> int:
    """The value of a reference of the program that is read."""
    if reference >= 0:
        return at(block, whole(MEANINGS), reference)
    return constant(block, get_float(get(block, NUMBERS), -1 - reference))


@compiled
def build(block: int) -> None:
    """Read a program: its inputs, operations and outputs become nodes."""
    put(block, NEXT, 1)
    put(block, TOUCHED_COUNT, 0)
    for value in range(3):
        intern(block, whole(CONSTANT), bits_of(float(value)), whole(0), whole(0))
    program, meanings = get(block, PROGRAM), get(block, MEANINGS)
    inputs = get(block, INPUTS)
    for n in range(inputs):
        put(meanings, n, intern(block, whole(INPUT), n, whole(0), whole(0)))
    for n in range(1, get(block, NEXT)):
        hold(block, n)
    for r in range(get(block, LENGTH)):
        put(block, LOGGED, 0)
        put(block, TOUCHED_COUNT, 0)
        row = program + 8 * PROGRAM_FIELDS * r
        code = get(row, 0)
        a = meaning(block, get(row, 1))
        value = -a
        if code != NEGATIVE:
            arity = at(block, whole(ARITIES), code)
            b = meaning(block, get(row, 2)) if arity > 1 else 0
            c = meaning(block, get(row, 3)) if arity > 2 else 0
            if code == SUBTRACT:
                code, b = ADD, -b
            if code == SELECT:
                put(block, CHOICES, 1)
            value = make(block, code, a, b, c)
        put(meanings, inputs + r, value)
        if get(row, 4):
            put(get(block, FROZEN), abs(value), 1)
    outputs = get(block, OUTPUTS)
    for k in range(get(block, OUTPUT_COUNT)):
        put(outputs, k, meaning(block, get(outputs, k)))
    put(block, FIRST_OUTPUT, get(block, NEXT))
    for k in range(get(block, OUTPUT_COUNT)):
        put(block, LOGGED, 0)
        put(block, TOUCHED_COUNT, 0)
        value = get(outputs, k)
        n = get(block, NEXT)
        put(block, NEXT, n + 1)
        put(get(block, CODES), n, OUTPUT)
        put(get(block, ARGUMENTS), 3 * n, value)
        hold(block, n)
    for r in range(get(block, LENGTH)):
        if get(program + 8 * PROGRAM_FIELDS * r, 4) == FOR_LIFE:
            put(block, LOGGED, 0)
            hold(block, abs(get(meanings, inputs + r)))
    for n in range(4 + inputs, get(block, FIRST_OUTPUT)):
        put(block, LOGGED, 0)
        put(block, TOUCHED_COUNT, 0)
        if at(block, whole(USES), n) == 0:
            touch(block, n)
            settle(block)
    put(block, LOGGED, 0)
    put(block, TOUCHED_COUNT, 0)
    keep(block)


@compiled
def keep(block: int) -> None:
    """The program as it is now becomes the best."""
    count = get(block, NEXT)
    put(block, UNKEPT, 0)
    put(block, BEST, get(block, COST))
    put(block, BEST_NEXT, count)
    copy(get(block, BEST_CODES), get(block, CODES), count)
    copy(get(block, BEST_SIGNS), get(block, SIGNS), count)
    copy(get(block, BEST_ARGUMENTS), get(block, ARGUMENTS), 3 * count)


def anneal(block: int) -> int:
    """Try VISITS moves; those that cost more than chance allows are undone. Returns the cost.

    Under SWEEP nodes are taken in turn, from AT on, and only moves that win are accepted. Under KEEP no move is tried:
    the program as it is becomes the best if it is.
    """
    if get(block, MODE) == BUILD:
        build(block)
        return 0
    if get(block, MODE) == KEEP:
        if get(block, COST) < get(block, BEST):
            keep(block)
        return 0
    temperature, cooling = get_float(block, TEMPERATURE), get_float(block, COOLING)
    sweep = get(block, MODE) == SWEEP
    for _ in range(get(block, VISITS)):
        if get(block, NEXT) + 600 > get(block, NODE_LIMIT):
            break
        put(block, UNKEPT, get(block, UNKEPT) + 1)
        n = 0
        if sweep:
            n = get(block, AT)
            put(block, AT, n + 1 if n + 1 < get(block, NEXT) else 1)
        else:
            n = 1 + pick(block, get(block, NEXT) - 1)
        temperature *= cooling
        if at(block, whole(USES), n) == 0 or at(block, whole(FROZEN), n):
            continue
        code = at(block, whole(CODES), n)
        if code not in (ADD, MULTIPLY, DIVIDE, SELECT):
            continue
        put(block, TRIED, get(block, TRIED) + 1)
        cost = get(block, COST)
        put(block, TARGET, n)
        put(block, FAILED, 0)
        put(block, STACKED, 0)
        v = move(block, n)
        # trees are rebuilt with the sign of the root, products gather without it
        accepted = False
        if v != 0 and abs(v) != n and not get(block, FAILED):
            put(block, TARGET, 0)
            put(block, CHANGED, get(block, CHANGED) + 1)
            define(block, n, v)
            renew(block)
            limit = 0.0
            if not sweep:
                limit = temperature * get_float(get(block, THRESHOLDS), pick(block, whole(THRESHOLD_COUNT)))
            change = get(block, COST) - cost
            accepted = not get(block, FAILED) and (change <= limit if not sweep else change < 0)
        if accepted:
            put(block, ACCEPTED, get(block, ACCEPTED) + 1)
            settle(block)
            # keeping takes time in proportion to the nodes, so not after each move of a large program
            if not sweep and get(block, COST) < get(block, BEST) and SELDOM * get(block, UNKEPT) >= get(block, NEXT):
                keep(block)
        else:
            undo(block, whole(0))
            put(block, COST, cost)
            put(block, TOUCHED_COUNT, 0)
            put(block, QUEUED_COUNT, 0)
    put_float(block, TEMPERATURE, temperature)
    return 0
