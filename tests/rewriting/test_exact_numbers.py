"""Numbers are folded exactly: what constants of rewritten programs stand for, and the doubles next to that."""

from __future__ import annotations

import math
import signal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from contexts import rewritten_by_rules, within
from expressions import written
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import evaluate, interpret, to_bytes, with_folding
from interpreted import SOURCES, changed, modules
from programs import RATIONAL, programs

import accumulus as acc
from accumulus import Tape
from accumulus.resubstitution.optimise import rewrite
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.compiled.rewrite_nodes import CANCELLED, ONE, TWO, ZERO
from accumulus.rewriting.optimise import ExactNumbers, Network
from accumulus.tape.folding import Folding
from accumulus.tape.passes import with_noted_folding
from accumulus.tape.tape import from_bytes

#: The kernel folds numbers of this range.
SMALLEST, LARGEST = 1e-290, 1e290


def exactly(tape: Tape, point) -> list[Fraction]:
    """The outputs in exact arithmetic, with what constants stand for."""
    of = Fraction if tape.folding is None else tape.folding.of
    return evaluate(tape, list(map(Fraction, point)), RATIONAL, of)


def used(tape: Tape) -> list[float]:
    """The constants that operations need."""
    return sorted({abs(tape.value_of(a)) for r in range(tape.inputs, len(tape)) for a in tape.arguments(r) if a < 0})


def rewritten(text: str, **options) -> tuple[Tape, Tape]:
    """A program and what rules make of it; both note what constants stand for."""
    tape = with_folding(written(text))
    return tape, rewritten_by_rules(tape, **options)


POINT = [Fraction(3, 7), Fraction(-5, 11), Fraction(13, 3), Fraction(1, 17)]


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        ("a / 3 * 3", 0),
        ("3 * (a / 3)", 0),
        ("a / 10 / 3 * 30", 0),
        ("a * 0.1 / 0.1", 0),
        ("a / 49 * 7 * 7 * b", 1),
        ("a * 1e200 * 1e-200", 1),  # 1e-200 is no inverse of it
        ("a / 1e200 * 1e200", 0),
        ("a / 3 + a / 3 + a / 3 - b", 1),
        ("a * 0.1 + a * 0.2", 1),
        ("(a + 0.1) + 0.2", 1),
        ("a / 3 + b / 3", 2),
        ("(a + 0.5) - 0.25 - 0.25 + b", 1),
    ],
)
def test_numbers_cancel_where_they_do_exactly(text, operations):
    for seed in range(3):
        tape, made = rewritten(text, seed=seed)
        assert made.operations == operations
        assert exactly(made, POINT) == exactly(tape, POINT)


@pytest.mark.parametrize(
    "text",
    [
        "((a + 0.1) + 0.2) - 0.3",
        "a * (0.1 + 0.2) - a * 0.3",
        "a * 0.1 + a * 0.2 - a * 0.3",
        "a * 0.1 * 3 - a * 0.3",
        f"a * {1 / 3!r} * 3 - a",
        f"a * 3 * {1 / 3!r}",
        f"a * {math.sqrt(0.5)!r} * {math.sqrt(0.5)!r} - 0.5 * a",
        "a * 1e-200 * 1e-200 * 1e200 * 1e200 - a",
        "(a + 1e20) - 1e20 - a",
        "(a + 1) - 1 - 1e-17 + 1e-17 * b",
    ],
)
def test_what_vanishes_in_rounding_is_not_zero(text):
    for seed in range(3):
        tape, made = rewritten(text, seed=seed)
        assert exactly(made, POINT) == exactly(tape, POINT)
        assert made.operations > 0 or exactly(tape, POINT) == [0]


NUMBERS = st.floats(1e-6, 1e6) | st.sampled_from([0.1, 0.3, 1.0 / 3.0, 2.0, 7.0, math.pi, 1e-3])


