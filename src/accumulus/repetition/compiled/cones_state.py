"""What `accumulus.repetition.compiled.cones_kernel` works on."""

from __future__ import annotations

from typing import Annotated, Final

from accumulus.native.state import NOTHING, Axes, Integers, State

__all__ = [
    "ABSENT",
    "COMPARE",
    "CUT",
    "FORMS",
    "INSIDE",
    "LEVELS",
    "LITERAL",
    "ROOT",
    "STEPS",
    "SUMS",
    "USERS",
    "WIDTH",
    "ConesState",
]

#: What to do: take sums apart, cut what is deep, write forms of cones down, gather who takes what, levels, compare
#: forms, steps.
SUMS, CUT, FORMS, USERS, LEVELS, COMPARE, STEPS = range(7)
#: What a value is: dead or an input or a part of a sum; inside of a cone; the root of one.
ABSENT, INSIDE, ROOT = range(3)
#: Words of an operation in a form: its code, and where its three arguments come from: from 0 on operations of the form,
#: -1 - k the leaf k, from `LITERAL` on constants of the tape.
WIDTH: Final = 4
LITERAL: Final = 1 << 40


class ConesState(State):
    """Operations of a tape, cut into cones.

    Attributes:
        mode: what to do.
        inputs: of the tape.
        count: references that there are, those of inputs included.
        codes: of operations, by reference; of sums of many terms `accumulus.tape.blocks.SUM`.
        arguments: references; of such a sum where its terms begin, and where they end.
        additive: 1 for additions and subtractions that may be parts of such sums.
        uses: how often each value is used.
        least: terms that such a sum has at least.
        sizes: of SUMS, terms below each addition.
        owners, signs: of SUMS, the sum that each is part of, from 1 on, and whether it is subtracted there.
        sums: of SUMS, how many sums were found.
        term_count: of SUMS, how many terms.
        term_owners, terms, term_signs, term_places: of SUMS, for each term its sum, its reference, whether it is
            subtracted, and by which operation.
        roles: what each value is.
        deepest: of CUT, operations on the longest way down a cone, at most; others are cut.
        often: of CUT, by code, how often each operation is on such a way; zeros in the beginning.
        literal: by code, bits of arguments that are no leaves where they are constants, but belong to the form.
        commutative: by code, 1 if the first two arguments may be exchanged.
        arity: by code.
        labels: by reference, what is known of a leaf; at -1, counted from the end, what all constants have.
        hashes: by reference, of what is below inside of the cone.
        roots: of all cones, in an order in which they can be computed.
        root_count: how many.
        stamps, slots: by reference, the last cone that took it as a leaf, from 1 on, and as which.
        stack: of a cone's operations, and where they are referred to.
        words: forms, one after the other.
        word_offsets: where each begins, and where the last ends.
        leaves: references that each cone takes, one after the other.
        leaf_offsets: where those of each begin, and where those of the last end.
        forms: a hash for each cone.
        marks: by reference, two words of who takes it, as which.
        levels: by reference, of the roots.
        representatives: of COMPARE, a cone of the same class for each.
        different: of COMPARE, how many cones are not of the form of their representative.
        instances: of STEPS, by reference, the instance of a recurrence that a root is part of, or -1.
        steps: of STEPS, the step of each instance.
    """

    mode: int = 0
    inputs: int = 0
    count: int = 0
    codes: Integers = NOTHING
    arguments: Annotated[Integers, Axes(3)] = NOTHING
    additive: Integers = NOTHING
    uses: Integers = NOTHING
    least: int = 0
    sizes: Integers = NOTHING
    owners: Integers = NOTHING
    signs: Integers = NOTHING
    sums: int = 0
    term_count: int = 0
    term_owners: Integers = NOTHING
    terms: Integers = NOTHING
    term_signs: Integers = NOTHING
    term_places: Integers = NOTHING
    roles: Integers = NOTHING
    deepest: int = 0
    often: Integers = NOTHING
    literal: Integers = NOTHING
    commutative: Integers = NOTHING
    arity: Integers = NOTHING
    labels: Integers = NOTHING
    hashes: Integers = NOTHING
    roots: Integers = NOTHING
    root_count: int = 0
    stamps: Integers = NOTHING
    slots: Integers = NOTHING
    stack: Integers = NOTHING
    words: Integers = NOTHING
    word_offsets: Integers = NOTHING
    leaves: Integers = NOTHING
    leaf_offsets: Integers = NOTHING
    forms: Integers = NOTHING
    marks: Annotated[Integers, Axes(2)] = NOTHING
    levels: Integers = NOTHING
    representatives: Integers = NOTHING
    different: int = 0
    instances: Integers = NOTHING
    steps: Integers = NOTHING
