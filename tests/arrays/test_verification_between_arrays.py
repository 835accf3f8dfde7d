"""Derivatives between arrays are verified when a plan is made: every mistake is found, and no right program refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside import Context, Program, column
from looped import unrolled

import accumulus as acc
from accumulus.arrays import jacobian as between
from accumulus.arrays import verification
from accumulus.arrays.compiled.residues_kernel import PRIME
from accumulus.arrays.entries import Entries, Products
from accumulus.arrays.residues import of_numbers
from accumulus.options import Options
from accumulus.tape.program import references_in

X = np.random.default_rng(1).uniform(0.1, 1.0, 48)


def chained(x):
    """Products of arrays that hold random local derivatives, sums of several, guards, and constants."""
    table = np.sin(x).reshape(6, 8)
    sums = np.sum(table * np.roll(table, 1, axis=1), axis=0)
    inner = np.where(np.roll(x, 1) > 0.5, np.roll(np.exp(x), 3), 0.0) / 3.0 - x[::-1] * 0.1
    return np.concatenate([inner[1:] * inner[:-1], sums, np.roll(inner, 2) * x])


@pytest.fixture(autouse=True)
def loops():
    with unrolled(0):
        yield


def verified(monkeypatch, change):
    """Prepare with nonzeros that are changed before they are verified."""
    original = verification.verify_derivatives

    def changed(made, inputs, edges, nonzeros, *further):
        original(made, inputs, edges, nonzeros, *further)
        original(made, inputs, edges, change(*(np.array(each) for each in nonzeros)), *further)

    monkeypatch.setattr(between, "verify_derivatives", changed)
    acc.jacobian(chained, sparse=True, cache=False)(X)


def _swapped(rows, columns, values):
    values[[20, 21]] = values[[21, 20]]
    return rows, columns, values


def _without_one(rows, columns, values):
    return tuple(np.delete(each, 30) for each in (rows, columns, values))


def _another_row(rows, columns, values):
    k = int(np.flatnonzero(np.diff(rows))[5])
    if columns[k] < columns[k + 1] and rows[k] + 1 == rows[k + 1]:
        rows[k] += 1
    else:
        rows[k + 1] -= 1
    order = np.lexsort((columns, rows))
    return rows[order], columns[order], values[order]


def _another_column(rows, columns, values):
    last = int(np.flatnonzero((np.diff(rows) > 0) & (columns[:-1] < 47))[3])
    columns[last] += 1
    return rows, columns, values


def _twice(rows, columns, values):
    return tuple(np.insert(each, 10, each[10]) for each in (rows, columns, values))


def _out_of_order(rows, columns, values):
    return tuple(each[::-1] for each in (rows, columns, values))


def _outside(rows, columns, values):
    columns[-1] = 48
    return rows, columns, values


@pytest.mark.parametrize(
    "change", [_swapped, _without_one, _another_row, _another_column, _twice, _out_of_order, _outside]
)
def test_changed_nonzeros_are_detected(monkeypatch, change):
    with pytest.raises(acc.errors.VerificationError, match="please report the function"):
        verified(monkeypatch, change)


def test_any_two_swapped_values_are_detected(monkeypatch):
    seen = []
    original = verification.verify_derivatives

    def swapped(*args):
        original(*args)
        seen.append(args)

    monkeypatch.setattr(between, "verify_derivatives", swapped)
    acc.jacobian(chained, sparse=True, cache=False)(X)
    made, inputs, edges, (rows, columns, values), apart, seed, *_ = seen[0]
    for a in range(0, len(values), 13):
        for b in range(a + 1, len(values), 17):
            other = values.copy()
            other[[a, b]] = other[[b, a]]
            if values[a] != values[b]:
                with pytest.raises(acc.errors.VerificationError):
                    original(made, inputs, edges, (rows, columns, other), apart, seed)


def _negated(products, outer, inner, first, size):
    result = _chained(products, outer, inner, first, size)
    if result is None or result.values is None:
        return result
    return Entries(result.heads, result.tails, products.tape.compute(lambda tape: tape.negative, [result.values]))


def _one_less(products, outer, inner, first, size):
    result = _chained(products, outer, inner, first, size)
    if result is None or len(result) < 2:
        return result
    heads, tails, values = (references_in(each)[1:] for each in (result.heads, result.tails, products.values(result)))
    return Entries(column(heads), column(tails), column(values))


def _rolled(products, outer, inner, first, size):
    result = _chained(products, outer, inner, first, size)
    if result is None or result.values is None:
        return result
    return Entries(result.heads, result.tails, column(np.roll(references_in(result.values), 1)))


def _moved(products, outer, inner, first, size):
    result = _chained(products, outer, inner, first, size)
    if result is None:
        return result
    return Entries(column(np.roll(references_in(result.heads), 1)), result.tails, result.values)


def _one_factor(products, outer, inner, first, size):
    return _chained(products, outer, Entries(inner.heads, inner.tails, None), first, size)


_chained = Products.chained


@pytest.mark.parametrize("mistake", [_negated, _one_less, _rolled, _moved, _one_factor])
def test_mistakes_in_products_are_detected(monkeypatch, mistake):
    monkeypatch.setattr(Products, "chained", mistake)
    with pytest.raises(acc.errors.VerificationError, match="output"):
        acc.jacobian(chained, cache=False)(X)


@pytest.mark.parametrize("name", ["added", "sums"])
def test_mistakes_in_sums_are_detected(monkeypatch, name):
    original = getattr(Products, name)

    def wrong(products, *args):
        result = original(products, *args)
        if name == "added" and len(args[0]) > 1:
            return result[:-1] if len(result) > 1 else list(args[0])[:1]
        if name == "sums" and len(result) < len(args[0]):
            return args[0][args[1][:-1]]  # the first of each
        return result

    monkeypatch.setattr(Products, name, wrong)
    with pytest.raises(acc.errors.VerificationError):
        acc.jacobian(chained, cache=False)(X)


def test_constants_that_are_rounded_are_no_mistakes():
    """0.1 · 0.1 and 3 · (1/3) are not what they stand for, and numbers that underflow even less."""

    def f(x):
        y = np.roll(0.1 * x, 1) * 0.1 + np.roll(x / 3.0, 2)
        z = np.roll(3.0 * np.roll(y, 1), 1) + 0.1 * np.roll(0.7 * y + 0.2 * y[::-1], 3)
        return z * 1.1 + 0.01 * x, np.roll(1e-200 * np.roll(1e-200 * x, 1), 1), np.roll(z, 1) * x

    result = acc.jacobian(f, cache=False)(X)
    for one, k in ((result[0], 0), (result[1], 1)):
        columns = [np.asarray(f(unit)[k]) for unit in np.eye(48)]
        np.testing.assert_allclose(one, np.stack(columns, axis=1), atol=1e-14)


def test_choices_with_rounded_constants_are_no_mistakes():
    def f(x):
        y = np.where(np.roll(x, 1) > 0.5, np.roll(0.1 * x, 1), 0.3)
        return np.where(x > 0.3, np.roll(y * 0.1, 2), 1.0) * np.roll(y, 1)

    acc.jacobian(f, cache=False)(X)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-1000, 1000), st.integers(0, 60))
def test_residues_of_numbers_are_exact(number, whole, power):
    exact, below = number.as_integer_ratio()
    expected = exact * pow(below, -1, PRIME) % PRIME
    assert int(of_numbers(np.array([number]))[0]) % PRIME == expected
    assert int(of_numbers(np.array([whole / 2.0**power]))[0]) * 2**power % PRIME == whole % PRIME


def test_infinite_constants_have_residues():
    assert len(of_numbers(np.array([np.inf, -np.inf, np.nan, 5e-324]))) == 4


def test_the_clock_of_searches_runs_while_bodies_are_planned_only(monkeypatch):
    clock, searches = [0.0], []

    def slow(function, seconds):
        def run(*arguments, **options):
            clock[0] += seconds
            return function(*arguments, **options)

        return run

    def search(graph, context):
        searches.append(context)
        return slow(between_plan, 1.0)(graph, context)

    between_plan = between.find_plan
    monkeypatch.setattr(between, "find_plan", search)
    monkeypatch.setattr(between, "verify_derivatives", slow(between.verify_derivatives, 1000.0))
    tape = Program(inputs=48)
    tape.outputs = tape.apply("sin", np.arange(48))
    context = Context(Options(), 100.0, lambda: clock[0])
    between.differentiate(tape, range(48), context)
    assert len(searches) == 1
    assert context.clock_left == 99.0
