"""Simulated annealing of edge and face elimination sequences, starting from the best vertex order.

The kernel (`accumulus.theory.compiled.mixed_kernel`) starts from a vertex order, or from the items of an earlier run.
Its result is an edge elimination, or a sequence of faces.

Every vertex order is equivalent to an edge sequence, and every edge sequence to a face sequence. So both methods start
from the best order of the method `vertex`, `face` also runs `edge`, and neither is ever worse than its start.

Both methods first eliminate the vertices that are [behind bridges](`accumulus.theory.reductions`), as some cheapest
program does. Independent parts of what is left are annealed one after the other.

`MixedAnnealing` anneals sequences that mix vertices, edges and faces. Every second run starts from the order, the
others from the best sequence so far, until the search stalls. Under objectives that are counted on the tape it anneals
the multiplications, and only the best sequence is emitted and counted.

Sources: U. Naumann, Optimal accumulation of Jacobian matrices by elimination methods on the dual computational graph,
Mathematical Programming 99, 2004; S. Kirkpatrick, C. D. Gelatt and M. P. Vecchi, Optimization by simulated annealing,
Science 220, 1983.

Single edges and faces are useful on small graphs, but rarely on larger ones, where it takes minutes to find out. So
sequences with more products than the effort's limit (`_Effort.most`) are not annealed, nor sequences that meet a lower
bound. At the time limit, and on Ctrl-C, the methods return the best result so far.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.annealing import Annealing, Schedule, thresholds
from accumulus.context import Context
from accumulus.deadline import Deadline, OutOfTimeError
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.edges_and_faces import EdgeElimination, FaceElimination, Side, edges_of_vertex
from accumulus.elimination.vertex import Cost
from accumulus.errors import OrderError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.native.machine import kernel, prepare
from accumulus.native.state import zeros
from accumulus.options import Objective
from accumulus.search.elimination import Elimination
from accumulus.search.registry import SearchResult, register_method
from accumulus.search.vertex_orders import DEAREST, vertex
from accumulus.tape.columns import in_shapes
from accumulus.theory.bounds import lower_bound
from accumulus.theory.compiled import mixed_kernel as mixed
from accumulus.theory.compiled.line_state import INNER, ROOT, TERMINAL
from accumulus.theory.reductions import SmallerGraph, independent_parts, on_its_own


class Lines:
    """Encoding of the edges at the intermediates of a part, as numbered labels.

    Args:
        state: graph before any elimination.
        intermediates: intermediates of the part.

    Attributes:
        edges: (source, target) of each label, as vertices of the graph.
        vertices: vertices of the graph, by their numbers in the encoding.
        numbers: number of each vertex of the graph in the encoding.
        starts, ends: numbers of the ends of each label.
        levels: level of each label (`accumulus.search.elimination`).
        above, below: predecessors and successors of each label, as bit sets.
        sizes: size of each vertex.
        kinds: kind of each vertex: `INNER`, `ROOT` or `TERMINAL`.
    """

    def __init__(self, state: Elimination, intermediates: Collection[int]) -> None:
        inner = set(intermediates)
        self.edges: Final = [(j, i) for j, row in enumerate(state.successors) for i in row if j in inner or i in inner]
        self.vertices: Final = list(dict.fromkeys(v for edge in self.edges for v in edge))
        self.numbers: Final = {v: k for k, v in enumerate(self.vertices)}
        number = {edge: k for k, edge in enumerate(self.edges)}
        self.starts, self.ends = ([self.numbers[edge[end]] for edge in self.edges] for end in (0, 1))
        self.levels = [state.successors[j][i] for j, i in self.edges]
        self.above = [sum(1 << number[p, j] for p in state.predecessors[j]) if j in inner else 0 for j, _ in self.edges]
        self.below = [sum(1 << number[i, s] for s in state.successors[i]) if i in inner else 0 for _, i in self.edges]
        self.sizes = np.array([state.sizes[v] for v in self.vertices], np.int64)
        self.kinds = np.array(
            [INNER if v in inner else TERMINAL if state.predecessors[v] else ROOT for v in self.vertices], np.int64
        )

    def faces(
        self,
        elimination: FaceElimination,
        steps: Iterable[tuple[int, int, int]],
        members: Sequence[int] | None = None,
    ) -> list[tuple[int, int]]:
        """Eliminate the faces of a kernel's result.

        Args:
            elimination: face elimination of the whole graph, in which no face of the part is eliminated.
            steps: triples of two labels and their product, which is −1 if it is not used again.
            members: vertices of that graph, by the number of the vertex in the state; the numbers themselves if None.

        Returns:
            The faces, for `accumulus.elimination.edges_and_faces.eliminate_faces`.
        """
        graph, resolve = elimination.graph, elimination.resolve
        ends = zip(graph.sources.tolist(), graph.targets.tolist(), graph.live_edges.tolist(), strict=True)
        vertex = {(j, i): resolve(e) for e, (j, i, live) in enumerate(ends) if live}
        names = range(len(graph.vertices)) if members is None else members
        number = {k: vertex[names[j], names[i]] for k, (j, i) in enumerate(self.edges)}
        taken = []
        for i, j, k in steps:
            face = resolve(number[i]), resolve(number[j])
            number[k] = elimination.eliminate(*face)
            taken.append(face)
        return taken

    def encoded(self, count: int, path_words: int = 0) -> dict[str, Any]:
        """Return the fields of `accumulus.theory.compiled.line_state.LineState`.

        Args:
            count: number of 64-bit words of a set of labels.
            path_words: number of words of a set of tracked paths.
        """
        labels, vertices, edges = 64 * count, len(self.vertices), len(self.edges)
        shapes: dict[str, tuple[int, ...]] = {
            "present": (count,),
            **dict.fromkeys(("above", "beneath"), (labels, count)),
            **dict.fromkeys(("starts", "ends", "levels", "values"), (labels,)),
            **dict.fromkeys(("out", "into"), (vertices, count)),
            "paths": (labels, path_words),
        }
        graph = np.zeros(sum(map(prod, shapes.values())), np.int64)
        parts = dict(zip(shapes, in_shapes(graph, shapes.values()), strict=True))
        rng = random.Random(_SEED)
        parts["present"][:] = words((1 << edges) - 1, count)
        for k in range(edges):
            parts["above"][k], parts["beneath"][k] = words(self.above[k], count), words(self.below[k], count)
            parts["out"][self.starts[k]] |= words(1 << k, count)
            parts["into"][self.ends[k]] |= words(1 << k, count)
            parts["values"].view(np.uint64)[k] = rng.getrandbits(64) | 1
        for name in ("starts", "ends", "levels"):
            parts[name][:edges] = getattr(self, name)
        touched = np.zeros(count, np.int64)
        numbers = {"words": count, "path_words": path_words, "size": graph.size}
        return {"graph": graph, **parts, "touched": touched, "sizes": self.sizes, "kinds": self.kinds, **numbers}


def words(bits: int, count: int) -> NDArray[np.int64]:
    """Return a bit set as an array of 64-bit words."""
    return np.frombuffer(bits.to_bytes(8 * count, "little"), np.dtype(np.int64).newbyteorder("<"))


# Annealing -----------------------------------------------------------------------------------------------------------


#: Largest number of edges. The stored states take memory and time that grow with its square; with fewer, more graphs
#: are searched for orders of vertices alone.
MOST_EDGES: Final = 600
#: Number of items other than vertices: for each vertex, and in addition. More items make sequences that differ more
#: from orders, and slow down each move; fewer miss cheaper sequences.
_REFINEMENTS: Final = (0.25, 8)
#: Capacity for new labels: for each edge, and in addition. More take memory, fewer refuse sequences with much fill-in.
_ROOM: Final = (0.25, 32)
#: Weight of the tie-breaking cost. A larger one trades the first cost for the second, a smaller one leaves the search
#: to wander on plateaus.
_TIE: Final = 0.05
#: Products in a slice, a fraction of a millisecond; seconds of a move for each product of the sequence. Longer slices
#: react later to the deadline and Ctrl-C, shorter ones make more calls; an estimate above the true time makes fewer
#: moves than fit, one below exceeds the work.
_SLICE: Final = 1_000
_PRODUCT: Final = 6e-8
_SEED: Final = 2004
_IDS: Final = (1 << mixed.ID_BITS) - 1
_SIDES: Final[dict[int, Side]] = {mixed.FRONT: "front", mixed.BACK: "back"}


class MixedAnnealing(Annealing):
    """Annealing of the edge or face eliminations of one part; a visit tries a move, and runs start from items.

    The unit of temperature is the average cost of a product, but at least 1.

    Args:
        state: a part before any elimination, with at least one intermediate and at most `MOST_EDGES` edges.
        order: initial order of the intermediates.

    Attributes:
        count: number of items of a sequence.
        products: number of products of the sequence that a run has started from.
    """

    HOT, COLD = 0.2, 0.05
    _state: mixed.MixedState

    def __init__(self, state: Elimination, order: Sequence[int]) -> None:
        lines = self._lines = Lines(state, state.intermediates)
        assert len(lines.edges) <= MOST_EDGES
        inner = int((lines.kinds == INNER).sum())
        length = self.count = inner + int(_REFINEMENTS[0] * inner) + _REFINEMENTS[1]
        count = -(-int(len(lines.edges) * (1 + _ROOM[0]) + _ROOM[1]) // 64)
        fields = lines.encoded(count)
        steps = -(-length // mixed.STEP)
        snapshots = np.zeros((2 * steps, fields["size"]), np.int64)
        snapshots[0] = fields["graph"]
        self._state = mixed.MixedState(
            **fields,
            snapshots=snapshots,
            **zeros(2 * steps, "costs prints"),
            current=np.arange(steps),
            tried=np.arange(steps, 2 * steps),
            **zeros(length, "items trial best_items"),
            logarithms=thresholds(mixed.TABLE),
            log=np.zeros((0, 3), np.int64),
            random=np.ones(1, np.int64),
            length=length,
            fma=state.objective.every_product,
            best=np.iinfo(np.int64).max,
            tie=_TIE,
        )
        self._run = kernel("theory.mixed")
        self.products = 0
        self._begin(self.items_of(order))

    def items_of(self, order: Sequence[int]) -> list[int]:
        """Return an order of the intermediates as items; the other items are distributed evenly between them."""
        numbers, kinds = self._lines.numbers, self._lines.kinds
        ordered = [numbers[v] for v in order if v in numbers and kinds[numbers[v]] == INNER]
        items = [mixed.NOTHING] * self.count
        for t, v in enumerate(ordered):
            items[t * self.count // len(ordered)] = mixed.VERTEX | v << mixed.KIND_BITS
        return items

    @property
    def faces(self) -> bool:
        """Return True if the search includes single faces, not only edges."""
        return bool(self._state.faces)

    @faces.setter
    def faces(self, enabled: bool) -> None:
        self._state.faces = enabled

    @property
    def best_cost(self) -> int:
        """Cost of the best sequence so far."""
        return self._state.best >> mixed.SHIFT

    @property
    def best(self) -> tuple[Cost, tuple[int, ...]]:
        """Cost of the best sequence so far, and its items."""
        total = self._state.best
        return (total >> mixed.SHIFT, total & (1 << mixed.SHIFT) - 1), tuple(self._state.best_items.tolist())

    def _begin(self, start: Sequence[int]) -> float:
        state = self._state
        state.items[:] = start
        state.started = state.moves = state.work = 0
        self._run(state.address)
        self.products = -state.work
        return max(1.0, (state.total >> mixed.SHIFT) / max(1, self.products))

    def _visit(self, visits: int) -> int:
        state = self._state
        state.moves, state.work = visits, _SLICE
        self._run(state.address)
        return visits - state.moves

    def sweeps_in(self, seconds: float) -> float:
        """Return the number of sweeps that fit into a time in seconds on a current machine."""
        return seconds / (_PRODUCT * self.count * (self.products + 10))

    @property
    def by_faces(self) -> bool:
        """Return True if an item of the best sequence so far is a face."""
        return any(_parts(item)[0] == mixed.FACE for item in self.best[1])

    def eliminate_edges(self, elimination: EdgeElimination, members: Sequence[int]) -> None:
        """Follow the best sequence so far, which has no faces.

        Args:
            elimination: elimination of a graph with the part, of which no edge has been eliminated.
            members: the part's vertices as vertices of that graph.
        """
        names = [members[v] for v in self._lines.vertices]
        for item in self.best[1]:
            kind, v, p, s = _parts(item)
            if kind == mixed.VERTEX:
                steps = edges_of_vertex(elimination, names[v])
            elif kind in _SIDES:
                j, i = (names[end] for end in ((v, s) if kind == mixed.FRONT else (p, v)))
                steps = [(j, i, _SIDES[kind])] if i in elimination.successors[j] else []
            else:
                steps = []
            for step in steps:
                elimination.eliminate(*step)

    def eliminate_faces(self, elimination: FaceElimination, members: Sequence[int]) -> None:
        """Follow the best sequence so far, as `eliminate_edges` does."""
        state = self._state
        self._begin(self.best[1])
        state.log, state.logged = np.zeros((self.products, 3), np.int64), 0
        self._begin(self.best[1])
        taken = state.log[: state.logged].tolist()
        state.logged = -1
        self._lines.faces(elimination, taken, members)


class _Copies(NamedTuple):
    """Independent parts of equal form: the annealing of one, the starts of its runs, and the vertices of each."""

    annealing: MixedAnnealing
    starts: list[list[int]]
    members: list[list[int]]


def _parts_to_anneal(
    graph: DifferentiationGraph, objective: Objective, orders: Sequence[Sequence[int]]
) -> list[_Copies]:
    """Return the independent parts of a graph, with the annealing of each and its starts at some orders."""
    state = Elimination.of(graph, objective)
    positions = [{v: k for k, v in enumerate(order)} for order in orders]
    copies: dict[object, _Copies] = {}
    for vertices in independent_parts(state):
        part = on_its_own(state, vertices)
        members = [v for (v,) in part.members]
        if part.form not in copies:
            ranks = [[position[v] for v in members[: len(vertices)]] for position in positions]
            in_turn = [sorted(part.state.intermediates, key=rank.__getitem__) for rank in ranks]
            annealing = MixedAnnealing(part.state, in_turn[0])
            copies[part.form] = _Copies(annealing, [annealing.items_of(order) for order in in_turn], [])
        copies[part.form].members.append(members)
    return list(copies.values())


def _accumulation(graph: DifferentiationGraph, parts: Sequence[_Copies]) -> Accumulation:
    """Return the accumulation of the best sequences of all parts: an edge elimination if no item is a face."""
    in_turn = [(part.annealing, members) for part in parts for members in part.members]
    if any(part.annealing.by_faces for part in parts):
        faces = FaceElimination(graph)
        for annealing, members in in_turn:
            annealing.eliminate_faces(faces, members)
        return faces.finish()
    edges = EdgeElimination(graph)
    for annealing, members in in_turn:
        annealing.eliminate_edges(edges, members)
    return edges.finish()


def _parts(item: int) -> tuple[int, int, int, int]:
    """Return the kind of an item and its vertices: middle, start and end."""
    item, kind = item >> mixed.KIND_BITS, item & (1 << mixed.KIND_BITS) - 1
    return kind, item & _IDS, item >> mixed.ID_BITS & _IDS, item >> 2 * mixed.ID_BITS


# Methods -------------------------------------------------------------------------------------------------------------


Level = Literal["edge", "face"]


@dataclass(frozen=True, slots=True)
class _Effort:
    """Limits of a search.

    Attributes:
        most: largest number of products of a sequence that is annealed.
        annealing: schedule, in which visits are moves.
    """

    most: float
    annealing: Schedule


#: Limits and schedules by effort: longer sequences and more or longer runs cost time in proportion, shorter ones leave
#: more products.
_EFFORTS: Final = {
    "fast": _Effort(16, Schedule(200, growth=1.0, stalls=0)),
    "balanced": _Effort(32, Schedule(1_000, growth=1.0, stalls=2)),
    "thorough": _Effort(math.inf, Schedule(1_500, growth=1.1, stalls=10)),
}
#: Fraction of the time for orders under effort "thorough", whose search would take all of it. A larger one starts edges
#: and faces from a better order, but leaves them less time.
_ORDERS: Final = 0.4
#: Fraction of the time for edges if faces follow. A larger one starts faces from a better sequence, but leaves them
#: less time.
_EDGES: Final = 0.25


@register_method("edge")
def edge(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Search for an edge sequence that is better than the best vertex order."""
    return _search(graph, context, ("edge",))


