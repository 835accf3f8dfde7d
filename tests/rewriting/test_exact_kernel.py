"""Exact evaluation: the kernel as Python and compiled, its arithmetic by Python's integers, its laws, and mistakes.

Each mistake is one change of the kernel's text. It is caught by what is checked of any run of a tape (`check_run`), by
the laws of the table of operations (`check_laws`), or by expressions that are different (`DIFFERENT`).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from expressions import written
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import BY_NAME, OPERATIONS
from interpreted import changed, on_texts, texts
from strategies import tapes
from two_parts import Number, inverse, product

from accumulus import Tape
from accumulus.errors import VerificationError
from accumulus.rewriting import equivalence
from accumulus.rewriting.compiled.exact_kernel import LARGEST_POWER
from accumulus.rewriting.compiled.fields import PRIME_BITS, SMALL_PRIME, UNDEFINED
from accumulus.rewriting.equivalence import (
    DifferentError,
    Points,
    Verification,
    constant_residues,
    is_prime,
    primes,
)
from accumulus.tape.tape import SELECT

SOURCES = texts("rewriting", fields="fields", exact_kernel="exact_kernel")
EVERY_PRIME = [*primes(0), *primes(5), SMALL_PRIME]


class Doubles:
    """Doubles that divide by zero as the processor does."""

    def __init__(self, words: Any) -> None:
        self.words = words

    def __getitem__(self, k: int) -> Any:
        return np.float64(self.words[k])

    def __setitem__(self, k: int, value: Any) -> None:
        self.words[k] = value


def running(sources: Mapping[str, str] | None) -> AbstractContextManager[None]:
    """Let tapes run on the kernel's texts, or on the compiled kernel if they are None."""

    def before(inside: Any) -> None:
        if hasattr(inside, "doubles"):
            inside.doubles = Doubles(inside.doubles)

    return on_texts(equivalence, "rewriting", sources, "ExactState ResiduesState", before)


# Numbers of the field, by Python's integers ---------------------------------------------------------------------------


def power(x: Number, n: int, p: int) -> Number:
    if n < 0:
        x, n = inverse(x, p), -n
    result = (1, 0)
    while n:
        result = product(result, x, p) if n & 1 else result
        x, n = product(x, x, p), n >> 1
    return result


def mixed(c: Number, x: Number, y: Number, p: int) -> Number:
    """c x + (1 - c) y."""
    first, second = product(c, x, p), product(((1 - c[0]) % p, -c[1] % p), y, p)
    return (first[0] + second[0]) % p, (first[1] + second[1]) % p


ARITHMETIC = {
    "add": lambda x, y, p: ((x[0] + y[0]) % p, (x[1] + y[1]) % p),
    "subtract": lambda x, y, p: ((x[0] - y[0]) % p, (x[1] - y[1]) % p),
    "multiply": product,
    "negative": lambda x, p: (-x[0] % p, -x[1] % p),
    "logical_not": lambda x, p: ((1 - x[0]) % p, -x[1] % p),
    "logical_and": product,
    "logical_or": lambda x, y, p: mixed(x, (1, 0), y, p),
    "attach": lambda x, y, p: x,
}


def check_run(tape: Tape, points: Points) -> None:
    """Assert what is true of the values of any tape, operation by operation."""
    run, missing = points._run(tape)[:2]
    roots_lost = np.zeros(len(points.modulo), int)
    first: dict[tuple[Any, ...], tuple[int, Number]] = {}

    def of(reference: int, k: int) -> Number:
        return int(run.real[reference, k]), int(run.imaginary[reference, k])

    for k, p in enumerate(points.modulo.tolist()):
        for reference in range(-len(tape.constants), len(tape)):
            a, b = of(reference, k)
            assert (a == UNDEFINED and b == 0) or (0 <= a < p and 0 <= b < p)
        for r in range(tape.inputs, len(tape)):
            row, made = OPERATIONS[tape.codes[r]], of(r, k)
            values = [of(a, k) for a in tape.arguments(r)]
            used = values[:1] if row.name == "attach" else values
            if row.jumps and points._samples:
                assert made[0] != UNDEFINED
                continue
            is_lost = any(a == UNDEFINED for a, _ in used) or (row.name == "divide" and values[1] == (0, 0))
            exponent = tape.value_of(tape.second[r]) if row.name == "power" and tape.second[r] < 0 else None
            if exponent is not None and exponent < 0.0 and values[0] == (0, 0) and -exponent <= LARGEST_POWER:
                is_lost = is_lost or exponent <= -0.5
            if is_lost:
                assert made == (UNDEFINED, 0), row.name
                continue
            assert made[0] != UNDEFINED, row.name
            if row.name in ARITHMETIC:
                assert made == ARITHMETIC[row.name](*values, p), row.name
            elif row.name == "divide":
                assert product(made, values[1], p) == values[0]
            elif row.name == "sqrt":
                roots_lost[k] += product(made, made, p) != values[0]
                assert made[0] or made[1] or values[0] == (0, 0)
            elif exponent is not None and exponent.is_integer() and abs(exponent) <= LARGEST_POWER:
                assert made == power(values[0], int(exponent), p)
            elif exponent is not None and (2 * exponent).is_integer() and abs(exponent) <= LARGEST_POWER:
                is_there = product(made, made, p) == power(values[0], int(2 * exponent), p)
                roots_lost[k] += not is_there
            elif row.code == SELECT and run.is_truth[tape.first[r]]:
                assert made == mixed(values[0], *values[1:], p)
            # the same operation on the same values
            key = (k, row.name, exponent, *values)
            assert first.setdefault(key, (r, made))[1] == made
    np.testing.assert_array_equal(missing, roots_lost)
    check_doubles(tape, run)


def check_doubles(tape: Tape, run: Any) -> None:
    """Assert that samples are rounded by the processor, and functions of them are numbers of the range of 0.5 to 1."""
    arithmetic = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}
    for r in range(tape.inputs, len(tape)):
        row, values = OPERATIONS[tape.codes[r]], [run.doubles[a] for a in tape.arguments(r)]
        with np.errstate(all="ignore"):
            if row.name in arithmetic:
                np.testing.assert_array_equal(run.doubles[r], arithmetic[row.name](*values))
            elif row.name in ("negative", "attach"):
                np.testing.assert_array_equal(run.doubles[r], -values[0] if row.name == "negative" else values[0])
            elif row.name == "logical_not":
                np.testing.assert_array_equal(run.doubles[r], 1.0 - values[0])


# The kernel itself ----------------------------------------------------------------------------------------------------


@st.composite
def tapes_of_all_rows(draw, operations=14):
    """Tapes over the whole table of operations, special functions included."""
    tape = Tape(draw(st.integers(1, 3)))
    numbers = (0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, 1.25, -0.5, 1e-300, 1e6, 70000.0)
    reals, booleans = [*range(tape.inputs), *map(tape.constant, numbers)], []
    names = [row.name for row in OPERATIONS if row.arity]
    for _ in range(draw(st.integers(1, operations))):
        row = BY_NAME[draw(st.sampled_from(names))]
        pools = {"real": reals, "boolean": booleans, "order": [tape.constant(2.0), tape.constant(0.0)]}
        if not all(pools[kind] for kind in row.arguments):
            continue
        arguments = [draw(st.sampled_from(pools[kind][-16:])) for kind in row.arguments]
        made = tape.apply(row.name, *arguments)
        (booleans if tape.is_boolean(made) else reals).append(made)
    tape.outputs = reals[-3:]
    return tape


