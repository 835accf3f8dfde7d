"""Oracles: what compiled elimination, verification and counting do, as plain Python that is easily read."""

from __future__ import annotations

import heapq
import random

from inside import Elimination, Steps

from accumulus import Accumulation, Kind
from accumulus.elimination.vertex import UNLIMITED, Priced

PRIME = 2**61 - 1
UNITS = (Kind.ONE, Kind.MINUS_ONE)


def plain_elimination(graph, order):
    """`accumulus.elimination.vertex.eliminate_vertices`."""
    steps = Steps(len(graph.sources))
    successors = [{} for _ in graph.vertices]
    predecessors = [set() for _ in graph.vertices]
    for e in graph.live_edges.nonzero()[0].tolist():
        j, i = int(graph.sources[e]), int(graph.targets[e])
        label = successors[j].get(i)
        successors[j][i] = e if label is None else steps.sum(label, e)
        predecessors[i].add(j)

    for k in order:
        # sorted, so that a plan does not depend on how a set happens to be laid out
        for j in sorted(predecessors[k]):
            row = successors[j]
            c_jk = row.pop(k)
            for i, c_ki in successors[k].items():
                product = steps.product(c_jk, c_ki)
                label = row.get(i)
                if label is None:
                    row[i] = product
                    predecessors[i].add(j)
                else:
                    row[i] = steps.sum(label, product)
        for i in successors[k]:
            predecessors[i].discard(k)
        successors[k] = {}

    column = {terminal: position for position, terminal in enumerate(graph.terminals)}
    entries = {
        (position, column[i]): reference
        for position, root in enumerate(graph.roots)
        for i, reference in sorted(successors[root].items(), key=lambda item: column[item[0]])
    }
    return Accumulation(graph, steps, entries)


class _Counting:
    """An elimination that counts products and additions of labels beside their cost."""

    def __init__(self, graph, objective):
        self.state = Elimination.of(graph, objective)
        self.total = self.tie = self.products = self.additions = 0

    def eliminate(self, k, limit):
        """Eliminate a vertex; return True if the cost stays within the limit."""
        state = self.state
        cost, tie = state.cost(k)
        above, below = len(state.predecessors[k]), len(state.successors[k])
        self.total += cost
        self.tie += tie
        self.products += above * below
        if self.total > limit.cost or self.products > limit.products:
            return False
        before = sum(map(len, state.successors))
        state.eliminate(k)
        self.additions += above * below - (sum(map(len, state.successors)) - before + above + below)
        return True

    @property
    def priced(self):
        return Priced((self.total, self.tie), self.products, self.additions)


def plain_price(graph, order, objective, limit=UNLIMITED):
    """`accumulus.elimination.vertex.price`."""
    counting = _Counting(graph, objective)
    return counting.priced if all(counting.eliminate(k, limit) for k in order) else None


def plain_markowitz(graph, objective, limit=UNLIMITED):
    """`accumulus.elimination.vertex.markowitz_order`."""
    counting = _Counting(graph, objective)
    state = counting.state
    rank = {k: -position for position, k in enumerate(state.intermediates)}

    def key(k):
        return state.cost(k), len(state.predecessors[k]), rank[k]

    current = {k: key(k) for k in state.intermediates}
    heap = [(score, k) for k, score in current.items()]
    heapq.heapify(heap)
    order = []
    while heap:
        score, k = heapq.heappop(heap)
        if current.get(k) != score:
            continue  # has been pushed again with another key, or is gone
        neighbours = [v for v in (*state.predecessors[k], *state.successors[k]) if v in current and v != k]
        if not counting.eliminate(k, limit):
            return None
        del current[k]
        order.append(k)
        for v in neighbours:
            new = key(v)
            if new != current[v]:
                current[v] = new
                heapq.heappush(heap, (new, v))
    return counting.priced, (*order, *state.dead)


