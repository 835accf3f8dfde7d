"""Match expression sets with graphs, make graphs from sets, and return the accumulation of a simple graph.

**Matching.** A matching assigns an edge of the graph to each symbol, and gives the accumulation that computes the
expressions.

First the possible ends of every subexpression are computed bottom-up, as a set of pairs (s, t) of vertices: for a
symbol the ends of the edges of that name, for a product the composition of its factors' pairs, for a sum the
intersection of its terms' pairs. Unit edges may be omitted, so a symbol may also start at a vertex from which unit
edges lead to its source, and end at a vertex to which unit edges lead from its target. Then one pair is chosen for
every occurrence, top-down from the root and terminal of each entry. If several edges have the same name, as in graphs
with split vertices, the chosen pair determines the edge. An expression without pairs is not a sum over paths; the error
names the factors that do not meet, or the terms with different ends.

Finally the accumulation is verified: it must contain every path exactly once. Time: linear in the written expressions,
times the number of pairs, which is one except for unit edges and shared names.

**Construction.** Graphs are made from expressions, and expressions from simple graphs (the notes, section
"Factorization and Conversion").

`shared_graph` makes one edge for each symbol. If two labels are multiplied, the first ends where the second starts; the
terms of a sum have the same start and end; an entry starts at its root and ends at its terminal. Union-find merges
vertices that must be the same. The result is the graph of which the expressions are the path sums, if it exists: in
every set that computes a graph's Jacobian, the two labels of each face are neighbours, directly or through parentheses,
and neighbouring labels always meet. A final check confirms that the result has exactly these path sums. Time:
near-linear.

`split_graph` draws the expressions as written, as the notes draw factorized graphs: a product is a chain, a sum is a
block, and every occurrence of a symbol is an edge of its own. The graph is simple by construction.

`simple_accumulation` is the inverse: a vertex with one incoming and one outgoing edge is a product, and two parallel
edges are a sum (series-parallel reduction, linear time). The graph is simple if this removes all intermediate vertices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal

from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.elimination.edges_and_faces import EdgeElimination
from accumulus.errors import ExpressionError, VerificationError, unknown_name
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.theory.algebra.expression import (
    Entry,
    Expression,
    Product,
    Reference,
    Sum,
    Symbol,
    added_up,
    edge_names,
    expanded_product,
    folded,
    fresh_names,
    natural,
    nodes,
    plain_name,
    postorder,
    word_counts,
)
from accumulus.theory.graphs.traversal import UnionFind, eliminate_series, reached, topological_order

Pair = tuple[int, int]
Direction = Literal["up", "down"]
#: A subexpression with the vertices at its start and end.
Occurrence = tuple[Expression, int, int]

#: Entry of an expression without a left side; it matches any graph with one root and one terminal.
DEFAULT: Final = ("y", "x")

#: Largest number of products that are matched, which takes memory; and of paths that are listed so that an error can
#: name the wrong one. Not measured.
_LARGEST: Final = 10_000_000
_PATHS: Final = 10_000


def match(
    references: Mapping[str, Expression], entries: Mapping[Entry, Expression], graph: DifferentiationGraph
) -> Accumulation:
    """Return the verified accumulation of `graph` that computes the expressions.

    `ExpressionSet.to_accumulation` describes the arguments and errors.
    """
    matching = Matching(references, entries, graph)
    # a reference is computed once, not for each occurrence, unless shared names denote different edges
    computed: dict[Hashable, int] = {}
    steps = Steps(len(graph.sources))

    def compute(where: Occurrence) -> int:
        results: list[int] = []
        work: list[Occurrence | tuple[str, int]] = [where]
        while work:
            task = work.pop()
            if len(task) == 2:
                combine = steps.product if task[0] == "product" else steps.sum
                *before, last = results[-task[1] :]
                del results[-task[1] :]
                first, *rest = [*before, last]
                for other in rest:
                    first = combine(first, other)
                results.append(first)
            elif isinstance(task[0], Symbol):
                results.append(matching.edge(task))
            elif isinstance(task[0], Reference):
                results.append(computed[matching.identity(task)])
            else:
                parts = matching.parts(task)
                work.append(("product" if isinstance(task[0], Product) else "sum", len(parts)))
                work += reversed(parts)
        return results[0]

    roots = {*(where[0] for where in matching.entries.values()), *references.values()}
    sizes = folded(roots, lambda _, parts: sum(parts) or 1)
    if sum(sizes[root] for root in roots) > _LARGEST:
        raise ExpressionError(f"more than {_LARGEST} products are written; expressions.shared() writes each once")
    position = {name: k for k, name in enumerate(references)}
    occurrences = [
        (position[where[0].name], where)
        for where in postorder(matching.entries.values(), matching.parts)
        if isinstance(where[0], Reference)
    ]
    for _, where in sorted(occurrences, key=lambda item: item[0]):
        identity = matching.identity(where)
        if identity not in computed:
            computed[identity] = compute(matching.parts(where)[0])
    computed_entries = {key: compute(where) for key, where in sorted(matching.entries.items())}
    accumulation = Accumulation(graph, steps, computed_entries)
    try:
        accumulation.verify()
    except VerificationError:
        raise ExpressionError(_culprit(matching)) from None
    return accumulation


class Matching:
    """Matching of all subexpressions of a set with a graph.

    Raises:
        ExpressionError: if the set does not match the graph; the message names the part.
    """

    def __init__(
        self, references: Mapping[str, Expression], entries: Mapping[Entry, Expression], graph: DifferentiationGraph
    ) -> None:
        self.graph = graph
        self.references = references
        self.edges: dict[str, list[int]] = {}
        self.names = edge_names(graph)
        for e, name in enumerate(self.names):
            self.edges.setdefault(name, []).append(e)
        live = graph.live_edges.tolist()
        for name, edges in self.edges.items():
            # a name denotes a dead edge only if no live edge has the name
            self.edges[name] = [e for e in edges if live[e]] or edges
        self._sources: list[int] = graph.sources.tolist()
        self._targets: list[int] = graph.targets.tolist()
        self._units: list[bool] = [kind == Kind.ONE for kind in graph.kinds.tolist()]
        self._closures: dict[tuple[Direction, int], frozenset[int]] = {}
        self._pairs: dict[Expression, frozenset[Pair]] = {}
        for node in nodes(entries.values(), references):
            self._pairs[node] = self._find(node)
        self._ambiguous = any(len(edges) > 1 for edges in self.edges.values())
        self._identities: dict[Occurrence, int] = {}
        self._numbers: dict[Hashable, int] = {}
        #: Occurrence of each entry, by the positions of its root and terminal.
        self.entries: dict[tuple[int, int], Occurrence] = {}
        rows, columns = _positions(graph, graph.roots), _positions(graph, graph.terminals)
        for (root, terminal), expression in entries.items():
            if list(entries) == [DEFAULT] and len(graph.roots) == len(graph.terminals) == 1:
                row, column = 0, 0
            else:
                row, column = _position(rows, root, "root"), _position(columns, terminal, "terminal")
            ends = graph.roots[row], graph.terminals[column]
            if ends not in self._pairs[expression]:
                runs = self._shown(expression)
                raise ExpressionError(f"∂{root}/∂{terminal} = {_short(expression)}: the expression runs {runs}")
            if (row, column) in self.entries:
                raise ExpressionError(f"∂{root}/∂{terminal} is given twice; expected each entry once")
            self.entries[row, column] = (expression, *ends)

    def parts(self, where: Occurrence) -> list[Occurrence]:
        """Return the occurrences of the operands; the operand of a reference is its definition."""
        expression, s, t = where
        if isinstance(expression, Sum):
            return [(term, s, t) for term in expression.terms]
        if isinstance(expression, Reference):
            return [(self.references[expression.name], s, t)]
        if not isinstance(expression, Product):
            return []
        # forward: vertices at which each factor can end; then choose backward from t
        ends = [{s}]
        for factor in expression.factors:
            ends.append({b for a, b in self._pairs[factor] if a in ends[-1]})
        occurrences: list[Occurrence] = []
        for factor, before in zip(reversed(expression.factors), reversed(ends[:-1]), strict=True):
            source = min(a for a, b in self._pairs[factor] if b == t and a in before)
            occurrences.append((factor, source, t))
            t = source
        return occurrences[::-1]

    def edge(self, where: Occurrence) -> int:
        """Return the edge of an occurrence of a symbol."""
        expression, s, t = where
        assert isinstance(expression, Symbol)
        return next(
            e
            for e in self.edges[expression.name]
            if s in self._closure("up", self._sources[e]) and t in self._closure("down", self._targets[e])
        )

    def identity(self, where: Occurrence) -> Hashable:
        """Return a key of an occurrence of a reference, which is equal for occurrences with the same edges."""
        if not self._ambiguous:
            return where[0]
        identities = self._identities
        for inner in postorder([where], lambda one: () if one in identities else self.parts(one)):
            if inner not in identities:
                kind = self.edge(inner) if isinstance(inner[0], Symbol) else type(inner[0]).__name__
                parts = tuple(identities[operand] for operand in self.parts(inner))
                identities[inner] = self._numbers.setdefault((kind, parts), len(self._numbers))
        return identities[where]

    def words(self, where: Occurrence) -> Counter[tuple[int, ...]]:
        """Return the multiplicity of each path in an occurrence, multiplied out; unit edges are left out."""
        values: dict[Occurrence, Counter[tuple[int, ...]]] = {}
        for inner in postorder([where], self.parts):
            parts = [values[operand] for operand in self.parts(inner)]
            if isinstance(inner[0], Symbol):
                edge = self.edge(inner)
                values[inner] = Counter([() if self._units[edge] else (edge,)])
            else:
                values[inner] = (expanded_product if isinstance(inner[0], Product) else added_up)(parts)
        return values[where]

    def _find(self, node: Expression) -> frozenset[Pair]:
        pairs = self._pairs
        if isinstance(node, Symbol):
            if node.name not in self.edges:
                raise unknown_label(node.name, self.edges)
            return frozenset(
                (s, t)
                for e in self.edges[node.name]
                for s in self._closure("up", self._sources[e])
                for t in self._closure("down", self._targets[e])
            )
        if isinstance(node, Reference):
            return pairs[self.references[node.name]]
        if isinstance(node, Sum):
            first, *rest = node.terms
            common = pairs[first]
            for term in rest:
                if common.isdisjoint(pairs[term]):
                    one, other = (f"{_short(side)} runs {self._shown(side)}" for side in (first, term))
                    raise ExpressionError(f"{_short(node)} is no sum of paths between two vertices: {one}, {other}")
                common &= pairs[term]
            return common
        assert isinstance(node, Product)
        before = node.factors[0]
        joined = pairs[before]
        for factor in node.factors[1:]:
            followers: dict[int, list[int]] = {}
            for a, b in pairs[factor]:
                followers.setdefault(a, []).append(b)
            joined = frozenset((s, t) for s, m in joined for t in followers.get(m, ()))
            if not joined:
                one, other = (f"{_short(side)} runs {self._shown(side)}" for side in (before, factor))
                raise ExpressionError(f"{_short(node)} is no path: {one}, {other}")
            before = factor
        return joined

    def _closure(self, direction: Direction, vertex: int) -> frozenset[int]:
        """Return the vertex and all vertices that unit edges join to it in the direction."""
        key = (direction, vertex)
        if key not in self._closures:
            self._closures[key] = along_units(self.graph, self._units, vertex, direction)
        return self._closures[key]

    def _shown(self, expression: Expression) -> str:
        """Return at most three possible ends of an expression, for messages; unit edges at a symbol are left out."""
        names = self.graph.vertices
        pairs = sorted(self._pairs[expression])
        if isinstance(expression, Symbol):
            pairs = [(self._sources[e], self._targets[e]) for e in self.edges[expression.name]]
        return " or ".join(f"from {names[s]!r} to {names[t]!r}" for s, t in pairs[:3]) or "nowhere"


def along_units(
    graph: DifferentiationGraph, units: Sequence[bool], vertex: int, direction: Direction
) -> frozenset[int]:
    """Return the vertex and all vertices that unit edges join to it, towards the roots or the terminals."""
    near, ends = (graph.in_edges, graph.sources) if direction == "up" else (graph.out_edges, graph.targets)
    return frozenset(reached([vertex], lambda v: [int(ends[e]) for e in near[v] if units[e]]))


def unknown_label(name: str, labels: Iterable[str]) -> ExpressionError:
    """Return the error for a symbol that is not the name of an edge."""
    hint = str(unknown_name("label", name, labels))
    return ExpressionError(hint if len(hint) < 300 else hint[:300] + " …")


def _culprit(matching: Matching) -> str:
    """Return a message that names a path that the entries lack or count too often, if there are few enough paths."""
    graph = matching.graph
    counters = {key: Counter[tuple[int, ...]]() for key in matching.entries}
    references = matching.references
    counts = word_counts([where[0] for where in matching.entries.values()], references)
    budget = sum(counts[where[0]] for where in matching.entries.values())
    general = "the expressions are not the sums over all paths of the graph: a path is missing or counted twice"
    if budget > _PATHS:
        return general
    for key, where in matching.entries.items():
        counters[key] = matching.words(where)
    columns = {terminal: column for column, terminal in enumerate(graph.terminals)}
    units = [kind == Kind.ONE for kind in graph.kinds.tolist()]
    for row, root in enumerate(graph.roots):
        stack: list[tuple[int, tuple[int, ...]]] = [(root, ())]
        while stack:
            v, path = stack.pop()
            if v in columns:
                short = tuple(e for e in path if not units[e])
                counter = counters.setdefault((row, columns[v]), Counter())
                counter[short] -= 1
                if counter[short] < 0:
                    return f"{_entry(graph, row, columns[v])} lacks the path {_path(matching, path)}"
            stack += [(int(graph.targets[e]), (*path, e)) for e in graph.out_edges[v] if graph.live_edges[e]]
    for (row, column), counter in counters.items():
        for path, extra in counter.items():
            if extra:
                times = f"{extra + 1} times instead of once"
                return f"{_entry(graph, row, column)} counts the path {_path(matching, path)} {times}"
    return general


def _entry(graph: DifferentiationGraph, row: int, column: int) -> str:
    return f"∂{graph.vertices[graph.roots[row]]}/∂{graph.vertices[graph.terminals[column]]}"


def _path(matching: Matching, path: Sequence[int]) -> str:
    return "*".join(matching.names[e] for e in path)


def _positions(graph: DifferentiationGraph, ends: Sequence[int]) -> dict[Hashable, int]:
    """Return positions by name, and by the name as text with and without TeX's braces where these are unique."""
    exact: dict[Hashable, int] = {graph.vertices[v]: position for position, v in enumerate(ends)}
    loose = Counter(spelling for name in exact for spelling in {str(name), plain_name(name)})
    for name, position in list(exact.items()):
        for spelling in (str(name), plain_name(name)):
            if loose[spelling] == 1:
                exact.setdefault(spelling, position)
    return exact


