"""`Accumulation.verify`: lets pass what computes the Jacobian, and nothing else.

A mutated accumulation may still be right (a sum turned round, a product of units). What it computes is therefore worked
out as polynomials in the labels, which do not commute, and verify must refuse exactly those whose polynomials differ.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from graph_strategies import graphs, orders
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from path_sums import all_paths, as_numbers, polynomials

from accumulus import Accumulation, DifferentiationGraph, Kind, methods, plan
from accumulus.elimination import accumulation as module
from accumulus.elimination.accumulation import Steps
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.errors import VerificationError

LADDER = DifferentiationGraph(
    [
        ("y", "a"),
        ("y", "b", -1),
        ("z", "b"),
        ("a", "b"),
        ("a", "c"),
        ("b", "c", 2.0),
        ("c", "x"),
        ("c", "w"),
        ("b", "w"),
    ]
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Even small programs are verified in several calls."""
    monkeypatch.setattr(module, "CHUNK", 2)


def with_step(accumulation: Accumulation, position: int, step: tuple[int, int, int]) -> Accumulation:
    steps = Steps(accumulation.steps.edges)
    for k, given_step in enumerate(accumulation.steps):
        is_product, left, right = step if k == position else given_step
        (steps.product if is_product else steps.sum)(left, right)
    return replace(accumulation, steps=steps)


def mutants(accumulation: Accumulation):
    """Every accumulation that differs in one step or in one entry."""
    edges = accumulation.steps.edges
    for position, (is_product, left, right) in enumerate(accumulation.steps):
        yield with_step(accumulation, position, (1 - is_product, left, right))
        yield with_step(accumulation, position, (is_product, right, left))
        for other in range(edges + position):
            yield with_step(accumulation, position, (is_product, other, right))
            yield with_step(accumulation, position, (is_product, left, other))
    entries = dict(accumulation.entries)
    for entry, reference in entries.items():
        yield replace(accumulation, entries={e: r for e, r in entries.items() if e != entry})
        for other, its_reference in entries.items():
            yield replace(accumulation, entries={**entries, entry: its_reference, other: reference})
        for any_reference in range(edges + len(accumulation.steps)):
            yield replace(accumulation, entries={**entries, entry: any_reference})
    graph = accumulation.graph
    for root in range(len(graph.roots)):
        for terminal in range(len(graph.terminals)):
            if edges and (root, terminal) not in entries:
                yield replace(accumulation, entries={**entries, (root, terminal): 0})


def is_accepted(accumulation: Accumulation, seed: int = 0) -> bool:
    try:
        accumulation.verify(seed)
    except VerificationError:
        return False
    return True


def is_right(accumulation: Accumulation) -> bool:
    """Return True if the sums of paths are right, and not only because 1 and −1 cancel."""
    graph = accumulation.graph
    actual, expected = polynomials(accumulation), all_paths(graph)
    several = len({Kind.ONE, Kind.MINUS_ONE}.intersection(map(Kind, graph.kinds.tolist()))) == 2
    signs = (-1, 1) if several else (-1,)
    return all(as_numbers(graph, actual, sign) == as_numbers(graph, expected, sign) for sign in signs)


@given(graph=graphs(), data=st.data(), seed=st.integers(0, 2**32))
def test_right_ones_pass(graph, data, seed):
    assert eliminate_vertices(graph, data.draw(orders(graph))).verify(seed) is None


def test_every_mutant_of_one_step_is_judged_right():
    accumulation = eliminate_vertices(LADDER, LADDER.intermediates)
    verdicts = [(is_accepted(mutant), is_right(mutant)) for mutant in mutants(accumulation)]
    assert all(passed == right for passed, right in verdicts)
    assert sum(right for _, right in verdicts) < 0.2 * len(verdicts), "the test would say nothing"


@settings(max_examples=15)
@given(graph=graphs(vertices=6), data=st.data())
def test_mutants_of_random_accumulations_are_judged_right(graph, data):
    accumulation = eliminate_vertices(graph, data.draw(orders(graph)))
    several = list(mutants(accumulation))
    assume(several)
    for mutant in data.draw(st.lists(st.sampled_from(several), min_size=1, max_size=20)):
        assert is_accepted(mutant) == is_right(mutant)


def test_the_message_names_the_root():
    accumulation = eliminate_vertices(LADDER, LADDER.intermediates)
    row = LADDER.roots.index(LADDER.vertices.index("z"))
    entries = {entry: reference for entry, reference in accumulation.entries.items() if entry[0] != row}
    with pytest.raises(VerificationError, match="derivatives of root 'z'"):
        replace(accumulation, entries=entries).verify()


def chain(*labels: object, sizes: dict[str, int] | None = None) -> DifferentiationGraph:
    names = "yabcdx"[: len(labels)] + "x"
    return DifferentiationGraph(
        [(*ends, label) for ends, label in zip(pairwise(names), labels, strict=False)], sizes=sizes
    )


