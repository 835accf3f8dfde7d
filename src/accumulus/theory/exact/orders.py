"""The best order of vertices: a lower bound from blocks, and a search from the last vertex to the first.

**Block bound.** Let B be a set of vertices, the block. Let κ(v | S), for S ⊆ B and v in B∖S, be the lower bound of
`accumulus.theory.flows` on the cost of v in the graph after exactly S is eliminated, where the vertices of B∖S are
ends of paths, as roots and terminals are: size(v) times the maximum flows from v up and down to any end, without pairs
of labels whose product is free.

*Lemma.* If v is eliminated after the set T, and T ∩ B = S, it costs at least κ(v | S). *Proof.* Let x in T∖S be
eliminated next. It is no end, so the flow through x from p to q then goes directly from p to q, and all other flow is
unchanged. If x is a neighbour of v, the label ⟨v, x⟩ is replaced by a label that varies, or is not ±1, if ⟨v, x⟩ varies
or is not ±1. So neither the flow that leaves v by variable labels nor the flow by labels other than ±1 decreases; κ
increases with both. After T, the flow cannot exceed the labels at the vertex. ∎

So the vertices of B together cost at least F(B) in any order of all vertices, where

    F(∅) = 0,   F(S) = min over v in S of F(S∖v) + κ(v | S∖v).

For any partition of the vertices, the sum of F over its blocks is a lower bound on the cost of the best order, for all
sizes and kinds of labels. If the block is all vertices, it is the cost of the best order. It does not hold for edge and
face elimination, which may eliminate a vertex in parts. Vertices that affect each other most share a block.

**The last vertex.** Let C be a set of vertices that are eliminated while all others are kept. If v is the last of C, it
is then joined to all vertices outside C that it reaches through C, on both sides. These determine its cost. Before
that, the connected parts of C∖v are independent. So

    OPT(C) = min over v in C of (cost of v as the last of C) + (sum of OPT over the connected parts of C∖v).

Here paths end at the vertices outside C, as at roots and terminals. This can only increase the flows, so OPT(C) is at
least the sum over the blocks B of the larger of F(B ∩ C) and the sum of κ over B ∩ C.

A search below a limit either finds OPT(C) or proves that it exceeds the limit, and the result is stored. The limit
increases from the bound to the cost of the best known order: every limit without a solution raises the bound. Steps
double until one takes several times as many sets as the one before. The memory is bounded; results that took the fewest
sets are replaced first. Sets are compared bit by bit, not by hashes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.native.machine import kernel
from accumulus.native.state import Records, zeros
from accumulus.search.compiled.order_kernel import SIDE
from accumulus.search.elimination import BitRows, Elimination
from accumulus.theory.compiled import orders_kernel as orders
from accumulus.theory.compiled.orders_kernel import FLOW, UNREACHED, BlocksState, OrdersState
from accumulus.theory.exact.searches import PartSearch
from accumulus.theory.flows import least_costs
from accumulus.theory.graphs.traversal import topological_order

#: Largest number of vertices of a part, for memory; the sum of all sizes has to be smaller than `_WIDEST`. More
#: vertices make the kernel's tables larger, fewer leave more parts without a search.
MOST_VERTICES: Final = 512
_WIDEST: Final = 1 << FLOW
#: Largest number of vertices of a block in brief proofs, and in others. Each further vertex doubles the memory and time
#: of its table, each one fewer weakens the bound.
SMALL_BLOCK, LARGE_BLOCK = 12, 16
#: Weights of the affinity of two vertices, for the smaller and the larger of what the two orders of them cost more than
#: both alone, for an edge, and for the first as long as it is kept. Each choice makes other blocks, of which the best
#: bound counts; more choices take as many tables.
_AFFINITIES: Final = ((8.0, 1.0, 0.1, 0.0), (1.0, 0.0, 0.01, 1.0), (8.0, 1.0, 0.1, 1.0), (8.0, 1.0, 1.0, 1.0))
#: The same for changes of a partition; by how much affinities vary then, as the logarithm of a factor; how many other
#: blocks are divided again with one; how small the largest block may be. Less noise repeats the same blocks, more makes
#: random ones; more and larger blocks take longer.
_MOVING: Final = (1.0, 0.1, 0.05, 1.0)
_NOISE: Final = (1.0, 2.0, 4.0)
_NEIGHBOURS: Final = (1, 1, 2)
_LEAST_BLOCK: Final = 10
#: Seconds of work for a change besides its tables. An estimate above the true time makes fewer changes.
_MOVE_SECONDS: Final = 1e-3
#: Sets of the search before partitions are changed, the factor until they are again, and the largest work for changes
#: relative to the search's, as long as they raise the bound. More sets delay proofs that need better blocks, fewer
#: spend time on blocks where the search would soon end; more changes delay the search, fewer leave it worse bounds.
_FIRST: Final = 1 << 15
_MORE: Final = 4
_MOST_MOVING: Final = 3.0
#: Sets of a block for each call of the kernel, and seconds of work for each vertex and word of a set. More sets react
#: later to the deadline and Ctrl-C, fewer make more calls.
_SETS: Final = 1 << 11
_SET_SECONDS: Final = 1e-8
#: The same for pairs of vertices.
_PAIRS: Final = 1 << 12
_PAIR_SECONDS: Final = 1e-6
#: Sets of the search for each call of the kernel, times their vertices, and seconds of work for each vertex and word.
#: More sets react later to the deadline and Ctrl-C, fewer make more calls.
_NODES: Final = 1 << 14
_NODE_SECONDS: Final = 5e-8
#: Number of entries of the memory as a power of two; an entry has some 30 bytes. With fewer entries, sets are searched
#: again.
_MEMORY_BITS: Final = 20
#: Number of steps in which the limit first increases to the best known cost. More steps raise the proven bound more
#: often, but each searches again what the last one has; with fewer, the bound stays low for longer.
_STEPS: Final = 64
#: For each block a table with the value of F for each of its subsets.
_Tables = dict[tuple[int, ...], NDArray[np.int64]]


class OrderSearch(PartSearch):
    """Search for the best order of a part.

    Args:
        state: the part before any elimination; the search eliminates all its intermediates.
        cost: cost of the best known order; the search is for cheaper ones.
        nodes: largest number of sets to search.
        block: largest number of vertices of a block.

    Attributes:
        order: the best order found; None if none is cheaper than the known one.
        failed: True if the part is too large, so that `run` does nothing.
        looked_at: number of sets searched so far.
        vertices: the intermediates in the order in which blocks number them.
        blocks: the blocks of the largest bound so far.
    """

    def __init__(self, state: Elimination, cost: int, nodes: int, block: int = LARGE_BLOCK) -> None:
        waiting = {v: len(state.successors[v]) for v in range(len(state.sizes))}
        inner = set(state.intermediates)
        self._state = state.copy()
        order = topological_order(waiting, state.predecessors.__getitem__)
        self._state.intermediates = self.vertices = tuple(v for v in order if v in inner)
        self.cost = cost
        self.order: tuple[int, ...] | None = None
        self.lower_bound = 0
        self.failed = len(state.intermediates) > MOST_VERTICES or sum(state.sizes) >= _WIDEST or cost >> 48 > 0
        self.looked_at = 0
        self.blocks: tuple[tuple[int, ...], ...] = ()
        if not self.failed:
            self._rows = BitRows.of(self._state)
            self._words = self._rows.rows.shape[2]
            if self.vertices:
                self.lower_bound = int(self._pairs(1).sum())
        else:
            self.lower_bound = sum(least_costs(state).values())
        self._most_nodes, self._most_block, self._steps = nodes, block, _STEPS
        #: Value of F for each block that a change of the partition has tried, and the memory of the search.
        self._values: dict[tuple[int, ...], int] = {}
        self._memory: NDArray[np.int64] | None = None

    def improve_within(self, seconds: float) -> None:
        """Search for better orders at once, within that work; the bound then increases only at the end."""
        self._steps = 1
        if not self.failed:
            per_node = _NODE_SECONDS * max(1, len(self._state.intermediates)) * self._words
            self._most_nodes = min(self._most_nodes, int(min(seconds, 1e6) / per_node))

    def run(self) -> Iterator[int]:
        """Search until the optimum is proven or `nodes` sets are searched; yield the best cost from time to time."""
        if not self._state.intermediates:
            self.cost, self.order = 0, ()
        if self.failed or self.proven:
            return
        tables: _Tables = {}
        for best in self.partitions():
            tables = best
            if self.proven:
                return
            yield self.cost
        rng, moving = random.Random(0), 0.0
        nodes = _FIRST if self._most_block > SMALL_BLOCK and self._steps > 1 else self._most_nodes
        while not self.proven and self.looked_at < self._most_nodes:
            yield from self._search(tables, min(nodes, self._most_nodes))
            searching = _NODE_SECONDS * self.looked_at * len(self.vertices) * self._words
            work, most = searching - moving, _MOST_MOVING * searching
            while not self.proven and self.looked_at < self._most_nodes and 0.0 < work <= most - moving:
                before = _total(tables)
                for best in self._moved(tables, rng, work):
                    tables = best
                    yield self.cost
                moving += work
                if _total(tables) == before:
                    break
            nodes *= _MORE

    # Blocks

    def partitions(self) -> Iterator[_Tables]:
        """Yield the tables of partitions into blocks, each with a higher bound than the previous ones."""
        pairs = self._pair_costs = self._pairs(1 + 2 * len(self._state.intermediates))
        seen = set[tuple[tuple[int, ...], ...]]()
        best = -1
        choices = [(min(self._most_block, SMALL_BLOCK), weights) for weights in _AFFINITIES]
        if self._most_block > SMALL_BLOCK:
            choices += [(self._most_block, weights) for weights in _AFFINITIES]
        else:
            choices = choices[:1]
        for most, weights in choices:
            blocks = self._blocks(self._affinities(pairs, weights), most)
            if blocks in seen:
                continue
            seen.add(blocks)
            tables, bound = self.raise_by_blocks(blocks)
            if bound > best:
                best, self.blocks = bound, blocks
                yield tables

    def _moved(self, tables: _Tables, rng: random.Random, seconds: float) -> Iterator[_Tables]:
        """Yield the tables of further partitions, in which some neighbouring blocks are divided in another way.

        Args:
            tables: tables of the partition to change.
            rng: generator of the changes.
            seconds: work to spend.
        """
        affinities, known = self._affinities(self._pair_costs, _MOVING), self._values
        known.update((block, int(table[-1])) for block, table in tables.items())
        while seconds > 0.0 and len(tables) > 1:
            seconds -= _MOVE_SECONDS
            self._state.deadline.check(_MOVE_SECONDS)
            blocks = list(tables)
            near = np.array([affinities[:, block].sum(axis=1) for block in blocks])
            first = rng.randrange(len(blocks))
            ties = near[:, blocks[first]].sum(axis=1)
            ties[first] = 0.0
            if not ties.any():
                continue
            chosen = {first, *rng.choices(range(len(blocks)), ties, k=rng.choice(_NEIGHBOURS))}
            vertices = sorted(v for k in chosen for v in blocks[k])
            noise = rng.choice(_NOISE)
            factors = np.array([[math.exp(noise * (rng.random() - 0.5)) for _ in vertices] for _ in vertices])
            among = affinities[np.ix_(vertices, vertices)] * factors
            most = rng.randint(_LEAST_BLOCK, self._most_block)
            groups = self._blocks(among + among.T, most)
            new = {tuple(vertices[k] for k in group): None for group in groups}
            filled = {block: self._table(block) for block in new if block not in known}
            known.update((block, int(table[-1])) for block, table in filled.items())
            gain = sum(known[block] for block in new) - sum(known[blocks[k]] for k in chosen)
            seconds -= sum(_SET_SECONDS * len(block) * len(table) for block, table in filled.items()) * self._words
            if gain >= 0:
                have = tables | filled
                tables = {block: tables[block] for k, block in enumerate(blocks) if k not in chosen}
                tables |= {block: have[block] if block in have else self._table(block) for block in new}
            if gain > 0:
                self.blocks = tuple(tables)
                self.lower_bound = max(self.lower_bound, sum(known[block] for block in tables))
                yield tables
                if self.proven:
                    return

    def _pairs(self, rows: int) -> NDArray[np.int64]:
        """Return κ of all vertices in the whole graph, then after each alone is eliminated, then while it is kept."""
        vertices = len(self._state.intermediates)
        pairs: NDArray[np.int64] = np.zeros((rows, vertices), np.int64)
        self._fill((), pairs.reshape(-1), rows, min(rows, max(1, _PAIRS // vertices)), _PAIR_SECONDS * vertices)
        return pairs

    def raise_by_blocks(self, blocks: Iterable[tuple[int, ...]]) -> tuple[_Tables, int]:
        """Raise the lower bound by a partition into blocks; return their tables and the sum of their values."""
        tables: _Tables = {}
        for block in blocks:
            tables[block] = self._table(block)
        bound = _total(tables)
        self.lower_bound = max(self.lower_bound, bound)
        return tables, bound

    def _table(self, block: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the value of F for each subset of a block."""
        table: NDArray[np.int64] = np.full(1 << len(block), UNREACHED, np.int64)
        table[0] = 0
        self._fill(block, table, len(table) - 1, _SETS, _SET_SECONDS * len(block))
        return table

    def _fill(self, block: tuple[int, ...], table: NDArray[np.int64], last: int, budget: int, seconds: float) -> None:
        """Fill the table of a block; for an empty block, the table of κ for all pairs of vertices."""
        count, run = len(block), kernel("theory.blocks")
        encoded = BlocksState(
            **self._fields(),
            block=np.array(block, np.int64),
            buffers=np.zeros(max(1, count) * self._rows.rows.size, np.int64),
            owners=np.zeros(count, np.int64),
            flows=np.zeros((1 << count) * count * 2, np.int64),
            table=table,
            count=count,
            budget=max(1, budget),
        )
        while run(encoded.address) < last:
            self._state.deadline.check(seconds * encoded.budget * self._words)

    def _affinities(self, pairs: NDArray[np.int64], weights: tuple[float, float, float, float]) -> NDArray[np.float64]:
        """Return the affinity of each two vertices."""
        smaller, larger, joined, kept = weights
        more, vertices = pairs[1:] - pairs[0], len(self.vertices)
        # of the first vertex as long as the second is kept, and of the second after the first is eliminated
        more = kept * more[vertices:].T + more[:vertices]
        affinities = smaller * np.minimum(more, more.T) + larger * np.maximum(more, more.T) + joined * self._joined()
        np.fill_diagonal(affinities, 0.0)
        return np.asarray(affinities)

    def _blocks(self, affinities: NDArray[np.float64], most: int) -> tuple[tuple[int, ...], ...]:
        """Return a partition into blocks: repeatedly join the groups with the largest affinity for their size."""
        vertices = len(affinities)
        sizes = np.ones(vertices)
        groups: dict[int, tuple[int, ...]] = {v: (v,) for v in range(vertices)}
        while True:
            self._state.deadline.check()
            together = sizes[:, None] + sizes
            worth = np.where(together <= most, affinities / together, 0.0)
            a, b = divmod(int(worth.argmax()), vertices)
            if worth[a, b] <= 0:
                return tuple(tuple(sorted(group)) for group in groups.values())
            groups[a] += groups.pop(b)
            affinities[a] += affinities[b]
            affinities[:, a] += affinities[:, b]
            affinities[b] = affinities[:, b] = affinities[a, a] = 0.0
            sizes[a] += sizes[b]
            sizes[b] = np.inf

    def _joined(self) -> NDArray[np.uint8]:
        """Return the adjacency matrix of the intermediates, which is symmetric."""
        vertices, rows = len(self._state.intermediates), self._rows.rows
        near = np.ascontiguousarray(rows[:, 0] | rows[:, SIDE]).view(np.uint8)
        return np.unpackbits(near, axis=1, count=vertices, bitorder="little")

    def _fields(self) -> dict[str, Any]:
        """Return the fields that the states of both kernels have."""
        state, rows, words = self._state, self._rows, self._words
        products, multiplications = state.objective.ranked(1, 0)
        bits, vertices = 64 * words, len(state.intermediates)
        return dict(
            base=rows.rows,
            mask=_words((1 << vertices) - 1, words),
            sizes=rows.sizes,
            vertices=vertices,
            words=words,
            total=len(rows.number),
            scalar=bool((rows.sizes == 1).all()),
            products=products,
            multiplications=multiplications,
            between=np.zeros(bits * bits, np.int64),
            into=np.zeros(bits * words, np.int64),
            **zeros(2 * bits, "through came queue"),
            **zeros(words, "entered left near"),
        )

    # Search

    def _search(self, tables: _Tables, nodes: int) -> Iterator[int]:
        encoded = self._encoded = self._encode(tables)
        step, last = max(1, -(-(self.cost - self.lower_bound) // self._steps)), 0
        everything = (1 << len(self._state.intermediates)) - 1
        while not self.proven:
            before = self.looked_at
            for _ in self._solve(everything, min(self.cost, self.lower_bound + step) - 1):
                if self.looked_at >= nodes:
                    if (best := encoded.frames[0].best) >= 0:  # not known to be optimal
                        self.order = yield from self._found(everything, best, encoded.frames[0].last)
                        self.cost = best
                    return
                yield self.cost
            if encoded.result & 1:
                optimum = encoded.result >> 1
                self.order = yield from self._found(everything, optimum)
                self.cost = self.lower_bound = optimum
            else:
                self.lower_bound = max(self.lower_bound, encoded.result >> 1)
            # small steps repeat much work, and large ones may take too long to raise the bound at all
            took = self.looked_at - before
            step = 2 * step if took < 2 * last or last == 0 else max(1, step // 2) if took > 4 * last else step
            last = took
            yield self.cost

    def _encode(self, tables: _Tables) -> OrdersState:
        vertices, inner = len(self._state.intermediates), -(-len(self._state.intermediates) // 64)
        near = np.zeros((vertices, 64 * inner), np.uint8)
        near[:, :vertices] = self._joined()
        lengths = [len(table) for table in tables.values()]
        block, bit = np.zeros(vertices, np.int64), np.zeros(vertices, np.int64)
        for k, members in enumerate(tables):
            block[list(members)] = k
            bit[list(members)] = 1 << np.arange(len(members))
        memory = min(_MEMORY_BITS, vertices)
        if self._memory is None:
            self._memory = np.zeros(((1 << memory) + orders.PROBES) * (inner + orders.VALUE), np.int64)
        return OrdersState(
            **self._fields(),
            neighbours=np.packbits(near, axis=1, bitorder="little").view(np.int64),
            reach=np.zeros_like(self._rows.rows),
            block=block,
            bit=bit,
            starts=np.cumsum([0, *lengths[:-1]]),
            **zeros(len(tables), "gone sums"),
            tables=np.concatenate(list(tables.values())),
            frames=Records.zeros(orders.SetFrame, vertices),
            sets=np.zeros(vertices * inner, np.int64),
            **zeros(vertices * vertices, "choices prices least floors"),
            flows=np.zeros(2 * vertices * vertices, np.int64),
            nears=np.zeros(2 * vertices * vertices * inner, np.int64),
            parts=np.zeros(vertices * vertices * inner, np.int64),
            memory=self._memory,
            blocks=len(tables),
            inner=inner,
            memory_bits=memory,
            nodes=max(1, _NODES // vertices),
            looked_at=self.looked_at,
        )

    def _solve(self, subset: int, limit: int) -> Iterator[int]:
        """Search for an order of a set that costs at most `limit`; yield the number of sets after each call."""
        encoded, search, vertices = self._encoded, kernel("theory.orders"), len(self._state.intermediates)
        encoded.sets[: encoded.inner] = _words(subset, encoded.inner)
        encoded.frames[0].limit, encoded.depth = limit, -1
        more = True
        while more:
            more = search(encoded.address) > 0
            new, self.looked_at = encoded.looked_at - self.looked_at, encoded.looked_at
            self._state.deadline.check(_NODE_SECONDS * new * vertices * self._words)
            yield new

    def _found(self, everything: int, optimum: int, last: int = -1) -> Generator[int, None, tuple[int, ...]]:
        """Return the order of the part that was found; subsets whose results are no longer stored are searched again.

        Args:
            everything: all vertices of the part.
            optimum: cost of the order.
            last: last vertex of the order, if a search for a better one was not finished; by default it was.
        """
        encoded, reverse, left = self._encoded, list[int](), [everything]
        near = [
            sum(word << 64 * k for k, word in enumerate(row)) for row in encoded.neighbours.view(np.uint64).tolist()
        ]
        while left:
            subset, limit, solved = left.pop(), 0, last >= 0
            if solved:
                encoded.last, last = last, -1
            while not solved:
                for _ in self._solve(subset, limit):
                    yield self.cost
                solved, limit = encoded.result & 1 == 1, encoded.result >> 1
            reverse.append(encoded.last)
            rest = subset & ~(1 << encoded.last)
            while rest:
                joined, waiting = 0, rest & -rest
                while waiting:
                    joined |= waiting
                    waiting = near[(waiting & -waiting).bit_length() - 1] & rest & ~joined | waiting & (waiting - 1)
                left.append(joined)
                rest &= ~joined
        order = tuple(self._state.intermediates[k] for k in reversed(reverse))
        assert _price(self._state, order) == optimum, f"the best order costs {optimum}, but not when it is followed"
        return order


def _total(tables: _Tables) -> int:
    """Return the bound that the blocks of a partition add up to."""
    return sum(int(table[-1]) for table in tables.values())


def _words(bits: int, count: int) -> NDArray[np.int64]:
    """Return a bit set as a writable array of words."""
    return np.frombuffer(bytearray(bits.to_bytes(8 * count, "little")), np.dtype("<i8"))


def _price(state: Elimination, order: Iterable[int]) -> int:
    """Return the cost of an order, counted by elimination."""
    left, total = state.copy(), 0
    for v in order:
        total += left.cost(v)[0]
        left.eliminate(v)
    return total
