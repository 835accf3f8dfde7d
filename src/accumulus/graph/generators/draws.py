"""Random numbers that are the same on every machine and in every version: SplitMix64, a block at a time.

NumPy promises its streams for one version only, Python some of its functions, and a graph that is named in a paper or
a bug report by its seed has to stay that graph. SplitMix64 adds an odd constant and mixes the sum (Steele, Lea and
Flood, Fast splittable pseudorandom number generators, 2014); number k of a stream depends on the seed and k alone, so
blocks are a few operations on arrays.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError

__all__ = ["Draws", "Integers", "chosen", "fraction", "whole"]

_STEP: Final = 0x9E3779B97F4A7C15
_MIX: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))

Integers = NDArray[np.int64]


class Draws:
    """A stream of random numbers.

    Args:
        seed: any whole number; streams of different seeds have nothing in common.

    >>> Draws(0).below(10, 5).tolist()
    [7, 2, 3, 8, 9]
    """

    def __init__(self, seed: int) -> None:
        digest = hashlib.blake2b(str(whole("seed", seed, least=None)).encode(), digest_size=8).digest()
        self._at = int.from_bytes(digest, "little")

    def bits(self, count: int) -> NDArray[np.uint64]:
        """So many times 64 random bits."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_STEP) + np.uint64(self._at)
        self._at = (self._at + count * _STEP) % (1 << 64)
        for shift, factor in _MIX:
            steps = (steps ^ (steps >> np.uint64(shift))) * np.uint64(factor)
        return steps

    def below(self, bounds: int | Integers, count: int | None = None) -> Integers:
        """Whole numbers from 0 to bound − 1; for one bound `count` of them, for an array one for each.

        A number is likelier than another by a part of bound · 2⁻⁶⁴ at most.
        """
        many = len(bounds) if isinstance(bounds, np.ndarray) else count or 0
        result: Integers = (self.bits(many) % np.asarray(bounds, np.uint64)).astype(np.int64)
        return result

    def chances(self, probability: float, count: int) -> NDArray[np.bool_]:
        """So many events, each of the given probability."""
        return (self.bits(count) >> np.uint64(11)) < np.uint64(round(probability * (1 << 53)))

    def permutation(self, count: int) -> Integers:
        """The numbers 0 … count − 1 in random order."""
        return np.argsort(self.bits(count), kind="stable")

    def distinct(self, bound: int, count: int, rows: int) -> Integers:
        """In each of so many rows `count` different numbers below `bound` (Floyd's algorithm; Bentley 1987)."""
        chosen = np.empty((rows, count), np.int64)
        for k, last in enumerate(range(bound - count, bound)):
            drawn = self.below(last + 1, rows)
            taken = (chosen[:, :k] == drawn[:, None]).any(axis=1)
            chosen[:, k] = np.where(taken, last, drawn)
        return chosen


def whole(name: str, value: Any, least: int | None = 1, most: int | None = None) -> int:
    """The value as an int within bounds, or `ArgumentError`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentError(f"{name} is {value!r}; expected a whole number")
    if (least is not None and value < least) or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ArgumentError(f"{name} is {value}; expected a whole number {bounds}")
    return int(value)


def fraction(name: str, value: Any) -> float:
    """The value as a probability, or `ArgumentError`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value <= 1:
        raise ArgumentError(f"{name} is {value!r}; expected a number from 0 to 1")
    return float(value)


def chosen(name: str, value: Any, known: tuple[str, ...]) -> str:
    """The value if it is one of the known words, or `ArgumentError`."""
    if value not in known:
        raise ArgumentError(f"{name} is {value!r}; expected {' or '.join(map(repr, known))}")
    return str(value)