def turned(graph: DifferentiationGraph, *products: tuple[int, int]) -> Accumulation:
    """Products of two references each; the last one is the only entry."""
    steps = Steps(len(graph.sources))
    for left, right in products:
        steps.product(left, right)
    return Accumulation(graph, steps, {(0, 0): len(graph.sources) + len(steps) - 1})


def test_the_order_of_factors_counts():
    four = chain(None, None, None, None)
    for seed in range(20):
        turned(four, (0, 1), (2, 3), (4, 5)).verify(seed)
        turned(four, (1, 2), (0, 4), (5, 3)).verify(seed)
        for wrong in [
            *([(1, 0), (2, 3), (4, 5)], [(0, 1), (3, 2), (4, 5)], [(0, 1), (2, 3), (5, 4)]),
            *([(1, 0), (3, 2), (4, 5)], [(1, 0), (3, 2), (5, 4)], [(0, 2), (1, 3), (4, 5)], [(0, 3), (1, 2), (4, 5)]),
        ]:
            with pytest.raises(VerificationError, match="derivatives of root"):
                turned(four, *wrong).verify(seed)


def test_units_and_sums_commute():
    graph = chain(None, -1, None)
    turned(graph, (1, 0), (3, 2)).verify()
    turned(graph, (0, 2), (1, 3)).verify()
    with pytest.raises(VerificationError):
        turned(graph, (2, 1), (3, 0)).verify()


def test_every_structural_nonzero_has_an_entry():
    """Also one whose paths cancel: 1 · 1 - 1 is 0, at every point, and a place of the sparse result all the same."""
    graph = DifferentiationGraph([("y", "a", 1), ("a", "x", 1), ("y", "x", -1), ("y", "w"), ("a", "w")])
    right = eliminate_vertices(graph, graph.intermediates)
    right.verify()
    for entry in right.entries:
        with pytest.raises(VerificationError, match="derivatives of root"):
            replace(right, entries={e: r for e, r in right.entries.items() if e != entry}).verify()


def test_sizes_have_to_match():
    sizes = {"y": 2, "a": 3, "x": 3}
    graph = DifferentiationGraph([("y", "a"), ("a", "x"), ("y", "x", "s"), ("z", "x")], sizes={**sizes, "z": 3})
    right = eliminate_vertices(graph, graph.intermediates)
    right.verify()
    steps = Steps(4)
    steps.product(1, 0)
    with pytest.raises(VerificationError, match="step 4 is the product of a 3 × 3 and a 2 × 3 label"):
        Accumulation(graph, steps, {}).verify()
    steps = Steps(4)
    steps.sum(steps.product(0, 1), 1)
    with pytest.raises(VerificationError, match="step 5 is the sum of a 2 × 3 and a 3 × 3 label"):
        Accumulation(graph, steps, {}).verify()
    with pytest.raises(VerificationError, match=r"entry .* is a label of sizes"):
        replace(right, entries={**right.entries, (0, 0): right.entries[1, 0], (1, 0): right.entries[0, 0]}).verify()


def test_steps_of_another_graph():
    with pytest.raises(VerificationError, match="begin after 2 labels; expected the graph's 3"):
        replace(turned(chain(None, None), (0, 1)), graph=chain(None, None, None)).verify()


@pytest.mark.parametrize("method", methods())
@settings(max_examples=3)
@given(graph=graphs(vertices=8, sized=True, labels=(1, -1, 2.0, None, Kind.CONSTANT)), seed=st.integers(0, 5))
def test_every_method_keeps_the_order_of_factors(method, graph, seed):
    made = plan(graph, method, "fma", time_limit=0.05, seed=seed, cache=False)
    assert as_numbers(graph, polynomials(made.accumulation)) == as_numbers(graph, all_paths(graph))


#: Steps and entries that refer to what is not there, for the two edges of a chain.
DANGLING = {
    "step uses itself": ([(0, 2)], {(0, 0): 2}),
    "step uses a later one": ([(0, 3), (0, 1)], {(0, 0): 3}),
    "negative argument": ([(0, -1)], {(0, 0): 2}),
    "entry without a step": ([(0, 1)], {(0, 0): 3}),
    "negative entry": ([(0, 1)], {(0, 0): -1}),
    "row that is not there": ([(0, 1)], {(0, 0): 2, (1, 0): 2}),
    "negative row": ([(0, 1)], {(-1, 0): 2}),
    "column that is not there": ([(0, 1)], {(0, 1): 2}),
    "negative column": ([(0, 1)], {(0, -1): 2}),
}


@pytest.mark.parametrize("case", DANGLING)
def test_references_that_are_not_there(case):
    products, entries = DANGLING[case]
    steps = Steps(2)
    for left, right in products:
        steps.product(left, right)
    with pytest.raises(VerificationError, match="expected"):
        Accumulation(DifferentiationGraph([("y", "a"), ("a", "x")]), steps, entries).verify()
