"""Sorting at every point: entries are compared and exchanged in pairs, by selects, whatever their order is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["exchanged", "exchanges"]


def exchanges(count: int) -> list[tuple[int, int]]:
    """The pairs to be compared one after the other: Batcher's merge exchange, 19 pairs for eight entries.

    References:
        D. Knuth, The Art of Computer Programming 3, algorithm 5.2.2M.

    >>> exchanges(3)
    [(0, 2), (0, 1), (1, 2)]
    """
    pairs = []
    top = step = 1 << (count - 1).bit_length() >> 1
    while step:
        reach, remainder, distance = top, 0, step
        while True:
            pairs += [(k, k + distance) for k in range(count - distance) if k & step == remainder]
            if reach == step:
                break
            distance, remainder, reach = reach - step, step, reach >> 1
        step >>= 1
    return pairs


def exchanged(columns: Sequence[Any], wrong: Callable[[Any, Any], Any]) -> list[Any]:
    """The columns sorted entry by entry.

    Args:
        wrong: whether two entries have to change places, a traced truth value.
    """
    result = list(columns)
    for one, other in exchanges(len(result)):
        first, second = result[one], result[other]
        swap = wrong(first, second)
        result[one], result[other] = np.where(swap, second, first), np.where(swap, first, second)
    return result
