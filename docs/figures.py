"""Draws the figures of the documentation: `make figures`, which needs Graphviz.

What is drawn are the values that the examples of the pages compute, by name, so a figure shows what the text runs. Each
SVG says in a comment which DOT text it was made from; the tests compare that with the present one, without Graphviz.
"""

from __future__ import annotations

import doctest
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from accumulus.elimination.edges_and_faces import FaceElimination
from accumulus.graph.degrees import segmented
from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.pictures import to_dot
from accumulus.theory.algebra.expression import Expression, Symbol, product_of_factors, sum_of_terms
from accumulus.theory.graphs.line import LineGraph, line_graph_to_dot

DOCS = Path(__file__).parent
SOURCES = DOCS.parent / "src" / "accumulus"
FIGURES = DOCS / "figures"
SVG = "{http://www.w3.org/2000/svg}"
#: What the comment in a file begins with.
MARK = "made by docs/figures.py from DOT with the SHA-256"

Scope = dict[str, Any]
#: Caption, width, height and content of a part.
Part = tuple[str, float, float, str]
#: What can be drawn; text is DOT already.
Drawable = DifferentiationGraph | LineGraph | str


def examples(page: Path) -> Iterator[doctest.DocTest]:
    """The interactive examples of a page, which share their names."""
    text = page.read_text(encoding="utf-8")
    parser, scope = doctest.DocTestParser(), {}
    for match in re.finditer(r"^```pycon\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text[: match.start()].count("\n") + 1
        example = parser.get_doctest(match[1], {}, f"{page.name} line {line}", str(page), line)
        example.globs = scope
        yield example


def run(page: Path) -> tuple[Scope, str]:
    """Run the examples of a page in an empty folder: the names that they define, and a report of what went wrong."""
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    scope: Scope = {}
    with tempfile.TemporaryDirectory() as folder, _working_in(folder):
        for example in examples(page):
            runner.run(example, out=report.append, clear_globs=False)
            scope = example.globs
    return scope, "".join(report)


def notes(scope: Scope) -> dict[str, list[tuple[str, Drawable]]]:
    """The figures of docs/notes.md: captions and what they show, by the name of the file."""
    get = scope.__getitem__
    a, b, cross = get("a"), get("b"), get("cross")
    pages = [_page(get("trace")[number].edges, get("paged")) for number in get("shown")]
    return {
        "biclique": _parts(get("star"), get("line")),
        "lion-and-bat": [("lion", get("lion")), ("bat", get("bat"))],
        "merging": _parts(get("tree"), get("ends_merged"), get("merged")),
        "complex-dag": _parts(a, b, get("full").to_graph("split")),
        "segmentation": _parts(cross, segmented(cross, "tail"), segmented(cross, "head")),
        "factorization": _parts(*map(_by_labels, (get("b1"), get("b2"), get("f1"), get("f2")))),
        "references": _parts(*map(_by_labels, get("steps"))),
        "conflict": _parts(get("conflict"), _edges_left(get("product"))),
        "line-graph-elimination": _parts(*map(_line_graph, get("states"))),
        "multi": _parts(get("multi"), LineGraph.of(get("multi"))),
        "pages": _parts(*pages),
        "relations": [("", _line_graph(get("chains_gone")))],
    }


def graphs(scope: Scope) -> dict[str, list[tuple[str, Drawable]]]:
    """The figure of docs/graphs.md."""
    return {"diamond": [("", scope["diamond"])]}


def architecture(_: Scope) -> dict[str, list[tuple[str, Drawable]]]:
    """The figure of docs/architecture.md."""
    return {"packages": [("", packages_to_dot(imports_between_packages()))]}


#: Which figures belong to which page.
PAGES: dict[str, Callable[[Scope], dict[str, list[tuple[str, Drawable]]]]] = {
    "notes.md": notes,
    "graphs.md": graphs,
    "architecture.md": architecture,
}


def digest(parts: list[tuple[str, Drawable]]) -> str:
    """Return the digest that the file of a figure has to contain."""
    return hashlib.sha256("\n".join(f"{caption}\n{_dot(drawn)}" for caption, drawn in parts).encode()).hexdigest()


def _dot(drawn: Drawable) -> str:
    if isinstance(drawn, str):
        return drawn
    return line_graph_to_dot(drawn) if isinstance(drawn, LineGraph) else to_dot(drawn)


def _parts(*drawn: Drawable) -> list[tuple[str, Drawable]]:
    return [(f"({'abcdefghi'[k]})", each) for k, each in enumerate(drawn)]


def _line_graph(elimination: FaceElimination) -> LineGraph:
    """The line graph as it is now, its vertices called by what their labels have become."""
    graph = elimination.graph
    values: list[Expression] = [Symbol(symbol or f"e{e + 1}") for e, symbol in enumerate(graph.symbols)]
    for is_product, left, right in elimination.steps:
        values.append((product_of_factors if is_product else sum_of_terms)([values[left], values[right]]))
    ends = range(len(graph.sources), len(graph.sources) + len(graph.roots) + len(graph.terminals))
    inner = elimination.vertices()
    number = {v: k for k, v in enumerate([*inner, *ends])}
    names = [str(values[elimination.labels[v]]).replace("*", "") for v in inner]
    names += [str(graph.vertices[v]) for v in (*graph.roots, *graph.terminals)]
    faces = [(number[i], number[j]) for i in number for j in elimination.successors[i]]
    return LineGraph(names, faces, len(graph.roots), len(graph.terminals))


def _by_labels(graph: DifferentiationGraph) -> DifferentiationGraph:
    """The graph with its edges in the order of their labels, e2 before e10: siblings are drawn in that order."""
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), graph.symbols, strict=True)
    edges = [(graph.vertices[j], graph.vertices[i], symbol) for j, i, symbol in ends]
    return DifferentiationGraph(sorted(edges, key=lambda edge: (len(edge[2]), edge[2])))


