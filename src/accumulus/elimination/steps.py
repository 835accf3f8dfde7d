"""The steps of an accumulation: products and sums of labels that are there by then."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Steps"]

Integers = NDArray[np.int64]
#: Steps that are looked at together; between chunks Ctrl-C is heard.
CHUNK: Final = 1 << 20


@dataclass(slots=True, eq=False)
class Steps:
    """Products and sums, appended in the order in which they run; equal if they are the same, however appended."""

    edges: int
    is_product: bytearray = field(default_factory=bytearray)
    left: array[int] = field(default_factory=lambda: array("i"))
    right: array[int] = field(default_factory=lambda: array("i"))

    @classmethod
    def of(cls, edges: int, is_product: NDArray[np.bool_], left: Integers, right: Integers) -> Steps:
        """Steps from their columns."""
        columns = (array("i", ends.astype("i").tobytes()) for ends in (left, right))
        return cls(edges, bytearray(is_product.astype(np.uint8).tobytes()), *columns)

    def product(self, left: int, right: int) -> int:
        """Append left · right and return its reference."""
        return self._append(1, left, right)

    def sum(self, left: int, right: int) -> int:
        """Append left + right and return its reference."""
        return self._append(0, left, right)

    def _append(self, is_product: int, left: int, right: int) -> int:
        self.is_product.append(is_product)
        self.left.append(left)
        self.right.append(right)
        return self.edges + len(self.left) - 1

    def columns(self) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
        """Whether each step is a product, its left and its right operand."""
        left, right = (np.array(column, np.int64) for column in (self.left, self.right))
        return np.array(self.is_product, bool), left, right

    def chunks(self) -> Iterator[tuple[int, Integers, Integers, Integers]]:
        """The same, so many at a time that their copies are small; with the reference of the first step of each.

        The steps must not grow meanwhile.
        """
        if not len(self):
            return
        columns = [np.frombuffer(self.is_product, np.uint8)] + [
            np.frombuffer(column, f"i{column.itemsize}") for column in (self.left, self.right)
        ]
        for start in range(0, len(self), CHUNK):
            is_product, left, right = (column[start : start + CHUNK].astype(np.int64) for column in columns)
            yield self.edges + start, is_product, left, right

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Steps):
            return NotImplemented
        mine, theirs = ((steps.edges, steps.is_product, steps.left, steps.right) for steps in (self, other))
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.left)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return zip(self.is_product, self.left, self.right, strict=True)
