from __future__ import annotations

import pytest
from figures import edges, figure
from graph_strategies import graphs, random_graph
from hypothesis import given
from hypothesis import strategies as st
from inside import count
from path_sums import check

from accumulus.theory.methods.local_jacobians import local_jacobians
from accumulus.theory.methods.pages import pages, trace_pages

MULTI = figure("fig:multi-root-terminal-graph", "a")
FACTORIZATION = "fig:multi-root-terminal-factorization"


@given(graphs(16), st.booleans())
def test_the_jacobian(graph, literal):
    check(pages(graph, literal=literal))


@given(graphs(16))
def test_partition_into_pages_is_never_worse(graph):
    assert count(pages(graph), "fma") <= count(local_jacobians(graph, "best"), "fma")


@pytest.mark.parametrize(
    ("graph", "cost", "literal"),
    [(MULTI, 40, 46), (figure(FACTORIZATION, "a"), 44, 51), (figure(FACTORIZATION, "e"), 20, 24)],
)
def test_products_of_the_graphs_of_the_notes(graph, cost, literal):
    assert count(pages(graph), "fma") <= cost
    assert count(pages(graph, literal=True), "fma") <= literal
    check(pages(graph, literal=True))


def shape(panel: str) -> dict[tuple[str, str], str | None]:
    """The edges of a drawing, with labels that are labels of the graph; (f) calls e17 e15."""
    results = {(j, i): label for j, i, label in edges(FACTORIZATION, panel)}
    if panel == "f":
        results["v-1", "v1"] = "e17"
    return {ends: label if label and label.startswith("e") else None for ends, label in results.items()}


def test_the_figure_is_the_trace_of_a_run():
    trace = trace_pages(figure(FACTORIZATION, "a"))
    drawn = {panel: shape(panel) for panel in "abcdefghi"}

    def matches(page, panel):
        return page.edges.keys() == drawn[panel].keys() and all(
            label in (None, page.edges[ends]) for ends, label in drawn[panel].items()
        )

    page_of = {panel: next(k for k, page in enumerate(trace) if matches(page, panel)) for panel in drawn}
    family = {panel: (trace[page_of[panel]].rule, trace[page_of[panel]].parent) for panel in drawn}
    assert family["a"] == ("given", None)
    assert family["b"] == ("simple", page_of["a"])
    assert family["c"] == ("index sets", page_of["b"])
    assert family["d"] == family["e"] == ("cross-level", page_of["c"])
    assert family["f"] == ("factorized", page_of["d"])
    assert family["g"] == family["h"] == ("cross-level", page_of["e"])
    assert family["i"][0] == "simple"
    assert trace[family["i"][1]].rule == "factorized"
    assert trace[family["i"][1]].parent == page_of["h"]
    other = next(page for page in trace if page.parent == page_of["b"] and page.edges != trace[page_of["c"]].edges)
    assert other.edges.keys() == {("v-4", "v13")}


def test_labels_that_the_figure_gives_to_references():
    reduced = trace_pages(figure(FACTORIZATION, "a"))[1].edges
    drawn = {(j, i): label for j, i, label in edges(FACTORIZATION, "b")}
    assert reduced == drawn


@pytest.mark.parametrize("shape_of_graph", ["sparse", "layered", "deep", "series-parallel", "star"])
def test_larger_graphs(shape_of_graph):
    pages(random_graph(shape_of_graph, 200, 1)).verify()
