"""`accumulus generate`: files of graphs, the list of generators, and arguments that are refused."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from accumulus import load_graph, save_graph
from accumulus.cli import app
from accumulus.graph import generators


def run(*arguments):
    return CliRunner().invoke(app, ["generate", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "graph"),
    [
        (["lion"], generators.lion()),
        (["random_dag", "--seed", 7, "--set", "edges=80"], generators.random_dag(edges=80, seed=7)),
        (["banded", "--set", "density=0.5", "--set", "seed=-3"], generators.banded(density=0.5, seed=-3)),
        (["stencil", "--set", "points=3x4", "--set", "periodic=true"], generators.stencil([3, 4], periodic=True)),
        (["gadgets", "--set", "shape=tree", "--set", "kind=bat"], generators.gadgets(kind="bat", shape="tree")),
        (["dense_layers", "--set", "widths=3,2,1"], generators.dense_layers([3, 2, 1])),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_files(arguments, graph, tmp_path):
    path = tmp_path / "generated.json"
    done = run(*arguments, "-o", path)
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert "intermediates" in done.stderr
    save_graph(graph, tmp_path / "expected.json")
    graph = load_graph(path)
    assert graph.sources.tolist() == load_graph(tmp_path / "expected.json").sources.tolist()
    assert graph.name.startswith(arguments[0])


def test_without_a_name_it_lists_them():
    done = run()
    assert done.exit_code == 0
    assert all(name in done.stdout for name in generators.generators())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lions"], "did you mean 'lion'"),
        (["lion", "--set", "width"], "--set width: expected ARGUMENT=VALUE"),
        (["lion", "--set", "=3"], "expected ARGUMENT=VALUE"),
        (["lion", "--seed", "3"], "lion takes no argument 'seed'; expected vectors"),
        (["star", "--set", "inputs=many"], "inputs is 'many'; expected a whole number"),
        (["star", "-o", "graph.svg"], "the format of 'graph.svg' is unknown"),
    ],
)
def test_refused(arguments, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code == 1
    assert message in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())
