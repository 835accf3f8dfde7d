"""Slots of the block that `accumulus.search.compiled.mixed_kernel` works on, and how it lays out its memory."""

from __future__ import annotations

from typing import Final

#: Slots that hold addresses of arrays; see `accumulus.search.mixed`.
KEPT, TRIED, STATE, ITEMS, TRIAL, BEST_ITEMS, SIZES, ENDS, LOGARITHMS, LOG, TOUCHED = range(11)
#: Integers: the problem. FACES says whether single faces may be items, FMA whether all products count.
VERTICES, WORDS, LENGTH, STATE_WORDS, FMA, FACES = range(11, 17)
#: Integers: state of the search. MOVES and WORK are what a call may do; LOGGED counts the faces that are written down.
MOVES, WORK, TOTAL, BEST, RANDOM, OVERFLOW, LOGGED, STARTED = range(17, 25)
#: Floats: temperature, its factor per move, and the weight of the total that breaks ties.
TEMPERATURE, COOLING, TIE = range(25, 28)
SLOTS: Final = 28

#: Two totals share an integer: the cost, then all products.
SHIFT: Final = 32
#: Items between two states that are kept.
STEP: Final = 8
#: Length of the table of -log(u).
TABLE: Final = 1024

#: Kinds of an item: nothing; a vertex; an edge from the front, from the back; a single face. Then come its vertices.
NOTHING, VERTEX, FRONT, BACK, FACE = range(5)
KIND_BITS: Final = 3
ID_BITS: Final = 20

#: A state: cost so far, fingerprint, then rows of WORDS words: which labels there are; the predecessors of each, its
#: successors. Then a word with the ends and the level of each label, one with its value. Last, rows again: for each
#: vertex of the graph the labels that start there, those that end there.
COST, PRINT, PRESENT = range(3)
