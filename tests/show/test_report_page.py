"""Pages of reports: their numbers are those of the program, and names in them are text."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from test_explorer import HOSTILE, Elements, data_of

import accumulus as acc
from accumulus.errors import ArgumentError
from accumulus.programs import measured
from accumulus.show.costs import Costs, source_of
from accumulus.show.explorer import parameters_of
from accumulus.show.report import Report
from accumulus.show.report_page import MOST_CELLS, page_of_report
from accumulus.show.tables import percent


def swirl(x, scale):
    turn = np.sin(x[1]) * scale
    return np.array([x[0] * turn, np.exp(x[2]) / x[0]])


def costs_of(derivative):
    program, function = derivative._program(), derivative._last_form.__wrapped__
    return program, Costs.of(program, function, parameters_of(program, function))


@pytest.fixture(scope="module")
def derivative():
    made = acc.value_and_jacobian(swirl, argnums=(0, 1), effort="fast")
    made(np.array([0.5, 1.0, 2.0]), 3.0)
    return made


def needed(tape, outputs):
    """The operations that outputs depend on, found one by one."""
    actual, waiting = set(), [tape.outputs[k] for k in outputs]
    while waiting:
        reference = waiting.pop()
        if reference >= tape.inputs and reference not in actual:
            actual.add(reference)
            waiting += tape.arguments(reference)
    return actual


def test_every_operation_belongs_to_the_line_that_it_is_of(derivative):
    program, costs = costs_of(derivative)
    assert costs.by_line.total() == costs.by_output.total() == program.operations
    by_text = {}
    for (line, purpose, kind), count in costs.by_line.items():
        by_text.setdefault(source_of(line).partition(" ")[0], {})[purpose, kind] = count
    assert set(by_text) == {"turn", "return"}
    assert by_text["turn"]["value", "sin"] == by_text["turn"]["derivatives", "cos"] == 1
    assert by_text["return"]["value", "exp"] == 1
    assert any(kind == "divisions" for _, kind in by_text["return"])
    assert not any(kind in ("sin", "cos") for _, kind in by_text["return"])


def test_operations_are_shared_or_of_one_output(derivative):
    program, costs = costs_of(derivative)
    blocks = program.blocks()
    rows = [{k}.union(*(block.outputs[block.rows == k].tolist() for block in blocks)) for k in range(2)]
    first, second = (needed(program.tape, outputs) for outputs in rows)
    by_output = {}
    for (output, _), count in costs.by_output.items():
        by_output[output] = by_output.get(output, 0) + count
    expected = {
        "swirl[0]": len(first - second), "swirl[1]": len(second - first), "shared by all 2": len(first & second)
    }  # fmt: skip
    assert by_output == {name: count for name, count in expected.items() if count}


def test_blocks_and_nonzeros_need_their_dependences(derivative):
    program, costs = costs_of(derivative)
    assert [(block.argument, block.shape) for block in costs.blocks] == [("x", (2, 3)), ("scale", (2, 1))]
    assert [list(zip(b.rows.tolist(), b.columns.tolist(), strict=True)) for b in costs.blocks] == [
        [(0, 0), (0, 1), (1, 0), (1, 2)],
        [(0, 0)],
    ]
    for block, entries in zip(costs.blocks, program.blocks(), strict=True):
        assert block.operations == len(needed(program.tape, entries.outputs.tolist()))
        assert list(block.each) == [len(needed(program.tape, [output])) for output in entries.outputs.tolist()]
        assert 0 <= block.own <= block.operations


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
def test_sparse_blocks_are_where_the_matrix_has_them(fmt):
    derivative = acc.jacobian(swirl, sparse=fmt, effort="fast")
    matrix = derivative(np.array([0.5, 1.0, 2.0]), 3.0)
    _, costs = costs_of(derivative)
    (block,) = costs.blocks
    at = np.zeros(matrix.shape, bool)
    at[block.rows, block.columns] = True
    assert (at == (matrix.toarray() != 0)).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: (acc.gradient(lambda x: np.sum(np.sin(x[1:]) * x[:-1])), (np.ones(5),)),
        lambda: (acc.hessian(lambda x: np.sum(np.sin(x[1:]) * x[:-1])), (np.ones(5),)),
        lambda: (acc.jvp(lambda x: np.sin(x) * x[0]), ((np.ones(3),), (np.ones(3),))),
        lambda: (acc.vjp(lambda x: np.sin(x) * x[0]), ((np.ones(3),), np.ones(3))),
        lambda: (acc.taylor(lambda x: np.sin(x) * x[0]), ((np.ones(3),), (np.ones((2, 3)),))),
        lambda: (acc.compile(lambda x: np.sin(x) * x[0]), (np.ones(3),)),
        lambda: (acc.jacobian(lambda x: np.sin(x) * x[0], rows=[0, 2]), (np.ones(3),)),
        lambda: (acc.gradient(lambda x: x**2 if x > 0 else -x), (2.0,)),
        lambda: (acc.jacobian(lambda p: {"r": p["a"] * p["b"]}), ({"a": 2.0, "b": np.ones(2)},)),
        lambda: (acc.jacobian(lambda x, n: x[:n] ** 2, static_argnums=1), (np.ones(3), 2)),
        lambda: (acc.jacobian(lambda x: np.zeros(2)), (np.ones(2),)),
        lambda: (acc.jacobian(lambda u: u[1:] * u[:-1], sparse="csr"), (np.ones(40_000),)),
    ],
    ids=[
        "gradient",
        "hessian",
        "jvp",
        "vjp",
        "taylor",
        "compile",
        "rows",
        "cases",
        "containers",
        "static",
        "nothing",
        "loops",
    ],
)
def test_every_kind_of_derivative_has_a_page(make):
    derivative, arguments = make()
    derivative(*arguments)
    report = derivative.report()
    data = data_of(page_of_report(report))
    assert data["numbers"][0][0] == f"{report.operations:,}"
    assert all(flame["of"]["v"] == report.operations for flame in data["flames"])
    if report.differentiates and data.get("pattern"):
        assert sum(data["pattern"]["cells"][2::4]) == report.nonzeros


def test_stages_end_at_the_program():
    def f(x):
        s, c = np.sin(x), np.cos(x)
        return np.array([s[0] ** 2 + c[0] ** 2 + s[1], s[0] * c[1] + c[0] * s[1]])

    derivative = acc.jacobian(f, effort="thorough", time_limit=1.0)
    derivative(np.ones(2))
    report = derivative.report()
    names = [name for name, _ in report.stages]
    assert names[0] == "rules"
    assert names[-1] == "rules at the end"
    assert report.stages[-1][1] == report.operations
    data = data_of(page_of_report(report))
    assert data["stages"][0][1] == report.emitted
    assert data["identities"]["words"]
    again = acc.jacobian(f, effort="thorough", time_limit=1.0)
    again(np.ones(2))
    assert again.report().stages == report.stages  # from the cache


def test_functions_with_a_small_domain_have_lines_too():
    def flow(q):
        pressure = q[2] - 3.0 * (q[0] ** 2 + q[1] ** 2)
        return np.sqrt(pressure) * q[:2]

    derivative = acc.jacobian(flow, effort="fast")
    derivative(np.array([0.1, 0.2, 1.5]))
    _, costs = costs_of(derivative)
    assert None not in {line for line, *_ in costs.by_line}


def test_large_patterns_are_drawn_in_groups():
    derivative = acc.jacobian(lambda x: x[1:] * x[:-1], sparse="csr", effort="fast")
    derivative(np.ones(400))
    pattern = data_of(page_of_report(derivative.report()))["pattern"]
    assert pattern["group"] == [3, 3]
    assert sum(pattern["cells"][2::4]) == 2 * 399
    assert max(pattern["cells"][::4]) < MOST_CELLS


def test_loops_have_methods_and_a_pattern():
    def system(u):
        return np.sin(u[:-2] * u[1:-1]) * u[1:-1] + np.exp(u[2:])

    derivative = acc.jacobian(system, sparse="csr")
    derivative(np.linspace(0.0, 1.0, 40_000))
    report = derivative.report()
    data = data_of(page_of_report(report))
    methods = data["methods"]
    (body,) = derivative._program().facts.bodies
    rows = {row[0]: row[1:4] for row in methods["rows"]}
    assert set(rows) == {body.plan.method, "forward", "reverse", "markowitz"}
    assert rows[body.plan.method] == [39_998 * cost for cost in body.plan.costs.values()]
    reverse = acc.plan(body.plan.graph, "reverse").costs
    assert rows["reverse"] == [39_998 * cost for cost in reverse.values()]
    ((name, instances, _, cost, _),) = methods["bodies"]
    assert name.startswith("test_report_page.py:")
    assert (instances, cost) == (39_998, body.plan.costs[methods["objective"]])
    pattern = data["pattern"]
    assert pattern["size"] == [39_998, 40_000]
    assert sum(pattern["cells"][2::4]) == report.nonzeros == 3 * 39_998
    rows, columns = np.array(pattern["cells"]).reshape(-1, 4)[:, :2].T
    assert abs(rows - columns).max() <= 1


def test_pages_and_text_round_alike():
    assert [percent(share, 1000) for share in (125, 124, 10, 4, 0)] == ["13 %", "12 %", "1 %", "0.4 %", "0 %"]


def test_a_measured_report_has_times_and_limits(monkeypatch):
    monkeypatch.setattr(measured, "POINTS", (1, 10))
    monkeypatch.setattr(measured, "REPEATED", 0.0)
    monkeypatch.setattr(measured, "IN_MEMORY", 1_000_000)
    derivative = acc.jacobian(swirl, effort="fast")
    speed = derivative.report(np.ones(3), scale=2.0).measured
    assert speed.points == (1, 10)
    assert min(speed.call, *speed.seconds, speed.peak, *speed.bandwidth) > 0.0
    assert speed.bytes == 8 * (4 + 2 * 3)
    assert speed.intensity == speed.operations / speed.bytes
    assert speed.limit(1e12) == speed.peak
    data = data_of(page_of_report(derivative.report(np.ones(3), scale=2.0)))
    assert data["measured"]["points"] == [1, 10]
    assert "measured" in str(derivative.report(np.ones(3), scale=2.0))
    assert derivative.report().measured is None


def test_reports_are_data_without_their_program(derivative):
    report = derivative.report()
    assert "subject" not in json.loads(json.dumps(report.to_dict()))
    copied = pickle.loads(pickle.dumps(report))
    assert copied.subject is None
    assert copied == report
    assert data_of(page_of_report(copied))["flames"] == []


def test_graphs_of_files_have_a_page():
    graph = acc.DifferentiationGraph([("y", "a"), ("a", "x"), ("a", "b"), ("b", "x")], name=HOSTILE)
    report = Report.of_plan(acc.plan(graph), {"plan": 0.5})
    text = page_of_report(report)
    elements = Elements(text)
    assert [tag for tag, _ in elements.tags].count("script") == 3
    assert not any(tag == "img" for tag, _ in elements.tags)
    assert HOSTILE in data_of(text)["title"]


def test_a_file_that_cannot_be_written_is_named_with_one_that_was(derivative, tmp_path):
    with pytest.raises(ArgumentError, match=r"cannot be written: .*The page was written to"):
        derivative.report().show(tmp_path / "no" / "page.html")
    assert "swirl" in derivative.report().show(tmp_path / "page.html").read_text(encoding="utf-8")
