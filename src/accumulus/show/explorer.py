"""The explorer: an HTML page that shows a plan step by step, in graph, line graph and expressions at once.

A page is self-contained: its script, its style, KaTeX and KaTeX's fonts are embedded from the package's files. A
Content-Security-Policy blocks all other scripts and all loading. The data of the page are computed here, from the
verified plan (`accumulus.show.frames`), and passed as JSON; the script draws them. Names are text everywhere: the JSON
has no `<`, the script creates elements and sets their text, and KaTeX receives escaped names.

Positions are computed here, too (`accumulus.graph.layered`). Edges that a plan makes are curves between existing
vertices. Vertices that it makes in the line graph are placed at their operands, or near them, so that vertices that are
alive at the same time do not overlap.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import inspect
import json
import linecache
import os
import re
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from itertools import chain, count
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, FileError
from accumulus.frontends.calls import Restructured
from accumulus.frontends.names import NamedValues, entry_name, named_values, recognised
from accumulus.graph.degrees import levels
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.graph.layered import DOWN, Drawing, Point, curve, drawn
from accumulus.graph.pictures import HIGH, WIDE, picture_of, to_dot, typeset
from accumulus.search.plan import BodyPlan, Plan
from accumulus.show import panels
from accumulus.show.frames import GROUPS, Frames
from accumulus.tape.tape import Tape
from accumulus.text import escaped, printable

if TYPE_CHECKING:
    from accumulus.frontends.recorder import Recording
    from accumulus.graph.linearize import Linearization

ASSETS: Final = Path(__file__).parent / "assets"
STYLES, SCRIPTS = ("katex.css", "theme.css", "explorer.css"), ("katex.min.js", "common.js", "explorer.js")
#: Maximum number of vertices of a graph that is drawn as a whole; a larger graph is shown as an overview, since
#: browsers become slow; a smaller number hides graphs that they could show.
LARGEST: Final = 2_500
#: Maximum number of steps of a plan whose expressions are written, and whose curves and places avoid overlaps. More
#: take long to write and make large pages, fewer leave pages without expressions.
LONGEST_WRITTEN: Final = 2_500
#: Number of characters of data from which on they are compressed. Smaller pages stay readable as text, larger ones take
#: less space on disk.
COMPRESSED: Final = 800_000
#: Maximum number of steps of a plan that is drawn as a whole: pages with more take long to load, and with fewer,
#: overviews replace plans that could be followed.
MOST_STEPS: Final = 20_000
#: Maximum number of labels of an expression that is written out at its use; a longer one has a name. More make formulas
#: long, fewer make readers look up names.
LONGEST: Final = 6
#: Maximum number of characters of a name in a picture.
SHOWN: Final = 18
#: Maximum depth to which a formula writes out operations that are not vertices: a greater one makes formulas long, a
#: smaller one makes readers look up names.
DEEP: Final = 3
#: Maximum number of steps for which operations are counted for one plan: each is emitted as a program of its own, and
#: with fewer, the curve of a page is coarser.
COUNTED: Final = 150
#: Methods that the plan is compared with, and the largest graph, in edges, for which they are planned. Larger graphs
#: take longer to plan, and make pages larger.
RIVALS, LARGEST_RACE = ("forward", "reverse", "markowitz"), 400
_SIGNS: Final = {
    "add": "+",
    "subtract": "−",
    "multiply": "×",
    "divide": "÷",
    "negative": "−",
    "power": "^",
    "sqrt": "√",
}


@dataclass(frozen=True, slots=True)
class Described:
    """Names that a user's source gives to the values of a tape.

    Attributes:
        names: names by reference.
        lines: file and line by reference.
        outputs: names of the roots by position.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    lines: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    outputs: Mapping[int, str] = field(default_factory=dict)


# The page ------------------------------------------------------------------------------------------------------------


def page(plan: Plan, described: Described | None = None, *, rivals: Sequence[Plan] = (), linked: bool = False) -> str:
    """Return the page of a plan.

    After the page's address, `#by=vertex&open=Levels` selects the initial groups of steps and the open tab.

    Args:
        plan: plan to show.
        described: names and lines of the user's source.
        rivals: other plans of the same graph, for comparison.
        linked: if True, scripts and styles are files beside the page, for several pages that share them.
    """
    data = _data(plan, described or Described(), rivals)
    return html_page(plan.graph.name or "graph", data, linked=linked)


