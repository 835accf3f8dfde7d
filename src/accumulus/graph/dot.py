"""Pictures of graphs in Graphviz's language, roots on top and terminals at the bottom.

Roots are blue, terminals green, whatever lies between is light with dark text, and lines and labels have a tone that
stands out as much from white as from black: the picture, whose own background is transparent, suits light and dark
pages. Unit edges are dashed. Names such as v12 are set with subscripts. Line graphs are drawn by
`accumulus.theory.graphs.line`.

Run ``dot -Tsvg graph.dot`` for the picture itself. Text is quoted, so nothing in a name is taken for a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Final

from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.text import printable

__all__ = ["digraph", "to_dot", "typeset", "write_dot"]

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
    """The graph in Graphviz's language.

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
    """A directed graph in Graphviz's language.

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
    """The name, its numbers as subscripts if it is made of letters with a number each.

    >>> [typeset(name) for name in ("v12", "v-2", "e3e7 + e1", "x[0]", "log1p")]
    ['v₁₂', 'v₋₂', 'e₃e₇ + e₁', 'x[0]', 'log1p']
    """
    text = str(name)
    return text.translate(_LOWERED) if _INDEXED.fullmatch(text) else text


def _quoted(text: str) -> str:
    visible = printable(text.replace("\r", ""), keep="\n")
    escaped = visible.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
