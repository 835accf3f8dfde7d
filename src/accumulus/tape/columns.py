"""Columns: references of one operand for all instances of a block; ranges where possible."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError

References = NDArray[np.int64]
#: Reference of a block's first own result, when blocks with different starts are compared.
_OWN: Final = 2**62
#: Number of references that are examined at once: more take memory beside the references and look further than the
#: first difference, fewer make more calls of NumPy.
CHUNK: Final = 1 << 16
#: Number of references up to which a column is its own key: longer keys take memory, shorter ones time to add up.
_SHORT: Final = 256
_COUNTED: Final = np.arange(CHUNK, dtype=np.int64)
_COUNTED.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Range:
    """References with a constant step: an array, its reverse, or one reference for all instances."""

    start: int
    step: int
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def is_uniform(self) -> bool:
        """Return True if all instances have the same reference."""
        return self.step == 0

    @property
    def references(self) -> References:
        """The references as an array."""
        if self.step == 1:
            return np.arange(self.start, self.start + self.count, dtype=np.int64)
        return self.start + self.step * np.arange(self.count, dtype=np.int64)

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest reference; there must be one."""
        last = self.start + self.step * (self.count - 1)
        return min(self.start, last), max(self.start, last)


#: References of one operand for all instances of a block.
Column = Range | References


def column(references: References) -> Column:
    """Return a column of operands, as a range if possible; the array must not change afterwards."""
    flat = references.reshape(-1)
    count = len(flat)
    start = flat.item(0) if count else 0
    if count < 2:
        return Range(start, 0, count)
    step = flat.item(1) - start
    if -1 <= step <= 1 and flat.item(count - 1) == start + step * (count - 1) and _has_step(flat, step):
        return Range(start, step, count)
    return np.ascontiguousarray(flat)


def _has_step(references: References, step: int) -> bool:
    """Return True if each reference is the previous one plus the step."""
    count = len(references)
    if step == 1 and count <= CHUNK:  # the quickest comparison, since each operation that is recorded makes one
        return references.tobytes() == (_COUNTED[:count] + references.item(0)).tobytes()
    parts = (references[first : first + CHUNK + 1] for first in range(0, len(references) - 1, CHUNK))
    return all((chunk[1:] - chunk[:-1] == step).all() for chunk in parts)


def entry(operands: Column, k: int) -> int:
    """Return one reference of a column."""
    return operands.start + operands.step * k if isinstance(operands, Range) else int(operands[k])


def references_in(operands: Column) -> References:
    """Return the references of a column as an array."""
    return operands.references if isinstance(operands, Range) else operands


def unshared(references: References) -> Column:
    """Return a column that does not share memory with the array, which users may fill item by item."""
    compact = column(references)
    return compact if isinstance(compact, Range) else compact.copy()


def spread(references: References | int, shape: tuple[int, ...], count: int) -> Column:
    """Return references that are broadcast to a shape of so many entries as a column, which shares no memory."""
    if isinstance(references, int):
        return Range(references, 0, count)
    if references.shape == shape:
        return unshared(references)
    if references.size == 1:
        return Range(int(references.reshape(())), 0, count)
    copied = np.empty(shape, np.int64)
    copied[...] = references
    return column(copied)


def owners_in(starts: References, operands: Column) -> list[int]:
    """Return the blocks or arrays that a column refers to, given their first references; -1 for earlier references."""
    if not len(operands):
        return []
    if isinstance(operands, Range):
        first, last = operands.ends
        low = high = int(starts.searchsorted(first, "right")) - 1
        if first != last and high + 1 < len(starts) and starts[high + 1] <= last:
            high = int(starts.searchsorted(last, "right")) - 1
        return list(range(low, high + 1))
    owners: set[int] = set()
    for first in range(0, len(operands), CHUNK):  # most chunks refer to a single block
        chunk = operands[first : first + CHUNK]
        low, high = np.searchsorted(starts, (chunk.min(), chunk.max()), side="right") - 1
        if low == high:
            owners.add(int(low))
        else:
            counts = np.bincount(np.searchsorted(starts, chunk, side="right"))
            owners.update((np.flatnonzero(counts) - 1).tolist())
    return sorted(owners)


def fingerprint(operands: Column) -> Hashable:
    """Return a key that equal columns share; different columns may share it, too."""
    if isinstance(operands, Range):
        return operands.start, operands.step, operands.count
    count = len(operands)
    if count <= _SHORT:
        return operands.tobytes()
    return (count, int(operands[0]), int(operands[-1]), int(operands.sum()), int(operands[:: 1 + count // 64].sum()))


def are_equal(one: Column, other: Column) -> bool:
    """Return True if two columns are equal, entry by entry."""
    if isinstance(one, Range) or isinstance(other, Range):
        return isinstance(one, Range) and isinstance(other, Range) and one == other
    return one is other or np.array_equal(one, other)


def check_steps(operands: Sequence[Column], start: int, outputs: int, steps: References, constants: int) -> None:
    """Raise an error if an instance takes a result of its own or a later step, or a reference that does not exist.

    Args:
        operands: operands of all instances, one column each.
        start: reference of the first result.
        outputs: number of outputs of the body.
        steps: offsets of the instances of each step.
        constants: reference of the last constant.

    Raises:
        ArgumentError: for such an instance.
    """
    count = int(steps[-1])
    step_of = np.repeat(np.arange(len(steps) - 1), np.diff(steps))
    for position, operand in enumerate(operands):
        if len(operand) != count:
            raise ArgumentError(f"operand {position} has {len(operand)} entries; expected {count}, one an instance")
        if isinstance(operand, Range) and count:
            ends = operand.ends
            if constants <= ends[0] and ends[1] < start:
                continue
        references = references_in(operand)
        is_result = references >= start
        if (references < constants).any() or (references >= start + count * outputs).any():
            raise ArgumentError(f"operand {position} has references that do not exist")
        wrong = np.flatnonzero(is_result)[step_of[(references[is_result] - start) % count] >= step_of[is_result]]
        if len(wrong):
            raise ArgumentError(
                f"instance {wrong[0]} takes a result of its own step, or of a later one, as operand {position}; "
                "expected results of earlier steps"
            )


def relative(operands: Column, start: int) -> Column:
    """Return a column whose references to results from `start` on are counted from there."""
    if isinstance(operands, Range):
        ends = operands.ends
        if ends[1] < start:
            return operands
        if ends[0] >= start:
            return Range(operands.start - start + _OWN, operands.step, operands.count)
    references = references_in(operands)
    return column(np.where(references >= start, references - start + _OWN, references))


def in_shapes(entries: NDArray[Any], shapes: Iterable[tuple[int, ...]]) -> list[NDArray[Any]]:
    """Return consecutive parts of a flat array, in these shapes.

    >>> [part.tolist() for part in in_shapes(np.arange(5), [(2, 2), ()])]
    [[[0, 1], [2, 3]], 4]
    """
    parts, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        parts.append(entries[start:stop].reshape(shape))
        start = stop
    return parts
