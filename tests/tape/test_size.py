"""Memory of a tape: at most 300 bytes an operation.

Measured where it is worst, at sizes just after the dictionary of known operations has doubled; between two such sizes
a byte count an operation only falls, so larger tapes take no more.
"""

from __future__ import annotations

import random
import tracemalloc

import pytest

from accumulus import Tape

BYTES_PER_OPERATION = 300


@pytest.mark.parametrize("operations", [45_000, 90_000])
def test_memory_per_operation(operations):
    rng = random.Random(0)
    numbers = [rng.random() for _ in range(3 * operations)]
    tracemalloc.start()
    try:
        tape = Tape(10)
        builders = (tape.add, tape.multiply, tape.subtract)
        three = tape.constant(3.0)
        for a, b, c in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
            size = len(tape)
            if c < 0.05:
                tape.select(tape.apply("less", int(a * size), three), int(b * size), three)
            elif c < 0.1:
                tape.apply("sin", int(a * size))
            else:
                builders[int(3 * c)](int(a * size), int(b * size))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tape.operations > 0.9 * operations
    assert taken <= BYTES_PER_OPERATION * tape.operations
