"""Pictures for Graphviz: everything is in them, on its side, and no name can break out of its quotes."""

from __future__ import annotations

import re

import pytest
from graph_strategies import VALUED, graphs
from hypothesis import given
from hypothesis import strategies as st

from accumulus import DifferentiationGraph, Kind, save_graph
from accumulus.graph.pictures import to_dot
from accumulus.theory.graphs.line import LineGraph, line_graph_to_dot

ARROW = re.compile(r"  v(\d+) -> v(\d+)(?: \[.*\])?;")
RANK = re.compile(r"  \{ rank=(\w+); (.*) \}")
LINE = re.compile(r'  (?:(?:graph|node|edge) \[.*\];|v\d+ \[label="(?:[^"\\\n]|\\[\\"n])*".*\];|v\d+ -> .*;|\{ .* \})')


def arrows(text):
    return [tuple(map(int, match.groups())) for match in map(ARROW.fullmatch, text.splitlines()) if match]


def ranks(text):
    results = {match[1]: match[2] for match in map(RANK.fullmatch, text.splitlines()) if match}
    return {rank: tuple(map(int, re.findall(r"v(\d+);", vertices))) for rank, vertices in results.items()}


@given(graphs(odd=False, labels=VALUED))
def test_everything_is_in_it(graph):
    text = to_dot(graph)
    assert text == to_dot(graph)
    assert arrows(text) == list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assert ranks(text) == {"source": graph.roots, "sink": graph.terminals}
    assert text.count("style=dashed") == sum(graph.kinds == Kind.ONE)


@given(graphs(odd=False))
def test_line_graphs(graph):
    line = LineGraph.of(graph)
    text = line_graph_to_dot(line)
    assert arrows(text) == list(line.faces)
    assert ranks(text) == {"source": tuple(line.roots), "sink": tuple(line.terminals)}


@given(graphs(sized=True), st.text())
def test_a_line_for_each_thing_whatever_it_is_called(graph, name):
    edges = [(f"{name}{v}", v, name) for v in (1, 2)]
    for made in (graph, DifferentiationGraph(edges, name=name)):
        first, *lines, last = to_dot(made).split("\n")
        assert re.fullmatch(r'digraph "(?:[^"\\]|\\[\\"n])*" \{', first)
        assert last == "}"
        assert [line for line in lines if not LINE.fullmatch(line)] == []


def test_names_and_labels():
    graph = DifferentiationGraph(
        [("v-2", 'say "y"', "e3e7"), ('say "y"', "a\\b\nc", 2.5), ("v-2", "sin2&lt;")], sizes={"v-2": 3}, name='"'
    )
    text = to_dot(graph)
    assert text.startswith('digraph "\\"" {\n')
    assert re.findall(r'label=("(?:[^"\\]|\\.)*")', text) == [
        '"v₋₂ ×3"',
        r'"say \"y\""',
        r'"a\\b\nc"',
        '"sin2&amp;lt;"',
        '" e₃e₇ "',
        '" 2.5 "',
    ]


@pytest.mark.parametrize("suffix", [".dot", ".gv", ".DOT"])
def test_files(tmp_path, suffix):
    graph = DifferentiationGraph([("y", "ÿ∂", "\ud800")])
    save_graph(graph, tmp_path / f"graph{suffix}")
    written = (tmp_path / f"graph{suffix}").read_text(encoding="utf-8")
    assert written == to_dot(graph).replace("\ud800", "?") + "\n"
    (tmp_path / "line.dot").write_text(line_graph_to_dot(LineGraph.of(graph)), encoding="utf-8")
    assert "v1 -> v0;" in (tmp_path / "line.dot").read_text(encoding="utf-8")
