"""The line graphs of `accumulus.theory.compiled.faces_kernel`: what products cost, and what they change."""

from __future__ import annotations

from accumulus.native.decorators import compiled
from accumulus.native.state import Integers, Records
from accumulus.native.words import bit, lowest, without_lowest
from accumulus.theory.compiled.faces_state import MOST, ROOT, TERMINAL, FacesState, Frame, Label

__all__ = ["copy_graph", "cost_of", "labels_at", "product"]


@compiled
def labels_at(state: FacesState, depth: int) -> Records[Label]:
    """Labels of the line graph at a depth."""
    return state.labels[depth * MOST :]


@compiled
def paths_at(state: FacesState, depth: int) -> Integers:
    """Tracked paths through the labels at a depth."""
    return state.paths[depth * MOST * state.words :]


@compiled
def copy_graph(state: FacesState, depth: int) -> None:
    """Copy the line graph at a depth to the next."""
    frame, following, words = state.frames[depth], state.frames[depth + 1], state.words
    labels, paths = labels_at(state, depth), paths_at(state, depth)
    next_labels, next_paths = labels_at(state, depth + 1), paths_at(state, depth + 1)
    following.present, following.left = frame.present, frame.left
    bits = frame.present
    while bits != 0:
        x = lowest(bits)
        bits = without_lowest(bits)
        label, copied = labels[x], next_labels[x]
        copied.above, copied.below = label.above, label.below
        copied.start, copied.end, copied.level = label.start, label.end, label.level
        for w in range(x * words, (x + 1) * words):
            next_paths[w] = paths[w]


@compiled
def cost_of(state: FacesState, first: Label, second: Label) -> int:
    """Cost of the product of two labels."""
    if not state.fma:
        a, b = first.level, second.level
        if a == 1 or b == 1 or (a == 2 and b == 2):
            return 0
    sizes = state.sizes
    cost: int = sizes[first.start] * sizes[first.end] * sizes[second.end]
    return cost


@compiled
def add_level(label: Label, level: int) -> None:
    """Level of a label after another one of that level has been added to it."""
    label.level = max(label.level, level, 2)


@compiled
def unlink(frame: Frame, labels: Records[Label], x: int) -> int:
    """Remove a label and return its neighbours."""
    above, below = labels[x].above, labels[x].below
    keep = ~bit(x)
    bits = above
    while bits != 0:
        labels[lowest(bits)].below &= keep
        bits = without_lowest(bits)
    bits = below
    while bits != 0:
        labels[lowest(bits)].above &= keep
        bits = without_lowest(bits)
    frame.present &= keep
    return above | below


@compiled
def twin(labels: Records[Label], others: int, start: int, end: int, above: int, below: int) -> int:
    """The first of those labels with these ends, predecessors and successors; -1 if there is none."""
    while others != 0:
        y = lowest(others)
        others = without_lowest(others)
        other = labels[y]
        if other.start == start and other.end == end and other.above == above and other.below == below:
            return y
    return -1


@compiled
def settle(state: FacesState, depth: int, touched: int) -> None:
    """Remove what is isolated and merge what has equal neighbours, until nothing changes."""
    kinds, words, frame = state.kinds, state.words, state.frames[depth]
    labels, paths = labels_at(state, depth), paths_at(state, depth)
    while touched != 0:
        x = lowest(touched)
        touched = without_lowest(touched)
        if frame.present & bit(x) == 0:
            continue
        label = labels[x]
        if (label.above == 0 and kinds[label.start] != ROOT) or (label.below == 0 and kinds[label.end] != TERMINAL):
            touched |= unlink(frame, labels, x)
            continue
        others = frame.present & ~bit(x)
        y = twin(labels, others, label.start, label.end, label.above, label.below)
        while y >= 0:
            add_level(label, labels[y].level)
            for w in range(words):
                paths[x * words + w] |= paths[y * words + w]
            touched |= unlink(frame, labels, y)
            others &= ~bit(y)
            y = twin(labels, others, label.start, label.end, label.above, label.below)


@compiled
def product(state: FacesState, depth: int, i: int, j: int) -> int:
    """Eliminate the face ⟨i,j⟩; returns the label that is the product, -1 if there is no room for it."""
    words, weights, tracked, frame = state.words, state.weights, state.tracked, state.frames[depth]
    labels, paths = labels_at(state, depth), paths_at(state, depth)
    above, below, start, end = labels[i].above, labels[j].below, labels[i].start, labels[j].end
    middle, level = labels[i].end, max(labels[i].level, labels[j].level)
    k = twin(labels, frame.present, start, end, above, below)
    if k >= 0:
        add_level(labels[k], level)
    else:
        room = ~frame.present
        if room == 0:
            state.overflow = 1
            return -1
        k = lowest(room)
        made = labels[k]
        frame.present |= bit(k)
        made.above, made.below, made.start, made.end, made.level = above, below, start, end, level
        for w in range(words):
            paths[k * words + w] = 0
        bits = above
        while bits != 0:
            labels[lowest(bits)].below |= bit(k)
            bits = without_lowest(bits)
        bits = below
        while bits != 0:
            labels[lowest(bits)].above |= bit(k)
            bits = without_lowest(bits)
    for w in range(words):
        joined = paths[i * words + w] & paths[j * words + w]
        paths[i * words + w] &= ~joined
        paths[j * words + w] &= ~joined
        paths[k * words + w] |= joined
        paid = joined & tracked[middle * words + w]
        while paid != 0:
            frame.left -= weights[(w << 6) + lowest(paid)]
            paid = without_lowest(paid)
    labels[i].below &= ~bit(j)
    labels[j].above &= ~bit(i)
    settle(state, depth, bit(i) | bit(j) | bit(k) | above | below)
    return k
