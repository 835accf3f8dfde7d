"""Convolutions, correlations and recursive filters of `scipy.signal`."""

from __future__ import annotations

from typing import Any

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.convolutions import part_of
from accumulus.frontends.numpy.operands import holds_complex
from accumulus.tape.tape import Tape

__all__ = ["lfilter"]


def _centred(tape: Tape, in1: Any, in2: Any, mode: str) -> Any:
    """A convolution of two vectors as `scipy.signal` cuts it: as long as the first one, and in the middle."""
    a, b = as_array(tape, in1), as_array(tape, in2)
    if a.ndim != 1 or b.ndim != 1:
        raise refuse("scipy.signal's convolutions are recorded of vectors; write those of images as sums of slices.")
    full = np.convolve(a, b)
    if mode != "same":
        return part_of(full, max(a.size, b.size), min(a.size, b.size), mode)
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
