"""Weights by which operations are compared, of all operations and of whole tapes; the table of operations has them.

* `TIME`: how long it keeps a processor busy at one point of a batch, in vectors of doubles; an addition takes 1. It
  decides on the threads of a batch and on the variants of code (`accumulus.targets`).
* `LATENCY`: cycles until its result can be used; by this operations are scheduled.
* `IN_SEARCH`: its cost in the search for a shorter program (`accumulus.rewriting`).

Times were measured on the processor of `SECONDS` and rounded to fives, but divisions, roots and fmod take half as long
there, and twice as long on some. The weights in the search are such that programs are fast as well as short: with these
the suite of benchmarks needs as few operations as with equal weights, and fewer divisions. Signs weigh nothing, since
most vanish in the end.

They are rough, and the same on every machine, so that decisions are, too. A sum of times ignores products that are
fused with sums, signs that go into constants, loads, stores, and values that do not fit the registers.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["FUSED", "IN_SEARCH", "LATENCY", "SECONDS", "TIME", "UNIT", "time_of"]

#: Seconds of an addition at one point, on an AMD EPYC of 2024 (Zen 5, vectors of eight doubles).
SECONDS: Final = 15e-12

#: What an addition weighs in a search for a shorter program.
UNIT: Final = 64
#: The key, among these, of the discount for a product with the sum that alone uses it: a target fuses them into one
#: instruction, but they count as two operations.
FUSED: Final = "sum with product"

#: By code, in additions.
TIME: Final = tuple(row.time for row in OPERATIONS)
#: By code, in cycles.
LATENCY: Final = tuple(row.latency for row in OPERATIONS)
#: By name, an addition `UNIT`; and `FUSED`.
IN_SEARCH: Final = {**{row.name: UNIT * row.search for row in OPERATIONS}, FUSED: 16}

_SIN, _COS = BY_NAME["sin"].code, BY_NAME["cos"].code


def time_of(tape: Tape) -> int:
    """How long the operations that the outputs need take at one point, in additions.

    Sine and cosine of one angle are one call, which takes as long as the sine.

    >>> tape = Tape(2)
    >>> tape.outputs = [tape.multiply(tape.apply("sin", 0), tape.apply("cos", 0)), tape.add(0, 1)]
    >>> time_of(tape) == TIME[_SIN] + 2
    True
    """
    live = np.frombuffer(needed(tape), bool)
    codes, first = np.frombuffer(tape.codes, np.uint8), np.frombuffer(tape.first, np.intc)
    sines, cosines = (first[live & (codes == code)] for code in (_SIN, _COS))
    total = int(np.array(TIME)[codes[live]].sum())
    return total - TIME[_COS] * len(np.intersect1d(sines, cosines, assume_unique=True))
