"""From a tape to its differentiation graph.

One vertex for each operation that an output depends on smoothly, one edge for each argument, labelled with the
local partial derivative, which is written onto a copy of the same tape and shares whatever the values computed.
Parallel edges (``x * x``) become one edge with the summed label. Edges whose partial is zero are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accumulus.errors import ArgumentError
from accumulus.graph.graph import DifferentiationGraph
from accumulus.tape.live import needed, unattached
from accumulus.tape.partials import partial
from accumulus.tape.tape import Tape

__all__ = ["Linearization", "linearize"]


@dataclass(frozen=True, slots=True)
class Linearization:
    """A graph, and how its roots and terminals belong to the outputs and inputs of the function.

    `rows[k]` is the position in ``graph.roots`` of output k, or -1 if the output does not depend on any
    differentiated input; equal outputs share a root. `columns[t]` is the input of terminal t.
    """

    graph: DifferentiationGraph
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def tape(self) -> Tape:
        """The function's tape, with the partials on it; its outputs are the function's own."""
        assert self.graph.tape is not None
        return self.graph.tape


def linearize(tape: Tape, inputs: Sequence[int] | None = None, name: str = "") -> Linearization:
    """Differentiation graph of the outputs of `tape` with respect to `inputs` (by default all).

    Raises:
        ArgumentError: if `inputs` names an input twice, or one that the tape does not have.
    """
    extended = tape.copy()
    columns = tuple(range(tape.inputs) if inputs is None else inputs)
    if len(set(columns)) < len(columns) or not set(columns) <= set(range(tape.inputs)):
        raise ArgumentError(f"inputs = {columns}: expected each once, out of 0 … {tape.inputs - 1}")
    labels_of = _local_partials(extended, columns)
    reached = _reached(labels_of, tape.outputs)

    vertex = {reference: position for position, reference in enumerate(columns)}
    names: list[str] = [f"x{reference}" for reference in columns]
    sources: list[int] = []
    targets: list[int] = []
    labels: list[int] = []
    for reference in sorted(reached):  # references are in topological order
        if reference in vertex:
            continue
        vertex[reference] = len(names)
        names.append(f"v{reference}")
        for argument, label in labels_of[reference].items():
            sources.append(vertex[reference])
            targets.append(vertex[argument])
            labels.append(label)

    depended_on = set(targets)
    roots: list[int] = []
    root_of: dict[int, int] = {}
    for reference in tape.outputs:
        if reference not in vertex or reference in root_of:
            continue
        root_of[reference] = len(roots)
        if vertex[reference] in depended_on or vertex[reference] < len(columns):
            sources.append(len(names))
            targets.append(vertex[reference])
            labels.append(extended.constant(1.0))
            roots.append(len(names))
            names.append(f"y{len(roots) - 1}")
        else:
            roots.append(vertex[reference])
    rows = tuple(root_of.get(reference, -1) for reference in tape.outputs)
    extended, moved = unattached(extended)
    labels = [moved[label] if label >= 0 else label for label in labels]
    graph = DifferentiationGraph.from_tape(
        extended, labels, names, roots, range(len(columns)), sources, targets, name=name
    )
    return Linearization(graph, rows, columns)


def _local_partials(tape: Tape, columns: Sequence[int]) -> dict[int, dict[int, int]]:
    """For each operation that depends on the columns: label by argument; empty for the columns themselves."""
    labels_of: dict[int, dict[int, int]] = {column: {} for column in columns}
    marks = needed(tape)
    for reference in range(tape.inputs, len(tape)):
        if not marks[reference]:
            continue
        labels: dict[int, int] = {}
        for position, argument in enumerate(tape.arguments(reference)):
            if argument not in labels_of:
                continue
            label = partial(tape, reference, position)
            if label is None:
                continue
            labels[argument] = tape.add(labels[argument], label) if argument in labels else label
        labels = {a: label for a, label in labels.items() if label >= 0 or tape.value_of(label) != 0.0}
        if labels:
            labels_of[reference] = labels
    return labels_of


def _reached(labels_of: dict[int, dict[int, int]], outputs: Sequence[int]) -> set[int]:
    """Active references on a path from an output, outputs included."""
    reached = {output for output in outputs if output in labels_of}
    pending = list(reached)
    while pending:
        for argument in labels_of[pending.pop()]:
            if argument not in reached:
                reached.add(argument)
                pending.append(argument)
    return reached
