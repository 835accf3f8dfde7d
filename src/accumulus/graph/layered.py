"""Layered drawings: positions of vertices and routes of edges, roots on top.

The method follows Sugiyama, Tagawa and Toda (Methods for Visual Understanding of Hierarchical System Structures, 1981).
An edge over several levels has a bend on each level between its ends. Sweeps down and up order the vertices and bends
of each level by the mean position of their neighbours; then adjacent ones are swapped if that reduces the crossings.
The horizontal positions of a level are the least-squares fit to the positions of the neighbours that keeps the order
and the minimum distances: isotonic regression, by pooling adjacent violators.

Time: each of a fixed number of sweeps is linear in the edges and bends, up to the sorting of a level. Swaps compare
pairs of edges, so only drawings of at most `LARGEST_SWAPPED` vertices and bends have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

#: Number of sweeps for the order and for the positions, alternately down and up: more take time, fewer leave crossings.
TURNS: Final = 8
#: Largest number of vertices and bends for which adjacent ones on a level are swapped: more take long to draw, fewer
#: leave crossings.
LARGEST_SWAPPED: Final = 600
#: Largest number of bends; in a drawing that would need more, all edges are straight lines. More take long to draw,
#: fewer leave edges that cross vertices.
MOST_BENDS: Final = 8_000
#: Distance between levels, distance between neighbours on a level, and width of a bend, in pixels.
DOWN, ACROSS, BEND = 58.0, 18.0, 6.0
#: Weight of a bend relative to a vertex in the least-squares fit, which straightens long edges: a larger one pushes
#: vertices aside, a smaller one leaves edges crooked.
_STRAIGHT: Final = 4.0

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A layered drawing.

    Attributes:
        points: position of each drawn vertex, by number.
        ways: points of each edge, by number, from its source to its target; empty if an end is not drawn.
        width, height: size of the drawing without margins.
    """

    points: Mapping[int, Point]
    ways: Sequence[Sequence[Point]]
    width: float
    height: float


def drawn(level: Sequence[int], edges: Sequence[tuple[int, int]], widths: Sequence[float]) -> Drawing:
    """Return the drawing of a graph.

    Args:
        level: level of each vertex, −1 for vertices that are not drawn.
        edges: pairs of vertices, from a lower to a higher level number.
        widths: widths of the vertices, in pixels.

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
    """Return the order on each level, the vertices and bends of each edge, and the neighbours above and below."""
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
    """Swap adjacent vertices and bends while that reduces the crossings, for at most `TURNS` passes."""
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
    """Return the weighted least-squares fit to the targets with at least the given gaps between neighbours."""
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
    """Return the SVG path of a curve through the points, vertical at each point.

    Args:
        way: points from top to bottom.
        start: distance of the curve's start below the first point.
        end: distance of the curve's end above the last point.
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
