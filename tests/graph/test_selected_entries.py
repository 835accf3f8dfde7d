"""Entries that are selected: the edges on their paths, the plans that make no more, and their verification."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from exact import exact_jacobian, exact_values
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import emit
from programs import programs

import accumulus as acc
from accumulus import Accumulation, load_plan, save_plan
from accumulus.errors import ArgumentError, VerificationError
from accumulus.graph.linearize import linearize
from accumulus.search.plan import graph_hash
from accumulus.theory.methods.dstar import dstar

RATIONAL = ("add", "subtract", "multiply", "negative")


def dense(n):
    """All results of a function whose Jacobian is dense, of two layers."""

    def f(x):
        return np.sin(np.cos(x * np.sum(x)) @ np.arange(1.0, 1.0 + n * n).reshape(n, n))

    return acc.trace(f, np.linspace(0.1, 0.9, n)).tape


@pytest.mark.parametrize(
    "method", ["forward", "reverse", "markowitz", "vertex", "auto", "face", "dstar", "exact-vertex"]
)
def test_plans_compute_selected_entries_only(method):
    tape = dense(4)
    whole = acc.plan(linearize(tape).graph, method, cache=False)
    for expected in ([(1, 2)], [(0, 0), (1, 1), (2, 2), (3, 3)], list(itertools.product(range(4), [0, 3]))):
        actual = linearize(tape, selected=expected)
        plan = acc.plan(actual.graph, method, cache=False)
        plan.verify()
        rows = [k for k, row in enumerate(actual.rows) if row >= 0]
        assert [(rows[row], column) for row, column in plan.accumulation.entries] == expected
        assert plan.cost < whole.cost
        assert plan.lower_bound is None


@pytest.mark.parametrize("sides", ["both", "roots", "terminals"])
@given(programs(RATIONAL, inputs=3, steps=25), st.data())
@settings(max_examples=40)
def test_factors_of_selected_entries_alone(sides, program, data):
    """D* tells entries apart: those that are not selected have parts of paths, which are no entries."""
    tape = program.tape()
    entries = list(itertools.product(range(len(tape.outputs)), range(3)))
    graph = linearize(tape, selected=data.draw(st.lists(st.sampled_from(entries), unique=True))).graph
    result = dstar(graph, sides=sides)
    result.verify()
    assert set(result.entries) == set(acc.plan(graph, "forward", cache=False).accumulation.entries)


def test_factors_of_selected_entries_of_a_solution():
    """Of a system of equations: where it was seen that they were not told apart."""

    def f(A):
        return np.linalg.solve(A + 4.0 * np.eye(3), A)

    tape = acc.trace(f, np.arange(9.0).reshape(3, 3)).tape
    for expected in ([(0, 0)], [(8, 0), (2, 2)]):
        graph = linearize(tape, selected=expected).graph
        for method in ("dstar", "auto"):
            acc.plan(graph, method, effort="thorough", cache=False).verify()


@given(programs(RATIONAL, inputs=3, steps=12), st.data())
@settings(max_examples=25)
def test_selected_entries_are_those_of_the_whole_jacobian(program, data):
    tape = program.tape()
    entries = list(itertools.product(range(len(tape.outputs)), range(3)))
    reference = data.draw(st.lists(st.sampled_from(entries), unique=True))
    actual = linearize(tape, selected=reference)
    plan = acc.plan(actual.graph, "vertex", iterations=50, cache=False)
    values = exact_values(emit(plan.accumulation), [0.5, -1.25, 3.0])[len(tape.outputs) :]
    expected = exact_jacobian(tape, [0.5, -1.25, 3.0])
    computed = dict(zip(plan.accumulation.entries, values, strict=True))
    assert all(computed.get((actual.rows[k], column), 0) == expected[k][column] for k, column in reference)


def test_wrong_and_unwanted_entries_are_noticed():
    graph = linearize(dense(3), selected=[(0, 0), (1, 2), (2, 2)]).graph
    made = acc.plan(graph, "reverse", cache=False).accumulation
    entries = dict(made.entries)
    first, second, third = entries
    with pytest.raises(VerificationError, match="does not compute the derivatives"):
        Accumulation(
            graph, made.steps, {first: entries[second], second: entries[first], third: entries[third]}
        ).verify()
    del entries[second]
    with pytest.raises(VerificationError, match="does not compute the derivatives"):
        Accumulation(graph, made.steps, entries).verify()
    with pytest.raises(VerificationError, match="only the entries that the graph lists"):
        Accumulation(graph, made.steps, {**made.entries, (0, 1): 0}).verify()


def test_plans_of_selected_entries_are_separate_files(tmp_path):
    tape = dense(3)
    graph, other = (linearize(tape, selected=[(0, 0), (1, column)]).graph for column in (0, 1))
    assert graph_hash(graph) != graph_hash(other)
    plan = acc.plan(graph, cache=False)
    save_plan(plan, tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json", graph).accumulation.entries == plan.accumulation.entries
    with pytest.raises(acc.errors.PlanError, match="selected entries differ"):
        load_plan(tmp_path / "plan.json", other)


def test_entries_that_are_not_there_are_refused():
    for expected in ([(3, 0)], [(0, -1)], [(0, 0, 0)]):
        with pytest.raises(ArgumentError, match="selected"):
            linearize(dense(3), selected=expected)
