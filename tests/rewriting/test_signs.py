"""Changes of sign in what a network is written as: right, and compared with the fewest that there can be."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import BY_NAME, IN_SEARCH, OPERATIONS, UNIT, evaluate, interpret
from programs import RATIONAL, small_fraction

from accumulus import Tape
from accumulus.rewriting import signs
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.compiled import signs_kernel
from accumulus.rewriting.compiled.rewrite_nodes import CONSTANT
from accumulus.rewriting.compiled.signs_kernel import COUNT, SORT, TURN
from accumulus.rewriting.optimise import Network
from accumulus.rewriting.signs import Definitions, signed_tape, with_few_changes, with_shared_changes

ADD, MULTIPLY, DIVIDE, SELECT = (BY_NAME[name].code for name in ("add", "multiply", "divide", "select"))
INPUT, NEGATIVE = BY_NAME["input"].code, BY_NAME["negative"].code
#: On fractions: sine and cosine are the coordinates of points of the unit circle, and exp something without symmetry.
ARITHMETIC = RATIONAL | {
    "sin": lambda t: 2 * t / (1 + t * t),
    "cos": lambda t: (1 - t * t) / (1 + t * t),
    "exp": lambda x: x * x + x + 1,
}
NAMES = ("add", "subtract", "subtract", "multiply", "divide", "negative", "sin", "cos", "exp", "less", "select")


def random_tape(rng: random.Random, operations: int, names=NAMES) -> Tape:
    tape = Tape(2)
    reals, conditions = [0, 1, tape.constant(3.0)], []
    for _ in range(5 * operations):
        if tape.operations == operations:
            break
        name = rng.choice(names)
        row = BY_NAME[name]
        if "boolean" in row.arguments and not conditions:
            continue
        kinds = [conditions if kind == "boolean" else reals for kind in row.arguments]
        reference = tape.apply(name, *(rng.choice(pool[-5:]) for pool in kinds))
        if reference >= 0:
            (conditions if row.result == "boolean" else reals).append(reference)
    tape.outputs = reals[-3:]
    return canonical(tape)


def definitions(tape: Tape, visits: int = 0, seed: int = 0) -> Definitions:
    """The network of a tape, as it is handed to `write`."""
    with mock.patch.object(signs, "signed_tape", side_effect=lambda actual, _: actual):
        network = Network(tape, IN_SEARCH, seed=seed)
        if visits:
            network.anneal(visits, 1e6 * UNIT, 1e6 * UNIT, 0.1)
        return network.emitted()


def changes(tape: Tape) -> int:
    return sum(tape.codes[r] == NEGATIVE for r in range(tape.inputs, len(tape)))


def needed(network: Definitions) -> list[int]:
    """Nodes that the outputs need, arguments first."""
    order: list[int] = []

    def visit(n: int) -> None:
        if n not in order:
            if network.codes[n] not in (INPUT, CONSTANT):
                for a in network.arguments[n][: OPERATIONS[network.codes[n]].arity]:
                    visit(abs(a))
            order.append(n)

    for output in network.outputs:
        visit(abs(output))
    return order


def fewest(network: Definitions) -> int:
    """The fewest changes of sign, by trying which nodes are computed as their negatives, and which are changed."""
    order = [n for n in needed(network) if network.codes[n] != CONSTANT]
    operations = [n for n in order if network.codes[n] != INPUT]
    for number in range(len(order) + 1):
        for changed in map(set, itertools.combinations(order, number)):
            for choice in itertools.product((1, -1), repeat=len(operations)):
                signs = dict(zip(operations, choice, strict=True))
                if all(possible(network, n, signs, changed) for n in [*operations, None]):
                    return number
    raise AssertionError


def possible(network: Definitions, n: int | None, signs: dict[int, int], changed: set[int]) -> bool:
    """Return True if a node can be computed with its sign from its arguments as they are and as they were changed."""

    def offered(a: int) -> set[int]:
        if network.codes[abs(a)] == CONSTANT:
            return {1, -1}
        sign = signs.get(abs(a), 1) * (1 if a > 0 else -1)
        return {sign, -sign} if abs(a) in changed else {sign}

    if n is None:
        return all(1 in offered(output) for output in network.outputs)
    code, (a, b, c) = network.codes[n], network.arguments[n]
    expected = signs[n] * network.signs[n]
    if code == ADD:
        return any(x != y or x == expected for x in offered(a) for y in offered(b))
    if code in (MULTIPLY, DIVIDE):
        return any(x * y == expected for x in offered(a) for y in offered(b))
    if code == SELECT:
        return expected in offered(b) & offered(c)
    parity, kinds = OPERATIONS[code].parity, OPERATIONS[code].arguments
    if parity == "odd":
        return expected in offered(a)
    if parity == "even":
        return expected == 1
    return expected == 1 and all(1 in offered(x) for x, kind in zip((a, b, c), kinds, strict=False) if kind == "real")


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), visits=st.sampled_from([0, 100]), point=st.tuples(*[st.fractions(-3, 3)] * 2))
def test_values_are_right(seed, visits, point):
    tape = random_tape(random.Random(seed), 12)
    result = signed_tape(definitions(tape, visits, seed), tape)
    assume(all(map(small_fraction, result.constants)))  # functions of numbers are folded to those of the table
    try:
        expected = evaluate(tape, point, ARITHMETIC, Fraction)
        assert evaluate(result, point, ARITHMETIC, Fraction) == expected
        assert evaluate(with_few_changes(result), point, ARITHMETIC, Fraction) == expected
    except ZeroDivisionError:
        pass


@pytest.mark.parametrize("names", [NAMES, ("add", "subtract", "multiply", "exp")], ids=["all", "sums and products"])
def test_hardly_more_changes_than_needed(names):
    excess = []
    for seed in range(600):
        tape = random_tape(random.Random(seed), 6, names)
        network = definitions(tape, 60 * (seed % 2), seed)
        if len(needed(network)) <= 8:
            excess.append(changes(with_few_changes(signed_tape(network, tape))) - fewest(network))
    assert len(excess) > 300
    assert min(excess) >= 0, "the reference is not the fewest"
    # where a value is needed with both signs, the search counts a change for each use, not one for all: 3 % of "all"
    assert max(excess) <= 2
    assert sum(excess) <= (0.05 if "sin" in names else 0.0) * len(excess)


def test_tapes_without_changes_of_sign_get_none():
    """`with_fewest_signs` returns these at once."""
    without = [tape for seed in range(300) if NEGATIVE not in (tape := random_tape(random.Random(seed), 9)).codes]
    assert len(without) > 100
    assert all(with_few_changes(tape).operations == tape.operations for tape in without)


def test_a_factor_changes_its_sign_for_all_of_its_products():
    tape = Tape(3)
    products = [tape.multiply(0, 0), tape.multiply(0, 1), tape.divide(0, 2), tape.multiply(1, 2)]
    tape.outputs = [tape.negative(each) for each in products]
    found = with_shared_changes(tape)
    # of x0 and the last product
    assert found.codes.count(NEGATIVE) == 2
    assert found.operations == len(products) + 2
    assert evaluate(found, [2.0, 3.0, 5.0]) == [-4.0, -6.0, -0.4, -15.0]


def test_the_negative_of_a_factor_that_is_there_is_used():
    tape = Tape(2)
    tape.outputs = [tape.negative(tape.multiply(0, 1)), tape.negative(0)]
    assert with_shared_changes(tape).operations == 2


def test_a_product_that_is_needed_itself_stays():
    tape = Tape(2)
    product = tape.multiply(0, 1)
    tape.outputs = [product, tape.negative(product), tape.negative(0)]
    assert with_shared_changes(tape) is tape


def test_shared_changes_keep_every_bit():
    changed = 0
    for seed in range(400):
        rng = random.Random(seed)
        tape = random_tape(rng, 25, ("multiply", "multiply", "divide", "negative", "subtract", "sin", "less", "select"))
        negatives = [
            tape.negative(each) for each in range(2, len(tape)) if OPERATIONS[tape.codes[each]].result == "real"
        ]
        tape.outputs = [*tape.outputs, *negatives]
        tape = with_few_changes(tape)
        found = with_shared_changes(tape)
        assert found.operations < tape.operations or found is tape
        changed += found is not tape
        x = [rng.choice((0.0, -0.0, rng.gauss(0.0, 1.0))) for _ in range(2)]
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(bits_of(found, x), bits_of(tape, x))
    assert changed > 100


def bits_of(tape, x):
    """Outputs, and signs of those that are zeros."""
    values = np.array(evaluate(tape, [np.float64(each) for each in x]), float)
    return np.stack([values, np.where(values == 0.0, np.signbit(values), 0.0)])


@pytest.mark.parametrize("seed", range(3))
def test_machine_code_agrees_with_python(seed, monkeypatch):
    tape = random_tape(random.Random(seed), 40)
    tape = signed_tape(definitions(tape, 200, seed), tape)
    expected = str(with_few_changes(tape))
    performed = []

    def run(state, mode):
        performed.append(mode)
        state.mode = mode
        return interpret(signs_kernel.run_signs, state)

    monkeypatch.setattr(signs, "_perform", run)
    assert str(with_few_changes(tape)) == expected
    assert {*performed} == {COUNT, SORT, TURN}


#: Sums, and changes of sign that they need.
CASES = {
    "differences are turned round": (lambda t: [t.apply("exp", t.negative(t.subtract(0, 1)))], 0),
    "numbers take signs": (lambda t: [t.negative(t.multiply(t.constant(3.0), t.apply("exp", 0)))], 0),
    "a difference within products and odd functions": (
        lambda t: [t.negative(t.multiply(0, t.apply("sin", t.divide(t.subtract(0, 1), 1))))],
        0,
    ),
    "both a difference and its negative": (lambda t: [t.subtract(0, 1), t.subtract(1, 0)], 1),
    "a sum": (lambda t: [t.negative(t.add(0, 1))], 1),
    "an input": (lambda t: [t.negative(0)], 1),
    "one factor of many products": (
        lambda t: [t.negative(t.multiply(t.apply("exp", 0), x)) for x in (1, t.apply("cos", 1), t.apply("exp", 1))],
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    program, expected = CASES[name]
    tape = Tape(2)
    tape.outputs = program(tape)
    network = definitions(tape)
    assert fewest(network) == expected
    assert changes(with_few_changes(signed_tape(network, tape))) == expected
