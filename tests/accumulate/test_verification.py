"""`Accumulation.verify`: passes what computes the Jacobian, and nothing else.

A mutated accumulation may still be right (a product turned round, a sum of one). What it computes is therefore worked
out as polynomials in the labels, and verify must refuse exactly those whose polynomials differ.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from graph_strategies import graphs, orders
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from path_sums import all_paths, as_numbers, polynomials

from accumulus.accumulate.accumulation import Accumulation, Steps
from accumulus.accumulate.vertex import eliminate_vertices
from accumulus.errors import VerificationError
from accumulus.graph.graph import DifferentiationGraph

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


def passes(accumulation: Accumulation, seed: int = 0) -> bool:
    try:
        accumulation.verify(seed)
    except VerificationError:
        return False
    return True


def is_right(accumulation: Accumulation) -> bool:
    graph = accumulation.graph
    return as_numbers(graph, polynomials(accumulation)) == as_numbers(graph, all_paths(graph))


@given(graph=graphs(), data=st.data(), seed=st.integers(0, 2**32))
def test_right_ones_pass(graph, data, seed):
    assert eliminate_vertices(graph, data.draw(orders(graph))).verify(seed) is None


def test_every_mutant_of_one_step_is_judged_right():
    accumulation = eliminate_vertices(LADDER, LADDER.intermediates)
    verdicts = [(passes(mutant), is_right(mutant)) for mutant in mutants(accumulation)]
    assert all(passed == right for passed, right in verdicts)
    assert sum(right for _, right in verdicts) < 0.2 * len(verdicts), "the test would say nothing"


@settings(max_examples=30)
@given(graph=graphs(vertices=6), data=st.data())
def test_mutants_of_random_accumulations_are_judged_right(graph, data):
    accumulation = eliminate_vertices(graph, data.draw(orders(graph)))
    several = list(mutants(accumulation))
    assume(several)
    for mutant in data.draw(st.lists(st.sampled_from(several), min_size=1, max_size=20)):
        assert passes(mutant) == is_right(mutant)


def test_the_message_names_the_root():
    accumulation = eliminate_vertices(LADDER, LADDER.intermediates)
    row = LADDER.roots.index(LADDER.vertices.index("z"))
    entries = {entry: reference for entry, reference in accumulation.entries.items() if entry[0] != row}
    with pytest.raises(VerificationError, match="derivatives of root 'z'"):
        replace(accumulation, entries=entries).verify()


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
