"""A Jacobian in factors: the graph that is left when some intermediates are gone, and products that run through it.

J·v goes from the terminals to the roots, w·J the other way, and both take a multiplication for each edge whose label is
not ±1. The labels that are left are sums over paths between vertices that are kept. So they are the Jacobian of another
graph, in which each of these is a root, where it is reached, and a terminal, where it is left: plans of that are
searched for, verified and emitted as all are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accumulus.graph.graph import DifferentiationGraph
from accumulus.graph.linearize import Linearization
from accumulus.tape.tape import Tape

__all__ = ["Factors", "parted"]


def parted(graph: DifferentiationGraph, eliminated: Collection[int]) -> tuple[DifferentiationGraph, tuple[int, ...]]:
    """The graph whose Jacobian's entries are the labels that are left when some intermediates are gone.

    Returns:
        The graph, and the intermediates that are kept: the last of its roots, and of its terminals.

    >>> tape = Tape(2)
    >>> tape.outputs = [tape.apply("sin", tape.multiply(0, 1)), tape.apply("cos", tape.multiply(0, 1))]
    >>> from accumulus.graph.linearize import linearize
    >>> found, kept = parted(linearize(tape).graph, [])
    >>> [found.vertices[k] for k in kept], [found.vertices[k] for k in found.terminals]
    (['v2'], ['x0', 'x1', 'v2 as an argument'])
    """
    assert graph.tape is not None
    live = np.flatnonzero(graph.live_edges)
    sources, targets = graph.sources[live].astype(np.int64), graph.targets[live].astype(np.int64)
    inner = np.setdiff1d(sources, [*graph.roots, *eliminated])
    count = len(graph.vertices)
    argument = np.arange(count)
    argument[inner] = count + np.arange(len(inner))
    kept = tuple(inner.tolist())
    names = [*graph.vertices, *(f"{graph.vertices[k]} as an argument" for k in kept)]
    found = DifferentiationGraph.from_tape(
        graph.tape,
        np.array(graph.labels, np.int64)[live],
        names,
        (*graph.roots, *kept),
        (*graph.terminals, *argument[inner].tolist()),
        sources,
        argument[targets],
        name=graph.name,
    )
    return found, kept


@dataclass(frozen=True, slots=True)
class Factors:
    """The edges that are left, for products with them: arguments come before what depends on them.

    Attributes:
        results, arguments: of the product J·v: how many there are.
        rows: for each result the number of its vertex, or -1.
        columns: for each argument the number of its vertex.
        sources, targets: of the edges, by number of the vertex; in the order in which J·v goes through them.
        constants: of labels that are known, by edge; None for others.
        labels: of the others, their places among the labels that are given.
        given: how many labels are given.
    """

    results: int
    arguments: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    constants: tuple[float | None, ...]
    labels: tuple[int, ...]
    given: int

    @property
    def multiplications(self) -> int:
        """Return what a product takes: edges whose label is neither ±1 nor 0."""
        return sum(value is None or abs(value) not in (0.0, 1.0) for value in self.constants)

    def forward(self) -> Tape:
        """J·v, on a tape whose inputs are the labels, then v."""
        tape, value = Tape(self.given + self.arguments), dict[int, int]()
        for k, vertex in enumerate(self.columns):
            value[vertex] = self.given + k
        for e, (j, i) in enumerate(zip(self.sources, self.targets, strict=True)):
            if i in value:
                _add(tape, value, j, tape.multiply(self._label(tape, e), value[i]))
        zero = tape.constant(0.0)
        tape.outputs = [value.get(vertex, zero) for vertex in self.rows]
        return tape

    def reverse(self) -> Tape:
        """w·J, on a tape whose inputs are the labels, then w."""
        tape, value = Tape(self.given + self.results), dict[int, int]()
        for k, vertex in enumerate(self.rows):
            if vertex >= 0:  # results that are equal are one root
                _add(tape, value, vertex, self.given + k)
        for e, (j, i) in reversed([*enumerate(zip(self.sources, self.targets, strict=True))]):
            if j in value:
                _add(tape, value, i, tape.multiply(self._label(tape, e), value[j]))
        zero = tape.constant(0.0)
        tape.outputs = [value.get(vertex, zero) for vertex in self.columns]
        return tape

    def _label(self, tape: Tape, edge: int) -> int:
        value = self.constants[edge]
        return self.labels[edge] if value is None else tape.constant(value)

    @classmethod
    def of(
        cls,
        linearization: Linearization,
        arguments: NDArray[np.int64],
        kept: tuple[int, ...],
        places: NDArray[np.int64],
        references: NDArray[np.int64],
        tape: Tape,
    ) -> tuple[Factors, list[int]]:
        """The factors, and the references of the labels that products are given, each once.

        Args:
            linearization: of the whole.
            arguments: inputs of its tape that v has the entries of, in their order.
            kept: intermediates, and
            places: (root, terminal) of labels of the graph that is `parted`, row by row.
            references: of these labels on the tape.
        """
        graph = linearization.graph
        ends = [np.array([*first, *kept], np.int64) for first in (graph.roots, graph.terminals)]
        sources, targets = ends[0][places[:, 0]], ends[1][places[:, 1]]
        turn = np.empty(len(graph.vertices), np.int64)
        turn[list(graph.topological_order)] = np.arange(len(turn))
        order = np.argsort(turn[sources], kind="stable")
        sources, targets, references = sources[order], targets[order], references[order]
        constants = tuple(tape.value_of(r) if r < 0 else None for r in references.tolist())
        given, labels = np.unique(references, return_inverse=True)
        known = int(np.count_nonzero(given < 0))
        vertex = dict(zip(linearization.columns, graph.terminals, strict=True))
        made = cls(
            len(linearization.rows),
            len(arguments),
            tuple(graph.roots[row] if row >= 0 else -1 for row in linearization.rows),
            tuple(vertex[k] for k in arguments.tolist()),
            tuple(sources.tolist()),
            tuple(targets.tolist()),
            constants,
            tuple((labels.reshape(-1) - known).tolist()),
            len(given) - known,
        )
        return made, given[known:].tolist()


def _add(tape: Tape, value: dict[int, int], vertex: int, term: int) -> None:
    value[vertex] = tape.add(value[vertex], term) if vertex in value else term
