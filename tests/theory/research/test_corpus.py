"""The corpus: every cost is recounted, every partition into blocks computed again, and short proofs are repeated."""

from __future__ import annotations

import json
import shlex

import pytest
from inside import app, layered, price
from slow_costs import SlowCosts
from typer.testing import CliRunner

import accumulus as acc
from accumulus.errors import AccumulusError, ArgumentError, VerificationError
from accumulus.options import Objective
from accumulus.theory.bounds import lower_bound
from accumulus.theory.exact.eliminations import LEVELS
from accumulus.theory.research import corpus as table
from accumulus.theory.research.corpus import CorpusGraph, block_bound, corpus, generated, new_graph, save_corpus

GRAPHS = corpus()
ROWS = [(name, objective) for name, graph in GRAPHS.items() for objective in graph.results]
#: Proofs that took at most so many seconds are repeated, a sample of them in a plain run.
SHORT = 1.0
PROVEN = [
    row
    for row in ROWS
    if GRAPHS[row[0]].results[row[1]].proven()
    and GRAPHS[row[0]].results[row[1]].bounds.get("vertex", {"seconds": SHORT})["seconds"] < SHORT
]
IN_BLOCKS = [row for row in ROWS if "blocks" in GRAPHS[row[0]].results[row[1]].bounds.get("vertex", {})]


@pytest.mark.parametrize("name", GRAPHS)
def test_costs_are_those_of_the_plans(name):
    entry = GRAPHS[name]
    graph = entry.graph
    assert set(entry.results) == set(table.objectives(graph))
    for objective, results in entry.results.items():
        for level, stored in results.plans.items():
            if level == "vertex":
                assert price(graph, stored["order"], Objective(objective)).cost[0] == stored["cost"]
            else:
                assert entry.plan(objective, level).cost == stored["cost"]
        costs, bounds = [[of(level) for level in LEVELS] for of in (results.cost, results.bound)]
        assert costs == sorted(costs, reverse=True)
        assert bounds == sorted(bounds, reverse=True)
        assert all(bound <= cost for bound, cost in zip(bounds, costs, strict=True))


def test_plans_are_verified():
    plan = GRAPHS["RoeFlux_1d"].plan("fma")
    assert (plan.cost, plan.lower_bound, plan.is_optimal) == (295, 295, True)
    with pytest.raises(ArgumentError, match="no plan"):
        GRAPHS["lion()"].plan("multiplications")
    with pytest.raises(ArgumentError, match="no class"):
        GRAPHS["lion()"].plan("fma", "vertices")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "objective"), IN_BLOCKS)
def test_bounds_by_blocks_are_computed_again(name, objective):
    stored = GRAPHS[name].results[objective].bounds["vertex"]
    assert block_bound(GRAPHS[name].graph, objective, stored["blocks"])[0] >= stored["bound"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "objective"), PROVEN)
def test_short_proofs_are_repeated(name, objective):
    results = GRAPHS[name].results[objective]
    stored = results.bounds.get("vertex") or results.bounds["face"]
    words = shlex.split(stored["command"])
    assert words[:4] == ["accumulus", "research", "corpus", name]
    options = dict(zip(words[4::2], words[5::2], strict=True))
    again = CorpusGraph(name, "", GRAPHS[name].intermediates, GRAPHS[name].edges, {}, GRAPHS[name].data)
    again.improve(options["--method"], options["--objective"], 1e6, int(options["--seed"]), options["--effort"])
    assert again.results[objective].bound() >= results.bound()


@pytest.mark.parametrize("objective", table.OBJECTIVES)
def test_block_bounds_of_small_graphs(objective):
    """Between the bound of flows and the optimum, from the found blocks and from single vertices."""
    for seed in range(6):
        graph = acc.graphs.random_dag(intermediates=7, edges=20, seed=seed)
        if seed % 2:
            graph = acc.graphs.with_labels(graph, one=0.3, constant=0.2, seed=seed)
        bound, blocks = block_bound(graph, objective)
        single, _ = block_bound(graph, objective, [[v] for block in blocks for v in block])
        assert block_bound(graph, objective, blocks) == (bound, blocks)
        assert single <= bound <= SlowCosts(graph, objective).least()
        assert lower_bound(graph, Objective(objective)) <= bound


def test_blocks_have_to_be_a_partition():
    graph = layered(layers=4, width=3, degree=2)
    _, blocks = block_bound(graph, "fma")
    for wrong in (blocks[1:], [*blocks, blocks[0]], [*blocks, [0]]):
        with pytest.raises(ArgumentError):
            block_bound(graph, "fma", wrong)


