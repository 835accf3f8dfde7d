"""Common factors of many paths: every product along its path, shared pairs once, from either end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accumulus.graph.generators import gadgets
from accumulus.theory.methods.dstar import Trees, dstar


class Words:
    """Products as words of letters, one product for each pair of factors."""

    def __init__(self, letters):
        self.words = [(k,) for k in range(letters)]
        self.known = {}

    def product(self, left, right):
        assert (left, right) not in self.known, "a pair is multiplied once"
        self.known[left, right] = len(self.words)
        self.words.append(self.words[left] + self.words[right])
        return self.known[left, right]


def planted(trees, parents, labels):
    """Nodes below the nodes of smaller number; the leaves, and the labels on the way from each to its root."""
    for label in labels:
        trees.add(label)
    for node, parent in enumerate(parents):
        if parent is not None:
            trees.hang(node, parent)
    leaves = [node for node in range(len(parents)) if node not in parents]
    ways = []
    for leaf in leaves:
        way, node = [], leaf
        while node is not None:
            way.append(labels[node])
            node = parents[node]
        ways.append(tuple(way))
    return leaves, ways


@given(st.data(), st.booleans())
def test_leaves_hold_the_products_of_their_paths(data, mirrored):
    # two trees whose vertices are the same, as those of two entries: a label belongs to a vertex and what is above it
    parents, labels, products = [], [], {}
    for _ in range(2):
        start = len(parents)
        for node in range(data.draw(st.integers(1, 12))):
            above = data.draw(st.none() | st.integers(0, node - 1)) if node else None
            parents.append(None if above is None else start + above)
            labels.append(products.setdefault((above, node), len(products)))
    trees, words = Trees(mirrored=mirrored), Words(len(products))
    leaves, ways = planted(trees, parents, labels)
    trees.multiply(leaves, words.product)
    for leaf, way in zip(leaves, ways, strict=True):
        assert trees.parents[leaf] == -1
        assert words.words[trees.labels[leaf]] == (way if mirrored else way[::-1])


def test_factors_of_most_paths_are_multiplied_first():
    # 0-1 is on three paths, 1-2 on two of them: (01)2 and then its two leaves, (01) and its one
    trees, words = Trees(), Words(6)
    leaves, _ = planted(trees, [None, 0, 1, 2, 2, 1], list(range(6)))
    trees.multiply(leaves, words.product)
    assert list(words.known)[:2] == [(0, 1), (6, 2)]
    assert len(words.known) == 5


@pytest.mark.parametrize(("pieces", "products"), [(25, 1_390), (100, 17_343)])
def test_long_chains_with_roots_and_terminals_everywhere(pieces, products):
    accumulation = dstar(gadgets("lion", pieces, "chain"))
    accumulation.verify()
    assert sum(accumulation.steps.is_product) == products
