"""Sparse derivatives of one array with respect to another: columns of entries, with chain rule and sums."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.arrays.compiled.entries_kernel import COMPRESS, COUNT, GIVEN, JOIN, PLACE, SORT, EntriesState
from accumulus.arrays.compiled.residues_kernel import PRIME
from accumulus.arrays.residues import of_numbers
from accumulus.native.machine import kernel
from accumulus.tape.columns import Column, Range, are_equal, column, fingerprint, references_in
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape

_SELECT: Final = BY_NAME["select"].code
#: Largest number of separate parts of the derivatives between two arrays: each part is multiplied on its own. More
#: parts make more blocks, fewer write out derivatives that could stay matrices or uniform values.
FEW_PARTS: Final = 8
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entries:
    """Derivatives of results: entry k is the derivative of `heads[k]` with respect to `tails[k]`.

    Attributes:
        heads, tails: references of the program that is differentiated.
        values: references of the program that computes the derivatives; None if all are 1.
    """

    heads: Column
    tails: Column
    values: Column | None

    def __len__(self) -> int:
        return len(self.heads)

    def chosen(self, which: NDArray[np.bool_]) -> Entries:
        """Return the entries that a mask selects."""
        if which.all():
            return self
        values = None if self.values is None else selected(self.values, which)
        return Entries(selected(self.heads, which), selected(self.tails, which), values)


def selected(operands: Column, chosen: Column | NDArray[np.bool_]) -> Column:
    """Return some entries of a column, by position, or by a mask."""
    if isinstance(chosen, Range) and isinstance(operands, Range):
        return Range(operands.start + operands.step * chosen.start, operands.step * chosen.step, chosen.count)
    if isinstance(chosen, Range):
        if chosen.step == 1:
            return operands[chosen.start : chosen.start + chosen.count]  # type: ignore[index]
        chosen = chosen.references
    if isinstance(operands, Range):
        if operands.step == 0:
            count = int(np.count_nonzero(chosen)) if chosen.dtype == bool else len(chosen)
            return Range(operands.start, 0, count)
        positions = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        return column(operands.start + operands.step * positions)
    return column(operands[chosen])


def positions(references: Column, first: int) -> Column:
    """Return positions of references in an array that begins at `first`."""
    if isinstance(references, Range):
        return Range(references.start - first, references.step, references.count)
    return references - first


class Products:
    """Products and sums of entries, written onto a program.

    Args:
        tape: the program.

    Attributes:
        count: number of scalar products so far, free ones included.
        rounded: residue of the exact value of each constant that was rounded, by reference.
    """

    def __init__(self, tape: Program) -> None:
        self.tape = tape
        self.count = 0
        self.rounded: dict[int, int] = {}
        self._apart: dict[tuple[str, int, int], int] = {}
        self._starts: Integers = np.empty(0, np.int64)

    def chained(self, outer: Entries, inner: Entries, first: int, size: int) -> Entries | None:
        """Return derivatives through an array: products of `outer` and `inner`; None if there are none.

        Args:
            outer: derivatives of values that depend on the array.
            inner: derivatives of the array's entries.
            first: reference of the array's first entry.
            size: number of the array's entries.
        """
        left, right = _matches(positions(outer.tails, first), positions(inner.heads, first), size)
        if not len(left):
            return None
        self.count += len(left)
        values = self.product(
            None if outer.values is None else selected(outer.values, left),
            None if inner.values is None else selected(inner.values, right),
        )
        return Entries(selected(outer.heads, left), selected(inner.tails, right), values)

    def product(self, a: Column | None, b: Column | None) -> Column | None:
        """Return the elementwise product of two columns of derivatives; None stands for ones."""
        if a is None or b is None:
            return b if a is None else a
        for one, other in ((a, b), (b, a)):
            guard = self.guard(one)
            if guard is not None:  # an untaken branch contributes exactly zero, even if the other factor is NaN
                condition, inner, sense = guard
                product = self.product(inner, other)
                assert product is not None

                return self.guarded(product, condition, sense)
        return self._combined("multiply", a, b)

    def guarded(self, values: Column, condition: Column, sense: bool) -> Column:
        """Return values where a condition holds, or where it does not; else 0."""
        if self._is_rounded(values):
            zero = Range(self.tape.constant(0.0), 0, len(values))
            return self.tape.apply_code(_SELECT, [condition, *([values, zero] if sense else [zero, values])])
        return self.tape.compute(_where if sense else _where_not, [condition, values])

    def sum(self, a: Column, b: Column) -> Column:
        """Return the elementwise sum of two columns of derivatives."""
        return self._combined("add", a, b)

    def _combined(self, name: str, a: Column, b: Column) -> Column:
        """Apply an operation to two columns; fold constants, with the residue of their exact result."""
        x, y = self.tape.uniform(a), self.tape.uniform(b)
        if x is None or y is None:
            if self._is_rounded(a) or self._is_rounded(b):  # folding by value would lose the residue
                return self.tape.apply_code(BY_NAME[name].code, [a, b])
            return self.tape.compute(lambda tape: partial(tape.apply, name), [a, b])
        assert isinstance(a, Range)
        assert isinstance(b, Range)
        number = float(BY_NAME[name].evaluate(x, y))
        first, second = (self._residue(each.start) for each in (a, b))
        residue = (first * second if name == "multiply" else first + second) % PRIME
        if self._exact(number) == residue:
            return Range(self.tape.constant(number), 0, len(a))
        if number in (0.0, 1.0, -1.0):  # the rounded number must not trigger simplifications
            return self.tape.apply_code(BY_NAME[name].code, [a, b])
        constant = self._apart.get((name, a.start, b.start))
        if constant is None:
            constant = self._apart[name, a.start, b.start] = self.tape.constant_apart(number)
            self.rounded[constant] = residue
        return Range(constant, 0, len(a))

    def _is_rounded(self, operands: Column) -> bool:
        return isinstance(operands, Range) and operands.step == 0 and operands.start in self.rounded

    def _residue(self, reference: int) -> int:
        return self.rounded[reference] if reference in self.rounded else self._exact(self.tape.value_of(reference))

    @staticmethod
    def _exact(number: float) -> int:
        return int(of_numbers(np.array([number]))[0]) % PRIME

    def guard(self, values: Column) -> tuple[Column, Column, bool] | None:
        """Return condition, value and sense if a derivative is 0 in one branch of a choice; else None."""
        first, last = _ends(values)
        if first < self.tape.inputs:
            return None
        if len(self._starts) != len(self.tape.blocks):
            self._starts = self.tape.starts
        block = self.tape.blocks[int(np.searchsorted(self._starts, first, side="right")) - 1]
        if block.code != _SELECT or last >= block.start + block.count:
            return None
        for sense, zero in ((True, 2), (False, 1)):
            if self.tape.uniform(block.operands[zero]) == 0.0:
                chosen = positions(values, block.start)
                return selected(block.operands[0], chosen), selected(block.operands[3 - zero], chosen), sense
        return None

    def added(self, entries: Sequence[Entries]) -> list[Entries]:
        """Return these derivatives with equal positions added."""
        left: list[Entries] = []
        marks: list[Hashable] = []
        for each in entries:
            mark = fingerprint(each.heads), fingerprint(each.tails)
            for k, earlier in enumerate(left):
                if marks[k] == mark and are_equal(earlier.heads, each.heads) and are_equal(earlier.tails, each.tails):
                    values = self.sum(self.values(earlier), self.values(each))
                    left[k] = Entries(earlier.heads, earlier.tails, values)
                    break
            else:
                left.append(each)
                marks.append(mark)
        if len(left) == 1 and _is_increasing(left[0].heads):
            return left
        ends = [end for each in left for end in _ends(each.heads)]
        of_one = min(ends) == max(ends)  # a single row is sorted by columns: as the rows of its transpose
        if of_one:
            ends = [end for each in left for end in _ends(each.tails)]
        first, rows = min(ends), max(ends) - min(ends) + 1
        places = [(each.tails, each.heads) if of_one else (each.heads, each.tails) for each in left]
        columns = [
            (*places_of_entries, self.values(each)) for places_of_entries, each in zip(places, left, strict=True)
        ]
        merged = sorted_entries(columns, first, rows, self.sums)
        if len(merged.columns) == sum(map(len, left)):
            single: list[Entries] = []
            several: list[Entries] = []
            for each in left:
                is_one = each.values is None or self.tape.uniform(each.values) is not None
                (single if is_one else several).append(each)
            if len(several) <= FEW_PARTS:
                return left
            if single:  # uniform values stay apart, so that they stay known as one number
                return [*single, *self.added(several)]
        heads, tails = column(merged.rows() + first), column(merged.columns)
        return [Entries(*((tails, heads) if of_one else (heads, tails)), column(merged.values))]

    def sums(self, terms: Integers, offsets: Integers) -> Integers:
        """Return the sum of each group of two or more terms; `offsets` are where groups begin and the last one ends."""
        if len(terms) == 2 * (len(offsets) - 1):  # an addition needs no loop of its own
            pairs = terms.reshape(-1, 2)
            return references_in(self._combined("add", column(pairs[:, 0].copy()), column(pairs[:, 1].copy())))
        return self.tape.sums(terms, offsets)

    def grouped(self, terms: Integers, first: Integers) -> Integers:
        """Return the sum of each group of terms; group k begins at ``first[k]``, and a single term is its own sum."""
        lengths = np.diff(np.append(first, len(terms)))
        several = lengths > 1
        results = terms[first]
        if several.any():
            results[several] = self.sums(terms[np.repeat(several, lengths)], np.append(0, np.cumsum(lengths[several])))
        return results

    def values(self, entries: Entries) -> Column:
        """Return the values of entries, a constant if they are all 1."""
        if entries.values is not None:
            return entries.values
        return Range(self.tape.constant(1.0), 0, len(entries))


def _where(tape: Tape) -> Callable[[int, int], int]:
    """Return the value where the condition holds, else 0."""
    return lambda condition, value: tape.select(condition, value, tape.constant(0.0))


def _where_not(tape: Tape) -> Callable[[int, int], int]:
    return lambda condition, value: tape.select(condition, tape.constant(0.0), value)


def _ends(operands: Column) -> tuple[int, int]:
    """Return the least and the greatest reference of a column."""
    if isinstance(operands, Range):
        return operands.ends
    return int(operands.min()), int(operands.max())


def _matches(outer: Column, inner: Column, size: int) -> tuple[Column, Column]:
    """Return pairs of matching entries: positions in two columns of places in an array of `size` entries."""
    if (isinstance(inner, Range) and inner.step == 1) or (isinstance(inner, Range) and inner.count == 1):
        low, high = inner.start, inner.start + inner.count
        if isinstance(outer, Range):
            ends = _ends(outer)
            if low <= ends[0] and ends[1] < high:
                return Range(0, 1, outer.count), Range(outer.start - low, outer.step, outer.count)
        places = references_in(outer)
        if (low == 0 and high == size) or (low <= int(places.min()) and int(places.max()) < high):
            return Range(0, 1, len(places)), column(places - low if low else places)
        inside = np.flatnonzero((places >= low) & (places < high))
        return column(inside), column(places[inside] - low)
    if isinstance(outer, Range) and outer.step == 1:
        places = references_in(inner)
        inside = np.flatnonzero((places >= outer.start) & (places < outer.start + outer.count))
        return column(places[inside] - outer.start), column(inside)
    left, right = joined(references_in(outer), references_in(inner), size)
    return column(left), column(right)


def _is_increasing(heads: Column) -> bool:
    if isinstance(heads, Range):
        return heads.step != 0 or heads.count < 2
    return bool((np.diff(heads) > 0).all())


# Order ---------------------------------------------------------------------------------------------------------------
#
# Sort, merge and match entries of sparse matrices in compiled code.

#: Marks positions that several entries share; far from all references.
_MARK: Final = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Sorted:
    """Entries in row order, each position once.

    Attributes:
        begins: (rows + 1,), first entry of each row, then the number of entries.
        columns, values: column and value of each entry.
    """

    begins: Integers
    columns: Integers
    values: Integers

    def rows(self, dtype: type[np.signedinteger[Any]] = np.int64) -> NDArray[Any]:
        """Return the row of each entry."""
        return np.repeat(np.arange(len(self.begins) - 1, dtype=dtype), np.diff(self.begins))


def sorted_entries(
    entries: Sequence[tuple[Column, Column, Column]],
    first: int,
    rows: int,
    sums: Callable[[Integers, Integers], Integers],
) -> Sorted:
    """Return entries in row-column order, each position once.

    Args:
        entries: (rows, columns, values) of each part.
        first: number of the first row.
        rows: number of rows.
        sums: function of the values with shared positions, grouped, and of the groups' offsets; returns one value for
            each group.
    """
    state = _placed(entries, first, rows)
    _sort(state)
    state.value_start = _MARK
    _run(state, COMPRESS)
    if not state.groups:
        return Sorted(state.begins[:-1], state.columns, state.placed)
    state.terms, state.offsets = np.empty(state.term_count, np.int64), np.empty(state.groups + 1, np.int64)
    state.writes = 1
    _run(state, COMPRESS)
    columns, values = state.columns, state.placed
    for array in (columns, values):  # in place: they may fill most of the memory
        array.resize(state.total, refcheck=False)
    values[values <= _MARK] = sums(state.terms, state.offsets)
    return Sorted(state.begins[:-1], columns, values)


def distinct_order(rows: Integers, columns: Integers) -> tuple[Integers, Integers]:
    """Return the order of positions by rows, then columns, and the first index in it of each distinct position."""
    state = _placed([(rows, columns, Range(0, 1, len(rows)))], 0, int(rows.max(initial=-1)) + 1)
    _sort(state)
    order = state.placed
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(state.columns) != 0) | (np.diff(rows[order]) != 0)
    return order, np.flatnonzero(new)


def joined(outer: Integers, inner: Integers, size: int) -> tuple[Integers, Integers]:
    """Return all matching pairs of positions in two lists of numbers below `size`, in the order of the first."""
    state = _placed([(inner, Range(0, 0, len(inner)), Range(0, 1, len(inner)))], 0, size)
    _give(state, "head", outer)
    state.count = len(outer)
    _run(state, JOIN)
    state.terms, state.offsets = np.empty((2, state.total), np.int64)
    state.writes = 1
    _run(state, JOIN)
    return state.terms, state.offsets


def _placed(entries: Sequence[tuple[Column, Column, Column]], first: int, rows: int) -> EntriesState:
    """Return entries row by row; entries of a row keep their order."""
    total = sum(len(heads) for heads, _, _ in entries)
    state = EntriesState(rows=rows, begins=np.zeros(rows + 2, np.int64))
    for heads, _, _ in entries:
        _give(state, "head", heads, first)
        _run(state, COUNT)
    np.cumsum(state.begins, out=state.begins)
    state.columns, state.placed = np.empty(total, np.int64), np.empty(total, np.int64)
    for heads, tails, values in entries:
        _give(state, "head", heads, first)
        _give(state, "tail", tails)
        _give(state, "value", values)
        _run(state, PLACE)
    return state


def _sort(state: EntriesState) -> None:
    """Sort the entries of each row by their columns."""
    longest = int(np.diff(state.begins[:-1]).max(initial=0))
    state.spare_columns, state.spare_placed = np.empty((2, longest), np.int64)
    _run(state, SORT)


def _give(state: EntriesState, name: str, operands: Column, first: int = 0) -> None:
    """Pass a column to the kernel."""
    if isinstance(operands, Range):
        setattr(state, f"{name}_start", operands.start - first)
        setattr(state, f"{name}_step", operands.step)
    else:
        setattr(state, f"{name}s", operands)
        setattr(state, f"{name}_start", -first)
        setattr(state, f"{name}_step", GIVEN)
    if name == "head":
        state.count = len(operands)


def _run(state: EntriesState, mode: int) -> None:
    state.mode = mode
    kernel("arrays.entries")(state.address)