def _position(positions: Mapping[Hashable, int], name: Hashable, kind: str) -> int:
    for spelling in (name, str(name), plain_name(name)):
        if spelling in positions:
            return positions[spelling]
    raise ExpressionError(str(unknown_name(kind, str(name), {str(k) for k in positions})))


def _short(expression: Expression) -> str:
    shown = str(expression)
    return shown if len(shown) <= 80 else f"{shown[:60]} … {shown[-15:]}"


# Construction --------------------------------------------------------------------------------------------------------


#: Largest number of products that are drawn as paths of their own, which takes memory. Not measured.
_LARGEST_WRITTEN: Final = 10_000_000


def shared_graph(references: Mapping[str, Expression], entries: Mapping[Entry, Expression]) -> DifferentiationGraph:
    """Return the graph in which each symbol is one edge; see `ExpressionSet.to_graph`.

    A root whose vertex has incoming edges or is the vertex of another root gets a new vertex with a unit edge to it. A
    terminal is treated in the same way, with outgoing edges.
    """
    same = UnionFind()

    def joined(node: Expression, parts: list[tuple[int, int]]) -> tuple[int, int]:
        if isinstance(node, Symbol):
            return same.new(), same.new()
        if isinstance(node, Product):
            for (_, end), (start, _) in pairwise(parts):
                same.merge(end, start)
            return parts[0][0], parts[-1][1]
        for start, end in parts[1:]:
            same.merge(parts[0][0], start)
            same.merge(parts[0][1], end)
        return parts[0]

    ends = folded(entries.values(), joined, references)
    outer: list[dict[Hashable, int]] = [{}, {}]
    for key, expression in entries.items():
        for side in (0, 1):
            same.merge(outer[side].setdefault(key[side], ends[expression][side]), ends[expression][side])

    symbols = sorted((node for node in ends if isinstance(node, Symbol)), key=lambda node: natural(node.name))
    edges: list[list[Any]] = [[same.find(ends[node][0]), same.find(ends[node][1]), node.name] for node in symbols]
    _refuse_cycle(edges)
    fresh = fresh_names("v", {str(name) for side in outer for name in side})
    names: dict[int, Hashable] = {}
    for side, inner in enumerate(({target for _, target, _ in edges}, {source for source, _, _ in edges})):
        shared = [same.find(start) for start in outer[side].values()]
        for name, vertex in zip(outer[side], shared, strict=True):
            if vertex in inner or shared.count(vertex) > 1:
                unit: list[Any] = [same.new(), same.new()]
                unit[1 - side] = vertex
                names[unit[side]] = name
                edges.append([*unit, Kind.ONE])
            else:
                names[vertex] = name
    triples = []
    for source, target, label in edges:
        for vertex in (source, target):
            if vertex not in names:
                names[vertex] = next(fresh)
        triples.append((names[source], names[target], label))
    graph = DifferentiationGraph(triples, list(outer[0]), list(outer[1]))
    try:
        match(references, entries, graph)
    except ExpressionError as error:
        raise ExpressionError(
            f"no graph in which each label is one edge has these path sums: when multiplied labels are joined, {error}"
        ) from None
    return graph


