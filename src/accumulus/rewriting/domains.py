"""Domains of tapes: the conditions under which outputs are numbers, and a proof that rewriting does not add to them.

A quotient needs a divisor that is not zero, a square root or logarithm an argument that is not negative, and so on. An
output of a rewritten tape may only need what the original output needs, or what is always true. Conditions are about
values, which are the same in both tapes if their residues are (`accumulus.rewriting.equivalence`).

Some operations are finite where an argument is not: arctan(1/a) is π/2 at 0, and a comparison has an outcome even for
what is no number. So nothing follows from them for the conditions of their arguments. Where such an argument may be
infinite, it has to be made by operations of the original on the same values, and then is what it was.

What one branch of a select needs is needed where it is taken: of each condition, the branches that it is in are known.

What is always true, or follows from other conditions, is found by looking into definitions: products and quotients of
values that are not zero, sums of squares and positive numbers, exponentials, absolute values. What is assumed of inputs
is a condition that holds always. Overflow is no condition: it is judged at points (`accumulus.rewriting.rounding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Final, NamedTuple

import numpy as np

from accumulus.rewriting.compiled.fields import UNDEFINED
from accumulus.rewriting.equivalence import Run, Verification, rows_as_bytes
from accumulus.rewriting.infinite_forms import LONGEST, Form, Forms
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, POWER, SELECT, SUBTRACT, Tape

#: What a condition says: that a value is not zero, not negative, or positive; that a function is defined; that values
#: of a form are in the original and numbers there, perhaps infinite ones, or are in it at all.
NONZERO, NONNEGATIVE, POSITIVE, DEFINED, NUMBER, SAME = range(6)
#: Kinds of the conditions that callers assume of inputs.
OF_ASSUMPTIONS: Final = {"nonzero": NONZERO, "nonnegative": NONNEGATIVE, "positive": POSITIVE}
#: What is assumed of each input of a tape, by name, or "" for nothing; empty if nothing is assumed of any.
Assumed = Sequence[str]
#: Depth to which definitions are looked into: a greater one takes time for each condition, a smaller one proves fewer.
DEPTH: Final = 8
#: The same for divisors of candidates, which are many.
SHALLOW: Final = 4
#: The same for products with values that are assumed to be positive.
PRODUCTS: Final = 4
#: Number of branches within branches; with more, programs keep what is deeper. More take memory for conditions.
NESTED: Final = 32
#: Number of conditions in branches of one program, which grows exponentially with selects of what others select. More
#: take time and memory, fewer leave outputs as they were.
MOST_IN_BRANCHES: Final = 40_000
#: Number of conditions of one program that are looked at, each in all branches that it is needed in, and of those that
#: all proofs begin with. More take time for programs with many branches, fewer leave outputs as they were.
MOST_FOLLOWED: Final = 300_000
MOST_KNOWN: Final = 100_000
#: Number of bits up to which each is looked at alone.
FEW_BITS: Final = 200


def _codes(names: str) -> frozenset[int]:
    return frozenset(BY_NAME[name].code for name in names.split())


#: Operations that are finite for all finite numbers, but for overflow, and for these alone.
_TOTAL: Final = _codes(
    "add subtract multiply negative select attach abs floor ceil cbrt hypot sin cos tan sinh cosh asinh logical_not"
)
#: Operations that are finite for all finite numbers, but for overflow, and for infinite ones; those that are so for
#: infinite ones of one sign, or beside finite ones; and those that are so even for what is no number.
_BOUNDED: Final = _codes("sign atan atan2 tanh erf erfc j0 j1 i0e i1e")
_BOUNDED_AT_ONE_END: Final = _codes("exp expm1 exp2 log_ndtr minimum maximum")
_OF_ANYTHING: Final = _codes("less less_equal equal not_equal logical_and logical_or")
_PLAIN: Final = frozenset((ADD, SUBTRACT, MULTIPLY))
_FINITE_OF_FINITE: Final = _TOTAL | _codes("sqrt log log2 log10")
_ALWAYS: Final = _TOTAL | _BOUNDED | _BOUNDED_AT_ONE_END | _OF_ANYTHING
#: Operations that may be numbers where an argument is none.
_HIDING: Final = _OF_ANYTHING | _codes("hypot power")
_LOGARITHMS: Final = _codes("log log2 log10")
_SQRT, _ABS, _MAXIMUM, _ATTACH = (BY_NAME[name].code for name in ("sqrt", "abs", "maximum", "attach"))
#: Functions whose values are never negative; exponentials may underflow to zero.
_NONNEGATIVE: Final = _codes("sqrt abs hypot exp exp2 cosh erfc")
_COSH: Final = BY_NAME["cosh"].code


class Condition(NamedTuple):
    """A condition on a value, or on an operation."""

    kind: int
    code: int  # of the operation; 0 for conditions on values
    arguments: tuple[int, ...]  # numbers of the values


#: Code of an operation, and the numbers of its arguments' values.
_Operation = tuple[int, tuple[int, ...]]
#: Conditions of selects, by the number of their values, and the branches that are taken.
Branches = frozenset[tuple[int, bool]]


class _Tape(NamedTuple):
    """A tape, and the numbers of its values."""

    tape: Tape
    # number of each reference, constants in reverse order at the end: of its value, and of this or its negative
    of: list[int]
    unsigned: list[int]


class _Needs(NamedTuple):
    """Needs of references, as bits of conditions; constants, which need nothing, in reverse order at the end."""

    finite: list[int]  # to be finite
    signs: list[int]  # to be made of numbers, perhaps infinite ones
    within: list[int]  # to be finite, and made of what is


class OfProgram(NamedTuple):
    """A program, by reference, with constants in reverse order at the end."""

    of: list[int]  # numbers of its values
    needed: list[int]  # bits of what each value needs to be finite
    allowed: list[int]  # bits of what all outputs of the original need that depend on it


class Domains:
    """Conditions that the outputs of a tape need.

    Args:
        tape: the original tape.
        verification: its values at points.
        assumed: what holds of its inputs in all calls.
    """

    def __init__(self, tape: Tape, verification: Verification, assumed: Assumed = ()) -> None:
        self._verification = verification
        self._numbers: dict[bytes, int] = {}
        #: Number of a value or its negative, whichever comes first, for each value.
        self._unsigned: dict[int, int] = {}
        #: Operations that make each value, with bits of what the first of each kind needs to be finite, and made of
        #: what is; and the constants among values.
        self._definitions: dict[int, dict[_Operation, int]] = {}
        self.constants: dict[int, float] = {}
        #: Bits of conditions in branches; and bits of what may hold instead of the conditions that values of the last
        #: tape have forms of the original.
        self._bits: dict[tuple[Condition, Branches], int] = {}
        self.of_bits: list[tuple[Condition, Branches]] = []
        self._with: dict[Condition, int] = {}
        self._known: dict[int, dict[Condition, list[Branches]]] = {}
        self._in_branch: dict[tuple[int, int, bool], int] = {}
        self._instead: dict[Condition, int] = {}
        self._left = self._left_known = self._left_followed = 0
        self.forms = Forms()
        #: Values that are each other's negatives, by the first of them; and proofs, by what they are from.
        self._alike: dict[int, list[int]] = {}
        self._proofs: dict[tuple[int, Branches], _Proof] = {}
        self._original = self._numbered(tape, verification.run(tape))
        #: Conditions that hold always.
        self.assumed: list[Condition] = []
        for k, name in enumerate(assumed):
            if name:
                numbers = self._original.unsigned if name == "nonzero" else self._original.of
                self.assumed.append(Condition(OF_ASSUMPTIONS[name], 0, (numbers[k],)))
        self._of_original = self._needs(self._original, is_original=True).finite
        self._needed = [self._of_original[output] for output in tape.outputs]

    def nonnegative(self, references: Iterable[int], outputs: Iterable[int]) -> list[int]:
        """Return those values of the original tape that are not negative wherever one of some outputs is defined.

        Args:
            references: of the values.
            outputs: positions of the outputs; without any, values are returned that are never negative.
        """
        needed = -1
        for k in outputs:
            needed &= self._needed[k]
        proof = self.proof(max(needed, 0), frozenset())
        return [r for r in dict.fromkeys(references) if proof.holds(NONNEGATIVE, self._original.of[r], DEPTH)]

    def wider(self, tape: Tape) -> list[int]:
        """Return the outputs of another tape that may be undefined where the original ones are defined."""
        self._instead.clear()
        needs = self._needs(self._numbered(tape, self._verification.run(tape)), is_original=False).finite
        following: dict[int, Following] = {}
        wide: list[int] = []
        for k, (output, needed) in enumerate(zip(tape.outputs, self._needed, strict=True)):
            if new := needs[output] & ~needed:
                if needed not in following:
                    following[needed] = Following(self, needed, tries_products=True)
                if not following[needed].all_of(new):
                    wide.append(k)
        return wide

    def of_program(self, tape: Tape) -> OfProgram:
        """Return what the values of a program need that has the outputs of the original one."""
        numbered, finite = self._original, self._of_original
        if tape is not numbered.tape:
            numbered = self._numbered(tape, self._verification.run(tape))
            finite = self._needs(numbered, is_original=False).finite
        allowed = [-1] * (len(tape) + len(tape.constants))
        for output, needed in zip(tape.outputs, self._needed, strict=True):
            allowed[output] = needed if allowed[output] < 0 else allowed[output] & needed
        for r in range(len(tape) - 1, tape.inputs - 1, -1):
            for a in tape.arguments(r):
                allowed[a] = allowed[r] if allowed[a] < 0 else allowed[a] & allowed[r]
        return OfProgram(numbered.of, finite, [max(each, 0) for each in allowed])

    def instead_of(self, condition: Condition) -> list[int] | None:
        """Return the bits of what may hold in place of a condition that a form is in the original."""
        return None if condition not in self._instead else _bits_of(self._instead[condition])

    def has_left(self) -> bool:
        """Return True if one more condition may be looked at."""
        self._left_followed -= 1
        return self._left_followed > 0

    # Values --------------------------------------------------------------------------------------------------------

    def _numbered(self, tape: Tape, run: Run) -> _Tape:
        """Return the number of each value of a tape; equal values, in this and other tapes, have equal numbers."""
        modulo = self._verification.modulo
        opposite = np.where(run.real > 0, modulo - run.real, run.real), (modulo - run.imaginary) % modulo
        is_turned = np.where(run.real[:, 0] != 0, 2 * run.real[:, 0] > modulo[0], 2 * run.imaginary[:, 0] > modulo[0])
        undefined = (run.real == UNDEFINED).any(axis=1)
        turned = run._replace(
            real=np.where(is_turned[:, np.newaxis], opposite[0], run.real),
            imaginary=np.where(is_turned[:, np.newaxis], opposite[1], run.imaginary),
        )
        numbers = self._numbers
        of, unsigned = (
            [numbers.setdefault(row, len(numbers)) for row in rows_as_bytes(each)] for each in (run, turned)
        )
        # what is undefined everywhere is the same if it is made alike; constants, at the end, come first
        for k in sorted(np.flatnonzero(undefined).tolist(), key=lambda k: (k < len(tape), k)):
            made = (
                (tape.codes[k], *(of[a] for a in tape.arguments(k)))
                if k < len(tape)
                else tape.constants[len(of) - k - 1]
            )
            of[k] = unsigned[k] = numbers.setdefault(b"undefined %r" % (made,), len(numbers))
        for value, either in zip(of, unsigned, strict=True):
            if value not in self._unsigned:
                self._unsigned[value] = either
                self._alike.setdefault(either, []).append(value)
        for k, constant in enumerate(tape.constants, 1):
            self.constants[of[-k]] = constant
        return _Tape(tape, of, unsigned)

    # Conditions ----------------------------------------------------------------------------------------------------

    def _needs(self, numbered: _Tape, *, is_original: bool) -> _Needs:
        """Return what the references of a tape need; its operations become definitions of their values.

        Args:
            numbered: the tape.
            is_original: True for the tape that others are compared with: conditions in too many branches are left out
                there, and those of others are taken to be in fewer.
        """
        tape, of, _ = numbered
        needs = _Needs(*([0] * (len(tape) + len(tape.constants)) for _ in _Needs._fields))
        hidden = _Hidden(self, numbered, needs, is_original=is_original)
        self._proofs.clear()
        self._left, self._left_known, self._left_followed = MOST_IN_BRANCHES, MOST_KNOWN, MOST_FOLLOWED
        for r in range(tape.inputs, len(tape)):
            code = tape.codes[r]
            if code in _PLAIN:  # in short, for most operations
                a, b = tape.first[r], tape.second[r]
                values: tuple[int, ...] = of[a], of[b]
                for bits in needs:
                    bits[r] = bits[a] | bits[b]
            else:
                arguments = tape.arguments(r)[: 1 if code == _ATTACH else None]
                values = tuple(of[a] for a in arguments)
                if code == SELECT:
                    for bits in needs:
                        bits[r] = self.of_branches(tape, r, of, bits.__getitem__, is_original=is_original)
                    needs.finite[r] |= hidden.same(arguments[0])
                else:
                    self._note(numbered, r, arguments, needs, hidden)
            self._definitions.setdefault(of[r], {}).setdefault((code, values), needs.within[r])
        return needs

    def _note(self, numbered: _Tape, r: int, arguments: Sequence[int], needs: _Needs, hidden: _Hidden) -> None:
        """Note what an operation needs that is no select."""
        (tape, of, unsigned), (finite, signs, within) = numbered, needs
        code = tape.codes[r]
        own = of_signs = 0
        if code not in _ALWAYS:
            for condition in _conditions(tape, r, code, [of[a] for a in arguments], [unsigned[a] for a in arguments]):
                if not self._is_constant(condition):
                    own |= 1 << self._bit(condition)
                    if condition.kind in (POSITIVE, NONNEGATIVE):  # a logarithm is infinite at 0
                        of_signs |= 1 << self._bit(condition._replace(kind=NONNEGATIVE))
        signs[r] = of_signs | (0 if code in _OF_ANYTHING else _union(signs[a] for a in arguments))
        within[r] = own | _union(within[a] for a in arguments)
        finite[r] = own | self._inner(numbered, r, arguments, finite, hidden)

    def _inner(self, numbered: _Tape, r: int, arguments: Sequence[int], finite: Sequence[int], hidden: _Hidden) -> int:
        """Return what the arguments of an operation need for it to be finite, as bits."""
        tape = numbered.tape
        code = tape.codes[r]
        exponent = tape.value_of(tape.second[r]) if code == POWER and tape.second[r] < 0 else 0.0
        if code in _FINITE_OF_FINITE or (code == POWER and exponent > 0.0):
            return _union(finite[a] for a in arguments)
        if code == DIVIDE:
            total = finite[arguments[0]] | hidden.number(arguments[1])
            for value in hidden.dividends(arguments[1]):  # a divisor 0/b is 0, or no number
                total |= 1 << self._bit(Condition(NONZERO, 0, (value,)))
            return total
        if code in _BOUNDED_AT_ONE_END:
            inner = _union(finite[a] for a in arguments)
            return hidden.function(r, inner) if inner else 0
        # a power of exponent 0 is 1, whatever the base
        if code in _OF_ANYTHING or (code == POWER and exponent == 0.0):
            return _union(hidden.same(a) for a in arguments)
        return _union(hidden.number(a) for a in arguments)

    def of_branches(
        self, tape: Tape, r: int, of: Sequence[int], bits: Callable[[int], int], *, is_original: bool
    ) -> int:
        """Return what a select needs of its branches: in both, or where each is taken."""
        chosen, one, other = tape.arguments(r)
        both = bits(one) & bits(other)
        total = both
        for branch, side in ((one, True), (other, False)):
            total |= self._taken(bits(branch) & ~both, of[chosen], side, is_original)
        return total

    def finite_form(self, numbered: _Tape, r: int) -> Form:
        """Return the form of a value that is finite."""
        value, unsigned = numbered.of[r], numbered.unsigned[r]
        return self.forms.of_value(value, unsigned, self.constants.get(value))

    def _bit(self, condition: Condition, branches: Branches = frozenset()) -> int:
        """Return the position of a condition's bit."""
        key = condition, branches
        if key not in self._bits:
            self._bits[key] = len(self.of_bits)
            self._with[condition] = self._with.get(condition, 0) | 1 << len(self.of_bits)
            self.of_bits.append(key)
        return self._bits[key]

    def as_it_was(self, kind: int, forms: Iterable[Form], finite: int, is_original: bool) -> int:
        """Return bits of the condition that a value of either form is in the original, unless it is finite."""
        one, other = (Condition(kind, 0, (self.forms.number_of(form),)) for form in forms)
        self._instead[other] = self._instead.get(other, 0) | finite
        if one != other:
            self._instead[one] = 1 << self._bit(other)
        return 1 << self._bit(one) | (1 << self._bit(other) if is_original else 0)

    def _taken(self, needs: int, condition: int, side: bool, is_original: bool) -> int:
        """Return conditions as they are needed in a branch."""
        total = 0
        if self._left <= 0:
            return 0 if is_original else needs
        bits = _bits_of(needs)
        self._left -= len(bits)
        for bit in bits:
            key = bit, condition, side
            inner, branches = self.of_bits[bit]
            if key not in self._in_branch and len(branches) < NESTED:
                self._in_branch[key] = 1 << self._bit(inner, branches | {(condition, side)})
            total |= self._in_branch.get(key, 0 if is_original else 1 << bit)
        return total

    def _is_constant(self, condition: Condition) -> bool:
        """Return True for a condition that holds for a constant."""
        kind, _, (value, *_) = condition
        numbers = [self.constants[each] for each in self.alike(value) if each in self.constants]
        return kind < DEFINED and len(numbers) > 0 and _holds(kind, self.constants.get(value, numbers[0]))

    # Proofs --------------------------------------------------------------------------------------------------------

    def known_in(self, needed: int) -> dict[Condition, list[Branches]]:
        """Return the branches in which each condition holds, of those given as bits."""
        if needed not in self._known:
            known = self._known[needed] = {}
            for bit in _bits_of(needed):
                condition, within = self.of_bits[bit]
                known.setdefault(condition, []).append(within)
        return self._known[needed]

    def proof(self, needed: int, branches: Branches) -> _Proof:
        """Return what follows from conditions, given as bits, in branches; or from none if there have been many."""
        if (needed, branches) not in self._proofs and self._left_known <= 0:
            needed, branches = 0, frozenset()
        key = needed, branches
        if key not in self._proofs:
            known = self.known_in(needed)
            self._left_known -= len(known)
            holds = {each for each, places in known.items() if any(within <= branches for within in places)}
            self._proofs[key] = _Proof(self, needed, holds.union(self.assumed), branches)
        return self._proofs[key]

    def bits_with(self, conditions: Iterable[Condition]) -> int:
        """Return the bits of conditions, in any branches."""
        return _union(self._with.get(each, 0) for each in conditions)

    def unsigned(self, value: int) -> int:
        """Return the number of a value or its negative, whichever comes first."""
        return self._unsigned.get(value, value)

    def alike(self, value: int) -> Sequence[int]:
        """Return a value and, if it is one, its negative."""
        return self._alike.get(self.unsigned(value), (value,))

    def is_product_of(self, value: int, others: Iterable[int], is_finite: Callable[[int], bool]) -> bool:
        """Return True if a value is the product or quotient of two others, or is so of another and a finite value."""
        modulo = [int(p) for p in self._verification.modulo]
        rows, known = list(self._numbers), {self.unsigned(each) for each in others}
        width = 16 * len(modulo)  # of values that are defined

        def residues(number: int) -> list[tuple[int, int]]:
            real, imaginary = np.frombuffer(rows[number], np.int64).reshape(2, -1).tolist()
            return list(zip(real, imaginary, strict=True))

        def number_of(product: list[tuple[int, int]]) -> int | None:
            for turned in (product, [(-a % p, -b % p) for (a, b), p in zip(product, modulo, strict=True)]):
                number = self._numbers.get(np.array(turned, np.int64).T.tobytes())
                if number is not None:
                    return self.unsigned(number)
            return None

        for other in known if len(rows[value]) == width else ():
            if len(rows[other]) == width:
                pairs = list(zip(residues(value), residues(other), modulo, strict=True))
                product = [((a * c - b * d) % p, (a * d + b * c) % p) for (a, b), (c, d), p in pairs]
                if number_of(product) in known or number_of([_over(x, y, p) for x, y, p in pairs]) in known:
                    return True
                factor = number_of([_over(y, x, p) for x, y, p in pairs])
                if factor is not None and is_finite(factor):
                    return True
        return False

    def made_by(self, value: int) -> Iterable[tuple[_Operation, int]]:
        """Return the operations that make a value, and bits of what each needs to be finite, and made of what is."""
        return self._definitions.get(value, {}).items()


