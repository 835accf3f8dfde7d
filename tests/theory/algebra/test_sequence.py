from __future__ import annotations

from itertools import combinations

import pytest
from equations import A_FULL, A_SIMPLE, B_REFERENCE, B_SIMPLE, CHEAPER, D_SIMPLE, SIX, six_graph
from figures import figure
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import FaceElimination, count, eliminate_faces
from random_sets import attempt, plain_graphs, random_accumulation, vertex_elimination

from accumulus import DifferentiationGraph, Kind
from accumulus.errors import ExpressionError, OrderError
from accumulus.theory.algebra.sequence import LineReplay, elimination_sequence
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import LABEL, PRODUCT, running_order, value_program
from accumulus.theory.methods.dstar import dstar
from accumulus.theory.methods.factorize import factorize

SEEDS = st.integers(0, 10**6)


def faces_in_random_order(graph, seed):
    """Face elimination by Naumann's rules, in a random order."""
    elimination = FaceElimination(graph)
    while faces := elimination.faces():
        seed = seed * 1103515245 + 12345 & 0x7FFFFFFF
        elimination.eliminate(*faces[(seed >> 8) % len(faces)])
    return elimination.finish()


METHODS = {
    "vertices": vertex_elimination,
    "faces": faces_in_random_order,
    "backward": lambda graph, _: factorize(graph),
    "forward": lambda graph, _: factorize(graph, "forward"),
}


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
def test_eliminations_are_read_back_at_equal_cost(method, data):
    graph = data.draw(plain_graphs())
    accumulation = METHODS[method](graph, data.draw(SEEDS))
    cost = value_program(accumulation).multiplications
    result = elimination_sequence(accumulation)
    result.accumulation.verify()
    assert count(result.accumulation, "fma") == cost <= count(accumulation, "fma")
    # in another order than that of the method, so vertices may merge that there did not
    assert count(eliminate_faces(graph, result.faces), "fma") == count(result.naumann, "fma") <= cost
    result.naumann.verify()
    assert ExpressionSet.from_accumulation(result.accumulation).equivalent(
        ExpressionSet.from_accumulation(accumulation)
    )


@given(plain_graphs(), SEEDS)
def test_any_acyclic_set_at_exactly_its_cost(graph, seed):
    accumulation = random_accumulation(graph, seed)
    program = value_program(accumulation)
    actual, error = attempt(elimination_sequence, accumulation)
    if error:
        assert "circular" in error
        assert "waits for" in error
        assert not running_order(program).complete
        return
    actual.accumulation.verify()
    assert count(actual.accumulation, "fma") == program.multiplications == len(actual.products)
    # merging at once saves what the set computes apart
    actual.naumann.verify()
    assert len(actual.faces) == count(actual.naumann, "fma") <= program.multiplications
    assert count(eliminate_faces(graph, actual.faces), "fma") == len(actual.faces)


@given(plain_graphs(units=True), SEEDS)
def test_unit_edges_cost_nothing(graph, seed):
    accumulation = vertex_elimination(graph, seed)
    result = elimination_sequence(accumulation)
    result.accumulation.verify()
    result.naumann.verify()
    assert count(result.accumulation, "fma") <= count(accumulation, "multiplications")
    assert Kind.ONE not in {
        graph.kinds[operand]
        for is_product, *operands in result.accumulation.steps
        if is_product
        for operand in operands
        if operand < len(graph.kinds)
    }


@given(plain_graphs(), SEEDS)
def test_expression_sets(graph, seed):
    expressions = ExpressionSet.from_accumulation(vertex_elimination(graph, seed)).shared()
    assume(running_order(value_program(expressions, graph)).complete)
    result = elimination_sequence(expressions, graph)
    result.accumulation.verify()
    assert count(result.accumulation, "fma") <= expressions.multiplications