@settings(max_examples=40)
@given(st.lists(st.tuples(NUMBERS, st.booleans()), min_size=2, max_size=30), st.integers(0, 3))
def test_chains_of_products_and_quotients_are_rounded_once(chain, seed):
    tape, value, exact = Tape(1), 0, Fraction(1)
    for number, divides in chain:
        other = tape.constant(number)
        value = tape.divide(value, other) if divides else tape.multiply(value, other)
        exact = exact / Fraction(number) if divides else exact * Fraction(number)
    tape.outputs = [value]
    made = rewritten_by_rules(with_folding(tape), seed=seed)
    if exact == 1:
        assert made.operations == 0
        return
    assert made.operations == 1
    (number,) = (made.value_of(a) for a in made.arguments(made.outputs[0]) if a < 0)
    assert made.folding.of(number) == exact
    # a double next to it may be a constant of the program, which stands for itself
    assert number == float(exact) or (
        float(exact) in tape.constants and abs(number - float(exact)) <= 2 * math.ulp(number)
    )


@settings(max_examples=40)
@given(st.lists(st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6), min_size=2, max_size=20), st.integers(0, 3))
def test_chains_of_sums_are_rounded_once(numbers, seed):
    tape, value, exact = Tape(1), 0, Fraction(0)
    for number in numbers:
        value, exact = tape.add(value, tape.constant(number)), exact + Fraction(number)
    tape.outputs = [value]
    made = rewritten_by_rules(with_folding(tape), seed=seed)
    assert exactly(made, POINT[:1]) == [POINT[0] + exact]


@settings(max_examples=60)
@given(
    program=st.one_of(
        programs(("add", "subtract", "multiply", "divide", "negative"), constants=constants, steps=15, inputs=3)
        for constants in (
            (0.1, 0.2, 0.3, 3.0, 1.0 / 3.0, -0.7),
            (1e-300, 1e300, 1e-160, 1e155, 0.1, -3.0),
            (5e-324, 2.0**-1074 * 3.0, 1e-310, 1e308, 2.0, 0.1),
            (1.0, 1.0 + 2.0**-52, 1.0 - 2.0**-53, 1e16, 1e-16, -1.0),
        )
    ),
    seed=st.integers(0, 3),
    effort=st.sampled_from(["fast", "balanced"]),
)
def test_rewritten_programs_are_equal_exactly(program, seed, effort):
    tape = with_folding(program.tape())
    made = rewrite(tape, within(effort=effort, seed=seed))
    try:
        expected = exactly(tape, POINT[: tape.inputs])
    except ZeroDivisionError:
        assume(False)
    assume(np.isfinite(tape.constants).all())
    assert exactly(made, POINT[: tape.inputs]) == expected
    for number in made.constants:
        if math.isfinite(number):
            fraction = made.folding.of(number)
            assert abs(fraction - Fraction(number)) <= 2 * Fraction(math.ulp(number))


def test_constants_are_the_doubles_next_to_what_they_stand_for():
    part, product = Fraction(0.3) / 7, Fraction(0.1) * 3
    _, made = rewritten("a / 7 * 0.3, b * 0.1 * 3")
    assert used(made) == sorted([float(part), float(product)])
    assert made.folding.of(float(part)) == part
    # folded in doubles, it is another one
    assert 1 / 7 * 0.3 != float(part)


def test_constants_of_the_program_stand_for_themselves():
    """Where a folded number is next to one, it is another double: both stay apart."""
    near = float(Fraction(0.1) * 3)
    tape, made = rewritten(f"a * 0.1 * 3 + b * {near!r}")
    assert exactly(made, POINT) == exactly(tape, POINT)
    assert made.folding.of(near) == Fraction(near) != Fraction(0.1) * 3
    assert used(made) == [near, math.nextafter(near, 1.0)]
    assert made.operations == 3


def test_a_users_rounded_constants_stay():
    x = np.array([0.7, 0.9])
    program = acc.compile(lambda x: (0.1 * 3.0) * x, cache=False).compile(x)
    assert 0.1 * 3.0 in program.tape.constants
    assert 0.3 not in program.tape.constants


