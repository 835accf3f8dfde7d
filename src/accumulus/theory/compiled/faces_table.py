"""What `accumulus.theory.compiled.faces_kernel` knows of line graphs: their hashes up to isomorphism, and its table."""

from __future__ import annotations

from accumulus.native.decorators import compiled
from accumulus.native.words import bit, lowest, scattered, without_lowest, wrapped
from accumulus.theory.compiled.faces_graph import labels_at
from accumulus.theory.compiled.faces_state import PROBES, ROOT, TERMINAL, FacesState, Frame

__all__ = ["store_bound", "stored_bound", "write_hash"]


@compiled
def refine(state: FacesState, depth: int, rounds: int) -> None:
    """Colour each label by its colour and those around it."""
    kinds, sums, colours, recoloured = state.kinds, state.sums, state.colours, state.recoloured
    labels, present = labels_at(state, depth), state.frames[depth].present
    for _ in range(rounds):
        for v in range(state.vertices):
            sums[v] = 0
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits = without_lowest(bits)
            colour, start, end = colours[x], labels[x].start, labels[x].end
            if kinds[start] == ROOT:
                sums[start] = wrapped(sums[start] + scattered(colour ^ 0x1F3D5B79))
            if kinds[end] == TERMINAL:
                sums[end] = wrapped(sums[end] + scattered(colour ^ 0x2E4C6A88))
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits = without_lowest(bits)
            total, start, end = colours[x] * 0x1B873593, labels[x].start, labels[x].end
            if kinds[start] == ROOT:
                total += scattered(sums[start] ^ 0x5851F42D)
            if kinds[end] == TERMINAL:
                total += scattered(sums[end] ^ 0x4C957F2D)
            near = labels[x].above
            while near != 0:
                total += scattered(colours[lowest(near)] ^ 0x27D4EB2F)
                near = without_lowest(near)
            near = labels[x].below
            while near != 0:
                total += scattered(colours[lowest(near)] ^ 0x165667B1)
                near = without_lowest(near)
            recoloured[x] = scattered(total)
        bits = present
        while bits != 0:
            x = lowest(bits)
            bits = without_lowest(bits)
            colours[x] = recoloured[x]


@compiled
def sort(state: FacesState, depth: int) -> int:
    """Labels by colour; returns how many there are."""
    colours, order, count = state.colours, state.order, 0
    bits = state.frames[depth].present
    while bits != 0:
        x = lowest(bits)
        bits = without_lowest(bits)
        at = count
        while at > 0 and colours[order[at - 1]] > colours[x]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = x
        count += 1
    return count


@compiled
def canonical_order(state: FacesState, depth: int) -> int:
    """Labels in an order that depends on the graph up to isomorphism only; returns how many there are."""
    sizes, kinds, colours, order = state.sizes, state.kinds, state.colours, state.order
    labels, bits = labels_at(state, depth), state.frames[depth].present
    while bits != 0:
        x = lowest(bits)
        bits = without_lowest(bits)
        label = labels[x]
        colour = scattered(sizes[label.start] * 3 + kinds[label.start])
        colour += 5 * scattered(sizes[label.end] * 3 + kinds[label.end] + 7)
        colours[x] = scattered(colour + label.level)
    refine(state, depth, 3)
    while True:
        count = sort(state, depth)
        tie = -1
        for t in range(count - 1):
            if colours[order[t]] == colours[order[t + 1]]:
                tie = order[t]
                break
        if tie < 0:
            return count
        colours[tie] = scattered(colours[tie] + 1)
        refine(state, depth, 2)


@compiled
def write_hash(state: FacesState, depth: int) -> None:
    """Write the hash of the line graph at a depth into its frame."""
    count = canonical_order(state, depth)
    sizes, kinds, sums, ranks, order = state.sizes, state.kinds, state.sums, state.ranks, state.order
    labels, frame = labels_at(state, depth), state.frames[depth]
    for t in range(count):
        ranks[order[t]] = t
    # roots and terminals are numbered as they first occur
    for v in range(state.vertices):
        sums[v] = 0
    seen = 0
    first, second = count, ~count
    for t in range(count):
        label = labels[order[t]]
        start, end = label.start, label.end
        above = below = 0
        if kinds[start] == ROOT:
            if sums[start] == 0:
                seen += 1
                sums[start] = seen
            above = sums[start]
        if kinds[end] == TERMINAL:
            if sums[end] == 0:
                seen += 1
                sums[end] = seen
            below = sums[end]
        row, near = 0, label.below
        while near != 0:
            row |= bit(ranks[lowest(near)])
            near = without_lowest(near)
        about = (above << 24) | (below << 8) | label.level
        extent = (sizes[start] << 31) ^ sizes[end]
        first = scattered(scattered(scattered(first ^ row) + about) ^ extent)
        second = scattered(scattered(scattered(second + row) ^ (about << 7)) + extent * 0x1B873593)
    frame.first, frame.second = first, second


@compiled
def stored_bound(state: FacesState, frame: Frame) -> int:
    """What the rest of a line graph costs at least, as far as the table knows."""
    mask = (1 << state.table_bits) - 1
    for probe in range(PROBES):
        entry = state.table[(frame.first + probe) & mask]
        if entry.first == frame.first and entry.second == frame.second:
            return entry.rest
    return 0


@compiled
def store_bound(state: FacesState, frame: Frame, rest: int) -> None:
    """Enter what the rest of a line graph costs at least."""
    mask, first, second = (1 << state.table_bits) - 1, frame.first, frame.second
    chosen = state.table[(first + (second & (PROBES - 1))) & mask]
    for probe in range(PROBES):
        entry = state.table[(first + probe) & mask]
        if entry.rest == 0 or (entry.first == first and entry.second == second):
            chosen = entry
            break
    chosen.first, chosen.second, chosen.rest = first, second, rest
