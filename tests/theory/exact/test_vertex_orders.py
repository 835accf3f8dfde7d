"""The block bound and the search from the last vertex, against flows in plain Python and all sets of vertices."""

from __future__ import annotations

import random

import numpy as np
import pytest
from contexts import within
from inside import Deadline, Elimination, get, interpret, layered, price
from slow_costs import SlowCosts

from accumulus import DifferentiationGraph, load_graph
from accumulus.deadline import OutOfTimeError
from accumulus.options import Objective
from accumulus.theory.bounds import least_costs
from accumulus.theory.compiled import orders_kernel
from accumulus.theory.exact import orders
from accumulus.theory.exact.eliminations import bound_of_orders
from accumulus.theory.exact.orders import OrderSearch

COUNTED = (Objective.FMA, Objective.MULTIPLICATIONS)


def drawn(seed: int) -> tuple[DifferentiationGraph, Objective]:
    """A graph of up to seven intermediates; half of them with kinds of labels, a third with sizes.

    Of those with kinds some have parallel edges, whose numbers may add up to ±1.
    """
    rng = random.Random(seed)
    roots, inner, terminals = rng.randint(1, 4), rng.randint(2, 7), rng.randint(1, 4)
    count, density = roots + inner + terminals, rng.choice((0.3, 0.45, 0.6))
    kinds = [1, 2.5, None, None] if rng.random() < 0.5 else [None]
    edges = [
        (j, i, rng.choice(kinds))
        for j in range(roots + inner)
        for i in range(max(j + 1, roots), count)
        if (j >= roots or i < roots + inner) and rng.random() < density
    ]
    edges = edges or [(0, roots, None), (roots, count - 1, None)]
    vertices = {v for j, i, _ in edges for v in (j, i)}
    sizes = {v: rng.randint(1, 3) for v in vertices} if rng.random() < 0.3 else None
    if sizes:  # numbers join vertices of one size
        edges = [(j, i, label if sizes[j] == sizes[i] else None) for j, i, label in edges]
    more = random.Random(-seed)
    edges += [(j, i, more.choice((1, -1.5, -3.5, 0.5))) for j, i, label in edges if label and more.random() < 0.3]
    graph = DifferentiationGraph(
        edges, vertices & set(range(roots)), vertices & set(range(roots + inner, count)) or None, sizes=sizes
    )
    return graph, rng.choice(COUNTED)


def table_of(search: OrderSearch, block: tuple[int, ...]) -> np.ndarray:
    table = np.full(1 << len(block), orders_kernel.UNREACHED, np.int64)
    table[0] = 0
    search._fill(block, table, len(table) - 1, 5, 0.0)
    return table


def slow_table(state: Elimination, block: list[int]) -> list[int]:
    """Return the least cost of the sets of a block, by flows on dictionaries after real eliminations.

    Vertices of the block that are left have no edges on their other sides, so paths end there.
    """
    table = [0]
    for gone in range(1, 1 << len(block)):
        ways = []
        for k in (k for k in range(len(block)) if gone >> k & 1):
            left = state.copy()
            for other in (m for m in range(len(block)) if gone >> m & 1 and m != k):
                left.eliminate(block[other])
            for other in (m for m in range(len(block)) if not gone >> m & 1):
                left.predecessors[block[other]] = left.successors[block[other]] = {}
            ways.append(table[gone ^ 1 << k] + least_costs(left, (block[k],))[block[k]])
        table.append(min(ways))
    return table


def test_tables_of_blocks():
    for seed in range(60):
        graph, objective = drawn(seed)
        search = OrderSearch(Elimination.of(graph, objective), 10**9, 0)
        vertices = search._state.intermediates
        rng = random.Random(seed)
        block = tuple(rng.sample(range(len(vertices)), min(len(vertices), 4)))
        expected = slow_table(search._state, [vertices[k] for k in block])
        assert table_of(search, block).tolist() == expected


def test_the_bound_of_all_vertices_as_one_block_is_the_optimum():
    for seed in range(200):
        graph, objective = drawn(seed)
        search = OrderSearch(Elimination.of(graph, objective), 10**9, 0)
        table, least = table_of(search, tuple(range(len(search.vertices)))), SlowCosts(graph, objective).least()
        assert table[-1] == least


def check(seed: int, monkeypatch) -> bool:
    """Assert that bound and optimum are right at each step, and that plans cost what they claim."""
    graph, objective = drawn(seed)
    state = Elimination.of(graph, objective)
    optimum = SlowCosts(graph, objective).least()
    if not state.intermediates:
        return optimum == 0
    rng = random.Random(seed)
    monkeypatch.setattr(orders, "_MEMORY_BITS", rng.choice((1, 3, 12)))
    search = OrderSearch(state, 10**9 if seed % 3 else optimum, 10**9, rng.randint(1, 8))
    for _ in search.run():
        if search.lower_bound > optimum:
            return False
    if search.order is not None:
        assert price(graph, [*search.order, *state.dead], objective).cost[0] == search.cost
    return search.cost == search.lower_bound == optimum


