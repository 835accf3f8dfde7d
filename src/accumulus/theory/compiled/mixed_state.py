"""What `accumulus.theory.compiled.mixed_kernel` works on."""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.state import Axes, Floats, Integers, State

__all__ = [
    "BACK",
    "FACE",
    "FRONT",
    "ID_BITS",
    "KIND_BITS",
    "NOTHING",
    "SHIFT",
    "STEP",
    "TABLE",
    "VERTEX",
    "MixedState",
]

#: Two totals share an integer: the cost, then all products.
SHIFT: Final = 32
#: Items between two states that are kept.
STEP: Final = 8
#: Length of the table of -log(u).
TABLE: Final = 1024

#: Kinds of an item: nothing; a vertex; an edge from the front, from the back; a single face. Behind the kind, an item
#: says its vertices: the middle one, where it starts, where it ends.
NOTHING, VERTEX, FRONT, BACK, FACE = range(5)
KIND_BITS: Final = 3
ID_BITS: Final = 20


class MixedState(State):
    """A sequence that is annealed. Labels and vertices are numbered; rows are bitsets of labels, of `words` words.

    Attributes:
        graph: the line graph as far as a trial has got, (size,); the next nine are its parts.
        present: which labels there are, a row.
        above, beneath: predecessors and successors of each label, (64 * words, words).
        starts, ends: the vertices where each label does, (64 * words,).
        levels: of labels; see `accumulus.search.elimination`.
        values: of labels; see the kernel.
        out, into: the labels that start and that end at each vertex, (vertices, words).
        snapshots: memory for graphs that are kept or tried, (snapshots, size).
        costs, prints: of each snapshot: cost so far, and fingerprint.
        kept: number of the snapshot before every STEP-th item of the list; the first is of the graph as it is given.
        tried: those of the list on trial, from where it begins; else snapshots that are free.
        items, trial, best_items: the current list, the one on trial and the best so far, (length,).
        touched: labels that have to be looked at, a row.
        sizes, kinds: of vertices; their kinds are those of `accumulus.theory.compiled.faces_state`.
        logarithms: -log(u), (TABLE,).
        log: faces that were taken and their products, -1 where none is kept, (products, 3).
        random: state of the generator, (1,).
        words, length, size: see above.
        fma: 1 if all products count.
        best: total of the best list.
        faces: 1 if single faces may be items.
        moves: that a call may make.
        work: products, and moves, that a call may make.
        cost: of the line graph in `graph`.
        total: of the current list.
        overflow: 1 if there is no room for a label.
        logged: faces that were written down; -1 writes none.
        started: 0 begins with the list in `items`.
        temperature, cooling: and its factor for each move.
        tie: weight of the total that breaks ties.
    """

    graph: Integers
    present: Integers
    above: Integers
    beneath: Integers
    starts: Integers
    ends: Integers
    levels: Integers
    values: Integers
    out: Integers
    into: Integers
    snapshots: Integers
    costs: Integers
    prints: Integers
    kept: Integers
    tried: Integers
    items: Integers
    trial: Integers
    best_items: Integers
    touched: Integers
    sizes: Integers
    kinds: Integers
    logarithms: Floats
    log: Annotated[Integers, Axes(3)]
    random: Integers
    words: int
    length: int
    size: int
    fma: int
    best: int
    faces: int = 0
    moves: int = 0
    work: int = 0
    cost: int = 0
    total: int = 0
    overflow: int = 0
    logged: int = -1
    started: int = 0
    temperature: float = 0.0
    cooling: float = 0.0
    tie: float
