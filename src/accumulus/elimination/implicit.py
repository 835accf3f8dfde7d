"""Second derivatives of operations, and derivatives of solutions of equations.

**Solutions.** The solutions of equations are recognised on a tape by their attached derivatives.

The solution x of r(p, x) = 0 is recorded as a value with the derivative of a Newton step, x + W·r(p, x), in which W and
this x are constants: `attach(x, W·r(p, fixed x))`. The step also determines the second derivatives. With λ = Wᵀ·x̄ they
are the second derivatives of the Lagrangian λ·r with respect to p and x, with λ constant, along x′ = W·∂r/∂p. They need
no derivatives of W, or of the solver that computed x.

W need not be formed. Any function g(p, x, w) with constant weights w will do if it is 0 at the solution for all w, and
its Jacobian with respect to x is −1 for the recorded w. For then g(p, x(p), w) with constant w is 0 for all p, and so
are its second derivatives.

A numerical test at a few points decides if an attached derivative is such a step: it must be 0, also with other w, and
its Jacobian with respect to the fixed x must be −1.

**Higher orders.** First derivatives of solutions are rewritten so that they can be differentiated again.

A solution is recorded as `attach(x, d)`, with the derivative of a Newton step d in which markers, `attach(…, 0)`, hold
this x and the inverse W constant. This is correct to first order only. First derivatives are expressions in x, W and
the parameters. To differentiate them again, each solution in them is written as `attach(x, d)`, and each marker is
replaced by the value that it marks, so that x and W have derivatives, too. The derivatives of the result are exact, no
matter which solver computed x. This can be repeated for any order.

If an equation contains the solution y of an inner equation, y depends on the outer solution x. In the outer equation x
is a marker, which is held constant; elsewhere x is a solution. So y is written in both ways.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.emit import emit
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.graph.linearize import linearize, partial_of
from accumulus.rewriting.canonical import canonical
from accumulus.tape.interpreter import Copy, copied, evaluate
from accumulus.tape.live import attached_values, depending, has_rules, needed
from accumulus.tape.partials import check_orders
from accumulus.tape.tape import Tape


@cache
def second_partial(code: int, first: int, second: int) -> Tape | None:
    """Return a tape with an operation's arguments as inputs and a second derivative as output; None if it is 0.

    Args:
        code: code of the operation.
        first: position of the first argument to differentiate with respect to.
        second: position of the second one; the operation has a derivative with respect to both.
    """
    template, label = partial_of(code, first)
    template = template.copy()
    template.outputs = [label]
    linearization = linearize(template, [second])
    if linearization.rows[0] < 0:
        return None
    graph = linearization.graph
    reverse = [v for v in reversed(graph.topological_order) if v in set(graph.intermediates)]
    made = emit(eliminate_vertices(graph, reverse))
    del made.outputs[0]
    return canonical(made)


def instantiated(tape: Tape, template: Tape, arguments: Sequence[int]) -> int:
    """Record a template on the tape with these arguments, and return the reference of its first output."""
    before = len(tape)
    output = copied(template, tape, arguments)[0]
    check_orders(tape, before)
    return output


# Solutions -----------------------------------------------------------------------------------------------------------


#: Number of random points for the test of steps, of points at which the values have to be finite, and relative
#: tolerance. More points take time and find more mistakes; a larger tolerance accepts wrong steps, a smaller one
#: refuses right ones.
_POINTS: Final = 4
_FINITE: Final = 2
_CLOSE: Final = 1e-7


def fixed_solutions(tape: Tape) -> dict[int, int] | None:
    """Return the steps as `newton_steps` does; also None if a residual is nonlinear in values computed from solutions.

    The graph of a gradient has vertices for solutions, but not for the values that residuals compute from them. So only
    the solutions themselves may be arguments of nonlinear operations in a residual. Nor has it vertices for rules
    (`accumulus.tape.live.Rules`), whose second derivatives need not be symmetric.
    """
    if has_rules(tape):
        return None
    solution_of, weights = _parted(tape) or (None, [])
    if solution_of is None or not _are_direct(tape, solution_of, set(weights)):
        return None
    return solution_of if not solution_of or _are_steps(tape, solution_of, weights) else None


def newton_steps(tape: Tape, points: NDArray[np.float64] | None = None) -> dict[int, int] | None:
    """Return the solution (the `attach`) for each copy of it that a Newton step holds constant, by reference.

    Return None if the outputs need a value with an attached derivative that is not a Newton step.

    Args:
        tape: tape with attached derivatives.
        points: points at which the steps are tested before random points, (points, inputs).
    """
    solution_of, weights = _parted(tape) or (None, [])
    if not solution_of:
        return solution_of
    return solution_of if _are_steps(tape, solution_of, weights, points, within=True) else None


def _parted(tape: Tape) -> tuple[dict[int, int], list[int]] | None:
    """Return the solution of each fixed copy, and the fixed weights, by reference; None if they do not correspond."""
    attached = attached_values(tape)
    if not attached:
        return {}, []
    constant = {k for k in attached if tape.second[k] < 0 and tape.value_of(tape.second[k]) == 0.0}
    solutions: list[int] = []
    while True:
        need = needed(tape, [*tape.outputs, *solutions], values=False)
        fixed = [k for k in attached if k in constant and need[k]]
        held = {tape.first[k] for k in fixed}
        # a step may hold solutions constant that the outputs do not need
        count = len(solutions)
        solutions = [k for k in attached if k not in constant and (need[k] or tape.first[k] in held)]
        if len(solutions) == count:
            break
    by_value = {tape.first[x]: x for x in solutions}
    solution_of = {k: by_value[tape.first[k]] for k in fixed if tape.first[k] in by_value}
    if len(solution_of) != len(solutions) or len(by_value) != len(solutions):
        return None
    return solution_of, [k for k in fixed if k not in solution_of]


def _are_direct(tape: Tape, solution_of: dict[int, int], weights: set[int]) -> bool:
    """Return True if nonlinear operations depend on fixed solutions only directly, as their arguments."""
    depends, varies = bytearray(len(tape)), bytearray(b"\1" * tape.inputs) + bytearray(len(tape) - tape.inputs)
    attached = set(attached_values(tape))
    for k in range(tape.inputs, len(tape)):
        arguments = tape.arguments(k)
        if k in attached:
            depends[k], varies[k] = k in solution_of, k not in weights
            continue
        depends[k] = any(a >= 0 and depends[a] for a in arguments)
        varies[k] = any(a >= 0 and varies[a] for a in arguments)
        indirect = [p for p, a in enumerate(arguments) if a >= 0 and depends[a] and a not in solution_of]
        partials = tape.operation(k).partials
        smooth = [p for p, a in enumerate(arguments) if a >= 0 and varies[a] and partials[p] is not None]
        for p, q in combinations_with_replacement(smooth, 2):
            if (p in indirect or q in indirect) and second_partial(tape.codes[k], p, q) is not None:
                return False
    return True


def _are_steps(
    tape: Tape,
    solution_of: dict[int, int],
    weights: Sequence[int],
    points: NDArray[np.float64] | None = None,
    *,
    within: bool = False,
) -> bool:
    """Return True if the values attached to the solutions are Newton steps.

    Args:
        tape: tape with attached derivatives.
        solution_of: solution for each copy that is held constant, by reference.
        weights: references of the inverses' entries.
        points: points at which the steps are tested before random points, (points, inputs).
        within: if True, equations may contain solutions of inner equations, which depend on the outer fixed values.
    """
    solutions, fixed = sorted(solution_of.values()), list(solution_of)
    steps = _steps(tape, solutions, fixed, weights, within=within)
    values = tape.copy()
    values.outputs = [tape.first[k] for k in (*solutions, *fixed, *weights)]
    first = tape.inputs + len(solutions)
    derivatives = linearize(steps, range(first, first + len(fixed)))
    accumulation = eliminate_vertices(derivatives.graph, derivatives.graph.intermediates)
    slopes, (places, _) = emit(accumulation), accumulation.ordered_entries()
    expected = np.array([[-float(tape.first[x] == tape.first[f]) for f in fixed] for x in solutions])
    counts = ~_nested(tape, solutions, [solution_of[f] for f in fixed]) if within else np.ones(expected.shape, bool)
    rng = np.random.default_rng(0)
    finite = 0
    for point in [*([] if points is None else points), *rng.uniform(0.5, 1.5, (_POINTS, tape.inputs))]:
        with np.errstate(all="ignore"):
            at = np.array([*point, *evaluate(values, point.tolist())])
            size = 1.0 + np.abs(at[tape.inputs :]).max(initial=0.0)
            if not math.isfinite(size):
                continue
            results = np.array(evaluate(slopes, at.tolist()))
            jacobian = np.zeros((len(derivatives.graph.roots), len(fixed)))
            jacobian[places[:, 0], places[:, 1]] = results[len(solutions) :]
            rows = np.array([jacobian[r] if r >= 0 else np.zeros(len(fixed)) for r in derivatives.rows])
            wrong = np.where(counts, rows - expected, 0.0)
            moved = at.copy()  # with random weights
            moved[len(at) - len(weights) :] = rng.uniform(-1.0, 1.0, len(weights))
            perturbed = np.array(evaluate(steps, moved.tolist()))
            errors = [results[: len(solutions)] / size**2, wrong, perturbed / size**2]
        error = max(float(np.abs(each).max(initial=0.0)) for each in errors)
        if math.isfinite(error):
            finite += 1
            if error > _CLOSE:
                return False
    return finite >= _FINITE


def _nested(tape: Tape, solutions: Sequence[int], counterparts: Sequence[int]) -> NDArray[np.bool_]:
    """Return True for each pair if one solution occurs in the equations of the other, (solutions, counterparts)."""
    uses = {x: np.frombuffer(needed(tape, [x]), bool) for x in solutions}
    nested = [[x != y and bool(uses[x][y] or uses[y][x]) for y in counterparts] for x in solutions]
    return np.array(nested, bool).reshape(len(solutions), len(counterparts))


def _steps(tape: Tape, solutions: Sequence[int], fixed: Sequence[int], weights: Sequence[int], *, within: bool) -> Tape:
    """Return a tape of the attached values, with further inputs for the solutions, the fixed copies and the weights.

    Args:
        tape: tape with attached derivatives.
        solutions: references of the solutions.
        fixed: references of their copies that are held constant.
        weights: references of the inverses' entries.
        within: if True, solutions have the derivatives of their steps; else they are plain inputs.
    """
    input_of = {k: tape.inputs + offset for offset, k in enumerate((*solutions, *fixed, *weights))}
    steps = Tape(tape.inputs + len(input_of))
    copy = Copy(tape, steps, {k: k for k in range(tape.inputs)})
    with_derivatives, attached = set(solutions) if within else set(), set(attached_values(tape))
    for k in range(tape.inputs, len(tape)):
        if k in with_derivatives:
            copy.values[k] = steps.apply("attach", input_of[k], copy[tape.second[k]])
        elif k in input_of:
            copy.values[k] = input_of[k]
        elif k in attached:  # the steps do not need it
            copy.values[k] = copy[tape.first[k]]
        else:
            copy.record(k)
    steps.outputs = [copy[tape.second[x]] for x in solutions]
    return steps


# Higher orders -------------------------------------------------------------------------------------------------------


#: Solutions that are held constant in a written value.
Constants = frozenset[int]


def with_steps(tape: Tape, steps: dict[int, int], emitted: Tape, places: Sequence[int]) -> Tape | None:
    """Return the emitted derivatives as a tape that can be differentiated again.

    Args:
        tape: tape with attached derivatives.
        steps: solution for each copy that is held constant, by reference, as `newton_steps` returns them.
        emitted: tape that was emitted for the derivatives.
        places: references of these solutions on the emitted tape, in the order of `steps`.

    Returns:
        A copy of `tape` with the emitted operations and outputs, in which the solutions have derivatives. None if two
        solutions coincide on the emitted tape, or one is an input or constant.
    """
    if min(places) < emitted.inputs or len(set(places)) < len(places):
        return None
    writer = _Writer(tape, steps)
    solutions = {position: writer.write(x) for position, x in zip(places, steps.values(), strict=True)}
    result = writer.result
    result.outputs = copied(emitted, result, range(emitted.inputs), replaced=solutions)
    return result


class _Writer:
    """Writer of values onto a copy of their tape; it replaces markers by the values that they mark."""

    def __init__(self, tape: Tape, steps: dict[int, int]) -> None:
        self._tape, self._steps, self.result = tape, steps, tape.copy()
        self._markers = {k for k in attached_values(tape) if tape.second[k] < 0}
        self._solutions = set(steps.values())
        self._uses = {x: np.frombuffer(needed(tape, [x]), bool) for x in self._solutions}
        #: True if values depend on a marker; other values are copied.
        self._marked = depending(tape, self._markers)
        self._systems: dict[int, Constants] = {}
        self._around: dict[int, Constants] = {}
        self._written: dict[tuple[int, Constants], int] = {}

    def write(self, value: int, constants: Constants = frozenset()) -> int:
        """Write a value in which some solutions are held constant, and return its reference."""
        written, waiting = self._written, [(value, constants)]
        while waiting:
            at = waiting[-1]
            missing = [one for one in self._operands(*at) if one[0] >= 0 and one not in written]
            if at not in written and not missing:
                written[at] = self._apply(*at)
            if not missing:
                waiting.pop()
            waiting += missing
        return written[value, constants]

    def _operands(self, k: int, constants: Constants) -> list[tuple[int, Constants]]:
        """Return the operands of a written value, each with the solutions that are held constant in it."""
        tape = self._tape
        if k < tape.inputs or not self._marked[k]:
            return []
        if k in self._solutions:
            return [self._computed(k, constants), (tape.second[k], constants | self._system(k))]
        if k in self._markers:
            is_constant = self._steps[k] in constants if k in self._steps else bool(constants)
            if k in self._steps:
                return [self._computed(k, constants) if is_constant else (self._steps[k], constants)]
            return [(tape.first[k], constants)]
        return [(a, constants) for a in tape.arguments(k)]

    def _computed(self, k: int, constants: Constants) -> tuple[int, Constants]:
        """Return the computed value of a solution, and the constant solutions on whose fixed copies it depends."""
        x = self._tape.first[k]
        if x not in self._around:
            need = needed(self._tape, [x])
            self._around[x] = frozenset(solution for marker, solution in self._steps.items() if need[marker])
        return x, constants & self._around[x]

    def _apply(self, k: int, constants: Constants) -> int:
        """Write a value whose operands are written, and return its reference."""
        tape, result = self._tape, self.result
        if k < tape.inputs or not self._marked[k]:
            return k
        operands = [self._written[one] if one[0] >= 0 else one[0] for one in self._operands(k, constants)]
        if k not in self._markers:
            return int(result.apply_code(tape.codes[k], operands))
        is_constant = self._steps[k] in constants if k in self._steps else bool(constants)
        return int(result.apply("attach", operands[0], result.constant(0.0))) if is_constant else operands[0]

    def _system(self, solution: int) -> Constants:
        """Return the solutions of the same system of equations, which are held constant in this solution's step."""
        if solution not in self._systems:
            tape, system, seen = self._tape, {solution}, set()
            waiting = [tape.second[solution]]
            while waiting:
                k = waiting.pop()
                if k < tape.inputs or k in seen or not self._marked[k]:
                    continue
                seen.add(k)
                if k in self._steps:
                    other = self._steps[k]
                    if not self._uses[other][solution]:  # else `other` is the solution of an outer equation
                        system.add(other)
                elif k not in self._markers and k not in self._solutions:
                    waiting += tape.arguments(k)
            self._systems[solution] = frozenset(system)
        return self._systems[solution]
