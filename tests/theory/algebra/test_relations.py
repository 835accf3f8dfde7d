from __future__ import annotations

import pytest
from equations import A_SIMPLE, SIX
from hypothesis import given
from hypothesis import strategies as st
from random_sets import plain_graphs, random_accumulation, vertex_elimination

from accumulus.errors import ExpressionError
from accumulus.theory.algebra.expression import Symbol
from accumulus.theory.algebra.relations import Face, Relation, joints, relations
from accumulus.theory.algebra.sets import ExpressionSet
from accumulus.theory.algebra.values import PRODUCT, value_program


def face(text):
    return Face(*map(Symbol, text.split()))


@pytest.mark.parametrize(
    ("text", "relation", "awaits"),
    [
        ("s1|s2s3", "s1 s2", ["s2 s3"]),
        ("s3s1|s2", "s1 s2", ["s3 s1"]),
        ("s3s1|s2s4", "s1 s2", ["s3 s1", "s2 s4"]),
        ("s1|s2", "s1 s2", []),
        ("s1s2", "s1 s2", []),
        (" e_{18} | e_4 * e8 ", "e18 e4", ["e4 e8"]),
    ],
)
def test_parse(text, relation, awaits):
    parsed = Relation.parse(text)
    assert parsed.face == face(relation)
    assert parsed.awaits == tuple(map(face, awaits))
    assert parsed.direct == (text == "s1s2")
    assert Relation.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "character"),
    [("", 0), ("s1", 2), ("s1|", 3), ("|s1", 0), ("s1s2s3", 4), ("s1|s2s3s4", 7), ("s1|s2|s3", 5), ("s1+s2", 2)],
)
def test_bad_relations(text, character):
    with pytest.raises(ExpressionError) as caught:
        Relation.parse(text)
    assert str(caught.value).endswith("\n  " + " " * character + "^")


def test_the_notes_example():
    # e4 and e8 are multiplied in ∂v-2/∂v12, and through a parenthesis in s5
    results = [str(relation) for relation in relations(SIX)]
    for text in ("e4*e8", "e4|e8*e11", "e4|e9*e12", "e4*e9", "e18*e4", "e18|e4*e8", "e18|e4*s4", "e5|e8*e11"):
        assert text in results
    # through references: s5 = e18*(…) in s5*e13
    assert "s1*e11|e13" in results
    assert "e3*e7|e11" in results


def test_parentheses_on_both_sides():
    results = [str(relation) for relation in relations(A_SIMPLE) if not relation.direct]
    assert {"e1*e3|e5*e7", "e1*e3|e6*e8", "e2*e4|e5*e7", "e2*e4|e6*e8"} < set(results)
    assert "(e1*e3 + e2*e4)|e5*e7" in results


def test_added_only():
    results = [str(relation) for relation in relations(ExpressionSet.parse("a*(b + c)*d"))]
    assert results == ["a*(b + c)", "(b + c)*d", "a|b", "a|c", "b|d", "c|d"]


@given(plain_graphs(), st.integers(0, 10**6), st.sampled_from([vertex_elimination, random_accumulation]))
def test_joints_are_the_faces_of_the_graph(graph, seed, make):
    program = value_program(make(graph, seed))
    edges = len(graph.sources)
    results = {(joint.left, joint.right) for joint in joints(program) if max(joint.left, joint.right) < edges}
    live = graph.live_edges
    assert results == {
        (e, f)
        for e in range(edges)
        for f in range(edges)
        if live[e] and live[f] and graph.targets[e] == graph.sources[f]
    }
    products = [value for value in program.live() if program.kinds[value] == PRODUCT]
    assert sum(joint.direct for joint in joints(program)) == len(products)
    for joint in joints(program):
        assert program.ends[joint.left][1] == program.ends[joint.right][0]
