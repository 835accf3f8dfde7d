"""Panels of an explorer page beside graph, line graph and expressions: blocks, levels, dependencies, loops.

Blocks are the parts of a graph by definitions 3.1 to 3.3 of the notes, which can be folded into edges. Levels are the
matrices of local Jacobians between neighbouring levels, with ones where an edge continues to the next level.
Dependencies show which face or merge waits for which other, after the notes' Lemma 2. A program of loops is shown as a
graph with bodies as vertices, and the number of their instances; each body has a plan.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, Final

import numpy as np

from accumulus.elimination.accumulation import Labels
from accumulus.graph.degrees import levels
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.graph.layered import curve, drawn
from accumulus.graph.linearize import linearize
from accumulus.graph.pictures import HIGH, WIDE, typeset
from accumulus.options import Objective
from accumulus.search.find import plan as find
from accumulus.search.plan import BodyPlan, Plan
from accumulus.show.bodies import lines_text
from accumulus.show.frames import inner_vertices
from accumulus.tape.columns import owners_in, references_in
from accumulus.tape.fusion import Map, fuse
from accumulus.tape.program import Program
from accumulus.tape.tape import to_bytes
from accumulus.text import printable

#: Maximum number of matrix cells of a page, and of steps of plans whose dependencies are shown: more make pages that
#: load slowly and are hard to read, fewer hide what could be shown.
MOST_CELLS, MOST_STEPS = 4_000, 120
#: Maximum number of parts of a graph that can be folded: more make pages large, fewer leave graphs without folds.
MOST_PARTS: Final = 400
#: Maximum number of vertices of an overview: more make it unreadable, fewer join what should be told apart.
MOST_GROUPS: Final = 240
#: Maximum number of steps of an overview: more make pages large, fewer show less of the plan's course.
COARSE: Final = 100


_INDEXED: Final = re.compile(r"(?<![\w.])(?:[^\W\d_]\d+)+(?![\w.])")


def lowered(text: str) -> str:
    """Return a product or a sum with the numbers of its labels as subscripts.

    >>> lowered("−9.81·e1e12 + s3")
    '−9.81·e₁e₁₂ + s₃'
    """
    return _INDEXED.sub(lambda match: typeset(match[0]), text)


def blocks(graph: DifferentiationGraph) -> list[list[Any]]:
    """Return chains and blocks, outer ones first: kind, source, sink, inner vertices, number of edges."""
    # imported by name, since the theory package depends on this one
    decomposition = import_module("accumulus.theory.graphs.chains_and_blocks").decompose(graph)
    parts = (component for component in decomposition.walk() if component.size > 1)
    rows = [
        [component.kind, component.source, component.sink, sorted(inner_vertices(graph, component)), component.size]
        for component in parts
    ]
    return [component for component in rows if component[3]][:MOST_PARTS]


def matrices_between_levels(graph: DifferentiationGraph) -> list[dict[str, Any]] | None:
    """Return the matrices between neighbouring levels; None if they are too large.

    Rows and columns are vertices, or edges that continue to a later level; cells are edges, −1 where an edge continues.
    """
    depth = levels(graph)
    edges = [
        (int(j), int(i), e)
        for e, (j, i) in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
        if depth[j] >= 0
    ]
    matrices, size = [], 0
    for level in range(max(depth, default=0)):
        rows: list[tuple[str, int]] = [("v", v) for v, each in enumerate(depth) if each == level]
        rows += [("e", e) for j, i, e in edges if depth[j] < level < depth[i]]
        columns: list[tuple[str, int]] = [("v", v) for v, each in enumerate(depth) if each == level + 1]
        columns += [("e", e) for j, i, e in edges if depth[j] <= level and level + 1 < depth[i]]
        size += len(rows) * len(columns)
        if size > MOST_CELLS:
            return None
        row, column = ({end: k for k, end in enumerate(ends)} for ends in (rows, columns))
        cells = []
        for j, i, e in edges:
            if depth[j] <= level < depth[i]:
                begins, ends = depth[j] == level, depth[i] == level + 1
                cell = row["v", j] if begins else row["e", e], column["v", i] if ends else column["e", e]
                # an edge's label is in the matrix of its source's level
                cells.append([*cell, e if begins else -1])
        matrices.append({"rows": rows, "columns": columns, "cells": cells})
    return matrices


def dependencies(plan: Plan) -> dict[str, Any] | None:
    """Return the drawing of the dependencies between eliminations; None if the plan is too long or has none."""
    if not 0 < len(plan.accumulation.steps) <= MOST_STEPS:
        return None
    relations = import_module("accumulus.theory.algebra.relations")
    try:
        graph = relations.elimination_dependencies(plan.accumulation)
    except relations.ExpressionError:
        return None
    return waiting(graph)


def waiting(graph: Any) -> dict[str, Any]:
    """Return the drawing of dependencies, with each vertex above those it waits for; a cycle is drawn as a ring."""
    cycle = graph.cycle
    nodes = list(cycle or graph.awaits)
    number = {node: k for k, node in enumerate(nodes)}
    pairs = [(number[a], number[b]) for a, b in graph.edges if a in number and b in number]
    texts = [lowered(printable(str(node)).replace("*", "")) for node in nodes]
    if cycle:
        radius = max(90.0, 22.0 * len(nodes))
        turns = [2.0 * math.pi * k / len(nodes) for k in range(len(nodes))]
        points = [(1.6 * radius * (1.0 + math.sin(t)), radius * (1.0 - math.cos(t))) for t in turns]
        size = 3.2 * radius, 2.0 * radius
    else:
        level = [0] * len(nodes)
        waits: dict[int, list[int]] = {}
        for a, b in pairs:
            waits.setdefault(a, []).append(b)
        for node in reversed(graph.order):
            for b in waits.get(number[node], ()):
                level[b] = max(level[b], level[number[node]] + 1)
        drawing = drawn(level, pairs, [max(28.0, WIDE * len(text) + 14.0) for text in texts])
        points = [drawing.points[k] for k in range(len(nodes))]
        size = drawing.width, drawing.height
    around = {(k, (k + 1) % len(nodes)) for k in range(len(nodes))} if cycle else set()
    return {
        "nodes": [[text, round(x), round(y)] for text, (x, y) in zip(texts, points, strict=True)],
        "arrows": [[a, b, int((a, b) in around)] for a, b in pairs],
        "cycle": printable(graph.explain_cycle(), keep="\n") if cycle else "",
        "size": [round(side) for side in size],
    }


# Loops ---------------------------------------------------------------------------------------------------------------


def loops(
    program: Program,
    arguments: Sequence[tuple[str, slice]],
    results: Sequence[str],
    body_plans: Sequence[BodyPlan] = (),
) -> tuple[dict[str, Any], list[Plan]]:
    """Return the graph of a program's loops, and a plan for the derivatives of each body.

    Args:
        program: program of the function.
        arguments: names of arguments, and the inputs of each.
        results: names of the results.
        body_plans: plans of bodies; others are planned here.
    """
    maps = fuse(program)
    plan_of = {each.body: each.plan for each in reversed(body_plans)}
    home = {block: k for k, each in enumerate(maps) for block in each.blocks}
    names, counts = [name for name, _ in arguments], [0] * len(arguments)
    plans: list[Plan] = []
    bodies: list[int] = [-1] * len(arguments)
    edges: Counter[tuple[int, int]] = Counter()
    first = len(arguments)
    for k, each in enumerate(maps):
        names.append(_loop_name(program, each))
        counts.append(each.count)
        bodies.append(-1)
        if each.is_body and each.body.operations:
            plan = plan_of.get(to_bytes(each.body))
            if plan is None:
                plan = find(linearize(each.body, name=names[-1]).graph, method="markowitz")
            if len(plan.graph.sources):
                bodies[-1] = len(plans)
                plans.append(plan)
        for operands in each.operands(program):
            for owner in owners_in(program.starts, operands):
                if owner in home and home[owner] != k:
                    edges[first + k, first + home[owner]] += 1
            references = references_in(operands)
            for argument, (_, inputs) in enumerate(arguments):
                if ((references >= inputs.start) & (references < inputs.stop)).any():
                    edges[first + k, argument] += 1
    below = {i for _, i in edges}
    roots = [v for v in range(first, len(names)) if v not in below]
    for name in results:
        names.append(name)
        counts.append(0)
        bodies.append(-1)
        for v in roots:
            edges[len(names) - 1, v] += 1
    depth = _depths(len(names), edges)
    for v in range(first):
        depth[v] = max(depth)
    texts = [f"{name} × {times:,}" if times > 1 else name for name, times in zip(names, counts, strict=True)]
    widths = [max(28.0, WIDE * len(text) + 16.0) for text in texts]
    drawing = drawn(depth, list(edges), widths)
    half = HIGH / 2.0
    picture = {
        "nodes": [
            [text, *map(round, drawing.points[v]), round(widths[v]), bodies[v], _source(program, maps, v - first)]
            for v, text in enumerate(texts)
        ],
        "ways": [curve(way, half, half) for way in drawing.ways],
        "size": [round(drawing.width), round(drawing.height)],
        "arguments": first,
        "results": len(results),
    }
    return picture, plans


def _loop_name(program: Program, each: Map) -> str:
    if each.is_sum:
        return "sums"
    if each.shape is not None:
        return f"matrices {'×'.join(map(str, each.shape))}"
    kind = "steps" if each.steps is not None else "loop"
    return f"{kind}, {each.body.operations} operation{'s' * (each.body.operations != 1)}"


def _source(program: Program, maps: Sequence[Map], k: int) -> str:
    return printable(lines_text(program.lines_of(maps[k].blocks))) if 0 <= k < len(maps) else ""


def _depths(count: int, edges: Counter[tuple[int, int]]) -> list[int]:
    """Return the length of the longest path to each vertex from a vertex that nothing depends on."""
    depth, below = [0] * count, sorted(edges, reverse=True)
    for j, i in below:
        depth[i] = max(depth[i], depth[j] + 1)
    return depth


# Overviews -----------------------------------------------------------------------------------------------------------


def overview(plan: Plan, signs: Sequence[str]) -> dict[str, Any]:
    """Return the data of a page for a graph that is too large to be drawn, with its vertices in groups.

    A group has the vertices of one operation on neighbouring levels. It disappears when its last vertex is eliminated.
    Time: linear, in NumPy.

    Args:
        plan: plan to show.
        signs: sign of each vertex's operation.
    """
    graph, steps = plan.graph, plan.accumulation.steps
    depth = np.array(levels(graph))
    ends = np.zeros(len(depth), np.int64)
    ends[list(graph.roots)], ends[list(graph.terminals)] = 1, 2
    for bands in (12, 8, 5):
        band = np.where(depth < 0, -1, depth * bands // (1 + max(int(depth.max()), 0)))
        keys = list(zip(band.tolist(), ends.tolist(), signs, strict=True))
        if len(set(keys)) <= MOST_GROUPS:
            break
    number = {key: k for k, key in enumerate(sorted({key for key in keys if key[0] >= 0}))}
    group = np.array([number.get(key, -1) for key in keys])
    sizes = np.bincount(group[group >= 0], minlength=len(number)).tolist()
    # outputs are alone on the first band, inputs on the last
    row = [0 if end == 1 else bands + 1 if end == 2 else 1 + level for level, end, _ in number]
    there = sorted(set(row))
    row = [there.index(each) for each in row]
    a, b = group[graph.sources], group[graph.targets]
    is_shown = (a >= 0) & (b >= 0) & (np.array(row)[a] < np.array(row)[b])
    pairs, times = np.unique(np.stack([a[is_shown], b[is_shown]], axis=1), axis=0, return_counts=True)
    names = [f"{sign or ('', 'outputs', 'inputs')[end] or 'vertices'}" for _, end, sign in number]
    texts = [f"{name} ×{size:,}" for name, size in zip(names, sizes, strict=True)]
    widths = [max(28.0, WIDE * len(text) + 14.0) for text in texts]
    drawing = drawn(row, [(int(j), int(i)) for j, i in pairs], widths)
    products, left, right = steps.columns()
    labels = Labels(graph, steps, every_product=True)
    tops, middles = labels.ends(left)
    cost = np.where(products, graph.sizes[tops] * graph.sizes[middles] * graph.sizes[labels.ends(right)[1]], 0)
    first, second = labels.kinds[left], labels.kinds[right]
    free = (np.minimum(first, second) < Kind.CONSTANT) | (np.maximum(first, second) == Kind.CONSTANT)
    fma, mul = np.cumsum(cost), np.cumsum(np.where(free, 0, cost))
    last = np.zeros(len(depth), np.int64)
    np.maximum.at(last, middles[products], np.flatnonzero(products))
    gone = np.full(len(number), -1)
    np.maximum.at(gone, group[group >= 0], last[group >= 0])
    gone[[k for k, (_, end, _) in enumerate(number) if end]] = len(steps)
    stops = np.unique(np.linspace(0, len(steps), min(len(steps), COARSE) + 1).astype(int))
    frames, notes = [], []
    for begin, end in pairwise(stops.tolist()):
        over = np.flatnonzero((gone >= begin) & (gone < end)).tolist()
        edges = np.flatnonzero(np.isin(pairs, over).any(axis=1)).tolist() if over else []
        frames.append([0, 0, 0, [], [], edges, over, -1])
        done = int(((last >= begin) & (last < end) & (ends == 0) & (last > 0)).sum())
        notes.append(f"{done:,} vertices are eliminated, by {int(products[begin:end].sum()):,} products")
    half = HIGH / 2.0
    operations = plan.costs[Objective.OPERATIONS]
    return {
        "title": printable(graph.name) or "graph",
        "overview": f"{len(graph.vertices):,} vertices, {len(graph.sources):,} edges, in groups",
        "vertices": [
            {"n": text, "a": text, "k": ("", "r", "t")[end], "x": round(x), "y": round(y), "w": round(width)}
            | dict.fromkeys("ofs", "")
            for text, (_, end, _), (x, y), width in zip(texts, number, drawing.points.values(), widths, strict=True)
        ],
        "size": [round(drawing.width), round(drawing.height)],
        "roots": [],
        "terminals": [],
        "tex": [],
        "labels": [],
        "plans": [
            {
                "method": plan.method, "objective": str(plan.objective),
                "costs": {str(objective): cost for objective, cost in plan.costs.items()},
                "bound": plan.lower_bound, "optimal": plan.is_optimal,
                "edges": len(pairs), "kinds": [4] * len(pairs),
                "ends": pairs.reshape(-1).tolist() + [0, 0] * len(frames),
                "text": [f"{count:,}" for count in times.tolist()] + [""] * len(frames),
                "ways": [curve(way, half, half) for way in drawing.ways], "line": None,
                "alive": list(range(len(pairs))), "faces": None, "steps": frames, "notes": notes,
                "fma": fma[stops[1:] - 1].tolist(), "mul": mul[stops[1:] - 1].tolist(),
                "ops": [[0, len(frames)], [0, operations]],
                "groups": {"face": list(range(1, len(frames) + 1))}, "entries": [], "lines": [],
            }
        ],
    }  # fmt: skip