def _conditions(tape: Tape, r: int, code: int, values: Sequence[int], sizes: Sequence[int]) -> Iterator[Condition]:
    """Yield the conditions of an operation on its arguments, given by the numbers of their values."""
    if code == DIVIDE:
        yield Condition(NONZERO, 0, (sizes[1],))
    elif code == _SQRT:
        yield Condition(NONNEGATIVE, 0, (values[0],))
    elif code in _LOGARITHMS:
        yield Condition(POSITIVE, 0, (values[0],))
    elif code == POWER and tape.second[r] < 0:
        exponent = tape.value_of(tape.second[r])
        if exponent < 0.0:
            yield Condition(NONZERO, 0, (sizes[0],))
        if not exponent.is_integer():
            yield Condition(NONNEGATIVE, 0, (values[0],))
    elif code not in _ALWAYS:
        yield Condition(DEFINED, code, tuple(sizes if OPERATIONS[code].parity else values))


# Infinite values ------------------------------------------------------------------------------------------------------


class _Hidden:
    """Needs of values in operations that may be finite where these are not.

    Args:
        domains: bits, constants, and forms.
        numbered: the tape.
        needs: what its references need, as far as it is known.
        is_original: as for `Domains._needs`.
    """

    def __init__(self, domains: Domains, numbered: _Tape, needs: _Needs, *, is_original: bool) -> None:
        self._domains, self._numbered, self._needs, self._is_original = domains, numbered, needs, is_original
        #: Forms of references, products as products of all factors, or of those that are not finite; and bits.
        self._forms: tuple[dict[int, Form], ...] = ({}, {})
        self._bits: dict[int, dict[int, int]] = {NUMBER: {}, SAME: {}}

    def number(self, reference: int) -> int:
        """Return what a value needs to be finite or infinite, as in the original."""
        return self._of_kind(NUMBER, reference)

    def same(self, reference: int) -> int:
        """Return what a value needs to be as in the original, even if that is no number."""
        return self._of_kind(SAME, reference)

    def function(self, r: int, inner: int) -> int:
        """Return what a function needs to be finite that may be infinite for infinite arguments.

        Args:
            r: its reference.
            inner: what its arguments need to be finite.
        """
        tape, make, signs = self._numbered.tape, self._domains.forms, self._needs.signs
        forms = [make.of_function(tape.codes[r], [self._form(k, a) for a in tape.arguments(r)], ()) for k in (0, 1)]
        of_signs = _union(signs[a] for a in tape.arguments(r))
        return self._domains.as_it_was(NUMBER, forms, inner, self._is_original) | of_signs

    def dividends(self, reference: int) -> list[int]:
        """Return finite factors of a divisor that is not known to be finite."""
        finite = not self._needs.finite[reference]
        return [] if finite else self._domains.forms.dividends(self._form(0, reference))

    def _of_kind(self, kind: int, reference: int) -> int:
        if not self._needs.finite[reference]:
            return 0
        bits, tape = self._bits[kind], self._numbered.tape
        for r in _missing(tape, reference, bits, lambda r: self._parts(kind, r)):
            if tape.codes[r] == SELECT:
                chosen = self._of_kind(SAME, tape.first[r])
                every = self._domains.of_branches(
                    tape, r, self._numbered.of, lambda a: bits.get(a, 0), is_original=self._is_original
                )
                bits[r] = chosen | every
                continue
            forms = (self._form(0, r), self._form(1, r))
            bits[r] = self._domains.as_it_was(kind, forms, self._needs.finite[r], self._is_original)
            if kind == NUMBER:
                bits[r] |= self._needs.signs[r] | _union(bits[a] for a in self._parts(kind, r))
        return bits[reference]

    def _parts(self, kind: int, r: int) -> list[int]:
        """Return the arguments of an operation that have to be of a kind if it is, of those that may be infinite."""
        tape = self._numbered.tape
        code, arguments = tape.codes[r], tape.arguments(r)
        if code == SELECT:
            arguments = arguments[1:]
        elif kind == SAME or not self._is_original or code in _HIDING:
            return []
        return [a for a in arguments if self._needs.finite[a]]

    def _form(self, k: int, reference: int) -> Form:
        """Return the form of a value, with all factors of finite values if `k` is 0."""
        forms, finite, tape = self._forms[k], self._needs.finite, self._numbered.tape

        def parts(r: int) -> Sequence[int]:
            if r < tape.inputs:
                return ()
            code = tape.codes[r]
            is_product = code == NEGATIVE or (k == 0 and code in (MULTIPLY, DIVIDE))
            return tape.arguments(r) if finite[r] or is_product else ()

        for r in _missing(tape, reference, forms, parts):
            forms[r] = self._made(r, forms) if parts(r) else self._domains.finite_form(self._numbered, r)
        return forms[reference]

    def _made(self, r: int, forms: Mapping[int, Form]) -> Form:
        """Return the form of an operation's value."""
        tape, of, unsigned = self._numbered
        code, arguments, make = tape.codes[r], tape.arguments(r), self._domains.forms
        if code == _ATTACH:
            return forms[arguments[0]]
        if code == NEGATIVE:
            return make.product(forms[arguments[0]], make.of_number(-1.0))
        made: Form | None = None
        if code == MULTIPLY:
            made = make.product(forms[arguments[0]], forms[arguments[1]])
        elif code == DIVIDE:
            made = make.product(forms[arguments[0]], make.inverse(self._form(0, arguments[1])))
        elif code in (ADD, SUBTRACT):
            turned = make.product(forms[arguments[1]], make.of_number(1.0 if code == ADD else -1.0))
            terms = forms[arguments[0]], turned
            if not any(map(make.infinite_factors, terms)):  # 1/(1/x) is x, even where x is 0
                return self._domains.finite_form(self._numbered, r)
            made = make.sum(terms, of[r], unsigned[r])
        elif code == POWER and arguments[1] < 0 and abs(tape.value_of(arguments[1])) in (2.0, 3.0, 4.0):
            exponent, base = tape.value_of(arguments[1]), forms[arguments[0]]
            made = base = make.inverse(base) if exponent < 0.0 else base
            for _ in range(abs(int(exponent)) - 1):
                made = make.product(made, base)
        if made is not None and len(made.factors) <= LONGEST:
            return made
        if not self._needs.finite[r]:
            return self._domains.finite_form(self._numbered, r)
        values = () if code in _ALWAYS else tuple(of[a] for a in arguments)
        return make.of_function(code, [forms[a] for a in arguments], values)


