"""Nodes of the rewriter: found, made, used, merged, read from a program and stored.

Definitions are interned in a hash table, so equal ones are one node. Each node counts its uses and chains them in a
list. A node whose definition changes is removed from the table, inserted again, and merged with an equal node.
"""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import Axes, Floats, Integers, Record, Records, Undoable
from accumulus.native.words import copy, definition_hash, logged, scattered, shifted_right
from accumulus.rewriting.compiled.fields import minus, plus, raised, times
from accumulus.tape.compiled.passes_kernel import COMMUTATIVE, EVEN, ODD
from accumulus.tape.operations import BY_NAME, INPUT
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SELECT, SUBTRACT

#: Nodes of constants that every program has, and their places among the numbers.
ZERO, ONE, TWO = 1, 2, 3
#: Codes beyond those of the table of operations.
CONSTANT, OUTPUT = 254, 255
#: Modes of a call.
ANNEAL, SWEEP, BUILD, KEEP = range(4)
#: Marks an operation that is kept even without uses.
FOR_LIFE: Final = 2
#: Largest number of entries of a tree.
TREE_SIZE: Final = 64
#: Largest number of terms of a linear combination.
TERM_COUNT: Final = 48
THRESHOLD_COUNT: Final = 1024


class GivenOperation(Record):
    """An operation of the program that is read."""

    code: int  # of the operation
    # references of its arguments
    first: int
    second: int
    third: int
    stays: int  # 1 if it must be kept as written; `FOR_LIFE` if even without uses


class TreeEntry(Record):
    """An entry of a tree of sums, or of products and quotients."""

    node: int  # what it stands for
    sign: int  # sign of a term; -1 for a factor that divides
    # entries of its arguments; left is -1 for a leaf
    left: int
    right: int
    value: int  # value of the node without the removed leaves
    removed: int  # 1 if the leaf was removed


class LinearTerm(Record):
    """A term of a linear combination: a multiple of a node."""

    node: int
    coefficient: int  # place of its magnitude among the numbers, negative for a negative one


class Number(Record):
    """A positive number, or 0: given, or made of two others."""

    # its value is high + low
    high: float
    low: float
    residue: int  # of its exact value
    code: int  # operation that makes it; 0 if it is given
    # operands: places, negative for negative ones
    first: int
    second: int


class RewriteState(Undoable):
    """A network of nodes, from 1 on, and the state of its rewriting.

    The *place* of an argument is three times its node's number, plus the argument's position.
    """

    mode: int  # one of the modes above
    codes: Integers  # operation of each node
    # arguments: nodes, negative for a negative; position of an input; place of a constant among the numbers
    arguments: Annotated[Integers, Axes(3)]
    signs: Integers  # sign by which the operation is multiplied
    uses: Integers  # number of uses; a node without uses is dead
    heads: Integers  # place of its first use; 0 if there is none
    # for each place, the next and the previous use of the same node; 0 ends the list
    nexts: Integers
    previous: Integers
    frozen: Integers  # 1 if the node must not change
    fused: Integers  # 1 if the node is a sum that is fused with a product
    queued: Integers  # 1 if the node waits to be renewed
    freed: Integers  # 1 if its number is free
    node_limit: int  # capacity for nodes
    next: int = 1  # first number that was never used
    # price, number of arguments and properties of each operation, by its code; for properties, see
    # `accumulus.tape.compiled.passes_kernel`
    weights: Integers
    arities: Integers
    properties: Integers
    credit: int  # saving of a sum that is fused with a product
    table: Integers  # nodes by their definitions, open addressing; 0 where there is none
    table_bits: int  # of its size
    log_limit: int  # writes that the log has room for
    stack: Integers  # stack of nodes that become live or die, or that a move has made
    stacked: int = 0  # their number
    queue: Integers  # nodes that wait to be renewed
    queue_count: int = 0  # their number
    free: Integers  # numbers of nodes that are free
    free_count: int = 0  # how many
    touched: Integers  # nodes that the move has made or dropped
    touched_count: int = 0  # their number
    tree: Records[TreeEntry]  # tree of the moved node
    part: Records[TreeEntry]  # tree of one of its terms, or of its second branch
    other: Records[TreeEntry]  # tree of another term
    found: Records[LinearTerm]  # terms of a linear combination, (TERM_COUNT,)
    waiting: Records[LinearTerm]  # terms that may still be opened, (TERM_COUNT,)
    thresholds: Floats  # -ln of probabilities that are spread evenly, (THRESHOLD_COUNT,)
    random: Integers  # state of the generator, (1,)
    visits: int = 0  # moves to try in a call
    at: int = 0  # next node of a sweep
    inline: int = 0  # probability of opening a sum or product that is used elsewhere, in 1024ths
    target: int = 0  # node of the current move
    failed: int = 0  # 1 if the move came back to this node, or exceeded the log
    # the temperature, and its factor for each visit
    temperature: float = 0.0
    cooling: float = 0.0
    cost: int = 0  # cost of the network
    # number of moves tried, of those that changed something, of those accepted
    tried: int = 0
    changed: int = 0
    accepted: int = 0
    best: int = 0  # least cost of a stored network
    # definitions of the best network
    best_codes: Integers
    best_arguments: Annotated[Integers, Axes(3)]
    best_signs: Integers
    best_next: int = 0  # its `next`
    unkept: int = 0  # moves since the best network was stored
    program: Records[GivenOperation]  # operations to read
    length: int  # their number
    inputs: int  # number of inputs
    meanings: Integers  # value of each reference that is an input or an operation
    outputs: Integers  # references of the outputs; once they are read, their values
    output_count: int  # their number
    first_output: int = 0  # node of the first; the others follow
    given: Integers  # the program's constants: places among the numbers, negative for negative ones
    choices: int = 0  # 1 if the program has choices
    numbers: Records[Number]  # numbers that constants stand for, from 1 on
    number_count: int  # their number, 0 included, which does not exist
    number_limit: int  # capacity for numbers
    number_table: Integers  # finite numbers by their residues, open addressing; 0 for a free slot
    number_bits: int  # logarithm of its length
    # modulus of residues, and its reciprocal
    prime: int
    reciprocal: float