def loops_page(name: str, recording: Recording, parameters: Sequence[str], body_plans: Sequence[BodyPlan] = ()) -> str:
    """Return the page of a function that runs as loops, with its bodies as vertices, and a plan for each body."""
    program = recording.program
    described = zip(parameters, recording.argument_shapes, recording.argument_slices, strict=False)
    arguments = [(text, where) for text, shape, where in described if shape is not None]
    outer, plans = panels.loops(program, arguments, [name], body_plans)
    bodies = [_data(plan, Described(), ()) for plan in plans]
    return html_page(name, {"title": printable(name), "outer": outer, "bodies": bodies})


def html_page(
    title: str,
    data: Any,
    *,
    linked: bool = False,
    files: tuple[Sequence[str], Sequence[str]] = (STYLES, SCRIPTS),
    instead: str = "This page draws with a script; allow it.",
) -> str:
    """Return a page with embedded data.

    Args:
        title: title of the page.
        data: data for the script.
        linked: if True, scripts and styles are files beside the page.
        files: names of styles and scripts among the assets.
        instead: text that is shown where scripts are not allowed.
    """
    if linked:
        allowed = ["'self'", "'self'"]
        styles = [f'<link rel="stylesheet" href="{name}">' for name in files[0]]
        scripts = [f'<script src="{name}"></script>' for name in files[1]]
    else:
        allowed = [_hashes(map(_asset, names)) for names in reversed(files)]
        styles = [f"<style>{_asset(name)}</style>" for name in files[0]]
        scripts = [f"<script>{_asset(name)}</script>" for name in files[1]]
    policy = (
        f"default-src 'none'; script-src {allowed[0]}; style-src {allowed[1]}; font-src data:; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    text = embedded(data)
    if len(text) > COMPRESSED:
        packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
        block = f'<script type="application/gzip" id="data">{packed}</script>'
    else:
        block = f'<script type="application/json" id="data">{text}</script>'
    head = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escaped(title)} – accumulus</title>",
        *styles,
        f'</head><body><main id="{Path(files[1][-1]).stem}"><noscript><pre>{escaped(instead)}</pre></noscript></main>',
        block,
        *scripts,
        "</body></html>",
    ]
    return "\n".join(head) + "\n"