@register_method("face")
def face(graph: DifferentiationGraph, context: Context) -> SearchResult:
    """Search for an edge sequence, then for a face sequence that is even better."""
    return _search(graph, context, ("edge", "face"))


def _search(graph: DifferentiationGraph, context: Context, levels: tuple[Level, ...]) -> SearchResult:
    options, counted = context.options, context.options.objective.of_eliminations
    start = best = vertex(graph, context.part(_ORDERS) if options.effort == "thorough" else context)
    if best.interrupted or not options.searches or context.passed:
        return best
    if not 0 < start.cost(Objective.FMA) < DEAREST or _meets_lower_bound(best, options.objective, context):
        return best
    try:
        smaller = SmallerGraph(graph, counted, context)
    except OutOfTimeError:
        return best
    first, best = order_through_bridges(smaller, context, best)
    if first.interrupted:
        return best
    products = first.accumulation.steps.is_product.count(1)
    if products > _EFFORTS[options.effort].most or smaller.graph.live_edges.sum() > MOST_EDGES:
        return best
    with context.paused():
        prepare("theory.mixed")
    assert first.order is not None
    assert start.order is not None
    # runs also start from both orders, since the best sequence may be a local minimum
    parts = _parts_to_anneal(smaller.graph, options.objective, (first.order, smaller.restricted(start.order)))
    schedule = _EFFORTS[options.effort].annealing
    # the search of faces starts from the best edge sequence
    for level in levels:
        until = context.part(_EDGES) if level == "edge" and "face" in levels else context
        interrupted = False
        try:
            for k, part in enumerate(parts):
                annealing = part.annealing
                annealing.faces = level == "face"
                share = until.part(annealing.products / sum(each.annealing.products for each in parts[k:]))
                sweeps = annealing.sweeps_in(share.seconds)
                runs = annealing.until_stalled(schedule, options.seed, sweeps, options.iterations, part.starts, share)
                for _ in runs:
                    lowest = best.cost(options.objective)
                    cost = smaller.cost + sum(each.annealing.best_cost * len(each.members) for each in parts)
                    context.report("plan", lowest if options.objective.on_tape else min(cost, lowest))
                    if until.passed:
                        break
        except KeyboardInterrupt:
            interrupted = True
        accumulation = smaller.extended(_accumulation(smaller.graph, parts))
        candidate = SearchResult(graph, level, _accumulation=accumulation, first_order=start.order)
        if candidate.cost(options.objective) < best.cost(options.objective):
            best = candidate
        if interrupted:
            return replace(best, interrupted=True)
        if context.passed or _meets_lower_bound(best, options.objective, context):
            break
    return best


