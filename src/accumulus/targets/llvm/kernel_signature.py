"""The parameters of a module's functions, and the attributes that they are compiled with."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from accumulus.targets.kernel import Shape

__all__ = ["ATTRIBUTES", "UNOPTIMISED", "Signature"]

#: Straight code that runs once a call is compiled the quick way.
UNOPTIMISED: Final = "nounwind noinline optnone"
#: For functions that compute blocks of points: vectors as wide as the text says, and a stack on which spilled ones do
#: not straddle cache lines.
ATTRIBUTES: Final = 'nounwind noinline "prefer-vector-width"="512" "stackrealign"'


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of the functions.

    Attributes:
        shapes: of the arguments at one point.
        shared: which of them are the same at all points of a batch.
        lengths: entries a point of each result array.
        size: bytes of an entry.
    """

    shapes: tuple[Shape, ...]
    shared: tuple[bool, ...]
    lengths: tuple[int, ...]
    size: int

    @property
    def arguments(self) -> list[str]:
        """Names of the arguments."""
        return [f"x{k}" for k in range(len(self.shapes))]

    @property
    def results(self) -> list[str]:
        """Names of the result arrays."""
        return [f"o{k}" for k in range(len(self.lengths))]

    @property
    def names(self) -> list[str]:
        """Names of both."""
        return [*self.arguments, *self.results]

    @property
    def moving(self) -> list[str]:
        """Names of those that differ from point to point."""
        return [name for name, shared in zip(self.arguments, self.shared, strict=True) if not shared] + self.results

    @property
    def strides(self) -> dict[str, int]:
        """By name: entries from one point to the next in C order, 0 if it is shared."""
        sizes = [0 if shared else prod(shape) for shape, shared in zip(self.shapes, self.shared, strict=True)]
        return dict(zip(self.names, (*sizes, *self.lengths), strict=True))

    @property
    def widest(self) -> int | None:
        """The result array with the longest rows."""
        return max(range(len(self.lengths)), key=lambda k: self.lengths[k], default=None)
