"""Certainty of proofs that two programs compute the same values, as identities of rational functions.

Both run at random points of finite fields (`accumulus.rewriting.equivalence`). Let d be the degree, and b the bits of
the coefficients, of the difference of two outputs, a polynomial in inputs, functions and roots. If it is not the zero
polynomial, it is zero at a random point with a probability of at most d/p (Schwartz, J. ACM 27, 1980; Zippel, EUROSAM
1979), p > 2⁴⁹, or because p, one of 10¹² primes, is among the b/49 that divide all of its coefficients. Different
arguments of m functions have different values, unless one of their at most m² differences is zero by chance. So a wrong
output passes N points with a probability of at most

    ((1 + m²) (d / 2⁴⁹ + b / (49 · 10¹²)))ᴺ,

and N is so large that this is below 2⁻⁶⁴. With k square roots, the product over all of their signs is such a
polynomial: d and b count 2ᵏ times. Signs of roots are random at every point. That is enough if each sign can be turned
without the others: if no product of radicands is a square. Otherwise, at every point, an even number of the radicands
in question would not be squares modulo p. Of n roots for which the points do not exclude that, such as sqrt(x²) and
roots of roots, the difference may be zero for all signs but one, so that it passes N points with a probability of
(1 - 2⁻ⁿ)ᴺ.

Identities of positive numbers only, such as sqrt(x²) = x, are not proved, even if these are assumed. A proved identity
holds wherever both sides are defined, in exact arithmetic, with the exact values of constants that folding has rounded.

**Degrees.** A value is N / (D₁^e₁ D₂^e₂ …), where the D are numerators of divisors, so that a sum needs no more of them
than its terms have. Roots and functions are separate variables; a root has half the size of its radicand.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple

from accumulus.rewriting.compiled.exact_kernel import LARGEST_POWER
from accumulus.rewriting.compiled.fields import PRIME_BITS, UNDEFINED
from accumulus.rewriting.equivalence import (
    OF_ROOTS,
    POINTS,
    Points,
    Verification,
    dependent_roots,
    radicands,
)
from accumulus.tape.interpreter import Domain, values
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT, Tape

#: Certainty of a proof, −log₂ of its probability of error; and largest number of points that it uses. More certainty
#: takes more points, and time in proportion; a smaller largest number leaves programs of high degree without proof.
CERTAIN: Final = 64.0
MOST_POINTS: Final = 160
#: Fewer than the primes that points choose from.
_PRIMES: Final = 10**12
_FIELD: Final = frozenset((ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE))
_SQRT, _POWER = (BY_NAME[name].code for name in ("sqrt", "power"))


class Proof(NamedTuple):
    """Proof of a program's outputs."""

    outputs: tuple[bool, ...]  # True for each output that is proved to be unchanged
    error: float  # upper bound on the probability that one of these is wrong

    @property
    def is_whole(self) -> bool:
        """Return True if all outputs are proved."""
        return all(self.outputs)


def prove(tape: Tape, other: Tape, seed: int = 0, *, kept_outputs: int = 0) -> Proof:
    """Return the proof that another tape with the same inputs computes the outputs of a tape, output by output.

    >>> def of(write):
    ...     tape = Tape(2)
    ...     tape.outputs = [write(tape)]
    ...     return tape
    >>> square = lambda tape, x: tape.multiply(x, x)
    >>> product = of(lambda tape: tape.multiply(tape.add(0, 1), tape.subtract(0, 1)))
    >>> difference = of(lambda tape: tape.subtract(square(tape, 0), square(tape, 1)))
    >>> prove(product, difference).is_whole
    True
    >>> prove(product, of(lambda tape: tape.subtract(square(tape, 0), 1))).is_whole
    False
    """
    bits, points = _chance(tape, other)
    if points > MOST_POINTS:
        return Proof((False,) * len(tape.outputs), 0.0)
    equal = Verification(tape, seed, kept_outputs=kept_outputs, count=points).equal(other)
    return Proof(tuple(equal.tolist()), 2.0 ** (bits * points) if equal.any() else 0.0)


def _chance(tape: Tape, other: Tape) -> tuple[float, int]:
    """Return the probability that different outputs agree at a point, as log₂, and the number of points to use."""
    degree, height = (sum(both) for both in zip(_largest(tape), _largest(other), strict=True))
    codes = tape.codes[tape.inputs :] + other.codes[other.inputs :]
    functions = sum(code not in _FIELD for code in codes)
    by_point = math.log2(degree + 1) - (PRIME_BITS - 1)
    by_prime = math.log2(height + 1) - math.log2((PRIME_BITS - 1) * _PRIMES)
    roots, dependent = _roots(tape, other)
    bits = math.log2(1 + functions**2) + max(by_point, by_prime) + 1 + roots
    if dependent and bits < 0:
        chance = 1.0 - 2.0**-dependent + 2.0**bits
        bits = math.log2(chance) if chance < 1.0 else 0.0
    return bits, max(POINTS, math.ceil(CERTAIN / -bits)) if bits < 0 else MOST_POINTS + 1


def _roots(tape: Tape, other: Tape) -> tuple[int, int]:
    """Return the number of square roots of two tapes, and of those whose signs may depend on others."""
    count = sum(each.codes.count(code) for each in (tape, other) for code in (_SQRT, _POWER))
    if not count:
        return 0, 0
    sides = Points(tape).for_roots([tape, other], 0)
    return len(set().union(*(radicands(each.tape, each.run) for each in sides))), max(dependent_roots(sides), default=0)


