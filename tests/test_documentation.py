"""The documentation says what is there: its examples run, and what it names exists."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from figures import figure, isomorphic, line_figure
from inside import app
from typer.testing import CliRunner

import accumulus as acc

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: By what they are called in docs/, the README by its name.
PAGES = {"README.md": ROOT / "README.md"} | {
    page.relative_to(DOCS).as_posix(): page for page in sorted(DOCS.rglob("*.md"))
}
TEXTS = {name: page.read_text(encoding="utf-8") for name, page in PAGES.items()}


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def drawing(name, folder="docs"):
    """Return docs/figures.py, which runs examples and draws graphs, docs/plots.py, which plots numbers, or others."""
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its data classes look for it
    spec.loader.exec_module(module)
    return module


DRAWING, PLOTS, MEASURED = drawing("figures"), drawing("plots"), drawing("pages", "benchmarks")
INTERACTIVE = [name for name, text in TEXTS.items() if blocks(text, "pycon")]
#: Which graphs of docs/notes.md are figures of the notes, by name there.
DRAWN_IN_THE_NOTES = {
    "star": ("fig:biclique", "a"),
    "cross": ("fig:cross-level-edge-segmentation", "a"),
    "a": ("fig:complex-dag-and-complete-path-dag", "a"),
    "b": ("fig:complex-dag-and-complete-path-dag", "b"),
    "b1": ("fig:2-step-factorization", "a"),
    "b2": ("fig:2-step-factorization", "b"),
    "f1": ("fig:2-step-factorization", "c"),
    "f2": ("fig:2-step-factorization", "d"),
    "conflict": ("fig:conflicting-depth-accumulation-order", "a"),
    "multi": ("fig:multi-root-terminal-graph", "a"),
    "paged": ("fig:multi-root-terminal-factorization", "a"),
}


@cache
def run(name):
    if "numpyro.distributions" in TEXTS[name]:
        pytest.importorskip("numpyro")
    return DRAWING.run(PAGES[name])


LINES = "".join("".join(blocks(text, "console")) for text in TEXTS.values()).splitlines()
#: Research takes minutes; what is built are files of the reader's. Both have tests of their own.
COMMANDS = sorted(
    {
        words
        for line in LINES
        if line.startswith("accumulus ")
        and (words := tuple(line.split("#")[0].split()[1:]))[0] not in ("research", "build")
    }
)


def test_examples_of_the_readme_run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # they write files
    scope = {}
    examples = blocks(TEXTS["README.md"], "python")
    for example in examples:
        exec(example, scope)
    assert "Jacobian of robertson" in capsys.readouterr().out
    assert scope["solution"].success
    np.testing.assert_allclose(scope["jac"](0.0, np.array([1.0, 0.0, 0.0])), [[-0.04, 0, 0], [0.04, 0, 0], [0, 0, 0]])


def test_examples_on_long_arrays_run():
    scope = {"np": np, "acc": acc}
    for example in blocks(TEXTS["tracing.md"], "python"):
        exec(example.replace("1_000_000", "100_000").replace("128", "48"), scope)  # quicker, and loops all the same
    assert scope["jac"].report().nonzeros == 299_994


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_of_the_pages_run(arguments, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    if "--output" in arguments:
        arguments = [*arguments[: arguments.index("--output") + 1], str(tmp_path / "output")]
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("end", ["json", "graphml"])
def test_graph_files_on_the_command_line(end, tmp_path):
    path = tmp_path / f"diamond.{end}"
    diamond = acc.DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "x"), ("b", "x")], name="diamond")
    acc.save_graph(diamond, path)
    result = CliRunner().invoke(app, ["plan", str(path), "--json"])
    assert result.exit_code == 0, result.output
    assert "diamond" in result.output


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page):
    folder = PAGES[page].parent
    for target in re.findall(r"\]\(([^)#]+)", TEXTS[page]):
        assert target.startswith("https://") or (folder / target).exists(), target


def sections(text):
    """Return the anchors of the page's headings: their words in lower case, joined by hyphens."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS)
def test_links_to_sections_lead_somewhere(page):
    for target, section in re.findall(r"\]\(([^)#:]*\.md)?#([^)]+)\)", TEXTS[page]):
        other = (PAGES[page].parent / target).resolve() if target else PAGES[page]
        assert section in sections(other.read_text(encoding="utf-8")), f"{target}#{section}"