SQRT: Final = BY_NAME["sqrt"].code


@compiled
def sign_of(value: int) -> int:
    """Return -1 or 1."""
    return -1 if value < 0 else 1


# The table of definitions ------------------------------------------------------------------------------------------


@compiled
def home(state: RewriteState, code: int, a: int, b: int, c: int) -> int:
    """Return the slot at which the search for a definition begins."""
    return definition_hash(code, a, b, c, state.table_bits)


@compiled
def home_of(state: RewriteState, n: int) -> int:
    """Return the slot at which the search for a node's definition begins."""
    arguments = state.arguments
    return home(state, state.codes[n], arguments[n, 0], arguments[n, 1], arguments[n, 2])


@compiled
def lookup(state: RewriteState, code: int, a: int, b: int, c: int) -> int:
    """Return the node with a definition, or -1 - (its free slot)."""
    table, mask = state.table, (1 << state.table_bits) - 1
    codes, arguments = state.codes, state.arguments
    slot = home(state, code, a, b, c)
    while True:
        n: int = table[slot]
        if n == 0:
            return -slot - 1
        if codes[n] == code and arguments[n, 0] == a and arguments[n, 1] == b and arguments[n, 2] == c:
            return n
        slot = (slot + 1) & mask


@compiled
def take_out(state: RewriteState, n: int) -> None:
    """Remove a node from the table, if it is there; call this before its definition changes."""
    table, mask = logged(state).table, (1 << state.table_bits) - 1
    hole = home_of(state, n)
    while table[hole] != n:
        if table[hole] == 0:
            return
        hole = (hole + 1) & mask
    slot = hole
    while True:
        slot = (slot + 1) & mask
        other = table[slot]
        if other == 0:
            break
        if ((slot - home_of(state, other)) & mask) >= ((slot - hole) & mask):
            table[hole] = other
            hole = slot
    table[hole] = 0


# Nodes -------------------------------------------------------------------------------------------------------------


@compiled
def touch(state: RewriteState, n: int) -> None:
    """Note a node that may be without uses after the move."""
    state.touched[state.touched_count] = n
    state.touched_count += 1


@compiled
def intern(state: RewriteState, code: int, a: int, b: int, c: int) -> int:
    """Return the value of a definition in normal form: that of an existing node, or of a new one."""
    existing = lookup(state, code, a, b, c)
    if existing > 0:
        if existing == state.target:
            state.failed = 1
        sign: int = state.signs[existing]
        return existing * sign
    n = state.next
    if state.free_count > 0:
        n = state.free[state.free_count - 1]
        logged(state).free_count = state.free_count - 1
        logged(state).freed[n] = 0
    else:
        logged(state).next = n + 1
    state.codes[n] = code
    state.arguments[n, 0] = a
    state.arguments[n, 1] = b
    state.arguments[n, 2] = c
    state.signs[n] = 1
    state.uses[n] = 0
    state.heads[n] = 0
    state.frozen[n] = 0
    state.fused[n] = 0
    state.queued[n] = 0
    logged(state).table[-existing - 1] = n
    touch(state, n)
    return n


