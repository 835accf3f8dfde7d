"""One rule by which operations are counted, whoever makes them.

Every operation counts: a sum of n terms n - 1, a product of n factors n - 1 (factors that are constants included), each
division, sign change, comparison, choice and call of a function 1; the sine and cosine of one argument are two. A power
with a whole exponent counts the products of repeated squaring, other powers are one call of `pow` (those with exponent
1/2 a square root). Inputs, outputs, constants, and whatever is computed from constants alone do not count, nor does
storing a result.

The weighted count is of time: a division or a square root 8, a function 15, a sign change nothing, everything else 1.

Each side says of what kind its operations are; a name that is not known is an error, so that nothing is overlooked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["arithmetic", "division", "root", "function", "sign"]
WEIGHTS: Final[Mapping[Kind, int]] = {"arithmetic": 1, "division": 8, "root": 8, "function": 15, "sign": 0}


@dataclass(frozen=True)
class Tally:
    """Number of operations of each kind in a program."""

    kinds: Mapping[Kind, int]

    @classmethod
    def of(cls, kinds: Iterable[Kind]) -> Tally:
        """Of one kind an operation."""
        return cls(dict(Counter(kinds)))

    @property
    def operations(self) -> int:
        """All of them, each counting 1."""
        return sum(self.kinds.values())

    @property
    def weighted(self) -> int:
        """All of them by `WEIGHTS`."""
        return sum(WEIGHTS[kind] * count for kind, count in self.kinds.items())


def products_of_power(exponent: int) -> int:
    """Products of repeated squaring for a whole exponent of at least 1."""
    return exponent.bit_length() + exponent.bit_count() - 2
