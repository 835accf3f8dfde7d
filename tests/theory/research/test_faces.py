"""The least number of face eliminations: against every sequence."""

from __future__ import annotations

from itertools import islice

import pytest
from inside import eliminate_faces
from slow_minima import least_faces_by_trying

from accumulus import DifferentiationGraph
from accumulus.theory.research.survey import reduced_graphs, shortest_faces


def products(graph, sequence):
    accumulation = eliminate_faces(graph, sequence)
    accumulation.verify()
    return sum(accumulation.steps.is_product)


@pytest.mark.parametrize(("edges", "every"), [(3, 1), (4, 1), (5, 1), (6, 2), (7, 20)])
def test_the_optimum_by_trying_every_sequence(edges, every):
    for reduced in islice(reduced_graphs(edges), 0, None, every):
        graph = reduced.graph()
        number, sequence = shortest_faces(graph)
        assert number == len(sequence) == products(graph, sequence)
        if number <= 7:  # more take the slow route too long
            assert number == least_faces_by_trying(graph), reduced.key


def test_limits():
    graph = DifferentiationGraph([("a", 1), ("b", 1), (1, 2), (1, "x"), (2, "x"), (2, "z"), (2, "w"), (2, "u")])
    number, sequence = shortest_faces(graph, moves=1)
    assert number < 11 <= len(sequence) == products(graph, sequence)
    assert shortest_faces(graph, at_least=len(sequence), moves=1) == (len(sequence), sequence)
    assert shortest_faces(graph)[0] == 11


def test_faces_are_counted_whatever_the_sizes_of_their_ends():
    edges = [("a", 1), ("b", 1), (1, 2), (1, "x"), (2, "x"), (2, "z"), (2, "w"), (2, "u")]
    sized = DifferentiationGraph(edges, sizes=dict.fromkeys(("a", "b", 1, 2, "x", "z", "w", "u"), 2))
    number, sequence = shortest_faces(sized)
    assert number == len(sequence) == products(sized, sequence) == 11


def test_parts_are_searched_one_by_one():
    twice = [(f"{j}{k}", f"{i}{k}") for k in "lr" for j, i in ("ya", "za", "ab", "ax", "bx", "bu", "bv", "bw")]
    number, sequence = shortest_faces(DifferentiationGraph(twice), at_least=22)
    assert number == len(sequence) == 22
