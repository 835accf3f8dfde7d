"""Proofs that two programs compute the same, as identities of polynomials modulo random primes.

Both run at random points (`accumulus.resubstitution.residues`), for every way in which their comparisons may come out.
Let d be the degree, and b the bits of coefficients, of what is zero if two outputs are one, a polynomial in inputs,
functions and roots (`accumulus.resubstitution.degrees`). If it is another polynomial, then it is zero at one point with
a probability of at most d/p (Schwartz, J. ACM 27, 1980; Zippel, EUROSAM 1979), p > 2⁶⁰, or because p, one of 10¹⁶
primes, is among the b/60 that divide all of its coefficients. Of k square roots, the product over all of their signs is
such a polynomial: d and b count 2ᵏ times. Functions of m arguments are of these, and not of others, unless two of their
at most m² differences are zero by chance. So a wrong output passes N points with a probability of at most

    ((1 + m²) 2ᵏ (d / 2⁶⁰ + b / (60 · 10¹⁶)))ᴺ,

and N is so large that this is below 2⁻⁶⁴.

Signs of roots are by chance, which is enough where each sign may be turned without the others: where no product of what
roots are of is a square. The residues show it: else at every point an even number of the roots in question would be no
residues. All signs are tried of roots of which that is not seen: of those that are within others, and of sqrt(x²).

What holds for positive numbers only, sqrt(x²) = x, is not proved; nor what holds up to the rounding of a constant. What
is proved holds wherever both sides are defined, if numbers are not rounded.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from accumulus.resubstitution.degrees import largest
from accumulus.resubstitution.residues import LEAST_PRIME, PRIMES, NoRootError, Point, random_prime
from accumulus.rewriting.equivalence import all_choices
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

__all__ = ["MOST_COMPARISONS", "Proof", "prove"]

#: Comparisons, at most: values are compared however these come out together.
MOST_COMPARISONS: Final = 6
#: How sure a proof is, as bits of the probability that it is wrong, and points that it takes.
CERTAIN: Final = 64.0
FEWEST_POINTS: Final = 2
MOST_POINTS: Final = 8
#: Roots of which all signs are tried, at most; points at which they are counted, beside one for each root.
MOST_SIGNS: Final = 5
MORE_POINTS: Final = 8
#: Points tried for one at which all roots can be computed.
TRIES: Final = 64
_FIELD: Final = frozenset(BY_NAME[name].code for name in ("add", "subtract", "multiply", "divide", "negative"))
_SQRT: Final = BY_NAME["sqrt"].code

_Root = tuple[int, int]


class Proof(NamedTuple):
    """What is proved of a program.

    Attributes:
        outputs: whether each is proved to be what it was.
        error: the probability that one of them is not though it is proved to be, at most.
    """

    outputs: tuple[bool, ...]
    error: float

    @property
    def is_whole(self) -> bool:
        """Whether all outputs are proved."""
        return all(self.outputs)


def prove(tape: Tape, other: Tape, seed: int = 0) -> Proof:
    """Which outputs of a tape another one with the same inputs is proved to compute.

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
    choices = all_choices(tape, MOST_COMPARISONS)
    chance = _Chance.of(tape, other)
    if choices is None or chance.points is None:
        return Proof((False,) * len(tape.outputs), 0.0)
    rng = random.Random(seed)
    equal = set(range(len(tape.outputs)))
    for chosen in choices:
        if equal:
            equal &= _Comparison(tape, other, chosen, rng).equal(chance.points)
    error = len(choices) * 2.0 ** (chance.bits * chance.points) if equal else 0.0
    return Proof(tuple(k in equal for k in range(len(tape.outputs))), error)


class _Chance(NamedTuple):
    """How probable it is that what differs is equal at a point, as a power of two, and how many points are enough."""

    bits: float
    points: int | None

    @classmethod
    def of(cls, tape: Tape, other: Tape) -> _Chance:
        degree, height = (sum(both) for both in zip(largest(tape), largest(other), strict=True))
        codes = tape.codes[tape.inputs :] + other.codes[other.inputs :]
        functions, roots = sum(code not in _FIELD for code in codes), codes.count(_SQRT)
        by_point = math.log2(degree + 1) - math.log2(LEAST_PRIME)
        by_prime = math.log2(height + 1) - math.log2(60 * PRIMES)
        bits = math.log2(1 + functions**2) + roots + max(by_point, by_prime) + 1
        points = max(FEWEST_POINTS, math.ceil(CERTAIN / -bits)) if bits < 0 else MOST_POINTS + 1
        return cls(bits, points if points <= MOST_POINTS else None)


