"""Line graphs: made from graphs, turned back, and told apart from digraphs that are none."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from figures import LINE_GRAPHS, figure, isomorphic, line_figure
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st
from path_sums import letters

from accumulus import DifferentiationGraph, Kind
from accumulus.errors import GraphError
from accumulus.graph.graph import subgraph
from accumulus.theory.graphs.line import Biclique, LineFace, LineGraph
from accumulus.theory.graphs.paths import bauer, paths_at

LABELS = (None, "a", Kind.ONE, -1.0, 2.5)


def live(graph):
    return subgraph(graph, graph.live_edges.nonzero()[0].tolist())


@given(graphs(odd=False, labels=LABELS))
def test_faces(graph):
    """One for each adjacent edge path of an intermediate, one for each first and last edge."""
    line = LineGraph.of(graph)
    edges, roots = len(graph.sources), len(graph.roots)
    alive = set(graph.live_edges.nonzero()[0].tolist())
    inner = {path for v in graph.intermediates for path in paths_at(graph, v) if alive.issuperset(path)}
    assert set(line.intermediate_faces) == inner
    first = {(edges + k, e) for k, v in enumerate(graph.roots) for e in graph.out_edges[v] if e in alive}
    last = {(e, edges + roots + k) for k, v in enumerate(graph.terminals) for e in graph.in_edges[v] if e in alive}
    faces = list(line.faces)
    assert faces == sorted(faces)
    assert set(faces) == inner | first | last
    assert all(isinstance(face, LineFace) for face in faces)
    assert len(line.names) == edges + roots + len(graph.terminals)


@given(graphs(odd=False, labels=LABELS))
def test_there_and_back(graph):
    """The identity, dead edges apart, with names, labels, kinds and sizes."""
    line = LineGraph.of(graph)
    assert line.reason is None
    back = line.to_graph()
    expected = live(graph)
    assert isomorphic(back, expected, fixed=True)
    assert back.vertices == expected.vertices
    assert back.symbols == expected.symbols
    assert back.sources.tolist() == expected.sources.tolist()
    assert bauer(back, letters(back)) == bauer(expected, letters(expected))


@given(graphs(odd=False))
def test_there_and_back_without_the_graph(graph):
    """From names and faces alone: the identity up to naming."""
    line = LineGraph.of(graph)
    names = [f"e{e}" for e in range(line.edges)] + [f"end {k}" for k in range(len(line.names) - line.edges)]
    again = LineGraph(names, line.faces, len(line.roots), len(line.terminals))
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    symbols = DifferentiationGraph(
        [(graph.vertices[j], graph.vertices[i], f"e{e}") for e, (j, i) in enumerate(ends)],
        [graph.vertices[v] for v in graph.roots],
        [graph.vertices[v] for v in graph.terminals],
    )
    assert isomorphic(again.to_graph(), live(symbols), fixed=True)


@given(graphs(odd=False))
def test_bicliques_are_vertices(graph):
    """Every vertex that paths go through is one; every face is in exactly one."""
    line = LineGraph.of(graph)
    result = line.bicliques
    faces = [face for biclique in result for face in product(*biclique)]
    assert sorted(faces) == list(line.faces)
    for which in (0, 1):
        members = [v for biclique in result for v in biclique[which]]
        assert len(members) == len(set(members))
    touched = {int(v) for e in graph.live_edges.nonzero()[0] for v in (graph.sources[e], graph.targets[e])}
    assert len(result) == len(touched)


def literal(line):
    """The criterion of Heuchenne, pair by pair, and what roots and terminals are."""
    below = [set(s) for s in line.successors]
    above = [set(p) for p in line.predecessors]
    if any(below[u] & below[v] and below[u] != below[v] for u, v in combinations(range(len(below)), 2)):
        return False
    if any(bool(above[v]) != bool(below[v]) for v in range(line.edges)):
        return False
    alone = all(above[j] == {y} and j < line.edges for y in line.roots for j in below[y])
    return alone and all(below[i] == {x} and i < line.edges for x in line.terminals for i in above[x])


@st.composite
def digraphs(draw):
    count = draw(st.integers(2, 8))
    roots, terminals = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    order = [*range(count, count + roots), *range(count), *range(count + roots, count + roots + terminals)]
    pairs = [(i, j) for i, j in combinations(order, 2) if not count <= j < count + roots and not i >= count + roots]
    return LineGraph(range(count + roots + terminals), [p for p in pairs if draw(st.booleans())], roots, terminals)


@given(digraphs())
def test_recognition_of_any_digraph(line):
    assert (line.reason is None) == literal(line)
    if line.reason is None:
        back = LineGraph.of(line.to_graph())
        assert len(list(back.faces)) == len(list(line.faces))
    else:
        with pytest.raises(GraphError, match="not a line graph: "):
            line.to_graph()


@given(graphs(odd=False), st.data())
def test_recognition_after_a_face_is_gone(graph, data):
    line = LineGraph.of(graph)
    faces = list(line.faces)
    gone = data.draw(st.sampled_from(faces)) if faces else None
    rest = LineGraph(line.names, [face for face in faces if face != gone], len(line.roots), len(line.terminals))
    assert (rest.reason is None) == literal(rest)


#: Figures that show line graphs, with the graph that each is of; (b), (c) and (f) of the chain-block elimination are
#: those of the factorizations.
FIGURES = {
    ("fig:chain-block-elimination", "a"): ("fig:complex-dag-and-complete-path-dag", "b"),
    ("fig:chain-block-elimination", "b"): ("fig:2-step-factorization", "a"),
    ("fig:chain-block-elimination", "c"): ("fig:factorization-with-reference", "b"),
    ("fig:multi-root-terminal-graph", "b"): ("fig:multi-root-terminal-graph", "a"),
}


@pytest.mark.parametrize("case", FIGURES, ids=" ".join)
def test_figures_both_ways(case):
    graph = figure(*FIGURES[case])
    drawn = line_figure(*case)
    made = LineGraph.of(graph)
    assert isomorphic(drawn.to_graph(), graph)
    # the drawings order roots and terminals in their own way
    assert isomorphic(LineGraph.of(drawn.to_graph()).to_graph(), made.to_graph())
    named = {(drawn.names[i], drawn.names[j]) for i, j in drawn.intermediate_faces}
    if len(set(graph.symbols)) == len(graph.symbols):
        assert {(made.names[i], made.names[j]) for i, j in made.intermediate_faces} == named


@pytest.mark.parametrize("case", [case for case in LINE_GRAPHS if case[0] != "fig:biclique"], ids=" ".join)
def test_all_drawn_line_graphs_are_some(case):
    """Also those in the middle of an elimination, (d) to (f): merging keeps them line graphs here."""
    line = line_figure(*case)
    assert line.reason is None
    assert literal(line)


def test_figure_of_the_biclique():
    """v3 is the biclique K_{3,2} of (b), which is drawn without added vertices."""
    graph = figure("fig:biclique", "a")
    line = LineGraph.of(graph)
    drawn = line_figure("fig:biclique", "b")
    assert {(line.names[i], line.names[j]) for i, j in line.intermediate_faces} == {
        (drawn.names[i], drawn.names[j]) for i, j in drawn.faces
    }
    (inner,) = [b for b in line.bicliques if max(*b.predecessors, *b.successors) < line.edges]
    assert {line.names[e] for e in inner.predecessors} == {"e3", "e4", "e5"}
    assert {line.names[e] for e in inner.successors} == {"e1", "e2"}
    assert len(line.bicliques) == len(graph.vertices)
    with pytest.raises(GraphError, match="'e1' has no successors, and is neither a root nor a terminal"):
        drawn.to_graph()


def test_figure_of_the_page_example():
    """fig:line-graph-eg is the line graph of fig:multi-root-terminal-factorization (e)."""
    drawn = line_figure("fig:line-graph-eg").to_graph()
    graph = figure("fig:multi-root-terminal-factorization", "e")
    labels = {"s1": "e3e7", "s2": "e6e10"}
    outer = {"v-2": "e18", "v-3": "e19", "v10": "e13", "v11": "e14", "v12": "e15", "v13": "e16"}
    edges = []
    for e, (j, i) in enumerate(zip(graph.sources, graph.targets, strict=True)):
        ends = graph.vertices[j], graph.vertices[i]
        symbol = graph.symbols[e]
        edges.append((*ends, labels.get(symbol, symbol) or outer.get(ends[0]) or outer[ends[1]]))
    assert isomorphic(drawn, DifferentiationGraph(edges))


#: Faces among a, b, c, d, root y and terminal x (0 to 5), and what is wrong with them.
WRONG = {
    "overlap": ([(4, 0), (4, 1), (0, 2), (0, 3), (1, 2), (2, 5), (3, 5)], "'a' and 'b' both come before 'c', but only"),
    "no predecessor": ([(0, 1), (1, 5)], "'a' has no predecessors"),
    "no successor": ([(4, 0), (0, 1)], "'b' has no successors"),
    "root not alone": ([(4, 0), (4, 1), (0, 1), (1, 5)], "'y' and 'a' both come before 'b'"),
    "equal successors": ([(4, 0), (0, 1), (4, 2), (2, 3), (3, 5), (1, 5), (2, 1), (0, 3)], None),
    "root and edge": ([(4, 0), (2, 0), (0, 5)], "'c' has no predecessors"),
    "nothing between": ([(4, 5)], "no edge lies between root 'y' and terminal 'x'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_reasons(case):
    faces, expected = WRONG[case]
    line = LineGraph("abcdyx", faces, 1, 1)
    assert (line.reason is None) == (expected is None)
    if expected is not None:
        assert expected in line.reason
        with pytest.raises(GraphError, match="not a line graph"):
            _ = line.bicliques


def test_shared_ends():
    shared = LineGraph(["a", "y1", "y2", "x"], [(1, 0), (2, 0), (0, 3)], 2, 1)
    assert shared.reason == "root 'y1' shares a successor: ⟨y1,a⟩, ⟨y2,a⟩"
    shared = LineGraph(["a", "y", "x1", "x2"], [(1, 0), (0, 2), (0, 3)], 1, 2)
    assert shared.reason == "terminal 'x1' shares a predecessor: ⟨a,x1⟩, ⟨a,x2⟩"


#: Faces that no line graph can be made with, and the message.
REFUSED = {
    "cycle": ([(0, 1), (1, 0)], "cycle"),
    "unknown": ([(0, 7)], r"face \(0, 7\) names a vertex that is not one of the 4"),
    "twice": ([(0, 1), (0, 1)], "the face ⟨a,b⟩ is given twice"),
    "into a root": ([(0, 2)], "root 'y' comes after 'a'"),
    "out of a terminal": ([(3, 0)], "terminal 'x' comes before 'a'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    faces, message = REFUSED[case]
    with pytest.raises(GraphError, match=message):
        LineGraph("abyx", faces, 1, 1)
    with pytest.raises(GraphError, match="3 roots and 2 terminals among 4 vertices"):
        LineGraph("abyx", [], 3, 2)


def test_biclique_of_a_chain():
    line = LineGraph.of(DifferentiationGraph([("y", "a"), ("a", "x")]))
    assert line.names == ("⟨y,a⟩", "⟨a,x⟩", "y", "x")
    assert line.bicliques == (Biclique((2,), (0,)), Biclique((0,), (1,)), Biclique((1,), (3,)))
    assert repr(line) == "LineGraph(2 edges, 1 roots, 1 terminals, 3 faces)"
