"""Proofs that two programs compute the same values, as identities of polynomials modulo random primes.

Both run at random points, for every combination of outcomes of their comparisons. Let d be the degree, and b the bits
of the coefficients, of the difference of two outputs, a polynomial in inputs, functions and roots. If it is not the
zero polynomial, it is zero at a random point with a probability of at most d/p (Schwartz, J. ACM 27, 1980; Zippel,
EUROSAM 1979), p > 2⁶⁰, or because p, one of 10¹⁶ primes, is among the b/60 that divide all of its coefficients. With k
square roots, the product over all of their signs is such a polynomial: d and b count 2ᵏ times. Different arguments of m
functions have different values, unless one of their at most m² differences is zero by chance. So a wrong output passes
N points with a probability of at most

    ((1 + m²) 2ᵏ (d / 2⁶⁰ + b / (60 · 10¹⁶)))ᴺ,

and N is so large that this is below 2⁻⁶⁴.

Signs of roots are random. That is enough if each sign can be turned without the others: if no product of radicands is a
square. Otherwise, at every point, an even number of the radicands in question would not be squares modulo p. All signs
are tried of roots for which the points do not exclude that: of roots within others, and of sqrt(x²).

Identities of positive numbers only, such as sqrt(x²) = x, are not proved; nor are identities that hold up to the
rounding of a constant. A proved identity holds wherever both sides are defined, in exact arithmetic.

**Residues.**
Numbers are elements of the field with p² elements, a + b·i with i² = -1, where p is 3 modulo 4; inputs are residues a.
Every finite constant is an integer times a power of two, and so has an exact residue. Sine and cosine of an argument
are 2t/(1 + t²) and (1 - t²)/(1 + t²), with a random t. A square root is a random one of the two roots of its argument,
the same one wherever the argument occurs: every residue has roots, and so have half of the other numbers. A power is
the integer power times a random number for the fractional part of the exponent. All other functions are random
residues, with their symmetries. So are jumps and comparisons, which depend on the equality of their arguments alone.

**Degrees.** A value is N / (D₁^e₁ D₂^e₂ …), where the D are numerators of divisors, so that a sum needs no more of them
than its terms have. Roots and functions are separate variables; a root has half the size of its radicand.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple

from accumulus.rewriting.equivalence import all_choices
from accumulus.tape.interpreter import Domain, Partial, values
from accumulus.tape.operations import BY_NAME, OPERATIONS, Operation
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT, Tape

#: Most comparisons: values are compared for every combination of their outcomes. Each further one doubles the time, a
#: smaller number leaves more programs without proof.
MOST_COMPARISONS: Final = 6
#: Certainty of a proof, −log₂ of its probability of error; and least and largest number of points that it uses. More
#: certainty takes more points, and time in proportion; a smaller largest number leaves programs of high degree without
#: proof.
CERTAIN: Final = 64.0
FEWEST_POINTS: Final = 2
MOST_POINTS: Final = 8
#: Largest number of roots for which all signs are tried; and points at which roots are counted, besides one per root.
#: Each further root doubles the time, each one fewer leaves programs without proof; with fewer points, roots may count
#: as dependent by chance.
MOST_SIGNS: Final = 5
MORE_POINTS: Final = 8
#: Largest number of points tried to find one at which all roots exist; fewer where such a point is not required. More
#: take time for programs with many roots, fewer leave these without proof.
TRIES: Final = 64
FEW_TRIES: Final = 8
_FIELD: Final = frozenset((ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE))
_SQRT: Final = BY_NAME["sqrt"].code

_Root = tuple[int, int]


class Proof(NamedTuple):
    """Proof of a program's outputs."""

    outputs: tuple[bool, ...]  # True for each output that is proved to be unchanged
    error: float  # upper bound on the probability that one of these is wrong

    @property
    def is_whole(self) -> bool:
        """Return True if all outputs are proved."""
        return all(self.outputs)


def prove(tape: Tape, other: Tape, seed: int = 0) -> Proof:
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
    choices = all_choices(tape, MOST_COMPARISONS)
    bits, points = _chance(tape, other)
    if choices is None or points > MOST_POINTS:
        return Proof((False,) * len(tape.outputs), 0.0)
    rng = random.Random(seed)
    equal = set(range(len(tape.outputs)))
    for chosen in choices:
        if equal:
            equal &= _Comparison(tape, other, chosen, rng).equal(points)
    error = len(choices) * 2.0 ** (bits * points) if equal else 0.0
    return Proof(tuple(k in equal for k in range(len(tape.outputs))), error)