def are_equal_somewhere(tape: Tape, *, sums_of_angles: bool = False) -> bool:
    """Return True if both outputs of a tape are equal at a few points. That is no proof, but takes less time.

    Args:
        tape: tape with two outputs.
        sums_of_angles: if True, by the addition theorems; see `accumulus.rewriting.equivalence.Points`.
    """
    count = OF_ROOTS if _SQRT in tape.codes else 1
    run = Points(tape, count=count, sums_of_angles=sums_of_angles).run(tape)
    (a, c), (b, d) = run.real[tape.outputs], run.imaginary[tape.outputs]
    return bool(((a != UNDEFINED) & (a == c) & (b == d)).all())


# Sizes of polynomials ------------------------------------------------------------------------------------------------

_TWO: Final = "two"


class _Size(NamedTuple):
    """Bounds on a polynomial's degree, and on log₂ of the sum of its coefficients' magnitudes."""

    degree: int
    bits: int

    def __add__(self, other: _Size) -> _Size:  # type: ignore[override]  # of the product of two polynomials
        return _Size(self.degree + other.degree, self.bits + other.bits)

    def times(self, exponent: int) -> _Size:
        """Return the size of a power."""
        return _Size(self.degree * exponent, self.bits * exponent)


_NOTHING: Final = _Size(0, 0)


class _Quotient(NamedTuple):
    """Size of a numerator, and the exponents of its divisors."""

    above: _Size
    below: Counter[Hashable]


def _largest(tape: Tape) -> _Size:
    """Return bounds on the numerators and denominators of all values of a tape, as one size."""
    domain = _Sizes()
    quotients = values(tape, domain, [_Quotient(_Size(1, 0), Counter())] * tape.inputs)[tape.inputs : len(tape)]
    wholes = [each.above + _product(each.below, domain.sizes) for each in quotients]
    return _Size(max((each.degree for each in wholes), default=0), max((each.bits for each in wholes), default=0))


class _Sizes(Domain):
    """Domain of sizes: of values, and of divisors."""

    located = frozenset(("divide", "sin", "cos", "power"))

    def __init__(self) -> None:
        self.sizes: dict[Hashable, _Size] = {_TWO: _Size(0, 1)}

    def number(self, number: float) -> _Quotient:
        if not math.isfinite(number):
            return _Quotient(_NOTHING, Counter())
        numerator, denominator = number.as_integer_ratio()
        return _Quotient(_Size(0, numerator.bit_length()), Counter({_TWO: denominator.bit_length() - 1}))

    def add(self, x: _Quotient, y: _Quotient) -> _Quotient:
        below = x.below | y.below
        above = [each.above + _product(below - each.below, self.sizes) for each in (x, y)]
        return _Quotient(_Size(max(each.degree for each in above), 1 + max(each.bits for each in above)), below)

    subtract = add

    def select(self, _: _Quotient, x: _Quotient, y: _Quotient) -> _Quotient:
        return self.add(x, y)

    def negative(self, x: _Quotient, *_: _Quotient) -> _Quotient:
        return x

    attach = negative

    def multiply(self, x: _Quotient, y: _Quotient) -> _Quotient:
        return _Quotient(x.above + y.above, x.below + y.below)

    def divide(self, tape: Tape, r: int, x: _Quotient, y: _Quotient) -> _Quotient:
        return _divided(x, y, tape.second[r], self.sizes)

    def sqrt(self, x: _Quotient) -> _Quotient:  # the root of N/D is the root of N·D, divided by D
        square = x.above + _product(x.below, self.sizes)
        return _Quotient(_Size(-(-square.degree // 2), -(-square.bits // 2)), x.below)

    def sin(self, tape: Tape, r: int, _: _Quotient) -> _Quotient:
        circle = "circle", tape.first[r]
        self.sizes[circle] = _Size(2, 1)
        return _Quotient(_Size(2, 1), Counter([circle]))

    cos = sin

    def power(self, tape: Tape, r: int, base: _Quotient, _: _Quotient) -> _Quotient:
        if tape.second[r] >= 0 or not abs(exponent := tape.value_of(tape.second[r])) <= LARGEST_POWER:
            return self.function()
        whole = math.floor(exponent)
        times = abs(whole)
        power = _Quotient(base.above.times(times), Counter({key: times * many for key, many in base.below.items()}))
        if whole < 0:
            power = _divided(_Quotient(_NOTHING, Counter()), power, ("power", r), self.sizes)
        return power._replace(above=power.above + _Size(1, 0))

    def function(self, *_: Any) -> _Quotient:
        return _Quotient(_Size(1, 0), Counter())


def _divided(x: _Quotient, y: _Quotient, name: Hashable, sizes: dict[Hashable, _Size]) -> _Quotient:
    sizes[name] = y.above
    below = x.below + Counter([name])
    return _Quotient(x.above + _product(y.below - below, sizes), below - y.below)


def _product(powers: Counter[Hashable], sizes: Mapping[Hashable, _Size]) -> _Size:
    total = _NOTHING
    for key, many in powers.items():
        total += sizes[key].times(many)
    return total
