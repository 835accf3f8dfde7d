"""Positions of the numbers of a program over arrays in C: in its arguments, constant tables, or the work space.

Loops read operands in place. If the operands of one loop are in several arrays (an initial value and later ones, for
example), constants and arguments are first copied into the work space, beside the results of other loops, so that one
table of positions serves all instances. Equal tables are stored once. Positions in a few stretches need no table: loops
over the stretches move the numbers, so that the text does not grow with the count of a loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.columns import Column, Range, references_in
from accumulus.tape.program import Program
from accumulus.targets.c.c_expressions import literal
from accumulus.targets.c.c_header import table_text

#: Name of the parameter for the work space.
WORK: Final = "work"
#: Types of positions in tables, the smaller first, and the suffixes of functions for them.
INDEX_TYPES: Final = {"unsigned short": "short", "int": "int"}
#: Largest number of stretches, and longest period, of positions for which loops need no table. More stretches make the
#: text longer and branch more, fewer read positions from tables in memory.
MOST_STRETCHES, LONGEST_PERIOD = 16, 8
#: Owners of references besides arguments, which are counted from 0: constants, and the work space.
_CONSTANT: Final = -1
_WORK: Final = -2


@dataclass(frozen=True, slots=True)
class OperandPlace:
    """Place of an operand in an array for the instances of a loop: start + step · instance, or from a table."""

    array: str  # a parameter of the program, the work space, or a table of constants; empty for one number
    # start, step: of equally spaced places
    start: int = 0
    step: int = 1
    table: tuple[str, str] | None = None  # name of the table of places, and type of its entries
    value: float = 0.0  # the number, if `array` is empty
    places: NDArray[np.int64] | None = None  # place for each instance, if not equally spaced
    # for a few stretches: the instance after the last, start and step of each
    pieces: Sequence[tuple[int, int, int]] = ()

    def at(self, instance: str) -> str:
        """Return the expression of the number that an instance takes."""
        if not self.array:
            return literal(self.value, "float64")
        if self.table is not None:
            return f"{self.array}[{self.table[0]}[{instance}]]"
        pieces = self.pieces or [(0, self.start, self.step)]
        texts = [place_at(start, step, instance) for _, start, step in pieces]
        chosen = [f"{instance} < {stop} ? {text} : " for (stop, *_), text in zip(pieces, texts[:-1], strict=False)]
        return f"{self.array}[{''.join(chosen)}{texts[-1]}]"


def place_at(start: int, step: int, instance: str) -> str:
    """Return the expression of start + step · instance."""
    if not step:
        return str(start)
    factor = instance if abs(step) == 1 else f"{abs(step)} * {instance}"
    return f"{start} - {factor}" if step < 0 else f"{f'{start} + ' * bool(start)}{factor}"


class ArrayPlaces:
    """The arrays of a program, and the places of references in them.

    Args:
        name: name of the program, and prefix of the names of tables.
        tape: the program; -1 - the number of its constants stands for one more zero.
        arguments: names and lengths of the arguments, whose entries are the inputs.
        stored: number of results that are in the work space, by first reference.
        columns: all columns that will be read.

    Attributes:
        size: size of the work space.
        constants: numbers at its beginning.
        staged: arguments that are copied into it, and their first places there.
    """

    def __init__(
        self,
        name: str,
        tape: Program,
        arguments: Sequence[tuple[str, int]],
        stored: Mapping[int, int],
        columns: Iterable[Column],
    ) -> None:
        self._name = name
        self._values = np.append(tape.constants, 0.0)
        self._names = [argument for argument, _ in arguments]
        self._firsts = np.cumsum([0, *(length for _, length in arguments)])[:-1]
        self._inputs = tape.inputs
        self._stored = np.array(sorted(stored), np.int64)
        self._tables: dict[tuple[str, bytes], str] = {}
        self._texts: list[str] = []
        constants: list[NDArray[np.int64]] = []
        staged: set[int] = set()
        for column in columns:
            owners = self._owners(column)
            if len(owners) > 1:
                references = references_in(column)
                constants.append(np.unique(references[references < 0]))
                staged.update(owner for owner in owners if owner >= 0)
        self._constants = np.unique(np.concatenate([np.empty(0, np.int64), *constants]))
        self.constants: NDArray[np.float64] = self._values[-1 - self._constants]
        self.size = len(self._constants)
        lengths = [length for _, length in arguments]
        self.staged: dict[int, int] = {}
        for argument in sorted(staged):
            self.staged[argument] = self.size
            self.size += lengths[argument]
        counts = np.array([stored[start] for start in sorted(stored)], np.int64)
        self._offsets = self.size + np.cumsum(counts) - counts
        self.size += int(counts.sum())

    def work_offset(self, reference: int) -> int:
        """Return the place of a result in the work space."""
        array = int(np.searchsorted(self._stored, reference, side="right")) - 1
        return int(self._offsets[array]) + reference - int(self._stored[array])

    def reserve(self, count: int) -> int:
        """Reserve `count` numbers in the work space, and return the first place."""
        self.size += count
        return self.size - count

    def reading(self, column: Column, *, single: bool = True) -> OperandPlace:
        """Return the reading of a column.

        Args:
            column: operands of all instances.
            single: if True, equal constants may be one number outside any array.
        """
        if isinstance(column, Range) and column.count and column.start >= 0:
            low, high = column.ends
            array = self._array_of(low)
            if array == self._array_of(high):
                name, shift = self._in(*array)
                return OperandPlace(name, column.start + shift, column.step)
        references = references_in(column)
        if (references < 0).all():
            values = self._values[-1 - references]
            if single and len(values) and (values.view(np.int64) == values[:1].view(np.int64)).all():
                return OperandPlace("", value=float(values[0]))
            return OperandPlace(self.table("values", "double", values))
        name, places = self._all(references)
        start, step = int(places[0]), int(places[1] - places[0]) if len(places) > 1 else 0
        if np.array_equal(places, start + step * np.arange(len(places))):
            return OperandPlace(name, start, step)
        return OperandPlace(name, table=self.indices(places), places=places)

    def reading_of_constants(self) -> OperandPlace:
        """Return the reading of the constants at the beginning of the work space, from a table."""
        return OperandPlace(self.numbers(self.constants))

    def numbers(self, values: NDArray[np.float64]) -> str:
        """Return the name of a table of numbers."""
        return self.table("values", "double", values)

    def indices(self, places: NDArray[np.int64]) -> tuple[str, str]:
        """Return the name of a table of integers, and the type of its entries."""
        kind = "unsigned short" if len(places) and int(places.max()) < 1 << 16 else "int"
        return self.table("places", kind, places), kind

    def tables(self, code: Iterable[str]) -> list[str]:
        """Return the definitions of the tables that lines of code use."""
        read = set(re.findall(rf"\b{self._name}_\w+", "\n".join(code)))
        return [text for name, text in zip(self._tables.values(), self._texts, strict=True) if name in read]

    def table(self, stem: str, kind: str, numbers: NDArray[np.int64] | NDArray[np.float64]) -> str:
        """Return the name of a table of numbers; equal tables are written once."""
        key = kind, numbers.tobytes()
        name = self._tables.get(key)
        if name is None:
            name = self._tables[key] = f"{self._name}_{stem}{len(self._tables)}"
            texts = (
                [literal(x, "float64") for x in numbers.tolist()] if kind == "double" else map(str, numbers.tolist())
            )
            self._texts.append(table_text(f"static const {kind} {name}", list(texts)))
        return name

    def _owners(self, column: Column) -> set[int]:
        """Return the owners of the references of a column."""
        if not len(column):
            return set()
        if isinstance(column, Range):
            low, high = column.ends
            first, last = self._array_of(low)[0], self._array_of(high)[0]
            if first == last:
                return {first}
        return set(np.unique(self._owners_of(references_in(column))).tolist())

    def _owners_of(self, references: NDArray[np.int64]) -> NDArray[np.int64]:
        owners = np.searchsorted(self._firsts, references, side="right") - 1
        return np.where(references < 0, _CONSTANT, np.where(references < self._inputs, owners, _WORK))

    def _array_of(self, reference: int) -> tuple[int, int]:
        """Return the owner of a reference, and the number of the array of results that holds it."""
        if reference < 0:
            return _CONSTANT, 0
        if reference >= self._inputs:
            return _WORK, int(np.searchsorted(self._stored, reference, side="right")) - 1
        return int(np.searchsorted(self._firsts, reference, side="right")) - 1, 0

    def _in(self, owner: int, array: int) -> tuple[str, int]:
        """Return the name of an array, and the offset of its references."""
        if owner == _WORK:
            return WORK, int(self._offsets[array] - self._stored[array])
        return self._names[owner], -int(self._firsts[owner])

    def _all(self, references: NDArray[np.int64]) -> tuple[str, NDArray[np.int64]]:
        """Return the name of an array that holds all of these references, and their places in it."""
        owners = self._owners_of(references)
        distinct = np.unique(owners).tolist()
        if len(distinct) == 1 and distinct[0] != _WORK:
            name, shift = self._in(distinct[0], 0)
            return name, references + shift
        places = np.empty(len(references), np.int64)
        for owner in distinct:
            of_owner = owners == owner
            some = references[of_owner]
            if owner == _CONSTANT:
                places[of_owner] = np.searchsorted(self._constants, some)
            elif owner == _WORK:
                arrays = np.searchsorted(self._stored, some, side="right") - 1
                places[of_owner] = some + (self._offsets - self._stored)[arrays]
            else:
                places[of_owner] = some - self._firsts[owner] + self.staged[owner]
        return WORK, places


def stretches(columns: Sequence[NDArray[np.int64]], most: int) -> list[tuple[int, int]] | None:
    """Return the stretches, (begin, end), in which each column has one step; None if there are more than `most`."""
    count = len(columns[0])
    steps = np.stack([np.diff(column) for column in columns])
    changes = np.flatnonzero((steps[:, 1:] != steps[:, :-1]).any(axis=0)) + 1
    ranges: list[tuple[int, int]] = []
    first = 0
    while first < count:
        if len(ranges) == most:
            return None
        change = int(np.searchsorted(changes, first, side="right"))
        last = int(changes[change]) if change < len(changes) else count - 1
        if last == first + 1 < count - 1:  # a single position before a run gets a range of its own
            last = first
        ranges.append((first, last + 1))
        first = last + 1
    return ranges


def affine(column: NDArray[np.int64], first: int, stop: int) -> tuple[int, int]:
    """Return the first number of a stretch, and its step."""
    return int(column[first]), int(column[first + 1] - column[first]) if stop - first > 1 else 0


def moves(source: str, places: NDArray[np.int64], result: str, positions: NDArray[np.int64]) -> list[str] | None:
    """Return loops that copy numbers from places to positions without tables; None if there would be too many.

    Places and positions must be in a few stretches, possibly after splitting them by instance modulo a small period.
    """
    for period in range(1, LONGEST_PERIOD + 1):
        classes = [(places[k::period], positions[k::period]) for k in range(min(period, len(places)))]
        ranges = [stretches(each, MOST_STRETCHES) for each in classes]
        if sum(MOST_STRETCHES + 1 if each is None else len(each) for each in ranges) > MOST_STRETCHES:
            continue
        lines = []
        for each, parts in zip(classes, ranges, strict=True):
            for first, stop in parts or ():
                taken, put = (place_at(*affine(column, first, stop), "i") for column in each)
                lines.append(f"for (ptrdiff_t i = 0; i < {stop - first}; i++) {result}[{put}] = {source}[{taken}];")
        return lines
    return None
