"""Pictures of graphs for Graphviz, notebooks and LaTeX.

**Graphviz.** Roots are on top and terminals at the bottom.

Roots are blue, terminals green, and intermediates light with dark text. The background is transparent, and lines and
labels have equal contrast on white and on black, so the picture suits light and dark pages. Unit edges are dashed.
Names such as v12 are set with subscripts. `accumulus.theory.graphs.line` draws line graphs.

Run ``dot -Tsvg graph.dot`` to render the picture. Text is quoted, so a name cannot contain commands.

**SVG, and TikZ for LaTeX.** These do not need Graphviz. Notebooks show small graphs as SVG.

`accumulus.graph.layered` places the vertices on their depth levels, roots on top. The colours are the same, and text is
escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from accumulus.graph.degrees import levels
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.graph.layered import ACROSS, Point, curve, drawn
from accumulus.text import printable

_STYLE: Final = """\
  graph [bgcolor="transparent", nodesep=0.28, ranksep=0.28];
  node [fontname="Helvetica", fontsize=13, height=0.3, width=0.4, margin="0.08,0.03", penwidth=1];
  node [style="{shape}", shape=box, color="#8c96a0", fillcolor="#eef1f4", fontcolor="#1f2328"];
  edge [fontname="Helvetica", fontsize=12, color="#7f8a95", fontcolor="#b3622d", arrowsize=0.6];"""

_ENDS: Final = {
    "source": 'color="#0b62c1", fillcolor="#0b62c1", fontcolor="#ffffff"',
    "sink": 'color="#14743f", fillcolor="#14743f", fontcolor="#ffffff"',
}
#: Letters with a number each, and their sums and products: v12, v-2, e3e7, e1(e2 + e3).
_INDEXED: Final = re.compile(r"(?:[^\W\d_][-−]?\d+[′']*|[ +*·()])+")
_LOWERED: Final = str.maketrans("0123456789-−", "₀₁₂₃₄₅₆₇₈₉₋₋")


def to_dot(graph: DifferentiationGraph) -> str:
    """Return the graph in Graphviz's language.

    The node ids are ``v0``, ``v1``, …, by vertex number; the labels are the vertices' names.

    >>> print(to_dot(DifferentiationGraph([("y", "a", "e1"), ("a", "x", 1.0)], name="f")))
    digraph "f" {
      graph [bgcolor="transparent", nodesep=0.28, ranksep=0.28];
      node [fontname="Helvetica", fontsize=13, height=0.3, width=0.4, margin="0.08,0.03", penwidth=1];
      node [style="rounded,filled", shape=box, color="#8c96a0", fillcolor="#eef1f4", fontcolor="#1f2328"];
      edge [fontname="Helvetica", fontsize=12, color="#7f8a95", fontcolor="#b3622d", arrowsize=0.6];
      v0 [label="y", color="#0b62c1", fillcolor="#0b62c1", fontcolor="#ffffff"];
      v1 [label="a"];
      v2 [label="x", color="#14743f", fillcolor="#14743f", fontcolor="#ffffff"];
      { rank=source; v0; }
      { rank=sink; v2; }
      v0 -> v1 [label=" e₁ "];
      v1 -> v2 [label=" 1 ", style=dashed];
    }
    """
    names = [typeset(name) for name in graph.vertices]
    for v, size in enumerate(graph.sizes.tolist()):
        if size > 1:
            names[v] += f" ×{size}"
    return digraph(graph.name, "rounded,filled", names, range(len(names)), graph.roots, graph.terminals, _edges(graph))


def write_dot(graph: DifferentiationGraph, path: str | PathLike[str]) -> None:
    """Write the graph to a file in Graphviz's language.

    Raises:
        OSError: if the file cannot be written.
    """
    Path(path).write_bytes(to_dot(graph).encode() + b"\n")


def digraph(
    title: str,
    shape: str,
    names: list[str],
    used: Iterable[int],
    roots: Iterable[int],
    terminals: Iterable[int],
    edges: Iterable[str],
) -> str:
    """Return a directed graph in Graphviz's language.

    Args:
        title: title of the picture.
        shape: Graphviz's style of the vertices.
        names: names of the vertices, by number.
        used: vertices to draw.
        roots: roots among the drawn vertices.
        terminals: terminals among the drawn vertices.
        edges: edges in Graphviz's language.
    """
    ends = {"source": tuple(roots), "sink": tuple(terminals)}
    settings = {v: f", {_ENDS[rank]}" for rank, vertices in ends.items() for v in vertices}
    lines = [f"digraph {_quoted(title)} {{", _STYLE.format(shape=shape)]
    lines += [f"  v{v} [label={_quoted(names[v])}{settings.get(v, '')}];" for v in used]
    for rank, vertices in ends.items():
        if vertices:
            lines.append(f"  {{ rank={rank}; {' '.join(f'v{v};' for v in vertices)} }}")
    lines += [f"  {edge}" for edge in edges]
    return "\n".join([*lines, "}"])


def _edges(graph: DifferentiationGraph) -> Iterator[str]:
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), _labels(graph), strict=True)
    for e, (j, i, text) in enumerate(ends):
        settings = [f"label={_quoted(f' {typeset(text)} ')}"] if text else []
        if graph.kinds[e] == Kind.ONE:
            settings.append("style=dashed")
        yield f"v{j} -> v{i} [{', '.join(settings)}];" if settings else f"v{j} -> v{i};"


def typeset(name: object) -> str:
    """Return the name, with numbers as subscripts if it consists of single letters with numbers.

    >>> [typeset(name) for name in ("v12", "v-2", "e3e7 + e1", "x[0]", "log1p")]
    ['v₁₂', 'v₋₂', 'e₃e₇ + e₁', 'x[0]', 'log1p']
    """
    text = str(name)
    return text.translate(_LOWERED) if _INDEXED.fullmatch(text) else text


def _quoted(text: str) -> str:
    visible = printable(text.replace("\r", ""), keep="\n")
    escaped = visible.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# SVG and TikZ --------------------------------------------------------------------------------------------------------


#: Largest numbers of vertices and of edges of a graph that `to_svg` draws: pictures of larger graphs are unreadable,
#: smaller limits refuse readable ones.
LARGEST: Final = (60, 150)
#: Largest number of characters of a name in a picture.
SHOWN: Final = 14
#: Height of a vertex and width of a character, in pixels.
HIGH, WIDE = 22.0, 7.4
#: Fill, line and ink of vertices by role; colours of edges and of their labels.
FILLS: Final = {
    "root": ("#0b62c1", "#0b62c1", "#ffffff"),
    "terminal": ("#14743f", "#14743f", "#ffffff"),
    "inner": ("#eef1f4", "#8c96a0", "#1f2328"),
}
EDGE, LABEL = "#7f8a95", "#b3622d"


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing of a graph, independent of the output format.

    Attributes:
        title: title of the picture.
        nodes: text, position, width and role ("root", "terminal" or "inner") of each drawn vertex.
        edges: points and label of each edge, and True if it is dashed.
        width, height: size of the picture, in pixels.
        corner: radius of the vertices' corners, in pixels.
    """

    title: str
    nodes: Sequence[tuple[str, Point, float, str]]
    edges: Sequence[tuple[Sequence[Point], str, bool]]
    width: float
    height: float
    corner: float

    @classmethod
    def of(
        cls,
        title: str,
        names: Sequence[str],
        level: Sequence[int],
        edges: Sequence[tuple[int, int, str, bool]],
        ends: Mapping[int, str],
        corner: float = 6.0,
    ) -> Picture:
        """Return the picture of a graph with the given levels.

        Args:
            title: title of the picture.
            names: names of the vertices, by number.
            level: level of each vertex, −1 for vertices that are not drawn.
            edges: source, target and label of each edge, and True if it is dashed.
            ends: "root" or "terminal", by vertex; all others are inner vertices.
            corner: radius of the vertices' corners, in pixels.
        """
        widths = [max(28.0, WIDE * len(name) + 12.0) for name in names]
        drawing = drawn(level, [(j, i) for j, i, *_ in edges], widths)
        margin = max(widths, default=0.0) / 2.0 + ACROSS / 2.0

        def moved(point: Point) -> Point:
            return point[0] + margin, point[1] + HIGH

        nodes = [(names[v], moved(at), widths[v], ends.get(v, "inner")) for v, at in drawing.points.items()]
        ways = [
            ([moved(at) for at in way], label, dashed)
            for way, (*_, label, dashed) in zip(drawing.ways, edges, strict=True)
            if way
        ]
        return cls(title, nodes, ways, drawing.width + 2.0 * margin, drawing.height + 2.0 * HIGH, corner)

    def svg(self) -> str:
        """Return the picture as SVG."""
        parts = [_edge(*edge) for edge in self.edges] + [_vertex(*node, self.corner) for node in self.nodes]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.1f} {self.height:.1f}" font-family="Helvetica, Arial, sans-serif" '
            f'font-size="13"><title>{escape(printable(self.title))}</title>{"".join(parts)}</svg>'
        )

    def tikz(self) -> str:
        r"""Return the picture as TikZ code; LaTeX needs the packages tikz and xcolor.

        >>> picture = picture_of(DifferentiationGraph([("y", "a", "e1"), ("a", "x", 1.0)], name="f"))
        >>> print(picture.tikz().splitlines()[-4])
          \node[root, minimum width=21.0bp] at (17.2,-16.5) {$y$};
        """
        colours = [
            rf"  \definecolor{{{name}{role}}}{{HTML}}{{{colour[1:].upper()}}}"
            for name, colours in (*FILLS.items(), ("edge", (EDGE, LABEL)))
            for role, colour in zip(("fill", "line"), colours, strict=False)
        ]
        shape = rf"draw, inner sep=0, minimum height={_bp(HIGH)}bp, rounded corners={_bp(self.corner)}bp"
        styles = ", ".join(
            rf"{name}/.style={{{shape}, fill={name}fill, draw={name}line, text={ink}}}"
            for name, ink in (("root", "white"), ("terminal", "white"), ("inner", "black"))
        )
        lines = [r"\begin{tikzpicture}[x=1bp, y=1bp, font=\small, >=stealth, " + styles + "]", *colours]
        for way, label, dashed in self.edges:
            (x, y), *rest = way
            at, text = y + HIGH / 2.0, rf"  \draw[->, edgefill{', dashed' * dashed}] ({_bp(x)},{_bp(-y - HIGH / 2.0)})"
            for k, (right, below) in enumerate(rest):
                down = below - HIGH / 2.0 if k == len(rest) - 1 else below
                middle = _bp(-(at + down) / 2.0)
                text += f" .. controls ({_bp(x)},{middle}) and ({_bp(right)},{middle}) .. ({_bp(right)},{_bp(-down)})"
                x, at = right, down
            lines.append(f"{text};")
            if label:
                x, y = middle_of(way)
                lines.append(
                    rf"  \node[text=edgeline, right, inner sep=1bp] at ({_bp(x)},{_bp(-y)}) {{{_tex(label)}}};"
                )
        for text, (x, y), width, end in self.nodes:
            lines.append(rf"  \node[{end}, minimum width={_bp(width)}bp] at ({_bp(x)},{_bp(-y)}) {{{_tex(text)}}};")
        return "\n".join([*lines, r"\end{tikzpicture}"]) + "\n"