# Numbers -------------------------------------------------------------------------------------------------------------
#
# Constants are folded exactly: a number is known by its residue modulo a prime, so that two ways to one number arrive
# at the same node, and its value has twice the digits of a double.

#: Factor that halves the digits of a double (T. J. Dekker, A floating-point technique for extending the available
#: precision, Numer. Math. 18, 1971).
SPLITTER: Final = 134217729.0
#: Least size of a sum relative to its terms: of smaller ones, too few digits are known.
CANCELLED: Final = 2.0**-40


@compiled
def is_finite(value: float) -> bool:
    """Return True if a number is finite, and large enough to be exact."""
    return 1e-290 < abs(value) < 1e290


@compiled
def number_slot(state: RewriteState, residue: int) -> int:
    """Return the slot of the number with a residue, or its free slot."""
    slot = shifted_right(scattered(residue), 64 - state.number_bits)
    while state.number_table[slot] and state.numbers[state.number_table[slot]].residue != residue:
        slot = (slot + 1) & ((1 << state.number_bits) - 1)
    return slot


@compiled
def enter_number(state: RewriteState, high: float, low: float, residue: int, code: int, a: int, b: int) -> int:
    """Return the place of a number that two others make, negative if it is; 0 if there is no room for it."""
    if residue == 0:
        return ZERO
    sign = 1
    if high < 0.0:
        sign, high, low, residue = -1, -high, -low, minus(residue, state.prime)
    if not is_finite(high):
        return 0
    slot = number_slot(state, residue)
    place: int = state.number_table[slot]
    if place == 0:
        place = state.number_count
        if place >= state.number_limit:
            return 0
        state.number_count = place + 1
        state.number_table[slot] = place
        entry = state.numbers[place]
        entry.high = high
        entry.low = low
        entry.residue = residue
        entry.code = code
        entry.first = a
        entry.second = b
    return sign * place


@compiled
def product_low(a: float, b: float, product: float) -> float:
    """Return the rounding error of a product."""
    x, y = SPLITTER * a, SPLITTER * b
    first, second = x - (x - a), y - (y - b)
    rest_a, rest_b = a - first, b - second
    return ((first * second - product) + first * rest_b + rest_a * second) + rest_a * rest_b


@compiled
def number_product(state: RewriteState, a: int, b: int) -> int:
    """Return the product of two numbers, given by their places; 0 if it is out of range."""
    if ZERO in (abs(a), abs(b)):
        return ZERO
    sign = 1 if (a < 0) == (b < 0) else -1
    a, b = abs(a), abs(b)
    if a == ONE:
        return sign * b
    if b == ONE:
        return sign * a
    x, y = state.numbers[a], state.numbers[b]
    high = x.high * y.high
    if not (is_finite(x.high) and is_finite(y.high) and is_finite(high)):
        return 0
    low = product_low(x.high, y.high, high) + (x.high * y.low + x.low * y.high)
    total = high + low
    residue = times(x.residue, y.residue, state.prime, state.reciprocal)
    return sign * enter_number(state, total, low - (total - high), residue, MULTIPLY, a, b)


@compiled
def number_quotient(state: RewriteState, a: int, b: int) -> int:
    """Return the quotient of two numbers, given by their places; 0 if it is out of range."""
    sign = 1 if (a < 0) == (b < 0) else -1
    a, b = abs(a), abs(b)
    if b == ONE:
        return sign * a
    x, y = state.numbers[a], state.numbers[b]
    if not (is_finite(x.high) and is_finite(y.high) and is_finite(x.high / y.high)):
        return 0
    high = x.high / y.high
    product = high * y.high
    rest = ((x.high - product) - product_low(high, y.high, product)) + (x.low - high * y.low)
    low = rest / y.high
    total = high + low
    inverse = raised(y.residue, state.prime - 2, state.prime, state.reciprocal)
    residue = times(x.residue, inverse, state.prime, state.reciprocal)
    return sign * enter_number(state, total, low - (total - high), residue, DIVIDE, a, b)


