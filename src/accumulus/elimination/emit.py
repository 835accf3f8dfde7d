"""The way from an accumulation to a tape, the conditions on labels that are kept on it, and what an accumulation costs.

**Guards.** Labels with the conditions under which they count, so that branches that are off stay off.

The derivative of ``where(c, f(x), 0)`` is f′(x) where c holds and 0 elsewhere, even where f′ is infinite or NaN.
A label is therefore split into a value and the set of conditions that must all hold for it, else it is 0: products
join the sets, sums keep what both have in common, and only what leaves as an entry of the Jacobian becomes a select.

Gap: an argument that minimum or maximum leaves out has no condition, and its infinite derivatives give NaN.

**Emission.** Products and sums of labels become operations, hash-consed with all that is there.

A graph of a traced function emits onto a copy of the function's tape, so values, partials and Jacobian share. A
graph without a tape (from a file) gets one whose inputs are its labels that are not known numbers.

Derivatives of a branch that a select switches off are 0 even where they are infinite or NaN, in every order of
elimination, as above.

**Cost.** Everything that reports a cost asks `count`. ``fma`` counts every product; ``multiplications`` leaves out
products with ±1 and of two constants, which are folded when the plan is made; ``operations`` counts what the emitted
tape really holds, values and partials included, before it is rewritten. A product of labels of vector-valued vertices
counts the product of the three sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from accumulus.elimination.accumulation import Accumulation, Labels
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.objective import Objective
from accumulus.rewriting.canonical import canonical
from accumulus.tape.operations import BY_NAME
from accumulus.tape.passes import commands, extended, spread
from accumulus.tape.tape import Tape

__all__ = ["Guarded", "closed", "count", "emit", "guarded", "guarded_labels", "label_tape", "product", "total"]

_SELECT: Final = BY_NAME["select"].code
_NEGATIVE: Final = BY_NAME["negative"].code
_NOT: Final = BY_NAME["logical_not"].code
_NONE: Final[frozenset[int]] = frozenset()
#: A larger set of conditions is joined into one, so that long chains of branches take linear time.
LARGEST_SET: Final = 32


@dataclass(frozen=True, slots=True)
class Guarded:
    """`value` where all conditions of `on` hold, else 0; `value` is itself 0 unless all of `nonzero` hold."""

    value: int
    on: frozenset[int] = _NONE
    nonzero: frozenset[int] = _NONE


def guarded(tape: Tape, label: int) -> int | Guarded:
    """The label, taken apart if it is a select between a value and 0."""
    if label < 0:
        return label
    if tape.codes[label] == _NEGATIVE:
        inner = guarded(tape, tape.first[label])
        return label if isinstance(inner, int) else Guarded(tape.negative(inner.value), inner.on)
    if tape.codes[label] == _SELECT:
        condition, taken, other = tape.arguments(label)
        if _is_zero(tape, other):
            inner = _open(guarded(tape, taken))
            return Guarded(inner.value, inner.on | {condition})
        if _is_zero(tape, taken):
            inner = _open(guarded(tape, other))
            return Guarded(inner.value, inner.on | {tape.logical_not(condition)})
    return label


def guarded_labels(tape: Tape, references: Sequence[int]) -> dict[int, Guarded]:
    """Those of the labels that are taken apart, by position."""
    if _SELECT not in tape.codes:
        return {}
    codes, first = np.frombuffer(tape.codes, np.uint8), np.frombuffer(tape.first, np.intc)
    labels = np.array(references, np.int64)
    # constants, which may be more than the tape has operations, are looked up at 0 and left out
    at = np.maximum(labels, 0)
    # signs are taken off once: a tape has none twice
    inner = np.where((labels >= 0) & (codes[at] == _NEGATIVE), first[at], labels)
    chosen = np.flatnonzero((inner >= 0) & (codes[np.maximum(inner, 0)] == _SELECT)).tolist()
    del codes, first  # a tape cannot grow while these look at it
    found = {k: guarded(tape, references[k]) for k in chosen}
    return {k: label for k, label in found.items() if isinstance(label, Guarded)}


def _open(label: int | Guarded) -> Guarded:
    return Guarded(label) if isinstance(label, int) else label


def product(tape: Tape, a: int | Guarded, b: int | Guarded) -> Guarded:
    """a · b; 0 wherever a factor is, whatever the other is there."""
    a, b = _open(a), _open(b)
    value = tape.multiply(a.value, b.value)
    if a.value < 0 or b.value < 0:
        return Guarded(value, a.on | b.on, a.nonzero | b.nonzero)
    on = a.on | b.on | a.nonzero | b.nonzero
    return Guarded(value, on if len(on) <= LARGEST_SET else frozenset((_all(tape, on),)))


def total(tape: Tape, a: int | Guarded, b: int | Guarded) -> Guarded:
    """a + b."""
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
    """The label as one reference."""
    if isinstance(label, int):
        return label
    return _select(tape, _all(tape, label.on), label.value, tape.constant(0.0)) if label.on else label.value


def _all(tape: Tape, conditions: frozenset[int]) -> int:
    first, *others = sorted(conditions)
    for condition in others:
        first = tape.logical_and(first, condition)
    return first


def _select(tape: Tape, condition: int, taken: int, other: int) -> int:
    if condition >= 0 and tape.codes[condition] == _NOT:
        return tape.select(tape.first[condition], other, taken)
    return tape.select(condition, taken, other)


def _is_zero(tape: Tape, reference: int) -> bool:
    """Return whether `reference` is the constant 0.0 or -0.0, which are two references."""
    return reference < 0 and tape.value_of(reference) == 0.0


# Emission ------------------------------------------------------------------------------------------------------------


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


# Cost ----------------------------------------------------------------------------------------------------------------


def count(accumulation: Accumulation, objective: str) -> int:
    """Cost of the accumulation under the objective of that name.

    Raises:
        UnknownNameError: if there is no such objective.
    """
    judged = Objective.of(objective)
    if judged.on_tape:
        return canonical(emit(accumulation)).operations
    return Labels(accumulation.graph, accumulation.steps, every_product=judged.every_product).cost