def _page(edges: dict[tuple[str, str], str], whole: DifferentiationGraph) -> DifferentiationGraph:
    """A page of a run, its vertices in the order of the whole graph."""
    place = {name: k for k, name in enumerate(whole.vertices)}
    ordered = sorted(edges.items(), key=lambda edge: (place[edge[0][0]], place[edge[0][1]]))
    return DifferentiationGraph([(j, i, label) for (j, i), label in ordered])


def _edges_left(elimination: Any) -> DifferentiationGraph:
    """The graph of an edge elimination, references called s1, s2, … as they come."""
    graph, names = elimination.graph, {}
    edges = []
    for j, row in enumerate(elimination.successors):
        for i, label in row.items():
            new = label >= len(graph.sources)
            text = names.setdefault(label, f"s{len(names) + 1}") if new else graph.symbols[label]
            edges.append((graph.vertices[j], graph.vertices[i], text))
    return DifferentiationGraph(edges)


# The packages -------------------------------------------------------------------------------------------------------

#: What each package has, in few words; `api` is a module, and counts as one.
PACKAGES = {
    "cli": "the command line",
    "checking": "acc.check",
    "api": "acc.jacobian",
    "theory": "the rest of the notes",
    "shipping": "files",
    "programs": "arguments and results",
    "show": "reports",
    "arrays": "long arrays",
    "search": "orders, methods, plans",
    "elimination": "accumulations",
    "rewriting": "the tape's optimiser",
    "graph": "differentiation graphs",
    "frontends": "functions recorded",
    "targets": "compiled code",
    "repetition": "loops found",
    "tape": "operations, tapes",
    "native": "kernels",
}


def imports_between_packages() -> set[tuple[str, str]]:
    """Return the packages that each package imports from, apart from annotations."""
    arrows = set()
    for path in SOURCES.rglob("*.py"):
        own = path.relative_to(SOURCES).parts[0].removesuffix(".py")
        # lines instead of syntax trees, which take fifty times as long
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"^( *)if TYPE_CHECKING:\n(?:\1 .*\n|\n)*", "", text, flags=re.MULTILINE)
        for other in re.findall(r"^ *from accumulus\.(\w+)[\w.]* import ", text, re.MULTILINE):
            if {own, other} <= PACKAGES.keys() and own != other:
                arrows.add((own, other))
    return arrows


