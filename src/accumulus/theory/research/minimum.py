"""Find the smallest number of products among all programs of the chain rule with noncommuting labels.

**Words.** A *word* is a path between two vertices, read as the product of its labels. The two vertices are its *pair*.
Every value of a program is a set of words of one pair, and is represented by the pair and a bit set. A product joins a
value of pair (x, m) with a value of pair (m, y).

A pair of a root and a terminal is an *output*; any other pair that is joined by a path of two or more edges is *inner*.

A *program* is any straight-line program of sums and products of the labels, without subtraction, whose results are the
path sums of the graph. It may use distributivity and share values in any way; sums are free. docs/research.md shows
which values it can use. A product joins all words of a set L from x to m with all words of a set R from m to y, and a
sum is a disjoint union.

**The search** decides if there is a program with a given number of products, in two depth-first steps: first the pairs
that have products (`_Pairs`), then the products (`_Products`). The number increases from the lower bound of step 1; the
first number with a program is the minimum. Both steps are exhaustive, so a failed search proves that there is no
program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.edges_and_faces import EdgeElimination
from accumulus.errors import GraphError
from accumulus.graph.graph import DifferentiationGraph

#: Largest number of words of a graph: for more, the search takes too long; fewer refuse graphs that it could decide.
LARGEST = 4_000


@dataclass(slots=True)
class Word:
    """A path of one or more edges.

    Attributes:
        pair: number of its pair.
        bit: its bit in the values of the pair.
        path: vertices of the path.
        cuts: for every inner vertex, (vertex, number of the word before it, number of the word after it).
    """

    pair: int
    bit: int
    path: tuple[int, ...]
    cuts: tuple[tuple[int, int, int], ...] = ()


@dataclass(slots=True)
class VertexPair:
    """Two vertices that are joined by a path.

    Attributes:
        start, end: the vertices.
        words: numbers of the words between them; the word at position k has the bit 1 << k.
        longest: number of edges of the longest word.
        edge: bits of the words of one edge, which are free.
        is_output: True for a root and a terminal.
    """

    start: int
    end: int
    words: list[int] = field(default_factory=list)
    longest: int = 0
    edge: int = 0
    is_output: bool = False

    @property
    def products(self) -> int:
        """Bits of the words of two or more edges."""
        return ((1 << len(self.words)) - 1) & ~self.edge


class Words:
    """All words of a graph.

    Dead edges are left out, and parallel edges count as one edge, whose label is their sum.

    Raises:
        GraphError: if there are more than `LARGEST` words.

    >>> words = Words(DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "b"), ("b", "x")]))
    >>> len(words.words), [len(words.pairs[p].words) for p in words.outputs]
    (8, [2])
    """

    def __init__(self, graph: DifferentiationGraph) -> None:
        self.graph = graph
        self.below = [list(row) for row in EdgeElimination(graph).successors]
        self.words: list[Word] = []
        self.pairs: list[VertexPair] = []
        self.pair_of: dict[tuple[int, int], int] = {}
        self._index: dict[tuple[int, ...], int] = {}
        for start in range(len(self.below)):
            for path in self._paths((start,)):
                self._add(path)
        for word in self.words:
            path = word.path
            word.cuts = tuple(
                (path[k], self._index[path[: k + 1]], self._index[path[k:]]) for k in range(1, len(path) - 1)
            )
        roots, terminals = set(graph.roots), set(graph.terminals)
        for pair in self.pairs:
            pair.is_output = pair.start in roots and pair.end in terminals
        #: Outputs with a word of two or more edges, and inner pairs.
        self.outputs = [p for p, pair in enumerate(self.pairs) if pair.is_output and pair.longest > 1]
        self.inner = [p for p, pair in enumerate(self.pairs) if not pair.is_output and pair.longest > 1]

    def joined(self, left: int, right: int) -> int:
        """Return the number of the concatenation of two words."""
        return self._index[self.words[left].path + self.words[right].path[1:]]

    def members(self, pair: int, value: int) -> list[int]:
        """Return the numbers of the words in a value."""
        return [word for k, word in enumerate(self.pairs[pair].words) if value >> k & 1]

    def _paths(self, path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        for target in self.below[path[-1]]:
            yield (*path, target)
            yield from self._paths((*path, target))

    def _add(self, path: tuple[int, ...]) -> None:
        if len(self.words) == LARGEST:
            raise GraphError(
                f"the graph has more than {LARGEST} path pieces; expected a small graph, such as one of 20 edges"
            )
        key = path[0], path[-1]
        if key not in self.pair_of:
            self.pair_of[key] = len(self.pairs)
            self.pairs.append(VertexPair(*key))
        number = self.pair_of[key]
        pair = self.pairs[number]
        bit = 1 << len(pair.words)
        self._index[path] = len(self.words)
        pair.words.append(len(self.words))
        pair.longest = max(pair.longest, len(path) - 1)
        if len(path) == 2:
            pair.edge |= bit
        self.words.append(Word(number, bit, path))


# The search ----------------------------------------------------------------------------------------------------------


#: A product: its pair, the vertex where its factors meet, and the factors as bit sets of the words of their pairs.
Product = tuple[int, int, int, int]
Needs = dict[int, frozenset[int]]

#: Largest number of nodes of a search: its time against the graphs that it decides. Not measured.
_STEPS: Final = 1_000_000
#: Upper bound on the number of products of any program.
_NEVER: Final = 1 << 40


class OutOfStepsError(Exception):
    """Error of a search that has used up its steps."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """Bounds on the smallest number of products, and a program.

    Attributes:
        lower: lower bound on the number of products of any program.
        upper: number of products of the program; None if the search found none.
        accumulation: the program; None if the search found none.
        steps: number of nodes of the search.
    """

    lower: int
    upper: int | None
    accumulation: Accumulation | None
    steps: int


def true_minimum(graph: DifferentiationGraph, below: int | None = None, steps: int = _STEPS) -> Minimum:
    """Return the smallest number of products of any program for the graph's Jacobian, all labels variable.

    Args:
        graph: graph; all labels count as variables.
        below: if given, search only for programs with fewer products.
        steps: largest number of nodes of the search; if it is exceeded, the result has only a lower bound.

    Raises:
        GraphError: if the graph is too large (`LARGEST`).

    >>> from accumulus.graph.graph import DifferentiationGraph
    >>> diamond = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "c"), ("b", "c"), ("c", "x1"), ("c", "x2")])
    >>> true_minimum(diamond).upper
    4
    """
    words = Words(graph)
    search = _Pairs(words, steps)
    number = search.lower_bound()
    while below is None or number < below:
        try:
            products = search.run(number)
        except OutOfStepsError:
            break
        if products is not None:
            return Minimum(number, number, accumulation_of(words, products), search.steps)
        number += 1
    return Minimum(number, None, None, search.steps)


def accumulation_of(words: Words, products: list[Product]) -> Accumulation:
    """Return the verified accumulation of a set of products.

    Raises:
        VerificationError: if the products do not give the Jacobian, which is a bug of the search.
    """
    graph = words.graph
    merged = EdgeElimination(graph)  # merges parallel edges
    steps, edges = merged.steps, merged.successors
    made: dict[int, list[tuple[int, int]]] = {}
    for p, pair in enumerate(words.pairs):
        made[p] = [(pair.edge, edges[pair.start][pair.end])] if pair.edge else []
    sums: dict[tuple[int, int], int] = {}

    def value(p: int, target: int) -> int:
        if (p, target) not in sums:
            parts = _partition(target, made[p])
            total = parts[0]
            for reference in parts[1:]:
                total = steps.sum(total, reference)
            sums[p, target] = total
        return sums[p, target]

    for p, cut, left, right in sorted(products, key=lambda product: words.pairs[product[0]].longest):
        pair = words.pairs[p]
        before, after = words.pair_of[pair.start, cut], words.pair_of[cut, pair.end]
        result = steps.product(value(before, left), value(after, right))
        made[p].append((_joined(words, before, left, after, right), result))
    outputs = ((p, pair) for p, pair in enumerate(words.pairs) if pair.is_output)
    entries = {(pair.start, pair.end): value(p, (1 << len(pair.words)) - 1) for p, pair in outputs}
    accumulation = Accumulation.between(graph, steps, entries)
    accumulation.verify()
    return accumulation


def _joined(words: Words, before: int, left: int, after: int, right: int) -> int:
    joined = 0
    for one in words.members(before, left):
        for other in words.members(after, right):
            joined |= words.words[words.joined(one, other)].bit
    return joined


def _partition(target: int, parts: list[tuple[int, int]]) -> list[int]:
    """Return the references of parts whose disjoint union is the target."""
    if not target:
        return []
    lowest = target & -target
    for bits, reference in parts:
        if bits & lowest and not bits & ~target:
            try:
                return [reference, *_partition(target & ~bits, parts)]
            except LookupError:
                continue
    raise LookupError("the computed values do not add up to the required one")


class _Cover:
    """Smallest numbers of vertices that cut all words of a pair, for cuts that a set of inner pairs allows."""

    def __init__(self, words: Words, pair: int, of_cut: dict[tuple[int, int], tuple[int, ...]]) -> None:
        self.products = words.pairs[pair].products
        self.cuts: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        self.relevant = 0
        for number in words.pairs[pair].words:
            word = words.words[number]
            for cut, _, _ in word.cuts:
                masks = of_cut[number, cut]
                self.cuts.setdefault(cut, []).append((word.bit, masks))
                for mask in masks:
                    self.relevant |= mask
        self._smallest: dict[int, int] = {}
        self._hits: dict[int, list[int]] = {}

    def smallest_cut(self, allowed: int) -> int:
        """Return the smallest number of vertices that cut all words of the pair; `_NEVER` if no set does."""
        key = allowed & self.relevant
        if key not in self._smallest:
            self._smallest[key] = self.smallest_cut_of(allowed, self.products)
        return self._smallest[key]

    def smallest_cut_of(self, allowed: int, target: int) -> int:
        """Return the smallest number of vertices that cut the words in `target`; `_NEVER` if no set does."""
        if not target:
            return 0
        key = allowed & self.relevant
        hits = self._hits.get(key)
        if hits is None:
            hits = [
                sum(bit for bit, masks in members if any(not mask & ~allowed for mask in masks))
                for members in self.cuts.values()
            ]
            self._hits[key] = hits
        useful = [hit & target for hit in hits if hit & target]
        for count in range(1, len(useful) + 1):
            for chosen in combinations(useful, count):
                union = 0
                for hit in chosen:
                    union |= hit
                if union == target:
                    return count
        return _NEVER


class _Pairs:
    """Step 1: search for sets of inner pairs that have products."""

    def __init__(self, words: Words, steps: int) -> None:
        self.words = words
        self.left = self.budget = steps
        #: Bit of every inner pair.
        self.bit = {p: 1 << k for k, p in enumerate(words.inner)}
        self.everything = (1 << len(words.inner)) - 1
        # minimal sets of inner pairs that the brackets of each word need, without the word's own pair
        trees: list[tuple[int, ...]] = [()] * len(words.words)
        of_cut: dict[tuple[int, int], tuple[int, ...]] = {}
        for number in sorted(range(len(words.words)), key=lambda k: len(words.words[k].path)):
            ways: set[int] = set()
            for cut, before, after in words.words[number].cuts:
                masks = _minimal_sets(
                    one | other | self._pair_bit(before) | self._pair_bit(after)
                    for one in trees[before]
                    for other in trees[after]
                )
                of_cut[number, cut] = masks
                ways.update(masks)
            trees[number] = _minimal_sets(ways) if ways else (0,)
        self.trees = trees
        self.covers = {p: _Cover(words, p, of_cut) for p in (*words.outputs, *words.inner)}
        self.paths = [number for p in words.outputs for number in words.pairs[p].words if words.words[number].cuts]

    @property
    def steps(self) -> int:
        """Number of nodes so far."""
        return self.budget - self.left

    def _pair_bit(self, word: int) -> int:
        """Return the bit of a word's pair; 0 for a word of one edge."""
        return self.bit[self.words.words[word].pair] if self.words.words[word].cuts else 0

    def lower_bound(self) -> int:
        """Return a lower bound on the number of products of any program."""
        return self._bound(0, self.everything)

    def run(self, number: int) -> list[Product] | None:
        """Return the products of a program with at most `number` of them; None if there is no such program."""
        return self._decide(0, self.everything, number)

    def _outputs(self, allowed: int) -> int:
        return sum(self.covers[p].smallest_cut(allowed) for p in self.words.outputs)

    def _bound(self, chosen: int, allowed: int) -> int:
        """Return a lower bound on products: for chosen pairs, outputs, and disjoint sets of pairs that paths need."""
        bound = chosen.bit_count() + self._outputs(allowed)
        open_pairs = []
        for number in self.paths:
            ways = [mask & ~chosen for mask in self.trees[number] if not mask & ~allowed]
            if 0 in ways or not ways:
                continue
            union = 0
            for mask in ways:
                union |= mask
            open_pairs.append((min(mask.bit_count() for mask in ways), union))
        taken = 0
        for count, union in sorted(open_pairs, key=lambda item: (item[1].bit_count() - item[0], -item[0])):
            if not union & taken:
                taken |= union
                bound += count
        return bound

    def _decide(self, chosen: int, allowed: int, number: int) -> list[Product] | None:
        """Search by choosing or forbidding the pairs that are allowed and not chosen; return the products or None."""
        self.left -= 1
        if self.left < 0:
            raise OutOfStepsError
        if self._bound(chosen, allowed) > number:
            return None
        undecided = allowed & ~chosen
        if undecided and chosen.bit_count() + 1 + self._outputs(allowed) > number:
            allowed, undecided = chosen, 0
        if not undecided:
            if any(all(mask & ~chosen for mask in self.trees[path]) for path in self.paths):
                return None
            return _Products(self, chosen, number).run() if self._bound(chosen, chosen) <= number else None
        pick = undecided & -undecided
        fewest = 0
        for path in self.paths:
            ways = [mask & ~chosen for mask in self.trees[path] if not mask & ~allowed]
            if 0 not in ways and (not fewest or len(ways) < fewest):
                fewest = len(ways)
                way = min(ways, key=int.bit_count)
                pick = way & -way
                if fewest == 1:
                    return self._decide(chosen | way, allowed, number)
        return self._decide(chosen | pick, allowed, number) or self._decide(chosen, allowed & ~pick, number)