def _missing(
    tape: Tape, reference: int, known: Mapping[int, object], parts: Callable[[int], Sequence[int]]
) -> list[int]:
    """Return a reference and those it is made of that are not known, each after its parts."""
    found: set[int] = set()
    waiting = [reference]
    while waiting:
        r = waiting.pop()
        if r not in known and r not in found:
            found.add(r)
            waiting += parts(r)
    return sorted(found)


class _Proof:
    """Consequences of conditions.

    Args:
        domains: definitions, constants and bits.
        needed: bits of the conditions.
        known: those that hold in the branches.
        branches: the branches that are taken.
    """

    def __init__(self, domains: Domains, needed: int, known: set[Condition], branches: Branches) -> None:
        self._domains, self._needed, self._known, self._branches = domains, needed, known, dict(branches)
        self._is_never = len(self._branches) < len(branches)
        #: Bits of what holds, by which definitions may be used.
        self._usable = needed | domains.bits_with(known)
        self._proved: set[tuple[int, int]] = set()
        self._tried: dict[tuple[int, int], int] = {}
        # what is assumed comes last, and so is taken first: what follows from others may need it
        waiting = [(each.kind, each.arguments[0]) for each in (*known, *domains.assumed) if each.kind < DEFINED]
        while waiting:
            kind, value = waiting.pop()
            if not self._is_proved(kind, value):
                waiting += self._follow(kind, value)

    def follows(self, condition: Condition) -> bool:
        """Return True if a condition on a value is among those that hold, follows from them, or is always true."""
        return self._is_never or condition in self._known or self.holds(condition.kind, condition.arguments[0])

    def is_product(self, value: int) -> bool:
        """Return True if a value is the product or quotient of two that are not zero, or is a factor of one.

        So (a/c) / (b/c) may become a/b, and a / (bc + bd) may become a / b / (c + d).
        """
        others = [each for kind, each in self._proved if kind == NONZERO and self._is_finite(each)]
        others += [each for each, number in self._domains.constants.items() if number]
        return self._domains.is_product_of(value, others, self._is_finite)

    def _is_finite(self, value: int) -> bool:
        """Return True if a value is an input, or made by an operation that is known to be finite."""
        alike = self._domains.alike(value)
        return not any(map(self._domains.made_by, alike)) or any(any(self._made(each)) for each in alike)

    def _is_proved(self, kind: int, value: int) -> bool:
        return (kind, self._key(kind, value)) in self._proved

    def _key(self, kind: int, value: int) -> int:
        return self._domains.unsigned(value) if kind == NONZERO else value

    def _follow(self, kind: int, value: int) -> Iterator[tuple[int, int]]:
        """Note that something holds of a value, and yield what follows of others."""
        self._proved.add((kind, self._key(kind, value)))
        if kind == POSITIVE:
            yield from ((NONZERO, value), (NONNEGATIVE, value))
        # a value that is not zero, and not negative, is positive
        if kind != POSITIVE:
            for each in self._domains.alike(value):
                if self._is_proved(NONZERO, each) and self._is_proved(NONNEGATIVE, each):
                    yield POSITIVE, each
        if kind == NONZERO:
            for code, arguments in (made for each in self._domains.alike(value) for made in self._made(each)):
                if code == MULTIPLY:
                    yield from ((NONZERO, argument) for argument in arguments)
                elif code in (DIVIDE, NEGATIVE, _SQRT, _ABS):
                    yield NONZERO, arguments[0]
                    if code == _SQRT:
                        yield NONNEGATIVE, arguments[0]
                elif code == SELECT:
                    yield from ((NONZERO, branch) for branch in self._taken(arguments))
            return
        for code, arguments in self._made(value):
            if code == MULTIPLY:
                for one, other in (arguments, arguments[::-1]):
                    if self._domains.constants.get(one, 0.0) > 0.0 or self._is_assumed_positive(one):
                        yield kind, other
            elif code == SELECT:
                yield from ((kind, branch) for branch in self._taken(arguments))

    def _is_assumed_positive(self, value: int, depth: int = PRODUCTS) -> bool:
        """Return True if a value is positive, as it is made of values that are assumed to be."""
        if not self._domains.assumed or not depth:
            return False
        return self._is_proved(POSITIVE, value) or any(
            code in (ADD, MULTIPLY, DIVIDE) and all(self._is_assumed_positive(each, depth - 1) for each in arguments)
            for code, arguments in self._made(value)
        )

    def _made(self, value: int) -> Iterator[_Operation]:
        """Yield the operations that make a value, of those that are known to be finite."""
        for made, needs in self._domains.made_by(value):
            if not needs & ~self._usable:
                yield made

    def _taken(self, arguments: tuple[int, ...]) -> tuple[int, ...]:
        """Return the value of the branch that a select takes, if that is known."""
        condition, one, other = arguments
        return () if condition not in self._branches else (one,) if self._branches[condition] else (other,)

    def holds(self, kind: int, value: int, depth: int = DEPTH) -> bool:
        """Return True if a value is proved to be not zero, not negative, or positive."""
        key = kind, value
        if self._is_proved(kind, value):
            return True
        if value in self._domains.constants:
            return _holds(kind, self._domains.constants[value])
        if depth <= self._tried.get(key, 0):
            return False
        self._tried[key] = depth
        alike = self._domains.alike(value) if kind == NONZERO else [value]
        made = any(
            self._by(kind, code, arguments, depth - 1) and self._are_finite(needs, depth - 1)
            for each in alike
            for (code, arguments), needs in self._domains.made_by(each)
        )
        made = made or (kind == NONZERO and any(self.holds(POSITIVE, each, depth - 1) for each in alike))
        made = made or (kind == POSITIVE and self._is_proved(NONZERO, value) and self.holds(NONNEGATIVE, value, depth))
        if made:
            self._proved.add((kind, self._key(kind, value)))
        return made

    def _are_finite(self, needs: int, depth: int) -> bool:
        """Return True if conditions, given as bits, hold: √a · √a is no reason for a not to be negative."""
        conditions = (self._domains.of_bits[bit][0] for bit in _bits_of(needs & ~self._usable))
        return all(each.kind < DEFINED and self.holds(each.kind, each.arguments[0], depth) for each in conditions)

    def _by(self, kind: int, code: int, arguments: tuple[int, ...], depth: int) -> bool:
        """Return True if an operation makes a value of which something holds."""
        if depth <= 0:
            return False

        def both(each: int) -> bool:
            return all(self.holds(each, argument, depth) for argument in arguments)

        first = arguments[0]
        if code in (MULTIPLY, DIVIDE):
            if code == MULTIPLY and first == arguments[1] and kind != NONZERO:
                return kind == NONNEGATIVE or self.holds(NONZERO, first, depth)
            return both(kind)
        if code == NEGATIVE:
            return kind == NONZERO and self.holds(NONZERO, first, depth)
        if code == ADD:
            if kind == NONNEGATIVE:
                return both(NONNEGATIVE)
            one, other = arguments
            return any(
                self.holds(POSITIVE, a, depth) and self.holds(NONNEGATIVE, b, depth)
                for a, b in ((one, other), (other, one))
            )
        if code == SELECT:
            if taken := self._taken(arguments):
                return self.holds(kind, taken[0], depth)
            return all(
                self._domains.proof(self._needed, frozenset((self._branches | {first: side}).items())).holds(
                    kind, branch, depth
                )
                for side, branch in zip((True, False), arguments[1:], strict=True)
            )
        if code == _MAXIMUM:
            return kind != NONZERO and any(self.holds(kind, argument, depth) for argument in arguments)
        if code in _NONNEGATIVE:
            if kind == NONNEGATIVE or code == _COSH:
                return True
            inner = POSITIVE if code == _SQRT else NONZERO
            return code in (_SQRT, _ABS) and self.holds(inner, first, depth)
        return False


