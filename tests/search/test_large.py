"""Compiled elimination, verification and counting do what the plain ones do; large graphs, and search in windows."""

import random
from itertools import islice

import numpy as np
import pytest
from inside import Steps, count, eliminate_vertices, interpret, layered, price
from plain_elimination import plain_count, plain_elimination, plain_markowitz, plain_price, plainly_right

import accumulus as acc
from accumulus import Accumulation
from accumulus.elimination import accumulation as accumulation_module
from accumulus.elimination import vertex
from accumulus.elimination.accumulation import Labels
from accumulus.elimination.compiled import labels_kernel, vertex_kernel
from accumulus.elimination.vertex import UNLIMITED, Limit, VertexElimination, markowitz_order
from accumulus.errors import OrderError, VerificationError
from accumulus.graph.generators import (
    banded,
    dense_layers,
    matrix_chain,
    random_dag,
    series_parallel,
    star,
    stencil,
    with_labels,
    with_sizes,
)
from accumulus.options import Objective
from accumulus.search import vertex_orders
from accumulus.search.elimination import forward_order, reverse_order
from accumulus.search.vertex_orders import Windows, greedy_orders

OBJECTIVES = (Objective.FMA, Objective.MULTIPLICATIONS)


def _parallel_and_dead():
    """Parallel edges, a vertex that no root needs, and one that needs no terminal."""
    edges = [("y", "a"), ("y", "a", 2.0), ("a", "x", 1.0), ("a", "x", -1.0), ("dead", "x"), ("y", "end"), ("y", "x")]
    return acc.DifferentiationGraph(edges, roots=["y"], terminals=["x"])


PLAIN = [
    *(random_dag(60, 150, 5, 5, seed=seed) for seed in range(4)),
    layered(8, 8, 3),
    stencil(10, 6),
    series_parallel(300, 30),
    banded(100, 6, 0.5),
    dense_layers([5, 6, 7, 4]),
    star(10, 10),
    matrix_chain(8),
    _parallel_and_dead(),
]
GRAPHS = PLAIN + [with_sizes(with_labels(graph, seed=1), largest=4, seed=2) for graph in PLAIN]


@pytest.fixture
def small_memory(monkeypatch):
    """Give the kernels small arrays, which have to grow."""
    monkeypatch.setattr(vertex, "_WAITING", (4, 16))
    monkeypatch.setattr(vertex, "_SLICE", 50)
    monkeypatch.setattr(vertex, "_FIRST", 1)
    monkeypatch.setattr(accumulation_module, "CHUNK", 16)


def interpreted(monkeypatch, driver, state, run):
    """Let a kernel run as Python; the states that its driver makes from now on."""
    made = {}
    kind = getattr(driver, state)

    def new(**values):
        one = kind(**values)
        return made.setdefault(one.address, one)

    monkeypatch.setattr(driver, state, new)
    monkeypatch.setattr(driver, "kernel", lambda _: lambda address: interpret(run, made[address]))
    return made


def _orders(graph, objective):
    drawn = list(graph.intermediates)
    random.Random(len(drawn)).shuffle(drawn)
    return [forward_order(graph), reverse_order(graph), markowitz_order(graph, objective)[1], tuple(drawn)]


