"""Large graphs: compiled elimination, verification and cost do what the plain ones do; search in windows."""

import random
from itertools import islice

import numpy as np
import pytest

import accumulus as acc
from accumulus.deadline import FOREVER
from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.elimination.cost import count
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.errors import OrderError, VerificationError
from accumulus.graph.generators import (
    banded,
    dense_layers,
    layered,
    matrix_chain,
    random_dag,
    series_parallel,
    star,
    stencil,
    with_labels,
    with_sizes,
)
from accumulus.native.state import interpret
from accumulus.objective import Objective
from accumulus.search import elimination, large, passes, windows
from accumulus.search.compiled import elimination_kernel, passes_kernel
from accumulus.search.elimination import UNLIMITED, Limit
from accumulus.search.greedy import greedy_orders, markowitz_order
from accumulus.search.large import LargeElimination, accumulation_of, large_markowitz, large_price
from accumulus.search.pricing import cost_of_order, price
from accumulus.search.sweeps import forward_order, reverse_order
from accumulus.search.windows import Windows

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
def everything_large(monkeypatch):
    """All graphs are large, and what the kernels are given is small, so that it has to grow."""
    monkeypatch.setattr(elimination, "LARGE", -1)
    monkeypatch.setattr(large, "_WAITING", 16)
    monkeypatch.setattr(large, "_SLICE", 50)
    monkeypatch.setattr(large, "_FIRST", 1)
    monkeypatch.setattr(passes, "_CHUNK", 16)


def interpreted(monkeypatch, driver, state, perform):
    """Let a kernel run as Python; the states that its driver makes from now on."""
    made = {}
    kind = getattr(driver, state)

    def new(**values):
        one = kind(**values)
        return made.setdefault(one.address, one)

    monkeypatch.setattr(driver, state, new)
    monkeypatch.setattr(driver, "kernel", lambda _: lambda address: interpret(perform, made[address]))
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


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_compiled_elimination_is_the_plain_one(graph, objective, monkeypatch):
    plain = markowitz_order(graph, objective)
    orders = _orders(graph, objective)
    prices = [price(graph, order, objective) for order in orders]
    written = [eliminate_vertices(graph, order) for order in orders]
    monkeypatch.setattr(large, "_WAITING", 16)
    monkeypatch.setattr(large, "_SLICE", 50)
    monkeypatch.setattr(large, "_FIRST", 1)
    monkeypatch.setattr(elimination, "LARGE", -1)
    for limits in (UNLIMITED, Limit(plain[0].cost[0]), Limit(products=plain[0].products)):
        assert large_markowitz(graph, objective, limits, FOREVER) == plain
    for limits in (Limit(plain[0].cost[0] - 1), Limit(products=plain[0].products - 1)):
        assert plain[0].cost[0] == 0 or large_markowitz(graph, objective, limits, FOREVER) is None
    for order, priced, expected in zip(orders, prices, written, strict=True):
        for limits in (UNLIMITED, Limit(priced.cost[0]), Limit(products=priced.products)):
            assert large_price(graph, order, objective, limits, FOREVER) == priced
        for limits in (Limit(priced.cost[0] - 1), Limit(products=priced.products - 1)):
            assert priced.cost[0] == 0 or large_price(graph, order, objective, limits, FOREVER) is None
        made = accumulation_of(graph, order)
        assert list(made.steps) == list(expected.steps)
        assert list(made.entries.items()) == list(expected.entries.items())


