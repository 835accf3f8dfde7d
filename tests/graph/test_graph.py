"""Differentiation graphs: how they are made, their odd shapes, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import given
from path_sums import all_paths, paths

from accumulus import DifferentiationGraph, Kind
from accumulus.errors import GraphError


def named(graph, numbers):
    return [graph.vertices[v] for v in numbers]


def edges(graph):
    return list(zip(named(graph, graph.sources), named(graph, graph.targets), graph.kinds.tolist(), strict=True))


#: Edges, roots, terminals given; names of roots and terminals of the graph, and how many intermediates it has.
SHAPES = {
    "ends by default": ([("y", "a"), ("a", "x")], None, None, ["y"], ["x"], 1),
    "no edges": ([], None, None, [], [], 0),
    "only inputs": ([], None, ["x", "u"], [], ["x", "u"], 0),
    "constant output": ([("y", "x")], ["y", "c"], None, ["y", "c"], ["x"], 0),
    "unused input": ([("y", "x")], None, ["x", "u"], ["y"], ["x", "u"], 0),
    "output is an input": ([("y", "x")], ["y", "x"], None, ["y", "x′"], ["x"], 0),
    "output is an unused input": ([("y", "x")], ["y", "u"], ["x", "u"], ["y", "u′"], ["x", "u"], 0),
    "output below an output": ([("y", "a"), ("a", "x")], ["y", "a"], None, ["y", "a′"], ["x"], 1),
    "output named twice": ([("y", "x")], ["y", "y"], None, ["y′", "y′′"], ["x"], 1),
    "input as output twice": ([], ["x", "x"], ["x"], ["x′", "x′′"], ["x"], 0),
    "name of an own root taken": ([("y", "a"), ("a", "a′"), ("a′", "x")], ["y", "a"], None, ["y", "a′′"], ["x"], 2),
    "leaf that is not an input": ([("y", "x"), ("y", "c")], None, ["x"], ["y"], ["x"], 1),
    "top that is not an output": ([("y", "x"), ("t", "x")], ["y"], None, ["y"], ["x"], 1),
    "names of any kind": ([((1, 2), 0), (0, frozenset())], None, None, [(1, 2)], [frozenset()], 1),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shape(case):
    given_edges, roots, terminals, expected_roots, expected_terminals, intermediates = SHAPES[case]
    graph = DifferentiationGraph(given_edges, roots, terminals)
    assert named(graph, graph.roots) == expected_roots
    assert named(graph, graph.terminals) == expected_terminals
    assert len(graph.intermediates) == intermediates
    assert len(set(graph.vertices)) == len(graph.vertices)
    for unit_edge, unit in zip(edges(graph)[len(given_edges) :], graph.kinds[len(given_edges) :], strict=True):
        assert unit_edge[0] in expected_roots
        assert unit == Kind.ONE


#: What a label says, and its kind, symbol and value.
LABELS = [
    (None, Kind.VARIABLE, None, None),
    ("a", Kind.VARIABLE, "a", None),
    ("one", Kind.VARIABLE, "one", None),
    (1, Kind.ONE, None, 1.0),
    (-1.0, Kind.MINUS_ONE, None, -1.0),
    (np.float32(0.5), Kind.CONSTANT, None, 0.5),
    (np.int8(3), Kind.CONSTANT, None, 3.0),
    (0.0, Kind.CONSTANT, None, 0.0),
    (Kind.ONE, Kind.ONE, None, 1.0),
    (Kind.MINUS_ONE, Kind.MINUS_ONE, None, -1.0),
    (Kind.CONSTANT, Kind.CONSTANT, None, None),
    (Kind.VARIABLE, Kind.VARIABLE, None, None),
]


@pytest.mark.parametrize(("label", "kind", "symbol", "value"), LABELS)
def test_label(label, kind, symbol, value):
    graph = DifferentiationGraph([("y", "x", label)])
    assert (graph.kinds[0], graph.symbols[0], graph.constants.get(0)) == (kind, symbol, value)


def test_sizes_apply_to_added_roots_too():
    graph = DifferentiationGraph([("y", "a"), ("a", "x")], ["y", "a"], sizes={"a": 3, "x": 2})
    assert dict(zip(graph.vertices, graph.sizes.tolist(), strict=True)) == {"y": 1, "a": 3, "x": 2, "a′": 3}


#: What is given, and what the message says.
REFUSED = {
    "cycle": (([("y", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "x")],), r"cycle: 'a' → 'b' → 'c' → 'a'"),
    "loop": (([("y", "a"), ("a", "a"), ("a", "x")],), "cycle: 'a' → 'a'"),
    "cycle apart from the ends": (([("y", "x"), ("a", "b"), ("b", "a")], ["y"], ["x"]), "cycle: 'a' → 'b' → 'a'"),
    "terminal with outgoing edges": (([("y", "a"), ("a", "x")], None, ["a"]), "terminal 'a' depends on 'x'"),
    "terminal twice": (([("y", "x")], None, ["x", "x"]), "terminal 'x' is named 2 times"),
    "edge of one end": (([("y",)],), r"edge \('y',\): expected \(from, to\)"),
    "edge of four": (([("y", "x", 1, 2)],), "expected"),
    "edge of text": ((["yx"],), "edge 'yx': expected"),
    "edge of a number": (([3],), "edge 3: expected"),
    "unhashable name": (([(["y"], "x")],), "hashable"),
    "boolean label": (([("y", "x", True)],), "not True"),
    "absent label": (([("y", "x", Kind.ABSENT)],), "not <Kind.ABSENT"),
    "complex label": (([("y", "x", 1j)],), "not 1j"),
    "huge label": (([("y", "x", 10**400)],), "expected a number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    arguments, message = REFUSED[case]
    with pytest.raises(GraphError, match=message):
        DifferentiationGraph(*arguments)


@pytest.mark.parametrize("ends", [{"roots": "y1"}, {"terminals": "x1"}])
def test_one_name_is_no_list_of_names(ends):
    with pytest.raises(GraphError, match="expected a list of names"):
        DifferentiationGraph([("y1", "x1")], **ends)


SIZES = [
    *({"x": 0}, {"x": -1}, {"nosuch": 2}, {"x": 1.5}, {"x": "2"}, {"x": True}, {"x": math.nan}, {"x": None}),
    *({"x": (1 << 16) + 1}, {"x": 10**400}, {"x": 10**5000}, {"x": np.bool_(True)}, {"x": np.float64(2.0)}),
]


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: type(next(iter(sizes.values()))).__name__)
def test_refused_sizes(sizes):
    with pytest.raises(GraphError, match="expected a whole number from 1 to 65536, and a vertex"):
        DifferentiationGraph([("y", "x")], sizes=sizes)


@pytest.mark.parametrize("label", [1, 1.0, -1, Kind.ONE, Kind.MINUS_ONE, 2.5, 0, -0.0, math.nan])
def test_numbers_join_vertices_of_one_size(label):
    edges = [("y", "a", label), ("a", "x")]
    assert DifferentiationGraph(edges, sizes={"y": 3, "a": 3, "x": 2}).sizes.tolist() == [3, 3, 2]
    with pytest.raises(GraphError, match=r"edge from 'y' to 'a' is .*these have 2 and 3 entries"):
        DifferentiationGraph(edges, sizes={"y": 2, "a": 3, "x": 3})
    kind = Kind.of(float(label)) if not isinstance(label, Kind) else label
    value = {Kind.ONE: 1.0, Kind.MINUS_ONE: -1.0}.get(kind, label)
    numbers = {"vertices": "yax", "roots": [0], "terminals": [2], "constants": {0: value}}
    with pytest.raises(GraphError, match="these have 2 and 3 entries"):
        DifferentiationGraph.from_arrays([0, 1], [1, 2], [kind, Kind.VARIABLE], sizes=[2, 3, 3], **numbers)


def test_labels_that_are_no_numbers_join_vertices_of_any_size():
    edges = [("y", "a", Kind.CONSTANT), ("a", "x", "s"), ("y", "x")]
    assert DifferentiationGraph(edges, sizes={"y": 2, "a": 3, "x": 5}).kinds.tolist() == [3, 4, 4]


def test_a_graph_that_was_taken_for_cheap():
    """Six products were said to be enough for it, and optimal: −1 between vertices of 3 entries and 1."""
    edges = [("v0", "v1", 1.0), ("v0", "v4"), ("v1", "v3", -1.0), ("v3", "v4", 1.0), ("v3", "v6"), ("v4", "v5")]
    sizes = {"v0": 3, "v1": 3, "v3": 1, "v4": 4, "v5": 2, "v6": 3}
    with pytest.raises(GraphError, match="edge from 'v1' to 'v3' is -1, but these have 3 and 1 entries"):
        DifferentiationGraph(edges, sizes=sizes)


ARRAYS = {
    "sources": [
        *([0.0, 1.0], [[0, 1]], [0, 10**400], [0, -1], [0, 3], [True, False], ["0", "1"], [0, math.nan], [[0], 1]),
    ],
    "kinds": [[4, 0], [4, 5], [4, 256], [4.0, 4.0], [4], [4, None]],
    "sizes": [[1, 1, 0], [1, 1, -1], [1, 1, 10**400], [1, 1, 1 << 17], [1, 1], [1, 1, 1.5], [True] * 3, [1, 1, None]],
}


@pytest.mark.parametrize(("name", "malformed"), [(name, value) for name in ARRAYS for value in ARRAYS[name]], ids=str)
def test_refused_arrays(name, malformed):
    right = {"sources": [0, 1], "targets": [1, 2], "kinds": [4, 4], "sizes": [1, 1, 1]}
    with pytest.raises(GraphError, match=rf"^{name} is .*; expected \d whole numbers from"):
        DifferentiationGraph.from_arrays(**{**right, name: malformed}, vertices="yax", roots=[0], terminals=[2])


def test_arrays_of_the_graph_are_copies_and_read_only():
    sources, targets = np.array([0, 1], np.int32), np.array([1, 2], np.int32)
    kinds, sizes, constants = np.array([4, 3], np.uint8), np.ones(3, np.int64), {1: 2.0}
    ends = {"vertices": "yax", "roots": [0], "terminals": [2]}
    graph = DifferentiationGraph.from_arrays(sources, targets, kinds, sizes=sizes, constants=constants, **ends)
    sources[0], sizes[0], constants[1] = 2, 7, 3.0
    assert (graph.sources[0], graph.sizes[0], graph.constants[1]) == (0, 1, 2.0)
    for array in (graph.sources, graph.targets, graph.kinds, graph.sizes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_long_cycles_are_named_in_part():
    n = 30_000
    with pytest.raises(GraphError, match=r"cycle: 0 → .* → 9 → \(29981 more\) → 29991 → .* → 29999 → 0; expected none"):
        DifferentiationGraph([(k, (k + 1) % n) for k in range(n)])


@given(graph=graphs())
def test_adjacency_and_order(graph):
    ends = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    for v in range(len(graph.vertices)):
        assert graph.out_edges[v] == [e for e, (source, _) in enumerate(ends) if source == v]
        assert graph.in_edges[v] == [e for e, (_, target) in enumerate(ends) if target == v]
    rank = {v: position for position, v in enumerate(graph.topological_order)}
    assert sorted(rank) == list(range(len(graph.vertices)))
    assert all(rank[target] < rank[source] for source, target in ends)
    assert not any(graph.in_edges[root] for root in graph.roots)
    assert not any(graph.out_edges[terminal] for terminal in graph.terminals)
    assert not {*graph.roots} & {*graph.terminals}


@given(graph=graphs())
def test_live_edges_are_those_on_a_path_from_a_root_to_a_terminal(graph):
    on_a_path = {edge for counts in all_paths(graph).values() for path in counts for edge in path}
    assert set(graph.live_edges.nonzero()[0].tolist()) == on_a_path


def test_paths_of_a_diamond():
    graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "x"), ("b", "x"), ("b", "x")])
    assert sorted(paths(graph, 0, 3)) == [(0, 2), (1, 3), (1, 4)]


@pytest.mark.parametrize(
    "arguments",
    [
        {"terminals": ["X"]},
        {"roots": ["Y"]},
        {"roots": 3},
        {"sizes": [1]},
    ],
    ids=str,
)
def test_misspelt_ends_and_malformed_arguments_are_refused(arguments):
    with pytest.raises(GraphError, match="expected"):
        DifferentiationGraph([("y", "x")], **arguments)
    with pytest.raises(GraphError, match="edges is None"):
        DifferentiationGraph(None)


def test_unused_ends_may_be_named():
    graph = DifferentiationGraph([("y", "x")], roots=["y", "constant"], terminals=["x", "unused"])
    assert len(graph.roots) == len(graph.terminals) == 2
    graph = DifferentiationGraph(
        [("y", "x")], roots=["constant"], terminals=["unused"], sizes={"constant": 1, "unused": 1}
    )
    assert not graph.live_edges.any()
