"""The line graph of `accumulus.theory.compiled.mixed_kernel`: what a product costs, and what it changes."""

from __future__ import annotations

from accumulus.native.decorators import compiled
from accumulus.native.state import Integers
from accumulus.native.words import bit, copy, lowest, scattered, wrapped
from accumulus.theory.compiled.faces_state import ROOT, TERMINAL
from accumulus.theory.compiled.mixed_state import ID_BITS, SHIFT, MixedState

__all__ = ["common", "element", "fingerprint", "product"]


@compiled
def common(a: Integers, b: Integers, words: int, x: int) -> int:
    """The first element that two rows have in common, from x on; -1 if there is none."""
    w = x >> 6
    if w >= words:
        return -1
    bits = a[w] & b[w] & ((-1) << (x & 63))
    while bits == 0:
        w += 1
        if w >= words:
            return -1
        bits = a[w] & b[w]
    return (w << 6) + lowest(bits)


@compiled
def element(row: Integers, words: int, x: int) -> int:
    """The first element of a row, from x on; -1 if there is none."""
    return common(row, row, words, x)


@compiled
def equal(a: Integers, b: Integers, words: int) -> bool:
    """Whether two rows are equal."""
    w = 0
    while w < words and a[w] == b[w]:
        w += 1
    return w == words


@compiled
def flip(row: Integers, x: int) -> None:
    """Take an element into a row, or out of it."""
    row[x >> 6] ^= bit(x & 63)


@compiled
def flip_among(rows: Integers, near: Integers, words: int, x: int) -> None:
    """Take a label into the rows of all labels of another row, or out of them."""
    other = element(near, words, 0)
    while other >= 0:
        flip(rows[other * words :], x)
        other = element(near, words, other + 1)


@compiled
def link(state: MixedState, x: int) -> None:
    """Put a label into the rows of its neighbours and ends, or take it out of them."""
    words = state.words
    flip_among(state.beneath, state.above[x * words :], words, x)
    flip_among(state.above, state.beneath[x * words :], words, x)
    flip(state.out[state.starts[x] * words :], x)
    flip(state.into[state.ends[x] * words :], x)
    flip(state.present, x)


@compiled
def twin(state: MixedState, x: int, start: int, end: int, above: Integers, beneath: Integers) -> int:
    """A label but x with these ends, predecessors and successors; -1 if there is none."""
    words = state.words
    out, into = state.out[start * words :], state.into[end * words :]
    y = common(out, into, words, 0)
    while y >= 0:
        if (
            y != x
            and equal(state.above[y * words :], above, words)
            and equal(state.beneath[y * words :], beneath, words)
        ):
            return y
        y = common(out, into, words, y + 1)
    return -1


@compiled
def add(state: MixedState, x: int, level: int, value: int) -> None:
    """Add something of that level and value to a label."""
    state.levels[x] = max(state.levels[x], level, 2)
    state.values[x] = wrapped(state.values[x] + value)


@compiled
def touch(state: MixedState, near: Integers) -> None:
    """Have all labels of a row looked at by `settle`."""
    touched = state.touched
    for w in range(state.words):
        touched[w] |= near[w]


@compiled
def settle(state: MixedState) -> None:
    """Remove what is isolated, and merge what has equal neighbours, among the labels that were touched and around."""
    words, kinds, touched = state.words, state.kinds, state.touched
    x = element(touched, words, 0)
    while x >= 0:
        flip(touched, x)
        if state.present[x >> 6] & bit(x & 63) != 0:
            start, end = state.starts[x], state.ends[x]
            above, beneath = state.above[x * words :], state.beneath[x * words :]
            gone = (kinds[start] != ROOT and element(above, words, 0) < 0) or (
                kinds[end] != TERMINAL and element(beneath, words, 0) < 0
            )
            if not gone:
                y = twin(state, x, start, end, above, beneath)
                if y >= 0:
                    add(state, y, state.levels[x], state.values[x])
                    gone = True
            if gone:
                link(state, x)
                touch(state, above)
                touch(state, beneath)
        x = element(touched, words, 0)


@compiled
def charge(state: MixedState, i: int, j: int) -> None:
    """Add what the product of two labels costs."""
    sizes, a, b = state.sizes, state.levels[i], state.levels[j]
    price = sizes[state.starts[i]] * sizes[state.ends[i]] * sizes[state.ends[j]]
    counted = 0 if a == 1 or b == 1 or (a == 2 and b == 2) else price
    high, low = (price, counted) if state.fma else (counted, price)
    state.cost += (high << SHIFT) + low


@compiled
def free(state: MixedState) -> int:
    """The first number that no label has; -1 if there is none."""
    for w in range(state.words):
        room = ~state.present[w]
        if room != 0:
            return (w << 6) + lowest(room)
    return -1


@compiled
def product(state: MixedState, i: int, j: int) -> None:
    """Eliminate the face ⟨i,j⟩."""
    words, kinds, touched = state.words, state.kinds, state.touched
    charge(state, i, j)
    start, end = state.starts[i], state.ends[j]
    level, value = max(state.levels[i], state.levels[j]), wrapped(state.values[i] * state.values[j])
    above, beneath = state.above[i * words :], state.beneath[j * words :]
    flip(state.beneath[i * words :], j)
    flip(state.above[j * words :], i)
    flip(touched, i)
    flip(touched, j)
    k = -1
    if kinds[start] != ROOT or kinds[end] != TERMINAL:
        k = twin(state, -1, start, end, above, beneath)
        if k >= 0:
            add(state, k, level, value)
        else:
            k = free(state)
            if k < 0:
                state.overflow = 1
                return
            state.starts[k], state.ends[k], state.levels[k], state.values[k] = start, end, level, value
            copy(state.above[k * words :], above, words)
            copy(state.beneath[k * words :], beneath, words)
            link(state, k)
            touch(state, above)
            touch(state, beneath)
    logged = state.logged
    if logged >= 0:
        state.log[logged, 0], state.log[logged, 1], state.log[logged, 2] = i, j, k
        state.logged = logged + 1
    state.work -= 1
    settle(state)


@compiled
def fingerprint(state: MixedState) -> int:
    """A number that is equal for equal line graphs, whatever the numbers of their labels."""
    words, present, values = state.words, state.present, state.values
    total = 0
    x = element(present, words, 0)
    while x >= 0:
        inner, beneath = 0, state.beneath[x * words :]
        y = element(beneath, words, 0)
        while y >= 0:
            inner += scattered(values[y])
            y = element(beneath, words, y + 1)
        about = state.starts[x] | (state.ends[x] << ID_BITS) | (state.levels[x] << (2 * ID_BITS))
        total += scattered(values[x] + scattered(inner + 3 * about))
        x = element(present, words, x + 1)
    return wrapped(total)
