"""Passes over tapes as loops in Python, one builder's call after the other: what compiled ones are held against."""

from __future__ import annotations

import math
from collections import defaultdict

from inside import BY_NAME

from accumulus import Accumulation, Tape
from accumulus.rewriting.canonical import _power
from accumulus.tape.live import as_written
from accumulus.tape.partials import partial

ATTACH, POWER, DIVIDE = (BY_NAME[name].code for name in ("attach", "power", "divide"))


def needed(tape: Tape, outputs=None) -> set[int]:
    """Operations that outputs depend on."""
    results = set()
    pending = [*(tape.outputs if outputs is None else outputs)]
    while pending:
        reference = pending.pop()
        if reference >= tape.inputs and reference not in results:
            results.add(reference)
            pending += tape.arguments(reference)
    return results


def unattached(tape: Tape) -> Tape:
    """``attach(x, d)`` is x."""
    result, moved = tape.emptied(), list(range(tape.inputs))
    for r in range(tape.inputs, len(tape)):
        new = [moved[a] if a >= 0 else a for a in tape.arguments(r)]
        moved.append(new[0] if tape.codes[r] == ATTACH else result.apply_code(tape.codes[r], new))
    result.outputs = [moved[output] if output >= 0 else output for output in tape.outputs]
    return result


def canonical(tape: Tape, kept_outputs: int = 0) -> Tape:
    """`accumulus.rewriting.canonical.canonical`."""
    live, protected = sorted(needed(tape)), as_written(tape, kept_outputs)
    ones = [r for r in live if tape.codes[r] == DIVIDE and tape.name(tape.first[r]) == "1.0"]
    inverted = {tape.second[r] for r in ones}
    exponents = defaultdict(set)
    for r in live:
        if tape.codes[r] == POWER and tape.second[r] < 0 and not protected[r]:
            exponents[tape.first[r]].add(tape.value_of(tape.second[r]))
    result, rewritten, moved = tape.emptied(), False, dict(zip(range(tape.inputs), range(tape.inputs), strict=True))
    for r in live:
        code, arguments = tape.codes[r], tape.arguments(r)
        new = [moved[a] if a >= 0 else a for a in arguments]
        if code == ATTACH:
            moved[r] = new[0]
        elif protected[r]:
            moved[r] = result.apply_code(code, new)
            continue
        elif code == DIVIDE:
            moved[r] = quotient(result, *new, arguments[1] in inverted)
        elif code == POWER and arguments[1] < 0:
            exponent, together = tape.value_of(arguments[1]), exponents[arguments[0]]
            lower = exponent - 1 if exponent > 0 else exponent + 1
            moved[r] = _power(result, new[0], exponent, lower in together - {exponent})
        else:
            moved[r] = result.apply_code(code, new)
            continue
        rewritten = rewritten or moved[r] < 0 or result.codes[moved[r]] != code
    result.outputs = [moved[output] if output >= 0 else output for output in tape.outputs]
    return canonical(result, kept_outputs) if rewritten or len(needed(result)) < result.operations else result


def quotient(tape: Tape, a: int, b: int, shared: bool) -> int:
    """a / b, by the reciprocal of a number, or of what has one anyway."""
    one = tape.constant(1.0)
    if b < 0:
        reciprocal = 1.0 / tape.value_of(b) if tape.value_of(b) else math.inf
        if math.isfinite(reciprocal) and abs(reciprocal) > 1e-300:
            return tape.multiply(a, tape.constant(reciprocal))
        return tape.divide(a, b)
    return tape.multiply(a, tape.divide(one, b)) if shared else tape.divide(a, b)


def local_partials(tape: Tape, columns) -> tuple[Tape, dict[int, dict[int, int]]]:
    """The tape with partial derivatives; for each operation that depends on the columns, label by argument."""
    result, live = tape.copy(), needed(tape)
    labels_of: dict[int, dict[int, int]] = {column: {} for column in columns}
    for reference in sorted(live):
        labels: dict[int, int] = {}
        for position, argument in enumerate(tape.arguments(reference)):
            label = partial(result, reference, position) if argument in labels_of else None
            if label is not None:
                labels[argument] = result.add(labels[argument], label) if argument in labels else label
        labels = {a: label for a, label in labels.items() if label >= 0 or result.value_of(label) != 0.0}
        if labels:
            labels_of[reference] = labels
    return result, labels_of


def emit(accumulation: Accumulation) -> Tape:
    """`accumulus.elimination.emit.emit`, without conditions."""
    graph = accumulation.graph
    assert graph.tape is not None
    tape, labels = graph.tape.copy(), list(graph.labels)
    for is_product, left, right in accumulation.steps:
        labels.append((tape.multiply if is_product else tape.add)(labels[left], labels[right]))
    tape.outputs.extend(labels[reference] for _, reference in sorted(accumulation.entries.items()))
    return tape