def split_graph(references: Mapping[str, Expression], entries: Mapping[Entry, Expression]) -> DifferentiationGraph:
    """Return the graph in which every occurrence of a symbol or reference is an edge; see `ExpressionSet.to_graph`."""
    roots = dict.fromkeys(root for root, _ in entries)
    terminals = dict.fromkeys(terminal for _, terminal in entries)
    if sum(each.multiplications for each in (*references.values(), *entries.values())) > _LARGEST_WRITTEN:
        raise ExpressionError(f"more than {_LARGEST} products are written; expected fewer, to draw each")
    fresh = fresh_names("v", {str(name) for name in (*roots, *terminals)})
    edges: list[tuple[Hashable, Hashable, str]] = []
    for (root, terminal), entry in entries.items():
        stack: list[tuple[Expression, Hashable, Hashable]] = [(entry, root, terminal)]
        while stack:
            expression, source, target = stack.pop()
            if isinstance(expression, Product):
                corners = [source, *(next(fresh) for _ in expression.factors[1:]), target]
                stack += reversed(list(zip(expression.factors, corners, corners[1:], strict=False)))
            elif isinstance(expression, Sum):
                stack += ((term, source, target) for term in reversed(expression.terms))
            else:
                assert isinstance(expression, (Symbol, Reference))
                edges.append((source, target, expression.name))
    return DifferentiationGraph(edges, list(roots), list(terminals))