def pages_of(navigation):
    """The pages of a part of the site's navigation."""
    for entry in navigation:
        (_, content), *_ = entry.items()
        yield from [content] if isinstance(content, str) else pages_of(content)


def test_the_site_leads_to_every_page_once():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = sorted(pages_of(site["nav"]))
    pages = {"index.md", "tutorial.md"} | PAGES.keys() - {"README.md"}
    assert listed == sorted(pages), "nav in mkdocs.yml lists other pages"
    entries = [entry for section in site["nav"] for entries in section.values() for entry in entries]
    assert len(entries) <= 25, "readers lose their way among more entries"


def test_the_reference_has_every_public_name():
    """Each name once, in docs/reference/, and nothing that is not there."""
    reference = "".join(text for page, text in TEXTS.items() if page.startswith("reference/"))
    named = re.findall(r"^::: accumulus\.(\w+)$", reference, re.MULTILINE)
    assert sorted(named) == sorted(acc.__all__), "docs/reference/ and accumulus.__all__ differ"


@pytest.mark.parametrize("page", TEXTS)
def test_names_exist(page):
    for name in re.findall(r"\bacc\.(\w+)", TEXTS[page]):
        assert hasattr(acc, name), name
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", TEXTS[page]):
        assert re.search(rf"^{target}:", targets, re.MULTILINE), target
    for path in re.findall(r"`((?:src|docs|tests|requirements|examples|benchmarks)/[\w/.]*)`", TEXTS[page]):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", INTERACTIVE)
def test_interactive_examples_show_their_output(name):
    scope, report = run(name)
    assert report == ""
    assert "acc" in scope


def test_an_example_that_does_something_else_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```pycon\n>>> one = 1\n>>> one + 1\n2\n```\ntext\n```pycon\n>>> one + 1\n3\n```\n", encoding="utf-8"
    )
    scope, report = DRAWING.run(page)
    assert scope["one"] == 1
    assert "line 8" in report
    assert report.count("Failed example") == 1


@pytest.mark.parametrize("name", DRAWN_IN_THE_NOTES)
def test_graphs_of_the_notes_are_those_of_the_figures(name):
    assert isomorphic(run("notes.md")[0][name], figure(*DRAWN_IN_THE_NOTES[name]))


def test_line_graphs_of_the_notes_are_those_of_the_figures():
    scope, _ = run("notes.md")
    shown = DRAWING.notes(scope)
    for letter, (_, drawn) in zip("abcdef", shown["line-graph-elimination"], strict=True):
        assert relations(drawn) == relations(line_figure("fig:chain-block-elimination", letter))
    assert relations(shown["relations"][0][1]) == relations(line_figure("fig:line-graph-eg", "a"))


def relations(line):
    """The faces by names of edges; a sum is s1 in the notes, and roots and terminals are not called alike."""
    names = [str(name) if k < line.edges else line.edges <= k for k, name in enumerate(line.names)]
    names = ["s1" if "+" in str(name) else name for name in names]
    return sorted((str(names[i]), str(names[j])) for i, j in line.faces)


@pytest.mark.parametrize("name", DRAWING.PAGES)
def test_pictures_show_the_results_of_the_examples(name):
    """Each file says which DOT text it was made from: make figures draws anew what differs. Needs no Graphviz."""
    figures = DRAWING.PAGES[name](run(name)[0])
    assert sorted(re.findall(r"\(figures/([\w-]+)\.svg\)", TEXTS[name])) == sorted(figures)
    for file, pictures in figures.items():
        text = (ROOT / "docs" / "figures" / f"{file}.svg").read_text(encoding="utf-8")
        assert f"<!-- {DRAWING.MARK} {DRAWING.digest(pictures)} -->" in text, f"{file}.svg is out of date: make figures"


@pytest.mark.parametrize("name", PLOTS.PAGES)
def test_plots_show_the_results_of_the_examples(name):
    for file, text in PLOTS.PAGES[name](run(name)[0]).items():
        drawn = (ROOT / "docs" / "figures" / f"{file}.svg").read_text(encoding="utf-8")
        numbers = [np.array([float(each) for each in re.findall(r"-?\d+\.?\d*", element)]) for element in (text, drawn)]
        assert numbers[0].shape == numbers[1].shape, "python docs/plots.py"
        np.testing.assert_allclose(*numbers, atol=0.5, err_msg="python docs/plots.py")  # half of a pixel


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "<!-- measured: " in text])
def test_tables_show_the_measurements(name):
    assert MEASURED.filled(TEXTS[name]) == TEXTS[name], "make tables"