def packages_to_dot(arrows: set[tuple[str, str]]) -> str:
    """Boxes and arrows; one that others imply is left out."""
    below = {package: {b for a, b in arrows if a == package} for package in PACKAGES}
    every: dict[str, set[str]] = {}
    for package in reversed(PACKAGES):  # from the bottom up: what is imported comes first
        every[package] = below[package].union(*(every.get(other, set()) for other in below[package]))
    implied = {(a, c) for a, b in arrows for c in every[b]}
    lines = ["digraph {", '  node [shape=box, style="rounded,filled", fillcolor="#eef3f8", color="#7f8a95"];']
    lines += ['  edge [color="#7f8a95", arrowsize=0.7]; ranksep=0.35;']
    for package, what in PACKAGES.items():
        wing = ', fillcolor="#f6efe2"' if package == "theory" else ""
        lines.append(f'  "{package}" [label=<<b>{package}</b><br/><font point-size="10">{what}</font>>{wing}];')
    lines += [f'  "{a}" -> "{b}";' for a, b in sorted(arrows - implied)]
    lines += ['  "search" -> "theory" [style=dashed, constraint=false, xlabel="methods.py"];', "}"]
    return "\n".join(lines)


# Drawing ------------------------------------------------------------------------------------------------------------


def svg(title: str, parts: list[tuple[str, Drawable]], widest: float = 860) -> str:
    """One picture of all parts, side by side in rows, with their captions below."""
    drawn = [(caption, *_drawn(_dot(each))) for caption, each in parts]
    gap = 36.0
    rows = _rows(drawn, gap, widest)
    total_width = max(sum(width for _, width, _, _ in row) + gap * (len(row) - 1) for row in rows)
    body, top = [], 0.0
    for row in rows:
        tallest = max(height for _, _, height, _ in row)
        left = (total_width - sum(width for _, width, _, _ in row) - gap * (len(row) - 1)) / 2
        for caption, width, _, content in row:
            body.append(f'<g transform="translate({left:.1f} {top:.1f})">\n{content}\n</g>')
            if caption:
                place = f'x="{left + width / 2:.1f}" y="{top + tallest + 18:.1f}"'
                body.append(f'<text text-anchor="middle" {place} fill="#7f8a95" font-size="13">{caption}</text>')
            left += width + gap
        top += tallest + (30 if any(part[0] for part in row) else 0) + (14 if row is not rows[-1] else 0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width:.0f}" height="{top:.0f}" '
        f'viewBox="0 0 {total_width:.1f} {top:.1f}" font-family="Helvetica, Arial, DejaVu Sans, sans-serif">\n'
        f"<!-- {MARK} {digest(parts)} -->\n<title>{title}</title>\n" + "\n".join(body) + "\n</svg>\n"
    )


def _rows(parts: list[Part], gap: float, widest: float) -> list[list[Part]]:
    """Return the fewest rows that fit, with about as many pictures in each."""
    count = 1
    while True:
        length = -(-len(parts) // count)
        rows = [parts[k : k + length] for k in range(0, len(parts), length)]
        if length == 1 or all(sum(part[1] + gap for part in row) - gap <= widest for row in rows):
            return rows
        count += 1


def _drawn(dot: str) -> tuple[float, float, str]:
    """Width, height and content of what Graphviz makes of a text, without what a page does not need."""
    made = subprocess.run(["dot", "-Tsvg"], input=dot.encode(), capture_output=True, check=True).stdout
    root = ElementTree.fromstring(made)
    width, height = (float(root.attrib[side].removesuffix("pt")) for side in ("width", "height"))
    for parent in root.iter():
        for child in [each for each in parent if each.tag == f"{SVG}title"]:
            parent.remove(child)
        for name in ("id", "class", "font-family", "{http://www.w3.org/XML/1998/namespace}space"):
            parent.attrib.pop(name, None)
        parent.tag = parent.tag.removeprefix(SVG)
    content = "\n".join(ElementTree.tostring(child, encoding="unicode").strip() for child in root)
    return width, height, re.sub(r"\n\s*\n+", "\n", content)


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> None:
    """Draw every figure of every page."""
    FIGURES.mkdir(exist_ok=True)
    for name, figures in PAGES.items():
        scope, report = run(DOCS / name)
        if report:
            sys.exit(f"an example of {name} does not do what it says:\n{report}")
        for figure, parts in figures(scope).items():
            path = FIGURES / f"{figure}.svg"
            path.write_text(svg(f"{figure.replace('-', ' ')}", parts), encoding="utf-8", newline="\n")
            print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
