"""The differentiation graph: a directed acyclic graph whose edges carry local derivatives, and graphs derived from it.

An edge ⟨j,i⟩ runs from a variable to one of its dependencies, and carries ∂v_j/∂v_i. Roots are the outputs (no
incoming edge), terminals the inputs (no outgoing edge), and all other vertices are intermediates. Other names:
linearized computational graph, c-graph with edges reversed (Griewank and Walther, Evaluating Derivatives, 2008); in the
notes: differentiation graph.

Functions refer to vertices and edges by number; names are for display. Edges are stored as parallel arrays, so a graph
of a million edges takes a few tens of megabytes. Adjacency lists are built on first use.

**Selections.** A graph may select entries of its Jacobian: a triangle of a symmetric Jacobian, or single entries. A
symmetric Jacobian, such as a Hessian, has a graph with a mirror: each vertex has a mirror vertex that replaces it when
all edges are reversed, and mirrored edges have the same label. So each path has a mirrored path with the same product.

**Derived graphs.** Segmentation, subgraphs and the inverse of line graphs keep the labels of a graph. They only change
the ends of edges, leave out edges, or add unit edges. `derive` makes such a graph with a given numbering; labels may be
symbols or references to a tape. Time is linear in the size of the result and of the tape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from os import PathLike
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import GraphError
from accumulus.native.state import Integers
from accumulus.tape.passes import spread, topological
from accumulus.tape.tape import Tape
from accumulus.text import fresh

#: Largest number of entries of a vertex, so that the costs fit the integers of compiled code.
LARGEST_SIZE: Final = 1 << 16


class Kind(IntEnum):
    """Kind of a label as known when the plan is made; it decides which products are free.

    >>> Kind.of(-1.0).name, Kind.of(2.5).name
    ('MINUS_ONE', 'CONSTANT')
    """

    ABSENT = 0
    ONE = 1
    MINUS_ONE = 2
    CONSTANT = 3
    VARIABLE = 4

    @classmethod
    def of(cls, value: float) -> Kind:
        """Return the kind of a constant label."""
        return cls.ONE if value == 1.0 else cls.MINUS_ONE if value == -1.0 else cls.CONSTANT


class DifferentiationGraph:
    """An immutable differentiation graph.

    Args:
        edges: pairs (j, i) or triples (j, i, label) of vertex names, from the dependent vertex to its dependency. A
            label is None or a symbol (str) for a variable, a number for a constant, or a `Kind`. Parallel edges are
            allowed; their labels add up.
        roots: the outputs, by default every vertex without incoming edges that is not in `terminals`. If a vertex in
            `roots` has incoming edges, is also a terminal, or is named several times, then each of its occurrences
            becomes a new root with a unit edge to the vertex.
        terminals: the inputs, by default every vertex without outgoing edges, except roots without any edge.
        sizes: number of entries of vector-valued vertices, by name; 1 for all others. A number as a label denotes that
            multiple of the identity, so it joins vertices of the same size.
        name: name for display.

    Raises:
        GraphError: if there is a cycle (the message names it), a terminal has outgoing edges, a number joins vertices
            of different sizes, or an argument is malformed. Also if the graph has edges, but none of the named roots,
            or none of the named terminals, has an edge or is a key of `sizes`: the names may be misspelt.

    >>> graph = DifferentiationGraph([("y", "a"), ("y", "b"), ("a", "x"), ("b", "x", -1.0)])
    >>> graph.roots, graph.terminals, [graph.vertices[k] for k in graph.intermediates]
    ((0,), (3,), ['a', 'b'])
    """

    def __init__(
        self,
        edges: Iterable[Sequence[Any]],
        roots: Iterable[Hashable] | None = None,
        terminals: Iterable[Hashable] | None = None,
        *,
        sizes: Mapping[Any, int] | None = None,
        name: str = "",
    ) -> None:
        index: dict[Hashable, int] = {}

        def number(vertex: Hashable) -> int:
            return index.setdefault(vertex, len(index))

        sources: list[int] = []
        targets: list[int] = []
        kinds: list[Kind] = []
        symbols: list[str | None] = []
        constants: dict[int, float] = {}
        for parameter, argument in (("edges", edges), ("roots", roots), ("terminals", terminals)):
            if isinstance(argument, str) or not (
                isinstance(argument, Iterable) or (argument is None and parameter != "edges")
            ):
                raise GraphError(
                    f"{parameter} is {argument!r}; expected a list of {'edges' if parameter == 'edges' else 'names'}"
                )
        if not isinstance(sizes, Mapping | None):
            raise GraphError(f"sizes is {sizes!r}; expected a dictionary from names to whole numbers")
        for edge in edges:
            source, target, label = _edge(edge)
            kind, symbol, value = label_parts(label, edge)
            if value is not None:
                constants[len(sources)] = value
            sources.append(number(source))
            targets.append(number(target))
            kinds.append(kind)
            symbols.append(symbol)
        connected = len(index)
        given_roots = None if roots is None else [number(vertex) for vertex in roots]
        given_terminals = None if terminals is None else [number(vertex) for vertex in terminals]
        has_in, has_out = set(targets), set(sources)
        _check_ends("root", given_roots, connected, list(index), sizes or {})
        _check_ends("terminal", given_terminals, connected, list(index), sizes or {})
        if given_roots is None:
            below = has_in.union(given_terminals or ())
            given_roots = [v for v in range(len(index)) if v not in below]
        if given_terminals is None:
            above = has_out.union(v for v in given_roots if v not in has_in)
            given_terminals = [v for v in range(len(index)) if v not in above]
        names: list[Hashable] = list(index)
        times = Counter(given_roots)
        shared = has_in.union(given_terminals, (root for root in times if times[root] > 1))
        own_roots = []
        begun: dict[str, int] = {}
        for root in given_roots:
            if root in shared:
                own_roots.append(len(names))
                constants[len(sources)] = 1.0
                sources.append(len(names))
                targets.append(root)
                kinds.append(Kind.ONE)
                symbols.append(None)
                names.append(fresh(f"{names[root]}′", index, begun))
                number(names[-1])
            else:
                own_roots.append(root)
        widths = np.ones(len(names), np.int64)
        for vertex, size in (sizes or {}).items():
            whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
            if vertex not in index or not whole or not 1 <= size <= LARGEST_SIZE:
                raise GraphError(
                    f"size {_shortened(size)} of {vertex!r}: expected a whole number from 1 to {LARGEST_SIZE}, and a "
                    "vertex of the graph"
                )
            widths[index[vertex]] = size
        for extra, root in zip(own_roots, given_roots, strict=True):
            widths[extra] = widths[root]
        self._set(names, own_roots, given_terminals, sources, targets, kinds, symbols, constants, widths, name)

    @classmethod
    def from_tape(
        cls,
        tape: Tape,
        labels: Sequence[int] | NDArray[Any],
        vertices: Sequence[Hashable],
        roots: Sequence[int],
        terminals: Sequence[int],
        sources: Sequence[int] | NDArray[Any],
        targets: Sequence[int] | NDArray[Any],
        name: str = "",
        *,
        mirror: Sequence[int] | NDArray[Any] | None = None,
        selected: Sequence[Sequence[int]] | NDArray[Any] | None = None,
    ) -> DifferentiationGraph:
        """Return the graph whose edge k carries the value at reference ``labels[k]`` of `tape`.

        Args:
            tape: tape with the labels.
            labels: reference on the tape for each edge, shape (edges,).
            vertices: names of the vertices, by number.
            roots: vertices without incoming edges, by number.
            terminals: vertices without outgoing edges, by number.
            sources: source of each edge, by number, shape (edges,).
            targets: target of each edge, by number, shape (edges,).
            name: name of the graph for display.
            mirror: mirror of each vertex, shape (vertices,); see the attribute `mirror`.
            selected: selected entries, shape (n, 2); see the attribute `selected`.

        Raises:
            GraphError: if `mirror` is not a symmetry of the graph, or `selected` names an entry outside the Jacobian.

        >>> tape = Tape(inputs=1)
        >>> labels = [tape.apply("cos", 0), tape.constant(2.0)]  # of y = 2 sin(x)
        >>> DifferentiationGraph.from_tape(tape, labels, ["y", "v", "x"], [0], [2], [1, 0], [2, 1])
        DifferentiationGraph('', 1 roots, 1 intermediates, 1 terminals, 2 edges)
        """
        references = np.array(labels, np.int64)
        constant_edges = np.flatnonzero(references < 0)
        values = np.array(tape.constants)[-1 - references[constant_edges]]
        kinds = np.full(len(references), Kind.VARIABLE, np.uint8)
        kinds[constant_edges] = np.where(
            values == 1.0, Kind.ONE, np.where(values == -1.0, Kind.MINUS_ONE, Kind.CONSTANT)
        )
        constants = dict(zip(constant_edges.tolist(), values.tolist(), strict=True))
        graph = cls.__new__(cls)
        widths = np.ones(len(vertices), np.int64)
        symbols = (None,) * len(labels)
        graph._set(vertices, roots, terminals, sources, targets, kinds, symbols, constants, widths, name)
        graph.tape, graph.labels = tape, tuple(references.tolist())
        if mirror is not None:
            graph.mirror = _fixed(_whole("mirror", mirror, len(vertices), 0, len(vertices) - 1), np.int32)
            check_mirror(graph)
        if selected is not None:
            graph.selected = _fixed(sorted_places(selected, len(graph.roots), len(graph.terminals)), np.int64)
        return graph

    @classmethod
    def from_arrays(
        cls,
        sources: Sequence[int] | NDArray[Any],
        targets: Sequence[int] | NDArray[Any],
        kinds: Sequence[int] | NDArray[Any] | None = None,
        *,
        vertices: Sequence[Hashable],
        roots: Sequence[int],
        terminals: Sequence[int],
        constants: Mapping[int, float] | None = None,
        symbols: Sequence[str | None] | None = None,
        sizes: Sequence[int] | NDArray[Any] | None = None,
        name: str = "",
    ) -> DifferentiationGraph:
        """Return the graph whose edge e is ⟨sources[e], targets[e]⟩; the fast constructor for large graphs.

        Args:
            sources: source of each edge, by number, shape (edges,).
            targets: target of each edge, by number, shape (edges,).
            kinds: kind of each label, shape (edges,); all variable by default.
            vertices: names of the vertices, by number.
            roots: vertices without incoming edges, by number, each once.
            terminals: vertices without outgoing edges, by number, each once; no vertex is both.
            constants: known values of constant labels, by edge.
            symbols: name of each label, or None.
            sizes: number of entries of each vertex, shape (vertices,); all 1 by default.
            name: name of the graph for display.

        Raises:
            GraphError: if there is a cycle, a number joins vertices of different sizes, or an argument is malformed.

        >>> DifferentiationGraph.from_arrays([0, 1], [1, 2], vertices="yax", roots=[0], terminals=[2])
        DifferentiationGraph('', 1 roots, 1 intermediates, 1 terminals, 2 edges)
        """
        count, edges = len(vertices), len(sources)
        graph = cls.__new__(cls)
        graph._set(
            vertices,
            roots,
            terminals,
            _whole("sources", sources, edges, 0, count - 1),
            _whole("targets", targets, edges, 0, count - 1),
            np.full(edges, Kind.VARIABLE) if kinds is None else _whole("kinds", kinds, edges, Kind.ONE, Kind.VARIABLE),
            (None,) * edges if symbols is None else symbols,
            constants or {},
            np.ones(count, np.int64) if sizes is None else _whole("sizes", sizes, count, 1, LARGEST_SIZE),
            name,
        )
        entered = np.bincount(graph.targets, minlength=count)
        ends = set(graph.terminals)
        for root in graph.roots:
            if entered[root] or root in ends:
                raise GraphError(f"vertex {root} is a root; expected no edges to it, once, and not among the terminals")
            ends.add(root)
        return graph

    def _set(
        self,
        vertices: Sequence[Hashable],
        roots: Sequence[int],
        terminals: Sequence[int],
        sources: Sequence[int] | NDArray[Any],
        targets: Sequence[int] | NDArray[Any],
        kinds: Sequence[int] | NDArray[Any],
        symbols: Sequence[str | None],
        constants: Mapping[int, float],
        sizes: NDArray[np.int64],
        name: str,
    ) -> None:
        self.name = name
        #: Names of the vertices, by number.
        self.vertices: tuple[Hashable, ...] = tuple(vertices)
        self.roots: tuple[int, ...] = tuple(roots)
        self.terminals: tuple[int, ...] = tuple(terminals)
        #: Edge e is ⟨sources[e], targets[e]⟩.
        self.sources: NDArray[np.int32] = _fixed(sources, np.int32)
        self.targets: NDArray[np.int32] = _fixed(targets, np.int32)
        self.kinds: NDArray[np.uint8] = _fixed(kinds, np.uint8)
        #: Known values of constant labels, by edge.
        self.constants: Mapping[int, float] = dict(constants)
        self.symbols: tuple[str | None, ...] = tuple(symbols)
        self.sizes: NDArray[np.int64] = _fixed(sizes, np.int64)
        #: Tape of a traced function: edge e carries the value at reference labels[e]. None for other graphs.
        self.tape: Tape | None = None
        self.labels: tuple[int, ...] = ()
        #: Mirror of each vertex, for a symmetric Jacobian: the vertex that replaces it when all edges are reversed.
        #: Root and terminal at the same position mirror each other, and mirrored edges have the same label. A graph
        #: with a mirror selects only entries on and below the diagonal. None if no symmetry is known.
        self.mirror: NDArray[np.int32] | None = None
        #: Selected entries, (n, 2) positions in `roots` and `terminals` in row-major order; None for all.
        self.selected: NDArray[np.int64] | None = None
        self._check()

    def _check(self) -> None:
        for terminal, times in Counter(self.terminals).items():
            if times > 1:
                raise GraphError(f"terminal {self.vertices[terminal]!r} is named {times} times; expected each once")
        leaves = np.bincount(self.sources, minlength=len(self.vertices)) > 0
        for terminal in self.terminals:
            if leaves[terminal]:
                below = self.vertices[self.targets[self.out_edges[terminal][0]]]
                raise GraphError(
                    f"terminal {self.vertices[terminal]!r} depends on {below!r}; expected terminals without outgoing "
                    "edges (edges run from the dependent vertex to the one it depends on)"
                )
        assert len(self.topological_order) == len(self.vertices)
        self._check_numbers()

    def _check_numbers(self) -> None:
        """Refuse numbers as labels between vertices of different sizes: a number is a multiple of the identity."""
        numbers = self.kinds < Kind.CONSTANT
        numbers[list(self.constants)] = True
        wrong = np.flatnonzero(numbers & (self.sizes[self.sources] != self.sizes[self.targets]))
        if len(wrong):
            e = int(wrong[0])
            j, i = int(self.sources[e]), int(self.targets[e])
            value = self.constants.get(e, 1.0 if self.kinds[e] == Kind.ONE else -1.0)
            raise GraphError(
                f"the label of the edge from {self.vertices[j]!r} to {self.vertices[i]!r} is {value:g}, but these have "
                f"{self.sizes[j]} and {self.sizes[i]} entries; expected a number only between vertices of one size, "
                "else a symbol, Kind.CONSTANT or None"
            )

    @property
    def intermediates(self) -> tuple[int, ...]:
        """Vertices that are neither roots nor terminals, by number."""
        ends = {*self.roots, *self.terminals}
        return tuple(v for v in range(len(self.vertices)) if v not in ends)

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Source and target of each edge, by number."""
        return list(zip(self.sources.tolist(), self.targets.tolist(), strict=True))

    @cached_property
    def out_edges(self) -> list[list[int]]:
        """Edges that leave each vertex, to its dependencies."""
        return _grouped(self.sources, len(self.vertices))

    @cached_property
    def in_edges(self) -> list[list[int]]:
        """Edges that enter each vertex, from its dependents."""
        return _grouped(self.targets, len(self.vertices))

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """All vertices, dependencies before dependents: terminals first, roots last."""
        order = topological(len(self.vertices), self.sources, self.targets)
        if len(order) < len(self.vertices):
            waiting = np.ones(len(self.vertices), bool)
            waiting[order] = False
            cycle = [repr(vertex) for vertex in self._cycle(waiting.tolist())]
            if len(cycle) > 20:
                cycle[10:-10] = [f"({len(cycle) - 20} more)"]
            raise GraphError(f"the graph has a cycle: {' → '.join(cycle)}; expected none")
        return tuple(order.tolist())

    def _cycle(self, waiting: Sequence[bool]) -> list[Hashable]:
        """Return the names along a cycle; every waiting vertex has a waiting successor."""
        v = next(v for v, count in enumerate(waiting) if count)
        path: dict[int, int] = {}
        while v not in path:
            path[v] = len(path)
            v = next(t for t in self.targets[self.out_edges[v]].tolist() if waiting[t])
        return [self.vertices[u] for u in [*list(path)[path[v] :], v]]

    @cached_property
    def edges_in_order(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Sources and targets of all edges; each edge comes after the edges that leave its target."""
        turn = np.empty(len(self.vertices), np.int64)
        turn[list(self.topological_order)] = np.arange(len(turn))
        order = np.argsort(turn[self.sources], kind="stable")
        return self.sources[order], self.targets[order]

    @cached_property
    def live_edges(self) -> NDArray[np.bool_]:
        """Mask of the edges on a path from a root to a terminal of a selected entry; other edges have no effect."""
        sources, targets = self.edges_in_order
        below, above = np.zeros((2, len(self.vertices)), bool)
        below[list(self.terminals)] = True
        above[list(self.roots)] = True
        below, above = spread(below, targets, sources), spread(above, sources[::-1], targets[::-1])
        live: NDArray[np.bool_] = above[self.sources] & below[self.targets]
        if self.selected is not None:
            live[live] = on_selected_paths(self, np.flatnonzero(live))
        return live

    @cached_property
    def constant_sums(self) -> Mapping[tuple[int, int], list[tuple[int, float]]]:
        """Edges and labels of all parallel edges whose labels are all known numbers, by source and target."""
        fixed = np.flatnonzero(self.kinds != Kind.VARIABLE)
        ends = self.sources[fixed].astype(np.int64) * len(self.vertices) + self.targets[fixed]
        again = np.sort(ends)
        again = again[1:][again[1:] == again[:-1]]
        if not len(again):
            return {}
        parallel = np.isin(self.sources.astype(np.int64) * len(self.vertices) + self.targets, again)
        groups: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for e in np.flatnonzero(parallel).tolist():
            value = {Kind.ONE: 1.0, Kind.MINUS_ONE: -1.0}.get(Kind(int(self.kinds[e])), self.constants.get(e, np.nan))
            groups.setdefault((int(self.sources[e]), int(self.targets[e])), []).append((e, value))
        return {pair: group for pair, group in groups.items() if not any(np.isnan(value) for _, value in group)}

    @cached_property
    def live_intermediates(self) -> Integers:
        """Intermediates on a path from a root to a terminal of a selected entry, dependencies before dependents."""
        order, is_live = np.array(self.topological_order, np.int64), np.zeros(len(self.vertices), bool)
        is_live[self.sources[self.live_edges]] = True
        is_live[list(self.roots)] = False
        return order[is_live[order]]

    @property
    def wants_all(self) -> bool:
        """Return True if all entries of the Jacobian are selected."""
        return self.mirror is None and self.selected is None

    def show(self, path: str | PathLike[str] | None = None) -> Any:
        """Show the graph, its line graph, and the steps of the plan that `accumulus.plan` finds for it.

        See `Plan.show` for the argument, the result and the errors.

        >>> DifferentiationGraph([("y", "a"), ("a", "x")]).show("graph.html")  # doctest: +SKIP
        """
        return import_module("accumulus.show.explorer").show_graph(self, path)

    def _repr_svg_(self) -> str | None:
        # imported by name to avoid a circular import
        picture: str | None = import_module("accumulus.graph.pictures").to_svg(self)
        return picture

    def __repr__(self) -> str:
        return (
            f"DifferentiationGraph({self.name!r}, {len(self.roots)} roots, {len(self.intermediates)} intermediates, "
            f"{len(self.terminals)} terminals, {len(self.sources)} edges)"
        )


def _fixed(numbers: Sequence[int] | NDArray[Any], dtype: type) -> NDArray[Any]:
    """Return a read-only copy."""
    array: NDArray[Any] = np.array(numbers, dtype)
    array.flags.writeable = False
    return array


def _whole(
    subject: str, numbers: Sequence[int] | NDArray[Any], length: int, minimum: int, most: int
) -> NDArray[np.int64]:
    """Return an array of `length` whole numbers from `minimum` to `most`, or raise `GraphError`."""
    try:
        array = np.asarray(numbers)
    except (ValueError, OverflowError):
        array = np.array([None])
    whole = array.dtype.kind in "iu" or array.size == 0
    if array.shape != (length,) or not whole or (length and not (minimum <= array.min() and array.max() <= most)):
        raise GraphError(
            f"{subject} is {_shortened(numbers)}; expected {length} whole numbers from {int(minimum)} to {int(most)}"
        )
    return array.astype(np.int64)


def _shortened(value: object) -> str:
    """Return the repr in at most 60 characters; Python refuses to print integers of thousands of digits."""
    try:
        text = repr(value)
    except ValueError:
        return "a very long number"
    return text if len(text) <= 60 else f"{text[:57]}…"


def _grouped(ends: NDArray[np.int32], vertices: int) -> list[list[int]]:
    order = np.argsort(ends, kind="stable")
    bounds = np.searchsorted(ends[order], np.arange(vertices + 1)).tolist()
    edges = order.tolist()
    return [edges[bounds[v] : bounds[v + 1]] for v in range(vertices)]


def _check_ends(
    role: str, ends: Sequence[int] | None, connected: int, names: Sequence[Hashable], sizes: Mapping[Any, int]
) -> None:
    """Refuse roots or terminals if none of them has an edge or a size: the names may be misspelt.

    Args:
        role: "root" or "terminal", for the message.
        ends: the roots or terminals, by number.
        connected: number of vertices that have edges; they have the lowest numbers.
        names: names of the vertices, by number.
        sizes: sizes by name.
    """
    if ends and connected and min(ends) >= connected and not any(names[v] in sizes for v in ends):
        raise GraphError(
            f"{role} {names[ends[0]]!r} has no edge; expected names of vertices, of which at least one is on an edge"
        )


def _edge(edge: Sequence[Any]) -> tuple[Hashable, Hashable, Any]:
    if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) not in (2, 3):
        raise GraphError(f"edge {edge!r}: expected (from, to) or (from, to, label)")
    if not isinstance(edge[0], Hashable) or not isinstance(edge[1], Hashable):
        raise GraphError(f"edge {edge!r}: vertex names must be hashable, such as strings or ints")
    return edge[0], edge[1], edge[2] if len(edge) == 3 else None


def label_parts(label: Any, edge: Sequence[Any]) -> tuple[Kind, str | None, float | None]:
    """Return kind, symbol and value of a label that was passed to the constructor of a graph."""
    if label is None or isinstance(label, str):
        return Kind.VARIABLE, label, None
    if isinstance(label, Kind) and label is not Kind.ABSENT:
        return label, None, {Kind.ONE: 1.0, Kind.MINUS_ONE: -1.0}.get(label)
    if isinstance(label, (int, float, np.integer, np.floating)) and not isinstance(label, (bool, IntEnum)):
        with suppress(OverflowError):  # an int beyond the range of float64
            return Kind.of(float(label)), None, float(label)
    raise GraphError(f"edge {edge!r}: expected a number, a symbol, a Kind or None as its label, not {label!r}")


# Selections ----------------------------------------------------------------------------------------------------------


def mirrored_edges(graph: DifferentiationGraph) -> Integers:
    """Return the mirror of each edge, which is the edge itself if its ends mirror each other.

    Raises:
        GraphError: if an edge has no mirror.
    """
    assert graph.mirror is not None
    count = len(graph.vertices)
    mirror = graph.mirror.astype(np.int64)
    keys = graph.sources.astype(np.int64) * count + graph.targets
    mirrored = mirror[graph.targets] * count + mirror[graph.sources]
    order = np.argsort(keys, kind="stable")
    places = np.minimum(np.searchsorted(keys[order], mirrored), max(0, len(keys) - 1))
    mirrors: Integers = order[places] if len(keys) else np.zeros(0, np.int64)
    if (keys[mirrors] != mirrored).any() or len(np.unique(mirrors)) < len(mirrors):
        raise GraphError("mirror: an edge has no mirror among the edges; expected one for each")
    return mirrors


def check_mirror(graph: DifferentiationGraph) -> None:
    """Refuse a mirror that is not a symmetry of a graph from a tape.

    Raises:
        GraphError: if vertices or edges do not mirror each other, or mirrored edges have different labels.
    """
    mirror = graph.mirror
    assert mirror is not None
    identity = np.arange(len(mirror))
    if (mirror[mirror] != identity).any() or (mirror == identity).any():
        raise GraphError("mirror: expected another vertex for each, whose mirror is that vertex again")
    if len(graph.roots) != len(graph.terminals) or (mirror[list(graph.terminals)] != list(graph.roots)).any():
        raise GraphError("mirror: expected the root of the same position for each terminal")
    labels = np.array(graph.labels, np.int64)
    if (labels[mirrored_edges(graph)] != labels).any():
        raise GraphError("mirror: two edges that mirror each other have different labels; expected the same")


def sorted_places(entries: Sequence[Sequence[int]] | NDArray[Any], rows: int, columns: int) -> Integers:
    """Return the distinct places (root, terminal) in row-major order, (n, 2).

    Raises:
        GraphError: if `entries` are not pairs of positions in a matrix of that size.
    """
    places = np.asarray(entries)
    if places.size == 0:
        return np.zeros((0, 2), np.int64)
    if places.ndim != 2 or places.shape[1] != 2 or places.dtype.kind not in "iu":
        raise GraphError(f"selected is {entries!r:.60}; expected pairs of positions, of a root and a terminal")
    if places.min() < 0 or (places.max(axis=0) >= (rows, columns)).any():
        raise GraphError(f"selected names an entry outside of {rows} × {columns}; expected positions from 0 on")
    return np.unique(places.astype(np.int64), axis=0)


def are_selected(graph: DifferentiationGraph, places: Integers) -> NDArray[np.bool_]:
    """Return True for each place (root, terminal) of a selected entry; `places` has shape (n, 2), the result (n,)."""
    selected = np.ones(len(places), bool)
    if graph.mirror is not None:
        selected &= places[:, 0] >= places[:, 1]
    if graph.selected is not None:
        columns = max(1, len(graph.terminals))
        keys = graph.selected[:, 0] * columns + graph.selected[:, 1]
        selected &= np.isin(places[:, 0] * columns + places[:, 1], keys)
    return selected


def on_selected_paths(graph: DifferentiationGraph, edges: Integers) -> NDArray[np.bool_]:
    """Return True for each edge on a path from the root to the terminal of a selected entry, (edges,).

    Time: O(edges + selected entries) operations on bit sets with one bit for each terminal.
    """
    assert graph.selected is not None
    places = graph.selected
    if graph.mirror is not None:  # symmetric elimination removes a path together with its mirror
        places = np.concatenate([places, places[:, ::-1]])
    # for each vertex the bit set of terminals selected with a root above it, and of terminals below it
    selected, below = [0] * len(graph.vertices), [0] * len(graph.vertices)
    for row, column in places.tolist():
        selected[graph.roots[row]] |= 1 << column
    for column, terminal in enumerate(graph.terminals):
        below[terminal] = 1 << column
    sources, targets = (ends.tolist() for ends in graph.edges_in_order)
    for j, i in zip(sources, targets, strict=True):
        below[j] |= below[i]
    for j, i in zip(reversed(sources), reversed(targets), strict=True):
        selected[i] |= selected[j]
    ends = zip(graph.sources[edges].tolist(), graph.targets[edges].tolist(), strict=True)
    return np.array([selected[j] & below[i] != 0 for j, i in ends], bool)


# Derived graphs ------------------------------------------------------------------------------------------------------


#: Edge number that denotes the label 1.
UNIT: Final = -1


def derive(
    graph: DifferentiationGraph,
    vertices: Sequence[Hashable],
    roots: Sequence[int],
    terminals: Sequence[int],
    edges: Iterable[tuple[int, int, int]],
    sizes: Sequence[int] | None = None,
) -> DifferentiationGraph:
    """Return a graph whose edges carry labels of `graph`.

    Args:
        graph: graph that has the labels.
        vertices: names of the new vertices, by number.
        roots: new vertices without incoming edges, by number.
        terminals: new vertices without outgoing edges, by number.
        edges: triples (source, target, e): the edge carries the label of edge e of `graph`, or 1 if e is `UNIT`.
        sizes: sizes of the vertices, by number; all 1 by default.
    """
    sources: list[int] = []
    targets: list[int] = []
    origins: list[int] = []
    for source, target, origin in edges:
        sources.append(source)
        targets.append(target)
        origins.append(origin)
    if graph.tape is not None:
        tape = graph.tape.copy()
        one = tape.constant(1.0)
        labels = [one if e == UNIT else graph.labels[e] for e in origins]
        # without sizes: all vertices of a graph from a tape are scalars
        return DifferentiationGraph.from_tape(
            tape, labels, vertices, roots, terminals, sources, targets, name=graph.name
        )
    kinds = [Kind.ONE if e == UNIT else Kind(int(graph.kinds[e])) for e in origins]
    symbols = [None if e == UNIT else graph.symbols[e] for e in origins]
    constant_edges = {UNIT, *graph.constants}
    constants = {k: 1.0 if e == UNIT else graph.constants[e] for k, e in enumerate(origins) if e in constant_edges}
    derived = DifferentiationGraph.__new__(DifferentiationGraph)
    widths = np.ones(len(vertices), np.int64) if sizes is None else np.asarray(sizes, np.int64)
    # the public constructor identifies vertices by name, but names in a derived graph need not be unique
    derived._set(vertices, roots, terminals, sources, targets, kinds, symbols, constants, widths, graph.name)
    return derived


def subgraph(graph: DifferentiationGraph, edges: Iterable[int]) -> DifferentiationGraph:
    """Return the subgraph with the given edges in ascending order, and all roots and terminals of `graph`.

    Intermediates without a given edge are left out. Names, labels and sizes are unchanged.

    Raises:
        GraphError: for a number that is not an edge of the graph.

    >>> graph = DifferentiationGraph([("y", "a", "e1"), ("a", "x", "e2"), ("y", "b", "e3"), ("b", "x", "e4")])
    >>> subgraph(graph, [0, 1]).vertices
    ('y', 'a', 'x')
    """
    chosen = edge_numbers(graph, edges)
    used = {*graph.roots, *graph.terminals}
    used.update(graph.sources[list(chosen)].tolist(), graph.targets[list(chosen)].tolist())
    vertices = sorted(used)
    number = {v: k for k, v in enumerate(vertices)}
    return derive(
        graph,
        [graph.vertices[v] for v in vertices],
        [number[v] for v in graph.roots],
        [number[v] for v in graph.terminals],
        [(number[int(graph.sources[e])], number[int(graph.targets[e])], e) for e in chosen],
        graph.sizes[vertices].tolist(),
    )


def vertex_numbers(graph: DifferentiationGraph, vertices: int | Iterable[int]) -> tuple[int, ...]:
    """Return one vertex or several as an ascending tuple without repetition.

    Raises:
        GraphError: for a number that is not a vertex of the graph.
    """
    return _numbers(vertices, len(graph.vertices), "vertex")


def edge_numbers(graph: DifferentiationGraph, edges: int | Iterable[int]) -> tuple[int, ...]:
    """Return one edge or several as an ascending tuple without repetition.

    Raises:
        GraphError: for a number that is not an edge of the graph.
    """
    return _numbers(edges, len(graph.sources), "edge")


def _numbers(requested: int | Iterable[int], count: int, kind: str) -> tuple[int, ...]:
    several: Iterable[object] = (
        requested if isinstance(requested, Iterable) and not isinstance(requested, str) else (requested,)
    )
    numbers = set()
    for number in several:
        if not isinstance(number, (int, np.integer)) or isinstance(number, bool) or not 0 <= number < count:
            expected = f"a number out of 0 … {count - 1}" if count else "none at all"
            raise GraphError(f"the graph has no {kind} {number!r}; expected {expected}")
        numbers.add(int(number))
    return tuple(sorted(numbers))