def order_through_bridges(
    smaller: SmallerGraph, context: Context, best: SearchResult
) -> tuple[SearchResult, SearchResult]:
    """Search for an order of what bridges leave, which is often closer to the best one.

    Args:
        smaller: what bridges leave of a graph.
        context: options and deadline.
        best: plan of the whole graph.

    Returns:
        The result for the smaller graph, and the cheaper one of `best` and the order that goes on with it.
    """
    objective = context.options.objective
    first = vertex(smaller.graph, context.having(objective=objective.of_eliminations, executor=None, progress=None))
    assert first.order is not None
    candidate = SearchResult(best.graph, "vertex", smaller.extended_order(first.order))
    if candidate.cost(objective) < best.cost(objective):
        best = candidate
    return first, replace(best, interrupted=first.interrupted)


def _meets_lower_bound(result: SearchResult, objective: Objective, deadline: Deadline) -> bool:
    """Return True if the result's products meet a lower bound that can be computed before the deadline."""
    # there is no bound on operations, but fewer operations than the plan's are unlikely without fewer products
    counted = objective.of_eliminations
    try:
        bound = lower_bound(result.graph, counted, deadline=deadline)
    except OutOfTimeError:
        return False
    return bound is not None and result.cost(counted) <= bound


# Further rules for faces ---------------------------------------------------------------------------------------------
#
# The further face rules of the notes (section 1), with the conditions under which they preserve the Jacobian.
#
# Each rule is an interior vertex split followed by ordinary steps of face elimination, which proves it and implements
# it. A split sends every path through exactly one of the two copies. The elimination of a face replaces the paths
# through it by paths through its product. Vertices with equal P and S merge. None of these steps changes the sum over
# all paths between any root and any terminal.
#
# docs/notes.md, section 1, explains the rules and why the conditions are necessary. *Absorption* splits j into j' with
# S_k and j with the rest, then eliminates ⟨i,j'⟩, which k absorbs. The rule as printed is equivalent if and only if j'
# is then isolated, that is, P_j = {i}; otherwise `absorb` raises, or splits j on request. *Fill-in* splits k into k'
# with S_j and k with the rest, then eliminates ⟨i,j⟩, which k' absorbs. *Merge* splits k into k' with P_i and k with
# the rest, then k' merges with i. Each rule has a mirror image.
#
# Absorption and fill-in take one product, merge takes none. After an absorption, ⟨i,j⟩ still has to be multiplied for
# the rest of S_j. After a fill-in or merge, k may match other vertices.


