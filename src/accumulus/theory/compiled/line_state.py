"""Line graphs as bitset rows, and what kernels do to them: the state that searches of faces and edges have in common.

A label (`accumulus.elimination.edges_and_faces`) has a row of predecessors, one of successors, the vertices of the
graph where it starts and ends, and a level (`accumulus.search.elimination`); a vertex has rows of the labels that start
and that end there. Roots and terminals are no labels, and what goes from a root to a terminal is never kept: nothing
depends on it any more. Merging needs equal starts and ends, too.

The whole of it lies in one array, so that a copy of that is a copy of the line graph.
"""

from __future__ import annotations

from accumulus.native.decorators import compiled
from accumulus.native.state import Integers, State
from accumulus.native.words import bit, copy, lowest, wrapped

#: Kinds of the vertices of the graph.
INNER, ROOT, TERMINAL = range(3)


class LineState(State):
    """A line graph. Labels and vertices are numbered; rows are bitsets of labels, of `words` words."""

    graph: Integers  # the line graph, (size,); the next ten are its parts
    present: Integers  # which labels there are, a row
    # above, beneath: predecessors and successors of each label, (64 * words, words)
    above: Integers
    beneath: Integers
    # starts, ends: the vertices where each label does, (64 * words,)
    starts: Integers
    ends: Integers
    levels: Integers  # of labels; see `accumulus.search.elimination`
    values: Integers  # of labels modulo 2⁶⁴: products and sums of what the search gives to edges
    # out, into: the labels that start and that end at each vertex, (vertices, words)
    out: Integers
    into: Integers
    paths: Integers  # tracked paths through each label, as bits, (64 * words, path_words)
    touched: Integers  # labels that have to be looked at, a row
    # sizes, kinds: of vertices
    sizes: Integers
    kinds: Integers
    # words, path_words, size: see above
    words: int
    path_words: int
    size: int
    fma: int  # 1 if all products count
    overflow: int = 0  # 1 if there is no room for what the search needs


# Rows ----------------------------------------------------------------------------------------------------------------


@compiled
def common(a: Integers, b: Integers, words: int, x: int) -> int:
    """Return the first element that two rows have in common, from x on; -1 if there is none."""
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
    """Return the first element of a row, from x on; -1 if there is none."""
    return common(row, row, words, x)


@compiled
def flip(row: Integers, x: int) -> None:
    """Take an element into a row, or out of it."""
    row[x >> 6] ^= bit(x & 63)


@compiled
def _equal(a: Integers, b: Integers, words: int) -> bool:
    """Return True if two rows are equal."""
    w = 0
    while w < words and a[w] == b[w]:
        w += 1
    return w == words


@compiled
def _flip_among(rows: Integers, near: Integers, words: int, x: int) -> None:
    """Take a label into the rows of all labels of another row, or out of them."""
    other = element(near, words, 0)
    while other >= 0:
        flip(rows[other * words :], x)
        other = element(near, words, other + 1)


# Faces ---------------------------------------------------------------------------------------------------------------


@compiled
def _link(state: LineState, x: int) -> None:
    """Put a label into the rows of its neighbours and ends, or take it out of them."""
    words = state.words
    _flip_among(state.beneath, state.above[x * words :], words, x)
    _flip_among(state.above, state.beneath[x * words :], words, x)
    flip(state.out[state.starts[x] * words :], x)
    flip(state.into[state.ends[x] * words :], x)
    flip(state.present, x)


@compiled
def _twin(state: LineState, x: int, start: int, end: int, above: Integers, beneath: Integers) -> int:
    """Return a label but x with these ends, predecessors and successors; -1 if there is none."""
    words = state.words
    out, into = state.out[start * words :], state.into[end * words :]
    y = common(out, into, words, 0)
    while y >= 0:
        if (
            y != x
            and _equal(state.above[y * words :], above, words)
            and _equal(state.beneath[y * words :], beneath, words)
        ):
            return y
        y = common(out, into, words, y + 1)
    return -1


@compiled
def _add(state: LineState, x: int, level: int, value: int) -> None:
    """Add something of that level and value to a label."""
    state.levels[x] = max(state.levels[x], level, 2)
    state.values[x] = wrapped(state.values[x] + value)


@compiled
def _touch(state: LineState, near: Integers) -> None:
    """Mark all labels of a row for `settle_labels`."""
    touched = state.touched
    for w in range(state.words):
        touched[w] |= near[w]


@compiled
def _free(state: LineState) -> int:
    """Return the first number that no label has; -1 if there is none."""
    for w in range(state.words):
        room = ~state.present[w]
        if room != 0:
            return (w << 6) + lowest(room)
    return -1


@compiled
def is_free(a: int, b: int) -> bool:
    """Return True if labels of these levels have a product that is no multiplication: with ±1, or of two constants."""
    return a == 1 or b == 1 or (a == 2 and b == 2)


@compiled
def eliminate_face(state: LineState, i: int, j: int) -> int:
    """Replace the face ⟨i,j⟩ by its product, and return the label that this is; -1 if it is not kept.

    Before anything else, `settle_labels` is to be called.
    """
    words, kinds = state.words, state.kinds
    start, end = state.starts[i], state.ends[j]
    level, value = max(state.levels[i], state.levels[j]), wrapped(state.values[i] * state.values[j])
    above, beneath = state.above[i * words :], state.beneath[j * words :]
    flip(state.beneath[i * words :], j)
    flip(state.above[j * words :], i)
    flip(state.touched, i)
    flip(state.touched, j)
    if kinds[start] == ROOT and kinds[end] == TERMINAL:
        return -1
    k = _twin(state, -1, start, end, above, beneath)
    if k >= 0:
        _add(state, k, level, value)
        return k
    k = _free(state)
    if k < 0:
        state.overflow = 1
        return -1
    state.starts[k], state.ends[k], state.levels[k], state.values[k] = start, end, level, value
    for w in range(state.path_words):
        state.paths[k * state.path_words + w] = 0
    copy(state.above[k * words :], above, words)
    copy(state.beneath[k * words :], beneath, words)
    _link(state, k)
    _touch(state, above)
    _touch(state, beneath)
    return k


@compiled
def settle_labels(state: LineState) -> None:
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
                y = _twin(state, x, start, end, above, beneath)
                if y >= 0:
                    _add(state, y, state.levels[x], state.values[x])
                    for w in range(state.path_words):
                        state.paths[y * state.path_words + w] |= state.paths[x * state.path_words + w]
                    gone = True
            if gone:
                _link(state, x)
                _touch(state, above)
                _touch(state, beneath)
        x = element(touched, words, 0)
