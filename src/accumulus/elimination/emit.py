"""Emission of an accumulation as a tape: conditions on labels, operations, costs, and Jacobians in factors.

**Guards.** Labels have conditions, so that an untaken branch contributes exactly zero.

The derivative of ``where(c, f(x), 0)`` is f′(x) where c holds and 0 elsewhere, even where f′ is infinite or NaN. So a
label is split into a value and a set of conditions; the label is the value if all conditions hold, else 0. A product
has the union of the factors' sets, a sum the intersection of the terms' sets. Selects are emitted for the entries of
the Jacobian, and for the terms of a sum whose sets differ.

Gap: an argument that minimum or maximum does not select has no condition, and its infinite derivatives give NaN.

**Emission.** Products and sums of labels become operations, hash-consed with the operations on the tape.

For the graph of a traced function they are emitted onto a copy of the function's tape, so values, partials and Jacobian
share operations. A graph without a tape (from a file) gets a tape whose inputs are the labels of unknown value.

Derivatives of an untaken branch are 0 even if they are infinite or NaN, in every order of elimination.

**Cost.** `count` computes all reported costs. ``fma`` counts every product. ``multiplications`` does not count products
with ±1 or of two constants, which are folded when the plan is made. ``operations`` counts the operations of the emitted
tape in canonical form, values and partials included. A product of labels of vector-valued vertices counts as the
product of the three sizes.

**Factors.** A Jacobian in factors is the graph that remains after some intermediates are eliminated. J·v goes from the
terminals to the roots, w·J from the roots to the terminals, and both take a multiplication for each edge whose label is
not ±1. The remaining labels are sums over paths between retained vertices. So they are the Jacobian of another graph,
in which each retained intermediate is split into a root, with its outgoing edges, and a terminal, with its incoming
edges. The plan for that graph is searched, verified and emitted like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.accumulation import Accumulation, Labels
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.graph.linearize import Linearization
from accumulus.options import Objective
from accumulus.rewriting.canonical import canonical
from accumulus.tape.operations import BY_NAME
from accumulus.tape.passes import commands, extended, spread
from accumulus.tape.tape import ADD, MULTIPLY, NEGATIVE, SELECT, Tape

_NOT: Final = BY_NAME["logical_not"].code
_NONE: Final[frozenset[int]] = frozenset()
#: A larger set of conditions becomes one condition, so that long chains of branches take linear time. A larger number
#: takes more time for these, a smaller one keeps fewer products conditional on exactly what they need.
LARGEST_SET: Final = 32


@dataclass(frozen=True, slots=True)
class Guarded:
    """Label with conditions.

    Attributes:
        value: reference of the label's value where all conditions of `on` hold; elsewhere the label is 0.
        on: references of conditions.
        nonzero: references of conditions without which `value` itself is 0.
    """

    value: int
    on: frozenset[int] = _NONE
    nonzero: frozenset[int] = _NONE


def guarded(tape: Tape, label: int) -> int | Guarded:
    """Return the label, split into value and conditions if it is a select between a value and 0."""
    if label < 0:
        return label
    if tape.codes[label] == NEGATIVE:
        inner = guarded(tape, tape.first[label])
        return label if isinstance(inner, int) else Guarded(tape.negative(inner.value), inner.on)
    if tape.codes[label] == SELECT:
        condition, taken, other = tape.arguments(label)
        if is_zero(tape, other):
            inner = _open(guarded(tape, taken))
            return Guarded(inner.value, inner.on | {condition})
        if is_zero(tape, taken):
            inner = _open(guarded(tape, other))
            return Guarded(inner.value, inner.on | {tape.logical_not(condition)})
    return label


def guarded_labels(tape: Tape, references: Sequence[int]) -> dict[int, Guarded]:
    """Return the labels that are selects between a value and 0, by position in `references`."""
    if SELECT not in tape.codes:
        return {}
    codes, first = np.frombuffer(tape.codes, np.uint8), np.frombuffer(tape.first, np.intc)
    labels = np.array(references, np.int64)
    # constants have negative references: they are looked up at 0 and masked out
    at = np.maximum(labels, 0)
    # one sign is enough: a tape has no double negation
    inner = np.where((labels >= 0) & (codes[at] == NEGATIVE), first[at], labels)
    chosen = np.flatnonzero((inner >= 0) & (codes[np.maximum(inner, 0)] == SELECT)).tolist()
    del codes, first  # views of the buffers, which cannot grow as long as these exist
    candidates = {k: guarded(tape, references[k]) for k in chosen}
    return {k: label for k, label in candidates.items() if isinstance(label, Guarded)}


def _open(label: int | Guarded) -> Guarded:
    return Guarded(label) if isinstance(label, int) else label


def label_product(tape: Tape, a: int | Guarded, b: int | Guarded) -> int | Guarded:
    """Return a · b; 0 if a factor is 0, even if the other is infinite or NaN."""
    if isinstance(a, int) and isinstance(b, int):
        return tape.multiply(a, b)
    a, b = _open(a), _open(b)
    value = tape.multiply(a.value, b.value)
    if a.value < 0 or b.value < 0:
        return Guarded(value, a.on | b.on, a.nonzero | b.nonzero)
    on = a.on | b.on | a.nonzero | b.nonzero
    return Guarded(value, on if len(on) <= LARGEST_SET else frozenset((_all(tape, on),)))


def total(tape: Tape, a: int | Guarded, b: int | Guarded) -> int | Guarded:
    """Return a + b; a term whose conditions fail contributes 0, even if its value is infinite or NaN."""
    if isinstance(a, int) and isinstance(b, int):
        return tape.add(a, b)
    a, b = _open(a), _open(b)
    common = a.on & b.on
    nonzero = (a.on | a.nonzero) & (b.on | b.nonzero) - common
    of_a, of_b = a.on - common, b.on - common
    if of_a and of_b:
        only_a, only_b = _all(tape, of_a), _all(tape, of_b)
        if only_b == tape.logical_not(only_a):
            return Guarded(_select(tape, only_a, a.value, b.value), common, nonzero)
        nonzero |= {tape.logical_or(only_a, only_b)}
    value = tape.add(closed(tape, Guarded(a.value, of_a)), closed(tape, Guarded(b.value, of_b)))
    return Guarded(value, common, nonzero)


def closed(tape: Tape, label: int | Guarded) -> int:
    """Return the label as one reference: a select if it has conditions."""
    if isinstance(label, int):
        return label
    return _select(tape, _all(tape, label.on), label.value, tape.constant(0.0)) if label.on else label.value


def _all(tape: Tape, conditions: frozenset[int]) -> int:
    # latest condition first, so that backward passes through a chain of branches share the conjunctions
    first, *rest = sorted(conditions, reverse=True)
    for condition in rest:
        first = tape.logical_and(first, condition)
    return first


def _select(tape: Tape, condition: int, taken: int, other: int) -> int:
    if condition >= 0 and tape.codes[condition] == _NOT:
        return tape.select(tape.first[condition], other, taken)
    return tape.select(condition, taken, other)


def is_zero(tape: Tape, reference: int) -> bool:
    """Return True if `reference` is the constant 0.0 or -0.0, which have different references."""
    return reference < 0 and tape.value_of(reference) == 0.0


# Emission ------------------------------------------------------------------------------------------------------------


def emit(accumulation: Accumulation) -> Tape:
    """Return a tape whose outputs are the function's outputs, then the Jacobian's entries in row-major order."""
    graph, steps = accumulation.graph, accumulation.steps
    tape, references = label_tape(graph) if graph.tape is None else (graph.tape.copy(), list(graph.labels))
    is_product, left, right = steps.columns()
    edges = len(references)
    guards: dict[int, int | Guarded] = {**guarded_labels(tape, references)}

    # steps without conditions, in most functions all of them, are recorded in one call
    conditional = np.zeros(edges + len(steps), bool)
    if guards:
        conditional[list(guards)] = True
        results = edges + np.arange(len(steps))
        conditional = spread(conditional, np.stack([left, right], axis=1).reshape(-1), np.repeat(results, 2))
    free = np.flatnonzero(~conditional[edges:])
    position = np.arange(edges + len(steps))
    position[edges + free] = edges + np.arange(len(free))
    codes = np.where(is_product[free], MULTIPLY, ADD)
    tape, values = extended(tape, commands(len(free), codes, position[left[free]], position[right[free]]), references)

    def label(k: int) -> int | Guarded:
        return guards[k] if conditional[k] else int(values[position[k]])

    for k in np.flatnonzero(conditional[edges:]).tolist():
        combine = label_product if is_product[k] else total
        guards[edges + k] = combine(tape, label(left[k]), label(right[k]))
    _, entries = accumulation.ordered_entries()
    if guards:
        tape.outputs.extend(closed(tape, label(k)) for k in entries.tolist())
    else:
        tape.outputs.extend(values[position[entries]].tolist())
    return tape


def label_tape(graph: DifferentiationGraph) -> tuple[Tape, list[int]]:
    """Return a tape with one input for each label of unknown value, and the reference of each edge's label."""
    unknown = [e for e, kind in enumerate(graph.kinds.tolist()) if kind >= Kind.CONSTANT and e not in graph.constants]
    tape = Tape(len(unknown))
    position = {e: k for k, e in enumerate(unknown)}
    return tape, [position[e] if e in position else tape.constant(graph.constants[e]) for e in range(len(graph.kinds))]


