"""Pages of the explorer: what is in them, what names cannot do there, where they are written."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from test_frames import random_graph
from typer.testing import CliRunner

import accumulus as acc
from accumulus.cli.commands import app
from accumulus.errors import ArgumentError
from accumulus.show import explorer, panels
from accumulus.theory.algebra.relations import Relation, elimination_dependencies

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
NAMES = (
    HOSTILE,
    "<!--<script>",
    "\u2028\u2029",
    "\x1b[31m",
    "{{constructor}}",
    r"\htmlData{v=0}{x}",
    "]]>",
    "&lt;b&gt;",
    "",
)


class Elements(HTMLParser):
    """Elements of a page as a browser reads it: tags with their attributes, scripts and styles by their text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self._open = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        self.texts.append((tag, dict(attrs), ""))

    def handle_data(self, data):
        if self._open in ("script", "style"):
            tag, attributes, text = self.texts.pop()
            self.texts.append((tag, attributes, text + data))

    def handle_endtag(self, tag):
        self._open = None


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def diamond(names="yabx"):
    y, a, b, x = names
    return acc.DifferentiationGraph([(y, a), (y, b), (a, x), (b, x)], name="diamond")


def test_a_page_is_self_contained_and_small(tmp_path):
    path = acc.plan(diamond()).show(tmp_path / "page.html")
    page = path.read_text(encoding="utf-8")
    assert len(page.encode()) < 2_000_000
    assert not re.search(
        r"""(?:src|href)\s*=\s*["']?(?!data:)\w""", re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    )
    elements = Elements(page)
    assert [tag for tag, _ in elements.tags].count("script") == 4
    (policy,) = (attributes["content"] for tag, attributes in elements.tags if attributes.get("http-equiv"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for tag, attributes, text in elements.texts:
        if tag in ("script", "style") and "type" not in attributes:
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy


def test_assets_match_their_checksums():
    lines = (explorer.ASSETS / "SHA256SUMS").read_text().splitlines()[1:]
    assert len(lines) == 3
    for line in lines:
        digest, name = line.split()
        assert hashlib.sha256((explorer.ASSETS / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text(name):
    graph = acc.DifferentiationGraph([(f"y{name}", f"a{name}", f"e{name}"), (f"a{name}", f"x{name}")], name=name)
    page = explorer.page(acc.plan(graph))
    elements = Elements(page)
    assert [tag for tag, _ in elements.tags].count("script") == 4
    assert not any(tag == "img" for tag, _ in elements.tags)
    assert not any(key.startswith("on") for _, attributes in elements.tags for key in attributes)
    text = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1]
    assert not set("<>&") & set(text)
    data = data_of(page)
    assert [vertex["k"] for vertex in data["vertices"]] == ["r", "", "t"]
    for _, latex, *_ in data["plans"][0]["lines"]:
        # marks are those of the page alone
        assert len(re.findall(r"\\htmlData\{v=\d+\}", latex)) == latex.count(r"\htmlData")
        assert latex.count("{") - latex.count(r"\{") == latex.count("}") - latex.count(r"\}")


def test_functions_are_shown_with_the_names_of_the_user(tmp_path):
    def spring(position, stiffness):
        stretch = np.sin(position[0]) * position[1]
        return np.array([stiffness * stretch, stretch**2])

    jac = acc.jacobian(spring)
    with pytest.raises(ArgumentError, match="compile"):
        jac.show(tmp_path / "page.html")
    jac(np.ones(2), 2.0)
    data = data_of(jac.show(tmp_path / "page.html").read_text(encoding="utf-8"))
    names = {vertex["a"] for vertex in data["vertices"]}
    assert {"position[0]", "position[1]", "stretch", "spring[0]", "spring[1]"} <= names
    signs = {vertex["o"] for vertex in data["vertices"]}
    assert {"sin", "×"} <= signs
    (source,) = {vertex["s"] for vertex in data["vertices"] if vertex["a"] == "stretch"}
    assert source.startswith("test_explorer.py:")
    assert source.endswith("stretch = np.sin(position[0]) * position[1]")


def test_counters_end_at_the_cost_of_every_plan():
    plan = acc.plan(diamond(), "vertex")
    data = data_of(explorer.page(plan, rivals=explorer.rivals_of(plan)))
    assert {each["method"] for each in data["plans"]} == {"vertex", "forward", "reverse", "markowitz"}
    for each in data["plans"]:
        assert each["fma"][-1] == each["costs"]["fma"]
        assert each["mul"][-1] == each["costs"]["multiplications"]
        assert (each["ops"][0][-1], each["ops"][1][-1]) == (len(each["steps"]), each["costs"]["operations"])
        assert each["groups"]["face"][-1] == len(each["steps"])


def test_vertices_of_a_picture_keep_apart():
    rng = np.random.default_rng(0)
    edges = [(f"v{j}", f"v{i}") for j in range(25) for i in range(j + 1, 25) if rng.random() < 0.2]
    data = data_of(explorer.page(acc.plan(acc.DifferentiationGraph(edges))))
    boxes = [(v["x"], v["y"], v["w"]) for v in data["vertices"]]
    for k, (x, y, w) in enumerate(boxes):
        assert all(y != b or abs(x - a) >= (w + c) / 2 for a, b, c in boxes[:k])


# Where pages go ------------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_written_is_named_with_one_that_was(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer.tempfile, "tempdir", str(tmp_path))
    for path in (tmp_path / "no" / "page.html", tmp_path, "nul\0l"):
        with pytest.raises(ArgumentError, match=r"cannot be written: .*The page was written to") as raised:
            diamond().show(path)
        file = Path(str(raised.value).rpartition(" ")[2])
        assert "diamond" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("opens", [True, False])
def test_without_a_path_a_browser_is_opened(tmp_path, monkeypatch, capsys, opens):
    opened = []
    monkeypatch.setattr(explorer.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(explorer.webbrowser, "open", lambda uri: opened.append(uri) or opens)
    file = diamond().show()
    assert opened == [file.as_uri()]
    assert "diamond" in file.read_text(encoding="utf-8")
    assert (str(file) in capsys.readouterr().err) is not opens


def test_without_a_display_none_is_tried(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(explorer.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(explorer.sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(explorer.webbrowser, "open", None)
    assert str(diamond().show()) in capsys.readouterr().err


def test_notebooks_have_it_inline(monkeypatch):
    class Shell:
        kernel = object()

    class Interactive:
        get_ipython = Shell

    monkeypatch.setitem(explorer.sys.modules, "IPython", Interactive)
    shown = diamond().show()._repr_html_()
    elements = Elements(shown)
    assert [tag for tag, _ in elements.tags] == ["iframe"]
    ((_, attributes),) = elements.tags
    assert attributes["sandbox"] == "allow-scripts"
    assert data_of(attributes["srcdoc"])["title"] == "diamond"


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_written_by_how_the_name_ends(tmp_path, name):
    graph = acc.DifferentiationGraph([(f"y{name}", f"a{name}", f"e{name}"), (f"a{name}", f"x{name}", 1.0)], name=name)
    tree = ElementTree.parse(graph.show(tmp_path / "graph.svg"))
    assert sum(element.tag.endswith("}rect") for element in tree.iter()) == 3
    assert not any(element.tag.endswith(("script", "image")) for element in tree.iter())
    text = acc.plan(graph).show(tmp_path / "graph.tex").read_text(encoding="utf-8")
    assert text.count(r"\node[") == 5
    assert text.count(r"\draw[") == 2
    plain = text.replace(r"\{", "").replace(r"\}", "")
    assert plain.count("{") == plain.count("}")
    commands = {"begin", "end", "definecolor", "node", "draw", "small", "textbackslash"}
    assert set(re.findall(r"\\([a-zA-Z]+)", text)) <= commands
    assert graph.show(tmp_path / "graph.dot").read_text(encoding="utf-8").startswith('digraph "')


def test_pictures_of_functions_have_the_names_of_the_user(tmp_path):
    def spring(position):
        stretch = np.sin(position[0]) * position[1]
        return stretch**2

    gradient = acc.gradient(spring)
    gradient(np.ones(2))
    assert "stretch" in gradient.show(tmp_path / "graph.svg").read_text(encoding="utf-8")


# The command line ----------------------------------------------------------------------------------------------------


def test_the_command_takes_graphs_plans_and_functions(tmp_path):
    run, page = CliRunner(), tmp_path / "page.html"
    acc.save_graph(diamond(), tmp_path / "graph.json")
    acc.save_plan(acc.plan(diamond()), tmp_path / "plan.json")
    (tmp_path / "model.py").write_text(
        "import numpy as np\n\ndef area(size):\n    side = size[0] * 2\n    return side * size[1]\n"
    )
    for arguments, name in (
        (["graph.json"], "a"),
        (["plan.json"], "a"),
        (["model.py:area", "--shape", "2"], "side"),
    ):
        result = run.invoke(app, ["show", str(tmp_path / arguments[0]), *arguments[1:], "--output", str(page)])
        assert result.exit_code == 0, result.output
        assert name in {vertex["a"] for vertex in data_of(page.read_text(encoding="utf-8"))["vertices"]}
        page.unlink()
    result = run.invoke(app, ["show", str(tmp_path / "graph.json"), "--output", str(tmp_path / "no" / "page.html")])
    assert result.exit_code == 1
    assert "cannot be written" in result.output


# Panels --------------------------------------------------------------------------------------------------------------


def test_blocks_are_folded_into_edges():
    graph = acc.DifferentiationGraph([("y", "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "x")])
    result = panels.blocks(graph)
    names = [[graph.vertices[v] for v in inner] for _, _, _, inner, _ in result]
    assert ["a", "b", "c", "d"] in names
    assert ["b", "c"] in names
    for _, source, sink, inner, edges in result:
        assert not {source, sink} & {*inner}
        assert edges <= len(graph.sources)


@pytest.mark.parametrize("seed", range(4))
def test_local_jacobians_multiply_to_the_jacobian(seed):
    graph = random_graph(seed, 8)
    rng = np.random.default_rng(seed)
    labels = rng.uniform(1, 2, len(graph.sources))
    product = None
    matrices = panels.matrices_between_levels(graph)
    for matrix in matrices:
        numbers = np.zeros((len(matrix["rows"]), len(matrix["columns"])))
        for row, column, e in matrix["cells"]:
            numbers[row, column] += 1.0 if e < 0 else labels[e]
        product = numbers if product is None else product @ numbers
    expected = np.zeros(product.shape)
    ways = {v: np.zeros(len(graph.vertices)) for v in range(len(graph.vertices))}
    for v in graph.topological_order:
        ways[v][v] = 1.0
        for e in graph.out_edges[v]:
            ways[v] += labels[e] * ways[int(graph.targets[e])]
    for r, (_, j) in enumerate(matrices[0]["rows"]):
        for c, (_, i) in enumerate(matrices[-1]["columns"]):
            expected[r, c] = ways[j][i]
    assert np.allclose(product, expected)


def test_dependencies_of_a_plan_have_no_cycle_and_those_of_the_notes_one():
    result = panels.dependencies(acc.plan(diamond()))
    assert result["cycle"] == ""
    assert all(result["nodes"][a][2] < result["nodes"][b][2] for a, b, _ in result["arrows"])
    notes = ["s1|s2s3", "s2|s3s4", "s5s3|s4", "s6s5|s3", "s7s6|s5", "s8s7|s6", "s8|s7s1", "s7|s1s2"]
    ring = panels.waiting(elimination_dependencies(map(Relation.parse, notes)))
    assert len(ring["nodes"]) == 8
    assert [around for *_, around in ring["arrows"]] == [1] * 8
    assert "⟨s1, s2⟩ waits for ⟨s2, s3⟩" in ring["cycle"]


def test_loops_are_vertices_with_a_plan_inside(tmp_path):
    def diffusion(u, rate):
        du = np.zeros_like(u)
        du[1:-1] = rate * (u[2:] - 2 * u[1:-1] + u[:-2]) + np.sin(u[1:-1])
        return du

    jac = acc.jacobian(diffusion, sparse="csr")
    jac(np.linspace(0.0, 1.0, 50_000), 3.0)
    page = jac.show(tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(page) < 2_000_000
    data = data_of(page)
    texts = [node[0] for node in data["outer"]["nodes"]]
    assert texts[:2] == ["u", "rate"]
    assert texts[-1] == "diffusion"
    assert any(text.startswith("loop") and text.endswith("× 49,998") for text in texts)
    assert len(data["bodies"]) == 1
    assert {"sin", "×"} <= {vertex["o"] for vertex in data["bodies"][0]["vertices"]}


def test_a_large_graph_has_an_overview(monkeypatch):
    monkeypatch.setattr(explorer, "LARGEST", 100)

    def steps(x):
        for _ in range(20):
            x = x + 0.1 * np.sin(np.roll(x, 1)) * x
        return x

    plan = acc.plan(acc.trace(steps, np.ones(4)).linearize(), "markowitz")
    data = data_of(explorer.page(plan))
    assert data["overview"].startswith("324 vertices")
    (shown,) = data["plans"]
    assert (shown["fma"][-1], shown["mul"][-1]) == (plan.costs["fma"], plan.costs["multiplications"])
    sizes = [int(vertex["a"].rpartition("×")[2]) for vertex in data["vertices"]]
    assert sum(sizes) == len(plan.graph.vertices)
    gone = sorted(v for step in shown["steps"] for v in step[6])
    assert gone == [v for v, vertex in enumerate(data["vertices"]) if not vertex["k"]]


def test_formulas_have_the_brackets_that_they_need():
    def f(x):
        return np.array([(x[0] * x[1]) ** 2.5, -(x[0] + x[1]), (x[0] - 3.0) * x[1], x[1] * -2.0])

    data = data_of(explorer.page(acc.plan(acc.trace(f, np.ones(2)).linearize())))
    values = {value for _, _, value in data["labels"]}
    formulas = [vertex["f"] for vertex in data["vertices"]] + sorted(values)
    assert any(r"\left(-2\right) \cdot x_{1}" in text for text in formulas)
    for text in formulas:
        assert not re.search(r"\\cdot -", text)
        assert not re.search(r"\}\^\{.*\}\^", text)
