"""Recordings of derivatives, to be differentiated again or to become part of another recording."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.context import Context
from accumulus.elimination.emit import emit
from accumulus.elimination.gradient_graph import linearize_gradient
from accumulus.elimination.implicit import newton_steps, with_steps
from accumulus.errors import ArgumentError, SizeError
from accumulus.frontends.decisions import holds_of
from accumulus.frontends.kinds import Spread
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import Leaf, together
from accumulus.graph.linearize import Linearization, linearize
from accumulus.options import Options
from accumulus.programs.derivation import differentiated
from accumulus.programs.graphs import counts_of, inputs_of, linearized, plan_of
from accumulus.programs.kinds import DerivativeKind
from accumulus.programs.preparation import Preparation
from accumulus.programs.results import Results
from accumulus.programs.selection import Selection
from accumulus.programs.sparse import Nonzeros
from accumulus.rewriting.canonical import canonical
from accumulus.search.find import find_plan
from accumulus.tape.columns import references_in
from accumulus.tape.interpreter import copied, evaluate, outputs_at
from accumulus.tape.live import (
    attached_values,
    depending,
    has_rules,
    lasting,
    needed,
    of_all_orders,
    unattached,
    within_rules,
)
from accumulus.tape.operations import BY_NAME
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape

_ATTACH: Final = BY_NAME["attach"].code
#: Relative tolerance for the equality of derivatives: a larger one accepts derivatives that differ, a smaller one
#: refuses equal ones that rounding separates.
_CLOSE: Final = 1e-6
#: Relative distance of the points next to constants at which a derivative may be undefined. A larger one may leave the
#: piece of the function next to the constant, a smaller one may vanish in rounding.
_BESIDE: Final = 1e-3


def derived(
    recording: Recording,
    kind: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
    points: NDArray[np.float64] | None = None,
    constants: Mapping[int, float] | None = None,
    *,
    in_loops: bool = False,
    by_products: bool = False,
) -> Recording:
    """Return a recording of derivatives of a kind, with the same arguments.

    Loops stay loops; where that takes too much memory, or attached derivatives prevent it, they are written out.

    Args:
        recording: recording of a function.
        kind: kind of the derivatives.
        selection: differentiated arguments, and the selected entries.
        preparation: name, options, deadline and stages.
        points: points where the recording holds, (points, inputs); attached derivatives are compared there with those
            of the operations.
        constants: inputs with fixed values; products that are zero for them are not planned.
        in_loops: if True, loops are not written out.
        by_products: as for `accumulus.arrays.jacobian.differentiate`.

    Raises:
        ArgumentError: if the recording has attached derivatives other than those of its operations, which cannot be
            differentiated further.
        SizeError: for loops that would have to be written out, if `in_loops`.
    """
    if kind.first is not None:
        recording = derived(recording, kind.first, selection.whole, preparation, points, in_loops=in_loops)
    else:
        check_number(recording, kind, preparation.name)
    if not recording.program.is_straight:
        with nullcontext() if in_loops else suppress(SizeError):
            return _between_equations(recording, kind, selection, preparation, by_products)
    return _of_body(recording.written_out(), kind, selection, preparation, points, constants)


def _of_body(
    recording: Recording,
    kind: DerivativeKind,
    selection: Selection,
    preparation: Preparation,
    points: NDArray[np.float64] | None,
    constants: Mapping[int, float] | None,
) -> Recording:
    """Return the recording of derivatives of straight-line code; arguments as for `derived`."""
    name = preparation.name
    with preparation.stage("linearize"):
        recording = recording.computing(of_all_orders(recording.tape))
        steps = newton_steps(recording.tape, points)
        follows_rules = recording.follows_rules or has_rules(recording.tape)
        keeping = (steps is not None or follows_rules) and bool(lasting(recording.tape).any())
        if kind.derivatives and steps is None:
            steps = checked_attached(recording, inputs_of(recording, selection.positions), name, points)
        extended = recording.tape.copy()
        extended.outputs = [*extended.outputs, *(steps or {})]
        linearization = linearized(recording.computing(extended), kind, selection, name, joined=False, keeping=keeping)
        constants = None if steps else constants
        is_finite = not constants or _are_finite(linearization, constants)
        if constants and is_finite:
            here = recording.computing(_with_constants(recording.tape, constants))
            linearization = linearized(here, kind, selection, name, joined=False)
    preparation.expect(*counts_of(linearization), compiles=False)
    with preparation.stage("plan"):
        plan = plan_of(linearization, preparation.context)
    with preparation.stage("emit"):
        tape, values = emit(plan.accumulation), recording.results
        nonzeros = Nonzeros.of(linearization, sorted(plan.accumulation.entries))
        behind = values + len(recording.guards)
        solutions, entries_from = tape.outputs[behind : len(extended.outputs)], len(extended.outputs)
        computed = np.array(tape.outputs[: values * kind.values] + tape.outputs[entries_from:], np.int64)
        guards, layout = tape.outputs[values:behind], _layout(recording, kind, selection, nonzeros)
        tape.outputs = [*_entries(layout, computed, tape.constant(0.0)).tolist(), *guards]
        if constants and not is_finite and points is not None and points.shape[1] == tape.inputs:
            _mark_undefined(tape, constants, points)
        joined = None
        if steps:
            values_within, at = within_rules(extended)
            joined = with_steps(values_within, {int(at[k]): int(at[x]) for k, x in steps.items()}, tape, solutions)
        if steps and joined is None:
            _check_attached(recording, inputs_of(recording, selection.positions), name, points)
        tape = joined if joined is not None else canonical(tape, differentiated=True)
    made = recording.returning(Program.of(tape), layout.shapes, layout.structure)
    return replace(made, follows_rules=follows_rules)


def _with_constants(tape: Tape, constants: Mapping[int, float]) -> Tape:
    """Return the tape with numbers in place of inputs; derivatives with respect to these inputs remain."""
    made = Tape(tape.inputs, signed_zeros=tape.signed_zeros, literal=tape.literal)
    inputs = list(range(tape.inputs))
    for k, number in constants.items():
        inputs[k] = made.apply_code(_ATTACH, (made.constant(number), k))
    made.outputs = copied(tape, made, inputs)
    return made


def _are_finite(linearization: Linearization, constants: Mapping[int, float]) -> bool:
    """Return True if no partial derivative is infinite or undefined when inputs have these constant values.

    Otherwise a zero on the same path does not determine the derivative: |x|² is flat at 0, |x| is not.
    """
    tape = linearization.tape.copy()
    tape.outputs = list(linearization.graph.labels)
    labels, _ = unattached(_with_constants(tape, constants))
    numbers = [labels.value_of(reference) for reference in labels.outputs if reference < 0]
    return bool(np.isfinite(numbers).all())


def _mark_undefined(tape: Tape, constants: Mapping[int, float], points: NDArray[np.float64]) -> None:
    """Replace outputs by NaN if they are NaN when inputs have these constant values, before zeros are folded."""
    here, numbers = list(constants), np.array([*constants.values()])
    moved = points.copy()

    def undefined_at(step: float) -> NDArray[np.bool_]:
        moved[:, here] = numbers + step * (1.0 + np.abs(numbers))
        return np.array([row.all() for row in np.isnan(outputs_at(tape, moved))], bool)

    # a value that is undefined next to these constants, too, is undefined because of the other inputs, whose values
    # vary
    undefined = undefined_at(0.0) & ~(undefined_at(_BESIDE) & undefined_at(-_BESIDE))
    nan = tape.constant(math.nan)  # its own derivatives are undefined, too
    for k in np.flatnonzero(undefined).tolist():
        tape.outputs[k] = tape.multiply(nan, tape.add(tape.outputs[k], nan))


def _between_equations(
    recording: Recording, kind: DerivativeKind, selection: Selection, preparation: Preparation, by_products: bool
) -> Recording:
    """Return the recording of derivatives as loops, of a program with loops.

    Raises:
        SizeError: if the derivatives are too many for loops, or attached derivatives prevent them. A maximum of several
            values does not: its attached derivatives equal, to every order, those of another expression of the value.
    """
    if not _have_all_orders(recording.program, preparation.points):
        raise SizeError(f"{preparation.name} has values with attached derivatives; expected operations alone")
    with preparation.stage("plan"):
        derivatives = differentiated(recording, kind, selection, preparation.context, by_products=by_products)
    tape, layout = derivatives.tape, _layout(recording, kind, selection, derivatives.nonzeros)
    computed = np.concatenate([derivatives.values[: len(derivatives.values) * kind.values], derivatives.entries])
    tape.outputs = np.concatenate([_entries(layout, computed, tape.constant(0.0)), derivatives.guards])
    return recording.returning(tape, layout.shapes, layout.structure)


def _layout(recording: Recording, kind: DerivativeKind, selection: Selection, nonzeros: Nonzeros) -> Results:
    return Results(recording, nonzeros, selection, kind=kind, sparse=None, dtype=np.dtype(float))


def _entries(layout: Results, computed: NDArray[np.int64], zero: int) -> NDArray[np.int64]:
    """Return references of the entries of all results, one array after the other."""
    parts = [np.empty(0, np.int64)]
    for segment in layout.segments:
        entries = np.full(segment.length, zero, np.int64)
        entries[segment.positions] = computed[segment.outputs]
        parts.append(entries)
    return np.concatenate(parts)


def of_gradient(
    recording: Recording, kind: DerivativeKind, selection: Selection, name: str
) -> tuple[Recording, Linearization]:
    """Return the recording of the gradient, and its graph with a mirror, so that only one triangle is planned.

    Args:
        recording: recording of a function that returns one number, without attached derivatives.
        kind: kind with a Hessian.
        selection: differentiated arguments.
        name: name of the function, for messages.
    """
    tape, columns = recording.tape.copy(), inputs_of(recording, selection.positions).tolist()
    value, *guards = tape.outputs
    joined = [holds_of(tape, np.array(guards))] if guards else []
    tape.outputs = [value, *guards, *joined]
    triangle = None if selection.places is None else selection.places.lower_triangle().tolist()
    linearization = linearize_gradient(tape, columns, name, triangle)
    made = linearization.tape
    behind = 1 + len(guards)
    results = made.outputs[: kind.skipped] + made.outputs[behind + len(joined) :]
    gradient_tape = made.copy()
    gradient_tape.outputs = [*results, *made.outputs[1:behind]]
    made.outputs = [*results, *made.outputs[behind : behind + len(joined)]]
    shapes = [recording.argument_shapes[k] or () for k in selection.positions]
    structure = together([Leaf()] * kind.skipped + [selection.structure]) if kind.skipped else selection.structure
    gradient = recording.returning(Program.of(gradient_tape), [()] * kind.skipped + shapes, structure)
    return gradient, replace(linearization, rows=(-1,) * kind.skipped + tuple(range(len(columns))))


def check_number(recording: Recording, kind: DerivativeKind, name: str) -> None:
    """Raise an error for the gradient of a function that returns more than one number.

    Raises:
        ArgumentError: if the kind requires one number and the recording returns anything else.
    """
    if not kind.needs_number or recording.is_number:
        return
    shapes = ", ".join(map(str, recording.result_shapes))
    if kind.first is None:
        to_do = "use jacobian"
    else:
        to_do = "weight its entries, by hessian_of_lagrangian, or use jacobian(jacobian(f))"
    raise ArgumentError(f"{kind.name} needs a function that returns one number; {name} returns shape {shapes}: {to_do}")


def points_around(point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a point and a second one near it."""
    spread = 1e-3 * Spread().uniform(1.0, 2.0, point.shape)
    return np.stack([point, point * (1.0 + spread) + spread * (point == 0)])


