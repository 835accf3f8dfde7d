"""Reductions lose nothing: of all small graphs, and of larger ones with kinds of labels and sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations, product

import pytest
from contexts import within
from graph_strategies import graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Elimination, count, get
from slow_costs import SlowCosts
from slow_sequences import SlowEdges, SlowFaces, TooMany

from accumulus import DifferentiationGraph
from accumulus.elimination import vertex
from accumulus.options import Objective
from accumulus.theory import reductions
from accumulus.theory.bounds import Brackets, lower_bound, unmerged
from accumulus.theory.reductions import (
    ReducedPart,
    SmallerGraph,
    independent_parts,
    on_its_own,
    reduced_part,
    without_bridges,
)
from accumulus.theory.research.minimum import true_minimum
from accumulus.theory.research.survey import reduced_graphs

COUNTED = (Objective.FMA, Objective.MULTIPLICATIONS)
LABELS = (None, 1.0, 2.5, "a")


def every_graph(roots: int, inner: int, terminals: int, labels: tuple) -> Iterator[DifferentiationGraph]:
    """All graphs with an intermediate between each of their roots and terminals; labels[0] is no edge."""
    first, last = roots, roots + inner
    pairs = [(j, i) for j in range(last) for i in range(max(j + 1, first), last + terminals) if j >= first or i < last]
    for kinds in product(labels, repeat=len(pairs)):
        edges = [(j, i, label) for (j, i), label in zip(pairs, kinds, strict=True) if label is not None]
        ends = {v for j, i, _ in edges for v in (j, i)}
        if edges:
            yield DifferentiationGraph(
                edges, ends & set(range(roots)), ends & set(range(last, last + terminals)) or None
            )


def least(state: Elimination, left: tuple[int, ...]) -> int:
    """The best order's cost, by trying all."""
    edges = [(j, i, level) for j, row in enumerate(state.successors) for i, level in row.items()]
    best = None
    for order in permutations(left):
        now = Elimination(edges, state.sizes, left, state.objective)
        cost = 0
        for v in order:
            cost += now.cost(v)[0]
            now.eliminate(v)
        best = cost if best is None else min(best, cost)
    return best or 0


def check(graph: DifferentiationGraph, objective: str) -> int:
    """That the best order of what is left, after what was eliminated, is optimal; returns how many are left."""
    state = Elimination.of(graph, objective)
    before = [dict(row) for row in state.successors]
    total, order, left = 0, [], 0
    for component in independent_parts(state):
        smaller = reduced_part(state, component)
        inner = smaller.state.intermediates
        left += len(inner)
        total += smaller.cost + least(smaller.state, inner)
        best = min(permutations(inner), key=lambda actual: price(graph, objective, smaller, actual))
        order += smaller.named(best)
    assert [dict(row) for row in state.successors] == before
    assert sorted([*order, *state.dead]) == sorted(graph.intermediates)
    assert total == SlowCosts(graph, objective).least()
    assert vertex.price(graph, [*order, *state.dead], objective).cost[0] == total
    return left


def price(graph: DifferentiationGraph, objective: str, component: ReducedPart, order: tuple[int, ...]) -> int:
    state = Elimination.of(graph, objective)
    cost = 0
    for v in component.named(order):
        cost += state.cost(v)[0]
        state.eliminate(v)
    return cost


@pytest.mark.parametrize(("roots", "inner", "terminals"), [(1, 3, 1), (2, 2, 2), (2, 2, 1)])
def test_nothing_is_lost_on_all_small_graphs(roots, inner, terminals):
    for graph in every_graph(roots, inner, terminals, (None, "a")):
        check(graph, Objective.FMA)


def test_nothing_is_lost_on_all_small_graphs_with_kinds():
    for graph in every_graph(1, 2, 1, LABELS):
        check(graph, Objective.MULTIPLICATIONS)


