"""Values that solve equations, found on a tape by what is attached to them.

The solution x of r(p, x) = 0 is recorded as a value with the derivative of a Newton step, x + W·r(p, x), in which W and
this x are constants: `attach(x, W·r(p, fixed x))`. That says all of second derivatives, too. With λ = Wᵀ·x̄ those of the
whole are those of the Lagrangian λ·r as a function of p and x, with λ constant, taken along x′ = W·∂r/∂p: no
derivative of W, or of whatever has computed x, is needed.

Whether the derivative that is attached is such a step is found out in numbers, at some points: it has to be 0, its
Jacobian by the fixed x has to be −1, and it has to be linear in W.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.emit import emit
from accumulus.elimination.second_partials import second_partial
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.graph.linearize import linearize
from accumulus.tape.evaluate import evaluate
from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import Tape

__all__ = ["fixed_solutions"]

_ATTACH: Final = BY_NAME["attach"].code
#: Points at which steps are examined, of which so many have to have finite values.
_POINTS: Final = 4
_FINITE: Final = 2
_CLOSE: Final = 1e-7


def fixed_solutions(tape: Tape) -> dict[int, int] | None:
    """For each solution that is held constant in a Newton step, by reference, the solution itself: the `attach`.

    None if a value that the outputs need is attached to a derivative that is no Newton step.
    """
    attached = [k for k in range(tape.inputs, len(tape)) if tape.codes[k] == _ATTACH]
    if not attached:
        return {}
    constant = {k for k in attached if tape.second[k] < 0 and tape.value_of(tape.second[k]) == 0.0}
    solutions: list[int] = []
    while True:
        need = needed(tape, [*tape.outputs, *solutions])
        fixed = [k for k in attached if k in constant and need[k]]
        held = {tape.first[k] for k in fixed}
        # a step that is needed may hold solutions constant that are not needed themselves
        known = len(solutions)
        solutions = [k for k in attached if k not in constant and (need[k] or tape.first[k] in held)]
        if len(solutions) == known:
            break
    by_value = {tape.first[x]: x for x in solutions}
    found = {k: by_value[tape.first[k]] for k in fixed if tape.first[k] in by_value}
    if len(found) != len(solutions) or len(by_value) != len(solutions):
        return None
    weights = [k for k in fixed if k not in found]
    right = _are_direct(tape, found, set(weights)) and _are_steps(tape, solutions, list(found), weights)
    return found if right else None


def _are_direct(tape: Tape, found: dict[int, int], weights: set[int]) -> bool:
    """Whether operations that are not linear take fixed solutions themselves, and nothing else that depends on them."""
    depends, varies = bytearray(len(tape)), bytearray(b"\1" * tape.inputs) + bytearray(len(tape) - tape.inputs)
    for k in range(tape.inputs, len(tape)):
        arguments = tape.arguments(k)
        if tape.codes[k] == _ATTACH:
            depends[k], varies[k] = k in found, k not in weights
            continue
        depends[k] = any(a >= 0 and depends[a] for a in arguments)
        varies[k] = any(a >= 0 and varies[a] for a in arguments)
        indirect = [p for p, a in enumerate(arguments) if a >= 0 and depends[a] and a not in found]
        partials = tape.operation(k).partials
        smooth = [p for p, a in enumerate(arguments) if a >= 0 and varies[a] and partials[p] is not None]
        for p, q in combinations_with_replacement(smooth, 2):
            if (p in indirect or q in indirect) and second_partial(tape.codes[k], p, q) is not None:
                return False
    return True


def _are_steps(tape: Tape, solutions: Sequence[int], fixed: Sequence[int], weights: Sequence[int]) -> bool:
    """Whether what is attached to the solutions are Newton steps."""
    steps = _steps(tape, solutions, fixed, weights)
    values = tape.copy()
    values.outputs = [tape.first[k] for k in (*solutions, *fixed, *weights)]
    first = tape.inputs + len(solutions)
    found = linearize(steps, range(first, first + len(fixed)))
    graph = found.graph
    slopes = emit(eliminate_vertices(graph, graph.intermediates))
    places, _ = eliminate_vertices(graph, graph.intermediates).ordered_entries()
    expected = np.array([[-float(tape.first[x] == tape.first[f]) for f in fixed] for x in solutions])
    rng = np.random.default_rng(0)
    finite = 0
    for _ in range(_POINTS):
        point = rng.uniform(0.5, 1.5, tape.inputs)
        with np.errstate(all="ignore"):
            at = np.array([*point, *evaluate(values, point.tolist())])
            size = 1.0 + np.abs(at[tape.inputs :]).max(initial=0.0)
            if not math.isfinite(size):
                continue
            results = np.array(evaluate(slopes, at.tolist()))
            jacobian = np.zeros((len(graph.roots), len(fixed)))
            jacobian[places[:, 0], places[:, 1]] = results[len(solutions) :]
            rows = np.array([jacobian[r] if r >= 0 else np.zeros(len(fixed)) for r in found.rows])
            errors = [results[: len(solutions)] / size**2, rows - expected, _bend(steps, at, len(weights), rng) / size]
        error = max(float(np.abs(each).max(initial=0.0)) for each in errors)
        if math.isfinite(error):
            finite += 1
            if error > _CLOSE:
                return False
    return finite >= _FINITE


def _bend(steps: Tape, at: NDArray[np.float64], weights: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """By how much steps are not linear in the weights, beside solutions that are none."""
    moved = at.copy()
    moved[len(at) - weights :] = 0.0
    moved[steps.inputs - weights - 1 :: -1] *= 1.0 + 0.1 * rng.random(steps.inputs - weights)
    one, other = rng.standard_normal((2, weights))
    sums = []
    for chosen in (one, other, one + other):
        moved[len(at) - weights :] = chosen
        sums.append(np.array(evaluate(steps, moved.tolist())))
    bend: NDArray[np.float64] = sums[2] - sums[0] - sums[1]
    return bend


def _steps(tape: Tape, solutions: Sequence[int], fixed: Sequence[int], weights: Sequence[int]) -> Tape:
    """What is attached to the solutions, on a tape with inputs for these, for fixed ones, and for the weights."""
    given = {k: tape.inputs + place for place, k in enumerate((*solutions, *fixed, *weights))}
    steps = Tape(tape.inputs + len(given))
    values = list(range(tape.inputs))

    def reference(k: int) -> int:
        return steps.constant(tape.value_of(k)) if k < 0 else values[k]

    for k in range(tape.inputs, len(tape)):
        if k in given:
            values.append(given[k])
        elif tape.codes[k] == _ATTACH:  # nobody needs it
            values.append(reference(tape.first[k]))
        else:
            values.append(steps.apply_code(tape.codes[k], [reference(a) for a in tape.arguments(k)]))
    steps.outputs = [reference(tape.second[x]) for x in solutions]
    return steps
