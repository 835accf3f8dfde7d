"""Pictures of graphs: for Graphviz, and for notebooks.

**Graphviz.** Roots are on top and terminals at the bottom.

Roots are blue, terminals green, whatever lies between is light with dark text, and lines and labels have a tone that
stands out as much from white as from black: the picture, whose own background is transparent, suits light and dark
pages. Unit edges are dashed. Names such as v12 are set with subscripts. Line graphs are drawn by
`accumulus.theory.graphs.line`.

Run ``dot -Tsvg graph.dot`` for the picture itself. Text is quoted, so nothing in a name is taken for a command.

**SVG.** Pictures of small graphs as SVG, for notebooks: no Graphviz is needed, and none is looked for.

Vertices are on their depth levels, roots on top, placed by `accumulus.graph.layered`. Colours are the same, and text is
escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from accumulus.graph.degrees import levels
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.graph.layered import ACROSS, curve, drawn
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

    Vertices are called by their numbers, ``v0``, ``v1``, …, and carry their names as labels.

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
    """Write the picture to a file, for Graphviz.

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
        title: of the picture.
        shape: Graphviz's style of the vertices.
        names: of the vertices, by number.
        used: vertices that are drawn.
        roots, terminals: of these.
        edges: in Graphviz's language.
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
    for e, (j, i) in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        text = graph.symbols[e] or (f"{graph.constants[e]:g}" if e in graph.constants else "")
        settings = [f"label={_quoted(f' {typeset(text)} ')}"] if text else []
        if graph.kinds[e] == Kind.ONE:
            settings.append("style=dashed")
        yield f"v{j} -> v{i} [{', '.join(settings)}];" if settings else f"v{j} -> v{i};"


def typeset(name: object) -> str:
    """Return the name, its numbers as subscripts if it is made of letters with a number each.

    >>> [typeset(name) for name in ("v12", "v-2", "e3e7 + e1", "x[0]", "log1p")]
    ['v₁₂', 'v₋₂', 'e₃e₇ + e₁', 'x[0]', 'log1p']
    """
    text = str(name)
    return text.translate(_LOWERED) if _INDEXED.fullmatch(text) else text


def _quoted(text: str) -> str:
    visible = printable(text.replace("\r", ""), keep="\n")
    escaped = visible.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# SVG -----------------------------------------------------------------------------------------------------------------


#: Vertices, and edges, of the largest graph that is drawn: beyond, a picture is a thicket.
LARGEST: Final = (60, 150)
#: Characters of a name that are shown.
SHOWN: Final = 14
#: Height of a vertex, width of a character; in pixels.
HIGH, WIDE = 22.0, 7.4
_FILLS: Final = {
    "root": ("#0b62c1", "#0b62c1", "#ffffff"),
    "terminal": ("#14743f", "#14743f", "#ffffff"),
    "inner": ("#eef1f4", "#8c96a0", "#1f2328"),
}


def to_svg(graph: DifferentiationGraph) -> str | None:
    """Return the picture; None for a graph that is empty, or larger than `LARGEST`.

    >>> picture = to_svg(DifferentiationGraph([("y", "a", "e1"), ("a", "x", 1.0)], name="f"))
    >>> picture.startswith("<svg"), picture.count("<rect"), picture.count("<path")
    (True, 3, 2)
    """
    if not graph.vertices or len(graph.vertices) > LARGEST[0] or len(graph.sources) > LARGEST[1]:
        return None
    names = [_shown(str(name), size) for name, size in zip(graph.vertices, graph.sizes.tolist(), strict=True)]
    widths = [max(28.0, WIDE * len(name) + 12.0) for name in names]
    ends_of_edges = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    drawing = drawn(levels(graph), ends_of_edges, widths)
    margin = max(widths) / 2.0 + ACROSS / 2.0
    total, height = drawing.width + 2.0 * margin, drawing.height + 2.0 * HIGH
    at = {v: (x + margin, y + HIGH) for v, (x, y) in drawing.points.items()}
    parts = [_edge(graph, e, [(x + margin, y + HIGH) for x, y in way]) for e, way in enumerate(drawing.ways) if way]
    ends = dict.fromkeys(graph.roots, "root") | dict.fromkeys(graph.terminals, "terminal")
    parts += [_vertex(names[v], *place, widths[v], ends.get(v, "inner")) for v, place in at.items()]
    title = escape(printable(graph.name or "differentiation graph"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {total:.1f} {height:.1f}" font-family="Helvetica, Arial, sans-serif" font-size="13">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _edge(graph: DifferentiationGraph, e: int, points: list[tuple[float, float]]) -> str:
    """Return a line that leaves each point, and enters the next, upright; and its label."""
    x1, y1 = points[-1]
    way = curve(points, HIGH / 2.0, HIGH / 2.0 + 4.0)
    dashes = ' stroke-dasharray="4 3"' if graph.kinds[e] == Kind.ONE else ""
    end = y1 - HIGH / 2.0
    tip = f"{x1 - 3.5:.1f},{end - 7.0:.1f} {x1 + 3.5:.1f},{end - 7.0:.1f} {x1:.1f},{end:.1f}"
    line = f'<path d="{way}" fill="none" stroke="#7f8a95"{dashes}/><polygon points="{tip}" fill="#7f8a95"/>'
    label = graph.symbols[e] or (f"{graph.constants[e]:g}" if e in graph.constants else "")
    if not label:
        return line
    (x, y), (x1, y1) = points[:2]
    place = f'x="{(x + x1) / 2.0 + 3.0:.1f}" y="{(y + y1) / 2.0 + 4.0:.1f}"'
    return f'{line}<text {place} fill="#b3622d" font-size="12">{escape(_shown(label, 1))}</text>'


def _vertex(name: str, x: float, y: float, width: float, end: str) -> str:
    fill, line, ink = _FILLS[end]
    return (
        f'<rect x="{x - width / 2.0:.1f}" y="{y - HIGH / 2.0:.1f}" width="{width:.1f}" height="{HIGH}" rx="6" '
        f'fill="{fill}" stroke="{line}"/>'
        f'<text x="{x:.1f}" y="{y + 4.5:.1f}" text-anchor="middle" fill="{ink}">{escape(name)}</text>'
    )


def _shown(name: str, size: int) -> str:
    """Return a name as it is drawn: short, and with the size of a vector."""
    text = typeset(printable(name))
    text = text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
    return f"{text} ×{size}" if size > 1 else text
