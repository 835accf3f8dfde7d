"""Pages: partition the paths between many roots and terminals, and factor common chains and blocks in each page.

A page is a subset of the paths; all pages share the roots and terminals. The strategy of docs/notes.md, section 5,
starts with the whole graph as the first page. These rules resolve its choices:

* Step 2: among vertices of equal degree, v_i is on the level closest to the roots, and v_j, which may be v_i, on the
  level closest to the terminals.
* Step 3: the paths from the other roots to all terminals, and from these roots to the other terminals, are two more
  pages.
* Step 4: the edges at roots or at terminals that cross the most levels, at roots if both cross equally many, separate
  the paths through them from all others. If no such edges cross levels, one half of the roots is separated from the
  other if v_i is further from the roots than v_j from the terminals, else one half of the terminals. At equal
  distance, the side with fewer vertices is halved, or the roots if both have equally many.
* Step 5: the vertices between the level of v_i and the level of v_j, on the paths between the vertices of these levels
  that reach v_j and that v_i reaches, are factorized. If there are v_i′ and v_j′ inside for which step 5 is next, only
  the vertices between their levels are. The vertex with the fewest products comes next; ties go by level and number. If
  v_i and v_j are then joined by one edge only, v_j is split, too, if it has no other predecessor, or else v_i if it has
  no other successor.
* Step 6: a page with one pair, or without v_i and v_j, is accumulated in one piece, by the best products of local
  Jacobians.

Equal products and sums of different pages are computed once.

The separation of pairs is greedy and may cost more than it saves: the literal strategy takes 46 products for the notes'
multi-root graph and 51 for the graph of its figure (a), but 40 and 44 suffice. So by default a page is accumulated in
one piece if that is cheaper. It is also accumulated in one piece if its pairs times edges exceed `limit`, because the
number of pages grows with the number of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from accumulus.context import Context
from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation, SharedSteps, Steps
from accumulus.graph.graph import DifferentiationGraph
from accumulus.search.elimination import Workload
from accumulus.search.registry import SearchResult, register_method
from accumulus.theory.graphs.traversal import longest_ways, reached, series_vertices, topological_order
from accumulus.theory.methods.local_jacobians import accumulate_edges, bracketing_seconds

Pair = tuple[int, int]


class Page:
    """Labelled edges, all of them on paths from the page's roots to its terminals.

    Args:
        graph: graph of the vertices.
        steps: steps to which the products and sums are appended.
        roots: starts of the paths, by default the graph's roots.
        terminals: ends of the paths, by default the graph's terminals.
        deadline: deadline of the computation.
    """

    def __init__(
        self,
        graph: DifferentiationGraph,
        steps: Steps,
        roots: Iterable[int] | None = None,
        terminals: Iterable[int] | None = None,
        deadline: Deadline = FOREVER,
    ) -> None:
        self.graph, self._deadline = graph, deadline
        self.steps = steps
        #: Starts and ends of the paths; some may have no edges on this page.
        self.roots = list(graph.roots if roots is None else roots)
        self.terminals = list(graph.terminals if terminals is None else terminals)
        self._fixed = {*self.roots, *self.terminals}
        self.successors: dict[int, dict[int, int]] = {}
        self.predecessors: dict[int, dict[int, None]] = {}

    def add(self, j: int, i: int, label: int) -> None:
        """Add an edge; the labels of parallel edges are added up."""
        row = self.successors.setdefault(j, {})
        row[i] = self.steps.sum(row[i], label) if i in row else label
        self.predecessors.setdefault(i, {})[j] = None
        self.successors.setdefault(i, {})
        self.predecessors.setdefault(j, {})

    def edges(self) -> Iterator[tuple[Pair, int]]:
        """Yield all edges with their labels."""
        for j, row in self.successors.items():
            for i, label in row.items():
                yield (j, i), label

    def copy(self) -> Page:
        """Return a page with the same edges."""
        return self._restricted(dict(self.edges()))

    @property
    def size(self) -> int:
        """Number of edges."""
        return sum(map(len, self.successors.values()))

    @property
    def inner(self) -> list[int]:
        """Vertices that are neither root nor terminal, ascending."""
        return sorted(v for v in self.successors if v not in self._fixed)

    @property
    def active_roots(self) -> list[int]:
        """Roots that have edges on this page."""
        return [root for root in self.roots if self.successors.get(root)]

    @property
    def active_terminals(self) -> list[int]:
        """Terminals that have edges on this page."""
        return [terminal for terminal in self.terminals if self.predecessors.get(terminal)]

    @property
    def pairs(self) -> int:
        """Number of roots times number of terminals, of those with edges on this page."""
        return len(self.active_roots) * len(self.active_terminals)

    def reduce(self) -> bool:
        """Step 1: replace simple chains and blocks by edges; return True if there are any."""
        changed = False
        into, out = self.predecessors, self.successors
        for v in series_vertices(into, out, self._order(), lambda v: v not in self._fixed and v in out):
            self._eliminate(v)
            changed = True
        return changed

    def ends(self) -> tuple[int, int] | None:
        """Step 2: return v_i and v_j, or None if they do not exist."""
        level = self.levels()
        inner = self.inner
        start = _unequalled(inner, level, self._sets(upwards=False), first=True)
        if start is None:
            return None
        reach = reached([start], self.successors.__getitem__)
        end = _unequalled([v for v in inner if v in reach], level, self._sets(upwards=True), first=False, of=inner)
        return None if end is None else (start, end)

    def partition(self, start: int, end: int) -> tuple[list[Page], str]:
        """Return the pages into which steps 3 and 4 partition this page, and the rule; no pages if step 5 is next."""
        above = reached([start], self.predecessors.__getitem__)
        below = reached([end], self.successors.__getitem__)
        roots, terminals = self.active_roots, self.active_terminals
        reaching, met = [r for r in roots if r in above], [t for t in terminals if t in below]
        if len(reaching) < len(roots) or len(met) < len(terminals):
            unreached = [t for t in terminals if t not in below]
            return self._nonempty(
                self._between(reaching, met),
                self._between([r for r in roots if r not in above], terminals),
                self._between(reaching, unreached),
            ), "index sets"
        level = self.levels()
        if level[start] == level[end] or self._joined_by_one_edge(start, end):
            return self._separate(start, end, level)
        return [], ""

    def factorize(self, start: int, end: int) -> None:
        """Step 5: eliminate vertices between the levels of v_i and v_j (see the module)."""
        upper, lower = self._level_sets(start, end)
        inside = self._strictly_between(upper, lower)
        nested = self._restricted(
            {
                (j, i): label
                for (j, i), label in self.edges()
                if (j in inside or j in upper) and (i in inside or i in lower)
            },
            upper,
            lower,
        )
        nested_ends = nested.ends()
        if nested_ends is not None and not nested.partition(*nested_ends)[0]:
            inside = nested._strictly_between(*nested._level_sets(*nested_ends))
        level = self.levels()
        left = dict.fromkeys(sorted(inside, key=lambda v: (level[v], v)))
        while left:
            v = min(left, key=lambda v: len(self.predecessors[v]) * len(self.successors[v]))
            del left[v]
            self._eliminate(v)
        self.reduce()
        if start in self.successors and end in self.successors and self._joined_by_one_edge(start, end):
            if len(self.predecessors[end]) == 1:
                self._eliminate(end)
            elif len(self.successors[start]) == 1:
                self._eliminate(start)

    def levels(self) -> dict[int, int]:
        """Return the level of each vertex: the length of the longest path from a root; terminals on the last level."""
        level = longest_ways(self._order(), self.successors.__getitem__)
        last = max(level.values(), default=0)
        level.update((t, last) for t in self.active_terminals)
        return level

    def _separate(self, start: int, end: int, level: dict[int, int]) -> tuple[list[Page], str]:
        """Step 4: separate pairs of roots and terminals; return the pages and the rule."""
        roots, terminals = self.active_roots, self.active_terminals
        last = max(level.values())
        out = {(j, i): level[i] for j in roots for i in self.successors[j]}
        into = {(j, i): last - level[j] for i in terminals for j in self.predecessors[i]}
        crossed = max(*out.values(), *into.values())
        if crossed > 1:
            side, ends, lengths = (0, roots, out) if max(out.values()) == crossed else (1, terminals, into)
            chosen = {edge for edge, length in lengths.items() if length == crossed}
            rest = self._paths_within(lambda edge: edge not in chosen)
            through = self._paths_within(lambda edge: edge[side] not in ends or edge in chosen)
            return self._nonempty(through, rest), "cross-level"
        above, below = level[start], last - level[end]
        by_roots = above > below or (above == below and len(roots) <= len(terminals))
        if len(terminals) == 1 or (by_roots and len(roots) > 1):
            return self._nonempty(*(self._between(half, terminals) for half in _halves(roots))), "roots"
        return self._nonempty(*(self._between(roots, half) for half in _halves(terminals))), "terminals"

    def _eliminate(self, v: int) -> None:
        self._deadline.check()
        into, out = self.predecessors.pop(v), self.successors.pop(v)
        for i in out:
            del self.predecessors[i][v]
        for j in into:
            above = self.successors[j].pop(v)
            for i, below in out.items():
                self.add(j, i, self.steps.product(above, below))

    def _joined_by_one_edge(self, start: int, end: int) -> bool:
        """Return True if the only path between the two vertices is an edge."""
        if end not in self.successors[start]:
            return False
        siblings = [i for i in self.successors[start] if i != end]
        return end not in reached(siblings, self.successors.__getitem__)

    def _level_sets(self, start: int, end: int) -> tuple[list[int], list[int]]:
        """Return the vertices on the level of v_i that reach v_j, and on the level of v_j those reached from v_i."""
        level = self.levels()
        above, below = reached([end], self.predecessors.__getitem__), reached([start], self.successors.__getitem__)
        upper = [v for v in self.inner if level[v] == level[start] and v in above]
        lower = [v for v in self.inner if level[v] == level[end] and v in below]
        return upper, lower

    def _strictly_between(self, upper: list[int], lower: list[int]) -> set[int]:
        reach = reached(upper, self.successors.__getitem__) & reached(lower, self.predecessors.__getitem__)
        return reach - {*upper, *lower}

    def _order(self) -> list[int]:
        """Return the vertices of the page in topological order, roots first."""
        return topological_order({v: len(near) for v, near in self.predecessors.items()}, self.successors.__getitem__)

    def _sets(self, *, upwards: bool) -> dict[int, int]:
        """Return the t-degree of each vertex if `upwards`, else its r-degree."""
        ends = self.active_terminals if upwards else self.active_roots
        bits = dict.fromkeys(self.successors, 0)
        for k, end in enumerate(ends):
            bits[end] = 1 << k
        order = self._order()
        for v in reversed(order) if upwards else order:
            for i in self.successors[v]:
                if upwards:
                    bits[v] |= bits[i]
                else:
                    bits[i] |= bits[v]
        return {v: reach.bit_count() for v, reach in bits.items()}

    def _between(self, roots: list[int], terminals: list[int]) -> Page:
        ends = {*roots, *terminals}
        return self._paths_within(lambda edge: all(v in ends or v not in self._fixed for v in edge))

    def _paths_within(self, selected: Callable[[Pair], bool]) -> Page:
        """Return the page of the paths whose edges are all selected."""
        page = self._restricted({edge: label for edge, label in self.edges() if selected(edge)})
        live = reached(page.active_roots, page.successors.__getitem__) & reached(
            page.active_terminals, page.predecessors.__getitem__
        )
        return self._restricted({(j, i): label for (j, i), label in page.edges() if j in live and i in live})

    def _restricted(
        self, edges: dict[Pair, int], roots: list[int] | None = None, terminals: list[int] | None = None
    ) -> Page:
        page = Page(
            self.graph,
            self.steps,
            self.roots if roots is None else roots,
            self.terminals if terminals is None else terminals,
            self._deadline,
        )
        for (j, i), label in edges.items():
            page.add(j, i, label)
        return page

    def _nonempty(self, *pages: Page) -> list[Page]:
        return [page for page in pages if page.size]


def _halves(vertices: list[int]) -> tuple[list[int], list[int]]:
    """Return the first half, which may be larger by one, and the second half."""
    half = (len(vertices) + 1) // 2
    return vertices[:half], vertices[half:]


def _unequalled(
    candidates: list[int], level: dict[int, int], degree: dict[int, int], *, first: bool, of: list[int] | None = None
) -> int | None:
    """Return the candidate of largest degree among those whose degree is the unique maximum of their level.

    Args:
        candidates: vertices to choose from.
        level: level of each vertex.
        degree: degree of each vertex.
        first: if True, ties go to the first level, else to the last.
        of: vertices of the levels, by default the candidates.
    """
    highest: dict[int, list[int]] = {}
    for v in candidates if of is None else of:
        rivals = highest.setdefault(level[v], [])
        if rivals and degree[v] > degree[rivals[0]]:
            rivals.clear()
        if not rivals or degree[v] == degree[rivals[0]]:
            rivals.append(v)
    allowed = set(candidates)
    unrivalled = [rivals[0] for rivals in highest.values() if len(rivals) == 1 and rivals[0] in allowed]
    if not unrivalled:
        return None
    return max(unrivalled, key=lambda v: (degree[v], -level[v] if first else level[v]))


# The strategy --------------------------------------------------------------------------------------------------------


#: Product of pairs and edges above which a page is accumulated in one piece: time against splits. Not measured.
_LIMIT: Final = 20_000


def pages(
    graph: DifferentiationGraph,
    *,
    literal: bool = False,
    limit: int = _LIMIT,
    unit_products: bool = False,
    deadline: Deadline = FOREVER,
) -> Accumulation:
    """Accumulate by the page strategy.

    Args:
        graph: graph to accumulate.
        literal: if True, pages are split even if one piece is cheaper.
        limit: product of pairs and edges above which a page is accumulated in one piece.
        unit_products: as for `accumulus.theory.methods.local_jacobians.local_jacobians`.
        deadline: deadline of the computation.

    Raises:
        OutOfTimeError: if the deadline passes first.

    >>> graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x"), ("b", "w")])
    >>> sum(pages(graph).steps.is_product)
    6
    """
    strategy = _Strategy(graph, literal, limit, unit_products, deadline)
    return Accumulation.between(graph, strategy.steps, strategy.accumulate(strategy.first_page(), None))


@dataclass(frozen=True, slots=True)
class TracedPage:
    """State of a page during a run.

    Attributes:
        rule: rule that made the page: "given"; "simple", step 1; "index sets", step 3; "cross-level", "roots" or
            "terminals", step 4; "factorized", step 5.
        parent: position in the trace of the page that it was made from; None for the first.
        edges: label of each edge: its symbol, or e1, e2, … by edge number, or s1, s2, … for references in the order of
            their first appearance.
    """

    rule: str
    parent: int | None
    edges: dict[tuple[str, str], str]


def trace_pages(graph: DifferentiationGraph, *, limit: int = _LIMIT) -> list[TracedPage]:
    """Return the pages of a literal run in order, each after every rule that changed it."""
    strategy = _Strategy(graph, True, limit)
    strategy.trace = []
    strategy.accumulate(strategy.first_page(), None)
    return strategy.trace


class _Strategy:
    """A run of the strategy; all pages share the steps."""

    def __init__(
        self,
        graph: DifferentiationGraph,
        literal: bool,
        limit: int,
        unit_products: bool = False,
        deadline: Deadline = FOREVER,
    ) -> None:
        self.graph, self._deadline = graph, deadline
        self.unit_products = unit_products
        self.literal = literal
        self.limit = limit
        self.steps = SharedSteps(len(graph.sources))
        self.trace: list[TracedPage] | None = None
        self._names: dict[int, str] = {}

    def first_page(self) -> Page:
        """Return the page of the whole graph."""
        page = Page(self.graph, self.steps, deadline=self._deadline)
        for e in self.graph.live_edges.nonzero()[0].tolist():
            page.add(int(self.graph.sources[e]), int(self.graph.targets[e]), e)
        return page

    def accumulate(self, page: Page, parent: int | None, rule: str = "given") -> dict[Pair, int]:
        """Return the entries of a page, which is partitioned or accumulated in one piece."""
        if self.literal:
            return self._parted(page, parent, rule)
        if page.pairs == 1 or page.pairs * page.size > self.limit:
            return self._whole(page)
        start = len(self.steps)
        whole = self._whole(page.copy())
        in_one_piece = self.steps.rewind(start)
        parted = self._parted(page, parent, rule)
        if sum(self.steps.is_product[start:]) < sum(is_product for is_product, _, _ in in_one_piece):
            return parted
        self.steps.rewind(start)
        self.steps.replay(in_one_piece)
        return whole

    def _parted(self, page: Page, parent: int | None, rule: str) -> dict[Pair, int]:
        parent = self._record(page, parent, rule)
        while True:
            self._deadline.check()
            if page.reduce():
                parent = self._record(page, parent, "simple")
            if not page.inner:
                return dict(page.edges())
            ends = page.ends() if page.pairs > 1 and page.pairs * page.size <= self.limit else None
            if ends is None:
                return self._whole(page)
            parts, reason = page.partition(*ends)
            if parts:
                break
            page.factorize(*ends)
            parent = self._record(page, parent, "factorized")
        total: dict[Pair, int] = {}
        for pair, label in chain.from_iterable(self.accumulate(piece, parent, reason).items() for piece in parts):
            total[pair] = self.steps.sum(total[pair], label) if pair in total else label
        return total

    def _whole(self, page: Page) -> dict[Pair, int]:
        page.reduce()
        edges = [(j, i, label) for (j, i), label in page.edges()]
        return accumulate_edges(
            self.graph, edges, self.steps, unit_products=self.unit_products, deadline=self._deadline
        )

    def _record(self, page: Page, parent: int | None, rule: str) -> int | None:
        if self.trace is None:
            return None
        edges = {
            (str(self.graph.vertices[j]), str(self.graph.vertices[i])): self._name(label)
            for (j, i), label in page.edges()
        }
        self.trace.append(TracedPage(rule, parent, edges))
        return len(self.trace) - 1

    def _name(self, label: int) -> str:
        if label < len(self.graph.sources):
            return self.graph.symbols[label] or f"e{label + 1}"
        return self._names.setdefault(label, f"s{len(self._names) + 1}")


def _seconds(work: Workload) -> float:
    whole = bracketing_seconds(work)
    return whole if work.pairs * work.edges > _LIMIT else 14 * whole + 3e-4 * work.pairs


@register_method("pages", _seconds)
def _method(graph: DifferentiationGraph, context: Context) -> SearchResult:
    accumulation = pages(graph, unit_products=context.options.objective.every_product, deadline=context)
    return SearchResult(graph, "pages", _accumulation=accumulation)