def _holds(kind: int, number: float) -> bool:
    """Return True if a constant is not zero, not negative, or positive."""
    return number != 0.0 if kind == NONZERO else number > 0.0 if kind == POSITIVE else number >= 0.0


class Following:
    """What follows from conditions.

    Args:
        domains: the conditions.
        needed: bits of those that hold.
        tries_products: if True, products and quotients of values that are not zero are tried, which takes time.
    """

    def __init__(self, domains: Domains, needed: int, *, tries_products: bool = False) -> None:
        self._tries_products = tries_products
        self._domains, self._needed, self._known = domains, needed, domains.known_in(needed)
        self._followed: dict[tuple[int, Branches], bool] = {}
        self._proofs: dict[Branches, _Proof] = {}
        self._instead: dict[Condition, list[int] | None] = {}

    def all_of(self, bits: int) -> bool:
        """Return True if all conditions follow that are given as bits."""
        return all(self.follows(bit, frozenset()) for bit in _bits_of(bits & ~self._needed))

    def is_nonzero(self, value: int) -> bool:
        """Return True if a value is not zero."""
        return self._proof(frozenset()).holds(NONZERO, value, SHALLOW)

    def follows(self, bit: int, branches: Branches) -> bool:
        """Return True if a condition follows, given by its bit, in branches and those that it is in."""
        key = bit, branches
        if not self._domains.has_left():  # looking up what is known takes time, too, for the longest lists
            return False
        if key not in self._followed:
            self._followed[key] = False
            condition, within = self._domains.of_bits[bit]
            inside = branches | within
            self._followed[key] = (
                _is_among(self._known, condition, inside)
                or self._follows_instead(condition, inside)
                or (condition.kind < DEFINED and self._proof(frozenset()).follows(condition))
                or (condition.kind < DEFINED and self._proof(inside).follows(condition))
                or (self._tries_products and condition.kind == NONZERO and self._is_product(condition, inside))
            )
        return self._followed[key]

    def _is_product(self, condition: Condition, inside: Branches) -> bool:
        return self._proof(inside).is_product(condition.arguments[0])

    def _follows_instead(self, condition: Condition, inside: Branches) -> bool:
        if condition not in self._instead:
            self._instead[condition] = self._domains.instead_of(condition)
        instead = self._instead[condition]
        return instead is not None and all(self.follows(each, inside) for each in instead)

    def _proof(self, branches: Branches) -> _Proof:
        if branches not in self._proofs:
            self._proofs[branches] = self._domains.proof(self._needed, branches)
        return self._proofs[branches]


