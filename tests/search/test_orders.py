"""Greedy and annealed vertex orders against the definition, and against all orders of small graphs."""

from __future__ import annotations

import math
import random

import pytest
from graph_strategies import graphs, orders
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Context, count, eliminate_vertices, interpret, layered, price
from slow_costs import SlowCosts

from accumulus import DifferentiationGraph, load_graph, plan
from accumulus.elimination.vertex import Limit, markowitz_order
from accumulus.graph.generators import random_dag
from accumulus.options import Objective, Options
from accumulus.search import elimination, vertex_orders
from accumulus.search.compiled import order_kernel
from accumulus.search.elimination import Elimination, forward_order, reverse_order
from accumulus.search.registry import get
from accumulus.search.vertex_orders import OrderAnnealing, greedy_orders

COUNTED = st.sampled_from([Objective.FMA, Objective.MULTIPLICATIONS])


def big_graph(vertices: int, seed: int, reach: int = 30) -> DifferentiationGraph:
    """A graph of more vertices than two words have bits."""
    rng = random.Random(seed)
    edges = [
        (v, max(0, v - rng.randint(1, reach)), rng.choice([None, None, 1, -1, 2.5]))
        for v in range(5, vertices)
        for _ in range(rng.randint(1, 3))
    ]
    return DifferentiationGraph(edges)


@given(graph=graphs(sized=True), objective=COUNTED, data=st.data())
def test_costs_of_orders(graph, objective, data):
    order = data.draw(orders(graph))
    cost, _ = price(graph, order, objective).cost
    assert cost == SlowCosts(graph, objective).of(order) == count(eliminate_vertices(graph, order), objective)
    assert price(graph, order, objective, Limit(cost)) is not None
    if cost:
        assert price(graph, order, objective, Limit(cost - 1)) is None


@given(graph=graphs(sized=True), objective=COUNTED, data=st.data())
def test_the_kernel_costs_orders_as_accumulations_are_counted(graph, objective, data):
    order = data.draw(orders(graph))
    state = Elimination.of(graph, objective)
    if len(state.intermediates) >= 2:
        (cost, tie), best = OrderAnnealing(state, objective, order).best
        accumulation = eliminate_vertices(graph, order)
        other = Objective.MULTIPLICATIONS if objective is Objective.FMA else Objective.FMA
        assert (cost, tie) == (count(accumulation, objective), count(accumulation, other))
        assert best == tuple(v for v in order if v not in state.dead)


@pytest.mark.parametrize("vertices", [70, 140, 300])
@pytest.mark.parametrize("objective", [Objective.FMA, Objective.MULTIPLICATIONS])
def test_annealed_costs_of_graphs_of_several_words(vertices, objective):
    graph = big_graph(vertices, vertices)
    state = Elimination.of(graph, objective)
    order = list(state.intermediates)
    random.Random(1).shuffle(order)
    search = OrderAnnealing(state, objective, order)
    start = search.best[0]
    assert start[0] == count(eliminate_vertices(graph, [*order, *state.dead]), objective)
    for _ in search.run(order, visits=5 * vertices, seed=(1,)):
        (cost, _), best = search.best
        assert cost == count(eliminate_vertices(graph, [*best, *state.dead]), objective)
    assert search.best[0] < start


@settings(max_examples=30)
@given(graph=graphs(vertices=9, sized=True), objective=COUNTED, seed=st.integers(0, 100))
def test_annealing_finds_the_best_order_of_small_graphs(graph, objective, seed):
    made = plan(graph, "vertex", objective, seed=seed, iterations=2_000, time_limit=1e9)
    assert made.cost == SlowCosts(graph, objective).least()


@given(graph=graphs(sized=True), objective=COUNTED)
def test_markowitz_takes_the_cheapest_each_time(graph, objective):
    slow = SlowCosts(graph, objective)
    priced, order = markowitz_order(graph, objective)
    cost = priced.cost
    assert cost == price(graph, order, objective).cost
    assert markowitz_order(graph, objective, Limit(cost[0])) == (priced, order)
    assert not cost[0] or markowitz_order(graph, objective, Limit(cost[0] - 1)) is None
    live = set(Elimination.of(graph, objective).intermediates)
    for t, k in enumerate(order):
        if k in live:
            gone = frozenset(order[:t])
            assert slow.price(k, gone) == min(slow.price(v, gone) for v in live - gone)


@given(graph=graphs(sized=True), objective=COUNTED)
def test_greedy_orders(graph, objective):
    position = {v: t for t, v in enumerate(forward_order(graph))}
    assert all(
        position[i] < position[j]
        for j, i in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
        if i in position and j in position
    )
    assert reverse_order(graph) == forward_order(graph)[::-1]
    result = greedy_orders(graph, objective)
    for each in result:
        assert each.priced.cost[0] == SlowCosts(graph, objective).of(each.order)
    assert min(each.priced.cost[0] for each in result) == min(
        plan(graph, method, objective).cost for method in ("forward", "reverse", "markowitz")
    )


