"""Optima of edge and face elimination by trying everything, from the definitions; for graphs of a few faces."""

from __future__ import annotations

import math
from functools import cache

from accumulus import DifferentiationGraph, Kind

LEVELS = {Kind.ONE: 1, Kind.MINUS_ONE: 1, Kind.CONSTANT: 2, Kind.VARIABLE: 3}


def simple_edges(graph: DifferentiationGraph) -> dict[tuple[int, int], int]:
    """Level of each live edge, parallel ones added up: numbers by value, others by kind."""
    results: dict[tuple[int, int], int] = {}
    sums: dict[tuple[int, int], float] = {}
    for e in graph.live_edges.nonzero()[0].tolist():
        ends = int(graph.sources[e]), int(graph.targets[e])
        kind = Kind(int(graph.kinds[e]))
        results[ends] = max(results[ends], LEVELS[kind], 2) if ends in results else LEVELS[kind]
        value = {Kind.ONE: 1.0, Kind.MINUS_ONE: -1.0}.get(kind, graph.constants.get(e, math.nan))
        sums[ends] = sums[ends] + value if ends in sums else value
    return {ends: 1 if sums[ends] in (1.0, -1.0) else level for ends, level in results.items()}


class TooMany(Exception):
    """More states than a test should look at."""


class _Slow:
    def __init__(self, graph: DifferentiationGraph, objective: str, most: int) -> None:
        self.graph, self.objective, self.left = graph, objective, most
        self.inner = set(graph.intermediates)
        self.rest = cache(self.rest)  # type: ignore[method-assign]

    def price(self, j: int, k: int, i: int, a: int, b: int) -> int:
        if self.objective != "fma" and (a == 1 or b == 1 or a == b == 2):
            return 0
        sizes = self.graph.sizes
        return int(sizes[j] * sizes[k] * sizes[i])

    def rest(self, state):
        """The least cost of what is left."""
        self.left -= 1
        if self.left < 0:
            raise TooMany
        return min((cost + self.rest(after) for cost, after in self.moves(state)), default=0)


class SlowEdges(_Slow):
    """The best edge elimination; a state is the set of edges (source, target, level)."""

    def least(self) -> int:
        return self.rest(frozenset((j, i, level) for (j, i), level in simple_edges(self.graph).items()))

    def moves(self, state):
        edges = {(j, i): level for j, i, level in state}
        for (j, i), level in edges.items():
            if j in self.inner:
                yield self.after(edges, (j, i), [(p, j, i, a, level) for (p, t), a in edges.items() if t == j])
            if i in self.inner:
                yield self.after(edges, (j, i), [(j, i, s, level, b) for (t, s), b in edges.items() if t == i])

    def after(self, edges, gone, products):
        edges = dict(edges)
        del edges[gone]
        cost = 0
        for j, k, i, a, b in products:
            cost += self.price(j, k, i, a, b)
            level = max(a, b)
            edges[j, i] = max(edges[j, i], level, 2) if (j, i) in edges else level
        while True:
            sources, targets = {j for j, _ in edges}, {i for _, i in edges}
            dead = [e for e in edges if (e[0] in self.inner - targets) or (e[1] in self.inner - sources)]
            if not dead:
                return cost, frozenset((j, i, level) for (j, i), level in edges.items())
            for e in dead:
                del edges[e]


class SlowFaces(_Slow):
    """The best face elimination; a state is the set of labels, named by the path segments in them, and of faces."""

    def least(self) -> int:
        edges = simple_edges(self.graph)
        labels = {frozenset([(j, i)]): level for (j, i), level in edges.items()}
        faces = {(frozenset([a]), frozenset([b])) for a in edges for b in edges if a[1] == b[0] and a[1] in self.inner}
        return self.rest(self.settled(labels, faces))

    def moves(self, state):
        labels, faces = dict(state[0]), state[1]
        for i, j in faces:
            above = {p for p, v in faces if v == i}
            below = {s for v, s in faces if v == j}
            a, b = labels[i], labels[j]
            (start, middle), end = self.ends(i), self.ends(j)[1]
            new_labels, new_faces = dict(labels), set(faces) - {(i, j)}
            absorbing = [
                k
                for k in labels
                if self.ends(k) == (start, end)
                and {p for p, v in faces if v == k} == above
                and {s for v, s in faces if v == k} == below
            ]
            k = frozenset(x[:-1] + y for x in i for y in j)
            if absorbing:
                (old,) = absorbing
                self.rename(new_labels, new_faces, old, old | k, max(labels[old], a, b, 2))
            else:
                assert k not in new_labels
                new_labels[k] = max(a, b)
                new_faces |= {(p, k) for p in above} | {(k, s) for s in below}
            yield self.price(start, middle, end, a, b), self.settled(new_labels, new_faces)

    def settled(self, labels, faces):
        labels, faces = dict(labels), set(faces)
        while True:
            preds = {v: frozenset(p for p, x in faces if x == v) for v in labels}
            succs = {v: frozenset(s for x, s in faces if x == v) for v in labels}
            dead = [
                v
                for v in labels
                if (not preds[v] and self.ends(v)[0] in self.inner) or (not succs[v] and self.ends(v)[1] in self.inner)
            ]
            if dead:
                for v in dead:
                    del labels[v]
                faces = {(i, j) for i, j in faces if i in labels and j in labels}
                continue
            equal = [
                (v, w)
                for v in labels
                for w in labels
                if v != w and self.ends(v) == self.ends(w) and preds[v] == preds[w] and succs[v] == succs[w]
            ]
            if not equal:
                return frozenset(labels.items()), frozenset(faces)
            v, w = equal[0]
            level = max(labels[v], labels.pop(w), 2)
            faces = {(i, j) for i, j in faces if w not in (i, j)}
            self.rename(labels, faces, v, v | w, level)

    @staticmethod
    def rename(labels, faces, old, new, level):
        del labels[old]
        assert new not in labels
        labels[new] = level
        renamed = {(new if i == old else i, new if j == old else j) for i, j in faces}
        faces.clear()
        faces.update(renamed)

    @staticmethod
    def ends(label):
        segment = next(iter(label))
        return segment[0], segment[-1]
