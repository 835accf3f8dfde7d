"""The search under "operations": its model of the emitted tape against the tape itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from graph_strategies import graphs, orders
from hypothesis import assume, given
from hypothesis import strategies as st
from programs import programs

from accumulus.elimination.cost import count
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.linearize import linearize
from accumulus.native.state import interpret
from accumulus.objective import Objective
from accumulus.search import sharing
from accumulus.search.compiled.sharing_kernel import anneal
from accumulus.search.elimination import Elimination
from accumulus.search.find import plan
from accumulus.search.pricing import cost_of_order
from accumulus.search.sharing import UNCOUNTED, Sharing
from accumulus.tape.tape import Tape


def model(graph: DifferentiationGraph) -> Sharing:
    state = Elimination(graph, Objective.OPERATIONS)
    order = (*state.intermediates, *state.dead)
    products, _ = cost_of_order(graph, order, Objective.FMA)
    return Sharing(graph, state, 4 * products)


def counted(graph: DifferentiationGraph, order: list[int]) -> int:
    return count(eliminate_vertices(graph, order), "operations")


def agrees_on_differences(graph: DifferentiationGraph, some_orders: list[list[int]]) -> None:
    modelled = model(graph)
    differences = [modelled.count_operations(order) - counted(graph, order) for order in some_orders]
    assert all(a == b for a, b in pairwise(differences))


@given(graph=graphs(), data=st.data())
def test_the_model_is_off_by_the_same_for_all_orders(graph, data):
    """On graphs of symbols; sums of known numbers, which the tape folds, it does not know."""
    edges = [
        (graph.vertices[j], graph.vertices[i])
        for j, i in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    ]
    names = graph.vertices
    ends = [names[v] for v in graph.roots], [names[v] for v in graph.terminals]
    plain = DifferentiationGraph(edges, *ends, sizes=dict.fromkeys(names, 1))  # ends without edges are meant
    assume(len(Elimination(plain, Objective.OPERATIONS).intermediates) >= 2)
    agrees_on_differences(plain, [data.draw(orders(plain)) for _ in range(3)])


def rotation_chain(links: int) -> DifferentiationGraph:
    """Positions of a planar arm: sums and products that the function and its Jacobian share."""
    tape = Tape(links)
    angle, x, y = tape.constant(0.0), tape.constant(0.0), tape.constant(0.0)
    for k in range(links):
        angle = tape.add(angle, k)
        x = tape.add(x, tape.apply("cos", angle))
        y = tape.subtract(y, tape.multiply(x, tape.apply("sin", angle)))
    tape.outputs = [x, y, tape.multiply(x, y)]
    return linearize(tape).graph


def test_what_the_function_computes_is_shared():
    graph = rotation_chain(4)
    rng = np.random.default_rng(0)
    agrees_on_differences(graph, [rng.permutation(graph.intermediates).tolist() for _ in range(20)])


def choices() -> DifferentiationGraph:
    """Values under conditions, added and multiplied."""
    tape = Tape(3)
    x, y, z = range(3)
    below = tape.apply("less", x, y)
    first = tape.select(below, tape.multiply(x, y), tape.apply("exp", z))
    second = tape.select(below, first, tape.multiply(first, z))
    tape.outputs = [tape.multiply(second, tape.add(first, z)), second]
    return linearize(tape).graph


def test_conditions_are_kept_apart_from_values():
    graph = choices()
    modelled = model(graph)
    rng = np.random.default_rng(0)
    for _ in range(10):
        order = rng.permutation(graph.intermediates).tolist()
        assert abs(modelled.count_operations(order) - (counted(graph, order) - 12)) <= 12


@given(program=programs(), seed=st.integers(0, 9))
def test_no_greedy_order_of_a_function_takes_fewer_operations(program, seed):
    graph = linearize(program.tape()).graph
    found = plan(graph, objective="operations", iterations=100, time_limit=1e9, seed=seed)
    for method in ("forward", "reverse", "markowitz"):
        assert found.cost <= plan(graph, method, "operations").cost


@pytest.mark.parametrize("graph", [rotation_chain(3), rotation_chain(12), choices()], ids=str)
def test_machine_code_does_what_python_does(graph, monkeypatch):
    monkeypatch.setattr(sharing, "SLICE", 1e6)  # Python's log of writes lasts for one call
    start = Elimination(graph, Objective.OPERATIONS).intermediates
    expected, search = model(graph), model(graph)
    monkeypatch.setattr(search, "_run", lambda _: interpret(anneal, search._state))
    assert list(search.run(start, 150, (3,))) == list(expected.run(start, 150, (3,)))
    assert search.best == expected.best
    for name in ("order", "passed", "rows", "values", "guards", "keys", "nodes"):
        assert getattr(search._state, name).tolist() == getattr(expected._state, name).tolist()
    assert (search._state.total, search._state.at) == (expected._state.total, expected._state.at)


@pytest.mark.parametrize("slice_", [1, 7, 10**6])
def test_slices_do_not_change_a_run(monkeypatch, slice_):
    graph = rotation_chain(5)
    start = Elimination(graph, Objective.OPERATIONS).intermediates
    expected = model(graph)
    list(expected.run(start, 200, (3,)))
    monkeypatch.setattr(sharing, "SLICE", slice_)
    search = model(graph)
    list(search.run(start, 200, (3,)))
    assert search.best == expected.best


def test_the_best_order_costs_what_the_search_says():
    graph = rotation_chain(6)
    search = model(graph)
    start = Elimination(graph, Objective.OPERATIONS).intermediates
    offset = counted(graph, list(start)) - search.count_operations(start)
    for cost in search.run(start, 2_000, (1,)):
        assert cost == search.best[0]
    assert counted(graph, list(search.best[1])) == cost + offset
    assert cost + offset < counted(graph, list(start))


def test_orders_of_too_many_products_are_passed_over():
    edges = [(f"y{k}", "a") for k in range(40)] + [("a", "b"), ("b", "c")] + [("c", f"x{k}") for k in range(40)]
    graph = DifferentiationGraph(edges)
    state = Elimination(graph, Objective.OPERATIONS)
    a, b, c = (graph.vertices.index(name) for name in "abc")
    good, bad = (b, a, c), (a, c, b)
    search = Sharing(graph, state, products=10)
    assert search.count_operations(bad) == UNCOUNTED
    assert list(search.run(bad, 100, (1,))) == []
    roomy = Sharing(graph, state, products=1_700)
    assert roomy.count_operations(good) == 1 + 40 + 1600
    assert roomy.best == (1641, good)
