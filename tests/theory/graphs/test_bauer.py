"""Bauer's formula: by vertices and path by path, in rings that do not commute."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from figures import figure
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st
from inside import eliminate_vertices
from path_sums import letters

from accumulus import DifferentiationGraph, Kind
from accumulus.errors import ArgumentError
from accumulus.theory.graphs.paths import bauer

LABELS = (None, Kind.ONE, Kind.MINUS_ONE)


@given(graphs(7, odd=False, labels=LABELS))
def test_by_vertices_and_by_paths(graph):
    assert bauer(graph, letters(graph)) == bauer(graph, letters(graph), expanded=True)


@given(graphs(odd=False), st.integers(0, 2**32 - 1))
def test_matrices_of_matching_shapes(graph, seed):
    """Labels of vector-valued vertices: whole-number matrices, multiplied in the order of the paths or not at all."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, len(graph.vertices))
    ends = zip(graph.sources, graph.targets, strict=True)
    labels = [rng.integers(-3, 4, (sizes[j], sizes[i])) for j, i in ends]
    by_vertices = bauer(graph, labels, multiply=operator.matmul)
    by_paths = bauer(graph, labels, multiply=operator.matmul, expanded=True)
    assert by_vertices.keys() == by_paths.keys()
    for entry, value in by_vertices.items():
        assert (value == by_paths[entry]).all()
        assert value.shape == (sizes[graph.roots[entry[0]]], sizes[graph.terminals[entry[1]]])


@given(graphs(odd=False, labels=LABELS), st.data())
def test_it_equals_the_result_of_elimination(graph, data):
    accumulation = eliminate_vertices(graph, data.draw(st.permutations(graph.intermediates)))
    values = letters(graph)
    for is_product, left, right in accumulation.steps:
        values.append(values[left] * values[right] if is_product else values[left] + values[right])
    results = {entry: values[reference] for entry, reference in accumulation.entries.items()}
    assert results == bauer(graph, letters(graph), expanded=True)


def test_figure():
    """The equation eq-a-full of the notes."""
    graph = figure("fig:complex-dag-and-complete-path-dag", "a")
    (value,) = bauer(graph, letters(graph)).values()
    assert sorted("".join(word) for word in value.words) == ["e1e3e5e7", "e1e3e6e8", "e2e4e5e7", "e2e4e6e8"]


def test_one_label_for_each_edge():
    with pytest.raises(ArgumentError, match="1 labels for 2 edges"):
        bauer(DifferentiationGraph([("y", "a"), ("a", "x")]), [1])
