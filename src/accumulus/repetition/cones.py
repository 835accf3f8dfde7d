"""A tape cut into cones: trees of operations in which only the root is used elsewhere.

A cone's root is an output, a value that is used more than once, or a term of a sum; deep cones are cut. Sums of many
terms are not trees of additions but cones of a separate kind, whose terms are one column. Sums that reach a jump, or an
operation that distinguishes signed zeros, are computed as recorded, and stay trees.

A **class** is a set of cones of equal form: it becomes a few blocks, with one instance for each cone.

Forms alone are not enough. Parts of a program that look alike but belong to different loops are separated by their
operands and by their users, in a few rounds. Then the instances of one loop follow each other in the same order, and
their blocks join to larger bodies (`accumulus.tape.fusion`). Each round also separates the neighbourhood of boundaries
from the interior, so there are few rounds.

If instances take results of other instances of the same class, a few levels of them become a class each, which takes
results of the previous level; many levels are a recurrence.

**Recurrences** are cones of few classes that take each other's results periodically.

Cones whose classes depend on each other are examined in program order. If the sequence of their classes is periodic,
one period is an instance of a recurrence. Instances that do not take each other's results form one step: the cells of a
grid that is advanced in time, or trajectories that are computed one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
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
from accumulus.tape.passes import rows_of, topological
from accumulus.tape.tape import ADD, NEGATIVE, SUBTRACT, Tape

#: Largest depth of a cone, in operations: deeper ones, in which nothing is used twice, are recurrences themselves. A
#: larger depth hides these recurrences in single cones, a smaller one cuts expressions, whose parts then pass through
#: memory.
DEEPEST: Final = 256
#: Least number of terms for which a tree of additions is a sum: fewer are better added where their results are used;
#: with a larger number, longer trees make cones of many forms.
LEAST_TERMS: Final = 16
#: Arguments whose constant value is part of an operation's form, as bits. Bits from the fourth on count only if the
#: constant is one of `_SPECIAL`, as in a reciprocal or an untaken branch.
_LITERAL: Final = {"power": 0b010, "divide": 0b001_000, "select": 0b110_001, "attach": 0b001}
_SPECIAL: Final = (0.0, 1.0, -1.0)


class Cones:
    """The live operations of a tape as cones.

    Attributes:
        live: number of operations that outputs need.
        count: number of cones.
        sees_zero_signs: True if an operation distinguishes zeros of different signs.
        roots: reference of each cone's root, in program order. References beyond the tape are negatives of terms that
            were subtracted in sums.
        cone_of: position in `roots` of each reference, or -1.
        constants: constants of the tape, then negatives of constants that were subtracted in sums.
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
        additive = live & np.isin(codes, (ADD, SUBTRACT)) & ~np.frombuffer(as_written(tape), bool)
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
            special=np.isin(tape.constants, _SPECIAL).astype(np.int64),
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
        """Return codes, arguments, live marks, roots and program positions, with additions replaced by sums."""
        state, tape = self._state, self.tape
        length = len(tape)
        state.sizes, state.owners, state.signs = np.zeros((3, length), np.int64)
        state.term_owners, state.terms, state.term_signs, state.term_places = np.zeros((4, 2 * self.live), np.int64)
        _perform(state, SUMS)
        count = state.term_count
        # the kernel finds them from last to first
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
        # the last addition of each sum stands for the sum
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
            np.concatenate([codes, np.full(len(values), NEGATIVE)]),
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
        self.cone_of = np.full(self.length + 1, -1)  # the last entry stands for constants
        self.cone_of[self.roots] = np.arange(len(roots))
        leaves = len(state.terms) + 3 * int(np.count_nonzero(live))
        state.labels, state.hashes, state.stamps, state.slots, state.levels = np.zeros((5, self.length), np.int64)
        state.stack = np.zeros(2 * int(np.count_nonzero(live)) + 8, np.int64)
        state.words = np.zeros(WIDTH * int(np.count_nonzero(live)), np.int64)
        state.leaves = np.zeros(leaves, np.int64)
        state.word_offsets, state.leaf_offsets = np.zeros((2, self.count + 1), np.int64)
        state.forms = np.zeros(self.count, np.int64)

    def forms(self, labels: Integers, inputs: int = 0) -> Integers:
        """Return a hash of each cone's operations and its operands' labels.

        Args:
            labels: labels of all cones.
            inputs: label of the program's inputs.
        """
        self._state.labels[: self.tape.inputs] = inputs
        self._state.labels[self.roots] = labels
        _perform(self._state, FORMS)
        return self._state.forms.copy()

    def users(self, labels: Integers) -> Integers:
        """Return a hash (two words) of each cone's users and their operand positions; call `forms` before."""
        state = self._state
        state.labels[self.roots] = labels
        state.marks = np.zeros((self.length, 2), np.int64)
        _perform(state, USERS)
        return state.marks[self.roots]

    @property
    def words(self) -> tuple[Integers, Integers]:
        """Forms of all cones, concatenated, and the offset of each; from the last call of `forms`."""
        return self._state.words, self._state.word_offsets

    @property
    def leaves(self) -> tuple[Integers, Integers]:
        """References that cones take, concatenated, and the offsets of each cone."""
        return self._state.leaves, self._state.leaf_offsets

    def alike(self, representatives: Integers) -> bool:
        """Return True if all cones have exactly the form of their representatives; call `forms` before."""
        state = self._state
        state.representatives, state.different = representatives, 0
        _perform(state, COMPARE)
        return state.different == 0

    def steps(self, instances: Integers) -> Integers:
        """Return the step of each instance of a recurrence: its longest chain of predecessors; call `forms` before.

        Args:
            instances: instance that each cone is part of, or -1.
        """
        state = self._state
        state.instances = np.full(self.length, -1)
        state.instances[self.roots] = instances
        state.steps = np.zeros(int(instances.max(initial=-1)) + 1, np.int64)
        _perform(state, STEPS)
        return state.steps

    def levels(self) -> Integers:
        """Return for each cone the longest path to the inputs; call `forms` before."""
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


