"""Graph files: what is saved is read back, and whatever else is in a file is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from graph_strategies import graphs
from hypothesis import HealthCheck, given, settings

from accumulus import DifferentiationGraph, Kind, load_graph, save_graph
from accumulus.errors import ArgumentError, GraphError
from accumulus.graph.graph import subgraph

REFERENCE = sorted((Path(__file__).parents[1] / "data" / "graphs").glob("*.json"))


def content(graph):
    """Everything that a graph is, by names: numbers of vertices may differ."""
    names = graph.vertices
    return {
        "name": graph.name,
        "vertices": sorted(map(str, names)),
        "roots": [names[v] for v in graph.roots],
        "terminals": [names[v] for v in graph.terminals],
        "edges": [
            (names[j], names[i], kind, symbol)
            for j, i, kind, symbol in zip(graph.sources, graph.targets, graph.kinds, graph.symbols, strict=True)
        ],
        "constants": graph.constants,
        "sizes": {names[v]: size for v, size in enumerate(graph.sizes.tolist())},
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs(sized=True))
def test_round_trip(graph, tmp_path):
    path = tmp_path / "graph.json"
    save_graph(graph, path)
    saved = path.read_text()
    again = load_graph(path)
    assert content(again) == content(graph)
    save_graph(again, path)
    assert path.read_text() == saved


#: Graphs whose names or labels are unusual.
UNUSUAL = [
    DifferentiationGraph([]),
    DifferentiationGraph([(1, 0, 0.1), (1, -3)]),
    DifferentiationGraph([(2, 1), (1, 0)], sizes={1: 3, 2: 2}),
    DifferentiationGraph([("ÿ\n\"'", "\ud800", "∂ "), ("ÿ\n\"'", "", float("inf"))]),
    DifferentiationGraph([("y", "x", "import os; os.abort()")], name="__import__('os').abort()"),
    DifferentiationGraph([("y", "x", 5e-324), ("y", "x", 1 / 3), ("y", "x", -0.0)]),
    DifferentiationGraph([], roots=["y", "y"], terminals=["x"]),
    subgraph(DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")]), [1]),
]


@pytest.mark.parametrize("graph", UNUSUAL)
def test_round_trip_of_the_unusual(graph, tmp_path):
    save_graph(graph, tmp_path / "graph.json")
    again = load_graph(str(tmp_path / "graph.json"))
    assert content(again) == content(graph)
    assert repr(dict(again.constants)) == repr(dict(graph.constants))


def test_other_names_become_text(tmp_path):
    graph = DifferentiationGraph([((1, 2), None)])
    save_graph(graph, tmp_path / "graph.json")
    assert set(load_graph(tmp_path / "graph.json").vertices) == {"(1, 2)", "None"}


@pytest.mark.parametrize("path", REFERENCE, ids=lambda path: path.stem)
def test_reference_graphs(path, tmp_path):
    graph = load_graph(path)
    data = json.loads(path.read_text())
    assert graph.name == data["name"]
    assert [graph.vertices[v] for v in graph.roots] == data["roots"]
    assert [graph.vertices[v] for v in graph.terminals] == data["terminals"]
    words = [Kind(kind).name.lower() for kind in graph.kinds]
    assert [[*map(str, edge[:2]), edge[2]] for edge in data["edges"]] == [
        [graph.vertices[j], graph.vertices[i], word]
        for j, i, word in zip(graph.sources, graph.targets, words, strict=True)
    ]
    assert graph.live_edges.all()
    save_graph(graph, tmp_path / "again.json")
    assert content(load_graph(tmp_path / "again.json")) == content(graph)


def test_optional_keys_of_a_file(tmp_path):
    path = tmp_path / "small.json"
    path.write_text('{"edges": [["y", "a"], ["a", "x", null], ["a", 7, "k"], ["a", "x", -1]]}')
    graph = load_graph(path)
    assert graph.name == "small"
    assert content(graph)["roots"] == ["y"]
    assert content(graph)["terminals"] == ["x", 7]
    assert graph.kinds.tolist() == [Kind.VARIABLE, Kind.VARIABLE, Kind.VARIABLE, Kind.MINUS_ONE]
    assert graph.symbols == (None, None, "k", None)


#: What is in the file, and what the message says after its name.
MALFORMED = {
    "nothing": ("", "not a JSON file: .*line 1 column 1"),
    "cut off": ('{"edges": [["a", "b"]', "not a JSON file: .*line 1 column 22"),
    "python": ("__import__('os').abort()", "not a JSON file"),
    "not unicode": (b'{"edges": "\xff"}', "not a JSON file: 'utf-8'"),
    "nested too deeply": ("[" * 10**6, "not a JSON file"),
    "number of too many digits": ('{"edges": [["a", "b", %s]]}' % ("1" * 5000), "not a JSON file"),
    "list": ("[]", "expected an object with a list 'edges'"),
    "no edges": ("{}", "expected an object with a list 'edges'"),
    "edges are no list": ('{"edges": {"a": "b"}}', "expected an object with a list 'edges'"),
    "edge of one": ('{"edges": [["a", "b"], ["a"]]}', r"edges\[1\] is \['a'\]"),
    "edge of four": ('{"edges": [["a", "b", 1, 1]]}', r"edges\[0\] is"),
    "edge of text": ('{"edges": ["ab"]}', r"edges\[0\] is 'ab'"),
    "name is a list": ('{"edges": [[["a"], "b"]]}', r"edges\[0\] is"),
    "name is true": ('{"edges": [["a", true]]}', r"edges\[0\] is"),
    "name is null": ('{"edges": [["a", null]]}', r"edges\[0\] is"),
    "label is true": ('{"edges": [["a", "b", true]]}', "not True"),
    "label is a list": ('{"edges": [["a", "b", []]]}', r"not \[\]"),
    "label is too large": ('{"edges": [["a", "b", 1%s]]}' % ("0" * 400), "expected a number"),
    "roots are text": ('{"edges": [], "roots": "y"}', "'roots' is 'y'"),
    "root is an object": ('{"edges": [], "roots": [{}]}', r"'roots' is \[\{\}\]"),
    "terminals are a number": ('{"edges": [], "terminals": 3}', "'terminals' is 3"),
    "terminal twice": ('{"edges": [["y", "x"]], "terminals": ["x", "x"]}', "terminal 'x' is named 2 times"),
    "terminal with edges": ('{"edges": [["y", "x"]], "terminals": ["y"]}', "terminal 'y' depends on 'x'"),
    "cycle": ('{"edges": [["a", "b"], ["b", "a"]]}', "cycle: 'a' → 'b' → 'a'"),
    "sizes are a list": ('{"edges": [], "sizes": [1]}', r"'sizes' is \[1\]"),
    "size is text": ('{"edges": [["y", "x"]], "sizes": {"y": "2"}}', "'sizes' is"),
    "size is a fraction": ('{"edges": [["y", "x"]], "sizes": {"y": 1.5}}', "'sizes' is"),
    "size is true": ('{"edges": [["y", "x"]], "sizes": {"y": true}}', "'sizes' is"),
    "size is nought": ('{"edges": [["y", "x"]], "sizes": {"y": 0}}', "size 0 of 'y'"),
    "unknown key": ('{"edges": [], "root": ["y"]}', "unknown key 'root'; expected name, about, roots"),
    "key twice": ('{"edges": [["y", "x"]], "edges": []}', "the key 'edges' is there 2 times"),
    "vertex twice in sizes": ('{"edges": [["y", "x"]], "sizes": {"y": 1, "y": 2}}', "the key 'y' is there 2 times"),
    "long label": ('{"edges": [["a", "b", "c", [%s]]]}' % ("1, " * 10**4 + "1"), r"edges\[0\] is"),
    "long list of sizes": ('{"edges": [], "sizes": [%s]}' % ("1, " * 10**4 + "1"), "'sizes' is"),
    "size of nothing": ('{"edges": [["y", "x"]], "sizes": {"z": 2}}', "size 2 of 'z'"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed(case, tmp_path):
    text, message = MALFORMED[case]
    path = tmp_path / "odd.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(GraphError, match=rf"odd\.json(: | is ).*{message}") as caught:
        load_graph(path)
    assert len(str(caught.value)) < 1000


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_graph(tmp_path / "nosuch.json")


@pytest.mark.parametrize("name", ["graph.json", "graph.graphml", "GRAPH.JSON", "graph.old.GraphML"])
def test_the_end_of_the_name_says_the_form(name, tmp_path):
    graph = DifferentiationGraph(
        [("y", "a", "e1"), ("a", 7, 2.5), ("y", 7, Kind.ONE)], sizes={"y": 2, "a": 2, 7: 2}, name="f"
    )
    save_graph(graph, tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith("{" if name.lower().endswith("json") else "<?xml")
    assert content(load_graph(tmp_path / name)) == content(graph)


@pytest.mark.parametrize("name", ["graph", "graph.txt", "graph.json.gz", ".json", "graph.dot"])
def test_other_ends_are_refused(name, tmp_path):
    graph = DifferentiationGraph([("y", "x")])
    expected = r"expected (a name that ends in )?\.json or \.graphml"
    with pytest.raises(GraphError if name == "graph.dot" else ArgumentError, match=rf"{name}.*{expected}"):
        load_graph(tmp_path / name)
    if name != "graph.dot":
        with pytest.raises(ArgumentError, match=rf"{name}.*ends in \.json, \.graphml, \.dot or \.gv"):
            save_graph(graph, tmp_path / name)
        assert not list(tmp_path.iterdir())


#: Graphs that a file cannot hold without changing them.
UNSAVED = {
    "names equal as text": (DifferentiationGraph([("y", 5), ("y", "5")]), "2 vertices are called '5'"),
    "symbol that is a kind": (DifferentiationGraph([("y", "x", "one")]), r"edges\[0\] has the symbol 'one'"),
}


@pytest.mark.parametrize("case", UNSAVED)
def test_graphs_that_cannot_be_saved(case, tmp_path):
    graph, message = UNSAVED[case]
    with pytest.raises(GraphError, match=message):
        save_graph(graph, tmp_path / "graph.json")
    assert not list(tmp_path.iterdir())


def test_a_path_is_a_name():
    with pytest.raises(ArgumentError, match="path is 3; expected the name of a file"):
        load_graph(3)