def _chance(tape: Tape, other: Tape) -> tuple[float, int]:
    """Return the probability that different outputs agree at a point, as log₂, and the number of points to use."""
    degree, height = (sum(both) for both in zip(_largest(tape), _largest(other), strict=True))
    codes = tape.codes[tape.inputs :] + other.codes[other.inputs :]
    functions, roots = sum(code not in _FIELD for code in codes), codes.count(_SQRT)
    by_point = math.log2(degree + 1) - math.log2(LEAST_PRIME)
    by_prime = math.log2(height + 1) - math.log2(60 * PRIMES)
    bits = math.log2(1 + functions**2) + roots + max(by_point, by_prime) + 1
    return bits, max(FEWEST_POINTS, math.ceil(CERTAIN / -bits)) if bits < 0 else MOST_POINTS + 1


def are_equal_somewhere(tape: Tape) -> bool:
    """Return True if both outputs of a tape are equal at a point modulo a prime, for all outcomes of comparisons.

    That is no proof, but takes much less time.
    """

    def are_equal(chosen: Mapping[int, bool]) -> bool:
        for seed in range(FEW_TRIES):
            try:
                elements = _Point(_prime(), tape.inputs, seed, chosen).run(tape)
            except _NoRootError:
                continue
            one, two = (elements[k] for k in tape.outputs)
            return one is not None and one == two
        return False

    choices = all_choices(tape, MOST_COMPARISONS)
    return choices is not None and all(map(are_equal, choices))


@cache
def _prime() -> int:
    return _random_prime(random.Random(0))


class _Comparison:
    """Two tapes, for one combination of outcomes of comparisons."""

    def __init__(self, tape: Tape, other: Tape, chosen: Mapping[int, bool], rng: random.Random) -> None:
        self._tapes, self._chosen, self._rng = (tape, other), chosen, rng
        self._nested = [_within_roots(each) for each in self._tapes]

    def equal(self, points: int) -> set[int]:
        """Return outputs that are equal at all of a number of points."""
        equal_outputs = set(range(len(self._tapes[0].outputs)))
        unsure: list[_Root] = []
        if _SQRT in self._tapes[0].codes or _SQRT in self._tapes[1].codes:
            counted = self._counted()
            if counted is None or len(counted) > MOST_SIGNS:
                return set()
            unsure = counted
        ways = [dict(zip(unsure, way, strict=True)) for way in product((False, True), repeat=len(unsure))]
        for _ in range(points):
            # outputs must be equal at a point for all signs of the unsure roots
            equal = next((each for each, _ in self._tried(ways)), None)
            if equal is None:
                return set()
            equal_outputs.intersection_update(*equal)
        return equal_outputs

    def _counted(self) -> list[_Root] | None:
        """Return roots whose signs may depend on each other; None if no point has all roots."""
        residues: list[Mapping[_Root, bool | None]] = []
        for _, at_point in self._tried([{}]):
            residues.append(at_point)
            roots = {root for each in residues for root in each}
            free = [root for root in sorted(roots) if not self._nested[root[0]][root[1]]]
            dependent = _dependent({root: [each.get(root) is not False for each in residues] for root in free})
            if not dependent or len(residues) > len(free) + MORE_POINTS:
                return sorted(roots - set(free)) + dependent
        return None

    def _tried(
        self, ways: Sequence[Mapping[_Root, bool]]
    ) -> Iterator[tuple[list[set[int]], Mapping[_Root, bool | None]]]:
        """Yield the equal outputs for each choice of signs, and the residues, at points where all roots exist."""
        for _ in range(TRIES):
            prime, seed = _random_prime(self._rng), self._rng.getrandbits(62)
            points = [_Point(prime, self._tapes[0].inputs, seed, self._chosen, signs) for signs in ways]
            try:
                equal = [self._equal_at(point) for point in points]
            except _NoRootError:
                continue
            yield equal, points[0].residues

    def _equal_at(self, point: _Point) -> set[int]:
        one, two = ([elements[k] for k in tape.outputs] for tape in self._tapes for elements in [point.run(tape)])
        return {k for k, (a, b) in enumerate(zip(one, two, strict=True)) if a is not None and a == b}


def _within_roots(tape: Tape) -> list[bool]:
    """Return True for operations with an argument that depends on a root."""
    depends, within = [False] * tape.inputs, [False] * tape.inputs
    for r in range(tape.inputs, len(tape)):
        within.append(any(a >= 0 and depends[a] for a in tape.arguments(r)))
        depends.append(within[r] or tape.codes[r] == _SQRT)
    return within


