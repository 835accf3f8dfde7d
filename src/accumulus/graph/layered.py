"""Layered drawings: positions of vertices and routes of edges, roots on top.

After Sugiyama, Tagawa and Toda (Methods for Visual Understanding of Hierarchical System Structures, 1981): an edge over
several levels has a bend on each between; vertices and bends of a level are ordered by the mean of their neighbours,
level by level down and up, then swapped where that leaves fewer crossings. Across, each level is the least-squares
solution nearest to its neighbours that keeps the order and the distances: isotonic regression, by pooling adjacent
violators.

Time: linear in vertices and bends for each of a fixed number of sweeps; the swaps, which look at pairs of edges, are
for drawings of at most `LARGEST_SWAPPED` vertices and bends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

#: Sweeps of ordering and of placing, down and up.
TURNS: Final = 8
#: Vertices and bends of a drawing whose neighbours on a level are swapped one by one.
LARGEST_SWAPPED: Final = 600
#: Bends of a drawing, at most; beyond, edges run straight over the levels between.
MOST_BENDS: Final = 8_000
#: Distances between levels and between neighbours, width of a bend, in pixels.
DOWN, ACROSS, BEND = 58.0, 18.0, 6.0
#: How much straighter bends are than vertices.
_STRAIGHT: Final = 4.0

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A layered drawing.

    Attributes:
        points: of the vertices by number; those on no level are left out.
        ways: of the edges by number: the points from the source's to the target's, or none.
        width, height: of the whole, margins left out.
    """

    points: Mapping[int, Point]
    ways: Sequence[Sequence[Point]]
    width: float
    height: float


def drawn(level: Sequence[int], edges: Sequence[tuple[int, int]], widths: Sequence[float]) -> Drawing:
    """Return the drawing of a graph.

    Args:
        level: of each vertex, −1 for those that are left out.
        edges: pairs of vertices, from a lower to a higher level number.
        widths: of the vertices, in pixels.

    >>> drawing = drawn([0, 1, 1, 2], [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)], [20.0] * 4)
    >>> [drawing.points[v][1] for v in range(4)], len(drawing.ways[4])
    ([0.0, 58.0, 58.0, 116.0], 3)
    """
    order, ways, above, below = _ordered(level, edges)
    x = _placed(order, above, below, widths, len(level))
    left = min(x.values(), default=0.0)
    points = {v: (x[v] - left, DOWN * depth) for depth, row in enumerate(order) for v in row}
    polylines = [[points[v] for v in way] for way in ways]
    vertices = {v: point for v, point in points.items() if v < len(level)}
    width = max((x for x, _ in points.values()), default=0.0)
    return Drawing(vertices, polylines, width, DOWN * max(len(order) - 1, 0))


_Neighbours = dict[int, list[int]]


def _ordered(
    level: Sequence[int], edges: Sequence[tuple[int, int]]
) -> tuple[list[list[int]], list[list[int]], _Neighbours, _Neighbours]:
    """Return the order on each level, the vertices and bends of each edge, and neighbours above and below."""
    order: list[list[int]] = [[] for _ in range(1 + max(level, default=-1))]
    for v, depth in enumerate(level):
        if depth >= 0:
            order[depth].append(v)
    number = len(level)
    bent = sum(level[i] - level[j] - 1 for j, i in edges if level[j] >= 0) <= MOST_BENDS
    ways: list[list[int]] = []
    above: _Neighbours = {}
    below: _Neighbours = {}
    for j, i in edges:
        if level[j] < 0 or level[i] < 0:
            ways.append([])
            continue
        between = range(number, number + level[i] - level[j] - 1) if bent else range(0)
        number += len(between)
        for depth, bend in enumerate(between, level[j] + 1):
            order[depth].append(bend)
        way = [j, *between, i]
        ways.append(way)
        for upper, lower in pairwise(way):
            below.setdefault(upper, []).append(lower)
            above.setdefault(lower, []).append(upper)
    position = {v: (k + 0.5) / len(row) for row in order for k, v in enumerate(row)}
    for turn in range(TURNS):
        neighbours = below if turn % 2 else above
        for row in reversed(order) if turn % 2 else order:
            means = {v: _mean([position[u] for u in neighbours.get(v, [v])]) for v in row}
            row.sort(key=means.__getitem__)
            position.update((v, (k + 0.5) / len(row)) for k, v in enumerate(row))
    if number <= LARGEST_SWAPPED:
        _swap(order, above, below)
    return order, ways, above, below


def _swap(order: list[list[int]], above: _Neighbours, below: _Neighbours) -> None:
    """Swap neighbours on a level where that leaves fewer crossings, until none does."""
    position = {v: k for row in order for k, v in enumerate(row)}

    def crossings(v: int, w: int) -> int:
        return sum(
            position[a] > position[b] for side in (above, below) for a in side.get(v, ()) for b in side.get(w, ())
        )

    for _ in range(TURNS):
        changed = False
        for row in order:
            for k in range(len(row) - 1):
                v, w = row[k], row[k + 1]
                if crossings(v, w) > crossings(w, v):
                    row[k], row[k + 1] = w, v
                    position[v], position[w] = k + 1, k
                    changed = True
        if not changed:
            return


def _placed(
    order: list[list[int]], above: _Neighbours, below: _Neighbours, widths: Sequence[float], count: int
) -> dict[int, float]:
    """Return the horizontal coordinates of vertices and bends."""
    wide = [[widths[v] if v < count else BEND for v in row] for row in order]
    gaps = [[(a + b) / 2.0 + ACROSS for a, b in pairwise(row)] for row in wide]
    x: dict[int, float] = {}
    for row, between in zip(order, gaps, strict=True):
        at = -sum(between) / 2.0
        for v, gap in zip(row, [*between, 0.0], strict=False):
            x[v] = at
            at += gap
    for turn in range(TURNS):
        last = turn >= TURNS - 2
        rows = list(zip(order, gaps, strict=True))
        for row, between in reversed(rows) if turn % 2 else rows:
            sides = (above, below) if last else (below,) if turn % 2 else (above,)
            near = [[x[u] for side in sides for u in side.get(v, ())] or [x[v]] for v in row]
            weights = [len(each) * (_STRAIGHT if v >= count else 1.0) for v, each in zip(row, near, strict=True)]
            x.update(zip(row, _nearest([_mean(each) for each in near], between, weights), strict=True))
    return x


def _nearest(targets: Sequence[float], gaps: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the positions that keep the gaps and are nearest to the targets, by weighted least squares."""
    offsets = [0.0]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for target, offset, w in zip(targets, offsets, weights, strict=False):
        mean, weight, members = target - offset, w, 1
        while pools and pools[-1][0] > mean:
            other, more, absorbed = pools.pop()
            mean = (mean * weight + other * more) / (weight + more)
            weight, members = weight + more, members + absorbed
        pools.append((mean, weight, members))
    means = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def curve(way: Sequence[Point], start: float, end: float) -> str:
    """Return the SVG path along a way that leaves each point, and enters the next, upright.

    Args:
        way: points from top to bottom.
        start: distance below the first point where the curve begins.
        end: distance above the last point where it ends.
    """
    (x, y), (_, last) = way[0], way[-1]
    at = y + start
    text = f"M{x:.0f} {at:.0f}"
    for right, below in way[1:]:
        down = below - end if below == last else below
        middle = (at + down) / 2.0
        text += f"C{x:.0f} {middle:.0f} {right:.0f} {middle:.0f} {right:.0f} {down:.0f}"
        x, at = right, down
    return text
