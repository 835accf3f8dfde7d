"""Rewritten tapes in the cache: the same tape as is found, and never one that was not verified."""

from __future__ import annotations

import random

import changed_files
import numpy as np
import pytest

import accumulus as acc
from accumulus import cache
from accumulus.context import Context
from accumulus.frontends.record import record
from accumulus.options import SWITCH, Options
from accumulus.programs import rewritten
from accumulus.resubstitution import optimise as tape_cache
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.optimise import by_rules
from accumulus.tape.interpreter import outputs_at
from accumulus.tape.tape import Tape, to_bytes

GIVEN = ("balanced", 1.0, 0, 0)


def key_of(tape, effort="balanced", work=1.0, seed=0, kept_outputs=0):
    return tape_cache.tape_key(tape, Context(Options(effort=effort, seed=seed), work=work), kept_outputs)


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
    assert tape_cache.stored_tape(key, tape, 0) is None
    tape_cache.store_tape(key, made, {})
    actual, _ = tape_cache.stored_tape(key, tape, 0)
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
    cache.store("tapes", key, b"{}\n" + to_bytes(wrong))
    assert tape_cache.stored_tape(key, tape, 0) is None


def test_costlier_programs_are_not_used(folder):
    tape = source()
    longer = Tape(3)
    total = longer.add(longer.multiply(0, 1), longer.multiply(0, 2))
    square = longer.multiply(1, 2)
    longer.outputs = [longer.subtract(longer.add(total, square), square)]
    key = key_of(tape, *GIVEN)
    cache.store("tapes", key, b"{}\n" + to_bytes(longer))
    assert tape_cache.stored_tape(key, tape, 0) is None


def test_changed_tapes_and_notes(folder):
    """With a right checksum: another tape is taken if it computes the same, and nothing raises."""
    tape = canonical(record(changed_files.long_function(60), [np.full(4, 0.4)]).scalars)
    key, content = key_of(tape, *GIVEN), np.frombuffer(to_bytes(tape), np.uint8)
    fields = list(changed_files.of_tape("tape", 0, content))
    generator, points = random.Random(0), np.random.default_rng(0).normal(size=(50, 4))
    taken = 0
    for place in generator.sample(fields, 150):
        parts = changed_files.Content({}, [content.copy()])
        changed_files.change(parts, place, generator)
        cache.store("tapes", key, b"{}\n" + parts.arrays[0].tobytes())
        stored = tape_cache.stored_tape(key, tape, 0)
        if stored is not None:
            taken += 1
            np.testing.assert_allclose(outputs_at(stored[0], points), outputs_at(tape, points), rtol=1e-9, atol=1e-9)
    assert taken < 10
    for notes in (b"[]", b"[" * 100_000, b"", b"{"):
        cache.store("tapes", key, notes + b"\n" + to_bytes(tape))
        assert tape_cache.stored_tape(key, tape, 0) is None


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: content[:40] + b"x" + content[41:]])
def test_damaged_files_are_as_good_as_none(damage, folder):
    tape = source()
    key = key_of(tape, *GIVEN)
    tape_cache.store_tape(key, by_rules(tape), {})
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert tape_cache.stored_tape(key, tape, 0) is None
    cache.store("tapes", key, b"no tape")
    assert tape_cache.stored_tape(key, tape, 0) is None


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