def checked_attached(
    recording: Recording, inputs: NDArray[np.int64], name: str, points: NDArray[np.float64] | None
) -> dict[int, int] | None:
    """Return the values whose attached value is equal, as solutions for `newton_steps`; None if there are none.

    The maximum of values, some of them equal, has the derivative of their mean, which no comparison has. The
    derivatives of the operations cannot replace it, even where first derivatives agree. The result is None if there are
    further attached derivatives; these have to equal the derivatives of their operations.

    Raises:
        ArgumentError: if attached derivatives differ from those of the operations.
    """
    equal_values = _in_other_words(recording.tape, points)
    if not equal_values:
        _check_attached(recording, inputs, name, points)
    return equal_values or None


def _in_other_words(tape: Tape, points: NDArray[np.float64] | None) -> dict[int, int]:
    """Return the needed values with attached derivatives if all attached values equal them; else an empty dict.

    Lasting values, which derivatives of every order keep, are left out.
    """
    need = needed(tape, values=False)
    solutions = [k for k in attached_values(tape) if need[k]]
    if not solutions:
        return {}
    held = (k for k in range(tape.inputs, len(tape)) if tape.codes[k] == _ATTACH and tape.second[k] < 0)
    fixed = depending(tape, held)
    if any(fixed[k] for k in solutions):
        return {}
    values = tape.copy()
    values.outputs = [side[k] for side in (tape.first, tape.second) for k in solutions]
    return {k: k for k in solutions} if _are_same(values, points) else {}