def embedded(data: Any) -> str:
    r"""Return data as JSON that is safe within a script element.

    >>> print(embedded(["</script><b>"]))
    ["\u003c/script\u003e\u003cb\u003e"]
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _hashes(texts: Iterable[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


# Shown data ----------------------------------------------------------------------------------------------------------


def _data(plan: Plan, described: Described, rivals: Sequence[Plan]) -> dict[str, Any]:
    graph = plan.graph
    if is_large(plan):
        return panels.overview(plan, [_sign(graph, str(name)) for name in graph.vertices])
    writer = _Writer(graph, described)
    drawing = drawn(levels(graph), _pairs(graph), writer.widths)
    at = {v: (round(x), round(y)) for v, (x, y) in drawing.points.items()}
    kinds = dict.fromkeys(graph.roots, "r") | dict.fromkeys(graph.terminals, "t")
    vertices = [
        {
            "n": writer.shown[v],
            "o": writer.signs[v],
            "a": writer.names[v],
            "f": writer.formula(v),
            "s": writer.source(v),
            "k": kinds.get(v, ""),
            "x": at.get(v, (None, None))[0],
            "y": at.get(v, (None, None))[1],
            "w": round(writer.widths[v]),
        }
        for v in range(len(graph.vertices))
    ]
    return {
        "title": printable(graph.name) or "graph", "vertices": vertices,
        "size": [round(drawing.width), round(drawing.height)],
        "roots": list(graph.roots), "terminals": list(graph.terminals),
        "labels": [writer.label(e) for e in range(len(graph.sources))],
        "blocks": panels.blocks(graph), "levels": panels.matrices_between_levels(graph),
        "order": panels.dependencies(plan),
        "plans": [_plan_data(each, writer, drawing, rival=each is not plan) for each in (plan, *rivals)],
    }  # fmt: skip


def is_large(plan: Plan) -> bool:
    """Return True if a plan is so large that an overview is shown instead."""
    return len(plan.graph.vertices) > LARGEST or len(plan.accumulation.steps) > MOST_STEPS


def _pairs(graph: DifferentiationGraph) -> list[tuple[int, int]]:
    return list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))


def _plan_data(plan: Plan, writer: _Writer, drawing: Drawing, *, rival: bool = False) -> dict[str, Any]:
    """Return the data of a plan; a rival's have neither line graph nor expressions."""
    frames = Frames(plan, line_graph=not rival)
    is_short = frames.steps <= LONGEST_WRITTEN
    texts = Texts(frames, writer.edges, writer.edges_latex)
    groups: dict[str, list[int]] = {}
    for kind in GROUPS[:1] if rival else GROUPS:
        ends = frames.groups(kind)
        fewest = min(map(len, groups.values()), default=frames.steps + 1)
        # keep only kinds of groups that divide the steps more coarsely than the smaller kinds
        if kind == "face" or 1 < len(ends) < (fewest if kind != "page" else len(groups["face"])):
            groups[kind] = ends
    steps = zip(frames.products, frames.left, frames.right, frames.changes, frames.middles, strict=True)
    counted = sorted({0, frames.steps, *_spread(groups["face"], COUNTED // 4 if rival else COUNTED)})
    return {
        "method": plan.method, "objective": str(plan.objective),
        "costs": {str(objective): cost for objective, cost in plan.costs.items()},
        "bound": plan.lower_bound, "optimal": plan.is_optimal,
        "edges": frames.edges, "ends": _flat(frames.ends), "kinds": frames.kinds, "text": texts.short,
        "ways": _ways(frames, drawing, apart=is_short),
        "line": _line_places(frames, texts.short, writer.shown, apart=is_short),
        "alive": frames.alive, "faces": None if frames.faces is None else _flat(frames.faces),
        "steps": [
            [int(product), left, right, _flat(change.removed_faces), _flat(change.added_faces),
             change.removed_values, change.removed_vertices, middle]
            for product, left, right, change, middle in steps
        ],
        "fma": frames.fma, "mul": frames.multiplications, "ops": [counted, frames.operations(counted)],
        "groups": groups,
        "entries": [[row, column, value] for (row, column), value in plan.accumulation.entries.items()],
        "lines": [] if rival or not is_short else texts.lines(plan, writer.latex),
    }  # fmt: skip


def _flat(pairs: Iterable[tuple[int, int]]) -> list[int]:
    return [v for pair in pairs for v in pair]


def _spread(ends: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of the numbers, evenly spaced."""
    return [ends[k * len(ends) // most] for k in range(most)] if len(ends) > most else list(ends)


# Places --------------------------------------------------------------------------------------------------------------


def _ways(frames: Frames, drawing: Drawing, *, apart: bool) -> list[str]:
    """Return the curve of each value in the picture of the graph; values that are alive at once have distinct curves.

    Args:
        frames: steps of the plan.
        drawing: positions of the vertices.
        apart: if True, curves that steps make avoid vertices and each other; else the page draws them.
    """
    half = HIGH / 2.0
    points = np.array(list(drawing.points.values())).reshape(-1, 2)
    curves: list[str] = []
    lanes: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    taken: dict[tuple[int, int], int] = {}
    for v, (j, i) in enumerate(frames.ends):
        if j not in drawing.points or i not in drawing.points or not (apart or v < frames.edges):
            curves.append("")
            continue
        busy = lanes.setdefault((j, i), [])
        lane = next(n for n in range(len(busy) + 1) if all(n != m or g <= frames.born[v] for m, _, g in busy))
        busy.append((lane, frames.born[v], frames.gone[v]))
        first = taken.setdefault((j, i), v) if lane == 0 else -1
        if v < frames.edges and lane == 0:
            curves.append(curve(drawing.ways[v], half, half))
        elif lane == 0 and first < v and first >= 0:
            curves.append(curves[first])
        else:
            curves.append(_arc(points, drawing.points[j], drawing.points[i], lane))
    return curves


#: Sideways bends of curves, the smallest first.
_BENDS: Final = np.array([(k + 1) // 2 * 26.0 * (1 if k % 2 else -1) for k in range(11)])


def _arc(points: NDArray[np.float64], start: Point, end: Point, lane: int) -> str:
    """Return a curve from one vertex to another that avoids the vertices between them.

    Args:
        points: positions of all vertices, (n, 2).
        start: position of the first vertex.
        end: position of the last vertex.
        lane: number of other curves between the two.
    """
    (x, y), (x1, y1) = start, end
    a, b = points[(y < points[:, 1]) & (points[:, 1] < y1)].T
    t = (b - y) / (y1 - y)
    at = x + (x1 - x) * t + 4.0 * t * (1.0 - t) * _BENDS[:, np.newaxis]
    hits = (np.abs(at - a) < 26.0).sum(axis=1)
    best = float(_BENDS[np.argmin(100.0 * hits + np.abs(_BENDS))])
    reach = (best + (lane + 1) // 2 * 14.0 * (1 if lane % 2 else -1)) * 4.0 / 3.0
    top, low = y + HIGH / 2.0, y1 - HIGH / 2.0
    third = (low - top) * 0.3
    # vertical between neighbouring levels
    inward = (x1 - x) / 3.0 if y1 - y > 1.5 * DOWN else 0.0
    left, right = x + inward + reach, x1 - inward + reach
    return f"M{x:.0f} {top:.0f}C{left:.0f} {top + third:.0f} {right:.0f} {low - third:.0f} {x1:.0f} {low:.0f}"


def _line_places(
    frames: Frames, texts: Sequence[str], shown_names: Sequence[str], *, apart: bool
) -> list[list[int]] | None:
    """Return the position and width of each value in the picture of the line graph; roots and terminals come last."""
    if frames.faces is None:
        return None
    graph, edges = frames.graph, frames.edges
    ends = (*graph.roots, *graph.terminals)
    names = [*texts, *(shown_names[v] for v in ends)]
    widths = [max(24.0, WIDE * len(name) + 10.0) for name in names]
    depth = levels(graph)
    last = 2 + max(depth, default=0)
    alive = set(frames.alive)
    level = [depth[j] + 1 if e in alive else -1 for e, (j, _) in enumerate(frames.ends[:edges])]
    level += [0] * len(graph.roots) + [last] * len(graph.terminals)
    shift = frames.values - edges
    pairs = [(i if i < edges else i - shift, j if j < edges else j - shift) for i, j in frames.faces]
    first = drawn(level, pairs, [*widths[:edges], *widths[frames.values :]])
    places: dict[int, tuple[float, float]] = {}
    grid = _Grid()
    for number, point in first.points.items():
        v = number if number < edges else number + shift
        places[v] = point
        born, gone = (frames.born[v], frames.gone[v]) if v < frames.values else (0, frames.steps + 2)
        grid.put(point, widths[v], born, gone)
    for k in range(frames.steps):
        v = edges + k
        left, right = (places.get(u, (0.0, 0.0)) for u in (frames.left[k], frames.right[k]))
        middle = (left[0] + right[0]) / 2.0, (left[1] + right[1]) / 2.0
        candidates = (middle, left, right) if frames.products[k] else (left, right, middle)
        places[v] = grid.free(candidates, widths[v], frames.born[v], frames.gone[v]) if apart else candidates[0]
    return [[*map(round, places.get(v, (0.0, 0.0))), round(widths[v])] for v in range(len(names))]


#: Offsets from a place to those around it, the shortest first.
_NEAR: Final = sorted(
    ((20.0 * a, 14.0 * b) for a in range(-9, 10) for b in range(-9, 10)),
    key=lambda way: abs(way[0]) + 1.5 * abs(way[1]),
)


class _Grid:
    """Boxes that exist for a time, and free places between them."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], list[tuple[float, float, float, int, int]]] = {}

    def _around(self, x: float, y: float) -> list[tuple[int, int]]:
        column, row = int(x // 160.0), int(y // 60.0)
        return [(column + a, row + b) for a in (-1, 0, 1) for b in (-1, 0, 1)]

    def put(self, point: tuple[float, float], width: float, born: int, gone: int) -> None:
        """Put a box at a point."""
        x, y = point
        self._cells.setdefault((int(x // 160.0), int(y // 60.0)), []).append((x, y, width, born, gone))

    def _is_free(self, x: float, y: float, width: float, born: int, gone: int) -> bool:
        return not any(
            abs(x - a) < (width + w) / 2.0 + 6.0 and abs(y - b) < HIGH + 5.0 and born < g and s < gone
            for cell in self._around(x, y)
            for a, b, w, s, g in self._cells.get(cell, ())
        )

    def free(
        self, candidates: Sequence[tuple[float, float]], width: float, born: int, gone: int
    ) -> tuple[float, float]:
        """Put a box at the first free candidate, or near the first one; return the point."""
        (x0, y0), *_ = candidates
        near = ((x0 + a, y0 + b) for a, b in _NEAR)
        point = next(
            (each for each in chain(candidates, near) if self._is_free(*each, width, born, gone)), candidates[0]
        )
        self.put(point, width, born, gone)
        return point


# Words and formulas --------------------------------------------------------------------------------------------------


def shortened(text: str, longest: int = SHOWN) -> str:
    """Return printable text, shortened for a picture."""
    text = printable(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


class _Writer:
    """Names of vertices and edges, as text and in LaTeX; formulas of the tape that a graph comes from."""

    def __init__(self, graph: DifferentiationGraph, described: Described) -> None:
        # imported by name, since the theory package depends on this one
        expression = import_module("accumulus.theory.algebra.expression")
        self.graph, self._described, self._latex_name = graph, described, expression.latex_name
        self._reference = [_reference(graph, str(name)) for name in graph.vertices]
        self.names = [self._name(v) for v in range(len(graph.vertices))]
        self.shown = [typeset(shortened(name)) for name in self.names]
        self.signs = [_sign(graph, str(name)) for name in graph.vertices]
        for v, size in enumerate(graph.sizes.tolist()):
            self.shown[v] += f" ×{size}" if size > 1 else ""
        self.widths = [
            max(28.0, WIDE * (len(name) + (len(sign) + 1 if sign else 0)) + 14.0)
            for name, sign in zip(self.shown, self.signs, strict=True)
        ]
        self.latex: list[str] = [self._latex_name(name) for name in self.names]
        self._edge_names = expression.edge_names(graph)
        self.edges = [self._edge(e, name) for e, name in enumerate(self._edge_names)]
        self.edges_latex = [self._edge_latex(e, name) for e, name in enumerate(self._edge_names)]
        self._vertex_of = {r: v for v, r in enumerate(self._reference) if r is not None and v not in graph.roots}

    def _name(self, v: int) -> str:
        graph, reference = self.graph, self._reference[v]
        label = str(graph.vertices[v])
        if v in graph.roots and (name := self._described.outputs.get(graph.roots.index(v))):
            return name
        if reference is None or label[0] not in "xv":
            return label
        return self._described.names.get(reference, label)

    def source(self, v: int) -> str:
        """Return the line of the user's source that made a vertex."""
        file, line = self._described.lines.get(self._reference[v] or -1, ("", 0))
        if not file:
            return ""
        text = linecache.getline(file, line).strip()
        return printable(f"{os.path.basename(file)}:{line}  {text}" if text else f"{os.path.basename(file)}:{line}")

    def formula(self, v: int) -> str:
        """Return the definition of a vertex in LaTeX, or an empty string."""
        tape, reference = self.graph.tape, self._reference[v]
        prefix = str(self.graph.vertices[v])[:1]
        if tape is None or reference is None or reference < tape.inputs or prefix != "v":
            return ""
        return f"{self.latex[v]} = {self._operation(tape, reference, DEEP)}"

    def label(self, e: int) -> list[str]:
        """Return name, derivative and its value for an edge, in LaTeX."""
        graph = self.graph
        j, i = int(graph.sources[e]), int(graph.targets[e])
        derivative = rf"\frac{{\partial {self.latex[j]}}}{{\partial {self.latex[i]}}}"
        value = ""
        if graph.tape is not None:
            value = self._written(graph.tape, graph.labels[e], DEEP)
        elif e in graph.constants:
            value = _number(graph.constants[e])
        return [str(self._latex_name(self._edge_names[e])), derivative, value]

    def _edge(self, e: int, name: str) -> str:
        return f"{self.graph.constants[e]:g}".replace("-", "−") if e in self.graph.constants else name

    def _edge_latex(self, e: int, name: str) -> str:
        return _number(self.graph.constants[e]) if e in self.graph.constants else str(self._latex_name(name))

    def _written(self, tape: Tape, reference: int, deep: int) -> str:
        if reference < 0:
            return _number(tape.value_of(reference))
        if reference in self._vertex_of:
            return self.latex[self._vertex_of[reference]]
        if reference < tape.inputs:
            return str(self._latex_name(self._described.names.get(reference, f"x{reference}")))
        return self._operation(tape, reference, deep) if deep else r"\cdots"

    def _operation(self, tape: Tape, reference: int, deep: int) -> str:
        row = tape.operation(reference)
        arguments = [self._written(tape, a, deep - 1) for a in tape.arguments(reference)]
        if "{0}" not in row.latex:
            return rf"{row.latex}\left({', '.join(arguments)}\right)"
        pairs = zip(tape.arguments(reference), arguments, strict=True)
        bracketed = [rf"\left({text}\right)" if self._is_loose(tape, a, row.name) else text for a, text in pairs]
        return str(row.latex.format(*bracketed))

    def _is_loose(self, tape: Tape, reference: int, within: str) -> bool:
        """Return True if an argument needs brackets within an operation."""
        if within not in ("multiply", "power", "negative", "subtract"):
            return False
        if reference < 0:
            return tape.value_of(reference) < 0.0
        if reference < tape.inputs or reference in self._vertex_of:
            return False
        name = tape.operation(reference).name
        return name in ("add", "subtract", "negative") or (
            within == "power" and name in ("multiply", "divide", "power")
        )


def _number(value: float) -> str:
    text = f"{value:.6g}"
    if "e" in text:
        digits, power = text.split("e")
        return rf"{digits} \cdot 10^{{{int(power)}}}"
    return text.replace("inf", r"\infty").replace("nan", r"\mathrm{nan}")


def _sign(graph: DifferentiationGraph, name: str) -> str:
    """Return the sign of a traced vertex's operation, with a star for its adjoint; empty for other vertices."""
    tape, reference = graph.tape, _reference(graph, name)
    if tape is None or reference is None or reference < tape.inputs or name[0] not in "va":
        return ""
    operation = tape.operation(reference).name
    return _SIGNS.get(operation, operation) + "*" * (name[0] == "a")


def _reference(graph: DifferentiationGraph, name: str) -> int | None:
    """Return the operation of a vertex of a traced function, or of an adjoint; None for other vertices."""
    match = re.fullmatch(r"[xvyga](\d+)", name)
    if graph.tape is None or match is None:
        return None
    return int(match[1]) if int(match[1]) < len(graph.tape) else None


class Texts:
    """Every value of a plan as text: short for pictures, and in LaTeX, with marks to find its parts.

    A value that is used more than once, or is long, has a name, s1, s2, …; a product with ±1 is written as the other
    factor.
    """

    def __init__(self, frames: Frames, names: Sequence[str], latex: Sequence[str]) -> None:
        self._frames = frames
        uses = [0] * frames.values
        for operand in (*frames.left, *frames.right, *frames.plan.accumulation.entries.values()):
            uses[operand] += 1
        self._terms = [
            _Term(name, text, unsigned=text[1:] if text.startswith("-") else "").marked(v)
            for v, (name, text) in enumerate(zip(names, latex, strict=True))
        ]
        self._defined: dict[int, str] = {}
        taken, number = set(names), 0
        for v in range(frames.edges, frames.values):
            term, is_new = self._made(v)
            if is_new and (uses[v] > 1 or term.leaves > LONGEST):
                number = next(n for n in count(number + 1) if f"s{n}" not in taken)
                self._defined[v] = term.latex
                term = _Term(f"s{number}", f"s_{{{number}}}")
            self._terms.append(term.marked(v))
        self.short: list[str] = [panels.lowered(shortened(term.text)) for term in self._terms]

    def _made(self, v: int) -> tuple[_Term, bool]:
        """Return the term for the result of a step, and True if it differs from both operands."""
        frames, k = self._frames, v - self._frames.edges
        left, right = (self._terms[operand] for operand in (frames.left[k], frames.right[k]))
        if not frames.products[k]:
            return left.plus(right), True
        for operand, other in ((frames.left[k], right), (frames.right[k], left)):
            if frames.kinds[operand] == Kind.ONE:
                return other, False
            if frames.kinds[operand] == Kind.MINUS_ONE:
                return other.negative(), not other.is_negative and other.is_sum
        return left.times(right), True

    def lines(self, plan: Plan, vertices: Sequence[str]) -> list[list[Any]]:
        """Return a row for each named value and each entry of the Jacobian: its number, and its formula."""
        rows: list[list[Any]] = [[v, f"{self._terms[v].latex} = {written}"] for v, written in self._defined.items()]
        for (row, column), value in plan.accumulation.entries.items():
            over, under = vertices[plan.graph.roots[row]], vertices[plan.graph.terminals[column]]
            rows.append(
                [value, rf"\frac{{\partial {over}}}{{\partial {under}}} = {self._terms[value].latex}", row, column]
            )
        return rows


@dataclass(frozen=True, slots=True)
class _Term:
    """An expression as text and in LaTeX."""

    text: str
    latex: str
    leaves: int = 1
    is_sum: bool = False
    #: LaTeX without the leading sign; empty if there is none.
    unsigned: str = ""

    @property
    def is_negative(self) -> bool:
        return self.text.startswith("−")

    def marked(self, value: int) -> _Term:
        """Return the term with a mark that lets the page find it."""
        unsigned = self.unsigned and _marked(value, self.unsigned)
        return replace(self, latex=_marked(value, self.latex), unsigned=unsigned)

    def bracketed(self) -> _Term:
        return replace(self, text=f"({self.text})", latex=rf"\left({self.latex}\right)", is_sum=False, unsigned="")

    def times(self, other: _Term) -> _Term:
        """Return a product; a dot separates numbers, a space letters, which would otherwise read as one name."""
        left = self.bracketed() if self.is_sum else self
        right = other.bracketed() if other.is_sum or other.is_negative else other
        dot = not all(term.text[:1].isalpha() or term.text.startswith("(") for term in (left, right))
        latex, unsigned = (
            (r" \cdot " if dot else r"\,").join((first, right.latex)) for first in (left.latex, left.unsigned)
        )
        letters = left.text[-1:].isalpha() and right.text[:1].isalpha()
        text = f"{left.text}{'·' if dot else chr(0x202F) if letters else ''}{right.text}"
        return _Term(text, latex, self.leaves + other.leaves, unsigned=left.unsigned and unsigned)

    def plus(self, other: _Term) -> _Term:
        """Return a sum."""
        leaves = self.leaves + other.leaves
        if other.unsigned:
            text, latex = f"{self.text} − {other.text[1:]}", f"{self.latex} - {other.unsigned}"
            return _Term(text, latex, leaves, is_sum=True)
        right = other.bracketed() if other.is_negative else other
        return _Term(f"{self.text} + {right.text}", f"{self.latex} + {right.latex}", leaves, is_sum=True)

    def negative(self) -> _Term:
        """Return the term with the opposite sign."""
        if self.is_negative and self.unsigned and not self.is_sum:
            return _Term(self.text[1:], self.unsigned, self.leaves)
        inner = self.bracketed() if self.is_sum or self.is_negative else self
        return _Term(f"−{inner.text}", f"-{inner.latex}", self.leaves, unsigned=inner.latex)


def _marked(value: int, latex: str) -> str:
    return rf"\htmlData{{v={value}}}{{{latex}}}"


# Shown ---------------------------------------------------------------------------------------------------------------


class Inline:
    """A page within a notebook, in a separate frame, so that scripts and styles of page and notebook do not mix."""

    def __init__(self, html: str, height: int = 760) -> None:
        self.html, self.height = html, height

    def _repr_html_(self) -> str:
        from html import escape

        return (
            f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: {self.height}px; border: 0" '
            'sandbox="allow-scripts" title="accumulus explorer"></iframe>'
        )


def shown(html: str, path: str | PathLike[str] | None) -> Path | Inline:
    """Write a page to a file, or open it: inline in a notebook, else in a browser.

    Returns:
        The file; in a notebook without a path, the displayed page.

    Raises:
        ArgumentError: if the file cannot be written; the message names another file with the page.
    """
    if path is not None:
        return written(html, path)
    if _in_notebook():
        return Inline(html)
    file = _temporary(html)
    if not _opened(file):
        print(f"accumulus: no browser can be opened here; the page is {file}", file=sys.stderr)
    return file


#: Writers of pictures by file extension.
PICTURES: Final[dict[str, Callable[[DifferentiationGraph, Sequence[str] | None], str | bytes]]] = {
    ".svg": lambda graph, names: picture_of(graph, names).svg(),
    ".tex": lambda graph, names: picture_of(graph, names).tikz(),
    ".dot": lambda graph, _: to_dot(graph) + "\n",
    ".pdf": lambda graph, names: _drawn(graph, names, ".pdf"),
    ".png": lambda graph, names: _drawn(graph, names, ".png"),
}


def _drawn(graph: DifferentiationGraph, names: Sequence[str] | None, extension: str) -> bytes:
    # imported by name, since plots depend on this module
    content: bytes = import_module("accumulus.show.plots").drawn_as(picture_of(graph, names), extension)
    return content


def written(content: str | bytes, path: str | PathLike[str]) -> Path:
    """Write a page or a picture to a file.

    Raises:
        ArgumentError: if it cannot be written.
    """
    try:
        file = Path(path)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    except (OSError, TypeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        kind = ".html" if isinstance(content, str) and content.startswith("<!DOCTYPE html>") else Path(str(path)).suffix
        raise ArgumentError(
            f"path is {str(path)!r}, which cannot be written: {reason}. The {'page' if kind == '.html' else 'picture'} "
            f"was written to {_temporary(content, kind)}"
        ) from None
    return file


def _temporary(content: str | bytes, kind: str = ".html") -> Path:
    handle, name = tempfile.mkstemp(prefix="accumulus-", suffix=kind)
    with os.fdopen(handle, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return Path(name)


def _in_notebook() -> bool:
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return getattr(shell, "kernel", None) is not None


def _opened(file: Path) -> bool:
    """Open a file in a graphical browser; return False if there is none."""
    has_display = sys.platform in ("darwin", "win32") or bool({"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} & {*os.environ})
    try:
        return has_display and webbrowser.open(file.as_uri())
    except (webbrowser.Error, OSError):
        return False


def show_plan(plan: Plan, path: str | PathLike[str] | None = None, described: Described | None = None) -> Path | Inline:
    """Show a plan beside those of simple methods; for the extension of a picture, write a picture of its graph."""
    if isinstance(path, (str, PathLike)) and (end := Path(path).suffix.lower()) in PICTURES:
        names = None if described is None else _Writer(plan.graph, described).names
        return written(PICTURES[end](plan.graph, names), path)
    return shown(page(plan, described, rivals=rivals_of(plan)), path)


def show_graph(graph: DifferentiationGraph, path: str | PathLike[str] | None = None) -> Path | Inline:
    """Show a graph, with the plan that is found for it by default."""
    from accumulus.search.find import plan

    return show_plan(plan(graph), path)


def show_program(program: Any, function: Callable[..., Any], path: str | PathLike[str] | None = None) -> Path | Inline:
    """Show how a compiled program accumulates its derivatives, with the names in its function.

    Raises:
        ArgumentError: if the file cannot be written.
    """
    shapes, parameters = program.recording.argument_shapes, parameters_of(program, function)
    plan = program.facts.plan
    if program.facts.found is not None:
        raise FileError(f"the file of {program.name} has programs, but no plan to show; show it before it is saved")
    if plan is None and isinstance(path, (str, PathLike)) and Path(path).suffix.lower() in PICTURES:
        raise ArgumentError(f"path is {str(path)!r}, but {program.name} runs as loops; expected a page, .html")
    if plan is None:
        return shown(loops_page(program.name, program.recording, parameters, program.facts.bodies), path)
    if is_large(plan):
        return show_plan(plan, path)
    names = None
    # only shapes of arguments are known; names are optional, so their errors are ignored
    with suppress(Exception):
        names = named_values(function, [np.ones(shape)[()] for shape in shapes])
    described = described_as(program.name, program.recording, program.facts.linearization, parameters, names)
    return show_plan(plan, path, described)


def parameters_of(program: Any, function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments of a program's function."""
    shapes = program.recording.argument_shapes
    declared: list[str] = []
    with suppress(TypeError, ValueError):  # functions without a signature
        declared = list(
            function.names if isinstance(function, Restructured) else inspect.signature(function).parameters
        )
    return [declared[k] if k < len(declared) else f"x{k}" for k in range(len(shapes))]


def described_as(
    name: str,
    recording: Recording,
    linearization: Linearization,
    parameters: Sequence[str],
    names: NamedValues | None,
) -> Described:
    """Return the user's names and lines for the values on the tape of a graph.

    Args:
        name: name of the function.
        recording: recording of the function.
        linearization: linearization with the graph.
        parameters: names of the arguments.
        names: names of the function's values.
    """
    tape = linearization.tape
    value_names: dict[int, str] = {}
    lines: dict[int, tuple[str, int]] = {}
    if names is not None and names.tape.inputs <= tape.inputs:
        for reference, original in recognised(tape, names).items():
            if original in names.names:
                value_names[reference] = names.names[original]
            if original in names.lines:
                lines[reference] = names.lines[original]
    shapes = (
        (name, shape) for name, shape in zip(parameters, recording.argument_shapes, strict=False) if shape is not None
    )
    entries = (entry_name(name, index) for name, shape in shapes for index in np.ndindex(*shape))
    value_names.update(zip(range(tape.inputs), entries, strict=False))
    outputs: dict[int, str] = {}
    for k, root in enumerate(linearization.rows[: recording.results]):
        if root >= 0:
            outputs.setdefault(root, f"{name}{recording.entry_name(k)}")
    return Described(value_names, lines, outputs)


def rivals_of(plan: Plan) -> list[Plan]:
    """Return plans of other simple methods for the same graph; none for a large graph."""
    from accumulus.search.find import plan as find

    if len(plan.graph.sources) > LARGEST_RACE:
        return []
    return [find(plan.graph, method=method) for method in RIVALS if method != plan.method]
