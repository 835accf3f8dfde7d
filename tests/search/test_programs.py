"""The choice among orders where programs are what counts: by the emitted tape, or by what the rewriter makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from inside import Context, emit

import accumulus as acc
from accumulus.options import Options
from accumulus.rewriting.optimise import preview
from accumulus.search.registry import SearchResult
from accumulus.search.vertex_orders import Candidate, cheapest_program, greedy_orders


def gravity(x):
    """Accelerations of three bodies in a plane: the fewest products of a plan do not make the shortest program."""
    positions = x.reshape(3, 2)
    pull = np.zeros((3, 2))
    for i in range(3):
        for j in range(3):
            if i != j:
                apart = positions[j] - positions[i]
                pull[i] += apart / np.sqrt(apart @ apart) ** 3
    return pull.ravel()


@pytest.fixture(scope="module")
def graph():
    return acc.trace(gravity, np.arange(6.0)).linearize()


@pytest.fixture(scope="module")
def candidates(graph):
    greedy = greedy_orders(graph, Options().objective)
    return [
        Candidate(SearchResult(graph, each.name, each.order), each.priced.cost, each.priced.additions)
        for each in greedy
    ]


THOROUGH = Options(effort="thorough", time_limit=60.0)


def test_the_emitted_tape_decides(candidates):
    result = cheapest_program(candidates, Context(replace(THOROUGH, optimise=False)))
    fewest = min(candidate.steps for candidate in candidates)
    likely = [candidate for candidate in candidates if candidate.steps <= 1.3 * fewest]
    assert result.cost("operations") == min(candidate.result.cost("operations") for candidate in likely)


def test_the_rewriter_decides_where_it_follows_a_thorough_search(candidates):
    result = cheapest_program(candidates, Context(THOROUGH))
    scores = [preview(emit(candidate.result.accumulation), Context(THOROUGH)) for candidate in candidates]
    assert preview(emit(result.accumulation), Context(THOROUGH)) == min(scores)


def test_of_close_programs_with_choices_the_rewriter_decides():
    A, b = np.eye(4) + 1.0, np.arange(4.0)
    options = {"cache": False, "time_limit": 60.0}  # on a busy machine the default ends the search before its work does
    result = acc.jacobian(np.linalg.solve, 0, **options).compile(A, b)
    reverse = acc.jacobian(np.linalg.solve, 0, method="reverse", **options).compile(A, b)
    assert result.operations <= reverse.operations


def test_additions_are_counted_where_they_are_not_known(candidates):
    for candidate in candidates:
        assert replace(candidate, additions=None).steps == candidate.steps


def test_orders_of_far_more_steps_are_not_counted(candidates, monkeypatch):
    hopeless = [replace(candidate, cost=(candidate.cost[0] + 10_000, 0)) for candidate in candidates[1:]]
    monkeypatch.setattr(SearchResult, "cost", lambda *_: pytest.fail("nothing is to be counted"))
    assert cheapest_program([candidates[0], *hopeless], Context(Options(), 60.0)) is candidates[0].result


def test_equal_counts_are_equal_orders_and_the_simplest_is_taken(candidates, monkeypatch):
    monkeypatch.setattr(SearchResult, "cost", lambda *_: pytest.fail("nothing is to be counted"))
    assert cheapest_program(candidates[:1] * 3, Context(Options(), 60.0)) is candidates[0].result


def test_without_time_the_likeliest_is_taken(candidates):
    likeliest = min(candidates, key=lambda candidate: candidate.steps)
    assert cheapest_program(candidates, Context(THOROUGH, 0.0)) is likeliest.result


@pytest.mark.parametrize("effort", ["fast", "balanced", "thorough"])
@pytest.mark.parametrize("objective", ["operations", "multiplications"])
def test_plans_say_which_method_won(graph, objective, effort):
    plan = acc.plan(graph, objective=objective, effort=effort, cache=False)
    plan.verify()
    assert plan.method in acc.methods()
    assert plan.cost == plan.costs[objective]
    greedy = [acc.plan(graph, name, objective).cost for name in ("forward", "reverse", "markowitz")]
    assert plan.cost <= min(greedy)