@pytest.mark.usefixtures("everything_large")
@pytest.mark.parametrize("graph", GRAPHS[::3], ids=str)
def test_machine_code_of_elimination_does_what_python_does(graph, monkeypatch):
    def told():
        priced, order = large_markowitz(graph, Objective.MULTIPLICATIONS, UNLIMITED, FOREVER)
        written = accumulation_of(graph, order)
        state = LargeElimination(graph, Objective.FMA)
        given = np.array([v for v in order if v not in dead], np.int64)
        arranged, cost = state.arranged(given, given[::-1].copy())
        half = LargeElimination(graph, Objective.FMA)
        costs = np.zeros(len(given) // 2, np.int64)
        half.follow(given[: len(costs)], costs=costs)
        listed = [half.edges_at(given[len(costs) :], most) for most in (10**6, 4)]
        return priced, order, list(written.steps), written.entries, arranged.tolist(), cost, costs.tolist(), listed

    dead = set(LargeElimination(graph, Objective.FMA).dead.tolist())
    expected = told()
    states = interpreted(monkeypatch, large, "EliminationState", elimination_kernel.perform)
    assert told() == expected
    assert len(states) == 4


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_greedy_orders_of_large_graphs_hold_the_cheapest(graph, objective, monkeypatch):
    expected = min(each.priced.cost for each in greedy_orders(graph, objective))
    monkeypatch.setattr(elimination, "LARGE", -1)
    found = greedy_orders(graph, objective)
    assert min(each.priced.cost for each in found) == expected
    for each in found:
        assert each.priced == large_price(graph, each.order, objective, UNLIMITED, FOREVER)


@pytest.mark.usefixtures("everything_large")
@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_compiled_passes_agree_with_the_plain_ones(graph):
    accumulation = eliminate_vertices(graph, forward_order(graph))
    passes.verify(accumulation, seed=1)
    assert passes._is_right(accumulation, 1)
    for objective in OBJECTIVES:
        assert passes.cost_of(accumulation, objective) == count(accumulation, objective)


@pytest.mark.usefixtures("everything_large")
@pytest.mark.parametrize("graph", GRAPHS[::3], ids=str)
def test_machine_code_of_passes_does_what_python_does(graph, monkeypatch):
    def told():
        cost, labels = passes._priced(accumulation, every_product=False)
        return passes._is_right(accumulation, 1), passes._is_right(wrong, 1), cost, labels.tolist()

    accumulation = eliminate_vertices(graph, forward_order(graph))
    changed = Steps(len(graph.sources))
    *steps, (is_product, left, right) = accumulation.steps
    for step in [*steps, (1 - is_product, left, right)]:
        changed._append(*step)
    wrong = Accumulation(graph, changed, accumulation.entries)
    expected = told()
    assert expected[:2] == (True, False)
    states = interpreted(monkeypatch, passes, "PassesState", passes_kernel.perform)
    assert told() == expected
    assert len(states) >= 2


@pytest.mark.usefixtures("everything_large")
@pytest.mark.parametrize("graph", GRAPHS[::3], ids=str)
def test_compiled_verification_rejects_what_the_plain_one_rejects(graph):
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
        right_ = _no_exception(wrong.verify)
        assert passes._is_right(wrong, 0) == right_ == _no_exception(lambda wrong=wrong: passes.verify(wrong))
        rejected += not right_
    assert rejected
    for entry in ({(0, -1): 0}, {(len(graph.roots), 0): 0}, {(0, 0): -1}, {(0, 0): len(graph.sources) + len(steps)}):
        with pytest.raises(VerificationError, match="entry"):
            passes.verify(Accumulation(graph, accumulation.steps, {**accumulation.entries, **entry}))
    with pytest.raises(VerificationError, match="root"):
        passes.verify(Accumulation(graph, accumulation.steps, {}))


@pytest.mark.usefixtures("everything_large")
def test_an_order_that_is_none_is_refused():
    graph = layered(4, 4, 2)
    order = forward_order(graph)
    for wrong in (order[1:], (*order, order[0]), (*order, graph.roots[0])):
        with pytest.raises(OrderError):
            accumulation_of(graph, wrong)


@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_a_rewritten_order_costs_the_same(graph):
    for order in _orders(graph, Objective.FMA):
        state = LargeElimination(graph, Objective.FMA)
        given = np.array([v for v in order if v in set(state.intermediates.tolist())], np.int64)
        arranged, cost = state.arranged(given, given[::-1].copy())
        assert sorted(arranged.tolist()) == sorted(given.tolist())
        assert (
            cost == cost_of_order(graph, arranged.tolist(), Objective.FMA) == cost_of_order(graph, order, Objective.FMA)
        )


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("graph", [*PLAIN, with_sizes(with_labels(PLAIN[4], seed=1), seed=2)], ids=str)
def test_windows_gain_what_they_say(graph, objective, monkeypatch):
    monkeypatch.setattr(windows, "WINDOWS", (20, 9))
    order = forward_order(graph)
    start = cost_of_order(graph, order, objective)
    searches = [Windows(graph, objective, order, start) for _ in range(2)]
    # stopped at any moment, the order costs what is said
    for cost in islice(searches[0].run("balanced", 0), 12):
        assert cost == searches[0].cost[0] <= start[0]
        assert cost_of_order(graph, searches[0].order, objective) == searches[0].cost
    for _ in islice(searches[1].run("balanced", 0), 12):
        pass
    assert searches[0].order == searches[1].order


def test_windows_improve_a_poor_order():
    graph = layered(60, 16, 2)
    order = forward_order(graph)
    start = cost_of_order(graph, order, Objective.FMA)
    search = Windows(graph, Objective.FMA, order, start)
    for _ in search.run("balanced", 0):
        pass
    assert search.cost[0] < 0.9 * start[0]


def test_iterations_limit_windows():
    graph = layered(60, 8, 3)
    order = forward_order(graph)
    start = cost_of_order(graph, order, Objective.FMA)
    few = sum(1 for _ in Windows(graph, Objective.FMA, order, start).run("balanced", 0, iterations=1))
    many = sum(1 for _ in Windows(graph, Objective.FMA, order, start).run("balanced", 0))
    assert few == 2 < many


@pytest.fixture(scope="module")
def large_graph():
    graph = layered(700, 8, 2)
    assert elimination.is_large(graph)
    return graph


def test_a_plan_of_a_large_graph(large_graph):
    fast = acc.plan(large_graph, effort="fast", cache=False)
    fast.verify()
    assert fast.method in ("forward", "reverse", "markowitz")
    assert fast.cost == count(fast.accumulation, "multiplications")
    assert fast.cost <= min(acc.plan(large_graph, name, cache=False).cost for name in ("forward", "markowitz"))
    told = []
    options = {"iterations": 20_000, "time_limit": 1e6, "cache": False}
    better = acc.plan(large_graph, "vertex", progress=lambda now: told.append(now.cost), **options)
    assert better.method == "vertex"
    assert better.cost == told[-1] < fast.cost
    assert told == sorted(told, reverse=True)
    assert better.order == acc.plan(large_graph, "vertex", **options).order
    better.accumulation.verify(seed=7)


def test_ctrl_c_hands_back_what_the_windows_gained(large_graph):
    told = []

    def progress(now):
        told.append(now.cost)
        if len(told) == 10:
            raise KeyboardInterrupt

    plan = acc.plan(large_graph, "vertex", time_limit=1e6, progress=progress, cache=False)
    assert len(told) == 10
    assert plan.cost == told[-1] < told[0]


def test_a_plan_of_a_large_graph_is_kept(large_graph, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCUMULUS_CACHE_PLANS", "1")
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path))
    first = acc.plan(large_graph, effort="fast")
    again = acc.plan(large_graph, effort="fast")
    assert again.recalled
    assert not first.recalled
    assert again == first
    (path,) = (tmp_path / "plans").iterdir()
    assert path.stat().st_size < 20 * len(large_graph.vertices)
