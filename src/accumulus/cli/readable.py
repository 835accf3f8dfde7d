"""What NumPy source says about a derivative, in the words of the user's source: names of arguments, values and entries.

Values are recognised by their numbers at random points: a program that was rewritten computes what the function
computes in other operations, but what has a name in the function is mostly still computed somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from accumulus.frontends.names import NamedValues, entry_of
from accumulus.programs.kinds import Seeds
from accumulus.programs.program import Program
from accumulus.tape.evaluate import evaluate
from accumulus.tape.tape import Tape
from accumulus.targets.numpy_source import Labels

__all__ = ["labels_of"]

#: Points at which values are compared; of these, so many have to be finite.
POINTS: Final = 12
FINITE: Final = 4
#: Relative difference of what is the same, up to rounding.
TOLERANCE: Final = 1e-9


def labels_of(program: Program, names: NamedValues | None, parameters: Sequence[str]) -> Labels:
    """What is to be written beside a program.

    Args:
        program: a derivative.
        names: of what its function computes.
        parameters: names of the numeric arguments, those of the function first.
    """
    values = {} if names is None else _recognised(program.tape, names)
    return Labels(tuple(parameters), values, tuple(map(tuple, _entries(program, parameters))))


def _recognised(tape: Tape, names: NamedValues) -> dict[int, str]:
    """What operations of a program compute, as far as the function computes it, too."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0.2, 1.8, (tape.inputs, POINTS))
    points[:, POINTS // 2 :] *= rng.choice([-1.0, 1.0], (tape.inputs, POINTS - POINTS // 2))
    wanted, given = _values(names.tape, points[: names.tape.inputs]), _values(tape, points)
    known = np.array(list(wanted), np.intp)
    table = np.array(list(wanted.values())).reshape(-1, POINTS)
    column = int(np.argmax(np.isfinite(table).sum(axis=0)))
    order = np.argsort(table[:, column])
    known, table = known[order], table[order]
    found = {}
    for reference, numbers in given.items():
        at, room = numbers[column], TOLERANCE * abs(numbers[column])
        first = np.searchsorted(table[:, column], at - room, "left")
        last = np.searchsorted(table[:, column], at + room, "right")
        same = [int(known[k]) for k in range(first, last) if _is_same(table[k], numbers)]
        # of several that compute the same, one that has a name
        if same and (text := names.described(min(same, key=lambda r: (r not in names.names, r)))):
            found[reference] = text
    return found


def _is_same(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    finite = np.isfinite(one) & np.isfinite(other)
    close = np.abs(one[finite] - other[finite]) <= TOLERANCE * np.abs(other[finite])
    return bool(len(close) >= FINITE and close.all())


def _values(tape: Tape, points: NDArray[np.float64]) -> dict[int, NDArray[np.float64]]:
    """Numbers of all real operations that are not the same at all points."""
    whole = tape.copy()
    whole.outputs = [reference for reference in range(tape.inputs, len(tape)) if not tape.is_boolean(reference)]
    rows = (np.broadcast_to(row, POINTS) for row in evaluate(whole, list(points)))
    return {reference: row for reference, row in zip(whole.outputs, rows, strict=True) if len(set(row.tolist())) > 1}


def _entries(program: Program, parameters: Sequence[str]) -> Iterator[list[str]]:
    """What each entry of each array is; nothing for those of which only some are stored."""
    kind, recording, selection = program.kind, program.recording, program._selection
    shapes = {k: shape for k, shape in enumerate(recording.argument_shapes) if shape is not None}
    inputs = [
        [entry_of(name, index) for index in np.ndindex(shape)]
        for name, shape in zip(parameters, shapes.values(), strict=True)
    ]
    numeric = list(shapes)
    differentiated = [inputs[numeric.index(k)] for k in selection.positions]
    rows = _results(program, differentiated)
    if kind.values:
        yield from rows
    plain = program.options.sparse is None and selection.places is None and selection.several is None
    if not plain:
        return
    if kind.seeds is Seeds.TANGENTS:
        yield from ([f"change of {entry} along the direction" for entry in row] for row in rows)
    elif kind.seeds is Seeds.COTANGENTS:
        weighted = " of the weighted sum" if len(rows) > 1 or len(rows[0]) > 1 else ""
        yield from ([f"derivative{weighted} by {column}" for column in columns] for columns in differentiated)
    elif kind.derivatives:
        for row in rows[kind.skipped :]:
            for columns in differentiated:
                yield [_derivative(entry, column) for entry in row for column in columns]


def _results(program: Program, differentiated: Sequence[Sequence[str]]) -> list[list[str]]:
    """Entries of what is differentiated, by leaf: of the function, or of its gradient."""
    kind, recording, name = program.kind, program.recording, program.name
    if kind.first is not None:
        gradient = [[_derivative(name, column) for column in columns] for columns in differentiated]
        return [[name]] * kind.first.values + gradient
    found, first = [], 0
    for shape in recording.result_shapes:
        size = int(np.prod(shape))
        found.append([f"{name}{recording.entry_name(k)}" for k in range(first, first + size)])
        first += size
    return found


def _derivative(entry: str, by: str) -> str:
    if entry.startswith("d "):
        above, _, below = entry[2:].partition(" / ")
        return f"d² {above} / {below} d {by}"
    return f"d {entry} / d {by}"
