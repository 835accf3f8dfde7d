"""Sums of products of neighbours: convolutions and correlations of vectors, and recursive filters (`scipy.signal`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.operands import holds_complex
from accumulus.frontends.numpy.table import implements
from accumulus.tape.tape import Tape

__all__ = ["convolve", "correlate", "lfilter"]


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
    return _part(_full(tape, long, short), long.size, short.size, mode)


def _full(tape: Tape, long: Any, short: Any) -> Any:
    result = as_array(tape, np.zeros(long.size + short.size - 1))
    for k in range(short.size):
        result[k : k + long.size] += long * short[k]
    return result


def _part(full: Any, long: int, short: int, mode: str) -> Any:
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
        return _part(np.convolve(v, a[::-1]), v.size, a.size, mode)[::-1]
    return _part(np.convolve(a, v[::-1]), a.size, v.size, mode)


def _centred(tape: Tape, in1: Any, in2: Any, mode: str) -> Any:
    """A convolution of two vectors as `scipy.signal` cuts it: as long as the first one, and in the middle."""
    a, b = as_array(tape, in1), as_array(tape, in2)
    if a.ndim != 1 or b.ndim != 1:
        raise refuse("scipy.signal's convolutions are recorded of vectors; write those of images as sums of slices.")
    full = np.convolve(a, b)
    if mode != "same":
        return _part(full, max(a.size, b.size), min(a.size, b.size), mode)
    start = (full.size - a.size) // 2
    return full[start : start + a.size]


@borrows("scipy.signal", "convolve")
def signal_convolve(tape: Tape, in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """The convolution of two vectors."""
    return _centred(tape, in1, in2, mode)


@borrows("scipy.signal", "fftconvolve", "oaconvolve")
def signal_fftconvolve(tape: Tape, in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """The same: of few entries, sums of products are fewer operations than transforms."""
    return _centred(tape, in1, in2, mode)


@borrows("scipy.signal", "correlate")
def signal_correlate(tape: Tape, in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """The correlation of two vectors."""
    return _centred(tape, in1, np.conjugate(as_array(tape, in2))[::-1], mode)


@borrows("scipy.signal", "lfilter")
def lfilter(tape: Tape, b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """A filter with rational transfer function, step by step: direct form II transposed."""
    b, a = (np.atleast_1d(as_array(tape, part)) for part in (b, a))
    lines = np.moveaxis(as_array(tape, x), axis, -1)
    if any(map(holds_complex, (b, a, lines))):
        raise refuse("scipy.signal.lfilter is recorded of real numbers.")
    delays = max(b.size, a.size) - 1
    forward, back = ([part[k] / a[0] if k < part.size else 0.0 for k in range(delays + 1)] for part in (b, a))
    if zi is None:
        state = [np.zeros(lines.shape[:-1]) for _ in range(delays)]
    else:
        state = [as_array(tape, zi)[..., k] for k in range(delays)]
    results = []
    for k in range(lines.shape[-1]):
        given = lines[..., k]
        result = forward[0] * given + (state[0] if delays else 0.0)
        following = [*state[1:], 0.0]
        state = [following[i] + forward[i + 1] * given - back[i + 1] * result for i in range(delays)]
        results.append(result)
    filtered = np.moveaxis(np.stack(results, axis=-1), -1, axis)
    return filtered if zi is None else (filtered, np.stack(state, axis=-1))
