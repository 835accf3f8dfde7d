from __future__ import annotations

import pytest
from equations import B_REFERENCE, SIX
from hypothesis import given
from hypothesis import strategies as st
from random_sets import plain_graphs, random_accumulation, vertex_elimination

from accumulus.theory.algebra.relations import (
    Dependencies,
    Face,
    Relation,
    TermMerge,
    elimination_dependencies,
    program_dependencies,
)
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import running_order, value_program

EIGHT = ["s1|s2s3", "s2|s3s4", "s5s3|s4", "s6s5|s3", "s7s6|s5", "s8s7|s6", "s8|s7s1", "s7|s1s2"]
SEEDS = st.integers(0, 10**6)


def test_the_notes_eight_relations_are_circular():
    dependencies = elimination_dependencies(map(Relation.parse, EIGHT))
    assert not dependencies.is_acyclic
    assert dependencies.order == ()
    assert [str(face) for face in dependencies.cycle] == [
        "⟨s1, s2⟩",
        "⟨s2, s3⟩",
        "⟨s3, s4⟩",
        "⟨s5, s3⟩",
        "⟨s6, s5⟩",
        "⟨s7, s6⟩",
        "⟨s8, s7⟩",
        "⟨s7, s1⟩",
    ]
    assert dependencies.explain_cycle().splitlines()[2] == "  ⟨s3, s4⟩ waits for ⟨s5, s3⟩: s5*s3|s4"


@pytest.mark.parametrize("left_out", range(8))
def test_without_one_of_them_there_is_an_order(left_out):
    given_relations = [Relation.parse(text) for k, text in enumerate(EIGHT) if k != left_out]
    dependencies = elimination_dependencies(given_relations)
    assert dependencies.is_acyclic
    assert dependencies.cycle == ()
    assert dependencies.explain_cycle() == ""
    position = {face: k for k, face in enumerate(dependencies.order)}
    assert all(position[other] < position[node] for node, other in dependencies.edges)


def test_either_of_two_will_do():
    both_sides = Relation.parse("s3s1|s2s4")
    one_way = [both_sides, Relation.parse("s3|s1s2")]
    assert elimination_dependencies(one_way).is_acyclic
    assert not elimination_dependencies([*one_way, Relation.parse("s1s2|s4")]).is_acyclic


def test_sets():
    for expressions in (SIX, B_REFERENCE):
        assert elimination_dependencies(expressions).is_acyclic
    # e4·e8 of ∂v-2/∂v12 has to wait for e8·e11 of s4
    edges = [tuple(map(str, pair)) for pair in elimination_dependencies(SIX).edges]
    assert ("⟨e4, e8⟩", "⟨e8, e11⟩") in edges
    assert ("⟨e4, e9⟩", "⟨e9, e12⟩") in edges


def test_lemma_1_is_the_shortest_circle():
    wasteful = ExpressionSet.parse("s1 = a*b; ∂y/∂x = a*(b + c)*d; ∂y/∂z = s1*e + a*c*e; ∂y/∂w = s1*f + a*c*f")
    cycle = elimination_dependencies(wasteful).cycle
    assert len(cycle) == 2
    assert {type(node) for node in cycle} == {Face, TermMerge}
    assert {str(node) for node in cycle} == {"⟨a, b⟩", "merge of b + c"}


def test_a_circle_of_two_faces():
    expressions = ExpressionSet.parse("""
        s1 = b*c;  s2 = a1*b;  s3 = c*d1
        ∂y1/∂x1 = a1*s1*d1;  ∂y1/∂x2 = s2*c*d2
        ∂y2/∂x1 = a2*b*s3;   ∂y2/∂x2 = a2*s1*d2
    """)
    assert elimination_dependencies(expressions).explain_cycle() == (
        "  ⟨b, c⟩ waits for ⟨a1, b⟩: a1*b|c\n  ⟨a1, b⟩ waits for ⟨b, c⟩: a1|b*c"
    )


@given(plain_graphs(units=True), SEEDS, st.sampled_from([vertex_elimination, random_accumulation]))
def test_acyclic_means_there_is_a_schedule(graph, seed, make):
    result = running_order(value_program(make(graph, seed)))
    dependencies = program_dependencies(result.program)
    assert dependencies.is_acyclic == result.complete
    cycle = dependencies.cycle
    assert bool(cycle) != result.complete
    for node, other in zip(cycle, (*cycle[1:], *cycle[:1]), strict=True):
        assert any(other in group for group in dependencies.awaits[node])
        assert not any(set(group) & set(dependencies.order) for group in dependencies.awaits[node] if other in group)
    done: set[Face | TermMerge] = set()
    for node in dependencies.order:
        assert all(done.intersection(group) for group in dependencies.awaits[node])
        done.add(node)


@given(st.dictionaries(st.integers(0, 7), st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=2), max_size=3)))
def test_order_by_brute_force(conditions):
    nodes = [Relation.parse(f"a{k}b{k}").face for k in range(8)]
    awaits = {nodes[k]: tuple(tuple(nodes[m] for m in group) for group in conditions.get(k, ())) for k in range(8)}
    dependencies = Dependencies(awaits)
    done: set[Face] = set()
    while True:
        more = {node for node in nodes if node not in done and all(done.intersection(group) for group in awaits[node])}
        if not more:
            break
        done |= more
    assert set(dependencies.order) == done
    assert bool(dependencies.cycle) == (len(done) < 8)
