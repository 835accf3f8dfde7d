"""What `accumulus.theory.compiled.faces_kernel` works on."""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.state import Axes, Integers, Record, Records, State

__all__ = [
    "BACK",
    "DONE",
    "FRONT",
    "INNER",
    "MORE",
    "MOST",
    "MOST_DEPTH",
    "MOST_MOVES",
    "MOST_STEPS",
    "PROBES",
    "ROOT",
    "TERMINAL",
    "Entry",
    "FacesState",
    "Frame",
    "Label",
    "Move",
]

#: Labels of a line graph, at most: they are bits of one word.
MOST: Final = 64
#: Levels of the search, moves in each, steps of a plan, at most.
MOST_DEPTH: Final = 256
MOST_MOVES: Final = 512
MOST_STEPS: Final = 2048
#: Entries of the table that a state may have its own in, from the one that its hash says on.
PROBES: Final = 4

#: Kinds of the vertices of the graph.
INNER, ROOT, TERMINAL = range(3)
#: Sides from which edges are eliminated.
FRONT, BACK = range(2)
#: What a call says: it is over, it may go on.
DONE, MORE = range(2)


class Label(Record):
    """A vertex of a line graph.

    Attributes:
        above, below: its predecessors and successors, as bits.
        start, end: where it starts and ends in the graph.
        level: see `accumulus.search.elimination`.
    """

    above: int
    below: int
    start: int
    end: int
    level: int


class Frame(Record):
    """A depth of the search: its line graph, and how far it is done with.

    Attributes:
        present: the labels that there are, as bits.
        left: what is left to do costs at least so much.
        cost: so far.
        length: steps that led here.
        moves: that are listed.
        next: the first move that has not been made.
        first, second: halves of the line graph's hash.
    """

    present: int
    left: int
    cost: int
    length: int
    moves: int
    next: int
    first: int
    second: int


class Move(Record):
    """A move from a line graph.

    Attributes:
        bound: on plans that make it.
        a, b: the labels of a face, or an edge's label and its side.
    """

    bound: int
    a: int
    b: int


class Entry(Record):
    """What is known of a line graph, and of those that are isomorphic to it.

    Attributes:
        first, second: halves of its hash.
        rest: what is left to do costs at least so much; 0 for an entry that is free.
    """

    first: int
    second: int
    rest: int


class FacesState(State):
    """A search over face or edge eliminations.

    Attributes:
        frames: of each depth, (MOST_DEPTH,); depth 0 holds the line graph that every search begins with.
        labels: of the line graph at each depth, (MOST_DEPTH, MOST).
        paths: the tracked paths that go through each label, (MOST_DEPTH, MOST, words).
        moves: of each depth, the most promising first, (MOST_DEPTH, MOST_MOVES).
        log, best_log: steps of the present and of the best plan, (MOST_STEPS, 3): two labels and their product, or
            the ends of an edge and its side.
        table: what is known of line graphs, (2**table_bits + PROBES,).
        weights: of the tracked paths.
        tracked: the tracked paths that belong to each vertex of the graph, (vertices, words).
        sizes, kinds: of each vertex of the graph.
        colours, recoloured, ranks: of labels, before and after a round, and in their order, (MOST,).
        order: labels by colour, (MOST,).
        sums: of colours, for each vertex of the graph.
        words: of a set of tracked paths.
        vertices: of the graph.
        table_bits: see `table`.
        fma: 1 if all products count.
        edges: 1 if edges are eliminated instead of faces.
        series: 1 if there are moves that are never a mistake; see the kernel.
        limit: the most that a plan may cost.
        best: cost of the plan in `best_log`; -1 if none was found.
        best_length: of `best_log`, in steps.
        depth: of the search; -1 to begin.
        length: of `log`, in steps.
        budget: moves that a call tries.
        tried: moves of all calls.
        overflow: 1 if there was no room for a label, a move, a step or a depth.
    """

    frames: Records[Frame]
    labels: Records[Label]
    paths: Integers
    moves: Records[Move]
    log: Annotated[Integers, Axes(3)]
    best_log: Annotated[Integers, Axes(3)]
    table: Records[Entry]
    weights: Integers
    tracked: Integers
    sizes: Integers
    kinds: Integers
    colours: Integers
    recoloured: Integers
    ranks: Integers
    order: Integers
    sums: Integers
    words: int
    vertices: int
    table_bits: int
    fma: int
    edges: int
    series: int
    limit: int = 0
    best: int = -1
    best_length: int = 0
    depth: int = -1
    length: int = 0
    budget: int = 0
    tried: int = 0
    overflow: int = 0
