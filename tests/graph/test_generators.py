"""Generated graphs: sizes, the same ones everywhere, every vertex in use, known optima, refused arguments."""

from __future__ import annotations

import hashlib
import json
from itertools import permutations
from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside import count, eliminate_vertices

import accumulus as acc
from accumulus import Kind
from accumulus.elimination.vertex import markowitz_order
from accumulus.errors import ArgumentError, UnknownNameError
from accumulus.graph import generators as graphs
from accumulus.graph.generators import Draws
from accumulus.options import Objective

NAMES = tuple(graphs.generators())
SEEDED = tuple(name for name in NAMES if "seed" in graphs.generator_named(name).parameters)


def content(graph):
    """Everything that a graph is, by numbers."""
    return [
        graph.name,
        list(map(str, graph.vertices)),
        graph.roots,
        graph.terminals,
        graph.sources.tolist(),
        graph.targets.tolist(),
        graph.kinds.tolist(),
        graph.sizes.tolist(),
        sorted(graph.constants.items()),
    ]


def fingerprint(graph):
    return hashlib.sha256(json.dumps(content(graph)).encode()).hexdigest()[:12]


def optimum(graph):
    """Products of the best vertex elimination order, tried one by one."""
    return min(count(eliminate_vertices(graph, order), "fma") for order in permutations(graph.intermediates))


#: Graphs that are named in reports and papers by these calls must stay what they are.
FINGERPRINTS = {
    "lion": "a0d22328c763",
    "bat": "2b13369189d7",
    "gadgets": "60debda32553",
    "random_dag": "da7447ef9e32",
    "layered": "d67f3983517a",
    "banded": "7865d493e312",
    "series_parallel": "0cdde6410c1a",
    "chain": "31e853a2349b",
    "star": "2dc6778d660f",
    "stencil": "1f399fa77158",
    "butterfly": "2e185a992476",
    "matrix_chain": "cfc946d153b7",
    "dense_layers": "69810e124ec1",
}


def test_they_are_public():
    assert acc.graphs is graphs
    assert set(graphs.__all__) >= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_generator_has_one_line_and_defaults(name):
    made = graphs.generator_named(name)
    assert made.description.endswith(".")
    assert "\n" not in made.description
    graph = graphs.generate(name)
    assert graph.name == f"{name}()"
    assert content(graph) == content(getattr(graphs, name)())
    assert fingerprint(graph) == FINGERPRINTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_vertex_is_in_use(name):
    graph = graphs.generate(name)
    assert graph.live_edges.all()
    assert {*graph.sources.tolist(), *graph.targets.tolist()} == set(range(len(graph.vertices)))
    ends = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assert len(set(ends)) == len(ends)


@pytest.mark.parametrize("name", SEEDED)
def test_seeds(name):
    assert content(graphs.generate(name, seed=7)) == content(graphs.generate(name, seed=np.int64(7)))
    options = {"density": 0.5} if name == "banded" else {}
    different = {fingerprint(graphs.generate(name, seed=seed, **options)) for seed in (0, 1, -1, 10**30)}
    assert len(different) == 4


@given(st.integers(0, 12), st.integers(1, 4), st.integers(1, 4), st.floats(0, 1), st.integers(0, 10**6), st.booleans())
def test_random_dags(intermediates, inputs, outputs, share, seed, dense):
    pairs = inputs * outputs + (inputs + outputs) * intermediates + intermediates * (intermediates - 1) // 2
    fewest = min(pairs, 2 * (intermediates + max(inputs, outputs)))
    edges = round(pairs - share * (pairs - fewest)) if dense else fewest
    graph = graphs.random_dag(intermediates, max(edges, intermediates + 1), inputs, outputs, seed)
    assert (len(graph.intermediates), len(graph.terminals), len(graph.roots)) == (intermediates, inputs, outputs)
    assert len(set(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))) == len(graph.sources)
    assert len(graph.sources) >= max(edges, intermediates + 1)
    assert graph.live_edges.all()


def test_random_dags_have_the_requested_number_of_edges():
    assert len(graphs.random_dag(intermediates=50, edges=400, seed=3).sources) == 400
    full = graphs.random_dag(intermediates=6, edges=15 + 6 * 5 + 6, inputs=2, outputs=3)
    assert len(full.sources) == 15 + 6 * 5 + 6