def _dependent(columns: Mapping[_Root, Sequence[bool]]) -> list[_Root]:
    """Return the columns of bits that are sums modulo 2 of columns before them."""
    basis: list[int] = []
    dependent = []
    for root, column in columns.items():
        # a bit for each radicand that is not a square
        bits = sum(1 << k for k, is_residue in enumerate(column) if not is_residue)
        for each in basis:
            bits = min(bits, bits ^ each)
        if bits:
            basis.append(bits)
        else:
            dependent.append(root)
    return dependent


# Programs modulo a prime ---------------------------------------------------------------------------------------------

#: Primes are drawn between this and twice this; more than `PRIMES` of these are 3 modulo 4. Larger primes do not fit
#: 64-bit tests, smaller ones need more points for the same certainty.
LEAST_PRIME: Final = 1 << 60
PRIMES: Final = 10**16
#: Powers with larger exponents are treated like other functions. A larger limit raises the degree, and so the points
#: that a proof needs; a smaller one loses the laws of powers.
_LARGEST_POWER: Final = 1 << 16
#: These witnesses show that a number below 2⁶⁴ is a prime (Sorenson, Webster, Math. Comp. 86, 2017).
_WITNESSES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
#: Hashes of close numbers are close; this factor separates them.
_MIXING: Final = 0x9E3779B97F4A7C15

Number = tuple[int, int]

_POWER, _SINE, _EQUAL = (BY_NAME[name].code for name in ("power", "sin", "equal"))
_ZERO: Final = (0, 0)
_ONE: Final = (1, 0)


class _NoRootError(Exception):
    """Error for a number without a square root in the field; it may have one at another point."""


