"""Line graphs as bitset rows: the state that the searches over faces and edges share, and its operations.

A label (`accumulus.elimination.edges_and_faces`) has a row of predecessors, a row of successors, the vertices of the
graph at its start and end, and a level (`accumulus.search.elimination`); a vertex has rows of the labels that start and
that end there. Roots and terminals are not labels, and products from a root to a terminal are not kept, since nothing
depends on them any more. Labels are merged only if their starts and ends are equal, too.

The state lies in one array, so copying the array copies the line graph.
"""

from __future__ import annotations

from accumulus.native.decorators import compiled
from accumulus.native.state import Integers, State
from accumulus.native.words import bit, copy, lowest, wrapped

#: Kinds of the vertices of the graph.
INNER, ROOT, TERMINAL = range(3)


class LineState(State):
    """A line graph. Labels and vertices are numbered; rows are bitsets of labels, of `words` words."""

    graph: Integers  # the line graph, (size,); the next ten fields are views of it
    present: Integers  # row of the existing labels
    # above, beneath: predecessors and successors of each label, (64 * words, words)
    above: Integers
    beneath: Integers
    # starts, ends: start and end vertex of each label, (64 * words,)
    starts: Integers
    ends: Integers
    levels: Integers  # of labels; see `accumulus.search.elimination`
    values: Integers  # values of labels modulo 2⁶⁴: products and sums of the edges' values
    # out, into: rows of the labels that start and that end at each vertex, (vertices, words)
    out: Integers
    into: Integers
    paths: Integers  # tracked paths through each label, as bits, (64 * words, path_words)
    touched: Integers  # row of the labels that `settle_labels` has to check
    # sizes, kinds: of vertices
    sizes: Integers
    kinds: Integers
    # words, path_words, size: see above
    words: int
    path_words: int
    size: int
    fma: int  # 1 if all products count
    overflow: int = 0  # 1 if a label number or the log has no room


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
    """Add an element to a row, or remove it."""
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
    """Add a label to the rows of all labels of another row, or remove it."""
    other = element(near, words, 0)
    while other >= 0:
        flip(rows[other * words :], x)
        other = element(near, words, other + 1)


# Faces ---------------------------------------------------------------------------------------------------------------


@compiled
def _link(state: LineState, x: int) -> None:
    """Add a label to the rows of its neighbours and ends, or remove it."""
    words = state.words
    _flip_among(state.beneath, state.above[x * words :], words, x)
    _flip_among(state.above, state.beneath[x * words :], words, x)
    flip(state.out[state.starts[x] * words :], x)
    flip(state.into[state.ends[x] * words :], x)
    flip(state.present, x)


@compiled
def _twin(state: LineState, x: int, start: int, end: int, above: Integers, beneath: Integers) -> int:
    """Return another label with these ends, predecessors and successors; -1 if there is none."""
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
    """Add a term of some level and value to a label."""
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
    """Return True if the product of labels of these levels costs no multiplication: by ±1, or of two constants."""
    return a == 1 or b == 1 or (a == 2 and b == 2)


@compiled
def eliminate_face(state: LineState, i: int, j: int) -> int:
    """Replace the face ⟨i,j⟩ by its product; return the product's label, or -1 if it is not kept.

    Call `settle_labels` afterwards, before anything else.
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
    """Remove isolated labels and merge labels with equal neighbours, among touched labels and their neighbours."""
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