@settings(max_examples=10)
@given(
    tape=st.one_of(tapes_of_all_rows(), tapes(max_inputs=3, max_operations=15)),
    seed=st.integers(0, 99),
    has_small=st.booleans(),
    bits_matter=st.sampled_from([None, True, False]),
    sums_of_angles=st.booleans(),
)
def test_interpreted_and_compiled_kernels_agree_word_by_word(tape, seed, has_small, bits_matter, sums_of_angles):
    runs = []
    for sources in (SOURCES, None):
        with running(sources):
            options = {"has_small": has_small, "bits_matter": bits_matter, "sums_of_angles": sums_of_angles}
            points = Points(tape, seed, 3, **options)
            points._draw(seed, 3, has_small)  # without a choice of points, which takes many runs
            run, missing, *keys = points._run(tape)
            runs.append([*run, missing, *keys, points.modulo])
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


@settings(max_examples=60)
@given(
    tape=st.one_of(tapes_of_all_rows(30), tapes(max_inputs=3, max_operations=30)),
    seed=st.integers(0, 99),
    bits_matter=st.sampled_from([None, True, False]),
)
def test_values_are_those_of_integers(tape, seed, bits_matter):
    check_run(tape, Points(tape, seed, has_small=seed % 2 == 1, bits_matter=bits_matter))


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.arity], ids=lambda row: row.name)
def test_every_row(row):
    check_row(row)


def of_row(row: Any) -> Tape:
    """An operation on other operations than its own, each with further inputs, so that its values are of any kind."""
    tape = Tape(4)
    makers = {"real": lambda k: k, "boolean": lambda k: tape.apply("less", k, 3), "order": lambda k: tape.constant(2.0)}
    for shift in range(3):
        arguments = [makers[kind]((k + shift) % 4) for k, kind in enumerate(row.arguments)]
        tape.outputs.append(tape.apply_code(row.code, arguments))
        # of values that are no residues, and of constants
        if row.arguments[0] == "real":
            tape.outputs.append(tape.apply_code(row.code, [tape.apply("sqrt", shift), *arguments[1:]]))
    return tape


def check_row(row: Any, seeds: int = 3) -> None:
    for seed in range(seeds):
        check_run(of_row(row), Points(of_row(row), seed, 4, has_small=seed == 1))


def edges(p: int) -> list[int]:
    return [0, 1, 2, p - 1, p - 2, p // 2, p // 2 + 1, (1 << p.bit_length() - 1) - 1, math.isqrt(p), p - math.isqrt(p)]


def at_given(tape: Tape, values: np.ndarray, p: int) -> Points:
    """Points at given residues modulo a prime, (inputs, points)."""
    points = Points(tape, 0, 1)
    points._modulo, points._which = np.array([p]), np.zeros(values.shape[1], np.int64)
    points._at, points._seeds = values, np.arange(values.shape[1])
    return points


def check_arithmetic(p: int, random_numbers: int = 300) -> None:
    """Assert that sums, products, quotients, powers and roots are right next to the ends of the range, and anywhere."""
    tape = Tape(2)
    names = ("add", "subtract", "multiply", "divide")
    tape.outputs = [tape.apply(name, 0, 1) for name in names]
    exponents = (2.0, 3.0, 7.0, -1.0, -4.0, 65536.0, 0.5, 1.5, -2.5)
    tape.outputs += [tape.apply("power", 0, tape.constant(n)) for n in exponents]
    rng = random.Random(p)
    pairs = [(x, y) for x in edges(p) for y in edges(p)] if random_numbers else [(p - 1, p - 1), (p - 2, 5), (0, 3)]
    pairs += [(rng.randrange(p), rng.randrange(p)) for _ in range(random_numbers)]
    check_run(tape, at_given(tape, np.array(pairs, np.int64).T, p))


@pytest.mark.parametrize("p", EVERY_PRIME)
def test_arithmetic_is_that_of_integers(p):
    check_arithmetic(p)


def test_primes():
    seen = set()
    for number in range(equivalence._SETS):
        one, other = primes(number)
        assert one != other
        for p in (one, other):
            assert 2 ** (PRIME_BITS - 1) < p < 2**PRIME_BITS
            assert p % 4 == 3
            assert all(p % n for n in range(3, 2000, 2))
            seen.add(p)
    assert len(seen) == 2 * equivalence._SETS
    assert is_prime(SMALL_PRIME)
    assert SMALL_PRIME % 4 == 3
    # Carmichael numbers, strong pseudoprimes (Jaeschke, Math. Comp. 61, 1993), and products of primes that are near
    for composite in (8911, 46657, 3215031751, 3825123056546413051, primes(0)[0] * 41, 1000003 * 1000037):
        assert not is_prime(composite)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.1, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, -1.7976931348623157e308]
SPECIAL += [2.0**52, 2.0**53 - 1.0, 2.0**53, 2.0**61, 1e300, 1e-300, math.pi, 2.225073858507201e-308]


def check_residues(numbers: list[float], modulo: list[int]) -> None:
    made = constant_residues(numbers, None, modulo)
    for row, number in zip(made.tolist(), numbers, strict=True):
        if not math.isfinite(number):
            assert row == [UNDEFINED] * len(modulo)
            continue
        numerator, denominator = number.as_integer_ratio()
        assert row == [numerator * pow(denominator, -1, p) % p for p in modulo], number


@given(st.lists(st.floats(), max_size=40), st.lists(st.integers(-1074, 1023), max_size=20))
def test_residues_of_doubles(numbers, exponents):
    powers = [math.ldexp(1.0 + random.Random(n).random(), n) for n in exponents]
    check_residues([*SPECIAL, math.inf, -math.inf, math.nan, *numbers, *powers], EVERY_PRIME)


def test_the_small_prime_is_one_of_the_points():
    tape = written("a * b")
    for count in (None, 3):
        points = Points(tape, 0, count, has_small=True)
        assert points.modulo[0] == SMALL_PRIME
        assert SMALL_PRIME not in points.modulo[1:]
        assert SMALL_PRIME not in Points(tape, 0, count).modulo
    points = Points(written("sqrt(sqrt(a) + b)"), 0, 12, has_small=True)
    assert points.modulo[0] == SMALL_PRIME
    assert len(set(points.modulo.tolist())) == 3


