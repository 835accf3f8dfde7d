"""Choices of definitions by integer programs: against all choices there are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import accumulus as acc
from accumulus.deadline import FOREVER, Deadline
from accumulus.options import SWITCH
from accumulus.resubstitution import optimise as tape_cache
from accumulus.resubstitution.compiled.definitions_kernel import COPY
from accumulus.resubstitution.extraction import Extraction, cheaper
from accumulus.resubstitution.values import PRICES, Definition, DefinitionTable
from accumulus.tape.operations import UNIT
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, Tape, to_bytes

GIVEN = (1, 2)
MADE = tuple(range(3, 10))


@st.composite
def definitions(draw):
    """Of up to seven values, from two that are given."""
    nodes = MADE[: draw(st.integers(1, len(MADE)))]
    found = set()
    for node in nodes:
        for _ in range(draw(st.integers(1, 3))):
            code = draw(st.sampled_from([ADD, MULTIPLY, DIVIDE, COPY]))
            there = [value for value in (*GIVEN, *nodes) if value != node]
            arguments = [draw(st.sampled_from(there)) for _ in range(1 if code == COPY else 2)]
            found.add(Definition(node, code, tuple(draw(st.sampled_from([1, -1])) * a for a in arguments), 1))
    return sorted(found), draw(st.sets(st.sampled_from(nodes), min_size=1))


def all_choices(every, roots):
    """What each choice without circles costs, and the choice."""
    of_node = {}
    for each in every:
        of_node.setdefault(each.node, []).append(each)
    for way in product(*of_node.values()):
        chosen = {each.node: each for each in way}
        live, waiting = {}, list(roots)
        while waiting:
            node = waiting.pop()
            if node in chosen and node not in live:
                live[node] = chosen[node]
                waiting += map(abs, chosen[node].arguments)
        if is_made(live):
            yield sum(PRICES[each.code] for each in live.values()), live


def is_made(live):
    made = set(GIVEN)
    while new := {n for n, each in live.items() if n not in made and {*map(abs, each.arguments)} <= made}:
        made |= new
    return made >= live.keys()


@settings(max_examples=60)
@given(definitions(), st.data())
def test_the_cheapest_of_all_choices_is_found_and_proved(drawn, data):
    every, roots = drawn
    choices = list(all_choices(every, roots))
    assume(choices)
    least = min(cost for cost, _ in choices)
    cost, known = data.draw(st.sampled_from(choices))
    found, proof = cheaper(every, roots, known, PRICES, FOREVER)
    assert (found is None) == (cost == least)
    if proof is not None:  # there was something to choose
        assert proof.bound == least
    if found is not None:
        assert is_made(found)
        assert roots <= found.keys()
        assert {*found.values()} <= {*every}
        assert sum(PRICES[each.code] for each in found.values()) == least


@settings(max_examples=20)
@given(definitions())
def test_annealing_and_the_integer_program_agree(drawn):
    every, roots = drawn
    choices = list(all_choices(every, roots))
    assume(choices)
    known = choices[0][1]
    table = DefinitionTable()
    numbers = {each: table.add(each) for each in every}
    start = {node: numbers[each] for node, each in known.items()}
    extraction = Extraction(max(MADE) + 1, table, np.array([*numbers.values()]), roots, start, PRICES, UNIT)
    extraction.anneal(20_000, FOREVER)
    annealed = extraction.best_cost
    found, _ = extraction.exact(FOREVER)
    assert sum(PRICES[each.code] for each in found.values()) == annealed == min(cost for cost, _ in choices)


def test_larger_circles_are_no_programs():
    """Three values that are made of each other for 3, and by what is given for more."""
    ring = [Definition(3 + k, ADD, (3 + (k + 1) % 3, 1), 1) for k in range(3)]
    entry = [Definition(3, DIVIDE, (1, 2), 1)]
    found, proof = cheaper([*ring, *entry, Definition(4, DIVIDE, (1, 5), 1)], {3, 4, 5}, {
        3: entry[0], 4: Definition(4, DIVIDE, (1, 5), 1), 5: ring[2],
    }, PRICES, FOREVER)  # fmt: skip
    assert proof.bound == PRICES[DIVIDE] + 2 * UNIT
    assert found == {3: entry[0], 4: ring[1], 5: ring[2]}


def test_without_time_nothing_is_said():
    every = [Definition(3, ADD, (1, 2), 1)]
    assert cheaper(every, {3}, {3: every[0]}, PRICES, Deadline(0.0)) == (None, None)


def third_row(q):
    """The third row of a rotation, and what it is beside the other two."""
    (a, b, c), (s, t, u) = np.cos(q), np.sin(q)
    first, second = np.array([b * c, -b * u, t]), np.array([a * u + s * t * c, a * c - s * t * u, -s * b])
    return np.cross(first, second), np.array([s * u - a * t * c, s * c + a * t * u, a * b])


def test_reports_say_that_nothing_is_cheaper_from_the_cache_too(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path))
    monkeypatch.setenv(SWITCH, "1")
    facts = []
    for _ in range(2):
        program = acc.compile(third_row, effort="thorough", time_limit=30.0).compile(np.ones(3))
        facts.append(program.report().by_value)
        assert program.by_value.least.bound % UNIT == 0
        assert "no program by" in str(program.report())
    assert "optimise" in program.from_cache
    assert facts[0] == facts[1]
    assert facts[0].excess == 0.0


def test_notes_are_those_of_their_tape(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path))
    tapes = [Tape(2), Tape(2)]
    for tape, name in zip(tapes, ("add", "multiply"), strict=True):
        tape.outputs = [tape.apply(name, 0, 1)]
    tape_cache.store_tape("key", tapes[0], {"least": (1, 2, 3)})
    found, notes = tape_cache.stored_tape("key", tapes[0], 0)
    assert to_bytes(found) == to_bytes(tapes[0])
    assert notes == {"least": [1, 2, 3]}
    assert tape_cache.stored_tape("key", tapes[1], 0) is None
    assert tape_cache.stored_tape("other", tapes[0], 0) is None


@pytest.mark.parametrize("time_limit", [0.0, 0.05])
def test_what_is_said_holds_whatever_the_time(time_limit):
    program = acc.compile(third_row, effort="thorough", time_limit=time_limit, cache=False).compile(np.ones(3))
    assert program.report().by_value.tested >= 16
    assert program.by_value.excess is None or program.by_value.excess >= 0.0