def _have_all_orders(tape: Program, points: NDArray[np.float64] | None) -> bool:
    """Return True if all attached derivatives of a program over arrays belong to values equal to the original ones."""
    blocks = [block for block in tape.blocks if _ATTACH in block.codes]
    if not blocks:
        return True
    values, attached = [], []
    for block in blocks:
        if block.body is not None:
            if not _body_has_all_orders(block.body):
                return False
            continue
        value, slope = map(references_in, block.operands)
        constant = slope < 0
        if (tape.values_of(slope[constant]) == 0.0).any():
            return False
        values.append(value[~constant])
        attached.append(slope[~constant])
    if not sum(map(len, values)):
        return True
    outputs = tape.outputs
    try:
        tape.outputs = np.concatenate([*values, *attached])
        return _are_same(tape, points)
    finally:
        tape.outputs = outputs


def _body_has_all_orders(body: Tape) -> bool:
    """Return True if all attached derivatives of a body belong to values equal to the original ones, for all inputs."""
    solutions, values = attached_values(body), body.copy()
    values.outputs = [side[k] for side in (body.first, body.second) for k in solutions]
    return not solutions or (min(values.outputs) >= 0 and _are_same(values, None))


def _are_same(program: Tape | Program, points: NDArray[np.float64] | None) -> bool:
    """Return True if the first half of the outputs equals the second half, at `points` and at random points."""
    random = np.random.default_rng(0).uniform(0.5, 1.5, (2, program.inputs))
    one, other = np.split(outputs_at(program, random if points is None else np.concatenate([points, random])), 2)
    with np.errstate(all="ignore"):
        finite = np.isfinite(one) & np.isfinite(other)
        same = np.abs(one - other)[finite] <= _CLOSE * np.abs(one[finite])
    return bool(finite.any(axis=1).all() and same.all())


