"""Canonical form of a tape: no dead operations, powers and quotients written as products.

Forward passes rebuild the operations that outputs need, until nothing changes, with these rewrites:

* powers with an integer or half-integer exponent become chains of products, which all exponents of one base share
  (``x³`` and its derivative ``3x²`` take three products); other powers whose exponents differ by one share one call
  of pow;
* where the reciprocal of a divisor is needed anyway (as a partial derivative it usually is), a/b becomes a · (1/b);
* division by a constant becomes a product with its reciprocal;
* ``attach(x, d)`` becomes x, since the derivative has been taken.

Values that reach floor, ceil, sign, fmod or a comparison are not rewritten: they have to be rounded as recorded.

Rounding: a chain for xⁿ has an error of at most n/2 units in the last place (the condition number of xⁿ is n), of n for
negative n, and of 3n for negative half-integers; a quotient of at most 1.5 instead of 0.5. The shared form does not
support divisors below 6e-309 in magnitude, whose reciprocal overflows. Half-integer powers of -∞ are NaN, as its square
root is; pow would return that power of +∞.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.state import Integers
from accumulus.tape.compiled.passes_kernel import QUOTIENT, SHARED_QUOTIENT, SIGNED, TAKE
from accumulus.tape.live import as_written, lasting, needed, signed_zeros
from accumulus.tape.operations import BY_NAME
from accumulus.tape.passes import extended, moved, rows_of
from accumulus.tape.tape import DIVIDE, POWER, Tape

_ATTACH: Final = BY_NAME["attach"].code

#: Largest integer exponent that becomes a chain; beyond it pow is as fast and more accurate, below it calls of pow take
#: longer than products.
LARGEST_CHAIN: Final = 64


def canonical(tape: Tape, kept_outputs: int = 0, *, differentiated: bool = False) -> Tape:
    """Return an equivalent tape without dead operations, after the rewrites of this module.

    Args:
        tape: tape to rewrite.
        kept_outputs: number of leading outputs whose operations stay unchanged.
        differentiated: if True, derivatives of the tape are taken: fractional powers stay, since their roots have no
            derivative at 0, and attached derivatives that last stay, too.
    """
    while True:
        tape, rewritten = _pass(tape, kept_outputs, differentiated)
        # a rewritten power or quotient may need a reciprocal, or a lower power, that others can share
        if not rewritten and all(needed(tape)[tape.inputs :]):
            return tape


def _pass(tape: Tape, kept_outputs: int, differentiated: bool) -> tuple[Tape, bool]:
    """Return the operations that outputs need, rewritten once, and True if any became another operation."""
    inputs = tape.inputs
    live = np.flatnonzero(np.frombuffer(needed(tape), bool)[inputs:]) + inputs
    rows = rows_of(tape)[live]
    codes, first, second = rows[:, :3].T
    free = ~np.frombuffer(as_written(tape, kept_outputs), bool)[live]
    attached = codes == _ATTACH
    if differentiated and attached.any():
        attached &= ~lasting(tape)[live]
    quotients = free & (codes == DIVIDE)
    powers = np.flatnonzero(free & (codes == POWER) & (second < 0))
    if differentiated:
        powers = powers[np.array(tape.constants)[-1 - second[powers]] % 1.0 == 0.0]

    base = tape.emptied()
    # values whose reciprocals are needed; reciprocals of constants are constants
    inverted = np.zeros(len(tape) + len(tape.constants), bool)
    inverted[second[(codes == DIVIDE) & (first == base.constant(1.0)) & (second >= 0)]] = True
    chains, kinds = _chains(base, first[powers], np.array(tape.constants)[-1 - second[powers]])

    # the last operation of a replacement has the value of the original
    lengths = np.ones(len(live), np.int64)
    if chains:
        lengths[powers] = np.array([len(chain) for chain in chains], np.int64)[kinds]
    ends = np.cumsum(lengths) + inputs - 1
    moved_to = np.arange(len(tape))
    moved_to[live] = ends
    arguments = moved(rows[:, 1:], moved_to)
    recorded = np.empty((lengths.sum(), rows.shape[1]), np.int64)
    recorded[ends - inputs, 0] = np.where(attached, TAKE, codes)
    recorded[ends - inputs, 1:] = arguments
    divided = np.where(inverted[second[quotients]], SHARED_QUOTIENT, QUOTIENT)
    recorded[ends[quotients] - inputs, 0] = divided
    for kind, chain in enumerate(chains):
        chosen = powers[kinds == kind]
        starts = ends[chosen] - len(chain) + 1
        for k, (code, *operands) in enumerate(chain.tolist()):
            recorded[starts - inputs + k, 0] = code
            for column, operand in enumerate(operands, 1):
                # operand on the chain's tape: the base, an earlier operation, or a constant
                value = arguments[chosen, 0] if operand == 0 else starts + operand - 1 if operand > 0 else operand
                recorded[starts - inputs + k, column] = value

    # none of the operations rewritten above is marked here
    recorded[ends - inputs, 0] += SIGNED * signed_zeros(tape)[live]

    result, values = extended(base, recorded)
    result.outputs = moved(moved(tape.outputs, moved_to), values).tolist()
    changeable = attached | quotients
    changeable[powers] = True
    new = values[ends[changeable]]
    return result, bool((new < 0).any() or (np.frombuffer(result.codes, np.uint8)[new] != codes[changeable]).any())


def _chains(tape: Tape, bases: Integers, exponents: NDArray[np.float64]) -> tuple[list[Integers], Integers]:
    """Return rows of operations for each kind of power, with constants of `tape`; and the kind of each power."""
    if not len(bases):
        return [], bases
    lower = np.where(exponents > 0, exponents - 1, exponents + 1)
    there = set(zip(bases.tolist(), exponents.tolist(), strict=True))
    beside = [pair in there for pair in zip(bases.tolist(), lower.tolist(), strict=True)]
    together = np.array(beside, bool) & (lower != exponents)
    kinds, kind = np.unique(np.stack([exponents, together], axis=1), axis=0, return_inverse=True)
    chains = []
    for exponent, beside in kinds.tolist():
        chain = Tape(1)
        _power(chain, 0, exponent, bool(beside))
        rows = rows_of(chain, 1)
        constants = np.array([tape.constant(value) for value in chain.constants], np.int64)
        is_constant = rows[:, 1:] < 0
        rows[:, 1:][is_constant] = constants[-1 - rows[:, 1:][is_constant]]
        chains.append(rows)
    return chains, kind.reshape(-1)


def _power(tape: Tape, x: int, exponent: float, beside: bool) -> int:
    """Return x to a power; `beside` is True if the power with an exponent nearer to 0 by one is needed, too."""
    twice = 2 * exponent
    if twice.is_integer() and abs(exponent) <= LARGEST_CHAIN:
        if exponent.is_integer():
            base = x if exponent > 0 else tape.divide(tape.constant(1.0), x)
            return _chain(tape, base, int(abs(exponent)))
        root = tape.apply("sqrt", x)
        if exponent > 0:
            return tape.multiply(_chain(tape, x, int(exponent)), root) if exponent > 1 else root
        return _chain(tape, tape.divide(tape.constant(1.0), root), int(-twice))
    if beside and exponent > 1:
        return tape.multiply(x, tape.power(x, tape.constant(exponent - 1)))
    if beside and exponent < -1:
        return tape.divide(tape.power(x, tape.constant(exponent + 1)), x)
    return tape.power(x, tape.constant(exponent))


def _chain(tape: Tape, x: int, n: int) -> int:
    """Return xⁿ for n ≥ 1; every chain of one base passes through the same lower powers."""
    if n == 1:
        return x
    if n % 2 == 0:
        half = _chain(tape, x, n // 2)
        return tape.multiply(half, half)
    return tape.multiply(_chain(tape, x, n - 1), x)