class _Comparison:
    """Two tapes, while comparisons come out in one way."""

    def __init__(self, tape: Tape, other: Tape, chosen: Mapping[int, bool], rng: random.Random) -> None:
        self._tapes, self._chosen, self._rng = (tape, other), chosen, rng
        self._nested = [_within_roots(each) for each in self._tapes]

    def equal(self, points: int) -> set[int]:
        """Outputs that are equal at all of so many points."""
        found = set(range(len(self._tapes[0].outputs)))
        unsure: list[_Root] = []
        if _SQRT in self._tapes[0].codes or _SQRT in self._tapes[1].codes:
            counted = self._counted()
            if counted is None or len(counted) > MOST_SIGNS:
                return set()
            unsure = counted
        for _ in range(points):
            at = self._at_all_signs(unsure)
            if at is None:
                return set()
            found &= at
        return found

    def _at_all_signs(self, unsure: Sequence[_Root]) -> set[int] | None:
        """Outputs that are equal at some point whatever the signs of such roots are; None if none is found."""
        ways = [dict(zip(unsure, way, strict=True)) for way in product((False, True), repeat=len(unsure))]
        for prime, seed in self._places():
            try:
                at = [self._equal_at(self._point(prime, seed, signs)) for signs in ways]
            except NoRootError:
                continue
            return set.intersection(*at)
        return None

    def _counted(self) -> list[_Root] | None:
        """Roots whose signs are not seen to be free; None if none of them can be computed."""
        residues: list[Mapping[_Root, bool | None]] = []
        for prime, seed in self._places():
            point = self._point(prime, seed, {})
            try:
                self._equal_at(point)
            except NoRootError:
                continue
            residues.append(point.residues)
            roots = {root for each in residues for root in each}
            free = [root for root in sorted(roots) if not self._nested[root[0]][root[1]]]
            dependent = _dependent({root: [each.get(root) is not False for each in residues] for root in free})
            if not dependent or len(residues) > len(free) + MORE_POINTS:
                return sorted(roots - set(free)) + dependent
        return None

    def _places(self) -> Iterator[tuple[int, int]]:
        for _ in range(TRIES):
            yield random_prime(self._rng), self._rng.getrandbits(62)

    def _point(self, prime: int, seed: int, signs: Mapping[_Root, bool]) -> Point:
        return Point(prime, self._tapes[0].inputs, seed, self._chosen, signs)

    def _equal_at(self, point: Point) -> set[int]:
        one, two = ([values[k] for k in tape.outputs] for tape, values in _runs(point, self._tapes))
        return {k for k, (a, b) in enumerate(zip(one, two, strict=True)) if a is not None and a == b}


def _runs(point: Point, tapes: Sequence[Tape]) -> Iterator[tuple[Tape, list[Any]]]:
    return ((tape, point.run(tape)) for tape in tapes)


def _within_roots(tape: Tape) -> list[bool]:
    """Of each operation, whether an argument of it depends on a root."""
    depends, within = [False] * tape.inputs, [False] * tape.inputs
    for r in range(tape.inputs, len(tape)):
        within.append(any(a >= 0 and depends[a] for a in tape.arguments(r)))
        depends.append(within[r] or tape.codes[r] == _SQRT)
    return within


def _dependent(columns: Mapping[_Root, Sequence[bool]]) -> list[_Root]:
    """Columns of bits that are sums modulo 2 of those before them."""
    basis: list[int] = []
    found = []
    for root, column in columns.items():
        # a bit for each number that is no residue
        bits = sum(1 << k for k, is_residue in enumerate(column) if not is_residue)
        for each in basis:
            bits = min(bits, bits ^ each)
        if bits:
            basis.append(bits)
        else:
            found.append(root)
    return found
