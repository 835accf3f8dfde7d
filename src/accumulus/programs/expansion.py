"""Recordings of Taylor coefficients: of a function along a path of its arguments."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accumulus.elimination.implicit import newton_steps
from accumulus.frontends.inner import replayed
from accumulus.frontends.recorder import Recording
from accumulus.frontends.trees import Leaf, together
from accumulus.programs.argnums import Selection
from accumulus.programs.derived import checked_attached, derived
from accumulus.programs.kinds import JACOBIAN
from accumulus.programs.preparation import Preparation
from accumulus.programs.seeds import entries_of_seeds, inputs_of
from accumulus.tape.live import of_all_orders, unattached
from accumulus.tape.passes import moved
from accumulus.tape.tape import Tape
from accumulus.tape.taylor import taylor_coefficients

__all__ = ["expanded"]


def expanded(
    recording: Recording, selection: Selection, preparation: Preparation, points: NDArray[np.float64] | None = None
) -> Recording:
    """The values of a recording and their Taylor coefficients, as a recording of the same arguments.

    Args:
        recording: without blocks, with arguments that are coefficients of others.
        points: at which the recording holds, (points, inputs).

    Raises:
        ArgumentError: if values have derivatives that are neither those of their operations nor of solutions.
    """
    values, order = recording.results, selection.seed_count
    inputs = inputs_of(recording, selection.positions)
    with preparation.stage("linearize"):
        recording = replace(recording, tape=of_all_orders(recording.scalars))
        steps = newton_steps(recording.scalars, points)
        keeping = steps is not None
        if steps is None:
            steps = checked_attached(recording, inputs, preparation.name, points)
    paths = dict(zip(inputs.tolist(), entries_of_seeds(recording, selection).T.tolist(), strict=True))
    if steps:
        tape, coefficients = _by_derivatives(recording, paths, order, preparation, points)
    else:
        with preparation.stage("linearize"):
            # what lasts has series of its own: that of the derivative, behind the value
            tape = unattached(recording.scalars, keeping=keeping)[0].copy()
            results, guards = tape.outputs[:values], tape.outputs[values:]
            tape.outputs = results
            coefficients = taylor_coefficients(tape, paths, order)
            tape.outputs = [*results, *guards]
            tape, places = unattached(tape)
            coefficients = moved(np.array(coefficients, np.int64).reshape(-1, order), places).tolist()
    outputs, first, shapes = tape.outputs[:values], 0, list(recording.result_shapes)
    for shape in recording.result_shapes:
        entries = coefficients[first : first + math.prod(shape)]
        first += len(entries)
        outputs += [entry[k] for k in range(order) for entry in entries]
        shapes.append(shape if selection.several is None else (order, *shape))
    tape.outputs = [*outputs, *tape.outputs[values:]]
    return replace(
        recording,
        tape=tape,
        result_shapes=tuple(shapes),
        structure=together([recording.structure, recording.structure]),
        other=None,
        unrolled=0,
    )


def _by_derivatives(
    recording: Recording,
    paths: dict[int, list[int]],
    order: int,
    preparation: Preparation,
    points: NDArray[np.float64] | None,
) -> tuple[Tape, list[list[int]]]:
    """The tape, and coefficients of its results: derivatives by t of a function of t, one after the other.

    Solutions of equations have derivatives of every order in that way, whatever has found them.
    """
    given, values = recording.scalars, recording.results
    along = Tape(1 + given.inputs)
    at = []
    for k in range(given.inputs):
        shift = along.constant(0.0)
        for coefficient in reversed(paths.get(k, [])):
            shift = along.multiply(0, along.add(shift, coefficient + 1))
        at.append(along.add(k + 1, shift))
    along.outputs = replayed(given, along, at)[:values]
    slices = slice(0, 1), slice(1, along.inputs)
    current = Recording(along, ((), (given.inputs,)), slices, ((values,),), Leaf())
    near = None if points is None else np.insert(points, 0, 0.0, axis=1)
    tape, found = given.copy(), []
    for k in range(1, order + 1):
        current = derived(current, JACOBIAN, Selection.of(0), preparation, near)
        slopes = replayed(current.scalars, tape, [tape.constant(0.0), *range(given.inputs)])
        share = tape.constant(1.0 / math.factorial(k))
        found.append([tape.multiply(share, slope) for slope in slopes])
    return tape, [list(row) for row in zip(*found, strict=True)]
