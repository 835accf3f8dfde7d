"""Edges that are left, against paths that are counted one by one; the search, against all sets."""

from __future__ import annotations

import math
from itertools import chain, combinations

import numpy as np
import pytest
from contexts import within
from graph_strategies import graphs, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Context
from path_sums import paths

import accumulus as acc
from accumulus import DifferentiationGraph, Kind
from accumulus.options import Options
from accumulus.search import scarcity
from accumulus.search.scarcity import multiplications_left, scarce_set


def subsets(items):
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def left_by_paths(graph: DifferentiationGraph, gone) -> int:
    """Multiplications, from the paths on which all inner vertices are gone: a sum of several is not ±1."""
    gone = set(gone)
    remaining = [v for v in range(len(graph.vertices)) if v not in gone]
    live = graph.live_edges
    count = 0
    for j in remaining:
        for i in remaining:
            through = [
                path
                for path in paths(graph, j, i)
                if path and all(live[e] for e in path) and gone.issuperset(graph.targets[[*path[:-1]]].tolist())
            ]
            units = [all(graph.kinds[e] in (Kind.ONE, Kind.MINUS_ONE) for e in path) for path in through]
            count += bool(through) and units != [True]
    return count


@given(graph=graphs(vertices=7), data=st.data())
@settings(max_examples=25)
def test_remaining_edges_are_paths_through_eliminated_vertices(graph, data):
    gone = data.draw(st.sets(st.sampled_from(graph.intermediates))) if graph.intermediates else set()
    assert multiplications_left(graph, gone) == left_by_paths(graph, gone)


@given(graph=graphs(vertices=8))
@settings(max_examples=20)
def test_the_best_set_of_few_intermediates_is_returned(graph):
    best = min(multiplications_left(graph, gone) for gone in subsets(graph.intermediates))
    assert multiplications_left(graph, scarce_set(graph, within(math.inf))) == best


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", ["dense", "layered", "sparse"])
def test_annealing_finds_the_best_set_of_small_graphs(monkeypatch, shape, seed):
    graph = random_graph(shape, 13, seed)
    best = min(multiplications_left(graph, gone) for gone in subsets(graph.intermediates))
    monkeypatch.setattr(scarcity, "_FEW", -1)
    assert multiplications_left(graph, scarce_set(graph, within(math.inf, effort="thorough"))) == best


@given(shape=st.sampled_from(["dense", "layered", "sparse", "deep"]), seed=st.integers(0, 1000))
@settings(max_examples=5)
def test_no_set_is_worse_than_the_graph_or_the_jacobian(shape, seed):
    graph = random_graph(shape, 24, seed)
    either = min(multiplications_left(graph, gone) for gone in ((), graph.intermediates))
    for options in (Options(effort="fast"), Options(seed=seed)):
        eliminated = scarce_set(graph, Context(options, math.inf))
        assert multiplications_left(graph, eliminated) <= either
        assert eliminated == scarce_set(graph, Context(options, math.inf))


def test_a_bottleneck_is_not_eliminated():
    """A sum on which everything depends: 2n edges, and n² nonzeros."""
    n = 20
    edges = [("sum", f"x{k}") for k in range(n)] + [(f"y{k}", "sum") for k in range(n)]
    graph = DifferentiationGraph(
        [*edges, *((f"z{k}", f"x{k}") for k in range(n)), *((f"y{k}", f"z{k}") for k in range(n))]
    )
    eliminated = scarce_set(graph, within(math.inf, effort="fast"))
    assert sorted(graph.vertices[v] for v in eliminated) == sorted(f"z{k}" for k in range(n))
    assert multiplications_left(graph, eliminated) == 3 * n


def test_vertices_with_conditions_are_eliminated():
    graph = acc.trace(lambda x: np.where(x > 0.0, np.sqrt(x), 0.0) + x * np.exp(np.sum(x)), np.ones(9)).linearize()
    eliminated = scarce_set(graph, within(math.inf))
    remaining = [graph.vertices[v] for v in graph.intermediates if v not in eliminated]
    # the exponential's is on no path through a condition
    assert len(remaining) == 1, remaining
    assert multiplications_left(graph, eliminated) < 9 * 9


def test_without_time_there_is_a_set():
    graph = random_graph("layered", 60, 1)
    either = min(multiplications_left(graph, gone) for gone in ((), graph.intermediates))
    assert multiplications_left(graph, scarce_set(graph, within(0.0))) <= max(either, len(graph.sources))