@pytest.mark.sampled(10)
@pytest.mark.parametrize("first", range(0, 3_000, 150))
def test_optima_and_bounds(monkeypatch, first):
    assert all(check(seed, monkeypatch) for seed in range(first, first + 150))


def test_changed_partitions_are_partitions_with_their_bounds(monkeypatch):
    """A search that is interrupted after each set, and whose first blocks have one vertex each."""
    for name, value in {
        "SMALL_BLOCK": 1,
        "_LEAST_BLOCK": 2,
        "_FIRST": 1,
        "_MORE": 2,
        "_NODES": 1,
        "_MOVE_SECONDS": 1e-7,
    }.items():
        monkeypatch.setattr(orders, name, value)
    monkeypatch.setattr(orders, "_AFFINITIES", ((0.0, 0.0, 0.0, 0.0),))
    raised, moved = 0, OrderSearch._moved

    def watched(self, *arguments):
        nonlocal raised
        for tables in moved(self, *arguments):
            assert sorted(v for block in tables for v in block) == list(range(len(self.vertices)))
            assert self.blocks == tuple(tables)
            again = OrderSearch(self._state, 10**9, 0)
            assert again.raise_by_blocks(self.blocks)[1] == sum(table[-1] for table in tables.values())
            raised += 1
            yield tables

    monkeypatch.setattr(OrderSearch, "_moved", watched)
    for seed in range(150):
        graph, objective = drawn(seed)
        search = OrderSearch(Elimination.of(graph, objective), 10**9, 10**9, 3)
        least, bounds = SlowCosts(graph, objective).least(), [search.lower_bound]
        for _ in search.run():
            bounds.append(search.lower_bound)
            assert search.lower_bound <= least <= search.cost
        assert bounds == sorted(bounds)
        assert search.cost == search.lower_bound == least
    assert raised > 20


@pytest.mark.parametrize("sets", ["last", "all", "single", "shared"])
def test_bounds_that_are_too_high_by_one_are_noticed(monkeypatch, sets):
    fill, raised = OrderSearch._fill, OrderSearch.raise_by_blocks

    def shared(self, blocks):
        return raised(self, [*blocks, (0,)])

    def too_high(self, block, table, *rest):
        fill(self, block, table, *rest)
        if sets == "last" or not block:
            table[-1] += 1
        elif sets == "all":
            table[1:] += 1
        else:
            table[1] += 1

    assert all(check(seed, monkeypatch) for seed in range(60))
    if sets == "shared":
        monkeypatch.setattr(OrderSearch, "raise_by_blocks", shared)
    else:
        monkeypatch.setattr(OrderSearch, "_fill", too_high)
    assert not all(check(seed, monkeypatch) for seed in range(60))


def in_python(monkeypatch) -> None:
    """Have the kernels run as Python, whose functions can be replaced."""
    states = []
    for kind in ("BlocksState", "OrdersState"):
        made = getattr(orders, kind)
        monkeypatch.setattr(orders, kind, lambda made=made, **fields: states.append(made(**fields)) or states[-1])

    def as_python(name):
        run = getattr(orders_kernel, f"run_{name.removeprefix('theory.')}")
        return lambda address: interpret(run, next(state for state in states if state.address == address))

    monkeypatch.setattr(orders, "kernel", as_python)


#: Functions of the kernel that are replaced, and results in the place of theirs.
MUTANTS = {
    "a flow too many": ("_filled", lambda result, *_: result + 1),
    "a pair too many": ("_product", lambda result, *_: result + 1),
    "a pair of free labels": ("_product", lambda result, above, below, size: size * (above & 63) * (below & 63)),
    "flows of smaller sets alone": ("_flows_after", lambda result, *_: result & (1 << 2 * orders_kernel.FLOW) - 1),
    "a bound of blocks too high by one": ("_by_blocks", lambda result, *_: result + 1),
    "a bound of a part too high by one": ("_floor", lambda result, *_: result if result & 1 else result + 2),
    "a bound taken for exact": ("_floor", lambda result, *_: result | 1),
    "a last vertex too cheap": ("cost_of", lambda result, *_: result - 1),
    "a last vertex too dear": ("cost_of", lambda result, *_: result + 1),
    "a part forgotten": ("_split", lambda result, *_: max(0, result - 1)),
}


