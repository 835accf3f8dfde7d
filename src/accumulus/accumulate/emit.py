"""From an accumulation to a tape: products and sums of labels become operations, hash-consed with all that is there.

A graph of a traced function emits onto a copy of the function's tape, so values, partials and Jacobian share. A
graph without a tape (from a file) gets one whose inputs are its labels that are not known numbers.

Derivatives of a branch that a select switches off are 0 even where they are infinite or NaN, in every order of
elimination. Gap: a sum of branches under different conditions, and an argument that minimum or maximum leaves out,
are multiplied by what they come from, and are NaN there in some orders, as they are in JAX in all.
"""

from __future__ import annotations

from typing import Final

from accumulus.accumulate.accumulation import Accumulation
from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

__all__ = ["emit", "label_tape"]

_SELECT: Final = BY_NAME["select"].code
_NEGATIVE: Final = BY_NAME["negative"].code


def emit(accumulation: Accumulation) -> Tape:
    """Tape whose outputs are the outputs of the function, then the entries of the Jacobian in row-major order."""
    graph = accumulation.graph
    if graph.tape is not None:
        tape, references = graph.tape.copy(), list(graph.labels)
    else:
        tape, references = label_tape(graph)
    for is_product, left, right in accumulation.steps:
        a, b = references[left], references[right]
        references.append(_product(tape, a, b) if is_product else _sum(tape, a, b))
    tape.outputs.extend(references[reference] for _, reference in sorted(accumulation.entries.items()))
    return tape


def label_tape(graph: DifferentiationGraph) -> tuple[Tape, list[int]]:
    """A tape with one input for each label of unknown value, and the reference of each edge's label."""
    unknown = [e for e, kind in enumerate(graph.kinds.tolist()) if kind >= Kind.CONSTANT and e not in graph.constants]
    tape = Tape(len(unknown))
    position = {e: k for k, e in enumerate(unknown)}
    return tape, [position[e] if e in position else tape.constant(graph.constants[e]) for e in range(len(graph.kinds))]


def _product(tape: Tape, a: int, b: int) -> int:
    """a · b, where a branch that a select switches off stays off: 0 · ∞ from a branch not taken is 0, not NaN."""
    for label, factor in ((a, b), (b, a)):
        if label >= 0 and tape.codes[label] == _NEGATIVE:
            return tape.negative(_product(tape, tape.first[label], factor))
        if _switches_off(tape, label):
            condition, taken, other = tape.arguments(label)
            return _select(tape, condition, _product(tape, taken, factor), _product(tape, other, factor))
    return tape.multiply(a, b)


def _sum(tape: Tape, a: int, b: int) -> int:
    """a + b; what one condition switches off in both stays switched off."""
    if _switches_off(tape, a) and _switches_off(tape, b):
        condition, taken, other = tape.arguments(a)
        if condition == tape.first[b]:
            _, taken_b, other_b = tape.arguments(b)
            return _select(tape, condition, _sum(tape, taken, taken_b), _sum(tape, other, other_b))
    return tape.add(a, b)


def _select(tape: Tape, condition: int, taken: int, other: int) -> int:
    """A select; nested ones that leave one value and zeros become one, so that depth does not grow."""
    for branch, rest, negated in ((taken, other, False), (other, taken, True)):
        if _is_zero(tape, rest) and _switches_off(tape, branch):
            inner, value, off = tape.arguments(branch)
            if not _is_zero(tape, off):
                inner, value = tape.apply("logical_not", inner), off
            outer = tape.apply("logical_not", condition) if negated else condition
            return tape.select(tape.apply("logical_and", outer, inner), value, tape.constant(0.0))
    return tape.select(condition, taken, other)


def _switches_off(tape: Tape, reference: int) -> bool:
    """Whether `reference` is a select between a value and zero."""
    if reference < 0 or tape.codes[reference] != _SELECT:
        return False
    return any(_is_zero(tape, branch) for branch in tape.arguments(reference)[1:])


def _is_zero(tape: Tape, reference: int) -> bool:
    """Whether `reference` is the constant 0.0 or -0.0, which are two references."""
    return reference < 0 and tape.value_of(reference) == 0.0