def test_every_stored_table_has_a_position():
    places = re.findall(r"<!-- measured: ([\w-]+) -->", "".join(TEXTS.values()))
    assert sorted(places) == sorted(MEASURED.TABLES)
    text = (ROOT / "benchmarks" / "pages.py").read_text(encoding="utf-8")
    unused = [path.name for path in MEASURED.MEASURED.glob("*.json") if f'"{path.stem}"' not in text]
    assert unused == []


def test_the_chart_shows_the_measurements(monkeypatch):
    monkeypatch.setitem(sys.modules, "pages", MEASURED)
    assert drawing("chart", "benchmarks").drawn() == MEASURED.ROOT.joinpath(
        "docs", "figures", "time-per-jacobian.svg"
    ).read_text(encoding="utf-8"), "make tables"


def test_the_front_page_has_the_measured_numbers():
    means = {row["call"]: row for row in MEASURED.Group.of("overview").rows if row["function"] == "geometric mean"}
    point, batch = means["one point"], means["batch"]
    for row, systems in ((point, ("JAX", "finite differences")), (batch, ("CasADi", "JAX"))):
        ratios = " / ".join(MEASURED.rounded(row[system] / row["accumulus"]) for system in systems)
        assert f"{ratios} times as fast" in TEXTS["README.md"]
    ratio = MEASURED.rounded(point["CasADi buffers"] / point["accumulus"])
    assert f"CasADi takes {ratio} times as long" in " ".join(TEXTS["README.md"].split())


def test_the_comparison_says_that_casadi_is_ahead_nowhere():
    rows = MEASURED.Group.of("overview").rows
    points = [row for row in rows if row["call"] == "one point" and row["function"] != "geometric mean"]
    ratios = [MEASURED.rounded(row["CasADi buffers"] / row["accumulus"]) for row in points]
    ends = f"buffers take {min(ratios)} to {max(ratios)} times as long as accumulus"
    assert ends in " ".join(TEXTS["compared.md"].split())
    assert not any(row["CasADi"] < row["accumulus"] for row in rows if row["call"] == "batch")


def test_the_notebook_runs_and_shows_its_outputs(tmp_path):
    notebook = drawing("notebook")
    notebook.main(tmp_path)
    page = (tmp_path / "tutorial.md").read_text(encoding="utf-8")
    kinds = [kind for kind, _ in notebook.cells()]
    assert page.count("```python") == kinds.count("code")
    for shown in ("jacobian(reaction)", "passed", "Trace of reaction", "<svg", "lower bound"):
        assert shown in page
    explorer, report = sorted(tmp_path.glob("tutorial-*.html"), key=lambda path: int(path.stem[9:]))
    assert '"n":"heat"' in explorer.read_text(encoding="utf-8")
    assert "heat = rate * np.sin(state[1]) / state[2]" in report.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([\w/-]+\.md)\)", page):
        assert target in PAGES


def test_the_notes_are_animated(tmp_path):
    """Each page that docs/notes-animated.md shows is made, from a graph that the examples of the notes define."""
    spec = importlib.util.spec_from_file_location("docs_animated", ROOT / "docs" / "animated.py")
    animated = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(animated)
    frames = re.findall(r'<iframe src="animated/([\w-]+)\.html[#&;=\w]*"', TEXTS["notes-animated.md"])
    assert frames == list(animated.PAGES)
    animated.write(run("notes.md")[0], tmp_path)
    for name in frames:
        assert 'src="explorer.js"' in (tmp_path / f"{name}.html").read_text(encoding="utf-8")


def test_pictures_are_pictures_and_nothing_else():
    pictures = sorted((ROOT / "docs" / "figures").glob("*"))
    assert {path.stem for path in pictures} == set(re.findall(r"figures/([\w-]+)\.svg", "".join(TEXTS.values())))
    for path in pictures:
        tree = ElementTree.parse(path)
        tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
        assert tags <= {"svg", "title", "g", "path", "polygon", "text"}
        assert not any("href" in key for element in tree.iter() for key in element.attrib)