def absorb(elimination: FaceElimination, i: int, j: int, k: int, *, split: bool = False) -> int:
    """Absorb the part of face ⟨i,j⟩ that k covers into k; the face remains.

    Either P_k = P_i, S_k ⊂ S_j and P_j = {i}: then S_k is removed from S_j. Or S_k = S_j, P_k ⊂ P_i and S_i = {j}: then
    P_k is removed from P_i.

    Args:
        elimination: face elimination in its present state.
        i: source of the face.
        j: target of the face.
        k: vertex that absorbs a part of the face.
        split: if True, also accept P_j ≠ {i} (S_i ≠ {j}), where the split of j (i) preserves other paths through it.

    Returns:
        The vertex whose label includes k's label and the product.

    Raises:
        OrderError: if the face does not exist, k does not fit, or the condition fails and `split` is False.
    """
    elimination.check_face(i, j)
    _check_vertex(elimination, k)
    P, S = elimination.predecessors, elimination.successors
    if P[k].keys() == P[i].keys() and S[k].keys() < S[j].keys():
        if len(P[j]) > 1 and not split:
            raise OrderError(_refusal(elimination, i, j, k, j, "predecessor", "S_j would lose S_k for them too"))
        return elimination.eliminate(i, elimination.split(j, successors=S[k]))
    if S[k].keys() == S[j].keys() and P[k].keys() < P[i].keys():
        if len(S[i]) > 1 and not split:
            raise OrderError(_refusal(elimination, i, j, k, i, "successor", "P_i would lose P_k for them too"))
        return elimination.eliminate(elimination.split(i, predecessors=P[k]), j)
    raise _misfit(elimination, i, j, k, "absorb", "P_k = P_i and S_k ⊂ S_j, or P_k ⊂ P_i and S_k = S_j")


