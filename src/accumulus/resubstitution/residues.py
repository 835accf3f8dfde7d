"""Programs modulo a prime: exact where they are algebraic, and everything else by chance.

Numbers are those of the field of p² elements, a + b·i with i² = -1, p being 3 modulo 4; inputs are residues a. Every
finite constant is a whole number times a power of two, and is that. Sine and cosine of an argument are 2t/(1 + t²) and
(1 - t²)/(1 + t²), t by chance. A square root is one of the two roots of its argument, by chance, but always the same of
the same argument: every residue has some, of other numbers half. A power is one with a whole exponent times what chance
gives for the rest of the exponent. All other functions are residues by chance, with their symmetries; so are jumps and
comparisons, which see whether their arguments are the same numbers, and nothing else.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import Any, Final

from accumulus.tape.interpreter import Partial, values
from accumulus.tape.operations import BY_NAME, OPERATIONS, Operation
from accumulus.tape.tape import Tape

__all__ = ["LARGEST_POWER", "LEAST_PRIME", "PRIMES", "NoRootError", "Number", "Point", "random_prime"]

#: Primes are drawn from here up to twice that, where more than so many are 3 modulo 4.
LEAST_PRIME: Final = 1 << 60
PRIMES: Final = 10**16
#: Powers with larger exponents are functions like others.
LARGEST_POWER: Final = 1 << 16
#: By these a number below 2⁶⁴ is shown to be a prime (Sorenson, Webster, Math. Comp. 86, 2017).
_WITNESSES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
#: Hashes of close numbers are close; by this they are not.
_MIXING: Final = 0x9E3779B97F4A7C15

Number = tuple[int, int]

_SQRT, _POWER, _SINE, _EQUAL = (BY_NAME[name].code for name in ("sqrt", "power", "sin", "equal"))
_ZERO: Final = (0, 0)
_ONE: Final = (1, 0)


class NoRootError(Exception):
    """A number has no square root in the field; at another point it may have."""


class Point(Partial):
    """Inputs, functions and comparisons by chance, for all programs that are run there.

    Args:
        prime: 3 modulo 4.
        inputs: how many.
        seed: of everything that is by chance, roots among it.
        chosen: comparisons of the first program that is run, by reference, and whether they hold; the rest by chance.
        signs: which of its roots an operation is, by program (0 for the first) and reference; the rest by chance.

    Attributes:
        residues: operations whose root was not there before, and whether what it is of is the square of a residue;
            None where that is no residue.
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
        """Values of a tape's inputs, operations and constants, as references have them; None if undefined.

        Raises:
            NoRootError: if there is a root that cannot be computed.
        """
        found = values(tape, self, self.inputs)
        self._programs += 1
        return found

    def number(self, number: float) -> Number | None:
        """Return a whole number times a power of two."""
        if not math.isfinite(number):
            return None
        numerator, denominator = number.as_integer_ratio()
        return numerator * pow(denominator, -1, self.prime) % self.prime, 0

    def add(self, x: Number, y: Number) -> Number:
        """Add."""
        return (x[0] + y[0]) % self.prime, (x[1] + y[1]) % self.prime

    def subtract(self, x: Number, y: Number) -> Number:
        """Subtract."""
        return (x[0] - y[0]) % self.prime, (x[1] - y[1]) % self.prime

    def negative(self, x: Number) -> Number:
        """Negate."""
        return -x[0] % self.prime, -x[1] % self.prime

    def multiply(self, x: Number, y: Number) -> Number:
        """Multiply, i² being -1."""
        (a, b), (c, d), p = x, y, self.prime
        return (a * c - b * d) % p, (a * d + b * c) % p

    def divide(self, x: Number, y: Number) -> Number | None:
        """Divide, unless by 0."""
        (a, b), p = y, self.prime
        norm = (a * a + b * b) % p
        if not norm:
            return None
        inverse = pow(norm, -1, p)
        return self.multiply(x, (a * inverse % p, -b * inverse % p))

    def attach(self, x: Number, _: Number) -> Number:
        """Return the first argument."""
        return x

    def select(self, truth: Any, x: Any, y: Any) -> Any:
        """Choose."""
        return None if truth is None else x if _holds(truth) else y

    def logic(self, row: Operation, *truths: Any) -> bool:
        """Combine truths."""
        holds = [_holds(truth) for truth in truths]
        return not holds[0] if row.arity == 1 else all(holds) if row.name == "logical_and" else any(holds)

    def comparison(self, row: Operation, tape: Tape, r: int, x: Number, y: Number) -> bool | None:
        """Return whether it holds, by chance; None if the first program does not compare that."""
        code, negated = row.code, row.name == "not_equal"
        key = (_EQUAL, *sorted((x, y))) if negated or code == _EQUAL else (code, x, y)
        if key not in self._holds:
            if self._programs:
                return None
            self._holds[key] = self._chosen.get(r, bool(self._by_chance(*key) & 1)) != negated
        return self._holds[key] != negated

    def sqrt(self, tape: Tape, r: int, x: Number) -> Number:
        """Return one of the roots, the same for the same argument."""
        if x not in self._roots:
            which = self._programs, r
            (a, b), turned = x, self._signs.get(which, bool(self._by_chance(_SQRT, x) & 1))
            root, self.residues[which] = self._some_root(a, b)
            self._roots[x] = self.negative(root) if turned else root
        return self._roots[x]

    def power(self, tape: Tape, r: int, x: Number, y: Number) -> Number | None:
        """Multiply as often as a constant exponent says."""
        if tape.second[r] >= 0:
            return self.function(OPERATIONS[_POWER], x, y)
        exponent = tape.value_of(tape.second[r])
        if abs(exponent) > LARGEST_POWER:
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
        """Return 2t/(1 + t²), t by chance."""
        t, _ = self._odd(_SINE, x)
        return self.divide((2 * t, 0), (1 + t * t, 0))

    def cos(self, x: Number) -> Number | None:
        """Return (1 - t²)/(1 + t²), t by chance."""
        t, _ = self._odd(_SINE, x)
        return self.divide((1 - t * t, 0), (1 + t * t, 0))

    def function(self, row: Operation, x: Number, y: Number = _ZERO) -> Number:
        """Return a residue by chance, with the symmetries of the function."""
        if row.arity == 1 and row.parity == "odd":
            return self._odd(row.code, x)
        if row.arity == 1 and row.parity == "even":
            x = min(x, self.negative(x))
        if row.commutative:
            x, y = sorted((x, y))
        return self._by_chance(row.code, x, y), 0

    def _by_chance(self, *what: Hashable) -> int:
        mixed = (hash((self._seed, *what)) * _MIXING) & (1 << 64) - 1
        return (hash((mixed, self._seed)) ^ mixed >> 29) % self.prime

    def _some_root(self, a: int, b: int) -> tuple[Number, bool | None]:
        """A root of a + b·i, and if that is a residue, whether its root is one."""
        p = self.prime
        if not b:
            root = pow(a, (p + 1) // 4, p)
            is_residue = root * root % p == a
            return ((root, 0) if is_residue else (0, root)), is_residue  # -1 is no square
        size = pow(norm := (a * a + b * b) % p, (p + 1) // 4, p)
        if size * size % p != norm:
            raise NoRootError
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
    """Whether a truth holds; numbers are those that are not 0."""
    return x if isinstance(x, bool) else x != _ZERO


def random_prime(rng: random.Random) -> int:
    """A prime that is 3 modulo 4, from `LEAST_PRIME` to twice that."""
    while True:
        number = rng.randrange(LEAST_PRIME, 2 * LEAST_PRIME) | 3
        if all(number % small for small in _WITNESSES) and _is_prime(number):
            return number


def _is_prime(number: int) -> bool:
    """Whether a number that is 3 modulo 4 and has none of the small primes as divisor is one (Miller, Rabin)."""
    half = number // 2
    return all(pow(witness, half, number) in (1, number - 1) for witness in _WITNESSES)