def test_equal_numbers_made_in_two_ways_are_one():
    for seed in range(3):
        _, made = rewritten("a * 0.1 * 0.7, a * 0.7 * 0.1, a / 10 * 7, a * 7 / 10", seed=seed)
        assert len(set(made.outputs)) == 2  # 0.1 is not a tenth
        assert made.operations == 2


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("a * 1e300 * 1e300 * b", 3),
        ("a / 1e-300 / 1e-300 * b", 3),
        ("a * 1e-310 * 1e200", 2),
        ("a * 5e-324 * 3", 2),
        ("a / 5e-324 * 5e-324", 2),
        ("a * 1e200 * 1e100 / 1e300", 3),
    ],
)
def test_out_of_range(text, most):
    """Numbers beyond the range are left as they are, and none becomes 0 or infinite."""
    for seed in range(3):
        tape, made = rewritten(text, seed=seed)
        assert exactly(made, POINT) == exactly(tape, POINT)
        assert np.isfinite(made.constants).all()
        assert made.operations <= most


def test_tapes_of_a_tape_have_its_folding():
    tape = with_folding(written("a / 3 + 0.1"))
    assert with_folding(tape) is tape
    for other in (tape.copy(), tape.emptied(), canonical(tape)):
        assert other.folding is tape.folding
    assert canonical(tape).folding.of(1 / 3) == Fraction(1, 3)
    assert written("a / 3").folding is None
    assert from_bytes(to_bytes(tape)).folding is None


def test_noted_folding():
    """Reciprocals, products, quotients, sums and differences of constants; all others stand for themselves."""
    tape = with_folding(Tape(1))
    tape.folding = Folding([7.0, 10.0, 0.1])
    for number in (7.0, 10.0, 0.1):
        tape.constant(number)
    made = tape.copy()
    exact = {
        1 / 7: Fraction(1, 7),
        0.7: Fraction(7, 10),
        7 * 0.1: 7 * Fraction(0.1),
        10 + 0.1: 10 + Fraction(0.1),
        10 - 0.1: 10 - Fraction(0.1),
    }
    for number in (*exact, 0.123, -1 / 7):
        made.outputs.append(made.constant(number))
    made = with_noted_folding(made, tape)
    for number, fraction in exact.items():
        assert made.folding.of(number) == fraction
        assert made.folding.of(-number) == -fraction
    for number in (0.123, 7.0, 0.1):
        assert made.folding.of(number) == Fraction(number)
    assert math.isinf(made.folding.of(math.inf))


SIZES = st.one_of(st.floats(1e-6, 1e6), st.integers(1, 40).map(lambda n: n / 10), st.sampled_from([1.0, 2.0, 64.0]))


@given(st.sets(SIZES, min_size=2, max_size=30), st.data())
def test_noted_folding_finds_what_all_pairs_find(sizes, data):
    """Any number that two constants are folded to, or 1 and one of them, times a power of two, has that fraction."""
    operands = sorted(sizes)
    exactly = [Fraction(size) for size in operands]
    left, right = data.draw(st.sampled_from(exactly)), data.draw(st.sampled_from(exactly))
    ways = {"1/": 1 / left, "*": left * right, "/": left / right, "+": left + right, "-": abs(left - right)}
    number = float(ways[data.draw(st.sampled_from(sorted(ways)))] * Fraction(2) ** data.draw(st.integers(-3, 3)))
    assume(number and number not in sizes)
    tape = with_folding(Tape(1))
    tape.folding = Folding(operands)
    for size in operands:
        tape.constant(size)
    made = tape.copy()
    made.outputs.append(made.constant(number))
    found = with_noted_folding(made, tape).folding.of(number)
    all_pairs = [1 / a for a in exactly]
    all_pairs += [c for a in exactly for b in exactly for c in (a * b, a / b, a + b, a - b)]
    powers = [math.frexp(number)[1] - math.frexp(float(each))[1] for each in all_pairs]
    assert float(found) == number
    assert found in [each * Fraction(2) ** power for each, power in zip(all_pairs, powers, strict=True)]


