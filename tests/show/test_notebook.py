"""Display in notebooks: well-formed and small, and names are text."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import given, settings
from inside import OPERATIONS

import accumulus as acc
from accumulus import Tape
from accumulus.graph import pictures
from accumulus.tape.tape import LONGEST_LATEX

HOSTILE = '<script>alert("1")</script>&\x1b[31m]]>'
SVG = "{http://www.w3.org/2000/svg}"


def steps(x):
    return np.array([x[0] * np.sin(x[1]), np.exp(x[2]) / x[0]])


def texts(html):
    """The texts of HTML without void elements but line breaks: that it can be read at all says that it is closed."""
    tree = ElementTree.fromstring(html.replace("<br>", "<br/>"))
    assert {element.tag for element in tree.iter()} <= {
        "div",
        "p",
        "b",
        "br",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    return [text for text in tree.itertext() if text]


@pytest.fixture(scope="module")
def derivative():
    made = acc.jacobian(steps, effort="fast", time_limit=0)
    assert "Nothing is compiled yet" in "".join(texts(made._repr_html_()))
    made(np.ones(3))
    return made


def test_a_derivative_shows_its_programs(derivative):
    result = texts(derivative._repr_html_())
    assert result[0] == "jacobian(steps)"
    assert {"3", "2", str(derivative.operations), "llvm"} <= set(result)
    assert str(derivative.operations) in texts(derivative.compile(np.ones(3))._repr_html_())


def test_the_report_has_the_printed_numbers(derivative):
    report = derivative.report()
    words = " ".join(" ".join(texts(report._repr_html_())).split())
    for line in str(report).splitlines():
        for word in line.replace("─", " ").split():
            assert word in words


def test_reports_on_cases_loops_and_checks_are_tables():
    decides = acc.gradient(lambda x: x**2 if int(x) else -x, effort="fast")
    decides.batch(np.array([0.5, 1.5]))
    assert "case" in texts(decides.report()._repr_html_())
    long = acc.jacobian(lambda u: u[1:] * u[:-1], sparse="csr")
    long(np.ones(40_000))
    assert "instances" in texts(long.report()._repr_html_())
    assert any("passed" in text for text in texts(acc.check(steps, np.ones(3))._repr_html_()))


def test_names_are_text_wherever_they_are_shown():
    graph = acc.DifferentiationGraph([(HOSTILE, "a", HOSTILE), ("a", "x" * 40)], name=HOSTILE)
    plan = acc.plan(graph)
    assert any("<script>" in text for text in texts(plan._repr_html_()))
    picture = ElementTree.fromstring(graph._repr_svg_())
    assert {element.tag for element in picture.iter()} <= {
        SVG + tag for tag in ("svg", "title", "path", "polygon", "rect", "text")
    }
    assert max(len(element.text) for element in picture.iter(f"{SVG}text")) <= pictures.SHOWN


@settings(max_examples=12)
@given(graphs())
def test_every_vertex_and_edge_of_a_small_graph_is_drawn_in_the_picture(graph):
    picture = graph._repr_svg_()
    if len(graph.vertices) > pictures.LARGEST[0] or len(graph.sources) > pictures.LARGEST[1]:
        assert picture is None
        return
    tree = ElementTree.fromstring(picture)
    width, height = float(tree.attrib["width"]), float(tree.attrib["height"])
    boxes = [[float(box.attrib[side]) for side in ("x", "y", "width", "height")] for box in tree.iter(f"{SVG}rect")]
    assert len(boxes) == sum(level >= 0 for level in pictures.levels(graph))
    for k, (x, y, wide, high) in enumerate(boxes):
        assert min(x, y) >= 0
        assert x + wide <= width + 1
        assert y + high <= height + 1
        for x2, y2, wide2, _ in boxes[:k]:
            assert y != y2 or x + wide <= x2 or x2 + wide2 <= x


def test_traces_show_the_recording():
    html = acc.trace(steps, np.ones(3))._repr_html_()
    table, _, picture = html.partition("<svg")
    result = texts(f"{table}</div>")
    assert {"3", "2", "4 operations", "divisions 1, exp 1, multiplications 1, sin 1"} <= set(result)
    assert picture.count("<rect") == len(acc.trace(steps, np.ones(3)).linearize().vertices)
    assert "<svg" not in acc.trace(np.cumsum, np.ones(100))._repr_html_()


def test_tapes_and_expressions_are_formulas_up_to_a_length():
    trace = acc.trace(steps, np.ones(3))
    assert trace.tape._repr_latex_().count("&=") == trace.tape.operations + len(trace.tape.outputs)
    plan = acc.plan(trace.linearize())
    assert acc.expressions(plan)._repr_latex_().startswith("$$\\begin{aligned}")
    assert acc.trace(lambda x: np.cumsum(np.sin(x)), np.ones(LONGEST_LATEX)).tape._repr_latex_() is None


@pytest.mark.parametrize("row", OPERATIONS[1:], ids=lambda row: row.name)
def test_signs_are_those_of_operations(row):
    """Braces are balanced, and every argument is there."""
    tape = Tape(row.arity)
    tape.outputs = [tape.apply_code(row.code, list(range(row.arity)))]
    written = tape._repr_latex_()
    assert written.count("{") == written.count("}")
    assert all(f"x_{{{k}}}" in written for k in range(row.arity))