def _minimal_sets(masks: Iterator[int] | set[int]) -> tuple[int, ...]:
    """Return the minimal sets, which include no other set."""
    minimal: list[int] = []
    for mask in sorted(set(masks), key=int.bit_count):
        if not any(not other & ~mask for other in minimal):
            minimal.append(mask)
    return tuple(minimal)


class _Products:
    """Step 2: partition the values of every pair into products; each chosen inner pair has at least one product."""

    def __init__(self, search: _Pairs, chosen: int, number: int) -> None:
        self.search, self.words, self.chosen, self.number = search, search.words, chosen, number
        words = self.words
        pairs = [p for p in (*words.outputs, *words.inner) if words.pairs[p].is_output or search.bit[p] & chosen]
        self.order = sorted(pairs, key=lambda p: (-words.pairs[p].longest, p))
        #: Words that can be bracketed, as bits by pair.
        self.possible: dict[int, int] = {}
        for number_, word in enumerate(words.words):
            pair_bit = search._pair_bit(number_) if not words.pairs[word.pair].is_output else 0
            if any(not (mask | pair_bit) & ~chosen for mask in search.trees[number_]):
                self.possible[word.pair] = self.possible.get(word.pair, 0) | word.bit
        self.static = {p: search.covers[p].smallest_cut(chosen) if words.pairs[p].is_output else 1 for p in self.order}
        self.seen: dict[tuple[int, frozenset[tuple[int, frozenset[int]]]], int] = {}

    def run(self) -> list[Product] | None:
        """Return the products of a program; None if there is no program."""
        needs: Needs = {p: frozenset((self.words.pairs[p].products,)) for p in self.words.outputs}
        return self._pair(0, needs, [])

    def _pair(self, at: int, needs: Needs, made: list[Product]) -> list[Product] | None:
        """Search for the products of the pairs from position `at` on."""
        search = self.search
        search.left -= 1
        if search.left < 0:
            raise OutOfStepsError
        bounds = []
        for p in self.order[at:]:
            smallest_cut_of = search.covers[p].smallest_cut_of
            bounds.append(max(self.static[p], *(smallest_cut_of(self.chosen, value) for value in needs.get(p, ())), 0))
        if len(made) + sum(bounds) > self.number:
            return None
        if at == len(self.order):
            return made
        key = at, frozenset((p, needs[p]) for p in self.order[at:] if p in needs)
        if self.seen.get(key, self.number + 1) <= len(made):
            return None
        self.seen[key] = len(made)
        p = self.order[at]
        values = needs.get(p)
        if not values:
            return None
        most = self.number - len(made) - sum(bounds[1:])
        # smallest values first, so that larger values can use their products
        ordered = sorted(values, key=lambda value: (value.bit_count(), value))
        for products in self._cut(p, ordered, 0, ordered[0], [], most):
            further = dict(needs)
            for _, cut, left, right in products:
                self._need(further, self.words.pairs[p].start, cut, left)
                self._need(further, cut, self.words.pairs[p].end, right)
            completed = self._pair(at + 1, further, made + products)
            if completed is not None:
                return completed
        return None

    def _need(self, needs: Needs, start: int, end: int, value: int) -> None:
        p = self.words.pair_of[start, end]
        value &= ~self.words.pairs[p].edge
        if value:
            needs[p] = needs.get(p, frozenset()) | {value}

    def _cut(
        self, p: int, values: list[int], at: int, rest: int, made: list[tuple[int, Product]], most: int
    ) -> Iterator[list[Product]]:
        """Yield all sets of at most `most` products such that every value is a disjoint union of products."""
        while not rest:
            at += 1
            if at == len(values):
                yield [product for _, product in made]
                return
            rest = values[at]
        lowest = rest & -rest
        for bits, _ in made:
            if bits & lowest and not bits & ~rest:
                yield from self._cut(p, values, at, rest & ~bits, made, most)
        if len(made) < most:
            formed = {product for _, product in made}
            for bits, product in self._rectangles(p, lowest, rest):
                if product not in formed:
                    yield from self._cut(p, values, at, rest & ~bits, [*made, (bits, product)], most)

    def _rectangles(self, p: int, lowest: int, rest: int) -> Iterator[tuple[int, Product]]:
        """Yield every product that contains the word `lowest` and only words of `rest`, large ones first."""
        words, pair = self.words, self.words.pairs[p]
        word = words.words[pair.words[lowest.bit_length() - 1]]
        for cut, before, after in word.cuts:
            one, other = words.words[before], words.words[after]
            lefts, rights = self.possible.get(one.pair, 0), self.possible.get(other.pair, 0)
            if not (lefts & one.bit and rights & other.bit):
                continue
            rows: dict[int, dict[int, int]] = {}
            for left in words.members(one.pair, lefts):
                row = {}
                for right in words.members(other.pair, rights):
                    bit = words.words[words.joined(left, right)].bit
                    if bit & rest:
                        row[words.words[right].bit] = bit
                rows[words.words[left].bit] = row
            base = rows[one.bit]
            more_rows = [bit for bit, row in rows.items() if bit != one.bit and other.bit in row]
            for some in _subsets(more_rows):
                common = [r for r in base if r != other.bit and all(r in rows[bit] for bit in some)]
                left_value = one.bit | sum(some)
                for more in _subsets(common):
                    right_value = other.bit | sum(more)
                    bits = 0
                    for bit in (one.bit, *some):
                        for r in (other.bit, *more):
                            bits |= rows[bit][r]
                    yield bits, (p, cut, left_value, right_value)


def _subsets(items: list[int]) -> Iterator[tuple[int, ...]]:
    for count in range(len(items), -1, -1):
        yield from combinations(items, count)
