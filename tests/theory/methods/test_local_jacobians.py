from __future__ import annotations

import pytest
from figures import figure
from graph_strategies import graphs, random_graph
from hypothesis import assume, given
from hypothesis import strategies as st
from inside import count
from path_sums import check

from accumulus import DifferentiationGraph, Kind
from accumulus.elimination.edges_and_faces import EdgeElimination
from accumulus.errors import ArgumentError, OrderError, UnknownNameError
from accumulus.graph.degrees import levels
from accumulus.theory.methods.local_jacobians import Levelled, local_jacobians, multiply

COMPLEX = figure("fig:complex-dag-and-complete-path-dag", "b")
CONFLICT = figure("fig:conflicting-depth-accumulation-order", "a")
PLAIN = {"simple_first": False, "components": False}


def bracketings(first, last):
    """All bracketings of the local Jacobians first … last-1."""
    if last - first == 1:
        yield first
    for k in range(first + 1, last):
        for left in bracketings(first, k):
            for right in bracketings(k, last):
                yield left, right


@given(
    graphs(20),
    st.sampled_from(["best", "left", "right"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["tail", "head"]),
)
def test_the_jacobian(graph, bracketing, simple_first, components, side):
    check(local_jacobians(graph, bracketing, simple_first=simple_first, components=components, side=side))


@given(graphs(9), st.sampled_from(["tail", "head"]))
def test_no_bracketing_is_cheaper_than_the_best(graph, side):
    last = max(levels(graph))
    live = graph.live_edges
    if not live.all() or last > 6:
        return
    best = count(local_jacobians(graph, side=side, **PLAIN), "fma")
    for bracketing in bracketings(0, last):
        accumulation = local_jacobians(graph, bracketing, side=side, **PLAIN)
        accumulation.verify()
        assert best <= count(accumulation, "fma")


def test_products_of_the_complex_block():
    fma = {way: count(local_jacobians(COMPLEX, way, **PLAIN), "fma") for way in bracketings(0, 4)}
    assert fma == {
        (((0, 1), 2), 3): 10,
        ((0, (1, 2)), 3): 12,
        ((0, 1), (2, 3)): 11,
        (0, ((1, 2), 3)): 12,
        (0, (1, (2, 3))): 10,
    }
    assert count(local_jacobians(COMPLEX), "fma") == 10


def test_unit_edges_cost_nothing():
    graph = figure("fig:cross-level-edge-segmentation", "a")
    for panel in "abc":
        segmented = figure("fig:cross-level-edge-segmentation", panel)
        assert count(local_jacobians(segmented, simple_first=False), "fma") == 2
    assert count(local_jacobians(graph, **PLAIN), "fma") == 2
    ones = DifferentiationGraph([("y", "a", Kind.ONE), ("a", "b", Kind.ONE), ("y", "b"), ("b", "x")])
    assert count(local_jacobians(ones, simple_first=False), "fma") == 1


def test_halves_with_conflicting_orders_are_both_optimal():
    best = count(local_jacobians(CONFLICT, simple_first=False), "fma")
    together = [count(local_jacobians(CONFLICT, way, **PLAIN), "fma") for way in bracketings(0, 5)]
    optima = []
    for start in (1, 10):
        edges = [
            (int(j), int(i))
            for j, i in zip(CONFLICT.sources, CONFLICT.targets, strict=True)
            if (int(str(CONFLICT.vertices[j])[1:]) < 10) == (start == 1)
        ]
        half = DifferentiationGraph(edges)
        optima.append(min(count(local_jacobians(half, way, **PLAIN), "fma") for way in bracketings(0, 5)))
    assert best == sum(optima) == count(local_jacobians(CONFLICT), "fma")
    assert min(together) > best


def test_a_product_between_any_sets_is_the_figure():
    elimination = EdgeElimination(CONFLICT)
    number = {name: v for v, name in enumerate(CONFLICT.vertices)}
    sets = [("v1", "v11"), ("v2", "v3", "v12", "v13"), ("v4", "v14")]
    multiply(elimination, *([number[name] for name in names] for names in sets))
    expected = figure("fig:conflicting-depth-accumulation-order", "b")
    drawn = {
        (expected.vertices[j], expected.vertices[i]) for j, i in zip(expected.sources, expected.targets, strict=True)
    }
    actual = {(CONFLICT.vertices[j], CONFLICT.vertices[i]) for j, row in enumerate(elimination.successors) for i in row}
    assert actual == drawn
    assert sum(elimination.steps.is_product) == 4
    with pytest.raises(OrderError, match=r"v5.*v7.*columns"):
        multiply(elimination, [number["v4"]], [number["v5"]], [number["v8"]])
    with pytest.raises(OrderError, match=r"v4.*rows"):
        multiply(elimination, [], [number["v5"]], [number["v7"]])
    with pytest.raises(OrderError, match="v1 is a root"):
        multiply(elimination, [], [number["v1"]], [number["v4"]])


def test_invalid_bracketings_raise():
    with pytest.raises(ArgumentError, match="expected from 0 to 4"):
        local_jacobians(COMPLEX, ((0, 1), 2), **PLAIN)
    with pytest.raises(ArgumentError, match="expected neighbours"):
        local_jacobians(COMPLEX, ((0, 1), 3), **PLAIN)
    with pytest.raises(ArgumentError, match="nested pairs"):
        local_jacobians(COMPLEX, (0, 1, 2, 3), **PLAIN)
    with pytest.raises(UnknownNameError, match="best"):
        local_jacobians(COMPLEX, "bset")
    with pytest.raises(UnknownNameError, match="tail"):
        local_jacobians(COMPLEX, side="middle")


@pytest.mark.parametrize("shape", ["sparse", "layered", "deep", "series-parallel", "star"])
def test_larger_graphs(shape):
    local_jacobians(random_graph(shape, 200, 1)).verify()


def test_levels_beyond_a_window():
    edges = [(v, v + step) for v in range(150) for step in (1, 2)]
    best, left, right = (local_jacobians(DifferentiationGraph(edges), way) for way in ("best", "left", "right"))
    best.verify()
    assert count(best, "fma") <= min(count(left, "fma"), count(right, "fma"))


@given(graphs(20), st.sampled_from(["tail", "head"]))
def test_the_cost_of_a_sweep_is_known_beforehand(graph, side):
    pairs = dict.fromkeys(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assume(pairs)
    plain = DifferentiationGraph([(graph.vertices[j], graph.vertices[i]) for j, i in pairs])
    live = plain.live_edges.nonzero()[0].tolist()
    levelled = Levelled(plain, [(int(plain.sources[e]), int(plain.targets[e]), e) for e in live], side)
    for way in ("left", "right"):
        accumulation = local_jacobians(plain, way, side=side, **PLAIN)
        assert count(accumulation, "fma") <= levelled.sweep_cost(from_roots=way == "left")