@compiled
def number_sum(state: RewriteState, a: int, b: int) -> int:
    """Return the sum of two numbers, given by their places; 0 if it is out of range, or too little of it is known."""
    if abs(a) == ZERO:
        return b
    if abs(b) == ZERO:
        return a
    x, y = state.numbers[abs(a)], state.numbers[abs(b)]
    if not (is_finite(x.high) and is_finite(y.high)):
        return 0
    one, two = sign_of(a) * x.high, sign_of(b) * y.high
    first, second = x.residue, y.residue
    first = first if a > 0 else minus(first, state.prime)
    residue = plus(first, second if b > 0 else minus(second, state.prime), state.prime)
    if residue == 0:
        return ZERO
    high = one + two
    part = high - one
    low = (one - (high - part)) + (two - part) + (sign_of(a) * x.low + sign_of(b) * y.low)
    total = high + low
    if abs(total) < CANCELLED * max(abs(one), abs(two)):
        return 0
    return enter_number(state, total, low - (total - high), residue, ADD, a, b)


@compiled
def constant_node(state: RewriteState, place: int) -> int:
    """Return the value of a number, given by its place."""
    return sign_of(place) * intern(state, CONSTANT, abs(place), 0, 0)


@compiled
def place_of(state: RewriteState, a: int) -> int:
    """Return the place of the number that a constant stands for, negative if it is."""
    place: int = state.arguments[abs(a), 0]
    return -place if a < 0 else place


@compiled
def is_constant_node(state: RewriteState, a: int) -> bool:
    """Return True if a value is a constant."""
    code: int = state.codes[abs(a)]
    return code == CONSTANT


# Normal forms ------------------------------------------------------------------------------------------------------


@compiled
def make_product(state: RewriteState, a: int, b: int) -> int:
    """Return the value of a · b."""
    sign = -1 if (a < 0) != (b < 0) else 1
    a, b = abs(a), abs(b)
    if a == ONE:
        return sign * b
    if b == ONE:
        return sign * a
    if ZERO in (a, b):
        return ZERO
    if is_constant_node(state, a) and is_constant_node(state, b):
        place = number_product(state, place_of(state, a), place_of(state, b))
        if place:
            return sign * constant_node(state, place)
    if a == b and state.codes[a] == SQRT and state.mode != BUILD:
        under: int = state.arguments[a, 0]
        return sign * under
    if a > b:
        a, b = b, a
    return sign * intern(state, MULTIPLY, a, b, 0)


@compiled
def make_sum(state: RewriteState, a: int, b: int) -> int:
    """Return the value of a + b."""
    if abs(a) == ZERO:
        return b
    if abs(b) == ZERO:
        return a
    if is_constant_node(state, a) and is_constant_node(state, b):
        place = number_sum(state, place_of(state, a), place_of(state, b))
        if place:
            return constant_node(state, place)
    if a == b:
        return make_product(state, a, TWO)
    if abs(a) > abs(b):
        a, b = b, a
    sign = 1
    if a < 0:
        sign, a, b = -1, -a, -b
    return sign * intern(state, ADD, a, b, 0)


@compiled
def make_quotient(state: RewriteState, a: int, b: int) -> int:
    """Return the value of a / b."""
    sign = -1 if (a < 0) != (b < 0) else 1
    a, b = abs(a), abs(b)
    if b == ONE:
        return sign * a
    if a == ZERO:
        return a
    # frozen operations are not simplified
    if state.mode == BUILD:
        return sign * intern(state, DIVIDE, a, b, 0)
    if a == b:
        return sign * ONE
    if state.codes[b] == SQRT and state.arguments[b, 0] == a:
        return sign * b
    if state.codes[a] == SQRT and state.arguments[a, 0] == b:
        a, b = ONE, a
    if is_constant_node(state, b) and b != ZERO:
        over = place_of(state, a) if is_constant_node(state, a) else ONE
        place = number_quotient(state, over, place_of(state, b))
        if place and is_constant_node(state, a):
            return sign * constant_node(state, place)
        if place:
            b = constant_node(state, place)
            if a > b:
                a, b = b, a
            return sign * intern(state, MULTIPLY, a, b, 0)
    return sign * intern(state, DIVIDE, a, b, 0)


@compiled
def make_choice(state: RewriteState, condition: int, b: int, c: int) -> int:
    """Return the value of b where the condition holds, and of c elsewhere."""
    if b == c:
        return b
    sign = 1
    if b < 0 or (b == ZERO and c < 0):
        sign = -1
        if b != ZERO:
            b = -b
        if c != ZERO:
            c = -c
    return sign * intern(state, SELECT, condition, b, c)