@pytest.mark.parametrize(
    ("expressions", "cost", "naumann"),
    [
        (A_SIMPLE, 5, 5),
        (B_REFERENCE, 10, 10),
        (B_SIMPLE, 10, 10),
        (D_SIMPLE, 10, 10),
        (SIX, 26, 26),
        (CHEAPER, 22, 22),
        # what is written twice is computed once, and face elimination adds up what can be
        (A_FULL, 8, 5),
    ],
)
def test_the_notes_equations(expressions, cost, naumann):
    result = elimination_sequence(expressions)
    assert count(result.accumulation, "fma") == cost
    assert count(result.naumann, "fma") == naumann


def test_the_order_in_the_notes_line_graph():
    # "eliminate ⟨e8,e11⟩ and ⟨e9,e12⟩ first"
    products = [str(product) for product in elimination_sequence(SIX, six_graph()).products]
    for first, then in (("⟨e8, e11⟩", "⟨e4, e8⟩"), ("⟨e9, e12⟩", "⟨e4, e9⟩"), ("⟨e8, e11⟩", "⟨e5, e8⟩")):
        assert products.index(first) < products.index(then)


@given(plain_graphs(vertices=10), st.sampled_from([dstar, lambda graph: factorize(graph, "both")]))
def test_other_methods_have_a_sequence_or_a_circle(graph, method):
    accumulation = method(graph)
    actual, error = attempt(elimination_sequence, accumulation)
    if error:
        assert "circular" in error
    else:
        actual.accumulation.verify()
        assert count(actual.accumulation, "fma") <= count(accumulation, "fma")


def can_run(program):
    """Return True if any order of the program's products and sums runs in the line graph, by trying all."""
    values = [value for value in program.live() if program.kinds[value] != LABEL]
    tried = set()

    def extend(done):
        if len(done) == len(values):
            return True
        if frozenset(done) in tried:
            return False
        tried.add(frozenset(done))
        return any(
            runs([*done, value]) and extend([*done, value])
            for value in values
            if value not in done
            and all(operand in done or program.kinds[operand] == LABEL for operand in program.operands[value])
        )

    def runs(order):
        line, vertex = LineReplay(program.graph), {edge: edge for edge in range(len(program.graph.sources))}
        try:
            for value in order:
                operands = [vertex[operand] for operand in program.operands[value]]
                vertex[value] = line.eliminate(*operands) if program.kinds[value] == PRODUCT else line.merge(operands)
            if len(order) == len(values):
                line.finish()
        except (OrderError, KeyError):
            return False
        return True

    return extend([])


@settings(max_examples=30)
@given(plain_graphs(vertices=5), SEEDS)
def test_there_is_a_schedule_exactly_if_some_order_runs(graph, seed):
    program = value_program(random_accumulation(graph, seed))
    assume(len(program) - len(graph.sources) <= 14)
    assert can_run(program) == running_order(program).complete


def test_a_cycle_that_no_order_runs():
    wasteful = ExpressionSet.parse("s1 = a*b; ∂y/∂x = a*(b + c)*d; ∂y/∂z = s1*e + a*c*e; ∂y/∂w = s1*f + a*c*f")
    program = running_order(value_program(wasteful)).program
    assert not can_run(program)
    with pytest.raises(ExpressionError, match=r"circular(.|\n)*⟨a, b⟩ waits for merge of b \+ c: a\|b"):
        elimination_sequence(wasteful)


def test_replay_checks_every_step():
    graph = figure("fig:complex-dag-and-complete-path-dag", "b")
    line = LineReplay(graph)
    with pytest.raises(OrderError, match="no face"):
        line.eliminate(0, 1)
    with pytest.raises(OrderError, match="same P and S"):
        line.merge([0, 1])
    with pytest.raises(OrderError, match="split"):
        line.split(3, predecessors=[0])
    with pytest.raises(OrderError, match="two parts"):
        line.join(0, 1)
    with pytest.raises(OrderError, match="are left"):
        line.finish()


def test_replay_splits_and_joins():
    graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "x")])
    for edges in combinations(range(2), 1):
        line = LineReplay(graph)
        line.join(2, line.split(2, predecessors=edges))
        line.eliminate(edges[0], line.split(2, predecessors=edges))
        line.eliminate(1 - edges[0], 2)
        line.finish().verify()
