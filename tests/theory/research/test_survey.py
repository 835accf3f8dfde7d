"""Verdicts, the file of results, and the commands."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest
from inside import FaceElimination, app, eliminate_faces
from typer.testing import CliRunner

from accumulus import DifferentiationGraph, save_graph
from accumulus.errors import ArgumentError
from accumulus.theory.algebra.relations import elimination_dependencies
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.research import survey
from accumulus.theory.research.survey import ReducedGraph, decide, read_results, reduced_graphs, sample

#: Results up to seven edges, as the documentation says how to make.
KEPT = Path(__file__).parents[2] / "data" / "circular.jsonl"
LION = DifferentiationGraph([("a", 1), ("b", 1), (1, 2), (1, "5"), (2, "5"), (2, "3a"), (2, "3b"), (2, "4")])


def run(*arguments):
    return CliRunner().invoke(app, ["research", *map(str, arguments)])


def settled(path):
    """Return the results that do not depend on the course of the search."""
    return {
        key: [actual[name] for name in ("minimum", "faces", "verdict")] for key, actual in read_results(path).items()
    }


def test_stored_results_are_reproduced(tmp_path):
    output = tmp_path / "found.jsonl"
    summary = survey.survey(7, output)
    assert summary.complete
    assert summary.decided == 152
    assert settled(output) == settled(KEPT)


def test_every_result_has_its_verdict():
    for key, result in read_results(KEPT).items():
        graph = ReducedGraph.parse(key).graph()
        assert result["edges"] == [list(edge) for edge in ReducedGraph.parse(key).named_edges()]
        program = ExpressionSet.parse("\n".join(result["program"].split("; ")))
        accumulation = program.to_accumulation(graph)  # raises unless it is the Jacobian
        assert program.cost("fma") == result["minimum"][0] == result["minimum"][1]
        assert elimination_dependencies(accumulation).is_acyclic
        faces = eliminate_faces(graph, map(tuple, result["sequence"]))
        faces.verify()
        assert sum(faces.steps.is_product) == result["faces"][0] == result["faces"][1]


def test_verdicts_for_circular_and_open_graphs(monkeypatch):
    result = decide(LION)
    assert (result.minimum, result.faces, result.verdict) == ((11, 11), (11, 11), "acyclic")
    result = decide(LION, steps=1)
    assert result.verdict == "open"
    assert result.minimum[0] <= 11 <= result.minimum[1]
    assert result.faces[0] <= 11 <= result.faces[1]

    def refuse(*_):
        raise survey.ExpressionError("circular")

    # a graph whose shortest sequence has more faces than its least program products is not known: pretend
    monkeypatch.setattr(survey, "elimination_sequence", refuse)
    assert decide(LION).verdict == "acyclic"
    faces = longest(LION)
    length = len(faces)
    assert length > 11
    monkeypatch.setattr(survey, "shortest_faces", lambda *_, **__: (length, faces))
    result = decide(LION)
    assert (result.minimum, result.faces, result.verdict) == ((11, 11), (length, length), "circular")
    monkeypatch.setattr(survey, "shortest_faces", lambda *_, **__: (11, faces))
    result = decide(LION)
    assert (result.minimum, result.faces, result.verdict) == ((11, 11), (11, length), "open")


def longest(graph):
    """Faces that always leave the most."""
    elimination, sequence = FaceElimination(graph), []
    while faces := elimination.faces():

        def left(face):
            trial = deepcopy(elimination)
            trial.eliminate(*face)
            return len(trial.faces())

        sequence.append(max(faces, key=left))
        elimination.eliminate(*sequence[-1])
    return sequence


def test_a_run_goes_on_wherever_it_was_killed(tmp_path):
    whole = tmp_path / "whole.jsonl"
    survey.survey(6, whole)
    data = whole.read_bytes()
    for length in (0, 10, 55, 60, len(data) // 2, len(data) - 1, len(data)):
        stopped = tmp_path / f"part{length}.jsonl"
        stopped.write_bytes(data[:length])
        summary = survey.survey(6, stopped)
        assert stopped.read_bytes() == data
        assert summary.decided == 39 - max(0, data[:length].count(b"\n") - 1)
        assert summary.to_dict()["graphs"] == 39


def test_several_processes_find_the_same(tmp_path):
    summary = survey.survey(6, tmp_path / "two.jsonl", jobs=2)
    assert summary.complete
    survey.survey(6, tmp_path / "one.jsonl")
    assert read_results(tmp_path / "two.jsonl") == read_results(tmp_path / "one.jsonl")


def test_open_graphs_are_tried_again_with_more_steps(tmp_path):
    output = tmp_path / "found.jsonl"
    few = survey.survey(5, output, steps=1)
    assert few.open
    assert survey.survey(5, output, steps=1).decided == 0
    more = survey.survey(5, output)
    assert more.decided == len(few.open)
    assert not more.open
    assert read_results(output).keys() == {g.key for e in range(3, 6) for g in reduced_graphs(e)}


def test_samples(tmp_path):
    output = tmp_path / "sample.jsonl"
    calls = []
    first = sample(9, 20, output, seed=4, progress=lambda *now: calls.append(now))
    assert first.complete
    assert first.decided == len(read_results(output)) == len(calls)
    assert calls[-1] == (9, first.decided, first.decided, 0)
    assert sample(9, 20, output, seed=4).decided == 0
    assert sample(9, 20, output, seed=5).decided > 0


def test_an_interrupt_keeps_the_results_so_far(tmp_path):
    output = tmp_path / "found.jsonl"

    def stop(edges, done, total, actual):
        if edges == 5 and done == 3:
            raise KeyboardInterrupt

    summary = survey.survey(6, output, progress=stop)
    assert not summary.complete
    assert summary.decided == len(read_results(output)) == 6


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("something else\n", "not a file of results"),
        ("something", "not a file of results"),
        (json.dumps({"format": "accumulus research circular", "version": 2}) + "\n", "not a file of results"),
        (json.dumps({"format": "accumulus research circular", "version": 1}) + "\n{}\n", "line 2"),
    ],
)
def test_files_that_are_something_else_are_left_alone(tmp_path, content, message):
    path = tmp_path / "mine.jsonl"
    path.write_text(content)
    with pytest.raises(ArgumentError, match=message):
        survey.survey(3, path)
    assert path.read_text() == content


@pytest.mark.parametrize("options", [{"max_edges": 2}, {"jobs": 0}, {"steps": 0}, {"max_edges": True}])
def test_numbers_that_make_no_sense(tmp_path, options):
    with pytest.raises(ArgumentError, match="whole number of at least"):
        survey.survey(**{"max_edges": 3, "output": tmp_path / "none.jsonl", **options})
    assert not (tmp_path / "none.jsonl").exists()


def test_the_command(tmp_path):
    output = tmp_path / "found.jsonl"
    result = run("circular", "--max-edges", 5, "--output", output)
    assert result.exit_code == 0, result.output
    assert "11 graphs decided" in result.stdout
    result = run("circular", "--max-edges", 5, "--output", output, "--json")
    summary = json.loads(result.stdout)
    assert summary["complete"]
    assert summary["graphs"] == 11
    assert summary["decided"] == 0
    assert summary["circular"] == summary["open"] == []
    assert [row["graphs"] for row in summary["by_edges"]] == [1, 2, 8]
    result = run("sample", "--edges", 7, "--graphs", 5, "--output", output, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["complete"]


def test_the_command_for_one_graph(tmp_path):
    path = tmp_path / "lion.json"
    save_graph(LION, path)
    result = run("decide", path)
    assert result.exit_code == 0, result.output
    assert "products of any program  11" in result.stdout
    assert json.loads(run("decide", path, "--json").stdout)["faces"] == [11, 11]
    assert "to" in run("decide", path, "--steps", 1).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("circular", "--max-edges", 1), 1, "whole number of at least 3"),
        (("circular", "--max-edges", 3, "--jobs", 0), 1, "jobs is 0"),
        (("circular", "--max-edges", 3, "--output", "/nowhere/found.jsonl"), 1, "No such file"),
        (("circular",), 2, "--max-edges"),
        (("decide", "nothing.json"), 2, "there is no file"),
        (("decide", "model.py"), 2, "no graph file"),
    ],
)
def test_bad_input(tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == code
    assert message in result.stderr