def _is_among(known: Mapping[Condition, Sequence[Branches]], condition: Condition, inside: Branches) -> bool:
    """Return True if a condition is among others, in these branches or in fewer."""
    kinds = (condition, condition._replace(kind=NUMBER)) if condition.kind == SAME else (condition,)
    return any(within <= inside for each in kinds for within in known.get(each, ()))


def _over(one: tuple[int, int], other: tuple[int, int], p: int) -> tuple[int, int]:
    """Return the quotient of two residues; 0 for a divisor of 0."""
    (a, b), (c, d) = one, other
    size = (c * c + d * d) % p
    inverse = pow(size, -1, p) if size else 0
    return (a * c + b * d) * inverse % p, (b * c - a * d) * inverse % p


def _union(bits: Iterable[int]) -> int:
    """Return all bits."""
    return reduce(or_, bits, 0)


def _bits_of(mask: int) -> list[int]:
    """Return the positions of the bits that are set."""
    if mask.bit_length() > FEW_BITS:
        octets = np.frombuffer(mask.to_bytes(mask.bit_length() // 8 + 1, "little"), np.uint8)
        every: list[int] = np.flatnonzero(np.unpackbits(octets, bitorder="little")).tolist()
        return every
    positions = []
    while mask:
        positions.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return positions
