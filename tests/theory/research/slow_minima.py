"""The minima by other routes: slow, short, and without anything in common with `accumulus.theory.research`."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from inside import FaceElimination
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array


def paths(graph):
    """All paths from roots to terminals as tuples of edges, by (root, terminal)."""
    results = {}

    def walk(root, v, path):
        if v in graph.terminals:
            results.setdefault((root, v), set()).add(path)
        for e in graph.out_edges[v]:
            walk(root, int(graph.targets[e]), (*path, e))

    for root in graph.roots:
        walk(root, root, ())
    return results


def least_by_trying(graph):
    """The fewest products by trying all programs: any sums of disjoint values, of whatever ends, times any others."""
    outputs = [frozenset(words) for words in paths(graph).values()]
    pieces = {
        word[i:j] for words in outputs for word in words for i in range(len(word)) for j in range(i + 1, len(word) + 1)
    }
    labels = frozenset(frozenset([(e,)]) for e in range(len(graph.sources)))

    def sums(values):
        results = {frozenset()}
        for value in values:
            results |= {total | value for total in results if not total & value}
        return results - {frozenset()}

    def is_sum(output, values):
        within = [value for value in values if value <= output]
        return output in sums(within)

    def reachable(values, products, seen):
        missing = [output for output in outputs if not is_sum(output, values)]
        if not missing:
            return True
        # outputs share no words, so each takes a product of its own
        if len(missing) > products or values in seen:
            return False
        seen.add(values)
        new = set()
        for v in graph.intermediates:
            # words that do not meet make no path, and what is no piece of one never gets into an output
            lefts = [value for value in values if all(graph.targets[word[-1]] == v for word in value)]
            rights = [value for value in values if all(graph.sources[word[0]] == v for word in value)]
            for left in sums(lefts):
                for right in sums(rights):
                    words = [one + other for one in left for other in right]
                    if pieces.issuperset(words) and len(set(words)) == len(words):
                        new.add(frozenset(words))
        return any(reachable(values | {value}, products - 1, seen) for value in new - values)

    products = 0
    while not reachable(labels, products, set()):
        products += 1
    return products


def least_by_integers(graph):
    """The fewest products as an integer program over all values and all products of the graph."""
    outputs = {ends: frozenset(words) for ends, words in paths(graph).items()}
    between = {}
    for words in outputs.values():
        for word in words:
            for i in range(len(word)):
                for j in range(i + 1, len(word) + 1):
                    ends = int(graph.sources[word[i]]), int(graph.targets[word[j - 1]])
                    between.setdefault(ends, set()).add(word[i:j])

    def proper(words):
        return frozenset(word for word in words if len(word) > 1)

    subsets = {
        ends: [frozenset(some) for size in range(1, len(words) + 1) for some in combinations(sorted(words), size)]
        for ends, words in between.items()
    }
    variables = {}

    def number(key):
        return variables.setdefault(key, len(variables))

    rows = []  # (coefficients, least, most)
    products = {}
    for start, middle in between:
        for other, end in between:
            if middle == other and (start, end) in between:
                for left in subsets[start, middle]:
                    for right in subsets[middle, end]:
                        product = number((start, middle, end, left, right))
                        words = frozenset(one + two for one in left for two in right)
                        products.setdefault((start, end), []).append((product, words))
                        for ends, factor in (((start, middle), left), ((middle, end), right)):
                            if proper(factor):
                                rows.append(({product: 1, number((ends, proper(factor))): -1}, -np.inf, 0))
    costs = {variables[key] for key in variables if len(key) == 5}
    for ends, values in subsets.items():
        for value in {proper(value) for value in values} - {frozenset()}:
            needed = number((ends, value))
            usable = [(product, words) for product, words in products.get(ends, []) if words <= value]
            for product, _ in usable:
                rows.append(({number((ends, value, product)): 1, product: -1}, -np.inf, 0))
            for word in value:
                row = {number((ends, value, product)): 1 for product, words in usable if word in words}
                rows.append(({**row, needed: -1}, 0, 0))
    lower = np.zeros(len(variables))
    for ends, words in outputs.items():
        if proper(words):
            lower[variables[ends, proper(words)]] = 1
    entries = [(k, column, value) for k, (row, _, _) in enumerate(rows) for column, value in row.items()]
    if not entries:
        return 0
    where, columns, values = zip(*entries, strict=True)
    matrix = coo_array((values, (where, columns)), shape=(len(rows), len(variables))).tocsr()
    cost = np.array([float(k in costs) for k in range(len(variables))])
    result = milp(
        cost,
        integrality=np.ones(len(variables)),
        bounds=Bounds(lower, 1),
        constraints=LinearConstraint(matrix, [row[1] for row in rows], [row[2] for row in rows]),
    )
    assert result.success
    return round(result.fun)


def least_faces_by_trying(graph):
    """The fewest face eliminations by trying every sequence, breadth first."""
    reached, count = {(): ()}, 0
    while True:
        further = {}
        for sequence in reached.values():
            elimination = FaceElimination(graph)
            for face in sequence:
                elimination.eliminate(*face)
            if not elimination.faces():
                return count
            for face in elimination.faces():
                after = FaceElimination(graph)
                for old in (*sequence, face):
                    after.eliminate(*old)
                state = tuple(
                    (v, tuple(sorted(after.predecessors[v])), tuple(sorted(after.successors[v])))
                    for v in after.vertices()
                )
                further.setdefault(state, (*sequence, face))
        reached, count = further, count + 1
