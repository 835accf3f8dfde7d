"""A tape cut into cones: trees of operations of which nothing but the root is used elsewhere.

A cone ends in an output, in a value that is used more than once, or in a term of a sum; deep ones are cut. Sums of
many terms are no trees of additions, but cones of a kind of their own, whose terms are one column; those that reach a
jump, or what sees the signs of zeros, are computed as they were recorded, and stay trees.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.machine import kernel
from accumulus.native.state import Integers
from accumulus.repetition.compiled.cones_kernel import (
    ABSENT,
    COMPARE,
    CUT,
    FORMS,
    INSIDE,
    LEVELS,
    ROOT,
    STEPS,
    SUMS,
    USERS,
    WIDTH,
    ConesState,
)
from accumulus.tape.blocks import SUM
from accumulus.tape.live import as_written, needed, seeing_zero_signs, signed_zeros
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.passes import rows_of
from accumulus.tape.tape import Tape

#: Operations on the longest way down a cone: deeper ones, in which nothing is used twice, are recurrences themselves.
DEEPEST: Final = 256
#: Terms from which on a tree of additions is a sum: fewer are better added where their results are needed.
LEAST_TERMS: Final = 16
_ADD, _SUBTRACT, _NEGATIVE = (BY_NAME[name].code for name in ("add", "subtract", "negative"))
#: Arguments whose value, where it is a constant, decides what the operation is.
_LITERAL: Final = {"power": 0b010, "divide": 0b001, "select": 0b111, "attach": 0b001}


class Cones:
    """The live operations of a tape as cones.

    Attributes:
        live: how many operations outputs need.
        count: of cones.
        sees_zero_signs: whether an operation tells zeros of different signs apart.
        roots: reference of each cone's root, in an order in which they can be computed: that of the program. Beyond the
            tape's own are negatives of terms that were subtracted in sums.
        cone_of: by reference, the place of a root among them, else -1.
        constants: of the tape, and the negatives of those that were subtracted in sums.
    """

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.constants = list(tape.constants)
        self.sees_zero_signs = len(seeing_zero_signs(tape)) > 0
        rows = rows_of(tape)
        live = np.frombuffer(needed(tape), bool) & (np.arange(len(tape)) >= tape.inputs)
        self.live = int(np.count_nonzero(live))
        codes, arguments = rows[:, 0].copy(), rows[:, 1:].copy()
        codes[~live] = 0
        uses = _uses(tape, codes, arguments, live)
        additive = live & np.isin(codes, (_ADD, _SUBTRACT)) & ~np.frombuffer(as_written(tape), bool)
        additive &= ~signed_zeros(tape)
        self._state = ConesState(
            inputs=tape.inputs,
            count=len(tape),
            codes=codes,
            arguments=arguments,
            additive=additive.astype(np.int64),
            uses=uses,
            least=LEAST_TERMS,
            literal=_by_code({BY_NAME[name].code: mask for name, mask in _LITERAL.items()}),
            commutative=_by_code({row.code: int(row.commutative) for row in OPERATIONS}),
            arity=_by_code({row.code: row.arity for row in OPERATIONS}),
        )
        is_root = live & (uses > 1)
        is_root[[output for output in tape.outputs if output >= tape.inputs]] = True
        places = 2 * np.arange(len(tape)) + 1
        if additive.any():
            codes, arguments, live, is_root, places = self._with_sums(live, is_root, places)
        self._cut(codes, arguments, live, is_root, places)

    def _with_sums(
        self, live: NDArray[np.bool_], is_root: NDArray[np.bool_], places: Integers
    ) -> tuple[Integers, Integers, NDArray[np.bool_], NDArray[np.bool_], Integers]:
        """Codes, arguments, what is live and a root, and places in the program, with sums for their additions."""
        state, tape = self._state, self.tape
        length = len(tape)
        state.sizes, state.owners, state.signs = np.zeros((3, length), np.int64)
        state.term_owners, state.terms, state.term_signs, state.term_places = np.zeros((4, 2 * self.live), np.int64)
        _perform(state, SUMS)
        count = state.term_count
        # they were found the last first
        owners, terms, signs, at = (
            column[:count][::-1] for column in (state.term_owners, state.terms, state.term_signs, state.term_places)
        )
        order = np.argsort(owners, kind="stable")
        owners, terms, subtracted, at = owners[order], terms[order].copy(), signs[order] == 1, at[order]
        codes, arguments = state.codes, state.arguments
        for k in np.flatnonzero(subtracted & (terms < 0)).tolist():
            self.constants.append(-self.constants[-1 - terms[k]])
            terms[k] = -len(self.constants)
        subtracted &= terms >= 0
        values, first, which = np.unique(terms[subtracted], return_index=True, return_inverse=True)
        new = length + np.arange(len(values))
        is_root[terms[~subtracted & (terms >= tape.inputs)]] = True
        terms[subtracted] = new[which]
        state.terms = terms
        parts = state.owners > 0
        live = live & ~parts
        # the last addition of each sum is the sum
        tops = np.zeros(state.sums + 1, np.int64)
        np.maximum.at(tops, state.owners[parts], np.flatnonzero(parts))
        tops = tops[1:]
        live[tops] = is_root[tops] = True
        codes[tops] = SUM
        begins = np.searchsorted(owners, np.arange(1, state.sums + 2))
        arguments[tops, 0], arguments[tops, 1] = begins[:-1], begins[1:]
        negated = np.zeros((len(values), 3), np.int64)
        negated[:, 0] = values
        every = np.ones(len(values), bool)
        return (
            np.concatenate([codes, np.full(len(values), _NEGATIVE)]),
            np.concatenate([arguments, negated]),
            np.concatenate([live, every]),
            np.concatenate([is_root, every]),
            np.concatenate([places, 2 * at[subtracted][first]]),
        )

    def _cut(
        self,
        codes: Integers,
        arguments: Integers,
        live: NDArray[np.bool_],
        is_root: NDArray[np.bool_],
        places: Integers,
    ) -> None:
        state = self._state
        self.length = state.count = len(codes)
        state.codes, state.arguments = codes, arguments
        state.roles = np.where(live, np.where(is_root, ROOT, INSIDE), ABSENT)
        state.levels, state.often, state.deepest = np.zeros(self.length, np.int64), np.zeros(256, np.int64), DEEPEST
        _perform(state, CUT)
        roots = np.flatnonzero(state.roles == ROOT)
        self.roots = state.roots = roots[np.argsort(places[roots], kind="stable")]
        self.count = state.root_count = len(roots)
        self.cone_of = np.full(self.length + 1, -1)  # the last stands for constants
        self.cone_of[self.roots] = np.arange(len(roots))
        leaves = len(state.terms) + 3 * int(np.count_nonzero(live))
        state.labels, state.hashes, state.stamps, state.slots, state.levels = np.zeros((5, self.length), np.int64)
        state.stack = np.zeros(2 * int(np.count_nonzero(live)) + 8, np.int64)
        state.words = np.zeros(WIDTH * int(np.count_nonzero(live)), np.int64)
        state.leaves = np.zeros(leaves, np.int64)
        state.word_offsets, state.leaf_offsets = np.zeros((2, self.count + 1), np.int64)
        state.forms = np.zeros(self.count, np.int64)

    def forms(self, labels: Integers) -> Integers:
        """A hash of each cone: of its operations, and of the labels of what it takes.

        Args:
            labels: of all cones.
        """
        self._state.labels[self.roots] = labels
        _perform(self._state, FORMS)
        return self._state.forms.copy()

    def users(self, labels: Integers) -> Integers:
        """For each cone two words that tell by which others it is taken, and in which places; after `forms`."""
        state = self._state
        state.labels[self.roots] = labels
        state.marks = np.zeros((self.length, 2), np.int64)
        _perform(state, USERS)
        return state.marks[self.roots]

    @property
    def words(self) -> tuple[Integers, Integers]:
        """Forms of all cones one after the other, and where each begins; as `forms` has made them."""
        return self._state.words, self._state.word_offsets

    @property
    def leaves(self) -> tuple[Integers, Integers]:
        """Return the references that cones take, one after the other, and where those of each cone begin."""
        return self._state.leaves, self._state.leaf_offsets

    def alike(self, representatives: Integers) -> bool:
        """Return True if all cones are of the very form of their representatives; after `forms`."""
        state = self._state
        state.representatives, state.different = representatives, 0
        _perform(state, COMPARE)
        return state.different == 0

    def steps(self, instances: Integers) -> Integers:
        """For each instance of a recurrence how many come one after the other before it; after `forms`.

        Args:
            instances: for each cone the instance that it is part of, or -1.
        """
        state = self._state
        state.instances = np.full(self.length, -1)
        state.instances[self.roots] = instances
        state.steps = np.zeros(int(instances.max(initial=-1)) + 1, np.int64)
        _perform(state, STEPS)
        return state.steps

    def levels(self) -> Integers:
        """For each cone the longest way down to the inputs; after `forms`."""
        _perform(self._state, LEVELS)
        return self._state.levels[self.roots]


def _uses(tape: Tape, codes: Integers, arguments: Integers, live: NDArray[np.bool_]) -> Integers:
    arity = _by_code({row.code: row.arity for row in OPERATIONS})[codes]
    uses = np.bincount([output for output in tape.outputs if output >= 0], minlength=len(codes))
    for k in range(3):
        taken = arguments[live & (arity > k), k]
        uses += np.bincount(taken[taken >= 0], minlength=len(codes))
    return uses


def _by_code(values: dict[int, int]) -> Integers:
    table = np.zeros(256, np.int64)
    table[list(values)] = list(values.values())
    return table


def _perform(state: ConesState, mode: int) -> None:
    state.mode = mode
    kernel("repetition.cones")(state.address)