@compiled
def make_node(state: RewriteState, code: int, a: int, b: int, c: int) -> int:
    """Return the value of an operation: simplified, in normal form, interned."""
    if code == ADD:
        return make_sum(state, a, b)
    if code == MULTIPLY:
        return make_product(state, a, b)
    if code == DIVIDE:
        return make_quotient(state, a, b)
    if code == SELECT:
        return make_choice(state, a, b, c)
    properties, sign = state.properties[code], 1
    if a < 0:
        if properties & ODD:
            sign, a = -1, -a
        elif properties & EVEN:
            a = -a
    if properties & COMMUTATIVE and a > b:
        a, b = b, a
    return sign * intern(state, code, a, b, c)


@compiled
def link(state: RewriteState, use: int, m: int) -> None:
    """Insert an argument's place into the list of uses of a node."""
    written, head = logged(state), state.heads[m]
    written.nexts[use] = head
    written.previous[use] = 0
    if head:
        written.previous[head] = use
    written.heads[m] = use


@compiled
def unlink(state: RewriteState, use: int, m: int) -> None:
    """Remove an argument's place from the list of uses of a node."""
    before, after = state.previous[use], state.nexts[use]
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
def fuse_node(state: RewriteState, n: int) -> None:
    """Fuse a sum with a product that has no other use; call this when its arguments or their uses change."""
    takes_product = 0
    for k in range(2):
        m = abs(state.arguments[n, k])
        if state.codes[m] == MULTIPLY and state.uses[m] == 1:
            takes_product = 1
    was = state.fused[n]
    if takes_product != was:
        logged(state).fused[n] = takes_product
        state.cost += (was - takes_product) * state.credit


@compiled
def release(state: RewriteState, n: int) -> None:
    """End the fusion of a node that dies, or is no sum any more."""
    if state.fused[n]:
        logged(state).fused[n] = 0
        state.cost += state.credit


@compiled
def fuse_users(state: RewriteState, m: int, most: int) -> None:
    """Check the fusion of at most `most` sums among the users of a node."""
    use = state.heads[m]
    while use and most:
        user = use // 3
        if state.codes[user] == ADD and state.uses[user]:
            fuse_node(state, user)
        use = state.nexts[use]
        most -= 1


@compiled
def recounted(state: RewriteState, m: int) -> None:
    """Check the fusion of sums that use a product, after its uses became one or two."""
    if state.credit and state.codes[m] == MULTIPLY:
        fuse_users(state, m, 2)


@compiled
def use(state: RewriteState, m: int) -> None:
    """Add one use; a node that had none goes to the stack, to be revived."""
    uses = state.uses[m]
    logged(state).uses[m] = uses + 1
    if uses == 0:
        push(state, m)
    else:
        recounted(state, m)


@compiled
def leave(state: RewriteState, m: int) -> None:
    """Remove one use; a node that has none left goes to the stack, to die."""
    uses = state.uses[m] - 1
    logged(state).uses[m] = uses
    if uses == 0:
        push(state, m)
    else:
        recounted(state, m)


@compiled
def hold(state: RewriteState, n: int) -> None:
    """Add one use; the first use revives a node and its operands."""
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
            fuse_node(state, p)


@compiled
def drop(state: RewriteState, n: int) -> None:
    """Remove one use; a node without uses dies, and with it the nodes that only it used."""
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
def merge_nodes(state: RewriteState, n: int, v: int) -> None:
    """Replace a node by an equal value in all its uses, and queue the users to be renewed."""
    m = abs(v)
    uses = state.uses[n]
    if state.logged + 200 * uses + 2_000 > state.log_limit:
        state.failed = 1
        return
    hold(state, m)
    while True:
        use = state.heads[n]
        if use == 0:
            break
        user = use // 3
        code = state.codes[user]
        if code != OUTPUT and not state.queued[user]:
            take_out(state, user)
            logged(state).queued[user] = 1
            state.queue[state.queue_count] = user
            state.queue_count += 1
        unlink(state, use, n)
        k = use - 3 * user
        logged(state).arguments[user, k] = sign_of(state.arguments[user, k]) * v
        link(state, use, m)
        logged(state).uses[m] = state.uses[m] + 1
        if state.credit and code == ADD:
            fuse_node(state, user)
        if state.uses[n] > 1:
            logged(state).uses[n] = state.uses[n] - 1
    drop(state, n)
    drop(state, m)
    recounted(state, m)