# Classes -------------------------------------------------------------------------------------------------------------


#: Least fraction of the cones that instances have to cover. A smaller one leaves more operations outside of loops, a
#: larger one finds no recurrence in programs with irregular ends.
COVERED: Final = 0.8
#: Fraction at which the search for periods ends, and the largest number of periods that are tried. Larger ones cost
#: time for recording, smaller ones may miss the period that covers most.
NEARLY: Final = 0.98
MOST_PERIODS: Final = 16
#: Least number of instances: with fewer, loops save too little to pay for passing values through memory; with more,
#: short recurrences are written out.
FEWEST: Final = 8
#: Number of classes, the rarest first, that propose periods, and the most often that each may occur in one period.
#: Larger ones compare the sequence more often, smaller ones miss periods that few classes show.
ASKED: Final = 4
OFTEN: Final = 64
#: Largest number of comparisons in the search for the begin of an instance: more take seconds, fewer leave the first
#: begin, whose instances may pass on more values or wait for each other.
MOST_COMPARED: Final = 200_000_000


@dataclass(frozen=True, slots=True)
class ConeRecurrence:
    """Instances of equal sequences of cones, in steps."""

    cones: Integers  # (instances, cones), cones of each instance in an order of computation
    steps: Integers  # (steps + 1,), first instance of each step, then the number of instances


def recurrence_of(cones: Cones, labels: Integers, chosen: Integers) -> ConeRecurrence | None:
    """Return the recurrence that some cones form; None if their sequence is not periodic.

    Args:
        cones: cones of the program.
        labels: class of each cone.
        chosen: cones whose classes depend on each other, in program order.
    """
    sequence = labels[chosen]
    best: ConeRecurrence | None = None
    for period in islice(periods(sequence), MOST_PERIODS):
        recurrence = _instances(cones, chosen, sequence, period)
        if recurrence is not None and (best is None or recurrence.cones.size > best.cones.size):
            best = recurrence
        if best is not None and best.cones.size >= NEARLY * len(chosen):
            break
    return best


