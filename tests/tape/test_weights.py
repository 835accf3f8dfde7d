"""Weights of operations: what a tape costs by them, by hand and by law; and how they are kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import programs
from strategies import tapes

from accumulus.cache import load, store
from accumulus.errors import ArgumentError
from accumulus.tape import weights as module
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import Tape
from accumulus.tape.weights import NAMES, Weights, keep, kept, typical, weights

W = typical()
UNFUSED = replace(W, fused=False)


def of(*names, fma=0, sincos=0):
    return sum(W.operations[name] for name in names) + fma * W.fma + sincos * W.sincos


def written(inputs, write):
    tape = Tape(inputs)
    tape.outputs = write(tape, tape.constant)
    return tape


#: Outputs over inputs 0 … 3, and what they cost where products are fused.
BY_HAND = {
    "a*b + c": (lambda t, c: [t.add(t.multiply(0, 1), 2)], of(fma=1)),
    "c - a*b": (lambda t, c: [t.subtract(2, t.multiply(0, 1))], of(fma=1)),
    "a*b - c": (lambda t, c: [t.subtract(t.multiply(0, 1), 2)], of(fma=1)),
    "3*a + 1": (lambda t, c: [t.add(t.multiply(c(3.0), 0), c(1.0))], of(fma=1)),
    "of two products a sum takes one": (
        lambda t, c: [t.add(t.multiply(0, 1), t.multiply(2, 3))],
        of("multiply", fma=1),
    ),
    "a chain of products": (
        lambda t, c: [t.add(t.multiply(0, 1), t.add(t.multiply(2, 3), t.multiply(0, 3)))],
        of("multiply", fma=2),
    ),
    "a product with two uses stays": (
        lambda t, c: [t.add(t.multiply(0, 1), 2), t.subtract(t.multiply(0, 1), 3)],
        of("multiply", "add", "subtract"),
    ),
    "a product that is a result stays": (
        lambda t, c: [t.add(t.multiply(0, 1), 2), t.multiply(0, 1)],
        of("multiply", "add"),
    ),
    "a quotient is not fused": (lambda t, c: [t.add(t.divide(0, 1), 2)], of("divide", "add")),
    "sine and cosine": (lambda t, c: [t.apply("sin", 0), t.apply("cos", 0)], of(sincos=1)),
    "sine and cosine of two angles": (lambda t, c: [t.apply("sin", 0), t.apply("cos", 1)], of("sin", "cos")),
    "two angles, three functions": (
        lambda t, c: [t.apply("sin", 0), t.apply("cos", 0), t.apply("cos", 1)],
        of("cos", sincos=1),
    ),
    "the sign of 3*a": (lambda t, c: [t.negative(t.multiply(c(3.0), 0))], of("multiply")),
    "the sign of 3*a beside 3*a": (
        lambda t, c: [t.negative(t.multiply(c(3.0), 0)), t.multiply(c(3.0), 0)],
        of("multiply", "negative"),
    ),
    "the sign of 3/a": (lambda t, c: [t.negative(t.divide(c(3.0), 0))], of("divide")),
    "the sign of a*b": (lambda t, c: [t.negative(t.multiply(0, 1))], of("multiply", "negative")),
    "the sign of a*b + c": (lambda t, c: [t.negative(t.add(2, t.multiply(0, 1)))], of("negative", fma=1)),
    "a choice": (
        lambda t, c: [t.select(t.apply("less", 0, 1), t.apply("exp", 2), t.apply("sqrt", 3))],
        of("less", "exp", "sqrt", "select"),
    ),
    "a product in the last place of a choice stays": (
        lambda t, c: [t.select(t.apply("less", 0, 1), 2, t.multiply(0, 3)), t.add(t.multiply(0, 3), 1)],
        of("less", "select", "multiply", "add"),
    ),
    "attachments": (lambda t, c: [t.apply("attach", t.apply("sqrt", 0), 1)], of("sqrt")),
    "nothing to do": (lambda t, c: [0, c(2.0)], 0),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_costs_counted_by_hand(case):
    write, cost = BY_HAND[case]
    assert W.cost(written(4, write)) == cost


def test_without_fused_operations_every_operation_counts():
    tape = written(4, BY_HAND["of two products a sum takes one"][0])
    assert UNFUSED.cost(tape) == of("multiply", "multiply", "add")


def test_an_empty_tape_costs_nothing():
    assert W.cost(Tape(0)) == W.cost(Tape(3)) == 0


@given(program=programs())
def test_dead_operations_cost_nothing(program):
    tape = program.tape()
    live = tape.copy()
    for r in list(range(tape.inputs, len(tape)))[-5:]:
        if not tape.is_boolean(r):
            tape.apply("sqrt", tape.multiply(r, tape.add(r, 0)))
            tape.apply("sin", tape.apply("cos", r))
    assert W.cost(tape) == W.cost(live)


@given(tape=tapes())
def test_more_results_never_cost_less(tape):
    for w in (W, UNFUSED):
        costs = []
        for count in range(len(tape.outputs) + 1):
            part = tape.copy()
            part.outputs = tape.outputs[:count]
            costs.append(w.cost(part))
        assert costs == sorted(costs)


@given(tape=tapes(), factor=st.integers(2, 5))
def test_costs_are_linear_in_the_weights(tape, factor):
    scaled = Weights(
        {name: factor * weight for name, weight in W.operations.items()},
        factor * W.fma,
        factor * W.sincos,
        True,
        "typical",
    )
    assert scaled.cost(tape) == factor * W.cost(tape)


@given(tape=tapes())
def test_fusing_saves_and_pairs_are_the_only_difference_from_a_plain_sum(tape):
    """The definition again, one operation after the other."""
    live, uses = set(), dict.fromkeys(range(len(tape)), 0)
    stack = [r for r in tape.outputs if r >= 0]
    for r in stack:
        uses[r] += 1
    while stack:
        r = stack.pop()
        if r < tape.inputs or r in live:
            continue
        live.add(r)
        for a in tape.arguments(r):
            if a >= 0:
                uses[a] += 1
                stack.append(a)

    def is_product(r):
        return r in live and tape.operation(r).name == "multiply" and uses[r] == 1

    def has_constant_in_front(r):
        row = tape.operation(r).name
        return r in live and row in ("multiply", "divide") and uses[r] == 1 and tape.first[r] < 0

    plain = sum(W.operations[tape.operation(r).name] for r in live)
    pairs = {tape.first[r] for r in live if tape.operation(r).name == "sin"} & {
        tape.first[r] for r in live if tape.operation(r).name == "cos"
    }
    plain -= len(pairs) * (of("sin", "cos") - W.sincos)
    plain -= sum(
        W.operations["negative"]
        for r in live
        if tape.operation(r).name == "negative" and has_constant_in_front(tape.first[r])
    )
    fused = [
        tape.operation(r).name
        for r in live
        if tape.operation(r).name in ("add", "subtract") and any(map(is_product, tape.arguments(r)))
    ]
    assert UNFUSED.cost(tape) == plain
    assert W.cost(tape) == plain - sum(of(name, "multiply") - W.fma for name in fused)


def test_every_operation_has_a_weight():
    assert NAMES == tuple(row.name for row in OPERATIONS if row.arity)
    assert W.operations.keys() == set(NAMES)
    assert W.operations["attach"] == 0
    assert W.relative(W.operations["add"]) == 1.0
    for row in OPERATIONS:
        if row.arity and row.name != "attach":
            assert W.operations[row.name] >= 1, row.name


def test_long_tapes_without_recursion():
    tape = Tape(2)
    x = 0
    for k in range(100_000):
        x = tape.add(tape.multiply(x, 1), tape.constant(float(k % 7 + 1)))
    tape.outputs = [x]
    assert W.cost(tape) == 100_000 * W.fma


WRONG = {
    "an operation is missing": {"operations": {n: w for n, w in W.operations.items() if n != "sqrt"}},
    "one too many": {"operations": {**W.operations, "input": 1}},
    "zero": {"operations": {**W.operations, "sqrt": 0}},
    "a fraction": {"operations": {**W.operations, "sqrt": 1.5}},
    "attachments are free": {"operations": {**W.operations, "attach": 1}},
    "divisions are no cheaper than products": {"operations": {**W.operations, "divide": 1}},
    "a pair costs more than its parts": {"fma": of("add", "multiply") + 1},
    "a part costs more than the pair": {"sincos": of("sin") - 1},
    "nobody's": {"source": "guessed"},
}


@pytest.mark.parametrize("case", WRONG)
def test_tables_that_contradict_themselves_are_refused(case):
    with pytest.raises(ArgumentError):
        replace(W, **WRONG[case])
    data = {**W.to_dict(), **WRONG[case]}
    with pytest.raises(ArgumentError):
        Weights.from_dict(data)


def test_json_and_back():
    data = json.loads(json.dumps(W.to_dict()))
    assert Weights.from_dict(data) == W
    assert hash(Weights.from_dict(data)) == hash(W)
    for broken in ({}, {**data, "operations": None}, {**data, "operations": 3}, []):
        with pytest.raises(ArgumentError):
            Weights.from_dict(broken)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


MEASURED = replace(W, operations={**W.operations, "exp": 777}, source="measured", machine="a test")


def test_what_was_measured_is_kept(cache, monkeypatch):
    assert kept() is None
    assert weights() is W
    keep(MEASURED)
    assert weights() == kept() == MEASURED
    # another process reads the file
    monkeypatch.setattr(module, "_KNOWN", {})
    assert kept() == MEASURED
    assert kept() is kept()


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"[" * 100_000, b"\xff", None])
def test_damaged_files_are_ignored(cache, monkeypatch, damage):
    keep(MEASURED)
    text = load("weights", module._machine())
    monkeypatch.setattr(module, "_KNOWN", {})
    store("weights", module._machine(), text[:-30] if damage is None else damage)
    assert kept() is None
    assert weights() is W
    keep(MEASURED)
    assert load("weights", module._machine()) == text


def test_where_nothing_can_be_written_they_serve_this_process(cache):
    cache.write_text("a file where the folder should be")
    keep(MEASURED)
    assert weights() == MEASURED


def test_names_of_the_rules_exist():
    assert {"add", "subtract", "multiply", "divide", "negative", "sin", "cos", "select"} <= BY_NAME.keys()
