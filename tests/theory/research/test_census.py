"""The census: against all edge sets of a size, and what every graph of it has to be."""

from __future__ import annotations

import random
from itertools import combinations, permutations

import pytest

from accumulus.errors import GraphError
from accumulus.theory.research.survey import ReducedGraph, random_reduced_graph, reduced_graphs


def is_reduced(edges):
    above, below = {}, {}
    for j, i in edges:
        below.setdefault(j, set()).add(i)
        above.setdefault(i, set()).add(j)
    for j, i in edges:
        if j not in above and i not in below:
            return False
    if any(len(above[v]) == len(below[v]) == 1 for v in above if v in below):
        return False
    vertices = {v for edge in edges for v in edge}
    reached, stack = set(), [min(vertices)]
    while stack:
        v = stack.pop()
        if v not in reached:
            reached.add(v)
            stack += [*above.get(v, ()), *below.get(v, ())]
    return reached == vertices


def least_image(edges):
    vertices = sorted({v for edge in edges for v in edge})
    images = []
    for names in permutations(range(len(vertices))):
        name = dict(zip(vertices, names, strict=True))
        images.append(tuple(sorted((name[j], name[i]) for j, i in edges)))
        images.append(tuple(sorted((name[i], name[j]) for j, i in edges)))
    return min(images)


@pytest.mark.parametrize("edges", [3, 4, 5])
def test_every_graph_is_there_once(edges):
    expected = set()
    for vertices in range(2, edges + 2):
        for edge_set in combinations(list(combinations(range(vertices), 2)), edges):
            if len({v for edge in edge_set for v in edge}) == vertices and is_reduced(edge_set):
                expected.add(least_image(edge_set))
    numbers = {}
    actual = [
        least_image([(numbers.setdefault(j, len(numbers)), numbers.setdefault(i, len(numbers))) for j, i in edges_])
        for edges_ in (graph.named_edges() for graph in reduced_graphs(edges))
    ]
    assert len(actual) == len(set(actual))
    assert set(actual) == expected


@pytest.mark.parametrize(("edges", "graphs"), [(6, 28), (7, 113), (8, 542)])
def test_graphs_of_the_census(edges, graphs):
    results = list(reduced_graphs(edges))
    assert len(results) == len(set(results)) == graphs
    for reduced in results:
        assert reduced.edges == len(reduced.named_edges()) == edges
        assert is_reduced(reduced.named_edges())
        assert reduced == reduced.canonical() == ReducedGraph.parse(reduced.key)
        assert reduced <= reduced.reversed().canonical()
        graph = reduced.graph()
        assert graph.live_edges.all()
        assert len(graph.intermediates) == reduced.intermediates


def image(members, way):
    return sum(1 << way[v] for v in range(len(way)) if members >> v & 1)


def test_canonical_forms_are_those_of_isomorphic_graphs():
    rng = random.Random(7)
    for _ in range(100):
        graph = random_reduced_graph(rng.randint(5, 14), rng)
        assert is_reduced(graph.named_edges())
        way = rng.sample(range(graph.intermediates), graph.intermediates)
        moved = ReducedGraph(
            graph.intermediates,
            tuple(sorted((way[i], way[j]) for i, j in graph.inner)),
            tuple(sorted(image(s, way) for s in graph.roots)),
            tuple(sorted(image(s, way) for s in graph.terminals)),
        )
        assert moved.canonical() == graph
        assert graph.reversed().reversed() == graph


@pytest.mark.parametrize(
    "key", ["", "2:01:0,0", "2:10:0:x", "1::1:0", "2:01:0,0:1,1,01,1 ", "1::0:0,0:", "1::00:0,0", "3:01:0:1", "1::0:0"]
)
def test_text_that_is_no_key(key):
    with pytest.raises(GraphError, match="no graph of the census"):
        ReducedGraph.parse(key)