# Cost ----------------------------------------------------------------------------------------------------------------


def count(accumulation: Accumulation, objective: str) -> int:
    """Return the cost of the accumulation under the named objective.

    Raises:
        UnknownNameError: if the objective does not exist.
    """
    judged = Objective.of(objective)
    if judged.on_tape:
        return canonical(emit(accumulation)).operations
    return Labels(accumulation.graph, accumulation.steps, every_product=judged.every_product).cost


def remaining_graph(
    graph: DifferentiationGraph, eliminated: Collection[int]
) -> tuple[DifferentiationGraph, tuple[int, ...]]:
    """Return the graph whose Jacobian's entries are the labels that remain after the elimination of intermediates.

    Args:
        graph: graph from a tape.
        eliminated: intermediates to eliminate.

    Returns:
        The graph and the retained intermediates, which are the last of its roots and the last of its terminals.

    >>> tape = Tape(2)
    >>> tape.outputs = [tape.apply("sin", tape.multiply(0, 1)), tape.apply("cos", tape.multiply(0, 1))]
    >>> from accumulus.graph.linearize import linearize
    >>> remainder, retained = remaining_graph(linearize(tape).graph, [])
    >>> [remainder.vertices[k] for k in retained], [remainder.vertices[k] for k in remainder.terminals]
    (['v2'], ['x0', 'x1', 'v2 as an argument'])
    """
    assert graph.tape is not None
    live = np.flatnonzero(graph.live_edges)
    sources, targets = graph.sources[live].astype(np.int64), graph.targets[live].astype(np.int64)
    inner = np.setdiff1d(sources, [*graph.roots, *eliminated])
    count = len(graph.vertices)
    argument = np.arange(count)
    argument[inner] = count + np.arange(len(inner))
    retained = tuple(inner.tolist())
    names = [*graph.vertices, *(f"{graph.vertices[k]} as an argument" for k in retained)]
    remainder = DifferentiationGraph.from_tape(
        graph.tape,
        np.array(graph.labels, np.int64)[live],
        names,
        (*graph.roots, *retained),
        (*graph.terminals, *argument[inner].tolist()),
        sources,
        argument[targets],
        name=graph.name,
    )
    return remainder, retained


