"""Plots of reports and pictures of graphs: their numbers, their errors, and names that stay text."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError, UnknownNameError
from accumulus.programs.measured import Speed
from accumulus.show.report import Report

matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib: make test")
figure = pytest.importorskip("matplotlib.figure")


def swirl(x, scale):
    turn = np.sin(x[1]) * scale
    return np.array([x[0] * turn, np.exp(x[2]) / x[0]])


SPEED = Speed(2e-6, (1, 10, 100), (1e-6, 2e-7, 3e-8), 12, 80, 4e10, (5e10, 1e10), "a machine", "2026-11-27")


@pytest.fixture(scope="module")
def report():
    derivative = acc.value_and_jacobian(swirl, argnums=(0, 1), effort="fast")
    derivative(np.array([0.5, 1.0, 2.0]), 3.0)
    return derivative.report()


@pytest.fixture
def ax():
    return figure.Figure().subplots()


def lengths(ax):
    return [bar.get_width() for bar in ax.patches]


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_methods_are_as_long_as_they_cost(report, ax):
    assert report.plot("methods", ax) is ax
    costs = {each.method: each.cost(report.objective) for each in [report.chosen, *report.others]}
    assert dict(zip(names(ax), lengths(ax), strict=True)) == costs
    assert lengths(ax) == sorted(lengths(ax))


def test_a_known_bound_is_a_line(ax):
    graph = acc.DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "x"), ("a", "w")])
    report = Report.of_plan(acc.plan(graph, objective="fma"), {})
    assert report.chosen.lower_bound is not None
    report.plot("methods", ax)
    assert ax.lines[0].get_xdata()[0] == report.chosen.lower_bound


def test_lines_and_stages_add_up(report, ax):
    report.plot("lines", ax)
    assert sum(lengths(ax)) == report.operations
    assert names(ax)[0].endswith("turn = np.sin(x[1]) * scale")
    ax.clear()
    report.plot("stages", ax)
    assert (lengths(ax)[0], lengths(ax)[-1]) == (report.emitted, report.operations)


def test_the_pattern_is_that_of_the_jacobian(report, ax):
    report.plot("pattern", ax)
    (image,) = ax.images
    assert (~np.ma.getmaskarray(image.get_array())).astype(int).tolist() == [[1, 1, 0, 1], [1, 0, 1, 0]]


def test_speed_is_plotted_where_it_was_measured(report, ax):
    import dataclasses

    measured = dataclasses.replace(report, measured=SPEED)
    measured.plot("sizes", ax)
    assert ax.lines[0].get_ydata().tolist() == list(SPEED.seconds)
    ax.clear()
    measured.plot("roofline", ax)
    assert ax.lines[2].get_ydata().tolist() == [12 / seconds for seconds in SPEED.seconds]
    assert max(ax.lines[0].get_ydata()) == SPEED.peak
    for kind in ("sizes", "roofline"):
        with pytest.raises(ArgumentError, match=r"expected jac\.report\(x\)"):
            report.plot(kind, ax)


def test_without_axes_there_is_a_figure(report, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = matplotlib.get_backend()
    pyplot.switch_backend("agg")
    ax = report.plot()
    assert ax.figure.number in pyplot.get_fignums()
    pyplot.close(ax.figure)

    def refuse(**_):
        raise RuntimeError("no display")

    monkeypatch.setattr(pyplot, "subplots", refuse)
    assert report.plot().patches
    pyplot.switch_backend(before)


def test_methods_of_loops_are_those_of_all_instances(ax):
    loops = acc.jacobian(lambda u: np.sin(u[1:] * u[:-1]) * u[1:], sparse="csr")
    loops(np.ones(40_000))
    loops.report().plot("methods", ax)
    names = [label.get_text() for label in ax.get_yticklabels()]
    widths = {name: bar.get_width() for name, bar in zip(names, ax.patches, strict=True)}
    (body,) = loops._program().facts.bodies
    assert sorted(names) == sorted({"forward", "markowitz", "reverse", body.plan.method})
    assert widths[body.plan.method] == body.count * body.plan.costs[body.plan.objective] > 0
    assert widths["reverse"] == body.count * acc.plan(body.plan.graph, "reverse").costs[body.plan.objective]


def test_wrong_requests_list_the_alternatives(report, ax):
    with pytest.raises(UnknownNameError, match="did you mean 'methods'"):
        report.plot("method", ax)
    loops = acc.jacobian(lambda u: u[1:] * u[:-1], sparse="csr")
    loops(np.ones(40_000))
    with pytest.raises(ArgumentError, match="runs as loops"):
        loops.report().plot("stages", ax)
    alone = acc.compile(lambda u: u[1:] * u[:-1])
    alone(np.ones(40_000))
    with pytest.raises(ArgumentError, match="expected a derivative"):
        alone.report().plot("methods", ax)
    product = acc.jvp(lambda x: x**2, effort="fast")
    product((np.ones(2),), (np.ones(2),))
    with pytest.raises(ArgumentError, match="no matrix of derivatives"):
        product.report().plot("pattern", ax)
    with pytest.raises(ArgumentError, match="needs the program"):
        Report.of_plan(acc.plan(acc.DifferentiationGraph([("y", "x")])), {}).plot("lines", ax)


def test_without_matplotlib_the_error_gives_advice(report, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ArgumentError, match="pip install matplotlib"):
        report.plot()
    with pytest.raises(ArgumentError, match=r"pip install matplotlib; pictures as \.svg"):
        acc.DifferentiationGraph([("y", "x")]).show(tmp_path / "graph.png")


@pytest.mark.parametrize(("end", "begin"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")])
def test_pictures_are_files_of_their_kind(tmp_path, end, begin):
    graph = acc.DifferentiationGraph(
        [("y", "a$_1$", "e1"), ("a$_1$", "\\frac$", 1.0), ("a$_1$", "漢\x1b")], name="$\\x$"
    )
    path = graph.show(tmp_path / f"graph.{end}")
    assert path.read_bytes().startswith(begin)
    assert graph.show(tmp_path / f"again.{end}").read_bytes() == path.read_bytes()
    with pytest.raises(ArgumentError, match=r"The picture was written to .*\." + end):
        graph.show(tmp_path / "no" / f"graph.{end}")


def test_a_png_has_the_colours_of_the_svg(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    graph = acc.DifferentiationGraph([("y", "a"), ("a", "x")])
    pixels = image.imread(graph.show(tmp_path / "graph.png"))
    results = {tuple(round(255 * channel) for channel in pixel) for pixel in pixels.reshape(-1, 4)[:, :4].tolist()}
    for colour in ("#0b62c1", "#14743f", "#eef1f4"):
        assert (*bytes.fromhex(colour[1:]), 255) in results


def test_a_png_that_is_too_large_is_refused(tmp_path):
    graph = acc.DifferentiationGraph([("y", f"x{k}") for k in range(300)])
    with pytest.raises(ArgumentError, match=r"expected \.svg or \.pdf"):
        graph.show(tmp_path / "graph.png")
