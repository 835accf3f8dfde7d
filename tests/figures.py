"""The figures of the notes as graphs, from tests/data/figures.json.

Names and labels are written without TeX: v_{10} is "v10", e_{10} is "e10", e_3e_7 is "e3e7". A vertex has the
name that is drawn beside it, if only one has, else the id that it has in the drawing.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from accumulus import DifferentiationGraph, Kind
from accumulus.theory.graphs.line import LineGraph

DATA = Path(__file__).parent / "data" / "figures.json"

#: Figures that show line graphs, by part.
LINE_GRAPHS = (
    ("fig:biclique", "b"),
    *(("fig:chain-block-elimination", part) for part in "abcdef"),
    ("fig:multi-root-terminal-graph", "b"),
    ("fig:line-graph-eg", "a"),
)


def plain(text: str) -> str:
    """Text without TeX's subscripts."""
    return text.replace("_", "").replace("{", "").replace("}", "")


@cache
def _parts() -> dict[tuple[str, str], dict[str, Any]]:
    figures = json.loads(DATA.read_text(encoding="utf-8"))["figures"]
    return {(figure["figure"], part["part"]): part for figure in figures for part in figure["parts"]}


def parts() -> list[tuple[str, str]]:
    """All figures and their parts."""
    return list(_parts())


def names(figure_name: str, part: str = "a") -> dict[str, str]:
    """Names of the vertices by their ids in the drawing."""
    vertices = {k: plain(name) for k, name in _parts()[figure_name, part]["vertices"].items()}
    times = Counter(vertices.values())
    return {k: name if times[name] == 1 else k for k, name in vertices.items()}


def edges(figure_name: str, part: str = "a") -> list[tuple[str, str, Any]]:
    """Edges by the names of their ends, with their labels."""
    name = names(figure_name, part)
    drawn = _parts()[figure_name, part]["edges"]
    return [(name[j], name[i], _label(label)) for j, i, label in drawn]


def figure(figure_name: str, part: str = "a") -> DifferentiationGraph:
    """A figure that shows a differentiation graph; labels are symbols, the label 1 a unit edge."""
    return DifferentiationGraph(edges(figure_name, part), name=f"{figure_name} ({part})")


def degrees(figure_name: str, part: str = "a") -> dict[str, tuple[int, int]]:
    """The pairs of degrees that the drawing shows, by name."""
    name = names(figure_name, part)
    return {name[k]: (a, b) for k, (a, b) in _parts()[figure_name, part]["degrees"].items()}


def _label(label: str | None) -> Any:
    return None if label is None else Kind.ONE if label == "1" else plain(label)


def isomorphic(first: DifferentiationGraph, second: DifferentiationGraph, *, fixed: bool = False) -> bool:
    """Return True if two graphs are equal up to names of intermediates, including labels and kinds.

    Roots and terminals correspond in their order if `fixed`, else in any.
    """
    if len(first.vertices) != len(second.vertices) or len(first.sources) != len(second.sources):
        return False
    colours = [_refined(graph, fixed) for graph in (first, second)]
    if Counter(colours[0]) != Counter(colours[1]):
        return False
    order = sorted(range(len(first.vertices)), key=lambda v: (Counter(colours[0])[colours[0][v]], v))
    arcs = [_arcs(graph) for graph in (first, second)]

    def extended(position: int, match: dict[int, int]) -> bool:
        if position == len(order):
            return True
        v = order[position]
        for w in range(len(second.vertices)):
            if w in match.values() or colours[0][v] != colours[1][w]:
                continue
            match[v] = w
            if all(
                arcs[0].get((a, b)) == arcs[1].get((match[a], match[b])) for u in match for a, b in ((u, v), (v, u))
            ) and extended(position + 1, match):
                return True
            del match[v]
        return False

    return extended(0, {})


def _arcs(graph: DifferentiationGraph) -> dict[tuple[int, int], list[Any]]:
    results: dict[tuple[int, int], list[Any]] = {}
    for e, ends in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        results.setdefault(ends, []).append((int(graph.kinds[e]), graph.symbols[e] or "", graph.constants.get(e, 0.0)))
    return {ends: sorted(labels) for ends, labels in results.items()}


def _refined(graph: DifferentiationGraph, fixed: bool) -> list[int]:
    """Colours of the vertices that tell apart what their surroundings tell apart."""
    roots = {v: k if fixed else 0 for k, v in enumerate(graph.roots)}
    terminals = {v: k if fixed else 0 for k, v in enumerate(graph.terminals)}
    colours = [hash((roots.get(v, -1), terminals.get(v, -1))) for v in range(len(graph.vertices))]
    arcs = [(a, b, tuple(labels)) for (a, b), labels in _arcs(graph).items()]
    for _ in range(8):
        near: list[list[Any]] = [[] for _ in colours]
        for a, b, labels in arcs:
            near[a].append((0, labels, colours[b]))
            near[b].append((1, labels, colours[a]))
        colours = [hash((colours[v], tuple(sorted(near[v])))) for v in range(len(colours))]
    return colours


#: Vertices that a drawing calls by another name in its edges: a slip of fig:chain-block-elimination (e).
MISNAMED = {("fig:chain-block-elimination", "e"): {"e3e7": "e3e7e11"}}


def line_figure(figure_name: str, part: str = "a") -> LineGraph:
    """A figure that shows a line graph: vertices y* and x* are those added for roots and terminals, in their order.

    Names are labels of edges; a split edge gives its label to two vertices.
    """
    drawn = _parts()[figure_name, part]
    added = {mark: [k for k in drawn["vertices"] if k[0] == mark] for mark in "yx"}
    order = [k for k in drawn["vertices"] if k[0] not in "yx"] + added["y"] + added["x"]
    number = {k: position for position, k in enumerate(order)}
    number |= {k: number[meant] for k, meant in MISNAMED.get((figure_name, part), {}).items()}
    faces = [(number[j], number[i]) for j, i, _ in drawn["edges"]]
    return LineGraph([plain(drawn["vertices"][k]) for k in order], faces, len(added["y"]), len(added["x"]))