@given(graph=graphs(sized=True), objective=COUNTED)
def test_orders_are_counted_by_the_products_they_write(graph, objective):
    live = graph.live_edges
    parallel = int(live.sum()) - len(set(zip(graph.sources[live], graph.targets[live], strict=True)))
    counted, _ = elimination.sweep_counts(graph)
    for name, order in (("forward", forward_order(graph)), ("reverse", reverse_order(graph))):
        priced = price(graph, order, objective)
        steps = eliminate_vertices(graph, order).steps
        assert priced.products == counted[name].products == sum(steps.is_product)
        assert priced.additions == counted[name].additions == len(steps) - sum(steps.is_product) - parallel
        assert price(graph, order, objective, Limit(products=priced.products)) == priced
        assert not priced.products or price(graph, order, objective, Limit(products=priced.products - 1)) is None


def running_sum(length):
    """y = sum of c_k s_k over s_k = s_(k-1) + x_k: forward elimination has few products that cost, and many steps."""
    edges = [(f"s{k}", f"x{k}", 1) for k in range(length)]
    edges += [(f"s{k}", f"s{k - 1}", 1) for k in range(1, length)]
    edges += [("y", f"s{k}") for k in range(length)]
    return DifferentiationGraph(edges)


@pytest.mark.parametrize("objective", list(Objective))
def test_an_order_of_many_free_steps_is_dropped(objective):
    graph = running_sum(600)
    forward = price(graph, forward_order(graph), objective)
    assert forward.products > 100_000
    result = greedy_orders(graph, objective)
    assert result
    assert max(each.priced.products for each in result) < 20_000
    assert len(plan(graph, "vertex", objective, time_limit=0, cache=False).accumulation.steps) < 20_000


def test_machine_code_agrees_with_python():
    state = Elimination.of(big_graph(150, 3), Objective.FMA)
    compiled, python = (OrderAnnealing(state, Objective.FMA, state.intermediates) for _ in range(2))
    assert python.count > 64
    python._run = lambda _: interpret(order_kernel.run_order, python._state)
    expected, actual = (list(search.run(state.intermediates, 100, (1,))) for search in (compiled, python))
    assert actual == expected
    assert python.best == compiled.best
    for name in ("rows", "order", "costs", "random"):
        assert (getattr(python._state, name) == getattr(compiled._state, name)).all()


@pytest.mark.parametrize("slice_", [0.0, 1e-5, 1e9])
def test_slices_do_not_change_a_run(monkeypatch, slice_):
    graph = big_graph(60, 3)
    state = Elimination.of(graph, Objective.FMA)
    expected = OrderAnnealing(state, Objective.FMA, state.intermediates)
    list(expected.run(state.intermediates, 300, (7,)))
    monkeypatch.setattr(vertex_orders, "SLICE", slice_)
    search = OrderAnnealing(state, Objective.FMA, state.intermediates)
    list(search.run(state.intermediates, 300, (7,)))
    assert search.best == expected.best


def test_thorough_orders_use_the_work_that_there_is():
    """The optimum where the exact search reaches it; windows beyond that; the same order every time."""

    def actual(graph, effort, work):
        result = get("vertex").find(graph, Context(Options(objective="fma", effort=effort), math.inf, work=work))
        assert price(graph, result.order, Objective.FMA).cost[0] == result.cost("fma")
        return result

    graph = layered(layers=10, width=4, degree=3, seed=1)
    assert [actual(graph, "thorough", work).cost("fma") for work in (0.1, 1.0)] == [467, 464]
    assert actual(graph, "balanced", 1.0).cost("fma") == 468
    graph = random_dag(intermediates=300, edges=900)
    results = [
        actual(graph, effort, work) for effort, work in (("balanced", 0.1), ("thorough", 0.1), ("thorough", 0.4))
    ]
    costs = [result.cost("fma") for result in results]
    assert costs == sorted(costs, reverse=True)
    assert costs[2] < costs[0]
    assert actual(graph, "thorough", 0.4).order == results[2].order


@pytest.mark.parametrize(
    ("name", "fma", "multiplications"),
    [
        ("RoeFlux_1d", 295, 184),
        ("RobotArm_6DOF", 221, 151),
        ("HumanHeartDipole", 148, 48),
        ("PropaneCombustion", 88, 24),
        ("BlackScholes_Jacobian", 297, 218),
    ],
)
def test_public_graphs_reach_the_best_known_orders(name, fma, multiplications, graph_folder):
    graph = load_graph(graph_folder / f"{name}.json")
    options = {"method": "vertex", "effort": "thorough", "time_limit": 10.0, "iterations": 60_000}
    assert plan(graph, objective="fma", **options).cost <= fma
    assert plan(graph, objective="multiplications", **options).cost <= multiplications
