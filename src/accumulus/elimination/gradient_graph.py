"""Second derivatives: the graph of a gradient, with its mirror, and elimination that keeps the symmetry.

**The graph.** Reverse mode computes the gradient of a function with one result: first the values v, then their adjoints
v̄. The graph of this program has three kinds of edges (Gower and Mello 2012):

* from an operation v_k to its argument v_i, with the label ∂φ_k/∂v_i of the function's graph;
* from the adjoint v̄_i to the adjoint v̄_k, with the same label;
* from the adjoint v̄_i to the value v_m, with the label Σ_k v̄_k ∂²φ_k/∂v_i∂v_m, as from v̄_m to v_i.

So the graph does not change if all edges are reversed and values and adjoints are exchanged. The paths from the
gradient's entries to the inputs are the terms of the Hessian.

**Symmetric elimination.** A vertex and its mirror are removed together, and of two mirrored products only one is
computed. In a graph with a mirror, the edges between values have labels a_ki = ∂v_k/∂v_i, the edges between adjoints
have the same labels mirrored, and the edges from adjoints to values form a symmetric matrix h. The elimination of v_k
and its adjoint makes these updates, for dependents j and arguments i, m of v_k:

    a_ji += a_jk · a_ki
    h_im += a_ki · h_km + h_ki · a_km + a_ki · h_kk · a_km      for i ≤ m, and h_mi is h_im

With b_m = h_km + h_kk · a_km the last line is a_ki · b_m + h_ki · a_km, which is one product if h_ki is 0. So of each
pair, i is an argument with h_ki = 0 if there is one. Among these i is an argument with a_ki = ±1 if there is one, since
products with ±1 are free. In the order from the last operation to the first, where h_ki is mostly 0, this is edge
pushing (Gower and Mello 2012). Every order gives the same Hessian.

The remaining edges are the entries of the lower triangle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np

from accumulus.elimination.accumulation import Accumulation, Steps
from accumulus.elimination.emit import Guarded, closed, guarded, guarded_labels, is_zero, label_product, total
from accumulus.elimination.implicit import fixed_solutions, instantiated, second_partial
from accumulus.errors import ArgumentError, OrderError
from accumulus.graph.graph import DifferentiationGraph, Kind, mirrored_edges
from accumulus.graph.linearize import Edges, Linearization, local_partials
from accumulus.native.state import Integers
from accumulus.tape.live import of_all_orders, unattached
from accumulus.tape.passes import moved
from accumulus.tape.tape import Tape


def linearize_gradient(
    tape: Tape, inputs: Sequence[int] | None = None, name: str = "", selected: Sequence[Sequence[int]] | None = None
) -> Linearization:
    """Return the graph, with its mirror, of the gradient of a tape's first output with respect to `inputs`.

    The outputs of the graph's tape are all outputs of `tape`, then the entries of the gradient, one for each of
    `inputs`. Only the gradient's entries have roots: root k is the derivative with respect to ``inputs[k]``, even if it
    is constant.

    Args:
        tape: tape whose first output is differentiated.
        inputs: inputs to differentiate with respect to; by default all.
        name: name of the graph for display.
        selected: selected entries of the Hessian, positions (row, column) on or below the diagonal; None for all of
            these.

    Raises:
        ArgumentError: if `inputs` names an input twice, or one that the tape does not have; if the tape has no output;
            or if `is_mirrored` is False for the tape.

    >>> tape = Tape(2)
    >>> tape.outputs = [tape.multiply(tape.apply("sin", 0), 1)]
    >>> graph = linearize_gradient(tape).graph
    >>> [f"{graph.vertices[j]} by {graph.vertices[i]}" for j, i in zip(graph.sources, graph.targets)]
    ['v2 by x0', 'g0 by x0', 'g0 by a2', 'g1 by v2', 'a2 by x1']
    """
    columns = tuple(range(tape.inputs) if inputs is None else inputs)
    if len(set(columns)) < len(columns) or not set(columns) <= set(range(tape.inputs)):
        raise ArgumentError(f"inputs = {columns}: expected each once, out of 0 … {tape.inputs - 1}")
    if not tape.outputs:
        raise ArgumentError("the tape has no output; expected one to differentiate")
    tape = of_all_orders(tape)
    solutions = fixed_solutions(tape)
    if solutions is None:
        raise ArgumentError(
            "the function has values with custom first derivatives, which do not define second ones; remove these "
            "(`unattached`), or use the Jacobian of the gradient"
        )
    # the copies of solutions that Newton steps hold constant have no first derivatives, but they enter second ones
    needed = tape.copy()
    needed.outputs = [*tape.outputs, *solutions.values()]
    recorded, edges = local_partials(needed, np.array([*columns, *solutions], np.int64), keeping=True)
    pairs = zip(edges.operations.tolist(), edges.arguments.tolist(), strict=True)
    labels = dict(zip(pairs, edges.labels.tolist(), strict=True))
    adjoints = _adjoints(recorded, edges, tape.outputs[0])
    cross = _cross_labels(recorded, tape, labels, adjoints, solutions)
    if solutions:
        reached = set(columns)
        reached.update(k for k, i in labels if i in reached)
        labels = {(k, i): label for (k, i), label in labels.items() if i in reached}

    zero = recorded.constant(0.0)
    recorded.outputs = [*tape.outputs, *(closed(recorded, adjoints.get(k, zero)) for k in columns)]
    output_count = len(tape.outputs)
    recorded, places = unattached(recorded)
    labels, cross = (_nonzeros(recorded, each, places) for each in (labels, cross))

    # leave out values on no path from the gradient to an input, and their mirrors
    live = {v for pair in cross for v in pair}
    for k, i in reversed(labels):
        if k in live:
            live.add(i)
    inner = sorted(k for k in live if k >= tape.inputs)
    order = [*columns, *inner]
    number = {v: k for k, v in enumerate(order)}
    count = len(order)

    def adjoint(v: int) -> int:
        return count + number[v]

    forward = [(number[k], number[i], label) for (k, i), label in labels.items() if k in live]
    mirrored = [(i + count, k + count, label) for k, i, label in forward]
    crossing = [(adjoint(u), number[w], label) for (u, w), label in cross.items()]
    crossing += [(adjoint(w), number[u], label) for (u, w), label in cross.items() if u != w]
    sources, targets, references = np.array(sorted([*forward, *mirrored, *crossing]), np.int64).reshape(-1, 3).T

    graph = DifferentiationGraph.from_tape(
        recorded,
        references,
        [f"{kind[v >= tape.inputs]}{v}" for kind in ("xv", "ga") for v in order],
        [adjoint(k) for k in columns],
        range(len(columns)),
        sources,
        targets,
        name=name,
        mirror=[*range(count, 2 * count), *range(count)],
        selected=selected,
    )
    return Linearization(graph, (*(-1,) * output_count, *range(len(columns))), columns)


def _nonzeros(tape: Tape, labels: _Labels, places: Integers) -> _Labels:
    """Return the nonzero labels, with their references mapped by `places` to those on `tape`."""
    moved_labels = zip(labels, moved(np.fromiter(labels.values(), np.int64, len(labels)), places).tolist(), strict=True)
    return {pair: label for pair, label in moved_labels if not is_zero(tape, label)}


def is_mirrored(tape: Tape) -> bool:
    """Return True if the tape determines the second derivatives of its outputs.

    It does not if an attached derivative (`attach`) is correct to first order only, unless it is a Newton step
    (`accumulus.elimination.implicit`).
    """
    return fixed_solutions(of_all_orders(tape)) is not None


#: Labels of edges, by pairs of values.
_Labels = dict[tuple[int, int], int]
#: Adjoint of each value, by the value's reference on the tape.
_Adjoints = dict[int, int | Guarded]


def _adjoints(tape: Tape, edges: Edges, output: int) -> _Adjoints:
    """Return the adjoints of the output and of its dependencies; reverse mode appends them to the tape."""
    adjoints: _Adjoints = {output: tape.constant(1.0)} if output >= 0 else {}
    guards = guarded_labels(tape, edges.labels.tolist())
    columns = (edges.operations.tolist(), edges.arguments.tolist(), edges.labels.tolist())
    for e, (k, i, label) in reversed([*enumerate(zip(*columns, strict=True))]):
        if k in adjoints:
            term = label_product(tape, adjoints[k], guards.get(e, label))
            adjoints[i] = total(tape, adjoints[i], term) if i in adjoints else term
    return adjoints


def _cross_labels(
    recorded: Tape, tape: Tape, labels: _Labels, adjoints: _Adjoints, solutions: Mapping[int, int]
) -> _Labels:
    """Return nonzero labels of the edges between adjoints and values, by pairs of values, the earlier one first."""
    cross: dict[tuple[int, int], int | Guarded] = {}
    for k in dict.fromkeys(k for k, _ in labels):
        if k not in adjoints:
            continue
        arguments = tape.arguments(k)
        smooth = tape.operation(k).partials
        positions = [p for p, i in enumerate(arguments) if (k, i) in labels and smooth[p] is not None]
        for p, q in combinations_with_replacement(positions, 2):
            template = second_partial(tape.codes[k], p, q)
            value = None if template is None else instantiated(recorded, template, arguments)
            if value is None or is_zero(recorded, value):
                continue
            u, w = sorted(solutions.get(arguments[at], arguments[at]) for at in (p, q))
            label = label_product(recorded, adjoints[k], guarded(recorded, value))
            # if both arguments are the same value, the mixed derivative occurs in both orders
            if p < q and u == w:
                label = total(recorded, label, label)
            cross[u, w] = total(recorded, cross[u, w], label) if (u, w) in cross else label
    ends = {pair: closed(recorded, label) for pair, label in cross.items()}
    return {pair: label for pair, label in ends.items() if not is_zero(recorded, label)}


# Symmetric elimination -----------------------------------------------------------------------------------------------


class SymmetricGraph:
    """Half of a graph with a mirror: the values, and the edges from adjoints to values.

    Args:
        graph: graph with a mirror; edges on no path of a selected entry are left out.

    Attributes:
        arguments: for each value its dependencies, with the references of the edges.
        dependents: for each value its dependents among the values.
        crossing: the symmetric matrix h: for each value the values on which its adjoint depends, with references.
    """

    def __init__(self, graph: DifferentiationGraph) -> None:
        assert graph.mirror is not None
        self.graph = graph
        count = len(graph.vertices)
        self.arguments: list[dict[int, int]] = [{} for _ in range(count)]
        self.dependents: list[dict[int, None]] = [{} for _ in range(count)]
        self.crossing: list[dict[int, int]] = [{} for _ in range(count)]
        mirror, is_value = graph.mirror.tolist(), self.values
        representative = np.minimum(np.arange(len(graph.sources)), mirrored_edges(graph)).tolist()
        for e in graph.live_edges.nonzero()[0].tolist():
            j, i = int(graph.sources[e]), int(graph.targets[e])
            if is_value[j]:
                self.arguments[j][i] = representative[e]
                self.dependents[i][j] = None
            elif is_value[i]:
                self.crossing[mirror[j]][i] = representative[e]

    @cached_property
    def values(self) -> list[bool]:
        """Return True for each vertex that is a value, False for adjoints; no value depends on an adjoint.

        The value of a pair is the vertex with the lower number, as `linearize_gradient` numbers them. If the graph has
        another numbering, it is the vertex with the shorter longest path to a terminal.
        """
        graph = self.graph
        assert graph.mirror is not None
        first = np.arange(len(graph.vertices)) < graph.mirror
        if first[list(graph.terminals)].all() and not (first[graph.sources] & ~first[graph.targets]).any():
            return first.tolist()  # type: ignore[no-any-return]
        below = [0] * len(graph.vertices)
        sources, targets = (ends.tolist() for ends in graph.edges_in_order)
        for j, i in zip(sources, targets, strict=True):
            below[j] = max(below[j], below[i] + 1)
        ends = {v: (-1, v) for v in graph.terminals}
        key = [ends.get(v, (length, v)) for v, length in enumerate(below)]
        return [key[v] < key[m] for v, m in enumerate(graph.mirror.tolist())]

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """Values to eliminate, each after the values that it depends on."""
        ends = set(self.graph.terminals)
        return tuple(v for v in self.graph.topological_order if self.values[v] and v not in ends)


def eliminate_pairs(graph: DifferentiationGraph, order: Sequence[int]) -> Accumulation:
    """Eliminate the values of a graph with a mirror in the given order, each with its adjoint.

    Args:
        graph: graph with a mirror.
        order: all values of `SymmetricGraph.inner`, each once, by number.

    Raises:
        OrderError: if the order is not a permutation of these values.
    """
    state = SymmetricGraph(graph)
    if sorted(order) != sorted(state.inner):
        raise OrderError(f"the order is {order!r:.60}; expected every value that is not a terminal once")
    steps = Steps(len(graph.sources))
    arguments, dependents, crossing = state.arguments, state.dependents, state.crossing
    units = {*np.flatnonzero(np.isin(graph.kinds, (Kind.ONE, Kind.MINUS_ONE))).tolist()}

    def add(row: dict[int, int], column: int, reference: int) -> None:
        row[column] = steps.sum(row[column], reference) if column in row else reference

    for k in order:
        below, above, across = arguments[k], dependents[k], crossing[k]
        arguments[k], dependents[k], crossing[k] = {}, {}, {}
        diagonal = across.pop(k, None)
        for i in below:
            del dependents[i][k]
        for m in across:
            del crossing[m][k]
        for j in above:
            a_jk = arguments[j].pop(k)
            for i, a_ki in below.items():
                filled = steps.product(a_jk, a_ki)
                if a_jk in units and a_ki in units:
                    units.add(filled)
                add(arguments[j], i, filled)
                dependents[i][j] = None

        # h_km + h_kk · a_km
        whole = {m: across[m] for m in below if m in across}
        if diagonal is not None:
            for m, a_km in below.items():
                add(whole, m, steps.product(diagonal, a_km))
        # i of a pair comes before m: sort arguments with h_ki = 0 first, and among these a_ki = ±1 first
        turn = sorted(below, key=lambda i: (i in across, below[i] not in units))
        for at, i in enumerate(turn):
            for m in turn[at:]:
                sums: dict[int, int] = {}
                if i == m:
                    if i in whole:
                        twice = steps.sum(whole[i], across[i]) if i in across else whole[i]
                        add(sums, i, steps.product(below[i], twice))
                else:
                    if m in whole:
                        add(sums, i, steps.product(below[i], whole[m]))
                    if i in across:
                        add(sums, i, steps.product(below[m], across[i]))
                if sums:
                    add(crossing[i], m, sums[i])
                    crossing[m][i] = crossing[i][m]
        for m, h_km in across.items():
            if m not in below:
                for i, a_ki in below.items():
                    add(crossing[m], i, steps.product(h_km, a_ki))
                    crossing[i][m] = crossing[m][i]

    entries = {
        (row, column): crossing[i][m]
        for row, i in enumerate(graph.terminals)
        for column, m in enumerate(graph.terminals[: row + 1])
        if m in crossing[i]
    }
    return Accumulation(graph, steps, entries).selected()
