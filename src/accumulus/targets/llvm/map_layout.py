"""Where the numbers of a program over arrays are, while it runs: in one array, the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import SizeError
from accumulus.tape.blocks import BlockTape, Column, Range

__all__ = ["Layout"]

#: Numbers in the workspace, at most: tables of indices have 32 bits.
MOST: Final = 2**31
#: References that are looked at at once.
PART: Final = 1 << 16


class Layout:
    """A zero, constants, the last first, inputs, then the results that are kept, in their order.

    Args:
        tape: the program; -1 - the number of constants stands for the zero.
        kept: how many results follow from some references on; nobody asks for the places of others.

    Attributes:
        first: place of the first input.
        size: of the workspace.

    Raises:
        SizeError: if it has too many numbers.
    """

    def __init__(self, tape: BlockTape, kept: Mapping[int, int]) -> None:
        counts = np.array([kept[start] for start in sorted(kept)], np.int64)
        self._starts = np.array([0, *sorted(kept)], np.int64)
        self.first = 1 + len(tape.constants)
        places = self.first + tape.inputs + np.cumsum(counts) - counts
        #: What is added to references from each start on.
        self._shifts = np.concatenate([[self.first], places - self._starts[1:]])
        self.size = self.first + tape.inputs + int(counts.sum())
        if self.size >= MOST:
            raise SizeError(f"{self.size:,} numbers between loops; index tables have room for {MOST:,}")

    def place(self, reference: int) -> int:
        """Where the value of a reference is."""
        return reference + int(self._shifts[self._owner(reference)])

    def table(self, operands: Column) -> NDArray[np.int32] | None:
        """Where the values of a column are; None for ranges, whose values are next to each other, too."""
        if isinstance(operands, Range):
            return None
        table = np.empty(len(operands), np.int32)
        for first in range(0, len(operands), PART):
            part = operands[first : first + PART]
            low, high = self._owner(int(part.min())), self._owner(int(part.max()))
            if low == high:
                shifts = self._shifts[low]
            else:
                shifts = self._shifts[np.maximum(np.searchsorted(self._starts, part, side="right") - 1, 0)]
            np.add(part, shifts, out=table[first : first + PART], casting="unsafe")
        return table

    def _owner(self, reference: int) -> int:
        return max(int(np.searchsorted(self._starts, reference, side="right")) - 1, 0)
