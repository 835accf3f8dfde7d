"""Helpers for tests of targets: expected results, comparison in ulp, guarded memory."""

from __future__ import annotations

import numpy as np
from inside import evaluate

from accumulus import Tape
from accumulus.targets import Segment
from accumulus.targets.llvm.host import host


def lanes(dtype):
    return host().vector_bytes // np.dtype(dtype).itemsize


def expected(tape: Tape, segments, X):
    """Results of the interpreter, (points, length) for each segment."""
    count, dtype = len(X), X.dtype
    columns = [np.ascontiguousarray(X[:, k]) for k in range(tape.inputs)]
    number = np.float64 if dtype == np.float64 else np.float32
    with np.errstate(all="ignore"):
        values = [np.broadcast_to(value, count) for value in evaluate(tape, columns, number=number)]
    results = []
    for segment in segments:
        result = np.zeros((count, segment.length), dtype)
        for output, position in segment.pairs():
            result[:, position] = values[output]
        results.append(result)
    return results


def assert_same(actual, expected, ulps=0, signs=False):
    """Equal, NaN for NaN, up to so many units in the last place; zeros of either sign too, unless `signs` count."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    with np.errstate(all="ignore"):
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        if signs:
            same &= (actual != 0) | (np.signbit(actual) == np.signbit(expected))
        if ulps:
            unit = np.spacing(np.maximum(np.abs(expected), np.finfo(expected.dtype).tiny))
            same |= np.abs(actual - expected) <= ulps * unit
    if not same.all():
        where = tuple(np.argwhere(~same)[0])
        raise AssertionError(f"at {where}: {actual[where]!r}, expected {expected[where]!r}; {np.sum(~same)} differ")


class Guarded:
    """An array in the middle of a larger one, whose rest must not change."""

    MARK = 0x5A

    def __init__(self, shape, dtype, offset=0):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        around = 512
        self.memory = np.full(size + 2 * around + 64, self.MARK, np.uint8)
        start = around + -(self.memory.ctypes.data + around) % 64 + offset * np.dtype(dtype).itemsize
        self.start, self.end = start, start + size
        self.array = self.memory[start : start + size].view(dtype).reshape(shape)

    def check(self):
        assert (self.memory[: self.start] == self.MARK).all(), "written before the array"
        assert (self.memory[self.end :] == self.MARK).all(), "written behind the array"


def whole(*counts):
    """One segment a count, each with the next outputs of the tape."""
    segments, start = [], 0
    for count in counts:
        segments.append(Segment(count, tuple(range(start, start + count)), tuple(range(count))))
        start += count
    return tuple(segments)