@pytest.mark.parametrize("objective", COUNTED)
def test_nothing_is_lost_on_random_graphs(objective):
    looked_at = left = 0
    for seed in range(250):
        rng = random.Random(seed)
        roots, inner, terminals = rng.randint(1, 3), rng.randint(3, 5), rng.randint(1, 3)
        units = rng.choice([0.0, 0.2, 0.5])
        chance = rng.choice([0.3, 0.5, 0.7])
        edges = [
            (j, i, rng.choice([1, -1, 2.5]) if rng.random() < units else None)
            for j in range(roots + inner)
            for i in range(max(j + 1, roots), roots + inner + terminals)
            if (j >= roots or i < roots + inner) and rng.random() < chance
        ]
        if not edges:
            continue
        sizes = {v: rng.randint(1, 3) for edge in edges for v in edge[:2]} if rng.random() < 0.4 else None
        if sizes:  # numbers join vertices of one size
            edges = [(j, i, label if sizes[j] == sizes[i] else None) for j, i, label in edges]
        vertices = {v for edge in edges for v in edge[:2]}
        terminal = vertices & set(range(roots + inner, roots + inner + terminals))
        graph = DifferentiationGraph(edges, vertices & set(range(roots)), terminal, sizes=sizes)
        looked_at += len(Elimination.of(graph, objective).intermediates)
        left += check(graph, objective)
    assert left < 0.8 * looked_at


@settings(max_examples=30)
@given(graph=graphs(vertices=7, sized=True), objective=st.sampled_from(COUNTED))
def test_nothing_is_lost_on_odd_graphs(graph, objective):
    check(graph, objective)


def test_series_ends_and_twins():
    chain = DifferentiationGraph([("y", "a"), ("a", "b"), ("b", "x")])
    assert [reduced_part(Elimination.of(chain, Objective.FMA), (1, 2)).cost] == [2]
    twins = DifferentiationGraph(
        [(j, v) for j in ("r", "s", "q") for v in ("a", "b")] + [(v, i) for v in ("a", "b") for i in ("x", "z", "w")]
    )
    state = Elimination.of(twins, Objective.FMA)
    assert len(independent_parts(state)) == 2
    edges = [("r", "u"), ("s", "u"), ("q", "u"), ("u", "a"), ("u", "b"), ("a", "w"), ("b", "w"), ("r", "w")]
    edges += [("w", "x"), ("w", "z"), ("q", "a"), ("q", "b"), ("u", "c"), ("c", "z")]
    joined = DifferentiationGraph(edges)
    state = Elimination.of(joined, Objective.FMA)
    (component,) = independent_parts(state)
    smaller = reduced_part(state, component)
    names = [{joined.vertices[v] for v in members} for members in smaller.members]
    assert {"a", "b"} in names
    assert ("c",) in [tuple(joined.vertices[v] for v in smaller.first)]


def test_independent_parts():
    graph = DifferentiationGraph([("y", "a"), ("a", "x"), ("y", "b"), ("b", "x"), ("b", "c"), ("c", "x"), ("y", "x")])
    state = Elimination.of(graph, Objective.FMA)
    assert [{graph.vertices[v] for v in component} for component in independent_parts(state)] in (
        [{"a"}, {"b", "c"}],
        [{"b", "c"}, {"a"}],
    )
    assert independent_parts(Elimination.of(DifferentiationGraph([("y", "x")]), Objective.FMA)) == []


# For programs --------------------------------------------------------------------------------------------------------


def random_graph(seed: int) -> DifferentiationGraph | None:
    """A graph of two to five intermediates, with kinds of labels in half of the cases, and sizes in a third."""
    rng = random.Random(seed)
    roots, inner, terminals = rng.randint(1, 3), rng.randint(2, 5), rng.randint(1, 3)
    units, chance = rng.choice([0.0, 0.0, 0.3, 0.6]), rng.choice([0.3, 0.4, 0.5])
    edges = [
        (j, i, rng.choice([1, -1, 2.5]) if rng.random() < units else None)
        for j in range(roots + inner)
        for i in range(max(j + 1, roots), roots + inner + terminals)
        if (j >= roots or i < roots + inner) and rng.random() < chance
    ]
    sizes = {v: rng.randint(1, 3) for edge in edges for v in edge[:2]} if seed % 3 == 0 else None
    if sizes:  # numbers join vertices of one size
        edges = [(j, i, label if sizes[j] == sizes[i] else None) for j, i, label in edges]
    vertices = {v for edge in edges for v in edge[:2]}
    terminal = vertices & set(range(roots + inner, roots + inner + terminals))
    made = DifferentiationGraph(edges, vertices & set(range(roots)), terminal, sizes=sizes) if edges else None
    return made if made is not None and Elimination.of(made, Objective.FMA).intermediates else None