def _instances(cones: Cones, chosen: Integers, sequence: Integers, period: int) -> ConeRecurrence | None:
    """Return periods as instances, cut where they depend on each other least; None if they cover too little."""
    pattern = _pattern(sequence, period)
    best: tuple[float, int, int] | None = None
    result = None
    # the begin of an instance decides how many are independent, and how much each passes on
    for turn in range(period if period**2 * len(sequence) <= MOST_COMPARED else 1):
        begins = _occurrences(sequence, np.roll(pattern, -turn))
        if len(begins) < FEWEST or period * len(begins) < COVERED * len(chosen):
            continue
        periods = chosen[begins[:, np.newaxis] + np.arange(period)]
        instances = np.full(cones.count, -1)
        instances[periods] = np.arange(len(periods))[:, np.newaxis]
        steps = cones.steps(instances)
        depth = round((int(steps.max()) + 1) / len(periods), 2)
        score = depth, int(taken_elsewhere(cones, instances)[periods].any(axis=0).sum()), -len(periods)
        if best is None or score < best:
            offsets = np.append(0, np.cumsum(np.bincount(steps)))
            best, result = score, ConeRecurrence(periods[np.argsort(steps, kind="stable")], offsets)
    return result


def taken_elsewhere(cones: Cones, instances: Integers) -> NDArray[np.bool_]:
    """Return the mask of cones that are outputs or used by other instances; -1 stands for no instance."""
    leaves, offsets = cones.leaves
    users = np.repeat(instances, np.diff(offsets))
    taken = cones.cone_of[np.maximum(leaves[: offsets[-1]], -1)]
    result = np.zeros(cones.count + 1, bool)
    result[taken[(instances[taken] != users) | (users < 0)]] = True
    result[cones.cone_of[np.maximum(cones.tape.outputs, -1)]] = True
    return result[:-1]


def periods(sequence: Integers) -> Iterator[int]:
    """Yield distinct distances at which most of a sequence recurs, proposed by its rarest labels."""
    seen: set[int] = set()
    begins = np.flatnonzero(np.diff(sequence, prepend=-1))  # of runs, which operations on arrays have
    runs = _numbered(sequence[begins], np.diff(np.append(begins, len(sequence))))
    for tokens, ends in ((sequence, np.arange(len(sequence))), (runs, begins)):
        counts = np.bincount(tokens)
        rarest = [label for label in np.argsort(counts, kind="stable").tolist() if counts[label] >= FEWEST]
        for label in rarest[:ASKED]:
            places = ends[tokens == label]
            for times in range(1, min(OFTEN, len(places) - 1) + 1):
                distances, often = np.unique(places[times:] - places[:-times], return_counts=True)
                period = int(distances[np.argmax(often)])
                alike = np.count_nonzero(sequence[period:] == sequence[:-period])
                if period not in seen and alike >= COVERED * (len(sequence) - period):
                    seen.add(period)
                    yield period


def _pattern(sequence: Integers, period: int) -> Integers:
    """Return one period: the first of the longest periodic stretch."""
    again = np.concatenate([[False], sequence[period:] == sequence[:-period], [False]]).astype(np.int8)
    begins, ends = (np.flatnonzero(np.diff(again) == turn) for turn in (1, -1))
    first = begins[np.argmax(ends - begins)]
    return sequence[first : first + period]


