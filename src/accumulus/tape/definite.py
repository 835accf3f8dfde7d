"""Matrices that are positive semidefinite by their form, whatever the values of the inputs are.

Such a matrix is eliminated without exchanges of rows: no entry grows (J. H. Wilkinson, Error analysis of direct methods
of matrix inversion, J. ACM 8, 1961). The form is proved, not sampled. A symmetric matrix is semidefinite if

* it is a sum of w u uᵀ with weights w that are not negative, and of a diagonal that is not negative: AᵀA, AᵀA + D,
  covariances, and constant matrices, whose sums are found in rational arithmetic;
* it is such a sum, multiplied entry by entry (I. Schur, J. reine angew. Math. 140, 1911) by the correlations
  cos(aᵢ - aⱼ), as mass matrices of chains of links are, or exp(-Σ w (uᵢ - uⱼ)²) with w ≥ 0, the kernel of Gaussian
  processes (I. J. Schoenberg, Trans. AMS 44, 1938).

Entries are multiplied out into polynomials over *atoms*: inputs, and results of operations other than sums, products
and quotients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from typing import Final

from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT, Tape

#: Largest number of terms of an entry. More take time in products of sums, fewer leave sums of more squares unproved.
TERMS: Final = 128
#: Largest number of operations on each other in an entry: more take time at each step of a loop that hands matrices on,
#: and Python's stack; fewer leave longer sums of squares unproved.
DEEPEST: Final = 160
#: Largest number of products of terms for a matrix: more take time at each step of such a loop, fewer leave products of
#: several matrices unproved.
MOST_PRODUCTS: Final = 3_000
#: Number of operations on each other in an entry down to which sums and products of matrices are multiplied out. More
#: take time at each step of a loop, fewer leave products of several matrices unproved.
SUMS: Final = 4
#: Number of operations on each other by which values of programs over arrays are compared. More take time for each
#: value, fewer take equal values for different ones.
FORM: Final = 3
_COS, _EXP = BY_NAME["cos"].code, BY_NAME["exp"].code
_NONNEGATIVE: Final = frozenset(BY_NAME[name].code for name in ("exp", "exp2", "cosh", "sqrt", "abs"))

#: A reference, or the mark "/" and that of a divisor.
Atom = int | tuple[str, int]
#: Atoms with their exponents.
Monomial = frozenset[tuple[Atom, int]]
Polynomial = dict[Monomial, Fraction]
_ONE: Final[Monomial] = frozenset()


class _UnprovedError(Exception):
    """Error for an entry that is no short polynomial, or a matrix that has no such form."""


def is_semidefinite(tape: Tape, a: Sequence[Sequence[int]]) -> bool:
    """Return True if a symmetric matrix of references is positive semidefinite by its form.

    >>> tape = Tape(8)
    >>> gram = [[tape.sum(tape.multiply(i + k, j + k) for k in (0, 4)) for j in range(4)] for i in range(4)]
    >>> is_semidefinite(tape, gram)
    True
    >>> gram[3][3] = tape.negative(gram[3][3])
    >>> is_semidefinite(tape, gram)
    False
    """
    expansions = _Expansions(tape)
    try:
        if not isinstance(tape, Tape) and _is_gram(expansions, a):
            return True
        entries = [[dict(expansions.of(entry)) for entry in row] for row in a]
        if any(entries[i][j] != entries[j][i] for i, j in combinations(range(len(a)), 2)):
            return False
        return _is_sum(expansions, _without_correlations(expansions, entries))
    except (_UnprovedError, RecursionError):  # the stack may be nearly full already
        return False


class _Expansions:
    """Polynomials of the values of a tape.

    Args:
        tape: the tape.
        keeping: if True, differences of two values are atoms.
    """

    def __init__(self, tape: Tape, *, keeping: bool = False) -> None:
        self.tape, self._keeping = tape, keeping
        self._known: dict[int, Polynomial] = {}
        self._atoms: dict[Hashable, int] = {}
        self._depth = self._products = 0

    def of(self, reference: int) -> Polynomial:
        """Return the polynomial of a value."""
        if reference not in self._known:
            self._depth += 1
            if self._depth > DEEPEST:
                raise _UnprovedError
            self._known[reference] = made = {m: c for m, c in self._made(reference).items() if c}
            self._depth -= 1
            if len(made) > TERMS:
                raise _UnprovedError
        return self._known[reference]

    def _made(self, r: int) -> Polynomial:
        tape = self.tape
        if r < 0:
            number = tape.value_of(r)
            if number - number != 0.0:
                raise _UnprovedError
            return {_ONE: Fraction(number)}
        if r < tape.inputs:
            return {frozenset([(r, 1)]): Fraction(1)}
        code, arguments = tape.operation(r).code, tape.arguments(r)
        if not arguments and not isinstance(tape, Tape) and self._depth <= SUMS:
            summands = tape.summands(r)
            if summands:
                return self._sum(summands)
        if not arguments:  # of an input, or within a body
            return {frozenset([(r, 1)]): Fraction(1)}
        if code == NEGATIVE:
            return {m: -c for m, c in self.of(arguments[0]).items()}
        if code in (ADD, SUBTRACT) and not (self._keeping and code == SUBTRACT):
            total = Counter(self.of(arguments[0]))
            for monomial, c in self.of(arguments[1]).items():
                total[monomial] += c if code == ADD else -c  # type: ignore[assignment]
            return dict(total)  # type: ignore[arg-type]
        if code == MULTIPLY:
            return self._times(self.of(arguments[0]), self.of(arguments[1]))
        if code == DIVIDE:
            below = self.of(arguments[1])
            if below.keys() == {_ONE}:
                return {m: c / below[_ONE] for m, c in self.of(arguments[0]).items()}
            return self._times(self.of(arguments[0]), {frozenset([(("/", arguments[1]), 1)]): Fraction(1)})
        if code in (_COS, _EXP) and not self._keeping and not self.of(arguments[0]):
            return {_ONE: Fraction(1)}  # the correlation of a value with itself
        # of a program over arrays, equal operations have several references
        atom = r if isinstance(tape, Tape) else self._atoms.setdefault(self._form(r, FORM), r)
        return {frozenset([(atom, 1)]): Fraction(1)}

    def _sum(self, summands: Sequence[tuple[int, ...]]) -> Polynomial:
        """Return a sum of products."""
        if len(summands) > TERMS:
            raise _UnprovedError
        total: Polynomial = {}
        for factors in summands:
            product = self.of(factors[0])
            for factor in factors[1:]:
                product = self._times(product, self.of(factor))
            for monomial, c in product.items():
                total[monomial] = total.get(monomial, Fraction(0)) + c
        return total

    def _form(self, r: int, depth: int) -> Hashable:
        """Return what a value is, down to some depth: the same for values that are equal by their form."""
        tape = self.tape
        arguments = () if r < tape.inputs or not depth else tape.arguments(r)
        if not arguments:
            return ("constant", tape.value_of(r)) if r < 0 else r
        code = tape.operation(r).code
        if code in (_COS, _EXP):
            polynomial = self.of(arguments[0])
            signs = (1, -1) if code == _COS else (1,)
            return code, frozenset(frozenset((m, sign * c) for m, c in polynomial.items()) for sign in signs)
        return code, *(self._form(each, depth - 1) for each in arguments)

    def _times(self, one: Polynomial, two: Polynomial) -> Polynomial:
        """Return the product of two polynomials."""
        self._products += len(one) * len(two)
        if self._products > MOST_PRODUCTS:
            raise _UnprovedError
        made: Polynomial = {}
        for m, c in one.items():
            for n, d in two.items():
                product = _product(m, n)
                made[product] = made.get(product, Fraction(0)) + c * d
        return made

    def is_nonnegative(self, monomial: Monomial) -> bool:
        """Return True if a product of atoms is proved not to be negative."""
        return all(exponent % 2 == 0 or self._is_nonnegative(atom) for atom, exponent in monomial)

    def _is_nonnegative(self, atom: Atom) -> bool:
        if isinstance(atom, int):
            return self.tape.operation(atom).code in _NONNEGATIVE
        return all(c > 0 and self.is_nonnegative(m) for m, c in self.of(atom[1]).items())


# Products of a matrix with its transpose ------------------------------------------------------------------------------

#: Largest number of products in AᵀA. More take time at each step of a loop, fewer leave larger ones to polynomials.
MOST_IN_GRAM: Final = 20_000


def _is_gram(expansions: _Expansions, a: Sequence[Sequence[int]]) -> bool:
    """Return True for AᵀA + D as it is written in a program over arrays, with a diagonal D that is not negative."""
    n, rows = len(a), []
    for i in range(n):
        pairs, added = _pairs_of(expansions, a[i][i])
        if not all(x == y for x, y in pairs) or n * n * len(pairs) > MOST_IN_GRAM:
            return False
        if not all(c > 0 and expansions.is_nonnegative(monomial) for monomial, c in added.items()):
            return False
        rows.append([x for x, _ in pairs])
    for i, j in permutations(range(n), 2):
        pairs, added = _pairs_of(expansions, a[i][j])
        if added or not len(pairs) == len(rows[i]) == len(rows[j]):
            return False
        if any({x, y} != {u, v} for (x, y), u, v in zip(pairs, rows[i], rows[j], strict=True)):
            return False
    return n > 0 and bool(rows[0])


def _pairs_of(expansions: _Expansions, r: int) -> tuple[list[tuple[int, int]], Polynomial]:
    """Return the factors of the products that a value sums, and what is added to these; no factors of other values."""
    tape, added = expansions.tape, Polynomial({})
    summands = tape.summands(r)
    arguments = tape.arguments(r)  # none within a body
    if not summands and arguments and tape.operation(r).code == ADD:
        for one, other in permutations(arguments):
            summands = tape.summands(one)
            if summands:
                added = expansions.of(other)
                break
    pairs = []
    for first, *others in summands:
        both = (first, *others)
        if not others and tape.operation(first).code == MULTIPLY:
            both = tape.arguments(first)
        if len(both) != len("xy"):
            return [], {}
        pairs.append((both[0], both[1]))
    return pairs, added


# Sums of squares -----------------------------------------------------------------------------------------------------


def _is_sum(expansions: _Expansions, entries: list[list[Polynomial]]) -> bool:
    """Return True if a matrix is a sum of w u uᵀ and of a diagonal; of constants, these are the steps of Cholesky."""
    n = len(entries)
    for i in range(n):
        # constants last: squares may need a part of them
        for monomial in sorted(entries[i][i], key=lambda monomial: monomial == _ONE):
            if monomial in entries[i][i] and monomial != _ONE:
                _take_square(expansions, entries, i, monomial)
    for i in range(n):
        if any(entries[i][j] for j in range(i + 1, n)) and _ONE in entries[i][i]:
            _take_square(expansions, entries, i, _ONE)
    is_diagonal = not any(entries[i][j] for i, j in combinations(range(n), 2))
    return is_diagonal and all(
        c > 0 and expansions.is_nonnegative(monomial) for i in range(n) for monomial, c in entries[i][i].items()
    )


def _take_square(expansions: _Expansions, entries: list[list[Polynomial]], i: int, monomial: Monomial) -> None:
    """Subtract w u uᵀ if w uᵢ² is a monomial of the entry (i, i); leave the matrix as it is if there is no such u."""
    c = entries[i][i][monomial]
    weight: Monomial = frozenset((atom, 1) for atom, exponent in monomial if exponent % 2)
    if c <= 0 or not expansions.is_nonnegative(weight):
        return
    own: Monomial = frozenset((atom, exponent // 2) for atom, exponent in monomial if exponent > 1)
    vector: dict[int, tuple[Monomial, Fraction]] = {i: (own, Fraction(1))}
    for j in range(len(entries)):
        if j == i:
            continue
        possible = []
        for other, d in entries[i][j].items():
            # c w uᵢ uⱼ with uⱼ = (d / c) · rest
            rest = _quotient(other, own, weight)
            if rest is None or entries[j][j].get(_product(rest, rest, weight), Fraction(0)) < d * d / c:
                continue
            agree = [entries[j][k].get(_product(rest, u, weight)) == d * f for k, (u, f) in vector.items() if k != i]
            possible.append((-sum(agree), rest, d / c))
        if possible:
            _, *vector[j] = min(possible, key=lambda each: each[0])  # type: ignore[assignment]
    for j, (u, f) in vector.items():
        for k, (v, g) in vector.items():
            product = _product(u, v, weight)
            left = entries[j][k].get(product, Fraction(0)) - c * f * g
            entries[j][k][product] = left
            if not left:
                del entries[j][k][product]


def _product(*monomials: Monomial) -> Monomial:
    powers: Counter[Atom] = Counter()
    for monomial in monomials:
        powers.update(dict(monomial))
    return frozenset(powers.items())


def _quotient(monomial: Monomial, *divisors: Monomial) -> Monomial | None:
    """Return a monomial divided by others; None if it is no multiple of them."""
    powers = Counter(dict(monomial))
    for divisor in divisors:
        powers.subtract(dict(divisor))
    if min(powers.values(), default=0) < 0:
        return None
    return frozenset((atom, exponent) for atom, exponent in powers.items() if exponent)


# Correlations --------------------------------------------------------------------------------------------------------


def _without_correlations(expansions: _Expansions, entries: list[list[Polynomial]]) -> list[list[Polynomial]]:
    """Return the matrix by whose entries correlations are multiplied; the matrix itself if there are none.

    Correlations of a value with itself are 1.
    """
    tape, n = expansions.tape, len(entries)
    found: dict[tuple[int, int], int] = {}
    for i, j in combinations(range(n), 2):
        atoms = [
            {atom for atom, exponent in monomial if exponent == 1 and _is_correlation(tape, atom)}
            for monomial in entries[i][j]
        ]
        common = set.intersection(*atoms) if atoms else set()
        if len(common) == 1:
            found[i, j] = next(each for each in common if isinstance(each, int))
        elif atoms:
            return entries
    if not found:
        return entries
    differences = {pair: list(_differences(expansions, atom)) for pair, atom in found.items()}
    if not _are_consistent(differences, n):
        return entries
    made = [[dict(entry) for entry in row] for row in entries]
    for (i, j), atom in found.items():
        rest = {m - {(atom, 1)}: c for m, c in entries[i][j].items()}
        made[i][j], made[j][i] = rest, dict(rest)
    return made


def _is_correlation(tape: Tape, atom: Atom) -> bool:
    return isinstance(atom, int) and tape.operation(atom).code in (_COS, _EXP)


def _differences(expansions: _Expansions, atom: int) -> Iterator[tuple[Hashable, int, int]]:
    """Yield the differences u - v that a correlation depends on, each with what it is weighted by.

    Raises:
        _UnprovedError: if it is neither a cosine of a difference nor an exponential of negative squares.
    """
    tape = expansions.tape
    (argument,) = tape.arguments(atom)
    if tape.operation(atom).code == _COS:
        if argument < 0 or tape.operation(argument).code != SUBTRACT:
            raise _UnprovedError
        u, v = tape.arguments(argument)
        yield "angle", u, v
        return
    for monomial, c in _Expansions(tape, keeping=True).of(argument).items():
        squares = [each for each, exponent in monomial if exponent == len("uv") and isinstance(each, int)]
        squares = [each for each in squares if tape.operation(each).code == SUBTRACT]
        weight = monomial - {(each, 2) for each in squares}
        if c >= 0 or len(squares) != 1 or not expansions.is_nonnegative(weight):
            raise _UnprovedError
        u, v = tape.arguments(squares[0])
        yield (weight, c), u, v


def _are_consistent(differences: dict[tuple[int, int], list[tuple[Hashable, int, int]]], n: int) -> bool:
    """Return True if each difference of a pair (i, j) is one of a value of i and a value of j."""
    values: list[set[tuple[Hashable, int]]] = []
    for i in range(n):
        sets = [
            {(weight, each) for weight, *both in items for each in both}
            for pair, items in differences.items()
            if i in pair
        ]
        values.append(set.intersection(*sets) if sets else set())
    return all(
        any((weight, one) in values[i] and (weight, other) in values[j] for one, other in ((u, v), (v, u)))
        for (i, j), items in differences.items()
        for weight, u, v in items
    ) and all(len(values[i]) == len(items) and len(values[j]) == len(items) for (i, j), items in differences.items())