def fill_in(elimination: FaceElimination, i: int, j: int, k: int) -> int:
    """Eliminate face ⟨i,j⟩ into the part of k that it covers: P_k = P_i and S_k ⊃ S_j, or P_k ⊃ P_i and S_k = S_j.

    Returns:
        The vertex with P_i and S_j, whose label is c_i c_j + c_k.

    Raises:
        OrderError: if the face does not exist, or k does not fit.
    """
    elimination.check_face(i, j)
    _check_vertex(elimination, k)
    if not _split_off(elimination, k, i, j):
        expected = "P_k = P_i and S_k ⊃ S_j, or P_k ⊃ P_i and S_k = S_j"
        raise _misfit(elimination, i, j, k, "fill in", expected)
    return elimination.eliminate(i, j)


def merge_equal(elimination: FaceElimination, i: int, k: int) -> int:
    """Merge the part of k that has the P and S of i with i: P_k ⊃ P_i and S_k = S_i, or P_k = P_i and S_k ⊃ S_i.

    (Vertices with equal P and S have been merged already.)

    Returns:
        The vertex with the label c_i + c_k.

    Raises:
        OrderError: if i or k is not an inner vertex, both are the same, or k does not fit.
    """
    _check_vertex(elimination, i)
    _check_vertex(elimination, k)
    if not _split_off(elimination, k, i, i):
        raise OrderError(
            f"cannot merge {elimination.name(k)} with {elimination.name(i)}: expected another vertex with P_k ⊃ P_i "
            "and S_k = S_i, or P_k = P_i and S_k ⊃ S_i"
        )
    return elimination.resolve(i)


