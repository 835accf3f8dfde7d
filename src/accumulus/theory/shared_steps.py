"""Steps of an accumulation of which each is made once: equal products, and equal sums, are one."""

from __future__ import annotations

from dataclasses import dataclass, field

from accumulus.elimination.accumulation import Steps

__all__ = ["SharedSteps"]


@dataclass(slots=True, eq=False)
class SharedSteps(Steps):
    """Products and sums, appended unless they are there.

    >>> steps = SharedSteps(3)
    >>> steps.product(0, 1), steps.sum(0, 2), steps.product(0, 1), steps.sum(2, 0)
    (3, 4, 3, 4)
    """

    #: References by what they are: is a product, left, right; in the order of their making.
    known: dict[tuple[bool, int, int], int] = field(default_factory=dict)

    def product(self, left: int, right: int) -> int:
        """Reference of left · right."""
        key = (True, left, right)
        if key not in self.known:
            self.known[key] = self._append(1, left, right)
        return self.known[key]

    def sum(self, left: int, right: int) -> int:
        """Reference of left + right."""
        key = (False, min(left, right), max(left, right))
        if key not in self.known:
            self.known[key] = self._append(0, left, right)
        return self.known[key]

    def rewind(self, length: int) -> list[tuple[int, int, int]]:
        """Forget all steps from number `length` on; what they were: is a product, left, right."""
        gone = list(self)[length:]
        for column in (self.is_product, self.left, self.right):
            del column[length:]
        for _ in gone:
            self.known.popitem()
        return gone

    def replay(self, gone: list[tuple[int, int, int]]) -> None:
        """Append steps again that were forgotten."""
        for is_product, left, right in gone:
            (self.product if is_product else self.sum)(left, right)
