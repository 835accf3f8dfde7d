"""Rewritten tapes in the cache: the same tape as is found, and never one that was not verified."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from inside import Context, to_bytes

import accumulus as acc
from accumulus import Tape, cache
from accumulus.options import SWITCH, Options
from accumulus.programs import rewritten
from accumulus.resubstitution import optimise as tape_cache
from accumulus.rewriting.optimise import by_rules

GIVEN = ("balanced", 1.0, 0, 0)
#: Notes of a tape whose constants stand for themselves.
NO_NOTES = b'{"exact": []}\n'


def key_of(tape, effort="balanced", work=1.0, seed=0, kept_outputs=0):
    return tape_cache.tape_key(tape, Context(Options(effort=effort, seed=seed), work=work), kept_outputs)


def stored(key, tape):
    return tape_cache.stored_tape(key, tape, Context(Options()), None, 0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(SWITCH, "1")
    return tmp_path / "cache" / "tapes"


def source():
    tape = Tape(3)
    tape.outputs = [tape.add(tape.multiply(0, 1), tape.multiply(0, 2))]
    return tape


def test_the_stored_tape_is_the_result(folder):
    tape = source()
    made = by_rules(tape)
    key = key_of(tape, *GIVEN)
    assert stored(key, tape) is None
    tape_cache.store_tape(key, made, {})
    actual, _ = stored(key, tape)
    assert to_bytes(actual) == to_bytes(made)


def wrong_tapes():
    tape = source()
    other = Tape(3)
    other.outputs = [other.multiply(0, other.add(1, 1))]
    yield other
    longer = tape.copy()
    longer.outputs = [*tape.outputs, 0]
    yield longer
    fewer = Tape(2)
    fewer.outputs = [fewer.add(0, 1)]
    yield fewer


@pytest.mark.parametrize("wrong", list(wrong_tapes()), ids=["value", "outputs", "inputs"])
def test_unequal_values_are_not_merged(wrong, folder):
    tape = source()
    key = key_of(tape, *GIVEN)
    cache.store("tapes", key, NO_NOTES + to_bytes(wrong))
    assert stored(key, tape) is None


def test_costlier_programs_are_not_used(folder):
    tape = source()
    longer = Tape(3)
    total = longer.add(longer.multiply(0, 1), longer.multiply(0, 2))
    square = longer.multiply(1, 2)
    longer.outputs = [longer.subtract(longer.add(total, square), square)]
    key = key_of(tape, *GIVEN)
    cache.store("tapes", key, NO_NOTES + to_bytes(longer))
    assert stored(key, tape) is None


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: content[:40] + b"x" + content[41:]])
def test_damaged_files_are_as_good_as_none(damage, folder):
    tape = source()
    key = key_of(tape, *GIVEN)
    tape_cache.store_tape(key, by_rules(tape), {})
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert stored(key, tape) is None
    cache.store("tapes", key, b"no tape")
    assert stored(key, tape) is None


def folded(times=3 * Fraction(0.1)):
    """A product with 0.1 and 3, and its notes: their product stands for a fraction."""
    tape, made = Tape(1), Tape(1)
    tape.outputs = [tape.multiply(tape.multiply(0, tape.constant(0.1)), tape.constant(3.0))]
    number = float(times)
    made.outputs = [made.multiply(0, made.constant(number))]
    return tape, made, [(number.hex(), hex(times.numerator), hex(times.denominator))]


def test_constants_stand_for_exact_values(folder):
    tape, made, exact = folded()
    result = by_rules(tape)
    assert str(result) == str(made)
    key = key_of(tape, *GIVEN)
    tape_cache.store_tape(key, result, {})
    actual, notes = stored(key, tape)
    assert to_bytes(actual) == to_bytes(result)
    assert [tuple(each) for each in notes["exact"]] == exact


@pytest.mark.parametrize(
    "wrong",
    [
        lambda exact: [],  # the double is another number than the product
        lambda exact: [(float.fromhex(exact[0][0]).hex(), "0x1", "0x3")],  # not next to the double
        lambda exact: [(exact[0][0], exact[0][1], "0x0")],
        lambda exact: [("inf", *exact[0][1:])],
        lambda exact: [("0x1p9999", *exact[0][1:])],
        lambda exact: [exact[0][:2]],
        lambda exact: None,
    ],
)
def test_wrong_notes_are_as_good_as_none(wrong, folder):
    tape, made, exact = folded()
    key = key_of(tape, *GIVEN)
    for each, is_stored in ((exact, True), (wrong(exact), False)):
        cache.store("tapes", key, json.dumps({"exact": each}).encode() + b"\n" + to_bytes(made))
        assert (stored(key, tape) is not None) == is_stored
    cache.store("tapes", key, b"{}\n" + to_bytes(made))
    assert stored(key, tape) is None


def test_notes_do_not_excuse_other_constants(folder):
    """Neither another double, by the exact product, nor a given one, by any fraction."""
    tape, made, exact = folded(3 * Fraction(0.1) * (1 + Fraction(1, 2**30)))
    key = key_of(tape, *GIVEN)
    for each in (exact, folded()[2], [(exact[0][0], *folded()[2][0][1:])]):
        cache.store("tapes", key, json.dumps({"exact": each}).encode() + b"\n" + to_bytes(made))
        assert stored(key, tape) is None
    other, near = Tape(1), 1 / 3
    other.outputs = [other.multiply(0, other.constant(near))]
    twice = Tape(1)
    twice.outputs = [twice.divide(0, twice.constant(3.0))]
    note = [(near.hex(), "0x1", "0x3")]
    for source, is_stored in ((twice, True), (other, False)):
        key = key_of(source, *GIVEN)
        made = other if source is twice else twice
        cache.store("tapes", key, json.dumps({"exact": note}).encode() + b"\n" + to_bytes(made))
        assert (stored(key, source) is not None) == is_stored


def test_every_option_has_its_part_in_the_key(monkeypatch):
    tape, other = source(), source()
    other.outputs = [0]
    keys = [key_of(tape, *GIVEN), key_of(other, *GIVEN)]
    assert key_of(source(), "balanced", 1.0, np.int64(0), 0) == keys[0]
    for field, another in enumerate(["fast", 2.0, 1, 1]):
        key_fields = list(GIVEN)
        key_fields[field] = another
        keys.append(key_of(tape, *key_fields))
    cache.version_of_kind.cache_clear()
    monkeypatch.setattr(cache, "code_version", lambda *key_fields: "another")
    keys.append(key_of(tape, *GIVEN))
    cache.version_of_kind.cache_clear()
    assert len(set(keys)) == len(keys)


def test_a_derivative_rewrites_once(folder, monkeypatch):
    searches = []

    def counting(*args, plain=rewritten.rewrite, **options):
        searches.append(args)
        return plain(*args, **options)

    monkeypatch.setattr(rewritten, "rewrite", counting)

    def f(x):
        return np.array([x[0] * x[1] + x[0] * x[2], np.sin(x[0]) * x[1] * x[2]])

    x = np.array([1.0, 2.0, 3.0])
    without = acc.jacobian(f, cache=False)
    expected = without(x)
    assert not folder.exists()
    first = acc.jacobian(f)
    np.testing.assert_array_equal(first(x), expected)
    assert first.compile(x).from_cache == without.compile(x).from_cache == []
    again = acc.jacobian(f)
    np.testing.assert_array_equal(again(x), expected)
    assert len(searches) == 2
    assert again.compile(x).from_cache == ["plan", "optimise", "compile"]
    assert again.report().from_cache == ("plan", "optimise", "compile")
    assert "(from cache)" in str(again.report())
