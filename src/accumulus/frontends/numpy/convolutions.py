"""Sums of products of neighbours: convolutions and correlations of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.table import implements
from accumulus.tape.tape import Tape

__all__ = ["convolve", "correlate", "part_of"]


@implements(np.convolve)
def convolve(tape: Tape, a: Any, v: Any, mode: str = "full") -> Any:
    """The discrete convolution of two vectors."""
    long, short = np.atleast_1d(as_array(tape, a)), np.atleast_1d(as_array(tape, v))
    if long.ndim != 1 or short.ndim != 1:
        raise ValueError(f"convolve: vectors are expected, of shapes {long.shape} and {short.shape} are given")
    if not long.size or not short.size:
        raise ValueError("convolve: a vector is empty")
    if long.size < short.size:
        long, short = short, long
    return part_of(_full(tape, long, short), long.size, short.size, mode)


def _full(tape: Tape, long: Any, short: Any) -> Any:
    result = as_array(tape, np.zeros(long.size + short.size - 1))
    for k in range(short.size):
        result[k : k + long.size] += long * short[k]
    return result


def part_of(full: Any, long: int, short: int, mode: str) -> Any:
    """What is wanted of a full convolution."""
    if mode == "full":
        return full
    if mode not in ("same", "valid"):
        raise ValueError(f"convolve: mode {mode!r}; known are full, same, valid")
    start = (short - 1) // 2 if mode == "same" else short - 1
    return full[start : start + (long if mode == "same" else long - short + 1)]


@implements(np.correlate)
def correlate(tape: Tape, a: Any, v: Any, mode: str = "valid") -> Any:
    """The correlation of two vectors: the convolution with the second one turned round."""
    a, v = np.atleast_1d(as_array(tape, a)), np.conjugate(np.atleast_1d(as_array(tape, v)))
    if v.size > a.size:  # as NumPy has it: the other order, turned round
        return part_of(np.convolve(v, a[::-1]), v.size, a.size, mode)[::-1]
    return part_of(np.convolve(a, v[::-1]), a.size, v.size, mode)
