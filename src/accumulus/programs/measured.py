"""Measured speed of a program: a call at one point, batches by their size, and the limits of the machine.

**Roofline** (Williams, Waterman and Patterson, Communications of the ACM 52, 2009). A batch loads its arguments and
stores its results, so at an intensity of k operations per byte it cannot exceed k times the bandwidth of memory; nor
can it exceed the peak of arithmetic. Both are measured here, in a few hundredths of a second: the peak by
multiplications and additions in registers, in code of the same compiler; the bandwidth by copies in a cache and in
memory. An operation counts as one, whatever it is: a program of sines stays far below the peak.

Everything is measured on one thread, and is the minimum over repetitions.
"""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.tape.tape import Tape
from accumulus.targets.kernel import Kernel, Segment
from accumulus.targets.target import Code

#: Numbers of points of measured batches; a batch of more than `MOST_BYTES` is not measured, nor one that takes longer
#: than `LONGEST` seconds by the times of the smaller ones. Larger batches show more of the memory's effect on speed,
#: but measuring takes longer.
POINTS: Final = (1, 10, 100, 1_000, 10_000, 100_000)
MOST_BYTES, LONGEST = 200_000_000, 0.5
#: Seconds for which each batch is repeated, at least three times. A longer time finds shorter minima on a busy machine,
#: a shorter one finishes the measurement earlier.
REPEATED: Final = 0.02
#: Bytes of copies in a cache, and in memory. A larger first size may exceed the second-level cache of small processors;
#: a smaller second one may stay in the last cache of large ones.
IN_CACHE, IN_MEMORY = 200_000, 60_000_000
#: Chains of multiply-adds that do not depend on each other, and the length of each. Fewer chains wait for the latency
#: of an operation, more do not fit the registers; shorter ones measure loads and stores, too.
CHAINS, LENGTH = 10, 12


@dataclass(frozen=True, slots=True)
class Speed:
    """Measured speed of a program, on one thread.

    Attributes:
        call: seconds of a call from Python at one point.
        points: number of points of each batch.
        seconds: seconds per point of each batch.
        operations: operations per point.
        bytes: bytes of arguments and results per point.
        peak: largest number of operations per second, in registers.
        bandwidth: bytes per second that a copy reads and writes: in a cache, and in memory.
        machine: name of the processor.
        date: day of the measurement.
    """

    call: float
    points: tuple[int, ...]
    seconds: tuple[float, ...]
    operations: int
    bytes: int
    peak: float
    bandwidth: tuple[float, float]
    machine: str
    date: str

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.operations / max(self.bytes, 1)

    @property
    def rates(self) -> tuple[float, ...]:
        """Operations per second of each batch."""
        return tuple(self.operations / seconds for seconds in self.seconds)

    def limit(self, intensity: float, *, in_cache: bool = False) -> float:
        """Return the operations per second that a program of some operations per byte cannot exceed."""
        return min(self.peak, intensity * self.bandwidth[0 if in_cache else 1])


def measure(kernel: Kernel, call: Callable[[], object], point: Sequence[NDArray[Any]], operations: int) -> Speed:
    """Measure a program.

    Args:
        kernel: compiled code.
        call: calls the program from Python at one point.
        point: arguments of the code at that point.
        operations: number of its operations.
    """
    entries = sum(x.size for x in point) + sum(segment.length for segment in kernel.segments)
    size = entries * kernel.dtype.itemsize
    points: list[int] = []
    seconds: list[float] = []
    for count in POINTS:
        if points and (count * size > MOST_BYTES or count * seconds[-1] > LONGEST):
            break
        X = [np.ascontiguousarray(np.broadcast_to(x, (count, *x.shape))) for x in point]
        out = kernel.allocate(count, False)
        for array in out:
            array[...] = 0
        points.append(count)
        seconds.append(_shortest(lambda X=X, out=out: kernel.batch(*X, out=out)) / count)  # type: ignore[misc]
    return Speed(
        call=_shortest(call),
        points=tuple(points),
        seconds=tuple(seconds),
        operations=operations,
        bytes=size,
        peak=peak(str(kernel.dtype)),
        bandwidth=(bandwidth(IN_CACHE), bandwidth(IN_MEMORY)),
        machine=machine(),
        date=datetime.date.today().isoformat(),
    )


def _shortest(call: Callable[[], object]) -> float:
    """Return the shortest time of a call, in seconds."""
    call()
    times: list[float] = []
    end = time.perf_counter() + REPEATED
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


@cache
def peak(dtype: str) -> float:
    """Return the number of multiplications and additions per second in registers, on one thread."""
    tape = Tape(2)
    ends = [tape.add(0, tape.constant(0.125 * k)) for k in range(CHAINS)]
    for _ in range(LENGTH):
        ends = [tape.add(tape.multiply(end, 1), 0) for end in ends]
    total = ends[0]
    for end in ends[1:]:
        total = tape.add(total, end)
    tape.outputs = [total]
    segments = [Segment(1, (0,), (0,))]
    kernel = Code(tape).kernel(segments, [(), ()], "llvm", dtype)
    X = [np.full(4_096, value, kernel.dtype) for value in (0.3, 0.5)]
    out = kernel.allocate(4_096, False)
    return float(4_096 * tape.operations / _shortest(lambda: kernel.batch(*X, out=out)))


@cache
def bandwidth(size: int) -> float:
    """Return the bytes per second that a copy reads and writes, on one thread.

    Args:
        size: number of bytes of both arrays together.
    """
    array = np.ones(size // 16)
    copy = np.zeros_like(array)
    return 2.0 * array.nbytes / _shortest(lambda: np.copyto(copy, array))


@cache
def machine() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
