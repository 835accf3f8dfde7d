"""The rules as the notes print them, on every small line graph: they keep the Jacobian exactly under our conditions."""

from __future__ import annotations

import random
from itertools import permutations, product

import pytest
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st
from inside import FaceElimination
from line_graphs import consistent
from path_sums import check

from accumulus import DifferentiationGraph
from accumulus.errors import OrderError
from accumulus.theory.methods.edges_and_faces import absorb, fill_in, merge_equal

PRIME = 2**61 - 1
INNER = 4
ROOT, TERMINAL = INNER, INNER + 1


class Printed:
    """Sets P and S and labels c of a small line graph with one root and one terminal, to be changed as printed."""

    def __init__(self, successors, rng):
        self.S = {v: set(S) for v, S in successors.items()}
        self.P = {v: {p for p in successors if v in successors[p]} for v in [*range(INNER), TERMINAL]}
        self.c = {v: rng.randrange(PRIME) for v in range(INNER)}

    def copy(self):
        other = object.__new__(Printed)
        other.S = {v: set(S) for v, S in self.S.items()}
        other.P = {v: set(P) for v, P in self.P.items()}
        other.c = dict(self.c)
        return other

    def set_successors(self, v, S):
        for s in self.S.get(v, set()) - S:
            self.P[s].discard(v)
        for s in S:
            self.P[s].add(v)
        self.S[v] = set(S)

    def set_predecessors(self, v, P):
        for p in self.P.get(v, set()) - P:
            self.S[p].discard(v)
        for p in P:
            self.S[p].add(v)
        self.P[v] = set(P)

    def value(self):
        values = {TERMINAL: 1}

        def below(v):
            if v not in values:
                values[v] = self.c.get(v, 1) * sum(below(s) for s in self.S[v]) % PRIME
            return values[v]

        return below(ROOT)

    def mirror(self):
        """Return the graph read backwards: a mirrored rule on this graph is the rule on that one."""
        swap = {ROOT: TERMINAL, TERMINAL: ROOT}
        other = object.__new__(Printed)
        other.S = {swap.get(v, v): {swap.get(p, p) for p in P} for v, P in self.P.items()}
        other.P = {swap.get(v, v): {swap.get(s, s) for s in S} for v, S in self.S.items()}
        other.c = dict(self.c)
        return other


def small_line_graphs():
    """Every graph of four inner vertices, each on a path from the root to the terminal."""
    rng = random.Random(0)
    pairs = [(i, j) for i in range(INNER) for j in range(i + 1, INNER)]
    for bits in product((False, True), repeat=len(pairs) + 2 * INNER):
        successors = {v: set() for v in range(INNER)}
        successors[ROOT] = {v for v in range(INNER) if bits[v]}
        for v in range(INNER):
            if bits[INNER + v]:
                successors[v].add(TERMINAL)
        for (i, j), there in zip(pairs, bits[2 * INNER :], strict=True):
            if there:
                successors[i].add(j)
        if all(successors.values()) and set(range(INNER)) <= set.union(*successors.values()):
            yield Printed(successors, rng)


@pytest.fixture(scope="module")
def line_graphs():
    printed = list(small_line_graphs())
    return printed + [graph.mirror() for graph in printed[::3]]


def test_absorption_as_printed_needs_a_single_predecessor(line_graphs):
    outcomes = set()
    for graph in line_graphs:
        for i, j, k in permutations(range(INNER), 3):
            if j in graph.S[i] and graph.P[k] == graph.P[i] and graph.S[k] < graph.S[j]:
                after = graph.copy()
                after.c[k] += after.c[i] * after.c[j]
                after.set_successors(j, after.S[j] - after.S[k])
                needed = graph.P[j] == {i}
                assert (after.value() == graph.value()) == needed
                outcomes.add(needed)
    assert outcomes == {True, False}


def test_fill_in_as_printed(line_graphs):
    outcomes = set()
    for graph in line_graphs:
        for i, j, k in product(range(INNER), repeat=3):
            if not (j in graph.S[i] and graph.P[k] == graph.P[i] and graph.S[k] > graph.S[j]):
                continue
            label = graph.c[i] * graph.c[j] + graph.c[k]
            before, covered = graph.value(), set(graph.S[j])
            for removed in (True, False):  # a vertex of its own
                after = graph.copy()
                after.set_successors(k, after.S[k] - covered)
                after.c["new"] = label
                after.set_predecessors("new", after.P[i])
                after.set_successors("new", covered)
                if removed:
                    after.set_successors(i, after.S[i] - {j})
                assert (after.value() == before) == removed
            after = graph.copy()  # i reused
            after.set_successors(k, after.S[k] - covered)
            after.c[i] = label
            after.set_successors(i, covered)
            needed = graph.S[i] - (covered if k == i else set()) == {j}
            assert (after.value() == before) == needed
            outcomes.add(("i", needed))
            after = graph.copy()  # j reused
            after.set_successors(k, after.S[k] - covered)
            after.c[j] = label
            after.set_predecessors(j, graph.P[i])
            assert (after.value() == before) == (graph.P[j] == {i})
            outcomes.add(("j", graph.P[j] == {i}))
    assert len(outcomes) == 4