@compiled
def define(state: RewriteState, n: int, v: int) -> None:
    """Redefine a node by the value v: it takes v's definition if v is new; else v replaces it everywhere."""
    m, sign = abs(v), sign_of(v)
    if m == n:
        return
    code = state.codes[m]
    if state.uses[m] or code in (INPUT, CONSTANT):
        merge_nodes(state, n, v)
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
    slot = lookup(state, code, arguments[n, 0], arguments[n, 1], arguments[n, 2])
    if slot < 0:
        logged(state).table[-slot - 1] = n
    arity = state.arities[old]
    if arity > 0:
        drop(state, abs(a))
    if arity > 1:
        drop(state, abs(b))
    if arity > 2:
        drop(state, abs(c))
    if state.credit:
        if code == ADD:
            fuse_node(state, n)
        # its users may be fused with it now, or no longer
        fuse_users(state, n, state.uses[n])


@compiled
def renew(state: RewriteState) -> None:
    """Bring nodes with changed arguments into normal form, and merge equal nodes."""
    while state.queue_count > 0 and not state.failed:
        state.queue_count -= 1
        n = state.queue[state.queue_count]
        logged(state).queued[n] = 0
        if state.uses[n] == 0:
            continue
        a, b, c = state.arguments[n, 0], state.arguments[n, 1], state.arguments[n, 2]
        v = make_node(state, state.codes[n], a, b, c)
        define(state, n, v * state.signs[n])


@compiled
def settle(state: RewriteState) -> None:
    """Free the numbers of nodes without uses, after an accepted move."""
    for t in range(state.touched_count):
        n = state.touched[t]
        if state.uses[n] == 0 and state.freed[n] == 0:
            take_out(state, n)
            state.freed[n] = 1
            state.free[state.free_count] = n
            state.free_count += 1
    state.touched_count = 0
    state.logged = 0


@compiled
def meaning(state: RewriteState, reference: int) -> int:
    """Return the value of a reference of the program that is read."""
    if reference >= 0:
        value: int = state.meanings[reference]
        return value
    return constant_node(state, state.given[-1 - reference])


@compiled
def keep_program(state: RewriteState) -> None:
    """Store the current program as the best."""
    count = state.next
    state.unkept = 0
    state.best = state.cost
    state.best_next = count
    copy(state.best_codes, state.codes, count)
    copy(state.best_signs, state.signs, count)
    for n in range(count):
        for k in range(3):
            state.best_arguments[n, k] = state.arguments[n, k]


@compiled
def build_nodes(state: RewriteState) -> None:
    """Read a program: its inputs, operations and outputs become nodes."""
    for place in range(ONE, state.number_count):
        slot = number_slot(state, state.numbers[place].residue)
        if is_finite(state.numbers[place].high) and state.number_table[slot] == 0:
            state.number_table[slot] = place
    state.next = 1
    state.touched_count = 0
    for place in (ZERO, ONE, TWO):
        intern(state, CONSTANT, place, 0, 0)
    meanings, inputs = state.meanings, state.inputs
    for n in range(inputs):
        meanings[n] = intern(state, INPUT, n, 0, 0)
    for n in range(1, state.next):
        hold(state, n)
    for r in range(state.length):
        state.logged = 0
        state.touched_count = 0
        operation = state.program[r]
        code = operation.code
        a = meaning(state, operation.first)
        value = -a
        if code != NEGATIVE:
            arity = state.arities[code]
            b = meaning(state, operation.second) if arity > 1 else 0
            c = meaning(state, operation.third) if arity > 2 else 0
            if code == SUBTRACT:
                code, b = ADD, -b
            if code == SELECT:
                state.choices = 1
            value = make_node(state, code, a, b, c)
        meanings[inputs + r] = value
        if operation.stays:
            state.frozen[abs(value)] = 1
    outputs = state.outputs
    for k in range(state.output_count):
        outputs[k] = meaning(state, outputs[k])
    state.first_output = state.next
    for k in range(state.output_count):
        state.logged = 0
        state.touched_count = 0
        value = outputs[k]
        n = state.next
        state.next += 1
        state.codes[n] = OUTPUT
        state.arguments[n, 0] = value
        hold(state, n)
    for r in range(state.length):
        if state.program[r].stays == FOR_LIFE:
            state.logged = 0
            hold(state, abs(meanings[inputs + r]))
    for n in range(4 + inputs, state.first_output):
        state.logged = 0
        state.touched_count = 0
        if state.uses[n] == 0:
            touch(state, n)
            settle(state)
    state.logged = 0
    state.touched_count = 0
    keep_program(state)