class _Point(Partial):
    """Random inputs, functions and comparisons, the same for all programs that run at the point.

    Args:
        prime: prime number that is 3 modulo 4.
        inputs: number of inputs.
        seed: seed of all random choices, including roots.
        chosen: outcomes of comparisons of the first program that runs, by reference; other outcomes are random.
        signs: sign of each root, by program (0 for the first) and reference; other signs are random.

    Attributes:
        residues: for each operation that takes a new root, True if its argument is the square of a residue; None if
            the argument is not a residue.
    """

    located = frozenset(("sqrt", "power", "comparison"))

    def __init__(
        self,
        prime: int,
        inputs: int,
        seed: int,
        chosen: Mapping[int, bool],
        signs: Mapping[tuple[int, int], bool] | None = None,
    ) -> None:
        rng = random.Random(seed)
        self.prime = prime
        self.inputs: list[Number] = [(rng.randrange(prime), 0) for _ in range(inputs)]
        self.residues: dict[tuple[int, int], bool | None] = {}
        self._seed, self._chosen, self._signs = seed, chosen, signs or {}
        self._holds: dict[Hashable, bool] = {}
        self._roots: dict[Number, Number] = {}
        self._programs = 0

    def run(self, tape: Tape) -> list[Any]:
        """Return values of a tape's inputs, operations and constants, indexed by reference; None where undefined.

        Raises:
            _NoRootError: if a root does not exist.
        """
        elements = values(tape, self, self.inputs)
        self._programs += 1
        return elements

    def number(self, number: float) -> Number | None:
        if not math.isfinite(number):
            return None
        numerator, denominator = number.as_integer_ratio()
        return numerator * pow(denominator, -1, self.prime) % self.prime, 0

    def add(self, x: Number, y: Number) -> Number:
        return (x[0] + y[0]) % self.prime, (x[1] + y[1]) % self.prime

    def subtract(self, x: Number, y: Number) -> Number:
        return (x[0] - y[0]) % self.prime, (x[1] - y[1]) % self.prime

    def negative(self, x: Number) -> Number:
        return -x[0] % self.prime, -x[1] % self.prime

    def multiply(self, x: Number, y: Number) -> Number:
        (a, b), (c, d), p = x, y, self.prime
        return (a * c - b * d) % p, (a * d + b * c) % p

    def divide(self, x: Number, y: Number) -> Number | None:
        (a, b), p = y, self.prime
        norm = (a * a + b * b) % p
        if not norm:
            return None
        inverse = pow(norm, -1, p)
        return self.multiply(x, (a * inverse % p, -b * inverse % p))

    def attach(self, x: Number, _: Number) -> Number:
        return x

    def select(self, truth: Any, x: Any, y: Any) -> Any:
        return None if truth is None else x if _holds(truth) else y

    def logic(self, row: Operation, *truths: Any) -> bool:
        holds = [_holds(truth) for truth in truths]
        return not holds[0] if row.arity == 1 else all(holds) if row.name == "logical_and" else any(holds)

    def comparison(self, row: Operation, tape: Tape, r: int, x: Number, y: Number) -> bool | None:
        """Return a random truth value for a comparison; None if the first program does not compare these numbers."""
        code, negated = row.code, row.name == "not_equal"
        key = (_EQUAL, *sorted((x, y))) if negated or code == _EQUAL else (code, x, y)
        if key not in self._holds:
            if self._programs:
                return None
            self._holds[key] = self._chosen.get(r, bool(self._by_chance(*key) & 1)) != negated
        return self._holds[key] != negated

    def sqrt(self, tape: Tape, r: int, x: Number) -> Number:
        """Return one of the two roots, the same for equal arguments."""
        if x not in self._roots:
            which = self._programs, r
            (a, b), turned = x, self._signs.get(which, bool(self._by_chance(_SQRT, x) & 1))
            root, self.residues[which] = self._some_root(a, b)
            self._roots[x] = self.negative(root) if turned else root
        return self._roots[x]

    def power(self, tape: Tape, r: int, x: Number, y: Number) -> Number | None:
        if tape.second[r] >= 0:
            return self.function(OPERATIONS[_POWER], x, y)
        exponent = tape.value_of(tape.second[r])
        if abs(exponent) > _LARGEST_POWER:
            return self._by_chance(_POWER, x, exponent), 0
        whole = math.floor(exponent)
        result, factor = _ONE, x
        for digit in reversed(f"{abs(whole):b}"):
            if digit == "1":
                result = self.multiply(result, factor)
            factor = self.multiply(factor, factor)
        rest = Fraction(exponent) - whole
        if rest:
            numerator = self._by_chance(_POWER, x, rest), 0
            return self.multiply(numerator, result) if whole >= 0 else self.divide(numerator, result)
        return result if whole >= 0 else self.divide(_ONE, result)

    def sin(self, x: Number) -> Number | None:
        """Return 2t/(1 + t²), with a random t."""
        t, _ = self._odd(_SINE, x)
        return self.divide((2 * t, 0), (1 + t * t, 0))

    def cos(self, x: Number) -> Number | None:
        """Return (1 - t²)/(1 + t²), with a random t."""
        t, _ = self._odd(_SINE, x)
        return self.divide((1 - t * t, 0), (1 + t * t, 0))

    def function(self, row: Operation, x: Number, y: Number = _ZERO) -> Number:
        """Return a random residue, with the symmetries of the function."""
        if row.arity == 1 and row.parity == "odd":
            return self._odd(row.code, x)
        if row.arity == 1 and row.parity == "even":
            x = min(x, self.negative(x))
        if row.commutative:
            x, y = sorted((x, y))
        return self._by_chance(row.code, x, y), 0

    def _by_chance(self, *key: Hashable) -> int:
        mixed = (hash((self._seed, *key)) * _MIXING) & (1 << 64) - 1
        return (hash((mixed, self._seed)) ^ mixed >> 29) % self.prime

    def _some_root(self, a: int, b: int) -> tuple[Number, bool | None]:
        """Return a root of a + b·i, and True if it is a residue; None instead of True or False if b is not 0."""
        p = self.prime
        if not b:
            root = pow(a, (p + 1) // 4, p)
            is_residue = root * root % p == a
            return ((root, 0) if is_residue else (0, root)), is_residue  # -1 is no square
        size = pow(norm := (a * a + b * b) % p, (p + 1) // 4, p)
        if size * size % p != norm:
            raise _NoRootError
        half = pow(2, -1, p)
        real = pow(square := (a + size) * half % p, (p + 1) // 4, p)
        if real * real % p != square:
            real = pow((a - size) * half % p, (p + 1) // 4, p)
        return (real, b * half * pow(real, -1, p) % p), None

    def _odd(self, code: int, x: Number) -> Number:
        opposite = self.negative(x)
        if x == opposite:
            return _ZERO
        value = self._by_chance(code, min(x, opposite))
        return (value if x < opposite else -value % self.prime), 0


def _holds(x: Any) -> bool:
    """Return True if a truth value holds; a number holds if it is not 0."""
    return x if isinstance(x, bool) else x != _ZERO


def _random_prime(rng: random.Random) -> int:
    """Return a random prime that is 3 modulo 4, from `LEAST_PRIME` to twice that."""
    while True:
        number = rng.randrange(LEAST_PRIME, 2 * LEAST_PRIME) | 3
        half, ends = number // 2, (1, number - 1)
        # small divisors, then Miller and Rabin's test
        if all(number % each for each in _WITNESSES) and all(pow(each, half, number) in ends for each in _WITNESSES):
            return number


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
        if tape.second[r] >= 0 or not abs(exponent := tape.value_of(tape.second[r])) <= _LARGEST_POWER:
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