def _occurrences(sequence: Integers, pattern: Integers) -> Integers:
    """Return the positions at which a pattern begins, without overlaps."""
    period = len(pattern)
    count = len(sequence) - period + 1
    alike = np.ones(max(count, 0), bool)
    for k in range(period):
        alike &= sequence[k : k + count] == pattern[k]
    begins = np.flatnonzero(alike)
    if len(begins) and (np.diff(begins) < period).any():
        begins = begins[(begins - begins[0]) % period == 0]
    return begins


#: Rounds in which classes are separated by their operands, and by their users. More rounds separate what could be one
#: class, fewer leave classes with operands that no loop can locate.
ROUNDS: Final = 2
#: Largest number of levels that become classes: where there are few, and where there is no recurrence. With more,
#: programs have as many loops, each to be planned and compiled; with fewer, more programs are straight lines.
FEW_LEVELS: Final = 3
MOST_LEVELS: Final = 16
#: Largest number of classes that may depend on each other: with more, too many operations are distinct, and the search
#: for cycles takes long; with fewer, recurrences with long bodies are written out.
MOST_MUTUAL: Final = 1_000


@dataclass(frozen=True, slots=True)
class Classes:
    """Cones as instances of classes."""

    labels: Integers  # class of each cone
    order: Integers  # classes in an order of computation
    recurrences: dict[int, ConeRecurrence] = field(default_factory=dict)  # the classes that are recurrences

    def distinct(self, operations: Integers) -> int:
        """Return the number of operations in one instance of every class, given the operations of each cone."""
        inside = sum(int(operations[each.cones[0]].sum()) for each in self.recurrences.values())
        return _distinct(self.labels, operations) + inside


def classes_of(cones: Cones, most: int) -> Iterator[Classes]:
    """Yield classifications of a program, by preference, whose instances have an order of computation.

    The forms and leaves of `cones` belong to the classification yielded last.

    Args:
        cones: cones of the program.
        most: largest number of operations in one instance of every class.
    """
    previous = np.zeros(cones.count, np.int64)
    labels = coarse = _numbered(cones.forms(previous))
    operations = np.diff(cones.words[1]) // WIDTH
    if _distinct(labels, operations) > most:
        return
    for _ in range(ROUNDS):
        finer = _numbered(cones.forms(labels), *cones.users(labels).T)
        if _distinct(finer, operations) > most:
            cones.forms(previous)  # restore the forms of these classes
            break
        previous, labels = labels, finer
    blank = np.zeros(cones.count, np.int64)
    # without neighbourhoods the first and last steps of a recurrence are as all others; or almost, if results computed
    # from inputs alone come between them, and must be distinguished
    for before, inputs, chosen, make in (
        (previous, 0, labels, partial(_by_levels, most=FEW_LEVELS)),
        (blank, 0, coarse, _with_recurrences),
        (blank, 1, None, _with_recurrences),
        (previous, 0, labels, _with_recurrences),
        (blank, 0, coarse, partial(_by_levels, most=MOST_LEVELS)),
    ):
        forms = cones.forms(before, inputs)
        classes = make(cones, _numbered(forms) if chosen is None else chosen)
        if classes is not None and classes.distinct(operations) <= most:
            yield classes


def _by_levels(cones: Cones, labels: Integers, most: int) -> Classes | None:
    """Return classes in which those on cycles are separated by levels; None for more than `most` levels."""
    around = _on_cycles(labels, *_edges(cones, labels))[labels]
    levels = np.where(around, cones.levels(), 0)
    if len(np.unique(levels[around])) > most:
        return None
    return _ordered(cones, _numbered(labels, levels), {})


def _with_recurrences(cones: Cones, labels: Integers) -> Classes | None:
    """Return classes in which cycles are recurrences; None if one is not a recurrence."""
    starts, to = _edges(cones, labels)
    component = _components(_on_cycles(labels, starts, to), starts, to)
    if component is None:
        return None
    # cones outside of recurrences are separated by levels
    finer = _numbered(labels, np.where(component[labels] >= 0, cones.levels(), 0))
    recurrences: list[ConeRecurrence] = []
    for each in np.unique(component[component >= 0]).tolist():
        recurrence = recurrence_of(cones, labels, np.flatnonzero(component[labels] == each))
        if recurrence is None:
            return None
        finer[recurrence.cones] = cones.count + len(recurrences)
        recurrences.append(recurrence)
    finer = _numbered(finer)
    return _ordered(cones, finer, {int(finer[each.cones[0, 0]]): each for each in recurrences})