@given(st.fractions(), st.fractions(), st.lists(st.floats(0.1, 10.0), max_size=3))
def test_fractions_keep_their_doubles_apart(one, other, given_numbers):
    """Different fractions have different doubles, whatever was given, and no given double stands for another."""
    assume(abs(one) < 10**300 and abs(other) < 10**300)
    folding = Folding([*given_numbers, *(float(x) for x in (one, other))])
    doubles = [folding.rounded(x) for x in (one, other, one, -other)]
    assert doubles[0] == doubles[2]
    assert doubles[1] == -doubles[3]
    assert (doubles[0] == doubles[1]) == (one == other)
    for x, double in zip((one, other), doubles, strict=False):
        assert folding.of(double) == x
        assert abs(double - float(x)) <= 3 * math.ulp(float(x))
    assert all(folding.of(number) == Fraction(number) for number in given_numbers)


# The kernel's own arithmetic ------------------------------------------------------------------------------------------

NODES = modules(SOURCES)["nodes"]
OPERATIONS = {
    "number_product": lambda x, y: x * y,
    "number_quotient": lambda x, y: x / y,
    "number_sum": lambda x, y: x + y,
}
#: Bits of fractions that are computed; they grow without end.
LONG = 20_000


class Arithmetic:
    """The numbers of a network's kernel, with what they are."""

    def __init__(self, numbers, nodes):
        tape = Tape(1)
        tape.outputs = [tape.multiply(0, tape.constant(number)) for number in numbers]
        self.network, self.nodes = Network(with_folding(tape)), nodes
        self.state = self.network._state
        given_places = self.state.given.tolist()
        self.places = [given_places[tape.constants.index(number)] for number in numbers]
        self.exact = {ZERO: Fraction(0), ONE: Fraction(1), TWO: Fraction(2)}
        self.exact |= {abs(place): abs(Fraction(x)) for place, x in zip(self.places, numbers, strict=True)}

    def apply(self, name, a, b):
        """The place of a number made of two others, None if it is refused; checks that it is right."""
        place = interpret(lambda inside: getattr(self.nodes, name)(inside, a, b), self.state)
        x, y = (self.exact[abs(k)] * (1 if k > 0 else -1) for k in (a, b))
        if place == 0:
            assert self.is_refused(name, x, y, 1 + Fraction(1, 10**6)), (name, x, y)
            return None
        expected = OPERATIONS[name](x, y)
        if abs(place) == ZERO:
            assert expected == 0
            return place
        assert (expected > 0) == (place > 0)
        assert not {ZERO, ONE}.isdisjoint(map(abs, (a, b))) or not self.is_refused(name, x, y, 1 - Fraction(1, 10**6))
        assert self.exact.setdefault(abs(place), abs(expected)) == abs(expected)
        self.check(abs(place))
        return place

    def is_refused(self, name, x, y, near):
        """Return True if numbers are out of range, or too little is known of their sum."""
        smallest, largest, result = Fraction(SMALLEST) * near, Fraction(LARGEST) / near, OPERATIONS[name](x, y)
        if result == 0:
            return False
        if not all(smallest < abs(z) < largest for z in (x, y, result) if z):
            return True
        return name == "number_sum" and abs(result) <= near * Fraction(CANCELLED) * max(abs(x), abs(y))

    def check(self, place):
        number, fraction, p = self.state.numbers[place], self.exact[place], self.state.prime
        assert number.residue == fraction.numerator * pow(fraction.denominator, -1, p) % p
        assert number.high > 0
        assert abs(number.low) <= math.ulp(number.high)
        # sums may lose as many digits as `CANCELLED` has
        assert abs(Fraction(number.high) + Fraction(number.low) - fraction) <= fraction / 2**50

    def check_written(self):
        """Assert that doubles stand for what numbers are."""
        places = sorted(set(self.exact) - {ZERO})
        written_places = [place for place in places if place < self.state.number_count]
        doubles = self.network._numbers.written(np.array(written_places), self.state.numbers)
        folding = self.network._tape.folding
        for place, double in zip(written_places, doubles.tolist(), strict=True):
            assert folding.of(double) == self.exact[place]


