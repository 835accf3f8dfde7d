"""GraphML files: round trips, files of other programs, and files that mean harm."""

from __future__ import annotations

import networkx
import pytest
from graph_strategies import VALUED, graphs
from hypothesis import given
from hypothesis import strategies as st
from path_sums import same

from accumulus import DifferentiationGraph, Kind
from accumulus.errors import GraphError
from accumulus.graph.exchange import read_graphml, write_graphml

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def is_xml(character):
    code = ord(character)
    return character in "\t\n\r" or 32 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code > 0xFFFF


def check(path, graph, text):
    """The graph comes back, or is refused for a character of the text."""
    if all(map(is_xml, text)):
        write_graphml(graph, path)
        assert same(read_graphml(path), graph)
    else:
        with pytest.raises(GraphError, match="holds a character that XML cannot"):
            write_graphml(graph, path)


@given(graphs(sized=True))
def test_round_trip(tmp_path_factory, graph):
    check(tmp_path_factory.mktemp("graphml") / "graph.graphml", graph, graph.name)


@given(graphs(odd=False, labels=VALUED))
def test_numbers_as_names(tmp_path_factory, graph):
    path = tmp_path_factory.mktemp("graphml") / "graph.graphml"
    write_graphml(graph, path)
    assert same(read_graphml(path), graph)


@given(st.lists(st.text(), min_size=2, max_size=2, unique=True), st.text(), st.floats(allow_nan=False))
def test_any_text_and_any_number(tmp_path_factory, names, symbol, number):
    y, x = names
    graph = DifferentiationGraph([(y, x, symbol), (y, x, number), (y, x, Kind.CONSTANT)])
    check(tmp_path_factory.mktemp("graphml") / "graph.graphml", graph, y + x + symbol)


def test_ends_without_edges(tmp_path):
    graph = DifferentiationGraph([], roots=["y", "y"], terminals=["x"])
    write_graphml(graph, tmp_path / "graph.graphml")
    assert same(read_graphml(tmp_path / "graph.graphml"), graph)


def test_networkx_reads_our_files_and_we_read_theirs(tmp_path):
    graph = DifferentiationGraph(
        [("y", "a", "e1"), ("a", "x", 2.5), ("y", "x", Kind.ONE)], sizes={"y": 2, "a": 2, "x": 2}, name="f"
    )
    write_graphml(graph, tmp_path / "ours.graphml")
    theirs = networkx.read_graphml(tmp_path / "ours.graphml")
    assert theirs.nodes["a"]["size"] == 2
    assert theirs.edges["a", "x"]["value"] == 2.5
    networkx.write_graphml(theirs, tmp_path / "theirs.graphml")
    assert same(read_graphml(tmp_path / "theirs.graphml"), graph, ordered=False)


def test_file_of_another_program(tmp_path):
    """Undeclared namespaces of others, keys that mean nothing here, defaults, positions of edges in ports."""
    path = tmp_path / "graph.graphml"
    path.write_text(
        HEAD
        + """<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">
        <key id="d0" for="edge" attr.name="label" attr.type="string"><default>w</default></key>
        <key id="d1" for="node" attr.name="colour" attr.type="string"/>
        <key id="d2" for="node" yfiles.type="nodegraphics"/>
        <graph edgedefault="directed">
          <node id="a"><data key="d1">red</data><data key="d2"><y:ShapeNode>text</y:ShapeNode></data></node>
          <node id="b"><port name="north"/></node>
          <node id="c"/>
          <edge source="a" target="b" sourceport="north"/>
          <edge source="b" target="c"><data key="d0">v</data></edge>
        </graph></graphml>""",
        encoding="utf-8",
    )
    graph = read_graphml(path)
    assert graph.vertices == ("a", "b", "c")
    assert graph.symbols == ("w", "v")


BOMB = HEAD + "<!DOCTYPE graphml [" + '<!ENTITY a0 "ha">'
BOMB += "".join(f'<!ENTITY a{k + 1} "{f"&a{k};" * 10}">' for k in range(12))
BOMB += ']><graphml><graph edgedefault="directed"><node id="&a12;"/></graph></graphml>'


def wrapped(inside, attributes='edgedefault="directed"', keys=""):
    return f"{HEAD}<graphml>{keys}<graph {attributes}>{inside}</graph></graphml>"


