"""From an accumulation to a tape: products and sums of labels become operations, hash-consed with all that is there.

A graph of a traced function emits onto a copy of the function's tape, so values, partials and Jacobian share. A
graph without a tape (from a file) gets one whose inputs are its labels that are not known numbers.

Derivatives of a branch that a select switches off are 0 even where they are infinite or NaN, in every order of
elimination; see `accumulus.elimination.guards`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.guards import Guarded, closed, guarded_labels, product, total
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.tape.operations import BY_NAME
from accumulus.tape.passes import commands, extended, spread
from accumulus.tape.tape import Tape

__all__ = ["emit", "label_tape"]

_ADD: Final = BY_NAME["add"].code
_MULTIPLY: Final = BY_NAME["multiply"].code


def emit(accumulation: Accumulation) -> Tape:
    """Tape whose outputs are the outputs of the function, then the entries of the Jacobian in row-major order."""
    graph, steps = accumulation.graph, accumulation.steps
    tape, references = label_tape(graph) if graph.tape is None else (graph.tape.copy(), list(graph.labels))
    is_product, left, right = steps.columns()
    edges = len(references)
    guards = guarded_labels(tape, references)

    # what no condition reaches, which is all of nearly all functions, is recorded at once
    conditional = np.zeros(edges + len(steps), bool)
    if guards:
        conditional[list(guards)] = True
        own = edges + np.arange(len(steps))
        conditional = spread(conditional, np.stack([left, right], axis=1).reshape(-1), np.repeat(own, 2))
    free = np.flatnonzero(~conditional[edges:])
    place = np.arange(edges + len(steps))
    place[edges + free] = edges + np.arange(len(free))
    codes = np.where(is_product[free], _MULTIPLY, _ADD)
    tape, values = extended(tape, commands(len(free), codes, place[left[free]], place[right[free]]), references)

    def label(k: int) -> int | Guarded:
        return guards[k] if conditional[k] else int(values[place[k]])

    for k in np.flatnonzero(conditional[edges:]).tolist():
        combine = product if is_product[k] else total
        guards[edges + k] = combine(tape, label(left[k]), label(right[k]))
    _, entries = accumulation.ordered_entries()
    if guards:
        tape.outputs.extend(closed(tape, label(k)) for k in entries.tolist())
    else:
        tape.outputs.extend(values[place[entries]].tolist())
    return tape


def label_tape(graph: DifferentiationGraph) -> tuple[Tape, list[int]]:
    """A tape with one input for each label of unknown value, and the reference of each edge's label."""
    unknown = [e for e, kind in enumerate(graph.kinds.tolist()) if kind >= Kind.CONSTANT and e not in graph.constants]
    tape = Tape(len(unknown))
    position = {e: k for k, e in enumerate(unknown)}
    return tape, [position[e] if e in position else tape.constant(graph.constants[e]) for e in range(len(graph.kinds))]
