"""From an accumulation to a tape: products and sums of labels become operations, hash-consed with all that is there.

A graph of a traced function emits onto a copy of the function's tape, so values, partials and Jacobian share. A
graph without a tape (from a file) gets one whose inputs are its labels that are not known numbers.

Derivatives of a branch that a select switches off are 0 even where they are infinite or NaN, in every order of
elimination; see `accumulus.accumulate.guards`.
"""

from __future__ import annotations

from accumulus.accumulate.accumulation import Accumulation
from accumulus.accumulate.guards import Guarded, closed, guarded, product, total
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.tape.tape import Tape

__all__ = ["emit", "label_tape"]


def emit(accumulation: Accumulation) -> Tape:
    """Tape whose outputs are the outputs of the function, then the entries of the Jacobian in row-major order."""
    graph = accumulation.graph
    if graph.tape is not None:
        tape, references = graph.tape.copy(), list(graph.labels)
    else:
        tape, references = label_tape(graph)
    labels: list[int | Guarded] = [guarded(tape, reference) for reference in references]
    for is_product, left, right in accumulation.steps:
        a, b = labels[left], labels[right]
        if isinstance(a, int) and isinstance(b, int):  # no branches: nearly all labels of nearly all functions
            labels.append(tape.multiply(a, b) if is_product else tape.add(a, b))
        else:
            labels.append(product(tape, a, b) if is_product else total(tape, a, b))
    tape.outputs.extend(closed(tape, labels[reference]) for _, reference in sorted(accumulation.entries.items()))
    return tape


def label_tape(graph: DifferentiationGraph) -> tuple[Tape, list[int]]:
    """A tape with one input for each label of unknown value, and the reference of each edge's label."""
    unknown = [e for e, kind in enumerate(graph.kinds.tolist()) if kind >= Kind.CONSTANT and e not in graph.constants]
    tape = Tape(len(unknown))
    position = {e: k for k, e in enumerate(unknown)}
    return tape, [position[e] if e in position else tape.constant(graph.constants[e]) for e in range(len(graph.kinds))]
