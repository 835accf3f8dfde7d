"""Every registered method on graphs of every shape: verified, counted again by another route, reproducible."""

from __future__ import annotations

import subprocess
import sys

import pytest
from contexts import within
from graph_strategies import graphs
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import count, eliminate_vertices, layered
from slow_costs import SlowCosts

from accumulus import DifferentiationGraph, Kind, methods
from accumulus.errors import UnknownNameError
from accumulus.options import COUNTED, EFFORTS, Objective
from accumulus.search import registry
from accumulus.search.elimination import Workload
from accumulus.search.find import plan as planned
from accumulus.search.registry import get
from accumulus.theory.algebra.sets import expressions
from accumulus.theory.methods.local_jacobians import local_jacobians
from accumulus.theory.methods.pages import pages

METHODS = tuple(methods())
#: Published graphs on which vertices, edges and faces differ.
LION = [("a", "1"), ("b", "1"), ("1", "2"), ("1", "5"), ("2", "3"), ("2", "4"), ("2", "5"), ("2", "6")]
BAT = [("a", "2"), ("b", "2"), ("c", "3"), ("d", "3"), ("2", "4"), ("3", "4"), ("2", "5"), ("3", "7")]
BAT += [("4", "5"), ("4", "6a"), ("4", "6b"), ("4", "7")]
#: Enough for graphs of a few vertices, and the same on every machine.
ITERATIONS = 200


def plan(*arguments, **options):
    """A plan that is searched for, whatever has been found before."""
    return planned(*arguments, cache=False, **options)


def found(graph, method, objective, **options):
    return plan(graph, method, objective, iterations=ITERATIONS, time_limit=1e9, **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", METHODS)
@given(graph=graphs(sized=True), objective=st.sampled_from(COUNTED))
def test_plans_are_verified_and_have_the_claimed_cost(method, graph, objective):
    made = found(graph, method, objective)
    made.verify()
    assert made.cost == count(made.accumulation, objective) == made.costs[objective]
    if made.order is not None:
        assert sorted(made.order) == sorted(graph.intermediates)
        for other in (Objective.FMA, Objective.MULTIPLICATIONS):
            assert made.costs[other] == SlowCosts(graph, other).of(made.order)


@given(graph=graphs(sized=True), objective=st.sampled_from(COUNTED), seed=st.integers(-3, 2**70))
def test_auto_is_never_worse_than_any_other(graph, objective, seed):
    best = found(graph, "auto", objective, seed=seed)
    for method in METHODS:
        assert best.cost <= found(graph, method, objective, seed=seed).cost
    assert best.method in METHODS


@settings(max_examples=8)
@given(graph=graphs(vertices=16), objective=st.sampled_from(COUNTED))
def test_auto_is_never_worse_on_graphs_of_some_hundred_products(graph, objective):
    assume(found(graph, "face", objective).costs["fma"] <= registry.SMALL)
    best = found(graph, "auto", objective)
    assert best.cost <= min(found(graph, method, objective).cost for method in METHODS)


@pytest.mark.parametrize(
    ("edges", "method", "optimum"),
    [
        (LION, "vertex", 12),
        (LION, "edge", 11),
        (LION, "face", 11),
        (LION, "auto", 11),
        (BAT, "vertex", 24),
        (BAT, "edge", 23),
        (BAT, "face", 22),
        (BAT, "auto", 22),
    ],
)
def test_known_optima(edges, method, optimum):
    made = plan(DifferentiationGraph(edges), method, "fma", time_limit=1e9)
    assert made.cost == optimum


@settings(max_examples=25)
@given(graph=graphs(sized=True), objective=st.sampled_from(COUNTED), effort=st.sampled_from(EFFORTS))
def test_faces_are_never_worse_than_edges_and_these_than_vertices(graph, objective, effort):
    vertices, edges, faces = (
        found(graph, method, objective, effort=effort).cost for method in ("vertex", "edge", "face")
    )
    assert faces <= edges <= vertices


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=10)
@given(graph=graphs(sized=True))
def test_plans_are_expressions(method, graph):
    made = found(graph, method, "multiplications")
    written = expressions(made)
    written.to_accumulation(graph).verify()
    assert written.cost("multiplications", graph) <= made.cost
    assert set(written.entries) == {
        (graph.vertices[graph.roots[row]], graph.vertices[graph.terminals[column]])
        for row, column in made.accumulation.entries
    }


@pytest.mark.parametrize("method", ["edge", "face", "auto"])
@pytest.mark.parametrize("calls", [1, 3, 20, 100])
@pytest.mark.parametrize("objective", ["fma", "operations"])
def test_ctrl_c_hands_back_the_best_so_far(method, calls, objective):
    costs = []

    def interrupt(progress):
        costs.append(progress.cost)
        if len(costs) == calls:
            raise KeyboardInterrupt

    graph = DifferentiationGraph(BAT)
    made = plan(graph, method, objective, progress=interrupt, time_limit=1e9)
    assert len(costs) == calls
    assert made.cost <= plan(graph, objective=objective, time_limit=0).cost
    # operations of edges and faces are counted at the end
    assert made.cost == costs[-1] if objective == "fma" else made.cost <= costs[-1]


