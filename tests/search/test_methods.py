"""Every registered method on graphs of every shape: verified, counted again by another route, reproducible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_graphs import graphs
from slow_costs import SlowCosts

from accumulus.accumulate.cost import OBJECTIVES, count
from accumulus.errors import UnknownNameError
from accumulus.search.methods import Options, get, methods
from accumulus.search.plan import plan

METHODS = tuple(methods())
#: Enough for graphs of a few vertices, and the same on every machine.
ITERATIONS = 200


def found(graph, method, objective, **options):
    return plan(graph, method, objective, iterations=ITERATIONS, time_limit=1e9, **options)


@pytest.mark.parametrize("method", METHODS)
@given(graph=graphs(sized=True), objective=st.sampled_from(OBJECTIVES))
def test_plans_are_verified_and_cost_what_they_claim(method, graph, objective):
    made = found(graph, method, objective)
    made.verify()
    assert made.cost == count(made.accumulation, objective) == made.costs[objective]
    if made.order is not None:
        assert sorted(made.order) == sorted(graph.intermediates)
        for other in ("fma", "multiplications"):
            assert made.costs[other] == SlowCosts(graph, other).of(made.order)


@given(graph=graphs(sized=True), objective=st.sampled_from(OBJECTIVES), seed=st.integers(-3, 2**70))
def test_auto_is_never_worse_than_any_other(graph, objective, seed):
    best = found(graph, "auto", objective, seed=seed)
    for method in METHODS:
        assert best.cost <= found(graph, method, objective, seed=seed).cost
    assert best.method in METHODS


@pytest.mark.parametrize("method", METHODS)
@given(graph=graphs(sized=True), objective=st.sampled_from(OBJECTIVES), seed=st.integers())
def test_same_seed_same_plan(method, graph, objective, seed):
    once, again = (found(graph, method, objective, seed=seed) for _ in range(2))
    assert once.order == again.order
    assert list(once.accumulation.steps) == list(again.accumulation.steps)
    assert once == again


def test_methods_are_listed_with_what_they_do():
    assert METHODS[:4] == ("forward", "reverse", "markowitz", "vertex")
    assert METHODS[-1] == "auto"
    assert all(methods().values())


def test_unknown_methods_are_named_with_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"unknown method 'vertx'; did you mean 'vertex'.*markowitz"):
        get("vertx")
    with pytest.raises(UnknownNameError):
        get(3)


def test_methods_are_called_with_a_graph_and_options():
    from accumulus.graph.graph import DifferentiationGraph

    graph = DifferentiationGraph([("y", "a"), ("a", "x")])
    assert get("reverse")(graph, Options()).order == (1,)
