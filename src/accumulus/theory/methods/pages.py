"""Pages: many roots and terminals, by parting the paths into pages whose common chains and blocks are found locally.

A page is a part of the path set; all pages share the lines of roots and terminals. The strategy (the notes, section
5), applied to the whole graph as the first page, with every tie decided:

1. Simple chains and blocks are replaced by reference edges.
2. v_i is the vertex of largest r-degree (number of roots that reach it) among those that have no equal in their
   level, in the level closest to the roots; v_j the vertex of largest t-degree reachable from v_i (v_i included)
   among those without an equal in their level, in the level closest to the terminals.
3. If not all roots reach v_i, or v_j does not reach all terminals, the paths between those that do are one page;
   the other roots to all terminals, and these roots to the other terminals, are two more.
4. If v_i and v_j are on one level, or joined by one edge and nothing else, root–terminal pairs are separated. If
   edges out of roots or into terminals cross levels, those that cross most levels (those at roots, if both cross as
   many) part the paths: through them, and not through them. Otherwise the first half of the roots is separated from
   the rest if v_i is further from the roots than v_j from the terminals, else of the terminals; at equal distance
   on the side of which there is less, or that of the roots.
5. Otherwise the vertices between the level of v_i and that of v_j (those that v_j is reachable from, and v_i
   reaches) are factorized locally: first between such v_i′ and v_j′ as are found inside, then from the vertex with
   fewest products on, ties by level and number. If v_i and v_j are then joined by one edge only, and v_j has no
   other predecessor or v_i no other successor, that one is split, too.
6. So on with every page, until it has one pair, or no such v_i and v_j: then it is accumulated in one piece, by the
   best products of local Jacobians. In the end, equal root–terminal pairs of different pages are added.

Equal products and sums of different pages are formed once.

Separating pairs is greedy and may cost more than it saves: as it stands, the strategy takes 46 products for the
notes' multi-root graph and 51 for the graph of its figure (a), where 40 and 44 suffice. So unless it is asked for
literally, a page is accumulated in one piece wherever that is cheaper, or wherever its pairs times edges exceed
`limit`, because the number of pages grows like that of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Final

from accumulus.deadline import FOREVER, Deadline
from accumulus.elimination.accumulation import Accumulation
from accumulus.graph.graph import DifferentiationGraph
from accumulus.theory.methods.local_jacobians import accumulate_edges
from accumulus.theory.methods.page import Page, Pair
from accumulus.theory.shared_steps import SharedSteps

__all__ = ["TracedPage", "pages", "trace_pages"]

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
        literal: whether pages are parted even where one piece is cheaper.
        limit: pairs times edges above which a page is accumulated in one piece.
        unit_products: as for `accumulus.theory.methods.local_jacobians.local_jacobians`.

    Raises:
        OutOfTimeError: if the deadline passes before.

    >>> graph = DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("b", "x"), ("b", "w")])
    >>> sum(pages(graph).steps.is_product)
    6
    """
    strategy = _Strategy(graph, literal, limit, unit_products, deadline)
    found = strategy.accumulate(strategy.first_page(), None)
    row = {root: position for position, root in enumerate(graph.roots)}
    column = {terminal: position for position, terminal in enumerate(graph.terminals)}
    entries = {(row[j], column[i]): label for (j, i), label in found.items()}
    return Accumulation(graph, strategy.steps, dict(sorted(entries.items())))


@dataclass(frozen=True, slots=True)
class TracedPage:
    """A page as it was at some moment of a run."""

    #: What made it: "given"; "simple", step 1; "index sets", step 3; "cross-level", "roots" or "terminals", step 4;
    #: "factorized", step 5.
    rule: str
    #: Number, in the trace, of the page that it came from; None for the first.
    parent: int | None
    #: Label of each edge: a symbol or e1, e2, … by edge, or s1, s2, … for references in the order of their making.
    edges: dict[tuple[str, str], str]


def trace_pages(graph: DifferentiationGraph, *, limit: int = _LIMIT) -> list[TracedPage]:
    """The pages of a literal run, in the order of their making, each after every rule that changed it."""
    strategy = _Strategy(graph, True, limit)
    strategy.trace = []
    strategy.accumulate(strategy.first_page(), None)
    return strategy.trace


class _Strategy:
    """A run of the strategy; all pages write to the same steps."""

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
        """The whole graph."""
        page = Page(self.graph, self.steps, deadline=self._deadline)
        for e in self.graph.live_edges.nonzero()[0].tolist():
            page.add(int(self.graph.sources[e]), int(self.graph.targets[e]), e)
        return page

    def accumulate(self, page: Page, parent: int | None, rule: str = "given") -> dict[Pair, int]:
        """Entries of a page: parted, or in one piece."""
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
            parts, reason = page.part(*ends)
            if parts:
                break
            page.factorize(*ends)
            parent = self._record(page, parent, "factorized")
        total: dict[Pair, int] = {}
        for place, label in chain.from_iterable(self.accumulate(part, parent, reason).items() for part in parts):
            total[place] = self.steps.sum(total[place], label) if place in total else label
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