SIZES = st.floats(1e-3, 1e3) | st.sampled_from([0.1, 0.3, 3.0, 1.0, 2.0, 1e-140, 1e140, 1e-290, 1e-280, 1e280, 5e-324])
SIGNED = st.tuples(SIZES, st.booleans()).map(lambda pair: pair[0] if pair[1] else -pair[0])


def check_arithmetic(numbers, steps, nodes=NODES):
    arithmetic = Arithmetic(numbers, nodes)
    places = list(arithmetic.places)
    for name, i, j in steps:
        a, b = places[i % len(places)], places[j % len(places)]
        sizes = (arithmetic.exact[abs(k)] for k in (a, b))
        if (name == "number_quotient" and abs(b) == ZERO) or sum(x.denominator.bit_length() for x in sizes) > LONG:
            continue
        place = arithmetic.apply(name, a, b)
        if place is not None:
            places.append(place)
    arithmetic.check_written()


@settings(max_examples=60)
@given(
    st.lists(SIGNED, min_size=1, max_size=6, unique_by=abs),
    st.lists(st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 40), st.integers(0, 40)), max_size=30),
)
def test_numbers_are_known_exactly(numbers, steps):
    check_arithmetic(numbers, steps)


def test_products_and_quotients_have_twice_the_digits_of_a_double():
    check_digits(NODES)


def check_digits(nodes):
    rng = np.random.default_rng(0)
    arithmetic = Arithmetic(rng.uniform(0.1, 10.0, 20).tolist(), nodes)
    places = list(arithmetic.places)
    for turn in range(60):
        name = ("number_product", "number_quotient")[turn % 2]
        places.append(arithmetic.apply(name, places[-1], arithmetic.places[int(rng.integers(20))]))
        number, fraction = arithmetic.state.numbers[places[-1]], arithmetic.exact[places[-1]]
        assert abs(Fraction(number.high) + Fraction(number.low) - fraction) <= (turn + 1) * fraction / 2**98
        assert number.high == float(fraction)
    for turn, (one, other) in enumerate(pairwise(places)):  # sums of terms of one sign, and quotients
        sign = 1 if turn % 2 else -1
        for name in ("number_sum", "number_quotient"):
            made = arithmetic.apply(name, sign * one, sign * other)
            number, fraction = arithmetic.state.numbers[abs(made)], arithmetic.exact[abs(made)]
            assert abs(Fraction(number.high) + Fraction(number.low) - fraction) <= fraction / 2**90
    arithmetic.check_written()


def test_many_numbers_are_told_apart():
    check_many(NODES)


def check_many(nodes):
    rng = np.random.default_rng(1)
    arithmetic = Arithmetic(rng.uniform(0.1, 10.0, 30).tolist(), nodes)
    for turn in range(400):
        name = sorted(OPERATIONS)[turn % 3]
        arithmetic.apply(name, *(arithmetic.places[k] for k in rng.integers(0, 30, 2)))
    assert len(arithmetic.exact) > 300


def test_two_ways_to_one_number_are_one():
    check_ways(NODES)


def check_ways(nodes):
    arithmetic = Arithmetic([0.1, 3.0, 7.0], nodes)
    tenth, three, seven = arithmetic.places
    assert arithmetic.apply("number_product", tenth, three) == arithmetic.apply("number_product", three, tenth)
    third = arithmetic.apply("number_quotient", ONE, three)
    assert arithmetic.apply("number_product", third, three) == ONE
    assert arithmetic.apply("number_quotient", seven, three) == arithmetic.apply("number_product", seven, third)
    assert arithmetic.apply("number_sum", third, -third) == ZERO
    thirds = arithmetic.apply("number_sum", third, third)
    assert arithmetic.apply("number_sum", thirds, third) == ONE
    assert arithmetic.apply("number_quotient", -thirds, -TWO) == third
    assert arithmetic.apply("number_sum", -thirds, third) == -third
    assert arithmetic.apply("number_sum", third, -thirds) == -third
    for a in (third, -seven):
        assert arithmetic.apply("number_product", a, ZERO) == arithmetic.apply("number_product", ZERO, a) == ZERO
        assert arithmetic.apply("number_sum", a, ZERO) == arithmetic.apply("number_sum", -ZERO, a) == a
        assert arithmetic.apply("number_product", a, -ONE) == arithmetic.apply("number_quotient", a, -ONE) == -a
        assert arithmetic.apply("number_product", -ONE, a) == -a


