"""`accumulus.plan`: orders that are given, limits, interrupts, and arguments that cannot be."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from graph_strategies import graphs, orders
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Steps, eliminate_vertices

from accumulus import Accumulation, DifferentiationGraph, load_graph, plan
from accumulus.errors import ArgumentError, OrderError, UnknownNameError, VerificationError
from accumulus.search import vertex_orders
from accumulus.search.registry import SearchResult

CHAIN = DifferentiationGraph(
    [("y", "a"), ("z", "a"), ("a", "b"), ("b", "c"), ("c", "x"), ("z", "c"), ("a", "c")], name="chain"
)


@pytest.fixture
def roe(graph_folder):
    return load_graph(graph_folder / "RoeFlux_1d.json")


@given(graph=graphs(), data=st.data(), objective=st.sampled_from(["fma", "multiplications", "operations"]))
def test_given_orders(graph, data, objective):
    order = data.draw(orders(graph))
    made = plan(graph, objective=objective, order=[graph.vertices[v] for v in order])
    assert (made.method, made.order, made.objective) == ("order", tuple(order), objective)
    assert list(made.accumulation.steps) == list(eliminate_vertices(graph, order).steps)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["a", "b"], "leaves out 'c'"),
        (["a", "b", "c", "a"], "names 'a' 2 times"),
        (["a", "b", "c", "q"], "names 'q', which is not a vertex"),
        (["a", "b", "c", "y"], "names 'y', which is not an intermediate"),
        ([["a"], "b", "c"], "not a vertex"),
        ([0, 1, 2], "names 0, which is not a vertex"),
    ],
)
def test_wrong_orders(order, message):
    with pytest.raises(OrderError, match=message):
        plan(CHAIN, order=order)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"time_limit": -1}, "time_limit is -1; expected at least 0"),
        ({"time_limit": math.nan}, "time_limit is nan"),
        ({"time_limit": "fast"}, "time_limit is 'fast'; expected a number"),
        ({"time_limit": None}, "time_limit is None"),
        ({"time_limit": True}, "time_limit is True"),
        ({"seed": 1.5}, "seed is 1.5; expected a whole number"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"iterations": -1}, "iterations is -1; expected at least 0"),
        ({"iterations": 1e6}, "iterations is 1000000.0; expected a whole number"),
        ({"progress": 3}, "progress is 3; expected True"),
        ({"order": "abc"}, "order is 'abc'; expected the names"),
        ({"order": 5}, "order is 5; expected the names"),
        ({"order": ["a", "b", "c"], "method": "vertex"}, "both method='vertex' and an order"),
    ],
)
def test_impossible_arguments(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        plan(CHAIN, **arguments)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"method": "nothing"}, "markowitz"),
        ({"objective": "flops"}, "multiplications, operations"),
        ({"effort": "total"}, "balanced, fast, thorough"),
    ],
)
def test_unknown_names_come_with_the_known_ones(arguments, names):
    with pytest.raises(UnknownNameError, match=names):
        plan(CHAIN, **arguments)


@pytest.mark.parametrize("graph", [None, "graph.json", [("y", "x")], lambda x: x])
def test_objects_that_are_no_graph(graph):
    with pytest.raises(ArgumentError, match="expected a DifferentiationGraph"):
        plan(graph)


@pytest.mark.parametrize("limit", [0, 0.0, np.float32(0.0), np.int64(0)])
@pytest.mark.parametrize("objective", ["fma", "multiplications", "operations"])
def test_without_time_the_best_greedy_plan(roe, monkeypatch, limit, objective):
    monkeypatch.setattr(vertex_orders, "OrderAnnealing", None)  # nothing is searched
    made = plan(roe, objective=objective, time_limit=limit)
    assert made.cost == min(plan(roe, method, objective).cost for method in ("forward", "reverse", "markowitz"))
    assert made.method in ("forward", "reverse", "markowitz")
    assert plan(roe, objective=objective, iterations=0).order == made.order


@pytest.mark.parametrize("objective", ["multiplications", "operations"])
@pytest.mark.parametrize("calls", [1, 2, 5, 9])
def test_ctrl_c_hands_back_the_best_so_far(roe, objective, calls):
    costs = []

    def interrupt(progress):
        costs.append(progress.cost)
        if len(costs) == calls:
            raise KeyboardInterrupt

    greedy = plan(roe, objective=objective, time_limit=0).cost
    made = plan(roe, objective=objective, effort="thorough", time_limit=600, progress=interrupt)
    assert made.cost <= greedy
    assert len(costs) == calls
    if objective == "multiplications":
        assert made.cost == costs[-1]


def test_progress_receives_the_best_cost(roe):
    costs = []
    made = plan(roe, objective="fma", progress=lambda progress: costs.append(progress.cost))
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == made.cost


def test_a_short_time_limit_still_gives_a_plan(roe):
    made = plan(roe, time_limit=1e-9)
    assert made.cost <= plan(roe, time_limit=0).cost


def test_an_endless_time_limit_ends_when_the_search_stalls():
    assert plan(CHAIN, time_limit=math.inf).cost == plan(CHAIN).cost


@settings(max_examples=20)
@given(graph=graphs(sized=True), iterations=st.integers(0, 40), seed=st.integers(0, 5))
def test_more_iterations_are_never_worse_from_the_same_seed_than_none(graph, iterations, seed):
    for objective in ("fma", "operations"):
        searched = plan(graph, "vertex", objective, seed=seed, iterations=iterations, time_limit=1e9)
        assert searched.cost <= plan(graph, "vertex", objective, time_limit=0).cost


def test_the_text_of_a_plan():
    made = plan(CHAIN, objective="fma")
    assert repr(made) == f"<plan of chain by {made.method}: {made.cost} fma>"
    assert made.costs["fma"] == made.cost
    assert set(made.costs) == {"fma", "multiplications", "operations"}
    assert made.seconds > 0
    assert made.seed == 0
    with pytest.raises(FrozenInstanceError):
        made.cost = 0


def test_a_wrong_plan_of_a_method_is_detected(monkeypatch):
    right = eliminate_vertices(CHAIN, CHAIN.intermediates)
    steps = Steps(len(CHAIN.sources))
    for k, (is_product, left, right_) in enumerate(right.steps):
        (steps.product if is_product else steps.sum)(left, 0 if k == 1 else right_)
    wrong = Accumulation(CHAIN, steps, right.entries)
    with pytest.raises(VerificationError):
        replace(plan(CHAIN), accumulation=wrong).verify()

    monkeypatch.setattr(SearchResult, "accumulation", wrong)
    with pytest.raises(VerificationError, match="please report"):
        plan(CHAIN)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cost": 1}, "states a cost of 1 fma and a lower bound of .*; its cost is"),
        ({"lower_bound": 10**9}, "a lower bound of 1000000000"),
        ({"order": (0,)}, "expected every intermediate vertex once"),
        ({"graph": DifferentiationGraph([("y", "x")])}, "for another graph than the plan"),
    ],
)
def test_claims_of_a_plan_are_checked(changes, message):
    made = plan(CHAIN, "vertex", "fma", cache=False)
    made.verify()
    with pytest.raises(VerificationError, match=message):
        replace(made, **changes).verify()