@pytest.mark.parametrize("method", METHODS)
def test_a_short_time_limit_still_gives_a_plan(method):
    for limit in (0, 1e-9):
        plan(DifferentiationGraph(BAT), method, time_limit=limit).verify()


@given(graph=graphs())
def test_sweeps_are_counted_before_they_are_run(graph):
    work = Workload.of(graph)
    assert work.forward >= plan(graph, "forward", "fma").cost
    assert work.reverse >= plan(graph, "reverse", "fma").cost


def test_counts_are_exact_where_nothing_is_dead_or_parallel():
    for edges in (LION, BAT):
        graph = DifferentiationGraph(edges)
        work = Workload.of(graph)
        assert (work.forward, work.reverse) == tuple(plan(graph, m, "fma").cost for m in ("forward", "reverse"))
        assert work.pairs == len(graph.roots) * len(graph.terminals)
    chain = Workload.of(DifferentiationGraph([(k, k + 1) for k in range(9)] + [(0, 9)]))
    assert (chain.levels, chain.segments, chain.edges) == (9, 18, 10)


def test_large_graphs_are_counted_by_bounds(monkeypatch):
    graph = DifferentiationGraph(BAT)
    exact = Workload.of(graph)
    monkeypatch.setattr("accumulus.search.elimination.COUNTED", 0)
    assert Workload.of(graph).forward >= exact.forward
    assert Workload.of(graph).reverse >= exact.reverse


@pytest.mark.parametrize(("effort", "run"), [("fast", False), ("balanced", False), ("thorough", True)])
def test_auto_skips_methods_that_do_not_pay_off_on_large_graphs(effort, run, monkeypatch):
    # dense layers: many products, so that every procedure takes longer than its share
    layers = [(f"{a}.{i}", f"{a + 1}.{j}") for a in range(7) for i in range(6) for j in range(6)]
    called = []
    monkeypatch.setattr(
        "accumulus.theory.methods.pages.pages",
        lambda graph, **_: called.append(graph) or eliminate_vertices(graph, order),
    )
    graph = DifferentiationGraph(layers)
    order = graph.intermediates
    plan(graph, effort=effort, iterations=10, time_limit=1e9)
    assert bool(called) == run
    plan(graph, effort=effort, iterations=10, time_limit=1e-9)
    assert len(called) == run


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=10)
@given(graph=graphs(sized=True), objective=st.sampled_from(COUNTED), seed=st.integers())
def test_same_seed_same_plan(method, graph, objective, seed):
    once, again = (found(graph, method, objective, seed=seed) for _ in range(2))
    assert once.order == again.order
    assert list(once.accumulation.steps) == list(again.accumulation.steps)
    assert once == again


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", METHODS)
def test_methods_take_layered_graphs_of_hundreds_of_vertices(method):
    graph = layered(layers=20, width=10, degree=3, seed=1)
    made = plan(graph, method, iterations=100, time_limit=1e9)
    assert made.cost == count(made.accumulation, "multiplications")


def test_methods_are_listed_with_descriptions():
    vertices = ("vertex", "edge-pushing", "symmetric")
    assert METHODS[:8] == ("forward", "reverse", "markowitz", *vertices, "edge", "face")
    assert METHODS[-1] == "auto"
    assert all(methods().values())


def test_neither_a_derivative_nor_the_command_line_imports_the_theory():
    code = """
import sys
import numpy as np
import accumulus as acc, accumulus.cli
acc.jacobian(lambda x: np.sin(x[0] * x[1]) * x, cache=False)(np.ones(3))
sys.exit(any(name.startswith("accumulus.theory") for name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_methods_are_named_with_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"unknown method 'vertx'; did you mean 'vertex'.*markowitz"):
        get("vertx")
    with pytest.raises(UnknownNameError):
        get(3)


def test_methods_are_called_with_a_graph_and_options():
    graph = DifferentiationGraph([("y", "a"), ("a", "x")])
    assert get("reverse")(graph, within(objective=Objective.MULTIPLICATIONS)).order == (1,)


@given(graph=graphs(), literal=st.booleans())
def test_products_with_units_are_formed_or_not(graph, literal):
    for counted in (True, False):
        pages(graph, literal=literal, unit_products=counted).verify()
        made = local_jacobians(graph, simple_first=False, unit_products=counted)
        made.verify()
        units = [
            e < len(graph.kinds) and graph.kinds[e] == Kind.ONE
            for is_product, *factors in made.steps
            for e in factors
            if is_product
        ]
        assert counted or not any(units)


def test_local_jacobians_form_products_with_units_under_fma():
    graph = DifferentiationGraph([("y", "a", 1), ("y", "b"), ("a", "x"), ("a", "z"), ("b", "x"), ("b", "z")])
    for method in ("local-jacobians", "pages"):
        assert [
            plan(graph, method, objective).costs["fma"] for objective in (Objective.FMA, Objective.MULTIPLICATIONS)
        ] == [4, 2]