def proven_by_reduction(graph: DifferentiationGraph, objective: Objective) -> tuple[int, int]:
    """The bound by brackets of what bridges leave, and the number of vertices that were behind them."""
    smaller, costs = without_bridges(unmerged(graph, objective))
    bounds = []
    for part in independent_parts(smaller):
        brackets = Brackets(smaller, part)
        list(brackets.improve(lambda: 1e9))
        bounds.append(brackets.bound)
    return sum(costs.values()) + sum(bounds), len(costs)


def excesses(objective: Objective, seeds: range) -> Iterator[int]:
    """By how much bounds exceed the best face elimination, of graphs with vertices behind bridges."""
    for seed in seeds:
        graph = random_graph(seed)
        if graph is None:
            continue
        try:
            optimum = SlowFaces(graph, objective, 100).least()
        except TooMany:
            continue
        bound, eliminated = proven_by_reduction(graph, objective)
        if eliminated:
            yield max(bound, lower_bound(graph, objective)) - optimum


@pytest.mark.parametrize("objective", COUNTED)
def test_no_face_elimination_is_cheaper_than_what_bridges_leave(objective):
    actual = list(excesses(objective, range(200)))
    assert max(actual) == 0
    assert len(actual) > 60
    assert actual.count(0) > 0.8 * len(actual)


@pytest.mark.parametrize("objective", COUNTED)
def test_a_bridge_too_many_is_noticed(monkeypatch, objective):
    monkeypatch.setattr(reductions, "_paths", lambda *arguments: 1 << 30)
    assert any(excess > 0 for excess in excesses(objective, range(200)))


def test_the_smallest_programs_begin_behind_bridges():
    """All graphs of the census up to seven edges, and some with eight, against an exhaustive search of programs."""
    smaller = 0
    for edges in range(3, 9):
        for k, each in enumerate(reduced_graphs(edges)):
            if edges == 8 and k % 10:
                continue
            graph = each.graph()
            left = SmallerGraph(graph, Objective.FMA)
            smaller += bool(left.cost)
            assert true_minimum(graph).upper == left.cost + true_minimum(left.graph).upper
    assert smaller > 20


@given(graph=graphs(sized=True), objective=st.sampled_from(COUNTED), method=st.sampled_from(("markowitz", "face")))
def test_an_accumulation_of_what_is_left_is_one_of_the_whole(graph, objective, method):
    left = SmallerGraph(graph, objective)
    result = get(method)(left.graph, within(objective=objective))
    whole = left.extended(result.accumulation)
    whole.verify()
    assert count(whole, objective) == left.cost + count(result.accumulation, objective)
    assert not SmallerGraph(left.graph, objective).cost


def test_parts_of_equal_form_are_equal():
    two = [(f"{a}{k}", f"{b}{k}") for k in (1, 2) for a, b in ("rv", "sv", "vw", "vx", "wx", "wy", "sw")]
    state = Elimination.of(DifferentiationGraph(two), Objective.FMA)
    first, second = (on_its_own(state, part) for part in independent_parts(state))
    assert first.state.successors == second.state.successors
    assert first.members != second.members


def test_no_class_of_eliminations_is_known_to_lose_by_bridges():
    """Only for programs it is proven that nothing is lost; a graph that fails is worth a note in docs/proofs.md."""
    tried = 0
    for seed in range(100):
        graph = random_graph(seed)
        if graph is None or not (left := SmallerGraph(graph, Objective.FMA)).cost:
            continue
        assert SlowCosts(graph, Objective.FMA).least() == left.cost + SlowCosts(left.graph, Objective.FMA).least()
        for search in (SlowEdges, SlowFaces):
            try:
                optimum = search(graph, Objective.FMA, 100).least()
                assert optimum == left.cost + search(left.graph, Objective.FMA, 100).least()
            except TooMany:
                continue
            tried += 1
    assert tried > 40