def simple_accumulation(graph: DifferentiationGraph) -> Accumulation:
    """Return the accumulation of a simple graph by series-parallel reduction; see `ExpressionSet.from_graph`."""
    elimination = EdgeElimination(graph)
    eliminate_series(elimination)
    P, S = elimination.predecessors, elimination.successors
    left = next((v for v in graph.intermediates if S[v]), None)
    if left is not None:
        raise ExpressionError(
            f"vertex {graph.vertices[left]!r} keeps {len(P[left])} edges in and {len(S[left])} out when all simple "
            "chains and blocks are one edge each: expected a simple graph. Of other graphs, take the expressions of "
            "any accumulation: ExpressionSet.from_accumulation(…)"
        )
    return elimination.finish()


def _refuse_cycle(edges: Iterable[list[Any]]) -> None:
    """Raise ExpressionError if the edges have a cycle; the message names the labels along it."""
    out: dict[int, list[tuple[int, str]]] = {}
    for source, target, label in edges:
        out.setdefault(source, []).append((target, label))
        out.setdefault(target, [])
    waiting = {v: len(below) for v, below in out.items()}
    above: dict[int, list[int]] = {v: [] for v in out}
    for v, below in out.items():
        for target, _ in below:
            above[target].append(v)
    left = set(out).difference(topological_order(waiting, above.__getitem__))
    if left:
        v, path = min(left), dict[int, str]()
        while v not in path:
            target, path[v] = next((target, label) for target, label in out[v] if target in left)
            v = target
        cycle = [path[u] for u in list(path)[list(path).index(v) :]]
        raise ExpressionError(f"no graph has these path sums: the labels {' → '.join([*cycle, cycle[0]])} form a cycle")
