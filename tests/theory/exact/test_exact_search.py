"""Exact search and lower bounds against trying everything, and against the optima that are known."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from contexts import within
from figures import figure
from graph_strategies import graphs, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Context, Elimination, count, eliminate_vertices, get, interpret, layered
from slow_costs import SlowCosts
from slow_sequences import SlowEdges, SlowFaces, TooMany

from accumulus import DifferentiationGraph, Kind, load_graph, methods, plan
from accumulus.graph.generators import bat, lion, random_dag
from accumulus.graph.graph import LARGEST_SIZE
from accumulus.options import Objective, Options
from accumulus.search.elimination import forward_order
from accumulus.search.plan import _moved
from accumulus.theory import bounds
from accumulus.theory.bounds import Brackets, all_paths, lower_bound, paths_to_bracket, unmerged
from accumulus.theory.compiled import faces_kernel
from accumulus.theory.exact import eliminations, searches
from accumulus.theory.exact.eliminations import OptimumProof
from accumulus.theory.exact.orders import LARGE_BLOCK
from accumulus.theory.exact.searches import LineSearch
from accumulus.theory.flows import least_costs
from accumulus.theory.reductions import independent_parts

DATA = Path(__file__).parents[2] / "data"
COUNTED = st.sampled_from([Objective.FMA, Objective.MULTIPLICATIONS])
FOR_EVER = 1e9
#: Half a second of a search; a few graphs of seven vertices would take hours.
MOVES = 500_000


def vector_graphs():
    return json.loads((DATA / "vector_graphs.json").read_text(encoding="utf-8"))["graphs"]


def searched(graph, objective, level, moves=10**9):
    """Cost and lower bound of the search of a level alone, without other methods or bounds of programs."""
    proof = OptimumProof(graph, objective, forward_order(graph))
    for _ in proof.search_orders(10**9, LARGE_BLOCK) if level == "vertex" else proof.search_sequences(level, moves):
        pass
    accumulation = eliminate_vertices(graph, proof.order()) if level == "vertex" else proof.accumulation(level)
    accumulation.verify()
    assert count(accumulation, objective) == proof.cost(level)
    return proof


def bracketed(state, part, columns=10**6):
    """The bracketing bound of a part."""
    brackets = Brackets(state, part, columns)
    list(brackets.improve(lambda: FOR_EVER))
    return brackets.bound


@pytest.mark.parametrize("label", [1, 2.0])
def test_parts_whose_products_are_all_free(label):
    """Products of ones and of constants cost nothing: the bound is 0, and nothing is divided by it."""
    edges = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 5), (4, 5), (3, 6), (4, 6)]
    graph = DifferentiationGraph([(*edge, label) for edge in edges], {0}, {5, 6})
    state = unmerged(graph, Objective.MULTIPLICATIONS)
    assert bracketed(state, [1, 2, 3, 4]) == 0
    for level in ("vertex", "edge", "face"):
        proof = searched(graph, Objective.MULTIPLICATIONS, level)
        assert proof.cost(level) == proof.bound(level) == 0
    for method in ("exact-vertex", "exact-edge", "exact-face"):
        found = plan(graph, method, "multiplications", cache=False)
        assert found.is_optimal
        assert found.cost == 0


@given(graph=graphs(sized=True), objective=COUNTED)
def test_vertex_optima(graph, objective):
    proof = searched(graph, objective, "vertex")
    assert proof.cost("vertex") == proof.bound("vertex") == SlowCosts(graph, objective).least()


@settings(max_examples=20)
@given(graph=graphs(vertices=7, sized=True), objective=COUNTED)
def test_edge_optima(graph, objective):
    proof = searched(graph, objective, "edge", MOVES)
    assert proof.bound("edge") <= proof.cost("edge")
    with suppress(TooMany):  # one graph of seven has; all others are proven
        optimum = SlowEdges(graph, objective, 1_000).least()
        assert proof.cost("edge") == proof.bound("edge") == optimum


@settings(max_examples=20)
@given(graph=graphs(vertices=7, sized=True), objective=COUNTED)
def test_face_optima(graph, objective):
    proof = searched(graph, objective, "face", MOVES)
    assert proof.bound("face") <= proof.cost("face")
    with suppress(TooMany):  # one graph of seven has; all others are proven
        optimum = SlowFaces(graph, objective, 1_000).least()
        assert proof.cost("face") == proof.bound("face") == optimum


def small_graph(seed: int) -> DifferentiationGraph:
    """A graph of three or four intermediates with a choice, kinds of labels and sizes in half of the cases each."""
    rng = random.Random(seed)
    roots, inner, terminals = rng.randint(1, 3), rng.randint(2, 4), rng.randint(1, 3)
    count = roots + inner + terminals
    kinds = [1, 2.5, None, None] if seed % 2 else [None]
    edges = [
        (j, i, rng.choice(kinds))
        for j in range(roots + inner)
        for i in range(max(j + 1, roots), count)
        if (j >= roots or i < roots + inner) and rng.random() < 0.55
    ]
    vertices = {v for j, i, _ in edges for v in (j, i)}
    sizes = {v: rng.randint(1, 3) for v in vertices} if seed % 4 > 1 else None
    if sizes:  # numbers join vertices of one size
        edges = [(j, i, label if sizes[j] == sizes[i] else None) for j, i, label in edges]
    return DifferentiationGraph(
        edges, vertices & set(range(roots)), vertices & set(range(roots + inner, count)), sizes=sizes
    )


@pytest.mark.parametrize("objective", [Objective.FMA, Objective.MULTIPLICATIONS])
def test_optima_and_bounds_of_small_graphs(objective):
    looked_at = 0
    for seed in range(25):
        graph = small_graph(seed)
        state = Elimination.of(graph, objective)
        if not state.intermediates:
            continue
        try:
            face = SlowFaces(graph, objective, 600).least()
            edge = SlowEdges(graph, objective, 600).least()
        except TooMany:
            continue
        looked_at += 1
        vertex = SlowCosts(graph, objective).least()
        assert face <= edge <= vertex
        assert searched(graph, objective, "vertex").cost("vertex") == vertex
        proof = OptimumProof(graph, objective, forward_order(graph))
        for columns in (10, 10**5):
            for _ in proof.bracket("vertex", lambda: FOR_EVER, columns):
                pass
            assert proof.bound("face") <= proof.bound("vertex") <= vertex
            for _ in proof.bracket("face", lambda: FOR_EVER, columns):
                pass
            assert proof.bound("face") <= face
        assert searched(graph, objective, "edge").cost("edge") == edge
        assert searched(graph, objective, "face").cost("face") == face
        assert lower_bound(graph, objective, flow_work=0) <= lower_bound(graph, objective) <= face
        apart = unmerged(graph, objective)
        assert sum(bracketed(apart, component) for component in independent_parts(apart)) <= face
        assert sum(bracketed(apart, component, 10) for component in independent_parts(apart)) <= face
    assert looked_at > 8


def test_known_numbers_that_add_up_to_one_are_free():
    def priced(*numbers, method="exact-face"):
        edges = [("y", "m", "e"), *(("m", "x", number) for number in numbers)]
        made = plan(DifferentiationGraph(edges), method, "multiplications", cache=False)
        assert made.lower_bound in (None, made.cost)
        return made.cost

    assert all(priced(2.0, -1.0, method=method) == 0 for method in methods())
    for numbers in ((-3.0, 2.0), (1, 1, -1), (0.5, 0.25, 0.25), (2.5, Kind.ONE, -2.5)):
        assert priced(*numbers) == 0
    for numbers in ((1.0, 1.0), (2.0, -2.0), (2.0, Kind.CONSTANT), (2.0, -1.0, "a"), (0.5,)):
        assert priced(*numbers) == 1


def test_searches_and_bounds_count_known_numbers_by_their_sum():
    """Every method on graphs of which each edge may be several numbers; the best ones by trying everything."""
    different = 0
    for seed in range(30):
        rng = random.Random(seed)
        labels = [None, None, 1, -1, 2.0, -1.5, 0.5]
        pairs = [(j, i) for j in range(4) for i in range(max(1, j + 1), 5) if rng.random() < 0.7]
        edges = [(j, i, rng.choice(labels)) for j, i in pairs for _ in range(rng.choice((1, 2, 2, 3)))]
        graph = DifferentiationGraph(edges)
        optimum = SlowCosts(graph, "multiplications").least()
        proof = searched(graph, Objective.MULTIPLICATIONS, "vertex")
        assert proof.cost("vertex") == proof.bound("vertex") == optimum
        face = searched(graph, Objective.MULTIPLICATIONS, "face").cost("face")
        with suppress(TooMany):
            assert face == SlowFaces(graph, "multiplications", 400).least()
        bound = lower_bound(graph, Objective.MULTIPLICATIONS)
        apart = unmerged(graph, Objective.MULTIPLICATIONS)
        brackets = sum(bracketed(apart, component) for component in independent_parts(apart))
        assert max(bound, brackets) <= face
        for method in ("edge", "dstar", "pages", "forward-factorization", "local-jacobians"):
            assert plan(graph, method, "multiplications", iterations=50, cache=False).cost >= max(bound, brackets)
        unknown = [(j, i, label if label in (None, 1, -1) else Kind.CONSTANT) for j, i, label in edges]
        different += SlowCosts(DifferentiationGraph(unknown), "multiplications").least() > optimum
    assert different >= 5


def test_a_bound_holds_for_numbers_with_equal_sums_only():
    """A plan costs one product in both graphs, and would cost none if it went another way in the second."""
    results = [
        DifferentiationGraph([("y", "m", "e"), ("m", "x", a), ("m", "x", b), ("z", "m", 1), ("y", "x")])
        for a, b in ((2.0, 3.0), (2.5, -1.5), (2.0, 3.0))
    ]
    made = plan(results[0], "exact-vertex", "fma", cache=False)
    moved = [_moved(made, graph).lower_bound for graph in results]
    assert moved == [made.cost, None, made.cost]


@given(graph=graphs(sized=True), objective=COUNTED)
def test_bounds_of_vertices(graph, objective):
    """Each vertex costs at least its bound, whatever was eliminated before."""
    state = Elimination.of(graph, objective)
    rng = random.Random(1)
    for flow_work in (0, 10**9):
        optimum = least_costs(state, flow_work=flow_work)
        for _ in range(3):
            order = rng.sample(state.intermediates, len(state.intermediates))
            after = Elimination.of(graph, objective)
            for k in order:
                assert after.cost(k)[0] >= optimum[k]
                after.eliminate(k)


@pytest.mark.parametrize("name", ["HumanHeartDipole", "RobotArm_6DOF"])
def test_forests_give_bounds_below_those_of_flows(graph_folder, name):
    graph = load_graph(graph_folder / f"{name}.json")
    for objective in (Objective.FMA, Objective.MULTIPLICATIONS):
        assert 0 < lower_bound(graph, objective, flow_work=0) <= lower_bound(graph, objective)


def test_nothing_is_proven_about_operations():
    graph = lion()
    assert lower_bound(graph, Objective.OPERATIONS) is None
    for level in ("vertex", "edge", "face"):
        assert get(f"exact-{level}")(graph, within(objective="operations")).lower_bound is None


def test_paths_of_a_bracketing_are_paths_and_no_more_than_fit():
    state = Elimination.of(bat(), Objective.FMA)
    everything = all_paths(state, state.intermediates, 10**6)
    assert len(everything) == len(set(everything)) == 20
    first, others = paths_to_bracket(state, state.intermediates, 10**6)
    assert {*first, *others} == {*everything}
    for splits in (0, 5, 20):
        first, others = paths_to_bracket(state, state.intermediates, splits)
        few = [*first, *others]
        assert len(few) == len(set(few)) < 20
        assert {*few} <= {*everything}
        assert sum(len(path) * (len(path) - 1) * (len(path) - 2) // 6 for path in few) <= splits


@pytest.mark.parametrize("length", [2, 3, 4, 6])
def test_the_cheapest_bracketing_is_that_of_all(length):
    """Against an enumeration of all binary trees."""

    def trees(a, b):
        if b - a == 1:
            return [()]
        return [((a, m, b), *x, *y) for m in range(a + 1, b) for x in trees(a, m) for y in trees(m, b)]

    splits = bounds._splits(length)
    costs = np.random.default_rng(length).random((5, len(splits)))
    for row, cheapest in zip(costs, bounds.least_bracketings(costs, length), strict=True):
        price = dict(zip(splits, row, strict=True))
        assert cheapest == pytest.approx(min(sum(price[split] for split in tree) for tree in trees(0, length)))


def test_a_bound_does_not_depend_on_the_solver(monkeypatch):
    """Whatever prices a solver hands back, the bound that they prove is valid."""
    state = Elimination.of(bat(), Objective.FMA)
    proven = bounds._Program._proven
    rng = np.random.default_rng(3)
    for scale in (0.0, 0.1, 1.0, 10.0):
        monkeypatch.setattr(
            bounds._Program,
            "_proven",
            lambda self, prices, scale=scale: proven(self, prices + scale * rng.normal(size=prices.shape)),
        )
        monkeypatch.setattr(bounds, "_MOST_WHOLE", 0)
        assert bracketed(state, state.intermediates) <= 22


@pytest.mark.parametrize(
    ("graph", "optima"),
    [(lion(), {"vertex": 12, "edge": 11, "face": 11}), (bat(), {"vertex": 24, "edge": 23, "face": 22})],
)
def test_lion_and_bat(graph, optima):
    for level, optimum in optima.items():
        result = get(f"exact-{level}")(graph, within(objective="fma", time_limit=FOR_EVER))
        result.accumulation.verify()
        assert result.cost("fma") == result.lower_bound == optimum


@pytest.mark.parametrize(("best", "cost", "bound"), [(12, 11, 11), (11, 12, 11), (10, 12, 10)])
def test_bounds_of_the_whole_limit_the_search_of_a_component(best, cost, bound):
    """The lion costs 11, but 12 with vertices: what others have found is not found again, and proven."""
    proof = OptimumProof(lion(), Objective.FMA, forward_order(lion()))
    list(proof.search_orders(10**9, LARGE_BLOCK))
    for _ in proof.search_sequences("face", 10**9, best):
        assert proof.cost("face") in (11, 12)
    assert (proof.cost("face"), proof.bound("face")) == (cost, bound)


@pytest.mark.parametrize("given_", vector_graphs(), ids=lambda given_: given_["name"])
def test_graphs_of_vectors(given_):
    graph = DifferentiationGraph(given_["edges"], sizes=given_["sizes"])
    result = get("exact-face")(graph, within(objective="fma", time_limit=FOR_EVER))
    result.accumulation.verify()
    assert result.cost("fma") == result.lower_bound == given_["face_elimination_optimum"]


@pytest.mark.parametrize(
    ("name", "panel", "optimum"),
    [
        ("fig:complex-dag-and-complete-path-dag", "a", 5),
        ("fig:complex-dag-and-complete-path-dag", "b", 10),
        ("fig:multi-root-terminal-graph", "a", 40),
    ],
)
def test_figures_of_the_notes(name, panel, optimum):
    result = get("exact-face")(figure(name, panel), within(objective="fma", time_limit=FOR_EVER))
    assert result.cost("fma") == result.lower_bound == optimum


@pytest.mark.parametrize(
    ("name", "fma", "multiplications"),
    [("HumanHeartDipole", 148, 48), ("PropaneCombustion", 88, 24), ("RobotArm_6DOF", 221, 151)],
)
def test_public_graphs_that_are_proven(graph_folder, name, fma, multiplications):
    graph = load_graph(graph_folder / f"{name}.json")
    for objective, optimum in (("fma", fma), ("multiplications", multiplications)):
        result = get("exact-face")(graph, within(objective=objective, time_limit=FOR_EVER))
        assert result.cost(objective) == result.lower_bound == optimum


@pytest.mark.parametrize("edges", [True, False])
def test_searches_go_on_after_a_slice_and_stop_at_their_moves(edges):
    state = Elimination.of(bat(), Objective.FMA)
    search = LineSearch(state, state.intermediates, 24, edges=edges, moves=500)
    assert list(search.run())
    assert 500 <= search.tried < 1_000
    assert not search.proven
    assert 16 <= search.lower_bound <= (23 if edges else 22)


@pytest.mark.parametrize("edges", [True, False])
@pytest.mark.parametrize(("seed", "labels"), [(7, 63), (1, 64)])
def test_machine_code_agrees_with_python(monkeypatch, edges, seed, labels):
    state = Elimination.of(random_graph("layered", 40, seed), Objective.MULTIPLICATIONS)

    def search():
        return LineSearch(state, state.intermediates, 10**4, edges=edges, moves=10)

    def statistics(search):
        return list(search.run()), search.steps, search.tried, search.lower_bound, search.failed

    compiled, python = search(), search()
    assert len(python.lines.edges) == labels
    expected = statistics(compiled)
    monkeypatch.setattr(searches, "kernel", lambda _: lambda _: interpret(faces_kernel.run_faces, python._search))
    assert statistics(python) == expected
    assert python.tried > 10
    assert (python._search.frames.words == compiled._search.frames.words).all()


def test_a_part_that_is_too_large_is_not_searched():
    graph = DifferentiationGraph([(j, i) for j in range(30) for i in range(j + 1, 30)])
    state = Elimination.of(graph, Objective.FMA)
    search = LineSearch(state, state.intermediates, 10**9, edges=False)
    assert search.failed
    assert list(search.run()) == []


@pytest.mark.parametrize("level", ["vertex", "edge", "face"])
@pytest.mark.parametrize("calls", [1, 2, 4])
def test_ctrl_c_hands_back_the_best_so_far(level, calls):
    reports = []

    def interrupt(cost):
        reports.append(cost)
        if len(reports) == calls:
            raise KeyboardInterrupt

    options = Options(objective="fma", time_limit=FOR_EVER, progress=interrupt)
    graph = figure("fig:multi-root-terminal-factorization", "a")
    result = get(f"exact-{level}")(graph, Context(options))
    result.accumulation.verify()
    assert result.interrupted == (len(reports) >= calls)
    assert result.lower_bound is None or result.lower_bound <= result.cost("fma") <= 51


def test_without_time_or_iterations_nothing_is_searched():
    graph = bat()
    for options in (Options(time_limit=0), Options(iterations=0)):
        result = get("exact-face")(graph, Context(replace(options, objective="fma")))
        assert result.cost("fma") == 24
        assert result.lower_bound is None


def test_large_graphs_get_the_bound_that_flows_give(monkeypatch, graph_folder):
    graph = load_graph(graph_folder / "RoeFlux_1d.json")
    monkeypatch.setattr(eliminations, "_LARGEST", 100)
    made = plan(graph, "exact-face", "fma", time_limit=FOR_EVER, iterations=100, cache=False)
    assert made.lower_bound == lower_bound(graph, Objective.FMA) == 277
    assert made.cost >= 295
    assert plan(graph, "exact-face", "fma", time_limit=1e-3, cache=False).lower_bound is None


def test_plans_say_how_far_from_the_best_they_can_be():
    for method, scope, cost in (("exact-vertex", "vertex", 12), ("exact-edge", "edge", 11), ("exact-face", "face", 11)):
        made = plan(lion(), method, "fma", time_limit=FOR_EVER, cache=False)
        assert (made.cost, made.lower_bound, made.scope) == (cost, cost, scope)
        assert made.is_optimal
        assert made.gap == 0
    greedy = plan(lion(), "forward", "fma", cache=False)
    assert (greedy.lower_bound, greedy.gap, greedy.is_optimal) == (None, None, False)
    bounded = replace(greedy, lower_bound=9)
    assert bounded.gap == 0.25
    assert not bounded.is_optimal
    assert replace(greedy, cost=0, lower_bound=0).gap == 0


def test_auto_runs_quick_proofs():
    best = plan(lion(), objective="fma", time_limit=FOR_EVER, cache=False)
    assert best.is_optimal
    assert (best.cost, best.scope) == (11, "face")
    assert plan(lion(), objective="fma", effort="fast", cache=False).lower_bound is None
    assert plan(lion(), objective="operations", cache=False).lower_bound is None


@settings(max_examples=20)
@given(graph=graphs(sized=True), objective=COUNTED)
def test_no_method_is_cheaper_than_the_bound_for_all(graph, objective):
    bound = lower_bound(graph, objective)
    for method in methods():
        assert plan(graph, method, objective, iterations=50, time_limit=FOR_EVER, cache=False).cost >= bound


@pytest.mark.parametrize("objective", [Objective.FMA, Objective.MULTIPLICATIONS])
def test_dense_graphs_are_proven_in_compiled_code(objective):
    """A result for every pair of ends, once with another vertex between them: too many products for Python's loops."""
    ends = [("s", f"x{k}", f"a{k}") for k in range(150)] + [(f"y{k}", "t", f"b{k}") for k in range(150)]
    for middle in ([], [("t", "s", "c")]):
        edges = ends if middle else [("t" if j == "s" else j, i, label) for j, i, label in ends]
        graph = DifferentiationGraph([*edges, *middle])
        optimum = 150 * 150 + 150 * len(middle)
        order = forward_order(graph)
        proof = OptimumProof(graph, objective, order)
        state = Elimination.of(graph, objective)
        costs = []
        for v in order:
            costs.append(state.cost(v)[0])
            state.eliminate(v)
        assert proof.cost("vertex") == sum(costs) == optimum
        assert middle or proof.bound("face") == optimum


@pytest.mark.parametrize("time_limit", [1e-3, 0.05])
@pytest.mark.parametrize("method", ["exact-vertex", "exact-edge", "exact-face", "auto"])
def test_long_searches_hand_back_a_plan_and_a_bound_in_time(method, time_limit):
    """Graphs that no search finishes: large ones, wide ones, and some with the largest sizes."""
    largest = dict.fromkeys("yabcx", LARGEST_SIZE)
    for graph in (
        random_dag(2_000, 6_000),
        layered(layers=20, width=5, degree=2),
        DifferentiationGraph([(f"y{k}", "v") for k in range(300)] + [("v", f"x{k}") for k in range(300)]),
        DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x"), ("a", "x")], sizes=largest),
    ):
        made = plan(graph, method, "fma", time_limit=time_limit, cache=False)
        made.verify()
        assert made.lower_bound is None or 0 < made.lower_bound <= made.cost