@dataclass(frozen=True, slots=True)
class RemainingEdges:
    """Remaining edges of a partly eliminated graph, for products J·v and w·J.

    Attributes:
        results: number of entries of J·v.
        arguments: number of entries of v.
        rows: vertex of each result; -1 for a result that depends on no differentiated input.
        columns: vertex of each argument.
        sources, targets: ends of each edge; the edges are in the order of J·v, dependencies before dependents.
        constants: known label of each edge; None if it is an input of the products' tapes.
        labels: position of each unknown label among the inputs; negative for known labels.
        label_count: number of labels among the inputs.
    """

    results: int
    arguments: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    constants: tuple[float | None, ...]
    labels: tuple[int, ...]
    label_count: int

    @property
    def multiplications(self) -> int:
        """Return the number of multiplications of a product: edges whose label is neither ±1 nor 0."""
        return sum(value is None or abs(value) not in (0.0, 1.0) for value in self.constants)

    def forward(self) -> Tape:
        """Return the tape of J·v; its inputs are the labels, then v."""
        tape, value = Tape(self.label_count + self.arguments), dict[int, int]()
        for k, vertex in enumerate(self.columns):
            value[vertex] = self.label_count + k
        for e, (j, i) in enumerate(zip(self.sources, self.targets, strict=True)):
            if i in value:
                _add(tape, value, j, tape.multiply(self._label(tape, e), value[i]))
        zero = tape.constant(0.0)
        tape.outputs = [value.get(vertex, zero) for vertex in self.rows]
        return tape

    def reverse(self) -> Tape:
        """Return the tape of w·J; its inputs are the labels, then w."""
        tape, value = Tape(self.label_count + self.results), dict[int, int]()
        for k, vertex in enumerate(self.rows):
            if vertex >= 0:  # equal results share a root, whose weights add up
                _add(tape, value, vertex, self.label_count + k)
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
        retained: tuple[int, ...],
        places: NDArray[np.int64],
        references: NDArray[np.int64],
        tape: Tape,
    ) -> tuple[RemainingEdges, list[int]]:
        """Return the factors, and the distinct references of the labels that the products take as inputs.

        Args:
            linearization: linearization of the whole function.
            arguments: inputs of its tape that are the entries of v, in order.
            retained: intermediates that are not eliminated.
            places: position (root, terminal) of each label in the graph that `remaining_graph` returns, (n, 2).
            references: reference of each label on the tape.
            tape: tape with the labels.
        """
        graph = linearization.graph
        ends = [np.array([*first, *retained], np.int64) for first in (graph.roots, graph.terminals)]
        sources, targets = ends[0][places[:, 0]], ends[1][places[:, 1]]
        turn = np.empty(len(graph.vertices), np.int64)
        turn[list(graph.topological_order)] = np.arange(len(turn))
        order = np.argsort(turn[sources], kind="stable")
        sources, targets, references = sources[order], targets[order], references[order]
        constants = tuple(tape.value_of(r) if r < 0 else None for r in references.tolist())
        distinct, labels = np.unique(references, return_inverse=True)
        constant_count = int(np.count_nonzero(distinct < 0))
        vertex = dict(zip(linearization.columns, graph.terminals, strict=True))
        made = cls(
            len(linearization.rows),
            len(arguments),
            tuple(graph.roots[row] if row >= 0 else -1 for row in linearization.rows),
            tuple(vertex[k] for k in arguments.tolist()),
            tuple(sources.tolist()),
            tuple(targets.tolist()),
            constants,
            tuple((labels.reshape(-1) - constant_count).tolist()),
            len(distinct) - constant_count,
        )
        return made, distinct[constant_count:].tolist()


def _add(tape: Tape, value: dict[int, int], vertex: int, term: int) -> None:
    value[vertex] = tape.add(value[vertex], term) if vertex in value else term
