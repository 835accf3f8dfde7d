"""The nodes of `accumulus.rewriting.compiled.rewrite_kernel`: found by their definitions, and made in normal form."""

from __future__ import annotations

from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import bits_of, definition_hash, float_of, logged
from accumulus.rewriting.compiled.rewrite_state import BUILD, CONSTANT, ONE, TWO, ZERO, RewriteState
from accumulus.tape.compiled.passes_state import COMMUTATIVE, EVEN, ODD
from accumulus.tape.operations import BY_NAME

__all__ = [
    "constant",
    "intern",
    "is_constant",
    "lookup",
    "make",
    "make_choice",
    "make_product",
    "make_quotient",
    "make_sum",
    "number",
    "sign_of",
    "take_out",
    "touch",
]

ADD: Final = BY_NAME["add"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
SQRT: Final = BY_NAME["sqrt"].code
SELECT: Final = BY_NAME["select"].code


@compiled
def sign_of(value: int) -> int:
    """-1 or 1."""
    return -1 if value < 0 else 1


# The table of definitions ------------------------------------------------------------------------------------------


@compiled
def home(state: RewriteState, code: int, a: int, b: int, c: int) -> int:
    """Where the search for a definition begins."""
    return definition_hash(code, a, b, c, state.table_bits)


@compiled
def home_of(state: RewriteState, n: int) -> int:
    """Where the search for a node's definition begins."""
    arguments = state.arguments
    return home(state, state.codes[n], arguments[n, 0], arguments[n, 1], arguments[n, 2])


@compiled
def lookup(state: RewriteState, code: int, a: int, b: int, c: int) -> int:
    """The node with that definition, or minus the free place for it, less one."""
    table, mask = state.table, (1 << state.table_bits) - 1
    codes, arguments = state.codes, state.arguments
    place = home(state, code, a, b, c)
    while True:
        n: int = table[place]
        if n == 0:
            return -place - 1
        if codes[n] == code and arguments[n, 0] == a and arguments[n, 1] == b and arguments[n, 2] == c:
            return n
        place = (place + 1) & mask


@compiled
def take_out(state: RewriteState, n: int) -> None:
    """Remove a node from the table, if it is there; call before its definition changes."""
    table, mask = logged(state).table, (1 << state.table_bits) - 1
    hole = home_of(state, n)
    while table[hole] != n:
        if table[hole] == 0:
            return
        hole = (hole + 1) & mask
    place = hole
    while True:
        place = (place + 1) & mask
        other = table[place]
        if other == 0:
            break
        if ((place - home_of(state, other)) & mask) >= ((place - hole) & mask):
            table[hole] = other
            hole = place
    table[hole] = 0


# Nodes -------------------------------------------------------------------------------------------------------------


@compiled
def touch(state: RewriteState, n: int) -> None:
    """Remember a node that may have no uses when the move is over."""
    state.touched[state.touched_count] = n
    state.touched_count += 1


@compiled
def intern(state: RewriteState, code: int, a: int, b: int, c: int) -> int:
    """Value of a definition in normal form: of the node that has it, or of a new one."""
    found = lookup(state, code, a, b, c)
    if found > 0:
        if found == state.target:
            state.failed = 1
        sign: int = state.signs[found]
        return found * sign
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
    logged(state).table[-found - 1] = n
    touch(state, n)
    return n


@compiled
def constant(state: RewriteState, value: float) -> int:
    """The value of a number."""
    if value < 0.0:
        return -intern(state, CONSTANT, bits_of(-value), 0, 0)
    return intern(state, CONSTANT, bits_of(value), 0, 0)


@compiled
def number(state: RewriteState, a: int) -> float:
    """The number that a constant stands for."""
    value = float_of(state.arguments[abs(a), 0])
    return -value if a < 0 else value


@compiled
def is_constant(state: RewriteState, a: int) -> bool:
    """Whether a value is a number."""
    code: int = state.codes[abs(a)]
    return code == CONSTANT


@compiled
def is_finite(value: float) -> bool:
    """Whether a number is neither infinite nor NaN, nor too small to be exact."""
    return 1e-290 < abs(value) < 1e290


# Normal forms ------------------------------------------------------------------------------------------------------


@compiled
def make_product(state: RewriteState, a: int, b: int) -> int:
    """The value of a · b."""
    sign = -1 if (a < 0) != (b < 0) else 1
    a, b = abs(a), abs(b)
    if a == ONE:
        return sign * b
    if b == ONE:
        return sign * a
    if ZERO in (a, b):
        return ZERO
    if is_constant(state, a) and is_constant(state, b):
        value = number(state, a) * number(state, b)
        if is_finite(value):
            return sign * constant(state, value)
    if a == b and state.codes[a] == SQRT and state.mode != BUILD:
        under: int = state.arguments[a, 0]
        return sign * under
    if a > b:
        a, b = b, a
    return sign * intern(state, MULTIPLY, a, b, 0)


@compiled
def make_sum(state: RewriteState, a: int, b: int) -> int:
    """The value of a + b."""
    if abs(a) == ZERO:
        return b
    if abs(b) == ZERO:
        return a
    if is_constant(state, a) and is_constant(state, b):
        return constant(state, number(state, a) + number(state, b))
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
    """The value of a / b."""
    sign = -1 if (a < 0) != (b < 0) else 1
    a, b = abs(a), abs(b)
    if b == ONE:
        return sign * a
    if a == ZERO:
        return a
    # operations that have to stay as they are come as they are
    if state.mode == BUILD:
        return sign * intern(state, DIVIDE, a, b, 0)
    if a == b:
        return sign * ONE
    if state.codes[b] == SQRT and state.arguments[b, 0] == a:
        return sign * b
    if state.codes[a] == SQRT and state.arguments[a, 0] == b:
        a, b = ONE, a
    if is_constant(state, b) and number(state, b) != 0.0:
        value = 1.0 / number(state, b)
        if is_finite(value):
            if a == ONE:
                return sign * constant(state, value)
            if not is_constant(state, a):
                b = constant(state, value)
                if a > b:
                    a, b = b, a
                return sign * intern(state, MULTIPLY, a, b, 0)
            value = number(state, a) / number(state, b)
            if is_finite(value):
                return sign * constant(state, value)
    return sign * intern(state, DIVIDE, a, b, 0)


@compiled
def make_choice(state: RewriteState, condition: int, b: int, c: int) -> int:
    """The value of b where the condition holds, and of c elsewhere."""
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
def make(state: RewriteState, code: int, a: int, b: int, c: int) -> int:
    """The value of an operation: simplified, in normal form, interned."""
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
