"""One block of numbers and addresses: what a compiled kernel is called with.

A kernel takes the address of a block of 64-bit slots: integers, floats, and addresses of arrays that the caller
owns. So it needs no types of Numba's or Python's when it runs, and its machine code can be kept and loaded as
it is. Which slot holds what is written down beside each kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block"]


class Block:
    """A block, and the arrays that it points to."""

    def __init__(self, slots: int) -> None:
        self.integers: NDArray[np.int64] = np.zeros(slots, np.int64)
        self.floats: NDArray[np.float64] = self.integers.view(np.float64)
        self.address: int = self.integers.ctypes.data
        self._arrays: dict[int, NDArray[Any]] = {}

    def point(self, slot: int, array: NDArray[Any]) -> NDArray[Any]:
        """Let a slot point to an array, which stays alive with the block."""
        assert array.flags.c_contiguous
        assert array.itemsize == 8
        self._arrays[slot] = array
        self.integers[slot] = array.ctypes.data
        return array

    def array(self, slot: int) -> NDArray[Any]:
        """The array that a slot points to."""
        return self._arrays[slot]