NODES = '<node id="a"/><node id="b"/>'
EDGE = '<edge source="a" target="b"/>'
KEY = '<key id="d" for="{}" attr.name="{}" attr.type="{}"/>'

#: Files that are refused, and the message.
REFUSED = {
    "entities": (BOMB, "line 2: it has a document type; remove it"),
    "external": (
        HEAD + '<!DOCTYPE graphml [<!ENTITY f SYSTEM "file:///etc/passwd">]><graphml>&f;</graphml>',
        "it has a document type",
    ),
    "not XML": ("graph", "is not an XML file"),
    "cut off": (wrapped(NODES)[:-3], "is not an XML file"),
    "unknown entity": (wrapped("&nbsp;"), "is not an XML file"),
    "encoding": ('<?xml version="1.0" encoding="utf-99"?><graphml/>', "is not an XML file"),
    "other root": ("<svg/>", "it starts with <svg>; expected <graphml>"),
    "no graph": ("<graphml/>", "it holds no graph"),
    "two graphs": (wrapped("")[: -len("</graphml>")] + "<graph/></graphml>", "more than one graph"),
    "nested": (wrapped('<node id="a"><graph/></node>'), "more than one graph"),
    "hyperedge": (wrapped("<hyperedge/>"), "holds a hyperedge"),
    "no direction": (wrapped(NODES + EDGE, 'edgedefault="undirected"'), "its edges have no direction"),
    "edge without direction": (
        wrapped(NODES + '<edge source="a" target="b" directed="false"/>'),
        r"edge \('a', 'b'\) has no direction",
    ),
    "unknown node": (wrapped('<node id="a"/>' + EDGE), r"edge \('a', 'b'\) names 'b', which is not a node"),
    "node twice": (wrapped(NODES + NODES), "node 'a' is there twice"),
    "no id": (wrapped("<node/>"), "<node> without 'id'"),
    "no target": (wrapped('<edge source="a"/>'), "<edge> without 'target'"),
    "no key": (wrapped('<node id="a"><data>1</data></node>'), "<data> without 'key'"),
    "unknown key": (wrapped('<node id="a"><data key="k">1</data></node>'), "no key k"),
    "root": (
        wrapped('<node id="a"><data key="d">top</data></node>', keys=KEY.format("node", "root", "int")),
        "an attribute is 'top'; expected a number of type int",
    ),
    "name": (
        wrapped('<node id="a"><data key="d">true</data></node>', keys=KEY.format("node", "integer", "boolean")),
        "node 'a' has the type int",
    ),
    "number of too many digits": (
        wrapped(f'<node id="a"><data key="d">{"1" * 5000}</data></node>', keys=KEY.format("node", "root", "int")),
        "an attribute is .*; expected a number of type int",
    ),
    "nested too deeply": ("<a>" * 10**5, "it starts with <a>"),
    "nested too deeply inside": ("<graphml>" + "<a>" * 10**5, "its elements are nested 100 deep"),
    "another namespace": (wrapped("").replace("<graphml>", '<graphml xmlns="urn:x">'), "no graph"),
    "kind": (
        wrapped(
            NODES + '<edge source="a" target="b"><data key="d">zero</data></edge>',
            keys=KEY.format("edge", "kind", "string"),
        ),
        "has the kind 'zero'",
    ),
    "cycle": (wrapped(NODES + EDGE + '<edge source="b" target="a"/>'), "the graph has a cycle"),
    "loose": (wrapped(NODES), "vertex 'a' has no edges"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(tmp_path, case):
    text, message = REFUSED[case]
    path = tmp_path / "graph.graphml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GraphError, match=message) as caught:
        read_graphml(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


@given(st.binary(max_size=60))
def test_any_bytes(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("graphml") / "graph.graphml"
    path.write_bytes(data)
    with pytest.raises(GraphError):
        read_graphml(path)


def test_names_that_cannot_be_written(tmp_path):
    path = tmp_path / "graph.graphml"
    with pytest.raises(GraphError, match="2 vertices are called '1' as text"):
        write_graphml(DifferentiationGraph([("1", 1)]), path)
    with pytest.raises(GraphError, match="holds a character that XML cannot"):
        write_graphml(DifferentiationGraph([("y", "x\0")]), path)
    assert not path.exists()
