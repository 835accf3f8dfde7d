"""Plans step by step: costs, what is alive, and line graphs, against eliminations that are run beside them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from graph_strategies import LABELS
from inside import FaceElimination, count, eliminate_faces

import accumulus as acc
from accumulus import Plan
from accumulus.options import Objective
from accumulus.show.frames import GROUPS, Frames

METHODS = (
    "forward",
    "reverse",
    "markowitz",
    "vertex",
    "edge",
    "face",
    "dstar",
    "local-jacobians",
    "pages",
    "symmetric",
)


def random_graph(seed, size=9, labels=(None,)):
    rng = random.Random(seed)
    edges = [
        (f"v{j}", f"v{i}", rng.choice(labels)) for j in range(size) for i in range(j + 1, size) if rng.random() < 0.4
    ]
    return acc.DifferentiationGraph(edges or [("y", "x")])


def traced(f, *arguments):
    return acc.trace(f, *arguments).linearize()


GRAPHS = {
    "sparse": random_graph(1),
    "dense": random_graph(2, 7),
    "constants": random_graph(3, 8, LABELS[:6]),
    "parallel": acc.DifferentiationGraph([("y", "a"), ("y", "a"), ("a", "x"), ("a", "x"), ("z", "a")]),
    "roots within": acc.DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x"), ("b", "z")], roots=["y", "a", "b"]),
    "one edge": acc.DifferentiationGraph([("y", "x")]),
    "vectors": acc.DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")], sizes={"a": 3, "b": 2, "x": 4}),
    "function": traced(lambda x: np.array([x[0] * np.sin(x[1] * x[0]), x[1] ** 3 / x[0]]), np.ones(2)),
    "no edges": acc.DifferentiationGraph([], roots=["y"], terminals=["x"]),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_last_frame_is_the_plan(name, method):
    graph = GRAPHS[name]
    plan = acc.plan(graph, method, cache=False)
    frames = Frames(plan)
    last = frames.steps
    assert ([0, *frames.fma][-1], [0, *frames.multiplications][-1]) == (
        count(plan.accumulation, "fma"),
        count(plan.accumulation, "multiplications"),
    )
    assert frames.operations([last]) == [count(plan.accumulation, "operations")]
    assert frames.entries <= set(frames.alive_after(last))
    remaining = set(frames.alive_after(last)) - frames.entries
    assert all(v < frames.edges and graph.constants.get(v) == 1.0 for v in remaining)
    first_root, first_terminal = frames.values, frames.values + len(graph.roots)
    for (row, column), value in plan.accumulation.entries.items():
        faces = frames.faces_after(last)
        assert {(first_root + row, value), (value, first_terminal + column)} <= faces
    assert len(frames.faces_after(last)) == len(
        {pair for (r, c), v in plan.accumulation.entries.items() for pair in ((r, v), (v, -1 - c))}
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", GRAPHS)
def test_groups_part_the_steps(name, method):
    frames = Frames(acc.plan(GRAPHS[name], method, cache=False))
    for kind in GROUPS:
        ends = frames.groups(kind)
        assert ends == sorted(set(ends))
        assert (ends or [0])[-1] == frames.steps
        assert set(ends) <= set(frames.groups("face"))


def test_vertices_of_an_order_are_its_groups():
    graph = random_graph(4, 10)
    plan = acc.plan(graph, "vertex", cache=False)
    frames = Frames(plan)
    gone = [v for change in frames.changes for v in change.removed_vertices]
    live = set(graph.live_intermediates.tolist())
    assert gone == [v for v in plan.order if v in live]
    ends = frames.groups("vertex")
    assert len(ends) == len(live)
    for begin, end, v in zip([0, *ends], ends, gone, strict=False):
        assert [u for change in frames.changes[begin:end] for u in change.removed_vertices] == [v]


@pytest.mark.parametrize("seed", range(6))
def test_line_graphs_are_those_of_face_elimination(seed):
    """At every step, by a run in the same order, whose steps are the plan's."""
    graph, rng = random_graph(seed, 8), random.Random(seed)
    elimination = FaceElimination(graph)
    states = []

    def state():
        shift = len(graph.sources)
        name = {v: elimination.labels[v] for v in elimination.vertices()}
        added = range(shift, shift + len(graph.roots) + len(graph.terminals))
        name.update((v, -1 - (v - shift)) for v in added)
        faces = {(name[i], name[j]) for i in name for j in elimination.successors[i]}
        return set(name.values()) - {-1 - (v - shift) for v in added}, faces

    sequence = []
    while faces := elimination.faces():
        states.append((len(elimination.steps), state()))
        sequence.append(rng.choice(faces))
        elimination.eliminate(*sequence[-1])
    states.append((len(elimination.steps), state()))
    accumulation = eliminate_faces(graph, sequence)
    plan = Plan(graph, accumulation, "face", Objective.FMA, count(accumulation, "fma"))
    frames = Frames(plan)
    for steps, (alive, faces) in states:
        assert set(frames.alive_after(steps)) == alive
        results = {
            tuple(-1 - (v - frames.values) if v >= frames.values else v for v in face)
            for face in frames.faces_after(steps)
        }
        assert results == faces


def test_the_selected_half_of_a_symmetric_graph():
    hessian = acc.hessian(lambda x: np.sin(x[0] * x[1]) * x[2])
    plan = acc.plan(hessian.posed(np.ones(3)).graph, "symmetric", cache=False)
    frames = Frames(plan)
    assert frames.entries <= set(frames.alive_after(frames.steps))
    assert frames.fma[-1] == plan.costs["fma"]
    assert frames.faces is None
    inner = {*plan.graph.intermediates, -1}
    assert inner.issuperset(frames.middles)
    for (row, column), value in plan.accumulation.entries.items():
        ends = {(plan.graph.roots[a], plan.graph.terminals[b]) for a, b in ((row, column), (column, row))}
        assert frames.ends[value] in ends


def test_operations_grow_to_those_of_the_plan():
    plan = acc.plan(GRAPHS["function"], cache=False)
    frames = Frames(plan)
    counted = frames.operations(range(frames.steps + 1))
    assert counted == sorted(counted)
    assert counted[-1] == plan.costs["operations"]