def test_points_have_nested_roots():
    """A root of a value with two parts exists at every other point; those at which all do are chosen."""
    for depth in range(1, 5):
        tape = Tape(2)
        value = 0
        for _ in range(depth):
            value = tape.add(tape.apply("sqrt", value), 1)
        tape.outputs = [value]
        points = Points(tape, 0)
        assert points.count >= equivalence.OF_ROOTS
        missing = points._run(tape)[1]
        # of a chain of independent roots one in 2 ** (depth - 1) exists
        assert (missing == 0).sum() >= min(points.count, points.count * equivalence.DRAWN // 2**depth)


# Laws -----------------------------------------------------------------------------------------------------------------

EQUAL = [
    # rational functions
    ("(a + b) * (a - b)", "a * a - b * b"),
    ("1 / (1 / a + 1 / b)", "a * b / (a + b)"),
    ("(a * a * a - b * b * b) / (a - b)", "a * a + a * b + b * b"),
    (
        "(a * a + b * b) * (c * c + d * d)",
        "(a * c - b * d) * (a * c - b * d) + (a * d + b * c) * (a * d + b * c)",
    ),
    ("a / b / (c / d)", "a * d / (b * c)"),
    ("(a + b) * (a + b) * (a + b)", "a * a * a + 3 * (a * a * b) + 3 * (a * b * b) + b * b * b"),
    ("a * 0.1 + b * 0.1", "0.1 * (a + b)"),
    ("a * 1e-300 * 1e-300 / 1e-300", "a * 1e-300"),
    ("a * 1e300 * 1e300 / 1e300", "a * 1e300"),
    # roots
    ("sqrt(a) * sqrt(a)", "a"),
    ("a / sqrt(a)", "sqrt(a)"),
    ("1 / (sqrt(a) + sqrt(b))", "(sqrt(a) - sqrt(b)) / (a - b)"),
    ("sqrt(a * a + b * b) * sqrt(b * b + a * a)", "a * a + b * b"),
    ("sqrt(sqrt(a)) * sqrt(sqrt(a))", "sqrt(a)"),
    ("1 / (sqrt(a * a + 1) + a)", "sqrt(a * a + 1) - a"),
    # powers
    ("power(a, 2.5) * power(a, 1.5)", "a * a * a * a"),
    ("power(a, 1.25)", "a * power(a, 0.25)"),
    ("power(a, -1.25)", "power(a, -0.25) / a"),
    ("power(sqrt(a) + b, 1.25)", "(sqrt(a) + b) * power(b + sqrt(a), 0.25)"),
    ("power(a, 0.5)", "sqrt(a)"),
    ("power(a, -1.5) * a", "1 / sqrt(a)"),
    ("power(a, 17) / power(a, 16)", "a"),
    ("power(sqrt(a), 6)", "a * a * a"),
    ("power(a + sqrt(b), -3) * (a + sqrt(b))", "1 / ((a + sqrt(b)) * (a + sqrt(b)))"),
    # functions
    ("sin(a * b) * sin(b * a) + cos(a * b) * cos(b * a)", "1"),
    ("(1 - sin(a)) * (1 + sin(a))", "cos(a) * cos(a)"),
    ("sin(a / a - 1 + b) + cos(-c)", "sin(b) + cos(c)"),
    ("sin(a - b)", "-sin(b - a)"),
    ("sinh(a - b + (b - a)) + c", "c"),
    ("sinh(sqrt(a) - sqrt(b))", "-sinh(sqrt(b) - sqrt(a))"),
    ("cosh(sqrt(a) - sqrt(b))", "cosh(sqrt(b) - sqrt(a))"),
    ("cos(a - b)", "cos(b - a)"),
    ("exp(a - b + (b - a))", "1"),
    ("cosh(a - b + (b - a)) + exp2(a * 0)", "2"),
    ("log(a / b * b / a) + log2(c / c) + log10(d / d)", "0"),
    ("exp(a) / (1 + exp(a))", "1 / (1 + 1 / exp(a))"),
    # of several arguments
    ("atan2(a * b, c + d)", "atan2(b * a, d + c)"),
    ("minimum(a, b) + maximum(b, a)", "minimum(b, a) + maximum(a, b)"),
    # branches
    ("select(less(a, b), c, d) + d", "select(less(a, b), c + d, d + d)"),
    ("select(less(a, b), a * d, b * d)", "select(less(a, b), a, b) * d"),
    ("select(less(a, b), a / d, b / d)", "select(less(a, b), a, b) / d"),
    ("select(less(a, b), c, d) - select(less(a, b), d, c)", "select(less(a, b), c - d, d - c)"),
    ("select(less(a, b), c, d)", "select(logical_not(less(a, b)), d, c)"),
    ("select(equal(a, b), c, d)", "select(not_equal(b, a), d, c)"),
    ("select(logical_and(less(a, b), less(c, d)), a, b)", "select(logical_and(less(c, d), less(a, b)), a, b)"),
    (
        "select(logical_not(logical_or(less(a, b), less(c, d))), a, b)",
        "select(logical_and(logical_not(less(a, b)), logical_not(less(c, d))), a, b)",
    ),
    ("select(logical_and(less(a, b), less(c, d)), a, b)", "select(less(a, b), select(less(c, d), a, b), b)"),
    ("select(logical_or(less(a, b), less(c, d)), a, b)", "select(less(a, b), a, select(less(c, d), a, b))"),
    # jumps
    ("floor(a * b) + ceil(b * a)", "ceil(a * b) + floor(b * a)"),
    ("sign(a - b)", "-sign(b - a)"),
    ("select(less(a * b, c), d, -d)", "-select(less(b * a, c), -d, d)"),
]  # fmt: skip
#: No law of numbers of any sign, or none that is known.
DIFFERENT = [
    # roots and absolute values need signs
    ("sqrt(a * a)", "a"),
    ("sqrt(a * a)", "-a"),
    ("sqrt(a * a)", "abs(a)"),
    ("sqrt(a) * sqrt(b)", "sqrt(a * b)"),
    ("sqrt(a) / sqrt(b)", "sqrt(a / b)"),
    ("sqrt(1 / a)", "1 / sqrt(a)"),
    ("sqrt(a * a * b)", "a * sqrt(b)"),
    ("sqrt(1 - sin(a) * sin(a))", "cos(a)"),
    ("sqrt(a + 2 * sqrt(a) + 1)", "sqrt(a) + 1"),
    ("sqrt(-a * -1)", "-sqrt(a)"),
    ("sqrt(a)", "-sqrt(a)"),
    ("sqrt(a * a * (a * a))", "a * a"),
    ("abs(a) * abs(b)", "abs(a * b)"),
    ("abs(a) * abs(a)", "a * a"),
    ("abs(a)", "a"),
    ("abs(2 * a)", "2 * abs(a)"),
    # powers
    ("power(power(a, 0.3), 0.4)", "power(a, 0.12)"),
    ("power(power(a, 2), 0.5)", "a"),
    ("power(power(a, 2), 0.3)", "power(a, 0.6)"),
    ("power(a, 0.3) * power(a, 0.4)", "power(a, 0.7)"),
    ("power(a, 0.3) * power(b, 0.3)", "power(a * b, 0.3)"),
    ("power(a, 0.3)", "power(a, 0.30000000000000004)"),
    ("power(a, -0.3)", "1 / power(a, 0.3)"),
    ("power(a, 70000)", "power(a, 70001)"),
    ("power(a, 70000)", "power(b, 70000)"),
    ("power(a, b)", "power(b, a)"),
    ("cbrt(a) * cbrt(a) * cbrt(a)", "a"),
    # exponentials and logarithms
    ("log(a * b)", "log(a) + log(b)"),
    ("log(a * a)", "2 * log(a)"),
    ("exp(log(a))", "a"),
    ("log(exp(a))", "a"),
    ("exp(a) * exp(b)", "exp(a + b)"),
    ("exp(a) * exp(-a)", "1"),
    ("exp(a)", "exp2(a)"),
    ("expm1(a)", "exp(a) - 1"),
    # angles
    ("asin(sin(a))", "a"),
    ("sin(asin(a))", "a"),
    ("acos(cos(a))", "a"),
    ("atan2(a * c, b * c)", "atan2(a, b)"),
    ("atan2(a, b)", "atan(a / b)"),
    ("atan2(a, b)", "atan2(b, a)"),
    ("atan2(-a, b)", "-atan2(a, b)"),
    ("tan(a)", "sin(a) / cos(a)"),
    ("sin(a + b)", "sin(a) * cos(b) + cos(a) * sin(b)"),
    ("sin(2 * a)", "2 * sin(a) * cos(a)"),
    ("sin(a)", "cos(a)"),
    ("sin(a)", "sin(a + 6.283185307179586)"),
    ("cosh(a) * cosh(a) - sinh(a) * sinh(a)", "1"),
    # minima, jumps and branches
    ("minimum(a, b) + maximum(a, b)", "a + b"),
    ("minimum(a, b) * maximum(a, b)", "a * b"),
    ("minimum(a, b)", "select(less(a, b), a, b)"),
    ("minimum(a, a * b)", "a * minimum(1, b)"),
    ("maximum(a, b)", "-minimum(-a, -b)"),
    ("floor(a)", "a"),
    ("floor(a + 1)", "floor(a) + 1"),
    ("floor(a)", "-ceil(-a)"),
    ("floor(-a)", "-floor(a)"),
    ("sign(a) * a", "abs(a)"),
    ("sign(a) * sign(b)", "sign(a * b)"),
    ("sign(a) * sign(a)", "1"),
    ("sign(2 * a)", "sign(a + a) + 0 * b + sign(a) - sign(b)"),
    ("fmod(a, b)", "fmod(b, a)"),
    ("fmod(a + b, b)", "fmod(a, b)"),
    ("select(less(a, b), c, d)", "select(logical_not(less(a, b)), c, d)"),
    ("select(less(a, b), c, d)", "select(less(b, a), d, c)"),
    ("select(less(a, b), c, d)", "select(less_equal(a, b), c, d)"),
    ("select(less(a, b), c, d)", "select(less(-b, -a), c, d)"),
    ("select(less(a, b), c, d)", "select(less(2 * a, 2 * b), c, d)"),
    ("select(less(a, b), c, d)", "select(less(a - b, 0), c, d)"),
    ("select(equal(a, b), a, b)", "b"),
    ("select(equal(a, b), c, d)", "select(equal(a, b), d, c)"),
    ("select(less(a, b), c, d)", "c"),
    ("select(less(a, b), c, d)", "c + d"),
    ("select(less(a, b), c, d) * 2", "c + d"),
    ("select(logical_and(less(a, b), less(c, d)), a, b)", "select(logical_or(less(a, b), less(c, d)), a, b)"),
    ("select(logical_and(less(a, b), less(c, d)), a, b)", "select(less(a, b), a, b)"),
    ("select(less(a, b), c * d, d) + select(less(b, a), c, d)", "c * d + d"),
    # functions of values with two parts
    ("exp(sqrt(a))", "exp(-sqrt(a))"),
    ("sinh(sqrt(a))", "sinh(sqrt(-a))"),
    ("hypot(sqrt(a), b)", "hypot(sqrt(-a), b)"),
    ("hypot(b, sqrt(a))", "hypot(b, sqrt(-a))"),
]  # fmt: skip


#: Laws of angles, where the second program has sums of them.
ANGLES = [
    ("sin(a) * cos(b) + cos(a) * sin(b)", "sin(a + b)"),
    ("sin(a) * cos(b) - cos(a) * sin(b)", "sin(a - b)"),
    ("cos(a) * cos(b) - sin(a) * sin(b)", "cos(a + b)"),
    ("cos(a) * cos(b) + sin(a) * sin(b)", "cos(a - b)"),
    ("2 * (sin(a) * cos(a))", "sin(2 * a)"),
    ("1 - 2 * (sin(a) * sin(a))", "cos(2 * a)"),
    ("(sin(a) * cos(b) + cos(a) * sin(b)) * cos(c) + (cos(a) * cos(b) - sin(a) * sin(b)) * sin(c)", "sin(a + b + c)"),
    ("sin(a) * cos(b * c) + cos(a) * sin(b * c)", "sin(a + b * c)"),
    ("cos(a) * cos(b) - sin(a) * sin(b)", "cos(-a - b)"),
    ("cos(sqrt(a)) * cos(b) - sin(sqrt(a)) * sin(b)", "cos(sqrt(a) + b)"),
]  # fmt: skip
NO_ANGLES = [
    ("sin(a) * cos(b) + cos(a) * sin(b)", "sin(a - b)"),
    ("cos(a) * cos(b) - sin(a) * sin(b)", "cos(a - b)"),
    ("sin(a) * cos(b) + cos(a) * sin(b)", "cos(a + b)"),
    ("2 * (sin(a) * cos(a))", "sin(3 * a)"),
    ("2 * (sin(a) * cos(a))", "sin(a + b)"),
    ("sin(a) * cos(b) - cos(a) * sin(b)", "sin(b - a)"),
    ("sin(a) * cos(b) + cos(a) * sin(b)", "sin(a + (b + 1e-300))"),
    ("2 * (sin(a) * cos(a))", "sin(2.0000000000000004 * a)"),
]  # fmt: skip
#: Laws of roots of positive numbers, and references of radicands' factors by their text.
POSITIVE = [
    ("sqrt(a) * sqrt(b)", "sqrt(a * b)"),
    ("sqrt(a) / sqrt(b)", "sqrt(a / b)"),
    ("sqrt(a * b) * sqrt(b)", "sqrt(a) * b"),
    ("sqrt(a) * sqrt(b) / sqrt(c)", "sqrt(a * b) * sqrt(c) / c"),
    ("sqrt(a) * sqrt(b)", "power(a * b, 0.5)"),
]  # fmt: skip
NOT_POSITIVE = [
    ("sqrt(a) * sqrt(d)", "sqrt(a * d)"),
    ("sqrt(d * d)", "d"),
    ("sqrt(a) + sqrt(b)", "sqrt(a + b)"),
    ("sqrt(a) * sqrt(b)", "sqrt(a / b)"),
    ("sqrt(a * b)", "a * b"),
    ("sqrt(a)", "-sqrt(a)"),
    ("sqrt(a) * sqrt(b - d)", "sqrt(a * (b - d))"),
]  # fmt: skip


def refused(before: str, after: str, seed: int = 0, **options: Any) -> bool:
    try:
        Verification(written(before), seed, **options).check(written(after))
    except VerificationError:
        return True
    return False


def check_laws(seed: int = 0) -> None:
    for before, after in EQUAL:
        assert not refused(before, after, seed), f"{before} is {after}"
        assert not refused(after, before, seed), f"{after} is {before}"
    for before, after in ANGLES:
        assert not refused(before, after, seed, sums_of_angles=True), f"{before} is {after}"
    for before, after in POSITIVE:
        assert not refused(before, after, seed, nonnegative=(0, 1, 2)), f"{before} is {after}"


def check_differences(seed: int = 0) -> None:
    for before, after in DIFFERENT:
        assert refused(before, after, seed), f"{before} is not {after}"
    for before, after in NO_ANGLES:
        assert refused(before, after, seed, sums_of_angles=True), f"{before} is not {after}"
    for before, after in NOT_POSITIVE:
        assert refused(before, after, seed, nonnegative=(0, 1, 2)), f"{before} is not {after}"


@pytest.mark.parametrize(("before", "after"), EQUAL)
def test_laws(before, after):
    for seed in range(5):
        assert not refused(before, after, seed)
        assert not refused(after, before, seed)


@pytest.mark.parametrize("conditions", [1, 3, 6, 8, 12, 20])
def test_what_holds_for_most_outcomes_is_no_law(conditions):
    """A product of values that are zero unless a condition holds: it is zero for all outcomes but one."""

    def gated(times: float) -> Tape:
        tape = Tape(conditions + 1)
        value, zero = tape.constant(times), tape.constant(0.0)
        for k in range(conditions):
            value = tape.multiply(value, tape.apply("select", tape.apply("less", k, conditions), k, zero))
        tape.outputs = [value]
        return tape

    for seed in range(10):
        Verification(gated(2.0), seed).check(gated(2.0))
        with pytest.raises(VerificationError):
            Verification(gated(2.0), seed).check(gated(3.0))


#: Roots within roots: their squares are what is within, and their signs those of no other root.
NESTED = [
    ("(sqrt(a + sqrt(b)) + c) * (sqrt(sqrt(b) + a) - c)", "a - c * c + sqrt(b)"),
    ("(a + sqrt(b)) / sqrt(a + sqrt(b))", "sqrt(a + sqrt(b))"),
    ("power(a + sqrt(b), -1.5) * (a + sqrt(b))", "1 / sqrt(a + sqrt(b))"),
    ("power(sqrt(a + sqrt(b)), 4)", "(a + sqrt(b)) * (a + sqrt(b))"),
    ("sqrt(a + sqrt(b + sqrt(c))) * sqrt(a + sqrt(b + sqrt(c)))", "a + sqrt(b + sqrt(c))"),
    ("sqrt(sqrt(a) + sqrt(b)) * sqrt(sqrt(a) + sqrt(b)) * (sqrt(a) - sqrt(b))", "a - b"),
]
OF_SIGNS = [
    ("sqrt(a + sqrt(b)) * sqrt(a - sqrt(b))", "sqrt(a * a - b)"),
    ("sqrt((a + sqrt(b)) * (a + sqrt(b)))", "a + sqrt(b)"),
    ("sqrt(a + sqrt(a * a))", "sqrt(2 * a)"),
    ("sqrt(a + b + 2 * sqrt(a * b))", "sqrt(a) + sqrt(b)"),
    ("sqrt(sqrt(a)) * sqrt(sqrt(a))", "-sqrt(a)"),
    ("sqrt(sqrt(a) * sqrt(a))", "sqrt(-a)"),
    ("sqrt(a + sqrt(b)) * sqrt(c + sqrt(d))", "sqrt((a + sqrt(b)) * (c + sqrt(d)))"),
]


def test_nested_roots():
    for seed in range(5):
        for before, after in NESTED:
            assert not refused(before, after, seed), f"{before} is {after}"
            assert not refused(after, before, seed), f"{after} is {before}"
        for before, after in OF_SIGNS:
            assert refused(before, after, seed), f"{before} is not {after}"
            assert refused(after, before, seed), f"{after} is not {before}"


def test_one_value_has_one_root():
    """Whatever it is a product of, of values that are not negative or of negative ones."""
    for before, after in [
        ("sqrt(2 * (a * b)) + sqrt(a)", "sqrt(-2 * (-a * b)) + sqrt(a)"),
        ("sqrt(0.3 * (a * b)) * c", "sqrt((-0.3 * a) * -b) * c"),
        ("sqrt(2 * (a * 0.5) * b)", "sqrt(a * b)"),
    ]:
        for seed in range(5):
            assert not refused(before, after, seed, nonnegative=(0, 1))
            assert refused(before, f"({after}) * 2", seed, nonnegative=(0, 1))


def test_many_nested_roots_in_many_outputs():
    """Each output has one, and is proved alone; in a sum of all, few points are left, and it stays as it was."""

    def of(sum_of_all: bool, twice: bool) -> Tape:
        tape = Tape(40)
        roots = [tape.apply("sqrt", tape.add(k, tape.apply("sqrt", k + 1))) for k in range(39)]
        ways = [tape.multiply(root, root) if twice else tape.first[root] for root in roots]
        tape.outputs = [*ways, tape.sum(roots)] if sum_of_all else ways
        return tape

    Verification(of(False, True)).check(of(False, False))
    Verification(of(True, True)).check(of(True, False))
    other = of(True, False)
    other.outputs[7] = other.add(other.outputs[7], other.constant(1e-300))
    with pytest.raises(DifferentError) as caught:
        Verification(of(True, True)).check(other)
    assert caught.value.outputs == (7,)


@pytest.mark.parametrize(("before", "after"), [*ANGLES, *NO_ANGLES])
def test_angles(before, after):
    """Their sums are sums where that is asked for."""
    for seed in range(20):
        assert refused(before, after, seed, sums_of_angles=True) == ((before, after) in NO_ANGLES)
        assert refused(before, after, seed)


def check_negative_angles() -> None:
    """Assert that the negative of an angle is one, on tapes as they are."""
    add, negative, multiply, sin = (BY_NAME[name].code for name in ("add", "negative", "multiply", "sin"))
    for after in (negative, multiply):  # and twice the negative
        last = [(after, -1, k, 0) if after == multiply else (negative, k, 0, 0) for k in (2, 3)]
        one = raw(2, (add, 0, 1, 0), (negative, 2, 0, 0), last[1],
                  (sin, 4, 0, 0), constants=(2.0,))  # fmt: skip
        other = raw(2, (add, 0, 1, 0), last[0], (sin, 3, 0, 0),
                    (negative, 4, 0, 0), constants=(2.0,))  # fmt: skip
        same = Verification(one, 0, sums_of_angles=True).equal(other)
        assert same.all()


def test_negative_angles():
    check_negative_angles()


@pytest.mark.parametrize(("before", "after"), [*POSITIVE, *NOT_POSITIVE])
def test_positive_numbers(before, after):
    """Roots of a, b and c alone are those of positive numbers, where that is known."""
    for seed in range(20):
        assert refused(before, after, seed, nonnegative=(0, 1, 2)) == ((before, after) in NOT_POSITIVE)
        assert refused(before, after, seed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("before", "after"), DIFFERENT)
def test_what_is_no_law(before, after):
    for seed in range(50):
        assert refused(before, after, seed)
        assert refused(after, before, seed)


#: Operations that are computed.
UNSYMMETRIC = ("negative", "attach", "add", "subtract", "multiply", "divide")


def test_parity_and_commutativity_are_those_of_the_table():
    """Functions of a negative, or of exchanged operands, have the same value only where a row says so."""
    for row in (row for row in OPERATIONS if row.arity in (1, 2) and set(row.arguments) == {"real"}):
        if row.name not in UNSYMMETRIC:
            check_symmetries(row)


def raw(inputs: int, *operations: tuple[int, int, int, int], constants: tuple[float, ...] = ()) -> Tape:
    """A tape of these operations, code and three arguments each, as they are."""
    rows = np.array([(0, 0, 0, 0)] * inputs + list(operations), np.int64)
    return Tape.of_rows(inputs, rows, list(constants), [len(rows) - 1])


def check_symmetries(row: Any) -> None:
    subtract, (one, other) = BY_NAME["subtract"].code, (4, 5)
    pairs = ((2, 0), (3, 0)) if row.arity == 1 else ((0, 1), (1, 0))
    tape = raw(2, (subtract, 0, 1, 0), (subtract, 1, 0, 0), *((row.code, *pair, 0) for pair in pairs))
    for bits_matter in (True, False):
        run = Points(tape, 1, 4, bits_matter=bits_matter).run(tape)
        x, y = run.real[one], run.real[other]
        equal, turned = bool((x == y).all()), bool(((x + y) % Points(tape, 1, 4).modulo == 0).all())
        assert equal == (row.parity == "even" or row.commutative), row.name
        assert turned == (row.parity == "odd"), row.name
        if bits_matter and row.result == "real":
            same = np.array_equal(run.doubles[one], run.doubles[other])
            assert same == equal
            assert np.array_equal(run.doubles[one], -run.doubles[other]) == turned


#: Values of which functions are different.
ARGUMENTS = (
    "a",
    "b",
    "2 * a",
    "a + 1",
    "a * b",
    "sqrt(a)",
    "1 - sqrt(a)",
    "a + sqrt(a)",
    "0 - a - b",
    "exp(a)",
    "3",
    "sqrt(b)",
)


def check_independence() -> None:
    """Assert that all functions of all arguments are different, at every point."""
    tape = written(", ".join(ARGUMENTS))
    arguments = list(tape.outputs)
    for row in OPERATIONS:
        if row.name in UNSYMMETRIC or set(row.arguments) != {"real"}:
            continue
        if row.arity == 1:
            tape.outputs += [tape.apply_code(row.code, [a]) for a in arguments if a >= 0]
        elif row.arity == 3:
            tape.outputs += [tape.apply_code(row.code, each) for each in itertools.permutations(range(3))]
        else:
            pairs = [(x, y) for x in arguments for y in arguments if x < y or not row.commutative]
            tape.outputs += [tape.apply_code(row.code, pair) for pair in pairs if pair[0] != pair[1]]
    exponents = (0.25, 0.75, -0.25, 1.25, 70000.0, 70001.0, 0.1, 0.2)
    tape.outputs += [tape.apply("power", a, tape.constant(n)) for a in arguments[:3] for n in exponents]
    for bits_matter in (True, False):
        run = Points(tape, 3, 6, bits_matter=bits_matter).run(tape)
        places = sorted({output for output in tape.outputs if output >= 0})
        values = np.stack([run.real[places], run.imaginary[places]], axis=-1)
        if bits_matter:
            assert len(set(map(tuple, run.doubles[places].tolist()))) == len(places)
        for p in range(6):
            seen: dict[tuple[int, int], int] = {}
            for place, value in zip(places, map(tuple, values[:, p].tolist()), strict=True):
                assert seen.setdefault(value, place) == place, f"{tape.operation(seen[value])} {tape.operation(place)}"


def test_functions_are_independent():
    check_independence()


def test_seeds_points_and_primes_are_independent():
    check_seeds()


def check_seeds() -> None:
    """Assert that values of a function differ between points and seeds."""
    tape, seen = raw(0, (BY_NAME["exp"].code, -1, 0, 0), constants=(3.0,)), set()
    for seed in range(40):
        seen.update(Points(tape, seed, 4).run(tape).real[0].tolist())
    assert len(seen) == 160


# Mistakes -------------------------------------------------------------------------------------------------------------


def check_everything() -> None:
    rng = np.random.default_rng(0)
    anything = rng.uniform(-1.0, 1.0, 200) * 2.0 ** rng.integers(-1060, 1020, 200)
    check_residues([*SPECIAL, math.inf, -math.inf, math.nan, *anything.tolist()], EVERY_PRIME[1:])
    check_arithmetic(EVERY_PRIME[0], 2)
    check_arithmetic(SMALL_PRIME, 0)
    for row in (row for row in OPERATIONS if row.arity):
        check_row(row, 1)
        if row.arity < 3 and set(row.arguments) == {"real"} and row.name not in UNSYMMETRIC:
            check_symmetries(row)
    check_run(undefined(), Points(undefined(), 0, 2))
    nested = written("sqrt(sqrt(a) + b), sqrt(sqrt(c) - d) * a, power(sqrt(b) + a, 1.5), sqrt(a * sqrt(b) + c)")
    nested.outputs.append(nested.apply("select", nested.apply("less", 0, 1), *nested.outputs[:2]))
    points = Points(nested, 0, 12)
    points._draw(1, 12, False)  # with roots that do not exist
    check_run(nested, points)
    check_independence()
    check_seeds()
    check_negative_angles()
    with mock.patch.multiple(equivalence, DRAWN=1, SAMPLES=4):
        check_laws()
        check_differences()


def undefined() -> Tape:
    """Every operation on values that do not exist."""
    nothing = "b / (c - c)"
    tape = written(
        f"{nothing}, a + {nothing}, {nothing} - a, a * {nothing}, {nothing} / a, -({nothing}), a / {nothing}"
    )
    lost = tape.outputs[0]
    truth = tape.apply("less", 0, 1)
    for row in OPERATIONS:
        if row.arity and row.name not in ("select", "attach") and set(row.arguments) == {"real"}:
            for k in range(row.arity):
                tape.apply_code(row.code, [lost if k == place else 0 for place in range(row.arity)])
    for n in (2.0, -1.0, 0.5, 0.3, 70000.0):
        tape.apply("power", lost, tape.constant(n))
    for branches in ((lost, 0), (0, lost)):
        tape.outputs.append(tape.apply("select", truth, *branches))
    return tape


#: What a mistake is called, the kernel's text, and what is put in its place. Each text is there exactly once.
MUTANTS = {
    # arithmetic
    "products are reduced once too little": (
        "return result - prime if result >= prime else result\n\n\n@compiled\ndef plus",
        "return result\n\n\n@compiled\ndef plus",
    ),
    "negative remainders stay": ("    if result < 0:\n        return result + prime\n", ""),
    "sums are not reduced": (
        "return result - prime if result >= prime else result\n\n\n@compiled\ndef minus",
        "return result\n\n\n@compiled\ndef minus",
    ),
    "the negative of zero is the prime": ("return prime - a if a else 0", "return prime - a"),
    "powers take one factor too many": ("result = 1\n    while exponent > 0:", "result = a\n    while exponent > 0:"),
    "bits of exponents are those before": (
        "a = times(a, a, prime, reciprocal)\n        exponent >>= 1",
        "exponent >>= 1",
    ),
    "infinite numbers have residues": ("if not abs(number) < math.inf:", "if abs(number) == math.inf:"),
    "denormal numbers are normal": ("    if exponent:\n        mantissa |=", "    if True:\n        mantissa |="),
    "exponents are one too large": ("exponent -= 1074", "exponent -= 1073"),
    "small numbers are large": ("power = 2 if exponent > 0 else (prime + 1) // 2", "power = 2"),
    "mantissas are not reduced": ("times(mantissa % prime, raised(", "times(mantissa, raised("),
    "negative numbers are positive": ("return minus(result, prime) if number < 0.0 else result", "return result"),
    # parts
    "products of two parts have one": (
        "imaginary = plus(times(a, d, prime, reciprocal), times(b, c, prime, reciprocal), prime)",
        "pass",
    ),
    "products take i² for one": (
        "real = difference(real, times(b, d, prime, reciprocal), prime)",
        "real = plus(real, times(b, d, prime, reciprocal), prime)",
    ),
    "products exist without a factor": (
        "if a < 0 or c < 0:\n        _put(state, at, UNDEFINED, 0)\n        return\n    real, imaginary = product(a, b",
        "if a < 0:\n        _put(state, at, UNDEFINED, 0)\n        return\n    real, imaginary = product(a, b",
    ),
    "zero has a reciprocal": ("if a < 0 or (a == 0 and b == 0):", "if a < 0:"),
    "what has no real part has no reciprocal": ("if a < 0 or (a == 0 and b == 0):", "if a <= 0:"),
    "reciprocals are not conjugate": (
        "times(minus(b, prime), over, prime, reciprocal)",
        "times(b, over, prime, reciprocal)",
    ),
    "reciprocals are of one part": (
        "norm = plus(times(a, a, prime, reciprocal), times(b, b, prime, reciprocal), prime)\n    over",
        "norm = times(a, a, prime, reciprocal)\n    over",
    ),
    # roots
    "roots have one sign": ("is_other = (chance >> 20) & 1", "is_other = 0"),
    "roots that do not exist are zero": ("        _put(state, at, chance, 0)\n", "        _put(state, at, 0, 0)\n"),
    "roots that do not exist are not counted": ("state.missing[p] += 1", "pass"),
    "roots that are not there are those of the negative": (
        "            _put(state, at, 0, root)",
        "            _put(state, at, root, 0)",
    ),
    "roots of two parts are tried once": (
        "if times(root, root, prime, reciprocal) != square:\n        square",
        "if False:\n        square",
    ),
    "roots of two parts keep the sign of one": (
        "root, other = minus(root, prime), minus(other, prime)",
        "root = minus(root, prime)",
    ),
    "roots apart are products of factors": ("elif second > 0:", "elif True:"),
    "roots apart are of their own": (
        "        if first == 0:\n            _root",
        "        if True:\n            _root",
    ),
    "divisors of roots are not inverted": (
        "            _invert(state, at, -second * points + p, p)\n"
        "            _multiply(state, at, first * points + p, at, p)",
        "            _multiply(state, at, first * points + p, -second * points + p, p)",
    ),
    "roots that were needed apart are drawn again": (
        "    if root == 0:\n        _root(state, at, i, p)",
        "    if True:\n        _root(state, at, i, p)",
    ),
    # powers
    "negative powers are positive": (
        "    if exponent < 0:\n        _invert(state, at, at, p)",
        "    if exponent < 0:\n        pass",
    ),
    "powers of two parts have one": (
        "base_real, base_imaginary = product(base_real, base_imaginary, base_real,",
        "base_real, base_imaginary = product(base_real, 0, base_real,",
    ),
    "powers lose a part": (
        "real, imaginary = product(real, imaginary, base_real,",
        "real, imaginary = product(real, 0, base_real,",
    ),
    "large powers are one": (
        "POWER, state.real[i], state.imaginary[i], bits_of(exponent), 0)",
        "POWER, state.real[i], state.imaginary[i], 0, 0)",
    ),
    "half powers are whole": ("2 * whole + (1 if rest > 0.0 else -1), p)", "2 * whole, p)"),
    "negative half powers are positive": ("(1 if rest > 0.0 else -1)", "1"),
    "all broken powers are one": (
        "_chance(state, p, POWER, a, b, bits_of(rest), 0)",
        "_chance(state, p, POWER, a, b, 0, 0)",
    ),
    "broken powers have no whole part": (
        "        _whole_power(state, at, i, whole, p)\n        if factor >= 0:",
        "        _put(state, at, 1, 0)\n        if factor >= 0:",
    ),
    "multiples have one part": (
        "_put(state, at, real, times(state.imaginary[at], factor, prime, reciprocal))",
        "_put(state, at, real, 0)",
    ),
    # angles
    "sines are odd and even": (
        "above = plus(t, t, prime) if code == SIN else",
        "above = times(t, t, prime, reciprocal) if code == SIN else",
    ),
    "cosines are sines": ("else difference(1, square, prime)\n    # 1 +", "else plus(t, t, prime)\n    # 1 +"),
    "the circle has another radius": (
        "below = raised(plus(1, square, prime), prime - 2",
        "below = raised(plus(2, square, prime), prime - 2",
    ),
    "sums of angles are their own angles": ("state.real[angle * state.points + p] if angle else", "0 if False else"),
    "differences of angles are sums": ("b = minus(b, prime) if second < 0 else b", "b = b + 0"),
    "negatives of angles are angles": ("a = minus(a, prime) if first < 0 else a", "a = a + 0"),
    "tangents of sums have no divisor": (
        "over = raised(below, prime - 2, prime, reciprocal)\n        _put(state, at, times(plus(a",
        "over = 1\n        _put(state, at, times(plus(a",
    ),
    "tangents of sums are those of differences": (
        "below = difference(1, times(a, b, prime, reciprocal), prime)",
        "below = plus(1, times(a, b, prime, reciprocal), prime)",
    ),
    # branches
    "branches are exchanged": (
        "_put(state, at, plus(real, e, prime), plus(imaginary, f, prime))",
        "_put(state, at, plus(real, a, prime), plus(imaginary, b, prime))",
    ),
    "one branch alone is there": (
        "_put(state, at, plus(real, e, prime), plus(imaginary, f, prime))",
        "_put(state, at, real, imaginary)",
    ),
    "parts of branches are lost": (
        "real, imaginary = product(a, b, c, d, prime, state.reciprocals[p])",
        "real, imaginary = product(a, 0, c, d, prime, state.reciprocals[p])",
    ),
    "branches exist without the other": ("if a < 0 or e < 0 or c < 0:", "if a < 0 or c < 0:"),
    "not is the same": (
        "_put(state, at, UNDEFINED if a < 0 else difference(1, a, prime), minus(b, prime))",
        "_put(state, at, a, b)",
    ),
    "or is and": ("if code == OR and state.real[at] >= 0:", "if False:"),
    # functions
    "zero is no zero of odd functions": ("    if a == 0 and b == 0:\n        return 0\n", ""),
    "odd functions are even": (
        "return minus(_chance(state, p, code, minus(a, prime), minus(b, prime), 0, 0), prime)",
        "return _chance(state, p, code, minus(a, prime), minus(b, prime), 0, 0)",
    ),
    "odd functions are none": (
        "    if is_turned(a, b, prime):\n        return minus(",
        "    if False:\n        return minus(",
    ),
    "symmetric functions do not see the second part": (
        "return opposite < a or (opposite == a and minus(b, prime) < b)",
        "return opposite < a",
    ),
    "functions are one": ("x = scattered(wrapped(state.seeds[p] + code))", "x = scattered(state.seeds[p])"),
    "functions are those of all points": ("x = scattered(wrapped(state.seeds[p] + code))", "x = scattered(code)"),
    "functions do not see the second part": ("x = scattered(x ^ wrapped(3 * b))", "x = scattered(x)"),
    "functions do not see the second argument": ("    x = scattered(x ^ c)\n", "    x = scattered(x)\n"),
    "functions do not see the last part": ("x = scattered(x ^ wrapped(5 * d))", "x = scattered(x)"),
    "exponentials of zero are none": ("    if a == 0 and code in (EXP, EXP2, COSH):\n        return 1\n", ""),
    "logarithms of one are none": ("return 0 if a == 1 and code in (LOG, LOG2, LOG10) else -1", "return -1"),
    "functions of values with two parts are known": ("    if b != 0:\n        return -1\n", ""),
    "even functions are none": ("if arity == 1 and properties & EVEN and is_turned(a, b, prime):", "if False:"),
    "all functions are even": (
        "if arity == 1 and properties & EVEN and is_turned(a, b, prime):",
        "if arity == 1 and is_turned(a, b, prime):",
    ),
    "no function commutes": (
        "if properties & COMMUTATIVE and (c < a or (c == a and d < b)):\n            a, b, c, d",
        "if False:\n            a, b, c, d",
    ),
    "all functions commute": (
        "if properties & COMMUTATIVE and (c < a or (c == a and d < b)):\n            a, b, c, d",
        "if arity > 1 and (c < a or (c == a and d < b)):\n            a, b, c, d",
    ),
    "functions exist without an argument": (
        "    if a < 0 or c < 0 or (arity > 2",
        "    if a < 0 or (arity > 2",
    ),
    "functions ignore their third argument": (
        "    if arity > 2:\n        c, d = _chance(",
        "    if arity > 3:\n        c, d = _chance(",
    ),
    "differences are sums": (
        "_put(state, at, difference(a, c, prime), difference(b, d, prime))\n    elif code == MULTIPLY",
        "_put(state, at, plus(a, c, prime), plus(b, d, prime))\n    elif code == MULTIPLY",
    ),
    "sums exist without a term": (
        "        if a < 0 or c < 0:\n            _put(state, at, UNDEFINED, 0)\n        elif code == ADD:",
        "        if a < 0:\n            _put(state, at, UNDEFINED, 0)\n        elif code == ADD:",
    ),
    "quotients are products": (
        "        _invert(state, at, j, p)\n        _multiply(state, at, i, at, p)",
        "        _multiply(state, at, i, j, p)",
    ),
    "negatives have one part": (
        "_put(state, at, UNDEFINED if a < 0 else minus(a, prime), minus(b, prime))",
        "_put(state, at, UNDEFINED if a < 0 else minus(a, prime), 0)",
    ),
    # doubles
    "doubles are added for differences": ("        x -= y\n", "        x += y\n"),
    "negatives of doubles are doubles": (
        "    elif code == NEGATIVE:\n        x = -x",
        "    elif code == NEGATIVE:\n        x = x + 0.0",
    ),
    "functions of doubles are one": ("key = scattered(scattered(code) ^ _bits(x))", "key = scattered(_bits(x))"),
    "functions of doubles do not see the second": (
        "_bits(x))\n    key = scattered(scattered(key ^ wrapped(3 * _bits(y)))",
        "_bits(x))\n    key = scattered(scattered(key)",
    ),
    "functions of doubles do not see signs": ("x, sign = -x, -1.0 if properties & ODD else 1.0", "x = -x"),
    "comparisons of doubles do not see the second": (
        "key = scattered(scattered(key ^ _bits(one)) ^ wrapped(7 * _bits(other)))",
        "key = scattered(key ^ _bits(one))",
    ),
    "comparisons of doubles are one": (
        "sign, key = state.samples, 0, scattered(EQUAL if code == NOT_EQUAL else code)",
        "sign, key = state.samples, 0, 1",
    ),
    "jumps of doubles are even": ("value = minus(value, state.primes[p]) if sign < 0 else value", "value = value + 0"),
    "not equal is equal, of doubles": (
        "        if code == NOT_EQUAL:\n            value = difference(",
        "        if False:\n            value = difference(",
    ),
    "equality of doubles has an order": ("        if code in (EQUAL, NOT_EQUAL) and other < one:", "        if False:"),
    # comparisons of values
    "comparisons of values do not see the second": (
        "    if state.properties[code] & ARITY < 2:\n        c, d = 0, 0",
        "    if True:\n        c, d = 0, 0",
    ),
    "comparisons of values are one": (
        "result = _chance(state, p, EQUAL if code == NOT_EQUAL else code, a, b, c, d)",
        "result = _chance(state, p, EQUAL, a, b, c, d)",
    ),
    "not equal is equal, of values": ("if code == NOT_EQUAL else result, 0)", "if False else result, 0)"),
    "jumps of values are not odd": (
        "    if state.properties[code] & ODD:\n        _put(state, at, _odd(",
        "    if False:\n        _put(state, at, _odd(",
    ),
}


def test_texts_of_mistakes_are_in_the_kernel():
    for name, (text, _) in MUTANTS.items():
        assert sum(source.count(text) for source in SOURCES.values()) == 1, name


def test_the_kernel_itself_passes():
    for sources in (None, SOURCES):
        with running(sources):
            check_everything()


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_are_caught(name):
    with running(changed(SOURCES, *MUTANTS[name])), pytest.raises((AssertionError, VerificationError, ValueError)):
        check_everything()


# False identities that samples of doubles confirm ---------------------------------------------------------------------


def roots_of(count: int) -> str:
    """A polynomial with zeros at small whole numbers."""
    return "*".join(f"(a - {k})" if k >= 0 else f"(a + {-k})" for k in range(-(count // 2), count - count // 2))


LAST_BIT = 0.1 + 2.0**-56
INVISIBLE = {
    "an elementary charge": ("a + 1.6e-19 * b", "a"),
    "a product of small constants": ("a + 1.6e-19 * (1.6e-19 * b) * c", "a"),
    "a guard": ("1 / (a * a + b * b + 1e-300)", "1 / (a * a + b * b)"),
    "a guard of a root": ("sqrt(a * a + 1e-300)", "sqrt(a * a)"),
    "a guard in a maximum": ("maximum(a * a + 1e-300, b)", "maximum(a * a, b)"),
    "a guard in a function": ("exp(a + 1e-300)", "exp(a)"),
    "a factor next to one": ("a + 1e-18 * a", "a"),
    "a factor within a sum": ("b + (a + 1e-18 * a)", "b + a"),
    "the last bit": ("a * 0.1", f"a * {LAST_BIT!r}"),
    "the last bit of a sum": ("a + 0.1", f"a + {LAST_BIT!r}"),
    "the last bit of an exponent": ("power(a, 0.1)", f"power(a, {LAST_BIT!r})"),
    "the last bit of the smallest number": ("a + 5e-324", "a"),
    "numbers that are no sum": ("a * 0.1 + a * 0.2", "a * 0.3"),
    "a Mersenne prime": ("2305843009213693952 * a", "a"),
    "a small Mersenne prime": ("2147483648 * a", "a"),
    "powers of two": ("1125899906842624 * a", "a"),
    "zeros at whole numbers": (f"b + 1e-30 * {roots_of(40)}", "b"),
    "large zeros at whole numbers": (f"b + {roots_of(40)}", "b"),
    "a difference below rounding": ("(a + 1e20) - 1e20", "a + 1e-10"),
    "what rounding absorbs": ("(a + 1e20) - 1e20", "0"),
    "a multiple of what vanishes": ("(1e-200 * a) * (1e-200 * b) + c", "c"),
    "functions of tiny numbers": ("sin(1e-200 * a) * 1e-200 + b", "1e-200 * (1e-200 * a) + b"),
    "saturation": ("tanh(a * 1e10)", "sign(a)"),
    "underflow": ("exp(-(a * a) - 1e6) + b", "b"),
}


@pytest.mark.parametrize("name", INVISIBLE)
def test_what_no_sample_of_doubles_shows(name):
    before, after = INVISIBLE[name]
    for seed in range(50):
        assert refused(before, after, seed)
        assert refused(after, before, seed)


#: Of values that reach comparisons and jumps, which are compared as doubles, too.
DECIDING = {
    "a guard": ("select(less(0, a * a + 1e-300), b, c)", "select(less(0, a * a), b, c)"),
    "a tiny term": ("select(less(a + 1e-300, b), c, d)", "select(less(a, b), c, d)"),
    "a tiny multiple": ("select(less(a + 1e-20 * c, b), c, d)", "select(less(a, b), c, d)"),
    "a tiny number": ("floor(a + 1e-300)", "floor(a)"),
    "a factor": ("sign(a + 1e-18 * a + 1e-300)", "sign(a)"),
    "a sum of tiny numbers": ("fmod(a + 1e-20 * b, c)", "fmod(a, c)"),
    "equality": ("select(equal(a + 1e-30, b), c, d)", "select(equal(a, b), c, d)"),
    "zeros": (f"ceil(b + 1e-60 * {roots_of(40)})", "ceil(b)"),
}


@pytest.mark.parametrize("name", DECIDING)
def test_what_no_sample_of_doubles_shows_decides(name):
    before, after = DECIDING[name]
    for seed in range(50):
        assert refused(before, after, seed)
        assert refused(after, before, seed)


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([1e-30, 1e-300, 2.0**-60]), st.integers(0, 49))
def test_multiples_of_what_vanishes_at_small_numbers(first, degree, scale, seed):
    zeros = " * ".join(f"(a - {first + k})" for k in range(degree))
    assert refused(f"b * c + {scale!r} * ({zeros})", "b * c", seed)


@given(st.floats(1e-300, 1e300), st.integers(1, 3), st.integers(0, 49))
def test_numbers_next_to_each_other(number, steps, seed):
    other = number
    for _ in range(steps):
        other = math.nextafter(other, math.inf)
    for template in ("a * {!r}", "a + {!r}", "exp(a) - {!r} * b", "a / {!r}", "hypot(a, {!r})"):
        assert refused(template.format(number), template.format(other), seed)


def test_fractions_are_not_their_doubles():
    """0.1 · 3 is not 0.3, and 3 · (1/3) is not 1 unless 1/3 is what folding has made of 1 and 3."""
    assert refused("a * 0.1 * 3", "a * 0.3")
    assert refused(f"a * 3 * {1 / 3!r}", "a")
    assert Fraction(0.1) * 3 != Fraction(0.1 * 3)
    assert Fraction(0.1) + Fraction(0.2) != Fraction(0.3)
