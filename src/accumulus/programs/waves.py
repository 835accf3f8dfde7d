"""Sums of waves whose strengths add up to a jump.

An upwind flux has a sum of waves, C + f₁ A₁ + f₂ A₂ + …, each with the absolute value f of its speed and a strength A
in each equation. If the strengths add up to a short value S, the sum is

    C + f₁ S + (f₂ - f₁) A₂ + (f₃ - f₁) A₃ + …,

and one strength need not be computed. By the property of Roe's averages, S is the jump of the conserved variables (P.
L. Roe, *Approximate Riemann solvers, parameter vectors, and difference schemes*, J. Comput. Phys. 43, 1981, equation
(5)). S is found numerically, as a multiple of the sum or difference of two values, near given points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.elimination.emit import emit
from accumulus.graph.linearize import linearize
from accumulus.rewriting.canonical import canonical
from accumulus.search.find import find_plan
from accumulus.tape.interpreter import Copy, copied, outputs_at
from accumulus.tape.live import depending, needed
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import SELECT, Tape

#: Operations whose results may be speeds: absolute values, and those with an entropy fix.
SPEEDS: Final = frozenset((BY_NAME["abs"].code, SELECT))
#: Operations with cases that no point near the given one may show.
CASES: Final = frozenset(
    row.code
    for row in OPERATIONS
    if row.jumps or row.result == "boolean" or row.name in ("select", "minimum", "maximum", "abs", "sign")
)
#: Largest number of speeds, and of values whose sums and differences are compared with a sum of strengths. Larger ones
#: take time in proportion, and to the square; smaller ones miss waves.
MOST_SPEEDS: Final = 8
MOST_VALUES: Final = 128
#: Largest number of operations of such a value, written out: strengths themselves have more.
SIMPLE: Final = 8
#: Number of random points near the given one, and their relative distance. More take time, fewer find equal values by
#: chance, which the verification refuses; points further away may lie outside of the domain.
POINTS: Final = 12
ASIDE: Final = 0.05
#: Relative difference up to which values are equal; and least unit of a factor between them.
EQUAL: Final = 1e-9
UNIT: Final = 1 / 64

Reals = NDArray[np.float64]


class _Waves(NamedTuple):
    """The outputs of a program as sums of waves."""

    speeds: list[int]  # references of the speeds in the program
    strengths: Tape  # the outputs, then the strengths; its last inputs are the speeds
    of: dict[tuple[int, int], int]  # references of strengths there, by the numbers of output and speed


def with_sums_of_waves(tape: Tape, results: int, context: Context, points: Reals | None) -> Tape | None:
    """Return the program with a strength of its waves less; None if it has no waves whose strengths have a short sum.

    Args:
        tape: program.
        results: number of leading outputs that are differentiated; the others, guards, have no waves.
        context: options and deadline.
        points: points of the domain, (points, inputs); None for points near (1, …, 1).
    """
    differentiated = tape.copy()
    del differentiated.outputs[results:]
    waves = _waves(differentiated, context)
    if waves is None:
        return None
    made = [_with_sums(tape, waves, first, points) for first in range(len(waves.speeds))]
    return min((each for each in made if each is not None), key=lambda each: each.operations, default=None)


def _waves(tape: Tape, context: Context) -> _Waves | None:
    """Return the waves of a program; None if no output is a sum of several."""
    if sum(map(tape.codes.count, SPEEDS)) < 2:  # the usual case
        return None
    is_needed, is_truth = needed(tape), [tape.is_boolean(k) for k in range(len(tape))]
    for k in range(tape.inputs, len(tape)):
        if tape.codes[k] == SELECT:
            is_truth[k] = any(a >= 0 and is_truth[a] for a in tape.arguments(k)[1:])
    numbers = (k for k in range(tape.inputs, len(tape)) if is_needed[k] and not is_truth[k])
    speeds = [k for k in numbers if tape.codes[k] in SPEEDS]
    if not 1 < len(speeds) <= MOST_SPEEDS:
        return None
    inputs = tape.inputs
    apart = Tape(inputs + len(speeds))
    replaced = {speed: inputs + k for k, speed in enumerate(speeds)}
    apart.outputs = copied(tape, apart, range(inputs), replaced=replaced)
    linearization = linearize(apart, range(inputs, apart.inputs))
    quick = context.having(method="markowitz", effort="fast", executor=None)
    plan = find_plan(linearization.graph, quick, keep_best=False)
    strengths = emit(plan.accumulation)
    entries = sorted(plan.accumulation.entries)
    places = strengths.outputs[len(tape.outputs) :]
    # products of speeds are no sums of waves; and by cases, sums of strengths may be others than near the given point
    by_speeds = depending(strengths, range(inputs, inputs + len(speeds)))
    if any(place >= 0 and by_speeds[place] for place in places):
        return None
    is_needed = needed(strengths, places)
    if any(is_needed[k] and strengths.codes[k] in CASES for k in range(strengths.inputs, len(strengths))):
        return None
    of = {
        (row, terminal): place
        for (root, terminal), place in zip(entries, places, strict=True)
        for row, its_root in enumerate(linearization.rows)
        if its_root == root
    }
    return _Waves(speeds, strengths, of)


def _with_sums(tape: Tape, waves: _Waves, first: int, points: Reals | None) -> Tape | None:
    """Return the program with the sum of all strengths as that of one speed; None if no such sum is short."""
    inputs, speeds = tape.inputs, range(len(waves.speeds))
    made = Tape(inputs)
    made.folding = waves.strengths.folding
    plain = Copy(tape, made, {k: k for k in range(inputs)})
    for reference in range(inputs, len(tape)):
        plain.record(reference)
    at = [plain[speed] for speed in waves.speeds]
    # strengths do not depend on speeds; without speeds, the outputs are what the waves are added to
    still = Copy(waves.strengths, made, dict(enumerate([*range(inputs), *[made.constant(0.0)] * len(at)])))
    for reference in range(waves.strengths.inputs, len(waves.strengths)):
        still.record(reference)
    simple = _simple(made)
    draw = np.random.default_rng(0)
    near = np.ones(inputs) if points is None or not len(points) else points[0]
    near = near * (1.0 + ASIDE * draw.normal(size=(POINTS, inputs)))
    found = False
    for row, output in enumerate(tape.outputs):
        of_row = [still[waves.of[row, k]] if (row, k) in waves.of else None for k in speeds]
        present = [strength for strength in of_row if strength is not None]
        total = made.sum(present)
        others = [value for value in simple if value not in present]
        short = _short(made, total, others, near) if len(present) > 1 else None
        if short is None:
            made.outputs.append(plain[output])
            continue
        found = True
        terms = [still[waves.strengths.outputs[row]], made.multiply(at[first], short)]
        for speed, strength in zip(at, of_row, strict=True):
            if strength is not None and speed != at[first]:
                terms.append(made.multiply(made.subtract(speed, at[first]), strength))
        made.outputs.append(made.sum(terms))
    return canonical(made) if found else None


def _simple(tape: Tape) -> list[int]:
    """Return inputs and numbers of few operations, without cases."""
    sizes = [1] * tape.inputs
    for k in range(tape.inputs, len(tape)):
        sizes.append(1 + sum(sizes[a] for a in tape.arguments(k) if a >= 0))
    is_number = [not tape.is_boolean(k) and tape.codes[k] != SELECT for k in range(len(tape))]
    return [k for k, size in enumerate(sizes) if size <= SIMPLE and is_number[k]][:MOST_VALUES]


def _short(tape: Tape, value: int, simple: Sequence[int], near: Reals) -> int | None:
    """Return a multiple of the sum or difference of two simple values, recorded on the tape, that equals a value.

    A sum with itself is twice a simple value.
    """
    run = tape.copy()
    run.outputs = [*simple, value]
    found = outputs_at(run, near)
    values, wanted = found[:-1], found[-1]
    for way, sign in (("subtract", -1.0), ("add", 1.0)):
        pairs = values[:, np.newaxis] + sign * values
        with np.errstate(all="ignore"):
            factors = wanted / pairs
            factor = np.round(factors[:, :, 0] / UNIT) * UNIT
            is_equal = (np.abs(factors - factor[:, :, np.newaxis]) <= EQUAL * np.abs(factors)).all(axis=2)
        for one, other in np.argwhere(is_equal & (factor != 0.0)).tolist():
            return tape.multiply(tape.constant(float(factor[one, other])), tape.apply(way, simple[one], simple[other]))
    return None
