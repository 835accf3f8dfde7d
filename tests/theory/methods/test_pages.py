from __future__ import annotations

import pytest
from figures import edges, figure
from graph_strategies import graphs, random_graph
from hypothesis import given
from hypothesis import strategies as st
from path_sums import check

from accumulus.elimination.emit import count
from accumulus.theory.methods.local_jacobians import local_jacobians
from accumulus.theory.methods.pages import pages, trace_pages

MULTI = figure("fig:multi-root-terminal-graph", "a")
FACTORIZATION = "fig:multi-root-terminal-factorization"


@given(graphs(16), st.booleans())
def test_the_jacobian(graph, literal):
    check(pages(graph, literal=literal))


@given(graphs(16))
def test_parting_is_never_worse_than_one_piece(graph):
    assert count(pages(graph), "fma") <= count(local_jacobians(graph, "best"), "fma")


@pytest.mark.parametrize(
    ("graph", "cost", "literal"),
    [(MULTI, 40, 46), (figure(FACTORIZATION, "a"), 44, 51), (figure(FACTORIZATION, "e"), 20, 24)],
)
def test_products_of_the_graphs_of_the_notes(graph, cost, literal):
    assert count(pages(graph), "fma") <= cost
    assert count(pages(graph, literal=True), "fma") <= literal
    check(pages(graph, literal=True))


def shape(part: str) -> dict[tuple[str, str], str | None]:
    """The edges of a drawing, with labels that are labels of the graph; (f) calls e17 e15."""
    found = {(j, i): label for j, i, label in edges(FACTORIZATION, part)}
    if part == "f":
        found["v-1", "v1"] = "e17"
    return {ends: label if label and label.startswith("e") else None for ends, label in found.items()}


def test_the_figure_is_the_trace_of_a_run():
    trace = trace_pages(figure(FACTORIZATION, "a"))
    drawn = {part: shape(part) for part in "abcdefghi"}

    def matches(page, part):
        return page.edges.keys() == drawn[part].keys() and all(
            label in (None, page.edges[ends]) for ends, label in drawn[part].items()
        )

    place = {part: next(k for k, page in enumerate(trace) if matches(page, part)) for part in drawn}
    family = {part: (trace[place[part]].rule, trace[place[part]].parent) for part in drawn}
    assert family["a"] == ("given", None)
    assert family["b"] == ("simple", place["a"])
    assert family["c"] == ("index sets", place["b"])
    assert family["d"] == family["e"] == ("cross-level", place["c"])
    assert family["f"] == ("factorized", place["d"])
    assert family["g"] == family["h"] == ("cross-level", place["e"])
    assert family["i"][0] == "simple"
    assert trace[family["i"][1]].rule == "factorized"
    assert trace[family["i"][1]].parent == place["h"]
    other = next(page for page in trace if page.parent == place["b"] and page.edges != trace[place["c"]].edges)
    assert other.edges.keys() == {("v-4", "v13")}


def test_labels_that_the_figure_gives_to_references():
    reduced = trace_pages(figure(FACTORIZATION, "a"))[1].edges
    drawn = {(j, i): label for j, i, label in edges(FACTORIZATION, "b")}
    assert reduced == drawn


@pytest.mark.parametrize("shape_of_graph", ["sparse", "layered", "deep", "series-parallel", "star"])
def test_larger_graphs(shape_of_graph):
    pages(random_graph(shape_of_graph, 200, 1)).verify()