def test_what_cancels_is_refused_unless_it_is_zero():
    check_cancellation(NODES)


def check_cancellation(nodes):
    near = 0.1 + 2.0**-50
    arithmetic = Arithmetic([0.1, 0.2, 0.3, near], nodes)
    a, b, c, d = arithmetic.places
    total = arithmetic.apply("number_sum", a, b)
    assert arithmetic.apply("number_sum", total, -c) is None  # 2.8e-17
    assert arithmetic.apply("number_sum", d, -a) is None
    assert arithmetic.apply("number_sum", total, -total) == ZERO


def check_range(nodes):
    for numbers in ([1e200, 1e150, 3.0, -7.0], [1e-200, 1e-150, 3.0, -7.0], [5e-324, 1e308, 1e-289, 1e289, 0.5]):
        every = [(name, i, j) for name in OPERATIONS for i in range(12) for j in range(12)]
        check_arithmetic(numbers, every, nodes)


def test_the_range_of_numbers():
    check_range(NODES)


#: What a mistake is called, the text of the kernel, and what is put in its place.
MUTANTS = {
    "the range has no end": ("1e-290 < abs(value) < 1e290", "1e-290 < abs(value)"),
    "the range begins at zero": ("1e-290 < abs(value) < 1e290", "abs(value) < 1e290"),
    "numbers in one slot are one": ("].residue != residue:", "].residue == -1:"),
    "a negative number has the residue of a positive one": (
        "sign, high, low, residue = -1, -high, -low, minus(residue, state.prime)",
        "sign, high, low = -1, -high, -low",
    ),
    "a negative number has the other low part": ("= -1, -high, -low, minus(", "= -1, -high, low, minus("),
    "a negative number is positive": (
        "return sign * place\n\n\n@compiled\ndef product_low",
        "return place\n\n\n@compiled\ndef product_low",
    ),
    "numbers have no low part": ("entry.low = low", "entry.low = 0.0"),
    "numbers are made of one twice": ("entry.first = a", "entry.first = b"),
    "numbers are made by another operation": ("residue, DIVIDE, a, b)", "residue, MULTIPLY, a, b)"),
    "products are made by another operation": ("residue, MULTIPLY, a, b)", "residue, ADD, a, b)"),
    "sums are made by another operation": ("residue, ADD, a, b)", "residue, DIVIDE, a, b)"),
    "the end of an error is lost": (" + rest_a * second) + rest_a * rest_b", " + rest_a * second)"),
    "an error has the other sign": ("((first * second - product) +", "((product - first * second) +"),
    "digits are not halved": ("SPLITTER: Final = 134217729.0", "SPLITTER: Final = 3.0"),
    "a product with zero is the other factor": (
        "if ZERO in (abs(a), abs(b)):\n        return ZERO\n    sign = 1",
        "if abs(a) == ZERO:\n        return ZERO\n    sign = 1",
    ),
    "a product by one is one": (
        "    if a == ONE:\n        return sign * b\n    if b == ONE:\n        return sign * a\n    x, y",
        "    if a == ONE:\n        return sign * a\n    if b == ONE:\n        return sign * a\n    x, y",
    ),
    "a product loses a low part": ("(x.high * y.low + x.low * y.high)", "x.high * y.low"),
    "a product has the residue of a factor": (
        "residue = times(x.residue, y.residue, state.prime, state.reciprocal)",
        "residue = x.residue",
    ),
    "a quotient by one is one": (
        "        return sign * a\n    x, y = state.numbers[a], state.numbers[b]\n    if not",
        "        return sign * b\n    x, y = state.numbers[a], state.numbers[b]\n    if not",
    ),
    "a quotient loses the low part of the divisor": ("(x.low - high * y.low)", "x.low"),
    "a quotient loses the low part of the dividend": ("(x.low - high * y.low)", "(-high * y.low)"),
    "a quotient loses its remainder": ("low = rest / y.high", "low = 0.0"),
    "a quotient has the residue of a product": (
        "inverse = raised(y.residue, state.prime - 2, state.prime, state.reciprocal)",
        "inverse = y.residue",
    ),
    "a sum loses the sign of a residue": (
        "plus(first, second if b > 0 else minus(second, state.prime), state.prime)",
        "plus(first, second, state.prime)",
    ),
    "a sum loses the sign of its first residue": (
        "first = first if a > 0 else minus(first, state.prime)",
        "first = first + 0",
    ),
    "a sum loses the sign of a number": (
        "one, two = sign_of(a) * x.high, sign_of(b) * y.high",
        "one, two = x.high, y.high",
    ),
    "a sum loses low parts": (" + (sign_of(a) * x.low + sign_of(b) * y.low)", ""),
    "a sum loses its rounding": ("low = (one - (high - part)) + (two - part) +", "low ="),
    "what cancels is known": ("if abs(total) < CANCELLED * max(abs(one), abs(two)):", "if False:"),
    "a sum with zero is zero": (
        "if abs(b) == ZERO:\n        return a\n    x, y",
        "if abs(b) == ZERO:\n        return b\n    x, y",
    ),
    "sums of what is out of range are computed": (
        "if not (is_finite(x.high) and is_finite(y.high)):\n        return 0\n    one",
        "one",
    ),
    "numbers without room are entered": ("if place >= state.number_limit:", "if False:"),
}


