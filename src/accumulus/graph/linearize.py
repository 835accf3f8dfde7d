"""Conversion of a tape to its differentiation graph.

The graph has a vertex for each differentiated input and for each operation between them and an output, and an edge for
each argument of an operation. The label of an edge is the local partial derivative, which is recorded on a copy of the
same tape and shares the operations of the values. Parallel edges (``x * x``) become one edge with the summed label.
Edges whose partial is zero are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, GraphError
from accumulus.graph.graph import DifferentiationGraph, sorted_places
from accumulus.native.state import Integers
from accumulus.tape.live import needed, rules_of, signed_zeros, unattached, within_rules
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.partials import check_orders, partial
from accumulus.tape.passes import commands, extended, moved, rows_of, spread, with_folding
from accumulus.tape.tape import ADD, Tape

#: Number of a value that is not a vertex, or depends on no input.
_NONE: Final = -1
#: For each operation and argument: True if the derivative with respect to the argument is not identically 0.
_SMOOTH: Final = np.array([[k < row.arity and row.partials[k] is not None for k in range(3)] for row in OPERATIONS])


@dataclass(frozen=True, slots=True)
class Linearization:
    """Graph of a function, with the outputs of its roots and the inputs of its terminals.

    Attributes:
        graph: the differentiation graph, with its tape.
        rows: for each output the position of its root in ``graph.roots``; -1 if the output depends on no differentiated
            input, or has no selected derivatives. Equal outputs share a root.
        columns: for each terminal its input.
    """

    graph: DifferentiationGraph
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def tape(self) -> Tape:
        """The function's tape with the partials appended; its outputs are the function's outputs."""
        assert self.graph.tape is not None
        return self.graph.tape


def linearize(
    tape: Tape,
    inputs: Sequence[int] | None = None,
    name: str = "",
    selected: Sequence[Sequence[int]] | NDArray[Any] | None = None,
    *,
    keeping: bool = False,
) -> Linearization:
    """Return the differentiation graph of the outputs of `tape` with respect to `inputs`.

    Args:
        tape: tape to differentiate.
        inputs: inputs to differentiate with respect to; by default all.
        name: name of the graph for display.
        selected: selected derivatives, (n, 2) positions in ``tape.outputs`` and `inputs`; None for all. An output
            without selected derivatives has no root, and plans make no product that only unselected derivatives need.
            Equal outputs share their selections.
        keeping: if True, keep attached derivatives that last (`accumulus.tape.live.lasting`), so that the tape can be
            differentiated again.

    Raises:
        ArgumentError: if `inputs` names an input twice, or one that the tape does not have; if `selected` names an
            output or an input that does not exist; or for a derivative that a rule refuses
            (`accumulus.tape.live.Rules`).
    """
    columns = tuple(range(tape.inputs) if inputs is None else inputs)
    if len(set(columns)) < len(columns) or not set(columns) <= set(range(tape.inputs)):
        raise ArgumentError(f"inputs = {columns}: expected each once, out of 0 … {tape.inputs - 1}")
    outputs = np.array(tape.outputs, np.int64)
    if selected is not None:
        try:
            selected = sorted_places(selected, len(outputs), len(columns))
        except GraphError as error:
            raise ArgumentError(str(error)) from None
        # an output without selected derivatives counts as constant
        constant = np.ones(len(outputs), bool)
        constant[selected[:, 0]] = False
        outputs[constant] = _NONE
    differentiated = np.array(columns, np.int64)
    recorded, edges = local_partials(tape, differentiated, keeping=keeping)

    # the first vertices are the columns, then the operations between them and an output, in the order of the tape
    active = np.zeros(len(tape), bool)
    active[differentiated] = True
    active[edges.operations] = True
    reached = np.zeros(len(tape), bool)
    reached[outputs[outputs >= 0]] = True
    reached = spread(reached & active, edges.operations[::-1], edges.arguments[::-1])
    inner = np.flatnonzero(reached[tape.inputs :]) + tape.inputs
    rules = rules_of(tape)
    if rules is not None and rules.refused[inner].any():
        raise ArgumentError(
            f"{name or 'the function'} needs a derivative of a jax.custom_jvp or jax.custom_vjp inside of another "
            "one's rule whose own rule is not recorded: rules are recorded a few levels deep, as long as they are "
            "linear. Ask for a derivative of lower order, or differentiate by jax.grad inside of the function, where "
            "JAX applies the rules"
        )
    vertex = np.full(len(tape), _NONE)
    vertex[differentiated] = np.arange(len(columns))
    vertex[inner] = len(columns) + np.arange(len(inner))
    live = reached[edges.operations]
    sources, targets = vertex[edges.operations[live]], vertex[edges.arguments[live]]

    # equal outputs share a root, at the position of the first; an output that is an input or has dependents gets a new
    # root with a unit edge
    ends = np.where(outputs >= 0, moved(outputs, vertex), _NONE)
    distinct, first, rows = np.unique(ends, return_index=True, return_inverse=True)
    turn = np.argsort(np.where(distinct >= 0, first, len(outputs)), kind="stable")[: np.count_nonzero(distinct >= 0)]
    roots = distinct[turn]
    root_of = np.full(len(distinct), _NONE)
    root_of[turn] = np.arange(len(turn))
    depended_on = np.zeros(len(columns) + len(inner), bool)
    depended_on[targets] = True
    depended_on[: len(columns)] = True
    shared = np.flatnonzero(depended_on[roots])
    new_roots = len(depended_on) + np.arange(len(shared))
    sources, targets = np.concatenate([sources, new_roots]), np.concatenate([targets, roots[shared]])
    labels = np.concatenate([edges.labels[live], np.full(len(shared), recorded.constant(1.0))])
    roots[shared] = new_roots
    names = [f"x{k}" for k in columns] + [f"v{k}" for k in inner.tolist()] + [f"y{k}" for k in shared.tolist()]

    recorded, references = unattached(recorded, keeping=keeping)
    root_by_output = root_of[rows]
    if selected is not None:
        selected = np.stack([root_by_output[selected[:, 0]], selected[:, 1]], axis=1)
        selected = selected[selected[:, 0] >= 0]
    graph = DifferentiationGraph.from_tape(
        recorded,
        moved(labels, references),
        names,
        roots.tolist(),
        range(len(columns)),
        sources,
        targets,
        name=name,
        selected=selected,
    )
    return Linearization(graph, tuple(root_by_output.tolist()), columns)


class Edges(NamedTuple):
    """Edges as columns: operation, argument and partial, each by reference."""

    operations: Integers
    arguments: Integers
    labels: Integers


def local_partials(tape: Tape, columns: Integers, *, keeping: bool = False) -> tuple[Tape, Edges]:
    """Return the tape with the nonzero partials of all operations that depend on the columns, and these edges.

    Args:
        tape: tape to differentiate.
        columns: inputs to differentiate with respect to.
        keeping: if True, a zero with an attached derivative counts as nonzero, and the values of the returned tape
            are those in derivatives (`accumulus.tape.live.within_rules`).
    """
    rows = rows_of(tape, tape.inputs)
    arguments = rows[:, 1:]
    smooth = _SMOOTH[rows[:, 0]] & (arguments >= 0)
    arguments = np.maximum(arguments, 0)
    smooth &= np.frombuffer(needed(tape), bool)[tape.inputs :, np.newaxis]
    counting = smooth.copy()
    while True:
        active = np.zeros(len(tape), bool)
        active[columns] = True
        operations, positions = np.nonzero(counting)
        active = spread(active, arguments[operations, positions], operations + tape.inputs)
        result, edges = _recorded(tape, rows, smooth & active[arguments])
        check_orders(result, len(tape))
        if not keeping:
            plain, references = unattached(result)
        else:
            result, references = within_rules(result)
            plain, edges = result, edges._replace(labels=moved(edges.labels, references))
            references = np.arange(len(result))
        zero = _are_zero(plain, moved(edges.labels, references))
        operations = edges.operations[zero] - tape.inputs
        cancelled = counting[operations] & (arguments[operations] == edges.arguments[zero, np.newaxis])
        if not cancelled.any():
            return result, Edges(*(column[~zero] for column in edges))
        # a value that depends on the columns only through arguments with zero partials does not depend on them
        np.logical_and.at(counting, operations, ~cancelled)  # `operations` may have duplicates


def _are_zero(tape: Tape, labels: Integers) -> NDArray[np.bool_]:
    """Return True for each label that is 0 at every point, products with a literal zero included."""
    if signed_zeros(tape).any():
        tape, values = extended(tape.emptied(), rows_of(tape, tape.inputs))
        labels = moved(labels, values)
    zero = labels < 0
    zero[zero] = np.array(tape.constants)[-1 - labels[zero]] == 0.0
    return zero


def _recorded(tape: Tape, rows: Integers, chosen: NDArray[np.bool_]) -> tuple[Tape, Edges]:
    """Return the tape with the partials with respect to the chosen arguments, and the edges.

    Args:
        tape: tape to append the partials to; it is copied.
        rows: operations with their arguments.
        chosen: mask of the arguments, (operations, 3).
    """
    operations, positions = np.nonzero(chosen)
    arguments = rows[operations, 1 + positions]
    # a repeated argument, as in x * x, has the sum of both derivatives
    again = np.zeros(len(operations), bool)
    again[1:] = (operations[1:] == operations[:-1]) & (arguments[1:] == arguments[:-1])
    # one integer for each pair: NumPy takes ten times as long to sort pairs
    kinds, kind = np.unique(rows[operations, 0] * 3 + positions, return_inverse=True)
    templates = [partial_of(*divmod(number, 3)) for number in kinds.tolist()]
    sizes = np.array([template.operations for template, _ in templates], np.int64) - 1
    ends = len(tape) + np.cumsum(sizes[kind] + again)

    base = with_folding(tape.copy())
    recorded = commands(ends[-1] - len(tape) if len(ends) else 0)
    labels = np.empty(len(operations), np.int64)
    for k, (template, label) in enumerate(templates):
        entries = np.flatnonzero(kind == k)
        of_kind = operations[entries]
        start = ends[entries] - again[entries] - sizes[k]
        # reference for each reference of the template: arguments, value, further operations; last the constants, which
        # have negative references
        places: list[Any] = [*rows[of_kind, 1 : 1 + template.inputs].T, of_kind + tape.inputs]
        places += [start + j for j in range(sizes[k])]
        places += [base.constant(value) for value in reversed(template.constants)]
        for j, (code, *operands) in enumerate(rows_of(template, template.inputs + 1).tolist()):
            at = start + j - len(tape)
            recorded[at, 0] = code
            for column in range(OPERATIONS[code].arity):
                recorded[at, 1 + column] = places[operands[column]]
        labels[entries] = places[label]
    twice = np.flatnonzero(again)
    recorded[ends[twice] - 1 - len(tape)] = commands(len(twice), ADD, labels[twice - 1], labels[twice])
    labels[twice] = ends[twice] - 1
    last = np.append(~again[1:], True)[: len(again)]
    result, values = extended(base, recorded)
    return result, Edges(operations[last] + tape.inputs, arguments[last], moved(labels[last], values))


@cache
def partial_of(code: int, position: int) -> tuple[Tape, int]:
    """Return a tape of one operation with its partial with respect to one argument, and the partial's reference."""
    tape = Tape(OPERATIONS[code].arity)
    value = tape.apply_code(code, range(tape.inputs))
    label = partial(tape, value, position)
    assert value == tape.inputs
    assert label is not None
    return tape, label