def test_merge_as_printed_needs_all_predecessors(line_graphs):
    outcomes = set()
    for graph in line_graphs:
        for i, k in permutations(range(INNER), 2):
            if graph.S[k] == graph.S[i] and graph.P[k] & graph.P[i]:
                after = graph.copy()
                after.c[i] += after.c[k]
                after.set_predecessors(k, after.P[k] - after.P[i])
                needed = graph.P[k] >= graph.P[i]
                assert (after.value() == graph.value()) == needed
                outcomes.add(needed)
    assert outcomes == {True, False}


def applications(elimination):
    """Everything that the three rules can be applied to, as (rule, arguments)."""
    P, S = elimination.predecessors, elimination.successors
    inner, actual = elimination.vertices(), []
    for i in inner:
        for k in inner:
            same_p, same_s = P[k].keys() == P[i].keys(), S[k].keys() == S[i].keys()
            if k != i and ((same_s and P[k].keys() > P[i].keys()) or (same_p and S[k].keys() > S[i].keys())):
                actual.append((merge_equal, (i, k)))
    for i, j in elimination.faces():
        for k in inner:
            same_p, same_s = P[k].keys() == P[i].keys(), S[k].keys() == S[j].keys()
            if (same_p and S[k].keys() < S[j].keys()) or (same_s and P[k].keys() < P[i].keys()):
                actual.append((absorb, (i, j, k)))
            if (same_p and S[k].keys() > S[j].keys()) or (same_s and P[k].keys() > P[i].keys()):
                actual.append((fill_in, (i, j, k)))
    return actual


@given(graphs(10), st.randoms(use_true_random=False))
def test_the_rules_keep_the_jacobian(graph, rng):
    elimination = FaceElimination(graph)
    for _ in range(60):
        faces, actual = elimination.faces(), applications(elimination)
        if not faces:
            check(elimination.finish())
            return
        v = rng.choice(elimination.vertices())
        before = len(elimination.steps)
        if actual and rng.random() < 0.7:
            rule, arguments = rng.choice(actual)
            products = sum(elimination.steps.is_product)
            rule(elimination, *arguments, **({"split": True} if rule is absorb else {}))
            assert sum(elimination.steps.is_product) - products == (rule is not merge_equal)
            assert len(elimination.steps) > before
        elif len(elimination.successors[v]) > 1 and rng.random() < 0.3:
            elimination.split(v, successors=[next(iter(elimination.successors[v]))])
        else:
            elimination.eliminate(*rng.choice(faces))
        consistent(elimination)
    while faces := elimination.faces():
        if len(elimination.steps) > 500:
            return
        elimination.eliminate(*faces[0])
    check(elimination.finish())


def test_absorption_without_its_condition_is_refused():
    edges = [("y", "a"), ("h", "a"), ("a", "b"), ("b", "x"), ("b", "z"), ("y", "b")]
    elimination = FaceElimination(DifferentiationGraph(edges))
    k = elimination.split(5, successors=[3])
    with pytest.raises(OrderError, match=r"⟨a,b⟩ has more than one predecessor.*split=True"):
        absorb(elimination, 0, 2, k)
    assert absorb(elimination, 0, 2, k, split=True) == k
    assert (0, 2) in elimination.faces()
    elimination = FaceElimination(DifferentiationGraph([edge for edge in edges if edge[0] != "h"]))
    k = elimination.split(4, successors=[2])
    assert absorb(elimination, 0, 1, k) == k
    assert list(elimination.successors[1]) == [3]


def test_mismatches_raise():
    elimination = FaceElimination(DifferentiationGraph([("y", "a"), ("h", "a"), ("a", "b"), ("b", "x")]))
    with pytest.raises(OrderError, match=r"cannot absorb.*P_k = P_i and S_k ⊂ S_j"):
        absorb(elimination, 0, 2, 1)
    with pytest.raises(OrderError, match=r"cannot fill in.*P_k = P_i and S_k ⊃ S_j"):
        fill_in(elimination, 0, 2, 1)
    with pytest.raises(OrderError, match="no face"):
        absorb(elimination, 0, 3, 1)
    with pytest.raises(OrderError, match="expected another vertex"):
        merge_equal(elimination, 0, 0)
    with pytest.raises(OrderError, match="not an inner vertex"):
        fill_in(elimination, 0, 2, 999)