@pytest.mark.parametrize(
    ("graph", "vertices", "edges", "roots", "terminals"),
    [
        (graphs.chain(0), 2, 1, 1, 1),
        (graphs.chain(7), 9, 8, 1, 1),
        (graphs.star(3, 2), 6, 5, 2, 3),
        (graphs.layered(layers=3, width=5, degree=2), 25, 40, 5, 5),
        (graphs.layered(layers=0, width=1, degree=1), 2, 1, 1, 1),
        (graphs.banded(8, bandwidth=3), 10, 9 + 8 + 7, 1, 1),
        (graphs.banded(8, bandwidth=30, density=0.0), 10, 9, 1, 1),
        (graphs.stencil(5, steps=2), 15, 2 * 13, 5, 5),
        (graphs.stencil(5, steps=2, periodic=True), 15, 2 * 15, 5, 5),
        (graphs.stencil(2, steps=1, periodic=True), 4, 4, 2, 2),
        (graphs.stencil((3, 4), steps=1), 24, 12 + 2 * (2 * 4 + 3 * 3), 12, 12),
        (graphs.stencil((3, 4, 3), steps=2, periodic=True), 108, 2 * 36 * 7, 36, 36),
        (graphs.stencil(1, steps=3), 4, 3, 1, 1),
        (graphs.butterfly(3), 32, 3 * 16, 8, 8),
        (graphs.matrix_chain([4, 3, 2]), 3, 2, 1, 1),
        (graphs.dense_layers([4, 3, 2]), 9, 18, 4, 2),
        (graphs.series_parallel(30), None, 30, 1, 1),
        (graphs.series_parallel(1), 2, 1, 1, 1),
        (graphs.series_parallel(30, noise=9), None, 39, 1, 1),
        (graphs.lion(), 8, 8, 4, 2),
        (graphs.lion(vectors=True), 6, 6, 3, 1),
        (graphs.bat(), 11, 12, 4, 4),
        (graphs.gadgets("bat", 3, "apart"), 33, 36, 12, 12),
        (graphs.gadgets("bat", 3, "chain"), 31, 36, 10, 10),
        (graphs.gadgets("bat", 3, "tree", vectors=True), 22, 27, 8, 4),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_sizes(graph, vertices, edges, roots, terminals):
    assert vertices in (None, len(graph.vertices))
    assert (len(graph.sources), len(graph.roots), len(graph.terminals)) == (edges, roots, terminals)
    assert graph.live_edges.all()


def test_orientation_of_given_sizes():
    graph = graphs.matrix_chain([4, 3, 2])
    assert [graph.sizes[v] for v in (*graph.roots, *graph.intermediates, *graph.terminals)] == [4, 3, 2]


def test_vectors_are_joined_to_vectors_only():
    graph = graphs.gadgets("lion", 5, "chain", vectors=True)
    assert sorted(graph.sizes.tolist()) == [1] * 20 + [2] * 6


def test_gadgets_in_a_tree_take_different_outputs():
    tree = graphs.gadgets("lion", 3, "tree")
    joined = [v for v in tree.intermediates if len(tree.out_edges[v]) == 1 and len(tree.in_edges[v]) == 1]
    assert len(joined) == 1  # the first output of the root, which has one edge; its last has two
    assert len(tree.intermediates) == 3 * 2 + 2


@pytest.mark.parametrize(
    ("graph", "products"),
    [
        (graphs.lion(), 12),
        (graphs.lion(vectors=True), 12),
        (graphs.bat(), 24),
        (graphs.bat(vectors=True), 24),
        (graphs.gadgets("lion", 2, "apart"), 24),
        (graphs.gadgets("bat", 2, "apart"), 48),
        (graphs.chain(6), 6),
        (graphs.star(7, 5), 35),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_known_optima(graph, products):
    assert optimum(graph) == products


@pytest.mark.parametrize("seed", range(4))
def test_matrix_chains_reach_the_cost_of_dynamic_programming(seed):
    graph = graphs.matrix_chain(7, largest=20, seed=seed)
    sizes = graph.sizes.tolist()
    best = {}
    for length in range(1, len(sizes)):
        for a in range(len(sizes) - length):
            b = a + length
            best[a, b] = min(
                (best[a, k] + best[k, b] + sizes[a] * sizes[k] * sizes[b] for k in range(a + 1, b)), default=0
            )
    assert optimum(graph) == best[0, len(sizes) - 1]


@given(st.integers(1, 60), st.integers(0, 10**6))
def test_series_parallel_graphs_cost_a_product_a_vertex(edges, seed):
    graph = graphs.series_parallel(edges, seed=seed)
    assert markowitz_order(graph, Objective.FMA)[0].cost[0] == len(graph.intermediates)


def test_noise_spoils_them():
    graph = graphs.series_parallel(100, noise=30, seed=1)
    assert markowitz_order(graph, Objective.FMA)[0].cost[0] > len(graph.intermediates)


def test_labels():
    graph = graphs.layered(layers=20, width=20)
    made = graphs.with_labels(graph, one=0.2, minus_one=0.1, constant=0.3, seed=5)
    shares = np.bincount(made.kinds, minlength=5) / len(made.kinds)
    assert all(
        isclose(share, expected, abs_tol=0.05) for share, expected in zip(shares, (0, 0.2, 0.1, 0.3, 0.4), strict=True)
    )
    values = {Kind.ONE: 1.0, Kind.MINUS_ONE: -1.0}
    assert made.constants == {e: values[k] for e, k in enumerate(made.kinds.tolist()) if k in values}
    assert content(made)[1:6] == content(graph)[1:6]
    assert content(made) == content(graphs.with_labels(graph, one=0.2, minus_one=0.1, constant=0.3, seed=5))
    assert not (graphs.with_labels(graph, seed=6).kinds == graphs.with_labels(graph, seed=7).kinds).all()
    assert set(graphs.with_labels(graph, one=0.5, minus_one=0.5, constant=0.0).kinds) == {Kind.ONE, Kind.MINUS_ONE}


def test_random_sizes():
    graph = graphs.with_sizes(graphs.random_dag(), largest=3, seed=2)
    assert set(graph.sizes.tolist()) == {1, 2, 3}
    assert fingerprint(graph) == fingerprint(graphs.with_sizes(graphs.random_dag(), largest=3, seed=2))


@pytest.mark.parametrize(
    ("name", "arguments", "edges"),
    [
        ("random_dag", {"intermediates": 20_000, "edges": 100_000}, 100_000),
        ("layered", {"layers": 99, "width": 500}, 100_000),
        ("series_parallel", {"edges": 90_000, "noise": 10_000}, 100_000),
        ("stencil", {"points": (100, 100), "steps": 2}, 2 * (10_000 + 4 * 9_900)),
        ("banded", {"intermediates": 25_000}, 25_001 * 4 - 6),
    ],
)
def test_large_graphs(name, arguments, edges):
    graph = graphs.generate(name, **arguments)
    assert len(graph.sources) == edges
    assert graph.live_edges.all()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("chain", {"intermediates": -1}, "intermediates is -1; expected a whole number of at least 0"),
        ("chain", {"intermediates": 2.5}, "intermediates is 2.5; expected a whole number"),
        ("star", {"inputs": True}, "inputs is True"),
        ("star", {"leaves": 3}, "star takes no argument 'leaves'; expected inputs, outputs"),
        ("layered", {"width": 3, "degree": 4}, "degree is 4; expected a whole number from 1 to 3"),
        ("banded", {"density": 1.5}, "density is 1.5; expected a number from 0 to 1"),
        ("banded", {"density": "1"}, "density is '1'"),
        ("random_dag", {"edges": 10**6}, "edges is 1000000; expected a whole number from 25 to 484"),
        ("random_dag", {"edges": 3}, "edges is 3"),
        ("random_dag", {"seed": None}, "seed is None; expected a whole number"),
        ("series_parallel", {"edges": 1, "noise": 1}, "noise is 1; expected a whole number from 0 to 0"),
        ("stencil", {"points": ()}, r"points is \(\); expected"),
        ("stencil", {"points": (3, 0)}, "points is 0"),
        ("butterfly", {"stages": 40}, "stages is 40"),
        ("matrix_chain", {"sizes": [3]}, r"sizes is \[3\]; expected at least two"),
        ("matrix_chain", {"sizes": [3, 0]}, r"sizes\[1\] is 0"),
        ("dense_layers", {"widths": 1}, "widths is 1"),
        ("gadgets", {"shape": "ring"}, "shape is 'ring'; expected 'apart' or 'chain' or 'tree'"),
        ("gadgets", {"count": 0}, "count is 0"),
    ],
)
def test_refused_arguments(name, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        graphs.generate(name, **arguments)


def test_refused_shares_and_names():
    with pytest.raises(ArgumentError, match=r"0.6, 0.3, 0.2; expected a sum of at most 1"):
        graphs.with_labels(graphs.lion(), 0.6, 0.3, 0.2)
    with pytest.raises(ArgumentError, match="largest is 0"):
        graphs.with_sizes(graphs.lion(), largest=0)
    with pytest.raises(UnknownNameError, match="unknown generator 'lions'; did you mean 'lion'"):
        graphs.generate("lions")
    with pytest.raises(UnknownNameError, match="unknown kind of gadget 'bird'"):
        graphs.gadgets("bird")


@given(st.integers(), st.integers(1, 6), st.integers(0, 6), st.integers(1, 20))
def test_distinct_numbers(seed, bound, count, rows):
    drawn = Draws(seed).distinct(bound, min(count, bound), rows)
    assert drawn.shape == (rows, min(count, bound))
    assert all(len(set(row)) == len(row) and set(row) <= set(range(bound)) for row in drawn.tolist())


def test_streams_are_not_cut_into_blocks():
    whole, pieces = Draws(4), Draws(4)
    assert whole.bits(9).tolist() == [*pieces.bits(2).tolist(), *pieces.bits(7).tolist()]
    # the first numbers of SplitMix64 from state 0, as Vigna's reference code prints them
    zero = Draws(0)
    zero._at = 0
    assert [hex(bits) for bits in zero.bits(2).tolist()] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4"]


def test_numbers_are_spread_evenly():
    counts = np.bincount(Draws(1).below(10, 100_000), minlength=10)
    assert abs(counts - 10_000).max() < 400
    assert Draws(1).chances(0.0, 100).sum() == 0
    assert Draws(1).chances(1.0, 100).sum() == 100
    assert sorted(Draws(2).permutation(50).tolist()) == list(range(50))