def test_names_are_calls():
    assert generated("gadgets(kind=bat, count=2, shape=tree)").name == "gadgets(kind=bat, count=2, shape=tree)"
    assert len(generated("stencil(points=(3, 3), steps=2)").intermediates) == 9
    for wrong in ("open('x')", "layered(layers=2).name", "layered(4)", "nothing()", "lion(", "with_sizes(lion(), 3)"):
        with pytest.raises(ArgumentError, match="is not a call"):
            generated(wrong)
    stored = new_graph(acc.DifferentiationGraph([("y", "a"), ("a", "x")], name="own"), "test")
    assert stored.data is not None
    assert list(stored.graph.vertices) == [0, 1, 2]
    assert new_graph(generated("bat()"), "test").data is None
    with pytest.raises(ArgumentError, match="another name"):
        new_graph(acc.DifferentiationGraph([("y", "a"), ("a", "x")], name="bat()"), "test")


def test_a_table_never_gets_worse(tmp_path):
    entry = new_graph(generated("bat()"), "test")
    assert entry.improve("forward", "fma", 1.0) == ["vertex cost 24"]
    assert entry.improve("reverse", "fma", 1.0) == []
    assert len(entry.improve("exact-face", "fma", 1e6)) == 2
    results = entry.results["fma"]
    assert (results.cost("vertex"), results.cost("face"), results.bound("vertex")) == (24, 22, 22)
    assert entry.improve("exact-vertex", "fma", 1e6) == ["vertex bound 24, was 22"]
    assert [results.proven(level) for level in LEVELS] == [True, False, True]
    assert results.gap("edge") == pytest.approx(2 / 24)
    assert len(entry.improve("exact-edge", "fma", 1e6)) == 2
    assert [results.gap(level) for level in LEVELS] == [0.0, 0.0, 0.0]
    assert entry.improve("exact-vertex", "fma", 1e6) == []
    save_corpus({entry.name: entry}, tmp_path / "table.json")
    (read,) = corpus(tmp_path / "table.json").values()
    assert read == entry
    assert str(read) == str(entry)

    results.bounds["vertex"]["bound"] = 25
    with pytest.raises(VerificationError, match="exceeds"):
        entry.improve("forward", "fma", 1.0)


def test_commands(tmp_path):
    path = tmp_path / "table.json"
    save_corpus({}, path)
    wings = acc.DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x"), ("b", "w")], name="wings")
    acc.save_graph(wings, graph := tmp_path / "wings.json")
    run = CliRunner()
    command = ["--add", "layered(layers=3, width=2)", "--add", "lion()", "--objective", "fma"]
    done = run.invoke(app, ["research", "corpus", "--output", str(path), *command])
    assert done.exit_code == 0, done.output
    assert "lion(), fma: vertex bound 12" in done.output
    assert run.invoke(app, ["research", "corpus", "-o", str(path), "--add", "lion()"]).exit_code == 2
    assert run.invoke(app, ["research", "corpus", "lionn()"]).exit_code == 1
    assert run.invoke(app, ["research", "corpus", "--objective", "operations"]).exit_code == 2
    done = run.invoke(app, ["research", "corpus", "wings", "-o", str(path), "--add", str(graph), "--source", "test"])
    assert done.exit_code == 0, done.output
    assert corpus(path)["wings"].plan("fma").is_optimal
    shown = run.invoke(app, ["research", "corpus", "bat()"])
    assert shown.exit_code == 0
    assert shown.stdout.startswith("bat()")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(format="other"),
        lambda data: data.update(version=2),
        lambda data: data.update(graphs={}),
        lambda data: data["graphs"].append(data["graphs"][0]),
        lambda data: data["graphs"].append(3),
        lambda data: data["graphs"][0].update(more=1),
        lambda data: data["graphs"][0].update(name=1),
        lambda data: data["graphs"][0].update(graph=[]),
        lambda data: data["graphs"][0].update(edges=-1),
        lambda data: data["graphs"][0].update(edges=9),
        lambda data: data["graphs"][0]["results"].update(operations={}),
        lambda data: data["graphs"][0]["results"]["fma"].update(plans={"vertices": {}}),
        lambda data: data["graphs"][0]["results"]["fma"]["plans"]["vertex"].update(cost="1"),
        lambda data: data["graphs"][0]["results"]["fma"]["plans"]["vertex"].update(cost=11),
        lambda data: data["graphs"][0]["results"]["fma"]["plans"]["vertex"].update(order=[1, 1]),
        lambda data: data["graphs"][0]["results"]["fma"]["plans"]["vertex"].pop("command"),
        lambda data: data["graphs"][0]["results"]["fma"]["bounds"]["vertex"].update(bound=-1),
        lambda data: data["graphs"][0]["results"]["fma"]["bounds"]["vertex"].update(extra=-1),
    ],
)
def test_damaged_tables_are_refused(change, tmp_path):
    save_corpus({"lion()": GRAPHS["lion()"]}, path := tmp_path / "table.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(AccumulusError):
        next(iter(corpus(path).values())).plan("fma")


def test_the_file_is_small():
    assert table.SHIPPED.stat().st_size < 1_000_000
