"""Compiled arithmetic modulo primes."""

from __future__ import annotations

import math
from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import bits_of, wrapped

#: Residue of what is undefined.
UNDEFINED: Final = -1
#: Number of bits of primes: below it, the quotient that reduces a product is right up to one in doubles.
PRIME_BITS: Final = 50
#: A Mersenne prime that is 3 modulo 4, and its bits: products of residues are reduced by a shift.
SMALL_BITS: Final = 31
SMALL_PRIME: Final = (1 << SMALL_BITS) - 1


@compiled
def times(a: int, b: int, prime: int, reciprocal: float) -> int:
    """Return the product of two residues below 2 ** PRIME_BITS."""
    quotient = int(float(a) * float(b) * reciprocal)
    result = wrapped(wrapped(a * b) - wrapped(quotient * prime))
    if result < 0:
        return result + prime
    return result - prime if result >= prime else result


@compiled
def plus(a: int, b: int, prime: int) -> int:
    """Return the sum of two residues."""
    result = a + b
    return result - prime if result >= prime else result


@compiled
def minus(a: int, prime: int) -> int:
    """Return the negative of a residue."""
    return prime - a if a else 0


@compiled
def difference(a: int, b: int, prime: int) -> int:
    """Return the difference of two residues."""
    return plus(a, minus(b, prime), prime)


@compiled
def raised(a: int, exponent: int, prime: int, reciprocal: float) -> int:
    """Return a residue to a power that is not negative."""
    result = 1
    while exponent > 0:
        if exponent & 1:
            result = times(result, a, prime, reciprocal)
        a = times(a, a, prime, reciprocal)
        exponent >>= 1
    return result


@compiled
def product(a: int, b: int, c: int, d: int, prime: int, reciprocal: float) -> tuple[int, int]:
    """Return the product of a + b·i and c + d·i."""
    real, imaginary = times(a, c, prime, reciprocal), 0
    if b != 0 or d != 0:
        real = difference(real, times(b, d, prime, reciprocal), prime)
        imaginary = plus(times(a, d, prime, reciprocal), times(b, c, prime, reciprocal), prime)
    return real, imaginary


@compiled
def inverse(a: int, b: int, prime: int, reciprocal: float) -> tuple[int, int]:
    """Return the reciprocal of a + b·i; 0 for 0."""
    norm = plus(times(a, a, prime, reciprocal), times(b, b, prime, reciprocal), prime)
    over = raised(norm, prime - 2, prime, reciprocal)
    return times(a, over, prime, reciprocal), times(minus(b, prime), over, prime, reciprocal)


@compiled
def is_turned(a: int, b: int, prime: int) -> bool:
    """Return True if the negative of a + b·i comes before it."""
    opposite = minus(a, prime)
    return opposite < a or (opposite == a and minus(b, prime) < b)


@compiled
def residue_of(number: float, prime: int, reciprocal: float) -> int:
    """Return the residue of a double, which is a whole number times a power of two; `UNDEFINED` if it is not finite."""
    if not abs(number) < math.inf:
        return UNDEFINED
    bits = bits_of(abs(number))
    exponent, mantissa = bits >> 52, bits & ((1 << 52) - 1)
    if exponent:
        mantissa |= 1 << 52
        exponent -= 1
    exponent -= 1074
    power = 2 if exponent > 0 else (prime + 1) // 2
    result = times(mantissa % prime, raised(power, abs(exponent), prime, reciprocal), prime, reciprocal)
    return minus(result, prime) if number < 0.0 else result


@compiled
def small_times(a: int, b: int) -> int:
    """Return the product of two residues modulo `SMALL_PRIME`."""
    product = a * b
    result = (product & SMALL_PRIME) + (product >> SMALL_BITS)
    return result - SMALL_PRIME if result >= SMALL_PRIME else result