def _check_attached(
    recording: Recording, inputs: NDArray[np.int64], name: str, points: NDArray[np.float64] | None
) -> None:
    """Raise an error for attached derivatives that differ from those of the operations.

    A value may have an attached derivative: the derivative of a root, if the operations are steps of an iteration; or
    that of the mean, at a tie of values. Derivatives of derivatives go through the operations. This is correct only if
    the operations have the same derivative. Values with rules and constants keep theirs.
    """
    tape = recording.tape
    if _ATTACH not in tape.codes:
        return
    if points is None:
        points = points_around(Spread().uniform(0.5, 1.5, (tape.inputs,)))
    plain, _ = unattached(tape, keeping=True)
    with np.errstate(all="ignore"):
        one, other = (_derivatives(each, inputs, recording.results, points) for each in (tape, plain))
    finite = np.isfinite(one) & np.isfinite(other)
    scale = np.abs(one[finite]).max(initial=0.0)
    if finite.any() and (np.abs(one - other)[finite] <= _CLOSE * scale).all() and (np.isnan(one) == ~finite).all():
        return
    raise ArgumentError(
        f"{name} has values whose derivatives are not those of their operations (solutions of equations next to ties "
        "of extremes), which derivatives of its derivatives would ignore. Remove these values, or use finite "
        "differences of the derivative"
    )


def _derivatives(
    tape: Tape, inputs: NDArray[np.int64], results: int, points: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return all derivatives at some points, (derivatives, points), and a row of zeros."""
    function_tape = tape.copy()
    function_tape.outputs = function_tape.outputs[:results]
    linearization = linearize(function_tape, inputs.tolist())
    quick = Options(effort="fast", time_limit=0.0, cache=False)
    plan = find_plan(linearization.graph, Context(quick))
    emitted = emit(plan.accumulation)
    values = evaluate(emitted, list(np.ascontiguousarray(points.T)))[results:]
    dense = np.zeros((len(linearization.graph.roots), len(inputs), len(points)))
    places, _ = plan.accumulation.ordered_entries()
    for (root, terminal), value in zip(places.tolist(), values, strict=True):
        dense[root, terminal] = value
    rows = np.array(linearization.rows)
    return np.concatenate([dense[rows[rows >= 0]].reshape(-1, len(points)), np.zeros((1, len(points)))])
