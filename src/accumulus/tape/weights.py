"""What each operation of the table costs: all weights by which operations are compared.

* `TIME`: how long it keeps a processor busy at one point of a batch, in vectors of doubles; an addition takes 1. It
  decides on the threads of a batch and on the variants of code (`accumulus.targets`).
* `LATENCY`: cycles until its result can be used; by this operations are scheduled.
* `IN_SEARCH`: its cost in the search for a shorter program (`accumulus.rewriting`).

They are rough, and the same on every machine, so that decisions are, too. A sum of times ignores products that are
fused with sums, signs that go into constants, loads, stores, and values that do not fit the registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME, OPERATIONS, Operation
from accumulus.tape.tape import Tape

__all__ = ["FUSED", "IN_SEARCH", "LATENCY", "SECONDS", "TIME", "UNIT", "time_of"]

#: Seconds of an addition at one point, on an AMD EPYC of 2024 (Zen 5, vectors of eight doubles).
SECONDS: Final = 15e-12

# Measured there, and rounded to fives; but divisions, roots and fmod take half as long on that processor, and twice as
# long on some.
# fmt: off
_TIMES: Final = {
    "divide": 15, "sqrt": 30, "fmod": 25, "power": 105, "cbrt": 25, "hypot": 25, "exp": 25, "expm1": 35, "exp2": 25,
    "log": 30, "log1p": 30, "log2": 30, "log10": 25, "sin": 35, "cos": 35, "tan": 35, "asin": 30, "acos": 35,
    "atan": 40, "atan2": 50, "sinh": 65, "cosh": 30, "tanh": 30, "asinh": 80, "acosh": 80, "atanh": 45, "erf": 65,
    "erfc": 65, "attach": 0, "erfinv": 380, "erfcinv": 400, "erfcx": 150, "log_ndtr": 350, "i1erfcx": 150,
    "ierfcx": 450, "gamma": 460, "gammaln": 360, "digamma": 370, "zeta": 1600, "j0": 2600, "j1": 5000, "y0": 7000,
    "y1": 5500, "jn": 23000, "yn": 13000, "iv": 16000, "ive": 15000, "i0": 230, "i1": 230, "i0e": 170, "i1e": 170,
    "k0": 230, "k1": 250, "k0e": 240, "k1e": 250,
}
# fmt: on
#: Of calls that have not been measured.
_CALL_TIME: Final = 30
_LATENCIES: Final = {"divide": 16, "sqrt": 25, "attach": 0}
#: Of most operations; of calls.
_USUAL_LATENCY, _CALL_LATENCY = 4, 80

#: What an addition weighs in a search for a shorter program.
UNIT: Final = 64
#: Slow operations in that search, in additions: programs are to be fast as well as short. With these the suite of
#: benchmarks needs as few operations as with equal weights, and fewer divisions. Signs weigh nothing, since most vanish
#: in the end.
_IN_SEARCH: Final = {"divide": 3, "sqrt": 3, "negative": 0, "attach": 0}
_CALL_IN_SEARCH: Final = 5
#: The key, among these, of the discount for a product with the sum that alone uses it: a target fuses them into one
#: instruction, but they count as two operations.
FUSED: Final = "sum with product"


def _by_code(given: Mapping[str, int], usual: int, call: int) -> tuple[int, ...]:
    """By code: the number given under the operation's name, else that of calls or of all others; 0 for inputs."""

    def of(row: Operation) -> int:
        return given.get(row.name, call if row.llvm.startswith("@") else usual) if row.arity else 0

    return tuple(map(of, OPERATIONS))


#: By code, in additions.
TIME: Final = _by_code(_TIMES, 1, _CALL_TIME)
#: By code, in cycles.
LATENCY: Final = _by_code(_LATENCIES, _USUAL_LATENCY, _CALL_LATENCY)
#: By name, an addition `UNIT`; and `FUSED`.
IN_SEARCH: Final = {
    **{row.name: UNIT * n for row, n in zip(OPERATIONS, _by_code(_IN_SEARCH, 1, _CALL_IN_SEARCH), strict=True)},
    FUSED: 16,
}

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
