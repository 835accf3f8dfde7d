"""Identities that a rewritten program relies on, in a form that a person can check.

If the original and the rewritten program compute a value differently, the two expressions are equal. The identity
writes out as few operations of the original program as possible. All its values begin as symbols; the last one is
replaced by its definition until both sides are equal for all numbers in place of the symbols. Then unneeded definitions
become symbols again. An identity that is short and follows by multiplying out is omitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from accumulus.resubstitution.compiled.definitions_kernel import COPY
from accumulus.resubstitution.proofs import are_equal_somewhere, prove
from accumulus.resubstitution.values import Definition, Reading, Values, normal
from accumulus.tape.interpreter import Domain, run
from accumulus.tape.operations import BY_NAME, OPERATIONS, Operation
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT, Tape

#: Most operations of all formulas that are tried, and a fixed number added for each formula. More take time for a
#: report, fewer leave identities without short formulas.
MOST_TRIED: Final = 60_000
EACH_TRIED: Final = 20
_OF_ANGLES: Final = frozenset(BY_NAME[name].code for name in ("sin", "cos"))
_BOOLEAN: Final = frozenset(row.code for row in OPERATIONS if row.result == "boolean")


@dataclass(frozen=True, slots=True)
class Identity:
    """Two formulas for one value.

    Attributes:
        original: formula of the original program, in inputs x0, x1, …, operations t7 of the rewritten program, and
            variables a, b, … that stand for any number.
        rewritten: formula of the rewritten program.
        where: definitions of names in both.
        times: number of pairs of values that the identity makes equal.
        is_proved: True if it is proved as an identity of rational functions; False for sums of angles, whose addition
            theorems it needs, and for formulas of high degree.
    """

    original: str
    rewritten: str
    where: tuple[str, ...]
    times: int
    is_proved: bool

    def __str__(self) -> str:
        return ", ".join([f"{self.original} = {self.rewritten}", *self.where])


def identities(values: Values, made: Reading) -> tuple[list[Identity], int]:
    """Return the identities that a rewritten program relies on, and the number of pairs without one.

    Args:
        values: values that the original program computes.
        made: the rewritten program.
    """
    finder = _Finder(values, made)
    distinct: dict[str, Identity] = {}
    times: Counter[str] = Counter()
    missed = 0
    for pair in finder.pairs():
        written = finder.written_out(pair)
        if written is None:
            missed += 1
        elif not finder.is_obvious(pair, written):
            key = str(finder.text(pair, written, are_named=False))
            times[key] += 1
            if key not in distinct:
                distinct[key] = finder.text(pair, written, are_named=True)
    every = [replace(identity, times=times[key]) for key, identity in distinct.items()]
    return sorted(every, key=lambda each: (not each.is_proved, -each.times, len(str(each)))), missed


class _Pair:
    """Two ways to compute a value, before and after rewriting; `rewritten` is None for a number or an input."""

    def __init__(self, value: int, original: Definition, rewritten: Definition | None) -> None:
        self.value, self.original, self.rewritten = value, original, rewritten


class _Finder:
    def __init__(self, values: Values, made: Reading) -> None:
        self._values = values
        self._original, self._rewritten = (
            {value: values.definitions[number] for value, number in reading.first_definitions.items()}
            for reading in (values.base, made)
        )
        self._ranks = {value: rank for rank, value in enumerate(self._original)}
        self._tried = 0
        #: (sign, reference) of each value that an operation of the rewritten program computes.
        self._references: dict[int, tuple[int, int]] = {}
        for r in range(made.tape.inputs, len(made.tape)):
            value = made.meanings[r]
            if value > 0 or abs(value) not in self._references:
                self._references[abs(value)] = (1 if value > 0 else -1), r

    # Pairs ---------------------------------------------------------------------------------------------------------

    def pairs(self) -> Iterator[_Pair]:
        """Yield the values that the original and the rewritten program compute in different ways."""
        seen = set()
        for each in self._definitions():
            value = each.node
            is_given = value in self._values.numbers or value in self._values.inputs
            now = self._rewritten.get(value)
            if value in self._values.fixed or each in seen or each == now or not (is_given or now is not None):
                continue
            seen.add(each)
            if each.code != COPY and (now is None or now.code != COPY):
                yield _Pair(value, each, None if is_given else now)

    def _definitions(self) -> Iterator[Definition]:
        """Yield the definitions of the original program, operation by operation."""
        base = self._values.base
        for r in range(base.tape.inputs, len(base.tape)):
            code, arguments = base.tape.codes[r], [self._meaning(a) for a in base.tape.arguments(r)]
            if code == NEGATIVE or None in arguments:
                continue
            signed = [a for a in arguments if a is not None]
            if code == SUBTRACT:
                code, signed = ADD, [signed[0], -signed[1]]
            value = base.meanings[r]
            definition = normal(abs(value), code, signed, 1 if value > 0 else -1)
            if abs(value) not in map(abs, signed):
                yield definition

    def _meaning(self, reference: int) -> int | None:
        base = self._values.base
        if reference >= 0:
            return base.meanings[reference]
        number = base.tape.value_of(reference)
        return next((v if n == number else -v for v, n in self._values.numbers.items() if abs(n) == abs(number)), None)

    # Formulas ------------------------------------------------------------------------------------------------------

    def written_out(self, pair: _Pair) -> frozenset[int] | None:
        """Return values to write out for both sides to be equal, as few as possible; None if none are found.

        If both sides are equal once multiplied out, the set may be larger than needed.
        """
        written: set[int] = set()
        many = 1
        while not (self._is_equal(pair, written) or self.is_obvious(pair, written)):
            # write out the values that are computed last, more of them in each turn
            symbols = [symbol for symbol in self._symbols(pair, written) if symbol in self._ranks]
            if not symbols or self._tried >= MOST_TRIED:
                return None
            for _ in range(many):
                if symbols:
                    written.add(max(symbols, key=self._ranks.__getitem__))
                    symbols = [symbol for symbol in self._symbols(pair, written) if symbol in self._ranks]
            many += len(written) // 4
        if self.is_obvious(pair, written):
            return frozenset(written)
        for each in sorted(written, key=self._ranks.__getitem__):
            if self._is_equal(pair, written - {each}):
                written.discard(each)
        return frozenset(written)

    def is_obvious(self, pair: _Pair, written: Set[int]) -> bool:
        """Return True if both sides are equal and short once multiplied out."""
        return are_equal_expanded(self._tape(pair, written, (0, 1)))

    def _define(self, value: int, written: Set[int]) -> Definition | None:
        """Return the definition of a value within a formula; None if it is a symbol there."""
        if value in self._original:
            is_written = value in written or self._original[value].code in _BOOLEAN
            return self._original[value] if is_written else None
        if value in self._values.inputs or value in self._values.numbers:
            return None
        return self._rewritten.get(value)

    def _uses(self, pair: _Pair, written: Set[int]) -> Counter[int]:
        """Return the number of times that the formulas would write each value."""
        counts: Counter[int] = Counter()
        waiting = [pair.original, *([] if pair.rewritten is None else [pair.rewritten])]
        if pair.rewritten is None:
            counts[pair.value] = 1
        while waiting:
            for value in map(abs, waiting.pop().arguments):
                counts[value] += 1
                definition = self._define(value, written)
                if definition is not None and counts[value] == 1:
                    waiting.append(definition)
        return counts

    def _symbols(self, pair: _Pair, written: Set[int]) -> list[int]:
        """Return the values that stand for any number in both formulas."""
        numbers = self._values.numbers
        return [v for v in self._uses(pair, written) if v not in numbers and self._define(v, written) is None]

    def _tape(self, pair: _Pair, written: Set[int], sides: Sequence[int]) -> Tape:
        """Return a tape with some sides of a pair as outputs: 0 is the original formula, 1 the new one."""
        symbols = self._symbols(pair, written)
        tape = Tape(len(symbols))
        tape.folding = self._values.base.tape.folding
        references: dict[int, int] = {symbol: k for k, symbol in enumerate(symbols)}

        def of(value: int) -> int:
            if abs(value) not in references:
                number = self._values.numbers.get(abs(value))
                definition = self._define(abs(value), written)
                if number is not None:
                    references[abs(value)] = tape.constant(number)
                else:
                    assert definition is not None
                    references[abs(value)] = apply(definition)
            return references[abs(value)] if value > 0 else tape.negative(references[abs(value)])

        def apply(definition: Definition) -> int:
            arguments = [of(a) for a in definition.arguments]
            result = arguments[0] if definition.code == COPY else tape.apply_code(definition.code, arguments)
            return result if definition.sign > 0 else tape.negative(result)

        both = (
            (lambda: apply(pair.original)),
            (lambda: of(pair.value) if pair.rewritten is None else apply(pair.rewritten)),
        )
        tape.outputs = [both[side]() for side in sides]
        return tape

    def _sides(self, pair: _Pair, written: Set[int]) -> tuple[Tape, Tape]:
        return self._tape(pair, written, (0,)), self._tape(pair, written, (1,))

    def _is_equal(self, pair: _Pair, written: Set[int]) -> bool:
        """Return True if both sides are equal for all values of the symbols."""
        both = self._tape(pair, written, (0, 1))
        self._tried += EACH_TRIED + both.operations
        if both.outputs[0] == both.outputs[1] or are_equal_somewhere(both):
            return True
        return not _OF_ANGLES.isdisjoint(both.codes) and are_equal_somewhere(both, sums_of_angles=True)

    # Text -----------------------------------------------------------------------------------------------------------

    def text(self, pair: _Pair, written: Set[int], *, are_named: bool) -> Identity:
        """Return the identity of one pair as text.

        Args:
            pair: pair of equal values.
            written: values whose definitions are written out.
            are_named: if True, symbols have their names in the program, and the proof is run; else all are letters, and
                the identity counts as unproved.
        """
        unused = _letters()
        names: dict[int, tuple[int, str]] = {}

        uses = self._uses(pair, written)
        where: dict[int, str] = {}

        def of(value: int) -> _Text:
            sign, node = (1 if value > 0 else -1), abs(value)
            if node in self._values.numbers:
                number = self._values.numbers[node]
                return _Text(sign if number >= 0.0 else -sign, f"{abs(number):.15g}", 2)
            definition = self._define(node, written)
            if definition is None or (uses[node] > 1 and definition.code != COPY):
                if node in names:
                    return _Text(sign * names[node][0], names[node][1], 2)
                name_sign, name = self._name(node) if are_named else (1, "")
                has_letter = not name
                name = name or next(unused)
                if definition is not None:
                    where[node] = ""
                    text = _formula(definition, of)
                    # signs of values are arbitrary: a letter stands for what is written without one
                    name_sign = text.sign if has_letter else name_sign
                    text = text.times(name_sign)
                    where[node] = "" if str(text) == name else f"{name} = {text}"
                elif has_letter:
                    name_sign = sign
                names[node] = name_sign, name
                return _Text(sign * name_sign, name, 2)
            return _formula(definition, of).times(sign)

        first = _formula(pair.original, of)
        second = of(pair.value) if pair.rewritten is None else _formula(pair.rewritten, of)
        # both sides may be the negative of what is written
        original, rewritten = str(first.times(first.sign)), str(second.times(first.sign))
        proved = are_named and prove(*self._sides(pair, written)).is_whole
        return Identity(original, rewritten, tuple(filter(None, where.values())), 1, proved)

    def _name(self, value: int) -> tuple[int, str]:
        """Return sign and name of an input, a function of an input, or an operation; an empty name for all others."""
        if value in self._values.inputs:
            sign, position = self._values.inputs[value]
            return sign, f"x{position}"
        definition = self._original.get(value)
        if (
            definition is not None
            and len(definition.arguments) == 1
            and abs(definition.arguments[0]) in self._values.inputs
        ):
            inner, name = self._name(abs(definition.arguments[0]))
            inner *= 1 if definition.arguments[0] > 0 else -1
            return definition.sign, f"{OPERATIONS[definition.code].name}({'-' if inner < 0 else ''}{name})"
        sign, reference = self._references.get(value, (1, -1))
        return sign, f"t{reference}" if reference >= 0 else ""


# Formulas as text, with few brackets ---------------------------------------------------------------------------------


class _Text(NamedTuple):
    """A formula as text."""

    sign: int  # sign of the formula, which the text leaves out
    text: str
    level: int  # 0 for sums, 1 for products and quotients, 2 for text that needs no brackets
    multiplied: tuple[str, ...] = ()  # factors, of a product
    opposite: str = ""  # text of its negative, if that needs no brackets

    def __str__(self) -> str:
        return self.text if self.sign > 0 else self.opposite or f"-{self.bracketed(1)}"

    @property
    def factors(self) -> tuple[str, ...]:
        """Factors of a product; any other formula is its only factor."""
        return self.multiplied or (self.bracketed(1),)

    def bracketed(self, lowest: int) -> str:
        """Return the text without its sign, in brackets if its level is below `lowest`."""
        return self.text if self.level >= lowest else f"({self.text})"

    def times(self, sign: int) -> _Text:
        """Return the formula times 1 or -1."""
        return self._replace(sign=self.sign * sign)


def _formula(definition: Definition, of: Callable[[int], _Text]) -> _Text:
    """Return the text of an operation, given a function for the text of its arguments."""
    code, sign = definition.code, definition.sign
    arguments = [of(a) for a in definition.arguments]
    if code == COPY:
        return arguments[0].times(sign)
    if code == ADD:
        first, second = sorted((each.times(sign) for each in arguments), key=lambda each: -each.sign)
        text = f"{first} {'+' if second.sign > 0 else '-'} {second.bracketed(1)}"
        if first.sign > 0:
            return _Text(1, text, 0)
        # the negative of a sum of two negatives has no sign left
        return _Text(-1, f"{first.times(-1)} + {second.bracketed(1)}", 0, opposite=text)
    if code == MULTIPLY:
        first, second = arguments
        factors = Counter([*first.factors, *second.factors])
        text = "·".join(f"{factor}{_power(times)}" for factor, times in factors.items())
        return _Text(sign * first.sign * second.sign, text, 1, tuple(factors.elements()))
    if code == DIVIDE:
        first, second = arguments
        return _Text(sign * first.sign * second.sign, f"{first.bracketed(1)}/{second.bracketed(2)}", 1)
    return _Text(sign, f"{OPERATIONS[code].name}({', '.join(map(str, arguments))})", 2)


def _power(times: int) -> str:
    return "" if times == 1 else "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(times))


def _letters() -> Iterator[str]:
    """Yield names for unnamed symbols: a, b, …, a1, b1, …, except the letters of inputs and operations."""
    turn = 0
    while True:
        yield from (letter + (str(turn) if turn else "") for letter in "abcdefghklmnpqrsuvw")
        turn += 1


# Short formulas multiplied out ---------------------------------------------------------------------------------------

#: Most terms of a sum: more take time in products of sums, fewer leave formulas that are equal only when multiplied
#: out.
MOST_TERMS: Final = 8
#: Largest relative difference of numbers that are rounded differently, and digits of numbers within functions. A larger
#: one takes distinct formulas for equal ones, a smaller one misses equal ones.
ROUNDED: Final = 1e-12
DIGITS: Final = 10

#: Coefficients by product. A product is a sorted sequence of symbols or functions with their exponents.
Product = tuple[tuple[Hashable, int], ...]
Expansion = dict[Product, float]


class _Expansions(Domain):
    """Expansions of formulas; None for more than `MOST_TERMS` terms."""

    def number(self, number: float) -> Expansion:
        return {(): number} if number else {}

    def rule(self, row: Operation) -> Callable[..., Expansion | None]:
        compute = super().rule(row)

        def of(*operands: Expansion | None) -> Expansion | None:
            if None in operands:
                return None
            expansion: Expansion = compute(*operands)
            return expansion if len(expansion) <= MOST_TERMS else None

        return of

    def add(self, a: Expansion, b: Expansion) -> Expansion:
        terms = dict(a)
        for product, number in b.items():
            total = terms.get(product, 0.0) + number
            if abs(total) <= ROUNDED * abs(number):
                terms.pop(product, None)
            else:
                terms[product] = total
        return terms

    def subtract(self, a: Expansion, b: Expansion) -> Expansion:
        return self.add(a, self.negative(b))

    def negative(self, a: Expansion) -> Expansion:
        return self.multiply(a, {(): -1.0})

    def multiply(self, a: Expansion, b: Expansion) -> Expansion:
        terms: Expansion = {}
        for one, x in a.items():
            for two, y in b.items():
                powers = Counter(dict(one))
                powers.update(dict(two))
                product = tuple(sorted(((f, n) for f, n in powers.items() if n), key=repr))
                terms = self.add(terms, {product: x * y})
        return terms

    def divide(self, a: Expansion, b: Expansion) -> Expansion:
        if len(b) == 1:
            ((product, number),) = b.items()
            return self.multiply(a, {tuple((factor, -power) for factor, power in product): 1.0 / number})
        # by a sum, up to a factor
        lead = b[min(b, key=repr)] if b else 1.0
        inverse: Expansion = {((("sum", _name(self.multiply(b, {(): 1.0 / lead}))), -1),): 1.0 / lead}
        return self.multiply(a, inverse)

    def function(self, row: Operation, *arguments: Expansion) -> Expansion:
        names = [_name(each) for each in arguments]
        number = 1.0
        if row.parity is not None:
            opposite = _name(self.negative(arguments[0]))
            if repr(opposite) < repr(names[0]):
                names, number = [opposite], -1.0 if row.parity == "odd" else 1.0
        elif row.commutative:
            names.sort(key=repr)
        return {((("function", row.code, *names), 1),): number}


def are_equal_expanded(tape: Tape) -> bool:
    """Return True if both outputs of a tape are short and equal up to rounding, once multiplied out."""
    one, two = run(tape, _Expansions(), [{((("symbol", k), 1),): 1.0} for k in range(tape.inputs)])
    if one is None or two is None:
        return False
    scale = ROUNDED * max(map(abs, [*one.values(), *two.values()]), default=0.0)
    return all(
        abs(one.get(product, 0.0) - two.get(product, 0.0)) <= max(scale * 1e-3, ROUNDED * abs(one.get(product, 0.0)))
        for product in one.keys() | two.keys()
    )


def _name(a: Expansion) -> Hashable:
    return tuple(sorted(((product, f"{number:.{DIGITS}e}") for product, number in a.items()), key=repr))