def picture_of(graph: DifferentiationGraph, names: Sequence[str] | None = None) -> Picture:
    """Return the picture of a graph of any size.

    Args:
        graph: graph to draw.
        names: names to show for the vertices, by default the graph's.
    """
    vertex_names = map(str, graph.vertices) if names is None else names
    shown = [_shown(name, size) for name, size in zip(vertex_names, graph.sizes.tolist(), strict=True)]
    edges = [
        (j, i, _shown(label, 1), kind == Kind.ONE)
        for j, i, label, kind in zip(
            graph.sources.tolist(), graph.targets.tolist(), _labels(graph), graph.kinds.tolist(), strict=True
        )
    ]
    ends = dict.fromkeys(graph.roots, "root") | dict.fromkeys(graph.terminals, "terminal")
    return Picture.of(graph.name or "differentiation graph", shown, levels(graph), edges, ends)


def to_svg(graph: DifferentiationGraph) -> str | None:
    """Return the picture as SVG; None if the graph is empty or larger than `LARGEST`.

    >>> picture = to_svg(DifferentiationGraph([("y", "a", "e1"), ("a", "x", 1.0)], name="f"))
    >>> picture.startswith("<svg"), picture.count("<rect"), picture.count("<path")
    (True, 3, 2)
    """
    if not graph.vertices or len(graph.vertices) > LARGEST[0] or len(graph.sources) > LARGEST[1]:
        return None
    return picture_of(graph).svg()


