"""The plain form of a tape: without dead operations, with powers and quotients spelt out.

Forward passes rebuild what the outputs need, until nothing changes, with these rewrites:

* powers with a whole or half exponent become chains of products that are shared between all exponents of one
  base (``x³`` and its derivative ``3x²`` take three products); other real powers one apart share one call of pow;
* where the reciprocal of a divisor is needed anyway (as a partial derivative it usually is), a/b becomes a · (1/b);
* division by a constant becomes a product with its reciprocal;
* ``attach(x, d)`` is x, the derivative having been taken.

What reaches floor, ceil, sign or a comparison is not rewritten: it has to be rounded as it was written.

Rounding: a chain for xⁿ is off by at most n/2 units in the last place (the condition number of xⁿ is n), for
negative n by n, for negative halves by 3n; a quotient by at most 1.5 instead of 0.5. A divisor below 6e-309 in
magnitude, whose reciprocal overflows, is not supported by the shared form. The square root of -∞ is NaN, so halves of
-∞ are, where pow takes |x|.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Final

from accumulus.tape.live import as_written, needed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

__all__ = ["plain"]

_ATTACH: Final = BY_NAME["attach"].code

_POWER: Final = BY_NAME["power"].code
_DIVIDE: Final = BY_NAME["divide"].code
#: Larger whole exponents are left to pow, which is then as fast and more accurate.
LARGEST_CHAIN: Final = 64


def plain(tape: Tape, kept_outputs: int = 0) -> Tape:
    """An equivalent tape without dead operations; see the module for what is rewritten.

    Args:
        kept_outputs: that many of the first outputs stay as they are computed, operation by operation.
    """
    marks = needed(tape)
    kept = as_written(tape, kept_outputs)
    live = [reference for reference in range(tape.inputs, len(tape)) if marks[reference]]
    inverted = {
        tape.second[r]
        for r in live
        if tape.codes[r] == _DIVIDE and tape.first[r] < 0 and tape.value_of(tape.first[r]) == 1.0
    }
    exponents: dict[int, set[float]] = defaultdict(set)
    for r in live:
        if tape.codes[r] == _POWER and tape.second[r] < 0:
            exponents[tape.first[r]].add(tape.value_of(tape.second[r]))

    result = tape.emptied()
    rewritten = False
    moved = list(range(len(tape)))
    for r in live:
        code = tape.codes[r]
        arguments = tape.arguments(r)
        new = [moved[a] if a >= 0 else a for a in arguments]
        if code == _ATTACH:
            moved[r] = new[0]
        elif kept[r]:
            moved[r] = result.apply_code(code, new)
            continue
        elif code == _DIVIDE:
            moved[r] = _quotient(result, new[0], new[1], arguments[1] in inverted)
        elif code == _POWER and arguments[1] < 0:
            moved[r] = _power(result, new[0], tape.value_of(arguments[1]), exponents[arguments[0]])
        else:
            moved[r] = result.apply_code(code, new)
            continue
        rewritten = rewritten or moved[r] < 0 or result.codes[moved[r]] != code
    result.outputs = [moved[output] if output >= 0 else output for output in tape.outputs]
    # a rewritten power or quotient may need a reciprocal, or a lower power, that others can share
    return plain(result, kept_outputs) if rewritten or not all(needed(result)[result.inputs :]) else result


def _quotient(tape: Tape, a: int, b: int, shared: bool) -> int:
    one = tape.constant(1.0)
    if b < 0:
        reciprocal = 1.0 / tape.value_of(b) if tape.value_of(b) else math.inf
        exact = math.isfinite(reciprocal) and abs(reciprocal) > 1e-300
        return tape.multiply(a, tape.constant(reciprocal)) if exact else tape.divide(a, b)
    return tape.multiply(a, tape.divide(one, b)) if shared else tape.divide(a, b)


def _power(tape: Tape, x: int, exponent: float, together: set[float]) -> int:
    twice = 2 * exponent
    if twice.is_integer() and abs(exponent) <= LARGEST_CHAIN:
        if exponent.is_integer():
            base = x if exponent > 0 else tape.divide(tape.constant(1.0), x)
            return _chain(tape, base, int(abs(exponent)))
        root = tape.apply("sqrt", x)
        if exponent > 0:
            return tape.multiply(_chain(tape, x, int(exponent)), root) if exponent > 1 else root
        return _chain(tape, tape.divide(tape.constant(1.0), root), int(-twice))

    def call(p: float) -> int:
        return tape.power(x, tape.constant(p))

    if exponent > 1 and exponent - 1 in together - {exponent}:
        return tape.multiply(x, call(exponent - 1))
    if exponent < -1 and exponent + 1 in together - {exponent}:
        return tape.divide(call(exponent + 1), x)
    return call(exponent)


def _chain(tape: Tape, x: int, n: int) -> int:
    """xⁿ for n ≥ 1; every chain of one base passes through the same lower powers."""
    if n == 1:
        return x
    if n % 2 == 0:
        half = _chain(tape, x, n // 2)
        return tape.multiply(half, half)
    return tape.multiply(_chain(tape, x, n - 1), x)
