"""Symmetric elimination: right in every order, counted as it is made, and its search as good as trying all orders."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import accumulus as acc
from accumulus import Accumulation, load_plan, save_plan
from accumulus.elimination.accumulation import Steps
from accumulus.elimination.emit import count
from accumulus.elimination.gradient_graph import SymmetricGraph, eliminate_pairs, linearize_gradient
from accumulus.errors import OrderError, VerificationError
from accumulus.options import Objective
from accumulus.search.symmetric import PairsAnnealing


def chained(x):
    a = np.sin(x[0] * x[1])
    b = np.exp(a * x[2]) + a
    return b * b * x[0]


def separable(x):
    return np.sum(x[1:] * x[:-1] ** 2) + np.exp(x[0])


def partly_linear(x):
    a = x[0] - x[1]
    b = a + x[2]
    return np.sin(a) * (a - b * x[0])


def graph_of(f, count=3, selected=None):
    return linearize_gradient(acc.trace(f, np.full(count, 0.7)).tape, selected=selected).graph


FUNCTIONS = (chained, separable, partly_linear)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_every_order_is_right_and_none_beats_the_search(f):
    graph = graph_of(f)
    inner = SymmetricGraph(graph).inner
    assert 2 <= len(inner) <= 6
    costs = []
    for order in itertools.permutations(inner):
        made = eliminate_pairs(graph, order)
        costs.append(count(made, Objective.MULTIPLICATIONS))
        if len(costs) % 50 == 1:
            made.verify()
            assert list(made.entries) == list(acc.plan(graph, "reverse", cache=False).accumulation.entries)
    annealing = PairsAnnealing(SymmetricGraph(graph), Objective.MULTIPLICATIONS)
    for _ in annealing.run(inner, 4000, (0, 0)):
        pass
    assert count(eliminate_pairs(graph, annealing.best[1]), Objective.MULTIPLICATIONS) == min(costs)
    assert acc.plan(graph, "symmetric", "multiplications", cache=False).cost <= min(costs)


@pytest.mark.parametrize(
    ("f", "objective"), [(partly_linear, Objective.FMA), *((f, Objective.OPERATIONS) for f in (chained, separable))]
)
def test_the_kernel_counts_the_products_of_the_plan(f, objective):
    # so that no adjoint is ±1, which the kernel does not know of labels between adjoints and values
    graph = graph_of(lambda x: np.exp(f(x)), 4)
    inner = SymmetricGraph(graph).inner
    annealing = PairsAnnealing(SymmetricGraph(graph), objective)
    rng = random.Random(0)
    differences = set()
    for _ in range(20):
        order = rng.sample(inner, len(inner))
        made = eliminate_pairs(graph, order)
        additions = made.steps.is_product.count(0)
        products = count(made, Objective.FMA if objective.every_product else Objective.MULTIPLICATIONS)
        per_product = 1 if objective.on_tape else 64
        differences.add(annealing.cost(order) - per_product * products - additions)
    # entries of the Hessian that are added to are not known to the kernel, and the same in every order
    assert len(differences) == 1


def test_edge_pushing_is_linear_where_functions_are_partially_separable():
    steps = [len(acc.plan(graph_of(separable, n), "edge-pushing", cache=False).accumulation.steps) for n in (4, 8, 16)]
    assert steps[2] - steps[1] == 2 * (steps[1] - steps[0])


@pytest.mark.parametrize("f", FUNCTIONS)
def test_symmetric_plans_are_the_cheapest(f):
    graph = graph_of(f, 5)
    plans = {name: acc.plan(graph, name, "operations", cache=False) for name in ("reverse", "edge-pushing", "auto")}
    assert plans["auto"].cost <= min(plan.cost for plan in plans.values())
    assert plans["auto"].lower_bound is None
    for plan in plans.values():
        plan.verify()
        assert all(row >= column for row, column in plan.accumulation.entries)


@pytest.mark.parametrize("method", ["symmetric", "edge-pushing", "vertex"])
def test_plans_are_saved_and_cached(tmp_path, method):
    graph = graph_of(chained)
    plan = acc.plan(graph, method, cache=False)
    save_plan(plan, tmp_path / "plan.json")
    loaded = load_plan(tmp_path / "plan.json")
    assert loaded.accumulation.steps == plan.accumulation.steps
    assert loaded.graph.mirror.tolist() == graph.mirror.tolist()
    assert load_plan(tmp_path / "plan.json", graph).cost == plan.cost
    acc.plan(graph, method)
    assert acc.plan(graph, method).accumulation.entries == plan.accumulation.entries


def test_a_changed_step_is_noticed():
    graph = graph_of(chained)
    made = eliminate_pairs(graph, SymmetricGraph(graph).inner)
    is_product, left, right = made.steps.columns()
    noticed = 0
    for k in range(len(made.steps)):
        changed = is_product.copy()
        changed[k] = not changed[k]
        steps = Steps.of(made.steps.edges, changed, left, right)
        with pytest.raises(VerificationError, match="does not compute the derivatives"):
            Accumulation(graph, steps, made.entries).verify()
        noticed += 1
    assert noticed == len(made.steps) > 0


def test_orders_that_are_none_are_refused():
    graph = graph_of(chained)
    with pytest.raises(OrderError, match="every value that is not a terminal once"):
        eliminate_pairs(graph, SymmetricGraph(graph).inner[1:])


def test_without_a_mirror_vertices_are_eliminated_alone():
    graph = acc.DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "w"), ("b", "x")])
    assert acc.plan(graph, "edge-pushing", cache=False).order == acc.plan(graph, "reverse", cache=False).order
    assert acc.plan(graph, "symmetric", cache=False).cost == acc.plan(graph, "vertex", cache=False).cost


def test_only_selected_entries_are_computed():
    whole = graph_of(chained)
    full = acc.plan(whole, cache=False)
    for expected in ([(0, 0)], [(1, 0), (2, 2)], [(2, 1)]):
        graph = graph_of(chained, selected=expected)
        for method in ("symmetric", "edge-pushing", "vertex"):
            plan = acc.plan(graph, method, cache=False)
            plan.verify()
            assert list(plan.accumulation.entries) == expected
            assert plan.cost <= full.cost


def test_values_and_adjoints_are_distinguished_in_any_numbering():
    graph = graph_of(chained)
    count = len(graph.vertices)
    turned = np.random.default_rng(0).permutation(count)
    again = acc.DifferentiationGraph.from_tape(
        graph.tape,
        graph.labels,
        [graph.vertices[k] for k in np.argsort(turned)],
        turned[list(graph.roots)].tolist(),
        turned[list(graph.terminals)].tolist(),
        turned[graph.sources],
        turned[graph.targets],
        mirror=turned[graph.mirror[np.argsort(turned)]],
    )
    plans = [acc.plan(each, "edge-pushing", cache=False) for each in (graph, again)]
    assert plans[0].accumulation.entries.keys() == plans[1].accumulation.entries.keys()
    values = [graph.vertices[v] for v, is_value in enumerate(SymmetricGraph(graph).values) if is_value]
    assert {name[0] for name in values} == {"x", "v"}