def _labels(graph: DifferentiationGraph) -> list[str]:
    """Return the text beside each edge: its symbol or its value; empty if it has neither."""
    return [
        symbol or (f"{graph.constants[e]:g}" if e in graph.constants else "") for e, symbol in enumerate(graph.symbols)
    ]


def _edge(way: Sequence[Point], label: str, dashed: bool) -> str:
    """Return the SVG of an edge with its arrow head and label."""
    x1, y1 = way[-1]
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    end = y1 - HIGH / 2.0
    tip = f"{x1 - 3.5:.1f},{end - 7.0:.1f} {x1 + 3.5:.1f},{end - 7.0:.1f} {x1:.1f},{end:.1f}"
    path = curve(way, HIGH / 2.0, HIGH / 2.0 + 4.0)
    line = f'<path d="{path}" fill="none" stroke="{EDGE}"{dashes}/><polygon points="{tip}" fill="{EDGE}"/>'
    x, y = middle_of(way)
    text = f'<text x="{x + 3.0:.1f}" y="{y + 4.0:.1f}" fill="{LABEL}" font-size="12">{escape(label)}</text>'
    return line + text if label else line


def middle_of(way: Sequence[Point]) -> Point:
    """Return the position of an edge's label: the middle of its first segment."""
    (x, y), (x1, y1) = way[:2]
    return (x + x1) / 2.0, (y + y1) / 2.0