def plain_count(accumulation, every_product):
    """`accumulus.elimination.emit.count` of products."""
    graph = accumulation.graph
    kinds = graph.kinds.tolist()
    sizes = graph.sizes.tolist()
    rows = graph.sources.tolist()
    columns = graph.targets.tolist()
    total = 0
    for is_product, left, right in accumulation.steps:
        a, b = kinds[left], kinds[right]
        if not is_product:
            kind = max(a, b, Kind.CONSTANT)
        elif a in UNITS:
            kind = b if a == Kind.ONE or b not in UNITS else Kind.ONE + Kind.MINUS_ONE - b
        else:
            kind = a if b in UNITS else max(a, b)
        kinds.append(kind)
        rows.append(rows[left])
        columns.append(columns[right])
        free = a in UNITS or b in UNITS or (a == b == Kind.CONSTANT)
        if is_product and (every_product or not free):
            total += sizes[rows[left]] * sizes[columns[left]] * sizes[columns[right]]
    return total


def plainly_right(accumulation, seed=0):
    """Return True if `Accumulation.verify` raises nothing."""
    return (
        _references_are_there(accumulation)
        and _sizes_match(accumulation)
        and all(_rows_are_right(accumulation, random.Random(seed), minus_one) for minus_one in (PRIME - 1, 1))
    )


def _references_are_there(accumulation):
    graph, steps = accumulation.graph, accumulation.steps
    references = range(steps.edges + len(steps))
    return (
        steps.edges == len(graph.sources)
        and all(min(left, right) >= 0 and max(left, right) < k for k, (_, left, right) in enumerate(steps, steps.edges))
        and all(
            row in range(len(graph.roots)) and column in range(len(graph.terminals)) and reference in references
            for (row, column), reference in accumulation.entries.items()
        )
    )


def _sizes_match(accumulation):
    graph = accumulation.graph
    sizes = graph.sizes.tolist()
    shapes = [(sizes[j], sizes[i]) for j, i in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)]
    for is_product, left, right in accumulation.steps:
        (rows, inner), (other, columns) = shapes[left], shapes[right]
        if (inner != other) if is_product else (shapes[left] != shapes[right]):
            return False
        shapes.append((rows, columns))
    return all(
        shapes[reference] == (sizes[graph.roots[row]], sizes[graph.terminals[column]])
        for (row, column), reference in accumulation.entries.items()
    )


def _rows_are_right(accumulation, rng, minus_one):
    graph = accumulation.graph
    fixed = {Kind.ONE: (1, 0, 1), Kind.MINUS_ONE: (minus_one, 0, minus_one)}

    def residue():
        return rng.randrange(2, PRIME)

    values = [fixed.get(kind) or (residue(), residue(), residue()) for kind in map(Kind, graph.kinds.tolist())]
    weights = [(residue(), residue()) for _ in graph.terminals]

    expected = [(0, 0)] * len(graph.vertices)
    for terminal, weight in zip(graph.terminals, weights, strict=True):
        expected[terminal] = weight
    targets = graph.targets.tolist()
    for v in graph.topological_order:
        if graph.out_edges[v]:
            expected[v] = _sum_of_products((values[e], expected[targets[e]]) for e in graph.out_edges[v])

    for is_product, left, right in accumulation.steps:
        a, b, d = values[left]
        e, f, h = values[right]
        if is_product:
            values.append((a * e % PRIME, (a * f + b * h) % PRIME, d * h % PRIME))
        else:
            values.append(((a + e) % PRIME, (b + f) % PRIME, (d + h) % PRIME))
    rows = [[] for _ in graph.roots]
    for (root, terminal), reference in accumulation.entries.items():
        rows[root].append((values[reference], weights[terminal]))
    return all(_sum_of_products(row) == expected[root] for root, row in zip(graph.roots, rows, strict=True))


def _sum_of_products(terms):
    """Triangular matrices times vectors, added up modulo the prime."""
    first = second = 0
    for (a, b, d), (x, y) in terms:
        first += a * x + b * y
        second += d * y
    return first % PRIME, second % PRIME
