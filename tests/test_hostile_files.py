"""Hostile files: typed errors that name the file, nothing run, no end of time or memory; names are text everywhere."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hostile import GRAPHML, JSON_GRAPHS, NAMES, plan_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inside import app
from typer.testing import CliRunner

import accumulus as acc
from accumulus import DifferentiationGraph
from accumulus.errors import AccumulusError, GraphError, PlanError
from accumulus.graph import files, generators
from accumulus.graph.pictures import to_dot
from accumulus.text import printable
from accumulus.theory.algebra.expression import latex_name

GRAPH = generators.random_dag(seed=1)
PLAN = acc.plan(GRAPH, "markowitz", cache=False)


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "right.plan"
    acc.save_plan(PLAN, path)
    return plan_files(path.read_text())


READ = """
import json, resource, sys
from pathlib import Path
import accumulus as acc
gigabytes = 4 << 30
resource.setrlimit(resource.RLIMIT_AS, (gigabytes, gigabytes))
for path in sorted(Path(sys.argv[1]).iterdir()):
    resource.setrlimit(resource.RLIMIT_CPU, (int(resource.getrusage(resource.RUSAGE_SELF).ru_utime) + 20, -1))
    read = acc.load_plan if path.suffix == ".plan" else acc.load_graph
    try:
        read(path)
        said = None, ""
    except Exception as error:
        said = type(error).__name__, str(error)
    print(json.dumps([path.name, *said]), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are those of POSIX")
def test_the_corpus(tmp_path, plans):
    """In a process of its own, which may take a bounded time and memory for each file."""
    files = {}
    for end, corpus in ((".json", JSON_GRAPHS), (".graphml", GRAPHML), (".plan", plans)):
        for k, (name, content) in enumerate(corpus.items()):
            path = tmp_path / "corpus" / f"{k}{end}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            files[path.name] = name
    environment = {**os.environ, "PYTHONPATH": str(Path(acc.__file__).parents[1])}
    ran = subprocess.run(
        [sys.executable, "-c", READ, tmp_path / "corpus"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(answers) == len(files), (files[sorted(files)[len(answers)]], ran.stderr[-2000:])
    for file, error, message in answers:
        expected = "PlanError" if file.endswith(".plan") else "GraphError"
        assert error == expected, (files[file], error, message)
        assert file in message, (files[file], message)
        assert len(message) < 2000, files[file]
        assert printable(message) == message, files[file]
    assert not list(tmp_path.glob("was-run"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_streams_that_are_no_file_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    for name in ("pipe.json", "zero.json"):
        with pytest.raises(GraphError, match=f"{name} is not a regular file"):
            acc.load_graph(tmp_path / name)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises((GraphError, OSError), match=r"folder\.json"):
        acc.load_graph(tmp_path / "folder.json")


def test_files_that_are_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_FILE", 1 << 20)
    with open(tmp_path / "large.json", "wb") as file:
        file.truncate((1 << 20) + 1)
    with pytest.raises(GraphError, match="larger than 1 MB"):
        acc.load_graph(tmp_path / "large.json")


def test_many_names_that_are_one(tmp_path):
    """Names made from them stay short, so that they take linear time and memory."""
    count = 20_000
    graph = DifferentiationGraph([("y", "x")], roots=["y"] * count)
    assert len(set(graph.vertices)) == count + 2 - 1 or len(set(graph.vertices)) == len(graph.vertices)
    assert max(len(str(v)) for v in graph.vertices) < 10
    from accumulus.theory.algebra.expression import edge_names

    parallel = DifferentiationGraph([("y", "x", "e")] * count)
    names = edge_names(parallel)
    assert len(set(names)) == count
    assert max(map(len, names)) < 10


@pytest.mark.parametrize("end", [".json", ".graphml", ".plan"])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_files(end, data, tmp_path):
    """Bytes of a right file that are changed, left out, repeated: read, or refused with a typed error."""
    right = tmp_path / f"right{end}"
    if not right.exists():
        acc.save_plan(PLAN, right) if end == ".plan" else acc.save_graph(GRAPH, right)
    content = bytearray(right.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.integers(0, 12))
        new = data.draw(
            st.one_of(
                st.binary(max_size=6),
                st.sampled_from(
                    [b"1e999", b"NaN", b"-0.0", b"true", b"null", b"[]", b"{}", b'"', b"<", b"&", b"10" * 200, b"1.0"]
                ),
                st.integers(0, 500).map(lambda start: bytes(content[start : start + 40])),
            )
        )
        content[at : at + length] = new
        if not content:
            break
    path = tmp_path / f"changed{end}"
    path.write_bytes(content)
    read_or_refused(path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_values_of_plan_files(data, tmp_path):
    """One value anywhere in a plan file is another one: the plan is right, or refused."""
    right = tmp_path / "right.plan"
    if not right.exists():
        acc.save_plan(PLAN, right)
    whole = json.loads(right.read_text())
    position, key = whole, data.draw(st.sampled_from(sorted(whole)))
    while isinstance(position[key], (dict, list)) and position[key] and data.draw(st.integers(0, 5)):
        position = position[key]
        key = data.draw(st.sampled_from(sorted(position) if isinstance(position, dict) else range(len(position))))
    numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([10**400, 2**63, -(2**63), 2**31]))
    position[key] = data.draw(
        st.one_of(numbers, st.none(), st.booleans(), st.text(max_size=4), st.just([]), st.just({}))
    )
    path = tmp_path / "changed.plan"
    path.write_text(json.dumps(whole))
    read_or_refused(path)


def read_or_refused(path):
    read = acc.load_plan if path.suffix == ".plan" else acc.load_graph
    refused = None
    try:
        read(path)
    except (GraphError, PlanError) as error:
        refused = str(error)
    assert refused is None or path.name in refused


def named(name):
    """A graph in which everything is called by one name, or nearly so."""
    edges = [(f"{name}1", name, name), (name, f"{name}2", f"{name}3"), (f"{name}1", f"{name}2", None)]
    return DifferentiationGraph(edges, name=name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_are_text(name, tmp_path):
    graph = named(name)
    path = tmp_path / "named.json"
    acc.save_graph(graph, path)
    again = acc.load_graph(path)
    assert again.vertices == graph.vertices
    assert again.symbols == graph.symbols
    plan = acc.plan(graph, "markowitz", cache=False)
    assert printable(str(plan)) == str(plan)
    acc.save_plan(plan, tmp_path / "named.plan")
    assert acc.load_plan(tmp_path / "named.plan").graph.vertices == graph.vertices
    dot = to_dot(graph)
    assert dot.encode()
    assert printable(dot, keep="\n") == dot
    assert len(re.findall(r"^  v\d+ (?:\[|->)", dot, re.MULTILINE)) == 6
    for quoted in re.findall(r'"((?:[^"\\]|\\.)*)"', dot):
        assert "\n" not in quoted
    for command in (
        ["plan"],
        ["plan", "--json"],
        ["plan", "--expressions"],
        ["plan", "--latex"],
        ["emit"],
        ["emit", "--target", "llvm"],
        ["compare"],
    ):
        if len(name) > 1000 and command != ["plan"]:
            continue
        ran = CliRunner().invoke(app, [command[0], str(path), *command[1:], "--time-limit", "0.1", "--effort", "fast"])
        assert ran.exit_code == 0, (command, ran.output)
        assert printable(ran.stdout, keep="\n") == ran.stdout, command
        assert ran.stdout.encode()
        if command == ["emit"]:
            tree = ast.parse(ran.stdout)
            assert [type(node).__name__ for node in tree.body] == ["Import", "FunctionDef"]
        elif command == ["plan", "--json"]:
            assert json.loads(ran.stdout)["name"] == name


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_in_latex(name):
    written = latex_name(name)
    assert printable(written) == written
    assert written.count("{") - written.count(r"\{") == written.count("}") - written.count(r"\}")
    without = re.sub(r"\\(?:[{}_$&#% ]|backslash\{\}|hat\{\}|sim\{\}|mathrm)", "", written)
    assert not set(without) & set("\\$&#%~^"), written


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_in_sympy(name):
    sympy = pytest.importorskip("sympy")
    graph = named(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expressions = acc.expressions(acc.plan(graph, "markowitz", cache=False))
    for expression in expressions.expanded().values() if hasattr(expressions, "expanded") else ():
        assert isinstance(expression, sympy.Basic) or expression is not None


@pytest.mark.parametrize("argument", ["\x1b[31m.json", "--\x1b]0;title\x07", "a\nb.json", "\x9b.json"])
def test_arguments_that_drive_the_terminal(argument):
    for position in ([argument], ["plan", argument], ["plan", "graph.json", argument]):
        ran = CliRunner().invoke(app, position)
        assert ran.exit_code == 2
        assert printable(ran.output, keep="\n") == ran.output
        assert "control characters" in ran.output


def test_files_whose_names_turn_the_direction_of_writing(tmp_path):
    ran = CliRunner().invoke(app, ["plan", str(tmp_path / "\u202egraph.json")])
    assert ran.exit_code == 2
    path = tmp_path / "\u202egraph.json"
    path.write_text("{")
    ran = CliRunner().invoke(app, ["plan", str(path)])
    assert ran.exit_code == 1
    assert "\u202e" not in ran.output


@pytest.mark.parametrize(
    "options",
    [
        ["--seed", "1" + "0" * 5000],
        ["--time-limit", "nan"],
        ["--time-limit", "1" + "0" * 400],
        ["--time-limit", "inf"],
        ["--jobs", "1" + "0" * 400],
        ["--jobs", "0"],
    ],
)
def test_numbers_on_the_command_line(options, tmp_path):
    """Refused, or taken if they make sense; never with a traceback."""
    acc.save_graph(GRAPH, tmp_path / "graph.json")
    ran = CliRunner().invoke(
        app, ["plan", str(tmp_path / "graph.json"), "--method", "markowitz", "--objective", "fma", *options]
    )
    assert ran.exit_code in (0, 1, 2), ran.output
    assert ran.exception is None or isinstance(ran.exception, (SystemExit, AccumulusError)), ran.exception
