"""Roots of equations within recorded functions: steps of Newton's method, and the derivative of one more step.

The residual r(y, p) is recorded once, as a body, with its Jacobian with respect to y. Each step is that body again, and
a linear system. The root y is recorded as a value with the derivative of y₀ - W·r(y₀, p). Here y₀ is the same root, W
is the inverse of the Jacobian there, and both are constants: the implicit function theorem. The iteration is not
differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, OpaqueError, SizeError
from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.decisions import point_at
from accumulus.frontends.inner import LongBodyError
from accumulus.frontends.numpy.arrays import TracedArray, make
from accumulus.frontends.numpy.bodies import as_numbers, recorded_body
from accumulus.frontends.numpy.calling import called
from accumulus.frontends.numpy.linalg.factorisations import attached, fixed
from accumulus.frontends.numpy.linalg.systems import solve
from accumulus.frontends.numpy.operands import entries_of, references_of
from accumulus.frontends.numpy.patching import patched, replaced
from accumulus.frontends.numpy.scalars import Traced
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import Leaf, flatten, unflatten
from accumulus.options import Options
from accumulus.programs.derived import derived, points_around
from accumulus.programs.kinds import VALUE_AND_JACOBIAN
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection
from accumulus.tape.interpreter import copied
from accumulus.tape.program import Program
from accumulus.tape.systems import products
from accumulus.tape.tape import Tape

#: Number of last steps that have to be within the tolerance. With more, roots need further steps to be accepted; with
#: one, a step that is small by chance is accepted.
_SMALL: Final = 2
#: Maximum number of operations of all steps, which are written out: more take longer and more memory to prepare, fewer
#: exclude equations that could still be prepared.
_MOST: Final = 5_000_000
#: Operations for each product of an elimination: a difference, and the selection of two rows. A larger one
#: excludes equations that fit, a smaller one records equations that raise an error later.
_PER_PRODUCT: Final = 4


def root(
    residual: Callable[..., Any],
    guess: Any,
    parameters: Sequence[Any],
    name: str,
    *,
    steps: int,
    rtol: float,
    atol: float,
) -> Any:
    """Return the root of a residual near a guess, in the guess's structure, as traced values; NaN if not found.

    Args:
        residual: function of the unknowns, in the guess's structure, and of the parameters.
        guess: start of the iteration, in the structure and shapes of the root.
        parameters: further arguments of the residual.
        name: name of the residual, for messages.
        steps: number of Newton steps.
        rtol: relative tolerance of the last two steps, which are at most ``atol + rtol * abs(y)`` for each unknown y.
        atol: absolute tolerance, in units of y.

    Raises:
        ArgumentError: for a guess that does not consist of real numbers; if the numbers of residuals and unknowns
            differ; or if the Jacobian is structurally singular, with a residual that depends on no unknown or an
            unknown in no residual.
        SizeError: if the steps would be too many operations.
        TraceError: for an operation that cannot be recorded, such as a branch on unknowns that is not a selection.
    """
    outer: Any = ACTIVE.tape
    structure, leaves = flatten(guess)
    start = np.concatenate([_unknowns(outer, path, leaf, name) for path, leaf in leaves])
    shapes_of_unknowns = [(np.shape(leaf), False) for _, leaf in leaves]
    with patched(residual):
        function = replaced(residual) if ACTIVE.decisions is None else called(replaced(residual))
        most = _MOST // steps
        try:
            body = recorded_body(lambda y: function(y, *parameters), [(structure, shapes_of_unknowns)], outer, most)
        except LongBodyError as error:
            if error.args:
                raise refuse(str(OpaqueError.of(error.args[0], f"the residual of {name}")), OpaqueError) from None
            raise _too_long(name, steps, most) from None
    count, taken = len(start), body.taken
    if len(body.tape.outputs) != count or any(boolean for _, boolean in body.results):
        raise ArgumentError(
            f"{name} returns {len(body.tape.outputs)} entries for {count} unknowns; expected a real number for each"
        )
    slices = slice(0, count), slice(count, count + len(taken))
    shapes: tuple[tuple[int, ...], ...] = ((count,), (len(taken),))
    recording = Recording(Program.of(body.tape), shapes, slices, ((count,),), Leaf())
    point = point_at(outer, np.concatenate([start, taken]))
    with Preparation(name, Options.of(effort="fast")) as preparation:
        near = None if point is None else points_around(point)
        equations = derived(recording, VALUE_AND_JACOBIAN, Selection.of(0), preparation, near).tape
    pattern = _checked_pattern(equations, count, name)
    work = equations.operations + _PER_PRODUCT * products(pattern)
    if work > most:
        raise _too_long(name, steps, work)
    newton = _newton(equations, count, steps, rtol, atol)
    root_references = np.array(copied(newton, outer, [*start.tolist(), *taken.tolist()]), np.int64)
    values = TracedArray(outer, root_references)
    at = fixed(outer, values)
    point_and_parameters = [*references_of(outer, at).tolist(), *taken.tolist()]
    entries = np.array(copied(equations, outer, point_and_parameters), np.int64)[count:]
    matrix = fixed(outer, TracedArray(outer, entries.reshape(count, count)))
    # values in derivatives may have other rules, see `accumulus.tape.live.Rules`
    residuals = np.array(copied(recording.tape, outer, point_and_parameters), np.int64)
    step = solve(outer, matrix, TracedArray(outer, residuals), banded=True)
    solution = references_of(outer, attached(outer, values, -step))
    first_of = {value: position for position, value in reversed([*enumerate(root_references.tolist())])}
    # equal unknowns share one solution
    solution = solution[[first_of[value] for value in root_references.tolist()]]
    roots, first = [], 0
    for shape, _ in shapes_of_unknowns:
        size = int(np.prod(shape))
        piece = solution[first : first + size].reshape(shape)
        roots.append(make(outer, piece if shape else int(piece)))
        first += size
    return unflatten(structure, roots)


def _unknowns(tape: Tape, path: str, leaf: Any, name: str) -> NDArray[np.int64]:
    """Return references of a leaf of the guess."""
    boolean = leaf.boolean if isinstance(leaf, Traced) else as_numbers(leaf, path).dtype.kind in "bc"
    if boolean or np.iscomplexobj(leaf):
        raise ArgumentError(f"guess{path} for {name} is {type(leaf).__name__} {leaf!r:.60}; expected real numbers")
    return np.ravel(np.asarray(entries_of(tape, leaf)[0], np.int64))


def _too_long(name: str, steps: int, work: int) -> SizeError:
    return SizeError(
        f"each of the {steps} steps of {name} would be {work:,} operations or more, and they are written out one by "
        f"one; expected at most {_MOST // steps:,}. Fewer unknowns, or residuals that each depend on few of them, "
        "take less; a root from another solver needs only steps=1"
    )


def _checked_pattern(equations: Tape, count: int, name: str) -> NDArray[np.bool_]:
    """Return the structural nonzeros of the Jacobian; raise an error for an empty row or column."""
    jacobian = equations.outputs[count:]
    is_nonzero = np.array([r >= 0 or equations.value_of(r) != 0.0 for r in jacobian]).reshape(count, count)
    for axis, subject, other in ((1, "residual", "unknown"), (0, "unknown", "residual")):
        alone = np.flatnonzero(~is_nonzero.any(axis=axis))
        if len(alone):
            depends = "depends on no" if axis else "is in no"
            raise ArgumentError(
                f"{subject} {alone[0]} of {name} {depends} {other}, so that its Jacobian is singular everywhere; "
                "expected as many independent equations as unknowns"
            )
    return is_nonzero


def _newton(equations: Tape, count: int, steps: int, rtol: float, atol: float) -> Tape:
    """Return the iteration as a tape from the guess and the residuals' further inputs to the root.

    Args:
        equations: residuals and their Jacobian, as functions of the unknowns and further inputs.
        count: number of unknowns.
        steps: number of Newton steps.
        rtol: relative tolerance of the last two steps.
        atol: absolute tolerance of the last two steps.
    """
    tape = Tape(equations.inputs)
    y, parameters = list(range(count)), list(range(count, equations.inputs))
    converged = tape.constant(1.0)
    for step in range(steps):
        values = copied(equations, tape, [*y, *parameters])
        matrix = TracedArray(tape, np.array(values[count:], np.int64).reshape(count, count))
        changes = references_of(
            tape, solve(tape, matrix, TracedArray(tape, np.array(values[:count], np.int64)), banded=True)
        )
        y = [tape.subtract(value, change) for value, change in zip(y, changes.tolist(), strict=True)]
        if step >= steps - _SMALL:
            for value, change in zip(y, changes.tolist(), strict=True):
                scale = tape.multiply(tape.constant(rtol), tape.apply("abs", value))
                most = tape.add(tape.constant(atol), scale)
                small = tape.apply("less_equal", tape.apply("abs", change), most)
                converged = small if converged < 0 else tape.logical_and(converged, small)
    tape.outputs = [tape.select(converged, value, tape.constant(np.nan)) for value in y]
    return tape
