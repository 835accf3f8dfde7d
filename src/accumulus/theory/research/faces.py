"""The least number of face eliminations, exactly.

States of the line graph are bitsets, `predecessors` and `successors` of every vertex by its number; numbers are those
of `accumulus.elimination.face.FaceElimination`, whose rules these are, so a sequence found here runs there.

`face_optimum` tries numbers of eliminations upwards, each by depth-first search that cuts a branch where a bound of
what is still to be eliminated exceeds what is allowed (`FaceState.outstanding`), and remembers states that failed, up
to a relabelling of their vertices. The relabelling is exact: states that are kept together are isomorphic; some
isomorphic ones are kept apart, which costs time only. `greedy_faces` gives the upper bound to stop at.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.research.minimum import OutOfStepsError

__all__ = ["FaceState", "face_optimum", "greedy_faces"]

Face = tuple[int, int]

_NOISE: Final = 2.0


@dataclass(slots=True)
class FaceState:
    """A line graph between face eliminations.

    Attributes:
        predecessors, successors: bitsets of vertex numbers, by vertex; roots and terminals only occur as bits.
        tails: the vertex of the graph where each vertex's paths end.
        ends: bits of the roots and terminals.
        made: how many vertices there have been; the next fill-in has this number.
    """

    predecessors: dict[int, int]
    successors: dict[int, int]
    tails: dict[int, int]
    ends: int
    made: int

    @classmethod
    def of(cls, graph: DifferentiationGraph) -> FaceState:
        """The line graph of a graph."""
        edges, roots, terminals = len(graph.sources), len(graph.roots), len(graph.terminals)
        live = graph.live_edges.tolist()
        row = {root: edges + k for k, root in enumerate(graph.roots)}
        column = {terminal: edges + roots + k for k, terminal in enumerate(graph.terminals)}
        predecessors: dict[int, int] = {}
        successors: dict[int, int] = {}
        for e in (e for e in range(edges) if live[e]):
            source, target = int(graph.sources[e]), int(graph.targets[e])
            before = [row[source]] if source in row else [f for f in graph.in_edges[source] if live[f]]
            after = [column[target]] if target in column else [f for f in graph.out_edges[target] if live[f]]
            predecessors[e] = sum(1 << f for f in before)
            successors[e] = sum(1 << f for f in after)
        made = edges + roots + terminals
        tails = {e: int(graph.targets[e]) for e in predecessors}
        state = cls(predecessors, successors, tails, (1 << made) - (1 << edges), made)
        state._settle()
        return state

    def faces(self) -> list[Face]:
        """The faces that can be eliminated."""
        return [(i, j) for i, after in sorted(self.successors.items()) for j in _bits(after & ~self.ends)]

    def eliminate(self, i: int, j: int) -> FaceState:
        """The state after a face is eliminated."""
        P, S, tails = dict(self.predecessors), dict(self.successors), self.tails
        made = self.made
        before, after = P[i], S[j]
        S[i] &= ~(1 << j)
        P[j] &= ~(1 << i)
        if not any(P[k] == before and S[k] == after for k in P if k not in (i, j)):
            k = i if not S[i] else j if not P[j] else made
            made += k == made
            P[k], S[k] = before, after
            tails = {**tails, k: tails[j]}
            bit = 1 << k
            for p in _bits(before & ~self.ends):
                S[p] |= bit
            for s in _bits(after & ~self.ends):
                P[s] |= bit
        state = FaceState(P, S, tails, self.ends, made)
        state._settle()
        return state

    def _settle(self) -> None:
        """Remove what is isolated and merge what has equal neighbours, until there is neither."""
        P, S = self.predecessors, self.successors
        while True:
            kept: dict[tuple[int, int], int] = {}
            gone = []
            for v in sorted(P):
                if not P[v] or not S[v] or kept.setdefault((P[v], S[v]), v) != v:
                    gone.append(v)
            if not gone:
                return
            for v in gone:
                bit = ~(1 << v)
                for p in _bits(P[v] & ~self.ends):
                    if p in S:
                        S[p] &= bit
                for s in _bits(S[v] & ~self.ends):
                    if s in P:
                        P[s] &= bit
                del P[v], S[v]

    def outstanding(self) -> int:
        """Eliminations at least.

        Every path is cut where its vertices meet. Each root–terminal pair needs products of its own, as many as cuts
        are needed to meet all of its paths; and each path with n cuts needs n − 1 further products, for pairs of
        vertices of the graph along it, so paths that have no such pair in common need them one by one.
        """
        cuts: dict[tuple[int, int], set[tuple[int, ...]]] = {}
        for v, P in self.predecessors.items():
            for root in _bits(P & self.ends):
                self._walk(v, (root,), cuts)
        bound = 0
        further = []
        for (root, terminal), paths in cuts.items():
            bound += _hitting(paths)
            for path in paths:
                if len(path) > 1:
                    stops = (-1 - root, *path, -1 - terminal)
                    pairs = {(stops[i], stops[j]) for i in range(len(stops) - 2) for j in range(i + 2, len(stops))}
                    pairs.discard((stops[0], stops[-1]))
                    further.append((len(pairs), len(path) - 1, pairs))
        taken: set[tuple[int, int]] = set()
        for _, count, pairs in sorted(further, key=lambda item: (item[0], sorted(item[2]))):
            if taken.isdisjoint(pairs):
                taken |= pairs
                bound += count
        return bound

    def _walk(self, v: int, path: tuple[int, ...], cuts: dict[tuple[int, int], set[tuple[int, ...]]]) -> None:
        """Collect the cuts of all paths that begin with the given ones and go on from v."""
        S = self.successors[v]
        for terminal in _bits(S & self.ends):
            if len(path) > 1:
                cuts.setdefault((path[0], terminal), set()).add(path[1:])
        for s in _bits(S & ~self.ends):
            self._walk(s, (*path, self.tails[v]), cuts)

    def key(self) -> tuple[tuple[int, int], ...]:
        """The state with its vertices renumbered; equal keys mean isomorphic states."""
        P, S, ends = self.predecessors, self.successors, self.ends
        colour = {v: (P[v].bit_count(), S[v].bit_count(), P[v] & ends, S[v] & ends) for v in P}
        ranks = _ranked(colour)
        for _ in range(3):
            finer = {
                v: (
                    ranks[v],
                    tuple(sorted(ranks[p] for p in _bits(P[v] & ~ends))),
                    tuple(sorted(ranks[s] for s in _bits(S[v] & ~ends))),
                )
                for v in P
            }
            new = _ranked(finer)
            if new == ranks:
                break
            ranks = new
        number = {v: k for k, v in enumerate(sorted(P, key=lambda v: (ranks[v], v)))}
        return tuple(
            (
                sum(1 << number[s] for s in _bits(S[v] & ~ends)),
                # roots and terminals keep their bits
                (P[v] | S[v]) & ends,
            )
            for v in sorted(P, key=number.__getitem__)
        )


def _hitting(paths: set[tuple[int, ...]]) -> int:
    """The fewest cuts that meet all paths."""
    candidates = sorted({cut for path in paths for cut in path})
    sets = list(map(set, paths))
    for count in range(1, len(candidates)):
        for chosen in combinations(candidates, count):
            if not any(path.isdisjoint(chosen) for path in sets):
                return count
    return len(candidates)


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _ranked(colours: Mapping[int, tuple[Any, ...]]) -> dict[int, int]:
    order = {colour: k for k, colour in enumerate(sorted(set(colours.values())))}
    return {v: order[colour] for v, colour in colours.items()}


def greedy_faces(graph: DifferentiationGraph, restarts: int = 1, at_least: int = 0, seed: int = 0) -> list[Face]:
    """A short sequence of faces: each the one that leaves the fewest, from the second run on with random noise.

    Args:
        at_least: stop as soon as a sequence is no longer than this.
    """
    rng = random.Random(seed)
    start = FaceState.of(graph)
    best: list[Face] | None = None
    for run in range(restarts):
        state = start
        sequence: list[Face] = []
        while best is None or len(sequence) < len(best):
            faces = state.faces()
            if not faces:
                best = sequence
                break
            options = []
            for face in faces:
                after = state.eliminate(*face)
                noise = rng.random() * _NOISE if run else 0.0
                options.append((len(after.faces()) + noise, face, after))
            _, face, state = min(options, key=lambda option: option[:2])
            sequence.append(face)
        if best is not None and len(best) <= at_least:
            break
    assert best is not None
    return best


def face_optimum(
    graph: DifferentiationGraph, at_least: int = 0, below: int | None = None, steps: int = 200_000
) -> tuple[int, list[Face] | None]:
    """The shortest sequence of face eliminations.

    Args:
        at_least: a bound that is known.
        below: only shorter sequences are of interest.
        steps: eliminations to try, at most.

    Returns:
        A number that no sequence is shorter than, and a sequence of that length; None if there is none below `below`,
        or the steps did not suffice.

    >>> lion = [("a", 1), ("b", 1), (1, 2), (1, "x5"), (2, "x5"), (2, "x1"), (2, "x2"), (2, "x3")]
    >>> face_optimum(DifferentiationGraph(lion))[0]
    11
    """
    start = FaceState.of(graph)
    number = max(at_least, start.outstanding())
    left = steps
    failed: dict[tuple[tuple[int, int], ...], int] = {}

    def search(state: FaceState, allowed: int) -> list[Face] | None:
        nonlocal left
        faces = state.faces()
        if not faces:
            return []
        if state.outstanding() > allowed:
            return None
        key = state.key()
        if failed.get(key, -1) >= allowed:
            return None
        for face in faces:
            left -= 1
            if left < 0:
                raise OutOfStepsError
            found = search(state.eliminate(*face), allowed - 1)
            if found is not None:
                return [face, *found]
        failed[key] = allowed
        return None

    while below is None or number < below:
        try:
            found = search(start, number)
        except OutOfStepsError:
            break
        if found is not None:
            return number, found
        number += 1
    return number, None
