"""Invariants of a line graph during a face elimination."""

from __future__ import annotations

from inside import FaceElimination


def consistent(elimination: FaceElimination) -> None:
    """P and S mirror each other, hashes are those of the sets, no two vertices have both sets in common."""
    seen = set()
    for v in range(len(elimination.labels)):
        P, S = elimination.predecessors[v], elimination.successors[v]
        assert all(v in elimination.successors[p] for p in P)
        assert all(v in elimination.predecessors[s] for s in S)
        if v in elimination:
            assert P
            assert S
            key = (frozenset(P), frozenset(S))
            assert key not in seen
            seen.add(key)
            assert elimination.find(v, v) == v