def check_everything(nodes):
    for check in (check_ways, check_cancellation, check_digits, check_many, check_range, check_room):
        check(nodes)
    rng = np.random.default_rng(2)
    for _ in range(6):
        steps = [(name, *rng.integers(0, 40, 2).tolist()) for name in rng.choice(sorted(OPERATIONS), 30).tolist()]
        check_arithmetic(rng.choice([0.1, -0.3, 3.0, 1.0, 2.0, -0.7, 11.0], 4, replace=False).tolist(), steps, nodes)


def test_the_kernel_itself_passes():
    check_everything(NODES)


@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_in_the_arithmetic_of_numbers_are_caught(name):
    nodes = modules(changed(SOURCES, *MUTANTS[name]))["nodes"]
    with pytest.raises((AssertionError, IndexError, ZeroDivisionError, OverflowError, ValueError)):
        check_everything(nodes)


def check_room(nodes):
    """Without room, numbers are left."""
    arithmetic = Arithmetic([0.1, 0.3], nodes)
    arithmetic.state.number_limit = count = arithmetic.state.number_count
    for name in OPERATIONS:
        place = interpret(lambda inside, name=name: getattr(nodes, name)(inside, *arithmetic.places), arithmetic.state)
        assert place == 0
    assert arithmetic.state.number_count == count


def test_without_room_numbers_are_left(monkeypatch):
    monkeypatch.setattr("accumulus.rewriting.optimise.MADE", 0)
    monkeypatch.setattr("accumulus.rewriting.optimise.MADE_OF_EACH", 0)
    tape, made = rewritten("a * 0.1 * 0.3 * 0.7 + b / 3 / 7")
    assert exactly(made, POINT) == exactly(tape, POINT)


@pytest.mark.parametrize(
    "text", ["a * 1e999 * 0", "a * 1e999 * 2", "a + 1e999 - 1e999", "a / 1e999 * 3", "a * (1e999 - 1e999) * 2"]
)
def test_numbers_that_are_not_finite_are_not_folded(text):
    for rewrite_by in (rewritten_by_rules, lambda tape: rewrite(tape, within())):
        tape = with_folding(written(text))
        made = in_time(lambda tape=tape, rewrite_by=rewrite_by: rewrite_by(tape))
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(evaluate(tape, [1.5] * 4), evaluate(made, [1.5] * 4))


def in_time(run, seconds=20):
    """What a function returns, unless it goes on for ever."""

    def late(*_):
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        return run()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_infinite_numbers_have_no_slots():
    assert ExactNumbers(written("a * 1e999")).fields["number_count"] == 5
