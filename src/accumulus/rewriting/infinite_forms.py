"""Forms of values that may be infinite: values of one form are infinite, or no numbers, at the same points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from accumulus.tape.tape import ADD

#: Most factors and terms of a form. With more, it is that of an operation on its arguments.
LONGEST: Final = 32


class Form(NamedTuple):
    """A product of atoms and their reciprocals, up to a positive number as a factor."""

    sign: int
    factors: tuple[tuple[int, int], ...]  # number of each atom, and 1, or -1 for its reciprocal; sorted


class Forms:
    """Forms of values that may be infinite: values of one form are infinite, or no numbers, at the same points.

    Atoms are finite values, functions, and sums. Products are associative even with infinite factors, and so are sums;
    n/d is n · (1/d), and 1/(1/d) is d; but n · d/d is not n, and n · (a + b) is not n · a + n · b. A finite term of a
    sum does not matter, but where the sum may be zero, its value does. As a divisor, a - b is not the negative of
    b - a: both are 0, not -0, where a is b.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._of_values: dict[int, int] = {}
        #: Atoms of values and sums or their negatives, for factors, and the signs.
        self._either: dict[int, tuple[int, int]] = {}
        #: Terms of sums, and the sums without their values.
        self._terms: dict[int, tuple[Form, ...]] = {}
        self._bare: dict[int, tuple[int, int]] = {}

    def _atom(self, *key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def of_number(self, number: float) -> Form:
        """Return the form of a constant that is not zero."""
        return Form(-1 if number < 0.0 else 1, ())

    def of_value(self, value: int, unsigned: int, constant: float | None) -> Form:
        """Return the form of a value that is finite."""
        if constant:
            return self.of_number(constant)
        atom, either = self._atom("value", value), self._atom("value or its negative", unsigned)
        self._of_values[atom] = self._of_values[either] = unsigned
        self._either[atom] = either, 1 if value == unsigned else -1
        return Form(1, ((atom, 1),))

    def product(self, one: Form, other: Form) -> Form:
        """Return the form of a product."""
        return Form(one.sign * other.sign, tuple(sorted(one.factors + other.factors)))

    def inverse(self, form: Form) -> Form:
        """Return the form of a reciprocal."""
        return Form(form.sign, tuple(sorted((atom, -side) for atom, side in form.factors)))

    def of_function(self, code: int, arguments: Sequence[Form], values: tuple[int, ...]) -> Form:
        """Return the form of a function of values, which are given where it may be infinite for finite ones."""
        return Form(1, ((self._atom(code, *values, *map(self._plain, arguments)), 1),))

    def sum(self, terms: Iterable[Form], value: int, unsigned: int) -> Form | None:
        """Return the form of a sum with infinite terms, of a value that is given; None if it has too many terms."""
        infinite: list[Form] = []
        for each in map(self._plain, terms):
            atom = each.factors[0][0] if len(each.factors) == 1 and each.factors[0][1] > 0 else -1
            if atom in self._terms:
                infinite += (Form(each.sign * term.sign, term.factors) for term in self._terms[atom])
            elif self.infinite_factors(each):
                infinite.append(each)
        infinite.sort(key=lambda form: (form.factors, form.sign))
        if len(infinite) > LONGEST:
            return None
        turned = infinite[0].sign
        of_terms = tuple(Form(turned * each.sign, each.factors) for each in infinite)
        bare = self._atom(ADD, of_terms)
        atom = self._atom(ADD, tuple(infinite), value)
        self._terms[bare], self._bare[atom] = of_terms, (bare, turned)
        self._either[atom] = self._atom(ADD, of_terms, "either", unsigned), turned
        return Form(1, ((atom, 1),))

    def infinite_factors(self, form: Form) -> list[tuple[int, int]]:
        """Return the factors that may be infinite."""
        return [(atom, side) for atom, side in form.factors if side < 0 or atom not in self._of_values]

    def _plain(self, form: Form) -> Form:
        """Return a form without what does not matter: signs of factors, and of a sum where that is zero."""
        infinite = set(self.infinite_factors(form))
        is_alone = len(infinite) == 1
        sign, factors = form.sign, []
        for atom, side in form.factors:
            either = (self._bare.get(atom) if is_alone else None) or self._either.get(atom)
            if side > 0 and either is not None:
                atom, turned = either  # noqa: PLW2901
                sign *= turned
            factors.append((atom, side))
        return Form(sign, tuple(sorted(factors)))

    def dividends(self, form: Form) -> list[int]:
        """Return the finite values that are factors."""
        return [self._of_values[atom] for atom, side in form.factors if side > 0 and atom in self._of_values]

    def number_of(self, form: Form) -> int:
        """Return a number for a form of either sign."""
        return self._atom("form", self._plain(form).factors)
