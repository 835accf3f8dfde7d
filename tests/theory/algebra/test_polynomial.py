from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_sets import plain_graphs, random_accumulation, vertex_elimination

from accumulus.errors import ExpressionError
from accumulus.theory.algebra import expression
from accumulus.theory.algebra.expression import Symbol, equivalent, expand, parse, product_of_factors, sum_of_terms
from accumulus.theory.algebra.sets import ExpressionSet


def test_expand():
    assert expand(parse("(a + b)*(c + d*e)")) == Counter(
        {("a", "c"): 1, ("a", "d", "e"): 1, ("b", "c"): 1, ("b", "d", "e"): 1}
    )
    assert expand(parse("a + a*b + a")) == Counter({("a",): 2, ("a", "b"): 1})
    assert expand(parse("s1*a + s1", ["s1"]), {"s1": parse("b + c")})["b", "a"] == 1
    with pytest.raises(ExpressionError, match="1267650600228229401496703205376"):
        expand(product_of_factors([parse("a + b")] * 100))


@given(st.data())
def test_equivalent_by_expansion_and_by_matrices(data):
    graph = data.draw(plain_graphs())
    one, other = (
        ExpressionSet.from_accumulation(make(graph, data.draw(st.integers(0, 10**6))))
        for make in (random_accumulation, vertex_elimination)
    )
    assert one.equivalent(other)
    key = data.draw(st.sampled_from(list(one.entries)))
    words = sorted(expand(one.entries[key], one.references))
    # another order of factors, or another number of words, is another polynomial
    changed = [*words[1:], words[0][::-1]] if len(words[0]) > 1 else [*words, words[0]]
    wrong = sum_of_terms(product_of_factors(map(Symbol, word)) for word in changed)
    for cheap in (2000, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(expression, "_CHEAP", cheap)
            assert equivalent(one.entries[key], other.entries[key], one.references, other.references)
            assert not equivalent(one.entries[key], wrong, one.references)


def test_matrices_are_large_enough():
    # the standard identity of degree four vanishes on all 2×2 matrices
    signs = {True: [], False: []}
    for order in ("abcd", "acdb", "adbc", "bcad", "bdca", "badc", "cabd", "cbda", "cdab", "dacb", "dbac", "dcba"):
        signs[True].append(product_of_factors(map(Symbol, order)))
        signs[False].append(product_of_factors(map(Symbol, (order[1], order[0], *order[2:]))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expression, "_CHEAP", 0)
        assert not equivalent(sum_of_terms(signs[True]), sum_of_terms(signs[False]))


def test_huge_sets_are_compared():
    rng = random.Random(0)
    factors = [parse(f"a{k} + b{k}") for k in range(40)]
    nested = factors[0]
    for factor in factors[1:]:
        nested = nested * factor
    pairs = [one * other for one, other in zip(factors[::2], factors[1::2], strict=True)]
    assert equivalent(nested, product_of_factors(pairs))
    swapped = [*factors]
    k = rng.randrange(39)
    swapped[k], swapped[k + 1] = swapped[k + 1], swapped[k]
    assert not equivalent(nested, product_of_factors(swapped))
