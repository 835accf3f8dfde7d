"""The compiled search for pairs against plain Python, and texts of kernels with one mistake each.

Readers of programs and searches for pairs run as Python on their texts. A mistake is caught by what plain Python finds:
`test_values` has a reader, and this file pairs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import test_values
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import ADD, DIVIDE, MULTIPLY, Verification, canonical, points_of
from programs import RATIONAL, SMOOTH, programs

from accumulus.resubstitution import values as values_module
from accumulus.resubstitution.values import Values

sys.path.append(str(Path(__file__).parents[1] / "rewriting"))

from expressions import written
from interpreted import changed, on_texts, texts
from two_parts import inverse, product

PAIRS = texts("resubstitution", pairs_kernel="pairs_kernel")
READING = texts("resubstitution", reading_kernel="reading_kernel")


def values_of(base, seed=0, count=3):
    """Values of a program at a few points."""
    check = Verification(base, seed, count=count, has_small=True)
    return Values(base, check, points_of(base, None, np.random.default_rng(seed)))


def pairs_by_plain_python(values):
    """Definitions of values by two others, as rows."""
    state, primes = values._state, values._state.primes.tolist()
    nodes = [int(n) for n in values.sampled[1:]]

    def residues(n):
        return tuple(zip(state.value_real[n].tolist(), state.value_imaginary[n].tolist(), strict=True))

    at = {n: residues(n) for n in nodes}
    is_open = {n for n in nodes if not values.is_leaf[n]}
    by_residues = {}
    for n in is_open:
        opposite = tuple((-a % p, -b % p) for (a, b), p in zip(at[n], primes, strict=True))
        by_residues.setdefault(at[n], []).append((n, 1))
        by_residues.setdefault(opposite, []).append((n, -1))

    def made(compute, one, other):
        return tuple(compute(x, y, p) for x, y, p in zip(at[one], at[other], primes, strict=True))

    found = set()
    for k, i in enumerate(nodes):
        for j in nodes[k:]:
            ways = [(made(product, i, j), (MULTIPLY, i, j))]
            if i != j:
                ways += [
                    (made(lambda x, y, p: ((x[0] + y[0]) % p, (x[1] + y[1]) % p), i, j), (ADD, i, j)),
                    (made(lambda x, y, p: ((x[0] - y[0]) % p, (x[1] - y[1]) % p), i, j), (ADD, i, -j)),
                    (made(lambda x, y, p: product(x, inverse(y, p), p), i, j), (DIVIDE, i, j)),
                    (made(lambda x, y, p: product(y, inverse(x, p), p), i, j), (DIVIDE, j, i)),
                ]
            for result, (code, one, other) in ways:
                for n, sign in by_residues.get(result, ()):
                    if n not in (i, j):
                        found.add((n, code, one, other, 0, sign))
    return found


def check_pairs(base, seed=0):
    values = values_of(base, seed)
    before = set(map(tuple, values.definitions.rows.tolist()))
    values.pair(lambda: False)
    after = set(map(tuple, values.definitions.rows.tolist()))
    expected = pairs_by_plain_python(values)
    assert after == before | expected
    return len(expected)


@settings(max_examples=30)
@given(
    program=st.one_of(
        programs(RATIONAL, constants=(1.0, 2.0), steps=12),
        programs((*SMOOTH, "multiply", "add"), constants=(0.5,), exponents=(0.5, 2.0), steps=12),
        programs(("add", "multiply", "divide", "sqrt", "negative"), constants=(3.0,), inputs=3, steps=14),
    ),
    seed=st.integers(0, 9),
)
def test_all_pairs_that_there_are(program, seed):
    base = canonical(program.tape())
    if base.operations:
        check_pairs(base, seed)


#: Programs with pairs of all kinds, of values with one part and with two.
TEXTS = (
    "a + b, a - b, a * a - b * b, a * a, b * b, b - a + c, (a + b) / (a - b), a / b, b / a * c, a * b * c, -(b * c)",
    "sqrt(a), sqrt(b), sqrt(a) * sqrt(b), sqrt(a) + b, a - b * b, sqrt(a) - b, sqrt(a) / sqrt(b), a * sqrt(b), a / b",
    "sqrt(a) + sqrt(b), sqrt(b) - sqrt(a), b - a, (sqrt(a) + sqrt(b)) * c, (sqrt(a) + sqrt(b)) / (sqrt(a) - c), c * c",
    "1 / a, 2 / a, a * a, 3 * a, exp(a) + a, exp(a) * 2, 2 * a + exp(a), a / (a + 1), a + 1, 1 - a / (a + 1)",
    # equal at the first point, but no others; up to signs that differ; as expressions, but not as numbers
    "a + b, 2147483648 * a + b, a * b, 2147483648 * (b * a), 2 * a, a / (2147483648 * b), a * c",
    "sqrt(a * a), a / b, a / b * c, sqrt(b * b) + c, b + c, sqrt(b * b), sqrt(a * a) / c, a / c",
    "sqrt(a) * sqrt(a) * b, a * b, log(c) * 0 + c * a, c * a, sqrt(c) * sqrt(c) * a, sqrt(a) * b, sqrt(c) * a",
)


def check_all_pairs():
    for text in TEXTS:
        for seed in range(3):
            assert check_pairs(canonical(written(text)), seed) > 5


#: Programs for readers: equal values in several ways, of both signs; comparisons, jumps and signs of zeros.
READ = (
    *TEXTS,
    "(a + b) * (a - b), a * a - b * b, b * b - a * a, -(a - b), (b - a) * 2, a * 2 - b * 2, 0.5 * (b * 4 - 4 * a)",
    "select(less(a, b), a * a, b), select(less(a, b), -(a * a), -b), floor(a * b), floor(b * a) + 1, abs(a - b)",
    "a / (b - b), a / (c - c) * 0, sin(a) * sin(a) + cos(a) * cos(a), 1 - sin(a) * sin(a), cos(a) * cos(a), a / a * b",
    "atan2(a * b, a + 0), a * b, a * (b * 1), 3 * a - a * 3 + b, a * 0 + b, b / 1 - 0, exp(a * b) * exp(b * a)",
    "a * 0.1 + 0.2, 0.1 * a, -0.1 * a, a * 1e999, a * -7 / 7, a / 3 * 3, 1 / (1 / a), a - 0.1 * (a * 10)",
    "1 / (sqrt(a * a + 1) + a), sqrt(a * a + 1) - a, sqrt(a * a + 1), ((a + 1e10) - 1e10) * b, a * b, b * a + 1e-9 * c",
    "7 * (a * b) / (b * a) + c, c - 7, -7 * (b * c / (c * b)), 0.3 * (a * b) / (b * a), c * 0.3, 3 * (a * c / (c * a))",
    "(a * b) / (b * a) * c, c * ((a * c) / (c * a)), (b * c) / (-c * b) * a, sqrt(a) + (b * c - c * b), sqrt(a) * b",
    "log(-(a * a) - 1) - log(-1 - a * a) + b, log(-(a * a) - 1) / log(-1 - a * a) * c, log(-1 - b * b) * (a - a) + c",
    # equal at the first point, and as numbers, but no others: of one part, and of two
    "(cosh(a) + 1e-30 * (2147483648 * b - b)) * c, cosh(a) * c, (cosh(a) + 1e-30 * (2147483648 * c - c)) * b",
    *(
        f"(cosh({x}) + (sqrt({y}) + 1e-30 * (2147483648 * sqrt({y}) - sqrt({y})))) * c, (cosh({x}) + sqrt({y})) * c"
        for x, y in ("ab", "ba", "ac", "ad")
    ),
    "(a * b * c) / (a * (b * c)) * sin(c), b * ((c * a * b) / (c * (a * b))), (a * b * c) / (a * (b * -c)) * sin(a)",
    "less(a, b) * 1 + 1, select(equal(a, b), 1, 0), fmod(a * 3, b), sign(b - a), sign(a - b) * c",
)  # fmt: skip


def check_readers():
    compare = test_values.test_the_same_values_and_definitions_as_by_plain_python.hypothesis.inner_test
    for text in READ:
        for kept_outputs, seed in ((0, 1), (1, 2), (0, 3), (0, 4), (0, 5), (0, 6)):
            compare(SimpleNamespace(tape=lambda text=text: written(text)), kept_outputs, seed)


def running(sources, package):
    """Let a kernel run on its texts."""
    user, states = {
        "pairs": (values_module, "ValuePairsState"),
        "reading": (values_module, "ReadingState"),
    }[package]
    return on_texts(user, "resubstitution", sources, states)


CHECKS = {"pairs": check_all_pairs, "reading": check_readers}

#: What a mistake is called, the kernel, its text, and what is put in its place. Each text is there exactly once.
MUTANTS = {
    # pairs
    "keys are those of one sign": (
        "pairs",
        "real, imaginary = minus(real, SMALL_PRIME), minus(imaginary, SMALL_PRIME)",
        "pass",
    ),
    "keys turn one part": (
        "pairs",
        "real, imaginary = minus(real, SMALL_PRIME), minus(imaginary, SMALL_PRIME)",
        "real = minus(real, SMALL_PRIME)",
    ),
    "keys without a real part have a sign": (
        "pairs",
        "if is_turned(real, imaginary, SMALL_PRIME):",
        "if is_turned(real, 0, SMALL_PRIME):",
    ),
    "products at the first point have one part": (
        "pairs",
        "return real, plus(small_times(a, d), small_times(b, c), SMALL_PRIME)",
        "return real, 0",
    ),
    "products at the first point take i² for one": (
        "pairs",
        "real = difference(small_times(a, c), small_times(b, d), SMALL_PRIME)",
        "real = plus(small_times(a, c), small_times(b, d), SMALL_PRIME)",
    ),
    "one point is looked at": (
        "pairs",
        "    for p in range(points):\n        prime, reciprocal = state",
        "    for p in range(1):\n        prime, reciprocal = state",
    ),
    "sums are differences": (
        "pairs",
        "        if way == SUM:\n            a, b = plus(a, c, prime), plus(b, d, prime)",
        "        if way == SUM:\n            a, b = difference(a, c, prime), plus(b, d, prime)",
    ),
    "quotients are products": (
        "pairs",
        "            x, y = product(x, y, c, d, prime, reciprocal)",
        "            a, b = product(a, b, c, d, prime, reciprocal)",
    ),
    "negatives are no matches": (
        "pairs",
        "            sign = -1\n        else:",
        "            return 0\n        else:",
    ),
    "signs differ between points": ("pairs", "if sign >= 0 and a == x and b == y:", "if a == x and b == y:"),
    "matches are of real parts": ("pairs", "if sign >= 0 and a == x and b == y:", "if sign >= 0 and a == x:"),
    "the filter is of other bits": (
        "pairs",
        "    at = _filter_place(key)\n            state.filter[at >> 6]",
        "    at = _filter_place(key + 1)\n            state.filter[at >> 6]",
    ),
    "values are made of themselves": ("pairs", " and node not in (i, j) and", " and"),
    "the first of several values is found": (
        "pairs",
        "                state.match_count += 1\n        slot = (slot + 1) & mask",
        "                state.match_count += 1\n                return\n        slot = (slot + 1) & mask",
    ),
    "values have one sign": ("pairs", "pair.node = sign * node", "pair.node = node"),
    "squares are not tried": (
        "pairs",
        "    _look_up(state, real, imaginary, PRODUCT, i, j)\n    if i != j:",
        "    if i != j:\n        _look_up(state, real, imaginary, PRODUCT, i, j)",
    ),
    "second quotients are first ones": (
        "pairs",
        "_look_up(state, real, imaginary, QUOTIENT, j, i)",
        "_look_up(state, real, imaginary, QUOTIENT, i, j)",
    ),
    "differences are of the second": (
        "pairs",
        "_look_up(state, difference(a, c, SMALL_PRIME), difference(b, d, SMALL_PRIME), DIFFERENCE",
        "_look_up(state, plus(a, c, SMALL_PRIME), difference(b, d, SMALL_PRIME), DIFFERENCE",
    ),
    "reciprocals are those of one part": (
        "pairs",
        "state.inverse_imaginary[node] = inverse(real, imaginary, SMALL",
        "state.inverse_imaginary[node] = inverse(real, 0, SMALL",
    ),
    "leaves have definitions": (
        "pairs",
        "        if state.open[node]:\n            slot =",
        "        if True:\n            slot =",
    ),
    "the last value has no pair": (
        "pairs",
        "for j in range(i, state.count):\n            _try_pair",
        "for j in range(i, state.count - 1):\n            _try_pair",
    ),
    # reading
    "values without a real part have one sign": (
        "reading",
        "return -1 if is_turned(real, imaginary, prime) else 1",
        "return -1 if is_turned(real, 0, prime) else 1",
    ),
    "values have one sign, of reading": (
        "reading",
        "return -1 if is_turned(real, imaginary, prime) else 1",
        "return 1",
    ),
    "values in one slot are one": (
        "reading",
        "if real != state.value_real[node * count + p] or imaginary != state.value_imaginary[node * count + p]:",
        "if False:",
    ),
    "values are their real parts": (
        "reading",
        "if real != state.value_real[node * count + p] or imaginary != state.value_imaginary[node * count + p]:",
        "if real != state.value_real[node * count + p]:",
    ),
    "negatives are not turned": (
        "reading",
        "        if sign < 0.0:\n"
        "            real, imaginary = minus(real, state.primes[p]), minus(imaginary, state.primes[p])\n"
        "        if real !=",
        "        if real !=",
    ),
    "new negatives are not turned": (
        "reading",
        "state.value_real[node * count + p] = real if sign > 0.0 else minus(real, state.primes[p])",
        "state.value_real[node * count + p] = real",
    ),
    "new negatives turn one part": (
        "reading",
        "state.value_imaginary[node * count + p] = imaginary if sign > 0.0 else minus(imaginary, state.primes[p])",
        "state.value_imaginary[node * count + p] = imaginary",
    ),
    "searches begin at the negative": (
        "reading",
        "    if sign < 0.0:\n"
        "        real, imaginary = minus(real, state.primes[0]), minus(imaginary, state.primes[0])\n"
        "    slot",
        "    slot",
    ),
    "numbers at real points are not compared": (
        "reading",
        "if _is_same(state, node, r, sign) and _is_same_number(state, node, r, sign):",
        "if _is_same(state, node, r, sign):",
    ),
    "undefined points are not compared": (
        "reading",
        "        if first != second and state.common[q]:\n            return False\n",
        "",
    ),
    "numbers have no residues": (
        "reading",
        "state.identified[node] = finite and number != 0.0",
        "state.identified[node] = 0",
    ),
    "numbers have positive residues": (
        "reading",
        "state.value_real[node * state.points + p] = residue if sign > 0 else minus(residue, state.primes[p])",
        "state.value_real[node * state.points + p] = residue",
    ),
    "numbers have the residues of others": (
        "reading",
        "int(magnitude) if place < 0 else state.constant_residues[place * state.points + p]",
        "int(magnitude) if place < 0 else state.constant_residues[p]",
    ),
    "negative numbers are positive": ("reading", "return -value if finite and number < 0.0 else value", "return value"),
    "inputs have one sign": ("reading", "        state.signs[node] = sign\n", "        state.signs[node] = 1\n"),
    "values are as accurate as at first": (
        "reading",
        "    if state.scores[r] < state.value_scores[node]:\n        _store",
        "    if False:\n        _store",
    ),
    "values become less accurate": ("reading", "    if state.scores[r] < state.value_scores[node]:", "    if True:"),
    "sums of opposite values are none": ("reading", "        if a == -b:\n            return zero\n", ""),
    "undefined values are trivial": ("reading", "        return 0  # undefined results stay undefined", "        pass"),
    "products by one are one": (
        "reading",
        "return sign * abs(b) if abs(a) == one else 0",
        "return sign * one if abs(a) == one else 0",
    ),
    "what has no residues is found by them": (
        "reading",
        "    if not state.is_sampled[r]:\n        return _note_form(state, code, a, b, c, _new(state, r, 1.0, False))\n"
        "",
        "",
    ),
    "forms lose their signs": (
        "reading",
        "    return _note_form(state, code, a, b, c, sign * node)\n\n\n@compiled\ndef _exact_value",
        "    return _note_form(state, code, a, b, c, node)\n\n\n@compiled\ndef _exact_value",
    ),
    "differences are sums, of reading": ("reading", "code, second = ADD, -second", "code = ADD"),
    "negatives are values": (
        "reading",
        "state.meanings[r] = -_value_of_reference(state, False, a)",
        "state.meanings[r] = _value_of_reference(state, False, a)",
    ),
    "definitions are of other signs": (
        "reading",
        "first, second, third, 1 if value > 0 else -1)",
        "first, second, third, 1)",
    ),
    "values are defined by themselves": ("reading", " and node not in (abs(first), abs(second), abs(third)):", ":"),
    "what is rounded as written is not": ("reading", "fixed = state.fixed[r] != 0", "fixed = False"),
    "products have signs inside": (
        "reading",
        "        sign = sign if (a > 0) == (b > 0) else -sign\n        a, b = abs(a), abs(b)\n    elif",
        "        pass\n    elif",
    ),
    "sums begin with a negative": (
        "reading",
        "    elif code == ADD and a < 0:\n        sign, a, b = -sign, -a, -b\n",
        "",
    ),
    "terms keep their order": (
        "reading",
        "    if code in (ADD, MULTIPLY) and abs(a) > abs(b):\n        a, b = b, a\n",
        "",
    ),
}


def sources_of(kernel):
    return READING if kernel == "reading" else PAIRS


def test_texts_of_mistakes_are_in_the_kernels():
    for name, (kernel, text, _) in MUTANTS.items():
        assert sum(source.count(text) for source in sources_of(kernel).values()) == 1, name


@pytest.mark.parametrize("kernel", CHECKS)
def test_the_kernels_themselves_pass(kernel):
    CHECKS[kernel]()
    with running(sources_of(kernel), kernel):
        CHECKS[kernel]()


@pytest.mark.sampled(8, each="kernel")
@pytest.mark.parametrize(("name", "kernel"), [(name, mutant[0]) for name, mutant in MUTANTS.items()])
def test_mistakes_are_caught(name, kernel):
    _, text, replacement = MUTANTS[name]
    with (
        running(changed(sources_of(kernel), text, replacement), kernel),
        pytest.raises((AssertionError, IndexError, ValueError)),
    ):
        CHECKS[kernel]()