def _no_exception(check):
    try:
        check()
    except VerificationError:
        return False
    return True


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_compiled_elimination_is_the_plain_one(graph, objective):
    expected = plain_markowitz(graph, objective)
    for limits in (UNLIMITED, Limit(expected[0].cost[0]), Limit(products=expected[0].products)):
        assert markowitz_order(graph, objective, limits) == expected
    for limits in (Limit(expected[0].cost[0] - 1), Limit(products=expected[0].products - 1)):
        assert expected[0].cost[0] == 0 or markowitz_order(graph, objective, limits) is None
    for order in _orders(graph, objective):
        priced = plain_price(graph, order, objective)
        for limits in (UNLIMITED, Limit(priced.cost[0]), Limit(products=priced.products)):
            assert price(graph, order, objective, limits) == priced
        for limits in (Limit(priced.cost[0] - 1), Limit(products=priced.products - 1)):
            assert priced.cost[0] == 0 or price(graph, order, objective, limits) is None
        made, plain = eliminate_vertices(graph, order), plain_elimination(graph, order)
        assert list(made.steps) == list(plain.steps)
        assert list(made.entries.items()) == list(plain.entries.items())


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("graph", GRAPHS[::3], ids=str)
def test_machine_code_of_elimination_agrees_with_python(graph, monkeypatch):
    def state_of():
        priced, order = markowitz_order(graph, Objective.MULTIPLICATIONS)
        made = eliminate_vertices(graph, order)
        state = VertexElimination(graph, Objective.FMA)
        subset = np.array([v for v in order if v not in dead], np.int64)
        arranged, cost = state.arranged(subset, subset[::-1].copy())
        half = VertexElimination(graph, Objective.FMA)
        costs = np.zeros(len(subset) // 2, np.int64)
        half.follow(subset[: len(costs)], costs=costs)
        listed = [half.edges_at(subset[len(costs) :], most) for most in (10**6, 4)]
        return priced, order, list(made.steps), made.entries, arranged.tolist(), cost, costs.tolist(), listed

    dead = set(VertexElimination(graph, Objective.FMA).dead.tolist())
    expected = state_of()
    states = interpreted(monkeypatch, vertex, "EliminationState", vertex_kernel.run_vertex)
    assert state_of() == expected
    assert len(states) == 4


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_greedy_orders_hold_the_cheapest(graph, objective):
    result = greedy_orders(graph, objective)
    orders = (forward_order(graph), reverse_order(graph), markowitz_order(graph, objective)[1])
    assert min(each.priced.cost for each in result) == min(price(graph, order, objective).cost for order in orders)
    for each in result:
        assert each.priced == price(graph, each.order, objective)


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_verification_and_counts_agree_with_the_plain_ones(graph):
    accumulation = eliminate_vertices(graph, forward_order(graph))
    accumulation.verify(seed=1)
    assert plainly_right(accumulation)
    for objective in OBJECTIVES:
        assert count(accumulation, objective) == plain_count(accumulation, objective.every_product)


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("graph", GRAPHS[::3], ids=str)
def test_machine_code_of_labels_agrees_with_python(graph, monkeypatch):
    def state_of():
        actual = Labels(graph, accumulation.steps, every_product=False)
        ends = actual.ends(np.arange(len(graph.sources) + len(accumulation.steps)))
        right = [_no_exception(each.verify) for each in (accumulation, wrong)]
        return right, actual.cost, [end.tolist() for end in ends]

    accumulation = eliminate_vertices(graph, forward_order(graph))
    changed = Steps(len(graph.sources))
    *steps, (is_product, left, right) = accumulation.steps
    for step in [*steps, (1 - is_product, left, right)]:
        changed._append(*step)
    wrong = Accumulation(graph, changed, accumulation.entries)
    expected = state_of()
    assert expected[0] == [True, False]
    states = interpreted(monkeypatch, accumulation_module, "LabelsState", labels_kernel.run_labels)
    assert state_of() == expected
    assert len(states) >= 2


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("graph", GRAPHS[::3], ids=str)
def test_verification_rejects_as_the_plain_one_does(graph):
    accumulation = eliminate_vertices(graph, forward_order(graph))
    steps = list(accumulation.steps)
    rng = random.Random(0)
    rejected = 0
    for _ in range(20):
        k = rng.randrange(len(steps))
        is_product, left, right = steps[k]
        changed = Steps(len(graph.sources))
        other = rng.choice([(1 - is_product, left, right), (is_product, rng.randrange(-3, len(steps)), right)])
        for step in [*steps[:k], other, *steps[k + 1 :]]:
            changed._append(*step)
        wrong = Accumulation(graph, changed, accumulation.entries)
        right_ = plainly_right(wrong)
        assert _no_exception(wrong.verify) == right_
        rejected += not right_
    assert rejected
    for entry in ({(0, -1): 0}, {(len(graph.roots), 0): 0}, {(0, 0): -1}, {(0, 0): len(graph.sources) + len(steps)}):
        with pytest.raises(VerificationError, match="entry"):
            Accumulation(graph, accumulation.steps, {**accumulation.entries, **entry}).verify()
    with pytest.raises(VerificationError, match="root"):
        Accumulation(graph, accumulation.steps, {}).verify()


def test_counting_reads_nothing_that_is_not_there():
    graph = layered(4, 4, 2)
    for reference in (-1, 10**9):
        steps = Steps(len(graph.sources))
        steps.product(0, reference)
        with pytest.raises(VerificationError, match="expected references below"):
            count(Accumulation(graph, steps, {}), "fma")


def test_an_order_that_is_none_is_refused():
    graph = layered(4, 4, 2)
    order = forward_order(graph)
    for wrong in (order[1:], (*order, order[0]), (*order, graph.roots[0])):
        with pytest.raises(OrderError):
            eliminate_vertices(graph, wrong)


@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_a_rewritten_order_costs_the_same(graph):
    for order in _orders(graph, Objective.FMA):
        state = VertexElimination(graph, Objective.FMA)
        subset = np.array([v for v in order if v in set(state.intermediates.tolist())], np.int64)
        arranged, cost = state.arranged(subset, subset[::-1].copy())
        assert sorted(arranged.tolist()) == sorted(subset.tolist())
        assert cost == price(graph, arranged.tolist(), Objective.FMA).cost == price(graph, order, Objective.FMA).cost


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("graph", [*PLAIN, with_sizes(with_labels(PLAIN[4], seed=1), seed=2)], ids=str)
def test_windows_gain_as_much_as_they_report(graph, objective, monkeypatch):
    monkeypatch.setattr(vertex_orders, "WINDOWS", (20, 9))
    order = forward_order(graph)
    start = price(graph, order, objective).cost
    searches = [Windows(graph, objective, order, start) for _ in range(2)]
    # stopped at any moment, the order costs what is said
    for cost in islice(searches[0].run("balanced", 0), 12):
        assert cost == searches[0].cost[0] <= start[0]
        assert price(graph, searches[0].order, objective).cost == searches[0].cost
    for _ in islice(searches[1].run("balanced", 0), 12):
        pass
    assert searches[0].order == searches[1].order


def test_windows_improve_a_poor_order():
    graph = layered(60, 16, 2)
    order = forward_order(graph)
    start = price(graph, order, Objective.FMA).cost
    search = Windows(graph, Objective.FMA, order, start)
    for _ in search.run("balanced", 0):
        pass
    assert search.cost[0] < 0.9 * start[0]


def test_iterations_limit_windows():
    graph = layered(60, 8, 3)
    order = forward_order(graph)
    start = price(graph, order, Objective.FMA).cost
    few = sum(1 for _ in Windows(graph, Objective.FMA, order, start).run("balanced", 0, iterations=1))
    many = sum(1 for _ in Windows(graph, Objective.FMA, order, start).run("balanced", 0))
    assert few == 2 < many


@pytest.fixture(scope="module")
def large_graph():
    graph = layered(700, 8, 2)
    return graph


def test_a_plan_of_a_large_graph(large_graph):
    fast = acc.plan(large_graph, effort="fast", cache=False)
    fast.verify()
    assert fast.method in ("forward", "reverse", "markowitz")
    assert fast.cost == count(fast.accumulation, "multiplications")
    assert fast.cost <= min(acc.plan(large_graph, name, cache=False).cost for name in ("forward", "markowitz"))
    reports = []
    options = {"iterations": 20_000, "time_limit": 1e6, "cache": False}
    better = acc.plan(large_graph, "vertex", progress=lambda now: reports.append(now.cost), **options)
    assert better.method == "vertex"
    assert better.cost == reports[-1] < fast.cost
    assert reports == sorted(reports, reverse=True)
    assert better.order == acc.plan(large_graph, "vertex", **options).order
    better.accumulation.verify(seed=7)


def test_ctrl_c_returns_the_gain_of_the_windows(large_graph):
    reports = []

    def progress(now):
        reports.append(now.cost)
        if len(reports) == 10:
            raise KeyboardInterrupt

    plan = acc.plan(large_graph, "vertex", time_limit=1e6, progress=progress, cache=False)
    assert len(reports) == 10
    assert plan.cost == reports[-1] < reports[0]


def test_a_plan_of_a_large_graph_is_stored(large_graph, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCUMULUS_CACHE_PLANS", "1")
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path))
    first = acc.plan(large_graph, effort="fast")
    again = acc.plan(large_graph, effort="fast")
    assert again.recalled
    assert not first.recalled
    assert again == first
    (path,) = (tmp_path / "plans").iterdir()
    assert path.stat().st_size < 20 * len(large_graph.vertices)