def _split_off(elimination: FaceElimination, k: int, i: int, j: int) -> bool:
    """Split k so that one part has P_i and S_j; return False, without a split, if k does not fit.

    k fits if P_k = P_i and S_k ⊃ S_j, or P_k ⊃ P_i and S_k = S_j.
    """
    P, S = elimination.predecessors, elimination.successors
    if P[k].keys() == P[i].keys() and S[k].keys() > S[j].keys():
        elimination.split(k, successors=S[j])
        return True
    if S[k].keys() == S[j].keys() and P[k].keys() > P[i].keys():
        elimination.split(k, predecessors=P[i])
        return True
    return False


def _check_vertex(elimination: FaceElimination, v: int) -> None:
    if v not in elimination:
        raise OrderError(f"{elimination.name(v)} is not an inner vertex of the line graph (any more)")


def _misfit(elimination: FaceElimination, i: int, j: int, k: int, action: str, expected: str) -> OrderError:
    face = f"({elimination.name(i)}, {elimination.name(j)})"
    return OrderError(f"cannot {action} face {face} with k = {elimination.name(k)}: expected {expected}")


def _refusal(elimination: FaceElimination, i: int, j: int, k: int, end: int, neighbour: str, loss: str) -> OrderError:
    face = f"({elimination.name(i)}, {elimination.name(j)})"
    return OrderError(
        f"cannot absorb face {face} into {elimination.name(k)}: {elimination.name(end)} has more than one {neighbour}, "
        f"and {loss}; give split=True to split it first"
    )
