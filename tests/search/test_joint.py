"""The last stage of a thorough search: orders scored by what the tape's optimiser makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import accumulus as acc
from accumulus.deadline import Deadline
from accumulus.elimination.emit import emit
from accumulus.options import Options
from accumulus.rewriting.optimise import preview
from accumulus.search.joint import cheapest_program
from accumulus.search.registry import get


def gravity(x):
    """Accelerations of three bodies in a plane: the fewest operations of a plan do not make the shortest program."""
    place = x.reshape(3, 2)
    pull = np.zeros((3, 2))
    for i in range(3):
        for j in range(3):
            if i != j:
                apart = place[j] - place[i]
                pull[i] += apart / np.sqrt(apart @ apart) ** 3
    return pull.ravel()


@pytest.fixture(scope="module")
def graph():
    return acc.trace(gravity, np.arange(6.0)).linearize()


def test_the_cheapest_of_all_candidates_is_taken(graph):
    options = Options(effort="thorough", time_limit=60.0)
    best = get("reverse")(graph, options)
    found = cheapest_program(graph, options, Deadline(options.time_limit), best)
    assert preview(emit(found.accumulation)) <= preview(emit(best.accumulation))
    for name in ("markowitz", "forward"):
        other = get(name)(graph, options).accumulation
        assert preview(emit(found.accumulation)) <= preview(emit(other))
    found.accumulation.verify()


def test_plans_say_which_method_won(graph):
    plan = acc.plan(graph, objective="operations", effort="thorough", cache=False)
    plan.verify()
    assert plan.method in acc.methods()
    assert plan.cost == plan.costs["operations"]


def test_other_objectives_are_not_concerned(graph):
    plans = [acc.plan(graph, objective="multiplications", effort=e, cache=False) for e in ("balanced", "thorough")]
    assert plans[1].cost <= plans[0].cost


def test_without_time_the_best_so_far_is_kept(graph):
    options = Options(objective="operations", effort="thorough", time_limit=0.0)
    best = get("reverse")(graph, options)
    assert cheapest_program(graph, options, Deadline(options.time_limit), best) is best
