"""Programs multiplied out into sums of products: another start for the search by rules, and a source of candidates.

Rules multiply out one product at a time, and the search has to accept all the extra cost before terms cancel. In
derivatives of rotations with respect to their tangent vectors, in products of matrices that are inverse to each other,
and in sums of such products, terms cancel only after several products have been multiplied out.

Each value is a polynomial over *atoms*: inputs, results of operations other than sums and products, constants that are
not short binary fractions, and values that have too many terms. Like terms are added, so coefficients have to be exact:
they are multiples of 1/256 below 4,096, whose sums of products are exact in double precision. The written program
shares products and equal sums, and takes out the factor that all terms of a sum have. Further common factors are left
to the search: from this form it finds shorter programs than from one that was factored greedily (measured on rotations:
78 operations against 89).

A sum of many products may suffer from cancellation where a product of few sums does not. Callers compare the effect of
rounding on the new program and on the given one. A sum with a number among its terms stays a factor: (1 - s)·(1 - t) is
accurate where s and t are close to 1, which few comparisons sample. Programs that subtract a term from a sum that
contains it are left alone: they measure rounding errors, as compensated sums do.

Time: proportional to the products of terms, which are bounded by a multiple of the program's length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from accumulus.rewriting.canonical import canonical
from accumulus.tape.folding import Folding
from accumulus.tape.live import as_written, needed, seeing_zero_signs
from accumulus.tape.passes import with_noted_folding
from accumulus.tape.tape import ADD, MULTIPLY, NEGATIVE, SUBTRACT, Tape

#: Largest number of terms of a polynomial; a value with more is an atom. More cost time and mostly longer programs,
#: fewer miss terms that cancel.
TERMS: Final = 32
#: Largest number of factors of a term. More take memory, fewer leave products of many factors as they are.
FACTORS: Final = 256
#: Largest number of products of terms per operation, and largest length of the result relative to the tape's. More work
#: and length cost preparation time for results that are rarely shorter after rules, less misses some that are.
WORK: Final = 8
LENGTH: Final = 1.5
#: Coefficients are multiples of one over the first number, and below the second. Larger numbers admit more
#: coefficients, until sums of their products round; smaller ones turn more numbers into atoms, which do not cancel.
DENOMINATOR: Final = 256.0
LARGEST: Final = 4096.0

#: Coefficients that are known to be exact without a test.
PLAIN: Final = frozenset(sign * size for sign in (1.0, -1.0) for size in (0.25, 0.5, 1.0, 2.0, 4.0))

#: References of atoms, sorted, each repeated by its multiplicity.
Monomial = tuple[int, ...]
#: Coefficient of each monomial, by its number.
Polynomial = dict[int, float]


def multiplied_out(tape: Tape) -> Tape | None:
    """Return an equivalent program with sums of products multiplied out; None if that is too long, or unsafe.

    It is unsafe if the tape distinguishes signs of zeros, or measures rounding errors.

    Args:
        tape: tape in canonical form.

    >>> tape = Tape(2)
    >>> total, difference = tape.add(0, 1), tape.subtract(0, 1)
    >>> tape.outputs = [tape.subtract(tape.multiply(total, total), tape.multiply(difference, difference))]
    >>> print(multiplied_out(tape))
    t2 = multiply(x0, x1)
    t3 = multiply(4.0, t2)
    return t3
    """
    if len(seeing_zero_signs(tape)):
        return None  # the new program may have other signs of zeros
    monomials = _Monomials()
    polynomials = _polynomials(tape, as_written(tape), monomials)
    written = None if polynomials is None else _Writer(tape, polynomials, monomials).written(LENGTH * tape.operations)
    return None if written is None else canonical(written)


class _Monomials(dict[Monomial, int]):
    """Numbers of monomials; the monomial 1 has number 0."""

    def __init__(self) -> None:
        super().__init__({(): 0})
        self.factors: list[Monomial] = [()]
        self._products: dict[int, int] = {}

    def __missing__(self, factors: Monomial) -> int:
        number = self[factors] = len(self.factors)
        self.factors.append(factors)
        return number

    def longest(self, polynomial: Polynomial) -> int:
        """Return the largest number of factors of a term."""
        return max((len(self.factors[n]) for n in polynomial), default=0)

    def product(self, a: Polynomial, b: Polynomial) -> Polynomial:
        """Return the product of two polynomials."""
        factors, products = self.factors, self._products
        terms: Polynomial = {}
        for m, x in a.items():
            for n, y in b.items():
                number = products.get(m << 32 | n)
                if number is None:
                    number = products[m << 32 | n] = self[tuple(sorted(factors[m] + factors[n]))]
                terms[number] = terms.get(number, 0.0) + x * y
        return terms


def _is_exact(coefficient: float) -> bool:
    return abs(coefficient) < LARGEST and (coefficient * DENOMINATOR).is_integer()


def _polynomials(tape: Tape, fixed: bytearray, monomials: _Monomials) -> list[Polynomial] | None:
    """Return the polynomial of each reference, an atom if it is one; None if they should not be written."""
    live, codes, first, second = needed(tape), tape.codes, tape.first, tape.second
    polynomials: list[Polynomial] = [{monomials[k,]: 1.0} for k in range(tape.inputs)]
    left = WORK * tape.operations

    def of(reference: int) -> Polynomial:
        if reference >= 0:
            return polynomials[reference]
        value = tape.value_of(reference)
        return {0: value} if _is_exact(value) else {monomials[reference,]: 1.0}

    for r in range(tape.inputs, len(tape)):
        code, polynomial = codes[r], None
        if not live[r] or fixed[r]:
            pass
        elif code == MULTIPLY:
            a, b = of(first[r]), of(second[r])
            a, b = (
                {monomials[x,]: 1.0} if len(polynomial) > 1 and 0 in polynomial else polynomial
                for x, polynomial in ((first[r], a), (second[r], b))
            )
            left -= len(a) * len(b)
            if left < 0:
                return None
            # squares of squares have exponentially many factors
            if monomials.longest(a) + monomials.longest(b) <= FACTORS:
                polynomial = monomials.product(a, b)
        elif code in (ADD, SUBTRACT):
            polynomial, sign = of(first[r]).copy(), 1.0 if code == ADD else -1.0
            for n, y in of(second[r]).items():
                polynomial[n] = polynomial.get(n, 0.0) + sign * y
            if 0.0 in polynomial.values() and _takes_back(tape, r):
                return None
        elif code == NEGATIVE:
            polynomial = {n: -x for n, x in of(first[r]).items()}
        if polynomial is not None and not PLAIN.issuperset(polynomial.values()):
            polynomial = {n: x for n, x in polynomial.items() if x}
            polynomial = polynomial if all(map(_is_exact, polynomial.values())) else None
        polynomials.append({monomials[r,]: 1.0} if polynomial is None or len(polynomial) > TERMS else polynomial)
    return polynomials


def _takes_back(tape: Tape, r: int) -> bool:
    """Return True if a term is subtracted from its own sum, which leaves the other term plus a rounding error."""
    a, b = tape.arguments(r)
    return a == b or any(
        x >= tape.inputs and tape.codes[x] in (ADD, SUBTRACT) and y in tape.arguments(x) for x, y in ((a, b), (b, a))
    )


class _Writer:
    """Writer of polynomials as a program.

    Args:
        tape: tape that the polynomials describe.
        polynomials: polynomial of each reference, with numbers of monomials.
        monomials: the numbers of monomials.
    """

    def __init__(self, tape: Tape, polynomials: list[Polynomial], monomials: _Monomials) -> None:
        self._tape, self._polynomials, self._monomials = tape, polynomials, monomials
        self._result = Tape(tape.inputs)
        self._folding = tape.folding or Folding(tape.constants)
        self._result.folding = tape.folding
        self._references = [*range(tape.inputs), *bytes(tape.operations)]
        self._products: dict[Monomial, int] = {}
        self._sums: dict[frozenset[tuple[Monomial, float]], int] = {}

    def written(self, most: float) -> Tape | None:
        """Return the program; None if it has more than `most` operations."""
        tape, result = self._tape, self._result
        operations = self._needed_operations(most)
        if operations is None:
            return None
        factors = self._monomials.factors
        for r in operations:
            if self._is_atom(r):
                self._references[r] = result.apply_code(
                    tape.codes[r], [self._reference_of(a) for a in tape.arguments(r)]
                )
            else:
                self._references[r] = self._sum({factors[n]: x for n, x in self._polynomials[r].items()})
            if result.operations > most:
                return None
        result.outputs = [self._reference_of(output) for output in tape.outputs]
        return with_noted_folding(result, tape)

    def _needed_operations(self, most: float) -> list[int] | None:
        """Return the operations that outputs depend on, in order; None if their sums alone exceed `most` operations."""
        tape, factors = self._tape, self._monomials.factors
        marks, sums, waiting = bytearray(len(tape)), 0, list(tape.outputs)
        while waiting:
            r = waiting.pop()
            if r < tape.inputs or marks[r]:
                continue
            marks[r] = 1
            if self._is_atom(r):
                waiting += tape.arguments(r)
                continue
            polynomial = self._polynomials[r]
            sums += len(polynomial) - 1
            if sums > most:
                return None
            for n in polynomial:
                waiting += factors[n]
        return [r for r in range(tape.inputs, len(tape)) if marks[r]]

    def _is_atom(self, r: int) -> bool:
        return self._monomials.get((r,)) in self._polynomials[r]

    def _reference_of(self, r: int) -> int:
        """Return the reference, in the new program, of a value of the given program."""
        return self._references[r] if r >= 0 else self._result.constant(self._tape.value_of(r))

    def _product(self, monomial: Monomial) -> int:
        reference = self._products.get(monomial)
        if reference is None:
            numbers = [self._folding.of(self._tape.value_of(atom)) for atom in monomial if atom < 0]
            reference = self._result.constant(self._folding.rounded(math.prod(numbers)))
            for atom in monomial[len(numbers) :]:  # they are sorted
                reference = self._result.multiply(reference, self._reference_of(atom))
            self._products[monomial] = reference
        return reference

    def _sum(self, terms: dict[Monomial, float]) -> int:
        """Write a polynomial: take out the common factor, and group terms with equal coefficients."""
        result = self._result
        if len(terms) > 1 and (common := _common(terms)):
            return result.multiply(
                self._sum({_quotient(m, common): x for m, x in terms.items()}), self._product(common)
            )
        key = frozenset(terms.items())
        total = self._sums.get(key)
        if total is not None:
            return total
        groups: dict[float, list[tuple[Monomial, float]]] = {}
        for monomial, x in terms.items():
            groups.setdefault(abs(x), []).append((monomial, x))
        total = result.constant(0.0)
        for size, group in sorted(groups.items()):
            subtotal = result.constant(0.0)
            for monomial, x in sorted(group, key=lambda term: term[1] < 0):  # begin with a positive term
                subtotal = (result.add if x > 0 else result.subtract)(subtotal, self._product(monomial))
            total = result.add(total, result.multiply(result.constant(size), subtotal))
        self._sums[key] = total
        return total


def _common(monomials: Iterable[Monomial]) -> Monomial:
    """Return the greatest common divisor of monomials."""
    first, *remaining = monomials
    common = list(first)
    for monomial in remaining:
        rest = list(monomial)
        shared = []
        for atom in common:
            if atom in rest:
                rest.remove(atom)
                shared.append(atom)
        common = shared
        if not common:
            break
    return tuple(common)


def _quotient(monomial: Monomial, divisor: Monomial) -> Monomial:
    rest = list(monomial)
    for atom in divisor:
        rest.remove(atom)
    return tuple(rest)