@pytest.mark.parametrize("mutant", [None, *MUTANTS])
def test_mutants_of_the_kernel_are_noticed(monkeypatch, mutant):
    in_python(monkeypatch)
    if mutant is not None:
        name, changed = MUTANTS[mutant]
        right = getattr(orders_kernel, name)
        monkeypatch.setattr(orders_kernel, name, lambda *args: changed(right(*args), *args[-3:]))

    def noticed(seed: int) -> bool:
        try:
            return not check(seed, monkeypatch)
        except AssertionError:  # an order that costs something else
            return True

    assert any(map(noticed, range(40))) == (mutant is not None)


@pytest.mark.parametrize("objective", COUNTED)
def test_machine_code_agrees_with_python(monkeypatch, objective):
    graph = layered(layers=3, width=4, degree=2, seed=1)

    def searched():
        search = OrderSearch(Elimination.of(graph, objective), 10**6, 10**9, 5)
        list(search.run())
        return search

    compiled = searched()
    in_python(monkeypatch)
    python = searched()
    assert (python.cost, python.order, python.looked_at) == (compiled.cost, compiled.order, compiled.looked_at)
    assert (python._encoded.memory == compiled._encoded.memory).all()


def test_sets_of_more_than_a_word():
    """Ladders side by side: each of them is a part that is left, and all of them are more than 64 vertices."""
    edges = [((k, t, s), (k, t + 1, r)) for k in range(12) for t in range(4) for s in (0, 1) for r in (0, 1)]
    edges += [((k, 2, 0), (k + 1, 3, 0)) for k in range(11)]
    graph = DifferentiationGraph(edges)
    state = Elimination.of(graph, Objective.FMA)
    assert len(state.intermediates) > 64
    search = OrderSearch(state, 10**6, 10**9)
    list(search.run())
    assert search.proven
    assert price(graph, search.order, Objective.FMA).cost[0] == search.cost


def test_a_search_stops_at_its_nodes_and_at_its_deadline():
    graph = layered(layers=6, width=5, degree=2, seed=0)
    optimum = get("exact-vertex")(graph, within(objective="fma", time_limit=1e9)).cost("fma")
    search = OrderSearch(Elimination.of(graph, Objective.FMA), 10**6, 2_000)
    bounds = [search.lower_bound for _ in search.run()]
    assert bounds == sorted(bounds)
    assert sum(least_costs(search._state).values()) < search.lower_bound <= optimum
    assert 2_000 <= search.looked_at < 4_000
    search = OrderSearch(Elimination.of(graph, Objective.FMA, Deadline(100.0, work=0.01)), 10**6, 10**9)
    with pytest.raises(OutOfTimeError):
        list(search.run())
    assert search.order is None
    assert search.lower_bound <= optimum


def test_bounds_of_reports_hold_and_are_close():
    close = 0
    for seed in range(120):
        graph, objective = drawn(seed)
        bound, optimum = bound_of_orders(graph, objective, 1e9), SlowCosts(graph, objective).least()
        assert bound <= optimum
        close += bound == optimum
        assert bound_of_orders(graph, objective, 1e-6) is None
    assert close > 70


def test_orders_of_an_unfinished_search_are_kept(monkeypatch):
    monkeypatch.setattr(orders, "_NODES", 1)
    results = {True: 0, False: 0}
    for seed in range(200):
        graph, objective = drawn(seed)
        state = Elimination.of(graph, objective)
        optimum = SlowCosts(graph, objective).least()
        search = OrderSearch(state, optimum + 5, 1 + seed % 4, 1)
        search.improve_within(1.0)
        list(search.run())
        assert search.lower_bound <= optimum <= search.cost
        if search.order is not None:
            assert price(graph, [*search.order, *state.dead], objective).cost[0] == search.cost
            results[search.proven] += 1
    assert min(results.values()) > 5


def test_parts_that_are_too_large_are_not_searched():
    many = DifferentiationGraph([(j, i) for j in range(600) for i in (j + 1, j + 2)])
    edges = [edge for k in range(1, 130) for edge in ((0, k), (k, 130))]
    wide = DifferentiationGraph(edges, sizes=dict.fromkeys(range(131), 65536))
    for graph in (many, wide):
        search = OrderSearch(Elimination.of(graph, Objective.FMA), 10**9, 10**9)
        assert search.failed
        assert list(search.run()) == []


def test_black_scholes_is_proven(graph_folder):
    graph = load_graph(graph_folder / "BlackScholes_Jacobian.json")
    result = get("exact-vertex")(graph, within(objective="fma", time_limit=1e9))
    assert result.cost("fma") == result.lower_bound == 297