def _vertex(name: str, at: Point, width: float, end: str, corner: float) -> str:
    fill, line, ink = FILLS[end]
    x, y = at
    return (
        f'<rect x="{x - width / 2.0:.1f}" y="{y - HIGH / 2.0:.1f}" width="{width:.1f}" height="{HIGH}" rx="{corner:g}" '
        f'fill="{fill}" stroke="{line}"/>'
        f'<text x="{x:.1f}" y="{y + 4.5:.1f}" text-anchor="middle" fill="{ink}">{escape(name)}</text>'
    )


def _bp(pixels: float) -> str:
    """Return a length in big points."""
    return f"{0.75 * pixels:.1f}"


_RAISED: Final = str.maketrans("₀₁₂₃₄₅₆₇₈₉₋", "0123456789-")
_LETTERS: Final = re.compile(r"([^\W\d_])([₀-₉₋]*)")
_ESCAPED: Final = {c: f"\\{c}" for c in "{}_$&#%"} | {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}"}


def _tex(text: str) -> str:
    """Return text for LaTeX: letters with numbers as formulas, all other text escaped."""
    if re.fullmatch(r"(?:[^\W\d_][₀-₉₋]*|[ +*·()])+", text) and (len(text) == 1 or text != text.translate(_RAISED)):
        return f"${_LETTERS.sub(lambda m: m[1] + (f'_{{{m[2].translate(_RAISED)}}}' if m[2] else ''), text)}$"
    return "".join(_ESCAPED.get(c, c) for c in text)


def _shown(name: str, size: int) -> str:
    """Return a name for drawing: shortened to `SHOWN` characters, followed by the size of a vector."""
    text = typeset(printable(name))
    text = text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
    return f"{text} ×{size}" if size > 1 else text