def _ordered(cones: Cones, labels: Integers, recurrences: dict[int, ConeRecurrence]) -> Classes | None:
    """Return classes in an order of computation; None if there is none, or a class has several forms."""
    count = int(labels.max(initial=-1)) + 1
    representatives = np.unique(labels, return_index=True)[1][labels]
    for each in recurrences.values():
        representatives[each.cones] = each.cones[:1]
    if not cones.alike(representatives):
        return None  # two forms had the same hash
    starts, to = _edges(cones, labels)
    inside = (starts == to) & np.isin(starts, list(recurrences))
    order = topological(count, to[~inside], starts[~inside])
    return Classes(labels, order, recurrences) if len(order) == count else None


def _numbered(first: Integers, *rest: Integers) -> Integers:
    """Return numbers of rows of words, from 0 on: equal rows have equal numbers."""
    numbers: Integers = np.unique(first, return_inverse=True)[1].reshape(-1)
    for column in rest:
        more = np.unique(column, return_inverse=True)[1].reshape(-1)
        numbers = np.unique(numbers * (int(more.max(initial=0)) + 1) + more, return_inverse=True)[1].reshape(-1)
    return numbers


def _distinct(labels: Integers, operations: Integers) -> int:
    """Return the number of operations in one cone of every class."""
    return int(operations[np.unique(labels, return_index=True)[1]].sum())


def _edges(cones: Cones, labels: Integers) -> tuple[Integers, Integers]:
    """Return pairs of classes: one whose result is used, and one that uses it."""
    leaves, offsets = cones.leaves
    count = max(int(labels.max(initial=-1)) + 1, 1)
    users = np.repeat(labels, np.diff(offsets))
    taken = cones.cone_of[np.maximum(leaves[: offsets[-1]], -1)]
    inside = taken >= 0
    keys = np.unique(labels[taken[inside]] * count + users[inside])
    return keys // count, keys % count


def _components(around: NDArray[np.bool_], starts: Integers, to: Integers) -> Integers | None:
    """Return for each class the number of its strongly connected component.

    It is -1 for a class without mutual dependencies. Return None if there are too many classes.

    Args:
        around: True for each class that may depend on itself through others.
        starts: for each pair of classes, the one whose result is used.
        to: for each pair of classes, the user of that result.
    """
    chosen = np.flatnonzero(around)
    if len(chosen) > MOST_MUTUAL:
        return None
    position = np.full(len(around), -1)
    position[chosen] = np.arange(len(chosen))
    inside = around[starts] & around[to]
    reached = np.zeros((len(chosen), len(chosen)), np.float32)
    reached[position[starts[inside]], position[to[inside]]] = 1.0
    for _ in range(len(chosen).bit_length()):
        reached = np.minimum(reached + reached @ reached, 1.0)
    mutual = (reached > 0) & (reached.T > 0)
    result = np.full(len(around), -1)
    result[chosen] = np.where(mutual.any(axis=1), mutual.argmax(axis=1), -1)
    return result


def _on_cycles(labels: Integers, starts: Integers, to: Integers) -> NDArray[np.bool_]:
    """Return the mask of classes on a cycle of dependencies, or between such classes."""
    count = int(labels.max(initial=-1)) + 1
    on_cycles = np.ones(count, bool)
    for one, other in ((starts, to), (to, starts)):
        behind = np.ones(count, bool)
        behind[topological(count, one, other)] = False
        on_cycles &= behind
    return on_cycles
